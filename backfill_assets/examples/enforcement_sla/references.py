"""References of the deadlines: facts outside the events, and the validation of their files.

Two documents, each naming its version: when the days of a jurisdiction count (`jurisdiction_calendar`), and which
clocks a case carries there (`sla_policy`). A document is parsed into values that cannot change, or refused with one
sentence that says where the mistake is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Any
from zoneinfo import available_timezones

from backfill_assets.domain import InvalidReference

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MOST_DAYS = 10_000
"""No clock runs for more than 27 years: a longer one is a slip of the keyboard."""


class DayKind(StrEnum):
    """The kind of days that a clock counts."""

    CALENDAR = "calendar"
    BUSINESS = "business"


@dataclass(frozen=True, slots=True, kw_only=True)
class Jurisdiction:
    """Where a case is decided: its time zone, and the days on which it is closed."""

    name: str  #: The name that events use.
    timezone: str  #: An IANA name.
    weekend: frozenset[int]  #: Days of the week that are not business days, Monday being 0.
    holidays: frozenset[date]  #: Dates that are not business days.

    def is_countable(self, day: date, kind: DayKind) -> bool:
        """True if a clock of that kind counts the day when it is not paused."""
        return kind is DayKind.CALENDAR or (day.weekday() not in self.weekend and day not in self.holidays)


@dataclass(frozen=True, slots=True, kw_only=True)
class JurisdictionCalendar:
    """The document `jurisdiction_calendar`."""

    version: str
    jurisdictions: tuple[Jurisdiction, ...]

    def named(self, name: str) -> Jurisdiction | None:
        return next((jurisdiction for jurisdiction in self.jurisdictions if jurisdiction.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """A deadline that every case of a jurisdiction carries."""

    jurisdiction: str
    name: str
    starts_on: frozenset[str]  #: Event types that start it, again each time.
    stops_on: frozenset[str]  #: Event types that stop it.
    pauses_on: frozenset[str]  #: Event types that suspend it.
    resumes_on: frozenset[str]  #: Event types that let it run again.
    limit_days: int  #: How many days may count before it is breached.
    day_kind: DayKind  #: Which days count.
    tracked_days: int  #: For how many days after its start it is reported.

    @property
    def event_types(self) -> frozenset[str]:
        return self.starts_on | self.stops_on | self.pauses_on | self.resumes_on


@dataclass(frozen=True, slots=True, kw_only=True)
class SlaPolicy:
    """The document `sla_policy`."""

    version: str
    clocks: tuple[Clock, ...]

    @property
    def tracked_days(self) -> int:
        """The longest time for which any clock is reported."""
        return max(clock.tracked_days for clock in self.clocks)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlineRules:
    """The calendar and the policy that were read together, and agree with each other."""

    calendar: JurisdictionCalendar
    policy: SlaPolicy

    @staticmethod
    def from_references(references: Mapping[str, Any]) -> DeadlineRules:
        """Brings the two documents together.

        A clock whose jurisdiction the calendar lacks could only be left out, and its cases would vanish from the
        published table. So that is refused, as early as the window is asked for. The other way round is fine: a
        jurisdiction without clocks has no deadlines.

        Raises:
            InvalidReference: The policy has a clock for a jurisdiction that the calendar does not list.
        """
        calendar: JurisdictionCalendar = references["jurisdiction_calendar"]
        policy: SlaPolicy = references["sla_policy"]
        lacking = sorted({c.jurisdiction for c in policy.clocks if calendar.named(c.jurisdiction) is None})
        if lacking:
            raise InvalidReference(
                f"sla_policy {policy.version} has clocks for {', '.join(lacking)}, which jurisdiction_calendar "
                f"{calendar.version} does not list with a time zone, a weekend and holidays."
            )
        return DeadlineRules(calendar=calendar, policy=policy)

    def countable_days(self, first: date, last: date) -> Iterator[CountableDay]:
        """Every day from `first` until past `last` by as many countable days as the longest limit, for each calendar.

        That is far enough for the due date of every row on or before `last`, and for the day after it.
        """
        limits: dict[tuple[str, DayKind], int] = {}
        for clock in self.policy.clocks:
            calendar = (clock.jurisdiction, clock.day_kind)
            limits[calendar] = max(clock.limit_days, limits.get(calendar, 0))
        for (name, kind), limit in limits.items():
            jurisdiction = self.calendar.named(name)
            assert jurisdiction is not None, "from_references refuses clocks without a calendar"
            day, counted, ahead = first, 0, 0
            while day <= last or ahead <= limit:
                countable = jurisdiction.is_countable(day, kind)
                counted += countable
                ahead += countable and day > last
                yield CountableDay(
                    jurisdiction=name, day_kind=kind, day=day, is_countable=countable, days_counted=counted
                )
                day += timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountableDay:
    """A day of a jurisdiction, and how many countable days there were up to and including it."""

    jurisdiction: str
    day_kind: DayKind
    day: date
    is_countable: bool
    days_counted: int


# ------------------------------------------------------------------------------------------------------- parsing


def parse_jurisdiction_calendar(document: Any) -> JurisdictionCalendar:
    """From the YAML document to the calendar.

    Args:
        document: `version`, and `jurisdictions` by name, each with `timezone`, `weekend` and `holidays`.

    Raises:
        ValueError: What is wrong, and where.
    """
    fields = _Part(document)
    version, jurisdictions = fields["version"].text(), fields["jurisdictions"]
    if not jurisdictions.mapping():
        raise ValueError("jurisdictions is empty; at least one is needed")
    zones = available_timezones()
    return JurisdictionCalendar(
        version=version,
        jurisdictions=tuple(
            _jurisdiction(jurisdictions[_Part(name, "a name in jurisdictions").text()], name, zones)
            for name in jurisdictions.mapping()
        ),
    )


def parse_sla_policy(document: Any) -> SlaPolicy:
    """From the YAML document to the policy.

    Args:
        document: `version`, and the list `clocks`.

    Raises:
        ValueError: What is wrong, and where.
    """
    fields = _Part(document)
    version = fields["version"].text()
    clocks = tuple(_clock(entry) for entry in fields["clocks"].parts())
    if not clocks:
        raise ValueError("clocks is empty; at least one is needed")
    first_seen: dict[tuple[str, str], int] = {}
    for position, clock in enumerate(clocks):
        earlier = first_seen.setdefault((clock.jurisdiction, clock.name), position)
        if earlier != position:
            raise ValueError(
                f"clocks[{position}] declares the clock {clock.name!r} of {clock.jurisdiction} again; "
                f"clocks[{earlier}] already does"
            )
    return SlaPolicy(version=version, clocks=clocks)


def _jurisdiction(entry: _Part, name: str, zones: set[str]) -> Jurisdiction:
    timezone = entry["timezone"].text()
    if timezone not in zones:
        raise ValueError(
            f"{entry.place}.timezone is {timezone!r}, which is not an IANA time zone such as Europe/Rome or "
            "America/New_York"
        )
    weekend = frozenset(day.weekday() for day in entry["weekend"].parts())
    if len(weekend) == len(WEEKDAYS):
        raise ValueError(f"{entry.place}.weekend names all seven days, so no business day would ever come")
    holidays = frozenset(holiday.day() for holiday in entry["holidays"].parts())
    return Jurisdiction(name=name, timezone=timezone, weekend=weekend, holidays=holidays)


def _clock(unnamed: _Part) -> Clock:
    jurisdiction, name = unnamed["jurisdiction"].text(), unnamed["clock"].text()
    entry = _Part(unnamed.value, f"{unnamed.place} ({jurisdiction} {name})")
    starts_on, stops_on, pauses_on, resumes_on = (
        frozenset(event_type.text() for event_type in entry[role].parts())
        for role in ("starts_on", "stops_on", "pauses_on", "resumes_on")
    )
    if not starts_on:
        raise ValueError(f"{entry.place}.starts_on is empty, so the clock would never start")
    both = sorted(pauses_on & resumes_on)
    if both:
        raise ValueError(
            f"{entry.place} names {both[0]!r} in both pauses_on and resumes_on; an event can be in only one"
        )
    day_kind = entry["day_kind"].text()
    if day_kind not in tuple(DayKind):
        raise ValueError(f"{entry.place}.day_kind is {day_kind!r}; it has to be {' or '.join(DayKind)}")
    return Clock(
        jurisdiction=jurisdiction,
        name=name,
        starts_on=starts_on,
        stops_on=stops_on,
        pauses_on=pauses_on,
        resumes_on=resumes_on,
        limit_days=entry["limit_days"].count(at_least=0),
        day_kind=DayKind(day_kind),
        tracked_days=entry["tracked_days"].count(at_least=1),
    )


@dataclass(frozen=True, slots=True)
class _Part:
    """A value of a document, read as what it has to be; `place` is where it stands, for the reader of a refusal."""

    value: Any
    place: str = ""

    def __getitem__(self, key: str) -> _Part:
        if key not in self.mapping():
            raise ValueError(f"{self.place or 'the document'} lacks the key {key!r}")
        return _Part(self.value[key], f"{self.place}.{key}" if self.place else key)

    def mapping(self) -> Mapping[Any, Any]:
        if not isinstance(self.value, Mapping):
            raise ValueError(
                f"{self.place or 'the document'} has to be a mapping of keys to values, but is {self._seen()}"
            )
        return self.value

    def parts(self) -> Sequence[_Part]:
        if not isinstance(self.value, list | tuple):
            raise ValueError(f"{self.place} has to be a list, but is {self._seen()}")
        return [_Part(item, f"{self.place}[{position}]") for position, item in enumerate(self.value)]

    def text(self) -> str:
        # YAML reads an unquoted NO as false, 2024-01 as text and 2024-01-01 as a date: say how to mean text.
        if not isinstance(self.value, str):
            raise ValueError(f"{self.place} has to be text, but is {self._seen()}; put it in quotes")
        if not self.value.strip():
            raise ValueError(f"{self.place} is empty")
        return self.value

    def weekday(self) -> int:
        name = self.text().lower()
        if name not in WEEKDAYS:
            raise ValueError(f"{self.place} is {self.value!r}, which is not a day of the week such as saturday")
        return WEEKDAYS.index(name)

    def count(self, *, at_least: int) -> int:
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            raise ValueError(f"{self.place} has to be a whole number of days, but is {self._seen()}")
        if not at_least <= self.value <= MOST_DAYS:
            raise ValueError(f"{self.place} is {self.value}; it has to lie between {at_least} and {MOST_DAYS}")
        return self.value

    def day(self) -> date:
        # A datetime is a date to isinstance, but a holiday has no time of day.
        if isinstance(self.value, date) and not isinstance(self.value, datetime):
            return self.value
        try:
            parsed = date.fromisoformat(self.value) if isinstance(self.value, str) else None
        except ValueError:
            parsed = None
        # Python also reads 20241225 and 2024-W52-3; one way of writing a date is enough.
        if parsed is not None and parsed.isoformat() == self.value:
            return parsed
        raise ValueError(f"{self.place} is {self.value!r}, which is not a date like 2024-12-25")

    def _seen(self) -> str:
        return "missing" if self.value is None else f"{self.value!r}"

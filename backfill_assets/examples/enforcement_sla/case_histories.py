"""Case histories: generated enforcement cases, from their opening to the last appeal.

Pure and seeded: the same seed and number of cases give the same events on every machine. Events have real times of
day, in office hours or at night through a web portal, so that the UTC date differs from the local one for some of
them: late evenings in New York, early mornings in Rome and Delhi.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

REPORTED_FROM = datetime(2024, 10, 1, tzinfo=UTC)
FIRST_OPENED = date(2024, 10, 2)
"""A day after the first report: in the east, the local day begins on the UTC day before."""

LAST_OPENED = date(2025, 6, 28)
REPORTED_UNTIL = datetime(2025, 7, 2, tzinfo=UTC)
"""Nothing from then on is reported. A day past June, so that June can be complete in every time zone."""

PORTAL_SHARE = 0.35
"""How many events come in through the portal, at any hour of any day; the others in office hours of a weekday."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """Where made-up cases are decided."""

    jurisdiction: str
    timezone: str
    share: float
    usual_days: float  #: How long a decision takes on average, in days.


AUTHORITIES = (
    Authority(jurisdiction="IT", timezone="Europe/Rome", share=0.4, usual_days=30),
    Authority(jurisdiction="US-NY", timezone="America/New_York", share=0.35, usual_days=20),
    Authority(jurisdiction="IN", timezone="Asia/Kolkata", share=0.25, usual_days=26),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseEvent:
    """Something that happened to a case."""

    event_id: str
    case_id: str
    jurisdiction: str
    event_type: str
    happened_at: datetime
    attributes: tuple[tuple[str, str], ...] = ()


def generate_events(*, cases: int, seed: int) -> Iterator[CaseEvent]:
    """The histories of made-up cases, one case after the other, each in the order of time.

    Args:
        cases: How many; about five events each.
        seed: The same seed gives the same events.
    """
    chance = random.Random(seed)  # noqa: S311 - reproducible, not secret
    for number in range(1, cases + 1):
        (authority,) = chance.choices(AUTHORITIES, weights=[authority.share for authority in AUTHORITIES])
        yield from _History(authority, number, chance).events()


class _History:
    """One case being written down: where it is in time, and what has happened so far."""

    def __init__(self, authority: Authority, number: int, chance: random.Random) -> None:
        self._authority = authority
        self._zone = ZoneInfo(authority.timezone)
        self._chance = chance
        days = (LAST_OPENED - FIRST_OPENED).days
        opened_on = FIRST_OPENED + timedelta(days=chance.randint(0, days))
        self._case_id = f"{authority.jurisdiction}-{opened_on.year}-{number:05d}"
        self._at = self._some_time_on(opened_on)
        self._written: list[CaseEvent] = []

    def events(self) -> Iterator[CaseEvent]:
        self._write("CASE_OPENED", channel=self._pick("camera", "inspection", "report"))
        self._decide()
        if self._happens(0.06):
            self._later(5, 20)
            self._write("CASE_REOPENED", ground=self._pick("new_evidence", "wrong_addressee"))
            self._decide()
        return (event for event in self._written if event.happened_at < REPORTED_UNTIL)

    def _decide(self) -> None:
        remaining = max(1, round(self._chance.gauss(self._authority.usual_days, self._authority.usual_days / 3)))
        while self._happens(0.3) and remaining > 2:
            waited = self._chance.randint(1, remaining - 1)
            remaining -= waited
            self._later(waited, waited)
            self._write("INFORMATION_REQUESTED", of=self._pick("owner", "police", "registry"))
            if self._happens(0.08):
                return  # never answered, never decided
            self._later(3, 25)
            self._write("INFORMATION_RECEIVED")
        if self._happens(0.04):
            return  # forgotten
        self._later(remaining, remaining)
        outcome = self._pick("upheld", "upheld", "dismissed")
        self._write("DECISION_ISSUED", outcome=outcome)
        self._later(0, 3)
        self._write("NOTICE_SENT")
        if outcome == "upheld" and self._happens(0.5):
            self._appeal()

    def _appeal(self) -> None:
        self._later(2, 28)
        self._write("APPEAL_FILED", before=self._pick("prefect", "court"))
        if self._happens(0.2):
            self._later(3, 15)
            self._write("HEARING_ADJOURNED")
            self._later(7, 28)
            self._write("HEARING_RESUMED")
        if self._happens(0.9):
            self._later(8, 42)
            self._write("APPEAL_RESOLVED", outcome=self._pick("confirmed", "annulled"))

    def _write(self, event_type: str, **attributes: str) -> None:
        self._written.append(
            CaseEvent(
                event_id=f"{self._case_id}-{len(self._written) + 1:02d}",
                case_id=self._case_id,
                jurisdiction=self._authority.jurisdiction,
                event_type=event_type,
                happened_at=self._at,
                attributes=tuple(attributes.items()),
            )
        )

    def _later(self, least: int, most: int) -> None:
        """Lets some days pass; always at least a few minutes."""
        day = self._at.astimezone(self._zone).date() + timedelta(days=self._chance.randint(least, most))
        soon = self._at + timedelta(minutes=self._chance.randint(5, 90))
        self._at = max(self._some_time_on(day), soon)

    def _some_time_on(self, day: date) -> datetime:
        if self._happens(PORTAL_SHARE):
            second = self._chance.randrange(24 * 3600)
        else:
            day += timedelta(days=max(0, day.weekday() - 4) and 7 - day.weekday())
            second = self._chance.randrange(8 * 3600, 18 * 3600)
        at = datetime.combine(day, time(), tzinfo=self._zone) + timedelta(seconds=second)
        return at.astimezone(UTC)

    def _happens(self, probability: float) -> bool:
        return self._chance.random() < probability

    def _pick(self, *words: str) -> str:
        return self._chance.choice(words)

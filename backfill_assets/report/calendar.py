"""Calendar: every partition of every table in a year, with its accepted version, and whether it is stale."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum

from markupsafe import Markup

from backfill_assets.calendar.partitions import DayRange, Grain, Partitions, count_of, partitions_over
from backfill_assets.core.wording import visible
from backfill_assets.domain import DerivedTable
from backfill_assets.ledger.provenance import DerivedProvenance
from backfill_assets.ledger.records import PartitionVersion
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.report.html import Linked
from backfill_assets.report.page import (
    Chart,
    Items,
    Note,
    Page,
    Section,
    Tone,
    Toned,
    Value,
    joined,
    page,
    partition_ref,
    place_ref,
    section,
    words,
)
from backfill_assets.report.words.states import stale_words
from backfill_assets.staleness.decide import Staleness, StaleRange
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCalendar:
    """The partitions of a table in a year."""

    table: str
    partitions: Partitions  #: From the first to the last that the table ever had, as far as they are in the year.
    accepted: Mapping[date, PartitionVersion]  #: The versions that readers see of them.
    stale: tuple[StaleRange, ...]  #: Which are stale, and why.
    blocked: frozenset[date]  #: Stale partitions that cannot be built again, because an input has no accepted version.
    waiting: Partitions  #: Partitions that were never built and cannot be built yet.
    expired: Partitions  #: Snapshots that have expired; they are none of the partitions.

    @property
    def stale_partitions(self) -> frozenset[date]:
        return frozenset(self.partitions) & {day for each in self.stale for day in each.partitions}


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """The partitions of every table in a year."""

    year: int
    years: tuple[int, ...]  #: The years in which any table ever had a partition.
    as_of: datetime  #: The instant of the question.
    tables: tuple[TableCalendar, ...]  #: Inputs before dependents; tables that are not declared any more at the end.


def calendar(ws: Workspace, year: int | None, stale: Sequence[Staleness]) -> Calendar:
    """A year of every table."""
    known = {each.table: each for each in stale}
    as_of = ws.clock()
    with ws.ledger.read() as tx:
        extents = tx.versions.extents()
        years = _years(extents)
        chosen = year if year is not None else (years[-1] if years else as_of.year)
        of_year = DayRange.inclusive(date(chosen, 1, 1), date(chosen, 12, 31))
        names = [name for name in dict.fromkeys((*ws.domain.tables, *extents)) if name in extents]
        tables = tuple(_table(ws, tx, name, of_year, extents[name], known.get(name)) for name in names)
    return Calendar(year=chosen, years=years, as_of=as_of, tables=tables)


def _years(extents: Mapping[str, tuple[date, date]]) -> tuple[int, ...]:
    first = min((first.year for first, _ in extents.values()), default=0)
    last = max((last.year for _, last in extents.values()), default=-1)
    return tuple(range(first, last + 1))


def _table(
    ws: Workspace,
    tx: ReadTransaction,
    name: str,
    of_year: DayRange,
    extent: tuple[date, date],
    stale: Staleness | None,
) -> TableCalendar:
    grain = ws.domain.grain_of(name)
    whole = DayRange.inclusive(*extent)
    days = DayRange(max(of_year.start, whole.start), min(of_year.end, whole.end))
    within = partitions_over(grain, days) if days.start < days.end else ()
    accepted = tx.versions.accepted(name, within)
    declared = ws.domain.tables.get(name)
    if isinstance(declared, DerivedTable) and declared.stretches is not None:
        within = (*declared.stretches.ends(within), *accepted)
    expired = tx.versions.expired(name).keys() & set(within)
    within = tuple(day for day in within if day not in expired)
    waiting = [day for day in stale.waiting if day in of_year] if stale else []
    return TableCalendar(
        table=name,
        partitions=Partitions.of(grain, within),
        accepted=accepted,
        stale=_within(stale, of_year) if stale else (),
        blocked=frozenset(stale.blocked if stale else ()),
        waiting=Partitions.of(grain, waiting),
        expired=Partitions.of(grain, expired),
    )


def _within(stale: Staleness, of_year: DayRange) -> tuple[StaleRange, ...]:
    return tuple(
        StaleRange(grain=stale.grain, partitions=inside, reasons=found.reasons)
        for found in stale.ranges
        if (inside := tuple(day for day in found.partitions if day in of_year))
    )


# The calendar: a drawing of a year of every table, coloured by state, age or release, and why partitions are
# stale.

_CELL = 13
"""The width and height of a day, with the gap between two."""

_LEFT, _HEAD, _FOOT = 54, 26, 4
"""The room for the names of weekdays and of months, whose letters are larger on a narrow screen."""

_WIDTH = _LEFT + 54 * _CELL + 4

_CELL_SHAPE = Markup('<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>')
_SLASH_SHAPE = Markup('<path class="slash" d="M{} {}l{} -9"/>')

_AGES = ((1, "within a day"), (7, "within a week"), (31, "within a month"), (366, "within a year"))
_MOST_RELEASES = 8
"""How many colours the style sheet has for releases."""

_FEW_REASONS = 3
_NONE = ("unknown", "no accepted version")


class Colouring(StrEnum):
    """By what the cells of a calendar are coloured."""

    STATE = "state"
    AGE = "age"
    RELEASE = "release"


def calendar_page(
    calendar: Calendar,
    colouring: Colouring,
    linked: Linked,
    *,
    stale_as_of: datetime | None,
    is_current: bool,
    problem: str | None,
) -> Page:
    """A year of every table.

    Args:
        colouring: By what its cells are coloured.
        stale_as_of: When it was found out what is stale; None while that is not known.
        is_current: Whether nothing has changed since.
    """
    colours = _Colours(calendar, colouring)
    legend = (*colours.legend(), _NONE, ("stale", "stale"))
    years = (_choice(f"/calendar?year={y}&by={colouring}", str(y), y == calendar.year) for y in calendar.years)
    ways = (_choice(f"/calendar?year={calendar.year}&by={way}", way, way is colouring) for way in Colouring)
    return page(
        f"Calendar {calendar.year}",
        Note(text=words(joined(years, " "), Toned(value=" coloured by ", tone=Tone.SOFT), joined(ways, " "))),
        Note(text=f"Staleness could not be computed: {problem}", tone=Tone.BAD) if problem else None,
        None if is_current else _not_current(stale_as_of),
        None if calendar.tables else Note(text="No table has a partition yet."),
        *(
            _table_drawing(each, calendar, colours, linked, legend if n == 0 else ())
            for n, each in enumerate(calendar.tables)
        ),
    )


def _choice(address: str, text: str, is_chosen: bool) -> Value:
    return Toned(value=text, tone=Tone.STRONG) if is_chosen else place_ref(address, text)


def _not_current(as_of: datetime | None) -> Note:
    known = words("Staleness is as of ", as_of, ", and is being computed again.")
    text = known if as_of else "Staleness is being computed."
    return Note(text=words(text, " This page shows it in a moment."), tone=Tone.ATTENTION)


def _table_drawing(
    table: TableCalendar, calendar: Calendar, colours: _Colours, linked: Linked, legend: tuple[tuple[str, str], ...]
) -> Section | None:
    stale, grain = len(table.stale_partitions), table.partitions.grain
    waits = f"; never built, and waiting for an input: {table.waiting}" if table.waiting.days else ""
    gone = f"; expired: {table.expired}" if table.expired.days else ""
    held = f"{len(table.accepted):,} of {count_of(len(table.partitions), grain.noun)} accepted, {stale:,} stale"
    return section(
        table.table,
        Note(text=f"{held}{waits}{gone}."),
        Chart(drawn=_drawn(table, calendar, colours, linked), legend=legend),
        section(
            f"Why {count_of(stale, grain.noun)} {'is' if stale == 1 else 'are'} stale",
            Items(items=tuple(_reasons(table))),
            folded=len(table.stale) > _FEW_REASONS,
        ),
    )


def _reasons(table: TableCalendar) -> Iterator[str]:
    for found in table.stale:
        why = "; ".join(stale_words(table.table, reason) for reason in found.reasons)
        yield f"{Partitions.of(table.partitions.grain, found.partitions)}: {why}"


class _Colours:
    """The class of the style sheet for each partition, and what these stand for."""

    def __init__(self, calendar: Calendar, colouring: Colouring) -> None:
        self._as_of, self._colouring = calendar.as_of, colouring
        found = {_release(version) for table in calendar.tables for version in table.accepted.values()}
        self._releases = {name: number for number, name in enumerate(sorted(found))}

    def of(self, version: PartitionVersion | None) -> str:
        if version is None:
            return "unknown"
        match self._colouring:
            case Colouring.STATE:
                return "passed" if version.rows else "empty"
            case Colouring.AGE:
                age = (self._as_of - version.accepted_at).days
                return f"age{next((n for n, (days, _) in enumerate(_AGES) if age < days), len(_AGES))}"
            case Colouring.RELEASE:
                return f"release{min(self._releases[_release(version)], _MOST_RELEASES - 1)}"

    def legend(self) -> Iterable[tuple[str, str]]:
        match self._colouring:
            case Colouring.STATE:
                return (("passed", "accepted"), ("empty", "accepted, without rows"))
            case Colouring.AGE:
                ages = [f"accepted {within}" for _, within in _AGES]
                return [(f"age{number}", text) for number, text in enumerate([*ages, "accepted earlier"])]
            case Colouring.RELEASE:
                single = [(f"release{n}", name) for name, n in self._releases.items() if n < _MOST_RELEASES - 1]
                more = len(self._releases) >= _MOST_RELEASES
                return [*single, *([(f"release{_MOST_RELEASES - 1}", "other releases")] if more else [])]


def _release(version: PartitionVersion) -> str:
    return f"{version.table} {_version_of(version) or 'of an unknown release'}"


def _version_of(version: PartitionVersion) -> str:
    return version.provenance.transform_version if isinstance(version.provenance, DerivedProvenance) else ""


def _drawn(table: TableCalendar, calendar: Calendar, colours: _Colours, linked: Linked) -> Markup:
    """A column per week and a row per weekday, or a column per month of a monthly table."""
    is_daily = table.partitions.grain is Grain.DAILY
    first = date(calendar.year, 1, 1)
    monday = first - timedelta(days=first.weekday())

    def place(day: date) -> tuple[int, int]:
        weeks = (day - monday).days // 7
        column, row = (weeks, day.weekday()) if is_daily else ((day.month - 1) * 4, 0)
        return _LEFT + column * _CELL, _HEAD + row * _CELL

    width, stale = (_CELL if is_daily else _CELL * 4) - 2, table.stale_partitions
    months = (date(calendar.year, month, 1) for month in range(1, 13))
    shapes = [_text(place(month)[0], _HEAD - 6, f"{month:%b}") for month in months]
    if is_daily:
        names = ((0, "Mon"), (3, "Thu"), (6, "Sun"))
        shapes += [_text(0, _HEAD + 9 + row * _CELL, name) for row, name in names]
    for day in table.partitions:
        x, y = place(day)
        label = _label(table, day, calendar.as_of, is_stale=day in stale)
        parts = _CELL_SHAPE.format(colours.of(table.accepted.get(day)), x, y, width, _CELL - 2)
        if day in stale:
            parts += _SLASH_SHAPE.format(x + 1, y + 10, min(width - 2, 9))
        shapes.append(_link(linked(partition_ref(table.table, day)), label, parts))
    height = _HEAD + (7 if is_daily else 1) * _CELL + _FOOT
    return _svg(f"{table.table} in {calendar.year}", height, shapes, in_row=7 if is_daily else 1)


def _label(table: TableCalendar, day: date, as_of: datetime, *, is_stale: bool) -> str:
    """The label for a reader without colours."""
    stale = ", STALE" if is_stale else ""
    blocked = " and cannot be built again: an input has no accepted version" if day in table.blocked else ""
    version = table.accepted.get(day)
    if version is None:
        return f"{day}: no accepted version{stale}{blocked}"
    release = f", release {_version_of(version)}" if _version_of(version) else ""
    return (
        f"{day}: version {version.version}, {count_of(version.rows, 'row')}{release}, accepted "
        f"{version.accepted_at:%Y-%m-%d %H:%M} UTC ({(as_of - version.accepted_at).days} days ago){stale}{blocked}"
    )


def _svg(title: str, height: float, shapes: Iterable[Markup], *, in_row: int) -> Markup:
    """A drawing whose shapes lead somewhere is a group of these for whoever hears it, and not one picture.

    Args:
        in_row: By how many shapes the arrow keys move to the left and to the right.
    """
    shape = Markup('<svg viewBox="0 0 {} {:.0f}" role="group" aria-label="{}" data-arrows="{}">{}</svg>')
    return shape.format(_WIDTH, height, visible(title), in_row, Markup().join(shapes))


def _link(address: str | None, title: str, shapes: Markup) -> Markup:
    """Shapes that lead to an address, with what they say when they are pointed at, or heard."""
    named = Markup("<title>{}</title>{}").format(visible(title), shapes)
    return (
        Markup("<g>{}</g>").format(named) if address is None else Markup('<a href="{}">{}</a>').format(address, named)
    )


def _text(x: float, y: float, words: str) -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}">{}</text>').format(x, y, words)

"""Drawings: where the parts of a calendar and of a timeline are, and in which colours. The templates draw them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum

from backfill_assets.ledger.records import Action
from backfill_assets.planning.partitions import Grain
from backfill_assets.report.calendar import CalendarCell, TableCalendar
from backfill_assets.report.publications import PublicationDocument

CELL = 13
"""The width and height of a day, with the gap between two."""

WIDTH = 960
LANE = 26

_AGES = ((1, "within a day"), (7, "within a week"), (31, "within a month"), (366, "within a year"))
_COLOURS = 8
"""How many colours the style sheet has for releases."""


class Colouring(StrEnum):
    """By what the cells of a calendar are coloured."""

    STATE = "state"
    AGE = "age"
    RELEASE = "release"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnCell:
    """One partition in a drawing.

    Attributes:
        x, y, width: Where it is.
        colour: The class of its colour.
        is_stale: Whether it is marked as stale.
        cell: The partition.
        label: What a reader without colours is given.
    """

    x: int
    y: int
    width: int
    colour: str
    is_stale: bool
    cell: CalendarCell
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnCalendar:
    """A table's year.

    Attributes:
        of: What is drawn.
        months: The names of months, each with where it is.
        weekdays: The names of some weekdays, the same; none for a monthly table.
        width, height: Of the drawing.
        cells: Its partitions.
    """

    of: TableCalendar
    months: tuple[tuple[int, str], ...]
    weekdays: tuple[tuple[int, str], ...]
    width: int
    height: int
    cells: tuple[DrawnCell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnPublication:
    """One publication in a drawing: where it is, and what it is."""

    x: float
    y: int
    is_rollback: bool
    of: PublicationDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnTimeline:
    """Publications by table and time.

    Attributes:
        lanes: Tables, each with where it is.
        marks: The publications.
        height: Of the drawing.
        first, last: The instants at its ends; None without publications.
    """

    lanes: tuple[tuple[int, str], ...]
    marks: tuple[DrawnPublication, ...]
    height: int
    first: datetime | None
    last: datetime | None


def legend(tables: Sequence[TableCalendar], colouring: Colouring) -> Mapping[str, str]:
    """The words for every colour, by its class."""
    match colouring:
        case Colouring.STATE:
            return {"ok": "accepted", "empty": "accepted, without rows", "none": "no accepted version"}
        case Colouring.AGE:
            words = [f"accepted {within}" for _, within in _AGES]
            return {**{f"age{n}": text for n, text in enumerate([*words, "earlier"])}, "none": "no accepted version"}
        case Colouring.RELEASE:
            releases = {f"r{n}": name for name, n in _places(tables).items() if n < _COLOURS - 1}
            more = {f"r{_COLOURS - 1}": "other releases"} if len(_places(tables)) >= _COLOURS else {}
            return {**releases, **more, "none": "no accepted version"}


def _places(tables: Sequence[TableCalendar]) -> Mapping[str, int]:
    """A number for every release of a table, in the order of their names."""
    names = sorted(
        {
            f"{table.table} {cell.accepted.release or 'of an unknown release'}"
            for table in tables
            for cell in table.cells
            if cell.accepted
        }
    )
    return {name: number for number, name in enumerate(names)}


def drawn_calendar(
    table: TableCalendar, tables: Sequence[TableCalendar], year: int, as_of: datetime, colouring: Colouring
) -> DrawnCalendar:
    """A table's year: a column per week and a row per weekday, or a column per month of a monthly table."""
    places = _places(tables)
    start = date(year, 1, 1)
    monday = start - timedelta(days=start.weekday())

    def drawn(cell: CalendarCell) -> DrawnCell:
        day = cell.partition
        weekly = table.grain is Grain.DAILY
        x = (day - monday).days // 7 * CELL if weekly else (day.month - 1) * CELL * 4
        return DrawnCell(
            x=x,
            y=day.weekday() * CELL if weekly else 0,
            width=CELL - 2 if weekly else CELL * 4 - 2,
            colour=_colour(table.table, cell, places, as_of, colouring),
            is_stale=cell.is_stale,
            cell=cell,
            label=_label(cell, as_of),
        )

    firsts = [date(year, month, 1) for month in range(1, 13)]
    weekly = table.grain is Grain.DAILY
    return DrawnCalendar(
        of=table,
        months=tuple(
            ((first - monday).days // 7 * CELL if weekly else (first.month - 1) * CELL * 4, f"{first:%b}")
            for first in firsts
        ),
        weekdays=tuple((n * CELL, name) for n, name in ((0, "Mon"), (3, "Thu"), (6, "Sun"))) if weekly else (),
        width=54 * CELL + 30,
        height=7 * CELL if weekly else CELL,
        cells=tuple(drawn(cell) for cell in table.cells),
    )


def _colour(table: str, cell: CalendarCell, places: Mapping[str, int], as_of: datetime, colouring: Colouring) -> str:
    accepted = cell.accepted
    if accepted is None:
        return "none"
    match colouring:
        case Colouring.STATE:
            return "ok" if accepted.rows else "empty"
        case Colouring.AGE:
            age = (as_of - accepted.accepted_at).days
            return f"age{next((n for n, (days, _) in enumerate(_AGES) if age < days), len(_AGES))}"
        case Colouring.RELEASE:
            place = places[f"{table} {accepted.release or 'of an unknown release'}"]
            return f"r{min(place, _COLOURS - 1)}"


def _label(cell: CalendarCell, as_of: datetime) -> str:
    accepted = cell.accepted
    stale = ", STALE" if cell.is_stale else ""
    blocked = " and cannot be built again: an input has no accepted version" if cell.is_blocked else ""
    if accepted is None:
        return f"{cell.partition}: no accepted version{stale}{blocked}"
    release = f", release {accepted.release}" if accepted.release else ""
    days = (as_of - accepted.accepted_at).days
    return (
        f"{cell.partition}: version {accepted.version}, {accepted.rows:,} rows{release}, accepted "
        f"{accepted.accepted_at:%Y-%m-%d %H:%M} UTC ({days} days ago){stale}{blocked}"
    )


def drawn_timeline(publications: Sequence[PublicationDocument]) -> DrawnTimeline:
    """Publications from left to right by when they began, one lane per table."""
    if not publications:
        return DrawnTimeline(lanes=(), marks=(), height=0, first=None, last=None)
    tables = sorted({each.table for each in publications})
    lanes = {table: LANE // 2 + LANE * number for number, table in enumerate(tables)}
    first = min(each.started_at for each in publications)
    last = max(each.started_at for each in publications)
    length = (last - first).total_seconds() or 1.0
    marks = tuple(
        DrawnPublication(
            x=round(10 + (WIDTH - 20) * (each.started_at - first).total_seconds() / length, 1),
            y=lanes[each.table],
            is_rollback=each.action is Action.ROLLBACK,
            of=each,
        )
        for each in publications
    )
    return DrawnTimeline(
        lanes=tuple((y, table) for table, y in lanes.items()),
        marks=marks,
        height=LANE * len(tables),
        first=first,
        last=last,
    )

"""Terminal view of a period: where its records are, and what rests on them."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from backfill_assets.cli.show import listing, state_text
from backfill_assets.planning.partitions import DayRange, count_of
from backfill_assets.report.locate import LocatedImport, LocatedPeriod, RestingPartitions


def period_view(period: LocatedPeriod) -> RenderableType:
    """The imports that hold records of the period, and the partitions that rest on it."""
    named = f"{period.source} {DayRange.inclusive(period.from_, period.to)}"
    parts: list[RenderableType] = [
        _imports(named, period.imports) if period.imports else Text(f"no import holds records of {named}"),
        "",
        _partitions(period.partitions) if period.partitions else Text("no published partition rests on these days"),
    ]
    if period.not_loaded_described:
        parts += ["", Text(f"landed, and not built into {period.source} yet: {period.not_loaded_described}")]
    return Group(*parts)


def _imports(named: str, imports: tuple[LocatedImport, ...]) -> RenderableType:
    rows = [
        [
            each.import_id,
            each.position.name.rpartition("/")[2],
            state_text(each.state),
            each.landed_at and f"{each.landed_at:%Y-%m-%d %H:%M}",
            each.landed_by,
            _days(each),
            each.records,
            _late(each),
        ]
        for each in imports
    ]
    heads = ["import", "file", "state", "landed", "by", "events from", "records", "late"]
    return listing(f"imports with records of {named}", heads, rows, numbers=["records"])


def _days(each: LocatedImport) -> str:
    if each.first_day is None or each.last_day is None:
        return "none: it moved, took back or restored rows"
    return str(DayRange.inclusive(each.first_day, each.last_day))


def _late(each: LocatedImport) -> str:
    late = [day.days_late for day in each.days if day.days_late is not None]
    if not late:
        return ""
    least, most = min(late), max(late)
    return count_of(most, "day") if least == most else f"{least:,} to {count_of(most, 'day')}"


def _partitions(partitions: tuple[RestingPartitions, ...]) -> RenderableType:
    rows = [
        [each.table, each.described, each.run_id, f"{each.transform} {each.transform_version}", ", ".join(each.through)]
        for each in partitions
    ]
    return listing(
        "what readers see that rests on these days", ["table", "partitions", "run", "release", "through"], rows
    )

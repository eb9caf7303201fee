"""Terminal views of landed files and of what an extract would withdraw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import RenderableType

from backfill_assets.cli.show import facts, listing
from backfill_assets.planning.partitions import count_of
from backfill_assets.report.requests import NextStep

if TYPE_CHECKING:
    # It imports what lands files, which commands that only look do not need.
    from backfill_assets.report.landed import ExtractPreview

_MOST_DAYS = 20


def extract_view(preview: ExtractPreview) -> Sequence[RenderableType | NextStep]:
    """What a complete extract would bring and withdraw, by day, and some of the keys."""
    days = [[each.day, each.keys] for each in preview.by_day[:_MOST_DAYS]]
    more = len(preview.by_day) - len(days)
    parts: list[RenderableType | NextStep] = [
        facts(
            [
                ("dry run", "nothing has landed; this is what the extract would do"),
                ("source", preview.source),
                ("extract of", preview.scope),
                ("the files hold", _records(preview)),
                (
                    "keys of the files",
                    f"{preview.new:,} new, {preview.changed:,} changed, {preview.moved:,} moved to another day, "
                    f"{preview.unchanged:,} unchanged",
                ),
                ("keys there now", f"{preview.current:,}"),
                ("it lacks", f"{preview.withdrawn:,} ({preview.percent:.1f} %; allowed {preview.allowed_percent:g} %)"),
            ]
        )
    ]
    if days:
        parts += ["", listing("days that lose keys", ["day", "keys"], days, numbers=["keys"])]
        parts += [f"and {more:,} more days"] if more else []
        parts += ["", "for example " + "; ".join(_key(key) for key in preview.sample)]
    return [*parts, "", *preview.next_steps]


def _records(preview: ExtractPreview) -> str:
    outside = f", {preview.outside:,} of them not of these days or rows" if preview.outside else ""
    outside = ", and none of them is of these days and rows" if preview.is_elsewhere else outside
    return f"{count_of(preview.records, 'valid record')}{outside}"


def _key(key: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name} {value}" for name, value in key.items())

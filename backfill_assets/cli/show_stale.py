"""Terminal view of what is stale."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from backfill_assets.cli.show import listing
from backfill_assets.planning.partitions import count_of

if TYPE_CHECKING:
    from backfill_assets.staleness.document import StaleDocument, StaleTable


def stale_view(document: StaleDocument) -> RenderableType:
    """What is stale, by ranges, and what to do about it."""
    if not document.is_stale:
        looked = sum(table.accepted_partitions for table in document.tables)
        return Text(f"nothing is stale: {count_of(looked, 'accepted partition')} looked at", style="green")
    parts = [part for table in document.tables for part in (*_ranges(table), *_blocked(table))]
    fresh = [table.table for table in document.tables if not table.ranges]
    if fresh:
        parts.append(Text(f"not stale: {', '.join(fresh)}"))
    return Group(*parts)


def _ranges(table: StaleTable) -> list[RenderableType]:
    if not table.ranges:
        return []
    title = f"{table.table}: {table.stale_partitions:,} stale, {table.accepted_partitions:,} accepted"
    rows = [
        [found.described if place == 0 else "", reason.sentence]
        for found in table.ranges
        for place, reason in enumerate(found.reasons)
    ]
    return [listing(title, ["partitions", "because"], rows), ""]


def _blocked(table: StaleTable) -> list[RenderableType]:
    if not table.blocked_described:
        return []
    text = (
        f"cannot be built again, because an input has no accepted version any more: {table.table} "
        f"{table.blocked_described}. Build the input, or roll back what depends on it."
    )
    return [Text(text), ""]

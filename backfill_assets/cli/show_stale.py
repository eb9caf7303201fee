"""Terminal view of what is stale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from backfill_assets.cli.show import in_words, listing
from backfill_assets.planning.partitions import count_of

if TYPE_CHECKING:
    from backfill_assets.report.stale import StaleDocument, StaleRangeDocument, StaleTable


def stale_view(document: StaleDocument) -> RenderableType:
    """What is stale, by ranges, and what to do about it."""
    if not document.is_stale:
        looked = sum(table.accepted_partitions for table in document.tables)
        nothing = Text(f"nothing is stale: {count_of(looked, 'accepted partition')} looked at", style="green")
        kept = [part for table in document.tables for part in (*_waiting(table), *_kept(table))]
        return Group(nothing, *(("", *kept) if kept else ()), *_never_built(document))
    parts = [
        part
        for table in document.tables
        for part in (*_ranges(table), *_blocked(table), *_waiting(table), *_on_purpose(table), *_kept(table))
    ]
    fresh = [table.table for table in document.tables if not table.ranges and table.accepted_partitions]
    if fresh:
        parts.append(Text(f"not stale: {', '.join(fresh)}"))
    return Group(*parts, *_never_built(document))


def _never_built(document: StaleDocument) -> list[RenderableType]:
    """What cannot be stale, because nothing of it was ever built: a person begins with it."""
    names = [table.table for table in document.tables if not table.ranges and not table.accepted_partitions]
    return [Text(f"never built: {', '.join(names)}")] if names else []


def _ranges(table: StaleTable) -> list[RenderableType]:
    if not table.ranges:
        return []
    title = f"{table.table}: {table.stale_partitions:,} stale, {table.accepted_partitions:,} accepted"
    return [_listed(title, table.ranges), ""]


def _listed(title: str, ranges: Sequence[StaleRangeDocument]) -> RenderableType:
    rows = [
        [found.described if place == 0 else "", reason.sentence]
        for found in ranges
        for place, reason in enumerate(found.reasons)
    ]
    return listing(title, ["partitions", "because"], rows)


def _kept(table: StaleTable) -> list[RenderableType]:
    if not table.kept:
        return []
    title = f"{table.table}: {table.kept_partitions:,} not stale, their references were chosen on purpose"
    return [_listed(title, table.kept), _to_present(table), ""]


def _on_purpose(table: StaleTable) -> list[RenderableType]:
    if not table.on_purpose_described:
        return []
    text = (
        f"left to a person, because its references were chosen on purpose: {table.table} {table.on_purpose_described}"
    )
    return [Text(text), *([] if table.kept else [_to_present(table)]), ""]


def _to_present(table: StaleTable) -> RenderableType:
    return Text(f"with the present references: {in_words(table.to_present)}")


def _waiting(table: StaleTable) -> list[RenderableType]:
    if not table.waiting_described:
        return []
    return [Text(f"never built, and waiting for inputs: {table.table} {table.waiting_described}"), ""]


def _blocked(table: StaleTable) -> list[RenderableType]:
    if not table.blocked_described:
        return []
    text = (
        f"cannot be built again, because an input has no accepted version any more: {table.table} "
        f"{table.blocked_described}. Build the input, or roll back what depends on it."
    )
    return [Text(text), ""]

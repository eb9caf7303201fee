"""What is accepted in a home, partition by partition, and which partitions runs exchanged to get there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date

from backfill_assets.lake.checksums import NO_ROWS
from backfill_assets.workspace import Workspace

Place = tuple[str, date]
"""A table and a partition of it."""


def checksums(ws: Workspace, tables: Iterable[str]) -> Mapping[Place, str]:
    """The content checksum of every accepted partition that has rows."""
    with ws.ledger.read() as reader:
        return {
            (table, partition): version.checksum
            for table in tables
            for partition, version in reader.versions.accepted(table).items()
            if version.checksum != NO_ROWS
        }


def differing(before: Mapping[Place, str], after: Mapping[Place, str]) -> set[Place]:
    """Where two homes have other rows."""
    return {place for place in before.keys() | after.keys() if before.get(place) != after.get(place)}


def swapped(ws: Workspace, run_ids: Iterable[str]) -> tuple[set[Place], set[Place]]:
    """The partitions that published runs exchanged, and those that they found equal."""
    with ws.ledger.read() as reader:
        intents = [reader.publications.records(run_id=run_id)[0] for run_id in run_ids]
    changed = {(intent.table, change.partition) for intent in intents for change in intent.changes}
    return changed, {(intent.table, found.partition) for intent in intents for found in intent.verified}

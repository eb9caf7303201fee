"""Captured streams as assets: one per source that declares a capture, with one partition per capture.

Nothing is computed in Dagster: commands and the schedule `live` capture, and the ledger's captures are reported here. A
bronze day has none of these partitions as its input, because a capture holds records of any day: what it makes stale
is found by content, and shown by the check `fresh`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from backfill_assets.core.grouped import grouped
from backfill_assets.domain import Domain, SourceTable
from backfill_assets.ledger.captures import CapturedFile, CaptureRecord, reached_by
from backfill_assets.orchestration import metadata, tags
from backfill_assets.orchestration.event_log import as_accepted, one_commit
from backfill_assets.orchestration.partitions import CAPTURED, captured_key
from backfill_assets.report.page import table
from backfill_assets.workspace import Workspace


def captured_assets(domain: Domain) -> Sequence[dg.AssetSpec]:
    """An asset for every source that is captured, after the asset of the project that it is captured from."""
    return [
        dg.AssetSpec(
            captured_key(source),
            deps=[_without_partitions(dg.AssetKey(source.upstream))] if source.upstream else [],
            partitions_def=_partitions(source),
            group_name=CAPTURED,
            owners=metadata.owners(source),
            tags=metadata.part_tags(source, CAPTURED),
            description=metadata.captures(source),
        )
        for source in domain.sources
        if source.capture is not None
    ]


def before_bronze(source: SourceTable) -> Sequence[dg.AssetDep]:
    """The assets upstream of a source table's asset: its captures, or the asset that its files come from."""
    if source.capture is not None:
        return [_without_partitions(captured_key(source))]
    return [_without_partitions(dg.AssetKey(source.upstream))] if source.upstream else []


def report_captures(ws: Workspace, source: SourceTable, *, instance: dg.DagsterInstance, again: str = "") -> None:
    """Reports the captures of a source that Dagster does not know yet.

    Args:
        again: The id of a capture that is reported in any case, because it has gone on.
    """
    key = captured_key(source)
    with ws.ledger.read() as tx:
        records, files = tx.captures.records(source.name), tx.captures.files(source.name)
    held = grouped((file.capture_id, file) for file in files)
    known = instance.get_materialized_partitions(key)
    due = [
        each
        for each in records
        if each.capture_id in held and (each.capture_id not in known or each.capture_id == again)
    ]
    if not due:
        return
    instance.add_dynamic_partitions(_partitions(source).name or "", [each.capture_id for each in due])
    with as_accepted(), one_commit(instance):
        for each in due:
            instance.report_runless_asset_event(
                dg.AssetMaterialization(
                    key,
                    description=f"Captured by {each.by}: {each.reason}",
                    partition=each.capture_id,
                    metadata=_numbers(each, held[each.capture_id]),
                )
            )


def _partitions(source: SourceTable) -> dg.DynamicPartitionsDefinition:
    return dg.DynamicPartitionsDefinition(name=tags.prefixed(f"captures_of_{source.short_name}"))


def _without_partitions(key: dg.AssetKey) -> dg.AssetDep:
    """An edge of the graph alone, whatever partitions the other asset has."""
    return dg.AssetDep(key, partition_mapping=dg.SpecificPartitionsPartitionMapping([]))


def _numbers(record: CaptureRecord, files: Sequence[CapturedFile]) -> Mapping[str, Any]:
    """The numbers of a capture, for the plots and the table of an event."""
    times = [time for file in files for time in (file.first_at, file.last_at) if time is not None]
    spans = [(each.partition, each.range_from, each.range_to) for each in record.spans]
    return {
        "records": sum(file.records for file in files),
        "files": len(files),
        "bytes": sum(file.size_bytes for file in files),
        "stream": record.name,
        "first record at": min(times).isoformat() if times else "",
        "last record at": max(times).isoformat() if times else "",
        "positions": metadata.shown(table(["partition", "from", "to"], spans)),
        "is complete": record.is_complete(reached_by(files)),
    }

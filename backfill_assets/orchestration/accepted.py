"""What the ledger has accepted, for the pages of tables: reported after a change, and compared in `recover`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dagster import AssetKey, AssetMaterialization, AssetObservation, DagsterInstance

from backfill_assets.ledger.records import Action, PartitionChange, PartitionVersion, PublicationRecord
from backfill_assets.orchestration.assets import published_key
from backfill_assets.orchestration.batches import one_commit
from backfill_assets.orchestration.colours import TableColours, as_accepted
from backfill_assets.orchestration.links import report_link
from backfill_assets.orchestration.partitions import key_of
from backfill_assets.orchestration.recorded import DATA_VERSION_TAG
from backfill_assets.workspace import Workspace

Facts = Mapping[str, Any]


def report_landed(workspace: Workspace, record: PublicationRecord, *, instance: DagsterInstance) -> None:
    """Reports to Dagster what readers see after a publication or rollback that no run of an asset brought about.

    Args:
        workspace: Its domain is used.
        record: The publication.
        instance: Where each partition that changed is reported as materialized. One that has no accepted version now
            is not materialized any more, and an observation says why.
    """
    intent = record.intent
    done, of_run = ("Rolled back", "undone run") if intent.action is Action.ROLLBACK else ("Published", "run_id")
    key = published_key(workspace.domain.table(intent.table))
    said = f"{done} by {intent.by}: {intent.reason}"
    facts: dict[str, Any] = {
        of_run: intent.run_id,
        "publication": intent.publication_id,
        "table version": record.delta_version or 0,
        "dagster/uri": workspace.lake.url(intent.table),
        **report_link(workspace.settings, intent.run_id),
    }
    with as_accepted(), one_commit(instance):
        for change in intent.changes:
            partition = key_of(change.partition)
            if change.restores == 0:
                why = f"{said}. No version is accepted."
                gone = AssetObservation(key, description=why, partition=partition, metadata=facts)
                instance.report_runless_asset_event(gone)
            else:
                instance.report_runless_asset_event(_there(key, said, change, facts))
    _forget(instance, key, [key_of(change.partition) for change in intent.changes if change.restores == 0])


def show_accepted(workspace: Workspace, *, instance: DagsterInstance) -> None:
    """Corrects the pages of tables where a process ended before it had reported what it published or rolled back."""
    with workspace.ledger.read() as tx:
        accepted = {table: tx.versions.accepted(table) for table in workspace.domain.tables}
    for table, versions in accepted.items():
        key = published_key(workspace.domain.table(table))
        shown = instance.get_materialized_partitions(key)
        with as_accepted(), one_commit(instance):
            for partition, version in versions.items():
                if key_of(partition) not in shown:
                    facts: dict[str, Any] = {
                        "run_id": version.run_id,
                        "publication": version.publication_id,
                        "dagster/uri": workspace.lake.url(table),
                        **report_link(workspace.settings, version.run_id),
                    }
                    said = "Accepted by the ledger; the process that published it ended before it could report it."
                    instance.report_runless_asset_event(_there(key, said, version, facts))
        _forget(instance, key, sorted(shown - {key_of(partition) for partition in versions}))


def _there(key: AssetKey, said: str, found: PartitionChange | PartitionVersion, facts: Facts) -> AssetMaterialization:
    """A partition that readers see, with the numbers and the data version that its publication by an asset has."""
    return AssetMaterialization(
        key,
        description=said,
        partition=key_of(found.partition),
        metadata={"rows": found.rows, "dagster/row_count": found.rows, "checksum": found.checksum, **facts},
        tags={DATA_VERSION_TAG: found.checksum} if found.checksum else None,
    )


def _forget(instance: DagsterInstance, key: AssetKey, partitions: Sequence[str]) -> None:
    # Dagster's own storages cannot take a partition back; the observation says it there.
    if partitions and isinstance(instance.event_log_storage, TableColours):
        with as_accepted():
            instance.wipe_asset_partitions(key, partitions)

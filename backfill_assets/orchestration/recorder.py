"""Dagster as the recorder of what a command does.

Each part of a run is executed as a Dagster run of its assets (`launch`). What no asset brought about, such as a
rollback, is reported to the pages of tables, so that they show what the ledger has accepted. Old runs that no page
shows are removed: approvals and publications are in the ledger, which is not changed.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dagster import AssetKey, AssetMaterialization, AssetObservation, DagsterInstance, DagsterRunStatus, RunsFilter

from backfill_assets.application.execute import execute
from backfill_assets.application.parts import Part
from backfill_assets.application.recorder import Acting
from backfill_assets.application.requests import run_of
from backfill_assets.core.errors import Unexpected
from backfill_assets.core.progress import Listener, Progress, no_listener
from backfill_assets.core.settings import Settings
from backfill_assets.domain import SourceTable, Table
from backfill_assets.ledger.records import Action, PartitionChange, PartitionVersion, PublicationRecord
from backfill_assets.ledger.states import RunState, VersionState
from backfill_assets.orchestration import tags
from backfill_assets.orchestration.captured import report_captures
from backfill_assets.orchestration.event_log import BATCH, BatchedEventLog, as_accepted, batches, one_commit
from backfill_assets.orchestration.events import DATA_VERSION_TAG, forget, show_checks
from backfill_assets.orchestration.metadata import report_link
from backfill_assets.orchestration.partitions import key_of, published_key
from backfill_assets.orchestration.storage import dagster_folder, open_instance
from backfill_assets.orchestration.tags import end_abandoned_runs, is_under_way
from backfill_assets.report.upkeep import Pruned
from backfill_assets.report.words.states import expired_words
from backfill_assets.workspace import Workspace

if TYPE_CHECKING:
    from dagster import OpExecutionContext

    from backfill_assets.orchestration.resources import Perform


class DagsterRecorder:
    """Executes in this process through Dagster, whose pages show the runs like any other. See `Recorder`."""

    def __init__(self, settings: Settings, opens: Callable[[], DagsterInstance]) -> None:
        self._settings, self._opens = settings, opens

    @cached_property
    def instance(self) -> DagsterInstance:
        """Dagster's record, opened when it is first needed."""
        return self._opens()

    def execute(self, ws: Workspace, run_id: str, parts: Sequence[Part], *, by: str, listener: Listener) -> None:
        if tuple(parts) != (Part.PUBLISH,):
            # Opened here, so that its log goes to a file; Dagster's resource then finds it open.
            ws.spark()
        self.record(ws, run_id, parts, execute, by=by, listener=listener)

    def record(
        self,
        ws: Workspace,
        run_id: str,
        parts: Sequence[Part],
        perform: Perform,
        *,
        by: str,
        listener: Listener = no_listener,
    ) -> None:
        """Runs the assets of parts of a run, which execute them or take over what another thread executes.

        Raises:
            BackfillError: The error that stopped it; a gate that blocks the run is not an error.
        """
        # With the definitions of assets and the readers of tables, which take longer to import than the record of runs.
        from backfill_assets.orchestration.launch import run_in_process

        outcome = run_in_process(ws, run_id, parts, instance=self.instance, by=by, progress=listener, perform=perform)
        if outcome.error is not None:
            raise outcome.error
        if not outcome.succeeded and run_of(ws, run_id).state is not RunState.BLOCKED:
            raise Unexpected(why=f"the Dagster run {outcome.dagster_run_id} of {run_id} stopped without a reason")

    def is_elsewhere(self, run_id: str) -> bool:
        """See `Recorder`. Dagster runs whose process is gone are ended first."""
        return is_under_way(self.instance, {tags.RUN_ID: run_id})

    def catch_up(self, ws: Workspace) -> None:
        end_abandoned_runs(self.instance)
        log = self.instance.event_log_storage
        if isinstance(log, BatchedEventLog) and (planning := log.planning()):
            ended = self.instance.get_runs(filters=RunsFilter(run_ids=planning, statuses=FINISHED))
            log.forget_unevaluated(*(run.run_id for run in ended))
        show_accepted(ws, instance=self.instance)
        for source in ws.domain.sources:
            if source.capture is not None:
                report_captures(ws, source, instance=self.instance)

    def landed(self, ws: Workspace, record: PublicationRecord) -> None:
        report_landed(ws, record, instance=self.instance)

    def captured(self, ws: Workspace, source: SourceTable, capture_id: str) -> None:
        report_captures(ws, source, instance=self.instance, again=capture_id)

    def checked(self, ws: Workspace, table: Table) -> None:
        show_checks(ws, table, instance=self.instance)

    def prune(self, *, as_of: datetime, dry_run: bool) -> Pruned:
        return prune_history(self._settings, as_of=as_of, dry_run=dry_run)


def acting_in(context: OpExecutionContext, ws: Workspace, by: str) -> Acting:
    """The context of an action in a job; what is computed and published is recorded as Dagster runs of the assets."""

    def listen(progress: Progress) -> None:
        context.log.info(progress.line)

    return Acting(by=by, recorder=DagsterRecorder(ws.settings, lambda: context.instance), listener=listen)


@contextmanager
def dagster_recorder(settings: Settings) -> Iterator[DagsterRecorder]:
    """A recorder over Dagster's record of runs that the settings name."""
    with ExitStack() as opened:
        yield DagsterRecorder(settings, lambda: opened.enter_context(open_instance(settings)))


def report_landed(workspace: Workspace, record: PublicationRecord, *, instance: DagsterInstance) -> None:
    """Reports to Dagster what readers see after a publication or rollback that no run of an asset brought about.

    Args:
        workspace: Its domain is used.
        instance: Where each partition that changed is reported as materialized. One that has no accepted version now
            is not materialized any more, and an observation says why.
    """
    done, of_run = ("Rolled back", "undone run") if record.action is Action.ROLLBACK else ("Published", "run_id")
    table = workspace.domain.table(record.table)
    key = published_key(table)
    with workspace.ledger.read() as tx:
        makes = tx.runs.header(record.run_id).makes
    is_expiry = record.action is Action.PUBLISH and makes is VersionState.EXPIRED
    gone = [change.partition for change in record.changes if is_expiry or change.restores == 0]
    said = f"{done} by {record.by}: {record.reason}"
    facts: dict[str, Any] = {
        # The page of a partition shows no description.
        "what happened": said,
        of_run: record.run_id,
        "publication": record.publication_id,
        "table version": record.delta_version or 0,
        **report_link(workspace.settings, record.run_id),
    }
    for batch in batches(record.changes, BATCH):
        with as_accepted(), one_commit(instance):
            for change in batch:
                partition = key_of(change.partition)
                if change.partition in gone:
                    why = f"{said}. {expired_words(record.run_id) if is_expiry else 'No version is accepted.'}"
                    nothing = AssetObservation(key, description=why, partition=partition, metadata=facts)
                    instance.report_runless_asset_event(nothing)
                else:
                    instance.report_runless_asset_event(_there(key, said, change, facts))
    forget(instance, key, map(key_of, gone))
    show_checks(workspace, table, instance=instance)


def show_accepted(workspace: Workspace, *, instance: DagsterInstance, tables: Iterable[str] | None = None) -> None:
    """Corrects the pages of tables where a process ended before it had reported what it published or rolled back.

    Args:
        tables: Only these.
    """
    with workspace.ledger.read() as tx:
        accepted = {table: tx.versions.accepted(table) for table in tables or workspace.domain.tables}
    for table, versions in accepted.items():
        key = published_key(workspace.domain.table(table))
        shown = instance.get_materialized_partitions(key)
        lacking = [version for partition, version in versions.items() if key_of(partition) not in shown]
        for batch in batches(lacking, BATCH):
            with as_accepted(), one_commit(instance):
                for version in batch:
                    said = "Accepted by the ledger; the process that published it ended before it could report it."
                    facts: dict[str, Any] = {
                        "what happened": said,
                        "run_id": version.run_id,
                        "publication": version.publication_id,
                        **report_link(workspace.settings, version.run_id),
                    }
                    instance.report_runless_asset_event(_there(key, said, version, facts))
        forget(instance, key, sorted(shown - {key_of(partition) for partition in versions}))
        show_checks(workspace, workspace.domain.table(table), instance=instance)


def _there(
    key: AssetKey, said: str, found: PartitionChange | PartitionVersion, facts: Mapping[str, Any]
) -> AssetMaterialization:
    """A partition that readers see, with the numbers and the data version that its publication by an asset has."""
    return AssetMaterialization(
        key,
        description=said,
        partition=key_of(found.partition),
        metadata={"rows": found.rows, "dagster/partition_row_count": found.rows, "checksum": found.checksum, **facts},
        tags={DATA_VERSION_TAG: found.checksum} if found.checksum else None,
    )


FINISHED = [DagsterRunStatus.SUCCESS, DagsterRunStatus.FAILURE, DagsterRunStatus.CANCELED]


def prune_history(settings: Settings, *, as_of: datetime, dry_run: bool) -> Pruned:
    """Removes finished runs from Dagster's record that are older than the setting and that no page shows.

    Args:
        dry_run: Only report what would be removed.

    Returns:
        What was removed; its note is the reason if the record cannot be opened or belongs to another project.
    """
    days = settings.dagster_days
    if not (os.environ.get("DAGSTER_HOME") or settings.dagster_url or dagster_folder(settings).exists()):
        return Pruned(days=days, note="Dagster has recorded nothing yet")
    try:
        with open_instance(settings) as instance:
            return prune(instance, days=days, as_of=as_of, dry_run=dry_run)
    except Exception as error:  # noqa: BLE001 - an error of Dagster is reported, and the lake is still vacuumed
        return Pruned(days=days, note=f"Dagster's record cannot be used: {type(error).__name__}: {error}")


def prune(instance: DagsterInstance, *, days: int, as_of: datetime, dry_run: bool) -> Pruned:
    """Removes old runs from an open record; see `prune_history`."""
    log = instance.event_log_storage
    if not isinstance(log, BatchedEventLog):
        return Pruned(days=days, note="dagster.yaml names another storage than this project's; it is left alone")
    finished = RunsFilter(statuses=FINISHED, updated_before=as_of - timedelta(days=days))
    old = [run.run_id for run in instance.get_runs(filters=finished)]
    if not old:
        # What pages show is read from every event; whether it can be read is said all the same.
        log.require_readable()
        return Pruned(days=days)
    shown = log.runs_on_pages()
    going = [run_id for run_id in old if run_id not in shown]
    sizes = log.sizes()
    size, note = sum(sizes.get(run_id, 0) for run_id in going), None
    if going and not dry_run:
        before = log.disk_bytes()
        for run_id in going:
            # The run itself last: a process that dies before leaves it for the next time.
            log.forget(run_id)
            instance.run_storage.delete_run(run_id)
        try:
            log.give_back()
        except sqlite3.OperationalError as error:
            note = f"the space will be used again, the files could not be made smaller now: {error}"
        size = max(0, before - log.disk_bytes()) if before else size
    return Pruned(days=days, runs=len(going), kept_runs=len(old) - len(going), size_bytes=size, note=note)

"""Pruning of Dagster's history: removes runs that are old and that no page shows.

A run stays while it is in progress, and while it holds the latest materialization or the latest evaluation of a
partition: the pages of assets and checks do not change when other runs are removed. Approvals and publications are in
the ledger, which is not changed.
"""

from __future__ import annotations

import os
import sqlite3
from datetime import datetime, timedelta

from dagster import DagsterInstance, DagsterRunStatus, RunsFilter

from backfill_assets.core.settings import Settings
from backfill_assets.orchestration.batches import BatchedEventLog
from backfill_assets.orchestration.launch import open_instance
from backfill_assets.orchestration.storage import dagster_folder
from backfill_assets.report.vacuumed import Pruned

FINISHED = [DagsterRunStatus.SUCCESS, DagsterRunStatus.FAILURE, DagsterRunStatus.CANCELED]


def prune_history(settings: Settings, *, as_of: datetime, dry_run: bool) -> Pruned:
    """Removes finished runs from Dagster's record that are older than the setting and that no page shows.

    Args:
        settings: Where the record is, and how long a run is kept.
        as_of: The present.
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

"""Dagster as the recorder of what a command does: each part of a run is executed as a Dagster run of its assets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime

from dagster import DagsterInstance

from backfill_assets.application.parts import Part
from backfill_assets.core.errors import Unexpected
from backfill_assets.core.progress import Listener
from backfill_assets.core.settings import Settings
from backfill_assets.ledger.records import PublicationRecord
from backfill_assets.ledger.states import RunState
from backfill_assets.orchestration import tags
from backfill_assets.orchestration.accepted import report_landed, show_accepted
from backfill_assets.orchestration.attempts import end_abandoned_runs, is_under_way
from backfill_assets.orchestration.launch import open_instance, run_in_process
from backfill_assets.orchestration.prune import prune_history
from backfill_assets.report.vacuumed import Pruned
from backfill_assets.workspace import Workspace


class DagsterRecorder:
    """Executes in this process through Dagster, whose pages show the runs like any other. See `Recorder`."""

    def __init__(self, settings: Settings, opened: ExitStack, instance: DagsterInstance | None = None) -> None:
        self._settings, self._opened, self._instance = settings, opened, instance

    @property
    def instance(self) -> DagsterInstance:
        """Dagster's record, opened when it is first needed."""
        if self._instance is None:
            self._instance = self._opened.enter_context(open_instance(self._settings))
        return self._instance

    def execute(self, ws: Workspace, run_id: str, parts: Sequence[Part], *, by: str, listener: Listener) -> None:
        """See `Recorder`."""
        if tuple(parts) != (Part.PUBLISH,):
            # Opened here, so that its log goes to a file; Dagster's resource then finds it open.
            ws.spark()
        outcome = run_in_process(ws, run_id, parts, instance=self.instance, by=by, progress=listener)
        if outcome.error is not None:
            raise outcome.error
        if not outcome.succeeded and outcome.run.state is not RunState.BLOCKED:
            raise Unexpected(why=f"the Dagster run {outcome.dagster_run_id} of {run_id} stopped without a reason")

    def is_elsewhere(self, run_id: str) -> bool:
        """See `Recorder`. Dagster runs whose process is gone are ended first."""
        return is_under_way(self.instance, {tags.RUN_ID: run_id})

    def catch_up(self, ws: Workspace) -> None:
        """See `Recorder`."""
        end_abandoned_runs(self.instance)
        show_accepted(ws, instance=self.instance)

    def landed(self, ws: Workspace, record: PublicationRecord) -> None:
        """See `Recorder`."""
        report_landed(ws, record, instance=self.instance)

    def prune(self, *, as_of: datetime, dry_run: bool) -> Pruned:
        """See `Recorder`."""
        return prune_history(self._settings, as_of=as_of, dry_run=dry_run)


@contextmanager
def dagster_recorder(settings: Settings) -> Iterator[DagsterRecorder]:
    """A recorder over Dagster's record of runs that the settings name."""
    with ExitStack() as opened:
        yield DagsterRecorder(settings, opened)

"""Ticks of sensors, replayed: the definitions as Dagster's daemon has them, over a record of runs of its own.

What a tick asks for is recorded as the daemon records it, under its run key, and executed by the test or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from dagster import (
    AssetKey,
    DagsterInstance,
    DagsterRun,
    DagsterRunStatus,
    DefaultSensorStatus,
    ExecuteInProcessResult,
    RunRequest,
    build_sensor_context,
)

from backfill_assets.orchestration import tags
from backfill_assets.orchestration.build import definitions_over
from backfill_assets.orchestration.launch import SILENT
from backfill_assets.orchestration.resources import SESSION, Session
from backfill_assets.workspace import Workspace

RUN_KEY = "dagster/run_key"
STARTED = DagsterRunStatus.STARTED


def full_name(job: str) -> str:
    """The name that Dagster knows a job by."""
    return job if job.startswith(tags.PREFIX) else tags.prefixed(job)


class Ticks:
    """The sensors of a home."""

    def __init__(self, ws: Workspace) -> None:
        self.ws = ws
        self.said = ""
        """What the last tick said that asked for nothing."""
        self.cursors: dict[str, str | None] = {}
        self._instance: DagsterInstance | None = None
        self._definitions = definitions_over(ws, lambda: Session(workspace=ws), pool=None)

    @contextmanager
    def open(self, instance: DagsterInstance | None = None) -> Iterator[None]:
        """With a record of runs: the given one, or an empty one."""
        if instance is not None:
            self._instance = instance
            yield
            return
        with DagsterInstance.ephemeral() as empty:
            self._instance = empty
            yield

    @property
    def instance(self) -> DagsterInstance:
        assert self._instance is not None
        return self._instance

    def asked(self, sensor: str) -> tuple[Any, ...]:
        """The runs that a tick asks for, without those whose key was launched before."""
        context = build_sensor_context(
            instance=self.instance, cursor=self.cursors.get(sensor), resources={SESSION: Session(workspace=self.ws)}
        )
        tick = self._definitions.resolve_sensor_def(tags.prefixed(sensor)).evaluate_tick(context)
        self.cursors[sensor] = tick.cursor
        self.said = tick.skip_message or ""
        known = {run.tags.get(RUN_KEY) for run in self.instance.get_runs()}
        return tuple(request for request in tick.run_requests or () if request.run_key not in known)

    def recorded(
        self,
        request: RunRequest,
        status: DagsterRunStatus,
        *,
        by_hand: bool = False,
        process: str | None = None,
    ) -> DagsterRun:
        """A Dagster run of a request, as the daemon records it, or as a person launches it with the same tags."""
        given = {**request.tags, **({tags.PROCESS: process} if process else {}), RUN_KEY: str(request.run_key)}
        if by_hand:
            given = {name: value for name, value in given.items() if name not in (RUN_KEY, tags.SENSOR)}
        run = DagsterRun(job_name=str(request.job_name), run_id=str(uuid4()), tags=given, status=status)
        return self.instance.add_run(run)

    def launched(self, request: Any) -> ExecuteInProcessResult:
        """A request, executed as the daemon has it executed."""
        given = {**request.tags, RUN_KEY: str(request.run_key)}
        return self.job(request.job_name or self._job_of(request), given, only=request.asset_selection)

    def _job_of(self, request: Any) -> str:
        (target,) = self._definitions.resolve_sensor_def(request.tags[tags.SENSOR]).targets
        return str(target.job_name)

    def job(
        self, name: str, given: Mapping[str, str], *, only: Sequence[AssetKey] | None = None
    ) -> ExecuteInProcessResult:
        """A job, or only some assets of it, launched with these tags."""
        found = self._definitions.resolve_job_def(full_name(name))
        return found.execute_in_process(
            instance=self.instance, tags=dict(given), run_config=SILENT, raise_on_error=False, asset_selection=only
        )

    def switch(self, sensor: str) -> DefaultSensorStatus:
        """Whether a sensor runs before anybody has switched it on or off."""
        return self._definitions.resolve_sensor_def(tags.prefixed(sensor)).default_status

    def fails(self, run: DagsterRun) -> None:
        """A Dagster run fails."""
        self.instance.report_run_failed(run)

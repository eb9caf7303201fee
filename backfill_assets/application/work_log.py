"""Work log: one line of JSON on standard error per step of a run, for what collects logs (`BACKFILL_LOG=json`).

Every line has the same fields, so that a line means the same whichever process wrote it: a command, a step of Dagster,
or the daemon. It is written by the one loop that executes runs.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from typing import Any

from backfill_assets.application.parts import Part
from backfill_assets.calendar.partitions import DayRange, days_of
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.settings import JSON
from backfill_assets.core.wording import visible
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.stages import Compute, Stage
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkLog:
    """The log of one process that executes parts of a run."""

    ws: Workspace
    manifest: Manifest | None
    by: str

    @staticmethod
    def of(ws: Workspace, run_id: str, *, by: str) -> WorkLog:
        """The log of a run; without the setting nothing is read, and nothing is written."""
        if ws.settings.log != JSON:
            return WorkLog(ws=ws, manifest=None, by=by)
        with ws.ledger.read() as tx:
            return WorkLog(ws=ws, manifest=tx.runs.get(run_id).manifest, by=by)

    @contextmanager
    def run(self, parts: Collection[Part]) -> Iterator[None]:
        """Logs the beginning and the end of parts of the run."""
        named = [str(part) for part in Part if part in parts]
        with self._logged("run", None, {"parts": named}):
            yield

    @contextmanager
    def stage(self, stage: Stage) -> Iterator[None]:
        with self._logged("stage", stage, {"stage": type(stage).__name__.lower()}):
            yield

    @contextmanager
    def _logged(self, what: str, stage: Stage | None, more: Mapping[str, Any]) -> Iterator[None]:
        if self.manifest is None:
            yield
            return
        write, began = self._writer(self.manifest, stage, more), time.monotonic()
        write(f"{what} started", level="info")
        try:
            yield
        except BaseException as error:
            seconds = round(time.monotonic() - began, 3)
            kind, message = type(error), ""
            if isinstance(error, BackfillError):
                kind, message = error.category, error.message
            write(f"{what} failed", level="error", seconds=seconds, error=kind.__name__, message=visible(message))
            raise
        write(f"{what} finished", level="info", seconds=round(time.monotonic() - began, 3))

    def _writer(self, manifest: Manifest, stage: Stage | None, more: Mapping[str, Any]) -> Callable[..., None]:
        chunk = stage.chunk if isinstance(stage, Compute) else None
        fields = {
            "run_id": manifest.run_id,
            "chunk_id": None if chunk is None else chunk.number,
            "source_range": str(_source_range(manifest, stage)),
            "transform_version": manifest.transform_version,
            "target": manifest.table,
            "mode": str(manifest.mode),
            "transform": manifest.transform,
            "by": self.by,
            **more,
        }

        def write(event: str, **values: Any) -> None:
            line = {**fields, "at": self.ws.clock().isoformat(), **values, "event": event}
            sys.stderr.write(json.dumps(line, ensure_ascii=False) + "\n")
            sys.stderr.flush()

        return write


def _source_range(manifest: Manifest, stage: Stage | None) -> DayRange:
    """The days that are read: of a chunk its windows, of a run all that it has pinned; of a source its own days."""
    if isinstance(stage, Compute):
        return _span([read.days for read in stage.reads] or _own_days(manifest, stage.chunk.partitions))
    pinned = [pin.partition for read in manifest.inputs for pin in read.partitions]
    return _span([DayRange.inclusive(min(pinned), max(pinned))] if pinned else _own_days(manifest, manifest.partitions))


def _own_days(manifest: Manifest, partitions: Sequence[date]) -> list[DayRange]:
    return [days_of(manifest.grain, partition) for partition in partitions]


def _span(ranges: Sequence[DayRange]) -> DayRange:
    return DayRange(min(each.start for each in ranges), max(each.end for each in ranges))

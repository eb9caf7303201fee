"""Recorder: the protocol of an orchestrator, such as Dagster, that executes parts of a run and records them.

The application decides what is executed, in which order, and whether it is allowed; a recorder calls `execute` for it.
Its records grant nothing: the ledger decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

from backfill_assets.core.progress import Listener, no_listener
from backfill_assets.domain import SourceTable, Table
from backfill_assets.ledger.records import PublicationRecord
from backfill_assets.workspace import Workspace

if TYPE_CHECKING:
    from backfill_assets.application.parts import Part
    from backfill_assets.report.upkeep import Pruned


class Recorder(Protocol):
    """Executes parts of runs on behalf of the application, and records them."""

    def execute(self, ws: Workspace, run_id: str, parts: Sequence[Part], *, by: str, listener: Listener) -> None:
        """Executes parts of a run.

        Raises:
            BackfillError: The error that stopped it; a gate that blocks the run is not an error.
        """

    def is_elsewhere(self, run_id: str) -> bool:
        """True if another process is recorded as executing the run."""

    def catch_up(self, ws: Workspace) -> None:
        """Marks recorded runs as failed whose process is gone, and records what is accepted where that was missed."""

    def landed(self, ws: Workspace, record: PublicationRecord) -> None:
        """Records what readers see after a rollback, or after a publication that `recover` completed."""

    def captured(self, ws: Workspace, source: SourceTable, capture_id: str) -> None:
        """Records what a capture has read."""

    def checked(self, ws: Workspace, table: Table) -> None:
        """Records what the gates of a table find in the rows that readers see, after these were checked."""

    def prune(self, *, as_of: datetime, dry_run: bool) -> Pruned:
        """Removes old records that no page shows from the recorder's history."""


class Unrecorded:
    """Executes without a further record; the ledger has everything that is decisive. See `Recorder`."""

    def execute(self, ws: Workspace, run_id: str, parts: Sequence[Part], *, by: str, listener: Listener) -> None:
        # Imported when something is executed: it brings Spark's functions and the readers of files along.
        from backfill_assets.application.execute import execute

        execute(ws, run_id, parts, actor=by, listener=listener)

    def is_elsewhere(self, run_id: str) -> bool:  # noqa: ARG002 - as the protocol has it
        return False

    def catch_up(self, ws: Workspace) -> None: ...

    def landed(self, ws: Workspace, record: PublicationRecord) -> None: ...

    def captured(self, ws: Workspace, source: SourceTable, capture_id: str) -> None: ...

    def checked(self, ws: Workspace, table: Table) -> None: ...

    def prune(self, *, as_of: datetime, dry_run: bool) -> Pruned:  # noqa: ARG002 - as the protocol has it
        # With the rooms of upkeep, which other commands do not need.
        from backfill_assets.report.upkeep import Pruned

        return Pruned(days=0, note="there is no history besides the ledger")


R = TypeVar("R", bound=Recorder)


class LazyRecorder(Generic[R]):
    """Opens another recorder on first use, and closes it at the end. See `Recorder`."""

    def __init__(self, open_recorder: Callable[[], AbstractContextManager[R]]) -> None:
        self._open, self._opened = open_recorder, ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._opened.__exit__(*error)

    @cached_property
    def _recorder(self) -> R:
        return self._opened.enter_context(self._open())

    def execute(self, ws: Workspace, run_id: str, parts: Sequence[Part], *, by: str, listener: Listener) -> None:
        self._recorder.execute(ws, run_id, parts, by=by, listener=listener)

    def is_elsewhere(self, run_id: str) -> bool:
        return self._recorder.is_elsewhere(run_id)

    def catch_up(self, ws: Workspace) -> None:
        self._recorder.catch_up(ws)

    def landed(self, ws: Workspace, record: PublicationRecord) -> None:
        self._recorder.landed(ws, record)

    def captured(self, ws: Workspace, source: SourceTable, capture_id: str) -> None:
        self._recorder.captured(ws, source, capture_id)

    def checked(self, ws: Workspace, table: Table) -> None:
        self._recorder.checked(ws, table)

    def prune(self, *, as_of: datetime, dry_run: bool) -> Pruned:
        return self._recorder.prune(as_of=as_of, dry_run=dry_run)


@dataclass(frozen=True, slots=True, kw_only=True)
class Acting:
    """The context of an action: who acts, what records it, and who is notified of its progress."""

    by: str  #: The person, or the part of the system such as `follow`.
    recorder: Recorder
    listener: Listener = no_listener

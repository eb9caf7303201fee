"""Background recorder: Dagster records a command's run in another thread, or, of many partitions, in a process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict
from queue import SimpleQueue
from threading import Thread
from typing import IO, TYPE_CHECKING, Any

from backfill_assets.application.execute import Executed, execute, executed
from backfill_assets.application.follow import is_taken_on
from backfill_assets.application.parts import STAGED_AND_GATED, Part
from backfill_assets.application.recorder import LazyRecorder
from backfill_assets.application.requests import run_of
from backfill_assets.core import errors
from backfill_assets.core.errors import BackfillError, Unexpected, Unrecorded
from backfill_assets.core.local_files import keep_private
from backfill_assets.core.progress import Listener, Progress, no_listener, waiting
from backfill_assets.core.settings import Settings
from backfill_assets.domain import SourceTable
from backfill_assets.ledger.records import PublicationRecord
from backfill_assets.report.runs import interrupted
from backfill_assets.workspace import Workspace

if TYPE_CHECKING:
    from backfill_assets.orchestration.recorder import DagsterRecorder


# A run that a command executes, and that assets of Dagster record beside it.
#
# Dagster takes seconds to import and to make its definitions. The command does not wait for that: its thread
# executes the parts, as it would without a recorder, and a second one starts the Dagster run, whose assets take
# over what the parts have come to. A process that is killed leaves a Dagster run that has begun, or none; the
# ledger has both.

MANY = 300
"""Of more partitions the record is another process's work (`apart`), for which no command waits."""


class ResultQueue:
    """The messages of the executing thread, in order: its progress, the results of the parts, or why it stopped."""

    def __init__(self) -> None:
        self._said: SimpleQueue[Progress | Executed | BackfillError] = SimpleQueue()

    def say(self, said: Progress | Executed | BackfillError) -> None:
        """Hands it over."""
        self._said.put(said)

    def perform(
        self, _ws: Workspace, _run_id: str, _parts: Iterable[Part], /, *, actor: str, listener: Listener = no_listener
    ) -> Executed:
        """For an asset, in place of `execute`: the result of the next parts, once they are executed.

        Raises:
            BackfillError: What stopped them.
        """
        del actor
        while True:
            match self._said.get():
                case Progress() as progress:
                    listener(progress)
                case Executed() as executed:
                    return executed
                case BackfillError() as error:
                    raise error


class RecordedBeside(LazyRecorder["DagsterRecorder"]):
    """Executes parts of runs in the command's thread, and records them in Dagster in another. See `Recorder`.

    Dagster's record shows what the ledger has. One that cannot be written keeps nothing from being done, such as the
    next run of a set: that is said at the end.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(lambda: _opened(settings))
        self._failed: list[Exception] = []

    def __exit__(self, *stopped: Any) -> None:
        super().__exit__(*stopped)
        if self._failed and not any(stopped):
            error = self._failed[0]
            said = error.message if isinstance(error, BackfillError) else f"{type(error).__name__}: {error}"
            raise Unrecorded(why=said.partition("\n")[0].rstrip(".")) from error

    def is_elsewhere(self, run_id: str) -> bool:
        # What the record does not say, the ledger decides: two processes do nothing twice.
        with self._said_at_the_end():
            return super().is_elsewhere(run_id)
        return False

    def landed(self, ws: Workspace, record: PublicationRecord) -> None:
        with self._said_at_the_end():
            if _is_apart(ws, len(record.changes)):
                Apart(ws.settings, "landed", record.publication_id).leave()
            else:
                super().landed(ws, record)

    def captured(self, ws: Workspace, source: SourceTable, capture_id: str) -> None:
        with self._said_at_the_end():
            super().captured(ws, source, capture_id)

    def catch_up(self, ws: Workspace) -> None:
        with self._said_at_the_end():
            super().catch_up(ws)

    @contextmanager
    def _said_at_the_end(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever keeps Dagster's record from being written
            self._failed.append(error)

    def execute(self, ws: Workspace, run_id: str, parts: Sequence[Part], *, by: str, listener: Listener) -> None:
        """See `Recorder`. What stopped the work is recorded before it is raised."""
        run = run_of(ws, run_id)
        if Part.STAGE in parts and is_taken_on(run):
            return
        if not _is_apart(ws, len(run.manifest.partitions)):
            self._beside(ws, run_id, parts, by=by, listener=listener)
            return

        apart = Apart(ws.settings, "run", run_id, by, *parts)

        def tell(progress: Progress) -> None:
            apart.say(progress)
            listener(progress)

        try:
            _told(ws, run_id, parts, by, tell, apart.say)
        finally:
            apart.leave()
        total = len(run.manifest.partitions)
        said = f"Dagster's pages show it soon: process {apart.number} records it, and writes {apart.log}"
        listener(Progress(step="record", done=total, total=total, line=said, table=run.manifest.table))

    def _beside(self, ws: Workspace, run_id: str, parts: Sequence[Part], *, by: str, listener: Listener) -> None:
        handover = ResultQueue()

        failed: list[Exception] = []

        def record() -> None:
            try:
                self._recorder.record(ws, run_id, parts, handover.perform, by=by)
            except Exception as error:  # noqa: BLE001 - what stopped the work itself is raised in the command's thread
                failed.append(error)

        recorder = Thread(target=record, name="recorder")

        def tell(progress: Progress) -> None:
            handover.say(progress)
            listener(progress)
            if recorder.ident is None:
                # Not earlier: until there is work in Spark to wait for, importing Dagster would only delay it.
                recorder.start()

        try:
            _told(ws, run_id, parts, by, tell, handover.say)
        finally:
            if recorder.ident is None:
                recorder.start()
            with waiting(lambda: "waiting until Dagster's pages show what was done"):
                recorder.join()
        self._failed += failed


def _told(
    ws: Workspace,
    run_id: str,
    parts: Sequence[Part],
    by: str,
    listener: Listener,
    say: Callable[[Executed | BackfillError], None],
) -> None:
    """Executes parts of a run, and says what comes of each of them."""
    is_load = isinstance(ws.domain.table(run_of(ws, run_id).manifest.table), SourceTable)
    try:
        # The assets of a derived table execute a part each; that of a source table stages and gates.
        single = [(part,) for part in parts if not is_load or part not in STAGED_AND_GATED]
        for group in [STAGED_AND_GATED, *single] if is_load else single:
            done = execute(ws, run_id, group, actor=by, listener=listener)
            say(done)
            if done.is_blocked:
                break
    except BackfillError as error:
        say(error)
        raise
    except BaseException:
        say(interrupted(ws, run_id))
        raise


def _is_apart(ws: Workspace, partitions: int) -> bool:
    """True if another process records so many partitions; it has to find the same home in its environment."""
    return partitions > MANY and Settings.from_environment() == ws.settings


def _opened(settings: Settings) -> AbstractContextManager[DagsterRecorder]:
    # Dagster takes seconds to import.
    from backfill_assets.orchestration.recorder import dagster_recorder

    return dagster_recorder(settings)


# A process of its own that records in Dagster what a command has done to many partitions.
#
# Dagster takes milliseconds for everything that it records of a partition, which for thousands of them is longer
# than the work itself. A command ends when its work is done: it tells this process what comes of the parts of a
# run, as lines on its standard input, and the rows that are recorded come from the ledger. If this process ends
# early, nothing is lost: the sensor `fresh`, and `recover`, show what the ledger has accepted.

LOG = "recording.log"

MOST_TOLD = 32_768
"""Bytes of progress: a pipe takes twice as much before who writes into it has to wait."""


class Apart:
    """For the command: the process that records, which outlives it."""

    def __init__(self, settings: Settings, *words: str) -> None:
        self.log = settings.home / "logs" / LOG
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as output:
            process = subprocess.Popen(  # noqa: S603 - this project's own module
                [sys.executable, "-m", __name__, *words],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C is for the command
            )
        assert process.stdin is not None
        self.number, self._input, self._told = process.pid, process.stdin, 0
        process.returncode = 0  # nothing waits for it

    def say(self, said: Progress | Executed | BackfillError) -> None:
        """Hands over how far the work is; of a process that has ended nothing is expected."""
        match said:
            case Progress():
                line = {"progress": asdict(said)}
                self._told += len(json.dumps(line))
                if self._told > MOST_TOLD:
                    return
            case Executed():
                line = {"done": {}}
            case _:
                line = {"error": {"category": said.category.__name__, "message": said.message}}
        with suppress(OSError):
            self._input.write(json.dumps(line).encode() + b"\n")
            self._input.flush()

    def leave(self) -> None:
        """Nothing more is handed over."""
        with suppress(OSError):
            self._input.close()


class Told:
    """For the process that records: what the command hands over."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines: Iterator[str] = iter(lines)

    def perform(
        self, ws: Workspace, run_id: str, parts: Iterable[Part], /, *, actor: str, listener: Listener = no_listener
    ) -> Executed:
        """In place of `execute`: what the ledger has of the next parts, once the command says that they are executed.

        Raises:
            BackfillError: What stopped them.
        """
        del actor
        for line in self._lines:
            said: dict[str, Any] = json.loads(line)
            if error := said.get("error"):
                raise getattr(errors, error["category"])(error["message"])
            if progress := said.get("progress"):
                listener(Progress(**progress))
            else:
                return executed(ws, run_id, parts)
        raise Unexpected(why=f"the process of the command that worked on {run_id} ended without a word")


def main(words: list[str], lines: IO[str]) -> None:
    """Records the parts of a run, `run RUN BY PART...`, or a publication of which no asset knows, `landed ID`."""
    from backfill_assets.orchestration.recorder import dagster_recorder

    what, name, *more = words
    settings = Settings.from_environment()
    keep_private(settings.home)
    ws = Workspace.open(settings, conditions=False)
    try:
        with dagster_recorder(settings) as recorder:
            if what == "run":
                by, *parts = more
                recorder.record(ws, name, [Part(part) for part in parts], Told(lines).perform, by=by)
            else:
                with ws.ledger.read() as tx:
                    record = tx.publications.get(name)
                recorder.landed(ws, record)
    finally:
        ws.close()


if __name__ == "__main__":
    with suppress(BackfillError):  # it is in Dagster's record of the run
        main(sys.argv[1:], sys.stdin)

"""A process of its own that records in Dagster what a command has done to many partitions.

Dagster takes milliseconds for everything that it records of a partition, which for thousands of them is longer than the
work itself. A command ends when its work is done: it tells this process what comes of the parts of a run, as lines on
its standard input, and the rows that are recorded come from the ledger. If this process ends early, nothing is lost:
the sensor `fresh`, and `recover`, show what the ledger has accepted.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict
from typing import IO, Any

from backfill_assets.application.execute import Executed, executed
from backfill_assets.application.parts import Part
from backfill_assets.core import errors
from backfill_assets.core.errors import BackfillError, Unexpected
from backfill_assets.core.file_rights import keep_private
from backfill_assets.core.progress import Listener, Progress, no_listener
from backfill_assets.core.settings import Settings
from backfill_assets.workspace import Workspace

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

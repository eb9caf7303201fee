"""Turn: the lock under which one process at a time lands files of a source.

The counts of a file depend on every file before it. The turn is a file lock, which the operating system releases when
its holder ends, so that the holder is the only process of this machine that lands files of the source.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from backfill_assets.domain import SourceTable
from backfill_assets.errors import Retryable


class TurnTaken(Retryable):
    """Another process is landing files of this source."""


@contextmanager
def landing_turn(landing: Path, source: SourceTable, *, wait: bool = True) -> Iterator[None]:
    """Holds the turn to land files of a source.

    Args:
        landing: The landing folder.
        source: The source table.
        wait: Wait until another process releases the turn, instead of raising an error.

    Raises:
        TurnTaken: Another process has the turn, and `wait` is False.
    """
    folder = landing / source.short_name
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".turn").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise TurnTaken(f"files of {source.name} are being landed right now.", source=source.name) from error
        yield

"""Who is landing files of a source right now?

One process at a time: the counts of a file depend on every file before it. The turn is a lock on a file, which the
operating system takes back when its holder dies, so whoever has the turn knows that nobody else is landing.
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
        wait: Wait for another one's turn to end, rather than give up.

    Raises:
        TurnTaken: Somebody else has the turn, and we do not wait.
    """
    folder = landing / source.short_name
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".turn").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise TurnTaken(f"files of {source.name} are being landed right now.", source=source.name) from error
        yield

"""Progress: how far long work is, for a terminal or a log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of long work, for a display.

    Attributes:
        table: The table it is done for; empty where it is for several.
        done, total: In partitions.
    """

    step: str
    done: int
    total: int
    line: str
    table: str = ""


Listener = Callable[[Progress], None]


def no_listener(progress: Progress) -> None:
    """For callers that do not show progress."""

"""Progress: how far long work is, and for whom it waits, for a terminal or a log."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of long work, for a display."""

    step: str
    done: int  #: In partitions.
    total: int  #: In partitions.
    line: str
    table: str = ""  #: The table it is done for; empty where it is for several.


Listener = Callable[[Progress], None]


def no_listener(progress: Progress) -> None:
    """Ignores progress."""


SAID_AFTER_S = 2.0
"""After so long whatever waits says for whom."""

AGAIN_AFTER_S = 30.0

Heard = Callable[[str], None]

_hearing: list[Heard] = []


@contextmanager
def hearing_waits(hear: Heard) -> Iterator[None]:
    """Has what any thread of this process waits for told to a terminal or a log; within another one, in its place."""
    _hearing.append(hear)
    try:
        yield
    finally:
        _hearing.remove(hear)


@contextmanager
def waiting(for_whom: Callable[[], str]) -> Iterator[None]:
    """Wraps whatever may wait for something else than its own work: after two seconds it says for whom, and again.

    Args:
        for_whom: The sentence, which is asked for in another thread when it is due; an error there says nothing.
    """
    if not _hearing:
        yield
        return
    ended = threading.Event()

    def say() -> None:
        pause = SAID_AFTER_S
        while not ended.wait(pause):
            pause = AGAIN_AFTER_S
            with suppress(Exception):
                sentence = for_whom()
                if _hearing and not ended.is_set():
                    _hearing[-1](sentence)

    teller = threading.Thread(target=say, daemon=True, name="waiting")
    teller.start()
    try:
        yield
    finally:
        ended.set()

"""Who is at work, and until when do others take that for granted?

Work in progress holds a lease in the ledger. A thread of its own renews it while the work goes on, so that a long Spark
job or a long pause of Java does not look like a dead process; a renewal is no event, for it changes no state. Whoever
lost its lease may still be alive: what it does then is refused by its attempt, and its Spark jobs are stopped.

The clock of the machine that works counts. A lease is renewed when a quarter of it has passed, so machines whose clocks
differ by less than half a lease take no living work for dead.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

RENEWALS = 4
"""How often a lease is renewed before it would end."""


def this_process() -> str:
    """Names this process to people and to other processes of this machine: `host:pid`."""
    return f"{socket.gethostname()}:{os.getpid()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTerms:
    """What a process that begins work asks of the ledger.

    Attributes:
        attempt: Names this piece of work; it comes with everything that is written for it.
        length: How long the work is left alone when the lease is not renewed.
        machine: The process, as `this_process` names it.
    """

    attempt: str
    length: timedelta
    machine: str = field(default_factory=this_process)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Who is at work on a run or a landed file.

    Attributes:
        holder: On whose behalf.
        machine: The process, `host:pid`.
        since_at: When the work began.
        until_at: Until when it is left alone, unless the lease is renewed.
    """

    attempt: str
    holder: str
    machine: str
    since_at: datetime
    until_at: datetime

    def is_alive(self, at: datetime) -> bool:
        """Whether others have to leave the work alone."""
        return self.until_at > at

    def sentence(self, at: datetime) -> str:
        """Who, since when, until when."""
        left = max(0, round((self.until_at - at).total_seconds()))
        return (
            f"{self.holder} ({self.machine}) is at work on it since {self.since_at:%Y-%m-%d %H:%M:%S} UTC; "
            f"its lease ends in {left} s, at {self.until_at:%H:%M:%S} UTC, unless it is renewed"
        )


@contextmanager
def renewed(renew: Callable[[], bool], *, length: timedelta, lost: Callable[[], object]) -> Iterator[None]:
    """Renews a lease until the block ends, in a thread of its own.

    Args:
        renew: Renews it; False when it was taken away. An error is no answer: it is tried again.
        length: How long the lease is.
        lost: Called from that thread when it was taken away, until the block ends.
    """
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(length.total_seconds() / RENEWALS):
            try:
                is_held = renew()
            except Exception:  # noqa: BLE001, S112 - a database that is away for a while takes nothing away
                continue
            if not is_held and not ended.is_set():
                lost()  # again at every beat: a job may have begun just after the one that was stopped

    heart = threading.Thread(target=beat, daemon=True, name="lease")
    heart.start()
    try:
        yield
    finally:
        ended.set()
        heart.join(timeout=1)

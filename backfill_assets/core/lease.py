"""Lease: which process works on something, and until when other processes respect that.

Work in progress holds a lease in the ledger. A separate thread renews it, so that a long Spark job or a long pause of
Java does not look like a stopped process; a renewal is not an event, because it changes no state. A process that has
lost its lease may still be running: its writes are refused by its attempt token, and its Spark jobs are cancelled.

A lease ends with its process, which other processes of the same machine see at once, where the system has `/proc`.
Otherwise the clock of the working machine applies. A lease is renewed after a quarter of its length, so that machines
whose clocks differ by less than half a lease never take over work that is still running.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

_LONGEST_COMMAND = 80

RENEWALS = 4
"""The number of renewals per length of a lease."""


def this_process() -> str:
    """The name of this process, for people and for other processes of this machine: `host:pid`."""
    return f"{socket.gethostname()}:{os.getpid()}"


def mark_of(machine: str) -> str:
    """A mark that distinguishes a process of this machine from any other that ever has its number: the boot of the
    machine, the container, and the start time. Empty for other machines, and where the system does not tell.

    Args:
        machine: The process, `host:pid`.
    """
    host, _, number = machine.rpartition(":")
    if host != socket.gethostname() or not number.isdecimal():
        return ""
    began = _began(int(number))
    return f"{_system()}/{began}" if began else ""


def doing_of(machine: str) -> str:
    """A process with the command that it runs, where the system says: `host:123 (backfill land FILE)`.

    Args:
        machine: The process, `host:pid`.
    """
    host, _, number = machine.rpartition(":")
    if host != socket.gethostname() or not number.isdecimal():
        return machine
    try:
        told = Path(f"/proc/{number}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return machine
    words = [word.rpartition("/")[2] if word.startswith("/") else word for word in told.rstrip("\0").split("\0")]
    # An installed command is a file of Python's.
    said = " ".join(" ".join(words[1:] if words[1:] and words[0].startswith("python") else words).split())
    return f"{machine} ({said[:_LONGEST_COMMAND]})" if said else machine


def who_locks(file: Path, first_byte: int | None = None) -> str:
    """The process of this machine that has locked a file, or a byte of it, for itself; empty where none is seen.

    Args:
        first_byte: For a lock on a range of bytes; None for one on the whole file.
    """
    try:
        inode = file.stat().st_ino
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return ""
    for line in lines:
        # `1: POSIX  ADVISORY  WRITE 123 08:01:456 120 120`; who waits for a lock is listed with an arrow.
        _, *words = line.split()
        if len(words) != 7 or words[2] != "WRITE" or words[4].rpartition(":")[2] != str(inode):
            continue
        if first_byte is None or (words[5].isdecimal() and int(words[5]) <= first_byte <= int(words[6])):
            machine = f"{socket.gethostname()}:{words[3]}"
            return doing_of(machine)
    return ""


def _system() -> str:
    """The boot of this machine, and the namespace in which its processes are numbered."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _began(number: int) -> str:
    """When a process began, in ticks since the boot; empty when it has ended, or the system does not say."""
    try:
        # The name of its program comes second, in brackets, and may hold anything.
        state, *fields = Path(f"/proc/{number}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if state in ("Z", "X") else fields[18]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTerms:
    """The lease that a process requests when it begins work."""

    attempt: str  #: Identifies this attempt; it is part of everything that is written for it.
    length: timedelta  #: How long other processes respect the lease when it is not renewed.
    machine: str = field(default_factory=this_process)  #: The process, as `this_process` names it.


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The process that works on a run or a landed file, or whose turn it is to land files."""

    attempt: str
    holder: str  #: On whose behalf.
    machine: str  #: The process, `host:pid`.
    since_at: datetime  #: When the work began.
    until_at: datetime  #: When the lease ends, unless it is renewed.
    mark: str = ""  #: What `mark_of` gave of the process when it began.

    def is_alive(self, at: datetime) -> bool:
        """True if other processes have to respect the lease."""
        return self.until_at > at and not self._is_orphaned

    @property
    def _is_orphaned(self) -> bool:
        """True if its process ran on this machine since it was booted, and has ended."""
        system, _, _began_at = self.mark.rpartition("/")
        return bool(system) and system == _system() and mark_of(self.machine) != self.mark


@contextmanager
def renewed(renew: Callable[[], bool], *, length: timedelta, lost: Callable[[], object]) -> Iterator[None]:
    """Renews a lease until the block ends, in a separate thread.

    Args:
        renew: Renews it; False when the lease was lost. After an error it is tried again.
        lost: Called from that thread when the lease was lost, repeatedly until the block ends.
    """
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(length.total_seconds() / RENEWALS):
            try:
                is_held = renew()
            except Exception:  # noqa: BLE001, S112 - a database that is unreachable for a while ends no lease
                continue
            if not is_held and not ended.is_set():
                lost()  # repeatedly: a job may have begun just after the one that was cancelled

    heart = threading.Thread(target=beat, daemon=True, name="lease")
    heart.start()
    try:
        yield
    finally:
        ended.set()
        heart.join(timeout=1)

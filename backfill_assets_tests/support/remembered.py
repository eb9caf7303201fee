"""How do many tests come by the same state of a shop without Spark computing it for each of them?

An act over the same files, ledger, clock, settings and arguments leads to the same home; so the home that it led to is
kept, and copied the next time. What else an act could depend on, such as code that a test replaces, turns this off.
Nothing is taken from an earlier run of the tests, and workers that run side by side share what they keep.
"""

from __future__ import annotations

import fcntl
import hashlib
import pickle
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import TypeVar

from backfill_assets.core.crash_points import carry_on
from backfill_assets.domain.domain import load_domain
from backfill_assets.transforms.code import DomainCode
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support.lakes import on_a_store
from backfill_assets_tests.support.ledgers import in_postgresql

Result = TypeVar("Result")

_LEDGER = "ledger.db"


class TickingClock:
    """A clock that moves on by a second at every reading, and can be set to a number of readings."""

    def __init__(self, start: datetime) -> None:
        self.start = start
        self.readings = 0
        self._turn = Lock()

    def __call__(self) -> datetime:
        with self._turn:
            self.readings += 1
            return self.start + timedelta(seconds=self.readings - 1)


@dataclass(kw_only=True)
class Memory:
    """The homes that acts of this session of tests led to."""

    folder: Path | None = None  #: Where they are kept; None where every act is carried out.
    #: Whether everything an act depends on is in its home and its arguments; false while code is replaced.
    is_trusted: bool = False

    def once(self, ws: Workspace, act: str, do: Callable[[], Result]) -> Result:
        """Carries out an act, or makes the home what it was after the same act.

        Args:
            ws: The workspace in whose home it happens.
            act: Its name and arguments.
            do: Carries it out.

        Returns:
            What it returned then.
        """
        clock = ws.clock
        if self.folder is None or not isinstance(clock, TickingClock) or not self._knows_everything_of(ws):
            return do()
        folder = self.folder / _digest_of(ws, clock, act)
        with _turn_at(folder):
            if (folder / "result").exists():
                result, clock.readings = pickle.loads((folder / "result").read_bytes())
                _let_go(ws)
                shutil.rmtree(ws.settings.home)
                shutil.copytree(folder / "home", ws.settings.home)
                return result  # type: ignore[no-any-return]
            result = do()
            _let_go(ws)
            shutil.copytree(ws.settings.home, folder / "home")
            (folder / "result").write_bytes(pickle.dumps((result, clock.readings)))
            return result

    def _knows_everything_of(self, ws: Workspace) -> bool:
        _let_go(ws)
        return (
            self.is_trusted
            and not (in_postgresql() or on_a_store())
            and ws.settings.ledger_url == f"sqlite:///{ws.settings.home / _LEDGER}"
            and not (ws.settings.home / f"{_LEDGER}-wal").exists()  # another workspace has it open
            and ws.domain is load_domain(ws.settings.domain)
            and type(ws.code) is DomainCode
            and ws.reached is carry_on
        )


MEMORY = Memory()
"""That of this process."""


def _digest_of(ws: Workspace, clock: TickingClock, act: str) -> str:
    home = ws.settings.home
    digest = hashlib.sha256(f"{act} {clock.start} {clock.readings} ".encode())
    digest.update(repr(ws.settings).replace(str(home), "").encode())
    for path in sorted(path for path in home.rglob("*") if not path.name.startswith(_LEDGER)):
        found = path.stat()
        digest.update(f"\n{path.relative_to(home)} {found.st_mode} ".encode())
        if path.is_file():
            digest.update(f"{found.st_mtime_ns} ".encode() + hashlib.sha256(path.read_bytes()).digest())
    if (home / _LEDGER).exists():
        with closing(sqlite3.connect(home / _LEDGER)) as ledger:
            for line in ledger.iterdump():
                digest.update(line.encode())
    return digest.hexdigest()


def _let_go(ws: Workspace) -> None:
    if "ledger" in ws.__dict__:
        ws.ledger._engine.dispose()


@contextmanager
def _turn_at(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "turn").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        yield

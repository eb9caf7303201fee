"""A scene on disk, and copies of it, one at a time."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from backfill_assets.workspace import Workspace
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.faults.scene import Gated, Scene, build, open_home, sharing, ticking
from backfill_assets_tests.support.lakes import bring_back_lake, copy_lake, forget_lake


class LedgerServer(Protocol):
    """A database that is not a file in the home, and so has to be copied in its own way."""

    @property
    def url(self) -> str:
        """Where the ledger is."""
        ...

    def remember(self) -> None:
        """Keeps a copy of the ledger as it is now."""

    def bring_back(self) -> None:
        """Makes the ledger what it was when it was remembered."""


@dataclass(kw_only=True)
class Prepared:
    """The history on disk, and copies of it, one at a time, always in the same place.

    The same place keeps the ledger's engine, and with it the statements that it has compiled.
    """

    folder: Path
    ws: Workspace
    gated: Mapping[str, list[Gated]]
    attempts: int
    server: LedgerServer | None = None

    @staticmethod
    def make(folder: Path, server: LedgerServer | None = None) -> Prepared:
        """Builds the history in a folder, with a SQLite ledger there or one on a server."""
        home = folder / "home"
        ws = open_home(home, server.url if server else None)
        scene = build(ws)
        ws.ledger._engine.dispose()
        shutil.copytree(home, folder / "master")
        copy_lake(home, folder / "master")
        if server:
            server.remember()
        return Prepared(folder=folder, ws=ws, gated=scene.gated, attempts=scene.attempts, server=server)

    def copy(self) -> Scene:
        """The history as it was, for one run."""
        home = self.folder / "home"
        self.ws.ledger._engine.dispose()
        shutil.rmtree(home)
        shutil.copytree(self.folder / "master", home)
        bring_back_lake(self.folder / "master", home)
        if self.server:
            self.server.bring_back()
        ws = sharing(self.ws, clock=ticking(NOON + timedelta(days=1)))
        return Scene(ws=ws, gated={run: list(seen) for run, seen in self.gated.items()}, attempts=self.attempts)

    def close(self) -> None:
        """Lets go of the ledger and of both lakes."""
        self.ws.close()
        for name in ("home", "master"):
            forget_lake(self.folder / name)

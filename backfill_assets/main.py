"""The installed command: the command line, with Dagster as its recorder, and the desk."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

# Python would look for garbage among what imports have made, which all stays: a tenth of the time of a short command.
gc.set_threshold(200_000, 20, 20)

from backfill_assets.cli import app  # noqa: E402
from backfill_assets.cli.session import Surroundings  # noqa: E402
from backfill_assets.core.local_files import keep_private  # noqa: E402
from backfill_assets.core.settings import home_named  # noqa: E402

if TYPE_CHECKING:
    from backfill_assets.application.recorder import Recorder
    from backfill_assets.core.settings import Settings
    from backfill_assets.workspace import Workspace

__all__ = ["app", "main"]


def _in_dagster(settings: Settings) -> AbstractContextManager[Recorder]:
    from backfill_assets.orchestration.background_recorder import RecordedBeside

    return RecordedBeside(settings)


def _desk(ws: Workspace, port: int | None, ready: Callable[[str], None]) -> None:
    from backfill_assets.desk.serve import serve_desk

    serve_desk(ws, port, ready)


def _meanwhile() -> None:
    # Dagster and nothing else: two threads may not be inside the imports of one package.
    import backfill_assets.orchestration.dagster_internals  # noqa: F401


_SURROUNDINGS = Surroundings(recording=_in_dagster, serving=_desk, meanwhile=_meanwhile)
app.info.context_settings = {**(app.info.context_settings or {}), "obj": _SURROUNDINGS}


def main() -> None:
    """The entry point of the installed command."""
    keep_private(home_named())
    try:
        app()
    finally:
        # Otherwise Python examines every object several times as the process ends: a fifth of a short command's time.
        gc.freeze()

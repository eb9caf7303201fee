"""Dagster's record of runs: where it is, and how it is opened."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

from dagster import DagsterInstance

from backfill_assets.core.settings import Settings
from backfill_assets.orchestration.dagster_internals import NoOpComputeLogManager
from backfill_assets.orchestration.storage import dagster_folder, storage_below

TEMPLATE = "dagster.yaml"
QUIET = {"compute_logs": {"module": NoOpComputeLogManager.__module__, "class": NoOpComputeLogManager.__name__}}
"""Compute logs are made by redirecting the process's output, which belongs to the command."""


@contextmanager
def open_instance(settings: Settings) -> Iterator[DagsterInstance]:
    """Dagster's record of runs: that of `DAGSTER_HOME`, else `<BACKFILL_HOME>/dagster`, made when it is not there."""
    given = os.environ.get("DAGSTER_HOME")
    folder = Path(given).expanduser().resolve() if given else _own_folder(settings)
    # Without DAGSTER_HOME the settings say where; with it, its `dagster.yaml` and the environment do.
    overrides: Any = QUIET if given else {**QUIET, "storage": storage_below(settings)}
    # It is not temporary: this is how Dagster opens a folder that need not be DAGSTER_HOME.
    with DagsterInstance.local_temp(str(folder), overrides=overrides) as instance:
        yield instance


def _own_folder(settings: Settings) -> Path:
    folder = dagster_folder(settings)
    if not (folder / TEMPLATE).exists():
        folder.mkdir(parents=True, exist_ok=True)
        text = resources.files("backfill_assets.orchestration").joinpath(TEMPLATE).read_text(encoding="utf-8")
        (folder / TEMPLATE).write_text(text, encoding="utf-8")
    return folder

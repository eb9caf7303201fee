"""Dagster's record of runs in the home of a test: its databases are made once and then copied, which is quicker."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
from dagster import DagsterInstance

from backfill_assets.core.settings import Settings
from backfill_assets.orchestration.storage import dagster_folder, open_instance


@contextmanager
def open_record(settings: Settings) -> Iterator[DagsterInstance]:
    """Dagster's instance of a home, where Dagster has recorded nothing yet unless the home is older."""
    folder = dagster_folder(settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DAGSTER_HOME", raising=False)
        if not settings.dagster_url and not folder.exists():
            shutil.copytree(_empty_record(), folder)
        with open_instance(settings) as instance:
            yield instance


@cache
def _empty_record() -> Path:
    home = Path(tempfile.mkdtemp(prefix="backfill-dagster-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    settings = Settings.from_environment({"BACKFILL_HOME": str(home)})
    with open_instance(settings) as instance:
        assert instance.get_runs() == []
    return dagster_folder(settings)


def ended_process() -> int:
    """The number of a process that is no more."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid

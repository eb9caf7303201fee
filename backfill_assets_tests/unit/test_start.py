"""Commands answer at once: what takes long to import is imported by the commands that need it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def command(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, as it is installed."""
    return subprocess.run(
        [sys.executable, "-c", "from backfill_assets.main import main; main()", *words],
        capture_output=True,
        text=True,
        env={**os.environ, "BACKFILL_HOME": str(home)},
    )


def test_a_command_answers_over_an_empty_home(tmp_path: Path) -> None:
    answered = command(tmp_path / "home", "status", "--json")
    assert (answered.returncode, answered.stderr) == (0, "")
    assert '"tables"' in answered.stdout

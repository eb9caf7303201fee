"""A home that may not be written: commands that only look work, and those that write are refused in one sentence."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from backfill_assets_tests.support.ledgers import copy_home
from backfill_assets_tests.support.shop import RECENT, shop_environment

LOOKING = (
    "status",
    "stale",
    f"history {RECENT} --partition 2026-01-03",
    "locate bronze.sales --from 2026-01-03 --to 2026-01-03",
    "audit",
)

MOUNTED = (
    "mount --bind {home} {home} && mount -o remount,ro,bind {home} && ! touch {home}/x 2>/dev/null && exec {command}"
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, published_home: Path) -> Path:
    copied = tmp_path_factory.mktemp("looked_at") / "home"
    copy_home(published_home, copied)
    return copied


def typed_in_read_only(home: Path, words: str) -> subprocess.CompletedProcess[str]:
    """A command in a name space of mounts of its own, in which the home is read-only."""
    command = f"{shlex.quote(sys.executable)} -c 'from backfill_assets.main import main; main()' {words}"
    environment = {**os.environ, **shop_environment(home)}
    if not environment.get("BACKFILL_LEDGER_URL", "sqlite").startswith("sqlite"):
        pytest.skip("PostgreSQL has rights of its own")
    shell = ["unshare", "--mount", "sh", "-c", MOUNTED.format(home=shlex.quote(str(home)), command=command)]
    try:
        tried = subprocess.run(["unshare", "--mount", "mount", "--bind", str(home), str(home)], check=False)
    except FileNotFoundError:
        pytest.skip("A READ-ONLY HOME IS NOT TESTED: there is no unshare")
    if tried.returncode:
        pytest.skip("A READ-ONLY HOME IS NOT TESTED: this user may mount nothing")
    return subprocess.run(shell, capture_output=True, text=True, env=environment, check=False)


@pytest.mark.long
@pytest.mark.parametrize("words", LOOKING)
def test_what_looks_works_in_a_home_that_may_not_be_written(home: Path, words: str) -> None:
    done = typed_in_read_only(home, f"{words} --json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)


@pytest.mark.long
def test_what_writes_is_refused_and_says_that_the_ledger_can_only_be_read(home: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in home.rglob("*")}
    done = typed_in_read_only(home, f"plan {RECENT} --from 2026-01-03 --to 2026-01-04 --reason again --by ana")
    assert done.returncode == 1
    assert "can be read, and not written" in done.stderr
    assert {path: path.stat().st_mtime_ns for path in home.rglob("*")} == before

"""Nobody else on the machine can read what is landed, computed, recorded or logged, whatever umask a person has."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from backfill_assets.core.local_files import keep_private, readable_by_others, umask_of
from backfill_assets.core.settings import PROJECT_ROOT
from backfill_assets_tests.support.all_the_way import open_to_others
from backfill_assets_tests.support.lakes import only_in_folders
from backfill_assets_tests.support.ledgers import in_postgresql
from backfill_assets_tests.support.shop import shop_environment

USUAL = 0o022


def run(*words: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """A process of a person with the usual umask."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=PROJECT_ROOT,
        env={**os.environ, "PYTHONPATH": str(PROJECT_ROOT), **environment},
        umask=USUAL,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def surroundings(folder: Path) -> tuple[Path, Path, Mapping[str, str]]:
    """A home that is not there yet, a folder for everything temporary, and the environment of a process with both."""
    home, scratch = folder / "home", folder / "scratch"
    scratch.mkdir(mode=0o700)
    given = dict(shop_environment(home))
    given["BACKFILL_SPARK_CONF"] = given["BACKFILL_SPARK_CONF"].replace(
        "extraJavaOptions=", f"extraJavaOptions=-Djava.io.tmpdir={scratch} "
    )
    assert str(scratch) in given["BACKFILL_SPARK_CONF"]
    return home, scratch, {**given, "TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch), "BACKFILL_USER": "ana"}


@pytest.mark.long
def test_nothing_that_commands_and_spark_write_is_open_to_others(tmp_path: Path) -> None:
    only_in_folders("a store has rights of its own")
    home, scratch, given = surroundings(tmp_path)
    done = run(
        "-m", "backfill_assets_tests.support.all_the_way", str(home), str(scratch), str(tmp_path), environment=given
    )
    found = json.loads(done.stdout)
    assert found["open"] == []
    assert found["files"] > 100
    assert (home / "lake" / "quarantine" / "sales").is_dir()
    assert (home / "logs" / "spark.log").is_file()


@pytest.mark.long
def test_nothing_that_a_materialization_in_dagster_writes_is_open_to_others(tmp_path: Path) -> None:
    only_in_folders("a store has rights of its own")
    home, scratch, given = surroundings(tmp_path)
    record = tmp_path / "dagster"
    record.mkdir(mode=0o700)
    shutil.copy(PROJECT_ROOT / "dagster.yaml", record)
    (record / "dagster.yaml").chmod(0o600)
    (tmp_path / "sales.jsonl").write_text(
        '{"sale_id": "s", "sold_at": "2026-01-01T12:00:00Z", "amount": 1}\n', encoding="utf-8"
    )
    backfill = ("-c", "from backfill_assets.main import main; main()")
    run(*backfill, "land", "sales", str(tmp_path / "sales.jsonl"), "--no-load", environment=given)
    materialize = ("-m", "dagster", "asset", "materialize", "-m", "backfill_assets.definitions")
    what = ("--select", "bronze/sales", "--partition", "2026-01-01")
    run(*materialize, *what, environment={**given, "DAGSTER_HOME": str(record)})
    assert list((home / "lake" / "bronze" / "sales").rglob("*.parquet"))
    assert [each for folder in (home, scratch, record) for each in open_to_others(folder)] == []


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (None, 0o077),
        (0o700, 0o077),
        (0o755, 0o077),
        (0o777, 0o077),
        (0o750, 0o027),
        (0o770, 0o007),
        (0o2770, 0o007),
    ],
)
def test_only_a_home_that_is_opened_to_a_group_alone_is_shared_with_it(
    tmp_path: Path, mode: int | None, expected: int
) -> None:
    home = tmp_path / "home"
    if mode is not None:
        home.mkdir()
        home.chmod(mode)
    assert oct(umask_of(home)) == oct(expected)
    before = os.umask(USUAL)
    try:
        keep_private(str(home))
        assert oct(os.umask(USUAL)) == oct(expected)
    finally:
        os.umask(before)


@pytest.mark.parametrize(
    ("mode", "of_a_file", "of_the_ledger"),
    # SQLite gives its own files to one writer.
    [(0o700, 0o600, 0o600), (0o2770, 0o660, 0o640)],
    ids=["private", "of a group"],
)
def test_who_may_use_what_a_command_makes_is_who_may_use_the_home(
    tmp_path: Path, mode: int, of_a_file: int, of_the_ledger: int
) -> None:
    home, _, given = surroundings(tmp_path)
    home.mkdir()
    home.chmod(mode)
    run("-c", "from backfill_assets.main import main; main()", "audit", environment=given)
    made = {path.name: oct(path.stat().st_mode & 0o777) for path in home.iterdir() if path.is_file()}
    ledger = {} if in_postgresql() else {"ledger.db": oct(of_the_ledger)}
    assert made == {**ledger, "last_audit.json": oct(of_a_file)}


def test_what_an_earlier_release_left_open_is_found(tmp_path: Path) -> None:
    landing, private = tmp_path / "landing", tmp_path / "private"
    file = landing / "sales" / "ab" / "raw.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text("{}", encoding="utf-8")
    tmp_path.chmod(0o755)
    for each in (landing, file.parent.parent, file.parent):
        each.chmod(0o755)
    for mode, umask, found in (
        (0o644, 0o077, file),
        (0o444, 0o007, file),
        (0o640, 0o077, file),
        (0o640, 0o007, None),
        (0o600, 0o077, None),
    ):
        file.chmod(mode)
        # The folders of pytest are its user's alone.
        assert readable_by_others((private, landing), umask, above=tmp_path) == found
    file.chmod(0o644)
    assert readable_by_others((file,), 0o077, above=tmp_path) == file
    file.parent.parent.chmod(0o700)
    assert readable_by_others((landing,), 0o077, above=tmp_path) is None
    assert readable_by_others((file,), 0o077, above=tmp_path) is None, "nobody gets there"

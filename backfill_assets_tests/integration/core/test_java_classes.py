"""Spark starts with its classes loaded ahead, and without the archive of them as before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from backfill_assets.core import java_classes
from backfill_assets.core.session_settings import DRIVER, JAVA_OPTIONS
from backfill_assets.core.settings import Settings
from backfill_assets.core.spark import spark_conf

LOADED = "-Xlog:class+load:file={log}"
OPENS_SPARK = """
import sys
from pathlib import Path
from backfill_assets.core import java_classes
from backfill_assets.core.settings import Settings
from backfill_assets.core.spark import open_spark
java_classes.ARCHIVE = Path(sys.argv[1])
print(open_spark(Settings.from_environment()).range(3).count())
"""


def opened(archive: Path, log: Path) -> str:
    """What a process prints that opens Spark with an archive, and what its Java says on standard error."""
    tuned = f"spark.driver.extraJavaOptions={LOADED.format(log=log)}"
    environment = {**os.environ, "BACKFILL_HOME": str(log.parent), "BACKFILL_SPARK_CONF": tuned}
    done = subprocess.run(
        [sys.executable, "-c", OPENS_SPARK, archive], env=environment, capture_output=True, text=True, check=True
    )
    assert "archive" not in done.stderr
    return done.stdout


def from_archive(log: Path) -> int:
    """How many of Spark's classes came out of an archive."""
    lines = log.read_text(encoding="utf-8").splitlines()
    return sum("org.apache.spark." in line and "shared objects file (top)" in line for line in lines)


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place of an archive, in a folder whose name Java would cut in two."""
    path = tmp_path / "an environment" / "classes.jsa"
    monkeypatch.setattr(java_classes, "ARCHIVE", path)
    return path


def test_without_an_archive_java_is_told_nothing_of_one(archive: Path, settings: Settings) -> None:
    assert not archive.exists()
    said = spark_conf(settings)[DRIVER]
    assert said.startswith(f"{JAVA_OPTIONS[DRIVER]} -XX:Tier4") and "Archive" not in said


@pytest.mark.long
def test_spark_takes_its_classes_from_the_archive_that_was_written(archive: Path, tmp_path: Path) -> None:
    assert java_classes.write() == archive
    assert [path.name for path in archive.parent.iterdir()] == [archive.name]
    assert opened(archive, tmp_path / "with.log") == "3\n"
    assert from_archive(tmp_path / "with.log") > 2_000


@pytest.mark.long
def test_an_archive_that_does_not_fit_is_ignored_in_silence(archive: Path, tmp_path: Path) -> None:
    archive.parent.mkdir()
    archive.write_bytes(os.urandom(100_000))
    assert opened(archive, tmp_path / "without.log") == "3\n"
    assert from_archive(tmp_path / "without.log") == 0


@pytest.mark.long
def test_what_cannot_be_written_leaves_the_archive_that_is_there(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.parent.mkdir()
    archive.write_bytes(b"the earlier one")
    monkeypatch.setenv("JAVA_HOME", str(archive.parent))
    with pytest.raises(subprocess.CalledProcessError):
        java_classes.write()
    assert archive.read_bytes() == b"the earlier one"
    assert [path.name for path in archive.parent.iterdir()] == [archive.name]

"""What an author's code does outside is seen while it is watched, and nothing else is."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from backfill_assets.testing.effects import watched

OWN = __name__


def test_files_that_are_written_and_removed_and_connections_are_seen(tmp_path: Path) -> None:
    path = tmp_path / "written"
    with watched(OWN) as found:
        path.write_text("x", encoding="utf-8")
        path.read_text(encoding="utf-8")
        path.unlink()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
            out.connect(("127.0.0.1", 9))
    assert found == [f"opens {path} for writing", f"os.remove {path}", "socket.connect ('127.0.0.1', 9)"]


def test_what_others_do_and_what_is_done_before_and_after_is_not_seen(tmp_path: Path) -> None:
    (tmp_path / "before").touch()
    with watched("somebody.else") as found:
        (tmp_path / "meanwhile").touch()
    (tmp_path / "after").touch()
    assert found == []


@pytest.mark.parametrize("module", ["pyspark.sql.session", "py4j.java_gateway", "importlib._bootstrap_external"])
def test_what_spark_and_imports_do_for_the_code_is_not_its_own(tmp_path: Path, module: str) -> None:
    does = {"__name__": module, "os": os}
    exec("def write(path): os.close(os.open(path, os.O_WRONLY | os.O_CREAT))", does)
    with watched(OWN) as found:
        does["write"](str(tmp_path / "handed over"))  # type: ignore[operator]
    assert found == []
    assert (tmp_path / "handed over").exists()

"""The last resort: an error that nothing foresaw is one sentence, with its details in a file."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from backfill_assets.application import look
from backfill_assets.core.errors import ContractBroken
from backfill_assets.main import app
from backfill_assets_tests.integration.cli.test_hostile_words import STEERING
from backfill_assets_tests.support.by_hand import open_by_hand
from backfill_assets_tests.support.ledgers import only_with_sqlite
from backfill_assets_tests.support.shop import WorkIn, shop_environment


@pytest.fixture
def person(tmp_path: Path, work_in: WorkIn) -> Iterator[Path]:
    work_in(tmp_path)
    yield tmp_path


def types(*words: str) -> Result:
    return CliRunner().invoke(app, list(words), catch_exceptions=False)


def broken_by(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(look, "status", fail)


def test_an_unforeseen_error_is_one_sentence_and_its_details_are_in_a_file(
    person: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken_by(monkeypatch, KeyError("a\x1b[2J\n2026-01-01T00:00:00+00:00 forged"))
    result = types("status")
    log = person / "logs" / "unexpected.log"
    assert result.exit_code == 1
    said = " ".join(result.stderr.split())
    assert said.startswith("stopped: unexpected KeyError: 'a\\x1b[2J")
    assert f"details in {log}" in said
    assert "next: backfill recover" in said
    assert "Traceback" not in result.output
    text = log.read_text(encoding="utf-8")
    assert "Traceback (most recent call last)" in text
    assert not STEERING.search(text)
    broken_by(monkeypatch, ValueError("first\n2026-01-01T00:00:00+00:00 forged"))
    assert types("status").exit_code == 1
    entries = [line for line in log.read_text(encoding="utf-8").splitlines() if not line.startswith("    ")]
    assert len(entries) == 2, "an error's own text began an entry of the log"


def test_the_details_are_shown_to_who_asks_for_them(person: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken_by(monkeypatch, RuntimeError("a mistake of ours"))
    monkeypatch.setenv("BACKFILL_DEBUG", "1")
    result = types("status")
    assert result.exit_code == 1
    assert "Traceback (most recent call last)" in result.stderr
    assert "stopped: unexpected RuntimeError: a mistake of ours" in result.stderr


def test_the_trace_of_what_caused_a_refusal_is_shown_to_who_asks_for_it(
    person: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = ContractBroken("Spark stopped.")
    refused.__cause__ = OSError("no room")
    broken_by(monkeypatch, refused)
    assert "Traceback" not in types("status").output
    monkeypatch.setenv("BACKFILL_DEBUG", "1")
    said = types("status").stderr
    assert said.index("OSError: no room") < said.index("refused: Spark stopped.")
    # A refusal that nothing caused has nothing to show.
    broken_by(monkeypatch, ContractBroken("no such column."))
    assert "Traceback" not in types("status").output


def test_an_unforeseen_error_is_json_for_machines(person: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken_by(monkeypatch, RuntimeError("a mistake of ours"))
    result = types("status", "--json")
    assert result.exit_code == 1
    error = json.loads(result.stdout)["error"]
    assert error["type"] == "Unexpected"
    assert error["ids"]["log"] == str(person / "logs" / "unexpected.log")


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (errno.ENOSPC, "stopped: no space is left on the disk that holds /lake/x."),
        (errno.EACCES, "stopped: permission denied: /lake/x"),
        (errno.EROFS, "stopped: the file system is read-only: /lake/x"),
    ],
)
def test_a_machine_that_fails_is_said_in_plain_words(
    person: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    sentence: str,
) -> None:
    broken_by(monkeypatch, OSError(number, os.strerror(number), "/lake/x"))
    assert types("status").stderr.startswith(sentence)


def test_a_home_that_cannot_be_written_is_one_sentence(tmp_path: Path, work_in: WorkIn) -> None:
    only_with_sqlite("the home is where the ledger is")
    (tmp_path / "file").write_text("no folder")
    work_in(tmp_path / "file" / "home")
    for words in (("status",), ("recover",), ("vacuum",), ("land", "sales", __file__, "--by", "ana")):
        result = types(*words)
        assert result.exit_code == 1, result.output
        assert "Traceback" not in result.output
        # Long work says first what it does.
        said = [line for line in result.stderr.splitlines() if line.startswith(("refused: ", "stopped: "))]
        assert len(said) == 1, result.output


def test_details_that_cannot_be_written_at_home_are_in_a_new_file_that_nobody_else_reads(
    person: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (person / "logs").write_text("no folder")
    elsewhere = person / "tmp"
    elsewhere.mkdir()
    # As another user could have put it there, to read along.
    (elsewhere / "unexpected.log").touch(mode=0o666)
    monkeypatch.setattr("tempfile.tempdir", str(elsewhere))
    broken_by(monkeypatch, KeyError("a value of a row"))
    said = " ".join(types("status").stderr.split())
    (log,) = (path for path in elsewhere.iterdir() if path.name != "unexpected.log")
    assert f"details in {log}" in said
    assert log.stat().st_mode & 0o077 == 0
    assert "a value of a row" in log.read_text(encoding="utf-8")
    assert (elsewhere / "unexpected.log").read_text(encoding="utf-8") == ""


def test_a_ledger_that_is_no_database_is_one_sentence(tmp_path: Path, work_in: WorkIn) -> None:
    only_with_sqlite("it is about that file")
    work_in(tmp_path)
    (tmp_path / "ledger.db").write_bytes(b"not a database " * 1_000)
    result = types("status")
    assert result.exit_code == 1
    assert result.stderr.startswith(("refused: ", "stopped: "))
    assert "Traceback" not in result.output


def damaged(home: Path) -> Path:
    """The record of Dagster, damaged after a first command has made it."""
    assert types("recover").exit_code == 0
    (index,) = (home / "dagster").rglob("index.db")
    whole = index.with_suffix(".whole")
    index.rename(whole)
    index.write_bytes(b"no database" * 1_000)
    return whole


@pytest.mark.long
def test_a_set_is_published_and_undone_whole_where_dagster_cannot_record_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_with_sqlite("the record that is damaged is a file")
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    home = tmp_path / "home"
    for name, value in shop_environment(home).items():
        monkeypatch.setenv(name, value)
    hand = open_by_hand(home)
    before = hand.total()
    set_id = hand.set_of({date(2026, 1, 5): 40})
    assert types("approve", set_id, "--by", "ben").exit_code == 0
    whole = damaged(home)
    published = types("publish", set_id, "--by", "ben")
    said = " ".join(published.stderr.split())
    assert published.exit_code == 1
    assert "stopped: everything was done and is in the ledger; only Dagster's record could not be written" in said
    assert "file is not a database" in said
    assert "next: repair what is named; then backfill recover" in said
    assert "PUBLISHED" in types("status", set_id).stdout
    assert hand.total() == 40
    undone = types("rollback", set_id, "--by", "ben", "--reason", "too early")
    assert "everything was done" in " ".join(undone.stderr.split())
    assert hand.total() == before
    # What stopped a command is said, and nothing about its record.
    refused = types("rollback", set_id, "--by", "ben", "--reason", "too early")
    assert (refused.exit_code, "everything was done" in refused.output) == (1, False)
    whole.rename(whole.with_suffix(".db"))
    assert types("recover").exit_code == 0
    hand.ws.close()

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path

import pytest

from backfill_assets.core.clock import Clock
from backfill_assets.core.errors import Refused, Retryable
from backfill_assets.ledger import connection
from backfill_assets.ledger.store import Ledger
from backfill_assets_tests.support.advice import refused
from backfill_assets_tests.support.ledger_examples import plan, tamper


def test_opening_creates_the_folder_and_a_file_in_wal_mode(tmp_path: Path, clock: Clock) -> None:
    file = tmp_path / "not" / "yet" / "ledger.db"
    ledger = Ledger.open(f"sqlite:///{file}", clock=clock)
    with sqlite3.connect(file) as look:
        assert look.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    look.close()
    with ledger.read() as reader:
        settings = {
            name: reader.events._connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("synchronous", "foreign_keys", "busy_timeout")
        }
    assert settings == {"synchronous": 2, "foreign_keys": 1, "busy_timeout": connection.WAIT_SECONDS * 1000}
    ledger.close()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("nonsense", "not a database URL"),
        ("sqlite://", "in memory"),
        ("sqlite:///:memory:", "in memory"),
        ("sqlite:///ledger.db?timeout=soon", "an option of the ledger URL .*soon"),
        ("mysql://me:secret@host/ledger", "SQLite and PostgreSQL"),
        ("postgresql://me:secret@localhost:1/ledger", "cannot be used"),
        ("postgresql://me:secret@localhost:1/ledger?connect_timeout=soon", "cannot be used: .*connect_timeout"),
    ],
)
def test_a_url_that_cannot_be_a_ledger_is_refused_without_its_password(url: str, said: str, clock: Clock) -> None:
    with pytest.raises(Refused, match=said) as refusal:
        Ledger.open(url, clock=clock)
    assert "secret" not in str(refusal.value)
    assert "\n" not in str(refusal.value) and "\\n" not in str(refusal.value)


def test_a_missing_driver_is_named_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with refused(Refused, match=r"backfill-assets\[postgres\]"):
        Ledger.open("postgresql://localhost/ledger", clock=clock)


def test_a_file_that_is_something_else_is_refused(tmp_path: Path, clock: Clock) -> None:
    file = tmp_path / "ledger.db"
    file.write_text("a letter to a friend " * 100)
    with pytest.raises(Refused, match="not a database"):
        Ledger.open(f"sqlite:///{file}", clock=clock)
    (tmp_path / "folder").mkdir()
    with pytest.raises(Refused, match="unable to open"):
        Ledger.open(f"sqlite:///{tmp_path / 'folder'}", clock=clock)
    with pytest.raises(Refused, match="cannot be created"):
        Ledger.open(f"sqlite:///{file / 'below' / 'ledger.db'}", clock=clock)


def test_a_ledger_of_a_newer_version_is_refused(tmp_path: Path, clock: Clock) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    Ledger.open(url, clock=clock).close()
    tamper(url, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(Refused, match="9999"):
        Ledger.open(url, clock=clock)


def test_a_writer_that_waits_too_long_may_try_again(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "SQLITE_PRAGMAS", ("PRAGMA busy_timeout = 50", "PRAGMA journal_mode = WAL"))
    ledger = Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}", clock=clock)
    with (
        ledger.write(),
        pytest.raises(Retryable, match="another process did not end its turn to write"),
        ledger.write(),
    ):
        pass
    plan(ledger, "bf-1")
    ledger.close()

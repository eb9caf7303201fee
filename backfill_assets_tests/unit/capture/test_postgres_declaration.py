"""What can be said of captures from PostgreSQL without a server: declarations, and the messages of its log."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import UTC, datetime
from struct import pack
from typing import Any

import pytest
from pyspark.sql.types import StructType

from backfill_assets.capture.errors import CannotBeCaptured, ChangesUnreadable
from backfill_assets.capture.postgres.changes import Change, Decoder, value_of
from backfill_assets.capture.postgres.declaration import PostgresTable
from backfill_assets.capture.postgres.stream import PostgresStream
from backfill_assets.core.errors import InvalidDeclaration, PackageMissing
from backfill_assets.domain import Operations
from backfill_assets.report.command_line import explained
from backfill_assets_tests.domains import database

TABLE = PostgresTable(table="public.sales", database="shop", host="db-1", user="capture", slot="sales")
OID, OTHER = 16_385, 16_999
AT = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"table": "sales"}, "has to be from a table such as 'public.orders'"),
        ({"host": "capture:hidden-word@db-1"}, "the host of its capture has to be one name"),
        ({"database": ""}, "the database of its capture has to be one name"),
        ({"slot": "Sales"}, "lower-case letters"),
        ({"publication": "a b"}, "lower-case letters"),
        ({"chunk": 0}, "has to be a number"),
        ({"port": "5432"}, "has to be a number"),
        ({"answers_within": 3}, "has to be a timedelta"),
        ({"settings": {"options": "-c TimeZone=CET"}}, "which a capture sets itself"),
        ({"settings": {"password": "hidden-word"}}, "name it among its secrets"),
        ({"secrets": {"password": "hidden-word"}}, "is named by an environment variable"),
        ({"secrets": {"passfile": "SECRET"}}, "a connection has password and sslpassword"),
    ],
)
def test_a_table_that_cannot_be_captured_is_refused_when_it_is_declared(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidDeclaration, match=r"bronze\.sales: ") as refused:
        replace(database.sales, capture=replace(TABLE, **changed))
    assert said in refused.value.message
    assert "hidden-word" not in refused.value.message


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"schema": StructType(database.sales.schema.fields[:-1])}, "its schema lacks pg_committed_at:timestamp"),
        ({"order": ("pg_lsn",)}, r"its order is \('pg_lsn', 'pg_position'\)"),
        ({"ties": "arrival"}, "without ties"),
        ({"operation": Operations(column="pg_operation", update="update")}, "its operation is POSTGRES_OPERATIONS"),
    ],
)
def test_a_contract_that_would_lose_changes_of_a_table_is_refused(changed: dict[str, Any], said: str) -> None:
    operation = database.sales.operation
    assert operation is not None
    if "schema" in changed:
        changed = {**changed, "operation": replace(operation, at=None)}
    with pytest.raises(InvalidDeclaration, match=said):
        replace(database.sales, **changed)


def test_without_the_client_the_refusal_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(PackageMissing, match="needs the package psycopg") as refused:
        PostgresStream(TABLE, secret={}, key=("sale_id",), columns=())
    assert explained(refused.value).endswith("Next: pip install 'backfill-assets[postgres]'")


def begin(lsn: int) -> bytes:
    microseconds = int((AT - datetime(2000, 1, 1, tzinfo=UTC)).total_seconds() * 1_000_000)
    return b"B" + pack("!QqI", lsn, microseconds, 7)


def relation(*, identity: bytes = b"d", oid: int = OID, key: str = "id") -> bytes:
    columns = (("id", 23), ("paid", 16), ("note", 25))
    described = [
        bytes([identity == b"f" or name == key]) + name.encode() + b"\0" + pack("!Ii", kind, -1)
        for name, kind in columns
    ]
    return b"R" + pack("!I", oid) + b"public\0sales\0" + identity + pack("!H", len(columns)) + b"".join(described)


def row(*values: str | None) -> bytes:
    """The values of a tuple; `...` is one that was left out of line."""
    told = [
        b"n" if each is None else b"u" if each == "..." else b"t" + pack("!I", len(each.encode())) + each.encode()
        for each in values
    ]
    return pack("!H", len(values)) + b"".join(told)


def change(kind: bytes, *tuples: bytes, oid: int = OID) -> bytes:
    return kind + pack("!I", oid) + b"".join(tuples)


def decoded(*messages: bytes, columns: tuple[str, ...] = ("id", "paid", "note")) -> list[Change]:
    decoder = Decoder(name="the table public.sales", oid=OID, key=("id",), columns=columns)
    return list(decoder.changes(messages))


def test_messages_become_changes_with_their_position_and_time() -> None:
    found = decoded(
        begin(900),
        relation(oid=OTHER),
        change(b"I", b"N", row("9", "t", "x"), oid=OTHER),
        relation(),
        change(b"I", b"N", row("1", "t", "é")),
        change(b"U", b"N", row("1", "f", None)),
        b"C" + bytes(25),
        begin(800),
        change(b"U", b"K", row("1", None, None), b"N", row("2", "f", None)),
        change(b"D", b"K", row("2", None, None)),
        b"T" + pack("!IBI", 1, 0, OTHER),
        b"T" + pack("!IBII", 2, 0, OTHER, OID),
    )
    assert [(each.lsn, each.position, each.operation, dict(each.row)) for each in found] == [
        (900, 1, "insert", {"id": "1", "paid": "true", "note": "é"}),
        (900, 2, "update", {"id": "1", "paid": "false", "note": None}),
        (800, 1, "delete", {"id": "1"}),
        (800, 2, "insert", {"id": "2", "paid": "false", "note": None}),
        (800, 3, "delete", {"id": "2"}),
        (800, 4, "truncate", {}),
    ]
    assert {each.committed_at for each in found} == {AT}


def test_a_value_that_was_left_out_of_line_is_that_of_the_old_row_or_refused() -> None:
    update = (b"N", row("1", "f", "..."))
    (found,) = decoded(begin(1), relation(identity=b"f"), change(b"U", b"O", row("1", "t", "large"), *update))
    assert (found.operation, found.row["note"]) == ("update", "large")
    moved = decoded(begin(1), relation(identity=b"f"), change(b"U", b"O", row("3", "t", "large"), *update))
    assert [(each.operation, each.row["id"], each.row["note"]) for each in moved] == [
        ("delete", "3", "large"),
        ("insert", "1", "large"),
    ]
    for tuples in (update, (b"K", row("3", None, None), *update)):
        with pytest.raises(ChangesUnreadable, match="left note as it was"):
            decoded(begin(1), relation(), change(b"U", *tuples))
        # A column that the contract does not have is not asked for.
        assert decoded(begin(1), relation(), change(b"U", *tuples), columns=("id", "paid"))


def test_a_change_whose_old_row_does_not_have_the_key_is_refused() -> None:
    with pytest.raises(CannotBeCaptured, match="its replica identity has no id, which is its key here"):
        decoded(begin(1), relation(key="note"), change(b"D", b"K", row(None, None, "x")))


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [("t", 16, "true"), ("f", 16, "false"), ("t", 25, "t"), (None, 16, None), ("\\x00ff", 17, "AP8="), ("\\x", 17, "")],
)
def test_values_are_the_texts_of_the_server_as_landing_reads_them(text: str | None, kind: int, value: str) -> None:
    assert value_of(text, kind) == value

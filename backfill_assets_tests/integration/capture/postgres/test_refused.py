"""What cannot be captured of a table of PostgreSQL is refused in one sentence, and leaves nothing behind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from backfill_assets.capture.errors import (
    CannotBeCaptured,
    ChangesUnreadable,
    NoStream,
    NotOffered,
    StreamDenied,
    StreamFailed,
)
from backfill_assets.core.errors import BackfillError
from backfill_assets.planning.safeguards import Policy
from backfill_assets.requests.authority import approve
from backfill_assets_tests.support.captured_shop import finished
from backfill_assets_tests.support.database_shop import TABLE, DatabaseShop, ShopOf, records_of, slots_of
from backfill_assets_tests.support.source_database import running_source


@pytest.mark.long
def test_a_value_that_an_update_left_out_of_line_is_never_null(shop_of: ShopOf, nothing_lands: None) -> None:
    large = "(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 500) i)"
    shop = shop_of()
    shop.capture(whole=True)
    shop.run(f"UPDATE sales SET note = {large} WHERE sale_id = 1", "UPDATE sales SET amount = 2 WHERE sale_id = 1")
    with pytest.raises(ChangesUnreadable, match="left note as it was"):
        shop.capture()
    assert "2.00" not in {each["amount"] for each in records_of(shop) if each["sale_id"] == "1"}
    with pytest.raises(CannotBeCaptured, match="REPLICA IDENTITY FULL"):
        shop.capture(whole=True)
    shop.run("ALTER TABLE sales REPLICA IDENTITY FULL")
    assert shop.capture(whole=True).captured == 10


@pytest.mark.long
def test_a_column_that_was_renamed_or_dropped_is_never_null(shop_of: ShopOf, nothing_lands: None) -> None:
    shop = shop_of()
    shop.capture(whole=True)
    shop.run("ALTER TABLE sales RENAME note TO remark", "UPDATE sales SET remark = 'late' WHERE sale_id = 1")
    with pytest.raises(CannotBeCaptured, match="it has no column note"):
        shop.capture()
    assert len(records_of(shop)) == 10
    # Another column of that name is not the one that was captured: rows of before have no value in it.
    shop.run("ALTER TABLE sales ADD note text", "UPDATE sales SET note = 'new' WHERE sale_id = 2")
    with pytest.raises(ChangesUnreadable, match="note was renamed or dropped since, and is another one now"):
        shop.capture()
    assert shop.capture(whole=True).captured == 10
    shop.run("UPDATE sales SET note = 'newer' WHERE sale_id = 2")
    assert shop.capture().captured == 2, "the update of before is readable by its names, and older than the snapshot"
    assert [each["note"] for each in records_of(shop) if each["sale_id"] == "2"][-1] == "newer"


PARTITIONED = TABLE.replace("PRIMARY KEY", "").replace("seal bytea)", "seal bytea) PARTITION BY RANGE (sale_id)")


@pytest.mark.long
@pytest.mark.parametrize(
    ("statements", "declared", "kind", "why"),
    [
        ([], {"table": "public.nothing"}, NoStream, "has no table public.nothing"),
        ([], {"database": "nothing"}, NoStream, "has no database nothing"),
        ([], {"user": "nobody"}, StreamDenied, "does not accept the credentials"),
        ([], {"secrets": {}}, StreamDenied, "asks for a password, and no secret is declared"),
        ([], {"port": 9}, StreamFailed, "did not answer"),
        (
            [PARTITIONED, "CREATE TABLE p PARTITION OF sales DEFAULT"],
            {},
            CannotBeCaptured,
            "it is not an ordinary table",
        ),
        ([TABLE.replace("CREATE", "CREATE UNLOGGED")], {}, CannotBeCaptured, "it is unlogged"),
        ([TABLE.replace("PRIMARY KEY", "")], {}, CannotBeCaptured, "its replica identity has no sale_id"),
        (
            [TABLE.replace("PRIMARY KEY", ""), "ALTER TABLE sales REPLICA IDENTITY FULL"],
            {},
            CannotBeCaptured,
            "it has no unique index over sale_id",
        ),
        (
            [TABLE.replace("PRIMARY KEY", "PRIMARY KEY DEFERRABLE"), "ALTER TABLE sales REPLICA IDENTITY FULL"],
            {},
            CannotBeCaptured,
            "it has no unique index over sale_id",
        ),
        ([TABLE.replace("note text,", "")], {}, CannotBeCaptured, "it has no column note"),
        (
            [TABLE.replace("note text", "note text GENERATED ALWAYS AS ('x') STORED")],
            {},
            CannotBeCaptured,
            "note is generated",
        ),
        ([TABLE, "CREATE PUBLICATION p"], {"publication": "p"}, CannotBeCaptured, "publication p does not have it"),
        (
            [TABLE, "CREATE PUBLICATION p FOR TABLE sales WITH (publish = 'insert')"],
            {"publication": "p"},
            CannotBeCaptured,
            "the publication p leaves out inserts, updates, deletes or truncates",
        ),
        (
            [TABLE, "CREATE PUBLICATION p FOR TABLE sales WHERE (sale_id > 1)"],
            {"publication": "p"},
            CannotBeCaptured,
            "the publication p leaves out rows or columns",
        ),
        (
            [
                TABLE,
                "CREATE POLICY p ON sales WITH CHECK (true)",
                "ALTER TABLE sales FORCE ROW LEVEL SECURITY, ENABLE ROW LEVEL SECURITY",
            ],
            {},
            CannotBeCaptured,
            "row-level security",
        ),
    ],
)
def test_what_cannot_be_captured_is_refused_in_one_sentence_and_leaves_nothing(
    shop_of: ShopOf,
    nothing_lands: None,
    statements: list[str],
    declared: dict[str, Any],
    kind: type[BackfillError],
    why: str,
) -> None:
    if "note text," not in "".join(statements or [TABLE]):
        shop = replace(shop_of(), declared=declared)
        shop.run("DROP TABLE sales", *statements)
    else:
        shop = replace(shop_of(*statements), declared=declared)
    with pytest.raises(kind, match=why) as refused:
        shop.capture(whole=True)
    assert len(refused.value.message.splitlines()) == 1
    assert (shop.files(), slots_of(shop)) == ((), [])


@pytest.mark.long
def test_a_role_that_does_not_own_the_table_needs_its_publication(shop_of: ShopOf, nothing_lands: None) -> None:
    shop = shop_of()
    with shop.connect() as connection:
        connection.execute("ALTER TABLE sales OWNER TO backfill")
        with pytest.raises(CannotBeCaptured, match="must be owner of table sales"):
            shop.capture(whole=True)
        connection.execute(f"CREATE PUBLICATION {shop.slot} FOR TABLE ONLY sales".encode())
        with pytest.raises(CannotBeCaptured, match="permission denied for table sales"):
            shop.capture(whole=True)
        connection.execute("GRANT SELECT ON sales TO capture")
        assert shop.capture(whole=True).captured == 10
        connection.execute("DELETE FROM sales WHERE sale_id = 1")
        assert shop.capture().captured == 1


@pytest.mark.long
def test_texts_that_are_not_utf_8_are_refused_in_one_sentence(shop_of: ShopOf, nothing_lands: None) -> None:
    shop = shop_of()
    shop = replace(shop, database=shop.server.create_database(encoding="SQL_ASCII"))
    shop.run(TABLE)
    shop.capture(whole=True)
    shop.run("INSERT INTO sales VALUES (1, now(), 1, true, E'\\xff')")
    with pytest.raises(CannotBeCaptured, match="invalid byte sequence for encoding"):
        shop.capture()
    with pytest.raises(CannotBeCaptured, match="invalid byte sequence for encoding"):
        shop.capture(whole=True)


@pytest.mark.long
def test_a_day_is_not_looked_up_in_a_table(shop_of: ShopOf) -> None:
    shop = shop_of()
    code, said = finished(shop.command("capture", "sales", "--from", "2026-01", "--to", "now", "--dry-run"))
    assert (code, "are not found by their time" in said) == (1, True), said
    assert issubclass(NotOffered, BackfillError)


@pytest.mark.long
def test_a_server_without_logical_decoding_is_named(tmp_path: Path, nothing_lands: None) -> None:
    with running_source(wal_level="replica") as own:
        shop = DatabaseShop(home=tmp_path / "home", server=own, database=own.create_database())
        shop.run(TABLE)
        with pytest.raises(CannotBeCaptured, match="the wal_level of its server is replica, and not logical"):
            shop.capture(whole=True)


@pytest.mark.long
def test_where_the_policy_asks_another_person_approves_before_a_slot_is_made(
    shop_of: ShopOf, nothing_lands: None
) -> None:
    shop = replace(shop_of(), policy=Policy(backfill="approve"))
    asked = shop.capture(whole=True)
    assert (asked.waits, shop.files(), slots_of(shop)) == (True, (), [])
    assert asked.capture_id is not None
    ws = shop.open()
    try:
        approve(ws, asked.capture_id, by="ben", note="")
    finally:
        ws.close()
    assert (shop.capture(whole=True).captured, slots_of(shop)) == (10, [shop.slot])
    assert shop.capture(whole=True).waits


@pytest.mark.long
def test_numbers_that_are_none_are_rejected_with_their_text(shop_of: ShopOf, spark: SparkSession) -> None:
    shop = shop_of(spark=spark)
    shop.run("UPDATE sales SET amount = 'NaN' WHERE sale_id = 1")
    report = shop.capture(whole=True)
    assert report.landed is not None
    assert report.landed.imports[0].record.counts.rejected == 1
    assert "amount is not a number: 'NaN'" in str(report.landed.imports[0].rejected)

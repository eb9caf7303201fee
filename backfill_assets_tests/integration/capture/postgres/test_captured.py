"""What landed of a table of a real PostgreSQL is what the table is, at every commit."""

from __future__ import annotations

import gzip
import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from backfill_assets.application.live import live
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.capture.errors import ChangesUnreadable, StreamFailed
from backfill_assets.capture.postgres.changes import lsn_number, lsn_text
from backfill_assets.capture.postgres.stream import BEGINNING, PostgresStream
from backfill_assets.capture.streams import CapturePeriod, Pace, Span
from backfill_assets.core.settings import PROJECT_ROOT
from backfill_assets.domain import PostgresTable, SourceTable
from backfill_assets.report.captured import CaptureReport
from backfill_assets.report.command_line import explained
from backfill_assets_tests.support.captured_shop import finished
from backfill_assets_tests.support.database_shop import (
    COLUMNS,
    DAY,
    NEW,
    TABLE,
    DatabaseShop,
    Record,
    ShopOf,
    records_of,
    replayed,
    selected,
    slots_of,
    write_at_random,
)
from backfill_assets_tests.support.source_database import PASSWORD, SourceDatabase


def test_a_snapshot_and_the_changes_after_it_are_the_table_and_are_captured_once(
    shop_of: ShopOf, spark: SparkSession
) -> None:
    shop = shop_of(spark=spark)
    with pytest.raises(ChangesUnreadable) as refused:
        shop.capture()
    assert explained(refused.value).endswith("Next: read everything once more: --snapshot")
    assert (shop.plan(whole=True).files, shop.files(), slots_of(shop)) == (1, (), [])

    assert shop.capture(whole=True, builds=True).captured == 10
    assert shop.current_rows() == shop.selected()
    assert slots_of(shop) == [shop.slot]
    shop.run(
        "UPDATE sales SET note = NULL, paid = NULL WHERE sale_id = 1",
        "UPDATE sales SET sale_id = 100 WHERE sale_id = 2",
        "DELETE FROM sales WHERE sale_id = 3",
        "BEGIN; TRUNCATE sales; INSERT INTO sales VALUES (3, now() - interval '1 day', 0.5, true, 'é', '\\x'); COMMIT",
        f"{NEW} FROM generate_series(4, 7) i",
    )
    assert shop.capture(builds=True).captured == 1 + 2 + 1 + 2 + 4
    assert shop.current_rows() == shop.selected()
    again = shop.capture()
    assert (again.capture_id, again.captured, again.landed) == (None, 0, None)


@pytest.mark.long
def test_updates_to_values_that_no_type_holds_make_their_keys_unknown_until_they_are_changed(
    shop_of: ShopOf, spark: SparkSession
) -> None:
    shop = shop_of(spark=spark)
    shop.capture(whole=True)
    shop.run(
        "UPDATE sales SET amount = 'NaN' WHERE sale_id = 1",
        "UPDATE sales SET sold_at = 'infinity' WHERE sale_id = 2",
        "UPDATE sales SET sold_at = '0044-03-15 12:00:00Z BC' WHERE sale_id = 3",
        "INSERT INTO sales VALUES (11, '-infinity', 1, true, 'was never there', NULL)",
    )
    assert keys_that_are_not_known(shop, shop.capture()) == 3
    shop.run(
        "UPDATE sales SET amount = 77 WHERE sale_id = 1",
        "DELETE FROM sales WHERE sale_id = 2",
        f"UPDATE sales SET sold_at = {DAY} WHERE sale_id > 2",
    )
    assert keys_that_are_not_known(shop, shop.capture(builds=True)) == 0
    assert shop.current_rows() == shop.selected()


def keys_that_are_not_known(shop: DatabaseShop, report: CaptureReport) -> int:
    """By the report of a capture, which the ledger agrees with."""
    ws = shop.open()
    try:
        with ws.ledger.read() as tx:
            days = tx.imports.unknown_days("bronze.sales")
    finally:
        ws.close()
    assert report.landed is not None
    found = report.landed.not_known.found.keys if report.landed.not_known else 0
    assert found == sum(day.unknown for day in days)
    return found


@pytest.mark.parametrize("positions", [5, pytest.param(60, marks=pytest.mark.long)])
def test_at_every_position_under_four_writers_captured_rows_are_the_selected_ones(
    shop_of: ShopOf, nothing_lands: None, positions: int
) -> None:
    shop = shop_of(chunk=32_768)
    states: list[tuple[int, dict[str, Record]]] = []
    is_enough = Event()
    with ThreadPoolExecutor(4) as pool:
        writers = [pool.submit(write_at_random, shop, seed, is_enough) for seed in range(4)]
        try:
            until_it_is_read_without_a_truncate(shop)
            while len(states) < positions:
                if (state := state_at_a_position(shop)) is not None:
                    states.append(state)
                shop.capture()
        finally:
            is_enough.set()
        for each in writers:
            each.result()
    shop.capture()
    records = records_of(shop)
    changes = [(each["pg_lsn"], each["pg_position"]) for each in records if each["pg_operation"] != "snapshot"]
    assert changes == sorted(set(changes))
    assert {each["pg_operation"] for each in records} >= {"insert", "update", "delete"}
    for lsn, rows in states:
        assert replayed(records, before=lsn) == rows, lsn
    with shop.connect() as connection:
        assert replayed(records) == selected(connection)


@pytest.mark.long
def test_whenever_writers_pause_the_current_rows_of_bronze_are_the_selected_ones(
    shop_of: ShopOf, spark: SparkSession
) -> None:
    shop = shop_of(spark=spark, chunk=1 << 20)
    for round_ in range(4):
        is_enough = Event()
        with ThreadPoolExecutor(4) as pool:
            writers = [pool.submit(write_at_random, shop, 10 * round_ + seed, is_enough) for seed in range(4)]
            try:
                time.sleep(1)
                until_it_is_read_without_a_truncate(shop)
            finally:
                is_enough.set()
            for each in writers:
                each.result()
        shop.capture(builds=True)
        assert shop.current_rows() == shop.selected()


@pytest.mark.long
def test_a_capture_is_about_as_fast_as_a_plain_dump(shop_of: ShopOf, nothing_lands: None, tmp_path: Path) -> None:
    shop = shop_of(sales=200_000, chunk=1 << 30)
    dumped = time.monotonic()
    with (
        shop.connect() as connection,
        gzip.open(tmp_path / "dump", "wb", 3) as file,
        connection.cursor().copy("COPY sales TO STDOUT") as rows,
    ):
        for row in rows.rows():
            file.write(f"{json.dumps(dict(zip(COLUMNS, row, strict=True)))}\n".encode())
    dumped = time.monotonic() - dumped
    captured = time.monotonic()
    assert shop.capture(whole=True).captured == 200_000
    captured = time.monotonic() - captured
    shop.run("UPDATE sales SET amount = amount + 1")
    changed = time.monotonic()
    assert shop.capture().captured == 200_000
    changed = time.monotonic() - changed
    print(f"200,000 rows: dump {dumped:.1f} s, snapshot {captured:.1f} s, changes {changed:.1f} s")  # noqa: T201
    assert captured < 3 * dumped and changed < 6 * dumped  # noise of a busy machine included


def until_it_is_read_without_a_truncate(shop: DatabaseShop) -> None:
    while not shop.files():
        with suppress(StreamFailed):
            shop.capture(whole=True)


def state_at_a_position(shop: DatabaseShop) -> tuple[int, dict[str, Record]] | None:
    """What the table is where a slot begins; None if it was truncated meanwhile, which a snapshot sees as well."""
    filenode = "SELECT pg_relation_filenode('sales')"
    with (
        shop.connect() as reader,
        psycopg.connect(shop.server.url, dbname=shop.database, autocommit=True, replication="database") as owner,
    ):
        before = reader.execute(filenode).fetchone()
        created = owner.pgconn.exec_(b"CREATE_REPLICATION_SLOT look TEMPORARY LOGICAL pgoutput EXPORT_SNAPSHOT")
        lsn, exported = ((created.get_value(0, column) or b"").decode() for column in (1, 2))
        reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        reader.execute(f"SET TRANSACTION SNAPSHOT '{exported}'".encode())
        rows = selected(reader)
        unchanged = reader.execute(filenode).fetchone() == before
        reader.execute("COMMIT")
    return (lsn_number(lsn), rows) if unchanged else None


@pytest.mark.long
def test_the_same_range_is_the_same_bytes_until_the_slot_gives_it_up(shop_of: ShopOf, tmp_path: Path) -> None:
    shop = shop_of()
    declared = shop.source().capture
    assert isinstance(declared, PostgresTable)
    stream = PostgresStream(
        declared, secret={"password": PASSWORD}, key=("sale_id",), columns=shop.source().file_columns
    )
    try:
        (snapshot,) = stream.pieces(stream.resolve(CapturePeriod(start=None, end=None, is_whole=True), ()).spans[0], ())
        begin = stream.write(snapshot, tmp_path / "snapshot", Pace()).range_to
        assert begin is not None
        stream.recorded(Span(partition="wal", range_from=BEGINNING, range_to=begin))
        shop.run(f"{NEW} FROM generate_series(11, 5000) i", "UPDATE sales SET note = 'x'")
        with shop.connect() as connection:
            (end,) = connection.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone() or ()
        piece = Span(partition="wal", range_from=begin, range_to=lsn_text(lsn_number(end)))
        assert [stream.write(piece, tmp_path / name, Pace()).records for name in "ab"] == [9_990, 9_990]
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
        stream.recorded(piece)
        assert stream.write(piece, tmp_path / "c", Pace()).records == 0
    finally:
        stream.close()


@pytest.mark.long
def test_commands_capture_and_show_the_secret_nowhere(shop_of: ShopOf) -> None:
    shop = shop_of()
    ask = ("capture", "sales", "--by", "ana", "--reason", "the first")
    outputs = [finished(shop.command(*ask, "--snapshot", "--no-load", more={"TEST_SHOP_PASSWORD": "wrong-password"}))]
    assert outputs[0][0] == 1 and "does not accept the credentials: password authentication failed" in outputs[0][1]
    assert "wrong-password" not in outputs[0][1]
    outputs.append(finished(shop.command(*ask, "--snapshot", "--dry-run")))
    outputs.append(finished(shop.command(*ask, "--snapshot")))
    assert "10 records captured as 1 file" in outputs[-1][1]
    shop.run("DELETE FROM sales WHERE sale_id = 1")
    outputs.append(finished(shop.command("capture", "sales", "--to", "now", "--by", "ana")))
    assert "1 record captured as" in outputs[-1][1]
    assert [code for code, _ in outputs[1:]] == [0, 0, 0], outputs
    assert shop.current_rows() == shop.selected()
    kept = b"".join(path.read_bytes() for path in shop.home.rglob("*") if path.is_file())
    assert PASSWORD.encode() not in kept
    assert PASSWORD not in str(outputs)
    code, said = finished(shop.command("capture", "sales", "--snapshot", "--to", "now", "--by", "ana"))
    assert (code, "leave --from and --to out" in said) == (1, True), said


@pytest.mark.long
def test_with_full_replica_identity_such_a_value_is_the_one_before(shop_of: ShopOf, nothing_lands: None) -> None:
    large = "(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 500) i)"
    shop = shop_of(TABLE, "ALTER TABLE sales REPLICA IDENTITY FULL")
    shop.run(f"UPDATE sales SET note = {large} WHERE sale_id = 1")
    shop.capture(whole=True)
    shop.run("UPDATE sales SET amount = 2 WHERE sale_id = 1", "UPDATE sales SET sale_id = 99 WHERE sale_id = 1")
    assert shop.capture().captured == 3
    with shop.connect() as connection:
        assert replayed(records_of(shop)) == selected(connection)
    assert len(replayed(records_of(shop))["99"]["note"]) == 16_000


@pytest.mark.long
def test_a_second_snapshot_reconciles_also_with_changes_that_land_after_it(
    shop_of: ShopOf, spark: SparkSession
) -> None:
    shop = shop_of(spark=spark)
    shop.capture(whole=True, builds=True)
    shop.run(
        "DELETE FROM sales WHERE sale_id = 1",
        "UPDATE sales SET note = 'before' WHERE sale_id = 2",
        f"{NEW} FROM generate_series(50, 52) i",
        "DELETE FROM sales WHERE sale_id = 50",
    )
    report = shop.capture(whole=True, builds=True)
    assert report.landed is not None and report.landed.extract is not None
    assert (report.captured, report.landed.extract.withdrawn.keys) == (11, 1)
    assert shop.current_rows() == shop.selected()
    shop.run("UPDATE sales SET note = 'after' WHERE sale_id = 3", "DELETE FROM sales WHERE sale_id = 51")
    ws = shop.open()
    try:
        found = live(ws, Acting(by="ana", recorder=Unrecorded()))
    finally:
        ws.close()
    assert "bronze.sales: 8 records captured." in [each.sentence for each in found]
    assert shop.current_rows() == shop.selected()


@pytest.mark.long
def test_the_declaration_of_the_page_captures_a_table(server: SourceDatabase, shop_of: ShopOf, tmp_path: Path) -> None:
    text = (PROJECT_ROOT / "docs" / "sources.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(orders = SourceTable[^`]*PostgresTable[^`]*)```", text)
    names: dict[str, Any] = {}
    exec("from backfill_assets.domain import *\nfrom pyspark.sql.types import *\n" + block, names)
    orders, shop = names["orders"], shop_of()
    assert isinstance(orders, SourceTable) and isinstance(orders.capture, PostgresTable)
    shop.run("CREATE TABLE orders (order_id int PRIMARY KEY, ordered_at timestamptz, amount numeric(12, 2))")
    shop.run("INSERT INTO orders SELECT i, now(), i FROM generate_series(1, 5) i")
    here = replace(orders.capture, host="127.0.0.1", port=server.port, database=shop.database, settings={})
    stream = PostgresStream(here, secret={"password": PASSWORD}, key=orders.key, columns=orders.file_columns)
    try:
        (span,) = stream.resolve(CapturePeriod(start=None, end=None, is_whole=True), ()).spans
        (piece,) = stream.pieces(span, ())
        assert stream.write(piece, tmp_path / "orders", Pace()).records == 5
    finally:
        stream.close()


def test_positions_sort_as_texts_like_the_numbers_that_they_are() -> None:
    chance = Random(1)
    numbers = sorted(chance.getrandbits(chance.randint(1, 63)) for _ in range(1_000))
    assert sorted(map(lsn_text, numbers)) == [lsn_text(each) for each in numbers]
    assert [lsn_number(lsn_text(each)) for each in numbers] == numbers
    assert lsn_number("16/B374D848") == lsn_number("00000016-B374D848")

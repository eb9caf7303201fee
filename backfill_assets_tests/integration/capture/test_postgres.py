"""Captures of a table of a real PostgreSQL: what landed is what the table is, at every commit, whatever happens."""

from __future__ import annotations

import gzip
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from backfill_assets.application.capture import approve
from backfill_assets.application.live import live
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.capture.errors import (
    CannotBeCaptured,
    ChangesGone,
    NoSnapshot,
    NoStream,
    NotByTime,
    ReadFailed,
    StreamAway,
    StreamDenied,
    UnknownValue,
)
from backfill_assets.capture.pgoutput import lsn_number, lsn_text
from backfill_assets.capture.postgres import BEGINNING, PostgresStream
from backfill_assets.capture.streams import Pace, Period, Span
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.settings import PROJECT_ROOT
from backfill_assets.domain import PostgresTable, SourceTable
from backfill_assets.landing.errors import WithdrawsTooMuch
from backfill_assets.planning.policy import Policy
from backfill_assets.report.command_line import explained
from backfill_assets_tests.support.database_shop import COLUMNS, NEW, TABLE, DatabaseShop, write_at_random
from backfill_assets_tests.support.postgres_server import NoPostgres
from backfill_assets_tests.support.source_database import PASSWORD, SourceDatabase, running_source

ShopOf = Callable[..., DatabaseShop]
Record = Mapping[str, Any]


@pytest.fixture(autouse=True)
def the_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_SHOP_PASSWORD", PASSWORD)


@pytest.fixture(scope="module")
def server() -> Iterator[SourceDatabase]:
    try:
        with running_source() as started:
            yield started
    except NoPostgres as reason:
        pytest.skip(f"CAPTURES FROM POSTGRESQL ARE NOT TESTED: {reason}")


@pytest.fixture
def shop_of(server: SourceDatabase, tmp_path: Path) -> ShopOf:
    """A shop over a new database, with some sales unless said otherwise."""

    def opened(*statements: str, sales: int = 10, spark: SparkSession | None = None, **declared: Any) -> DatabaseShop:
        shop = DatabaseShop(
            home=tmp_path / "home", server=server, database=server.create_database(), spark=spark, declared=declared
        )
        shop.run(*(statements or (TABLE,)), f"{NEW} FROM generate_series(1, {sales}) i")
        return shop

    return opened


@pytest.fixture
def nothing_lands(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is captured stays a file: these tests are about the files, and need no Spark."""
    monkeypatch.setattr("backfill_assets.application.capture._land", lambda *_, **__: None)


def records_of(shop: DatabaseShop) -> list[Record]:
    """The records of the files that count, in the order of their positions."""
    names = [Path(each.stored_path).name for each in sorted(shop.files(), key=lambda each: each.range_from)]
    content = shop.bytes()
    return [json.loads(line) for name in names for line in gzip.decompress(content[name]).splitlines()]


def replayed(records: list[Record], *, before: int | None = None) -> dict[str, Record]:
    """The rows by key that records say there are, as far as a position."""
    rows: dict[str, Record] = {}
    for each in records:
        if before is not None and each["pg_operation"] != "snapshot" and each["pg_lsn"] >= before:
            continue
        match each["pg_operation"]:
            case "truncate":
                rows.clear()
            case "delete":
                rows.pop(each["sale_id"], None)
            case _:
                rows[each["sale_id"]] = {name: each[name] for name in ("sale_id", "amount", "note")}
    return rows


def selected(connection: psycopg.Connection[Any]) -> dict[str, Record]:
    """The same of the table."""
    found = connection.execute("SELECT sale_id::text, amount::text, note FROM sales").fetchall()
    return {each[0]: dict(zip(("sale_id", "amount", "note"), each, strict=True)) for each in found}


def slots_of(shop: DatabaseShop) -> list[str]:
    with shop.connect() as connection:
        query = "SELECT slot_name FROM pg_replication_slots WHERE database = current_database() AND NOT temporary"
        return [name for (name,) in connection.execute(query)]


def test_a_snapshot_and_the_changes_after_it_are_the_table_and_are_captured_once(
    shop_of: ShopOf, spark: SparkSession
) -> None:
    shop = shop_of(spark=spark)
    with pytest.raises(NoSnapshot) as refused:
        shop.capture()
    assert explained(refused.value).endswith("Next: read everything anew: --snapshot")
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
        with suppress(ReadFailed):
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


def test_the_same_range_is_the_same_bytes_until_the_slot_gives_it_up(shop_of: ShopOf, tmp_path: Path) -> None:
    shop = shop_of()
    declared = shop.source().capture
    assert isinstance(declared, PostgresTable)
    stream = PostgresStream(
        declared, secret={"password": PASSWORD}, key=("sale_id",), columns=shop.source().file_columns
    )
    try:
        (snapshot,) = stream.pieces(stream.resolve(Period(start=None, end=None, is_whole=True), ()).spans[0], ())
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
def test_wherever_a_capture_stops_nothing_is_lost_or_doubled(
    shop_of: ShopOf, nothing_lands: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = shop_of()

    def stops(place: str) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(place, stopped)
            with pytest.raises(RuntimeError):
                shop.capture(whole=not shop.files())

    stops("backfill_assets.ledger.captures.CaptureWrites.add")
    assert (shop.files(), slots_of(shop), len(shop.bytes())) == ((), [], 1)
    assert shop.capture(whole=True).captured == 10
    expected = 10
    for number, place in enumerate(("ledger.captures.CaptureWrites.add", "capture.postgres.PostgresStream.recorded")):
        shop.run(
            f"INSERT INTO sales SELECT i, now() FROM generate_series({100 * number + 100}, {100 * number + 149}) i"
        )
        stops(f"backfill_assets.{place}")
        shop.run(f"DELETE FROM sales WHERE sale_id = {100 * number + 120}")
        shop.capture()
        expected += 51
        assert len(records_of(shop)) == expected
    with shop.connect() as connection:
        assert replayed(records_of(shop)) == selected(connection)


def stopped(*_: object, **__: object) -> None:
    raise RuntimeError("the process ends here")


@pytest.mark.long
def test_a_snapshot_whose_slot_was_not_kept_is_taken_again(
    shop_of: ShopOf, nothing_lands: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = shop_of()
    with monkeypatch.context() as patch:
        patch.setattr(PostgresStream, "recorded", stopped)
        with pytest.raises(RuntimeError):
            shop.capture(whole=True)
    assert (len(shop.files()), slots_of(shop)) == (1, [])
    shop.run("DELETE FROM sales WHERE sale_id = 1")
    with pytest.raises(ChangesGone, match="there is no slot"):
        shop.capture()
    assert shop.capture(whole=True).captured == 9
    shop.run("DELETE FROM sales WHERE sale_id = 2")
    assert shop.capture().captured == 1


@pytest.mark.long
def test_a_capture_that_was_killed_goes_on_without_loss_or_duplicate(shop_of: ShopOf, nothing_lands: None) -> None:
    shop = shop_of(chunk=32_768)
    shop.capture(whole=True)
    for number in range(200):
        shop.run(
            f"INSERT INTO sales SELECT i, now() FROM generate_series({100 * number + 100}, {100 * number + 129}) i"
        )
    for _ in range(3):
        have = len(shop.files())
        process = shop.command(
            *("capture", "sales", "--to", "now", "--by", "ana", "--no-load", "--records-per-minute", "30000")
        )
        until = time.monotonic() + 300
        while len(shop.files()) < have + 3:
            assert process.poll() is None and time.monotonic() < until, process.communicate()
            time.sleep(0.1)
        process.kill()
        process.communicate()
    assert 10 < len(records_of(shop)) < 6_010
    shop.capture()
    records = records_of(shop)
    assert len(records) == len({each["sale_id"] for each in records}) == 6_010


@pytest.mark.long
def test_a_snapshot_that_was_killed_leaves_no_slot_and_is_taken_anew(shop_of: ShopOf, nothing_lands: None) -> None:
    shop = shop_of(sales=20_000)
    every_slot = "SELECT slot_name FROM pg_replication_slots WHERE database = current_database()"
    ask = ("capture", "sales", "--snapshot", "--by", "ana", "--reason", "first", "--records-per-minute", "6000")
    process = shop.command(*ask)
    with shop.connect() as connection:
        until = time.monotonic() + 300
        while not connection.execute(every_slot).fetchall():
            assert process.poll() is None and time.monotonic() < until, process.communicate()
            time.sleep(0.1)
        time.sleep(1)
        process.kill()
        process.communicate()
        while connection.execute(every_slot).fetchall():
            assert time.monotonic() < until
            time.sleep(0.1)
    assert shop.files() == ()
    shop.run("DELETE FROM sales WHERE sale_id = 1")
    assert (shop.capture(whole=True).captured, slots_of(shop)) == (19_999, [shop.slot])


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


def finished(process: Any) -> tuple[int, str]:
    """The exit code of a command, and what it said on one line."""
    out, err = process.communicate(timeout=600)
    return process.returncode, " ".join(f"{out} {err}".split())


@pytest.mark.long
def test_a_value_that_an_update_left_out_of_line_is_never_null(shop_of: ShopOf, nothing_lands: None) -> None:
    large = "(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 500) i)"
    shop = shop_of()
    shop.capture(whole=True)
    shop.run(f"UPDATE sales SET note = {large} WHERE sale_id = 1", "UPDATE sales SET amount = 2 WHERE sale_id = 1")
    with pytest.raises(UnknownValue, match="left note as it was"):
        shop.capture()
    assert "2.00" not in {each["amount"] for each in records_of(shop) if each["sale_id"] == "1"}
    with pytest.raises(CannotBeCaptured, match="REPLICA IDENTITY FULL"):
        shop.capture(whole=True)
    shop.run("ALTER TABLE sales REPLICA IDENTITY FULL")
    assert shop.capture(whole=True).captured == 10


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


PARTITIONED = TABLE.replace("PRIMARY KEY", "").replace("seal bytea)", "seal bytea) PARTITION BY RANGE (sale_id)")


@pytest.mark.long
@pytest.mark.parametrize(
    ("statements", "declared", "kind", "why"),
    [
        ([], {"table": "public.nothing"}, NoStream, "has no table public.nothing"),
        ([], {"database": "nothing"}, NoStream, "has no database nothing"),
        ([], {"user": "nobody"}, StreamDenied, "does not accept the credentials"),
        ([], {"secrets": {}}, StreamDenied, "asks for a password, and no secret is declared"),
        ([], {"port": 9}, StreamAway, "did not answer"),
        ([PARTITIONED, "CREATE TABLE p PARTITION OF sales DEFAULT"], {}, CannotBeCaptured, "it is no ordinary table"),
        ([TABLE.replace("CREATE", "CREATE UNLOGGED")], {}, CannotBeCaptured, "it is unlogged"),
        ([TABLE.replace("PRIMARY KEY", "")], {}, CannotBeCaptured, "its replica identity has no sale_id"),
        (
            [TABLE.replace("PRIMARY KEY", ""), "ALTER TABLE sales REPLICA IDENTITY FULL"],
            {},
            CannotBeCaptured,
            "no unique index of it is over sale_id",
        ),
        (
            [TABLE.replace("PRIMARY KEY", "PRIMARY KEY DEFERRABLE"), "ALTER TABLE sales REPLICA IDENTITY FULL"],
            {},
            CannotBeCaptured,
            "no unique index of it is over sale_id",
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
    assert issubclass(NotByTime, BackfillError)


@pytest.mark.long
def test_a_server_without_logical_decoding_is_named(tmp_path: Path, nothing_lands: None) -> None:
    with running_source(wal_level="replica") as own:
        shop = DatabaseShop(home=tmp_path / "home", server=own, database=own.create_database())
        shop.run(TABLE)
        with pytest.raises(CannotBeCaptured, match="the wal_level of its server is replica, and not logical"):
            shop.capture(whole=True)


@pytest.mark.long
def test_a_slot_that_another_consumer_moved_and_a_table_that_was_created_again_begin_anew(
    shop_of: ShopOf, nothing_lands: None
) -> None:
    shop = shop_of()
    shop.capture(whole=True)
    shop.run("DELETE FROM sales WHERE sale_id = 1")
    with shop.connect() as connection:
        connection.execute("SELECT pg_replication_slot_advance(%s, pg_current_wal_flush_lsn())", [shop.slot])
    with pytest.raises(ChangesGone, match="another consumer has moved the slot"):
        shop.capture()
    assert shop.capture(whole=True).captured == 9
    assert shop.capture().captured == 0
    shop.run("DROP TABLE sales", TABLE, f"{NEW} FROM generate_series(1, 3) i")
    with pytest.raises(ChangesGone, match="it was created again") as refused:
        shop.capture()
    assert explained(refused.value).endswith("Next: read everything anew: --snapshot")
    with pytest.raises(CannotBeCaptured, match="does not have it"):
        shop.capture(whole=True)
    shop.run(f"ALTER PUBLICATION {shop.slot} ADD TABLE sales")
    assert shop.capture(whole=True).captured == 3
    shop.run("DELETE FROM sales WHERE sale_id = 1")
    assert shop.capture().captured == 1


@pytest.mark.long
def test_a_slot_that_lagged_too_far_is_named_and_a_new_snapshot_withdraws_what_is_gone(
    tmp_path: Path, spark: SparkSession
) -> None:
    with running_source(max_slot_wal_keep_size="1MB", min_wal_size="32MB", max_wal_size="32MB") as own:
        shop = DatabaseShop(home=tmp_path / "home", server=own, database=own.create_database(), spark=spark)
        shop.run(TABLE, f"{NEW} FROM generate_series(1, 20) i")
        shop.capture(whole=True, builds=True)
        shop.run("DELETE FROM sales WHERE sale_id <= 5", "UPDATE sales SET note = 'late' WHERE sale_id = 6")
        with shop.connect() as connection:
            for _ in range(4):
                connection.execute(
                    "CREATE TABLE IF NOT EXISTS filler AS SELECT md5(i::text) FROM generate_series(1, 9) i"
                )
                connection.execute("INSERT INTO filler SELECT md5(i::text) FROM generate_series(1, 99999) i")
                connection.execute("SELECT pg_switch_wal()")
                connection.execute("CHECKPOINT")
        with pytest.raises(ChangesGone, match="lagged by more than max_slot_wal_keep_size"):
            shop.capture(builds=True)
        for _ in range(2):
            with pytest.raises(WithdrawsTooMuch, match="lacks 5 of 20 keys") as refused:
                shop.capture(whole=True, builds=True)
            assert explained(refused.value).endswith("give the command again with --confirmed-by ANOTHER_PERSON")
        report = shop.capture(builds=True, confirmed_by="ben")
        assert report.landed is not None and report.landed.extract is not None
        assert (report.landed.extract.withdrawn.keys, len(report.landed.imports)) == (5, 2)
        assert shop.current_rows() == shop.selected()
        shop.run("DELETE FROM sales WHERE sale_id = 7", f"{NEW} FROM generate_series(1, 2) i")
        assert shop.capture(builds=True).captured == 3
        assert shop.current_rows() == shop.selected()


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
def test_a_server_that_goes_away_stops_the_capture_in_one_sentence(tmp_path: Path, nothing_lands: None) -> None:
    with running_source() as own:
        declared = {"chunk": 32_768, "answers_within": timedelta(seconds=3)}
        shop = DatabaseShop(home=tmp_path / "home", server=own, database=own.create_database(), declared=declared)
        shop.run(TABLE)
        shop.capture(whole=True)
        for number in range(20):
            shop.run(f"INSERT INTO sales SELECT i, now() FROM generate_series({100 * number}, {100 * number + 99}) i")
        calls = iter(range(1_000))

        def wait(_: float) -> None:
            if next(calls) == 8:
                own.kill()

        with pytest.raises(StreamAway, match="did not answer within 3 s") as refused:
            shop.capture(pace=Pace(records_per_minute=6_000, wait=wait))
        assert len(refused.value.message.splitlines()) == 1
        records = records_of(shop)
        assert 0 < len(records) < 2_000
        assert len(records) == len({each["sale_id"] for each in records})


@pytest.mark.long
def test_a_table_that_is_truncated_while_its_snapshot_is_read_is_not_captured_as_empty(
    shop_of: ShopOf, nothing_lands: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = shop_of()
    run = PostgresStream._run

    def truncates_first(stream: PostgresStream, statement: str, cursor: Any = None) -> Any:
        if statement.startswith("SET TRANSACTION SNAPSHOT"):
            shop.run("TRUNCATE sales")
        return run(stream, statement, cursor)

    with monkeypatch.context() as patch:
        patch.setattr(PostgresStream, "_run", truncates_first)
        with pytest.raises(ReadFailed, match="it was truncated or rewritten while its snapshot was read"):
            shop.capture(whole=True)
    assert (shop.files(), slots_of(shop)) == ((), [])


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


@pytest.mark.long
def test_the_declaration_of_the_page_captures_a_table(server: SourceDatabase, shop_of: ShopOf, tmp_path: Path) -> None:
    text = (PROJECT_ROOT / "docs" / "sources.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(orders = SourceTable.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {}
    exec("from backfill_assets.domain import *\nfrom pyspark.sql.types import *\n" + block, names)
    orders, shop = names["orders"], shop_of()
    assert isinstance(orders, SourceTable) and isinstance(orders.capture, PostgresTable)
    shop.run("CREATE TABLE orders (order_id int PRIMARY KEY, ordered_at timestamptz, amount numeric(12, 2))")
    shop.run("INSERT INTO orders SELECT i, now(), i FROM generate_series(1, 5) i")
    here = replace(orders.capture, host="127.0.0.1", port=server.port, database=shop.database, settings={})
    stream = PostgresStream(here, secret={"password": PASSWORD}, key=orders.key, columns=orders.file_columns)
    try:
        (span,) = stream.resolve(Period(start=None, end=None, is_whole=True), ()).spans
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

"""Captures of a table that are killed, or whose slot or server is lost: nothing is lost, doubled or left out unseen."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from backfill_assets.capture.errors import CannotBeCaptured, ChangesUnreadable, StreamFailed
from backfill_assets.capture.postgres.stream import PostgresStream
from backfill_assets.capture.streams import Pace
from backfill_assets.landing.errors import WithdrawsTooMuch
from backfill_assets.report.command_line import explained
from backfill_assets_tests.support.captured_shop import stopped
from backfill_assets_tests.support.database_shop import (
    NEW,
    TABLE,
    DatabaseShop,
    ShopOf,
    records_of,
    replayed,
    selected,
    slots_of,
)
from backfill_assets_tests.support.source_database import running_source


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
    for number, place in enumerate(
        ("ledger.captures.CaptureWrites.add", "capture.postgres.stream.PostgresStream.recorded")
    ):
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
    with pytest.raises(ChangesUnreadable, match="there is no slot"):
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
def test_a_slot_that_another_consumer_moved_and_a_table_that_was_created_again_begin_anew(
    shop_of: ShopOf, nothing_lands: None
) -> None:
    shop = shop_of()
    shop.capture(whole=True)
    shop.run("DELETE FROM sales WHERE sale_id = 1")
    with shop.connect() as connection:
        connection.execute("SELECT pg_replication_slot_advance(%s, pg_current_wal_flush_lsn())", [shop.slot])
    with pytest.raises(ChangesUnreadable, match="another consumer has moved the slot"):
        shop.capture()
    assert shop.capture(whole=True).captured == 9
    assert shop.capture().captured == 0
    shop.run("DROP TABLE sales", TABLE, f"{NEW} FROM generate_series(1, 3) i")
    with pytest.raises(ChangesUnreadable, match="it was created again") as refused:
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
        with pytest.raises(ChangesUnreadable, match="lagged by more than max_slot_wal_keep_size"):
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

        with pytest.raises(StreamFailed, match="did not answer within 3 s") as refused:
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
        with pytest.raises(StreamFailed, match="it was truncated or rewritten while its snapshot was read"):
            shop.capture(whole=True)
    assert (shop.files(), slots_of(shop)) == ((), [])

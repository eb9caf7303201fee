"""Captures of a Delta table that others write: after each, bronze has the rows of the version that was captured."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dagster import AssetKey, AssetMaterialization
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from backfill_assets.capture.errors import (
    CannotBeCaptured,
    ChangesUnreadable,
    CreatedAgain,
    NoStream,
    NotOffered,
    StreamFailed,
    VersionGone,
)
from backfill_assets.capture.streams import Pace
from backfill_assets.core.errors import Refused
from backfill_assets.domain import LakeTable, Operations, SourceTable
from backfill_assets.landing.errors import WithdrawsTooMuch
from backfill_assets.orchestration.recorder import DagsterRecorder
from backfill_assets.report.command_line import explained
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.domains import captured_lake
from backfill_assets_tests.support.captured_shop import FIRST, StreamShop, finished
from backfill_assets_tests.support.dagster_record import open_record

FEED = {"delta.enableChangeDataFeed": "true"}
Sales = Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class LakeShop(StreamShop):
    """A shop over a Delta table, whose sales are a changelog or plain states."""

    table: Path
    kind: SourceTable = captured_lake.with_changes

    def environment(self) -> Mapping[str, str]:
        plain = {"TEST_LAKE_PLAIN": "yes"} if self.kind is captured_lake.plain else {}
        domain = "backfill_assets_tests.domains.captured_lake"
        return {**super().environment(), **plain, "BACKFILL_DOMAIN": domain, "TEST_LAKE_TABLE": str(self.table)}

    def source(self) -> SourceTable:
        capture = LakeTable(**{"url": str(self.table), "chunk": 100, **self.declared})
        return replace(self.kind, capture=capture, policy=self.policy)

    def current(self) -> dict[str, int]:
        """The sales that bronze has."""
        ended = ("_operation", "_ended_by")
        return {
            row["sale_id"]: row["amount"]
            for row in self.rows()
            if row.get(ended[0]) != "delete" and row.get(ended[1]) is None
        }


ShopOf = Callable[..., LakeShop]


@pytest.fixture
def shop_of(spark: SparkSession, tmp_path: Path) -> ShopOf:
    def opened(home: str = "home", *, kind: SourceTable = captured_lake.with_changes, **declared: Any) -> LakeShop:
        return LakeShop(home=tmp_path / home, spark=spark, table=tmp_path / "table", kind=kind, declared=declared)

    return opened


def rows(sales: Sales) -> pa.Table:
    """Sales as rows, ten a day."""
    numbers = [int(sale_id[1:]) for sale_id in sales]
    return pa.table(
        {
            "sale_id": pa.array(list(sales), pa.string()),
            "sold_at": pa.array(
                [datetime(2026, 1, 1, 12, tzinfo=UTC) + timedelta(days=number // 10 % 8) for number in numbers],
                pa.timestamp("us", "UTC"),
            ),
            "amount": pa.array(list(sales.values()), pa.int64()),
            "shop": pa.array([f"shop-{number % 3}" for number in numbers], pa.string()),
        }
    )


def sold(*numbers: int, amount: int = 10) -> dict[str, int]:
    return {f"s{number:06}": amount for number in numbers}


def write(table: Path, sales: Sales, mode: str = "append", *, feed: bool = True) -> None:
    kept: Any = {"mode": mode, "partition_by": ["shop"], "configuration": FEED if feed else {}}
    write_deltalake(str(table), rows(sales), **kept)


def held(table: Path, version: int | None = None) -> dict[str, int]:
    """The sales that the table has."""
    found = DeltaTable(str(table), version=version).to_pyarrow_table().to_pylist()
    return {row["sale_id"]: row["amount"] for row in found}


@pytest.mark.long
def test_a_snapshot_and_then_the_changes_of_every_version_are_the_rows_of_the_table(shop_of: ShopOf) -> None:
    shop = shop_of()
    write(shop.table, sold(*range(60)))
    write(shop.table, sold(*range(60, 250)))
    planned = shop.plan(None)
    assert (planned.files, planned.records, planned.resolution.pinned["version"]) == (3, None, "1")
    first = shop.capture(None, builds=True)
    assert (first.captured, len(first.files), shop.current()) == (250, 3, held(shop.table))

    table = DeltaTable(str(shop.table))
    table.update(predicate="sale_id = 's000001'", updates={"amount": "77"})
    table.delete("sale_id = 's000002'")
    table.update(predicate="sale_id = 's000003'", updates={"sale_id": "'s000900'"})
    write(shop.table, sold(300, 301))
    table = DeltaTable(str(shop.table))
    table.optimize.compact()
    then = shop.capture(None, builds=True)
    # An update, a delete, a key change (its old key ends, its new one begins) and two inserts.
    assert (then.captured, [each.range_from + "-" + each.range_to for each in then.files]) == (6, ["2-7"])
    assert shop.current() == held(shop.table)
    (changes,) = (path for path in (shop.home / "landing").rglob("*-2-7.parquet"))
    found = [(row["lake_version"], row["op"], row["sale_id"]) for row in pq.read_table(changes).to_pylist()]
    assert found == [
        (2, "u", "s000001"),
        (3, "d", "s000002"),
        (4, "d", "s000003"),
        (4, "c", "s000900"),
        (5, "c", "s000300"),
        (5, "c", "s000301"),
    ]
    assert shop.capture(None).captured == 0
    elsewhere = shop_of("elsewhere", version=1)
    elsewhere.capture(None)
    shop_of("elsewhere").capture(None)
    assert elsewhere.bytes("table-*/*.parquet") == shop.bytes("table-*/*.parquet")


@pytest.mark.long
def test_dagster_has_a_partition_for_each_capture_also_for_one_that_could_not_be_reported(shop_of: ShopOf) -> None:
    shop, key = shop_of(), AssetKey(["captured", "sales"])
    write(shop.table, sold(*range(60)))
    shop.capture(None)
    write(shop.table, sold(60, 61))
    ws = shop.open()
    with open_record(ws.settings) as instance:
        recorder = DagsterRecorder(ws.settings, lambda: instance)
        shop.capture(None, recorder=recorder)
        assert instance.get_materialized_partitions(key) == {"cap-000001", "cap-000002"}
        assert set(instance.get_dynamic_partitions("backfill_captures_of_sales")) == {"cap-000001", "cap-000002"}
        event = instance.get_latest_materialization_event(key)
        assert event and event.asset_materialization
        told = event.asset_materialization
        numbers = {name: told.metadata[name].value for name in ("records", "files", "is complete")}
        assert (told.partition, numbers) == ("cap-000002", {"records": 2, "files": 1, "is complete": True})
        written = instance.event_log_storage.get_maximum_record_id()
        recorder.catch_up(ws)
        assert instance.event_log_storage.get_maximum_record_id() == written, "each is reported once"
        with pytest.raises(Refused, match=r"captured\.sales shows what the ledger has accepted"):
            instance.report_runless_asset_event(AssetMaterialization(key, partition="cap-000009"))
    ws.close()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_committed_bronze_has_the_rows_of_the_version(shop_of: ShopOf, seed: int) -> None:
    shop, chosen, numbers = shop_of(), random.Random(seed), count(100)
    write(shop.table, sold(*range(100)))
    for _ in range(4):
        for _ in range(4):
            table, there = DeltaTable(str(shop.table)), sorted(held(shop.table))
            some = ", ".join(f"'{each}'" for each in chosen.sample(there, min(5, len(there))))
            match chosen.choice(["append", "update", "delete", "overwrite", "merge", "key", "compact"]):
                case "append":
                    write(shop.table, sold(*(next(numbers) for _ in range(7))))
                case "update":
                    table.update(predicate=f"sale_id in ({some})", updates={"amount": f"{chosen.randint(20, 90)}"})
                case "delete":
                    table.delete(f"sale_id in ({some})")
                case "overwrite":
                    kept = {each: chosen.choice([10, 50]) for each in there if chosen.random() < 0.9}
                    write(shop.table, kept, "overwrite")
                case "merge":
                    merged = {**dict.fromkeys(there[:3], 5), **sold(next(numbers))}
                    merging = table.merge(rows(merged), "t.sale_id = s.sale_id", source_alias="s", target_alias="t")
                    merging.when_matched_update_all().when_not_matched_insert_all().execute()
                case "key":
                    table.update(predicate=f"sale_id = '{there[0]}'", updates={"sale_id": f"'s{next(numbers):06}'"})
                case "compact":
                    table.optimize.compact()
        shop.capture(None, builds=True)
        assert shop.current() == held(shop.table)


@pytest.mark.long
@pytest.mark.parametrize("kind", [captured_lake.plain, captured_lake.with_changes])
def test_without_a_change_feed_a_new_version_is_a_complete_extract(shop_of: ShopOf, kind: SourceTable) -> None:
    # The source with operations is over a table without a feed, the plain one has no use for it.
    has_feed = kind is captured_lake.plain
    shop = shop_of(kind=kind)
    write(shop.table, sold(*range(50)), feed=has_feed)
    shop.capture(None, builds=True)
    table = DeltaTable(str(shop.table))
    table.delete("sale_id in ('s000004', 's000005')")
    table.update(predicate="sale_id = 's000006'", updates={"amount": "66"})
    found = shop.capture(None, builds=True)
    assert found.landed is not None
    assert found.landed.extract is not None
    assert (found.captured, found.landed.extract.withdrawn.keys) == (48, 2)
    assert shop.current() == held(shop.table)
    assert shop.capture(None).captured == 0
    # More than a fifth: another person has to confirm it, and nothing is read again for that.
    write(shop.table, sold(*range(20)), "overwrite", feed=has_feed)
    for _ in range(2):
        with pytest.raises(WithdrawsTooMuch):
            shop.capture(None)
    read = len(shop.files())
    shop.capture(None, builds=True, confirmed_by="ben")
    assert (len(shop.files()), shop.current()) == (read, held(shop.table))


@pytest.mark.long
def test_a_feed_that_begins_later_is_used_for_what_it_has(shop_of: ShopOf) -> None:
    shop = shop_of()
    write(shop.table, sold(*range(30)), feed=False)
    shop.capture(None, builds=True)
    table = DeltaTable(str(shop.table))
    table.update(predicate="sale_id = 's000001'", updates={"amount": "11"})
    table.delete("sale_id = 's000002'")
    table.alter.set_table_properties(FEED)
    table.update(predicate="sale_id = 's000003'", updates={"amount": "33"})
    shop.capture(None, builds=True)
    assert shop.current() == held(shop.table)
    table.alter.set_table_properties(dict.fromkeys(FEED, "false"))
    table.alter.set_table_properties(FEED)
    with pytest.raises(ChangesUnreadable, match="its change feed was off in between") as refused:
        shop.capture(None)
    assert "--snapshot" in explained(refused.value)


@pytest.mark.long
def test_partition_values_with_blanks_are_read_although_the_client_cannot_read_their_changes(shop_of: ShopOf) -> None:
    shop = shop_of()
    write(shop.table, sold(*range(30)))
    shop.capture(None, builds=True)
    blank = rows(sold(40, 41)).set_column(3, "shop", pa.array(["a b/c"] * 2))
    write_deltalake(str(shop.table), blank, mode="append")
    shop.capture(None, builds=True)
    assert shop.current() == held(shop.table)
    # Where they are gone from the table, only the changes have them.
    write_deltalake(str(shop.table), blank, mode="append")
    DeltaTable(str(shop.table)).delete("shop = 'a b/c'")
    with pytest.raises(ChangesUnreadable, match="the client does not open partitions") as refused:
        shop.capture(None)
    assert "--snapshot" in explained(refused.value)
    shop.capture(None, builds=True, is_whole=True)
    assert shop.current() == held(shop.table)


@pytest.mark.long
def test_a_pinned_version_is_captured_and_no_other(shop_of: ShopOf) -> None:
    shop = shop_of(version=1)
    write(shop.table, sold(*range(10)))
    write(shop.table, sold(*range(10, 20)))
    write(shop.table, sold(*range(20, 30)))
    with pytest.raises(NotOffered, match="cannot be asked for a period"):
        shop.capture(FIRST)
    shop.capture(None, builds=True)
    assert shop.current() == held(shop.table, 1)
    assert shop.capture(None).captured == 0


@pytest.mark.long
def test_a_version_that_was_vacuumed_away_is_one_sentence_and_all_rows_can_be_read_once_more(shop_of: ShopOf) -> None:
    shop = shop_of()
    write(shop.table, sold(*range(30)))
    shop.capture(None, builds=True)
    table = DeltaTable(str(shop.table))
    table.update(predicate="sale_id = 's000001'", updates={"amount": "11"})
    table.delete("sale_id = 's000002'")
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    shutil.rmtree(shop.table / "_change_data", ignore_errors=True)
    with pytest.raises(VersionGone) as refused:
        shop.capture(None)
    assert "can no longer be read: its files or its log were removed there" in explained(refused.value)
    assert "--snapshot" in explained(refused.value)
    shop.capture(None, builds=True, is_whole=True)
    assert shop.current() == held(shop.table)
    # And then it goes on with changes.
    DeltaTable(str(shop.table)).delete("sale_id = 's000003'")
    assert shop.capture(None, builds=True).captured == 1
    assert shop.current() == held(shop.table)
    with pytest.raises(VersionGone, match="version 99 of the Delta table"):
        shop_of("pinned", version=99).capture(None)


@pytest.mark.long
def test_a_snapshot_that_was_killed_goes_on_without_loss_or_duplicate(shop_of: ShopOf) -> None:
    shop = shop_of()
    for number in range(8):
        write(shop.table, sold(*range(number * 300, number * 300 + 300)))
    ask = ("capture", "sales", "--to", "now", "--by", "ana", "--no-load", "--records-per-minute", "6000")
    for _ in range(2):
        have = len(shop.bytes("table-*/*.parquet"))
        process = shop.command(*ask)
        until = time.monotonic() + 300
        while len(shop.bytes("table-*/*.parquet")) < have + 4:
            assert process.poll() is None and time.monotonic() < until
            time.sleep(0.05)
        process.kill()
        process.communicate()
    assert 0 < len(shop.files()) < 24
    DeltaTable(str(shop.table)).delete("sale_id = 's000007'")
    shop.capture(None)  # the rest of the version that was begun
    assert (len(shop.files()), sum(each.records for each in shop.files())) == (24, 2_400)
    assert shop.capture(None, builds=True).captured == 1
    assert shop.current() == held(shop.table)
    ws = shop.open()
    try:
        assert audit(ws).problems == ()
    finally:
        ws.close()
    whole = shop_of("whole", version=7)
    whole.capture(None)
    assert whole.bytes("table-*/*.parquet").items() <= shop.bytes("table-*/*.parquet").items()


@pytest.mark.long
def test_a_begun_snapshot_whose_version_was_vacuumed_away_is_read_anew_and_withdraws_what_is_gone(
    shop_of: ShopOf,
) -> None:
    shop = shop_of(chunk=10)
    write(shop.table, sold(*range(60)))

    waits = count(1)

    def stop(_: float) -> None:
        if next(waits) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        shop.capture(None, pace=Pace(records_per_minute=60, wait=stop))
    assert 0 < len(shop.files()) < 3
    table = DeltaTable(str(shop.table))
    table.delete("sale_id in ('s000000', 's000001')")  # one of the file that was read, one of another
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    shop.capture(None, builds=True)
    assert shop.current() == held(shop.table)


@pytest.mark.long
def test_what_is_wrong_with_a_table_is_one_sentence(shop_of: ShopOf, tmp_path: Path) -> None:
    shop = shop_of()
    with pytest.raises(NoStream, match="table has no Delta table"):
        shop.capture(None)
    write(shop.table, sold(*range(5)))
    shop.capture(None)
    shutil.rmtree(shop.table)
    with pytest.raises(NoStream, match="table has no Delta table"):
        shop.capture(None)
    write(shop.table, sold(*range(7)))
    with pytest.raises(CreatedAgain, match="was created again") as refused:
        shop.capture(None)
    assert "declare another source for it" in explained(refused.value)
    changed = Operations(column="shop", update="u", delete="d")
    schema = StructType([*captured_lake.plain.schema.fields, StructField("shop", StringType())])
    other = replace(captured_lake.plain, operation=changed, schema=schema)
    with pytest.raises(CannotBeCaptured, match="it has a column shop itself"):
        shop_of("other", kind=other).capture(None)
    (log,) = (shop.table / "_delta_log").glob("*.json")
    log.write_text("no log")
    with pytest.raises((StreamFailed, NoStream)) as broken:
        shop_of("broken").capture(None)
    assert "\n" not in explained(broken.value)


@pytest.mark.long
def test_a_store_that_refuses_or_does_not_answer_is_one_sentence_without_its_keys(
    shop_of: ShopOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_LAKE_SECRET", "hidden-word")
    options = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"}
    shop = shop_of(
        url="s3://bucket/table",
        options={**options, "max_retries": "0", "retry_timeout": "1s"},
        secrets={"AWS_SECRET_ACCESS_KEY": "TEST_LAKE_SECRET", "AWS_ACCESS_KEY_ID": "TEST_LAKE_SECRET"},
    )
    with pytest.raises(StreamFailed, match="work with the Delta table s3://bucket/table stopped") as refused:
        shop.capture(None)
    assert "hidden-word" not in explained(refused.value)
    code, said = finished(shop_of().command("capture", "sales", "--to", "now", "--by", "ana", "--no-load"))
    assert (code, "has no Delta table" in said, "Traceback" in said) == (1, True, False), said

"""Captures of an Iceberg table that others write: after each, bronze has the rows of the snapshot that was captured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table
from pyspark.sql import SparkSession

from backfill_assets.capture.errors import (
    CannotBeCaptured,
    CreatedAgain,
    NoStream,
    NotOffered,
    StreamFailed,
    VersionGone,
)
from backfill_assets.capture.lake_tables.iceberg import IcebergStream
from backfill_assets.domain import IcebergTable, SourceTable
from backfill_assets.report.command_line import explained
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.domains import captured_lake
from backfill_assets_tests.support.captured_shop import FIRST, StreamShop, finished

SALES = "shop.sales"
COLUMNS = pa.schema(
    [
        pa.field("sale_id", pa.string()),
        pa.field("sold_at", pa.timestamp("us", "UTC")),
        pa.field("amount", pa.int64()),
        pa.field("shop", pa.string()),
    ]
)


@dataclass(frozen=True, kw_only=True)
class IcebergShop(StreamShop):
    """A shop over a table of a catalog."""

    catalog: str

    def environment(self) -> Mapping[str, str]:
        domain = "backfill_assets_tests.domains.captured_lake"
        return {**super().environment(), "BACKFILL_DOMAIN": domain, "TEST_ICEBERG_CATALOG": self.catalog}

    def source(self) -> SourceTable:
        usual = {"table": SALES, "catalog": {"type": "sql", "uri": self.catalog, "name": "theirs"}, "chunk": 100}
        return replace(captured_lake.with_changes, capture=IcebergTable(**{**usual, **self.declared}))

    def current(self) -> dict[str, int]:
        """The sales that bronze has."""
        return {row["sale_id"]: row["amount"] for row in self.rows() if row["_ended_by"] is None}


ShopOf = Callable[..., IcebergShop]


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = load_catalog(
        "theirs", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/lake"
    )
    made.create_namespace("shop")
    return made


@pytest.fixture
def shop_of(spark: SparkSession, tmp_path: Path) -> ShopOf:
    def opened(home: str = "home", **declared: Any) -> IcebergShop:
        uri = f"sqlite:///{tmp_path}/catalog.db"
        return IcebergShop(home=tmp_path / home, spark=spark, catalog=uri, declared=declared)

    return opened


def rows(*numbers: int, amount: int = 10) -> pa.Table:
    """Sales as rows, ten a day."""
    first = datetime(2026, 1, 1, 12, tzinfo=UTC)
    found = {
        "sale_id": [f"s{number:06}" for number in numbers],
        "sold_at": [first + timedelta(days=number // 10 % 8) for number in numbers],
        "amount": [amount] * len(numbers),
        "shop": [f"shop-{number % 3}" for number in numbers],
    }
    return pa.table(found, schema=COLUMNS)


def sold(catalog: Catalog, *counts: int) -> Table:
    """The table, with so many sales in each of its first snapshots."""
    table, begin = catalog.create_table(SALES, schema=COLUMNS), 0
    for count in counts:
        table.append(rows(*range(begin, begin + count)))
        begin += count
    return table


def held(table: Table, snapshot: int | None = None) -> dict[str, int]:
    """The sales that the table has."""
    found = table.scan(snapshot_id=snapshot).to_arrow().to_pylist()
    return {row["sale_id"]: row["amount"] for row in found}


@pytest.mark.long
def test_a_snapshot_and_then_newer_ones_are_the_rows_of_the_table(shop_of: ShopOf, catalog: Catalog) -> None:
    shop, table = shop_of(), sold(catalog, 60, 190)
    planned = shop.plan(None)
    assert (planned.files, planned.resolution.pinned["format"], planned.resolution.pinned["version"]) == (
        2,
        "iceberg",
        "2",
    )
    first = shop.capture(None, builds=True)
    assert (first.captured, len(first.files), shop.current()) == (250, 2, held(table))
    assert shop.capture(None).captured == 0

    table.delete("sale_id = 's000002'")
    table.overwrite(rows(1, amount=77), overwrite_filter="sale_id = 's000001'")
    table.append(rows(300, 301))
    then = shop.capture(None, builds=True)
    assert (then.captured, then.plan.resolution.pinned["snapshot"]) == (251, str(table.current_snapshot().snapshot_id))  # type: ignore[union-attr]
    assert shop.current() == held(table)
    ws = shop.open()
    assert audit(ws).problems == ()
    ws.close()


@pytest.mark.long
def test_a_snapshot_that_is_named_is_captured_and_no_other_in_equal_bytes_also_by_the_address_of_its_metadata(
    shop_of: ShopOf, catalog: Catalog
) -> None:
    table = sold(catalog, 60)
    named, address = table.metadata.current_snapshot_id, table.metadata_location
    table.append(rows(*range(60, 90)))
    shop, by_address = shop_of(snapshot=named), shop_of("by address", table=address, catalog={})
    assert [each.capture(None).captured for each in (shop, by_address)] == [60, 60]
    assert by_address.bytes("*-0-0-2.parquet") == shop.bytes("*-0-0-2.parquet") != {}


@pytest.mark.long
def test_a_capture_that_was_killed_goes_on_without_loss_or_duplicate(shop_of: ShopOf, catalog: Catalog) -> None:
    shop, table = shop_of(), sold(catalog, *[100] * 12)
    asked = ("capture", "sales", "--to", "now", "--by", "ana", "--no-load")
    process = shop.command(*asked, "--records-per-minute", "6000")
    while not shop.home.exists() or not (shop.home / "ledger.db").exists() or len(shop.files()) < 3:
        assert process.poll() is None, process.communicate()
    process.kill()
    process.communicate()
    there = len(shop.files())
    assert 3 <= there < 12
    table.append(rows(5000))
    code, said = finished(shop.command(*asked))
    assert code == 0, said
    captured = shop.files()
    assert (len(captured), sum(each.records for each in captured[:12])) == (12, 1200), "the snapshot that was begun"
    shop.capture(None, builds=True)
    assert shop.current() == held(table)


@pytest.mark.long
def test_what_is_wrong_with_a_table_is_one_sentence(shop_of: ShopOf, catalog: Catalog, tmp_path: Path) -> None:
    shop = shop_of()
    with pytest.raises(NoStream, match=r"its catalog has no table shop\.sales"):
        shop.capture(None)
    table = sold(catalog)
    with pytest.raises(CannotBeCaptured, match=r"the Iceberg table shop\.sales .*it has no snapshot yet"):
        shop.capture(None)
    table.append(rows(*range(20)))
    with pytest.raises(NotOffered):
        shop.capture(FIRST, FIRST)
    with pytest.raises(VersionGone, match="7"):
        shop_of("none", snapshot=7).capture(None)
    shop.capture(None)
    catalog.drop_table(SALES)
    sold(catalog, 30)
    with pytest.raises(CreatedAgain):
        shop.capture(None)
    old = catalog.create_table("shop.old", schema=COLUMNS, properties={"format-version": "1"})
    old.append(rows(1))
    with pytest.raises(CannotBeCaptured, match="version 1 of its format, whose snapshots are not numbered"):
        shop_of("old", table="shop.old").capture(None)
    with pytest.raises(StreamFailed) as refused:
        shop_of("away", catalog={"type": "rest", "uri": "http://127.0.0.1:1/"}).capture(None)
    assert "127.0.0.1" not in explained(refused.value)
    with pytest.raises(NoStream):
        shop_of("nowhere", table=f"{tmp_path}/nothing.metadata.json", catalog={}).capture(None)


@pytest.mark.long
def test_a_file_that_was_removed_is_one_sentence_and_a_begun_snapshot_is_read_anew(
    shop_of: ShopOf, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, table = shop_of(), sold(catalog, 100, 100)
    paths = sorted(str(each.file.file_path) for each in table.scan().plan_files())
    gone = Path(paths[-1].removeprefix("file://"))
    kept = gone.read_bytes()
    gone.unlink()
    for act in (shop.plan, shop.capture):
        with pytest.raises(VersionGone):
            act(None)
    assert shop.files() == (), "nothing is read of a snapshot of which files are gone"
    with monkeypatch.context() as patch:  # it is removed while it is read
        patch.setattr(IcebergStream, "_require_readable", lambda *_: None)
        with pytest.raises(VersionGone):
            shop.capture(None)
    assert [each.records for each in shop.files()] == [100]
    gone.write_bytes(kept)
    assert shop.capture(None, builds=True).captured == 100
    assert shop.current() == held(table)


@pytest.mark.long
def test_a_rollback_takes_back_what_it_undid_and_gives_back_what_was_there(shop_of: ShopOf, catalog: Catalog) -> None:
    shop, table = shop_of(), sold(catalog, 60)
    table.overwrite(rows(1, amount=77), overwrite_filter="sale_id = 's000001'")
    table.append(rows(300, 301))
    shop.capture(None, builds=True)
    assert shop.current() == held(table)
    first, *_, last = (each.snapshot_id for each in table.metadata.snapshots)
    for number, current in enumerate((first, last, first)):
        table.refresh()
        table.manage_snapshots().set_current_snapshot(snapshot_id=current).commit()
        table.refresh()
        shop.capture(None, builds=True)
        assert shop.current() == held(table), number
    assert shop.capture(None).captured == 0

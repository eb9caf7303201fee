"""A version that runs beside the table: it follows the LIVE path, is compared every day, and readers are cut over."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path

import pandas as pd
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

from backfill_assets.application import shadow
from backfill_assets.application.requests import request_of
from backfill_assets.core.errors import GateFailed
from backfill_assets.domain import Domain, Release, TransformContext
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.ledger.records import TableAct
from backfill_assets.report.page import Facts
from backfill_assets.report.pages import page_of
from backfill_assets.report.versions import VersionStatus
from backfill_assets.report.words.plans import columns_words
from backfill_assets.requests import table_acts
from backfill_assets.upkeep.audit import audit
from backfill_assets.workspace import Workspace
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.domains.example import RECENT_SALES, recent_sales
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.ledgers import copy_home
from backfill_assets_tests.support.shop import DAYS, OUTPUT, RECENT, open_shop, sale
from backfill_assets_tests.support.version_shop import V2, VersionShop, with_version, with_versions

FIFTH = date(2026, 1, 5)
ONE_DAY = timedelta(days=1)
WITH_NOTE = StructType([*RECENT_SALES.fields, StructField("note", StringType(), nullable=False)])


class Calendar:
    """A clock that a test sets; it advances by a second whenever it is read."""

    def __init__(self, at: datetime) -> None:
        self.at = at

    def __call__(self) -> datetime:
        self.at += timedelta(seconds=1)
        return self.at


def noted(sales: DataFrame, ctx: TransformContext) -> DataFrame:
    """The recent sales with a column more."""
    rows = recent_sales.releases[0].function(sales, ctx)
    return rows.withColumn("note", sf.lit("new"))


def with_other_columns(domain: Domain, *, clean_days: int) -> Domain:
    """The domain with a version whose rows have a column more."""
    derived = tuple(
        replace(table, schema=WITH_NOTE, releases=(Release(version="1.1.0", function=noted),))
        if table.name == V2
        else table
        for table in with_version(domain, differs=("amount",), clean_days=clean_days).derived
    )
    return replace(domain, derived=derived)


@pytest.fixture
def clock() -> Calendar:
    return Calendar(NOON)


@pytest.fixture
def shop(tmp_path: Path, published_home: Path, spark: SparkSession, clock: Calendar) -> Iterator[VersionShop]:
    """The shop, whose recent sales are published, with a version that has a column more and two clean days to go."""
    copy_home(published_home, tmp_path / "home")
    clock.at = NOON + timedelta(days=1)
    opened = open_shop(tmp_path / "home", clock=clock, spark=spark)
    yield with_versions(opened, with_other_columns(opened.ws.domain, clean_days=2))
    opened.ws.close()


def lands(shop: VersionShop, name: str, day: date, amount: int = 10) -> None:
    """A sale lands, and nothing is built."""
    path = shop.folder / name
    path.write_text(json.dumps(sale(day, amount=amount, sale_id=name)) + "\n", encoding="utf-8")
    operations.land(shop.ws, "sales", path, on_duplicate=OnDuplicate.IGNORE, by="olga")


def version(shop: VersionShop, table: str = V2) -> VersionStatus:
    (found,) = [each for each in shadow.status(shop.ws, RECENT).versions if each.table == table]
    return found


def accepted_rows(ws: Workspace, table: str) -> pd.DataFrame:
    found = shadow.resolve(ws, table)
    return DeltaTable(found.path, version=found.version).to_pandas()


def test_a_version_catches_up_follows_live_days_is_compared_and_takes_its_place_with_its_columns(
    shop: VersionShop, clock: Calendar
) -> None:
    planned = shadow.start(shop.ws, V2, by="ana", reason="a column more")
    assert planned is not None
    assert planned.manifest.partitions == tuple(OUTPUT)
    run_id = shop.staged(planned.manifest.run_id)
    operations.publish(shop.ws, run_id, by="ana")
    lands(shop, "eleventh.jsonl", DAYS.end)
    said = shop.lives()
    assert f"{V2}: compared with {RECENT}, 0 keys agree, 8 differ as declared, 0 otherwise." in said
    with pytest.raises(GateFailed, match="on 1 days in a row, and 2 are declared"):
        shop.asked()
    clock.at += ONE_DAY
    # A late sale: neither is built again before readers see its days restated.
    lands(shop, "late.jsonl", FIFTH, amount=3)
    shop.lives()
    assert set(version(shop).outdated.days) == set()
    shop.computed(RECENT, OUTPUT)
    shop.lives()
    found = version(shop)
    assert (found.clean_days, found.clean_days_wanted, found.not_compared) == (2, 2, ("note",))
    assert (columns_words(found.columns), version(shop, RECENT).columns) == ("adds note (string)", ())
    here, there = accepted_rows(shop.ws, V2), accepted_rows(shop.ws, RECENT)
    by_hand = here.merge(there, on=["day", "shop"], how="outer", suffixes=("", "_live"), indicator=True)
    agree = int((by_hand["amount"] == by_hand["amount_live"]).sum())
    assert found.last is not None
    assert (found.last.agreed, found.last.differing) == (agree, len(by_hand) - agree)
    assert (by_hand["_merge"] == "both").all()
    assert (by_hand["amount_live"] == 2 * by_hand["amount"]).all()
    assert_readers_never_see_a_mixture(shop)
    acts = [each for each in shadow.status(shop.ws, RECENT).acts if each.act is TableAct.CUT_OVER]
    for each in acts:
        document = request_of(ws=shop.ws, name=each.act_id).document()
        (named,) = (block for block in page_of(document).blocks if isinstance(block, Facts))
        assert ("columns", "adds note (string)") in named.pairs
    assert len(acts) == 2
    assert columns_words(version(shop, RECENT).columns) == "no longer has note"
    assert page_of(shadow.status(shop.ws, RECENT)).blocks
    assert audit(shop.ws).problems == ()


def assert_readers_never_see_a_mixture(shop: VersionShop) -> None:
    """Cuts readers over, back and over again while one reads all the time: columns and rows are always of one table."""
    seen: list[tuple[bool, frozenset[bool]]] = []
    stop = threading.Event()

    def reads() -> None:
        while not stop.is_set():
            rows = accepted_rows(shop.ws, RECENT)
            # Only the doubled amounts of the table that readers were shown first are 46 or more on every day.
            seen.append(("note" in rows.columns, frozenset(rows["amount"] >= 46)))

    reader = threading.Thread(target=reads)
    reader.start()
    try:
        act_id = shop.cut_over()
        table_acts.undo(shop.ws, act_id, by="cara", reason="second thoughts")
        shop.cut_over()
    finally:
        stop.set()
        reader.join()
    assert set(seen) <= {(False, frozenset({True})), (True, frozenset({False}))}
    assert "note" in accepted_rows(shop.ws, RECENT).columns
    assert shadow.status(shop.ws, RECENT).shown == V2


@pytest.mark.long
def test_a_version_that_is_stopped_is_left_alone_until_it_is_started_again(shop: VersionShop) -> None:
    shop.computed(V2, OUTPUT)
    act = shadow.stop(shop.ws, V2, by="ana", reason="no time for it").act
    assert (act.waits, version(shop).is_kept_up) == (False, False)
    lands(shop, "eleventh.jsonl", DAYS.end)
    assert not any(sentence.startswith(V2) for sentence in shop.lives())
    planned = shadow.start(shop.ws, V2, by="ana", reason="again")
    assert planned is not None
    assert planned.manifest.partitions == (DAYS.last,)
    assert version(shop).is_kept_up

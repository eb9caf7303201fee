"""A declaration is corrected: landed files are read anew, their days are built again, and dependents are stale."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill_assets.application.land import land_files
from backfill_assets.application.land_again import land_again, preview_again
from backfill_assets.application.look import stale
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.domain import Csv
from backfill_assets.planning.partitions import DayRange
from backfill_assets.report.command_line import words_of
from backfill_assets.report.screens import page_of
from backfill_assets.report.status import status
from backfill_assets.upkeep.errors import ReadAnew
from backfill_assets.workspace import Workspace
from backfill_assets_tests.domains.example import DOMAIN, recent_sales, sales
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.shop import RECENT, SALES, Shop, open_shop, ticking_clock, usual_sales

ANA = Acting(by="ana", recorder=Unrecorded())
FIFTH = date(2026, 1, 5)
DAYS = DayRange.inclusive(date(2026, 1, 3), date(2026, 1, 9))


def declared(shop: Shop, dialect: Csv) -> Workspace:
    """The workspace of the shop, whose sales are in a dialect."""
    source = replace(sales, reads=dialect)
    table = replace(recent_sales, inputs={"sales": source})
    again = replace(shop.ws, domain=replace(DOMAIN, sources=(source,), derived=(table,)))
    again.__dict__["ledger"] = shop.ws.ledger
    return again


@pytest.fixture
def shop(tmp_path: Path, spark: SparkSession) -> Iterator[Shop]:
    shop = open_shop(tmp_path, clock=ticking_clock(datetime(2026, 1, 20, tzinfo=UTC)), spark=spark)
    yield shop
    shop.ws.close()


def sheet(shop: Shop, *more: str) -> Path:
    rows = [f"{each['sale_id']};{each['sold_at']};{each['amount']}" for each in usual_sales()]
    path = shop.folder / "sales.txt"
    path.write_text("\n".join(["sale_id;sold_at;amount", *rows, *more, ""]), encoding="utf-8")
    return path


@pytest.mark.long
def test_a_corrected_declaration_is_a_restatement_of_what_landed(shop: Shop) -> None:
    early = declared(shop, Csv(delimiter=";"))
    late_sale = f"late;{FIFTH}T12:00:00Z; 100 "
    landed = land_files(early, "sales", [sheet(shop, late_sale)], ANA, on_duplicate="ignore", builds=True)
    (first,) = landed.imports
    assert (first.record.counts.landed, first.record.counts.rejected) == (11, 1)
    assert landed.load is not None
    published = replace(shop, ws=early).published(DAYS)
    assert stale(early, None, None).read_before == ()
    now = declared(shop, Csv(delimiter=";", trim=True))
    found = stale(now, None, None)
    assert not found.is_stale
    (before,) = found.read_before
    assert (before.source, before.imports) == (SALES, (first.record.import_id,))
    assert words_of(before.again) == "backfill land sales --again-as-declared --dry-run"
    assert status(now).read_before == found.read_before
    assert "1 landed file of bronze.sales was read by an earlier declaration" in str(page_of(found))
    known = land_files(now, "sales", [shop.folder / "sales.txt"], ANA, on_duplicate="ignore", builds=False)
    (only,) = map(words_of, known.next_steps)
    assert only.endswith(f"backfill land sales --again-as-declared --imports {first.record.import_id} --by NAME")
    (expected,) = preview_again(now, "sales", []).imports
    assert (expected.landed, expected.rejected, expected.landed_now, expected.rejected_now) == (11, 1, 11, 0)
    again = land_again(now, "sales", [], ANA, builds=True)
    (anew,) = again.imports
    assert (anew.record.import_id, anew.record.counts.rejected) == (first.record.import_id, 0)
    after = stale(now, None, None)
    assert after.read_before == ()
    (recent,) = (each for each in after.tables if each.table == RECENT)
    assert FIFTH in recent.partitions and date(2026, 1, 9) not in recent.partitions
    assert again.load is not None
    with pytest.raises(ReadAnew, match="as an earlier declaration read it"):
        operations.reproduce(now, landed.load.run.record.run_id, by="rita")
    assert operations.reproduce(now, again.load.run.record.run_id, by="rita", from_raw=True).identical
    assert operations.reproduce(now, published, by="rita").identical
    assert land_again(now, "sales", [], ANA, builds=True).imports == ()

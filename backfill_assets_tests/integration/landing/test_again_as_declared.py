"""A declaration is corrected: landed files are read anew, their days are built again, and dependents are stale."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill_assets.application.land import land_files
from backfill_assets.application.land_again import land_again, preview_again
from backfill_assets.application.look import stale
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.application.statements import land_as_extract
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.errors import MissingInput
from backfill_assets.domain import Csv
from backfill_assets.landing.extract import Extract
from backfill_assets.report.command_line import words_of
from backfill_assets.report.pages import page_of
from backfill_assets.report.status import status
from backfill_assets.upkeep import reproduce
from backfill_assets.upkeep.errors import ReproducedOtherwise
from backfill_assets.workspace import Workspace
from backfill_assets_tests.domains.example import DOMAIN, recent_sales, sales
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import has_code
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
def test_a_corrected_declaration_is_a_restatement_of_what_landed(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
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
    with pytest.raises(ReproducedOtherwise, match=f"was computed from {first.record.import_id} .* as its source was"):
        operations.reproduce(now, landed.load.run.record.run_id, by="rita", from_raw=True)
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
    with pytest.raises(MissingInput, check=has_code("read_anew"), match="as an earlier declaration read it"):
        operations.reproduce(now, landed.load.run.record.run_id, by="rita")
    with monkeypatch.context() as of_earlier_release, pytest.raises(MissingInput, check=has_code("read_anew")):
        of_earlier_release.setattr(reproduce, "are_comparable", lambda _was, _now: False)
        operations.reproduce(now, landed.load.run.record.run_id, by="rita")
    assert operations.reproduce(now, again.load.run.record.run_id, by="rita", from_raw=True).identical
    assert operations.reproduce(now, published, by="rita").identical
    assert land_again(now, "sales", [], ANA, builds=True).imports == ()


@pytest.mark.long
def test_what_files_would_give_is_judged_by_the_present(shop: Shop) -> None:
    ws = declared(shop, Csv(delimiter=";"))
    path = sheet(shop, "soon;2026-01-20T09:00:00Z;1")
    (landed,) = land_files(ws, "sales", [path], ANA, on_duplicate="ignore", builds=False).imports
    assert landed.record.counts.rejected == 1
    (expected,) = preview_again(ws, "sales", [landed.record.import_id]).imports
    assert (expected.rejected, expected.rejected_now) == (1, 1)
    tomorrow = declared(shop, Csv(delimiter=";"))
    tomorrow = replace(tomorrow, clock=ticking_clock(datetime(2026, 1, 21, tzinfo=UTC)))
    tomorrow.__dict__["ledger"] = shop.ws.ledger
    (expected,) = preview_again(tomorrow, "sales", [landed.record.import_id]).imports
    assert (expected.landed_now, expected.rejected, expected.rejected_now) == (11, 1, 0)
    assert date(2026, 1, 20) in expected.days


@pytest.mark.long
def test_what_an_extract_lacked_is_stated_anew_by_the_command_that_reading_it_anew_prints(shop: Shop) -> None:
    early, now = declared(shop, Csv(delimiter=";")), declared(shop, Csv(delimiter=";", trim=True))
    land_files(early, "sales", [sheet(shop, f"late;{FIFTH}T12:00:00Z;100")], ANA, on_duplicate="ignore", builds=True)
    path = shop.folder / "fifth.txt"
    path.write_text(f"sale_id;sold_at;amount\n late ;{FIFTH}T12:00:00Z;7\n", encoding="utf-8")
    stated = Extract(days=DayRange.inclusive(FIFTH, FIFTH), where={}, reason="all of it", confirmed_by="bob")
    extract = land_as_extract(early, "sales", [path], stated, ANA, builds=True)
    assert [row["sale_id"] for row in sold_on_the_fifth(shop)] == [" late "]
    again = land_again(now, "sales", [], ANA, builds=True)
    assert sold_on_the_fifth(shop) == []
    (said,) = map(words_of, again.next_steps)
    assert extract.extract is not None and "withdraws what the extract of 2026-01-05..2026-01-05 lacked" in said
    assert said.endswith(f"backfill land sales {path} --replaces 2026-01-05..2026-01-05 --reason WHY --by NAME")
    land_as_extract(now, "sales", [path], stated, ANA, builds=True)
    assert [(row["sale_id"], row["amount"]) for row in sold_on_the_fifth(shop)] == [("late", 7)]


def sold_on_the_fifth(shop: Shop) -> list[Mapping[str, object]]:
    """What readers see of the fifth."""
    rows = shop.ws.lake.open(SALES).to_pyarrow_table().to_pylist()
    return [row for row in rows if row["sold_on"] == FIFTH]

"""What is stale in the shop: after a landed correction, a restatement, a rollback, another version, changed code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.errors import InvalidRange, UnknownName
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.main import app
from backfill_assets.planning.manifest_parts import Cause, Mode
from backfill_assets.planning.request import PlanRequest
from backfill_assets.planning.restatement import NothingToRebuild, PlannedSet, SetRequest
from backfill_assets.report.command_line import words_of
from backfill_assets.report.planned import left_out_documents
from backfill_assets.requests.left_out import why_left_out
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.edited import edit
from backfill_assets_tests.support.ledgers import copy_home
from backfill_assets_tests.support.shop import (
    OUTPUT,
    RECENT,
    SALES,
    Shop,
    WorkIn,
    open_shop,
    sale,
    ticking_clock,
)

Found = list[tuple[str, int, int, str, str]]


@pytest.fixture
def shop(published_shop: Shop) -> Shop:
    return published_shop


def january(number: int) -> date:
    return date(2026, 1, number)


def stale(shop: Shop, table: str | None = None, days: DayRange | None = None) -> Found:
    """Table, first and last day of January, cause, and the days or files that it names."""
    return [
        (
            found.table,
            each.partitions[0].day,
            each.partitions[-1].day,
            str(reason.cause),
            ", ".join(reason.files or [str(some) for some in reason.days or ()]),
        )
        for found in operations.stale_tables(shop.ws, table=table, days=days)
        for each in found.ranges
        for reason in each.reasons
    ]


def land_only(shop: Shop, name: str, *records: Mapping[str, object]) -> str:
    """Lands a file and builds nothing."""
    path = shop.folder / name
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    landed = operations.land(shop.ws, SALES, path, on_duplicate=OnDuplicate.IGNORE, by="ana")
    return landed.record.import_id


@pytest.mark.long
def test_an_earlier_version_is_stale_and_a_restatement_rebuilds_it(shop: Shop) -> None:
    assert stale(shop) == [(RECENT, 3, 9, "VERSION_CHANGED", "")]
    shop.published(DayRange.inclusive(january(5), january(6)))
    assert [each[1:3] for each in stale(shop)] == [(3, 4), (7, 9)]
    run_id = shop.published()
    assert stale(shop) == []
    # Two of its days came out equal, and depend on it now; undone, they depend on the restatement before it.
    operations.rollback(shop.ws, run_id, by="ben", reason="second thoughts")
    assert [each[1:3] for each in stale(shop)] == [(3, 4), (7, 9)]


@pytest.mark.long
def test_an_older_run_that_is_published_late_and_found_equal_leaves_a_fresh_partition_fresh(shop: Shop) -> None:
    shop.published()
    fifth = DayRange.inclusive(january(5), january(5))
    replay = PlanRequest(table=RECENT, days=fifth, reason="replay", by="ana", mode=Mode.REPLAY)
    late = operations.plan(shop.ws, replay).manifest.run_id
    operations.approve(shop.ws, late, by="ben")
    shop.staged(late)
    shop.land("nothing.jsonl", [sale(january(6), amount=0, sale_id="free")])
    assert [each[1:3] for each in stale(shop)] == [(5, 8)]
    shop.published()
    assert stale(shop) == []
    shop.publish(late)
    with shop.ws.ledger.read() as reader:
        (found,) = reader.publications.records(run_id=late)
        (basis,) = [each for each in reader.bases.of_accepted([RECENT]).bases[RECENT] if each.run_id == late]
    assert (found.changes, basis.partitions) == ((), (january(5),))
    assert stale(shop) == []


@pytest.mark.long
def test_a_correction_is_stale_first_in_bronze_and_then_where_windows_reach_it(shop: Shop) -> None:
    shop.published()
    correction = land_only(shop, "correction.jsonl", sale(january(6), amount=25))
    assert stale(shop) == [(SALES, 6, 6, "INPUT_CHANGED", correction)]
    run = operations.plan_load(shop.ws, SALES, partitions=None, by="ana", reason="corrected")
    assert run is not None
    shop.staged(run.run_id)
    shop.publish(run.run_id)
    # The window looks two days back and one ahead, so the 6th is read from the 5th on until the 8th.
    assert stale(shop) == [(RECENT, 5, 8, "INPUT_CHANGED", "2026-01-06..2026-01-06")]
    shop.published(DayRange.inclusive(january(5), january(8)))
    assert stale(shop) == []
    operations.rollback(shop.ws, run.run_id, by="ben", reason="the correction was wrong")
    assert stale(shop) == [
        (SALES, 6, 6, "INPUT_CHANGED", correction),
        (RECENT, 5, 8, "INPUT_CHANGED", "2026-01-06..2026-01-06"),
    ]


@pytest.mark.long
def test_days_that_landed_and_were_never_built_are_stale_with_the_empty_ones_between(shop: Shop) -> None:
    late = land_only(shop, "late.jsonl", sale(january(12), sale_id="x"), sale(january(14), sale_id="y"))
    assert stale(shop, SALES) == [(SALES, 12, 14, "INPUT_CHANGED", late)]


@pytest.mark.long
def test_never_built_is_what_could_be_built_of_the_days_that_were_asked_about(shop: Shop) -> None:
    shop.published()
    everything = DayRange.inclusive(january(1), january(10))
    assert stale(shop, RECENT, everything) == []
    with pytest.raises(InvalidRange):
        stale(shop, RECENT, DayRange.inclusive(date(2025, 12, 1), january(3)))
    # Two days back and one ahead of the 10th lie the 8th and the 11th, which now is there; the 1st lacks December.
    shop.land("more.jsonl", [sale(january(11))])
    assert stale(shop, RECENT, everything) == [(RECENT, 10, 10, "NEVER_BUILT", "")]
    assert stale(shop, RECENT) == []


@pytest.mark.long
def test_a_gap_that_was_not_named_is_listed_as_left_out_even_when_nothing_else_is_stale(
    stocked_home: Path, tmp_path: Path, spark: SparkSession
) -> None:
    copy_home(stocked_home, tmp_path / "home")
    shop = open_shop(tmp_path / "home", clock=ticking_clock(NOON + timedelta(hours=2)), spark=spark)
    for first, last in ((3, 4), (6, 9)):
        shop.published(DayRange.inclusive(january(first), january(last)))
    assert stale(shop) == [(RECENT, 5, 5, "NEVER_BUILT", "")]
    planned = operations.plan_set(shop.ws, SetRequest(reason="why not", by="ana", stale=True))
    assert isinstance(planned, NothingToRebuild)
    left_out, waiting = left_out_documents(planned.left_out)
    assert str(left_out.some) == f"{RECENT} 2026-01-05, 1 day"
    assert (str(waiting.some), why_left_out(waiting.some)) == (
        f"{RECENT} 2026-01-10, 1 day",
        f"never built: {SALES} lacks 2026-01-11, 1 day",
    )
    named = SetRequest(
        reason="why not", by="ana", stale=True, table=RECENT, days=DayRange.inclusive(january(5), january(5))
    )
    assert words_of(left_out.include) == (
        f"backfill plan stale {RECENT} --from 2026-01-05 --to 2026-01-05 --reason WHY --by NAME"
    )
    included = operations.plan_set(shop.ws, named)
    assert isinstance(included, PlannedSet)
    assert [rebuild.partitions for rebuild in included.rebuilds] == [(january(5),)]
    shop.ws.close()


def test_changed_code_under_the_same_version_is_said_to_be_an_error(shop: Shop) -> None:
    shop.published()

    ws = edit(replace(shop.ws))
    edited = replace(shop, ws=ws)
    assert stale(edited) == [(RECENT, 3, 9, str(Cause.CODE_CHANGED), "")]
    ws.close()


def test_an_undeclared_table_is_refused(shop: Shop) -> None:
    with pytest.raises(UnknownName):
        stale(shop, "silver.nothing")


def test_the_command_says_what_is_stale_and_what_to_do(shop: Shop, work_in: WorkIn) -> None:
    shop.ws.ledger.close()
    work_in(shop.ws.settings.home)
    text = CliRunner().invoke(app, ["stale"])
    assert text.exit_code == 0
    assert "2026-01-03..2026-01-09, 7 days" in text.stdout
    assert "computed by recent-sales 0.9.0; now it is recent-sales 1.0.0" in text.stdout
    assert "next: backfill plan stale --reason WHY --by NAME" in text.stdout
    answer = CliRunner().invoke(app, ["stale", "recent_sales", "--from", "2026-01-04", "--to", "2026-01-05", "--json"])
    document: dict[str, Any] = json.loads(answer.stdout)
    assert document["is_stale"] is True
    step = f"backfill plan stale {RECENT} --from 2026-01-04 --to 2026-01-05 --reason WHY --by NAME"
    assert document["next_steps"] == [step]
    (table,) = document["tables"]
    (found,) = table["ranges"]
    assert found["partitions"] == {"ranges": ["2026-01-04..2026-01-05"], "count": 2}
    assert [reason["cause"] for reason in found["reasons"]] == ["VERSION_CHANGED"]
    fresh = CliRunner().invoke(app, ["stale", SALES])
    assert (fresh.exit_code, fresh.stdout) == (0, "nothing is stale: 10 accepted partitions looked at\n")
    assert CliRunner().invoke(app, ["stale", "--from", "2026-01-04"]).exit_code == 1
    assert DayRange.inclusive(january(3), january(9)) == OUTPUT

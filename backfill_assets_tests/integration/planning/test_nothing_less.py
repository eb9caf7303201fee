"""A plan that is smaller than what was asked for says so, and is refused where a person named the days."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.main import app
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.support.ledgers import copy_home
from backfill_assets_tests.support.month import TOTALS
from backfill_assets_tests.support.shop import RECENT, SALES, Shop, WorkIn, open_shop, sale, ticking_clock

BY = ("--reason", "why not", "--by", "ana", "--json")


def january(number: int) -> date:
    return date(2026, 1, number)


@pytest.fixture
def shop(stocked_home: Path, tmp_path: Path, spark: SparkSession, work_in: WorkIn) -> Iterator[Shop]:
    """Sales of ten days, the 4th to the 6th published in silver; and sales from the 15th to the 17th."""
    copy_home(stocked_home, tmp_path / "home")
    found = open_shop(tmp_path / "home", clock=ticking_clock(NOON + timedelta(days=30)), spark=spark)
    found.land("more.jsonl", [sale(january(day)) for day in (15, 16, 17)])
    found.published(DayRange.inclusive(january(4), january(6)))
    work_in(found.ws.settings.home)
    yield found
    found.ws.close()


def backfill(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def planned(*words: str) -> Mapping[str, Any]:
    answer = backfill("plan", *words, *BY)
    assert answer.exit_code == 0, answer.output
    document: dict[str, Any] = json.loads(answer.stdout)
    return document


def refused(shop: Shop, *words: str) -> str:
    """The sentence of a refusal, after which the ledger has no more runs than before."""
    before = runs_of(shop)
    answer = backfill("plan", *words, *BY)
    assert answer.exit_code == 1
    assert runs_of(shop) == before
    error: dict[str, Any] = json.loads(answer.stdout)["error"]
    return f"{error['message']} {error['next_step']}"


def runs_of(shop: Shop) -> Sequence[str]:
    with shop.ws.ledger.read() as tx:
        return [run.run_id for run in tx.runs.records()]


def left_out(document: Mapping[str, Any]) -> list[tuple[str, list[str], bool]]:
    return [(each["table"], each["partitions"]["ranges"], each["is_asked"]) for each in document["left_out"]]


def test_a_range_of_which_a_part_lacks_its_input_is_refused_and_counted(shop: Shop) -> None:
    words = ("stale", RECENT, "--from", "2026-01-04", "--to", "2026-01-17")
    sentence = refused(shop, *words)
    # The 7th to the 9th can be built; the 10th, and the 11th to the 17th, read days that never landed.
    assert sentence.startswith("3 of 11 partitions asked for can be planned.")
    assert "silver.recent_sales 2026-01-10..2026-01-17, 8 days: never built: bronze.sales lacks 2026-01-11" in sentence
    assert "--partial" in sentence
    document = planned(*words, "--partial")
    assert (document["planned_partitions"], document["asked_partitions"]) == (3, 11)
    assert left_out(document) == [(RECENT, ["2026-01-10..2026-01-17"], True)]
    assert "3 of 11 partitions asked for" in backfill("plan", *words, "--partial", *BY[:-1]).stdout


def test_nothing_of_a_named_range_is_no_success(shop: Shop) -> None:
    words = ("stale", RECENT, "--from", "2026-01-11", "--to", "2026-01-14")
    assert refused(shop, *words).startswith("0 of 4 partitions asked for can be planned.")
    document = planned(*words, "--partial")
    assert (document["set_id"], document["asked_partitions"]) == (None, 4)
    assert "nothing is planned: 0 of 4 partitions asked for" in backfill("plan", *words, "--partial", *BY[:-1]).stdout


def test_without_days_what_was_never_built_is_listed_with_what_it_lacks(shop: Shop) -> None:
    document = planned("stale", RECENT)
    assert left_out(document) == [
        (RECENT, ["2026-01-07..2026-01-09"], False),
        (RECENT, ["2026-01-10..2026-01-17"], False),
    ]
    gold = planned("stale", TOTALS)
    assert (gold["set_id"], left_out(gold)) == (None, [])


@pytest.mark.long
def test_a_month_that_was_never_built_says_which_days_of_silver_it_lacks(shop: Shop) -> None:
    shop.land("rest.jsonl", [sale(january(day)) for day in (*range(11, 15), *range(18, 32))])
    document = planned("stale", TOTALS)
    ((table, ranges, _),) = left_out(document)
    assert (table, ranges) == (TOTALS, ["2026-01"])
    assert [each["table"] for each in document["left_out"][0]["missing"]] == ["silver.recent_sales"]


def test_days_that_are_named_as_changed_and_do_not_exist_are_refused(shop: Shop) -> None:
    words = ("because", f"{SALES}:2026-01-05..2026-01-12")
    sentence = refused(shop, *words)
    assert "bronze.sales 2026-01-11..2026-01-12, 2 days: named as changed, and has no accepted version" in sentence
    # The 7th to the 9th depend on these days, can be built, and never were.
    assert "silver.recent_sales 2026-01-07..2026-01-09, 3 days: depends on these days, and was never built" in sentence
    document = planned(*words, "--partial")
    assert (document["planned_partitions"], document["asked_partitions"]) == (3, 8)


def test_the_list_of_what_is_stale_says_what_waits_and_advises_what_can_be_planned(shop: Shop) -> None:
    answer = backfill("stale", RECENT, "--from", "2026-01-04", "--to", "2026-01-12", "--json")
    document = json.loads(answer.stdout)
    (table,) = document["tables"]
    assert table["waiting"] == {"ranges": ["2026-01-10..2026-01-12"], "count": 3}
    assert [each["table"] for each in table["waits_for"]] == ["bronze.sales"]
    (advice,) = document["next_steps"]
    assert "--partial" in advice
    text = backfill("stale", RECENT, "--from", "2026-01-10", "--to", "2026-01-12").stdout
    assert "never built, and waiting for inputs: silver.recent_sales 2026-01-10..2026-01-12, 3 days" in text


def test_a_part_of_one_table_is_planned_where_that_is_asked_for(shop: Shop) -> None:
    words = ("table", RECENT, "--from", "2026-01-07", "--to", "2026-01-12")
    assert "needs input days that have never been built" in refused(shop, *words)
    document = planned(*words, "--partial")
    assert document["output"] == {"ranges": ["2026-01-07..2026-01-09"], "count": 3}
    assert (document["left_out"]["ranges"], document["asked_partitions"]) == (["2026-01-10..2026-01-12"], 6)
    assert [each["table"] for each in document["lacks"]] == ["bronze.sales"]

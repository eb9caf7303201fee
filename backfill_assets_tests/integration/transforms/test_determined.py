"""Rows that would be others tomorrow, or by another value of a module, are not planned, not staged and not measured."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.core.errors import ContractBroken
from backfill_assets.domain.errors import CodeBroken, PlannedOtherwise
from backfill_assets.ledger.states import RunState
from backfill_assets.report.command_line import explained
from backfill_assets.testing import DomainKit
from backfill_assets.transforms.errors import NotDetermined
from backfill_assets.upkeep.check import check
from backfill_assets_tests.support import operations

NAME = "clock_shop"
DAYS = "2026-01-02..2026-01-05"
SHOP = """
import os
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType, TimestampType
from backfill_assets.domain import Domain, SourceTable, daily, derived_table
T = int(os.environ["CLOCK_SHOP_T"])
COUNT = 0
sales = SourceTable(
    name="bronze.sales", key=("sale_id",), event_time="sold_at", partition=daily("sold_on"),
    schema=StructType([StructField("sale_id", StringType(), False), StructField("sold_at", TimestampType(), False)]),
)
{top}
@derived_table(
    name="silver.days", inputs={{"sales": sales}}, key=("sold_on", "n"), partition=daily("sold_on"), version="1.0.0",
    {declared}
    schema=StructType([StructField("sold_on", DateType(), False), StructField("n", LongType(), False)]),
)
def days(sales, ctx):
    {body}
DOMAIN = Domain(name="clock_shop", package=__name__, sources=(sales,), derived=(days,))
"""
COUNTED = 'return sales.groupBy("sold_on").agg((F.count("*") * {times}).alias("n"))'


class Clocks:
    """Opens homes of domains that are written by a test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kits: list[DomainKit] = []

    def open(self, body: str, *, top: str = "", declared: str = "") -> DomainKit:
        text = SHOP.format(top=top, declared=declared, body=body.replace("\n", "\n    "))
        (self.folder / f"{NAME}.py").write_text(text, encoding="utf-8")
        sys.modules.pop(NAME, None)
        importlib.invalidate_caches()
        kit = DomainKit.open(NAME, self.folder / f"home-{len(self.kits)}", first_day=date(2026, 1, 1))
        self.kits.append(kit)
        kit.land("sales", [{"sale_id": str(n), "sold_at": f"2026-01-0{2 + n % 4}T10:00:00Z"} for n in range(12)])
        return kit


@pytest.fixture
def clocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Clocks]:
    monkeypatch.setenv("CLOCK_SHOP_T", "1")
    monkeypatch.syspath_prepend(str(tmp_path))
    opened = Clocks(tmp_path)
    yield opened
    for kit in opened.kits:
        kit.close()
    sys.modules.pop(NAME, None)


@pytest.mark.long
def test_a_clock_is_refused_before_anything_is_planned_or_computed(clocks: Clocks) -> None:
    kit = clocks.open('return sales.where("sold_on < current_date()").groupBy("sold_on").agg(F.count("*").alias("n"))')
    with pytest.raises(
        NotDetermined, match=rf"silver\.days uses current_date\(\) in .*{NAME}\.py, line \d+"
    ) as refused:
        kit.planned("days", DAYS)
    assert "from an input, a reference or the context" in explained(refused.value)
    with pytest.raises(NotDetermined):
        kit.compute("days", kit.inputs("days"), DAYS)
    with kit.ws.ledger.read() as tx:
        assert {each.table for each in tx.runs.headers(limit=10)} == {"bronze.sales"}
    (checked,) = (each for each in check(kit.ws).tables if each.table == "silver.days")
    assert "current_date()" in checked.problems[0]


@pytest.mark.long
def test_what_names_do_not_show_is_in_sparks_plan_and_refused_before_rows_are_computed(clocks: Clocks) -> None:
    clock = 'clock = getattr(F, "_".join(["current", "date"]))\n'
    kit = clocks.open(clock + COUNTED.format(times="F.day(clock())"))
    run_id = kit.planned("days", DAYS)
    kit.approve(run_id)
    with pytest.raises(CodeBroken, match=r"describes rows by current_date\(\): it asks the clock"):
        kit.stage(run_id)
    with kit.ws.ledger.read() as tx:
        assert not tx.candidates.of_run(run_id)


@pytest.mark.long
def test_a_run_is_computed_and_measured_with_the_values_that_were_approved_alone(clocks: Clocks) -> None:
    kit = clocks.open(COUNTED.format(times="F.lit(T)"))
    module: Any = sys.modules[NAME]
    run_id = kit.planned("days", DAYS)
    kit.approve(run_id)
    module.T = 3
    with pytest.raises(PlannedOtherwise, match="with the values of their names"):
        kit.stage(run_id)
    with kit.ws.ledger.read() as tx:
        assert not tx.candidates.of_run(run_id)
    module.T = 1
    kit.stage(run_id)
    module.T = 3
    with pytest.raises(PlannedOtherwise):
        kit.gate(run_id)
    assert operations.state_of(kit.ws, run_id) is RunState.STAGED
    module.T = 1
    kit.gate(run_id)
    kit.publish(run_id)
    assert {row["n"] for row in kit.rows("days")} == {3}
    # With another value the table is stale, as after an edit.
    module.T = 3
    again = kit.published("days", DAYS)
    assert operations.state_of(kit.ws, again) is RunState.PUBLISHED
    assert {row["n"] for row in kit.rows("days")} == {9}


@pytest.mark.long
def test_a_function_that_changes_what_its_module_holds_is_not_staged(clocks: Clocks) -> None:
    kit = clocks.open(f"global COUNT\nCOUNT += 1\n{COUNTED.format(times='F.lit(COUNT)')}")
    run_id = kit.planned("days", DAYS)
    with pytest.raises(ContractBroken, match="with the values of their names"):
        kit.stage(run_id)


@pytest.mark.long
def test_rows_that_depend_on_the_number_of_tasks_are_blocked(clocks: Clocks) -> None:
    body = (
        "import pandas as pd\n"
        "def rows_of_a_task(batches):\n"
        "    days = [day for batch in batches for day in batch['sold_on']]\n"
        "    if days:\n"
        "        yield pd.DataFrame({'sold_on': days, 'n': [len(days)] * len(days)})\n"
        "counted = sales.groupBy('sold_on').count()\n"
        "return counted.mapInPandas(rows_of_a_task, 'sold_on date, n long')"
    )
    declared = 'undetermined={"mapInPandas with rows_of_a_task": "each row stands for itself"},'
    kit = clocks.open(body, declared=declared)  # which is not true
    run_id = kit.planned("days", DAYS)
    kit.stage(run_id)
    kit.gate(run_id)
    assert operations.state_of(kit.ws, run_id) is RunState.BLOCKED

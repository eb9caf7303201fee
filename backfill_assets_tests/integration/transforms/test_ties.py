"""Rows that depend on an order that nothing decides are refused with their line, or declared with a reason."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from backfill_assets.application.plan import described_plan
from backfill_assets.domain.context import frame_of
from backfill_assets.domain.errors import CodeBroken, PlannedOtherwise
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.request import PlanRequest
from backfill_assets.report.markdown import markdown_page
from backfill_assets.report.pages import page_of
from backfill_assets.report.report import run_report
from backfill_assets.testing import DomainKit
from backfill_assets.testing.kit import in_days
from backfill_assets.transforms.spark_plan import require_determined_plan
from backfill_assets.upkeep.check import check
from backfill_assets_tests.integration.transforms.test_determined import DAYS, NAME, Clocks
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.ties_tried import ALLOWED, KEYS, sales_of, shops_of

WHAT = "first as n"
REASON = "all numbers have one length"
DECLARED = f"undetermined={{{WHAT!r}: {REASON!r}}},"


@pytest.fixture
def clocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Clocks]:
    monkeypatch.setenv("CLOCK_SHOP_T", "1")
    monkeypatch.syspath_prepend(str(tmp_path))
    opened = Clocks(tmp_path)
    yield opened
    for kit in opened.kits:
        kit.close()
    sys.modules.pop(NAME, None)


def first(*, made: str = "F.length(F.first('sale_id')).cast('long')") -> str:
    return f'counted = sales.groupBy("sold_on")\nreturn counted.agg(\n    {made}.alias("n"),\n)'


def line_of(kit: DomainKit, mark: str) -> int:
    text = Path(str(sys.modules[NAME].__file__)).read_text(encoding="utf-8")
    return next(number for number, line in enumerate(text.splitlines(), start=1) if mark in line)


def test_a_tie_is_refused_before_rows_are_computed_with_its_line_and_what_to_write(clocks: Clocks) -> None:
    kit = clocks.open(first())
    run_id = kit.planned("days", DAYS)
    with pytest.raises(CodeBroken) as refused:
        kit.stage(run_id)
    said = refused.value.message
    assert f"describes rows by {WHAT}: nothing decides which of the rows of a group is the first" in said
    assert f"{NAME}.py, line {line_of(kit, 'F.first')};" in said
    assert "write max_by(..., struct(...))" in said
    assert f"declare undetermined={{{WHAT!r}: " in said
    with kit.ws.ledger.read() as tx:
        assert not tx.candidates.of_run(run_id)
    (checked,) = (each for each in check(kit.ws).tables if each.table == "silver.days")
    assert WHAT in checked.problems[0]


@pytest.mark.long
def test_a_tie_that_no_line_calls_by_its_name_is_refused_with_the_line_of_its_function(clocks: Clocks) -> None:
    body = "firsts = sales.groupBy('sold_on').agg({'sale_id': 'first'})"
    kit = clocks.open(f"{body}\nreturn firsts.select('sold_on', F.length('first(sale_id)').cast('long').alias('n'))")
    (checked,) = (each for each in check(kit.ws).tables if each.table == "silver.days")
    assert f"{NAME}.py, line {line_of(kit, '@derived_table(')}; write max_by" in checked.problems[0]


def test_a_declared_tie_is_pinned_with_its_reason_and_shown_to_whoever_approves(clocks: Clocks) -> None:
    kit = clocks.open(first(), declared=DECLARED)
    days = in_days(DAYS)
    request = PlanRequest(table="silver.days", days=days, reason="x", by="ana")
    plan = operations.plan(kit.ws, request)
    shown = f"Nothing decides {WHAT}, and its author declares why that does not matter: {REASON}"
    assert shown in markdown_page(page_of(described_plan(kit.ws, plan)))
    run_id = plan.manifest.run_id
    kit.approve(run_id)
    kit.stage(run_id)
    kit.gate(run_id)
    assert operations.state_of(kit.ws, run_id) is RunState.PASSED
    with kit.ws.ledger.read() as tx:
        assert REASON in tx.runs.get(run_id).manifest.text
    assert shown in markdown_page(page_of(run_report(kit.ws, run_id)))


@pytest.mark.long
def test_another_reason_is_another_declaration_than_the_planned_one(clocks: Clocks) -> None:
    kit = clocks.open(first(), declared=DECLARED)
    run_id = kit.planned("days", DAYS)
    table = kit.ws.domain.derived_table("silver.days")
    object.__setattr__(table, "undetermined", {WHAT: "nobody reads it"})
    with pytest.raises(PlannedOtherwise):
        kit.stage(run_id)


@pytest.mark.long
def test_a_declared_tie_that_there_is_not_is_refused(clocks: Clocks) -> None:
    kit = clocks.open(first(made='F.count("*")'), declared=DECLARED)
    run_id = kit.planned("days", DAYS)
    with pytest.raises(CodeBroken, match=r"declares undetermined=.*and nothing in its rows is: take it out"):
        kit.stage(run_id)


@pytest.mark.long
def test_floating_point_sums_are_named_by_plan_report_and_check(clocks: Clocks) -> None:
    kit = clocks.open(
        "sales = sales.withColumn('half', F.lit(0.5).cast('double'))\n" + first(made="F.sum('half').cast('long')")
    )
    plan = operations.plan(kit.ws, PlanRequest(table="silver.days", days=in_days(DAYS), reason="x", by="ana"))
    assert plan.manifest.inexact == ()  # no name says that `half` is one, and Spark's plan does
    (checked,) = (each for each in check(kit.ws).tables if each.table == "silver.days")
    assert [(each.name, each.column) for each in checked.added_doubles] == [("sum", "n")]
    assert checked.problems == ()
    assert "n is a sum of floating-point numbers" in markdown_page(page_of(check(kit.ws)))


# ----------------------------------------------------------------------------- what is allowed gives equal rows

NAMES = ("a", "b")
TIED = [(n, NAMES[n % 2], n % 3, float(n % 4), "xyz"[n % 3] if n % 5 else None, [n % 2, n % 3]) for n in range(24)]
TOWNS = [("a", "Rome", True), ("c", "Oslo", False)]


def arranged(session: SparkSession, chance: random.Random) -> tuple[DataFrame, DataFrame]:
    """The same rows in another order, in other tasks."""
    session.conf.set("spark.sql.shuffle.partitions", str(chance.randint(1, 5)))
    rows = [*TIED]
    chance.shuffle(rows)
    sales = sales_of(session, rows).repartition(chance.randint(1, 6))
    return sales.alias("input sales"), shops_of(session, TOWNS)


def rows_of(frame: DataFrame) -> Counter[str]:
    return Counter(map(repr, frame.collect()))


def differ(session: SparkSession, form: Any, *, times: int = 3) -> bool:
    before = session.conf.get("spark.sql.shuffle.partitions")
    try:
        found = [rows_of(form(*arranged(session, random.Random(n)))) for n in range(times)]
    finally:
        session.conf.set("spark.sql.shuffle.partitions", str(before))
    return any(each != found[0] for each in found)


SOME = tuple(sorted(ALLOWED))[::9]


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=() if each in SOME else pytest.mark.long) for each in ALLOWED]
)
def test_what_is_allowed_gives_equal_rows_from_rows_in_any_order(spark: SparkSession, name: str) -> None:
    assert not differ(spark, ALLOWED[name])


COLUMNS = ("sale_id", "shop", "amount", "note")


def generated(chance: random.Random) -> tuple[str, Any]:
    """A small transform of some steps, with its text."""
    said: list[str] = []
    partition, order = (
        chance.sample(COLUMNS[1:], chance.randint(0, 2)),
        chance.sample(COLUMNS, chance.randint(1, 3)),
    )
    kept = chance.sample(COLUMNS, chance.randint(1, 4))
    start = chance.choice(("rows", "join", "left", "several", "union", "groups", "firsts", "days", "few"))
    made = chance.choice(
        (
            *("row_number", "lag", "first", "last", "collect_list", "sum of rows", "rank", "limit", "dropDuplicates"),
            *("agg first", "agg list", "agg sorted", "agg max_by", "agg max_by all"),
        )
    )
    end = chance.choice(("all", "kept", "chosen", "counted"))
    said = [start, made, f"by {partition} in {order}", f"{end} of {kept}"]

    def form(sales: DataFrame, shops: DataFrame) -> DataFrame:
        rows = _started(start, sales, shops)
        window = Window.partitionBy(*partition).orderBy(*order)
        over: dict[str, Column] = {
            "row_number": F.row_number().over(window),
            "lag": F.lag("note").over(window),
            "first": F.first("note").over(window),
            "last": F.last("amount").over(window),
            "collect_list": F.collect_list("note").over(window),
            "sum of rows": F.sum("amount").over(window.rowsBetween(-1, 0)),
            "rank": F.rank().over(window),
        }
        groups: dict[str, Column] = {
            "agg first": F.first("note"),
            "agg list": F.collect_list("note"),
            "agg sorted": F.sort_array(F.collect_list("note")),
            "agg max_by": F.max_by("note", F.struct(*order)),
            "agg max_by all": F.max_by("note", F.struct(*order, "note")),
        }
        if made in groups:
            return rows.groupBy(*partition).agg(groups[made].alias("v"))
        if made == "limit":
            rows = rows.orderBy(*order).limit(3).withColumn("v", F.lit(1))
        elif made == "dropDuplicates":
            rows = rows.dropDuplicates(partition or ["shop"]).withColumn("v", F.lit(1))
        else:
            rows = rows.withColumn("v", over[made])
        return _ended(end, rows, kept)

    return "; ".join(said), form


def _started(start: str, sales: DataFrame, shops: DataFrame) -> DataFrame:
    match start:
        case "join" | "left":
            return sales.join(shops, "shop", "inner" if start == "join" else "left").select(*COLUMNS)
        case "several":
            others = sales.select(F.col("shop").alias("of"), F.col("sale_id").alias("other"))
            return sales.join(others, F.expr("shop = of and other < 4")).select(
                F.col("other").alias("sale_id"), "shop", "amount", "note"
            )
        case "union":
            return sales.select(*COLUMNS).union(sales.select("sale_id", F.lit("c"), "amount", "note"))
        case "groups":
            return sales.groupBy("shop", "note").agg(F.sum("amount").alias("amount"), F.min("sale_id").alias("sale_id"))
        case "days":
            days = frame_of(sales.sparkSession, [(n,) for n in range(3)], "day int")
            return sales.join(days, F.expr("amount <= day")).select(
                "sale_id", "shop", F.col("day").alias("amount"), "note"
            )
        case "few":
            return sales.where("amount <= 2").select(*COLUMNS)
        case "firsts":
            newest = Window.partitionBy("shop", "amount").orderBy(F.desc("sale_id"))
            return sales.withColumn("n", F.row_number().over(newest)).where("n = 1").select(*COLUMNS)
        case _:
            return sales.select(*COLUMNS)


def _ended(end: str, rows: DataFrame, kept: Sequence[str]) -> DataFrame:
    match end:
        case "kept":
            return rows.select(*kept, "v")
        case "chosen":
            return rows.where(F.col("v").isNotNull() & (F.length(F.col("v").cast("string")) == 1)).select(*kept)
        case "counted":
            return rows.groupBy(*kept).count()
        case _:
            return rows


def is_refused(session: SparkSession, form: Any) -> bool:
    try:
        require_determined_plan(form(sales_of(session), shops_of(session)), "a function", keys=KEYS)
    except CodeBroken:
        return True
    return False


def missed(session: SparkSession, seeds: Sequence[int]) -> tuple[list[str], Counter[bool]]:
    found, counted = [], Counter[bool]()
    for seed in seeds:
        said, form = generated(random.Random(seed))
        refused = is_refused(session, form)
        counted[refused] += 1
        if not refused and differ(session, form):
            found.append(f"{seed}: {said}")
    return found, counted


def test_no_generated_transform_whose_rows_differ_is_allowed(spark: SparkSession) -> None:
    found, _ = missed(spark, range(12))
    assert found == []


@pytest.mark.long
def test_no_generated_transform_of_many_whose_rows_differ_is_allowed(spark: SparkSession) -> None:
    found, counted = missed(spark, range(12, 252))
    assert found == []
    assert min(counted.values()) > 60

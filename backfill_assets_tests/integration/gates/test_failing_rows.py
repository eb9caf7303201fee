"""Gates on rows that fail: an author's function or query finds a defect, names it with key and values, and blocks."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from backfill_assets.core.errors import IllegalTransition
from backfill_assets.domain import Failing, GateContext, failing
from backfill_assets.domain.errors import CodeBroken, PlannedOtherwise
from backfill_assets_tests.domains.judged import DAYS, SECOND, failing_of, rows_that_fail
from backfill_assets_tests.integration.gates.conftest import Opens

AS_ORDERED = """
    SELECT t.day, t.order_id, o.amount AS expected, t.amount AS found
    FROM candidate AS t JOIN orders AS o ON o.order_id = t.order_id
    WHERE t.amount <> o.amount -- '{braces}' stay as they are
"""


@failing(demands="every active order of the day is there")
def none_lost(candidate: DataFrame, orders: DataFrame) -> DataFrame:
    active = orders.where("state = 'ACTIVE'").withColumnRenamed("ordered_on", "day")
    lost = active.join(candidate, ["day", "order_id"], "left_anti")
    return lost.select("day", "order_id", sf.lit("a row").alias("expected"))


@pytest.mark.parametrize(
    ("gate", "version", "found"),
    [
        (failing("as_ordered", sql=AS_ORDERED), "dearer", ("as_ordered", "2026-01-03", SECOND, "20.00", "21.00")),
        (none_lost, "lost", ("none_lost", "2026-01-03", SECOND, "a row", None)),
    ],
    ids=["query", "function"],
)
def test_a_gate_of_an_author_names_the_row_that_fails_with_what_was_expected_and_found(
    opens: Opens, gate: Failing, version: str, found: object
) -> None:
    kit = opens(gate)
    assert failing_of(kit) == []
    assert failing_of(kit, version=version) == [found]


def test_a_run_with_a_row_that_fails_is_blocked_and_one_of_other_days_is_not(opens: Opens) -> None:
    kit = opens(none_lost)
    run_id = kit.planned("order_totals", DAYS, version="lost")
    kit.approve(run_id)
    kit.stage(run_id)
    assert kit.gate(run_id).failed == ("none_lost",)
    with pytest.raises(IllegalTransition, match="it is BLOCKED"):
        kit.publish(run_id)
    kit.published("order_totals", "2026-01-04", version="lost")


def every_row(candidate: DataFrame) -> DataFrame:
    """Nothing may be there."""
    return candidate


def test_a_function_may_return_whole_rows_of_which_the_first_five_are_shown(opens: Opens) -> None:
    kit = opens(failing("nothing", rows=every_row, blocking=False))
    run_id = kit.planned("order_totals", DAYS)
    kit.stage(run_id)
    assert kit.gate(run_id).warned == ("nothing",)
    shown = rows_that_fail(kit, run_id)
    assert [(day, key["order_id"]) for _, day, key, _, _ in shown] == [
        ("2026-01-02", "o-2-1"),
        ("2026-01-02", "o-2-2"),
        ("2026-01-02", "o-2-3"),
        ("2026-01-03", "o-3-1"),
        ("2026-01-03", "o-3-2"),
    ]
    with kit.ws.ledger.read() as tx:
        found = {str(each.partition): each.observed for each in tx.candidates.gate_results(run_id) if not each.passed}
    assert found["2026-01-03"] == {"rows": 3, "failing_rows": 3, "demands": "Nothing may be there"}


def in_context(candidate: DataFrame, ctx: GateContext) -> DataFrame:
    days = ctx.frame([(day,) for day in ctx.output_partitions], f"{ctx.partition} date")
    return days.join(candidate, ctx.partition, "left_anti")


def test_a_function_finds_the_partitions_that_are_measured_in_its_context(opens: Opens) -> None:
    kit = opens(failing("no_day_empty", rows=in_context))
    assert failing_of(kit) == []


def removed(candidate: DataFrame, accepted: DataFrame) -> DataFrame:
    return accepted.join(candidate, ["day", "order_id"], "left_anti")


def test_a_function_is_given_the_accepted_rows_of_the_same_partitions(opens: Opens) -> None:
    kit = opens(failing("none_removed", rows=removed))
    kit.published("order_totals", "2026-01-03")
    assert [found[:3] for found in failing_of(kit, version="lost")] == [("none_removed", "2026-01-03", SECOND)]
    assert failing_of(kit, version="lost", days="2026-01-04") == []


def without_day(candidate: DataFrame) -> DataFrame:
    return candidate.drop("day")


def without_value(candidate: DataFrame) -> DataFrame:
    return candidate.withColumn("day", sf.lit(None).cast("date"))


def as_text(candidate: DataFrame) -> DataFrame:
    return candidate.withColumn("day", sf.col("day").cast("string"))


def counting(candidate: DataFrame) -> DataFrame:
    return candidate.where(sf.lit(candidate.count()) > 100)


def two_of_one_name(candidate: DataFrame) -> DataFrame:
    return candidate.select("*", sf.lit(1).alias("number"))


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (without_day, "the gate broken of silver.order_totals returned rows without the partition column 'day'"),
        (without_value, "the gate broken of silver.order_totals returned rows without a value of 'day'"),
        (as_text, "whose partition column 'day' is string, and has to be date"),
        (two_of_one_name, "returned rows with number twice"),
        (counting, "the gate broken of silver.order_totals runs the action count on a DataFrame"),
        (
            failing("broken", sql="SELECT day, missing FROM candidate"),
            "the gate broken of silver.order_totals failed: ",
        ),
    ],
    ids=["no column", "no value", "no date", "twice", "action", "unknown column"],
)
def test_a_gate_that_cannot_be_counted_stops_the_run_and_records_nothing(
    opens: Opens, function: Callable[..., DataFrame] | Failing, said: str
) -> None:
    kit = opens(function if isinstance(function, Failing) else failing("broken", rows=function))
    run_id = kit.planned("order_totals", DAYS)
    kit.stage(run_id)
    with pytest.raises(CodeBroken, match=said):
        kit.gate(run_id)
    with kit.ws.ledger.read() as tx:
        assert tx.candidates.gate_results(run_id) == ()


LIMIT = 30


def too_dear(candidate: DataFrame) -> DataFrame:
    return candidate.where(f"amount > {LIMIT}")


def test_a_run_is_measured_by_the_code_of_gates_that_it_was_planned_with(
    opens: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = opens(failing("too_dear", rows=too_dear))
    run_id = kit.planned("order_totals", DAYS)
    kit.stage(run_id)
    monkeypatch.setattr(f"{__name__}.LIMIT", 1_000)
    with pytest.raises(PlannedOtherwise, match=r"was planned with other gates .*\(changed: too_dear\)"):
        kit.gate(run_id)
    with kit.ws.ledger.read() as tx:
        manifest = tx.runs.get(run_id).manifest
    assert [gate["name"] for gate in json.loads(manifest.text)["gates"] if "code" in gate] == ["too_dear"]

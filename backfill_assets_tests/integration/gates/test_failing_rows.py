"""Gates on rows that fail: an author's function or query finds a defect, names it with key and values, and blocks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from backfill_assets.application.parts import stages
from backfill_assets.core.errors import IllegalTransition, TargetChanged
from backfill_assets.domain import Failing, GateContext, Window, failing, reads
from backfill_assets.domain.errors import CodeBroken, PlannedOtherwise
from backfill_assets.report.what_next import next_step
from backfill_assets.report.words.stages import stage_words
from backfill_assets.report.words.verdicts import verdict_words
from backfill_assets.requests.authority import demand_of
from backfill_assets.testing import DomainKit
from backfill_assets_tests.domains.judged import DAYS, SECOND, a_customer, customers, failing_of, rows_that_fail
from backfill_assets_tests.integration.gates.conftest import Opens
from backfill_assets_tests.support.advice import worded
from backfill_assets_tests.support.lakes import folder_at

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


@pytest.mark.long
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


@pytest.mark.long
def test_a_run_with_a_row_that_fails_is_blocked_and_one_of_other_days_is_not(opens: Opens) -> None:
    kit = opens(none_lost)
    run_id = kit.planned("order_totals", DAYS, version="lost")
    kit.approve(run_id)
    kit.stage(run_id)
    assert kit.gate(run_id).failed == ("none_lost",)
    with pytest.raises(IllegalTransition, match="it is BLOCKED"):
        kit.publish(run_id)
    kit.published("order_totals", "2026-01-04", version="lost")


def no_row(candidate: DataFrame) -> DataFrame:
    return candidate.where("false")


@pytest.mark.long
def test_other_code_under_the_same_words_loosens_a_gate_until_a_person_has_agreed(opens: Opens) -> None:
    kit = opens(failing("same", rows=removed, demands="nothing is lost"))
    kit.published("order_totals", "2026-01-03")
    for rows, loosened in ((removed, ()), (no_row, ("gate same",))):
        again = opens(failing("same", rows=rows, demands="nothing is lost"))
        run_id = again.planned("order_totals", "2026-01-04")
        with again.ws.ledger.read() as tx:
            found = demand_of(again.ws, tx, tx.runs.get(run_id))
            # Nobody can tell whether other code fails less.
            assert (found.loosened, found.unsure) == (loosened, loosened)


def every_row(candidate: DataFrame) -> DataFrame:
    """Nothing may be there."""
    return candidate


@pytest.mark.long
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


@pytest.mark.long
def test_a_function_is_given_the_accepted_rows_of_the_same_partitions(opens: Opens) -> None:
    kit = opens(failing("none_removed", rows=removed))
    kit.published("order_totals", "2026-01-03")
    assert [found[:3] for found in failing_of(kit, version="lost")] == [("none_removed", "2026-01-03", SECOND)]
    assert failing_of(kit, version="lost", days="2026-01-04") == []


@pytest.mark.long
@pytest.mark.parametrize(("version", "found"), [(None, "NO_ROWS_FAIL"), ("lost", "NOT_MEASURED")])
def test_accepted_rows_of_which_the_files_are_lost_are_known_only_where_the_candidate_has_them(
    opens: Opens, version: str | None, found: str
) -> None:
    kit = opens(failing("none_removed", rows=removed))
    kit.published("order_totals", "2026-01-03")
    for each in kit.accepted("order_totals").values():
        for path in each.files.paths:
            (folder_at(kit.ws.lake.place("silver.order_totals")) / path).unlink()
    run_id = kit.planned("order_totals", "2026-01-03", version=version)
    kit.stage(run_id)
    assert kit.gate(run_id).failed == (("none_removed",) if version else ())
    with kit.ws.ledger.read() as tx:
        assert [each.finding for each in tx.candidates.gate_results(run_id) if each.gate == "none_removed"] == [found]


def without_day(candidate: DataFrame) -> DataFrame:
    return candidate.drop("day")


def without_value(candidate: DataFrame) -> DataFrame:
    return candidate.withColumn("day", sf.lit(None).cast("date"))


def as_text(candidate: DataFrame) -> DataFrame:
    return candidate.withColumn("day", sf.col("day").cast("string"))


def no_frame(candidate: DataFrame) -> DataFrame:
    return None  # type: ignore[return-value]


def counting(candidate: DataFrame) -> DataFrame:
    return candidate.where(sf.lit(candidate.count()) > 100)


def two_of_one_name(candidate: DataFrame) -> DataFrame:
    return candidate.select("*", sf.lit(1).alias("number"))


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (without_day, "the gate broken of silver.order_totals returned rows without the partition column 'day'"),
        (no_frame, "the gate broken of silver.order_totals returned NoneType where a DataFrame is declared"),
        (without_value, "the gate broken of silver.order_totals returned rows without a value of 'day'"),
        (as_text, "whose partition column 'day' is string, and has to be date"),
        (two_of_one_name, "returned rows with number twice"),
        (counting, "the gate broken of silver.order_totals runs the action count on a DataFrame"),
        (
            failing("broken", sql="SELECT day, missing FROM candidate"),
            "the gate broken of silver.order_totals failed: ",
        ),
    ],
    ids=["no column", "no frame", "no value", "no date", "twice", "action", "unknown column"],
)
def test_a_gate_that_cannot_be_counted_stops_the_run_and_records_nothing(
    opens: Opens, function: Callable[..., DataFrame] | Failing, said: str
) -> None:
    kit = opens(function if isinstance(function, Failing) else failing("broken", rows=function))
    said += rf".*, in {re.escape(__file__)}, line \d+\.$"
    run_id = kit.planned("order_totals", DAYS)
    with pytest.raises(CodeBroken, match=said):
        staged_and_measured(kit, run_id)
    with kit.ws.ledger.read() as tx:
        assert tx.candidates.gate_results(run_id) == ()
        # What can be said of a gate without any rows is said before they are computed.
        assert bool(tx.candidates.of_run(run_id)) is (function is without_value)


def staged_and_measured(kit: DomainKit, run_id: str) -> None:
    kit.stage(run_id)
    kit.gate(run_id)


@pytest.mark.long
def test_a_gate_that_stops_spark_is_named_among_others_and_the_value_is_not(opens: Opens) -> None:
    kit = opens(none_lost, failing("by_day", sql="SELECT * FROM candidate WHERE CAST(order_id AS DATE) = day"))
    run_id = kit.planned("order_totals", DAYS)
    kit.stage(run_id)
    said = "the gate by_day of silver.order_totals stopped with CAST_INVALID_INPUT while Spark computed its rows"
    with pytest.raises(CodeBroken, match=said) as refused:
        kit.gate(run_id)
    assert "o-2-1" not in refused.value.message


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


def orphans(candidate: DataFrame, known: DataFrame) -> DataFrame:
    """Every customer is known."""
    named = known.select("customer_id")
    lacking = candidate.where("customer_id IS NOT NULL").join(named, "customer_id", "left_anti")
    return lacking.withColumn("found", sf.col("customer_id"))


no_orphans = failing("no_orphans", rows=orphans, reads={"known": reads(customers, days_back=1)})


def test_a_gate_is_given_accepted_rows_of_other_tables_in_a_window(opens: Opens) -> None:
    kit = opens(failing("no_orphans", rows=orphans, reads={"known": reads(customers, days_back=3)}))
    run_id = kit.planned("order_totals", "2026-01-04")
    assert "compared with the accepted rows and with those of bronze.customers" in "".join(
        map(stage_words, stages(kit.ws, run_id))
    )
    kit.stage(run_id)
    assert kit.gate(run_id).failed == ()
    with kit.ws.ledger.read() as tx:
        (read,) = tx.candidates.read_by_gates(run_id)
    (pinned,) = read.inputs
    assert [(str(pin.partition), pin.version) for pin in pinned.partitions] == [
        (f"2026-01-0{day}", 1) for day in range(1, 5)
    ]


@pytest.mark.long
def test_rows_without_a_row_in_another_table_are_named(opens: Opens) -> None:
    kit = opens(failing("no_orphans", rows=orphans, reads={"known": reads(customers, days_back=2)}))
    assert failing_of(kit, version="orphan", days="2026-01-03") == [
        ("no_orphans", "2026-01-03", SECOND, None, "nobody")
    ]


@pytest.mark.long
def test_a_gate_does_not_pass_without_a_partition_that_it_reads_unless_it_may_be_missing(opens: Opens) -> None:
    kit = opens(
        failing("no_orphans", rows=orphans, reads={"known": reads(customers, days_back=3)}),
        failing("if_known", rows=orphans, reads={"known": reads(customers, days_back=3)}, optional=("known",)),
    )
    run_id = kit.planned("order_totals", DAYS)
    kit.stage(run_id)
    assert kit.gate(run_id).failed == ("no_orphans",)
    with kit.ws.ledger.read() as tx:
        results = {each.partition.day: each for each in tx.candidates.gate_results(run_id) if each.gate == "no_orphans"}
    assert [day for day, result in results.items() if not result.passed] == [2, 3]
    assert verdict_words(results[2]) == (
        "it cannot be measured without accepted rows of bronze.customers 2025-12-30 and 1 more: Every customer is known"
    )


@pytest.mark.long
def test_a_gate_over_a_table_that_moved_is_asked_again_before_the_swap(opens: Opens) -> None:
    kit = opens(failing("no_orphans", rows=orphans, reads={"known": reads(customers, days_back=2)}))
    run_id = kit.planned("order_totals", "2026-01-03")
    kit.approve(run_id)
    kit.stage(run_id)
    assert kit.gate(run_id).failed == ()
    kit.land("customers", [a_customer("c-9", day=2)], name="more.jsonl")
    with pytest.raises(TargetChanged, match=r"bronze.customers changed since gate no_orphans of run .* 2026-01-02"):
        kit.publish(run_id)
    with kit.ws.ledger.read() as tx:
        step = next_step(kit.ws, tx, tx.runs.get(run_id))
    assert step is not None and f"backfill run {run_id}" in worded(step)
    assert kit.gate(run_id).failed == ()
    kit.publish(run_id)
    # What is read has changed without what was published: nothing more is asked.
    kit.land("customers", [a_customer("c-8", day=2)], name="still.jsonl")


def falls(candidate: DataFrame, around: DataFrame) -> DataFrame:
    """The number never falls from one day to the next."""
    highest = around.agg(sf.max("number").alias("before"))
    return (
        candidate.crossJoin(highest).where("number < before").selectExpr("*", "before AS expected", "number AS found")
    )


@pytest.mark.long
def test_a_gate_is_given_the_accepted_rows_around_those_of_the_run(opens: Opens) -> None:
    gate = failing("never_falls", rows=falls, around=Window(days_back=1))
    kit = opens(gate)
    assert failing_of(kit, version="back", days="2026-01-03") == []
    kit.published("order_totals", "2026-01-02..2026-01-03")
    run_id = kit.planned("order_totals", "2026-01-03", version="back")
    kit.stage(run_id)
    kit.gate(run_id)
    assert rows_that_fail(kit, run_id) == [("never_falls", "2026-01-03", SECOND, "2", "0")]
    with kit.ws.ledger.read() as tx:
        (pinned,) = tx.candidates.read_by_gates(run_id)[0].inputs
    assert [(str(pin.partition), pin.version) for pin in pinned.partitions] == [("2026-01-02", 1)]

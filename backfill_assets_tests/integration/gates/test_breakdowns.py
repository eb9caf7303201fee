"""Measures by business dimensions equal a plain reading, are kept with the run, and demand a comment when they move."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DateType, DoubleType, IntegerType, StringType, StructField, StructType

from backfill_assets.application.follow import follow
from backfill_assets.application.parts import Part
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.application.report import report_html, report_markdown
from backfill_assets.application.requests import Restatement
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.candidates import evaluate
from backfill_assets.core.errors import ContractBroken, NotApproved
from backfill_assets.core.identity import canonical_json, plain
from backfill_assets.core.progress import Listener
from backfill_assets.domain import Breakdown, DerivedTable, Domain, Policy, moved, tolerance
from backfill_assets.gates import measure as measuring
from backfill_assets.gates.judge import moved_verdict
from backfill_assets.gates.measure import breakdown_of, contents
from backfill_assets.gates.measured import Measured
from backfill_assets.gates.sample import sample_rows
from backfill_assets.ledger.findings import NEEDS_COMMENT, BreakdownCell, Finding, GateResult, PartitionCells, shown_row
from backfill_assets.ledger.records import CandidatePartition
from backfill_assets.ledger.states import ApprovalState, RunState
from backfill_assets.planning.manifest_parts import GateTerm
from backfill_assets.planning.restatement import PlannedSet, SetRequest
from backfill_assets.report.report import Level, RunReport, run_report
from backfill_assets.report.review import review_of
from backfill_assets.report.usual import breakdown_document
from backfill_assets.report.words.verdicts import said_of, verdict_words
from backfill_assets.upkeep.audit import audit
from backfill_assets.workspace import Workspace
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.domains.example import recent_sales, sales, sales_monthly
from backfill_assets_tests.integration.gates.test_gates import TABLE
from backfill_assets_tests.support import by_hand, operations
from backfill_assets_tests.support.advice import worded
from backfill_assets_tests.support.by_hand import Hand
from backfill_assets_tests.support.hand_made import all_passed
from backfill_assets_tests.support.shop import DAYS, OUTPUT, RECENT, SALES, Shop, open_shop, ticking_clock, usual_sales

SCHEMA = StructType(
    [
        StructField("day", DateType(), nullable=False),
        StructField("id", StringType(), nullable=False),
        StructField("state", StringType()),
        StructField("count", IntegerType()),
        StructField("share", DoubleType()),
    ]
)
FIRST = date(2026, 1, 30)
BY_STATE = replace(
    TABLE,
    breakdown=Breakdown(by=("state",), measures={"many": "count > 2", "counted": "count", "shared": "share"}),
)
Row = tuple[date, str, str | None, int | None, float | None]


def frame(spark: SparkSession, rows: Sequence[Row]) -> DataFrame:
    return spark.createDataFrame(
        list(rows), StructType([StructField(f.name, f.dataType, nullable=True) for f in SCHEMA.fields])
    )


def random_rows(chance: random.Random) -> list[Row]:
    return [
        (FIRST + timedelta(days=day), f"k{n}", chance.choice(["a", "b", None]), chance.choice([1, 3, None]), 0.5)
        for day in range(4)
        for n in range(6)
        if chance.random() < 0.7
    ]


def cells_of(rows: DataFrame, table: DerivedTable) -> measuring.Cells:
    found = contents(rows, table, schema=SCHEMA, breakdown=breakdown_of(table))
    return {partition: each.cells for partition, each in found.items()}


def break_down(
    new_rows: DataFrame, old: DataFrame | None, table: DerivedTable, *, new: Collection[date]
) -> tuple[BreakdownCell, ...]:
    """The breakdown of two sides as the ledger keeps it."""
    assert table.breakdown is not None
    before = {} if old is None else cells_of(old, table)
    return measuring.break_down(before, cells_of(new_rows, table), table.breakdown, new=new)


def by_plain_reading(rows: Sequence[Row], new: set[date]) -> dict[tuple[str, bool, str | None], tuple[Decimal, ...]]:
    found: dict[tuple[str, bool, str | None], list[Decimal]] = defaultdict(lambda: [Decimal(0)] * 4)
    for day, _, state, count, share in rows:
        total = found[f"{day:%Y-%m}", day in new, state]
        for place, amount in enumerate((1, (count or 0) > 2, count or 0, share or 0)):
            total[place] += Decimal(str(float(amount)))
    return {key: tuple(total) for key, total in found.items()}


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_measures_equal_a_plain_reading(spark: SparkSession, seed: int) -> None:
    chance = random.Random(seed)
    old, new_rows = random_rows(chance), random_rows(chance)
    new = {FIRST + timedelta(days=3)}
    old = [row for row in old if row[0] not in new]
    cells = break_down(frame(spark, new_rows), frame(spark, old), BY_STATE, new=new)
    for side, rows in (("before", old), ("after", new_rows)):
        found = {
            (f"{cell.month:%Y-%m}", cell.is_new, cell.by["state"]): tuple(map(Decimal, getattr(cell, side).values()))
            for cell in cells
        }
        assert {key: total for key, total in found.items() if total[0]} == by_plain_reading(rows, new)
    assert [(c.month, c.is_new, c.by["state"] or "") for c in cells] == sorted(
        (c.month, c.is_new, c.by["state"] or "") for c in cells
    )


@pytest.mark.parametrize(("measure", "by"), [("counted", ()), ("counted", ("state",)), ("rows", ()), ("many", ())])
def test_changes_of_rows_are_added_up_without_their_signs(
    spark: SparkSession, measure: str, by: tuple[str, ...]
) -> None:
    chance = random.Random(5)
    old, new_rows = random_rows(chance), random_rows(chance)
    old += [(FIRST, "more", "a", 5, None), (FIRST, "less", "a", 10, None), (FIRST, "moves", "b", 3, None)]
    new_rows += [(FIRST, "more", "a", 10, None), (FIRST, "less", "a", 5, None), (FIRST, "moves", None, 3, None)]
    assert BY_STATE.breakdown is not None
    found = measuring.row_changes(
        frame(spark, new_rows),
        frame(spark, old),
        BY_STATE,
        BY_STATE.breakdown,
        tolerance(measure, by=by, percent=1, owner="finance"),
    )
    sums: dict[tuple[date, str, str | None], int] = defaultdict(int)
    for sign, rows in ((1, new_rows), (-1, old)):
        for day, name, state, count, _ in rows:
            amount = {"counted": count or 0, "rows": 1, "many": int((count or 0) > 2)}[measure]
            sums[day, name, state if by else None] += sign * amount
    expected: dict[tuple[date, str | None], int] = defaultdict(int)
    for (day, _, state), amount in sums.items():
        expected[day.replace(day=1), state] += abs(amount)
    assert {(each.month, each.by.get("state")): int(each.amount) for each in found} == dict(expected)
    assert {each.measure for each in found} == {measure}


def test_cells_are_the_same_once_the_ledger_has_kept_them(spark: SparkSession) -> None:
    cells = cells_of(frame(spark, random_rows(random.Random(5))), BY_STATE)
    kept = [PartitionCells(partition=p, files="f", declared="d", cells=tuple(each)) for p, each in cells.items()]
    assert [PartitionCells.parse(json.loads(canonical_json(each.document()))) for each in kept] == kept


@pytest.mark.long
def test_more_combinations_than_are_read_are_counted_by_partition(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new_rows = (frame(spark, random_rows(random.Random(seed))) for seed in (5, 6))
    by_all = break_down(new_rows, old, BY_STATE, new=())
    monkeypatch.setattr(measuring, "MOST_DAILY_CELLS", 2)
    cells = break_down(new_rows, old, BY_STATE, new=())
    assert {cell.by.get("state") for cell in cells} == {None} != {cell.by.get("state") for cell in by_all}
    assert sum(int(cell.after["rows"]) for cell in cells) == sum(int(cell.after["rows"]) for cell in by_all)


def test_a_cell_whose_sums_are_the_same_differs_when_its_rows_do(spark: SparkSession) -> None:
    old = frame(spark, [(FIRST, "k1", "a", 1, None), (FIRST, "k2", "a", 3, None), (FIRST, "k3", "b", 1, None)])
    new = frame(spark, [(FIRST, "k1", "a", 3, None), (FIRST, "k2", "a", 1, None), (FIRST, "k3", "b", 1, None)])
    cells = break_down(new, old, BY_STATE, new=())
    assert all(cell.before == cell.after for cell in cells)
    assert {cell.by["state"]: cell.differs for cell in cells} == {"a": True, "b": False}


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity"])
def test_a_sum_that_is_not_finite_is_kept_as_such_and_needs_a_comment(spark: SparkSession, value: str) -> None:
    old = frame(spark, [(FIRST, "k1", "a", 1, 0.5)])
    new = frame(spark, [(FIRST, "k1", "a", 1, float(value)), (FIRST, "k2", "a", 1, 0.5)])
    (cell,) = break_down(new, old, BY_STATE, new=())
    assert cell.after["shared"] == value
    verdict = moved_verdict(moved("shared", by=("state",), percent=5), FIRST, (cell,), is_new=False)
    assert (
        verdict_words(verdict)
        == "shared cannot be compared in 1 of 1 group of 2026-01, where a sum is not a finite number"
    )
    assert verdict.observed[NEEDS_COMMENT] is True


LEAST, MOST = -(2**63), 2**63 - 1
OF_64_BITS = Breakdown(measures={"amount": "cast(state AS bigint)"})


@pytest.mark.parametrize(
    "values",
    [[MOST] * 3, [LEAST] * 3, [MOST, LEAST, LEAST], [-1, None, 2**32 - 1], [2**32, -(2**32) - 1, 7], [None] * 3],
)
def test_numbers_of_64_bits_are_added_up_exactly(spark: SparkSession, values: list[int | None]) -> None:
    table = replace(TABLE, breakdown=OF_64_BITS)
    texts = [None if value is None else str(value) for value in values]
    rows = frame(spark, [(FIRST, f"k{n}", text, 1, None) for n, text in enumerate(texts)])
    expected = sum(value or 0 for value in values)
    (cell,) = break_down(rows, None, table, new=(FIRST,))
    assert cell.after["amount"] == str(expected)
    none = frame(spark, [])
    allowed = tolerance("amount", percent=1, owner="finance")
    for sides in ((rows, none), (none, rows)):
        (changed,) = measuring.row_changes(*sides, table, OF_64_BITS, allowed)
        assert changed.amount == str(sum(abs(value or 0) for value in values))


def test_too_many_combinations_are_kept_by_month_alone(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "MOST_CELLS", 2)
    rows = frame(spark, [(FIRST, f"k{n}", f"s{n}", 1, None) for n in range(3)])
    (cell,) = break_down(rows, None, BY_STATE, new=(FIRST,))
    assert (cell.by, cell.is_new, cell.after["rows"], cell.after["counted"]) == ({}, True, "3", "3")


def test_a_measure_that_is_no_number_is_named(spark: SparkSession) -> None:
    table = replace(TABLE, breakdown=Breakdown(measures={"named": "state"}))
    with pytest.raises(ContractBroken, match=r"the measure named of silver.measured is string, and neither"):
        break_down(frame(spark, []), None, table, new=())


@pytest.mark.long
def test_rows_are_ranked_by_the_measure_or_by_the_columns_that_change(spark: SparkSession) -> None:
    old = frame(spark, [(FIRST, "far", "a", 1, 0.5), (FIRST, "wide", "a", 1, 0.5), (FIRST, "one", "a", 1, 0.5)])
    new = frame(spark, [(FIRST, "far", "a", 99, 0.5), (FIRST, "wide", "b", 2, 0.7), (FIRST, "one", "b", 1, 0.5)])
    ranked = replace(TABLE, breakdown=Breakdown(measures={"counted": "count"}, rank_rows_by="counted"))
    assert next(row.key["id"] for row in sample_rows(new, old, TABLE)) == "wide"
    assert [row.key["id"] for row in sample_rows(new, old, ranked)] == ["far", "wide", "one"]


def test_names_keep_the_order_of_the_declaration(spark: SparkSession) -> None:
    declared = Breakdown(by=("state", "id"), measures={"shared": "share", "counted": "count"})
    table = replace(TABLE, breakdown=declared)
    cells = break_down(frame(spark, [(FIRST, "k", "a", 1, 0.5)]), None, table, new=(FIRST,))
    kept = tuple(shown_row(BreakdownCell, json.loads(canonical_json(plain(cell)))) for cell in cells)
    assert kept == cells
    found = breakdown_document(kept, declared)
    assert found is not None
    assert (found.dimensions, found.measures) == (("state", "id"), ("rows", "shared", "counted"))
    assert [list(cell.by) for cell in found.new] == [["state", "id"]]
    assert [list(cell.after) for cell in found.new] == [["rows", "shared", "counted"]]


WATCHED = replace(
    recent_sales,
    breakdown=Breakdown(by=("shop",), measures={"amount": "amount"}),
    gates=(*recent_sales.gates, moved("amount", by=("shop",), percent=20)),
)
SAID = "amount moved by more than 20 % in 1 of 1 group of 2026-01"


def watching(shop: Shop, table: DerivedTable = WATCHED) -> Shop:
    """The same shop, where a large move of the amount needs a comment."""
    monthly = replace(sales_monthly, inputs={"recent": table})
    package = "backfill_assets_tests.domains.example"
    domain = Domain(name="example", package=package, sources=(sales,), derived=(table, monthly))
    return replace(shop, ws=replace(shop.ws, domain=domain))


@pytest.fixture
def shop(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    opened = open_shop(tmp_path / "home", clock=ticking_clock(NOON), spark=spark)
    opened.land("usual.jsonl", usual_sales())
    watched = watching(opened)
    # Every amount of the earlier release is twice the present one.
    watched.published(version="0.9.0")
    yield watched
    opened.ws.close()


def report_of(shop: Shop, run_id: str) -> RunReport:
    return run_report(shop.ws, run_id)


@pytest.mark.long
def test_what_moved_too_far_waits_for_a_written_comment(shop: Shop) -> None:
    run_id = shop.staged(shop.planned())
    found = report_of(shop, run_id)
    assert found.run.record.state is RunState.PASSED, "it does not block"
    assert (said_of(found.to_comment), found.level) == (SAID, Level.ATTENTION)
    assert review_of(found).warnings == (f"The approval needs a written comment: {SAID}.",)
    assert worded(found.run.next_step) == f"backfill approve {run_id} --by ANOTHER_PERSON --note WHY"

    for note in ("", "  ", "WHY"):
        with pytest.raises(NotApproved, match=f"needs a comment on gates of {RECENT}: moved_amount_by_shop"):
            operations.approve(shop.ws, run_id, by="ben", note=note)
    with pytest.raises(NotApproved, match="needs a comment"):
        Restatement(shop.ws, run_id).approve(by="ben", note="", place="in Dagster, run 1234")
    with pytest.raises(NotApproved, match="another person has to agree, with a comment on moved_amount_by_shop"):
        shop.publish(run_id)

    Restatement(shop.ws, run_id).approve(by="ben", note="0.9.0 counted everything twice", place="in Dagster, run 1234")
    found = report_of(shop, run_id)
    assert (found.to_comment, found.comment) == ((), "0.9.0 counted everything twice")
    page = report_html(shop.ws, run_id)
    assert "0.9.0 counted everything twice" in page
    assert "approved in Dagster, run 1234" in page
    shop.publish(run_id)
    assert audit(shop.ws).problems == ()


def test_an_approval_from_before_the_numbers_were_known_does_not_comment_on_them(shop: Shop) -> None:
    run_id = shop.planned()
    operations.approve(shop.ws, run_id, by="ben", note="surely right")
    shop.staged(run_id)
    with pytest.raises(NotApproved, match=r"the approval of run .* by ben does not comment on what gates of"):
        shop.publish(run_id)
    assert "--note WHY" in worded(report_of(shop, run_id).run.next_step)
    operations.approve(shop.ws, run_id, by="cleo", note="it is half, as it should be")
    shop.publish(run_id)
    assert report_of(shop, run_id).comment == "it is half, as it should be"


@pytest.mark.long
def test_a_policy_cannot_comment(shop: Shop) -> None:
    auto = watching(shop, replace(WATCHED, policy=Policy(backfill="auto")))
    run_id = auto.staged(auto.planned())
    with pytest.raises(NotApproved, match="with a comment"):
        auto.publish(run_id)
    operations.approve(auto.ws, run_id, by="ben", note="half of it")
    auto.publish(run_id)


@pytest.mark.long
def test_a_set_needs_the_comment_of_each_of_its_runs(shop: Shop) -> None:
    request = SetRequest(reason="half", by="ana", because=((SALES, DayRange.inclusive(DAYS.start, DAYS.last)),))
    planned = operations.plan_set(shop.ws, request)
    assert isinstance(planned, PlannedSet)
    set_id = planned.manifest.set_id
    for member in planned.manifest.members:
        shop.staged(member.run_id)
    with pytest.raises(NotApproved, match=f"the approval of {set_id} needs a comment"):
        operations.approve(shop.ws, set_id, by="ben")
    operations.approve(shop.ws, set_id, by="ben", note="half")
    operations.publish_set(shop.ws, set_id, by="ben")
    page = report_html(shop.ws, set_id)
    assert page.index("Totals by table") < page.index("Runs, in the order of publication")
    assert "comment of the approver" in page


class StagedByHand(Unrecorded):
    """Stages a month by hand, with an amount that moved too far, and does the rest as always."""

    def __init__(self, hand: Hand) -> None:
        self.hand = hand

    def execute(self, ws: Workspace, run_id: str, parts: Sequence[Part], *, by: str, listener: Listener) -> None:
        self.hand.month(run_id)
        super().execute(ws, run_id, [part for part in parts if part is Part.PUBLISH], by=by, listener=listener)


MOVED_TOO_FAR = {"measure": "amount", "percent": 20, "month": "2026-01", "groups": 1, "moved_groups": 1}


def moved_too_far(staged: Mapping[date, CandidatePartition], gates: Iterable[GateTerm]) -> list[GateResult]:
    return [
        result
        if result.blocking
        else replace(result, passed=False, finding=Finding.MOVED, observed={**MOVED_TOO_FAR, NEEDS_COMMENT: True})
        for result in all_passed(staged, gates)
    ]


def test_a_follow_up_that_moved_too_far_waits_for_a_person_without_an_error(
    hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    gates = (*sales_monthly.gates, moved("amount", percent=20))
    gold = replace(sales_monthly, breakdown=Breakdown(measures={"amount": "amount"}), gates=gates)
    package = "backfill_assets_tests.domains.example"
    domain = Domain(name="example", package=package, sources=(sales,), derived=(recent_sales, gold))
    hand = Hand(ws=replace(hand.ws, domain=domain))
    monkeypatch.setattr(by_hand, "all_passed", moved_too_far)
    hand.published({date(2026, 1, 5): 500})
    acting = Acting(by="follow", recorder=StagedByHand(hand))
    (followed,) = follow(hand.ws, acting).followed
    run_id = str(followed.run_id)
    with hand.ws.ledger.read() as tx:
        assert tx.runs.header(run_id).approval is ApprovalState.DRAFT
    assert (followed.state, followed.error) == (RunState.PASSED, None)
    assert follow(hand.ws, acting).followed == (), "no policy can comment on it"
    operations.approve(hand.ws, run_id, by="ben", note="a large sale")
    hand.publish(run_id)
    assert hand.total() == 800
    hand.ws.close()


@pytest.mark.long
def test_a_breakdown_is_kept_with_its_run_and_can_be_erased(shop: Shop) -> None:
    run_id = shop.staged(shop.planned())
    found = report_of(shop, run_id).breakdown
    assert found is not None
    (cell,) = found.restated
    assert (cell.month, cell.by, found.new) == ("2026-01", {"shop": "only"}, ())
    assert (cell.before, cell.after) == ({"rows": 7, "amount": 560}, {"rows": 7, "amount": 280})
    assert "280" in report_html(shop.ws, run_id)
    operations.approve(shop.ws, run_id, by="ben", note="half")
    shop.publish(run_id)
    assert report_of(shop, run_id).breakdown == found, "the report of a run is the same later"

    operations.erase_samples(shop.ws, run_id, by="dora", reason="asked for")
    assert report_of(shop, run_id).breakdown is None
    assert report_of(shop, run_id).comment == "half", "what was agreed stays known"
    with shop.ws.ledger.read() as reader:
        assert "only" not in str([event.payload for event in reader.events.entries(entity_id=run_id)])
    assert audit(shop.ws).problems == ()


@pytest.mark.long
def test_accepted_rows_are_read_for_the_breakdown_only_where_their_cells_are_gone(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[DataFrame] = []

    def counted(rows: DataFrame, *args: Any, **named: Any) -> Mapping[date, Measured]:
        read.append(rows)
        return contents(rows, *args, **named)

    monkeypatch.setattr(evaluate, "contents", counted)
    with shop.ws.ledger.read() as reader:
        published = next(run.run_id for run in reader.runs.records(table=RECENT))
    kept = report_of(shop, shop.staged(shop.planned())).breakdown
    assert kept is not None and kept.restated and len(read) == 1
    operations.erase_samples(shop.ws, published, by="dora", reason="asked for")
    assert report_of(shop, shop.staged(shop.planned(reason="once more"))).breakdown == kept
    assert len(read) == 3


@pytest.mark.long
def test_days_that_are_new_are_no_move(shop: Shop) -> None:
    fresh = DayRange.inclusive(OUTPUT.start, OUTPUT.start)
    with shop.ws.ledger.read() as reader:
        run_id = next(run.run_id for run in reader.runs.records(table=RECENT))
    found = report_of(shop, run_id)
    assert found.breakdown is not None
    assert (found.breakdown.restated, found.to_comment, found.restated) == ((), (), None)
    assert found.new is not None
    assert len(found.new.partitions) == len(OUTPUT)
    assert fresh.start in {part.partition for part in found.partitions if part.new}
    assert "new: 2026-01-03..2026-01-09, 7 days" in report_markdown(shop.ws, run_id)

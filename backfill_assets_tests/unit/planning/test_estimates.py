"""What a run is expected to write, and into how many chunks that divides it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.calendar.partitions import DayRange, Grain, days_of, partitions_over
from backfill_assets.calendar.windows import Window
from backfill_assets.planning.graph import Graph, TableInput, TableNode, topological
from backfill_assets.planning.kinds.change import chunk_sizes
from backfill_assets.planning.manifest_parts import Limits
from backfill_assets.planning.request import (
    NO_LIMITS_ASKED,
    NO_UPSTREAM,
    AskedLimits,
    Plan,
    PlanRequest,
    Staged,
    TableSpec,
    Upstream,
    propose,
)
from backfill_assets.planning.safeguards import USUAL_POLICY
from backfill_assets.planning.stages import ProofTerms
from backfill_assets.planning.state import AcceptedPartition, EarlierRun, EstimateBasis, Expired, Pace

FIRST = date(2012, 1, 1)
AS_OF = datetime(2030, 1, 15, tzinfo=UTC)
SOURCE, MIDDLE, LAST = "bronze.source", "silver.middle", "gold.last"


def claim_of(rows: int) -> AcceptedPartition:
    return AcceptedPartition(rows=rows, run_id="before", version=1, digest="d" * 64, file_count=1, size_bytes=100)


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """A state in which every source day has so many rows, and these partitions of other tables have these."""

    rows_a_day: int
    others: Mapping[str, Mapping[date, int]] = field(default_factory=dict)
    paces: Mapping[str, Pace] = field(default_factory=dict)

    def claims(self, table: str, partitions: Sequence[date] | None = None) -> Mapping[date, AcceptedPartition]:
        if table == SOURCE:
            return {day: claim_of(rows=self.rows_a_day) for day in partitions or ()}
        known = self.others.get(table, {})
        return {day: claim_of(rows=known[day]) for day in known if partitions is None or day in partitions}

    def expired(self, table: str) -> Mapping[date, Expired]:
        assert table
        return {}

    def open_runs(self, table: str, partitions: Sequence[date]) -> Sequence[str]:
        assert table and partitions
        return ()

    def pace(self, table: str) -> Pace | None:
        return self.paces.get(table)


def graph_of(window: Window, grain: Grain = Grain.DAILY) -> Graph:
    """Source days, a table over a window of them, and a monthly table over that."""
    middle = TableNode(name=MIDDLE, grain=grain, inputs=(TableInput(argument="rows", table=SOURCE, window=window),))
    last = TableNode(
        name=LAST, grain=Grain.MONTHLY, inputs=(TableInput(argument="rows", table=MIDDLE, window=Window()),)
    )
    source = TableNode(name=SOURCE, grain=Grain.DAILY)
    return Graph(tables=topological([source, middle, last]), first_day=FIRST)


def plan_of(
    graph: Graph,
    state: Accepted,
    asked_for: DayRange | PlanRequest,
    *,
    table: str = MIDDLE,
    limits: Limits,
    upstream: Upstream = NO_UPSTREAM,
    proof: ProofTerms | None = None,
    asked: AskedLimits = NO_LIMITS_ASKED,
) -> Plan:
    terms = TableSpec(
        domain="example",
        partition_column="day",
        transform="t",
        transform_version="1",
        code_digest="c" * 64,
        session_digest="s" * 64,
        references=(),
        gates=(),
        limits=limits,
        policy=USUAL_POLICY,
        proof=proof,
    )
    if isinstance(asked_for, DayRange):
        asked_for = PlanRequest(table=table, days=asked_for, reason="why not", by="ana", limits=asked)
    return propose(asked_for, terms, graph=graph, state=state, as_of=AS_OF, upstream=upstream)


def test_a_first_build_with_a_long_window_is_not_cut_into_single_days() -> None:
    """4,905 days of 100,000 rows with a window of 252 days: 200 days fit into a chunk, not one."""
    days = DayRange(FIRST + timedelta(days=300), FIRST + timedelta(days=300 + 4_905))
    limits = Limits(chunk_partitions=5_000, chunk_rows=20_000_000)
    planned = plan_of(graph_of(Window(days_back=251)), Accepted(rows_a_day=100_000), days, limits=limits)
    assert set(planned.estimate.rows.values()) == {100_000}
    assert planned.chunk_count == 25
    assert planned.estimate.based_on is EstimateBasis.INPUT_ROWS


@dataclass(frozen=True, kw_only=True)
class EverySecondDay(Accepted):
    """A state in which every second source day is empty."""

    def claims(self, table: str, partitions: Sequence[date] | None = None) -> Mapping[date, AcceptedPartition]:
        found = super().claims(table, partitions)
        return {day: replace(claim, rows=claim.rows * (day.day % 2)) for day, claim in found.items()}


def test_a_first_build_over_days_that_are_often_empty_is_expected_to_write_as_much_as_its_inputs_have() -> None:
    """Every second of 13 days has a row: 7 of these days have 3.8, and not the 7 that each rounded up would have."""
    days = DayRange(FIRST + timedelta(days=100), FIRST + timedelta(days=107))
    planned = plan_of(
        graph_of(Window(days_back=6)), EverySecondDay(rows_a_day=1), days, limits=Limits(chunk_partitions=7)
    )
    assert planned.estimate.total_rows == 4
    assert set(planned.estimate.rows.values()) == {0, 1}


@pytest.mark.parametrize(
    ("rows", "sizes"), [((5, 5, 1, 1), (2, 2)), ((11, 1, 9, 0), (1, 3)), ((1, 1, 1, 1), (3, 1)), ((10,), (3, 1))]
)
def test_a_chunk_takes_what_neither_limit_forbids(rows: Sequence[int], sizes: Sequence[int]) -> None:
    days = [FIRST + timedelta(days=number) for number in range(4)]
    limits = Limits(chunk_partitions=3, chunk_rows=10)
    assert chunk_sizes(days, dict(zip(days, rows, strict=False)), limits) == sizes


@given(
    st.integers(0, 400),
    st.integers(0, 400),
    st.integers(0, 10**6),
    st.integers(1, 900),
    st.integers(1, 2_000),
    st.integers(1, 10**8),
    st.sampled_from(Grain),
)
def test_a_first_build_is_expected_to_write_what_its_days_bring_in_no_more_chunks_than_that_needs(
    back: int, ahead: int, rows: int, length: int, most: int, chunk_rows: int, grain: Grain
) -> None:
    start = FIRST + timedelta(days=500)
    days = DayRange(start, start + timedelta(days=length))
    limits = Limits(chunk_partitions=most, chunk_rows=chunk_rows)
    graph = graph_of(Window(days_back=back, days_ahead=ahead), grain)
    planned = plan_of(graph, Accepted(rows_a_day=rows), days, limits=limits)
    output = planned.manifest.partitions
    assert planned.estimate.rows == {p: rows * len(days_of(grain, p)) for p in output}
    assert planned.estimate.total_rows <= sum(read.rows for read in planned.inputs)
    # Two neighbours together exceed a limit, or they would be one.
    assert planned.chunk_count <= 2 * (planned.estimate.total_rows // chunk_rows + 1) + 2 * (len(output) // most)


def test_accepted_rows_tell_more_than_earlier_runs_and_these_more_than_a_guess() -> None:
    days = DayRange(date(2020, 1, 1), date(2020, 1, 5))
    partitions = partitions_over(Grain.DAILY, days)
    graph, limits = graph_of(Window(days_back=9)), Limits(chunk_partitions=10)
    earlier = EarlierRun(rows=14, partitions=2, chunks=1, staging_seconds=5.0, gating_seconds=2.0)
    pace = Pace(runs=(earlier, earlier))
    accepted = Accepted(rows_a_day=1_000, others={MIDDLE: {partitions[0]: 5, partitions[1]: 9}}, paces={MIDDLE: pace})
    known = plan_of(graph, accepted, days, limits=limits).estimate
    assert [known.rows[p] for p in partitions] == [5, 9, 7, 7]
    assert (known.size_bytes, known.seconds) == (28 * 200 // 14, 14.0)
    paced = plan_of(graph, Accepted(rows_a_day=1_000, paces={MIDDLE: pace}), days, limits=limits).estimate
    assert set(paced.rows.values()) == {7}
    guessed = plan_of(graph, Accepted(rows_a_day=1_000), days, limits=limits).estimate
    assert set(guessed.rows.values()) == {1_000}
    assert (guessed.size_bytes, guessed.seconds) == (None, None)


def test_a_plan_of_more_chunks_is_expected_to_take_longer() -> None:
    """A chunk takes 3 s and a row 1 s, as runs of one and of four chunks have; their gates take nothing."""
    days = DayRange(date(2020, 1, 1), date(2020, 1, 5))
    sizes = ((10, 1), (100, 4))
    pace = Pace(
        runs=tuple(
            EarlierRun(rows=rows, partitions=4, chunks=many, staging_seconds=3.0 * many + rows, gating_seconds=0.0)
            for rows, many in sizes
        )
    )
    others = {MIDDLE: dict.fromkeys(partitions_over(Grain.DAILY, days), 10)}
    accepted = Accepted(rows_a_day=10, others=others, paces={MIDDLE: pace})
    took = [
        plan_of(graph_of(Window()), accepted, days, limits=Limits(chunk_partitions=most)).estimate.seconds
        for most in (4, 2, 1)
    ]
    assert took == pytest.approx([43.0, 46.0, 52.0])


@pytest.mark.parametrize("built_before", [False, True])
def test_a_later_run_of_a_set_is_expected_to_read_what_the_earlier_ones_stage(built_before: bool) -> None:
    """Two days of February are restaged with 70 rows each; the other 26 have 10 each, or nothing tells of them."""
    february = DayRange(date(2025, 2, 1), date(2025, 3, 1))
    restaged = [date(2025, 2, 3), date(2025, 2, 4)] if built_before else list(february)
    others = {MIDDLE: {day: 10 for day in february if day not in restaged}}
    upstream = {MIDDLE: {day: Staged(run_id="middle-1", rows=70) for day in restaged}}
    planned = plan_of(
        graph_of(Window()),
        Accepted(rows_a_day=1, others=others),
        february,
        table=LAST,
        limits=Limits(chunk_partitions=10),
        upstream=upstream,
    )
    (read,) = planned.inputs
    assert read.rows == 70 * len(restaged) + 10 * (28 - len(restaged))
    assert planned.estimate.total_rows == read.rows
    assert read.missing == ()
    (pins,) = planned.manifest.inputs
    assert [pin.partition for pin in pins.partitions if pin.from_run == "middle-1"] == restaged

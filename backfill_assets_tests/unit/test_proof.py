"""What the warm-up proof reads, against a day-by-day reading; and what its verdicts say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.gates.judge_proof import NOTHING_THERE, warm_up_verdict
from backfill_assets.gates.measure import Measured
from backfill_assets.gates.proven import Proven
from backfill_assets.ledger.sampled import SampledRow
from backfill_assets.planning.graph import Graph, TableInput, TableNode, topological
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import PinnedInput, PinnedPartition, Proof
from backfill_assets.planning.partitions import ONE_DAY, DayRange, Grain
from backfill_assets.planning.proof import ProofTerms, ends_of, longer_proof, longer_reads
from backfill_assets.planning.reads import MoreDays, more_days, more_days_described, reads_of
from backfill_assets.planning.request import configuration_of
from backfill_assets.planning.windows import AnyWindow, Months, Window
from backfill_assets_tests.unit.test_manifest import MANIFEST

FIRST = date(2024, 6, 10)
SOURCE = TableNode(name="bronze.source", grain=Grain.DAILY)


@dataclass(frozen=True, kw_only=True)
class OneClaim:
    run_id: str = "before"
    version: int = 1
    digest: str = "d" * 64
    rows: int = 1
    file_count: int = 1
    size_bytes: int = 1


@dataclass(frozen=True)
class Accepted:
    """A state in which these days are accepted."""

    days: frozenset[date]

    def claims(self, table: str, partitions: Sequence[date]) -> Mapping[date, OneClaim]:
        assert table == SOURCE.name
        return {day: OneClaim() for day in partitions if day in self.days}

    def open_runs(self, table: str, partitions: Sequence[date]) -> Sequence[str]:
        raise AssertionError(f"a proof asks for no runs: {table} {partitions}")


def derived(window: AnyWindow, grain: Grain = Grain.DAILY) -> tuple[Graph, TableNode]:
    edge = TableInput(argument="rows", table=SOURCE.name, window=window)
    node = TableNode(name="silver.derived", grain=grain, inputs=(edge,))
    return Graph(tables=topological([SOURCE, node]), first_day=date(2024, 1, 1)), node


def planned(
    node: TableNode, graph: Graph, output: Sequence[date], accepted: frozenset[date], terms: ProofTerms
) -> Manifest:
    """The manifest of a run over these days, its ends proven with a longer window."""
    (edge,) = node.inputs
    own = tuple(
        PinnedPartition(partition=day, version=1, digest="d" * 64)
        for day in graph.needed(edge, node, output)
        if day in accepted
    )
    pins = (PinnedInput(argument="rows", table=SOURCE.name, partitions=own),)
    proof = longer_proof(terms, node, output, pins, graph=graph, state=Accepted(accepted))
    return replace(
        MANIFEST,
        table=node.name,
        grain=node.grain,
        partitions=tuple(output),
        inputs=pins,
        proof=proof,
        configuration=configuration_of(node),
    )


DAYS = st.integers(min_value=0, max_value=12)


@given(DAYS, DAYS, st.integers(1, 9), st.integers(1, 4), st.sets(st.integers(-60, 60), max_size=40), st.none() | DAYS)
def test_a_proof_reads_outward_from_the_window_up_to_the_first_day_that_is_not_accepted(
    back: int, ahead: int, count: int, first: int, gaps: set[int], extra: int | None
) -> None:
    graph, node = derived(Window(days_back=back, days_ahead=ahead))
    output = [FIRST + timedelta(days=number) for number in range(count)]
    window = {FIRST + timedelta(days=n) for n in range(-back, count + ahead)}
    accepted = frozenset(
        {FIRST + timedelta(days=n) for n in range(-60, 60)} - {FIRST + timedelta(days=n) for n in gaps} | window
    )
    extra_days = extra or None
    manifest = planned(node, graph, output, accepted, ProofTerms(partitions=first, extra_days=extra_days))
    proof = manifest.proof
    assert proof is not None
    assert list(proof.partitions) == output[:first]
    assert proof.last == (() if count <= first else (output[-1],))
    own = {pin.partition for pin in manifest.inputs[0].partitions}
    further: set[date] = set()
    for end in ends_of(proof, node):
        begins = end.partitions[0] - timedelta(days=back)
        earliest = begins
        for _ in range((extra_days or max(7, back)) if end.partitions[0] == FIRST else 0):
            if earliest - ONE_DAY not in accepted:
                break
            earliest -= ONE_DAY
        ends = end.partitions[-1] + timedelta(days=ahead)
        latest = ends
        for _ in range(extra_days or max(7, ahead)):
            if latest + ONE_DAY not in accepted:
                break
            latest += ONE_DAY
        (read,) = longer_reads(manifest, proof, end, node, graph)
        assert read.partitions == tuple(DayRange.inclusive(earliest, latest))
        assert read.days == DayRange.inclusive(earliest, latest)
        (more,) = more_days(reads_of(node, graph, end.partitions), [read])
        assert (more.back, more.ahead) == ((begins - earliest).days, (latest - ends).days)
        further |= set(read.partitions) - own
    assert {pin.partition for pin in proof.inputs[0].partitions} == further


def test_a_proof_ends_at_a_gap_in_the_output() -> None:
    graph, node = derived(Window(days_back=1))
    output = [FIRST, FIRST + timedelta(days=1), FIRST + timedelta(days=5)]
    accepted = frozenset(DayRange.inclusive(date(2024, 5, 1), date(2024, 8, 31)))
    manifest = planned(node, graph, output, accepted, ProofTerms(partitions=3))
    assert manifest.proof is not None
    assert manifest.proof.partitions == tuple(output[:2])


def test_a_window_that_is_not_complete_is_left_to_the_refusal_of_the_plan() -> None:
    graph, node = derived(Window(days_back=3, days_ahead=1))
    accepted = frozenset(DayRange.inclusive(FIRST - timedelta(days=2), FIRST + timedelta(days=30)))
    manifest = planned(node, graph, [FIRST], accepted, ProofTerms(partitions=3))
    assert manifest.proof is not None
    (further,) = manifest.proof.inputs
    assert FIRST - timedelta(days=3) not in {pin.partition for pin in further.partitions}


def test_a_month_is_proven_with_a_week_on_both_sides() -> None:
    graph, node = derived(Window(), Grain.MONTHLY)
    accepted = frozenset(DayRange.inclusive(date(2024, 5, 1), date(2024, 8, 31)))
    manifest = planned(node, graph, [date(2024, 6, 1), date(2024, 7, 1)], accepted, ProofTerms(partitions=1))
    assert manifest.proof is not None
    begins, ends = ends_of(manifest.proof, node)
    (before,) = longer_reads(manifest, manifest.proof, begins, node, graph)
    (after,) = longer_reads(manifest, manifest.proof, ends, node, graph)
    assert before.days == DayRange.inclusive(date(2024, 5, 25), date(2024, 7, 7))
    assert after.days == DayRange.inclusive(date(2024, 7, 1), date(2024, 8, 7))
    # June and July are read by the run anyway.
    pinned = [pin.partition for pin in manifest.proof.inputs[0].partitions]
    assert pinned == [
        *DayRange.inclusive(date(2024, 5, 25), date(2024, 5, 31)),
        *DayRange.inclusive(date(2024, 8, 1), date(2024, 8, 7)),
    ]


def test_each_input_is_proven_by_its_own_measure() -> None:
    """A slow dimension is read a week longer, and not by what the events need."""
    edges = (
        TableInput(argument="events", table=SOURCE.name, window=Window(days_back=251, days_ahead=1)),
        TableInput(argument="rates", table=SOURCE.name, window=Window()),
    )
    node = TableNode(name="silver.derived", grain=Grain.DAILY, inputs=edges)
    graph = Graph(tables=topological([SOURCE, node]), first_day=date(2020, 1, 1))
    accepted = frozenset(DayRange.inclusive(date(2022, 1, 1), FIRST + timedelta(days=3)))
    pins = tuple(PinnedInput(argument=edge.argument, table=edge.table, partitions=()) for edge in edges)
    terms = ProofTerms(partitions=3)
    proof = longer_proof(terms, node, [FIRST], pins, graph=graph, state=Accepted(accepted))
    assert proof.more == (
        MoreDays(argument="events", back=251, ahead=7),
        MoreDays(argument="rates", back=7, ahead=7),
    )
    (end,) = ends_of(proof, node)
    manifest = replace(MANIFEST, table=node.name, partitions=(FIRST,), inputs=pins, proof=proof)
    events, rates = longer_reads(manifest, proof, end, node, graph)
    assert events.days == DayRange.inclusive(FIRST - timedelta(days=502), FIRST + timedelta(days=3))
    assert rates.days == DayRange.inclusive(FIRST - timedelta(days=7), FIRST + timedelta(days=3))
    more = more_days(reads_of(node, graph, [FIRST]), (events, rates))
    assert more_days_described(more) == (
        "251 more days back and 2 more days ahead of events, and 7 more days back and 3 more days ahead of rates"
    )


def test_a_month_that_reads_months_back_is_proven_with_as_many_days_again() -> None:
    graph, node = derived(Months(back=1), Grain.MONTHLY)
    accepted = frozenset(DayRange.inclusive(date(2024, 1, 1), date(2024, 6, 30)))
    manifest = planned(node, graph, [date(2024, 6, 1)], accepted, ProofTerms(partitions=1))
    assert manifest.proof is not None
    (end,) = ends_of(manifest.proof, node)
    (read,) = longer_reads(manifest, manifest.proof, end, node, graph)
    assert read.days == DayRange.inclusive(date(2024, 3, 31), date(2024, 6, 30))
    assert more_days(reads_of(node, graph, end.partitions), [read]) == (MoreDays(argument="rows", back=31, ahead=0),)


def test_a_proof_of_format_3_keeps_its_text_and_gives_every_input_as_many_more_days() -> None:
    graph, node = derived(Window(days_back=2, days_ahead=1))
    proof = Proof(partitions=(FIRST,), last=(), extra_days=7, extra_days_ahead=8)
    manifest = replace(planned(node, graph, [FIRST], frozenset(), ProofTerms(partitions=1)), format=3, proof=proof)
    assert '"extra_days":7' in manifest.text and '"more"' not in manifest.text
    again = Manifest.parse(manifest.text)
    assert (again, again.text) == (manifest, manifest.text)
    (end,) = ends_of(proof, node)
    assert end.more == (MoreDays(argument="rows", back=7, ahead=8),)


def test_a_proof_survives_the_text_of_its_manifest() -> None:
    graph, node = derived(Window(days_back=2, days_ahead=1))
    accepted = frozenset(DayRange.inclusive(date(2024, 5, 1), date(2024, 8, 31)))
    manifest = planned(node, graph, [FIRST], accepted, ProofTerms(partitions=3))
    assert Manifest.parse(manifest.text).proof == manifest.proof
    assert replace(manifest, proof=None).digest != manifest.digest


TOO_SHORT = Proven(
    partitions=(FIRST, FIRST + timedelta(days=1)),
    described="2024-06-10..2024-06-11, 2 days",
    windows={"rows": Window(days_back=31, days_ahead=1)},
    more=(MoreDays(argument="rows", back=31, ahead=7),),
    again={
        FIRST: Measured(partition=FIRST, rows=8_123, accepted_rows=8_123, changed=1_204, unchanged=6_919),
        FIRST + timedelta(days=1): Measured(partition=FIRST + timedelta(days=1), rows=5, unchanged=5),
    },
    differing=(FIRST,),
    examples=(
        SampledRow(
            partition=FIRST,
            key={"day": "2024-06-10", "case_id": "A1"},
            before={"due_on": "2024-07-01", "state": "MET"},
            after={"due_on": "2024-06-01", "state": "MET"},
        ),
    ),
)


def test_a_window_that_is_too_short_is_said_with_counts_and_no_values_of_rows() -> None:
    verdict = warm_up_verdict(FIRST, [TOO_SHORT])
    assert not verdict.passed
    assert verdict.sentence == (
        "with 31 more days back and 7 more days ahead, 1,204 of 8,123 rows differ: the window is too short"
    )
    assert verdict.observed["changed"] == 1_204
    assert "A1" not in str(verdict)


def test_partitions_that_were_not_computed_again_share_the_verdict() -> None:
    later = FIRST + timedelta(days=9)
    end = replace(
        TOO_SHORT,
        partitions=(later,),
        described="2024-06-19, 1 day",
        more=(MoreDays(argument="rows", back=0, ahead=1),),
        again={},
        differing=(),
        examples=(),
    )
    between = FIRST + timedelta(days=5)
    assert not warm_up_verdict(between, [TOO_SHORT, end]).passed
    good = replace(TOO_SHORT, differing=(), more=(MoreDays(argument="rows", back=31, ahead=0),))
    verdict = warm_up_verdict(between, [good, end])
    assert (verdict.passed, verdict.sentence) == (
        True,
        "proven on 2024-06-10..2024-06-11, 2 days, with 31 more days back and on 2024-06-19, 1 day, with "
        "1 more day ahead",
    )
    assert warm_up_verdict(FIRST + timedelta(days=1), [TOO_SHORT]).passed
    assert warm_up_verdict(later, [TOO_SHORT, end]).sentence == "no rows, as staged, with 1 more day ahead"


def test_a_verdict_names_the_inputs_whose_windows_differ() -> None:
    windows = {"events": Window(days_back=251, days_ahead=1), "rates": Window()}
    seam = replace(TOO_SHORT, windows=windows, more=(), differing=())
    with_both = "exactly 251 days back and 1 ahead of events, and 0 days back and 0 ahead of rates"
    assert warm_up_verdict(FIRST, [seam]).sentence == f"the same 8,123 rows with {with_both}"
    more = (MoreDays(argument="events", back=0, ahead=0), MoreDays(argument="rates", back=7, ahead=0))
    end = replace(seam, more=more)
    verdict = warm_up_verdict(FIRST, [end])
    assert verdict.sentence == "the same 8,123 rows with 7 more days back of rates"
    assert verdict.observed["windows"]["rates"] == {"days_back": 0, "days_ahead": 0}
    assert verdict.observed["more"]["rates"] == {"days_back": 7, "days_ahead": 0}


def test_where_there_is_nothing_more_to_read_the_verdict_says_so() -> None:
    alone = replace(TOO_SHORT, more=(MoreDays(argument="rows", back=0, ahead=0),), again={}, differing=(), examples=())
    for partition in (FIRST, FIRST + timedelta(days=9)):
        verdict = warm_up_verdict(partition, [alone])
        assert (verdict.passed, verdict.sentence) == (True, NOTHING_THERE)


def test_a_run_that_was_planned_without_a_proof_is_not_held_up() -> None:
    assert warm_up_verdict(FIRST, None).passed

"""The proof of the window: what it computes, against a model of a transform and a day-by-day reading; its verdicts.

The transform of the model is without Spark: the rows of a day are the input rows of some days around it, as far as they
are among the days that its call reads. What is computed when comes from the stages that a real run takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.calendar.partitions import ONE_DAY, DayRange, Grain
from backfill_assets.calendar.windows import AnyWindow, Window
from backfill_assets.gates.judge import warm_up_verdict
from backfill_assets.gates.measured import Measured, Proven
from backfill_assets.ledger.findings import Finding, SampledRow
from backfill_assets.planning.graph import Graph, TableInput, TableNode, topological
from backfill_assets.planning.manifest import Manifest, chunks_of, configuration_of
from backfill_assets.planning.manifest_parts import MoreDays, PinnedInput, PinnedPartition, Proof
from backfill_assets.planning.stages import (
    ProofTerms,
    Prove,
    Reads,
    Recomputation,
    computing,
    longer_reads,
    measuring,
    more_days,
    pinned_by,
    plan_proof,
    reads_of,
)
from backfill_assets.planning.state import AcceptedPartition
from backfill_assets.report.words.stages import stage_words
from backfill_assets.report.words.verdicts import more_days_words, verdict_words
from backfill_assets_tests.unit.planning.test_estimates import claim_of
from backfill_assets_tests.unit.planning.test_manifest import MANIFEST

FIRST = date(2024, 6, 10)
SOURCE = TableNode(name="bronze.source", grain=Grain.DAILY)
FIVE = ProofTerms(partitions=5)


def day(number: int) -> date:
    return FIRST + timedelta(days=number)


@dataclass(frozen=True)
class Accepted:
    """A state in which these days are accepted."""

    days: frozenset[date]

    def claims(self, table: str, partitions: Sequence[date]) -> Mapping[date, AcceptedPartition]:
        assert table == SOURCE.name
        return {day: claim_of(rows=1) for day in partitions if day in self.days}

    def open_runs(self, table: str, partitions: Sequence[date]) -> Sequence[str]:
        raise AssertionError(f"a proof asks for no runs: {table} {partitions}")


def derived(window: AnyWindow, grain: Grain = Grain.DAILY) -> tuple[Graph, TableNode]:
    edge = TableInput(argument="rows", table=SOURCE.name, window=window)
    node = TableNode(name="silver.derived", grain=grain, inputs=(edge,))
    return Graph(tables=topological([SOURCE, node]), first_day=date(2024, 1, 1)), node


def planned(
    node: TableNode,
    graph: Graph,
    output: Sequence[date],
    accepted: frozenset[date],
    terms: ProofTerms,
    chunks: Sequence[int] = (),
) -> Manifest:
    """The manifest of a run over these days, with its proof."""
    (edge,) = node.inputs
    own = tuple(
        PinnedPartition(partition=day, version=1, digest="d" * 64)
        for day in graph.needed(edge, node, output)
        if day in accepted
    )
    pins = (PinnedInput(argument="rows", table=SOURCE.name, partitions=own),)
    return replace(
        MANIFEST,
        table=node.name,
        grain=node.grain,
        partitions=tuple(output),
        chunks=tuple(chunks) or (len(output),),
        inputs=pins,
        proof=plan_proof(terms, node, output, pins, graph=graph, state=Accepted(accepted)),
        configuration=configuration_of(node),
    )


def ends_of(manifest: Manifest, graph: Graph) -> tuple[Recomputation, ...]:
    _, prove = measuring(manifest, graph)
    assert isinstance(prove, Prove)
    return prove.ends


def proof_of(manifest: Manifest) -> Proof:
    assert manifest.proof is not None
    return manifest.proof


# -------------------------------------------------------------------------------- a model of a transform and its runs

Rows = Mapping[date, int]
Computed = Sequence[tuple[date, int]]


@dataclass(frozen=True, kw_only=True)
class Modelled:
    """A run of the model, and which days around its own an output day depends on, whatever window is declared."""

    graph: Graph
    manifest: Manifest
    rows: Rows
    depends_on: frozenset[int]

    def computed(self, output: date, read: Sequence[Reads]) -> Computed:
        return self.over(output, frozenset(read[0].partitions))

    def over(self, output: date, there: frozenset[date]) -> Computed:
        needed = sorted(output + timedelta(days=number) for number in self.depends_on)
        return [(d, self.rows[d]) for d in needed if d in there and d in self.rows]

    @property
    def staged(self) -> Mapping[date, Computed]:
        return {
            partition: self.computed(partition, stage.reads)
            for stage in computing(self.manifest, self.graph)
            for partition in stage.chunk.partitions
        }

    @property
    def failing(self) -> set[date]:
        """The partitions whose rows are others when they are computed again."""
        _, prove = measuring(self.manifest, self.graph)
        assert isinstance(prove, Prove)
        staged = self.staged
        return {
            partition
            for call in (*prove.between_chunks, *prove.ends)
            for partition in call.compared
            if self.computed(partition, call.reads) != staged[partition]
        }


@st.composite
def chunked(draw: st.DrawFn) -> tuple[list[date], list[int]]:
    """Days in order, cut into chunks; most chunks follow the one before without a gap, and few have one inside."""
    numbers, chunks = [-1], []
    for size in draw(st.lists(st.sampled_from([1, 1, 2, 3, 4, 6, 9]), min_size=1, max_size=6)):
        chunks.append(size)
        for step in draw(st.lists(st.sampled_from([1] * 20 + [2, 9]), min_size=size, max_size=size)):
            numbers.append(numbers[-1] + step)
    return [day(n) for n in numbers[1:]], chunks


SHORT_BY = st.sampled_from([0, 1, 2, 3, 4, 5, 5, 5])
DECLARED = st.integers(min_value=0, max_value=4)


@st.composite
def modelled(draw: st.DrawFn, *, short: bool) -> tuple[Modelled, frozenset[date]]:
    """A run whose window may be short by up to five days on either side, and the input days that are accepted."""
    output, chunks = draw(chunked())
    back, ahead = draw(DECLARED), draw(DECLARED)
    first, last = (-back - draw(SHORT_BY), ahead + draw(SHORT_BY)) if short else (-back, ahead)
    graph, node = derived(Window(days_back=back, days_ahead=ahead))
    before, after = draw(st.integers(0, 9)), draw(st.integers(0, 9))
    accepted = frozenset(
        DayRange.inclusive(output[0] - timedelta(days=back + before), output[-1] + timedelta(days=ahead + after))
    )
    manifest = planned(node, graph, output, accepted, FIVE, chunks)
    # An output day that depends on a single day is the hardest to find: the days around it are right.
    depends_on = draw(st.sampled_from([(first,), (last,), (first, last), (first, 0), range(first, last + 1)]))
    without = draw(st.sets(st.integers(-20, 80).map(day)))
    rows = {d: d.day for d in accepted - without}
    return Modelled(graph=graph, manifest=manifest, rows=rows, depends_on=frozenset(depends_on)), accepted


@settings(max_examples=300)
@given(modelled(short=True))
def test_where_a_window_is_short_by_up_to_five_days_every_row_that_is_staged_wrong_is_found(
    drawn: tuple[Modelled, frozenset[date]],
) -> None:
    run, accepted = drawn
    wrong = {partition for partition, found in run.staged.items() if found != run.over(partition, accepted)}
    assert run.failing >= wrong


@given(modelled(short=False))
def test_a_window_that_suffices_never_fails_and_the_chunks_make_no_difference(
    drawn: tuple[Modelled, frozenset[date]],
) -> None:
    run, accepted = drawn
    assert run.failing == set()
    assert all(found == run.over(partition, accepted) for partition, found in run.staged.items())


def test_the_first_day_of_a_chunk_is_compared_where_it_alone_depends_on_the_missing_day() -> None:
    """What was due 28 days after an order of every tenth day, and no other day before it: no row of the day before."""
    output = [day(n) for n in range(110)]
    graph, node = derived(Window(days_back=23))
    accepted = frozenset(DayRange.inclusive(day(-60), day(120)))
    manifest = planned(node, graph, output, accepted, FIVE, [10] * 11)
    orders = {day(n): 1 for n in range(-58, 110, 10)}
    run = Modelled(graph=graph, manifest=manifest, rows=orders, depends_on=frozenset({-28}))
    assert run.failing == {day(n) for n in range(0, 110, 10)}


# -------------------------------------------------------------------------------- what is computed once more


def test_chunks_compute_the_partitions_next_to_them_across_small_chunks_and_not_across_gaps() -> None:
    graph, node = derived(Window(days_back=2))
    output = [day(n) for n in (*range(7), *range(20, 24))]
    manifest = planned(node, graph, output, frozenset(), FIVE, [3, 1, 3, 2, 2])
    found = [(c.before, c.partitions, c.after) for c in chunks_of(manifest)]
    days = [tuple(tuple(d.toordinal() - FIRST.toordinal() for d in part) for part in parts) for parts in found]
    assert days == [
        ((), (0, 1, 2), (3, 4, 5)),
        ((0, 1, 2), (3,), (4, 5, 6)),
        ((1, 2, 3), (4, 5, 6), ()),
        ((), (20, 21), (22, 23)),
        ((20, 21), (22, 23), ()),
    ]
    assert [c.computed for c in chunks_of(manifest)] == [before + own + after for before, own, after in found]
    assert [c.once_more for c in chunks_of(replace(manifest, proof=None))] == [()] * 5


def test_the_ends_of_a_run_and_the_partitions_around_its_gaps_are_computed_with_longer_windows() -> None:
    graph, node = derived(Window(days_back=2))
    output = [day(n) for n in (*range(8), *range(20, 24), 40)]
    proof = proof_of(planned(node, graph, output, frozenset(), ProofTerms(partitions=3)))
    assert proof.partitions == tuple(day(n) for n in (0, 1, 2, 5, 6, 7, 20, 21, 22, 23, 40))
    assert (proof.beside, proof.more) == (2, (MoreDays(argument="rows", back=7, ahead=7),))


def test_the_ends_in_a_chunk_are_one_call_unless_that_would_leave_out_days_between_them() -> None:
    accepted = frozenset(DayRange.inclusive(day(-35), day(200)))
    output = [day(n) for n in range(40)]
    ends = [day(n) for n in (*range(5), *range(35, 40))]
    for back, chunks, calls in ((30, [40], 1), (29, [40], 2), (35, [20, 20], 2), (35, [3] * 13 + [1], 5)):
        graph, node = derived(Window(days_back=back))
        found = ends_of(planned(node, graph, output, accepted, FIVE, chunks), graph)
        assert len({end.computed for end in found}) == calls
        assert [p for end in found for p in end.compared] == ends
    # With gaps the chunk has left out days between them as well.
    graph, node = derived(Window())
    (end,) = ends_of(planned(node, graph, output[:6] + output[30:], accepted, FIVE), graph)
    assert end.computed == (*output[:6], *output[30:])


DAYS = st.integers(min_value=0, max_value=12)


@given(DAYS, DAYS, st.integers(1, 25), st.integers(1, 4), st.sets(st.integers(-60, 60), max_size=40), st.none() | DAYS)
def test_a_proof_reads_outward_from_the_window_up_to_the_first_day_that_is_not_accepted(
    back: int, ahead: int, count: int, most: int, gaps: set[int], extra: int | None
) -> None:
    graph, node = derived(Window(days_back=back, days_ahead=ahead))
    output = [day(number) for number in range(count)]
    window = {day(n) for n in range(-back, count + ahead)}
    accepted = frozenset({day(n) for n in range(-60, 60)} - {day(n) for n in gaps} | window)
    manifest = planned(node, graph, output, accepted, ProofTerms(partitions=most, extra_days=extra or None))
    proof = proof_of(manifest)
    assert list(proof.partitions) == sorted({*output[:most], *output[-most:]})
    own = {pin.partition for pin in manifest.inputs[0].partitions}
    further: set[date] = set()
    _, prove = measuring(manifest, graph)
    assert isinstance(prove, Prove)
    for end in (replace(each, compared=row) for each in prove.ends for row in node.in_a_row(each.compared)):
        begins, ends = end.compared[0] - timedelta(days=back), end.compared[-1] + timedelta(days=ahead)
        earliest, latest = begins, ends
        while earliest - ONE_DAY in accepted and (begins - earliest).days < (extra or 7):
            earliest -= ONE_DAY
        while latest + ONE_DAY in accepted and (latest - ends).days < (extra or 7):
            latest += ONE_DAY
        assert end.more == (MoreDays(argument="rows", back=(begins - earliest).days, ahead=(latest - ends).days),)
        (read,) = end.reads
        assert set(DayRange.inclusive(earliest, latest)) <= set(read.partitions)
        assert (read.days.start, read.days.last) == (read.partitions[0], read.partitions[-1])
        further |= set(read.partitions) - own
    assert {pin.partition for pin in proof.inputs[0].partitions} == further


def test_a_window_that_is_not_complete_is_left_to_the_refusal_of_the_plan() -> None:
    graph, node = derived(Window(days_back=3, days_ahead=1))
    accepted = frozenset(DayRange.inclusive(day(-2), day(30)))
    (further,) = proof_of(planned(node, graph, [FIRST], accepted, FIVE)).inputs
    assert day(-3) not in {pin.partition for pin in further.partitions}


def test_a_month_is_proven_with_a_week_on_both_sides() -> None:
    graph, node = derived(Window(), Grain.MONTHLY)
    accepted = frozenset(DayRange.inclusive(date(2024, 5, 1), date(2024, 12, 31)))
    months = [date(2024, n, 1) for n in (6, 7, 8, 9)]
    manifest = planned(node, graph, months, accepted, ProofTerms(partitions=1), [2, 2])
    assert [chunk.once_more for chunk in chunks_of(manifest)] == [(months[2],), (months[1],)]
    _, prove = measuring(manifest, graph)
    assert isinstance(prove, Prove)
    first, last = (end.reads[0] for end in prove.ends)
    assert first.days == DayRange.inclusive(date(2024, 5, 25), date(2024, 7, 7))
    assert last.days == DayRange.inclusive(date(2024, 8, 25), date(2024, 10, 7))
    # June to September are read by the run anyway.
    assert [pin.partition for pin in proof_of(manifest).inputs[0].partitions] == [
        *DayRange.inclusive(date(2024, 5, 25), date(2024, 5, 31)),
        *DayRange.inclusive(date(2024, 10, 1), date(2024, 10, 7)),
    ]


def test_each_input_is_read_as_far_as_its_own_days_are_accepted() -> None:
    edges = (
        TableInput(argument="events", table=SOURCE.name, window=Window(days_back=251, days_ahead=1)),
        TableInput(argument="rates", table=SOURCE.name, window=Window()),
    )
    node = TableNode(name="silver.derived", grain=Grain.DAILY, inputs=edges)
    graph = Graph(tables=topological([SOURCE, node]), first_day=date(2020, 1, 1))
    accepted = frozenset(DayRange.inclusive(day(-400), day(3)))
    pins = tuple(PinnedInput(argument=edge.argument, table=edge.table, partitions=()) for edge in edges)
    proof = plan_proof(FIVE, node, [FIRST], pins, graph=graph, state=Accepted(accepted))
    manifest = replace(MANIFEST, table=node.name, partitions=(FIRST,), inputs=pins, proof=proof)
    events, rates = longer_reads(proof, [FIRST], node, graph, pinned_by(manifest, proof))
    assert events.days == DayRange.inclusive(day(-258), day(3))
    assert rates.days == DayRange.inclusive(day(-7), day(3))
    more = more_days(reads_of(node, graph, [FIRST]), (events, rates))
    assert more_days_words(more) == (
        "7 more days back and 2 more days ahead of events, and 7 more days back and 3 more days ahead of rates"
    )


def test_a_call_reads_more_days_around_each_of_its_rows_of_partitions() -> None:
    accepted = frozenset(DayRange.inclusive(day(-400), day(400)))
    graph, node = derived(Window())
    (end,) = ends_of(planned(node, graph, [day(0), day(1), day(30)], accepted, FIVE), graph)
    assert end.reads[0].partitions == tuple(day(n) for n in (*range(-7, 9), *range(23, 38)))


def test_the_plan_says_which_days_are_computed_once_more() -> None:
    graph, node = derived(Window(days_back=2))
    accepted = frozenset(DayRange.inclusive(day(-2), day(60)))
    manifest = planned(node, graph, [day(n) for n in range(8)], accepted, ProofTerms(partitions=3), [4, 4])
    first, second = computing(manifest, graph)
    assert "2024-06-10..2024-06-13, 4 days (and 2024-06-14..2024-06-15, 2 days, once more)" in stage_words(first)
    assert (
        "2024-06-14..2024-06-17, 4 days (and 2024-06-12..2024-06-13, 2 days, once more), "
        "from bronze.source 2024-06-10..2024-06-17"
    ) in stage_words(second)
    _, prove = measuring(manifest, graph)
    assert stage_words(prove) == (
        "prove the window of silver.derived: 2024-06-10..2024-06-12, 3 days, once more with 7 more days ahead; "
        "2024-06-15..2024-06-17, 3 days, once more with 5 more days back and 7 more days ahead; "
        "2024-06-12..2024-06-15, 4 days, once more with the chunks beside them"
    )


# -------------------------------------------------------------------------------- manifests, also former


def test_a_proof_survives_the_text_of_its_manifest() -> None:
    graph, node = derived(Window(days_back=2, days_ahead=1))
    accepted = frozenset(DayRange.inclusive(date(2024, 5, 1), date(2024, 8, 31)))
    manifest = planned(node, graph, [FIRST], accepted, FIVE)
    assert Manifest.parse(manifest.text) == manifest
    assert replace(manifest, proof=None).digest != manifest.digest


# -------------------------------------------------------------------------------- verdicts


TOO_SHORT = Proven(
    partitions=(FIRST, FIRST + timedelta(days=1)),
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
    assert verdict_words(verdict) == (
        "with 31 more days back and 7 more days ahead, 1,204 of 8,123 rows differ: "
        "the window is too short, or the transform does not give the same rows twice"
    )
    assert verdict.observed["changed"] == 1_204
    assert "A1" not in str(verdict)


def test_partitions_that_were_not_computed_again_share_the_verdict() -> None:
    later = FIRST + timedelta(days=9)
    end = replace(
        TOO_SHORT,
        partitions=(later,),
        more=(MoreDays(argument="rows", back=0, ahead=1),),
        again={},
        differing=(),
        examples=(),
    )
    between = FIRST + timedelta(days=5)
    assert not warm_up_verdict(between, [TOO_SHORT, end]).passed
    good = replace(TOO_SHORT, differing=(), more=(MoreDays(argument="rows", back=31, ahead=0),))
    verdict = warm_up_verdict(between, [good, end])
    assert (verdict.passed, verdict_words(verdict)) == (
        True,
        "proven on 3 others, 2024-06-10 to 2024-06-19",
    )
    assert warm_up_verdict(FIRST + timedelta(days=1), [TOO_SHORT]).passed
    assert verdict_words(warm_up_verdict(later, [TOO_SHORT, end])) == "no rows, as staged, with 1 more day ahead"


def test_a_verdict_names_the_inputs_whose_windows_differ() -> None:
    windows = {"events": Window(days_back=251, days_ahead=1), "rates": Window()}
    more = (MoreDays(argument="events", back=0, ahead=0), MoreDays(argument="rates", back=7, ahead=0))
    end = replace(TOO_SHORT, windows=windows, more=more, differing=())
    verdict = warm_up_verdict(FIRST, [end])
    assert verdict_words(verdict) == "the same 8,123 rows with 7 more days back of rates"
    assert verdict.observed["windows"]["rates"] == {"days_back": 0, "days_ahead": 0}
    assert verdict.observed["more"]["rates"] == {"days_back": 7, "days_ahead": 0}


def test_where_there_is_nothing_more_to_read_the_verdict_says_so() -> None:
    alone = replace(TOO_SHORT, more=(MoreDays(argument="rows", back=0, ahead=0),), again={}, differing=(), examples=())
    for partition in (FIRST, FIRST + timedelta(days=9)):
        verdict = warm_up_verdict(partition, [alone])
        assert (verdict.passed, verdict.finding) == (True, Finding.NOTHING_TO_COMPARE)


def test_a_run_that_was_planned_without_a_proof_is_not_held_up() -> None:
    assert warm_up_verdict(FIRST, None).passed


BESIDE = Proven(
    partitions=(day(5), day(9)),
    windows={"rows": Window(days_back=27)},
    again={day(5): Measured(partition=day(5), rows=4, changed=1, unchanged=3), day(9): Measured(partition=day(9))},
)


def test_verdicts_speak_of_what_chunks_compute_of_their_neighbours() -> None:
    assert verdict_words(warm_up_verdict(day(5), [BESIDE])) == "the same 4 rows with other partitions in the same call"
    assert verdict_words(warm_up_verdict(day(1), [BESIDE])) == ("proven on 2 others, 2024-06-15 to 2024-06-19")
    short = replace(BESIDE, differing=(day(5),))
    verdict = warm_up_verdict(day(5), [short])
    assert (verdict.passed, verdict_words(verdict)) == (
        False,
        "with other partitions in the same call, 1 of 4 rows differ: "
        "the window is too short, or the transform does not give the same rows twice",
    )
    assert (
        verdict_words(warm_up_verdict(day(1), [short]))
        == "the window is too short, or the transform does not give the same rows twice, as 2024-06-15 shows"
    )


def test_a_partition_that_was_computed_again_twice_fails_where_either_differs() -> None:
    same = replace(TOO_SHORT, partitions=(day(5),), again={}, differing=(), examples=())
    short = replace(BESIDE, differing=(day(5),))
    nothing = replace(same, more=(MoreDays(argument="rows", back=0, ahead=0),))
    for proven in ([same, short], [short, same]):
        assert not warm_up_verdict(day(5), proven).passed
    assert verdict_words(warm_up_verdict(day(5), [nothing, BESIDE])).startswith("the same 4 rows")


def test_where_the_key_is_not_unique_the_proof_is_not_usable_and_does_not_pass() -> None:
    crosswise = Measured(partition=day(5), rows=4, changed=2, unchanged=2, surplus=1)
    doubled = replace(BESIDE, differing=(day(5),), again={**BESIDE.again, day(5): crosswise})
    verdict = warm_up_verdict(day(5), [doubled])
    assert not verdict.passed
    assert verdict.finding is Finding.UNUSABLE
    other = warm_up_verdict(day(1), [doubled])
    assert (other.passed, other.finding, other.observed) == (
        False,
        Finding.UNUSABLE_ELSEWHERE,
        {"shown_by": "2024-06-15"},
    )
    # The same rows, shared keys or not: equal checksums are equal rows.
    assert warm_up_verdict(day(5), [replace(doubled, differing=())]).passed

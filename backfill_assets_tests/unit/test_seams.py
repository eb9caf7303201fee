"""Every seam is proven: a window that is short by one day fails there, one that suffices never does.

The transform is a model without Spark: the rows of a day are the input rows of the days that it needs, as far as they
are among the days that its call reads. What is computed when comes from the stages that a real run takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import pairwise

from hypothesis import assume, given
from hypothesis import strategies as st

from backfill_assets.gates.judge_proof import NOT_USABLE, warm_up_verdict
from backfill_assets.gates.measure import Measured
from backfill_assets.gates.proven import Proven
from backfill_assets.planning.chunks import chunks_of
from backfill_assets.planning.graph import Graph, TableInput, TableNode, topological
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import PinnedInput, PinnedPartition, Proof
from backfill_assets.planning.partitions import Grain, days_of
from backfill_assets.planning.proof import ProofTerms, plan_proof
from backfill_assets.planning.reads import reads_of
from backfill_assets.planning.request import configuration_of, node_of
from backfill_assets.planning.seams import seams_of
from backfill_assets.planning.stages import Prove, computing, measuring, sentence
from backfill_assets.planning.windows import Window
from backfill_assets_tests.unit.test_manifest import MANIFEST
from backfill_assets_tests.unit.test_proof import FIRST, SOURCE, Accepted, derived

Rows = Mapping[date, int]


def day(number: int) -> date:
    return FIRST + timedelta(days=number)


@dataclass(frozen=True, kw_only=True)
class Modelled:
    """A run of the model over some days, and what its transform needs whatever is declared."""

    graph: Graph
    manifest: Manifest
    rows: Rows
    needs: Window

    def computed(self, output: date, partitions: Sequence[date]) -> Sequence[tuple[date, int]]:
        """What a day comes to in a call that computes these partitions."""
        (read,) = reads_of(node_of(self.manifest), self.graph, partitions)
        there = set(read.partitions)
        needed = self.needs.around(days_of(Grain.DAILY, output))
        return [(d, self.rows[d]) for d in needed if d in there and self.rows.get(d)]

    @property
    def staged(self) -> Mapping[date, Sequence[tuple[date, int]]]:
        return {
            partition: self.computed(partition, stage.chunk.computed)
            for stage in computing(self.manifest, self.graph)
            for partition in stage.chunk.partitions
        }

    @property
    def failing(self) -> set[date]:
        """The seams that differ."""
        found: dict[date, Sequence[tuple[date, int]]] = {}
        for stage in computing(self.manifest, self.graph):
            if stage.chunk.seam:
                found[stage.chunk.seam] = self.computed(stage.chunk.seam, stage.chunk.computed)
        for gating in measuring(self.manifest, self.graph):
            if isinstance(gating, Prove):
                found |= {
                    seam: self.computed(seam, again.computed) for again in gating.alone for seam in again.compared
                }
        assert found.keys() == set(seams(self.manifest))
        staged = self.staged
        return {seam for seam, again in found.items() if again != staged[seam]}


def seams(manifest: Manifest) -> tuple[date, ...]:
    return manifest.proof.seams if manifest.proof else ()


def modelled(
    output: Sequence[date],
    chunks: Sequence[int],
    *,
    declared: Window,
    needs: Window,
    rows: Rows,
    terms: ProofTerms | None = None,
) -> Modelled:
    graph, node = derived(declared)
    (edge,) = node.inputs
    needed = graph.needed(edge, node, output)
    pins = PinnedInput(
        argument="rows",
        table=SOURCE.name,
        partitions=tuple(PinnedPartition(partition=d, version=1, digest="d" * 64) for d in needed),
    )
    proof = plan_proof(
        terms or ProofTerms(partitions=3),
        node,
        output,
        chunks,
        {"rows": rows},
        (pins,),
        graph=graph,
        state=Accepted(frozenset()),
    )
    manifest = replace(
        MANIFEST,
        table=node.name,
        grain=node.grain,
        partitions=tuple(output),
        chunks=tuple(chunks),
        inputs=(pins,),
        proof=proof,
        configuration=configuration_of(node),
    )
    return Modelled(graph=graph, manifest=manifest, rows=rows, needs=needs)


@st.composite
def chunked(draw: st.DrawFn) -> tuple[list[date], list[int]]:
    """Days in order, some of them with gaps between, and how they are cut into chunks."""
    steps = draw(st.lists(st.sampled_from([1, 1, 1, 1, 2, 30]), min_size=0, max_size=25))
    numbers = [0]
    for step in steps:
        numbers.append(numbers[-1] + step)
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(numbers) - 1)))))
    edges = [0, *(cut for cut in cuts if cut < len(numbers)), len(numbers)]
    return [day(n) for n in numbers], [later - earlier for earlier, later in pairwise(edges)]


NEEDED = st.integers(min_value=1, max_value=9)
SOME_ROWS = st.dictionaries(st.integers(-20, 90).map(day), st.integers(0, 5), max_size=60)


def has_a_neighbour(seam: date, output: Sequence[date], step: int) -> bool:
    return seam + timedelta(days=step) in set(output)


@given(chunked(), NEEDED, st.integers(0, 4), SOME_ROWS)
def test_a_window_short_by_one_day_back_fails_at_every_seam_that_depends_on_that_day(
    cut: tuple[list[date], list[int]], back: int, ahead: int, rows: Rows
) -> None:
    output, chunks = cut
    declared, needs = Window(days_back=back - 1, days_ahead=ahead), Window(days_back=back, days_ahead=ahead)
    run = modelled(output, chunks, declared=declared, needs=needs, rows=rows)
    depends = {s for s in seams(run.manifest) if rows.get(s - timedelta(days=back)) and has_a_neighbour(s, output, -1)}
    assert run.failing >= depends


@given(chunked(), st.integers(0, 4), NEEDED, SOME_ROWS)
def test_a_window_short_by_one_day_ahead_fails_at_every_seam_that_depends_on_that_day(
    cut: tuple[list[date], list[int]], back: int, ahead: int, rows: Rows
) -> None:
    output, chunks = cut
    declared, needs = Window(days_back=back, days_ahead=ahead - 1), Window(days_back=back, days_ahead=ahead)
    run = modelled(output, chunks, declared=declared, needs=needs, rows=rows)
    # A chunk ends with its own look-ahead, so a day at its end lacks what the next chunk has.
    depends = {s for s in seams(run.manifest) if rows.get(s + timedelta(days=ahead))}
    assert run.failing >= depends


@given(chunked(), NEEDED, st.integers(0, 4), st.integers(0, 3), st.integers(0, 3), SOME_ROWS)
def test_a_window_that_suffices_never_fails_and_the_chunks_make_no_difference(
    cut: tuple[list[date], list[int]], back: int, ahead: int, spare_back: int, spare_ahead: int, rows: Rows
) -> None:
    output, chunks = cut
    declared = Window(days_back=back + spare_back, days_ahead=ahead + spare_ahead)
    needs = Window(days_back=back, days_ahead=ahead)
    run = modelled(output, chunks, declared=declared, needs=needs, rows=rows)
    assert run.failing == set()
    whole = modelled(output, [len(output)], declared=declared, needs=needs, rows=rows)
    assert run.staged == whole.staged


@given(chunked(), st.sampled_from([1, 2, 3]))
def test_every_seam_between_consecutive_chunks_is_proven_or_no_partition_lies_between_two_others(
    cut: tuple[list[date], list[int]], most: int
) -> None:
    output, chunks = cut
    graph, node = derived(Window(days_back=2))
    found = seams_of(node, output, chunks, {"rows": {}}, graph, most_alone=most)
    between = [d for d in output if has_a_neighbour(d, output, -1) and has_a_neighbour(d, output, 1)]
    ends = [
        chunk.partitions[-1] for chunk in chunks_of(replace(MANIFEST, partitions=tuple(output), chunks=tuple(chunks)))
    ]
    consecutive = [end for end in ends[:-1] if has_a_neighbour(end, output, 1)]
    assert bool(found) == bool(between)
    assume(found)
    assert set(found) >= set(consecutive)
    assert set(found) & set(between), "at least one seam had more input on both sides"
    alone = set(found) - set(consecutive)
    assert len(alone) == (0 if set(consecutive) & set(between) else min(most, len(between)))
    assert alone <= set(between)


def test_a_run_in_one_chunk_is_proven_where_its_input_is_densest() -> None:
    output = [day(n) for n in range(40)]
    dense = {day(20): 9, day(17): 9, day(30): 5, day(27): 50, day(5): 7}
    run = modelled(output, [40], declared=Window(days_back=2), needs=Window(), rows=dense)
    # Of its own rows, and of those right before its window, a product: 20 and 17, 30 and 27.
    assert set(seams(run.manifest)) > {day(20), day(30)}
    few = modelled(
        output, [40], declared=Window(days_back=2), needs=Window(), rows=dense, terms=ProofTerms(partitions=1)
    )
    assert seams(few.manifest) == (day(30),)
    assert few.manifest.proof == Proof(seams=(day(30),)), "no other window, and nothing further to pin"


def test_a_month_between_two_others_is_a_seam_too() -> None:
    edge = TableInput(argument="rows", table=SOURCE.name, window=Window(days_back=3))
    node = TableNode(name="gold.derived", grain=Grain.MONTHLY, inputs=(edge,))
    graph = Graph(tables=topological([SOURCE, node]), first_day=date(2024, 1, 1))
    months = [date(2024, n, 1) for n in (3, 4, 5, 6)]
    rows = {date(2024, 5, 7): 4, date(2024, 4, 7): 3}
    assert seams_of(node, months, [4], {"rows": rows}, graph, most_alone=1) == (date(2024, 5, 1),)
    assert seams_of(node, months, [1, 3], {"rows": rows}, graph, most_alone=1) == (date(2024, 3, 1), date(2024, 5, 1))
    assert seams_of(node, months, [2, 2], {"rows": rows}, graph, most_alone=1) == (date(2024, 4, 1),)
    assert seams_of(node, months[:2], [1, 1], {"rows": rows}, graph, most_alone=1) == ()


def test_a_chunk_after_a_gap_has_no_seam_with_the_one_before() -> None:
    output = [*(day(n) for n in range(6)), *(day(n) for n in range(20, 26))]
    run = modelled(output, [3, 3, 3, 3], declared=Window(days_back=2), needs=Window(), rows={})
    assert [chunk.seam for chunk in chunks_of(run.manifest)] == [None, day(2), None, day(22)]
    apart = modelled(output, [6, 6], declared=Window(days_back=2), needs=Window(), rows={day(21): 9})
    assert [chunk.seam for chunk in chunks_of(apart.manifest)] == [None, None]
    assert len(seams(apart.manifest)) == 3 and day(21) in seams(apart.manifest)


def test_the_plan_says_which_days_are_computed_once_more() -> None:
    run = modelled([day(n) for n in range(6)], [3, 3], declared=Window(days_back=2), needs=Window(), rows={})
    first, second = computing(run.manifest, run.graph)
    assert "once more" not in sentence(first)
    assert (
        "2024-06-13..2024-06-15, 3 days (and 2024-06-12, 1 day, once more), from bronze.source 2024-06-10..2024-06-15"
    ) in sentence(second)
    _, prove = measuring(run.manifest, run.graph)
    assert sentence(prove) == (
        "prove the window of silver.derived: 2024-06-12, 1 day, once more with the next chunk each and exactly the "
        "declared window"
    )


def test_seams_are_part_of_the_text_of_a_manifest_since_format_3() -> None:
    run = modelled([day(n) for n in range(6)], [3, 3], declared=Window(days_back=2), needs=Window(), rows={})
    assert Manifest.parse(run.manifest.text) == run.manifest
    earlier = replace(run.manifest, format=2, proof=Proof(partitions=(day(0),), extra_days=7, extra_days_ahead=7))
    assert '"seams"' not in earlier.text
    assert Manifest.parse(earlier.text).proof == earlier.proof
    assert Manifest.parse(earlier.text).text == earlier.text
    assert [chunk.seam for chunk in chunks_of(earlier)] == [None, None]


SEAM = Proven(
    partitions=(day(5), day(9)),
    described="2024-06-15, 2024-06-19, 2 days",
    windows={"rows": Window(days_back=27)},
    again={day(5): Measured(partition=day(5), rows=4, changed=1, unchanged=3), day(9): Measured(partition=day(9))},
)


def test_verdicts_speak_of_the_declared_window() -> None:
    assert warm_up_verdict(day(5), [SEAM]).sentence == "the same 4 rows with exactly 27 days back and 0 ahead"
    assert warm_up_verdict(day(1), [SEAM]).sentence == (
        "proven on 2024-06-15, 2024-06-19, 2 days, with exactly 27 days back and 0 ahead"
    )
    short = replace(SEAM, differing=(day(5),))
    verdict = warm_up_verdict(day(5), [short])
    assert (verdict.passed, verdict.sentence) == (
        False,
        "with exactly 27 days back and 0 ahead, 1 of 4 rows differ: the window is too short",
    )
    assert warm_up_verdict(day(1), [short]).sentence == "the window is too short, as 2024-06-15 shows"


def test_where_the_key_is_not_unique_the_proof_is_not_usable_and_does_not_pass() -> None:
    crosswise = Measured(partition=day(5), rows=4, changed=2, unchanged=2, surplus=1)
    doubled = replace(SEAM, differing=(day(5),), again={**SEAM.again, day(5): crosswise})
    verdict = warm_up_verdict(day(5), [doubled])
    assert not verdict.passed
    assert verdict.sentence.startswith(NOT_USABLE) and "too short" not in verdict.sentence
    other = warm_up_verdict(day(1), [doubled])
    assert (other.passed, other.sentence) == (False, f"{NOT_USABLE}: the key is not unique on 2024-06-15")
    # The same rows, shared keys or not: equal checksums are equal rows.
    assert warm_up_verdict(day(5), [replace(doubled, differing=())]).passed

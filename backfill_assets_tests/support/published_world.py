"""A small world of published tables: what runs pinned, what is accepted, and what a run of a plan does to it.

Rows are one number per partition. A number follows from the version, the facts around the day and the input numbers of
the window; it is small, so that a run often computes what was there already, as early cutoff wants it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from functools import partial
from itertools import count

from hypothesis import strategies as st

from backfill_assets.calendar.partitions import DayRange, Grain, compress, days_of
from backfill_assets.calendar.windows import Window
from backfill_assets.planning.graph import Graph, TableNode
from backfill_assets.planning.impact import Rebuild
from backfill_assets.planning.manifest import configuration_of
from backfill_assets.planning.manifest_parts import PinnedReference
from backfill_assets.planning.state import ComputedFrom, ComputedFromInput
from backfill_assets.staleness.decide import CurrentState, ReferenceDiff, Staleness, find_stale
from backfill_assets_tests.support.graph_examples import SPAN, accepted_partitions, every_partition, graphs, inputs_of

AT = datetime(2026, 1, 15, 12, tzinfo=UTC)
FACTS = "facts"


@dataclass(frozen=True, kw_only=True)
class Facts:
    """A reference: a number for some days, and whether its author can say which days differ."""

    version: str
    by_day: Mapping[date, int]
    narrows: bool

    @property
    def pinned(self) -> PinnedReference:
        return PinnedReference(name=FACTS, version=self.version, sha256=self.version.rjust(64, "0"))


@dataclass(kw_only=True)
class World:
    """Tables and what is published of them."""

    graph: Graph
    facts: Facts
    reference_windows: Mapping[str, Window | None]
    """Tables that use the reference: how far around a day its facts count, None where the author did not say."""
    versions: dict[str, int]
    code: str = "code-0"
    numbers: dict[str, dict[date, int]] = field(default_factory=dict)
    digests: dict[str, dict[date, str]] = field(default_factory=dict)
    rests_on: dict[str, dict[date, list[str]]] = field(default_factory=dict)
    """The run that made each accepted version, and those that found it equal, the last one last."""
    runs: dict[str, ComputedFrom] = field(default_factory=dict)
    staged: dict[str, dict[date, int]] = field(default_factory=dict)
    known_facts: dict[str, Facts] = field(default_factory=dict)
    ids: Iterable[int] = field(default_factory=lambda: count(1))

    def accepted(self) -> dict[str, set[date]]:
        return {name: set(digests) for name, digests in self.digests.items()}

    def gaps(self, node: TableNode) -> set[date]:
        """What is missing between the first and the last accepted partition."""
        held = self.digests[node.name]
        return {p for p in every_partition(node.grain) if held and min(held) < p < max(held)} - held.keys()

    def true_number(self, node: TableNode, partition: date) -> int:
        """What a run would compute now."""
        total = self.versions[node.name]
        if node.name in self.reference_windows:
            around = (self.reference_windows[node.name] or Window()).around(days_of(node.grain, partition))
            total += sum(fact for day, fact in self.facts.by_day.items() if day in around)
        for edge in node.inputs:
            total += sum(self.numbers[edge.table][day] for day in inputs_of(self.graph, edge, node, partition))
        return total // 2 % 4

    def write_source(self, name: str, day: date, number: int) -> None:
        run_id = f"{name}-{next(iter(self.ids))}"
        self.numbers[name][day] = number
        self._accept(name, day, run_id)
        self.runs[run_id] = self._basis(run_id, self.graph.table(name))

    def run(self, name: str, partitions: Iterable[date]) -> None:
        """A run over some partitions: pins everything it reads, and leaves alone what comes out equal."""
        node = self.graph.table(name)
        run_id = f"{name}-{next(iter(self.ids))}"
        chosen = list(partitions)
        self.runs[run_id] = replace(
            self._basis(run_id, node),
            inputs=tuple(
                ComputedFromInput(
                    edge=edge,
                    digests={
                        day: self.digests[edge.table][day]
                        for partition in chosen
                        for day in inputs_of(self.graph, edge, node, partition)
                    },
                )
                for edge in node.inputs
            ),
        )
        numbers = {partition: self.true_number(node, partition) for partition in chosen}
        self.staged[run_id] = numbers
        for partition, number in numbers.items():
            if self.numbers[name].get(partition) == number:
                self.rests_on[name][partition].append(run_id)
            else:
                self.numbers[name][partition] = number
                self._accept(name, partition, run_id)

    def _accept(self, name: str, partition: date, run_id: str) -> None:
        self.digests[name][partition] = f"{run_id} {partition}"
        self.rests_on[name][partition] = [run_id]

    def find_equal_late(self, name: str, run_id: str) -> None:
        """A run that was staged long ago is published: partitions that it found equal depend on it too."""
        for partition, number in self.staged[run_id].items():
            if self.numbers[name].get(partition) == number:
                self.rests_on[name][partition].append(run_id)

    def _basis(self, run_id: str, node: TableNode) -> ComputedFrom:
        return ComputedFrom(
            run_id=run_id,
            partitions=(),
            transform="made-up",
            transform_version=str(self.versions[node.name]),
            code_digest=self.code,
            configuration=configuration_of(node),
            references=(self.facts.pinned,) if node.name in self.reference_windows else (),
            inputs=(),
            imports=frozenset(),
            requested_at=AT,
            session_digest="",
        )

    def bases(self, name: str) -> list[ComputedFrom]:
        return self._bases((partition, runs[-1]) for partition, runs in sorted(self.rests_on[name].items()))

    def earlier(self, name: str, partitions: Collection[date]) -> list[ComputedFrom]:
        """The other bases of some partitions."""
        return self._bases((partition, run) for partition in partitions for run in self.rests_on[name][partition][:-1])

    def _bases(self, pairs: Iterable[tuple[date, str]]) -> list[ComputedFrom]:
        stands_for: dict[str, list[date]] = {}
        for partition, run_id in pairs:
            stands_for.setdefault(run_id, []).append(partition)
        return [replace(self.runs[run_id], partitions=tuple(some)) for run_id, some in stands_for.items()]

    def changed_facts(self, used: Facts) -> set[date]:
        every = used.by_day.keys() | self.facts.by_day.keys()
        return {day for day in every if used.by_day.get(day, 0) != self.facts.by_day.get(day, 0)}

    def present(self, node: TableNode) -> CurrentState:
        uses = node.name in self.reference_windows

        def narrow(_name: str, used: tuple[PinnedReference, ...]) -> ReferenceDiff | None:
            if not self.facts.narrows:
                return None
            days: tuple[DayRange, ...] = compress(Grain.DAILY, self.changed_facts(self.known_facts[used[0].version]))
            return ReferenceDiff(days=days, window=self.reference_windows[node.name])

        return CurrentState(
            transform="made-up",
            transform_version=str(self.versions[node.name]),
            code_digest=self.code,
            configuration=configuration_of(node),
            session_digest="",
            references=(self.facts.pinned,) if uses else (),
            digests=self.digests,
            narrow=narrow,
        )

    def stale(self, node: TableNode, asked: list[date] | None = None) -> Staleness:
        earlier = partial(self.earlier, node.name)
        return find_stale(node, self.graph, self.bases(node.name), self.present(node), asked=asked, earlier=earlier)

    def carry_out(self, rebuilds: Iterable[Rebuild]) -> None:
        for rebuild in rebuilds:
            self.run(rebuild.table, rebuild.partitions)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """A world in which everything was published from what is there, in runs of different lengths."""
    graph = draw(graphs(most_tables=5))
    derived = [node.name for node in graph.tables.values() if not node.is_source]
    using = draw(st.sets(st.sampled_from(derived)))
    near = st.builds(Window, days_back=st.integers(0, 20), days_ahead=st.integers(0, 10))
    world = World(
        graph=graph,
        facts=draw(facts("1")),
        reference_windows={name: draw(st.none() | near) for name in sorted(using)},
        versions=dict.fromkeys(graph.tables, 1),
        numbers={name: {} for name in graph.tables},
        digests={name: {} for name in graph.tables},
        rests_on={name: {} for name in graph.tables},
    )
    world.known_facts["1"] = world.facts
    accepted = draw(accepted_partitions(graph))
    for node in graph.tables.values():
        partitions = sorted(accepted[node.name])
        if node.is_source:
            for day in partitions:
                world.write_source(node.name, day, day.toordinal() % 4)
            continue
        cuts = sorted(draw(st.sets(st.integers(0, len(partitions)), max_size=3)))
        for first, last in zip([0, *cuts], [*cuts, len(partitions)], strict=True):
            if partitions[first:last]:
                world.run(node.name, partitions[first:last])
    return world


def facts(version: str) -> st.SearchStrategy[Facts]:
    days = st.dictionaries(st.dates(SPAN.start, SPAN.last), st.integers(0, 3), max_size=4)
    return st.builds(Facts, version=st.just(version), by_day=days, narrows=st.booleans())


@st.composite
def happenings(draw: st.DrawFn, world: World) -> None:
    """Some of what makes partitions stale happens to the world."""
    graph = world.graph
    for number in range(draw(st.integers(0, 4))):
        match draw(st.sampled_from(["event", "event", "version", "code", "facts", "restatement", "late"])):
            case "event":
                name = draw(st.sampled_from([node.name for node in graph.tables.values() if node.is_source]))
                day = draw(st.sampled_from(sorted(world.digests[name])))
                world.write_source(name, day, draw(st.integers(0, 3)))
            case "version":
                world.versions[draw(st.sampled_from(list(graph.tables)))] += 2
            case "code":
                world.code = f"code-{number + 1}"
            case "facts":
                world.facts = draw(facts(str(len(world.known_facts) + 1)))
                world.known_facts[world.facts.version] = world.facts
            case "restatement":
                built = [n for n in graph.tables.values() if not n.is_source and world.digests[n.name]]
                if built:
                    node = draw(st.sampled_from(built))
                    some = draw(st.sets(st.sampled_from(sorted(world.digests[node.name])), min_size=1, max_size=5))
                    world.run(node.name, sorted(some))
            case "late":
                name = draw(st.sampled_from([node.name for node in graph.tables.values() if not node.is_source]))
                earlier = [run_id for run_id in world.staged if run_id.rpartition("-")[0] == name]
                if earlier:
                    world.find_equal_late(name, draw(st.sampled_from(earlier)))

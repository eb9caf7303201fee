"""Never two open proposals for the same partitions, and every changed day in exactly one place, whatever the order."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from itertools import combinations, count

from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.calendar.partitions import Grain
from backfill_assets.core.grouped import grouped
from backfill_assets.ledger.imports import ImportDay
from backfill_assets.planning.graph import Graph
from backfill_assets.planning.impact import impact
from backfill_assets.planning.proposals import (
    Area,
    Decision,
    OpenDraft,
    SourceDay,
    UnchangedProposal,
    closure_of,
    decide,
    together,
)
from backfill_assets.report.proposals import file_words
from backfill_assets.staleness.landed_news import LandedChange, files_of
from backfill_assets_tests.support.graph_examples import accepted_partitions, every_partition, graphs
from backfill_assets_tests.support.ledger_examples import an_import

FIRST = date(2026, 1, 1)
LANDED = datetime(2026, 1, 11, 12, tzinfo=UTC)
SILVER, GOLD = "silver.days", "gold.weeks"


def day(number: int) -> SourceDay:
    return "bronze.events", FIRST + timedelta(days=number)


def reached(days: AbstractSet[SourceDay]) -> Area:
    """Two days around a day in silver, and the week of these in gold."""
    silver = {some + timedelta(days=offset) for _, some in days for offset in (-1, 0, 1)}
    gold = {some - timedelta(days=(some - FIRST).days % 7) for some in silver}
    return {SILVER: silver, GOLD: gold} if days else {}


def draft(name: str, *numbers: int, is_current: bool = True) -> OpenDraft:
    days = frozenset(map(day, numbers))
    return OpenDraft(set_id=name, days=days, area=reached(days), is_current=is_current)


def days_of(decision: Decision) -> list[int]:
    return sorted((some - FIRST).days for draft in decision.proposed for _, some in draft)


def test_changed_days_are_proposed_once() -> None:
    first = decide({day(3), day(20)}, closure=reached)
    assert (days_of(first), first.replaced) == ([3, 20], ())
    again = decide({day(3), day(20)}, drafts=[draft("one", 3, 20)], closure=reached)
    assert (days_of(again), list(again.stays), again.replaced) == ([], ["one"], ())


def test_days_of_sources_that_share_no_table_are_proposed_apart_and_those_that_share_one_together() -> None:
    other = ("bronze.fees", day(3)[1])

    sales, fees = frozenset({day(3), day(20)}), frozenset({other})

    def apart(days: AbstractSet[SourceDay]) -> Area:
        of_fees = {some for source, some in days if source == other[0]}
        return {**reached(days - fees), **({"silver.fees": of_fees} if of_fees else {})}

    assert decide(sales | fees, closure=apart).proposed == (sales, fees)
    assert decide(sales | fees, closure=reached).proposed == (sales | fees,)
    moved = decide(sales | fees, linked=[{day(3), other}], closure=apart)
    assert moved.proposed == (sales | fees,), "one decision stays one"


def test_a_newer_change_replaces_the_draft_that_it_meets_and_no_other() -> None:
    found = decide({day(3), day(5), day(20)}, drafts=[draft("one", 3), draft("two", 20)], closure=reached)
    assert (days_of(found), found.replaced, list(found.stays)) == ([3, 5], ("one",), ["two"])


def test_a_draft_over_what_is_not_accepted_any_more_is_replaced_by_one_over_the_same_days() -> None:
    found = decide({day(3)}, drafts=[draft("one", 3, is_current=False)], closure=reached)
    assert (days_of(found), found.replaced) == ([3], ("one",))


def test_a_draft_of_which_nothing_is_left_ends_without_a_successor() -> None:
    found = decide(set(), drafts=[draft("one", 3)], closure=reached)
    assert (days_of(found), found.replaced) == ([], ("one",))


def test_what_is_approved_keeps_its_partitions_and_the_rest_is_proposed_beside_it() -> None:
    approved = UnchangedProposal(name="approved", area=reached({day(3)}))
    found = decide({day(5), day(20)}, kept=[approved], closure=reached)
    assert (days_of(found), found.waits) == ([20], {day(5): ("approved",)})


def test_policy_restates_alone_what_meets_nothing_that_a_person_approves() -> None:
    found = decide({day(3), day(4), day(20)}, may_follow={day(4), day(20)}, closure=reached)
    assert (days_of(found), found.automatic) == ([3, 4], frozenset({day(20)}))
    beside = decide({day(4), day(3)}, drafts=[draft("one", 3)], may_follow={day(4)}, closure=reached)
    assert (days_of(beside), beside.replaced, beside.automatic) == ([3, 4], ("one",), frozenset())


def test_days_between_which_keys_moved_wait_and_are_proposed_together() -> None:
    approved = UnchangedProposal(name="approved", area=reached({day(3)}))
    found = decide({day(3), day(20)}, kept=[approved], linked=[{day(3), day(20)}], closure=reached)
    assert (days_of(found), found.waits) == ([], {day(3): ("approved",), day(20): ("approved",)})
    assert found.together == {day(20)}
    free = decide({day(3), day(20)}, may_follow={day(20)}, linked=[{day(3), day(20)}], closure=reached)
    assert (days_of(free), free.automatic) == ([3, 20], frozenset())
    both = decide({day(3), day(20)}, may_follow={day(3), day(20)}, linked=[{day(3), day(20)}], closure=reached)
    assert both.automatic == {day(3), day(20)}
    drafts = [draft("one", 3), draft("two", 20)]
    merged = decide({day(3), day(20)}, drafts=drafts, linked=[{day(3), day(20)}], closure=reached)
    assert (days_of(merged), merged.replaced) == ([3, 20], ("one", "two"))


def test_the_news_of_a_file_says_what_it_brought_and_took_back() -> None:
    record = an_import(original_path="in/extract.csv", landed_at=LANDED, on_duplicate="correct")
    days = [ImportDay(import_id="imp-000007", event_date=FIRST, events=2, displaced=1)]
    days.append(replace(days[0], event_date=FIRST + timedelta(days=1), events=0, displaced=0, withdrawn=3))
    (file,) = files_of(
        {
            day(0): [LandedChange(record=record, day=days[0], rows=2)],
            day(1): [LandedChange(record=record, day=days[1], rows=0)],
        },
        [day(0), day(1)],
    )
    assert file_words(file) == (
        "extract.csv (imp-000007, landed by ana on 2026-01-11): 2 rows, 1 row moved to other days, "
        "3 rows deleted or withdrawn of bronze.events 2026-01-01..2026-01-02, 2 days, 9 to 10 days late"
    )


# ------------------------------------------------------------------------------------------- in any order, for days


@dataclass(kw_only=True)
class World:
    """What is changed and open, while people and sensors do what they like."""

    table: str = "silver.x"
    closure: Mapping[SourceDay, frozenset[int]]
    changed: set[SourceDay] = field(default_factory=set)
    drafts: dict[str, OpenDraft] = field(default_factory=dict)
    approved: dict[str, OpenDraft] = field(default_factory=dict)
    quick: set[SourceDay] = field(default_factory=set)
    linked: tuple[frozenset[SourceDay], ...] = ()
    for_a_person: frozenset[int] = frozenset()
    ids: count[int] = field(default_factory=count)

    def rebuilt(self, days: AbstractSet[SourceDay]) -> Area:
        found = {date.fromordinal(p + 1) for each in days for p in self.closure[each]}
        return {self.table: found} if found else {}

    def others(self) -> Area:
        """Partitions that change for other reasons too."""
        return {self.table: {date.fromordinal(p + 1) for p in self.for_a_person}}

    def opened(self) -> list[UnchangedProposal]:
        return [UnchangedProposal(name=name, area=each.area) for name, each in self.approved.items()]

    def land(self, some: SourceDay, *, is_quick: bool) -> None:
        self.changed.add(some)
        self.quick = self.quick | {some} if is_quick else self.quick - {some}
        for open_ones in (self.drafts, self.approved):
            for name, each in open_ones.items():
                if some in each.days:
                    open_ones[name] = replace(each, is_current=False)

    def decided(self) -> Decision:
        return decide(
            self.changed,
            drafts=list(self.drafts.values()),
            kept=self.opened(),
            may_follow=self.changed & self.quick,
            linked=self.linked,
            for_a_person=self.others(),
            closure=self.rebuilt,
        )

    def propose(self) -> Decision:
        decision = self.decided()
        for name in decision.replaced:
            del self.drafts[name]
        for days in decision.proposed:
            name = f"{self.table}-{next(self.ids)}"
            self.drafts[name] = OpenDraft(set_id=name, days=days, area=self.rebuilt(days), is_current=True)
        return decision

    def publish(self, name: str) -> None:
        ended = self.approved.pop(name)
        if ended.is_current:
            self.changed -= ended.days

    def follow(self) -> None:
        self.changed -= self.decided().automatic

    def live(self, data: st.DataObject) -> None:
        """People and sensors do something."""
        match data.draw(st.sampled_from(["land", "land", "propose", "approve", "publish", "cancel", "follow"])):
            case "land":
                some = data.draw(st.sampled_from(sorted(self.closure)))
                self.land(some, is_quick=data.draw(st.booleans()))
            case "approve" if self.drafts:
                name = data.draw(st.sampled_from(sorted(self.drafts)))
                self.approved[name] = self.drafts.pop(name)
            case "publish" if self.approved:
                self.publish(data.draw(st.sampled_from(sorted(self.approved))))
            case "cancel" if self.approved:
                self.approved.pop(data.draw(st.sampled_from(sorted(self.approved))))
            case "follow":
                self.follow()
            case _:
                self.propose()


@st.composite
def worlds(draw: st.DrawFn, *, source: str = "bronze.events", table: str = "silver.x") -> World:
    days = [(source, day(number)[1]) for number in range(8)]
    areas = st.frozensets(st.integers(0, 9), min_size=1, max_size=4)
    groups = draw(st.lists(st.integers(0, 5), min_size=len(days), max_size=len(days)))
    linked = (frozenset(each for each, of in zip(days, groups, strict=True) if of == group) for group in range(3))
    return World(
        table=table,
        closure={each: draw(areas) for each in days},
        linked=tuple(group for group in linked if len(group) > 1),
        for_a_person=draw(st.frozensets(st.integers(0, 9), max_size=2)),
    )


@given(st.data())
def test_in_any_order_no_two_open_ones_meet_and_every_changed_day_is_in_one_place(data: st.DataObject) -> None:
    world = data.draw(worlds())
    for _ in range(data.draw(st.integers(1, 12))):
        world.live(data)
    decision = world.propose()
    places = [*decision.proposed, *decision.stays.values(), decision.automatic, frozenset(decision.waits)]
    assert all(one.isdisjoint(other) for one, other in combinations(places, 2))
    assert frozenset().union(*places) == world.changed
    for group in world.linked:
        assert sum(not group.isdisjoint(place) for place in places) <= 1, "one decision is in one place"
    open_areas = [each.area["silver.x"] for each in (*world.drafts.values(), *world.approved.values())]
    followed = world.rebuilt(decision.automatic).get("silver.x", set())
    assert all(one.isdisjoint(other) for one, other in combinations([*open_areas, followed], 2))
    # What follows publishes nothing of a change that waits, and nothing that changes for other reasons too.
    assert followed.isdisjoint(world.rebuilt(frozenset(decision.waits)).get("silver.x", set()))
    assert followed.isdisjoint(date.fromordinal(p + 1) for p in world.for_a_person)
    # Asked again, nothing moves.
    again = world.decided()
    assert (again.proposed, again.replaced, again.automatic) == ((), (), decision.automatic)
    # And everything can end: what waits is proposed once the others are published or cancelled.
    for _ in range(4):
        world.follow()
        world.approved |= world.drafts
        world.drafts.clear()
        for name in list(world.approved):
            world.publish(name)
        world.propose()
    assert (world.changed, world.drafts) == (set(), {})


@given(st.data())
def test_what_is_proposed_of_independent_sources_is_what_is_proposed_of_each_alone(data: st.DataObject) -> None:
    each = [data.draw(worlds(source=f"bronze.{name}", table=f"silver.{name}")) for name in ("x", "y", "z")]
    for world in each:
        for _ in range(data.draw(st.integers(0, 4))):
            world.live(data)
        for some in data.draw(st.lists(st.sampled_from(sorted(world.closure)), max_size=2)):
            world.land(some, is_quick=False)
    alone = [world.decided() for world in each]
    found = decide(
        frozenset().union(*(world.changed for world in each)),
        drafts=[draft for world in each for draft in world.drafts.values()],
        kept=[kept for world in each for kept in world.opened()],
        may_follow=frozenset().union(*(world.changed & world.quick for world in each)),
        linked=[group for world in each for group in world.linked],
        for_a_person=together(world.others() for world in each),
        closure=lambda days: together(
            world.rebuilt({some for some in days if some in world.closure}) for world in each
        ),
    )
    assert found == Decision(
        proposed=tuple(days for one in alone for days in one.proposed),
        stays={name: days for one in alone for name, days in one.stays.items()},
        automatic=frozenset().union(*(one.automatic for one in alone)),
        waits={day: names for one in alone for day, names in one.waits.items()},
        together=frozenset().union(*(one.together for one in alone)),
        replaced=tuple(name for one in alone for name in one.replaced),
    )


@given(st.data())
def test_the_rebuild_of_days_together_is_that_of_each(data: st.DataObject) -> None:
    """What `decide` relies on, for graphs with windows and months; some of what read a day was published since."""
    graph: Graph = data.draw(graphs())
    accepted = data.draw(accepted_partitions(graph))
    every = [(n.name, some) for n in graph.tables.values() if n.is_source for some in every_partition(Grain.DAILY)]
    one, other = (frozenset(data.draw(st.lists(st.sampled_from(every), max_size=4))) for _ in range(2))
    read: dict[SourceDay, dict[str, frozenset[date]]] = {}
    for source, some in sorted(one | other):
        direct = {node.name for node in graph.dependents(source)}
        found = [each for each in impact(graph, {source: [some]}, accepted) if each.table in direct]
        read[source, some] = {each.table: frozenset(each.partitions) for each in found}
    outdated = {
        changed: {table: data.draw(st.frozensets(st.sampled_from(sorted(some)))) for table, some in of_day.items()}
        for changed, of_day in read.items()
    }
    rebuilt = closure_of(graph, outdated, accepted)
    both, apart = rebuilt(one | other), (rebuilt(one), rebuilt(other))
    for table in graph.tables:
        assert set(both.get(table, ())) == {p for area in apart for p in area.get(table, ())}
    # Where nothing was, all that depends on a day is built again.
    changed = grouped(sorted(one))
    assert closure_of(graph, read, accepted)(one) == {
        each.table: frozenset(each.partitions) for each in impact(graph, changed, accepted)
    }

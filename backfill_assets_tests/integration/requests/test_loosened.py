"""Whatever was declared more loosely since, and whatever ran in between: one person alone changes no agreed rows."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from backfill_assets.application.follow import follow
from backfill_assets.application.live import live
from backfill_assets.application.plan import plan_phases
from backfill_assets.application.propose import propose
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.application.requests import Restatement
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.errors import BackfillError, NotApproved
from backfill_assets.domain import DerivedTable, Domain, Policy
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.request import PlanRequest
from backfill_assets.planning.restatement import PlannedSet, SetRequest
from backfill_assets.planning.sets import AskedPhases, Phases
from backfill_assets.planning.state import AcceptedPartition
from backfill_assets.report.report import run_report
from backfill_assets.report.review import review_of
from backfill_assets.requests import table_acts
from backfill_assets.requests.authority import demand_of, demand_to_ask
from backfill_assets.workspace import Workspace
from backfill_assets_tests.faults.keyed_spark_free_compute import KeyedSparkFreeCompute, Order
from backfill_assets_tests.faults.single_actor_attack import (
    COLOURS,
    FIRST,
    PALETTE,
    POLICY,
    TURNOVER,
    SingleActorAttack,
    begun,
    unproven,
)
from backfill_assets_tests.faults.spark_free_compute import without_spark
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.lakes import folder_at

AGREED = FIRST + timedelta(days=2)
"""A day of which ben of finance has agreed to the rows."""

POLICIES: Mapping[str, Policy] = {
    "no approval": replace(POLICY, backfill="auto", approvers=()),
    "no approval of the group": replace(POLICY, backfill="auto"),
    "no group": replace(POLICY, approvers=()),
    "another group": replace(POLICY, approvers=("ops",)),
    "one group more": replace(POLICY, approvers=("finance", "ops")),
}
ALONE = POLICIES["no approval"]


@dataclass(kw_only=True)
class World:
    """A home in which finance has agreed to rows, and eve and mallory, of another group, do what they can."""

    generator: SingleActorAttack

    @property
    def ws(self) -> Workspace:
        return self.generator.ws

    def declare(self, change: Callable[[DerivedTable], DerivedTable]) -> None:
        """The author declares the tables otherwise from here on."""
        domain, changed = self.ws.domain, dict[str, DerivedTable]()
        for table in domain.derived:
            inputs = {argument: changed.get(read.name, read) for argument, read in table.inputs.items()}
            again = replace(table, inputs=inputs, gates=unproven(table))
            changed[table.name] = change(again)
        ws = replace(
            self.ws,
            domain=Domain(
                name=domain.name, package=domain.package, sources=domain.sources, derived=tuple(changed.values())
            ),
        )
        ws.__dict__["ledger"] = self.ws.ledger
        self.generator.ws = ws

    def claims(self) -> Mapping[tuple[str, date], AcceptedPartition]:
        """What readers see of the days to which finance has agreed."""
        with self.ws.ledger.read() as tx:
            return {
                (table, day): claim
                for table in (TURNOVER, COLOURS)
                for day, claim in tx.versions.claims(table).items()
                if day <= AGREED
            }

    def corrected(self) -> None:
        """Orders of an agreed day come in again with other values, and bronze is built."""
        chosen = [order for order in self.generator.compute.current().values() if order.day == AGREED]
        some = [replace(order, row=self.generator._row()) for order in chosen[:1]]
        self.generator.compute.take_in(self.ws, some, by="eve")
        self.generator.load(self.ws)

    def asked(self, by: str = "eve", table: str = TURNOVER, day: date = AGREED) -> str:
        request = PlanRequest(table=table, days=DayRange.inclusive(day, day), reason="mine", by=by)
        return operations.plan(self.ws, request).manifest.run_id

    def planned(self, by: str = "eve", table: str = TURNOVER, day: date = AGREED) -> str:
        run_id = self.asked(by, table, day)
        self.generator._carry(self.ws, run_id)
        return run_id

    def published(self, name: str, by: str = "eve") -> None:
        Restatement(self.ws, name).publish(Acting(by=by, recorder=Unrecorded()))


def nothing(world: World) -> None:
    """Nothing runs."""


def a_live_run(world: World) -> None:
    new = Order(key=f"n{world.generator.chance.random()}", day=world.generator.time.at.date(), row=(7, 7))
    world.generator.compute.take_in(world.ws, [new], by="eve")
    world.generator.load(world.ws)
    world.generator.time.at += timedelta(days=1)
    world.generator.compute.take_in(
        world.ws, [replace(new, key=f"{new.key}, later", day=new.day + timedelta(days=1))], by="eve"
    )
    world.generator.load(world.ws)
    before = runs_of(world, RunState.PUBLISHED)
    live(world.ws, Acting(by="live", recorder=Unrecorded()))
    assert runs_of(world, RunState.PUBLISHED) > before


def a_follow_up(world: World) -> None:
    day = max(world.generator.compute.current().values(), key=lambda order: order.day).day - timedelta(days=1)
    world.generator.compute.take_in(
        world.ws, [Order(key=f"late{world.generator.chance.random()}", day=day, row=(7, 7))], by="eve"
    )
    world.generator.load(world.ws)
    before = runs_of(world, RunState.PUBLISHED)
    follow(world.ws, Acting(by="follow", recorder=Unrecorded()))
    assert runs_of(world, RunState.PUBLISHED) > before


def a_proposal(world: World) -> None:
    world.corrected()
    propose(world.ws, by="propose")


def a_plan(world: World) -> None:
    world.planned()


def a_cancelled_run(world: World) -> None:
    Restatement(world.ws, world.asked()).cancel(by="eve", reason="mine")


def a_verified_run(world: World) -> None:
    run_id = world.planned(day=FIRST)
    with suppress(BackfillError):
        world.published(run_id)


def an_agreed_run_that_was_rolled_back(world: World) -> None:
    world.corrected()
    run_id = world.planned(by="ana")
    operations.approve(world.ws, run_id, by="dora")
    world.published(run_id, by="ben")
    operations.rollback(world.ws, run_id, by="dora", reason="not so")


def a_version_that_is_started(world: World) -> None:
    """An act that is done at once, without an approval, under the policy of the name."""
    domain = world.ws.domain
    beside = domain.derived_table(TURNOVER).beside(f"{TURNOVER}_v2")
    ws = replace(world.ws, domain=replace(domain, derived=(*domain.derived, beside)))
    ws.__dict__["ledger"] = world.ws.ledger
    table_acts.start(ws, beside.name, by="eve", reason="mine")


def phases_that_a_friend_agrees_to(world: World) -> None:
    with suppress(BackfillError):
        restates_in_phases_with_a_friend(world)


def runs_of(world: World, state: RunState) -> int:
    with world.ws.ledger.read() as tx:
        return len(tx.runs.headers(table=TURNOVER, states=[state]))


BETWEEN = (
    nothing,
    a_live_run,
    a_follow_up,
    a_proposal,
    a_plan,
    a_cancelled_run,
    a_verified_run,
    an_agreed_run_that_was_rolled_back,
    a_version_that_is_started,
    phases_that_a_friend_agrees_to,
)


def restates(world: World) -> None:
    world.published(world.planned())


def restates_with_a_friend(world: World) -> None:
    run_id = world.planned()
    with suppress(BackfillError):
        operations.approve(world.ws, run_id, by="mallory")
    world.published(run_id, by="mallory")


def restates_a_set_with_a_friend(world: World) -> None:
    days = DayRange.inclusive(AGREED, AGREED)
    planned = operations.plan_set(
        world.ws, SetRequest(reason="mine", by="eve", because=(("bronze.orders", days),), partial=True)
    )
    assert isinstance(planned, PlannedSet)
    for run_id in world.generator._runs_of(planned.manifest.set_id):
        world.generator._carry(world.ws, run_id)
    with suppress(BackfillError):
        operations.approve(world.ws, planned.manifest.set_id, by="mallory")
    operations.publish_set(world.ws, planned.manifest.set_id, by="mallory")


def restates_in_phases_with_a_friend(world: World) -> None:
    days = DayRange.inclusive(AGREED - timedelta(days=1), AGREED)
    request = PlanRequest(table=TURNOVER, days=days, reason="mine", by="eve")
    phases = plan_phases(world.ws, request, AskedPhases(count=2, terms=Phases()))
    set_id = phases.manifest.set_id
    with suppress(BackfillError):
        operations.approve(world.ws, set_id, by="mallory")
    for run_id in world.generator._runs_of(set_id):
        world.generator._carry(world.ws, run_id)
        operations.publish_set(world.ws, set_id, by="mallory")


def rolls_back(world: World) -> None:
    with world.ws.ledger.read() as tx:
        run_id = tx.versions.claims(TURNOVER)[AGREED].run_id
    Restatement(world.ws, run_id).rollback(Acting(by="eve", recorder=Unrecorded()), reason="mine", with_dependents=True)


ACTS = (
    restates,
    restates_with_a_friend,
    restates_a_set_with_a_friend,
    restates_in_phases_with_a_friend,
    rolls_back,
)


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, KeyedSparkFreeCompute]]:
    with begun(tmp_path_factory.mktemp("loosened")) as found:
        yield found


@pytest.fixture
def world(start: tuple[Path, KeyedSparkFreeCompute], tmp_path: Path) -> Iterator[World]:
    home, compute = start
    shutil.copytree(home, tmp_path / "home")
    own = KeyedSparkFreeCompute(orders=dict(compute.orders), landed_on=dict(compute.landed_on))
    generator = SingleActorAttack(home=tmp_path / "home", chance=random.Random(3), compute=own)
    path = folder_at(generator.ws.settings.reference) / "approvers.yaml"
    groups = "{finance: [ben, cara, dora], ops: [eve, mallory, dora]}"
    path.write_text(f'version: "2"\ngroups: {groups}\n', encoding="utf-8")
    with without_spark(own):
        yield World(generator=generator)
    generator.ws.close()


def loosened(policy: Policy) -> Callable[[DerivedTable], DerivedTable]:
    return lambda table: replace(table, policy=policy, gates=unproven(table))


CASES = [
    pytest.param(policy, between, marks=() if (number - place) % len(POLICIES) == 0 else pytest.mark.long)
    for number, between in enumerate(BETWEEN)
    for place, policy in enumerate(POLICIES)
]
"""Every policy after everything that can run; each at least once outside of the long tests."""


@pytest.mark.parametrize(("policy", "between"), CASES)
def test_a_loosened_policy_lets_nobody_alone_change_agreed_rows(
    world: World, policy: str, between: Callable[[World], None]
) -> None:
    world.declare(loosened(POLICIES[policy]))
    between(world)
    world.corrected()
    before = world.claims()
    for act in ACTS:
        with suppress(BackfillError):
            act(world)
        assert world.claims() == before, act.__name__


@pytest.mark.long
def test_a_person_of_the_earlier_group_agrees_to_a_looser_policy_once(world: World) -> None:
    world.declare(loosened(POLICIES["no approval"]))
    world.corrected()
    run_id = world.planned()
    with world.ws.ledger.read() as tx:
        assert demand_of(world.ws, tx, tx.runs.get(run_id)).loosened == ("policy",)
    shown = review_of(run_report(world.ws, run_id)).warnings
    assert any("The declaration is looser than was last agreed to (policy)." in each for each in shown)
    with pytest.raises(NotApproved, match=r"of finance .*, and mallory is not a member"):
        operations.approve(world.ws, run_id, by="mallory")
    operations.approve(world.ws, run_id, by="ben")
    before = world.claims()
    world.published(run_id)
    assert world.claims() != before
    world.corrected()
    before = world.claims()
    restates(world)
    assert world.claims() != before


@pytest.mark.long
def test_what_was_planned_before_a_stricter_policy_was_agreed_to_loosens_nothing(world: World) -> None:
    """An old plan that is agreed to later was not made under what has been agreed to since."""
    world.declare(loosened(POLICIES["no approval"]))
    world.corrected()
    old = world.planned(day=FIRST + timedelta(days=1))
    world.declare(loosened(POLICY))
    new = world.planned(by="ana")
    operations.approve(world.ws, new, by="ben")
    world.published(new, by="ben")
    operations.approve(world.ws, old, by="ben")
    world.published(old, by="ben")
    world.declare(loosened(POLICIES["no approval"]))
    world.corrected()
    before = world.claims()
    with pytest.raises(NotApproved):
        restates(world)
    assert world.claims() == before


def without_plausible(table: DerivedTable) -> DerivedTable:
    return replace(table, gates=tuple(each for each in unproven(table) if each.name != "plausible"))


def plausible_only_informs(table: DerivedTable) -> DerivedTable:
    gates = (replace(each, blocking=False) if each.name == "plausible" else each for each in unproven(table))
    return replace(table, gates=tuple(gates))


@pytest.mark.long
@pytest.mark.parametrize("cause", [a_live_run, a_follow_up], ids=lambda each: each.__name__)
@pytest.mark.parametrize("change", [without_plausible, plausible_only_informs])
def test_a_loosened_safeguard_lets_no_policy_publish_before_a_person_has_agreed(
    world: World, change: Callable[[DerivedTable], DerivedTable], cause: Callable[[World], None]
) -> None:
    world.declare(lambda table: change(table) if table.name == TURNOVER else table)
    before = runs_of(world, RunState.PUBLISHED)
    with pytest.raises(AssertionError):
        cause(world)
    assert runs_of(world, RunState.PUBLISHED) == before
    world.corrected()
    run_id = world.planned(by="ana")
    operations.approve(world.ws, run_id, by="ben")
    world.published(run_id, by="ben")
    cause(world)


@pytest.mark.parametrize("change", [without_plausible, plausible_only_informs])
def test_readers_are_cut_over_to_a_version_with_looser_safeguards_by_two_people_under_any_policy(
    world: World, change: Callable[[DerivedTable], DerivedTable]
) -> None:
    """No row of the version was ever shown to readers, so nothing was agreed to for the version itself."""
    world.declare(loosened(POLICIES["no approval"]))
    world.corrected()
    run_id = world.planned()
    operations.approve(world.ws, run_id, by="ben")
    world.published(run_id)
    domain = world.ws.domain
    turnover = domain.derived_table(TURNOVER)
    same, looser = (replace(each, policy=ALONE).beside(f"{TURNOVER}_v2") for each in (turnover, change(turnover)))
    found = []
    for version in (same, looser):
        ws = replace(world.ws, domain=replace(domain, derived=(*domain.derived, version)))
        ws.__dict__["ledger"] = world.ws.ledger
        with ws.ledger.read() as tx:
            asked = demand_to_ask(ws, tx, TURNOVER, version=version.name, shown=TURNOVER)
        found.append((asked.policy, asked.loosened))
    assert found == [("backfill", ()), (None, ("gate plausible",))]


@pytest.mark.long
def test_once_a_looser_policy_is_agreed_to_each_of_these_acts_changes_rows(world: World) -> None:
    world.declare(loosened(ALONE))
    world.corrected()
    for table in (TURNOVER, COLOURS, PALETTE):
        run_id = world.planned(by="ana", table=table)
        operations.approve(world.ws, run_id, by="ben")
        world.published(run_id)
    for act in ACTS[:-1]:  # a rollback would end the agreement
        world.corrected()
        before = world.claims()
        act(world)
        assert world.claims() != before, act.__name__

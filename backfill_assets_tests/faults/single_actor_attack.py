"""Can one person change what was agreed to? Random stories of a person who is in no group, and tries everything.

Eve lands, corrects, moves and withdraws records, builds some of their days, plans, approves, publishes, rolls back,
launches what jobs and sensors do, chooses names, and waits for days. Others agree to restatements, roll back and
declare releases in between, and processes die. After every step each accepted partition that has changed must have
changed by what a policy grants (`docs/guarantees.md`, "What a policy grants") or by two people, one of them of finance.
Whether it has is decided from the orders of every key as they were landed, and not by what the product decides with.

    python -m backfill_assets_tests.faults.single_actor_attack --count 100
    python -m backfill_assets_tests.faults.single_actor_attack --seed 17
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from backfill_assets.application.follow import follow
from backfill_assets.application.live import live
from backfill_assets.application.propose import propose
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.application.requests import Restatement
from backfill_assets.application.sensor_work import approved
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.people import PUBLISHER
from backfill_assets.core.settings import Settings
from backfill_assets.domain import DerivedTable, Domain, Gate, Policy, days, warm_up_proof
from backfill_assets.ledger.records import Action, RunRecord
from backfill_assets.ledger.states import EVER_PUBLISHED, ApprovalState, RunState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest_parts import CauseKind
from backfill_assets.planning.request import PlanRequest
from backfill_assets.planning.state import AcceptedPartition
from backfill_assets.workspace import Workspace
from backfill_assets_tests.conftest import SPARK_ENVIRONMENT
from backfill_assets_tests.domains.story import colours, orders, palette, turnover
from backfill_assets_tests.faults.keyed_spark_free_compute import ORDERS, KeyedSparkFreeCompute, Keys, Order
from backfill_assets_tests.faults.order import readers_see_what_the_ledger_says
from backfill_assets_tests.faults.spark_free_compute import without_spark
from backfill_assets_tests.faults.story_generator import NothingThere, Step, Story, StoryGenerator, Time
from backfill_assets_tests.support import operations

TURNOVER, COLOURS, PALETTE = "silver.turnover", "silver.colours", "gold.palette"
FIRST = date(2026, 1, 26)
BEGUN_AT = datetime(2026, 2, 2, 8, tzinfo=UTC)
LATENESS = 3
STEPS = 25
FINANCE = ("ben", "cara")
NAMES = (
    *("eve",) * 6,
    *("Eve ", "mallory", "live", "Publish", "follow\u200b", "policy:live", "b\u0435n", "\u1d07\u1d20\u1d07"),
)
"""What eve types as her name: her own, another one of no group, those of the system, and some that look like others."""

POLICY = Policy(live="auto", backfill="approve", follow="auto", approvers=("finance",))
LOOSER = (
    replace(POLICY, backfill="auto", approvers=()),
    replace(POLICY, approvers=()),
    replace(POLICY, backfill="auto"),
)

EVERYTHING: Mapping[str, int] = {
    **{"lands": 8, "corrects": 3, "moves": 4, "withdraws": 2, "load": 2, "loads_a_day": 2, "waits": 4},
    **{"plan": 1, "run": 2, "approves": 1, "publishes": 2, "rolls_back": 3, "names": 1},
    **{"live": 6, "follow": 6, "propose": 2, "publish_approved": 2, "recover": 1},
    **{"agree": 2, "agrees_to_a_set": 2, "taken_back": 4, "release": 1, "loosens": 2},
}
"""What may happen, by the name of the method, and how often."""

MOSTLY_THE_NEWEST = (0, 1, 1, 2, 2, 3, 3, 4, 7)
"""How many days back the days are that eve chooses."""

Partition = tuple[str, date]


def domain(version: str, policy: Policy = POLICY) -> Domain:
    """The story domain with lateness and approvers, a release of turnover, and a policy of its first two tables."""
    source = replace(orders, lateness=days(LATENESS))
    (first_release,) = turnover.releases
    newer = () if version == first_release.version else (replace(first_release, version=version),)
    first = replace(
        turnover,
        inputs={"orders": source},
        policy=policy,
        releases=(*newer, first_release),
        gates=unproven(turnover),
    )
    second = replace(colours, inputs={"orders": source}, policy=policy, gates=unproven(colours))
    both = {"turnover": first, "colours": second}
    gold = replace(palette, inputs=both, policy=POLICY, gates=unproven(palette))
    return Domain(
        name="story", package="backfill_assets_tests.domains.story", sources=(source,), derived=(first, second, gold)
    )


def unproven(table: DerivedTable) -> tuple[Gate, ...]:
    """Without the proof of the window, which is made by Spark."""
    return (*table.gates, warm_up_proof(partitions=0))


def opened(home: Path, time: Time, version: str = "2.0.0", policy: Policy = POLICY) -> Workspace:
    """A workspace of a release, under a policy."""
    environment = {
        "BACKFILL_HOME": str(home),
        "BACKFILL_DOMAIN": "backfill_assets_tests.domains.story",
        "BACKFILL_FIRST_DAY": FIRST.isoformat(),
        **SPARK_ENVIRONMENT,
    }
    return Workspace(settings=Settings.from_environment(environment), domain=domain(version, policy), clock=time)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What readers see of a partition."""

    claim: AcceptedPartition
    by: str  #: The run that made it, or the last one that found it equal.
    release: str  #: Of the run that made it.
    keys: Keys  #: The orders of its window in what that run has read; empty for gold.


@dataclass(kw_only=True)
class SingleActorAttack(StoryGenerator):
    """A home with eve in it."""

    compute: KeyedSparkFreeCompute = field(default_factory=KeyedSparkFreeCompute)
    time: Time = field(default_factory=lambda: Time(at=BEGUN_AT))
    version: str = "2.0.0"
    policy: Policy = POLICY
    weights: Mapping[str, int] = field(default_factory=lambda: EVERYTHING)
    days_back: Sequence[int] = MOSTLY_THE_NEWEST
    seen: dict[Partition, Seen] = field(default_factory=dict)
    ever: dict[str, date] = field(default_factory=dict)
    undone: set[Partition] = field(default_factory=set)
    """Partitions whose last version was rolled back."""

    def __post_init__(self) -> None:
        self.ws = opened(self.home, self.time, self.version)

    @property
    def acts(self) -> Mapping[str, int]:
        """What may happen, and how often."""
        return self.weights

    # ------------------------------------------------------------------------------------------------ what eve does

    def lands(self, ws: Workspace) -> str:
        """Orders that were not there before."""
        new = [Order(key=f"k{self.chance.random()}", day=self._day(), row=self._row()) for _ in range(self._few())]
        return self._lands(ws, new)

    def corrects(self, ws: Workspace) -> str:
        """Other values of orders that are there."""
        return self._lands(ws, [replace(order, row=self._row()) for order in self._some()])

    def moves(self, ws: Workspace) -> str:
        """The same orders on another day, and perhaps a new one."""
        moved = [replace(order, day=self._day()) for order in self._some()]
        new = [Order(key=f"k{self.chance.random()}", day=self._day(), row=self._row())]
        return self._lands(ws, [*moved, *self.chance.choice(([], new))])

    def withdraws(self, ws: Workspace) -> str:
        """A key is taken back."""
        order = self._some()[0]
        return self._lands(ws, [Order(key=order.key, day=order.day, is_withdrawn=True)])

    def loads_a_day(self, ws: Workspace) -> str:
        """Bronze is built for one of the days alone."""
        day = self._day()
        run = operations.plan_load(ws, ORDERS, partitions=(day,), by="eve", reason="this one")
        if run is not None:
            self._carry(ws, run.run_id)
            operations.publish(ws, run.run_id, by="eve")
        return f"load {day}"

    def waits(self, _ws: Workspace) -> str:
        """Some hours or days pass."""
        self.time.at += timedelta(hours=self.chance.choice((1, 12, 24, 24, 72)))
        return f"wait until {self.time.at}"

    def names(self, ws: Workspace) -> str:
        """A run is asked for in the name of whoever may not be one."""
        name = self.chance.choice(NAMES)
        request = PlanRequest(table=TURNOVER, days=self._some_days(), reason="mine", by=name)
        return f"plan {operations.plan(ws, request).manifest.run_id} by {name!r}"

    def approves(self, ws: Workspace) -> str:
        chosen, name = self._pick(RunState.PASSED, RunState.PLANNED, RunState.ROLLED_BACK), self.chance.choice(NAMES)
        Restatement(ws, chosen).approve(by=name, note="fine")
        return f"approve {chosen} by {name!r}"

    def publishes(self, ws: Workspace) -> str:
        chosen, name = self._pick(RunState.PASSED, RunState.ROLLED_BACK), self.chance.choice(NAMES)
        Restatement(ws, chosen).publish(self._acting(name))
        return f"publish {chosen} by {name!r}"

    def rolls_back(self, ws: Workspace) -> str:
        return self._rolls_back(ws, self.chance.choice(NAMES))

    # ------------------------------------------------------------------------------------ what jobs and sensors do

    def live(self, ws: Workspace) -> str:
        return f"live {[each.sentence for each in live(ws, self._acting(self.chance.choice(NAMES)))]}"

    def follow(self, ws: Workspace) -> str:
        done = follow(ws, self._acting(self.chance.choice(NAMES))).followed
        return f"follow {[(each.run_id, str(each.state)) for each in done]}"

    def propose(self, ws: Workspace) -> str:
        return f"propose {[each.set_id for each in propose(ws, by='propose').proposed]}"

    def publish_approved(self, ws: Workspace) -> str:
        names = approved(ws)
        for name in names:
            Restatement(ws, name).publish(self._acting(PUBLISHER))
        return f"publish approved {names}"

    # --------------------------------------------------------------------------------------- what two people agree to

    def agree(self, ws: Workspace) -> str:
        """Ben agrees to a run that ana has planned; the person or the sensor publishes it later."""
        request = PlanRequest(
            table=self.chance.choice((TURNOVER, COLOURS, PALETTE)), days=self._some_days(), reason="wrong", by="ana"
        )
        run_id = operations.plan(ws, request).manifest.run_id
        self._carry(ws, run_id)
        operations.approve(ws, run_id, by="ben")
        if self.chance.random() < 0.7:
            operations.publish(ws, run_id, by="ana")
        return f"agree {run_id}"

    def agrees_to_a_set(self, ws: Workspace) -> str:
        """Cara agrees to what was proposed."""
        found = [each.set_id for each in propose(ws, by="propose").proposed if each.set_id is not None]
        if not found:
            raise NothingThere
        set_id = self.chance.choice(found)
        for run_id in self._runs_of(set_id):
            self._carry(ws, run_id)
        operations.approve(ws, set_id, by="cara")
        operations.publish_set(ws, set_id, by="ana")
        return f"agree {set_id}"

    def taken_back(self, ws: Workspace) -> str:
        return self._rolls_back(ws, "cara")

    def release(self, _ws: Workspace) -> str:
        """The author declares a release of turnover."""
        major, minor, patch = self.version.split(".")
        self.version = f"{major}.{minor}.{int(patch) + 1}"
        self.ws = opened(self.home, self.time, self.version, self.policy)
        return f"release {self.version}"

    def loosens(self, _ws: Workspace) -> str:
        """The author declares turnover and colours under a looser policy, or under the first one again."""
        self.policy = self.chance.choice((POLICY, *LOOSER))
        self.ws = opened(self.home, self.time, self.version, self.policy)
        return f"declare {self.policy}"

    # ----------------------------------------------------------------------------------------------- what is looked at

    def look(self, most_runs: int = 4) -> Iterator[str]:  # noqa: ARG002 - no document is asked for here
        """Changes of accepted partitions without a grant, and what readers do not see as the ledger has it."""
        yield from readers_see_what_the_ledger_says(self.ws, is_half_done=self.killed)
        with self.ws.ledger.read() as tx:
            present = {
                (table, day): claim
                for table in (TURNOVER, COLOURS, PALETTE)
                for day, claim in tx.versions.claims(table).items()
            }
            before, newest = self.seen, dict(self.ever)
            self.seen = {each: self._seen(tx, each, claim, before.get(each)) for each, claim in present.items()}
            for each in sorted(before.keys() | present.keys()):
                was, now = before.get(each), self.seen.get(each)
                if (was and was.claim) != (now and now.claim):
                    yield from (f"{each[0]} {each[1]}: {why}" for why in self._not_granted(tx, each, was, now, newest))
                    self._note(each, was, now)

    def _not_granted(
        self, tx: ReadTransaction, each: Partition, was: Seen | None, now: Seen | None, newest: Mapping[str, date]
    ) -> Iterator[str]:
        table, day = each
        # What finance has agreed to under a looser policy is as it says from then on.
        if any(
            run.manifest.policy != POLICY and run.approved_by in FINANCE
            for run in tx.runs.records(table=table, states=EVER_PUBLISHED)
        ):
            return
        if now is None or (was is not None and now.claim.version < was.claim.version):
            (last, *_) = (
                record.by
                for record in tx.publications.records(table=table)
                if record.action is Action.ROLLBACK and any(c.partition == day for c in record.changes)
            )
            if last not in (*FINANCE, "ops"):
                yield f"{last} has rolled it back"
            return
        run = tx.runs.get(now.claim.run_id)
        if run.approved_by in FINANCE and run.manifest.requested_by not in (run.approved_by,):
            return
        match run.manifest.cause.kind:
            case CauseKind.LIVE:
                yield from self._beyond_live(each, now, newest)
            case CauseKind.FOLLOW_UP:
                yield from self._beyond_following(tx, each, run, was, now, newest)
            case CauseKind.PERSON:
                yield f"{run.run_id} was agreed to by {run.approved_by}"

    def _beyond_live(self, each: Partition, now: Seen, newest: Mapping[str, date]) -> Iterator[str]:
        table, day = each
        if table in newest and day <= newest[table]:
            yield f"LIVE has published it, and the table had {newest[table]} before"
        if table != COLOURS:
            return
        for (other, elsewhere), seen in self.seen.items():
            if other == table and elsewhere != day and (twice := now.keys.keys() & seen.keys.keys()):
                yield f"LIVE has published keys that are on {elsewhere} as well: {sorted(twice)}"

    @staticmethod
    def _was_made_live(tx: ReadTransaction, each: Partition) -> bool:
        """Whether LIVE published a partition before it was followed, since the last look."""
        return any(
            run.manifest.cause.kind is CauseKind.LIVE and each[1] in run.manifest.partitions
            for run in tx.runs.records(table=each[0], states=EVER_PUBLISHED)
        )

    def _beyond_following(
        self,
        tx: ReadTransaction,
        each: Partition,
        run: RunRecord,
        was: Seen | None,
        now: Seen,
        newest: Mapping[str, date],
    ) -> Iterator[str]:
        if was is not None and was.release != now.release:
            yield f"{run.run_id} has brought {now.release} in place of {was.release}"
        if each[0] == PALETTE:
            return
        if was is None and each not in self.undone and self._was_made_live(tx, each):
            yield from self._beyond_live(each, now, newest)
            return
        if was is None or each in self.undone:
            yield f"{run.run_id} has published what was not there, or was rolled back"
            return
        if gone := {key for key, order in was.keys.items() if now.keys.get(key) != order}:
            yield f"{run.run_id} has changed approved keys: {sorted(gone)}"
        for key in now.keys.keys() - was.keys.keys():
            order = now.keys[key]
            import_id = self.compute.came_with(order)
            if not import_id or self.compute.landed_on[import_id] > order.day + timedelta(days=LATENESS):
                yield f"{run.run_id} has added {key}, which is no late event"

    def _note(self, each: Partition, was: Seen | None, now: Seen | None) -> None:
        table, day = each
        self.ever[table] = max(day, self.ever.get(table, day))
        is_back = now is None or (was is not None and now.claim.version < was.claim.version)
        (self.undone.add if is_back else self.undone.discard)(each)

    def _seen(self, tx: ReadTransaction, each: Partition, claim: AcceptedPartition, before: Seen | None) -> Seen:
        # A run that was approved and found the rows equal has agreed to other orders behind them.
        equal = [
            found
            for found in tx.publications.verifying(*each, claim.version)
            if tx.runs.header(found.run_id).approval is ApprovalState.APPROVED
        ]
        run_id = equal[0].run_id if equal else claim.run_id
        if before is not None and (before.claim, before.by) == (claim, run_id):
            return before
        run = tx.runs.get(run_id)
        keys: dict[str, Order] = {}
        if each[0] != PALETTE:
            window = [each[1] + timedelta(days=n) for n in ((0, 1) if each[0] == TURNOVER else (0,))]
            (read,) = run.manifest.inputs
            made = tx.versions.made_by_digest(ORDERS, window)
            for pinned in read.partitions:
                if pinned.partition in window:
                    load = tx.runs.get(made[pinned.partition, pinned.digest])
                    found = self.compute.current(load.manifest.change.imports)
                    keys |= {key: order for key, order in found.items() if order.day == pinned.partition}
        return Seen(claim=claim, by=run_id, release=tx.runs.get(claim.run_id).manifest.transform_version, keys=keys)

    def end(self) -> Iterator[str]:
        """Everything that was left half done is ended."""
        self.recover(self.ws)
        yield from self.look()

    # -------------------------------------------------------------------------------------------------------- choices

    def _acting(self, name: str) -> Acting:
        return Acting(by=name, recorder=Unrecorded())

    def _rolls_back(self, ws: Workspace, name: str) -> str:
        chosen, with_dependents = self._pick(RunState.PUBLISHED), self.chance.random() < 0.5
        Restatement(ws, chosen).rollback(self._acting(name), reason="mine", with_dependents=with_dependents)
        return f"roll back {chosen} by {name!r}"

    def _lands(self, ws: Workspace, some: Sequence[Order]) -> str:
        import_id = self.compute.take_in(ws, some, by="eve")
        what = f"land {import_id} {[(each.key[:6], str(each.day), each.row, each.is_withdrawn) for each in some]}"
        return self.load(ws, what) if self.chance.random() < 0.7 else what

    def _few(self) -> int:
        return self.chance.choice((1, 1, 2))

    def _row(self) -> tuple[int, int]:
        return self.chance.randrange(1, 90), self.chance.randrange(1, 1_000_000)

    def _some(self) -> Sequence[Order]:
        """Orders that are there, mostly of the newest days."""
        there = sorted(self.compute.current().values(), key=lambda order: (order.day, order.key))
        if not there:
            raise NothingThere
        return self.chance.sample(there[-12:] if self.chance.random() < 0.7 else there, min(self._few(), len(there)))

    def _day(self) -> date:
        """A day up to today."""
        past = (self.time.at.date() - FIRST).days
        return FIRST + timedelta(days=past - min(past, self.chance.choice(self.days_back)))

    def _some_days(self) -> DayRange:
        first = self._day()
        return DayRange.inclusive(first, first + timedelta(days=self.chance.randrange(3)))


@contextmanager
def begun(folder: Path) -> Iterator[tuple[Path, KeyedSparkFreeCompute]]:
    """A home in which every day but today has landed, and all three tables are published; copied for each story."""
    home = folder / "begun"
    reference = home / "reference" / "approvers.yaml"
    reference.parent.mkdir(parents=True)
    reference.write_text(f'version: "1"\ngroups: {{finance: [{", ".join(FINANCE)}]}}\n', encoding="utf-8")
    generator = SingleActorAttack(home=home, chance=random.Random(0))
    landed = [FIRST + timedelta(days=number) for number in range((BEGUN_AT.date() - FIRST).days)]
    with without_spark(generator.compute):
        for number in range(2):
            some = [Order(key=f"{number}-{day}", day=day, row=(10, 1)) for day in landed]
            generator.compute.take_in(generator.ws, some, by="ana")
        generator.load(generator.ws)
        for table in (TURNOVER, COLOURS):
            request = PlanRequest(table=table, days=DayRange.inclusive(landed[0], landed[-3]), reason="first", by="ana")
            run_id = operations.plan(generator.ws, request).manifest.run_id
            generator._carry(generator.ws, run_id)
            operations.approve(generator.ws, run_id, by="ben")
            operations.publish(generator.ws, run_id, by="ben")
        follow(generator.ws, Acting(by="follow", recorder=Unrecorded()))
    generator.ws.close()
    yield home, generator.compute


def tell(
    seed: int,
    start: Path,
    compute: KeyedSparkFreeCompute,
    folder: Path,
    *,
    steps: int,
    weights: Mapping[str, int],
    days_back: Sequence[int],
) -> Story:
    """The story of a seed, up to the first step after which something is found."""
    home = folder / "home"
    shutil.copytree(start, home)
    own = KeyedSparkFreeCompute(orders=dict(compute.orders), landed_on=dict(compute.landed_on))
    generator = SingleActorAttack(
        home=home, chance=random.Random(seed), compute=own, weights=weights, days_back=days_back
    )
    taken: list[Step] = []
    found: list[str] = []
    try:
        with without_spark(own):
            list(generator.look())
            for number in range(1, steps + 1):
                step, found = generator.step(number)
                taken.append(step)
                found += list(generator.look())
                if found:
                    break
            else:
                found = list(generator.end())
    finally:
        generator.ws.close()
        shutil.rmtree(home)
    return Story(seed=seed, steps=tuple(taken), violations=tuple(dict.fromkeys(found)))


def tell_all(
    seeds: Iterable[int],
    steps: int = STEPS,
    *,
    weights: Mapping[str, int] = EVERYTHING,
    days_back: Sequence[int] = MOSTLY_THE_NEWEST,
) -> Iterator[Story]:
    """The stories of some seeds, in memory if the machine has a folder there."""
    memory = Path("/dev/shm")
    place = memory if os.access(memory, os.W_OK) else None
    with (
        tempfile.TemporaryDirectory(prefix="backfill-alone-", dir=place) as name,
        begun(Path(name)) as (start, compute),
    ):
        for seed in seeds:
            yield tell(seed, start, compute, Path(name), steps=steps, weights=weights, days_back=days_back)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; its exit code is 1 when something was found."""
    parser = argparse.ArgumentParser(prog="python -m backfill_assets_tests.faults.single_actor_attack")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--seed", type=int, help="only this one, and tell it")
    given = parser.parse_args(arguments)
    seeds = range(given.first_seed, given.first_seed + given.count) if given.seed is None else [given.seed]
    bad, played = 0, 0
    for story in tell_all(seeds):
        played, bad = played + 1, bad + bool(story.violations)
        if story.violations or given.seed is not None:
            sys.stdout.write(f"{story.text}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{played:,} stories of one person alone, {bad} violations\n")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())

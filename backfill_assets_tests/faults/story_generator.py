"""What may happen to a home next: the acts that stories consist of, with the deaths and failures in them."""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.clock import Clock
from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import BackfillError, LeavesOrphans, NotApproved, Refused
from backfill_assets.core.settings import Settings
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.request import PlanRequest
from backfill_assets.planning.restatement import PlannedSet, SetRequest
from backfill_assets.workspace import Workspace
from backfill_assets_tests.conftest import SPARK_ENVIRONMENT
from backfill_assets_tests.domains.story import DOMAIN
from backfill_assets_tests.faults.documents import documents_answer
from backfill_assets_tests.faults.order import Standing, nothing_is_stuck, readers_see_what_the_ledger_says
from backfill_assets_tests.faults.spark_free_compute import SparkFreeCompute
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import advised

DAYS = tuple(date(2026, 1, 26) + timedelta(days=number) for number in range(7))
BUILT = DAYS[:-1]
"""What silver has at the beginning; its window looks a day ahead, and gold's a day back."""
STEPS = 30
BEGUN_AT = datetime(2026, 2, 10, 8, tzinfo=UTC)
SILVER = ("silver.turnover", "silver.colours")
WAITED = timedelta(hours=2)
"""Longer than any lease."""


class Died(BaseException):
    """The process is no more; no `except Exception` sees it."""


@dataclass(kw_only=True)
class Time:
    """A clock that moves on by a second at every look, and by more when the story says so."""

    at: datetime = BEGUN_AT

    def __call__(self) -> datetime:
        self.at += timedelta(seconds=1)
        return self.at


@dataclass(kw_only=True)
class Death:
    """Where the process of this step dies: at the crash point of this number; never for None."""

    after: int | None = None
    passed: int = 0

    def reached(self, _point: Point) -> None:
        """Called at every crash point."""
        self.passed += 1
        if self.after is not None and self.passed > self.after:
            raise Died


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one step was and how it ended."""

    number: int
    what: str
    ended: str

    def __str__(self) -> str:
        return f"{self.number:>3} {self.what}: {self.ended}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A seed's steps, and what was found after the last of them."""

    seed: int
    steps: tuple[Step, ...]
    violations: tuple[str, ...]

    @property
    def text(self) -> str:
        """Everything that happened."""
        return "\n".join([f"seed {self.seed}", *map(str, self.steps), *(f"  ! {each}" for each in self.violations)])


@dataclass(kw_only=True)
class StoryGenerator:
    """One home, and what may happen to it next."""

    home: Path
    chance: random.Random
    time: Time = field(default_factory=Time)
    compute: SparkFreeCompute = field(default_factory=SparkFreeCompute)
    killed: bool = False
    """Whether a process died since the last recovery."""

    def __post_init__(self) -> None:
        self.ws = open_home(self.home, self.time)

    # ------------------------------------------------------------------------------------------------ what people do

    def correct(self, ws: Workspace) -> str:
        """An order of one or two days comes in again with another amount or another colour."""
        days = self.chance.sample(DAYS, self.chance.choice((1, 1, 2)))
        orders = {day: self._corrected(day) for day in days}
        self.compute.land(ws, orders, by="ana")
        return self.load(ws, f"land {orders}")

    def load(self, ws: Workspace, what: str = "load") -> str:
        """Bronze is built from what has landed."""
        run = operations.plan_load(ws, "bronze.orders", partitions=None, by="ana", reason="landed")
        if run is not None:
            self._carry(ws, run.run_id)
            operations.publish(ws, run.run_id, by="ana")
        return what

    def plan(self, ws: Workspace) -> str:
        """A run over some days of a table."""
        table = self.chance.choice((*SILVER, "gold.palette"))
        request = PlanRequest(table=table, days=self._some_days(), reason="wrong", by="ana")
        return f"plan {operations.plan(ws, request).manifest.run_id}"

    def plan_set(self, ws: Workspace) -> str:
        """A set: all that depends on some days, or all that is stale."""
        stale = self.chance.random() < 0.4
        because = () if stale else (("bronze.orders", self._some_days()),)
        planned = operations.plan_set(
            ws, SetRequest(reason="wrong", by="ana", stale=stale, because=because, partial=True)
        )
        return f"plan {planned.manifest.set_id}" if isinstance(planned, PlannedSet) else "plan: nothing to rebuild"

    def run(self, ws: Workspace) -> str:
        """Stages and gates a run, or the runs of a set."""
        chosen = self._pick(RunState.PLANNED, RunState.STAGED, RunState.PASSED, RunState.FAILED, RunState.BLOCKED)
        for run_id in self._runs_of(chosen):
            if self._state(run_id) not in (RunState.PUBLISHED, RunState.SUPERSEDED, RunState.PUBLISHING):
                self._carry(ws, run_id)
        return f"run {chosen}"

    def approve(self, ws: Workspace) -> str:
        """Ben agrees."""
        chosen = self._pick(RunState.PASSED, RunState.PLANNED, RunState.ROLLED_BACK)
        operations.approve(ws, chosen, by="ben")
        return f"approve {chosen}"

    def publish(self, ws: Workspace) -> str:
        """A run or a set becomes what readers see."""
        chosen = self._pick(RunState.PASSED, RunState.ROLLED_BACK)
        publish = operations.publish_set if operations.is_set(chosen) else operations.publish
        publish(ws, chosen, by="ben")
        return f"publish {chosen}"

    def all_the_way(self, ws: Workspace) -> str:
        """A new set or run that goes through without a pause."""
        name = (self.plan_set(ws) if self.chance.random() < 0.6 else self.plan(ws)).removeprefix("plan ")
        if name.startswith("plan:"):
            return name
        for run_id in self._runs_of(name):
            self._carry(ws, run_id)
        operations.approve(ws, name, by="ben")
        (operations.publish_set if operations.is_set(name) else operations.publish)(ws, name, by="ben")
        return f"plan, run, approve and publish {name}"

    def roll_back(self, ws: Workspace) -> str:
        """A publication is undone."""
        chosen = self._pick(RunState.PUBLISHED)
        try:
            roll_back = operations.rollback_set if operations.is_set(chosen) else operations.rollback
            roll_back(ws, chosen, by="ben", reason="second thoughts")
        except LeavesOrphans:
            operations.rollback_with_dependents(ws, chosen, by="ben", reason="second thoughts")
            return f"roll back {chosen} with dependents"
        return f"roll back {chosen}"

    def follow(self, ws: Workspace) -> str:
        """Whatever publications ask for is computed and, where policy allows, published."""
        operations.plan_follow_ups(ws, by="follow")
        with ws.ledger.read() as reader:
            waiting = reader.outbox.unfinished_follow_ups(
                (RunState.PLANNED, RunState.FAILED, RunState.STAGED, RunState.PASSED)
            )
        done = []
        for run in waiting:
            if run.state is not RunState.PASSED:
                self._carry(ws, run.run_id)
            try:
                operations.publish(ws, run.run_id, by="follow")
            except Refused:
                # What it follows moved on: a person decides, or the next publication asks for it again.
                continue
            done.append(run.run_id)
        return f"follow {done}"

    def cancel(self, ws: Workspace) -> str:
        """What was planned is not wanted any more."""
        chosen = self._pick(RunState.PLANNED, RunState.PASSED, RunState.STAGED, RunState.FAILED, RunState.BLOCKED)
        operations.cancel(ws, chosen, by="ana", reason="not wanted")
        return f"cancel {chosen}"

    def recover(self, ws: Workspace) -> str:
        """What dead processes left is ended, after every lease has run out."""
        self.time.at += WAITED
        found = operations.recover(ws, by="ops")
        self.killed = False
        return f"recover {[each.outcome for each in found]}"

    # -------------------------------------------------------------------------------------------------------- telling

    @property
    def acts(self) -> Mapping[str, int]:
        """What may happen, by the name of the method, and how often."""
        return {act.__name__: weight for act, weight in ACTS.items()}

    def step(self, number: int) -> tuple[Step, list[str]]:
        """Takes a step by chance, and looks around."""
        act = self.chance.choices(list(self.acts), weights=list(self.acts.values()))[0]
        dies = act != StoryGenerator.recover.__name__ and self.chance.random() < 0.15
        death = Death(after=self.chance.randrange(8) if dies else None)
        ws = replaced(self.ws, death)
        found_violations: list[str] = []
        ended = "done"
        what = act
        try:
            what = getattr(self, act)(ws)
        except Died:
            self.killed, ended = True, "died"
        except NothingThere:
            ended = "nothing to do"
        except BackfillError as error:
            ended = f"refused: {error} Next: {advised(error)}"
            if "plan bronze." in advised(error) or not advised(error):
                found_violations.append(f"it was not said what to do: {error}")
        except Exception as error:  # noqa: BLE001 - a violation of this seed
            found_violations.append(f"{what} ended with {error!r}\n{''.join(traceback.format_exception(error)[-3:])}")
        return Step(number=number, what=what, ended=ended), found_violations

    def look(self, most_runs: int = 4) -> Iterator[str]:
        """What is found_violations now."""
        yield from readers_see_what_the_ledger_says(self.ws, is_half_done=self.killed)
        yield from documents_answer(self.ws, is_half_done=self.killed, most_runs=most_runs)

    def end(self) -> Iterator[str]:
        """Everything that was left half done is ended, and then nothing is stuck."""
        self.recover(self.ws)
        try:
            self.load(self.ws)
        except NotApproved:  # of days whose load was undone
            with self.ws.ledger.read() as reader:
                (load, *_) = reader.runs.records(table="bronze.orders", states=[RunState.PASSED], limit=1)
            operations.approve(self.ws, load.run_id, by="ben")
            operations.publish(self.ws, load.run_id, by="ana")
        self.follow(self.ws)
        yield from self.look(most_runs=100)
        yield from nothing_is_stuck(self.ws, Standing.of(self.ws))

    # -------------------------------------------------------------------------------------------------------- choices

    def _corrected(self, day: date) -> tuple[int, int]:
        held = [rows[day] for rows in self.compute.files.values() if day in rows]
        amount, colour = held[-1] if held else (10, 1)
        if self.chance.random() < 0.1:
            return 900 + amount, colour
        return (amount + 1, colour) if self.chance.random() < 0.5 else (amount % 900, colour + 1)

    def _some_days(self) -> DayRange:
        first = self.chance.randrange(len(DAYS))
        return DayRange.inclusive(DAYS[first], DAYS[self.chance.randrange(first, min(first + 4, len(DAYS)))])

    def _pick(self, *states: RunState) -> str:
        """A run in one of these states, or the set that it is of; mostly one of the newest."""
        with self.ws.ledger.read() as reader:
            found = reader.runs.records(states=states)
            derived = [run for run in found if run.manifest.inputs or self.chance.random() < 0.1]
            names = list(dict.fromkeys(run.request_id for run in derived))
        if not names:
            raise NothingThere
        return names[0] if self.chance.random() < 0.6 else self.chance.choice(names)

    def _runs_of(self, name: str) -> Sequence[str]:
        if not operations.is_set(name):
            return [name]
        with self.ws.ledger.read() as reader:
            return [member.run_id for member in reader.sets.get(name).manifest.members]

    def _state(self, run_id: str) -> RunState:
        return operations.state_of(self.ws, run_id)

    def _carry(self, ws: Workspace, run_id: str) -> None:
        operations.stage(ws, run_id, actor="ana")
        operations.gate(ws, run_id, actor="ana")


class NothingThere(Exception):
    """There is nothing that this step could be taken with."""


Act = Callable[[StoryGenerator, Workspace], str]
ACTS: Mapping[Act, int] = {
    StoryGenerator.correct: 5,
    StoryGenerator.load: 1,
    StoryGenerator.plan: 3,
    StoryGenerator.plan_set: 3,
    StoryGenerator.run: 5,
    StoryGenerator.approve: 4,
    StoryGenerator.publish: 5,
    StoryGenerator.all_the_way: 4,
    StoryGenerator.roll_back: 4,
    StoryGenerator.follow: 3,
    StoryGenerator.cancel: 2,
    StoryGenerator.recover: 2,
}


def open_home(home: Path, clock: Clock) -> Workspace:
    """A workspace of the story domain."""
    environment = {
        "BACKFILL_HOME": str(home),
        "BACKFILL_DOMAIN": "backfill_assets_tests.domains.story",
        "BACKFILL_FIRST_DAY": DAYS[0].isoformat(),
        **SPARK_ENVIRONMENT,
    }
    return Workspace(settings=Settings.from_environment(environment), domain=DOMAIN, clock=clock)


def replaced(ws: Workspace, death: Death) -> Workspace:
    """The same workspace for a process that may die."""
    made = replace(ws, reached=death.reached)
    for name in ("ledger", "lake", "references", "graph", "code"):
        made.__dict__[name] = getattr(ws, name)
    return made

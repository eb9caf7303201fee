"""Publications and rollbacks replayed through the follow sensor, whose daemon is killed between ticks and within them.

Half a year of silver and gold, made by hand as in `by_hand`: real Delta, a real ledger, a real record of Dagster's
runs, no Spark. The daemon is a process of its own that evaluates ticks and records what they ask for, as Dagster's
does. It is killed before a tick, in the middle of its planning, or between the runs that it launches. What has to be
asked for is kept here, beside the ledger: which run each day has its rows from.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from dagster import DagsterEvent, DagsterEventType, DagsterInstance, DagsterRun, DagsterRunStatus

from backfill_assets.application.recover import recover
from backfill_assets.calendar.partitions import DayRange, Grain, partition_of
from backfill_assets.core.crash_points import Point
from backfill_assets.core.settings import Settings
from backfill_assets.ledger.states import RunState
from backfill_assets.orchestration import tags
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.by_hand import Hand
from backfill_assets_tests.support.dagster_record import open_record
from backfill_assets_tests.support.hand_made import GOLD, SILVER, make_tables
from backfill_assets_tests.support.shop import shop_environment
from backfill_assets_tests.support.ticks import Ticks

DAYS = DayRange.inclusive(date(2026, 1, 1), date(2026, 6, 30))
MONTHS = tuple(sorted({partition_of(Grain.MONTHLY, day) for day in DAYS}))
SENSOR = "follow"


def opened(home: Path) -> Workspace:
    return Workspace.open(Settings.from_environment(shop_environment(home)))


def daemon(home: Path, orders: Connection) -> None:
    """Ticks whenever it is told to, and launches what the tick asks for; dies where it is told to."""
    ws = opened(home)
    with open_record(ws.settings) as instance:
        while True:
            dies = orders.recv()
            ticks = Ticks(replace(ws, reached=_dying(dies)))
            with ticks.open(instance):
                for number, request in enumerate(ticks.asked(SENSOR)):
                    if dies == f"launching {number}":
                        os.kill(os.getpid(), signal.SIGKILL)
                    ticks.recorded(request, DagsterRunStatus.NOT_STARTED)
            orders.send(ticks.said)


def _dying(dies: str) -> Any:
    def reached(point: Point) -> None:
        if dies == str(point):
            os.kill(os.getpid(), signal.SIGKILL)

    return reached


@dataclass(kw_only=True)
class Replay:
    """A replay under way."""

    hand: Hand
    chance: random.Random
    instance: DagsterInstance
    home: Path
    current: dict[date, str] = field(default_factory=dict)  #: The run whose rows each day has.
    #: The run whose rows each day had before a run replaced them.
    before: dict[tuple[str, date], str] = field(default_factory=dict)
    #: The runs that can be rolled back, with their publications, in order.
    standing: list[tuple[str, str]] = field(default_factory=list)
    publications: int = 0
    rollbacks: int = 0
    kills: int = 0
    ticks: int = 0
    launches: tuple[DagsterRun, ...] = ()  #: Everything that was launched, at the end.
    process: Any = None
    orders: Connection | None = None

    def publish(self) -> None:
        """A run over a few days of one month."""
        month = self.chance.choice(MONTHS)
        of_month = [day for day in DAYS if self._month(day) == month]
        days = self.chance.sample(of_month, self.chance.randint(1, 3))
        self.publications += 1
        run_id = self.hand.silver(dict.fromkeys(days, 100 + self.publications))
        publication = self.hand.publish(run_id)
        for day in days:
            self.before[run_id, day] = self.current[day]
            self.current[day] = run_id
        self.standing.append((run_id, publication))

    def undo(self) -> None:
        """The rollback of a publication whose days nothing has replaced since."""
        free = [(run, pub) for run, pub in self.standing if all(self.current[day] == run for day in self._days(run))]
        if not free:
            return
        run_id, publication = self.chance.choice(free[-5:])
        self.rollbacks += 1
        self.hand.undo(publication)
        self.standing.remove((run_id, publication))
        for day in self._days(run_id):
            self.current[day] = self.before[run_id, day]

    def _days(self, run_id: str) -> list[date]:
        return [day for run, day in self.before if run == run_id]

    def tick(self, dies: str) -> None:
        """A tick of the daemon, which is begun anew where it was killed."""
        if dies == "between ticks" and self.process is not None:
            self._kill()
        self._begin()
        assert self.orders is not None
        self.ticks += 1
        self.orders.send(dies)
        try:
            self.orders.recv()
        except EOFError:
            self._gone()

    def settled_tick(self) -> None:
        """A tick that nothing stops asks for exactly the months that were not computed from what silver holds.

        A run that was planned by a tick that was killed is launched now; a publication since then asks for its month by
        itself.
        """
        known = {run.run_id for run in self.launched()}
        lacking = self.lacking()
        self.tick("")
        new = [run.tags[tags.RUN_ID] for run in self.launched() if run.run_id not in known]
        asked = {month for run_id in new for month in self._months(run_id)}
        assert asked == lacking, f"{asked} were asked for, and {lacking} are lacking"

    def lacking(self) -> set[date]:
        """The months for which no living run that was launched reads what silver holds now."""
        launched = {run.tags[tags.RUN_ID] for run in self.launched()}
        read: dict[date, dict[date, str]] = {}
        with self.hand.ws.ledger.read() as tx:
            for run in tx.runs.records(table=GOLD, limit=100):
                is_living = run.state is not RunState.CANCELLED and run.run_id in launched
                if not is_living or read.keys() >= set(run.manifest.partitions):
                    continue
                pins = [(pin.partition, pin.version) for each in run.manifest.inputs for pin in each.partitions]
                versions = tx.versions.pinned(SILVER, pins)
                for month in set(run.manifest.partitions) - read.keys():
                    read[month] = {day: v.run_id for day, v in versions.items() if self._month(day) == month}
        return {month for month in MONTHS if read[month] != self._silver_of(month)}

    def _silver_of(self, month: date) -> dict[date, str]:
        return {day: run for day, run in self.current.items() if self._month(day) == month}

    @staticmethod
    def _month(day: date) -> date:
        return partition_of(Grain.MONTHLY, day)

    def _months(self, run_id: str) -> tuple[date, ...]:
        return operations.run_named(self.hand.ws, run_id).manifest.partitions

    def launched(self) -> list[DagsterRun]:
        """The Dagster runs that the sensor's ticks led to."""
        return list(self.instance.get_runs())

    def work(self, most: int) -> None:
        """Executes some of what was launched, the oldest first, as Dagster's queue does."""
        waiting = [run for run in reversed(self.launched()) if not run.is_finished]
        for launched in waiting[:most]:
            run_id = launched.tags[tags.RUN_ID]
            if operations.state_of(self.hand.ws, run_id) is RunState.PLANNED:
                self._stage(run_id)
                self.hand.publish(run_id)
            event = DagsterEvent(
                event_type_value=DagsterEventType.RUN_SUCCESS.value, job_name=launched.job_name, message="done"
            )
            self.instance.report_dagster_event(event, run_id=launched.run_id)

    def _stage(self, run_id: str) -> None:
        sums = self.sums()
        self.hand.stage(run_id, {month: sums[month] for month in self._months(run_id)})

    def sums(self) -> Counter[date]:
        """What silver holds, by month."""
        found: Counter[date] = Counter()
        for row in self.hand.ws.lake.open(SILVER).to_pyarrow_table(columns=["day", "amount"]).to_pylist():
            found[self._month(row["day"])] += row["amount"]
        return found

    def gold(self) -> Counter[date]:
        """What readers see of the months."""
        table = self.hand.ws.lake.open(GOLD).to_pyarrow_table(columns=["month", "amount"])
        return Counter({row["month"]: row["amount"] for row in table.to_pylist()})

    def _begin(self) -> None:
        if self.process is not None:
            return
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__])
        self.orders, theirs = context.Pipe()
        self.process = context.Process(target=daemon, args=(self.home, theirs), daemon=True)
        self.process.start()
        theirs.close()

    def _kill(self) -> None:
        self.process.kill()
        self._gone()

    def _gone(self) -> None:
        self.process.join()
        assert self.process.exitcode == -signal.SIGKILL, self.process.exitcode
        self.kills += 1
        self.process, self.orders = None, None
        recover(self.hand.ws, by="recover")

    def end(self) -> None:
        """Ends the daemon."""
        if self.process is not None:
            self.process.kill()
            self.process.join()


DEATHS = ("between ticks", str(Point.FOLLOW_UP_PLANNED), str(Point.FOLLOW_UPS_DELIVERED), "launching 0", "launching 1")


@contextmanager
def replaying(home: Path, seed: int) -> Iterator[Replay]:
    """A home in which all of silver and gold is published, and nothing is left to do."""
    hand = Hand(ws=opened(home))
    make_tables(hand.ws.lake)
    first = hand.silver(dict.fromkeys(DAYS, 10))
    hand.publish(first)
    with open_record(hand.ws.settings) as instance:
        replay = Replay(hand=hand, chance=random.Random(seed), instance=instance, home=home)
        replay.current = dict.fromkeys(DAYS, first)
        try:
            replay.tick("")
            replay.work(len(MONTHS))
            assert replay.gold() == replay.sums()
            yield replay
        finally:
            replay.end()
            hand.ws.close()


def replayed(home: Path, *, publications: int, rollbacks: int, seed: int) -> Replay:
    """Publishes and rolls back so often, with ticks in between that are killed as often as not."""
    with replaying(home, seed) as replay:
        while replay.publications < publications or replay.rollbacks < rollbacks:
            share = rollbacks / (publications + rollbacks)
            for _ in range(replay.chance.randint(1, 6)):
                if replay.rollbacks < rollbacks and replay.chance.random() < share:
                    replay.undo()
                elif replay.publications < publications:
                    replay.publish()
                elif replay.rollbacks < rollbacks:
                    replay.undo()
            if replay.chance.random() < 0.6:
                replay.tick(replay.chance.choice(DEATHS))
            if replay.chance.random() < 0.5:
                replay.settled_tick()
            replay.work(replay.chance.randint(0, 8))
        replay.settled_tick()
        replay.work(10_000)
        replay.settled_tick()
        replay.launches = tuple(replay.launched())
        return replay

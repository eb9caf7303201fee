"""Does anything get lost, or half visible, wherever a process is killed?

Every operation is killed at every place between two of its durable steps: once, and twice at the same place with a
recovery between, where the recovery that follows the second kill is killed as well. After that `recover` runs, and

- readers see what they saw before the operation, or what they see after it, table by table;
- ledger, tables, logs and bytes agree, and the history still holds everything that it held;
- the operation can be taken up again, and ends where a run without a kill ends;
- vacuum leaves no file that is not needed.

    python -m backfill_assets_tests.faults.crashes --workers 2
    BACKFILL_TEST_LAKE=s3 python -m backfill_assets_tests.faults.crashes --workers 2 --how once --part 1/3

A part is every so manyth operation, for where all of them take too long for one sitting; the parts together are all.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from queue import Empty, Queue
from typing import Any

from pyspark.sql import SparkSession

from backfill_assets.capture.landed_files import landing_place
from backfill_assets.core.crash_points import Point
from backfill_assets.core.settings import Settings
from backfill_assets.core.spark import open_spark
from backfill_assets.files.local import LocalFiles
from backfill_assets.ledger.imports import KeyCounts
from backfill_assets.ledger.states import COUNTING, ImportState, PublicationState, RunState, SetState
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.faults.dying import RECOVER, Victims
from backfill_assets_tests.faults.homes import copied, opened, stock
from backfill_assets_tests.faults.outside import outside
from backfill_assets_tests.faults.scenario import TABLES, Notes, Scenario, held, seen
from backfill_assets_tests.faults.scenarios import SCENARIOS
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.lakes import (
    files_below,
    folder_at,
    folder_of,
    forget_lake,
    lakes_where_asked,
    memory,
)
from backfill_assets_tests.support.lineages import unexplained
from backfill_assets_tests.support.shop import SALES, Shop, shop_environment

HOW = ("once", "twice")
UNDER_WAY = (RunState.STAGING, RunState.GATING, RunState.PUBLISHING)
A_LONG_TIME = timedelta(days=4_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clean:
    """A scenario without a kill: where it begins, the places it passes, and where it ends."""

    template: Path
    notes: Notes
    head: str
    before: Mapping[str, Any]
    places: tuple[Point, ...]
    after: Mapping[str, Any]
    finished: Mapping[str, Any]
    held: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One kill: at the n-th place that a scenario passes."""

    scenario: str
    visit: int
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a case; `violations` is empty when every promise was kept."""

    case: Case
    point: Point | None
    violations: tuple[str, ...]
    seconds: float


class Bench:
    """One worker: its Spark session, its templates, and the victims it kills."""

    def __init__(self, folder: Path, spark: SparkSession, victims: Victims) -> None:
        self._folder = folder
        self._spark = spark
        self._victims = victims
        self._clean: dict[str, Clean] = {}
        self._cases = 0

    def clean(self, name: str) -> Clean:
        """The scenario without a kill, done once."""
        if name not in self._clean:
            self._clean[name] = self._prepared(SCENARIOS[name])
        return self._clean[name]

    def _prepared(self, scenario: Scenario) -> Clean:
        stocked = self._folder / "stocked" / scenario.home
        if not stocked.exists():
            stock(scenario.home, stocked, self._spark)
        template = copied(stocked, self._folder / "templates" / scenario.name.replace(" ", "_"))
        shop = opened(template, hours=1, spark=self._spark)
        notes = scenario.prepare(shop)
        before = seen(shop)
        with shop.ws.ledger.read() as reader:
            head = reader.events.head()
        shop.ws.close()
        shop = opened(self._home(template), hours=2, spark=self._spark)
        places: list[Point] = []
        scenario.act(replace(shop.ws, reached=places.append), self._notes(notes, template, shop))
        after = seen(shop)
        operations.recover(shop.ws, by="ops")
        scenario.finish(shop, self._notes(notes, template, shop))
        clean = Clean(
            template=template,
            notes=notes,
            head=head,
            before=before,
            places=tuple(places),
            after=after,
            finished=seen(shop),
            held=held(shop),
        )
        shop.ws.close()
        return clean

    def _home(self, template: Path) -> Path:
        self._cases += 1
        return copied(template, self._folder / f"case_{self._cases}")

    @staticmethod
    def _notes(notes: Notes, template: Path, shop: Shop) -> Notes:
        """The notes with paths in this home instead of the template's."""
        home = str(shop.ws.settings.home)
        return {name: value.replace(str(template), home) for name, value in notes.items()}

    def run(self, case: Case) -> Outcome:
        """Kills, recovers, looks, finishes, and looks again."""
        began = time.monotonic()
        scenario, clean = SCENARIOS[case.scenario], self.clean(case.scenario)
        home = self._home(clean.template)
        shop = opened(home, hours=20, spark=self._spark)
        notes = self._notes(clean.notes, clean.template, shop)
        violations: list[str] = []
        point = self._victims.killed(home, case.scenario, notes, visit=case.visit, hours=3)
        if point is None:
            violations.append(f"it ended before it had passed {case.visit + 1} places")
        if case.how == "twice":
            self._victims.killed(home, RECOVER, notes, visit=10**6, hours=5)
            self._again(home, case, notes)
            self._victims.killed(home, RECOVER, notes, visit=0, hours=7)
        try:
            violations += self._looked_at(shop, scenario, clean, notes)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is reported as a violation
            violations.append(f"{type(error).__name__}: {error}")
        shop.ws.close()
        forget_lake(home)
        return Outcome(case=case, point=point, violations=tuple(violations), seconds=time.monotonic() - began)

    def _again(self, home: Path, case: Case, notes: Notes) -> None:
        """The operation is tried once more and killed at the same place, if it is still what can be done."""
        try:
            self._victims.killed(home, case.scenario, notes, visit=case.visit, hours=6)
        except AssertionError as error:
            # A refusal in words is an answer: what was asked for is done, or its turn has passed.
            if not re.search(r"backfill_assets\.\w+\.errors\.", str(error)):
                raise

    def _looked_at(self, shop: Shop, scenario: Scenario, clean: Clean, notes: Notes) -> Iterator[str]:
        yield from _mixtures(seen(shop), clean)
        yield from (f"readers see rows of {run_id} without lineage" for run_id in unexplained(shop))
        operations.recover(shop.ws, by="ops")
        yield from _mixtures(seen(shop), clean)
        yield from _disagreements(shop, clean)
        if found := operations.recover(shop.ws, by="ops"):
            yield f"recover found something the second time: {found}"
        scenario.finish(shop, notes)
        if seen(shop) != clean.finished:
            yield f"taken up again it ends with {seen(shop)}, without a kill with {clean.finished}"
        yield from _others(held(shop), clean.held)
        yield from _disagreements(shop, clean)
        yield from _leaks(shop)


def _mixtures(present: Mapping[str, Any], clean: Clean) -> Iterator[str]:
    for table, rows in present.items():
        allowed = [state.get(table) for state in (clean.before, clean.after, clean.finished)]
        if rows not in allowed:
            yield f"readers of {table} see {rows}, which is neither {allowed[0]} nor {allowed[1]}"


def _others(found: Mapping[str, Any], clean: Mapping[str, Any]) -> Iterator[str]:
    for name, expected in clean.items():
        if found[name] != expected:
            yield f"taken up again, {name} is {found[name]}, and {expected} without a kill"


def _disagreements(shop: Shop, clean: Clean) -> Iterator[str]:
    yield from audit(shop.ws, head=clean.head).problems
    with shop.ws.ledger.read() as reader:
        yield from (f"{run.run_id} is still {run.state}" for run in reader.runs.records(states=UNDER_WAY))
        left = reader.publications.records(states=[PublicationState.PUBLISHING])
        yield from (f"{record.publication_id} is still open" for record in left)
        half = reader.sets.records(states=[SetState.PUBLISHING, SetState.ROLLING_BACK])
        yield from (f"{record.set_id} is still {record.state}" for record in half)
        landing = reader.imports.records(states=[ImportState.LANDING])
        live = reader.imports.records(SALES, COUNTING)
        # One that was being landed again in its place has its former part in the sums of the others.
        is_half = any(r.landed_at is not None and r.state not in COUNTING for r in reader.imports.records(SALES))
        yield from (f"{record.import_id} is still LANDING" for record in landing)
    ever, keys = sum(r.counts.accepted for r in live), sum((r.keys for r in live), KeyCounts())
    if (ever != keys.ever and not is_half) or not all(r.counts.reconciles for r in live):
        yield f"the accounts do not close: {ever} records are accepted, and the keys are {keys}"


def _leaks(shop: Shop) -> Iterator[str]:
    """Files that are not needed and that vacuum leaves, long after everything."""
    late = replace(shop.ws, clock=lambda: shop.ws.clock() + A_LONG_TIME)
    operations.vacuum(late, by="ops")
    for table in TABLES:
        if not shop.ws.lake.exists(table):
            continue
        root = folder_of(shop.ws.lake, table) / "_runs"
        there = {path for path in root.rglob("*") if path.is_file()}
        live = {folder_of(shop.ws.lake, table) / path for path in shop.live_paths(table)}
        yield from (f"leaked: {table} {path.relative_to(root)}" for path in _unneeded(there, live))
    landing = folder_at(shop.ws.settings.landing) / SALES.partition(".")[2]
    with shop.ws.ledger.read() as reader:
        used = {record.import_id for record in reader.imports.records(states=COUNTING)}
    incoming = LocalFiles(landing_place(shop.ws.settings, SALES).incoming)
    yield from (f"leaked: {each.path}" for each in incoming.listed())
    yield from (f"leaked: {path}" for path in files_below(landing / "decoded"))
    unused = (path for path in (landing / "conformed").glob("*") if path.name not in used)
    yield from (f"leaked: {path}" for folder in unused for path in files_below(folder))


def _unneeded(there: Iterable[Path], live: set[Path]) -> Sequence[Path]:
    """Data files that no reader sees, and other files in folders without one that a reader sees."""
    folders = {parent for path in live for parent in path.parents}
    return [
        path
        for path in sorted(there)
        if (path.suffix == ".parquet" and path not in live)
        or (path.suffix != ".parquet" and path.parent not in folders)
    ]


def part(typed: str) -> tuple[int, int]:
    """The number of a part, and of how many: `2/3`."""
    number, _, of = typed.partition("/")
    if not (number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
        raise argparse.ArgumentTypeError(f"{typed!r} is no part; such as 2/3")
    return int(number), int(of)


def chosen(names: Sequence[str], number: int, of: int) -> Sequence[str]:
    """The scenarios of a part, those that start Spark first, because they take longest; all parts together are all."""
    return sorted(names, key=lambda name: not SCENARIOS[name].needs_spark)[number - 1 :: of]


def cases(names: Sequence[str], hows: Sequence[str], places: Mapping[str, int]) -> list[Case]:
    """Every place of every scenario, killed in every way."""
    return [Case(scenario=n, visit=visit, how=how) for n in names for visit in range(places[n]) for how in hows]


def _worker(waiting: Queue[str], hows: Sequence[str]) -> list[Outcome]:
    """Takes scenarios from the queue until there are no more."""
    with tempfile.TemporaryDirectory(prefix="crashes-", dir=memory()) as folder, Victims() as victims, outside():
        environment = {**shop_environment(Path(folder) / "spark"), "BACKFILL_SPARK_MEMORY": "1g"}
        spark = open_spark(Settings.from_environment(environment))
        bench = Bench(Path(folder), spark, victims)
        outcomes: list[Outcome] = []
        with suppress(Empty):
            while True:
                name = waiting.get_nowait()
                for case in cases([name], hows, {name: len(bench.clean(name).places)}):
                    outcomes.append(bench.run(case))
                    _tell(outcomes[-1])
        spark.stop()
        return outcomes


def _tell(outcome: Outcome) -> None:
    case = outcome.case
    sys.stderr.write(
        f"{case.scenario:18} {case.how:6} {outcome.seconds:5.1f} s  {outcome.point or 'not reached'}"
        f"{'  VIOLATION' if outcome.violations else ''}\n"
    )
    for violation in outcome.violations:
        sys.stderr.write(f"    {violation}\n")


def table(outcomes: Iterable[Outcome]) -> str:
    """Crash points by operation, with the count of runs and of violations."""
    runs: Counter[tuple[str, str]] = Counter()
    bad: Counter[tuple[str, str]] = Counter()
    for outcome in outcomes:
        key = (outcome.case.scenario, outcome.point.value if outcome.point else "not reached")
        runs[key] += 1
        bad[key] += bool(outcome.violations)
    first, second = (max(len(key[column]) for key in runs) + 2 for column in (0, 1))
    lines = [f"{'operation':{first}}{'killed when':{second}}{'runs':>5}{'violations':>12}"]
    lines += [f"{name:{first}}{point:{second}}{runs[name, point]:5}{bad[name, point]:12}" for name, point in runs]
    lines.append(f"{'all':{first}}{'':{second}}{sum(runs.values()):5}{sum(bad.values()):12}")
    return "\n".join(lines)


def main() -> int:
    """Kills everything everywhere and prints the table; 1 when a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--scenario", action="append", choices=sorted(SCENARIOS))
    parser.add_argument("--how", action="append", choices=HOW)
    parser.add_argument("--part", type=part, default=(1, 1), help="such as 2/3: the second of three parts")
    given = parser.parse_args()
    with lakes_where_asked():
        return _killed(given)


def _killed(given: argparse.Namespace) -> int:
    names = chosen(given.scenario or list(SCENARIOS), *given.part)
    began = time.monotonic()
    context = multiprocessing.get_context("spawn")
    with (
        context.Manager() as manager,
        ProcessPoolExecutor(given.workers, mp_context=context) as pool,
    ):
        waiting = manager.Queue()
        for name in names:
            waiting.put(name)
        workers = [pool.submit(_worker, waiting, given.how or HOW) for _ in range(given.workers)]
        outcomes = [outcome for worker in workers for outcome in worker.result()]
    outcomes.sort(key=lambda outcome: (names.index(outcome.case.scenario), outcome.case.visit))
    sys.stdout.write(table(outcomes) + f"\n{time.monotonic() - began:.0f} s\n")
    return int(any(outcome.violations for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())

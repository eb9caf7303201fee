"""Is anything lost or half-visible when two or three actors take turns at one table, in whatever order?

Real functions on a real Delta table and a real ledger: publishers of overlapping days, a rollback, recover, vacuum, a
restatement set, a cancellation, a rollback that takes its dependents along, gold that follows and a rollback of what it
follows, processes that gate or stage a run again or withdraw its approval, and writers that know nothing of us: they
append, optimize, restore, delete. An actor stands still after every durable step, before every transaction of the
ledger, with a table's handle in its hand, and between compare and commit.

First all orders of the phases of every pair that changes one table. Then chance: two or three of all actors, every
stop; an actor may also die at a stop, and the ledger may be gone or a commit may fail, before or after it landed.
Everything follows from the seed. After each run `recover` is called, `invariants` are checked, losers try again, and
gold catches up (`outbox`).

    python -m backfill_assets_tests.faults.interleavings --count 10000 --workers 2
    python -m backfill_assets_tests.faults.interleavings --seed 4711
    python -m backfill_assets_tests.faults.interleavings --count 1000 --without compare
    python -m backfill_assets_tests.faults.interleavings --count 1000 --workers 2 --sweep
    BACKFILL_TEST_LAKE=s3 python -m backfill_assets_tests.faults.interleavings --count 2000 --workers 2
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from backfill_assets.application.recover import recover
from backfill_assets_tests.faults import guards
from backfill_assets_tests.faults.actors import (
    ACTS,
    BUSY,
    FOLLOWING,
    PUBLISHERS,
    actor,
    ordered_pairs,
    stops_inside_swaps,
    the_pairs,
)
from backfill_assets_tests.faults.invariants import (
    living_work_is_left_alone,
    losers_can_try_again,
    nothing_is_amiss,
    outcomes_are_told,
    readers_find_every_file,
)
from backfill_assets_tests.faults.outbox import gold_catches_up, is_followed_once, nothing_lacks_its_input
from backfill_assets_tests.faults.prepared import LedgerServer, Prepared
from backfill_assets_tests.faults.scene import Scene
from backfill_assets_tests.faults.turn_scheduler import Actor, Choose, Order, Stuck, Turn, every_order, play
from backfill_assets_tests.support.lakes import lakes_where_asked, memory

SHARE = 250
"""How many seeds a worker takes at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interleaving:
    """One run: who acted, in which order, and what was found_violations."""

    name: str  #: What to say to see it again: a seed, or a number among a pair's orders.
    actors: tuple[str, ...]
    turns: tuple[Turn, ...]
    outcomes: tuple[str, ...]
    violations: tuple[str, ...]

    @property
    def story(self) -> str:
        """Everything that happened, for the reader of a failure."""
        lines = [f"{self.name}: {' x '.join(self.actors)}"]
        lines += [f"  {turn}" for turn in self.turns]
        lines += [f"  = {outcome}" for outcome in self.outcomes]
        lines += [f"  ! {violation}" for violation in self.violations]
        return "\n".join(lines)


@dataclass(kw_only=True)
class Report:
    """How many runs each group of actors had, and which of them show something found_violations."""

    runs: dict[str, int] = field(default_factory=dict)
    failed: list[Interleaving] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, run: Interleaving) -> None:
        """Counts a run."""
        group = _group(run)
        self.runs[group] = self.runs.get(group, 0) + 1
        if run.violations:
            self.failed.append(run)

    def merge(self, other: Report) -> None:
        """Adds what another process found."""
        for group, runs in other.runs.items():
            self.runs[group] = self.runs.get(group, 0) + runs
        self.failed += other.failed

    @property
    def total(self) -> int:
        return sum(self.runs.values())

    @property
    def table(self) -> str:
        """Groups of actors, runs and violations."""
        wide = max((len(group) for group in self.runs), default=0)
        bad: dict[str, int] = {}
        for run in self.failed:
            bad[_group(run)] = bad.get(_group(run), 0) + 1
        lines = [f"{'actors':<{wide}} {'interleavings':>14} {'violations':>11}"]
        lines += [f"{group:<{wide}} {runs:>14,} {bad.get(group, 0):>11}" for group, runs in sorted(self.runs.items())]
        lines.append(f"{'all':<{wide}} {self.total:>14,} {len(self.failed):>11}   in {self.seconds:.0f} s")
        return "\n".join(lines)


def _group(run: Interleaving) -> str:
    return " x ".join(sorted(run.actors)) if len(run.actors) == 2 else "three actors"


class Races:
    """Plays one interleaving after the other, each on a fresh copy of the same history."""

    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared

    def run(self, name: str, who: Sequence[str], choose: Choose, *, everywhere: bool) -> Interleaving:
        """One run in the order that `choose` says."""
        scene = self._prepared.copy()
        actors = [actor(each, scene, everywhere=everywhere) for each in who]
        found_violations: list[str] = []
        turns: list[Turn] = []
        try:
            looks = partial(readers_find_every_file, scene) if "vacuum" in who else tuple
            turns = play(actors, choose, after=lambda: found_violations.extend(looks()))
        except Stuck as stuck:
            found_violations.append(str(stuck))
        else:
            found_violations += outcomes_are_told(actors)
            found_violations += living_work_is_left_alone(actors)
            found_violations += self._afterwards(scene, who)
        return Interleaving(
            name=name,
            actors=tuple(who),
            turns=tuple(turns),
            outcomes=tuple(f"{each.name}: {_said(each)}" for each in actors),
            violations=tuple(dict.fromkeys(found_violations)),
        )

    def _afterwards(self, scene: Scene, who: Sequence[str]) -> list[str]:
        publishers = [each for each in who if each in PUBLISHERS]
        try:
            recover(scene.soon, by="ops")
            with scene.ws.ledger.read() as reader:
                found_violations = [*is_followed_once(reader), *nothing_lacks_its_input(reader)]
            if found_violations := found_violations + list(nothing_is_amiss(scene, audited=not publishers)):
                return found_violations
            if found_violations := list(losers_can_try_again(scene, publishers)):
                return found_violations
            if not any(each.startswith("foreign") for each in who) and set(who) & set(FOLLOWING):
                if found_violations := list(gold_catches_up(scene)):
                    return found_violations
                return [f"after following: {problem}" for problem in nothing_is_amiss(scene)]
            return [f"after trying again: {problem}" for problem in nothing_is_amiss(scene)] if publishers else []
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a violation of this seed
            return [f"ended with {error!r}"]

    def by_chance(self, seed: int, often: Sequence[str] = ()) -> Interleaving:
        """The run of a seed: who acts, in which order, and what breaks; every other one is of these actors."""
        chance = random.Random(seed)
        who = _who(chance)
        if often and seed % 2:
            who = tuple(often)
        breaks = chance.choice((0.0, 0.05, 0.15))

        def choose(alive: Sequence[Actor]) -> tuple[Actor, Order]:
            chosen = chance.choice(alive)
            if chance.random() >= breaks:
                return chosen, Order.GO
            return chosen, Order.FAIL if chosen.can_fail and chance.random() < 0.6 else Order.DIE

        return self.run(f"seed {seed}", who, choose, everywhere=True)

    def all_orders(self, who: Sequence[str]) -> Iterator[Interleaving]:
        """Every order of the phases of these actors."""
        numbers = iter(range(1_000_000))

        def one(choose: Choose) -> Interleaving:
            return self.run(f"order {next(numbers)}", who, choose, everywhere=False)

        for run in every_order(one):
            assert isinstance(run, Interleaving)
            yield run


def _who(chance: random.Random) -> tuple[str, ...]:
    """Two actors of all or three; as often two or three of those that do something to each other most of the time."""
    number = 2 if chance.random() < 0.7 else 3
    if chance.random() < 0.5:
        return tuple(chance.sample(BUSY, number))
    return chance.choice(the_pairs()) if number == 2 else tuple(chance.sample(list(ACTS), number))


def _said(each: Actor) -> str:
    return repr(each.outcome) if isinstance(each.outcome, BaseException) else "done"


@contextmanager
def races(*, without: str | None = None, server: LedgerServer | None = None) -> Iterator[Races]:
    """Races on a history of their own, in memory if the machine has a folder there.

    Args:
        without: The guard to take away.
        server: Where the ledger is; by default a SQLite file.
    """
    with tempfile.TemporaryDirectory(prefix="backfill-races-", dir=memory()) as folder:
        prepared = Prepared.make(Path(folder), server)
        try:
            with stops_inside_swaps(), guards.without(without):
                yield Races(prepared)
        finally:
            prepared.close()


def run_interleavings(seeds: Iterable[int], *, without: str | None = None, stop_at_first: bool = False) -> Report:
    """Random interleavings, one per seed.

    Args:
        seeds: The same seed is the same run.
        without: The guard to take away.
        stop_at_first: End with the first violation.
    """
    report, begun = Report(), time.monotonic()
    seen_by = guards.GUARDS[without].seen_by if without else 0
    often = () if isinstance(seen_by, int) else seen_by
    with races(without=without) as game:
        for seed in seeds:
            report.add(game.by_chance(seed, often))
            if report.failed and stop_at_first:
                break
    report.seconds = time.monotonic() - begun
    return report


def run_all_orders(pairs: Iterable[tuple[str, str]]) -> Report:
    """All orders of the phases of some pairs."""
    report, begun = Report(), time.monotonic()
    with races() as game:
        for pair in pairs:
            for run in game.all_orders(pair):
                report.add(run)
    report.seconds = time.monotonic() - begun
    return report


def first_failure(guard: str, count: int) -> Report:
    """The seeds without a guard, up to the first that shows what it is for."""
    return run_interleavings(range(count), without=guard, stop_at_first=True)


def _sweep(count: int, workers: int) -> int:
    """Takes every guard away in turn; 1 when nothing goes wrong without one of them."""
    names, begun = sorted(guards.GUARDS), time.monotonic()
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        reports = list(pool.map(first_failure, names, [count] * len(names)))
    for name, report in zip(names, reports, strict=True):
        found = f"seed {report.total - 1} fails" if report.failed else f"NO SEED OF {count:,} FAILS"
        sys.stdout.write(f"without {name:30}{found}\n")
    sys.stdout.write(f"{time.monotonic() - begun:.0f} s\n")
    return int(not all(report.failed for report in reports))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; its exit code is 1 when something was found_violations."""
    parser = argparse.ArgumentParser(prog="python -m backfill_assets_tests.faults.interleavings")
    parser.add_argument("--count", type=int, default=1_000, help="how many interleavings in all")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, help="only this one, and tell its story")
    parser.add_argument("--without", choices=sorted(guards.GUARDS), help="take a guard away; stops at a violation")
    parser.add_argument("--sweep", action="store_true", help="take every guard away in turn: some seed has to fail")
    given = parser.parse_args(arguments)
    with lakes_where_asked():
        return _played(given)


def _played(given: argparse.Namespace) -> int:
    if given.sweep:
        return _sweep(given.count, given.workers)
    if given.seed is not None:
        with races(without=given.without) as game:
            run = game.by_chance(given.seed)
        sys.stdout.write(f"{run.story}\n")
        return bool(run.violations)
    begun, report = time.monotonic(), Report()
    first = given.first_seed
    if given.without:
        report.merge(run_interleavings(range(first, first + given.count), without=given.without, stop_at_first=True))
    else:
        # Not forked: the Delta library has threads of its own.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(max_workers=given.workers, mp_context=context) as pool:
            pairs = ordered_pairs()
            for found in pool.map(run_all_orders, [pairs[number::8] for number in range(8)]):
                report.merge(found)
            end = first + max(given.count - report.total, 0)
            shares = [range(begin, min(begin + SHARE, end)) for begin in range(first, end, SHARE)]
            for found in pool.map(run_interleavings, shares):
                report.merge(found)
    report.seconds = time.monotonic() - begun
    stories = [run.story for run in report.failed[:5]]
    sys.stdout.write("\n".join([report.table, *stories, ""]))
    return bool(report.failed)


if __name__ == "__main__":
    sys.exit(main())

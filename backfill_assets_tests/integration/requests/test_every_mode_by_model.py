"""A table of every mode beside each other, against a model in pandas: whatever lands, is published, undone or killed,
rows and history are equal."""

from __future__ import annotations

import json
import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from backfill_assets.application.execute import execute
from backfill_assets.application.parts import Part
from backfill_assets.application.plan import plan_expiry
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import BackfillError, InputsMovedOn, Refused, TargetChanged
from backfill_assets.landing.extract import Extract
from backfill_assets.ledger.states import ApprovalState, RunState
from backfill_assets.upkeep.audit import audit
from backfill_assets.workspace import Workspace
from backfill_assets_tests.domains.modes import EVERY_MODE
from backfill_assets_tests.faults.scenario import Stopped
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import has_code
from backfill_assets_tests.support.ledger_book import ENTRIES, FIRST, Book, entry, open_book
from backfill_assets_tests.support.ledgers import copy_home
from backfill_assets_tests.support.merge_model import COLUMNS
from backfill_assets_tests.support.mode_model import ACCOUNTS, BY_TWO, ENTRY, MODES, RUNNING, ModeModel
from backfill_assets_tests.support.searches import is_thorough
from backfill_assets_tests.support.shop import ticking_clock

DAYS = [FIRST + timedelta(days=n) for n in range(1, 5)]
EVERY_SECOND_DAY = DAYS[::2]
SEEDS, PARTS = 200, 4
"""In a thorough run all seeds, otherwise the first one of each part."""
STEPS = 6
START = datetime(2026, 1, 15, 12, tzinfo=UTC)
REFUSALS = (TargetChanged, InputsMovedOn)
"""How a run is refused that was compared, or merged, with other rows than readers see."""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """A home in which every day is built, and nothing has happened on any."""
    home = tmp_path_factory.mktemp("modes") / "book"
    book = opened(home, spark)
    book.land("nothing", [entry(day, "z", gone=True) for day in (FIRST, DAYS[-1])])
    book.ws.close()
    return home


def opened(home: Path, spark: SparkSession) -> Book:
    book = open_book(home, clock=ticking_clock(START), spark=spark)
    return replace(book, ws=replace(book.ws, domain=EVERY_MODE))


@dataclass(frozen=True, kw_only=True)
class World:
    """A home in which entries land at random, and a story of every table that reads them."""

    book: Book
    choose: random.Random
    model: ModeModel
    stories: Sequence[Story]
    done: Counter[str] = field(default_factory=Counter)  #: How often each act on entries was carried out.

    @staticmethod
    def of(book: Book, seed: int) -> World:
        """With the entries of the template."""
        model = ModeModel()
        model.land(pd.DataFrame([(day, "z", 10, 1, True, f"z-{day}-1") for day in (FIRST, DAYS[-1])], columns=ENTRY))
        stories = [
            Story(book=book, model=model, table=table, choose=random.Random(f"{mode} {seed}"))
            for mode, table in MODES.items()
        ]
        return World(book=book, choose=random.Random(f"entries {seed}"), model=model, stories=stories)

    def told(self, *, steps: int) -> None:
        """Each step is one act on every table, before which entries may land or be withdrawn."""
        for step in range(steps):
            chance = self.choose.random()
            news = not step or chance < 0.25
            if news:
                self._land(step)
            elif chance > 0.8:
                self._withdraw()
            elif chance > 0.6:
                self._replace()
            for story in self.stories:
                story.goes_on(news=news)
                story.look(step)

    def _land(self, step: int) -> None:
        """New entries, deletes, and later versions of earlier ones, which may be on another day then."""
        news: dict[str, dict[str, Any]] = {}
        known = self._names()
        for number in range(self.choose.randint(1, 3)):
            is_again = bool(known) and self.choose.random() < 0.4
            name = self.choose.choice(known) if is_again else f"{step}-{number}"
            made = entry(
                self.choose.choice(DAYS),
                self.choose.choice("abc"),
                # Never the same twice, which would be a duplicate.
                100 * step + 10 * number + self.choose.randint(1, 9),
                version=self.choose.randint(1, 9),
                gone=self.choose.random() < 0.2,
                name=name,
            )
            news[name] = dict(made)
        self.book.land(f"news-{step}", news.values())
        rows = [(date.fromisoformat(each["at"][:10]), *(each[name] for name in ENTRY[1:])) for each in news.values()]
        self.model.land(pd.DataFrame(rows, columns=ENTRY))
        self.done["land"] += 1

    def _withdraw(self) -> None:
        names = self._names()
        if not names:
            return
        name = self.choose.choice(names)
        operations.withdraw(self.book.ws, "entries", {"entry_id": name}, by="ana", reason="a mistake")
        self._load()
        self.model.withdraw(name)
        self.done["withdraw"] += 1

    def _replace(self) -> None:
        """A complete extract of one day lacks some of its entries."""
        if not self._names():
            return
        known = self.model.entries
        day = self.choose.choice(sorted({*known[known["entry_id"].isin(self._names())]["day"]}))
        held = [dict(zip(ENTRY, row, strict=True)) for row in known[known["day"] == day][ENTRY].values.tolist()]
        held.sort(key=lambda each: str(each["entry_id"]))
        (first, *others) = held
        stay = [first, *(each for each in others if each["entry_id"].startswith("z-") or self.choose.random() < 0.5)]
        path = self.book.ws.settings.home / f"extract-{sum(self.done.values())}.jsonl"
        records = (
            entry(day, e["account"], e["amount"], version=e["version"], gone=e["gone"], name=e["entry_id"])
            for e in stay
        )
        path.write_text("".join(json.dumps(each) + "\n" for each in records), encoding="utf-8")
        stated = Extract(days=DayRange.inclusive(day, day), where={}, reason="complete", confirmed_by="bea")
        operations.land_extract(self.book.ws, ENTRIES, [path], stated, by="ana")
        self._load()
        for each in held:
            if each not in stay:
                self.model.withdraw(each["entry_id"])
        self.done["replace"] += 1

    def _load(self) -> None:
        run = operations.plan_load(self.book.ws, ENTRIES, partitions=None, by="ana", reason="taken back")
        if run is not None:
            self.book.through(run.run_id)

    def _names(self) -> list[str]:
        return sorted(name for name in self.model.entries["entry_id"] if not name.startswith("z-"))


@dataclass(frozen=True, kw_only=True)
class Story:
    """Random acts on one table, each of which the model does as well, or says that it is refused."""

    book: Book
    model: ModeModel
    table: str
    choose: random.Random
    killed: list[Point] = field(default_factory=list)  #: At which places a process died.
    done: Counter[str] = field(default_factory=Counter)  #: How often each act was carried out.

    def goes_on(self, *, news: bool) -> None:
        """One act: what is not kept may expire; otherwise after new entries a run, and often one without any."""
        if self.table == RUNNING and self.choose.random() < (0.6 if self.model.expiring(RUNNING) else 0.1):
            self._expire()
        elif news or not self.model.published.get(self.table) or self.choose.random() < 0.67:
            self._publish()
        else:
            self._roll_back()

    def look(self, step: int) -> None:
        """Rows, their runs and the ledger are those of the model."""
        accepted = self.model.accepted(self.table)
        assert self.book.rows(self.table, COLUMNS) == sorted(row for rows in accepted.values() for row in rows), step
        with self.book.ws.ledger.read() as tx:
            made_by = {day: claim.run_id for day, claim in tx.versions.claims(self.table).items()}
            versions = {day: held.rows for day, held in tx.versions.accepted(self.table).items()}
        assert made_by == self.model.made_by(self.table), step
        assert versions == {day: len(rows) for day, rows in accepted.items()}, step

    def _publish(self) -> None:
        """A run over some days, perhaps beside another one over the same days, perhaps killed on its way."""
        possible = EVERY_SECOND_DAY if self.table == BY_TWO else DAYS
        days = sorted(self.choose.sample(possible, self.choose.randint(1, len(possible))))
        if self.model.closes_again(self.table, days):
            with pytest.raises(Refused, check=has_code("only_adds_partitions")):
                self.book.planned(self.table, days)
            self.done["closed already"] += 1
            days = [day for day in days if day not in self.model.accepted(self.table)]
            if not days:
                return
        beside = self._beside(days) if self.choose.random() < 0.2 else None
        run_id = self.book.planned(self.table, days)
        rows = self.model.computed(self.table, self.model.whole(self.table, days))
        if self.choose.random() < 0.4:
            self._killed_in(lambda ws: self._onward(ws, run_id), run_id)
        state = self._onward(self.book.ws, run_id)
        changed: frozenset[date] = frozenset()
        if rows is None:
            assert state is RunState.BLOCKED
            operations.cancel(self.book.ws, run_id, by="ana", reason="blocked")
            self.done["blocked"] += 1
        else:
            assert state in (RunState.PUBLISHED, RunState.VERIFIED), state
            changed = self.model.publish(self.table, run_id, rows)
            assert (state is RunState.PUBLISHED) == bool(changed)
            self.done["publish" if changed else "verify"] += 1
        if beside is not None:
            self._refused(*beside, changed)

    def _expire(self) -> None:
        """What the table does not keep expires, perhaps killed on its way."""
        gone = self.model.expiring(self.table)
        if not gone:
            with pytest.raises(Refused, check=has_code("nothing_expires")):
                plan_expiry(self.book.ws, self.table, reason="retention", by="ana")
            self.done["nothing expires"] += 1
            return
        manifest = plan_expiry(self.book.ws, self.table, reason="retention", by="ana").manifest
        assert list(manifest.partitions) == gone
        if self.choose.random() < 0.4:
            self._killed_in(lambda ws: self._onward(ws, manifest.run_id), manifest.run_id)
        assert self._onward(self.book.ws, manifest.run_id) is RunState.PUBLISHED
        self.model.expire(self.table, manifest.run_id)
        self.done["expire"] += 1

    def _beside(self, days: list[date]) -> tuple[str, list[date]] | None:
        """A run over some of the same days that passes its gates before the other one is published."""
        some = sorted(self.choose.sample(days, self.choose.randint(1, len(days))))
        run_id = self.book.planned(self.table, some)
        if self.book.gated(run_id) is RunState.PASSED:
            return run_id, some
        return None

    def _refused(self, run_id: str, days: list[date], changed: frozenset[date]) -> None:
        """Once readers see other rows than it was compared with, the run beside is refused."""
        if changed & set(days) or (changed and self.table == ACCOUNTS):
            with pytest.raises(REFUSALS):
                operations.publish(self.book.ws, run_id, by="ben")
            self.done["refused beside another"] += 1
        operations.cancel(self.book.ws, run_id, by="ana", reason="not wanted")

    def _onward(self, ws: Workspace, run_id: str) -> RunState:
        """Takes a run from wherever it is to its end, and returns its state."""
        if operations.state_of(ws, run_id) not in (RunState.PUBLISHED, RunState.PUBLISHING, RunState.VERIFIED):
            execute(ws, run_id, [Part.STAGE, Part.GATE], actor="ana")
        run = operations.run_named(ws, run_id)
        if run.state is RunState.PASSED:
            if run.approval is ApprovalState.DRAFT:
                operations.approve(ws, run_id, by="ben")
            operations.publish(ws, run_id, by="ben")
        return operations.state_of(ws, run_id)

    def _killed_in(self, act: Callable[[Workspace], object], run_id: str) -> None:
        """Acts until a place is reached, where the process dies; then `recover` ends what it was doing."""
        left = self.choose.randint(1, 12)

        def reached(point: Point) -> None:
            nonlocal left
            left -= 1
            if not left:
                self.killed.append(point)
                raise Stopped

        with suppress(Stopped):
            act(replace(self.book.ws, reached=reached))
        operations.recover(self.book.ws, by="ops", only=run_id, now=True)
        if not left:
            self.done["kill"] += 1

    def _roll_back(self) -> None:
        """The last run, or any other one; it is undone if readers see what it wrote on all of its days."""
        runs = self.model.published[self.table]
        run_id = runs[-1] if self.choose.random() < 0.7 else self.choose.choice(runs)

        def undo(ws: Workspace) -> None:
            operations.rollback(ws, run_id, by="ben", reason="second thoughts")

        if not self.model.can_be_undone(self.table, run_id):
            with pytest.raises(BackfillError):
                undo(self.book.ws)
            self.done["rollback refused"] += 1
            return
        if self.choose.random() < 0.4:
            self._killed_in(undo, run_id)
        if operations.state_of(self.book.ws, run_id) is RunState.PUBLISHED:
            undo(self.book.ws)
        self.model.roll_back(self.table, run_id)
        self.done["roll back"] += 1


@pytest.fixture
def books(tmp_path: Path, template: Path, spark: SparkSession) -> Iterator[Callable[[int], Book]]:
    """A fresh book for every seed."""
    kept: list[Book] = []

    def fresh(seed: int) -> Book:
        if kept:
            kept[-1].ws.close()
            shutil.rmtree(kept[-1].ws.settings.home)
        home = tmp_path / f"book-{seed}"
        copy_home(template, home)
        kept.append(opened(home, spark))
        return kept[-1]

    yield fresh
    kept[-1].ws.close()


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_rows_and_history_are_those_of_a_model_under_random_operations(part: int, books: Callable[[int], Book]) -> None:
    done: dict[str, Counter[str]] = {what: Counter() for what in ("entries", *MODES.values())}
    places: set[Point] = set()
    for seed in range(part, SEEDS, PARTS) if is_thorough() else (part,):
        world = World.of(books(seed), seed)
        try:
            world.told(steps=STEPS)
            assert audit(world.book.ws).problems == ()
        except BaseException as error:
            for story in world.stories:
                error.add_note(f"seed {seed}, {story.table}: {dict(story.done)}, killed at {story.killed}")
            raise
        done["entries"].update(world.done)
        for story in world.stories:
            done[story.table].update(story.done)
            places.update(story.killed)
    for what, counts in done.items():
        sys.stderr.write(f"{what}, part {part}: {dict(counts)}\n")
    sys.stderr.write(f"killed at {len(places)} places\n")

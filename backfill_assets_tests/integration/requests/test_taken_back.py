"""What a source takes back is gone from tables that merge, on every road, and what it gives again is there again.

Entries land, are corrected, move to other days and earlier times, are deleted, withdrawn, restored and missing from
complete extracts, at random. After each of these `stale` lists the tables that do not follow any more, and once these
are built again they hold what a plain model makes of the entries that stand then.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.domain import SourceTable
from backfill_assets.landing.extract import Extract
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.restatement import PlannedSet, SetRequest
from backfill_assets.report.status import status
from backfill_assets.report.words.verdicts import verdict_words
from backfill_assets.upkeep.audit import audit
from backfill_assets.workspace import Workspace
from backfill_assets_tests.domains.modes import changes_of_entries, entries, taken_back
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.ledger_book import Book, open_book
from backfill_assets_tests.support.merge_model import COLUMNS
from backfill_assets_tests.support.searches import examples
from backfill_assets_tests.support.shop import ticking_clock

ACCOUNTS, LATEST, BY_MONTH, OF_LATEST = "silver.accounts", "silver.latest", "silver.by_month", "gold.of_latest"
KEEPING = "silver.keeping_latest"
MONTH = DayRange(date(2026, 1, 1), date(2026, 2, 1))
DAYS = [date(2026, 1, day) for day in (1, 2, 3, 31)]
START = datetime(2026, 2, 15, 12, tzinfo=UTC)
STATEMENTS = 5

Row = tuple[date, str, int, int]
Entry = tuple[date, str, int, int, bool]
"""The day, account, amount, version of an entry, and whether it says that the account is gone."""


@dataclass(kw_only=True)
class Story:
    """A home, and the entries that stand by a plain model."""

    book: Book
    source: SourceTable
    choose: random.Random
    stand: dict[str, Entry] = field(default_factory=dict)  #: The entries that stand, by id.
    #: What was withdrawn last of all, by the import that says so.
    withdrawn: dict[str, dict[str, Entry]] = field(default_factory=dict)
    kept: dict[tuple[date, str], Row] = field(default_factory=dict)  #: What the table that keeps rows holds.
    number: int = 0
    steps: list[str] = field(default_factory=list)

    @property
    def has_operations(self) -> bool:
        return self.source.operation is not None

    # ------------------------------------------------------------------------------------------------ statements

    def statement(self) -> None:
        """One of all that a source can say, at random."""
        can: list[Callable[[], str]] = [self.lands, self.corrects, self.withdraws, self.withdraws]
        can += [self.deletes] if self.has_operations else [self.replaces]
        can += [self.restores] if self.withdrawn else []
        self.steps.append(self.choose.choice(can)())

    def lands(self) -> str:
        new = {f"e{self.number + place}": self._drawn() for place in range(self.choose.randint(1, 4))}
        self._land(new)
        return f"lands {new}"

    def corrects(self) -> str:
        """Entries get another version, day or account: also an earlier day or a lower version."""
        again = {name: self._drawn() for name in self._some(2)}
        self._land(again)
        return f"corrects {again}"

    def withdraws(self) -> str:
        (name,) = self._some(1)
        found = operations.withdraw(self.book.ws, self.source.name, {"entry_id": name}, by="ana", reason="a mistake")
        self.withdrawn = {found.record.import_id: {name: self.stand.pop(name)}}
        return f"withdraws {name}"

    def restores(self) -> str:
        ((import_id, back),) = self.withdrawn.items()
        operations.restore(self.book.ws, self.source.name, import_id, by="ana", reason="none")
        self.withdrawn = {}
        self.stand |= {name: each for name, each in back.items() if name not in self.stand}
        return f"restores {back}"

    def deletes(self) -> str:
        """The source deletes entries by an operation."""
        gone = self._some(2)
        self._land({name: self.stand[name] for name in gone}, op="d")
        for name in gone:
            del self.stand[name]
        return f"deletes {gone}"

    def replaces(self) -> str:
        """A complete extract lacks some entries of its days, and has others at other times."""
        first, last = sorted(self.choose.choices(DAYS, k=2))
        days = DayRange.inclusive(first, last)
        inside = {name: each for name, each in self.stand.items() if each[0] in days}
        stays = {name: each for name, each in inside.items() if self.choose.random() < 0.5}
        new = {f"e{self.number}": (self.choose.choice([first, last]), *self._drawn()[1:])}
        path = self._written({**stays, **new})
        stated = Extract(days=days, where={}, reason="complete", confirmed_by="bea")
        operations.land_extract(self.book.ws, self.source.name, [path], stated, by="ana")
        self.stand = {name: each for name, each in self.stand.items() if name not in inside} | stays | new
        self.withdrawn = {}
        return f"replaces {days} by {stays | new}"

    def _drawn(self) -> Entry:
        """An entry whose version is like no other one, and in no order of arrival."""
        version = self.choose.randrange(10**6)
        return (self.choose.choice(DAYS), self.choose.choice("abc"), version % 97, version, self.choose.random() < 0.1)

    def _some(self, most: int) -> list[str]:
        return self.choose.sample(sorted(self.stand), min(most, len(self.stand)))

    def _land(self, some: Mapping[str, Entry], *, op: str = "u") -> None:
        operations.land(
            self.book.ws, self.source.name, self._written(some, op=op), on_duplicate=OnDuplicate.IGNORE, by="ana"
        )
        self.stand |= some
        # What lands again is not withdrawn any more.
        self.withdrawn = {i: back for i, back in self.withdrawn.items() if back.keys().isdisjoint(some)}

    def _written(self, some: Mapping[str, Entry], *, op: str = "u") -> Path:
        path = self.book.ws.settings.home / f"{self.number}.jsonl"
        records: list[Mapping[str, Any]] = []
        for name, (day, account, amount, version, gone) in some.items():
            values = {"account": account, "amount": amount, "version": version, "gone": gone}
            of_feed = {"op": op, "number": self.number} if self.has_operations else {}
            records.append({"entry_id": name, "at": f"{day}T12:00:00Z", **values, **of_feed})
            self.number += 1
        path.write_text("".join(json.dumps(each) + "\n" for each in records), encoding="utf-8")
        return path

    # ---------------------------------------------------------------------------------------------------- tables

    def load(self) -> None:
        run = operations.plan_load(self.book.ws, self.source.name, partitions=None, by="ana", reason="landed")
        if run is not None:
            self.book.through(run.run_id)

    def restated(self) -> None:
        """Everything stale is built again, as one set."""
        asked = SetRequest(reason="changed", by="ana", stale=True)
        planned = operations.plan_set(self.book.ws, asked)
        if not isinstance(planned, PlannedSet):
            return
        set_id = planned.manifest.set_id
        for member in planned.manifest.members:
            operations.stage(self.book.ws, member.run_id, actor="ana")
            operations.gate(self.book.ws, member.run_id, actor="ana")
        states = {operations.state_of(self.book.ws, member.run_id) for member in planned.manifest.members}
        assert states <= {RunState.PASSED, RunState.VERIFIED}
        if RunState.PASSED in states:
            operations.approve(self.book.ws, set_id, by="ben")
            operations.publish_set(self.book.ws, set_id, by="ben")

    def first(self, table: str, days: Iterable[date]) -> None:
        self.book.published(table, days)

    def stale(self) -> Mapping[str, tuple[date, ...]]:
        return {each.table: each.partitions for each in operations.stale_tables(self.book.ws) if each.ranges}


def truth(table: str, stand: Iterable[Entry]) -> list[Row]:
    """What a table holds in a home that only ever saw these entries."""
    newest: dict[tuple[object, ...], Entry] = {}
    for entry in sorted(stand, key=lambda each: each[3]):
        day = entry[0].replace(day=1) if table == BY_MONTH else entry[0]
        key = (entry[1],) if table == ACCOUNTS else (day, entry[1])
        newest[key] = (day, *entry[1:])
    return sorted(each[:4] for each in newest.values() if not each[4])


def seen(story: Story, table: str) -> list[Row]:
    return story.book.rows(table, COLUMNS)


def opened(home: Path, source: SourceTable, spark: SparkSession) -> Book:
    book = open_book(home, clock=ticking_clock(START), spark=spark)
    return replace(book, ws=replace(book.ws, domain=taken_back(source)))


def merged(ws: Workspace, run_id: str) -> list[str]:
    with ws.ledger.read() as tx:
        return [verdict_words(each) for each in tx.candidates.gate_results(run_id) if each.gate == "merged"]


@pytest.mark.long
def test_a_withdrawn_key_makes_a_merge_stale_asks_for_an_approval_and_is_gone(
    spark: SparkSession, tmp_path: Path
) -> None:
    with closing(opened(tmp_path / "book", entries, spark).ws) as ws:
        story = Story(book=Book(ws=ws), source=entries, choose=random.Random(1))
        story._land({"e1": (DAYS[0], "a", 1, 1, False), "e2": (DAYS[1], "a", 2, 2, False)})
        story.load()
        for table in (ACCOUNTS, LATEST):
            story.first(table, DAYS[:2])
        assert seen(story, ACCOUNTS) == [(DAYS[1], "a", 2, 2)]
        operations.withdraw(ws, entries.name, {"entry_id": "e2"}, by="ana", reason="a mistake")
        story.load()
        assert story.stale() == {ACCOUNTS: (DAYS[1],), LATEST: (DAYS[1],)}
        # The earlier entry of the account counts again, on its day.
        again = story.book.planned(ACCOUNTS, [DAYS[1]])
        assert story.book.gated(again) is RunState.PASSED
        assert merged(ws, again) == ["1 change and 0 deletes", "0 changes and 0 deletes"]
        operations.publish(ws, again, by="ben")
        assert seen(story, ACCOUNTS) == [(DAYS[0], "a", 1, 1)]
        story.restated()
        assert seen(story, LATEST) == [(DAYS[0], "a", 1, 1)]
        assert story.stale() == {}
        # A release that gives no row of the account takes it back as well.
        earlier = story.book.planned(LATEST, [DAYS[0]], version="0.9.0")
        assert story.book.gated(earlier) is RunState.PASSED
        assert merged(ws, earlier) == ["0 changes and 0 deletes; 1 accepted row that no input gives: removed"]


@pytest.mark.long
@pytest.mark.parametrize("source", [entries, changes_of_entries], ids=["extracts", "operations"])
@pytest.mark.parametrize("seed", range(examples(12)))
def test_after_every_statement_merged_rows_are_those_of_a_home_that_only_saw_what_stands(
    source: SourceTable, seed: int, spark: SparkSession, tmp_path: Path
) -> None:
    with closing(opened(tmp_path / "book", source, spark).ws) as ws:
        story = Story(book=Book(ws=ws), source=source, choose=random.Random(f"{source.name} {seed}"))
        try:
            told(story)
        except BaseException as error:
            error.add_note("\n".join(story.steps))
            raise
        assert audit(ws).problems == ()


def told(story: Story) -> None:
    filler = {f"first-{day}": (day, "z", 1, -1 - place, False) for place, day in enumerate((DAYS[0], DAYS[-1]))}
    story._land({**filler, **{f"e{n}": story._drawn() for n in range(6)}})
    story.load()
    whole = list(MONTH)
    for table, days in {**dict.fromkeys((ACCOUNTS, LATEST, OF_LATEST, KEEPING), whole), BY_MONTH: [DAYS[0]]}.items():
        story.first(table, days)
    keeping(story)
    for _ in range(STATEMENTS):
        story.statement()
        story.load()
        stale = story.stale()
        for table in (ACCOUNTS, LATEST, BY_MONTH):
            if seen(story, table) != truth(table, story.stand.values()):
                assert stale.get(table), f"{table} is said to be fresh"
        story.restated()
        assert story.stale() == {}
        for table in (ACCOUNTS, LATEST, BY_MONTH, OF_LATEST):
            assert seen(story, table) == truth(table, story.stand.values()), table
        keeping(story)


def keeping(story: Story) -> None:
    """The table that keeps rows has those of the last truth, and the rows that it keeps: those of which no newer entry
    says anything. `stale` and `status` count them."""
    says: dict[tuple[date, str], Entry] = {}
    for entry in sorted(story.stand.values(), key=lambda each: each[3]):
        says[entry[0], entry[1]] = entry
    story.kept = {key: row for key, row in story.kept.items() if key not in says or row[3] > says[key][3]}
    kept = len(story.kept)
    for key, entry in says.items():
        if key not in story.kept and not entry[4]:
            story.kept[key] = entry[:4]
    assert seen(story, KEEPING) == sorted(story.kept.values())
    (found,) = (each for each in operations.stale_tables(story.book.ws) if each.table == KEEPING)
    assert sum(rows for _, rows in found.taken_back) == kept
    (table,) = (each for each in status(story.book.ws).tables if each.table == KEEPING)
    assert table.taken_back_rows == kept

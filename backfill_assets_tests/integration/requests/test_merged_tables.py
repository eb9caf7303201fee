"""A table that is fed by changes: other rows stay, keys move between days, and what was merged is undone in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from backfill_assets.application.live import live
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.candidates.errors import MergedWithEarlier
from backfill_assets.cli.answers import days_given
from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import TargetChanged
from backfill_assets.core.next_steps import Command, Invocation
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.kinds.any_change import DeclaredChange
from backfill_assets.planning.kinds.merge import Merge, merge
from backfill_assets.planning.kinds.replace import REPLACE
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import Mode
from backfill_assets.report.command_line import explained
from backfill_assets.report.runs import run_document
from backfill_assets.report.words.verdicts import verdict_words
from backfill_assets.requests.errors import AnotherUnderWay
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.faults.scenario import Stopped, stopping_at
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import has_code, worded
from backfill_assets_tests.support.ledger_book import FIRST, JOURNAL, Book, declared_as, entry, open_book
from backfill_assets_tests.support.merge_model import COLUMNS
from backfill_assets_tests.support.shop import ticking_clock

ACCOUNTS, BALANCES = "silver.accounts", "silver.balances"
DAYS = [FIRST + timedelta(days=n) for n in range(4)]


@pytest.fixture
def book(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Book]:
    """Two accounts on the first of four days, and one on the last."""
    clock = ticking_clock(datetime(2026, 1, 15, 12, tzinfo=UTC))
    opened = open_book(tmp_path_factory.mktemp("book"), clock=clock, spark=spark)
    opened.land("first", [entry(DAYS[0], "a", 10), entry(DAYS[0], "b", 20), entry(DAYS[3], "c", 30)])
    yield opened
    opened.ws.close()


def verdicts(book: Book, run_id: str, gate: str = "merged") -> list[str]:
    with book.ws.ledger.read() as tx:
        found = [each for each in tx.candidates.gate_results(run_id) if each.gate == gate]
    return [verdict_words(each) for each in found]


def seen(book: Book, table: str = ACCOUNTS) -> list[tuple[Any, ...]]:
    return book.rows(table, COLUMNS)


def manifest(book: Book, run_id: str) -> Manifest:
    return operations.run_named(book.ws, run_id).manifest


@pytest.mark.long
def test_a_key_that_moves_takes_both_days_along_and_a_later_merge_is_undone_first(book: Book) -> None:
    ws = book.ws
    first = book.published(ACCOUNTS, DAYS)
    before = [(DAYS[0], "a", 10, 1), (DAYS[0], "b", 20, 1), (DAYS[3], "c", 30, 1)]
    assert seen(book) == before

    # The account moves to the third day, of which alone a run would show it twice: a plan takes all of the table.
    book.land("moved", [entry(DAYS[2], "a", 11, version=2)])
    both = book.published(ACCOUNTS, [DAYS[2]])
    after = [(DAYS[0], "b", 20, 1), (DAYS[2], "a", 11, 2), (DAYS[3], "c", 30, 1)]
    assert seen(book) == after
    planned = manifest(book, both)
    assert planned.partitions == tuple(DAYS)
    assert planned.base is not None
    assert (planned.base.table, [pin.partition for pin in planned.base.partitions]) == (ACCOUNTS, DAYS)

    # The first publication is under what the second has merged with.
    with pytest.raises(TargetChanged):
        operations.rollback(ws, first, by="ben", reason="try")
    assert operations.reproduce(ws, both, by="ana").identical
    assert operations.reproduce(ws, both, by="ana", sample=1).identical
    assert [found.partitions for found in operations.stale_tables(ws) if found.table == ACCOUNTS] == [()]

    # A delete, and what it freed on another day; neither changes the third day, and both were merged with it.
    book.land("gone", [entry(DAYS[0], "b", version=3, gone=True), entry(DAYS[3], "b", 5, version=4)])
    again = book.published(ACCOUNTS, [DAYS[3]])
    assert seen(book) == [(DAYS[2], "a", 11, 2), (DAYS[3], "b", 5, 4), (DAYS[3], "c", 30, 1)]
    book.land("new", [entry(DAYS[1], "d", 40)])
    later = book.published(ACCOUNTS, [DAYS[1]])
    with pytest.raises(TargetChanged, check=has_code("merged_since")) as refused:
        operations.rollback(ws, again, by="ben", reason="it was there")
    assert f"backfill rollback {later}" in explained(refused.value)
    for run_id in (later, again, both, first):
        operations.rollback(ws, run_id, by="ben", reason="all back")
    # The rows that the second one had merged with are gone, so that it can only be planned again.
    following = worded(run_document(ws, both).next_step)
    assert f"{ACCOUNTS} changed since {both} was planned with its rows: backfill plan table accounts" in following
    assert seen(book) == []
    assert audit(ws).problems == ()


@pytest.mark.long
def test_a_live_run_without_the_day_that_a_row_moves_from_is_blocked_and_names_it(book: Book) -> None:
    book.published(ACCOUNTS, DAYS[:3])
    book.land("moved", [entry(DAYS[3], "a", 11, version=2)])
    live(book.ws, Acting(by="ana", recorder=Unrecorded()))
    with book.ws.ledger.read() as tx:
        (alone,) = [run for run in tx.runs.records(table=ACCOUNTS) if run.manifest.mode is Mode.LIVE]
    assert (alone.manifest.partitions, alone.state) == ((DAYS[3],), RunState.BLOCKED)
    assert verdicts(book, alone.run_id) == [
        "2 changes and 0 deletes; the rows of their keys depend on partitions that the run lacks: 2026-01-01"
    ]
    book.published(ACCOUNTS, [DAYS[3]])
    assert seen(book) == [(DAYS[0], "b", 20, 1), (DAYS[3], "a", 11, 2), (DAYS[3], "c", 30, 1)]


@pytest.mark.long
def test_a_blocked_merge_names_all_days_that_its_rows_depend_on_and_the_plan_of_them_together_works(book: Book) -> None:
    declared = book.ws.domain.derived_table(ACCOUNTS).publish
    assert isinstance(declared, Merge)
    keeping = replace(declared, keeps_withdrawn=True)
    book = Book(ws=replace(book.ws, domain=declared_as(book.ws.domain, ACCOUNTS, keeping)))
    book.published(ACCOUNTS, DAYS)
    # Two accounts swap days, and a third one moves: each day of the run lacks another one.
    moved = [entry(DAYS[1], "a", 11, version=2), entry(DAYS[2], "c", 31, version=2), entry(DAYS[2], "b", 21, version=2)]
    book.land("moved", moved)
    alone = book.planned(ACCOUNTS, DAYS[1:3])
    assert book.gated(alone) is RunState.BLOCKED
    assert [each.rpartition(": ")[2] for each in verdicts(book, alone)] == ["2026-01-01", "2026-01-01, 2026-01-04"]
    following = run_document(book.ws, alone).next_step
    assert following is not None
    assert worded(following) == (
        "its rows depend on 2026-01-01, 2026-01-04, 2 days that it lacks; plan all of them together: "
        "backfill plan table accounts --from 2026-01-01 --to 2026-01-04 --reason WHY --by NAME; "
        f"then backfill cancel {alone} --by NAME --reason WHY"
    )
    (again,) = (part for part in following.parts if isinstance(part, Invocation) and part.command is Command.PLAN_TABLE)
    first, last = (
        [date.fromisoformat(str(day)) for name, day in again.options if name == end] for end in ("first", "last")
    )
    days = days_given(first, last)
    assert days is not None
    book.published(again.of[0], days)
    assert seen(book) == [(DAYS[1], "a", 11, 2), (DAYS[2], "b", 21, 2), (DAYS[2], "c", 31, 2)]
    operations.cancel(book.ws, alone, by="ana", reason="planned together")


@pytest.mark.long
def test_changes_that_were_merged_with_earlier_rows_are_refused_and_nothing_changes(book: Book) -> None:
    book.published(BALANCES, DAYS)
    book.land("late", [entry(DAYS[0], "a", 11, version=2)])
    first, second = book.planned(BALANCES, [DAYS[0]]), book.planned(BALANCES, [DAYS[0]])
    other = book.planned(BALANCES, [DAYS[3]])
    assert book.gated(second) is RunState.PASSED
    book.through(first)
    with pytest.raises(MergedWithEarlier, match=r"merged its changes with earlier rows of silver.balances"):
        operations.publish(book.ws, second, by="ben")
    with pytest.raises(MergedWithEarlier):
        operations.gate(book.ws, second, actor="ana")
    # Days of other runs are no concern where keys stay on theirs; equal rows are verified, and not swapped.
    again = book.planned(BALANCES, [DAYS[0]])
    assert {book.gated(other), book.gated(again)} == {RunState.VERIFIED}
    assert (DAYS[0], "a", 11, 2) in seen(book, BALANCES)


@pytest.mark.long
def test_where_keys_move_nothing_of_the_table_is_published_or_undone_beside_what_is_not_recorded(book: Book) -> None:
    ws = book.ws
    first = book.published(ACCOUNTS, [DAYS[3]])
    book.land("late", [entry(DAYS[1], "d", 40), entry(DAYS[2], "d", 41, version=2)])
    one, other = book.planned(ACCOUNTS, [DAYS[1]]), book.planned(ACCOUNTS, [DAYS[2]])
    for run_id in (one, other):
        assert book.gated(run_id) is RunState.PASSED
    for at in (Point.SWAP_INTENDED, Point.SWAP_COMMITTED):
        with pytest.raises(Stopped):
            operations.publish(stopping_at(ws, at), one, by="ben")
        with pytest.raises(AnotherUnderWay, match="has begun and is not recorded yet"):
            operations.publish(ws, other, by="ben")
        with pytest.raises(AnotherUnderWay):
            operations.rollback(ws, first, by="ben", reason="try")
        operations.recover(ws, by="ops")
        if at is Point.SWAP_INTENDED:
            assert book.rows(ACCOUNTS, ["account"]) == [("c",)]
    # The account is on one of the days now, and would be on both.
    with pytest.raises(MergedWithEarlier):
        operations.publish(ws, other, by="ben")
    assert [row[:2] for row in seen(book)] == [(DAYS[1], "d"), (DAYS[3], "c")]
    assert audit(ws).problems == ()


@pytest.mark.long
def test_an_older_version_is_refused_where_the_table_says_so(book: Book) -> None:
    book.land("second", [entry(DAYS[0], "a", 12, version=5)])
    book.published(BALANCES, DAYS)
    # The latest entry is taken back, so that what follows from the source is older than what is accepted.
    operations.withdraw(book.ws, "entries", {"entry_id": f"a-{DAYS[0]}-5"}, by="ana", reason="a mistake")
    run = operations.plan_load(book.ws, "bronze.entries", partitions=None, by="ana", reason="withdrawn")
    assert run is not None
    book.through(run.run_id)
    older = book.planned(BALANCES, [DAYS[0]])
    assert book.gated(older) is RunState.BLOCKED
    assert verdicts(book, older) == ["2 changes and 0 deletes; 1 older than the accepted row of their key"]


@pytest.mark.long
def test_of_runs_of_two_modes_over_one_table_the_later_one_is_refused_until_it_has_seen_the_other(book: Book) -> None:
    def declared(mode: DeclaredChange) -> Book:
        return replace(book, ws=replace(book.ws, domain=declared_as(book.ws.domain, JOURNAL, mode)))

    replacing, merging = declared(REPLACE), declared(merge(on=("day", "entry_id")))
    replacing.published(JOURNAL, [DAYS[0]])
    book.land("late", [entry(DAYS[0], "d", 40)])
    by_merge, early = merging.planned(JOURNAL, [DAYS[0]]), merging.planned(JOURNAL, [DAYS[0]])
    by_replace = replacing.planned(JOURNAL, [DAYS[0]], version="0.9.0")
    for its, run_id in ((merging, by_merge), (merging, early), (replacing, by_replace)):
        assert its.gated(run_id) is RunState.PASSED
    operations.publish(merging.ws, by_merge, by="ben")
    rows = book.rows(JOURNAL, ["entry_id", "amount"])
    assert rows == [("a-2026-01-01-1", 10), ("b-2026-01-01-1", 20), ("d-2026-01-01-1", 40)]
    with pytest.raises(TargetChanged):
        operations.publish(replacing.ws, by_replace, by="ben")
    # Compared with what the merge has published, it replaces that; a merge with what was there before is refused.
    replacing.gated(by_replace)
    operations.publish(replacing.ws, by_replace, by="ben")
    assert book.rows(JOURNAL, ["entry_id", "amount"]) == [(name, 2 * amount) for name, amount in rows]
    with pytest.raises(MergedWithEarlier):
        operations.publish(merging.ws, early, by="ben")
    assert audit(book.ws).problems == ()

"""A table that only adds partitions: nothing that was accepted is ever changed by a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import SparkSession

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.errors import IllegalTransition, Refused, TargetChanged
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.impact import WhyLeftOut
from backfill_assets.planning.kinds.replace import REPLACE
from backfill_assets.planning.manifest_parts import Cause, Mode
from backfill_assets.planning.restatement import NothingToRebuild, PlannedSet, SetRequest
from backfill_assets.report.command_line import explained
from backfill_assets.report.words.verdicts import verdict_words
from backfill_assets.requests.errors import OnlyAdds, OnlyPart
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import has_code
from backfill_assets_tests.support.ledger_book import (
    ENTRIES,
    FIRST,
    JOURNAL,
    TOTALS,
    Book,
    declared_as,
    entry,
    open_book,
)
from backfill_assets_tests.support.shop import ticking_clock

DAYS = [FIRST + timedelta(days=n) for n in range(4)]
EMPTY = DAYS[1]
COLUMNS = ("day", "entry_id", "amount")


@pytest.fixture
def book(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Book]:
    """Entries of the first and the last of four days."""
    clock = ticking_clock(datetime(2026, 1, 15, 12, tzinfo=UTC))
    opened = open_book(tmp_path_factory.mktemp("book"), clock=clock, spark=spark)
    opened.land("first", [entry(DAYS[0], "a"), entry(DAYS[3], "a")])
    yield opened
    opened.ws.close()


def late(book: Book) -> None:
    """An entry that lands for the first day, after that was closed."""
    book.land("late", [entry(DAYS[0], "b", 5)])


def test_partitions_are_added_and_what_was_accepted_is_refused_also_where_it_is_empty(book: Book) -> None:
    ws = book.ws
    published = book.published(JOURNAL, [DAYS[0], EMPTY])
    book.land("late", [entry(DAYS[0], "b", 5), entry(EMPTY, "a"), entry(DAYS[2], "a")])
    with pytest.raises(Refused, check=has_code("only_adds_partitions")):
        book.planned(JOURNAL, [EMPTY])
    with pytest.raises(Refused, check=has_code("only_adds_partitions")) as refused:
        book.planned(JOURNAL, [DAYS[0], DAYS[2]])
    assert explained(refused.value) == (
        "silver.journal only adds partitions, and these have an accepted version: 2026-01-01, 1 day. Next: plan those "
        "without one: backfill plan table journal --reason WHY --from 2026-01-03 --to 2026-01-03 --by NAME; or, "
        "to correct them, roll back the publication that added them, then plan them again: backfill history "
        "silver.journal"
    )
    book.published(JOURNAL, DAYS[2:])
    rows = [(DAYS[0], f"a-{DAYS[0]}-1", 10), (DAYS[2], f"a-{DAYS[2]}-1", 10), (DAYS[3], f"a-{DAYS[3]}-1", 10)]
    assert book.rows(JOURNAL, COLUMNS) == rows

    # Rolled back, the days have no version, and are added with what has landed since.
    operations.rollback(ws, published, by="ben", reason="an entry was late")
    book.published(JOURNAL, [DAYS[0], EMPTY])
    assert book.rows(JOURNAL, COLUMNS) == sorted([*rows, (DAYS[0], f"b-{DAYS[0]}-1", 5), (EMPTY, f"a-{EMPTY}-1", 10)])
    assert audit(ws).problems == ()


@pytest.mark.long
def test_of_two_runs_over_the_same_days_one_is_published_even_if_they_were_planned_side_by_side(book: Book) -> None:
    first, second = book.planned(JOURNAL, [DAYS[0]]), book.planned(JOURNAL, [DAYS[0]])
    late(book)
    third = book.planned(JOURNAL, [DAYS[0]])
    assert book.gated(second) is RunState.PASSED
    book.through(first)
    with pytest.raises(TargetChanged):
        operations.publish(book.ws, second, by="ben")
    # Equal rows are no change; other rows are one, whenever the run was planned.
    assert book.gated(second) is RunState.PASSED
    assert operations.publish(book.ws, second, by="ben").changes == ()
    assert book.gated(third) is RunState.BLOCKED
    with book.ws.ledger.read() as tx:
        (found,) = [each for each in tx.candidates.gate_results(third) if each.gate == "adds_only"]
    assert verdict_words(found) == "1 added, 0 removed, 0 changed in a partition that has an accepted version"
    with pytest.raises(IllegalTransition):
        operations.publish(book.ws, third, by="ben")
    assert book.rows(JOURNAL, COLUMNS) == [(DAYS[0], f"a-{DAYS[0]}-1", 10)]


@pytest.mark.long
def test_a_run_that_was_planned_to_replace_changes_nothing_once_the_table_only_adds(book: Book) -> None:
    ws = book.ws
    before = replace(book, ws=replace(ws, domain=declared_as(ws.domain, JOURNAL, REPLACE)))
    before.published(JOURNAL, [DAYS[0]])
    late(before)
    run_id = before.planned(JOURNAL, [DAYS[0]])
    assert before.gated(run_id) is RunState.PASSED
    with pytest.raises(OnlyAdds) as refused:
        operations.publish(ws, run_id, by="ben")
    assert "which has an accepted version, and the table only adds partitions" in refused.value.message
    assert book.rows(JOURNAL, COLUMNS) == [(DAYS[0], f"a-{DAYS[0]}-1", 10)]


@pytest.mark.long
def test_followers_and_sets_leave_what_was_added_as_it_is_and_say_so(book: Book) -> None:
    ws = book.ws
    book.published(JOURNAL, [DAYS[0], DAYS[3]])
    book.published(TOTALS, [DAYS[0], DAYS[3]])
    late(book)
    (stale,) = [found for found in operations.stale_tables(ws) if found.table == JOURNAL]
    changed = [each.partitions for each in stale.ranges if each.reasons[0].cause is Cause.INPUT_CHANGED]
    assert changed == [(DAYS[0],)]
    assert operations.plan_follow_ups(ws, by="ana").runs == ()

    day = DayRange.inclusive(DAYS[0], DAYS[0])
    because = SetRequest(reason="late", by="ana", because=((ENTRIES, day),))
    with pytest.raises(OnlyPart, match=r"only adds partitions, and these have an accepted version"):
        operations.plan_set(ws, because)
    for request in (replace(because, partial=True), SetRequest(reason="late", by="ana", stale=True)):
        nothing = operations.plan_set(ws, request)
        assert isinstance(nothing, NothingToRebuild)
        assert [(each.table, each.partitions, each.why) for each in nothing.left_out if each.is_asked] == [
            (JOURNAL, (DAYS[0],), WhyLeftOut.ONLY_ADDS)
        ]
    # What was never built of it is built by a set as ever.
    book.land("new", [entry(DAYS[2], "a")])
    named = SetRequest(reason="new", by="ana", stale=True, days=DayRange.inclusive(DAYS[2], DAYS[2]))
    planned = operations.plan_set(ws, named)
    assert isinstance(planned, PlannedSet)
    built = {each.manifest.table: each.manifest.partitions for each in planned.plans}
    assert (built[JOURNAL], built[TOTALS]) == ((DAYS[2],), (DAYS[2],))


@pytest.mark.long
def test_a_run_that_is_never_published_may_look_at_accepted_days(book: Book) -> None:
    book.published(JOURNAL, [DAYS[0]])
    late(book)
    run_id = book.planned(JOURNAL, [DAYS[0]], mode=Mode.RECONCILIATION)
    assert book.gated(run_id) is RunState.BLOCKED
    with pytest.raises(Refused):
        operations.publish(book.ws, run_id, by="ben")

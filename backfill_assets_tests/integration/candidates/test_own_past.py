"""A table that keeps state: computed from the newest valid snapshot, and what that gives is what a cold start gives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.candidates.rows import rows_of
from backfill_assets.core.crash_points import Point
from backfill_assets.domain.errors import PlannedOtherwise
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.request import PlanRequest
from backfill_assets.upkeep.audit import audit
from backfill_assets.workspace import Workspace
from backfill_assets_tests.domains.states import due, open_cases
from backfill_assets_tests.faults.scenario import Stopped, stopping_at
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.lakes import folder_of
from backfill_assets_tests.support.shop import ticking_clock
from backfill_assets_tests.support.stateful_domain import CASES, JANUARY, StatefulDomain, move, open_stateful_domain

DUE = "gold.due"
FEBRUARY, MARCH, APRIL = (date(2026, month, 1) for month in range(2, 5))
LAST = date(2026, 4, 30)


USUAL = [
    move(JANUARY, "a"),
    move(JANUARY, "b", 20),
    move(date(2026, 2, 10), "a", 5),
    move(date(2026, 3, 10), "b", closes=True),
    move(date(2026, 3, 20), "c", 7),
    move(date(2026, 1, 20), "z", closes=True),
    move(date(2026, 4, 10), "z", closes=True),
    move(LAST, "a", 1),
]
LATE = move(date(2026, 2, 20), "b", 100, name="late")
"""Of a case that is closed in March: from then on it makes no difference."""


@pytest.fixture
def stateful(tmp_path: Path, spark: SparkSession) -> Iterator[StatefulDomain]:
    opened = open_stateful_domain(tmp_path / "stateful", spark)
    opened.land("usual", USUAL)
    yield opened
    opened.ws.close()


def test_a_late_event_is_restated_from_the_snapshot_before_it_and_stops_where_the_state_is_equal(
    stateful: StatefulDomain, tmp_path: Path, spark: SparkSession
) -> None:
    cold = stateful.planned(JANUARY, date(2026, 3, 31))
    assert (cold.manifest.base, cold.manifest.chunks) == (None, (1, 1, 1))
    stateful.through(cold)
    assert stateful.verdict(cold.manifest.run_id) == "computed from a cold start, with no snapshot to compare"
    newest = stateful.planned(APRIL, LAST)
    assert newest.manifest.base is not None
    assert [pin.partition for pin in newest.manifest.base.partitions] == [FEBRUARY, MARCH]
    assert newest.inputs[0].partitions[0] == APRIL
    stateful.through(newest)
    assert stateful.verdict(newest.manifest.run_id) == (
        "2026-04-01 is the same from the snapshot of 2026-02-01 as from the snapshot of 2026-03-01"
    )
    assert stateful.rows() == [
        (JANUARY, "a", 10, 1),
        (JANUARY, "b", 20, 1),
        (FEBRUARY, "a", 15, 2),
        (FEBRUARY, "b", 20, 1),
        (MARCH, "a", 15, 2),
        (MARCH, "c", 7, 1),
        (APRIL, "a", 16, 3),
        (APRIL, "c", 7, 1),
    ]

    stateful.land("late", [LATE])
    (stale,) = [found for found in operations.stale_tables(stateful.ws) if found.table == CASES]
    assert stale.partitions == (FEBRUARY, MARCH, APRIL)
    # A snapshot that may be wrong is not begun with, and neither is one after it.
    alone = stateful.planned(APRIL, LAST)
    assert alone.manifest.base is not None
    assert alone.manifest.base.partitions[-1].partition == JANUARY
    assert [day for day, _ in alone.skipped] == [FEBRUARY, MARCH]

    planned, (published, *_) = stateful.restated()
    (manifest,) = [plan.manifest for plan in planned.plans if plan.manifest.table == CASES]
    assert manifest.partitions == (FEBRUARY, MARCH, APRIL)
    settled = [(each.after.partition, each.pin.partition) for each in manifest.settled]
    assert settled == [(FEBRUARY, MARCH), (MARCH, APRIL)]
    assert [change.partition for change in published.changes] == [FEBRUARY]
    with stateful.ws.ledger.read() as tx:
        staged, accepted = tx.candidates.of_run(manifest.run_id), tx.versions.accepted(CASES)
    # March was computed, and found equal; April was not computed.
    assert staged[MARCH].files != accepted[MARCH].files
    assert staged[APRIL].files == accepted[APRIL].files
    assert [found.partitions for found in operations.stale_tables(stateful.ws) if found.table == CASES] == [()]
    assert audit(stateful.ws).problems == ()
    assert operations.reproduce(stateful.ws, newest.manifest.run_id, by="ana").identical

    fresh = open_stateful_domain(tmp_path / "fresh", spark)
    fresh.land("all", [*USUAL, LATE])
    fresh.through(fresh.planned(JANUARY, LAST))
    assert (fresh.checksums(), fresh.rows()) == (stateful.checksums(), stateful.rows())
    fresh.ws.close()


@pytest.mark.long
def test_a_state_begins_on_the_day_that_it_was_planned_with_or_is_computed_from_a_cold_start(
    stateful: StatefulDomain,
) -> None:
    def since(first_day: date) -> StatefulDomain:
        settings = replace(stateful.ws.settings, first_day=first_day)
        ws = Workspace.open(settings, clock=stateful.ws.clock, open_session=stateful.ws.spark)
        return replace(stateful, ws=ws)

    run_id = stateful.planned(JANUARY, date(2026, 3, 31)).manifest.run_id
    for other in (date(2025, 12, 1), FEBRUARY):
        with pytest.raises(PlannedOtherwise, match=f"since 2026-01-01, and by BACKFILL_FIRST_DAY .* on {other} now"):
            operations.stage(since(other).ws, run_id, actor="ana")
    stateful.through(stateful.planned(JANUARY, date(2026, 3, 31)))
    later = since(FEBRUARY)
    (stale,) = [found for found in operations.stale_tables(later.ws) if found.table == CASES]
    assert stale.partitions == (FEBRUARY, MARCH)
    assert later.planned(MARCH, date(2026, 3, 31)).manifest.base is None
    later.restated()
    assert [found.partitions for found in operations.stale_tables(later.ws) if found.table == CASES] == [()]
    # January is still accepted, and rests on days that do not count any more.
    april = later.planned(APRIL, LAST).manifest.base
    assert april is not None
    assert [pin.partition for pin in april.partitions] == [FEBRUARY, MARCH]


@pytest.mark.long
def test_a_state_for_which_it_matters_where_it_begins_is_blocked(stateful: StatefulDomain) -> None:
    wrong_table = replace(open_cases, releases=tuple(reversed(open_cases.releases)))
    readers = replace(due, inputs={"cases": wrong_table})
    domain = replace(stateful.ws.domain, derived=(wrong_table, readers))
    stateful = replace(stateful, ws=replace(stateful.ws, domain=domain))
    assert wrong_table.version == "0.8.0"
    stateful.through(stateful.planned(JANUARY, date(2026, 3, 31)))
    wrong = stateful.planned(APRIL, LAST)
    assert wrong.manifest.base is not None
    assert stateful.gated(wrong.manifest.run_id) is RunState.BLOCKED
    assert stateful.verdict(wrong.manifest.run_id) == (
        "2026-04-01 differs from the snapshot of 2026-02-01 as from the snapshot of 2026-03-01"
    )


@pytest.mark.long
def test_a_new_release_makes_every_snapshot_stale_and_starts_cold(stateful: StatefulDomain) -> None:
    stateful.through(stateful.planned(JANUARY, date(2026, 2, 28)))
    stateful.through(stateful.planned(JANUARY, LAST, version="0.9.0"))
    # Neither does another release begin with a snapshot of this one.
    earlier = stateful.planned(APRIL, LAST, version="0.9.0")
    assert (earlier.manifest.base, len(earlier.skipped)) == (None, 3)
    planned, (published, *_) = stateful.restated()
    (manifest,) = [plan.manifest for plan in planned.plans if plan.manifest.table == CASES]
    assert (manifest.base, manifest.settled, len(manifest.partitions)) == (None, (), 4)
    assert len(published.changes) == 4
    assert [row[2] for row in stateful.rows() if row[0] == JANUARY] == [10, 20]


@pytest.mark.long
def test_a_run_that_stopped_goes_on_at_its_first_unfinished_snapshot(stateful: StatefulDomain) -> None:
    planned = stateful.planned(JANUARY, LAST)
    run_id = planned.manifest.run_id
    for _ in range(2):
        with suppress(Stopped):
            operations.stage(stopping_at(stateful.ws, Point.STAGE_CHUNK_FINISHED), run_id, actor="ana")
        operations.recover(stateful.ws, by="ops", only=run_id, now=True)
    with stateful.ws.ledger.read() as tx:
        kept = {day: each.files for day, each in tx.candidates.of_run(run_id).items()}
    assert list(kept) == [JANUARY, FEBRUARY]
    stateful.through(planned)
    with stateful.ws.ledger.read() as tx:
        staged = tx.candidates.of_run(run_id)
    assert {day: staged[day].files for day in kept} == kept
    assert [row for row in stateful.rows() if row[0] == APRIL] == [(APRIL, "a", 16, 3), (APRIL, "c", 7, 1)]


@pytest.mark.long
@pytest.mark.parametrize("how", ["removed", "tampered with"])
def test_a_snapshot_whose_files_are_not_what_was_published_is_not_begun_with(
    stateful: StatefulDomain, how: str
) -> None:
    stateful.through(stateful.planned(JANUARY, date(2026, 3, 31)))
    with stateful.ws.ledger.read() as tx:
        (file,) = tx.versions.accepted(CASES)[MARCH].files.files
    path = folder_of(stateful.ws.lake, CASES) / file.path
    content = path.read_bytes()
    path.unlink()
    if how == "tampered with":
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    planned = stateful.planned(APRIL, LAST)
    assert planned.manifest.base is not None
    assert [pin.partition for pin in planned.manifest.base.partitions] == [JANUARY, FEBRUARY]
    said = f"{file.path} is gone" if how == "removed" else f"the bytes of {file.path} are not those that were recorded"
    assert planned.skipped == ((MARCH, said),)
    assert stateful.gated(planned.manifest.run_id) is RunState.PASSED
    with stateful.ws.ledger.read() as tx:
        staged = tx.candidates.of_run(planned.manifest.run_id)[APRIL]
    rows = rows_of(stateful.ws, stateful.ws.domain.derived_table(CASES), [staged.files]).collect()
    assert sorted(tuple(row) for row in rows) == [(APRIL, "a", 16, 3), (APRIL, "c", 7, 1)]


@pytest.mark.long
def test_a_snapshot_that_a_waiting_run_begins_with_outlives_its_replacement_and_every_horizon(
    stateful: StatefulDomain,
) -> None:
    stateful.through(stateful.planned(JANUARY, date(2026, 3, 31)))
    waiting = stateful.planned(APRIL, LAST)
    assert waiting.manifest.base is not None
    assert [pin.partition for pin in waiting.manifest.base.partitions] == [FEBRUARY, MARCH]
    folder = folder_of(stateful.ws.lake, CASES)
    with stateful.ws.ledger.read() as tx:
        accepted = tx.versions.accepted(CASES)
    files = {month: [folder / file.path for file in accepted[month].files.files] for month in (FEBRUARY, MARCH)}
    # Another run replaces both, because of a case that is never closed.
    stateful.land("late", [move(date(2026, 2, 20), "a", 100, name="late")])
    _, (published, *_) = stateful.restated()
    assert [change.partition for change in published.changes] == [FEBRUARY, MARCH]

    later = replace(stateful.ws, clock=ticking_clock(datetime(2036, 6, 1, 12, tzinfo=UTC)))
    kept = operations.vacuum(later, by="vic")
    assert all(path.exists() for some in files.values() for path in some), kept
    operations.stage(stateful.ws, waiting.manifest.run_id, actor="ana")
    # Nothing else held them.
    operations.cancel(later, waiting.manifest.run_id, by="ana", reason="planned again")
    operations.vacuum(later, by="vic")
    assert not any(path.exists() for some in files.values() for path in some)
    assert audit(stateful.ws).problems == ()


@pytest.mark.long
def test_a_snapshot_is_not_kept_where_the_run_leaves_out_the_one_before_it(stateful: StatefulDomain) -> None:
    stateful.through(stateful.planned(JANUARY, LAST))
    stateful.land("late", [move(date(2026, 3, 15), "a", 100, name="late")])
    # February is equal, and what came late in March reaches April all the same.
    request = PlanRequest(
        table=CASES, days=DayRange.inclusive(FEBRUARY, LAST), partitions=(FEBRUARY, APRIL), reason="late", by="ana"
    )
    planned = operations.plan(stateful.ws, request)
    assert planned.manifest.settled == ()
    published = stateful.through(planned)
    assert [change.partition for change in published.changes] == [APRIL]
    assert [row for row in stateful.rows() if row[0] == APRIL] == [(APRIL, "a", 116, 4), (APRIL, "c", 7, 1)]


@pytest.mark.long
def test_a_snapshot_is_not_kept_where_another_run_has_restated_the_one_before_it_meanwhile(
    stateful: StatefulDomain,
) -> None:
    stateful.through(stateful.planned(JANUARY, date(2026, 3, 31)))
    stateful.land("late", [move(date(2026, 2, 20), "a", 100, name="late")])
    both, first = stateful.planned(FEBRUARY, date(2026, 3, 31)), stateful.planned(FEBRUARY, date(2026, 2, 28))
    assert [each.pin.partition for each in both.manifest.settled] == [MARCH]
    stateful.through(first)
    # Its February is what readers see by now, and their March follows from the February before.
    published = stateful.through(both)
    assert [change.partition for change in published.changes] == [MARCH]
    assert [row for row in stateful.rows() if row[0] == MARCH] == [(MARCH, "a", 115, 3), (MARCH, "c", 7, 1)]

"""Snapshots that a table does not keep expire: a publication without rows, which is undone like any other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from dagster import AssetRecordsFilter, DagsterInvalidConfigError
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructField, StructType
from typer.testing import CliRunner

from backfill_assets.application.execute import execute
from backfill_assets.application.look import history
from backfill_assets.application.parts import Part
from backfill_assets.application.plan import described_plan, plan_expiry
from backfill_assets.application.report import report_markdown
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import IllegalTransition, MissingInput, Refused, TargetChanged
from backfill_assets.domain import DerivedTable, RetentionRule
from backfill_assets.lake.append import validation_table
from backfill_assets.ledger.states import RunState, VersionState
from backfill_assets.main import app
from backfill_assets.orchestration.build import definitions_over
from backfill_assets.orchestration.launch import run_in_process
from backfill_assets.orchestration.next_steps import EXPIRE, PLAN
from backfill_assets.orchestration.partitions import published_key
from backfill_assets.orchestration.recorder import report_landed, show_accepted
from backfill_assets.orchestration.resources import Session
from backfill_assets.planning.impact import WhyLeftOut
from backfill_assets.planning.manifest_parts import RunPurpose
from backfill_assets.planning.request import Plan, PlanRequest
from backfill_assets.planning.restatement import NothingToRebuild, PlannedSet, SetRequest
from backfill_assets.report.calendar import calendar
from backfill_assets.report.errors import NothingThen, NotOneOf
from backfill_assets.report.history import partition_history
from backfill_assets.report.markdown import markdown_page
from backfill_assets.report.pages import page_of
from backfill_assets.report.runs import run_document
from backfill_assets.report.trace import trace_of
from backfill_assets.report.words.verdicts import verdict_words
from backfill_assets.requests.errors import ExpiresOthers, OnlyPart, ReadByOpenRun
from backfill_assets.upkeep.audit import audit
from backfill_assets.workspace import Workspace
from backfill_assets_tests.faults.scenario import Stopped, stopping_at
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import has_code, worded
from backfill_assets_tests.support.dagster_record import open_record
from backfill_assets_tests.support.lakes import folder_of
from backfill_assets_tests.support.ledgers import copy_home
from backfill_assets_tests.support.orchestration_examples import Bench
from backfill_assets_tests.support.shop import WorkIn, ticking_clock
from backfill_assets_tests.support.stateful_domain import CASES, JANUARY, StatefulDomain, move, open_stateful_domain

DUE = "gold.due"
LAST = date(2026, 5, 31)
FEBRUARY, MARCH, APRIL, MAY = (date(2026, month, 1) for month in range(2, 6))
GONE, STAYS = (JANUARY, FEBRUARY, APRIL), {MARCH, MAY}
"""Of five months the newest stays, and March, the last of its quarter."""
USUAL = [
    move(JANUARY, "y", closes=True),
    move(date(2026, 2, 5), "a"),
    move(date(2026, 2, 10), "a", 5),
    move(date(2026, 3, 10), "b", closes=True),
    move(date(2026, 3, 20), "c", 7),
    move(date(2026, 4, 20), "d", 2),
    move(date(2026, 1, 20), "z", closes=True),
    move(date(2026, 5, 10), "z", closes=True),
    move(LAST, "a", 1),
]
"""At the end of January no case is open."""


def opened(home: Path, spark: SparkSession) -> StatefulDomain:
    return open_stateful_domain(home, spark, domain="kept")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """A home with every snapshot of five months, and what is due at the end of each."""
    home = tmp_path_factory.mktemp("kept") / "stateful"
    stateful = opened(home, spark)
    stateful.land("usual", USUAL)
    stateful.through(stateful.planned(JANUARY, LAST))
    stateful.through(stateful.planned(JANUARY, LAST, table=DUE))
    stateful.ws.ledger.close()
    return home


@pytest.fixture
def stateful(template: Path, tmp_path: Path, spark: SparkSession) -> Iterator[StatefulDomain]:
    made = opened(copy_home(template, tmp_path / "stateful"), spark)
    yield made
    made.ws.close()


def planned(stateful: StatefulDomain) -> Plan:
    return plan_expiry(stateful.ws, CASES, reason="retention", by="ana")


def without_spark(stateful: StatefulDomain) -> StatefulDomain:
    def refuse() -> SparkSession:
        raise AssertionError("nothing is computed")

    return replace(stateful, ws=replace(stateful.ws, open_session=refuse))


def months(stateful: StatefulDomain) -> set[date]:
    return {row[0] for row in stateful.rows()}


def keeping(stateful: StatefulDomain, keep: RetentionRule | None) -> StatefulDomain:
    """The same home, where the table keeps other snapshots."""
    return declaring(stateful, replace(stateful.ws.domain.derived_table(CASES), keep=keep))


def declaring(stateful: StatefulDomain, table: DerivedTable) -> StatefulDomain:
    """The same home with another declaration of the table."""
    reader = replace(stateful.ws.domain.derived_table(DUE), inputs={"cases": table})
    return replace(stateful, ws=replace(stateful.ws, domain=replace(stateful.ws.domain, derived=(table, reader))))


def stale(stateful: StatefulDomain) -> dict[str, tuple[date, ...]]:
    found = operations.stale_tables(stateful.ws)
    assert all(each.waiting == each.blocked == () for each in found)
    return {each.table: each.partitions for each in found}


def test_what_a_table_does_not_keep_goes_and_comes_back_and_goes_again(stateful: StatefulDomain) -> None:
    rows, checksums = stateful.rows(), stateful.checksums()
    plan = planned(stateful)
    manifest = plan.manifest
    assert (manifest.kind, manifest.partitions, manifest.inputs) == (RunPurpose.EXPIRY, GONE, ())
    assert manifest.base is not None
    assert {pin.partition for pin in manifest.base.partitions} == {*GONE, *STAYS}
    assert (plan.replaced_partitions, plan.replaced_rows) == (3, 4)
    assert "keeps" in markdown_page(page_of(described_plan(stateful.ws, plan)))
    published = without_spark(stateful).through(plan)
    changes = published.changes
    assert [(change.partition, change.new.files, change.rows) for change in changes] == [(day, (), 0) for day in GONE]
    assert stateful.rows() == [row for row in rows if row[0] in STAYS]
    assert stateful.checksums() == {day: each for day, each in checksums.items() if day in STAYS}
    assert audit(stateful.ws).problems == ()
    # Neither missing nor stale, and nothing asks anybody to follow.
    assert stale(stateful) == {"bronze.moves": (), CASES: (), DUE: ()}
    nothing = operations.plan_set(stateful.ws, SetRequest(reason="all", by="ana", stale=True))
    assert isinstance(nothing, NothingToRebuild) and nothing.left_out == ()
    because = (("bronze.moves", DayRange.inclusive(JANUARY, LAST)),)
    all_of_it = operations.plan_set(stateful.ws, SetRequest(reason="all", by="ana", because=because, partial=True))
    assert isinstance(all_of_it, PlannedSet)
    assert {p.manifest.table: set(p.manifest.partitions) for p in all_of_it.plans if p.manifest.table == CASES} == {
        CASES: STAYS
    }
    assert not [each for each in all_of_it.left_out if each.table == CASES]
    operations.cancel(stateful.ws, all_of_it.manifest.set_id, by="ana", reason="not needed")
    with stateful.ws.ledger.read() as tx:
        assert manifest.run_id not in {entry.run_id for entry in tx.outbox.entries()}
        assert set(tx.versions.expired(CASES)) == set(GONE)
    with pytest.raises(Refused, check=has_code("nothing_expires")):
        planned(stateful)

    operations.rollback(stateful.ws, manifest.run_id, by="ben", reason="an auditor asked")
    assert (stateful.rows(), stateful.checksums()) == (rows, checksums)
    assert audit(stateful.ws).problems == ()
    assert stale(stateful) == {"bronze.moves": (), CASES: (), DUE: ()}
    again = planned(stateful)
    stateful.through(again)
    assert months(stateful) == STAYS
    # Only the expiry that stands is undone, and the other one is no more than a reason to plan again.
    assert f"backfill plan expire {CASES}" in worded(run_document(stateful.ws, manifest.run_id).next_step)
    with pytest.raises(Exception, match="has no standing publication"):
        operations.rollback(stateful.ws, manifest.run_id, by="ben", reason="once more")


@pytest.mark.long
def test_an_expiry_and_its_rollback_leave_the_columns_as_they_are(stateful: StatefulDomain) -> None:
    """A column that was declared since waits for the first rows that have it."""
    declared = stateful.ws.domain.derived_table(CASES)
    wider = declaring(
        stateful, replace(declared, schema=StructType([*declared.schema, StructField("risk", LongType())]))
    )
    handle, rows = stateful.ws.lake.open(CASES), stateful.rows()
    before = handle.schema()
    published = wider.through(planned(wider))
    handle.update_incremental()
    assert (handle.schema(), months(stateful)) == (before, STAYS)
    operations.rollback(wider.ws, published.run_id, by="ben", reason="no")
    handle.update_incremental()
    assert (handle.schema(), stateful.rows()) == (before, rows)
    assert audit(stateful.ws).problems == ()


def test_an_expiry_has_no_rows_that_could_be_of_older_inputs(
    stateful: StatefulDomain, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As where a table has references, of which the manifest of an expiry pins none.
    monkeypatch.setattr("backfill_assets.staleness.find.regressed_partitions", lambda *_: GONE)
    without_spark(stateful).through(planned(stateful))
    assert months(stateful) == STAYS


@pytest.mark.long
def test_who_lets_a_snapshot_expire_is_said_wherever_it_is_looked_for(stateful: StatefulDomain) -> None:
    run_id = planned(stateful).manifest.run_id
    stateful.gated(run_id)
    said = report_markdown(stateful.ws, run_id)
    assert "Its table keeps" in said
    # What is due at the end of a month was computed from it, so that it is not true that no table depends on it.
    assert (
        "No other table" not in said and "What was computed from these snapshots stays as it is, and cannot be" in said
    )
    # January has no rows: its snapshot is equal to none, and goes as well.
    assert "equal partitions are swapped too" in said and "are equal and stay as they are" not in said
    operations.approve(stateful.ws, run_id, by="ben")
    operations.publish(stateful.ws, run_id, by="ben")
    said = report_markdown(stateful.ws, run_id)
    assert "its snapshots have expired: readers see none of their rows" in said
    found = partition_history(stateful.ws, CASES, APRIL)
    assert [version.claim.state for version in found.versions] == [VersionState.EXPIRED, VersionState.SUPERSEDED]
    assert found.versions[0].claim.run_id == run_id
    assert found.versions[0].undo is not None
    text = markdown_page(page_of(found))
    assert all(each in text for each in ("EXPIRED", "EXPIRY: retention", "readers saw no rows"))
    assert "EXPIRE" in markdown_page(page_of(history(stateful.ws, CASES, None)))
    with pytest.raises(NothingThen, match=f"of {CASES} 2026-04: it expired by run {run_id}"):
        trace_of(stateful.ws, CASES, APRIL, {"case_id": "a"})
    shown = next(each for each in calendar(stateful.ws, 2026, ()).tables if each.table == CASES)
    assert (set(shown.expired), set(shown.partitions)) == (set(GONE), STAYS)
    with stateful.ws.ledger.read() as tx:
        before = tx.versions.history(CASES, APRIL)[1]
    (file,) = before.files.files
    assert (folder_of(stateful.ws.lake, CASES) / file.path).exists()
    assert operations.reproduce(stateful.ws, before.run_id, by="ana").identical
    with pytest.raises(IllegalTransition, check=has_code("computed_nothing")):
        operations.reproduce(without_spark(stateful).ws, run_id, by="ana")


def test_a_late_event_is_restated_from_the_kept_snapshot_before_it_and_what_has_expired_stays_so(
    stateful: StatefulDomain,
) -> None:
    run_id = planned(stateful).manifest.run_id
    stateful.gated(run_id)
    operations.approve(stateful.ws, run_id, by="ben")
    operations.publish(stateful.ws, run_id, by="ben")
    stateful.land("late", [move(date(2026, 4, 10), "a", 100, name="late")])
    assert stale(stateful)[CASES] == (MAY,)
    restated, _ = stateful.restated()
    (plan,) = [each for each in restated.plans if each.manifest.table == CASES]
    assert plan.manifest.partitions == (MAY,)
    assert plan.manifest.base is not None and plan.manifest.base.partitions[-1].partition == MARCH
    assert plan.skipped == ((APRIL, f"it expired by run {run_id}"),)
    assert months(stateful) == STAYS
    assert stale(stateful) == {"bronze.moves": (), CASES: (), DUE: ()}

    # Before the first kept snapshot: a cold start, and where the state is equal again the next one is not computed.
    stateful.land("later", [move(date(2026, 2, 20), "b", 100, name="later")])
    assert stale(stateful)[CASES] == (MARCH, MAY)
    equal = operations.plan_set(stateful.ws, SetRequest(reason="late", by="ana", stale=True))
    assert isinstance(equal, PlannedSet)
    (manifest,) = [each.manifest for each in equal.plans if each.manifest.table == CASES]
    assert (manifest.partitions, manifest.base) == ((MARCH, MAY), None)
    assert [(each.after.partition, each.pin.partition) for each in manifest.settled] == [(MARCH, MAY)]
    states = [stateful.gated(member.run_id) for member in equal.manifest.members]
    assert states[-1] is RunState.VERIFIED
    with stateful.ws.ledger.read() as tx:
        staged, accepted = tx.candidates.of_run(manifest.run_id), tx.versions.accepted(CASES)
    assert staged[MARCH].files != accepted[MARCH].files
    assert staged[MAY].files == accepted[MAY].files
    assert months(stateful) == STAYS
    assert audit(stateful.ws).problems == ()

    assert stateful.rows() == [
        (MARCH, "a", 15, 2),
        (MARCH, "c", 7, 1),
        (MAY, "a", 116, 4),
        (MAY, "c", 7, 1),
        (MAY, "d", 2, 1),
    ]


@pytest.mark.long
def test_a_snapshot_that_is_asked_for_by_name_is_computed_again(stateful: StatefulDomain) -> None:
    rows = stateful.rows()
    expiry = planned(stateful).manifest.run_id
    stateful.gated(expiry)
    operations.approve(stateful.ws, expiry, by="ben")
    operations.publish(stateful.ws, expiry, by="ben")
    with pytest.raises(MissingInput, check=has_code("inputs_expired")) as refused:
        stateful.planned(APRIL, LAST, table=DUE)
    assert refused.value.message == (
        f"{DUE} reads 2026-04, 1 month of {CASES}, which expired by run {expiry}: "
        f"{CASES} does not keep these snapshots."
    )
    named = stateful.planned(APRIL, date(2026, 4, 30))
    stateful.through(named)
    assert stateful.rows() == [row for row in rows if row[0] in {*STAYS, APRIL}]
    with stateful.ws.ledger.read() as tx:
        assert set(tx.versions.expired(CASES)) == {JANUARY, FEBRUARY}
    # What has been computed again since is not undone with the expiry; undone first, it is expired as before.
    with pytest.raises(TargetChanged, match="2026-04-01 was changed by run"):
        operations.rollback(stateful.ws, expiry, by="ben", reason="no")
    stateful.through(planned(stateful))
    assert months(stateful) == STAYS
    with stateful.ws.ledger.read() as tx:
        assert set(tx.versions.expired(CASES)) == set(GONE)
    with pytest.raises(TargetChanged, match="2026-04-01 was changed by run"):
        operations.rollback(stateful.ws, expiry, by="ben", reason="no")
    assert audit(stateful.ws).problems == ()


@pytest.mark.long
def test_a_snapshot_that_was_computed_again_is_undone_and_expired_as_before_under_what_reads_it(
    stateful: StatefulDomain,
) -> None:
    """What reads it stood while it was expired, so that it is no reason to refuse, and nothing of it is undone."""
    due, rows = stateful.rows(DUE), stateful.rows()
    expiry = planned(stateful).manifest.run_id
    stateful.gated(expiry)
    operations.approve(stateful.ws, expiry, by="ben")
    operations.publish(stateful.ws, expiry, by="ben")
    named = stateful.planned(APRIL, date(2026, 4, 30))
    stateful.through(named)
    operations.rollback(stateful.ws, named.manifest.run_id, by="ben", reason="not needed")
    with stateful.ws.ledger.read() as tx:
        assert set(tx.versions.expired(CASES)) == set(GONE)
    assert stale(stateful) == {"bronze.moves": (), CASES: (), DUE: ()}
    operations.rollback(stateful.ws, expiry, by="ben", reason="no")
    assert (stateful.rows(DUE), stateful.rows()) == (due, rows)
    assert audit(stateful.ws).problems == ()


def test_a_plan_leaves_out_what_reads_an_expired_snapshot_and_says_so(stateful: StatefulDomain) -> None:
    expiry = stateful.through(planned(stateful)).run_id
    request = SetRequest(reason="late", by="ana", because=((CASES, DayRange.inclusive(APRIL, LAST)),))
    with pytest.raises(OnlyPart, match=r"an input has expired: silver\.open_cases lacks 2026-04, 1 month"):
        operations.plan_set(stateful.ws, request)
    found = operations.plan_set(stateful.ws, replace(request, partial=True))
    assert isinstance(found, PlannedSet)
    assert {each.table: each.partitions for each in found.rebuilds} == {DUE: (MAY,)}
    days = DayRange.inclusive(APRIL, date(2026, 5, 31))
    alone = operations.plan(stateful.ws, PlanRequest(table=DUE, days=days, reason="late", by="ana", partial=True))
    said = f"2026-04, 1 month: {CASES} lacks 2026-04, 1 month, and 2026-04, 1 month expired by run {expiry}"
    assert said in markdown_page(page_of(described_plan(stateful.ws, alone))).replace("\\", "")
    assert (DUE, (APRIL,), WhyLeftOut.INPUT_EXPIRED) in [
        (each.table, each.partitions, each.why) for each in found.left_out
    ]


@pytest.mark.long
def test_an_expiry_that_has_been_overtaken_or_whose_snapshots_are_read_changes_nothing(
    stateful: StatefulDomain,
) -> None:
    rows = stateful.rows()
    run_id = planned(stateful).manifest.run_id
    assert stateful.gated(run_id) is RunState.PASSED
    operations.approve(stateful.ws, run_id, by="ben")
    # Between its gates and its publication another run is planned that begins with one of its snapshots.
    reader = stateful.planned(MARCH, MARCH).manifest
    assert reader.base is not None and [pin.partition for pin in reader.base.partitions] == [JANUARY, FEBRUARY]
    with pytest.raises(ReadByOpenRun, match=f"the open run {reader.run_id} reads them"):
        operations.publish(stateful.ws, run_id, by="ben")
    assert stateful.gated(run_id) is RunState.BLOCKED
    with stateful.ws.ledger.read() as tx:
        said = {each.partition: verdict_words(each) for each in tx.candidates.gate_results(run_id) if not each.passed}
    assert said == dict.fromkeys((JANUARY, FEBRUARY), f"open run {reader.run_id} reads it")
    # Of the same files as when they passed.
    kept = stateful.ws.lake.open(validation_table(CASES)).to_pyarrow_table(filters=[("run_id", "=", run_id)])
    assert {row["partition"] for row in kept.to_pylist() if not row["passed"]} == {JANUARY, FEBRUARY}
    assert worded(run_document(stateful.ws, run_id).next_step).startswith(
        f"backfill report {run_id}; then fix the cause"
    )
    operations.cancel(stateful.ws, reader.run_id, by="ana", reason="done")
    assert worded(run_document(stateful.ws, run_id).next_step) == f"what blocked it has ended: backfill run {run_id}"
    assert stateful.gated(run_id) is RunState.PASSED

    # What the table keeps is declared otherwise meanwhile.
    for keep in (None, RetentionRule(days=31, then="quarter")):
        other = keeping(stateful, keep)
        with pytest.raises(ExpiresOthers):
            operations.publish(other.ws, run_id, by="ben")
        assert other.gated(run_id) is RunState.BLOCKED
        assert stateful.gated(run_id) is RunState.PASSED

    # A snapshot that is to go is restated meanwhile.
    stateful.land("late", [move(date(2026, 4, 10), "a", 100, name="late")])
    stateful.through(stateful.planned(APRIL, LAST))
    with pytest.raises(ExpiresOthers, match="2026-04"):
        operations.publish(stateful.ws, run_id, by="ben")
    assert stateful.gated(run_id) is RunState.BLOCKED
    assert months(stateful) == {FEBRUARY, APRIL, *STAYS}
    assert [row for row in stateful.rows() if row[0] < APRIL] == [row for row in rows if row[0] < APRIL]
    assert audit(stateful.ws).problems == ()


@pytest.mark.long
def test_a_newer_snapshot_overtakes_an_expiry_whose_snapshots_it_changes(stateful: StatefulDomain) -> None:
    expiry = planned(stateful).manifest.run_id
    assert stateful.gated(expiry) is RunState.PASSED
    operations.approve(stateful.ws, expiry, by="ben")
    later = replace(stateful, ws=replace(stateful.ws, clock=ticking_clock(datetime(2026, 7, 2, 12, tzinfo=UTC))))
    later.land("june", [move(date(2026, 6, 30), "a", 3)])
    empty = tuple(date(2026, 6, day) for day in range(1, 30))
    load = operations.plan_load(later.ws, "moves", partitions=empty, empty=empty, by="ana", reason="nothing")
    assert load is not None
    later.gated(load.run_id)
    operations.publish(later.ws, load.run_id, by="ana")
    later.through(later.planned(date(2026, 6, 1), date(2026, 6, 30)))
    with pytest.raises(ExpiresOthers, match="2026-05"):
        operations.publish(later.ws, expiry, by="ben")
    assert plan_expiry(later.ws, CASES, reason="retention", by="ana").manifest.partitions == (*GONE, MAY)


@pytest.mark.long
def test_wherever_its_process_is_killed_an_expiry_is_completed_or_was_never_there(stateful: StatefulDomain) -> None:
    rows = stateful.rows()
    points = [point for point in Point if point.startswith(("stage:", "gate:", "swap:"))]
    reached = set()
    for point in points:
        run_id = planned(stateful).manifest.run_id

        def seen(point: Point) -> None:
            reached.add(point)

        dying = stopping_at(stateful.ws, point)
        watching = replace(stateful.ws, reached=seen)
        for ws in (dying, watching):
            with suppress(Stopped):
                operations.stage(ws, run_id, actor="ana")
                operations.gate(ws, run_id, actor="ana")
            operations.recover(stateful.ws, by="ops", only=run_id, now=True)
            if operations.state_of(stateful.ws, run_id) is RunState.PASSED:
                break
        run = operations.run_named(stateful.ws, run_id)
        if run.state in (RunState.STAGED, RunState.FAILED, RunState.PLANNED):
            stateful.gated(run_id)
        operations.approve(stateful.ws, run_id, by="ben")
        for act, undone in ((operations.publish, False), (operations.rollback, True)):
            wanted = RunState.ROLLED_BACK if undone else RunState.PUBLISHED
            more = {"reason": "no"} if undone else {}
            with suppress(Stopped):
                act(dying, run_id, by="ben", **more)
            operations.recover(stateful.ws, by="ops", only=run_id, now=True)
            assert stateful.rows() in (rows, [row for row in rows if row[0] in STAYS]), point
            assert audit(stateful.ws).problems == (), point
            if operations.state_of(stateful.ws, run_id) is not wanted:
                act(watching, run_id, by="ben", **more)
            assert stateful.rows() == (rows if undone else [row for row in rows if row[0] in STAYS]), point
    assert {Point.STAGE_CHUNK_STARTED, Point.STAGE_FINISHED, Point.GATE_RECORDED, Point.SWAP_COMMITTED} <= reached
    assert audit(stateful.ws).problems == ()


@pytest.mark.long
@pytest.mark.parametrize("by_assets", [True, False])
def test_dagster_shows_what_has_expired_as_missing_and_says_by_which_run(
    stateful: StatefulDomain, by_assets: bool
) -> None:
    run_id = planned(stateful).manifest.run_id
    with open_record(stateful.ws.settings) as instance:
        bench = Bench(workspace=stateful.ws, instance=instance)
        key = published_key(stateful.ws.domain.derived_table(CASES))
        show_accepted(stateful.ws, instance=instance)
        assert bench.materialized(key) == {str(day) for day in (*GONE, *STAYS)}
        for part in (Part.STAGE, Part.GATE, Part.PUBLISH):
            if part is Part.PUBLISH:
                operations.approve(stateful.ws, run_id, by="ben")
            if by_assets:
                assert run_in_process(stateful.ws, run_id, (part,), instance=instance, by="ben").succeeded
            else:
                done = execute(stateful.ws, run_id, (part,), actor="ben")
        if not by_assets:
            report_landed(stateful.ws, done.published, instance=instance)
        assert bench.materialized(key) == {str(day) for day in STAYS}
        seen = instance.fetch_observations(AssetRecordsFilter(asset_key=key), limit=10).records
        said = {each.partition_key: each.asset_observation.description for each in seen if each.asset_observation}
        assert set(said) == {str(day) for day in GONE}
        assert all(f"The snapshot expired by run {run_id}" in str(each) for each in said.values())
        assert months(stateful) == STAYS
        undone = operations.rollback(stateful.ws, run_id, by="ben", reason="no")
        report_landed(stateful.ws, undone, instance=instance)
        assert bench.materialized(key) == {str(day) for day in (*GONE, *STAYS)}


@pytest.mark.long
def test_snapshots_expire_and_come_back_with_the_ledger_in_postgresql(
    tmp_path: Path, spark: SparkSession, postgres_url: str
) -> None:
    stateful = open_stateful_domain(tmp_path / "stateful", spark, domain="kept", ledger_url=postgres_url)
    stateful.land("usual", USUAL)
    stateful.through(stateful.planned(JANUARY, LAST))
    rows = stateful.rows()
    plan, spared = planned(stateful), without_spark(stateful)
    spared.through(plan)
    spared.ws.close()
    assert months(stateful) == STAYS
    with stateful.ws.ledger.read() as tx:
        assert set(tx.versions.expired(CASES)) == set(GONE)
    assert stale(stateful)[CASES] == () and audit(stateful.ws).problems == ()
    with pytest.raises(Refused, check=has_code("nothing_expires")):
        planned(stateful)
    operations.rollback(stateful.ws, plan.manifest.run_id, by="ben", reason="an auditor asked")
    assert stateful.rows() == rows and audit(stateful.ws).problems == ()
    stateful.ws.close()


@pytest.mark.long
def test_the_launchpad_asks_for_an_expiry_where_a_table_keeps_only_some_snapshots(stateful: StatefulDomain) -> None:
    asked = {EXPIRE: {"table": CASES, "reason": "retention", "requester": "ana"}}

    def launched(ws: Workspace) -> bool:
        found = definitions_over(ws, lambda: Session(workspace=ws), pool=None).resolve_job_def(PLAN)
        return found.execute_in_process(instance=instance, run_config=asked).success

    with open_record(stateful.ws.settings) as instance:
        assert launched(without_spark(stateful).ws)
        with stateful.ws.ledger.read() as tx:
            run = tx.runs.records(table=CASES, limit=1)[0]
        assert (run.manifest.kind, run.manifest.partitions, run.state) == (RunPurpose.EXPIRY, GONE, RunState.PASSED)
        with pytest.raises(DagsterInvalidConfigError, match=EXPIRE):
            launched(keeping(stateful, None).ws)


@pytest.mark.long
def test_the_files_of_what_has_expired_go_when_it_can_no_longer_be_undone(stateful: StatefulDomain) -> None:
    run_id = planned(stateful).manifest.run_id
    with stateful.ws.ledger.read() as tx:
        accepted = tx.versions.accepted(CASES)
    folder = folder_of(stateful.ws.lake, CASES)
    files = {day: [folder / file.path for file in held.files.files] for day, held in accepted.items()}
    stateful.gated(run_id)
    operations.approve(stateful.ws, run_id, by="ben")
    operations.publish(stateful.ws, run_id, by="ben")
    operations.vacuum(stateful.ws, by="vic")
    assert all(path.exists() for some in files.values() for path in some)
    stateful = replace(stateful, ws=replace(stateful.ws, clock=ticking_clock(datetime(2036, 6, 1, 12, tzinfo=UTC))))
    operations.vacuum(stateful.ws, by="vic")
    assert {day for day, some in files.items() if any(path.exists() for path in some)} == STAYS
    with pytest.raises(Exception, match="retention"):
        operations.rollback(stateful.ws, run_id, by="ben", reason="too late")
    assert months(stateful) == STAYS
    stateful.through(stateful.planned(APRIL, date(2026, 4, 30)))
    assert months(stateful) == {*STAYS, APRIL}


def test_only_the_expiry_itself_is_of_its_kind_and_a_table_says_what_it_keeps(stateful: StatefulDomain) -> None:
    with pytest.raises(
        Refused, check=has_code("keeps_every_snapshot"), match="does not declare which snapshots it keeps"
    ):
        planned(keeping(stateful, None))
    with pytest.raises(Refused, check=has_code("keeps_every_snapshot")):
        plan_expiry(stateful.ws, DUE, reason="retention", by="ana")
    request = PlanRequest(
        table=CASES, days=DayRange.inclusive(JANUARY, LAST), reason="why", by="ana", kind=RunPurpose.EXPIRY
    )
    with pytest.raises(NotOneOf, match="the kind of a plan is"):
        operations.plan(stateful.ws, request)


@pytest.mark.long
def test_the_command_shows_what_goes_and_says_in_one_sentence_that_nothing_does(
    stateful: StatefulDomain, work_in: WorkIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    work_in(stateful.ws.settings.home)
    monkeypatch.setenv("BACKFILL_DOMAIN", "backfill_assets_tests.domains.kept")
    asked = ["plan", "expire", "open_cases", "--reason", "retention", "--by", "ana"]
    shown = CliRunner().invoke(app, asked, catch_exceptions=False)
    assert shown.exit_code == 0, shown.output
    text = " ".join(shown.stdout.split())
    assert "these snapshots expire: readers see none of their rows, and nothing is computed" in text
    assert "2 snapshots, 2026-03, 2026-05" in text or "2 snapshots" in text
    run_id = next(word for word in shown.stdout.split() if word.startswith("open_cases-"))
    for words in (["run", run_id], ["approve", run_id, "--by", "ben"], ["publish", run_id, "--by", "ben"]):
        done = CliRunner().invoke(app, words, catch_exceptions=False)
        assert done.exit_code == 0, done.output
    diff = CliRunner().invoke(app, ["diff", run_id, "--kind", "removed"], catch_exceptions=False)
    assert "0 changed, 0 added" in diff.stdout and " 0 removed" not in diff.stdout, diff.output
    nothing = CliRunner().invoke(app, asked, catch_exceptions=False)
    assert (nothing.exit_code, nothing.stdout) == (1, "")
    assert " ".join(nothing.stderr.split()) == (
        "refused: no snapshot of silver.open_cases expires: it keeps those of 1 day before the newest one and the "
        "last one of each quarter, and has no others. next: nothing has to be done"
    )

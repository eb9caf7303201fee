"""What is not published can be cancelled, for good; what readers see cannot."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from rich.console import Console

from backfill_assets.calendar.partitions import ONE_DAY, DayRange
from backfill_assets.cli.terminal import show
from backfill_assets.core.errors import IllegalTransition, NotApproved, Refused, TakenOver
from backfill_assets.core.progress import Progress
from backfill_assets.ledger.records import VerifiedPartition
from backfill_assets.ledger.states import RunState, SetState
from backfill_assets.ledger.store import Ledger
from backfill_assets.ledger.transactions import WriteTransaction
from backfill_assets.planning.sets import SetManifest, SetMember
from backfill_assets.report.report import Level, run_report
from backfill_assets.report.review import review_of
from backfill_assets.report.status import status, status_page
from backfill_assets.report.words.plans import goes_back_words, moved_on_words
from backfill_assets.upkeep.audit import audit
from backfill_assets.upkeep.vacuum import Why
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import advised
from backfill_assets_tests.support.lakes import folder_of
from backfill_assets_tests.support.ledger_examples import (
    DAYS,
    TABLE,
    carry_out,
    gate,
    make_publishable,
    plan,
    publication_of,
    publish,
    results_for,
    roll_back,
    stage,
    staged,
)
from backfill_assets_tests.support.shop import OUTPUT, RECENT, Shop, sale

SET_ID = "set.1"


def cancel(ledger: Ledger, run_id: str = "bf-1", *, by: str = "ben") -> None:
    with ledger.write() as writer:
        writer.requests.cancel(run_id, by=by, reason="not wanted")


def in_state(ledger: Ledger, state: RunState) -> None:
    """Brings bf-1 there."""
    if state in (RunState.SUPERSEDED, RunState.PUBLISHED, RunState.PUBLISHING, RunState.ROLLED_BACK):
        make_publishable(ledger, "bf-1")
        if state is RunState.PUBLISHING:
            with ledger.write() as writer:
                writer.publications.begin(publication_of(writer, "bf-1"), actor="Bob")
            return
        published = publish(ledger, "bf-1")
        if state is RunState.ROLLED_BACK:
            roll_back(ledger, published)
        if state is RunState.SUPERSEDED:
            make_publishable(ledger, "bf-2")
            publish(ledger, "bf-2", at=2)
        return
    if state is RunState.VERIFIED:
        make_publishable(ledger, "bf-0")
        publish(ledger, "bf-0")
    plan(ledger, "bf-1")
    if state in (RunState.STAGED, RunState.GATING, RunState.PASSED, RunState.BLOCKED, RunState.VERIFIED):
        stage(ledger, "bf-1")
    with ledger.write() as writer:
        if state in (RunState.STAGING, RunState.FAILED):
            writer.runs.take("bf-1", RunState.STAGING, actor="ann", attempt="a1", lease=timedelta(minutes=2))
        if state is RunState.FAILED:
            writer.runs.move("bf-1", RunState.FAILED, actor="ann", attempt="a1")
        if state in (RunState.GATING, RunState.BLOCKED):
            writer.runs.take("bf-1", RunState.GATING, actor="ann", attempt="a1", lease=timedelta(minutes=2))
        if state is RunState.BLOCKED:
            writer.runs.move("bf-1", RunState.BLOCKED, actor="ann", attempt="a1")
    if state in (RunState.PASSED, RunState.VERIFIED):
        gate(ledger, "bf-1")
    if state is RunState.VERIFIED:
        with ledger.write() as writer:
            equal = tuple(
                VerifiedPartition(partition=day, version=version.version, files=version.files)
                for day, version in writer.versions.accepted(TABLE).items()
            )
            intent = replace(publication_of(writer, "bf-1"), changes=(), verified=equal)
            writer.publications.verify(intent, delta_version=1, actor="Bob")


WHAT_FOLLOWS = {
    RunState.PUBLISHING: "backfill recover",
    RunState.PUBLISHED: "backfill rollback bf-1",
    RunState.SUPERSEDED: "backfill status bf-1",
    RunState.VERIFIED: "backfill status bf-1",
}


@pytest.mark.parametrize("state", [state for state in RunState if state is not RunState.CANCELLED])
def test_exactly_what_readers_do_not_see_can_be_cancelled_and_only_once(ledger: Ledger, state: RunState) -> None:
    in_state(ledger, state)
    with ledger.read() as reader:
        assert reader.runs.get("bf-1").state is state
    if state in WHAT_FOLLOWS:
        with pytest.raises(IllegalTransition, match=state) as refusal:
            cancel(ledger)
        assert WHAT_FOLLOWS[state] in advised(refusal.value)
        return
    cancel(ledger)
    with ledger.read() as reader:
        run = reader.runs.get("bf-1")
        assert (run.state, run.note, run.lease) == (RunState.CANCELLED, "cancelled by ben: not wanted", None)
        assert reader.events.violations() == ()
        assert list(reader.row_checks.violations()) == []
    with pytest.raises(IllegalTransition, match="CANCELLED"):
        cancel(ledger)


def everything_else() -> list[Callable[[WriteTransaction], object]]:
    return [
        lambda w: w.runs.take("bf-1", RunState.STAGING, actor="ann", attempt="a2"),
        lambda w: w.runs.take("bf-1", RunState.GATING, actor="ann", attempt="a2"),
        lambda w: w.requests.approve("bf-1", by="Cleo"),
        lambda w: w.requests.approve_by_policy("bf-1", policy="live"),
        lambda w: w.publications.begin(publication_of(w, "bf-1"), actor="Bob"),
        lambda w: w.runs.give_up("bf-1", actor="ops", note="gone", now=True),
    ]


@pytest.mark.parametrize("number", range(6))
def test_nothing_can_be_done_with_a_cancelled_run(ledger: Ledger, number: int) -> None:
    make_publishable(ledger, "bf-1")
    cancel(ledger)
    with pytest.raises((IllegalTransition, NotApproved), match="CANCELLED"), ledger.write() as writer:
        everything_else()[number](writer)


def test_the_process_of_a_cancelled_run_is_refused_its_next_step(ledger: Ledger) -> None:
    plan(ledger, "bf-1")
    with ledger.write() as writer:
        writer.runs.take("bf-1", RunState.STAGING, actor="ann", attempt="a1", lease=timedelta(minutes=2))
        writer.candidates.start_chunk("bf-1", 1, DAYS, attempt="a1")
    cancel(ledger)
    steps: list[Callable[[WriteTransaction], object]] = [
        lambda w: w.candidates.finish_chunk(
            "bf-1", 1, input_rows=0, output_rows=0, candidates=staged("bf-1"), attempt="a1", checksum="x"
        ),
        lambda w: w.runs.move("bf-1", RunState.STAGED, actor="ann", attempt="a1"),
        lambda w: w.runs.move("bf-1", RunState.FAILED, actor="ann", attempt="a1", note="no disk"),
        lambda w: w.candidates.record_gates("bf-1", staged("bf-1"), results_for("bf-1"), actor="ann", attempt="a1"),
    ]
    for step in steps:
        with pytest.raises(TakenOver, match="was cancelled by ben: not wanted"), ledger.write() as writer:
            step(writer)


def test_a_cancellation_needs_a_person_and_a_reason(ledger: Ledger) -> None:
    plan(ledger, "bf-1")
    for by, reason in (("", "why not"), ("ben", " "), ("ben", "two\nlines")):
        with pytest.raises(Refused), ledger.write() as writer:
            writer.requests.cancel("bf-1", by=by, reason=reason)


def a_set(ledger: Ledger) -> None:
    for run_id, table in (("bf-1", "silver.example"), ("bf-2", "silver.other")):
        make_publishable(ledger, run_id, table=table, request_id=SET_ID)
    with ledger.write() as writer:
        members = [writer.runs.get(run_id) for run_id in ("bf-1", "bf-2")]
        writer.sets.add(
            SetManifest(
                set_id=SET_ID,
                name="two",
                reason="a day off",
                requested_by="ann",
                requested_at=NOON,
                because="silver.example",
                members=tuple(
                    SetMember(run_id=m.run_id, table=m.manifest.table, manifest_digest=m.manifest_digest)
                    for m in members
                ),
            ),
            actor="ann",
        )


def cancel_set(ledger: Ledger) -> None:
    with ledger.write() as writer:
        writer.requests.cancel(SET_ID, by="ben", reason="not wanted")


def test_a_set_is_cancelled_as_a_whole_and_its_runs_only_with_it(ledger: Ledger) -> None:
    a_set(ledger)
    with pytest.raises(IllegalTransition, match="cancelled together") as refusal:
        cancel(ledger)
    assert f"backfill cancel {SET_ID}" in advised(refusal.value)
    cancel_set(ledger)
    with ledger.read() as reader:
        assert reader.sets.get(SET_ID).state is SetState.CANCELLED
        members = [reader.runs.get(run_id) for run_id in ("bf-1", "bf-2")]
        assert [each.state for each in members] == [RunState.CANCELLED] * 2
        assert [reader.events.reached(each) for each in members] == [RunState.PASSED] * 2
        assert reader.events.violations() == ()
    with pytest.raises(IllegalTransition, match="CANCELLED"):
        cancel_set(ledger)
    with pytest.raises(IllegalTransition, match="CANCELLED"), ledger.write() as writer:
        writer.requests.approve(SET_ID, by="Cleo")
    with pytest.raises(IllegalTransition, match="CANCELLED"), ledger.write() as writer:
        writer.sets.move(SET_ID, SetState.PUBLISHING, actor="Bob")


def test_a_set_of_which_readers_see_a_part_is_not_cancelled(ledger: Ledger) -> None:
    a_set(ledger)
    with ledger.write() as writer:
        writer.requests.approve(SET_ID, by="Bob")
        writer.sets.move(SET_ID, SetState.PUBLISHING, actor="Bob")
    with ledger.read() as reader:
        intent = publication_of(reader, "bf-1")
    published = carry_out(ledger, intent)
    with pytest.raises(IllegalTransition, match="PUBLISHING") as refusal:
        cancel_set(ledger)
    assert "backfill recover" in advised(refusal.value)
    assert f"backfill rollback {SET_ID}" in advised(refusal.value)
    with ledger.write() as writer:
        writer.sets.move(SET_ID, SetState.ROLLING_BACK, actor="Bob")
    roll_back(ledger, published)
    with ledger.write() as writer:
        writer.sets.move(SET_ID, SetState.ROLLED_BACK, actor="Bob")
    cancel_set(ledger)
    with ledger.read() as reader:
        assert {reader.runs.get(run_id).state for run_id in ("bf-1", "bf-2")} == {RunState.CANCELLED}


# --------------------------------------------------------------------------------------------------- with real work


@pytest.fixture
def shop(published_shop: Shop) -> Shop:
    return published_shop


@pytest.mark.long
def test_a_process_at_work_on_a_cancelled_run_stops_and_its_files_and_pins_are_free(shop: Shop) -> None:
    """Also: what readers see stays as it is, the plan of it names no conflict, and a report can still be read."""
    before, run_id = shop.live_paths(), shop.planned(OUTPUT)

    def somebody_cancels(progress: Progress) -> None:
        if progress.line.endswith("is staged"):
            operations.cancel(shop.ws, run_id, by="ben", reason="the other window")

    with pytest.raises(TakenOver, match="was cancelled by ben: the other window"):
        operations.stage(shop.ws, run_id, actor="ana", listener=somebody_cancels)
    assert operations.recover(shop.ws, by="ops") == ()
    document = run_report(shop.ws, run_id).run
    assert (document.record.state, document.next_step) == ("CANCELLED", None)
    shown = io.StringIO()
    show(Console(file=shown, width=1_000), status_page(status(shop.ws)))
    assert "CANCELLED" in shown.getvalue() and "None" not in shown.getvalue()
    found = operations.vacuum(shop.ws, by="vic")
    (line,) = [each for table in found.tables for each in table.runs if each.run_id == run_id]
    assert (line.kept, line.reason) == (False, Why.CANCELLED)
    assert shop.live_paths() == before
    assert not list((folder_of(shop.ws.lake, RECENT) / "_runs" / run_id).rglob("*.parquet"))
    assert audit(shop.ws).problems == ()
    for act in (
        lambda: operations.stage(shop.ws, run_id, actor="ana"),
        lambda: operations.gate(shop.ws, run_id, actor="ana"),
        lambda: operations.publish(shop.ws, run_id, by="ben"),
        lambda: operations.approve(shop.ws, run_id, by="ben"),
    ):
        with pytest.raises(IllegalTransition, match="CANCELLED"):
            act()


@pytest.mark.long
def test_a_report_says_when_the_inputs_of_a_run_have_changed_since_it_was_planned(shop: Shop) -> None:
    run_id = shop.ready(OUTPUT)
    assert run_report(shop.ws, run_id).moved_on == ()
    shop.land("late.jsonl", [sale(OUTPUT.start, amount=5, sale_id="late")])
    report = run_report(shop.ws, run_id)
    (moved,) = report.moved_on
    assert str(moved) == "bronze.sales 2026-01-03, 1 day"
    said = moved_on_words(moved)
    assert review_of(report).warnings == (f"{said[:1].upper()}{said[1:]}.",)
    assert (report.level, review_of(report).headline) == (
        Level.ATTENTION,
        "Every blocking gate passed: ready to publish; 100.0% of the accepted rows change or disappear, with 1 warning",
    )
    shop.publish(run_id)
    assert run_report(shop.ws, run_id).moved_on == ()


@pytest.mark.long
def test_a_report_says_when_a_run_goes_back_to_an_earlier_release(shop: Shop) -> None:
    forward = shop.published(OUTPUT)
    run_id = shop.planned(OUTPUT, version="0.9.0")
    (release,) = run_report(shop.ws, run_id).goes_back
    assert (release.accepted_version, release.transform_version, len(release.partitions)) == ("1.0.0", "0.9.0", 7)
    said = goes_back_words(release)
    assert "this run goes back: the accepted rows of 2026-01-03..2026-01-09" in said
    assert "come from version 1.0.0, and the run is 0.9.0" in said
    assert run_report(shop.ws, forward).goes_back == ()


@pytest.mark.long
def test_a_report_warns_of_the_days_on_its_borders_that_keep_another_release(shop: Shop) -> None:
    forward = shop.published(OUTPUT)
    middle = DayRange.inclusive(OUTPUT.start + ONE_DAY, OUTPUT.start + 2 * ONE_DAY)
    run_id = shop.planned(middle, version="0.9.0")
    before, after = run_report(shop.ws, run_id).left_behind
    assert (before.releases, str(before.partitions), len(after.partitions)) == (("1.0.0",), "2026-01-03, 1 day", 4)
    assert run_report(shop.ws, shop.planned(middle)).left_behind == (), "its release is that of its neighbours"
    assert run_report(shop.ws, forward).left_behind == (), "it has replaced nothing"
    back = shop.published(middle, version="0.9.0")
    report = run_report(shop.ws, back)
    assert [str(each.partitions) for each in report.left_behind] == [str(each.partitions) for each in (before, after)]
    assert len(review_of(report).warnings) == 3, "two borders, and that it goes back"

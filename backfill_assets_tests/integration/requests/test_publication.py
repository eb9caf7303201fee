"""A run from plan to rollback: what readers see, and what is refused."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import date

import pytest
from rich.console import Console

from backfill_assets.application import look
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.application.requests import compute
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.cli.terminal import show
from backfill_assets.core.errors import (
    ContractBroken,
    GateFailed,
    IllegalTransition,
    InvalidRange,
    MissingInput,
    NotApproved,
    TargetChanged,
    UnknownName,
)
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.manifest_parts import Mode
from backfill_assets.planning.request import PlanRequest
from backfill_assets.report.history import partition_history, partition_page
from backfill_assets.report.page import Page
from backfill_assets.report.report import run_report
from backfill_assets.report.run_report import run_page
from backfill_assets.report.runs import run_document, run_summary_page
from backfill_assets.requests.obstacles import Publishing, gated, obstacles, passed_gates, require_none
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import advised
from backfill_assets_tests.support.edited import edit
from backfill_assets_tests.support.lakes import folder_of
from backfill_assets_tests.support.shop import OUTPUT, RECENT, Shop, sale

MIDDLE = DayRange.inclusive(date(2026, 1, 5), date(2026, 1, 6))
FIFTH, SIXTH = date(2026, 1, 5), date(2026, 1, 6)


@pytest.mark.long
def test_a_published_run_is_what_readers_see_and_everything_agrees(shop: Shop) -> None:
    run_id = shop.published()
    assert shop.amounts() == dict.fromkeys(OUTPUT, 40)
    assert operations.state_of(shop.ws, run_id) is RunState.PUBLISHED
    assert audit(shop.ws).problems == ()


@pytest.mark.long
def test_warm_up_rows_are_read_and_never_published(shop: Shop) -> None:
    shop.published(MIDDLE)
    assert set(shop.amounts()) == set(MIDDLE)


@pytest.mark.long
def test_a_restatement_leaves_other_partitions_untouched_byte_for_byte(shop: Shop) -> None:
    first = shop.published(version="0.9.0")
    before, live = shop.files(), shop.live_paths()
    run_id = shop.published(MIDDLE)
    assert {path: shop.files()[path] for path in before} == before
    middle = {f"day={day}" for day in MIDDLE}
    outside = {path for path in live if not middle & set(path.split("/"))}
    assert {path for path in shop.live_paths() if not middle & set(path.split("/"))} == outside
    assert all(run_id in path for path in shop.live_paths() - outside)
    assert shop.amounts()[FIFTH] == 40
    assert shop.amounts()[date(2026, 1, 4)] == 80
    story = partition_history(shop.ws, RECENT, FIFTH)
    assert [version.manifest.supersedes for version in story.versions] == [(first,), ()]
    assert story.versions[0].versions == run_report(shop.ws, run_id).versions
    words = worded(partition_page(story))
    assert "replaced version 1" in words
    assert "supersedes" not in words, "it names the runs of all partitions, also those that this one never had"


@pytest.mark.long
def test_pages_say_who_asked_who_approved_who_ran_and_who_published(shop: Shop) -> None:
    run_id = shop.planned()
    assert "run by" not in worded(run_summary_page(run_document(shop.ws, run_id)))
    operations.approve(shop.ws, run_id, by="ben")
    operations.stage(shop.ws, run_id, actor="ops")
    operations.gate(shop.ws, run_id, actor="gatekeeper")
    operations.publish(shop.ws, run_id, by="eva")
    for page in (run_summary_page(run_document(shop.ws, run_id)), run_page(run_report(shop.ws, run_id))):
        words = worded(page)
        assert "(asked by ana) run by ops" in words and "APPROVED by ben" in words
    story = worded(partition_page(partition_history(shop.ws, RECENT, FIFTH)))
    assert "asked, agreed ana, ben ran, published ops, eva" in story
    (traced,) = look.trace(shop.ws, RECENT, FIFTH, {"shop": "only"}, None).publications
    assert (traced.requested_by, traced.approved_by, traced.ran_by) == ("ana", "ben", "ops")


def worded(page: Page) -> str:
    """A page as the terminal shows it, in one line."""
    shown = io.StringIO()
    show(Console(file=shown, width=200), page)
    return " ".join(shown.getvalue().split())


def test_a_rollback_brings_back_exactly_the_files_from_before(shop: Shop) -> None:
    shop.published(version="0.9.0")
    before = shop.live_paths()
    run_id = shop.published(MIDDLE)
    assert shop.live_paths() != before
    operations.rollback(shop.ws, run_id, by="ben", reason="was wrong")
    assert shop.live_paths() == before
    assert operations.state_of(shop.ws, run_id) is RunState.ROLLED_BACK
    assert audit(shop.ws).problems == ()


@pytest.mark.long
def test_a_rollback_of_a_first_publication_leaves_nothing(shop: Shop) -> None:
    run_id = shop.published()
    operations.rollback(shop.ws, run_id, by="ben", reason="was wrong")
    assert shop.amounts() == {}
    assert audit(shop.ws).problems == ()


def test_a_second_rollback_is_refused(shop: Shop) -> None:
    run_id = shop.published()
    operations.rollback(shop.ws, run_id, by="ben", reason="was wrong")
    with pytest.raises(IllegalTransition, match="has no standing publication and is ROLLED_BACK"):
        operations.rollback(shop.ws, run_id, by="ben", reason="was wrong")


def test_a_rolled_back_run_needs_a_new_approval_and_can_then_be_published_again(shop: Shop) -> None:
    run_id = shop.published()
    after = shop.live_paths()
    operations.rollback(shop.ws, run_id, by="ben", reason="was wrong")
    with pytest.raises(NotApproved):
        shop.publish(run_id)
    operations.approve(shop.ws, run_id, by="ben")
    shop.publish(run_id)
    assert shop.live_paths() == after
    assert audit(shop.ws).problems == ()


def test_a_rolled_back_run_that_is_measured_again_shows_who_undid_it_and_whose_approval_is_gone(shop: Shop) -> None:
    run_id = shop.published()
    operations.rollback(shop.ws, run_id, by="cara", reason="was wrong")
    shop.staged(run_id)
    assert operations.state_of(shop.ws, run_id) is RunState.PASSED
    shown = io.StringIO()
    show(Console(file=shown, width=250), run_page(run_report(shop.ws, run_id)))
    said = " ".join(shown.getvalue().split())
    assert "DRAFT: cara rolled the run back on " in said
    assert "(was wrong), which withdrew the approval by ben" in said
    operations.approve(shop.ws, run_id, by="ben")
    assert run_report(shop.ws, run_id).run.withdrawn is None


@pytest.mark.long
def test_a_rollback_under_a_later_publication_is_refused(shop: Shop) -> None:
    first = shop.published()
    second = shop.published(MIDDLE, version="0.9.0")
    with pytest.raises(TargetChanged, match=second):
        operations.rollback(shop.ws, first, by="ben", reason="was wrong")


@pytest.mark.long
def test_a_wholly_replaced_run_is_superseded_and_comes_back_with_a_rollback(shop: Shop) -> None:
    first = shop.published(MIDDLE)
    second = shop.published(MIDDLE, version="0.9.0")
    assert operations.state_of(shop.ws, first) is RunState.SUPERSEDED
    operations.rollback(shop.ws, second, by="ben", reason="was wrong")
    assert operations.state_of(shop.ws, first) is RunState.PUBLISHED


def test_publishing_before_the_gates_is_refused(shop: Shop) -> None:
    run_id = shop.planned()
    operations.approve(shop.ws, run_id, by="ben")
    with pytest.raises(IllegalTransition, match="cannot be published: it is PLANNED"):
        shop.publish(run_id)


def test_publishing_without_approval_is_refused(shop: Shop) -> None:
    run_id = shop.staged(shop.planned())
    with pytest.raises(NotApproved, match="another person"):
        shop.publish(run_id)
    assert not shop.ws.lake.open(RECENT).file_uris()


def test_publishing_twice_is_refused(shop: Shop) -> None:
    run_id = shop.published()
    with pytest.raises(IllegalTransition, match="PUBLISHED"):
        shop.publish(run_id)


def test_approving_ones_own_plan_is_refused(shop: Shop) -> None:
    with pytest.raises(NotApproved):
        operations.approve(shop.ws, shop.planned(), by=" Ana ")


@pytest.mark.long
def test_a_failed_blocking_gate_leaves_the_published_table_as_it_was(shop: Shop) -> None:
    shop.published()
    before = shop.live_paths()
    shop.land("huge.jsonl", [sale(FIFTH, amount=5_000, sale_id="huge")])
    run_id = shop.planned()
    operations.approve(shop.ws, run_id, by="ben")
    shop.staged(run_id)
    assert operations.state_of(shop.ws, run_id) is RunState.BLOCKED
    with pytest.raises(IllegalTransition, match="BLOCKED"):
        shop.publish(run_id)
    assert shop.live_paths() == before


def test_a_gate_result_counts_only_for_the_files_it_measured(shop: Shop) -> None:
    run_id = shop.ready(MIDDLE)
    with shop.ws.ledger.write() as writer:
        candidates = writer.candidates.of_run(run_id)
    # The same rows staged again are other files; the results of the first files say nothing about them.
    (folder_of(shop.ws.lake, RECENT) / candidates[FIFTH].files.files[0].path).unlink()
    operations.stage(shop.ws, run_id, actor="ana")
    with shop.ws.ledger.write() as writer:
        assert writer.candidates.of_run(run_id)[FIFTH].files.digest != candidates[FIFTH].files.digest
        with pytest.raises(IllegalTransition):
            require_none(obstacles(Publishing(ws=shop.ws, tx=writer, run=writer.runs.get(run_id)), (gated,)))


def test_publication_asks_for_every_blocking_gate_of_the_manifest(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = shop.ready(MIDDLE)
    with shop.ws.ledger.read() as reader:
        asked = Publishing(ws=shop.ws, tx=reader, run=reader.runs.get(run_id))
        passed = reader.candidates.passed_gates(run_id)
        assert passed_gates.find(asked) is None
        lacking = [found for found in passed if found[:2] != (SIXTH, "unique_key")]
        monkeypatch.setattr(reader.candidates, "passed_gates", lambda _: lacking)
        with pytest.raises(GateFailed, match=r"unique_key did not pass .* 2026-01-06"):
            require_none(obstacles(asked))


@pytest.mark.long
def test_a_target_that_changed_since_the_comparison_is_refused_and_nothing_changes(shop: Shop) -> None:
    shop.published(version="0.9.0")
    late = shop.ready(MIDDLE)
    shop.published(DayRange.inclusive(SIXTH, SIXTH))
    before = shop.live_paths()
    with pytest.raises(TargetChanged, match="2026-01-06, 1 day"):
        shop.publish(late)
    assert shop.live_paths() == before
    operations.gate(shop.ws, late, actor="ana")
    shop.publish(late)
    assert shop.amounts()[FIFTH] == 40


@pytest.mark.long
def test_an_empty_target_partition_that_got_rows_meanwhile_is_refused(shop: Shop) -> None:
    one, other = shop.ready(MIDDLE), shop.ready(MIDDLE, version="0.9.0", reason="another")
    shop.publish(other)
    with pytest.raises(TargetChanged):
        shop.publish(one)


@pytest.mark.long
def test_a_foreign_writer_in_the_target_partition_is_refused(shop: Shop) -> None:
    shop.published()
    run_id = shop.ready(MIDDLE, version="0.9.0")
    table = shop.ws.lake.open(RECENT)
    table.delete("day = '2026-01-05'")
    with pytest.raises(TargetChanged, match="the first is 2026-01-05"):
        shop.publish(run_id)
    assert operations.state_of(shop.ws, run_id) is RunState.PASSED
    assert any("no publication explains" in problem for problem in audit(shop.ws).problems)


def test_a_staged_file_that_was_cut_is_never_published(shop: Shop) -> None:
    run_id = shop.ready(MIDDLE)
    with shop.ws.ledger.read() as reader:
        victim = reader.candidates.of_run(run_id)[FIFTH].files.files[0]
    path = folder_of(shop.ws.lake, RECENT) / victim.path
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(MissingInput, match="bytes"):
        shop.publish(run_id)
    assert shop.amounts() == {}


def test_missing_warm_up_is_refused_with_the_days_and_what_to_do(shop: Shop) -> None:
    with pytest.raises(MissingInput, match=r"2025-12-30\.\.2025-12-31, 2 days") as refusal:
        shop.planned(DayRange.inclusive(date(2026, 1, 1), date(2026, 1, 3)))
    assert advised(refusal.value) == (
        "choose later days, or set BACKFILL_FIRST_DAY to 2025-12-30, and then land the days before the present one "
        "that are missing, or load them as empty"
    )


@pytest.mark.long
def test_a_dry_run_and_a_reconciliation_block_no_other_run_and_are_not_found_to_be_published(shop: Shop) -> None:
    shop.published(MIDDLE)
    real = shop.ready(MIDDLE)
    for mode in (Mode.DRY_RUN, Mode.RECONCILIATION):
        request = PlanRequest(table=RECENT, days=MIDDLE, reason=f"look, {mode}", by="ana", mode=mode)
        shop.staged(operations.plan(shop.ws, request).manifest.run_id)
    found = operations.find_run(shop.ws, RECENT, tuple(MIDDLE), states=[RunState.PASSED])
    assert found is not None
    assert found.run_id == real
    request = PlanRequest(table=RECENT, days=MIDDLE, reason="conflicts?", by="ana")
    assert operations.plan(shop.ws, request).conflicts == (real,)


def test_missing_look_ahead_is_refused_with_the_days_and_the_command(shop: Shop) -> None:
    with pytest.raises(MissingInput, match="2026-01-11") as refusal:
        shop.planned(DayRange.inclusive(date(2026, 1, 9), date(2026, 1, 10)))
    assert advised(refusal.value) == (
        "land the missing files; if nothing happened on these days, declare it with "
        "backfill load sales --from 2026-01-11 --to 2026-01-11 --empty --reason WHY --by NAME"
    )


def test_days_outside_the_table_are_refused(shop: Shop) -> None:
    with pytest.raises(InvalidRange, match="2026-01-01"):
        shop.planned(DayRange.inclusive(date(2025, 1, 1), date(2025, 1, 2)))


def test_an_unknown_transform_version_is_refused_naming_the_known_ones(shop: Shop) -> None:
    with pytest.raises(UnknownName, match=r"1\.0\.0, 0\.9\.0"):
        shop.planned(version="7.7.7")


@pytest.mark.long
def test_the_same_manifest_gives_the_same_checksums_again(shop: Shop) -> None:
    run_id = shop.staged(shop.planned())
    with shop.ws.ledger.read() as reader:
        first = {day: c.checksum for day, c in reader.candidates.of_run(run_id).items()}
    shop.staged(run_id)
    with shop.ws.ledger.read() as reader:
        assert {day: c.checksum for day, c in reader.candidates.of_run(run_id).items()} == first
    assert len(set(first.values())) > 1


@pytest.mark.long
def test_a_run_reads_the_input_it_was_planned_with_even_after_the_input_moved_on(shop: Shop) -> None:
    run_id = shop.planned(MIDDLE)
    shop.land("late.jsonl", [sale(FIFTH, amount=100, sale_id="late")])
    shop.staged(run_id)
    operations.approve(shop.ws, run_id, by="ben")
    shop.publish(run_id)
    assert shop.amounts() == {FIFTH: 40, SIXTH: 40}


def test_code_that_is_not_the_manifests_is_refused_before_anything_is_computed(shop: Shop) -> None:
    run_id = shop.planned(MIDDLE)
    edit(shop.ws)
    with pytest.raises(ContractBroken, match="planned with other code"):
        operations.stage(shop.ws, run_id, actor="ana")
    assert operations.state_of(shop.ws, run_id) is RunState.PLANNED


def test_what_was_staged_by_the_manifests_code_is_not_measured_by_another(shop: Shop) -> None:
    """Required columns and the measures of gates are declared with the code, which a manifest names."""
    run_id = shop.planned(MIDDLE)
    operations.stage(shop.ws, run_id, actor="ana")
    edit(shop.ws)
    with pytest.raises(ContractBroken, match="planned with other code"):
        operations.gate(shop.ws, run_id, actor="ana")
    assert operations.state_of(shop.ws, run_id) is RunState.STAGED


def test_code_that_is_not_the_manifests_is_refused_before_spark_is_started(shop: Shop) -> None:
    run_id = shop.planned(MIDDLE)
    ws = edit(replace(shop.ws, open_session=lambda: pytest.fail("Spark was started")))
    with pytest.raises(ContractBroken, match="planned with other code"):
        compute(ws, run_id, Acting(by="ana", recorder=Unrecorded()))


def test_a_dry_run_is_never_published(shop: Shop) -> None:
    request = PlanRequest(table=RECENT, days=MIDDLE, reason="look", by="ana", mode=Mode.DRY_RUN)
    run_id = shop.staged(operations.plan(shop.ws, request).manifest.run_id)
    with pytest.raises(IllegalTransition, match="never published, so it needs no approval"):
        operations.approve(shop.ws, run_id, by="ben")
    with pytest.raises(IllegalTransition, match="never published"):
        shop.publish(run_id)

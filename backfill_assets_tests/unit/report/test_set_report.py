"""The report of a set sums its runs up, and its headline says how much of what was accepted it concerns."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.columns import ColumnChange
from backfill_assets.core.next_steps import Command, do, read_first, step
from backfill_assets.ledger.states import RunState, SetState
from backfill_assets.planning.manifest_parts import Cause, Reason
from backfill_assets.planning.sets import Phases
from backfill_assets.report.markdown import markdown_page
from backfill_assets.report.page import Section
from backfill_assets.report.report import Level, RunReport, SetReport, totals_by_table
from backfill_assets.report.review import review_of, review_of_set
from backfill_assets.report.run_report import run_page, set_page
from backfill_assets.report.runs import SetMember, progress_words, set_facts
from backfill_assets.report.waiting import RejectedRecords
from backfill_assets.report.words.states import MEANING, meaning_of_set
from backfill_assets_tests.support.report_examples import report, restatement, summary

PASSED = "Every blocking gate of every run passed: ready to publish"
BEFORE = "of the accepted rows, 10.0% of silver.orders change or disappear"
AFTER = "of the rows accepted before, 10.0% of silver.orders changed or disappeared"


def of_set(state: SetState, *reports: RunReport) -> SetReport:
    return SetReport(set=restatement(state), level=Level.GOOD, tables=totals_by_table(reports), reports=reports)


def test_rejected_records_behind_several_runs_are_said_once_for_the_set() -> None:
    look = do(Command.LOCATE, "orders", first="2026-01-01", last="2026-01-02")
    rejected = (RejectedRecords(source="bronze.orders", imports=("imp-000001",), landed=3, rejected=1, look=look),)
    each = replace(report(), rejected=rejected)
    found = replace(of_set(SetState.PENDING, each, each), rejected=rejected)
    assert markdown_page(set_page(found)).count("1 of 3 records of imp-000001") == 1
    assert markdown_page(run_page(each)).count("1 of 3 records of imp-000001") == 1


@pytest.mark.parametrize(
    ("state", "headline"),
    [
        (SetState.PENDING, f"{PASSED}; {BEFORE}"),
        (SetState.PUBLISHED, f"Published: {MEANING[SetState.PUBLISHED]}; {AFTER}"),
        (SetState.ROLLED_BACK, f"Rolled back: {MEANING[SetState.ROLLED_BACK]}"),
        (SetState.CANCELLED, f"Cancelled: {MEANING[SetState.CANCELLED]}"),
    ],
)
def test_the_headline_of_a_set_has_the_share_of_rows_before_and_after_it_is_published(
    state: SetState, headline: str
) -> None:
    assert review_of_set(of_set(state, report())).headline == headline


def test_why_names_what_computed_the_rows_of_each_table_and_a_blocked_set_says_that_it_cannot_be_published() -> None:
    found = of_set(SetState.PENDING, report())
    assert "silver.orders: The rows come from orders, release 2.0.0" in review_of_set(found).why
    assert review_of_set(found).on_yes.startswith("Its run is published: silver.orders.")
    blocked = replace(report(), run=summary(RunState.BLOCKED))
    assert review_of_set(of_set(SetState.PENDING, blocked)).on_yes.startswith("It cannot be published")


def with_risk(found: RunReport, state: RunState, column: str = "risk") -> RunReport:
    record = replace(found.run.record, state=state)
    added = (ColumnChange(column=column, was=None, becomes="string"),)
    return replace(
        found, run=replace(found.run, record=replace(record, manifest=replace(record.manifest, columns=added)))
    )


@pytest.mark.parametrize(
    ("state", "equal", "said"),
    [
        (RunState.PLANNED, False, "adds risk (string)"),
        (RunState.PASSED, False, "adds risk (string)"),
        (RunState.PASSED, True, "adds risk (string); not yet, as no row changes"),
        (RunState.VERIFIED, True, "adds risk (string); not yet, as no row changes"),
        (RunState.PUBLISHED, False, "adds risk (string)"),
        (
            RunState.ROLLED_BACK,
            False,
            "adds risk (string); the rollback left the columns so, with null for risk in the earlier rows",
        ),
    ],
)
def test_a_review_says_what_has_become_of_columns_that_a_run_changes(state: RunState, equal: bool, said: str) -> None:
    found = report()
    equals = tuple(replace(part, equal=equal) for part in found.partitions)
    assert review_of(with_risk(replace(found, partitions=equals), state)).columns == said
    assert review_of(found).columns == ""


def test_a_review_of_a_set_names_the_columns_of_each_table_once() -> None:
    each = [with_risk(report(), RunState.PASSED, column) for column in ("risk", "risk", "code")]
    assert review_of_set(of_set(SetState.PENDING, report(), *each)).columns == (
        "silver.orders: adds risk (string); silver.orders: adds code (string)"
    )


def computed_from(found: RunReport, *reasons: Reason) -> RunReport:
    record = found.run.record
    changed = replace(record, manifest=replace(record.manifest, changed=reasons))
    return replace(found, run=replace(found.run, record=changed))


def test_a_review_says_what_has_changed_since_the_accepted_rows_and_a_set_says_it_once_for_each_table() -> None:
    days = [DayRange.inclusive(date(2024, 1, first), date(2024, 1, first + 1)) for first in (5, 7)]
    reasons = [Reason(cause=Cause.INPUT_CHANGED, name="bronze.loans", days=(each,)) for each in days]
    release = Reason(cause=Cause.VERSION_CHANGED, was="orders 1.0.0", now="orders 2.0.0")
    phases = [computed_from(report(), release, each) for each in reasons]
    computed = "computed by orders 1.0.0; now it is orders 2.0.0"
    assert review_of(phases[0]).changed == (computed, "bronze.loans changed: 2024-01-05..2024-01-06, 2 days")
    assert review_of_set(of_set(SetState.PENDING, *phases, report())).changed == (
        f"silver.orders: {computed}",
        "silver.orders: bronze.loans changed: 2024-01-05..2024-01-08, 4 days",
    )
    said = "- **Changed since** computed by orders 1.0.0; now it is orders 2.0.0\n- bronze.loans changed: 2024-01-05"
    assert said in markdown_page(run_page(phases[0]))
    assert (review_of(report()).changed, review_of_set(of_set(SetState.PENDING, report())).changed) == ((), ())


def test_the_headline_of_a_run_that_failed_is_why() -> None:
    found, why = report(), "the transform orders 2.0.0 of silver.orders failed: KeyError: 'IT'"
    failed = replace(found.run.record, state=RunState.FAILED, note=f"{why}.")
    assert review_of(replace(found, run=replace(found.run, record=failed))).headline == f"Failed: {why}"


def test_each_phase_is_told_from_the_others_by_its_number() -> None:
    found = of_set(SetState.PENDING, report(), report(2))
    record = found.set.record
    because = "silver.orders:2025-03-01..2025-03-03 in 2 phases"
    manifest = replace(record.manifest, phases=Phases(hold_s=7200, each=True), because=because)
    phased = replace(record, manifest=manifest)
    in_phases = replace(found, set=replace(found.set, record=phased))
    assert [found.title_of(each) for each in found.reports] == ["silver.orders"] * 2
    assert [in_phases.title_of(each) for each in in_phases.reports] == [
        "silver.orders, phase 1 of 2",
        "silver.orders, phase 2 of 2",
    ]
    assert "silver.orders, phase 2 of 2: " in review_of_set(in_phases).is_it_right
    held = "one after the other, each 2 hours after the one before it; approved one by one"
    assert review_of_set(in_phases).on_yes.startswith(
        f"{because}: they are published {held}. A rollback of the set undoes all of them."
    )


def test_a_table_without_accepted_rows_has_no_share() -> None:
    new = replace(report(new=3), restated=None)
    for state in (SetState.PENDING, SetState.PUBLISHED):
        assert "of the" not in review_of_set(of_set(state, new)).headline


def test_the_rows_of_each_run_stand_once_on_the_page_of_a_set_and_an_approval_is_advised_after_its_report() -> None:
    found = of_set(SetState.PENDING, report())
    titles = [block.title for block in set_page(found).blocks if isinstance(block, Section)]
    assert titles.count("silver.orders: rows before and after") == 1
    assert "Rows before and after" not in str(set_page(found))
    approve = step(do(Command.APPROVE, "set.1", by="ANOTHER_PERSON"))
    assert str(read_first(approve)) == "report set.1, and then approve set.1 by=ANOTHER_PERSON"
    again = step("to publish the same rows again: ", approve)
    assert read_first(again) == again and read_first(None) is None


def test_after_a_rollback_a_set_still_says_what_had_passed() -> None:
    members = tuple(map(member, (RunState.ROLLED_BACK, RunState.ROLLED_BACK, RunState.PUBLISHED)))
    found = replace(restatement(SetState.ROLLING_BACK), runs=members)
    assert progress_words(found) == "3 runs: 3 staged, 3 passed, 1 published, 2 rolled back"
    published = replace(found, runs=members[2:])
    assert progress_words(published) == "1 run: 1 staged, 1 passed, 1 published"


def test_a_set_that_was_rolled_back_says_who_approved_it_again() -> None:
    undone = replace(restatement(SetState.ROLLED_BACK), approved_by=None)
    assert "DRAFT: its rollback withdrew the approval" in str(set_facts(undone))
    assert "APPROVED by ben" in str(set_facts(replace(undone, approved_by="ben")))


def test_a_cancelled_set_still_says_how_far_its_runs_were() -> None:
    cancelled = [member(RunState.CANCELLED, state) for state in (RunState.PASSED, RunState.BLOCKED, RunState.FAILED)]
    found = replace(restatement(SetState.CANCELLED), runs=tuple(cancelled))
    assert progress_words(found) == "3 runs: 2 staged, 1 passed, 0 published"


def member(state: RunState, reached: RunState | None = None) -> SetMember:
    return SetMember(
        run=summary(state),
        reached=reached or state,
        changed_partitions=None,
        verified_partitions=None,
        outdated=None,
    )


@pytest.mark.parametrize(
    ("states", "means"),
    [
        ((RunState.PASSED, RunState.PASSED), "every blocking gate of its runs passed; nothing is published yet"),
        ((RunState.PASSED, RunState.BLOCKED), "a blocking gate of one of its runs failed; nothing is published"),
        ((RunState.PASSED, RunState.PLANNED), MEANING[SetState.PENDING]),
    ],
)
def test_the_state_of_a_planned_set_says_how_far_its_runs_are(states: tuple[RunState, ...], means: str) -> None:
    assert meaning_of_set(SetState.PENDING, states) == means

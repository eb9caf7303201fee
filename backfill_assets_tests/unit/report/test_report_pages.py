"""Reports as pages: every value is escaped, nothing refers to the network, and ten years of days stay small."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from datetime import date, timedelta
from io import StringIO
from itertools import pairwise

import pytest
from rich.console import Console

from backfill_assets.calendar.partitions import Grain, Partitions, TablePartitions
from backfill_assets.cli.terminal import show
from backfill_assets.core.next_steps import NAME, WHY, Command, decline, do, step, to_undo
from backfill_assets.ledger.findings import BreakdownCell, FailingKey, Finding, GateResult
from backfill_assets.ledger.publications import Extent
from backfill_assets.ledger.records import Action
from backfill_assets.ledger.states import ApprovalState, PublicationState, RunState, SetState
from backfill_assets.planning.kinds.load import Load
from backfill_assets.planning.next_steps import fix_and_plan_again
from backfill_assets.report.code import CodeChange
from backfill_assets.report.documents import as_json
from backfill_assets.report.history import TableHistory, history_page
from backfill_assets.report.html import Html, html_file
from backfill_assets.report.markdown import markdown_page
from backfill_assets.report.measured import (
    MovesOfSome,
    RowDiff,
    moves_of_some,
    outcome_of,
    state_moves,
)
from backfill_assets.report.publications import PublicationDocument, published_page, timeline, timeline_page
from backfill_assets.report.releases import CODE, UnrelatedChange
from backfill_assets.report.report import DependentMoves, Level, SetReport, level_of
from backfill_assets.report.review import review_of, share_of_accepted
from backfill_assets.report.run_report import matrices, run_page, set_page, states_in_words
from backfill_assets.report.runs import RunSummary, SetMember, run_summary_page, set_summary_page
from backfill_assets.report.status import TableStatus
from backfill_assets.report.usual import breakdown_document
from backfill_assets.report.values import text_of
from backfill_assets.report.words.states import MEANING
from backfill_assets_tests.support.desk_reader import with_dates
from backfill_assets_tests.support.ledger_examples import a_manifest, a_run
from backfill_assets_tests.support.report_examples import (
    FIRST,
    HOSTILE,
    NOON,
    an_act,
    days,
    gate,
    moves,
    parts,
    report,
    restatement,
    reviewed,
    summary,
)
from backfill_assets_tests.support.report_page import Page, page


def test_hostile_words_stay_text_on_the_page() -> None:
    text, found = page(report(said=HOSTILE))
    assert [tag for tag, _ in found.elements if tag in ("img", "iframe", "object")] == []
    assert len([tag for tag, _ in found.elements if tag == "script"]) == 1, "its own"
    assert not [name for _, attributes in found.elements for name in attributes if name.startswith("on")]
    assert "<script>alert" not in text
    assert "\u202e" not in text
    assert "{{ 7*7 }}" in found.text, "a value is not a template"


def test_a_page_refers_to_nothing_outside_and_its_policy_forbids_it() -> None:
    text, found = page(report(said=HOSTILE))
    for tag, attributes in found.elements:
        for name in ("src", "href", "action", "data", "xlink:href"):
            address = attributes.get(name)
            assert address in (None, "data:,") or re.fullmatch(r"#part-\d+", address), (tag, name)
    assert "url(" not in text
    assert "@import" not in text
    (policy,) = [a["content"] for _, a in found.elements if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-")


def test_a_plain_page_has_no_address_at_all() -> None:
    text, _ = page(report())
    assert not re.search(r"https?://", text)


def test_hostile_words_stay_text_in_markdown() -> None:
    text = markdown_page(run_page(report(said=HOSTILE)))
    bare = re.sub(r"\\.", "", text)
    assert not re.search(r"[<>\[\]`{}]", bare)
    assert "http://" not in bare
    assert "\u202e" not in text


@pytest.mark.parametrize("count", [1, 92, 3652])
def test_the_page_of_ten_years_of_days_is_below_two_megabytes(count: int) -> None:
    text, found = page(report(count))
    assert len(text.encode()) < 2_000_000
    assert "2006-07" in found.text


def test_a_page_answers_the_reviewers_questions_before_anything_else() -> None:
    _, found = page(report())
    for before, after in pairwise(QUESTIONS):
        assert found.text.index(before) < found.text.index(after)
    assert found.text.index(QUESTIONS[-1]) < found.text.rindex("Totals")


def test_what_moves_comes_before_what_depends_on_it_the_gates_and_the_rows() -> None:
    text, _ = page(report())
    titles = re.findall(r"<h2>([^<]+)</h2>", text)
    assert titles[:5] == ["Verdict", "Totals", "Before and after, by shop", "Dependents", "Gates"]
    assert titles.index("Gates") < titles.index("Rows that move") < titles.index("About this run")


def test_what_depends_on_a_waiting_run_says_how_its_figures_are_seen_first_and_only_while_that_can_be_done() -> None:
    moved = DependentMoves(table="gold.sales", partitions=Partitions(Grain.MONTHLY, (date(2026, 1, 1),)), cells=())
    waiting = replace(report(), dependents=(moved,))
    asked = f"backfill plan with-dependents silver.orders --from {FIRST} --to {days(3)[-1]}"
    assert asked in html.unescape(page(waiting)[0])
    for other in (waiting.run.record.state, RunState.PUBLISHED):
        record = replace(waiting.run.record, state=other, approval=ApprovalState.APPROVED)
        decided = replace(waiting, run=replace(waiting.run, record=record))
        assert "--with-dependents" not in page(decided)[0]


def test_the_contents_name_every_part_of_a_page_once() -> None:
    text, _ = page(report())
    parts = re.findall(r'<section id="(part-\d+)">', text)
    assert parts == re.findall(r'<a href="#(part-\d+)">', text)
    assert len(set(parts)) == len(parts) > 8


def test_a_page_is_named_by_its_table_partitions_and_release_then_by_its_run_and_says_when_it_was_written() -> None:
    named = "silver.orders 2006-07-01..2006-07-03, 3 days, release 2.0.0"
    below = "Run bf-1, written on 2026-01-03 12:00:00 UTC"
    written = html_file(run_page(report(), NOON))
    assert f"<title>{named} \u00b7 {below}</title>" in written
    assert f"{named} {below.replace(',', ' ,')}" in Page(written.partition("</head>")[2]).text
    assert "written on" not in html_file(run_page(report()))


def test_the_page_of_a_set_is_named_by_its_first_runs() -> None:
    found = SetReport(
        set=restatement(SetState.PENDING), level=Level.GOOD, tables=(), reports=tuple(report() for _ in range(5))
    )
    title = text_of(set_page(found).title)
    assert title.count("silver.orders 2006-07-01..2006-07-03, 3 days, release 2.0.0; ") == 3
    assert title.endswith("; and 2 runs more")


def test_a_waiting_run_shows_what_a_no_is_beside_a_yes_and_no_other_run_does() -> None:
    cancel = "backfill cancel bf-1 --by NAME --reason WHY"
    said = f"Yes: backfill approve bf-1 --by ANOTHER_PERSON No: {cancel}"
    assert said in page(report())[1].text
    console = Console(record=True, width=200, file=StringIO())
    show(console, run_page(report()))
    assert console.export_text().count(f"to refuse: {cancel}") == 1
    assert "To refuse: backfill cancel bf-1" in markdown_page(run_page(report()))
    waiting = report().run
    for state, following in (
        (RunState.PUBLISHED, step("to undo it: ", to_undo("bf-1"))),
        (RunState.PLANNED, step(do(Command.RUN, "bf-1"))),
        (RunState.ROLLED_BACK, waiting.next_step),
    ):
        run = replace(waiting, record=replace(waiting.record, state=state), next_step=following)
        assert cancel not in page(replace(report(), run=run))[1].text


def test_what_is_declined_of_a_set_is_the_whole_set() -> None:
    assert decline("set.1", step(do(Command.APPROVE, "bf-1"))) == do(Command.CANCEL, "set.1", by=NAME, reason=WHY)
    assert decline("set.1", step("held until noon; then: ", do(Command.PUBLISH, "bf-1"))) is not None


def test_a_run_that_changes_nothing_says_so_and_asks_for_nothing() -> None:
    equal = tuple(replace(part, moves=moves(0), equal=True) for part in parts(3))
    nothing = replace(
        report(3), partitions=equal, totals=moves(0), restated=moves_of_some(Grain.DAILY, equal), level=Level.GOOD
    )
    review = review_of(nothing)
    assert review.headline == "Nothing would change: all rows of 2006-07-01..2006-07-03, 3 days equal the accepted ones"
    text, _ = page(nothing)
    assert "approve bf-1" not in text
    assert "approve bf-1" in page(report())[0]


QUESTIONS = ["What changes?", "Why?", "By how much?", "Is it right?", "What happens on yes?"]


def test_values_of_rows_stay_out_of_markdown_which_others_keep() -> None:
    text = markdown_page(run_page(report(said="a_value_of_a_row")))
    for title in ("Rows before and after", "Keys of rows that fail"):
        assert title in page(report())[1].text
        assert title not in text


def test_rows_that_failed_the_proof_of_the_window_are_shown_as_staged_and_with_more_input() -> None:
    row = FailingKey(gate="warm_up", partition=FIRST, key={"id": "k1"}, before={"n": "3"}, after={"n": "4"})
    found = replace(report(), failing_keys=(*report().failing_keys, row))
    text = page(found)[1].text
    shown = text.rpartition("Rows that differ where warm_up failed")[2]
    assert "row column as staged with more input k1 n 3 4" in shown
    of_set = SetReport(set=restatement(SetState.PENDING), level=Level.BAD, tables=(), reports=(found, found))
    page_of_set = Page(html_file(set_page(of_set))).text
    table_name = found.run.record.table
    assert f"{table_name}: warm_up failed: rows that differ" in page_of_set
    assert page_of_set.rindex("warm_up failed: rows") < page_of_set.rindex("Runs, in the order of publication")
    assert review_of(found).by_how_much in page_of_set


def test_words_with_a_dash_and_dates_are_kept_whole_and_prose_around_a_command_is_no_code() -> None:
    html_of = Html().value(step("to undo 2006-07-01..2006-07-03: ", to_undo("bf-1")))
    assert html_of == (
        'to undo <span class="whole">2006-07-01..2006-07-03</span>: <code>backfill rollback <span class="word">bf-1'
        '</span> <span class="word">--by</span> NAME <span class="word">--reason</span> WHY</code>'
    )


def test_new_and_restated_days_are_told_apart() -> None:
    _, found = page(report(3, new=1))
    assert "restated: 2006-07-02..2006-07-03, 2 days" in found.text
    assert "new: 2006-07-01, 1 day" in found.text


def test_a_review_warns_of_gates_that_only_inform() -> None:
    found = reviewed(parts(3), gate("wary", 3, (FIRST,), blocking=False, said="too many"))
    review = review_of(found)
    assert level_of(found) is Level.ATTENTION
    assert review.headline == (
        "Every blocking gate passed: waits for an approval; "
        "10.0% of the accepted rows change or disappear, with 1 warning"
    )
    assert review.warnings == ("Gate wary is not met: 2006-07-01: too many.",)


def test_a_review_warns_of_changed_code_under_the_same_version() -> None:
    brought = UnrelatedChange(
        table="silver.orders",
        what=CODE,
        was="1.0.0",
        now="1.0.0",
        partitions=Partitions(Grain.DAILY, (FIRST,)),
    )
    found = replace(reviewed(parts(3), gate("unique_key", 3)), other_code=(brought,))
    assert level_of(found) is Level.ATTENTION
    assert review_of(found).warnings[0].startswith("The code of silver.orders 1.0.0 is not what computed 2006-07-01")


def test_a_gate_that_fails_in_several_partitions_says_in_how_many() -> None:
    found = reviewed(parts(3), gate("unique_key", 1, (FIRST, FIRST + timedelta(days=1)), said="two rows"))
    assert "unique_key (blocks) fails in 2 partitions, the first of them: 2006-07-01: two rows" in (
        review_of(found).is_it_right
    )


def test_a_blocked_run_says_by_what_and_that_nothing_changes() -> None:
    found = reviewed(parts(3), gate("unique_key", 3, (FIRST,), said="two rows"))
    blocked = replace(found, run=summary(RunState.BLOCKED))
    review = review_of(blocked)
    assert level_of(blocked) is Level.BAD
    assert review.headline == "Blocked by unique_key: it cannot be published"
    assert review.on_yes.startswith("It cannot be published")


def test_the_report_of_a_blocked_run_does_not_send_its_reader_to_itself() -> None:
    blocked = summary(RunState.BLOCKED)
    stopped = replace(blocked, next_step=fix_and_plan_again(blocked.record.manifest))
    page = run_page(replace(reviewed(parts(3), gate("unique_key", 3, (FIRST,), said="two rows")), run=stopped))
    said = re.sub("<[^>]*>", "", html_file(page))
    assert "fix the cause and plan again: backfill plan " in said and "; or give it up: " in said
    assert "backfill cancel bf-1" in said and "backfill report bf-1" not in said


@pytest.mark.parametrize(
    ("state", "headline"),
    [
        (
            RunState.PUBLISHED,
            "Published: readers see its rows; 10.0% of the rows accepted before changed or disappeared",
        ),
        (
            RunState.SUPERSEDED,
            "Superseded: a later publication replaced all of its rows; "
            "10.0% of the rows accepted before changed or disappeared",
        ),
        (RunState.ROLLED_BACK, "Rolled back: its publication was undone; the rows before it are back"),
        (RunState.CANCELLED, f"Cancelled: {MEANING[RunState.CANCELLED]}"),
    ],
)
def test_what_readers_have_seen_has_the_share_of_rows_too(state: RunState, headline: str) -> None:
    found = reviewed(parts(3), gate("unique_key", 3))
    assert review_of(replace(found, run=summary(state))).headline == headline
    new_only = replace(found, run=summary(state), restated=None)
    assert review_of(new_only).headline == headline.partition("; 10.0%")[0]


@pytest.mark.parametrize("state", [RunState.PUBLISHED, RunState.SUPERSEDED, RunState.ROLLED_BACK])
def test_the_report_of_a_run_that_was_published_speaks_of_the_past(state: RunState) -> None:
    decided = replace(reviewed(parts(3)), run=summary(state), dependents=report().dependents)
    review = review_of(decided)
    assert "3 changed and 0 disappeared, together 10.0%, and 27 stayed; 0 were added" in review.by_how_much
    depends = "Published and dependent on it: gold.monthly, 2006-07, 1 month."
    assert (depends in review.on_yes) is (state is RunState.PUBLISHED)
    assert "Then the dependents follow" not in review.on_yes
    _, found = page(replace(report(), run=summary(state)))
    assert "What has happened?" in found.text
    assert "What happens on yes?" not in found.text


def test_dependents_without_rows_are_named_and_not_denied() -> None:
    month = TablePartitions(table="gold.monthly", grain=Grain.MONTHLY, partitions=(FIRST,))
    found = replace(reviewed(parts(3)), dependents=(), unpublished=(month,))
    said = "Nothing published depends on it yet; gold.monthly 2006-07, 1 month, follows where its inputs are complete."
    assert review_of(found).on_yes.endswith(said)
    assert "Nothing published yet; without rows so far: gold.monthly 2006-07, 1 month." in page(found)[1].text
    assert review_of(replace(found, unpublished=())).on_yes.endswith("No other table depends on it.")


def test_the_course_of_a_run_says_what_was_done_when_and_not_what_became_of_it() -> None:
    undone = an_act(Action.PUBLISH, PublicationState.ROLLED_BACK, 1)
    undoing = an_act(Action.ROLLBACK, PublicationState.PUBLISHED, 2)
    assert [moment.what for moment in timeline((), [undone, undoing])] == ["published", "rolled back"]
    extent = Extent(first=FIRST, last=FIRST, partition_count=1, rows=1)
    documents = [PublicationDocument(header=each, extent=extent, grain=Grain.MONTHLY) for each in (undone, undoing)]
    drawn = with_dates(html_file(timeline_page(documents, lambda _ref: None, None)))
    assert "published by ben, 1 month swapped, undone later" in drawn
    assert "rolled back by ben, 1 month swapped<" in drawn
    assert drawn.count('class="publish"') - drawn.count('<span class="publish"') == 1
    assert "2006-07, 1 month swapped, 1 row" in drawn
    longer = replace(documents[0], extent=replace(extent, last=date(2006, 9, 1), partition_count=3))
    drawn = html_file(timeline_page([longer], lambda _ref: None, None))
    assert '<span class="whole">2006-07..2006-09</span>, 3 months swapped, 1 row' in drawn, "a range is never broken"
    assert ">table version<" in drawn


def test_the_history_of_a_table_has_what_a_reader_looks_for_first_and_names_the_table_once() -> None:
    made = an_act(Action.PUBLISH, PublicationState.PUBLISHED, 1)
    extent = Extent(first=FIRST, last=FIRST, partition_count=1, rows=1)
    found = TableHistory(
        table=TableStatus(table=made.table, accepted=Partitions(Grain.MONTHLY, ()), accepted_rows=1, path="there"),
        publications=(PublicationDocument(header=made, extent=extent, grain=Grain.MONTHLY),),
    )
    console = Console(file=StringIO(), width=60)
    show(console, history_page(found))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert shown.count(made.table) == 1
    assert [line.strip() for line in shown.splitlines()][-4:] == [
        "at 2026-01-03 13:01:00 UTC",
        "what PUBLISH  partitions 2006-07, 1 month swapped, 1 row",
        "by, and why ben:   table version 1",
        "publication and run pub-1 bf-1",
    ]


def test_a_publication_has_the_time_at_which_readers_saw_it_wherever_it_is_shown() -> None:
    made = an_act(Action.PUBLISH, PublicationState.PUBLISHED, 1)
    begun = replace(made, state=PublicationState.PUBLISHING, finished_at=None)
    document = PublicationDocument(header=made, extent=Extent(first=FIRST, last=FIRST), grain=Grain.MONTHLY)
    for header, time in ((made, "13:01:00"), (begun, "13:00:00")):
        drawn = html_file(timeline_page([replace(document, header=header)], lambda _ref: None, None))
        assert set(re.findall(r"13:0\d:00", drawn)) == {time}
        assert [f"{moment.at:%H:%M:%S}" for moment in timeline((), [header])] == [time]


def test_a_verification_is_no_swap() -> None:
    made = an_act(Action.PUBLISH, PublicationState.PUBLISHED, 1)
    extent = Extent(first=FIRST, last=FIRST, verified_count=1)
    document = PublicationDocument(header=made, extent=extent, grain=Grain.MONTHLY)
    drawn = with_dates(html_file(timeline_page([document], lambda _ref: None, None)))
    assert "2006-07, 1 month verified as equal, nothing swapped" in drawn
    assert "VERIFY" in drawn and "PUBLISH" not in drawn
    assert "published by ben, nothing swapped" in drawn
    console = Console(file=StringIO(), width=100)
    show(console, published_page(document))
    assert "Nothing to publish: its rows equal the accepted ones." in console.file.getvalue()  # type: ignore[attr-defined]


def test_before_the_gates_nothing_is_claimed() -> None:
    found = replace(reviewed(()), totals=None, new=None, restated=None, run=summary(RunState.STAGED))
    review = review_of(found)
    assert level_of(found) is Level.PENDING
    assert (review.by_how_much, review.is_it_right) == ("Not measured yet.", "Not measured yet.")


@pytest.mark.parametrize(
    ("changed", "removed", "accepted", "share"),
    [
        (1, 1, 10, "20.0%"),
        (1, 0, 5_000, "under 0.1%"),
        (4_999, 0, 5_000, "over 99.9%"),
        (0, 0, 5, "0.0%"),
        (5, 0, 5, "100.0%"),
    ],
)
def test_the_share_of_accepted_rows_is_not_rounded_to_none_or_all(
    changed: int, removed: int, accepted: int, share: str
) -> None:
    unchanged = accepted - changed - removed
    found = RowDiff(
        rows=accepted, accepted_rows=accepted, added=9, removed=removed, changed=changed, unchanged=unchanged
    )
    assert share_of_accepted(found) == share


def test_of_no_accepted_rows_there_is_no_share() -> None:
    assert share_of_accepted(RowDiff(rows=3, accepted_rows=0, added=3, removed=0, changed=0, unchanged=0)) is None


def result(day: date, finding: Finding, **observed: object) -> GateResult:
    return GateResult(
        run_id="bf-1",
        partition=day,
        gate="warm_up",
        blocking=True,
        passed=True,
        digest="d",
        finding=finding,
        observed=observed,
    )


def test_what_a_proof_did_not_compare_is_said() -> None:
    again, *rest = days(31)
    shared = [result(day, Finding.SAME_ELSEWHERE) for day in rest]
    assert outcome_of(Grain.DAILY, [result(again, Finding.SAME), *shared]) == (
        "2006-07-01, 1 day: computed again with more input, the same rows; the other 30 days were not computed again"
    )
    assert outcome_of(Grain.DAILY, [result(again, Finding.SAME)]) == (
        "2006-07-01, 1 day: computed again with more input, the same rows"
    )
    assert outcome_of(Grain.DAILY, [result(again, Finding.NOT_ASKED)]) == (
        "nothing was compared: not asked for when the run was planned"
    )
    failed = [replace(result(again, Finding.SAME), passed=False), *shared]
    assert outcome_of(Grain.DAILY, failed) == "1 of 31 days failed"


def test_a_review_says_what_the_proof_compared() -> None:
    proof = replace(gate("warm_up", 3), outcome="2006-07-01, 1 day: computed again with more input, the same rows")
    said = review_of(reviewed(parts(3), gate("unique_key", 3), proof)).is_it_right
    assert "The window (warm_up): 2006-07-01, 1 day: computed again with more input, the same rows." in said


def test_states_before_and_after_are_a_matrix_with_added_and_removed_rows() -> None:
    (matrix,) = matrices(report().state_moves).values()
    assert [column.name for column in matrix.columns[1:]] == ["deadlines", "open", "no row", "all"]
    assert matrix.rows == (
        ("deadlines", "\u00b7", "\u00b7", 1, 1),
        ("open", 54, 7, "\u00b7", 61),
        ("no row", "\u00b7", 2, "\u00b7", 2),
    )
    assert matrix.total == ("all", 54, 9, 1, 64)
    _, found = page(report())
    assert "open 54 7 \u00b7 61 no row \u00b7 2 \u00b7 2 all 54 9 1 64" in found.text


def test_states_in_words_leave_out_rows_that_kept_theirs() -> None:
    moves = report().state_moves
    assert states_in_words(moves, most=2) == (
        "state: open \u2192 deadlines: 54",
        "state: no row \u2192 open: 2",
        "and 1 more",
    )
    assert "state: open \u2192 deadlines: 54" in markdown_page(run_page(report()))


def test_new_partitions_are_no_moves_between_states() -> None:
    found = {"column": "state", "before": None, "after": "open", "rows": 2}
    results = [
        replace(result(day, Finding.COMPARED, state_moves=[found]), gate="compared_with_accepted") for day in days(3)
    ]
    assert [each.rows for each in state_moves(results, {FIRST})] == [4]


def test_some_partitions_are_added_up() -> None:
    found = moves_of_some(Grain.DAILY, parts(3))
    assert isinstance(found, MovesOfSome)
    assert (len(found.partitions), found.moves.changed, found.moves.rows) == (3, 3, 30)
    assert moves_of_some(Grain.DAILY, ()) is None


def test_a_report_says_on_a_terminal_what_a_run_has_cost_and_what_was_expected_in_one_unit() -> None:
    run = report()
    run = replace(run, cost=replace(run.cost, expected=replace(run.cost.spent, core_seconds=3_210.0)))
    console = Console(file=StringIO(), width=100)
    show(console, run_page(run))
    said = "3 core seconds to compute and to measure (3,210 core seconds were expected)"
    assert said in console.file.getvalue()  # type: ignore[attr-defined]
    unstaged = replace(run, cost=replace(run.cost, chunks=0))
    assert "core seconds" not in markdown_page(run_page(unstaged))
    of_set = SetReport(set=restatement(SetState.PENDING), level=Level.GOOD, tables=(), reports=(run, run, unstaged))
    show(console, set_page(of_set))
    said = "6 core seconds to compute and to measure (6,420 core seconds were expected)"
    assert said in console.file.getvalue()  # type: ignore[attr-defined]


def test_the_next_step_of_a_long_report_is_also_its_last_line_on_the_terminal() -> None:
    console = Console(record=True, width=200, file=StringIO())
    show(console, run_page(report(31)))
    lines = console.export_text().splitlines()
    following = "next: backfill approve bf-1 --by ANOTHER_PERSON"
    assert lines.count(following) == 2
    assert lines[-1] == following
    assert lines.index("Verdict") < lines.index(following) < len(lines) - 50


def test_a_run_says_who_declared_which_days_empty() -> None:
    manifest = replace(a_manifest("bf-1", days=days(3), requested_by="ana"), change=Load(declared_empty=tuple(days(2))))
    console = Console(record=True, width=200, file=StringIO())
    show(console, run_summary_page(RunSummary(record=a_run(manifest), next_step=None)))
    assert "2006-07-01..2006-07-02, 2 days: declared empty by ana" in console.export_text()


def test_a_run_and_a_set_that_gates_block_show_what_these_found() -> None:
    manifest = a_manifest("bf-1", days=days(3), requested_by="ana")
    found = gate("totals_fees", 3, (FIRST,), said="1 of 3 rows")
    run = RunSummary(record=a_run(manifest, RunState.BLOCKED), next_step=None, blocked_by=(found,))
    said = f"totals_fees: 1 failed, first {FIRST}: 1 of 3 rows"
    member = SetMember(
        run=run, reached=RunState.BLOCKED, changed_partitions=None, verified_partitions=None, outdated=None
    )
    blocked = replace(restatement(SetState.PENDING), runs=(member,))
    for page_shown, expected in (
        (run_summary_page(run), said),
        (set_summary_page(blocked), f"{manifest.table}, {said}"),
    ):
        console = Console(record=True, width=200, file=StringIO())
        show(console, page_shown)
        assert re.search(rf"blocked by +{re.escape(expected)}", console.export_text())


@pytest.mark.parametrize(("grain", "partition"), [("monthly", "2006-07"), ("daily", "2006-07-01")])
def test_a_month_is_shown_as_a_month_on_the_terminal(grain: str, partition: str) -> None:
    console = Console(record=True, width=200, file=StringIO())
    run = RunSummary(record=a_run(a_manifest("bf-1", days=days(1), grain=Grain(grain))), next_step=None)
    show(console, run_page(replace(report(1), run=run)))
    lines = console.export_text().splitlines()
    assert [line.split()[0] for line in lines if line.split()[1:4] == ["10", "10", "0"]] == [partition]
    assert [line.split()[1] for line in lines if line.startswith("wary") and "deadlines" in line][-1] == partition


def test_a_measure_that_moved_shows_both_values_in_one_cell_and_is_sorted_by_the_new_one() -> None:
    page = html_file(run_page(report()))
    assert (
        '<td class="n" data-column="amount" data-value="9"><span class="whole">7.5 → 9</span><br>'
        '<span class="soft">+1.5, +20.0%</span></td>' in page
    )
    assert '<td class="n" data-column="rows">10</td>' in page


def test_the_report_of_sums_that_are_not_finite_can_be_read_everywhere() -> None:
    kept = [
        BreakdownCell(
            month=date(2006, month, 1),
            is_new=is_new,
            by={"shop": shop},
            before={"rows": "10", "amount": before},
            after={"rows": "10", "amount": after},
            differs=True,
        )
        for is_new in (False, True)
        for month in (7, 8)
        for shop, before, after in [("a", "1", "NaN"), ("b", "Infinity", "-Infinity"), ("c", "-Infinity", "2")]
    ]
    found = replace(report(), breakdown=breakdown_document(kept, None))
    text = with_dates(html_file(run_page(found)))
    assert "1 → NaN<br>" in text
    assert "Infinity → -Infinity<br>" in text
    assert not re.search(r"> *-?(nan|inf)\b|→ -?(nan|inf)\b", text)
    assert markdown_page(run_page(found))
    console = Console(record=True, width=200, file=StringIO())
    show(console, run_page(replace(found, manifest={"target": {"grain": "daily"}})))
    values = json.loads(json.dumps(as_json(found), allow_nan=False))
    assert [each["after"]["amount"] for each in values["breakdown"]["new"][:3]] == ["NaN", "-Infinity", 2]


def test_a_report_of_other_code_has_the_word_of_the_author_or_says_that_there_is_none() -> None:
    change = CodeChange(
        release="2.4.1",
        partitions=Partitions.of(Grain.DAILY, [FIRST]),
        digest="a" * 64,
        difference=None,
        all_lines=do(Command.CODE, "a" * 12, "b" * 12),
    )
    said = "The author wrote no notes."
    found = report(3)
    assert said not in markdown_page(run_page(found))
    assert said in markdown_page(run_page(replace(found, code_changes=(change,))))
    record = found.run.record
    noted = replace(record, manifest=replace(record.manifest, notes="local dates"))
    page = markdown_page(run_page(replace(found, run=replace(found.run, record=noted), code_changes=(change,))))
    assert "local dates" in page and said not in page

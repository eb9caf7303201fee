"""Late and corrected sales propose their own restatement, once, until a person has approved it and readers see it."""

from __future__ import annotations

import getpass
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date, timedelta
from io import StringIO

import pytest
from dagster import DagsterInstance, build_sensor_context
from rich.console import Console
from typer.testing import CliRunner

from backfill_assets.application import propose as application
from backfill_assets.application import statements
from backfill_assets.application.follow import follow
from backfill_assets.application.look import status
from backfill_assets.application.plan import described_set_plan
from backfill_assets.application.propose import step_after_landing
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.cli.terminal import show
from backfill_assets.core.errors import IllegalTransition, NotApproved, Refused
from backfill_assets.domain import days
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.ledger.records import SetRecord
from backfill_assets.ledger.states import RunState, SetState
from backfill_assets.main import app
from backfill_assets.orchestration.resources import SESSION, Session
from backfill_assets.orchestration.sensors import propose_sensor
from backfill_assets.planning.manifest_parts import CauseKind
from backfill_assets.planning.sets import SetManifest
from backfill_assets.report.command_line import words_of
from backfill_assets.report.html import html_file
from backfill_assets.report.markdown import markdown_page
from backfill_assets.report.planned import cost_line
from backfill_assets.report.proposals import NewProposal, ProposeReport, WhyNotProposed, propose_lines
from backfill_assets.report.report import set_report
from backfill_assets.report.run_report import set_page
from backfill_assets.report.runs import run_document, set_document
from backfill_assets.report.status import StatusDocument
from backfill_assets.report.values import text_of
from backfill_assets.staleness.find import stale_tables
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.domains.example import DOMAIN, recent_sales, sales, sales_monthly
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import worded
from backfill_assets_tests.support.month import CARNIVAL, IN_MARCH, REACHED, SOLD, TOTALS, planned_set, set_state, total
from backfill_assets_tests.support.shop import RECENT, SALES, Shop, sale, shop_environment

LATE = (IN_MARCH.date() - CARNIVAL).days
TENTH = date(2026, 2, 10)


@pytest.fixture
def shop(late: Shop) -> Shop:
    return late


def days_of(proposal: NewProposal) -> list[str]:
    return list(map(str, proposal.days))


def one(report: ProposeReport) -> NewProposal:
    (new,) = report.proposed
    return new


def propose(shop: Shop, **how: bool) -> ProposeReport:
    return application.propose(shop.ws, by="propose", **how)


def proposed(shop: Shop) -> str:
    found = one(propose(shop))
    assert found.set_id is not None
    return found.set_id


def record(shop: Shop, set_id: str) -> SetRecord:
    with shop.ws.ledger.read() as reader:
        return reader.sets.get(set_id)


def staged(shop: Shop, set_id: str) -> None:
    for member in record(shop, set_id).manifest.members:
        shop.staged(member.run_id)


def blocked(shop: Shop, set_id: str) -> None:
    """As a gate blocks the first run of a set, whose next step then is to cancel the set."""
    first = record(shop, set_id).manifest.members[0].run_id
    operations.stage(shop.ws, first, actor="ana")
    with shop.ws.ledger.write() as writer:
        writer.runs.take(first, RunState.GATING, actor="ana", attempt="a1")
        writer.runs.move(first, RunState.BLOCKED, actor="ana", attempt="a1")
    first_of_all = "fix the cause and cancel what is not published of the set"
    cancel = f"{first_of_all}: backfill cancel {set_id} --by NAME --reason WHY; then plan again: backfill plan "
    for found in (set_document(shop.ws, set_id), run_document(shop.ws, first)):
        assert found.next_step and cancel in words_of(found.next_step)


def publish(shop: Shop, set_id: str) -> None:
    staged(shop, set_id)
    operations.approve(shop.ws, set_id, by="ben")
    operations.publish_set(shop.ws, set_id, by="ben")


def is_fresh(shop: Shop) -> bool:
    return all(not found.ranges for found in stale_tables(shop.ws))


def one_more(shop: Shop, name: str, day: date, *, by: str = "ana", **how: int) -> None:
    shop.land(f"{name}.jsonl", [sale(day, sale_id=name, **how)], by=by)


@pytest.mark.long
def test_a_late_sale_is_proposed_once_with_the_reason_in_words(shop: Shop) -> None:
    assert worded(step_after_landing(shop.ws, SALES)).startswith("backfill propose plans the restatement")
    found = propose(shop)
    assert one(found).set_id is not None
    assert one(found).reason == (
        f"changed behind published output: late.jsonl (imp-000002, landed by ana on 2026-03-10): "
        f"1 row of {SALES} 2026-02-16, 1 day, {LATE} days late"
    )
    assert list(map(str, one(found).rebuilds)) == [
        f"{RECENT} 2026-02-15..2026-02-18, 4 days",
        f"{TOTALS} 2026-02, 1 month",
    ]
    (file,) = one(found).files
    assert (file.changed.rows, file.least_days_late, file.most_days_late, file.record.landed_by) == (
        1,
        LATE,
        LATE,
        "ana",
    )
    assert one(found).set_id is not None
    manifest = record(shop, one(found).set_id or "").manifest
    assert manifest.proposed is not None and manifest.proposed.imports == ("imp-000002",)
    assert SetManifest.parse(manifest.text) == manifest
    again = propose(shop)
    assert (again.proposed, [each.record.set_id for each in again.open]) == ((), [one(found).set_id])
    assert step_after_landing(shop.ws, SALES) is None
    shown = status(shop.ws, None)
    assert isinstance(shown, StatusDocument)
    assert [(each.record.set_id, each.approved) for each in shown.proposals] == [(one(found).set_id, False)]


@pytest.mark.long
def test_a_proposal_says_what_it_is_expected_to_cost_as_the_plan_of_a_set_does(shop: Shop) -> None:
    found = propose(shop)
    planned = described_set_plan(shop.ws, planned_set(shop))
    assert one(found).cost is not None
    assert one(found).cost == planned.cost
    assert f"  cost: {cost_line(planned.cost, ())}" in list(map(text_of, propose_lines(found)))


@pytest.mark.long
def test_a_draft_whose_input_has_changed_is_not_what_a_status_recommends(shop: Shop) -> None:
    def recommended() -> list[str]:
        shown = status(shop.ws, None)
        assert isinstance(shown, StatusDocument)
        return [worded(each.next_step) for each in shown.sets if each.record.state is SetState.PENDING]

    draft = proposed(shop)
    assert recommended() == [f"backfill run {draft}"]
    one_more(shop, "later", CARNIVAL)
    assert recommended() == ["what it reads or replaces has changed since it was proposed: backfill propose"]
    after = proposed(shop)
    assert (recommended(), set_state(shop, draft)) == ([f"backfill run {after}"], SetState.CANCELLED)


@pytest.mark.long
def test_a_reason_names_no_file_that_was_restated_already(shop: Shop) -> None:
    """The run of February still stands for other days, and has read the sixteenth before the first late sale."""
    publish(shop, proposed(shop))
    one_more(shop, "later", CARNIVAL)
    found = one(propose(shop))
    assert found is not None
    assert [(each.record.import_id, each.changed.rows) for each in found.files] == [("imp-000003", 1)]
    assert "imp-000002" not in found.reason


@pytest.mark.long
def test_a_reason_counts_the_rows_that_files_decide_in_one_line_with_a_table_behind_it(shop: Shop) -> None:
    again = [sale(CARNIVAL), sale(CARNIVAL, sale_id="late", amount=5), sale(CARNIVAL, sale_id="new", amount=1)]
    shop.land("extract.jsonl", again, by="cleo")
    one_more(shop, "wrong", CARNIVAL, amount=7)
    shop.land("right.jsonl", [sale(CARNIVAL, sale_id="wrong", amount=9)], by="ana")
    found = one(propose(shop))
    assert found.set_id is not None
    assert found.reason == (
        f"changed behind published output: 3 rows of {SALES} 2026-02-16, 1 day, decided by 3 files "
        f"(imp-000002, imp-000003, imp-000005; landed by ana, cleo on 2026-03-10), {LATE} days late"
    )
    expected = [("imp-000002", 1), ("imp-000003", 1), ("imp-000005", 1)]
    assert [(each.record.import_id, each.changed.rows) for each in found.files] == expected
    report = set_report(shop.ws, found.set_id)
    assert report.set.changed_by == found.files
    shown = StringIO()
    page_of_set = set_page(report)
    show(Console(file=shown, width=160), page_of_set)
    pages = (html_file(page_of_set), markdown_page(page_of_set), shown.getvalue())
    for page in pages:
        assert all(name in page for name in ("late.jsonl", "extract.jsonl", "right.jsonl"))
        assert "wrong.jsonl" not in page
    publish(shop, found.set_id)
    assert set_report(shop.ws, found.set_id).set.changed_by == found.files, "the reason is what was agreed"


@pytest.mark.long
def test_a_dry_run_decides_the_same_and_writes_nothing(shop: Shop) -> None:
    dry = propose(shop, dry_run=True)
    assert one(dry).set_id is None
    with shop.ws.ledger.read() as reader:
        assert reader.sets.records() == ()
    wet = propose(shop)
    assert (one(dry).reason, one(dry).rebuilds) == (one(wet).reason, one(wet).rebuilds)


def test_a_newer_file_replaces_the_draft_and_the_last_one_is_published(shop: Shop) -> None:
    first = proposed(shop)
    one_more(shop, "later", CARNIVAL + timedelta(days=1), amount=7)
    found = propose(shop)
    second = one(found).set_id or ""
    assert [(each.set_id, second in each.why, "later.jsonl" in each.why) for each in found.replaced] == [
        (first, True, True)
    ]
    ended = record(shop, first)
    assert (ended.state, second in ended.note) == (SetState.CANCELLED, True)
    assert {operations.state_of(shop.ws, m.run_id) for m in ended.manifest.members} == {RunState.CANCELLED}
    assert [each.record.name for each in one(found).files] == ["late.jsonl", "later.jsonl"]
    publish(shop, second)
    assert is_fresh(shop)
    assert total(shop) == 28 * 40 + 4 * (5 + 7)
    nothing = propose(shop)
    assert propose_lines(nothing) == ("nothing to propose: no source has changed behind published output",)
    assert (nothing.proposed, nothing.open, nothing.replaced) == ((), (), ())
    assert audit(shop.ws).problems == ()


@pytest.mark.long
def test_who_has_landed_a_file_cannot_approve_what_it_asks_for(shop: Shop) -> None:
    one_more(shop, "cleo", CARNIVAL, by="cleo")
    set_id = proposed(shop)
    assert record(shop, set_id).manifest.requested_by == "cleo", "who landed the last file asks for it"
    for name in ("ana", "cleo", "Ana"):
        with pytest.raises(NotApproved):
            operations.approve(shop.ws, set_id, by=name)
    operations.approve(shop.ws, set_id, by="ben")


@pytest.mark.long
@pytest.mark.parametrize(
    ("begun", "ends"),
    [
        ("approved", "publish it, or backfill cancel"),
        ("staged", "publish it, or backfill cancel"),
        ("blocked", "backfill cancel"),
    ],
)
def test_a_draft_that_a_person_has_begun_keeps_its_partitions(shop: Shop, begun: str, ends: str) -> None:
    set_id = proposed(shop)
    if begun == "approved":
        operations.approve(shop.ws, set_id, by="ben")
    elif begun == "staged":
        staged(shop, set_id)
    else:
        blocked(shop, set_id)
    kept = propose(shop)
    assert (kept.proposed, kept.replaced) == ((), ())
    assert (kept.waiting[0].why, kept.waiting[0].plan) == (WhyNotProposed.IN_OPEN_PLAN, set_id)
    one_more(shop, "later", CARNIVAL)
    found = propose(shop)
    assert (found.proposed, found.replaced) == ((), ())
    assert (found.waiting[0].why, found.waiting[0].plan) == (WhyNotProposed.BEHIND_OPEN_PLAN, set_id)
    assert found.waiting[0].next_step
    assert words_of(found.waiting[0].next_step).startswith(f"{ends} {set_id}")
    operations.cancel(shop.ws, set_id, by="ben", reason="a later file has come")
    assert record(shop, proposed(shop)).manifest.proposed is not None


@pytest.mark.long
def test_the_rest_is_proposed_beside_what_is_approved(late: Shop) -> None:
    """Without gold, whose month all days of silver share."""
    shop = replace(late, ws=replace(late.ws, domain=replace(DOMAIN, derived=(recent_sales,))))
    first = proposed(shop)
    operations.approve(shop.ws, first, by="ben")
    one_more(shop, "other", TENTH)
    found = propose(shop)
    assert days_of(one(found)) == [f"{SALES} 2026-02-10, 1 day"]
    assert set_state(shop, first) is SetState.PENDING
    assert [str(each.days) for each in found.waiting] == [f"{SALES} 2026-02-16, 1 day"]


def test_what_a_person_planned_for_the_same_days_is_not_proposed_beside_it(shop: Shop) -> None:
    own = planned_set(shop).manifest.set_id
    found = propose(shop)
    assert found.proposed == ()
    assert (found.waiting[0].why, found.waiting[0].plan) == (WhyNotProposed.IN_OPEN_PLAN, own)


@pytest.mark.long
def test_a_draft_ends_when_a_person_has_restated_its_days(shop: Shop) -> None:
    set_id = proposed(shop)
    own = planned_set(shop).manifest.set_id
    found = propose(shop)
    assert [(each.set_id, each.why) for each in found.replaced] == [(set_id, f"its days wait for {own}")]
    publish(shop, own)
    assert is_fresh(shop)
    assert propose(shop).replaced == ()


@pytest.mark.long
def test_what_is_proposed_again_after_a_rollback_names_the_set_that_only_needs_its_approval(shop: Shop) -> None:
    first = proposed(shop)
    publish(shop, first)
    operations.rollback_set(shop.ws, first, by="ben", reason="too early")
    again = propose(shop)
    assert one(again).set_id is not None
    for found in (again, propose(shop)):
        assert [(each.set_id, each.reason) for each in found.rolled_back] == [(first, "too early")]
        (said,) = [said for said in map(text_of, propose_lines(found)) if "rolled back (too early)" in said]
        assert f"backfill approve {first}" in said
    operations.approve(shop.ws, first, by="ben")
    operations.publish_set(shop.ws, first, by="ben")
    assert is_fresh(shop)
    assert propose(shop).rolled_back == ()
    operations.rollback_set(shop.ws, first, by="ben", reason="wrong")
    one_more(shop, "later", CARNIVAL)
    assert propose(shop).rolled_back == (), "other rows have landed since"


def test_a_draft_is_not_replaced_once_it_was_approved_in_between(shop: Shop) -> None:
    set_id = proposed(shop)
    operations.approve(shop.ws, set_id, by="ben")
    with pytest.raises(IllegalTransition, match="approved or staged meanwhile"), shop.ws.ledger.write() as tx:
        tx.requests.replace_draft(set_id, actor="propose", why="a newer file")
    assert set_state(shop, set_id) is SetState.PENDING


# ------------------------------------------------------------------------------------------------------- lateness


def with_lateness(shop: Shop, most: int) -> Shop:
    """The shop whose sales may come some days late, to which ben has agreed with a day of them."""
    ours = replace(sales, lateness=days(most))
    silver = replace(recent_sales, inputs={"sales": ours})
    gold = replace(sales_monthly, inputs={"recent": silver})
    domain = replace(DOMAIN, sources=(ours,), derived=(silver, gold))
    shop = replace(shop, ws=replace(shop.ws, domain=domain))
    with shop.ws.ledger.read() as tx:
        day = min(tx.versions.claims(SALES))
    run = operations.plan_load(shop.ws, SALES, partitions=(day,), by="ana", reason="they come late")
    assert run is not None
    operations.approve(shop.ws, run.run_id, by="ben")
    operations.publish(shop.ws, shop.staged(run.run_id), by="ben")
    return shop


@pytest.mark.long
def test_within_the_lateness_policy_restates_alone(late: Shop) -> None:
    shop = with_lateness(late, LATE)
    found = propose(shop)
    assert (found.proposed, [str(each.days) for each in found.automatic]) == ((), [f"{SALES} 2026-02-16, 1 day"])
    assert worded(step_after_landing(shop.ws, SALES)).startswith(
        "backfill follow restates what came within the lateness"
    )
    done = follow(shop.ws, Acting(by="follow", recorder=Unrecorded())).followed
    assert [(each.table, each.state) for each in done] == [(RECENT, RunState.PUBLISHED), (TOTALS, RunState.PUBLISHED)]
    assert done[0].partitions == tuple(REACHED)
    with shop.ws.ledger.read() as tx:
        assert tx.runs.header(str(done[0].run_id)).because is CauseKind.FOLLOW_UP
    assert is_fresh(shop)
    assert total(shop) == 28 * 40 + 4 * 5
    assert audit(shop.ws).problems == ()


@pytest.mark.long
def test_beyond_the_lateness_a_person_approves_and_nothing_follows(late: Shop) -> None:
    shop = with_lateness(late, LATE - 1)
    set_id = proposed(shop)
    assert follow(shop.ws, Acting(by="follow", recorder=Unrecorded())).followed == ()
    assert (record(shop, set_id).state, total(shop)) == (SetState.PENDING, 28 * 40)


def test_a_planned_follow_up_and_a_draft_are_never_about_the_same_days(late: Shop) -> None:
    shop = with_lateness(late, LATE)
    (run,) = operations.plan_follow_ups(shop.ws, by="ops").runs
    found = propose(shop)
    assert found.proposed == ()
    assert (found.waiting[0].why, found.waiting[0].plan) == (WhyNotProposed.IN_OPEN_PLAN, run.run_id)


@pytest.mark.long
def test_a_day_within_the_lateness_that_meets_an_older_one_is_proposed_with_it(late: Shop) -> None:
    shop = with_lateness(late, LATE)
    one_more(shop, "old", TENTH)
    found = propose(shop)
    assert days_of(one(found)) == [f"{SALES} 2026-02-10, 2026-02-16, 2 days"]
    assert found.automatic == ()
    assert operations.plan_follow_ups(shop.ws, by="ops").runs == ()


def corrected(shop: Shop) -> None:
    shop.land("corrected.jsonl", [sale(CARNIVAL, amount=7)], by="eve")


def moved(shop: Shop) -> None:
    shop.land("moved.jsonl", [sale(CARNIVAL, sale_id=f"sale-{TENTH}")], by="eve")


def withdrawn(shop: Shop) -> None:
    subject = Acting(by="eve", recorder=Unrecorded())
    statements.withdraw(shop.ws, SALES, {"sale_id": f"sale-{CARNIVAL}"}, subject, reason="not mine")


def replaced(shop: Shop) -> None:
    path = shop.folder / "replaced.jsonl"
    path.write_text("", encoding="utf-8")
    stated = statements.complete_extract(
        DayRange.inclusive(CARNIVAL, CARNIVAL), where={}, reason="none", confirmed_by="bea"
    )
    statements.land_as_extract(shop.ws, SALES, [path], stated, Acting(by="eve", recorder=Unrecorded()), builds=True)


def moved_in_part(shop: Shop) -> None:
    """Of a file that moves a key of the sixteenth, the sixteenth alone is built, and then a new sale of it comes."""
    path = shop.folder / "moved.jsonl"
    path.write_text(json.dumps(sale(TENTH, sale_id=f"sale-{CARNIVAL}")) + "\n", encoding="utf-8")
    operations.land(shop.ws, SALES, path, on_duplicate=OnDuplicate.IGNORE, by="eve")
    run = operations.plan_load(shop.ws, SALES, partitions=(CARNIVAL,), by="eve", reason="this day first")
    assert run is not None
    shop.staged(run.run_id)
    operations.publish(shop.ws, run.run_id, by="eve")


@pytest.mark.long
@pytest.mark.parametrize(
    ("act", "days"),
    [
        (corrected, "2026-02-16, 1 day"),
        (moved, "2026-02-10, 2026-02-16, 2 days"),
        (withdrawn, "2026-02-16, 1 day"),
        (replaced, "2026-02-16, 1 day"),
        (moved_in_part, "2026-02-16, 1 day"),
    ],
)
def test_what_changes_a_row_that_was_there_is_proposed_however_recent_its_day(
    late: Shop, act: Callable[[Shop], None], days: str
) -> None:
    shop = with_lateness(late, LATE)
    # Without gold, whose month all days of silver share.
    shop = replace(shop, ws=replace(shop.ws, domain=replace(shop.ws.domain, derived=shop.ws.domain.derived[:1])))
    before = shop.amounts()
    act(shop)
    assert follow(shop.ws, Acting(by="follow", recorder=Unrecorded())).followed == ()
    found = propose(shop)
    assert (days_of(one(found)), found.automatic) == ([f"{SALES} {days}"], ())
    assert shop.amounts() == before


def test_who_lands_an_extract_does_not_confirm_it(late: Shop) -> None:
    path = late.folder / "none.jsonl"
    path.write_text("", encoding="utf-8")
    for name in ("eve", "\u200bEve"):
        stated = statements.complete_extract(SOLD, where={}, reason="none", confirmed_by=name)
        with pytest.raises(Refused, match="eve lands the extract, and another person has to confirm"):
            statements.land_as_extract(
                late.ws, SALES, [path], stated, Acting(by="eve", recorder=Unrecorded()), builds=True
            )


# ------------------------------------------------------------------------------------- the command and the sensor


def test_the_sensor_does_what_the_command_does(shop: Shop) -> None:
    said = []
    with DagsterInstance.ephemeral() as instance:
        for _ in range(2):
            context = build_sensor_context(instance=instance, resources={SESSION: Session(workspace=shop.ws)})
            found = propose_sensor.evaluate_tick(context)
            assert not found.run_requests
            said.append(str(found.skip_message))
    with shop.ws.ledger.read() as reader:
        (planned,) = reader.sets.records()
    assert said[0].startswith(f"proposed {planned.set_id}: changed behind published output: late.jsonl")
    assert f"{planned.set_id} is proposed and not approved" in said[1]
    assert [each.record.set_id for each in propose(shop).open] == [planned.set_id]


def test_the_command_proposes_and_says_so(shop: Shop) -> None:
    environment: Mapping[str, str] = shop_environment(shop.ws.settings.home)

    def answered(*words: str) -> str:
        result = CliRunner().invoke(app, ["propose", *words], env=dict(environment))
        assert result.exit_code == 0, result.output
        return result.stdout

    assert json.loads(answered("--dry-run", "--json"))["proposed"][0]["set_id"] is None
    text = answered()
    assert "proposed set." in text and "next: backfill run set." in text
    with shop.ws.ledger.read() as reader:
        (made,) = reader.sets.records()
        assert made.manifest.requested_by == "ana", "who landed the file"
        assert next(iter(reader.events.entries(entity_id=made.set_id))).actor == getpass.getuser(), (
            "who gave the command"
        )
    document = json.loads(answered("--json"))
    assert (document["proposed"], len(document["open"])) == ([], 1)
    shown = CliRunner().invoke(app, ["status"], env=dict(environment)).stdout
    assert "Proposed restatements that are open" in shown

"""A restatement of two tables: seen together, agreed together, published in order, completed or reversed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from backfill_assets.application.plan import described_plan, plan
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.application.requests import Restatement
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.errors import (
    IllegalTransition,
    NotApproved,
    Refused,
)
from backfill_assets.core.progress import Progress
from backfill_assets.domain import Policy
from backfill_assets.ledger.records import PublicationIntent
from backfill_assets.ledger.states import RunState, SetState
from backfill_assets.planning.impact import WhyLeftOut
from backfill_assets.planning.request import PlanRequest
from backfill_assets.planning.restatement import PlannedSet, SetRequest
from backfill_assets.planning.stages import Agree, Compute, Measure, Prove, Stage, Swap
from backfill_assets.report.runs import progress_words, set_document
from backfill_assets.report.words.plans import alternative_words
from backfill_assets.requests.errors import OnlyPart
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.domains.example import recent_sales, sales_monthly
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import advised, refused, worded
from backfill_assets_tests.support.lakes import folder_at
from backfill_assets_tests.support.month import (
    CARNIVAL,
    FEBRUARY,
    REACHED,
    TOTALS,
    planned_set,
    ready_set,
    set_state,
    total,
)
from backfill_assets_tests.support.shop import RECENT, Shop, sale

WITH_DEPENDENTS = SetRequest(table=RECENT, with_dependents=True, reason="is it right?", by="ana")
ANA = Acting(by="ana", recorder=Unrecorded())


@pytest.fixture
def shop(month: Shop) -> Shop:
    return month


def intents(shop: Shop, set_id: str) -> dict[str, PublicationIntent]:
    with shop.ws.ledger.read() as reader:
        members = reader.sets.get(set_id).manifest.members
        return {m.table: reader.publications.records(run_id=m.run_id)[-1] for m in members}


@pytest.mark.long
def test_a_late_sale_moves_exactly_what_rests_on_it_in_both_tables(late: Shop) -> None:
    planned = planned_set(late)
    assert [(p.manifest.table, p.manifest.partitions) for p in planned.plans] == [
        (RECENT, tuple(REACHED)),
        (TOTALS, (FEBRUARY.start,)),
    ]
    before = late.live_paths()
    set_id = ready_set(late, planned)
    assert late.live_paths() == before, "nothing is visible before the set is published"
    record = operations.publish_set(late.ws, set_id, by="ben")
    assert record.state is SetState.PUBLISHED
    assert late.amounts() == {day: 45 if day in REACHED else 40 for day in FEBRUARY}
    assert total(late) == 28 * 40 + 4 * 5
    versions = operations.set_versions(late.ws, set_id)
    assert versions == {table: late.ws.lake.open(table).version() for table in (RECENT, TOTALS)}
    assert [found.ranges for found in operations.stale_tables(late.ws)] == [(), (), ()]
    assert audit(late.ws).problems == ()


@pytest.mark.long
def test_a_run_and_what_depends_on_it_can_be_seen_together_as_its_plan_says(shop: Shop) -> None:
    days = DayRange.inclusive(CARNIVAL, CARNIVAL + timedelta(days=1))
    asked = PlanRequest(table=RECENT, days=days, reason="is it right?", by="ana")
    (found,) = (each for each in described_plan(shop.ws, plan(shop.ws, asked)).alternatives if each.dependents)
    assert worded(alternative_words(found)) == (
        f"with {TOTALS} 2026-02, 1 month, to measure them before anybody approves: backfill plan table {RECENT} "
        "--with-dependents --from 2026-02-16 --to 2026-02-17 --reason 'is it right?' --by NAME"
    )
    planned = operations.plan_set(shop.ws, replace(WITH_DEPENDENTS, days=days))
    assert isinstance(planned, PlannedSet)
    built = [(each.manifest.table, each.manifest.partitions) for each in planned.plans]
    assert (built, planned.left_out) == ([(RECENT, tuple(days)), (TOTALS, (FEBRUARY.start,))], ())
    assert planned.manifest.because == f"{RECENT}:{days} with its dependents"


def test_named_days_with_what_depends_on_them_are_planned_whole_or_in_the_part_that_was_asked_for(shop: Shop) -> None:
    request = replace(WITH_DEPENDENTS, days=DayRange.inclusive(FEBRUARY.last, FEBRUARY.last + timedelta(days=2)))
    with pytest.raises(OnlyPart, match="2 of 4 partitions asked for can be planned"):
        operations.plan_set(shop.ws, request)
    planned = operations.plan_set(shop.ws, replace(request, partial=True))
    assert isinstance(planned, PlannedSet)
    assert [each.manifest.table for each in planned.plans] == [RECENT, TOTALS]
    (left,) = planned.left_out
    assert (left.table, left.why) == (RECENT, WhyLeftOut.INCOMPLETE)


@pytest.mark.long
def test_the_printed_stages_are_the_executed_ones(late: Shop) -> None:
    """One plan, two readers: what the ledger says was done is what the plan said would be done."""
    planned = planned_set(late)
    set_id = ready_set(late, planned)
    operations.publish_set(late.ws, set_id, by="ben")
    executed = [operations.stages(late.ws, member.run_id) for member in planned.manifest.members]
    for stages in executed:
        assert stages == tuple(stage for stage in planned.stages if stage in stages), "in the printed order"
    assert {stage for stages in executed for stage in stages} == set(planned.stages)
    kinds: list[type[Stage]] = [Compute, Measure, Prove, Compute, Measure, Prove, Agree, Swap, Swap]
    assert [type(stage) for stage in planned.stages] == kinds
    with late.ws.ledger.read() as reader:
        for stage in planned.stages:
            match stage:
                case Compute():
                    (chunk,) = [c for c in reader.candidates.chunks(stage.run_id) if c.number == stage.chunk.number]
                    assert chunk.partitions == stage.chunk.partitions
                case Measure():
                    results = {(r.partition, r.gate) for r in reader.candidates.gate_results(stage.run_id)}
                    assert results == {(p, gate) for p in stage.partitions for gate in stage.gates}
                case Swap():
                    (record,) = reader.publications.records(run_id=stage.run_id)
                    touched = [c.partition for c in record.changes]
                    touched += [v.partition for v in record.verified]
                    assert sorted(touched) == list(stage.partitions)
                case _:
                    pass


@pytest.mark.long
def test_what_did_not_change_is_verified_in_every_table_of_the_set(shop: Shop) -> None:
    shop.land("free.jsonl", [sale(CARNIVAL, amount=0, sale_id="free")])
    planned = planned_set(shop)
    before = (shop.live_paths(), shop.live_paths(TOTALS))
    set_id = ready_set(shop, planned)
    operations.publish_set(shop.ws, set_id, by="ben")
    found = intents(shop, set_id)
    assert [(len(found[t].changes), len(found[t].verified)) for t in (RECENT, TOTALS)] == [(0, 4), (0, 1)]
    assert (shop.live_paths(), shop.live_paths(TOTALS)) == before
    assert [found.ranges for found in operations.stale_tables(shop.ws)] == [(), (), ()]
    assert audit(shop.ws).problems == ()


@pytest.mark.long
def test_everything_stale_is_one_set_and_afterwards_nothing_is(late: Shop) -> None:
    planned = planned_set(late, stale=True)
    assert [p.manifest.table for p in planned.plans] == [RECENT, TOTALS]
    operations.publish_set(late.ws, ready_set(late, planned), by="ben")
    assert [found.ranges for found in operations.stale_tables(late.ws)] == [(), (), ()]
    request = planned.manifest
    assert request.because == "stale tables"


def asked(shop: Shop) -> int:
    """How many partitions of dependents the outbox asks for."""
    return sum(len(each.partitions) for asking in operations.asked_follow_ups(shop.ws) for each in asking.wanted)


@pytest.mark.long
def test_no_follow_up_is_needed_for_what_the_set_builds_itself(late: Shop) -> None:
    set_id = ready_set(late, planned_set(late))
    waiting = asked(late)
    operations.publish_set(late.ws, set_id, by="ben")
    assert asked(late) == waiting


@pytest.mark.long
def test_a_set_is_approved_by_another_person_and_as_a_whole(late: Shop) -> None:
    planned = planned_set(late)
    for member in planned.manifest.members:
        late.staged(member.run_id)
    set_id = planned.manifest.set_id
    with pytest.raises(NotApproved, match=f"^set {set_id} is not approved"):
        operations.publish_set(late.ws, set_id, by="ben")
    with pytest.raises(NotApproved, match=f"^set {set_id} was requested by ana, who cannot approve") as refusal:
        operations.approve(late.ws, set_id, by="Ana ")
    assert advised(refusal.value) == f"let another person approve it: backfill approve {set_id} --by ANOTHER_PERSON"
    assert refusal.value.ids == {"set_id": set_id}
    assert set_state(late, set_id) is SetState.PENDING
    operations.approve(late.ws, set_id, by="ben")
    assert set_document(late.ws, set_id).approved_by == "ben"


@pytest.mark.long
def test_a_set_is_approved_by_a_person_who_may_approve_every_run_of_it(late: Shop) -> None:
    ours = replace(recent_sales, policy=Policy(approvers=("finance",)))
    theirs = replace(sales_monthly, inputs={"recent": ours}, policy=Policy(approvers=("platform",)))
    domain = replace(late.ws.domain, derived=(ours, theirs))
    shop = replace(late, ws=replace(late.ws, domain=domain))
    planned = planned_set(shop)
    (agree,) = [stage for stage in planned.stages if isinstance(stage, Agree)]
    assert agree.demand.groups == (("finance",), ("platform",))
    reference = folder_at(shop.ws.settings.reference) / "approvers.yaml"
    reference.parent.mkdir(parents=True, exist_ok=True)
    reference.write_text('version: "1"\ngroups: {finance: [ben, dora], platform: [cara, dora]}\n', encoding="utf-8")
    set_id = planned.manifest.set_id
    for either in ("ben", "cara"):
        with pytest.raises(NotApproved, match=f"^set {set_id} changes .* and {either} is not a member"):
            operations.approve(shop.ws, set_id, by=either)
    operations.approve(shop.ws, set_id, by="dora")
    assert set_document(shop.ws, set_id).approved_by == "dora"
    for member in planned.manifest.members:
        shop.staged(member.run_id)
    assert worded(set_document(shop.ws, set_id).next_step) == f"backfill publish {set_id} --by NAME"
    reference.write_text('version: "2"\ngroups: {finance: [ben, dora], platform: [cara]}\n', encoding="utf-8")
    with pytest.raises(NotApproved, match=f"^the approval of set {set_id} by dora is not valid: set {set_id} cha"):
        operations.publish_set(shop.ws, set_id, by="ben")
    document = set_document(shop.ws, set_id)
    further = f"the approval by dora is no longer valid: backfill approve {set_id} --by ANOTHER_PERSON"
    assert worded(document.next_step) == further
    assert [worded(member.run.next_step) for member in document.runs] == [further, further]
    with shop.ws.ledger.read() as reader:
        approved = [
            e
            for m in planned.manifest.members
            for e in reader.events.entries(entity_id=m.run_id)
            if e.action == "approved"
        ]
    assert [event.payload["groups"] for event in approved] == [["finance"], ["platform"]]


def test_a_table_cannot_be_published_before_what_it_was_computed_from(late: Shop) -> None:
    planned = planned_set(late)
    set_id = ready_set(late, planned)
    with refused(IllegalTransition, match=f"publish {set_id}|is not published"):
        operations.publish(late.ws, planned.manifest.members[1].run_id, by="ben")
    operations.publish_set(late.ws, set_id, by="ben")


def advice_to_reproduce(shop: Shop, set_id: str) -> str:
    with pytest.raises(Refused, match=f"{set_id} is a set") as refusal:
        Restatement(shop.ws, set_id).reproduce(ANA, sample=None)
    return advised(refusal.value)


@pytest.mark.long
def test_the_runs_of_a_set_are_reproduced_one_by_one(late: Shop) -> None:
    manifest = planned_set(late).manifest
    assert advice_to_reproduce(late, manifest.set_id) == f"backfill status {manifest.set_id}"
    set_id = ready_set(late, planned_set(late))
    record = operations.publish_set(late.ws, set_id, by="ben")
    named = [each.run_id for each in record.manifest.members]
    assert advice_to_reproduce(late, set_id) == "; ".join(f"backfill reproduce {run_id}" for run_id in named)


def test_a_cancelled_set_has_staged_nothing_and_stages_nothing(late: Shop) -> None:
    set_id = planned_set(late).manifest.set_id
    operations.cancel(late.ws, set_id, by="ana", reason="not now")
    assert progress_words(set_document(late.ws, set_id)) == "2 runs: 0 staged, 0 passed, 0 published"
    with pytest.raises(IllegalTransition, match=f"set {set_id} is CANCELLED; it cannot be staged") as refusal:
        Restatement(late.ws, set_id).stage(ANA)
    assert advised(refusal.value) == f"backfill status {set_id}"


def test_a_set_that_is_being_staged_is_waited_for(late: Shop) -> None:
    manifest = planned_set(late).manifest
    run_id, found = manifest.members[0].run_id, list[str]()

    def look(_progress: Progress) -> None:
        found.append(worded(set_document(late.ws, manifest.set_id).next_step))
        with pytest.raises(IllegalTransition, match="STAGING") as refusal:
            operations.publish_set(late.ws, manifest.set_id, by="ben")
        found.append(advised(refusal.value))
        with pytest.raises(IllegalTransition, match="STAGING") as refusal:
            operations.publish(late.ws, run_id, by="ben")
        found.append(advised(refusal.value))

    operations.stage(late.ws, run_id, actor="ana", listener=look)
    wait = f"wait for it; if its process is gone: backfill recover {run_id} --now --by NAME"
    assert set(found[:3]) == {wait}
    with late.ws.ledger.write() as tx:
        tx.runs.take(run_id, RunState.STAGING, actor="ana", attempt="gone", lease=timedelta(seconds=-1))
    assert worded(set_document(late.ws, manifest.set_id).next_step) == f"backfill run {manifest.set_id}"

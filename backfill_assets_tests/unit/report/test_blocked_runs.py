"""Runs that their gates block: what a reviewer is refused, and what they are advised."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.application.requests import Restatement
from backfill_assets.core.errors import IllegalTransition, Refused
from backfill_assets.core.settings import Settings
from backfill_assets.ledger.states import ApprovalState, RunState
from backfill_assets.planning.next_steps import plan_again
from backfill_assets.report.command_line import explained, words_of
from backfill_assets.report.runs import run_document, run_facts
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support import ledger_examples as examples
from backfill_assets_tests.support.advice import worded


@pytest.fixture
def ws(settings: Settings) -> Iterator[Workspace]:
    opened = Workspace.open(replace(settings, domain="backfill_assets_tests.domains.example"))
    yield opened
    opened.close()


TABLE = "silver.recent_sales"


def block(ws: Workspace, run_id: str) -> None:
    examples.plan(ws.ledger, run_id, table=TABLE)
    examples.stage(ws.ledger, run_id)
    results = [replace(each, passed=False) for each in examples.results_for(run_id)]
    with ws.ledger.write() as tx:
        tx.runs.take(run_id, RunState.GATING, actor="runner", attempt="a1")
        tx.candidates.record_gates(run_id, examples.staged(run_id), results, actor="runner", attempt="a1")
        tx.runs.move(run_id, RunState.BLOCKED, actor="runner", attempt="a1", note="blocked by unique")


def approval_of(ws: Workspace, run_id: str) -> ApprovalState:
    with ws.ledger.read() as tx:
        return tx.runs.get(run_id).approval


def test_a_run_that_its_gates_block_cannot_be_approved_and_the_refusal_names_them(ws: Workspace) -> None:
    block(ws, "bf-1")
    with pytest.raises(IllegalTransition) as refusal:
        Restatement(ws, "bf-1").approve(by="Bob", note="fine")
    said = explained(refusal.value)
    assert "run bf-1 is BLOCKED; blocked by unique, so nothing can be published as it is" in said
    assert said.endswith("Next: backfill report bf-1")
    assert approval_of(ws, "bf-1") is ApprovalState.DRAFT


def test_a_run_that_is_approved_before_it_is_measured_says_that_the_approval_is_of_its_plan(ws: Workspace) -> None:
    of_plan = "the plan, not its results, which are not measured yet; publication still waits for the gates"
    examples.plan(ws.ledger, "bf-1", table=TABLE)
    Restatement(ws, "bf-1").approve(by="Bob", note="fine")
    assert approval_of(ws, "bf-1") is ApprovalState.APPROVED
    assert of_plan in str(run_facts(run_document(ws, "bf-1")))


@pytest.mark.parametrize(("is_measured", "said"), [(False, ": the plan, before its results were measured"), (True, "")])
def test_an_approval_that_is_older_than_the_results_says_so_after_they_are_measured(
    ws: Workspace, is_measured: bool, said: str
) -> None:
    examples.make_publishable(ws.ledger, "bf-1", table=TABLE)
    found = run_document(ws, "bf-1")
    measured_at = found.record.updated_at
    approved_at = measured_at + timedelta(seconds=1 if is_measured else -1)
    approved = replace(found, record=replace(found.record, approved_at=approved_at))
    approval = str(dict(run_facts(approved).pairs)["approval"])
    assert "APPROVED by" in approval and said in approval
    assert ("the plan" in approval) is bool(said)


def advice_on(ws: Workspace, run_id: str) -> str | None:
    following = Restatement(ws, run_id).document().next_step
    return words_of(following) if following else None


def test_a_blocked_run_advises_to_plan_again_until_a_later_run_has_published_its_partitions(ws: Workspace) -> None:
    examples.make_publishable(ws.ledger, "bf-1", table=TABLE)
    block(ws, "bf-2")
    plan = worded(plan_again(run_document(ws, "bf-2").record.manifest))
    again = (
        f"backfill report bf-2; then fix the cause and plan again: {plan}; or give it up: "
        "backfill cancel bf-2 --by NAME --reason WHY"
    )
    examples.publish(ws.ledger, "bf-1", table=TABLE)
    assert advice_on(ws, "bf-2") == again
    examples.make_publishable(ws.ledger, "bf-3", table=TABLE, days=examples.DAYS[:1])
    examples.publish(ws.ledger, "bf-3", table=TABLE, days=examples.DAYS[:1], at=2)
    assert advice_on(ws, "bf-2") == again
    examples.make_publishable(ws.ledger, "bf-4", table=TABLE)
    publication_id = examples.publish(ws.ledger, "bf-4", table=TABLE, at=3)
    assert advice_on(ws, "bf-2") is None
    examples.roll_back(ws.ledger, publication_id)
    assert advice_on(ws, "bf-2") == again


@pytest.mark.parametrize("act", ["publish", "roll back"])
def test_what_is_refused_has_said_that_it_is_checked_and_not_that_it_is_done(ws: Workspace, act: str) -> None:
    examples.make_publishable(ws.ledger, "bf-1", table=TABLE)
    told: list[str] = []
    acting = Acting(by="ana", recorder=Unrecorded(), listener=lambda progress: told.append(progress.line))
    run = Restatement(ws, "bf-1")
    with pytest.raises(Refused):
        if act == "publish":
            run.publish(acting)
        else:
            run.rollback(acting, reason="wrong", with_dependents=False)
    (said,) = told
    assert said.startswith("checking ")
    assert said.endswith("before anything is swapped" if act == "publish" else "before anything is restored")

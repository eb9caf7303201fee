"""What the ledger keeps of a run: its manifest, its approvals, its states."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC
from typing import Any

import pytest

from backfill_assets.core.errors import IllegalTransition, NotApproved, Refused, UnknownName
from backfill_assets.ledger.errors import NeedsApproval, UnfitState
from backfill_assets.ledger.states import ApprovalState, RunState, SetState
from backfill_assets.ledger.store import Ledger, LedgerState
from backfill_assets.ledger.views import View
from backfill_assets.planning.manifest_parts import CauseKind, Mode, RunPurpose
from backfill_assets.planning.safeguards import Policy, Safeguard
from backfill_assets.planning.sets import SetMember
from backfill_assets.report.command_line import explained
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.support.advice import advised
from backfill_assets_tests.support.ledger_examples import (
    DAYS,
    TABLE,
    a_manifest,
    disarm,
    gate,
    make_publishable,
    plan,
    publish,
    stage,
    tamper,
)
from backfill_assets_tests.support.report_examples import restatement


def test_a_planned_run_comes_back_as_it_was_agreed(ledger: Ledger) -> None:
    manifest = a_manifest("bf-1", reason='it\'s "wrong"; DROP TABLE runs; -- é')
    with ledger.write() as writer:
        writer.runs.add(manifest, actor="ann")
    with ledger.read() as reader:
        found = reader.runs.get("bf-1")
    assert found.manifest == manifest
    assert found.manifest_digest == manifest.digest
    assert (found.state, found.approval, found.approved_by) == (RunState.PLANNED, ApprovalState.DRAFT, None)
    assert found.updated_at == NOON and found.updated_at.tzinfo is UTC


def test_an_unknown_run_is_named(ledger: Ledger) -> None:
    with ledger.read() as reader, pytest.raises(UnknownName, match="bf-9"):
        reader.runs.get("bf-9")
    with pytest.raises(UnknownName, match="bf-9"), ledger.write() as writer:
        writer.runs.take("bf-9", RunState.STAGING, actor="ann", attempt="a1")


def test_runs_come_newest_first_and_can_be_narrowed(ledger: Ledger) -> None:
    for run_id, table in (("bf-1", TABLE), ("bf-2", "gold.other"), ("bf-3", TABLE)):
        plan(ledger, run_id, table=table)
    stage(ledger, "bf-1")
    with ledger.read() as reader:
        assert [run.run_id for run in reader.runs.records()] == ["bf-3", "bf-2", "bf-1"]
        assert [run.run_id for run in reader.runs.records(limit=1)] == ["bf-3"]
        assert [run.run_id for run in reader.runs.records(table=TABLE)] == ["bf-3", "bf-1"]
        assert [run.run_id for run in reader.runs.records(states=[RunState.STAGED])] == ["bf-1"]
        assert reader.runs.records(states=[]) == ()


def test_runs_are_found_by_who_acted_on_them_whatever_letters_they_are_written_with(
    ledger: Ledger, ledger_url: str
) -> None:
    plan(ledger, "bf-1")
    # PostgreSQL folds the letters that the locale of its database names.
    others = ["émile", "ÉMILE"] if ledger_url.startswith("sqlite") else []
    with ledger.write() as writer:
        writer.runs.add(a_manifest("bf-2", reason="Émile knows"), actor="Émile")
        for typed in ("Émile", *others):
            assert [run.run_id for run in writer.runs.headers(person=typed)] == ["bf-2"]
            assert [run["run_id"] for run in writer.views.matching(View.RUNS, typed, most=2)] == ["bf-2"]


def test_runs_are_chosen_by_what_their_rows_repeat_of_their_manifests(ledger: Ledger) -> None:
    manifest = plan(ledger, "bf-1", days=DAYS[:2])
    plan(ledger, "dry", mode=Mode.DRY_RUN, kind=RunPurpose.BACKFILL, days=DAYS[2:])

    def chosen(**by: Any) -> list[str]:
        return [run.run_id for run in reader.runs.headers(**by)]

    with ledger.read() as reader:
        (dry, run) = reader.runs.headers()
        assert (run.kind, run.mode, run.because) == (manifest.kind, manifest.mode, manifest.cause.kind)
        assert (run.first, run.last, dry.first, dry.last) == (DAYS[0], DAYS[1], DAYS[2], DAYS[2])
        assert (chosen(modes=[Mode.DRY_RUN]), chosen(modes=[Mode.LIVE])) == (["dry"], [])
        assert (chosen(because=CauseKind.PERSON), chosen(because=CauseKind.LIVE)) == (["dry", "bf-1"], [])
        assert (chosen(above=-1), chosen(above=0)) == (["dry", "bf-1"], [])
        assert [chosen(over=[day]) for day in DAYS] == [["bf-1"], ["bf-1"], ["dry"]]


def test_a_plan_meets_the_open_runs_over_its_partitions_and_no_others(ledger: Ledger) -> None:
    first, _, last = days = DAYS[:3]
    plan(ledger, "ends", days=[first, last])
    plan(ledger, "dry", days=days, mode=Mode.DRY_RUN, kind=RunPurpose.BACKFILL)
    plan(ledger, "other", days=days, table="gold.other")
    with ledger.read() as reader:
        met = [LedgerState(reader).open_runs(TABLE, [day]) for day in days]
    assert met == [["ends"], [], ["ends"]]


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE runs SET mode = 'LIVE' WHERE run_id = 'planned'",
        "UPDATE runs SET because = 'FOLLOW_UP' WHERE run_id = 'planned'",
        "UPDATE runs SET last_partition = '2030-01-01' WHERE run_id = 'planned'",
        "UPDATE runs SET priority = 9 WHERE run_id = 'planned'",
        "INSERT INTO run_follows (run_id, publication_id) VALUES ('planned', 'pub-1')",
    ],
)
def test_an_edit_of_what_a_row_repeats_of_a_manifest_shows(ledger: Ledger, ledger_url: str, edit: str) -> None:
    plan(ledger, "planned")
    tamper(ledger_url, edit)
    with ledger.read() as reader:
        [found] = reader.row_checks.violations()
    assert found.startswith(("runs of planned were edited", "run follows of planned were added"))


@pytest.mark.parametrize("missing", ["reason", "requested_by"])
def test_a_manifest_without_reason_or_requester_is_refused(ledger: Ledger, missing: str) -> None:
    blank: dict[str, Any] = {missing: "  "}
    with pytest.raises(Refused, match="empty"), ledger.write() as writer:
        writer.runs.add(replace(a_manifest("bf-1"), **blank), actor="ann")
    with ledger.read() as reader:
        assert reader.runs.records() == ()
        assert list(reader.events.entries()) == []


def test_a_run_id_is_used_once(ledger: Ledger) -> None:
    plan(ledger, "bf-1")
    with pytest.raises(Refused, match="already"), ledger.write() as writer:
        writer.runs.add(a_manifest("bf-1", reason="another one"), actor="ann")


def test_a_text_that_no_database_keeps_is_refused(ledger: Ledger) -> None:
    plan(ledger, "bf-1")
    for text in ("a\x00b", "\udce9"):
        with pytest.raises(Refused, match="not text"), ledger.write() as writer:
            writer.requests.approve("bf-1", by="Bob", note=text)
        with pytest.raises(Refused, match="not text"), ledger.write() as writer:
            writer.events.record(actor=text, entity="test", entity_id="x", action="said")


@pytest.mark.parametrize("approver", ["Ann Lee", " ann lee", "ANN  LEE", "\uff21nn Lee", "", "   ", "policy:auto"])
def test_an_approver_is_not_the_requester_not_empty_and_not_a_policy(ledger: Ledger, approver: str) -> None:
    plan(ledger, "bf-1")
    with pytest.raises(NotApproved), ledger.write() as writer:
        writer.requests.approve("bf-1", by=approver)
    with ledger.read() as reader:
        assert reader.runs.get("bf-1").approval is ApprovalState.DRAFT


def test_an_approval_stands_until_it_is_withdrawn(ledger: Ledger) -> None:
    plan(ledger, "bf-1")
    with ledger.write() as writer:
        writer.requests.approve("bf-1", by="Bob", note="looks right")
    with pytest.raises(IllegalTransition, match="is approved already, by Bob"), ledger.write() as writer:
        writer.requests.approve("bf-1", by="Cleo")
    with ledger.read() as reader:
        found = reader.runs.get("bf-1")
        assert (found.approval, found.approved_by, found.approved_at) == (ApprovalState.APPROVED, "Bob", NOON)
        [told] = [event for event in reader.events.entries(entity_id="bf-1") if event.action == "approved"]
        assert told.payload == {"manifest_digest": found.manifest_digest, "note": "looks right"}
    with ledger.write() as writer:
        writer.requests.withdraw_approval("bf-1", by="Bob", reason="on second thoughts")
    with ledger.read() as reader:
        assert (reader.runs.get("bf-1").approval, reader.runs.get("bf-1").approved_by) == (ApprovalState.DRAFT, None)
    with pytest.raises(IllegalTransition, match="DRAFT"), ledger.write() as writer:
        writer.requests.withdraw_approval("bf-1", by="Bob", reason="again")


def test_an_approval_of_another_digest_is_none(ledger: Ledger, ledger_url: str) -> None:
    plan(ledger, "bf-1")
    with ledger.write() as writer:
        writer.requests.approve("bf-1", by="Bob")
    tamper(ledger_url, "UPDATE approvals SET manifest_digest = :other", other="0" * 64)
    with ledger.read() as reader:
        assert reader.runs.get("bf-1").approval is ApprovalState.DRAFT


def test_a_policy_approves_under_its_own_name(ledger: Ledger) -> None:
    plan(ledger, "bf-1")
    with ledger.write() as writer:
        writer.requests.approve_by_policy("bf-1", policy="live=auto")
    with ledger.read() as reader:
        assert reader.runs.get("bf-1").approved_by == "policy:live=auto"


def test_what_readers_see_is_neither_approved_nor_withdrawn_nor_cleared(ledger: Ledger) -> None:
    make_publishable(ledger, "bf-1")
    publish(ledger, "bf-1")
    with pytest.raises(IllegalTransition, match="PUBLISHED"), ledger.write() as writer:
        writer.requests.approve("bf-1", by="Cleo")
    with pytest.raises(IllegalTransition, match="its approval has been used"), ledger.write() as writer:
        writer.requests.withdraw_approval("bf-1", by="Bob", reason="too late")
    with pytest.raises(IllegalTransition, match="evidence"), ledger.write() as writer:
        writer.candidates.clear("bf-1")


def test_an_illegal_step_says_what_was_expected_what_was_found_and_what_to_type(ledger: Ledger) -> None:
    plan(ledger, "bf-1")
    with pytest.raises(IllegalTransition) as refusal, ledger.write() as writer:
        writer.runs.move("bf-1", RunState.PASSED, actor="ann")
    for part in ("bf-1", "PLANNED", "PASSED", "GATING", "backfill run bf-1"):
        assert part in explained(refusal.value)
    assert refusal.value.ids == {"run_id": "bf-1"}


@pytest.mark.parametrize("state", [RunState.PUBLISHING, RunState.PUBLISHED, RunState.ROLLED_BACK])
def test_only_a_publication_makes_a_run_published(ledger: Ledger, state: RunState) -> None:
    make_publishable(ledger, "bf-1")
    with pytest.raises(IllegalTransition), ledger.write() as writer:
        writer.runs.move("bf-1", state, actor="ann")


def test_a_step_from_a_state_that_is_no_longer_the_present_one_changes_nothing(ledger: Ledger, ledger_url: str) -> None:
    plan(ledger, "bf-1")
    with pytest.raises(IllegalTransition, match="FAILED"), ledger.write() as writer:
        # As if another process had changed the run between the read of its state and the update.
        writer.events._connection.exec_driver_sql("UPDATE runs SET state = 'FAILED'")
        writer.runs._steps.move("bf-1", RunState.PLANNED, RunState.STAGING, actor="ann", note="", payload={})
    with ledger.read() as reader:
        assert reader.runs.get("bf-1").state is RunState.PLANNED


def test_an_exception_undoes_the_whole_transaction(ledger: Ledger) -> None:
    with pytest.raises(ZeroDivisionError), ledger.write() as writer:
        writer.runs.add(a_manifest("bf-1"), actor="ann")
        raise ZeroDivisionError
    with ledger.read() as reader:
        assert reader.runs.records() == ()
        assert reader.events.violations() == ()


def test_a_failed_run_keeps_its_note_and_can_be_staged_again(ledger: Ledger) -> None:
    plan(ledger, "bf-1")
    with ledger.write() as writer:
        writer.runs.take("bf-1", RunState.STAGING, actor="ann", attempt="a1")
        writer.runs.move(
            "bf-1", RunState.FAILED, actor="ann", attempt="a1", note="out of disk", payload={"free_bytes": 0}
        )
    with ledger.read() as reader:
        assert reader.runs.get("bf-1").note == "out of disk"
        *_, last = reader.events.entries(entity_id="bf-1")
        assert last.payload == {"free_bytes": 0, "note": "out of disk"}
    stage(ledger, "bf-1")


def test_a_run_id_without_its_last_character_is_recognized(ledger: Ledger) -> None:
    with ledger.write() as writer:
        for name in ("bf-20260101-aaaa", "bf-20260102-abcd", "bf-20260102-ab_d"):
            writer.runs.add(a_manifest(name), actor="ann")
    with ledger.read() as reader:
        for read in (reader.runs.get, reader.runs.header):
            with pytest.raises(UnknownName) as found:
                read("bf-20260102-abc")
            assert advised(found.value) == "did you mean bf-20260102-abcd? backfill status bf-20260102-abcd"
        for several in ("bf-2026", "bf-20260102-a", "other", ""):
            with pytest.raises(UnknownName) as found:
                reader.runs.get(several)
            assert advised(found.value) == "backfill status"


def test_a_run_is_recognized_by_the_end_or_the_middle_of_its_id(ledger: Ledger) -> None:
    with ledger.write() as writer:
        for name in ("silver_daily-20260101-aaaa", "silver_daily-20260102-ab_d", "silver_other-20260103-abbd"):
            writer.runs.add(a_manifest(name), actor="ann")
    with ledger.read() as reader:
        for part, whole in (("aaaa", "silver_daily-20260101-aaaa"), ("20260103", "silver_other-20260103-abbd")):
            with pytest.raises(UnknownName) as found:
                reader.runs.get(part)
            assert advised(found.value) == f"did you mean {whole}? backfill status {whole}"
        for several in ("daily", "ab_", "b%d"):
            with pytest.raises(UnknownName) as found:
                reader.runs.get(several)
            assert advised(found.value).endswith("status" if several != "ab_" else "silver_daily-20260102-ab_d")


def test_a_run_whose_approval_was_removed_is_damaged_and_not_unknown(ledger: Ledger, ledger_url: str) -> None:
    plan(ledger, "bf-1")
    tamper(ledger_url, "DELETE FROM approvals")
    with ledger.read() as reader:
        for read in (reader.runs.get, reader.runs.header):
            with pytest.raises(IllegalTransition, match="rows of the run bf-1 were removed from the ledger") as found:
                read("bf-1")
            assert advised(found.value) == "backfill audit"


def test_a_set_id_without_its_last_character_is_recognized(ledger: Ledger) -> None:
    alone = restatement(SetState.PENDING).record.manifest
    member = a_manifest("bf-1", request_id=alone.set_id)
    named = SetMember(run_id=member.run_id, table=member.table, manifest_digest=member.digest)
    manifest = replace(alone, members=(named,))
    with ledger.write() as writer:
        writer.runs.add(member, actor="ann")
        writer.sets.add(manifest, actor="ann")
    with ledger.read() as reader, pytest.raises(UnknownName) as found:
        reader.sets.get(manifest.set_id[:-1])
    assert advised(found.value) == f"did you mean {manifest.set_id}? backfill status {manifest.set_id}"
    with ledger.read() as reader, pytest.raises(UnknownName) as found:
        reader.runs.get(manifest.set_id[-8:])
    assert advised(found.value) == f"did you mean {manifest.set_id}? backfill status {manifest.set_id}"


@pytest.mark.parametrize("state", [RunState.FAILED, RunState.BLOCKED])
@pytest.mark.parametrize("of_set", [False, True], ids=["run", "set"])
def test_what_cannot_be_published_as_it_is_cannot_be_approved(ledger: Ledger, state: RunState, of_set: bool) -> None:
    alone = restatement(SetState.PENDING).record.manifest
    set_id = alone.set_id if of_set else None
    runs = {"bf-1": DAYS[0], "bf-2": DAYS[1]}
    manifests = [plan(ledger, name, days=[day], request_id=set_id) for name, day in runs.items()]
    if of_set:
        members = (SetMember(run_id=each.run_id, table=each.table, manifest_digest=each.digest) for each in manifests)
        with ledger.write() as writer:
            writer.sets.add(replace(alone, members=tuple(members)), actor="ana")
    if state is RunState.BLOCKED:
        stage(ledger, "bf-1", DAYS[:1])
    with ledger.write() as writer:
        takes = RunState.GATING if state is RunState.BLOCKED else RunState.STAGING
        writer.runs.take("bf-1", takes, actor="ana", attempt="a")
        writer.runs.move("bf-1", state, actor="ana", attempt="a", note="the rows repeat a key")
    of = f" of set {set_id}" if of_set else ""
    why = f"run bf-1 is {state}; the rows repeat a key, so nothing{of} can be published"
    with ledger.write() as writer, pytest.raises(UnfitState, match=why):
        writer.requests.approve(set_id or "bf-1", by="ben")
    with ledger.read() as reader:
        assert {run.approval for run in reader.runs.headers()} == {ApprovalState.DRAFT}


@pytest.mark.parametrize("loosened", ["policy", "gates"])
def test_the_ledger_itself_publishes_nothing_by_a_policy_that_loosens_what_was_agreed_to(
    ledger: Ledger, loosened: str
) -> None:
    safeguards = (Safeguard(name="gate row_count", least={"at_least": 5.0}),)
    auto, before, after = Policy(backfill="auto"), DAYS[:1], DAYS[1:2]
    plan(ledger, "bf-1", days=before, safeguards=safeguards, policy=Policy() if loosened == "policy" else auto)
    plan(ledger, "bf-2", days=after, safeguards=safeguards if loosened == "policy" else (), policy=auto)
    for run_id, days in (("bf-1", before), ("bf-2", after)):
        stage(ledger, run_id, days)
        gate(ledger, run_id, days)
    with ledger.write() as writer:
        writer.requests.approve("bf-1", by="Bob")
        writer.requests.approve_by_policy("bf-2", policy="backfill")
    publish(ledger, "bf-1", days=before)
    with pytest.raises(NeedsApproval):
        publish(ledger, "bf-2", days=after)


def agreed_together(ledger: Ledger) -> str:
    """A set of one run, `bf-1`."""
    manifest = restatement(SetState.PENDING).record.manifest
    member = plan(ledger, "bf-1", days=DAYS[:1], request_id=manifest.set_id)
    named = SetMember(run_id=member.run_id, table=member.table, manifest_digest=member.digest)
    with ledger.write() as writer:
        writer.sets.add(replace(manifest, members=(named,)), actor="ana")
    return manifest.set_id


def test_a_run_does_not_join_what_was_agreed_to_without_it(ledger: Ledger) -> None:
    set_id = agreed_together(ledger)
    with pytest.raises(Refused, match=f"there is a set {set_id} already, and it never changes"):
        plan(ledger, "bf-2", days=DAYS[1:2], request_id=set_id)
    with ledger.read() as reader:
        assert [run.run_id for run in reader.runs.of_request(set_id)] == ["bf-1"]


def test_a_run_of_a_set_is_not_made_one_of_its_own_in_the_database(ledger: Ledger, ledger_url: str) -> None:
    agreed_together(ledger)
    tamper(ledger_url, "UPDATE runs SET request_id = 'bf-1' WHERE run_id = 'bf-1'")
    with ledger.write() as writer, pytest.raises(IllegalTransition, match="another request than its manifest says"):
        writer.requests.approve("bf-1", by="ben")


def test_a_run_whose_manifest_cannot_be_read_is_cancelled_all_the_same(ledger: Ledger, ledger_url: str) -> None:
    plan(ledger, "bf-1", days=DAYS[:1])
    disarm(ledger_url, "manifests")
    tamper(ledger_url, "UPDATE manifests SET body = '{}' WHERE run_id = 'bf-1'")
    with ledger.write() as writer:
        writer.requests.cancel("bf-1", by="ben", reason="it was edited")
    with ledger.read() as reader:
        assert reader.runs.state("bf-1") is RunState.CANCELLED

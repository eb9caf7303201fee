from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date
from typing import Any

import pytest

from backfill_assets.application.command_line import explained
from backfill_assets.errors import IllegalTransition, NotApproved, Refused, TakenOver, UnknownName
from backfill_assets.ledger.records import CandidatePartition
from backfill_assets.ledger.states import ApprovalState, ChunkState, RunState
from backfill_assets.ledger.store import Ledger
from backfill_assets.ledger.transactions import WriteTransaction
from backfill_assets_tests.advice import advised
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.ledger_examples import (
    DAYS,
    TABLE,
    a_manifest,
    disarm,
    files_of,
    gate,
    make_publishable,
    plan,
    publish,
    results_for,
    stage,
    staged,
    tamper,
)


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
        with pytest.raises(Refused, match="no text"), ledger.write() as writer:
            writer.approvals.approve("bf-1", by="Bob", note=text)
        with pytest.raises(Refused, match="no text"), ledger.write() as writer:
            writer.events.record(actor=text, entity="test", entity_id="x", action="said")


@pytest.mark.parametrize("approver", ["Ann Lee", " ann lee", "ANN  LEE", "\uff21nn Lee", "", "   ", "policy:auto"])
def test_an_approver_is_not_the_requester_not_empty_and_not_a_policy(ledger: Ledger, approver: str) -> None:
    plan(ledger, "bf-1")
    with pytest.raises(NotApproved), ledger.write() as writer:
        writer.approvals.approve("bf-1", by=approver)
    with ledger.read() as reader:
        assert reader.runs.get("bf-1").approval is ApprovalState.DRAFT


def test_an_approval_stands_until_it_is_withdrawn(ledger: Ledger) -> None:
    plan(ledger, "bf-1")
    with ledger.write() as writer:
        writer.approvals.approve("bf-1", by="Bob", note="looks right")
    with pytest.raises(IllegalTransition, match="is approved already, by Bob"), ledger.write() as writer:
        writer.approvals.approve("bf-1", by="Cleo")
    with ledger.read() as reader:
        found = reader.runs.get("bf-1")
        assert (found.approval, found.approved_by, found.approved_at) == (ApprovalState.APPROVED, "Bob", NOON)
        [told] = [event for event in reader.events.entries(entity_id="bf-1") if event.action == "approved"]
        assert told.payload == {"manifest_digest": found.manifest_digest, "note": "looks right"}
    with ledger.write() as writer:
        writer.approvals.withdraw("bf-1", by="Bob", reason="on second thoughts")
    with ledger.read() as reader:
        assert (reader.runs.get("bf-1").approval, reader.runs.get("bf-1").approved_by) == (ApprovalState.DRAFT, None)
    with pytest.raises(IllegalTransition, match="DRAFT"), ledger.write() as writer:
        writer.approvals.withdraw("bf-1", by="Bob", reason="again")


def test_an_approval_of_another_digest_is_none(ledger: Ledger, ledger_url: str) -> None:
    plan(ledger, "bf-1")
    with ledger.write() as writer:
        writer.approvals.approve("bf-1", by="Bob")
    tamper(ledger_url, "UPDATE approvals SET manifest_digest = :other", other="0" * 64)
    with ledger.read() as reader:
        assert reader.runs.get("bf-1").approval is ApprovalState.DRAFT


def test_a_policy_approves_under_its_own_name(ledger: Ledger) -> None:
    plan(ledger, "bf-1")
    with ledger.write() as writer:
        writer.approvals.approve_by_policy("bf-1", policy="live=auto")
    with ledger.read() as reader:
        assert reader.runs.get("bf-1").approved_by == "policy:live=auto"


def test_what_readers_see_is_neither_approved_nor_withdrawn_nor_cleared(ledger: Ledger) -> None:
    make_publishable(ledger, "bf-1")
    publish(ledger, "bf-1")
    with pytest.raises(IllegalTransition, match="PUBLISHED"), ledger.write() as writer:
        writer.approvals.approve("bf-1", by="Cleo")
    with pytest.raises(IllegalTransition, match="its approval has been used"), ledger.write() as writer:
        writer.approvals.withdraw("bf-1", by="Bob", reason="too late")
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
        assert reader.chain_checks.violations() == ()


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


def test_staged_partitions_and_their_gates_come_back_as_recorded(ledger: Ledger) -> None:
    plan(ledger, "bf-1")
    stage(ledger, "bf-1")
    measured = [
        replace(each, checksum=f"sum-{each.partition}", compared_version=0, compared_digest="d" * 64)
        for each in staged("bf-1")
    ]
    with ledger.write() as writer:
        writer.runs.take("bf-1", RunState.GATING, actor="runner", attempt="a2")
        for gates in (("unique", "schema"), ("schema", "unique")):
            results = results_for("bf-1", gates=gates)
            writer.candidates.record_gates("bf-1", measured, results, actor="runner", attempt="a2")
    with ledger.read() as reader:
        assert reader.candidates.of_run("bf-1") == {each.partition: each for each in measured}
        assert list(reader.candidates.gate_results("bf-1")) == results_for("bf-1", gates=("schema", "unique"))
        [chunk] = reader.candidates.chunks("bf-1")
        assert (chunk.state, chunk.partitions, chunk.input_rows, chunk.output_rows) == (ChunkState.DONE, DAYS, 10, 9)


def test_gates_that_measured_other_files_than_the_staged_ones_are_refused(ledger: Ledger) -> None:
    plan(ledger, "bf-1")
    stage(ledger, "bf-1")
    other = [replace(each, files=files_of("bf-1", each.partition, rows=4)) for each in staged("bf-1")]
    other = [replace(each, files=replace(each.files, files=())) for each in other]
    with pytest.raises(Refused, match="not the staged ones"), ledger.write() as writer:
        writer.runs.take("bf-1", RunState.GATING, actor="runner", attempt="a2")
        writer.candidates.record_gates("bf-1", other, [], actor="runner", attempt="a2")


def test_a_chunk_that_is_computed_again_replaces_its_candidates_and_their_results(ledger: Ledger) -> None:
    plan(ledger, "bf-1")
    stage(ledger, "bf-1")
    gate(ledger, "bf-1")
    again = CandidatePartition(run_id="bf-1", partition=DAYS[0], files=files_of("bf-1", DAYS[0], rows=7), rows=7)
    with ledger.write() as writer:
        writer.runs.take("bf-1", RunState.STAGING, actor="ann", attempt="a2")
        writer.candidates.start_chunk("bf-1", 1, DAYS[:1], attempt="a2")
        writer.candidates.finish_chunk(
            "bf-1", 1, input_rows=1, output_rows=7, candidates=[again], attempt="a2", checksum="xx64:1"
        )
    with ledger.read() as reader:
        assert [each.rows for each in reader.candidates.of_run("bf-1").values()] == [7, 3, 3]
        assert {result.partition for result in reader.candidates.gate_results("bf-1")} == set(DAYS[1:])


def test_a_candidate_only_changes_while_its_run_is_being_staged(ledger: Ledger) -> None:
    plan(ledger, "bf-1")
    stage(ledger, "bf-1")
    with pytest.raises(TakenOver, match="STAGED"), ledger.write() as writer:
        writer.candidates.start_chunk("bf-1", 1, DAYS, attempt="a1")
    with pytest.raises(TakenOver, match="STAGED"), ledger.write() as writer:
        writer.candidates.finish_chunk(
            "bf-1", 1, input_rows=0, output_rows=0, candidates=[], attempt="a1", checksum="xx64:1"
        )
    with ledger.write() as writer:
        writer.runs.take("bf-1", RunState.STAGING, actor="ann", attempt="a2")
    with pytest.raises(IllegalTransition, match="GATING"), ledger.write() as writer:
        writer.candidates.record_gates("bf-1", [], [], actor="runner", attempt="a2")
    with pytest.raises(IllegalTransition, match="STAGING"), ledger.write() as writer:
        writer.runs.take("bf-1", RunState.GATING, actor="runner", attempt="a3")


def test_cleared_candidates_are_gone_with_their_chunks_and_gates(ledger: Ledger) -> None:
    make_publishable(ledger, "bf-1")
    with ledger.write() as writer:
        writer.candidates.clear("bf-1")
    with ledger.read() as reader:
        assert (
            reader.candidates.of_run("bf-1"),
            reader.candidates.gate_results("bf-1"),
            reader.candidates.chunks("bf-1"),
        ) == ({}, (), ())


def test_an_edited_manifest_is_not_handed_out(ledger: Ledger, ledger_url: str) -> None:
    plan(ledger, "bf-1")
    disarm(ledger_url, "manifests")
    tamper(ledger_url, "UPDATE manifests SET body = replace(body, 'a day off', 'fine')")
    with ledger.read() as reader, pytest.raises(Refused, match="edited"):
        reader.runs.get("bf-1")


ZOMBIE = "zombie"
"""The attempt of a process that was given up for dead and is not."""


def every_step_of_staging() -> list[Callable[[WriteTransaction], None]]:
    """What the zombie would still do to its run."""
    return [
        lambda w: w.candidates.start_chunk("bf-1", 1, DAYS, attempt=ZOMBIE),
        lambda w: w.candidates.finish_chunk(
            "bf-1", 1, input_rows=0, output_rows=0, candidates=staged("bf-1"), attempt=ZOMBIE, checksum="xx64:9"
        ),
        lambda w: w.runs.move("bf-1", RunState.STAGED, actor="ann", attempt=ZOMBIE),
        lambda w: w.runs.move("bf-1", RunState.FAILED, actor="ann", attempt=ZOMBIE, note="its own reason"),
    ]


@pytest.mark.parametrize("found", ["clear", "running", "done", "gating", "passed", "given up", "cleared"])
@pytest.mark.parametrize("step", range(4))
def test_a_zombie_cannot_touch_the_run_that_another_process_has(ledger: Ledger, found: str, step: int) -> None:
    plan(ledger, "bf-1")
    with ledger.write() as writer:
        writer.runs.take("bf-1", RunState.STAGING, actor="ann", attempt=ZOMBIE)
        writer.candidates.start_chunk("bf-1", 1, DAYS, attempt=ZOMBIE)
    with ledger.write() as writer:
        if found == "given up":
            writer.runs.give_up("bf-1", actor="ops", note="gone")
        elif found in ("clear", "running"):
            writer.runs.take("bf-1", RunState.STAGING, actor="ben", attempt="a2")
            writer.candidates.clear("bf-1")
        if found == "running":
            writer.candidates.start_chunk("bf-1", 1, DAYS, attempt="a2")
    if found in ("done", "gating", "passed", "cleared"):
        stage(ledger, "bf-1")
    if found == "passed":
        gate(ledger, "bf-1")
    if found in ("done", "cleared"):
        with ledger.write() as writer:
            writer.runs.take("bf-1", RunState.STAGING, actor="ben", attempt="a2")
            if found == "cleared":
                writer.candidates.clear("bf-1")
    with ledger.read() as reader:
        before = (
            reader.runs.get("bf-1"),
            reader.candidates.chunks("bf-1"),
            reader.candidates.of_run("bf-1"),
            len(list(reader.events.entries())),
        )
    act = every_step_of_staging()[step]
    with pytest.raises(TakenOver, match="another process") as refusal, ledger.write() as writer:
        act(writer)
    assert advised(refusal.value) == "backfill status bf-1"
    with ledger.read() as reader:
        after = (
            reader.runs.get("bf-1"),
            reader.candidates.chunks("bf-1"),
            reader.candidates.of_run("bf-1"),
            len(list(reader.events.entries())),
        )
    assert after == before


def test_a_chunk_that_is_not_in_the_ledger_any_more_cannot_be_finished(ledger: Ledger) -> None:
    plan(ledger, "bf-1")
    with ledger.write() as writer:
        writer.runs.take("bf-1", RunState.STAGING, actor="ann", attempt="a1")
        writer.candidates.start_chunk("bf-1", 1, DAYS, attempt="a1")
        writer.candidates.clear("bf-1")
    with pytest.raises(TakenOver, match="chunk 1"), ledger.write() as writer:
        writer.candidates.finish_chunk(
            "bf-1", 1, input_rows=0, output_rows=0, candidates=[], attempt="a1", checksum="xx64:1"
        )


def test_of_two_who_gate_a_run_only_the_later_one_records_what_it_found(ledger: Ledger) -> None:
    plan(ledger, "bf-1")
    stage(ledger, "bf-1")
    for process in ("g1", "g2"):
        with ledger.write() as writer:
            writer.runs.take("bf-1", RunState.GATING, actor="ann", attempt=process)
    for to in (RunState.PASSED, RunState.BLOCKED, RunState.FAILED):
        with pytest.raises(TakenOver, match="another process"), ledger.write() as writer:
            writer.runs.move("bf-1", to, actor="ann", attempt="g1")
    with pytest.raises(TakenOver, match="another process"), ledger.write() as writer:
        writer.candidates.record_gates("bf-1", [], [], actor="ann", attempt="g1")
    with ledger.write() as writer:
        writer.candidates.record_gates("bf-1", staged("bf-1"), results_for("bf-1"), actor="ann", attempt="g2")
        writer.runs.move("bf-1", RunState.PASSED, actor="ann", attempt="g2")


def test_staging_ends_when_every_chunk_is_done_and_every_partition_is_there(ledger: Ledger, ledger_url: str) -> None:
    plan(ledger, "bf-1", chunks=(2, 1))

    def end() -> None:
        with ledger.write() as writer:
            writer.runs.move("bf-1", RunState.STAGED, actor="ann", attempt="a1")

    def finish(number: int, days: tuple[date, ...]) -> None:
        with ledger.write() as writer:
            writer.candidates.start_chunk("bf-1", number, days, attempt="a1")
            writer.candidates.finish_chunk(
                "bf-1", number, input_rows=1, output_rows=1, candidates=staged("bf-1", days), attempt="a1", checksum="x"
            )

    with ledger.write() as writer:
        writer.runs.take("bf-1", RunState.STAGING, actor="ann", attempt="a1")
    with pytest.raises(IllegalTransition, match="chunks 1, 2 of 2 are not finished"):
        end()
    finish(1, DAYS[:1])
    finish(2, DAYS[2:])
    with pytest.raises(IllegalTransition, match="chunk 1 of 2 is not finished"):
        end()
    finish(1, DAYS[:2])
    with ledger.write() as writer:
        writer.candidates.start_chunk("bf-1", 2, DAYS[2:], attempt="a1")
    with pytest.raises(IllegalTransition, match="chunk 2 of 2 is not finished"):
        end()
    finish(2, DAYS[2:])
    tamper(ledger_url, f"DELETE FROM candidate_partitions WHERE partition_date = '{DAYS[1]}'")
    with pytest.raises(IllegalTransition, match=f"nothing is staged for {DAYS[1]}"):
        end()
    finish(1, DAYS[:2])
    end()


def test_the_rows_staged_so_far_are_summed_by_the_ledger(ledger: Ledger) -> None:
    plan(ledger, "bf-1")
    with ledger.read() as reader:
        assert reader.candidates.row_count("bf-1") == 0
    stage(ledger, "bf-1")
    with ledger.read() as reader:
        assert reader.candidates.row_count("bf-1") == 9

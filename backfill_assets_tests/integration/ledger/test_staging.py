"""What the ledger keeps while a run is staged and gated, and who may still change it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta

import pytest

from backfill_assets.core.errors import AtWork, IllegalTransition, Refused, TakenOver
from backfill_assets.ledger.records import CandidatePartition
from backfill_assets.ledger.states import ChunkState, RunState
from backfill_assets.ledger.store import Ledger
from backfill_assets.ledger.transactions import WriteTransaction
from backfill_assets_tests.support.advice import advised
from backfill_assets_tests.support.ledger_examples import (
    DAYS,
    disarm,
    files_of,
    gate,
    make_publishable,
    plan,
    publication_of,
    results_for,
    stage,
    staged,
    tamper,
)


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


@pytest.mark.parametrize("to", [RunState.STAGING, RunState.GATING])
def test_a_run_that_is_being_published_is_neither_staged_nor_gated_nor_given_up(ledger: Ledger, to: RunState) -> None:
    make_publishable(ledger, "bf-1")
    with ledger.write() as writer:
        writer.publications.begin(publication_of(writer, "bf-1"), actor="ben")
    with pytest.raises(IllegalTransition, match="PUBLISHING"), ledger.write() as writer:
        writer.runs.take("bf-1", to, actor="ann", attempt="a3")
    with pytest.raises(IllegalTransition, match="PUBLISHING"), ledger.write() as writer:
        writer.runs.give_up("bf-1", actor="ann", note="is gone")


def test_a_run_with_a_lease_is_left_to_its_process_unless_a_person_takes_it_away_now(ledger: Ledger) -> None:
    plan(ledger, "bf-1")
    with ledger.write() as writer:
        writer.runs.take("bf-1", RunState.STAGING, actor="ann", attempt="a1", lease=timedelta(minutes=2))
    with pytest.raises(AtWork), ledger.write() as writer:
        writer.runs.take("bf-1", RunState.STAGING, actor="ben", attempt="a2")
    with pytest.raises(AtWork), ledger.write() as writer:
        writer.runs.give_up("bf-1", actor="ben", note="is gone")
    with ledger.write() as writer:
        writer.runs.give_up("bf-1", actor="ben", note="is gone", now=True)
    with ledger.read() as reader:
        assert reader.runs.get("bf-1").state is RunState.FAILED
        *_, taken = reader.events.entries()
        assert taken.payload["taken_from"].startswith("ann (")


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


@pytest.mark.long
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

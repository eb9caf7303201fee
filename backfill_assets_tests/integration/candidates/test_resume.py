"""A run that stops goes on where it was: at its first unfinished chunk, in another process, with the same rows."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal

import pytest

from backfill_assets.application.requests import Restatement
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.errors import ContractBroken, IllegalTransition, TakenOver
from backfill_assets.core.progress import Listener, Progress
from backfill_assets.core.settings import Settings
from backfill_assets.core.tariff import ProcessorClock
from backfill_assets.lake.checksums import joined
from backfill_assets.ledger.candidates import CandidateReads
from backfill_assets.ledger.states import ChunkState, RunState
from backfill_assets.planning.request import AskedLimits, PlanRequest
from backfill_assets.report.command_line import words_of
from backfill_assets.report.report import run_report
from backfill_assets.report.runs import run_document
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.integration.conftest import ONE_HOUR
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.lakes import folder_of
from backfill_assets_tests.support.month import FEBRUARY
from backfill_assets_tests.support.shop import OUTPUT, RECENT, Shop, shop_environment

SIX = DayRange(FEBRUARY.start, FEBRUARY.start + timedelta(days=6))
ONE_BY_ONE = AskedLimits(chunk_partitions=1)

STAGER = """
    from backfill_assets_tests.support import operations
    from backfill_assets.core.clock import system_clock
    from backfill_assets.core.settings import Settings
    from backfill_assets.workspace import Workspace

    ws = Workspace.open(Settings.from_environment(), clock=system_clock)
    operations.stage(ws, {run_id!r}, actor="ana")
"""


def planned(shop: Shop, days: DayRange, limits: AskedLimits, *, version: str | None = None) -> str:
    request = PlanRequest(
        table=RECENT, days=days, reason="in parts", by="ana", limits=limits, transform_version=version
    )
    return operations.plan(shop.ws, request).manifest.run_id


def finished(shop: Shop, run_id: str) -> list[int]:
    with shop.ws.ledger.read() as reader:
        return [chunk.number for chunk in reader.candidates.chunks(run_id) if chunk.state is ChunkState.DONE]


def times(shop: Shop, run_id: str, action: str) -> Mapping[int, int]:
    """How often something happened to each chunk."""
    with shop.ws.ledger.read() as reader:
        events = list(reader.events.entries(entity_id=run_id))
    return Counter(event.payload["number"] for event in events if event.action == action)


def killed_in_the_middle(shop: Shop, run_id: str, *, after: int) -> None:
    """Stages the run in a process of its own, and kills that from outside once so many chunks are finished."""
    script = textwrap.dedent(STAGER).format(run_id=run_id)
    environment = {**os.environ, **shop_environment(shop.ws.settings.home)}
    process = subprocess.Popen([sys.executable, "-c", script], env=environment, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 300
    while len(finished(shop, run_id)) < after:
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < until
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


@pytest.mark.long
def test_a_run_of_six_chunks_killed_twice_is_resumed_with_equal_checksums_and_no_chunk_done_twice(
    month: Shop,
) -> None:
    clean = month.staged(planned(month, SIX, ONE_BY_ONE))
    run_id = planned(month, SIX, ONE_BY_ONE)
    killed_in_the_middle(month, run_id, after=2)
    operations.recover(month.ws, by="ops", only=run_id, now=True)
    killed_in_the_middle(month, run_id, after=4)
    (found,) = operations.recover(month.ws, by="ops", only=run_id, now=True)
    assert found.id == run_id
    month.staged(run_id)
    with month.ws.ledger.read() as reader:
        one, other = reader.candidates.of_run(clean), reader.candidates.of_run(run_id)
        chunks = reader.candidates.chunks(run_id)
    assert len(one) == 6
    assert {p: c.checksum for p, c in one.items()} == {p: c.checksum for p, c in other.items()}
    staged = [other[p].checksum for p in sorted(other)]
    assert [c.seam_checksum for c in chunks] == [
        joined((*staged[max(0, place - 3) : place], *staged[place + 1 : place + 4])) for place in range(6)
    ], "each proves three neighbours on either side"
    assert times(month, run_id, "chunk_finished") == dict.fromkeys(range(1, 7), 1)
    assert all(c.finished_at and c.finished_at >= c.started_at and c.output_rows == 1 for c in chunks)


def test_a_run_that_stopped_between_chunks_is_resumed_with_the_checksums_of_one_that_did_not(shop: Shop) -> None:
    def stop() -> None:
        raise Gone

    clean, run_id = planned(shop, OUTPUT, AskedLimits()), planned(shop, OUTPUT, AskedLimits(chunk_partitions=4))
    operations.stage(shop.ws, clean, actor="ana")
    with pytest.raises(Gone):
        operations.stage(shop.ws, run_id, actor="ana", listener=at_the("chunk 2 of 2: ", stop))
    assert finished(shop, run_id) == [1]
    operations.stage(later(shop).ws, run_id, actor="ana")
    assert times(shop, run_id, "chunk_finished") == {1: 1, 2: 1}
    with shop.ws.ledger.read() as reader:
        one, other = reader.candidates.of_run(clean), reader.candidates.of_run(run_id)
    assert {day: found.checksum for day, found in one.items()} == {day: found.checksum for day, found in other.items()}
    assert other.keys() == set(OUTPUT)


@pytest.mark.long
def test_only_the_chunk_whose_staged_file_is_damaged_is_computed_again(shop: Shop) -> None:
    run_id = shop.staged(planned(shop, OUTPUT, AskedLimits(chunk_partitions=2)))
    with shop.ws.ledger.read() as reader:
        (file,) = reader.candidates.of_run(run_id)[date(2026, 1, 6)].files.files
    path = folder_of(shop.ws.lake, RECENT) / file.path
    path.write_bytes(path.read_bytes()[:-1])
    shop.staged(run_id)
    assert times(shop, run_id, "chunk_finished") == {1: 1, 2: 2, 3: 1, 4: 1}
    assert operations.state_of(shop.ws, run_id) is RunState.PASSED


def test_who_was_given_up_for_dead_cannot_finish_a_chunk_that_another_process_took_over(shop: Shop) -> None:
    run_id = planned(shop, OUTPUT, ONE_BY_ONE)
    first = [OUTPUT.start]
    with shop.ws.ledger.write() as writer:
        writer.runs.take(run_id, RunState.STAGING, actor="ana", attempt="sleeper")
        writer.candidates.start_chunk(run_id, 1, first, attempt="sleeper")
    with shop.ws.ledger.write() as writer:
        writer.runs.take(run_id, RunState.STAGING, actor="ben", attempt="successor")
        writer.candidates.start_chunk(run_id, 1, first, attempt="successor")
    with pytest.raises(TakenOver, match="another process"), shop.ws.ledger.write() as writer:
        writer.candidates.finish_chunk(
            run_id, 1, attempt="sleeper", checksum="x", input_rows=0, output_rows=0, candidates=()
        )
    with shop.ws.ledger.write() as writer:
        writer.candidates.finish_chunk(
            run_id, 1, attempt="successor", checksum="y", input_rows=0, output_rows=0, candidates=()
        )
    assert finished(shop, run_id) == [1]


def test_more_rows_than_the_manifest_expects_stop_the_run_at_the_chunk_that_brings_them(shop: Shop) -> None:
    run_id = planned(shop, OUTPUT, AskedLimits(chunk_partitions=2, max_rows=3))
    with pytest.raises(ContractBroken, match="staged 4 rows where its manifest allows 3"):
        operations.stage(shop.ws, run_id, actor="ana")
    assert finished(shop, run_id) == [1, 2]
    assert operations.state_of(shop.ws, run_id) is RunState.FAILED
    again = f"backfill report {run_id}; then find out why it needs more and plan again with a larger limit: "
    following = run_document(shop.ws, run_id).next_step
    assert following is not None and words_of(following).startswith(again)
    for act in (
        lambda: Restatement(shop.ws, run_id).approve(by="ben", note=""),
        lambda: operations.publish(shop.ws, run_id, by="ben"),
    ):
        with pytest.raises(IllegalTransition, match="FAILED because of its limit"):
            act()
    with pytest.raises(ContractBroken, match="staged 4 rows where its manifest allows 3"):
        operations.stage(shop.ws, run_id, actor="ana")
    assert times(shop, run_id, "chunk_started") == {1: 1, 2: 1}, "nothing was computed before it was refused again"


@pytest.mark.long
def test_staging_waits_as_long_as_the_manifest_asks(shop: Shop) -> None:
    """Two rows per chunk at four rows a minute are 30 s from one chunk to the next; computing takes none of it."""
    now, waits = [NOON + 2 * ONE_HOUR], list[float]()

    def clock() -> datetime:
        return now[0]

    def wait(seconds: float) -> None:
        waits.append(seconds)
        now[0] += timedelta(seconds=seconds)

    ws = replace(shop.ws, clock=clock, wait=wait)
    paced = planned(shop, OUTPUT, AskedLimits(chunk_partitions=2, rows_per_minute=4))
    operations.stage(ws, paced, actor="ana")
    assert waits == [30, 30, 30]
    waits.clear()
    pausing = planned(shop, OUTPUT, AskedLimits(chunk_partitions=3, pause_s=7))
    operations.stage(ws, pausing, actor="ana")
    assert waits == [7, 7]


def later(shop: Shop) -> Shop:
    """The shop to a process an hour later, when every lease that was not renewed has ended."""
    return replace(shop, ws=replace(shop.ws, clock=lambda: shop.ws.clock() + ONE_HOUR))


def at_the(sentence: str | tuple[str, ...], act: Callable[[], None]) -> Listener:
    """What happens while a process sleeps: it acts once, when progress begins like this."""
    waiting = [act]

    def listen(progress: Progress) -> None:
        if waiting and progress.line.startswith(sentence):
            waiting.pop()()

    return listen


class Gone(BaseException):
    """Ends a process in the middle, as SIGKILL would: nothing that handles errors handles it."""


def stages_and_gates(shop: Shop, run_id: str) -> None:
    later(shop).staged(run_id)


def stages(shop: Shop, run_id: str) -> None:
    operations.stage(later(shop).ws, run_id, actor="ben")


def stages_half(shop: Shop, run_id: str) -> None:
    def die() -> None:
        raise Gone

    with pytest.raises(Gone):
        operations.stage(
            later(shop).ws, run_id, actor="ben", listener=at_the(("chunk 3 of 4: ", "4 chunks of 4 staged before"), die)
        )


def recovers(shop: Shop, run_id: str) -> None:
    (found,) = operations.recover(later(shop).ws, by="ops")
    assert found.id == run_id


@pytest.mark.parametrize(
    ("others", "left"),
    [
        (stages_and_gates, RunState.PASSED),
        (stages, RunState.STAGED),
        (stages_half, RunState.STAGING),
        (recovers, RunState.FAILED),
    ],
)
@pytest.mark.parametrize("wakes_up", ["chunk 2 of 4: ", "chunk 4 of 4 is staged"])
def test_a_process_that_was_given_up_changes_nothing_when_it_wakes_up(
    shop: Shop, others: Callable[[Shop, str], None], left: RunState, wakes_up: str
) -> None:
    run_id = planned(shop, OUTPUT, AskedLimits(chunk_partitions=2))
    seen: list[object] = []

    def everything() -> object:
        with shop.ws.ledger.read() as reader:
            return (
                reader.runs.get(run_id),
                reader.candidates.chunks(run_id),
                reader.candidates.of_run(run_id),
                reader.candidates.gate_results(run_id),
            )

    def meanwhile() -> None:
        others(shop, run_id)
        seen.append(everything())

    with pytest.raises(TakenOver, match="another process"):
        operations.stage(shop.ws, run_id, actor="ana", listener=at_the(wakes_up, meanwhile))
    assert everything() == seen[0], "what the other process left is as it left it"
    assert operations.state_of(shop.ws, run_id) is left
    if left is not RunState.PASSED:
        later(later(shop)).staged(run_id)
    with shop.ws.ledger.read() as reader:
        candidates, chunks = reader.candidates.of_run(run_id), reader.candidates.chunks(run_id)
    assert {p: c.rows for p, c in candidates.items()} == dict.fromkeys(OUTPUT, 1)
    for chunk in chunks:
        folder = f"{chunk.number:04d}-{chunk.attempt}/"
        assert all(folder in file.path for p in chunk.partitions for file in candidates[p].files.files)


@pytest.mark.parametrize("others", [stages_and_gates, stages, stages_half])
def test_who_lost_a_run_and_fails_does_not_fail_it_for_the_one_that_has_it(
    shop: Shop, others: Callable[[Shop, str], None]
) -> None:
    run_id = planned(shop, OUTPUT, AskedLimits(chunk_partitions=2))
    states: list[RunState] = []

    def meanwhile() -> None:
        others(shop, run_id)
        states.append(operations.state_of(shop.ws, run_id))
        raise ContractBroken("the disk is full.")

    with pytest.raises(TakenOver, match="This one had stopped: the disk is full") as refusal:
        operations.stage(shop.ws, run_id, actor="ana", listener=at_the("chunk 2 of 4: ", meanwhile))
    assert isinstance(refusal.value.__cause__, ContractBroken)
    assert [operations.state_of(shop.ws, run_id)] == states


def gates(shop: Shop, run_id: str) -> None:
    operations.gate(later(shop).ws, run_id, actor="ben")


@pytest.mark.long
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize(
    ("others", "left"),
    [
        (gates, RunState.PASSED),
        (stages_and_gates, RunState.PASSED),
        (stages_half, RunState.STAGING),
        (recovers, RunState.FAILED),
    ],
)
def test_of_two_processes_that_gate_a_run_the_earlier_one_is_refused(
    shop: Shop, others: Callable[[Shop, str], None], left: RunState, fails: bool
) -> None:
    run_id = planned(shop, OUTPUT, AskedLimits(chunk_partitions=2))
    operations.stage(shop.ws, run_id, actor="ana")

    def meanwhile() -> None:
        others(shop, run_id)
        if fails:
            raise ContractBroken("the disk is full.")

    with pytest.raises(TakenOver, match="another process"):
        operations.gate(shop.ws, run_id, actor="ana", listener=at_the("measuring", meanwhile))
    assert operations.state_of(shop.ws, run_id) is left
    later(later(shop)).staged(run_id)
    assert operations.state_of(shop.ws, run_id) is RunState.PASSED


@dataclass(frozen=True, kw_only=True)
class Worked(ProcessorClock):
    """Of processors that have worked for so long, however long it took."""

    worked_s: float

    def core_seconds(self) -> float:
        return self.worked_s


@pytest.mark.long
@pytest.mark.parametrize(("worked_s", "stops"), [(20.0, True), (1.0, False)])
def test_a_run_that_costs_more_than_its_requester_allows_stops_before_its_next_chunk_and_never_for_waiting(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, worked_s: float, stops: bool
) -> None:
    """Each look at the clock is 20 s later: a chunk waits that long at least. The limit is 30 s of one core."""
    shop.staged(shop.planned())
    now = [NOON + 3 * ONE_HOUR]

    def clock() -> datetime:
        now[0] += timedelta(seconds=20)
        return now[0]

    def worked(_settings: Settings) -> Worked:
        return Worked(roots=(), cores=1, worked_s=worked_s)

    monkeypatch.setattr("backfill_assets.candidates.stage.processor_clock", worked)
    ws = replace(shop.ws, clock=clock)
    request = PlanRequest(table=RECENT, days=OUTPUT, reason="cheap", by="ana", limits=ONE_BY_ONE, max_cost=Decimal(30))
    manifest = operations.plan(ws, request).manifest
    assert manifest.limits.max_cost == ws.settings.tariff.spent(30)
    if not stops:
        operations.stage(ws, manifest.run_id, actor="ana")
        assert run_report(ws, manifest.run_id).cost.spent.core_seconds == len(OUTPUT)
        return
    with pytest.raises(ContractBroken, match=r"has cost 40\.0 core seconds where its manifest allows 30\.0"):
        operations.stage(ws, manifest.run_id, actor="ana")
    assert len(finished(shop, manifest.run_id)) == 2
    assert operations.state_of(shop.ws, manifest.run_id) is RunState.FAILED
    computed = times(shop, manifest.run_id, "chunk_started")
    with pytest.raises(ContractBroken, match="core seconds where its manifest allows"):
        operations.stage(ws, manifest.run_id, actor="ana")
    assert times(shop, manifest.run_id, "chunk_started") == computed, "nothing was computed before it was refused again"


@pytest.mark.long
def test_a_report_says_what_a_run_was_expected_to_take_and_took(shop: Shop) -> None:
    first, second = shop.staged(shop.planned()), shop.planned(reason="again")
    shop.staged(second)
    of_first, of_second = (run_report(shop.ws, run_id).cost for run_id in (first, second))
    assert of_first.gating_seconds is not None and of_second.spent.core_seconds > 0
    assert of_first.expected is None and of_second.expected is not None
    assert of_second.expected.core_seconds == pytest.approx(of_first.spent.core_seconds, abs=0.4)


def test_a_run_that_is_being_staged_cannot_be_gated(shop: Shop) -> None:
    run_id = planned(shop, OUTPUT, AskedLimits(chunk_partitions=2))
    with pytest.raises(IllegalTransition, match="STAGING"):
        operations.stage(shop.ws, run_id, actor="ana", listener=at_the("chunk 3 of 4: ", lambda: gates(shop, run_id)))


@pytest.mark.long
@pytest.mark.parametrize(("most", "asked"), [(None, 0), (100, 5)])
def test_the_rows_staged_so_far_are_only_counted_where_the_manifest_limits_them(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, most: int | None, asked: int
) -> None:
    run_id = planned(shop, OUTPUT, AskedLimits(chunk_partitions=2, max_rows=most))
    counted: list[str] = []
    count = CandidateReads.row_count

    def counting(candidates: CandidateReads, of: str) -> int:
        counted.append(of)
        return count(candidates, of)

    monkeypatch.setattr(CandidateReads, "row_count", counting)
    operations.stage(shop.ws, run_id, actor="ana")
    assert len(counted) == asked

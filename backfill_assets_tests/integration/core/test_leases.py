"""Work in progress is respected, stopped work is taken over, and a process that lost its lease adds nothing."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from typer.testing import CliRunner

from backfill_assets.candidates.run_lease import LeasedRun, holding_lease
from backfill_assets.capture.files.file_capture import FileCapture
from backfill_assets.capture.landed_files import landing_place
from backfill_assets.core.errors import AtWork, IllegalTransition, Refused, TakenOver
from backfill_assets.core.lease import LeaseTerms, this_process
from backfill_assets.core.progress import Progress
from backfill_assets.landing.attempt import clean_up_landing
from backfill_assets.ledger.states import ImportState, RunState
from backfill_assets.ledger.store import Ledger
from backfill_assets.main import app
from backfill_assets.report.command_line import explained, words_of
from backfill_assets.report.follow import RecoveredWork
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.ledger_examples import DAYS, an_offered_file, plan
from backfill_assets_tests.support.shop import OUTPUT, Shop

TWO_MINUTES = timedelta(minutes=2)


class Hands:
    """A clock whose hands a test moves."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now

    def after(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.fixture
def ledger(ledger_url: str, hands: Hands) -> Iterator[Ledger]:
    opened = Ledger.open(ledger_url, clock=hands)
    plan(opened, "bf-1")
    yield opened
    opened.close()


def take(ledger: Ledger, attempt: str, *, actor: str = "ann", to: RunState = RunState.STAGING) -> None:
    with ledger.write() as writer:
        writer.runs.take("bf-1", to, actor=actor, attempt=attempt, lease=TWO_MINUTES)


def renew(ledger: Ledger, attempt: str) -> bool:
    return ledger.renew_lease("bf-1", LeaseTerms(attempt=attempt, length=TWO_MINUTES))


def test_a_run_is_left_to_its_process_until_its_lease_ends(ledger: Ledger, hands: Hands) -> None:
    take(ledger, "a1")
    hands.after(77)
    with pytest.raises(AtWork) as refusal:
        take(ledger, "a2", actor="ben")
    for part in ("bf-1", "ann", "since 2026-01-15 12:00:00 UTC", "ends in 43 s, at 12:02:00 UTC", "recover bf-1 --now"):
        assert part in explained(refusal.value)
    with pytest.raises(AtWork), ledger.write() as writer:
        writer.runs.give_up("bf-1", actor="ops", note="gone")
    hands.after(43)
    take(ledger, "a2", actor="ben")
    with pytest.raises(TakenOver), ledger.write() as writer:
        writer.candidates.start_chunk("bf-1", 1, DAYS, attempt="a1")
    assert not renew(ledger, "a1")


def test_a_renewed_lease_lasts_and_is_no_event(ledger: Ledger, hands: Hands) -> None:
    take(ledger, "a1")
    with ledger.read() as reader:
        before = reader.events.head()
    for _ in range(5):
        hands.after(100)
        assert renew(ledger, "a1")
    with pytest.raises(AtWork):
        take(ledger, "a2")
    with ledger.read() as reader:
        assert reader.events.head() == before
        assert reader.runs.get("bf-1").lease is not None


def test_a_lease_that_has_ended_and_was_not_taken_over_is_renewed(ledger: Ledger, hands: Hands) -> None:
    take(ledger, "a1")
    hands.after(3600)
    assert renew(ledger, "a1")
    with pytest.raises(AtWork):
        take(ledger, "a2")


def test_a_machine_whose_clock_is_nearly_a_minute_ahead_does_not_take_living_work_for_dead(
    ledger_url: str, ledger: Ledger, hands: Hands
) -> None:
    other = Ledger.open(ledger_url, clock=lambda: hands.now + timedelta(seconds=59))
    take(ledger, "a1")
    for _ in range(8):
        hands.after(30)
        with pytest.raises(AtWork), other.write() as writer:
            writer.runs.give_up("bf-1", actor="ops", note="gone")
        assert renew(ledger, "a1")
    other.close()


def test_a_renewal_waits_for_no_other_writer_on_postgresql(ledger_url: str, ledger: Ledger) -> None:
    if ledger_url.startswith("sqlite"):
        pytest.skip("SQLite has one writer at a time, whatever it writes")
    take(ledger, "a1")
    with ledger.write() as writer:
        writer.events.record(actor="ann", entity="other", entity_id="x", action="slow")
        began = time.monotonic()
        assert renew(ledger, "a1")
        assert time.monotonic() - began < 5


def test_who_takes_over_before_the_lease_ended_is_named_by_an_event(ledger: Ledger) -> None:
    take(ledger, "a1")
    with ledger.write() as writer:
        writer.runs.give_up("bf-1", actor="ops", note="its machine burned down", now=True)
    with ledger.read() as reader:
        *_, last = reader.events.entries(entity_id="bf-1")
        assert (last.actor, last.to_state) == ("ops", "FAILED")
        assert last.payload["taken_from"].startswith("ann (")
        assert reader.leases.get("bf-1") is None
    with pytest.raises(IllegalTransition, match="FAILED"), ledger.write() as writer:
        writer.runs.give_up("bf-1", actor="ops", note="again", now=True)


def test_the_lease_ends_with_the_work(ledger: Ledger) -> None:
    take(ledger, "a1")
    with ledger.write() as writer:
        writer.runs.move("bf-1", RunState.FAILED, actor="ann", attempt="a1")
    with ledger.read() as reader:
        assert reader.leases.get("bf-1") is None
    take(ledger, "a2")


def test_a_file_that_another_machine_lands_is_left_alone_until_its_lease_ends(ledger: Ledger, hands: Hands) -> None:
    terms = LeaseTerms(attempt="l1", length=TWO_MINUTES, machine="elsewhere:1")
    with ledger.write() as writer:
        import_id = writer.imports.begin(an_offered_file(), actor="ann", lease=terms).import_id
    with ledger.write() as writer, pytest.raises(TakenOver):
        writer.imports.fail(import_id, note="not mine", actor="ben", attempt="l2")
    with ledger.read() as reader:
        reader.leases.get(import_id)
        with pytest.raises(AtWork, match="elsewhere:1"):
            reader.leases.require_free(import_id, at=hands.now)


def test_another_process_with_the_number_of_a_dead_one_keeps_no_lease_alive(ledger: Ledger, hands: Hands) -> None:
    take(ledger, "a1")
    with ledger.read() as reader:
        held = reader.leases.get("bf-1")
    assert held is not None and held.machine == this_process() and held.is_alive(hands.now)
    system, _, began = held.mark.rpartition("/")
    assert not replace(held, mark=f"{system}/{int(began) - 1}").is_alive(hands.now)
    assert replace(held, mark=f"{system}x/{int(began) - 1}").is_alive(hands.now), "another boot, or another container"
    assert replace(held, mark="").is_alive(hands.now), "nothing is known of the process"


def test_the_lease_of_a_process_ends_with_it_also_before_its_parent_has_asked_how_it_ended(
    ledger: Ledger, hands: Hands
) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    terms = LeaseTerms(attempt="l1", length=TWO_MINUTES, machine=f"{socket.gethostname()}:{child.pid}")
    with ledger.write() as writer:
        import_id = writer.imports.begin(an_offered_file(), actor="ann", lease=terms).import_id
    with ledger.read() as reader, pytest.raises(AtWork):
        reader.leases.require_free(import_id, at=hands.now)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    with ledger.read() as reader:
        reader.leases.require_free(import_id, at=hands.now)
    child.wait()


# --------------------------------------------------------------------------------------------------- with real work


def once_at(step: str, act: object) -> object:
    waiting = [act]

    def listen(progress: Progress) -> None:
        if waiting and progress.step == step:
            waiting.pop()()  # type: ignore[operator]

    return listen


def test_who_takes_over_says_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BACKFILL_USER", raising=False)
    result = CliRunner().invoke(app, ["recover", "bf-1", "--now"])
    assert result.exit_code == 1
    assert "it is not stated who takes the work over" in result.stderr and "add --by NAME" in result.stderr


@pytest.mark.long
def test_recover_leaves_living_work_alone_and_says_how_long_and_now_takes_it_over(shop: Shop) -> None:
    run_id, outcomes = shop.planned(OUTPUT), list[RecoveredWork]()

    def somebody_recovers() -> None:
        (found,) = operations.recover(shop.ws, by="ops")
        outcomes.append(found)
        assert operations.state_of(shop.ws, run_id) is RunState.STAGING
        (found,) = operations.recover(shop.ws, by="ops", only=run_id, now=True)
        outcomes.append(found)

    with pytest.raises(TakenOver):
        operations.stage(shop.ws, run_id, actor="ana", listener=once_at("stage", somebody_recovers))  # type: ignore[arg-type]
    living, taken = outcomes
    assert "is left alone" in living.outcome
    assert "its lease ends in 1" in living.outcome
    assert living.next_step and f"backfill recover {run_id} --now" in words_of(living.next_step)
    assert taken.outcome.startswith("had stopped while")
    assert taken.next_step and f"run it again: backfill run {run_id}" in words_of(taken.next_step)
    assert operations.state_of(shop.ws, run_id) is RunState.FAILED
    shop.staged(run_id)
    with pytest.raises(Refused, match="one by one"):
        operations.recover(shop.ws, by="ops", now=True)


@pytest.mark.long
def test_a_staged_run_waits_for_its_gates_through_every_recovery(shop: Shop) -> None:
    run_id = shop.planned(OUTPUT)
    operations.stage(shop.ws, run_id, actor="ana")
    assert operations.state_of(shop.ws, run_id) is RunState.STAGED
    assert operations.recover(shop.ws, by="ops") == ()
    assert operations.recover(replace(shop.ws, clock=lambda: datetime(2030, 1, 1, tzinfo=UTC)), by="ops") == ()
    operations.gate(shop.ws, run_id, actor="ana")
    assert operations.state_of(shop.ws, run_id) is RunState.PASSED


@pytest.mark.parametrize("step", ["stage", "gate"])
@pytest.mark.parametrize("stopped_by", [KeyboardInterrupt, OSError])
def test_a_process_that_stops_the_work_releases_its_lease_at_once(
    shop: Shop, step: str, stopped_by: type[BaseException]
) -> None:
    run_id = shop.planned(OUTPUT)

    def stop() -> None:
        raise stopped_by

    with pytest.raises(stopped_by):
        operations.stage(shop.ws, run_id, actor="ana", listener=once_at(step, stop))  # type: ignore[arg-type]
        operations.gate(shop.ws, run_id, actor="ana", listener=once_at(step, stop))  # type: ignore[arg-type]
    run = operations.run_named(shop.ws, run_id)
    assert (run.state, run.lease) == (RunState.FAILED, None)
    assert run.note == ("interrupted" if stopped_by is KeyboardInterrupt else "stopped by OSError")
    assert operations.recover(shop.ws, by="ops") == ()
    shop.staged(run_id)
    assert audit(shop.ws).problems == ()


def working(shop: Shop, run_id: str, *, seconds: float) -> tuple[Shop, LeasedRun]:
    """A process with a real clock and a short lease that has begun to stage a run."""
    real = replace(shop, ws=replace(shop.ws, clock=lambda: datetime.now(UTC)))
    lease = LeaseTerms(attempt="a1", length=timedelta(seconds=seconds))
    with real.ws.ledger.write() as writer:
        writer.runs.take(run_id, RunState.STAGING, actor="ana", attempt="a1", lease=lease.length)
        manifest = writer.runs.get(run_id).manifest
    table = real.ws.domain.table(manifest.table)
    session = real.ws.spark()
    return real, LeasedRun(manifest=manifest, table=table, actor="ana", session=session, lease=lease, doing="counted")


@pytest.mark.long
def test_the_heart_beats_through_a_spark_job_that_is_longer_than_the_lease(shop: Shop) -> None:
    run_id = shop.planned(OUTPUT)
    real, work = working(shop, run_id, seconds=1)
    with holding_lease(real.ws, work):
        began = time.monotonic()
        shop.ws.spark().range(1).selectExpr("java_method('java.lang.Thread', 'sleep', 2500L + id)").collect()
        assert time.monotonic() - began > 2 * work.lease.length.total_seconds()
        with pytest.raises(AtWork):
            operations.require_stageable(real.ws, operations.run_named(real.ws, run_id))


def test_a_spark_job_is_stopped_when_its_lease_was_taken_away(shop: Shop) -> None:
    run_id = shop.planned(OUTPUT)
    real, work = working(shop, run_id, seconds=2)
    operations_ = threading.Timer(1, lambda: operations.recover(real.ws, by="ops", only=run_id, now=True))
    operations_.start()
    began = time.monotonic()
    with pytest.raises(TakenOver), holding_lease(real.ws, work):
        shop.ws.spark().range(10**12).selectExpr("sum(id % 7)").collect()
    assert time.monotonic() - began < 30
    assert operations.state_of(shop.ws, run_id) is RunState.FAILED
    assert shop.ws.spark().range(5).count() == 5, "the session works for others"


def test_a_landing_of_a_dead_process_of_this_machine_is_ended_at_once(shop: Shop) -> None:
    """Who has the turn is the only process here that lands."""
    source = shop.ws.domain.source_table("sales")
    path = shop.folder / "late.jsonl"
    path.write_text('{"sale_id": "late", "sold_at": "2026-01-05T12:00:00Z", "amount": 5}\n', encoding="utf-8")
    place = landing_place(shop.ws.settings, source.name)
    ((offered, _),) = FileCapture(path).read(place, lambda copy, kind: None)
    with shop.ws.ledger.write() as writer:
        here = writer.imports.begin(offered, actor="ana", lease=LeaseTerms(attempt="l1", length=TWO_MINUTES))
        there = writer.imports.begin(
            replace(offered, sha256="e" * 64),
            actor="ana",
            lease=LeaseTerms(attempt="l2", length=TWO_MINUTES, machine="elsewhere:1"),
        )
    found = {each.id: each.outcome for each in operations.recover(shop.ws, by="ops")}
    assert "abandoned" in found[here.import_id]
    assert "elsewhere:1" in found[there.import_id]
    (taken,) = operations.recover(shop.ws, by="ops", only=there.import_id, now=True)
    assert "abandoned" in taken.outcome
    with shop.ws.ledger.read() as reader:
        assert reader.imports.records(states=[ImportState.LANDING]) == ()
    assert clean_up_landing(shop.ws.ledger, shop.ws.settings, [source], by="ops") == ()


def test_taking_over_one_file_of_an_extract_takes_over_all_that_land_with_it(shop: Shop) -> None:
    """They land together or not at all: one that was left LANDING would only wait for the end of its lease."""
    source = shop.ws.domain.source_table("sales")
    terms = LeaseTerms(attempt="l1", length=TWO_MINUTES, machine="elsewhere:1")
    with shop.ws.ledger.write() as writer:
        offered = [replace(an_offered_file(digit * 64), source=source.name) for digit in "def"]
        together = [writer.imports.begin(each, actor="ana", lease=terms).import_id for each in offered[:2]]
        other = replace(terms, attempt="l2")
        alone = writer.imports.begin(offered[2], actor="ana", lease=other).import_id
    found = operations.recover(shop.ws, by="ops", only=together[0], now=True)
    assert {each.id for each in found if "abandoned" in each.outcome} == set(together)
    with shop.ws.ledger.read() as reader:
        assert [record.import_id for record in reader.imports.records(states=[ImportState.LANDING])] == [alone]

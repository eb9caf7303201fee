"""The LIVE path takes the newest days from landed files to readers, as far as the policies of the tables let it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest
from dagster import DefaultScheduleStatus
from pyspark.sql import SparkSession

from backfill_assets.application.freeze import freeze, unfreeze
from backfill_assets.application.live import live
from backfill_assets.application.parts import Part
from backfill_assets.application.propose import propose
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.application.sensor_work import clear
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.errors import NotApproved, Refused
from backfill_assets.core.next_steps import NextStep
from backfill_assets.core.people import Sensor
from backfill_assets.core.progress import Listener
from backfill_assets.domain import Policy, row_count
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.ledger.records import RunRecord
from backfill_assets.ledger.states import RunState
from backfill_assets.orchestration import tags
from backfill_assets.orchestration.sensors import live_schedule
from backfill_assets.planning.manifest_parts import CauseKind, Mode, RunPurpose
from backfill_assets.report.command_line import words_of
from backfill_assets.report.follow import stuck_words
from backfill_assets.report.status import status
from backfill_assets.requests.errors import Frozen
from backfill_assets.upkeep.audit import audit
from backfill_assets.workspace import Workspace
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.integration.conftest import ONE_HOUR
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import worded
from backfill_assets_tests.support.dagster_record import open_record
from backfill_assets_tests.support.ledgers import copy_home
from backfill_assets_tests.support.orchestration_examples import failures
from backfill_assets_tests.support.shop import RECENT, Shop, open_shop, sale, ticking_clock
from backfill_assets_tests.support.ticks import Ticks
from backfill_assets_tests.support.waiting_runs import declared

NEW = [date(2026, 1, day) for day in (11, 12, 13)]


@pytest.fixture
def shop(tmp_path: Path, published_home: Path, spark: SparkSession) -> Iterator[Shop]:
    """Sales of ten days, and silver of those whose windows are complete."""
    copy_home(published_home, tmp_path / "home")
    opened = open_shop(tmp_path / "home", clock=ticking_clock(NOON + 3 * ONE_HOUR), spark=spark)
    yield opened
    opened.ws.close()


def lands(shop: Shop, name: str, days: list[date], amount: int = 10) -> None:
    """Sales land, and nothing is built."""
    path = shop.folder / name
    records = (sale(day, amount=amount, sale_id=f"{name} {day}") for day in days)
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    operations.land(shop.ws, "sales", path, on_duplicate=OnDuplicate.IGNORE, by="olga")


def advanced(shop: Shop) -> list[str]:
    return [each.sentence for each in live(shop.ws, Acting(by="x", recorder=Unrecorded()))]


def newest(shop: Shop, table: str = RECENT) -> RunRecord:
    with shop.ws.ledger.read() as tx:
        return tx.runs.records(table=table, limit=1)[0]


@pytest.mark.long
def test_the_newest_days_are_published_by_policy_once_and_by_the_same_code(shop: Shop) -> None:
    lands(shop, "new.jsonl", NEW)
    ticks = Ticks(shop.ws)
    with open_record(shop.ws.settings) as instance, ticks.open(instance):
        assert ticks.job("live", {}).success
        run = newest(shop)
        # The day after the last one is read as look-ahead, so the thirteenth waits for the fourteenth.
        assert (run.state, run.manifest.partitions) == (RunState.PUBLISHED, (date(2026, 1, 10), *NEW[:2]))
        assert (run.manifest.kind, run.manifest.mode, run.manifest.cause.kind) == (
            RunPurpose.LIVE,
            Mode.LIVE,
            CauseKind.LIVE,
        )
        assert run.approved_by == "policy:live"
        assert {shop.amounts()[day] for day in run.manifest.partitions} == {40}
        assert instance.get_runs(limit=1)[0].tags[tags.BY] == "live"
        # Launched again by hand, with whatever tags: nothing is new.
        for given in ({}, {tags.ON: "live", tags.BY: "eve", tags.RUN_ID: run.run_id}, {tags.ON: run.run_id}):
            assert ticks.job("live", given).success
        assert newest(shop) == run
        # The name of the path is not one that a launch can take.
        typed = {**tags.partition_range(tuple(NEW)), tags.BY: "live"}
        (said,) = failures(ticks.job("load", typed))
        assert "the requester cannot be 'live': that name is reserved for the system." in said
    waits = (
        "2026-01-13, 1 day waits for its inputs: bronze.sales lacks 2026-01-14, 1 day, and 2026-01-14, 1 day for that"
    )
    assert run.manifest.reason == f"the newest days, 3 of 5: {waits}"
    assert advanced(shop)[-1] == f"{RECENT}: the newest days, 0 of 2: {waits}."
    for by in ("live", "Live"):
        with pytest.raises(Refused, match="reserved for the system"):
            operations.plan_load(shop.ws, "sales", partitions=None, by=by, reason="typed")
    assert audit(shop.ws).problems == ()


@pytest.mark.long
def test_where_the_policy_asks_for_a_person_the_run_waits_and_nothing_is_planned_beside_it(shop: Shop) -> None:
    lands(shop, "new.jsonl", NEW)
    asking = declared(shop, Policy(live="approve"))
    said = advanced(asking)
    run = newest(asking)
    assert (run.state, said[-1].endswith(f"Next: backfill approve {run.run_id} --by ANOTHER_PERSON")) == (
        RunState.PASSED,
        True,
    )
    lands(shop, "newer.jsonl", [date(2026, 1, 14)])
    assert advanced(asking)[-1] == said[-1]
    assert newest(asking).run_id == run.run_id
    operations.approve(asking.ws, run.run_id, by="ben")
    asking.publish(run.run_id)
    advanced(asking)
    assert newest(asking).manifest.partitions == (date(2026, 1, 13),)


class OnlyLoads(Unrecorded):
    """Runs of derived tables are planned, as where a process stops before it computes them."""

    def execute(self, ws: Workspace, run_id: str, parts: Sequence[Part], *, by: str, listener: Listener) -> None:
        with ws.ledger.read() as tx:
            is_load = tx.runs.get(run_id).manifest.table != RECENT
        if is_load:
            super().execute(ws, run_id, parts, by=by, listener=listener)


@pytest.mark.long
@pytest.mark.parametrize("state", [RunState.PLANNED, RunState.PASSED])
def test_a_run_whose_table_declares_another_gate_since_gives_way_to_one_that_is_measured_with_it(
    shop: Shop, state: RunState
) -> None:
    lands(shop, "new.jsonl", NEW[:1])
    asking = declared(shop, Policy(live="approve"))
    live(asking.ws, Acting(by="x", recorder=Unrecorded() if state is RunState.PASSED else OnlyLoads()))
    before = newest(asking)
    if state is RunState.PASSED:
        operations.approve(asking.ws, before.run_id, by="ben")
    (table,) = asking.ws.domain.derived
    domain = replace(asking.ws.domain, derived=(replace(table, gates=(*table.gates, row_count(at_least=1))),))
    gated = replace(asking, ws=replace(asking.ws, domain=domain))
    for _ in range(2):
        live(gated.ws, Acting(by="x", recorder=OnlyLoads()))
        now = newest(gated)
        assert now.manifest.partitions == before.manifest.partitions
        assert {gate.name for gate in now.manifest.gates} - {gate.name for gate in before.manifest.gates} == {
            "row_count"
        }
    with gated.ws.ledger.read() as tx:
        states = [run.state for run in tx.runs.records(table=RECENT, limit=2)]
    assert (before.state, states) == (state, [RunState.PLANNED, RunState.CANCELLED])


@pytest.mark.long
def test_frozen_days_wait_with_what_comes_after_them_and_are_built_and_published_when_they_are_frozen_no_longer(
    shop: Shop,
) -> None:
    lands(shop, "new.jsonl", NEW)
    until = NOON + timedelta(days=1)
    begun = [
        freeze(shop.ws, table, DayRange.inclusive(day, day), until=until, only=None, by="ana", reason="we restate it")
        for table, day in ((RECENT, NEW[0]), ("bronze.sales", NEW[2]))
    ]
    said = advanced(shop)
    run, load = newest(shop), newest(shop, "bronze.sales")
    assert (run.state, run.manifest.partitions) == (RunState.PUBLISHED, (date(2026, 1, 10),))
    waits = f"{RECENT} 2026-01-11, 1 day is frozen until 2026-01-16 12:00 UTC by ana (we restate it)"
    assert waits in run.manifest.reason
    assert (load.state, set(load.manifest.partitions) & set(NEW)) == (RunState.PUBLISHED, set(NEW[:2]))
    assert "without 2026-01-13, 1 day: frozen until 2026-01-16 12:00 UTC" in load.manifest.reason
    said = advanced(shop)
    assert (newest(shop), newest(shop, "bronze.sales")) == (run, load)
    assert any("bronze.sales 2026-01-13, 1 day is frozen" in each for each in said)
    assert waits in said[-1]
    with pytest.raises(Frozen, match=r"a load of bronze\.sales waits: 2026-01-13, 1 day is frozen"):
        operations.plan_load(shop.ws, "sales", partitions=(NEW[2],), by="ana", reason="typed")
    _, ended = [unfreeze(shop.ws, each.freeze.freeze_id, by="ben", reason="done") for each in begun]
    assert worded(ended.next_step) == "backfill load sales --by NAME builds what has landed of 2026-01-13, 1 day"
    advanced(shop)
    assert NEW[2] in newest(shop, "bronze.sales").manifest.partitions
    assert (newest(shop).state, newest(shop).manifest.partitions) == (RunState.PUBLISHED, tuple(NEW[:2]))
    assert audit(shop.ws).problems == ()


def test_what_a_person_has_rolled_back_is_not_published_again_without_one(shop: Shop) -> None:
    lands(shop, "new.jsonl", NEW[:2])
    advanced(shop)
    published = newest(shop)
    assert (published.state, published.manifest.partitions) == (RunState.PUBLISHED, (date(2026, 1, 10), NEW[0]))
    operations.rollback(shop.ws, published.run_id, by="cara", reason="these rows are wrong")
    before = shop.amounts()
    # Other values and a newer day change nothing of that.
    lands(shop, "other.jsonl", NEW, amount=30)
    for _ in range(2):
        sentence = live(shop.ws, Acting(by="x", recorder=Unrecorded()))[-1]
        run = newest(shop)
        assert (run.state, run.manifest.partitions) == (RunState.PASSED, (date(2026, 1, 10), *NEW[:2]))
        assert sentence.sentence.endswith(f"Next: backfill approve {run.run_id} --by ANOTHER_PERSON")
        assert not sentence.failed
    with pytest.raises(NotApproved, match="another person has to agree"):
        shop.publish(run.run_id)
    (listed,) = [each for each in status(shop.ws).runs if each.record.run_id == run.run_id]
    assert (worded(listed.next_step), status(shop.ws).stuck, shop.amounts()) == (
        f"backfill approve {run.run_id} --by ANOTHER_PERSON",
        (),
        before,
    )
    operations.approve(shop.ws, run.run_id, by="ben")
    shop.publish(run.run_id)
    lands(shop, "newer.jsonl", [date(2026, 1, 14)])
    advanced(shop)
    assert (newest(shop).state, newest(shop).manifest.partitions) == (RunState.PUBLISHED, (NEW[2],))
    assert audit(shop.ws).problems == ()


@pytest.mark.long
def test_a_newest_day_to_which_a_key_of_a_published_day_moved_waits_until_that_one_is_restated(shop: Shop) -> None:
    lands(shop, "new.jsonl", NEW)
    shop.land("moved.jsonl", [sale(NEW[0], sale_id="sale-2026-01-05")], by="eve")
    for _ in range(2):
        assert advanced(shop)[-1] == (
            f"{RECENT}: the newest days, 0 of 5: 2026-01-10, 1 day waits for a person: keys moved between its days and "
            "published ones, and 2026-01-11..2026-01-14, 4 days for that."
        )
    (found,) = propose(shop.ws, by="propose").proposed
    assert found.set_id is not None
    with shop.ws.ledger.read() as tx:
        (run_id,) = (member.run_id for member in tx.sets.get(found.set_id).manifest.members)
    shop.staged(run_id)
    operations.approve(shop.ws, found.set_id, by="ben")
    operations.publish_set(shop.ws, found.set_id, by="ben")
    advanced(shop)
    assert newest(shop).manifest.partitions == (date(2026, 1, 10), *NEW[:2])
    assert (shop.amounts()[date(2026, 1, 7)], shop.amounts()[NEW[0]]) == (30, 50)


@pytest.mark.long
def test_a_blocked_day_stops_what_comes_after_it_and_is_listed_until_it_is_cancelled(shop: Shop) -> None:
    lands(shop, "wrong.jsonl", NEW, amount=2_000)
    before = shop.amounts()
    assert "is BLOCKED" in advanced(shop)[-1]
    run = newest(shop)
    (stuck,) = status(shop.ws).stuck
    assert (stuck.work.sensor, stuck.work.subject, stuck.work.why) == ("live", run.run_id, "a blocking gate failed")
    advanced(shop)
    assert (newest(shop).run_id, len(status(shop.ws).stuck), shop.amounts()) == (run.run_id, 1, before)
    operations.cancel(shop.ws, run.run_id, by="ben", reason="landed again")
    assert status(shop.ws).stuck == ()


@pytest.mark.long
def test_a_blocked_run_that_is_cleared_is_listed_again_only_when_a_gate_blocks_it_again(shop: Shop) -> None:
    lands(shop, "wrong.jsonl", NEW, amount=2_000)
    advanced(shop)
    run_id = newest(shop).run_id
    (stuck,) = status(shop.ws).stuck
    assert words_of(stuck_words(stuck)).startswith(
        f"live has given up {run_id} (a blocking gate failed). To list it no longer: backfill clear {run_id} --by NAME."
    )
    assert clear(shop.ws, run_id, by="ben").sensors == (Sensor.LIVE,)
    for _ in range(2):
        assert "is BLOCKED" in advanced(shop)[-1]
        assert (status(shop.ws).stuck, newest(shop).run_id) == ((), run_id)
    operations.gate(shop.ws, run_id, actor="ben")
    assert status(shop.ws).stuck == ()
    advanced(shop)
    assert [each.work.subject for each in status(shop.ws).stuck] == [run_id]
    clear(shop.ws, run_id, by="ben")
    advanced(shop)
    assert (status(shop.ws).stuck, audit(shop.ws).problems) == ((), ())


@pytest.mark.long
def test_a_load_that_failed_is_not_advised_and_not_tried_again_once_its_days_are_built(shop: Shop) -> None:
    lands(shop, "new.jsonl", NEW[:2])
    failed = operations.plan_load(shop.ws, "sales", partitions=None, by="live", reason="newest", on_schedule=True)
    assert failed is not None
    with shop.ws.ledger.write() as tx:
        tx.runs.take(failed.run_id, RunState.STAGING, actor="live", attempt="a1")
        tx.runs.move(failed.run_id, RunState.FAILED, actor="live", attempt="a1", note="no disk")
    assert worded(next_of(shop, failed.run_id)) == f"backfill run {failed.run_id}"

    def built(days: list[date]) -> None:
        run = operations.plan_load(shop.ws, "sales", partitions=tuple(days), by="olga", reason="by hand")
        assert run is not None
        operations.stage(shop.ws, run.run_id, actor="olga")
        operations.gate(shop.ws, run.run_id, actor="olga")
        operations.publish(shop.ws, run.run_id, by="olga")

    built(NEW[:1])
    assert worded(next_of(shop, failed.run_id)) == f"backfill run {failed.run_id}", "one day of it is still to be built"
    built(NEW[1:2])
    assert next_of(shop, failed.run_id) is None
    assert [run.record.run_id for run in status(shop.ws).runs if run.record.state is RunState.FAILED] == [failed.run_id]
    # The file is built as a whole by a run of today's, and not by the one that failed.
    assert failed.run_id not in advanced(shop)[0]
    assert run_of(shop, failed.run_id).state is RunState.FAILED


def next_of(shop: Shop, run_id: str) -> NextStep | None:
    (run,) = [run for run in status(shop.ws).runs if run.record.run_id == run_id]
    return run.next_step


def run_of(shop: Shop, run_id: str) -> RunRecord:
    with shop.ws.ledger.read() as tx:
        return tx.runs.get(run_id)


def test_a_table_that_was_never_published_is_left_to_a_person(
    tmp_path: Path, stocked_home: Path, spark: SparkSession
) -> None:
    copy_home(stocked_home, tmp_path / "home")
    shop = open_shop(tmp_path / "home", clock=ticking_clock(NOON + 3 * ONE_HOUR), spark=spark)
    assert advanced(shop) == [
        "bronze.sales: nothing has landed that is not built.",
        f"{RECENT}: it was never published, and a person begins with that.",
    ]
    assert live_schedule(shop.ws.settings.live_at).default_status is DefaultScheduleStatus.STOPPED
    shop.ws.close()

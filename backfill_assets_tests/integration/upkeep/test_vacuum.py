"""Vacuum removes unneeded files and nothing else; what needs a removed file is refused with the reason."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from threading import Thread

import pytest
from pyspark.sql import SparkSession

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import MissingInput
from backfill_assets.deliver.replay_parts import parts_of_run
from backfill_assets.lake.staging import remove_files
from backfill_assets.lake.tables import Lake, live_paths
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.ledger.records import ReplayRecord
from backfill_assets.ledger.states import ReplayState, RunState
from backfill_assets.planning.safeguards import Policy
from backfill_assets.report.history import partition_history
from backfill_assets.upkeep import vacuum as vacuum_module
from backfill_assets.upkeep.audit import audit
from backfill_assets.upkeep.vacuum import FileCount, LeftAlone, VacuumReport, Why
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.integration.conftest import ONE_HOUR
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import advised
from backfill_assets_tests.support.lakes import files_below, folder_of
from backfill_assets_tests.support.ledgers import copy_home
from backfill_assets_tests.support.seams import Seam
from backfill_assets_tests.support.shop import RECENT, SALES, Shop, open_shop, sale, ticking_clock

MIDDLE = DayRange.inclusive(date(2026, 1, 5), date(2026, 1, 6))
SIXTH = date(2026, 1, 6)
PAST_ROLLBACK = timedelta(days=91)
PAST_ALL = timedelta(days=731)


@pytest.fixture
def home(tmp_path: Path, published_home: Path) -> Path:
    copy_home(published_home, tmp_path / "home")
    return tmp_path / "home"


@pytest.fixture
def shop(home: Path, spark: SparkSession) -> Iterator[Shop]:
    """The earlier release is published over all days."""
    opened = open_shop(home, clock=ticking_clock(NOON + 2 * ONE_HOUR), spark=spark)
    yield opened
    opened.ws.close()


def later(shop: Shop, spark: SparkSession, passed: timedelta) -> Shop:
    """The same shop when some time has passed."""
    return open_shop(shop.ws.settings.home, clock=ticking_clock(NOON + 2 * ONE_HOUR + passed), spark=spark)


def vacuumed(shop: Shop, *, dry_run: bool = False) -> VacuumReport:
    return operations.vacuum(shop.ws, by="vic", dry_run=dry_run)


def first_run(shop: Shop) -> str:
    with shop.ws.ledger.read() as reader:
        return reader.runs.records(table=RECENT)[-1].run_id


def everything_else(shop: Shop) -> Mapping[str, bytes]:
    """Every file of the lake that is not below `_runs/`."""
    root = Path(str(shop.ws.settings.lake))
    files = (path for path in root.rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in files if "_runs" not in path.relative_to(root).parts}


def test_within_the_horizons_everything_stays_and_a_rollback_works(shop: Shop) -> None:
    run_id = shop.published(MIDDLE)
    before = shop.files()
    found = vacuumed(shop)
    assert found.removed == FileCount(files=0, size_bytes=0)
    assert shop.files() == before
    operations.rollback(shop.ws, run_id, by="ben", reason="was wrong")
    assert shop.amounts()[SIXTH] == 80
    assert vacuumed(shop).removed.files == 0


def test_what_a_replay_has_still_to_send_stays_until_it_is_closed(shop: Shop, spark: SparkSession) -> None:
    second = shop.published(MIDDLE)
    with shop.ws.ledger.write() as tx:
        asked = ReplayRecord(
            replay_id="",
            subject=second,
            table=RECENT,
            period_from=None,
            period_to=None,
            parts=parts_of_run(tx, shop.ws.domain.derived_table(RECENT), second, None),
            family="kafka",
            stream="a cluster",
            target="a topic",
            mark="1",
            stream_partitions=1,
            is_live=False,
            identity=None,
            contract="",
            state=ReplayState.ASKED,
            sent=None,
            left_out=None,
            failure=None,
            ends={},
            by="ana",
            reason="a test",
            asked_at=tx.now,
            policy=Policy(),
        )
        replay_id = tx.replays.begin(asked).replay_id
    old = later(shop, spark, PAST_ALL)
    found = vacuumed(old)
    assert found.removed.files == 0
    (table,) = (each for each in found.tables if each.table == RECENT)
    assert Why.REPLAYED in {each.reason for each in table.runs}
    with old.ws.ledger.write() as tx:
        tx.replays.close(replay_id, by="ana", reason="not needed", deleted=False)
    assert vacuumed(old).versions_removed == len(MIDDLE)


@pytest.mark.long
def test_past_all_horizons_what_was_replaced_goes_and_a_rollback_is_refused(shop: Shop, spark: SparkSession) -> None:
    first, second = first_run(shop), shop.published(MIDDLE)
    old = later(shop, spark, PAST_ALL)
    before, live, other = old.files(), old.live_paths(), everything_else(old)
    asked = vacuumed(old, dry_run=True)
    assert (old.files(), asked.dry_run, asked.versions_removed) == (before, True, 2)
    found = vacuumed(old)
    assert replace(found, at=asked.at, dry_run=True) == asked
    gone = before.keys() - old.files().keys()
    assert {Path(path).parent.name for path in gone} == {f"day={day}" for day in MIDDLE}
    assert all(first in path for path in gone)
    assert (old.live_paths(), everything_else(old)) == (live, other)
    assert old.amounts()[SIXTH] == 40
    with pytest.raises(MissingInput, match=r"cannot be rolled back: .* removed .* 2026-01-05, 2026-01-06") as late:
        operations.rollback(old.ws, second, by="ben", reason="was wrong")
    assert advised(late.value) == (
        "restate the days instead: backfill plan table recent_sales --reason WHY --from 2026-01-05 --to 2026-01-06 "
        "--by NAME"
    )
    assert (old.live_paths(), old.amounts()[SIXTH]) == (live, 40)
    assert audit(old.ws).problems == ()
    versions = partition_history(old.ws, RECENT, SIXTH).versions
    assert [bool(version.claim.removed_at) for version in versions] == [False, True]
    with old.ws.ledger.read() as reader:
        event = list(reader.events.entries(entity_id=RECENT))[-1]
    assert (event.action, event.actor, event.payload["versions"]) == ("vacuumed", "vic", 2)
    assert vacuumed(old).removed.files == 0
    # It can still be shown that the first run was right: its inputs are what is accepted.
    assert operations.reproduce(old.ws, first, by="rita").identical


@pytest.mark.long
def test_past_the_rollback_horizon_a_published_run_can_still_be_reproduced(shop: Shop, spark: SparkSession) -> None:
    first = first_run(shop)
    shop.land("late.jsonl", [sale(SIXTH, amount=100, sale_id="late")])
    shop.published(reason="a late sale")
    old = later(shop, spark, PAST_ROLLBACK)
    assert vacuumed(old).removed.files == 0
    assert operations.reproduce(old.ws, first, by="rita").identical
    older = later(shop, spark, PAST_ALL)
    reasons = {run.reason for table in vacuumed(older).tables for run in table.runs if not run.kept}
    assert reasons == {Why.PAST}
    with pytest.raises(MissingInput) as refusal:
        operations.reproduce(older.ws, first, by="rita")
    removed = (NOON + 2 * ONE_HOUR + PAST_ALL).date()
    assert f"version 1 of {SALES} {SIXTH}, which retention removed at {removed}" in refusal.value.message


@pytest.mark.long
def test_a_run_that_was_rolled_back_can_be_published_again_within_the_horizon_only(
    shop: Shop, spark: SparkSession
) -> None:
    run_id = shop.published(MIDDLE)
    operations.rollback(shop.ws, run_id, by="ben", reason="was wrong")
    vacuumed(later(shop, spark, timedelta(days=80)))
    operations.approve(shop.ws, run_id, by="ben")
    shop.publish(run_id)
    operations.rollback(shop.ws, run_id, by="ben", reason="was wrong after all")
    old = later(shop, spark, PAST_ALL)
    assert vacuumed(old).versions_removed == 4
    operations.approve(old.ws, run_id, by="ben")
    with pytest.raises(MissingInput, match=r"staged files of run .* were removed by retention") as refusal:
        old.publish(run_id)
    assert advised(refusal.value) == f"stage it again: backfill run {run_id}"
    assert operations.state_of(old.ws, run_id) is RunState.ROLLED_BACK
    old.staged(run_id)
    old.publish(run_id)
    assert old.amounts()[SIXTH] == 40


@pytest.mark.long
def test_what_an_earlier_attempt_left_goes_and_the_candidate_stays(shop: Shop) -> None:
    run_id = shop.ready(MIDDLE)
    first = {path for path in shop.files() if run_id in path}
    # What was staged is kept by the next attempt, unless a file of it has gone.
    (folder_of(shop.ws.lake, RECENT) / min(first)).unlink()
    operations.stage(shop.ws, run_id, actor="ana")
    operations.gate(shop.ws, run_id, actor="ana")
    vacuumed(shop)
    left = {path for path in shop.files() if run_id in path}
    assert left
    assert not left & first
    folder = folder_of(shop.ws.lake, RECENT) / "_runs" / run_id
    (attempt,) = {path.relative_to(folder).parts[0] for path in files_below(folder)}
    assert (folder / attempt / "_SUCCESS").exists()
    shop.publish(run_id)
    assert shop.amounts()[SIXTH] == 40


def test_what_is_being_staged_is_left_alone(shop: Shop, spark: SparkSession) -> None:
    run_id = shop.planned(MIDDLE)
    with shop.ws.ledger.write() as writer:
        writer.runs.take(run_id, RunState.STAGING, actor="ana", attempt="a1")
    unfinished = folder_of(shop.ws.lake, RECENT) / "_runs" / run_id / "0001-aa" / "_temporary" / "0" / "part.parquet"
    unfinished.parent.mkdir(parents=True)
    unfinished.write_bytes(b"half")
    old = later(shop, spark, PAST_ALL)
    vacuumed(old)
    assert unfinished.exists()
    with old.ws.ledger.write() as writer:
        writer.runs.give_up(run_id, actor="ana", note="gone")
    found = vacuumed(old)
    assert not unfinished.exists()
    (line,) = [run for table in found.tables for run in table.runs if run.run_id == run_id]
    assert (line.kept, line.reason, line.files) == (False, Why.ATTEMPT, 1)
    assert not (folder_of(shop.ws.lake, RECENT) / "_runs" / run_id).exists()


@pytest.mark.long
def test_a_table_with_an_open_publication_is_left_alone_and_that_is_said(
    shop: Shop, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.published(MIDDLE)
    old = later(shop, spark, PAST_ALL)
    run_id = old.ready(MIDDLE, version="0.9.0", reason="again")
    before = old.files()
    with monkeypatch.context() as dying:
        Seam.SWAP_OF_PUBLICATIONS.put(dying, _die)
        with pytest.raises(KeyboardInterrupt):
            old.publish(run_id)
    found = {table.table: table for table in vacuumed(old).tables}
    assert (found[RECENT].skipped, found[SALES].skipped) == (LeftAlone.OPEN_PUBLICATION, None)
    assert old.files() == before
    operations.recover(old.ws, by="vic")
    assert vacuumed(old).versions_removed == 2


def _die(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.long
def test_others_write_while_a_vacuum_looks_at_the_tables(
    shop: Shop, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.published(MIDDLE)
    old = later(shop, spark, PAST_ALL)
    written: list[str] = []

    def slow_look(lake: Lake, table: str) -> frozenset[str]:
        other = Thread(target=lambda: written.append(shop.planned(MIDDLE)), daemon=True)
        other.start()
        other.join(timeout=10)
        return live_paths(lake, table)

    monkeypatch.setattr(vacuum_module, "live_paths", slow_look)
    assert vacuumed(old).versions_removed == 2
    # Both tables were looked at before the mark, one of them once more before its files went.
    assert len(written) == 3


def test_what_begins_while_a_vacuum_looks_is_not_taken_from(shop: Shop, spark: SparkSession) -> None:
    second = shop.published(MIDDLE)
    old = later(shop, spark, PAST_ALL)
    begun: list[str] = []

    def meanwhile(point: Point) -> None:
        if point is Point.VACUUM_PLANNED and not begun:
            begun.append(operations.rollback(shop.ws, second, by="ben", reason="was wrong").publication_id)

    found = operations.vacuum(replace(old.ws, reached=meanwhile), by="vic")
    # It is planned again, and then what was rolled back is past every horizon by that clock; what came back stays.
    assert begun
    assert old.amounts()[SIXTH] == 80
    assert all(second in run.run_id for table in found.tables for run in table.runs if not run.kept)
    assert audit(old.ws).problems == ()


def test_a_table_that_never_stands_still_is_left_for_the_next_vacuum(shop: Shop, spark: SparkSession) -> None:
    run_id = shop.published(MIDDLE)
    old = later(shop, spark, PAST_ALL)
    before = old.files()

    def meanwhile(point: Point) -> None:
        if point is Point.VACUUM_PLANNED:
            operations.rollback(shop.ws, run_id, by="ben", reason="was wrong")
            operations.approve(shop.ws, run_id, by="ben")
            shop.publish(run_id)

    found = operations.vacuum(replace(old.ws, reached=meanwhile), by="vic")
    (skipped,) = [table.skipped for table in found.tables if table.table == RECENT]
    assert skipped == LeftAlone.MOVED_ON
    assert (old.files(), found.versions_removed) == (before, 0)
    assert old.amounts()[SIXTH] == 40


@pytest.mark.long
def test_a_process_that_dies_before_removing_leaves_files_for_the_next_one(
    shop: Shop, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = shop.published(MIDDLE)
    old = later(shop, spark, PAST_ALL)
    before = old.files()
    with monkeypatch.context() as dying:
        dying.setattr(vacuum_module, "remove_files", _die)
        with pytest.raises(KeyboardInterrupt):
            vacuumed(old)
    assert old.files() == before
    # Marked files count as removed for every other process.
    with pytest.raises(MissingInput, match="removed by retention"):
        operations.rollback(old.ws, second, by="ben", reason="was wrong")
    found = vacuumed(old)
    assert (found.removed.files > 0, found.versions_removed) == (True, 0)
    assert len(old.files()) == len(before) - 2


@pytest.mark.long
def test_quarantined_records_stay_as_people_read_them(shop: Shop, spark: SparkSession) -> None:
    path = shop.folder / "bad.jsonl"
    path.write_text(json.dumps({"sale_id": "no time"}) + "\n", encoding="utf-8")
    operations.land(shop.ws, SALES, path, on_duplicate=OnDuplicate.IGNORE, by="ana")
    operations.land(shop.ws, SALES, path, on_duplicate=OnDuplicate.REPROCESS, by="ana")
    table = "quarantine.sales"
    before = shop.ws.lake.open(table).to_pyarrow_table().to_pylist()
    found = {entry.table: entry for entry in vacuumed(later(shop, spark, PAST_ALL)).tables}
    assert {run.reason for run in found[table].runs if not run.kept} == {Why.NOT_LIVE}
    assert len(before) == 1
    assert shop.ws.lake.open(table).to_pyarrow_table().to_pylist() == before


def test_folders_of_runs_that_this_ledger_does_not_know_are_kept(shop: Shop, spark: SparkSession) -> None:
    foreign = folder_of(shop.ws.lake, RECENT) / "_runs" / "somebody-elses" / "0001" / "part.parquet"
    foreign.parent.mkdir(parents=True)
    foreign.write_bytes(b"rows")
    vacuumed(later(shop, spark, PAST_ALL))
    assert foreign.exists()


def test_nothing_outside_the_runs_is_ever_removed(shop: Shop) -> None:
    before = everything_else(shop)
    for path in ("_delta_log/00000000000000000000.json", "_runs/../_delta_log/00000000000000000000.json", "day=x/a"):
        with pytest.raises(ValueError, match="is not below _runs/"):
            remove_files(shop.ws.lake, RECENT, [path])
    assert everything_else(shop) == before

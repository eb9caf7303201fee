"""The disk is full, a file is cut, a commit answers with an error: nothing is half visible, all can be done again."""

from __future__ import annotations

import resource
import sqlite3
from collections.abc import Callable
from datetime import date

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from pyspark.sql import SparkSession

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.errors import BackfillError, ContractBroken, MissingInput, OutcomeUnknown
from backfill_assets.lake.swap import SwapOrder
from backfill_assets.ledger import connection
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.request import AskedLimits, PlanRequest
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import advised, refused
from backfill_assets_tests.support.lakes import folder_of
from backfill_assets_tests.support.seams import Seam
from backfill_assets_tests.support.shop import RECENT, SALES, Shop, open_shop

MIDDLE = DayRange.inclusive(date(2026, 1, 5), date(2026, 1, 6))


@pytest.fixture
def shop(published_shop: Shop) -> Shop:
    return published_shop


def answering_with(error: Exception, *, does_it: bool) -> Callable[[DeltaTable, SwapOrder], None]:
    """A store that answers a commit with an error, whether it took it or not."""
    commit = Seam.COMMIT.present

    def answer(handle: DeltaTable, order: SwapOrder) -> None:
        if does_it:
            commit(handle, order)
        raise error

    return answer


@pytest.mark.long
def test_a_commit_that_landed_and_was_reported_as_failed_is_found_by_recover(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = shop.ready(MIDDLE)
    with monkeypatch.context() as broken:
        Seam.COMMIT.put(broken, answering_with(OSError("connection reset"), does_it=True))
        with refused(OutcomeUnknown, match=r"does not show whether it landed.*backfill recover"):
            shop.publish(run_id)
    state = operations.state_of(shop.ws, run_id)
    assert state is RunState.PUBLISHING, "what is not known is not called one or the other"
    (found,) = operations.recover(shop.ws, by="ops")
    assert "had landed" in found.outcome
    assert operations.state_of(shop.ws, run_id) is RunState.PUBLISHED
    assert shop.amounts()[MIDDLE.start] == 40
    assert audit(shop.ws).problems == ()


@pytest.mark.long
def test_a_commit_that_was_lost_on_the_way_is_found_by_recover(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id, before = shop.ready(MIDDLE), shop.amounts()
    with monkeypatch.context() as broken:
        Seam.COMMIT.put(broken, answering_with(OSError("connection reset"), does_it=False))
        with pytest.raises(OutcomeUnknown):
            shop.publish(run_id)
    (found,) = operations.recover(shop.ws, by="ops")
    assert "nothing has changed" in found.outcome
    assert shop.amounts() == before
    shop.publish(run_id)
    assert shop.amounts()[MIDDLE.start] == 40
    assert audit(shop.ws).problems == ()


@pytest.mark.long
def test_a_commit_that_landed_and_was_reported_as_lost_to_another_writer_counts(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = shop.ready(MIDDLE)
    with monkeypatch.context() as broken:
        Seam.COMMIT.put(broken, answering_with(CommitFailedError("somebody was first"), does_it=True))
        shop.publish(run_id)
    assert operations.state_of(shop.ws, run_id) is RunState.PUBLISHED
    assert audit(shop.ws).problems == ()


@pytest.mark.long
def test_a_full_disk_ends_staging_in_words_and_it_goes_on_when_there_is_room(shop: Shop, spark: SparkSession) -> None:
    """The JVM may write no file beyond 200 bytes, which to Spark is a disk without room."""
    run_id, before = shop.planned(MIDDLE), shop.amounts()
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    jvm = gateway.proc.pid
    unlimited = resource.prlimit(jvm, resource.RLIMIT_FSIZE)
    resource.prlimit(jvm, resource.RLIMIT_FSIZE, (200, unlimited[1]))
    try:
        with pytest.raises(ContractBroken, match=r"Spark stopped while .*; caused by IOException: File too large"):
            operations.stage(shop.ws, run_id, actor="ana")
    finally:
        resource.prlimit(jvm, resource.RLIMIT_FSIZE, unlimited)
    assert operations.state_of(shop.ws, run_id) is RunState.FAILED
    assert shop.amounts() == before
    assert audit(shop.ws).problems == ()
    shop.staged(run_id)
    operations.approve(shop.ws, run_id, by="ben")
    shop.publish(run_id)
    assert shop.amounts()[MIDDLE.start] == 40


@pytest.mark.long
def test_a_damaged_input_ends_staging_in_words_and_changes_nothing(shop: Shop) -> None:
    run_id, before = shop.planned(MIDDLE), shop.amounts()
    with shop.ws.ledger.read() as reader:
        (file,) = reader.versions.accepted(SALES)[MIDDLE.start].files.files
    path = folder_of(shop.ws.lake, SALES) / file.path
    whole = path.read_bytes()
    path.write_bytes(b"\0" * len(whole))
    (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
    with pytest.raises(BackfillError) as refused:
        operations.stage(shop.ws, run_id, actor="ana")
    assert advised(refused.value)
    assert operations.state_of(shop.ws, run_id) is RunState.FAILED
    assert shop.amounts() == before
    path.write_bytes(whole)
    shop.staged(run_id)
    assert operations.state_of(shop.ws, run_id) is RunState.PASSED


@pytest.mark.long
def test_a_staged_file_that_was_cut_is_not_published_and_only_its_chunk_is_staged_again(shop: Shop) -> None:
    request = PlanRequest(table=RECENT, days=MIDDLE, reason="cut", by="ana", limits=AskedLimits(chunk_partitions=1))
    run_id = shop.staged(operations.plan(shop.ws, request).manifest.run_id)
    operations.approve(shop.ws, run_id, by="ben")
    with shop.ws.ledger.read() as reader:
        first = {day: candidate.files for day, candidate in reader.candidates.of_run(run_id).items()}
    path = folder_of(shop.ws.lake, RECENT) / first[MIDDLE.start].files[0].path
    path.write_bytes(path.read_bytes()[:-10])
    before = shop.live_paths()
    with pytest.raises(MissingInput, match=r"bytes where .* were recorded"):
        shop.publish(run_id)
    assert shop.live_paths() == before
    shop.staged(run_id)
    with shop.ws.ledger.read() as reader:
        second = {day: candidate.files for day, candidate in reader.candidates.of_run(run_id).items()}
    assert [day for day in first if first[day] != second[day]] == [MIDDLE.start]
    shop.publish(run_id)
    assert audit(shop.ws).problems == ()


@pytest.mark.long
def test_a_ledger_that_is_locked_too_long_is_reported_and_nothing_is_lost(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite: another program has locked the database. After that the same process goes on."""
    if not shop.ws.settings.ledger_url.startswith("sqlite"):
        pytest.skip("only SQLite is a file that can be locked; PostgreSQL has a test of its own")
    run_id = shop.ready(MIDDLE)
    pragmas = (*connection.SQLITE_PRAGMAS, "PRAGMA busy_timeout = 300")
    monkeypatch.setattr(connection, "SQLITE_PRAGMAS", pragmas)
    other = sqlite3.connect(shop.ws.settings.ledger_url.removeprefix("sqlite:///"), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        impatient = open_shop(shop.ws.settings.home, clock=shop.ws.clock)
        with pytest.raises(BackfillError, match="ledger") as refused:
            operations.publish(impatient.ws, run_id, by="ben")
        assert advised(refused.value)
    finally:
        other.execute("ROLLBACK")
        other.close()
    shop.publish(run_id)
    assert audit(shop.ws).problems == ()

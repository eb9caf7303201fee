"""A process is killed around the commit; another process reads all the while. Real processes, real SIGKILL."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from datetime import date

import pytest

from backfill_assets.application.sensor_work import stopped
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.errors import IllegalTransition, Refused
from backfill_assets.lake.swap import fence, swap
from backfill_assets.ledger.states import PublicationState, RunState
from backfill_assets.requests.publish import swap_order_of
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.lakes import folder_of
from backfill_assets_tests.support.shop import OUTPUT, RECENT, Shop, shop_environment

MIDDLE = DayRange.inclusive(date(2026, 1, 5), date(2026, 1, 6))

DIE_BEFORE = "publishing.swap"
DIE_AFTER = "publishing.acknowledge"

PUBLISHER = """
    import os, signal, sys
    from backfill_assets_tests.support import operations
    from backfill_assets.candidates import stage as staging
    from backfill_assets.core.clock import system_clock
    from backfill_assets.requests import publish as publishing
    from backfill_assets.core.settings import Settings
    from backfill_assets.workspace import Workspace

    def die(*args, **kwargs):
        os.kill(os.getpid(), signal.SIGKILL)

    {point} = die
    ws = Workspace.open(Settings.from_environment(), clock=system_clock)
    operations.{action}
"""

READER = """
    import json, sys, time
    from deltalake import DeltaTable

    seen = set()
    print("reading", flush=True)
    while not sys.stdin.closed:
        rows = DeltaTable(sys.argv[1]).to_pyarrow_table(columns=["day", "_run_id"]).to_pylist()
        seen.add(tuple(sorted((str(row["day"]), row["_run_id"]) for row in rows)))
        if len(seen) == 1:
            print("once", flush=True)
        import select
        if select.select([sys.stdin], [], [], 0)[0]:
            break
    print(json.dumps(sorted(seen)))
"""


@pytest.fixture
def shop(published_shop: Shop) -> Shop:
    return published_shop


def killed(shop: Shop, action: str, point: str) -> None:
    """Runs an operation in a process of its own that is killed when it reaches a point."""
    script = textwrap.dedent(PUBLISHER).format(point=point, action=action)
    environment = {**os.environ, **shop_environment(shop.ws.settings.home)}
    ended = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=300)
    assert ended.returncode == -signal.SIGKILL, ended.stderr


@pytest.mark.long
def test_a_kill_between_the_commit_and_the_ledger_is_finished_by_recover(shop: Shop) -> None:
    run_id = shop.ready(MIDDLE)
    killed(shop, f"publish(ws, '{run_id}', by='ben')", DIE_AFTER)
    assert shop.amounts()[MIDDLE.start] == 40
    assert operations.state_of(shop.ws, run_id) is RunState.PUBLISHING
    (found,) = operations.recover(shop.ws, by="ops")
    assert "had landed" in found.outcome
    assert operations.state_of(shop.ws, run_id) is RunState.PUBLISHED
    assert audit(shop.ws).problems == ()
    assert operations.recover(shop.ws, by="ops") == ()


@pytest.mark.long
def test_a_kill_before_the_commit_changed_nothing_and_the_run_can_be_published_after_recover(shop: Shop) -> None:
    run_id, before = shop.ready(MIDDLE), shop.live_paths()
    killed(shop, f"publish(ws, '{run_id}', by='ben')", DIE_BEFORE)
    assert shop.live_paths() == before
    (found,) = operations.recover(shop.ws, by="ops")
    assert "nothing has changed" in found.outcome
    assert operations.state_of(shop.ws, run_id) is RunState.PASSED
    assert shop.live_paths() == before
    assert audit(shop.ws).problems == ()
    shop.publish(run_id)
    assert shop.amounts()[MIDDLE.start] == 40
    assert audit(shop.ws).problems == ()


@pytest.mark.long
def test_a_kill_in_a_rollback_ends_as_a_whole_rollback_or_none(shop: Shop) -> None:
    before = shop.live_paths()
    run_id = shop.published(MIDDLE)
    after = shop.live_paths()
    rollback = f"rollback(ws, '{run_id}', by='ben', reason='wrong')"
    killed(shop, rollback, DIE_BEFORE)
    operations.recover(shop.ws, by="ops")
    assert shop.live_paths() == after
    assert operations.state_of(shop.ws, run_id) is RunState.PUBLISHED
    killed(shop, rollback, DIE_AFTER)
    operations.recover(shop.ws, by="ops")
    assert shop.live_paths() == before
    assert operations.state_of(shop.ws, run_id) is RunState.ROLLED_BACK
    assert audit(shop.ws).problems == ()


@pytest.mark.long
def test_while_a_publication_is_open_another_one_on_the_table_is_refused(shop: Shop) -> None:
    one, other = shop.ready(MIDDLE), shop.ready(DayRange.inclusive(date(2026, 1, 8), date(2026, 1, 8)))
    killed(shop, f"publish(ws, '{one}', by='ben')", DIE_BEFORE)
    with pytest.raises(IllegalTransition, match="one open publication at a time"):
        shop.publish(other)
    operations.recover(shop.ws, by="ops")
    shop.publish(other)


@pytest.mark.long
def test_a_publisher_that_was_only_slow_cannot_commit_what_recover_gave_up(shop: Shop) -> None:
    run_id = shop.ready(MIDDLE)
    killed(shop, f"publish(ws, '{run_id}', by='ben')", DIE_BEFORE)
    with shop.ws.ledger.read() as reader:
        (record,) = reader.publications.records(states=[PublicationState.PUBLISHING])
    order, before = swap_order_of(record, "day", at=NOON), shop.live_paths()
    assert fence(shop.ws.lake, RECENT, record.publication_id) is None
    # The sleeper wakes up and goes on where it was.
    with pytest.raises(Refused, match="abandoned by a recovery"):
        swap(shop.ws.lake, order)
    assert shop.live_paths() == before


@pytest.mark.long
def test_a_run_whose_process_died_while_staging_is_failed_by_recover_and_can_run_again(shop: Shop) -> None:
    run_id = shop.planned(MIDDLE)
    with shop.ws.ledger.write() as writer:
        writer.runs.take(run_id, RunState.STAGING, actor="ana", attempt="a1")
    (found,) = operations.recover(shop.ws, by="ops")
    assert found.id == run_id
    assert operations.state_of(shop.ws, run_id) is RunState.FAILED
    shop.staged(run_id)
    assert operations.state_of(shop.ws, run_id) is RunState.PASSED


@pytest.mark.long
def test_work_of_a_killed_process_of_this_machine_is_ended_at_once_and_its_lease_is_not_waited_for(shop: Shop) -> None:
    run_id = shop.planned(MIDDLE)
    killed(shop, f"stage(ws, '{run_id}', actor='ana')", "staging._stage_rows")
    assert operations.state_of(shop.ws, run_id) is RunState.STAGING
    with shop.ws.ledger.read() as reader:
        held = reader.leases.get(run_id)
    assert held is not None and held.until_at > shop.ws.clock()
    assert stopped(shop.ws) == (run_id,)
    (found,) = operations.recover(shop.ws, by="ops")
    assert (found.id, found.outcome) == (run_id, "had stopped while STAGING")
    shop.staged(run_id)
    assert operations.state_of(shop.ws, run_id) is RunState.PASSED


def test_a_reader_in_another_process_never_sees_a_mixture(shop: Shop) -> None:
    run_id = shop.ready(OUTPUT)
    command = [sys.executable, "-c", textwrap.dedent(READER), str(folder_of(shop.ws.lake, RECENT))]
    reader = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert reader.stdin is not None
    assert reader.stdout is not None
    assert reader.stdout.readline() == "reading\n"
    assert reader.stdout.readline() == "once\n"
    for _ in range(10):
        shop.publish(run_id)
        operations.rollback(shop.ws, run_id, by="ben", reason="once more")
        operations.approve(shop.ws, run_id, by="ben")
    printed, _ = reader.communicate("stop\n", timeout=120)
    seen = [dict(pairs) for pairs in json.loads(printed.splitlines()[-1])]
    assert all(len(set(runs.values())) == 1 and len(runs) == len(OUTPUT) for runs in seen)
    assert len(seen) == 2, "the reader saw the rows from before and the rows from after"

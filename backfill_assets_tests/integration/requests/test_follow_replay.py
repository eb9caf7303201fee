"""Every month that publications and rollbacks affect is asked for once, however often the daemon is killed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from backfill_assets.ledger.states import UNPUBLISHED
from backfill_assets.orchestration import tags
from backfill_assets.report.status import status
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.faults.outbox import is_followed_once
from backfill_assets_tests.faults.replay import opened, replayed
from backfill_assets_tests.support.searches import is_thorough


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_every_affected_month_is_asked_for_once_none_is_missed_and_none_is_stuck(tmp_path: Path) -> None:
    publications, rollbacks, seed = (500, 50, 8) if is_thorough() else (20, 4, 7)
    replay = replayed(tmp_path / "home", publications=publications, rollbacks=rollbacks, seed=seed)
    assert (replay.publications, replay.rollbacks) == (publications, rollbacks)
    assert replay.kills > publications / 20
    ws = opened(tmp_path / "home")
    # None is missed: gold is the sum of its days, and nothing is asked for.
    assert replay.gold() == replay.sums()
    with ws.ledger.read() as tx:
        assert tx.outbox.entries(open_only=True) == ()
        assert tx.outbox.unfinished_follow_ups(UNPUBLISHED) == ()
        assert list(is_followed_once(tx)) == []
    # None is asked for twice: every manifest was launched once.
    launches = Counter(run.tags[tags.RUN_ID] for run in replay.launches)
    assert set(launches.values()) == {1}
    # None is stuck.
    found = status(ws)
    assert (found.stuck, found.to_follow, audit(ws).problems) == ((), (), ())
    ws.close()

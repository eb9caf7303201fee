"""The application of the example: live records and a replay by the same code."""

from __future__ import annotations

import random
from itertools import product

from backfill_assets.examples.enforcement_sla.case_alerts import MODE, REPLAYED, CaseAlerts

RECORDS: list[tuple[bytes, bytes | None, int]] = [
    *((f"c{case}".encode(), f"{case}-{at}".encode(), at) for at, case in product(range(5), range(3))),
    (b"c1", None, 9),  # deleted
]


def _taken(records: list[tuple[bytes, bytes | None, int]], application: CaseAlerts, *, replayed: bool) -> CaseAlerts:
    for key, value, at in records:
        application.take(key, value, sent_at=at, headers={MODE: REPLAYED} if replayed else {})
    return application


def test_a_replay_gives_the_state_of_the_live_records_and_alerts_nobody() -> None:
    live = _taken(RECORDS, CaseAlerts(), replayed=False)
    assert (live.last[b"c0"], live.last[b"c1"], live.alerts) == ((4, b"0-4"), (9, None), len(RECORDS))
    filled = _taken(RECORDS, CaseAlerts(), replayed=True)
    assert (filled.last, filled.alerts) == (live.last, 0)
    # A replay that is read first takes no alert away.
    assert _taken(RECORDS, filled, replayed=False).alerts == live.alerts


def test_records_that_come_twice_late_or_again_from_a_replay_change_nothing() -> None:
    live = _taken(RECORDS, CaseAlerts(), replayed=False)
    before = dict(live.last), live.alerts
    shuffled = random.Random(1).sample(RECORDS, len(RECORDS))
    _taken(shuffled, live, replayed=False)
    _taken(shuffled, live, replayed=True)
    assert (live.last, live.alerts) == before
    live.take(None, b"no case", sent_at=99, headers={})
    assert (live.last, live.alerts) == before

"""Where a run over snapshots begins: with the newest one that is up to date, and with none after a stale one."""

from __future__ import annotations

from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.planning.own_past import OwnPast, begins_with

FIRST = date(2026, 1, 1)
DAYS = [FIRST + timedelta(days=n) for n in range(12)]


@given(st.sampled_from(DAYS), st.sets(st.sampled_from(DAYS)), st.sets(st.sampled_from(DAYS)))
def test_a_run_begins_with_the_newest_snapshot_before_which_none_is_stale(
    first: date, accepted: set[date], stale: set[date]
) -> None:
    past = OwnPast(stale=dict.fromkeys(stale & accepted, "INPUT_CHANGED"))
    found = begins_with(first, sorted(accepted), past)
    valid = [day for day in sorted(accepted) if day < first and all(s > day for s in stale & accepted)]
    assert list(found.snapshots) == valid[-2:]
    assert [day for day, _ in found.skipped] == [day for day in sorted(accepted) if day < first and day not in valid]
    assert all(why for _, why in found.skipped)


def test_what_holds_for_one_release_says_nothing_about_a_run_of_another() -> None:
    past = OwnPast(stale={}, settled=frozenset(DAYS), code_digest="a")
    assert past.for_run("a", (), DAYS) is past
    other = past.for_run("b", (), DAYS)
    assert (set(other.stale), other.settled) == (set(DAYS), frozenset())
    assert begins_with(DAYS[5], DAYS, other).snapshots == ()

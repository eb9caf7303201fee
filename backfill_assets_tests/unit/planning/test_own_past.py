"""Where a run over snapshots begins: with the newest one that is up to date, and with none after a stale one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.calendar.partitions import Grain
from backfill_assets.planning.manifest_parts import PinnedInput, PinnedPartition
from backfill_assets.planning.stages import SnapshotHistory, begins_with, settled_in

FIRST = date(2026, 1, 1)
DAYS = [FIRST + timedelta(days=n) for n in range(12)]


@given(st.sampled_from(DAYS), st.sets(st.sampled_from(DAYS)), st.sets(st.sampled_from(DAYS)))
def test_a_run_begins_with_the_newest_snapshot_before_which_none_is_stale(
    first: date, accepted: set[date], stale: set[date]
) -> None:
    past = SnapshotHistory(stale=dict.fromkeys(stale & accepted, "INPUT_CHANGED"))
    found = begins_with(first, sorted(accepted), past)
    valid = [day for day in sorted(accepted) if day < first and all(s > day for s in stale & accepted)]
    assert list(found.snapshots) == valid[-2:]
    assert [day for day, _ in found.skipped] == [day for day in sorted(accepted) if day < first and day not in valid]
    assert all(why for _, why in found.skipped)


def test_what_has_expired_between_is_named_and_breaks_nothing() -> None:
    gone = dict.fromkeys((DAYS[1], DAYS[4], DAYS[9]), "it expired")
    past = SnapshotHistory(stale={DAYS[6]: "CODE_CHANGED"}, expired=gone)
    accepted = [DAYS[0], DAYS[2], DAYS[3], DAYS[6]]
    found = begins_with(DAYS[7], accepted, past)
    assert found.snapshots == (DAYS[2], DAYS[3])
    assert found.skipped == ((DAYS[4], "it expired"), (DAYS[6], "CODE_CHANGED"))
    assert begins_with(DAYS[7], accepted, past.for_run("other", (), accepted)).skipped[1] == (DAYS[1], "it expired")


def test_what_holds_for_one_release_says_nothing_about_a_run_of_another() -> None:
    settled = dict(zip(DAYS[1:], DAYS, strict=False))
    past = SnapshotHistory(stale={}, settled=settled, code_digest="a")
    assert past.for_run("a", (), DAYS) is past
    other = past.for_run("b", (), DAYS)
    assert (set(other.stale), other.settled) == (set(DAYS), {})
    assert begins_with(DAYS[5], DAYS, other).snapshots == ()


def test_a_snapshot_is_settled_for_a_run_that_has_the_one_before_it_and_whose_inputs_since_then_are_accepted() -> None:
    past = SnapshotHistory(stale={}, settled={DAYS[3]: DAYS[2], DAYS[4]: DAYS[3]})

    def settled(partitions: Sequence[date], staged: Collection[date] = ()) -> Sequence[tuple[date, date]]:
        pins = [
            PinnedPartition(partition=day, version=1, digest="d", from_run="other" if day in staged else None)
            for day in DAYS
        ]
        return settled_in(
            partitions, past, Grain.DAILY, [PinnedInput(argument="rows", table="silver.rows", partitions=tuple(pins))]
        )

    assert settled(DAYS[2:5]) == [(DAYS[2], DAYS[3]), (DAYS[3], DAYS[4])]
    assert settled([DAYS[2], DAYS[4]]) == []
    assert settled([DAYS[1], DAYS[3], DAYS[4]]) == [(DAYS[3], DAYS[4])]
    # Another run of the set computes the input of a day.
    assert settled(DAYS[2:5], staged=[DAYS[2]]) == [(DAYS[2], DAYS[3]), (DAYS[3], DAYS[4])]
    assert settled(DAYS[2:5], staged=[DAYS[4]]) == [(DAYS[2], DAYS[3])]

"""Which partitions and which kinds of rows a reviewer is shown."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.gates.measured import Measured, StateMove, added_up
from backfill_assets.gates.sample import RowKind, most_moved, places, rows_of_kind, shown
from backfill_assets_tests.support.landing_examples import EVENTS

DAYS = [date(2026, 1, 1) + timedelta(days=place) for place in range(6)]


def moved(before: str | None, after: str | None, rows: int = 1) -> StateMove:
    return StateMove(column="state", before=before, after=after, rows=rows)


def test_a_kind_that_is_rare_has_its_places_and_the_rest_goes_to_the_others() -> None:
    there = {RowKind.CHANGED: 900, RowKind.STATE: 2, RowKind.REMOVED: 30}
    assert places(there, 20) == {RowKind.STATE: 2, RowKind.ADDED: 0, RowKind.REMOVED: 9, RowKind.CHANGED: 9}
    assert places({RowKind.ADDED: 3}, 20)[RowKind.ADDED] == 3
    assert sum(places(dict.fromkeys(RowKind, 99), 3).values()) == 3


@given(st.dictionaries(st.sampled_from(RowKind), st.integers(0, 50)), st.integers(0, 40))
def test_places_are_filled_as_far_as_there_are_rows_and_no_kind_has_more_than_it_needs(
    there: dict[RowKind, int], most: int
) -> None:
    given_places = places(there, most)
    assert sum(given_places.values()) == min(most, sum(there.values()))
    assert all(given_places[kind] <= there.get(kind, 0) for kind in RowKind)
    short = [given_places[kind] for kind in RowKind if given_places[kind] < there.get(kind, 0)]
    assert not short or min(short) >= max(given_places.values()) - 1, "no kind is short while another has more"


def test_the_partition_with_the_most_rows_of_a_kind_is_sampled_however_few_these_are() -> None:
    measured = {day: Measured(partition=day, changed=100 - place) for place, day in enumerate(DAYS)}
    measured[DAYS[4]] = Measured(partition=DAYS[4], changed=5, state_moves=(moved("open", "closed", 5),))
    measured[DAYS[5]] = Measured(partition=DAYS[5], removed=1)
    assert most_moved(measured) == (DAYS[0], DAYS[4], DAYS[5])
    assert most_moved({day: Measured(partition=day) for day in DAYS}) == ()


def test_a_row_that_is_only_on_one_side_has_not_moved_to_another_state() -> None:
    found = Measured(
        partition=DAYS[0],
        state_moves=(moved("open", "closed", 2), moved("open", "open", 7), moved(None, "open"), moved("open", None)),
    )
    assert rows_of_kind(found, RowKind.STATE) == 2


def test_moves_of_several_partitions_are_added_up_with_the_most_rows_first() -> None:
    found = added_up([moved("open", "closed"), moved(None, "open", 3), moved("open", "closed", 4)])
    assert found == (moved("open", "closed", 5), moved(None, "open", 3))


def test_the_instants_of_a_sampled_row_say_that_they_are_in_utc() -> None:
    at = [datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in (10, 11)]
    values = {name: pa.nulls(1, pa.string()) for name in ("before_1", "before_2", "before_3", "after_1", "after_2")}
    instant = pa.timestamp("us", "UTC")
    found = pa.table(
        {
            "k_0": [DAYS[0]],
            "k_1": ["e1"],
            "before_0": pa.array(at[:1], instant),
            "after_0": pa.array(at[1:], instant),
            **values,
            "after_3": pa.nulls(1, pa.int32()),
            "kind": ["CHANGED"],
            "missing": [False],
            "moved": [0.0],
            "differing": [1],
            "tie": ["a"],
            "on_accepted": [True],
            "on_staged": [True],
        }
    )
    (row,) = shown([found], EVENTS)
    assert row.before is not None and row.before["event_time"] == "2026-01-01 10:00:00 UTC"
    assert row.after is not None and row.after["event_time"] == "2026-01-01 11:00:00 UTC"

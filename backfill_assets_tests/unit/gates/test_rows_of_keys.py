"""Every row that differs is given once, in the order of keys, and its keys are those that the gates count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.gates import by_values
from backfill_assets.gates.by_values import ADDED, CHANGED, EQUAL, REMOVED, Shape, opened
from backfill_assets.gates.measure import by_key, comparing

FIRST = date(2026, 1, 1)
SHAPE = Shape(key=("day", "id"), values=("share", "state"))
TYPES = {"day": pa.date32(), "id": pa.int32(), "share": pa.float64(), "state": pa.string()}
Rows = Sequence[tuple[date, int | None, float | None, str | None]]
ROWS = st.lists(
    st.tuples(
        st.sampled_from([FIRST, FIRST + timedelta(days=1)]),
        st.sampled_from([1, 2, 3, None]),
        st.sampled_from([0.0, -0.0, float("nan"), 1.0, None]),
        st.sampled_from(["a", "it's", None]),
    ),
    max_size=10,
)
DIFFERENT = (ADDED, REMOVED, CHANGED)


def as_arrow(rows: Rows) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [[]] * len(TYPES)
    arrays = [pa.array(list(v), kind, from_pandas=False) for v, kind in zip(columns, TYPES.values(), strict=True)]
    return pa.table(arrays, names=list(TYPES))


def found(
    new: Rows, old: Rows, kinds: Sequence[str] = DIFFERENT, *, where: str = "", shape: Shape = SHAPE
) -> list[Mapping[str, Any]]:
    with opened() as connection:
        prefix = "all_" if where else ""
        for view, rows in (("staged", new), ("accepted", old)):
            connection.register(f"{prefix}{view}", as_arrow(rows))
        if where:
            by_values.choosing(connection, where)
        query = by_values.rows_of_keys(connection, shape, kinds)
        given_rows = connection.sql(f"{query} {by_values.in_order(shape)}").to_arrow_table()
    rows_found: list[Mapping[str, Any]] = given_rows.to_pylist()
    return rows_found


def keys(rows: Sequence[Mapping[str, Any]]) -> Counter[str]:
    return Counter(row["kind"] for row in rows if row["is_first"])


@given(new=ROWS, old=ROWS)
@settings(max_examples=60, deadline=None)
def test_the_keys_of_the_rows_are_those_that_the_gates_count(new: Rows, old: Rows) -> None:
    with opened() as connection:
        connection.register("staged", as_arrow(new))
        connection.register("accepted", as_arrow(old))
        counted = by_key([comparing(SHAPE)(connection)], SHAPE).values()
    rows = found(new, old, by_values.KINDS)
    assert keys(rows) == Counter(
        {
            kind: count
            for kind, count in (
                (ADDED, sum(each.added for each in counted)),
                (REMOVED, sum(each.removed for each in counted)),
                (CHANGED, sum(each.changed for each in counted)),
                (EQUAL, sum(each.unchanged for each in counted)),
            )
            if count
        }
    )
    in_order = [(row["k_0"], row["k_1"] is None, row["k_1"] or 0, row["place"]) for row in rows]
    assert in_order == sorted(in_order)
    for row in rows:
        same = all(row[f"before_{n}"] == row[f"after_{n}"] for n in (0, 1))
        assert row["kind"] != EQUAL or row["differ"] == []
        if row["kind"] == CHANGED:
            assert row["differ"] or not (row["on_staged"] and row["on_accepted"])
        if row["differ"]:
            assert not same and set(row["differ"]) <= {"share", "state"}


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [((ADDED,), [3]), ((REMOVED,), [4]), ((CHANGED,), [1]), ((EQUAL,), [2]), (DIFFERENT, [1, 3, 4])],
)
def test_kinds_are_given_alone(kinds: Sequence[str], expected: list[int]) -> None:
    new: Rows = [(FIRST, 1, 1.0, "a"), (FIRST, 2, float("nan"), None), (FIRST, 3, 0.0, "a")]
    old: Rows = [(FIRST, 1, 2.0, "a"), (FIRST, 2, float("nan"), None), (FIRST, 4, 0.0, "a")]
    assert [row["k_1"] for row in found(new, old, kinds)] == expected


def test_a_condition_chooses_rows_that_fulfil_it_before_or_after() -> None:
    new: Rows = [(FIRST, 1, 1.0, "a"), (FIRST, 2, 5.0, "a"), (FIRST, 3, 5.0, "a")]
    old: Rows = [(FIRST, 1, 9.0, "a"), (FIRST, 2, 4.0, "a"), (FIRST, 4, 9.0, None)]
    rows = found(new, old, where="share > 8", shape=Shape(key=SHAPE.key, values=("share",), is_chosen=True))
    assert [(row["k_1"], row["kind"], row["differ"]) for row in rows] == [(1, CHANGED, ["share"]), (4, REMOVED, [])]


def test_rows_that_share_a_key_are_paired_and_equal_pairs_left_out() -> None:
    new: Rows = [(FIRST, 1, 1.0, "a"), (FIRST, 1, 2.0, "a"), (FIRST, 2, 1.0, "a")]
    old: Rows = [(FIRST, 1, 1.0, "a")]
    rows = found(new, old)
    assert [(row["kind"], row["is_first"], row["k_1"], row["before_0"], row["after_0"]) for row in rows] == [
        (CHANGED, True, 1, None, 2.0),
        (ADDED, True, 2, None, 1.0),
    ]
    assert (rows[0]["on_staged"], rows[0]["on_accepted"]) == (True, False)

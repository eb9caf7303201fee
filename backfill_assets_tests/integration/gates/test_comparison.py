"""Rows are equal if their values are, as Spark's `<=>` says, for every type that a contract allows."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as t

from backfill_assets.domain import Breakdown, DerivedTable
from backfill_assets.gates.by_values import Shape, opened
from backfill_assets.gates.measure import Comparing, by_key, compare_keys, comparing, shape_of
from backfill_assets.gates.measured import ByKey
from backfill_assets.gates.sample import sample_rows, sampling, shown
from backfill_assets_tests.integration.gates.test_gates import TABLE
from backfill_assets_tests.support.typed_values import FIRST, TYPES, VALUES, plain, values_of

DAY, KEY = "day", "id"


def here(staged: object, accepted: object, compare: Comparing) -> pa.Table:
    """What one process finds."""
    with opened() as connection:
        connection.register("staged", staged)
        connection.register("accepted", accepted)
        return compare(connection)


def shape_with(values: Sequence[str], **more: Any) -> Shape:
    return Shape(key=(DAY, KEY), values=tuple(values), **more)


def table_of(schema: t.StructType) -> DerivedTable:
    return replace(TABLE, schema=schema, gates=(), breakdown=None)


def as_written(frame: DataFrame, folder: Path) -> ds.Dataset:
    """Rows as Arrow reads them from a file that Spark wrote."""
    frame.coalesce(1).write.mode("overwrite").parquet(str(folder))
    return ds.dataset(str(folder), format="parquet")


@st.composite
def two_values(draw: st.DrawFn) -> tuple[Sequence[t.DataType], Sequence[tuple[tuple[Any, ...], tuple[Any, ...]]]]:
    """Types, and rows of them with another row each, in which a column is often the same."""
    kinds = draw(st.lists(TYPES, min_size=1, max_size=3))
    pair = st.tuples(*(st.tuples(values_of(kind), values_of(kind)) for kind in kinds))
    rows = draw(st.lists(pair, min_size=1, max_size=24))
    return kinds, [(tuple(new for new, _ in row), tuple(old for _, old in row)) for row in rows]


@pytest.mark.long
@given(drawn=two_values())
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_values_differ_where_spark_says_so(
    spark: SparkSession,
    tmp_path: Path,
    drawn: tuple[Sequence[t.DataType], Sequence[tuple[tuple[Any, ...], tuple[Any, ...]]]],
) -> None:
    kinds, pairs = drawn
    names = [f"c{place}" for place, _ in enumerate(kinds)]
    fields = [t.StructField(name, kind) for name, kind in zip(names, kinds, strict=True)]
    schema = t.StructType([t.StructField(DAY, t.DateType()), t.StructField(KEY, t.IntegerType()), *fields])
    staged, accepted = (
        spark.createDataFrame([(FIRST, place, *pair[side]) for place, pair in enumerate(pairs)], schema)
        for side in (0, 1)
    )
    both = staged.alias("s").join(accepted.alias("a"), on=KEY)
    differ = [~F.col(f"s.{name}").eqNullSafe(F.col(f"a.{name}")) for name in names]
    counted = both.select(*(F.count_if(each).alias(name) for each, name in zip(differ, names, strict=True)))
    (expected,) = counted.collect()
    shape = shape_with(names)
    new, old = as_written(staged, tmp_path / "staged"), as_written(accepted, tmp_path / "accepted")
    found = by_key([here(new, old, comparing(shape))], shape)[FIRST]
    assert dict(found.changed_columns) == {name: count for name, count in expected.asDict().items() if count}
    assert found.changed + found.unchanged == len(pairs)


@pytest.mark.long
@pytest.mark.parametrize("kind", VALUES, ids=lambda kind: kind.simpleString())
def test_every_value_of_a_type_equals_itself_alone(spark: SparkSession, kind: t.DataType) -> None:
    """Each value against each: NaN and NaN, zeros of either sign, null and null."""
    values = [None, *VALUES[kind]]
    pairs = [(left, right) for left in values for right in values]
    fields = [t.StructField(DAY, t.DateType()), t.StructField(KEY, t.IntegerType()), t.StructField("c", kind)]
    new, old = (
        spark.createDataFrame(
            [(FIRST, place, pair[side]) for place, pair in enumerate(pairs)], t.StructType(fields)
        ).toArrow()
        for side in (0, 1)
    )
    shape = shape_with(["c"])
    found = by_key([here(new, old, comparing(shape))], shape)[FIRST]
    assert found.unchanged == sum(plain(left) == plain(right) for left, right in pairs)


Rows = Sequence[tuple[date, int | None, float | None, str | None]]
SCHEMA = t.StructType(
    [
        t.StructField(DAY, t.DateType()),
        t.StructField(KEY, t.IntegerType()),
        t.StructField("share", t.DoubleType()),
        t.StructField("state", t.StringType()),
    ]
)
ROWS = st.lists(
    st.tuples(
        st.sampled_from([FIRST, FIRST + timedelta(days=1)]),
        st.sampled_from([1, 2, 3, None]),
        st.sampled_from([0.0, -0.0, float("nan"), 1.0, None]),
        st.sampled_from(["a", "it's", None]),
    ),
    max_size=8,
)


def by_plain_reading(new: Rows, old: Rows, day: date) -> Mapping[str, int]:
    """Several rows of a key are a set."""
    sides: list[dict[object, set[object]]] = []
    for rows in (new, old):
        keys: dict[object, set[object]] = {}
        for row in rows:
            if row[0] == day:
                keys.setdefault(row[1], set()).add(plain(row))
        sides.append(keys)
    staged, accepted = sides
    shared = staged.keys() & accepted.keys()
    return {
        "surplus": sum(row[0] == day for row in new) - len(staged),
        "accepted_rows": sum(row[0] == day for row in old),
        "added": len(staged.keys() - accepted.keys()),
        "removed": len(accepted.keys() - staged.keys()),
        "changed": sum(staged[key] != accepted[key] for key in shared),
        "unchanged": sum(staged[key] == accepted[key] for key in shared),
    }


def as_arrow(rows: Rows) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [[]] * len(SCHEMA)
    types = (pa.date32(), pa.int32(), pa.float64(), pa.string())
    arrays = [pa.array(list(values), kind, from_pandas=False) for values, kind in zip(columns, types, strict=True)]
    return pa.table(arrays, names=SCHEMA.fieldNames())


@pytest.mark.long
@given(new=ROWS, old=ROWS)
@settings(max_examples=40, deadline=None)
def test_keys_of_one_or_several_rows_are_counted_as_a_plain_reading_does(new: Rows, old: Rows) -> None:
    shape = shape_with(["share", "state"], listed=(("state", ("a", "it's")),))
    found = by_key([here(as_arrow(new), as_arrow(old), comparing(shape))], shape)
    for day in {row[0] for row in (*new, *old)}:
        expected = by_plain_reading(new, old, day)
        assert {name: getattr(found[day], name) for name in expected} == expected
        moved = sum(each.rows for each in found[day].state_moves)
        assert moved == sum(expected[name] for name in ("added", "removed", "changed"))
    alone = by_key([here(as_arrow(new), as_arrow(()), comparing(shape, is_alone=True))], shape)
    for day, each in alone.items():
        assert (each.surplus, each.added) == (found[day].surplus, len({row[1] for row in new if row[0] == day}))


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        # As many pairs as each side has rows, and yet a key that two rows share.
        ([1, 2], [1, 1], {"surplus": 0, "added": 1, "removed": 0, "changed": 0, "unchanged": 1}),
        ([1, 1], [1, 2], {"surplus": 1, "added": 0, "removed": 1, "changed": 0, "unchanged": 1}),
        ([], [1, 1], {"surplus": 0, "added": 0, "removed": 1, "changed": 0, "unchanged": 0}),
        ([1, 1], [], {"surplus": 1, "added": 1, "removed": 0, "changed": 0, "unchanged": 0}),
        ([1, 1, 1], [1, 1, 1], {"surplus": 2, "added": 0, "removed": 0, "changed": 0, "unchanged": 1}),
    ],
)
def test_a_shared_key_is_found_where_pairs_and_rows_are_equal_in_number(
    new: list[int], old: list[int], expected: Mapping[str, int]
) -> None:
    staged, accepted = (as_arrow([(FIRST, key, 1.0, "a") for key in side]) for side in (new, old))
    shape = shape_with(["share", "state"])
    found = by_key([here(staged, accepted, comparing(shape))], shape)[FIRST]
    assert {name: getattr(found, name) for name in expected} == expected


def test_a_key_that_thousands_of_rows_share_is_not_joined_with_each_of_them() -> None:
    new = as_arrow([(FIRST, 1, float(n), "a") for n in range(20_000)])
    old = as_arrow([(FIRST, 1, float(n), "b") for n in range(20_000)])
    shape = shape_with(["share", "state"])
    found = by_key([here(new, old, comparing(shape))], shape)[FIRST]
    assert (found.surplus, found.changed, found.accepted_rows) == (19_999, 1, 20_000)
    assert len(here(new, old, sampling(shape, 20))) == 20


@pytest.mark.long
@pytest.mark.parametrize("is_ranked", [False, True])
def test_sparks_workers_find_what_one_process_finds(spark: SparkSession, is_ranked: bool) -> None:
    days = [FIRST + timedelta(days=place) for place in range(5)]
    new: Rows = [(day, n, n / 3, "a" if n % 3 else None) for day in days for n in range(40)]
    old: Rows = [(day, n, n / 3 if n % 2 else float("nan"), "a") for day in days[:4] for n in range(5, 45)]
    new = [*new, *new[:2]]
    breakdown = Breakdown(measures={"shares": "share"}, rank_rows_by="shares") if is_ranked else None
    table = replace(table_of(SCHEMA), breakdown=breakdown)
    shape = shape_of(table, SCHEMA)
    staged, accepted = (spark.createDataFrame(list(rows), SCHEMA).repartition(3) for rows in (new, old))
    found: Mapping[date, ByKey] = by_key([here(as_arrow(new), as_arrow(old), comparing(shape))], shape)
    assert compare_keys(staged, accepted, table, schema=SCHEMA) == found
    assert found[days[0]].surplus == 2
    if not is_ranked:
        # However the rows are divided among groups of partitions, the same ones are shown, in the same order.
        groups = [
            [as_arrow([row for row in rows if (row[0] == days[0]) is first]) for rows in (new, old)]
            for first in (True, False)
        ]
        rows = shown([here(one, other, sampling(shape)) for one, other in groups], table)
        assert sample_rows(staged, accepted, table) == rows
    assert len(sample_rows(staged, accepted, table)) == 20


@pytest.mark.long
def test_what_a_worker_compares_on_disk_is_where_spark_removes_it(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(FIRST, 1, 0.5, "a")], SCHEMA)
    compare_keys(rows, rows, table_of(SCHEMA), schema=SCHEMA)

    def local_folders(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"folders": [os.environ["SPARK_LOCAL_DIRS"]]})

    found = rows.mapInArrow(local_folders, "folders string").collect()[0].folders.split(",")
    assert any(left for folder in found for left in Path(folder).glob("backfill-compare-*"))

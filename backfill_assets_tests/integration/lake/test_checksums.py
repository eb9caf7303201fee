"""Two sets of rows have one checksum if and only if they have the same rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from itertools import combinations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import types as t

from backfill_assets.lake.checksums import FORM, canonical, partition_checksums
from backfill_assets_tests.support.typed_values import FIRST, TYPES, plain, values_of

DAY = "day"


@st.composite
def partitions(draw: st.DrawFn) -> tuple[t.StructType, Sequence[Sequence[tuple[Any, ...]]]]:
    kinds = draw(st.lists(TYPES, min_size=1, max_size=3))
    rows = st.lists(st.tuples(*map(values_of, kinds)), min_size=1, max_size=3)
    fields = [t.StructField(f"c{place}", kind) for place, kind in enumerate(kinds)]
    return t.StructType([t.StructField(DAY, t.DateType()), *fields]), draw(st.lists(rows, min_size=2, max_size=12))


def checksums(spark: SparkSession, schema: t.StructType, held: Sequence[Sequence[tuple[Any, ...]]]) -> list[str]:
    """The checksum of each set of rows; each is a partition of its own, whose day is no part of the content."""
    rows = [(FIRST + timedelta(days=place), *row) for place, some in enumerate(held) for row in some]
    content = t.StructType([field for field in schema.fields if field.name != DAY])
    found = partition_checksums(spark.createDataFrame(rows, schema), DAY, content)
    return [found[FIRST + timedelta(days=place)] for place in range(len(held))]


@given(drawn=partitions())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_checksums_are_equal_if_and_only_if_the_rows_are(
    spark: SparkSession, drawn: tuple[t.StructType, Sequence[Sequence[tuple[Any, ...]]]]
) -> None:
    schema, held = drawn
    found = checksums(spark, schema, held)
    for left, right in combinations(range(len(held)), 2):
        same = Counter(map(plain, held[left])) == Counter(map(plain, held[right]))
        assert (found[left] == found[right]) is same, (schema.simpleString(), held[left], held[right])


RANGE = t.StructType([t.StructField("low", t.IntegerType()), t.StructField("high", t.IntegerType())])
NUMBERS = t.ArrayType(t.IntegerType())
FLAGS = t.ArrayType(t.BooleanType())


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (RANGE, [(None, 7), (7, None), (None, None), None]),
        (NUMBERS, [[], [None], [None, None], None, [0], [None, 0], [0, None]]),
        (FLAGS, [[None, True], [True, None], [True, False], [False, None], [True], [False, True]]),
        (t.ArrayType(NUMBERS), [[[]], [[], []], [[None]], [[1], [2]], [[1, 2]], [None], []]),
        (t.ArrayType(t.StringType()), [["ab"], ["a", "b"], ["", "ab"], ["ab", ""], ["ab", None]]),
        (
            t.ArrayType(RANGE),
            [[(1, None), (None, 2)], [(1, 2)], [None, (1, 2)], [(1, 2), None], [(1, None), (2, None)]],
        ),
    ],
    ids=lambda given: given.simpleString() if isinstance(given, t.DataType) else "",
)
def test_nulls_and_lengths_inside_nested_values_count(
    spark: SparkSession, kind: t.DataType, values: Sequence[object]
) -> None:
    schema = t.StructType([t.StructField(DAY, t.DateType()), t.StructField("value", kind)])
    found = checksums(spark, schema, [[(value,)] for value in values])
    assert len(set(found)) == len(values)


def test_values_of_columns_that_changed_places_or_digits_are_other_values(spark: SparkSession) -> None:
    """Spark hashes the values alone, and of a decimal its digits without the point."""
    low, high = (t.StructField(name, t.LongType()) for name in ("low", "high"))
    two, four = (t.StructField("rate", t.DecimalType(*digits)) for digits in ((5, 2), (7, 4)))
    day = t.StructField(DAY, t.DateType())
    for fields, others, values, same in (
        ((low, high), (high, low), (1, 2), (1, 2)),
        ((two,), (four,), (Decimal("12.50"),), (Decimal("0.1250"),)),
    ):
        found = checksums(spark, t.StructType([day, *fields]), [[values]])
        assert found != checksums(spark, t.StructType([day, *others]), [[same]])


def test_a_frame_that_is_named_like_a_struct_column_has_the_rows_that_it_has_without_a_name(
    spark: SparkSession,
) -> None:
    range_ = t.StructField("range", RANGE)
    schema = t.StructType([t.StructField(DAY, t.DateType()), t.StructField("low", t.IntegerType()), range_])
    plainly = spark.createDataFrame([(FIRST, 1, (2, 3))], schema)
    found = (partition_checksums(rows, DAY, schema) for rows in (plainly, plainly.alias("range")))
    assert next(found) == next(found)


def test_a_checksum_names_its_form(spark: SparkSession) -> None:
    schema = t.StructType([t.StructField(DAY, t.DateType()), t.StructField("value", t.LongType())])
    (found,) = checksums(spark, schema, [[(1,), (2,)]])
    assert found.startswith(f"{FORM}:2:")


def test_a_type_without_a_canonical_form_is_not_hashed() -> None:
    with pytest.raises(TypeError, match="map<string,int>"):
        canonical([t.StructField("m", t.ArrayType(t.MapType(t.StringType(), t.IntegerType())))])


@pytest.mark.long
def test_null_elements_of_arrays_that_files_hold_as_numbers_of_a_dictionary_are_hashed(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark's vectorized reader took what was in memory for the number of such an element, and stopped."""
    many: list[int | None] = list(range(40))
    held = [many] * 8 + [[None, 7, None]] * 8
    path = tmp_path / "arrays.parquet"
    table = pa.table({"value": pa.array(held, pa.list_(pa.int64())), DAY: [FIRST] * len(held)})
    pq.write_table(table, path, row_group_size=8)
    schema = t.StructType([t.StructField("value", t.ArrayType(t.LongType())), t.StructField(DAY, t.DateType())])
    content = t.StructType([schema["value"]])
    usual = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
    of_tests = {name: str(spark.conf.get(name)) for name in usual}
    try:
        for name, value in usual.items():
            spark.conf.set(name, value)
        found = partition_checksums(spark.read.schema(schema).parquet(str(path)), DAY, content)
    finally:
        for name, value in of_tests.items():
            spark.conf.set(name, value)
    plainly = spark.createDataFrame([(each, FIRST) for each in held], schema)
    assert found == partition_checksums(plainly, DAY, content)

"""The oracle of landed values against the examples of the specification, by hand."""

from __future__ import annotations

import gzip
import io
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import ArrayType, DataType, StringType, StructField, StructType

from backfill_assets_tests.faults.landing_oracle import FileRefused, Record, Wrong, csv_rows, expected

WRONG, MISFIT, BROKEN = "wrong", "misfit", "broken"


def typed(kind: str | DataType) -> DataType:
    """An atomic type by the name that Spark's JSON gives it."""
    return kind if isinstance(kind, DataType) else StructField.fromJson({"name": "v", "type": kind}).dataType


def struct(nullable: bool = True, **members: str | DataType) -> StructType:
    return StructType([StructField(name, typed(kind), nullable) for name, kind in members.items()])


def array(kind: str | DataType) -> ArrayType:
    return ArrayType(typed(kind))


OF_TEXTS: list[tuple[str | DataType, str, Any]] = [
    ("string", " a\r\n", " a\r\n"),
    ("string", "", ""),
    ("integer", "+5", 5),
    ("integer", "007", 7),
    ("integer", "-0", 0),
    ("integer", " 5", WRONG),
    ("integer", "5\n", WRONG),
    ("integer", "1e3", WRONG),
    ("integer", "٣", WRONG),
    ("integer", "  ", None),
    ("byte", "128", MISFIT),
    ("short", "-32768", -32768),
    ("long", "9223372036854775808", MISFIT),
    ("long", "0" * 20, WRONG),
    ("double", ".5", 0.5),
    ("double", "5.", 5.0),
    ("double", "1E+5", 1e5),
    ("double", "-0", -0.0),
    ("double", "1e400", MISFIT),
    ("double", "1e-400", MISFIT),
    ("double", "0e-400", 0.0),
    ("double", "Infinity", math.inf),
    ("float", "-Infinity", -math.inf),
    ("double", "nan", WRONG),
    ("double", "+Infinity", WRONG),
    ("decimal(10,2)", "NaN", WRONG),
    ("long", "NaN", WRONG),
    ("double", "1_000", WRONG),
    ("float", "16777217", 16777216.0),
    ("float", "1.00000005960464477539063", 1.0000001192092896),  # twice rounded it would be 1
    ("float", "1.000000059604644775390625", 1.0),  # half-way, so even
    ("float", "3.4028235677973366e38", 3.4028234663852886e38),
    ("float", "3.4028235677973367e38", MISFIT),
    ("float", "1e-46", MISFIT),
    ("decimal(10,2)", "0.0005", MISFIT),
    ("decimal(10,2)", "10000000.50", Decimal("10000000.50")),
    ("decimal(10,2)", "1.2300", Decimal("1.23")),
    ("decimal(10,2)", "1.239", MISFIT),
    ("decimal(10,2)", "100000000", MISFIT),
    ("decimal(10,0)", "120e-1", Decimal(12)),
    ("decimal(10,2)", "0e400", Decimal("0.00")),
    ("decimal(10,2)", "1e400", MISFIT),
    ("decimal(10,2)", "1,234.56", WRONG),
    ("decimal(10,2)", "(5)", WRONG),
    ("decimal(38,0)", "9" * 38, Decimal("9" * 38)),
    ("decimal(38,38)", "0." + "1" * 38, Decimal("0." + "1" * 38)),
    ("boolean", "true", True),
    ("boolean", "True", WRONG),
    ("date", "2026-02-28", 20512),
    ("date", "2026-02-30", WRONG),
    ("date", "2026-1-2", WRONG),
    ("date", "0001-01-01", -719162),
    ("timestamp", "1970-01-01T01:00+01:00", 0),
    ("timestamp", "1970-01-01 00:00:01.5-0130", 5_401_500_000),
    ("timestamp", "1970-01-01T00:00:00.000001000Z", 1),
    ("timestamp", "1970-01-01T00:00:00.0000011Z", MISFIT),
    ("timestamp", "1970-01-01T00:00:00", WRONG),
    ("timestamp", "1970-01-01T00:00:00 Europe/Rome", WRONG),
    ("timestamp_ntz", "1969-12-31 23:59:59.999999", -1),
    ("timestamp_ntz", "1970-01-01T00:00:00Z", WRONG),
    ("binary", "AP8=", b"\x00\xff"),
    ("binary", "AP8", WRONG),
    ("binary", "A_8=", WRONG),
    (array("integer"), '[1, "2", null, " "]', [1, 2, None, None]),
    (array("integer"), "[1,]", WRONG),
    (array("integer"), "null", WRONG),
    (array("integer"), '{"a": 1}', WRONG),
    (struct(a="date", b=array("string")), '{"b": [{"k": 1E5, "j": [ ]}]}', {"a": None, "b": ['{"k":1E5,"j":[]}']}),
    (struct(a="integer"), '{"a": 1, "A": 2}', WRONG),
    (struct(a="integer"), '{"a": 1, "a": 1}', WRONG),
    (struct(nullable=False, a="integer"), "{}", WRONG),
    (struct(a="decimal(3,1)"), '{"a": 1.25}', MISFIT),
]  # fmt: skip
ROUNDED: list[tuple[str | DataType, str, Any]] = [
    ("decimal(10,2)", "1.235", Decimal("1.24")),
    ("decimal(10,2)", "-0.005", Decimal("-0.01")),
    ("decimal(10,2)", "1e-400", Decimal("0.00")),
    ("decimal(10,2)", "99999999.995", MISFIT),
    ("timestamp", "1969-12-31T23:59:59.9999999Z", -1),
    ("double", "1e400", MISFIT),
]


def schema_of(kind: str | DataType, *, nullable: bool = True) -> StructType:
    return StructType([StructField("id", StringType(), nullable=False), StructField("v", typed(kind), nullable)])


def outcome(record: Record) -> Any:
    if record.broken is not None:
        return BROKEN
    value = record.values["v"]
    return (MISFIT if value.misfit else WRONG) if isinstance(value, Wrong) else value


@pytest.mark.parametrize(
    ("kind", "text", "value", "rounds"), [(*each, False) for each in OF_TEXTS] + [(*each, True) for each in ROUNDED]
)
def test_a_text_is_the_value_that_the_specification_says(
    kind: str | DataType, text: str, value: Any, rounds: bool
) -> None:
    content = 'id,v\nx,"{}"\n'.format(text.replace('"', '""')).encode()
    (record,) = expected(content, "a.csv", schema_of(kind), rounds=rounds)
    value = None if text == "" else value  # an empty field of a CSV
    assert repr(outcome(record)) == repr(value)


@pytest.mark.parametrize(
    ("line", "kind", "value"),
    [
        (b'{"id": "x", "v": 0.0005}', "string", "0.0005"),
        (b'{"id": "x", "v": 1E5}', "string", "1E5"),
        (b'{"id": "x", "v": -0}', "string", "-0"),
        (b'{"id": "x", "v": 20260102.10}', "string", "20260102.10"),
        (b'{"id": "x", "v": 12345678901234567.5}', "string", "12345678901234567.5"),
        (b'{"id": "x", "v": true}', "string", "true"),
        (b'{"id": "x", "v": ""}', "string", ""),
        (b'{"id": "x"}', "string", None),
        (b'{"id": "x", "v": {"b": 1.0, "a": [null, "\\u00e9"]}}', "string", '{"b":1.0,"a":[null,"é"]}'),
        (b'{"id": "x", "v": [1]}', "integer", WRONG),
        (b'{"id": "x", "v": 5.0}', "integer", WRONG),
        (b'{"id": "x", "v": 01}', "integer", BROKEN),
        (b'{"id": "x", "v": +1}', "integer", BROKEN),
        (b'{"id": "x", "v": .5}', "integer", BROKEN),
        (b'{"id": "x", "v": 1.}', "integer", BROKEN),
        (b'{"id": "x", "v": NaN}', "double", BROKEN),
        (b'{"id": "x", "v": {5: 1}}', "string", BROKEN),
        (b"{'id': 'x'}", "string", BROKEN),
        (b'{"id": "x"} more', "string", BROKEN),
        (b'{"id": "x", "\\u0069d": "y"}', "string", BROKEN),
        (b'{"id": "x", "w": {"\\ud800": 1}}', "string", BROKEN),
        (b'{"id": "x", "v": "\\\\ud800"}', "string", "\\ud800"),
        (b'{"id": "x", "v": "\\ud83d\\ude00"}', "string", "\U0001f600"),
        (b'{"id": "x", "v": "\xed\xa0\x80"}', "string", BROKEN),
    ],
)
def test_a_json_line_is_what_the_specification_says(line: bytes, kind: str | DataType, value: Any) -> None:
    (record,) = expected(gzip.compress(b"\xef\xbb\xbf\r\n" + line + b"\r"), "a.jsonl.gz", schema_of(kind))
    assert outcome(record) == value


def test_a_csv_keeps_what_is_inside_quotes_and_is_refused_where_its_rows_end_in_two_ways() -> None:
    rows = [["a", "b"], ["\x00x", 'say "hi",\r\nyou'], ["", ""], ["#", " 5' \" "]]
    assert csv_rows('a,b\n\x00x,"say ""hi"",\r\nyou"\n\n,""\n#, 5\' " ') == rows
    assert csv_rows("a,b\r1,\r") == [["a", "b"], ["1", ""]]
    with pytest.raises(FileRefused, match="line 3"):
        csv_rows("a,b\n1,2\n3,4\r\n5,6\n")
    records = expected("id,v\nx,1,2\ny\nz,\udcff\n".encode(errors="surrogateescape"), "a.csv", schema_of("string"))
    assert [outcome(record) for record in records] == [BROKEN] * 3


def test_a_required_column_needs_a_value() -> None:
    records = expected(b"id,v\nx,\ny, \n ,z\n", "a.csv", schema_of("string", nullable=False))
    assert [record.culprits for record in records] == [("v",), ("v",), ("id",)]


@pytest.mark.parametrize(
    ("column", "kind", "rounds", "value"),
    [
        (pa.array([Decimal("1.230")]), "decimal(10,2)", False, Decimal("1.23")),
        (pa.array([Decimal("1.235")]), "decimal(10,2)", False, MISFIT),
        (pa.array([Decimal("1.235")]), "decimal(10,2)", True, Decimal("1.24")),
        (pa.array([Decimal("2.0")]), "integer", False, 2),
        (pa.array([2.5]), "integer", True, WRONG),
        (pa.array([float("nan")]), "integer", False, WRONG),
        (pa.array([float("-inf")]), "double", False, -math.inf),
        (pa.array([0.1]), "float", False, MISFIT),
        (pa.array([0.1]), "float", True, 0.10000000149011612),
        (pa.array([-0.0]), "float", False, -0.0),
        (pa.array([2**53 + 1]), "double", False, MISFIT),
        (pa.array([2**53 + 1]), "double", True, float(2**53)),
        (pa.array([2**64 - 1], pa.uint64()), "long", False, MISFIT),
        (pa.array([1_000], pa.timestamp("ns", tz="UTC")), "timestamp", False, 1),
        (pa.array([-1], pa.timestamp("ns", tz="UTC")), "timestamp", False, MISFIT),
        (pa.array([-1], pa.timestamp("ns", tz="UTC")), "timestamp", True, -1),
        (pa.array([7], pa.timestamp("ms")), "timestamp_ntz", False, 7_000),
        (pa.array(["007"]).dictionary_encode(), "integer", False, 7),
        (pa.array(["AP8="]), "binary", False, b"\x00\xff"),
        (pa.array([b"\xff"]), "string", False, WRONG),
        (pa.array([b"\xff"], pa.large_binary()), "binary", False, b"\xff"),
        (pa.array([[{"a": "x", "b": 5}]]), array(struct(a="string", b="byte")), False, [{"a": "x", "b": 5}]),
        (pa.array([[1, None]]), array("long"), False, [1, None]),
        (pa.array([["[1]"]]), array(array("double")), False, [[1.0]]),
    ],
)  # fmt: skip
def test_a_parquet_value_is_what_the_specification_says(
    column: pa.Array, kind: str | DataType, rounds: bool, value: Any
) -> None:
    out = io.BytesIO()
    pq.write_table(pa.table({"id": ["x"], "v": column}), out)
    (record,) = expected(out.getvalue(), "a.parquet", schema_of(kind), rounds=rounds)
    assert repr(outcome(record)) == repr(value)


def test_whole_files_are_refused() -> None:
    out = io.BytesIO()
    pq.write_table(pa.table({"id": ["x"], "v": pa.array([[0]], pa.list_(pa.timestamp("us")))}), out)
    with pytest.raises(FileRefused):
        expected(out.getvalue(), "a.parquet", schema_of(array("timestamp")))
    with pytest.raises(FileRefused):
        expected('{"id": "x"}'.encode("utf-16"), "a.jsonl", schema_of("string"))

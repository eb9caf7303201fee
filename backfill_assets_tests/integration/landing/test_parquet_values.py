"""What values of a Parquet file become: exactly what they are, or a reason that names column, value and type."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from itertools import groupby
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from backfill_assets.core.clock import Clock
from backfill_assets.core.errors import UnreadableFile
from backfill_assets.core.settings import Settings
from backfill_assets.landing.parquet import ticks
from backfill_assets_tests.support.landing_examples import LandingRoom, landing_room, reasons
from backfill_assets_tests.support.value_examples import AT, COLUMNS, VALUES, found, no, parquet, plainly, unfit


@pytest.fixture
def room(spark: SparkSession, settings: Settings, clock: Clock) -> Iterator[LandingRoom]:
    with landing_room(spark, settings, clock, VALUES) as room:
        yield room


@pytest.fixture
def rounding(spark: SparkSession, settings: Settings, clock: Clock) -> Iterator[LandingRoom]:
    with landing_room(spark, settings, clock, replace(VALUES, rounds=True)) as room:
        yield room


Case = tuple[str, pa.DataType, Any, Any]
"""A column, a type and a value of it in a file, and what becomes of it."""


def judged(room: LandingRoom, column: str, kind: pa.DataType, values: Sequence[Any]) -> list[Any]:
    """What becomes of the values of a column."""
    rows = room.of(column).judge(parquet({column: pa.array(values, kind)}), "a.parquet")
    return [plainly(value) for value in found(rows, [column] * len(values))]


def wrong_ones(room: LandingRoom, cases: Sequence[Case]) -> list[tuple[Case, Any]]:
    """The cases that become something else."""
    wrong = []
    for (column, kind), some in groupby(cases, key=lambda case: case[:2]):
        alike = list(some)
        results = judged(room, column, kind, [case[2] for case in alike])
        wrong += [(case, result) for case, result in zip(alike, results, strict=True) if case[3] != result]
    return wrong


MONEY, NUMBER, WHOLE = "decimal(10,2)", "a number", "a whole number"
LONG_ENDS = 2.0**63
TINY = Decimal("0." + "0" * 36 + "1")


@pytest.mark.long
def test_numbers_of_parquet_are_taken_exactly_or_not_at_all(room: LandingRoom) -> None:
    cases: list[Case] = [
        ("money", pa.decimal128(12, 3), Decimal("0.004"), unfit("money", MONEY, "0.004")),
        ("money", pa.decimal128(12, 3), Decimal("0.010"), Decimal("0.01")),
        ("money", pa.decimal128(12, 3), Decimal("123456789.000"), unfit("money", MONEY, "123456789.000")),
        ("money", pa.uint64(), 5, Decimal("5.00")),
        ("money", pa.uint64(), 2**63, unfit("money", MONEY, str(2**63))),
        ("precise", pa.decimal128(38, 1), Decimal("12345678901234567890.5"), Decimal("12345678901234567890.5")),
        ("precise", pa.decimal128(38, 1), Decimal(10**30), unfit("precise", "decimal(38,18)", f"{10**30}.0")),
        ("whole", pa.decimal128(38, 37), TINY, no("whole", WHOLE, f"{TINY:f}")),
        ("whole", pa.decimal128(38, 37), Decimal(7), 7),
        ("whole", pa.int64(), 2**31, unfit("whole", "int", str(2**31))),
        ("whole", pa.int64(), -5, -5),
        ("long", pa.float64(), LONG_ENDS, unfit("long", "bigint", "9.223372036854776E18")),
        ("long", pa.float64(), -LONG_ENDS, -(2**63)),
        ("long", pa.float64(), 2.0**53, 2**53),
        ("long", pa.float64(), 0.5, no("long", WHOLE, "0.5")),
        ("long", pa.float32(), LONG_ENDS, unfit("long", "bigint", "9.223372E18")),
        ("long", pa.float32(), -0.0, 0),
        ("double", pa.int64(), 2**53, 2.0**53),
        ("double", pa.int64(), 2**53 + 1, unfit("double", "double", str(2**53 + 1))),
        ("double", pa.int64(), 2**63 - 1, unfit("double", "double", str(2**63 - 1))),
        ("float", pa.int32(), 2**24, 2.0**24),
        ("float", pa.int32(), 2**24 + 1, unfit("float", "float", str(2**24 + 1))),
        ("float", pa.float64(), 0.5, 0.5),
        ("float", pa.float64(), 0.1, unfit("float", "float", "0.1")),
        ("float", pa.float64(), 1e39, unfit("float", "float", "1.0E39")),
        ("float", pa.float64(), float("-inf"), float("-inf")),
        ("double", pa.float64(), float("inf"), float("inf")),
        ("long", pa.float64(), float("nan"), no("long", WHOLE, "NaN")),
        ("double", pa.float64(), 0.1, 0.1),
        ("double", pa.float32(), 0.5, 0.5),
        ("double", pa.float32(), float("-inf"), float("-inf")),
    ]
    assert wrong_ones(room, cases) == []


@pytest.mark.long
def test_numbers_of_parquet_are_rounded_where_the_source_says_so(rounding: LandingRoom) -> None:
    nearest = struct.unpack("f", struct.pack("f", 0.1))[0]
    before = datetime(1969, 12, 31, 23, 59, 59, 999999)  # noqa: DTZ001
    cases: list[Case] = [
        ("money", pa.decimal128(12, 3), Decimal("0.004"), Decimal("0.00")),
        ("money", pa.decimal128(12, 3), Decimal("-0.005"), Decimal("-0.01")),
        ("money", pa.decimal128(12, 3), Decimal("99999999.995"), unfit("money", MONEY, "99999999.995")),
        ("double", pa.int64(), 2**53 + 1, 2.0**53),
        ("float", pa.float64(), 0.1, nearest),
        ("float", pa.float64(), 1e39, unfit("float", "float", "1.0E39")),
        ("float", pa.float64(), 1e-60, unfit("float", "float", "1.0E-60")),
        ("whole", pa.float64(), 1.5, no("whole", WHOLE, "1.5")),
        ("at", pa.timestamp("ns", "UTC"), 1_714_557_600_000_000_999, AT),
        ("at", pa.timestamp("ns", "UTC"), -1, before),
    ]
    assert wrong_ones(rounding, cases) == []


def line_of(price: pa.DataType) -> pa.DataType:
    at = pa.struct([("at", pa.timestamp("ns", "UTC"))])
    return pa.struct([("when", at), ("tags", pa.list_(pa.string())), ("no", pa.int64()), ("price", price)])


@pytest.mark.long
def test_nanoseconds_of_parquet_are_times_when_they_are_whole_microseconds(room: LandingRoom) -> None:
    values = [1_714_557_600_000_000_000, 1_714_557_600_000_000_999, -1_000, None]
    before = datetime(1969, 12, 31, 23, 59, 59, 999999)  # noqa: DTZ001
    text = "2024-05-01T10:00:00.000000999"
    for column, kind, zone in (("at", pa.timestamp("ns", "UTC"), "Z"), ("local", pa.timestamp("ns"), "")):
        reason = unfit(column, COLUMNS[column].simpleString(), text + zone)
        assert judged(room, column, kind, values) == [AT, reason, before, None]


def int96(nanoseconds: int, *, nested: bool) -> bytes:
    """A file with a time in the earlier form of timestamps, in a column or inside a struct."""
    kind = pa.timestamp("ns", "UTC")
    value = {"no": 1, "price": None, "tags": None, "when": {"at": nanoseconds}}
    money = pa.decimal128(10, 2)
    line_type = pa.struct(
        [("no", pa.int32()), ("price", money), ("tags", pa.list_(pa.string())), ("when", pa.struct([("at", kind)]))]
    )
    column = {"line": pa.array([value], line_type)} if nested else {"at": pa.array([nanoseconds], kind)}
    return parquet(column, use_deprecated_int96_timestamps=True)


@pytest.mark.long
@pytest.mark.parametrize("nested", [False, True])
def test_digits_that_the_earlier_form_of_timestamps_would_lose_refuse_the_file(
    room: LandingRoom, rounding: LandingRoom, nested: bool
) -> None:
    name = "line" if nested else "at"
    room, rounding = room.of(name), rounding.of(name)
    assert reasons(room.judge(int96(1_000, nested=nested), "whole.parquet")) == [None]
    assert reasons(room.judge(int96(-(2**62) // 1000 * 1000, nested=nested), "long ago.parquet")) == [None]
    with pytest.raises(UnreadableFile, match=f"holds {name} with digits below the microsecond, as INT96"):
        room.judge(int96(1_001, nested=nested), "cut.parquet")
    assert reasons(rounding.judge(int96(1_001, nested=nested), "cut.parquet")) == [None]


def test_digits_inside_large_lists_and_maps_are_looked_at() -> None:
    kind = pa.timestamp("ns", "UTC")
    for held in (pa.large_list(kind), pa.map_(pa.string(), kind)):
        values = pa.array([[("a", 1_001)] if pa.types.is_map(held) else [1_001], None], held)
        assert [list(each) for each in ticks(values) if len(each)] == [[1_001]], held


def test_a_required_text_of_blanks_is_missing_also_where_it_is_bytes(room: LandingRoom) -> None:
    rows = room.of().judge(parquet({"event_id": pa.array([b" "])}), "blank.parquet")
    assert reasons(rows) == ["event_id is missing"]


def test_a_time_behind_a_column_that_spark_cannot_read_keeps_its_unit(room: LandingRoom) -> None:
    """Microseconds were taken for nanoseconds, and accepted: the time was another one."""
    pairs = pa.list_(pa.struct([("a", pa.int64()), ("b", pa.timestamp("ns", "UTC"))]), 1)
    at = pa.array([1_714_557_600_000_000], pa.timestamp("us", "UTC"))
    (row,) = room.of("at").judge(parquet({"odd": pa.array([[(1, 2)]], pairs), "at": at}), "a.parquet")
    assert (row["_reason"], row["at"]) == (None, AT)


@pytest.mark.long
def test_nanoseconds_are_found_behind_columns_that_spark_cannot_read(room: LandingRoom) -> None:
    pairs = pa.list_(pa.struct([("a", pa.timestamp("us")), ("b", pa.timestamp("us"))]), 1)
    table = {
        "odd": pa.array([[(1, 2)]], pairs),
        "ids": pa.array([b"x" * 16], pa.uuid()),
        "spans": pa.array([[1]], pa.list_(pa.duration("us"))),
        "at": pa.array([-(2**63) + 192], pa.timestamp("ns", "UTC")),
        "local": pa.array([1_714_557_600_000_000_000], pa.timestamp("ns")),
    }
    (row,) = room.of("at", "local").judge(parquet(table), "a.parquet")
    assert row["_reason"] == unfit("at", "timestamp", "1677-09-21T00:12:43.145224384Z")
    assert row["local"] == AT


def test_structs_of_parquet_are_judged_leaf_by_leaf(room: LandingRoom) -> None:
    whole, parts = 1_714_557_600_000_000_000, 1_714_557_600_000_000_999
    values = [
        {"no": 1, "price": Decimal("1.500"), "tags": ["a", None], "when": {"at": whole}},
        {"no": 2, "price": Decimal("1.501"), "tags": None, "when": None},
        {"no": 3, "price": None, "tags": [], "when": {"at": parts}},
        {"no": None, "price": None, "tags": [], "when": None},
        None,
    ]
    first, *others = judged(room, "line", line_of(pa.decimal128(12, 3)), values)
    assert first == {"no": 1, "price": Decimal("1.50"), "tags": ["a", None], "when": {"at": AT}}
    assert [str(each)[:17] for each in others] == ["line does not fit"] * 3 + ["None"]
    assert "1.501" in others[0]
    with pytest.raises(UnreadableFile, match="holds line as struct"):  # a double is no decimal
        judged(room, "line", line_of(pa.float64()), [None])


@pytest.mark.long
def test_arrays_and_bytes_of_parquet_are_judged_leaf_by_leaf(room: LandingRoom) -> None:
    values = [[1.0, 2.0], [], None, [1.5], [1.0, None]]
    unlike = [unfit("numbers", "array<int>", text) for text in ("[1.5]", "[1.0,null]")]
    assert judged(room, "numbers", pa.list_(pa.float64()), values) == [[1, 2], [], None, *unlike]
    assert judged(room, "bytes", pa.binary(), [b"\xff", b"", None]) == [b"\xff", b"", None]
    assert judged(room, "note", pa.large_binary(), [b"ok", b"\xff"]) == ["ok", "note is not UTF-8 text"]
    assert judged(room, "note", pa.string_view(), ["a", None]) == ["a", None]
    assert judged(room, "bytes", pa.binary_view(), [b"\xff", b"longer than twelve bytes"])[1][:6] == b"longer"
    odd = pa.StringArray.from_buffers(2, pa.py_buffer(struct.pack("<3i", 0, 1, 2)), pa.py_buffer(b"a\xff"))
    rows = room.of("note").judge(parquet({"note": odd}), "a.parquet")
    assert found(rows, ["note"] * 2) == ["a", "note is not UTF-8 text"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (pa.struct([("a", pa.duration("us")), ("b", pa.int8())]), None, None),
        (pa.struct([("a", pa.int8()), ("b", pa.null())]), {"a": 1, "b": None}, '{"a":1,"b":null}'),
        (pa.struct([("a", pa.timestamp("us", "UTC"))]), {"a": 1}, '{"a":"1970-01-01T00:00:00.000001Z"}'),
        (pa.struct([("a", pa.timestamp("ns"))]), {"a": 1_001}, '{"a":"1970-01-01T00:00:00.000001001"}'),
        (pa.struct([("a", pa.int32()), ("b", pa.string())]), {"a": None, "b": "x"}, '{"a":null,"b":"x"}'),
        (pa.map_(pa.string(), pa.decimal128(5, 3)), [("k", Decimal("1.500"))], '{"k":1.500}'),
        (pa.map_(pa.string(), pa.int64()), [("k", 1), ("k", 2)], "note cannot be written as JSON"),
        (pa.struct([("a", pa.float64())]), {"a": float("nan")}, "note cannot be written as JSON"),
    ],
)
def test_a_nested_value_of_parquet_becomes_a_json_object_exactly(
    spark: SparkSession, settings: Settings, clock: Clock, kind: pa.DataType, value: Any, text: str | None
) -> None:
    with landing_room(spark, settings, clock, replace(VALUES, json_columns=("note",))) as room:
        if value is None:
            with pytest.raises(UnreadableFile, match=r"holds note as struct.*which Spark cannot read"):
                judged(room, "note", kind, [value])
        else:
            assert judged(room, "note", kind, [value]) == [text]


EPOCH_DAY = 2_440_588
"""The day of 1 January 1970, counted as INT96 does."""


def far_away(*times: tuple[int, int]) -> bytes:
    """A file of days since 1970 and nanoseconds of them as INT96, which PyArrow does not write so far away."""
    content = parquet(
        {"at": pa.array([place * 1_000 for place in range(1, len(times) + 1)], pa.timestamp("ns"))},
        use_deprecated_int96_timestamps=True,
        compression="none",
        use_dictionary=False,
        write_statistics=False,
    )
    for place, (day, nanoseconds) in enumerate(times, 1):
        marked = struct.pack("<qi", place * 1_000, EPOCH_DAY)
        assert content.count(marked) == 1
        content = content.replace(marked, struct.pack("<qi", nanoseconds, EPOCH_DAY + day))
    return content


@pytest.mark.long
def test_a_time_in_the_earlier_form_that_is_of_no_year_of_four_digits_rejects_its_record_alone(
    room: LandingRoom,
) -> None:
    room = room.of("at")
    first, end = -719_162, 2_932_897
    far = (288_030 * 1461 // 4, 0)  # in the year 290000
    last = end - 1, 86_399_999_999_000
    # Spark writes that year so: its sum of days goes round.
    gone_round = (-107_846_000 - EPOCH_DAY, -14_454_775_807_000)
    second = first + 1  # no earlier day becomes a date of Python where the session is collected
    room.land(far_away((0, 0), far, (second, 0), (first - 1, 0), last, (end, 0), gone_round), "a.parquet")
    (rejected,) = room.quarantined.values()
    why = "at has a time of no year from 1 to 9999, as INT96"
    assert [(row["row_number"], row["reason"]) for row in rejected] == [(2, why), (4, why), (6, why), (7, why)]
    assert [row["at"] for row in room.bronze([AT.date()])] == [
        datetime(1970, 1, 1),  # noqa: DTZ001
        datetime(1, 1, 2),  # noqa: DTZ001
        datetime(9999, 12, 31, 23, 59, 59, 999_999),  # noqa: DTZ001
    ]
    with pytest.raises(UnreadableFile, match="holds at with digits below the microsecond, as INT96"):
        room.judge(far_away(far, (0, 1_001)), "b.parquet")
    with pytest.raises(UnreadableFile, match="holds at with years that no timestamp has, as INT96"):
        room.judge(far_away((213_503_982 + 20_000, 0)), "c.parquet")

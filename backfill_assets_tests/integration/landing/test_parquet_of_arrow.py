"""Whatever type PyArrow writes lands as PyArrow reads it, is rejected with its value, or refused with the way out."""

from __future__ import annotations

import io
import json
import math
import random
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from backfill_assets.core.clock import Clock
from backfill_assets.core.errors import UnreadableFile
from backfill_assets.core.settings import Settings
from backfill_assets.domain import SourceTable, daily
from backfill_assets_tests.support.landing_examples import LandingRoom, landing_room, reasons

KEY = (T.StructField("id", T.LongType(), nullable=False), T.StructField("at", T.TimestampType(), nullable=False))
AT = datetime(2024, 5, 1, 10, 0, tzinfo=UTC)


def source(kinds: Mapping[str, T.DataType], **changed: Any) -> SourceTable:
    declared: dict[str, Any] = {
        "name": "bronze.events",
        "key": ("id",),
        "event_time": "at",
        "partition": daily("event_date"),
        "schema": T.StructType([*KEY, *(T.StructField(name, kind) for name, kind in kinds.items())]),
    }
    return SourceTable(**{**declared, **changed})


@pytest.fixture
def room(spark: SparkSession, settings: Settings, clock: Clock) -> Iterator[LandingRoom]:
    with landing_room(spark, settings, clock, source({})) as room:
        yield room


def parquet(columns: Mapping[str, pa.Array], **options: Any) -> bytes:
    rows = len(next(iter(columns.values())))
    sink = io.BytesIO()
    own = {"id": pa.array(range(rows), pa.int64()), "at": pa.array([AT] * rows, pa.timestamp("us", "UTC"))}
    pq.write_table(pa.table({**own, **columns}), sink, **options)
    return sink.getvalue()


@dataclass(frozen=True, kw_only=True)
class Kind:
    """Values of a type of Arrow in a column of a contract, and what each becomes: by default what PyArrow reads."""

    found: pa.DataType
    values: Sequence[Any]
    column: T.DataType
    becomes: Sequence[Any] | None = None
    in_json: bool = False


def _json(value: Any) -> Any:
    """A nested value of PyArrow as JSON has it."""
    if isinstance(value, list) and value and all(isinstance(each, tuple) for each in value):
        return {str(name): _json(each) for name, each in value}
    if isinstance(value, list):
        return [_json(each) for each in value]
    if isinstance(value, dict):
        return {name: _json(each) for name, each in value.items()}
    return value


HALVES = np.array([0.5, -2.0, 65504.0, 6.1e-5, 5.96e-8, -0.0, 0.1, 1 / 3], np.float16)
LONG = T.ArrayType(T.LongType())
STRING, DOUBLE, FLOAT = T.StringType(), T.DoubleType(), T.FloatType()
MIDNIGHT = datetime(2024, 5, 1)  # noqa: DTZ001
IN_JSON: dict[str, Any] = {"column": STRING, "in_json": True}

KINDS: Mapping[str, Kind] = {
    "nulls": Kind(found=pa.null(), values=[None, None], column=T.IntegerType()),
    "nulls_text": Kind(found=pa.null(), values=[None, None], column=STRING),
    "nulls_nested": Kind(found=pa.null(), values=[None], column=T.StructType([T.StructField("a", LONG)])),
    "list_of_nulls": Kind(found=pa.list_(pa.null()), values=[[], None, [None]], column=LONG),
    "half": Kind(found=pa.float16(), values=[*HALVES, None], column=FLOAT, becomes=[*map(float, HALVES), None]),
    "half_as_double": Kind(found=pa.float16(), values=[*HALVES[:3]], column=DOUBLE, becomes=[0.5, -2.0, 65504.0]),
    "half_as_whole": Kind(found=pa.float16(), values=[*HALVES[1:3]], column=T.IntegerType(), becomes=[-2, 65504]),
    "halves": Kind(found=pa.list_(pa.float16()), values=[list(HALVES[:2]), None], column=T.ArrayType(FLOAT)),
    "u8": Kind(found=pa.uint8(), values=[0, 255, None], column=T.ShortType()),
    "u16": Kind(found=pa.uint16(), values=[0, 2**16 - 1], column=T.IntegerType()),
    "u32": Kind(found=pa.uint32(), values=[0, 2**32 - 1], column=T.LongType()),
    "u64": Kind(
        found=pa.uint64(), values=[0, 2**64 - 1], column=T.DecimalType(20, 0), becomes=[Decimal(0), Decimal(2**64 - 1)]
    ),
    "u64_as_text": Kind(found=pa.uint64(), values=[2**64 - 1], column=STRING, becomes=[str(2**64 - 1)]),
    "u64s": Kind(found=pa.list_(pa.uint64()), values=[[1, 2**63 - 1]], column=LONG),
    "decimal32": Kind(found=pa.decimal32(9, 2), values=[Decimal("1.25"), None], column=T.DecimalType(9, 2)),
    "decimal64": Kind(found=pa.decimal64(18, 2), values=[Decimal("-1.25")], column=T.DecimalType(18, 2)),
    "decimal256": Kind(found=pa.decimal256(38, 2), values=[Decimal("9" * 36 + ".25")], column=T.DecimalType(38, 2)),
    "fixed_list": Kind(found=pa.list_(pa.int32(), 2), values=[[1, 2], None], column=LONG),
    "large_list": Kind(found=pa.large_list(pa.int8()), values=[[1, 2], [], None], column=LONG),
    "list_view": Kind(found=pa.list_view(pa.int64()), values=[[1, 2], None], column=LONG),
    "large_view": Kind(found=pa.large_list_view(pa.int64()), values=[[1, None]], column=LONG),
    "large_text": Kind(found=pa.large_string(), values=["a", None, "é"], column=STRING),
    "text_view": Kind(found=pa.string_view(), values=["a", "longer than twelve bytes"], column=STRING),
    "fixed_bytes": Kind(found=pa.binary(4), values=[b"\0\1\2\xff", None], column=T.BinaryType()),
    "dictionary": Kind(found=pa.dictionary(pa.int8(), pa.string()), values=["a", None, "a"], column=STRING),
    "whole_dictionary": Kind(found=pa.dictionary(pa.int32(), pa.int64()), values=[5, None], column=T.LongType()),
    "uuid": Kind(
        found=pa.uuid(),
        values=[uuid.UUID(int=5).bytes, None, bytes(range(16))],
        column=STRING,
        becomes=[str(uuid.UUID(int=5)), None, str(uuid.UUID(bytes=bytes(range(16))))],
    ),
    "json": Kind(found=pa.json_(), values=['{"a":1.10}', None], column=STRING),
    "clock": Kind(
        found=pa.time32("s"),
        values=[time(0, 0), time(23, 59, 59), None],
        column=STRING,
        becomes=["00:00:00", "23:59:59", None],
    ),
    "clock_ms": Kind(found=pa.time32("ms"), values=[time(1, 2, 3, 40_000)], column=STRING, becomes=["01:02:03.04"]),
    "clock_us": Kind(found=pa.time64("us"), values=[time(1, 2, 3, 4)], column=STRING, becomes=["01:02:03.000004"]),
    "clock_ns": Kind(
        found=pa.time64("ns"), values=[1, 3_600_000_000_000], column=STRING, becomes=["00:00:00.000000001", "01:00:00"]
    ),
    "date64": Kind(found=pa.date64(), values=[date(2024, 5, 1), date(1582, 10, 10), None], column=T.DateType()),
    **{
        f"midnight_{unit}{'' if zone is None else '_utc'}": Kind(
            found=pa.timestamp(unit, zone),
            values=[MIDNIGHT, datetime(1969, 12, 31), None],  # noqa: DTZ001
            column=T.DateType(),
            becomes=[date(2024, 5, 1), date(1969, 12, 31), None],
        )
        for unit in ("s", "ms", "us", "ns")
        for zone in (None, "UTC")
    },
    "midnights": Kind(
        found=pa.list_(pa.struct([("day", pa.timestamp("ns"))])),
        values=[[{"day": MIDNIGHT}], []],
        column=T.ArrayType(T.StructType([T.StructField("day", T.DateType())])),
        becomes=[[{"day": date(2024, 5, 1)}], []],
    ),
    "map_of_maps": Kind(
        found=pa.map_(pa.string(), pa.map_(pa.string(), pa.list_(pa.uint16()))),
        values=[[("k", [("j", [1, 2]), ("l", None)])], [], None],
        becomes=[{"k": {"j": [1, 2], "l": None}}, {}, None],
        **IN_JSON,
    ),
    "map_of_numbers": Kind(
        found=pa.map_(pa.int32(), pa.struct([("x", pa.list_(pa.null())), ("h", pa.float16())])),
        values=[[(1, {"x": [None], "h": HALVES[0]}), (2, None)]],
        becomes=[{"1": {"x": [None], "h": 0.5}, "2": None}],
        **IN_JSON,
    ),
    "structs": Kind(
        found=pa.struct([("u", pa.uuid()), ("t", pa.time64("us")), ("d", pa.date32()), ("n", pa.null())]),
        values=[{"u": bytes(16), "t": time(1, 2), "d": date(2024, 5, 1), "n": None}],
        becomes=[{"u": str(uuid.UUID(int=0)), "t": "01:02:00", "d": "2024-05-01", "n": None}],
        **IN_JSON,
    ),
}


@pytest.mark.long
def test_every_type_lands_as_pyarrow_reads_it(room: LandingRoom) -> None:
    """One file with a column of each, padded with nulls to one length."""
    most = max(len(kind.values) for kind in KINDS.values())
    own = source(
        {name: kind.column for name, kind in KINDS.items()},
        json_columns=tuple(name for name, kind in KINDS.items() if kind.in_json),
    )
    columns = {
        name: array([*kind.values, *[None] * (most - len(kind.values))], kind.found) for name, kind in KINDS.items()
    }
    rows = replace(room, source=own).judge(parquet(columns), "a.parquet")
    wrong = {}
    for name, kind in KINDS.items():
        read = columns[name].to_pylist()
        expected = [*(read[: len(kind.values)] if kind.becomes is None else kind.becomes)]
        got = [_plainly(row[name]) for row in rows[: len(expected)]]
        if kind.in_json:
            got, expected = [each and json.loads(each) for each in got], [*map(_json, expected)]
        if repr(got) != repr([_plainly(each) for each in expected]):
            wrong[name] = (got, expected, [row["_reason"] for row in rows])
    assert wrong == {}


def array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """An array of a type, also of one that holds an extension type, which PyArrow does not make of a list itself."""
    if kind == KINDS["structs"].found:
        bare = pa.struct([("u", pa.binary(16)), *(kind.field(n) for n in range(1, kind.num_fields))])
        parts = pa.array(values, bare)
        members = [pa.ExtensionArray.from_storage(pa.uuid(), parts.field(0)), *map(parts.field, range(1, 4))]
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=parts.is_null())
    return pa.array(values, kind)


def _plainly(value: Any) -> Any:
    if isinstance(value, T.Row):
        return {name: _plainly(each) for name, each in value.asDict().items()}
    if isinstance(value, list):
        return [_plainly(each) for each in value]
    if isinstance(value, np.floating):
        return float(value)
    return bytes(value) if isinstance(value, bytearray) else value


@pytest.mark.long
def test_a_time_that_is_no_midnight_is_no_date(room: LandingRoom) -> None:
    late = datetime(2024, 5, 1, 0, 0, 0, 1)  # noqa: DTZ001
    own = replace(room, source=source({"day": T.DateType()}))
    for unit, zone, said in (
        ("us", None, "2024-05-01T00:00:00.000001"),
        ("ns", None, "2024-05-01T00:00:00.000001000"),
        ("us", "UTC", "2024-05-01T00:00:00.000001Z"),
    ):
        rows = own.judge(
            parquet({"day": pa.array([late, MIDNIGHT], pa.timestamp(unit, zone))}), f"{unit}{zone}.parquet"
        )
        assert _is_no_date(reasons(rows)[0], "day", said) and reasons(rows)[1] is None
    one = pa.array([1_714_521_600_000_000_001], pa.timestamp("ns"))
    (rejected,) = reasons(own.judge(parquet({"day": one}), "one.parquet"))
    assert _is_no_date(rejected, "day", "2024-05-01T00:00:00.000000001")


def _is_no_date(reason: str | None, column: str, said: str) -> bool:
    text = str(reason)
    return text.startswith(f"{column} is not a date like 2026-01-01") and text.endswith(f": '{said}'")


@pytest.mark.long
def test_midnight_of_an_instant_is_that_of_the_zone_of_the_source(room: LandingRoom) -> None:
    own = replace(room, source=source({"day": T.DateType()}, timezone="Europe/Amsterdam"))
    midnights = [datetime(2024, 4, 30, 22, tzinfo=UTC), datetime(2023, 12, 31, 23, tzinfo=UTC)]
    for unit in ("us", "ns"):
        stamps = pa.array([*midnights, AT], pa.timestamp(unit, "UTC"))
        rows = own.judge(parquet({"day": stamps}), f"{unit}.parquet")
        assert [row["day"] for row in rows] == [date(2024, 5, 1), date(2024, 1, 1), None]
        local = pa.array([MIDNIGHT], pa.timestamp(unit))
        assert own.judge(parquet({"day": local}), f"local {unit}.parquet")[0]["day"] == date(2024, 5, 1)


def test_an_event_time_can_be_a_date_that_pandas_wrote(room: LandingRoom) -> None:
    schema = T.StructType([T.StructField("id", T.LongType(), False), T.StructField("at", T.DateType(), False)])
    own = replace(room, source=source({}, schema=schema))
    table = parquet({"at": pa.array([MIDNIGHT, MIDNIGHT + timedelta(hours=1)], pa.timestamp("ns"))})
    rows = own.judge(table, "a.parquet")
    assert (rows[0]["at"], rows[0]["event_date"]) == (date(2024, 5, 1), date(2024, 5, 1))
    assert _is_no_date(reasons(rows)[1], "at", "2024-05-01T01:00:00.000000000")


def test_dates_and_times_of_pandas_are_joined(room: LandingRoom) -> None:
    columns: Any = {("day", "clock"): "at"}
    own = replace(room, source=source({}, columns=columns, timezone="Europe/Amsterdam"))
    stamps = pa.array([MIDNIGHT, MIDNIGHT, None, MIDNIGHT + timedelta(hours=1)], pa.timestamp("ns"))
    clocks = pa.array([time(12, 0), None, time(12, 0), time(12, 0)], pa.time64("us"))
    rows = own.judge(parquet({"day": stamps, "clock": clocks}), "a.parquet")
    assert rows[0]["at"] == AT.replace(tzinfo=None)
    assert reasons(rows)[:3] == [None, "at is missing", "at is missing"]
    assert "at is not a timestamp" in str(reasons(rows)[3])


REFUSED: Mapping[str, tuple[pa.Array, T.DataType, str, str]] = {
    "0 and 1 for a boolean": (
        pa.array([0, 1], pa.int8()),
        T.BooleanType(),
        "holds x as tinyint; the contract says boolean",
        "declare x as tinyint, or write it as boolean",
    ),
    "a double for a decimal": (
        pa.array([0.1]),
        T.DecimalType(10, 2),
        "holds x as double; the contract says decimal(10,2)",
        "declare x as double, or write it as decimal(10,2)",
    ),
    "a float of 16 bits for a decimal": (
        pa.array(HALVES),
        T.DecimalType(10, 2),
        "holds x as float; the contract says decimal(10,2)",
        "declare x as float, or write it as decimal(10,2)",
    ),
    "a duration": (
        pa.array([1], pa.duration("s")),
        T.LongType(),
        "holds x as duration[s], which Spark cannot read; the contract says bigint",
        "write x as bigint",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_type_that_cannot_become_the_contract_s_is_refused_with_the_way_out(room: LandingRoom, case: str) -> None:
    values, column, says, advises = REFUSED[case]
    with pytest.raises(UnreadableFile) as refusal:
        replace(room, source=source({"x": column})).land(parquet({"x": values}), "a.parquet")
    assert says in str(refusal.value)
    assert str(refusal.value.next_step) == advises
    assert room.imports() == ()


def test_a_column_of_nulls_that_every_record_needs_is_refused_unless_there_is_no_record(room: LandingRoom) -> None:
    nulls = {"id": pa.nulls(0), "at": pa.nulls(0)}
    assert room.judge(parquet(nulls), "empty.parquet") == []
    with pytest.raises(UnreadableFile, match="holds at without a type, as null in every record"):
        room.judge(parquet({"at": pa.nulls(1)}), "a.parquet")


@pytest.mark.long
def test_every_half_is_the_number_that_numpy_reads(room: LandingRoom) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    rows = replace(room, source=source({"x": FLOAT})).judge(parquet({"x": pa.array(every)}), "a.parquet")
    got = np.array([row["x"] for row in sorted(rows, key=lambda row: row["_row"])], np.float32)
    expected = every.astype(np.float32)
    is_same = (got == expected) & (np.signbit(got) == np.signbit(expected)) | (np.isnan(got) & np.isnan(expected))
    assert is_same.all(), [(e, g) for e, g, same in zip(expected, got, is_same, strict=True) if not same][:5]


# ---------------------------------------------------------------------------------------------- codecs and encodings

ENCODINGS: Mapping[str, Sequence[str]] = {
    "i": ("PLAIN", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"),
    "l": ("DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"),
    "f": ("BYTE_STREAM_SPLIT",),
    "d": ("PLAIN", "BYTE_STREAM_SPLIT"),
    "s": ("PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"),
    "b": ("PLAIN", "RLE"),
    "m": ("BYTE_STREAM_SPLIT", "DELTA_BYTE_ARRAY"),
}
CODECS = ("none", "snappy", "gzip", "brotli", "lz4", "zstd")
OF_CODECS: Mapping[str, T.DataType] = {
    "i": T.IntegerType(),
    "l": T.LongType(),
    "f": FLOAT,
    "d": DOUBLE,
    "s": STRING,
    "b": T.BooleanType(),
    "m": T.DecimalType(30, 2),
}


def numbers(rows: int = 3_000) -> dict[str, pa.Array]:
    chance = random.Random(59)
    return {
        "i": pa.array([chance.choice([None, n, -n]) for n in range(rows)], pa.int32()),
        "l": pa.array([chance.randrange(-(2**62), 2**62) for _ in range(rows)], pa.int64()),
        "f": pa.array([chance.uniform(-1, 1) for _ in range(rows)], pa.float32()),
        "d": pa.array([chance.uniform(-1e300, 1e300) for _ in range(rows)]),
        "s": pa.array([f"key {n % 7}" * (n % 5) or None for n in range(rows)]),
        "b": pa.array([chance.choice([True, False, None]) for _ in range(rows)]),
        "m": pa.array([Decimal(chance.randrange(10**25)) / 100 for _ in range(rows)], pa.decimal128(30, 2)),
    }


def _equal(got: Any, expected: Any) -> bool:
    return got == expected or (isinstance(expected, float) and math.isclose(got, expected, rel_tol=0, abs_tol=0))


def compare(room: LandingRoom, columns: Mapping[str, pa.Array], content: bytes, name: str) -> list[Any]:
    """The values that differ from those that PyArrow reads."""
    own = replace(room, source=source({each: OF_CODECS[each] for each in columns}))
    rows = sorted(own.judge(content, name), key=lambda row: row["_row"])
    assert len(rows) == len(next(iter(columns.values())))
    assert set(reasons(rows)) == {None}
    read = {each: columns[each].to_pylist() for each in columns}
    return [
        (name, each, row["_row"], row[each], read[each][place])
        for place, row in enumerate(rows)
        for each in columns
        if not _equal(row[each], read[each][place])
    ][:3]


@pytest.mark.long
@pytest.mark.parametrize("pages", ["1.0", "2.0"])
def test_every_encoding_is_read_as_pyarrow_reads_it(room: LandingRoom, pages: str) -> None:
    """In each file every column has another encoding than in the others."""
    wrong: list[Any] = []
    columns = numbers()
    for number in range(max(map(len, ENCODINGS.values()))):
        chosen = {name: some[number % len(some)] for name, some in ENCODINGS.items()}
        content = parquet(
            columns, use_dictionary=False, column_encoding=chosen, data_page_version=pages, write_page_checksum=True
        )
        wrong += compare(room, columns, content, f"{number}.parquet")
    assert wrong == []


@pytest.mark.long
@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_is_read_as_pyarrow_reads_it(room: LandingRoom, codec: str) -> None:
    levels = (1, 19) if codec == "zstd" else (None,)
    columns = numbers()
    for level in levels:
        content = parquet(columns, compression=codec, compression_level=level, row_group_size=700)
        assert compare(room, columns, content, f"{codec}{level}.parquet") == []


@pytest.mark.long
def test_only_files_that_spark_does_not_read_are_written_anew(room: LandingRoom) -> None:
    """With the same rows in the same order, and removed when they have landed."""
    columns = numbers(2_500)
    own = replace(room, source=source({each: OF_CODECS[each] for each in columns}))
    for codec, is_new in (("zstd", False), ("brotli", True)):
        (offered,) = own.offered([own.write(parquet(columns, compression=codec), f"{codec}.parquet")])
        work = own.work()
        with work.turn():
            (found,) = work.captured(offered)
            assert bool(found.read_from) is is_new, codec
            assert found.file.kind == found.kind
        assert not list(work.landing.listed(work.place.stored_path("decoded")))
    landed = own.land(parquet(columns, compression="brotli"), "brotli.parquet")
    assert (landed.record.counts.landed, landed.record.counts.rejected) == (2_500, 0)


def test_int96_beside_what_spark_does_not_read_is_refused(room: LandingRoom) -> None:
    """PyArrow would give its instants another unit, and no zone."""
    stamps = pa.array([AT], pa.timestamp("us", "UTC"))
    content = parquet({"x": stamps}, use_deprecated_int96_timestamps=True, compression="brotli")
    with pytest.raises(UnreadableFile, match="holds at as INT96 beside what Spark cannot read"):
        replace(room, source=source({"x": T.TimestampType()})).judge(content, "a.parquet")


def test_hadoop_s_lz4_of_spark_is_read(room: LandingRoom) -> None:
    """Which is not the LZ4 of Parquet, and which Spark itself reads in one of its two forms alone."""
    folder = room.inbox / "lz4"
    room.spark.range(1_000).selectExpr("id", "timestamp'2024-05-01 10:00:00' at", "cast(id as string) s").coalesce(
        1
    ).write.option("compression", "lz4").parquet(folder.as_uri())
    (path,) = folder.glob("*.parquet")
    assert pq.ParquetFile(path).metadata.row_group(0).column(0).compression == "UNKNOWN"
    own = replace(room, source=source({"s": STRING}))
    rows = own.judge(path.read_bytes(), "a.parquet")
    assert [row["s"] for row in rows] == [str(n) for n in range(1_000)]


@pytest.mark.long
def test_a_time_after_the_year_9999_is_rejected_alone(room: LandingRoom) -> None:
    """No date of Python has it, so that whoever looked at the table afterwards would stop."""
    own = replace(room, source=source({"x": T.TimestampType(), "l": T.TimestampNTZType(), "d": T.DateType()}))
    last = 253_402_300_799_999_999
    stamps = pa.array([last, last + 1, -62_135_596_800_000_000, -62_135_596_800_000_001], pa.int64())
    days = pa.array([2_932_896, 2_932_897, -719_162, -719_163], pa.int32())
    content = parquet(
        {"x": stamps.cast(pa.timestamp("us", "UTC")), "l": stamps.cast(pa.timestamp("us")), "d": days.cast(pa.date32())}
    )
    landed = own.land(content, "a.parquet")
    assert [row["row_number"] for row in own.quarantined[landed.record.import_id]] == [2, 4]

"""Every type that a contract allows, on the whole way: landed as lines and as Parquet, built, published, compared."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

from backfill_assets.application.land import land_files
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.domain import Domain, SourceTable, TransformContext, daily, derived_table, expression
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.report.landed import landed_page
from backfill_assets.report.page import Note
from backfill_assets.upkeep.audit import audit
from backfill_assets.upkeep.reproduce import reproduce_run
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import worded
from backfill_assets_tests.support.shop import Shop, open_shop, ticking_clock

DAY = date(2026, 1, 5)
AT = datetime(2026, 1, 5, 9, 30, 0, 250_000, tzinfo=UTC)

VALUES: Mapping[str, tuple[t.DataType, pa.DataType, Any]] = {
    "text": (t.StringType(), pa.string(), "Forlì, 5 \N{EURO SIGN}"),
    "flag": (t.BooleanType(), pa.bool_(), True),
    "byte": (t.ByteType(), pa.int8(), -128),
    "short": (t.ShortType(), pa.int16(), 32_767),
    "whole": (t.IntegerType(), pa.int32(), -(2**31)),
    "long": (t.LongType(), pa.int64(), 2**63 - 1),
    "amount": (t.DecimalType(38, 18), pa.decimal128(38, 18), Decimal("12345678901234567890.123456789012345678")),
    "on": (t.DateType(), pa.date32(), date(2024, 2, 29)),
    "since": (t.TimestampType(), pa.timestamp("us", tz="UTC"), AT),
    "local-time": (t.TimestampNTZType(), pa.timestamp("us"), AT.replace(tzinfo=None)),
}
"""Of each type that can be of a key: a value, and how Arrow holds it."""

OTHERS: Mapping[str, tuple[t.DataType, pa.DataType, Any]] = {
    "share": (t.FloatType(), pa.float32(), 0.5),
    "größe": (t.DoubleType(), pa.float64(), 0.1),
    "content": (t.BinaryType(), pa.binary(), b"\x00\xff"),
    "position": (
        t.StructType([t.StructField("low", t.LongType()), t.StructField("_high", t.DecimalType(10, 2))]),
        pa.struct([("low", pa.int64()), ("_high", pa.decimal128(10, 2))]),
        {"low": None, "_high": Decimal("7.10")},
    ),
    "items": (
        t.ArrayType(
            t.StructType([t.StructField("sku", t.StringType()), t.StructField("n", t.ArrayType(t.LongType()))])
        ),
        pa.list_(pa.struct([("sku", pa.string()), ("n", pa.list_(pa.int64()))])),
        [{"sku": "a", "n": [1, None]}, None, {"sku": None, "n": []}],
    ),
}

EVERY = {**VALUES, **OTHERS}
FIELDS = [t.StructField(name, kind) for name, (kind, _, _) in EVERY.items()]

things = SourceTable(
    name="bronze.things",
    key=("id", *VALUES),
    event_time="at",
    partition=daily("day"),
    schema=t.StructType(
        [
            t.StructField("id", t.StringType(), nullable=False),
            t.StructField("at", t.TimestampType(), nullable=False),
            t.StructField("codes", t.ArrayType(t.StringType(), containsNull=False), nullable=False),
            *FIELDS,
        ]
    ),
)


@derived_table(
    name="silver.things_of_the_day",
    inputs={"things": things},
    key=("day", "id", *VALUES),
    partition=daily("day"),
    schema=t.StructType(
        [
            t.StructField("day", t.DateType(), nullable=False),
            t.StructField("id", t.StringType(), nullable=False),
            *FIELDS,
        ]
    ),
    version="1.0.0",
)
def things_of_the_day(things: DataFrame, ctx: TransformContext) -> DataFrame:
    """Grain: one row per thing."""
    return things.select("day", "id", *EVERY)


DOMAIN = Domain(
    name="example",
    package="backfill_assets_tests.domains.example",
    sources=(things,),
    derived=(things_of_the_day,),
)


@pytest.fixture
def shop(tmp_path: Path, spark: SparkSession) -> Iterator[Shop]:
    opened = open_shop(tmp_path / "home", clock=ticking_clock(NOON), spark=spark)
    yield replace(opened, ws=replace(opened.ws, domain=DOMAIN))
    opened.ws.close()


def _in_json(value: Any) -> Any:
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case Decimal() | date():
            return str(value)
        case _:
            return value


def as_lines(rows: Sequence[Mapping[str, Any]]) -> bytes:
    return b"".join(json.dumps(row, default=_in_json).encode() + b"\n" for row in rows)


def as_parquet(rows: Sequence[Mapping[str, Any]]) -> bytes:
    arrow = {name: held for name, (_, held, _) in EVERY.items()}
    schema = pa.schema(
        [("id", pa.string()), ("at", pa.timestamp("us", tz="UTC")), ("codes", pa.list_(pa.string())), *arrow.items()]
    )
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(list(rows), schema), sink)
    return bytes(sink.getvalue().to_pybytes())


def row(name: str, **changed: Any) -> Mapping[str, Any]:
    return {
        "id": name,
        "at": AT,
        "codes": ["a", ""],
        **{column: value for column, (_, _, value) in EVERY.items()},
        **changed,
    }


def land(shop: Shop, name: str, content: bytes) -> Mapping[str, int]:
    path = shop.folder / name
    path.write_bytes(content)
    landed = operations.land(shop.ws, things.name, path, on_duplicate=OnDuplicate.IGNORE, by="ana")
    counts = landed.record.counts
    return {"accepted": counts.accepted, "duplicate": counts.duplicate, "rejected": counts.rejected}


def load(shop: Shop) -> None:
    run = operations.plan_load(shop.ws, things.name, partitions=None, by="ana", reason="landed")
    assert run is not None
    operations.stage(shop.ws, run.run_id, actor="ana")
    operations.gate(shop.ws, run.run_id, actor="ana")
    operations.publish(shop.ws, run.run_id, by="ana")


def restated(shop: Shop, reason: str) -> tuple[str, int]:
    """A run of the day and how many partitions it changed."""
    days = DayRange.inclusive(DAY, DAY)
    run_id = shop.planned(days, table=things_of_the_day.name, reason=reason)
    operations.approve(shop.ws, run_id, by="ben")
    shop.staged(run_id)
    return run_id, len(shop.publish(run_id).changes)


def read(shop: Shop, table: str) -> list[Mapping[str, Any]]:
    rows = shop.ws.lake.open(table).to_pyarrow_table(columns=["id", *EVERY]).sort_by("id").to_pylist()
    return [dict(each) for each in rows]


@pytest.mark.long
def test_every_type_is_landed_published_and_compared(shop: Shop) -> None:
    first, second = row("as a line"), row("in parquet", **dict.fromkeys(OTHERS))
    assert land(shop, "things.jsonl", as_lines([first])) == {"accepted": 1, "duplicate": 0, "rejected": 0}
    assert land(shop, "things.parquet", as_parquet([second])) == {"accepted": 1, "duplicate": 0, "rejected": 0}
    again = as_parquet([first]), as_lines([second])
    assert land(shop, "again.parquet", again[0]) == {"accepted": 0, "duplicate": 1, "rejected": 0}
    assert land(shop, "again.jsonl", again[1]) == {"accepted": 0, "duplicate": 1, "rejected": 0}
    load(shop)
    expected = [{name: each[name] for name in ("id", *EVERY)} for each in (first, second)]
    assert read(shop, things.name) == expected
    run_id, changed = restated(shop, "the first time")
    assert changed == 1
    assert read(shop, things_of_the_day.name) == expected
    assert restated(shop, "nothing has changed")[1] == 0
    assert reproduce_run(shop.ws, run_id, by="ana").identical

    corrected = row("as a line", position={"low": 7, "_high": None})
    assert land(shop, "corrected.jsonl", as_lines([corrected])) == {"accepted": 1, "duplicate": 0, "rejected": 0}
    load(shop)
    assert restated(shop, "a member of a struct has changed")[1] == 1
    assert read(shop, things_of_the_day.name)[0]["position"] == {"low": 7, "_high": None}
    assert audit(shop.ws).problems == ()


@pytest.mark.long
def test_a_load_that_a_gate_blocks_is_not_called_built(shop: Shop) -> None:
    guarded = replace(things, gates=(expression("small", "whole < 0"),))
    domain = Domain(name="example", package="backfill_assets_tests.domains.example", sources=(guarded,), derived=())
    ws = replace(shop.ws, domain=domain)
    path = shop.folder / "things.jsonl"
    path.write_bytes(as_lines([row("too large", whole=7)]))
    ana = Acting(by="ana", recorder=Unrecorded())
    report = land_files(ws, things.name, [path], ana, on_duplicate="ignore", builds=True)
    assert report.load is not None
    run_id = report.load.run.record.run_id
    assert report.load.is_blocked
    said = f"bronze.things: not built, because a gate blocked {run_id}: 2026-01-05, 1 day"
    assert Note(text=said) in landed_page(report).blocks
    assert worded(report.next_steps[-1]) == f"backfill report {run_id}"

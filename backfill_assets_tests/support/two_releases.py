"""Two releases: a domain whose landed records say which rows the earlier release computes and which the present one.

So any two sides of a table can be written down in one file, and are computed, gated and published as rows of anybody.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as t

from backfill_assets.domain import Domain, SourceTable, TransformContext, daily, derived_table
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.shop import Shop, open_shop, ticking_clock

FIRST = date(2026, 1, 1)
NAN = float("nan")
POINT = t.StructType([t.StructField("x", t.DoubleType()), t.StructField("n", t.ArrayType(t.LongType()))])
VALUES: Mapping[str, tuple[t.DataType, pa.DataType, Sequence[Any]]] = {
    "share": (t.DoubleType(), pa.float64(), (0.0, -0.0, 1.5, NAN, None)),
    "cost": (t.DecimalType(12, 2), pa.decimal128(12, 2), (Decimal("1.00"), Decimal("1.10"), None)),
    "state": (t.StringType(), pa.string(), ("", "a", '=a, "b"\nc', "null", None)),
    "since": (
        t.TimestampType(),
        pa.timestamp("us", tz="UTC"),
        (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC), None),
    ),
    "local": (t.TimestampNTZType(), pa.timestamp("us"), (datetime(2026, 1, 1), datetime(2026, 1, 2), None)),  # noqa: DTZ001 - a local time
    "point": (
        POINT,
        pa.struct([("x", pa.float64()), ("n", pa.list_(pa.int64()))]),
        ({"x": NAN, "n": [1, None]}, {"x": 0.0, "n": []}, {"x": -0.0, "n": []}, None),
    ),
    "content": (t.BinaryType(), pa.binary(), (b"", b"\x00\xff", None)),
}
"""Of each column: its type, how Arrow holds it, and few values, so that rows are often equal."""

records = SourceTable(
    name="bronze.records",
    key=("record",),
    event_time="at",
    partition=daily("day"),
    schema=t.StructType(
        [
            t.StructField("record", t.LongType(), nullable=False),
            t.StructField("at", t.TimestampType(), nullable=False),
            t.StructField("id", t.StringType(), nullable=False),
            t.StructField("is_before", t.BooleanType(), nullable=False),
            *(t.StructField(name, kind) for name, (kind, _, _) in VALUES.items()),
        ]
    ),
)


def _rows(records: DataFrame, *, before: bool) -> DataFrame:
    return records.where(sf.col("is_before") == before).select("day", "id", *VALUES)


def _before(records: DataFrame, ctx: TransformContext) -> DataFrame:
    return _rows(records, before=True)


@derived_table(
    name="silver.things",
    inputs={"records": records},
    key=("day", "id"),
    partition=daily("day"),
    schema=t.StructType(
        [
            t.StructField("day", t.DateType(), nullable=False),
            t.StructField("id", t.StringType(), nullable=False),
            *(t.StructField(name, kind) for name, (kind, _, _) in VALUES.items()),
        ]
    ),
    version="1.0.0",
    earlier={"0.9.0": _before},
)
def things(records: DataFrame, ctx: TransformContext) -> DataFrame:
    """Grain: one row per thing."""
    return _rows(records, before=False)


DOMAIN = Domain(name="example", package="backfill_assets_tests.domains.example", sources=(records,), derived=(things,))

Row = Mapping[str, Any]


def drawn(seed: int, *, days: int = 3, ids: int = 12) -> list[Row]:
    """Rows of both sides: a key is on one of them, on both, or on none, and its values are often the same."""
    choose = random.Random(seed)
    found: list[Row] = []
    for place in range(days):
        for number in range(ids):
            values = {name: choose.choice(some) for name, (_, _, some) in VALUES.items()}
            other = {n: choose.choice(VALUES[n][2]) if choose.random() < 0.3 else v for n, v in values.items()}
            for is_before, side in ((True, values), (False, other if choose.random() < 0.6 else values)):
                if choose.random() < 0.85:
                    day, name = FIRST + timedelta(days=place), f"id {number}"
                    found.append({"day": day, "id": name, "is_before": is_before, **side})
    return found


def opened(home: Path, spark: SparkSession, rows: Sequence[Row]) -> Shop:
    """A home in which these rows have landed."""
    shop = open_shop(home, clock=ticking_clock(NOON), spark=spark)
    shop = replace(shop, ws=replace(shop.ws, domain=DOMAIN))
    schema = pa.schema(
        [
            ("record", pa.int64()),
            ("at", pa.timestamp("us", tz="UTC")),
            ("id", pa.string()),
            ("is_before", pa.bool_()),
            *((name, held) for name, (_, held, _) in VALUES.items()),
        ]
    )
    landed = [
        {**row, "record": number, "at": datetime.combine(row["day"], time(12), tzinfo=UTC)}
        for number, row in enumerate(rows)
    ]
    path = shop.folder / "records.parquet"
    pq.write_table(pa.Table.from_pylist(landed, schema), path)
    operations.land(shop.ws, records.name, path, on_duplicate=OnDuplicate.IGNORE, by="ana")
    run = operations.plan_load(shop.ws, records.name, partitions=None, by="ana", reason="landed")
    assert run is not None
    for act in (operations.stage, operations.gate):
        act(shop.ws, run.run_id, actor="ana")
    operations.publish(shop.ws, run.run_id, by="ana")
    return shop


def in_delta(shop: Shop, version: int | None = None) -> pd.DataFrame:
    """The rows of the Delta table, as pandas has them."""
    from deltalake import DeltaTable

    table = DeltaTable(str(shop.ws.lake.place(things.name)), version=version)
    rows: pd.DataFrame = table.to_pyarrow_table(columns=["day", "id", *VALUES]).to_pandas(types_mapper=pd.ArrowDtype)
    return rows


def by_pandas(before: pd.DataFrame, after: pd.DataFrame) -> dict[tuple[date, str], tuple[str, frozenset[str]]]:
    """By key, how its row differs and in which columns; keys of equal rows are left out."""
    key = ["day", "id"]
    both = before.merge(after, on=key, how="outer", suffixes=("_0", "_1"), indicator=True)
    found: dict[tuple[date, str], tuple[str, frozenset[str]]] = {}
    for _, row in both.iterrows():
        kind = {"left_only": "removed", "right_only": "added", "both": "changed"}[row["_merge"]]
        differ = frozenset(
            name for name in VALUES if kind == "changed" and _plain(row[f"{name}_0"]) != _plain(row[f"{name}_1"])
        )
        if kind != "changed" or differ:
            found[row["day"], row["id"]] = (kind, differ)
    return found


def _plain(value: Any) -> object:
    """A value with the equality that is promised: null equals null, NaN equals NaN, and zeros of either sign."""
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0
    if isinstance(value, dict):
        return tuple((name, _plain(each)) for name, each in value.items())
    if isinstance(value, list | tuple) or type(value).__name__ == "ndarray":
        return tuple(map(_plain, value))
    return value

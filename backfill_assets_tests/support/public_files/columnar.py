"""Parquet and workbooks, as data portals and pandas write them."""

from __future__ import annotations

import io
from datetime import datetime

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from backfill_assets_tests.support.public_files.shape import RECORDS, Shape, irregular, made


def _parquet(table: pa.Table) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file)
    return file.getvalue()


def _yellow_trips() -> bytes:
    draw = made("yellow_trips")
    at = irregular(draw, datetime(2023, 1, 1, 0, 32, 10))
    return _parquet(
        pa.table(
            {
                "VendorID": pa.array([draw.randrange(1, 3) for _ in at], pa.int64()),
                "tpep_pickup_datetime": pa.array(at, pa.timestamp("us")),
                "passenger_count": pa.array([draw.choice((None, 1.0, 2.0)) for _ in at], pa.float64()),
                "store_and_fwd_flag": pa.array([draw.choice((None, "N", "Y")) for _ in at], pa.string()),
                "PULocationID": pa.array([draw.randrange(1, 265) for _ in at], pa.int32()),
                "fare_amount": pa.array([round(draw.uniform(3, 60), 2) for _ in at], pa.float64()),
                "airport_fee": pa.nulls(len(at)),
            }
        )
    )


def _frame() -> bytes:
    draw = made("frame")
    frame = pd.DataFrame(
        {
            "id": pd.array([2**63 + number for number in range(RECORDS)], dtype="uint64"),
            "day": pd.date_range("2022-05-01", periods=RECORDS),
            "level": pd.array([draw.randrange(256) for _ in range(RECORDS)], dtype="uint8"),
            "count": pd.array([draw.randrange(2**32) for _ in range(RECORDS)], dtype="uint32"),
            "ratio": pd.array([draw.uniform(0, 1) for _ in range(RECORDS)], dtype="float32"),
            "kind": pd.Categorical([draw.choice(("a", "b")) for _ in range(RECORDS)]),
            "Unit Price": [round(draw.uniform(0, 9), 2) for _ in range(RECORDS)],
        }
    )
    file = io.BytesIO()
    frame.to_parquet(file)
    return file.getvalue()


SHAPES = (
    Shape(
        name="yellow_trips", file="yellow_tripdata_2023-01.parquet", like="NYC TLC: trip records", write=_yellow_trips,
        pandas=pd.read_parquet, event_time="tpep_pickup_datetime", zone=True,
    ),
    Shape(
        name="frame", file="frame.parquet", like="pandas: to_parquet of unsigned numbers and midnights", write=_frame,
        pandas=pd.read_parquet, key=("id",), event_time="day", declared=('columns={"Unit Price": "unit_price"}',),
    ),
)  # fmt: skip

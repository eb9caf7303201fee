"""Parquet, Avro and workbooks, as data portals, pandas and people write them."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from pathlib import Path

import fastavro
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from openpyxl import Workbook

from backfill_assets_tests.support.public_files.shape import RECORDS, Shape, irregular, made, times_from


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


def _workbook() -> bytes:
    draw = made("workbook")
    book = Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.append(["Sales of the south", None, None, None, None])
    sheet.append([])
    sheet.append(["Order No", "Ordered", "Pieces", "Unit Price", "Paid"])
    for number, at in enumerate(times_from(datetime(2023, 5, 1), minutes=1440), 1):
        sheet.append([number, at, draw.randrange(1, 9), round(draw.uniform(1, 9), 2), draw.choice((True, False, None))])
    book.create_sheet("Notes").append(["of nobody"])
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def _avro() -> bytes:
    draw = made("avro")
    schema = {
        "type": "record",
        "name": "Reading",
        "fields": [
            {"name": "reading_id", "type": "string"},
            {"name": "read_at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "level", "type": ["null", "double"]},
        ],
    }
    rows = [
        {"reading_id": f"r{number:04}", "read_at": at.replace(tzinfo=UTC), "level": draw.choice((None, 0.5, 12.25))}
        for number, at in enumerate(times_from(datetime(2024, 2, 28, 23), minutes=90))
    ]
    file = io.BytesIO()
    fastavro.writer(file, schema, rows, codec="deflate", sync_marker=b"s" * 16)
    return file.getvalue()


def _read_workbook(path: Path) -> pd.DataFrame:
    return pd.read_excel(path, skiprows=2)


def _read_avro(path: Path) -> pd.DataFrame:
    with path.open("rb") as file:
        return pd.DataFrame(list(fastavro.reader(file)))


SHAPES = (
    Shape(
        name="yellow_trips", file="yellow_tripdata_2023-01.parquet", like="NYC TLC: trip records", write=_yellow_trips,
        pandas=pd.read_parquet, event_time="tpep_pickup_datetime", zone=True,
    ),
    Shape(
        name="frame", file="frame.parquet", like="pandas: to_parquet of unsigned numbers and midnights", write=_frame,
        pandas=pd.read_parquet, key=("id",), event_time="day", declared=('columns={"Unit Price": "unit_price"}',),
    ),
    Shape(
        name="workbook", file="sales.xlsx", like="Excel: a workbook with a title above its header", write=_workbook,
        pandas=_read_workbook, key=("order_no",), event_time="Ordered", zone=True,
        declared=('reads=Xlsx(sheet="Sheet", skip=2)', "columns={"),
    ),
    Shape(
        name="readings", file="readings.avro", like="Hive, Kafka Connect: Avro files", write=_avro,
        pandas=_read_avro, key=("reading_id",), event_time="read_at", declared=("reads=Avro()",),
    ),
)  # fmt: skip

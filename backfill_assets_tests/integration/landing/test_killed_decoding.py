"""A process that is killed while a file is decoded leaves nothing that lands, blocks or stays, whatever decodes it."""

from __future__ import annotations

import bz2
import io
import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from backfill_assets.capture.files.file_capture import FileCapture
from backfill_assets.capture.landed_files import landing_files
from backfill_assets.core.clock import Clock
from backfill_assets.core.crash_points import Point
from backfill_assets.core.settings import Settings
from backfill_assets.domain import (
    DEBEZIUM_OPERATIONS,
    DEBEZIUM_POSITION_COLUMNS,
    Avro,
    Canal,
    Csv,
    Debezium,
    Json,
    Maxwell,
    SourceTable,
    Xlsx,
    daily,
)
from backfill_assets.landing.attempt import Landing, new_lease
from backfill_assets.landing.decoding import decode
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.landing.land import land_files
from backfill_assets.ledger.store import Ledger
from backfill_assets_tests.integration.landing.test_documents import avro, listed, zipped
from backfill_assets_tests.support.landing_examples import LANDED_AT, LandingRoom, landing_room
from backfill_assets_tests.unit.capture.test_packed import zstd

AT = "2025-03-01T06:00:00Z"
ID = T.StructField("id", T.LongType(), nullable=False)
SALES = SourceTable(
    name="bronze.sales",
    key=("id",),
    event_time="at",
    partition=daily("day"),
    schema=T.StructType([ID, T.StructField("at", T.TimestampType(), nullable=False)]),
)
EVENTS_OF = Debezium(table="shop.sales", connector="mysql")
RECORDS = [json.dumps({"id": number, "at": AT}) for number in range(3)]
ROWS = "".join(f"{number};{AT}\n" for number in range(3))
LINES = "\n".join(RECORDS).encode()
NOTHING = {"amount": None, "text": None, "inner": None}
CHANGES = "\n".join(
    json.dumps(
        {
            **{"database": "shop", "table": "sales", "type": "insert", "ts": 1_740_800_000 + number},
            **{"position": f"b.000003:{number}", "data": json.loads(record)},
        }
    )
    for number, record in enumerate(RECORDS)
)

MESSAGES = "\n".join(
    json.dumps(
        {
            **{"database": "shop", "table": "sales", "type": "INSERT", "isDdl": False, "pkNames": ["id"]},
            **{"es": 1_740_800_000_000 + number, "ts": 1_740_800_000_500, "data": [json.loads(record)], "old": None},
        }
    )
    for number, record in enumerate(RECORDS)
)
OF_EVENTS: Mapping[str, Any] = {
    "envelope": EVENTS_OF,
    "order": EVENTS_OF.order,
    "operation": DEBEZIUM_OPERATIONS,
    "schema": T.StructType([*SALES.schema, *DEBEZIUM_POSITION_COLUMNS]),
}


def workbook() -> bytes:
    book = openpyxl.Workbook()
    for row in (["id", "at"], *([number, AT] for number in range(3))):
        book.active.append(row)
    written = io.BytesIO()
    book.save(written)
    return written.getvalue()


def brotli() -> bytes:
    written = io.BytesIO()
    pq.write_table(pa.table({"id": [0, 1, 2], "at": [AT] * 3}), written, compression="brotli")
    return written.getvalue()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """A file that is decoded, and what its source declares."""

    name: str
    content: Callable[[], bytes]
    declared: Mapping[str, Any] = field(default_factory=dict)

    @property
    def source(self) -> SourceTable:
        return replace(SALES, **self.declared)


FILES: Mapping[str, Decoded] = {
    "CSV": Decoded(name="a.csv", content=lambda: f"id;at\n{ROWS}".encode(), declared={"reads": Csv(delimiter=";")}),
    "CSV in an archive": Decoded(
        name="a.zip",
        content=lambda: zipped({"a.csv": f"id;at\n{ROWS[:23]}".encode(), "b.csv": f"id;at\n{ROWS[23:]}".encode()}),
        declared={"reads": Csv(delimiter=";")},
    ),
    "array": Decoded(name="a.json", content=lambda: listed(RECORDS).encode(), declared={"reads": Json(array=True)}),
    "Avro": Decoded(
        name="a.avro",
        content=lambda: avro([{**NOTHING, "id": number, "at": 1_740_800_000_000} for number in range(3)], "null"),
        declared={"reads": Avro()},
    ),
    "workbook": Decoded(name="a.xlsx", content=workbook, declared={"reads": Xlsx()}),
    "Maxwell": Decoded(name="a.jsonl", content=CHANGES.encode, declared={**OF_EVENTS, "reads": Maxwell()}),
    "Canal": Decoded(name="a.jsonl", content=MESSAGES.encode, declared={**OF_EVENTS, "reads": Canal(by="es")}),
    "Parquet of Arrow": Decoded(name="a.parquet", content=brotli),
    "zstd": Decoded(name="a.jsonl.zst", content=lambda: zstd(LINES)),
    "bzip2": Decoded(name="a.jsonl.bz2", content=lambda: bz2.compress(LINES)),
    "archive": Decoded(
        name="a.zip",
        content=lambda: zipped({"a.jsonl": RECORDS[0].encode(), "b.jsonl": "\n".join(RECORDS[1:]).encode()}),
    ),
}
WHILE_DECODING = "while decoding"


@pytest.fixture
def room(spark: SparkSession, settings: Settings, clock: Clock) -> Iterator[LandingRoom]:
    with landing_room(spark, settings, clock, SALES) as room:
        yield room


def _die(settings: Settings, file: str, path: Path, where: str) -> None:
    """Lands a file in a process of its own, which is killed at a place."""
    source = FILES[file].source
    with closing(Ledger.open(settings.ledger_url, clock=lambda: LANDED_AT)) as ledger:
        work = Landing(
            ledger=ledger,
            open_session=_never,
            settings=settings,
            source=source,
            by="ada",
            quarantine=lambda frame, import_id: None,
            reached=lambda point: _kill() if point == where else None,
            lease=new_lease(settings),
        )
        if where == WHILE_DECODING:
            for name in ("decode_csv", "decode_workbook", "decode_parquet"):
                setattr(decode, name, _half)
            for name in ("json_records", "avro_records", "maxwell_events", "canal_events"):
                setattr(decode, name, _half_of_records)
            for module in (decode, decode):
                setattr(module, "shutil", SimpleNamespace(copyfileobj=_half_of_a_copy))  # noqa: B010 - not its own name
        land_files(work, [FileCapture(path, decode.formats(source))], OnDuplicate.IGNORE, lambda landed: None)


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _never() -> SparkSession:
    raise AssertionError("Spark was started")


def _half(*_: object, into: Path, **__: object) -> None:
    into.write_bytes(b"id")
    _kill()


def _half_of_records(*_: object, **__: object) -> Iterator[bytes]:
    yield b"{}"
    _kill()


def _half_of_a_copy(source: Any, target: Any, length: int = 0) -> None:
    target.write(source.read(10))
    target.flush()
    _kill()


@pytest.mark.long
@pytest.mark.parametrize("file", FILES)
def test_the_same_command_lands_what_a_killed_one_had_half_decoded(room: LandingRoom, file: str) -> None:
    decoded = FILES[file]
    room = replace(room, source=decoded.source)
    content = decoded.content()
    path = room.write(content, decoded.name)
    for where in (WHILE_DECODING, Point.LAND_DECODED):
        process = multiprocessing.get_context("spawn").Process(target=_die, args=(room.settings, file, path, where))
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL, where
        assert not room.imports(), where
    landed = room.land_path(path).record
    assert (landed.counts.landed, landed.counts.accepted) == (3, 3)
    assert {row["id"] for row in room.bronze([date(2025, 3, 1)])} == {0, 1, 2}
    assert not list((room.settings.home / "landing_in_progress" / "sales").iterdir())
    assert not [each.path for each in landing_files(room.settings).listed() if "/decoded/" in each.path]
    assert (room.settings.home / "landing" / landed.stored_path).read_bytes() == content

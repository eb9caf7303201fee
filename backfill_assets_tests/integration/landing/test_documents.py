"""Arrays, lists in objects, objects in a row, archives, Avro and workbooks land the records that they have."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import multiprocessing
import os
import signal
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import openpyxl
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from backfill_assets.capture.files.file_capture import FileCapture
from backfill_assets.capture.landed_files import landing_files
from backfill_assets.core.clock import Clock
from backfill_assets.core.crash_points import Point
from backfill_assets.core.settings import Settings
from backfill_assets.domain import Avro, Json, SourceTable, Xlsx, daily
from backfill_assets.landing.attempt import Landing, new_lease
from backfill_assets.landing.bronze import bronze_rows
from backfill_assets.landing.decoding import decode
from backfill_assets.landing.imports import OnDuplicate, imports_for_days
from backfill_assets.landing.land import land_files
from backfill_assets.ledger.store import Ledger
from backfill_assets_tests.support.landing_examples import LANDED_AT, LandingRoom, landing_room
from backfill_assets_tests.unit.capture.test_packed import zstd

MARCH = date(2025, 3, 1)
AT = "2025-03-01T06:00:00Z"
SALES = SourceTable(
    name="bronze.sales",
    key=("id",),
    event_time="at",
    partition=daily("day"),
    schema=T.StructType(
        [
            T.StructField("id", T.LongType(), nullable=False),
            T.StructField("at", T.TimestampType(), nullable=False),
            T.StructField("amount", T.DecimalType(38, 10)),
            T.StructField("text", T.StringType()),
            T.StructField("inner", T.StringType()),
        ]
    ),
    json_columns=("inner",),
)
TEXTS = ["Köln", 'a "b" \\ c', "two\nlines", "\U0001f600", "}{ [{},{}]", "\u00e9\u2028", ""]


@pytest.fixture
def room(spark: SparkSession, settings: Settings, clock: Clock) -> Iterator[LandingRoom]:
    with landing_room(spark, settings, clock, SALES) as room:
        yield room


def record(number: int) -> dict[str, Any]:
    inner = {"b": [number, {"deep": None}], "a": 0.10}
    return {"id": number, "at": AT, "amount": number / 7, "text": TEXTS[number % len(TEXTS)], "inner": inner}


class Numbers:
    """Records that no two files have in common."""

    def __init__(self) -> None:
        self.given: list[str] = []

    def take(self, count: int = 3, **how: Any) -> list[str]:
        first = len(self.given)
        new = [json.dumps(record(first + place), **how) for place in range(count)]
        self.given += new
        return new


def listed(records: Sequence[str]) -> str:
    return f"[{','.join(records)}]"


def zipped(members: Mapping[str, bytes]) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return written.getvalue()


def landed(room: LandingRoom, texts: Sequence[str]) -> None:
    """Requires that the rows are those that Python reads in the texts."""
    found = [json.loads(text, parse_float=Decimal) for text in texts]
    expected = {each["id"]: each for each in found}
    rows = room.bronze([MARCH])
    assert [row["id"] for row in rows] == sorted(expected)
    for row in rows:
        wanted = expected[row["id"]]
        assert row["at"].astimezone(UTC) == datetime(2025, 3, 1, 6, tzinfo=UTC)
        assert row["amount"] == wanted["amount"].quantize(Decimal("1e-10"))
        assert row["text"] == wanted["text"]
        assert json.loads(row["inner"], parse_float=Decimal) == wanted["inner"]
    assert not [each.path for each in landing_files(room.settings).listed() if "/decoded/" in each.path]


@pytest.mark.long
def test_arrays_lists_and_objects_in_a_row_land_alike(room: LandingRoom) -> None:
    numbers = Numbers()
    room = replace(room, source=replace(SALES, rounds=True))
    arrays = replace(room, source=replace(room.source, reads=Json(array=True)))
    pretty = json.dumps([json.loads(each) for each in numbers.take(2)], indent=2).encode("utf-8-sig")
    files = {
        "a.json": listed(numbers.take()).encode(),
        "b.json": pretty,
        "c.json.gz": gzip.compress((listed(numbers.take()) + listed(numbers.take(ensure_ascii=False))).encode()),
        "d.json.zst": zstd(listed(numbers.take()).encode()) + zstd(b"[]"),
        "e.json.zip": zipped({"2.json": listed(numbers.take()).encode(), "1.json": listed(numbers.take()).encode()}),
        "stream-1-2025-03-01-06-00": listed(numbers.take()).encode(),
        "f.json.xz": lzma.compress(listed(numbers.take()).encode()),
    }
    results = arrays.land_paths([room.write(content, name) for name, content in files.items()])
    assert [each.record.counts.rejected for each in results] == [0] * len(files)
    deep = json.dumps(record(900)).replace('"deep": null', f'"deep": {"[" * 300}{"]" * 300}')
    odd = listed(
        ["1", *numbers.take(1), "null", '{"id":01}', '{"id":NaN}', '[{"id":1},{"id":2}]', "{}", *numbers.take(1), deep]
    )
    numbers.given.append(deep)
    rejected = arrays.land(odd.encode(), "odd.json").record
    assert (rejected.counts.landed, rejected.counts.rejected) == (9, 6)
    quarantined = room.quarantined[rejected.import_id]
    assert [(row["row_number"], row["raw_record"], row["reason"]) for row in quarantined] == [
        (1, "1", "the record is not a JSON object"),
        (3, "null", "the record is not a JSON object"),
        (4, '{"id":01}', "the record is not a JSON object"),
        (5, '{"id":NaN}', "the record is not a JSON object"),
        (6, '[{"id":1},{"id":2}]', "the record is not a JSON object"),
        (7, "{}", "id is missing"),
    ]
    lists = replace(room, source=replace(room.source, reads=Json(records="result.items")))
    content = f'{{"n":[{{}}],"result":{{"x":{{"items":[0]}},\n"items":{listed(numbers.take())},"y":1}}}}'.encode()
    lists.land(content, "g.geojson")
    plain = replace(room, source=replace(room.source, reads=Json()))
    plain.land("".join(numbers.take()).encode(), "h")
    plain.land("\n".join(json.dumps(json.loads(each), indent=1) for each in numbers.take()).encode(), "i.json")
    landed(room, numbers.given)
    with room.ledger.read() as tx:
        imports = [each for each in imports_for_days(tx, SALES, [MARCH]) if each.name < "g"]
    frame = bronze_rows(room.spark, room.settings, arrays.source, imports=imports, days=[MARCH], raw_owner="read-1")
    assert frame.count() == sum(each.counts.accepted for each in imports)


@pytest.mark.long
def test_packed_files_land_as_what_is_in_them(room: LandingRoom) -> None:
    numbers = Numbers()
    room = replace(room, source=replace(SALES, rounds=True))
    lines = ["\n".join(numbers.take()) for _ in range(5)]
    rows = "id,at,amount,text\n" + "".join(f'{number},{AT},0.1,"x, y"\n' for number in (100, 101))
    files = {
        "a.jsonl.zst": zstd(lines[0].encode()),
        "b.jsonl.bz2": bz2.compress(lines[1].encode()),
        "c.ndjson.xz": lzma.compress(lines[2].encode()),
        "d.zip": zipped(
            {"b.jsonl": lines[4].encode(), "a.jsonl": lines[3].encode(), "README.md": b"x", "__MACOSX/._": b""}
        ),
        "e.zip": zipped({"x/a.csv": rows.encode(), "x/b.csv": rows.replace("10", "11").encode("utf-8-sig")}),
    }
    results = room.land_paths([room.write(content, name) for name, content in files.items()])
    assert [(each.record.counts.landed, each.record.counts.rejected) for each in results] == [(3, 0)] * 3 + [
        (6, 0),
        (4, 0),
    ]
    more = [{"id": number, "at": AT, "amount": 0.1, "text": "x, y", "inner": None} for number in (100, 101, 110, 111)]
    found = {row["id"]: row for row in room.bronze([MARCH])}
    assert sorted(found) == [*range(15), 100, 101, 110, 111]
    assert [found[each["id"]]["text"] for each in more] == ["x, y"] * 4


WHILE_DECODING = "while decoding"


def _die(settings: Settings, path: Path, where: str) -> None:
    """Lands a file in a process of its own, which is killed at a place."""
    with closing(Ledger.open(settings.ledger_url, clock=lambda: LANDED_AT)) as ledger:
        work = Landing(
            ledger=ledger,
            open_session=_never,
            settings=settings,
            source=ARRAYS,
            by="ada",
            quarantine=lambda frame, import_id: None,
            reached=lambda point: os.kill(os.getpid(), signal.SIGKILL) if point == where else None,
            lease=new_lease(settings),
        )
        if where == WHILE_DECODING:
            setattr(decode, "json_records", _dying_records)  # noqa: B010 - it is imported there
        land_files(work, [FileCapture(path, decode.formats(ARRAYS))], OnDuplicate.IGNORE, lambda landed: None)


def _never() -> SparkSession:
    raise AssertionError("Spark was started")


def _dying_records(*_: object, **__: object) -> Iterator[bytes]:
    yield b"{}"
    os.kill(os.getpid(), signal.SIGKILL)


ARRAYS = replace(SALES, reads=Json(array=True), rounds=True)


@pytest.mark.long
def test_what_a_killed_process_had_decoded_is_removed_and_nothing_lands_twice(room: LandingRoom) -> None:
    numbers, room = Numbers(), replace(room, source=ARRAYS)
    path = room.write(zipped({"a.json": listed(numbers.take()).encode(), "b.json": b"[]"}), "a.zip")
    for where in (WHILE_DECODING, Point.LAND_DECODED, Point.LAND_ARCHIVED, Point.LAND_BEGUN):
        process = multiprocessing.get_context("spawn").Process(target=_die, args=(room.settings, path, where))
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        copies = list((room.settings.home / "landing_in_progress" / "sales").iterdir())
        kept = [each.path for each in landing_files(room.settings).listed() if "/decoded/" in each.path]
        assert (len(copies), len(kept)) == {WHILE_DECODING: (4, 0), Point.LAND_DECODED: (1, 1)}.get(where, (0, 1))
    assert room.land_path(path).record.counts.landed == 3
    landed(room, numbers.given)
    assert not list((room.settings.home / "landing_in_progress" / "sales").iterdir())


def avro(records: Sequence[Mapping[str, Any]], codec: str) -> bytes:
    amount = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 10}
    inner = {"type": "record", "name": "Inner", "fields": [{"name": "a", "type": "double"}]}
    types: dict[str, Any] = {
        "id": "long",
        "at": {"type": "long", "logicalType": "timestamp-millis"},
        "amount": ["null", amount],
        "text": ["null", "string"],
        "inner": ["null", inner],
    }
    schema = {"type": "record", "name": "Sale", "fields": [{"name": name, "type": types[name]} for name in types]}
    written = io.BytesIO()
    fastavro.writer(written, schema, records, codec=codec)
    return written.getvalue()


@pytest.mark.long
def test_avro_files_and_workbooks_land_with_exact_values(room: LandingRoom) -> None:
    avros = replace(room, source=replace(SALES, reads=Avro()))
    at, amount = datetime(2025, 3, 1, 6, tzinfo=UTC), Decimal("1234567890123456789.0123456789")
    sales = [
        {"id": number, "at": at, "amount": amount, "text": TEXTS[number], "inner": {"a": 0.1}} for number in range(5)
    ]
    avros.land_paths([room.write(avro(sales[:3], "deflate"), "a.avro"), room.write(avro(sales[3:], "null"), "b.avro")])
    rows = room.bronze([MARCH])
    assert [(row["id"], row["amount"], row["text"], row["inner"]) for row in rows] == [
        (number, amount, TEXTS[number], '{"a":0.1}') for number in range(5)
    ]
    books = replace(room, source=replace(SALES, reads=Xlsx(skip=2)))
    book = openpyxl.Workbook()
    for row in (
        ["Sales of March"],
        [],
        ["id", "at", "amount", "text"],
        [10, AT, 0.1, "Köln"],
        [],
        [11, AT, 1234567.25, " x\n,y "],
        [12, AT, "#N/A", "y"],
        [13, AT, 1, "y", "more"],
        [14, AT],
    ):
        book.active.append(row)
    book.active["C7"].data_type = "e"
    written = io.BytesIO()
    book.save(written)
    result = books.land(written.getvalue(), "a.xlsx").record
    assert (result.counts.landed, result.counts.rejected) == (5, 2)
    assert [(row["row_number"], row["reason"]) for row in room.quarantined[result.import_id]] == [
        (3, "the row has the error #N/A"),
        (4, "the row does not have the 4 values of the header"),
    ]
    rows = [row for row in room.bronze([MARCH]) if row["id"] >= 10]
    assert [(row["id"], row["amount"], row["text"]) for row in rows] == [
        (10, Decimal("0.1"), "Köln"),
        (11, Decimal("1234567.25"), " x\n,y "),
        (14, None, None),
    ]

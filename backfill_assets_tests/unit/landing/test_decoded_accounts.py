"""The records of a file are those of the decoded one, in their order, whatever stands around and between them."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import fastavro
import openpyxl
import pytest
from pyspark.sql import types as T

from backfill_assets.capture.errors import BadFile
from backfill_assets.capture.files.file_capture import format_of
from backfill_assets.capture.landed_files import FileKind
from backfill_assets.domain import (
    DEBEZIUM_OPERATIONS,
    DEBEZIUM_POSITION_COLUMNS,
    Avro,
    Csv,
    Debezium,
    Json,
    Maxwell,
    SourceTable,
    Xlsx,
    daily,
)
from backfill_assets.landing.decoding.csv_rows import REASON_ENDS
from backfill_assets.landing.decoding.decode import decode, formats
from backfill_assets.landing.decoding.json_documents import MOST_LEVELS
from backfill_assets.landing.probe import MOST_RECORD_BYTES

AT = "2025-03-01T06:00:00Z"
SALES = SourceTable(
    name="bronze.sales",
    key=("id",),
    event_time="at",
    partition=daily("day"),
    schema=T.StructType(
        [
            T.StructField("id", T.StringType(), nullable=False),
            T.StructField("at", T.TimestampType(), nullable=False),
            T.StructField("text", T.StringType()),
        ]
    ),
)
EVENTS = Debezium(table="shop.sales", connector="mysql")
OF_EVENTS: Mapping[str, Any] = {
    "envelope": EVENTS,
    "order": EVENTS.order,
    "operation": DEBEZIUM_OPERATIONS,
    "schema": T.StructType([*SALES.schema, *DEBEZIUM_POSITION_COLUMNS]),
}
TEXTS = ["", "a", "ü", "a;b", 'a "b"', "two\nlines", "#5", " x ", "null\x00char", "\ufeff", "id", "long" * 1000]
BOM = "\ufeff"

Record = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A form of files: what declares it, and how a file has records, with what may stand between them."""

    name: str
    declared: Mapping[str, Any]
    #: The bytes of a file, and for each of its records its id; None for one that cannot be read.
    write: Callable[[random.Random, Sequence[Record]], tuple[bytes, list[str | None]]]

    @property
    def source(self) -> SourceTable:
        return replace(SALES, **self.declared)


def as_row(record: Record, delimiter: str = ";") -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\r\n").writerow(record.values())
    return text.getvalue().removesuffix("\r\n")


def csv_file(chance: random.Random, records: Sequence[Record]) -> tuple[bytes, list[str | None]]:
    end, header = chance.choice(["\n", "\r\n", "\r"]), "id;at;text"
    lines, found = ["Report", "", header], list[str | None]()
    for record in records:
        for _ in range(chance.choice([0, 0, 1, 2])):
            lines.append(chance.choice(["", "# no record; at all", header]))
        lines.append(as_row(record))
        found.append(record["id"])
        if chance.random() < 0.1:
            lines.append(chance.choice(["only one", "1;2;3;4", '"a"b;c;d']))
            found.append(None)
    text = chance.choice(["", BOM]) + end.join(lines) + chance.choice(["", end, end * 3])
    return text.encode(), found


def as_json(record: Record, chance: random.Random) -> str:
    return json.dumps(record, ensure_ascii=chance.random() < 0.5, indent=chance.choice([None, None, 1]))


def array_file(chance: random.Random, records: Sequence[Record]) -> tuple[bytes, list[str | None]]:
    found: list[str | None] = []
    texts: list[str] = []
    for record in records:
        texts.append(as_json(record, chance))
        found.append(record["id"])
        if chance.random() < 0.1:
            texts.append(chance.choice(["null", "5", "[]", '{"id": 01}', '{"id": "a" "b"}']))
            found.append(None)
    blank = chance.choice(["", "\n", "\r\n \t"])
    body = f"{blank}[{blank}" + f"{blank},{blank}".join(texts) + f"{blank}]{blank}"
    return (chance.choice(["", BOM]) + body).encode(), found


def list_file(chance: random.Random, records: Sequence[Record]) -> tuple[bytes, list[str | None]]:
    content, found = array_file(chance, records)
    inside = content.decode().removeprefix(BOM)
    text = f'{{"items": {{"id": "no record", "items": [1]}}, "of": {{"items": {inside}, "n": [{{}}]}}}}\n'
    return text.encode(), found


def objects_file(chance: random.Random, records: Sequence[Record]) -> tuple[bytes, list[str | None]]:
    between = chance.choice(["", "\n", "\n\n", ",", "\x1e"])
    return (chance.choice(["", BOM]) + between.join(as_json(each, chance) for each in records)).encode(), [
        each["id"] for each in records
    ]


def avro_file(chance: random.Random, records: Sequence[Record]) -> tuple[bytes, list[str | None]]:
    names = ("id", "at", "text")
    schema = {"type": "record", "name": "Sale", "fields": [{"name": name, "type": "string"} for name in names]}
    written = io.BytesIO()
    fastavro.writer(written, schema, records, codec=chance.choice(["null", "deflate"]), sync_interval=100)
    return written.getvalue(), [each["id"] for each in records]


def xlsx_file(chance: random.Random, records: Sequence[Record]) -> tuple[bytes, list[str | None]]:
    book, found = openpyxl.Workbook(write_only=True), list[str | None]()
    sheet = book.create_sheet()
    for row in (["Report"], [], ["id", "at", "text"]):
        sheet.append(row)
    for record in records:
        for _ in range(chance.choice([0, 0, 2])):
            sheet.append(chance.choice([[], ["", None]]))
        sheet.append([each.replace("\x00", "") for each in record.values()])
        found.append(record["id"])
        if chance.random() < 0.1:
            sheet.append(["too", "many", "values", "here"])
            found.append(None)
    written = io.BytesIO()
    book.save(written)
    return written.getvalue(), found


def maxwell_file(chance: random.Random, records: Sequence[Record]) -> tuple[bytes, list[str | None]]:
    lines, found = list[str](), list[str | None]()
    for number, record in enumerate(records):
        said = {"database": "shop", "table": "sales", "type": "insert", "ts": 1, "position": f"b.1:{number}"}
        lines.append(json.dumps({**said, "data": record}))
        found.append(record["id"])
        if chance.random() < 0.2:
            lines.append(chance.choice(["", "  ", "\r"]))
        if chance.random() < 0.1:
            lines.append(chance.choice(["no json", "{}", '{"type": "insert"}']))
            found.append(None)
    return (chance.choice(["", BOM]) + "\n".join(lines) + chance.choice(["", "\n"])).encode(), found


FORMS: Mapping[str, Form] = {
    "CSV": Form(name="a.csv", declared={"reads": Csv(delimiter=";", comment="#", skip=2)}, write=csv_file),
    "array": Form(name="a.json", declared={"reads": Json(array=True)}, write=array_file),
    "list": Form(name="a.json", declared={"reads": Json(records="of.items")}, write=list_file),
    "objects": Form(name="a.json", declared={"reads": Json()}, write=objects_file),
    "Avro": Form(name="a.avro", declared={"reads": Avro()}, write=avro_file),
    "workbook": Form(name="a.xlsx", declared={"reads": Xlsx(skip=2)}, write=xlsx_file),
    "Maxwell": Form(name="a.jsonl", declared={"reads": Maxwell(), **OF_EVENTS}, write=maxwell_file),
}


def decoded(folder: Path, form: Form, content: bytes) -> list[str | None]:
    """The ids of the records of a file, as the readers get them; None for one that they reject."""
    copy, into = folder / "landed", folder / "decoded"
    copy.write_bytes(content)
    source = form.source
    known = format_of(form.name, formats(source))
    assert known is not None
    kind = FileKind(format=known, compression="")
    found = decode(copy, kind, source, name=form.name, into=into)
    assert found is not None
    if found.suffix == ".csv":
        with into.open(encoding="utf-8", newline="") as text:
            rows = list(csv.reader(text, strict=True))
        return [None if REASON_ENDS in row[0] else row[0] for row in rows[1:]]
    return [_id(line) for line in into.read_bytes().split(b"\n")[:-1]]


def _id(line: bytes) -> str | None:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return None
    row = document.get("after", document) if isinstance(document, dict) else {}
    return row.get("id") if isinstance(row, dict) and row.get("id") else None


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(25))
def test_the_account_of_a_decoded_file_adds_up(tmp_path: Path, form: str, seed: int) -> None:
    chance = random.Random(seed)
    count = chance.choice([1, 2, 30])
    records = [{"id": f"r{number}", "at": AT, "text": chance.choice(TEXTS)} for number in range(count)]
    content, expected = FORMS[form].write(chance, records)
    assert decoded(tmp_path, FORMS[form], content) == expected


@pytest.mark.parametrize("form", FORMS)
def test_a_file_with_a_header_alone_has_no_records_and_an_empty_one_has_none_or_is_refused(
    tmp_path: Path, form: str
) -> None:
    if form not in ("objects", "Maxwell"):  # a line of either is a record
        content, _ = FORMS[form].write(random.Random(0), [])
        assert decoded(tmp_path, FORMS[form], content) == []
    try:
        assert decoded(tmp_path, FORMS[form], b"") == []
    except BadFile as refused:
        assert form not in ("objects", "Maxwell")
        assert "\n" not in refused.message


@pytest.mark.parametrize("form", FORMS)
def test_a_record_of_50_megabytes_is_refused_with_its_size_or_as_damage(tmp_path: Path, form: str) -> None:
    if form == "workbook":
        pytest.skip("a cell has at most 32,767 characters")
    large = {"id": "large", "at": AT, "text": "x" * (50 << 20)}
    content, _ = FORMS[form].write(random.Random(1), [{"id": "r0", "at": AT, "text": ""}, large])
    assert len(content) > MOST_RECORD_BYTES
    try:
        found = decoded(tmp_path, FORMS[form], content)
    except BadFile as refused:
        assert f"more than {MOST_RECORD_BYTES >> 20} MiB" in refused.message
        return
    assert found == ["r0", "large"], "left to the reader of the lines, which refuses it"


@pytest.mark.parametrize("form", ["array", "list", "objects", "Maxwell"])
@pytest.mark.parametrize("depth", [MOST_LEVELS - 20, 2_000, 20_000])
def test_a_record_that_nests_deep_is_one_record_or_refuses_the_file_in_one_sentence(
    tmp_path: Path, form: str, depth: int
) -> None:
    content, expected = FORMS[form].write(random.Random(4), [{"id": "r0", "at": AT, "text": "deep"}])
    nested = content.replace(b'"deep"', b"[" * depth + b"]" * depth)
    assert nested != content
    try:
        found = decoded(tmp_path, FORMS[form], nested)
    except BadFile as refused:
        assert depth > MOST_LEVELS
        assert "\n" not in refused.message and len(refused.message) < 300
        return
    assert len(found) == len(expected)

"""A file that is something else than its name says is refused with one sentence about what it is; nothing is kept."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import zipfile
from collections.abc import Callable
from datetime import UTC, date, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as t

from backfill_assets.capture.files.file_capture import FileCapture, kind_of
from backfill_assets.capture.landed_files import FileKind, LandingPlace
from backfill_assets.core.errors import UnreadableFile
from backfill_assets.domain import SourceTable, daily
from backfill_assets.files.local import LocalFiles
from backfill_assets.landing.first_bytes import OtherEncoding, require_kind
from backfill_assets.landing.probe import Probe, probe
from backfill_assets_tests.support.advice import advised

SALES = SourceTable(
    name="bronze.sales",
    key=("id",),
    event_time="at",
    partition=daily("sold_on"),
    schema=t.StructType(
        [
            t.StructField("id", t.StringType(), nullable=False),
            t.StructField("at", t.TimestampType(), nullable=False),
            t.StructField("due", t.DateType()),
            t.StructField("town", t.StringType()),
            t.StructField("tags", t.ArrayType(t.StringType())),
        ]
    ),
)
RECORD = {"id": "1", "at": "2026-03-01T00:00:00Z", "town": "Köln"}
LINE = json.dumps(RECORD, ensure_ascii=False) + "\n"
CSV = "id,at,town\n1,2026-03-01T00:00:00Z,Köln\n2,2026-03-01T00:00:00Z,Ulm\n"
HTML = "<!DOCTYPE html>\n<html><head><title>502 Bad Gateway</title></head>\n</html>\n"
AT = pa.array([datetime(2026, 3, 1, tzinfo=UTC)], pa.timestamp("us", "UTC"))


def parquet(codec: str = "snappy", **columns: Any) -> bytes:
    written = io.BytesIO()
    pq.write_table(pa.table({"id": ["1"], "at": AT, **columns}), written, compression=codec)
    return written.getvalue()


def zipped(*names: str) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name in names:
            archive.writestr(name, "x")
    return written.getvalue()


SAVE, SPLIT, UNPACK = "save it as UTF-8", "write one record per line", "unpack it, and land what is in it"
SHEETS, COMMAS = "save each of its sheets as CSV in UTF-8", "declare that, or write it with commas between its values"
DIALECT = "correct its declaration, or the file"
DECLARED, WORKBOOK = f"declare that, or {SPLIT}", f"declare that, or {SHEETS}"
ARRAY, LIST = (f"a line of its own: declare reads=Json({said})" for said in ("array=True", 'records="features"'))
OTHER, AGAIN = "land JSON lines, CSV or Parquet", "get the file again from its source"
ITSELF = "get the file itself from its source, which may have answered with an error or a login"


def renamed(suffix: str) -> str:
    return f"rename it, so that its name ends in {suffix}"


@pytest.mark.parametrize(
    ("name", "content", "says", "advises"),
    [
        ("a.jsonl", f"[{LINE}]".encode(), ARRAY, DECLARED),
        ("a.jsonl", f"[{LINE.strip()},{LINE.strip()}]\n".encode(), "is a JSON array, and each record", DECLARED),
        ("a.jsonl.gz", gzip.compress(b"\n[]\n"), "is a JSON array, and each record", DECLARED),
        ("a.jsonl", b'["1","x"]\n["2","y"]\n', "has an array in each line", SPLIT),
        ("a.jsonl", f"[\n{LINE}]\n".encode(), ARRAY, DECLARED),
        ("a.jsonl", json.dumps({"features": [{"type": "Feature"}]}).encode(), LIST, DECLARED),
        ("a.jsonl", HTML.encode(), "is an HTML page, not JSON lines: it begins with '<!DOCTYPE html>'", ITSELF),
        ("a.csv.gz", gzip.compress(HTML.encode()), "is an HTML page, not CSV", ITSELF),
        ("a.parquet", b" \n<html><body>404</body></html>", "is an HTML page, not Parquet", ITSELF),
        ("a.csv", b'<?xml version="1.0"?>\n<rows/>\n', "is XML, not CSV", ITSELF),
        ("a.csv", CSV.encode("latin-1"), "line 2 has the byte 0xF6, which is 'ö' in Latin-1", SAVE),
        ("a.jsonl.gz", gzip.compress(LINE.encode("cp1252")), "is not UTF-8: line 1 has the byte 0xF6", SAVE),
        ("a.csv", CSV.encode("utf-16"), "is UTF-16 text", SAVE),
        ("a.csv", CSV.encode("utf-16-le"), "is UTF-16 text", SAVE),
        ("a.jsonl", LINE.encode("utf-16-be"), "is UTF-16 text", SAVE),
        ("a.csv", CSV.encode("utf-32"), "is UTF-32 text", SAVE),
        ("a.jsonl.gz", LINE.encode(), "is not packed by gzip", renamed(".jsonl")),
        ("a.csv", gzip.compress(CSV.encode()), "holds gzip, not text", renamed(".csv.gz")),
        ("a.jsonl", zipped("a.jsonl"), "holds zip, not text", renamed(".jsonl.zip")),
        ("a.jsonl.gz", zipped("a.jsonl"), "holds zip, not JSON lines", UNPACK),
        ("a.csv", bz2.compress(CSV.encode()), "holds bzip2, not text", renamed(".csv.bz2")),
        ("a.csv", lzma.compress(CSV.encode()), "holds xz, not text", renamed(".csv.xz")),
        ("a.parquet", gzip.compress(parquet()), "holds gzip, not Parquet", UNPACK),
        ("a.csv", zipped("[Content_Types].xml", "xl/workbook.xml"), "is an Excel or Office file, not CSV", WORKBOOK),
        ("a.csv", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "is an Excel or Office file, not CSV", SHEETS),
        ("a.csv", b"%PDF-1.7\nx\n", "is PDF, not CSV", OTHER),
        ("a.jsonl", b"Obj\x01avro.schema", "is Avro, not JSON lines: declare reads=Avro()", DIALECT),
        ("a.csv", parquet(), "holds Parquet, not text", renamed(".parquet")),
        ("a.csv.gz", parquet(), "holds Parquet, not text", renamed(".parquet")),
        ("a.parquet", CSV.encode(), "is text, not Parquet", renamed(".csv")),
        ("a.parquet", LINE.encode(), "is text, not Parquet", renamed(".jsonl")),
        ("a.csv", LINE.encode(), "is JSON lines, not CSV", renamed(".jsonl")),
        ("a.jsonl", CSV.encode(), "is CSV, not JSON lines", renamed(".csv")),
        ("a.parquet", b"", "is empty, and a Parquet file without records is not", AGAIN),
        ("a.jsonl.gz", b"", "is empty, and a gzip file without records is not", AGAIN),
        (
            "a.csv",
            CSV.replace(",", ";").encode(),
            'has semicolons between its values: declare reads=Csv(delimiter=";")',
            COMMAS,
        ),
        (
            "a.csv",
            ("sep=;\n" + CSV.replace(",", ";")).encode(),
            'has semicolons between its values: declare reads=Csv(delimiter=";")',
            COMMAS,
        ),
        (
            "a.csv",
            CSV.replace(",", "\t").encode(),
            r'has tabs between its values: declare reads=Csv(delimiter="\t")',
            COMMAS,
        ),
        (
            "a.csv",
            f"Sales\n\n{CSV}".encode(),
            "has 2 lines before the header",
            "declare that, or remove the lines before its header",
        ),
        ("a.parquet", parquet(id=pa.nulls(1)), "holds id without a type, as null in every", "write id as string"),
        (
            *("a.parquet", parquet(due=pa.array([1.5])), "holds due as double; the contract says date"),
            "write due as date",
        ),
        (
            *("a.parquet", parquet(at=pa.array([date(2026, 3, 1)])), "holds at as date"),
            "declare at as date, or write it as timestamp",
        ),
    ],
    ids=lambda value: "content" if isinstance(value, bytes) else None,  # a packed one has the time in it
)
def test_what_a_file_is_stands_in_one_sentence_with_what_to_do_and_nothing_of_it_is_kept(
    tmp_path: Path, name: str, content: bytes, says: str, advises: str
) -> None:
    (tmp_path / name).write_bytes(content)

    def check(copy: Path, kind: FileKind) -> Probe:
        return probe(copy, kind, SALES, name=name)

    place = LandingPlace(source=SALES.name, files=LocalFiles(tmp_path / "landing"), incoming=tmp_path / "incoming")
    with pytest.raises(UnreadableFile) as refused:
        list(FileCapture(tmp_path / name).read(place, check))
    assert says in refused.value.message
    assert "\n" not in refused.value.message
    assert advised(refused.value) == advises
    assert [
        path for folder in ("landing", "incoming") for path in (tmp_path / folder).rglob("*") if path.is_file()
    ] == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", f"{LINE}oops\n[1]\n<b>\n".encode()),
        ("a.jsonl", b"oops\nnope\n"),
        ("a.jsonl", LINE.encode() + b'{"id": "2", "town": "K\xf6ln"}\n'),
        ("a.jsonl", b'{"id": "2", "town": "\xff"}\n'),
        ("a.csv", CSV.encode() + b"3,2026-03-01T00:00:00Z,K\xf6ln\n"),
        ("a.csv", CSV.encode() + b"<html>\n"),
        ("a.jsonl", b'{"error": "rate limited", "details": [{"a": 1}]}\n' + LINE.encode()),
        ("a.jsonl", b'{"id": "1", "details": [{"a": 1}]}\n'),
        ("a.jsonl", b""),
        ("a.csv", b"id,at,town\n"),
        ("a.csv", b"PARENT_ID,id,at,town\n1,2,2026-03-01T00:00:00Z,Ulm\n"),
        ("a.csv", b"ORCHARD,id,at,town\n1,2,2026-03-01T00:00:00Z,Ulm\n"),
        ("a.csv", b"BZh,id,at,town\n1,2,2026-03-01T00:00:00Z,Ulm\n"),
        ("a.parquet", parquet("zstd")),
    ],
    ids=lambda value: "content" if isinstance(value, bytes) else None,
)
def test_what_only_some_records_have_is_their_own_problem(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    probe(tmp_path / name, kind_of(Path(name)), SALES, name=name)


def encoded(chunks: list[bytes]) -> str:
    """What is said of a text that arrives in chunks; empty where it is not refused."""
    found = OtherEncoding()
    for chunk in chunks:
        found.add(chunk)
    try:
        found.refuse("a.csv")
    except UnreadableFile as refused:
        return refused.message
    return ""


@given(st.text(), st.binary(max_size=30), st.lists(st.integers(0, 200), max_size=6))
def test_chunks_decide_nothing_and_utf_8_is_never_taken_for_another_encoding(
    text: str, odd: bytes, cuts: list[int]
) -> None:
    for content in (text.encode("utf-8", "replace"), text.encode("utf-8", "replace") + odd, odd):
        ends = sorted({0, len(content), *(cut for cut in cuts if cut < len(content))})
        assert encoded([content[start:end] for start, end in pairwise(ends)]) == encoded([content])
    assert encoded([text.encode("utf-8", "replace")]) == ""


@given(st.text("abc é\nü", min_size=1), st.sampled_from(["latin-1", "cp1252", "iso8859_15"]))
def test_a_text_in_latin_1_is_named_by_the_line_of_its_first_letter(text: str, encoding: str) -> None:
    said, letters = encoded([text.encode(encoding)]), [place for place, letter in enumerate(text) if letter in "éü"]
    if not letters:
        assert not said
    elif said:
        line = int(said.partition("line ")[2].partition(" ")[0])
        assert line in {text.count("\n", 0, place) + 1 for place in letters}


@given(st.binary(max_size=400), st.sampled_from(["a.jsonl", "a.csv", "a.parquet", "a.jsonl.gz"]))
def test_any_bytes_are_looked_at_without_another_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, name: str
) -> None:
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(content)
    look: Callable[..., object] = require_kind if name.endswith((".parquet", ".gz")) else probe_of
    try:
        look(path, kind_of(path), name)
    except UnreadableFile as refused:
        assert "\n" not in refused.message


def probe_of(path: Path, kind: FileKind, name: str) -> Probe:
    return probe(path, kind, SALES, name=name)

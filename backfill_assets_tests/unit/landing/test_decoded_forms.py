"""What a file is decoded from: the name of a file and what its source declares decide, and archives hold one thing."""

from __future__ import annotations

import gzip
import io
import re
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_assets.capture.errors import BadFile
from backfill_assets.capture.files.file_capture import FileCapture, kind_of
from backfill_assets.capture.landed_files import FileKind, Format, LandingPlace
from backfill_assets.domain import Avro, Csv, Json, SourceTable, Xlsx
from backfill_assets.domain.source_files import Dialect
from backfill_assets.files.local import LocalFiles
from backfill_assets.landing.decoding.decode import decode, formats, to_read
from backfill_assets_tests.support.advice import advised
from backfill_assets_tests.unit.landing.test_first_bytes import SALES


def zipped(members: Mapping[str, bytes]) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return written.getvalue()


def reading(dialect: Dialect | None) -> SourceTable:
    return replace(SALES, reads=dialect)


def decoded(folder: Path, name: str, content: bytes, dialect: Dialect | None = None) -> tuple[FileKind, bytes] | None:
    """What a file that is offered by a name is decoded to; None where it is read as it is."""
    path, into = folder / name, folder / "decoded"
    path.write_bytes(content)
    source = reading(dialect)
    offered = FileCapture(path, formats(source))
    offered.require()
    found = decode(path, offered.kind, source, name=name, into=into)
    assert sorted(each.name for each in folder.iterdir()) == sorted([name, *(["decoded"] if found else [])])
    return (found, into.read_bytes()) if found else None


LINES, ROWS = b'{"id":"1"}\n{"id":"2"}', b"id,at\n1,2\n3,4"


@pytest.mark.parametrize(
    ("name", "content", "dialect", "suffix", "expected"),
    [
        ("a.jsonl", LINES, None, "", b""),
        ("a.jsonl.gz", gzip.compress(LINES), None, "", b""),
        ("a.csv", ROWS, Json(array=True), "", b""),
        ("a.jsonl", b'[{"id":1.0}]', Json(array=True), ".jsonl", b'{"id":1.0}\n'),
        ("stream-1-2026-03-01-uuid", b'{"id":1}{"id":2}', Json(), ".jsonl", b'{"id":1}\n{"id":2}\n'),
        ("stream-1-2026-03-01-uuid.gz", gzip.compress(b'{"id":1}{"id":2}'), Json(), ".jsonl", b'{"id":1}\n{"id":2}\n'),
        ("a.zip", zipped({"b.jsonl": b"\xef\xbb\xbf" + LINES, "a.jsonl": LINES}), None, ".jsonl", 2 * (LINES + b"\n")),
        ("a.zip", zipped({"data": b'[{"id":1}]'}), Json(array=True), ".jsonl", b'{"id":1}\n'),
        ("a.csv.zip", zipped({"a.data": ROWS}), None, ".csv", ROWS + b"\n"),
        (
            "a.zip",
            zipped({"1.csv": ROWS, "2.csv": b'\xef\xbb\xbfid,"at"\r\n5,6\r\n'}),
            None,
            ".csv",
            ROWS + b"\n5,6\r\n",
        ),
        ("a.zip", zipped({"1.csv": b"", "2.csv": ROWS, "3.csv": b"\n"}), None, ".csv", ROWS + b"\n"),
        (
            "a.zip",
            zipped({"1.tsv": b"id\tat\n1\t2\n", "2.txt": b"id\tat\n3\t,\n"}),
            Csv(delimiter="\t"),
            ".csv",
            b'id,at\n1,2\n3,","\n',
        ),
    ],
    ids=lambda value: "content" if isinstance(value, bytes) else None,  # an archive has the time in it
)
def test_the_name_and_the_declaration_decide_how_a_file_is_decoded(
    tmp_path: Path, name: str, content: bytes, dialect: Dialect | None, suffix: str, expected: bytes
) -> None:
    found = decoded(tmp_path, name, content, dialect)
    assert (found and (found[0].suffix, found[1])) == ((suffix, expected) if suffix else None)


def test_one_parquet_file_of_an_archive_is_read(tmp_path: Path) -> None:
    written = io.BytesIO()
    pq.write_table(pa.table({"id": ["1"]}), written)
    found = decoded(tmp_path, "a.zip", zipped({"x/a.parquet": written.getvalue()}))
    assert found is not None and (found[0].suffix, found[1]) == (".parquet", written.getvalue())
    with pytest.raises(BadFile, match="holds 2 files of Parquet, and one can be read"):
        decoded(tmp_path, "b.zip", zipped({"a.parquet": b"1", "b.parquet": b"2"}))


@pytest.mark.parametrize(
    ("name", "members", "says", "advises"),
    [
        ("a.zip", {"a.csv": b"1", "b.jsonl": b"2"}, r"holds a\.csv, b\.jsonl; a zip file that can be landed", "rename"),
        ("a.zip", {"README.md": b"1"}, "holds nothing; a zip file that can be landed", "rename"),
        ("a.csv.zip", {}, "holds no file, and is declared to hold CSV", "unpack it"),
        ("a.csv.zip", {"a.csv": ROWS, "b.json": b"1"}, r"holds b\.json, and is declared to hold CSV", "unpack it"),
        (
            "a.zip",
            {"a.csv": ROWS, "b.csv": b"id\n1\n"},
            r"zip \(b\.csv\) has another header than the member",
            "unpack it",
        ),
        ("a.zip", {"a.csv": ROWS, "b.csv": b"<html>"}, r"a\.zip \(b\.csv\) is an HTML page, not CSV", "get the file"),
        (
            "a.zip",
            {"a.csv": ROWS, "b.csv.gz": b"1"},
            r"is not a complete zip file: its member 'b\.csv\.gz' is packed",
            "",
        ),
    ],
)
def test_an_archive_of_several_things_is_refused_with_their_names(
    tmp_path: Path, name: str, members: Mapping[str, bytes], says: str, advises: str
) -> None:
    with pytest.raises(BadFile, match=says) as refused:
        decoded(tmp_path, name, zipped(members))
    assert str(advised(refused.value)).startswith(advises)


@pytest.mark.parametrize("suffix", [".xls", ".xlsb", ".ods"])
def test_a_spreadsheet_that_is_not_read_says_what_to_save_it_as(suffix: str) -> None:
    with pytest.raises(BadFile, match=r"save the spreadsheet as \.xlsx, and declare reads=Xlsx"):
        kind_of(Path(f"a{suffix}"))


def test_a_name_of_another_form_says_what_to_declare(tmp_path: Path) -> None:
    for name, declared in (("a.avro", "Avro()"), ("a.xlsx", "Xlsx()"), ("a.tsv", r'Csv(delimiter="\t")')):
        with pytest.raises(BadFile, match=re.escape(f"declare reads={declared} on its source")):
            decoded(tmp_path, name, b"")
    with pytest.raises(BadFile, match="is an HTML page, not JSON lines"):
        decoded(tmp_path, "b.json", b"<html>", Json(array=True))
    with pytest.raises(BadFile, match="is text, not Avro"):
        decoded(tmp_path, "c.avro", ROWS, Avro())
    with pytest.raises(BadFile, match="is an HTML page, not Excel"):
        decoded(tmp_path, "d.xlsx", b"<html>", Xlsx())
    with pytest.raises(BadFile, match="is UTF-16 text"):
        decoded(tmp_path, "e.json", "[]".encode("utf-16"), Json(array=True))


def test_what_is_captured_is_read_as_it_is(tmp_path: Path) -> None:
    """Records of a stream are lines of JSON whatever is declared of the files that people land beside them."""
    place = LandingPlace(source=SALES.name, files=LocalFiles(tmp_path / "landing"), incoming=tmp_path / "incoming")
    kind = FileKind(format=Format.JSONL, compression="gzip")
    (tmp_path / "a").write_bytes(gzip.compress(b'[{"id":1}]'))
    for is_offered in (True, False):
        with to_read(
            place, "a", tmp_path / "a", kind, reading(Json(array=True)), name="a.jsonl.gz", is_offered=is_offered
        ) as read:
            assert bool(read.stored_path) is is_offered

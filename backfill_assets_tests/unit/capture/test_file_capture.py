"""How offered files are kept, and which are refused before anything is recorded."""

from __future__ import annotations

import gzip
import hashlib
import os
from dataclasses import replace
from pathlib import Path
from typing import IO, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_assets.capture.files import file_capture
from backfill_assets.capture.files.file_capture import FileCapture, kind_of
from backfill_assets.capture.json_members import objects_of
from backfill_assets.capture.landed_files import GIVEN_FILE, STATEMENT, FileKind, Format, LandedFile, LandingPlace
from backfill_assets.core.errors import MissingInput, Refused, UnreadableFile
from backfill_assets.files.local import LocalFiles
from backfill_assets.landing.file_versions import probe_versions
from backfill_assets.landing.probe import Probe
from backfill_assets_tests.support.landing_examples import EVENTS, event, json_lines

Captured = tuple[LandedFile, Probe]


def offer(tmp_path: Path, content: bytes, name: str) -> Captured:
    path = tmp_path / name
    path.write_bytes(content)
    return offer_path(tmp_path, path)


def place_of(tmp_path: Path) -> LandingPlace:
    return LandingPlace(source=EVENTS.name, files=LocalFiles(tmp_path / "landing"), incoming=tmp_path / "incoming")


def offer_path(tmp_path: Path, path: Path) -> Captured:
    def check(copy: Path, kind: FileKind) -> Probe:
        return probe_versions(copy, kind, EVENTS, name=path.name)

    (captured,) = FileCapture(path).read(place_of(tmp_path), check)
    return captured


def kept(tmp_path: Path) -> list[Path]:
    """What is in the landing place, and what is left of what came in."""
    folders = (tmp_path / "landing", tmp_path / "incoming")
    return [path for folder in folders for path in folder.rglob("*") if path.is_file()]


def test_a_file_is_kept_under_the_digest_of_its_content(tmp_path: Path) -> None:
    content = json_lines(event())
    found, _ = offer(tmp_path, content, "May 2024.JSONL")
    digest = hashlib.sha256(content).hexdigest()
    assert found.stored_path == f"events/{digest[:2]}/{digest}.jsonl"
    assert (tmp_path / "landing" / found.stored_path).read_bytes() == content
    assert (found.sha256, found.size_bytes) == (digest, len(content))
    assert (found.family, found.range_from, found.range_to) == ("file", "0", str(len(content)))


def test_the_same_content_is_kept_once_and_left_alone(tmp_path: Path) -> None:
    first, _ = offer(tmp_path, json_lines(event()), "a.jsonl")
    stored = tmp_path / "landing" / first.stored_path
    before = stored.stat()
    second, _ = offer(tmp_path, json_lines(event()), "b.jsonl")
    after = stored.stat()
    assert second.stored_path == first.stored_path
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert kept(tmp_path) == [stored]


@pytest.mark.parametrize(
    ("name", "file_format", "compression", "suffix"),
    [
        ("a.jsonl", Format.JSONL, "", ".jsonl"),
        ("a.ndjson", Format.JSONL, "", ".jsonl"),
        ("a.b.JSON.GZ", Format.JSONL, "gzip", ".jsonl.gz"),
        ("2024.05.csv.gz", Format.CSV, "gzip", ".csv.gz"),
        ("a.parquet", Format.PARQUET, "", ".parquet"),
        ("a.geojson", Format.JSONL, "", ".jsonl"),
        ("a.json.zst", Format.JSONL, "zstd", ".jsonl.zst"),
        ("a.csv.bz2", Format.CSV, "bzip2", ".csv.bz2"),
        ("a.csv.xz", Format.CSV, "xz", ".csv.xz"),
        ("a.csv.zip", Format.CSV, "zip", ".csv.zip"),
    ],
)
def test_the_name_declares_the_format(name: str, file_format: Format, compression: str, suffix: str) -> None:
    kind = kind_of(Path(name))
    assert (kind.format, kind.compression, kind.suffix) == (file_format, compression, suffix)


@pytest.mark.parametrize("name", ["events", "events.xls", "events.gz", "events.parquet.gz", ".jsonl"])
def test_a_name_that_declares_no_format_is_refused(tmp_path: Path, name: str) -> None:
    why = "save the spreadsheet as .xlsx" if name.endswith(".xls") else "files that can be landed end in"
    with pytest.raises(UnreadableFile, match=why):
        offer(tmp_path, json_lines(event()), name)
    assert kept(tmp_path) == []


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingInput, match="there is no file"):
        offer_path(tmp_path, tmp_path / "nothing.jsonl")
    with pytest.raises(Refused, match="is a folder"):
        offer_path(tmp_path, tmp_path)
    with pytest.raises(Refused, match="is a folder"):
        offer_path(tmp_path, Path())


def parquet(tmp_path: Path, table: pa.Table) -> bytes:
    path = tmp_path / "written.parquet"
    pq.write_table(table, path)
    return path.read_bytes()


@pytest.mark.parametrize(
    ("content", "name", "says"),
    [
        (gzip.compress(json_lines(event()) * 1000, mtime=0)[:-20], "a.jsonl.gz", "not a complete gzip file"),
        (json_lines(event()), "a.jsonl.gz", "is not packed by gzip"),
        (gzip.compress(json_lines(event()), mtime=0), "a.jsonl", "holds gzip, not text"),
        (b"PAR1" + bytes(100), "a.csv", "holds Parquet, not text"),
        ('{"event_id": "1"}\n'.encode("utf-16"), "a.jsonl", "is UTF-16 text"),
        (bytes(range(256)) * 4, "a.jsonl", "is not text"),
        (b"", "a.parquet", "is empty, and a Parquet file without records is not"),
        (b"event_id\n", "a.parquet", "is text, not Parquet"),
        (
            b"event_time,place\n2024-05-01T10:00:00Z,x\n",
            "a.csv",
            "no column event_id.*its header is: event_time, place",
        ),
        (b"event_id,event_time,event_id\n", "a.csv", "names the column event_id twice"),
    ],
)
def test_a_file_that_cannot_be_read_at_all_is_refused_whole(
    tmp_path: Path, content: bytes, name: str, says: str
) -> None:
    with pytest.raises(UnreadableFile, match=says) as refusal:
        offer(tmp_path, content, name)
    assert "\n" not in str(refusal.value)
    assert kept(tmp_path) == []


@pytest.mark.parametrize(
    ("header", "advised"),
    [
        (
            b"event_ID,event_time",
            "if event_ID is meant, declare columns={'event_ID': 'event_id'}; otherwise add the column",
        ),
        (
            b"size,event_time",
            "declare what the file calls it: columns={'NAME': 'event_id'}; or add it to the file, or land it as "
            "another source",
        ),
        (
            b"event_id,event_id,event_time",
            "say which of them is meant: columns={('event_id', 1): 'event_id'}",
        ),
    ],
)
def test_a_header_that_does_not_fit_is_refused_with_what_to_do(tmp_path: Path, header: bytes, advised: str) -> None:
    with pytest.raises(UnreadableFile) as refusal:
        offer(tmp_path, header + b"\n1,2,3\n", "a.csv")
    assert str(refusal.value.next_step) == advised


def test_a_parquet_file_with_a_damaged_page_is_refused_whole(tmp_path: Path) -> None:
    names = [f"event-{number}" for number in range(10_000)]
    content = bytearray(
        parquet(tmp_path, pa.table({"event_id": names, "event_time": ["2024-05-01T10:00:00Z"] * 10_000}))
    )
    content[4:2_000] = b"\xff" * 1_996
    with pytest.raises(UnreadableFile, match="not a readable Parquet file"):
        offer(tmp_path, bytes(content), "a.parquet")


@pytest.mark.parametrize(
    ("column", "says"),
    [
        (pa.array([1], pa.timestamp("us")), "event_time as timestamp_ntz without a zone"),
        (pa.array([1], pa.timestamp("ns")), "event_time as timestamp_ntz without a zone"),
        (pa.array([1], pa.int64()), "event_time as bigint; the contract says timestamp"),
        (
            pa.array([1], pa.time64("us")),
            "event_time as time64.us., which Spark cannot read; the contract says",
        ),
    ],
)
def test_a_parquet_column_whose_values_have_no_one_meaning_is_refused_whole(
    tmp_path: Path, column: pa.Array, says: str
) -> None:
    with pytest.raises(UnreadableFile, match=says):
        offer(tmp_path, parquet(tmp_path, pa.table({"event_id": ["a"], "event_time": column})), "a.parquet")


def test_a_parquet_file_without_a_required_column_is_refused_whole(tmp_path: Path) -> None:
    with pytest.raises(
        UnreadableFile, match=r"no column event_time, which bronze\.events requires; its columns are: event_id"
    ):
        offer(tmp_path, parquet(tmp_path, pa.table({"event_id": ["a"]})), "a.parquet")


def test_an_unreadable_column_outside_the_contract_is_ignored(tmp_path: Path) -> None:
    table = pa.table({"event_id": ["a"], "event_time": ["2024-05-01T10:00:00Z"], "at": pa.array([1], pa.time64("ns"))})
    assert offer(tmp_path, parquet(tmp_path, table), "a.parquet")[1].ignored_columns == ("at",)


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf", b"\n\r\n"])
@pytest.mark.parametrize("name", ["a.jsonl", "a.csv"])
def test_a_blank_text_file_has_no_records(tmp_path: Path, content: bytes, name: str) -> None:
    assert offer(tmp_path, content, name)[1].empty


def test_what_a_killed_copy_left_behind_is_removed(tmp_path: Path) -> None:
    found, _ = offer(tmp_path, json_lines(event()), "a.jsonl")
    (tmp_path / "incoming" / "events" / "0123").write_bytes(b"half")
    assert place_of(tmp_path).remove_incoming() == 1
    assert kept(tmp_path) == [tmp_path / "landing" / found.stored_path]


SALE = '{"event_id": "1", "event_time": "2024-05-01T10:00:00Z", "place": "}{ [{},{}]", "tags": [{"a": 1}, {"b": 2}]}'


@pytest.mark.parametrize(
    ("text", "says", "declares"),
    [
        (f"{SALE}\n{SALE}{SALE}{SALE}\n", "holds 3 JSON objects in line 2", "Json()"),
        (f"{SALE}\r\n\r\n{SALE}, {SALE}\r\n", "holds 2 JSON objects in line 3", "Json()"),
        (f"[{SALE},{SALE}]", "is a JSON array", "Json(array=True)"),
        (f"[{SALE},{SALE}]\n[{SALE}, {SALE}]", "has an array in each line", "Json(array=True)"),
        (f'{{"n":{{"all":[{SALE},\n{SALE},\n{SALE}]}}}}', "is one JSON object over several", 'Json(records="n.all")'),
        (f"{SALE}\n [ {SALE} , {SALE} ]\n", "holds 2 JSON objects in line 2", ""),
        (f"{SALE}{SALE[:-20]}", "holds 2 JSON objects in line 1", "Json()"),
        (f"{SALE} \t{SALE} and more\n", "holds 2 JSON objects in line 1", "Json()"),
        (f"{SALE}\n" * 20_000 + f"{SALE}{SALE}\n", "holds 2 JSON objects in line 20,001", "Json()"),
        (f"[\n{SALE},\n{SALE}\n]\n", "is one JSON array over several lines", "Json(array=True)"),
        (f"\n[{SALE},\n{SALE}]\n", "is one JSON array over several lines", "Json(array=True)"),
        (f"{{\n{SALE[1:-1]}\n}}\n", "is one JSON object over several lines", "Json()"),
        (f'{{\n"n":{{"all":[\n{SALE}]}}}}', "is one JSON object over several lines", 'Json(records="n.all")'),
        (f"[{f'{SALE},' * 90_000}{SALE}]", "is a JSON array", "Json(array=True)"),
        (f'{{"n":[{f"{SALE}," * 90_000}{SALE}]}}', "has a line of more than 8 MiB", 'Json(records="n")'),
        (
            f'{{"type": "FeatureCollection", "features": [{SALE},{SALE}]}}',
            "holds 2 JSON objects in line 1 at 'features'",
            'Json(records="features")',
        ),
        (
            f'{{"of":{{"a":[1]}},"data":{{"items":[{SALE}, {SALE}, {SALE}]}}}}\n',
            "3 JSON objects in line 1 at 'data.items'",
            'Json(records="data.items")',
        ),
        (f'{SALE}\n{{"next": null, "value":[{SALE},{SALE}]}}\n', "holds 2 JSON objects in line 2 at 'value'", ""),
    ],
    ids=lambda text: text[:20],
)
@pytest.mark.parametrize("name", ["a.jsonl", "a.json.gz"])
def test_several_records_on_one_line_or_one_on_several_are_refused_whole(
    tmp_path: Path, text: str, says: str, declares: str, name: str
) -> None:
    content = text.encode()
    with pytest.raises(UnreadableFile, match=says) as refusal:
        offer(tmp_path, gzip.compress(content) if name.endswith(".gz") else content, name)
    assert refusal.value.message.endswith(f": declare reads={declares}.") is bool(declares)
    assert str(refusal.value.next_step) == f"{'declare that, or ' if declares else ''}write one record per line"
    assert kept(tmp_path) == []


@pytest.mark.parametrize("line", [SALE, f"{SALE}]", "[1, 2]", f"[{SALE}]", f"{SALE},", '"}{"', "}{", '{"a": "}{"'])
def test_a_line_that_is_one_record_or_none_is_left_to_its_judgement(tmp_path: Path, line: str) -> None:
    assert not offer(tmp_path, f"{SALE}\n{line}\n{SALE}".encode(), "a.jsonl")[1].empty


@pytest.mark.parametrize("separator", ["", " ", ",", " ,\n", "\r\n\t"])
def test_the_objects_of_a_text_are_told_apart_as_they_were_written(separator: str) -> None:
    texts = ['{"a": 1.50}', '{"b": [{"c": 1}, {"d": "}{"}]}', "{}"]
    assert list(objects_of(separator.join(texts))) == texts
    assert list(objects_of(f" [{separator.join(texts)} ] ")) == texts
    assert [list(objects_of(text)) for text in (*texts, f"[{texts[0]}]", "", "1{}{}", "[1,{},{}]")] == [[]] * 7


@pytest.mark.parametrize("how", ["more", "less", "other"])
def test_a_file_that_changes_while_it_is_copied_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(json_lines(event()) * 3)
    pumped = file_capture._pump

    def pump(original: BinaryIO, copy: IO[bytes]) -> tuple[str, int]:
        found = pumped(original, copy)
        content = path.read_bytes()
        path.write_bytes({"more": content * 2, "less": content[:-5], "other": content[::-1]}[how])
        os.utime(path, (0, 0))
        return found

    monkeypatch.setattr(file_capture, "_pump", pump)
    with pytest.raises(Refused, match="changed while it was copied") as refused:
        offer_path(tmp_path, path)
    assert "land it when it is complete" in str(refused.value.next_step)
    assert kept(tmp_path) == []


@pytest.mark.parametrize(
    "line",
    [
        '{"a": [{"x": 1}, {"x": 2}], "event_id": 1}',
        '{"a": {"b": [{"event_id": 1}]}}',
        '{"a": [1, {"x": 1}], "b": "}, {"}',
        '{"a": [{"x": 1}, {"x": 2}], "b": ',
    ],
)
def test_lists_in_a_record_and_lines_that_are_one_record_in_any_case_are_no_several_records(
    tmp_path: Path, line: str
) -> None:
    assert not offer(tmp_path, f"{SALE}\n{line}\n".encode(), "a.jsonl")[1].empty


def test_the_name_of_a_statement_is_all_of_its_title() -> None:
    title = "lacking of 2026-01-10 in Europe/Amsterdam"
    statement = LandedFile(
        source="bronze.visits",
        family=STATEMENT,
        range_from="0",
        range_to="1",
        sha256="0" * 64,
        original_path=title,
        stored_path="visits/a.json",
        size_bytes=1,
        format="statement",
        compression="",
    )
    assert statement.name == title
    assert replace(statement, family=GIVEN_FILE, original_path="in/visits.csv").name == "visits.csv"

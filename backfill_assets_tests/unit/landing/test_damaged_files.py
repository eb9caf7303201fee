"""A file of which a bit has changed, or that is cut, is refused before anything is kept, where its format can tell.

CSV and JSON lines that are not packed carry no checksum, and neither does the footer of a Parquet file.
"""

from __future__ import annotations

import gzip
import json
import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.capture.files.file_capture import FileCapture
from backfill_assets.capture.files.packed import open_gzip
from backfill_assets.capture.landed_files import FileKind, LandingPlace
from backfill_assets.core.errors import UnreadableFile
from backfill_assets.files.local import LocalFiles
from backfill_assets.landing.file_versions import probe_versions
from backfill_assets.landing.probe import Probe
from backfill_assets_tests.support.landing_examples import EVENTS

ROWS = [
    {"event_id": f"e{number}", "event_time": f"2024-05-01T10:{number:02}:00Z", "place": f"place {number % 7}"}
    for number in range(40)
]
_LINES = "".join(f"{json.dumps(row)}\n" for row in ROWS).encode()
_CSV = ("event_id,event_time,place\n" + "".join(f"{','.join(row.values())}\n" for row in ROWS)).encode()
TEXTS = {
    "a.jsonl.gz": gzip.compress(_LINES, mtime=0),
    "a.csv.gz": gzip.compress(_CSV, mtime=0),
    "members.csv.gz": gzip.compress(_CSV[:500], mtime=0) + gzip.compress(_CSV[500:], mtime=0),
    "named.jsonl.gz": b"\x1f\x8b\x08\x08" + bytes(6) + b"a.jsonl\0" + gzip.compress(_LINES, mtime=0)[10:],
}
CODECS = ("NONE", "SNAPPY", "GZIP", "ZSTD")


def offer(folder: Path, content: bytes, name: str) -> Probe:
    """Offers a file; nothing is kept of one that is refused."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(content)

    def check(copy: Path, kind: FileKind) -> Probe:
        return probe_versions(copy, kind, EVENTS, name=name)

    place = LandingPlace(source=EVENTS.name, files=LocalFiles(folder / "landing"), incoming=folder / "incoming")
    try:
        ((_, found),) = FileCapture(folder / name).read(place, check)
    except UnreadableFile as refused:
        assert "\n" not in str(refused)
        assert [path for path in (folder / "landing").rglob("*") if path.is_file()] == []
        raise
    return found


def parquet(folder: Path, codec: str, *, name: str = "written.parquet") -> tuple[bytes, int]:
    """A Parquet file whose pages have checksums, and where its footer begins."""
    folder.mkdir(exist_ok=True)
    table = pa.table(
        {
            **{column: [row[column] for row in ROWS] for column in ROWS[0]},
            "amount": [float(100 * number) for number in range(len(ROWS))],
        }
    )
    pq.write_table(
        table, folder / name, compression=codec, write_page_checksum=True, data_page_size=200, write_batch_size=8
    )
    content = (folder / name).read_bytes()
    return content, len(content) - 8 - struct.unpack("<I", content[-8:-4])[0]


def flipped(content: bytes, at: int, bit: int) -> bytes:
    changed = bytearray(content)
    changed[at] ^= 1 << bit
    return bytes(changed)


def test_a_page_of_parquet_whose_checksum_does_not_match_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table(
        {"event_id": ["1", "2", "3"], "event_time": ["2024-05-01T10:00:00Z"] * 3, "amount": [100.0, 200.0, 300.0]}
    )
    pq.write_table(table, path, write_page_checksum=True, compression="NONE", use_dictionary=False)
    content = path.read_bytes()
    changed = flipped(content, content.index(struct.pack("<d", 200.0)) + 6, 4)
    path.write_bytes(changed)
    assert pq.read_table(path)["amount"].to_pylist() == [
        100.0,
        400.0,
        300.0,
    ]  # what readers make of it that do not look
    with pytest.raises(UnreadableFile, match="CRC checksum verification failed"):
        offer(tmp_path / "offered", changed, "a.parquet")


@given(data=st.data(), codec=st.sampled_from(CODECS))
def test_a_bit_of_the_pages_of_a_parquet_file_is_noticed_or_changes_no_value(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, codec: str
) -> None:
    folder = tmp_path_factory.mktemp("parquet")
    content, footer = parquet(folder, codec)
    right = pq.read_table(folder / "written.parquet")
    at, bit = data.draw(st.integers(4, footer - 1)), data.draw(st.integers(0, 7))
    changed = flipped(content, at, bit)
    try:
        offer(folder / "offered", changed, "a.parquet")
    except UnreadableFile:
        return
    assert pq.read_table(folder / "offered" / "a.parquet").equals(right)


@given(data=st.data(), name=st.sampled_from(sorted(TEXTS)))
def test_a_bit_of_a_gzipped_file_is_noticed_or_changes_no_byte_of_its_text(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, name: str
) -> None:
    content, folder = TEXTS[name], tmp_path_factory.mktemp("gzip")
    changed = flipped(content, data.draw(st.integers(0, len(content) - 1)), data.draw(st.integers(0, 7)))
    try:
        offer(folder, changed, name)
    except UnreadableFile:
        return
    assert gzip.decompress(changed) == gzip.decompress(content)
    # These bits are reserved, and the readers of Java stop at a file that has one of them.
    assert changed[3] & 0b1110_0000 == 0


@given(data=st.data(), name=st.sampled_from([*sorted(TEXTS), *CODECS]))
def test_a_file_that_is_cut_is_refused_where_it_cannot_have_ended(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, name: str
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    content = parquet(folder, name)[0] if name in CODECS else TEXTS[name]
    end = data.draw(st.integers(0, len(content) - 1))
    if name == "members.csv.gz" and end == len(gzip.compress(_CSV[:500], mtime=0)):
        return  # the first member is a whole file of its own
    refused = r"not a complete gzip file|not a readable Parquet file|was not written to its end"
    with pytest.raises(UnreadableFile, match=refused):
        offer(folder / "offered", content[:end], "a.parquet" if name in CODECS else name)


@pytest.mark.parametrize(
    ("behind", "says"),
    [
        (b"\0", "zeros follow the compressed text"),
        (bytes(3 << 20), "zeros follow the compressed text"),
        (bytes(1 << 20) + gzip.compress(_LINES), "something else follows the compressed text"),
        (b"\n", "something else follows the compressed text"),
        (b"\x1f\n", "incorrect header check"),
        (gzip.compress(_LINES)[:-1], "it ends within its compressed text"),
    ],
)
def test_what_is_behind_a_gzipped_text_is_refused(tmp_path: Path, behind: bytes, says: str) -> None:
    with pytest.raises(UnreadableFile, match=says):
        offer(tmp_path, TEXTS["a.jsonl.gz"] + behind, "a.jsonl.gz")


def test_a_gzipped_text_is_read_as_it_was_written(tmp_path: Path) -> None:
    text = b"".join(b'{"event_id": "%d"}\n' % number for number in range(400_000))
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(text[:100], 0) + gzip.compress(b"") + gzip.compress(text[100:], 9))
    with open_gzip(path) as opened:
        assert opened.read() == text
    with open_gzip(path) as opened:
        assert b"".join(opened) == text

"""A packed file is read to its last byte as the strictest reader does, or refused; an archive gives only data."""

from __future__ import annotations

import bz2
import io
import lzma
import os
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from backfill_assets.capture.files import packed
from backfill_assets.capture.files.packed import NotWhole, is_of_people, open_archive, open_packed

TEXT = os.urandom(200_000) + b"0123456789" * 200_000


def zstd(text: bytes) -> bytes:
    written = io.BytesIO()
    with pa.CompressedOutputStream(written, "zstd") as stream:
        stream.write(text)
        stream.flush()
        return _closed(stream, written)


def _closed(stream: pa.CompressedOutputStream, written: io.BytesIO) -> bytes:
    keep = written.close
    written.close = lambda: None  # type: ignore[method-assign]
    stream.close()
    found = written.getvalue()
    keep()
    return found


PACK: dict[str, Callable[[bytes], bytes]] = {"bzip2": bz2.compress, "xz": lzma.compress, "zstd": zstd}


def read(path: Path, content: bytes, compression: str) -> bytes:
    path.write_bytes(content)
    with open_packed(path, compression) as stream:
        return stream.read()


@pytest.mark.parametrize("compression", PACK)
def test_a_packed_text_of_one_stream_or_several_is_read_whole(tmp_path: Path, compression: str) -> None:
    path, pack = tmp_path / "a", PACK[compression]
    assert read(path, pack(TEXT), compression) == TEXT
    assert read(path, pack(b"a") + pack(b"") + pack(TEXT) + pack(b"z"), compression) == b"a" + TEXT + b"z"
    assert read(path, pack(b""), compression) == b""


@pytest.mark.parametrize("compression", PACK)
def test_a_packed_text_that_is_cut_damaged_or_followed_by_something_is_refused(
    tmp_path: Path, compression: str
) -> None:
    path, whole = tmp_path / "a", PACK[compression](TEXT)
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 4
    others = [] if compression == "zstd" else [flipped]  # a frame of zstd need not have a checksum
    for content in (whole[:-1], whole[: len(whole) // 2], whole + b"x", whole + bytes(5), whole + whole[:9], *others):
        with pytest.raises(NotWhole):
            read(path, bytes(content), compression)


def test_zeros_that_belong_to_a_file_of_xz_and_frames_to_skip_are_no_text(tmp_path: Path) -> None:
    one, other = lzma.compress(b"1"), lzma.compress(b"2")
    assert read(tmp_path / "a", one + bytes(8) + other + bytes(4), "xz") == b"12"
    skipped = b"\x50\x2a\x4d\x18" + struct.pack("<I", 3) + b"abc"
    assert read(tmp_path / "a", skipped + zstd(b"1") + skipped + zstd(b"2"), "zstd") == b"12"


def test_a_few_bytes_do_not_unpack_to_as_many_as_they_like(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "_LEAST_BYTES", 1 << 20)
    for compression, pack in PACK.items():
        with pytest.raises(NotWhole, match=r"unpacks to more than 1,048,576 bytes"):
            read(tmp_path / "a", pack(bytes(8 << 20)), compression)
    with pytest.raises(NotWhole, match="unpacks to more than"):
        names(archive(tmp_path, {"a.csv": bytes(8 << 20)}))


def archive(folder: Path, members: dict[str, bytes], *, method: int = zipfile.ZIP_DEFLATED) -> Path:
    path = folder / "a.zip"
    with zipfile.ZipFile(path, "w", method) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


def names(path: Path) -> list[str]:
    with open_archive(path) as found:
        return list(found.names)


def contents(path: Path) -> list[bytes]:
    with open_archive(path) as found:
        return [_content(found, name) for name in found.names]


def _content(found: packed.Archive, name: str) -> bytes:
    with found.open(name) as stream:
        return stream.read()


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_members_are_read_in_the_order_of_their_names(tmp_path: Path, method: int) -> None:
    members = {"b.csv": b"2", "a/": b"", "a/c.csv": b"1", "__MACOSX/._b.csv": b"x", ".DS_Store": b"x", "c.csv": TEXT}
    path = archive(tmp_path, members, method=method)
    assert names(path) == ["a/c.csv", "b.csv", "c.csv"]
    assert contents(path) == [b"1", b"2", TEXT]


def test_what_people_read_is_known_by_its_name() -> None:
    assert [name for name in ("a/README.txt", "License", "x.pdf", "readmes.csv", "data.txt") if is_of_people(name)] == [
        *("a/README.txt", "License", "x.pdf")
    ]


@pytest.mark.parametrize("name", ["../a.csv", "/a.csv", "a/../../b.csv", "C:a.csv", "a\\b.csv"])
def test_a_name_that_leads_elsewhere_refuses_the_archive(tmp_path: Path, name: str) -> None:
    path = archive(tmp_path, {"b.csv": b"1", name.replace("\\", "?"): b"2"})
    path.write_bytes(path.read_bytes().replace(name.replace("\\", "?").encode(), name.encode()))
    with pytest.raises(NotWhole, match="which leads out of the archive"):
        names(path)


def test_an_archive_that_is_cut_damaged_or_followed_by_something_is_refused(tmp_path: Path) -> None:
    whole = archive(tmp_path, {"a.csv": TEXT, "b.csv": TEXT}).read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 3] ^= 4
    for content in (whole[:-1], whole[: len(whole) // 2], whole + b"x", b"x" + whole, flipped, b"PK\x03\x04"):
        (tmp_path / "a.zip").write_bytes(content)
        with pytest.raises(NotWhole):
            contents(tmp_path / "a.zip")


def _changed(path: Path, place: int, value: bytes) -> Path:
    """An archive with some bytes of the entry of its first member changed, in its directory."""
    content = bytearray(path.read_bytes())
    at = content.find(b"PK\x01\x02") + place
    content[at : at + len(value)] = value
    path.write_bytes(content)
    return path


def test_what_is_encrypted_linked_packed_again_or_by_an_unknown_method_is_refused(tmp_path: Path) -> None:
    for place, value, said in (
        (8, b"\x01\x00", "member 'a.csv' is encrypted"),
        (10, b"\x09\x00", "member 'a.csv' is packed by method 9"),
        (38, struct.pack("<I", 0o120777 << 16), "member 'a.csv' is a link"),
        (24, struct.pack("<I", 1), "."),  # its size
        (42, struct.pack("<I", 0xFFFF), "."),  # where it is
    ):
        path = _changed(archive(tmp_path, {"a.csv": b"12345"}), place, value)
        with pytest.raises(NotWhole, match=said):
            contents(path)
    for name in ("a.csv.gz", "b.zip", "c.tar"):
        with pytest.raises(NotWhole, match="is packed itself"):
            names(archive(tmp_path, {name: b"1"}))


def test_members_that_lie_in_one_another_and_names_twice_are_refused(tmp_path: Path) -> None:
    content = archive(tmp_path, {"a.csv": TEXT, "b.csv": b"1"}).read_bytes()
    at = content.rfind(b"PK\x01\x02")
    (tmp_path / "a.zip").write_bytes(content[: at + 42] + bytes(4) + content[at + 46 :])
    with pytest.raises(NotWhole, match="overlap"):
        names(tmp_path / "a.zip")
    path = archive(tmp_path, {"a.csv": b"1", "b.csv": b"2"})
    path.write_bytes(path.read_bytes().replace(b"b.csv", b"a.csv"))
    with pytest.raises(NotWhole, match="two members have the name"):
        names(path)

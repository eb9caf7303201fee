"""Sample: a bounded part of a file, from its beginning, its middle and its end. Only this module, `footer` and
`api_document` read."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from backfill_assets.capture.errors import BadFile, Fault
from backfill_assets.capture.gzip_text import NotWhole
from backfill_assets.capture.packed import is_of_people, open_archive, open_packed

WHOLE_BYTES = 4 << 20
"""Files up to this size are read to their end."""

HEAD_BYTES = 1 << 20
PART_BYTES = 1 << 17
PARTS = 8

_PACKED: Mapping[str, bytes] = {
    "gzip": b"\x1f\x8b",
    "zip": b"PK\x03\x04",
    "zstd": b"\x28\xb5\x2f\xfd",
    "xz": b"\xfd7zXZ\x00",
    "bzip2": b"BZh91AY&SY",
}
"""What packed files begin with. Of bzip2 that of the largest blocks, which programs write unless they are asked."""

_WORKBOOK = "[Content_Types].xml"


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The sample that was read of a file, unpacked."""

    file: str  #: Its name.
    size_bytes: int  #: How large it is, as it is.
    head: bytes  #: Its first bytes, or all of them.
    #: Bytes from its middle and its end, each of which may begin and end within a record.
    parts: tuple[bytes, ...] = ()
    packed: str = ""  #: How it is packed, or empty.
    is_workbook: bool = False  #: Whether it is one of a spreadsheet.
    is_whole: bool  #: Whether `head` is all of it.
    members: tuple[str, ...] = ()  #: The files of an archive besides the first one.

    @property
    def read_bytes(self) -> int:
        """The number of bytes that were looked at, unpacked."""
        return len(self.head) + sum(map(len, self.parts))


def read_sample(path: Path) -> Sample:
    """Reads a bounded part of a file.

    Raises:
        UnreadableFile: It is empty, packed in another way than landing unpacks, or damaged.
    """
    size = path.stat().st_size
    if not size:
        raise BadFile(path=str(path), fault=Fault.DAMAGED, why="is empty, so that it tells nothing of its records")
    with path.open("rb") as file:
        begin = file.read(10)
        file.seek(0)
        packed = next((name for name, marks in _PACKED.items() if begin.startswith(marks)), "")
        if not packed:
            return _plain(path, size, file)
    try:
        if packed == "zip":
            return _of_archive(path, size)
        with open_packed(path, packed) as unpacked:
            return _packed(path, size, unpacked, packed)
    except (NotWhole, OSError, EOFError, zlib.error, zipfile.BadZipFile) as error:
        raise BadFile(path=str(path), fault=Fault.DAMAGED, why=f"cannot be unpacked: {error}") from error


def _plain(path: Path, size: int, file: IO[bytes]) -> Sample:
    if size <= WHOLE_BYTES:
        return Sample(file=path.name, size_bytes=size, head=file.read(), is_whole=True)
    head = file.read(HEAD_BYTES)
    parts = []
    for number in range(1, PARTS + 1):
        file.seek(max(HEAD_BYTES, (size - PART_BYTES) * number // PARTS))
        parts.append(file.read(PART_BYTES))
    return Sample(file=path.name, size_bytes=size, head=head, parts=tuple(parts), is_whole=False)


def _packed(path: Path, size: int, unpacked: _Readable, packed: str, members: tuple[str, ...] = ()) -> Sample:
    head = unpacked.read(WHOLE_BYTES)
    is_whole = len(head) < WHOLE_BYTES or not unpacked.read(1)
    return Sample(file=path.name, size_bytes=size, head=head, packed=packed, is_whole=is_whole, members=members)


def _of_archive(path: Path, size: int) -> Sample:
    with zipfile.ZipFile(path) as archive:
        if _WORKBOOK in archive.namelist():
            content = path.read_bytes()
            return Sample(file=path.name, size_bytes=size, head=content, is_workbook=True, is_whole=True)
    with open_archive(path) as files:
        names = [name for name in files.names if not is_of_people(name)]
        if not names:
            raise BadFile(path=str(path), fault=Fault.PACKED, why="is an archive without a file of records in it")
        with files.open(names[0]) as unpacked:
            return _packed(path, size, unpacked, "zip", tuple(names[1:]))

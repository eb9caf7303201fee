"""Packed files: what is in a file packed by gzip, zstd, bzip2 or xz, or in an archive of ZIP, read as strictly as the
strictest reader.
"""

from __future__ import annotations

import bz2
import io
import lzma
import re
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, pairwise
from pathlib import Path, PurePosixPath
from typing import IO, Protocol, cast

from backfill_assets.core.wording import visible

# Gzip text: reads a gzipped file as the strictest of its readers does, and refuses one that is not whole.
#
# Python's own module reads over reserved flags and zeros behind the text, at which Spark stops after a landing
# has begun.

_CHUNK_BYTES = 1 << 20
_MAGIC = b"\x1f"
_WITH_TRAILER = 31
"""For zlib: with the header of gzip and its trailer, which has the checksum and the length of the text."""


class NotWhole(Exception):
    """A packed file is cut, damaged, or has something behind its text.

    Args:
        is_padded: Whether only zeros follow, as tapes and block devices add them.
        what: What the file is packed by.
    """

    def __init__(self, why: str, *, is_padded: bool = False, what: str = "gzip") -> None:
        super().__init__(why)
        self.is_padded, self.what = is_padded, what


def open_gzip(path: Path) -> IO[bytes]:
    """The text of a gzipped file of one member or several; reading raises `NotWhole` where it is none."""
    return cast(IO[bytes], io.BufferedReader(_Members(path.open("rb")), _CHUNK_BYTES))


class _Members(io.RawIOBase):
    """The text of the members of a gzipped file, one behind the other."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._member, self._rest = file, zlib.decompressobj(_WITH_TRAILER), b""
        self._is_between = False

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        super().close()

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # every buffer that is written to
        while True:
            self._rest = self._rest or self._file.read(_CHUNK_BYTES)
            if self._is_between:
                if not self._rest:
                    return 0
                self._begin()
            elif not self._rest:
                raise NotWhole("it ends within its compressed text")
            try:
                text = self._member.decompress(self._rest, len(buffer))
            except zlib.error as error:
                raise NotWhole(str(error).rpartition(": ")[2]) from error
            self._rest = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
            self._is_between = self._member.eof
            if text:
                buffer[: len(text)] = text
                return len(text)

    def _begin(self) -> None:
        """Begins the next member, which anything but the beginning of one is not."""
        if not self._rest.startswith(_MAGIC):
            chunks = chain([self._rest], iter(lambda: self._file.read(_CHUNK_BYTES), b""))
            is_padded = not any(each.strip(b"\0") for each in chunks)
            what = "zeros follow" if is_padded else "something else follows"
            raise NotWhole(f"{what} the compressed text", is_padded=is_padded)
        self._member, self._is_between = zlib.decompressobj(_WITH_TRAILER), False


# Packed files: what is in a file packed by zstd, bzip2 or xz, or in an archive of ZIP, read as strictly as gzip.
#
# What is cut, damaged, encrypted, packed twice, or has something behind it is refused whole, and so is what
# unpacks to far more than data does. Nothing is extracted by the names that an archive gives.

_MOST_MEMBERS, _MOST_CHARACTERS = 10_000, 100
_LEAST_BYTES = 1 << 30
_MOST_TIMES = 250
"""A file may unpack to so many times its size, or to a gibibyte: texts that repeat themselves stay below a tenth."""

_XZ_PADDING = 4
_MOST_MEMORY = 256 << 20
"""The highest level of xz takes a quarter of it."""

_END_OF_ZIP = b"PK\x05\x06"
_END_BYTES, _MOST_COMMENT = 22, 0xFFFF
_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA}
_OF_PEOPLE = re.compile(r"(?:readme|licen[cs]e|copying|notice)\b.*|.*\.(?:md|pdf|html?|rtf|docx?)", re.IGNORECASE)
"""Names of files for people that may lie beside the data of an archive."""

_PACKED_AGAIN = re.compile(r".*\.(?:zip|gz|zst|zstd|bz2|xz|7z|rar|tar|tgz)", re.IGNORECASE)
_HAS_PATH = re.compile(r"\A[/\\]|\A[A-Za-z]:|\\|(?:\A|/)\.\.(?:/|\Z)")


class _Unpacker(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


def open_packed(path: Path, compression: str) -> IO[bytes]:
    """The text of a file packed by gzip, zstd, bzip2 or xz; reading raises `NotWhole` where it is not whole."""
    if compression == "gzip":
        return open_gzip(path)
    raw: io.RawIOBase = _Zstd(path) if compression == "zstd" else _Streams(path.open("rb"), compression)
    return cast(IO[bytes], io.BufferedReader(_Bounded(raw, most_bytes(path), compression), _CHUNK_BYTES))


def _new_unpacker(compression: str) -> Callable[[], _Unpacker]:
    if compression == "bzip2":
        return bz2.BZ2Decompressor
    assert compression == "xz", compression
    return lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MOST_MEMORY)


def most_bytes(path: Path) -> int:
    """The most bytes to which a file may unpack."""
    return max(_LEAST_BYTES, _MOST_TIMES * path.stat().st_size)


class _Zstd(io.RawIOBase):
    """The text of the frames of zstd, one behind the other. Arrow's reader refuses cut frames and what is none."""

    def __init__(self, path: Path) -> None:
        import pyarrow as pa  # what only looks at the ledger does not wait for it

        self._file = pa.CompressedInputStream(pa.OSFile(str(path)), "zstd")

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        super().close()

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # every buffer that is written to
        try:
            text = self._file.read(len(buffer))
        except OSError as error:
            raise NotWhole(str(error).splitlines()[0].rpartition(": ")[2].rstrip(".").lower(), what="zstd") from error
        buffer[: len(text)] = text
        return len(text)


class _Streams(io.RawIOBase):
    """The text of streams of bzip2 or xz, one behind the other."""

    def __init__(self, file: IO[bytes], compression: str) -> None:
        self._file, self._what = file, compression
        self._new, self._padding = _new_unpacker(compression), _XZ_PADDING if compression == "xz" else 0
        self._stream, self._rest = self._new(), b""

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        super().close()

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # every buffer that is written to
        while True:
            if self._stream.eof and not self._begins_another():
                return 0
            if self._stream.needs_input:
                self._rest = self._rest or self._file.read(_CHUNK_BYTES)
                if not self._rest:
                    raise NotWhole("it ends within its compressed text", what=self._what)
            try:
                text = self._stream.decompress(self._rest, len(buffer))
            except (OSError, EOFError, lzma.LZMAError) as error:
                raise NotWhole(str(error).lower() or "it is damaged", what=self._what) from error
            self._rest = self._stream.unused_data if self._stream.eof else b""
            if text:
                buffer[: len(text)] = text
                return len(text)

    def _begins_another(self) -> bool:
        """True if a stream follows the one that ended; zeros between streams are part of a file of xz."""
        zeros = 0
        while True:
            self._rest = self._rest or self._file.read(_CHUNK_BYTES)
            kept = self._rest.lstrip(b"\0") if self._padding else self._rest
            zeros += len(self._rest) - len(kept)
            self._rest = kept
            if kept:
                break
            if not (chunk := self._file.read(_CHUNK_BYTES)):
                break
            self._rest = chunk
        if self._padding and zeros % self._padding:
            raise NotWhole("zeros follow the compressed text", what=self._what)
        if self._rest:
            self._require_begin()
            self._stream = self._new()
        return bool(self._rest)

    def _require_begin(self) -> None:
        magic = b"\xfd7zXZ\x00" if self._padding else b"BZh"
        while len(self._rest) < len(magic) and (chunk := self._file.read(_CHUNK_BYTES)):
            self._rest += chunk
        if not self._rest.startswith(magic):
            raise NotWhole("something else follows the compressed text", what=self._what)


class _Bounded(io.RawIOBase):
    """A text that may not be longer than a number of bytes."""

    def __init__(self, raw: io.RawIOBase, most: int, what: str) -> None:
        self._raw, self._most, self._left, self._what = raw, most, most, what

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._raw.close()
        super().close()

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # every buffer that is written to
        count = self._raw.readinto(buffer) or 0
        self._left -= count
        if self._left < 0:
            raise NotWhole(f"it unpacks to more than {self._most:,} bytes, which no data does", what=self._what)
        return count


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """An archive of ZIP whose directory was checked.

    Raises:
        NotWhole: It is cut, damaged, encrypted, or holds what is not read.
    """
    _require_end(path)
    with _damage_told(), zipfile.ZipFile(path) as file:
        found = [each for each in file.infolist() if not _is_passed_over(each)]
        _require_places(file.infolist())
        _require_size(found, most_bytes(path))
        for each in found:
            _require_readable(each)
        yield Archive(file, tuple(sorted(found, key=lambda each: each.filename)))


class Archive:
    """The members of a ZIP archive, in the order of their names."""

    def __init__(self, file: zipfile.ZipFile, members: tuple[zipfile.ZipInfo, ...]) -> None:
        self._file, self._members = file, {each.filename: each for each in members}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._members)

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        """The bytes of a member; reading to the end raises `NotWhole` where they are not those that were packed."""
        with _damage_told(), self._file.open(self._members[name]) as stream:
            yield cast(IO[bytes], io.BufferedReader(_Member(stream, self._members[name].file_size), _CHUNK_BYTES))


class _Member(io.RawIOBase):
    """The text of a member, which has to be as long as the directory says."""

    def __init__(self, stream: IO[bytes], size: int) -> None:
        self._stream, self._left = stream, size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # every buffer that is written to
        with _damage_told():
            text = self._stream.read(len(buffer))
        self._left -= len(text)
        if not text and self._left:
            raise NotWhole("a member is shorter than its directory says", what="zip")
        buffer[: len(text)] = text
        return len(text)


@contextmanager
def _damage_told() -> Iterator[None]:
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError) as error:
        raise NotWhole(str(error).rstrip(".").replace("\n", " ") or "it is damaged", what="zip") from error


def _require_end(path: Path) -> None:
    """Requires that the directory ends the file: Python's module reads over what is before and behind an archive."""
    size = path.stat().st_size
    with path.open("rb") as file:
        begin = file.read(4)
        file.seek(max(0, size - _END_BYTES - _MOST_COMMENT))
        tail = file.read()
    at = tail.rfind(_END_OF_ZIP)
    if at < 0 or len(tail) - at < _END_BYTES:
        raise NotWhole("it has no directory at its end, so that it was cut", what="zip")
    comment = int.from_bytes(tail[at + _END_BYTES - 2 : at + _END_BYTES], "little")
    if at + _END_BYTES + comment != len(tail):
        raise NotWhole("something else follows the archive", what="zip")
    if begin not in (b"PK\x03\x04", _END_OF_ZIP):
        raise NotWhole("something else is before the archive", what="zip")


def _is_passed_over(member: zipfile.ZipInfo) -> bool:
    parts = PurePosixPath(member.filename).parts
    return member.is_dir() or "__MACOSX" in parts or parts[-1:] == () or parts[-1].startswith(".")


def _require_places(members: list[zipfile.ZipInfo]) -> None:
    """Refuses an archive with more members than a person packs, a name twice, a name that leads elsewhere, or members
    that lie in one another, by which a few bytes unpack to as many as one likes."""
    if len(members) > _MOST_MEMBERS:
        raise NotWhole(f"it holds {len(members):,} members, and {_MOST_MEMBERS:,} are the most", what="zip")
    names = [each.filename for each in members]
    for name in names:
        if _HAS_PATH.search(name) or "\0" in name:
            raise NotWhole(f"a member has the name {_shown(name)}, which leads out of the archive", what="zip")
    if twice := sorted({each for each in names if names.count(each) > 1}) if len({*names}) < len(names) else []:
        raise NotWhole(f"two members have the name {_shown(twice[0])}", what="zip")
    for one, other in pairwise(sorted(members, key=lambda each: each.header_offset)):
        if one.header_offset + one.compress_size > other.header_offset:
            raise NotWhole(f"its members {_shown(one.filename)} and {_shown(other.filename)} overlap", what="zip")


def _require_size(members: list[zipfile.ZipInfo], most: int) -> None:
    if sum(each.file_size for each in members) > most:
        raise NotWhole(f"it unpacks to more than {most:,} bytes, which no data does", what="zip")


def _require_readable(member: zipfile.ZipInfo) -> None:
    shown = _shown(member.filename)
    if member.flag_bits & 0x1:
        raise NotWhole(f"its member {shown} is encrypted", what="zip")
    if stat.S_ISLNK(member.external_attr >> 16):
        raise NotWhole(f"its member {shown} is a link", what="zip")
    if _PACKED_AGAIN.fullmatch(member.filename):
        raise NotWhole(f"its member {shown} is packed itself", what="zip")
    if member.compress_type not in _METHODS:
        raise NotWhole(f"its member {shown} is packed by method {member.compress_type}, which is not read", what="zip")


def _shown(name: str) -> str:
    return repr(visible(name[:_MOST_CHARACTERS]))


def is_of_people(name: str) -> bool:
    """True if a member of an archive is not data but for people, such as a README."""
    return _OF_PEOPLE.fullmatch(PurePosixPath(name).name) is not None

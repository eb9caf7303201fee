"""Avro files: the records of an object container file, by the schema that it has, as lines of JSON.

Numbers keep every digit, decimals their places, times their unit; bytes are Base64, and a union is the value that it
holds. A file that is cut or damaged is refused whole, with the block in which that is.
"""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import IO, NoReturn

import pyarrow as pa

from backfill_assets.capture.errors import BadFile, Fault
from backfill_assets.capture.json_members import FILE_PROBLEM, json_of
from backfill_assets.capture.schemas.avro_values import avro_reader
from backfill_assets.capture.schemas.declaration import BrokenValue
from backfill_assets.core.wording import visible

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_MOST_BLOCK_BYTES = 128 << 20
_MOST_OF_NOTHING = 1_000_000
"""So many records more than a block has bytes may be in it: a record of nulls has none."""
_MOST_CHARACTERS = 60
_LONGEST_NUMBER = 10


def avro_records(stream: IO[bytes], *, name: str) -> Iterator[bytes]:
    """The records of a file, each as JSON on one line without its end.

    Args:
        stream: Its bytes, unpacked.
        name: What messages call it.

    Raises:
        PackageMissing: The library that reads Avro is not installed.
        UnreadableFile: It is cut or damaged, or packed by what is not read.
    """
    file = _File(stream, name)
    if file.take(len(_MAGIC)) != _MAGIC:
        file.refuse("it does not begin as one")
    metadata = dict(file.metadata())
    problems: list[str] = []
    try:
        read = avro_reader(metadata.get("avro.schema", b"").decode("utf-8", "replace"), problems)
    except BrokenValue as error:
        file.refuse(str(error))
    codec = metadata.get("avro.codec", b"null").decode("utf-8", "replace")
    if codec not in _UNPACK:
        why = f"is packed by {visible(codec[:_MOST_CHARACTERS])!r}, which is not read"
        raise BadFile(path=name, fault=Fault.CODEC, why=why)
    sync = file.take(_SYNC_BYTES)
    for count, packed in file.blocks(sync):
        block = io.BytesIO(file.unpacked(codec, packed))
        size = block.getbuffer().nbytes
        if not 0 <= count <= size + _MOST_OF_NOTHING:
            file.refuse(f"it says that it has {count:,} records")
        for _ in range(count):
            problems.clear()
            yield _line(file, read, block, problems)
        if block.read(1):
            file.refuse("it has more than its records")


def _line(file: _File, read: Callable[[IO[bytes]], object], block: IO[bytes], problems: list[str]) -> bytes:
    try:
        record = read(block)
        found = {**record, FILE_PROBLEM: problems[0]} if problems and isinstance(record, dict) else record
        return json_of(found).encode("utf-8", "surrogatepass")
    except Exception as error:  # noqa: BLE001 - the library reports a broken value by many errors
        file.refuse(f"a record is not what its schema says: {type(error).__name__}")


class _File:
    """A container file that is read from its beginning."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self._stream, self._name, self._block = stream, name, 0

    def refuse(self, why: str) -> NoReturn:
        where = f"in block {self._block:,} " if self._block else ""
        raise BadFile(path=self._name, fault=Fault.DAMAGED, why=f"is not a complete Avro file: {where}{why}")

    def take(self, count: int) -> bytes:
        """So many bytes, which have to be there."""
        if not 0 <= count <= _MOST_BLOCK_BYTES:
            self.refuse(f"it says that {count:,} bytes follow, and {_MOST_BLOCK_BYTES:,} are the most")
        found = self._stream.read(count)
        if len(found) < count:
            self.refuse("it ends")
        return found

    def number(self, first: bytes = b"") -> int:
        """A number of a length that its bytes say, with its sign in the lowest bit."""
        value = 0
        for place in range(_LONGEST_NUMBER):
            byte = (first if first and not place else self.take(1))[0]
            value |= (byte & 0x7F) << (7 * place)
            if byte < 0x80:
                break
        else:
            self.refuse("it has a number of too many bytes")
        return (value >> 1) ^ -(value & 1)

    def metadata(self) -> Iterator[tuple[str, bytes]]:
        while count := self.number():
            if count < 0:
                self.number()  # how long it is
            for _ in range(abs(count)):
                name = self.take(self.number()).decode("utf-8", "replace")
                yield name, self.take(self.number())

    def blocks(self, sync: bytes) -> Iterator[tuple[int, bytes]]:
        """The blocks of the file: the number of records of each, and its bytes."""
        while first := self._stream.read(1):
            self._block += 1
            count = self.number(first)
            packed = self.take(self.number())
            if self.take(_SYNC_BYTES) != sync:
                self.refuse("it does not end in the mark of the file")
            yield count, packed

    def unpacked(self, codec: str, packed: bytes) -> bytes:
        try:
            found = _UNPACK[codec](packed)
        except (zlib.error, OSError, ValueError, EOFError, lzma.LZMAError, pa.ArrowException) as error:
            self.refuse(f"it cannot be unpacked: {str(error).splitlines()[0][:_MOST_CHARACTERS]}")
        if len(found) > _MOST_BLOCK_BYTES:
            self.refuse(f"it unpacks to more than {_MOST_BLOCK_BYTES:,} bytes")
        return found


def _inflated(packed: bytes) -> bytes:
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
    found = unpacker.decompress(packed, _MOST_BLOCK_BYTES + 1)
    if len(found) <= _MOST_BLOCK_BYTES and not unpacker.eof:
        raise ValueError("its compressed text ends")
    return found


def _of_bzip2(packed: bytes) -> bytes:
    return bz2.BZ2Decompressor().decompress(packed, _MOST_BLOCK_BYTES + 1)


def _of_xz(packed: bytes) -> bytes:
    return lzma.LZMADecompressor().decompress(packed, _MOST_BLOCK_BYTES + 1)


def _of_zstd(packed: bytes) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
        found: bytes = stream.read(_MOST_BLOCK_BYTES + 1)
        return found


def _of_snappy(packed: bytes) -> bytes:
    """Snappy does not say how long its text is where it is asked, and Avro has a checksum behind it."""
    text, checksum = packed[:-4], packed[-4:]
    size = shift = 0
    for byte in text[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > _MOST_BLOCK_BYTES:
        raise ValueError("it says that it is too long")
    found: bytes = pa.Codec("snappy").decompress(text, decompressed_size=size, asbytes=True)
    if zlib.crc32(found) != int.from_bytes(checksum, "big"):
        raise ValueError("its checksum is another one")
    return found


_UNPACK: Mapping[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": _inflated,
    "bzip2": _of_bzip2,
    "xz": _of_xz,
    "zstandard": _of_zstd,
    "snappy": _of_snappy,
}

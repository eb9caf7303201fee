"""Gzip text: reads a gzipped file as the strictest of its readers does, and refuses one that is not whole.

Python's own module reads over reserved flags and zeros behind the text, at which Spark stops after a landing has begun.
"""

from __future__ import annotations

import io
import zlib
from itertools import chain
from pathlib import Path
from typing import IO, cast

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

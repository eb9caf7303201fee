"""Port: what may be asked of the files in a place, whatever the place is.

Paths are relative to the place, with forward slashes, and not URL-encoded. Nothing here changes a file: a file is put
once, read, and removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Protocol

from backfill_assets.core.about import Because
from backfill_assets.core.errors import StoreAway, StoreRefused, sentence
from backfill_assets.core.places import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
    """A file as its place describes it without reading it."""

    path: str  #: Relative to the place.
    size_bytes: int
    stamp: str  #: Differs after any write to the file; the store's ETag, or inode and change time of a local file.
    changed_at: datetime | None = field(default=None, compare=False)  #: When an object of a store was written.


_SETTINGS = {
    "NoSuchBucket": "make it, or name another one",
    "AccessDenied": "let them list, read, put and delete below it",
    "ExpiredToken": "set new ones",
}
"""What makes a store usable, by its code."""


@sentence
class StoreUnusable(Because, StoreRefused):
    """{place} cannot be used: {why} ({code}).

    Next: {setting}; [doctor] shows whether it works; then give the command again
    """

    place: str
    code: str

    @property
    def setting(self) -> str:
        return _SETTINGS.get(self.code, "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")


@sentence
class SeveralWinners(Because, StoreRefused):
    """{place} cannot hold a lake: {why}, so that two publications could both seem to land. Nothing was written to the
    lake.

    Next: use a store that honours conditional puts (If-None-Match), and ask it by [doctor]
    """

    place: str


@sentence
class NoAnswer(Because, StoreAway):
    """the store of {place} does not answer as it should: {why}.

    Next: once the store answers again, repeat the command: it continues where this one stopped
    """

    place: str


class Files(Protocol):
    """The files of one place.

    Every method raises `StoreRefused` when the store does not accept the credentials or has no such bucket, and
    `StoreAway` when it does not answer; both name the place.
    """

    @property
    def place(self) -> Place: ...

    @property
    def at_once(self) -> int:
        """The useful number of threads for requests: a store's answers take time, and it gives many at once."""
        ...

    def listed(self, folder: str = "") -> Iterator[FileState]:
        """Every file below a folder, at any depth, sorted by path; none when there is no such folder."""
        ...

    def stat(self, path: str) -> FileState | None:
        """The state of a file; None when there is none.

        Raises:
            OSError: A local file that may not be looked at.
        """
        ...

    def open(self, path: str) -> BinaryIO:
        """The bytes of a file, to be read in any order; only what is read is fetched.

        Raises:
            FileNotFoundError: There is no such file.
        """
        ...

    def read(self, path: str) -> bytes:
        """All bytes of a small file, in one request.

        Raises:
            FileNotFoundError: There is no such file.
        """
        ...

    def digest(self, path: str) -> str:
        """The sha256 of a file's bytes, in hexadecimal.

        Raises:
            FileNotFoundError: There is no such file.
        """
        ...

    def put_if_absent(self, path: str, content: bytes | Path) -> bool:
        """Puts a whole file, durably, unless one has this path: of any number of writers exactly one succeeds.

        Args:
            path: Where it is put.
            content: Its bytes, or the local file that holds them.

        Returns:
            Whether it was put. An answer that was lost may be False although it was: who needs to know looks.
        """
        ...

    def put(self, path: str, content: Path) -> None:
        """Puts a whole file of any size, durably, in place of one that has this path.

        Args:
            path: Where it is put. Who reads it meanwhile finds one or the other.
            content: The local file that holds its bytes, which must not be written again: a folder may share it.
        """
        ...

    def create(self, path: str) -> AbstractContextManager[BinaryIO]:
        """A new file, written from its beginning to its end.

        It may be seen before it is whole, and is not made durable: something else says later that it counts.

        Args:
            path: Where it is written; what has this path is replaced.
        """
        ...

    def remove(self, paths: Iterable[str], *, within: str = "") -> None:
        """Removes files; one that does not exist is not an error.

        Args:
            within: Folders below this one that become empty are removed as well, where places have folders.
        """
        ...

    def remove_folder(self, folder: str) -> None:
        """Removes everything below a folder as far as that is possible; does nothing if it does not exist."""
        ...

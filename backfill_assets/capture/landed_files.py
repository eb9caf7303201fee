"""Landed files: the files that a capture makes of a bounded range of a source, and the place that keeps them.

Whatever a source is, bronze is built from landed files only: they never change, so a run over them can be repeated
after the source has forgotten. How a family of sources is opened, bounded and named is told by its `Capture`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol, TypeVar

from backfill_assets.core.settings import Settings
from backfill_assets.files import files_at
from backfill_assets.files.port import Files

Checked = TypeVar("Checked")


GIVEN_FILE = "file"
"""The family of files that a person gives or a producer drops; those of streams are plug-ins (`capture.families`)."""
STATEMENT = "statement"
"""Family and format of an import that is not a file, but a statement about earlier ones."""


class Format(StrEnum):
    """The format of a landed file."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"
    AVRO = "avro"
    XLSX = "xlsx"


PACKED = {"gzip": ".gz", "zstd": ".zst", "bzip2": ".bz2", "xz": ".xz", "zip": ".zip"}
"""The suffix of a packed file, by its compression."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileKind:
    """Format, and what it is packed by: one of `PACKED`, or nothing."""

    format: Format
    compression: str

    @property
    def suffix(self) -> str:
        """The suffix of landed files of this kind."""
        return f".{self.format}{PACKED.get(self.compression, '')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LandedFile:
    """A file in the landing place. Its identity is its range of the source, and the same range has the same bytes."""

    source: str  #: The source table.
    family: str  #: What it was captured from.
    #: The first position of its range, a text that only its family reads. The range of a file, and of a statement, is
    #: all of its bytes.
    range_from: str
    range_to: str  #: The position behind the last one.
    sha256: str  #: Of its bytes.
    original_path: str  #: Where it came from, as the person typed it; the title of a statement.
    stored_path: str  #: Relative to the landing place, with forward slashes.
    size_bytes: int  #: How large it is.
    format: str  #: A `Format`, or `statement`; `answer` of what a source said, which is kept beside its records.
    compression: str  #: What it is packed by, one of `PACKED`; or empty.

    @property
    def name(self) -> str:
        """The file's name, as messages and records without a key have it; of a statement its title."""
        return self.original_path if self.family == STATEMENT else Path(self.original_path).name

    @property
    def kind(self) -> FileKind:
        """Format and compression of a file that is no statement."""
        return FileKind(format=Format(self.format), compression=self.compression)


@dataclass(frozen=True, slots=True, kw_only=True)
class LandingPlace:
    """The place of the landed files of a source."""

    source: str  #: The source table.
    files: Files  #: The landing place of all sources.
    incoming: Path  #: The folder of this machine for copies that are not checked yet.
    #: Files that were not there with these bytes before a copy was kept.
    put_back: set[str] = field(default_factory=set)

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """The path of a new file of this machine, which is removed afterwards."""
        self._own.mkdir(parents=True, exist_ok=True)
        path = self._own / secrets.token_hex(8)
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    def keep(self, copy: Path, name: str, *, sha256: str = "") -> str:
        """Gives a complete copy its name, unless that exists: then its content is the same.

        Args:
            copy: The copy, as `scratch` gave its path.
            name: Relative to the folder of the source. No other file of it has the same last part: records that are
                read from several files at once tell these apart by it.
            sha256: Of its bytes, where the name follows from it: a file of the name with other bytes is damaged, and
                the copy takes its place.

        Returns:
            Where it is kept, relative to the landing place.
        """
        if name.rpartition("/")[2].startswith(("_", ".")):
            raise ValueError(f"Spark reads no records of the hidden file {name}")
        stored_path = self.stored_path(name)
        if sha256 and not self._holds(stored_path, sha256):
            self.files.remove([stored_path])
            self.put_back.add(stored_path)
        if self.files.stat(stored_path) is None:
            copy.chmod(copy.stat().st_mode & 0o444)
            self.files.put(stored_path, copy)
        return stored_path

    def _holds(self, stored_path: str, sha256: str) -> bool:
        return self.files.stat(stored_path) is not None and self.files.digest(stored_path) == sha256

    def stored_path(self, name: str) -> str:
        """The path of a file, relative to the landing place.

        Args:
            name: Relative to the folder of the source.
        """
        return f"{self._folder}/{name}"

    def remove_incoming(self) -> int:
        """Removes the copies that killed processes of this machine left, and returns their number.

        Only safe while no other process of this machine lands files of this source.
        """
        left = tuple(self._own.glob("*"))
        for copy in left:
            copy.unlink(missing_ok=True)
        return len(left)

    @property
    def _folder(self) -> str:
        return self.source.rpartition(".")[2]

    @property
    def _own(self) -> Path:
        return self.incoming / self._folder


def landing_files(settings: Settings) -> Files:
    """The landing place of all sources."""
    return files_at(settings.landing, settings.access)


def landing_place(settings: Settings, source: str) -> LandingPlace:
    """The landing place of a source."""
    incoming = settings.home / "landing_in_progress"
    return LandingPlace(source=source, files=landing_files(settings), incoming=incoming)


class Capture(Protocol):
    """A bounded range of a source, which becomes landed files.

    `read` gives one file for a file; a family with positions gives one for every part of its range, in their order,
    each with the positions of that part.
    """

    @property
    def name(self) -> str:
        """The name of the capture in messages."""

    @property
    def size_bytes(self) -> int:
        """About how many bytes its records are, not compressed; 0 when that cannot be known before it is read."""

    @property
    def record_count(self) -> int | None:
        """The number of records in each of its files, as stated by its source or producer; None where neither states
        it."""

    @property
    def is_offered(self) -> bool:
        """True if others wrote its files, so that they may have any form."""

    def read(
        self, place: LandingPlace, check: Callable[[Path, FileKind], Checked]
    ) -> Iterator[tuple[LandedFile, Checked]]:
        """Writes the range as landed files. A file whose copy does not pass the check is not kept.

        Args:
            place: Where they are kept. A file that is there already stays.
            check: Raises an error about a copy that cannot be landed; what it returns is given back with the file.
        """

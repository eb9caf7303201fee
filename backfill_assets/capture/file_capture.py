"""File capture: a file of a person as a range of a source, which is all of its bytes.

It is copied into a folder of this machine first, where its digest is taken and it is checked; then the whole copy is
put into the landing place as `<sha256[:2]>/<sha256><suffix>`, so that a name that exists always holds the complete
content.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO

from backfill_assets.capture.errors import BadFile, Fault, FileRefused, NoFile
from backfill_assets.capture.expected_files import NOTHING, Expected, digests_of
from backfill_assets.capture.gzip_text import NotWhole
from backfill_assets.capture.landed_files import PACKED, Checked, Family, FileKind, Format, LandedFile, LandingPlace
from backfill_assets.capture.packed import is_of_people, open_archive
from backfill_assets.core.regular_files import NotRegular, open_regular
from backfill_assets.core.wording import visible

_CHUNK_BYTES = 1 << 20
_MOST_SHOWN = 200
_OF_PACKED = 8
"""A packed file counts as so many times its size."""

FORMATS = {
    ".jsonl": Format.JSONL,
    ".ndjson": Format.JSONL,
    ".json": Format.JSONL,
    ".geojson": Format.JSONL,
    ".csv": Format.CSV,
    ".parquet": Format.PARQUET,
}
"""What a file is, by the suffix of its name, where its source declares nothing else."""

_COMPRESSIONS = {suffix: compression for compression, suffix in PACKED.items()}
_NEVER_PACKED = frozenset({Format.PARQUET, Format.XLSX})
"""They are packed inside; an archive may hold them."""

_MOST_NAMES = 5


@dataclass(frozen=True, slots=True)
class FileCapture:
    """A file, by its path as the person gave it."""

    path: Path
    formats: Mapping[str, Format] = field(default_factory=lambda: FORMATS)  #: What it is, by the suffix of its name.
    original: str = ""  #: Where it was fetched from, without anything secret; empty where the path is its own.
    expected: Expected = NOTHING  #: What its producer, or the person, says of it.

    @property
    def kind(self) -> FileKind:
        """The kind of the file, by its name."""
        try:
            return kind_of(self.path, self.formats)
        except BadFile as error:
            if not self.original or error.fault is not Fault.SUFFIX:
                raise
            raise BadFile(path=error.path, fault=error.fault, why=error.why, near=self.original) from error

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def record_count(self) -> int | None:
        return self.expected.records

    @property
    def is_offered(self) -> bool:
        return True

    @property
    def size_bytes(self) -> int:
        try:
            return self.path.stat().st_size * (_OF_PACKED if self.path.suffix.lower() in _COMPRESSIONS else 1)
        except (OSError, ValueError):
            return 0  # it is refused when it is read

    def require(self) -> None:
        """Refuses what is no file that could be landed, by its name and the file system.

        Raises:
            MissingInput: There is no such file.
            Refused: The path is a folder, a pipe or a device, or no text.
            UnreadableFile: The name does not end in a supported suffix.
        """
        path = self.path
        try:
            str(path).encode("utf-8")
            mode = path.stat().st_mode
        except UnicodeEncodeError as error:
            shown = visible(str(path))
            raise FileRefused(fault=Fault.NAME, path=shown, why=f"the name {shown} is not UTF-8 text") from error
        except FileNotFoundError:
            mode = 0
        except (OSError, ValueError) as error:  # a name that is too long, or that no file can have
            reason = error.strerror if isinstance(error, OSError) else str(error)
            shown = visible(str(path))[:_MOST_SHOWN]
            raise NoFile(path=shown, why=f"{shown} cannot be read: {str(reason).lower()}") from error
        if mode and not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
            why = f"{path} is not a regular file: the content of a pipe, a socket or a device cannot be landed again"
            raise FileRefused(fault=Fault.DEVICE, path=str(path), why=why)
        if path.is_dir():
            raise FileRefused(fault=Fault.FOLDER, path=str(path), why=f"{path} is a folder")
        if not path.is_file():
            raise NoFile(path=str(path), why=f"there is no file {path}")
        _ = self.kind

    def read(
        self, place: LandingPlace, check: Callable[[Path, FileKind], Checked]
    ) -> Iterator[tuple[LandedFile, Checked]]:
        """Copies the file into the landing place, unless its content exists there already.

        Raises:
            MissingInput, Refused, UnreadableFile: As `require`, or the file may not be read, or is still written.
        """
        self.require()
        kind = self.kind
        try:
            with place.scratch() as copy:
                with open_regular(self.path) as original, copy.open("wb") as written:
                    before = os.fstat(original.fileno())
                    sha256, size_bytes = _pump(original, written)
                    after = os.fstat(original.fileno())
                if size_bytes != after.st_size or before.st_mtime_ns != after.st_mtime_ns:
                    why = f"{self.path} changed while it was copied, so that what is in it is not known"
                    raise FileRefused(fault=Fault.CHANGING, path=str(self.path), why=why)
                self._require_expected(size_bytes, sha256)
                checked = check(copy, kind)
                stored_path = place.keep(copy, f"{sha256[:2]}/{sha256}{kind.suffix}", sha256=sha256)
        except NotRegular as error:  # put in its place since it was looked at
            why = f"{self.path} is no longer a regular file"
            raise FileRefused(fault=Fault.DEVICE, path=str(self.path), why=why) from error
        except PermissionError as error:
            why = f"{error.filename} cannot be read or written: permission denied"
            raise FileRefused(fault=Fault.RIGHTS, path=str(self.path), why=why) from error
        landed = LandedFile(
            source=place.source,
            family=Family.FILE,
            range_from="0",
            range_to=str(size_bytes),
            sha256=sha256,
            original_path=self.original or str(self.path),
            stored_path=stored_path,
            size_bytes=size_bytes,
            format=kind.format,
            compression=kind.compression,
        )
        yield landed, checked

    def require_expected(self) -> None:
        """Refuses a file that is not what is said of it, as far as that is known before its records are read."""
        if self.expected.size_bytes is None and not (self.expected.sha256 or self.expected.md5):
            return
        try:
            self.expected.require(self.path.stat().st_size, digests_of(self.path))
        except OSError as error:
            why = f"{self.path} cannot be read: {str(error.strerror).lower()}"
            raise FileRefused(fault=Fault.RIGHTS, path=str(self.path), why=why) from error

    def _require_expected(self, size_bytes: int, sha256: str) -> None:
        """Refuses a file that is no longer what was compared; a digest of another kind was compared before."""
        replace(self.expected, md5="").require(size_bytes, {"sha256": sha256})


def kind_of(path: Path, formats: Mapping[str, Format] = FORMATS) -> FileKind:
    """The format that a file's name declares. What a plain `.zip` holds, the names of its members do.

    Args:
        formats: The formats by suffix; by an empty one the format of every other name.

    Raises:
        UnreadableFile: The name does not end in a supported suffix.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compression = _COMPRESSIONS.get(suffixes[-1], "") if suffixes else ""
    ending = suffixes[-2:-1] if compression else suffixes[-1:]
    found = formats.get(ending[0] if ending else "", formats.get(""))
    if compression == "zip" and (not ending or ending[0] not in formats) and path.is_file():
        return FileKind(format=_format_inside(path, formats), compression=compression)
    if found is None or (compression not in ("", "zip") and found in _NEVER_PACKED):
        shown = "".join(suffixes[-2:]) or "no suffix"
        texts = [suffix for suffix in formats if suffix and formats[suffix] not in _NEVER_PACKED]
        others = [suffix for suffix in formats if formats[suffix] in _NEVER_PACKED]
        packed = ", ".join(_COMPRESSIONS)
        known = f"{', '.join(texts)} (each with or without {packed}) and {', '.join(others)}"
        why = f"ends in {shown}; files that can be landed end in {known}"
        if ending and ending[0] in _SPREADSHEETS:
            why = f"ends in {shown}: save the spreadsheet as .xlsx, and declare reads=Xlsx() on its source"
        if dialect := _DIALECTS.get(ending[0] if ending else ""):
            why = f"ends in {shown}: declare reads={dialect} on its source, if that is what it is"
        raise BadFile(path=path.name, fault=Fault.SUFFIX, why=why)
    return FileKind(format=found, compression=compression)


def format_of(member: str, formats: Mapping[str, Format]) -> Format | None:
    """The format of a member of an archive, by its name."""
    return formats.get(PurePosixPath(member).suffix.lower(), formats.get(""))


def _format_inside(path: Path, formats: Mapping[str, Format]) -> Format:
    try:
        with open_archive(path) as archive:
            names = [name for name in archive.names if not is_of_people(name)]
    except NotWhole as error:
        raise BadFile(path=path.name, fault=Fault.DAMAGED, why=f"is not a complete zip file: {error}") from error
    found = {format_of(name, formats) for name in names}
    if len(found) == 1 and (only := found.pop()) is not None:
        return only
    shown = ", ".join(visible(name[:_MOST_SHOWN]) for name in names[:_MOST_NAMES]) or "nothing"
    why = f"holds {shown}; a zip file that can be landed holds files of one format, such as .csv"
    raise BadFile(path=path.name, fault=Fault.SUFFIX, why=why)


_DIALECTS = {
    ".tsv": r'Csv(delimiter="\t")',
    ".tab": r'Csv(delimiter="\t")',
    ".txt": r'Csv(delimiter="\t")',
    ".dat": 'Csv(delimiter=";")',
    ".psv": 'Csv(delimiter="|")',
    ".avro": "Avro()",
    ".xlsx": "Xlsx()",
    ".xlsm": "Xlsx()",
}
"""What is to be declared of files with these suffixes."""

_SPREADSHEETS = (".xls", ".xlsb", ".ods")


def _pump(original: BinaryIO, copy: IO[bytes]) -> tuple[str, int]:
    digest, size_bytes = hashlib.sha256(), 0
    while chunk := original.read(_CHUNK_BYTES):
        digest.update(chunk)
        size_bytes += len(chunk)
        copy.write(chunk)
    return digest.hexdigest(), size_bytes

"""File capture: a file as a range of a source, which is all of its bytes, held against what its producer or a person
says of it.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO
from urllib.parse import unquote, urlsplit

from backfill_assets.capture.errors import BadFile, Fault, FileRefused, NoFile
from backfill_assets.capture.files.packed import NotWhole, is_of_people, open_archive
from backfill_assets.capture.landed_files import GIVEN_FILE, PACKED, Checked, FileKind, Format, LandedFile, LandingPlace
from backfill_assets.core.local_files import NotRegular, open_regular
from backfill_assets.core.wording import visible

# Expected files: what a producer says of the files of a delivery, in a manifest, or a person of a file, and
# whether it is so.
#
# A manifest is a JSON or CSV file that names each file with its number of records, size and digest, or some of
# these. What it says is compared before anything lands; the number of records when they are counted, before any
# of them counts.

_MOST_BYTES = 64 << 20
_MEMBERS: Mapping[str, tuple[str, ...]] = {
    "name": ("name", "file", "filename", "file_name", "path", "url"),
    "records": ("records", "rows", "record_count", "row_count"),
    "size_bytes": ("size_bytes", "size", "bytes", "content_length"),
    "sha256": ("sha256",),
    "md5": ("md5",),
}
"""What a manifest may call what it says of a file. What it says in other words is not passed over: it is refused."""
_LISTS = ("files", "entries")
_DIGITS = {"sha256": 64, "md5": 32}
_MOST_NAMED = 5

Said = Iterable[tuple[str, Any]]
"""What an entry says, by the words that it has for it, of which two may be for one thing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """A manifest's statement about a file; what is empty or None is not stated."""

    name: str = ""  #: Its name, without where it is.
    records: int | None = None
    size_bytes: int | None = None  #: How large it is.
    sha256: str = ""  #: The digest of its bytes, in hexadecimal.
    md5: str = ""  #: The same of another kind, which some stores have.
    said_by: str = ""  #: Who says it.

    def require(self, size_bytes: int, digests: Mapping[str, str]) -> None:
        """Refuses a file of another size or digest.

        Args:
            size_bytes: How large the file is.
            digests: Its digests by their kind.
        """
        if self.size_bytes not in (None, size_bytes):
            raise self._differs(f"has {size_bytes:,} bytes, and {self.said_by} says {self.size_bytes:,}")
        for kind, expected in (("sha256", self.sha256), ("md5", self.md5)):
            if expected and digests[kind] != expected:
                raise self._differs(f"has the {kind} {digests[kind]}, and {self.said_by} says {expected}")

    def require_records(self, records: int) -> None:
        """Refuses a file with another number of records."""
        if self.records not in (None, records):
            many = f"{records:,} record{'' if records == 1 else 's'}"
            raise self._differs(f"has {many}, and {self.said_by} says {self.records:,}")

    def _differs(self, why: str) -> FileRefused:
        return FileRefused(fault=Fault.DELIVERY, path=self.name, why=f"{self.name} {why}")


NOTHING = Expected()


def digests_of(path: Path) -> Mapping[str, str]:
    """The digests of a file by their kind."""
    found = {kind: hashlib.new(kind, usedforsecurity=False) for kind in _DIGITS}
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            for each in found.values():
                each.update(chunk)
    return {kind: each.hexdigest() for kind, each in found.items()}


def sha256_of(text: str) -> str:
    """A digest that a person has given.

    Raises:
        Refused: It is none.
    """
    if not re.fullmatch(r"[0-9a-fA-F]{64}", text):
        raise FileRefused(fault=Fault.DIGEST, why=f"{visible(text)[:80]!r} is not a sha256, which has 64 hex digits")
    return text.lower()


def read_manifest(path: Path) -> tuple[Expected, ...]:
    """The statements of a manifest about files, in its order.

    Raises:
        Refused: It cannot be read, says nothing of a file, names one twice, or says what would not be compared.
    """
    name = path.name
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise _no_manifest(name, "is larger than a manifest can be (64 MiB)")
        text = path.read_text("utf-8-sig")
        is_csv = path.suffix.lower() == ".csv"
        entries = _rows(text, name) if is_csv else _listed(text)
    except OSError as error:
        raise _no_manifest(name, f"cannot be read: {str(error.strerror).lower()}") from error
    except (ValueError, RecursionError, csv.Error) as error:
        raise _no_manifest(name, "is neither JSON nor CSV with a header") from error
    found = tuple(_expected(entry, name) for entry in entries)
    if not found:
        raise _no_manifest(name, "names no file")
    if twice := [each for each, many in Counter(each.name for each in found).items() if many > 1]:
        raise _no_manifest(name, f"names {twice[0]} twice")
    return found


def _rows(text: str, manifest: str) -> Sequence[Said]:
    header, *rows = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row] or [[]]
    _told_apart((name, None) for name in header)
    if any(len(row) != len(header) for row in rows):
        raise _no_manifest(manifest, "has a line with another number of values than its header")
    return [[*zip(header, row, strict=True)] for row in rows]


def _told_apart(members: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    """The members of an object, none of which may be there twice: nobody would compare the first."""
    pairs = list(members)
    if len(found := dict(pairs)) < len(pairs):
        raise ValueError("a member is there twice")
    return found


def _listed(text: str) -> Sequence[Said]:
    document = json.loads(text, object_pairs_hook=_told_apart)
    if isinstance(document, dict):
        document = next((document[name] for name in _LISTS if name in document), None)
    if not isinstance(document, list):
        raise ValueError("no list of files")
    # A manifest of a warehouse says of an entry in its `meta` what it is.
    return [[*_members(each)] if isinstance(each, dict) else [("name", each)] for each in document]


def _members(entry: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in entry.items():
        if name == "meta" and isinstance(value, dict):
            yield from value.items()
        elif name != "mandatory" and (name, value) != ("meta", None):
            yield name, value


def _expected(entry: Said, manifest: str) -> Expected:
    known = {each: member for member, names in _MEMBERS.items() for each in names}
    said: dict[str, Any] = {}
    for given, value in entry:
        member = known.get(str(given).strip())
        if member is None:
            of = ", ".join(names[0] for names in _MEMBERS.values())
            raise _no_manifest(manifest, f"says {visible(str(given))[:60]!r} of a file, and is compared in {of}")
        if value in (None, ""):
            continue
        value = name_in(value) if member == "name" and isinstance(value, str) else value
        if str(said.setdefault(member, value)).strip() != str(value).strip():
            both = f"{said[member]!r:.60} and {value!r:.60}"
            raise _no_manifest(manifest, f"says two different things for {member} of one file: {both}")
    name = said.get("name")
    if not isinstance(name, str) or not name:
        raise _no_manifest(manifest, "has an entry without the name of a file")
    if visible(name) != name:
        raise _no_manifest(manifest, f"names {name!r:.80}, which has a character that cannot be shown")
    for member in ("records", "size_bytes"):
        if member in said and not re.fullmatch(r"[0-9]{1,18}", str(said[member]).strip()):
            raise _no_manifest(manifest, f"says {said[member]!r:.60} for {member} of {name}, which is not a number")
    for kind, digits in _DIGITS.items():
        if kind in said and not re.fullmatch(f"[0-9a-fA-F]{{{digits}}}", str(said[kind])):
            raise _no_manifest(manifest, f"says {said[kind]!r:.80} for {kind} of {name}, which has {digits} hex digits")
    return Expected(
        name=name,
        records=int(said["records"]) if "records" in said else None,
        size_bytes=int(said["size_bytes"]) if "size_bytes" in said else None,
        sha256=str(said.get("sha256", "")).lower(),
        md5=str(said.get("md5", "")).lower(),
        said_by=manifest,
    )


def name_in(text: str) -> str:
    """The name of a file from its path or address."""
    path = text
    if "://" in text:
        with suppress(ValueError):  # such as of half an address of IPv6, which has a name all the same
            path = unquote(urlsplit(text).path)
    return path.rpartition("/")[2]


def matched(manifest: str, expected: Iterable[Expected], names: Iterable[str]) -> Mapping[str, Expected]:
    """The manifest's statement about each file, by file name.

    Raises:
        Refused: Files are missing that are expected, or there are others.
    """
    known, there = {each.name: each for each in expected}, list(names)
    if twice := [name for name, many in Counter(there).items() if many > 1]:
        raise FileRefused(fault=Fault.NAMED_TWICE, path=twice[0], why=f"two files of the delivery are named {twice[0]}")
    missing, more = sorted(known.keys() - set(there)), sorted(set(there) - known.keys())
    if missing or more:
        said = [f"names {some_of(missing)}, which {_is(missing)} missing"] * bool(missing)
        said += [f"does not name {some_of(more)}"] * bool(more)
        raise FileRefused(fault=Fault.DELIVERY, path=manifest, why=f"{manifest} {', and '.join(said)}")
    return known


def some_of(names: Sequence[str]) -> str:
    """The first of some names, and how many others there are."""
    more = f" and {len(names) - _MOST_NAMED:,} others" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _is(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _no_manifest(name: str, why: str) -> FileRefused:
    return FileRefused(fault=Fault.MANIFEST, path=name, why=f"{name} {why}")


# File capture: a file of a person as a range of a source, which is all of its bytes.
#
# It is copied into a folder of this machine first, where its digest is taken and it is checked; then the whole
# copy is put into the landing place as `<sha256[:2]>/<sha256><suffix>`, so that a name that exists always holds
# the complete content.

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
"""The kind of a file by the suffix of its name, unless its source declares another."""

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
            family=GIVEN_FILE,
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
"""The dialect that has to be declared for files with these suffixes."""

_SPREADSHEETS = (".xls", ".xlsb", ".ods")


def _pump(original: BinaryIO, copy: IO[bytes]) -> tuple[str, int]:
    digest, size_bytes = hashlib.sha256(), 0
    while chunk := original.read(_CHUNK_BYTES):
        digest.update(chunk)
        size_bytes += len(chunk)
        copy.write(chunk)
    return digest.hexdigest(), size_bytes

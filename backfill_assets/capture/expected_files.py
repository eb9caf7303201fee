"""Expected files: what a producer says of the files of a delivery, in a manifest, or a person of a file, and whether it
is so.

A manifest is a JSON or CSV file that names each file with its number of records, size and digest, or some of these.
What it says is compared before anything lands; the number of records when they are counted, before any of them counts.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from backfill_assets.capture.errors import Fault, FileRefused
from backfill_assets.core.wording import visible

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
    records: int | None = None  #: How many records it has.
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

"""Identity: digests of files, file sets and documents.

Digests are computed from canonical forms only: sorted paths and sizes for files, JSON with sorted keys and no
spaces for documents. Nothing here reads a file. The path of a staged file is part of the digest of its file set, so the
version of the contract that the path carries cannot be changed later.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import date
from enum import Enum
from functools import cached_property
from json.encoder import encode_basestring
from typing import Any


def canonical_json(document: object) -> str:
    """The canonical JSON text of a document: keys sorted, no spaces, characters unescaped.

    Args:
        document: Built from dicts with string keys, lists or tuples, strings, ints, bools and None. Floats are
            refused because their text depends on who writes it.

    Returns:
        The text whose sha256 identifies the document.
    """
    _refuse_floats(document)
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


_PLAIN = frozenset((str, int, bool, type(None)))


def _refuse_floats(value: object) -> None:
    if isinstance(value, float):
        raise TypeError(f"a float has no canonical form: {value!r}; use a string or an integer")
    if isinstance(value, (dict, list, tuple)):
        for item in value.values() if isinstance(value, dict) else value:
            # Most of a document: a call for each would take longer than writing it.
            if type(item) not in _PLAIN:
                _refuse_floats(item)


def fields_of(record: object) -> dict[str, Any]:
    """The fields of a record by name. What they hold is not copied, which `dataclasses.asdict` does at all depths."""
    return {each.name: getattr(record, each.name) for each in fields(record)}  # type: ignore[arg-type]


def plain(value: object) -> Any:
    """A record, or a part of one, as plain values: fields by name, days and instants as ISO 8601, tuples as lists."""
    if is_dataclass(value):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(part) for part in value]
    if isinstance(value, date):
        return value.isoformat()
    return value.value if isinstance(value, Enum) else value


def sha256_text(text: str) -> str:
    """The sha256 of a text's UTF-8 bytes, in hexadecimal."""
    return sha256_bytes(text.encode())


def sha256_bytes(content: bytes) -> str:
    """The sha256 of bytes, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def document_digest(document: object) -> str:
    """The sha256 of a document's canonical JSON."""
    return sha256_text(canonical_json(document))


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One Parquet file of a table."""

    path: str  #: Relative to the table's root, with forward slashes, not URL-encoded.
    size_bytes: int  #: As listed by the store after writing.
    rows: int  #: From the Parquet footer.
    #: Of the file's bytes when it was staged; empty when unknown. Not part of its identity, which can also be derived
    #: from a table's log.
    sha256: str = field(default="", compare=False)
    #: Of the file in its store when `sha256` was taken ; as long as it is the same, the file has not been written.
    #: Empty when unknown. Not part of its identity.
    stamp: str = field(default="", compare=False)


@dataclass(frozen=True, kw_only=True)
class FileSet:
    """The data files of one partition; empty for a partition without rows."""

    files: tuple[DataFile, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "files", tuple(sorted(self.files, key=lambda file: file.path)))

    @staticmethod
    def of(files: Iterable[DataFile]) -> FileSet:
        return FileSet(files=tuple(files))

    @cached_property
    def digest(self) -> str:
        """sha256 of the sorted paths and sizes of its files."""
        return digest_of_paths((file.path, file.size_bytes) for file in self.files)

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of its files, relative to the folder of the table."""
        return tuple(file.path for file in self.files)


def digest_of_paths(paths_and_sizes: Iterable[tuple[str, int]]) -> str:
    """The file set digest of files by path and size alone, which is what a table's log has."""
    # The canonical JSON of `[[path, size], ...]`, written here: there are as many as partitions.
    pairs = [f"[{encode_basestring(path)},{size:d}]" for path, size in sorted(paths_and_sizes)]
    return sha256_text(f"[{','.join(pairs)}]")


EMPTY_FILE_SET = FileSet()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEvidence:
    """The evidence of a table's log once a publication had landed, or could not land any more."""

    after: int  #: The last version before these commits; -1 when they begin with the first one.
    #: The sha256 of the bytes of each commit, in order; the last one is the publication's, or fences it off.
    commits: tuple[str, ...]
    state: str  #: The digest of the columns, properties and protocol of the table after it.

    @property
    def version(self) -> int:
        """The last version of the table that it is about."""
        return self.after + len(self.commits)


_CONTRACT = re.compile(r"-v([0-9]+)/[^/]+/[^/]+")


def attempt_of(name: str, contract: int) -> str:
    """The folder of a staging attempt in a version of its source's contract; the first version is left out."""
    return name if contract == 1 else f"{name}-v{contract}"


def contract_of(files: FileSet) -> int:
    """The version of its source's contract in which the files of a partition are."""
    found = _CONTRACT.search(files.paths[0]) if files.files else None
    return int(found.group(1)) if found else 1

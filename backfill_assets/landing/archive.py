"""Archive of landed files: a content-addressed copy that never changes.

Content-addressed: `<landing>/<source>/<sha256[:2]>/<sha256><suffix>`. A file is copied into a folder of this machine
first, where its digest is taken and it is checked; then the whole copy is put into the landing place, so that a name
that exists always holds the complete content.
"""

from __future__ import annotations

import hashlib
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

from backfill_assets.core.settings import Settings
from backfill_assets.core.wording import visible
from backfill_assets.domain import SourceTable
from backfill_assets.files.choose import files_at
from backfill_assets.files.port import Files
from backfill_assets.landing.errors import BadFile, Fault, FileRefused, NoFile
from backfill_assets.landing.probe import FileKind, Format
from backfill_assets.landing.versions import Probed, probe_versions

_CHUNK_BYTES = 1 << 20
_MOST_SHOWN = 200

_FORMATS = {
    ".jsonl": Format.JSONL,
    ".ndjson": Format.JSONL,
    ".json": Format.JSONL,
    ".csv": Format.CSV,
    ".parquet": Format.PARQUET,
}
_KNOWN = ".jsonl, .ndjson, .json, .csv (each with or without .gz) and .parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived:
    """A raw file in the landing folder.

    Attributes:
        original_path: Its origin, as given by the person.
        stored_path: Relative to the landing folder, with forward slashes.
        probed: The result of probing the stored copy.
    """

    original_path: str
    stored_path: str
    sha256: str
    size_bytes: int
    kind: FileKind
    probed: Probed


def kind_of(path: Path) -> FileKind:
    """The format that a file's name declares.

    Raises:
        UnreadableFile: The name does not end in a supported suffix.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compressed = suffixes[-1:] == [".gz"]
    ending = suffixes[-2:-1] if compressed else suffixes[-1:]
    file_format = _FORMATS.get(ending[0]) if ending else None
    if file_format is None or (compressed and file_format is Format.PARQUET):
        found = "".join(suffixes[-2:]) or "no suffix"
        why = f"ends in {found}; files that can be landed end in {_KNOWN}"
        raise BadFile(path=path.name, fault=Fault.SUFFIX, why=why)
    return FileKind(
        format=file_format,
        compression="gzip" if compressed else "",
        suffix=ending[0] + (".gz" if compressed else ""),
    )


def require_landable(path: Path) -> FileKind:
    """The kind of file, by its name and the file system.

    Raises:
        MissingInput: There is no such file.
        Refused: The path is a folder, a pipe or a device, or no text.
        UnreadableFile: The name does not end in a supported suffix.
    """
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
        why = f"{path} is no regular file: a pipe, a socket or a device has no content that could be landed again"
        raise FileRefused(fault=Fault.DEVICE, path=str(path), why=why)
    if path.is_dir():
        raise FileRefused(fault=Fault.FOLDER, path=str(path), why=f"{path} is a folder")
    if not path.is_file():
        raise NoFile(path=str(path), why=f"there is no file {path}")
    return kind_of(path)


def archive(path: Path, *, landing: Files, incoming: Path, source: SourceTable) -> Archived:
    """Copies a file into the landing place, unless its content exists there already.

    Args:
        path: The offered file, as given by the person.
        landing: The landing place.
        incoming: The folder of this machine for copies that are not checked yet.
        source: The source table it is offered to.

    Raises:
        MissingInput: There is no such file.
        Refused: The path is empty or a folder.
        UnreadableFile: The file cannot be read at all; nothing of it is kept.
    """
    kind = require_landable(path)
    try:
        with _scratch(incoming, source) as copy:
            with path.open("rb") as original, copy.open("wb") as written:
                sha256, size_bytes = _pump(original, written)
            found = probe_versions(copy, kind, source, name=path.name)
            stored_path = f"{source.short_name}/{sha256[:2]}/{sha256}{kind.suffix}"
            _store(copy, landing, stored_path)
    except PermissionError as error:
        why = f"{error.filename} cannot be read or written: permission denied"
        raise FileRefused(fault=Fault.RIGHTS, path=str(path), why=why) from error
    return Archived(
        original_path=str(path),
        stored_path=stored_path,
        sha256=sha256,
        size_bytes=size_bytes,
        kind=kind,
        probed=found,
    )


def archive_text(text: str, *, landing: Files, incoming: Path, source: SourceTable) -> tuple[str, str, int]:
    """Keeps a document of this project beside the raw files: its path in the archive, sha256 and size."""
    content = text.encode("utf-8")
    sha256 = hashlib.sha256(content).hexdigest()
    stored_path = f"{source.short_name}/{sha256[:2]}/{sha256}.json"
    with _scratch(incoming, source) as copy:
        copy.write_bytes(content)
        _store(copy, landing, stored_path)
    return stored_path, sha256, len(content)


@contextmanager
def _scratch(incoming: Path, source: SourceTable) -> Iterator[Path]:
    """A new file of this machine, which is removed afterwards."""
    folder = incoming / source.short_name
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / secrets.token_hex(8)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def _store(copy: Path, landing: Files, stored_path: str) -> None:
    """Gives a complete copy its name, unless that exists: then its content is the same."""
    if landing.stat(stored_path) is None:
        copy.chmod(copy.stat().st_mode & 0o444)
        landing.put(stored_path, copy)


def _pump(original: BinaryIO, copy: IO[bytes]) -> tuple[str, int]:
    digest, size_bytes = hashlib.sha256(), 0
    while chunk := original.read(_CHUNK_BYTES):
        digest.update(chunk)
        size_bytes += len(chunk)
        copy.write(chunk)
    return digest.hexdigest(), size_bytes


def remove_incoming(incoming: Path, source: SourceTable) -> int:
    """Removes the copies that killed processes of this machine left, and returns their number.

    Only safe while no other process of this machine lands files of this source.
    """
    left = tuple((incoming / source.short_name).glob("*"))
    for copy in left:
        copy.unlink(missing_ok=True)
    return len(left)


def landing_files(settings: Settings) -> Files:
    """The landing place."""
    return files_at(settings.landing, settings.access)


def incoming_folder(settings: Settings) -> Path:
    """The folder of this machine for copies of files that are not checked yet."""
    return settings.home / "landing_in_progress"

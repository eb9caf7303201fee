"""Archive of landed files: a content-addressed copy that never changes.

Content-addressed: `<landing>/<source>/<sha256[:2]>/<sha256><suffix>`. A copy is written under a temporary name in the
same folder, checked, flushed to the disk and renamed, so a name that exists always holds the complete content.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

from backfill_assets.domain import SourceTable
from backfill_assets.errors import MissingInput, Refused, UnreadableFile
from backfill_assets.landing.probe import FileKind, Format
from backfill_assets.landing.versions import Probed, probe_versions
from backfill_assets.wording import visible

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
        raise UnreadableFile(
            f"{path.name} ends in {''.join(suffixes[-2:]) or 'no suffix'}; files that can be landed end in {_KNOWN}.",
            next_step="rename the file with the suffix of its format",
            path=str(path),
        )
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
        raise Refused(
            f"the name {visible(str(path))} is not UTF-8 text.", next_step="rename the file", path=visible(str(path))
        ) from error
    except FileNotFoundError:
        mode = 0
    except (OSError, ValueError) as error:  # a name that is too long, or that no file can have
        reason = error.strerror if isinstance(error, OSError) else str(error)
        shown = visible(str(path))
        raise MissingInput(
            f"{shown[:_MOST_SHOWN]} cannot be read: {str(reason).lower()}.",
            next_step="check the path",
            path=shown[:_MOST_SHOWN],
        ) from error
    if mode and not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        raise Refused(
            f"{path} is no regular file: a pipe, a socket or a device has no content that could be landed again.",
            next_step="write what it gives into a file, and land that",
            path=str(path),
        )
    if path.is_dir():
        raise Refused(f"{path} is a folder.", next_step="name the files in it", path=str(path))
    if not path.is_file():
        raise MissingInput(f"there is no file {path}.", next_step="check the path", path=str(path))
    return kind_of(path)


def archive(path: Path, *, landing: Path, source: SourceTable) -> Archived:
    """Copies a file into the landing folder, unless its content exists there already.

    Args:
        path: The offered file, as given by the person.
        landing: The landing folder.
        source: The source table it is offered to.

    Raises:
        MissingInput: There is no such file.
        Refused: The path is empty or a folder.
        UnreadableFile: The file cannot be read at all; nothing of it is kept.
    """
    kind = require_landable(path)
    folder = landing / source.short_name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        sha256, size_bytes, found = _copy(path, folder, kind, source)
    except PermissionError as error:
        raise Refused(f"{error.filename} cannot be read or written: permission denied.", path=str(path)) from error
    return Archived(
        original_path=str(path),
        stored_path=f"{source.short_name}/{sha256[:2]}/{sha256}{kind.suffix}",
        sha256=sha256,
        size_bytes=size_bytes,
        kind=kind,
        probed=found,
    )


def archive_text(text: str, *, landing: Path, source: SourceTable) -> tuple[str, str, int]:
    """Keeps a document of this project beside the raw files: its path in the archive, sha256 and size."""
    content = text.encode("utf-8")
    sha256 = hashlib.sha256(content).hexdigest()
    stored_path = f"{source.short_name}/{sha256[:2]}/{sha256}.json"
    stored = landing / stored_path
    stored.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=landing / source.short_name, prefix=".incoming-", delete=False) as copy:
        copy.write(content)
        copy.flush()
        os.fsync(copy.fileno())
    _store(Path(copy.name), stored)
    return stored_path, sha256, len(content)


def _store(temporary: Path, stored: Path) -> None:
    """Gives a complete copy its final name, unless that exists: then its content is the same."""
    if stored.exists():
        temporary.unlink()
        return
    temporary.chmod(0o444)
    temporary.replace(stored)
    _flush_folder(stored.parent)


def _copy(path: Path, folder: Path, kind: FileKind, source: SourceTable) -> tuple[str, int, Probed]:
    """Copies under a temporary name and renames. The digest is of what was written, even if the original changes."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".incoming-", delete=False) as copy:
        temporary = Path(copy.name)
        try:
            with path.open("rb") as original:
                sha256, size_bytes = _pump(original, copy.file)
            copy.flush()
            os.fsync(copy.fileno())
            found = probe_versions(temporary, kind, source, name=path.name)
            stored = folder / sha256[:2] / f"{sha256}{kind.suffix}"
            stored.parent.mkdir(exist_ok=True)
            _store(temporary, stored)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    return sha256, size_bytes, found


def _pump(original: BinaryIO, copy: IO[bytes]) -> tuple[str, int]:
    digest, size_bytes = hashlib.sha256(), 0
    while chunk := original.read(_CHUNK_BYTES):
        digest.update(chunk)
        size_bytes += len(chunk)
        copy.write(chunk)
    return digest.hexdigest(), size_bytes


def _flush_folder(folder: Path) -> None:
    """Makes a rename durable: on POSIX that is a property of the folder, not of the file."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_incoming(landing: Path, source: SourceTable) -> int:
    """Removes the temporary copies that a killed process left, and returns their number.

    Only safe while no other process lands files of this source.
    """
    left = tuple((landing / source.short_name).glob(".incoming-*"))
    for temporary in left:
        temporary.unlink(missing_ok=True)
    return len(left)

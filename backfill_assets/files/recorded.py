"""Recorded files: whether the files of a place are still those that were recorded when they were written.

A recorded file has a path, a size, the sha256 of its bytes, and the stamp that its place gave it when that was taken.
As long as the stamp is the same the file was not written, so that nothing has to be read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from os import cpu_count

from backfill_assets.core.identity import DataFile
from backfill_assets.files.port import Files, FileState


def missing(files: Files, recorded: Iterable[DataFile]) -> tuple[str, ...]:
    """Recorded files that do not exist, cannot be looked at, or have another size, one sentence each."""
    return _asked(recorded, lambda file: _absence(files, file)[0], files.at_once)


def rewritten(files: Files, recorded: Iterable[DataFile], *, trust_stamps: bool = False) -> tuple[str, ...]:
    """Recorded files that have their size and other bytes, one sentence each.

    Args:
        trust_stamps: Read only files with another stamp than the recorded one; otherwise all.
    """

    def problem(file: DataFile) -> str | None:
        absent, found = _absence(files, file)
        return None if absent else _other_bytes(files, file, found, trust_stamps=trust_stamps)

    # Hashing lets other threads run.
    return _asked(recorded, problem, max(files.at_once, cpu_count() or 1))


def altered(files: Files, recorded: Iterable[DataFile]) -> tuple[str, ...]:
    """Recorded files that are missing or rewritten, one sentence each; each is asked for its state once.

    This is the question before rows are read: only files with another stamp than the recorded one are hashed.
    """

    def problem(file: DataFile) -> str | None:
        absent, found = _absence(files, file)
        return absent or _other_bytes(files, file, found, trust_stamps=True)

    return _asked(recorded, problem, files.at_once)


def _absence(files: Files, file: DataFile) -> tuple[str | None, FileState | None]:
    """Why a file cannot be the recorded one by its state alone, and that state."""
    try:
        found = files.stat(file.path)
    except OSError as error:
        return f"{file.path} cannot be read: {error.strerror}", None
    if found is None:
        return f"{file.path} is gone", None
    if found.size_bytes != file.size_bytes:
        return f"{file.path} has {found.size_bytes:,} bytes where {file.size_bytes:,} were recorded", None
    return None, found


def _other_bytes(files: Files, file: DataFile, found: FileState | None, *, trust_stamps: bool) -> str | None:
    if not file.sha256 or (trust_stamps and found is not None and found.stamp and found.stamp == file.stamp):
        return None
    if files.digest(file.path) == file.sha256:
        return None
    return f"the bytes of {file.path} are not those that were recorded"


def _asked(recorded: Iterable[DataFile], problem: Callable[[DataFile], str | None], at_once: int) -> tuple[str, ...]:
    every = dict.fromkeys(recorded)  # partitions may share files
    if at_once == 1:
        return tuple(found for found in map(problem, every) if found)
    with ThreadPoolExecutor(at_once) as threads:
        return tuple(found for found in threads.map(problem, every) if found)

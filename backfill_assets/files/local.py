"""Local files: the port over a folder of this machine, or of a file system that is mounted."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from backfill_assets.core.local_files import open_regular
from backfill_assets.files.port import FileState


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """The files below a folder, which need not exist."""

    place: Path

    @property
    def at_once(self) -> int:
        """One: threads would wait for each other."""
        return 1

    def listed(self, folder: str = "") -> Iterator[FileState]:
        below = f"{folder.strip('/')}/" if folder else ""
        yield from sorted(_below(str(self.place / folder), below), key=lambda each: each.path)

    def stat(self, path: str) -> FileState | None:
        try:
            # Not by a `Path`: making one takes longer than the question, and there are as many as files.
            found = os.stat(f"{self.place}/{path}")  # noqa: PTH116
        except (FileNotFoundError, NotADirectoryError):
            return None
        return _state(path, found)

    def open(self, path: str) -> BinaryIO:
        return open_regular(self.place / path)

    def read(self, path: str) -> bytes:
        with open_regular(self.place / path) as file:
            return file.read()

    def digest(self, path: str) -> str:
        return sha256_of_file(self.place / path)

    def put_if_absent(self, path: str, content: bytes | Path) -> bool:
        """Writes the file beside its place and links it there, which fails when there is one."""
        target = self.place / path
        with _incoming(target, content) as incoming:
            try:
                os.link(incoming, target)  # a rename would replace a file that is there
            except FileExistsError:
                return False
        return True

    def put(self, path: str, content: Path) -> None:
        """Links the file beside its place, or copies it from another file system, and renames it."""
        target = self.place / path
        with _incoming(target, content) as incoming:
            incoming.replace(target)

    @contextmanager
    def create(self, path: str) -> Iterator[BinaryIO]:
        target = self.place / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            yield file

    def remove(self, paths: Iterable[str], *, within: str = "") -> None:
        """Removes files, and folders below `within` that become empty."""
        chosen = [self.place / path for path in paths]
        for path in chosen:
            path.unlink(missing_ok=True)
        bound = self.place / within
        inside = {folder for path in chosen for folder in path.parents if bound in folder.parents}
        for folder in sorted(inside, key=lambda each: len(each.parts), reverse=True):
            try:
                folder.rmdir()
            except OSError:
                # Not empty, or removed by another process.
                continue

    def remove_folder(self, folder: str) -> None:
        shutil.rmtree(self.place / folder, ignore_errors=True)


def _below(folder: str, path: str) -> Iterator[FileState]:
    """The files at any depth; `path` is that of the folder, with a slash at its end, relative to the place."""
    try:
        entries = os.scandir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return
    with entries:
        for entry in entries:
            if entry.is_symlink():
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _below(entry.path, f"{path}{entry.name}/")
                continue
            # One that is gone by now: Spark moves its files while a run is being staged.
            with suppress(FileNotFoundError):
                yield _state(path + entry.name, entry.stat(follow_symlinks=False))


def _state(path: str, found: os.stat_result) -> FileState:
    # The change time is that of the inode, which no program can set back, unlike the time of modification.
    stamp = f"{found.st_ino:x}-{found.st_ctime_ns:x}"
    return FileState(path=path, size_bytes=found.st_size, stamp=stamp)


@contextmanager
def _incoming(target: Path, content: bytes | Path) -> Iterator[Path]:
    """A file with this content beside its place, flushed to the disk; whoever gives it its name does so durably."""
    target.parent.mkdir(parents=True, exist_ok=True)
    incoming = target.parent / f".incoming-{secrets.token_hex(8)}"
    try:
        if isinstance(content, Path):
            try:
                os.link(content, incoming)
            except OSError:
                shutil.copy(content, incoming)  # it is on another file system, or on one without links
        else:
            incoming.write_bytes(content)
        _make_durable(incoming)
        yield incoming
    finally:
        incoming.unlink(missing_ok=True)
    _make_durable(target.parent)


def sha256_of_file(path: Path) -> str:
    """The sha256 of a file's bytes, in hexadecimal."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _make_durable(path: Path) -> None:
    """Keeps the content of a file, or the names of a folder, through a loss of power."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

"""Local files: the port over a folder of this machine, or of a file system that is mounted."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

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
        """Every file below a folder, sorted by path."""
        paths: list[str] = []
        for inside, _, names in os.walk(self.place / folder):
            paths += [(Path(inside) / name).relative_to(self.place).as_posix() for name in names]
        for path in sorted(paths):
            # One that is gone by now: Spark moves its files while a run is being staged.
            if not (self.place / path).is_symlink() and (found := self.stat(path)):
                yield found

    def stat(self, path: str) -> FileState | None:
        """The state of a file; None when there is none."""
        try:
            found = (self.place / path).stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        # The change time is that of the inode, which no program can set back, unlike the time of modification.
        stamp = f"{found.st_ino:x}-{found.st_ctime_ns:x}"
        return FileState(path=path, size_bytes=found.st_size, stamp=stamp)

    def open(self, path: str) -> BinaryIO:
        """The bytes of a file."""
        return (self.place / path).open("rb")

    def read(self, path: str) -> bytes:
        """All bytes of a file."""
        return (self.place / path).read_bytes()

    def digest(self, path: str) -> str:
        """The sha256 of a file's bytes."""
        return sha256_of_file(self.place / path)

    def put_if_absent(self, path: str, content: bytes | Path) -> bool:
        """Writes the file beside its place and links it there, which fails when there is one."""
        target = self.place / path
        target.parent.mkdir(parents=True, exist_ok=True)
        incoming = target.parent / f".incoming-{secrets.token_hex(8)}"
        try:
            with incoming.open("xb") as file:
                if isinstance(content, Path):
                    with content.open("rb") as source:
                        shutil.copyfileobj(source, file)
                else:
                    file.write(content)
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(incoming, target)  # a rename would replace a file that is there
            except FileExistsError:
                return False
        finally:
            incoming.unlink(missing_ok=True)
        _make_durable(target.parent)
        return True

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
        """Removes a folder with everything in it."""
        shutil.rmtree(self.place / folder, ignore_errors=True)


def sha256_of_file(path: Path) -> str:
    """The sha256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _make_durable(folder: Path) -> None:
    """Keeps a new name of a folder through a loss of power."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

"""Output files: those that a person names for a command to write."""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from backfill_assets.core.errors import is_full_disk
from backfill_assets.report.errors import CannotUse


@contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """A path to write to, which takes the place of the file at the end of the block; after an error it is as it was.

    What a process that was killed has left beside the same file is removed.

    Raises:
        Refused: The folder of the file does not exist, or the file cannot be written.
    """
    if not file.parent.is_dir():
        why = f"the folder {file.parent} does not exist"
        raise CannotUse(what=f"the file {file}", why=why, instead="a file in a folder that exists")
    _remove_left_parts(file)
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as held:
            # It ends with this process, however that ends, so that another one knows whose part is left.
            with suppress(OSError):
                fcntl.flock(held, fcntl.LOCK_EX)
            yield part
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.replace(file)
    except OSError as error:
        if is_full_disk(error):
            raise
        raise CannotUse(
            what=f"the file {file}",
            why=str(error.strerror or error),
            instead="a file in a folder that can be written to",
        ) from error
    finally:
        with suppress(OSError):
            part.unlink()


def _remove_left_parts(file: Path) -> None:
    """Removes the parts of a file that no process writes to any more: they are named for it, and are locked no more."""
    named = re.compile(rf"\.{re.escape(file.name)}\.[0-9]+\.part")
    with suppress(OSError):
        for left in (path for path in file.parent.iterdir() if named.fullmatch(path.name)):
            if _is_left(left):
                left.unlink()


def _is_left(part: Path) -> bool:
    """True if it is a file, and no process holds its lock; where nothing can be locked, that is not known."""
    try:
        opened = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return stat.S_ISREG(os.fstat(opened).st_mode)
    except OSError:
        return False
    finally:
        os.close(opened)

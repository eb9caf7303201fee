"""Output files: those that a person names for a command to write."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from backfill_assets.core.errors import is_full_disk
from backfill_assets.report.errors import CannotUse


@contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """A path to write to, which takes the place of the file at the end of the block; after an error it is as it was.

    Raises:
        Refused: The folder of the file does not exist, or the file cannot be written.
    """
    if not file.parent.is_dir():
        why = f"the folder {file.parent} does not exist"
        raise CannotUse(what=f"the file {file}", why=why, instead="a file in a folder that exists")
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
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

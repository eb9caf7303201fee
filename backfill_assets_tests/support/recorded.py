"""Recorded texts: what people and programs read, each in a file below `snapshots/`, whose change a reviewer sees.

`pytest --snapshot-update` writes them anew.
"""

from __future__ import annotations

from pathlib import Path

from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
from syrupy.types import SnapshotIndex

RECORDED = Path(__file__).parent.parent / "snapshots"


class TextFile(SingleFileSnapshotExtension):
    """A text as a file of its own, named by its test as a path below `snapshots/`."""

    _write_mode = WriteMode.TEXT
    file_extension = ""

    @classmethod
    def dirname(cls, **_: object) -> str:
        return str(RECORDED)

    @classmethod
    def get_file_basename(cls, *, index: SnapshotIndex, **_: object) -> str:
        return str(index)

    @classmethod
    def matches_test_location(cls, **_: object) -> bool:
        return True


def left_over(folder: str, names: set[str], *, remove: bool) -> list[str]:
    """The recorded files of a folder that no test compares with anything.

    Args:
        remove: Remove them, as `--snapshot-update` does.
    """
    found = [path for path in sorted((RECORDED / folder).rglob("*")) if path.is_file()]
    unused = [path for path in found if path.relative_to(RECORDED).as_posix() not in names]
    if remove:
        for path in unused:
            path.unlink()
    return [] if remove else [path.relative_to(RECORDED).as_posix() for path in unused]

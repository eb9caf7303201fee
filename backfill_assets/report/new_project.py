"""A new project, as the command shows it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class NewProject:
    """A project that was written.

    Attributes:
        folder: Its folder.
        package: Its package, which is the value of BACKFILL_DOMAIN.
        files: Its files, by their paths in the folder.
    """

    folder: str
    package: str
    files: tuple[str, ...]

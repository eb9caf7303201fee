"""A new project, as the command shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Example = Literal["orders", "permits", "change-feed"]
"""What a project can begin as: a folder of templates each, beside those that all have in common."""


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

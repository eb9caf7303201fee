"""A new project, as the command shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Example = Literal["orders", "permits", "change-feed"]
"""What a project can begin as: a folder of templates each, beside those that all have in common."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewProject:
    """A project that was written."""

    folder: str  #: Its folder.
    package: str  #: Its package, which is the value of BACKFILL_DOMAIN.
    files: tuple[str, ...]  #: Its files, by their paths in the folder.

"""Place of landed files: raw copies, conformed records and compacted versions, in a folder or an object store."""

from __future__ import annotations

from pathlib import Path

from backfill_assets.files.choose import files_at
from backfill_assets.files.port import Files
from backfill_assets.settings import Settings


def landing_files(settings: Settings) -> Files:
    """The landing place."""
    return files_at(settings.landing, settings.access)


def incoming_folder(settings: Settings) -> Path:
    """The folder of this machine for copies of files that are not checked yet."""
    return settings.home / "landing_in_progress"

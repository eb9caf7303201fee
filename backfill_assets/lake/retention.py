"""Run files: lists and removes files below a table's `_runs/`.

Nothing else of a table is listed or removed here: not its log, and not files of other writers.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from backfill_assets.lake.staging import RUNS_FOLDER
from backfill_assets.lake.tables import Lake


def run_files(lake: Lake, table: str) -> Mapping[str, int]:
    """Every file below `_runs/` with its size, by its path relative to the table. Links are not listed or followed."""
    root = lake.path(table)
    found: dict[str, int] = {}
    for folder, _, names in os.walk(root / RUNS_FOLDER):
        for name in names:
            path = Path(folder) / name
            if path.is_symlink():
                continue
            try:
                found[path.relative_to(root).as_posix()] = path.stat().st_size
            except FileNotFoundError:
                # A run is being staged: Spark moves its files during the listing.
                continue
    return found


def remove_files(lake: Lake, table: str, paths: Iterable[str]) -> None:
    """Removes files below `_runs/`, and folders that become empty. A file that does not exist is not an error.

    Raises:
        ValueError: A path that is not below `_runs/`; nothing is removed.
    """
    root = lake.path(table)
    chosen = tuple(paths)
    for path in chosen:
        parts = path.split("/")
        if parts[0] != RUNS_FOLDER or ".." in parts:
            raise ValueError(f"{path!r} is not below {RUNS_FOLDER}/ of {table}")
    for path in chosen:
        (root / path).unlink(missing_ok=True)
    emptied = {folder for path in chosen for folder in (root / path).parents if folder != root / RUNS_FOLDER}
    inside = {folder for folder in emptied if (root / RUNS_FOLDER) in folder.parents}
    for folder in sorted(inside, key=lambda each: len(each.parts), reverse=True):
        try:
            folder.rmdir()
        except OSError:
            # Not empty, or removed by another process.
            continue

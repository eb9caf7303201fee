"""Run files: lists and removes files below a table's `_runs/`.

Nothing else of a table is listed or removed here: not its log, and not files of other writers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from backfill_assets.lake.staging import RUNS_FOLDER
from backfill_assets.lake.tables import Lake


def run_files(lake: Lake, table: str) -> Mapping[str, int]:
    """Every file below `_runs/` with its size, by its path relative to the table. Links are not listed or followed."""
    return {file.path: file.size_bytes for file in lake.files(table).listed(RUNS_FOLDER)}


def remove_files(lake: Lake, table: str, paths: Iterable[str]) -> None:
    """Removes files below `_runs/`, and folders that become empty. A file that does not exist is not an error.

    Raises:
        ValueError: A path that is not below `_runs/`; nothing is removed.
    """
    chosen = tuple(paths)
    for path in chosen:
        parts = path.split("/")
        if parts[0] != RUNS_FOLDER or ".." in parts:
            raise ValueError(f"{path!r} is not below {RUNS_FOLDER}/ of {table}")
    lake.files(table).remove(chosen, within=RUNS_FOLDER)

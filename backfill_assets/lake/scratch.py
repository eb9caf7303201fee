"""Scratch folders: for rows that are never published.

Each is a folder below `_runs/_reproduced/` whose name contains the time at which it was begun. It is removed at the
end; what a killed process leaves is recognized by its age.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from backfill_assets.lake.staging import RUNS_FOLDER
from backfill_assets.lake.tables import Lake

SCRATCH_FOLDER = "_reproduced"
_BEGUN = "%Y%m%dT%H%M%SZ"


@contextmanager
def scratch(lake: Lake, table: str, *, begun_at: datetime) -> Iterator[str]:
    """The name of a folder below `_runs/_reproduced/`, which is removed afterwards, also after an error."""
    name = f"{begun_at.astimezone(UTC):{_BEGUN}}-{secrets.token_hex(4)}"
    try:
        yield name
    finally:
        remove_scratch(lake, table, name)


def remove_scratch(lake: Lake, table: str, name: str) -> None:
    """Removes a scratch folder, or a part of one; does nothing if it does not exist."""
    lake.files(table).remove_folder(f"{RUNS_FOLDER}/{SCRATCH_FOLDER}/{name}")


def begun_at(name: str) -> datetime | None:
    """When a scratch folder was begun, by its name; None for any other folder."""
    try:
        return datetime.strptime(name.partition("-")[0], _BEGUN).replace(tzinfo=UTC)
    except ValueError:
        return None

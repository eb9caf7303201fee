"""First rows: some rows of a table that others write, to look at before it is declared."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from backfill_assets.core.errors import PackageMissing

_LOG, _METADATA = "_delta_log", "metadata"


def is_delta(folder: Path) -> bool:
    """True if a folder is a Delta table."""
    return (folder / _LOG).is_dir()


def newest_metadata(folder: Path) -> Path | None:
    """The newest metadata file of an Iceberg table in a folder; None where it is none."""
    found = sorted((folder / _METADATA).glob("*.metadata.json"), key=lambda path: (path.stat().st_mtime_ns, path.name))
    return found[-1] if found else None


def first_rows_of_delta(place: Path | str, most: int, options: Mapping[str, str] | None = None) -> pa.Table:
    """The first rows of a Delta table.

    Args:
        place: Its folder, or its address in an object store.
        options: How that store is reached.

    Raises:
        ValueError: It cannot be read, in the words of its client.
    """
    from deltalake import DeltaTable, QueryBuilder
    from deltalake.exceptions import DeltaError

    try:
        table = DeltaTable(str(place), storage_options=dict(options) if options else None)
        batches = QueryBuilder().register("found", table).execute(f"SELECT * FROM found LIMIT {most:d}")  # noqa: S608 - a number
        return pa.table(batches.read_all())
    except (DeltaError, OSError, pa.ArrowException, RuntimeError) as error:
        raise ValueError(str(error).splitlines()[0] if str(error) else "its client failed") from error


def first_rows_of_iceberg(metadata: Path, most: int) -> pa.Table:
    """The first rows of an Iceberg table.

    Raises:
        PackageMissing: pyiceberg is not installed.
        ValueError: It cannot be read, in the words of its client.
    """
    try:
        from pyiceberg.table import StaticTable
    except ImportError:
        raise PackageMissing(what="looking at an Iceberg table", package="pyiceberg", extra="iceberg") from None
    try:
        return StaticTable.from_metadata(str(metadata)).scan(limit=most).to_arrow()
    except (ValueError, LookupError, OSError, pa.ArrowException, RuntimeError) as error:
        raise ValueError(str(error).splitlines()[0] if str(error) else "its client failed") from error

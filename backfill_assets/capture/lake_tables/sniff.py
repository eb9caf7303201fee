"""Sniff tables of others: the first rows of a Delta or an Iceberg table, as the declaration of a source."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from backfill_assets.capture.errors import BadFile, Fault, FileRefused
from backfill_assets.capture.files.fetched_files import STORES
from backfill_assets.capture.lake_tables.declaration import LakeTable
from backfill_assets.capture.lake_tables.versions import (
    first_rows_of_delta,
    first_rows_of_iceberg,
    is_delta,
    newest_metadata,
)
from backfill_assets.sniff.addresses import Reached, is_of_a_file
from backfill_assets.sniff.proposal import Doubt, Proposal
from backfill_assets.sniff.propose import propose
from backfill_assets.sniff.sample import MOST_ROWS


def sniffed(given: str | Path, name: str, reached: Reached, *, as_of: datetime) -> Proposal | None:
    """The source of a table in a folder or, of Delta, in an object store."""
    if isinstance(given, Path):
        return _in_folder(given, name, as_of=as_of) if given.is_dir() else None
    if urlsplit(given).scheme not in STORES or is_of_a_file(given):
        return None
    return _in_store(given, name, reached, as_of=as_of)


def doubts_of(_file: Path, _found: Proposal) -> Sequence[Doubt]:
    """None: a file of a table says nothing of the table."""
    return ()


def _in_folder(folder: Path, name: str, *, as_of: datetime) -> Proposal | None:
    metadata = newest_metadata(folder)
    try:
        if is_delta(folder):
            rows, form, declared = first_rows_of_delta(folder, MOST_ROWS), "Delta", "LakeTable"
            parts = {"url": str(folder.resolve())}
        elif metadata is not None:
            rows, form, declared = first_rows_of_iceberg(metadata, MOST_ROWS), "Iceberg", "IcebergTable"
            parts = {"table": str(metadata.resolve())}
        else:
            return None
    except ValueError as error:
        raise BadFile(path=str(folder), fault=Fault.DAMAGED, why=f"cannot be read: {error}") from error
    found = _proposed(rows, folder.name, name, form, as_of=as_of)
    return replace(found, capture=_declaration(declared, parts), capture_names=(declared,))


def _in_store(text: str, name: str, reached: Reached, *, as_of: datetime) -> Proposal:
    """The first rows of a Delta table, with the variables that have the credentials for it here."""
    url = re.sub("^s3a:", "s3:", text.rstrip("/"))
    for mistake in LakeTable(url=url).mistakes():
        raise FileRefused(fault=Fault.ADDRESS, why=f"the address of a table cannot be used: {mistake}")
    access = reached.access
    try:
        rows = first_rows_of_delta(url, MOST_ROWS, access.for_delta() if url.startswith("s3:") else None)
    except ValueError as error:
        raise BadFile(path=url, fault=Fault.DAMAGED, why=f"cannot be read as a Delta table: {error}") from error
    found = _proposed(rows, url, name, "Delta", as_of=as_of)
    options = {"AWS_REGION": access.region, "AWS_ENDPOINT_URL": access.endpoint}
    named = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY") if access.access_key else ()
    parts = {
        "url": url,
        "options": {each: value for each, value in options.items() if value and url.startswith("s3:")},
        "secrets": {each: each for each in named if url.startswith("s3:")},
    }
    return replace(found, capture=_declaration("LakeTable", parts), capture_names=("LakeTable",))


def _proposed(rows: pa.Table, table: str, name: str, form: str, *, as_of: datetime) -> Proposal:
    """The source of some rows, which are written to a file to be looked at as those of any file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{table.rpartition('/')[2]}.parquet"
        pq.write_table(rows, path)
        found = propose([path], name=name, as_of=as_of)
    read, is_whole = rows.nbytes, rows.num_rows < MOST_ROWS
    seen = (
        replace(each, file=table, format=form, size_bytes=read, read_bytes=read, is_whole=is_whole)
        for each in found.looked
    )
    return replace(found, looked=tuple(seen))


def _declaration(named: str, parts: Mapping[str, object]) -> str:
    lines = [f"    {each}={json.dumps(value)}," for each, value in parts.items() if value]
    return "\n".join([f"{named}(", *lines, ")"])

"""Batches: new files that one Spark job conforms and one account counts.

A job, a plan and a commit cost the same for one record as for a million, so that a thousand small files are landed as a
few batches. What becomes of each file is what would become of it alone, in the order in which they were offered.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from backfill_assets.capture.landed_files import Capture
from backfill_assets.core.places import for_spark
from backfill_assets.domain.sources import FILE_NAME
from backfill_assets.files.port import Files
from backfill_assets.landing.conformed import (
    ARRIVAL,
    IMPORT_ID,
    ConformedRecords,
    conformed,
    conformed_folder,
    conformed_schema,
)
from backfill_assets.landing.file_versions import Archived
from backfill_assets.landing.formats import FILE, records
from backfill_assets.landing.record_rules import Bounds
from backfill_assets.ledger.imports import ImportRecord

MOST_FILES = 250
"""Of a batch. A process that is killed lands its batch again; beyond this number the fixed costs do not matter."""

MOST_BYTES = 64 << 20
"""Of a batch, and the size from which a file lands alone: then the records cost more than the job."""

_File = tuple[Archived, ImportRecord]


def batches(captures: Sequence[Capture]) -> Iterator[Sequence[Capture]]:
    """Captures in their order, in batches of bounded size."""
    batch: list[Capture] = []
    size = 0
    for capture in captures:
        own = capture.size_bytes
        if batch and (len(batch) == MOST_FILES or size + own > MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(capture)
        size += own
    if batch:
        yield batch


def conform_together(
    held: ConformedRecords, files: Sequence[_File], folders: Mapping[str, str], *, bounds: Bounds, attempt: str
) -> None:
    """Judges the records of files, no content twice, and writes the conformed folder of each.

    Args:
        folders: By import, the name of its folder.
    """
    landing, source = held.landing, held.source
    whole = conformed_folder(source, f".building-{attempt}")
    parts = [_part(held, alike, bounds) for alike in _alike(files)]
    if parts:
        reduce(DataFrame.unionByName, parts).write.mode("overwrite").parquet(for_spark(landing.place, whole))
    schema = to_arrow_schema(conformed_schema(source), timezone="UTC")
    where = {import_id: conformed_folder(source, folder) for import_id, folder in folders.items()}
    split_by(IMPORT_ID, landing, whole, where, name=f"part-{attempt}", schema=schema)
    landing.remove_folder(whole)


def _alike(files: Sequence[_File]) -> Sequence[Sequence[_File]]:
    """Files that are read in the same way; those without records are in none."""
    found: dict[object, list[_File]] = {}
    for file in files:
        archived = file[0]
        probe, kind = archived.probe, archived.kind
        how = (kind.format, kind.compression, archived.probe.version) + (
            probe.header,
            probe.line_end,
            probe.columns,
            probe.valid_utf8,
        )
        if not probe.empty:
            found.setdefault(how, []).append(file)
    return tuple(found.values())


def _part(held: ConformedRecords, files: Sequence[_File], bounds: Bounds) -> DataFrame:
    first = files[0][0]
    version = first.probe.version
    assert version is not None
    found = records(
        held.spark,
        [for_spark(held.landing.place, archived.stored_path) for archived, _ in files],
        kind=first.kind,
        probe=first.probe,
        source=held.source.at(version),
    )
    import_id = _by_file(files, [record.import_id for _, record in files])
    arrival = _by_file(files, [record.arrival for _, record in files])
    name = _by_file(files, [record.name for _, record in files])
    owner = {IMPORT_ID: import_id, ARRIVAL: arrival, FILE_NAME: name}
    return conformed([found], source=held.source, owner=owner, bounds=bounds)


def _by_file(files: Sequence[_File], values: Sequence[str | int]) -> Column:
    """The value of each record's file."""
    if len(files) == 1:
        return F.lit(values[0])
    of_file = {Path(archived.stored_path).name: value for (archived, _), value in zip(files, values, strict=True)}
    kind = "string" if isinstance(values[0], str) else "int"
    # One literal: an expression for each file would make a plan that takes longer than the reading.
    return F.from_json(F.lit(json.dumps(of_file)), f"map<string, {kind}>")[F.col(FILE)]


_ROWS = 8192
"""Read at a time: what is held in memory does not grow with the files."""


def split_by(
    column: str, files: Files, whole: str, folders: Mapping[str, str], *, name: str, schema: pa.Schema
) -> None:
    """Writes the rows of the Parquet files of a folder as `<folder of the value>/<name>-<number>.parquet`.

    Rows of one value that are not beside each other become several files; a value without rows gets one that has none.

    Args:
        whole: The folder with the files, relative to the place; it need not exist.
        folders: The folder of each value, relative to the place.
        schema: The columns of a file without rows.
    """
    number, without = 0, dict(folders)
    for path in [each.path for each in files.listed(whole) if each.path.endswith(".parquet")]:
        with (
            files.open(path) as opened,
            pq.ParquetFile(opened, page_checksum_verification=True) as file,
            ExitStack() as written,
        ):
            present: str | None = None
            writer: pq.ParquetWriter | None = None
            for value, rows in _runs(file, column):
                if writer is None or value != present:
                    written.close()
                    one = written.enter_context(files.create(f"{folders[value]}/{name}-{number:05}.parquet"))
                    writer = written.enter_context(pq.ParquetWriter(one, file.schema_arrow, compression="zstd"))
                    present, number = value, number + 1
                    without.pop(value, None)
                writer.write_batch(rows)
    for folder in without.values():
        with files.create(f"{folder}/{name}-{number:05}.parquet") as one, pq.ParquetWriter(one, schema):
            number += 1


def _runs(file: pq.ParquetFile, column: str) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows in their order, cut where the value of the column changes."""
    for batch in file.iter_batches(_ROWS):
        ends = batch.column(column).dictionary_encode()
        lengths = pc.run_end_encode(ends.indices)
        begin = 0
        for index, end in zip(lengths.values.to_pylist(), lengths.run_ends.to_pylist(), strict=True):
            yield ends.dictionary[index].as_py(), batch.slice(begin, end - begin)
            begin = end

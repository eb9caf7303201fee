"""Split: rows of many imports that Spark has written together become a folder of each.

Spark's own `partitionBy` makes folders with Hadoop's local file system, which starts a process for every folder and
file to set their permissions. That takes longer than everything else about a small file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from backfill_assets.files.port import Files

_ROWS = 8192
"""Read at a time: what is held in memory does not grow with the files."""


def split_by(
    column: str, files: Files, whole: str, folders: Mapping[str, str], *, name: str, schema: pa.Schema
) -> None:
    """Writes the rows of the Parquet files of a folder as `<folder of the value>/<name>-<number>.parquet`.

    Rows of one value that are not beside each other become several files; a value without rows gets one that has none.

    Args:
        column: Its values are texts. It stays in the files.
        files: The files of the place.
        whole: The folder with the files, relative to the place; it need not exist.
        folders: The folder of each value, relative to the place.
        name: Distinguishes the files from those of other attempts.
        schema: The columns of a file without rows.
    """
    number, without = 0, dict(folders)
    for path in [each.path for each in files.listed(whole) if each.path.endswith(".parquet")]:
        with files.open(path) as opened, pq.ParquetFile(opened) as file, ExitStack() as written:
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

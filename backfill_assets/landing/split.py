"""Split: rows of many imports that Spark has written together become a folder of each.

Spark's own `partitionBy` makes folders with Hadoop's local file system, which starts a process for every folder and
file to set their permissions. That takes longer than everything else about a small file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_ROWS = 8192
"""Read at a time: what is held in memory does not grow with the files."""


def split_by(column: str, whole: Path, target: Path, *, name: str) -> None:
    """Writes the rows of the Parquet files of a folder as `<target>/<value>/<name>-<number>.parquet`.

    Rows of one value that are not beside each other become several files.

    Args:
        column: Its values, which are texts, name the folders. It stays in the files.
        whole: The folder with the files.
        target: Where the folders are made.
        name: Distinguishes the files from those of other attempts.
    """
    number = 0
    for path in sorted(whole.glob("*.parquet")):
        with pq.ParquetFile(path) as file, ExitStack() as written:
            present: str | None = None
            writer: pq.ParquetWriter | None = None
            for value, rows in _runs(file, column):
                if writer is None or value != present:
                    written.close()
                    (target / value).mkdir(parents=True, exist_ok=True)
                    one = target / value / f"{name}-{number:05}.parquet"
                    writer = written.enter_context(pq.ParquetWriter(one, file.schema_arrow, compression="zstd"))
                    present, number = value, number + 1
                writer.write_batch(rows)


def _runs(file: pq.ParquetFile, column: str) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows in their order, cut where the value of the column changes."""
    for batch in file.iter_batches(_ROWS):
        ends = batch.column(column).dictionary_encode()
        lengths = pc.run_end_encode(ends.indices)
        begin = 0
        for index, end in zip(lengths.values.to_pylist(), lengths.run_ends.to_pylist(), strict=True):
            yield ends.dictionary[index].as_py(), batch.slice(begin, end - begin)
            begin = end

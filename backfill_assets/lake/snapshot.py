"""How are exactly these files read?"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from backfill_assets.errors import MissingInput
from backfill_assets.identity import FileSet
from backfill_assets.lake.tables import Lake, missing_files


def read_files(
    spark: SparkSession, lake: Lake, table: str, file_sets: Iterable[FileSet], schema: StructType
) -> DataFrame:
    """The rows of exactly these files, whatever the table's log says by now.

    Args:
        spark: The session.
        lake: Where tables are.
        table: The table the files belong to.
        file_sets: Complete file sets of partitions; empty ones add nothing.
        schema: The columns to read; the partition column comes from the files' folders.

    Raises:
        MissingInput: A file is gone or was cut.
    """
    wanted = tuple(file_sets)
    if problems := missing_files(lake, table, wanted):
        raise MissingInput(
            f"{table} cannot be read: {problems[0]}"
            + (f", and {len(problems) - 1} more files." if problems[1:] else "."),
            next_step=f"restore the file, or rebuild its partition and plan again (backfill history {table})",
            table=table,
        )
    root = lake.path(table)
    paths = [str(root / file.path) for file_set in wanted for file in file_set.files]
    if not paths:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).option("basePath", str(root)).parquet(*paths)

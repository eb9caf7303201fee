"""Snapshot reads: rows of an exact list of files, by Spark, or by Arrow in this process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from backfill_assets.calendar.partitions import count_of
from backfill_assets.core.grouped import grouped
from backfill_assets.core.identity import FileSet
from backfill_assets.core.places import for_spark
from backfill_assets.lake.errors import PartitionUnreadable
from backfill_assets.lake.tables import Lake, altered_files, missing_files

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds

MOST_FOLDERS = 8
"""Of so many attempts, each has a scan of its own, in which Spark takes the value of the partition from the folder: in
one scan all files would need one folder structure. More scans would cost more than they save."""


def read_files(
    spark: SparkSession,
    lake: Lake,
    table: str,
    file_sets: Iterable[FileSet],
    *,
    schema: StructType,
    partition_column: str,
    as_readers_see: bool = False,
) -> DataFrame:
    """The rows of exactly these files, independent of the present version of the table.

    Args:
        schema: The columns to read, in the order of the result.
        partition_column: The date column that is in the files' paths and not in the files.
        as_readers_see: Whether bytes that were not staged are read as well. What replaces them is compared with them;
            nothing is computed from them.

    Raises:
        MissingInput: A file does not exist any more, or its bytes are not those that were staged.
    """
    wanted = tuple(file_sets)
    if problems := (missing_files if as_readers_see else altered_files)(lake, table, wanted):
        partition = problems[0].rpartition(f"{partition_column}=")[2].partition("/")[0]
        others = count_of(len(problems) - 1, "other file")
        more = f", and {others} cannot be read either" if problems[1:] else ""
        place = str(lake.place(table))
        raise PartitionUnreadable(table=table, partition=partition, place=place, why=f"{problems[0]}{more}")
    root = lake.place(table)
    paths = [for_spark(root, file.path) for file_set in wanted for file in file_set.files]
    if not paths:
        # Not `createDataFrame([])`: that starts Python workers to convert no rows.
        nothing = (F.lit(None).cast(field.dataType).alias(field.name) for field in schema.fields)
        return spark.range(0).select(*nothing)
    folders = grouped((path.rpartition(f"/{partition_column}=")[0], path) for path in paths)
    if len(folders) > MOST_FOLDERS:
        return _of_many_folders(spark, paths, schema, partition_column)
    frames = (
        spark.read.schema(schema).option("basePath", folder).parquet(*within).select(*schema.fieldNames())
        for folder, within in folders.items()
    )
    return reduce(DataFrame.unionAll, frames)


def _of_many_folders(spark: SparkSession, paths: list[str], schema: StructType, partition_column: str) -> DataFrame:
    """Rows of files below many folders: the value of their partition is found in the path, once more for every row."""
    in_files = StructType([field for field in schema.fields if field.name != partition_column])
    folder = F.substring_index(F.col("_metadata.file_path"), f"{partition_column}=", -1)
    value = F.to_date(F.substring_index(folder, "/", 1))
    files = spark.read.schema(in_files).option("recursiveFileLookup", "true").parquet(*paths)
    return files.select(*(value.alias(name) if name == partition_column else name for name in schema.fieldNames()))


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedFiles:
    """The files of one partition, with what their footers say."""

    fragments: tuple[ds.Fragment, ...] = ()  #: The files, for Arrow; none of a partition without rows.
    #: The types of their columns by name, without the partition's; None when files differ in them.
    columns: Mapping[str, pa.DataType] | None = None


def checked_parquet() -> ds.ParquetFileFormat:
    """Parquet whose pages are compared with their checksums when they are read, where they have any."""
    import pyarrow.dataset as ds

    checked = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
    return ds.ParquetFileFormat(default_fragment_scan_options=checked)


def opened_files(
    lake: Lake, table: str, file_sets: Mapping[date, FileSet], partition_column: str
) -> Mapping[date, OpenedFiles]:
    """Opens the files of partitions, and reads their footers.

    Args:
        partition_column: The date column that is in the files' paths and not in the files.
    """
    # Imported when rows are read, for it imports pandas: a publication only compares versions.
    import pyarrow as pa
    import pyarrow.dataset as ds

    place, parquet = lake.arrow_files(table), checked_parquet()

    def opened(partition: date) -> OpenedFiles:
        value = ds.field(partition_column) == pa.scalar(partition, pa.date32())
        file_set = file_sets[partition]
        fragments = tuple(
            parquet.make_fragment(path, filesystem=place, partition_expression=value) for path in file_set.paths
        )
        found = [{field.name: field.type for field in each.physical_schema} for each in fragments]
        return OpenedFiles(
            fragments=fragments,
            columns=found[0] if found and all(each == found[0] for each in found) else None,
        )

    with lake.reading(table), ThreadPoolExecutor(lake.files(table).at_once) as readers:
        return dict(zip(file_sets, readers.map(opened, file_sets), strict=True))


def arrow_rows(files: Sequence[OpenedFiles], columns: Mapping[str, pa.DataType], partition_column: str) -> ds.Dataset:
    """The rows of files that have at least these columns, read as they are asked for."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    fragments = [fragment for each in files for fragment in each.fragments]
    schema = pa.schema([(partition_column, pa.date32()), *columns.items()])
    return ds.FileSystemDataset(fragments, schema, checked_parquet())

"""Rows of a table's files, as rows of its present schema: files of an earlier contract are lifted as they are read.

Files of derived tables, and those between which a contract only widened, are read with the present schema at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from pyspark.sql import DataFrame

from backfill_assets.domain import SourceTable, Table
from backfill_assets.domain.lifting import lifted
from backfill_assets.errors import ContractBroken
from backfill_assets.identity import FileSet
from backfill_assets.lake.snapshot import read_files
from backfill_assets.lake.staging import contract_of
from backfill_assets.transforms.schemas import business_schema
from backfill_assets.workspace import Workspace


def rows_of(ws: Workspace, table: Table, file_sets: Iterable[FileSet]) -> DataFrame:
    """The business columns of exactly these files, in the order of the table's schema.

    Args:
        ws: The workspace.
        table: The table; a source as it is to be read, which may be in an earlier version of its contract.
        file_sets: Complete file sets of partitions.

    Raises:
        MissingInput: A file does not exist any more or was truncated.
        ContractBroken: A lift cannot be applied, or files are in a later version than the table.
    """
    wanted = tuple(file_sets)
    if isinstance(table, SourceTable):
        found = {version: _of_version(table, wanted, version) for version in _versions(table, wanted)}
        if found.keys() - {table.contract_version}:
            frames = [_lifted(ws, table, version, sets) for version, sets in found.items()]
            return reduce(DataFrame.unionByName, frames).select(*business_schema(table).fieldNames())
    return _read(ws, table, wanted)


def _versions(table: SourceTable, file_sets: Iterable[FileSet]) -> list[int]:
    """In which versions the files are read, each as the latest one that needs no lift."""
    versions = {contract_of(files) for files in file_sets if files.files}
    if (later := max(versions, default=0)) > table.contract_version:
        raise ContractBroken(
            f"{table.name} has files of version {later} of its contract, and is read as version "
            f"{table.contract_version}.",
            next_step="plan the run again, with the contract as it is now",
            table=table.name,
        )
    return sorted({table.read_as(version) for version in versions})


def _of_version(table: SourceTable, file_sets: Iterable[FileSet], version: int) -> tuple[FileSet, ...]:
    return tuple(files for files in file_sets if files.files and table.read_as(contract_of(files)) == version)


def _lifted(ws: Workspace, table: SourceTable, version: int, file_sets: Iterable[FileSet]) -> DataFrame:
    return lifted(_read(ws, table.at(version), file_sets), table, version)


def _read(ws: Workspace, table: Table, file_sets: Iterable[FileSet]) -> DataFrame:
    return read_files(
        ws.spark(),
        ws.lake,
        table.name,
        file_sets,
        schema=business_schema(table),
        partition_column=table.partition.column,
    )

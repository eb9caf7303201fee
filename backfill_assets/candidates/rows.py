"""Rows of a table's files, as rows of its present schema: files of an earlier contract are lifted as they are read.

Files of derived tables, and those between which a contract only widened, are read with the present schema at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from backfill_assets.core.errors import ContractBroken
from backfill_assets.core.identity import FileSet, contract_of
from backfill_assets.core.spark import require_meaning
from backfill_assets.domain import DerivedTable, SourceTable, Table
from backfill_assets.domain.contracts import lifted
from backfill_assets.lake.checksums import is_of_this_form, partition_checksums
from backfill_assets.lake.errors import OtherColumns
from backfill_assets.lake.snapshot import read_files
from backfill_assets.lake.staging import footer_columns, schema_of_columns
from backfill_assets.lake.tables import altered_files, cannot_follow, missing_files
from backfill_assets.ledger.records import PartitionVersion
from backfill_assets.transforms.schemas import business_schema, stored_schema
from backfill_assets.workspace import Workspace


def rows_of(ws: Workspace, table: Table, file_sets: Iterable[FileSet], *, as_readers_see: bool = False) -> DataFrame:
    """The business columns of exactly these files, in the order of the table's schema.

    Args:
        ws: The workspace.
        table: The table; a source as it is to be read, which may be in an earlier version of its contract.
        file_sets: Complete file sets of partitions.
        as_readers_see: Whether bytes that were not staged are read as well, to be compared.

    Raises:
        MissingInput: A file does not exist any more, or its bytes are not those that were staged.
        ContractBroken: A lift cannot be applied, or files are in a later version than the table.
    """
    wanted = tuple(file_sets)
    if isinstance(table, SourceTable):
        found = {version: _of_version(table, wanted, version) for version in _versions(table, wanted)}
        if found.keys() - {table.contract_version}:
            frames = [_lifted(ws, table, version, sets, as_readers_see) for version, sets in found.items()]
            return reduce(DataFrame.unionByName, frames).select(*business_schema(table).fieldNames())
    return _read(ws, table, wanted, business_schema(table), as_readers_see)


def require_columns_of_files(ws: Workspace, table: SourceTable, file_sets: Iterable[FileSet]) -> None:
    """Refuses files that were written in other columns than are declared: those that they lack would be read as null.

    Cost: the footer of one file of each partition.

    Raises:
        OtherColumns: Which columns differ, and how.
    """
    wanted = tuple(file_sets)
    for version in _versions(table, wanted):
        declared = stored_schema(table.at(version))
        some = [FileSet.of(files.files[:1]) for files in _of_version(table, wanted, version)]
        for columns in footer_columns(ws.lake, table.name, some):
            found = schema_of_columns(columns, declared[table.partition.column])
            if differing := cannot_follow(found, declared, former=None):
                raise OtherColumns(table=table.name, differing=differing, is_source=True)


def stored_rows_of(ws: Workspace, table: DerivedTable, file_sets: Iterable[FileSet]) -> DataFrame:
    """The rows of exactly these files with their lineage; what files were written without is null.

    Raises:
        MissingInput: As `rows_of`.
    """
    return _read(ws, table, tuple(file_sets), stored_schema(table))


def is_lifted(table: Table, file_set: FileSet) -> bool:
    """True if the rows of these files are lifted as they are read."""
    return isinstance(table, SourceTable) and table.read_as(contract_of(file_set)) != table.contract_version


def _versions(table: SourceTable, file_sets: Iterable[FileSet]) -> list[int]:
    """In which versions the files are read, each as the latest one that needs no lift."""
    versions = {contract_of(files) for files in file_sets if files.files}
    if (later := max(versions, default=0)) > table.contract_version:
        raise ContractBroken.coded(
            "later_contract",
            "{table} has files of version {found} of its contract, and is read as version {version}.",
            then="plan the run again, with the contract as it is now",
            table=table.name,
            found=later,
            version=table.contract_version,
        )
    return sorted({table.read_as(version) for version in versions})


def _of_version(table: SourceTable, file_sets: Iterable[FileSet], version: int) -> tuple[FileSet, ...]:
    return tuple(files for files in file_sets if files.files and table.read_as(contract_of(files)) == version)


def _lifted(
    ws: Workspace, table: SourceTable, version: int, file_sets: Iterable[FileSet], as_readers_see: bool
) -> DataFrame:
    at_version = table.at(version)
    rows = lifted(_read(ws, at_version, file_sets, business_schema(at_version), as_readers_see), table, version)
    require_meaning(rows.sparkSession)
    return rows


def _read(
    ws: Workspace, table: Table, file_sets: Iterable[FileSet], schema: StructType, as_readers_see: bool = False
) -> DataFrame:
    return read_files(
        ws.spark(),
        ws.lake,
        table.name,
        file_sets,
        schema=schema,
        partition_column=table.partition.column,
        as_readers_see=as_readers_see,
    )


def accepted_checksums(ws: Workspace, table: Table, accepted: Mapping[date, PartitionVersion]) -> Mapping[date, str]:
    """The checksums of the accepted rows as their files have them now, by partition; those without rows may be absent.

    Args:
        ws: The workspace.
        table: The table as it is declared now.
        accepted: The accepted versions.

    Raises:
        MissingInput: A file that has to be read does not exist any more, or has another size.
    """
    with_rows = {partition: version for partition, version in accepted.items() if version.files.files}
    # Files of an earlier contract are lifted as they are read, which gives their rows other values.
    known = dict(recorded_checksums(table, with_rows))
    if _altered(ws, table, [with_rows[p] for p in known]):
        known = {p: checksum for p, checksum in known.items() if not _altered(ws, table, [with_rows[p]])}
    unknown = [version.files for partition, version in with_rows.items() if partition not in known]
    if not unknown:
        return known
    rows = rows_of(ws, table, unknown, as_readers_see=True)
    return {**known, **partition_checksums(rows, table.partition.column, business_schema(table))}


def lost_partitions(
    ws: Workspace, table: Table, accepted: Mapping[date, PartitionVersion], *, repairs: bool
) -> Mapping[date, PartitionVersion]:
    """The accepted versions whose rows cannot be compared, because files of theirs are gone or of another size.

    Args:
        repairs: Whether bytes that were not accepted count as damage, even if rows can be read from them.
    """
    problems = altered_files if repairs else missing_files
    if not problems(ws.lake, table.name, (version.files for version in accepted.values())):
        return {}
    return {p: version for p, version in accepted.items() if problems(ws.lake, table.name, [version.files])}


def recorded_checksums(table: Table, versions: Mapping[date, PartitionVersion]) -> Mapping[date, str]:
    """The checksums that were recorded of accepted rows, where rows of the present contract can be compared by them."""
    present = table.contract_version if isinstance(table, SourceTable) else 1
    return {
        p: version.checksum
        for p, version in versions.items()
        if contract_of(version.files) == present and is_of_this_form(version.checksum)
    }


def _altered(ws: Workspace, table: Table, versions: list[PartitionVersion]) -> bool:
    files = [version.files for version in versions]
    return bool(altered_files(ws.lake, table.name, files))

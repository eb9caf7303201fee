"""Schemas: the columns of a table, those that are its content, and those of lineage that every row has in addition."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import date

from pyspark.sql import DataFrame
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType

from backfill_assets.core.columns import LINEAGE_OF_RUN, RUN_ID, ColumnChange, column_changes
from backfill_assets.domain import DerivedTable, SourceTable, Table
from backfill_assets.domain.operations import ENDED_BY, OPERATION, POSITION, VALID_FROM, VALID_UNTIL, is_current
from backfill_assets.lake.errors import OtherColumns
from backfill_assets.lake.tables import Lake, live_digests
from backfill_assets.ledger.states import OPEN_STATES, RunState
from backfill_assets.ledger.store import Ledger
from backfill_assets.ledger.transactions import ReadTransaction


def business_schema(table: Table) -> StructType:
    """The columns whose content is compared and checksummed, the partition column included."""
    if not isinstance(table, SourceTable):
        return table.schema
    partition = StructField(table.partition.column, DateType(), nullable=False)
    # Landing judges whether elements and members can be null. Spark infers that all of them can, and writes that.
    fields = table.schema.toNullable().fields
    if table.operation is None:
        known = zip(fields, table.schema.fields, strict=True)
        return StructType([*(StructField(f.name, f.dataType, own.nullable, f.metadata) for f, own in known), partition])
    # A delete has no values besides its key.
    return StructType([*fields, partition, *_of_the_changelog(table)])


def _of_the_changelog(table: SourceTable) -> Iterator[StructField]:
    yield StructField(OPERATION, StringType())
    if not table.order:
        yield StructField(POSITION, LongType())
    yield StructField(VALID_FROM, table.time_type)
    yield StructField(VALID_UNTIL, table.time_type)
    yield StructField(ENDED_BY, StringType())


def stored_schema(table: Table) -> StructType:
    """Every column of the Delta table: business columns, then lineage."""
    if isinstance(table, SourceTable):
        lineage = SOURCE_LINEAGE
    else:
        lineage = FULL_LINEAGE if table.lineage == "full" else RUN_LINEAGE
    return StructType([*business_schema(table).fields, *lineage.fields])


def contract_version(table: Table) -> int:
    """The version of a source's contract in which its rows are staged now; a derived table has one schema."""
    return table.contract_version if isinstance(table, SourceTable) else 1


def former_columns(table: Table) -> frozenset[str] | None:
    """The columns of a source's earlier contracts; None for a table whose columns have no versions."""
    if not isinstance(table, SourceTable) or not table.earlier:
        return None
    return frozenset(name for schema in table.earlier.values() for name in schema.fieldNames())


def current_rows(rows: DataFrame, table: Table) -> DataFrame:
    """The rows of keys that exist, without the columns of the changelog: what a transform is given."""
    if not isinstance(table, SourceTable) or table.operation is None:
        return rows
    return rows.where(is_current()).select(*current_schema(table).fieldNames())


def current_schema(table: Table) -> StructType:
    """The business columns of rows of keys that exist, without the columns of the changelog."""
    every = business_schema(table)
    if not isinstance(table, SourceTable) or table.operation is None:
        return every
    return StructType([every[name] for name in (*table.schema.fieldNames(), table.partition.column)])


RUN_LINEAGE = StructType([StructField(RUN_ID, StringType(), nullable=True)])
"""On every row of a derived table; the rest is in `lineage.runs`."""

FULL_LINEAGE = StructType([*RUN_LINEAGE, *(StructField(name, StringType(), nullable=True) for name in LINEAGE_OF_RUN)])
"""On every row of a derived table that declares `lineage="full"`."""

SOURCE_LINEAGE = StructType(
    [
        StructField("_import_id", StringType(), nullable=True),
        StructField("_row", LongType(), nullable=True),
        StructField(RUN_ID, StringType(), nullable=True),
    ]
)
"""On every row of a source table: the landed file, the line or row in it, and the run that loaded it."""


def changes_for_readers(lake: Lake, table: Table, *, held: Collection[str] | None = None) -> tuple[ColumnChange, ...]:
    """The changes of the columns that readers see with the next publication of a table; none for one that does not
    exist.

    Args:
        held: The columns of its latest rows; None for all that it has.
    """
    found = lake.columns(table.name)
    return () if found is None else column_changes(found, stored_schema(table), held=held)


def changes_when_shown(shown: Table, other: Table) -> tuple[ColumnChange, ...]:
    """The changes of the columns that readers see when they are shown another table, by what both declare."""
    return column_changes(business_schema(shown), business_schema(other))


def require_follows(lake: Lake, ledger: Ledger, table: Table) -> None:
    """Refuses a table whose columns do not follow from those of its files, before anything of it is planned.

    A derived table that was never published has no rows to follow from: it is created again when it is staged.

    Raises:
        OtherColumns: Which columns differ, and how.
    """
    if differing := other_columns(lake, table):
        with ledger.read() as tx:
            require_never_published(tx, table, differing)


def require_inputs_follow(lake: Lake, ledger: Ledger, table: DerivedTable) -> None:
    """Refuses to plan what reads sources whose files were written in other columns than are declared now: those that
    they lack would be read as null.

    Cost: one look at the log of each source.

    Raises:
        OtherColumns: Which columns of which source differ, and how.
    """
    for source in table.inputs.values():
        if isinstance(source, SourceTable):
            require_follows(lake, ledger, source)


def other_columns(lake: Lake, table: Table) -> str | None:
    """The differences between a declaration's columns and those of its table, if they do not follow from them."""
    return lake.other_columns(table.name, stored_schema(table), table.partition.column, former_columns(table))


@dataclass(frozen=True, slots=True, kw_only=True)
class FormerColumns:
    """Reports that a source has other columns than it declares now, which do not follow from them."""

    table: SourceTable
    differing: str
    partitions: frozenset[str]  #: The partitions that have files of them.

    def require_replaced(self, partitions: Collection[date]) -> None:
        """Refuses a load that replaces only some of these files: then files of both would be one table.

        Raises:
            OtherColumns: Some of them are of other partitions.
        """
        if self.partitions - {partition.isoformat() for partition in partitions}:
            raise _other_columns(self.table, self.differing)


def former_columns_of(lake: Lake, table: Table) -> FormerColumns | None:
    """The columns of a source before its declaration was corrected; None where they are those that it declares.

    Cost: one look at the log of the table, and where the columns differ one more at its files.
    """
    if not isinstance(table, SourceTable) or (differing := other_columns(lake, table)) is None:
        return None
    return FormerColumns(table=table, differing=differing, partitions=frozenset(live_digests(lake, table.name)))


def _other_columns(table: Table, differing: str, open_runs: tuple[str, ...] = ()) -> OtherColumns:
    return OtherColumns(
        table=table.name, differing=differing, is_source=isinstance(table, SourceTable), open_runs=open_runs
    )


def require_never_published(tx: ReadTransaction, table: Table, differing: str, *, but: str = "") -> None:
    """Refuses other columns for a table that was published, or may be from files with its present columns.

    Args:
        differing: How the columns differ.
        but: The run that creates the table again.

    Raises:
        OtherColumns: It was published, it is a source, or an open run of it has been staged.
    """
    # The contract of a source has versions: what has landed was checked by one of them.
    has_rows = isinstance(table, SourceTable) or tx.publications.count(table=table.name)
    staged = set(OPEN_STATES) - {RunState.PLANNED}
    others = () if has_rows else tx.runs.headers(table=table.name, states=staged)
    # What failed before it staged rows has no files with the present columns.
    rivals = tuple(
        run.run_id
        for run in others
        if run.run_id != but and (run.state is not RunState.FAILED or tx.candidates.digests(run.run_id))
    )
    if has_rows or rivals:
        raise _other_columns(table, differing, rivals)

"""Changed rows: every row of two sides of partitions that is added, removed or changed, as a stream sorted by key.

Partitions are compared in order, as many at once as fit into little memory, and their rows are given on in batches: the
memory that this takes depends neither on the number of rows nor on that of days. What exceeds it DuckDB writes to disk.
Which rows differ is decided by `by_values`, as it is for the gates.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING

import pyarrow as pa

from backfill_assets.candidates.compare import ComparedFiles, groups_of, opened_sides
from backfill_assets.candidates.compared_sides import ComparedSides
from backfill_assets.candidates.errors import NoCondition
from backfill_assets.domain import Table
from backfill_assets.gates import by_values
from backfill_assets.gates.by_values import DIFFERENT, Shape
from backfill_assets.gates.comparison import arriving, key_columns, side_columns
from backfill_assets.lake.snapshot import arrow_rows
from backfill_assets.transforms.schemas import business_schema

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

GROUP_BYTES, GROUP_ROWS = 16 << 20, 100_000
"""The size and the rows of the files that are compared at once, unless those of one partition are more."""

BATCH_ROWS = 4_096
MEMORY, THREADS = "256MiB", 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The selection of rows that a reader asks for."""

    kinds: tuple[str, ...] = DIFFERENT  #: How their keys differ.
    #: The columns that are compared and given, besides those of the key; all of them where it is empty.
    columns: tuple[str, ...] = ()
    where: str = ""  #: A condition in DuckDB's SQL that a row fulfils before or after; empty for every row.
    #: Only rows with these keys: columns of the key, with the types that they have in the files.
    keys: pa.Table | None = field(default=None, compare=False)


EVERY = Wanted()


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedGroup:
    """Some partitions, whose rows are compared when they are asked for."""

    partitions: Sequence[date]  #: In their order.
    shape: Shape  #: How their rows are compared.
    query: str  #: Gives the rows that are asked for, as `by_values.rows_of_keys` does.
    connection: DuckDBPyConnection

    def keys(self) -> Mapping[str, int]:
        """The number of keys that differ in each of the ways that are asked for."""
        found = self.connection.sql(f"SELECT kind, count_if(is_first) FROM ({self.query}) GROUP BY kind")
        return dict(found.fetchall())

    def rows(self, *, skip: int = 0, most: int | None = None) -> Iterator[pa.RecordBatch]:
        """The rows, in the order of their keys."""
        part = f"{'' if most is None else f' LIMIT {most}'}{f' OFFSET {skip}' if skip else ''}"
        ordered = f"SELECT * FROM ({self.query}) {by_values.in_order(self.shape)}{part}"
        yield from self.connection.sql(ordered).to_arrow_reader(BATCH_ROWS)


def keys_in(batch: pa.RecordBatch) -> Mapping[str, int]:
    """The number of keys that differ in each way, for keys whose first row is in a batch of rows."""
    return Counter(batch.filter(batch.column("is_first")).column("kind").to_pylist())


def shape_of_rows(table: Table, wanted: Wanted = EVERY) -> Shape:
    """The shape in which rows of a table are compared for a reader."""
    key = key_columns(table)
    values = [name for name in business_schema(table).fieldNames() if name not in key]
    chosen = tuple(name for name in values if not wanted.columns or name in wanted.columns)
    return Shape(key=key, values=chosen, is_chosen=bool(wanted.where))


def compared_groups(
    compared: ComparedSides, wanted: Wanted = EVERY, *, begin: date = date.min
) -> Iterator[ComparedGroup]:
    """The partitions of two sides in their order, to be compared group by group; each only until the next is taken.

    Args:
        begin: The first partition.

    Raises:
        RowsRemoved: A file does not exist any more or was truncated.
        UnreadableTable: A file is damaged.
        NoCondition: The condition is none that can be asked of a row.
    """
    sides = compared.sides
    shape = shape_of_rows(sides.table, wanted)
    condition = _condition(sides.table, wanted.where) if wanted.where else ""
    # A condition can name every column.
    read = shape_of_rows(sides.table) if condition else shape
    sides = sides.of(p for p in {*sides.staged, *sides.accepted} if p >= begin)
    partitions = sorted({*sides.staged, *sides.accepted})
    at_once = groups_of(partitions, sides.staged, sides.accepted, most_bytes=GROUP_BYTES, most_rows=GROUP_ROWS)
    for group in at_once:
        compared.require_files(group)
        with by_values.opened(THREADS, MEMORY) as connection, sides.ws.lake.reading(sides.table.name):
            connection.execute("SET TimeZone = 'UTC'")
            is_narrowed = bool(condition) or wanted.keys is not None
            _register(connection, sides.of(group), read, "all_" if is_narrowed else "")
            if wanted.keys is not None:
                connection.register("keys", wanted.keys)
                by_values.with_keys(connection, wanted.keys.column_names)
            elif condition:
                by_values.choosing(connection, condition)
                with _asking(sides.table, wanted.where):
                    # Of every row, before the first is given on: in a stream of rows an error has no class.
                    connection.sql(by_values.CHOSEN_ROWS).fetchall()
            query = by_values.rows_of_keys(connection, shape, wanted.kinds)
            yield ComparedGroup(partitions=group, shape=shape, query=query, connection=connection)


def _register(connection: DuckDBPyConnection, sides: ComparedFiles, read: Shape, prefix: str) -> None:
    """Makes both sides known: their files, or where these are not read as they are, the rows that Spark reads."""
    found = opened_sides(sides, read)
    if not found.elsewhere:
        for view, files in (("staged", found.staged), ("accepted", found.accepted)):
            connection.register(f"{prefix}{view}", arrow_rows([*files.values()], found.columns, read.key[0]))
        return
    for view, frame in zip(("staged", "accepted"), sides.frames(), strict=True):
        rows = frame.select(*side_columns(frame, read))
        connection.register("arriving", rows.toArrow() if sides.rows <= GROUP_ROWS else arriving(rows))
        connection.execute(f"CREATE TEMP TABLE {prefix}{view} AS SELECT * FROM arriving")
        connection.unregister("arriving")


def _condition(table: Table, where: str) -> str:
    """A condition as the comparison asks it.

    Raises:
        NoCondition: It is not one condition on the columns of the table.
    """
    import duckdb
    from pyspark.sql.pandas.types import to_arrow_schema

    with _asking(table, where):
        text = str(duckdb.SQLExpression(where))
        with by_values.opened(THREADS, MEMORY) as connection:
            connection.register("one_side", to_arrow_schema(business_schema(table), timezone="UTC").empty_table())
            # Where a condition stands, DuckDB refuses sums over several rows.
            connection.sql(f"SELECT 1 FROM one_side WHERE ({text})").fetchall()
            found = connection.sql(f"SELECT ({text}) AS it FROM one_side").types
    if "SELECT" in _QUOTED.sub("", text):
        why = "it reads other rows than the one that it is about"
    elif str(found[0]) not in ("BOOLEAN", '"NULL"'):
        why = f"it gives a value of the type {found[0]}, and not yes or no"
    else:
        return text
    raise NoCondition(table=table.name, where=where, why=why, columns=tuple(business_schema(table).fieldNames()))


@contextmanager
def _asking(table: Table, where: str) -> Iterator[None]:
    """Refuses a condition that DuckDB cannot ask: as it is written, or of the values of a row.

    Raises:
        NoCondition: It has the reason.
    """
    import duckdb

    try:
        yield
    except (duckdb.ProgrammingError, duckdb.DataError, duckdb.NotSupportedError) as error:
        why = str(error).partition("\n")[0].rstrip(".")
        columns = tuple(business_schema(table).fieldNames())
        raise NoCondition(table=table.name, where=where, why=why, columns=columns) from error


_QUOTED = re.compile("""'(?:[^']|'')*'|"(?:[^"]|"")*\"""")

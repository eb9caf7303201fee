"""Comparison of exactly the staged and the accepted files of partitions, and the rows that differ.

This process reads them with Arrow, a group of partitions at a time. Spark reads them instead where their rows have to
be made those of the present contract first, or where there are more bytes than one machine should read.

A run is compared with the versions with which its gates compared it: before its publication, after it, when these are
what it replaced, and after a rollback. Before its gates it is compared with what readers see now.

Every row that is added, removed or changed is given on as a stream sorted by key, in batches: the memory that this
takes depends neither on the number of rows nor on that of days. What exceeds it DuckDB writes to disk. Which rows
differ is decided by `gates.by_values`, as it is for the gates.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from enum import StrEnum
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from backfill_assets.calendar.partitions import Partitions
from backfill_assets.candidates.errors import NoCondition, RowsRemoved
from backfill_assets.candidates.rows import is_lifted, rows_of
from backfill_assets.core.identity import EMPTY_FILE_SET, FileSet, contract_of
from backfill_assets.domain import Table
from backfill_assets.gates import by_values
from backfill_assets.gates.by_values import DIFFERENT, EQUAL, KINDS, Shape, opened
from backfill_assets.gates.measure import (
    Comparing,
    arriving,
    by_key,
    compare_frames,
    comparing,
    key_columns,
    shape_of,
    side_columns,
)
from backfill_assets.gates.measured import ByKey
from backfill_assets.gates.sample import MOST_ROWS, sampling, shown, with_amount
from backfill_assets.lake.row_values import text_rows_of, typed_keys
from backfill_assets.lake.snapshot import OpenedFiles, arrow_rows, opened_files
from backfill_assets.lake.tables import missing_files
from backfill_assets.ledger.errors import Edited
from backfill_assets.ledger.findings import SampledRow
from backfill_assets.ledger.records import LOST, OTHER_COLUMNS, CandidatePartition, PartitionVersion
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest import Manifest
from backfill_assets.transforms.schemas import business_schema
from backfill_assets.workspace import Workspace

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


GROUP_BYTES, GROUP_ROWS = 64 << 20, 1_000_000
"""The size and the rows of the files that are compared at once, unless those of one partition are more.

So the memory that this process needs does not grow with the days of a run.
"""
GROUPS_AT_ONCE = 4
"""How many groups are compared beside each other, by one thread each, where there are as many processors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedFiles:
    """The files of two sides of some partitions."""

    ws: Workspace
    table: Table
    staged: Mapping[date, FileSet]  #: The candidate's by partition.
    accepted: Mapping[date, FileSet]  #: Those that readers see, by partition; partitions without any may be absent.

    @property
    def size_bytes(self) -> int:
        return sum(file_set.size_bytes for side in (self.staged, self.accepted) for file_set in side.values())

    @property
    def rows(self) -> int:
        return sum(file_set.rows for side in (self.staged, self.accepted) for file_set in side.values())

    @property
    def is_small(self) -> bool:
        """True if one machine reads both sides."""
        return self.size_bytes <= self.ws.settings.compare_in_spark_above

    def of(self, partitions: Iterable[date]) -> ComparedFiles:
        """The files of these partitions."""
        wanted = tuple(partitions)
        staged, accepted = (
            {p: side[p] for p in wanted if side.get(p, EMPTY_FILE_SET).files} for side in (self.staged, self.accepted)
        )
        return ComparedFiles(ws=self.ws, table=self.table, staged=staged, accepted=accepted)

    def frames(self) -> tuple[DataFrame, DataFrame]:
        """The rows of both sides, read by Spark as rows of the table's present schema."""
        staged = rows_of(self.ws, self.table, self.staged.values())
        return staged, rows_of(self.ws, self.table, self.accepted.values(), as_readers_see=True)


def compare_partitions(sides: ComparedFiles) -> Mapping[date, ByKey]:
    """Compares the keys of every partition that has files; of those without accepted files only the keys are read.

    Raises:
        MissingInput: A file does not exist any more or was truncated.
        UnreadableTable: A file is damaged.
    """
    shape = shape_of(sides.table, business_schema(sides.table))
    old = {p for p, files in sides.accepted.items() if files.files}
    both, alone = sides.of(old), sides.of(p for p in sides.staged if p not in old)
    keys_only = Shape(key=shape.key)
    counted = _found(alone, keys_only, comparing(keys_only, is_alone=True))
    return by_key([*_found(both, shape, comparing(shape)), *counted], shape)


def sample_partitions(sides: ComparedFiles, *, most: int = MOST_ROWS) -> tuple[SampledRow, ...]:
    """Some rows that differ in these partitions, as `sample_rows` chooses them.

    Raises:
        MissingInput: A file does not exist any more or was truncated.
        UnreadableTable: A file is damaged.
    """
    shape = shape_of(sides.table, sides.table.schema)
    compare = sampling(shape, most)
    if not shape.is_ranked:
        return shown(_found(sides, shape, compare), sides.table, most)
    staged, accepted = (with_amount(frame, sides.table) for frame in sides.frames())
    # The measure is Spark's, so Spark reads these few partitions.
    most_bytes = min(GROUP_BYTES, sides.ws.settings.compare_in_spark_above)
    spread = sides.rows > GROUP_ROWS or sides.size_bytes > most_bytes
    return shown(compare_frames(staged, accepted, compare, shape, spread=spread), sides.table, most)


def _found(sides: ComparedFiles, shape: Shape, compare: Comparing) -> Iterator[pa.Table]:
    partitions = tuple(sorted({*sides.staged, *sides.accepted}))
    if not sides.is_small:
        yield from _by_spark(sides, shape, compare)
        return
    column, lake, table = shape.key[0], sides.ws.lake, sides.table.name
    files_of = opened_sides(sides, shape)
    groups = list(groups_of([p for p in partitions if p not in files_of.elsewhere], sides.staged, sides.accepted))
    at_once = min(len(groups), GROUPS_AT_ONCE, pa.cpu_count())

    def compared(group: Sequence[date]) -> pa.Table:
        with opened(1 if at_once > 1 else None) as connection, lake.reading(table):
            for view, files in (("staged", files_of.staged), ("accepted", files_of.accepted)):
                rows = arrow_rows([files[p] for p in group if p in files], files_of.columns, column)
                connection.register(view, rows)
            return compare(connection)

    if groups:
        # The first one alone: two threads may not be inside the imports of one package.
        yield compared(groups[0])
        with ThreadPoolExecutor(at_once) as pool:
            yield from pool.map(compared, groups[1:])
    if others := sorted(files_of.elsewhere):
        yield from _by_spark(sides.of(others), shape, compare)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedSides:
    """The files of two sides, with what their footers say."""

    staged: Mapping[date, OpenedFiles]
    accepted: Mapping[date, OpenedFiles]
    columns: Mapping[str, pa.DataType]  #: The columns that are compared, of the types that this process reads.
    #: The partitions whose files have other types, or are lifted as they are read: Spark reads these.
    elsewhere: frozenset[date]


def opened_sides(sides: ComparedFiles, shape: Shape) -> OpenedSides:
    """Opens the files of two sides.

    Raises:
        UnreadableTable: A file is damaged.
    """
    lake, table = sides.ws.lake, sides.table.name
    staged, accepted = (opened_files(lake, table, side, shape.key[0]) for side in (sides.staged, sides.accepted))
    columns = _columns(shape, [*staged.values(), *accepted.values()])
    elsewhere = {
        partition
        for held, files in ((sides.staged, staged), (sides.accepted, accepted))
        for partition in held
        if not _has(files.get(partition), columns) or is_lifted(sides.table, held[partition])
    }
    return OpenedSides(staged=staged, accepted=accepted, columns=columns, elsewhere=frozenset(elsewhere))


def _columns(shape: Shape, files: Sequence[OpenedFiles]) -> Mapping[str, pa.DataType]:
    """The columns that are compared, of the types that the first files have."""
    first = next((each.columns for each in files if each.columns), {})
    wanted = [*shape.key[1:], *shape.values]
    return {name: first[name] for name in wanted if name in first} if set(wanted) <= first.keys() else {}


def _has(files: OpenedFiles | None, columns: Mapping[str, pa.DataType]) -> bool:
    """True if files have these columns, of these types."""
    if files is None:
        return True
    return files.columns is not None and columns.items() <= files.columns.items() and bool(columns)


def groups_of(
    partitions: Iterable[date],
    *sides: Mapping[date, FileSet],
    most_bytes: int | None = None,
    most_rows: int | None = None,
) -> Iterator[Sequence[date]]:
    """Partitions in order, as many together as are compared at once.

    Args:
        most_bytes: The size of their files; `GROUP_BYTES` by default.
        most_rows: The rows of these; `GROUP_ROWS` by default.
    """
    most_bytes, most_rows = most_bytes or GROUP_BYTES, most_rows or GROUP_ROWS
    group: list[date] = []
    size_bytes = rows = 0
    for partition in partitions:
        files = [side[partition] for side in sides if partition in side]
        more_bytes, more_rows = sum(each.size_bytes for each in files), sum(each.rows for each in files)
        if group and (size_bytes + more_bytes > most_bytes or rows + more_rows > most_rows):
            yield group
            group, size_bytes, rows = [], 0, 0
        group.append(partition)
        size_bytes, rows = size_bytes + more_bytes, rows + more_rows
    if group:
        yield group


def _by_spark(sides: ComparedFiles, shape: Shape, compare: Comparing) -> Sequence[pa.Table]:
    return compare_frames(*sides.frames(), compare, shape)


class WhyNotCompared(StrEnum):
    """Why the rows of a partition are not compared.

    NOT_STAGED: The run has not staged it yet. LOST: The files of the accepted rows are gone or damaged; its gates
    compared it by what was recorded of them. OTHER_COLUMNS: The accepted rows were declared with other columns.
    """

    NOT_STAGED = "NOT_STAGED"
    LOST = "LOST"
    OTHER_COLUMNS = "OTHER_COLUMNS"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedSides:
    """The files of one table that are compared."""

    #: The later files as `staged`, the earlier ones as `accepted`; without partitions whose rows are known to be equal.
    sides: ComparedFiles
    partitions: tuple[date, ...]  #: All partitions that are compared, those with equal rows too.
    not_compared: Mapping[date, WhyNotCompared]  #: By partition, why its rows are not compared.
    what: str  #: Whose rows these are, in words.
    run_id: str | None = None  #: The run, where it is one alone.

    def require_files(self, partitions: Iterable[date]) -> None:
        """Refuses partitions whose files are not there: of a candidate, the ledger does not record their removal.

        Raises:
            RowsRemoved: Which partitions they are.
        """
        ws, table, of = self.sides.ws, self.sides.table, self.sides.of(partitions)
        every = [*of.staged.values(), *of.accepted.values()]
        if missing_files(ws.lake, table.name, every):
            both = ((p, files) for side in (of.staged, of.accepted) for p, files in side.items())
            gone = {p for p, files in both if missing_files(ws.lake, table.name, [files])}
            days = Partitions.of(table.partition.grain, sorted(gone))
            raise RowsRemoved(table=table.name, partitions=days, what=self.what, run_id=self.run_id)


def sides_of_run(ws: Workspace, run_id: str, *, with_equal: bool = False) -> ComparedSides:
    """The staged rows of a run, and the rows with which they were compared.

    Args:
        with_equal: Whether partitions whose rows are known to be equal are among the sides as well.

    Raises:
        UnknownName: There is no such run.
        RowsRemoved: Retention has removed files of one of the sides.
    """
    with ws.ledger.read() as tx:
        manifest = tx.runs.get(run_id).manifest
        table = ws.domain.table(manifest.table)
        staged = tx.candidates.of_run(run_id)
        before = _compared_with(tx, table, staged)
    why: dict[date, WhyNotCompared] = {p: WhyNotCompared.NOT_STAGED for p in manifest.partitions if p not in staged}
    equal: set[date] = set()
    for partition, each in staged.items():
        checksum = each.compared_checksum or ""
        is_equal = bool(each.compared_version) and each.checksum == checksum.removeprefix(LOST)
        if is_equal:
            equal.add(partition)
        if checksum.startswith(OTHER_COLUMNS):
            why[partition] = WhyNotCompared.OTHER_COLUMNS
        elif checksum.startswith(LOST) and (with_equal or not is_equal):
            why[partition] = WhyNotCompared.LOST
    read = [p for p in staged if p not in why and (with_equal or p not in equal)]
    old = {p: before[p] for p in read if p in before}
    new = {p: staged[p].files for p in read}
    what = f"run {run_id} and of what it replaces"
    _require_there(table, old.values(), what=what, run_id=run_id)
    return ComparedSides(
        sides=ComparedFiles(ws=ws, table=table, staged=new, accepted={p: version.files for p, version in old.items()}),
        partitions=tuple(p for p in staged if p not in why),
        not_compared=why,
        what=what,
        run_id=run_id,
    )


def sides_of_runs(ws: Workspace, run_ids: Sequence[str]) -> ComparedSides:
    """The sides of runs over one table, which have no partition in common."""
    found = [sides_of_run(ws, run_id) for run_id in run_ids]
    if len(found) == 1:
        return found[0]
    sides = found[0].sides
    return ComparedSides(
        sides=replace(
            sides,
            staged={p: files for each in found for p, files in each.sides.staged.items()},
            accepted={p: files for each in found for p, files in each.sides.accepted.items()},
        ),
        partitions=tuple(sorted(p for each in found for p in each.partitions)),
        not_compared={p: why for each in found for p, why in each.not_compared.items()},
        what=f"runs of {sides.table.name} and of what they replace",
    )


def _compared_with(
    tx: ReadTransaction, table: Table, staged: Mapping[date, CandidatePartition]
) -> Mapping[date, PartitionVersion]:
    gated = [(p, each.compared_version) for p, each in staged.items() if each.compared_version]
    not_gated = [p for p, each in staged.items() if each.compared_version is None]
    return {**tx.versions.pinned(table.name, gated), **tx.versions.accepted(table.name, not_gated)}


def sides_of_states(
    ws: Workspace, table: Table, before: int, after: int, partitions: Iterable[date] | None = None
) -> ComparedSides:
    """The two states of a table that readers saw in two of its versions.

    Args:
        before: The earlier one.
        partitions: Only these.

    Raises:
        RowsRemoved: Retention has removed files of one of the sides.
    """
    wanted = None if partitions is None else set(partitions)
    with ws.ledger.read() as tx:
        seen = [
            {p: version for p, version in tx.publications.seen_in(table.name, each).items() if version}
            for each in (before, after)
        ]
        both = sorted(p for p in {*seen[0], *seen[1]} if wanted is None or p in wanted)
        moved = [p for p in both if seen[0].get(p) != seen[1].get(p)]
        old, new = (tx.versions.pinned(table.name, [(p, each[p]) for p in moved if p in each]) for each in seen)
    equal = {p for p in moved if p in old and p in new and _have_equal_rows(old[p], new[p])}
    sides = []
    for versions in (new, old):
        read = {p: version for p, version in versions.items() if p not in equal}
        _require_there(table, read.values(), what="both states")
        sides.append({p: version.files for p, version in read.items()})
    staged, accepted = sides
    found = ComparedFiles(ws=ws, table=table, staged=staged, accepted=accepted)
    return ComparedSides(sides=found, partitions=tuple(both), not_compared={}, what="both states")


def _have_equal_rows(one: PartitionVersion, other: PartitionVersion) -> bool:
    is_same_form = contract_of(one.files) == contract_of(other.files)
    return one.files.digest == other.files.digest or (is_same_form and "" != one.checksum == other.checksum)


def _require_there(table: Table, versions: Iterable[PartitionVersion], *, what: str, run_id: str | None = None) -> None:
    if gone := [each for each in versions if each.removed_at is not None]:
        days = Partitions.of(table.partition.grain, (each.partition for each in gone))
        at = f"{max(each.removed_at for each in gone if each.removed_at):%Y-%m-%d}"
        raise RowsRemoved(table=table.name, partitions=days, what=what, at=at, run_id=run_id)


SHOWN_BYTES, SHOWN_ROWS = 16 << 20, 100_000
"""The size and the rows of the files that are compared at once, unless those of one partition are more."""

BATCH_ROWS = 4_096
MEMORY, THREADS = "256MiB", 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSelection:
    """The selection of rows that a reader asks for."""

    kinds: tuple[str, ...] = DIFFERENT  #: How their keys differ.
    #: The columns that are compared and given, besides those of the key; all of them where it is empty.
    columns: tuple[str, ...] = ()
    where: str = ""  #: A condition in DuckDB's SQL that a row fulfils before or after; empty for every row.
    #: Only rows with these keys: columns of the key, with the types that they have in the files.
    keys: pa.Table | None = field(default=None, compare=False)


EVERY = RowSelection()


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


def shape_of_rows(table: Table, wanted: RowSelection = EVERY) -> Shape:
    """The shape in which rows of a table are compared for a reader."""
    key = key_columns(table)
    values = [name for name in business_schema(table).fieldNames() if name not in key]
    chosen = tuple(name for name in values if not wanted.columns or name in wanted.columns)
    return Shape(key=key, values=chosen, is_chosen=bool(wanted.where))


def compared_groups(
    compared: ComparedSides, wanted: RowSelection = EVERY, *, begin: date = date.min
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
    at_once = groups_of(partitions, sides.staged, sides.accepted, most_bytes=SHOWN_BYTES, most_rows=SHOWN_ROWS)
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
        connection.register("arriving", rows.toArrow() if sides.rows <= SHOWN_ROWS else arriving(rows))
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


def rows_asked_for(ws: Workspace, manifest: Manifest, sides: ComparedFiles) -> tuple[SampledRow, ...]:
    """The rows of the keys that a manifest pins, in the order of these; of a key without a row, the key alone.

    Cost: of keys that name their partition, the rows of these partitions; of others, those of all partitions.
    """
    if manifest.shown is None:
        return ()
    with ws.ledger.read() as tx:
        asked = tx.samples.asked_keys(manifest.run_id)
    if asked is None:
        return ()  # They were erased.
    if asked.pinned != manifest.shown:
        raise Edited(what=f"what was asked for of run {manifest.run_id}", of={"run_id": manifest.run_id})
    schema = to_arrow_schema(business_schema(sides.table), timezone="UTC")
    typed = typed_keys(asked.columns, asked.keys, schema)
    column = sides.table.partition.column
    if column in asked.columns:
        sides = sides.of(set(typed.column(column).to_pylist()) & {*sides.staged, *sides.accepted})
    found = _rows_of_keys(sides, RowSelection(kinds=KINDS, keys=typed))
    first = manifest.partitions[0]
    return tuple(
        row
        for key in text_rows_of(typed)
        for row in found.get(
            tuple(key.values()),
            [SampledRow(partition=first, key=key, before=None, after=None, is_asked=True)],
        )
    )


def _rows_of_keys(sides: ComparedFiles, wanted: RowSelection) -> Mapping[tuple[str | None, ...], Sequence[SampledRow]]:
    """The rows that have one of these keys, by the values of its columns as text."""
    assert wanted.keys is not None
    compared = ComparedSides(sides=sides, partitions=(), not_compared={}, what="this run")
    rows: dict[tuple[str | None, ...], list[SampledRow]] = {}
    for group in compared_groups(compared, wanted):
        for batch in group.rows():
            for row in _rows_of(batch, group.shape):
                rows.setdefault(tuple(row.key[name] for name in wanted.keys.column_names), []).append(row)
    return rows


def _rows_of(batch: pa.RecordBatch, shape: Shape) -> Iterator[SampledRow]:
    facts = batch.select(["kind", "on_staged", "on_accepted", "k_0"]).to_pylist()
    for row, fact in zip(text_rows_of(batch.drop_columns(["differ"])), facts, strict=True):
        before, after = (
            {name: row[f"{side}_{n}"] for n, name in enumerate(shape.values)} if fact[is_there] else None
            for side, is_there in (("before", "on_accepted"), ("after", "on_staged"))
        )
        yield SampledRow(
            partition=fact["k_0"],
            key={name: row[f"k_{n}"] for n, name in enumerate(shape.key)},
            before=before,
            # Equal values can have two texts, as zeros of either sign have.
            after=before if fact["kind"] == EQUAL else after,
            is_asked=True,
        )

"""Comparison of exactly the staged and the accepted files of partitions.

This process reads them with Arrow, a group of partitions at a time. Spark reads them instead where their rows have to
be made those of the present contract first, or where there are more bytes than one machine should read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date

import pyarrow as pa
from pyspark.sql import DataFrame

from backfill_assets.candidates.rows import is_lifted, rows_of
from backfill_assets.core.identity import EMPTY_FILE_SET, FileSet
from backfill_assets.domain import Table
from backfill_assets.gates.by_values import Shape, opened
from backfill_assets.gates.comparison import Comparing, by_key, compare_frames, comparing, shape_of
from backfill_assets.gates.measured import ByKey
from backfill_assets.gates.sample import MOST_ROWS, sampling, shown, with_amount
from backfill_assets.lake.snapshot import OpenedFiles, arrow_rows, opened_files
from backfill_assets.ledger.findings import SampledRow
from backfill_assets.transforms.schemas import business_schema
from backfill_assets.workspace import Workspace

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

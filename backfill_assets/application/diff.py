"""Diff: every row that differs between a run and what it was compared with, or between two states of a table."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from backfill_assets.application.export import spreadsheet_cell
from backfill_assets.application.output_files import replacing
from backfill_assets.application.shadow import resolve
from backfill_assets.calendar.partitions import DayRange, partitions_over
from backfill_assets.candidates.compare import (
    ComparedSides,
    RowSelection,
    WhyNotCompared,
    compared_groups,
    keys_in,
    shape_of_rows,
    sides_of_runs,
    sides_of_states,
)
from backfill_assets.candidates.errors import RowsRemoved
from backfill_assets.core.errors import Refused
from backfill_assets.core.grouped import grouped
from backfill_assets.domain import Table
from backfill_assets.gates.by_values import DIFFERENT, Shape
from backfill_assets.gates.measured import moves_in
from backfill_assets.lake.row_values import cells_of, json_rows_of, typed_rows_of
from backfill_assets.ledger.errors import NotStaged
from backfill_assets.ledger.states import RequestKind
from backfill_assets.report.changed_rows import (
    AskedPage,
    ChangedRowsPage,
    DiffDocument,
    KeyCount,
    KeyCounts,
    TableDiff,
    first_rows,
    page_of_rows,
    require_columns,
    table_diff,
)
from backfill_assets.report.errors import CannotUse, Malformed, NotDoneWith, NotOneOf
from backfill_assets.requests.errors import NothingReadersSee
from backfill_assets.transforms.schemas import business_schema
from backfill_assets.workspace import Workspace

if TYPE_CHECKING:
    import pyarrow as pa

_ROW_GROUP = 64_000
"""How many rows a row group of a written Parquet file has."""


def wanted_rows(kind: str | None = None, columns: Sequence[str] = (), where: str = "") -> RowSelection:
    """The rows that are asked for.

    Args:
        kind: `added`, `removed` or `changed`; None for all.
        columns: The columns that are compared; all of them where there is none.
        where: A condition in DuckDB's SQL that a row fulfils before or after.
    """
    kinds = tuple(each for each in DIFFERENT if kind in (None, each))
    return RowSelection(kinds=kinds, columns=tuple(dict.fromkeys(columns)), where=where)


def diff_of(
    ws: Workspace,
    name: str,
    wanted: RowSelection,
    *,
    table: str | None = None,
    to: Path | None = None,
    replaces: bool = False,
) -> DiffDocument:
    """Every row that differs between a run, or the runs of a set, and what it was compared with.

    Args:
        table: Only this table of a set.
        to: A file for all of the rows; of several tables, one beside it for each. None for the first rows of each.
        replaces: Whether a file that is there is replaced.

    Raises:
        NotStaged: None of the runs has staged anything.
        MissingInput: Retention has removed the files of one of the sides.
        Refused: The set has no such table, a table has no such column, or the file cannot be written.
    """
    runs = runs_by_table(ws, name)
    if table is not None:
        chosen = ws.domain.table(table).name
        if chosen not in runs:
            raise NotOneOf(what=f"the table of {name}", value=table[:100], known=list(runs))
        runs = {chosen: runs[chosen]}
    compared = [sides_of_runs(ws, run_ids) for run_ids in runs.values()]
    if not any(each.partitions or _has_other_reasons(each) for each in compared):
        raise NotStaged(run_id=next(iter(runs.values()))[0], lacking="nothing is staged yet")
    document = DiffDocument(of=name, kinds=wanted.kinds, columns=wanted.columns, where=wanted.where)
    return _with_tables(document, compared, wanted, to, replaces=replaces)


def runs_by_table(ws: Workspace, name: str) -> Mapping[str, Sequence[str]]:
    """The run, or the runs of the set, by table, in the order of publication.

    Raises:
        UnknownName: There is none of this id.
        NotDoneWith: It names what has no rows.
    """
    if not RequestKind.of_id(name).has_runs:
        raise NotDoneWith(name=name, deed="compared row by row")
    with ws.ledger.read() as tx:
        manifests = [run.manifest for run in tx.requests.runs(name)]
    return grouped((manifest.table, manifest.run_id) for manifest in manifests)


def changed_page(ws: Workspace, name: str, asked: AskedPage) -> ChangedRowsPage:
    """A page of the rows that differ between a run, or the runs of a set over one table, and what they were compared
    with; it reads only the partitions from which it has rows. Where nothing is staged, or retention has removed it, the
    page says so.

    Raises:
        Refused: There is no such table or column.
    """
    runs = runs_by_table(ws, name)
    table = asked.table or next(iter(runs))
    if table not in runs:
        raise NotOneOf(what=f"the table of {name}", value=table[:100], known=list(runs))
    asked = replace(asked, table=table)
    try:
        compared = sides_of_runs(ws, runs[table])
        if not (compared.partitions or _has_other_reasons(compared)):
            raise NotStaged(run_id=runs[table][0], lacking="nothing is staged yet")
        return page_of_rows(compared, asked, name=name, tables=tuple(runs), measured=_measured(ws, runs))
    except (NotStaged, RowsRemoved) as error:
        return ChangedRowsPage(of=name, asked=asked, tables=tuple(runs), problem=error)


def _measured(ws: Workspace, runs: Mapping[str, Sequence[str]]) -> Mapping[str, KeyCounts]:
    """The number of keys that differ, by table, for tables whose runs were all measured by their gates."""
    found: dict[str, KeyCounts] = {}
    with ws.ledger.read() as tx:
        for table, run_ids in runs.items():
            of_runs = [list(filter(None, map(moves_in, tx.candidates.gate_results(run_id)))) for run_id in run_ids]
            if all(of_runs):
                every = [moves for moves_of_run in of_runs for moves in moves_of_run]
                sums = {kind: sum(getattr(moves, kind) for moves in every) for kind in DIFFERENT}
                found[table] = KeyCounts(table=table, **sums)
    return found


def _has_other_reasons(compared: ComparedSides) -> bool:
    """True if some of what is not compared was staged."""
    return any(why is not WhyNotCompared.NOT_STAGED for why in compared.not_compared.values())


def diff_of_states(
    ws: Workspace,
    table: str,
    before: str,
    after: str,
    wanted: RowSelection,
    *,
    days: DayRange | None = None,
    to: Path | None = None,
    replaces: bool = False,
) -> DiffDocument:
    """Every row that differs between two states of a table that readers saw.

    Args:
        before: A run, for what readers saw once it was published; a day, for the end of it; a time in UTC; or a version
            of the Delta table, such as `v12`.
        after: The later state.
        days: Only the partitions that these days lie in.
        to: As of `diff_of`.
        replaces: As of `diff_of`.

    Raises:
        InvalidRange: One of them is no state, or in the future.
        Refused: What `diff_of` refuses; or readers saw nothing then, or two versions of the table.
    """
    declared = ws.domain.table(table)
    seen = [_state(ws, declared, as_of) for as_of in (before, after)]
    (was, first), (of, last) = seen
    if was != of:
        why = f"readers of {declared.name} saw {was} then, and {of} later"
        instead = f"two states of {was}, or of {of}"
        raise CannotUse(what=f"the states {before} and {after}", why=why, instead=instead)
    shown = ws.domain.table(of)
    partitions = partitions_over(shown.partition.grain, days) if days else None
    compared = sides_of_states(ws, shown, first, last, partitions)
    document = DiffDocument(
        of=declared.name,
        before=before,
        after=after,
        days=days,
        kinds=wanted.kinds,
        columns=wanted.columns,
        where=wanted.where,
    )
    return _with_tables(document, [compared], wanted, to, replaces=replaces)


def _state(ws: Workspace, table: Table, as_of: str) -> tuple[str, int]:
    """The table that readers were shown, and its version."""
    if not _VERSION.fullmatch(as_of):
        found = resolve(ws, table.name, as_of)
        return found.table, found.version
    with ws.ledger.read() as tx:
        last = tx.publications.last_landed(table.name)
    version = int(as_of[1:])
    if last is None or last.delta_version is None:
        raise NothingReadersSee(table=table.name, of=table.name, as_of=as_of)
    if version > last.delta_version:
        newest = f"v{last.delta_version}"
        raise CannotUse(what=as_of, why=f"the newest version of {table.name} is {newest}", instead=newest)
    return table.name, version


_VERSION = re.compile("v[0-9]{1,9}")


def _with_tables(
    document: DiffDocument, compared: Sequence[ComparedSides], wanted: RowSelection, to: Path | None, *, replaces: bool
) -> DiffDocument:
    for each in compared:
        require_columns(each.sides.table.name, shape_of_rows(each.sides.table).values, wanted.columns)
    if to is None:
        return replace(document, tables=tuple(first_rows(each, wanted) for each in compared))
    write = _WRITERS.get(to.suffix)
    if write is None:
        form = "a .parquet, .csv or .jsonl file"
        raise Malformed(what="the file", value=str(to), form=form, example="changed.parquet")
    files = [_file_of(to, each.sides.table, is_alone=len(compared) == 1) for each in compared]
    if there := [file for file in files if file.exists() and not replaces]:
        raise Refused.coded(
            "file_there",
            "the file {file} exists already.",
            then="replace it: [replace=True]",
            file=str(there[0]),
        )
    with ExitStack() as stack:
        # All files take their places when the last one is complete.
        parts = [stack.enter_context(replacing(file)) for file in files]
        written = [_written(write, each, wanted, *on) for each, *on in zip(compared, parts, files, strict=True)]
    return replace(document, tables=tuple(written))


def _file_of(to: Path, table: Table, *, is_alone: bool) -> Path:
    """The file of a table: where there are several, its name stands before the suffix."""
    return to if is_alone else to.with_name(f"{to.stem}.{table.name}{to.suffix}")


def _written(write: Write, compared: ComparedSides, wanted: RowSelection, part: Path, file: Path) -> TableDiff:
    """Writes the rows of one table."""
    table, total, rows = compared.sides.table, KeyCount(), 0
    shape = shape_of_rows(table, wanted)

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal rows
        for group in compared_groups(compared, wanted):
            for batch in group.rows():
                total.add(keys_in(batch))
                rows += batch.num_rows
                yield _named(batch, shape, schema)

    schema = columns_of_file(table, shape)
    write(part, schema, batches())
    return table_diff(compared, total.by_kind, file=str(file), file_rows=rows)


def columns_of_file(table: Table, shape: Shape) -> pa.Schema:
    """The columns of a file of changed rows: how a row differs, its key, and each other column before and after."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    types = to_arrow_schema(business_schema(table), timezone="UTC")
    own = [("kind", pa.string()), ("changed_columns", pa.list_(pa.string()))]
    key = [(name, types.field(name).type) for name in shape.key]
    sides = [(f"{side}_{name}", types.field(name).type) for name in shape.values for side in ("before", "after")]
    # A column of the key keeps its name.
    others = [(_apart(name, shape.key), kind) for name, kind in (*own, *sides)]
    return pa.schema([*others[: len(own)], *key, *others[len(own) :]])


def _apart(name: str, key: Sequence[str]) -> str:
    return _apart(f"{name}_", key) if name in key else name


def _named(batch: pa.RecordBatch, shape: Shape, schema: pa.Schema) -> pa.RecordBatch:
    """Rows of a comparison with the columns of a file."""
    sides = (f"{side}_{n}" for n, _ in enumerate(shape.values) for side in ("before", "after"))
    found = batch.select(["kind", "differ", *(f"k_{n}" for n, _ in enumerate(shape.key)), *sides])
    return typed_rows_of(found.rename_columns(schema.names), schema)


def _parquet(part: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    waiting: list[pa.RecordBatch] = []
    with pq.ParquetWriter(part, schema) as writer:
        for batch in batches:
            waiting.append(batch)
            if sum(each.num_rows for each in waiting) >= _ROW_GROUP:
                writer.write_table(pa.Table.from_batches(waiting))
                waiting.clear()
        writer.write_table(pa.Table.from_batches(waiting, schema))


def _jsonl(part: Path, _schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    with part.open("w", encoding="utf-8") as file:
        for row in (row for batch in batches for row in json_rows_of(batch)):
            file.write(f"{{{', '.join(f'{_quoted(name)}: {value}' for name, value in row.items())}}}\n")


def _csv(part: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    import pyarrow as pa

    with part.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(schema.names)
        texts = [pa.types.is_string(field.type) for field in schema]
        for batch in batches:
            writer.writerows(
                [spreadsheet_cell(cell) if is_text else cell for cell, is_text in zip(row, texts, strict=True)]
                for row in cells_of(batch)
            )


_quoted = json.JSONEncoder(ensure_ascii=False).encode

Write: TypeAlias = "Callable[[Path, pa.Schema, Iterable[pa.RecordBatch]], None]"

_WRITERS: Mapping[str, Write] = {".parquet": _parquet, ".csv": _csv, ".jsonl": _jsonl}

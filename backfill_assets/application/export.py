"""Export: the runs and publications of the ledger as a file for other programs."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from itertools import islice
from pathlib import Path

from backfill_assets.application.output_files import replacing
from backfill_assets.ledger.views import View, columns_of
from backfill_assets.report.errors import Malformed
from backfill_assets.workspace import Workspace

Rows = Iterable[Mapping[str, object]]

_BATCH = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportDocument:
    """A file of exported rows."""

    view: View  #: What was exported, `runs` or `publications`.
    file: str  #: The file.
    rows: int  #: How many rows it has, besides its header.


def export(ws: Workspace, view: View, file: Path) -> ExportDocument:
    """Writes a view of the ledger to a file, in the order in which things were begun.

    The file takes its place when it is complete; one that was there is replaced.

    Args:
        file: Its suffix names the format: `.csv`, `.jsonl` or `.parquet`.

    Raises:
        Refused: The suffix is another one, the folder does not exist, or the file cannot be written.
    """
    write = _WRITERS.get(file.suffix)
    if write is None:
        raise Malformed(what="the file", value=str(file), form="a .csv, .jsonl or .parquet file", example=f"{view}.csv")
    counted = _Counted()
    with replacing(file) as part, ws.ledger.read() as tx:
        write(part, columns_of(view), counted.through(tx.views.rows(view)))
    return ExportDocument(view=view, file=str(file), rows=counted.rows)


class _Counted:
    def __init__(self) -> None:
        self.rows = 0

    def through(self, rows: Rows) -> Iterator[Mapping[str, object]]:
        for row in rows:
            self.rows += 1
            yield row


def _csv(part: Path, columns: Mapping[str, type], rows: Rows) -> None:
    with part.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(columns))
        writer.writeheader()
        writer.writerows({name: spreadsheet_cell(value) for name, value in row.items()} for row in rows)


def _jsonl(part: Path, _columns: Mapping[str, type], rows: Rows) -> None:
    with part.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(dict(row), default=_text, ensure_ascii=False) + "\n" for row in rows)


def _parquet(part: Path, columns: Mapping[str, type], rows: Rows) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {str: pa.string(), int: pa.int64(), date: pa.date32(), datetime: pa.timestamp("us", tz="UTC")}
    schema = pa.schema([(name, types[kind]) for name, kind in columns.items()])
    waiting = iter(rows)
    with pq.ParquetWriter(part, schema) as writer:
        while batch := list(islice(waiting, _BATCH)):
            writer.write_table(pa.Table.from_pylist(batch, schema=schema))


_FORMULAS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
"""With these a spreadsheet begins a formula: the last four are their forms of full width."""


def spreadsheet_cell(value: object) -> object:
    """A value as a spreadsheet takes it: a text that it would compute has an apostrophe before it."""
    if isinstance(value, str) and value.lstrip(" ").startswith(_FORMULAS):
        return f"'{value}"
    return _text(value)


def _text(value: object) -> object:
    return value.isoformat() if isinstance(value, date) else value


_WRITERS = {".csv": _csv, ".jsonl": _jsonl, ".parquet": _parquet}

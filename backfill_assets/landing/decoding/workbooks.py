"""Workbooks: the rows of a sheet of an `.xlsx` file as texts, as the program that wrote it keeps them.

A number is its shortest text, a date or a time is in ISO form as far as the format of its cell goes, `true` and `false`
are booleans, and a formula is the value that was computed last. Empty rows are no records.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from itertools import chain, islice
from pathlib import Path
from typing import Any

from backfill_assets.capture.errors import BadFile, Fault
from backfill_assets.capture.packed import open_archive
from backfill_assets.core.errors import PackageMissing
from backfill_assets.core.python_text import literal
from backfill_assets.core.wording import visible
from backfill_assets.domain import Xlsx
from backfill_assets.landing.decoding.csv_rows import as_csv, as_unreadable

_CHUNK_BYTES, _MOST_CHARACTERS, _MOST_SHEETS, _MOST_BEFORE = 1 << 20, 60, 12, 20
_MOST_EXACT = 1 << 53  # below it a number, which is a double, is a whole one exactly
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_FORMULA, _LONGEST_TAG = re.compile(rb"<(?:\w+:)?f[ >/]"), 64
_NO_LETTERS_OF_TIMES = re.compile(r'"[^"]*"|\[[^\]]*\]|\\.|_.|;.*', re.DOTALL)
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")

Cells = tuple[Any, ...]


def decode_workbook(copy: Path, dialect: Xlsx, *, name: str, into: Path, columns: Collection[str] = ()) -> None:
    """Writes the rows of a sheet as CSV that the readers take.

    Args:
        name: What messages call the file.
        columns: Those that its header has to name.

    Raises:
        PackageMissing: The library that reads workbooks is not installed.
        UnreadableFile: It is no workbook, is damaged or encrypted, or has no such sheet.
    """
    width, rows = 0, workbook_rows(copy, dialect, name=name)
    first = list(islice(rows, _MOST_BEFORE))
    for cells in first[1:] if first and not _names(first[0], columns) else ():
        if columns and _names(cells, columns):
            row = next(cell.row for cell in cells if cell.value is not None)
            declared = literal(replace(dialect, skip=row - 1))
            why = f"has the header with its columns in row {row}: declare reads={declared}"
            raise BadFile(path=name, fault=Fault.BANNER, why=why)
    with into.open("w", encoding="utf-8", errors="surrogatepass", newline="") as written:
        for cells in chain(first, rows):
            row = [cell_text(cell) for cell in cells]
            while row and not row[-1]:
                row.pop()
            values = [*row, *[""] * (width - len(row))]
            error = next((str(cell.value) for cell in cells if cell.data_type == "e"), "")
            if not width or (len(values) == width and not error):
                width = width or len(values)
                written.write(as_csv(values))
                continue
            why = f"has the error {error}" if error else f"does not have the {width} values of the header"
            written.write(as_unreadable(f"the row {why}", as_csv(values).rstrip("\n"), width))


def workbook_rows(path: Path, reads: Xlsx, *, name: str) -> Iterator[Cells]:
    """The rows of a sheet that are not empty, from its header on."""
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise PackageMissing(what="a workbook", package="openpyxl", extra="formats") from None
    has_formulas = _has_formulas(path, name)
    with ExitStack() as opened:

        def rows(*, computed: bool) -> Iterator[Cells]:
            file = opened.enter_context(path.open("rb"))  # by its name, it would have to end in a suffix
            book = load_workbook(file, read_only=True, data_only=computed, rich_text=True, keep_links=False)
            opened.callback(book.close)
            sheet = _sheet(book, reads, name)
            sheet.reset_dimensions()  # those that a program wrote may be wrong
            found: Iterator[Cells] = sheet.iter_rows(min_row=reads.skip + 1)
            return found

        opened.enter_context(warnings.catch_warnings(action="ignore"))  # of styles, and of dates beyond Python's
        try:
            found = rows(computed=True)
            if has_formulas:
                found = _computed(found, rows(computed=False), name)
            yield from (cells for cells in found if any(cell.value not in (None, "") for cell in cells))
        except (BadFile, GeneratorExit):
            raise
        except Exception as error:  # the library reports a damaged file by many errors
            why = f"is not a complete workbook: {type(error).__name__}"
            raise BadFile(path=name, fault=Fault.DAMAGED, why=why) from error


def _has_formulas(path: Path, name: str) -> bool:
    """Whether a sheet has a formula; every byte is read for it once, so that damage is found."""
    with path.open("rb") as file:
        if file.read(len(_OLE)) == _OLE:
            raise BadFile(path=name, fault=Fault.WORKBOOK, why="is a workbook with a password, or of Excel 97 to 2003")
    found = False
    with open_archive(path) as archive:
        for each in archive.names:
            is_sheet, tail = each.startswith("xl/worksheets/"), b""
            with archive.open(each) as stream:
                while chunk := stream.read(_CHUNK_BYTES):
                    found = found or (is_sheet and _FORMULA.search(tail + chunk) is not None)
                    tail = chunk[-_LONGEST_TAG:]
    return found


def _sheet(book: Any, reads: Xlsx, name: str) -> Any:
    sheets = {each.title: each for each in book.worksheets}
    if reads.sheet in sheets or (not reads.sheet and len(sheets) == 1):
        return sheets[reads.sheet or next(iter(sheets))]
    shown = ", ".join(repr(visible(each[:_MOST_CHARACTERS])) for each in list(sheets)[:_MOST_SHEETS]) or "none"
    lacks = f"has no sheet {reads.sheet!r}" if reads.sheet else f"has {len(sheets)} sheets"
    raise BadFile(path=name, fault=Fault.DIALECT, why=f"{lacks}: declare one of {shown}, as reads=Xlsx(sheet=...)")


def _computed(rows: Iterator[Cells], written: Iterator[Cells], name: str) -> Iterator[Cells]:
    """The rows with the values of their formulas, each of which has one."""
    for cells, formulas in zip(rows, written, strict=True):
        for cell, formula in zip(cells, formulas, strict=True):
            if formula.data_type == "f" and cell.value is None and cell.data_type != "str":
                why = f"has a formula in {formula.coordinate} that was never computed"
                raise BadFile(path=name, fault=Fault.FORMULA, why=why)
        yield cells


def cell_text(cell: Any) -> str:
    """What a cell holds, as text: empty for one without a value."""
    match value := cell.value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float() if value.is_integer() and abs(value) < _MOST_EXACT:
            return str(int(value))
        case int() | float():
            return repr(value)
        case datetime() if value.time() == time() and not _has_clock(cell.number_format):
            return value.date().isoformat()
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            hours, seconds = divmod(value.total_seconds(), 3600)  # it may be longer than a day
            return f"{int(hours):02}:{int(seconds // 60):02}:{seconds % 60:06.3f}".removesuffix(".000")
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), str(value))


def _names(cells: Cells, columns: Collection[str]) -> bool:
    return {*columns} <= {cell_text(cell).strip() for cell in cells}


def _has_clock(form: str) -> bool:
    return not {"h", "s"}.isdisjoint(_NO_LETTERS_OF_TIMES.sub("", form or "").lower())

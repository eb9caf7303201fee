"""Workbooks: the rows of a sheet of an `.xlsx` file as texts, as the program that wrote it keeps them.

A number is its shortest text, a date or a time is in ISO form as far as the format of its cell goes, `true` and `false`
are booleans, and a formula is the value that was computed last. Empty rows are no records.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path

from backfill_assets.capture.errors import BadFile, Fault
from backfill_assets.capture.gzip_text import NotWhole
from backfill_assets.capture.packed import open_archive
from backfill_assets.core.errors import PackageMissing
from backfill_assets.core.python_text import literal
from backfill_assets.core.wording import visible
from backfill_assets.domain import Xlsx
from backfill_assets.landing.decoding.csv_rows import as_csv, as_unreadable
from backfill_assets.landing.decoding.workbook_cells import Cell, Cells, Workbook

_CHUNK_BYTES, _MOST_CHARACTERS, _MOST_SHEETS, _MOST_BEFORE = 1 << 20, 60, 12, 20
_MOST_EXACT = 1 << 53  # below it a number, which is a double, is a whole one exactly
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_NO_LETTERS_OF_TIMES = re.compile(r'"[^"]*"|\[[^\]]*\]|\\.|_.|;.*', re.DOTALL)
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")


def decode_workbook(copy: Path, dialect: Xlsx, *, name: str, into: Path, columns: Collection[str] = ()) -> None:
    """Writes the rows of a sheet as CSV that the readers take.

    Args:
        name: What messages call the file.
        columns: Those that its header has to name.

    Raises:
        PackageMissing: The library that reads workbooks is not installed.
        UnreadableFile: It is no workbook, is damaged or encrypted, or has no such sheet.
    """
    rows = workbook_rows(copy, dialect, name=name)
    first = list(islice(rows, _MOST_BEFORE))
    for cells in first[1:] if first and not _names(first[0], columns) else ():
        if columns and _names(cells, columns):
            number = cells[0].row
            declared = literal(replace(dialect, skip=number - 1))
            why = f"has the header with its columns in row {number}: declare reads={declared}"
            raise BadFile(path=name, fault=Fault.BANNER, why=why)
    width = 0
    with into.open("w", encoding="utf-8", errors="surrogatepass", newline="") as written:
        for cells in chain(first, rows):
            row = [cell_text(cell) for cell in cells]
            while row and not row[-1]:
                row.pop()
            values = [*row, *[""] * (width - len(row))]
            error = next((str(cell.value) for cell in cells if cell.is_error), "")
            if not width or (len(values) == width and not error):
                width = width or len(values)
                written.write(as_csv(values))
                continue
            why = f"has the error {error}" if error else f"does not have the {width} values of the header"
            written.write(as_unreadable(f"the row {why}", as_csv(values).rstrip("\n"), width))


def workbook_rows(path: Path, reads: Xlsx, *, name: str) -> Iterator[Cells]:
    """The rows of a sheet that are not empty, from its header on."""
    with _opened(path, name) as book:
        sheet = _sheet(book, reads, name)
        for cells in book.rows(sheet, skip=reads.skip):
            if any(cell.value not in (None, "") for cell in cells):
                yield cells


def sheets_of(path: Path, *, name: str) -> Sequence[str]:
    """The names of the sheets of a workbook.

    Raises:
        PackageMissing: The library that reads workbooks is not installed.
        UnreadableFile: It is no workbook, or is damaged or encrypted.
    """
    with _opened(path, name) as book:
        return list(book.sheets)


@contextmanager
def _opened(path: Path, name: str) -> Iterator[Workbook]:
    if find_spec("openpyxl") is None:
        raise PackageMissing(what="a workbook", package="openpyxl", extra="formats")
    with path.open("rb") as file:
        if file.read(len(_OLE)) == _OLE:
            is_locked = any(_ENCRYPTED in chunk for chunk in iter(lambda: file.read(_CHUNK_BYTES), b""))
            what = "with a password" if is_locked else "of Excel 97 to 2003 (.xls): save it as .xlsx"
            raise BadFile(path=name, fault=Fault.WORKBOOK, why=f"is a workbook {what}")
    with open_archive(path) as archive:
        if "content.xml" in archive.names:
            why = "is an OpenDocument spreadsheet (.ods): save it as .xlsx"
            raise BadFile(path=name, fault=Fault.WORKBOOK, why=why)
        try:
            yield Workbook(archive, name=name)
        except (BadFile, NotWhole, OSError, GeneratorExit):
            raise
        except Exception as error:  # what is not there, or not as it has to be, is found in many ways
            why = f"is not a complete workbook: {type(error).__name__}"
            raise BadFile(path=name, fault=Fault.DAMAGED, why=why) from error


def _sheet(book: Workbook, reads: Xlsx, name: str) -> str:
    sheets = list(book.sheets)
    if reads.sheet in sheets or (not reads.sheet and len(sheets) == 1):
        return reads.sheet or sheets[0]
    shown = ", ".join(repr(visible(each[:_MOST_CHARACTERS])) for each in sheets[:_MOST_SHEETS]) or "none"
    lacks = f"has no sheet {reads.sheet!r}" if reads.sheet else f"has {len(sheets)} sheets"
    raise BadFile(path=name, fault=Fault.DIALECT, why=f"{lacks}: declare one of {shown}, as reads=Xlsx(sheet=...)")


def cell_text(cell: Cell) -> str:
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
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), value)


def _names(cells: Cells, columns: Collection[str]) -> bool:
    return {*columns} <= {cell_text(cell).strip() for cell in cells}


def _has_clock(form: str) -> bool:
    return not {"h", "s"}.isdisjoint(_NO_LETTERS_OF_TIMES.sub("", form or "").lower())

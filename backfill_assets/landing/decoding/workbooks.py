"""Workbooks: the rows of a sheet of an `.xlsx` file as texts, as the program that wrote it keeps them.

A number is its shortest text, a date or a time is in ISO form as far as the format of its cell goes, `true` and `false`
are booleans, and a formula is the value that was computed last. Empty rows are no records.
"""

from __future__ import annotations

import posixpath
import re
import tempfile
from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from functools import cache
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path
from typing import IO
from xml.etree.ElementTree import Element, fromstring, iterparse

from backfill_assets.capture.errors import BadFile, Fault
from backfill_assets.capture.files.packed import Archive, NotWhole, open_archive
from backfill_assets.core.errors import PackageMissing
from backfill_assets.core.wording import literal, visible
from backfill_assets.domain import Xlsx
from backfill_assets.landing.decoding.csv_rows import as_csv, as_unreadable

# Workbook cells: the sheets of an `.xlsx` file, and the rows of one with the values of its cells.
#
# A sheet is read row by row, and the texts that cells share are kept in a file, so that memory does not grow with
# either. What a number means as a date, openpyxl says.

_RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_STRICT = "{http://purl.oclc.org/ooxml/officeDocument/relationships}id"
_DATES_OF_REGIONS = (*range(27, 37), *range(50, 59))
"""Formats of dates and times in East Asia, which workbooks do not write down."""

Value = str | bool | int | float | datetime | date | time | timedelta | None


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell: its row, from 1, what it holds, how that is shown, and whether it is an error such as `#N/A`."""

    row: int
    value: Value = None
    number_format: str = ""
    is_error: bool = False


Cells = tuple[Cell, ...]


class Workbook:
    """The parts of a workbook that its sheets need.

    Args:
        name: What messages call it.
    """

    def __init__(self, archive: Archive, *, name: str) -> None:
        self._archive, self._name = archive, name
        parts = {
            each.get("ContentType", "").partition("+")[0].rpartition(".")[2]: each.get("PartName", "").lstrip("/")
            for each in _named(self._parsed("[Content_Types].xml"), "Override")
        }
        path = parts.get("main", "xl/workbook.xml")
        if path.endswith(".bin"):
            why = "is a binary workbook (.xlsb): save it as .xlsx"
            raise BadFile(path=name, fault=Fault.WORKBOOK, why=why)
        book, targets = self._parsed(path), self._related(path, "/worksheet")
        self._texts = next(iter(self._related(path, "/sharedStrings").values()), "")
        self._formats = self._formats_of(next(iter(self._related(path, "/styles").values()), ""))
        self._is_of_1904 = any(each.get("date1904") in ("1", "true") for each in _named(book, "workbookPr"))
        keys = {each.get("name", ""): each.get(_RELATION, each.get(_STRICT, "")) for each in _named(book, "sheet")}
        self.sheets: Mapping[str, str] = {title: targets[key] for title, key in keys.items() if key in targets}
        """The part that has the cells of a sheet, by the name of the sheet."""

    def rows(self, sheet: str, *, skip: int = 0) -> Iterator[Cells]:
        """The rows of a sheet behind so many, with cells without a value where it has none."""
        from openpyxl.styles.numbers import is_date_format, is_timedelta_format
        from openpyxl.utils.datetime import CALENDAR_MAC_1904, CALENDAR_WINDOWS_1900, from_excel, from_ISO8601

        epoch = CALENDAR_MAC_1904 if self._is_of_1904 else CALENDAR_WINDOWS_1900
        is_date, is_length = cache(is_date_format), cache(is_timedelta_format)
        formats = self._formats

        def cell_of(element: Element, row: int, texts: _Texts) -> Cell:
            kind, found = element.get("t", "n"), {_tag(each): each for each in element}
            text = found["v"].text or "" if "v" in found else ""
            form = formats[int(element.get("s", "0"))] if formats else ""
            if "f" in found and not text and kind != "str":
                why = f"has a formula in {element.get('r', f'row {row}')} that was never computed"
                raise BadFile(path=self._name, fault=Fault.FORMULA, why=why)
            if kind == "inlineStr":
                return Cell(row, _text_of(found["is"]) if "is" in found else None)
            if not text:
                return Cell(row)
            if kind == "s":
                return Cell(row, texts[int(text)])
            if kind in ("b", "e", "str"):
                return Cell(row, bool(int(text)) if kind == "b" else text, is_error=kind == "e")
            if kind == "d":
                return Cell(row, from_ISO8601(text), form)
            number = float(text) if set(text) & set(".eE") else int(text)
            if not is_date(form):
                return Cell(row, number)
            try:
                return Cell(row, from_excel(number, epoch, timedelta=is_length(form)), form)
            except (OverflowError, ValueError):
                return Cell(row, "#VALUE!", is_error=True)

        with tempfile.TemporaryFile() as kept, self._archive.open(self.sheets[sheet]) as stream:
            texts, number = _Texts(kept), 0
            if self._texts:
                with self._archive.open(self._texts) as shared:
                    texts.extend(shared)
            for element in _each(stream, "row"):
                number = int(float(element.get("r", number + 1)))
                if number <= skip:
                    continue
                cells: dict[int, Cell] = {}
                for each in element:
                    column = _column(re.sub("[0-9]+", "", reference)) if (reference := each.get("r")) else len(cells)
                    cells[column] = cell_of(each, number, texts)
                yield tuple(cells.get(column) or Cell(number) for column in range(max(cells, default=-1) + 1))
            while stream.read(1 << 20):  # so that damage at its end is found
                pass

    def _related(self, path: str, kind: str) -> Mapping[str, str]:
        """By their key, the parts of a kind that a part refers to."""
        folder, name = posixpath.split(path)
        relations = posixpath.join(folder, "_rels", f"{name}.rels")
        if relations not in self._archive.names:
            return {}
        found = [
            each for each in _named(self._parsed(relations), "Relationship") if each.get("Type", "").endswith(kind)
        ]
        return {
            each.get("Id", ""): posixpath.normpath(posixpath.join(f"/{folder}", each.get("Target", ""))).lstrip("/")
            for each in found
        }

    def _parsed(self, path: str) -> Element:
        with self._archive.open(path) as stream:
            return fromstring(stream.read())  # noqa: S314 - expat bounds entities, and reads no other files

    def _formats_of(self, path: str) -> Sequence[str]:
        """The number formats of the styles of cells, in their order."""
        from openpyxl.styles.numbers import BUILTIN_FORMATS

        if not path:
            return ()
        known = {**dict.fromkeys(_DATES_OF_REGIONS, "yyyy-mm-dd"), **BUILTIN_FORMATS}
        styles = self._parsed(path)
        known |= {int(each.get("numFmtId", "0")): each.get("formatCode", "") for each in _named(styles, "numFmt")}
        used = (each for some in _named(styles, "cellXfs") for each in some if _tag(each) == "xf")
        return [known.get(int(each.get("numFmtId", "0")), "") for each in used]


class _Texts:
    """The texts that cells share, in a file, and where each begins."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._begins = file, array("Q", [0])

    def extend(self, stream: IO[bytes]) -> None:
        for element in _each(stream, "si"):
            written = self._file.write(_text_of(element).encode("utf-8", "surrogatepass"))
            self._begins.append(self._begins[-1] + written)

    def __getitem__(self, place: int) -> str:
        begin, end = self._begins[place], self._begins[place + 1]
        self._file.seek(begin)
        return self._file.read(end - begin).decode("utf-8", "surrogatepass")


def _each(stream: IO[bytes], name: str) -> Iterator[Element]:
    """The elements of a name, each of which is forgotten afterwards, with all that is beside it."""
    parents: list[Element] = []
    for event, element in iterparse(stream, ("start", "end")):  # noqa: S314 - as above
        if event == "start":
            parents.append(element)
            continue
        parents.pop()
        if _tag(element) == name:
            yield element
            parents[-1].clear()


def _text_of(element: Element) -> str:
    """The text of an item, in one piece or in several of which each has its own form; not how it is pronounced."""
    parts = [element, *(each for each in element if _tag(each) == "r")]
    return "".join(each.text or "" for part in parts for each in part if _tag(each) == "t")


def _named(element: Element, name: str) -> Iterator[Element]:
    return (each for each in element.iter() if _tag(each) == name)


def _tag(element: Element) -> str:
    return element.tag.rpartition("}")[2]


@cache
def _column(letters: str) -> int:
    """The number of a column, from 0, by its letters."""
    from openpyxl.utils import column_index_from_string

    return int(column_index_from_string(letters)) - 1


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
    """The text of a cell: empty for one without a value."""
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

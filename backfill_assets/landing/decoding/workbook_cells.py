"""Workbook cells: the sheets of an `.xlsx` file, and the rows of one with the values of its cells.

A sheet is read row by row, and the texts that cells share are kept in a file, so that memory does not grow with either.
What a number means as a date, openpyxl says.
"""

from __future__ import annotations

import posixpath
import re
import tempfile
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import cache
from typing import IO
from xml.etree.ElementTree import Element, fromstring, iterparse

from backfill_assets.capture.errors import BadFile, Fault
from backfill_assets.capture.packed import Archive

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
        """By the name of a sheet, where its cells are."""

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
        """How the styles of cells show a number, in their order."""
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

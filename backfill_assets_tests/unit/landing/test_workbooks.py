"""The rows of a workbook have the values of its cells as texts, and what has no value is refused or rejected."""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from backfill_assets.capture.errors import BadFile
from backfill_assets.capture.gzip_text import NotWhole
from backfill_assets.domain import Xlsx
from backfill_assets.landing.decoding.csv_rows import REASON_ENDS
from backfill_assets.landing.decoding.workbooks import decode_workbook


def saved(folder: Path, *rows: list[Any], change: Callable[[Any], None] | None = None) -> Path:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    if change is not None:
        change(book)
    book.save(folder / "a.xlsx")
    return folder / "a.xlsx"


def edited(path: Path, member: str, old: str, new: str) -> Path:
    """A workbook with another text in one of its members, which the library would not write."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    assert old.encode() in members[member]
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content.replace(old.encode(), new.encode()) if name == member else content)
    return path


def read(path: Path, reads: Xlsx = Xlsx(), *columns: str) -> list[list[str]]:  # noqa: B008 - it is frozen
    into = path.with_suffix(".csv")
    decode_workbook(path, reads, name="a.xlsx", into=into, columns=columns)
    with into.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file, strict=True))


SHEET = "xl/worksheets/sheet1.xml"
NOON = datetime.fromisoformat("2026-03-01T12:00")
FORMS = ("yyyy-mm-dd", 'd "th" mmm yy', "[$-409]d-mmm-yy;@", "yyyy-mm-dd h:mm")


def test_every_kind_of_value_has_its_text(tmp_path: Path) -> None:
    day, at = date(2026, 3, 1), NOON.replace(hour=10, minute=30, second=15, microsecond=250_000)
    values = {
        "text": ' a,\n"b" ',
        "1": 1,
        "123456789012345": 123456789012345,
        "3": 3.0,
        "0.1": 0.1,
        "-1.5e-07": -1.5e-7,
        "true": True,
        "false": False,
        "2026-03-01": day,
        "2026-03-01T10:30:15.250000": at,
        "2026-03-01T00:00:00": NOON.replace(hour=0),
        "10:05:00": time(10, 5),
        "36:00:00": timedelta(hours=36),
        "1900-02-28": date(1900, 2, 28),
        "_x000D_": "_x005F_x000D_",
        "\r": "_x000D_",
    }
    path = saved(tmp_path, ["Banner"], [], list(map(str, range(len(values)))), list(values.values()), [None], [1])
    header, row, last = read(path, Xlsx(skip=2))
    assert header == list(map(str, range(len(values))))
    assert row == [value if name == "text" else name for name, value in values.items()]
    assert last == ["1"] + [""] * (len(values) - 1)


def test_dates_of_the_calendar_of_1904_and_formats_decide_what_is_a_date(tmp_path: Path) -> None:
    def change(book: Any) -> None:
        book.epoch = openpyxl.utils.datetime.CALENDAR_MAC_1904
        for cell, form in zip(book.active[2], FORMS, strict=True):
            cell.number_format = form

    path = saved(tmp_path, list("abcd"), [NOON.replace(hour=0)] * 4, change=change)
    assert read(path)[1] == ["2026-03-01"] * 3 + ["2026-03-01T00:00:00"]


def test_a_formula_is_the_value_that_was_computed_and_one_that_never_was_refuses_the_file(tmp_path: Path) -> None:
    path = saved(tmp_path, ["a", "b"], [1, "=A2+1"])
    with pytest.raises(BadFile, match=r"^a\.xlsx has a formula in B2 that was never computed\.$"):
        read(path)
    computed = edited(path, SHEET, "<f>A2+1</f><v />", "<f>A2+1</f><v>2.50</v>")
    assert read(computed) == [["a", "b"], ["1", "2.5"]]
    nothing = edited(path, SHEET, '<c r="B2"><f>A2+1</f><v>2.50</v></c>', '<c r="B2" t="str"><f>A2</f><v></v></c>')
    assert read(nothing) == [["a", "b"], ["1", ""]]


def test_errors_of_cells_and_values_without_a_column_reject_their_row(tmp_path: Path) -> None:
    def change(book: Any) -> None:
        book.active["B2"].data_type = "e"

    rows = read(saved(tmp_path, ["a", "b"], [1, "#N/A"], [2, 3, 4], [5, 6], change=change))
    assert rows[0] == ["a", "b"] and rows[3] == ["5", "6"]
    assert [row[0].split(REASON_ENDS) for row in rows[1:3]] == [
        ["the row has the error #N/A", "1,#N/A"],
        ["the row does not have the 2 values of the header", "2,3,4"],
    ]


@pytest.mark.parametrize(("sheet", "said"), [("", "has 2 sheets"), ("other", "has no sheet 'other'")])
def test_the_sheet_is_named_where_there_are_several(tmp_path: Path, sheet: str, said: str) -> None:
    path = saved(tmp_path, ["a"], [1], change=lambda book: book.create_sheet("Other"))
    assert read(path, Xlsx(sheet="Sheet")) == [["a"], ["1"]]
    with pytest.raises(BadFile, match=f"{said}: declare one of 'Sheet', 'Other', as reads=Xlsx"):
        read(path, Xlsx(sheet=sheet))


def test_a_header_below_other_rows_is_found_with_what_to_declare(tmp_path: Path) -> None:
    path = saved(tmp_path, ["Sales"], [], [None, "of March"], [], ["id ", "at"], [1, 2])
    with pytest.raises(BadFile, match=r'in row 5: declare reads=Xlsx\(sheet="Sheet", skip=4\)'):
        read(path, Xlsx(sheet="Sheet"), "id", "at")
    assert read(path, Xlsx(skip=4), "id", "at") == [["id ", "at"], ["1", "2"]]
    assert read(path, Xlsx(), "id", "other")[0] == ["Sales"]


def test_what_is_no_whole_workbook_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, ["a"], [1])
    whole = path.read_bytes()
    for content in (whole[:-1], whole[: len(whole) // 2], whole + b"x"):
        path.write_bytes(content)
        with pytest.raises(NotWhole):
            read(path)
    path.write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))
    with pytest.raises(BadFile, match="is a workbook with a password, or of Excel 97 to 2003"):
        read(path)
    path.write_bytes(whole)
    edited(path, SHEET, "</row>", "")
    with pytest.raises(BadFile, match="is not a complete workbook: ParseError"):
        read(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "x")
    with pytest.raises(BadFile, match="is not a complete workbook: "):
        read(path)

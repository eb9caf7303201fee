"""The rows of a workbook have the values of its cells as texts, and what has no value is refused or rejected."""

from __future__ import annotations

import csv
import tracemalloc
import zipfile
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from backfill_assets.capture.errors import BadFile
from backfill_assets.capture.files.packed import NotWhole
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


MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
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
    path.write_bytes(whole)
    edited(path, SHEET, "</row>", "")
    with pytest.raises(BadFile, match="is not a complete workbook: ParseError"):
        read(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "x")
    with pytest.raises(BadFile, match="is not a complete workbook: "):
        read(path)


def test_a_spreadsheet_of_another_form_is_named_with_what_to_do(tmp_path: Path) -> None:
    ole = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)
    path = saved(tmp_path, ["a"], [1])
    binary = "application/vnd.ms-excel.sheet.binary.macroEnabled.main"
    xml = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"
    edited(path, "[Content_Types].xml", f'workbook.xml" ContentType="{xml}', f'workbook.bin" ContentType="{binary}')
    with pytest.raises(BadFile, match=r"is a binary workbook \(\.xlsb\): save it as \.xlsx"):
        read(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("content.xml", "<a/>")
    with pytest.raises(BadFile, match=r"is an OpenDocument spreadsheet \(\.ods\): save it as \.xlsx"):
        read(path)
    path.write_bytes(ole + "Workbook".encode("utf-16-le"))
    with pytest.raises(BadFile, match=r"is a workbook of Excel 97 to 2003 \(\.xls\): save it as \.xlsx"):
        read(path)
    path.write_bytes(ole + "EncryptedPackage".encode("utf-16-le"))
    with pytest.raises(BadFile, match="is a workbook with a password"):
        read(path)


def test_hidden_sheets_merged_cells_percents_and_rows_that_are_not_there(tmp_path: Path) -> None:
    def change(book: Any) -> None:
        sheet = book.active
        sheet.merge_cells("A5:A6")
        sheet["B5"].number_format = "0.00%"
        sheet.row_dimensions[5].height = 30
        book.create_sheet("secret").sheet_state = "hidden"

    path = saved(tmp_path, [], [], ["a", "b"], [], [1, 0.1234], [2, 3], change=change)
    with pytest.raises(BadFile, match="has 2 sheets: declare one of 'Sheet', 'secret'"):
        read(path)
    assert read(path, Xlsx(sheet="Sheet")) == [["a", "b"], ["1", "0.1234"], ["", "3"]]
    assert read(path, Xlsx(sheet="secret")) == []


def with_shared(path: Path, items: str, rows: str) -> Path:
    """A workbook whose cells share texts, as Excel writes them."""
    relation = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/sharedStrings"
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("xl/sharedStrings.xml", f'<sst xmlns="{MAIN}">{items}</sst>')
    with zipfile.ZipFile(path) as archive:
        sheet = archive.read(SHEET).decode()
    edited(path, SHEET, sheet, f'<worksheet xmlns="{MAIN}"><sheetData>{rows}</sheetData></worksheet>')
    added = f'<Relationship Id="texts" Type="{relation}" Target="sharedStrings.xml"/></Relationships>'
    return edited(path, "xl/_rels/workbook.xml.rels", "</Relationships>", added)


def test_texts_that_cells_share_in_pieces_and_with_how_they_are_pronounced(tmp_path: Path) -> None:
    items = (
        "<si><t>東京</t><rPh sb='0' eb='2'><t>トウキョウ</t></rPh></si>"
        "<si><r><t xml:space='preserve'>two </t></r><r><rPr><b/></rPr><t>parts</t></r></si><si/>"
    )
    rows = (
        "<row r='2'><c r='A2' t='s'><v>0</v></c><c r='C2' t='inlineStr'><is><t>b</t></is></c></row>"
        "<row><c t='s'><v>1</v></c><c t='s'><v>2</v></c><c t='b'><v>1</v></c></row>"
    )
    assert read(with_shared(saved(tmp_path, ["a"]), items, rows)) == [["東京", "", "b"], ["two parts", "", "true"]]


@pytest.mark.parametrize(("number", "text"), [("45352", "2024-03-01"), ("45352.5", "2024-03-01T12:00:00")])
def test_a_date_of_a_format_that_its_region_alone_knows(tmp_path: Path, number: str, text: str) -> None:
    path = saved(tmp_path, ["a"], [NOON])
    edited(path, "xl/styles.xml", 'numFmtId="164"', 'numFmtId="31"')
    edited(path, "xl/styles.xml", "<numFmt ", "<other ")
    with zipfile.ZipFile(path) as archive:
        written = archive.read(SHEET).decode().split("<v>")[-1].partition("</v>")[0]
    assert read(edited(path, SHEET, f"<v>{written}</v>", f"<v>{number}</v>")) == [["a"], [text]]


@pytest.mark.long
def test_memory_does_not_grow_with_a_sheet_and_its_texts(tmp_path: Path) -> None:
    def peak(rows: int) -> int:
        items = "".join(f"<si><t>a text of {number}</t></si>" for number in range(rows))
        cells = "".join(f"<row ht='30'><c t='s'><v>{number}</v></c><c><v>1</v></c></row>" for number in range(rows))
        path = with_shared(saved(tmp_path, ["a"]), items, cells)
        del items, cells
        tracemalloc.start()
        try:
            decode_workbook(path, Xlsx(), name="a.xlsx", into=tmp_path / "decoded")
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    # Where each text begins is kept.
    assert peak(90_000) < peak(30_000) + 60_000 * 8 * 2

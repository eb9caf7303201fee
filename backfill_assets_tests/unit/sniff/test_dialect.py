"""What is between values, around them and before them, and what a text is encoded in."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from backfill_assets.sniff.dialect import dialect_of, table_of
from backfill_assets.sniff.look import documents_of
from backfill_assets.sniff.sample import encoding_of
from backfill_assets.sniff.texts import numbers_of

ROWS = [("id", "at", "note", "x")] + [
    (str(number), f"2026-03-{number:02}", "plain" if number % 3 else "say; it, so", f"{number}.5")
    for number in range(1, 29)
]


def written(rows: Sequence[Sequence[str]], delimiter: str, *, quoting: int = csv.QUOTE_MINIMAL, end: str = "\n") -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator=end, quoting=quoting).writerows(rows)  # type: ignore[arg-type]
    return text.getvalue()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|", "^", "~"])
@pytest.mark.parametrize("banner", [0, 1, 4])
def test_a_dialect_gives_the_rows_that_were_written(delimiter: str, quoting: int, end: str, banner: int) -> None:
    before = "".join(f"A title, of a report{end}" for _ in range(banner))
    text = before + written(ROWS, delimiter, quoting=quoting, end=end)
    found = dialect_of(text)
    assert (found.delimiter, found.quote, found.skip, found.header) == (delimiter, '"', banner, True)
    table = table_of(text, found, is_whole=True)
    assert (table.header, [*table.rows]) == (ROWS[0], ROWS[1:])


cells = st.one_of(
    st.integers(-999, 10**6).map(str),
    st.decimals(-99, 99, places=2).map(str),
    st.text("abcdefgh ,;\"'é", min_size=1, max_size=12).map(lambda text: f"w{text}w"),
)


@given(st.sampled_from(",;\t|"), st.lists(st.tuples(cells, cells, cells), min_size=5, max_size=30))
def test_whatever_is_in_the_values_they_are_read_as_they_were_written(
    delimiter: str, rows: list[tuple[str, str, str]]
) -> None:
    header = ("first_name", "second_name", "third_name")
    text = written([header, *rows], delimiter, quoting=csv.QUOTE_ALL)
    found = dialect_of(text)
    assume(found.header)
    assert found.delimiter == delimiter
    assert [*table_of(text, found, is_whole=True).rows] == rows


def test_rows_that_begin_like_a_comment_are_none() -> None:
    text = "# of a station\n# in Celsius\n" + written(ROWS, ",") + "# end\n"
    found = dialect_of(text)
    assert (found.comment, found.skip) == ("#", 0)
    assert len(table_of(text, found, is_whole=True).rows) == len(ROWS) - 1


NULL = r"\N"


def dump(one: str, other: str, delimiter: str = "\t", quote: str = "") -> str:
    """Rows as programs of databases write them, without a header."""
    text = ""
    for number in range(1, 29):
        values = [str(number), f"2026-03-{number:02}", one if number % 3 else other, str(number * 1.5)]
        cells = [f"{quote}{value}{quote}" for value in values]
        text += delimiter.join([*cells[:3], cells[3] if number % 5 else NULL]) + "\n"
    return text


@pytest.mark.parametrize(
    ("text", "dialect", "values"),
    [
        (dump(r"a\tb", r"x\nC:\\d") + "\\.\n", ("\t", "", "\\", False), ["a\tb", "x\nC:\\d"]),
        (dump("a\\\tb", 'x\\\n"y"'), ("\t", "", "\\", False), ["a\tb", 'x\n"y"']),
        (dump("a,b", r"x\n\"y", ",", '"'), (",", '"', "\\", True), ["a,b", r'x\n"y']),
        (dump("a,b", r"x\"y", ",", '"'), (",", '"', "\\", False), ["a,b", 'x"y']),
        (dump(r"C:\new\Users", "x"), ("\t", '"', "", False), [r"C:\new\Users", "x"]),
    ],
)
def test_a_dump_of_a_database_is_known_by_what_its_escapes_are_before(
    text: str, dialect: tuple[str, str, str, bool], values: list[str]
) -> None:
    found = dialect_of(text)
    assert (found.delimiter, found.quote, found.escape, found.letters) == dialect
    rows = table_of(text, found, is_whole=True).rows
    assert [rows[0][2], rows[2][2]] == values


@pytest.mark.parametrize(
    ("columns", "decimal", "thousands"),
    [
        ([["1.5", "2"], ["7"]], ".", ""),
        ([["1,5", "2,25"], ["7"]], ",", ""),
        ([["1.234,5", "2,25"], ["7"]], ",", "."),
        ([["1,234", "12,345,678"], ["0.5"]], ".", ","),
        ([["1 234,5"], ["0,5"]], ",", " "),
        ([["1'234.50"], ["0.5"]], ".", "'"),
        ([["a,b"], ["0.5"]], ".", ""),
        ([["1,5"], ["0.5"]], ".", ""),
    ],
)
def test_numbers_are_read_as_most_columns_have_them(columns: list[list[str]], decimal: str, thousands: str) -> None:
    found, _ = numbers_of(columns)
    assert (found.decimal, found.thousands) == (decimal, thousands)


@pytest.mark.parametrize(
    ("text", "encoding", "expected"),
    [
        ("id,größe\n1,ü\n", "utf-8", "utf-8"),
        ("id,größe\n1,ü\n", "utf-8-sig", "utf-8"),
        ("id,größe\n1,ü\n", "utf-16", "utf-16"),
        ("id,size\n1,2\n" * 9, "utf-16-le", "utf-16-le"),
        ("id,size\n1,2\n" * 9, "utf-16-be", "utf-16-be"),
        ("Stadt;Größe\nMünchen;1\nKöln;2\n", "latin-1", "latin-1"),
        ("prix\n1 €\ncafé\n", "cp1252", "cp1252"),
        ("tag,ware\n1,'Crème, 1 l',€\n2,Brot,€\n", "cp1252", "cp1252"),
        ("Дата;Город\n01.02.2023;Москва\n02.02.2023;Казань\n" * 5, "cp1251", "cp1251"),
    ],
)
def test_an_encoding_gives_the_text_that_was_written(text: str, encoding: str, expected: str) -> None:
    found = encoding_of(text.encode(encoding))
    assert found.name == expected
    assert text.encode(encoding).decode(found.name).removeprefix("\ufeff") == text
    assert (found.doubt is None) == found.name.startswith("utf")


@pytest.mark.parametrize(
    ("text", "reads", "records"),
    [
        ('{"a":1}\n{"a":2}\n', "None", 2),
        ('[{"a":1},{"a":2}]', "Json(records='', array=True)", 2),
        ('[\n {"a":\n 1},\n {"a":2}', "Json(records='', array=True)", 2),
        ('{"type":"F","features":[{"a":1},{"a":2}]}', "Json(records='features', array=False)", 2),
        ('{"m":{"x":[1]},"data":{"items":[{"a":1},{"a":2},{"a', "Json(records='data.items', array=False)", 2),
        ('{"a":1}{"a":2}{"a":3}', "Json(records='', array=False)", 3),
        ('{\n"a":1}\n{\n"a":2}\n', "Json(records='', array=False)", 2),
        ('{"a":1}', "None", 1),
    ],
)
def test_records_of_json_are_found_where_they_are(text: str, reads: str, records: int) -> None:
    found = documents_of(text, is_whole=True)
    assert found is not None
    assert (repr(found.reads), len(found.records)) == (reads, records)


@pytest.mark.parametrize(
    ("values", "quote", "misquoted"),
    [
        (['"Giliap" (1975)', "plain", '"Best"'], "", 0),
        (['"Open'], "", 0),
        (['5" pipe', "plain"], '"', 0),
        (['"plain"', '"a ""b"""', '"c\td"'], '"', 0),
        (['"a\td" e', '"b\tc"'], '"', 1),
    ],
)
def test_quotes_are_letters_where_no_row_needs_them_and_some_break_them(
    values: list[str], quote: str, misquoted: int
) -> None:
    rows = [f"{number}\t{values[number] if number < len(values) else 'x'}\t2020" for number in range(40)]
    found = dialect_of("\n".join(["id\tname\tyear", *rows]) + "\n")
    assert (found.delimiter, found.quote, found.misquoted) == ("\t", quote, misquoted)


def test_a_quote_behind_the_first_lines_is_found() -> None:
    rows = [f"{number}\tname\t2020" for number in range(2_000)]
    rows[1_900] = '1900\t"Giliap" (1975)\t2020'
    assert dialect_of("\n".join(["id\tname\tyear", *rows]) + "\n").quote == ""
    assert dialect_of("\n".join(["id\tname\tyear", *rows[:500]]) + "\n", ["\n".join(rows[1_500:])]).quote == ""


@pytest.mark.parametrize(
    ("text", "is_mixed"),
    [
        ("id,day\n1,2\r\n3,4\r\n", True),
        ("id,day\r\n1,2\r\n3,4\n", True),
        ('id,note\r\n1,"a\nb"\r\n', False),
        ("id,day\r1,2\r", False),
        ("id,day\n1,2", False),
    ],
)
def test_ends_of_rows_that_differ_are_seen_and_those_within_values_are_not(text: str, is_mixed: bool) -> None:
    assert dialect_of(text).is_mixed == is_mixed


@pytest.mark.parametrize(
    ("head", "names"),
    [
        ("# of a station\n# STN,YYYYMMDD,   HH\n", ("STN", "YYYYMMDD", "HH")),
        ("#Version: 1.0\n#Fields: s-id date cs-hour\n", ("s-id", "date", "cs-hour")),
        ("# of a station\n", ()),
        ("", ()),
    ],
)
def test_a_comment_names_the_columns_where_no_row_does(head: str, names: tuple[str, ...]) -> None:
    rows = "".join(f"260,202301{number:02},{number}\n" for number in range(1, 20))
    found = dialect_of(head + rows)
    assert (found.header, found.names) == (False, names)


def test_titles_of_a_sheet_are_no_header_though_they_have_all_delimiters() -> None:
    titles = "Sales of the year,,,\n,,,\nby region,,,\n"
    rows = "".join(f"{number},x,y,2020-01-{number:02}\n" for number in range(1, 20))
    assert dialect_of(f"{titles}id,a,b,day\n{rows}").skip == 3
    assert dialect_of(f"id,,,\n{rows}").skip == 0


def test_years_in_a_row_are_names_of_columns() -> None:
    rows = "".join(f"Land {number},{number},{number + 2},{number + 3}\n" for number in range(20))
    assert dialect_of(f"Country,2001,2002,2003\n{rows}").header
    assert not dialect_of(f"Country,2003,2001,2002\n{rows}").header


@pytest.mark.parametrize(
    ("values", "delimiter", "decimal", "is_sure"),
    [
        (["1,125", "9,250"], ";", ",", False),
        (["1,125", "9,250"], ",", ".", False),
        (["0,125", "9,250"], ",", ",", True),
        (["1,125", "9,2"], ",", ",", True),
        (["1,125,000", "9,250"], ";", ".", True),
        (["1,125.5", "9,250"], ";", ".", True),
    ],
)
def test_a_comma_that_could_be_either_is_a_decimal_one_where_no_comma_is_between_values(
    values: list[str], delimiter: str, decimal: str, is_sure: bool
) -> None:
    found, other = numbers_of([values], delimiter)
    assert (found.decimal, other is None) == (decimal, is_sure)

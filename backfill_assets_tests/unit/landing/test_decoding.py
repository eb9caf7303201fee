"""What the bytes of a file in a declared dialect become, and what is refused with the declaration that it needs."""

from __future__ import annotations

import csv
import gzip
import random
import re
import tracemalloc
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from backfill_assets.capture.errors import BadFile
from backfill_assets.capture.landed_files import FileKind, Format
from backfill_assets.domain import Csv
from backfill_assets.landing.decoding.csv_rows import REASON_ENDS, decode_csv
from backfill_assets.landing.likely_forms import other_quotes

BEHIND = "the row has text behind a closing quote"
ESCAPE = "the row has the escape {}, which programs read differently, or which is cut"
DUMP = Csv(delimiter="\t", quote="", escape="\\", header=False)
WIDTH = "the row does not have the {} values of the header"


def decoded(folder: Path, content: bytes, dialect: Csv, *, columns: tuple[str, ...] = ()) -> list[list[str]]:
    """The rows of a file as the readers get them; of one that cannot be read the reason and its text."""
    is_packed = content.startswith(b"\x1f\x8b")
    kind = FileKind(format=Format.CSV, compression="gzip" if is_packed else "")
    copy, into = folder / "landed", folder / "decoded"
    copy.write_bytes(content)
    decode_csv(copy, kind, dialect, name="a.csv", into=into, columns=columns)
    with into.open(encoding="utf-8", newline="") as text:
        rows = list(csv.reader(text, strict=True))
    return [row[0].split(REASON_ENDS) if REASON_ENDS in row[0] else row for row in rows]


BACKSLASH = r"""id,v
1,"say \"hi\", ok"
2,"C:\\x\n"
3,C:\\x
4,"a ""b"" \"c\""
5,"ends in a \\"
"""


@pytest.mark.parametrize(
    ("dialect", "text", "rows"),
    [
        (Csv(delimiter=";"), "id;x\n1;1,5\n2;'a\n", [["id", "x"], ["1", "1,5"], ["2", "'a"]]),
        (Csv(delimiter=";"), 'sep=;\r\nid;x\r\n1;"a;b"\r\n', [["id", "x"], ["1", "a;b"]]),
        (Csv(delimiter="\t"), '"sep=\t"\nid\tx\n1\t5\n', [["id", "x"], ["1", "5"]]),
        (Csv(delimiter="\t", quote=""), 'id\tx\n1\t"a\n2\t6" b\n', [["id", "x"], ["1", '"a'], ["2", '6" b']]),
        (Csv(delimiter="||"), 'id||x\n1||2|3\n2||"a||""b"""\n', [["id", "x"], ["1", "2|3"], ["2", 'a||"b"']]),
        (Csv(quote="'"), "id,x\n1,'a,''b'\n2,\"c\n", [["id", "x"], ["1", "a,'b"], ["2", '"c']]),
        (
            Csv(escape="\\"),
            BACKSLASH,
            [
                ["id", "v"],
                ["1", 'say "hi", ok'],
                ["2", "C:\\x\\n"],
                ["3", "C:\\\\x"],
                ["4", 'a "b" "c"'],
                ["5", "ends in a \\"],
            ],
        ),
        (Csv(escape="\\"), 'id,v\n1,"a\n\\"b"\n', [["id", "v"], ["1", 'a\n"b']]),
        (
            Csv(escape="\\", letters=True),
            'id,v\n1,"say \\"hi\\"\\n, \\\nC:\\\\x"\n2,\\N\n',
            [["id", "v"], ["1", 'say "hi"\n, \nC:\\x'], ["2", "\\N"]],
        ),
        (
            DUMP,
            "1\ta\\tb\\\\n\t\\N\n2\t\\\\N\tx\\Ny\n3\ta\\\tb\\\r\nc\t\\v\\Z\\'\n\\.\n",
            [["0", "1", "2"], ["1", "a\tb\\n", ""], ["2", "\\N", "xNy"], ["3", "a\tb\r\nc", "\v\x1a'"]],
        ),
        (
            DUMP,
            "1\ta\n2\t\\x41\n3\t\\07\n4\t\\\\\n5\t\\",
            [
                ["0", "1"],
                ["1", "a"],
                [ESCAPE.format("\\x"), "2\t\\x41"],
                [ESCAPE.format("\\0"), "3\t\\07"],
                ["4", "\\"],
                [ESCAPE.format("\\"), "5\t\\"],
            ],
        ),
        (Csv(skip=2), 'Report of "May\n\nid,x\n1,2\n', [["id", "x"], ["1", "2"]]),
        (Csv(delimiter=";", skip=2), "sep=;\nReport\nid;x\n1;2\n", [["id", "x"], ["1", "2"]]),
        (Csv(comment="#"), '#a\nid,x\n#"\n1,"b\n#c"\n2,#d\n', [["id", "x"], ["1", "b\n#c"], ["2", "#d"]]),
        (
            Csv(trim=True),
            'id, x \n 1 , 26 \n2,\t" a " \n3 , "b ""c"" "\n \n4,"d\n e " \n',
            [["id", "x"], ["1", "26"], ["2", " a "], ["3", 'b "c" '], ["4", "d\n e "]],
        ),
        (Csv(trim=True), 'id\n""\n \n" "\n1\n', [["id"], [""], [" "], ["1"]]),
        (Csv(delimiter="\t", trim=True), "id\tx\n1 \t\n", [["id", "x"], ["1", ""]]),
        (Csv(), "id,x\n1, 26 \n", [["id", "x"], ["1", " 26 "]]),
        (Csv(header=False), "1,a\n2,b\n3\n", [["0", "1"], ["1", "a"], ["2", "b"], [WIDTH.format(2), "3"]]),
        (Csv(), "id,x\r1,a\r\n2,b\n3,c", [["id", "x"], ["1", "a"], ["2", "b"], ["3", "c"]]),
        (Csv(), "id,x\r\r1,a\r", [["id", "x"], ["1", "a"]]),
        (Csv(), 'id,"x\ry"\n1,2\n', [["id", "x\ry"], ["1", "2"]]),
        (Csv(), 'id,x\n1,"a\rb\r\nc"\n', [["id", "x"], ["1", "a\rb\r\nc"]]),
        (Csv(), "id,x,\n1,a,\n2,b\n", [["id", "x"], ["1", "a"], [WIDTH.format(2), "2,b"]]),
        (Csv(), "id,x\n1,a,\n2,b,c\n3,d,\n", [["id", "x"], ["1", "a"], [WIDTH.format(2), "2,b,c"], ["3", "d"]]),
        (Csv(), "id,x,\n1,a\n2,b\n", [["id", "x"], ["1", "a"], ["2", "b"]]),
        (Csv(), "id,x,\n1,a,c\n", [["id", "x", ""], ["1", "a", "c"]]),
        (Csv(), "id,x\n1,a\nid,x\n2,b\n", [["id", "x"], ["1", "a"], ["2", "b"]]),
        (Csv(), "id\n1\n2,3\n", [["id"], ["1"], [WIDTH.format(1), "2,3"]]),
        (Csv(), "id,x\n1,a\x00b\n", [["id", "x"], ["1", "a\x00b"]]),
        (
            Csv(),
            'id,x\n1,"a"b\n2,c\n',
            [["id", "x"], [f"{BEHIND}: {other_quotes(Csv())}", '1,"a"b'], ["2", "c"]],
        ),
        (Csv(), "id,x\n1,a,b\n", [["id", "x"], [WIDTH.format(2), "1,a,b"]]),
        (Csv(), 'id,x\n1,a,"b,""c"\n', [["id", "x"], [WIDTH.format(2), '1,a,"b,""c"']]),
        (Csv(), "", []),
        (Csv(), "id,x\n", [["id", "x"]]),
    ],
)
def test_rows_of_a_dialect_are_what_their_source_wrote(
    tmp_path: Path, dialect: Csv, text: str, rows: list[list[str]]
) -> None:
    assert decoded(tmp_path, text.encode(), dialect) == rows
    assert decoded(tmp_path, b"\xef\xbb\xbf" + text.encode(), dialect) == rows
    assert decoded(tmp_path, gzip.compress(text.encode()), dialect) == rows


def test_lines_before_a_header_are_counted_by_their_line_ends_alone(tmp_path: Path) -> None:
    content = b"Report\x85\x0bof May\nid,x\n1,2\n"
    for dialect in (Csv(skip=1, encoding="latin-1"), Csv(skip=1, encoding="cp1252")):
        assert decoded(tmp_path, content, dialect, columns=("id",)) == [["id", "x"], ["1", "2"]]


@pytest.mark.parametrize(
    ("encoding", "word"),
    [
        ("latin-1", "Zürich"),
        ("cp1252", "5 €"),
        ("utf-16", "Łódź 𝄞"),
        ("utf-16-le", "\ufeffŁódź"),
        ("utf-16-be", "Łódź"),
        ("utf-32", "Łódź"),
        ("shift_jis", "表ソ能"),
        ("cp932", "①②"),
        ("gb18030", "汉字𝄞"),
        ("big5", "許功蓋"),
        ("euc_kr", "한국"),
        ("cp437", "café"),
        ("mac_roman", "café"),
        ("koi8_r", "Москва"),
        ("cp037", "EBCDIC"),
        ("utf-8", "ü"),
    ],
)
def test_characters_of_an_encoding_are_those_that_were_written(tmp_path: Path, encoding: str, word: str) -> None:
    plain = word.removeprefix("\ufeff")
    text = f'id;x\r\n1;{plain}\r\n2;"a;\n{plain}"\r\n'
    mark = "\ufeff" if word != plain else ""
    rows = [["id", "x"], ["1", plain], ["2", f"a;\n{plain}"]]
    assert decoded(tmp_path, (mark + text).encode(encoding), Csv(delimiter=";", encoding=encoding)) == rows


@pytest.mark.parametrize(
    ("encoding", "bad"),
    [
        ("utf-8", b"\xff"),
        ("cp1252", b"\x81"),
        ("shift_jis", b"\x81\xff"),
        ("ascii", b"\xfc"),
        ("utf-16-le", b"\x00\xd8"),
    ],
)
def test_a_row_with_bytes_that_are_no_character_is_rejected_alone(tmp_path: Path, encoding: str, bad: bytes) -> None:
    content = "id,x\n1,a\n2,".encode(encoding) + bad + "\n3,c\n".encode(encoding)
    rows = decoded(tmp_path, content, Csv(encoding=encoding))
    assert [rows[0], rows[1], rows[3]] == [["id", "x"], ["1", "a"], ["3", "c"]]
    assert rows[2][0] == f"the row is not valid {encoding}"
    assert re.fullmatch("2,\ufffd+", rows[2][1])


LATIN = "id,x\n1,Zürich\n".encode("latin-1")


@pytest.mark.parametrize(
    ("content", "dialect", "said"),
    [
        (b"id;at\n1;2\n", Csv(encoding="latin-1"), 'declare reads=Csv(delimiter=";", encoding="latin-1")'),
        (
            b"sep=;\nid;at\n1;2\n",
            Csv(),
            'has semicolons between its values: declare reads=Csv(delimiter=";")',
        ),
        (
            b"a\nb\nid;at\n1;2\n",
            Csv(delimiter=";"),
            'has 2 lines before the header with its columns: declare reads=Csv(delimiter=";", skip=2)',
        ),
        (b"a\nid;at\n1;2\n", Csv(), 'has semicolons between its values: declare reads=Csv(delimiter=";", skip=1)'),
        (b"id,at\n1,2\n", Csv(skip=1), "has no line before the header with its columns: declare reads=Csv()"),
        (b"x\n", Csv(skip=5), "has no header behind the first 5 lines"),
        (
            LATIN,
            Csv(delimiter=";"),
            'line 2 has the byte 0xFC, which is \'ü\' in Latin-1: declare reads=Csv(delimiter=";", encoding="latin-1")',
        ),
        ("id,at\n".encode("utf-16"), Csv(skip=1), 'is UTF-16 text: declare reads=Csv(encoding="utf-16", skip=1)'),
        (b'id,x\n1,"a\n2,b\n', Csv(), "a quote that is never closed, in the row that begins in line 2"),
        (b'id,x\n1,"a\nb"c\n2,b\n', Csv(), "in line 3 text behind a closing quote, in the row that begins in line 2"),
        (
            b"id,x\n",
            Csv(encoding="utf-16"),
            "is not utf-16 text (UTF-16 stream does not start with BOM): declare the encoding that it has",
        ),
        (b"1\ta\n\\.\n\nmore\n", DUMP, r"has more behind the end of its rows, which line 2 is (\.)"),
        (b"1\t" + b"a\\\n" * (3 << 20), DUMP, "a row of more than 8 MiB that begins before line"),
        (b"<html><body>", Csv(), "is an HTML page"),
        (b"PK\x03\x04", Csv(), "holds zip"),
        (b"id,x\n1," + b"a" * (9 << 20), Csv(), "a line of more than 8 MiB (line 2)"),
        (b'id,x\n1,"' + b"a\n" * (5 << 20) + b'"', Csv(), "a row of more than 8 MiB that begins before line"),
        (b"id," + b"," * 20_001 + b"\n", Csv(), "a row of 20,003 values"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_declaration_that_would(
    tmp_path: Path, content: bytes, dialect: Csv, said: str
) -> None:
    with pytest.raises(BadFile, match=re.escape(said)):
        decoded(tmp_path, content, dialect, columns=("id", "at"))


def written(value: str, dialect: Csv, chance: random.Random) -> str:
    """A value as some program writes it in a dialect, which need not be as short as possible."""
    needs = [*dialect.delimiter, dialect.quote, "\n", "\r", *(["#"] if dialect.comment else [])]
    is_blank = dialect.trim and value != value.strip(" \t")
    if dialect.escape and not dialect.quote:
        named = {"\r": "r", **({"\n": "n", "\t": "t"} if chance.random() < 0.5 else {})}
        escaped = [*needs, dialect.escape, *([" ", "\t"] if dialect.trim else [])]
        return "".join(dialect.escape + named.get(each, each) if each in escaped else each for each in value)
    if not dialect.quote or not (is_blank or any(each in value for each in needs) or chance.random() < 0.3):
        return value + " " * (dialect.trim and chance.randrange(3))
    escape = dialect.escape or dialect.quote
    inside = value.replace(escape, 2 * escape) if dialect.escape else value
    inside = inside.replace(dialect.quote, escape + dialect.quote)
    blanks = " " * (dialect.trim and chance.randrange(3))
    return f"{blanks}{dialect.quote}{inside}{dialect.quote}{blanks}"


@pytest.mark.parametrize("seed", range(8))
def test_rows_of_any_dialect_come_back_as_they_were_written(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    for delimiter, quote, escape, trim, comment in product(
        (";", "\t", "|", "::"), ('"', "'", ""), ("", "\\"), (False, True), ("", "#")
    ):
        dialect = Csv(delimiter=delimiter, quote=quote, escape=escape, trim=trim, comment=comment)
        letters = ["a", "ü", "5", " ", ":", ".", "\\", "'", '"', ",", ";", "|", "\t", "#", "\n", "\r\n", "\r", ""]
        if not quote and not escape:
            letters = [each for each in letters if each not in ("\n", "\r", "\r\n", " ", "\t", *delimiter)]
        rows = [
            [f"r{number}", *("".join(chance.choices(letters, k=chance.randrange(5))) for _ in range(3))]
            for number in range(40)
        ]
        end = chance.choice(["\n", "\r\n", "\r"])
        lines = [delimiter.join(written(value, dialect, chance) for value in row) + end for row in rows]
        if comment:
            lines.insert(chance.randrange(40), f"# a remark with {quote}{delimiter}{end}")
        content = f"k{delimiter}a{delimiter}b{delimiter}c{end}{''.join(lines)}".encode("utf-16")
        found = decoded(tmp_path, content, replace(dialect, encoding="utf-16"))
        assert found == [["k", "a", "b", "c"], *rows], dialect


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    def peak(rows: int) -> int:
        content = b"id;at;x\n" + b'1;2026-03-01T00:00:00Z;"1,5 ""a"""\n' * rows
        tracemalloc.start()
        try:
            copy = tmp_path / "landed"
            copy.write_bytes(content)
            del content
            tracemalloc.reset_peak()
            kind = FileKind(format=Format.CSV, compression="")
            decode_csv(copy, kind, Csv(delimiter=";"), name="a.csv", into=tmp_path / "decoded")
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(60_000) < peak(6_000) + 100_000

"""Which rows has a CSV in a dialect, and which of them cannot be read? Said character by character, by other code.

`docs/landing.md` in plain Python: nothing here uses a reader of CSV. The files are made up with a seed: values with
whatever a dialect has a meaning for, written in several ways, among lines that are no records and rows that are broken.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from backfill_assets.domain import Csv
from backfill_assets_tests.faults.landing_oracle import FileRefused

BLANKS = " \t"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A record of a file: its values, none where it cannot be read, and its text."""

    values: tuple[str, ...] | None
    text: str


def rows_of(content: bytes, dialect: Csv) -> list[Row]:
    """The header and the records of a file, in their order.

    Raises:
        FileRefused: It cannot be told where a row ends.
    """
    text = content.decode(dialect.encoding, "replace").removeprefix("\ufeff")
    place = 0
    for _ in range(max(dialect.skip, 1 if text.lower().startswith("sep=") else 0)):
        place = _line_end(text, place)[1]
    found = list(_rows(text, place, dialect))
    if not found:
        return []
    header = found[0].values
    if header is None:
        raise FileRefused("first row")
    if not dialect.header:
        names = tuple(str(number) for number in range(len(header)))
        return [Row(values=names, text=""), *(_of_width(each, len(names), ends=False) for each in found)]
    below = [each for each in found[1:] if each.values != header]
    first = found[1].values if len(found) > 1 else None
    names, ends = header, False
    if first is not None and len(header) > 1 and header[-1] == "" and len(first) < len(header):
        names = header[:-1]
    elif len(header) > 1 and header[-1] == "" and (first is None or first[-1] == "" or len(first) > len(header)):
        names, ends = header[:-1], first is None or len(first) == len(header)
    elif first is not None and len(first) == len(header) + 1 and first[-1] == "":
        ends = True
    return [Row(values=names, text=""), *(_of_width(each, len(names), ends=ends) for each in below)]


def _of_width(row: Row, width: int, *, ends: bool) -> Row:
    values = row.values
    if values is not None and ends:
        values = values[:-1] if len(values) == width + 1 and values[-1] == "" else None
    return Row(values=values if values is not None and len(values) == width else None, text=row.text)


def _line_end(text: str, place: int) -> tuple[int, int]:
    """Where a line ends, and where the next one begins."""
    while place < len(text) and text[place] not in "\r\n":
        place += 1
    return place, place + (2 if text[place : place + 2] == "\r\n" else 1 if place < len(text) else 0)


def _rows(text: str, place: int, dialect: Csv) -> Iterator[Row]:
    while place < len(text):
        end, behind = _line_end(text, place)
        line = text[place:end]
        if _escapes_all(dialect) and line == f"{dialect.escape}.":
            if text[behind:].strip():
                raise FileRefused("has more behind the end")
            return
        is_remark = dialect.comment != "" and line.startswith(dialect.comment)
        if is_remark or not (line.strip(_blanks(dialect)) if dialect.trim else line):
            place = behind
            continue
        row, place = _row(text, place, dialect)
        yield row


def _escapes_all(dialect: Csv) -> bool:
    return dialect.escape != "" and not dialect.quote


def _blanks(dialect: Csv) -> str:
    return BLANKS.replace(dialect.delimiter, "") if dialect.trim else ""


def _row(text: str, begin: int, dialect: Csv) -> tuple[Row, int]:
    values: list[str] = []
    place, is_broken = begin, False
    while True:
        if _escapes_all(dialect):
            value, place, is_plain = _escaped(text, place, dialect)
            closed, is_broken = True, is_broken or not is_plain
        else:
            value, place, closed = _value(text, place, dialect)
        values.append(value)
        if not closed:
            if any(each in text[begin:place] for each in "\r\n"):
                raise FileRefused("text behind a closing quote")
            is_broken, place = True, _line_end(text, place)[0]
        if (not is_broken or _escapes_all(dialect)) and text.startswith(dialect.delimiter, place):
            place += len(dialect.delimiter)
            continue
        written = text[begin:place]
        is_broken = is_broken or "\ufffd" in written
        return Row(values=None if is_broken else tuple(values), text=written.rstrip("\r\n")), _line_end(text, place)[1]


def _value(text: str, place: int, dialect: Csv) -> tuple[str, int, bool]:
    """A value, what is behind it, and whether that is a delimiter or the end of the line."""
    quote, escape, blanks = dialect.quote, dialect.escape, _blanks(dialect)
    begin = _behind(text, place, blanks)
    if not quote or text[begin : begin + 1] != quote:
        end = _line_end(text, place)[0]
        found = text.find(dialect.delimiter, place, end)
        end = end if found < 0 else found
        return text[place:end].strip(blanks) if blanks else text[place:end], end, True
    place, value = begin + 1, ""
    while True:
        if place >= len(text):
            raise FileRefused("never closed")
        here, following = text[place], text[place + 1 : place + 2]
        if escape and dialect.letters and here == escape and following:
            value, place = value + LETTERS.get(following, following), place + 2
        elif escape and here == escape and following in (escape, quote) and following:
            value, place = value + following, place + 2
        elif here == quote and following == quote:
            value, place = value + quote, place + 2
        elif here == quote:
            behind = _behind(text, place + 1, blanks)
            is_end = behind == len(text) or text[behind] in "\r\n" or text.startswith(dialect.delimiter, behind)
            return value, behind if is_end else place + 1, is_end
        else:
            value, place = value + here, place + 1


LETTERS = {"n": "\n", "r": "\r", "t": "\t", "b": "\x08", "f": "\x0c", "v": "\x0b", "0": "\x00", "Z": "\x1a"}
"""What a letter behind an escape stands for in dumps of databases; any other character is itself."""


def _escaped(text: str, begin: int, dialect: Csv) -> tuple[str, int, bool]:
    """A value of a dump without quotes, what is behind it, and whether all programs read it so."""
    place, found, is_plain = begin, list[tuple[str, bool]](), True
    while place < len(text) and text[place] not in "\r\n" and not text.startswith(dialect.delimiter, place):
        if text[place] != dialect.escape:
            found.append((text[place], False))
            place += 1
            continue
        following = text[place + 1 : place + (3 if text[place + 1 : place + 3] == "\r\n" else 2)]
        is_number = following == "0" and text[place + 2 : place + 3] in tuple("01234567")
        is_plain = is_plain and following not in ("", *"1234567x") and not is_number
        found.append((LETTERS.get(following, following), True))
        place += 1 + len(following)
    for end in (0, -1):
        while found and found[end][0] in tuple(_blanks(dialect)) and not found[end][1]:
            del found[end]
    value = "" if found == [("N", True)] else "".join(text for text, _ in found)
    return value, place, is_plain


def _behind(text: str, place: int, blanks: str) -> int:
    while place < len(text) and text[place] in blanks:
        place += 1
    return place


# ------------------------------------------------------------------------------------------------- files

UNDECODABLE = {"utf-8": b"\xff", "cp1252": b"\x81", "shift_jis": b"\xfe", "latin-1": b"", "utf-16-le": b"\x00\xd8"}


def dialect_of(chance: random.Random) -> Csv:
    """Any dialect."""
    quote = chance.choice(['"', '"', "'", ""])
    escape = chance.choice(["", "\\"])
    return Csv(
        delimiter=chance.choice([",", ";", "\t", "|", "||", "~^"]),
        quote=quote,
        escape=escape,
        letters=escape != "" and chance.random() < 0.3,
        encoding=chance.choice(list(UNDECODABLE)),
        skip=chance.choice([0, 0, 1, 3]),
        comment=chance.choice(["", "#", "//"]),
        trim=chance.random() < 0.4,
        header=chance.random() < 0.8,
    )


def file_of(chance: random.Random, dialect: Csv, *, count: int) -> bytes:
    """A file in a dialect, with rows of every kind."""
    letters = ["a", "b", "5", ".", ",", ";", "|", "~", "^", "\\", "'", '"', "#", "/", " ", "\t"]
    letters += [] if dialect.encoding == "shift_jis" else ["é"]
    letters += ["\n", "\r\n", "\r"] if dialect.quote or dialect.escape else []
    letters += ["N", "n", "0", "x"] if dialect.escape else []
    width = chance.randrange(2, 5)
    rows = [["".join(chance.choices(letters, k=chance.randrange(6))) for _ in range(width)] for _ in range(count)]
    rows = [[f"r{number}", *row[1:]] for number, row in enumerate(rows)]
    return file_with(chance, dialect, [f"column {number}" for number in range(width)], rows)


def file_with(chance: random.Random, dialect: Csv, header: Sequence[str], rows: Sequence[Sequence[str]]) -> bytes:
    """A file in a dialect with these rows, among lines that are no records and rows that are broken."""
    ending = chance.choice(["", "", dialect.delimiter])
    ends = chance.choice([["\n"], ["\r\n"], ["\r"], ["\n", "\r\n", "\r"]])
    lines: list[bytes] = []

    def add(line: str) -> None:
        lines.append((line + chance.choice(ends)).encode(dialect.encoding))

    for _ in range(dialect.skip):
        add(chance.choice(['Report of "May', "", "a;b", dialect.comment]))
    if dialect.header:
        add(dialect.delimiter.join(header) + ending)
    for number, row in enumerate(rows):
        line = dialect.delimiter.join(_written(cell, dialect, chance) for cell in row) + ending
        match chance.randrange(40):
            case 0:
                add("")
            case 1 if dialect.comment:
                add(f"{dialect.comment} a remark {dialect.quote}")
            case 2 if dialect.header and number:
                add(dialect.delimiter.join(header) + ending)
            case 3 if number:
                line += f"{dialect.delimiter}more"
            case 4 if number:
                line = f"r{number}"
            case 5 if dialect.quote and number:
                line = f"{dialect.quote}r{number}{dialect.quote}text{dialect.delimiter}b"
            case 6 if number:
                lines.append(f"r{number}".encode(dialect.encoding) + UNDECODABLE[dialect.encoding])
                line = ""
            case 8 if _escapes_all(dialect) and number > len(rows) * 0.9:
                add("\\.")
                return b"".join(lines)
            case 7:
                line += chance.choice([" ", "\t", dialect.delimiter])
        add(line)
    mark = "\ufeff" if dialect.encoding in ("utf-8", "utf-16-le") and chance.random() < 0.3 else ""
    return mark.encode(dialect.encoding) + b"".join(lines)


def _written(value: str, dialect: Csv, chance: random.Random) -> str:
    """A value as some program writes it."""
    special = [*dialect.delimiter, "\n", "\r", dialect.quote]
    is_blank = dialect.trim and value != value.strip(BLANKS)
    if _escapes_all(dialect):
        if chance.random() < 0.1:
            return chance.choice(["\\N", "\\0", "\\0a", "\\Z", "\\t", "\\xa", "a\\"])
        escaped = f"[{re.escape(''.join(special))}{re.escape(dialect.escape)}{BLANKS if dialect.trim else ''}]"
        named = {"\n": "n", "\r": "r", "\t": "t"} if chance.random() < 0.5 else {}
        return re.sub(escaped, lambda found: dialect.escape + named.get(found[0], found[0]), value)
    if not dialect.quote:
        return re.sub(f"[{re.escape(dialect.delimiter)}\r\n]", "", value)
    needs = is_blank or any(each in value for each in special)
    if not needs and chance.random() < 0.7:
        return value
    quote, inside = dialect.quote, value
    if dialect.escape:
        inside = inside.replace(dialect.escape, 2 * dialect.escape)
    # Most who have an escape use it; some write a quote twice all the same.
    before = dialect.escape if dialect.escape and chance.random() < 0.8 else quote
    inside = inside.replace(quote, before + quote)
    around = chance.choice(["", " ", "\t"]) if dialect.trim and dialect.delimiter != "\t" else ""
    return f"{around}{quote}{inside}{quote}{around}"

"""First bytes: recognizes the kind of a file whose name says another, and the encoding of a text.

One sentence says what the file is, before anything is recorded of it. What only some records have is their own problem:
they are rejected, and the others land.
"""

from __future__ import annotations

import codecs
import json
import re
import zipfile
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from backfill_assets.capture.errors import BadFile, Fault
from backfill_assets.capture.landed_files import PACKED, FileKind, Format
from backfill_assets.core.wording import literal, visible
from backfill_assets.domain import Csv, Json
from backfill_assets.landing.likely_forms import declaration, names_of

SAMPLE_BYTES = 1 << 16
_MOST_BINARY = 0.3
_MOST_CHARACTERS = 60
_CONTROLS = bytes(range(9)) + bytes(range(14, 32)) + b"\x7f"
_PACKED = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "LZ4",
    b"PK\x03\x04": "zip",
    b"PK\x05\x06": "zip",
    b"7z\xbc\xaf\x27\x1c": "7-Zip",
    b"Rar!\x1a\x07": "RAR",
}
_OTHERS = {
    b"ORC": "ORC",
    b"Obj\x01": "Avro",
    b"ARROW1": "Arrow",
    b"%PDF-": "PDF",
    b"SQLite format 3\x00": "a SQLite database",
}
_PARQUET = (b"PAR1", b"PARE")
_MAGIC = {
    "gzip": (b"\x1f\x8b",),
    "zstd": (b"\x28\xb5\x2f\xfd", *(bytes([first]) + b"\x2a\x4d\x18" for first in range(0x50, 0x60))),
    "bzip2": (b"BZh",),
    "xz": (b"\xfd7zXZ\x00",),
    "zip": (b"PK\x03\x04", b"PK\x05\x06"),
}
"""The first bytes of packed files."""
_READABLE = frozenset({b"BZh", b"ORC", *_PARQUET})
"""Beginnings that a header of a CSV may have too, such as `ORCHARD`: what follows is binary then."""

_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_BINARY = {Format.PARQUET: _PARQUET, Format.AVRO: (b"Obj\x01",), Format.XLSX: (b"PK\x03\x04", _OFFICE)}
"""The first bytes of files that are no text."""

_OF_OFFICE = {"[Content_Types].xml", "content.xml"}
"""Members of the files of office programs, which are archives."""

_MARKUP = re.compile(rb"\s*<(?:!doctype\s|html[\s>]|\?xml\s|!--)", re.IGNORECASE)
_UTF_32 = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_NAMES = {
    Format.JSONL: "JSON lines",
    Format.CSV: "CSV",
    Format.PARQUET: "Parquet",
    Format.AVRO: "Avro",
    Format.XLSX: "Excel",
}
_SUFFIXES = {Format.JSONL: ".jsonl", Format.CSV: ".csv", Format.PARQUET: ".parquet"}


def require_kind(path: Path, kind: FileKind, name: str, *, dialect: Csv | None = None) -> None:
    """Refuses a file whose first bytes are those of another format, or packed otherwise, than its name says.

    Args:
        dialect: What a CSV is declared to be written in.
    """
    with path.open("rb") as file:
        head = file.read(SAMPLE_BYTES)
    what = kind.compression or _NAMES[kind.format]
    if not head and (kind.compression or kind.format in _BINARY):
        a = "an" if what[0].lower() in "aex" else "a"
        why = f"is empty, and {a} {what} file without records is not: it was not written to its end"
        raise BadFile(path=name, fault=Fault.DAMAGED, why=why)
    if kind.compression:
        if not head.startswith(_MAGIC[kind.compression]):
            _require_no_other(head, path, name, kind)
            if not is_binary(head):
                unpacked = name.rpartition(".")[0] if path_suffix(name) == PACKED[kind.compression] else name
                raise renamed(name, f"is not packed by {kind.compression}", Path(unpacked).suffix)
        return
    if kind.format not in _BINARY:
        require_text(head, path, name, kind, dialect)
    elif not head.startswith(_BINARY[kind.format]):
        _require_no_other(head, path, name, kind)
        if not is_binary(head):
            other = Format.JSONL if head.lstrip().startswith(b"{") else Format.CSV
            raise renamed(name, f"is text, not {what}", _SUFFIXES[other])


def require_text(head: bytes, path: Path, name: str, kind: FileKind, dialect: Csv | None = None) -> None:
    """Refuses what is no text: UTF-16, pictures, archives, pages. A few odd bytes in a text are the records' problem.

    Args:
        head: The first bytes, unpacked.
        dialect: As for `require_kind`.
    """
    _require_no_other(head, path, name, kind, dialect)
    if is_binary(head.decode(dialect.encoding, "replace").encode() if dialect else head):
        raise BadFile(path=name, fault=Fault.NOT_TEXT, why="is not text")


def is_binary(head: bytes) -> bool:
    """True if first bytes have too many controls, and bytes that are not UTF-8, to be those of a text."""
    odd = len(head) - len(head.translate(None, _CONTROLS)) + head.decode("utf-8", "replace").count("\ufffd")
    return odd > len(head) * _MOST_BINARY


def _require_no_other(head: bytes, path: Path, name: str, kind: FileKind, dialect: Csv | None = None) -> None:
    said = f"not {_NAMES[kind.format]}"
    if (found := _encoding(head)) and not codecs.lookup(dialect.encoding if dialect else "utf-8").name.startswith(
        found.lower()
    ):
        declared = replace(dialect or Csv(), encoding=found.lower())
        wanted = (
            f": declare {declaration(declared)}" if kind.format is Format.CSV else "; JSON lines are landed as UTF-8"
        )
        raise BadFile(path=name, fault=Fault.ENCODING, why=f"is {found} text{wanted}")
    if head.startswith(_OFFICE) or (head.startswith(b"PK") and _is_workbook(path)):
        near = "reads=Xlsx()" if head.startswith(b"PK") else None
        wanted = f": declare {near}, and name it .xlsx" if near else ""
        raise BadFile(path=name, fault=Fault.WORKBOOK, why=f"is an Excel or Office file, {said}{wanted}", near=near)
    for start, what in _PACKED.items():
        if _begins(head, start):
            if what in PACKED and kind.format not in _BINARY and not kind.compression:
                raise renamed(name, f"holds {what}, not text", f"{path_suffix(name)}{PACKED[what]}")
            raise BadFile(path=name, fault=Fault.PACKED, why=f"holds {what}, {said}")
    if any(_begins(head, start) for start in _PARQUET) and kind.format is not Format.PARQUET:
        raise renamed(name, "holds Parquet, not text", ".parquet")
    for start, what in _OTHERS.items():
        if _begins(head, start):
            if what == "Avro":
                why = f"is Avro, {said}: declare reads=Avro(), and name it .avro"
                raise BadFile(path=name, fault=Fault.DIALECT, why=why)
            raise BadFile(path=name, fault=Fault.NOT_TEXT, why=f"is {what}, {said}")
    if _MARKUP.match(head):
        what = "XML" if head.lstrip()[:5].lower() == b"<?xml" else "an HTML page"
        raise BadFile(path=name, fault=Fault.PAGE, why=f"is {what}, {said}: it begins with {_quoted(head)}")


def _begins(head: bytes, start: bytes) -> bool:
    """True if a file begins like one of another format, and not like a text with these letters."""
    if not head.startswith(start):
        return False
    return start not in _READABLE or any(byte in _CONTROLS for byte in head)


def path_suffix(name: str) -> str:
    """The last suffix of a name."""
    return Path(name).suffix


def renamed(name: str, why: str, suffix: str) -> BadFile:
    """A file that is of another format than its name says; `suffix` is what its name would have to end in."""
    return BadFile(path=name, fault=Fault.RENAMED, why=why, near=suffix)


def _quoted(head: bytes) -> str:
    line = head.lstrip().split(b"\n", 1)[0].decode("utf-8", "replace").strip()
    return repr(visible(line[:_MOST_CHARACTERS]))


def _encoding(head: bytes) -> str:
    """The encoding of text that is no UTF-8 and has a mark, or a zero beside each byte; empty for others."""
    if head.startswith(_UTF_32):
        return "UTF-32"
    if head.startswith(_UTF_16):
        return "UTF-16"
    even, odd = (head[first:200:2] for first in (0, 1))
    zeros, texts = sorted([even, odd], key=lambda part: part.count(0), reverse=True)
    is_wide = len(head) > 7 and zeros.count(0) > len(zeros) * 0.8 and not texts.count(0)
    return "UTF-16" if is_wide else ""


def _is_workbook(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return not _OF_OFFICE.isdisjoint(archive.namelist())
    except (zipfile.BadZipFile, OSError, ValueError):
        return False


def require_json_lines(head: bytes, name: str, columns: Collection[str]) -> str:
    """Refuses a text that is something else than JSON lines from its first line on.

    Args:
        head: Its first bytes.
        columns: Those that a file has to have.

    Returns:
        How it would be declared if it was a document, which is known when a line turns out to be too long.
    """
    declared = json_declaration(head.decode("utf-8", "replace"), columns)
    lines = [line.strip() for line in head.splitlines() if line.strip()]
    if lines and _is_document(lines, is_whole=len(head) < SAMPLE_BYTES):
        what = "array" if lines[0].startswith(b"[") else "object"
        raise not_as_lines(f"is one JSON {what} over several lines{_OBJECT_A_LINE}", declared, name)
    if not lines or any(line.startswith(b"{") for line in lines):
        return declared
    if all(line.startswith(b"[") for line in lines):
        why = "is a JSON array" if len(lines) == 1 else "has an array in each line"
        raise not_as_lines(
            f"{why}{_OBJECT_A_LINE}", declared if all(_OF_OBJECTS.match(line) for line in lines) else "", name
        )
    if columns and set(columns) <= names_of(lines[0].decode("utf-8", "replace"), ","):
        raise renamed(name, "is CSV, not JSON lines", ".csv")
    return declared


def not_as_lines(why: str, declared: str, name: str) -> BadFile:
    """The refusal of a file that is not JSON lines.

    Args:
        declared: What reads it, if it is known.
    """
    said = f"{why}: declare {declared}" if declared else why
    return BadFile(path=name, fault=Fault.LONG_LINE, why=said, near=declared or None)


_OBJECT_A_LINE = ", and each record has to be an object on a line of its own"
_OF_OBJECTS = re.compile(rb"\[\s*[{\]]")


def _is_document(lines: Sequence[bytes], *, is_whole: bool) -> bool:
    """True if the first line begins a document of JSON that goes on in the next ones, and is not a truncated record.

    Args:
        is_whole: Whether the last one of them is all there.
    """
    first = lines[0]
    if first in (b"{", b"["):
        return True
    if len(lines) > 1 and first.startswith(b"[") and _OF_OBJECTS.match(first) and not first.endswith(b"]"):
        return True
    if first[:1] not in (b"{", b"[") or len(lines) < (2 if is_whole else 3):
        return False
    found = [each[0] for each in _TOKENS.finditer(first.decode("utf-8", "replace"))]
    is_open = sum(each in ("{", "[") for each in found) > sum(each in ("}", "]") for each in found)
    return is_open and not _is_object(lines[1])


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


_TOKENS = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"|[{}\[\]:]', re.DOTALL)
_BLANKS = re.compile(r"[ \t\r\n]*+")


def json_declaration(text: str, columns: Collection[str] = ()) -> str:
    """The declaration for files that are documents of JSON such as this one.

    Args:
        text: The first characters of the document.
        columns: Those that a record may have.
    """
    if text.lstrip().startswith("["):
        return "reads=Json(array=True)"
    place = list_at(text, columns)
    return records_at(place) if place else "reads=Json()"


def records_at(place: str) -> str:
    """The declaration of a list at a place."""
    return f"reads={literal(Json(records=place))}"


def list_at(text: str, columns: Collection[str] = ()) -> str:
    """Where the object at the beginning of a text has its first list of objects, as `Json(records=...)` has it; empty
    when it has none, or is a record.

    Args:
        text: The first characters of a document.
        columns: Those that a record may have.
    """
    names: list[str] = []
    last, in_lists = "", 0
    for token in _TOKENS.finditer(text):
        what = token[0]
        if in_lists:
            in_lists += (what in "{[") - (what in "]}")
        elif what == "[" and _begins_list_of_objects(text, token.end()):
            return "" if any("." in each or not each for each in names) else ".".join(names)
        elif what == "[":
            in_lists = 1
        elif what == "{":
            names.append("")
        elif what == "}" and len(names) < 2:
            return ""
        elif what == "}":
            names.pop()
        elif what == ":" and names:
            names[-1] = last
            if last in columns:
                return ""
        else:
            last = token[1] or ""
    return ""


def _begins_list_of_objects(text: str, at: int) -> bool:
    match = _BLANKS.match(text, at)
    return match is not None and text[match.end() : match.end() + 1] == "{"


_NOT_ASCII = re.compile(rb"[\x80-\xff]+")
_NOT_ASCII_END = re.compile(rb"(?<![\x80-\xff])[\x80-\xff]+\Z")
_LETTERS = re.compile(rb"[\xc0-\xd6\xd8-\xf6\xf8-\xfe]{1,2}")
"""The letters of Latin-1. Two can stand together in a word."""


class OtherEncoding:
    """Finds out that a text is not UTF-8: it has letters of Latin-1 throughout, no UTF-8 character beyond ASCII.

    One row with a damaged byte, among others in UTF-8, is rejected alone.
    """

    def __init__(self) -> None:
        self._rest, self._lines, self._is_mixed = b"", 1, False
        self._found: tuple[int, int] | None = None

    def add(self, chunk: bytes) -> None:
        """Reads on."""
        if self._is_mixed:
            return
        if chunk.isascii() and not self._rest:
            self._lines += chunk.count(b"\n")
            return
        text = self._rest + chunk
        # A character can be cut at the end.
        whole = len(text) if (cut := _NOT_ASCII_END.search(text)) is None else cut.start()
        self._rest = text[whole:]
        self._look(text[:whole])

    def _look(self, text: bytes) -> None:
        place = 0
        for run in _NOT_ASCII.finditer(text):
            if _is_utf8(run[0]) or b"\xff" in run[0]:
                self._is_mixed = True
                return
            if self._found is None and _LETTERS.fullmatch(run[0]):
                self._found = (self._lines + text.count(b"\n", place, run.start()), run[0][0])
        self._lines += text.count(b"\n")

    def refuse(self, name: str, dialect: Csv | None = None) -> None:
        """Refuses the text that was read, if it is in another encoding.

        Args:
            dialect: What it is declared to be written in, of a CSV.
        """
        self._look(self._rest)
        if self._is_mixed or self._found is None:
            return
        line, byte = self._found
        letter = bytes([byte]).decode("latin-1")
        why = f"is not UTF-8: line {line:,} has the byte 0x{byte:02X}, which is {letter!r} in Latin-1"
        if dialect is not None:
            why += f": declare {declaration(replace(dialect, encoding='latin-1'))}"
        raise BadFile(path=name, fault=Fault.ENCODING, why=why)


def _is_utf8(run: bytes) -> bool:
    try:
        run.decode()
    except UnicodeDecodeError:
        return False
    return True

"""Sample: a bounded part of a file as texts, in whatever it is encoded, packed or kept. Only this module and
`capture.http.sniff` read.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from backfill_assets.capture.errors import BadFile, Fault
from backfill_assets.capture.files.packed import NotWhole, is_of_people, open_archive, open_packed
from backfill_assets.domain import Xlsx
from backfill_assets.landing.decoding.avro_files import avro_records
from backfill_assets.landing.decoding.workbooks import cell_text, workbook_rows
from backfill_assets.sniff.proposal import Doubt, DoubtKind

# Sample: a bounded part of a file, from its beginning, its middle and its end. Only this module, `footer` and
# `capture.http.sniff` read.

WHOLE_BYTES = 4 << 20
"""Files up to this size are read to their end."""

HEAD_BYTES = 1 << 20
PART_BYTES = 1 << 17
PARTS = 8

_PACKED: Mapping[str, bytes] = {
    "gzip": b"\x1f\x8b",
    "zip": b"PK\x03\x04",
    "zstd": b"\x28\xb5\x2f\xfd",
    "xz": b"\xfd7zXZ\x00",
    "bzip2": b"BZh91AY&SY",
}
"""The first bytes of packed files. Of bzip2 that of the largest blocks, which programs write unless they are asked."""

_WORKBOOK = "[Content_Types].xml"


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The sample that was read of a file, unpacked."""

    file: str  #: Its name.
    size_bytes: int  #: How large it is, as it is.
    head: bytes  #: Its first bytes, or all of them.
    #: Bytes from its middle and its end, each of which may begin and end within a record.
    parts: tuple[bytes, ...] = ()
    packed: str = ""  #: How it is packed, or empty.
    is_workbook: bool = False  #: True if it is one of a spreadsheet.
    is_whole: bool  #: True if `head` is all of it.
    members: tuple[str, ...] = ()  #: The files of an archive besides the first one.

    @property
    def read_bytes(self) -> int:
        """The number of bytes that were looked at, unpacked."""
        return len(self.head) + sum(map(len, self.parts))


def read_sample(path: Path) -> Sample:
    """Reads a bounded part of a file.

    Raises:
        UnreadableFile: It is empty, packed in another way than landing unpacks, or damaged.
    """
    size = path.stat().st_size
    if not size:
        raise BadFile(path=str(path), fault=Fault.DAMAGED, why="is empty, so that it tells nothing of its records")
    with path.open("rb") as file:
        begin = file.read(10)
        file.seek(0)
        packed = next((name for name, marks in _PACKED.items() if begin.startswith(marks)), "")
        if not packed:
            return _plain(path, size, file)
    try:
        if packed == "zip":
            return _of_archive(path, size)
        with open_packed(path, packed) as unpacked:
            return _packed(path, size, unpacked, packed)
    except (NotWhole, OSError, EOFError, zlib.error, zipfile.BadZipFile) as error:
        raise BadFile(path=str(path), fault=Fault.DAMAGED, why=f"cannot be unpacked: {error}") from error


def _plain(path: Path, size: int, file: IO[bytes]) -> Sample:
    if size <= WHOLE_BYTES:
        return Sample(file=path.name, size_bytes=size, head=file.read(), is_whole=True)
    head = file.read(HEAD_BYTES)
    parts = []
    for number in range(1, PARTS + 1):
        file.seek(max(HEAD_BYTES, (size - PART_BYTES) * number // PARTS))
        parts.append(file.read(PART_BYTES))
    return Sample(file=path.name, size_bytes=size, head=head, parts=tuple(parts), is_whole=False)


def _packed(path: Path, size: int, unpacked: _Readable, packed: str, members: tuple[str, ...] = ()) -> Sample:
    head = unpacked.read(WHOLE_BYTES)
    is_whole = len(head) < WHOLE_BYTES or not unpacked.read(1)
    return Sample(file=path.name, size_bytes=size, head=head, packed=packed, is_whole=is_whole, members=members)


def _of_archive(path: Path, size: int) -> Sample:
    with zipfile.ZipFile(path) as archive:
        if _WORKBOOK in archive.namelist():
            content = path.read_bytes()
            return Sample(file=path.name, size_bytes=size, head=content, is_workbook=True, is_whole=True)
    with open_archive(path) as files:
        names = [name for name in files.names if not is_of_people(name)]
        if not names:
            raise BadFile(path=str(path), fault=Fault.PACKED, why="is an archive without a file of records in it")
        with files.open(names[0]) as unpacked:
            return _packed(path, size, unpacked, "zip", tuple(names[1:]))


# Encoding: what the characters of a text are written in.

_MOST_LETTERS = 12
_MOSTLY = 0.9
_RARELY = 0.1
_SIGNS = frozenset("€£¥§°²³µ±·…«»®©™½¼¿¡ªº\u00a0\u2013\u2014\u2018\u2019\u201c\u201d\u201e")


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """An encoding by a name that Python knows, and what is not sure about it."""

    name: str
    doubt: Doubt | None = None


def encoding_of(sample: bytes) -> Encoding:
    """The encoding of the first bytes of a text."""
    for mark, name in ((codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32")):
        if sample.startswith(mark):
            return Encoding(name=name)
    if sample.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return Encoding(name="utf-16")
    if wide := _without_mark(sample):
        return Encoding(name=wide)
    if is_utf8(sample):
        return Encoding(name="utf-8")
    return _of_bytes(sample)


def is_utf8(sample: bytes) -> bool:
    """True if bytes are UTF-8, except for a character that is cut at their end."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        return False
    return True


def _without_mark(sample: bytes) -> str:
    even, odd = sample[0:400:2], sample[1:400:2]
    if len(sample) > 7 and odd.count(0) > len(odd) * 0.8 and not even.count(0):
        return "utf-16-le"
    return "utf-16-be" if len(sample) > 7 and even.count(0) > len(even) * 0.8 and not odd.count(0) else ""


def _of_bytes(sample: bytes) -> Encoding:
    """The encoding by which bytes are the most likely text; Latin-1 where it gives the same text."""
    from charset_normalizer import from_bytes

    matches = from_bytes(sample)
    best = matches.best()
    western = _decoded(sample, "cp1252")
    latin = "cp1252" if any(0x80 <= byte < 0xA0 for byte in sample) else "latin-1"
    likely = [match.encoding for match in matches if best is not None and match.chaos <= best.chaos]
    agreed = western is not None and (not likely or any(_decoded(sample, each) == western for each in likely))
    if western is not None and (agreed or _is_western(western)):
        chosen, text = latin, western
    else:
        chosen = likely[0] if likely else "latin-1"
        text = _decoded(sample, chosen) or ""
    chosen = _of_the_far_east(sample, chosen)
    text = _decoded(sample, chosen) or text
    others = [each for each in likely if _decoded(sample, each) not in (None, text)]
    letters = "".join(dict.fromkeys(character for character in text if ord(character) > 127))[:_MOST_LETTERS]
    return Encoding(name=chosen, doubt=Doubt(kind=DoubtKind.ENCODING, values=(chosen, letters, *others[:3])))


def _of_the_far_east(sample: bytes, chosen: str) -> str:
    """GB 18030 where a text could be Korean as well, and would have the rare syllables and signs of that.

    In both encodings a character is two bytes from A1 on. Of Korean, syllables begin with B0 to C8; of Chinese, the
    characters that are used most begin with B0 to D7.
    """
    if chosen not in ("cp949", "euc_kr", "johab"):
        return chosen
    pairs = re.findall(rb"[\x81-\xfe][\x41-\xfe]", sample)
    rare = sum(not (0xB0 <= pair[0] <= 0xC8 and pair[1] >= 0xA1) for pair in pairs)
    is_chinese = rare > len(pairs) * _RARELY and _decoded(sample, "gb18030") is not None
    return "gb18030" if is_chinese else chosen


def _is_western(text: str) -> bool:
    """True if letters beyond ASCII stand beside ASCII ones, as in words of western languages, or are usual signs.

    Words of other scripts have several of them in a row.
    """
    found = [place for place, character in enumerate(text) if ord(character) > 127]
    likely = sum(
        text[place] in _SIGNS
        or (text[place].isalpha() and any(map(_is_ascii_letter, text[max(0, place - 1) : place + 2])))
        for place in found
    )
    return likely > len(found) * _MOSTLY


def _is_ascii_letter(character: str) -> bool:
    return character.isascii() and character.isalpha()


def _decoded(sample: bytes, encoding: str) -> str | None:
    try:
        return sample.decode(encoding)
    except (UnicodeDecodeError, LookupError):
        return None


# Footer: the columns of a Parquet file, by what it says of itself, and its first values.

MOST_ROWS = 20_000


def first_rows(path: Path) -> tuple[pa.Table, int]:
    """The first rows of a Parquet file, and how many it has.

    Raises:
        UnreadableFile: It is damaged, or packed by a codec that is not there.
    """
    try:
        with pq.ParquetFile(path) as file:
            first = next(iter(file.iter_batches(batch_size=MOST_ROWS)), None)
            rows = pa.Table.from_batches([first] if first is not None else [], schema=file.schema_arrow)
            return rows, file.metadata.num_rows
    except (pa.ArrowException, OSError) as error:
        why = f"cannot be read as Parquet: {str(error).splitlines()[0]}"
        raise BadFile(path=str(path), fault=Fault.DAMAGED, why=why) from error


def kind_of(found: pa.DataType, values: pa.ChunkedArray) -> tuple[str, bool]:
    """The type of a contract for a column, and whether it has times without an offset; an empty type for none."""
    types = pa.types
    if types.is_dictionary(found):
        return kind_of(found.value_type, values)
    if types.is_timestamp(found):
        if found.tz is None and _are_midnights(values):
            return "DATE", False
        return "TIMESTAMP", found.tz is None
    if types.is_uint64(found):
        return "DECIMAL(20,0)", False
    if types.is_decimal(found):
        return f"DECIMAL({found.precision},{found.scale})", False
    if types.is_list(found) or types.is_large_list(found):
        inner, _ = kind_of(found.value_type, pa.chunked_array([pa.nulls(0, found.value_type)]))
        return (f"ARRAY<{inner}>", False) if inner else ("", False)
    tests = (
        (types.is_integer, "LONG"),
        (types.is_float64, "DOUBLE"),
        (types.is_floating, "FLOAT"),
        (types.is_boolean, "BOOLEAN"),
        (types.is_date, "DATE"),
        (types.is_null, "STRING"),
    )
    for test, kind in tests:
        if test(found):
            return kind, False
    if types.is_string(found) or types.is_large_string(found):
        return "STRING", False
    return ("BINARY", False) if types.is_binary(found) or types.is_large_binary(found) else ("", False)


def _are_midnights(values: pa.ChunkedArray) -> bool:
    found = [value for value in values.to_pylist() if value is not None]
    return bool(found) and all(not (each.hour or each.minute or each.second or each.microsecond) for each in found)


def texts_of(values: pa.ChunkedArray) -> list[str | None]:
    """The values of a column as texts, to compare them."""
    return [None if value is None else _text(value) for value in values.to_pylist()]


def _text(value: Any) -> str:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


# Decoded: workbooks and Avro files, whose records landing decodes, as the texts that it gives.

_MOST_RECORDS = 20_000
_A_FIFTH = 0.2
"""Of the rows of a sheet, so many end in the last column: others end in cells without values."""


def rows_of_workbook(path: Path, sheet: str) -> tuple[str, list[int], bool]:
    """The first rows of a sheet as CSV, one in each line, their numbers in the sheet, and whether these are all.

    Raises:
        UnreadableFile: It is damaged or encrypted, or has formulas that were never computed.
    """
    found: list[list[str]] = []
    numbers: list[int] = []
    for cells in islice(workbook_rows(path, Xlsx(sheet=sheet), name=path.name), _MOST_RECORDS):
        row = [" ".join(cell_text(cell).splitlines()) for cell in cells]
        while row and not row[-1]:
            row.pop()
        found.append(row)
        numbers.append(next(cell.row for cell in cells if cell.value not in (None, "")))
    widths = Counter(map(len, found))
    usual = max((width for width in widths if widths[width] > len(found) * _A_FIFTH), default=0)
    header = next((place for place, row in enumerate(found) if len(row) >= usual), 0)
    text = io.StringIO()
    write = csv.writer(text, lineterminator="\n")
    for place, row in enumerate(found):
        write.writerow([*row, *[""] * (len(found[header]) - len(row))] if place >= header else row)
    return text.getvalue(), numbers, len(numbers) < _MOST_RECORDS


_KINDS = {
    "date": "DATE",
    "boolean": "BOOLEAN",
    "int": "LONG",
    "long": "LONG",
    "float": "DOUBLE",
    "double": "DOUBLE",
    **{f"timestamp-{unit}": "TIMESTAMP" for unit in ("millis", "micros", "nanos")},
}
_MOST_DIGITS = 38


def kinds_of_avro(path: Path) -> dict[str, str]:
    """The types of a contract that the schema of an Avro file says, by the paths of members."""
    import fastavro

    with path.open("rb") as file:
        schema = json.loads(fastavro.reader(file).metadata["avro.schema"])
    return dict(_kinds(schema, ""))


def _kinds(schema: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(schema, list):
        kinds = [each for each in schema if each != "null"]
        if len(kinds) == 1:
            yield from _kinds(kinds[0], path)
        return
    if isinstance(schema, str):
        schema = {"type": schema}
    if isinstance(schema["type"], dict | list):
        yield from _kinds(schema["type"], path)
    for field in schema.get("fields", ()):
        yield from _kinds(field["type"], f"{path}.{field['name']}" if path else field["name"])
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if schema.get("logicalType") == "decimal" and isinstance(precision, int) and precision <= _MOST_DIGITS:
        yield path, f"DECIMAL({precision},{scale})"
    elif isinstance(schema["type"], str) and (kind := _KINDS.get(schema.get("logicalType", schema["type"]))):
        yield path, kind


def lines_of_avro(path: Path) -> tuple[str, bool]:
    """The first records of an Avro file as JSON lines, and whether these are all of them.

    Raises:
        UnreadableFile: It is cut or damaged, or packed by what is not read.
    """
    with path.open("rb") as file:
        lines = list(islice(avro_records(file, name=path.name), _MOST_RECORDS))
    return b"\n".join(lines).decode("utf-8", "replace"), len(lines) < _MOST_RECORDS

"""Probe: refuses files that cannot be read, and finds their columns.

A first check without Spark: a damaged archive, a file of another format than its name, or one without a required column
is refused as a whole, with one sentence, before anything is recorded.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import DataType, NumericType, TimestampType

from backfill_assets.calendar.partitions import count_of
from backfill_assets.capture.debezium import Messages
from backfill_assets.capture.errors import BadFile, Fault
from backfill_assets.capture.files.packed import NotWhole, open_packed
from backfill_assets.capture.json_members import objects_of
from backfill_assets.capture.landed_files import FileKind, Format
from backfill_assets.core.wording import visible
from backfill_assets.domain import Csv, Json, SourceTable, Xlsx
from backfill_assets.landing.first_bytes import (
    SAMPLE_BYTES,
    OtherEncoding,
    not_as_lines,
    records_at,
    renamed,
    require_json_lines,
    require_kind,
    require_text,
)
from backfill_assets.landing.likely_forms import names_of, other_quotes, require_csv_header
from backfill_assets.landing.names import (
    Types,
    ignored,
    missing,
    names_in_header,
    require_members,
    require_members_have_names,
    require_names,
    require_texts,
    required_members,
    spots,
    top_members,
    type_of,
)
from backfill_assets.landing.parquet import Nulls, PhysicalColumn, batches, physical_columns, require_whole_instants
from backfill_assets.landing.reading import NESTED, reading_of
from backfill_assets.landing.record_rules import required_of_a_file
from backfill_assets.landing.times import can_be_time, number_of
from backfill_assets.landing.values import can_become

_CHUNK_BYTES = 1 << 20
_BYTES_OF_A_TASK = 1 << 20
MOST_RECORD_BYTES = 8 << 20
"""Of a line of text, or a value of a CSV. Spark holds a record several times over; 1 GB of heap is enough for these."""

MOST_VALUES = 20_000
"""The limit of a row of a CSV."""

_ROWS_AT_ONCE = 64
_MOST_CHARACTERS = 60
"""The characters of a path that a refusal quotes at most."""
_LINE_ENDS = {"\n": "LF", "\r\n": "CR LF", "\r": "CR"}
_BLANK = b" \t\r\n"
_FOREIGN_CODECS = {"BROTLI", "LZO"}
_MAY_BE_SEVERAL = re.compile(rb"\}[ \t]*,?[ \t]*\{")
"""What is between two objects of a line; also where they are elements of an array that is a member."""
_FIRST_MEMBER = re.compile(r'[ \t]*\{[ \t]*"([^"\\]*)"')
_OF_EVENTS = ("payload", "op", "before", "after", "source", "status", "ts_ms")
"""Members of change events of Debezium, and of the messages beside them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The result of probing a file."""

    empty: bool = False  #: True if it has no record and no header.
    valid_utf8: bool = True  #: True if every byte of a text file belongs to a UTF-8 character; always true for Parquet.
    is_small: bool = False  #: True if it has so few lines of JSON that one task reads them sooner than several.
    header: tuple[str, ...] = ()  #: The columns of a CSV or a Parquet file, in order, as often as they are named.
    line_end: str = "\n"  #: What ends the rows of a CSV.
    columns: tuple[PhysicalColumn, ...] = ()  #: The columns of a Parquet file that Spark can read.
    #: Columns of a CSV or Parquet file that the contract does not know, sorted. A JSONL file has no header; its columns
    #: are found while it is read.
    ignored_columns: tuple[str, ...] = ()
    #: Columns of the contract that a CSV or Parquet file does not have, sorted: they are null.
    missing_columns: tuple[str, ...] = ()
    #: The version of the contract that every record is in; None when each record, or the lines of the file, have to be
    #: read for it.
    version: int | None = None
    #: Of change events, what of the file is no change of a row, and how many lines are such a message.
    passed_over: tuple[tuple[str, int], ...] = ()
    several: int = 0  #: How many messages of Maxwell or Canal are several records.
    parts: int = 0  #: How many records are one more of such a message.


def probe(path: Path, kind: FileKind, source: SourceTable, *, name: str, counted: bool = False) -> Probe:
    """Probes a file, which messages call by this name.

    Args:
        counted: Its source says how many records it has; otherwise a line with several is one that was written wrongly.
    """
    if source.envelope is not None and kind.format is not Format.JSONL:
        why = f"is {kind.format.upper()}; {source.name} has change events of Debezium, which land as JSON lines"
        raise BadFile(path=name, fault=Fault.SUFFIX, why=why)
    if not counted:
        require_kind(path, kind, name)
    match kind.format:
        case Format.PARQUET:
            return _probe_parquet(path, source, name)
        case Format.CSV:
            return _probe_csv(path, kind, source, name)
        case Format.JSONL:
            require_members_have_names(source, name=name)
            messages = None if source.envelope is None else Messages(source.envelope.connector)
            own = None if counted else source
            looks = not counted or messages is not None or bool(required_members(source))
            look = partial(_look_at_lines, source=source, messages=messages, is_captured=counted)
            begin = None if own is None or not _are_lines(own) else partial(_require_lines, name=name, source=own)
            with text_errors(name):
                empty, valid_utf8 = _scan_text(path, kind, name, look if looks else None, begin, is_offered=not counted)
            is_small = path.stat().st_size <= _BYTES_OF_A_TASK
            if messages is None:
                return Probe(empty=empty, valid_utf8=valid_utf8, is_small=is_small)
            return Probe(
                empty=empty,
                valid_utf8=valid_utf8,
                is_small=is_small,
                passed_over=tuple(sorted(messages.beside.items())),
                several=messages.several,
                parts=messages.parts,
            )
        case _:
            raise AssertionError(f"a file of {kind.format} is decoded before it is probed")


@contextmanager
def text_errors(name: str) -> Iterator[None]:
    """Refuses a packed file that is not whole."""
    try:
        yield
    except NotWhole as error:
        fault = Fault.PADDED if error.is_padded else Fault.DAMAGED
        raise BadFile(path=name, fault=fault, why=f"is not a complete {error.what} file: {error}") from error


def opened(path: Path, kind: FileKind) -> IO[bytes]:
    """The bytes of a text file, unpacked."""
    return open_packed(path, kind.compression) if kind.compression else path.open("rb")


def _scan_text(
    path: Path,
    kind: FileKind,
    name: str,
    look: Callable[[bytes, int, str], None] | None = None,
    begin: Callable[[bytes], str] | None = None,
    *,
    is_offered: bool = True,
) -> tuple[bool, bool]:
    """Reads a text file to its end: whether it is blank, and whether it is UTF-8 throughout.

    Args:
        look: Called with whole lines, the number of the first of them, and the name of the file.
        begin: Called with its first bytes; gives what would be declared of it if a line is too long for a record.
        is_offered: Somebody else has written it, perhaps in another encoding.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    other = OtherEncoding() if is_offered else None
    empty = valid_utf8 = True
    first, near = True, ""
    lines, run, rest = 1, 0, b""
    with opened(path, kind) as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            if first:
                require_text(chunk[:SAMPLE_BYTES], path, name, kind)
                chunk, first = chunk.removeprefix(codecs.BOM_UTF8), False
                near = "" if begin is None else begin(chunk[:SAMPLE_BYTES])
            empty = empty and not chunk.strip(_BLANK)
            if other is not None:
                other.add(chunk)
            began = lines
            lines, run = _longest(chunk, lines, run, name, near)
            if look is not None:
                whole = max(0, len(chunk) - run)
                if whole:
                    look(rest + chunk[:whole], began, name)
                rest = chunk[whole:] if whole else rest + chunk
            if valid_utf8:
                try:
                    decoder.decode(chunk)
                except UnicodeDecodeError:
                    valid_utf8 = False
    if valid_utf8:
        try:
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            valid_utf8 = False
    if other is not None and not valid_utf8:
        other.refuse(name, Csv() if kind.format is Format.CSV else None)
    if look is not None:
        look(rest, lines, name)
    return empty, valid_utf8


def _look_at_lines(
    text: bytes, first: int, name: str, *, source: SourceTable, messages: Messages | None, is_captured: bool
) -> None:
    """Refuses lines that are not one record each, or have other members, and change events that are none of their
    source."""
    why = "" if messages is None else messages.look(text)
    if why and not is_captured:
        raise BadFile(path=name, fault=Fault.EVENTS, why=why)
    if not is_captured and _are_lines(source):
        _refuse_other_json(text, first, name, source)
    if first == 1 and not (is_captured and messages):
        require_members(source, text.splitlines(), name=name, is_captured=is_captured)


def _require_lines(head: bytes, *, name: str, source: SourceTable) -> str:
    return require_json_lines(head, name, names_in_header(source))


def _are_lines(source: SourceTable) -> bool:
    """True if each line is expected to be an object, and not the element of an array, which may be anything."""
    return source.reads in (None, Json())


def _refuse_other_json(text: bytes, first: int, name: str, source: SourceTable) -> None:
    """Refuses lines of several records, which would count as one rejected record each."""
    lines = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    begin = next((line.strip(_BLANK) for line in lines if line.strip(_BLANK)), b"") if first == 1 else b""
    members = {*top_members(source), *(_OF_EVENTS if source.envelope else ())}
    if begin and begin == text.strip(_BLANK):
        _refuse_envelope(begin.decode("utf-8", "replace"), members, name, number=1, least=1)
    if not _MAY_BE_SEVERAL.search(text):
        return
    for number, line in enumerate(lines, first):
        if not _MAY_BE_SEVERAL.search(line):
            continue
        decoded = line.decode("utf-8", "replace")
        if count := len(objects_of(decoded)):
            near = "reads=Json(array=True)" if decoded.lstrip().startswith("[") else "reads=Json()"
            raise _several(count, number, "", name, near)
        _refuse_envelope(decoded, members, name, number=number, least=2)


def _several(count: int, number: int, where: str, name: str, declared: str) -> BadFile:
    why = f"holds {count_of(count, 'JSON object')} in line {number:,}{where}, and each has to be on a line of its own"
    # Where other lines are records themselves, only objects in a row are one form.
    return not_as_lines(why, declared if number == 1 or declared == "reads=Json()" else "", name)


def _refuse_envelope(line: str, members: Set[str], name: str, *, number: int, least: int) -> None:
    count, place = _listed(line, members, least)
    if count:
        where = f" at {visible(place[:_MOST_CHARACTERS])!r}"
        raise _several(count, number, where, name, records_at(place))


def _listed(line: str, members: Set[str], least: int) -> tuple[int, str]:
    """The number and the place of objects that a list in an object holds, if it is not a record itself: the list is the
    records.

    Args:
        members: What a record may have. An object with one of these is a record.
        least: A shorter list is a value.
    """
    if (begin := _FIRST_MEMBER.match(line)) is not None and begin[1] in members:
        return 0, ""
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return 0, ""
    if not isinstance(document, dict) or not members.isdisjoint(document):
        return 0, ""
    inner = [(name, value) for name, value in document.items()]
    for path, value in inner:
        if isinstance(value, dict):
            inner += [(f"{path}.{name}", each) for name, each in value.items()]
        elif isinstance(value, list) and (count := sum(isinstance(each, dict) for each in value)) >= least:
            return count, path
    return 0, ""


def _longest(chunk: bytes, lines: int, run: int, name: str, near: str) -> tuple[int, int]:
    """Counts on: lines begun so far, and bytes of the last one. No line may be longer than a record can be.

    A chunk is shorter than that, so only its first line, as the end of an earlier one, can be too long.
    """
    ends = [place for place in (chunk.find(b"\n"), chunk.find(b"\r")) if place >= 0]
    if run + min(ends, default=len(chunk)) > MOST_RECORD_BYTES:
        why = f"has a line of more than {MOST_RECORD_BYTES >> 20} MiB (line {lines:,}), which is not a record"
        raise not_as_lines(why, near, name)
    if not ends:
        return lines, run + len(chunk)
    last = max(chunk.rfind(b"\n"), chunk.rfind(b"\r"))
    return lines + chunk.count(b"\n"), len(chunk) - last - 1


def _probe_csv(path: Path, kind: FileKind, source: SourceTable, name: str) -> Probe:
    with text_errors(name):
        empty, valid_utf8 = _scan_text(path, kind, name)
        if empty:
            return Probe(empty=True, valid_utf8=valid_utf8)
        with csv_text(opened(path, kind)) as text:
            _require_header(text.read(SAMPLE_BYTES), name, source)
        with csv_text(opened(path, kind)) as text:
            header = _scan_rows(text, name)
            line_end = text.newlines
        if isinstance(line_end, tuple):  # a value may hold line breaks of another kind
            with csv_text(opened(path, kind)) as text:
                line_end = _end_of_rows(text, name)
    require_names(source, header, name=name)
    return Probe(
        valid_utf8=valid_utf8,
        header=header,
        line_end=line_end or "\n",
        ignored_columns=ignored(source, header),
        missing_columns=missing(source, header),
    )


def _require_header(text: str, name: str, source: SourceTable) -> None:
    """Refuses a file that is not declared to be in a dialect and is in one; the decoder has looked at others."""
    if isinstance(source.reads, Csv | Xlsx):
        return
    if re.match(r'\s*\{\s*"', text) and not names_of(text.split("\n", 1)[0], ",") >= {*names_in_header(source)}:
        raise renamed(name, "is JSON lines, not CSV", ".jsonl")
    require_csv_header(text, name, names_in_header(source))


@contextmanager
def csv_text(file: IO[bytes], *, encoding: str = "utf-8-sig", errors: str = "replace") -> Iterator[io.TextIOWrapper]:
    """The text of a CSV with its line breaks as they are, for `csv.reader` with the limits of a record.

    Args:
        file: Its bytes; it is closed afterwards.
        encoding: What its characters are written in.
        errors: What becomes of bytes that are no character in it.
    """
    limit = csv.field_size_limit(MOST_RECORD_BYTES)
    try:
        with io.TextIOWrapper(file, encoding=encoding, errors=errors, newline="") as text:
            yield text
    finally:
        csv.field_size_limit(limit)


def _end_of_rows(text: IO[str], name: str) -> str | None:
    """The end of the rows of a CSV; None when nothing ends them.

    Raises:
        UnreadableFile: Rows end in different ways: Spark would take a part of a line break for a part of a value.
    """
    last = ""

    def lines() -> Iterator[str]:
        nonlocal last
        for line in text:
            last = line
            yield line

    rows = csv.reader(lines(), strict=True)
    found: str | None = None
    for _ in rows:
        end = last[len(last.rstrip("\r\n")) :]
        if found is not None and end not in ("", found):
            others = f"line {rows.line_num:,} ends in {_LINE_ENDS[end]}"
            why = (
                f"has rows that end in {_LINE_ENDS[found]}, and others: {others}: declare reads=Csv(), which reads both"
            )
            raise BadFile(path=name, fault=Fault.LINE_ENDS, why=why)
        found = found or end
    return found


def _scan_rows(text: IO[str], name: str) -> tuple[str, ...]:
    """Reads a CSV to its end, so that no row is more than Spark can hold, and gives its header."""
    rows = csv.reader(text, strict=True)
    header: tuple[str, ...] | None = None
    line = 0
    try:
        for row in rows:
            header = tuple(column.strip() for column in row) if header is None else header
            if len(row) > MOST_VALUES:
                at = f"it ends in line {rows.line_num:,}"
                why = f"has a row of {len(row):,} values ({at}), and {MOST_VALUES:,} are the most"
                raise BadFile(path=name, fault=Fault.COLUMNS, why=why)
            # A row that is one line is no longer than a line can be.
            if rows.line_num > line + 1 and sum(map(len, row)) > MOST_RECORD_BYTES:
                raise csv.Error("row larger than the limit of a record")
            line = rows.line_num
    except csv.Error as error:
        raise no_csv(str(error), name, began=line + 1, line=rows.line_num) from error
    return header or ()


def no_csv(error: str, name: str, *, began: int, line: int, dialect: Csv | None = None) -> BadFile:
    """The mistake that Python's parser found in a row: too long, a quote that is not closed, or text after a closing
    quote.

    Args:
        dialect: What the file is declared to be written in; None for plain CSV.
    """
    if "limit" in error:
        why = f"has a row of more than {MOST_RECORD_BYTES >> 20} MiB that begins before line {line:,}"
        return BadFile(path=name, fault=Fault.OPEN_QUOTE, why=why)
    problem = f"in line {line:,} text behind a closing quote" if "after" in error else "a quote that is never closed"
    why = f"has {problem}, in the row that begins in line {began:,}: {other_quotes(dialect or Csv())}"
    return BadFile(path=name, fault=Fault.QUOTES, why=why)


def _probe_parquet(path: Path, source: SourceTable, name: str) -> Probe:
    try:
        # Without it a page whose checksum does not match is decoded all the same, to other numbers.
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            header, columns = tuple(file.schema_arrow.names), physical_columns(file)
            types = types_of(columns)
            require_names(source, header, types, name=name)
            used = {
                header[spot.position]: column for column, some in spots(source, header, types).items() for spot in some
            }
            _require_readable(file, types, used, source, name)
            if file.metadata.num_rows:
                _refuse_nulls(source, header, types, name)
            # Every page is decoded once: damage that Spark would find halfway is found before anything is recorded.
            # Few rows at a time: a file of kilobytes can hold gigabytes, as one long value that every row repeats.
            # Columns that the contract does not know are in the text of a rejected record.
            read = list(dict.fromkeys([*used, *types]))
            for _ in batches(file, read, rows=_ROWS_AT_ONCE):
                pass
            exact = [each for each, column in used.items() if not reading_of(source, column).rounds]
            require_whole_instants(path, file, exact, name)
    except (pa.ArrowException, OSError, ValueError) as error:  # ValueError: names and types that are no text
        if isinstance(error, PermissionError):
            raise
        reason = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        raise BadFile(path=name, fault=Fault.DAMAGED, why=f"is not a readable Parquet file: {reason}") from error
    found = Probe(
        header=header,
        columns=columns,
        ignored_columns=ignored(source, header, types),
        missing_columns=missing(source, header, types),
    )
    require_types(found, source, name=name)
    return found


def _require_readable(
    file: pq.ParquetFile, readable: Collection[str], used: Mapping[str, str], source: SourceTable, name: str
) -> None:
    """Refuses a codec that Spark does not have, and columns of the contract whose type it cannot read.

    Args:
        used: By column of the file, the column of the contract that is read from it.
    """
    groups = file.metadata
    for place in range(groups.num_columns if groups.num_row_groups else 0):
        chunk = groups.row_group(0).column(place)
        if chunk.compression in _FOREIGN_CODECS:
            why = f"is compressed with {chunk.compression.capitalize()}, which Spark cannot read"
            raise BadFile(path=name, fault=Fault.CODEC, why=why)
    for field in file.schema_arrow:
        column = used.get(field.name)
        if column is not None and field.name not in readable:
            wanted = source.schema[column].dataType.simpleString()
            why = f"holds {visible(field.name)} as {field.type}, which Spark cannot read; the contract says {wanted}"
            raise BadFile(path=name, fault=Fault.TYPE, why=why, column=column, type_=wanted)


def _refuse_nulls(source: SourceTable, header: Sequence[str], types: Types, name: str) -> None:
    """Refuses a file of which no record has a value that every record needs: pandas writes such a column without a
    type."""
    for column, some in spots(source, header, types).items():
        if column in required_of_a_file(source) and isinstance(type_of(some, header, types), Nulls):
            wanted = source.schema[column].dataType.simpleString()
            why = f"holds {column} without a type, as null in every record; the contract says {wanted}"
            raise BadFile(path=name, fault=Fault.TYPE, why=why, column=column, type_=wanted)


def types_of(columns: Iterable[PhysicalColumn]) -> Mapping[str, DataType]:
    """The types of the columns of a Parquet file that can be read."""
    return {column.name: column.data_type for column in columns}


def require_types(found: Probe, source: SourceTable, *, name: str) -> None:
    """Refuses a Parquet file that lacks a column of a contract, or has one of another type.

    Args:
        found: The result of probing it, by this contract or another version of it.
    """
    types = types_of(found.columns)
    require_names(source, found.header, types, name=name)
    require_texts(source, found.header, types, name=name)
    for column, some in spots(source, found.header, types).items():
        _refuse_type(source, column, type_of(some, found.header, types), name)


def _refuse_type(source: SourceTable, column: str, found: DataType | None, name: str) -> None:
    target = source.schema[column].dataType
    as_json = column in source.json_columns
    if found is not None and can_become(target, found, as_json=as_json, has_zone=bool(source.timezone)):
        return
    if found is not None and can_be_time(target, found, reading_of(source, column)):
        return
    says = "a type that cannot be read" if found is None else found.simpleString()
    is_local = says == "timestamp_ntz" and isinstance(target, TimestampType)
    zone = " without a zone, so its instants are not known" if is_local else ""
    wanted = target.simpleString()
    form = number_of(column, target) if isinstance(found, NumericType) and not zone else ""
    why = f"holds {column} as {says}{zone}; the contract says {wanted}{form}"
    near = says if found is not None and not (form or isinstance(found, NESTED)) else None
    raise BadFile(path=name, fault=Fault.ZONE if zone else Fault.TYPE, why=why, column=column, type_=wanted, near=near)

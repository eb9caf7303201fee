"""Look: the columns of a file as they are written, whatever it is, before they are typed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pyarrow as pa

from backfill_assets.capture.errors import BadFile, Fault
from backfill_assets.capture.files.packed import NotWhole
from backfill_assets.capture.landed_files import PACKED, FileKind, Format
from backfill_assets.domain.source_files import Avro, Csv, Dialect, FileName, Json, Xlsx
from backfill_assets.landing.decoding.workbooks import sheets_of
from backfill_assets.landing.first_bytes import SAMPLE_BYTES, require_text
from backfill_assets.sniff.columns import Raw, typed
from backfill_assets.sniff.dialect import Delimited, Table, dialect_of, table_of, with_rows
from backfill_assets.sniff.event_time import event_times
from backfill_assets.sniff.proposal import Doubt, DoubtKind, Looked, written_names
from backfill_assets.sniff.sample import (
    Sample,
    encoding_of,
    first_rows,
    kind_of,
    kinds_of_avro,
    lines_of_avro,
    read_sample,
    rows_of_workbook,
    texts_of,
)
from backfill_assets.sniff.texts import (
    NEVER_TEXTS,
    NULLS,
    PLAIN,
    Numbers,
    always_null,
    null_texts,
    numbers_of,
    sentinels,
    truths_of,
)

# Change events: what declares that records are those of Debezium or Maxwell, by what an event says of itself.

_WITH_DATABASE = ("mysql", "mariadb", "mongodb", "sqlserver")


def envelope_of(record: object) -> tuple[str, ...] | None:
    """The envelope of an event, and the dialect that it needs besides, as Python; None of other records."""
    if not isinstance(record, Mapping):
        return None
    payload = record.get("payload")
    event = payload if isinstance(payload, Mapping) else record
    source = event.get("source")
    if isinstance(source, Mapping) and "op" in event and {"before", "after"} & {*event}:
        connector = str(source.get("connector", ""))
        parts = [
            source.get("db") if connector in _WITH_DATABASE else None,
            source.get("schema"),
            source.get("table", source.get("collection")),
        ]
        return (_envelope(".".join(str(each) for each in parts if each), connector),)
    if {"database", "table", "type", "data", "ts"} <= {*record} and {"xid", "position"} & {*record}:
        return (_envelope(f"{record['database']}.{record['table']}", "mysql"), "reads=Maxwell()")
    return None


def _envelope(table: str, connector: str) -> str:
    return f"envelope=Debezium(table={table!r}, connector={connector!r})"


# Documents: where the records of a text of JSON are, and the members of a record that become columns.

_MOST_RECORDS = 20_000
_LEAST_SHARE = 0.8
"""The share of records that have the members of a nested object, so that each becomes a column."""


class Number(str):
    """The digits of a number."""

    __slots__ = ()


_DECODER = json.JSONDecoder(parse_float=Number, parse_int=Number, parse_constant=Number)
_BLANKS = " \t\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """The records of a sample."""

    reads: Json | None  #: What has to be declared; None for JSON lines.
    records: tuple[Mapping[str, Any], ...]  #: The records, as far as the sample has whole ones.
    #: The object that has the list of the records, where it could be a record itself.
    document: Mapping[str, Any] | None = None
    inner: int = 0  #: How many objects an array has in another array, where these are more than its own.


def documents_of(text: str, *, is_whole: bool) -> Documents | None:
    """The records of the beginning of a text of JSON; None where it has none.

    Args:
        is_whole: Whether it is all of the file.
    """
    start = _blank(text, 0)
    if text[start : start + 1] == "[":
        elements = list(_elements(text, start + 1))
        found = tuple(each for each in elements if isinstance(each, dict))
        inner = max(
            (sum(isinstance(row, dict) for row in each) for each in elements if isinstance(each, list)), default=0
        )
        inner = inner if inner > len(found) else 0
        return Documents(reads=Json(array=True), records=found, inner=inner) if found or inner else None
    if text[start : start + 1] != "{":
        return None
    if (lines := _lines(text, is_whole=is_whole)) is not None and len(lines) != 1:
        return Documents(reads=None, records=tuple(lines))
    rows = [each for each in _concatenated(text, start) if isinstance(each, dict)]
    if len(rows) > 1:
        return Documents(reads=Json(), records=tuple(rows))
    if listed := list(_lists_in(text, start, "")):
        # An answer may have others beside it, such as the names of its columns.
        path, records = max(listed, key=lambda each: len(each[1]))
        return Documents(reads=Json(records=path), records=records, document=rows[0] if rows else None)
    if not rows:
        return None
    return Documents(reads=None if lines else Json(), records=tuple(rows))


def _blank(text: str, place: int) -> int:
    while place < len(text) and text[place] in _BLANKS:
        place += 1
    return place


def _lines(text: str, *, is_whole: bool) -> list[dict[str, Any]] | None:
    """The objects of a text with one in each line; None where lines have something else."""
    lines = [line for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n") if line.strip()]
    if not is_whole and len(lines) > 1:
        lines.pop()
    found: list[dict[str, Any]] = []
    for number, line in enumerate(lines[:_MOST_RECORDS]):
        try:
            value = _DECODER.decode(line.strip())
        except (ValueError, RecursionError):
            if not number:
                return None
            continue
        if isinstance(value, dict):
            found.append(value)
    return found if len(found) * 2 > len(lines[:_MOST_RECORDS]) else None


def _concatenated(text: str, place: int) -> Iterator[Any]:
    for _ in range(_MOST_RECORDS):
        place = _blank(text, place)
        if place >= len(text):
            return
        try:
            value, place = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError):
            return
        yield value


def _elements(text: str, place: int) -> Iterator[Any]:
    """The whole elements of an array, which begin at a place; the text may end within one."""
    for _ in range(_MOST_RECORDS):
        place = _blank(text, place)
        if text[place : place + 1] == ",":
            place = _blank(text, place + 1)
        if text[place : place + 1] in ("]", ""):
            return
        try:
            value, place = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError):
            return
        yield value


def _lists_in(text: str, place: int, path: str) -> Iterator[tuple[str, tuple[Mapping[str, Any], ...]]]:
    """The lists of objects among the members of an object that begins at a place, each with its path."""
    place = _blank(text, place + 1)
    while text[place : place + 1] == '"':
        try:
            name, place = _DECODER.raw_decode(text, place)
        except ValueError:
            return
        place = _blank(text, _blank(text, place) + 1)
        inner = f"{path}.{name}" if path else name
        if text[place : place + 1] == "[":
            rows = tuple(each for each in _elements(text, place + 1) if isinstance(each, dict))
            if any(rows) and name and "." not in name:
                yield inner, rows
        elif text[place : place + 1] == "{" and name and "." not in name:
            yield from _lists_in(text, place, inner)
        try:
            _, place = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError):
            return
        place = _blank(text, place)
        if text[place : place + 1] == ",":
            place = _blank(text, place + 1)


def columns_of(records: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The values of each member of some records by its path; None where a record lacks it.

    Members of an object become columns of their own where nearly all records have the same ones.
    """
    return dict(_columns(records, ""))


def _columns(records: Sequence[Mapping[str, Any] | None], path: str) -> Iterator[tuple[str, list[Any]]]:
    names = dict.fromkeys(name for record in records if record for name in record)
    for name in names:
        values = [record.get(name) if record else None for record in records]
        inner = f"{path}.{name}" if path else name
        objects = [value for value in values if isinstance(value, dict)]
        if objects and all(value is None or isinstance(value, dict) for value in values) and _is_even(objects):
            yield from _columns(values, inner)
        else:
            yield inner, values


def _is_even(objects: Sequence[Mapping[str, Any]]) -> bool:
    names = {name for each in objects for name in each}
    if any("." in name for name in names) or not names:
        return False
    return sum(len(each) for each in objects) >= _LEAST_SHARE * len(names) * len(objects)


def text_of(value: Any) -> str | None:
    """The text that lands of a value: digits and texts as they are, JSON of what is nested."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case str():
            return str(value)
        case _:
            return _json(value)


def _json(value: Any) -> str:
    match value:
        case dict():
            return "{" + ",".join(f"{json.dumps(k, ensure_ascii=False)}:{_json(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ",".join(map(_json, value)) + "]"
        case Number():
            return str(value)
        case _:
            return json.dumps(value, ensure_ascii=False)


_MOST_ROWS = 50_000
_QUOTED = 5
_PLAIN_CSV = ".csv"
_JSON_LINES = (".jsonl", ".ndjson", ".json", ".geojson")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The columns of one file, before they are typed."""

    looked: Looked
    reads: Dialect | None  #: The dialect, as far as values do not tell more of it.
    columns: tuple[Raw, ...]
    numbers: Numbers = PLAIN  #: How its numbers are written.
    doubts: tuple[Doubt, ...] = ()
    left_out: tuple[str, ...] = ()


def look(path: Path, *, as_of: datetime) -> Seen:
    """The columns of a file as they are written.

    Args:
        as_of: The present, by which it is judged whether an object or the list in it is the record.

    Raises:
        UnreadableFile: It is none of which records could be read.
    """
    sample = read_sample(path)
    if sample.head.startswith(b"PAR1"):
        return _of_parquet(path, sample)
    if sample.is_workbook:
        return _of_workbook(path, sample)
    if sample.head.startswith(b"Obj\x01"):
        text, is_whole = lines_of_avro(path)
        records = documents_of(text, is_whole=True)
        seen = _of_json(sample, Json(), records.records if records else ())
        kinds = kinds_of_avro(path)
        columns = tuple(
            replace(raw, kind=kind)
            if (kind := kinds.get(str(raw.written), "")).startswith("DECIMAL") or not raw.values
            else raw
            for raw in seen.columns
        )
        return replace(
            seen, columns=columns, reads=Avro(), looked=replace(seen.looked, format="Avro", is_whole=is_whole)
        )
    encoding = encoding_of(sample.head[: 1 << 16])
    of_text = FileKind(format=Format.CSV, compression="")
    require_text(sample.head[:SAMPLE_BYTES], path, path.name, of_text, Csv(encoding=encoding.name))
    text = sample.head.decode(encoding.name, "replace").removeprefix("\ufeff")
    if text.lstrip()[:1] in ("{", "[") and (found := documents_of(text, is_whole=sample.is_whole)) is not None:
        if found.inner:
            why = f"is an array that has another one of {found.inner:,} objects in it: save that one by itself"
            raise BadFile(path=str(path), fault=Fault.DIALECT, why=why)
        seen = _of_json(sample, found.reads, found.records)
        if found.document is None or event_times([typed(raw) for raw in seen.columns], as_of=as_of):
            return seen
        return _of_json(sample, None if "\n" not in text.strip() else Json(), [found.document])
    doubts = () if encoding.doubt is None else (encoding.doubt,)
    return _of_rows(sample, text, encoding.name, doubts)


# --------------------------------------------------------------------------------------------------------------- forms


def _looked(sample: Sample, form: str, records: int) -> Looked:
    return Looked(
        file=sample.file,
        size_bytes=sample.size_bytes,
        read_bytes=sample.read_bytes,
        is_whole=sample.is_whole,
        format=form,
        packed=sample.packed,
        records=records,
    )


def _of_parquet(path: Path, sample: Sample) -> Seen:
    rows, count = first_rows(path)
    read = sample.size_bytes if rows.num_rows == count else sample.size_bytes * rows.num_rows // max(1, count)
    looked = replace(_looked(sample, "Parquet", rows.num_rows), read_bytes=read, is_whole=rows.num_rows == count)
    return _of_arrow(rows, looked)


def _of_arrow(rows: pa.Table, looked: Looked) -> Seen:
    doubts, columns, left_out = [], [], []
    for place, field in enumerate(rows.schema):
        values: pa.ChunkedArray = rows.column(place)
        kind, is_local = kind_of(field.type, values)
        if not kind:
            doubts.append(Doubt(kind=DoubtKind.NESTED, values=(field.name, str(field.type))))
            left_out.append(field.name)
            continue
        columns.append(Raw(written=field.name, texts=texts_of(values), kind=kind, is_local=is_local))
    return Seen(looked=looked, reads=None, columns=tuple(columns), doubts=tuple(doubts), left_out=tuple(left_out))


def _of_json(sample: Sample, reads: Json | None, records: Sequence[object]) -> Seen:
    columns = []
    doubts = []
    if (declared := next(filter(None, map(envelope_of, records[:20])), None)) is not None:
        doubts.append(Doubt(kind=DoubtKind.ENVELOPE, values=declared))
    for path, values in columns_of(records).items():  # type: ignore[arg-type]
        present = [value for value in values if value is not None]
        is_text = any(not isinstance(value, Number | bool) for value in present)
        kind = "BOOLEAN" if present and all(isinstance(value, bool) for value in present) else ""
        columns.append(Raw(written=path, texts=[text_of(value) for value in values], is_text=is_text, kind=kind))
        if is_text and any(isinstance(value, Number | bool) for value in present):
            texts = tuple(str(text_of(value)) for value in present if isinstance(value, Number | bool))
            doubts.append(Doubt(kind=DoubtKind.MIXED, column=path, values=texts[:_QUOTED], records=len(texts)))
    looked = _looked(sample, "JSON lines" if reads is None else "JSON", len(records))
    if reads is None and not _unpacked(sample).endswith(_JSON_LINES):
        reads = Json()
    return Seen(looked=looked, reads=reads, columns=tuple(columns), doubts=tuple(doubts))


def _of_rows(sample: Sample, text: str, encoding: str, doubts: tuple[Doubt, ...]) -> Seen:
    parts = [] if encoding.startswith("utf-16") else [part.decode(encoding, "replace") for part in sample.parts]
    dialect = dialect_of(text, parts)
    table = table_of(text, dialect, is_whole=sample.is_whole, parts=parts)
    rows = _bounded(table.rows)
    written: list[FileName] = written_names(table.header) if dialect.header else [*range(len(table.header))]
    raws = [
        Raw(written=name, texts=[row[place] or None for row in rows], called=called)
        for place, (name, called) in enumerate(zip_longest(written, dialect.names[: len(written)], fillvalue=""))
    ]
    named = max((place + 1 for place, raw in enumerate(raws) if raw.values or raw.called), default=0)
    without = [
        place
        for place, raw in enumerate(raws)
        if isinstance(raw.written, int) and not raw.values and (dialect.header or place >= named)
    ]
    left_out = tuple(f"column {place + 1}" for place in without)
    raws = [raw for place, raw in enumerate(raws) if place not in without]
    numbers, other = numbers_of([raw.values[:2_000] for raw in raws], dialect.delimiter)
    nulls = _nulls(raws, numbers)
    cleared = [replace(raw, texts=[None if text in nulls else text for text in raw.texts]) for raw in raws]
    pairs = [pair for raw in cleared if (pair := truths_of(raw.values)) and len(set(raw.values)) > 1]
    return Seen(
        looked=replace(_looked(sample, "CSV", len(rows)), is_whole=sample.is_whole and len(rows) == len(table.rows)),
        reads=_csv(sample, dialect, encoding, numbers, nulls, pairs, is_plain=not table.repeated),
        columns=tuple(cleared),
        numbers=numbers,
        doubts=(
            *doubts,
            *_doubts_of_rows(dialect, table),
            *_doubts_of_numbers(raws, numbers, other),
            *_doubts_of_nulls(raws, numbers, nulls),
        ),
        left_out=left_out,
    )


def _of_workbook(path: Path, sample: Sample) -> Seen:
    try:
        sheets = tuple(sheets_of(path, name=path.name))
    except (NotWhole, OSError) as error:
        raise BadFile(path=str(path), fault=Fault.DAMAGED, why=f"is not a complete workbook: {error}") from error
    if not sheets:
        raise BadFile(path=str(path), fault=Fault.DAMAGED, why="is a workbook without a sheet")
    text, numbers, is_whole = rows_of_workbook(path, sheets[0])
    dialect = with_rows(Delimited(delimiter=","), text)
    table = table_of(text, dialect, is_whole=True)
    raws = tuple(
        Raw(written=name, texts=[row[place] or None for row in table.rows])
        for place, name in enumerate(written_names(table.header))
    )
    kept = tuple(raw for raw in raws if isinstance(raw.written, str | tuple) or raw.values)
    others = (Doubt(kind=DoubtKind.SHEETS, values=sheets[:_QUOTED]),) if len(sheets) > 1 else ()
    skip = numbers[dialect.skip] - 1 if dialect.skip else 0
    return Seen(
        looked=replace(_looked(sample, "Excel", len(table.rows)), is_whole=is_whole),
        reads=Xlsx(sheet=sheets[0] if len(sheets) > 1 else "", skip=skip),
        columns=kept,
        doubts=(*others, *_doubts_of_rows(dialect, table)),
    )


def _bounded(rows: Sequence[tuple[str, ...]]) -> Sequence[tuple[str, ...]]:
    """Not too many rows: the first ones, and some from there to the last."""
    if len(rows) <= _MOST_ROWS:
        return rows
    first = rows[: _MOST_ROWS // 2]
    step = -(-(len(rows) - len(first)) // (_MOST_ROWS // 2))
    return [*first, *rows[: len(first) - 1 : -step][::-1]]


def _nulls(raws: Sequence[Raw], how: Numbers) -> frozenset[str]:
    """The texts that stand for no value in a file: without them columns are numbers, times, or true and false."""
    found = set(always_null(raw.values for raw in raws))
    for raw in raws:
        values = raw.values
        if candidates := null_texts(values):
            rest = [text for text in values if text not in candidates]
            is_text = rest and typed(Raw(written=raw.written, texts=rest), how).kind == "STRING"
            if not is_text:
                found |= candidates if rest else candidates & NEVER_TEXTS
    return frozenset(found)


def _csv(
    sample: Sample,
    dialect: Delimited,
    encoding: str,
    numbers: Numbers,
    nulls: frozenset[str],
    pairs: Sequence[tuple[str, str]],
    *,
    is_plain: bool,
) -> Csv | None:
    """The declarations of a CSV; None for a plain one whose rows end in one way and can all be read."""
    others = [pair for pair in pairs if pair != ("true", "false")]
    usual = [("true", "false")] if len(others) < len(pairs) else []
    truths = list(dict.fromkeys([*usual, *others]))
    declared = Csv(
        delimiter=dialect.delimiter,
        quote=dialect.quote,
        escape=dialect.escape,
        letters=dialect.letters,
        encoding=encoding,
        decimal=numbers.decimal,
        thousands=numbers.thousands,
        null=tuple(text for text in NULLS if text in nulls),
        true=tuple(pair[0] for pair in truths) if others else ("true",),
        false=tuple(pair[1] for pair in truths) if others else ("false",),
        skip=dialect.skip,
        comment=dialect.comment,
        trim=dialect.trim,
        header=dialect.header,
    )
    is_named = _unpacked(sample).endswith(_PLAIN_CSV) or sample.packed == "zip"
    is_plain = is_plain and is_named and not dialect.is_mixed and not dialect.misquoted
    return None if declared == Csv() and is_plain else declared


def _unpacked(sample: Sample) -> str:
    """The name of a file without the suffix of what it is packed by."""
    name = sample.file.lower()
    return name.removesuffix(PACKED[sample.packed]) if sample.packed in PACKED else name


def _doubts_of_rows(dialect: Delimited, table: Table) -> Iterator[Doubt]:
    if dialect.duckdb:
        yield Doubt(kind=DoubtKind.DIALECT, values=(dialect.delimiter, dialect.duckdb))
    if dialect.misquoted:
        yield Doubt(kind=DoubtKind.MISQUOTED, records=dialect.misquoted, rejects=True)
    if table.ragged:
        yield Doubt(kind=DoubtKind.RAGGED, records=len(table.ragged), first=table.ragged[0], rejects=True)
    if table.repeated:
        yield Doubt(kind=DoubtKind.REPEATED_HEADER, records=len(table.repeated), first=table.repeated[0])
    if table.blank:
        yield Doubt(kind=DoubtKind.NO_VALUE, records=len(table.blank), first=table.blank[0], rejects=True)


def _doubts_of_numbers(raws: Sequence[Raw], how: Numbers, other: Numbers | None) -> Iterator[Doubt]:
    """The first column of numbers that would be others if their comma was read in the other way."""
    for raw in raws if other is not None else ():
        values = [text for text in raw.values if "," in text]
        if values and all(how.plain(text) is not None for text in values):
            yield Doubt(kind=DoubtKind.COMMA, column=str(raw.written), values=(how.plain(values[0]) or "", *values[:1]))
            return


def _doubts_of_nulls(raws: Sequence[Raw], how: Numbers, nulls: frozenset[str]) -> Iterator[Doubt]:
    """Texts that may stand for no value, and those that do in another column and may be texts in this one.

    Args:
        nulls: The texts that are declared to stand for no value.
    """
    always = always_null(raw.values for raw in raws)
    for raw in raws:
        values = raw.values
        texts = null_texts(values) - always
        rest = [text for text in values if text not in texts]
        if texts and rest and typed(Raw(written=raw.written, texts=rest), how).kind == "STRING":
            for kind, among in ((DoubtKind.NULL_TEXT, texts - nulls), (DoubtKind.LOST_TEXT, texts & nulls)):
                count = sum(text in among for text in values)
                if among:
                    yield Doubt(kind=kind, column=str(raw.written), values=tuple(sorted(among)), records=count)
        if found := sentinels(values):
            count = sum(text in found for text in values)
            yield Doubt(kind=DoubtKind.SENTINEL, column=str(raw.written), values=found, records=count)

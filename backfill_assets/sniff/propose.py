"""Propose: brings together what a sample tells, as the declaration of a source table and what is not sure of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pyarrow as pa

from backfill_assets.capture.errors import BadFile, Fault
from backfill_assets.domain.dialects import Avro, Csv, Dialect, Json, Xlsx
from backfill_assets.domain.file_names import FileName
from backfill_assets.lake.first_rows import first_rows_of_delta, first_rows_of_iceberg, is_delta, newest_metadata
from backfill_assets.sniff.columns import Raw, Typed, typed
from backfill_assets.sniff.decoded import lines_of_avro, rows_of_workbook, sheets_of
from backfill_assets.sniff.dialect import Delimited, Table, dialect_of, table_of, with_rows
from backfill_assets.sniff.documents import Number, columns_of, documents_of, text_of
from backfill_assets.sniff.encoding import encoding_of
from backfill_assets.sniff.event_time import EventTime, event_times
from backfill_assets.sniff.footer import MOST_ROWS, first_rows, kind_of, texts_of
from backfill_assets.sniff.keys import Column, is_order, is_series, keys_of
from backfill_assets.sniff.names import RESERVED, contract_name, leaves, table_name, written_names
from backfill_assets.sniff.proposal import Doubt, DoubtKind, Looked, Proposal, ProposedColumn
from backfill_assets.sniff.sample import Sample, read_sample
from backfill_assets.sniff.texts import (
    MONEY,
    NULLS,
    PLAIN,
    Numbers,
    always_null,
    kind_of_numbers,
    null_texts,
    numbers_of,
    sentinels,
    truths_of,
)
from backfill_assets.sniff.times import time_form

_MOST_ROWS = 50_000
_QUOTED = 5
_JSON_SUFFIXES = (".json", ".jsonl", ".ndjson", ".geojson")
_PLAIN_CSV = (".csv", ".csv.gz")
_JSON_LINES = (".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz", ".json.gz")
_PLAUSIBLE_GAP_DAYS = 31


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The columns of one file, before they are typed.

    Attributes:
        reads: The dialect, as far as values do not tell more of it.
        numbers: How its numbers are written.
        captured: Of a table of others: what declares its capture, its argument, and where the table is.
    """

    looked: Looked
    reads: Dialect | None
    columns: tuple[Raw, ...]
    numbers: Numbers = PLAIN
    doubts: tuple[Doubt, ...] = ()
    left_out: tuple[str, ...] = ()
    captured: tuple[str, str, str] | None = None


def propose(paths: Sequence[Path], *, name: str = "", as_of: datetime) -> Proposal:
    """The source table that files could land in: that of the last one, of which the others have the columns.

    Args:
        paths: Files of the same kind, the newest last.
        name: The table; by default it is called like the last file, in bronze.
        as_of: The present: times after it are planned.

    Raises:
        UnreadableFile: A file is none of which records could be read.
    """
    seen = [look(path) for path in paths]
    last = seen[-1]
    table = name or f"bronze.{table_name(paths[-1].name)}"
    found = _proposal(last, table, as_of=as_of)
    others = [
        Doubt(kind=DoubtKind.OTHER_COLUMNS, values=(each.looked.file, *_difference(each, last)))
        for each in seen[:-1]
        if _titles(each) != _titles(last)
    ]
    return replace(found, looked=tuple(each.looked for each in seen), doubts=(*others, *found.doubts))


def _titles(seen: Seen) -> list[FileName]:
    return [raw.written for raw in seen.columns]


def _difference(one: Seen, other: Seen) -> tuple[str, ...]:
    return tuple(str(each) for each in _titles(one) if each not in _titles(other))[:_QUOTED]


def look(path: Path) -> Seen:
    """The columns of a file as they are written.

    Raises:
        UnreadableFile: It is none of which records could be read.
    """
    if path.is_dir():
        return _of_table(path)
    sample = read_sample(path)
    if sample.head.startswith(b"PAR1"):
        return _of_parquet(path, sample)
    if sample.is_workbook:
        return _of_workbook(path, sample)
    if sample.head.startswith(b"Obj\x01"):
        text, is_whole = lines_of_avro(path)
        records = documents_of(text, is_whole=True)
        seen = _of_json(sample, Json(), records.records if records else ())
        return replace(seen, reads=Avro(), looked=replace(seen.looked, format="Avro", is_whole=is_whole))
    encoding = encoding_of(sample.head[: 1 << 16])
    text = sample.head.decode(encoding.name, "replace").removeprefix("\ufeff")
    if text.lstrip()[:1] in ("{", "[") and (found := documents_of(text, is_whole=sample.is_whole)) is not None:
        seen = _of_json(sample, found.reads, found.records)
        if found.document is None or event_times([typed(raw) for raw in seen.columns]):
            return seen
        return _of_json(sample, None if "\n" not in text.strip() else Json(), [found.document])
    if text.lstrip()[:1] == "<":
        raise BadFile(path=str(path), fault=Fault.PAGE, why="is a page or XML, which has no records")
    if "\x00" in text[:4096]:
        raise BadFile(path=str(path), fault=Fault.NOT_TEXT, why="is neither text nor Parquet")
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


def _of_table(folder: Path) -> Seen:
    """The columns of a Delta or an Iceberg table in a folder."""
    metadata = newest_metadata(folder)
    try:
        if is_delta(folder):
            rows, form = first_rows_of_delta(folder, MOST_ROWS), "Delta"
            captured = ("LakeTable", "url", str(folder.resolve()))
        elif metadata is not None:
            rows, form = first_rows_of_iceberg(metadata, MOST_ROWS), "Iceberg"
            captured = ("IcebergTable", "table", str(metadata.resolve()))
        else:
            why = "is a folder, and neither a Delta nor an Iceberg table"
            raise BadFile(path=str(folder), fault=Fault.FOLDER, why=why)
    except ValueError as error:
        raise BadFile(path=str(folder), fault=Fault.DAMAGED, why=f"cannot be read: {error}") from error
    size, is_whole = rows.nbytes, rows.num_rows < MOST_ROWS
    looked = Looked(
        file=folder.name, size_bytes=size, read_bytes=size, is_whole=is_whole, format=form, records=rows.num_rows
    )
    return replace(_of_arrow(rows, looked), captured=captured)


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
    if any(
        isinstance(each, dict) and (("before" in each and "op" in each) or ("payload" in each and "schema" in each))
        for each in records[:20]
    ):
        doubts.append(Doubt(kind=DoubtKind.ENVELOPE))
    for path, values in columns_of(records).items():  # type: ignore[arg-type]
        present = [value for value in values if value is not None]
        is_text = any(not isinstance(value, Number | bool) for value in present)
        kind = "BOOLEAN" if present and all(isinstance(value, bool) for value in present) else ""
        columns.append(Raw(written=path, texts=[text_of(value) for value in values], is_text=is_text, kind=kind))
        if is_text and any(isinstance(value, Number | bool) for value in present):
            texts = tuple(str(text_of(value)) for value in present if isinstance(value, Number | bool))
            doubts.append(Doubt(kind=DoubtKind.MIXED, column=path, values=texts[:_QUOTED], records=len(texts)))
    looked = _looked(sample, "JSON lines" if reads is None else "JSON", len(records))
    if reads is None and not sample.file.lower().endswith(_JSON_LINES):
        reads = Json()
    return Seen(looked=looked, reads=reads, columns=tuple(columns), doubts=tuple(doubts))


def _of_rows(sample: Sample, text: str, encoding: str, doubts: tuple[Doubt, ...]) -> Seen:
    dialect = dialect_of(text)
    parts = [] if encoding.startswith("utf-16") else [part.decode(encoding, "replace") for part in sample.parts]
    table = table_of(text, dialect, is_whole=sample.is_whole, parts=parts)
    rows = _bounded(table.rows)
    written: list[FileName] = written_names(table.header) if dialect.header else [*range(len(table.header))]
    raws = [Raw(written=name, texts=[row[place] or None for row in rows]) for place, name in enumerate(written)]
    left_out = tuple(
        str(raw.written) for raw in raws if dialect.header and isinstance(raw.written, int) and not raw.values
    )
    raws = [raw for raw in raws if str(raw.written) not in left_out]
    numbers = numbers_of([raw.values[:2_000] for raw in raws])
    nulls = _nulls(raws, numbers)
    cleared = [replace(raw, texts=[None if text in nulls else text for text in raw.texts]) for raw in raws]
    pairs = [pair for raw in cleared if (pair := truths_of(raw.values)) and len(set(raw.values)) > 1]
    return Seen(
        looked=replace(_looked(sample, "CSV", len(rows)), is_whole=sample.is_whole and len(rows) == len(table.rows)),
        reads=_csv(sample, dialect, encoding, numbers, nulls, pairs) or (Csv() if table.repeated else None),
        columns=tuple(cleared),
        numbers=numbers,
        doubts=(*doubts, *_doubts_of_rows(dialect, table), *_doubts_of_nulls(raws, numbers)),
        left_out=left_out,
    )


def _of_workbook(path: Path, sample: Sample) -> Seen:
    try:
        sheets = sheets_of(path)
    except OSError as error:
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
    found: set[str] = set()
    for raw in raws:
        values = raw.values
        found |= always_null(values)
        if candidates := null_texts(values):
            rest = [text for text in values if text not in candidates]
            if rest and typed(Raw(written=raw.written, texts=rest), how).kind != "STRING":
                found |= candidates
    return frozenset(found)


def _csv(
    sample: Sample,
    dialect: Delimited,
    encoding: str,
    numbers: Numbers,
    nulls: frozenset[str],
    pairs: Sequence[tuple[str, str]],
) -> Csv | None:
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
    is_plain = sample.file.lower().endswith(_PLAIN_CSV) or sample.packed == "zip"
    return None if declared == Csv() and is_plain else declared


def _doubts_of_rows(dialect: Delimited, table: Table) -> Iterator[Doubt]:
    if dialect.duckdb:
        yield Doubt(kind=DoubtKind.DIALECT, values=(dialect.delimiter, dialect.duckdb))
    if table.ragged:
        yield Doubt(kind=DoubtKind.RAGGED, records=len(table.ragged), first=table.ragged[0], rejects=True)
    if table.repeated:
        yield Doubt(kind=DoubtKind.REPEATED_HEADER, records=len(table.repeated), first=table.repeated[0])
    if table.blank:
        yield Doubt(kind=DoubtKind.NO_VALUE, records=len(table.blank), first=table.blank[0], rejects=True)


def _doubts_of_nulls(raws: Sequence[Raw], how: Numbers) -> Iterator[Doubt]:
    for raw in raws:
        values = raw.values
        texts = null_texts(values)
        rest = [text for text in values if text not in texts]
        is_text = bool(rest) and typed(Raw(written=raw.written, texts=rest), how).kind == "STRING"
        if texts and is_text:
            count = sum(text in texts for text in values)
            yield Doubt(kind=DoubtKind.NULL_TEXT, column=str(raw.written), values=tuple(sorted(texts)), records=count)
        if found := sentinels(values):
            count = sum(text in found for text in values)
            yield Doubt(kind=DoubtKind.SENTINEL, column=str(raw.written), values=found, records=count)


# ------------------------------------------------------------------------------------------------------------ proposal


def _proposal(seen: Seen, table: str, *, as_of: datetime) -> Proposal:
    columns = [typed(raw, seen.numbers) for raw in seen.columns]
    times = event_times(columns)
    chosen = times[0] if times else None
    kept = [_without_year(column, chosen) for column in columns if chosen is None or column.raw not in chosen.parts]
    if chosen is not None and chosen.parts:
        place = next(place for place, column in enumerate(columns) if column.raw is chosen.parts[0])
        kept.insert(sum(column.raw not in chosen.parts for column in columns[:place]), chosen.column)
    taken: set[str] = set()
    written = [column.raw.written for column in kept]
    names = [contract_name(each, taken) for each in (leaves(written) if isinstance(seen.reads, Json) else written)]
    proposed = tuple(
        ProposedColumn(
            name=name,
            written=column.raw.written,
            kind=column.kind,
            forms=column.forms,
            is_local=column.is_local and column.kind == "TIMESTAMP",
            values=len(column.raw.values),
            nulls=len(column.raw.texts) - len(column.raw.values),
            fitting=column.fitting,
        )
        for name, column in zip(names, kept, strict=True)
    )
    found = Proposal(
        name=table,
        looked=(seen.looked,),
        reads=seen.reads,
        columns=proposed,
        left_out=seen.left_out,
        key=(),
        event_time="",
        doubts=seen.doubts,
        capture="{}(\n    {}={},\n)".format(*seen.captured[:2], json.dumps(seen.captured[2])) if seen.captured else "",
        capture_names=seen.captured[:1] if seen.captured else (),
    )
    of_columns = tuple(_doubts_of_columns(names, kept, seen.numbers))
    if chosen is None:
        return replace(found, doubts=(Doubt(kind=DoubtKind.NO_EVENT_TIME), *seen.doubts, *of_columns))
    by_raw = {id(column.raw): name for name, column in zip(names, kept, strict=True)}
    event_time = by_raw[id(chosen.column.raw)]
    found = _with_times(found, chosen.column, event_time, as_of=as_of)
    found = _with_key(found, names, kept, event_time, chosen.column)
    if found.has_row_number:
        found = _without_filled(found)
    return replace(
        found,
        event_times=tuple(by_raw[id(each.column.raw)] for each in times[1:] if id(each.column.raw) in by_raw),
        orders=tuple(name for name in names if is_order(name) and name != event_time),
        doubts=(*_doubts_of_time(found, chosen, event_time), *found.doubts, *of_columns),
    )


def _without_filled(found: Proposal) -> Proposal:
    """A proposal without the columns of the file that have the names of those which landing fills."""
    filled = tuple(each.name for each in found.columns if each.written in RESERVED)
    taken = {*RESERVED, *(each.name.casefold() for each in found.columns)}
    columns = tuple(
        replace(each, name=contract_name(each.name, taken)) if each.name.casefold() in RESERVED else each
        for each in found.columns
        if each.name not in filled
    )
    return replace(found, columns=columns, left_out=(*found.left_out, *filled))


def _without_year(column: Typed, chosen: EventTime | None) -> Typed:
    """A column of the contract: the event time is as it was found, others by their own texts."""
    return chosen.column if chosen is not None and column.raw is chosen.column.raw else column


def _with_times(found: Proposal, column: Typed, event_time: str, *, as_of: datetime) -> Proposal:
    times = [at for at in column.times() if at is not None]
    if not times:
        return replace(found, event_time=event_time)
    days = sorted({at.date() for at in times})
    gap = max(((after - before).days - 1 for before, after in pairwise(days)), default=0)
    is_planned = max(times) > as_of.replace(tzinfo=None) + timedelta(days=1)
    return replace(
        found,
        event_time=event_time,
        is_planned=is_planned,
        first_on=days[0],
        last_on=days[-1],
        longest_gap_days=gap,
    )


def _with_key(found: Proposal, names: Sequence[str], kept: Sequence[Typed], event_time: str, time: Typed) -> Proposal:
    times = [at for at in time.times() if at is not None]
    of_records = [
        Column(name=name, kind=column.kind, values=column.raw.texts) for name, column in zip(names, kept, strict=True)
    ]
    keys = keys_of(of_records, event_time, is_series=is_series(times))
    doubts: tuple[Doubt, ...] = found.doubts
    if not keys:
        doubts = (Doubt(kind=DoubtKind.NO_KEY), *doubts)
    elif not found.is_whole or found.records < 1_000:
        doubts = (Doubt(kind=DoubtKind.KEY_OF_SAMPLE, values=keys[0], records=found.records), *doubts)
    return replace(found, key=keys[0] if keys else (), keys=tuple(keys[1:]), has_row_number=not keys, doubts=doubts)


def _doubts_of_time(found: Proposal, chosen: EventTime, event_time: str) -> Iterator[Doubt]:
    column = chosen.column
    form = column.form
    missing = len(column.raw.texts) - column.fitting
    if missing:
        numbers = [n for n, at in enumerate(column.times(), 1) if at is None]
        texts = tuple(dict.fromkeys(str(column.raw.texts[n - 1] or "") for n in numbers))[:_QUOTED]
        yield Doubt(
            kind=DoubtKind.NOT_A_VALUE,
            column=event_time,
            values=texts,
            records=missing,
            first=numbers[0] if numbers else 1,
            rejects=True,
        )
    if found.has_local_times:
        local = tuple(each.name for each in found.columns if each.is_local)
        yield Doubt(kind=DoubtKind.ZONE, column=event_time, values=local[:_QUOTED])
    if form is not None and form.others:
        yield Doubt(kind=DoubtKind.DAY_OR_MONTH, column=event_time, values=(*form.patterns[:1], *form.others[:2]))
    if form is not None and any("yy" in each and "yyyy" not in each for each in form.patterns):
        yield Doubt(kind=DoubtKind.TWO_DIGIT_YEAR, column=event_time, values=form.patterns)
    if column.unit is not None:
        yield Doubt(kind=DoubtKind.EPOCH, column=event_time, values=(column.unit, *column.raw.values[:1]))
    if found.first_on is not None and found.first_on.year < 1999:
        yield Doubt(kind=DoubtKind.FIRST_DAY, column=event_time, values=(found.first_on.isoformat(),), rejects=True)
    if found.is_planned:
        yield Doubt(kind=DoubtKind.FUTURE, column=event_time, values=(str(found.last_on),))
    if found.longest_gap_days > _PLAUSIBLE_GAP_DAYS:
        yield Doubt(kind=DoubtKind.GAPS, column=event_time, records=found.longest_gap_days)


def _doubts_of_columns(names: Sequence[str], kept: Sequence[Typed], how: Numbers) -> Iterator[Doubt]:
    for name, column in zip(names, kept, strict=True):
        values = column.raw.values
        if not values:
            yield Doubt(kind=DoubtKind.NO_VALUE, column=name)
        elif column.kind == "STRING" and not column.raw.kind:
            if all(MONEY.fullmatch(text) for text in values):
                yield Doubt(kind=DoubtKind.MONEY, column=name, values=tuple(values[:2]))
            elif not column.raw.is_text:
                yield from _mixed(name, values, how)


def _mixed(name: str, values: Sequence[str], how: Numbers) -> Iterator[Doubt]:
    """Texts among numbers or times, which keep the column from being a number or a time."""
    kind, fitting = kind_of_numbers(values, how)
    if kind and fitting < len(values):
        others = tuple(dict.fromkeys(text for text in values if how.plain(text) is None))
        yield Doubt(kind=DoubtKind.MIXED, column=name, values=(kind, *others[:_QUOTED]), records=len(values) - fitting)
    elif (form := time_form(values)) is not None and form.fitting < len(values):
        others = tuple(dict.fromkeys(text for text in values if form.read(text) is None))
        kind = "DATE" if form.is_date else "TIMESTAMP"
        yield Doubt(
            kind=DoubtKind.MIXED, column=name, values=(kind, *others[:_QUOTED]), records=len(values) - form.fitting
        )

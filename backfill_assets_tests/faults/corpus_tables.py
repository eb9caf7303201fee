"""Hostile CSV and Parquet files."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from backfill_assets_tests.faults.corpus_values import (
    BAD_TIMES,
    BAD_WHOLE,
    COLUMNS,
    GOOD_TIMES,
    GOOD_WHOLE,
    ODD_TEXTS,
    REJECTED,
    Author,
    Fate,
    Hostile,
    valid,
)


def csv_file(kind: str, author: Author, count: int) -> Hostile:
    """A CSV, its dialect and header as the kind says."""
    header = [*COLUMNS]
    if kind == "extra columns":
        header += ["extra", "extra", "Event_Id"]
    if kind == "other order":
        author.random.shuffle(header)
    if kind == "renamed optional columns":
        header = [{"place": "Place"}.get(name, name) for name in header]
    ending = {"crlf": "\r\n", "cr": "\r"}.get(kind, "\n")
    # Python's writer does not quote LF when rows end in CR.
    quoting: Literal[0, 1] = csv.QUOTE_ALL if kind in ("all quoted", "cr") else csv.QUOTE_MINIMAL
    rows, fates = [], []
    for _ in range(count):
        row, fate = csv_row(author, header, breaks=kind == "line breaks in quotes")
        rows.append(row)
        fates.append(fate)
    for _ in range(count // 20):
        again = author.random.randrange(count)
        rows.append(rows[again])
        fates.append(fates[again])
    out = io.StringIO()
    writer = csv.writer(out, lineterminator=ending, quoting=quoting)
    writer.writerow(header)
    for row in rows:
        writer.writerow(row)
        if kind == "blank lines" and author.random.random() < 0.2:
            out.write(ending)
    text = out.getvalue()
    if kind == "no last line break":
        text = text.removesuffix(ending)
    content = text.encode()
    if kind == "bom":
        content = b"\xef\xbb\xbf" + content
    if kind == "not UTF-8":
        # The rows with a letter beyond ASCII lose it; every other row stays as it is.
        fates = [None if "ì" in "".join(row) else fate for row, fate in zip(rows, fates, strict=True)]
        content = text.replace("ì", "\udcec").encode("utf-8", "surrogateescape")
    return Hostile(kind=f"CSV, {kind}", name="events.csv", content=content, records=tuple(fates))


def csv_row(author: Author, header: Sequence[str], *, breaks: bool) -> tuple[list[str], Fate]:
    """One row and its fate."""
    chance = author.random
    values: dict[str, Any] = author.values()
    fate: Fate | str = "valid"
    match chance.randrange(16):
        case 0:
            values["event_time"] = chance.choice(GOOD_TIMES)
        case 1:
            values["event_time"], fate = chance.choice(BAD_TIMES), REJECTED
        case 2:
            values["place"] = chance.choice([text for text in ODD_TEXTS if "\u0085" not in text])
        case 3:
            values["schema_version"] = chance.choice(GOOD_WHOLE)
        case 4:
            values["schema_version"], fate = chance.choice(BAD_WHOLE), REJECTED
        case 5:
            values["attributes"] = chance.choice(["{}", '{"a": "b, \\"c\\""}', '{"a": [1, 2]}'])
        case 6:
            values["attributes"], fate = chance.choice(["[1]", "text", "{", "{'a': 1}", "null", "5"]), REJECTED
        case 7:
            values[chance.choice(["event_id", "event_time"])], fate = chance.choice(["", "  "]), REJECTED
        case 8:
            values["place"] = chance.choice(['say "hi"', "a,b,,c", '"', ",", "'", "Forlì", "\\", 'back\\"slash'])
        case 9 if breaks:
            values["place"] = chance.choice(["two\nlines", "\n", "a\n\nb", '"\n"', "x\n,y"])
    row = [str(values.get({"Place": "-", "extra": "-", "Event_Id": "-"}.get(name, name)) or "") for name in header]
    if chance.random() < 0.04:
        width = chance.choice([-1, 1, 3])
        return (row[:width] if width < 0 else [*row, *["x"] * width]), REJECTED
    if fate is REJECTED:
        return row, REJECTED
    known: dict[str, Any] = {
        name: values.get(name) for name in COLUMNS if name in header and values.get(name) is not None
    }
    if "schema_version" in known:
        known["schema_version"] = int(known["schema_version"])
    return row, valid(known)


CSV_KINDS = (
    "plain",
    "bom",
    "crlf",
    "cr",
    "all quoted",
    "line breaks in quotes",
    "blank lines",
    "extra columns",
    "other order",
    "renamed optional columns",
    "no last line break",
    "not UTF-8",
)

# ------------------------------------------------------------------------------------------------ Parquet

AT = datetime(2024, 5, 1, 10, tzinfo=UTC)


def parquet_file(kind: str, author: Author, count: int) -> Hostile:
    """A Parquet file, its columns of the physical types that the kind says."""
    rows = [author.values() for _ in range(count)]
    rows += [rows[author.random.randrange(count)] for _ in range(count // 20)]
    fates: list[Fate] = [valid(row) for row in rows]
    columns: dict[str, Any] = {name: pa.array([row[name] for row in rows]) for name in COLUMNS[:3]}
    times = [datetime.fromisoformat(row["event_time"]) for row in rows]
    options: dict[str, Any] = {}
    match kind:
        case "int96":
            columns["event_time"] = pa.array(times, pa.timestamp("ns"))
            options["use_deprecated_int96_timestamps"] = True
        case "nanoseconds" | "microseconds" | "milliseconds" | "seconds":
            unit = {"nanoseconds": "ns", "microseconds": "us", "milliseconds": "ms", "seconds": "s"}[kind]
            columns["event_time"] = pa.array(times, pa.timestamp(unit, tz="America/New_York"))
        case "dictionaries":
            columns = {name: column.dictionary_encode() for name, column in columns.items()}
        case "bytes":
            odd = [author.random.random() < 0.1 for _ in rows]
            columns["place"] = pa.array(
                [b"\xff\xfe" if o else r["place"].encode() for o, r in zip(odd, rows, strict=True)], pa.binary()
            )
            fates = [None if o else fate for o, fate in zip(odd, fates, strict=True)]
        case "doubles and decimals":
            found = [author.random.choice([1.0, 2.5, float("nan"), float("inf"), 1e300, None]) for _ in rows]
            columns["schema_version"] = pa.array(found, pa.float64())
            fates = [
                valid({**row, "schema_version": None if f is None else int(f)}) if f in (1.0, None) else None
                for f, row in zip(found, rows, strict=True)
            ]
        case "unsigned":
            numbers = [author.random.choice([1, 2**31 - 1, 2**31, 2**64 - 1]) for _ in rows]
            columns["schema_version"] = pa.array(numbers, pa.uint64())
            fates = [
                valid({**row, "schema_version": n}) if n < 2**31 else None for n, row in zip(numbers, rows, strict=True)
            ]
        case "nested":
            attributes = [author.random.choice([None, {"a": 1, "b": ["x"]}]) for _ in rows]
            shape = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])
            columns["attributes"] = pa.array(attributes, shape)
            fates = [valid({**row, "attributes": a}) for a, row in zip(attributes, rows, strict=True)]
        case "odd values":
            columns, fates = _odd_parquet(author, rows)
        case "extra columns":
            columns["extra"] = pa.array([None] * len(rows), pa.null())
            columns["a.b `c`"] = pa.array([[1]] * len(rows))
            columns["how long"] = pa.array([timedelta(1)] * len(rows))
        case "small row groups":
            options["row_group_size"] = 7
    content = parquet(columns, **options)
    return Hostile(kind=f"Parquet, {kind}", name="events.parquet", content=content, records=tuple(fates))


def _odd_parquet(author: Author, rows: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], list[Fate]]:
    chance, made, fates = author.random, [], []
    for row in rows:
        values: dict[str, Any] = dict(row)
        fate: Any = "valid"
        match chance.randrange(8):
            case 0:
                values["event_time"], fate = chance.choice(BAD_TIMES), REJECTED
            case 1:
                values["event_time"] = chance.choice(GOOD_TIMES)
            case 2:
                values["event_id"], fate = chance.choice([None, "", " "]), REJECTED
            case 3:
                values["place"] = chance.choice([*ODD_TEXTS, "a\x00b", "two\r\nlines"])
            case 4:
                values["schema_version"], fate = chance.choice(BAD_WHOLE), REJECTED
            case 5:
                values["attributes"], fate = chance.choice(["[]", "{", "x" * 1_000, '{"a":' * 5_000]), REJECTED
        made.append(values)
        fates.append(valid(values) if fate == "valid" else None)
    return {name: pa.array([values.get(name) for values in made], pa.string()) for name in COLUMNS}, fates


def parquet(columns: dict[str, Any], **options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out, **options)
    return out.getvalue()


PARQUET_KINDS = (
    "strings",
    "int96",
    "nanoseconds",
    "microseconds",
    "milliseconds",
    "seconds",
    "dictionaries",
    "bytes",
    "doubles and decimals",
    "unsigned",
    "nested",
    "odd values",
    "extra columns",
    "small row groups",
)

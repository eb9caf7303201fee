"""Which files would hurt a reader of landed files, and what has to become of every record in them?

Every file is made from a seed, and comes with what its author knows: which records are valid, under which key and with
which content, or that the file as a whole has to be refused. Nothing here asks the product anything.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

Text = Callable[[random.Random], str]
COLUMNS = ("event_id", "event_time", "place", "attributes", "schema_version")
SHARED_KEYS = 150
"""So many keys occur in many files, so that files duplicate and supersede each other's records."""


@dataclass(frozen=True, slots=True)
class Valid:
    """A record that has to count under its key; two with equal content say the same."""

    key: str
    content: str


REJECTED = None
"""What a record is that breaks the contract."""

Fate = Valid | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hostile:
    """A file and what has to become of it.

    Attributes:
        kind: How it was made, as the table of results names it.
        name: Its name.
        content: Its bytes.
        records: Its records in order, or None when it has to be refused as a whole.
    """

    kind: str
    name: str
    content: bytes
    records: tuple[Fate, ...] | None


# ------------------------------------------------------------------------------------------------ values

GOOD_TIMES: Sequence[str] = (
    "2024-05-01T10:00:00Z",
    "2024-05-01 10:00:00+02:00",
    "2024-05-01T10:00-11:30",
    "2024-05-01T23:59:59.999999999+14:00",
    "2024-05-01T10:00:00+0530",
    "2024-05-01T10:00:00-03",
    "2024-03-31T02:30:00+01:00",  # in Rome's gap, and an instant all the same
    "2024-10-27T02:30:00+02:00",  # the first and the second half past two of Rome's fold
    "2024-10-27T02:30:00+01:00",
    "2024-02-29T00:00:00.1Z",
    "1999-01-01T00:00:00Z",
    "2026-01-15T11:59:59Z",
)
BAD_TIMES: Sequence[str] = (
    "0000-01-01T00:00:00Z",
    "0001-01-01T00:00:00Z",
    "-001-01-01T00:00:00Z",
    "-0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59-14:00",
    "10000-01-01T00:00:00Z",
    "+294247-01-10T04:00:54Z",
    "1998-12-31T23:59:59Z",
    "2026-01-15T12:00:01Z",
    "2024-05-01T10:00:00",
    "2024-03-31T02:30:00 Europe/Rome",
    "2024-10-27T02:30:00[Europe/Rome]",
    "2024-05-01",
    "2016-12-31T23:59:60Z",
    "2023-02-29T00:00:00Z",
    "2024-04-31T00:00:00Z",
    "2024-13-01T00:00:00Z",
    "2024-05-01T24:00:01Z",
    "2024-05-01T10:60:00Z",
    "2024-05-01T10:00:00+25:00",
    "2024-05-01T10:00:00+02:75",
    "2024-05-01T10:00:00.1234567890Z",
    "1714557600",
    "1e400",
    "NaN",
    "\u0662\u0660\u0662\u0664-\u0660\u0665-\u0660\u0661T\u0661\u0660:\u0660\u0660:\u0660\u0660Z",
    "2024-05-01T10:00:00Z; DROP TABLE runs",
    "tomorrow",
)
ODD_TEXTS: Sequence[str] = (
    "Forlì",
    "🚓 \U0001f1ee\U0001f1f9",
    "\u202egnp.exe",
    "\x1b[31mred\x1b[0m",
    "[red]markup[/red] <script>alert(1)</script>",
    "'; DROP TABLE runs;--",
    "NaN",
    "null",
    "-",
    "\u2028\u0085\ufeff",
    "e\u0301" * 20,
    "\\N",
    "=cmd()",
)
GOOD_WHOLE: Sequence[str] = ("0", "7", "+7", "-3", "2147483647", "-2147483648", "0000000000000000042")
BAD_WHOLE: Sequence[str] = (
    "2147483648",
    "-2147483649",
    str(2**63),
    str(10**40),
    "1" * 400,
    "1e400",
    "1.0",
    "1.5",
    "NaN",
    "Infinity",
    "0x10",
    "1_000",
    "\u0661",
    "two",
    "1 2",
)


@dataclass
class Author:
    """Makes records with known fates.

    Attributes:
        random: Everything that varies comes from it.
        prefix: Of the keys that occur in no other file.
    """

    random: random.Random
    prefix: str
    made: int = 0

    def key(self) -> str:
        """A key: mostly one of its own, sometimes one that other files have too."""
        self.made += 1
        if self.random.random() < 0.15:
            return f"shared{self.random.randrange(SHARED_KEYS)}"
        return f"{self.prefix}{self.made}"

    def values(self) -> dict[str, Any]:
        """A valid record as plain values; few different contents, so that repetitions say the same."""
        at = datetime(2024, 5, 1, 10, tzinfo=UTC) + timedelta(days=self.random.randrange(4))
        return {"event_id": self.key(), "event_time": at.isoformat(), "place": f"p{self.random.randrange(2)}"}


def valid(values: dict[str, Any]) -> Valid:
    """The fate of a record whose contract values are these; what is not among them is null."""
    known = {name: values[name] for name in COLUMNS if values.get(name) is not None}
    known["event_time"] = datetime.fromisoformat(known["event_time"]).astimezone(UTC).isoformat()
    return Valid(str(values["event_id"]), json.dumps(known, sort_keys=True))


# ------------------------------------------------------------------------------------------------ JSON lines

Line = tuple[bytes, Fate]


def _dumped(values: dict[str, Any]) -> bytes:
    return json.dumps(values, ensure_ascii=False).encode()


def json_line(author: Author) -> Line:
    """One line: half of the time an ordinary record, else a hostile one."""
    chance = author.random
    values = author.values()
    if chance.random() < 0.5:
        return _dumped(values), valid(values)
    return chance.choice(_JSON_MUTATIONS)(author, values)


def _json_good_time(author: Author, values: dict[str, Any]) -> Line:
    values["event_time"] = author.random.choice(GOOD_TIMES)
    return _dumped(values), valid(values)


def _json_bad_time(author: Author, values: dict[str, Any]) -> Line:
    values["event_time"] = author.random.choice([*BAD_TIMES, 1714557600, 1e300, True, [], {}, ["2024-05-01T10:00:00Z"]])
    return _dumped(values), REJECTED


def _json_odd_text(author: Author, values: dict[str, Any]) -> Line:
    values["place"] = author.random.choice([*ODD_TEXTS, "a\x00b", "x" * 5_000])
    return json.dumps(values, ensure_ascii=author.random.random() < 0.5).encode(), valid(values)


def _json_whole(author: Author, values: dict[str, Any]) -> Line:
    number = author.random.choice(GOOD_WHOLE)
    values["schema_version"] = int(number)
    line = {**values, "schema_version": number if author.random.random() < 0.5 else int(number)}
    return _dumped(line), valid(values)


def _json_not_whole(author: Author, values: dict[str, Any]) -> Line:
    choice = author.random.choice([*BAD_WHOLE, 2**31, 2**63, 10**40, 1.5, 1e300, True, [1], {"a": 1}])
    values["schema_version"] = choice
    return _dumped(values), REJECTED


def _json_raw_number(author: Author, values: dict[str, Any]) -> Line:
    raw = author.random.choice([b"1e400", b"-1e400", b"NaN", b"Infinity", b"-Infinity", b"01", b"+1", b".5", b"0x1F"])
    return _dumped(values)[:-1] + b', "schema_version": ' + raw + b"}", REJECTED


def _json_attributes(author: Author, values: dict[str, Any]) -> Line:
    good: list[Any] = [{}, {"a": None}, {"a": [1, {"b": "c"}]}, '{"as": "text"}', {"n": 2**70}]
    values["attributes"] = author.random.choice(good)
    return _dumped(values), valid(values)


def _json_bad_attributes(author: Author, values: dict[str, Any]) -> Line:
    bad: list[Any] = [[1], "text", 5, True, "[1]", "{", '{"a": 1} {"b": 2}', '{"a": NaN}', "null"]
    values["attributes"] = author.random.choice(bad)
    return _dumped(values), REJECTED


def _json_deep(author: Author, values: dict[str, Any]) -> Line:
    deep = author.random.choice([2_000, 10_000])
    opened, closed = author.random.choice([(b'{"a":', b"}"), (b"[", b"]")])
    return _dumped(values)[:-1] + b', "attributes": ' + opened * deep + b"1" + closed * deep + b"}", REJECTED


def _json_extra(author: Author, values: dict[str, Any]) -> Line:
    more = {"extra": 1, "Event_Id": "other", "": "no name", "nested": {"event_id": "inner"}}
    names = author.random.sample(sorted(more), 2)
    return _dumped({**values, **{name: more[name] for name in names}}), valid(values)


def _json_missing(author: Author, values: dict[str, Any]) -> Line:
    name = author.random.choice(["event_id", "event_time"])
    if author.random.random() < 0.3:
        del values[name]
    else:
        values[name] = author.random.choice([None, "", "  "])
    return _dumped(values), REJECTED


def _json_twice(author: Author, values: dict[str, Any]) -> Line:
    again = author.random.choice(
        [b'"event_id": "other"', b'"place": null', b'"\\u0065vent_id": "other"', b'"x":1,"x":2']
    )
    return _dumped(values)[:-1] + b", " + again + b"}", REJECTED


def _json_broken(author: Author, values: dict[str, Any]) -> Line:
    whole = _dumped({**values, "place": "somewhere"})
    cut = whole[: author.random.randrange(1, len(whole))]
    return author.random.choice(
        [
            cut,
            whole + b",",
            whole + whole,
            whole + b" trailing",
            b"[" + whole + b"]",
            whole.replace(b'"', b"'"),
            whole[:-1] + b",}",
            b"// " + whole,
            whole[:-1] + b' /* why */, "x": 1}',
            b"null",
            b"5",
            b'"text"',
            b"[]",
            b"{}",
            b"}" + whole,
            b"\x00" + whole,
            whole.replace(b"some", b"so\x00me"),
            whole.replace(b"some", b"so\tme"),
            b"event_id,event_time",
        ]
    ), REJECTED


def _json_bytes(author: Author, values: dict[str, Any]) -> Line:
    bad = author.random.choice([b"\xff\xfe", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\x80"])
    return _dumped({**values, "place": "@"}).replace(b"@", bad), REJECTED


_JSON_MUTATIONS: Sequence[Callable[[Author, dict[str, Any]], Line]] = (
    _json_good_time,
    _json_bad_time,
    _json_odd_text,
    _json_whole,
    _json_not_whole,
    _json_raw_number,
    _json_attributes,
    _json_bad_attributes,
    _json_extra,
    _json_missing,
    _json_twice,
    _json_broken,
    _json_broken,
    _json_bytes,
) * 6 + (_json_deep,)


def json_file(kind: str, author: Author, count: int) -> Hostile:
    """A file of JSON lines, its lines ended and wrapped as the kind says."""
    lines = [json_line(author) for _ in range(count)]
    lines += [lines[author.random.randrange(count)] for _ in range(count // 20)]
    texts, fates = [line for line, _ in lines], tuple(fate for _, fate in lines)
    ending = {"crlf": b"\r\n", "cr": b"\r"}.get(kind, b"\n")
    content = ending.join(texts) + ending
    match kind:
        case "bom":
            content = b"\xef\xbb\xbf" + content
        case "no last line break":
            content = content.removesuffix(ending)
        case "blank lines":
            content = b"\n \t\r\n".join(texts) + b"\n\n\n"
        case "mixed line ends":
            content = b"".join(text + author.random.choice([b"\n", b"\r\n", b"\r"]) for text in texts)
    return Hostile(kind=f"JSON lines, {kind}", name="events.jsonl", content=content, records=fates)


JSON_KINDS = ("plain", "bom", "crlf", "cr", "no last line break", "blank lines", "mixed line ends")


def gzip_file(kind: str, author: Author, count: int) -> Hostile:
    """A gzipped file of JSON lines, or of CSV."""
    whole = csv_file("plain", author, count) if kind == "csv" else json_file("plain", author, count)
    content, records = gzip.compress(whole.content), whole.records
    match kind:
        case "two members":
            middle = len(whole.content) // 2
            content = gzip.compress(whole.content[:middle]) + gzip.compress(whole.content[middle:])
        case "an empty member":
            content = gzip.compress(b"") + content + gzip.compress(b"")
        case "zeros behind":
            content, records = content + b"\x00" * 512, None
        case "cut":
            content, records = content[: -author.random.randrange(1, len(content))], None
        case "bytes behind":
            content, records = content + b"and more", None
        case "a flipped byte":
            at = author.random.randrange(len(content) // 4, len(content) * 3 // 4)
            content, records = content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :], None
        case "not gzip":
            content, records = whole.content, None
    return Hostile(kind=f"gzip, {kind}", name=whole.name + ".gz", content=content, records=records)


GZIP_KINDS = ("plain", "csv", "two members", "an empty member")
GZIP_REFUSED = ("zeros behind", "cut", "bytes behind", "a flipped byte", "not gzip")


# ------------------------------------------------------------------------------------------------ CSV


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
    quoting: Literal[0, 1] = csv.QUOTE_ALL if kind == "all quoted" else csv.QUOTE_MINIMAL
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

# ------------------------------------------------------------------------------------------------ all of them

_MAKERS: Sequence[tuple[Callable[[str, Author, int], Hostile], Sequence[str]]] = (
    (json_file, JSON_KINDS),
    (csv_file, CSV_KINDS),
    (gzip_file, GZIP_KINDS),
    (parquet_file, PARQUET_KINDS),
)
KINDS: Sequence[tuple[Callable[[str, Author, int], Hostile], str]] = tuple(
    (make, kind) for make, kinds in _MAKERS for kind in kinds
)


def hostile_file(seed: int, number: int, count: int) -> Hostile:
    """The file of that number of a seed, with `count` records and some repetitions; kinds take turns."""
    make, kind = KINDS[number % len(KINDS)]
    author = Author(random.Random(f"{seed}/{number}"), prefix=f"f{number}-")
    return make(kind, author, count)

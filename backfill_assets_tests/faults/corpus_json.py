"""Hostile JSON lines, plain and compressed."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from typing import Any

from backfill_assets_tests.faults.corpus_tables import csv_file
from backfill_assets_tests.faults.corpus_values import (
    BAD_TIMES,
    BAD_WHOLE,
    EXACT_NUMBERS,
    GOOD_TIMES,
    GOOD_WHOLE,
    ODD_TEXTS,
    REJECTED,
    Author,
    Fate,
    Hostile,
    valid,
)

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
    raw = author.random.choice(
        [
            b"1e400",
            b"-1e400",
            b"NaN",
            b"Infinity",
            b"-Infinity",
            b"01",
            b"+1",
            b".5",
            b"1.",
            b"1e",
            b"-",
            b"0x1F",
            b"1: 2",
        ]
    )
    return _dumped(values)[:-1] + b', "schema_version": ' + raw + b"}", REJECTED


def _json_exact_number(author: Author, values: dict[str, Any]) -> Line:
    number = author.random.choice(EXACT_NUMBERS)
    name = author.random.choice(["place", "attributes"])
    values[name] = {"n": [number]} if name == "attributes" else number
    raw = f'{{"n": [{number}]}}' if name == "attributes" else number
    return _dumped({**values, name: "@"}).replace(b'"@"', raw.encode()), valid(values)


def _json_half_pair(author: Author, values: dict[str, Any]) -> Line:
    half = author.random.choice([b"\\ud800", b"\\uDFFF\\ud800", b"\\\\\\udc00"])
    name = author.random.choice([b"@", b"x"])
    return _dumped({**values, "place": "@"}).replace(
        b'"place": "@"', b'"' + name + b'place": "' + half + b'"'
    ), REJECTED


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
    _json_exact_number,
    _json_half_pair,
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

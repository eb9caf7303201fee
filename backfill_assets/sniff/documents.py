"""Documents: where the records of a text of JSON are, and the members of a record that become columns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backfill_assets.domain.dialects import Json

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

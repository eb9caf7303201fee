"""JSON members: a record of a stream as the members of a line, beside the metadata of its stream."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import cache
from typing import Any, NoReturn

quoted = json.JSONEncoder(ensure_ascii=False).encode
"""A value as JSON on one line."""

_SPACE = b" \t\r\n"
"""The characters that JSON allows between tokens."""

PROBLEM, KINESIS_PROBLEM, FILE_PROBLEM = "kafka_problem", "kinesis_problem", "file_problem"
"""The members that say why the value of a landed record could not be read."""


class Digits(str):
    """A number of JSON, as it was written."""

    __slots__ = ()


def as_written(text: str | bytes) -> Any:
    """The value of a JSON text, with numbers as `Digits`.

    Raises:
        ValueError: It is no JSON, names a member twice, or is deeper than it can be read.
    """
    try:
        return json.loads(
            text, parse_float=Digits, parse_int=Digits, parse_constant=_no_number, object_pairs_hook=_named_once
        )
    except RecursionError:
        raise ValueError("too deep") from None


def _no_number(said: str) -> NoReturn:
    raise ValueError(said)


def _named_once(members: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(members)
    if len(found) < len(members):
        raise ValueError("a member is named twice")
    return found


def json_of(value: Any) -> str:
    """A value as JSON on one line: numbers with all their digits, bytes as Base64, what is no number as a text."""
    match value:
        case Digits():
            return str(value)
        case float() if not math.isfinite(value):
            return quoted("NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity")
        case Decimal():
            return f"{value:f}"
        case bytes():
            return quoted(base64.b64encode(value).decode())
        case Mapping():
            return "{" + ", ".join(f"{quoted(str(name))}: {json_of(each)}" for name, each in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(json_of, value)) + "]"
        case None | bool() | int() | float() | str():
            return quoted(value)
    return quoted(str(value))


_PLACE = re.compile(r"-?[0-9]{1,9}")


def member_at(document: Any, path: str, absent: Any = None) -> Any:
    """The value at a path in a document: a member with exactly that name; else members of members, and elements of
    arrays by their number from 0, or -1 for the last.

    Args:
        absent: What is given where it leads to nothing.
    """
    names = path.split(".")
    for many in range(len(names), 0, -1):
        first, rest = ".".join(names[:many]), ".".join(names[many:])
        if isinstance(document, dict) and first in document:
            found = document[first]
        elif isinstance(document, list) and _PLACE.fullmatch(first) and -len(document) <= int(first) < len(document):
            found = document[int(first)]
        else:
            continue
        found = member_at(found, rest, absent) if rest else found
        if found is not absent:
            return found
    return absent


def members_of(value: bytes, prefix: str) -> bytes | None:
    """The members of a JSON object, as they were written, on one line; None when the value is none.

    Args:
        prefix: How the members begin that say what the stream says of a record; an object with such members is none.
    """
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    inner = value.strip(_SPACE)
    if not (inner.startswith(b"{") and inner.endswith(b"}")):
        return None
    members = inner[1:-1].strip(_SPACE)
    # Otherwise what is no object does not become one by our own members, and none of its bytes is lost: then landing
    # says of the record what is wrong.
    is_changed = len(members) + len(b"{}") < len(value) or b"\n" in members or b"\r" in members
    if is_changed or not members or _name_with(prefix).search(members) or _MAY_END.search(members):
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(found, dict) or any(name.startswith(prefix) for name in found):
            return None
    # Line breaks of a JSON object are between its members: within a text they are escaped.
    return members.replace(b"\r", b" ").replace(b"\n", b" ")


_OBJECT = json.JSONDecoder(object_pairs_hook=lambda _: None, parse_int=len, parse_float=len)
"""Finds where an object ends, and keeps nothing of it."""
_MAY_END = re.compile(rb"\}[ \t\r\n]*,?[ \t\r\n]*\{")
"""What is between two objects of a value; also where they are elements of an array that is a member."""
_BETWEEN = re.compile(r"[ \t\r\n]*,?[ \t\r\n]*")


def objects_of(text: str) -> Sequence[str]:
    """The JSON objects of a text that holds several where one is expected, and none of any other text.

    They are one after the other, with or without commas, or in an array. The last one may be cut.
    """
    inner = text.strip(_SPACE.decode())
    inner, at = inner.removeprefix("[").lstrip(_SPACE.decode()), 0
    found: list[str] = []
    while inner.startswith("{", at):
        try:
            _, end = _OBJECT.raw_decode(inner, at)
        except (ValueError, RecursionError):
            end = len(inner)
        found.append(inner[at:end])
        between = _BETWEEN.match(inner, end)
        assert between is not None
        at = between.end()
    return found if len(found) > 1 else ()


def values_in(value: bytes) -> Sequence[bytes]:
    """The records in a value that holds several JSON objects where one is expected: each counts as a record. The first
    one has all of the value, so that it can be sent again as it was."""
    found = objects_of(value.decode(errors="surrogateescape")) if value.lstrip(_SPACE)[:1] in (b"{", b"[") else ()
    return [value, *(each.encode(errors="surrogateescape") for each in found[1:])] if found else ()


def several(count: int) -> str:
    """The reason for which each object of such a value is rejected."""
    return f"it is one of {count:,} JSON objects of one value, and each has to be a value of its own"


@cache
def _name_with(prefix: str) -> re.Pattern[bytes]:
    """The beginning of a name with a prefix, of which any character may be written as an escape."""
    characters = (rf"(?:{re.escape(each)}|\\u(?i:{ord(each):04x}))" for each in prefix)
    return re.compile(f'"{"".join(characters)}'.encode())


def text_or_base64(name: str, value: bytes) -> Mapping[str, str]:
    """A member with a text, or with bytes that are none."""
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}

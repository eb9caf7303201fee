"""JSON members: what a record of a stream holds, as the members of a line, next to what the stream says of it."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping

quoted = json.JSONEncoder(ensure_ascii=False).encode
"""A value as JSON on one line."""


def members_of(value: bytes, prefix: str) -> bytes | None:
    """The members of a JSON object, as they were written, on one line; None when the value is none.

    Args:
        prefix: How the members begin that say what the stream says of a record; an object with such members is none.
    """
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    value = value.strip(b" \t\r\n")
    if not (value.startswith(b"{") and value.endswith(b"}")):
        return None
    members = value[1:-1].strip(b" \t\r\n")
    # Otherwise what is no object does not become one by our own members: then landing says of the record what is wrong.
    if f'"{prefix}'.encode() in members or b"\n" in members or b"\r" in members or not members:
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(found, dict) or any(name.startswith(prefix) for name in found):
            return None
    # Line breaks of a JSON object are between its members: within a text they are escaped.
    return members.replace(b"\r", b" ").replace(b"\n", b" ")


def text_or_base64(name: str, value: bytes) -> Mapping[str, str]:
    """A member with a text, or with bytes that are none."""
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}

"""Can a text that somebody typed, or that came in a file, mislead whoever reads it later?

What is typed has to be one line without characters that steer a terminal or turn the direction of writing. What comes
in files is kept as it is, and such characters are shown as escapes.
"""

from __future__ import annotations

import re

MOST_CHARACTERS = 2_000
"""Enough for any reason; a text beyond it was not typed by a person."""

# Control characters, line and paragraph separators, direction marks and overrides, halves of a character.
_STEERING = "\x00-\x1f\x7f-\x9f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff"
_ANY = re.compile(f"[{_STEERING}]")
_ANY_BUT_LINE_BREAKS = re.compile(f"(?!\n)[{_STEERING}]")


def fault_of(text: str) -> str | None:
    """What keeps a typed text from being kept and shown as it is, as the end of a sentence; None when nothing does."""
    if len(text) > MOST_CHARACTERS:
        return f"is {len(text):,} characters long, and {MOST_CHARACTERS:,} are the most"
    found = _ANY.search(text)
    if found:
        return f"holds the character {_escaped(found)}, and it has to be one line without control characters"
    return None


def visible(text: str, *, keep_line_breaks: bool = False) -> str:
    """The text with every character that would steer a terminal or a log written as an escape."""
    return (_ANY_BUT_LINE_BREAKS if keep_line_breaks else _ANY).sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return found.group().encode("unicode_escape").decode("ascii")

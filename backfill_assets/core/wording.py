"""Safe texts: input that is displayed later must not mislead its reader.

Text that a person enters has to be one line without characters that control a terminal or change the direction of
writing. Text from files is kept unchanged, and such characters are displayed as escapes.
"""

from __future__ import annotations

import re
import shlex
from enum import StrEnum

MOST_CHARACTERS = 2_000
"""The maximum length of an entered text, enough for any reason."""

WHY = "WHY"
"""Stands for a reason in printed commands, so it is not accepted as one."""

# Control characters, line and paragraph separators, direction marks and overrides, halves of a character.
_STEERING = "\x00-\x1f\x7f-\x9f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff"
_ANY = re.compile(f"[{_STEERING}]")
_ANY_BUT_LINE_BREAKS = re.compile(f"(?!\n)[{_STEERING}]")


def fault_of(text: str) -> str | None:
    """Why an entered text cannot be stored and displayed, as the end of a sentence; None when it can."""
    if len(text) > MOST_CHARACTERS:
        return f"is {len(text):,} characters long, and {MOST_CHARACTERS:,} are the most"
    found = _ANY.search(text)
    if found:
        return f"holds the character {_escaped(found)}, and it has to be one line without control characters"
    return None


def visible(text: str, *, keep_line_breaks: bool = False) -> str:
    """The text with every character that would control a terminal or a log written as an escape."""
    return (_ANY_BUT_LINE_BREAKS if keep_line_breaks else _ANY).sub(_escaped, text)


def in_text(value: object) -> object:
    """A value as a sentence has it: several are listed, no values are `none`."""
    if isinstance(value, StrEnum):
        return str(value)
    return ", ".join(map(str, value)) or "none" if isinstance(value, tuple | list) else value


def word_of_a_shell(text: str) -> str:
    """A text as one word of a command that is pasted into a shell. One with a quote, as most conditions of SQL have, is
    in double quotes where these leave it as it is."""
    in_double_quotes = "'" in text and not _MEANS_SOMETHING.search(text)
    return f'"{text}"' if in_double_quotes else shlex.quote(text)


_MEANS_SOMETHING = re.compile(r'[$`"\\!]')
"""What a shell does not leave as it is between double quotes."""


def _escaped(found: re.Match[str]) -> str:
    return found.group().encode("unicode_escape").decode("ascii")

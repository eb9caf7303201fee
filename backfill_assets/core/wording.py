"""Wording: texts of others made safe to display, and declarations as lines of Python."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import StrEnum
from typing import Any

# Safe texts: input that is displayed later must not mislead its reader.
#
# Text that a person enters has to be one line without characters that control a terminal or change the direction
# of writing. Text from files is kept unchanged, and such characters are displayed as escapes.

MOST_CHARACTERS = 2_000
"""The maximum length of an entered text, enough for any reason."""

WHY = "WHY"
"""Stands for a reason in printed commands, so it is not accepted as one."""

# Control characters, line and paragraph separators, direction marks and overrides, halves of a character.
_STEERING = "\x00-\x1f\x7f-\x9f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff"
_ANY = re.compile(f"[{_STEERING}]")
_ANY_BUT_LINE_BREAKS = re.compile(f"(?!\n)[{_STEERING}]")


def fault_of(text: str) -> str | None:
    """The reason why an entered text cannot be stored and displayed, as the end of a sentence; None when it can."""
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
"""Characters that a shell changes between double quotes."""


def _escaped(found: re.Match[str]) -> str:
    return found.group().encode("unicode_escape").decode("ascii")


# Python text: declarations as their author writes them, in the lines that ruff leaves as they are.
#
# A declaration has only what differs from its defaults. Texts are escaped, so that no text of a file or a
# document ends a literal.

WIDTH = 120


def literal(value: object) -> str:
    """A value, or a declaration with its arguments, as Python in one line."""
    match value:
        case str():
            return _text(value)
        case tuple():
            inner = ", ".join(map(literal, value))
            return f"({inner},)" if len(value) == 1 else f"({inner})"
        case Mapping():
            return "{" + ", ".join(f"{literal(name)}: {literal(each)}" for name, each in value.items()) + "}"
    if is_dataclass(value) and not isinstance(value, type):
        return f"{type(value).__name__}({', '.join(arguments(value))})"
    return repr(value)


def arguments(declared: Any) -> list[str]:
    """The arguments of a declaration that differ from their defaults."""
    return [
        f"{each.name}={literal(value)}" if each.kw_only else literal(value)
        for each in fields(declared)
        if each.init and (value := getattr(declared, each.name)) != _default(each)
    ]


def call_lines(
    begin: str, inside: Sequence[str], end: str, *, indent: int, single_comma: bool = False, is_long: bool = False
) -> list[str]:
    """A call or a literal in one line, or with each argument in a line of its own.

    Args:
        begin: What is before the arguments, such as `key=(`.
        inside: The arguments.
        end: What is behind them.
        indent: How many blanks are before it.
        single_comma: Whether a comma is behind an argument that is alone, as in a tuple.
        is_long: Whether each argument has its line in any case.
    """
    blanks = " " * indent
    comma = "," if single_comma and len(inside) == 1 else ""
    line = f"{blanks}{begin}{', '.join(inside)}{comma}{end},"
    if len(line) <= WIDTH and not is_long:
        return [line]
    return [f"{blanks}{begin}", *(f"{blanks}    {each}," for each in inside), f"{blanks}{end},"]


def import_lines(module: str, names: Sequence[str]) -> list[str]:
    """The import of some names of a module."""
    line = f"from {module} import {', '.join(names)}"
    return [line] if len(line) <= WIDTH else [f"from {module} import (", *(f"    {name}," for name in names), ")"]


def names_in(value: object) -> Iterator[str]:
    """The names of the declarations in a value, which a module imports."""
    if isinstance(value, Mapping):
        for each in value.values():
            yield from names_in(each)
    elif isinstance(value, tuple):
        for each in value:
            yield from names_in(each)
    elif is_dataclass(value) and not isinstance(value, type):
        yield type(value).__name__
        for field in fields(value):
            yield from names_in(getattr(value, field.name))


def _default(field: Field[Any]) -> object:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def _text(value: str) -> str:
    """A literal of a text in double quotes, unless it has some and no single ones."""
    found = repr(value)
    if found[0] == '"' or '"' in value:
        return found
    return '"' + found[1:-1].replace("\\'", "'") + '"'

"""JSON texts: objects and arrays taken apart into the texts of their members, with the digits of numbers as written.

Spark's JSON functions read a number as a double. So every number that could look different afterwards becomes a string
first, which begins with a mark; `plain` removes it from what was found. The grammar stays that of Spark's parser: what
is no JSON number is left as it is, and refused by the parser.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F

_MARK = "\ufdd0"
"""A code point that Unicode keeps for such use; a digit or a minus follows it. In texts that hold it, `_OWN` does."""
_OWN = "x"

# Groups that repeat are possessive: Java runs through them in a loop, and through others by recursion, for which a long
# line leaves no stack. Classes of characters are greedy, for which its loop is the fastest.
_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*+"'
_KEPT = r"(?:0|-?[1-9][0-9]{0,99}+)(?![0-9.eE])"
"""A whole number that Spark gives back as it was written."""
_NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?+(?:[eE][+-]?[0-9]+)?+"

# From the end of the number before, over everything that is left as it is, to the next number, unless it is a name.
_NEXT_NUMBER = rf'\G((?:[^"0-9-]+|{_STRING}|{_KEPT})*+)({_NUMBER})(?![0-9.eE+\-A-Za-z])(?!\s*:)'
_MAY_CHANGE = r"[ \t\r\n:,\[](?:-?[0-9]+[.eE]|-0|-?[0-9]{100})"
"""A quick search, true for every text with a number that has to be marked, and for some others."""
_MAY_BE_REFUSED = r"[ \t\r\n:,\[][0-9.eE+-]{900}"
"""The same for a number of more than 1,000 characters, for which Spark's parser refuses the text."""

_MARKED = f'"?{_MARK}([-0-9][^"]*+)"?'

_HALF = r"\\u[dD][89a-fA-F]"
_MARK_ESCAPED = r"\\u[fF][dD][dD]0"
_ESCAPED_MARK = rf"(?<!\\)((?:\\\\)*+){_MARK_ESCAPED}"
"""Where no backslash is before the escape, or an even number of them."""
_NO_HALF = r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
"""What a search for half a surrogate pair has to step over: an escaped backslash, and both halves of a pair."""

_STRICT = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}


def bind_column(value: Column, body: Callable[[Column], Column]) -> Column:
    """An expression of a value that Spark computes once, however often the expression mentions it."""
    return F.get(F.transform(F.array(value), body), F.lit(0))


def has_half_pair(text: Column) -> Column:
    """True if a text of JSON holds an escaped half of a surrogate pair, which is not a character."""
    return _has_escape(text, "d", _HALF)


def _has_mark(text: Column) -> Column:
    """True if a text of JSON holds the code point that begins a number here, escaped or not."""
    return text.contains(_MARK) | _has_escape(text, "f", _MARK_ESCAPED)


def _has_escape(text: Column, digit: str, pattern: str) -> Column:
    """True if a text holds an escape by a pattern; searching for its first digit alone excludes nearly every text."""
    may_have = text.contains(f"\\u{digit}") | text.contains(f"\\u{digit.upper()}")
    return may_have & text.rlike(pattern) & F.regexp_replace(text, _NO_HALF, " ").rlike(pattern)


def members(text: Column) -> Column:
    """A map from the names of a JSON object to the texts of its members, in which numbers are marked.

    Null when the text is not exactly one object. A name that occurs twice is there twice.
    """
    return _object(text, marks_where=_MAY_CHANGE)


def elements(text: Column) -> Column:
    """The texts of the elements of a JSON array, in which numbers are marked; null as for `members`."""
    return _first(
        text,
        "array<string>",
        f'["{_MARK}"]',
        is_last=lambda last: F.get(last, F.lit(0)) == _MARK,
        marks_where=_MAY_CHANGE,
    )


def plain(value: Column) -> Column:
    """The text of a member or an element without marks: a number, or JSON in which numbers are numbers again."""
    found = F.replace(F.regexp_replace(value, _MARKED, "$1"), F.lit(f"{_MARK}{_OWN}"), F.lit(_MARK))
    return F.when(value.contains(_MARK), found).otherwise(value)


def is_object(text: Column) -> Column:
    """True if a text is exactly one JSON object of whole characters; false for null."""
    found = _object(text, marks_where=_MAY_BE_REFUSED)
    return F.coalesce(found.isNotNull() & ~has_half_pair(text), F.lit(False))


def _object(text: Column, *, marks_where: str) -> Column:
    return _first(
        text,
        "map<string,string>",
        f'{{"{_MARK}":""}}',
        is_last=lambda last: last[_MARK].isNotNull(),
        marks_where=marks_where,
    )


def _first(text: Column, kind: str, last: str, *, is_last: Callable[[Column], Column], marks_where: str) -> Column:
    """The value of a text that is exactly one of a kind.

    Spark's parser stops after the first value that it finds. So the text is put into an array, before a last element
    that it cannot hold itself: when that is the second one, the text is what is before it, all of it.
    """

    def whole(own: Column) -> Column:
        marked = F.when(own.rlike(marks_where), F.regexp_replace(own, _NEXT_NUMBER, f'$1"{_MARK}$2"'))
        return F.concat(F.lit("["), F.coalesce(marked, own), F.lit(f",{last}]"))

    unescaped = F.regexp_replace(text, _ESCAPED_MARK, f"$1{_MARK}")
    with_own = F.replace(unescaped, F.lit(_MARK), F.lit(f"{_MARK}{_OWN}"))
    parsed = F.from_json(
        F.when(~_has_mark(text), whole(text)).otherwise(whole(with_own)), f"array<{kind}>", options=_STRICT
    )
    return bind_column(parsed, lambda found: F.when(is_last(F.get(found, F.lit(1))), F.get(found, F.lit(0))))

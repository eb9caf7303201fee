"""Texts: which of them stand for no value, for true and false, and how numbers are written in a file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

NULLS = (
    r"\N", "NULL", "null", "NA", "N/A", "n/a", "na", "#N/A", "NaN", "nan", "None", "none",
    "?", "-", "--", "---", ".", "..", "(null)", "<NA>", "missing", "M", "*",
)  # fmt: skip
"""Texts that stand for no value where the others of a column are numbers, times or true and false."""

_ALWAYS = frozenset({r"\N", "NULL", "(null)", "<NA>"})
"""Those that stand for no value in columns of texts as well."""

NEVER_TEXTS = _ALWAYS | {"null", "N/A", "n/a", "#N/A", "NaN", "nan"}
"""Those that stand for no value in a column that has no other text."""

_PAIRS = (("true", "false"), ("True", "False"), ("TRUE", "FALSE"), ("t", "f"))
_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")
_LEADING_ZERO = re.compile(r"[+-]?0[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]{1,3})?")
MONEY = re.compile(r"[+-]?[$€£¥]\s?[0-9.,]+|[0-9.,]+\s?[€%]")
SEPARATORS = ((".", ""), (".", ","), (",", ""), (",", "."), (",", " "), (",", "\u00a0"), (".", "'"), (".", " "))
"""What is before the fraction of a number, and between groups of three digits, the most usual first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The form in which numbers are written."""

    decimal: str = "."
    thousands: str = ""

    def plain(self, text: str) -> str | None:
        """A number as programs write it; None of a text that is none."""
        if (self.decimal, self.thousands) == (".", ""):
            return text if _NUMBER.fullmatch(text) else None
        whole, is_fraction, fraction = text.partition(self.decimal)
        if _LEADING_ZERO.fullmatch(whole):
            return None  # a code with a comma behind it
        if self.thousands and self.thousands in whole:
            if not re.fullmatch(rf"[+-]?[0-9]{{1,3}}({re.escape(self.thousands)}[0-9]{{3}})+", whole):
                return None
            whole = whole.replace(self.thousands, "")
            if _LEADING_ZERO.fullmatch(whole):
                return None
        elif self.decimal != "." and "." in text:
            return None
        found = f"{whole}.{fraction}" if is_fraction else whole
        return found if _NUMBER.fullmatch(found) else None


PLAIN = Numbers()


def numbers_of(columns: Sequence[Sequence[str]], delimiter: str = ",") -> tuple[Numbers, Numbers | None]:
    """The form of numbers with which most columns of a file are numbers, and others with which all of them could be.

    Args:
        delimiter: Where it is a comma, one within a number is rather between groups of digits than a decimal one.
    """
    separators = sorted(SEPARATORS[1:], key=lambda each: delimiter != "," and each[1] == ",")
    best, most = PLAIN, _number_columns(columns, PLAIN)
    for decimal, thousands in separators:
        candidate = Numbers(decimal=decimal, thousands=thousands)
        found = _number_columns(columns, candidate)
        if found > most:
            best, most = candidate, found
    comma, groups = Numbers(decimal=","), Numbers(thousands=",")
    other = {comma: groups, groups: comma}.get(best)
    return best, other if other is not None and _number_columns(columns, other) == most else None


def _number_columns(columns: Sequence[Sequence[str]], how: Numbers) -> set[int] | _More:
    return _More(
        {
            place
            for place, texts in enumerate(columns)
            if (values := [text for text in texts if text and text not in NULLS])
            # Codes, which are no numbers however numbers are written.
            and not has_leading_zeros(values)
            and all(how.plain(text) is not None for text in values[:2_000])
        }
    )


class _More(set[int]):
    """Columns that are numbers: more of them than of another set, without losing one."""

    def __gt__(self, other: object) -> bool:
        return isinstance(other, set) and len(self) > len(other) and set(self) >= set(other)


def null_texts(texts: Sequence[str]) -> frozenset[str]:
    """The texts of a column that may stand for no value."""
    return frozenset(texts) & frozenset(NULLS)


def always_null(columns: Iterable[Sequence[str]]) -> frozenset[str]:
    r"""Those that stand for no value in columns of texts too: `\N` where a file has it, because it then is what the
    file writes, and `NULL` may be the title of a film."""
    found = frozenset(text for texts in columns for text in _ALWAYS.intersection(texts))
    return found & {r"\N"} or found


def truths_of(texts: Sequence[str]) -> tuple[str, str] | None:
    """The two texts of a column that stand for true and false."""
    found = set(texts)
    return next((pair for pair in _PAIRS if found and found <= set(pair)), None)


def is_whole(text: str) -> bool:
    """True if a number is a whole one of 64 bits, written without zeros before it."""
    return _WHOLE.fullmatch(text) is not None and not _LEADING_ZERO.fullmatch(text) and -(2**63) <= int(text) < 2**63


def has_leading_zeros(texts: Sequence[str]) -> bool:
    """True if digits begin with zeros, which a number would lose."""
    return any(_LEADING_ZERO.fullmatch(text) for text in texts)


def kind_of_numbers(texts: Sequence[str], how: Numbers) -> tuple[str, int]:
    """`LONG` or `DOUBLE` for numbers, and how many texts are some; empty for texts that are none."""
    if has_leading_zeros(texts):
        return "", 0
    plain = [number for text in texts if (number := how.plain(text)) is not None]
    least = len(texts) if len(texts) < 20 else len(texts) - len(texts) // 20
    if not plain or len(plain) < least:
        return "", len(plain)
    if all(map(is_whole, plain)):
        return "LONG", len(plain)
    if all(re.fullmatch(r"[+-]?[0-9]+", text) for text in plain):
        return ("DECIMAL(38,0)", len(plain)) if max(map(len, plain)) <= 38 else ("", 0)
    return "DOUBLE", len(plain)


def sentinels(texts: Sequence[str]) -> tuple[str, ...]:
    """Numbers such as -999.99 that are repeated and far below all others."""
    counts: Mapping[str, int] = Counter(texts)
    found = [text for text in counts if re.fullmatch(r"-(9+(\.9+)?|200(\.0*)?)", text) and counts[text] > 1]
    others = [float(text) for text in counts if _NUMBER.fullmatch(text) and text not in found]
    return tuple(found) if found and others and min(others) > max(map(float, found)) else ()

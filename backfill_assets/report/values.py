"""Values of a page as text: one form of numbers, dates and instants for all renderers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal, localcontext
from typing import assert_never

from backfill_assets.calendar.partitions import Partitions
from backfill_assets.core.next_steps import Invocation, NextStep
from backfill_assets.core.tariff import Cost, core_seconds, digits_of
from backfill_assets.core.wording import visible
from backfill_assets.report.command_line import words_of
from backfill_assets.report.page import Code, Moved, Ref, Toned, Value, Words

_DIGITS_OF_A_FLOAT = 15
"""A double has at least so many digits that mean something."""

_DIGITS_OF_A_DECIMAL = 42
"""The sum of a few thousand decimals of 38 digits has no more."""

_DIGITS_SHOWN = 17
_BEHIND_THE_POINT = 6


def text_of(value: Value) -> str:
    """A value as text, with control characters made visible; a request as the command to type."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case int() if abs(value) < 10**_DIGITS_OF_A_DECIMAL:
            return f"{value:,}"
        case int():
            return number_text(Decimal(value))
        case float() | Decimal():
            return number_text(value)
        case datetime():
            return f"{value:%Y-%m-%d %H:%M:%S} UTC"
        case date() | Partitions():
            return str(value)
        case NextStep() | Invocation():
            return visible(words_of(value))
        case Ref():
            return visible(value.text or value.id)
        case Toned():
            return text_of(value.value)
        case Words(parts):
            return "".join(text_of(part) for part in parts)
        case Moved(before=before, after=after, how_far=how_far):
            return f"{text_of(before)} \u2192 {text_of(after)} ({how_far})"
        case Code(text):
            return visible(text)
        case str():
            return visible(value)
    assert_never(value)


def number_text(value: float | Decimal) -> str:
    """A number with the digits that it has, `~` before it where there are more behind the point than are shown.

    Whole parts longer than those of decimals, or of doubles that are exact, are shown with a power of ten.
    """
    exact = value if isinstance(value, Decimal) else Decimal(str(value))
    if not exact.is_finite():
        return str(exact)
    most = _DIGITS_OF_A_FLOAT if isinstance(value, float) else _DIGITS_OF_A_DECIMAL
    if exact and (exact.adjusted() >= most or exact.adjusted() < -_BEHIND_THE_POINT):
        with localcontext(prec=_DIGITS_SHOWN):
            return f"{exact.normalize():e}"
    with localcontext(prec=_DIGITS_OF_A_DECIMAL + _BEHIND_THE_POINT):
        shown = round(exact, _BEHIND_THE_POINT) + 0
    text = f"{shown:,f}".rstrip("0").rstrip(".")
    return text if shown == exact else f"~{text}"


def key_text(key: Mapping[str, str | None]) -> str:
    """The key of a row, or a combination of dimensions, in a line."""
    return ", ".join("null" if value is None else value for value in key.values())


def cost_words(cost: Cost) -> str:
    """A cost as core seconds, and in money where they have a price."""
    money = ""
    if cost.amount is not None:
        digits = digits_of(Decimal(str(cost.amount)), 2)
        money = f", {cost.amount:,.{digits}f} {cost.currency}".rstrip()
    return f"{core_seconds(cost.core_seconds)}{money}"


def mebibytes(size_bytes: int) -> str:
    """A size as it stands in a sentence or a column."""
    return f"{size_bytes / 2**20:,.1f} MiB"


def as_sentence(text: str) -> str:
    """A text with a capital letter and a full stop; nothing stays nothing."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}" if text else text

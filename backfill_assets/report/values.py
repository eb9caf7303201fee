"""Values of a page as text: one form of numbers, dates and instants for all renderers."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from math import isfinite
from typing import assert_never

from backfill_assets.core.wording import visible
from backfill_assets.planning.partitions import Partitions
from backfill_assets.report.command_line import words_of
from backfill_assets.report.page import Code, Moved, Ref, Toned, Value, Words
from backfill_assets.report.requests import Invocation, NextStep


def text_of(value: Value) -> str:
    """A value as text, with control characters made visible; a request as the command to type."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
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
    """A number with two digits behind the point; a whole one without any."""
    if not isfinite(value):
        return str(Decimal(value))
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"


def mebibytes(size_bytes: int) -> str:
    """A size as it stands in a sentence or a column."""
    return f"{size_bytes / 2**20:,.1f} MiB"

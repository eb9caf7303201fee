"""Documents to JSON: field by field, with the same names. No other module determines the JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from math import isfinite
from typing import Any

from backfill_assets.core.errors import BackfillError
from backfill_assets.planning.partitions import DayRange, Grain, Partitions
from backfill_assets.report.advice import next_step_of
from backfill_assets.report.command_line import words_of
from backfill_assets.report.requests import Invocation, NextStep

INLINE = {"inline": True}
"""Metadata of a field of a document whose own fields stand in its place in JSON: a report is a run and more."""


DAYS = "tuple[date, ...]"
"""The type of a field that holds partitions by their first days."""


def as_json(value: object) -> Any:
    """A document, or a part of one, as JSON values.

    Args:
        value: A dataclass, which becomes an object with the names of its fields (`from_` without its underscore, which
            only Python needs); a mapping, a tuple, a list; a date or an instant, which becomes ISO 8601; a member of an
            enum, which becomes its text; partitions, which become their ranges and their count, and so do the days
            of an object that has a grain; a range of days, which becomes `FIRST..LAST`; an error, which becomes its
            type, message, next step and ids; a number that is not finite, which becomes `NaN`, `Infinity` or
            `-Infinity`; or a JSON value, which is left as it is.

    Raises:
        TypeError: There is no JSON for it.
    """
    if isinstance(value, NextStep | Invocation):
        return words_of(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float) and not isfinite(value):
        return str(Decimal(value))
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, DayRange):
        return str(value)
    if isinstance(value, Partitions):
        return {"ranges": list(value.ranges), "count": len(value)}
    if isinstance(value, BackfillError):
        following = next_step_of(value)
        return {
            "type": value.category.__name__,
            "message": value.message,
            "next_step": None if following is None else words_of(following),
            "ids": {name: part if isinstance(part, (list, dict)) else str(part) for name, part in value.ids.items()},
        }
    if isinstance(value, Mapping):
        return {str(name): as_json(part) for name, part in value.items()}
    if isinstance(value, (tuple, list)):
        return [as_json(part) for part in value]
    if not is_dataclass(value) or isinstance(value, type):
        raise TypeError(f"{type(value).__name__} is no document")
    found: dict[str, Any] = {}
    grain = getattr(value, "grain", None)
    for each in fields(value):
        held = getattr(value, each.name)
        part = as_json(Partitions(grain, held) if isinstance(grain, Grain) and each.type == DAYS else held)
        found |= part if each.metadata == INLINE else {json_name(each.name): part}
    return found


def json_name(name: str) -> str:
    """The name of a field in JSON."""
    return name.removesuffix("_")

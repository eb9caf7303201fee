"""Phases: how the partitions of one plan are cut into runs that are published one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby, pairwise

from backfill_assets.planning.errors import NoPhases


@dataclass(frozen=True, slots=True, kw_only=True)
class Phases:
    """How the runs of a set are published that are phases of one change.

    Attributes:
        hold_s: For how many seconds after a phase has landed the next one waits.
        each: Whether each phase is approved by itself, once those before it are published; else the set as a whole.
    """

    hold_s: int = 0
    each: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedPhases:
    """The phases that a request asks for: so many of about the same size, or one per month of the partitions.

    Attributes:
        count: How many; None for one per month.
        terms: How they are published.
    """

    count: int | None
    terms: Phases


def phases(count: int | None = None, *, hold_hours: int = 0, each: bool = False) -> AskedPhases:
    """The phases in which a table is published when a person's plan concerns enough of it.

    Args:
        count: So many of about the same size; one per month without it.
        hold_hours: How many hours after a phase has landed the next one waits.
        each: Whether each phase is approved by itself, once those before it are published.

    Raises:
        ValueError: Fewer than two phases, or a negative time.
    """
    if (count is not None and count < 2) or hold_hours < 0:
        raise ValueError(f"{count} phases, held for {hold_hours} hours: at least 2, and at least 0 hours")
    return AskedPhases(count=count, terms=Phases(hold_s=hold_hours * 3600, each=each))


def cut(table: str, partitions: Sequence[date], count: int | None) -> tuple[tuple[date, ...], ...]:
    """The partitions of each phase, in order.

    Args:
        count: How many phases; None for one per month.

    Raises:
        NoPhases: There would be one phase, or one without partitions.
    """
    if count is None:
        found = tuple(tuple(month) for _, month in groupby(partitions, key=lambda each: (each.year, each.month)))
    else:
        ends = [len(partitions) * number // count for number in range(count + 1)]
        found = tuple(tuple(partitions[start:end]) for start, end in pairwise(ends))
    if len(found) < 2 or not all(found):
        why = f"{len(partitions):,} of its partitions are asked for, which makes no {count or 2} phases"
        raise NoPhases(table=table, why=why if count is None or count > 1 else "one phase is a plan without phases")
    return found

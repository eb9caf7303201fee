"""Judgement of measures that moved. Pure: from the cells of a breakdown to a verdict on each partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

from backfill_assets.domain import Moved
from backfill_assets.gates.verdict import Verdict
from backfill_assets.ledger.records import NEEDS_COMMENT
from backfill_assets.ledger.sampled import BreakdownCell
from backfill_assets.planning.partitions import count_of


def moved_verdict(gate: Moved, partition: date, cells: Iterable[BreakdownCell], *, is_new: bool) -> Verdict:
    """Whether a measure of a partition's month stayed close to the accepted rows.

    Args:
        gate: The gate.
        partition: The partition; all of a month share its verdict.
        cells: The breakdown of the run.
        is_new: Whether the partition has no accepted rows to compare with.
    """
    if is_new:
        return Verdict(passed=True, sentence="no accepted rows to compare with", observed={})
    month = partition.replace(day=1)
    restated = [cell for cell in cells if cell.month == month and not cell.is_new]
    observed: dict[str, Any] = {"percent": gate.percent, "at_least": gate.at_least}
    if any(name not in cell.by for cell in restated for name in gate.by):
        sentence = f"there are too many combinations of the dimensions to compare {gate.measure} by them"
        return Verdict(passed=False, sentence=sentence, observed={**observed, NEEDS_COMMENT: True})
    groups = _groups(gate, restated)
    comparable = [sums for sums in groups.values() if all(map(Decimal.is_finite, sums))]
    far = sum(_is_far(gate, before, after) for before, after in comparable)
    incomparable = len(groups) - len(comparable)
    observed |= {"groups": len(groups), "moved_groups": far}
    where = f"{count_of(len(groups), 'group')} of {month:%Y-%m}"
    if not far and not incomparable:
        return Verdict(passed=True, sentence=f"{gate.measure} moved no further in {where}", observed=observed)
    sentence = f"{gate.measure} moved by more than {gate.percent} % in {far:,} of {where}" if far else gate.measure
    if incomparable:
        observed["incomparable_groups"] = incomparable
        of = "" if far else f" of {where}"
        sentence += (
            f"{', and' if far else ''} cannot be compared in {incomparable:,}{of}, where a sum is not a finite number"
        )
    return Verdict(passed=False, sentence=sentence, observed={**observed, NEEDS_COMMENT: True})


def _groups(gate: Moved, cells: Sequence[BreakdownCell]) -> Mapping[tuple[str | None, ...], tuple[Decimal, Decimal]]:
    found: dict[tuple[str | None, ...], tuple[Decimal, Decimal]] = {}
    for cell in cells:
        group = tuple(cell.by[name] for name in gate.by)
        before, after = found.get(group, (Decimal(0), Decimal(0)))
        found[group] = (before + _amount(cell.before[gate.measure]), after + _amount(cell.after[gate.measure]))
    return found


def _amount(text: str) -> Decimal:
    """A sum; NaN for infinite ones, because opposite infinities cannot be added up."""
    found = Decimal(text)
    return found if found.is_finite() else Decimal("NaN")


def _is_far(gate: Moved, before: Decimal, after: Decimal) -> bool:
    """Whether the move exceeds the percentage; any move away from nothing does."""
    moved = abs(after - before)
    return moved > 0 and moved >= gate.at_least and moved * 100 > gate.percent * abs(before)

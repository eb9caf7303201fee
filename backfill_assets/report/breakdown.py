"""Documents of breakdowns: the measures of a run by month and business dimensions, before and after."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from decimal import Context, Decimal, InvalidOperation, localcontext

from backfill_assets.core.grouped import grouped
from backfill_assets.domain import Breakdown
from backfill_assets.domain.breakdown import ROWS
from backfill_assets.ledger.findings import BreakdownCell, Values

Number = int | float | Decimal

_DIGITS = 60
"""Sums of decimals of 38 digits are exact with so many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCell:
    """The measures of some rows, before and after."""

    month: str | None  #: The month of their partitions, such as `2006-07`; null for all months together.
    by: Values  #: Their business dimensions as text; empty for all of them together.
    #: The measures of the accepted rows by name; `NaN`, `Infinity` or `-Infinity` where a sum is not finite.
    before: Mapping[str, Number]
    after: Mapping[str, Number]  #: The same of the new rows.
    differs: bool  #: Whether any of these rows differ, even where the measures are the same.


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakdownDocument:
    """The changes of a run, by the dimensions that its table declares."""

    dimensions: tuple[str, ...]  #: Their names, in the order of the declaration, without the month.
    measures: tuple[str, ...]  #: The names of the measures; `rows` counts rows.
    too_many: bool  #: Whether there were too many combinations of the dimensions, so that only months are told apart.
    restated: tuple[MeasuredCell, ...]  #: What had accepted rows, by month and dimensions, in order.
    new: tuple[MeasuredCell, ...]  #: The same of partitions that had none.


def breakdown_document(cells: Sequence[BreakdownCell], declared: Breakdown | None) -> BreakdownDocument | None:
    """The breakdown that the ledger kept; None where it keeps none.

    Args:
        declared: What the table declares now, for the order of dimensions and measures.
    """
    if not cells:
        return None
    dimensions = _ordered(cells[0].by, declared.by if declared else ())
    measures = _ordered(cells[0].after, declared.names if declared else (ROWS,))
    found = [(cell.is_new, _cell(cell, dimensions, measures)) for cell in cells]
    return BreakdownDocument(
        dimensions=dimensions,
        measures=measures,
        too_many=not dimensions and declared is not None and bool(declared.by),
        restated=tuple(cell for is_new, cell in found if not is_new),
        new=tuple(cell for is_new, cell in found if is_new),
    )


def _ordered(kept: Iterable[str], declared: Sequence[str]) -> tuple[str, ...]:
    """Names in the order of the declaration; what it does not have any more comes last."""
    present = set(kept)
    return (*(name for name in declared if name in present), *sorted(present.difference(declared)))


def by_dimensions(cells: Iterable[MeasuredCell]) -> tuple[MeasuredCell, ...]:
    """The cells of all months together, by their dimensions."""
    return _added_up(cells, lambda cell: (None, cell.by))


def altogether(cells: Iterable[MeasuredCell]) -> MeasuredCell | None:
    """All cells together; None of none."""
    return next(iter(_added_up(cells, lambda _: (None, {}))), None)


def by_month(cells: Iterable[MeasuredCell]) -> tuple[MeasuredCell, ...]:
    """The cells of all dimensions together, by month."""
    return _added_up(cells, lambda cell: (cell.month, {}))


def _added_up(
    cells: Iterable[MeasuredCell], key: Callable[[MeasuredCell], tuple[str | None, Values]]
) -> tuple[MeasuredCell, ...]:
    groups = grouped(((month, tuple(by.items())), cell) for cell in cells for month, by in [key(cell)])
    return tuple(
        MeasuredCell(
            month=month,
            by=dict(by),
            before=_sum(cell.before for cell in some),
            after=_sum(cell.after for cell in some),
            differs=any(cell.differs for cell in some),
        )
        for (month, by), some in groups.items()
    )


def _sum(measures: Iterable[Mapping[str, Number]]) -> Mapping[str, Number]:
    total: dict[str, Decimal] = {}
    with exact_numbers() as context:
        context.traps[InvalidOperation] = False  # the sum of opposite infinities is NaN
        for each in measures:
            for name, value in each.items():
                total[name] = total.get(name, Decimal(0)) + Decimal(str(value))
    return {name: number_of(value) for name, value in total.items()}


def exact_numbers() -> AbstractContextManager[Context]:
    """Adds and subtracts measures without rounding them."""
    return localcontext(prec=_DIGITS)


def number_of(value: Decimal) -> Number:
    """The shortest kind of number: whole where it is, unless only a double can be so large."""
    is_whole = value.is_finite() and value.adjusted() < _DIGITS and value == value.to_integral_value()
    return int(value) if is_whole else value


def _cell(cell: BreakdownCell, dimensions: Sequence[str], measures: Sequence[str]) -> MeasuredCell:
    return MeasuredCell(
        month=f"{cell.month:%Y-%m}",
        by={name: cell.by[name] for name in dimensions},
        before={name: number_of(Decimal(cell.before[name])) for name in measures},
        after={name: number_of(Decimal(cell.after[name])) for name in measures},
        differs=cell.differs,
    )

"""Documents of breakdowns: the measures of a run by month and business dimensions, before and after."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from backfill_assets.ledger.sampled import BreakdownCell, Values

Number = int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCell:
    """The measures of some rows, before and after.

    Attributes:
        month: The month of their partitions, such as `2006-07`; null for all months together.
        by: Their business dimensions as text; empty for all of them together.
        before: The measures of the accepted rows by name.
        after: The same of the new rows.
        differs: Whether any of these rows differ, even where the measures are the same.
    """

    month: str | None
    by: Values
    before: Mapping[str, Number]
    after: Mapping[str, Number]
    differs: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakdownDocument:
    """What a run changes, by the dimensions that its table declares.

    Attributes:
        dimensions: Their names, in the order of the declaration, without the month.
        measures: The names of the measures; `rows` counts rows.
        too_many: Whether there were too many combinations of the dimensions, so that only months are told apart.
        restated: What had accepted rows, by month and dimensions, in order.
        new: The same of partitions that had none.
    """

    dimensions: tuple[str, ...]
    measures: tuple[str, ...]
    too_many: bool
    restated: tuple[MeasuredCell, ...]
    new: tuple[MeasuredCell, ...]


def breakdown_document(cells: Sequence[BreakdownCell], dimensions: tuple[str, ...]) -> BreakdownDocument | None:
    """The breakdown that the ledger kept; None where it keeps none.

    Args:
        cells: What it kept.
        dimensions: What the table declares now.
    """
    if not cells:
        return None
    kept = tuple(cells[0].by)
    return BreakdownDocument(
        dimensions=tuple(sorted(kept, key=lambda name: (name not in dimensions, [*dimensions, name].index(name)))),
        measures=tuple(cells[0].after),
        too_many=not kept and bool(dimensions),
        restated=tuple(_cell(cell) for cell in cells if not cell.is_new),
        new=tuple(_cell(cell) for cell in cells if cell.is_new),
    )


def by_dimensions(cells: Iterable[MeasuredCell]) -> tuple[MeasuredCell, ...]:
    """The cells of all months together, by their dimensions."""
    return _added_up(cells, lambda cell: (None, cell.by))


def by_month(cells: Iterable[MeasuredCell]) -> tuple[MeasuredCell, ...]:
    """The cells of all dimensions together, by month."""
    return _added_up(cells, lambda cell: (cell.month, {}))


def _added_up(
    cells: Iterable[MeasuredCell], key: Callable[[MeasuredCell], tuple[str | None, Values]]
) -> tuple[MeasuredCell, ...]:
    groups: dict[tuple[str | None, tuple[tuple[str, str | None], ...]], list[MeasuredCell]] = {}
    for cell in cells:
        month, by = key(cell)
        groups.setdefault((month, tuple(by.items())), []).append(cell)
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
    for each in measures:
        for name, value in each.items():
            total[name] = total.get(name, Decimal(0)) + Decimal(str(value))
    return {name: number_of(value) for name, value in total.items()}


def number_of(value: Decimal) -> Number:
    """A number of JSON: whole where it is."""
    return int(value) if value == value.to_integral_value() else float(value)


def _cell(cell: BreakdownCell) -> MeasuredCell:
    return MeasuredCell(
        month=f"{cell.month:%Y-%m}",
        by=cell.by,
        before={name: number_of(Decimal(value)) for name, value in cell.before.items()},
        after={name: number_of(Decimal(value)) for name, value in cell.after.items()},
        differs=cell.differs,
    )

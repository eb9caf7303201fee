"""Documents of gates on the usual: each measure over time, beside what was usual."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import date
from decimal import Context, Decimal, InvalidOperation, localcontext

from backfill_assets.calendar.partitions import Grain, count_of, partition_text
from backfill_assets.core.grouped import grouped
from backfill_assets.domain import Breakdown
from backfill_assets.domain.breakdown import ROWS
from backfill_assets.ledger.findings import BreakdownCell, GateResult, UsualPoint, Values
from backfill_assets.report.charts import Form, Mark, Plot, drawable
from backfill_assets.report.page import Block, Chart, Note, Section, Tone, Toned, Value, section, table
from backfill_assets.report.values import key_text


@dataclass(frozen=True, slots=True, kw_only=True)
class UsualNumber:
    """A measure of one partition."""

    partition: date  #: Its first day.
    value: Number  #: The measure; `NaN` where it is not a finite number.
    usual: Number | None  #: The usual value; null of accepted partitions before the run, and with little history.
    low: Number | None  #: The least that is not far from it, or null.
    high: Number | None  #: The most that is not far from it, or null.
    far: str  #: `low` or `high` where it is far from the usual, or was accepted although it was; else empty.
    compared: int  #: With how many accepted partitions it was compared.
    is_tested: bool  #: True if it is a partition of the run; else it is one of those that are compared with.
    stays: bool  #: True if the accepted rows that it would replace have the same measure.


@dataclass(frozen=True, slots=True, kw_only=True)
class UsualSeries:
    """A measure over time: the accepted partitions that a run is compared with, and its own."""

    gate: str  #: The gate.
    measure: str  #: What is measured.
    by: Values  #: The dimensions of the group as text; empty for whole partitions.
    numbers: tuple[UsualNumber, ...]  #: In the order of partitions.

    @property
    def far(self) -> int:
        """The number of the run's partitions that are far from the usual."""
        return sum(number.is_tested and bool(number.far) for number in self.numbers)


def usual_series(points: Iterable[UsualPoint], results: Iterable[GateResult]) -> tuple[UsualSeries, ...]:
    """The recorded usual values, by gate and group, those with the most far partitions first.

    Args:
        results: What the gates found, for the names of measures.
    """
    measures = {result.gate: str(result.observed.get("measure", "")) for result in results}
    found = grouped(((point.gate, tuple(point.by.items())), point) for point in points)
    series = [
        UsualSeries(
            gate=gate,
            measure=measures.get(gate, ""),
            by=dict(by),
            numbers=tuple(sorted(map(_number, some), key=lambda number: number.partition)),
        )
        for (gate, by), some in found.items()
    ]
    return tuple(sorted(series, key=lambda each: -each.far))


def _number(point: UsualPoint) -> UsualNumber:
    usual, low, high = (
        None if text is None else number_of(Decimal(text)) for text in (point.usual, point.low, point.high)
    )
    return UsualNumber(
        partition=point.partition,
        value=number_of(Decimal(point.value)),
        usual=usual,
        low=low,
        high=high,
        far=point.far,
        compared=point.compared,
        is_tested=point.is_tested,
        stays=point.stays,
    )


# The usual on a page: each measure over time inside of its band or not, and its numbers.

_MOST_TIMES = 62
"""More partitions than these are too narrow beside each other: the last ones up to the last that is far are drawn."""

_MOST_SERIES, _MOST_ROWS = 12, 24
_THICKNESS = 0.012
"""How thick the mark of a value is, as a part of the height of its drawing."""

_LEGEND = (("usual", "usual"), ("value", "this run"), ("before", "accepted before"), ("failed", "far from the usual"))


def usual_section(grain: Grain, found: Sequence[UsualSeries]) -> Section | None:
    """Every measure that a gate compares with the usual; nothing where no gate does."""
    shown = [each for each in found if any(number.is_tested for number in each.numbers)][:_MOST_SERIES]
    if not shown:
        return None
    plots = tuple(plot for each in shown if (plot := _plot(grain, each)) is not None)
    styles = {mark.style for plot in plots for mark in plot.marks}
    legend = tuple(each for each in _LEGEND if each[0] in styles)
    return section(
        "The usual",
        Chart(plots=plots, legend=legend) if plots else None,
        *(section(_named(each), *_numbers(grain, each), long=not each.far) for each in shown),
    )


def _named(series: UsualSeries) -> str:
    return f"{series.measure}, {key_text(series.by)}" if series.by else series.measure


def _plot(grain: Grain, series: UsualSeries) -> Plot | None:
    """The band, and the values inside of it or not; nothing where numbers are too large to be drawn."""
    drawn = [each for each in series.numbers if _is_drawable(each)]
    last = max((place for place, each in enumerate(drawn) if each.is_tested and each.far), default=len(drawn) - 1)
    # Of a long run those around what is far; where that is its beginning, as many as there is room for.
    begin = max(0, min(last + _MOST_TIMES // 2, len(drawn)) - _MOST_TIMES)
    drawn = drawn[begin : begin + _MOST_TIMES]
    if len(drawn) < 2:
        return None
    ends = [float(end) for each in drawn for end in (each.value, each.low, each.high) if end is not None]
    thick = (max(ends) - min(ends) or max(ends) or 1) * _THICKNESS
    bands = [
        Mark(
            style="usual",
            title=f"{_time(grain, each)}: {_text(each.low)} to {_text(each.high)} is usual",
            value=float(each.high),
            base=float(each.low),
            at=_time(grain, each),
        )
        for each in drawn
        if each.low is not None and each.high is not None
    ]
    values = [
        Mark(
            style="failed" if each.far else "value" if each.is_tested else "before",
            title=f"{_time(grain, each)}: {_text(each.value)}{', far from the usual' if each.far else ''}",
            value=float(each.value) + thick,
            base=float(each.value) - thick,
            at=_time(grain, each),
        )
        for each in drawn
    ]
    times = tuple(_time(grain, each) for each in drawn)
    return Plot(
        title=f"{_named(series)}, beside what is usual",
        form=Form.WITHIN,
        marks=(*bands, *values),
        x=grain.noun,
        y=series.measure,
        times=times,
    )


def _is_drawable(each: UsualNumber) -> bool:
    return all(drawable(float(number)) for number in (each.value, each.low, each.high) if number is not None)


def _time(grain: Grain, each: UsualNumber) -> str:
    return partition_text(grain, each.partition)


def _text(number: Number | None) -> str:
    return "" if number is None else f"{number:,}"


def _numbers(grain: Grain, series: UsualSeries) -> Iterable[Block]:
    tested = [each for each in series.numbers if each.is_tested]
    before = len(series.numbers) - len(tested)
    far = [each for each in tested if each.far]
    rows: list[Sequence[Value]] = [
        (partition_text(grain, each.partition), each.value, each.usual, each.low, each.high, _said(each))
        for each in (*far, *(each for each in tested if not each.far))
    ]
    if before:
        yield Note(text=f"Compared with {count_of(before, grain.noun)} accepted before.", tone=Tone.SOFT)
    columns = ("value", "usual", "from", "to")
    yield table(["partition", *columns, ""], rows, numbers=columns, whole=["partition"], most=_MOST_ROWS)


def _said(each: UsualNumber) -> Value:
    if each.usual is None:
        return Toned(value=f"little history: {each.compared:,}", tone=Tone.SOFT)
    if not each.far:
        return "as usual"
    far = "far below the usual" if each.far == "low" else "far above the usual"
    return Toned(value=f"{far}, as accepted" if each.stays else far, tone=Tone.ATTENTION if each.stays else Tone.BAD)


# Documents of breakdowns: the measures of a run by month and business dimensions, before and after.

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
    differs: bool  #: True if any of these rows differ, even where the measures are the same.


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakdownDocument:
    """The changes of a run, by the dimensions that its table declares."""

    dimensions: tuple[str, ...]  #: Their names, in the order of the declaration, without the month.
    measures: tuple[str, ...]  #: The names of the measures; `rows` counts rows.
    too_many: bool  #: True if there were too many combinations of the dimensions, so that only months are told apart.
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

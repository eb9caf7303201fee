"""The usual on a page: each measure over time inside of its band or not, and its numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from backfill_assets.planning.partitions import Grain, count_of, partition_text
from backfill_assets.report.breakdown import Number
from backfill_assets.report.charts import Form, Mark, Plot, drawable
from backfill_assets.report.page import Block, Chart, Note, Section, Tone, Toned, Value, section, table
from backfill_assets.report.usual import UsualNumber, UsualSeries
from backfill_assets.report.values import key_text

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

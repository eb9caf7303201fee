"""The moves and failures, as charts or matrices; as one sentence where every bar would be the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import date

from backfill_assets.calendar.partitions import Grain, count_of, partition_text
from backfill_assets.core.grouped import grouped
from backfill_assets.gates.measured import RowDiff
from backfill_assets.report.charts import Form, Mark, Plot, drawable
from backfill_assets.report.measured import GateSummary, PartitionMoves, StateMove, total_moves
from backfill_assets.report.page import Block, Chart, Note, Section, Table, Value, section, table
from backfill_assets.report.usual import BreakdownDocument, MeasuredCell, Number
from backfill_assets.report.values import key_text

_MOST_TIMES, _MOST_PAIRS = 124, 36
"""More columns, or pairs of columns, than these are too narrow: they are added up by month, or by year."""

_FEWEST = 2
"""What there is one of is said by the table below."""

MOST_COLUMNS = 24
_MOST_COMBINATIONS = 12
_NOUNS = {10: "day", 7: "month", 4: "year"}
"""What the first letters of a date name."""

_BEFORE_AND_AFTER = (("before", "before"), ("after", "after"))
_CHANGE = ("changed", "change: after minus before")
_NOT_THERE = "no row"


def lost_files(grain: Grain, partitions: Iterable[PartitionMoves]) -> Section | None:
    """The partitions whose accepted files are lost, with the checksum that was expected and the one that was found."""
    found: list[Sequence[Value]] = [
        (
            partition_text(grain, each.partition),
            each.expected_checksum,
            each.checksum,
            "as recorded" if each.is_as_recorded else "other rows",
        )
        for each in partitions
        if each.expected_checksum
    ]
    about = (
        "The accepted files of these are gone or damaged. Rows are compared by what was recorded of them: where they "
        "differ, every row counts as one that disappears and one that is added."
    )
    columns = ["partition", "checksum expected", "checksum found", ""]
    return section("Lost files", Note(text=about), table(columns, found, whole=["partition"])) if found else None


def moves_by(length: int, partitions: Iterable[PartitionMoves]) -> Mapping[str, RowDiff]:
    """The counts of many partitions, added up.

    Args:
        length: By how many letters of their dates: 7 for months.
    """
    times = grouped((str(part.partition)[:length], part) for part in partitions)
    return {time: moves for time, found in times.items() if (moves := total_moves(found))}


def moves_figure(grain: Grain, partitions: Sequence[PartitionMoves]) -> Block | None:
    """The number of rows that move, partition by partition, or by month or year when there are many."""
    counted = [_counts_of(part.moves) for part in partitions]
    if len(counted) < _FEWEST or not any(any(counts.values()) for counts in counted):
        return None
    if all(counts == counted[0] for counts in counted):
        said = ", ".join(f"{count:,} {name}" for name, count in counted[0].items())
        return Note(text=f"Rows in each of {count_of(len(counted), grain.noun)}: {said}.")
    length = _shortest([part.partition for part in partitions], grain)
    found = moves_by(length, partitions)
    marks = tuple(
        Mark(style=name, title=f"{time}: {count:,} {name}", value=count, at=time)
        for time, moves in found.items()
        for name, count in _counts_of(moves).items()
        if count
    )
    title, noun = f"Rows that move, by {_NOUNS[length]}", _NOUNS[length]
    plot = Plot(title=title, form=Form.STACKED, marks=marks, x=noun, y="rows", times=tuple(found))
    return Chart(plots=(plot,), legend=tuple((name, name) for name in _styles(marks)))


def beside(*figures: Block | None) -> Iterable[Block]:
    """Figures with the charts of all of them beside each other, below what the others say in a sentence."""
    charts = [each for each in figures if isinstance(each, Chart)]
    yield from (each for each in figures if each is not None and not isinstance(each, Chart))
    if charts:
        yield Chart(
            plots=tuple(plot for chart in charts for plot in chart.plots),
            legend=tuple(named for chart in charts for named in chart.legend),
        )


def _counts_of(moves: RowDiff) -> Mapping[str, int]:
    return {"changed": moves.changed, "added": moves.added, "removed": moves.removed}


def _styles(marks: Iterable[Mark]) -> Iterable[str]:
    return sorted({mark.style for mark in marks}, key=["changed", "added", "removed", "failed", "warned"].index)


def _shortest(days: Iterable[date], grain: Grain) -> int:
    """The number of letters of dates that tells apart as many times as there is room for."""
    lengths = (10, 7, 4) if grain is Grain.DAILY else (7, 4)
    texts = [str(day) for day in days]
    return next((length for length in lengths if len({text[:length] for text in texts}) <= _MOST_TIMES), lengths[-1])


def columns_figure(changed: Mapping[str, int]) -> Block | None:
    """The number of rows with another value, column by column."""
    if len(changed) < _FEWEST:
        return None
    if len(set(changed.values())) == 1:
        each = count_of(next(iter(changed.values())), "row")
        return Note(text=f"Each of {count_of(len(changed), 'column')} has another value in {each}.")
    marks = tuple(
        Mark(style="changed", title=f"{name}: {count:,}", value=count, row=f"{name}: {count:,}")
        for name, count in list(changed.items())[:MOST_COLUMNS]
    )
    return Chart(plots=(Plot(title="Rows with another value, by column", form=Form.BARS, marks=marks, x="rows"),))


def gates_figure(grain: Grain, days: Sequence[date], gates: Iterable[GateSummary]) -> Block | None:
    """In which partitions gates failed, of those that failed in some of them; nothing where every one passed."""
    gates = list(gates)
    if len(days) < _FEWEST or not gates:
        return None
    length = _shortest(days, grain)
    measured = _by_time(length, days)
    marks = tuple(
        Mark(
            style="failed" if gate.blocking else "warned",
            title=f"{gate.gate}, {time}: failed in {len(failed):,} of {count_of(len(measured[time]), grain.noun)}",
            at=time,
            row=gate.gate,
        )
        for gate in gates
        if len(gate.failed) < len(days)
        for time, failed in _by_time(length, gate.failed).items()
        if time in measured
    )
    if not marks:
        return None
    title = f"Where gates failed, by {_NOUNS[length]}"
    plot = Plot(title=title, form=Form.CELLS, marks=marks, x=_NOUNS[length], times=tuple(measured))
    named = {"failed": "failed, blocks", "warned": "failed, informs"}
    return Chart(plots=(plot,), legend=tuple((style, named[style]) for style in _styles(marks)))


def _by_time(length: int, days: Iterable[date]) -> Mapping[str, Sequence[date]]:
    return grouped((str(day)[:length], day) for day in days)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moved:
    before: float
    after: float

    @property
    def change(self) -> float:
        return self.after - self.before

    def __add__(self, other: _Moved) -> _Moved:
        return _Moved(before=self.before + other.before, after=self.after + other.after)


_NOTHING = _Moved(before=0, after=0)


def measure_figures(found: BreakdownDocument, measure: str) -> Section | None:
    """A measure before and after, and where and when it moved, on one scale each.

    The tables add up either, so that there is nothing to show of a single month. Sums that are not finite are in the
    tables alone.
    """
    months = sorted({str(cell.month) for cell in found.restated})
    if len(months) < _FEWEST:
        return None
    length = 7 if len(months) <= _MOST_PAIRS else 4
    times, noun = list(dict.fromkeys(month[:length] for month in months)), _NOUNS[length]
    moved: dict[str, dict[str, _Moved]] = {}
    for cell in found.restated:
        by, time = key_text(cell.by), str(cell.month)[:length]
        of_this = moved.setdefault(by, {})
        of_this[time] = of_this.get(time, _NOTHING) + _moved(cell, measure)
    all_together = {time: sum((some.get(time, _NOTHING) for some in moved.values()), _NOTHING) for time in times}
    both = _both(all_together, measure, noun)
    changes = _changes(moved, times, measure, noun)
    plots = tuple(each for each in (both, changes) if isinstance(each, Plot))
    notes = (Note(text=each) for each in (both, changes) if isinstance(each, str))
    styles = {mark.style for plot in plots for mark in plot.marks}
    legend = tuple(each for each in (*_BEFORE_AND_AFTER, _CHANGE) if each[0] in styles)
    return section(f"{measure}, by {noun}", *notes, Chart(plots=plots, legend=legend))


def _moved(cell: MeasuredCell, measure: str) -> _Moved:
    found = _Moved(before=float(cell.before[measure]), after=float(cell.after[measure]))
    return found if all(map(drawable, astuple(found))) else _NOTHING


def _both(found: Mapping[str, _Moved], measure: str, noun: str) -> Plot | str:
    """Before and after, time by time."""
    each = list(found.values())
    if not any(some.change for some in each):
        return f"In each of {count_of(len(each), noun)} the same before and after."
    if all(some == each[0] for some in each):
        return f"In each of {count_of(len(each), noun)}: {_number(each[0].before)} \u2192 {_number(each[0].after)}."
    marks = tuple(
        Mark(style=style, title=f"{time}, {style}: {_number(value)}", value=value, at=time)
        for time, some in found.items()
        for style, value in (("before", some.before), ("after", some.after))
    )
    title = f"{measure} before and after, by {noun}"
    return Plot(title=title, form=Form.BESIDE, marks=marks, x=noun, y=measure, times=tuple(found))


def _changes(
    moved: Mapping[str, Mapping[str, _Moved]], times: Sequence[str], measure: str, noun: str
) -> Plot | str | None:
    """The size of the move, for the combinations of dimensions that moved most."""
    changes = {by: {time: some.change for time, some in found.items() if some.change} for by, found in moved.items()}
    changes = {by: found for by, found in changes.items() if found}
    different = {change for found in changes.values() for change in found.values()}
    if len(different) == 1 and all(len(found) == len(times) for found in changes.values()):
        for_each = f", for each of {len(changes):,} that moved" if len(changes) > 1 else ""
        return f"{_number(different.pop(), sign='+')} in each of {count_of(len(times), noun)}{for_each}."
    ranked = sorted(changes, key=lambda by: -sum(map(abs, changes[by].values())))[:_MOST_COMBINATIONS]
    marks = tuple(
        Mark(
            style="changed",
            title=f"{by or measure}, {time}: {_number(change, sign='+')}",
            value=change,
            at=time,
            row=by,
        )
        for by in changes
        if by in ranked
        for time, change in sorted(changes[by].items())
    )
    if not marks:
        return None
    only = f": {ranked[0]}" if len(changes) == 1 and ranked[0] else ""
    chosen = f": the {len(ranked)} of {len(changes):,} that moved most" if len(ranked) < len(changes) else only
    title = f"Change of {measure}, by {noun}{chosen}"
    return Plot(title=title, form=Form.STACKED, marks=marks, x=noun, y=measure, times=tuple(times))


def _number(value: Number, *, sign: str = "") -> str:
    return f"{value:{sign},.10g}"


def matrices(moves: Iterable[StateMove]) -> Mapping[str, Table]:
    """The matrix of each column, in order; values that no such row has are left out."""
    columns: dict[str, dict[tuple[str, str], int]] = {}
    for each in moves:
        pair = (each.before or _NOT_THERE, each.after or _NOT_THERE)
        columns.setdefault(each.column, {})[pair] = each.rows
    return {column: _matrix(counts) for column, counts in columns.items()}


def _matrix(counts: Mapping[tuple[str, str], int]) -> Table:
    """A row for each value before, a column for each after, in alphabetical order; where there is no row comes last."""
    befores, afters = (
        sorted({pair[side] for pair in counts}, key=lambda value: (value == _NOT_THERE, value)) for side in (0, 1)
    )
    heads = [*afters, "all"]
    rows: list[tuple[Value, ...]] = []
    for before in befores:
        found = [counts.get((before, after), 0) for after in afters]
        rows.append((before, *(count or "\u00b7" for count in found), sum(found)))
    totals = [sum(counts.get((before, after), 0) for before in befores) for after in afters]
    return table(["before \u2193   after \u2192", *heads], rows, numbers=heads, total=["all", *totals, sum(totals)])


def states_in_words(moves: Iterable[StateMove], *, most: int = 6) -> tuple[str, ...]:
    """The moves to another state, to new rows and from removed ones, those of the most rows first in every column.

    Args:
        most: How many are told.
    """
    told = [each for each in moves if each.before != each.after]
    words = [f"{m.column}: {m.before or _NOT_THERE} \u2192 {m.after or _NOT_THERE}: {m.rows:,}" for m in told[:most]]
    return (*words, f"and {len(told) - most:,} more") if len(told) > most else tuple(words)

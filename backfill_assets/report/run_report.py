"""Pages of the reports of runs and sets, with the figures of what changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from datetime import date, datetime
from decimal import Decimal

from backfill_assets.calendar.partitions import Grain, count_of, partition_text
from backfill_assets.core.grouped import grouped
from backfill_assets.core.next_steps import decline, once_read, step
from backfill_assets.core.tariff import sum_of
from backfill_assets.gates.measured import RowDiff
from backfill_assets.ledger.states import UNPUBLISHED, ApprovalState, RunState, SetState
from backfill_assets.planning.manifest_parts import NEVER_PUBLISHED
from backfill_assets.report.alternatives import together
from backfill_assets.report.charts import Form, Mark, Plot, drawable
from backfill_assets.report.code import code_section, references_section
from backfill_assets.report.cost import CostDocument
from backfill_assets.report.measured import GateSummary, MovesOfSome, PartitionMoves, StateMove, total_moves
from backfill_assets.report.page import (
    Block,
    Chart,
    Code,
    Facts,
    Items,
    Moved,
    Note,
    Page,
    Section,
    Steps,
    Table,
    Tone,
    Toned,
    Value,
    facts,
    page,
    present,
    run_ref,
    section,
    set_ref,
    several,
    table,
    words,
)
from backfill_assets.report.publications import publications_table
from backfill_assets.report.report import Level, RunReport, SetReport
from backfill_assets.report.review import (
    Review,
    all_change_nothing,
    changes_nothing,
    review_of,
    review_of_set,
)
from backfill_assets.report.runs import (
    RunSummary,
    SetDocument,
    partitions_of,
    run_facts,
    set_facts,
    set_files,
    state_of,
)
from backfill_assets.report.shown_rows import asked_rows, rows_that_fail, sample_table
from backfill_assets.report.usual import (
    BreakdownDocument,
    MeasuredCell,
    Number,
    altogether,
    by_dimensions,
    by_month,
    exact_numbers,
    number_of,
    usual_section,
)
from backfill_assets.report.values import as_sentence, cost_words, key_text, mebibytes, number_text, text_of
from backfill_assets.report.waiting import not_known_section, rejected_section
from backfill_assets.report.words.plans import (
    alternative_words,
    gate_references_described,
    publish_words,
    references_described,
)
from backfill_assets.report.words.stages import NOTHING_FOLLOWS, WORDS, policy_words, stage_words

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


_TONES = {Level.PENDING: Tone.STRONG, Level.GOOD: Tone.GOOD, Level.ATTENTION: Tone.ATTENTION, Level.BAD: Tone.BAD}
_MOST_PARTITIONS = 400
"""More partitions than these are shown month by month, and those that move most one by one."""

_MOST_NAMED = 3
"""How many runs of a set its title names."""

_MOST_MOVED, _MOST_ROWS = 40, 24
_LEAST_SHARE, _MOST_SHARE = Decimal("0.0005"), Decimal(10_000)
"""Smaller and larger changes are not said in percent."""

_COUNTS = ("accepted rows", "new rows", "changed", "added", "removed", "unchanged")


def run_page(report: RunReport, now: datetime | None = None) -> Page:
    """The report of a run as its reviewer and an auditor read it.

    Args:
        now: When it is written; None for a page that does not say so.
    """
    waiting = report.plan if report.run.record.state in UNPUBLISHED else ()
    policy = policy_words(report.run.manifest.policy, waiting)
    return page(
        _named(report),
        *_review(review_of(report), report.level, None if changes_nothing(report) else _decision(report.run)),
        *_details(report),
        section("About this run", run_facts(report.run, policy=policy, grounds=report.approved_for)),
        below=words("Run ", run_ref(report.run.record.run_id), *_written(now)),
    )


def _named(report: RunReport) -> str:
    """The change of a run: its table, its partitions, and the release that computes them."""
    run = report.run
    by = WORDS[type(run.manifest.change)].computed_by.format(release=run.manifest.transform_version)
    return f"{run.record.table} {text_of(partitions_of(run))}, {by}"


def _written(now: datetime | None) -> Sequence[Value]:
    return (", written on ", now) if now else ()


def set_page(report: SetReport, now: datetime | None = None) -> Page:
    """The report of a set: its totals by table first, then the report of each of its runs.

    Args:
        now: When it is written; None for a page that does not say so.
    """
    found = report.set
    named, more = list(map(_named, report.reports[:_MOST_NAMED])), len(report.reports) - _MOST_NAMED
    reviewed = [(each, review_of(each)) for each in report.reports]
    runs: list[Sequence[Value]] = [
        [
            run_ref(each.run.record.run_id),
            each.run.record.table,
            partitions_of(each.run),
            state_of(each.run.record.state),
            review.by_how_much,
            review.headline,
        ]
        for each, review in reviewed
    ]
    heads = ["run", "table", "partitions", "state", "what it changes", "verdict"]
    return page(
        "; ".join([*named, *([f"and {count_of(more, 'run')} more"] if more > 0 else [])]),
        *_review(review_of_set(report), report.level, None if all_change_nothing(report) else _decision(found)),
        *(each for of_run in report.reports for each in _borders(of_run)),
        section("Totals by table", _totals_by_table(report)),
        *(
            _breakdown(each.breakdown, of=report.title_of(each))
            for each in report.reports
            if each.breakdown and each.totals
        ),
        *(asked_rows(each, of=report.title_of(each)) for each in report.reports),
        *(_sample(each, of=report.title_of(each)) for each in report.reports),
        *(each for run in report.reports for each in rows_that_fail(run, of=report.title_of(run))),
        rejected_section(report.rejected),
        not_known_section(report.not_known),
        section("Runs, in the order of publication", table(heads, runs, whole=["run"])),
        facts(("cost", _spent([each.cost for each in report.reports]))),
        set_files(found),
        section("About this set", set_facts(found)),
        *(
            section(f"{report.title_of(each)}: {review.what_changes}", *_of_one_run(each, review), folded=True)
            for each, review in reviewed
        ),
        below=words("Set ", set_ref(found.record.set_id, found.record.manifest.name), *_written(now)),
    )


def _of_one_run(report: RunReport, review: Review) -> tuple[Block, ...]:
    # Its measures and its rows before and after are beside those of the other runs; their files are often the same.
    rest = replace(report, breakdown=None, sample=(), shown=None, samples_erased=None, failing_keys=())
    rest = replace(rest, left_behind=(), rejected=())
    return present([*_review(review, report.level, None), *_details(rest)])


def _decision(found: RunSummary | SetDocument) -> Steps | None:
    """The command that moves a run or a set on and, where that is a yes, the one for a no."""
    if found.next_step is None:
        return None
    match found:
        case RunSummary():
            named = found.record.request_id
        case SetDocument():
            named = found.record.set_id
    is_undone = found.record.state in (RunState.ROLLED_BACK, SetState.ROLLED_BACK)
    return Steps(steps=(once_read(found.next_step),), otherwise=None if is_undone else decline(named, found.next_step))


def _review(review: Review, level: Level, decision: Steps | None) -> Iterable[Block | None]:
    """The verdict, and the answers to a reviewer's questions."""
    note = Note(text=review.headline, tone=_TONES[level], items=review.warnings)
    yield section("Verdict", note, decision)
    yield facts(
        ("What changes?", review.what_changes),
        ("Columns", review.columns),
        *several("Changed since", review.changed),
        ("Why?", review.why),
        ("By how much?", review.by_how_much),
        ("Is it right?", review.is_it_right),
        ("What has happened?" if review.is_past else "What happens on yes?", review.on_yes),
    )


def _details(report: RunReport) -> Sequence[Block | None]:
    """The details: what restates its borders too, what moves, what depends on it, what was checked, the rows, and
    the rest."""
    moments = [(moment.at, moment.by, moment.what, moment.note) for moment in report.timeline]
    figures: list[Block | None] = []
    rows: list[Block | None] = []
    if report.totals:
        figures = [
            section("Totals", *_totals(report, report.totals)),
            _breakdown(report.breakdown) if report.breakdown else None,
        ]
        moving = section("Rows that move", *_rows_that_move(report))
        rows = [asked_rows(report), moving, _states(report), _sample(report)]
    no_notes = "The author wrote no notes." if report.code_changes else ""
    return [
        *_borders(report),
        section("Notes of the author", Note(text=report.run.manifest.notes or no_notes)),
        code_section(report.code_changes),
        references_section(report.reference_changes),
        section("Alternatives", Items(items=tuple(map(alternative_words, report.instead)))),
        *figures,
        _reach(report),
        section("Gates", *_gates(report)),
        usual_section(report.run.manifest.output.grain, report.usual),
        rejected_section(report.rejected),
        not_known_section(report.not_known),
        *rows_that_fail(report),
        *rows,
        section("Publications", publications_table(report.publications), long=True),
        facts(("cost", _spent([report.cost]))),
        section("Plan", Items(items=tuple(map(stage_words, report.plan)), numbered=True), folded=True),
        section("Who and when", table(["when", "who", "what", ""], moments, whole=["when"]), folded=True),
        section("Time and origin", _origin(report), folded=True),
    ]


def _borders(report: RunReport) -> Iterable[Note]:
    return (Note(text=words(f"To restate {each.partitions} too: ", each.next_step)) for each in report.left_behind)


def _counts(moves: RowDiff) -> tuple[int, ...]:
    return (moves.accepted_rows, moves.rows, moves.changed, moves.added, moves.removed, moves.unchanged)


def _totals(report: RunReport, totals: RowDiff) -> Iterable[Block | None]:
    rows: list[Sequence[Value]] = [
        (f"{name}: {some.partitions}", *_counts(some.moves))
        for name, some in (("restated", report.restated), ("new", report.new))
        if some
    ]
    both: Sequence[Value] = ("all", *_counts(totals)) if len(rows) > 1 else ()
    yield table(["partitions", *_COUNTS], rows, numbers=_COUNTS, total=both)
    if report.equal_partitions:
        equal = count_of(report.equal_partitions, "partition")
        yield Note(text=f"{equal} computed again and exactly equal to the accepted rows: verified, left as they are.")
    yield lost_files(report.run.manifest.output.grain, report.partitions)


def _totals_by_table(report: SetReport) -> Table:
    rows: list[Sequence[Value]] = []
    for each in report.tables:
        parts: tuple[tuple[str, MovesOfSome | None], ...]
        parts = (("restated", each.restated), ("new", each.new), ("all", each.all))
        measured: list[Sequence[Value]]
        measured = [(each.table, name, len(some.partitions), *_counts(some.moves)) for name, some in parts if some]
        rows += measured or [(each.table, "not measured yet", *[None] * (len(_COUNTS) + 1))]
    return table(["table", "", "partitions", *_COUNTS], rows, numbers=["partitions", *_COUNTS])


def _rows_that_move(report: RunReport) -> Iterable[Block | None]:
    """The number of differing rows, by time and by column: drawn beside each other, with the numbers below."""
    grain, changed = report.run.manifest.output.grain, report.changed_columns
    yield from beside(moves_figure(grain, report.partitions), columns_figure(changed))
    yield from _partitions(report)
    yield (
        section(
            "By column",
            Note(text="Rows that exist before and after, with another value in the column.", tone=Tone.SOFT),
            table(["column", "rows"], list(changed.items()), numbers=["rows"], most=MOST_COLUMNS),
            long=True,
        )
        if changed
        else None
    )


def _partitions(report: RunReport) -> Iterable[Block | None]:
    found, grain = report.partitions, report.run.manifest.output.grain
    months: list[Sequence[Value]] = []
    if len(found) > _MOST_PARTITIONS:
        months = [(name, *_counts(moves)) for name, moves in moves_by(len("2006-07"), found).items()]
    ranked = sorted(found, key=lambda part: (-part.moves.differing, part.partition))[:_MOST_MOVED]
    most = sorted(ranked, key=lambda part: part.partition)
    rows: list[Sequence[Value]] = [(_partition(grain, part), *_counts(part.moves)) for part in most]
    of_all = f"The {len(most)} of {count_of(len(found), grain.noun)} that move most, by date"
    title = "By partition" if len(found) == len(most) else of_all
    each: list[Sequence[Value]] = []
    if len(most) < len(found) <= _MOST_PARTITIONS:
        each = [(_partition(grain, part), *_counts(part.moves)) for part in found]
    yield section(
        title,
        table(["partition", *_COUNTS], rows, numbers=_COUNTS, most=_MOST_ROWS),
        section("By month", table(["month", *_COUNTS], months, numbers=_COUNTS), folded=True),
        section("Every partition", table(["partition", *_COUNTS], each, numbers=_COUNTS), folded=True),
        long=True,
    )


def _partition(grain: Grain, part: PartitionMoves) -> Value:
    mark = " new" if part.new else " equal" if part.equal else ""
    return words(partition_text(grain, part.partition), Toned(value=mark, tone=Tone.SOFT))


def _states(report: RunReport) -> Section | None:
    every = (
        section(
            f"Every move of {column}",
            Note(
                text="Rows that differ, in restated partitions; the diagonal are rows that differ elsewhere.",
                tone=Tone.SOFT,
            ),
            matrix,
            folded=True,
        )
        for column, matrix in matrices(report.state_moves).items()
    )
    return section("From which state to which", Items(items=states_in_words(report.state_moves)), *every)


def _sample(report: RunReport, *, of: str = "") -> Section | None:
    title = f"{of}: rows before and after" if of else "Rows before and after"
    if erased := report.samples_erased:
        return section(title, Note(text=words(f"Erased by {erased.by} on ", erased.at, f": {erased.reason}")))
    if not report.sample:
        return None
    said = (
        "Rows of the partitions that move most: some of each kind of difference (another state or dimension, added, "
        "removed, other values), those that matter most first."
    )
    return section(title, Note(text=said, tone=Tone.SOFT), sample_table(report.sample), of_rows=True)


def _gates(report: RunReport) -> Iterable[Block | None]:
    grain, days = report.run.manifest.output.grain, [part.partition for part in report.partitions]
    yield gates_figure(grain, days, report.gates)
    passed = [gate for gate in report.gates if gate.passed_partitions and not gate.failed]
    yield _gates_table(gate for gate in report.gates if gate not in passed)
    title = f"{count_of(len(passed), 'gate')} passed"
    if len(passed) == len(report.gates) and all(gate.passed_partitions >= len(days) for gate in passed):
        title = f"All {title} in each of {count_of(len(days), grain.noun)}"
    yield section(title, _gates_table(passed), long=True)


def _gates_table(gates: Iterable[GateSummary]) -> Table:
    rows = [
        (
            gate.gate,
            Toned(value=gate.outcome, tone=_gate_tone(gate)),
            "blocks" if gate.blocking else "informs",
            gate.first_failure or gate.demands,
        )
        for gate in gates
    ]
    return table(["gate", "result", "on failure", "finding"], rows)


def _gate_tone(gate: GateSummary) -> Tone:
    if gate.failed:
        return Tone.BAD if gate.blocking else Tone.ATTENTION
    return Tone.GOOD if gate.passed_partitions else Tone.SOFT


def _reach(report: RunReport) -> Section | None:
    dependents = report.dependents
    rows = [(each.table, each.partitions) for each in dependents]
    heads = ["table", "dependent partitions"]
    waiting = "; ".join(map(str, report.unpublished))
    nothing = f"Nothing published yet; without rows so far: {waiting}." if waiting else "No other table."
    if not report.run.manifest.computed:
        nothing = as_sentence(NOTHING_FOLLOWS)
    none = None if dependents else Note(text=nothing)
    figures = (
        section(
            f"Figures of {each.table} that can move",
            table(
                [*each.cells[0].by, "partitions"],
                [(*("null" if v is None else v for v in cell.by.values()), cell.partitions) for cell in each.cells],
                most=_MOST_MOVED,
            ),
            long=True,
        )
        for each in dependents
        if each.cells
    )
    return section("Dependents", table(heads, rows), none, _seen_together(report), *figures)


def _seen_together(report: RunReport) -> Note | None:
    """The way to see figures of dependents before anybody approves; None where nothing waits for that."""
    run = report.run
    waits = run.record.state is RunState.PASSED and run.record.approval is ApprovalState.DRAFT
    if not report.dependents or not waits or not run.record.is_alone or run.manifest.mode in NEVER_PUBLISHED:
        return None
    text = "They are computed after this publication. To measure them before anybody approves: "
    return Note(text=words(text, step(together(run.manifest))), tone=Tone.SOFT)


def _origin(report: RunReport) -> Facts:
    run, versions = report.run, report.versions.staged or report.versions.planned
    return facts(
        *_computed(report.cost),
        ("release", f"{run.manifest.transform} {run.manifest.transform_version}"),
        ("references", references_described(run.manifest.references)),
        ("read by gates", gate_references_described(report.gate_references)),
        ("publishes", publish_words(run.manifest)),
        ("replaces rows of", f"release {', '.join(report.from_versions)}" if report.from_versions else None),
        ("supersedes", ", ".join(report.run.manifest.supersedes)),
        ("comment of the approver", report.comment),
        (
            "manifest",
            words(
                Code(report.run.record.manifest_digest),
                Toned(value=" its sha256, which an approval names", tone=Tone.SOFT),
            ),
        ),
        *sorted(versions.items()),
    )


def _spent(costs: Iterable[CostDocument]) -> str | None:
    """The total cost of those runs of which something was computed; None where nothing was."""
    computed = [cost for cost in costs if cost.chunks]
    if not computed:
        return None
    expected = [cost.expected for cost in computed if cost.expected is not None]
    of_all = f" ({cost_words(sum_of(expected))} were expected)" if len(expected) == len(computed) else ""
    return f"{cost_words(sum_of([cost.spent for cost in computed]))} to compute and to measure{of_all}"


def _computed(cost: CostDocument) -> Iterable[tuple[str, Value]]:
    yield (
        "computed",
        f"{count_of(cost.chunks, 'chunk')}, {count_of(cost.input_rows, 'row')} read, "
        f"{count_of(cost.output_rows, 'row')} written, {count_of(cost.files, 'file')}, {mebibytes(cost.size_bytes)}, "
        f"from {mebibytes(cost.read_bytes)} of input",
    )
    pace = f" ({count_of(cost.rows_per_second, 'row')} a second)" if cost.rows_per_second is not None else ""
    spent = [f"{cost.staging_seconds} s to compute{pace}"]
    for seconds, what in (
        (cost.gating_seconds, "to measure"),
        (cost.comparing_seconds, "of these to compare with the accepted rows"),
        (cost.proving_seconds, "of these to prove the window"),
        (cost.publishing_seconds, "to publish"),
    ):
        spent += [f"{seconds} s {what}"] if seconds is not None else []
    yield "time", ", ".join(spent)


def _breakdown(found: BreakdownDocument, *, of: str = "") -> Section | None:
    by = ", ".join(found.dimensions)
    too_many = "There are too many combinations of the dimensions to show them one by one."
    parts: list[Block | None] = [Note(text=too_many, tone=Tone.SOFT) if found.too_many else None]
    if found.restated:
        months = by_month(found.restated)
        parts += [
            Note(text="Restated partitions: accepted rows \u2192 new rows.", tone=Tone.SOFT),
            _measured(found, by_dimensions(found.restated), total=altogether(found.restated)) if by else None,
        ]
        every = _measured(found, found.restated, months=True) if by and len(months) > 1 else None
        if len(months) > 1 or not by:
            parts.append(
                section(
                    "By month",
                    _measured(found, months, months=True),
                    *(measure_figures(found, measure) for measure in found.measures),
                    section(f"By month and {by}", every, folded=True),
                    long=bool(by),
                )
            )
    if found.new:
        of_new = _measured(found, by_dimensions(found.new), change=_after)
        parts.append(section("New partitions", of_new, long=bool(found.restated)))
        parts.append(section("New, by month", _measured(found, found.new, months=True, change=_after), folded=True))
    return section(f"{f'{of}: before' if of else 'Before'} and after{f', by {by}' if by else ''}", *parts)


Change = Callable[[Number, Number], Value]


def _measured(
    found: BreakdownDocument,
    cells: Sequence[MeasuredCell],
    *,
    months: bool = False,
    change: Change | None = None,
    total: MeasuredCell | None = None,
) -> Table:
    dimensions = found.dimensions if cells and cells[0].by else ()
    labels = [*(["month"] if months else []), *dimensions]

    def measures(cell: MeasuredCell) -> Iterable[Value]:
        return ((change or before_and_after)(cell.before[name], cell.after[name]) for name in found.measures)

    rows = [
        (
            *([cell.month] if months else []),
            *("null" if cell.by[name] is None else cell.by[name] for name in dimensions),
            *measures(cell),
        )
        for cell in cells
    ]
    last = ["all", *[""] * (len(labels) - 1), *measures(total)] if total and len(rows) > 1 else []
    return table([*labels, *found.measures], rows, numbers=found.measures, most=_MOST_MOVED, total=last)


def _after(_before: Number, after: Number) -> Value:
    return after


def before_and_after(before: Number, after: Number) -> Value:
    """A measure before and after, and how far it moved in its own unit and in percent."""
    how_far = change_in_words(before, after)
    return after if how_far == "same" else Moved(before=before, after=after, how_far=how_far)


def change_in_words(before: Number, after: Number) -> str:
    """The move of a measure, in its own unit and in percent."""
    was, now = Decimal(str(before)), Decimal(str(after))
    if was == now or (was.is_nan() and now.is_nan()):
        return "same"
    if not (was.is_finite() and now.is_finite()):
        return "not comparable"
    with exact_numbers():
        how_far = now - was
        share = how_far / abs(was) if was else None
    moved = number_text(number_of(how_far))
    moved = moved if how_far < 0 else f"+{moved}"
    return f"{moved}, {_percent(share)}" if share is not None else moved


def _percent(share: Decimal) -> str:
    if abs(share) < _LEAST_SHARE:
        return "under 0.1%"
    return "over 1,000,000%" if abs(share) > _MOST_SHARE else f"{share:+,.1%}"

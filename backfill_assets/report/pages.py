"""Pages: the report of a run or a set as one self-contained HTML file, and as short Markdown.

Both are written from the document that is also the JSON, by templates that escape every value. A page has no reference
to the network: style, script and charts are inside, and its content security policy allows nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import cache, partial
from math import isfinite, isnan
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from backfill_assets.core.wording import visible
from backfill_assets.planning.partitions import count_of
from backfill_assets.report.breakdown import MeasuredCell, Number, by_dimensions, by_month, number_of
from backfill_assets.report.charts import Bar, Labelled, Shaded, bars, columns, grid, strips
from backfill_assets.report.glossary import glossary
from backfill_assets.report.matrices import matrices, states_in_words
from backfill_assets.report.measured import PartitionMoves
from backfill_assets.report.report import RunReport
from backfill_assets.report.requests import Invocation, NextStep
from backfill_assets.report.set_report import SetReport

Worded = Callable[[NextStep | Invocation], str]
"""Says a next step in the words of the reader."""

MOST_PARTITIONS = 400
"""More partitions than these are shown month by month, and those that move most one by one."""

MOST_MOVED = 40
_MOST_COLUMNS = 24
_MOST_COMBINATIONS = 12
_FEWEST_MONTHS = 2
_MOST_MONTHS = 36
_PARTS = ("changed", "added", "removed")


def html_page(report: RunReport | SetReport, *, worded: Worded) -> str:
    """The report as one HTML file.

    Args:
        report: The document.
        worded: Says a next step, for example as a command.
    """
    name = "set.html" if isinstance(report, SetReport) else "run.html"
    script, style = _source("page.js"), _source("page.css")
    return (
        _environment("html", worded)
        .get_template(name)
        .render(
            report=report,
            script=Markup(script),  # noqa: S704 - a file of this package
            style=Markup(style),  # noqa: S704 - as above
            policy=_policy(script),
        )
    )


def markdown_page(report: RunReport | SetReport, *, worded: Worded) -> str:
    """The report as short Markdown, for pages that show it beside other things."""
    name = "set.md" if isinstance(report, SetReport) else "run.md"
    text: str = _environment("md", worded).get_template(name).render(report=report)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def _policy(script: str) -> str:
    """What the page may do: show its own style and its empty icon, and run exactly its own script."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:; base-uri 'none'"
    )


@cache
def _loader() -> PackageLoader:
    return PackageLoader("backfill_assets.report", "templates")


@cache
def _source(name: str) -> str:
    environment = Environment(loader=_loader(), autoescape=False)  # noqa: S701 - no value is put into these files
    return environment.get_template(name).render()


def _environment(kind: str, worded: Worded) -> Environment:
    environment = Environment(
        loader=_loader(),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=partial(_shown, worded=worded, in_markdown=kind == "md"),
    )
    environment.filters |= {
        "count": _count,
        "of": count_of,
        "listed": ", ".join,
        "number": _number,
        "change": lambda pair: change_in_words(*pair),
        "instant": _instant,
        "mib": _mebibytes,
        "key": _key,
        "pairs": _pairs,
    }
    environment.globals |= {
        "moves_chart": moves_chart,
        "moves_by_month": moves_by_month,
        "most_moved": most_moved,
        "columns_chart": columns_chart,
        "breakdown_chart": breakdown_chart,
        "by_dimensions": by_dimensions,
        "by_month": by_month,
        "gates_chart": gates_chart,
        "glossary": glossary,
        "matrices": matrices,
        "states_in_words": states_in_words,
        "most_partitions": MOST_PARTITIONS,
    }
    return environment


def _shown(value: Any, *, worded: Worded, in_markdown: bool) -> str:
    """A value as it is printed: control characters made visible, and Markdown's own characters escaped in Markdown."""
    match value:
        case Markup():
            return value
        case NextStep() | Invocation():
            value = worded(value)
        case None:
            return ""
    text = visible(str(value))
    # Jinja escapes what is no markup for HTML, and in Markdown a backslash does.
    return Markup(_OF_MARKDOWN.sub(r"\\\1", text)) if in_markdown else text  # noqa: S704 - escaped here


_OF_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|~&@]|:(?=//)|(?<=www)\.)")
"""What Markdown reads as its own within a line: marks, cells of tables, entities, and what it makes links of."""


def _count(value: int) -> str:
    return f"{value:,}"


def _number(value: Number) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.2f}" if isfinite(value) else str(Decimal(value))


def change_in_words(before: Number, after: Number) -> str:
    """How far a measure moved, in its own unit and in percent."""
    if before == after or (isnan(before) and isnan(after)):
        return "same"
    if not (isfinite(before) and isfinite(after)):
        return "not comparable"
    moved = f"{'+' if after > before else ''}{_number(number_of(Decimal(str(after)) - Decimal(str(before))))}"
    if not before:
        return moved
    percent = f"{(after - before) / abs(before):+.1%}"
    return f"{moved}, {'under 0.1%' if percent in ('+0.0%', '-0.0%') else percent}"


def _instant(value: datetime) -> str:
    return f"{value:%Y-%m-%d %H:%M:%S} UTC"


def _mebibytes(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:,.1f} MiB"


def _key(values: Mapping[str, str | None]) -> str:
    return ", ".join("null" if value is None else value for value in values.values())


def _pairs(row: Any) -> Sequence[tuple[str, str | None, str | None]]:
    """The columns of a row that differ, before and after; all of them for a row that is only on one side."""
    before, after = row.before or {}, row.after or {}
    return [
        (name, before.get(name), after.get(name)) for name in {**before, **after} if before.get(name) != after.get(name)
    ]


def most_moved(partitions: Sequence[PartitionMoves]) -> Sequence[PartitionMoves]:
    """All partitions, or those that move most when there are many."""
    if len(partitions) <= MOST_PARTITIONS:
        return partitions
    ranked = sorted(partitions, key=lambda part: (-part.moves.differing, part.partition))[:MOST_MOVED]
    return sorted(ranked, key=lambda part: part.partition)


def moves_by_month(partitions: Sequence[PartitionMoves]) -> Sequence[tuple[str, Mapping[str, int]]]:
    """The counts of many partitions, added up by calendar month."""
    names = ("rows", "accepted_rows", *_PARTS, "unchanged")
    months: dict[str, dict[str, int]] = {}
    for part in partitions:
        total = months.setdefault(f"{part.partition:%Y-%m}", dict.fromkeys(names, 0))
        for name in names:
            total[name] += getattr(part.moves, name)
    return list(months.items())


def moves_chart(partitions: Sequence[PartitionMoves]) -> Markup:
    """How many rows move, partition by partition, or by month when there are many."""
    axis = "partition"
    if len(partitions) > MOST_PARTITIONS:
        axis = "month"
        found = moves_by_month(partitions)
    else:
        found = [(str(part.partition), {name: getattr(part.moves, name) for name in _PARTS}) for part in partitions]
    rows = [
        Labelled(
            label=label,
            bars=tuple(Bar(value=moves[n], style=n, title=f"{label}: {moves[n]:,} {n}") for n in _PARTS if moves[n]),
        )
        for label, moves in found
    ]
    return columns("rows that move", rows, unit="rows", axis=axis) if any(row.bars for row in rows) else Markup()


def columns_chart(changed: Mapping[str, int]) -> Markup:
    """How many rows have another value, column by column."""
    rows = [
        Labelled(
            label=name, bars=(Bar(value=count, style="changed", title=f"{name}: {count:,}"),), text=f"{count:,} rows"
        )
        for name, count in list(changed.items())[:_MOST_COLUMNS]
    ]
    return bars("rows with another value, by column", rows)


def breakdown_chart(measure: str, cells: Sequence[MeasuredCell]) -> Markup:
    """Where and when a measure moved: by dimensions and month, or year when there are many months.

    The tables add up either, so that there is nothing to show of a single month. Sums that are not finite are in the
    tables alone.
    """
    months = sorted({str(cell.month) for cell in cells})
    if len(months) < _FEWEST_MONTHS:
        return Markup()
    length, axis = (7, "month") if len(months) <= _MOST_MONTHS else (4, "year")
    times = list(dict.fromkeys(month[:length] for month in months))
    moved: dict[str, dict[str, float]] = {}
    for cell in cells:
        found = moved.setdefault(_key(cell.by) or "all", dict.fromkeys(times, 0.0))
        how_far = float(cell.after[measure]) - float(cell.before[measure])
        found[str(cell.month)[:length]] += how_far if isfinite(how_far) else 0
    ranked = sorted(moved, key=lambda by: -sum(map(abs, moved[by].values())))[:_MOST_COMBINATIONS]
    rows = [
        (by, [Shaded(value=value, title=f"{by}, {at}: {value:+,.10g}") for at, value in moved[by].items()])
        for by in moved
        if by in ranked
    ]
    return grid(f"{measure}: how far it moved", rows, (times[0], times[-1]), axis=axis)


def gates_chart(report: RunReport) -> Markup:
    """A strip per gate: in which partitions it passed and failed."""
    days: Sequence[date] = [part.partition for part in report.partitions]
    if not days:
        return Markup()
    rows = []
    for gate in report.gates:
        failed, bad = set(gate.failed), "failed" if gate.blocking else "warned"
        measured = gate.passed_partitions + gate.failed_partitions
        cells = [(("passed" if day not in failed else bad) if measured else "unknown", str(day)) for day in days]
        rows.append((gate.gate, cells))
    return strips("gates by partition", rows, (str(days[0]), str(days[-1])))

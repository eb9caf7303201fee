"""Charts of reports: inline SVG from a few shapes. No script, no font, nothing from the network (ADR 0025).

Colours are classes of the page's style sheet, so that a chart follows it in light, in dark and on paper.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup

from backfill_assets.core.wording import visible
from backfill_assets.gates.moves import Moves
from backfill_assets.report.measured import PartitionMoves, total_moves

WIDTH = 760
_LABEL = 250
_ROW = 20
_HEAD = 20
_TALLEST = 120
"""The room for a text above a chart, whose letters are larger on a narrow screen."""

_MOST_LABEL = 38


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar, or one part of a stacked one.

    Attributes:
        value: Its length, not negative.
        style: A class of the style sheet, such as `changed`.
    """

    value: float
    style: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """One row of a chart: bars with a label before them and a text after them."""

    label: str
    bars: tuple[Bar, ...]
    text: str = ""


def bars(title: str, rows: Sequence[Labelled]) -> Markup:
    """Horizontal bars on one scale, several of a row below each other."""
    if not rows:
        return Markup()
    most = max((bar.value for row in rows for bar in row.bars), default=0) or 1
    width = WIDTH - _LABEL - 130
    shapes: list[Markup] = []
    y = 0
    for row in rows:
        height = max(len(row.bars), 1) * 12 + 8
        middle = y + height / 2 + 4
        shapes.append(text(_LABEL - 8, middle, row.label, anchor="end"))
        for place, bar in enumerate(row.bars):
            length = max(bar.value / most * width, 1 if bar.value else 0)
            shapes.append(rect(_LABEL, y + 4 + place * 12, length, 10, bar.style, bar.title))
        longest = max((bar.value for bar in row.bars), default=0) / most * width
        shapes.append(text(_LABEL + longest + 8, middle, row.text))
        y += height
    return svg(title, y, shapes)


def columns(title: str, rows: Sequence[Labelled], *, unit: str, axis: str) -> Markup:
    """Stacked columns side by side, one per row, with the first and the last label below them."""
    if not rows:
        return Markup()
    most = max(sum(bar.value for bar in row.bars) for row in rows) or 1
    step = WIDTH / len(rows)
    shapes: list[Markup] = [text(0, 14, f"{most:,.0f} {unit}"), line(0, _TALLEST + _HEAD, WIDTH)]
    for place, row in enumerate(rows):
        y = float(_TALLEST + _HEAD)
        for bar in row.bars:
            if bar.value:
                tall = bar.value / most * _TALLEST
                y -= tall
                gap = min(step * 0.15, 2)
                shapes.append(rect(place * step + gap, y, step - 2 * gap, tall, bar.style, bar.title))
    shapes.append(text(0, _TALLEST + _HEAD + 16, rows[0].label))
    shapes.append(text(WIDTH / 2, _TALLEST + _HEAD + 16, axis, anchor="middle"))
    if len(rows) > 1:
        shapes.append(text(WIDTH, _TALLEST + _HEAD + 16, rows[-1].label, anchor="end"))
    return svg(title, _TALLEST + _HEAD + 22, shapes)


def strips(title: str, rows: Sequence[tuple[str, Sequence[tuple[str, str]]]], ends: tuple[str, str]) -> Markup:
    """A heat map: per row a strip of equal cells; neighbours of one colour are drawn as one shape."""
    if not rows:
        return Markup()
    shapes: list[Markup] = []
    for place, (label, cells) in enumerate(rows):
        y = place * _ROW
        shapes.append(text(_LABEL - 8, y + 14, label, anchor="end"))
        step = (WIDTH - _LABEL) / max(len(cells), 1)
        start = 0
        for style, group in groupby(cells, key=lambda cell: cell[0]):
            found = list(group)
            names = found[0][1] if len(found) == 1 else f"{found[0][1]} to {found[-1][1]}"
            tip = f"{label}: {style}, {names}"
            shapes.append(rect(_LABEL + start * step, y + 3, max(len(found) * step, 0.6), _ROW - 5, style, tip))
            start += len(found)
    below = len(rows) * _ROW + 14
    shapes += [text(_LABEL, below, ends[0]), text(WIDTH, below, ends[1], anchor="end")]
    return svg(title, below + 6, shapes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shaded:
    """A cell of a grid: a darker one is larger.

    Attributes:
        value: Its size; one below nothing has another colour, and nothing is not drawn.
    """

    value: float
    title: str


def grid(title: str, rows: Sequence[tuple[str, Sequence[Shaded]]], ends: tuple[str, str], *, axis: str) -> Markup:
    """A heat map of differences on one scale.

    Args:
        axis: What one cell is, such as `month`.
    """
    rows = [(label, cells) for label, cells in rows if any(cell.value for cell in cells)]
    most = max((abs(cell.value) for _, cells in rows for cell in cells), default=0)
    if not most:
        return Markup()
    shapes: list[Markup] = []
    for place, (label, cells) in enumerate(rows):
        shapes.append(text(_LABEL - 8, place * _ROW + 14, label, anchor="end"))
        step = (WIDTH - _LABEL) / len(cells)
        for column, cell in enumerate(cells):
            if cell.value:
                shade = f"{'more' if cell.value > 0 else 'less'} shade-{1 + min(int(abs(cell.value) / most * 3), 2)}"
                x, width = _LABEL + column * step, max(step - 1, 0.6)
                shapes.append(rect(x, place * _ROW + 3, width, _ROW - 5, shade, cell.title))
    below = len(rows) * _ROW + 14
    shapes += [text(_LABEL, below, ends[0]), text(WIDTH, below, ends[1], anchor="end")]
    shapes.append(text((WIDTH + _LABEL) / 2, below, f"{axis}; the darkest is {most:,.10g}", anchor="middle"))
    return svg(title, below + 6, shapes)


def svg(title: str, height: float, shapes: Iterable[Markup], *, has_links: bool = False) -> Markup:
    """A drawing of shapes; one with links is a group of these for whoever hears it, and not one picture."""
    return Markup('<svg viewBox="0 0 {} {:.0f}" role="{}" aria-label="{}">{}</svg>').format(
        WIDTH, height, "group" if has_links else "img", visible(title), Markup().join(shapes)
    )


def rect(x: float, y: float, width: float, height: float, style: str, title: str = "") -> Markup:
    """A rectangle, with what it says when it is pointed at."""
    shape = Markup('<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}">{}</rect>')
    return shape.format(style, x, y, width, height, _title(title) if title else "")


def path(drawn: str, style: str) -> Markup:
    """A path, as SVG writes it."""
    return Markup('<path class="{}" d="{}"/>').format(style, drawn)


def link(address: str | None, title: str, shapes: Markup) -> Markup:
    """Shapes that lead to an address, with what they say when they are pointed at, or heard."""
    if address is None:
        return Markup("<g>{}{}</g>").format(_title(title), shapes)
    return Markup('<a href="{}">{}{}</a>').format(address, _title(title), shapes)


def _title(title: str) -> Markup:
    return Markup("<title>{}</title>").format(visible(title))


def text(x: float, y: float, words: str, *, anchor: str = "start") -> Markup:
    """A text, shortened where it is long."""
    short = words if len(words) <= _MOST_LABEL else f"{words[: _MOST_LABEL - 1]}\u2026"
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(x, y, anchor, visible(short))


def line(x: float, y: float, to: float) -> Markup:
    """A horizontal line."""
    return Markup('<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>').format(x, y, to, y)


_PARTS = ("changed", "added", "removed")


def moves_by_month(partitions: Iterable[PartitionMoves]) -> Sequence[tuple[str, Moves]]:
    """The counts of many partitions, added up by calendar month."""
    months: dict[str, list[PartitionMoves]] = {}
    for part in partitions:
        months.setdefault(f"{part.partition:%Y-%m}", []).append(part)
    return [(month, moves) for month, found in months.items() if (moves := total_moves(found))]


def moves_chart(partitions: Sequence[PartitionMoves], *, by_month: bool) -> Markup:
    """How many rows move, partition by partition or month by month."""
    found = moves_by_month(partitions) if by_month else [(str(part.partition), part.moves) for part in partitions]
    rows = [
        Labelled(
            label=label,
            bars=tuple(
                Bar(value=count, style=name, title=f"{label}: {count:,} {name}")
                for name in _PARTS
                if (count := getattr(moves, name))
            ),
        )
        for label, moves in found
    ]
    axis = "month" if by_month else "partition"
    return columns("rows that move", rows, unit="rows", axis=axis) if any(row.bars for row in rows) else Markup()


def columns_chart(changed: Iterable[tuple[str, int]]) -> Markup:
    """How many rows have another value, column by column."""
    rows = [
        Labelled(
            label=name, bars=(Bar(value=count, style="changed", title=f"{name}: {count:,}"),), text=f"{count:,} rows"
        )
        for name, count in changed
    ]
    return bars("rows with another value, by column", rows)

"""Charts: small Vega-Lite specifications, drawn as SVG when a page is written (ADR 0041).

Vega sees numbers and texts of this module alone: what people wrote is put into the finished drawing, escaped, of which
only shapes and texts are kept. Colours are classes of the page's style sheet, so that a chart follows it in light, in
dark and on paper. A drawing is as wide as a narrow screen; several of them wrap beside each other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any, assert_never
from xml.etree import ElementTree

from markupsafe import Markup, escape

from backfill_assets.core.wording import visible

_WIDTH = 344
_LEFT, _RIGHT, _LETTERS, _LETTER = 52, 14, 12, 6.7
"""The room beside the marks, for the numbers of an axis and half of its last label; the height of letters, and about
how wide one is."""

_ALONE, _OF_SEVERAL, _LANE = 130, 44, 32
"""The heights of a panel, of each of several panels, and of a lane with the name above it."""

_BETWEEN = 0.15
"""The room between two times, as a part of one."""

_MOST_LETTERS = 42
_MOST_INSTANTS, _LETTERS_OF_AN_INSTANT = 3, 11
"""How many instants of an axis are named, and how long the longest name is."""

_LEAST, _SHORT, _MOST, _LARGEST = 1e-2, 10_000, 1e15, 1e300
_HOUR, _WEEK = 3_600, 8 * 86_400
"""Spans of time up to which an axis shows seconds, and minutes."""


class Form(StrEnum):
    """The form in which marks are drawn."""

    STACKED = "stacked"
    """Columns over time, the parts of one on each other."""

    BESIDE = "beside"
    """Columns over time, those of one time beside each other."""

    WITHIN = "within"
    """Bars over time from a base of their own, drawn over each other: a band, and what lies inside of it or not."""

    BARS = "bars"
    """Bars from left to right, one in each lane."""

    CELLS = "cells"
    """Cells over time, in lanes."""

    POINTS = "points"
    """Instants, in lanes."""


_UPWARDS = (Form.STACKED, Form.BESIDE, Form.WITHIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A value that is drawn."""

    style: str  #: Its colour, by the class of the style sheet that the legend explains.
    title: str  #: What it says when it is pointed at.
    value: float = 0  #: How long it is, or where it ends.
    base: float = 0  #: Where it begins, of values that are drawn over each other.
    at: str = ""  #: Its time: one of the times of the plot; of a point, an instant of ISO 8601 in UTC.
    row: str = ""  #: The panel or the lane that it is in.
    address: str | None = None  #: Where it leads to.


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """One drawing, on one scale."""

    title: str  #: What it shows, for those who do not see it too.
    form: Form
    #: In the order in which they are stacked, and in which panels and lanes stand below each other.
    marks: tuple[Mark, ...]
    x: str  #: What the axis from left to right counts.
    y: str = ""  #: What the axis upwards counts; without meaning where there are lanes.
    times: tuple[str, ...] = ()  #: Every time, in order, also those without a mark.
    seconds: float = 0  #: How long the time from the first to the last point is.

    def __post_init__(self) -> None:
        if not self.marks:
            raise ValueError("a plot without marks")

    @property
    def rows(self) -> Sequence[str]:
        """The panels or lanes, from top to bottom."""
        return list(dict.fromkeys(mark.row for mark in self.marks))


def drawable(value: float) -> bool:
    """True if a number can be drawn on a scale: it is finite, and no scale of it overflows."""
    return abs(value) < _LARGEST


@dataclass(slots=True)
class _Texts:
    """The texts of a drawing, for which Vega is given numbers."""

    said: list[str] = field(default_factory=list)

    def __call__(self, text: str) -> str:
        if text not in self.said:
            self.said.append(text)
        return f"text-{self.said.index(text)}"

    def of(self, shown: str) -> str:
        found = re.fullmatch(r"text-(\d+)", shown)
        text = self.said[int(found[1])] if found else shown
        return text if len(text) <= _MOST_LETTERS else f"{text[: _MOST_LETTERS - 1]}\u2026"


@lru_cache(maxsize=64)
def drawings(plots: tuple[Plot, ...]) -> Markup:
    """Plots as drawings beside each other; a sentence where the library that draws them is not installed."""
    try:
        from vl_convert import vegalite_to_svg
    except ImportError:
        return Markup(
            "<p>Charts are left out here: vl-convert-python is not installed. The tables have every number.</p>"
        )
    shapes = []
    for plot in plots:
        texts = _Texts()
        svg = vegalite_to_svg(specification(plot, texts), allowed_base_urls=[], config=dict(_CONFIG))
        figure = Markup("<figure><figcaption>{}</figcaption>{}</figure>")
        shapes.append(figure.format(visible(plot.title), _cleaned(svg, plot, texts)))
    return Markup('<div class="plots">{}</div>').format(Markup("\n").join(shapes))


_ABOVE = {"titleAngle": 0, "titleAlign": "left", "titleAnchor": "end", "titleX": 8 - _LEFT, "titleY": -8}
"""Where the title of an axis upwards is read."""

_CONFIG: Mapping[str, Any] = {
    "view": {"stroke": None},
    "axis": {
        "labelFontSize": _LETTERS,
        "titleFontSize": _LETTERS,
        "titleFontWeight": "normal",
        "gridColor": {"condition": {"test": "datum.value === 0", "value": "axis"}, "value": "grid"},
        "domain": False,
        "ticks": False,
    },
    "header": {"labelFontSize": _LETTERS, "title": None},
    "facet": {"spacing": 6},
}


def specification(plot: Plot, texts: _Texts) -> dict[str, Any]:
    """The specification of a plot in Vega-Lite."""
    values = [
        {
            "number": number,
            "mark": f"mark-{number}",
            "style": mark.style,
            "value": mark.value,
            **({"base": mark.base} if plot.form is Form.WITHIN else {}),
            "at": mark.at if plot.form is Form.POINTS else texts(mark.at),
            "row": texts(mark.row),
        }
        for number, mark in enumerate(plot.marks)
    ]
    shape, encoding = _over_time(plot, texts) if plot.form in _UPWARDS else _in_lanes(plot, texts)
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "data": {"values": values},
        **shape,
        "encoding": {
            **encoding,
            "color": {"field": "style", "scale": None},
            "description": {"field": "mark"},
        },
    }


def _over_time(plot: Plot, texts: _Texts) -> tuple[dict[str, Any], dict[str, Any]]:
    """Columns over time, in one panel or in several below each other, all on one scale."""
    has_panels = len(plot.rows) > 1
    encoding: dict[str, Any] = {
        "x": _times(plot, texts, _WIDTH - _LEFT - _RIGHT),
        "y": {
            "field": "value",
            "type": "quantitative",
            "stack": "zero" if plot.form is Form.STACKED else None,
            "axis": {**_numbers(plot, texts, plot.y), **_ABOVE, "tickCount": 2 if has_panels else 4},
        },
        "order": {"field": "number"},
    }
    if plot.form is Form.BESIDE:
        encoding["xOffset"] = {"field": "style", "sort": None}
    if plot.form is Form.WITHIN:
        encoding["y"]["scale"] = {"zero": False}
        encoding["y2"] = {"field": "base"}
    if has_panels:
        encoding["row"] = {"field": "row", "sort": None, "header": {"labelOrient": "top", "labelAnchor": "start"}}
        encoding["y"]["axis"]["title"] = None
    height = _OF_SEVERAL if has_panels else _ALONE
    return {"width": _WIDTH - _LEFT - _RIGHT, "height": height, "mark": "bar"}, encoding


def _in_lanes(plot: Plot, texts: _Texts) -> tuple[dict[str, Any], dict[str, Any]]:
    """Lanes below each other, each with its name above its marks."""
    above = {"labelAlign": "left", "labelPadding": -3, "labelOffset": -_LETTERS, "labelLimit": _WIDTH, "title": None}
    encoding: dict[str, Any] = {"y": {"field": "row", "type": "nominal", "sort": None, "axis": above}}
    mark: dict[str, Any] = {"yOffset": _LETTERS / 2}
    match plot.form:
        case Form.BARS:
            mark |= {"type": "bar", "height": _LETTERS}
            encoding["x"] = {"field": "value", "type": "quantitative", "axis": _numbers(plot, texts, plot.x)}
        case Form.CELLS:
            mark |= {"type": "rect", "height": _LETTERS}
            encoding["x"] = _times(plot, texts, _WIDTH - 2 * _RIGHT)
        case Form.POINTS:
            mark |= {"type": "point", "filled": True, "size": 90, "opacity": 1}
            encoding["x"] = {
                "field": "at",
                "type": "temporal",
                "scale": {"type": "utc", "nice": False, "padding": 8},
                "axis": {
                    "title": texts(plot.x),
                    "grid": True,
                    "tickCount": _MOST_INSTANTS,
                    "format": _instants(plot.seconds),
                    # A name that would end beside the drawing ends at its edge.
                    "labelFlush": _LETTERS_OF_AN_INSTANT * _LETTER / 2,
                    # Which may lead it to the next one: then that is left out.
                    "labelOverlap": "greedy",
                    "labelSeparation": 2 * _LETTER,
                },
            }
            encoding["shape"] = {
                "field": "style",
                "scale": {"domain": ["publish", "rollback"], "range": ["triangle-up", "triangle-down"]},
                "legend": None,
            }
        case Form.STACKED | Form.BESIDE | Form.WITHIN:
            raise ValueError("columns stand in panels")
        case _:
            assert_never(plot.form)
    return {"width": _WIDTH - 2 * _RIGHT, "height": {"step": _LANE}, "mark": mark}, encoding


def _times(plot: Plot, texts: _Texts, width: float) -> dict[str, Any]:
    """An axis of times, of which the first and the last are named, and the middle one where there is room."""
    named = _named(plot.times, width)
    aside = [(texts(plot.times[place]), side) for place, side in named if side != "center"]
    return {
        "field": "at",
        "type": "ordinal",
        "scale": {"domain": [texts(time) for time in plot.times], "paddingOuter": 0, "paddingInner": _BETWEEN},
        "axis": {
            "title": texts(plot.x),
            "values": [texts(plot.times[place]) for place, _ in named],
            "labelAngle": 0,
            "labelAlign": {
                "condition": [{"test": f"datum.value === '{name}'", "value": side} for name, side in aside],
                "value": "center",
            },
            "labelOverlap": False,
            "ticks": True,
        },
    }


def _named(times: Sequence[str], width: float) -> Sequence[tuple[int, str]]:
    """The times that get a label, and at which side of their place: a label stays inside and clear of the others."""
    last = len(times) - 1
    half = max(map(len, times)) * _LETTER / 2
    first_at, last_at, middle_at = (width * (place + 0.5) / len(times) for place in (0, last, round(last / 2)))
    first = "center" if first_at >= half else "left"
    end = "center" if width - last_at >= half else "right"
    free_from = first_at + (half if first == "center" else 2 * half) + _LETTER
    free_to = last_at - (half if end == "center" else 2 * half) - _LETTER
    has_room = middle_at - half >= free_from and middle_at + half <= free_to
    found = [(0, first), *([(round(last / 2), "center")] if has_room else []), (last, end)]
    return found if last else found[:1]


def _numbers(plot: Plot, texts: _Texts, title: str) -> dict[str, Any]:
    """An axis of numbers, with a line behind the marks for each of them."""
    most = max(abs(mark.value) for mark in plot.marks)
    are_whole = all(float(mark.value).is_integer() for mark in plot.marks)
    written = ",~f" if _LEAST <= most < _SHORT else "~s" if _SHORT <= most < _MOST else "~e"
    return {
        "title": texts(title),
        "grid": True,
        "tickCount": 4,
        "tickMinStep": 1 if are_whole else 0,
        # Each number by itself: Vega would write a common power of ten behind all of them, also behind 0.
        "labelExpr": f"format(datum.value, '{written}')",
    }


def _instants(seconds: float) -> str:
    if seconds < _HOUR:
        return "%H:%M:%S"
    return "%m-%d %H:%M" if seconds < _WEEK else "%Y-%m-%d"


_KEPT: Mapping[str, Sequence[str]] = {
    "g": ("transform",),
    "path": ("transform", "d"),
    "line": ("transform", "x2", "y2"),
    "text": ("transform", "text-anchor"),
}
"""Which elements of a drawing are kept, and which of their attributes: none that leads or loads from anywhere."""

_NUMBERS = re.compile(r"[-+0-9.,() a-zA-Z]*")
_LONG = re.compile(r"\d+\.\d{2,}")


def _cleaned(svg: str, plot: Plot, texts: _Texts) -> Markup:
    """A drawing of Vega's as part of a page: its shapes, with the texts and links that they stand for."""
    root = ElementTree.fromstring(svg)  # noqa: S314 - Vega wrote it in this process, without texts of others
    (frame,) = (each for each in root if each.get("transform"))
    left = float(re.findall(r"[-\d.]+", frame.get("transform", ""))[0])
    start = left - (_LEFT if plot.form in _UPWARDS else _RIGHT)
    shape = Markup('<svg class="plot" viewBox="{:.10g} 0 {} {}" role="{}" aria-label="{}"><desc>{}</desc>{}</svg>')
    role = "group" if any(mark.address for mark in plot.marks) else "img"
    shapes = _element(frame, plot, texts)
    return shape.format(start, _WIDTH, root.get("height"), role, visible(plot.title), visible(_described(plot)), shapes)


def _element(element: ElementTree.Element, plot: Plot, texts: _Texts) -> Markup:
    tag = element.tag.rpartition("}")[2]
    if tag not in _KEPT or element.get("class") in ("background", "foreground") or element.get("opacity") == "0":
        return Markup()
    inner = Markup().join(_element(each, plot, texts) for each in element)
    attributes = {name: _short(value) for name in _KEPT[tag] if (value := element.get(name))}
    if tag == "g" and (not inner or attributes.get("transform") in (None, "translate(0,0)")):
        return inner
    mark = _mark(element, plot) if tag == "path" else None
    if mark:
        attributes = {"class": mark.style, **attributes}
        inner = Markup("<title>{}</title>").format(visible(mark.title))
    elif tag == "line":
        attributes = {"class": "axis", **attributes} if element.get("stroke") == "axis" else attributes
    elif tag == "text":
        inner = escape(visible(texts.of(element.text or "")))
    written = Markup().join(Markup(' {}="{}"').format(name, value) for name, value in attributes.items())
    drawing = (
        Markup("<{0}{1}>{2}</{0}>").format(tag, written, inner) if inner else Markup("<{}{}/>").format(tag, written)
    )
    return Markup('<a href="{}">{}</a>').format(mark.address, drawing) if mark and mark.address else drawing


def _mark(element: ElementTree.Element, plot: Plot) -> Mark | None:
    found = re.fullmatch(r"mark-(\d+)", element.get("aria-label", ""))
    return plot.marks[int(found[1])] if found else None


def _short(numbers: str) -> str:
    """Numbers of a drawing to a tenth of a pixel."""
    if not _NUMBERS.fullmatch(numbers):
        raise ValueError(f"not a shape: {numbers[:40]!r}")
    return _LONG.sub(lambda found: f"{float(found.group()):.1f}".removesuffix(".0"), numbers)


def _described(plot: Plot) -> str:
    """The text of a plot, for readers who do not see it."""
    over = f"From {plot.times[0]} to {plot.times[-1]}. " if plot.times else ""
    below = f"Below each other: {', '.join(plot.rows)}. " if len(plot.rows) > 1 else ""
    largest = max(plot.marks, key=lambda mark: abs(mark.value))
    return f"{over}{below}{f'The largest: {largest.title}.' if largest.value else ''}".strip()

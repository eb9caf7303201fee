"""Charts: axes with units, one scale, one meaning for each colour, and nothing but shapes and escaped texts."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from operator import itemgetter
from xml.etree import ElementTree

import pytest

from backfill_assets.calendar.partitions import Grain
from backfill_assets.report import charts
from backfill_assets.report.charts import Form, Mark, Plot, drawings
from backfill_assets.report.html import html_file, source
from backfill_assets.report.measured import PartitionMoves
from backfill_assets.report.page import Block, Chart, Note, Section
from backfill_assets.report.run_report import columns_figure, gates_figure, measure_figures, moves_figure, run_page
from backfill_assets.report.usual import BreakdownDocument, MeasuredCell
from backfill_assets_tests.support.report_examples import FIRST, HOSTILE, cell, days, gate, moves, parts, report

MONTHS = tuple(f"2006-{month:02d}" for month in range(1, 13))


def one_of_each_form(said: str) -> tuple[Plot, ...]:
    """A plot of every form, with a text wherever a text can be."""
    marks = [
        Mark(style="changed", title=said, value=value, at=said, row=row, address="/runs/1" if value == 1 else None)
        for value, row in ((1.0, said), (2.5, f"{said}, too"))
    ]
    return tuple(
        Plot(
            title=said,
            form=form,
            marks=tuple(replace(mark, at="2006-07-01T12:00:00Z") if form is Form.POINTS else mark for mark in marks),
            x=said,
            y=said,
            times=() if form in (Form.BARS, Form.POINTS) else (said,),
        )
        for form in Form
    )


def svgs(drawn: str) -> Iterator[ElementTree.Element]:
    yield from ElementTree.fromstring(drawn).iter("svg")


def texts(drawn: str) -> list[str]:
    return ["".join(each.itertext()) for each in ElementTree.fromstring(drawn).iter("text")]


def chart_of(block: Block | None) -> Chart:
    """The chart that a block is, or that a section has."""
    found = [each for each in block.blocks if isinstance(each, Chart)] if isinstance(block, Section) else [block]
    (chart,) = found
    assert isinstance(chart, Chart)
    return chart


def said_by(block: Block | None) -> list[str]:
    blocks = block.blocks if isinstance(block, Section) else [block]
    return [str(each.text) for each in blocks if isinstance(each, Note)]


@pytest.mark.parametrize("said", [HOSTILE, "text-0", "mark-0", "]]>&amp;</svg>\x00\x1b\ud800", "", "datum.value"])
def test_what_people_wrote_stays_text_in_a_chart_and_leads_nowhere(said: str) -> None:
    drawn = drawings(one_of_each_form(said))
    root = ElementTree.fromstring(drawn)
    allowed = {"div", "figure", "figcaption", "svg", "desc", "title", "g", "path", "line", "text", "a"}
    assert {each.tag for each in root.iter()} <= allowed
    kept = {"class", "viewBox", "role", "aria-label", "transform", "d", "x2", "y2", "text-anchor", "href"}
    assert {name for each in root.iter() for name in each.attrib} <= kept
    assert {each.get("href") for each in root.iter("a")} == {"/runs/1"}
    assert "\u202e" not in drawn
    if said and said.isascii() and said.isprintable() and len(said) < 40:
        assert texts(drawn).count(said) > len(Form), "shown as it is, also where it looks like one of our own names"


def test_vega_is_given_none_of_the_texts_that_people_wrote() -> None:
    for plot in one_of_each_form(HOSTILE):
        assert "alert" not in json.dumps(charts.specification(plot, charts._Texts()))


def test_a_specification_names_no_address_and_no_picture() -> None:
    for plot in one_of_each_form("a"):
        spec = json.dumps(charts.specification(plot, charts._Texts()))
        assert re.findall(r"https?://[^\"]+", spec) == ["https://vega.github.io/schema/vega-lite/v6.json"]
        assert not re.search(r'"(href|url|image|geoshape|expr|signal)"', spec)


def test_a_drawing_that_is_not_made_of_numbers_is_refused() -> None:
    (plot, *_) = one_of_each_form("a")
    vega = '<svg xmlns="http://www.w3.org/2000/svg" height="9"><g transform="translate(1,1)">{}</g></svg>'
    hostile = vega.format('<image href="http://evil.example"/><g transform="translate(2,2)"><script>1</script></g>')
    cleaned = charts._cleaned(hostile, plot, charts._Texts())
    assert not re.search("image|href|script|evil", cleaned)
    with pytest.raises(ValueError, match="not a shape"):
        charts._cleaned(vega.format('<path d="url(#a)"/>'), plot, charts._Texts())


def test_an_axis_has_its_unit_its_lines_and_round_numbers_from_zero() -> None:
    chart = chart_of(moves_figure(Grain.DAILY, parts(10)))
    drawn = drawings(chart.plots)
    assert {"rows", "day", "0", "2006-07-01", "2006-07-10"} <= set(texts(drawn))
    assert [name for name in texts(drawn) if "." in name] == [], "there are no halves of rows"
    assert drawn.count("<line") > len([name for name in texts(drawn) if name.isdigit()]) >= 4
    assert "2006-07-10: 9 changed" in drawn
    assert 'aria-label="Rows that move, by day"' in drawn
    assert "<desc>From 2006-07-01 to 2006-07-10. The largest: 2006-07-10: 9 changed.</desc>" in drawn


@pytest.mark.parametrize(
    ("most", "shown"),
    [
        (9, {"0", "2", "8"}),
        (1_362, {"0", "500", "1,000"}),
        (9_900, {"0", "2,000", "8,000"}),
        (21_900, {"0", "10k", "20k"}),
    ],
)
def test_an_axis_has_plain_numbers_below_ten_thousand_and_nothing_behind_a_zero(most: int, shown: set[str]) -> None:
    chart = columns_figure({"most": most, "one": 1})
    assert isinstance(chart, Chart)
    said = set(texts(drawings(chart.plots)))
    assert shown <= said
    assert not {"0k", "0.5k", "1k"} & said


@pytest.mark.parametrize(
    ("count", "noun", "columns"), [(92, "day", 92), (124, "day", 124), (125, "month", 5), (3652, "month", 120)]
)
def test_columns_too_narrow_to_be_seen_are_added_up(count: int, noun: str, columns: int) -> None:
    (plot,) = chart_of(moves_figure(Grain.DAILY, parts(count))).plots
    assert (plot.x, len(plot.times)) == (noun, columns)
    assert sum(mark.value for mark in plot.marks) == sum(part.moves.changed for part in parts(count))


def test_what_is_compared_stands_on_one_scale() -> None:
    cells = tuple(
        MeasuredCell(
            month=month, by={"shop": shop}, before={"amount": 0}, after={"amount": size * (place + 1)}, differs=True
        )
        for place, month in enumerate(MONTHS)
        for shop, size in (("small", 1), ("large", 100))
    )
    found = BreakdownDocument(dimensions=("shop",), measures=("amount",), too_many=False, restated=cells, new=())
    both, change = chart_of(measure_figures(found, "amount")).plots
    heights = {
        title.text: float(re.findall(r"v([-\d.]+)", path.get("d", ""))[0])
        for svg in svgs(drawings((change,)))
        for path in svg.iter("path")
        for title in path
    }
    assert abs(heights["large, 2006-12: +1,200"] / heights["large, 2006-06: +600"]) == pytest.approx(2, rel=0.02)
    assert abs(heights["large, 2006-12: +1,200"]) > 50 * abs(heights["small, 2006-12: +12"])
    drawn = drawings((both,))
    assert [mark.style for mark in both.marks[:2]] == ["before", "after"]
    assert len(list(svgs(drawn))) == 1, "before and after have the same axis"
    assert {"small", "large"} <= set(texts(drawings((change,))))


def test_bars_that_are_all_the_same_are_one_sentence() -> None:
    same = tuple(replace(part, moves=moves(3)) for part in parts(31))
    assert said_by(moves_figure(Grain.DAILY, same)) == ["Rows in each of 31 days: 3 changed, 0 added, 0 removed."]
    assert said_by(columns_figure({"a": 5, "b": 5})) == ["Each of 2 columns has another value in 5 rows."]
    cells = tuple(cell(month, shop) for month in MONTHS for shop in ("a", None))
    found = BreakdownDocument(dimensions=("shop",), measures=("rows", "amount"), too_many=False, restated=cells, new=())
    assert said_by(measure_figures(found, "amount")) == [
        "In each of 12 months: 15 \u2192 18.",
        "+1.5 in each of 12 months, for each of 2 that moved.",
    ]
    assert said_by(measure_figures(found, "rows")) == ["In each of 12 months the same before and after."]


def test_what_there_is_one_of_or_what_does_not_move_has_no_chart() -> None:
    still: tuple[PartitionMoves, ...] = tuple(replace(part, moves=moves(0)) for part in parts(3))
    assert moves_figure(Grain.DAILY, still) is None
    assert moves_figure(Grain.DAILY, parts(1)) is None
    assert columns_figure({"a": 5}) is None
    assert gates_figure(Grain.DAILY, (), [gate("unique_key", 3)]) is None
    assert gates_figure(Grain.DAILY, days(31), [gate("unique_key", 31), gate("schema", 31)]) is None
    found = BreakdownDocument(
        dimensions=("shop",), measures=("amount",), too_many=False, restated=(cell("2006-07", "a"),), new=()
    )
    assert measure_figures(found, "amount") is None


def test_only_gates_that_failed_in_some_partitions_are_drawn() -> None:
    gates = [gate("good", 31), gate("wary", 31, (FIRST,), blocking=False), gate("bad", 31, tuple(days(31)))]
    chart = chart_of(gates_figure(Grain.DAILY, days(31), gates))
    assert [(mark.row, mark.style, mark.title) for mark in chart.plots[0].marks] == [
        ("wary", "warned", "wary, 2006-07-01: failed in 1 of 1 day")
    ]
    assert chart.legend == (("warned", "failed, informs"),)
    years = gates_figure(Grain.DAILY, days(400), [gate("wary", 400, tuple(days(40)))])
    assert [mark.title for mark in chart_of(years).plots[0].marks] == [
        "wary, 2006-07: failed in 31 of 31 days",
        "wary, 2006-08: failed in 9 of 31 days",
    ]


def test_sums_that_no_scale_can_have_are_in_the_tables_alone() -> None:
    cells = tuple(
        replace(cell(month, "a"), before={"amount": 1}, after={"amount": after})
        for month, after in zip(MONTHS, [float("nan"), float("inf"), 1e308, *range(9)], strict=True)
    )
    found = BreakdownDocument(dimensions=("shop",), measures=("amount",), too_many=False, restated=cells, new=())
    drawn = drawings(chart_of(measure_figures(found, "amount")).plots)
    assert not re.search("nan|inf", drawn, flags=re.IGNORECASE)


@pytest.mark.parametrize("value", [1e-9, 0.004, 0.25, 7, 12_345, 3.1e12, 1e40])
def test_the_numbers_of_an_axis_are_short_and_differ(value: float) -> None:
    marks = tuple(Mark(style="after", title="t", value=value * size, at=str(size)) for size in (1, 2))
    plot = Plot(title="t", form=Form.BESIDE, marks=marks, x="month", y="amount", times=("1", "2"))
    numbers = [name for name in texts(drawings((plot,))) if name not in ("1", "2", "month", "amount")]
    assert len(numbers) == len(set(numbers)) > 2
    assert max(map(len, numbers)) <= 7


@pytest.mark.parametrize("apart", [timedelta(0), timedelta(minutes=5), timedelta(days=3), timedelta(days=900)])
def test_instants_stand_where_they_happened(apart: timedelta) -> None:
    first = date(2026, 1, 1)
    instants = [f"{first}T00:00:00Z", f"{first + apart}T00:{apart.seconds // 60:02d}:00Z"]
    marks = tuple(Mark(style="publish", title="t", at=at, row="silver.orders") for at in instants)
    plot = Plot(title="t", form=Form.POINTS, marks=marks, x="time, UTC", seconds=apart.total_seconds())
    drawn = drawings((plot,))
    places = [float(place) for place in re.findall(r'class="publish" transform="translate\(([\d.]+)', drawn)]
    assert len(places) == len(marks)
    assert (places[0] == places[1]) == (not apart)
    named = [name for name in texts(drawn) if re.fullmatch(r"[-\d: ]+", name)]
    assert len(named) == len(set(named)) >= 1


@pytest.mark.parametrize("apart", [1, 14, 53, 58, 79, 118, 209, 326, 18_011, 1_735_777])
def test_the_names_of_instants_end_inside_of_the_drawing(apart: int) -> None:
    first = datetime(2026, 11, 27, 2, 7, 31, tzinfo=UTC)
    instants = [f"{first + timedelta(seconds=after):%Y-%m-%dT%H:%M:%SZ}" for after in (0, apart / 2, apart)]
    marks = tuple(Mark(style="publish", title="t", at=at, row="silver.orders") for at in instants)
    drawn = drawings((Plot(title="t", form=Form.POINTS, marks=marks, x="time, UTC", seconds=apart),))
    begins, _, width, _ = map(float, re.findall(r'viewBox="([^"]*)"', drawn)[0].split())
    names = sorted(placed(ElementTree.fromstring(f"<div>{drawn}</div>")), key=itemgetter(1))
    for name, left in names:
        assert begins <= left and left + len(name) * LETTER <= begins + width, name
    assert all(left + len(name) * LETTER < right for (name, left), (_, right) in pairwise(names)), names


LETTER = 6.5
"""How wide a digit is."""


def placed(drawn: ElementTree.Element, at: float = 0.0) -> Iterator[tuple[str, float]]:
    """The names of instants, and where each begins."""
    moved = re.match(r"translate\(([-\d.]+)", drawn.get("transform", ""))
    at += float(moved[1]) if moved else 0.0
    if re.fullmatch(r"[-\d: ]+", name := drawn.text or ""):
        yield name, at - len(name) * LETTER * {"middle": 0.5, "end": 1.0}.get(drawn.get("text-anchor", ""), 0.0)
    for part in drawn:
        yield from placed(part, at)


def test_every_colour_of_charts_has_one_meaning_in_light_and_in_dark() -> None:
    light, dark = source("page.css").split("prefers-color-scheme: dark", 1)
    for scheme in (light, dark):
        names = ("before", "after", "changed", "added", "removed", "good", "attention", "bad")
        colours = [re.findall(rf"--{name}: (#\w+);", scheme)[0] for name in names]
        assert len(set(colours)) == len(names)
    style = source("page.css")
    for name in ("before", "after", "changed", "added", "removed", "failed", "warned", "publish", "rollback"):
        assert f".{name} {{ --c: var(--" in style


@pytest.mark.long
def test_a_page_is_the_same_byte_by_byte_in_another_process() -> None:
    # Its parts are made anew there, so that nothing of this process's drawings is left in them.
    made = "; ".join(
        (
            "from backfill_assets.report.html import html_file",
            "from backfill_assets.report.run_report import run_page",
            "from backfill_assets_tests.support.report_examples import report",
            "import sys; sys.stdout.buffer.write(html_file(run_page(report(9))).encode())",
        )
    )
    other = subprocess.run([sys.executable, "-c", made], capture_output=True, check=True).stdout
    assert other.decode() == html_file(run_page(report(9)))
    assert b"<svg" in other


def test_without_the_library_a_page_says_so_and_has_every_number(monkeypatch: pytest.MonkeyPatch) -> None:
    with_charts = html_file(run_page(report(9)))
    drawings.cache_clear()
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    without = html_file(run_page(report(9)))
    drawings.cache_clear()
    tables = re.compile(r"<table.*?</table>", re.DOTALL)
    assert "vl-convert-python is not installed" in without
    assert "<svg" not in without
    assert tables.findall(without) == tables.findall(with_charts) != []

"""The file of a report can be read on a wide and on a narrow screen, on paper, in light and in dark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page

from backfill_assets.calendar.partitions import DayRange, Grain, Partitions, partitions_over
from backfill_assets.core.next_steps import Command, do
from backfill_assets.ledger.publications import Extent
from backfill_assets.ledger.records import Action
from backfill_assets.ledger.states import PublicationState, RunState, SetState
from backfill_assets.planning.kinds.change import Scope
from backfill_assets.planning.kinds.pilot import Pilot
from backfill_assets.report.calendar import Calendar, Colouring, TableCalendar, calendar_page
from backfill_assets.report.code import ChangedValue, CodeChange, CodeDifference
from backfill_assets.report.html import Linked, html_file
from backfill_assets.report.measured import moves_of_some
from backfill_assets.report.publications import PublicationDocument, timeline_page
from backfill_assets.report.report import Level, RunReport, SetReport, totals_by_table
from backfill_assets.report.run_report import run_page, set_page
from backfill_assets.transforms.code import ModuleChange
from backfill_assets_tests.browser.readable import NARROW, WIDE, cut_off, cut_off_on_paper, low_letters, unreadable
from backfill_assets_tests.support.report_examples import FIRST, an_act, cell, gate, moves, report, restatement, summary

pytestmark = pytest.mark.long

LONG = "accepted(a_column_with_a_rather_long_name) demands one of OPEN, CLOSED, BREACHED, MET, PAUSED, RUNNING " * 3


def of_set() -> SetReport:
    reports = (report(31), report(3))
    return SetReport(
        set=restatement(SetState.PENDING), level=Level.GOOD, tables=totals_by_table(reports), reports=reports
    )


def moving() -> RunReport:
    """A report with a chart of every form that reports have: whatever is drawn differs from its neighbours."""
    found = report(92)
    assert found.breakdown is not None
    months = [f"2006-{month:02d}" for month in range(1, 13)]
    cells = tuple(
        replace(
            cell(month, shop), before={"rows": 9, "amount": 1_000 * place}, after={"rows": 9, "amount": 70 * place**2}
        )
        for place, month in enumerate(months)
        for shop in ("north", "a shop with a name that is longer than the drawing of its columns is wide", None)
    )
    gates = (gate("a_gate_with_a_very_long_name_that_does_not_end_so_soon", 92, (FIRST,), said=LONG), *found.gates)
    return replace(
        found,
        breakdown=replace(found.breakdown, restated=cells),
        changed_columns={"a_column_with_a_rather_long_name_that_does_not_end_soon": 1_234, "state": 1},
        gates=gates,
    )


def blocked() -> RunReport:
    found = report(92, new=3, said="deadlines")
    gates = (gate("a_gate_with_a_very_long_name_that_does_not_end_soon", 92, (FIRST,), said=LONG), *found.gates)
    return replace(found, run=summary(RunState.BLOCKED, said=LONG), level=Level.BAD, gates=gates)


def pilot(*, no_rows: bool = False) -> RunReport:
    """A report of a run that changes the rows of one value, or of one whose value no row has."""
    found = report(31)
    scope = Scope(where=(("jurisdiction_with_a_long_name", "a value that is rather long"), ("clock", "decision")))
    manifest = replace(found.run.record.manifest, change=Pilot(rows=scope))
    run = replace(found.run, record=replace(found.run.record, manifest=manifest))
    return replace(found, run=run, no_rows_of=str(scope) if no_rows else None)


def other_code() -> RunReport:
    """A report of a run whose code differs in modules and values with names that nothing breaks."""
    name = "a_package_with_a_long_name.a_module_with_a_name_that_is_even_longer.A_VALUE_THAT_HAS_ONE_TOO"
    modules = (ModuleChange(module=name, definitions=(name, name), lines=("-A = 1", "+A = 2")),)
    values = (ChangedValue(name=name, bound_by=f"{name}={name}"),)
    found = CodeDifference(before="a" * 64, after="b" * 64, modules=modules, values=values)
    change = CodeChange(
        release="2.4.1",
        partitions=Partitions.of(Grain.DAILY, [FIRST]),
        digest="a" * 64,
        difference=found,
        all_lines=do(Command.CODE, "a" * 12, "b" * 12),
    )
    return replace(report(31), code_changes=(change,))


def nothing_changes() -> RunReport:
    """A report of a run whose rows are those that readers see."""
    found = report(31)
    same = tuple(replace(each, moves=moves(0), equal=True) for each in found.partitions)
    return replace(
        found,
        run=replace(summary(RunState.VERIFIED), next_step=None),
        level=Level.GOOD,
        totals=moves(0),
        restated=moves_of_some(Grain.DAILY, same),
        partitions=same,
        equal_partitions=len(same),
        breakdown=None,
        changed_columns={},
        state_moves=(),
        sample=(),
        failing_keys=(),
        gates=(gate("unique_key", 31),),
    )


def published_set() -> SetReport:
    found = of_set()
    return replace(found, set=restatement(SetState.PUBLISHED))


PAGES = {
    "a run": lambda: run_page(report(31)),
    "a blocked run": lambda: run_page(blocked()),
    "ten years": lambda: run_page(report(3652)),
    "a run that moves": lambda: run_page(moving()),
    "a set": lambda: set_page(of_set()),
    "a published set": lambda: set_page(published_set()),
    "a pilot": lambda: run_page(pilot()),
    "a pilot of no rows": lambda: run_page(pilot(no_rows=True)),
    "a run of other code": lambda: run_page(other_code()),
    "a run that changes nothing": lambda: run_page(nothing_changes()),
}


@pytest.fixture(params=PAGES)
def opened(request: pytest.FixtureRequest, browsing: BrowserContext, tmp_path: Path) -> Iterator[Page]:
    file = tmp_path / "report.html"
    file.write_text(html_file(PAGES[request.param]()), encoding="utf-8")
    page = browsing.new_page()
    page.goto(file.as_uri())
    yield page
    page.close()


def test_nothing_is_cut_off_on_a_wide_and_a_narrow_screen_and_on_paper(opened: Page) -> None:
    assert cut_off(opened, WIDE) == []
    assert low_letters(opened) == []
    assert cut_off(opened, NARROW) == []
    assert low_letters(opened) == []
    assert cut_off_on_paper(opened) == []


def test_what_a_reviewer_decides_on_takes_three_screens_and_the_rest_is_folded(
    browsing: BrowserContext, tmp_path: Path
) -> None:
    file = tmp_path / "report.html"
    file.write_text(html_file(run_page(report(92))), encoding="utf-8")
    page = browsing.new_page()
    page.goto(file.as_uri())
    page.set_viewport_size({"width": WIDE, "height": 900})
    last = page.get_by_role("heading", name="Rows before and after").locator("xpath=../div[@class='scroll']")
    box = last.bounding_box()
    assert box and box["y"] + box["height"] < 3 * 900
    assert page.locator("details:not([open])").count() > 5
    page.pdf()
    assert page.locator("details:not([open])").count() == 0, "nothing is missing on paper"
    page.close()


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_the_lines_of_one_row_stand_under_its_key_on_a_narrow_screen(
    browsing: BrowserContext, tmp_path: Path, width: int
) -> None:
    file = tmp_path / "report.html"
    file.write_text(html_file(run_page(report())), encoding="utf-8")
    page = browsing.new_page()
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(file.as_uri())
    key, column, before, after = (page.locator("table.grouped td").nth(place) for place in range(4))
    boxes = [each.bounding_box() for each in (key, column, before, after)]
    tops = [box["y"] for box in boxes if box]
    assert tops[1] == tops[2] == tops[3]
    assert (tops[0] < tops[1]) is (width == NARROW)
    page.close()


def test_charts_stand_beside_each_other_where_there_is_room(browsing: BrowserContext, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(html_file(run_page(moving())), encoding="utf-8")
    page = browsing.new_page()
    page.goto(file.as_uri())
    pair = page.locator(".plots:has(figure + figure) figure")
    for width, beside in ((WIDE, True), (NARROW, False)):
        page.set_viewport_size({"width": width, "height": 800})
        first, second = (pair.nth(place).bounding_box() for place in (0, 1))
        assert first and second
        assert (second["x"] > first["x"] + first["width"]) is beside
        assert first["x"] + first["width"] <= width
    colours = {
        page.locator(f"path.{style}").first.evaluate("each => getComputedStyle(each).fill")
        for style in ("before", "after", "changed", "failed")
    }
    assert len(colours) == 4, "each style is drawn, in a colour of its own"
    page.close()


def a_year(linked: Linked) -> str:
    """The calendar of a year with a daily and a monthly table, as a file."""
    tables = tuple(
        TableCalendar(
            table=f"a.{grain}",
            partitions=Partitions.of(
                grain, partitions_over(grain, DayRange.inclusive(FIRST, date(FIRST.year, 12, 31)))
            ),
            accepted={},
            stale=(),
            blocked=frozenset(),
            waiting=Partitions.of(grain, ()),
            expired=Partitions.of(grain, ()),
        )
        for grain in Grain
    )
    year = Calendar(year=FIRST.year, years=(FIRST.year,), as_of=datetime(2030, 1, 1, tzinfo=UTC), tables=tables)
    drawn = calendar_page(year, Colouring.STATE, linked, stale_as_of=None, is_current=True, problem=None)
    return html_file(drawn)


def test_arrow_keys_move_in_a_calendar_of_which_one_day_is_a_tab_stop(browsing: BrowserContext, tmp_path: Path) -> None:
    file = tmp_path / "calendar.html"
    file.write_text(a_year(lambda ref: f"#{ref.id}"), encoding="utf-8")
    page = browsing.new_page()
    page.goto(file.as_uri())
    stops = page.locator('svg a[tabindex="0"]')
    assert stops.evaluate_all("all => all.map(each => each.getAttribute('href'))") == ["#2006-12-31", "#2006-12-01"]
    stops.first.focus()
    for key, day in (
        ("ArrowUp", "2006-12-30"),
        ("ArrowLeft", "2006-12-23"),
        ("ArrowRight", "2006-12-30"),
        ("Home", "2006-07-01"),
        ("ArrowUp", "2006-07-01"),
        ("ArrowDown", "2006-07-02"),
        ("End", "2006-12-31"),
    ):
        page.keyboard.press(key)
        assert page.evaluate("document.activeElement.getAttribute('href')") == f"#{day}", key
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('href')") == "#2006-12-01", "the next table"
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    page.wait_for_url("**/*#2006-11-01")
    page.close()


def test_a_calendar_shows_the_names_of_its_months_on_a_wide_and_a_narrow_screen(
    browsing: BrowserContext, tmp_path: Path
) -> None:
    file = tmp_path / "calendar.html"
    file.write_text(a_year(lambda _ref: None), encoding="utf-8")
    page = browsing.new_page()
    page.goto(file.as_uri())
    assert page.locator("svg text").count() > 12 * len(Grain)
    assert cut_off(page, WIDE) == []
    assert cut_off(page, NARROW) == []
    assert low_letters(page) == []
    page.close()


def test_publications_can_be_read_and_followed_on_a_narrow_screen(browsing: BrowserContext, tmp_path: Path) -> None:
    tables = ("silver.case_sla_daily", "gold.a_table_with_a_name_that_is_much_longer_than_its_lane")
    acts = [
        PublicationDocument(
            header=an_act(action, PublicationState.PUBLISHED, hour, table),
            extent=Extent(first=FIRST, last=FIRST, partition_count=1, rows=1),
            grain=Grain.MONTHLY,
        )
        for table in tables
        for action in Action
        for hour in (1, 9, 30)
    ]
    file = tmp_path / "publications.html"
    file.write_text(html_file(timeline_page(acts, lambda ref: f"#{ref.id}", None)), encoding="utf-8")
    page = browsing.new_page()
    page.goto(file.as_uri())
    for width in (WIDE, NARROW):
        assert cut_off(page, width) == []
        assert low_letters(page) == []
    links = page.locator("svg.plot a")
    assert links.count() == len(acts)
    assert links.first.bounding_box() != links.last.bounding_box()
    links.last.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/*#bf-1")
    page.close()


def test_text_stands_out_in_light_and_in_dark(opened: Page) -> None:
    cut_off(opened, WIDE)
    assert unreadable(opened) == []
    opened.emulate_media(color_scheme="dark")
    assert unreadable(opened) == []


def test_the_checks_find_what_is_too_wide_and_too_pale(browsing: BrowserContext) -> None:
    page = browsing.new_page()
    page.set_content("<html lang=en><title>t</title><p style='color:#aaa;white-space:nowrap'>" + LONG)
    assert cut_off(page, NARROW)
    assert "color-contrast" in " ".join(unreadable(page))
    page.set_content("<svg class=plot viewBox='0 0 700 9'><text x=690 y=9>a</text><text x=690 y=9>b</text></svg>")
    assert {"b over a", "a over b"} & set(cut_off(page, NARROW))
    assert low_letters(page)
    page.set_content("<p style='width:4rem'>since 2006-07-01, run a-20060701-2006 of <code>2006-07-01</code>")
    broken = [found.partition(" in ")[0] for found in cut_off(page, NARROW) if found.startswith("broken: ")]
    assert broken == ["broken: 2006-07-01"], "an id, and what stands in a command, is no date"
    page.close()


def test_the_contents_lead_to_every_part_and_open_what_is_folded(opened: Page) -> None:
    opened.set_viewport_size({"width": WIDE, "height": 800})
    links = opened.locator(".contents a")
    assert links.count() > 5
    folded = opened.locator("main > section:has(> details)").last
    assert folded.locator("dl, table, ol, ul").first.is_hidden()
    opened.locator(f".contents a[href='#{folded.get_attribute('id')}']").click()
    folded.locator("dl, table, ol, ul").first.wait_for(state="visible")  # unfolded after the page has moved there

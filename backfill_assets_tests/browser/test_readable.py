"""The file of a report can be read on a wide and on a narrow screen, on paper, in light and in dark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page

from backfill_assets.ledger.states import RunState, SetState
from backfill_assets.planning.partitions import DayRange, Grain, Partitions, partitions_over
from backfill_assets.report.calendar import Calendar, TableCalendar
from backfill_assets.report.html import html_file, no_links
from backfill_assets.report.report import Level, RunReport
from backfill_assets.report.screens.calendar import Colouring, calendar_page
from backfill_assets.report.screens.run_report import run_page, set_page
from backfill_assets.report.set_report import SetReport, totals_by_table
from backfill_assets_tests.browser.readable import NARROW, WIDE, cut_off, cut_off_on_paper, unreadable
from backfill_assets_tests.support.report_examples import FIRST, gate, report, restatement, summary

pytestmark = pytest.mark.long

LONG = "accepted(a_column_with_a_rather_long_name) demands one of OPEN, CLOSED, BREACHED, MET, PAUSED, RUNNING " * 3


def of_set() -> SetReport:
    reports = (report(31), report(3))
    return SetReport(
        set=restatement(SetState.PLANNED), level=Level.GOOD, tables=totals_by_table(reports), reports=reports
    )


def blocked() -> RunReport:
    found = report(92, new=3, said="deadlines")
    gates = (gate("a_gate_with_a_very_long_name_that_does_not_end_soon", 92, (FIRST,), said=LONG), *found.gates)
    return replace(found, run=summary(RunState.BLOCKED, said=LONG), level=Level.BAD, gates=gates)


PAGES = {
    "a run": lambda: run_page(report(31)),
    "a blocked run": lambda: run_page(blocked()),
    "ten years": lambda: run_page(report(3652)),
    "a set": lambda: set_page(of_set()),
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
    assert cut_off(opened, NARROW) == []
    assert cut_off_on_paper(opened) == []


def test_a_calendar_shows_the_names_of_its_months_on_a_wide_and_a_narrow_screen(
    browsing: BrowserContext, tmp_path: Path
) -> None:
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
        )
        for grain in Grain
    )
    year = Calendar(year=FIRST.year, years=(FIRST.year,), as_of=datetime(2030, 1, 1, tzinfo=UTC), tables=tables)
    drawn = calendar_page(year, Colouring.STATE, no_links, stale_as_of=None, is_current=True, problem=None)
    file = tmp_path / "calendar.html"
    file.write_text(html_file(drawn), encoding="utf-8")
    page = browsing.new_page()
    page.goto(file.as_uri())
    assert page.locator("svg text").count() > 12 * len(tables)
    assert cut_off(page, WIDE) == []
    assert cut_off(page, NARROW) == []
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
    page.close()


def test_the_contents_lead_to_every_part_and_open_what_is_folded(opened: Page) -> None:
    opened.set_viewport_size({"width": WIDE, "height": 800})
    links = opened.locator(".contents a")
    assert links.count() > 5
    folded = opened.locator("main > section:has(> details)").last
    assert folded.locator("dl, table, ol, ul").first.is_hidden()
    opened.locator(f".contents a[href='#{folded.get_attribute('id')}']").click()
    assert folded.locator("dl, table, ol, ul").first.is_visible()

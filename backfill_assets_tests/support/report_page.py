"""The page of a report as a reader's browser has it: its elements, and its text."""

from __future__ import annotations

from html.parser import HTMLParser

from backfill_assets.report.html import html_file
from backfill_assets.report.report import RunReport
from backfill_assets.report.run_report import run_page
from backfill_assets_tests.support.desk_reader import with_dates


class Page(HTMLParser):
    """The elements of a page with their attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(with_dates(text))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def page(found: RunReport) -> tuple[str, Page]:
    text = html_file(run_page(found))
    return with_dates(text), Page(text)

"""Reports to read: the document of a run or a set as one HTML file, or as short Markdown."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from backfill_assets.application.output_files import replacing
from backfill_assets.application.requests import Restatement
from backfill_assets.report.html import html_file
from backfill_assets.report.markdown import markdown_page
from backfill_assets.report.page import Page
from backfill_assets.report.report import SetReport
from backfill_assets.report.run_report import run_page, set_page
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenReport:
    """A report that was written to a file."""

    of: str  #: The run or the set.
    file: str  #: The file, as an absolute path.
    size_bytes: int  #: Its size.


def report_page(ws: Workspace, name: str) -> Page:
    """The report of a run or a set as a page."""
    found = Restatement(ws, name).report()
    now = ws.clock()
    return set_page(found, now) if isinstance(found, SetReport) else run_page(found, now)


def report_html(ws: Workspace, name: str) -> str:
    """The report of a run or a set as one self-contained HTML page.

    Args:
        name: The id of the run or the set.
    """
    return html_file(report_page(ws, name))


def report_markdown(ws: Workspace, name: str) -> str:
    """The report in short, as Markdown."""
    return markdown_page(report_page(ws, name))


def default_file(ws: Workspace, name: str) -> Path:
    """Where the HTML report of a run or a set is written by default, and replaced when it is written again; its folder
    is made."""
    folder = ws.settings.home / "reports"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name}.html"


def write_html(ws: Workspace, name: str, file: Path) -> WrittenReport:
    """Writes the report of a run or a set as one HTML file, in place of an earlier one.

    Raises:
        Refused: The folder does not exist, or the file cannot be written.
    """
    page = report_html(ws, name).encode()
    with replacing(file) as part:
        part.write_bytes(page)
    return WrittenReport(of=name, file=str(file.resolve()), size_bytes=len(page))

"""What was proposed because sources changed behind published output, and what was not."""

from __future__ import annotations

from backfill_assets.report.page import Items, Page, page
from backfill_assets.report.proposals import ProposeReport


def propose_page(report: ProposeReport) -> Page:
    """What became of the changed days."""
    return page("Proposals", Items(items=report.sentences))

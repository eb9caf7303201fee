"""Terminal views of all documents that commands print."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import RenderableType

from backfill_assets.cli.show import next_line, show
from backfill_assets.cli.show_history import history_view, partition_view
from backfill_assets.cli.show_landing import extract_view
from backfill_assets.cli.show_status import imports_view, status_view
from backfill_assets.cli.show_upkeep import audit_view, reproduction_view, vacuum_view
from backfill_assets.cli.terminal import view
from backfill_assets.report.history import TableHistory
from backfill_assets.report.page import page
from backfill_assets.report.partition import PartitionHistory
from backfill_assets.report.report import RunReport
from backfill_assets.report.screens import page_of
from backfill_assets.report.screens.runs import run_facts
from backfill_assets.report.status import StatusDocument

__all__ = [
    "audit_view",
    "extract_view",
    "history_view",
    "imports_view",
    "next_line",
    "partition_view",
    "report_head",
    "reproduction_view",
    "show",
    "status_view",
    "vacuum_view",
    "view_of",
]

if TYPE_CHECKING:
    from backfill_assets.report.screens import Document


def report_head(report: RunReport) -> RenderableType:
    """The run of a report in a few lines."""
    head = run_facts(report.run, policy=report.policy.sentence, grounds=report.approved_for, following=True)
    return view(page("", head))


def view_of(document: Document | StatusDocument | TableHistory | PartitionHistory) -> RenderableType:
    """How an answer looks, by what it is about."""
    match document:
        case StatusDocument():
            return status_view(document)
        case TableHistory():
            return history_view(document)
        case PartitionHistory():
            return partition_view(document)
        case _:
            return view(page_of(document))

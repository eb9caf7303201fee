"""Terminal views of all documents that commands print."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from rich.console import RenderableType

from backfill_assets.cli.show import next_line, show
from backfill_assets.cli.show_history import history_view, partition_view
from backfill_assets.cli.show_landing import extract_view
from backfill_assets.cli.show_plan import nothing_planned_view, plan_view, set_plan_view
from backfill_assets.cli.show_stale import stale_view
from backfill_assets.cli.show_status import imports_view, status_view
from backfill_assets.cli.show_upkeep import audit_view, recovered_lines, reproduction_view, vacuum_view
from backfill_assets.cli.terminal import view
from backfill_assets.report.history import TableHistory
from backfill_assets.report.page import page
from backfill_assets.report.partition import PartitionHistory
from backfill_assets.report.planned import PlanDocument
from backfill_assets.report.planned_sets import NothingPlanned, SetPlan
from backfill_assets.report.publications import PublicationDocument, RollbackDocument
from backfill_assets.report.report import RunReport
from backfill_assets.report.requests import ANOTHER_PERSON, Act, NextStep, do, step
from backfill_assets.report.runs import RunSummary
from backfill_assets.report.screens.publications import publications_page
from backfill_assets.report.screens.run_report import run_page, set_page
from backfill_assets.report.screens.runs import run_facts, run_summary_page, set_summary_page
from backfill_assets.report.set_report import SetReport
from backfill_assets.report.sets import SetDocument
from backfill_assets.report.stages import AgreeStage
from backfill_assets.report.status import StatusDocument

__all__ = [
    "audit_view",
    "extract_view",
    "history_view",
    "imports_view",
    "next_line",
    "nothing_planned_view",
    "partition_view",
    "plan_view",
    "planned_view",
    "recovered_lines",
    "report_head",
    "reproduction_view",
    "set_plan_view",
    "show",
    "stale_view",
    "status_view",
    "vacuum_view",
    "view_of",
]

OfRunOrSet = RunSummary | RunReport | PublicationDocument | RollbackDocument | SetDocument | SetReport
Answer = OfRunOrSet | StatusDocument | TableHistory | PartitionHistory
"""What commands answer that take a run or a set, a table or a partition."""


def planned_view(document: PlanDocument | SetPlan | NothingPlanned) -> Sequence[RenderableType | NextStep]:
    """How a plan looks, with what to do next."""
    match document:
        case NothingPlanned():
            return [nothing_planned_view(document)]
        case SetPlan():
            named, view = document.set_id, set_plan_view(document)
        case PlanDocument():
            named, view = document.run.run_id, plan_view(document)
        case _:
            assert_never(document)
    waits = any(isinstance(stage, AgreeStage) and stage.policy is None for stage in document.stages)
    run = do(Act.RUN, named)
    approve = (do(Act.APPROVE, named, by=ANOTHER_PERSON), ", and ") if waits else ()
    return [view, "", step("next: ", *approve, run)]


def report_head(report: RunReport) -> RenderableType:
    """The run of a report in a few lines."""
    head = run_facts(report.run, policy=report.policy.sentence, grounds=report.approved_for, following=True)
    return view(page("", head))


def view_of(document: Answer) -> RenderableType:
    """How an answer looks, by what it is about."""
    match document:
        case RunSummary():
            return view(run_summary_page(document))
        case RunReport():
            return view(run_page(document))
        case PublicationDocument():
            return view(publications_page("Published", [document]))
        case RollbackDocument():
            return view(publications_page("Rolled back", [*document.dependents, document.publication]))
        case SetDocument():
            return view(set_summary_page(document))
        case SetReport():
            return view(set_page(document))
        case StatusDocument():
            return status_view(document)
        case TableHistory():
            return history_view(document)
        case PartitionHistory():
            return partition_view(document)
    assert_never(document)

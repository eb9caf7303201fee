"""Terminal views of all documents that commands print."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from rich.console import Group, RenderableType

from backfill_assets.cli.show import next_line, show
from backfill_assets.cli.show_history import history_view, partition_view
from backfill_assets.cli.show_landing import extract_view
from backfill_assets.cli.show_plan import nothing_planned_view, plan_view, set_plan_view
from backfill_assets.cli.show_runs import publications_view, report_head_view, report_view, run_view
from backfill_assets.cli.show_sets import set_view
from backfill_assets.cli.show_stale import stale_view
from backfill_assets.cli.show_status import imports_view, status_view
from backfill_assets.cli.show_upkeep import audit_view, recovered_lines, reproduction_view, vacuum_view
from backfill_assets.report.history import TableHistory
from backfill_assets.report.partition import PartitionHistory
from backfill_assets.report.planned import PlanDocument
from backfill_assets.report.planned_sets import NothingPlanned, SetPlan
from backfill_assets.report.publications import PublicationDocument, RollbackDocument
from backfill_assets.report.report import RunReport
from backfill_assets.report.requests import ANOTHER_PERSON, Act, NextStep, do, step
from backfill_assets.report.runs import RunSummary
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
    "publications_view",
    "recovered_lines",
    "report_head_view",
    "report_view",
    "reproduction_view",
    "run_view",
    "set_plan_view",
    "set_view",
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


def view_of(document: Answer) -> RenderableType:
    """How an answer looks, by what it is about."""
    match document:
        case RunSummary():
            return run_view(document)
        case RunReport():
            return report_view(document)
        case PublicationDocument():
            return publications_view([document])
        case RollbackDocument():
            return publications_view([*document.dependents, document.publication])
        case SetDocument():
            return set_view(document)
        case SetReport():
            reports = (part for each in document.reports for part in ("", report_view(each)))
            return Group(set_view(document.set), *reports)
        case StatusDocument():
            return status_view(document)
        case TableHistory():
            return history_view(document)
        case PartitionHistory():
            return partition_view(document)
    assert_never(document)

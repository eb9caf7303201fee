"""Screens: the page of every document that a command answers, built once for all renderers."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from backfill_assets.report.page import Page

PAGES: Mapping[str, str] = {
    "ledger.captures.CaptureRecord": "captures.capture_page",
    "ledger.records.ReplayRecord": "replays.replay_page",
    "report.captured.CapturePlan": "captures.capture_plan_page",
    "report.captured.CaptureReport": "captures.captured_page",
    "report.changed_rows.DiffDocument": "changed_rows.diff_page",
    "report.code.CodeDifference": "code.difference_page",
    "report.code.CodeDocument": "code.code_page",
    "report.follow.FollowCancellation": "work.cancelled_page",
    "report.follow.FollowReport": "work.follow_page",
    "report.frozen.FreezeDocument": "work.freeze_page",
    "report.frozen.Unfrozen": "work.unfrozen_page",
    "report.history.TableHistory": "history.history_page",
    "report.landed.AgainPreview": "landing.again_page",
    "report.landed.ExtractPreview": "landing.extract_page",
    "report.landed.LandReport": "landing.landed_page",
    "report.landed.NothingToLoad": "landing.nothing_to_load_page",
    "report.locate.LocatedPeriod": "landing.period_page",
    "report.new_project.NewProject": "set_up.new_project_page",
    "report.history.PartitionHistory": "history.partition_page",
    "report.planned.NothingPlanned": "plan.nothing_planned_page",
    "report.planned.PlanDocument": "plan.plan_page",
    "report.planned.SetPlan": "plan.set_plan_page",
    "report.proposals.ProposeReport": "proposals.propose_page",
    "report.publications.PublicationDocument": "publications.published_page",
    "report.publications.RollbackDocument": "publications.rolled_back_page",
    "report.recovered.ErasedSamples": "work.erased_page",
    "report.recovered.RecoveryReport": "work.recovered_page",
    "report.replayed.ReplayClosed": "replays.closed_page",
    "report.replayed.ReplayPlan": "replays.plan_page",
    "report.replayed.ReplayReport": "replays.replayed_page",
    "report.report.RunReport": "run_report.run_page",
    "report.runs.RunSummary": "runs.run_summary_page",
    "report.server.ServerDown": "set_up.down_page",
    "report.server.ServerUp": "set_up.up_page",
    "report.report.SetReport": "run_report.set_page",
    "report.runs.SetDocument": "runs.set_summary_page",
    "report.stale.StaleDocument": "staleness.stale_page",
    "report.status.StatusDocument": "status.status_page",
    "report.stuck.ClearedDocument": "work.cleared_page",
    "report.table_acts.ActDocument": "shadow.act_page",
    "report.trace.Trace": "trace.trace_page",
    "report.vacuumed.VacuumDocument": "upkeep.vacuum_page",
    "report.versions.ResolvedTable": "shadow.resolved_page",
    "report.versions.ShadowStatus": "shadow.shadow_page",
    "upkeep.audit.AuditReport": "upkeep.audit_page",
    "upkeep.check.CheckReport": "staleness.check_page",
    "upkeep.check.RowsCheck": "checks.rows_page",
    "upkeep.doctor.DoctorReport": "upkeep.doctor_page",
    "upkeep.reproduce.ReproductionReport": "upkeep.reproduction_page",
}
"""By the class of a document, the function that builds its page: named, so that a command imports only its own."""

_PACKAGE = "backfill_assets."


def page_of(document: object) -> Page:
    """The page of a document."""
    kind = type(document)
    module, _, name = PAGES[f"{kind.__module__.removeprefix(_PACKAGE)}.{kind.__qualname__}"].rpartition(".")
    page: Page = getattr(import_module(f"{__name__}.{module}"), name)(document)
    return page

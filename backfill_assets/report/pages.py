"""Pages: the page of every document that a command answers, built once for all renderers."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from backfill_assets.report.page import Page

PAGES: Mapping[str, str] = {
    "ledger.captures.CaptureRecord": "report.captured.capture_page",
    "ledger.records.ReplayRecord": "report.replayed.replay_page",
    "report.captured.CapturePlan": "report.captured.capture_plan_page",
    "report.captured.CaptureReport": "report.captured.captured_page",
    "report.changed_rows.DiffDocument": "report.changed_rows.diff_page",
    "report.code.CodeDifference": "report.code.difference_page",
    "report.code.CodeDocument": "report.code.code_page",
    "report.follow.FollowCancellation": "report.follow.cancelled_page",
    "report.follow.FollowReport": "report.follow.follow_page",
    "report.waiting.FreezeDocument": "report.follow.freeze_page",
    "report.waiting.Unfrozen": "report.follow.unfrozen_page",
    "report.history.TableHistory": "report.history.history_page",
    "report.landed.AgainPreview": "report.landed.again_page",
    "report.landed.ExtractPreview": "report.landed.extract_page",
    "report.landed.LandReport": "report.landed.landed_page",
    "report.landed.NothingToLoad": "report.landed.nothing_to_load_page",
    "report.locate.LocatedPeriod": "report.landed.period_page",
    "report.server.NewProject": "report.server.new_project_page",
    "report.history.PartitionHistory": "report.history.partition_page",
    "report.planned.NothingPlanned": "report.planned.nothing_planned_page",
    "report.planned.PlanDocument": "report.planned.plan_page",
    "report.planned.SetPlan": "report.planned.set_plan_page",
    "report.proposals.ProposeReport": "report.proposals.propose_page",
    "report.publications.PublicationDocument": "report.publications.published_page",
    "report.publications.RollbackDocument": "report.publications.rolled_back_page",
    "report.follow.ErasedSamples": "report.follow.erased_page",
    "report.follow.RecoveryReport": "report.follow.recovered_page",
    "report.replayed.ReplayClosed": "report.replayed.closed_page",
    "report.replayed.ReplayPlan": "report.replayed.plan_page",
    "report.replayed.ReplayReport": "report.replayed.replayed_page",
    "report.report.RunReport": "report.run_report.run_page",
    "report.runs.RunSummary": "report.runs.run_summary_page",
    "report.server.ServerDown": "report.server.down_page",
    "report.server.ServerUp": "report.server.up_page",
    "report.report.SetReport": "report.run_report.set_page",
    "report.runs.SetDocument": "report.runs.set_summary_page",
    "report.stale.StaleDocument": "report.stale.stale_page",
    "report.status.StatusDocument": "report.status.status_page",
    "report.follow.ClearedDocument": "report.follow.cleared_page",
    "report.versions.ActDocument": "report.versions.act_page",
    "report.trace.Trace": "report.trace.trace_page",
    "report.upkeep.VacuumDocument": "report.upkeep.vacuum_page",
    "report.versions.ResolvedTable": "report.versions.resolved_page",
    "report.versions.ShadowStatus": "report.versions.shadow_page",
    "upkeep.audit.AuditReport": "report.upkeep.audit_page",
    "upkeep.check.CheckReport": "report.stale.check_page",
    "upkeep.check.RowsCheck": "report.upkeep.rows_page",
    "upkeep.doctor.DoctorReport": "report.upkeep.doctor_page",
    "upkeep.reproduce.ReproductionReport": "report.upkeep.reproduction_page",
}
"""By the class of a document, the function that builds its page: named, so that a command imports only its own."""

_PACKAGE = "backfill_assets."


def page_of(document: object) -> Page:
    """The page of a document."""
    kind = type(document)
    module, _, name = PAGES[f"{kind.__module__.removeprefix(_PACKAGE)}.{kind.__qualname__}"].rpartition(".")
    page: Page = getattr(import_module(f"{_PACKAGE}{module}"), name)(document)
    return page

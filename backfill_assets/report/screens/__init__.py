"""Screens: the page of every document that a command answers, built once for all renderers."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from backfill_assets.report.page import Page

if TYPE_CHECKING:
    from backfill_assets.report.captured import CaptureDocument, CapturePlan, CaptureReport
    from backfill_assets.report.follow import FollowCancellation, FollowReport
    from backfill_assets.report.frozen import FreezeDocument, Unfrozen
    from backfill_assets.report.history import TableHistory
    from backfill_assets.report.landed import ExtractPreview, LandReport, NothingToLoad
    from backfill_assets.report.locate import LocatedPeriod
    from backfill_assets.report.new_project import NewProject
    from backfill_assets.report.partition import PartitionHistory
    from backfill_assets.report.planned import NothingPlanned, PlanDocument, SetPlan
    from backfill_assets.report.proposals import ProposeReport
    from backfill_assets.report.publications import PublicationDocument, RollbackDocument
    from backfill_assets.report.recovered import ErasedSamples, RecoveryReport
    from backfill_assets.report.replayed import ReplayClosed, ReplayDocument, ReplayPlan, ReplayReport
    from backfill_assets.report.report import RunReport
    from backfill_assets.report.runs import RunSummary
    from backfill_assets.report.server import ServerDown, ServerUp
    from backfill_assets.report.set_report import SetReport
    from backfill_assets.report.sets import SetDocument
    from backfill_assets.report.stale import StaleDocument
    from backfill_assets.report.status import StatusDocument
    from backfill_assets.report.stuck import ClearedDocument
    from backfill_assets.report.table_acts import ActDocument
    from backfill_assets.report.trace import Trace
    from backfill_assets.report.vacuumed import VacuumDocument
    from backfill_assets.report.versions import ResolvedTable, ShadowStatus
    from backfill_assets.upkeep.audit import AuditReport
    from backfill_assets.upkeep.check import CheckReport
    from backfill_assets.upkeep.doctor import DoctorReport
    from backfill_assets.upkeep.reproduce import ReproductionReport

    OfHistory = TableHistory | PartitionHistory | Trace
    OfVersions = ResolvedTable | ActDocument | ShadowStatus
    OfPlan = PlanDocument | SetPlan | NothingPlanned | StaleDocument | ProposeReport
    OfWork = (
        FollowReport | FollowCancellation | RecoveryReport | ErasedSamples | ClearedDocument | FreezeDocument | Unfrozen
    )
    OfLanding = (
        CaptureDocument | CapturePlan | CaptureReport | LandReport | NothingToLoad | ExtractPreview | LocatedPeriod
    )
    OfReplay = ReplayDocument | ReplayClosed | ReplayPlan | ReplayReport
    OfUpkeep = CheckReport | DoctorReport | AuditReport | ReproductionReport | VacuumDocument
    OfRunOrSet = RunSummary | RunReport | PublicationDocument | RollbackDocument | SetDocument | SetReport
    OfTables = OfHistory | OfVersions
    Document = (
        StatusDocument
        | ServerUp
        | ServerDown
        | NewProject
        | OfRunOrSet
        | OfTables
        | OfPlan
        | OfWork
        | OfLanding
        | OfReplay
        | OfUpkeep
    )
    """What commands answer."""


def page_of(document: Document) -> Page:
    """The page of a document.

    Documents are asked for one group after the other, those first that import least: `status` and `report` know nothing
    of plans, follow-ups and upkeep.
    """
    from backfill_assets.report.new_project import NewProject
    from backfill_assets.report.screens import server
    from backfill_assets.report.screens.new_project import new_project_page
    from backfill_assets.report.screens.status import status_page
    from backfill_assets.report.server import ServerDown, ServerUp
    from backfill_assets.report.status import StatusDocument

    match document:
        case StatusDocument():
            return status_page(document)
        case ServerUp():
            return server.up_page(document)
        case ServerDown():
            return server.down_page(document)
        case NewProject():
            return new_project_page(document)
        case _:
            return _of_run_or_set(document)


def _of_run_or_set(document: OfRunOrSet | OfTables | OfPlan | OfWork | OfLanding | OfReplay | OfUpkeep) -> Page:
    from backfill_assets.report.publications import PublicationDocument, RollbackDocument
    from backfill_assets.report.report import RunReport
    from backfill_assets.report.runs import RunSummary
    from backfill_assets.report.screens.publications import publications_page
    from backfill_assets.report.screens.run_report import run_page, set_page
    from backfill_assets.report.screens.runs import run_summary_page, set_summary_page
    from backfill_assets.report.set_report import SetReport
    from backfill_assets.report.sets import SetDocument

    match document:
        case RunSummary():
            return run_summary_page(document)
        case RunReport():
            return run_page(document)
        case PublicationDocument():
            return publications_page("Published", [document])
        case RollbackDocument():
            return publications_page("Rolled back", [*document.dependents, document.publication])
        case SetDocument():
            return set_summary_page(document)
        case SetReport():
            return set_page(document)
        case _:
            return _of_history(document)


def _of_history(document: OfTables | OfPlan | OfWork | OfLanding | OfReplay | OfUpkeep) -> Page:
    from backfill_assets.report.history import TableHistory
    from backfill_assets.report.partition import PartitionHistory
    from backfill_assets.report.screens.history import history_page, partition_page
    from backfill_assets.report.screens.trace import trace_page
    from backfill_assets.report.trace import Trace

    match document:
        case TableHistory():
            return history_page(document)
        case PartitionHistory():
            return partition_page(document)
        case Trace():
            return trace_page(document)
        case _:
            return _of_versions(document)


def _of_versions(document: OfVersions | OfPlan | OfWork | OfLanding | OfReplay | OfUpkeep) -> Page:
    from backfill_assets.report.screens import shadow, table_acts
    from backfill_assets.report.table_acts import ActDocument
    from backfill_assets.report.versions import ResolvedTable, ShadowStatus

    match document:
        case ResolvedTable():
            return shadow.resolved_page(document)
        case ActDocument():
            return table_acts.act_page(document)
        case ShadowStatus():
            return shadow.shadow_page(document)
        case _:
            return _of_plan(document)


def _of_plan(document: OfPlan | OfWork | OfLanding | OfReplay | OfUpkeep) -> Page:
    from backfill_assets.report.planned import NothingPlanned, PlanDocument, SetPlan
    from backfill_assets.report.proposals import ProposeReport
    from backfill_assets.report.screens.plan import nothing_planned_page, plan_page, set_plan_page
    from backfill_assets.report.screens.proposals import propose_page
    from backfill_assets.report.screens.staleness import stale_page
    from backfill_assets.report.stale import StaleDocument

    match document:
        case PlanDocument():
            return plan_page(document)
        case SetPlan():
            return set_plan_page(document)
        case NothingPlanned():
            return nothing_planned_page(document)
        case StaleDocument():
            return stale_page(document)
        case ProposeReport():
            return propose_page(document)
        case _:
            return _of_work(document)


def _of_work(document: OfWork | OfLanding | OfReplay | OfUpkeep) -> Page:
    from backfill_assets.report.follow import FollowCancellation, FollowReport
    from backfill_assets.report.frozen import FreezeDocument, Unfrozen
    from backfill_assets.report.recovered import ErasedSamples, RecoveryReport
    from backfill_assets.report.screens import frozen, work
    from backfill_assets.report.stuck import ClearedDocument

    match document:
        case FollowReport():
            return work.follow_page(document)
        case FollowCancellation():
            return work.cancelled_page(document)
        case RecoveryReport():
            return work.recovered_page(document)
        case ErasedSamples():
            return work.erased_page(document)
        case ClearedDocument():
            return work.cleared_page(document)
        case FreezeDocument():
            return frozen.freeze_page(document)
        case Unfrozen():
            return frozen.unfrozen_page(document)
        case _:
            return _of_landing(document)


def _of_landing(document: OfLanding | OfReplay | OfUpkeep) -> Page:
    from backfill_assets.report.captured import CaptureDocument, CapturePlan, CaptureReport
    from backfill_assets.report.landed import ExtractPreview, LandReport, NothingToLoad
    from backfill_assets.report.locate import LocatedPeriod
    from backfill_assets.report.screens import captures, landing

    match document:
        case CaptureDocument():
            return captures.capture_page(document)
        case CapturePlan():
            return captures.capture_plan_page(document)
        case CaptureReport():
            return captures.captured_page(document)
        case LandReport():
            return landing.landed_page(document)
        case NothingToLoad():
            return landing.nothing_to_load_page(document)
        case ExtractPreview():
            return landing.extract_page(document)
        case LocatedPeriod():
            return landing.period_page(document)
        case _:
            return _of_replay(document)


def _of_replay(document: OfReplay | OfUpkeep) -> Page:
    from backfill_assets.report.replayed import ReplayClosed, ReplayDocument, ReplayPlan, ReplayReport
    from backfill_assets.report.screens import replays

    match document:
        case ReplayDocument():
            return replays.replay_page(document)
        case ReplayClosed():
            return replays.closed_page(document)
        case ReplayPlan():
            return replays.plan_page(document)
        case ReplayReport():
            return replays.replayed_page(document)
        case _:
            return _of_upkeep(document)


def _of_upkeep(document: OfUpkeep) -> Page:
    from backfill_assets.report.screens import upkeep
    from backfill_assets.report.screens.staleness import check_page
    from backfill_assets.report.vacuumed import VacuumDocument
    from backfill_assets.upkeep.audit import AuditReport
    from backfill_assets.upkeep.check import CheckReport
    from backfill_assets.upkeep.doctor import DoctorReport
    from backfill_assets.upkeep.reproduce import ReproductionReport

    match document:
        case CheckReport():
            return check_page(document)
        case DoctorReport():
            return upkeep.doctor_page(document)
        case AuditReport():
            return upkeep.audit_page(document)
        case ReproductionReport():
            return upkeep.reproduction_page(document)
        case VacuumDocument():
            return upkeep.vacuum_page(document)
    assert_never(document)

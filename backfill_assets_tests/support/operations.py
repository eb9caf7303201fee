"""What tests ask of the application, each act by itself and without a recorder; see `backfill_assets.application`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

from backfill_assets.application import land as landings
from backfill_assets.application.execute import execute, require_ready
from backfill_assets.application.follow import asked_follow_ups, dismiss_follow_ups, plan_follow_ups
from backfill_assets.application.land import land
from backfill_assets.application.parts import Part, stages
from backfill_assets.application.plan import plan, plan_set
from backfill_assets.application.plan_load import days_without_events, plan_load
from backfill_assets.application.recover import recover
from backfill_assets.application.requests import Restatement, run_of
from backfill_assets.application.terms import present_terms
from backfill_assets.application.upkeep import find_run
from backfill_assets.candidates.evaluate import Evaluated
from backfill_assets.candidates.stage import require_stageable
from backfill_assets.capture.files.file_capture import FileCapture
from backfill_assets.core.people import require_person
from backfill_assets.core.progress import Listener, no_listener
from backfill_assets.landing import extract as extracts
from backfill_assets.landing import statements as withdrawals
from backfill_assets.landing.attempt import Landed, Landing
from backfill_assets.landing.extract import Extract, LandedExtract
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.landing.land import land_files
from backfill_assets.ledger.findings import GateResult
from backfill_assets.ledger.records import CandidatePartition, PublicationRecord, RunRecord, SetRecord
from backfill_assets.ledger.sets import versions_of
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.sets import is_set
from backfill_assets.report.landed import questioned_gaps
from backfill_assets.requests import authority
from backfill_assets.requests import rollout as sets
from backfill_assets.requests.publish import publish_run, rollback_run
from backfill_assets.requests.rollout import rollback_set, rollback_with_dependents
from backfill_assets.staleness.find import stale_tables
from backfill_assets.upkeep.reproduce import reproduce_run as reproduce
from backfill_assets.upkeep.vacuum import VacuumReport, vacuum_lake
from backfill_assets.workspace import Workspace

__all__ = [
    "approve",
    "asked_follow_ups",
    "cancel",
    "days_without_events",
    "dismiss_follow_ups",
    "erase_samples",
    "find_run",
    "gate",
    "is_set",
    "land",
    "land_extract",
    "land_together",
    "landing",
    "plan",
    "plan_follow_ups",
    "plan_load",
    "plan_set",
    "present_terms",
    "publish",
    "publish_set",
    "questioned_gaps",
    "recover",
    "reproduce",
    "require_ready",
    "require_stageable",
    "restore",
    "rollback",
    "rollback_set",
    "rollback_with_dependents",
    "run_named",
    "set_versions",
    "stage",
    "stages",
    "stale_tables",
    "vacuum",
    "withdraw",
]


def stage(
    ws: Workspace, run_id: str, *, actor: str, listener: Listener = no_listener
) -> Mapping[date, CandidatePartition]:
    return execute(ws, run_id, [Part.STAGE], actor=actor, listener=listener).staged


def gate(ws: Workspace, run_id: str, *, actor: str, listener: Listener = no_listener) -> Evaluated:
    found = execute(ws, run_id, [Part.GATE], actor=actor, listener=listener).evaluated
    assert found is not None
    return found


def publish(ws: Workspace, run_id: str, *, by: str) -> PublicationRecord:
    return execute(ws, run_id, [Part.PUBLISH], actor=by).published


def rollback(ws: Workspace, run_id: str, *, by: str, reason: str) -> PublicationRecord:
    require_person("the one who rolls back", by)
    return rollback_run(ws, run_id, by=by, reason=reason)


def landing(ws: Workspace, source: str, *, by: str) -> Landing:
    """What extracts, withdrawals and restorations work with, without building the days that they touch."""
    return landings.landing(ws, ws.domain.source_table(source), by)


def land_together(ws: Workspace, source: str, files: Sequence[Path], *, by: str) -> Sequence[Landed]:
    """Files in one call, without building the days that they touch."""
    landed: list[Landed] = []
    land_files(landing(ws, source, by=by), [FileCapture(path) for path in files], OnDuplicate.IGNORE, landed.append)
    return landed


def land_extract(ws: Workspace, source: str, files: Sequence[Path], extract: Extract, *, by: str) -> LandedExtract:
    return extracts.land_extract(landing(ws, source, by=by), [FileCapture(path) for path in files], extract)


def withdraw(ws: Workspace, source: str, key: Mapping[str, str], *, by: str, reason: str) -> Landed:
    return withdrawals.withdraw(landing(ws, source, by=by), key, reason=reason)


def restore(ws: Workspace, source: str, import_id: str, *, by: str, reason: str) -> Landed:
    return withdrawals.restore(landing(ws, source, by=by), import_id, {}, reason=reason)


def approve(ws: Workspace, name: str, *, by: str, note: str = "") -> None:
    authority.approve(ws, name, by=by, note=note)


def cancel(ws: Workspace, name: str, *, by: str, reason: str) -> None:
    Restatement(ws, name).cancel(by=by, reason=reason)


def run_named(ws: Workspace, run_id: str) -> RunRecord:
    return run_of(ws, run_id)


def state_of(ws: Workspace, run_id: str) -> RunState:
    return run_named(ws, run_id).state


def erase_samples(ws: Workspace, name: str, *, by: str, reason: str) -> int:
    """How many samples of a run or a set were erased."""
    return Restatement(ws, name).erase_samples(by=by, reason=reason).erased


def publish_set(ws: Workspace, set_id: str, *, by: str, publish: sets.PublishOne | None = None) -> SetRecord:
    """The set, published run by run, directly or as the test says."""
    return sets.publish_restatement(
        ws, set_id, by=by, publish=publish or (lambda run_id: publish_run(ws, run_id, by=by))
    )


def set_versions(ws: Workspace, set_id: str) -> Mapping[str, int]:
    with ws.ledger.read() as tx:
        return versions_of(tx.publications, tx.sets.get(set_id))


def proofs(ws: Workspace, run_id: str) -> Mapping[date, GateResult]:
    """What the proof of the warm-up found of each partition."""
    with ws.ledger.read() as tx:
        return {each.partition: each for each in tx.candidates.gate_results(run_id) if each.gate == "warm_up"}


def vacuum(ws: Workspace, *, by: str, dry_run: bool = False) -> VacuumReport:
    """Removes staged files that are not needed any more."""
    return vacuum_lake(ws, by=by, quarantines=[source.quarantine for source in ws.domain.sources], dry_run=dry_run)

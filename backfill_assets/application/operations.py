"""What can a person or an orchestrator ask for?

The command line and Dagster call exactly these functions. Each either does what it says or raises a `BackfillError`
that says what to do next; none prints, none reads the environment.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

from pyspark.sql import DataFrame

from backfill_assets.application.recover import Recovered, recover
from backfill_assets.candidates.evaluate import Evaluated, gate_run
from backfill_assets.candidates.stage import require_stageable, stage_run
from backfill_assets.domain import DerivedTable, SourceTable, WarmUpProof
from backfill_assets.errors import Refused
from backfill_assets.gates.terms import gate_terms
from backfill_assets.lake.evidence import replace_quarantined
from backfill_assets.landing.land import Landed, OnDuplicate
from backfill_assets.landing.land import land as land_file
from backfill_assets.ledger.claims import LedgerState
from backfill_assets.ledger.members import members_of, versions_of
from backfill_assets.ledger.records import (
    CandidatePartition,
    PublicationRecord,
    RunRecord,
    SetRecord,
)
from backfill_assets.ledger.states import RunState
from backfill_assets.ledger.writing import typed
from backfill_assets.people import require_person
from backfill_assets.planning.manifest import NEVER_PUBLISHED, CauseKind, Kind, Limits, Mode
from backfill_assets.planning.policy import every
from backfill_assets.planning.proof import ProofTerms
from backfill_assets.planning.request import (
    Plan,
    PlanRequest,
    Terms,
    propose,
    require_inputs,
)
from backfill_assets.planning.restatement import NothingToRebuild, PlannedSet, SetRequest
from backfill_assets.planning.sets import SET_PREFIX
from backfill_assets.planning.stages import Stage, stages_of
from backfill_assets.progress import Listener, no_listener
from backfill_assets.publication import follow, verdict
from backfill_assets.publication.approve import approve_run
from backfill_assets.publication.authority import demand_of, require_agreed
from backfill_assets.publication.cancel import cancel
from backfill_assets.publication.follow import Asking, PlannedFollowUps, Tries, always
from backfill_assets.publication.plan_load import days_without_events, plan_load, questioned_gaps
from backfill_assets.publication.publish import publish_run, rollback_run
from backfill_assets.restatements.approve import approve_set as agree_to_set
from backfill_assets.restatements.plan import plan_set as write_set
from backfill_assets.restatements.publish import is_outdated, publish_set, rollback_set
from backfill_assets.restatements.undo import rollback_with_dependents
from backfill_assets.session_settings import session_digest
from backfill_assets.staleness.find import stale_tables
from backfill_assets.upkeep.reproduce import Reproduced, reproduce_run
from backfill_assets.upkeep.vacuum import Vacuumed, vacuum_lake
from backfill_assets.versions import client_versions
from backfill_assets.workspace import Workspace

__all__ = [
    "Asking",
    "Evaluated",
    "PlannedFollowUps",
    "Recovered",
    "Reproduced",
    "Vacuumed",
    "approve",
    "approve_set",
    "asked_follow_ups",
    "cancel",
    "cancel_follow_ups",
    "days_without_events",
    "erase_samples",
    "find_run",
    "gate",
    "is_outdated",
    "is_set",
    "land",
    "plan",
    "plan_follow_ups",
    "plan_load",
    "plan_set",
    "publish",
    "publish_set",
    "quarantine_table",
    "questioned_gaps",
    "recover",
    "reproduce",
    "require_publishable",
    "require_stageable",
    "rollback",
    "rollback_set",
    "rollback_with_dependents",
    "run_named",
    "set_versions",
    "stage",
    "stages",
    "stale_tables",
    "vacuum",
]

PLANNED_BY_HAND = frozenset({Mode.BACKFILL, Mode.DRY_RUN, Mode.RECONCILIATION, Mode.REPLAY})
"""The modes that a person can ask for; LIVE is for what arrives by itself."""


def plan(ws: Workspace, request: PlanRequest) -> Plan:
    """Plans a run over a derived table and writes its DRAFT manifest.

    Raises:
        UnknownName: No such table or transform version.
        InvalidRange: Days outside the table's days.
        MissingInput: Input days without an accepted version, or a missing reference file.
        InvalidReference: A reference file says something impossible.
        Refused: A run of kind LIVE.
    """
    _require_words(request)
    table = ws.domain.derived_table(request.table)
    if request.mode not in PLANNED_BY_HAND:
        raise Refused(
            f"a run of mode {request.mode} is not planned by hand.",
            next_step=f"leave --mode out, or give one of {', '.join(sorted(PLANNED_BY_HAND))}",
            table=table.name,
        )
    if request.kind is Kind.LIVE:
        # A LIVE run may be published by policy alone, so nobody gets one by asking.
        raise Refused(
            f"a run of kind LIVE is not planned by hand; {table.name} asks for a reason and an approval.",
            next_step=f"leave --kind out, or give one of {', '.join(k for k in Kind if k is not Kind.LIVE)}",
            table=table.name,
        )
    release = table.release(request.transform_version)
    named = replace(request, table=table.name, transform_version=release.version)
    with ws.ledger.read() as reader:
        proposed = propose(
            named,
            _terms(ws, table, release.version),
            graph=ws.graph,
            state=LedgerState(reader),
            as_of=ws.clock(),
        )
    require_inputs(proposed)
    with ws.ledger.write() as writer:
        writer.add_manifest(proposed.manifest, actor=request.by)
    return proposed


def plan_follow_ups(ws: Workspace, *, by: str, tries: Tries = always) -> PlannedFollowUps:
    """Plans every run that the ledger's outbox asks for; see `publication.follow.plan_follow_ups`.

    Nothing of such a run can be chosen: policy may publish it without a person.
    """
    typed("the one who follows", by)
    return follow.plan_follow_ups(ws, by=by, terms_of=lambda name: _present_terms(ws, name), tries=tries)


def asked_follow_ups(ws: Workspace) -> tuple[Asking, ...]:
    """What publications ask of their dependents, now or when what it needs is there."""
    with ws.ledger.read() as reader:
        return follow.what_waits(ws, reader)


def cancel_follow_ups(ws: Workspace, publication_id: str, *, by: str, reason: str) -> None:
    """Decides that dependents do not follow a publication; what has followed already is left as it is.

    Raises:
        UnknownName: There is no such publication, or it asked nothing.
        IllegalTransition: Nothing of it waits.
    """
    with ws.ledger.write() as writer:
        writer.cancel_follow_ups(publication_id, by=by, reason=reason)


def plan_set(ws: Workspace, request: SetRequest) -> PlannedSet | NothingToRebuild:
    """Plans everything that a change makes stale, as one restatement set; see `publication.plan_set.plan_set`."""
    _require_words(request)
    return write_set(ws, request, lambda name: _present_terms(ws, name))


def stages(ws: Workspace, run_id: str) -> tuple[Stage, ...]:
    """What a run or a set does, step by step: the list that `plan` prints and `run` executes.

    Raises:
        UnknownName: There is no such run or set.
    """
    with ws.ledger.read() as reader:
        if not is_set(run_id):
            run = reader.run(run_id)
            return stages_of([run.manifest], ws.graph, demand=demand_of(ws, reader, run))
        members = members_of(reader, reader.restatement_set(run_id))
        asked = every(demand_of(ws, reader, member) for member in members)
    return stages_of([member.manifest for member in members], ws.graph, of=run_id, demand=asked)


def _require_words(request: PlanRequest | SetRequest) -> None:
    """Refuses what the ledger would refuse, before a digest is taken of it."""
    typed("the reason", request.reason)
    require_person("the requester", typed("the requester", request.by))


def _present_terms(ws: Workspace, name: str) -> Terms:
    table = ws.domain.derived_table(name)
    return _terms(ws, table, table.version)


def _terms(ws: Workspace, table: DerivedTable, version: str) -> Terms:
    code = ws.code.of(table, version)
    return Terms(
        domain=ws.domain.name,
        partition_column=table.partition.column,
        transform=table.transform,
        transform_version=version,
        code_digest=code.digest,
        code_modules=code.modules,
        versions=client_versions(),
        session_digest=session_digest(),
        references=tuple(ws.references[name].pinned for name in table.references),
        gates=gate_terms(table),
        limits=Limits(chunk_partitions=ws.settings.chunk_partitions, chunk_rows=ws.settings.chunk_rows),
        policy=table.policy,
        proof=_proof_terms(table),
    )


def _proof_terms(table: DerivedTable) -> ProofTerms | None:
    asked = [ProofTerms(partitions=g.asked, extra_days=g.extra_days) for g in table.gates if isinstance(g, WarmUpProof)]
    return asked[0] if asked else None


def quarantine_table(source: SourceTable) -> str:
    """The Delta table that holds a source's rejected records, partitioned by import."""
    return f"quarantine.{source.short_name}"


def land(ws: Workspace, source: str, path: Path, *, on_duplicate: OnDuplicate, by: str) -> Landed:
    """Lands one file: archived as it came, checked, counted, its rejected records quarantined.

    Raises:
        UnknownName: No such source.
        MissingInput: No such file.
        UnreadableFile: The file cannot be read at all, and is refused whole.
        Refused: Its content was landed before and `on_duplicate` is `reject`.
    """
    table = ws.domain.source_table(source)
    require_person("the one who lands", by)

    def quarantine(frame: DataFrame, import_id: str) -> None:
        at_ms = int(ws.clock().timestamp() * 1000)
        replace_quarantined(
            ws.lake,
            quarantine_table(table),
            frame,
            import_id=import_id,
            attempt=secrets.token_hex(4),
            at_ms=at_ms,
            partition_column="import_id",
        )

    return land_file(
        ledger=ws.ledger,
        spark=ws.spark(),
        settings=ws.settings,
        source=table,
        path=path,
        on_duplicate=on_duplicate,
        by=by,
        quarantine=quarantine,
        reached=ws.reached,
    )


def approve_set(ws: Workspace, set_id: str, *, by: str, note: str = "") -> SetRecord:
    """Records that another person agrees to every run of a set; see `publication.approve.approve_set`."""
    return agree_to_set(ws, set_id, by=by, note=note)


def approve(ws: Workspace, run_id: str, *, by: str, note: str = "") -> RunRecord:
    """Records that another person agrees to exactly this manifest; see `publication.approve.approve_run`."""
    return approve_run(ws, run_id, by=by, note=note)


def stage(
    ws: Workspace, run_id: str, *, actor: str, listener: Listener = no_listener
) -> Mapping[date, CandidatePartition]:
    """Computes a run into files that nobody reads; see `transforms.stage.stage_run`."""
    return stage_run(ws, run_id, actor=actor, listener=listener)


def gate(ws: Workspace, run_id: str, *, actor: str, listener: Listener = no_listener) -> Evaluated:
    """Measures what was staged; see `gates.evaluate.gate_run`."""
    return gate_run(ws, run_id, actor=actor, listener=listener)


def publish(ws: Workspace, run_id: str, *, by: str) -> PublicationRecord:
    """Makes a run what readers see; see `publication.publish.publish_run`.

    A run that a person asked for is published by a person; what follows a publication, by whatever follows it.
    """
    if run_named(ws, run_id).manifest.cause.kind is not CauseKind.FOLLOW_UP:
        require_person("the one who publishes", by)
    return publish_run(ws, run_id, by=by)


def rollback(ws: Workspace, run_id: str, *, by: str, reason: str) -> PublicationRecord:
    """Undoes a run's publication; see `publication.publish.rollback_run`."""
    require_person("the one who rolls back", by)
    return rollback_run(ws, run_id, by=by, reason=reason)


def reproduce(
    ws: Workspace, run_id: str, *, by: str, sample: int | None = None, listener: Listener = no_listener
) -> Reproduced:
    """Rebuilds a published run and compares checksums; see `evidence.reproduce.reproduce_run`."""
    return reproduce_run(ws, run_id, by=by, sample=sample, listener=listener)


def erase_samples(ws: Workspace, name: str, *, by: str, reason: str) -> int:
    """Deletes the values of rows that the ledger holds of a run or a set, for ever; events say who did it and why.

    Returns:
        How many samples were erased.

    Raises:
        UnknownName: There is no such run or set.
        Refused: It is not said by whom and why, or there are none.
    """
    with ws.ledger.write() as writer:
        runs = [each.run_id for each in writer.restatement_set(name).manifest.members] if is_set(name) else [name]
        erased = writer.erase_samples(*runs, by=by, reason=reason)
    ws.ledger.compact_log()
    return erased


def vacuum(ws: Workspace, *, by: str, dry_run: bool = False) -> Vacuumed:
    """Removes staged files that nobody needs any more; see `publication.vacuum.vacuum_lake`."""
    quarantines = [quarantine_table(source) for source in ws.domain.sources]
    return vacuum_lake(ws, by=by, quarantines=quarantines, dry_run=dry_run)


def run_named(ws: Workspace, run_id: str) -> RunRecord:
    """The run of that id.

    Raises:
        UnknownName: There is none.
    """
    with ws.ledger.read() as reader:
        return reader.run(run_id)


def is_set(name: str) -> bool:
    """Whether an id is a set's and not a run's."""
    return name.startswith(SET_PREFIX)


def set_versions(ws: Workspace, set_id: str) -> Mapping[str, int]:
    """For readers of several tables: the Delta version of each at which the set can be read as one.

    Raises:
        UnknownName: There is no such set.
    """
    with ws.ledger.read() as reader:
        return versions_of(reader, reader.restatement_set(set_id))


def require_publishable(ws: Workspace, run_id: str) -> None:
    """Refuses at once what `publish` would refuse anyway, before anything is started for it.

    Raises:
        IllegalTransition: It is not gated, or is published already.
        NotApproved: Nobody has agreed who may, neither a person nor a policy.
    """
    with ws.ledger.read() as reader:
        run = reader.run(run_id)
        reader.require_still_asked(run)
        asked = demand_of(ws, reader, run)
    verdict.require_publishable(run)
    require_agreed(ws, run, asked)


def find_run(ws: Workspace, table: str, partitions: Sequence[date], *, states: Iterable[RunState]) -> RunRecord | None:
    """The newest run of a table over exactly these partitions, in one of these states.

    A run that has PASSED is looked for to be published, so one whose mode never is does not count.
    """
    wanted = tuple(sorted(partitions))
    with ws.ledger.read() as reader:
        runs = reader.runs(table=ws.domain.table(table).name, states=tuple(states))
    return next(
        (
            run
            for run in runs
            if run.manifest.partitions == wanted
            and not (run.state is RunState.PASSED and run.manifest.mode in NEVER_PUBLISHED)
        ),
        None,
    )

"""Documents of runs: their state and next step."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from backfill_assets.core.errors import Interrupted
from backfill_assets.core.lease import Lease
from backfill_assets.ledger.records import RunRecord
from backfill_assets.ledger.states import ApprovalState, RunState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest_parts import Kind, Mode, PinnedReference, ReferenceSemantics, semantics_of
from backfill_assets.planning.partitions import Partitions
from backfill_assets.report.errors import RunInterrupted
from backfill_assets.report.requests import NAME, Act, NextStep, do, step
from backfill_assets.report.what_next import next_step
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAtWork:
    """The process that stages or gates a run, or did when it stopped.

    Attributes:
        holder: Who started it.
        machine: The process, as `HOST:PID`.
        since: When it began.
        until: When its lease ends, unless it is renewed.
    """

    holder: str
    machine: str
    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """One run, and where it stands.

    Attributes:
        run_id: Names it.
        table: The table whose partitions it computes.
        kind: Why it computes them.
        mode: What may become of it.
        set_id: The set of which it is part, or null.
        state: How far it is.
        approval: Whether its manifest is approved.
        approved_by: Who approved it, or null.
        approved_at: When.
        requested_by: Who planned it.
        requested_at: When.
        reason: Why, in the words of the requester.
        transform: The transform that computes it.
        transform_version: The registered version of that transform.
        reference_semantics: Which truth its references give; null without references.
        references: Their versions.
        output: Its partitions.
        updated_at: When its state changed last.
        note: What is to be known of its state, such as why it failed; empty when there is nothing.
        at_work: The process that stages or gates it, or null.
        next_step: What a person can do next, by what publication would ask for now: an approval that is not valid any
            more needs a further one. Of a run of a set that has passed, what moves the set on. Null when there is
            nothing.
    """

    run_id: str
    table: str
    kind: Kind
    mode: Mode
    set_id: str | None
    state: RunState
    approval: ApprovalState
    approved_by: str | None
    approved_at: datetime | None
    requested_by: str
    requested_at: datetime
    reason: str
    transform: str
    transform_version: str
    reference_semantics: ReferenceSemantics | None
    references: tuple[PinnedReference, ...]
    output: Partitions
    updated_at: datetime
    note: str
    at_work: RunAtWork | None
    next_step: NextStep | None


def run_document(ws: Workspace, run_id: str) -> RunSummary:
    """Where a run stands.

    Raises:
        UnknownName: There is no such run.
    """
    with ws.ledger.read() as tx:
        return run_summary(ws, tx, tx.runs.get(run_id))


def run_summary(ws: Workspace, tx: ReadTransaction, run: RunRecord) -> RunSummary:
    """The same, inside an open transaction."""
    manifest = run.manifest
    return RunSummary(
        run_id=run.run_id,
        table=manifest.table,
        kind=manifest.kind,
        mode=manifest.mode,
        set_id=manifest.member_of,
        state=run.state,
        approval=run.approval,
        approved_by=run.approved_by,
        approved_at=run.approved_at,
        requested_by=manifest.requested_by,
        requested_at=manifest.requested_at,
        reason=manifest.reason,
        transform=manifest.transform,
        transform_version=manifest.transform_version,
        reference_semantics=semantics_of(manifest.references),
        references=manifest.references,
        output=Partitions.of(manifest.grain, manifest.partitions),
        updated_at=run.updated_at,
        note=run.note,
        at_work=_at_work(run.lease),
        next_step=next_step(ws, tx, run),
    )


def _at_work(lease: Lease | None) -> RunAtWork | None:
    if lease is None:
        return None
    return RunAtWork(holder=lease.holder, machine=lease.machine, since=lease.since_at, until=lease.until_at)


def interrupted(ws: Workspace, run_id: str) -> Interrupted:
    """The error of a command that was interrupted: staging and gating give their lease back, a swap may have landed."""
    with ws.ledger.read() as tx:
        run = tx.runs.get(run_id)
        following = next_step(ws, tx, run)
    if run.lease is not None:
        following = step(do(Act.RECOVER, run.run_id, now=True, by=NAME))
    elif run.state is RunState.PUBLISHING:
        following = step(do(Act.RECOVER, run.run_id))
    return RunInterrupted(run_id=run.run_id, state=run.state, following=following)

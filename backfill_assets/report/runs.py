"""Documents of runs and restatement sets: their state and next step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from backfill_assets.core.errors import Interrupted
from backfill_assets.core.next_steps import NAME, Act, NextStep, do, step
from backfill_assets.ledger.publications import StandingPublication
from backfill_assets.ledger.records import PublicationHeader, RunHeader, RunRecord, SetRecord
from backfill_assets.ledger.sets import members_of, versions_of
from backfill_assets.ledger.states import ApprovalState, RunState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import NEVER_PUBLISHED
from backfill_assets.planning.partitions import Partitions
from backfill_assets.planning.reasons import ChangedReference
from backfill_assets.publication.obstacles import FOR_ADVICE, Ends, Publishing, obstacles, outdated
from backfill_assets.publication.verdict import brings_back_what_was_recorded
from backfill_assets.report.documents import INLINE
from backfill_assets.report.errors import RunInterrupted
from backfill_assets.report.measured import GateSummary, gate_summaries
from backfill_assets.report.proposed import files_behind
from backfill_assets.report.releases import references_moved_on
from backfill_assets.report.what_next import next_step, next_step_of_set
from backfill_assets.staleness.landed_news import FileNews
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class WithdrawnApproval:
    """The approval of a run that a rollback withdrew, while no other has taken its place."""

    approved_by: str  #: Who had approved: a person, or a policy.
    rollback: PublicationHeader  #: The rollback.


@dataclass(frozen=True, slots=True, kw_only=True)
class InTheWay:
    """Something that stands in the way of publishing a run that has passed its gates, besides a missing approval."""

    why: str  #: What publication says.
    ends: Ends  #: What ends it.


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """One run, and where it stands."""

    record: RunRecord = field(metadata=INLINE)  #: The run.
    #: What a person can do next, by what publication would ask for now: an approval that is not valid any more needs a
    #: further one. Of a run of a set that has passed, what moves the set on. Null when there is nothing.
    next_step: NextStep | None
    ran_by: str | None = None  #: Who computed it last; null before it is staged.
    #: The approval that its last rollback withdrew, if it is not approved again; a run that is staged again after a
    #: rollback has a state that no longer shows it.
    withdrawn: WithdrawnApproval | None = None
    #: Whether it is a repair whose rows are exactly those that were recorded, which needs no approval.
    brings_back: bool = False
    #: What the gates found that block it; empty for a run that is not blocked.
    blocked_by: tuple[GateSummary, ...] = ()
    #: What stands in the way of publishing it besides an approval; empty for a run that has not passed its gates.
    in_the_way: tuple[InTheWay, ...] = ()

    @property
    def manifest(self) -> Manifest:
        return self.record.manifest


def run_document(ws: Workspace, run_id: str) -> RunSummary:
    """Where a run stands."""
    with ws.ledger.read() as tx:
        return run_summary(ws, tx, tx.runs.get(run_id))


def run_summary(ws: Workspace, tx: ReadTransaction, run: RunRecord) -> RunSummary:
    """The summary of a run, inside an open transaction."""
    (summary,) = run_summaries(ws, tx, [run])
    return summary


def run_summaries(ws: Workspace, tx: ReadTransaction, runs: Sequence[RunRecord]) -> tuple[RunSummary, ...]:
    """Where runs stand."""
    ran_by = tx.events.ran_by(run.run_id for run in runs)
    withdrawn = withdrawn_approvals(tx, not_approved(runs))
    return tuple(
        RunSummary(
            record=run,
            next_step=next_step(ws, tx, run),
            ran_by=ran_by.get(run.run_id),
            withdrawn=withdrawn.get(run.run_id),
            brings_back=brings_back_what_was_recorded(tx, run),
            blocked_by=tuple(_blocking(tx, run)) if run.state is RunState.BLOCKED else (),
            in_the_way=tuple(_in_the_way(ws, tx, run)) if run.state is RunState.PASSED else (),
        )
        for run in runs
    )


def _blocking(tx: ReadTransaction, run: RunRecord) -> Iterator[GateSummary]:
    results = tx.candidates.gate_results(run.run_id)
    yield from (each for each in gate_summaries(run.manifest, results) if each.blocking and each.failed)


def _in_the_way(ws: Workspace, tx: ReadTransaction, run: RunRecord) -> Iterator[InTheWay]:
    if run.manifest.mode not in NEVER_PUBLISHED:
        for each in obstacles(Publishing(ws=ws, tx=tx, run=run), FOR_ADVICE, slow=False):
            if each.ends is not Ends.APPROVAL:
                yield InTheWay(why=each.error.message, ends=each.ends)


def not_approved(runs: Iterable[RunHeader]) -> Iterator[str]:
    """The runs that are not approved, by id."""
    yield from (run.run_id for run in runs if run.approval is not ApprovalState.APPROVED)


def withdrawn_approvals(tx: ReadTransaction, run_ids: Iterable[str]) -> Mapping[str, WithdrawnApproval]:
    """The approvals that the last rollbacks withdrew, for runs that are not approved."""
    found = tx.publications.rollbacks(run_ids)
    return {run_id: each for run_id, rollback in found.items() if (each := _withdrawn(tx, rollback)) is not None}


def _withdrawn(tx: ReadTransaction, rollback: PublicationHeader) -> WithdrawnApproval | None:
    events = tx.events.entries(entity_id=rollback.run_id, actions=["approved"])
    approvers = [event.actor for event in events if event.sequence < rollback.sequence]
    if not approvers:  # removed from the database, which an audit finds
        return None
    return WithdrawnApproval(approved_by=approvers[-1], rollback=rollback)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMember:
    """One run of a set."""

    run: RunSummary = field(metadata=INLINE)  #: The run.
    reached: RunState  #: Its state; of a cancelled run, that in which it was cancelled.
    changed_partitions: int | None  #: How many partitions its publication swapped; null before it.
    verified_partitions: int | None  #: How many it found equal and left as they are; null before it.
    #: What has to be staged again by `backfill run SET`, because what it was computed from was; null when nothing has
    #: to.
    outdated: Partitions | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDocument:
    """A restatement set, and how far it is."""

    record: SetRecord = field(metadata=INLINE)  #: The set.
    #: For a proposal, the landed files that decide rows of the changed days, in the order of arrival.
    changed_by: tuple[FileNews, ...]
    approved_by: str | None  #: Who approved it; null until every run is approved.
    versions: Mapping[str, int]  #: By table, the Delta version at which the set can be read as one.
    runs: tuple[SetMember, ...]  #: In the order of publication.
    next_step: NextStep | None  #: What moves it on; null when there is nothing to do.
    #: References that have changed since the runs were planned that can still be published; in the answer of `publish`,
    #: as it was before.
    changed_references: tuple[ChangedReference, ...] = ()

    @property
    def states(self) -> tuple[RunState, ...]:
        """The state of each of its runs."""
        return tuple(member.run.record.state for member in self.runs)

    @property
    def is_blocked(self) -> bool:
        """True if a blocking gate of one of its runs failed."""
        return RunState.BLOCKED in self.states


def set_document(ws: Workspace, set_id: str) -> SetDocument:
    """Where a set stands."""
    with ws.ledger.read() as tx:
        return described_set(ws, tx, tx.sets.get(set_id))


def described_set(ws: Workspace, tx: ReadTransaction, record: SetRecord) -> SetDocument:
    """The description of a set, inside an open transaction."""
    members = members_of(tx.runs, record)
    landed = tx.publications.landed(member.run_id for member in members)
    return SetDocument(
        record=record,
        changed_by=files_behind(tx, record.manifest.proposed),
        approved_by=_approver(members),
        versions=versions_of(tx.publications, record),
        runs=tuple(_member(ws, tx, member, landed.get(member.run_id)) for member in members),
        next_step=next_step_of_set(ws, tx, record, members),
        changed_references=tuple(each for member in members for each in references_moved_on(ws, member)),
    )


def _approver(members: Sequence[RunRecord]) -> str | None:
    approved = [member.approved_by for member in members if member.approval is ApprovalState.APPROVED]
    return approved[0] if len(approved) == len(members) else None


def _member(ws: Workspace, tx: ReadTransaction, member: RunRecord, landing: StandingPublication | None) -> SetMember:
    return SetMember(
        run=run_summary(ws, tx, member),
        reached=tx.events.reached(member),
        changed_partitions=None if landing is None else landing.changed,
        verified_partitions=None if landing is None else landing.verified,
        outdated=outdated(Publishing(ws=ws, tx=tx, run=member)),
    )

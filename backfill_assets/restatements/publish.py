"""Publish a restatement set, one table after the other, complete a publication that stopped half-way, and verify what
would change nothing.

Each table is swapped atomically; the set is not. Therefore the ledger records first that its publication has begun. If
it stops half-way, `recover` completes it, or reverses it if it cannot be completed.

Of a run, or a set, whose rows are those that readers see nothing is swapped, so that no person has to agree. What is
recorded is that the accepted rows also follow from what the run has read; otherwise they would stay stale. The ledger
records all runs of a set in one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import (
    BackfillError,
    GateFailed,
    HalfWay,
    InputsMovedOn,
    MissingInput,
    Refused,
    Retryable,
    TargetChanged,
)
from backfill_assets.ledger.records import PublicationIntent, PublicationRecord, RunRecord, SetRecord
from backfill_assets.ledger.states import ApprovalState, RunState, SetState
from backfill_assets.ledger.transactions import ReadTransaction, WriteTransaction
from backfill_assets.planning.manifest_parts import NEVER_PUBLISHED
from backfill_assets.publication.authority import demand_of, open_comments, reads_approvers
from backfill_assets.publication.obstacles import (
    OF_EQUAL_ROWS,
    Obstacle,
    Publishing,
    PublishingRestatement,
    obstacles,
    obstacles_of,
    require_none,
)
from backfill_assets.publication.publish import intent_of, require_as_intended
from backfill_assets.publication.recover import RecoveryEnd, RecoveryOutcome
from backfill_assets.restatements import errors
from backfill_assets.restatements.undo import rollback_set, whole_held, whole_taken
from backfill_assets.workspace import Workspace

PublishOne = Callable[[str], object]
"""Publishes the run with that id; an orchestrator can record it."""


@reads_approvers
def publish_restatement(
    ws: Workspace, name: str, *, by: str, publish: PublishOne, phase: str | None = None
) -> SetRecord:
    """Publishes every run of a restatement that is not published yet, in order; of phases, the next one alone.

    Args:
        name: A restatement whose runs have all passed and are approved, or the next of its phases.
        phase: The run that is meant, where the next phase is not.

    Raises:
        UnknownName: There is none of this id.
        IllegalTransition: One of its runs has not passed, or it is published already.
        NotApproved: It has no approval by a person who may approve every run of it.
        InputsMovedOn: A run has read candidates of another one that were staged again since; nothing has changed.
        Refused, Retryable: The first table could not be swapped; nothing has changed.
        HalfWay: A later table could not be swapped: the tables before it are published.
        OutcomeUnknown: It is not known whether a swap landed; `recover` finds out.
    """
    with ws.ledger.write() as tx:
        asked = PublishingRestatement(ws=ws, tx=tx, record=tx.sets.get(name), phase=phase)
        if not asked.record.is_alone:
            require_none(obstacles_of(asked, slow=False))
            if asked.record.state is not SetState.PUBLISHING:
                tx.sets.move(name, SetState.PUBLISHING, actor=by)
            lease = whole_taken(ws, tx, name, by=by)
    if asked.record.is_alone:
        # Its swap is all there is: nothing can stop half-way, and the swap asks what stands in its way.
        publish(name)
        with ws.ledger.read() as tx:
            return tx.sets.get(name)
    with whole_held(ws, name, lease):
        return _published(ws, name, asked.due, by=by, publish=publish)


def _published(ws: Workspace, set_id: str, members: Sequence[RunRecord], *, by: str, publish: PublishOne) -> SetRecord:
    ws.reached(Point.SET_BEGUN)
    for member in members:
        try:
            publish(member.run_id)
        except (Refused, Retryable) as error:
            found, half_way = _stopped(ws, set_id, error, by=by)
            if found.state is SetState.PUBLISHED:
                # Another process has published the rest of it meanwhile.
                return found
            if half_way is not None:
                raise half_way from error
            raise
        ws.reached(Point.SET_TABLE_PUBLISHED)
    with ws.ledger.write() as tx:
        # How far a set of phases is, the transaction that acknowledged the phase has said.
        if not tx.sets.get(set_id).manifest.phases and tx.sets.get(set_id).state is not SetState.PUBLISHED:
            tx.sets.move(set_id, SetState.PUBLISHED, actor=by)
        record = tx.sets.get(set_id)
    ws.reached(Point.SET_FINISHED)
    return record


def _stopped(ws: Workspace, set_id: str, error: BackfillError, *, by: str) -> tuple[SetRecord, HalfWay | None]:
    """Resets a set of which nothing is published; otherwise reports how far it is, if that is half-way."""
    with ws.ledger.write() as tx:
        record = tx.sets.get(set_id)
        members = tx.runs.of_request(set_id)
        # Another process may publish the set as well: the ledger decides, not what this process did.
        moved = [m for m in members if m.state in (RunState.PUBLISHED, RunState.PUBLISHING)]
        if record.manifest.phases:
            if record.state is SetState.PUBLISHING and all(m.state is not RunState.PUBLISHING for m in members):
                to = SetState.PARTLY_PUBLISHED if moved else SetState.PENDING
                tx.sets.move(set_id, to, actor=by, note=error.recorded)
            return tx.sets.get(set_id), None
        if not moved:
            if record.state is SetState.PUBLISHING:
                tx.sets.move(set_id, SetState.PENDING, actor=by, note=error.recorded)
            return tx.sets.get(set_id), None
    published = sum(member.state is RunState.PUBLISHED for member in members)
    return record, errors.HalfPublished(set_id=set_id, published=published, count=len(members), cause=error)


CANNOT_BE_COMPLETED = (TargetChanged, InputsMovedOn, GateFailed, MissingInput)
"""Errors that retrying does not resolve: a set that stopped for one of these is reversed by `recover`."""


def recover_set(ws: Workspace, record: SetRecord, *, by: str, publish: PublishOne) -> RecoveryOutcome:
    """Completes the publication of a set that stopped half-way, or reverses it."""
    set_id = record.set_id
    if record.state is SetState.ROLLING_BACK:
        return _reversed(ws, set_id, by=by, reason=record.note or "recovered")
    try:
        publish_restatement(ws, set_id, by=by, publish=publish)
    except BackfillError as error:
        with ws.ledger.read() as tx:
            found = tx.sets.get(set_id).state
        if found is SetState.PUBLISHED:
            return RecoveryOutcome(ended=RecoveryEnd.PUBLISHED_SINCE)
        if found is SetState.PENDING:
            return RecoveryOutcome(ended=RecoveryEnd.NOTHING_PUBLISHED, cause=error)
        if found is SetState.PARTLY_PUBLISHED:
            # A phase that fails stops those after it; what readers see of those before it stays.
            return RecoveryOutcome(ended=RecoveryEnd.PHASE_STOPPED, cause=error)
        cause = error.__cause__ if isinstance(error, HalfWay) else error
        if isinstance(cause, CANNOT_BE_COMPLETED):
            # Only the cause: how far the set was is not true any more after the reversal.
            return replace(_reversed(ws, set_id, by=by, reason=cause.message), cause=cause)
        return RecoveryOutcome(ended=RecoveryEnd.HALF_WAY, error=error)
    ended = RecoveryEnd.PHASE_PUBLISHED if record.manifest.phases else RecoveryEnd.PUBLISHED
    return RecoveryOutcome(ended=ended)


def _reversed(ws: Workspace, set_id: str, *, by: str, reason: str) -> RecoveryOutcome:
    try:
        undone = rollback_set(ws, set_id, by=by, reason=reason, ordered=True)
    except BackfillError as error:
        return RecoveryOutcome(ended=RecoveryEnd.NOT_ROLLED_BACK, error=error)
    return RecoveryOutcome(ended=RecoveryEnd.ROLLED_BACK, landed=tuple(undone))


def verify_if_equal(ws: Workspace, run_id: str, *, by: str) -> tuple[PublicationRecord, ...]:
    """Records that a run that has passed, or all runs of its set, would change nothing.

    Args:
        ws: The workspace.
        run_id: The run that was measured last.
        by: Who ran it.

    Returns:
        What was recorded; empty when something would change, when a person has approved or has to comment, or when it
        could not be published now either: publication says why.
    """
    with ws.ledger.read() as tx:
        runs = _waiting(ws, tx, run_id)
        if not runs or any(_in_the_way(ws, tx, runs)):
            return ()
        intents = [intent_of(ws, tx, run, by=by) for run in runs]
    if any(intent.changes for intent in intents):
        return ()
    try:
        versions = [require_as_intended(ws, run, intent) for run, intent in zip(runs, intents, strict=True)]
        with ws.ledger.write() as tx:
            return tuple(_recorded(ws, tx, runs, intents, versions, by=by))
    except (Refused, Retryable):
        return ()


def _in_the_way(ws: Workspace, tx: ReadTransaction, runs: Iterable[RunRecord]) -> Iterator[Obstacle]:
    for run in runs:
        yield from obstacles(Publishing(ws=ws, tx=tx, run=run), OF_EQUAL_ROWS)


def _waiting(ws: Workspace, tx: ReadTransaction, run_id: str) -> Sequence[RunRecord]:
    """The run or the runs of its set, if all of them have passed and wait for a person; none otherwise."""
    run = tx.runs.get(run_id)
    if not run.is_alone:
        record = tx.sets.of(run)
        if record.state is not SetState.PENDING or record.manifest.phases:
            # Phases are decided about one by one.
            return ()
    runs = tx.requests.runs(run.request_id)
    waits = all(
        each.state is RunState.PASSED
        and each.approval is ApprovalState.DRAFT
        and each.manifest.mode not in NEVER_PUBLISHED
        # A load of landed files has no inputs of its own kind: it is published by whoever runs it.
        and each.manifest.inputs
        and not open_comments(tx, each)
        # What a policy approves is published by whoever runs it, or by the sensor that follows.
        and demand_of(ws, tx, each).policy is None
        for each in runs
    )
    return runs if waits else ()


def _recorded(
    ws: Workspace,
    tx: WriteTransaction,
    runs: Sequence[RunRecord],
    intents: Sequence[PublicationIntent],
    versions: Sequence[int],
    *,
    by: str,
) -> Sequence[PublicationRecord]:
    # What was read before the transaction is read again: another process may have published meanwhile.
    if _waiting(ws, tx, runs[0].run_id) != runs:
        return ()
    if not runs[0].is_alone:
        tx.sets.move(runs[0].request_id, SetState.VERIFIED, actor=by)
    made = []
    for run, intent, version in zip(runs, intents, versions, strict=True):
        require_none(_in_the_way(ws, tx, [run]))
        made.append(tx.publications.verify(intent, delta_version=version, actor=by))
    return made

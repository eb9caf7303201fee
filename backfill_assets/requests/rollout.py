"""Publish a restatement of several runs, one table after the other, roll it back, and complete what stopped half-way.

Each table is swapped atomically; several are not. Therefore the ledger records first that the publication has begun. If
it stops half-way, `recover` completes it, or reverses it if it cannot be completed.

If the computed rows of a restatement equal the accepted rows, nothing is swapped and no approval is needed. The ledger
records in one transaction that the accepted rows also follow from what its runs have read; otherwise they would stay
stale.

A rollback of several runs, or of a restatement with the dependents that would be left without their input, is recorded
first as well: which runs are undone and in which order, dependents before their inputs, each with its own swap, so that
a published partition never lacks its input. `recover` completes a rollback that stopped half-way.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial

from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import (
    BackfillError,
    GateFailed,
    HalfWay,
    IllegalTransition,
    InputsMovedOn,
    MissingInput,
    Refused,
    Retryable,
    TargetChanged,
)
from backfill_assets.core.lease import LeaseTerms, renewed
from backfill_assets.ledger.errors import TableBusy
from backfill_assets.ledger.leases import whole_of
from backfill_assets.ledger.records import (
    Action,
    PublicationIntent,
    PublicationRecord,
    RollbackOrder,
    RunRecord,
    SetRecord,
)
from backfill_assets.ledger.states import ApprovalState, PublicationState, RunState, SetState
from backfill_assets.ledger.transactions import ReadTransaction, WriteTransaction
from backfill_assets.planning.manifest_parts import NEVER_PUBLISHED
from backfill_assets.planning.sets import is_set
from backfill_assets.requests import errors
from backfill_assets.requests.authority import demand_of, open_comments, reads_approvers, rollback_grounds
from backfill_assets.requests.errors import BeingPublished
from backfill_assets.requests.obstacles import (
    OF_EQUAL_ROWS,
    READY,
    Obstacle,
    Publishing,
    PublishingRestatement,
    obstacles,
    obstacles_of,
    require_none,
)
from backfill_assets.requests.orphans import Orphans, orphans_of, require_no_orphans
from backfill_assets.requests.publish import intent_of, require_as_intended, rollback_intent, rollback_run
from backfill_assets.requests.recover import RecoveryEnd, RecoveryOutcome
from backfill_assets.workspace import Workspace

_CAN_BE_UNDONE = (
    SetState.PUBLISHED,
    SetState.PARTLY_PUBLISHED,
    SetState.PUBLISHING,
    SetState.ROLLING_BACK,
)


def rollback(ws: Workspace, name: str, *, by: str, reason: str, ordered: bool = False) -> Sequence[PublicationRecord]:
    """Rolls back every table of a restatement, dependents before their inputs.

    Args:
        ordered: Whether the ledger asks for it: a rollback that it has recorded, or a set that cannot be completed.

    Raises:
        IllegalTransition: None of it is published, or one of its runs is being published; nothing has changed.
        HalfWay: A later table could not be rolled back: the tables before it are.
    """
    if is_set(name):
        return rollback_set(ws, name, by=by, reason=reason, ordered=ordered)
    return (rollback_run(ws, name, by=by, reason=reason, ordered=ordered),)


@reads_approvers
def rollback_set(
    ws: Workspace, set_id: str, *, by: str, reason: str, ordered: bool = False
) -> Sequence[PublicationRecord]:
    """Rolls back the tables of a restatement of several runs; see `rollback`."""
    with ws.ledger.write() as tx:
        record = tx.sets.get(set_id)
        if record.state not in _CAN_BE_UNDONE:
            raise IllegalTransition.coded(
                "set_has_nothing_to_undo",
                "set {set_id} has nothing to undo: it is {state}.",
                then="[status {set_id}]",
                set_id=set_id,
                state=record.state,
            )
        members = tx.runs.of_request(record.set_id)
        _require_undone_together(tx, record, members)
        if record.state is not SetState.ROLLING_BACK:
            # From here on a process that still publishes the set is refused its next table.
            grounds = None if ordered else rollback_grounds(ws, tx, _published(members), by)
            tx.sets.move(set_id, SetState.ROLLING_BACK, actor=by, note=reason, grounds=grounds)
        published = _published(reversed(members))
        back = [rollback_intent(ws, tx, run, by=by, reason=reason) for run in published]
        for intent in back:
            # All of them before the first is changed; if one cannot be undone, this transaction is rolled back.
            tx.publications.require_possible(intent)
        require_no_orphans(ws.graph, tx, back, of=set_id)
        lease = whole_taken(ws, tx, set_id, by=by)
    with whole_held(ws, set_id, lease):
        return _brought_back(ws, set_id, back, by=by, reason=reason)


def whole_taken(ws: Workspace, tx: WriteTransaction, name: str, *, by: str) -> LeaseTerms:
    """Takes a set, or a rollback with dependents, so that a recovery leaves it alone between two tables as well."""
    lease = LeaseTerms(attempt=secrets.token_hex(4), length=ws.settings.lease)
    tx.turns.take_whole(name, lease, holder=by)
    return lease


@contextmanager
def whole_held(ws: Workspace, name: str, lease: LeaseTerms) -> Iterator[None]:
    """Keeps what was taken until the block ends, however it does."""
    # Whoever takes it away goes on with it: the ledger refuses the one that comes second to each table.
    renew = partial(ws.ledger.renew_lease, whole_of(name), lease)
    try:
        with renewed(renew, length=lease.length, lost=lambda: None):
            yield
    finally:
        with suppress(BackfillError), ws.ledger.write() as tx:  # else it ends with its lease
            tx.turns.give_back_whole(name, lease)


def _brought_back(
    ws: Workspace, set_id: str, back: Sequence[PublicationIntent], *, by: str, reason: str
) -> Sequence[PublicationRecord]:
    ws.reached(Point.SET_ROLLING_BACK)
    undone: list[PublicationRecord] = []
    for intent in back:
        try:
            undone.append(rollback_run(ws, intent.run_id, by=by, reason=reason, ordered=True))
        except (Refused, Retryable) as error:
            # The ledger says how far it is: another process may have gone on with it meanwhile, or ended it.
            undone = _undone(ws, [each.run_id for each in back])
            if len(undone) == len(back):
                break
            raise HalfWay.coded(
                "half_rolled_back",
                "{reason} {undone} of {count} published runs of set {set_id} are rolled back.",
                then="[recover], which continues the rollback; or, to give it up: [approve {set_id} "
                "by=ANOTHER_PERSON], then [publish {set_id} by=NAME]",
                set_id=set_id,
                run_id=intent.run_id,
                undone=len(undone),
                count=len(back),
                reason=error.message,
            ) from error
        ws.reached(Point.SET_TABLE_BROUGHT_BACK)
    with ws.ledger.write() as tx:
        if tx.sets.get(set_id).state is not SetState.ROLLED_BACK:
            tx.sets.move(set_id, SetState.ROLLED_BACK, actor=by, note=reason)
    ws.reached(Point.SET_FINISHED)
    return undone


def _undone(ws: Workspace, back: Iterable[str]) -> list[PublicationRecord]:
    """The rollbacks that stand of the runs that were to be brought back, whoever completed them."""
    with ws.ledger.read() as tx:
        runs = [run_id for run_id in back if tx.runs.get(run_id).state is RunState.ROLLED_BACK]
        found = tx.publications.rollbacks(runs)
        return [tx.publications.get(found[run_id].publication_id) for run_id in runs if run_id in found]


def _published(members: Iterable[RunRecord]) -> Sequence[RunRecord]:
    return [run for run in members if run.state is RunState.PUBLISHED]


def _require_undone_together(tx: ReadTransaction, record: SetRecord, members: Iterable[RunRecord]) -> None:
    """Refuses before any change a rollback that would stop half-way.

    A run that had found everything equal is SUPERSEDED when the version that it verified is undone or replaced: it has
    nothing to undo, and there may be no later publication to roll back first.
    """
    for run in members:
        if run.state is RunState.SUPERSEDED and _has_changed(tx, run):
            later = tx.versions.replaced_by(run.run_id)
            raise errors.MemberSuperseded(
                set_id=record.set_id,
                run_id=run.run_id,
                table=run.manifest.table,
                state=run.state,
                undone_with=tx.runs.request_of(later) if later else None,
            )
        if run.state is RunState.PUBLISHING:
            raise BeingPublished(run_id=run.run_id, whole=f"set {record.set_id}")


def _has_changed(tx: ReadTransaction, run: RunRecord) -> bool:
    standing = tx.publications.records(run_id=run.run_id, states=[PublicationState.PUBLISHED])
    return any(record.changes for record in standing if record.action is Action.PUBLISH)


@reads_approvers
def rollback_with_dependents(ws: Workspace, name: str, *, by: str, reason: str) -> Sequence[PublicationRecord]:
    """Undoes a run or a set, and before it every publication that would be left without its input.

    Returns:
        The rollbacks in the order in which they were done.
    """
    with ws.ledger.write() as tx:
        order = RollbackOrder(of=name, dependents=(), by=by, reason=reason)
        intents = _intents(ws, tx, order)
        orphans = orphans_of(ws.graph, tx, intents)
        _require_in_no_set(orphans, name)
        order = replace(order, dependents=tuple(each.run_id for each in orphans))
        undone = tx.runs.named([*(intent.run_id for intent in intents), *order.dependents])
        tx.publications.order_rollback(order, rollback_grounds(ws, tx, undone, by))
        lease = whole_taken(ws, tx, name, by=by)
    with whole_held(ws, name, lease):
        ws.reached(Point.ROLLBACK_ORDERED)
        return _completed(ws, order)


def complete_rollback(ws: Workspace, order: RollbackOrder) -> Sequence[PublicationRecord]:
    """Executes the remaining swaps of a rollback that the ledger has recorded.

    Raises:
        Refused, HalfWay: It cannot continue and is abandoned; what was undone stays undone.
        TableBusy, Retryable, OutcomeUnknown: It may continue later: `backfill recover`.
    """
    with ws.ledger.write() as tx:
        lease = whole_taken(ws, tx, order.of, by=order.by)
    with whole_held(ws, order.of, lease):
        return _completed(ws, order)


def _completed(ws: Workspace, order: RollbackOrder) -> Sequence[PublicationRecord]:
    done: list[PublicationRecord] = []
    try:
        for run_id in order.dependents:
            if _run_state(ws, run_id) is RunState.PUBLISHED:
                why = f"{order.reason} (with {order.of})"
                done.append(rollback_run(ws, run_id, by=order.by, reason=why, ordered=True))
        done += _root(ws, order)
    except TableBusy:
        raise  # another process is at it, which goes on or is recovered
    except Refused as error:
        if _ended_by_others(ws, order):
            return _undone(ws, [*order.dependents, *_runs_of(ws, order)])
        with ws.ledger.write() as tx:
            tx.publications.end_rollback(order.of, actor=order.by, note=error.message)
        if not done:
            raise
        undone = tuple(record.run_id for record in done)
        raise HalfWay.coded(
            "only_dependents_rolled_back",
            "{reason} So {of_} was not rolled back; its dependents were: {dependents}.",
            then="{following}",
            dependents=undone,
            reason=error.message,
            of_=order.of,
            following=error.next_step,
        ) from error
    with ws.ledger.write() as tx:
        tx.publications.end_rollback(order.of, actor=order.by)
    return done


def _runs_of(ws: Workspace, order: RollbackOrder) -> Sequence[str]:
    """The runs that a rollback with dependents is of, in the order in which they are brought back."""
    with ws.ledger.read() as tx:
        return tx.sets.get(order.of).run_ids[::-1]


def _ended_by_others(ws: Workspace, order: RollbackOrder) -> bool:
    """True if another process has completed such a rollback meanwhile, and the ledger has noted its end."""
    with ws.ledger.read() as tx:
        if any(each.of == order.of for each in tx.publications.rollbacks_under_way()):
            return False
        return tx.sets.get(order.of).state is SetState.ROLLED_BACK


def _root(ws: Workspace, order: RollbackOrder) -> Sequence[PublicationRecord]:
    with ws.ledger.read() as tx:
        state = tx.sets.get(order.of).state
    if state is SetState.ROLLED_BACK:
        return ()
    return rollback(ws, order.of, by=order.by, reason=order.reason, ordered=True)


def _run_state(ws: Workspace, run_id: str) -> RunState:
    with ws.ledger.read() as tx:
        return tx.runs.state(run_id)


def _intents(ws: Workspace, tx: ReadTransaction, order: RollbackOrder) -> Sequence[PublicationIntent]:
    """The intents to undo what a rollback is of; a run that has nothing to undo is refused with the reason."""
    runs = tx.requests.runs(order.of)
    if not runs[0].is_alone and not is_set(order.of):
        raise IllegalTransition.coded(
            "only_undone_with_set",
            "run {run_id} belongs to set {set_id}, and is only undone with it.",
            then="[rollback {set_id} with_dependents=True by=NAME reason=WHY]",
            run_id=order.of,
            set_id=runs[0].request_id,
        )
    if len(runs) > 1:
        runs = tuple(_published(reversed(runs)))
    return [rollback_intent(ws, tx, run, by=order.by, reason=order.reason) for run in runs]


def _require_in_no_set(orphans: Iterable[Orphans], name: str) -> None:
    of_sets = [each for each in orphans if each.request_id != each.run_id]
    if of_sets:
        first = of_sets[0].request_id
        left = tuple(each for each in of_sets if each.request_id == first)
        raise errors.SetWouldBeOrphaned(of=name, set_id=first, left=left)


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
    if not is_set(name):
        with ws.ledger.read() as tx:
            # Its swap is all there is, and asks again: nothing can stop half-way.
            require_none(obstacles(Publishing(ws=ws, tx=tx, run=tx.runs.get(name)), READY))
        publish(name)
        with ws.ledger.read() as tx:
            return tx.sets.get(name)
    with ws.ledger.write() as tx:
        asked = PublishingRestatement(ws=ws, tx=tx, record=tx.sets.get(name), phase=phase)
        require_none(obstacles_of(asked, slow=False))
        if asked.record.state is not SetState.PUBLISHING:
            tx.sets.move(name, SetState.PUBLISHING, actor=by)
        lease = whole_taken(ws, tx, name, by=by)
    with whole_held(ws, name, lease):
        return _published_in_order(ws, name, asked.due, by=by, publish=publish)


def _published_in_order(
    ws: Workspace, set_id: str, members: Sequence[RunRecord], *, by: str, publish: PublishOne
) -> SetRecord:
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

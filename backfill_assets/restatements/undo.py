"""Rollback of a set, and of a run or a set with the dependents that would be left without their input.

The ledger records first which runs are undone and in which order: dependents before their inputs, each with its own
swap, so that a published partition never lacks its input. `recover` completes a rollback that stopped half-way.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial

from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import BackfillError, HalfWay, IllegalTransition, Refused, Retryable
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
from backfill_assets.ledger.states import PublicationState, RunState, SetState
from backfill_assets.ledger.transactions import ReadTransaction, WriteTransaction
from backfill_assets.planning.sets import is_set
from backfill_assets.publication.authority import reads_approvers, rollback_grounds
from backfill_assets.publication.errors import BeingPublished
from backfill_assets.publication.orphans import Orphans, orphans_of, require_no_orphans
from backfill_assets.publication.publish import rollback_intent, rollback_run
from backfill_assets.restatements import errors
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

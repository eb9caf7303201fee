"""Rollback with dependents: also undoes published partitions that would be left without their input.

The ledger records first which runs are undone and in which order: dependents before their inputs, each with its own
swap, so that a published partition never lacks its input. `recover` completes a rollback that stopped half-way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import Refused
from backfill_assets.ledger.records import PublicationIntent, PublicationRecord, RollbackOrder
from backfill_assets.ledger.states import RunState, SetState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.publication.authority import rollback_grounds
from backfill_assets.publication.orphans import Orphans, orphans_of
from backfill_assets.publication.publish import rollback_intent, rollback_run
from backfill_assets.restatements.errors import OnlyDependentsRolledBack, OnlyUndoneWithSet, SetWouldBeOrphaned
from backfill_assets.restatements.publish import rollback_intents, rollback_set
from backfill_assets.workspace import Workspace


def rollback_with_dependents(ws: Workspace, name: str, *, by: str, reason: str) -> Sequence[PublicationRecord]:
    """Undoes a run or a set, and before it every publication that would be left without its input.

    Returns:
        The rollbacks in the order in which they were done.

    Raises:
        UnknownName: There is no such run or set.
        NotApproved: The policies of a table that it changes back name groups, and the person is in none of them.
        IllegalTransition: It has nothing to undo, or a dependent is being published.
        TargetChanged: A publication that would have to be undone as a whole was partly replaced since.
        LeavesOrphans: A dependent belongs to another set, which is undone separately and as a whole.
        HalfWay: A later swap was refused: those before it are done, and no partition lacks its input.
        OutcomeUnknown: It is not known whether a swap landed; `recover` finds out and continues.
    """
    with ws.ledger.write() as tx:
        order = RollbackOrder(of=name, dependents=(), by=by, reason=reason)
        intents = _intents(ws, tx, order)
        orphans = orphans_of(ws.graph, tx, intents)
        _require_in_no_set(orphans, name)
        order = replace(order, dependents=tuple(each.run_id for each in orphans))
        undone = tx.runs.named([*(intent.run_id for intent in intents), *order.dependents])
        tx.publications.order_rollback(order, rollback_grounds(ws, undone, by))
    ws.reached(Point.ROLLBACK_ORDERED)
    return complete_rollback(ws, order)


def complete_rollback(ws: Workspace, order: RollbackOrder) -> Sequence[PublicationRecord]:
    """Executes the remaining swaps of a rollback that the ledger has recorded.

    Raises:
        Refused, HalfWay: It cannot continue and is abandoned; what was undone stays undone.
        Retryable, OutcomeUnknown: It may continue later: `backfill recover`.
    """
    done: list[PublicationRecord] = []
    try:
        for run_id in order.dependents:
            if _run_state(ws, run_id) is RunState.PUBLISHED:
                why = f"{order.reason} (with {order.of})"
                done.append(rollback_run(ws, run_id, by=order.by, reason=why, ordered=True))
        done += _root(ws, order)
    except Refused as error:
        with ws.ledger.write() as tx:
            tx.publications.end_rollback(order.of, actor=order.by, note=error.message)
        if not done:
            raise
        undone = tuple(record.intent.run_id for record in done)
        raise OnlyDependentsRolledBack(of=order.of, dependents=undone, cause=error) from error
    with ws.ledger.write() as tx:
        tx.publications.end_rollback(order.of, actor=order.by)
    return done


def _root(ws: Workspace, order: RollbackOrder) -> Sequence[PublicationRecord]:
    if not order.is_of_set:
        if _run_state(ws, order.of) is RunState.ROLLED_BACK:
            return ()
        return (rollback_run(ws, order.of, by=order.by, reason=order.reason, ordered=True),)
    with ws.ledger.read() as tx:
        state = tx.sets.get(order.of).state
    if state is SetState.ROLLED_BACK:
        return ()
    return rollback_set(ws, order.of, by=order.by, reason=order.reason, ordered=True)


def _run_state(ws: Workspace, run_id: str) -> RunState:
    with ws.ledger.read() as tx:
        return tx.runs.get(run_id).state


def _intents(ws: Workspace, tx: ReadTransaction, order: RollbackOrder) -> Sequence[PublicationIntent]:
    if order.is_of_set:
        return rollback_intents(ws, tx, tx.sets.get(order.of), by=order.by, reason=order.reason)
    run = tx.runs.get(order.of)
    if run.manifest.member_of is not None:
        raise OnlyUndoneWithSet(run_id=order.of, set_id=run.manifest.member_of)
    return (rollback_intent(ws, tx, run, by=order.by, reason=order.reason),)


def _require_in_no_set(orphans: Iterable[Orphans], name: str) -> None:
    of_sets = [each for each in orphans if each.set_id is not None]
    if of_sets:
        raise SetWouldBeOrphaned(of=name, set_id=str(of_sets[0].set_id), left=tuple(of_sets))

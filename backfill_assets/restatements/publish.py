"""Publish and roll back a restatement set, one table after the other.

Each table is swapped atomically; the set is not. Therefore the ledger records first that its publication has begun. If
it stops half-way, `recover` completes it, or reverses it if it cannot be completed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from backfill_assets.candidates.inputs import read_before, require_read_as_staged
from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import (
    BackfillError,
    HalfWay,
    Refused,
    Retryable,
)
from backfill_assets.ledger.records import Action, PublicationIntent, PublicationRecord, RunRecord, SetRecord
from backfill_assets.ledger.sets import members_of
from backfill_assets.ledger.states import PublicationState, RunState, SetState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest_parts import NEVER_PUBLISHED
from backfill_assets.publication.authority import demand_of, require_agreed, rollback_grounds
from backfill_assets.publication.errors import BeingPublished
from backfill_assets.publication.orphans import require_no_orphans
from backfill_assets.publication.publish import rollback_intent, rollback_run
from backfill_assets.restatements.errors import (
    HalfPublished,
    HalfRolledBack,
    MemberNotPublishable,
    MemberSuperseded,
    SetHasNothingToUndo,
    SetIs,
    SetIsNeverPublished,
)
from backfill_assets.workspace import Workspace

PublishOne = Callable[[str], object]
"""Publishes the run with that id; an orchestrator can record it."""


def publish_set(ws: Workspace, set_id: str, *, by: str, publish: PublishOne) -> SetRecord:
    """Publishes every run of a set that is not published yet, in order.

    Args:
        ws: The workspace.
        set_id: A set whose runs have all passed and are approved.
        by: Who publishes.
        publish: How one run is published.

    Raises:
        UnknownName: There is no such set.
        IllegalTransition: One of its runs has not passed, or the set is published already.
        NotApproved: It has no approval by a person who may approve every run of it.
        InputsMovedOn: A run has read candidates of the set that were staged again since; nothing has changed.
        Refused, Retryable: The first table could not be swapped; nothing has changed.
        HalfWay: A later table could not be swapped: the tables before it are published.
        OutcomeUnknown: It is not known whether a swap landed; `recover` finds out.
    """
    with ws.ledger.write() as tx:
        record = tx.sets.get(set_id)
        members = members_of(tx.runs, record)
        _require_publishable(record, members)
        for member in members:
            if member.state is not RunState.PUBLISHED:
                require_agreed(ws, member, demand_of(ws, tx, member))
                require_read_as_staged(tx, ws.graph, member.manifest)
        if record.state is not SetState.PUBLISHING:
            tx.sets.move(set_id, SetState.PUBLISHING, actor=by)
    ws.reached(Point.SET_BEGUN)
    for member in members:
        if member.state is RunState.PUBLISHED:
            continue
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
        if tx.sets.get(set_id).state is not SetState.PUBLISHED:
            tx.sets.move(set_id, SetState.PUBLISHED, actor=by)
        record = tx.sets.get(set_id)
    ws.reached(Point.SET_FINISHED)
    return record


def _stopped(ws: Workspace, set_id: str, error: BackfillError, *, by: str) -> tuple[SetRecord, HalfWay | None]:
    """Resets a set of which nothing is published; otherwise reports how far it is, if that is half-way."""
    with ws.ledger.write() as tx:
        record = tx.sets.get(set_id)
        members = members_of(tx.runs, record)
        # Another process may publish the set as well: the ledger decides, not what this process did.
        moved = [m for m in members if m.state in (RunState.PUBLISHED, RunState.PUBLISHING)]
        if not moved:
            if record.state is SetState.PUBLISHING:
                tx.sets.move(set_id, SetState.PLANNED, actor=by, note=error.recorded)
            return tx.sets.get(set_id), None
    published = sum(member.state is RunState.PUBLISHED for member in members)
    return record, HalfPublished(set_id=set_id, published=published, count=len(members), cause=error)


def is_outdated(ws: Workspace, run: RunRecord) -> bool:
    """Whether the candidate of a run of a set was computed from candidates that have been staged again since."""
    with ws.ledger.read() as tx:
        return bool(read_before(tx, ws.graph, run.manifest))


def _require_publishable(record: SetRecord, members: Sequence[RunRecord]) -> None:
    if record.state in (SetState.PUBLISHED, SetState.CANCELLED):
        raise SetIs(set_id=record.set_id, state=record.state)
    for member in members:
        if member.manifest.mode in NEVER_PUBLISHED:
            raise SetIsNeverPublished(set_id=record.set_id, mode=member.manifest.mode)
        if member.state is RunState.PUBLISHED:
            continue
        if member.state not in (RunState.PASSED, RunState.ROLLED_BACK):
            is_leased = member.lease is not None
            raise MemberNotPublishable(
                set_id=record.set_id, run_id=member.run_id, state=member.state, is_leased=is_leased
            )


def rollback_set(
    ws: Workspace, set_id: str, *, by: str, reason: str, ordered: bool = False
) -> Sequence[PublicationRecord]:
    """Rolls back every table of a set, dependents before their inputs.

    Args:
        ws: The workspace.
        set_id: The set.
        by: Who rolls it back.
        reason: Why.
        ordered: Whether the ledger asks for it: a rollback that it has recorded, or a set that cannot be completed.

    Raises:
        UnknownName: There is no such set.
        NotApproved: The policies of one of its tables name groups, and the person is in none of them.
        IllegalTransition: None of it is published, or one of its runs is being published; nothing has changed.
        TargetChanged: Partitions of it were published again since; nothing has changed.
        LeavesOrphans: Published partitions would be left without their input; see `undo.rollback_with_dependents`.
        HalfWay: A later table could not be rolled back: the tables before it are.
        OutcomeUnknown: It is not known whether a swap landed; `recover` finds out.
    """
    with ws.ledger.write() as tx:
        record = tx.sets.get(set_id)
        if record.state not in (SetState.PUBLISHED, SetState.PUBLISHING, SetState.ROLLING_BACK):
            raise SetHasNothingToUndo(set_id=set_id, state=record.state)
        members = members_of(tx.runs, record)
        _require_undone_together(tx, record, members)
        if record.state is not SetState.ROLLING_BACK:
            # From here on a process that still publishes the set is refused its next table.
            grounds = None if ordered else rollback_grounds(ws, _published(members), by)
            tx.sets.move(set_id, SetState.ROLLING_BACK, actor=by, note=reason, grounds=grounds)
        back = rollback_intents(ws, tx, record, by=by, reason=reason)
        for intent in back:
            # All of them before the first is changed; if one cannot be undone, this transaction is rolled back.
            tx.publications.require_possible(intent)
        require_no_orphans(ws.graph, tx, back, of=set_id)
    ws.reached(Point.SET_ROLLING_BACK)
    undone: list[PublicationRecord] = []
    for intent in back:
        try:
            undone.append(rollback_run(ws, intent.run_id, by=by, reason=reason, ordered=True))
        except (Refused, Retryable) as error:
            raise HalfRolledBack(
                set_id=set_id, run_id=intent.run_id, undone=len(undone), count=len(back), cause=error
            ) from error
        ws.reached(Point.SET_TABLE_BROUGHT_BACK)
    with ws.ledger.write() as tx:
        tx.sets.move(set_id, SetState.ROLLED_BACK, actor=by, note=reason)
    ws.reached(Point.SET_FINISHED)
    return undone


def rollback_intents(
    ws: Workspace, tx: ReadTransaction, record: SetRecord, *, by: str, reason: str
) -> Sequence[PublicationIntent]:
    """The intents to undo the published runs of a set, dependents first; none is begun.

    Raises:
        TargetChanged: Partitions of it were published again since.
    """
    published = _published(reversed(members_of(tx.runs, record)))
    return [rollback_intent(ws, tx, run, by=by, reason=reason) for run in published]


def _published(members: Iterable[RunRecord]) -> Sequence[RunRecord]:
    return [run for run in members if run.state is RunState.PUBLISHED]


def _require_undone_together(tx: ReadTransaction, record: SetRecord, members: Iterable[RunRecord]) -> None:
    """Refuses before any change a rollback that would stop half-way.

    A run that had found everything equal is SUPERSEDED when the version that it verified is undone or replaced: it has
    nothing to undo, and there may be no later publication to roll back first.
    """
    for run in members:
        if run.state is RunState.SUPERSEDED and _has_changed(tx, run):
            raise MemberSuperseded(set_id=record.set_id, run_id=run.run_id, table=run.manifest.table, state=run.state)
        if run.state is RunState.PUBLISHING:
            raise BeingPublished(run_id=run.run_id, whole=f"set {record.set_id}")


def _has_changed(tx: ReadTransaction, run: RunRecord) -> bool:
    standing = tx.publications.records(run_id=run.run_id, states=[PublicationState.PUBLISHED])
    return any(record.intent.changes for record in standing if record.intent.action is Action.PUBLISH)

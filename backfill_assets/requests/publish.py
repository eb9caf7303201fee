"""Publish and roll back one run: intent in the ledger, swap in the table, acknowledgement in the ledger.

If a process stops in between, `recover` finds out from the table's log whether the swap landed.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime
from functools import partial

from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import (
    BackfillError,
    IllegalTransition,
    OutcomeUnknown,
    Refused,
    Retryable,
    TargetChanged,
)
from backfill_assets.core.identity import LogEvidence
from backfill_assets.core.lease import LeaseTerms, renewed
from backfill_assets.lake.swap import Exchange, SwapOrder, require_as_expected, swap
from backfill_assets.lake.tables import altered_files
from backfill_assets.ledger.imports import ImportDay
from backfill_assets.ledger.records import Action, PartitionVersion, PublicationIntent, PublicationRecord, RunRecord
from backfill_assets.ledger.states import ApprovalState, ImportState, PublicationState, RunState, SetState
from backfill_assets.ledger.transactions import ReadTransaction, WriteTransaction
from backfill_assets.planning.manifest import Manifest, lineage_digest, row_of_run
from backfill_assets.planning.manifest_parts import RunPurpose
from backfill_assets.requests.authority import reads_approvers, rollback_grounds
from backfill_assets.requests.errors import LandedButNotRecorded
from backfill_assets.requests.obstacles import READY, SLOW, Publishing, no_other_under_way, obstacles, require_none
from backfill_assets.requests.orphans import require_no_orphans
from backfill_assets.requests.verdict import changes_for, rollback_changes
from backfill_assets.transforms.schemas import former_columns, stored_schema
from backfill_assets.workspace import Workspace


@reads_approvers
def publish_run(ws: Workspace, run_id: str, *, by: str) -> PublicationRecord:
    """Makes the rows of a gated and approved run visible to readers."""
    _require_ready(ws, run_id)
    with ws.ledger.write() as tx:
        run = tx.runs.get(run_id)
        asked = Publishing(ws=ws, tx=tx, run=run)
        require_none(obstacles(asked, slow=False))
        if asked.demand.policy and run.approval is ApprovalState.DRAFT and run.state is RunState.PASSED:
            tx.requests.approve_by_policy(run_id, policy=asked.demand.policy)
        intent = intent_of(ws, tx, run, by=by)
        tx.publications.begin(intent, actor=by, lease=_lease_of(ws, intent))
    ws.reached(Point.SWAP_INTENDED)
    return swap_and_acknowledge(ws, run, intent, by=by)


def intent_of(ws: Workspace, tx: ReadTransaction, run: RunRecord, *, by: str) -> PublicationIntent:
    """The changes of publishing a run without obstacles, and the partitions found equal; begins nothing."""
    manifest = run.manifest
    changes, verified = changes_for(
        manifest,
        tx.candidates.of_run(run.run_id),
        tx.versions.accepted(manifest.table, manifest.partitions),
    )
    return PublicationIntent(
        publication_id=_new_id(ws.clock()),
        run_id=run.run_id,
        action=Action.PUBLISH,
        table=manifest.table,
        by=by,
        reason=manifest.reason,
        changes=changes,
        verified=verified,
        lineage_digest=lineage_digest(row_of_run(manifest, None)) if changes else "",
    )


def require_as_intended(ws: Workspace, run: RunRecord, intent: PublicationIntent) -> int:
    """Refuses an intent whose table is not what its candidate was compared with; returns the version of the table."""
    return require_as_expected(ws.lake, _order_of(ws, run, intent))


def _require_ready(ws: Workspace, run_id: str) -> None:
    """Refuses before the ledger's transaction what takes long to find out: rows from older inputs than readers see.

    The accepted versions that it reads are those that the candidate was compared with, or the transaction refuses.
    """
    with ws.ledger.read() as tx:
        asked = Publishing(ws=ws, tx=tx, run=tx.runs.get(run_id))
        require_none(obstacles(asked, (*READY, *SLOW)))


@reads_approvers
def rollback_run(ws: Workspace, run_id: str, *, by: str, reason: str, ordered: bool = False) -> PublicationRecord:
    """Restores exactly the files that a run's publication replaced.

    Args:
        ordered: Whether it is a part of a rollback that the ledger has recorded: whoever ordered that was allowed to.
    """
    with ws.ledger.write() as tx:
        run = tx.runs.get(run_id)
        grounds = None if ordered else rollback_grounds(ws, tx, [run], by)
        intent = rollback_intent(ws, tx, run, by=by, reason=reason)
        require_no_orphans(ws.graph, tx, [intent], of=run_id)
        whole = tx.sets.of(run)
        if whole.manifest.phases and whole.state is SetState.PUBLISHED:
            # The last of its phases, brought back alone: the ledger refuses any other one.
            tx.sets.move(whole.set_id, SetState.PARTLY_PUBLISHED, actor=by, note=reason)
        tx.publications.begin(intent, actor=by, grounds=grounds, lease=_lease_of(ws, intent))
    ws.reached(Point.SWAP_INTENDED)
    return swap_and_acknowledge(ws, run, intent, by=by)


def rollback_intent(ws: Workspace, tx: ReadTransaction, run: RunRecord, *, by: str, reason: str) -> PublicationIntent:
    """The intent to undo a run's publication; it is not begun.

    Raises:
        IllegalTransition: The run has no publication in effect, or one that changed nothing and is of no set.
    """
    table = run.manifest.table
    standing = tx.publications.headers(run_id=run.run_id, states=[PublicationState.PUBLISHED])
    published = [header.publication_id for header in standing if header.action is Action.PUBLISH]
    if not published:
        raise IllegalTransition.coded(
            "no_standing_publication",
            "run {run_id} has no standing publication and is {state}, so there is nothing to undo.",
            then="[history {table}]",
            run_id=run.run_id,
            table=table,
            state=run.state,
        )
    undone = published[0]
    # With its set even a run that changed nothing is undone: its equal rows were computed from the set's inputs.
    if not tx.publications.changed_partitions(undone) and run.is_alone:
        raise IllegalTransition.coded(
            "changed_nothing",
            "run {run_id} changed nothing: every partition was equal, so there is nothing to undo.",
            then="[history {table}]",
            run_id=run.run_id,
            table=table,
        )
    present = tx.versions.standing(table, run.manifest.partitions)
    versions = tx.versions.of_publication(undone)
    _require_not_merged_since(ws, tx, run, undone, versions)
    replaced = tx.versions.pinned(table, [(v.partition, v.replaces) for v in versions if v.replaces])
    return PublicationIntent(
        publication_id=_new_id(ws.clock()),
        run_id=run.run_id,
        action=Action.ROLLBACK,
        table=table,
        by=by,
        reason=reason,
        changes=rollback_changes(
            table, undone, versions, present, replaced, tx.runs.request_of, tx.versions.repaired(table)
        ),
        undoes=undone,
    )


def _require_not_merged_since(
    ws: Workspace, tx: ReadTransaction, run: RunRecord, undone: str, versions: Iterable[PartitionVersion]
) -> None:
    """Refuses to undo what a later merge has counted on: a key that comes back may be in another partition now.

    Raises:
        TargetChanged: Rows that readers see were merged with versions of this publication.
    """
    if run.manifest.change.is_divisible:
        return
    # One that has begun has counted on them as well, and is not among the accepted versions yet.
    require_none(obstacles(Publishing(ws=ws, tx=tx, run=run), (no_other_under_way,)))
    made = {(version.partition, version.version) for version in versions}
    claims = tx.versions.claims(run.manifest.table).values()
    for later in tx.runs.named(sorted({claim.run_id for claim in claims} - {run.run_id})):
        base = later.manifest.base
        if base and any((pin.partition, pin.version) in made for pin in base.partitions):
            whole = tx.runs.request_of(later.run_id)
            raise TargetChanged.coded(
                "merged_since",
                "run {run_id} has merged changes into {table} after publication {publication_id}, and with its rows.",
                then="undo that first: [rollback {undone_with} by=NAME reason=WHY]",
                table=later.table,
                publication_id=undone,
                run_id=later.run_id,
                undone_with=whole,
            )


def swap_and_acknowledge(ws: Workspace, run: RunRecord, intent: PublicationIntent, *, by: str) -> PublicationRecord:
    """Executes the swap of an intent in the ledger, and acknowledges it there.

    The lineage of the run is written before its rows become visible: a reader of a row finds where it comes from.
    A certain refusal closes the intent with nothing changed; an unknown outcome, or a ledger that cannot be written,
    leaves it open for `recover`. If every partition was found equal there is nothing to commit, but the table still has
    to be what the candidate was compared with.
    """
    lease = _lease_of(ws, intent)
    renew = partial(ws.ledger.renew_lease, intent.publication_id, lease)
    # Whoever takes it away has fenced the publication off: its swap is refused.
    with renewed(renew, length=lease.length, lost=lambda: None):
        return _swapped_and_acknowledged(ws, run, intent, by=by)


def _lease_of(ws: Workspace, intent: PublicationIntent) -> LeaseTerms:
    """The name of a publication among the leases: no other attempt has its id."""
    return LeaseTerms(attempt=intent.publication_id, length=ws.settings.lease)


def _swapped_and_acknowledged(
    ws: Workspace, run: RunRecord, intent: PublicationIntent, *, by: str
) -> PublicationRecord:
    # Imported where a table is written: what is asked of a run otherwise is answered without Arrow.
    from backfill_assets.lake.append import append_run

    carry = swap if intent.changes else require_as_expected
    try:
        if intent.lineage_digest:
            with ws.ledger.read() as tx:
                begun = {each.publication_id: each.started_at for each in tx.publications.headers(run_id=run.run_id)}
            append_run(ws.lake, row_of_run(run.manifest, begun[intent.publication_id]))
            ws.reached(Point.LINEAGE_WRITTEN)
        version = carry(ws.lake, _order_of(ws, run, intent))
    except OutcomeUnknown as error:
        _note_unknown(ws, intent, by=by, why=error.recorded)
        raise
    except (Refused, Retryable) as error:
        try:
            abandon(ws, intent.publication_id, by=by, reason=error.recorded)
        except (Retryable, OutcomeUnknown) as unwritten:
            # The outcome in the table is known: that the ledger cannot be written is no reason to try the swap again.
            raise OutcomeUnknown.coded(
                "refused_but_not_recorded",
                "{refusal} So nothing was published, but the ledger could not be updated: {why}",
                then="[recover]",
                refusal=error.message,
                why=unwritten.message,
                **_named(intent),
            ) from unwritten
        ws.reached(Point.SWAP_ABANDONED)
        raise
    ws.reached(Point.SWAP_COMMITTED)
    try:
        return acknowledge(ws, run.manifest, intent, delta_version=version, by=by)
    except LandedButNotRecorded:
        raise
    except (Retryable, OutcomeUnknown) as unwritten:
        raise LandedButNotRecorded(**_named(intent), delta_version=version, why=unwritten.message) from unwritten


def _named(intent: PublicationIntent) -> Mapping[str, str]:
    return {"publication_id": intent.publication_id, "run_id": intent.run_id, "table": intent.table}


def _note_unknown(ws: Workspace, intent: PublicationIntent, *, by: str, why: str) -> None:
    """Notes that this process ends without knowing, so that the same request may find it out without waiting for it."""
    # Without the note the publication is open as after a kill.
    with suppress(BackfillError), ws.ledger.write() as tx:
        tx.publications.note_unknown(intent.publication_id, actor=by, why=why)


def abandon(ws: Workspace, publication_id: str, *, by: str, reason: str, log: LogEvidence | None = None) -> bool:
    """Abandons a publication that has not landed and cannot land any more; returns whether it was still open.

    Its own process and a recovery may both do this. The second one changes nothing, and its error is still raised to
    its caller.
    """
    with ws.ledger.write() as tx:
        if tx.publications.get(publication_id).state is not PublicationState.PUBLISHING:
            return False
        tx.publications.abandon(publication_id, actor=by, reason=reason, log=log)
    return True


def acknowledge(
    ws: Workspace, manifest: Manifest, intent: PublicationIntent, *, delta_version: int, by: str
) -> PublicationRecord:
    """Records in the ledger that a swap landed: partition versions, run states, outbox, and for bronze its files."""
    evidence = None
    if intent.changes:
        try:
            evidence = evidence_of(ws, intent.table, delta_version)
        except BackfillError as error:
            # Readers see the rows. The ledger says so once it can also say what the log contained.
            raise LandedButNotRecorded(**_named(intent), delta_version=delta_version, why=error.message) from error
    lost = _still_lost(ws, manifest, intent)
    with ws.ledger.write() as tx:
        record = tx.publications.finish(intent.publication_id, delta_version=delta_version, actor=by, log=evidence)
        if manifest.change.imports and intent.action is Action.PUBLISH:
            loaded = _wholly_loaded(manifest, tx.imports.days(import_ids=manifest.change.imports))
            waiting = [import_id for import_id in loaded if tx.imports.get(import_id).state is ImportState.LANDED]
            tx.imports.mark_loaded(waiting, actor=by)
        if lost:
            _give_up(tx, intent, lost, by=by)
    ws.reached(Point.SWAP_ACKNOWLEDGED)
    return record


def _still_lost(ws: Workspace, manifest: Manifest, intent: PublicationIntent) -> Sequence[date]:
    """The partitions whose replaced files a repair found lost, and are lost now: a file may be away for a moment."""
    if intent.action is not Action.PUBLISH or manifest.kind is not RunPurpose.REPAIR:
        return ()
    with ws.ledger.read() as tx:
        lost = tx.candidates.replacing_lost(intent.run_id)
    replaced = {c.partition: c.expected for c in intent.changes if c.partition in lost}
    return [partition for partition, files in replaced.items() if altered_files(ws.lake, intent.table, [files])]


def _give_up(tx: WriteTransaction, intent: PublicationIntent, lost: Collection[date], *, by: str) -> None:
    """Records of replaced versions whose files are lost that nothing can bring these back."""
    versions = [(intent.table, c.partition, c.expected_version) for c in intent.changes if c.partition in lost]
    tx.versions.mark_removed(versions)
    payload = {"run_id": intent.run_id, "partitions": [partition.isoformat() for _, partition, _ in versions]}
    tx.events.record(
        actor=by, entity="retention", entity_id=intent.table, action="lost_files_replaced", payload=payload
    )


def evidence_of(ws: Workspace, table: str, version: int | None = None) -> LogEvidence:
    """The evidence in the log of a table up to a version, or now, after the last commit that the ledger has
    recorded."""
    # Imported where a table was written, as in `swap_and_acknowledge`.
    from backfill_assets.lake.log_evidence import log_evidence

    with ws.ledger.read() as tx:
        after = tx.publications.last_logged(table)
    return log_evidence(ws.lake, table, after=after, version=version)


def _wholly_loaded(manifest: Manifest, days: Iterable[ImportDay]) -> tuple[str, ...]:
    """The landed files of which this run has built every day."""
    built = set(manifest.partitions)
    missing = {day.import_id for day in days if day.event_date not in built}
    return tuple(import_id for import_id in manifest.change.imports if import_id not in missing)


def _order_of(ws: Workspace, run: RunRecord, intent: PublicationIntent) -> SwapOrder:
    order = swap_order_of(intent, run.manifest.partition_column, at=ws.clock())
    declared = ws.domain.tables.get(intent.table)
    if declared is None:
        return order
    is_undone = intent.action is Action.ROLLBACK
    return replace(order, schema=stored_schema(declared), former=former_columns(declared), puts_back=is_undone)


def swap_order_of(intent: PublicationIntent, partition_column: str, *, at: datetime) -> SwapOrder:
    """The swap that an intent asks for."""
    return SwapOrder(
        table=intent.table,
        partition_column=partition_column,
        publication_id=intent.publication_id,
        run_id=intent.run_id,
        exchanges=tuple(
            Exchange(value=change.partition.isoformat(), expected=change.expected, new=change.new)
            for change in intent.changes
        )
        # What was found equal is not exchanged, but the swap is refused if the table does not contain it any more.
        + tuple(
            Exchange(value=found.partition.isoformat(), expected=found.files, new=found.files)
            for found in intent.verified
        ),
        committed_at_ms=int(at.timestamp() * 1000),
    )


def _new_id(at: datetime) -> str:
    """A publication id, never reused: a table's log keeps every id."""
    return f"pub-{at:%Y%m%d}-{secrets.token_hex(5)}"

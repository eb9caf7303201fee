"""How are the tables of a restatement set published, one after the other, and how are they all brought back?

Each table is swapped as a whole; the set is not. So the ledger says first that its publication has begun, and whatever
stops half-way is completed by `recover`, or reversed where it cannot be completed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from backfill_assets.errors import IllegalTransition, NotApproved, Refused
from backfill_assets.ledger.records import PublicationRecord, RunRecord, SetRecord
from backfill_assets.ledger.states import MEANING, ApprovalState, RunState, SetState
from backfill_assets.ledger.store import LedgerReader
from backfill_assets.publication.publish import publish_run, rollback_run
from backfill_assets.workspace import Workspace

PublishOne = Callable[[str], object]
"""Publishes the run of that id; an orchestrator records it as it goes."""


def publish_set(ws: Workspace, set_id: str, *, by: str, publish: PublishOne | None = None) -> SetRecord:
    """Publishes every run of a set that is not published yet, in order.

    Args:
        ws: The workspace.
        set_id: A set whose runs have all passed and are approved.
        by: Who publishes.
        publish: How one run is published; by default directly.

    Raises:
        UnknownName: There is no such set.
        IllegalTransition: One of its runs has not passed, or the set is being rolled back.
        NotApproved: Nobody but the requester agreed.
        Refused, Retryable: A table could not be swapped. When it was the first, nothing has changed; otherwise the
            tables before it are published, and the message says how to go on.
        OutcomeUnknown: It cannot be said whether a swap landed; `recover` finds out.
    """
    one = publish or (lambda run_id: publish_run(ws, run_id, by=by))
    with ws.ledger.write() as writer:
        record = writer.restatement_set(set_id)
        members = members_of(writer, record)
        _require_publishable(record, members)
        if record.state is not SetState.PUBLISHING:
            writer.move_set(set_id, SetState.PUBLISHING, actor=by)
    published = sum(member.state is RunState.PUBLISHED for member in members)
    for member in members:
        if member.state is RunState.PUBLISHED:
            continue
        try:
            one(member.run_id)
        except Refused as error:
            if published:
                error.message += f" ({published} of {len(members)} runs of set {set_id} are published.)"
                error.next_step = (
                    f"backfill recover, which completes the set or reverses it; or first {error.next_step}"
                )
            else:
                with ws.ledger.write() as writer:
                    writer.move_set(set_id, SetState.PLANNED, actor=by, note=error.message)
            raise
        published += 1
    with ws.ledger.write() as writer:
        writer.move_set(set_id, SetState.PUBLISHED, actor=by)
        return writer.restatement_set(set_id)


def members_of(reader: LedgerReader, record: SetRecord) -> Sequence[RunRecord]:
    """The runs of a set in the order of publication."""
    return reader.runs_named(member.run_id for member in record.manifest.members)


def _require_publishable(record: SetRecord, members: Iterable[RunRecord]) -> None:
    if record.state in (SetState.PUBLISHED, SetState.ROLLING_BACK):
        raise IllegalTransition(
            f"set {record.set_id} is {record.state} ({MEANING[record.state]}).",
            next_step=f"backfill status {record.set_id}",
            set_id=record.set_id,
        )
    for member in members:
        if member.state is RunState.PUBLISHED:
            continue
        if member.state not in (RunState.PASSED, RunState.ROLLED_BACK):
            raise IllegalTransition(
                f"set {record.set_id} cannot be published: its run {member.run_id} is {member.state} "
                f"({MEANING[member.state]}).",
                next_step=f"backfill run {record.set_id}"
                if member.state is not RunState.BLOCKED
                else f"backfill report {member.run_id}",
                set_id=record.set_id,
                run_id=member.run_id,
            )
        if member.approval is not ApprovalState.APPROVED:
            raise NotApproved(
                f"set {record.set_id} is not approved; {record.manifest.requested_by} asked for it, so somebody else "
                f"has to agree.",
                next_step=f"backfill approve {record.set_id} --by SOMEBODY_ELSE",
                set_id=record.set_id,
            )


def rollback_set(ws: Workspace, set_id: str, *, by: str, reason: str) -> Sequence[PublicationRecord]:
    """Brings every table of a set back, dependents before what they were computed from.

    A run that found everything equal changed nothing, so there is nothing of it to bring back.

    Raises:
        UnknownName: There is no such set.
        IllegalTransition: None of it is published.
        TargetChanged: Partitions of it were published again since.
    """
    with ws.ledger.write() as writer:
        record = writer.restatement_set(set_id)
        if record.state not in (SetState.PUBLISHED, SetState.PUBLISHING, SetState.ROLLING_BACK):
            raise IllegalTransition(
                f"set {set_id} has nothing to undo: it is {record.state} ({MEANING[record.state]}).",
                next_step=f"backfill status {set_id}",
                set_id=set_id,
            )
        _require_undone_together(writer, record)
        if record.state is not SetState.ROLLING_BACK:
            writer.move_set(set_id, SetState.ROLLING_BACK, actor=by, note=reason)
        changed = [run for run in reversed(members_of(writer, record)) if _has_changed(writer, run)]
    undone = [rollback_run(ws, run.run_id, by=by, reason=reason) for run in changed]
    with ws.ledger.write() as writer:
        writer.move_set(set_id, SetState.ROLLED_BACK, actor=by, note=reason)
    return undone


def _require_undone_together(reader: LedgerReader, record: SetRecord) -> None:
    """Refuses at once what would stop half-way: a run of the set whose rows were replaced since."""
    for run in members_of(reader, record):
        if run.state is RunState.SUPERSEDED:
            raise IllegalTransition(
                f"run {run.run_id} of set {record.set_id} is {run.state} ({MEANING[run.state]}).",
                next_step=f"backfill history {run.manifest.table}; roll back the later publication first",
                set_id=record.set_id,
                run_id=run.run_id,
            )


def _has_changed(reader: LedgerReader, run: RunRecord) -> bool:
    landing = reader.landed([run.run_id]).get(run.run_id)
    return run.state is RunState.PUBLISHED and landing is not None and landing.changed > 0


def versions_of(reader: LedgerReader, record: SetRecord) -> Mapping[str, int]:
    """The version of every table of a set at which readers see the whole of it; only of tables that are published."""
    landed = reader.landed(member.run_id for member in record.manifest.members)
    found: dict[str, int] = {}
    for member in record.manifest.members:
        landing = landed.get(member.run_id)
        if landing is not None and landing.delta_version is not None:
            found[member.table] = max(found.get(member.table, 0), landing.delta_version)
    return found


def recover_set(ws: Workspace, record: SetRecord, *, by: str) -> str:
    """Completes the publication of a set that was left half-way, or reverses it; says what became of it."""
    set_id = record.set_id
    if record.state is SetState.ROLLING_BACK:
        return _reversed(ws, set_id, by=by, reason=record.note or "recovered")
    try:
        publish_set(ws, set_id, by=by)
    except Refused as error:
        with ws.ledger.read() as reader:
            if reader.restatement_set(set_id).state is SetState.PLANNED:
                return f"could not be published, and nothing of it has changed: {error.message}"
        return f"could not be completed ({error.message}); " + _reversed(ws, set_id, by=by, reason=error.message)
    return "was half-way; now all of it is published"


def _reversed(ws: Workspace, set_id: str, *, by: str, reason: str) -> str:
    try:
        rollback_set(ws, set_id, by=by, reason=reason)
    except Refused as error:
        return f"cannot be rolled back as a whole: {error.message}"
    return "all of it has been rolled back"

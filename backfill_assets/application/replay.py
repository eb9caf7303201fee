"""Replay: sends recorded rows to a dedicated topic or stream, on request only, and deletes it on close.

The ledger records the inputs, the target, the requester and the approver; the sink knows the progress. The same command
resumes a replay whose process was stopped.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime

from backfill_assets.application.recorder import Acting
from backfill_assets.calendar.local_days import LocalDays
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.capture.declared import secrets_named
from backfill_assets.capture.families import family, target_of
from backfill_assets.capture.streams import Pace
from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import Refused
from backfill_assets.core.progress import Progress
from backfill_assets.deliver.errors import LiveTarget, NotReplayable, ReplayFailed, TargetGone
from backfill_assets.deliver.outgoing import OutgoingRecords, contract_sent
from backfill_assets.deliver.replay_parts import (
    Parts,
    counted,
    nothing,
    parts_as_captured,
    parts_of_run,
    parts_of_table,
)
from backfill_assets.deliver.sinks import Outgoing, Replays, Sender, Sink
from backfill_assets.domain import DerivedTable, SourceTable
from backfill_assets.domain.external import ReplayDeclaration
from backfill_assets.landing.imports import not_known
from backfill_assets.ledger.errors import LostWork, NotInLedger, TargetTaken
from backfill_assets.ledger.records import PartKind, ReplayRecord
from backfill_assets.ledger.replays import replay_taken_over
from backfill_assets.ledger.states import ReplayState
from backfill_assets.planning.errors import NoSuchName
from backfill_assets.report.replayed import ReplayClosed, ReplayPlan, ReplayReport
from backfill_assets.report.waiting import not_known_document
from backfill_assets.requests.authority import require_may_approve
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayAsked:
    """A person's request to send records."""

    subject: str  #: A run, a source or a derived table.
    into: str  #: The topic or the stream.
    days: DayRange | None = None  #: Only records of these days; None for all.
    as_captured: bool = False  #: The records that were captured of the topic or stream of a source, and not its rows.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Resolved:
    """A replay, in the ledger or not yet, with its sink."""

    record: ReplayRecord
    table: SourceTable | DerivedTable
    sink: Sink


def plan_replay(ws: Workspace, asked: ReplayAsked) -> ReplayPlan:
    """Plans a replay: what it would send. Writes nothing.

    Raises:
        Refused: The table declares no replay, there is nothing, or the target is one that may not be written to.
        Retryable: The sink does not answer.
    """
    found = _resolved(ws, asked, by="", reason="")
    return _plan(ws, found.table, found.record)


def replay(
    ws: Workspace,
    asked: ReplayAsked,
    acting: Acting,
    *,
    reason: str,
    pace: Pace,
    planned: Callable[[ReplayPlan], None],
) -> ReplayReport:
    """Sends records to a topic or a stream, or goes on with that.

    Args:
        ws: The workspace.
        asked: What, and where to.
        acting: Who replays.
        reason: Why.
        pace: How fast may be sent.
        planned: Called with the plan before anything is written.

    Raises:
        Refused: As `plan_replay`; or the target is gone.
        ReplayFailed: What was planned cannot be sent: its inputs are gone or changed. It can only be closed.
        NotApproved: The approver is no longer allowed to approve it.
        TakenOver: Another process went on with it, or closed it.
        Retryable: The sink went away: what was sent stays, and the same request goes on behind it.
    """
    found = _resolved(ws, asked, by=acting.by, reason=reason)
    planned(_plan(ws, found.table, found.record))
    if not found.record.replay_id:
        with ws.ledger.write() as tx:
            found = replace(found, record=tx.replays.begin(found.record))
        ws.reached(Point.REPLAY_ASKED)
    record = found.record
    if record.failure is not None:
        raise ReplayFailed(replay_id=record.replay_id, why=record.failure)
    if record.approved_by is not None:
        with ws.ledger.read() as tx:
            require_may_approve(ws, tx, record, record.approved_by)
    if record.waits or record.state is ReplayState.SENT:
        return _report(_plan(ws, found.table, record), waits=record.waits)
    record = _with_target(ws, found, by=acting.by)
    with found.sink.sender(record, by=acting.by) as sender:
        done = _begun(ws, found.sink, record, sender, by=acting.by)
        records = OutgoingRecords(ws=ws, replay=record, table=found.table)
        try:
            sent = _sent(ws, record, records, sender, done, pace, acting)
        except ReplayFailed as error:
            with ws.ledger.write() as tx:
                tx.replays.failed(record.replay_id, error.why, by=acting.by)
            raise
        ends = sender.ends(sent)
        ws.reached(Point.REPLAY_ALL_SENT)
        with ws.ledger.write() as tx:
            tx.replays.sent(record.replay_id, sent, ends, left_out=records.left_out, by=acting.by)
            record = tx.replays.get(record.replay_id)
        ws.reached(Point.REPLAY_SENT)
    return _report(_plan(ws, found.table, record), sent_now=sent - done)


def close_replay(ws: Workspace, replay_id: str, *, by: str, reason: str) -> ReplayClosed:
    """Ends a replay: no process can go on with it, and the topic or stream that was created for it is deleted.

    Raises:
        UnknownName: No such replay.
        IllegalTransition: It is closed already.
        Refused: Its table declares another kind of sink by now.
        Retryable: The sink does not answer; the same request ends it.
    """
    with ws.ledger.read() as tx:
        record = tx.replays.get(replay_id)
    table = ws.domain.table(record.table)
    if (now := _declared(table).family) != record.family:
        found, expected = target_of(now).kind, target_of(record.family).kind
        raise Refused.coded(
            "other_sink_declared",
            "replay {replay_id} sends to {expected}, and the replay that {table} declares now is to {found}.",
            then="declare its replay to {expected} again until it is closed",
            replay_id=replay_id,
            table=record.table,
            expected=f"a {expected}",
            found=f"a {found}",
        )
    sink = _sink(ws, table, record.target)
    there = None if record.state is ReplayState.CLOSED else sink.found()
    is_ours = there is not None and (
        there.identity == record.identity if record.identity else not record.is_live and sink.mark == record.mark
    )
    if is_ours:
        with sink.sender(record, by=by):
            pass  # a process that still sends is refused from here on
        ws.reached(Point.REPLAY_FENCED)
        if not record.is_live:
            sink.delete()
            ws.reached(Point.REPLAY_DELETED)
    # One that was ours and is gone was deleted by a process that was stopped before the ledger knew, or by a person.
    deleted = not record.is_live and (is_ours or (there is None and record.identity is not None))
    with ws.ledger.write() as tx:
        tx.replays.close(replay_id, by=by, reason=reason, deleted=deleted)
        closed = ReplayClosed(record=tx.replays.get(replay_id), deleted=deleted)
    ws.reached(Point.REPLAY_CLOSED)
    return closed


def _resolved(ws: Workspace, asked: ReplayAsked, *, by: str, reason: str) -> _Resolved:
    """Resolves a request to a replay as the ledger would record it; returns the replay that has the target, if it is
    the same."""
    table = _table(ws, asked)
    sink, declared = _sink(ws, table, asked.into), _declared(table)
    place, there = sink.place, sink.found()
    subject = table.name if asked.subject == table.short_name else asked.subject
    named = table.days if isinstance(table, SourceTable) and subject == table.name else LocalDays()
    begins, ends = (None, None) if asked.days is None else named.instants(asked.days)
    with ws.ledger.read() as tx:
        held = tx.replays.open_in(place, asked.into)
    if held is not None:
        same = (held.subject, held.period_from, held.period_to, held.is_as_captured)
        if same != (subject, begins, ends, asked.as_captured):
            raise TargetTaken(target=asked.into, replay_id=held.replay_id)
        if held.is_live and asked.into not in declared.live:
            raise _live(sink, table, asked.into)
        return _Resolved(record=held, table=table, sink=sink)
    is_live = there is not None or asked.into in _captured(ws, declared)
    if is_live and (there is None or asked.into not in declared.live):
        raise _live(sink, table, asked.into)
    parts = _parts(ws, table, asked, None if begins is None or ends is None else (begins, ends))
    record = ReplayRecord(
        replay_id="",
        subject=subject,
        table=table.name,
        period_from=begins,
        period_to=ends,
        parts=parts,
        family=declared.family,
        stream=place,
        target=asked.into,
        # Greater than any time for which a topic would be declared to keep deletes.
        mark=str(2**52 + secrets.randbelow(2**52)),
        stream_partitions=there.partitions if there is not None else sink.partitions_of(parts),
        is_live=is_live,
        identity=None,
        contract="" if asked.as_captured else contract_sent(ws, table),
        state=ReplayState.ASKED,
        sent=None,
        left_out=None,
        failure=None,
        ends={},
        by=by,
        reason=reason,
        asked_at=ws.now(),
        policy=table.policy,
    )
    return _Resolved(record=record, table=table, sink=sink)


def _live(sink: Sink, table: SourceTable | DerivedTable, target: str) -> LiveTarget:
    return LiveTarget(family=_declared(table).family, name=sink.name, target=target, table=table.name)


def _table(ws: Workspace, asked: ReplayAsked) -> SourceTable | DerivedTable:
    """The table whose records are asked for.

    Raises:
        Refused: It declares no replay.
        UnknownName: There is no such run or table.
    """
    try:
        table = ws.domain.table(asked.subject)
    except NoSuchName:
        with ws.ledger.read() as tx:
            try:
                table = ws.domain.table(tx.runs.get(asked.subject).manifest.table)
            except NotInLedger:
                known = tuple(ws.domain.tables)
                raise NoSuchName(kind="run or table", name=asked.subject, known=known) from None
    _declared(table)
    return table


def _parts(
    ws: Workspace, table: SourceTable | DerivedTable, asked: ReplayAsked, period: tuple[datetime, datetime] | None
) -> Parts:
    """The parts that are sent, pinned.

    Raises:
        Refused: A run is not what readers see, or a key has several rows.
        MissingInput: There is nothing, or rows are gone.
    """
    of_table = asked.subject in (table.name, table.short_name)
    with ws.ledger.read() as tx:
        if asked.as_captured:
            if not of_table or not isinstance(table, SourceTable):
                raise Refused.coded(
                    "not_captured_records",
                    "{subject} is not a source, and only records of a source were captured.",
                    subject=asked.subject,
                )
            return parts_as_captured(tx, table, asked.days)
        parts = (
            parts_of_table(tx, table, asked.days) if of_table else parts_of_run(tx, table, asked.subject, asked.days)
        )
    found = counted(ws, table, parts, period)
    if not any(each.records or each.kind is PartKind.PARTITION for each in found):
        raise nothing(asked.subject, asked.days)
    return found


def _declared(table: SourceTable | DerivedTable) -> ReplayDeclaration:
    if table.replay is None:
        raise NotReplayable(table=table.name)
    return table.replay


def _sink(ws: Workspace, table: SourceTable | DerivedTable, target: str) -> Sink:
    declared = _declared(table)
    if not declared.can_be_named(target):
        raise Refused.coded(
            "bad_target_name",
            "{target} is not the name of a {kind}.",
            then="name one that is not there yet with [into=events.backfill]",
            target=repr(target),
            kind=target_of(declared.family).kind,
        )
    secret = secrets_named(declared.secrets, home=ws.settings.home)
    replays: Replays = family(declared.family).module("replay")
    return replays.open_sink(declared, target, secret=secret, ledger=ws.ledger, reached=ws.reached)


def _captured(ws: Workspace, declared: ReplayDeclaration) -> frozenset[str]:
    """The topics or streams that sources are captured from: a replay creates none of them, also if it is away."""
    captures = (each.capture for each in ws.domain.sources)
    return frozenset(each.target for each in captures if each is not None and each.family == declared.family)


def _with_target(ws: Workspace, found: _Resolved, *, by: str) -> ReplayRecord:
    """The replay with the identity of its topic or stream, which is created unless it is there.

    Raises:
        Refused: It is gone, or another one has its name.
        TakenOver: It was closed meanwhile.
    """
    record, sink = found.record, found.sink
    there = sink.found()
    is_new = there is None
    if record.identity is not None:
        if there is None or there.identity != record.identity:
            other = "" if there is None else there.identity
            raise TargetGone(name=sink.name, replay_id=record.replay_id, found=other)
        return record
    if there is None:
        there = sink.create(partitions=record.stream_partitions, mark=record.mark)
    elif not record.is_live and sink.mark != record.mark:
        raise _live(sink, found.table, record.target)
    ws.reached(Point.REPLAY_CREATED)
    try:
        with ws.ledger.write() as tx:
            tx.replays.identify(record.replay_id, there.identity, by=by)
            record = tx.replays.get(record.replay_id)
    except LostWork:
        if is_new:  # it was closed before there was anything to delete
            sink.delete()
        raise
    ws.reached(Point.REPLAY_IDENTIFIED)
    return record


def _begun(ws: Workspace, sink: Sink, record: ReplayRecord, sender: Sender, *, by: str) -> int:
    """The number of records that are in the target already.

    Raises:
        Refused: The cluster of a topic has forgotten that, so that no process can go on.
        TakenOver: It was closed before no other process could write.
    """
    with ws.ledger.read() as tx:
        state = tx.replays.get(record.replay_id).state  # as it is now that no other process can write
    if state is ReplayState.CLOSED:
        raise replay_taken_over(record.replay_id)
    done = sender.progress()
    if state is ReplayState.ASKED:
        if done is None:
            # From here on it is kept how far it is: when the cluster of a topic forgets it, that is noticed.
            sender.commit([], 0)
            done = 0
        ws.reached(Point.REPLAY_BEGUN)
        with ws.ledger.write() as tx:
            tx.replays.sending(record.replay_id, by=by)
        ws.reached(Point.REPLAY_SENDING)
    if done is None:
        raise Refused.coded(
            "progress_lost",
            "the cluster of {name} no longer knows the progress of replay {replay_id}.",
            then="end it, and replay again: [replay close {replay_id} by=NAME reason=WHY]",
            name=sink.name,
            replay_id=record.replay_id,
        )
    return done


def _sent(
    ws: Workspace,
    record: ReplayRecord,
    records: OutgoingRecords,
    sender: Sender,
    done: int,
    pace: Pace,
    acting: Acting,
) -> int:
    """Sends what is not in the target yet, and returns how many records are."""
    total = record.records
    number = done
    for batch in _batches(records, done, pace):
        number += len(batch)
        sender.commit(batch, number)
        ws.reached(Point.REPLAY_BATCH_SENT)
        acting.listener(
            Progress(
                step="replay", done=number, total=max(total, number), line=f"{number:,} records", table=record.table
            )
        )
        # Between transactions: one that waited would be ended by the cluster.
        pace.took(len(batch), sum(each.size_bytes for each in batch))
    return number


def _batches(records: OutgoingRecords, done: int, pace: Pace) -> Iterator[list[Outgoing]]:
    """The records behind those that are in the target, as many at once as the pace allows."""
    batch: list[Outgoing] = []
    size = 0
    for number, each in enumerate(records, 1):
        if number <= done:
            continue
        batch.append(each)
        size += each.size_bytes
        if len(batch) >= pace.most_at_once or size >= pace.bytes_at_once:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _plan(ws: Workspace, table: SourceTable | DerivedTable, record: ReplayRecord) -> ReplayPlan:
    """Plans what is sent, and of which keys newer records were rejected: consumers get their last accepted versions."""
    if record.is_as_captured or not isinstance(table, SourceTable):
        return ReplayPlan(record=record)
    days = {date.fromisoformat(each.name) for each in record.parts if each.kind is PartKind.PARTITION}
    with ws.ledger.read() as tx:
        unknown = not_known(tx, table, days)
    return ReplayPlan(record=record, not_known=not_known_document(unknown) if unknown else None)


def _report(plan: ReplayPlan, *, waits: bool = False, sent_now: int = 0) -> ReplayReport:
    record = plan.record
    return ReplayReport(
        replay_id=record.replay_id,
        waits=waits,
        plan=plan,
        state=record.state,
        identity=record.identity,
        sent=record.sent or 0,
        sent_now=sent_now,
        left_out=record.left_out or 0,
        ends=record.ends,
    )

"""Out again, on purpose only: records go to a topic of their own, once, and it is deleted when it is closed.

The ledger has what is sent where, who asked for it and who agreed; the cluster of the topic has how far it is, in the
transactions that have the records. A process that was stopped goes on with the same command.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time

from backfill_assets.application.recorder import Acting
from backfill_assets.capture.kafka_topic import KafkaReplay, KafkaTopic
from backfill_assets.capture.secrets_by_name import secrets_named
from backfill_assets.capture.streams import Pace
from backfill_assets.core.progress import Progress
from backfill_assets.deliver.errors import LiveTopic, NotReplayable, ProgressLost, TopicGone
from backfill_assets.deliver.inputs import parts_of_run, parts_of_source, parts_of_table
from backfill_assets.deliver.kafka_out import Outgoing, ReplayTopic, Sender
from backfill_assets.deliver.outgoing import OutgoingRecords
from backfill_assets.domain import DerivedTable, SourceTable
from backfill_assets.ledger.errors import NotInLedger, TargetTaken
from backfill_assets.ledger.records import PartKind, ReplayPart, ReplayRecord
from backfill_assets.ledger.states import ReplayState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.errors import NoSuchName
from backfill_assets.planning.partitions import DayRange
from backfill_assets.publication.moves_approval import require_may_approve
from backfill_assets.report.replayed import (
    ReplayClosed,
    ReplayPlan,
    ReplayReport,
    replay_closed,
    replay_plan,
)
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayAsked:
    """What a person asks to be sent.

    Attributes:
        subject: A run, a source or a derived table.
        into: The topic.
        days: Only records of these days; None for all.
    """

    subject: str
    into: str
    days: DayRange | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Resolved:
    """A replay, in the ledger or not yet, with its open topic."""

    record: ReplayRecord
    table: SourceTable | DerivedTable
    topic: ReplayTopic


def plan_replay(ws: Workspace, asked: ReplayAsked) -> ReplayPlan:
    """What a replay would send; nothing is written.

    Raises:
        Refused: The table declares no replay, there is nothing, or the topic is one that may not be written to.
        Retryable: The cluster does not answer.
    """
    return replay_plan(_resolved(ws, asked, by="", reason="").record)


def replay(
    ws: Workspace,
    asked: ReplayAsked,
    acting: Acting,
    *,
    reason: str,
    pace: Pace,
    planned: Callable[[ReplayPlan], None],
) -> ReplayReport:
    """Sends records to a topic, or goes on with that.

    Args:
        ws: The workspace.
        asked: What, and where to.
        acting: Who replays.
        reason: Why.
        pace: How fast may be sent.
        planned: Called with the plan before anything is written.

    Raises:
        Refused: As `plan_replay`; or the topic is gone.
        NotApproved: The approver is no longer allowed to approve it.
        TakenOver: Another process went on with it, or closed it.
        Retryable: The cluster went away: what was sent stays, and the same request goes on behind it.
    """
    found = _resolved(ws, asked, by=acting.by, reason=reason)
    planned(replay_plan(found.record))
    if not found.record.replay_id:
        with ws.ledger.write() as tx:
            found = replace(found, record=tx.replays.begin(found.record))
    record = found.record
    if record.approved_by is not None:
        require_may_approve(ws, record, record.approved_by)
    if record.waits or record.state is ReplayState.SENT:
        return _report(record, waits=record.waits)
    record = _with_topic(ws, found, by=acting.by)
    with found.topic.sender(_name_of(record), of=record.replay_id) as sender:
        done = _begun(ws, record, sender, by=acting.by)
        records = OutgoingRecords(ws=ws, replay=record, table=found.table)
        sent = _sent(record, records, sender, done, pace, acting)
        ends = sender.ends(range(record.stream_partitions), sent)
        with ws.ledger.write() as tx:
            tx.replays.sent(record.replay_id, sent, ends, by=acting.by)
            record = tx.replays.get(record.replay_id)
    return _report(record, sent_now=sent - done, left_out=records.left_out)


def close_replay(ws: Workspace, replay_id: str, *, by: str, reason: str) -> ReplayClosed:
    """Ends a replay: no process can go on with it, and the topic that was created for it is deleted.

    Raises:
        UnknownName: No such replay.
        IllegalTransition: It is closed already.
        Retryable: The cluster does not answer; the same request ends it.
    """
    with ws.ledger.read() as tx:
        record = tx.replays.get(replay_id)
    topic = _topic(ws, ws.domain.table(record.table), record.target)
    there = None if record.state is ReplayState.CLOSED else topic.found()
    is_ours = there is not None and (
        there.topic_id == record.identity if record.identity else not record.is_live and topic.mark == record.mark
    )
    if is_ours:
        with topic.sender(_name_of(record), of=replay_id):
            pass  # whoever still sends is refused from here on
        if not record.is_live:
            topic.delete()
    deleted = is_ours and not record.is_live
    with ws.ledger.write() as tx:
        tx.replays.close(replay_id, by=by, reason=reason, deleted=deleted)
        return replay_closed(tx.replays.get(replay_id), deleted=deleted)


def _resolved(ws: Workspace, asked: ReplayAsked, *, by: str, reason: str) -> _Resolved:
    """What is asked for, as it would be in the ledger; the replay that has the topic, if it is the same."""
    table, parts = _parts(ws, asked)
    topic, declared = _topic(ws, table, asked.into), _declared(table)
    cluster, there = topic.cluster, topic.found()
    begins = None if asked.days is None else datetime.combine(asked.days.start, time(), tzinfo=UTC)
    ends = None if asked.days is None else datetime.combine(asked.days.end, time(), tzinfo=UTC)
    subject = table.name if asked.subject == table.short_name else asked.subject
    with ws.ledger.read() as tx:
        held = tx.replays.open_in(cluster, asked.into)
    if held is not None:
        if (held.subject, held.period_from, held.period_to) != (subject, begins, ends):
            raise TargetTaken(target=asked.into, replay_id=held.replay_id)
        if held.is_live and asked.into not in declared.live_topics:
            raise LiveTopic(topic=asked.into, table=table.name)
        return _Resolved(record=held, table=table, topic=topic)
    is_live = there is not None or asked.into in _captured_topics(ws)
    if is_live and (there is None or asked.into not in declared.live_topics):
        raise LiveTopic(topic=asked.into, table=table.name)
    record = ReplayRecord(
        replay_id="",
        subject=subject,
        table=table.name,
        period_from=begins,
        period_to=ends,
        parts=parts,
        stream=cluster,
        target=asked.into,
        # Greater than any time for which a topic would be declared to keep deletes.
        mark=str(2**52 + secrets.randbelow(2**52)),
        stream_partitions=len(there.partitions) if there is not None else _partitions(parts, declared),
        is_live=is_live,
        identity=None,
        state=ReplayState.ASKED,
        sent=None,
        ends={},
        by=by,
        reason=reason,
        asked_at=ws.clock(),
        policy=table.policy,
    )
    return _Resolved(record=record, table=table, topic=topic)


def _parts(ws: Workspace, asked: ReplayAsked) -> tuple[SourceTable | DerivedTable, tuple[ReplayPart, ...]]:
    with ws.ledger.read() as tx:
        try:
            table = ws.domain.table(asked.subject)
        except NoSuchName:
            return _of_run(ws, tx, asked)
        _declared(table)
        if isinstance(table, SourceTable):
            return table, parts_of_source(tx, table, asked.days)
        return table, parts_of_table(tx, table, asked.days)


def _of_run(
    ws: Workspace, tx: ReadTransaction, asked: ReplayAsked
) -> tuple[SourceTable | DerivedTable, tuple[ReplayPart, ...]]:
    try:
        name = tx.runs.get(asked.subject).manifest.table
    except NotInLedger:
        raise NoSuchName(kind="run or table", name=asked.subject, known=tuple(ws.domain.tables)) from None
    table = ws.domain.table(name)
    _declared(table)
    return table, parts_of_run(tx, asked.subject, asked.days)


def _declared(table: SourceTable | DerivedTable) -> KafkaReplay:
    if table.replay is None:
        raise NotReplayable(table=table.name)
    return table.replay


def _topic(ws: Workspace, table: SourceTable | DerivedTable, name: str) -> ReplayTopic:
    declared = _declared(table)
    return ReplayTopic(declared, name, secret=secrets_named(declared.secrets, home=ws.settings.home))


def _captured_topics(ws: Workspace) -> frozenset[str]:
    """The topics that sources are captured from: none of them is created for a replay, also if it is away."""
    return frozenset(each.capture.topic for each in ws.domain.sources if isinstance(each.capture, KafkaTopic))


def _partitions(parts: tuple[ReplayPart, ...], declared: KafkaReplay) -> int:
    """As many as the topic had from which records were captured, as far as these tell."""
    captured = [int(each.stream_partition) for each in parts if each.kind is PartKind.CAPTURED]
    return max([declared.partitions, *(each + 1 for each in captured)])


def _name_of(record: ReplayRecord) -> str:
    """What transactions and progress are called: other homes have other marks."""
    return f"backfill-{record.replay_id}-{record.mark}"


def _with_topic(ws: Workspace, found: _Resolved, *, by: str) -> ReplayRecord:
    """The replay with the identity of its topic, which is created unless it is there.

    Raises:
        Refused: It is gone, or another one has its name.
    """
    record, topic = found.record, found.topic
    there = topic.found()
    if record.identity is not None:
        if there is None or there.topic_id != record.identity:
            other = "" if there is None else there.topic_id
            raise TopicGone(topic=record.target, replay_id=record.replay_id, found=other)
        return record
    if there is None:
        there = topic.create(partitions=record.stream_partitions, mark=record.mark)
    elif not record.is_live and topic.mark != record.mark:
        raise LiveTopic(topic=record.target, table=record.table)
    with ws.ledger.write() as tx:
        tx.replays.identify(record.replay_id, there.topic_id, by=by)
        return tx.replays.get(record.replay_id)


def _begun(ws: Workspace, record: ReplayRecord, sender: Sender, *, by: str) -> int:
    """How many records are in the topic already.

    Raises:
        Refused: The cluster has forgotten that, so that no process can go on.
    """
    with ws.ledger.read() as tx:
        state = tx.replays.get(record.replay_id).state  # as it is now that no other process can write
    done = sender.progress()
    if state is ReplayState.ASKED:
        if done is None:
            # From here on the cluster knows how far it is: when it does not any more, that is noticed.
            sender.commit([], 0)
            done = 0
        with ws.ledger.write() as tx:
            tx.replays.sending(record.replay_id, by=by)
    if done is None:
        raise ProgressLost(topic=record.target, replay_id=record.replay_id)
    return done


def _sent(record: ReplayRecord, records: OutgoingRecords, sender: Sender, done: int, pace: Pace, acting: Acting) -> int:
    """Sends what is not in the topic yet, and returns how many records are."""
    total = sum(each.records for each in record.parts)
    number = done
    for batch in _batches(records, done, pace):
        number += len(batch)
        sender.commit(batch, number)
        acting.listener(
            Progress(
                step="replay", done=number, total=max(total, number), line=f"{number:,} records", table=record.table
            )
        )
        # Between transactions: one that waited would be ended by the cluster.
        pace.took(len(batch), sum(each.size_bytes for each in batch))
    return number


def _batches(records: OutgoingRecords, done: int, pace: Pace) -> Iterator[list[Outgoing]]:
    """The records behind those that are in the topic, as many at once as the pace allows."""
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


def _report(record: ReplayRecord, *, waits: bool = False, sent_now: int = 0, left_out: int = 0) -> ReplayReport:
    return ReplayReport(
        replay_id=record.replay_id,
        waits=waits,
        plan=replay_plan(record),
        state=record.state,
        identity=record.identity,
        sent=record.sent or 0,
        sent_now=sent_now,
        left_out=left_out,
        ends=record.ends,
    )

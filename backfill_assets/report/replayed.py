"""Documents of replays: what would be sent where, what was sent, and what was ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from backfill_assets.capture.landed_files import Family
from backfill_assets.ledger.records import ReplayRecord
from backfill_assets.ledger.states import ReplayState
from backfill_assets.ledger.transactions import ReadTransaction


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPlan:
    """What a replay sends where.

    Attributes:
        subject: What was asked for: a run, or a table.
        table: The table.
        from_: Only records from then on; null for all.
        to: Only records before; null for all.
        family: What it is sent to: `kafka` for a topic, `kinesis` for a stream.
        delivery: Whether consumers see a record `exactly once`, as long as they read what is committed, or `at least
            once`, so that they have to drop what they have seen.
        target: The topic or the stream.
        stream: The id of the cluster of the topic; of a stream, where it is.
        is_live: Whether the topic was there before, so that another person has to approve it.
        partitions: How many partitions the topic, or shards the stream, has.
        inputs: How many files, or partitions of the table, are read.
        records: How many records they have.
        size_bytes: How large their files are.
        replay_id: The replay that it goes on with; null for a new one.
    """

    subject: str
    table: str
    from_: datetime | None
    to: datetime | None
    family: str
    delivery: str
    target: str
    stream: str
    is_live: bool
    partitions: int
    inputs: int
    records: int
    size_bytes: int
    replay_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayReport:
    """What was sent to a topic or a stream again.

    Attributes:
        replay_id: The replay, such as `rep-000001`.
        waits: Whether nothing was sent, because another person has to approve it first.
        plan: What there was to send.
        state: How far it is.
        identity: The id of the topic or the stream; null while it waits.
        sent: How many records are in it.
        sent_now: How many of them this command sent.
        left_out: How many records of landed files were left out, because they have no key or no time.
        ends: The position behind the last record, by partition or shard.
    """

    replay_id: str
    waits: bool
    plan: ReplayPlan
    state: ReplayState
    identity: str | None
    sent: int
    sent_now: int
    left_out: int
    ends: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayDocument:
    """A replay that was asked for.

    Attributes:
        replay_id: The replay.
        waits: Whether nothing is sent before another person has approved it.
        subject: What is sent.
        target: The topic or the stream.
        records: How many records.
        by: Who asked for it.
        reason: Why.
        approved_by: Who approved it.
        approved_at: When.
    """

    replay_id: str
    waits: bool
    subject: str
    target: str
    records: int
    by: str
    reason: str
    approved_by: str | None
    approved_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayClosed:
    """A replay that was ended.

    Attributes:
        replay_id: The replay.
        subject: What was sent.
        family: What it was sent to: `kafka` for a topic, `kinesis` for a stream.
        target: The topic or the stream.
        sent: How many records; null when not all were sent.
        deleted: Whether the topic or stream that was created for it is deleted: one that was there before stays.
        closed_by: Who ended it.
        closed_at: When.
    """

    replay_id: str
    subject: str
    family: str
    target: str
    sent: int | None
    deleted: bool
    closed_by: str | None
    closed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenReplay:
    """A replay that is not closed: its topic or stream stays until it is.

    Attributes:
        replay_id: The replay.
        subject: What is sent.
        target: The topic or the stream.
        state: How far it is.
        waits: Whether another person has to approve it first.
        by: Who asked for it.
        asked_at: When.
    """

    replay_id: str
    subject: str
    target: str
    state: ReplayState
    waits: bool
    by: str
    asked_at: datetime


_KINDS: Mapping[str, str] = {Family.KAFKA: "topic", Family.KINESIS: "stream"}
_DELIVERIES: Mapping[str, str] = {Family.KAFKA: "exactly once", Family.KINESIS: "at least once"}


def kind_of(family: str) -> str:
    """What the target of a replay is called."""
    return _KINDS[family]


def open_replays(tx: ReadTransaction) -> tuple[OpenReplay, ...]:
    """The replays that are not closed, in their order."""
    return tuple(
        OpenReplay(
            replay_id=each.replay_id,
            subject=each.subject,
            target=each.target,
            state=each.state,
            waits=each.waits,
            by=each.by,
            asked_at=each.asked_at,
        )
        for each in tx.replays.records(is_open=True)
    )


def replay_plan(record: ReplayRecord) -> ReplayPlan:
    """The plan of a replay; one that is not in the ledger has no id."""
    return ReplayPlan(
        subject=record.subject,
        table=record.table,
        from_=record.period_from,
        to=record.period_to,
        family=record.family,
        delivery=_DELIVERIES[record.family],
        target=record.target,
        stream=record.stream,
        is_live=record.is_live,
        partitions=record.stream_partitions,
        inputs=len(record.parts),
        records=sum(each.records for each in record.parts),
        size_bytes=sum(each.size_bytes for each in record.parts),
        replay_id=record.replay_id or None,
    )


def replay_document(record: ReplayRecord) -> ReplayDocument:
    """What was asked for."""
    return ReplayDocument(
        replay_id=record.replay_id,
        waits=record.waits,
        subject=record.subject,
        target=record.target,
        records=sum(each.records for each in record.parts),
        by=record.by,
        reason=record.reason,
        approved_by=record.approved_by,
        approved_at=record.approved_at,
    )


def replay_closed(record: ReplayRecord, *, deleted: bool) -> ReplayClosed:
    """What was ended."""
    return ReplayClosed(
        replay_id=record.replay_id,
        subject=record.subject,
        family=record.family,
        target=record.target,
        sent=record.sent,
        deleted=deleted,
        closed_by=record.closed_by,
        closed_at=record.closed_at,
    )

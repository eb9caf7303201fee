"""Documents of replays: what would be sent where, what was sent, and what was ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from backfill_assets.capture.landed_files import Family
from backfill_assets.ledger.records import ReplayRecord
from backfill_assets.ledger.states import ReplayState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.report.not_known import NotKnownDocument

_KINDS: Mapping[str, str] = {Family.KAFKA: "topic", Family.KINESIS: "stream"}
_DELIVERIES: Mapping[str, str] = {Family.KAFKA: "exactly once", Family.KINESIS: "at least once"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPlan:
    """The plan of a replay: what it sends where."""

    record: ReplayRecord  #: The replay as it is in the ledger, or would be.
    #: The keys that are not known of the days whose rows are sent; null where all are, and for captured records.
    not_known: NotKnownDocument | None = None

    @property
    def replay_id(self) -> str | None:
        """The replay that it goes on with; null for a new one."""
        return self.record.replay_id or None

    @property
    def delivery(self) -> str:
        """The delivery to consumers: `exactly once`, as long as they read what is committed, or `at least once`."""
        return _DELIVERIES[self.record.family]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayReport:
    """The records that were sent to a topic or a stream again."""

    replay_id: str  #: The replay, such as `rep-000001`.
    waits: bool  #: Whether nothing was sent, because another person has to approve it first.
    plan: ReplayPlan  #: What there was to send.
    state: ReplayState  #: How far it is.
    identity: str | None  #: The id of the topic or the stream; null while it waits.
    sent: int  #: How many records are in it.
    sent_now: int  #: How many of them this command sent.
    #: How many captured records were left out, because they are of other times, were captured twice, or are of one
    #: value with another record.
    left_out: int
    ends: Mapping[str, str]  #: The position behind the last record, by partition or shard.


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayClosed:
    """A replay that was ended."""

    record: ReplayRecord  #: The replay.
    deleted: bool  #: Whether the topic or stream that was created for it is deleted: one that was there before stays.


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenReplay:
    """A replay that is not closed: its topic or stream stays until it is."""

    record: ReplayRecord  #: The replay.


def kind_of(family: str) -> str:
    """The noun for a replay's target."""
    return _KINDS[family]


def open_replays(tx: ReadTransaction) -> tuple[OpenReplay, ...]:
    """The replays that are not closed, in their order."""
    return tuple(OpenReplay(record=each) for each in tx.replays.records(is_open=True))

"""Sinks: where a replay sends records, and who may send them. Each kind is a module: `kafka_out`, `kinesis_out`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

from backfill_assets.ledger.records import ReplayPart, ReplayRecord

Headers = list[tuple[str, str | bytes | None]]

_MILLISECOND = timedelta(milliseconds=1)


def milliseconds(at: datetime) -> int:
    """A time as records have it, since 1970."""
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // _MILLISECOND


class Outgoing(NamedTuple):
    """A record as it is sent."""

    key: bytes | None
    value: bytes | None  #: Its value; None deletes the key.
    headers: Headers
    at: int  #: Its time, in milliseconds.
    partition: int = -1  #: The partition of a topic; -1 for the one of its key.

    @property
    def size_bytes(self) -> int:
        return len(self.key or b"") + len(self.value or b"")


class Target(NamedTuple):
    """A topic or a stream that is there."""

    identity: str  #: Tells it from any other, also from one that had its name before.
    partitions: int  #: How many partitions or shards it has.


class Sender(Protocol):
    """The process that may write to a target."""

    def progress(self) -> int | None:
        """The number of records that are durably in the target; None when it was never written, or is forgotten."""

    def commit(self, batch: Sequence[Outgoing], done: int) -> None:
        """Writes records, and how many of the replay are in the target then.

        Args:
            batch: The records, in order.
            done: How many records of the replay are in the target then.

        Raises:
            TakenOver: Another process has gone on with the replay, or closed it.
            Refused: A record is too large.
            Retryable: The target does not answer; what of the batch counts, the process that goes on is told.
        """

    def ends(self, done: int) -> Mapping[str, str]:
        """The position behind the last record, by partition or shard, when every consumer can see it.

        Args:
            done: How many records of the replay are in the target.
        """


class Sink(Protocol):
    """The target of a replay, there or not."""

    @property
    def name(self) -> str:
        """The name of the target in messages, such as `the topic events.backfill`."""

    @property
    def place(self) -> str:
        """Where it is: the id of a cluster, or a region."""

    def found(self) -> Target | None:
        """The target of this name; None when there is none."""

    @property
    def mark(self) -> str:
        """The replay for which the target was created, if it was created for one."""

    def partitions_of(self, parts: Sequence[ReplayPart]) -> int:
        """The number of partitions or shards of a new target for these inputs."""

    def create(self, *, partitions: int, mark: str) -> Target:
        """Creates the target.

        Args:
            partitions: How many partitions or shards it has.
            mark: What it carries, so that it is known for which replay it was created.
        """

    def delete(self) -> None:
        """Deletes the target, with everything in it."""

    def sender(self, replay: ReplayRecord, *, by: str) -> AbstractContextManager[Sender]:
        """The sole writer to the target while the block lasts; no earlier process can write from here on.

        Raises:
            Retryable: The target does not answer.
        """

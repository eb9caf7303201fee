"""Sinks: the targets of replays and their exclusive senders. Each family of sources has its own in `replay`."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, Protocol

from backfill_assets.core.crash_points import Reached
from backfill_assets.ledger.records import ReplayPart, ReplayRecord
from backfill_assets.ledger.store import Ledger

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


class CapturedFiles(Protocol):
    """The captured files of a replay that sends records as they were captured."""

    @property
    def is_live(self) -> bool:
        """True if the target was there before, so that its partitions may be others."""

    def headers(self, part: ReplayPart) -> Headers:
        """The headers that the records of a file have besides their own."""

    def lines(self, part: ReplayPart) -> Iterator[str]:
        """The lines of a file.

        Raises:
            Refused: It is not what landed.
        """


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
        """The place of the target: the id of a cluster, or a region."""

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


class Replays(Protocol):
    """The module `replay` of a family."""

    def open_sink(
        self, declared: Any, target: str, *, secret: Mapping[str, str], ledger: Ledger, reached: Reached
    ) -> Sink:
        """The target of a replay.

        Args:
            declared: The declaration of this family.
            target: Its name.
            secret: The values of the declared secrets.
            ledger: Where it is kept how far a replay is whose target cannot say it.
            reached: Called at the places at which a process can be stopped.
        """

    def captured_records(self, parts: Sequence[ReplayPart], files: CapturedFiles) -> Iterator[Outgoing | None]:
        """The records of captured files of this family; None for one that was captured twice, or is of one value with
        the one before it."""


# Captured records: keys, headers, times and tombstones are those of the stream, and values are as they were written.

_scan = json.JSONDecoder().raw_decode


def as_captured(line: str, prefix: str, *, tombstone: str = "") -> tuple[Mapping[str, Any], bytes | None]:
    """The metadata of a captured record, which are the members with a prefix, and its value as it was written; None for
    a record whose member `tombstone` says that it has no value."""
    said: dict[str, Any] = {}
    at = 1
    # What it said comes first, and no value with such members is kept as members.
    while line.startswith(f'"{prefix}', at):
        name, end = _scan(line, at)
        said[name], end = _scan(line, end + len(": "))
        at = end + len(", ") if line.startswith(", ", end) else end
    if tombstone in said:
        return said, None
    if f"{prefix}value" in said:
        return said, base64.b64decode(said[f"{prefix}value"])
    return said, f"{{{line[at:]}".encode()


def position_header(part: ReplayPart, partition: str, position: object) -> tuple[str, bytes]:
    """The header that says where a record was."""
    return "x-source", f"{part.stream}/{partition}@{position}".encode()

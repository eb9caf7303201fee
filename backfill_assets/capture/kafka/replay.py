"""Kafka replay: a topic that is written to in transactions, each with the number of records that are in the topic then.

What was sent and how far it is are one fact of the cluster: whatever dies when, consumers of committed records see
every record once, and who goes on begins behind the last one. Going on also ends the transactions of a process that was
only slow: the cluster refuses everything more of it.
"""

from __future__ import annotations

import base64
import heapq
import json
import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from backfill_assets.capture.errors import NoStream
from backfill_assets.capture.kafka.client import KafkaClient, plain
from backfill_assets.capture.kafka.declaration import FIXED, KafkaReplay
from backfill_assets.capture.kafka.stream import TOMBSTONE, number_of
from backfill_assets.core.crash_points import Reached
from backfill_assets.core.errors import BackfillError, Refused
from backfill_assets.core.progress import waiting
from backfill_assets.deliver.sinks import (
    CapturedFiles,
    Headers,
    Outgoing,
    Target,
    as_captured,
    milliseconds,
    position_header,
)
from backfill_assets.ledger.records import PartKind, ReplayPart, ReplayRecord
from backfill_assets.ledger.replays import replay_taken_over
from backfill_assets.ledger.store import Ledger

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Producer

MARK = "delete.retention.ms"
"""The setting of a topic that says for which replay it was created: it has no effect where nothing is compacted."""
_FOR_EVER = str(2**63 - 1)
_FENCED = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"})
_TELLS_WITHIN_S = 5.0
_SILENT = logging.Logger("librdkafka", level=logging.CRITICAL + 1)
_TOO_LARGE = frozenset({"MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"})


class ReplayTopic:
    """The topic of a replay, there or not.

    Args:
        declared: How its cluster is reached.
        secret: The secret settings of the client.
    """

    def __init__(self, declared: KafkaReplay, topic: str, *, secret: Mapping[str, str]) -> None:
        self._client = KafkaClient(declared, topic, secret=secret, what="a replay to Kafka")
        self._partitions = declared.partitions

    @property
    def name(self) -> str:
        return self._client.name

    @property
    def place(self) -> str:
        return self._client.cluster_id()

    def found(self) -> Target | None:
        try:
            there = self._client.identity()
        except NoStream:
            return None
        return Target(there.topic_id, len(there.partitions))

    @property
    def mark(self) -> str:
        return self._client.configuration()[MARK]

    def partitions_of(self, parts: Sequence[ReplayPart]) -> int:
        """The number of partitions of the topic from which records were captured, as far as these tell."""
        captured = [number_of(each.stream_partition) for each in parts if each.kind is PartKind.CAPTURED]
        return max([self._partitions, *(each + 1 for each in captured)])

    def create(self, *, partitions: int, mark: str) -> Target:
        """Creates the topic, from which time removes nothing, also nothing with a time long ago."""
        from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # documented

        config = {
            "retention.ms": "-1",
            "retention.bytes": "-1",
            "cleanup.policy": "delete",
            "message.timestamp.type": "CreateTime",
            "message.timestamp.before.max.ms": _FOR_EVER,
            "message.timestamp.after.max.ms": _FOR_EVER,
            MARK: mark,
        }
        wanted = NewTopic(self._client.topic, num_partitions=partitions, replication_factor=-1, config=config)
        (answered,) = self._client.admin.create_topics([wanted], request_timeout=self._client.seconds).values()
        self._client.answer(answered)
        until = time.monotonic() + self._client.seconds
        with waiting(lambda: f"waiting until Kafka has made {self._client.topic}"):
            while True:
                found = self.found()
                if found is not None and found.partitions == partitions:
                    return found
                if time.monotonic() > until:
                    raise self._client.away()
                time.sleep(0.05)

    def delete(self) -> None:
        (answered,) = self._client.admin.delete_topics(
            [self._client.topic], request_timeout=self._client.seconds
        ).values()
        with suppress(NoStream):
            self._client.answer(answered)

    @contextmanager
    def sender(self, replay: ReplayRecord, *, by: str) -> Iterator[TopicSender]:  # noqa: ARG002 - as of any sink
        # What transactions and progress are called: other homes have other marks.
        opened = TopicSender(self._client, f"backfill-{replay.replay_id}-{replay.mark}", replay)
        try:
            yield opened
        finally:
            opened.close()


class TopicSender:
    """Writes records in transactions.

    Args:
        client: The cluster.
        name: What the transactions, and the group that keeps their progress, are called.
    """

    def __init__(self, client: KafkaClient, name: str, replay: ReplayRecord) -> None:
        self._client, self._replay = client, replay
        self._undelivered: list[KafkaError] = []
        kafka = client.kafka
        self._group: Consumer = kafka.Consumer({**client.usual, **FIXED, "group.id": name})
        usual: dict[str, Any] = {"compression.type": "zstd", "linger.ms": 10, **client.usual}
        fixed: dict[str, Any] = {
            "transactional.id": name,
            # As producers of Java do by default: a key is in the partition in which they would write it.
            "partitioner": "murmur2_random",
            "delivery.report.only.error": True,
            # A fatal error is written to standard error whatever the level is.
            "logger": _SILENT,
            "on_delivery": lambda error, _: self._undelivered.append(error),
        }
        self._producer: Producer = kafka.Producer({**usual, **fixed})
        try:
            with self._asking():
                self._producer.init_transactions(client.seconds)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends the connections."""
        with suppress(Exception):
            self._producer.purge()
        self._group.close()

    def progress(self) -> int | None:
        with self._asking():
            (found,) = self._group.committed([self._client.at(0)], timeout=self._client.seconds)
        if found.error is not None:
            raise self._failure(found.error)
        return None if found.offset < 0 else int(found.offset)

    def commit(self, batch: Sequence[Outgoing], done: int) -> None:
        """Writes records and their progress in one transaction."""
        try:
            with self._asking():
                self._producer.begin_transaction()
                for each in batch:
                    self._produce(each)
                self._producer.send_offsets_to_transaction(
                    [self._client.at(0, done)], self._group.consumer_group_metadata(), self._client.seconds
                )
                self._producer.commit_transaction(self._client.seconds)
        except BackfillError:
            with suppress(Exception):
                # Otherwise consumers of committed records wait here until the transaction times out.
                self._producer.abort_transaction(min(5.0, self._client.seconds))
            raise

    def ends(self, done: int) -> Mapping[str, str]:
        # A transaction counts before its partitions say so; the next one waits until they do.
        self.commit([], done)
        found: dict[str, str] = {}
        for each in range(self._replay.stream_partitions):
            with self._asking():
                _, end = self._group.get_watermark_offsets(self._client.at(each), timeout=self._client.seconds)
            found[str(each)] = str(end)
        return found

    def _produce(self, record: Outgoing) -> None:
        while True:
            try:
                self._producer.produce(
                    self._client.topic,
                    value=record.value,
                    key=record.key,
                    headers=record.headers,
                    timestamp=max(1, record.at),  # Kafka has no time before 1970, and the client takes 0 for now
                    partition=record.partition,
                )
                return
            except BufferError:
                self._producer.poll(0.1)
                self._client.require_allowed()

    def _asking(self) -> Any:
        return self._client.asking(self._failure)

    def _fatal(self, error: KafkaError) -> Iterator[KafkaError]:
        """The fatal error of the client, which it reports when it is polled."""
        from confluent_kafka import KafkaException

        until = time.monotonic() + _TELLS_WITHIN_S
        while error.name() == "_FATAL" and time.monotonic() < until:
            try:
                self._producer.poll(0.1)
            except KafkaException as fatal:
                yield fatal.args[0]
                return

    def _failure(self, error: KafkaError) -> Exception:
        causes = [error, *self._undelivered, *self._fatal(error)]
        if any(each.name() in _FENCED for each in causes):
            return replay_taken_over(self._replay.replay_id)
        large = next((each for each in causes if each.name() in _TOO_LARGE), None)
        if large is not None:
            return Refused.coded(
                "too_large",
                "a record is larger than {name} takes: {why}.",
                then="raise message.max.bytes in the settings of the replay, and max.message.bytes of the topic",
                name=self._client.name,
                why=plain(large.str()),
            )
        return self._client.failure(self._undelivered[0] if self._undelivered else error)


def open_sink(
    declared: KafkaReplay,
    target: str,
    *,
    secret: Mapping[str, str],
    ledger: Ledger,  # noqa: ARG001 - as of any family
    reached: Reached,  # noqa: ARG001 - as of any family
) -> ReplayTopic:
    """The topic of a replay: its cluster itself knows how far the sending is."""
    return ReplayTopic(declared, target, secret=secret)


# Captured records: files of one partition are merged by offset, because a capture of earlier offsets may come later.


def captured_records(parts: Sequence[ReplayPart], files: CapturedFiles) -> Iterator[Outgoing | None]:
    """The records of captured files, with keys, headers, times, tombstones and partitions of their topic; None for one
    that was captured twice."""
    for _, of_partition in groupby(parts, key=_partition_of):
        yield from _of_partition(of_partition, files)


def _partition_of(part: ReplayPart) -> tuple[str, int]:
    return part.name.rpartition("/")[0], number_of(part.stream_partition)


def _of_partition(parts: Iterable[ReplayPart], files: CapturedFiles) -> Iterator[Outgoing | None]:
    captures: dict[str, list[ReplayPart]] = {}
    for part in parts:
        captures.setdefault(part.stream_partition, []).append(part)
    before = -1
    found = heapq.merge(*(_offsets(each, files) for each in captures.values()), key=itemgetter(0))
    for offset, part, said, value in found:
        if offset == before:
            yield None
            continue
        before = offset
        partition = number_of(part.stream_partition)
        own = [*files.headers(part), position_header(part, str(partition), offset)]
        names = {name for name, _ in own}
        at = said.get("kafka_timestamp")
        yield Outgoing(
            key=_bytes_said(said, "kafka_key"),
            value=value,
            headers=[*((name, each) for name, each in _headers_said(said) if name not in names), *own],
            at=0 if at is None else milliseconds(datetime.fromisoformat(at)),
            partition=-1 if files.is_live else partition,
        )


def _offsets(
    parts: Iterable[ReplayPart], files: CapturedFiles
) -> Iterator[tuple[int, ReplayPart, Mapping[str, Any], bytes | None]]:
    """The records of files that follow each other, with their offsets."""
    for part in parts:
        for line in files.lines(part):
            said, value = as_captured(line, "kafka_", tombstone=TOMBSTONE)
            yield said["kafka_offset"], part, said, value


def _bytes_said(said: Mapping[str, Any], name: str) -> bytes | None:
    if f"{name}_base64" in said:
        return base64.b64decode(said[f"{name}_base64"])
    return None if said.get(name) is None else str(said[name]).encode()


def _headers_said(said: Mapping[str, Any]) -> Headers:
    return [(each["name"], _bytes_said(each, "value")) for each in json.loads(said.get("kafka_headers", "[]"))]

"""Kafka replay: a topic that is written to in transactions, each with the number of records that are in the topic then.

What was sent and how far it is are one fact of the cluster: whatever dies when, consumers of committed records see
every record once, and who goes on begins behind the last one. Going on also ends the transactions of a process that was
only slow: the cluster refuses everything more of it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from backfill_assets.capture.errors import NoStream, ReadFailed
from backfill_assets.capture.kafka_client import KafkaClient, TopicIdentity, plain
from backfill_assets.capture.kafka_topic import FIXED, KafkaReplay
from backfill_assets.core.errors import BackfillError
from backfill_assets.deliver.errors import TooLarge, WriteFailed
from backfill_assets.ledger.errors import LostWork

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Producer

MARK = "delete.retention.ms"
"""The setting of a topic that says for which replay it was created: it has no effect where nothing is compacted."""
_FOR_EVER = str(2**63 - 1)
_FENCED = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"})
_TELLS_WITHIN_S = 5.0
_SILENT = logging.Logger("librdkafka", level=logging.CRITICAL + 1)
_TOO_LARGE = frozenset({"MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"})


class Outgoing(NamedTuple):
    """A record as it is sent.

    Attributes:
        key: Its key.
        value: Its value; None deletes the key.
        headers: Its headers.
        at: Its time, in milliseconds.
        partition: The partition; -1 for the one of its key.
    """

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, str | bytes | None]]
    at: int
    partition: int = -1

    @property
    def size_bytes(self) -> int:
        return len(self.key or b"") + len(self.value or b"")


class ReplayTopic:
    """The topic of a replay, there or not.

    Args:
        declared: How its cluster is reached.
        topic: Its name.
        secret: The secret settings of the client.
    """

    def __init__(self, declared: KafkaReplay, topic: str, *, secret: Mapping[str, str]) -> None:
        self._client = KafkaClient(declared, topic, secret=secret, what="a replay to Kafka")

    @property
    def cluster(self) -> str:
        """The id of the cluster."""
        return self._client.cluster_id()

    def found(self) -> TopicIdentity | None:
        """The topic of this name; None when there is none."""
        try:
            return self._client.identity()
        except NoStream:
            return None

    @property
    def mark(self) -> str:
        """The replay for which the topic was created, if it was created for one."""
        return self._client.configuration()[MARK]

    def create(self, *, partitions: int, mark: str) -> TopicIdentity:
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
        while True:
            found = self.found()
            if found is not None and len(found.partitions) == partitions:
                return found
            if time.monotonic() > until:
                raise self._client.away()
            time.sleep(0.05)

    def delete(self) -> None:
        """Deletes the topic, with everything in it."""
        (answered,) = self._client.admin.delete_topics(
            [self._client.topic], request_timeout=self._client.seconds
        ).values()
        with suppress(NoStream):
            self._client.answer(answered)

    @contextmanager
    def sender(self, name: str, *, of: str) -> Iterator[Sender]:
        """Who may write to the topic while the block lasts, and no other process of this name.

        Args:
            name: What the transactions, and the group that keeps their progress, are called.
            of: The replay.

        Raises:
            Retryable: The cluster does not answer.
        """
        opened = Sender(self._client, name, of=of)
        try:
            yield opened
        finally:
            opened.close()


class Sender:
    """Writes records in transactions."""

    def __init__(self, client: KafkaClient, name: str, *, of: str) -> None:
        self._client, self._of = client, of
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
        """How many records are in the topic for good; None when that was never written, or is forgotten."""
        with self._asking():
            (found,) = self._group.committed([self._client.at(0)], timeout=self._client.seconds)
        if found.error is not None:
            raise self._failure(found.error)
        return None if found.offset < 0 else int(found.offset)

    def commit(self, batch: Sequence[Outgoing], done: int) -> None:
        """Writes records and their progress in one transaction.

        Args:
            batch: The records, in order.
            done: How many records of the replay are in the topic then.

        Raises:
            TakenOver: Another process has gone on with the replay, or closed it.
            Refused: A record is too large.
            Retryable: The cluster does not answer; whether the transaction counts, who goes on is told.
        """
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

    def ends(self, partitions: Sequence[int], done: int) -> Mapping[str, int]:
        """The position behind the last record, by partition, when every consumer of committed records can see it.

        Args:
            partitions: The partitions.
            done: How many records of the replay are in the topic.
        """
        # A transaction counts before its partitions say so; the next one waits until they do.
        self.commit([], done)
        found: dict[str, int] = {}
        for each in partitions:
            with self._asking():
                _, found[str(each)] = self._group.get_watermark_offsets(
                    self._client.at(each), timeout=self._client.seconds
                )
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
        """Why the client is of no use any more, which it says to who asks."""
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
            why = "another process went on with it, or closed it"
            return LostWork(name=f"replay {self._of}", why=why, of={"replay_id": self._of})
        large = next((each for each in causes if each.name() in _TOO_LARGE), None)
        if large is not None:
            return TooLarge(topic=self._client.topic, why=plain(large.str()))
        found = self._client.failure(self._undelivered[0] if self._undelivered else error)
        return WriteFailed(topic=self._client.topic, why=found.why) if isinstance(found, ReadFailed) else found

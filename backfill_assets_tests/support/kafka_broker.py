"""Where does a real Kafka broker for the tests come from?

It is the one of `backfill demo --source kafka`, which `tools/setup.sh kafka` fetches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # documented

from backfill_assets.core.spark_server import free_port
from backfill_assets.examples import kafka_broker

USER, PASSWORD = "capture", "a-password-that-nothing-may-show"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_SETTINGS = {
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.secured.plain.sasl.jaas.config": f'{_PLAIN} user_{USER}="{PASSWORD}";',
    # What time removes is removed at once.
    "log.retention.check.interval.ms": "1000",
    "log.cleaner.backoff.ms": "500",
    "log.segment.delete.delay.ms": "500",
    "log.initial.task.delay.ms": "500",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker(kafka_broker.RunningBroker):
    """A running broker, and what tests do with it."""

    secured: int  #: Where the user has to give the password.

    @property
    def secured_servers(self) -> str:
        return f"127.0.0.1:{self.secured}"

    def admin(self) -> AdminClient:
        """A client; who drops it before its answer is there gets none."""
        return AdminClient({"bootstrap.servers": self.servers})

    def create(self, topic: str, *, partitions: int = 1, **config: str) -> None:
        """A new topic, from which time removes nothing."""
        wanted = {"retention.ms": "-1", **{name.replace("_", "."): value for name, value in config.items()}}
        made = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=wanted)
        admin = self.admin()
        admin.create_topics([made])[topic].result(30)
        self._until(lambda: topic in admin.list_topics(timeout=10).topics)

    def delete(self, topic: str) -> None:
        """Removes a topic, with everything in it."""
        admin = self.admin()
        admin.delete_topics([topic])[topic].result(30)
        self._until(lambda: topic not in admin.list_topics(timeout=10).topics)

    def delete_before(self, topic: str, offset: int, *, partition: int = 0) -> None:
        """Removes the records before an offset, as the retention does."""
        admin = self.admin()
        answered = admin.delete_records([TopicPartition(topic, partition, offset)])
        for each in answered.values():
            each.result(30)

    def producer(self, **settings: Any) -> Producer:
        usual = {"bootstrap.servers": self.servers, "linger.ms": 5, "compression.type": "zstd"}
        return Producer({**usual, **{name.replace("_", "."): value for name, value in settings.items()}})

    def write(
        self, topic: str, records: Sequence[tuple[str | None, str | bytes | None, int]], partition: int = -1
    ) -> None:
        """Writes records: their key, their value, and their timestamp in milliseconds."""
        producer = self.producer(enable_idempotence=True)
        for key, value, at in records:
            while True:
                try:
                    producer.produce(topic, value=value, key=key, timestamp=at, partition=partition)
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(60) == 0

    def wait_for_markers(self, topic: str, partition: int = 0) -> None:
        """Waits until the transactions of a partition are finished there, if all of them have ended.

        A producer is answered as soon as the coordinator remembers how its transaction ended; the marker is written
        afterwards, and what another producer writes meanwhile has an offset before it.
        """
        levels = ("read_committed", "read_uncommitted")
        usual = {"bootstrap.servers": self.servers, "group.id": "look", "enable.auto.commit": False}
        consumers = [Consumer({**usual, "isolation.level": each}) for each in levels]
        try:
            at = TopicPartition(topic, partition)
            self._until(lambda: len({each.get_watermark_offsets(at, timeout=30) for each in consumers}) == 1)
        finally:
            for each in consumers:
                each.close()

    def keys(self, topic: str, *, partitions: int = 1) -> list[str]:
        """The keys of all records that a topic has; each of them has one."""
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "look", "enable.auto.commit": False})
        try:
            found: list[str] = []
            for each in range(partitions):
                low, high = consumer.get_watermark_offsets(TopicPartition(topic, each), timeout=30)
                consumer.assign([TopicPartition(topic, each, low)])
                while consumer.position([TopicPartition(topic, each)])[0].offset < high:
                    for message in consumer.consume(1_000, timeout=0.5):
                        key = message.key()
                        assert message.error() is None and key is not None
                        found.append(key.decode())
            return found
        finally:
            consumer.close()

    def committed(self, topic: str, group: str, *, partitions: int = 1) -> list[int]:
        """The offsets that a group has committed."""
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": group})
        try:
            asked = [TopicPartition(topic, each) for each in range(partitions)]
            return [each.offset for each in consumer.committed(asked, timeout=30)]
        finally:
            consumer.close()

    def groups(self) -> set[str]:
        """The groups that the broker knows."""
        admin = self.admin()
        return {each.group_id for each in admin.list_consumer_groups().result(30).valid}

    @staticmethod
    def _until(is_so: Callable[[], bool]) -> None:
        until = time.monotonic() + 30
        while not is_so():
            assert time.monotonic() < until, "the broker did not do what was asked of it within 30 s"
            time.sleep(0.1)


@contextmanager
def running_broker() -> Iterator[Broker]:
    """A broker over a folder of its own while the block lasts, with a listener that wants a password.

    Raises:
        BackfillError: It is not there, or does not start.
    """
    secured = free_port()
    listeners = [f"SECURED://127.0.0.1:{secured}"]
    with kafka_broker.running_broker(kafka_broker.fetched(print), listeners=listeners, settings=_SETTINGS) as running:
        yield Broker(port=running.port, secured=secured, process=running.process)

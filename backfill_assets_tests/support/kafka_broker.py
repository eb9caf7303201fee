"""Where does a real Kafka broker for the tests come from?

From `tools/setup.sh kafka`, which fetches it through Maven into a cache of this user. A broker of our own on free ports
of loopback, over a temporary folder, without replicas.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # documented

from backfill_assets_tests.support.s3_server import cache
from backfill_assets_tests.support.servers import free_port

USER, PASSWORD = "capture", "a-password-that-nothing-may-show"
STARTS_WITHIN_S = 180
CLUSTER_ID = "q1Sh-9_ISia_zwGINzRvyQ"

_META = f"version=1\nnode.id=1\ncluster.id={CLUSTER_ID}\ndirectory.id=IQSGdrylXp9hIDo4K1E9jQ\n"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_ONE = (
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
    "share.coordinator.state.topic.replication.factor",
    "offsets.topic.num.partitions",
    "transaction.state.log.num.partitions",
)
_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},SECURED://127.0.0.1:{secured},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SECURED:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.secured.plain.sasl.jaas.config={plain} user_{user}="{password}";
log.dirs={folder}
log.cleaner.dedupe.buffer.size=2097152
log.retention.check.interval.ms=1000
log.cleaner.backoff.ms=500
log.segment.delete.delay.ms=500
log.initial.task.delay.ms=500
auto.create.topics.enable=false
"""


class NoBroker(Exception):
    """There is no broker on this machine, or it cannot be started; the message says which."""


@dataclass(slots=True, kw_only=True)
class Broker:
    """A running broker.

    Attributes:
        port: Where anybody may read and write.
        secured: Where the user has to give the password.
        process: What was started.
    """

    port: int
    secured: int
    process: subprocess.Popen[bytes]

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def secured_servers(self) -> str:
        return f"127.0.0.1:{self.secured}"

    def stop(self) -> None:
        """Kills it."""
        self.process.kill()
        self.process.wait()

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
    """A broker over a folder of its own while the block lasts.

    Raises:
        NoBroker: It is not there, or does not start.
    """
    jars = cache() / "kafka"
    if not (jars / "pom.cksum").exists():
        raise NoBroker(f"there is no broker in {jars}: run tools/setup.sh kafka")
    with tempfile.TemporaryDirectory(prefix="kafka-") as folder:
        port, secured, controller = free_port(), free_port(), free_port()
        held = Path(folder, "log")
        held.mkdir()
        (held / "meta.properties").write_text(_META)
        properties = _PROPERTIES.format(
            port=port, secured=secured, controller=controller, folder=held, plain=_PLAIN, user=USER, password=PASSWORD
        )
        Path(folder, "server.properties").write_text(properties + "".join(f"{name}=1\n" for name in _ONE))
        java = ("java", "-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*")
        with Path(folder, "output").open("wb") as output:
            process = subprocess.Popen(
                [*java, "kafka.Kafka", str(Path(folder, "server.properties"))],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
            )
        broker = Broker(port=port, secured=secured, process=process)
        try:
            _await(broker, Path(folder, "output"))
            yield broker
        finally:
            broker.stop()


def _await(broker: Broker, output: Path) -> None:
    until = time.monotonic() + STARTS_WITHIN_S
    admin = AdminClient({"bootstrap.servers": broker.servers, "log_level": 0})
    while True:
        if broker.process.poll() is not None:
            raise NoBroker(f"the broker ended: {output.read_text(errors='replace')[-2000:]}")
        try:
            admin.list_topics(timeout=2)
        except KafkaException:
            if time.monotonic() > until:
                raise NoBroker(f"the broker did not answer: {output.read_text(errors='replace')[-2000:]}") from None
        else:
            return

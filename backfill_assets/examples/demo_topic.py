"""The topic of `demo --source kafka`, and who writes to it and reads from it besides the demo.

An application with a group of its own reads all of it while history is captured and replaced: what it read and
committed shows that it was not disturbed. When the topic is gone, a new one takes a replay by the same code.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from backfill_assets.core.spark_server import free_port
from backfill_assets.examples.enforcement_sla import generator
from backfill_assets.examples.enforcement_sla.case_alerts import CaseAlerts
from backfill_assets.examples.kafka_broker import fetched, running_broker

PARTITIONS = 6
LIVE_GROUP = "case-alerts"
_WITHIN_S = 60


class DemoTopic:
    """The topic of the story, on a broker that runs."""

    def __init__(self, servers: str, messages: list[Any], *, topic: str) -> None:
        from confluent_kafka.admin import AdminClient

        self._servers, self._topic = servers, topic
        self._left = messages
        self._admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        self._written = 0
        self._live = _Application(servers, topic, group=LIVE_GROUP)

    def create(self) -> None:
        """Makes the topic, whose records time does not remove, and starts its consumer."""
        from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # documented

        made = NewTopic(self._topic, num_partitions=PARTITIONS, replication_factor=1, config={"retention.ms": "-1"})
        self._admin.create_topics([made])[self._topic].result(_WITHIN_S)
        self._live.start()

    def stop(self) -> None:
        """Ends the consumer."""
        self._live.stop()

    def carried_out(self, words: Sequence[str]) -> Mapping[str, Any]:
        """The output of a command of the story that begins with `topic`."""
        match words:
            case ["write", "--until", month]:
                return self._write(month)
            case ["application"]:
                return self._consumed()
            case ["application", "--from", replayed]:
                return self._filled(replayed)
            case ["delete"]:
                self._admin.delete_topics([self._topic])[self._topic].result(_WITHIN_S)
                return {"deleted": self._topic}
        raise ValueError(f"the story has no command {' '.join(words)!r}")

    def _write(self, month: str) -> Mapping[str, Any]:
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self._servers, "enable.idempotence": True, "log_level": 0})
        chosen = [each for each in self._left if f"{each.month:%Y-%m}" <= month]
        self._left = self._left[len(chosen) :]
        for each in chosen:
            at = int(each.sent_at.timestamp() * 1000)
            producer.produce(self._topic, key=each.key, value=each.value, timestamp=at)
            producer.poll(0)
        if left := producer.flush(_WITHIN_S):
            raise TimeoutError(f"the broker took {len(chosen) - left} of {len(chosen)} records within {_WITHIN_S} s")
        self._written += len(chosen)
        return {"written": len(chosen), "to": self._topic, "partitions": PARTITIONS}

    def _consumed(self) -> Mapping[str, Any]:
        """Waits for the application to read the topic; returns the records that it has read."""
        self._live.await_records(self._written)
        groups = sorted(each.group_id for each in self._admin.list_consumer_groups().result(_WITHIN_S).valid)
        return {
            "group": LIVE_GROUP,
            "read": self._live.read,
            "of": self._written,
            "began_again": self._live.began_again,
            "groups_of_the_cluster": groups,
            "alerts": self._live.state.alerts,
        }

    def _filled(self, topic: str) -> Mapping[str, Any]:
        """An application that has lost its state takes a replay, which has every record of the topic."""
        again = _Application(self._servers, topic, group=f"{LIVE_GROUP}-again")
        again.start()
        try:
            again.await_records(self._written)
        finally:
            again.stop()
        return {
            "read": again.read,
            "of": self._written,
            "cases": len(again.state.last),
            "as_before": again.state.last == self._live.state.last,
            "alerts": again.state.alerts,
        }


class _Application:
    """An application as any other: it reads what comes in, once, and commits."""

    def __init__(self, servers: str, topic: str, *, group: str) -> None:
        self.read = 0
        self.began_again = 0
        self.state = CaseAlerts()
        self._servers, self._topic, self._group = servers, topic, group
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._consume, name=group, daemon=True)

    def await_records(self, many: int) -> None:
        """Waits until it has read so many, or for as long as it may take."""
        until = time.monotonic() + _WITHIN_S
        while self.read < many and time.monotonic() < until:
            time.sleep(0.05)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ends.set()
        if self._thread.is_alive():
            self._thread.join(_WITHIN_S)

    def _consume(self) -> None:
        from confluent_kafka import Consumer

        own = {"group.id": self._group, "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        consumer = Consumer({"bootstrap.servers": self._servers, **own, "log_level": 0})
        assigned = False

        def on_assign(*_: object) -> None:
            nonlocal assigned
            self.began_again += assigned
            assigned = True

        consumer.subscribe([self._topic], on_assign=on_assign)
        try:
            while not self._ends.is_set():
                message = consumer.poll(0.1)
                if message is None or message.error() is not None:
                    continue
                headers: dict[str, Any] = dict(message.headers() or ())
                self.state.take(message.key(), message.value(), sent_at=message.timestamp()[1], headers=headers)
                self.read += 1
        finally:
            consumer.close()


def choose_port() -> None:
    """Tells the domain, which is not imported yet, where the broker of the story will listen."""
    os.environ[generator.SERVERS] = f"127.0.0.1:{free_port()}"


@contextmanager
def demo_topic(say: Callable[[str], None], *, cases: int | None) -> Iterator[DemoTopic]:
    """The topic of the story, on a broker that runs where the domain was told, while the block lasts.

    Args:
        say: Told before Maven fetches the broker, and before it starts.
        cases: How many cases the story has; None for the usual number.
    """
    jars = fetched(say)
    say("A broker of Kafka starts on this machine.")
    with running_broker(jars, port=int(os.environ[generator.SERVERS].rpartition(":")[2])) as broker:
        messages = list(generator.messages(cases=cases or generator.DEFAULT_CASES))
        topic = DemoTopic(broker.servers, messages, topic=generator.TOPIC)
        topic.create()
        try:
            yield topic
        finally:
            topic.stop()

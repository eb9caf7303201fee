"""Kafka client: how a cluster is asked about a topic, and what its errors mean."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from backfill_assets.capture.errors import NoStream, StreamDenied, StreamFailed, no_answer_within
from backfill_assets.capture.kafka.declaration import KafkaCluster
from backfill_assets.core.errors import PackageMissing
from backfill_assets.core.progress import waiting

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient

_DENIED = frozenset(
    [
        "_AUTHENTICATION",
        "_SSL",
        "SASL_AUTHENTICATION_FAILED",
        "ILLEGAL_SASL_STATE",
        "UNSUPPORTED_SASL_MECHANISM",
        "TOPIC_AUTHORIZATION_FAILED",
        "GROUP_AUTHORIZATION_FAILED",
        "CLUSTER_AUTHORIZATION_FAILED",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicIdentity:
    """The identity that distinguishes a topic from any other, also from an earlier one of the same name."""

    cluster: str  #: The id of the cluster.
    topic_id: str
    partitions: tuple[int, ...]  #: Its partitions, in order.


class KafkaClient:
    """A cluster that is asked about one topic.

    Args:
        declared: How it is reached.
        secret: The secret settings of the client.
        what: What it is asked for, as a refusal names it that lacks the client.
    """

    def __init__(self, declared: KafkaCluster, topic: str, *, secret: Mapping[str, str], what: str) -> None:
        self._declared, self.topic, self._secret = declared, topic, secret
        self.trouble: list[KafkaError] = []
        self.kafka = _client(what)

    @property
    def name(self) -> str:
        """The name of the topic in messages."""
        return f"the topic {self.topic}"

    @property
    def seconds(self) -> float:
        """The time in seconds for which the cluster may stay silent."""
        return max(0.1, self._declared.answers_within / timedelta(seconds=1))

    @property
    def usual(self) -> dict[str, Any]:
        """The settings of every client of the cluster."""
        return {
            **self._declared.settings,
            **self._secret,
            "bootstrap.servers": self._declared.servers,
            "error_cb": self.trouble.append,
            # What the client says besides is on standard error, where it cannot be told apart from our own words.
            "log_level": 0,
        }

    @cached_property
    def admin(self) -> AdminClient:
        """The client that describes, creates and deletes topics."""
        from confluent_kafka.admin import AdminClient

        return AdminClient(self.usual)

    def cluster_id(self) -> str:
        """The id of the cluster."""
        return str(self.answer(self.admin.describe_cluster(request_timeout=self.seconds)).cluster_id)

    def identity(self) -> TopicIdentity:
        """The identity that distinguishes the topic from any other.

        Raises:
            NoStream: There is none of its name.
        """
        topics = self.kafka.TopicCollection([self.topic])
        (answered,) = self.admin.describe_topics(topics, request_timeout=self.seconds).values()
        cluster, topic = self.cluster_id(), self.answer(answered)
        # The id's own text is Base64 with characters that no file name should have.
        topic_id = str(topic.topic_id).translate(str.maketrans("+/", "-_")).rstrip("=")
        partitions = tuple(sorted(each.id for each in topic.partitions))
        return TopicIdentity(cluster=cluster, topic_id=topic_id, partitions=partitions)

    def configuration(self) -> Mapping[str, str]:
        """The settings of the topic."""
        from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined]  # documented

        asked = ConfigResource(ResourceType.TOPIC, self.topic)
        (answered,) = self.admin.describe_configs([asked], request_timeout=self.seconds).values()
        return {name: str(each.value) for name, each in self.answer(answered).items()}

    def committed(self, group: str, partitions: Sequence[int]) -> Mapping[int, int]:
        """The offsets that a consumer group has committed, by partition; those without any are absent."""
        from confluent_kafka import ConsumerGroupTopicPartitions

        asked = ConsumerGroupTopicPartitions(group, [self.at(each) for each in partitions])
        (answered,) = self.admin.list_consumer_group_offsets([asked], request_timeout=self.seconds).values()
        found = self.answer(answered).topic_partitions
        return {each.partition: each.offset for each in found if each.error is None and each.offset >= 0}

    def at(self, partition: int, offset: int = -1001) -> Any:
        """A position of the topic."""
        return self.kafka.TopicPartition(self.topic, partition, offset)

    def answer(self, answered: Any) -> Any:
        """The cluster's answer; raises its error as one of ours."""
        until = time.monotonic() + self.seconds
        with waiting(lambda: f"waiting for Kafka to answer about {self.topic}"):
            while not answered.done() and time.monotonic() < until:
                self.admin.poll(0.05)  # only then does the client say what troubles it
                self.require_allowed()
        with self.asking():
            return answered.result(timeout=0)

    @contextmanager
    def asking(self, failure: Callable[[KafkaError], Exception] | None = None) -> Iterator[None]:
        """Turns errors of the client into ours."""
        from confluent_kafka import KafkaException

        try:
            yield
        except KafkaException as error:
            raise (failure or self.failure)(error.args[0]) from None
        except TimeoutError:
            raise self.away() from None

    def require_allowed(self) -> None:
        """Refuses credentials that the cluster does not accept, which it says beside its answers."""
        denied = next((error for error in self.trouble if error.name() in _DENIED), None)
        if denied is not None:
            raise self.failure(denied)

    def away(self) -> StreamFailed:
        """The cluster does not answer."""
        why = plain(self.trouble[-1].str()) if self.trouble else ""
        return StreamFailed(name=self.name, why=no_answer_within(self.seconds, why))

    def failure(self, error: KafkaError) -> Exception:
        """The error that an error of the client means."""
        denied = next((each for each in (error, *self.trouble) if each.name() in _DENIED), None)
        if denied is not None:
            return StreamDenied(name=self.name, why=plain(denied.str()))
        match error.name():
            case "UNKNOWN_TOPIC_OR_PART" | "_UNKNOWN_TOPIC" | "_UNKNOWN_PARTITION":
                return NoStream(name=self.name.removeprefix("the "), servers=self._declared.servers)
            case "_TIMED_OUT" | "_TRANSPORT" | "_ALL_BROKERS_DOWN" | "REQUEST_TIMED_OUT" | "_RESOLVE":
                return self.away()
        return StreamFailed(name=self.name, why=plain(error.str()))


def plain(text: str) -> str:
    """The client's message, without its own addresses and counts."""
    return re.sub(r"^.*?: (?=[A-Z])", "", text).strip().rstrip(".")


def _client(what: str) -> Any:
    try:
        import confluent_kafka
    except ImportError:
        raise PackageMissing(what=what, package="confluent-kafka", extra="kafka") from None
    return confluent_kafka

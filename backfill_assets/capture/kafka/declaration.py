"""Kafka topics: how an author declares that a source is captured from one, or a table is replayed to some.

A declaration is code, and what is in it may be read by many: secrets are named in it, and read when they are used.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar, Literal

from backfill_assets.capture.declared import is_number, unnamed_secrets, wrong_time
from backfill_assets.capture.kafka import FAMILY
from backfill_assets.capture.schemas.declaration import SchemaFolder, SchemaRegistry
from backfill_assets.domain.external import ReplayDeclaration, StreamDeclaration

if TYPE_CHECKING:
    from backfill_assets.domain import SourceTable

KeyFormat = Literal["text", "json", "schema"]

TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_SECRET = re.compile(r"password|secret|token|\.pem$|ssl\.key|credential", re.IGNORECASE)

FIXED: Mapping[str, str | bool] = {
    # The default commits what an assigned consumer has read, also to another group.
    "enable.auto.commit": False,
    # The default goes on at the end of the partition, silently.
    "auto.offset.reset": "error",
    # Records of aborted transactions never happened.
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    # The default reads over a damaged batch of records, whatever its checksum says.
    "check.crcs": True,
}
"""Settings of the client on which the meaning of a capture depends; no declaration changes them."""

_OF_THE_CAPTURE = frozenset({*FIXED, "bootstrap.servers", "group.id", "group.instance.id", "enable.auto.offset.store"})


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaCluster:
    """A cluster, as an author declares how it is reached."""

    servers: str  #: Where the cluster is first asked, such as `broker-1:9092,broker-2:9092`.
    answers_within: timedelta = timedelta(seconds=30)  #: How long the cluster may say nothing before a command stops.
    #: Further settings of librdkafka, such as `security.protocol`; none of them is secret.
    settings: Mapping[str, str] = field(default_factory=dict)
    #: Settings of librdkafka that are secret, such as `sasl.password`, each with a name. Its value is in the
    #: environment variable of that name, or in the file that the variable with `_FILE` behind the name names.
    secrets: Mapping[str, str] = field(default_factory=dict)

    def mistakes_in(self, what: str, kept: Collection[str]) -> Iterator[str]:
        """The mistakes in how the cluster is reached.

        Args:
            what: What the cluster is for, `capture` or `replay`.
            kept: The settings that it sets itself.
        """
        if not isinstance(self.servers, str) or not re.fullmatch(r"[^\s,/@]+:[0-9]+(,[^\s,/@]+:[0-9]+)*", self.servers):
            yield f"its servers are {self.servers!r:.60}, and have to be like 'broker-1:9092,broker-2:9092'"
        yield from wrong_time("answers_within", self.answers_within, of=what)
        for name in (*self.settings, *self.secrets):
            if name in kept:
                yield f"its {what} sets {name}, which a {what} sets itself"
        for name in self.settings:
            if _SECRET.search(name):
                yield f"its {what} has {name} among its settings: name it among its secrets"
        yield from unnamed_secrets(self.secrets, of=what, such_as="KAFKA_PASSWORD")


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaTopic(KafkaCluster, StreamDeclaration):
    """A topic of which a source captures ranges of offsets.

    The value of a record is a JSON object with the columns of the contract. Landed records have its members as they
    were written, and `kafka_partition`, `kafka_offset`, `kafka_timestamp`, `kafka_timestamp_type`, `kafka_key` and
    `kafka_headers`, which a contract may have as columns too.
    """

    family: ClassVar[str] = FAMILY.name
    has_envelopes: ClassVar[bool] = True

    topic: str  #: Its name.
    #: How much later than the time of its event a record may be written: of a period are all records whose timestamp is
    #: in it, or up to so much later. In which order they are does not matter.
    lateness: timedelta = timedelta(0)
    chunk: int = 100_000  #: The most offsets of one landed file.
    #: What the key of a record without a value, which deletes, is: the text of the one column of the source's key, a
    #: JSON object with all of them, or either of them by the schema that it names.
    key_format: KeyFormat = "text"
    #: Where the schemas of values in Confluent's wire format are; without it values are JSON objects.
    values: SchemaRegistry | SchemaFolder | None = None
    #: The id of the topic, where one of this name was created again: earlier captures then do not count.
    topic_id: str = ""

    def mistakes(self) -> Iterator[str]:
        if not is_topic(self.topic):
            yield f"it is captured from {self.topic!r:.60}, which is not the name of a topic"
        if not is_number(self.chunk):
            yield f"the chunk of its capture is {self.chunk!r:.60}, and has to be a number of offsets"
        yield from wrong_time("lateness", self.lateness, of="capture")
        if self.key_format not in ("text", "json", "schema"):
            yield f"the key_format of its capture is {self.key_format!r:.60}, and has to be 'text', 'json' or 'schema'"
        if self.values is None and self.key_format == "schema":
            yield "the keys of its topic have a schema, and its capture does not say where schemas are: use values"
        if isinstance(self.values, SchemaRegistry | SchemaFolder):
            yield from self.values.mistakes()
        elif self.values is not None:
            yield "the values of its capture have to be a SchemaRegistry(...) or a SchemaFolder(...)"
        yield from self.mistakes_in("capture", _OF_THE_CAPTURE)

    def mistakes_of(self, source: SourceTable) -> Iterator[str]:
        if self.values is not None:
            yield from _mistakes_of_schemas(source, self.values.versions)
        is_text = self.key_format == "text" and not source.envelope
        if is_text and source.operation and source.operation.delete is not None and len(source.key) > 1:
            yield "the key of its topic is a text, and its own key has several columns: use key_format='json'"

    @property
    def target(self) -> str:
        return self.topic


def _mistakes_of_schemas(source: SourceTable, versions: Mapping[int, int]) -> Iterator[str]:
    known = range(1, source.contract_version + 1)
    if unknown := sorted(set(versions.values()).difference(known)):
        yield f"a schema of its topic is of version {unknown[0]} of its contract, which has {len(known)}"
    if versions and not source.earlier:
        yield "its contract has one version: the schemas of its topic need not say which"


_OF_THE_REPLAY = frozenset(
    {
        *("bootstrap.servers", "transactional.id", "enable.idempotence", "acks", "partitioner", "group.id"),
        *("isolation.level", "enable.auto.commit", "message.timestamp.type"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaReplay(KafkaCluster, ReplayDeclaration):
    """Allows that a table is replayed to temporary topics of a cluster; without it nothing of the table leaves."""

    family: ClassVar[str] = FAMILY.name

    #: How many partitions such a topic has. A topic of records that were captured from a topic has as many as that, and
    #: each record has its partition of there.
    partitions: int = 1
    #: What the key of a record is: the text of the one column of the table's key, or a JSON object with all of them.
    #: Records that were captured from a topic keep their own.
    key_format: KeyFormat = "json"
    #: Topics that are there already and may be replayed to as well, each time with the approval of another person than
    #: the requester.
    live_topics: tuple[str, ...] = ()

    @property
    def live(self) -> tuple[str, ...]:
        return self.live_topics

    @staticmethod
    def can_be_named(target: str) -> bool:
        return is_topic(target)

    def mistakes(self) -> Iterator[str]:
        if not is_number(self.partitions):
            yield f"its replay has {self.partitions!r:.60} partitions, and needs a number of partitions"
        if self.key_format not in ("text", "json"):
            yield f"the key_format of its replay is {self.key_format!r:.60}, and has to be 'text' or 'json'"
        if not isinstance(self.live_topics, tuple) or not all(map(is_topic, self.live_topics)):
            yield f"its replay allows {self.live_topics!r:.60}, which is not a tuple of topic names"
        yield from self.mistakes_in("replay", _OF_THE_REPLAY)


def is_topic(name: object) -> bool:
    """True if a topic can have this name."""
    return isinstance(name, str) and bool(TOPIC.fullmatch(name)) and name not in (".", "..")

"""Kafka topic: how an author declares that a source is captured from one. The client is in `kafka`.

A declaration is code, and what is in it may be read by many: secrets are named in it, and read when they are used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

KeyFormat = Literal["text", "json"]

TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_SECRET = re.compile(r"password|secret|token|\.pem$|ssl\.key|credential", re.IGNORECASE)
_NAME = re.compile(r"[A-Z][A-Z0-9_]*")

FIXED: Mapping[str, str | bool] = {
    # The default commits what an assigned consumer has read, also to another group.
    "enable.auto.commit": False,
    # The default goes on at the end of the partition, silently.
    "auto.offset.reset": "error",
    # Records of aborted transactions never happened.
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
}
"""Settings of the client on which the meaning of a capture depends; no declaration changes them."""

_OF_THE_CAPTURE = frozenset({*FIXED, "bootstrap.servers", "group.id", "group.instance.id", "enable.auto.offset.store"})


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaTopic:
    """A topic of which a source captures ranges of offsets.

    The value of a record is a JSON object with the columns of the contract. Landed records have its members as they
    were written, and `kafka_partition`, `kafka_offset`, `kafka_timestamp`, `kafka_timestamp_type`, `kafka_key` and
    `kafka_headers`, which a contract may have as columns too.

    Attributes:
        topic: Its name.
        servers: Where the cluster is first asked, such as `broker-1:9092,broker-2:9092`.
        lateness: How much later than its timestamp a record may be in its partition: the end of a period is looked for
            so much later.
        chunk: The most offsets of one landed file.
        key_format: What the key of a record without a value, which deletes, is: the text of the one column of the
            source's key, or a JSON object with all of them.
        topic_id: The id of the topic, where one of this name was created again: earlier captures then do not count.
        answers_within: How long the cluster may say nothing before a capture stops.
        settings: Further settings of librdkafka, such as `security.protocol`; none of them is secret.
        secrets: Settings of librdkafka that are secret, such as `sasl.password`, each with a name. Its value is in the
            environment variable of that name, or in the file that the variable with `_FILE` behind the name names.
    """

    topic: str
    servers: str
    lateness: timedelta = timedelta(0)
    chunk: int = 100_000
    key_format: KeyFormat = "text"
    topic_id: str = ""
    answers_within: timedelta = timedelta(seconds=30)
    settings: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)

    def mistakes(self) -> Iterator[str]:
        """What is wrong with the declaration, for a sentence that names its table."""
        if not isinstance(self.topic, str) or not TOPIC.fullmatch(self.topic) or self.topic in (".", ".."):
            yield f"it is captured from {self.topic!r:.60}, which is no name of a topic"
        if not isinstance(self.servers, str) or not re.fullmatch(r"[^\s,/@]+:[0-9]+(,[^\s,/@]+:[0-9]+)*", self.servers):
            yield f"its servers are {self.servers!r:.60}, and have to be like 'broker-1:9092,broker-2:9092'"
        if isinstance(self.chunk, bool) or not isinstance(self.chunk, int) or self.chunk < 1:
            yield f"the chunk of its capture is {self.chunk!r:.60}, and has to be a number of offsets"
        for name in ("lateness", "answers_within"):
            value = getattr(self, name)
            if not isinstance(value, timedelta) or value < timedelta(0):
                yield f"{name} of its capture is {value!r:.60}, and has to be a timedelta of at least nothing"
        if self.key_format not in ("text", "json"):
            yield f"the key_format of its capture is {self.key_format!r:.60}, and has to be 'text' or 'json'"
        for name in (*self.settings, *self.secrets):
            if name in _OF_THE_CAPTURE:
                yield f"its capture sets {name}, which a capture sets itself"
        for name in self.settings:
            if _SECRET.search(name):
                yield f"its capture has {name} among its settings: name it among its secrets"
        for name, secret in self.secrets.items():
            if not isinstance(secret, str) or not _NAME.fullmatch(secret):
                # Whatever was written there may be the secret itself.
                yield f"the secret {name} of its capture is named by an environment variable, such as KAFKA_PASSWORD"

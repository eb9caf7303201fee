"""Kinesis streams: how an author declares that a source is captured from one, or a table is replayed to some.

The client is in `capture.kinesis.client`. Secrets are named in a declaration, and read when they are used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar, Literal

from backfill_assets.capture.declared import is_number, unnamed_secrets, wrong_time
from backfill_assets.capture.kinesis import FAMILY
from backfill_assets.domain.external import ReplayDeclaration, StreamDeclaration

_STREAM = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-[0-9]")
_ENDPOINT = re.compile(r"https?://[^\s@/]+/?")
_SECRETS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class KinesisService:
    """The service of a region, as an author declares how it is reached."""

    region: str  #: Where its streams are, such as `eu-central-1`.
    endpoint: str = ""  #: The URL of another server than that of the region.
    answers_within: timedelta = timedelta(seconds=30)  #: How long the service may say nothing before a command stops.
    #: `aws_access_key_id`, `aws_secret_access_key` and `aws_session_token`, each with the name of an environment
    #: variable; its value is there, or in the file that the variable with `_FILE` behind the name names. Without them
    #: boto3 looks where it always does: its variables, a profile, the role of the machine.
    secrets: Mapping[str, str] = field(default_factory=dict)

    def mistakes_in(self, what: str) -> Iterator[str]:
        """The mistakes in how the service is reached.

        Args:
            what: What the service is for, `capture` or `replay`.
        """
        if not isinstance(self.region, str) or not _REGION.fullmatch(self.region):
            yield f"the region of its {what} is {self.region!r:.60}, and has to be like 'eu-central-1'"
        if not isinstance(self.endpoint, str) or not (self.endpoint == "" or _ENDPOINT.fullmatch(self.endpoint)):
            yield f"the endpoint of its {what} is {self.endpoint!r:.60}, and has to be like 'http://127.0.0.1:4567'"
        yield from wrong_time("answers_within", self.answers_within, of=what)
        for name in self.secrets:
            if name not in _SECRETS:
                yield f"its {what} has the secret {name!r:.40}, which is not one of {', '.join(_SECRETS)}"
        yield from unnamed_secrets(self.secrets, of=what, such_as="KINESIS_KEY")


@dataclass(frozen=True, slots=True, kw_only=True)
class KinesisStream(KinesisService, StreamDeclaration):
    """A stream of which a source captures ranges of sequence numbers.

    The data of a record is a JSON object with the columns of the contract. Landed records have its members as they were
    written, and `kinesis_shard`, `kinesis_sequence`, `kinesis_arrived_at` and `kinesis_partition_key`, which a contract
    may have as columns too.
    """

    family: ClassVar[str] = FAMILY.name

    stream: str  #: Its name.
    #: How much later than its own time a record may arrive: the end of a period is looked for so much later.
    lateness: timedelta = timedelta(0)
    chunk: timedelta = _HOUR  #: The time of arrival that one landed file covers at most, such as an hour.
    #: The creation of the stream as captures name it, where one of this name was created again: captures of the one
    #: before then do not count.
    creation: str = ""

    def mistakes(self) -> Iterator[str]:
        if not is_stream(self.stream):
            yield f"it is captured from {self.stream!r:.60}, which is not the name of a stream"
        yield from wrong_time("lateness", self.lateness, of="capture")
        if not isinstance(self.chunk, timedelta) or self.chunk < timedelta(seconds=1):
            yield f"the chunk of its capture is {self.chunk!r:.60}, and has to be a timedelta of at least a second"
        yield from self.mistakes_in("capture")

    @property
    def target(self) -> str:
        return self.stream


@dataclass(frozen=True, slots=True, kw_only=True)
class KinesisReplay(KinesisService, ReplayDeclaration):
    """Allows that a table is replayed to temporary streams of a region; without it nothing of the table leaves.

    A stream has no headers and no transactions. Each record is a JSON object, an envelope of the value with what is
    known of it, and may be there more than once: it has its number in the replay, by which consumers drop what they
    have seen.
    """

    family: ClassVar[str] = FAMILY.name
    # No stream that was there before is written to: its consumers do not expect envelopes.

    shards: int = 1  #: How many shards such a stream has.
    #: What the key of a record is: the text of the one column of the table's key, or a JSON object with all of them.
    #: Records that were captured from a topic or a stream keep their own.
    key_format: Literal["text", "json"] = "json"
    #: How long such a stream keeps records, a day to a year: it keeps none until it is closed.
    retention: timedelta = timedelta(days=7)

    def mistakes(self) -> Iterator[str]:
        if not is_number(self.shards):
            yield f"its replay has {self.shards!r:.60} shards, and needs a number of shards"
        if self.key_format not in ("text", "json"):
            yield f"the key_format of its replay is {self.key_format!r:.60}, and has to be 'text' or 'json'"
        if not isinstance(self.retention, timedelta) or not (
            timedelta(days=1) <= self.retention <= timedelta(days=365) and self.retention % _HOUR == timedelta(0)
        ):
            yield f"the retention of its replay is {self.retention!r:.60}, and has to be whole hours, a day to a year"
        yield from self.mistakes_in("replay")

    @staticmethod
    def can_be_named(target: str) -> bool:
        return is_stream(target)


def is_stream(name: object) -> bool:
    """True if a stream can have this name."""
    return isinstance(name, str) and bool(_STREAM.fullmatch(name))

"""Kinesis stream: how an author declares that a source is captured from one. The client is in `kinesis`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

_STREAM = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-[0-9]")
_ENDPOINT = re.compile(r"https?://[^\s@/]+/?")
_NAME = re.compile(r"[A-Z][A-Z0-9_]*")
_SECRETS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")


@dataclass(frozen=True, slots=True, kw_only=True)
class KinesisStream:
    """A stream of which a source captures ranges of sequence numbers.

    The data of a record is a JSON object with the columns of the contract. Landed records have its members as they were
    written, and `kinesis_shard`, `kinesis_sequence`, `kinesis_arrived_at` and `kinesis_partition_key`, which a contract
    may have as columns too.

    Attributes:
        stream: Its name.
        region: Where it is, such as `eu-central-1`.
        lateness: How much later than its own time a record may arrive: the end of a period is looked for so much later.
        chunk: The time of arrival that one landed file covers at most, such as an hour.
        endpoint: The URL of another server than that of the region.
        creation: The creation of the stream as captures name it, where one of this name was created again: captures of
            the one before then do not count.
        answers_within: How long the service may say nothing before a capture stops.
        secrets: `aws_access_key_id`, `aws_secret_access_key` and `aws_session_token`, each with the name of an
            environment variable; its value is there, or in the file that the variable with `_FILE` behind the name
            names. Without them boto3 looks where it always does: its variables, a profile, the role of the machine.
    """

    stream: str
    region: str
    lateness: timedelta = timedelta(0)
    chunk: timedelta = timedelta(hours=1)
    endpoint: str = ""
    creation: str = ""
    answers_within: timedelta = timedelta(seconds=30)
    secrets: Mapping[str, str] = field(default_factory=dict)

    def mistakes(self) -> Iterator[str]:
        """What is wrong with the declaration, for a sentence that names its table."""
        if not isinstance(self.stream, str) or not _STREAM.fullmatch(self.stream):
            yield f"it is captured from {self.stream!r:.60}, which is no name of a stream"
        if not isinstance(self.region, str) or not _REGION.fullmatch(self.region):
            yield f"the region of its capture is {self.region!r:.60}, and has to be like 'eu-central-1'"
        if not isinstance(self.endpoint, str) or not (self.endpoint == "" or _ENDPOINT.fullmatch(self.endpoint)):
            yield f"the endpoint of its capture is {self.endpoint!r:.60}, and has to be like 'http://127.0.0.1:4567'"
        for name in ("lateness", "answers_within"):
            value = getattr(self, name)
            if not isinstance(value, timedelta) or value < timedelta(0):
                yield f"{name} of its capture is {value!r:.60}, and has to be a timedelta of at least nothing"
        if not isinstance(self.chunk, timedelta) or self.chunk < timedelta(seconds=1):
            yield f"the chunk of its capture is {self.chunk!r:.60}, and has to be a timedelta of at least a second"
        for name, secret in self.secrets.items():
            if name not in _SECRETS:
                yield f"its capture has the secret {name!r:.40}, which is none of {', '.join(_SECRETS)}"
            elif not isinstance(secret, str) or not _NAME.fullmatch(secret):
                # Whatever was written there may be the secret itself.
                yield f"the secret {name} of its capture is named by an environment variable, such as KINESIS_KEY"

"""Kinesis client: how a stream is asked, and what the errors of the service mean."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

from backfill_assets.capture.errors import NoStream, StreamDenied, StreamFailed, no_answer_within
from backfill_assets.capture.kinesis.declaration import KinesisService
from backfill_assets.core.errors import PackageMissing
from backfill_assets.core.progress import waiting

# Kinesis aggregates: the records that a producer's library has put into one record of a stream.
#
# The form is that of the Kinesis Producer Library: four bytes, a message of Protobuf with a table of partition
# keys and the records, and the MD5 of the message.

_MAGIC = b"\xf3\x89\x9a\xc2"
_KEYS, _RECORDS = 1, 3
_KEY_OF_RECORD, _VALUE_OF_RECORD = 1, 3
_NUMBER, _BYTES = 0, 2


class DamagedAggregate(Exception):
    """An aggregate whose checksum does not match, or that is none."""


def records_in(value: bytes) -> Sequence[tuple[str, bytes]] | None:
    """The partition keys and the values of the records of an aggregate; None of a record that is none.

    Raises:
        DamagedAggregate: What they are cannot be known.
    """
    if not value.startswith(_MAGIC):
        return None
    message, digest = value[len(_MAGIC) : -16], value[-16:]
    if len(value) < len(_MAGIC) + 16 or hashlib.md5(message, usedforsecurity=False).digest() != digest:
        raise DamagedAggregate("its checksum does not match")
    try:
        keys: list[str] = []
        found: list[tuple[int, bytes]] = []
        for number, held in _fields(message):
            if number == _KEYS and isinstance(held, bytes):
                keys.append(held.decode())
            elif number == _RECORDS and isinstance(held, bytes):
                record = dict(_fields(held))
                key, data = record[_KEY_OF_RECORD], record[_VALUE_OF_RECORD]
                if not isinstance(key, int) or not isinstance(data, bytes):
                    raise ValueError("a record of another form")
                found.append((key, data))
        return [(keys[key], data) for key, data in found]
    except (ValueError, LookupError):
        raise DamagedAggregate("it is not of the form of the Kinesis Producer Library") from None


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message of Protobuf, those of numbers and of bytes."""
    at = 0
    while at < len(message):
        tag, at = _number(message, at)
        held, at = _number(message, at)
        if tag & 7 == _NUMBER:
            yield tag >> 3, held
        elif tag & 7 == _BYTES and at + held <= len(message):
            yield tag >> 3, message[at : at + held]
            at += held
        else:
            raise ValueError("a field of another form")


def _number(message: bytes, at: int) -> tuple[int, int]:
    found = shift = 0
    while True:
        byte = message[at]
        found |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return found, at


MOST_AT_ONCE = 10_000
_PAUSE_S = 0.2
"""A shard answers five reads a second, shared by all who read it."""
_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_S = timedelta(days=366) / timedelta(seconds=1)
"""The longest retention."""
_TIP_S = 2.0
"""How far back the last record is first looked for; doubled until there is one."""
_DENIED = frozenset(
    [
        "AccessDeniedException",
        "ExpiredTokenException",
        "IncompleteSignatureException",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "MissingAuthenticationTokenException",
        "UnrecognizedClientException",
    ]
)
_LATER = frozenset(
    ["InternalFailure", "LimitExceededException", "ProvisionedThroughputExceededException", "ServiceUnavailable"]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record of a shard."""

    sequence: int
    at: datetime  #: When it arrived.
    key: str  #: Its partition key.
    value: bytes  #: Its data.


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """The service's description of a stream."""

    arn: str  #: Its name anywhere.
    status: str  #: Whether it can be used, such as `ACTIVE`.
    created_at: datetime
    retention: timedelta  #: How long it keeps records.

    @property
    def creation(self) -> str:
        """The second in which it was created: a stream that was created again has the same name."""
        return str(int(self.created_at.timestamp()))

    @property
    def identity(self) -> str:
        """The identity that distinguishes it from any other."""
        return f"{self.arn}/{self.creation}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """A part of a stream, in which records are in order."""

    name: str  #: Its id.
    parents: tuple[str, ...] = ()  #: The shards that it follows: one that was split, or two that were merged.
    begun: str = ""  #: The sequence number at which it begins.
    closed: str = ""  #: The one at which it ends; empty while it is open.
    #: The first and the last hash of the partition keys whose records are in it.
    hashes: tuple[int, int] = (0, 2**128 - 1)


class KinesisClient:
    """The service, asked about one stream.

    Args:
        declared: How it is reached.
        secret: The credentials, by the name of boto3's argument.
        what: What it is asked for, as a refusal names it that lacks the client.
    """

    def __init__(self, declared: KinesisService, stream: str, *, secret: Mapping[str, str], what: str) -> None:
        self._declared, self.stream, self._secret, self._what = declared, stream, secret, what

    @property
    def name(self) -> str:
        """The name of the stream in messages."""
        return f"the stream {self.stream}"

    @property
    def seconds(self) -> float:
        """The time in seconds for which the service may stay silent."""
        return max(0.1, self._declared.answers_within / timedelta(seconds=1))

    def close(self) -> None:
        """Ends the connections."""
        if "_client" in self.__dict__:
            self._client.close()

    # ------------------------------------------------------------------------------------------------- what it holds

    def summary(self) -> Stream:
        """The service's summary of the stream.

        Raises:
            NoStream: There is none of its name.
        """
        found = self.ask("describe_stream_summary", StreamName=self.stream)["StreamDescriptionSummary"]
        return Stream(
            arn=found["StreamARN"],
            status=found["StreamStatus"],
            created_at=_in_utc(found["StreamCreationTimestamp"]),
            retention=timedelta(hours=found["RetentionPeriodHours"]),
        )

    def shards(self) -> list[Shard]:
        """All shards that still have records, and those that are open."""
        found: list[Shard] = []
        asked: dict[str, Any] = {"StreamName": self.stream}
        while True:
            answered = self.ask("list_shards", **asked)
            found += map(_shard, answered["Shards"])
            if not answered.get("NextToken"):
                return found
            asked = {"NextToken": answered["NextToken"]}

    def records(self, shard: str, *, most: int = MOST_AT_ONCE, **begins: Any) -> Iterator[list[Record]]:
        """The records of a shard from a position on, some at a time, up to the newest one or its end.

        An iterator that has expired is renewed behind the last record, or where it began.
        """
        asked = {"StreamName": self.stream, "ShardId": shard, **begins}
        iterator = self.ask("get_shard_iterator", **asked)["ShardIterator"]
        while iterator is not None:
            begun = time.monotonic()
            answered = self.ask("get_records", ShardIterator=iterator, Limit=most, expires=True)
            if answered is None:
                iterator = self.ask("get_shard_iterator", **asked)["ShardIterator"]
                continue
            found = [_record(each) for each in answered["Records"]]
            if found:
                behind = begins_at(f"{found[-1].sequence}+")
                asked = {"StreamName": self.stream, "ShardId": shard, **behind}
                yield found
            iterator = answered.get("NextShardIterator")
            if not found and answered.get("MillisBehindLatest", 0) == 0:
                return
            if not self._declared.endpoint:
                time.sleep(max(0.0, begun + _PAUSE_S - time.monotonic()))

    def first(self, shard: str, **begins: Any) -> Record | None:
        """The first record of a shard from a position on; None when there is none."""
        if begins.get("Timestamp", _BEGINNING) >= datetime.now(UTC):
            return None  # the service refuses to look there
        return next((batch[0] for batch in self.records(shard, most=1, **begins)), None)

    def last(self, shard: str, now: datetime) -> int | None:
        """The last record of an open shard: looked for from the newest on, or all of it would be read."""
        back = _TIP_S
        while back < _LONGEST_S:
            at = now - timedelta(seconds=back)
            found = self._newest(shard, now, ShardIteratorType="AT_TIMESTAMP", Timestamp=at)
            if found is not None:
                return found.sequence
            back *= 4
        found = self._newest(shard, now, ShardIteratorType="TRIM_HORIZON")
        return None if found is None else found.sequence

    def _newest(self, shard: str, now: datetime, **begins: Any) -> Record | None:
        """The last record from a position on; who writes all the time is not followed for ever."""
        last = None
        for batch in self.records(shard, **begins):
            last = batch[-1]
            if last.at >= now:
                break
        return last

    # ------------------------------------------------------------------------------------------------- the connection

    def ask(self, what: str, *, expires: bool = False, **asked: Any) -> Any:
        """The service's answer; None where an iterator has expired.

        Raises:
            Retryable: It does not answer, or not any more.
        """
        with waiting(lambda: f"waiting for Kinesis to answer {what} of {self.name}"):
            return self._asked(what, expires=expires, **asked)

    def _asked(self, what: str, *, expires: bool, **asked: Any) -> Any:
        from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

        until, pause = time.monotonic() + self.seconds, _PAUSE_S
        while True:
            try:
                return getattr(self._client, what)(**asked)
            except NoCredentialsError:
                raise StreamDenied(name=self.name, why="no credentials are set") from None
            except ClientError as error:
                code, said = error.response["Error"].get("Code", ""), error.response["Error"].get("Message", "")
                if expires and code == "ExpiredIteratorException":
                    return None
                if code in _LATER and time.monotonic() < until:
                    time.sleep(pause)
                    pause = min(2 * pause, 5.0)
                    continue
                raise self._failure(code, said) from None
            except BotoCoreError as error:
                raise self.away(type(error).__name__) from None

    def away(self, why: str) -> StreamFailed:
        """The service does not answer."""
        return StreamFailed(name=self.name, why=no_answer_within(self.seconds, why))

    def _failure(self, code: str, said: str) -> Exception:
        if code in _DENIED:
            return StreamDenied(name=self.name, why=code)
        if code == "ResourceNotFoundException":
            where = self._declared.endpoint or self._declared.region
            return NoStream(name=self.name.removeprefix("the "), servers=where)
        if code in _LATER:
            return self.away(code)
        return StreamFailed(name=self.name, why=f"{code}: {said}".rstrip(" .:"))

    @cached_property
    def _client(self) -> Any:
        try:
            import boto3
            from botocore.config import Config
        except ImportError:
            raise PackageMissing(what=self._what, package="boto3", extra="kinesis") from None
        patience = Config(
            connect_timeout=self.seconds,
            read_timeout=self.seconds,
            retries={"mode": "standard", "total_max_attempts": 2},
        )
        return boto3.client(
            "kinesis",
            region_name=self._declared.region,
            endpoint_url=self._declared.endpoint or None,
            config=patience,
            **self._secret,
        )


def order_of(position: str) -> tuple[int, int]:
    """The order of positions: before a record comes before behind it."""
    return int(position.removesuffix("+")), int(position.endswith("+"))


def begins_at(position: str) -> Mapping[str, str]:
    """The request to the service that begins at a position."""
    kind = "AFTER_SEQUENCE_NUMBER" if position.endswith("+") else "AT_SEQUENCE_NUMBER"
    return {"ShardIteratorType": kind, "StartingSequenceNumber": position.removesuffix("+")}


def _shard(found: Mapping[str, Any]) -> Shard:
    numbers, hashes = found["SequenceNumberRange"], found["HashKeyRange"]
    return Shard(
        name=found["ShardId"],
        parents=tuple(found[each] for each in ("ParentShardId", "AdjacentParentShardId") if found.get(each)),
        begun=numbers["StartingSequenceNumber"],
        closed=numbers.get("EndingSequenceNumber") or "",
        hashes=(int(hashes["StartingHashKey"]), int(hashes["EndingHashKey"])),
    )


def _record(found: Mapping[str, Any]) -> Record:
    return Record(
        sequence=int(found["SequenceNumber"]),
        at=_in_utc(found["ApproximateArrivalTimestamp"]),
        key=found["PartitionKey"],
        value=found["Data"],
    )


def _in_utc(at: datetime) -> datetime:
    return at.astimezone(UTC)

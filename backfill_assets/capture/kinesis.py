"""Kinesis capture: ranges of sequence numbers of a stream as files of JSON lines. Only this module knows the client.

A position is `N`, before the record of that sequence number, or `N+`, behind it: sequence numbers are not dense, and an
iterator begins only at a record or behind one. Shards come after their parents, so that the records of a key are read
in their order also where shards were split or merged. Nothing is registered with the stream; what its consumers share
with a capture are the five reads of a shard in a second.
"""

from __future__ import annotations

import base64
import gzip
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from backfill_assets.capture.errors import (
    CreatedAgain,
    NoStream,
    NothingCaptured,
    NothingWhole,
    OtherTopic,
    RangeExpired,
    ReadFailed,
    StreamAway,
    StreamDenied,
)
from backfill_assets.capture.json_members import members_of, quoted
from backfill_assets.capture.kinesis_stream import KinesisStream
from backfill_assets.capture.landed_files import Family, FileKind, Format
from backfill_assets.capture.streams import Captured, Pace, Period, Resolution, Resolved, Span, Written
from backfill_assets.core.errors import PackageMissing

PREFIX = "kinesis_"
_LEVEL = 3
_MOST_AT_ONCE = 10_000
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
    """A record of a shard.

    Attributes:
        sequence: Its sequence number.
        at: When it arrived.
        key: Its partition key.
        value: Its data.
    """

    sequence: int
    at: datetime
    key: str
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """What the service says of a stream.

    Attributes:
        arn: Its name anywhere.
        created_at: When it was created.
        retention: How long it keeps records.
    """

    arn: str
    created_at: datetime
    retention: timedelta

    @property
    def creation(self) -> str:
        """The second in which it was created: a stream that was created again has the same name."""
        return str(int(self.created_at.timestamp()))

    @property
    def identity(self) -> str:
        """What tells it from any other."""
        return f"{self.arn}/{self.creation}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """A part of a stream, in which records are in order.

    Attributes:
        name: Its id.
        parents: The shards that it follows: one that was split, or two that were merged.
        begun: The sequence number at which it begins.
        closed: The one at which it ends; empty while it is open.
    """

    name: str
    parents: tuple[str, ...] = ()
    begun: str = ""
    closed: str = ""


class KinesisCapture:
    """A stream that was opened.

    Args:
        declared: The stream as its source declares it.
        secret: The credentials, by the name of boto3's argument.
    """

    kind = FileKind(format=Format.JSONL, compression="gzip")

    def __init__(self, declared: KinesisStream, *, secret: Mapping[str, str]) -> None:
        self._declared, self._secret = declared, secret
        self._closed: Mapping[str, str] = {}

    @property
    def name(self) -> str:
        return f"the stream {self._declared.stream}"

    def close(self) -> None:
        if "_client" in self.__dict__:
            self._client.close()

    # ------------------------------------------------------------------------------------------------- what it holds

    def resolve(self, period: Period, captured: Sequence[Captured]) -> Resolution:
        if period.is_whole:
            raise NothingWhole(name=self.name)
        stream, now = self._summary(), datetime.now(UTC)
        shards = self._shards()
        spans = tuple(self._resolved(shard, period, captured, stream, now) for shard in in_order(shards))
        if period.start is None and not captured:
            raise NothingCaptured(source=self._declared.stream)
        return Resolution(
            family=str(Family.KINESIS),
            name=self._declared.stream,
            stream=stream.identity,
            pinned={
                "retention.ms": str(stream.retention // timedelta(milliseconds=1)),
                "retention": "enhanced" if stream.retention > timedelta(hours=24) else "usual",
                "shards": ", ".join(" of ".join([each.name, *each.parents]) for each in shards),
            },
            is_compacted=False,
            spans=spans,
        )

    def require_same(self, stream: str) -> None:
        found = self._summary()
        if found.identity != stream and not self._declared.creation:
            raise CreatedAgain(name=self.name, expected=stream, found=found.identity, declare="creation")

    def _summary(self) -> Stream:
        found = self._ask("describe_stream_summary", StreamName=self._declared.stream)["StreamDescriptionSummary"]
        stream = Stream(
            arn=found["StreamARN"],
            created_at=_in_utc(found["StreamCreationTimestamp"]),
            retention=timedelta(hours=found["RetentionPeriodHours"]),
        )
        if self._declared.creation not in ("", stream.creation):
            raise OtherTopic(name=self.name, expected=self._declared.creation, found=stream.creation)
        return stream

    def _shards(self) -> list[Shard]:
        found: list[Shard] = []
        asked: dict[str, Any] = {"StreamName": self._declared.stream}
        while True:
            answered = self._ask("list_shards", **asked)
            found += map(_shard, answered["Shards"])
            if not answered.get("NextToken"):
                self._closed = {each.name: each.closed for each in found}
                return found
            asked = {"NextToken": answered["NextToken"]}

    def _resolved(
        self, shard: Shard, period: Period, captured: Sequence[Captured], stream: Stream, now: datetime
    ) -> Resolved:
        """The positions of a shard that hold a period, those of a whole shard that began within it."""
        name = shard.name
        mine = [each for each in captured if each.partition == name]
        ended = _end_of(mine)
        held = self._first(name, ShardIteratorType="TRIM_HORIZON")
        nothing = ended or shard.begun
        if held is None:
            return _empty(name, nothing)
        self._require_held(name, held, period, mine, stream, now)
        if period.start is not None:
            first = self._first(name, ShardIteratorType="AT_TIMESTAMP", Timestamp=period.start)
            start = None if first is None else str(first.sequence)
        else:
            first, start = held, ended or str(held.sequence)
        end, last = self._end(shard, period, now)
        if start is None or end is None or order_of(start) >= order_of(end):
            return _empty(name, nothing, held=held)
        return Resolved(
            partition=name,
            range_from=start,
            range_to=end,
            held_from=str(held.sequence),
            held_to=last or end,
            first_at=None if first is None else first.at,
            expires_at=None if first is None else first.at + stream.retention,
        )

    def _require_held(
        self, shard: str, held: Record, period: Period, mine: Sequence[Captured], stream: Stream, now: datetime
    ) -> None:
        """Refuses a period of which something may have expired, unless captures make up for it."""
        ended = _end_of(mine)
        if period.start is None:
            is_gone = ended is not None and order_of(ended) < order_of(str(held.sequence))
        else:
            is_gone = max(period.start, stream.created_at) < now - stream.retention
            is_gone = is_gone and not covers(mine, str(held.sequence), period.start)
        if is_gone:
            raise RangeExpired(
                name=self.name,
                partition=shard,
                held_from=str(held.sequence),
                first_at=held.at,
                expected_from=ended if period.start is None else None,
            )

    def _end(self, shard: Shard, period: Period, now: datetime) -> tuple[str | None, str | None]:
        """The position behind the last record of a period, and the one behind everything where that was looked for."""
        if period.end is not None:
            at = period.end + self._declared.lateness
            behind = self._first(shard.name, ShardIteratorType="AT_TIMESTAMP", Timestamp=at)
            if behind is not None:
                return str(behind.sequence), None
        last = shard.closed or self._last(shard.name, now)
        end = None if last is None else f"{last}+"
        return end, end

    def _last(self, shard: str, now: datetime) -> int | None:
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
        for batch in self._records(shard, **begins):
            last = batch[-1]
            if last.at >= now:
                break
        return last

    def _first(self, shard: str, **begins: Any) -> Record | None:
        if begins.get("Timestamp", _BEGINNING) >= datetime.now(UTC):
            return None  # the service refuses to look there
        return next((batch[0] for batch in self._records(shard, most=1, **begins)), None)

    # ------------------------------------------------------------------------------------------------ what is written

    def pieces(self, span: Span, captured: Sequence[Span]) -> Iterator[Span]:
        """Cut where every capture cuts: at the first record of each hour, or what else a chunk is."""
        at, end = span.range_from, span.range_to
        done = sorted(
            ((each.range_from, each.range_to) for each in captured if each.partition == span.partition),
            key=lambda each: order_of(each[0]),
        )
        for begun, until in [*done, (end, end)]:
            to = min(begun, end, key=order_of)
            if order_of(at) < order_of(to):
                yield from self._cut(span.partition, at, to)
            at = max(at, until, key=order_of)

    def _cut(self, shard: str, start: str, end: str) -> Iterator[Span]:
        chunk, at = self._declared.chunk, start
        first = self._first(shard, **_begins(at))
        while first is not None:
            behind = datetime.fromtimestamp(first.at.timestamp() // chunk.total_seconds() * chunk.total_seconds(), UTC)
            first = self._first(shard, ShardIteratorType="AT_TIMESTAMP", Timestamp=behind + chunk)
            if first is None or order_of(str(first.sequence)) >= order_of(end):
                break
            if order_of(str(first.sequence)) > order_of(at):
                yield Span(partition=shard, range_from=at, range_to=str(first.sequence))
                at = str(first.sequence)
        yield Span(partition=shard, range_from=at, range_to=end)

    def file_name(self, resolution: Resolution, piece: Span) -> str:
        created = resolution.stream.rpartition("/")[2]
        shard = piece.partition.rpartition("-")[2]
        positions = f"{piece.range_from}-{piece.range_to}".replace("+", "x")
        return f"{self._declared.stream}-{created}/{created}-{shard}-{positions}{self.kind.suffix}"

    def write(self, piece: Span, copy: Path, pace: Pace) -> Written:
        records, first, last = 0, None, None
        with copy.open("wb") as file, gzip.GzipFile("", "wb", _LEVEL, file, mtime=0) as packed:
            for batch in self._between(piece, most=min(_MOST_AT_ONCE, pace.most_at_once)):
                packed.write(b"".join(line_of(piece.partition, each) for each in batch))
                times = [each.at for each in batch]
                first = min([*times, *([] if first is None else [first])])
                last = max([*times, *([] if last is None else [last])])
                records += len(batch)
                pace.took(len(batch), sum(len(each.value) + len(each.key) for each in batch))
        return Written(records=records, first_at=first, last_at=last)

    def recorded(self, piece: Span) -> None:
        """A stream forgets by itself, and for everybody."""

    def _between(self, piece: Span, *, most: int) -> Iterator[list[Record]]:
        """The records of a piece, in their order.

        Raises:
            RangeExpired: Its first record is gone by now.
            ReadFailed: The shard ended before the piece does.
        """
        start, end = order_of(piece.range_from), order_of(piece.range_to)
        is_first, reached = not piece.range_from.endswith("+"), False
        for batch in self._records(piece.partition, most=most, **_begins(piece.range_from)):
            if is_first and batch[0].sequence != start[0]:
                raise RangeExpired(
                    name=self.name,
                    partition=piece.partition,
                    held_from=str(batch[0].sequence),
                    first_at=batch[0].at,
                    expected_from=None,
                )
            is_first = False
            within = [each for each in batch if (each.sequence, 0) < end]
            reached = len(within) < len(batch) or (bool(within) and (within[-1].sequence, 1) >= end)
            if within:
                yield within
            if reached:
                return
        if piece.range_to != f"{self._closed.get(piece.partition)}+":  # the end of a closed shard is no record
            raise ReadFailed(name=self.name, why=f"{piece.partition} ended before {piece.range_to}")

    # ------------------------------------------------------------------------------------------------- the connection

    def _records(self, shard: str, *, most: int = _MOST_AT_ONCE, **begins: Any) -> Iterator[list[Record]]:
        """The records of a shard from a position on, some at a time, up to the newest one or its end.

        An iterator that has expired is renewed behind the last record, or where it began.
        """
        asked = {"StreamName": self._declared.stream, "ShardId": shard, **begins}
        iterator = self._ask("get_shard_iterator", **asked)["ShardIterator"]
        while iterator is not None:
            begun = time.monotonic()
            answered = self._ask("get_records", ShardIterator=iterator, Limit=most, expires=True)
            if answered is None:
                iterator = self._ask("get_shard_iterator", **asked)["ShardIterator"]
                continue
            found = [_record(each) for each in answered["Records"]]
            if found:
                behind = _begins(f"{found[-1].sequence}+")
                asked = {"StreamName": self._declared.stream, "ShardId": shard, **behind}
                yield found
            iterator = answered.get("NextShardIterator")
            if not found and answered.get("MillisBehindLatest", 0) == 0:
                return
            if not self._declared.endpoint:
                time.sleep(max(0.0, begun + _PAUSE_S - time.monotonic()))

    def _ask(self, what: str, *, expires: bool = False, **asked: Any) -> Any:
        """What the service answers; None where an iterator has expired.

        Raises:
            Retryable: It does not answer, or not any more.
        """
        from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

        until, pause = time.monotonic() + self._seconds, _PAUSE_S
        while True:
            try:
                return getattr(self._client, what)(**asked)
            except NoCredentialsError:
                raise StreamDenied(name=self.name, why="there are none") from None
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
                why = f" ({type(error).__name__})"
                raise StreamAway(name=self.name, seconds=self._seconds, why=why) from None

    def _failure(self, code: str, said: str) -> Exception:
        if code in _DENIED:
            return StreamDenied(name=self.name, why=code)
        if code == "ResourceNotFoundException":
            where = self._declared.endpoint or self._declared.region
            return NoStream(name=self.name.removeprefix("the "), servers=where)
        if code in _LATER:
            return StreamAway(name=self.name, seconds=self._seconds, why=f" ({code})")
        return ReadFailed(name=self.name, why=f"{code}: {said}".rstrip(" .:"))

    @property
    def _seconds(self) -> float:
        return max(0.1, self._declared.answers_within / timedelta(seconds=1))

    @cached_property
    def _client(self) -> Any:
        try:
            import boto3
            from botocore.config import Config
        except ImportError:
            raise PackageMissing(what="a capture from Kinesis", package="boto3", extra="kinesis") from None
        patience = Config(
            connect_timeout=self._seconds,
            read_timeout=self._seconds,
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


def in_order(shards: Sequence[Shard]) -> Iterator[Shard]:
    """Shards after their parents, as far as these are there still."""
    by_name = {each.name: each for each in sorted(shards, key=lambda shard: shard.name)}
    follows = {name: [each for each in shard.parents if each in by_name] for name, shard in by_name.items()}
    for name in TopologicalSorter(follows).static_order():
        yield by_name[name]


def line_of(shard: str, record: Record) -> bytes:
    """One landed record: what Kinesis says of it, and the members of its data as they were written."""
    at = record.at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds")
    said = (
        f'"{PREFIX}shard": {quoted(shard)}, "{PREFIX}sequence": "{record.sequence}", "{PREFIX}arrived_at": "{at}Z", '
        f'"{PREFIX}partition_key": {quoted(record.key)}'
    )
    members = members_of(record.value, PREFIX)
    if members is None:
        return f'{{{said}, "{PREFIX}value": "{base64.b64encode(record.value).decode()}"}}\n'.encode()
    return b"{%b%b%b}\n" % (said.encode(), members and b", ", members)


def _shard(found: Mapping[str, Any]) -> Shard:
    numbers = found["SequenceNumberRange"]
    return Shard(
        name=found["ShardId"],
        parents=tuple(found[each] for each in ("ParentShardId", "AdjacentParentShardId") if found.get(each)),
        begun=numbers["StartingSequenceNumber"],
        closed=numbers.get("EndingSequenceNumber") or "",
    )


def _begins(position: str) -> Mapping[str, Any]:
    kind = "AFTER_SEQUENCE_NUMBER" if position.endswith("+") else "AT_SEQUENCE_NUMBER"
    return {"ShardIteratorType": kind, "StartingSequenceNumber": position.removesuffix("+")}


def _record(found: Mapping[str, Any]) -> Record:
    return Record(
        sequence=int(found["SequenceNumber"]),
        at=_in_utc(found["ApproximateArrivalTimestamp"]),
        key=found["PartitionKey"],
        value=found["Data"],
    )


def _in_utc(at: datetime) -> datetime:
    return at.astimezone(UTC)


def _end_of(captured: Sequence[Span]) -> str | None:
    return max((each.range_to for each in captured), key=order_of, default=None)


def covers(captured: Sequence[Captured], held: str, start: datetime) -> bool:
    """Whether every record of a period before the first one that is left was captured, as far as positions prove it."""
    complete: str | None = None
    for each in sorted(captured, key=lambda span: order_of(span.range_from)):
        is_from_start = each.since is not None and each.since <= start
        if is_from_start or (complete is not None and order_of(each.range_from) <= order_of(complete)):
            complete = each.range_to if complete is None else max(complete, each.range_to, key=order_of)
    return complete is not None and order_of(complete) >= order_of(held)


def _empty(shard: str, position: str, *, held: Record | None = None) -> Resolved:
    """A shard that has nothing of a period that is not captured."""
    begins = position if held is None else str(held.sequence)
    return Resolved(partition=shard, range_from=position, range_to=position, held_from=begins, held_to=position)

"""Kinesis replay: a stream that is written to in batches, and how many records are in it for certain, in the ledger.

A stream has no headers and no transactions. Each record is an envelope, which has its number in the replay; what was
sent by a process that died, before the ledger knew of it, is sent again with the same number. `PutRecords` accepts some
records of a request and not others, so that a request has at most one record of a key: the next one of the key follows
when that one is in the stream. So the numbers of a key rise, but for those that come again.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NoReturn

from backfill_assets.capture.errors import NoStream
from backfill_assets.capture.json_members import quoted
from backfill_assets.capture.kinesis.client import KinesisClient, Shard, Stream
from backfill_assets.capture.kinesis.declaration import KinesisReplay
from backfill_assets.capture.kinesis.stream import PREFIX
from backfill_assets.core.crash_points import Point, Reached
from backfill_assets.core.errors import Refused
from backfill_assets.core.progress import waiting
from backfill_assets.deliver.errors import TargetGone
from backfill_assets.deliver.sinks import (
    CapturedFiles,
    Outgoing,
    Target,
    as_captured,
    milliseconds,
    position_header,
)
from backfill_assets.ledger.records import ReplayPart, ReplayRecord
from backfill_assets.ledger.replays import replay_taken_over
from backfill_assets.ledger.store import Ledger

MARK = "backfill-replay"
"""The tag of a stream that says for which replay it was created."""
DELIVERY = "at-least-once"
"""The value of the header `x-delivery` of each record."""
MOST_RECORDS = 500
MOST_BYTES = 5 * 2**20
"""The limits of one request."""
LARGEST = 2**20
"""The limit of one record with its key."""
_KEY = range(1, 257)
"""How many characters a partition key has."""
_SHARE = 0.8
"""The part of a shard's capacity that is used evenly; the rest may be sent at once, so that no second exceeds it."""
_A_SECOND = (1_000, 2**20)
"""The records and bytes that a shard takes in one."""
_SOON_S = 1e-6
"""The rest of a wait that rounding leaves."""
_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 2.0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A record of a request."""

    key: str  #: Its partition key.
    held: bytes  #: Its data.

    @property
    def size_bytes(self) -> int:
        """The size in bytes, as the service counts it."""
        return len(self.key.encode()) + len(self.held)


@dataclass(slots=True)
class Allowance:
    """The records that may be sent to a shard now."""

    now: Callable[[], float] = time.monotonic  #: Seconds of a clock that never goes back.
    _left: list[float] = field(default_factory=lambda: [(1 - _SHARE) * each for each in _A_SECOND])
    _at: float | None = None

    def wait(self, size_bytes: int) -> float:
        """The seconds until a record of this size may be sent; 0 for now."""
        at = self.now()
        if self._at is not None:
            gained = zip(self._left, _A_SECOND, strict=True)
            since = _SHARE * (at - self._at)
            self._left = [min((1 - _SHARE) * most, left + since * most) for left, most in gained]
        self._at = at
        records, size = self._left
        # Before a record that is larger than what may be sent at once, nothing else was; those after it wait for it.
        wanted = min(float(size_bytes), (1 - _SHARE) * _A_SECOND[1])
        left = max((1 - records) / (_SHARE * _A_SECOND[0]), (wanted - size) / (_SHARE * _A_SECOND[1]))
        return left if left > _SOON_S else 0.0

    def took(self, entry: Entry) -> None:
        """A record is sent."""
        self._left = [self._left[0] - 1, self._left[1] - entry.size_bytes]


class ReplayStream:
    """The stream of a replay, there or not.

    Args:
        declared: How its region is reached.
        secret: The credentials, by the name of boto3's argument.
        ledger: Where it is kept how far the sending is.
        reached: Called at the places at which a process can be stopped.
    """

    def __init__(
        self, declared: KinesisReplay, stream: str, *, secret: Mapping[str, str], ledger: Ledger, reached: Reached
    ) -> None:
        self._declared, self._ledger, self._reached = declared, ledger, reached
        self._client = KinesisClient(declared, stream, secret=secret, what="a replay to Kinesis")

    @property
    def name(self) -> str:
        return self._client.name

    @property
    def place(self) -> str:
        return self._declared.region

    def found(self) -> Target | None:
        there = self._settled()
        if there is None:
            return None
        return Target(there.identity, sum(not each.closed for each in self._client.shards()))

    def _settled(self) -> Stream | None:
        """The stream as soon as it is not being created, changed or deleted: only then it can be deleted."""
        until = time.monotonic() + self._client.seconds
        with waiting(lambda: f"waiting until Kinesis is done with the stream {self._client.stream}"):
            while True:
                try:
                    there = self._client.summary()
                except NoStream:
                    return None
                if there.status == "ACTIVE":
                    return there
                if time.monotonic() > until:
                    raise self._client.away(f"it is {there.status}")
                time.sleep(_PAUSE_S)

    @property
    def mark(self) -> str:
        answered = self._client.ask("list_tags_for_stream", StreamName=self._client.stream)
        return next((str(each["Value"]) for each in answered["Tags"] if each["Key"] == MARK), "")

    def partitions_of(self, parts: Sequence[ReplayPart]) -> int:  # noqa: ARG002 - as of any sink
        """Keys are divided among shards by their hash, wherever they were."""
        return self._declared.shards

    def create(self, *, partitions: int, mark: str) -> Target:
        """Creates the stream, with its mark from the first moment."""
        self._client.ask("create_stream", StreamName=self._client.stream, ShardCount=partitions, Tags={MARK: mark})
        there = self.found()
        if there is None:
            raise self._client.away("it is not there yet")
        return there

    def delete(self) -> None:
        with suppress(NoStream):
            self._client.ask("delete_stream", StreamName=self._client.stream)
        self._settled()

    @contextmanager
    def sender(self, replay: ReplayRecord, *, by: str) -> Iterator[StreamSender]:
        kept = self._declared.retention
        yield StreamSender(self._client, self._ledger, replay, by=by, retention=kept, reached=self._reached)


class StreamSender:
    """Writes records in requests, and after each batch how many there are.

    Args:
        client: The stream.
        ledger: Where it is kept how far the sending is.
        by: Who sends.
        retention: How long the stream keeps records.
        reached: Called at the places at which a process can be stopped.
    """

    def __init__(
        self,
        client: KinesisClient,
        ledger: Ledger,
        replay: ReplayRecord,
        *,
        by: str,
        retention: timedelta,
        reached: Reached,
    ) -> None:
        self._client, self._ledger, self._replay, self._by = client, ledger, replay, by
        self._retention: timedelta | None = retention
        self._reached = reached
        self._token = secrets.token_hex(8)
        with ledger.write() as tx:
            tx.replays.take(replay.replay_id, self._token, by=by)
        self._shards: Sequence[tuple[Shard, Allowance]] = ()

    def _keep(self, retention: timedelta) -> None:
        """Lets the stream keep records for so long; a new one keeps them for a day."""
        self._retention = None
        if self._client.summary().retention < retention:
            hours = retention // timedelta(hours=1)
            self._client.ask(
                "increase_stream_retention_period", StreamName=self._client.stream, RetentionPeriodHours=hours
            )

    def progress(self) -> int | None:
        with self._ledger.read() as tx:
            return tx.replays.get(self._replay.replay_id).progress

    def commit(self, batch: Sequence[Outgoing], done: int) -> None:
        """Writes records, then how many there are: who dies between the two sends them again."""
        first = done - len(batch) + 1
        waiting: dict[str, deque[Entry]] = {}
        for number, record in enumerate(batch, first):
            entry = Entry(key=partition_key(record, number), held=enveloped(record, number))
            if entry.size_bytes > LARGEST:
                raise Refused.coded(
                    "too_large_for_stream",
                    "a record with its key and its envelope has {size_bytes} bytes, and one of {name} has at most "
                    "{most_bytes}.",
                    then="replay to a topic, or only days without such a record",
                    name=self._client.name,
                    size_bytes=f"{entry.size_bytes:,}",
                    most_bytes=f"{LARGEST:,}",
                )
            waiting.setdefault(entry.key, deque()).append(entry)
        try:
            if self._retention is not None:
                self._keep(self._retention)
            self._put(waiting)
        except NoStream:
            self._require_mine()
            raise TargetGone(name=self._client.name, replay_id=self._replay.replay_id) from None
        self._reached(Point.REPLAY_PUT)
        with self._ledger.write() as tx:
            tx.replays.progressed(self._replay.replay_id, self._token, done, by=self._by)

    def ends(self, done: int) -> Mapping[str, str]:  # noqa: ARG002 - as of any sink
        """The last position of each shard that has records; no other process writes to the stream."""
        now = datetime.now(UTC)
        last = {each.name: self._client.last(each.name, now) for each in self._client.shards()}
        return {name: f"{found}+" for name, found in last.items() if found is not None}

    # ------------------------------------------------------------------------------------------------- the requests

    def _put(self, waiting: dict[str, deque[Entry]]) -> None:
        """Sends records until all of them are in the stream, of each key one after the other."""
        accepted_at, pause = time.monotonic(), _PAUSE_S
        while waiting:
            self._require_mine()
            request = self._request(waiting)
            if not request:
                time.sleep(_PAUSE_S)
                continue
            entries = [{"PartitionKey": each.key, "Data": each.held} for each in request]
            answered = self._client.ask("put_records", StreamName=self._client.stream, Records=entries)["Records"]
            refused = [said["ErrorCode"] for said in answered if said.get("ErrorCode")]
            for entry, said in zip(request, answered, strict=True):
                if not said.get("ErrorCode"):
                    waiting[entry.key].popleft()
                    if not waiting[entry.key]:
                        del waiting[entry.key]
            if len(refused) < len(request):
                accepted_at = time.monotonic()
            elif time.monotonic() > accepted_at + self._client.seconds:
                raise self._client.away(refused[0])
            pause = min(2 * pause, _LONGEST_PAUSE_S) if 2 * len(refused) > len(request) else _PAUSE_S
            if refused or len(request) < min(MOST_RECORDS, len(waiting)):
                time.sleep(pause)  # until the shards take more: not one request for each record

    def _request(self, waiting: Mapping[str, deque[Entry]]) -> list[Entry]:
        """The first waiting record of as many keys as a request, and now their shards, take."""
        chosen: list[Entry] = []
        size = 0
        for queue in waiting.values():
            entry = queue[0]
            if size + entry.size_bytes > MOST_BYTES:
                continue
            allowance = self._allowance(entry.key)
            if allowance.wait(entry.size_bytes) > 0:
                continue
            allowance.took(entry)
            chosen.append(entry)
            size += entry.size_bytes
            if len(chosen) == MOST_RECORDS:
                break
        return chosen

    def _open_shards(self) -> Sequence[tuple[Shard, Allowance]]:
        if not self._shards:
            self._shards = [(each, Allowance()) for each in self._client.shards() if not each.closed]
        return self._shards

    def _allowance(self, key: str) -> Allowance:
        """The allowance of the shard that has the records of a key, by the hash that the service takes."""
        at = int.from_bytes(hashlib.md5(key.encode(), usedforsecurity=False).digest())
        shards = self._open_shards()
        return next((mine for shard, mine in shards if shard.hashes[0] <= at <= shard.hashes[1]), shards[0][1])

    def _require_mine(self) -> None:
        with self._ledger.read() as tx:
            if not tx.replays.is_sender(self._replay.replay_id, self._token):
                raise replay_taken_over(self._replay.replay_id)


def partition_key(record: Outgoing, number: int) -> str:
    """The partition key of a record: its key; a digest where that is none, and its number where it has none.

    Args:
        number: Its number in the replay.
    """
    if record.key is None:
        return str(number)
    try:
        found = record.key.decode()
    except UnicodeDecodeError:
        found = ""
    return found if len(found) in _KEY else hashlib.sha256(record.key).hexdigest()


def enveloped(record: Outgoing, number: int) -> bytes:
    """A record of a stream: one JSON object with all that a record of a topic has, and its number in the replay."""
    at = (_EPOCH + timedelta(milliseconds=record.at)).replace(tzinfo=None).isoformat(timespec="milliseconds")
    headers = [*record.headers, ("x-delivery", DELIVERY)]
    said = ", ".join(f"[{quoted(name)}, {_text(value)}]" for name, value in headers)
    start = f'{{"sequence": {number}, "at": "{at}Z", "key": {_text(record.key)}, "headers": [{said}], '
    if record.value is None:
        return f'{start}"value": null}}'.encode()
    if _is_object(record.value):
        return b'%b"value": %b}' % (start.encode(), record.value.strip())
    return f'{start}"value_base64": "{base64.b64encode(record.value).decode()}"}}'.encode()


def _text(value: str | bytes | None) -> str:
    """A key or the value of a header as JSON: a text, or an object with bytes that are none."""
    if not isinstance(value, bytes):
        return quoted(value)
    try:
        return quoted(value.decode())
    except UnicodeDecodeError:
        return quoted({"base64": base64.b64encode(value).decode()})


def _is_object(value: bytes) -> bool:
    """True if any reader of JSON reads a value as an object."""
    try:
        return isinstance(json.loads(value.decode(), parse_constant=_no_number), dict)
    except (ValueError, RecursionError):
        return False


def _no_number(said: str) -> NoReturn:
    raise ValueError(said)


def open_sink(
    declared: KinesisReplay, target: str, *, secret: Mapping[str, str], ledger: Ledger, reached: Reached
) -> ReplayStream:
    """The stream of a replay: the ledger knows how far the sending is."""
    return ReplayStream(declared, target, secret=secret, ledger=ledger, reached=reached)


def captured_records(parts: Sequence[ReplayPart], files: CapturedFiles) -> Iterator[Outgoing | None]:
    """The records of captured files, with partition keys, data as written, and arrival times of their stream; None for
    one that is of one value with the one before it."""
    for part in parts:
        headers, before = files.headers(part), None
        for line in files.lines(part):
            said, value = as_captured(line, PREFIX)
            position = said["kinesis_sequence"], said.get("kinesis_subsequence")
            if position == before:
                yield None
                continue
            before = position
            yield Outgoing(
                key=said["kinesis_partition_key"].encode(),
                value=value,
                headers=[*headers, position_header(part, part.stream_partition, said["kinesis_sequence"])],
                at=milliseconds(datetime.fromisoformat(said["kinesis_arrived_at"])),
            )

"""Kafka capture: ranges of offsets of a topic as files of JSON lines.

Partitions are assigned by hand and nothing is ever committed, so that no consumer group notices. The end of a range is
a position, not a record: the last offsets may be markers of transactions, which no consumer sees.
"""

from __future__ import annotations

import base64
import secrets
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.capture import debezium
from backfill_assets.capture.declared import secrets_named
from backfill_assets.capture.errors import (
    CannotBeCaptured,
    CreatedAgain,
    NothingCaptured,
    NotOffered,
    OtherTopic,
    RangeExpired,
    WentBack,
)
from backfill_assets.capture.json_members import (
    PROBLEM,
    as_written,
    json_of,
    member_at,
    members_of,
    quoted,
    several,
    text_or_base64,
    values_in,
)
from backfill_assets.capture.kafka import FAMILY
from backfill_assets.capture.kafka.client import KafkaClient, TopicIdentity
from backfill_assets.capture.kafka.declaration import FIXED, KafkaTopic
from backfill_assets.capture.landed_files import FileKind, Format
from backfill_assets.capture.schemas.declaration import BrokenValue, SchemaRegistry
from backfill_assets.capture.schemas.registry import ValueReader, value_reader
from backfill_assets.capture.streams import (
    SCAN,
    Captured,
    CapturePeriod,
    Operated,
    Pace,
    Resolution,
    Resolved,
    Span,
    Written,
    covers,
    cut,
    new_scan,
    write_lines,
)
from backfill_assets.core.errors import Refused, Retryable
from backfill_assets.core.progress import waiting
from backfill_assets.domain import SourceTable

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message


# Kafka messages: what Kafka says of a record beside its value, as a landed record has it.

NO_TIME = 253_402_300_800_000
"""The milliseconds since 1970 that no calendar of ours has, from the year 10,000 on: a producer may write any."""
_TIMESTAMP_TYPES = {1: "create", 2: "append"}


def kafka_members(message: Message) -> str:
    """Kafka's metadata of a record, as members of a JSON object; written by hand, because a capture spends its time
    here."""
    kind, at = message.timestamp()
    said = f'"kafka_partition": {message.partition()}, "kafka_offset": {message.offset()}'
    if kind in _TIMESTAMP_TYPES and (written := iso(at)) is not None:
        said += f', "kafka_timestamp": "{written}", "kafka_timestamp_type": "{_TIMESTAMP_TYPES[kind]}"'
    key, headers = message.key(), message.headers()
    if key is not None:
        ((name, text),) = text_or_base64("kafka_key", key).items()
        said += f', "{name}": {quoted(text)}'
    if headers:
        assert isinstance(headers, list)
        said += f', "kafka_headers": {quoted(quoted([_header(name, value) for name, value in headers]))}'
    return said


def _header(name: str, value: str | bytes | None) -> Mapping[str, str | None]:
    held = value.encode() if isinstance(value, str) else value
    return {"name": name, **({"value": None} if held is None else text_or_base64("value", held))}


def size_of(message: Message) -> int:
    """The size of a record in bytes."""
    return len(message.value() or b"") + len(message.key() or b"")


def times_of(batch: Sequence[Message]) -> Iterator[tuple[int, int | None]]:
    """The offsets and the timestamps of records."""
    return ((each.offset() or 0, milliseconds(each)) for each in batch)


def milliseconds(message: Message) -> int | None:
    """The timestamp of a record, as Kafka has it; None for none."""
    kind, at = message.timestamp()
    return at if kind in _TIMESTAMP_TYPES else None


def time_of(message: Message) -> datetime | None:
    """The timestamp of a record; None for none, and for one of no calendar."""
    return instant(milliseconds(message))


def instant(since_ms: int | None) -> datetime | None:
    """The instant of a timestamp; None for one of no calendar."""
    if since_ms is None:
        return None
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=since_ms)
    except OverflowError:  # a producer may write any number
        return None


def iso(since_ms: int) -> str | None:
    """A timestamp as a landed record has it; None for one of no calendar."""
    second = _iso_second(since_ms // 1000)
    return None if second is None else f"{second}.{since_ms % 1000:03}Z"


@lru_cache(maxsize=10_000)
def _iso_second(second: int) -> str | None:
    found = instant(second * 1000)
    return None if found is None else found.replace(tzinfo=None).isoformat(timespec="seconds")


TOMBSTONE = "kafka_tombstone"
"""The member of a landed record that had no value."""
_SAMPLED = 100
"""So many records of a partition say about how long the others are."""
_WAITED_S = 0.1
"""How long a batch is waited for that is not full: of a range of which some offsets have no record."""
_LOOKED_BACK = 100
"""So many offsets before a piece are looked at for the last record with a value."""
_NOTHING = "{}"
_ABSENT = object()
_HELD = b', "kafka_value": "'
_PINNED = ("cleanup.policy", "retention.ms", "message.timestamp.type")
_BY_BROKER = 2
_AT_ONCE = 5_000
"""So many records are looked at together when only their timestamps are asked for."""


class KafkaStream:
    """A topic that was opened.

    Args:
        declared: The topic as its source declares it.
        secret: The secret settings of the client.
        operated: How the source names operations, by which a record without a value is a delete; None without any.
        values: What reads values that name their schema; None where they are JSON objects.
    """

    kind = FileKind(format=Format.JSONL, compression="gzip")

    def __init__(
        self,
        declared: KafkaTopic,
        *,
        secret: Mapping[str, str],
        operated: Operated | None = None,
        values: ValueReader | None = None,
    ) -> None:
        self._declared = declared
        self._deletes = operated if operated is not None and operated.delete is not None else None
        self._in_events = self._deletes is not None and self._deletes.in_events
        self._values = values
        self._before: debezium.Keyed | None = None
        self._held: list[Message] = []
        self._reached: tuple[int, int] | None = None
        self._client = KafkaClient(declared, declared.topic, secret=secret, what="a capture from Kafka")

    @property
    def name(self) -> str:
        return self._client.name

    def close(self) -> None:
        if "_consumer" in self.__dict__:
            self._consumer.close()

    # ------------------------------------------------------------------------------------------------- what it holds

    def resolve(self, period: CapturePeriod, captured: Sequence[Captured]) -> Resolution:
        topic, configured = self._identity(), self._client.configuration()
        pinned = {name: configured[name] for name in _PINNED}
        is_compacted = "compact" in pinned["cleanup.policy"]
        if is_compacted:
            # For so long a key that was deleted has a record that says so.
            pinned["delete.retention.ms"] = configured["delete.retention.ms"]
        if period.is_whole:
            if not is_compacted:
                raise NotOffered(name=self.name, why="holds changes, and no present state that a snapshot could read")
            if period.start or period.end:
                raise NotOffered(
                    name=self.name, why="cannot be asked for a period: a capture reads everything that it has now"
                )
            spans = self._whole(topic.partitions, captured, pinned)
        else:
            spans = tuple(self._resolved(partition, period, captured, pinned) for partition in topic.partitions)
        if period.start is None and not captured and not period.is_whole:
            raise NothingCaptured(source=self._declared.topic)
        return Resolution(
            family=FAMILY.name,
            name=self._declared.topic,
            stream=f"{topic.cluster}/{topic.topic_id}",
            pinned={
                **pinned,
                "isolation.level": str(FIXED["isolation.level"]),
                "partitions": str(len(topic.partitions)),
            },
            is_compacted=is_compacted,
            spans=spans,
            is_whole=period.is_whole,
        )

    def _whole(
        self, partitions: Sequence[int], captured: Sequence[Captured], pinned: Mapping[str, str]
    ) -> tuple[Resolved, ...]:
        """Everything that a compacted topic has: the last record of every key is among it."""
        if self._deletes is None:
            why = "a record without a value ends its key there, and its source declares no delete"
            raise CannotBeCaptured(name=self.name, why=why)
        scan, found = new_scan(captured), []
        for partition in partitions:
            low, high = self._watermarks(partition)
            if low < high:
                found.append(self._span(partition, low, high, (low, high), pinned, name=f"{scan}-{partition}"))
        return tuple(found)

    def require_same(self, stream: str) -> None:
        topic = self._identity()
        found = f"{topic.cluster}/{topic.topic_id}"
        if found != stream and not self._declared.topic_id:
            raise CreatedAgain(name=self.name, expected=stream, found=found)

    def behind(self, group: str) -> int:
        partitions = self._identity().partitions
        committed = self._client.committed(group, partitions)
        if not committed:
            raise Refused.coded(
                "no_offset_of_group",
                "the consumer group {group} has committed no offset of {name}, so its lag is not known.",
                then="check the name of the group",
                name=self.name,
                group=group,
            )
        held = {each: self._watermarks(each) for each in partitions}
        return sum(high - max(low, committed.get(each, low)) for each, (low, high) in held.items())

    def _identity(self) -> TopicIdentity:
        found = self._client.identity()
        if self._declared.topic_id not in ("", found.topic_id):
            raise OtherTopic(name=self.name, expected=self._declared.topic_id, found=found.topic_id)
        return found

    def _resolved(
        self, partition: int, period: CapturePeriod, captured: Sequence[Captured], pinned: Mapping[str, str]
    ) -> Resolved:
        low, high = self._watermarks(partition)
        mine = [each for each in captured if each.partition == str(partition)]
        # What is whole has landed, so that nothing before its end is missing.
        scans = [each for each in captured if each.is_complete and each.partition.startswith(SCAN)]
        wholes = [each for each in scans if number_of(each.partition) == partition]
        last = max((int(each.range_to) for each in [*mine, *wholes]), default=None)
        if last is not None and last > high:
            # A replica took over that lacked records: what is written now gets the offsets of those that were captured.
            named = f"partition {partition} of {self.name}"
            raise WentBack(name=named, captured=last - 1, found=high, position="offset")
        if period.start is None:
            start = low if last is None else last
            if start < low or (last is None and low > 0):
                raise self._expired(partition, low, high, expected=last or 0)
        else:
            start = self._offset_at(partition, period.start, high)
            # Whether something of the period was before the first offset is not known, unless it was captured.
            if low > 0 and not covers(mine, low, period.start, int, complete=0):
                first = self._first(partition, low, high)
                if first is None or first + self._declared.lateness >= period.start:
                    raise self._expired(partition, low, high, expected=None)
        if period.end is None:
            end = high
        else:
            is_by_broker = pinned["message.timestamp.type"] == "LogAppendTime"
            end = self._end(partition, period.end + self._declared.lateness, high, is_by_broker=is_by_broker)
        start, end = min(start, high), max(min(end, high), min(start, high))
        return self._span(partition, start, end, (low, high), pinned, name=str(partition))

    def _span(
        self, partition: int, start: int, end: int, held: tuple[int, int], pinned: Mapping[str, str], *, name: str
    ) -> Resolved:
        sampled = self._sample(partition, start, end)
        first_at = time_of(sampled[0]) if sampled else None
        return Resolved(
            partition=name,
            range_from=str(start),
            range_to=str(end),
            held_from=str(held[0]),
            held_to=str(held[1]),
            records=end - start,
            size_bytes=(end - start) * sum(map(size_of, sampled)) // len(sampled) if sampled else 0,
            first_at=first_at,
            expires_at=_expiry(first_at, pinned),
        )

    def _expired(self, partition: int, low: int, high: int, *, expected: int | None) -> RangeExpired:
        return RangeExpired(
            name=self.name,
            partition=str(partition),
            held_from=str(low),
            first_at=self._first(partition, low, high),
            expected_from=None if expected is None else str(expected),
        )

    def _first(self, partition: int, low: int, high: int) -> datetime | None:
        sampled = self._sample(partition, low, high, most=1)
        return time_of(sampled[0]) if sampled else None

    def _watermarks(self, partition: int) -> tuple[int, int]:
        with self._client.asking():
            low, high = self._consumer.get_watermark_offsets(self._client.at(partition), timeout=self._client.seconds)
        return low, high

    def _offset_at(self, partition: int, at: datetime, high: int) -> int:
        """The first offset with a timestamp at or after an instant; the end where there is none."""
        asked = self._client.at(partition, int(at.timestamp() * 1000))
        with self._client.asking():
            (found,) = self._consumer.offsets_for_times([asked], timeout=self._client.seconds)
        if found.error is not None:
            raise self._failure(found.error)
        return high if found.offset < 0 else found.offset

    def _end(self, partition: int, at: datetime, high: int, *, is_by_broker: bool) -> int:
        """The offset behind the last record with a timestamp before an instant.

        The broker finds the first one that is not before it, which may be of a producer whose clock is ahead, and also
        a marker of a transaction, which has the time of its end. So what is behind it is read, up to a record that has
        its time from the broker, behind which they rise. What an open transaction holds back is read too.

        Args:
            is_by_broker: Whether records get their time from the broker now.

        Raises:
            Retryable: Some of these records are behind a transaction that is not finished.
        """
        found, until = self._offset_at(partition, at, high), at.timestamp() * 1000
        for batch in self._messages(partition, found, high, most=_AT_ONCE):
            kind, time = batch[0].timestamp()
            if is_by_broker and kind == _BY_BROKER and time >= until:
                break
            behind = [offset for offset, each in times_of(batch) if each is None or each < until]
            found = max([found, *(offset + 1 for offset in behind)])
        if held := self._held_back(partition, high, until):
            raise Retryable.coded(
                "still_open",
                "{records} records of the period may be behind a transaction of partition {partition} of {name} that "
                "began at {position} and is not finished: nothing was read.",
                then="try again when it has ended; one whose producer is gone is aborted with kafka-transactions.sh",
                name=self.name,
                partition=str(partition),
                position=str(high),
                records=f"{held:,}",
            )
        return found

    def _held_back(self, partition: int, begin: int, until: float) -> int:
        """The number of records with an earlier timestamp behind a transaction that is not finished."""
        with closing(self._new_consumer({"isolation.level": "read_uncommitted"})) as consumer:
            with self._client.asking():
                _, end = consumer.get_watermark_offsets(self._client.at(partition), timeout=self._client.seconds)
            batches = self._messages(partition, begin, end, most=_AT_ONCE, consumer=consumer)
            return sum(1 for batch in batches for _, each in times_of(batch) if each is None or each < until)

    def first_values(self, most: int) -> tuple[list[bytes], bool]:
        """Values of the first records that the topic has, and whether it has no others. It only looks.

        Args:
            most: So many records of each partition at most.
        """
        found: list[bytes] = []
        is_whole = True
        for partition in self._identity().partitions:
            low, high = self._watermarks(partition)
            records = self._sample(partition, low, high, most=most)
            is_whole = is_whole and len(records) < most
            found += [value for each in records if (value := each.value()) is not None]
        return found, is_whole

    def _sample(self, partition: int, start: int, end: int, *, most: int = _SAMPLED) -> list[Message]:
        """Some records from the beginning of a range, to tell how long and how old they are."""
        found: list[Message] = []
        for batch in self._messages(partition, start, end, most=most):
            found += batch
            if len(found) >= most:
                break
        return found[:most]

    # ------------------------------------------------------------------------------------------------ what is written

    def pieces(self, span: Span, captured: Sequence[Span]) -> Iterator[Span]:
        for start, end in cut(span, captured, self._declared.chunk, int):
            yield Span(partition=span.partition, range_from=str(start), range_to=str(end))

    def file_name(self, resolution: Resolution, piece: Span) -> str:
        identity = resolution.stream.rpartition("/")[2]
        offsets = f"{int(piece.range_from):012}-{int(piece.range_to):012}"
        # An identity may begin with an underscore, and then the file would be a hidden one.
        return f"{self._declared.topic}-{identity}/topic-{identity}-{piece.partition}-{offsets}{self.kind.suffix}"

    def write(self, piece: Span, copy: Path, pace: Pace) -> Written:
        partition, start, end = number_of(piece.partition), int(piece.range_from), int(piece.range_to)
        self._before, self._held = self._last_value(partition, start) if self._in_events else None, []
        written = write_lines(copy, self._batches(partition, start, end, most=pace.most_at_once), pace)
        return written if self._values is None else replace(written, answer=self._values.kept())

    def _batches(
        self, partition: int, start: int, end: int, *, most: int
    ) -> Iterator[tuple[Sequence[bytes], int, Sequence[datetime]]]:
        for batch in self._messages(partition, start, end, most=most):
            # Of their numbers only two are made times: a capture spends its time here.
            numbers = [at for at in map(milliseconds, batch) if at is not None and at < NO_TIME]
            ends = (instant(min(numbers)), instant(max(numbers))) if numbers else ()
            yield list(self._lines(batch)), sum(map(size_of, batch)), [at for at in ends if at is not None]
        if self._held:
            yield list(self._released(self._next_value(partition, end))), 0, ()

    def _messages(
        self, partition: int, start: int, end: int, *, most: int, consumer: Consumer | None = None
    ) -> Iterator[list[Message]]:
        """The records of a range in their order, some at a time."""
        if start >= end:
            return
        is_own, topic = consumer is None, self._declared.topic
        consumer = consumer or self._consumer
        # Where the last range ended the client has read ahead, which a new assignment would throw away.
        if not is_own or self._reached != (partition, start):
            consumer.assign([self._client.at(partition, start)])
        self._reached = None
        at, heard, is_beyond = start, time.monotonic(), False
        is_silent = False
        with ExitStack() as silence:
            while at < end:
                answered = consumer.consume(num_messages=min(most, end - at), timeout=_WAITED_S)
                if answered:
                    silence.close()
                elif not is_silent:
                    silence.enter_context(waiting(lambda: f"waiting for the records of {topic} {partition} from {at}"))  # noqa: B023
                is_silent = not answered
                batch: list[Message] = []
                for message in answered:
                    error = message.error()
                    if error is not None and error.name() != "_PARTITION_EOF":
                        raise self._failure(error, partition=partition)
                    offset = message.offset()
                    assert offset is not None, f"a record of {topic} without an offset"
                    # At the end of the partition, the offset is that of the record that would be next.
                    if error is None and offset < end:
                        batch.append(message)
                    is_beyond = is_beyond or (error is None and offset >= end)
                    at = max(at, offset if error is not None else offset + 1)
                if answered:
                    heard = time.monotonic()
                self._require_heard(heard)
                if batch:
                    yield batch
                    heard = time.monotonic()  # who reads may have waited
        self._reached = None if is_beyond or not is_own else (partition, end)

    def _require_heard(self, heard: float) -> None:
        self._client.require_allowed()
        if time.monotonic() - heard > self._client.seconds:
            raise self._client.away()

    def _last_value(self, partition: int, start: int) -> debezium.Keyed | None:
        """The last record with a value before a piece: a record without one, at its beginning, may rest on it."""
        low, _ = self._watermarks(partition)
        earlier = self._messages(partition, max(low, start - _LOOKED_BACK), start, most=_LOOKED_BACK)
        with_value = (each for batch in earlier for each in batch if each.value() is not None)
        last = deque(filter(debezium.has_place, map(self._keyed, with_value)), maxlen=1)
        return last[0] if last else None

    def _next_value(self, partition: int, start: int) -> debezium.Keyed | None:
        """The first record with a value behind a piece: those without one, at its end, may rest on it."""
        _, high = self._watermarks(partition)
        later = self._messages(partition, start, high, most=_LOOKED_BACK)
        with_value = (self._keyed(each) for batch in later for each in batch if each.value() is not None)
        return next(filter(debezium.has_place, with_value), None)

    def _keyed(self, message: Message) -> debezium.Keyed | None:
        _, members = self._read(message.value() or b"")
        return None if members is None else debezium.Keyed(key=self._key_of(message), value=b"{%b}" % members)

    def _lines(self, batch: Sequence[Message]) -> Iterator[bytes]:
        """The landed records of a batch. Of events, those without a value wait for the next one that has one."""
        for message in batch:
            if self._in_events and message.value() is None:
                self._held.append(message)
                continue
            if self._held and debezium.has_place(after := self._keyed(message)):
                yield from self._released(after)
            yield from self._lines_of(message)

    def _lines_of(self, message: Message) -> Iterator[bytes]:
        """The landed record of a message, or of a value of several objects one for each, which are rejected."""
        line, value = self._line(message), message.value()
        found = values_in(value) if value is not None and self._values is None and _HELD in line else ()
        if not found:
            yield line
        for each in found:
            kept = f', "{PROBLEM}": {quoted(several(len(found)))}, "kafka_value": "{base64.b64encode(each).decode()}"'
            yield f"{{{kafka_members(message)}{kept}}}\n".encode()

    def _released(self, after: debezium.Keyed | None) -> Iterator[bytes]:
        held, self._held = self._held, []
        yield from (self._line(each, after) for each in held)

    def _line(self, message: Message, after: debezium.Keyed | None = None) -> bytes:
        """One landed record: what Kafka says of it, and the members of the value as they were written."""
        value, said = message.value(), kafka_members(message) + self._key_read(message)
        if value is None:
            deleted = self._deleted(message, after)[1:-1]
            line = f'{{{said}, "{TOMBSTONE}": true{self._version()}{deleted and ", "}{deleted}}}\n'
            # Half of a surrogate pair stays the escape that it was in the key; landing rejects it.
            return line.encode(errors="backslashreplace")
        more, members = self._read(value)
        if self._in_events and members is not None:
            found = debezium.Keyed(key=self._key_of(message), value=b"{%b}" % members)
            self._before = found if debezium.has_place(found) else self._before
        return b"{%b%b%b%b}\n" % (said.encode(), more.encode(), b", " if members else b"", members or b"")

    def _version(self) -> str:
        """The contract version of a delete, where the schemas of other records state theirs."""
        if self._deletes is None or self._values is None or not self._values.versions:
            return ""
        return f', "schema_version": {self._deletes.version}'

    def _read(self, value: bytes) -> tuple[str, bytes | None]:
        """A value's additional facts and its members; None when it is no object."""
        if self._values is None and (members := members_of(value, "kafka_")) is not None:
            return "", members
        kept = f', "kafka_value": "{base64.b64encode(value).decode()}"'
        if self._values is None:
            return kept, None
        try:
            found = self._values.read(value)
        except BrokenValue as broken:
            return f', "{PROBLEM}": {quoted(str(broken))}{kept}', None
        return f', "kafka_schema_id": {found.schema_id}{kept}', found.members

    def _key_of(self, message: Message) -> bytes | None:
        """The key of a record, as a text of JSON where it names its schema."""
        key = message.key()
        if key is None or self._declared.key_format != "schema" or self._values is None:
            return key
        try:
            found = self._values.read_key(key)
            return found if isinstance(found, bytes) else json_of(found).encode()
        except (BrokenValue, RecursionError):
            return key

    def _key_read(self, message: Message) -> str:
        """The key of an event as JSON, where it names its schema: of a delete, only that may say which row is gone."""
        key = self._key_of(message) if self._in_events else None
        if key is None or key == message.key():
            return ""
        return f', "{debezium.KEY_READ}": {quoted(key.decode(errors="backslashreplace"))}'

    def _deleted(self, message: Message, after: debezium.Keyed | None) -> str:
        """A delete as a JSON object; without members, so that the record is rejected, where none is declared."""
        as_delete, key = self._deletes, self._key_of(message)
        if self._in_events:
            return debezium.as_delete(key, self._before, after) or _NOTHING
        if as_delete is None or key is None:
            return _NOTHING
        try:
            text = key.decode()
            found = {as_delete.key[0]: text} if self._declared.key_format == "text" else as_written(text)
        except ValueError:
            return _NOTHING
        if self._declared.key_format == "schema" and not isinstance(found, dict) and len(as_delete.key) == 1:
            found = {as_delete.key[0]: found}
        if not isinstance(found, dict):
            return _NOTHING
        at, moment = milliseconds(message), time_of(message)
        when = {} if at is None else {as_delete.at: iso(at)}
        if as_delete.written is not None and moment is not None:
            when = {as_delete.at: as_delete.written(moment)}
        columns = {
            **{name: at for name in as_delete.key if (at := member_at(found, name, _ABSENT)) is not _ABSENT},
            as_delete.column: as_delete.delete,
            **when,
        }
        return json_of(columns)

    # ------------------------------------------------------------------------------------------------- the connection

    @cached_property
    def _consumer(self) -> Consumer:
        return self._new_consumer({})

    def _new_consumer(self, other: Mapping[str, str]) -> Consumer:
        group = f"backfill-capture-{secrets.token_hex(8)}"  # required, and never created: nothing is committed
        # The client reads ahead up to a number of bytes, and one answer more, which is compressed. The range is there:
        # a broker that waits for more at its end would hold up the next one.
        most = {
            "queued.max.messages.kbytes": 2_048,
            "max.partition.fetch.bytes": 512 << 10,
            "fetch.queue.backoff.ms": 10,
            "fetch.wait.max.ms": 20,
        }
        settings = {**self._client.usual, **most, **FIXED, **other, "group.id": group}
        consumer: Consumer = self._client.kafka.Consumer(settings)
        return consumer

    def _failure(self, error: KafkaError, *, partition: int | None = None) -> Exception:
        """The error that an error of the client means."""
        if error.name() in ("OFFSET_OUT_OF_RANGE", "_AUTO_OFFSET_RESET") and partition is not None:
            low, high = self._watermarks(partition)
            return self._expired(partition, low, high, expected=None)
        return self._client.failure(error)


def _expiry(first_at: datetime | None, pinned: Mapping[str, str]) -> datetime | None:
    kept = int(pinned["retention.ms"])
    if first_at is None or kept < 0 or "delete" not in pinned["cleanup.policy"]:
        return None
    try:
        return first_at + timedelta(milliseconds=kept)
    except OverflowError:
        return None


def number_of(name: str) -> int:
    """The partition of the topic that a partition is, or that a scan reads once more."""
    return int(name.rpartition("-")[2])


def open_stream(declared: KafkaTopic, source: SourceTable, *, home: Path, as_of: datetime) -> KafkaStream:  # noqa: ARG001 - as of any family
    """The topic that a source is captured from."""
    of_registry = declared.values.secrets if isinstance(declared.values, SchemaRegistry) else {}
    given = secrets_named(of_registry, home=home)
    values = value_reader(declared.values, given) if declared.values is not None else None
    secret = secrets_named(declared.secrets, home=home)
    return KafkaStream(declared, secret=secret, operated=source.operated, values=values)

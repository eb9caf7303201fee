"""Kinesis capture: ranges of sequence numbers of a stream as files of JSON lines.

A position is `N`, before the record of that sequence number, or `N+`, behind it: sequence numbers are not dense, and an
iterator begins only at a record or behind one. Shards come after their parents, so that the records of a key are read
in their order also where shards were split or merged. Nothing is registered with the stream; what its consumers share
with a capture are the five reads of a shard in a second.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from graphlib import TopologicalSorter
from pathlib import Path

from backfill_assets.capture.declared import secrets_named
from backfill_assets.capture.errors import (
    CreatedAgain,
    NothingCaptured,
    NotOffered,
    OtherTopic,
    RangeExpired,
    StreamFailed,
)
from backfill_assets.capture.json_members import KINESIS_PROBLEM, members_of, quoted, several, values_in
from backfill_assets.capture.kinesis import FAMILY
from backfill_assets.capture.kinesis.client import (
    MOST_AT_ONCE,
    DamagedAggregate,
    KinesisClient,
    Record,
    Shard,
    Stream,
    begins_at,
    order_of,
    records_in,
)
from backfill_assets.capture.kinesis.declaration import KinesisStream
from backfill_assets.capture.landed_files import FileKind, Format
from backfill_assets.capture.streams import (
    Captured,
    CapturePeriod,
    Pace,
    Resolution,
    Resolved,
    Span,
    Written,
    covers,
    write_lines,
)
from backfill_assets.domain import SourceTable

PREFIX = "kinesis_"


class KinesisCapture:
    """A stream that was opened.

    Args:
        declared: The stream as its source declares it.
        secret: The credentials, by the name of boto3's argument.
    """

    kind = FileKind(format=Format.JSONL, compression="gzip")

    def __init__(self, declared: KinesisStream, *, secret: Mapping[str, str]) -> None:
        self._declared = declared
        self._client = KinesisClient(declared, declared.stream, secret=secret, what="a capture from Kinesis")
        self._closed: Mapping[str, str] = {}

    @property
    def name(self) -> str:
        return self._client.name

    def close(self) -> None:
        self._client.close()

    # ------------------------------------------------------------------------------------------------- what it holds

    def resolve(self, period: CapturePeriod, captured: Sequence[Captured]) -> Resolution:
        if period.is_whole:
            raise NotOffered(name=self.name, why="holds changes, and no present state that a snapshot could read")
        stream, now = self._summary(), datetime.now(UTC)
        shards = self._client.shards()
        self._closed = {each.name: each.closed for each in shards}
        spans = tuple(self._resolved(shard, period, captured, stream, now) for shard in in_order(shards))
        if period.start is None and not captured:
            raise NothingCaptured(source=self._declared.stream)
        return Resolution(
            family=FAMILY.name,
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
        stream = self._client.summary()
        if self._declared.creation not in ("", stream.creation):
            raise OtherTopic(name=self.name, expected=self._declared.creation, found=stream.creation)
        return stream

    def _resolved(
        self, shard: Shard, period: CapturePeriod, captured: Sequence[Captured], stream: Stream, now: datetime
    ) -> Resolved:
        """The positions of a shard that hold a period, those of a whole shard that began within it."""
        name = shard.name
        mine = [each for each in captured if each.partition == name]
        ended = _end_of(mine)
        held = self._client.first(name, ShardIteratorType="TRIM_HORIZON")
        nothing = ended or shard.begun
        if held is None:
            closed = f"{shard.closed}+" if shard.closed else None
            if period.start is None and ended is not None and closed and order_of(ended) < order_of(closed):
                # It ended behind what is captured, and has nothing left that would tell what was in between.
                raise RangeExpired(name=self.name, partition=name, held_from=closed, first_at=None, expected_from=ended)
            return _empty(name, nothing)
        self._require_held(name, held, period, captured, stream, now)
        if period.start is not None:
            first = self._client.first(name, ShardIteratorType="AT_TIMESTAMP", Timestamp=period.start)
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
        self,
        shard: str,
        held: Record,
        period: CapturePeriod,
        captured: Sequence[Captured],
        stream: Stream,
        now: datetime,
    ) -> None:
        """Refuses a period of which something may have expired, unless captures make up for it."""
        mine = [each for each in captured if each.partition == shard]
        ended, earliest = _end_of(mine), now - stream.retention
        if period.start is not None:
            is_gone = max(period.start, stream.created_at) < earliest
            is_gone = is_gone and not covers(mine, (held.sequence, 0), period.start, order_of)
        elif ended is not None:
            is_gone = order_of(ended) < order_of(str(held.sequence))
        else:  # up to the last captured record of any shard, this one had none
            seen = [each.last_at for each in captured if each.last_at is not None]
            is_gone = bool(captured) and max([stream.created_at, *seen]) < earliest
        if is_gone:
            raise RangeExpired(
                name=self.name,
                partition=shard,
                held_from=str(held.sequence),
                first_at=held.at,
                expected_from=ended if period.start is None else None,
            )

    def _end(self, shard: Shard, period: CapturePeriod, now: datetime) -> tuple[str | None, str | None]:
        """The position behind the last record of a period, and the one behind everything where that was looked for."""
        if period.end is not None:
            at = period.end + self._declared.lateness
            behind = self._client.first(shard.name, ShardIteratorType="AT_TIMESTAMP", Timestamp=at)
            if behind is not None:
                return str(behind.sequence), None
        last = shard.closed or self._client.last(shard.name, now)
        end = None if last is None else f"{last}+"
        return end, end

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
        first = self._client.first(shard, **begins_at(at))
        while first is not None:
            behind = datetime.fromtimestamp(first.at.timestamp() // chunk.total_seconds() * chunk.total_seconds(), UTC)
            first = self._client.first(shard, ShardIteratorType="AT_TIMESTAMP", Timestamp=behind + chunk)
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
        batches = (
            (
                [line for each in batch for line in lines_of(piece.partition, each)],
                sum(len(each.value) + len(each.key) for each in batch),
                [each.at for each in batch],
            )
            for batch in self._between(piece, most=min(MOST_AT_ONCE, pace.most_at_once))
        )
        return write_lines(copy, batches, pace)

    def _between(self, piece: Span, *, most: int) -> Iterator[list[Record]]:
        """The records of a piece, in their order.

        Raises:
            RangeExpired: Its first record is gone by now.
            StreamFailed: The shard ended before the piece does.
        """
        start, end = order_of(piece.range_from), order_of(piece.range_to)
        is_first, reached = not piece.range_from.endswith("+"), False
        for batch in self._client.records(piece.partition, most=most, **begins_at(piece.range_from)):
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
            raise StreamFailed(name=self.name, why=f"{piece.partition} ended before {piece.range_to}")


def in_order(shards: Sequence[Shard]) -> Iterator[Shard]:
    """Shards after their parents, as far as these are there still."""
    by_name = {each.name: each for each in sorted(shards, key=lambda shard: shard.name)}
    follows = {name: [each for each in shard.parents if each in by_name] for name, shard in by_name.items()}
    for name in TopologicalSorter(follows).static_order():
        yield by_name[name]


def lines_of(shard: str, record: Record) -> Iterator[bytes]:
    """The landed records of a record: those of an aggregate, each with its place in it, or the one that it is."""
    try:
        aggregated = records_in(record.value)
    except DamagedAggregate as damaged:
        why = f"it is an aggregate of records, and {damaged}"
        yield _rejected(_said(shard, record), record.value, why)
        return
    if aggregated is None:
        yield from _lines(_said(shard, record), record.value)
        return
    for place, (key, value) in enumerate(aggregated):
        yield from _lines(f'{_said(shard, replace(record, key=key))}, "{PREFIX}subsequence": {place}', value)


def _said(shard: str, record: Record) -> str:
    """Kinesis' metadata of a record."""
    at = record.at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds")
    return (
        f'"{PREFIX}shard": {quoted(shard)}, "{PREFIX}sequence": "{record.sequence}", "{PREFIX}arrived_at": "{at}Z", '
        f'"{PREFIX}partition_key": {quoted(record.key)}'
    )


def _lines(said: str, value: bytes) -> Iterator[bytes]:
    """A record with the members of its data as they were written; of data that is no object, with all of it."""
    members = members_of(value, PREFIX)
    if members is not None:
        yield b"{%b%b%b}\n" % (said.encode(), members and b", ", members)
    elif found := values_in(value):
        yield from (_rejected(said, each, several(len(found))) for each in found)
    else:
        yield _rejected(said, value)


def _rejected(said: str, value: bytes, why: str = "") -> bytes:
    problem = f', "{KINESIS_PROBLEM}": {quoted(why)}' if why else ""
    return f'{{{said}{problem}, "{PREFIX}value": "{base64.b64encode(value).decode()}"}}\n'.encode()


def _end_of(captured: Sequence[Span]) -> str | None:
    return max((each.range_to for each in captured), key=order_of, default=None)


def _empty(shard: str, position: str, *, held: Record | None = None) -> Resolved:
    """A shard that has nothing of a period that is not captured."""
    begins = position if held is None else str(held.sequence)
    return Resolved(partition=shard, range_from=position, range_to=position, held_from=begins, held_to=position)


def open_stream(declared: KinesisStream, source: SourceTable, *, home: Path, as_of: datetime) -> KinesisCapture:  # noqa: ARG001 - as of any family
    """The stream that a source is captured from."""
    return KinesisCapture(declared, secret=secrets_named(declared.secrets, home=home))

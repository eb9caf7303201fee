"""Captured records: what was in a topic or a stream, as it was captured, in the order of its positions.

Keys, headers, times, tombstones and partitions are those of the topic, and values are as they were written, whatever
has become of their records since.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import heapq
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from tempfile import TemporaryFile
from typing import IO, Any

from backfill_assets.capture.errors import NotAsCaptured
from backfill_assets.capture.kafka import TOMBSTONE, number_of
from backfill_assets.capture.kinesis import PREFIX
from backfill_assets.capture.landed_files import landing_place
from backfill_assets.deliver.sinks import Headers, Outgoing, milliseconds
from backfill_assets.ledger.records import PartKind, ReplayPart
from backfill_assets.workspace import Workspace

_scan = json.JSONDecoder().raw_decode


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedRecords:
    """The records of captured files."""

    ws: Workspace  #: Where the files are.
    source: str  #: The source that they were captured for.
    parts: tuple[ReplayPart, ...]  #: The files, in the order of their positions.
    headers: Callable[[ReplayPart], Headers]  #: What the records of a file have besides their own headers.
    is_live: bool  #: Whether the topic was there before, so that its partitions may be others.

    def __iter__(self) -> Iterator[Outgoing | None]:
        """The records; None for one that was captured twice, or is of one value with the one before it."""
        for (kind, _), alike in groupby(self.parts, key=_place_of):
            if kind is PartKind.CAPTURED:
                yield from self._of_topic(alike)
            else:
                for part in alike:
                    yield from self._of_stream(part)

    def _of_topic(self, parts: Iterable[ReplayPart]) -> Iterator[Outgoing | None]:
        captures: dict[str, list[ReplayPart]] = {}
        for part in parts:
            captures.setdefault(part.stream_partition, []).append(part)
        before = -1
        for offset, part, said, value in heapq.merge(*map(self._offsets, captures.values()), key=itemgetter(0)):
            if offset == before:
                yield None
                continue
            before = offset
            partition = number_of(part.stream_partition)
            own = [*self.headers(part), _position(part, str(partition), offset)]
            names = {name for name, _ in own}
            at = said.get("kafka_timestamp")
            yield Outgoing(
                key=_bytes_said(said, "kafka_key"),
                value=value,
                headers=[*((name, each) for name, each in _headers_said(said) if name not in names), *own],
                at=0 if at is None else milliseconds(datetime.fromisoformat(at)),
                partition=-1 if self.is_live else partition,
            )

    def _offsets(
        self, parts: Iterable[ReplayPart]
    ) -> Iterator[tuple[int, ReplayPart, Mapping[str, Any], bytes | None]]:
        """The records of files that follow each other, with their offsets."""
        for part in parts:
            for line in self._lines(part):
                said, value = _of_the_stream(line, "kafka_")
                yield said["kafka_offset"], part, said, value

    def _of_stream(self, part: ReplayPart) -> Iterator[Outgoing | None]:
        """The stream's records: partition keys, data as written, and arrival times."""
        headers, before = self.headers(part), None
        for line in self._lines(part):
            said, value = _of_the_stream(line, PREFIX)
            position = said["kinesis_sequence"], said.get("kinesis_subsequence")
            if position == before:
                yield None
                continue
            before = position
            yield Outgoing(
                key=said["kinesis_partition_key"].encode(),
                value=value,
                headers=[*headers, _position(part, part.stream_partition, said["kinesis_sequence"])],
                at=milliseconds(datetime.fromisoformat(said["kinesis_arrived_at"])),
            )

    def _lines(self, part: ReplayPart) -> Iterator[str]:
        with self._copied(part) as copy, gzip.open(copy, "rt", encoding="utf-8", newline="\n") as lines:
            yield from (line.rstrip("\n") for line in lines)

    @contextmanager
    def _copied(self, part: ReplayPart) -> Iterator[IO[bytes]]:
        """A copy of a landed file on this machine while the block lasts.

        It has no name: the copies of landings are removed by the next landing, and this one is gone with its process.

        Raises:
            Refused: It is not what landed.
        """
        files, digest = landing_place(self.ws.settings, self.source).files, hashlib.sha256()
        with TemporaryFile(dir=self.ws.settings.home) as copy:
            with files.open(part.name) as stored:
                while some := stored.read(1 << 20):
                    digest.update(some)
                    copy.write(some)
            if digest.hexdigest() != part.digest:
                raise NotAsCaptured(path=part.name)
            copy.seek(0)
            yield copy


def _place_of(part: ReplayPart) -> tuple[PartKind, object]:
    """The group of files that is sent together: the files of one partition of a topic, and every other file by
    itself."""
    if part.kind is not PartKind.CAPTURED:
        return part.kind, part.name
    return part.kind, (part.name.rpartition("/")[0], number_of(part.stream_partition))


def _position(part: ReplayPart, partition: str, position: object) -> tuple[str, bytes]:
    return "x-source", f"{part.stream}/{partition}@{position}".encode()


def _of_the_stream(line: str, prefix: str) -> tuple[Mapping[str, Any], bytes | None]:
    """A captured record's stream metadata from Kafka or Kinesis, and its value as it was written."""
    said: dict[str, Any] = {}
    at = 1
    # What it said comes first, and no value with such members is kept as members.
    while line.startswith(f'"{prefix}', at):
        name, end = _scan(line, at)
        said[name], end = _scan(line, end + len(": "))
        at = end + len(", ") if line.startswith(", ", end) else end
    if TOMBSTONE in said:
        return said, None
    if f"{prefix}value" in said:
        return said, base64.b64decode(said[f"{prefix}value"])
    return said, f"{{{line[at:]}".encode()


def _bytes_said(said: Mapping[str, Any], name: str) -> bytes | None:
    if f"{name}_base64" in said:
        return base64.b64decode(said[f"{name}_base64"])
    return None if said.get(name) is None else str(said[name]).encode()


def _headers_said(said: Mapping[str, Any]) -> Headers:
    return [(each["name"], _bytes_said(each, "value")) for each in json.loads(said.get("kafka_headers", "[]"))]

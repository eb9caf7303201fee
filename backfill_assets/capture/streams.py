"""Streams: the protocol of sources that have positions.

A stream has partitions, each with records at rising positions: offsets, sequence numbers, LSNs, pages. Only its family
reads a position; for everybody else it is a text. A period is resolved to a range of positions per partition, which is
cut into pieces; each piece becomes one landed file. A new family is a folder with its declaration, its client
and its `Stream`.
"""

from __future__ import annotations

import gzip
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol, TypeVar, runtime_checkable

from backfill_assets.capture.landed_files import FileKind
from backfill_assets.core.progress import waiting

SCAN = "scan-"
"""The prefix of the partition of a scan, which reads everything once more; its files land when it is complete."""

_LEVEL = 3

P = TypeVar("P", int, tuple[int, int])
"""A position that was read from its text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Positions of one partition of a stream."""

    partition: str  #: The partition.
    range_from: str  #: The first position.
    range_to: str  #: The position behind the last one.


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured(Span):
    """Positions already captured."""

    #: The beginning of the period for which they were captured; None where the capture continued another one.
    since: datetime | None = None
    is_complete: bool = False  #: Whether the whole period is captured.
    last_at: datetime | None = None  #: The latest time of a record; null without records.


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved(Span):
    """The positions of a partition that hold a period, and what the stream had of it when it was asked."""

    held_from: str  #: The first position that the stream had.
    held_to: str  #: The position behind the last one that it had.
    records: int | None = None  #: How many records there are at most; null where positions cannot be counted.
    size_bytes: int | None = None  #: About how many bytes these are; null where that is not known.
    first_at: datetime | None = None  #: The time of the first of these records; null without any.
    expires_at: datetime | None = None  #: When the retention may take it; null where it takes nothing.


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """A period of a stream as positions."""

    family: str  #: The family of the stream.
    name: str  #: What people call the stream.
    stream: str  #: Identifies it: positions of another identity mean something else, also under the same name.
    pinned: Mapping[str, str]  #: What else the positions rest on, such as the isolation level and the retention.
    is_compacted: bool  #: True if the stream drops earlier records of a key, so that what is gone cannot be known.
    spans: tuple[Resolved, ...]  #: The ranges, by partition.
    #: True if they are everything that the source holds now, instead of what happened to it: what has landed and is not
    #: among it is withdrawn.
    is_whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturePeriod:
    """The period whose records are captured."""

    start: datetime | None  #: The first instant; None to continue where the captures of each partition end.
    end: datetime | None  #: The first instant behind it; None for everything that is there.
    is_whole: bool = False  #: Whether everything is captured that the source holds now, instead of a period.


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The content of the file of a piece."""

    records: int
    first_at: datetime | None  #: The earliest time of a record; null without records.
    last_at: datetime | None  #: The latest one.
    #: The position behind the last record, where it is only known once the piece has been read; without records, the
    #: beginning of the piece where there was nothing to read.
    range_to: str | None = None
    goes_on: bool = False  #: Whether the rest of the piece can be read now, so that it is read next.
    #: The suffix of its name, of a stream that may answer the same request differently.
    mark: str = ""
    #: The answer of the stream, byte for byte and packed with gzip, where it is kept beside the records.
    answer: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operated:
    """The naming of operations in the records of a source."""

    key: tuple[str, ...]  #: The columns of the key.
    column: str  #: The column of the operation.
    create: str  #: The value that creates.
    update: str  #: The value that changes.
    snapshot: str  #: The value that observes.
    delete: str | None  #: The value that deletes; null where the source declares none.
    at: str  #: The column that gets the time of a record without a value, which deletes its key.
    version: int  #: The version of the contract whose names these are.
    in_events: bool  #: True if its records are change events of Debezium, of which such a delete is one more.
    #: How that time is written where the column has not the form of ISO 8601; None where it has.
    written: Callable[[datetime], str] | None = None

    @property
    def values(self) -> Mapping[str, str | None]:
        """The values of records that are changes."""
        return {"create": self.create, "update": self.update, "delete": self.delete}


LOOKS_EVERY_S = 1.0
"""How often it is looked how far others are behind."""


@dataclass(slots=True)
class Pace:
    """Holds a capture or a replay to so many records and bytes a minute, and back while others are behind."""

    records_per_minute: int | None = None  #: At most so many records; None for no limit.
    bytes_per_minute: int | None = None  #: At most so many bytes of the source.
    group: str = ""  #: A consumer group of the stream that must not be held up; empty for none.
    most_behind: int = 0  #: How many records that group may be behind while this goes on.
    behind: Callable[[], int] | None = None  #: How many it is behind now; it is asked once a second.
    wait: Callable[[float], None] = time.sleep  #: Waits for seconds.
    now: Callable[[], float] = time.monotonic  #: Seconds of a clock that never goes back.
    _looked: float | None = field(default=None, init=False)
    _began: float | None = field(default=None, init=False)
    _records: int = field(default=0, init=False)
    _bytes: int = field(default=0, init=False)

    def took(self, records: int, size_bytes: int) -> None:
        """Waits until so much more may have been moved."""
        self._began = self.now() if self._began is None else self._began
        self._records += records
        self._bytes += size_bytes
        due = max(
            60 * self._records / self.records_per_minute if self.records_per_minute else 0,
            60 * self._bytes / self.bytes_per_minute if self.bytes_per_minute else 0,
        )
        early = self._began + due - self.now()
        if early > 0:
            with waiting(lambda: f"waiting {early:,.0f} s, as the limit per minute asks"):
                self.wait(early)
        if self.behind is not None and (self._looked is None or self.now() - self._looked >= LOOKS_EVERY_S):
            with waiting(lambda: f"waiting for the consumer group {self.group}, which is too far behind"):
                while self.behind() > self.most_behind:
                    self.wait(LOOKS_EVERY_S)
            self._looked = self.now()

    @property
    def most_at_once(self) -> int:
        """The most records to read before looking at the clock again: those of one second."""
        return max(1, min(5_000, (self.records_per_minute or 300_000) // 60))

    @property
    def bytes_at_once(self) -> int:
        """The most bytes to move before looking at the clock again: those of one second."""
        return max(1, min(8_000_000, (self.bytes_per_minute or 480_000_000) // 60))


def cut(span: Span, captured: Sequence[Span], chunk: int, position: Callable[[str], int]) -> Iterator[tuple[int, int]]:
    """The rest of a span, cut at multiples of a chunk, so that the same positions give the same files.

    Args:
        position: From the text of a position to its number.
    """
    end, at = position(span.range_to), position(span.range_from)
    mine = (each for each in captured if each.partition == span.partition)
    done = sorted((position(each.range_from), position(each.range_to)) for each in mine)
    for begun, until in [*done, (end, end)]:
        while at < min(begun, end):
            to = min((at // chunk + 1) * chunk, begun, end)
            yield at, to
            at = to
        at = max(at, until)


def covers(
    captured: Iterable[Captured], held: P, start: datetime, position: Callable[[str], P], complete: P | None = None
) -> bool:
    """True if every record of a period before the first one that is left was captured, as far as positions prove it.

    Args:
        held: The first position that is left.
        start: The beginning of the period.
        position: From the text of a position to what is compared.
        complete: The position before which there never was a record; None where that is not known.
    """
    for each in sorted(captured, key=lambda span: position(span.range_from)):
        begins, ends = position(each.range_from), position(each.range_to)
        if (each.since is not None and each.since <= start) or (complete is not None and begins <= complete):
            complete = ends if complete is None else max(complete, ends)
    return complete is not None and complete >= held


def followed(
    captured: Sequence[Span], partition: str, at: str, *, is_end: Callable[[str], bool] = lambda _: False
) -> str:
    """The end of the files that follow each other from a position on, not beyond one that is an end."""
    ends = {each.range_from: each.range_to for each in captured if each.partition == partition}
    while at in ends and ends[at] != at:
        at = ends[at]
        if is_end(at):
            break
    return at


def new_scan(captured: Iterable[Span]) -> str:
    """The prefix of the partitions of a new scan, which no other scan has."""
    numbers = (re.match(rf"{SCAN}([0-9]+)", each.partition) for each in captured)
    return f"{SCAN}{max((int(each[1]) for each in numbers if each), default=0) + 1}"


def write_lines(copy: Path, batches: Iterable[tuple[Sequence[bytes], int, Sequence[datetime]]], pace: Pace) -> Written:
    """Writes records as packed lines, of the same ones always the same bytes.

    Args:
        batches: Some lines, how many bytes they are of the source, and their times, or the first and the last of these.
    """
    records, times = 0, list[datetime]()
    with copy.open("wb") as file, gzip.GzipFile("", "wb", _LEVEL, file, mtime=0) as packed:
        for lines, size_bytes, more in batches:
            packed.write(b"".join(lines))
            records += len(lines)
            times = ends_of([*times, *more])
            pace.took(len(lines), size_bytes)
    return Written(records=records, first_at=min(times, default=None), last_at=max(times, default=None))


def ends_of(times: Sequence[datetime]) -> list[datetime]:
    """The earliest and the latest of some times; none of none."""
    return [min(times), max(times)] if times else []


class Stream(Protocol):
    """A stream that was opened."""

    @property
    def kind(self) -> FileKind:
        """The format of its files."""

    def resolve(self, period: CapturePeriod, captured: Sequence[Captured]) -> Resolution:
        """The positions of a period. It only looks.

        Args:
            captured: The positions that are landed files already, of the stream of this identity.

        Raises:
            Refused: A part of the period has expired and was not captured before.
        """

    def require_same(self, stream: str) -> None:
        """Refuses a stream that is not the one of earlier captures, although it has its name.

        Args:
            stream: The identity that an earlier capture pinned.
        """

    def pieces(self, span: Span, captured: Sequence[Span]) -> Iterator[Span]:
        """The pieces of a span that are left to read, in order: the same pieces whatever was asked for before.

        Args:
            span: A resolved span.
            captured: Positions that are landed files already.
        """

    def file_name(self, resolution: Resolution, piece: Span) -> str:
        """The name of the file of a piece, which no other piece of any stream has."""

    def write(self, piece: Span, copy: Path, pace: Pace) -> Written:
        """Writes the records of a piece to a new file of this machine: of the same records, the same bytes."""

    def close(self) -> None:
        """Ends the connection."""


@runtime_checkable
class KeepsRecords(Protocol):
    """A stream that keeps records until they are captured."""

    def recorded(self, piece: Span) -> None:
        """The file of a piece is durable and in the ledger, so that the stream need not keep these records for it."""


@runtime_checkable
class FollowsPinned(Protocol):
    """A stream that compares what it is with what it was at the capture before."""

    def follow(self, pinned: Mapping[str, str]) -> None:
        """The captures are to go on behind one that pinned this."""


@runtime_checkable
class Settles(Protocol):
    """A stream whose newest records may still be missing."""

    def settled(self, period: CapturePeriod) -> CapturePeriod:
        """The days of a period that can be read as a whole.

        Raises:
            Retryable: There are none yet.
        """


@runtime_checkable
class HasGroups(Protocol):
    """A stream whose consumers say how far they are."""

    def behind(self, group: str) -> int:
        """The number of records of the stream that a consumer group has not read yet; changes nothing.

        Raises:
            Refused: The group has said nothing about this stream.
        """

"""Captures: periods of streams that were resolved to positions, and the files that hold these.

A file counts from its row here on. What landed of it is in `imports`, under the same stored path.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Select, insert, select

from backfill_assets.capture.landed_files import LandedFile
from backfill_assets.capture.streams import SCAN, Captured, Resolution, Resolved, Span, Written
from backfill_assets.core.identity import plain
from backfill_assets.ledger.approvals import ApprovalSteps, row_without_approval, with_approval
from backfill_assets.ledger.events import Event, Writes
from backfill_assets.ledger.queries import COLUMNS, Queries, read_as, row_of
from backfill_assets.ledger.recorded_text import one_line, required_text, storable_text
from backfill_assets.ledger.schema import captured_files, captures
from backfill_assets.ledger.states import RequestKind
from backfill_assets.planning.safeguards import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureRecord:
    """A period of a stream that was captured."""

    capture_id: str  #: `cap-` and a number.
    source: str  #: The source table.
    family: str  #: The family of the stream.
    name: str  #: What people call the stream.
    stream: str  #: Identifies it, such as the ids of cluster and topic.
    period_from: datetime | None  #: The beginning of the period; null where it went on after the capture before.
    period_to: datetime | None  #: Its end, not included; null for everything that was there.
    is_live: bool  #: True if it took what was new, rather than a period that a person chose.
    is_whole: bool  #: True if its files are everything that the source held: what they lack is withdrawn.
    resolved_at: datetime  #: When the period was resolved to positions.
    by: str  #: Who captured it.
    reason: str  #: Why.
    pinned: Mapping[str, str]  #: What the positions rest on, such as isolation level and retention.
    spans: tuple[Resolved, ...]  #: The positions, by partition.
    policy: Policy  #: The policy of the source when it was asked for.
    waits: bool = False  #: True if it may only be read with the approval of another person.
    approved_by: str | None = None  #: Who approved it; null before, and where no approval is required.
    approved_at: datetime | None = None  #: When.

    @property
    def is_scan(self) -> bool:
        """True if it read a period once more, to land it as a complete extract."""
        return any(each.partition.startswith(SCAN) for each in self.spans)

    def is_complete(self, reached: Collection[tuple[str, str, str]]) -> bool:
        """True if the capture was read to its end.

        Args:
            reached: As of `reached_by`, of its files at least.
        """
        return all((self.capture_id, span.partition, span.range_to) in reached for span in self.spans)


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedFile(Span):
    """A file that holds positions of a stream."""

    capture_id: str  #: The capture that wrote it.
    number: int  #: Its number in that.
    records: int  #: How many records it has.
    first_at: datetime | None  #: The earliest time of a record; null without records.
    last_at: datetime | None  #: The latest one.
    sha256: str  #: Of its bytes.
    stored_path: str  #: Relative to the landing place.
    size_bytes: int  #: How large it is.
    format: str  #: What it is written in.
    compression: str  #: `gzip`, or empty.
    captured_at: datetime  #: When it was durable.


def reached_by(files: Iterable[CapturedFile]) -> set[tuple[str, str, str]]:
    """The ends of files: their capture, partition and last position."""
    return {(each.capture_id, each.partition, each.range_to) for each in files}


_capture = read_as(CaptureRecord)
_FILE = {**COLUMNS, "partition": "stream_partition"}
"""A partition of a stream is no day."""
_file = read_as(CapturedFile, **_FILE)


@cache
def _captures() -> Select[*tuple[Any, ...]]:
    return with_approval(captures.c.capture_id)


class CaptureReads(Queries):
    """Captures and their files."""

    def records(self, source: str | None = None, *, limit: int | None = None) -> tuple[CaptureRecord, ...]:
        """Captures in their order.

        Cost: one row per capture, chosen in the database.

        Args:
            limit: At most this many, the last ones.
        """
        chosen = _captures().order_by(captures.c.number.desc()).limit(limit)
        if source is not None:
            chosen = chosen.where(captures.c.source == source)
        return tuple(_capture(row) for row in reversed(self._rows(chosen)))

    def get(self, capture_id: str) -> CaptureRecord:
        """One capture.

        Cost: one primary key lookup.

        Raises:
            UnknownName: There is none of this id.
        """
        return _capture(self._named(_captures(), captures.c.capture_id, kind="capture", name=capture_id))

    def files(self, source: str, *, stream: str | None = None) -> tuple[CapturedFile, ...]:
        """The files of a source in the order in which they were captured.

        Cost: one row per file.

        Args:
            stream: Only those of the stream of this identity.
        """
        of_source = captures.c.source == source
        joined = select(captured_files).join_from(
            captured_files, captures, captured_files.c.capture_id == captures.c.capture_id
        )
        chosen = joined.where(of_source if stream is None else of_source & (captures.c.stream == stream))
        return tuple(_file(row) for row in self._rows(chosen.order_by(captures.c.number, captured_files.c.number)))

    def captured(self, source: str, stream: str) -> tuple[Captured, ...]:
        """The positions of a stream that are files already. Cost: one row per file and one per capture."""
        records = {each.capture_id: each for each in self.records(source)}
        files = self.files(source, stream=stream)
        reached = reached_by(files)
        complete = {capture_id for capture_id, record in records.items() if record.is_complete(reached)}
        return tuple(
            Captured(
                partition=each.partition,
                range_from=each.range_from,
                range_to=each.range_to,
                since=records[each.capture_id].period_from,
                is_complete=each.capture_id in complete,
                last_at=each.last_at,
            )
            for each in files
        )


class CaptureWrites(CaptureReads, Writes):
    """Captures, begun, and their files, one after the other."""

    def begin(
        self,
        source: str,
        resolution: Resolution,
        *,
        period_from: datetime | None,
        period_to: datetime | None,
        is_live: bool,
        by: str,
        reason: str,
        policy: Policy,
        waits: bool = False,
    ) -> CaptureRecord:
        """Records which positions a period is, before any of them is read. Cost: one row and one event."""
        number = self._highest(captures.c.number) + 1
        capture_id = RequestKind.CAPTURE.id_of(number)
        record = CaptureRecord(
            capture_id=capture_id,
            source=source,
            family=resolution.family,
            name=storable_text("the name of the stream", resolution.name),
            stream=resolution.stream,
            period_from=period_from,
            period_to=period_to,
            is_live=is_live,
            is_whole=resolution.is_whole,
            resolved_at=self._log.now,
            by=one_line("the actor", by),
            reason=required_text("the reason", reason),
            pinned=dict(resolution.pinned),
            spans=resolution.spans,
            policy=policy,
            waits=waits,
        )
        self._log.write(insert(captures).values(row_without_approval(record, number=number)), of=[capture_id])
        ApprovalSteps(self._log).begin(capture_id)
        begun = {"source": source, "stream": resolution.stream, "pinned": dict(resolution.pinned)}
        begun |= {"spans": plain(resolution.spans), "reason": reason}
        self._log.append(Event("capture", capture_id, "capture_begun", actor=by, payload=begun))
        return record

    def add(self, capture_id: str, partition: str, file: LandedFile, written: Written, *, by: str) -> CapturedFile:
        """Records a file that is durable. Cost: one row and one event."""
        number = self._highest(captured_files.c.number, captured_files.c.capture_id == capture_id) + 1
        found = CapturedFile(
            capture_id=capture_id,
            number=number,
            partition=partition,
            range_from=file.range_from,
            range_to=file.range_to,
            records=written.records,
            first_at=written.first_at,
            last_at=written.last_at,
            sha256=file.sha256,
            stored_path=file.stored_path,
            size_bytes=file.size_bytes,
            format=file.format,
            compression=file.compression,
            captured_at=self._log.now,
        )
        self._log.write(insert(captured_files).values(row_of(found, _FILE)), of=[(capture_id, number)])
        payload = {name: value for name, value in asdict(found).items() if not isinstance(value, datetime)}
        self._log.append(Event("capture", capture_id, "range_captured", actor=by, payload=payload))
        return found

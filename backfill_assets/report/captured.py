"""Documents of captures: what a period of a stream is, and what of it was captured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from backfill_assets.capture.streams import Resolution, Resolved, Span
from backfill_assets.domain import SourceTable
from backfill_assets.ledger.captures import CapturedFile
from backfill_assets.report.documents import INLINE
from backfill_assets.report.landed import LandReport

SOON = timedelta(days=1)
"""What the retention may take within this time is reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPartition:
    """A partition of a stream in the plan of a capture."""

    span: Resolved = field(metadata=INLINE)  #: The positions of the period.
    files: int  #: How many files are written; none where everything was captured before.
    left: int | None  #: How many of the records are not captured yet, at most; null where positions cannot be counted.


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturePlan:
    """A period of a stream as positions; nothing was written."""

    source: str  #: The source table.
    resolution: Resolution  #: The stream, and what its positions rest on.
    from_: datetime | None  #: The beginning of the period; null where it goes on after the captures before.
    to: datetime | None  #: Its end, not included; null for everything that is there.
    has_change_events: bool  #: Whether its records are change events of Debezium.
    partitions: tuple[PlannedPartition, ...]  #: The positions, by partition.
    records: int | None  #: How many records are left to capture, at most; null where positions cannot be counted.
    size_bytes: int | None  #: About how many bytes these are; null where that is not known.
    files: int  #: How many files are written.
    expires_at: datetime | None  #: When the retention may take the first of them; null where it takes nothing.
    as_of: datetime  #: When the stream was asked.

    @property
    def expires_soon(self) -> bool:
        """True if the retention may remove something of it within a day."""
        return self.expires_at is not None and self.expires_at - self.as_of <= SOON


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureReport:
    """The captured records of a period, and what became of them."""

    capture_id: str | None  #: The capture, such as `cap-000001`; null when everything was captured before.
    waits: bool  #: Whether nothing was read, because another person has to approve it first.
    plan: CapturePlan  #: What there was to capture.
    captured: int  #: How many records were captured.
    captured_bytes: int  #: How large their files are.
    seconds: float  #: How long reading and keeping them took.
    files: tuple[CapturedFile, ...]  #: The files that were written.
    #: What landed of captured files, also of earlier ones that had not landed; null when nothing was left.
    landed: LandReport | None
    #: An earlier capture of these days that does not land any more, because others have landed on them since it was
    #: asked for; null without one.
    overtaken: str | None = None

    @property
    def per_second(self) -> float | None:
        """The number of records captured per second; None where nothing was."""
        return self.captured / self.seconds if self.captured and self.seconds > 0 else None

    @property
    def came_per_second(self) -> float | None:
        """The number of them that arrived in the stream per second when they were written; None where that is not
        known."""
        begun = [each.first_at for each in self.files if each.first_at is not None]
        ended = [each.last_at for each in self.files if each.last_at is not None]
        took = (max(ended) - min(begun)).total_seconds() if begun and ended else 0.0
        return self.captured / took if self.captured and took > 0 else None

    @property
    def needs_a_look(self) -> bool:
        """True if a gate blocked the load, or most records of a file are rejected."""
        return self.landed is not None and self.landed.needs_a_look


def capture_plan(
    source: SourceTable,
    resolution: Resolution,
    left: Mapping[str, Sequence[Span]],
    *,
    period_from: datetime | None,
    period_to: datetime | None,
    as_of: datetime,
) -> CapturePlan:
    """The plan of a capture."""
    partitions = tuple(
        PlannedPartition(span=span, files=len(left[span.partition]), left=_counted(span, left[span.partition]))
        for span in resolution.spans
    )
    of_them = [each for each in partitions if each.files]
    counted = [each.left for each in partitions]
    return CapturePlan(
        source=source.name,
        resolution=resolution,
        from_=period_from,
        to=period_to,
        has_change_events=source.envelope is not None,
        partitions=partitions,
        records=None if None in counted else sum(each or 0 for each in counted),
        size_bytes=None
        if any(each.files and each.span.size_bytes is None for each in partitions)
        else sum(map(_bytes_left, partitions)),
        files=sum(each.files for each in partitions),
        expires_at=min((each.span.expires_at for each in of_them if each.span.expires_at), default=None),
        as_of=as_of,
    )


def _counted(span: Resolved, left: Sequence[Span]) -> int | None:
    if span.records is None:
        return None
    return sum(int(each.range_to) - int(each.range_from) for each in left)


def _bytes_left(each: PlannedPartition) -> int:
    if each.left is None:
        return (each.span.size_bytes or 0) if each.files else 0
    return (each.span.size_bytes or 0) * (each.left or 0) // max(1, each.span.records or 1)

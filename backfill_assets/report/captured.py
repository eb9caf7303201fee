"""Documents of captures: what a period of a stream is, and what of it was captured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from backfill_assets.calendar.partitions import count_of
from backfill_assets.capture.streams import Resolution, Resolved, Span
from backfill_assets.core.next_steps import to_approve
from backfill_assets.domain import SourceTable
from backfill_assets.ledger.captures import CapturedFile, CaptureRecord
from backfill_assets.report.documents import INLINE
from backfill_assets.report.landed import LandReport, landed_page
from backfill_assets.report.page import Block, Note, Page, Tone, facts, next_steps, page, section, table

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
    has_change_events: bool  #: True if its records are change events of Debezium.
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
    waits: bool  #: True if nothing was read, because another person has to approve it first.
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


# Captures: what a period of a stream is, and what was captured of it.

_MOST = 30


def capture_plan_page(plan: CapturePlan) -> Page:
    """The page on a planned capture: the positions of the period, which are left to read, and what the retention
    removes soon."""
    return page("Capture", facts(("dry run", "nothing was written"), *_facts(plan)), *_blocks(plan))


def captured_page(report: CaptureReport) -> Page:
    """The page on captured records, and what became of them when they landed."""
    plan = report.plan
    said = (
        f"{count_of(report.captured, 'record')} captured as {count_of(len(report.files), 'file')} "
        f"({report.captured_bytes:,} bytes) by {report.capture_id}"
        if report.capture_id and not report.waits
        else f"{report.capture_id} waits for the approval of another person; nothing was read"
        if report.waits
        else "everything of this period was captured before; nothing was read"
    )
    return page(
        "Captured",
        facts(*_facts(plan)),
        *_blocks(plan),
        Note(text=said),
        Note(
            text=f"{report.overtaken} is not landed: other files have landed on its days since it was requested, "
            f"and {report.capture_id} is requested instead"
        )
        if report.overtaken
        else None,
        Note(text=paced) if (paced := _pace(report)) else None,
        next_steps(to_approve(report.capture_id) if report.waits and report.capture_id else None),
        *(landed_page(report.landed).blocks if report.landed else ()),
    )


def _pace(report: CaptureReport) -> str:
    """The speed of a capture, against the pace at which the stream grew in that time; empty where nothing was
    captured."""
    if report.per_second is None:
        return ""
    read = f"captured at {_rate(report.per_second)}"
    if report.came_per_second is None:
        return read
    times = report.per_second / report.came_per_second
    return f"{read}; they came at {_rate(report.came_per_second)}: {times:,.{0 if times >= 10 else 1}f} times as fast"


def _rate(per_second: float) -> str:
    if per_second >= 1:
        return f"{count_of(round(per_second), 'record')} a second"
    per_day = round(per_second * 86_400)
    return f"{count_of(per_day, 'record')} a day" if per_day else "less than a record a day"


def capture_page(record: CaptureRecord) -> Page:
    """A capture that was asked for."""
    rows = [(each.partition, each.range_from, each.range_to) for each in record.spans]
    return page(
        f"Capture {record.capture_id}",
        facts(("source", record.source), ("asked for by", record.by), ("reason", record.reason)),
        facts(("approved by", record.approved_by), ("at", record.approved_at)),
        section("positions", table(["partition", "from", "to (not included)"], rows, most=_MOST)),
        next_steps(to_approve(record.capture_id))
        if record.waits and record.approved_by is None
        else Note(text="the command that asked for it captures exactly these positions"),
    )


def _facts(plan: CapturePlan) -> tuple[tuple[str, str | int | None], ...]:
    begins = "where the captures before end" if plan.from_ is None else f"{plan.from_:%Y-%m-%d %H:%M} UTC"
    if plan.resolution.is_whole:
        begins = "everything that the source holds now"
    ends = "everything that is there" if plan.to is None else f"before {plan.to:%Y-%m-%d %H:%M} UTC"
    size = "of a size that is not known" if plan.size_bytes is None else f"about {plan.size_bytes:,} bytes"
    records = (
        "records that can only be counted as they are read"
        if plan.records is None
        else f"at most {plan.records:,} records"
    )
    left = f"{records}, {size}" if plan.files else "nothing is left to read"
    return (
        ("source", plan.source),
        (plan.resolution.family, f"{plan.resolution.name} ({plan.resolution.stream})"),
        ("from", begins),
        ("to", ends),
        ("left", left),
        *plan.resolution.pinned.items(),
    )


def _blocks(plan: CapturePlan) -> tuple[Block | None, ...]:
    rows = [
        (
            each.span.partition,
            each.span.range_from,
            each.span.range_to,
            f"{each.span.held_from} to {each.span.held_to}" if each.span.held_to else None,
            each.left,
            each.files,
            each.span.first_at,
            each.span.expires_at,
        )
        for each in plan.partitions
    ]
    heads = [
        "partition",
        "from",
        "to (not included)",
        "the stream has",
        "records left",
        "files",
        "first record",
        "expires",
    ]
    compacted = "it is compacted: it keeps only the last record of a key, and dropped records cannot be counted"
    if plan.resolution.is_compacted and plan.resolution.is_whole:
        compacted = (
            "it is compacted: it keeps the last value of every key, and some earlier ones; the values between them are "
            "lost, and a key whose tombstone is gone is withdrawn without the time of its end"
        )
        if plan.has_change_events:
            compacted += "; rows that were truncated stay until they are deleted one by one"
    return (
        section(
            "positions", table(heads, rows, numbers=["from", "to (not included)", "records left", "files"], most=_MOST)
        ),
        Note(text=compacted, tone=Tone.ATTENTION) if plan.resolution.is_compacted else None,
        Note(text=f"retention may remove records from {plan.expires_at:%Y-%m-%d %H:%M} UTC on", tone=Tone.ATTENTION)
        if plan.expires_at is not None and plan.expires_soon
        else None,
    )

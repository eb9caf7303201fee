"""Captures: what a period of a stream is, and what was captured of it."""

from __future__ import annotations

from backfill_assets.core.next_steps import approve
from backfill_assets.ledger.captures import CaptureRecord
from backfill_assets.planning.partitions import count_of
from backfill_assets.report.captured import CapturePlan, CaptureReport
from backfill_assets.report.page import Block, Note, Page, Tone, facts, next_steps, page, section, table
from backfill_assets.report.screens.landing import landed_page

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
        next_steps(approve(report.capture_id) if report.waits and report.capture_id else None),
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
        next_steps(approve(record.capture_id))
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

"""Course of a run: who did what, when, and what it has cost so far."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from backfill_assets.ledger.records import CandidatePartition, ChunkRecord, EventRecord, PublicationRecord
from backfill_assets.ledger.states import RunState


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Something that happened to a run.

    Attributes:
        at: When.
        by: Who did it, or on whose behalf.
        what: What happened, in words.
        note: What was written with it, such as the comment of an approval; empty when there is nothing.
    """

    at: datetime
    by: str
    what: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CostDocument:
    """What a run has cost so far.

    Attributes:
        chunks: In how many chunks it was computed.
        input_rows: How many rows these read.
        output_rows: How many rows they wrote.
        files: How many files are staged.
        size_bytes: Of these files.
        staging_seconds: How long the chunks took together.
        gating_seconds: How long the last gating took; null before it ended.
    """

    chunks: int
    input_rows: int
    output_rows: int
    files: int
    size_bytes: int
    staging_seconds: float
    gating_seconds: float | None


_REACHED = {
    RunState.STAGED: "staged: the candidate files are written",
    RunState.PASSED: "every blocking gate passed",
    RunState.BLOCKED: "blocked by a gate",
    RunState.FAILED: "failed",
    RunState.CANCELLED: "cancelled",
    RunState.SUPERSEDED: "superseded by a later publication",
}


def timeline(events: Iterable[EventRecord], publications: Sequence[PublicationRecord]) -> tuple[Moment, ...]:
    """What happened to a run, in order: request, approval, staging, gates, publication and rollback."""
    found = [moment for event in events if (moment := _moment(event)) is not None]
    found += [
        Moment(
            at=record.finished_at or record.started_at,
            by=record.intent.by,
            what=f"{record.intent.action}: {record.state.replace('_', ' ').lower()}",
            note=record.intent.reason,
        )
        for record in publications
    ]
    return tuple(sorted(found, key=lambda moment: moment.at))


def _moment(event: EventRecord) -> Moment | None:
    note = str(event.payload.get("note") or event.payload.get("reason") or "")
    match event.entity, event.action:
        case "run", "planned":
            what = "requested"
        case "approval", "approved":
            place = event.payload.get("place")
            what = f"approved {place}" if place else "approved"
        case "approval", "approval_withdrawn":
            what = "approval withdrawn"
        case "run", "moved" if event.to_state in _REACHED:
            what = _REACHED[RunState(event.to_state)]
        case _:
            return None
    return Moment(at=event.at, by=event.actor, what=what, note=note)


def cost_of(
    chunks: Sequence[ChunkRecord], candidates: Iterable[CandidatePartition], events: Iterable[EventRecord]
) -> CostDocument:
    """What a run has cost so far, as far as the ledger knows."""
    files = [file for candidate in candidates for file in candidate.files.files]
    spans = [chunk.finished_at - chunk.started_at for chunk in chunks if chunk.finished_at]
    return CostDocument(
        chunks=len(chunks),
        input_rows=sum(chunk.input_rows or 0 for chunk in chunks),
        output_rows=sum(chunk.output_rows or 0 for chunk in chunks),
        files=len(files),
        size_bytes=sum(file.size_bytes for file in files),
        staging_seconds=round(sum(span.total_seconds() for span in spans), 1),
        gating_seconds=_gating_seconds(events),
    )


def _gating_seconds(events: Iterable[EventRecord]) -> float | None:
    begun: datetime | None = None
    found: float | None = None
    for event in events:
        if event.action != "moved":
            continue
        if event.to_state == RunState.GATING:
            begun = event.at
        elif begun is not None and event.to_state in (RunState.PASSED, RunState.BLOCKED):
            found, begun = round((event.at - begun).total_seconds(), 1), None
    return found

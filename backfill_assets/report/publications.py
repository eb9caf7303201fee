"""Documents of publications: what a swap changed, who made it, and its outcome; and the course of a run up to it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime

from backfill_assets.domain import DerivedTable
from backfill_assets.ledger.publications import Extent
from backfill_assets.ledger.records import Action, EventRecord, PublicationHeader
from backfill_assets.ledger.states import PublicationState, RunState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.partitions import DayRange, Grain, days_of, partitions_over
from backfill_assets.planning.reasons import ChangedReference
from backfill_assets.report.documents import INLINE
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationDocument:
    """One publication, or one rollback."""

    header: PublicationHeader = field(metadata=INLINE)  #: The swap.
    extent: Extent = field(metadata=INLINE)  #: How much it changes.
    grain: Grain  #: Whether its partitions are days or months; days of a table that is no longer declared.
    expires: bool = False  #: Whether it lets snapshots expire, or brings expired ones back.
    #: References that had changed when it was published, where a command answers with it.
    changed_references: tuple[ChangedReference, ...] = ()
    untouched_count: int = 0  #: How many partitions between its first and its last one it leaves as they were.


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackDocument:
    """The rollback of a run."""

    publication: PublicationDocument = field(metadata=INLINE)  #: The rollback.
    #: The rollbacks that `--with-dependents` made before it, in order.
    dependents: tuple[PublicationDocument, ...] = ()


def publication_documents(
    ws: Workspace, tx: ReadTransaction, headers: Sequence[PublicationHeader]
) -> tuple[PublicationDocument, ...]:
    """Publications with how much they change, in the order given."""
    extents = tx.publications.extents(header.publication_id for header in headers)
    expiries = tx.runs.expiries({header.run_id for header in headers})
    return tuple(
        PublicationDocument(
            header=header,
            extent=extents[header.publication_id],
            grain=ws.domain.grain_of(header.table),
            expires=header.run_id in expiries,
            untouched_count=_untouched(ws, header.table, extents[header.publication_id]),
        )
        for header in headers
    )


def _untouched(ws: Workspace, table: str, extent: Extent) -> int:
    if extent.first is None or extent.last is None:
        return 0
    declared, grain = ws.domain.tables.get(table), ws.domain.grain_of(table)
    within: Collection[date] = partitions_over(grain, DayRange(extent.first, days_of(grain, extent.last).end))
    if isinstance(declared, DerivedTable) and declared.stretches is not None:
        # Of a table that was declared otherwise before, its ends may be days that have no snapshot any more.
        within = {*declared.stretches.ends(within), extent.first, extent.last}
    named = extent.partition_count + extent.new_empty_count + extent.verified_count
    return max(len(within) - named, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Something that happened to a run."""

    at: datetime  #: When.
    by: str  #: Who did it, or on whose behalf.
    what: str  #: Events, in words.
    note: str  #: What was written with it, such as the comment of an approval; empty when there is nothing.


_REACHED = {
    RunState.STAGED: "staged: the candidate files are written",
    RunState.PASSED: "every blocking gate passed",
    RunState.BLOCKED: "blocked by a gate",
    RunState.FAILED: "failed",
    RunState.CANCELLED: "cancelled",
    RunState.VERIFIED: "verified: every row was the one that readers saw",
    RunState.SUPERSEDED: "superseded by a later publication",
}
_ACTS = {Action.PUBLISH: "publication", Action.ROLLBACK: "rollback"}


def timeline(events: Iterable[EventRecord], publications: Sequence[PublicationHeader]) -> tuple[Moment, ...]:
    """Events to a run, in order: request, approval, staging, gates, publication and rollback."""
    found = [moment for event in events if (moment := _moment(event)) is not None]
    found += [
        Moment(
            at=header.at,
            by=header.by,
            what=act_words(header),
            note=header.reason,
        )
        for header in publications
    ]
    return tuple(sorted(found, key=lambda moment: moment.at))


def act_words(publication: PublicationHeader) -> str:
    """The words for what a publication or a rollback did when it was made, whatever became of it later."""
    match publication.state:
        case PublicationState.PUBLISHING:
            return f"{_ACTS[publication.action]}, not finished"
        case PublicationState.ABANDONED:
            return f"{_ACTS[publication.action]}, given up: nothing changed"
        case PublicationState.PUBLISHED | PublicationState.ROLLED_BACK:
            return "published" if publication.action is Action.PUBLISH else "rolled back"


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

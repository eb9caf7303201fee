"""Documents of publications: what a swap changed, who made it, and its outcome; and the course of a run up to it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime

from backfill_assets.calendar.partitions import DayRange, Grain, count_of, days_of, partition_text, partitions_over
from backfill_assets.domain import DerivedTable
from backfill_assets.ledger.publications import Extent
from backfill_assets.ledger.records import Action, EventRecord, PublicationHeader
from backfill_assets.ledger.states import PublicationState, RunState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest_parts import ChangedReference
from backfill_assets.report.charts import Form, Mark, Plot
from backfill_assets.report.documents import INLINE
from backfill_assets.report.html import Linked
from backfill_assets.report.page import (
    Chart,
    Note,
    Page,
    Table,
    Value,
    page,
    place_ref,
    publication_ref,
    run_ref,
    section,
    table,
    words,
)
from backfill_assets.report.runs import changed_reference_notes, state_of
from backfill_assets.report.values import text_of
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationDocument:
    """One publication, or one rollback."""

    header: PublicationHeader = field(metadata=INLINE)  #: The swap.
    extent: Extent = field(metadata=INLINE)  #: How much it changes.
    grain: Grain  #: Whether its partitions are days or months; days of a table that is no longer declared.
    expires: bool = False  #: True if it lets snapshots expire, or brings expired ones back.
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


# Publications and rollbacks: those of a command or a run, and a drawing of those of every table.


def published_page(document: PublicationDocument) -> Page:
    """The page of a command that publishes."""
    equal = Note(text="Nothing to publish: its rows equal the accepted ones.")
    listed = section("Publications", publications_table([document]))
    return page(
        "Published",
        equal if document.extent.changes_nothing else None,
        *changed_reference_notes(document.changed_references),
        listed,
    )


def rolled_back_page(document: RollbackDocument) -> Page:
    """The page of a command that rolls back."""
    undone = [*document.dependents, document.publication]
    return page("Rolled back", section("Publications", publications_table(undone)))


def timeline_page(publications: Sequence[PublicationDocument], linked: Linked, older: str | None) -> Page:
    """Publications and rollbacks by table and time."""
    return page(
        "Publications and rollbacks",
        None if publications else Note(text="Nothing was published."),
        _timeline(publications, linked) if publications else None,
        publications_table(publications),
        Note(text=place_ref(older, "older")) if older else None,
    )


def _timeline(publications: Sequence[PublicationDocument], linked: Linked) -> Chart:
    """From left to right by their times, one lane per table."""
    times = [each.header.at for each in publications]
    plot = Plot(
        title="Publications by table and time",
        form=Form.POINTS,
        marks=tuple(
            _point(each, linked)
            for each in sorted(publications, key=lambda each: (each.header.table, each.header.sequence))
        ),
        x="time, UTC",
        seconds=(max(times) - min(times)).total_seconds(),
    )
    return Chart(plots=(plot,), legend=(("publish", "\u25b2 publication"), ("rollback", "\u25bc rollback")))


def _point(publication: PublicationDocument, linked: Linked) -> Mark:
    each = publication.header
    return Mark(
        style="rollback" if each.action is Action.ROLLBACK else "publish",
        title=f"{text_of(each.at)}: {act_words(each)} by {each.by}, "
        f"{_count(publication)} swapped"
        f"{', undone later' if each.state is PublicationState.ROLLED_BACK else ''}",
        at=f"{each.at:%Y-%m-%dT%H:%M:%S}Z",
        row=each.table,
        address=linked(run_ref(each.run_id)),
    )


def _count(publication: PublicationDocument) -> str:
    extent = publication.extent
    return "nothing" if extent.changes_nothing else count_of(extent.partition_count, publication.grain.noun)


def publications_table(publications: Sequence[PublicationDocument], *, of_one_table: bool = False) -> Table:
    """Publications, one a line.

    Args:
        of_one_table: The page is about their table, so that no line names it.
    """
    rows = [
        (
            each.header.at,
            _action(each),
            *(() if of_one_table else (each.header.table,)),
            _swapped(each),
            _why(each.header),
            each.header.delta_version,
            # Below each other, so that neither is broken.
            words(publication_ref(each.header.publication_id), " ", run_ref(each.header.run_id)),
        )
        for each in publications
    ]
    named = [] if of_one_table else ["table"]
    heads = ["at", "what", *named, "partitions", "by, and why", "table version", "publication and run"]
    return table(heads, rows, numbers=["table version"], whole=["at"])


def _action(publication: PublicationDocument) -> Value:
    """The action of a publication, and its outcome where that differs from the action."""
    made = publication.header
    is_verified = made.action is Action.PUBLISH and publication.extent.changes_nothing
    action = "VERIFY" if is_verified else str(made.action)
    if publication.expires and made.action is Action.PUBLISH:
        action = "EXPIRE"
    return action if made.state == "PUBLISHED" else words(action, " (", state_of(made.state), ")")


def _swapped(publication: PublicationDocument) -> str:
    extent, grain, untouched_count = publication.extent, publication.grain, publication.untouched_count
    if extent.first is None or extent.last is None:
        return "as it was: nothing had been swapped"
    ends = "..".join(dict.fromkeys(partition_text(grain, each) for each in (extent.first, extent.last)))
    between = f", {count_of(untouched_count, grain.noun)} between them left as before" if untouched_count else ""
    if extent.changes_nothing:
        return f"{ends}, {count_of(extent.verified_count, grain.noun)} verified as equal, nothing swapped{between}"
    equal = f", {extent.verified_count:,} verified as equal" if extent.verified_count else ""
    empty = f", {extent.new_empty_count:,} recorded as empty" if extent.new_empty_count else ""
    swapped = f"{count_of(extent.partition_count, grain.noun)} swapped{empty}{equal}{between}"
    return f"{ends}, {swapped}, {count_of(extent.rows, 'row')}"


def _why(publication: PublicationHeader) -> str:
    note = f" ({publication.note})" if publication.note else ""
    return f"{publication.by}: {publication.reason}{note}"

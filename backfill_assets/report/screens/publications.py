"""Publications and rollbacks: those of a command or a run, and a drawing of those of every table."""

from __future__ import annotations

from collections.abc import Sequence

from backfill_assets.ledger.records import Action, PublicationHeader
from backfill_assets.ledger.states import PublicationState
from backfill_assets.planning.partitions import count_of, partition_text
from backfill_assets.report.charts import Form, Mark, Plot
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
from backfill_assets.report.publications import PublicationDocument, RollbackDocument, act_words
from backfill_assets.report.screens.runs import changed_reference_notes, state_of
from backfill_assets.report.values import text_of


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

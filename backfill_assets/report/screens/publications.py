"""Publications and rollbacks: those of a command or a run, and a drawing of those of every table."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from backfill_assets.ledger.publications import Extent
from backfill_assets.ledger.records import Action, PublicationHeader
from backfill_assets.ledger.states import PublicationState
from backfill_assets.planning.partitions import Grain, count_of, partition_text
from backfill_assets.report import charts
from backfill_assets.report.html import Linked
from backfill_assets.report.page import Chart, Note, Page, Table, Value, page, place_ref, run_ref, section, table, words
from backfill_assets.report.publications import PublicationDocument, RollbackDocument
from backfill_assets.report.run_history import act_words
from backfill_assets.report.screens.runs import state_of
from backfill_assets.report.values import text_of

_LANE = 26
_NAMES = 210
"""How much room the names of tables have."""


def published_page(document: PublicationDocument) -> Page:
    """What a command that publishes answers."""
    return page("Published", section("Publications", publications_table([document])))


def rolled_back_page(document: RollbackDocument) -> Page:
    """What a command that rolls back answers."""
    undone = [*document.dependents, document.publication]
    return page("Rolled back", section("Publications", publications_table(undone)))


def timeline_page(publications: Sequence[PublicationDocument], linked: Linked, older: str | None) -> Page:
    """Publications and rollbacks by table and time."""
    legend = (("publish", "\u25b2 publication"), ("rollback", "\u25bc rollback"))
    return page(
        "Publications and rollbacks",
        None if publications else Note(text="Nothing was published."),
        Chart(drawn=_drawn(publications, linked), legend=legend),
        publications_table(publications),
        Note(text=place_ref(older, "older")) if older else None,
    )


def _drawn(publications: Sequence[PublicationDocument], linked: Linked) -> Markup:
    """From left to right by when they began, one lane per table."""
    if not publications:
        return Markup()
    tables = sorted({each.header.table for each in publications})
    lanes = {table: _LANE // 2 + _LANE * number for number, table in enumerate(tables)}
    first, last = (end(each.header.started_at for each in publications) for end in (min, max))
    length, room = (last - first).total_seconds() or 1.0, charts.WIDTH - _NAMES - 20
    shapes = [
        shape
        for name, y in lanes.items()
        for shape in (charts.text(0, y + 4, name), charts.line(_NAMES, y, charts.WIDTH))
    ]
    for publication in publications:
        each = publication.header
        x, y = _NAMES + 10 + room * (each.started_at - first).total_seconds() / length, lanes[each.table]
        is_rollback = each.action is Action.ROLLBACK
        mark = f"M{x - 6:.1f} {y - 5}h12l-6 11z" if is_rollback else f"M{x - 6:.1f} {y + 5}h12l-6 -11z"
        title = (
            f"{text_of(each.started_at)}: {act_words(each)} by {each.by}, "
            f"{count_of(publication.extent.partition_count, publication.grain.noun)} swapped"
            f"{', undone later' if each.state is PublicationState.ROLLED_BACK else ''}"
        )
        shape = charts.path(mark, "rollback" if is_rollback else "publish")
        shapes.append(charts.link(linked(run_ref(each.run_id)), title, shape))
    below = _LANE * len(tables) + 12
    shapes.append(charts.text(_NAMES, below, text_of(first)))
    shapes.append(charts.text(charts.WIDTH, below, text_of(last), anchor="end"))
    return charts.svg("Publications by table and time", below + 6, shapes, has_links=True)


def publications_table(publications: Sequence[PublicationDocument]) -> Table:
    """Publications, one a line."""
    rows = [
        (
            each.header.started_at,
            _action(each.header),
            each.header.table,
            run_ref(each.header.run_id),
            _swapped(each.extent, each.grain),
            each.header.delta_version,
            _why(each.header),
        )
        for each in publications
    ]
    heads = ["at", "what", "table", "run", "partitions", "table version", "by, and why"]
    return table(heads, rows, numbers=["table version"], whole=["at", "run"])


def _action(publication: PublicationHeader) -> Value:
    """What it did, and what has become of it where that is not what its action says."""
    if publication.state == "PUBLISHED":
        return str(publication.action)
    return words(str(publication.action), " (", state_of(publication.state), ")")


def _swapped(extent: Extent, grain: Grain) -> str:
    if extent.first is None or extent.last is None:
        return "as it was: nothing had been swapped"
    equal = f", {extent.verified_count:,} verified as equal" if extent.verified_count else ""
    empty = f", {extent.new_empty_count:,} recorded as empty" if extent.new_empty_count else ""
    swapped = f"{count_of(extent.partition_count, grain.noun)} swapped{empty}{equal}"
    ends = dict.fromkeys(partition_text(grain, each) for each in (extent.first, extent.last))
    return f"{'..'.join(ends)}, {swapped}, {count_of(extent.rows, 'row')}"


def _why(publication: PublicationHeader) -> str:
    note = f" ({publication.note})" if publication.note else ""
    return f"{publication.by}: {publication.reason}{note}"

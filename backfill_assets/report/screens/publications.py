"""Publications and rollbacks, in the order in which they happened."""

from __future__ import annotations

from collections.abc import Sequence

from backfill_assets.planning.partitions import count_of
from backfill_assets.report.page import Page, Table, Value, page, run_ref, section, table, words
from backfill_assets.report.publications import PublicationDocument
from backfill_assets.report.screens.runs import state_of


def publications_page(title: str, publications: Sequence[PublicationDocument]) -> Page:
    """What a command that publishes or rolls back answers."""
    return page(title, section("Publications", publications_table(publications)))


def publications_table(publications: Sequence[PublicationDocument]) -> Table:
    """Publications, one a line."""
    rows = [
        (
            each.started_at,
            _action(each),
            each.table,
            run_ref(each.run_id),
            _swapped(each),
            each.delta_version,
            _why(each),
        )
        for each in publications
    ]
    heads = ["at", "what", "table", "run", "partitions", "version", "by, and why"]
    return table(heads, rows, numbers=["version"], whole=["at", "run"])


def _action(publication: PublicationDocument) -> Value:
    """What it did, and what has become of it where that is not what its action says."""
    if publication.state == "PUBLISHED":
        return str(publication.action)
    return words(str(publication.action), " (", state_of(publication.state), ")")


def _swapped(publication: PublicationDocument) -> str:
    if publication.from_ is None:
        return "as it was: nothing had been swapped"
    equal = f", {publication.verified_count:,} verified as equal" if publication.verified_count else ""
    empty = f", {publication.new_empty_count:,} recorded as empty" if publication.new_empty_count else ""
    swapped = f"{count_of(publication.partition_count, 'partition')} swapped{empty}{equal}"
    return f"{publication.from_}..{publication.to}, {swapped}, {count_of(publication.rows, 'row')}"


def _why(publication: PublicationDocument) -> str:
    note = f" ({publication.note})" if publication.note else ""
    return f"{publication.by}: {publication.reason}{note}"

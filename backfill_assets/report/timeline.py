"""Timeline of publications and rollbacks of every table, a page at a time."""

from __future__ import annotations

from dataclasses import dataclass

from backfill_assets.ledger.publications import PublicationFilter
from backfill_assets.report.publications import PublicationDocument, publication_line
from backfill_assets.workspace import Workspace

PAGE_SIZE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """A page of publications and rollbacks.

    Attributes:
        publications: The last begun first.
        tables: Every table that is declared or was published.
        older: What continues the list: the sequence before which its publications were begun; null at its end.
    """

    publications: tuple[PublicationDocument, ...]
    tables: tuple[str, ...]
    older: int | None


def timeline(ws: Workspace, *, table: str | None = None, before: int | None = None, size: int = PAGE_SIZE) -> Timeline:
    """A page of publications and rollbacks, those that were given up among them."""
    chosen = PublicationFilter(limit=size + 1)
    if table:
        chosen["table"] = table
    if before is not None:
        chosen["before"] = before
    with ws.ledger.read() as tx:
        found = tx.publications.headers(**chosen)
        shown = found[:size]
        extents = tx.publications.extents(header.publication_id for header in shown)
        tables = tuple(dict.fromkeys((*ws.domain.tables, *tx.versions.tables())))
    return Timeline(
        publications=tuple(publication_line(header, extents[header.publication_id]) for header in shown),
        tables=tables,
        older=shown[-1].sequence if len(found) > size else None,
    )

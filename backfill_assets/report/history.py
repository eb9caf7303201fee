"""History of a table: its publications and versions."""

from __future__ import annotations

from dataclasses import dataclass, field

from backfill_assets.ledger.states import PublicationState
from backfill_assets.report.documents import INLINE
from backfill_assets.report.publications import PublicationDocument, publication_documents
from backfill_assets.report.status import TableStatus, table_status
from backfill_assets.workspace import Workspace

MOST_PUBLICATIONS = 100
SHOWN = tuple(state for state in PublicationState if state is not PublicationState.ABANDONED)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHistory:
    """A table, and everything that changed it.

    Attributes:
        table: What readers see of it now.
        publications: The latest hundred publications and rollbacks, in order.
        earlier_publications: How many there were before these; `--partition` shows all that a partition had.
    """

    table: TableStatus = field(metadata=INLINE)
    publications: tuple[PublicationDocument, ...]
    earlier_publications: int = 0


def table_history(ws: Workspace, table: str) -> TableHistory:
    """The latest publications and rollbacks of a table in order, and what readers see now."""
    name = ws.domain.table(table).name
    with ws.ledger.read() as tx:
        headers = tx.publications.headers(table=name, states=SHOWN, limit=MOST_PUBLICATIONS)
        publications = publication_documents(ws, tx, headers[::-1])
        count = tx.publications.count(table=name, states=SHOWN)
        found = table_status(ws, tx, name)
    return TableHistory(table=found, publications=publications, earlier_publications=count - len(headers))

"""What has a table ever been?"""

from __future__ import annotations

from dataclasses import dataclass, field

from backfill_assets.documents import INLINE
from backfill_assets.evidence.publications import PublicationDocument, publication_document
from backfill_assets.evidence.status import TableStatus, table_status
from backfill_assets.ledger.states import PublicationState
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHistory:
    """A table, and everything that changed it.

    Attributes:
        table: What readers see of it now.
        publications: Every publication and rollback, in order.
    """

    table: TableStatus = field(metadata=INLINE)
    publications: tuple[PublicationDocument, ...]


def table_history(ws: Workspace, table: str) -> TableHistory:
    """Every publication and rollback of a table in order, and what readers see now.

    Raises:
        UnknownName: There is no such table.
    """
    name = ws.domain.table(table).name
    with ws.ledger.read() as tx:
        landed = [
            record
            for record in tx.publications.records()
            if record.intent.table == name and record.state is not PublicationState.ABANDONED
        ]
        found = table_status(ws, tx, name)
    ordered = sorted(landed, key=lambda record: record.started_at)
    return TableHistory(table=found, publications=tuple(publication_document(record) for record in ordered))

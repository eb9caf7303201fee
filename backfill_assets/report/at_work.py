"""Work in progress: what processes are working on, and how far they are."""

from __future__ import annotations

from dataclasses import dataclass, replace

from backfill_assets.core.errors import UnknownName
from backfill_assets.core.lease import Lease
from backfill_assets.ledger.errors import Damaged
from backfill_assets.ledger.states import ChunkState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkInProgress:
    """The work of one process: what it is doing, or was when it stopped."""

    work: str  #: A run, or a landed file.
    table: str | None = None  #: The table of the run, or the source of the file; null when neither is known any more.
    state: str | None = None  #: How far it is.
    lease: Lease  #: On whose behalf, in which process and since when.
    chunks_done: int | None = None  #: How many chunks of the run are staged; null for a landed file.
    chunks_begun: int | None = None  #: How many were begun.
    rows: int | None = None  #: How many rows the finished chunks have.
    overdue_seconds: float  #: For how long its lease was not renewed after its end; 0 while it is alive.


def at_work(ws: Workspace) -> tuple[WorkInProgress, ...]:
    """The work that processes are doing, by the object that they work on."""
    with ws.ledger.read() as tx:
        now = tx.now
        return tuple(
            _described(
                tx,
                WorkInProgress(
                    work=work, lease=lease, overdue_seconds=max(0.0, (now - lease.until_at).total_seconds())
                ),
            )
            for work, lease in tx.leases.every().items()
        )


def _described(tx: ReadTransaction, found: WorkInProgress) -> WorkInProgress:
    """The description, with progress."""
    if found.work.startswith("imp-"):
        record = tx.imports.get(found.work)
        return replace(found, table=record.source, state=str(record.state))
    try:
        run = tx.runs.header(found.work)
    except (UnknownName, Damaged):
        return found
    chunks = tx.candidates.chunks(found.work)
    done = [chunk for chunk in chunks if chunk.state is ChunkState.DONE]
    return replace(
        found,
        table=run.table,
        state=str(run.state),
        chunks_done=len(done),
        chunks_begun=len(chunks),
        rows=sum(chunk.output_rows or 0 for chunk in done),
    )

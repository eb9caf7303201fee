"""Work in progress: what processes are working on, and how far they are."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from backfill_assets.core.errors import UnknownName
from backfill_assets.ledger.states import ChunkState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkInProgress:
    """What one process is working on, or was when it stopped.

    Attributes:
        work: A run, or a landed file.
        table: The table of the run, or the source of the file; null when neither is known any more.
        state: How far it is.
        holder: On whose behalf.
        machine: The process, as `HOST:PID`.
        since: When it began.
        chunks_done: How many chunks of the run are staged; null for a landed file.
        chunks_begun: How many were begun.
        rows: How many rows the finished chunks have.
        overdue_seconds: For how long its lease was not renewed after its end; 0 while it is alive.
    """

    work: str
    table: str | None
    state: str | None
    holder: str
    machine: str
    since: datetime
    chunks_done: int | None
    chunks_begun: int | None
    rows: int | None
    overdue_seconds: float


def at_work(ws: Workspace) -> tuple[WorkInProgress, ...]:
    """What processes are working on, by what is worked on."""
    now = ws.clock()
    with ws.ledger.read() as tx:
        found = []
        for work, lease in tx.leases.every().items():
            table, state, done, begun, rows = _file(tx, work) if work.startswith("imp-") else _run(tx, work)
            found.append(
                WorkInProgress(
                    work=work,
                    table=table,
                    state=state,
                    holder=lease.holder,
                    machine=lease.machine,
                    since=lease.since_at,
                    chunks_done=done,
                    chunks_begun=begun,
                    rows=rows,
                    overdue_seconds=max(0.0, (now - lease.until_at).total_seconds()),
                )
            )
    return tuple(found)


_Found = tuple[str | None, str | None, int | None, int | None, int | None]


def _file(tx: ReadTransaction, work: str) -> _Found:
    """The source of a file that is being landed, and its state."""
    record = tx.imports.get(work)
    return record.source, str(record.state), None, None, None


def _run(tx: ReadTransaction, work: str) -> _Found:
    """The table and state of a run, its finished and begun chunks, and their rows."""
    try:
        run = tx.runs.header(work)
    except UnknownName:
        return None, None, None, None, None
    chunks = tx.candidates.chunks(work)
    done = [chunk for chunk in chunks if chunk.state is ChunkState.DONE]
    return run.table, str(run.state), len(done), len(chunks), sum(chunk.output_rows or 0 for chunk in done)

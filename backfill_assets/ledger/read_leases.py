"""Who is at work on what, and until when?"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Row, select

from backfill_assets.errors import AtWork
from backfill_assets.lease import Lease
from backfill_assets.ledger.reading import Reading
from backfill_assets.ledger.schema import leases


class LeaseReader(Reading):
    """Leases of runs and landed files."""

    def lease(self, work_id: str) -> Lease | None:
        """Who is at work on a run or a landed file, or was when it stopped; None when its work has ended."""
        row = self._row(select(leases).where(leases.c.work_id == work_id))
        return None if row is None else _lease(row)

    def require_free(self, work_id: str, *, at: datetime) -> None:
        """Refuses to disturb a process whose lease has not ended.

        Raises:
            AtWork: Another process is at work on it.
        """
        held = self.lease(work_id)
        if held is not None and held.is_alive(at):
            raise at_work(work_id, held, at)


def at_work(work_id: str, held: Lease, at: datetime) -> AtWork:
    """The refusal to disturb a living process."""
    return AtWork(
        f"{work_id} is under way: {held.sentence(at)}.",
        next_step=f"wait for it; if that process is gone: backfill recover {work_id} --now --by NAME takes over",
        work_id=work_id,
        holder=held.holder,
        machine=held.machine,
        until=held.until_at.isoformat(),
    )


def _lease(row: Row[tuple[object, ...]]) -> Lease:
    return Lease(
        attempt=row.attempt,
        holder=row.holder,
        machine=row.machine,
        since_at=row.since_at,
        until_at=row.until_at,
    )

"""Who takes a lease, and who gives it back? Always together with the step that begins or ends the work."""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, update

from backfill_assets.clock import Clock
from backfill_assets.errors import TakenOver
from backfill_assets.lease import LeaseTerms
from backfill_assets.ledger.read_leases import LeaseReader
from backfill_assets.ledger.schema import leases
from backfill_assets.ledger.writing import Writing


class LeaseWriter(Writing, LeaseReader):
    """Takes and drops leases inside the transaction of a state change."""

    def _take_lease(self, work_id: str, terms: LeaseTerms | None, *, holder: str) -> None:
        """The work belongs to these terms from here on; without terms to nobody, so that anybody may take over."""
        self._drop_lease(work_id)
        if terms is not None:
            self._connection.execute(
                insert(leases).values(
                    work_id=work_id,
                    attempt=terms.attempt,
                    holder=holder,
                    machine=terms.machine,
                    since_at=self.now,
                    until_at=self.now + terms.length,
                )
            )

    def _drop_lease(self, work_id: str) -> None:
        self._connection.execute(delete(leases).where(leases.c.work_id == work_id))

    def _require_lease(self, work_id: str, attempt: str | None) -> None:
        """Refuses a process whose lease was taken away; one that never took any is not asked."""
        held = self.lease(work_id)
        if attempt is not None and (held is None or held.attempt != attempt):
            raise TakenOver(
                f"{work_id} is not this process's any more: another process took it over.",
                next_step="backfill status",
                work_id=work_id,
            )


def renew(connection: Connection, clock: Clock, work_id: str, terms: LeaseTerms) -> bool:
    """Renews a lease, without the writer's turn and without an event; False when it was taken away."""
    is_it = (leases.c.work_id == work_id) & (leases.c.attempt == terms.attempt)
    changed = connection.execute(update(leases).where(is_it).values(until_at=clock() + terms.length))
    return bool(changed.rowcount)

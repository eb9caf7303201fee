"""Leases in the ledger: which process works on what, and until when.

A lease is taken and dropped with the step that begins or ends the work.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, delete, insert, select, update

from backfill_assets.core.lease import Lease, LeaseTerms, mark_of
from backfill_assets.ledger import queries
from backfill_assets.ledger.errors import LostWork, UnderWay
from backfill_assets.ledger.events import EventLog
from backfill_assets.ledger.queries import Queries
from backfill_assets.ledger.schema import leases

_TURN = "turn to land "
_PUBLICATION = "pub-"
_WHOLE = "pub-of "


class LeaseReads(Queries):
    """Leases of runs and landed files."""

    def get(self, work_id: str) -> Lease | None:
        """The process that works on a run, a file or a publication, or did when it stopped; None when that has ended.

        Cost: one primary key lookup.
        """
        row = self._row(select(leases).where(leases.c.work_id == work_id))
        return None if row is None else queries.lease(row)

    def every(self) -> dict[str, Lease]:
        """Every lease, by the run or the landed file that is worked on; turns of sources and publications, which take
        seconds, are not among them.

        Cost: one row per process at work.
        """
        of_work = (
            select(leases)
            .where(*(~leases.c.work_id.startswith(each) for each in (_TURN, _PUBLICATION)))
            .order_by(leases.c.work_id)
        )
        return {row.work_id: queries.lease_of(row) for row in self._rows(of_work)}

    def is_held(self, work_id: str, *, at: datetime) -> bool:
        """True if other processes have to leave it alone. Cost: one primary key lookup."""
        held = self.get(work_id)
        return held is not None and held.is_alive(at)

    def require_free(self, work_id: str, *, at: datetime) -> None:
        """Refuses to disturb a process whose lease has not ended.

        Cost: one primary key lookup.

        Raises:
            AtWork: Another process holds the lease.
        """
        held = self.get(work_id)
        if held is not None and held.is_alive(at):
            raise UnderWay(work_id=work_id, held=held, found_at=at)


class LeaseSteps(LeaseReads):
    """Takes and drops leases inside the transaction of a state change."""

    def __init__(self, log: EventLog) -> None:
        super().__init__(log.connection)
        self._now = log.now

    def take(self, work_id: str, terms: LeaseTerms | None, *, holder: str) -> None:
        """The work belongs to these terms from here on; without terms any process may take it over."""
        self.drop(work_id)
        if terms is not None:
            lease = {
                "work_id": work_id,
                "attempt": terms.attempt,
                "holder": holder,
                "machine": f"{terms.machine} {mark_of(terms.machine)}".rstrip(),
                "since_at": self._now,
                "until_at": self._now + terms.length,
            }
            self._connection.execute(insert(leases), lease)

    def drop(self, work_id: str) -> None:
        """The work has ended."""
        self._connection.execute(delete(leases).where(leases.c.work_id == work_id))

    def require(self, work_id: str, attempt: str | None) -> None:
        """Refuses a process whose lease was taken away; one that never took any is not asked.

        Raises:
            TakenOver: Another process has the work by now.
        """
        held = self.get(work_id)
        if attempt is not None and (held is None or held.attempt != attempt):
            raise LostWork(name=work_id, why="another process took it over", of={"work_id": work_id})


class TurnWrites(LeaseReads):
    """The turn to land files of each source, and to go on with a set or a rollback of several tables. It changes no
    state, so that there is no event of it."""

    def __init__(self, log: EventLog) -> None:
        super().__init__(log.connection)
        self._now, self._leases = log.now, LeaseSteps(log)

    def take(self, source: str, terms: LeaseTerms, *, holder: str) -> bool:
        """Takes the turn, unless another process has it and is alive as far as can be seen from here.

        Cost: one primary key lookup, and one row.

        Returns:
            Whether it is these terms' now.
        """
        held = self.get(turn_of(source))
        if held is not None and held.is_alive(self._now):
            return False
        self._leases.take(turn_of(source), terms, holder=holder)
        return True

    def take_whole(self, name: str, terms: LeaseTerms, *, holder: str) -> None:
        """A set, or a rollback with dependents, is these terms' between its tables as well. Cost: two rows."""
        self._leases.take(whole_of(name), terms, holder=holder)

    def give_back_whole(self, name: str, terms: LeaseTerms) -> None:
        """Gives it back; does nothing if it was lost. Cost: one primary key lookup, and one row."""
        held = self.get(whole_of(name))
        if held is not None and held.attempt == terms.attempt:
            self._leases.drop(whole_of(name))

    def require(self, source: str, terms: LeaseTerms) -> None:
        """Refuses a process that does not have the turn any more. Cost: one primary key lookup."""
        self._leases.require(turn_of(source), terms.attempt)

    def give_back(self, source: str, terms: LeaseTerms) -> None:
        """Gives the turn back; does nothing if it was lost. Cost: one primary key lookup, and one row."""
        held = self.get(turn_of(source))
        if held is not None and held.attempt == terms.attempt:
            self._leases.drop(turn_of(source))


def turn_of(source: str) -> str:
    """The name of the turn to land files of a source among the leases."""
    return f"{_TURN}{source}"


def whole_of(name: str) -> str:
    """The name of a set, or of a rollback with dependents, among the leases while a process works on it."""
    return f"{_WHOLE}{name}"


def renew(connection: Connection, now: datetime, work_id: str, terms: LeaseTerms) -> bool:
    """Renews a lease, without the writer's turn and without an event; False when it was taken away."""
    is_it = (leases.c.work_id == work_id) & (leases.c.attempt == terms.attempt)
    changed = connection.execute(update(leases).where(is_it).values(until_at=now + terms.length))
    return bool(changed.rowcount)

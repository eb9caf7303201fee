"""Event log: appends to the event chain and changes states, with one instant per transaction.

Every aggregate that writes is given the log of its transaction; only through it do states change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, insert, select, update

from backfill_assets.clock import Clock
from backfill_assets.errors import Refused
from backfill_assets.ledger.chain import ChainHead, hash_of
from backfill_assets.ledger.queries import Queries
from backfill_assets.ledger.recorded_text import storable_text
from backfill_assets.ledger.records import EventRecord
from backfill_assets.ledger.schema import chain_head, events
from backfill_assets.ledger.states import may_follow
from backfill_assets.ledger.steps import Step
from backfill_assets.next_steps import Act, do

SYSTEM = "backfill"
"""The actor of steps that no person takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event before it has its place in the chain."""

    actor: str
    entity: str
    entity_id: str
    action: str
    from_state: str = ""
    to_state: str = ""
    payload: Mapping[str, Any] = field(default_factory=dict)


class EventLog(Queries):
    """The event chain at one writer's turn.

    Attributes:
        connection: The transaction's, for the aggregates that share it.
        now: The instant at which everything in this transaction happens.
    """

    def __init__(self, connection: Connection, clock: Clock) -> None:
        super().__init__(connection)
        self.connection = connection
        # On PostgreSQL this lock makes writers take turns; SQLite gave the turn when the transaction began.
        head = self._row(select(chain_head.c.sequence, chain_head.c.hash).with_for_update())
        if head is None:
            raise Refused("the head of the ledger's event chain was removed.", next_step=do(Act.AUDIT))
        self._head = ChainHead(sequence=head.sequence, hash=head.hash)
        self.now: datetime = clock()

    def append(self, *added: Event) -> int:
        """Adds events to the chain and returns the sequence of the last one."""
        if added:
            self._connection.execute(insert(events), [self._chained(event) for event in added])
        self._connection.execute(update(chain_head).values(sequence=self._head.sequence, hash=self._head.hash))
        return self._head.sequence

    def _chained(self, event: Event) -> dict[str, Any]:
        entry: dict[str, Any] = {
            "sequence": self._head.sequence + 1,
            "at": self.now,
            "actor": storable_text("the actor", event.actor),
            "entity": event.entity,
            "entity_id": event.entity_id,
            "action": event.action,
            "from_state": event.from_state,
            "to_state": event.to_state,
            "payload": dict(event.payload),
            "previous_hash": self._head.hash,
        }
        entry["hash"] = hash_of(EventRecord(**entry, hash=""))
        self._head = ChainHead(sequence=entry["sequence"], hash=entry["hash"])
        return entry

    def change(self, step: Step, event: Event, *, also: Mapping[str, Any] | None = None) -> None:
        """Takes one step of a transition table: a conditional update and its event.

        Args:
            step: What goes from where to where.
            event: The event, which gets the states of the step.
            also: Further columns that change with the state.

        Raises:
            IllegalTransition: The table does not allow the step, or the row is not where the step begins.
        """
        if not may_follow(step.begins, step.ends):
            raise step.refusal(step.begins)
        at_its_beginning = and_(step.is_row, step.table.c.state == step.begins)
        changed = self._connection.execute(
            update(step.table).where(at_its_beginning).values(state=step.ends, **(also or {}))
        )
        if changed.rowcount != 1:
            found = self._row(select(step.table.c.state).where(step.is_row))
            raise step.refusal(None if found is None else found.state)
        self.append(replace(event, from_state=str(step.begins), to_state=str(step.ends)))

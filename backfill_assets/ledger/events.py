"""Events of the ledger, in order."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from sqlalchemy import select

from backfill_assets.ledger import rows
from backfill_assets.ledger.chain import GENESIS_HASH
from backfill_assets.ledger.event_log import Event, EventLog
from backfill_assets.ledger.queries import Queries, batches
from backfill_assets.ledger.recorded_text import required_text
from backfill_assets.ledger.records import EventRecord
from backfill_assets.ledger.schema import chain_head, events


class EventReads(Queries):
    """The event chain."""

    def entries(
        self, *, after: int = 0, entity_id: str | None = None, actions: Collection[str] | None = None
    ) -> Iterator[EventRecord]:
        """Events in the order they happened, read a page at a time; use them before the transaction is closed.

        Cost: one index range per page of 1,000 events.

        Args:
            after: The sequence that was seen last.
            entity_id: Only events of this run, publication or import.
            actions: Only events of these actions; the others are read by the database, and not returned.
        """
        chosen = select(events)
        if actions is not None:
            chosen = chosen.where(events.c.action.in_(tuple(actions)))
        if entity_id is not None:
            chosen = chosen.where(events.c.entity_id == entity_id)
        return (rows.event_record(row) for row in self._paged(chosen, events.c.sequence, after=after))

    def numbered(self, sequences: Iterable[int]) -> dict[int, EventRecord]:
        """The events of these sequences; those that do not exist are left out.

        Cost: one primary key lookup per event.
        """
        return {
            row.sequence: rows.event_record(row)
            for batch in batches(sequences)
            for row in self._rows(select(events).where(events.c.sequence.in_(batch)))
        }

    def head(self) -> str:
        """The last event as `SEQUENCE:HASH`: noted elsewhere, it shows later whether the history before it was kept.

        Cost: one row.
        """
        row = self._row(select(chain_head.c.sequence, chain_head.c.hash))
        return "" if row is None else f"{row.sequence}:{row.hash}"

    def still_contains(self, head: str) -> bool:
        """Whether the chain still has the event that was its head once, as `head` returned it.

        Cost: one primary key lookup.
        """
        sequence, _, digest = head.partition(":")
        if not sequence.isdigit() or not digest:
            return False
        if int(sequence) == 0:
            return digest == GENESIS_HASH
        named = select(events.c.hash, events.c.former_hash).where(events.c.sequence == int(sequence))
        return any(digest in (row.hash, row.former_hash) for row in self._rows(named))


class EventWrites(EventReads):
    """The event chain, with events that change no state."""

    def __init__(self, log: EventLog) -> None:
        super().__init__(log.connection)
        self._log = log

    def record(
        self, *, actor: str, entity: str, entity_id: str, action: str, payload: Mapping[str, Any] | None = None
    ) -> int:
        """Remembers something that changes no state, such as a duplicate file that was ignored.

        Cost: one event.

        Returns:
            The sequence of the event.
        """
        return self._log.append(
            Event(
                actor=actor,
                entity=required_text("the entity", entity),
                entity_id=required_text("the entity's id", entity_id),
                action=required_text("the action", action),
                payload=payload or {},
            )
        )

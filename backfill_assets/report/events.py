"""Events of a run or a set, in the order in which they happened."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from backfill_assets.ledger.records import EventRecord
from backfill_assets.workspace import Workspace

MOST_EVENTS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLine:
    """One event.

    Attributes:
        sequence: Its place in the event chain.
        at: When it happened.
        actor: Who or what acted.
        entity: What kind of thing it concerns, such as `run` or `approval`.
        action: What happened.
        from_state: The state before; empty where no state changed.
        to_state: The state after, or empty.
    """

    sequence: int
    at: datetime
    actor: str
    entity: str
    action: str
    from_state: str
    to_state: str


def events_of(ws: Workspace, entity_id: str) -> tuple[EventLine, ...]:
    """The first 500 events of a run or a set; none of something that the ledger does not know."""
    with ws.ledger.read() as tx:
        return tuple(_line(event) for event in islice(tx.events.entries(entity_id=entity_id), MOST_EVENTS))


def _line(event: EventRecord) -> EventLine:
    return EventLine(
        sequence=event.sequence,
        at=event.at,
        actor=event.actor,
        entity=event.entity,
        action=event.action.replace("_", " "),
        from_state=event.from_state,
        to_state=event.to_state,
    )

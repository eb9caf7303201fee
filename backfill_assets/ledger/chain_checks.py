"""Chain checks: whether another program changed the chain, the manifests or the states.

An edited row that has no state is found by `row_checks`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, Row, and_, or_, select

from backfill_assets.identity import sha256_text
from backfill_assets.ledger.chain import ChainHead, broken_links
from backfill_assets.ledger.events import EventReads
from backfill_assets.ledger.queries import Queries
from backfill_assets.ledger.schema import (
    approvals,
    chain_head,
    events,
    imports,
    manifests,
    publications,
    restatement_sets,
    runs,
)
from backfill_assets.ledger.states import ApprovalState

UNKNOWN = "nothing"
MOVED_OUT = "row_values_moved"
"""The upgrade that moved values of rows out of the events."""

STATEFUL = {
    "run": (runs.c.run_id, runs.c.state, UNKNOWN),
    "approval": (approvals.c.run_id, approvals.c.state, str(ApprovalState.DRAFT)),
    "publication": (publications.c.publication_id, publications.c.state, UNKNOWN),
    "import": (imports.c.import_id, imports.c.state, UNKNOWN),
    "set": (restatement_sets.c.set_id, restatement_sets.c.state, UNKNOWN),
}
"""What has a state of its own, which its last event must name, and the state it has before there is an event."""


class ChainChecks(Queries):
    """Compares the event chain with itself, and manifests and states with it."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._events = EventReads(connection)

    def violations(self) -> tuple[str, ...]:
        """What was changed behind the ledger's back, one sentence each; empty when nothing was.

        Finds events that were edited, removed or reordered, manifests that were edited, added or removed, and states
        that no event explains.

        Cost: one pass over all events and manifests; memory grows with the number of entities, not of events.
        """
        broken = (*self._broken_links(), *self._former_hashes_against_events())
        try:
            return (*broken, *self._manifests_against_events(), *self._states_against_events())
        except (ValueError, TypeError, KeyError):
            if not broken:
                raise
            # An event was edited into something that cannot be read, which the broken chain shows already.
            return broken

    def _broken_links(self) -> Iterator[str]:
        row = self._row(select(chain_head.c.sequence, chain_head.c.hash))
        if row is None:
            yield "the head of the event chain was removed."
            return
        try:
            yield from broken_links(self._events.entries(), ChainHead(sequence=row.sequence, hash=row.hash))
        except (ValueError, TypeError) as error:
            yield f"an event was edited into something that cannot be read: {error}"

    def _former_hashes_against_events(self) -> Iterator[str]:
        """The hashes that events had before an upgrade, against the event that digests them."""
        changed = select(events.c.sequence, events.c.former_hash).where(events.c.former_hash.is_not(None))
        former = "".join(
            f"{row.sequence}:{row.former_hash}\n" for row in self._rows(changed.order_by(events.c.sequence))
        )
        upgrades = self._rows(select(events.c.sequence, events.c.payload).where(events.c.action == MOVED_OUT))
        if [sha256_text(former)] * bool(former or upgrades) != [
            row.payload["former_hashes_digest"] for row in upgrades
        ]:
            yield "the hashes that events had before an upgrade were edited: they are not what its event says."
        for row in upgrades:
            for sequence in row.payload["broken"]:
                yield f"event {sequence} was edited or moved before the upgrade that event {row.sequence} tells of."

    def _manifests_against_events(self) -> Iterator[str]:
        planned = select(events.c.sequence, events.c.entity_id, events.c.payload).where(
            or_(
                and_(events.c.entity == "run", events.c.action == "planned"),
                and_(events.c.entity == "set", events.c.action == "set_planned"),
            )
        )
        agreed = {
            row.entity_id: row.payload["manifest_digest"] for row in self._paged(planned, events.c.sequence, after=0)
        }
        for row in self._paged(select(manifests), manifests.c.run_id, after="", size=20):
            digest = agreed.pop(row.run_id, None)
            if digest is None:
                yield f"the manifest of {row.run_id} was added without an event."
            elif not sha256_text(row.body) == row.digest == digest:
                yield f"the manifest of run {row.run_id} was edited: it is not the one that was agreed."
        for run_id in agreed:
            yield f"the manifest of run {run_id} was removed."

    def _states_against_events(self) -> Iterator[str]:
        for entity, (key, state, before) in STATEFUL.items():
            recorded = {row.entity_id: row.to_state for row in self._recorded_states(entity)}
            for row in self._rows(select(key.label("entity_id"), state.label("state")).order_by(key)):
                expected = recorded.pop(row.entity_id, before)
                if str(row.state) != expected:
                    yield f"{entity} {row.entity_id} is {row.state}, and its last event says {expected}."
            for entity_id in recorded:
                yield f"{entity} {entity_id} was removed."

    def _recorded_states(self, entity: str) -> Iterator[Row[Any]]:
        """The states that events gave to things of one kind, the last one last."""
        recorded = select(events.c.sequence, events.c.entity_id, events.c.to_state)
        of_this_kind = recorded.where(events.c.entity == entity, events.c.to_state != "")
        return self._paged(of_this_kind, events.c.sequence, after=0)

"""What happened, and does the ledger still say what was written?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Row, and_, or_, select

from backfill_assets.identity import sha256_text
from backfill_assets.ledger import rows
from backfill_assets.ledger.chain import GENESIS_HASH, ChainHead, broken_links
from backfill_assets.ledger.reading import Reading
from backfill_assets.ledger.records import EventRecord, RollbackOrder
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

UNHEARD_OF = "nothing"
MOVED_OUT = "row_values_moved"
"""The upgrade that moved values of rows out of the events."""

ROLLBACK, ORDERED, ENDED = "rollback", "rollback_ordered", "rollback_ended"
"""The events of a rollback that takes dependents along: it is under way while it was ordered and has not ended."""
STATEFUL = {
    "run": (runs.c.run_id, runs.c.state, UNHEARD_OF),
    "approval": (approvals.c.run_id, approvals.c.state, str(ApprovalState.DRAFT)),
    "publication": (publications.c.publication_id, publications.c.state, UNHEARD_OF),
    "import": (imports.c.import_id, imports.c.state, UNHEARD_OF),
    "set": (restatement_sets.c.set_id, restatement_sets.c.state, UNHEARD_OF),
}
"""What has a state of its own, which its last event must name, and the state it has before there is an event."""


class EventReader(Reading):
    """The event chain, and whether the ledger was tampered with."""

    def events(self, *, after: int = 0, entity_id: str | None = None) -> Iterator[EventRecord]:
        """Events in the order they happened, read a page at a time; use them before the reader is closed.

        Args:
            after: The sequence that was seen last.
            entity_id: Only events of this run, publication or import.
        """
        chosen = select(events)
        if entity_id is not None:
            chosen = chosen.where(events.c.entity_id == entity_id)
        return (rows.event_record(row) for row in self._paged(chosen, events.c.sequence, after=after))

    def rollbacks_under_way(self) -> tuple[RollbackOrder, ...]:
        """Rollbacks with dependents that were begun and have not ended, the first begun first."""
        open_ones: dict[str, RollbackOrder] = {}
        for row in self._rows(select(events).where(events.c.entity == ROLLBACK).order_by(events.c.sequence)):
            open_ones.pop(row.entity_id, None)
            if row.action == ORDERED:
                open_ones[row.entity_id] = RollbackOrder(
                    of=row.entity_id,
                    dependents=tuple(row.payload["dependents"]),
                    by=row.actor,
                    reason=row.payload["reason"],
                )
        return tuple(open_ones.values())

    def chain_head(self) -> str:
        """The last event as `SEQUENCE:HASH`: noted elsewhere, it shows later whether the history before it was kept."""
        row = self._row(select(chain_head.c.sequence, chain_head.c.hash))
        return "" if row is None else f"{row.sequence}:{row.hash}"

    def still_contains(self, head: str) -> bool:
        """Whether the chain still has the event that was its head once, as `chain_head` said it."""
        sequence, _, digest = head.partition(":")
        if not sequence.isdigit() or not digest:
            return False
        if int(sequence) == 0:
            return digest == GENESIS_HASH
        named = select(events.c.hash, events.c.former_hash).where(events.c.sequence == int(sequence))
        return any(digest in (row.hash, row.former_hash) for row in self._rows(named))

    def chain_violations(self) -> tuple[str, ...]:
        """What was changed behind the ledger's back, one sentence each; empty when nothing was.

        Finds events that were edited, removed or reordered, manifests that were edited, added or removed, and states
        that no event explains. One pass over the events; memory grows with the number of entities, not of events.
        """
        broken = (*self._broken_links(), *self._former_hashes_against_events())
        try:
            return (*broken, *self._manifests_against_events(), *self._states_against_events())
        except (ValueError, TypeError, KeyError):
            if not broken:
                raise
            # An event was edited into something that cannot be read, which the chain has told already.
            return broken

    def _broken_links(self) -> Iterator[str]:
        row = self._row(select(chain_head.c.sequence, chain_head.c.hash))
        if row is None:
            yield "the head of the event chain was removed."
            return
        try:
            yield from broken_links(self.events(), ChainHead(sequence=row.sequence, hash=row.hash))
        except (ValueError, TypeError) as error:
            yield f"an event was edited into something that cannot be read: {error}"

    def _former_hashes_against_events(self) -> Iterator[str]:
        """The hashes that events had before an upgrade, against the event that digests them."""
        changed = select(events.c.sequence, events.c.former_hash).where(events.c.former_hash.is_not(None))
        former = "".join(
            f"{row.sequence}:{row.former_hash}\n" for row in self._rows(changed.order_by(events.c.sequence))
        )
        told = self._rows(select(events.c.sequence, events.c.payload).where(events.c.action == MOVED_OUT))
        if [sha256_text(former)] * bool(former or told) != [row.payload["former_hashes_digest"] for row in told]:
            yield "the hashes that events had before an upgrade were edited: they are not what its event says."
        for row in told:
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
            told = {row.entity_id: row.to_state for row in self._states_told(entity)}
            for row in self._rows(select(key.label("entity_id"), state.label("state")).order_by(key)):
                expected = told.pop(row.entity_id, before)
                if str(row.state) != expected:
                    yield f"{entity} {row.entity_id} is {row.state}, and its last event says {expected}."
            for entity_id in told:
                yield f"{entity} {entity_id} was removed."

    def _states_told(self, entity: str) -> Iterator[Row[Any]]:
        """The states that events gave to things of one kind, the last one last."""
        told = select(events.c.sequence, events.c.entity_id, events.c.to_state)
        of_this_kind = told.where(events.c.entity == entity, events.c.to_state != "")
        return self._paged(of_this_kind, events.c.sequence, after=0)

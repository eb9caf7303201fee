"""Events: every change of state as a chain of hashes, the steps that append them, and the checks of the chain.

Every aggregate that writes is given the log of its transaction, with one instant per transaction; only through it do
states change. An edited row that has no state is found by `row_checks`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Table, and_, insert, or_, select, update

from backfill_assets.core.clock import Clock
from backfill_assets.core.identity import FileSet, canonical_json, document_digest, sha256_text
from backfill_assets.ledger import rows
from backfill_assets.ledger.errors import CannotBecome, Damaged
from backfill_assets.ledger.import_records import ImportDay
from backfill_assets.ledger.provenance import document_of
from backfill_assets.ledger.queries import Queries, batches
from backfill_assets.ledger.recorded_text import required_text, storable_text
from backfill_assets.ledger.records import EventRecord, GateResult, PublicationIntent
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
from backfill_assets.ledger.states import ApprovalState, State, may_follow

GENESIS_HASH = "0" * 64
"""What the first event names as the hash before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainHead:
    """The last event that was appended; sequence 0 before there is one."""

    sequence: int
    hash: str


def hash_of(entry: EventRecord) -> str:
    """The hash that an entry must carry: over the hash before it and everything that it says itself."""
    content = {
        "sequence": entry.sequence,
        "at": entry.at.isoformat(),
        "actor": entry.actor,
        "entity": entry.entity,
        "entity_id": entry.entity_id,
        "action": entry.action,
        "from_state": entry.from_state,
        "to_state": entry.to_state,
        "payload": dict(entry.payload),
    }
    return sha256_text(entry.previous_hash + canonical_json(content))


def broken_links(entries: Iterable[EventRecord], head: ChainHead) -> Iterator[str]:
    """What is wrong with a chain of events, one sentence each, in the order of the events.

    Args:
        entries: Every event, in the order of its sequence.
        head: What the ledger says the last one is.
    """
    last = ChainHead(sequence=0, hash=GENESIS_HASH)
    for entry in entries:
        if entry.sequence != last.sequence + 1:
            yield f"events {last.sequence + 1} to {entry.sequence - 1} were removed."
        elif entry.previous_hash != last.hash:
            yield f"event {entry.sequence} does not follow event {last.sequence}: one of them was moved or replaced."
        if hash_of(entry) != entry.hash:
            yield f"event {entry.sequence} ({entry.entity} {entry.entity_id}, {entry.action}) was edited."
        last = ChainHead(sequence=entry.sequence, hash=entry.hash)
    if last.sequence < head.sequence:
        yield f"events {last.sequence + 1} to {head.sequence} were removed: the chain ends at event {last.sequence}."
    elif last != head:
        yield f"the chain ends at event {last.sequence}, which is not the event that its head names."


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One row's way from one state to another.

    Attributes:
        name: What it is called in a refusal, such as `run bf-1`.
    """

    table: Table
    key: Mapping[str, Any]
    name: str
    begins: State
    ends: State

    @property
    def is_row(self) -> ColumnElement[bool]:
        """The condition that picks the row, whatever its state."""
        return and_(*(self.table.c[column] == value for column, value in self.key.items()))

    def refusal(self, found: State | None) -> CannotBecome:
        """The error for a row that is in another state, or gone."""
        return CannotBecome(name=self.name, found=found, wanted=self.ends, of=self.key)


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
            raise Damaged(what="the head of the ledger's event chain was removed.", of={})
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


TOOK_MS = "took_ms"
"""What the event of the gates says of how long their stages took."""


def publication_payload(intent: PublicationIntent) -> Mapping[str, Any]:
    """What a publication is about to do: which versions make way for which files, and what these hold."""
    changes = sorted(intent.changes, key=lambda change: change.partition)
    verified = sorted(intent.verified, key=lambda found: found.partition)
    return {
        "run_id": intent.run_id,
        "action": str(intent.action),
        "table": intent.table,
        "by": intent.by,
        "reason": intent.reason,
        "undoes": intent.undoes,
        "partitions": len(changes),
        "changes_digest": document_digest(
            [[c.partition.isoformat(), c.expected_version, c.expected.digest, c.new.digest] for c in changes]
        ),
        "contents_digest": document_digest(
            [
                [c.partition.isoformat(), c.rows, c.checksum, c.restores, _bytes_of(c.new), document_of(c.provenance)]
                for c in changes
            ]
        ),
        "verified": len(verified),
        "verified_digest": document_digest([[v.partition.isoformat(), v.version] for v in verified]),
    }


def _bytes_of(files: FileSet) -> list[list[str]]:
    return [[file.path, file.sha256] for file in files.files]


def gates_payload(results: Iterable[GateResult]) -> Mapping[str, Any]:
    """What the gates of a run found."""
    found = list(results)
    return {
        "results": len(found),
        "blocking_failures": sum(1 for r in found if r.blocking and not r.passed),
        "results_digest": document_digest(
            sorted([r.partition.isoformat(), r.gate, r.blocking, r.passed, r.digest] for r in found)
        ),
        "verdicts_digest": document_digest(
            sorted([r.partition.isoformat(), r.gate, r.finding, document_digest(dict(r.observed))] for r in found)
        ),
    }


def days_digest(days: Iterable[ImportDay]) -> str:
    """The event dates that a landed file touches, and with how many events."""
    return document_digest(sorted([day.event_date.isoformat(), day.events] for day in days))


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
        return self._values(select(events.c.hash).where(events.c.sequence == int(sequence))) == [digest]


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


UNKNOWN = "nothing"

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
        broken = tuple(self._broken_links())
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

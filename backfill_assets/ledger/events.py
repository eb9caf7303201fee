"""Events: every change of state as a chain of hashes, the steps that append them, and the checks of the chain.

Every aggregate that writes is given the log of its transaction, with one instant per transaction; only through it do
rows change. Its events record the digests of the rows that were written since the event before (`row_digests`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime, timedelta
from itertools import starmap
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    CursorResult,
    Delete,
    Insert,
    Table,
    Update,
    and_,
    insert,
    select,
    update,
)

from backfill_assets.core.clock import LedgerClock
from backfill_assets.core.errors import Refused
from backfill_assets.core.identity import canonical_json, sha256_text
from backfill_assets.ledger import queries
from backfill_assets.ledger.errors import CannotBecome, Damaged
from backfill_assets.ledger.queries import Queries
from backfill_assets.ledger.recorded_text import required_text, storable_text
from backfill_assets.ledger.records import EventRecord, RunHeader
from backfill_assets.ledger.row_digests import PROTECTED, Changed, Entity, RowDigests
from backfill_assets.ledger.schema import chain_head, events
from backfill_assets.ledger.states import RunState, State, StoppedBy, may_follow

Row = Mapping[str, object]
"""Values by column."""

GENESIS_HASH = "0" * 64
"""The hash that the first event names as the one before it."""


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
        "digests": dict(entry.digests),
    }
    return sha256_text(entry.previous_hash + canonical_json(content))


def broken_links(entries: Iterable[EventRecord], head: ChainHead) -> Iterator[str]:
    """The faults in a chain of events, one sentence each, in the order of the events.

    Args:
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
    """One row's way from one state to another."""

    table: Table
    key: Mapping[str, Any]
    name: str  #: What it is called in a refusal, such as `run bf-1`.
    begins: State
    ends: State

    @property
    def is_row(self) -> ColumnElement[bool]:
        """The condition that picks the row, whatever its state."""
        return and_(*(self.table.c[column] == value for column, value in self.key.items()))

    @property
    def entity(self) -> Entity:
        names = PROTECTED[self.table]
        return self.key[names[0]] if len(names) == 1 else tuple(self.key[name] for name in names)

    def refusal(self, found: State | None) -> CannotBecome:
        """The error for a row that is in another state, or gone."""
        return CannotBecome(name=self.name, found=found, wanted=self.ends, of=self.key)


CLOCK_AT = "clock_at"
"""In any event: what the clock showed that was behind the event before it, so that the event has no instant of its
own."""

SYSTEM = "backfill"
"""The actor of steps that no person takes."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event before it has its place in the chain."""

    entity: str
    entity_id: str
    action: str
    _: KW_ONLY
    actor: str
    from_state: str = ""
    to_state: str = ""
    payload: Mapping[str, Any] = field(default_factory=dict)


class EventLog(Queries):
    """The event chain at one writer's turn."""

    def __init__(self, connection: Connection, clock: LedgerClock, most_behind: timedelta) -> None:
        super().__init__(connection)
        self.connection = connection  #: The transaction's, for the aggregates that share it.
        # On PostgreSQL this lock makes writers take turns; SQLite gave the turn when the transaction began.
        head = self._row(select(chain_head.c.sequence, chain_head.c.hash).with_for_update())
        if head is None:
            raise Damaged(what="the head of the ledger's event chain was removed.", of={})
        self._head = ChainHead(sequence=head.sequence, hash=head.hash)
        self._digests = RowDigests(connection)
        last = self._row(select(events.c.at, events.c.actor).where(events.c.sequence == head.sequence))
        #: The instant of everything in this transaction, which is never before that of the last event.
        self.now, self._shown = clock.present(None if last is None else last.at)
        if last is not None and last.at - self._shown > most_behind:
            raise Refused.coded(
                "clock_behind",
                "the clock of this machine shows {shown} UTC, and the last event of the ledger, {sequence} by "
                "{actor}, is of {last} UTC: one of the two clocks was wrong, and nothing was written.",
                then="set the clock of this machine right; if the clock that wrote that event was ahead, set "
                "BACKFILL_CLOCK_BEHIND_HOURS to more: until then everything written has the time of that event",
                shown=f"{self._shown:%Y-%m-%d %H:%M:%S}",
                last=f"{last.at:%Y-%m-%d %H:%M:%S}",
                sequence=head.sequence,
                actor=last.actor,
            )

    @property
    def next_sequence(self) -> int:
        """The sequence of the next event, for rows that name the event that added them."""
        return self._head.sequence + 1

    def write(
        self, statement: Insert | Update | Delete, rows: Sequence[Row] = (), *, of: Iterable[Entity]
    ) -> CursorResult[Any]:
        """Writes rows of a protected table, whose digests the next event records.

        Args:
            of: The entities whose rows it may change, as `row_digests.PROTECTED` names them.
        """
        table = statement.table
        assert isinstance(table, Table)
        self._digests.expect(table, of)
        return self._connection.execute(statement, list(rows)) if rows else self._connection.execute(statement)

    @property
    def _behind(self) -> Mapping[str, str]:
        """The time that the clock shows, where it is behind the instant of the transaction."""
        return {} if self._shown == self.now else {CLOCK_AT: self._shown.isoformat()}

    def require_recorded(self) -> None:
        """Refuses to end a transaction that has written rows after its last event."""
        if not self._digests.is_recorded:
            raise AssertionError("rows were written, and no event after them has their digests")

    def append(self, *added: Event) -> int:
        """Adds events to the chain, the first with the digests of what was written, and returns the last sequence."""
        if added:
            changed = self._digests.take()
            chained = [self._chained(event, {} if number else changed) for number, event in enumerate(added)]
            self._connection.execute(insert(events), chained)
        self._connection.execute(update(chain_head).values(sequence=self._head.sequence, hash=self._head.hash))
        return self._head.sequence

    def _chained(self, event: Event, changed: Changed) -> dict[str, Any]:
        entry: dict[str, Any] = {
            "sequence": self.next_sequence,
            "at": self.now,
            "actor": storable_text("the actor", event.actor),
            "entity": event.entity,
            "entity_id": event.entity_id,
            "action": event.action,
            "from_state": event.from_state,
            "to_state": event.to_state,
            "payload": {**event.payload, **self._behind},
            "digests": changed,
            "previous_hash": self._head.hash,
        }
        entry["hash"] = hash_of(EventRecord(**entry, hash=""))
        self._head = ChainHead(sequence=entry["sequence"], hash=entry["hash"])
        return entry

    def change(self, step: Step, event: Event, *, also: Mapping[str, Any] | None = None) -> None:
        """Takes one step of a transition table: a conditional update and its event.

        Args:
            step: What goes from where to where.
            also: Further columns that change with the state.

        Raises:
            IllegalTransition: The table does not allow the step, or the row is not where the step begins.
        """
        if not may_follow(step.begins, step.ends):
            raise step.refusal(step.begins)
        at_its_beginning = and_(step.is_row, step.table.c.state == step.begins)
        values = {"state": step.ends, **(also or {})}
        changed = self.write(update(step.table).where(at_its_beginning).values(values), of=[step.entity])
        if changed.rowcount != 1:
            found = self._row(select(step.table.c.state).where(step.is_row))
            raise step.refusal(None if found is None else found.state)
        self.append(replace(event, from_state=str(step.begins), to_state=str(step.ends)))


EXPECTED_CORE_MS = "expected_core_ms"
"""In the event of a plan: the processor time that its run is expected to take until its gates are evaluated."""

CORE_MS = "core_ms"
"""In the events of a finished chunk and of gates: the processor time that they took. Earlier releases did not measure
it, and have the times of their beginning and end alone."""

CHUNK_FINISHED = "chunk_finished"
"""The event of a chunk that is computed."""

GATES_RECORDED = "gates_recorded"
"""The event of the results of a run's gates."""

TOOK_MS = "took_ms"
"""The name under which that event has the durations of stages."""

ALL_GATES = "gates"
"""All of these stages together, and what is between them."""


def seconds_of_gates(recorded: EventRecord) -> Mapping[str, float]:
    """The duration of the gating stages, by the event of their results."""
    return {stage: took_ms / 1000 for stage, took_ms in recorded.payload.get(TOOK_MS, {}).items()}


def core_seconds_of_chunks(events: Iterable[EventRecord]) -> Mapping[int, float]:
    """The processor time of the chunks of a run, by number and as they were computed last, where it was measured."""
    finished = (event.payload for event in events if event.action == CHUNK_FINISHED)
    return {payload["number"]: payload[CORE_MS] / 1000 for payload in finished if CORE_MS in payload}


STOPPED_BY = "stopped_by"
"""What the event of a run that failed has where to run it again would fail again."""


SEGMENT_WRITTEN = "segment_written"
"""The event of a segment of compacted versions of a source."""
FILE_FETCHED = "file_fetched"
"""The event of a file that has landed, and stays where it was dropped."""


class EventReads(Queries):
    """The event chain."""

    def segments(self, source: str) -> Mapping[str, str]:
        """The segments of compacted versions that were ever written of a source: the digest of each, by folder.

        Cost: one index range of the events of the source.
        """
        written = self.entries(entity_id=source, actions=[SEGMENT_WRITTEN])
        return {event.payload["folder"]: event.payload["sha256"] for event in written}

    def fetched(self, source: str) -> Mapping[tuple[str, str], datetime]:
        """When files of a source that stay where they are dropped were fetched, by subject and mark.

        Cost: one index range of the events of the source.
        """
        found = self.entries(entity_id=source, actions=[FILE_FETCHED])
        return {(event.payload["subject"], event.payload["mark"]): event.at for event in found}

    def stopped_by(self, run: RunHeader) -> StoppedBy | None:
        """The cause that stopped a FAILED run, and would stop it again; None of any other run.

        Cost: the events of the run that moved it.
        """
        if run.state is not RunState.FAILED:
            return None
        by = self._moves(run)[-1].payload.get(STOPPED_BY)
        return None if by is None else StoppedBy(by)

    def reached(self, run: RunHeader) -> RunState:
        """The progress of a run; for a cancelled one, the progress it had made.

        Cost: of a cancelled run one index range of its events.
        """
        if run.state is not RunState.CANCELLED:
            return run.state
        return RunState(self._moves(run)[-1].from_state)

    def ran_by(self, run_ids: Iterable[str]) -> Mapping[str, str]:
        """The actor that computed each run last; runs that were never staged are absent.

        Cost: one index range per run.
        """
        staged = (
            select(events.c.entity_id, events.c.actor)
            .where(events.c.action == "moved", events.c.to_state == RunState.STAGED)
            .order_by(events.c.sequence)
        )
        return {row.entity_id: row.actor for row in self._rows_with(staged, events.c.entity_id, run_ids)}

    def _moves(self, run: RunHeader) -> Sequence[EventRecord]:
        return list(self.entries(entity_id=run.run_id, actions=["moved"]))

    def entries(
        self, *, after: int = 0, entity_id: str | None = None, actions: Collection[str] | None = None
    ) -> Iterator[EventRecord]:
        """Events in the order they happened, read a page at a time; use them before the transaction is closed.

        Cost: one index range per page of 1,000 events.

        Args:
            after: The sequence that was seen last.
            actions: Only events of these actions; the others are read by the database, and not returned.
        """
        chosen = select(events)
        if actions is not None:
            chosen = chosen.where(events.c.action.in_(tuple(actions)))
        if entity_id is not None:
            chosen = chosen.where(events.c.entity_id == entity_id)
        return (queries.event_record(row) for row in self._paged(chosen, events.c.sequence, after=after))

    def numbered(self, sequences: Iterable[int]) -> dict[int, EventRecord]:
        """The events of these sequences; those that do not exist are left out.

        Cost: one primary key lookup per event.
        """
        found = self._rows_with(select(events), events.c.sequence, sequences)
        return {row.sequence: queries.event_record(row) for row in found}

    def last_at(self) -> datetime | None:
        """The instant of the last event; None before there is one. Cost: one row, and one primary key lookup."""
        found = select(events.c.at).join(chain_head, chain_head.c.sequence == events.c.sequence)
        return next(iter(self._values(found)), None)

    def head(self) -> str:
        """The last event as `SEQUENCE:HASH`: noted elsewhere, it shows later whether the history before it was kept.

        Cost: one row.
        """
        row = self._row(select(chain_head.c.sequence, chain_head.c.hash))
        return "" if row is None else f"{row.sequence}:{row.hash}"

    def still_contains(self, head: str) -> bool:
        """True if the chain still has the event that was once its head, exactly as `head` returned it.

        Cost: one primary key lookup.
        """
        sequence, _, digest = head.partition(":")
        if not digest:
            return False
        if int(sequence) == 0:
            return digest == GENESIS_HASH
        return self._values(select(events.c.hash).where(events.c.sequence == int(sequence))) == [digest]

    def violations(self) -> tuple[str, ...]:
        """The events that were edited, removed or reordered in the chain, one sentence each; empty when there are none.

        Cost: one pass over all events.
        """
        return tuple(self._broken_links())

    def _broken_links(self) -> Iterator[str]:
        row = self._row(select(chain_head.c.sequence, chain_head.c.hash))
        if row is None:
            yield "the head of the event chain was removed."
            return
        try:
            yield from broken_links(self.entries(), ChainHead(sequence=row.sequence, hash=row.hash))
        except (ValueError, TypeError) as error:
            yield f"an event was edited into something that cannot be read: {error}"


class Writes(Queries):
    """The writes of one aggregate within one writer's turn, with its events."""

    def __init__(self, log: EventLog) -> None:
        super().__init__(log.connection)
        self._log = log


class EventWrites(EventReads, Writes):
    """The event chain, with events that change no state."""

    def record(
        self, *, actor: str, entity: str, entity_id: str, action: str, payload: Mapping[str, Any] | None = None
    ) -> int:
        """Remembers something that changes no state, such as a duplicate file that was ignored.

        Cost: one event.

        Returns:
            The sequence of the event.
        """
        texts = (("the entity", entity), ("the entity's id", entity_id), ("the action", action))
        return self._log.append(Event(*starmap(required_text, texts), actor=actor, payload=payload or {}))

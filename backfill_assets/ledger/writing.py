"""What do all writers of the ledger share? Their turn, the event chain, and the one way to change a state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Table, and_, insert, select, update

from backfill_assets.clock import Clock
from backfill_assets.errors import BackfillError, IllegalTransition, Refused
from backfill_assets.ledger.chain import ChainHead, hash_of
from backfill_assets.ledger.reading import Reading
from backfill_assets.ledger.records import EventRecord
from backfill_assets.ledger.schema import chain_head, events
from backfill_assets.ledger.states import MEANING, State, may_follow
from backfill_assets.wording import fault_of

SYSTEM = "backfill"
"""The actor of steps that nobody takes by hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """An event before it has its place in the chain."""

    actor: str
    entity: str
    entity_id: str
    action: str
    from_state: str = ""
    to_state: str = ""
    payload: Mapping[str, Any] = field(default_factory=dict)


class Writing(Reading):
    """The one writer at its turn. Everything it does happens at one instant, `now`."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        super().__init__(connection)
        # On PostgreSQL this lock makes writers take turns; SQLite gave the turn when the transaction began.
        head = self._row(select(chain_head.c.sequence, chain_head.c.hash).with_for_update())
        if head is None:
            raise Refused("the head of the ledger's event chain was removed.", next_step="backfill audit")
        self._head = ChainHead(sequence=head.sequence, hash=head.hash)
        self.now: datetime = clock()

    def _append(self, *happenings: Happening) -> int:
        """Adds events to the chain and returns the sequence of the last one."""
        if happenings:
            entries = [self._chained(happening) for happening in happenings]
            self._connection.execute(insert(events), entries)
        self._connection.execute(update(chain_head).values(sequence=self._head.sequence, hash=self._head.hash))
        return self._head.sequence

    def _chained(self, happening: Happening) -> dict[str, Any]:
        said: dict[str, Any] = {
            "sequence": self._head.sequence + 1,
            "at": self.now,
            "actor": plain("the actor", happening.actor),
            "entity": happening.entity,
            "entity_id": happening.entity_id,
            "action": happening.action,
            "from_state": happening.from_state,
            "to_state": happening.to_state,
            "payload": dict(happening.payload),
            "previous_hash": self._head.hash,
        }
        said["hash"] = hash_of(EventRecord(**said, hash=""))
        self._head = ChainHead(sequence=said["sequence"], hash=said["hash"])
        return said

    def _change(self, step: Step, happening: Happening, *, also: Mapping[str, Any] | None = None) -> None:
        """Takes one step of the transition table: a conditional update and its event.

        Args:
            step: What goes from where to where.
            happening: The event, which gets the states of the step.
            also: Further columns that change with the state.

        Raises:
            IllegalTransition: The table does not allow the step, or the row is not where the step begins.
        """
        if not may_follow(step.begins, step.ends):
            raise step.refusal(step.begins)
        at_its_beginning = and_(step.is_it, step.table.c.state == step.begins)
        changed = self._connection.execute(
            update(step.table).where(at_its_beginning).values(state=step.ends, **(also or {}))
        )
        if changed.rowcount != 1:
            found = self._row(select(step.table.c.state).where(step.is_it))
            raise step.refusal(None if found is None else found.state)
        self._append(
            Happening(
                actor=happening.actor,
                entity=happening.entity,
                entity_id=happening.entity_id,
                action=happening.action,
                from_state=str(step.begins),
                to_state=str(step.ends),
                payload=happening.payload,
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One row's way from one state to another.

    Attributes:
        name: What it is called in a refusal, such as `run bf-1`.
        next_step: What the reader can do when it is refused.
        ids: The ids that the refusal carries.
    """

    table: Table
    key: Mapping[str, Any]
    name: str
    begins: State
    ends: State
    next_step: str
    ids: Mapping[str, object]

    @property
    def is_it(self) -> Any:
        """The condition that picks the row, whatever its state."""
        return and_(*(self.table.c[column] == value for column, value in self.key.items()))

    def refusal(self, found: State | None) -> IllegalTransition:
        """The error for a row that is in another state, or gone."""
        return illegal(self.name, found, self.ends, next_step=self.next_step, ids=self.ids)


def illegal(
    name: str, found: State | None, wanted: State, *, next_step: str, ids: Mapping[str, object]
) -> IllegalTransition:
    """The error for a step that cannot be taken from the state that was found."""
    is_now = "not in the ledger" if found is None else f"{found} ({MEANING[found]})"
    before = " or ".join(str(state) for state in states_before(wanted)) or "nothing"
    return IllegalTransition(
        f"{name} is {is_now}, and cannot become {wanted}: that follows {before}.", next_step=next_step, **ids
    )


def states_before(wanted: State) -> tuple[State, ...]:
    """The states that a step to this one may begin from, as the transition table says."""
    return tuple(state for state in type(wanted) if may_follow(state, wanted))


def said(what: str, text: str, refuse: type[BackfillError] = Refused) -> str:
    """A text that somebody must have given, without the spaces around it.

    Raises:
        Refused: It is empty, or holds characters that a database cannot keep.
    """
    stripped = plain(what, text).strip()
    if not stripped:
        raise refuse(f"{what} is empty.", next_step=f"say {what}")
    return stripped


def typed(what: str, text: str, refuse: type[BackfillError] = Refused) -> str:
    """A text that a person must have typed: one line, which cannot pass for another line of a log or a report.

    Raises:
        Refused: It is empty, too long, or holds control characters or marks that turn the direction of writing.
    """
    stripped = said(what, text, refuse)
    fault = fault_of(stripped)
    if fault:
        raise refuse(f"{what} {fault}.", next_step="type it again, as one line of text")
    return stripped


def plain(what: str, text: str) -> str:
    """A text that both databases can keep, empty or not.

    Raises:
        Refused: It holds NUL or half a character.
    """
    if "\x00" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise Refused(f"{what} holds characters that are no text: {text[:200]!r}.", next_step="type it again")
    return text


def some(items: Iterable[object], most: int = 3) -> str:
    """The first few of many, in words."""
    listed = [str(item) for item in items]
    rest = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + rest

"""Steps of transition tables, and the error for a step that is not allowed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Table, and_

from backfill_assets.errors import IllegalTransition
from backfill_assets.ledger.states import MEANING, State, may_follow
from backfill_assets.next_steps import Advice


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
    next_step: Advice
    ids: Mapping[str, object]

    @property
    def is_row(self) -> ColumnElement[bool]:
        """The condition that picks the row, whatever its state."""
        return and_(*(self.table.c[column] == value for column, value in self.key.items()))

    def refusal(self, found: State | None) -> IllegalTransition:
        """The error for a row that is in another state, or gone."""
        return illegal(self.name, found, self.ends, next_step=self.next_step, ids=self.ids)


def illegal(
    name: str, found: State | None, wanted: State, *, next_step: Advice, ids: Mapping[str, object]
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

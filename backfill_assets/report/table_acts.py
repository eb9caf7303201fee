"""Acts on versions of tables as documents: what was asked for, and what can be done about it."""

from __future__ import annotations

from dataclasses import dataclass, field

from backfill_assets.ledger.records import TableAct
from backfill_assets.ledger.states import ActState
from backfill_assets.ledger.table_acts import ActRecord
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.report.documents import INLINE
from backfill_assets.report.requests import ANOTHER_PERSON, NAME, Act, NextStep, do, step, undo


@dataclass(frozen=True, slots=True, kw_only=True)
class ActDocument:
    """An act on a version of a table.

    Attributes:
        act: The act.
        next_step: What can be done now; null when there is nothing.
    """

    act: ActRecord = field(metadata=INLINE)
    next_step: NextStep | None


def act_document(record: ActRecord) -> ActDocument:
    """An act with what can be done about it."""
    return ActDocument(act=record, next_step=next_step_of_act(record))


def open_acts(tx: ReadTransaction) -> tuple[ActDocument, ...]:
    """The acts that are asked for and not done, in order."""
    return tuple(act_document(each) for each in tx.acts.records() if each.state is ActState.ASKED)


def next_step_of_act(record: ActRecord) -> NextStep | None:
    """What can be done about an act; None when there is nothing."""
    match record.state:
        case ActState.ASKED if record.waits and record.approved_by is None:
            return step(do(Act.APPROVE, record.act_id, by=ANOTHER_PERSON))
        case ActState.ASKED:
            return step(do(Act.PUBLISH, record.act_id, by=NAME))
        case ActState.DONE if record.act is TableAct.CUT_OVER:
            return step("to show readers the earlier table again: ", undo(record.act_id))
        case _:
            return None

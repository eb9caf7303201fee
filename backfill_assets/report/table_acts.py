"""Acts on versions of tables as documents: what was asked for, and what can be done about it."""

from __future__ import annotations

from dataclasses import dataclass, field

from backfill_assets.core.columns import ColumnChange
from backfill_assets.core.next_steps import NextStep, approve, cancel, publish, step, undo
from backfill_assets.ledger.records import TableAct
from backfill_assets.ledger.states import ActState
from backfill_assets.ledger.table_acts import ActRecord
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.report.documents import INLINE
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class ActDocument:
    """An act on a version of a table."""

    act: ActRecord = field(metadata=INLINE)  #: The act.
    #: Of a cut-over, how the columns that readers see change with it, as it was when it was asked for.
    columns: tuple[ColumnChange, ...]
    next_step: NextStep | None  #: What can be done now; null when there is nothing.


def described_act(ws: Workspace, record: ActRecord) -> ActDocument:
    """An act with what can be done about it."""
    with ws.ledger.read() as tx:
        return act_document(tx, record)


def act_document(tx: ReadTransaction, record: ActRecord) -> ActDocument:
    """The document of an act, inside an open transaction."""
    shown = tx.acts.shown(record.name)
    return ActDocument(act=record, columns=tx.acts.columns(record.act_id), next_step=next_step_of_act(record, shown))


def open_acts(tx: ReadTransaction) -> tuple[ActDocument, ...]:
    """The acts that are asked for and not done, in order."""
    return tuple(act_document(tx, each) for each in tx.acts.records() if each.state is ActState.ASKED)


def next_step_of_act(record: ActRecord, shown: str) -> NextStep | None:
    """The next step for an act; None when there is none.

    Args:
        shown: The table that its readers are shown now.
    """
    match record.state:
        case ActState.ASKED if _is_overtaken(record, shown):
            why = f"readers of {record.name} are shown {shown}, so that it cannot be done: "
            return step(why, cancel(record.act_id))
        case ActState.ASKED if record.waits and record.approved_by is None:
            return step(approve(record.act_id))
        case ActState.ASKED:
            return step(publish(record.act_id))
        case ActState.DONE if record.act is TableAct.CUT_OVER:
            return step("to show readers the earlier table again: ", undo(record.act_id))
        case _:
            return None


def _is_overtaken(record: ActRecord, shown: str) -> bool:
    """True if the request would be refused because readers are shown another table than they were then."""
    match record.act:
        case TableAct.CUT_OVER:
            return shown != record.from_table
        case TableAct.RETIRE:
            return shown == record.table
        case _:
            return False

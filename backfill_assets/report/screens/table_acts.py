"""Acts on versions of tables: cut-overs of readers, and what keeps a version up to date or ends it."""

from __future__ import annotations

from collections.abc import Sequence

from backfill_assets.ledger.records import TableAct
from backfill_assets.ledger.table_acts import ActRecord
from backfill_assets.report.page import Note, Page, Table, facts, next_steps, page, table, table_ref
from backfill_assets.report.table_acts import ActDocument
from backfill_assets.report.words.plans import columns_words

_MOST = 30

_DONE = {
    TableAct.START: "{table} is kept up to date, and compared with what readers of {name} are shown every day",
    TableAct.STOP: "{table} is not kept up to date any more",
    TableAct.CUT_OVER: "readers of {name} are shown {table}",
    TableAct.RETIRE: "{table} was given up for good: it is not kept up to date, and readers are not shown it again",
}
_UNDONE = "readers of {name} are shown {from_table} again"


def act_page(document: ActDocument) -> Page:
    """An act on a version of a table."""
    act = document.act
    return page(
        act.act_id,
        facts(
            ("act", act.act),
            ("of", table_ref(act.table)),
            ("for readers of", table_ref(act.name)),
            ("in place of", table_ref(act.from_table) if act.from_table else None),
            ("columns", columns_words(document.columns)),
            ("state", act.state),
            ("asked by", act.by),
            ("reason", act.reason),
            ("approved by", act.approved_by),
        ),
        Note(text=words_of(act)),
        next_steps(document.next_step),
    )


def words_of(act: ActRecord) -> str:
    """What an act has changed."""
    named = {"name": act.name, "table": act.table, "from_table": act.from_table}
    if act.undone_at is not None:
        return _UNDONE.format(**named)
    return _DONE[act.act].format(**named) if act.done_at is not None else "nothing is changed yet"


def acts_table(acts: Sequence[ActRecord]) -> Table:
    """Acts, in the order in which they were asked for."""
    rows = [(act.act_id, act.act, table_ref(act.table), act.state, act.by, act.approved_by) for act in acts]
    return table(["act", "what", "of", "state", "asked by", "approved by"], rows, whole=["act"], most=_MOST)

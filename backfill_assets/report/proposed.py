"""Documents of what is proposed: proposals that are open, and the landed files behind a proposal."""

from __future__ import annotations

from dataclasses import dataclass

from backfill_assets.core.next_steps import Command, NextStep, do, step
from backfill_assets.ledger.queries import OnUnreadable
from backfill_assets.ledger.records import SetRecord
from backfill_assets.ledger.states import OPEN_SETS, ApprovalState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.sets import ProposedBecause
from backfill_assets.staleness.landed_news import FileNews


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenProposal:
    """A proposal that is not finished."""

    record: SetRecord  #: The set.
    approved: bool  #: True if a person has approved it.

    @property
    def next_step(self) -> NextStep:
        """Where to look."""
        return step(do(Command.STATUS, self.record.set_id))


def open_proposals(tx: ReadTransaction, unreadable: OnUnreadable) -> tuple[OpenProposal, ...]:
    """The proposals that are not finished, the last planned first; a set that cannot be read is left out."""
    found = (each for each in tx.sets.records(states=OPEN_SETS, unreadable=unreadable) if each.manifest.proposed)
    runs = ((each, [tx.runs.header(member.run_id) for member in each.manifest.members]) for each in found)
    return tuple(
        OpenProposal(record=each, approved=all(run.approval is ApprovalState.APPROVED for run in own))
        for each, own in runs
    )


def files_behind(tx: ReadTransaction, proposed: ProposedBecause | None) -> tuple[FileNews, ...]:
    """The files that a set was proposed for, as it was agreed; none for what a person planned."""
    if proposed is None or not proposed.files:
        return ()
    records = tx.imports.named(each.import_id for each in proposed.files)
    return tuple(FileNews(record=records[each.import_id], changed=each) for each in proposed.files)

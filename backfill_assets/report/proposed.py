"""Documents of what is proposed: proposals that are open, and the landed files behind a proposal."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from backfill_assets.ledger.queries import Unreadable
from backfill_assets.ledger.records import SetRecord
from backfill_assets.ledger.states import OPEN_SETS, ApprovalState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.sets import ProposedBecause
from backfill_assets.report.requests import Act, NextStep, do, step
from backfill_assets.staleness.landed_news import FileNews


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenProposal:
    """A proposal that is not finished.

    Attributes:
        set_id: The set.
        reason: Why it was proposed, in words.
        because: The changed days, in words.
        proposed_at: When it was planned.
        approved: Whether a person has approved it.
        next_step: Where to look.
    """

    set_id: str
    reason: str
    because: str
    proposed_at: datetime
    approved: bool
    next_step: NextStep


def open_proposals(tx: ReadTransaction, unreadable: Unreadable) -> tuple[OpenProposal, ...]:
    """The proposals that are not finished, the last planned first; a set that cannot be read is left out."""
    found = tx.sets.records(states=OPEN_SETS, unreadable=unreadable)
    return tuple(open_proposal(each, approved=_is_approved(tx, each)) for each in found if each.manifest.proposed)


def _is_approved(tx: ReadTransaction, record: SetRecord) -> bool:
    headers = [tx.runs.header(member.run_id) for member in record.manifest.members]
    return all(header.approval is ApprovalState.APPROVED for header in headers)


def open_proposal(record: SetRecord, *, approved: bool) -> OpenProposal:
    """A proposed set as a document."""
    return OpenProposal(
        set_id=record.set_id,
        reason=record.manifest.reason,
        because=record.manifest.because,
        proposed_at=record.manifest.requested_at,
        approved=approved,
        next_step=step(do(Act.STATUS, record.set_id)),
    )


def files_behind(tx: ReadTransaction, proposed: ProposedBecause | None) -> tuple[FileNews, ...]:
    """The files that a set was proposed for, as it was agreed; none for what a person planned."""
    if proposed is None or not proposed.files:
        return ()
    records = tx.imports.named(each.import_id for each in proposed.files)
    return tuple(FileNews(record=records[each.import_id], changed=each) for each in proposed.files)

"""Documents of what is proposed: proposals that are open, and the landed files behind a proposal."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from backfill_assets.ledger.queries import Unreadable
from backfill_assets.ledger.records import SetRecord
from backfill_assets.ledger.states import OPEN_SETS, ApprovalState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.partitions import Grain, Partitions
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangingFile:
    """A landed file that decides rows of days behind published output.

    Attributes:
        import_id: Names it.
        source: The source table.
        file: Where it came from, as it was typed.
        landed_at: When it landed.
        landed_by: Who landed it.
        days: The changed days that it decides something of.
        rows: The accepted rows of these days that are its records.
        moved_away: Rows of these days whose keys it has on other days.
        taken_back: Rows of these days that it deleted or withdrew.
        restored: Rows of these days whose withdrawal it undid.
        least_days_late: The fewest days between such a day and the landing.
        most_days_late: The most.
    """

    import_id: str
    source: str
    file: str
    landed_at: datetime | None
    landed_by: str
    days: Partitions
    rows: int
    moved_away: int
    taken_back: int
    restored: int
    least_days_late: int
    most_days_late: int


def changing_file(file: FileNews) -> ChangingFile:
    """What a landed file changed, as a document."""
    record, changed = file.record, file.changed
    least, most = file.days_late
    return ChangingFile(
        import_id=record.import_id,
        source=record.source,
        file=record.original_path,
        landed_at=record.landed_at,
        landed_by=record.landed_by,
        days=Partitions.of(Grain.DAILY, changed.days),
        rows=changed.rows,
        moved_away=changed.moved_away,
        taken_back=changed.taken_back,
        restored=changed.restored,
        least_days_late=least,
        most_days_late=most,
    )


def files_behind(tx: ReadTransaction, proposed: ProposedBecause | None) -> tuple[ChangingFile, ...]:
    """The files that a set was proposed for, as it was agreed; none for what a person planned."""
    if proposed is None or not proposed.files:
        return ()
    records = tx.imports.named(each.import_id for each in proposed.files)
    found = (FileNews(record=records[each.import_id], changed=each) for each in proposed.files)
    return tuple(map(changing_file, found))

"""Words of how recovered work ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from backfill_assets.calendar.partitions import count_of
from backfill_assets.ledger.imports import ImportRecord
from backfill_assets.requests.recover import RecoveryEnd, RecoveryOutcome
from backfill_assets.upkeep.alignment import Behind, OutOfStep, WasSet, few


def outcome_words(outcome: RecoveryOutcome) -> str:
    """The words for how recovered work ended, following its name."""
    closed = f"{'was closed meanwhile' if outcome.by_others else 'closed'}, nothing has changed"
    swapped = f"had landed as version {outcome.version} of {outcome.table}"
    cause = outcome.cause.message if outcome.cause else ""
    error = outcome.error.message if outcome.error else ""
    instead = f"could not be completed ({cause}) and " if cause else ""
    match outcome.ended:
        case RecoveryEnd.NOT_LANDED:
            return f"had not landed; {closed}"
        case RecoveryEnd.NOTHING_TO_SWAP:
            return f"had nothing to swap; {closed}"
        case RecoveryEnd.LANDED:
            return f"{swapped}; the ledger has recorded it now"
        case RecoveryEnd.UNDONE_SINCE:
            return f"{swapped}, and has been rolled back meanwhile"
        case RecoveryEnd.PUBLISHED_SINCE:
            return "was published by another process meanwhile"
        case RecoveryEnd.PUBLISHED:
            return "was half-way; now it is published completely"
        case RecoveryEnd.PHASE_PUBLISHED:
            return "had begun its next phase; now that is published"
        case RecoveryEnd.PHASE_STOPPED:
            return f"had begun its next phase, which could not be published; those before it are as they were: {cause}"
        case RecoveryEnd.NOTHING_PUBLISHED:
            return f"could not be published, and nothing has changed: {cause}"
        case RecoveryEnd.HALF_WAY:
            return f"is still half-way: {error}"
        case RecoveryEnd.ROLLED_BACK:
            return f"{instead}it has been rolled back completely"
        case RecoveryEnd.ROLLED_BACK_TOGETHER:
            return "was half-way; now it is rolled back with its dependents"
        case RecoveryEnd.NOT_ROLLED_BACK:
            return f"{instead}cannot be rolled back completely: {error}"
        case RecoveryEnd.ABANDONED:
            return f"could not be completed, and is abandoned: {error}"
    assert_never(outcome.ended)


def way_out_words(found: OutOfStep) -> str:
    """The words for what to do before a table is set to what the ledger holds, up to that command."""
    if found.behind is Behind.LEDGER:
        return (
            "restore a later backup of the ledger; if there is none, a person who may approve the table accepts the "
            "loss, and readers see what the ledger holds: "
        )
    return (
        "restore what is missing below the table's folder from a later backup, data files included; then, or if there "
        "is none, let readers see what the ledger holds: "
    )


def set_words(done: WasSet) -> str:
    """The words for what was done to a table, following its name."""
    said = [f"is as the ledger holds it, as version {done.version}: {count_of(len(done.partitions), 'partition')} set"]
    if done.rewritten:
        said.append(f"{count_of(done.rewritten, 'row')} of lineage and gate results written again")
    if done.lost_runs:
        said.append(f"accepted as lost: {', '.join(done.lost_runs)}")
    if done.unreadable:
        said.append(f"{count_of(done.unreadable, 'earlier version')} cannot be restored, because the files are gone")
    if done.gone:
        said.append(f"the files of {count_of(len(done.gone), 'partition')} are gone, the first is {done.gone[0]}")
    return "; ".join(said)


LAND_AGAIN = "land these files again: "
FETCH_LANDED = "restore them from a later backup, or land the originals from the archive again, which puts them back: "


def unknown_files_words(places: Sequence[str]) -> str:
    """Landed files of a source that the ledger does not know."""
    return f"{count_of(len(places), 'landed file')} that the ledger does not know: {few(places)}"


def lost_files_words(lost: Sequence[ImportRecord]) -> str:
    """Landed files of a source that are gone, as what follows its name."""
    return f"lacks {count_of(len(lost), 'landed file')} of the ledger: {few([each.name for each in lost])}"


def set_words_next(done: WasSet) -> str:
    """The words for what is left to do, up to the audit."""
    said = []
    if done.gone:
        said.append(
            "fetch these files from a backup, or compute the partitions again by the repairs that the audit prints, or "
            "roll their runs back"
        )
    if done.lost_runs:
        said.append("plan again, or land again, what was lost")
    return f"{'; '.join(said)}{'; then ' if said else ''}"

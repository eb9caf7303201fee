"""Words of how recovered work ended."""

from __future__ import annotations

from typing import assert_never

from backfill_assets.publication.recover import RecoveryEnd, RecoveryOutcome


def outcome_words(outcome: RecoveryOutcome) -> str:
    """How recovered work ended, as what follows its name."""
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
            return "was half-way; now all of it is published"
        case RecoveryEnd.PHASE_PUBLISHED:
            return "had begun its next phase; now that is published"
        case RecoveryEnd.PHASE_STOPPED:
            return f"had begun its next phase, which could not be published; those before it are as they were: {cause}"
        case RecoveryEnd.NOTHING_PUBLISHED:
            return f"could not be published, and nothing of it has changed: {cause}"
        case RecoveryEnd.HALF_WAY:
            return f"is still half-way: {error}"
        case RecoveryEnd.ROLLED_BACK:
            return f"{instead}all of it has been rolled back"
        case RecoveryEnd.ROLLED_BACK_TOGETHER:
            return "was half-way; now it is rolled back with its dependents"
        case RecoveryEnd.NOT_ROLLED_BACK:
            return f"{instead}cannot be rolled back as a whole: {error}"
        case RecoveryEnd.ABANDONED:
            return f"could not be completed, and is abandoned: {error}"
    assert_never(outcome.ended)

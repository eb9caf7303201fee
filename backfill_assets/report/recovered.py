"""Document of a recovery: unfinished work and its outcome."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from backfill_assets.core.errors import Problem
from backfill_assets.publication.recover import RecoveryEnd, RecoveryOutcome
from backfill_assets.report.requests import NextStep


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredWork:
    """One thing that was under way.

    Attributes:
        what: What it is: `publication`, `run`, `rollback`, `set` or `landing`.
        id: Names it.
        outcome: How it ended, in words; of what holds a lease, who has it and how long it would still last.
        next_step: What to do about it, or null.
    """

    what: str
    id: str
    outcome: str
    next_step: NextStep | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryReport:
    """The outcome of everything that was left unfinished.

    Attributes:
        recovered: One per piece of work that was in progress.
        problems: What could not be ended, while everything else was.
    """

    recovered: tuple[RecoveredWork, ...]
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedSamples:
    """That the values of rows kept for reviewers were deleted.

    Attributes:
        run_id: The run; null when a set was named.
        set_id: The set; null when a run was named.
        erased: How many samples of the run, or of the runs of the set, were deleted.
    """

    run_id: str | None
    set_id: str | None
    erased: int


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

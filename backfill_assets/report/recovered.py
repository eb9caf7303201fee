"""Document of a recovery: unfinished work and its outcome."""

from __future__ import annotations

from dataclasses import dataclass

from backfill_assets.core.errors import Problem
from backfill_assets.ledger.records import PublicationRecord
from backfill_assets.report.requests import NextStep


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredWork:
    """One thing that was under way.

    Attributes:
        what: What it is: `publication`, `run`, `rollback`, `set` or `landing`; `table` or `source` of another time than
            the ledger.
        id: Names it.
        outcome: How it ended, in words; of what holds a lease, who has it and how long it would still last.
        next_step: What to do about it, or null.
        problem: Why it could not be ended.
        landed: The publications and rollbacks that were completed for it, in order.
    """

    what: str
    id: str
    outcome: str
    next_step: NextStep | None = None
    problem: Problem | None = None
    landed: tuple[PublicationRecord, ...] = ()


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

"""Document of a recovery: unfinished work and its outcome."""

from __future__ import annotations

from dataclasses import dataclass

from backfill_assets.core.errors import Problem
from backfill_assets.core.next_steps import NextStep
from backfill_assets.ledger.records import PublicationRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredWork:
    """One thing that was under way."""

    #: What it is: `publication`, `run`, `rollback`, `set` or `landing`; `table` or `source` of another time than the
    #: ledger.
    what: str
    id: str  #: Names it.
    outcome: str  #: How it ended, in words; of what holds a lease, who has it and how long it would still last.
    next_step: NextStep | None = None  #: What to do about it, or null.
    problem: Problem | None = None  #: Why it could not be ended.
    landed: tuple[PublicationRecord, ...] = ()  #: The publications and rollbacks that were completed for it, in order.


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryReport:
    """The outcome of everything that was left unfinished."""

    recovered: tuple[RecoveredWork, ...]  #: One per piece of work that was in progress.
    problems: tuple[Problem, ...]  #: What could not be ended, while everything else was.


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedSamples:
    """Reports that the values of rows kept for reviewers were deleted."""

    run_id: str | None  #: The run; null when a set was named.
    set_id: str | None  #: The set; null when a run was named.
    erased: int  #: How many samples of the run, or of the runs of the set, were deleted.

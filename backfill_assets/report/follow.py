"""Documents of follow-ups: what waits and why, and the results of what followed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from backfill_assets.core.errors import BackfillError
from backfill_assets.core.next_steps import NAME, WHY, Act, Invocation, NextStep, do
from backfill_assets.ledger.records import RunRecord
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.following import Wanted
from backfill_assets.planning.partitions import TablePartitions

if TYPE_CHECKING:
    from backfill_assets.publication.follow import Asking, FailedFollowUp


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingPublication:
    """A publication that its dependents have not followed."""

    publication_id: str  #: Names it.
    table: str  #: The table that it changed.
    run_id: str  #: The run that was published.
    dependents: tuple[Wanted, ...]  #: What has to be computed again.
    set_id: str | None  #: The set for whose end they wait, or null.
    failed_attempts: int  #: How many plans of it have failed.
    last_failure: str | None  #: Why the last one did, or null.
    try_again: Invocation  #: What follows it.
    cancel: Invocation  #: What leaves its dependents as they are.


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedRun(TablePartitions):
    """One run that follows publications, or that should and could not be planned."""

    run_id: str | None  #: The run; null when it could not be planned.
    state: RunState | None  #: How far it came; null when it could not be planned.
    publications: tuple[str, ...]  #: What it follows.
    failed: bool  #: Whether a person has to look.
    error: BackfillError | None  #: Why it failed, or null.
    next_step: NextStep | None = None  #: What a person does next, or null where readers see it.


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowReport:
    """The outcome of everything that publications asked for."""

    followed: tuple[FollowedRun, ...]  #: One per run that this process executed, or that could not be planned.
    elsewhere: tuple[FollowedRun, ...]  #: Runs that another process is executing.
    #: The publications that still waited when this began; what waits for input partitions is no failure.
    waiting: tuple[WaitingPublication, ...]
    failed: bool  #: Whether a run failed; the exit code is then 1.


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowCancellation:
    """The cancellation of a publication's follow-ups."""

    publication_id: str  #: Names it.
    cancelled_by: str  #: Who decided it.
    reason: str  #: Why.


def waiting_publication(asking: Asking) -> WaitingPublication:
    """An open outbox entry, and what it still asks for."""
    entry = asking.entry
    return WaitingPublication(
        publication_id=entry.publication_id,
        table=entry.table,
        run_id=entry.run_id,
        dependents=asking.wanted,
        set_id=asking.set_id,
        failed_attempts=entry.attempts,
        last_failure=entry.note or None,
        try_again=do(Act.FOLLOW),
        cancel=do(Act.FOLLOW, cancel=entry.publication_id, by=NAME, reason=WHY),
    )


def followed_run(
    run: RunRecord, error: BackfillError | None = None, *, following: NextStep | None = None
) -> FollowedRun:
    """A run that follows publications; `error` is why it stopped."""
    manifest = run.manifest
    return FollowedRun(
        table=manifest.table,
        grain=manifest.grain,
        partitions=manifest.partitions,
        run_id=run.run_id,
        state=run.state,
        publications=manifest.cause.publications,
        failed=error is not None or run.state in (RunState.FAILED, RunState.BLOCKED),
        error=error,
        next_step=following,
    )


def unplanned_run(failed: FailedFollowUp) -> FollowedRun:
    """A run that publications ask for, and that could not be planned."""
    wanted = failed.follow_up
    return FollowedRun(
        table=wanted.table,
        grain=wanted.grain,
        partitions=wanted.partitions,
        run_id=None,
        state=None,
        publications=wanted.publications,
        failed=True,
        error=failed.error,
    )

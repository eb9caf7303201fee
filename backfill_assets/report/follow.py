"""Documents of follow-ups: what waits and why, and the results of what followed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from backfill_assets.core.errors import BackfillError
from backfill_assets.ledger.records import RunRecord
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.partitions import count_of, describe
from backfill_assets.report.advice import next_step_of
from backfill_assets.report.requests import NAME, WHY, Act, Invocation, NextStep, do, step

if TYPE_CHECKING:
    from backfill_assets.planning.following import Wanted
    from backfill_assets.publication.follow import Asking, FailedFollowUp


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingDependent:
    """A table that has to be computed again after a publication of one of its inputs.

    Attributes:
        table: The dependent.
        partitions_described: What of it can be computed now, in words; null when nothing can.
        waiting_described: What of it waits for input partitions, in words; null when nothing does.
    """

    table: str
    partitions_described: str | None
    waiting_described: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingPublication:
    """A publication that its dependents have not followed.

    Attributes:
        publication_id: Names it.
        table: The table that it changed.
        run_id: The run that was published.
        dependents: What has to be computed again.
        set_id: The set for whose end they wait, or null.
        failed_attempts: How many plans of it have failed.
        last_failure: Why the last one did, or null.
        try_again: What follows it.
        cancel: What leaves its dependents as they are.
    """

    publication_id: str
    table: str
    run_id: str
    dependents: tuple[WaitingDependent, ...]
    set_id: str | None
    failed_attempts: int
    last_failure: str | None
    try_again: Invocation
    cancel: Invocation


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedRun:
    """One run that follows publications, or that should and could not be planned.

    Attributes:
        table: The dependent.
        run_id: The run; null when it could not be planned.
        state: How far it came; null when it could not be planned.
        partitions_described: Its partitions in words.
        publications: What it follows.
        failed: Whether a person has to look.
        error: Why it failed, or null.
        next_step: What to do about it, or null.
    """

    table: str
    run_id: str | None
    state: RunState | None
    partitions_described: str
    publications: tuple[str, ...]
    failed: bool
    error: str | None
    next_step: NextStep | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowReport:
    """What became of everything that publications asked for.

    Attributes:
        followed: One per run.
        failed: Whether one of them failed; the exit code is then 1.
        sentences: The same in words, and what waits for input partitions, which is no failure.
    """

    followed: tuple[FollowedRun, ...]
    failed: bool
    sentences: tuple[NextStep, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowCancellation:
    """That nothing follows a publication any more.

    Attributes:
        publication_id: Names it.
        cancelled_by: Who decided it.
        reason: Why.
        sentences: The same in words.
    """

    publication_id: str
    cancelled_by: str
    reason: str
    sentences: tuple[str, ...]


def waiting_publication(asking: Asking) -> WaitingPublication:
    """An open outbox entry, and what it still asks for."""
    entry = asking.entry
    return WaitingPublication(
        publication_id=entry.publication_id,
        table=entry.table,
        run_id=entry.run_id,
        dependents=tuple(_dependent(wanted) for wanted in asking.wanted),
        set_id=asking.set_id,
        failed_attempts=entry.attempts,
        last_failure=entry.note or None,
        try_again=do(Act.FOLLOW),
        cancel=do(Act.FOLLOW, cancel=entry.publication_id, by=NAME, reason=WHY),
    )


def _dependent(wanted: Wanted) -> WaitingDependent:
    return WaitingDependent(
        table=wanted.table,
        partitions_described=describe(wanted.grain, wanted.partitions) if wanted.partitions else None,
        waiting_described=describe(wanted.grain, wanted.waiting) if wanted.waiting else None,
    )


def waiting_publication_sentence(waiting: WaitingPublication) -> NextStep:
    """One line about a publication that is not followed."""
    what = f"{waiting.publication_id} of {waiting.table}"
    if waiting.set_id:
        return step(f"{what} is followed when set {waiting.set_id} is done")
    if waiting.failed_attempts:
        failed = f"it failed {count_of(waiting.failed_attempts, 'time')}: {waiting.last_failure}"
        return step(
            *(f"{what} was not followed, {failed} To try again: ", waiting.try_again),
            *(". To let dependents be as they are: ", waiting.cancel),
        )
    ready = [f"{each.table} {each.partitions_described}" for each in waiting.dependents if each.partitions_described]
    if not ready:
        blocked = [f"{each.table} {each.waiting_described}" for each in waiting.dependents]
        return step(f"{what}: {', '.join(blocked)} wait for input partitions that have no accepted version")
    return step(f"{what} asks for {', '.join(ready)}: ", waiting.try_again)


def waiting_sentences(asking: Asking) -> Iterator[str]:
    """What cannot follow yet; the publication that completes its inputs asks for it again."""
    if asking.set_id:
        yield f"what depends on {asking.entry.table} follows when set {asking.set_id} is done"
    for wanted in asking.wanted:
        if wanted.waiting:
            ready, asked = len(wanted.partitions), len(wanted.partitions) + len(wanted.waiting)
            yield (
                f"{wanted.table}: {ready:,} of {count_of(asked, 'partition')} asked for can follow. "
                f"{describe(wanted.grain, wanted.waiting)} waits: it needs input partitions that have no accepted "
                f"version; what readers see of it, if anything, is from before"
            )


def followed_run(run: RunRecord, error: BackfillError | None) -> FollowedRun:
    """A run that follows publications; `error` is why it stopped."""
    manifest = run.manifest
    return FollowedRun(
        table=manifest.table,
        run_id=run.run_id,
        state=run.state,
        partitions_described=describe(manifest.grain, manifest.partitions),
        publications=manifest.cause.publications,
        failed=error is not None or run.state in (RunState.FAILED, RunState.BLOCKED),
        error=error.message if error else None,
        next_step=next_step_of(error) if error else None,
    )


def unplanned_run(failed: FailedFollowUp) -> FollowedRun:
    """A run that publications ask for, and that could not be planned."""
    wanted = failed.follow_up
    return FollowedRun(
        table=wanted.table,
        run_id=None,
        state=None,
        partitions_described=describe(wanted.grain, wanted.partitions),
        publications=wanted.publications,
        failed=True,
        error=failed.error.message,
        next_step=next_step_of(failed.error),
    )


def follow_report(
    runs: tuple[FollowedRun, ...], elsewhere: Iterable[RunRecord], waiting: Iterable[str]
) -> FollowReport:
    """What became of everything that publications asked for.

    Args:
        runs: What was executed, and what could not be planned.
        elsewhere: Runs that another process is executing.
        waiting: Sentences about what cannot follow yet.
    """
    at_work = [f"{run.manifest.table}: {run.run_id} is under way in another process" for run in elsewhere]
    sentences = (*map(_followed_sentence, runs), *map(step, at_work), *map(step, waiting))
    return FollowReport(
        followed=runs,
        failed=any(each.failed for each in runs),
        sentences=sentences or (step("no publication waits for its dependents"),),
    )


def _followed_sentence(each: FollowedRun) -> NextStep:
    """One line about a run."""
    became = f"{each.state} as {each.run_id}" if each.run_id else "was not planned"
    said = f"{each.table} {each.partitions_described}: {became}"
    if each.error is None:
        return step(said)
    following = (" Next: ", each.next_step) if each.next_step else ()
    return step(f"{said} ({each.error}", *following, ")")

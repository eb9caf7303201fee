"""Work of sensors and recovery: follow-ups, what sensors have given up, and how what was interrupted ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, assert_never

from backfill_assets.calendar.partitions import Partitions, TablePartitions, count_of
from backfill_assets.capture.files.drop_places import is_on_server
from backfill_assets.core.errors import BackfillError, Problem
from backfill_assets.core.next_steps import NAME, WHY, Command, Invocation, NextStep, do, step, to_cancel
from backfill_assets.core.people import Sensor
from backfill_assets.ledger.outbox import StuckWork
from backfill_assets.ledger.records import PublicationRecord, RunRecord
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.impact import RequestedPartitions
from backfill_assets.report.documents import INLINE
from backfill_assets.report.page import Items, Note, Page, Section, Value, next_steps, page, section, words
from backfill_assets.report.proposed import OpenProposal
from backfill_assets.report.waiting import FreezeDocument, Unfrozen, frozen_line, frozen_words
from backfill_assets.requests.stuck import is_publication

if TYPE_CHECKING:
    from backfill_assets.requests.follow import Asking, FailedFollowUp


# Documents of follow-ups: what waits and why, and the results of what followed.


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingPublication:
    """A publication that its dependents have not followed."""

    publication_id: str  #: Names it.
    table: str  #: The table that it changed.
    run_id: str  #: The run that was published.
    dependents: tuple[RequestedPartitions, ...]  #: What has to be computed again.
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
    failed: bool  #: True if a person has to look.
    error: BackfillError | None  #: Why it failed, or null.
    next_step: NextStep | None = None  #: What a person does next, or null where readers see it.


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowReport:
    """The outcome of everything that publications asked for."""

    followed: tuple[FollowedRun, ...]  #: One per run that this process executed, or that could not be planned.
    elsewhere: tuple[FollowedRun, ...]  #: Runs that another process is executing.
    #: The publications that still waited when this began; what waits for input partitions is no failure.
    waiting: tuple[WaitingPublication, ...]
    failed: bool  #: True if a run failed; the exit code is then 1.


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
        try_again=do(Command.FOLLOW),
        cancel=do(Command.FOLLOW, cancel=entry.publication_id, by=NAME, reason=WHY),
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


# Documents of what sensors have given up: what it is, why, and what can be done about it.


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckDocument:
    """Something that a sensor has given up."""

    work: StuckWork = field(metadata=INLINE)  #: What, and why.
    clear: Invocation  #: What lets the sensor try again; a blocked run of the LIVE path is only listed no longer.
    leave: NextStep  #: What else can be done.


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearedDocument:
    """The work that sensors abandoned and that was cleared."""

    subject: str  #: The run, set, publication or file.
    sensors: tuple[Sensor, ...]  #: The sensors that had given it up.
    cleared_by: str  #: Who cleared it.


def stuck_document(work: StuckWork) -> StuckDocument:
    """One piece of stuck work as a document."""
    return StuckDocument(work=work, clear=do(Command.CLEAR, work.subject, by=NAME), leave=_leave(work))


def _leave(work: StuckWork) -> NextStep:
    match work.sensor:
        case Sensor.FOLLOW:
            nothing_follows = do(Command.FOLLOW, cancel=work.subject, by=NAME, reason=WHY)
            ends = nothing_follows if is_publication(work.subject) else to_cancel(work.subject)
            return step("To let dependents be as they are: ", ends)
        case Sensor.LIVE:
            again = to_cancel(work.subject)
            return step("To see why: ", do(Command.REPORT, work.subject), ". To have its days planned again: ", again)
        case Sensor.PUBLISH | Sensor.PROPOSE | Sensor.FRESH:
            return step("To decide against it: ", to_cancel(work.subject))
        case Sensor.DROP if is_on_server(work.subject):
            return step("Another file of this name on the server ends it")
        case Sensor.DROP:
            return step("To leave it, move it out of the drop folder")
        case Sensor.RECOVER:
            return step("To see why: ", do(Command.RECOVER, work.subject))
    assert_never(work.sensor)


# Document of a recovery: unfinished work and its outcome.


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

    request_id: str  #: The restatement, or the run.
    erased: int  #: How many samples of it were deleted.


# Pages on the outcome of work: follow-ups, recoveries, freezes, work that sensors abandoned, and erased samples.


def follow_page(report: FollowReport) -> Page:
    """The page on the outcome of everything that publications asked for."""
    lines = (
        *map(_followed, report.followed),
        *(f"{each.table}: {each.run_id} is under way in another process" for each in report.elsewhere),
        # Several publications can wait for the same.
        *dict.fromkeys(line for each in report.waiting for line in _waiting(each)),
    )
    waiting = (run.next_step for run in report.followed)
    return page("Follow-ups", Items(items=lines or ("no publication waits for its dependents",)), next_steps(*waiting))


def _followed(run: FollowedRun) -> Value:
    became = f"{run.state} as {run.run_id}" if run.run_id else "was not planned"
    said = f"{run.table} {Partitions(run.grain, run.partitions)}: {became}"
    if run.error is None:
        return said
    following = run.error.next_step
    return words(f"{said} ({run.error.message}", *((" Next: ", following) if following else ()), ")")


def _waiting(publication: WaitingPublication) -> Iterator[str]:
    """A note on what cannot follow yet; the publication that completes its inputs asks for it again."""
    if publication.set_id:
        yield f"what depends on {publication.table} follows when set {publication.set_id} is done"
    for wanted in publication.dependents:
        if wanted.frozen:
            frozen = Partitions(wanted.grain, wanted.frozen)
            yield f"{wanted.table}: {frozen} is frozen, and follows when it is so no longer"
        if wanted.waiting:
            ready = len(wanted.partitions) + len(wanted.frozen)
            asked = ready + len(wanted.waiting)
            yield (
                f"{wanted.table}: {ready:,} of {count_of(asked, 'partition')} asked for can follow. "
                f"{Partitions(wanted.grain, wanted.waiting)} waits: it needs input partitions that have no accepted "
                "version; any rows that readers see there are older"
            )


def cancelled_page(cancelled: FollowCancellation) -> Page:
    """The page that nothing follows a publication."""
    text = f"the dependents of {cancelled.publication_id} stay as they are"
    return page("Follow-ups", Note(text=text))


def cleared_page(cleared: ClearedDocument) -> Page:
    """The page that sensors try something again."""
    return page("Cleared", Items(items=tuple(_cleared(cleared.subject, sensor) for sensor in cleared.sensors)))


def _cleared(subject: str, sensor: Sensor) -> str:
    if sensor is Sensor.LIVE:
        return f"{subject} is listed no longer, unless a gate blocks it again; the days after it still wait for it"
    return f"{sensor} tries {subject} again at its next tick"


def recovered_page(report: RecoveryReport) -> Page:
    """The page on recovery: what was left unfinished, its outcome, and what to do next."""
    nothing = None if report.recovered else Note(text="nothing was left unfinished")
    return page("Recovery", nothing, Items(items=tuple(map(_recovered, report.recovered))))


def erased_page(erased: ErasedSamples) -> Page:
    """The page that the values of rows were deleted."""
    text = f"{count_of(erased.erased, 'sample')} of {erased.request_id} erased"
    return page("Erased", Note(text=text))


def _recovered(work: RecoveredWork) -> Value:
    said = f"{work.what} {work.id} {work.outcome}"
    return words(f"{said}. Next: ", work.next_step) if work.next_step else said


def frozen_section(found: Iterable[FreezeDocument]) -> Section | None:
    """The section on what is frozen, what waits for it, and what ends it; nothing when nothing is."""
    return section("Frozen", Items(items=tuple(map(frozen_line, found))))


def freeze_page(frozen: FreezeDocument) -> Page:
    """The page of a new freeze."""
    return page("Frozen", Items(items=(frozen_line(frozen),)))


def unfrozen_page(ended: Unfrozen) -> Page:
    """The page of a freeze that has ended."""
    text = f"{ended.freeze.freeze_id} was ended by {ended.ended_by}; it was: {frozen_words(ended.freeze)}"
    return page("Frozen no longer", Note(text=text), next_steps(ended.next_step))


# Words of what waits for a person: publications that are not followed, open proposals, what sensors have given
# up.


def waiting_words(waiting: WaitingPublication) -> NextStep:
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
    if ready := [
        f"{each.table} {Partitions(each.grain, each.partitions)}" for each in waiting.dependents if each.partitions
    ]:
        return step(f"{what} asks for {', '.join(ready)}: ", waiting.try_again)
    if frozen := [f"{each.table} {Partitions(each.grain, each.frozen)}" for each in waiting.dependents if each.frozen]:
        return step(f"{what}: {', '.join(frozen)} is frozen, and follows when it is so no longer")
    blocked = ", ".join(f"{each.table} {Partitions(each.grain, each.waiting)}" for each in waiting.dependents)
    return step(f"{what}: {blocked} wait for input partitions that have no accepted version")


def open_proposal_words(proposal: OpenProposal) -> NextStep:
    """One line about a proposal, and whether it waits for an approval."""
    record, waits = proposal.record, "approved" if proposal.approved else "not approved"
    about = f"{record.manifest.because} {record.manifest.reason}"
    return step(f"{record.set_id} is proposed and {waits}; {about}: ", proposal.next_step)


def stuck_words(stuck: StuckDocument) -> NextStep:
    """One line about it."""
    # The LIVE path does not try a blocked run again: its rows are what the gates have found them to be.
    work = stuck.work
    to_clear = "To list it no longer" if work.sensor is Sensor.LIVE else "To try again"
    again = step(f"{work.sensor} has given up {work.subject} ({work.why.rstrip('.')}). {to_clear}: ", stuck.clear)
    return step(again, ". ", stuck.leave)

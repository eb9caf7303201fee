"""Pages on the outcome of work: follow-ups, recoveries, freezes, work that sensors abandoned, and erased samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from backfill_assets.core.people import Sensor
from backfill_assets.planning.partitions import Partitions, count_of
from backfill_assets.report.follow import FollowCancellation, FollowedRun, FollowReport, WaitingPublication
from backfill_assets.report.frozen import FreezeDocument, Unfrozen, frozen_line, frozen_words
from backfill_assets.report.page import Items, Note, Page, Section, Value, next_steps, page, section, words
from backfill_assets.report.recovered import ErasedSamples, RecoveredWork, RecoveryReport
from backfill_assets.report.stuck import ClearedDocument


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
    text = f"{count_of(erased.erased, 'sample')} of {erased.run_id or erased.set_id} erased"
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

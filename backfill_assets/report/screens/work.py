"""What became of work: follow-ups, recoveries, what sensors have given up, erased samples, and problems."""

from __future__ import annotations

from collections.abc import Sequence

from backfill_assets.core.problems import Problem
from backfill_assets.planning.partitions import count_of
from backfill_assets.report.advice import next_step_of
from backfill_assets.report.follow import FollowCancellation, FollowReport
from backfill_assets.report.page import Items, Note, Page, Tone, Value, page, words
from backfill_assets.report.recovered import ErasedSamples, RecoveredWork, RecoveryReport
from backfill_assets.report.requests import NextStep
from backfill_assets.report.stuck import ClearedDocument


def follow_page(report: FollowReport) -> Page:
    """What became of everything that publications asked for."""
    return page("Follow-ups", Items(items=report.sentences))


def cancelled_page(cancelled: FollowCancellation) -> Page:
    """That nothing follows a publication."""
    text = f"nothing follows {cancelled.publication_id} any more; what depends on it is as it was"
    return page("Follow-ups", Note(text=text))


def cleared_page(cleared: ClearedDocument) -> Page:
    """That sensors try something again."""
    return page("Cleared", Items(items=cleared.sentences))


def recovered_page(report: RecoveryReport) -> Page:
    """What was left unfinished, its outcome, and what to do next."""
    nothing = None if report.recovered else Note(text="nothing was left unfinished")
    return page("Recovery", nothing, Items(items=tuple(map(_recovered, report.recovered))))


def erased_page(erased: ErasedSamples) -> Page:
    """That the values of rows were deleted."""
    text = f"{count_of(erased.erased, 'sample')} of {erased.run_id or erased.set_id} erased"
    return page("Erased", Note(text=text))


def problem_notes(problems: Sequence[Problem]) -> tuple[Note, ...]:
    """What could not be processed, why, and what to do about it."""
    return tuple(
        Note(text=_with_next(str(problem), next_step_of(problem.error)), tone=Tone.BAD) for problem in problems
    )


def _recovered(work: RecoveredWork) -> Value:
    said = f"{work.what} {work.id} {work.outcome}"
    return _with_next(f"{said}.", work.next_step) if work.next_step else said


def _with_next(said: str, following: NextStep | None) -> Value:
    return words(said, " Next: ", following) if following else said

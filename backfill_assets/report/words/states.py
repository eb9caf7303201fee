"""States of runs and sets in words, and why rows are stale."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from backfill_assets.calendar.partitions import DayRange, Grain, count_of, describe
from backfill_assets.ledger.states import (
    ActState,
    ApprovalState,
    ChunkState,
    ImportState,
    PublicationState,
    ReplayState,
    RunState,
    SetState,
    State,
    VersionState,
)
from backfill_assets.planning.manifest_parts import Cause, ChangedReference, Reason, ReferenceSemantics

if TYPE_CHECKING:
    from backfill_assets.ledger.records import RunHeader


_IN_PART = "those of its phases that were published are what readers see; the others were cancelled"


def expired_words(run_id: str) -> str:
    """By which run a snapshot is not there any more."""
    return f"The snapshot expired by run {run_id}: its table does not keep it, and no version is accepted."


def meaning_of_run(run: RunHeader, *, brings_back: bool = False) -> str:
    """The meaning of a run's state.

    Args:
        brings_back: Whether it is a repair whose rows are exactly those that were recorded.
    """
    if brings_back and run.state is RunState.PASSED:
        return "every blocking gate passed, and its rows are exactly those that were recorded: it needs no approval"
    if run.makes is VersionState.EXPIRED and run.state is RunState.PUBLISHED:
        return "its snapshots have expired: readers see none of their rows"
    return MEANING[run.state]


def meaning_of_set(state: SetState, runs: Iterable[RunState]) -> str:
    """The meaning of a set's state, with the progress of its runs."""
    states = set(runs)
    if state is SetState.PUBLISHED and RunState.CANCELLED in states:
        return _IN_PART
    if state is SetState.PENDING and RunState.BLOCKED in states:
        return "a blocking gate of one of its runs failed; nothing is published"
    if state is SetState.PENDING and states == {RunState.PASSED}:
        return "every blocking gate of its runs passed; nothing is published yet"
    return MEANING[state]


MEANING: Mapping[State, str] = {
    RunState.PLANNED: "the manifest is written; nothing has been computed",
    RunState.STAGING: "Spark is writing candidate files, not visible to readers",
    RunState.STAGED: "the candidate is written; its gates have not been measured yet",
    RunState.GATING: "the candidate is written and its gates are being measured",
    RunState.PASSED: "every blocking gate passed; it can be published once a person, or its policy, approves it",
    RunState.BLOCKED: "a blocking gate failed; the published table is as it was",
    RunState.FAILED: "staging or gating stopped: with an error, at its limit, or because its process was gone",
    RunState.PUBLISHING: "the swap is under way; if its process is gone, recovery finishes or undoes it",
    RunState.PUBLISHED: "readers see its rows",
    RunState.VERIFIED: "every row was the one that readers saw then: nothing was published, and no approval is needed",
    RunState.SUPERSEDED: "a later publication replaced all of its rows",
    RunState.ROLLED_BACK: "its publication was undone; the rows before it are back",
    RunState.CANCELLED: "it was cancelled: readers never see its rows, and its files may be removed",
    ApprovalState.DRAFT: "no other person than the requester has approved it yet",
    ApprovalState.APPROVED: "another person than the requester agreed to exactly this manifest",
    PublicationState.PUBLISHING: "intended; the table may or may not have changed yet",
    PublicationState.PUBLISHED: "the swap landed and the ledger knows",
    PublicationState.ABANDONED: "given up before the swap; nothing changed",
    PublicationState.ROLLED_BACK: "undone by a later publication",
    VersionState.ACCEPTED: "what readers of the partition see",
    VersionState.SUPERSEDED: "replaced by a later version; its files are kept for a rollback",
    VersionState.ROLLED_BACK: "was accepted, and then undone",
    VersionState.EXPIRED: "the snapshot has expired by this run: its table does not keep it, and readers see none",
    ImportState.LANDING: "being copied and checked",
    ImportState.LANDED: "copied, checked and counted; its days are not in bronze yet",
    ImportState.LOADED: "its days are in bronze",
    ImportState.FAILED: "landing stopped; no record is used",
    ChunkState.RUNNING: "being computed",
    ChunkState.DONE: "its files and checksums are recorded",
    SetState.PENDING: "its manifests are written; nothing is published",
    SetState.PUBLISHING: "its tables, or its next phase, are being published; recovery completes or reverses it",
    SetState.PARTLY_PUBLISHED: "readers see some of its phases; the later ones wait",
    SetState.PUBLISHED: "readers see all of its tables",
    SetState.VERIFIED: "the rows of all its runs were those that readers saw then: nothing was published or has to be",
    SetState.ROLLING_BACK: "its tables are being rolled back one after the other; recovery continues this",
    SetState.ROLLED_BACK: "all of its tables are as they were before",
    SetState.CANCELLED: "it was cancelled with all of its runs: readers never see its rows",
    ReplayState.ASKED: "its inputs are recorded; nothing was sent",
    ReplayState.SENDING: "its topic or stream is there, and it is known how far it is",
    ReplayState.SENT: "all of its records are in the topic or stream",
    ReplayState.FAILED: "some planned records cannot be sent; its topic or stream is incomplete",
    ReplayState.CLOSED: "it is ended; a topic or stream that was created for it is deleted",
    ActState.ASKED: "asked for; nothing is done yet",
    ActState.DONE: "done: of a cut-over, readers are shown the version",
    ActState.UNDONE: "undone: readers are shown the earlier table",
    ActState.CANCELLED: "given up before it was done",
}


NEW_VERSION = "give the transform a new version, so that a number names its code"
"""What is to be done about code that has changed under the same version."""

_MOST_FILES = 3


def stale_words(table: str, reason: Reason) -> str:
    """Why partitions of a table are stale, and what is to be done about code that has changed under its version."""
    return because_words(table, reason) + (f": {NEW_VERSION}" if reason.cause is Cause.CODE_CHANGED else "")


def because_words(table: str, reason: Reason) -> str:
    """Why partitions of a table are stale, or can get other rows."""
    match reason.cause:
        case Cause.CODE_CHANGED:
            return f"the code changed and {reason.name} is still its version (sha256 {reason.was}, now {reason.now})"
        case Cause.SESSION_CHANGED:
            return f"session settings changed: what this release fixes of Spark (sha256 {reason.was}, now {reason.now})"
        case Cause.VERSION_CHANGED:
            return f"computed by {reason.was}; now it is {reason.now}"
        case Cause.CONFIGURATION_CHANGED:
            return f"configured otherwise: {reason.was}; now {reason.now}"
        case Cause.PILOTED:
            return (
                f"pilot {reason.run_id} computed {reason.name} alone, and kept all other rows: "
                "it is stale until a plan of whole partitions finds or makes all of them equal"
            )
        case Cause.REFERENCE_CHANGED:
            which = "it could be any day" if reason.days is None else f"facts of {_ranges_text(reason.days)}"
            return f"{reason.name} was {reason.was}, now {reason.now}: {which}"
        case Cause.REFERENCE_KEPT:
            which = "it could be any day" if reason.days is None else f"facts of {_ranges_text(reason.days)} differ"
            how = "as recorded" if reason.semantics is ReferenceSemantics.AS_RECORDED else "corrected"
            return (
                f"computed with {reason.name} {reason.was} ({how}) on purpose, by run {reason.run_id}; "
                f"now {reason.now}: {which}"
            )
        case Cause.DIFFERENCE_ACCEPTED:
            return f"run {reason.run_id} found other rows, and an owner left the accepted ones as they were"
        case Cause.INPUT_CHANGED if reason.name == table:
            return f"has yet to be built {_from_files(reason.files)}"
        case Cause.INPUT_CHANGED if reason.run_id:
            return (
                f"{reason.name} is computed again by {reason.run_id} of the same set: {_ranges_text(reason.days or ())}"
            )
        case Cause.INPUT_CHANGED:
            return f"{reason.name} changed: {_ranges_text(reason.days or ())}"
        case Cause.NEVER_BUILT:
            return "never built, and everything it needs is there"


def _from_files(files: Sequence[str]) -> str:
    if not files:
        return "as an empty day: files have landed for days before and after it"
    more = len(files) - _MOST_FILES
    rest = f" and {count_of(more, 'more file')}" if more > 0 else ""
    return f"from {', '.join(files[:_MOST_FILES])}{rest}"


def _ranges_text(ranges: Sequence[DayRange]) -> str:
    return describe(Grain.DAILY, (day for days in ranges for day in days))


def changed_reference_words(found: ChangedReference) -> str:
    """The words for a reference that has changed since a run was planned, and the version from which its rows
    follow."""
    edited = " with other content" if found.was == found.now else ""
    return (
        f"the reference {found.name} has changed since {found.table} {found.partitions} was planned with version "
        f"{found.was}: it is version {found.now}{edited} now, and the rows follow from the earlier one"
    )


def taken_back_words(rows: int) -> str:
    """Rows of a merge whose input was taken back."""
    return f"{count_of(rows, 'accepted row')} that no input gives"

"""Words of what is stale."""

from __future__ import annotations

from collections.abc import Sequence

from backfill_assets.calendar.partitions import DayRange, Grain, count_of, describe
from backfill_assets.planning.manifest_parts import Cause, ChangedReference, Reason, ReferenceSemantics

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

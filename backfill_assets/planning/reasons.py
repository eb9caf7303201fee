"""Reasons why accepted partitions are stale, or why a run can give other rows than theirs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from typing import Any

from backfill_assets.calendar.partitions import DayRange, Grain, Partitions, compress
from backfill_assets.core.grouped import grouped
from backfill_assets.planning.manifest_parts import ReferenceSemantics


class Cause(StrEnum):
    """Why a partition is stale, the most pressing first."""

    CODE_CHANGED = "CODE_CHANGED"
    SESSION_CHANGED = "SESSION_CHANGED"
    VERSION_CHANGED = "VERSION_CHANGED"
    CONFIGURATION_CHANGED = "CONFIGURATION_CHANGED"
    PILOTED = "PILOTED"
    REFERENCE_CHANGED = "REFERENCE_CHANGED"
    REFERENCE_KEPT = "REFERENCE_KEPT"
    DIFFERENCE_ACCEPTED = "DIFFERENCE_ACCEPTED"
    INPUT_CHANGED = "INPUT_CHANGED"
    NEVER_BUILT = "NEVER_BUILT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One reason why a range of partitions is stale."""

    #: What changed. CODE_CHANGED: the code, while the version is the same, an error to be confirmed; SESSION_CHANGED:
    #: the Spark settings that a later release fixes; PILOTED: the last run computed only some of the rows;
    #: REFERENCE_KEPT: a person chose the version of a reference; DIFFERENCE_ACCEPTED: an owner left the rows as they
    #: are, although a run found others.
    cause: Cause
    #: The input table, the reference, the version whose code changed, or the rows of a pilot; empty for the other
    #: causes.
    name: str = ""
    was: str = ""  #: The version, digest or setting then.
    now: str = ""  #: The same now.
    #: The input days that changed and that the range reads, or the days whose facts changed; None if the cause has no
    #: days, or any day may be affected.
    days: tuple[DayRange, ...] | None = None
    files: tuple[str, ...] = ()  #: For a source table, the landed files that the range was built without.
    semantics: ReferenceSemantics | None = None  #: Of a reference whose version was chosen: which truth it gives.
    #: The run for which it was chosen, the pilot, the run whose difference was accepted, or the run of the same set
    #: that computes the input days again.
    run_id: str = ""

    @staticmethod
    def parse(document: Mapping[str, Any]) -> Reason:
        """The reason that a document of plain values holds."""
        days, semantics = document["days"], document["semantics"]
        return Reason(
            cause=Cause(document["cause"]),
            name=document["name"],
            was=document["was"],
            now=document["now"],
            days=None
            if days is None
            else tuple(DayRange(date.fromisoformat(each["start"]), date.fromisoformat(each["end"])) for each in days),
            files=tuple(document["files"]),
            semantics=None if semantics is None else ReferenceSemantics(semantics),
            run_id=document["run_id"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedReference:
    """A reference that has changed since a run was planned with it."""

    table: str  #: The table of the run.
    name: str  #: The reference.
    was: str  #: The version that the run was planned with.
    now: str  #: The present version; the same where it has other content under it.
    partitions: Partitions  #: The partitions of the run that it can change.


_PRESSING = {cause: place for place, cause in enumerate(Cause)}


def in_order(reasons: Iterable[Reason]) -> tuple[Reason, ...]:
    """Reasons, the most pressing first."""
    return tuple(sorted(reasons, key=lambda each: (_PRESSING[each.cause], each.name, each.was, each.run_id)))


def only_of_code(reasons: Iterable[Reason]) -> bool:
    """True if partitions are stale for changed code alone, which a person asks for by itself (`--changed-code`)."""
    return {reason.cause for reason in reasons} - {Cause.DIFFERENCE_ACCEPTED} == {Cause.CODE_CHANGED}


def together(reasons: Iterable[Reason]) -> tuple[Reason, ...]:
    """The reasons of several ranges of partitions, each once, with the days that it has in any of them."""
    found = grouped((replace(reason, days=None), reason.days) for reason in reasons)
    return in_order(replace(reason, days=_all_days(some)) for reason, some in found.items())


def _all_days(some: Iterable[tuple[DayRange, ...] | None]) -> tuple[DayRange, ...] | None:
    """The days of all; None if any day may be affected."""
    found: set[date] = set()
    for ranges in some:
        if ranges is None:
            return None
        found.update(day for days in ranges for day in days)
    return compress(Grain.DAILY, found)

"""What is stale, why, and what builds it again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from backfill_assets.planning.manifest_parts import ReferenceSemantics
from backfill_assets.planning.partitions import DayRange, Grain, count_of, describe
from backfill_assets.report.advice.filling import joined, loads, plans
from backfill_assets.report.advice.left_out import as_recorded, plan_stale
from backfill_assets.report.requests import Invocation, NextStep
from backfill_assets.report.words.plans import lacks
from backfill_assets.staleness.ranges import Cause, Reason, Staleness, StaleRange

_MOST_FILES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleReason:
    """Why partitions no longer follow from what is there now.

    Attributes:
        cause: What changed. `CODE_CHANGED`: the code, while the version is the same, an error to be confirmed;
            `SESSION_CHANGED`: the Spark settings that a later release fixes; `REFERENCE_KEPT`: a person chose the
            version of a reference.
        name: The input table, the reference, or the version whose code changed; else null.
        was: The version, digest or setting then; else null.
        now: The same now.
        days: `[from, to]`, inclusive: the input days that changed and the range reads, or the days whose facts changed;
            null when it could be any day.
        files: For a source table, the landed files that the range was built without.
        sentence: The reason in words.
    """

    cause: Cause
    name: str | None
    was: str | None
    now: str | None
    days: tuple[tuple[date, date], ...] | None
    files: tuple[str, ...]
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleRangeDocument:
    """Consecutive partitions that are stale for the same reasons.

    Attributes:
        from_: The first partition.
        to: The last one.
        partitions: How many there are.
        described: The same in words.
        reasons: Those of the last run that these rows followed by.
    """

    from_: date
    to: date
    partitions: int
    described: str
    reasons: tuple[StaleReason, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleTable:
    """What of a table is stale.

    Attributes:
        table: Its name.
        grain: Whether a partition is a day or a month.
        accepted_partitions: How many partitions have an accepted version.
        stale_partitions: How many partitions are stale.
        described: The same in words.
        blocked_partitions: How many of them cannot be built again, because an input has no accepted version any more.
        blocked_described: The same in words; null when there are none.
        on_purpose_partitions: How many of them were computed with references that a person chose: `plan --stale` and
            follow-ups leave them to a person.
        on_purpose_described: The same in words; null when there are none.
        waiting_partitions: How many were never built and cannot be built yet, because an input is not there.
        waiting_described: The same in words, with what they lack; null when there are none.
        ranges: Which are stale, and why.
        kept_partitions: How many differ from the present in nothing but references that a person chose; not stale.
        kept: Which these are, and by which run.
        to_present: What computes both with the present references; null when there are none of either.
    """

    table: str
    grain: Grain
    accepted_partitions: int
    stale_partitions: int
    described: str
    blocked_partitions: int
    blocked_described: str | None
    on_purpose_partitions: int
    on_purpose_described: str | None
    waiting_partitions: int
    waiting_described: str | None
    ranges: tuple[StaleRangeDocument, ...]
    kept_partitions: int
    kept: tuple[StaleRangeDocument, ...]
    to_present: NextStep | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleDocument:
    """What is stale.

    Attributes:
        is_stale: Whether anything is.
        tables: Inputs before dependents.
        next_steps: What builds it again; a source is loaded range by range.
    """

    is_stale: bool
    tables: tuple[StaleTable, ...]
    next_steps: tuple[Invocation, ...]


def stale_document(
    found: Sequence[Staleness], *, table: str | None, days: DayRange | None, sources: Sequence[str]
) -> StaleDocument:
    """What is stale, and what builds it again.

    Args:
        found: What is stale, table by table.
        table: The table that was asked for; None for all.
        days: The days that were asked for; None for all that is accepted.
        sources: The names of source tables, which are loaded and not planned.
    """
    stale = [staleness for staleness in found if staleness.ranges]
    derived = [staleness for staleness in stale if staleness.table not in sources]
    sources_first = (asked for each in stale if each.table in sources for asked in loads(each.table, each.partitions))
    return StaleDocument(
        is_stale=bool(stale),
        tables=tuple(_stale_table(staleness) for staleness in found),
        next_steps=(*sources_first, *_plans(derived, table, days)),
    )


def _plans(stale: Sequence[Staleness], table: str | None, days: DayRange | None) -> Iterator[Invocation]:
    """The plans that would rebuild what is stale; what was never built is planned by its days."""
    causes = [
        {reason.cause for reason in each.reasons}
        for found in stale
        for each in found.ranges
        if not set(each.partitions) <= {*found.blocked, *found.on_purpose}
    ]
    changed = [some for some in causes if some != {Cause.NEVER_BUILT}]
    # Changed code alone is an error to be confirmed, so building it again has to be asked for.
    only_code = bool(changed) and all(some == {Cause.CODE_CHANGED} for some in changed)
    if causes and (changed or days is not None):
        # A person who names days gets all of them, or asks for a part.
        partial = days is not None and any(found.waiting or found.blocked for found in stale)
        yield plan_stale(table, days, changed_code=only_code, partial=partial)
    if days is None:
        yield from (plan_stale(found.table, gap) for found in stale for gap in _gaps(found))
    for found in stale:
        yield from as_recorded(found.table, found.grain, found.on_purpose)


def _gaps(found: Staleness) -> Iterable[DayRange]:
    """The days from the first to the last partition that was never built; none when there is none."""
    gaps = [p for each in found.ranges for p in each.partitions if each.reasons[0].cause is Cause.NEVER_BUILT]
    return [DayRange.inclusive(gaps[0], gaps[-1])] if gaps else []


def _stale_table(stale: Staleness) -> StaleTable:
    chosen_for = (*stale.on_purpose, *(partition for found in stale.kept for partition in found.partitions))
    return StaleTable(
        table=stale.table,
        grain=stale.grain,
        accepted_partitions=stale.accepted,
        stale_partitions=len(stale.partitions),
        described=describe(stale.grain, stale.partitions),
        blocked_partitions=len(stale.blocked),
        blocked_described=describe(stale.grain, stale.blocked) if stale.blocked else None,
        on_purpose_partitions=len(stale.on_purpose),
        on_purpose_described=describe(stale.grain, stale.on_purpose) if stale.on_purpose else None,
        waiting_partitions=len(stale.waiting),
        waiting_described=_waiting(stale),
        ranges=tuple(_stale_range(stale, found) for found in stale.ranges),
        kept_partitions=sum(len(found.partitions) for found in stale.kept),
        kept=tuple(_stale_range(stale, found) for found in stale.kept),
        to_present=joined(plans(stale.table, stale.grain, chosen_for)) if chosen_for else None,
    )


def _waiting(stale: Staleness) -> str | None:
    if not stale.waiting:
        return None
    return f"{describe(stale.grain, stale.waiting)}: {lacks(stale.waits_for)}"


def _stale_range(stale: Staleness, found: StaleRange) -> StaleRangeDocument:
    return StaleRangeDocument(
        from_=found.partitions[0],
        to=found.partitions[-1],
        partitions=len(found.partitions),
        described=describe(stale.grain, found.partitions),
        reasons=tuple(_stale_reason(stale.table, reason) for reason in found.reasons),
    )


def _stale_reason(table: str, reason: Reason) -> StaleReason:
    return StaleReason(
        cause=reason.cause,
        name=reason.name or None,
        was=reason.was or None,
        now=reason.now or None,
        days=None if reason.days is None else tuple((days.start, days.last) for days in reason.days),
        files=reason.files,
        sentence=in_words(table, reason),
    )


def in_words(table: str, reason: Reason) -> str:
    """Why partitions of a table are stale, in words."""
    match reason.cause:
        case Cause.CODE_CHANGED:
            return (
                f"the code changed and {reason.name} is still its version, an error to be confirmed "
                f"(sha256 {reason.was}, now {reason.now})"
            )
        case Cause.SESSION_CHANGED:
            return f"session settings changed: what this release fixes of Spark (sha256 {reason.was}, now {reason.now})"
        case Cause.VERSION_CHANGED:
            return f"computed by {reason.was}; now it is {reason.now}"
        case Cause.CONFIGURATION_CHANGED:
            return f"configured otherwise: {reason.was}; now {reason.now}"
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
        case Cause.INPUT_CHANGED if reason.name == table:
            return f"has yet to be built {_from_files(reason.files)}"
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

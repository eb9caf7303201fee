"""What does somebody read who asks what is stale?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from backfill_assets.next_steps import NAME, WHY, Act, Invocation, do
from backfill_assets.planning.filling import load_commands
from backfill_assets.planning.partitions import DayRange, Grain, count_of, describe
from backfill_assets.staleness.decide import Cause, Reason, Staleness, StaleRange

_MOST_FILES = 3


def stale_document(
    found: Sequence[Staleness], *, table: str | None, days: DayRange | None, sources: Sequence[str]
) -> Mapping[str, Any]:
    """What is stale as plain values; the fields are documented in docs/cli.md.

    Args:
        found: What is stale, table by table.
        table: The table that was asked for; None for all.
        days: The days that were asked for; None for all that is accepted.
        sources: The names of source tables, which are loaded and not planned.
    """
    stale = [staleness for staleness in found if staleness.ranges]
    derived = [staleness for staleness in stale if staleness.table not in sources]
    return {
        "is_stale": bool(stale),
        "tables": [_table_document(staleness) for staleness in found],
        "next_steps": [
            *(
                step
                for found in stale
                if found.table in sources
                for step in load_commands(found.table, found.partitions)
            ),
            *_plan_commands(derived, table, days),
        ],
    }


def _plan_commands(stale: Sequence[Staleness], table: str | None, days: DayRange | None) -> Iterator[Invocation]:
    """The plans that would rebuild what is stale; what was never built is planned by its days."""
    causes = [
        {reason.cause for reason in each.reasons}
        for found in stale
        for each in found.ranges
        if not set(each.partitions) <= set(found.blocked)
    ]
    changed = [some for some in causes if some != {Cause.NEVER_BUILT}]
    # Changed code alone is an error to be confirmed, so building it again has to be asked for.
    only_code = bool(changed) and all(some == {Cause.CODE_CHANGED} for some in changed)
    if causes and (changed or days is not None):
        yield _plan_command(table, days, only_code)
    if days is None:
        for found in stale:
            gaps = [p for each in found.ranges for p in each.partitions if each.reasons[0].cause is Cause.NEVER_BUILT]
            if gaps:
                yield _plan_command(found.table, DayRange.inclusive(gaps[0], gaps[-1]))


def _plan_command(table: str | None, days: DayRange | None, changed_code: bool = False) -> Invocation:
    named = [table] if table else []
    first, last = (days.start, days.last) if days else (None, None)
    return do(Act.PLAN, *named, stale=True, first=first, last=last, changed_code=changed_code, reason=WHY, by=NAME)


def _table_document(stale: Staleness) -> Mapping[str, Any]:
    return {
        "table": stale.table,
        "grain": str(stale.grain),
        "accepted_partitions": stale.accepted,
        "stale_partitions": len(stale.partitions),
        "described": describe(stale.grain, stale.partitions),
        "blocked_partitions": len(stale.blocked),
        "blocked_described": describe(stale.grain, stale.blocked) if stale.blocked else None,
        "ranges": [_range_document(stale, found) for found in stale.ranges],
    }


def _range_document(stale: Staleness, found: StaleRange) -> Mapping[str, Any]:
    return {
        "from": found.partitions[0].isoformat(),
        "to": found.partitions[-1].isoformat(),
        "partitions": len(found.partitions),
        "described": describe(stale.grain, found.partitions),
        "reasons": [_reason_document(stale.table, reason) for reason in found.reasons],
    }


def _reason_document(table: str, reason: Reason) -> Mapping[str, Any]:
    return {
        "cause": str(reason.cause),
        "name": reason.name or None,
        "was": reason.was or None,
        "now": reason.now or None,
        "days": None if reason.days is None else [[d.start.isoformat(), d.last.isoformat()] for d in reason.days],
        "files": list(reason.files),
        "sentence": in_words(table, reason),
    }


def in_words(table: str, reason: Reason) -> str:
    """One reason of a table's partitions as a person says it."""
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
            which = "it could be any day" if reason.days is None else f"facts of {_said(reason.days)}"
            return f"{reason.name} was {reason.was}, now {reason.now}: {which}"
        case Cause.INPUT_CHANGED if reason.name == table:
            return f"has yet to be built {_from_files(reason.files)}"
        case Cause.INPUT_CHANGED:
            return f"{reason.name} changed: {_said(reason.days or ())}"
        case Cause.NEVER_BUILT:
            return "never built, and everything it needs is there"


def _from_files(files: Sequence[str]) -> str:
    if not files:
        return "as an empty day: files have landed for days before and after it"
    more = len(files) - _MOST_FILES
    rest = f" and {count_of(more, 'more file')}" if more > 0 else ""
    return f"from {', '.join(files[:_MOST_FILES])}{rest}"


def _said(ranges: Sequence[DayRange]) -> str:
    return describe(Grain.DAILY, (day for days in ranges for day in days))

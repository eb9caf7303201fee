"""Document of what is stale, and what builds it again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from backfill_assets.core.next_steps import Invocation
from backfill_assets.planning.next_steps import loads, plan_stale
from backfill_assets.planning.partitions import DayRange, Days
from backfill_assets.planning.reasons import Cause
from backfill_assets.report.gates_since import NotMeasured
from backfill_assets.report.not_known import NotKnownDocument
from backfill_assets.report.read_before import ReadBefore
from backfill_assets.restatements.left_out import as_recorded
from backfill_assets.staleness.decide import Staleness


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleDocument:
    """The stale partitions."""

    is_stale: bool  #: Whether anything is.
    tables: tuple[Staleness, ...]  #: Inputs before dependents.
    #: The keys of sources that are not known: what readers see of them may be older than what their source has, and
    #: nothing is stale for that.
    not_known: tuple[NotKnownDocument, ...] = ()
    #: Landed files that were read by an earlier declaration; nothing is stale for that until they are read anew.
    read_before: tuple[ReadBefore, ...] = ()
    #: Accepted rows that were not measured with gates that were added or changed since; nothing is stale for that
    #: either.
    not_measured: tuple[NotMeasured, ...] = ()
    #: What builds it again; a source is loaded range by range. At last, what measures rows.
    next_steps: tuple[Invocation, ...]


def stale_document(
    found: Sequence[Staleness],
    *,
    table: str | None,
    days: Days | None,
    sources: Sequence[str],
    kept: Collection[str] = (),
    unknown: Sequence[NotKnownDocument] = (),
    read_before: Sequence[ReadBefore] = (),
    not_measured: Sequence[NotMeasured] = (),
) -> StaleDocument:
    """The stale partitions, and what builds them again.

    Args:
        table: The table that was asked for; None for all.
        sources: The names of source tables, which are loaded and not planned.
        kept: The names of tables of which a plan of what is stale replaces no accepted partition.
        unknown: The keys that are not known.
        read_before: Files that were read by an earlier declaration.
        not_measured: Accepted rows that were not measured with every present gate.
    """
    stale = [staleness for staleness in found if staleness.ranges]
    derived = [staleness for staleness in stale if staleness.table not in sources]
    # What reads files anew builds their days.
    anew = {each.source for each in read_before}
    loaded = (each for each in stale if each.table in sources and each.table not in anew)
    sources_first = (asked for each in loaded for asked in loads(each.table, each.partitions))
    return StaleDocument(
        is_stale=bool(stale),
        tables=tuple(found),
        not_known=tuple(unknown),
        read_before=tuple(read_before),
        not_measured=tuple(not_measured),
        next_steps=(
            *(each.again for each in read_before),
            *sources_first,
            *_plans(derived, table, days, kept),
            *(each.check for each in not_measured),
        ),
    )


def _plans(
    stale: Sequence[Staleness], table: str | None, days: Days | None, kept: Collection[str]
) -> Iterator[Invocation]:
    """The plans that would rebuild what is stale; what was never built is planned by its days."""
    found_causes = [
        (found.table, {reason.cause for reason in each.reasons} - {Cause.DIFFERENCE_ACCEPTED})
        for found in stale
        for each in found.ranges
        if not set(each.partitions) <= {*found.blocked, *found.on_purpose}
    ]
    causes = [some for name, some in found_causes if name not in kept or some == {Cause.NEVER_BUILT}]
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

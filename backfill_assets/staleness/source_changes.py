"""Changed days of sources: what accepted output was computed from and is no longer accepted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date

from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.proposals import SourceDay
from backfill_assets.staleness.find import changed_otherwise, stale_within
from backfill_assets.staleness.ranges import Cause, Staleness
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceChanges:
    """What of sources is no longer what accepted output was computed from.

    Attributes:
        dependents: By changed day, the tables that read it directly and have accepted partitions that did.
        blocked: Partitions that cannot be built again, because an input has no accepted version any more, by table.
        otherwise: Partitions that would change for other reasons than their inputs too, such as references, by table.
        not_loaded: Days of sources that are not built from what has landed.
    """

    dependents: Mapping[SourceDay, frozenset[str]] = field(default_factory=dict)
    blocked: Mapping[str, frozenset[date]] = field(default_factory=dict)
    otherwise: Mapping[str, frozenset[date]] = field(default_factory=dict)
    not_loaded: Mapping[str, tuple[date, ...]] = field(default_factory=dict)


def source_changes(ws: Workspace, tx: ReadTransaction) -> SourceChanges:
    """The changed days of sources, by what `stale` finds."""
    sources = {source.name for source in ws.domain.sources}
    found = stale_within(ws, tx)
    dependents: dict[SourceDay, set[str]] = {}
    for table, source_day in _changed(found, sources):
        dependents.setdefault(source_day, set()).add(table)
    return SourceChanges(
        dependents={day: frozenset(tables) for day, tables in dependents.items()},
        blocked={each.table: frozenset(each.blocked) for each in found if each.blocked},
        otherwise={each.table: changed_otherwise(each) for each in found if each.table not in sources},
        not_loaded={each.table: each.partitions for each in found if each.table in sources and each.partitions},
    )


def _changed(found: Iterable[Staleness], sources: set[str]) -> Iterator[tuple[str, SourceDay]]:
    for each in found:
        if each.table in sources:
            continue
        reasons = (reason for stretch in each.ranges for reason in stretch.reasons)
        for reason in reasons:
            if reason.cause is Cause.INPUT_CHANGED and reason.name in sources:
                yield from ((each.table, (reason.name, day)) for days in reason.days or () for day in days)

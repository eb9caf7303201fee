"""Alternatives to a plan, with what each is expected to cost: what a person may decide instead of the backfill."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from typing import TYPE_CHECKING

from backfill_assets.calendar.partitions import DayRange, Partitions, TablePartitions, compress, days_in, days_of
from backfill_assets.core.errors import InvalidReference, MissingInput
from backfill_assets.core.next_steps import KEY, NAME, WHY, Command, Invocation, NextStep, do, step
from backfill_assets.core.tariff import Cost
from backfill_assets.domain import DerivedTable, Tolerance
from backfill_assets.ledger.records import RunRecord
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import NEVER_PUBLISHED, Cause, only_of_code
from backfill_assets.planning.next_steps import plan_stale
from backfill_assets.report.releases import UnrelatedChange
from backfill_assets.requests.authority import tolerance_met
from backfill_assets.workspace import Workspace

if TYPE_CHECKING:
    from backfill_assets.planning.request import Plan


class AlternativeKind(StrEnum):
    """The kind of an alternative."""

    NOTHING = "NOTHING"
    ONLY_STALE = "ONLY_STALE"
    FORWARD = "FORWARD"
    BY_KEY = "BY_KEY"
    TOGETHER = "TOGETHER"
    LEAVE = "LEAVE"
    PERHAPS_LEAVE = "PERHAPS_LEAVE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """Something that could be done instead of what is planned."""

    #: NOTHING: none of the partitions is stale, so that every row is expected to be equal; ONLY_STALE: the part of them
    #: that is stale or was never published; FORWARD: they stay as an earlier release has computed them, and the newer
    #: one computes the days after the last published one in any case; TOGETHER: all of them in one set with what
    #: depends on them, so that its figures are seen before anybody approves; LEAVE: what the run has found changes no
    #: more than the table tolerates, and its owner may leave the rows as they are; PERHAPS_LEAVE: that may turn out
    #: when the run has passed its gates.
    instead: AlternativeKind
    partitions: Partitions  #: What is computed of those that are planned.
    stays: Partitions  #: What is left as it is.
    cost: Cost | None = None  #: What it is expected to cost; null where no earlier run of the table tells.
    next_step: NextStep | None = None  #: What does it; null where nothing has to be done.
    dependents: tuple[TablePartitions, ...] = ()  #: With TOGETHER: what depends on them and has accepted rows.
    #: With LEAVE and PERHAPS_LEAVE: what is tolerated, and whose word it takes; null otherwise.
    tolerated: Tolerance | None = None


def instead_of_gated(ws: Workspace, tx: ReadTransaction, run: RunRecord) -> tuple[Alternative, ...]:
    """The alternatives to publishing a gated run."""
    found = tolerance_met(ws, tx, run)
    if found is None:
        return ()
    grain = run.manifest.grain
    named = run.request_id
    return (
        Alternative(
            instead=AlternativeKind.LEAVE,
            partitions=Partitions(grain, ()),
            stays=Partitions(grain, run.manifest.partitions),
            cost=ws.settings.tariff.spent(0),
            next_step=step(do(Command.CANCEL, named, leave=True, reason=WHY, by=NAME)),
            tolerated=found,
        ),
    )


def alternatives(
    ws: Workspace, tx: ReadTransaction, plan: Plan, brings: Iterable[UnrelatedChange]
) -> tuple[Alternative, ...]:
    """The alternatives to a run by the present release with the present references; empty for other runs."""
    return tuple(_alternatives(ws, tx, plan, brings)) if _is_present(ws, plan.manifest) else ()


def _is_present(ws: Workspace, manifest: Manifest) -> bool:
    """True if staleness says something about a run: it is computed as everything is computed now."""
    table = ws.domain.tables.get(manifest.table)
    if not isinstance(table, DerivedTable) or manifest.mode in NEVER_PUBLISHED:
        return False
    if manifest.change.scope is not None or not manifest.computed:
        return False
    try:
        present = {name: ws.references[name].pinned.sha256 for name in table.references}
    except (MissingInput, InvalidReference):
        return False
    pinned = {each.name: each.sha256 for each in manifest.references}
    return manifest.transform_version == table.version and pinned == present


def _alternatives(
    ws: Workspace, tx: ReadTransaction, plan: Plan, brings: Iterable[UnrelatedChange]
) -> Iterator[Alternative]:
    # Only of plans, and most of what is shown needs no rule of staleness.
    from backfill_assets.staleness.find import stale_partitions

    manifest, grain, declared = plan.manifest, plan.grain, ws.domain.derived_table(plan.manifest.table)
    accepted = tx.versions.claims(manifest.table, manifest.partitions).keys()
    found = stale_partitions(ws, tx, declared, manifest.partitions)
    stale = {*found.partitions, *found.blocked}
    chosen = {day for day in manifest.partitions if day in stale or day not in accepted}
    needed = tuple(sorted(manifest.change.completed(chosen, lambda: frozenset(manifest.partitions))))
    fresh = Partitions.of(grain, set(manifest.partitions).difference(needed))
    nothing, whole = Partitions(grain, ()), Partitions(grain, manifest.partitions)
    free = ws.settings.tariff.spent(0)
    is_accepted = len(accepted) == len(manifest.partitions)
    if not needed:
        yield Alternative(instead=AlternativeKind.NOTHING, partitions=nothing, stays=whole, cost=free)
    elif len(fresh):
        days = DayRange(needed[0], days_of(grain, needed[-1]).end)
        of_code = any(only_of_code(reasons) for reasons in found.reasons.values())
        yield Alternative(
            instead=AlternativeKind.ONLY_STALE,
            partitions=Partitions(grain, needed),
            stays=fresh,
            cost=_part(ws, plan, needed),
            next_step=step(plan_stale(manifest.table, days, changed_code=of_code)),
        )
    if needed and declared.tolerance is not None and is_accepted:
        yield Alternative(
            instead=AlternativeKind.PERHAPS_LEAVE,
            partitions=whole,
            stays=whole,
            cost=_part(ws, plan, manifest.partitions),
            tolerated=declared.tolerance,
        )
    is_newer = any(each.what == "release" for each in brings)
    # Rows that stay would lack a changed input, or be mixed by a pilot.
    leaves_wrong_rows = any(each.cause in (Cause.INPUT_CHANGED, Cause.PILOTED) for each in manifest.changed)
    if is_newer and is_accepted and not leaves_wrong_rows:
        yield Alternative(instead=AlternativeKind.FORWARD, partitions=nothing, stays=whole, cost=free)
    # What tells the rows of a partition apart.
    by = next((column for column in declared.key if column != declared.partition.column), None)
    if needed and not is_newer and declared.has_pilots and is_accepted and by:
        where = f"{by}={KEY}"
        over = days_in(compress(manifest.grain, manifest.partitions))
        asked = do(Command.PLAN_TABLE, manifest.table, where=where, days=over, reason=WHY, by=NAME)
        yield Alternative(
            instead=AlternativeKind.BY_KEY,
            partitions=whole,
            stays=nothing,
            cost=_part(ws, plan, manifest.partitions),
            next_step=step(asked),
        )
    if dependents := published(ws, tx, plan.dependents):
        yield Alternative(
            instead=AlternativeKind.TOGETHER,
            partitions=whole,
            stays=nothing,
            next_step=step(together(manifest, partial=bool(plan.left_out))),
            dependents=dependents,
        )


def published(ws: Workspace, tx: ReadTransaction, dependents: Iterable[TablePartitions]) -> tuple[TablePartitions, ...]:
    """Accepted partitions of dependents that the set would replace."""
    found: list[TablePartitions] = []
    for each in dependents:
        node, claims = ws.graph.table(each.table), tx.versions.claims(each.table, each.partitions).keys()
        if not node.is_beside and (changeable := claims - node.change.fixed(claims)):
            found.append(replace(each, partitions=tuple(sorted(changeable))))
    return tuple(found)


def days_covered(manifest: Manifest) -> DayRange:
    """From the first day of what a run builds to the last one."""
    return DayRange(manifest.partitions[0], days_of(manifest.grain, manifest.partitions[-1]).end)


def together(manifest: Manifest, *, partial: bool = False) -> Invocation:
    """The plan of what a run builds as one set with everything that depends on it."""
    days = days_covered(manifest)
    return do(
        Command.PLAN_WITH_DEPENDENTS,
        manifest.table,
        partial=partial,
        first=days.start,
        last=days.last,
        reason=manifest.reason,
        by=NAME,
    )


def _part(ws: Workspace, plan: Plan, partitions: Iterable[date]) -> Cost | None:
    """The expected cost of a part of a run, by its share of the expected rows."""
    expected = plan.estimate
    if expected.core_seconds is None or not expected.total_rows:
        return None
    chosen = set(partitions)
    rows = sum(count for day, count in expected.rows.items() if day in chosen)
    return ws.settings.tariff.spent(expected.core_seconds * rows / expected.total_rows)

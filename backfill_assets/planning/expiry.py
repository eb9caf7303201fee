"""Expiry: the plan of a run that lets snapshots of a table expire, and whether these are still the ones that may. Pure.

Such a run computes nothing. Its manifest names the snapshots that expire as its partitions, and pins every accepted
snapshot of the table: what stays, and what goes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime

from backfill_assets.calendar.partitions import DayRange, Partitions, count_of, days_of
from backfill_assets.core.errors import Refused
from backfill_assets.planning.estimates import Basis, Estimate
from backfill_assets.planning.graph import TableNode
from backfill_assets.planning.kinds.expire import Expire, RetentionRule
from backfill_assets.planning.manifest import MERGED_WITH, Manifest
from backfill_assets.planning.manifest_parts import Kind, PinnedInput
from backfill_assets.planning.request import Plan, PlanRequest, Terms, manifest_of, pins_of, superseded
from backfill_assets.planning.state import AcceptedPartition, StateReader


def plan_expiry(
    node: TableNode, expire: Expire, terms: Terms, *, reason: str, by: str, state: StateReader, as_of: datetime
) -> Plan:
    """The plan of the run in which those snapshots expire that the table does not keep.

    Args:
        expire: The change, with the snapshots that the table keeps.
        terms: The terms of the table's declaration, with the gates of an expiry, and without what only rows have.

    Raises:
        Refused: The table has no snapshot that expires.
    """
    keep, claims = expire.keep, state.claims(node.name)
    partitions = keep.expired(node.grain, claims)
    if not partitions:
        raise Refused.coded(
            "nothing_expires",
            "no snapshot of {table} expires: it keeps those of {days} before the newest one and the last one of each "
            "{then_kept}, and has no others.",
            then="nothing has to be done",
            table=node.name,
            days=count_of(keep.days, "day"),
            then_kept=keep.then,
        )
    days = DayRange(partitions[0], days_of(node.grain, partitions[-1]).end)
    request = PlanRequest(table=node.name, days=days, partitions=partitions, reason=reason, by=by)
    gone = [claims[partition] for partition in partitions]
    manifest = replace(
        manifest_of(request, replace(node, change=expire), terms, partitions, Kind.EXPIRY, as_of),
        limits=replace(terms.limits, chunk_partitions=max(len(partitions), terms.limits.chunk_partitions)),
        supersedes=superseded(gone),
        base=PinnedInput(argument=MERGED_WITH, table=node.name, partitions=pins_of(claims, claims)),
        chunks=(len(partitions),),
    )
    return Plan(
        manifest=manifest,
        inputs=(),
        replaced_partitions=len(gone),
        replaced_rows=sum(claim.rows for claim in gone),
        dependents=(),
        conflicts=tuple(state.open_runs(node.name, partitions)),
        estimate=Estimate(rows=dict.fromkeys(partitions, 0), size_bytes=0, seconds=None, based_on=Basis.ACCEPTED_ROWS),
    )


def stays(manifest: Manifest) -> Partitions:
    """The accepted snapshots that an expiry leaves as they are."""
    pins = manifest.base.partitions if manifest.base else ()
    gone = frozenset(manifest.partitions)
    return Partitions.of(manifest.grain, (pin.partition for pin in pins if pin.partition not in gone))


def no_longer_expires(
    manifest: Manifest, keep: RetentionRule | None, claims: Mapping[date, AcceptedPartition]
) -> tuple[date, ...]:
    """The snapshots about which an expiry is not what it would be now, in order; none where it is exactly that.

    Args:
        keep: Which snapshots the table keeps now.
        claims: Every accepted version of the table now.
    """
    pins = manifest.base.partitions if manifest.base else ()
    planned = {pin.partition: pin.version for pin in pins if pin.partition in set(manifest.partitions)}
    present = keep.expired(manifest.grain, claims) if keep else ()
    now = {partition: claims[partition].version for partition in present}
    return tuple(sorted(p for p in {*planned, *now} if planned.get(p) != now.get(p)))

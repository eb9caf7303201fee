"""Warning in plans and reports if a run goes back to an earlier release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from backfill_assets.ledger.records import CandidatePartition
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.partitions import describe
from backfill_assets.planning.releases import later_releases, release_order


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterRelease:
    """A later release whose accepted rows a run would replace.

    Attributes:
        accepted_version: The release that made the accepted rows.
        transform_version: The release of the run.
        partitions: In how many partitions.
        described: The same partitions in words.
        sentence: All of it in words.
    """

    accepted_version: str
    transform_version: str
    partitions: int
    described: str
    sentence: str


def goes_back(tx: ReadTransaction, manifest: Manifest) -> tuple[LaterRelease, ...]:
    """The later releases whose accepted rows a run would replace, the latest first."""
    return later_than(manifest, releases_of(tx, tx.versions.makers(manifest.table, manifest.partitions)))


def replaced_releases(
    tx: ReadTransaction, manifest: Manifest, candidates: Mapping[date, CandidatePartition]
) -> Mapping[date, str]:
    """The release of the rows with which each partition was compared; before the gates, of those that readers see."""
    if any(candidate.compared_version is None for candidate in candidates.values()) or not candidates:
        return releases_of(tx, tx.versions.makers(manifest.table, manifest.partitions))
    pairs = [(day, candidate.compared_version or 0) for day, candidate in candidates.items()]
    compared = tx.versions.pinned(manifest.table, [pair for pair in pairs if pair[1]])
    return releases_of(tx, {day: version.run_id for day, version in compared.items()})


def later_than(manifest: Manifest, accepted: Mapping[date, str]) -> tuple[LaterRelease, ...]:
    """The later releases among those of accepted rows, by partition; the latest first."""
    return tuple(
        _later(manifest, other, describe(manifest.grain, partitions), len(partitions))
        for other, partitions in later_releases(manifest.transform_version, accepted).items()
    )


def in_order(accepted: Mapping[date, str]) -> tuple[str, ...]:
    """The releases of accepted rows, the earliest first."""
    return tuple(sorted(set(accepted.values()), key=release_order))


def releases_of(tx: ReadTransaction, makers: Mapping[date, str]) -> Mapping[date, str]:
    """The releases of partitions, from the runs that made them."""
    found = {run.run_id: run.manifest.transform_version for run in tx.runs.named(sorted(set(makers.values())))}
    return {partition: found[run_id] for partition, run_id in makers.items()}


def _later(manifest: Manifest, other: str, described: str, partitions: int) -> LaterRelease:
    own = manifest.transform_version
    return LaterRelease(
        accepted_version=other,
        transform_version=own,
        partitions=partitions,
        described=described,
        sentence=f"this run goes back: the accepted rows of {described} come from version {other}, "
        f"and the run is {own}",
    )

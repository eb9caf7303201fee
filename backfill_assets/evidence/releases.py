"""Warning in plans and reports if a run goes back to an earlier release."""

from __future__ import annotations

from dataclasses import dataclass

from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.partitions import describe
from backfill_assets.planning.releases import later_releases


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
    makers = tx.versions.makers(manifest.table, manifest.partitions)
    releases = {run.run_id: run.manifest.transform_version for run in tx.runs.named(sorted(set(makers.values())))}
    accepted = {partition: releases[run_id] for partition, run_id in makers.items()}
    return tuple(
        _later(manifest, other, describe(manifest.grain, partitions), len(partitions))
        for other, partitions in later_releases(manifest.transform_version, accepted).items()
    )


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

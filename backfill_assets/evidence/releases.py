"""Does a run go back to an earlier release? Whoever reads a plan or a report should not have to find out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.partitions import describe
from backfill_assets.planning.releases import later_releases


def goes_back(tx: ReadTransaction, manifest: Manifest) -> Sequence[Mapping[str, Any]]:
    """The later releases whose accepted rows a run would replace, the latest first."""
    makers = tx.versions.makers(manifest.table, manifest.partitions)
    releases = {run.run_id: run.manifest.transform_version for run in tx.runs.named(sorted(set(makers.values())))}
    accepted = {partition: releases[run_id] for partition, run_id in makers.items()}
    return [
        {
            "accepted_version": other,
            "transform_version": manifest.transform_version,
            "partitions": len(partitions),
            "described": describe(manifest.grain, partitions),
            "sentence": f"this run goes back: the accepted rows of {describe(manifest.grain, partitions)} come from "
            f"version {other}, and the run is {manifest.transform_version}",
        }
        for other, partitions in later_releases(manifest.transform_version, accepted).items()
    ]

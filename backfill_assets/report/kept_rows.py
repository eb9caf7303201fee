"""Rows that a run kept: a pilot keeps those outside its scope, and a merge those of keys that no change names.

They are the rows of an earlier version, which the manifest pins: computed by its run, its release and its inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from backfill_assets.ledger.records import PartitionVersion
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.publish_mode import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRows:
    """The version whose rows another version kept.

    Attributes:
        version: That version.
        run_id: The run that made it.
        release: The release of the transform, of that run.
    """

    version: int
    run_id: str
    release: str


def kept_version(manifest: Manifest, partition: date) -> int | None:
    """The version whose rows a run kept in one of its partitions; None where it kept none."""
    if manifest.base is None or not manifest.publish.reads_accepted:
        return None
    pins = (pin.version for pin in manifest.base.partitions if pin.partition == partition)
    return next((version for version in pins if version), None)


def kept_rows(tx: ReadTransaction, manifest: Manifest, partition: date) -> KeptRows | None:
    """Whose rows a run kept in one of its partitions; None where it kept none."""
    version = kept_version(manifest, partition)
    if version is None:
        return None
    (kept,) = tx.versions.pinned(manifest.table, [(partition, version)]).values()
    return KeptRows(version=version, run_id=kept.run_id, release=tx.runs.get(kept.run_id).manifest.transform_version)


def kept_by_pilots(
    tx: ReadTransaction, table: str, made: Mapping[date, Manifest]
) -> Iterator[tuple[PartitionVersion, Manifest]]:
    """The versions of partitions whose rows are still there because pilots kept them, each with its manifest.

    Args:
        made: The manifests of the runs that made the partitions.
    """
    scopes: dict[date, tuple[Scope, ...]] = {}
    while made:
        kept: dict[date, int] = {}
        for partition, manifest in made.items():
            version = kept_version(manifest, partition)
            if version is None or manifest.publish.scope is None:
                continue
            scopes[partition] = (*scopes.get(partition, ()), manifest.publish.scope)
            if not cover_all(scopes[partition]):
                kept[partition] = version
        found = tx.versions.pinned(table, kept.items()) if kept else {}
        made = manifests_of(tx, {partition: version.run_id for partition, version in found.items()})
        yield from ((version, made[partition]) for partition, version in found.items())


def manifests_of(tx: ReadTransaction, makers: Mapping[date, str]) -> Mapping[date, Manifest]:
    """By partition, the manifest of the run that made it."""
    manifests = {run.run_id: run.manifest for run in tx.runs.named(sorted(set(makers.values())))}
    return {partition: manifests[run_id] for partition, run_id in makers.items()}


def cover_all(scopes: Sequence[Scope]) -> bool:
    """Whether every row is in one of these scopes."""
    named = [set(scope.where) for scope in scopes if not scope.is_rest]
    return any(some <= set(rest.where) for rest in scopes if rest.is_rest for some in named)

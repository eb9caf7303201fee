"""What a run brings along: a newer release, or other references, than those that the rows it replaces came from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date

from backfill_assets.ledger.provenance import DerivedProvenance
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.partitions import describe
from backfill_assets.planning.releases import release_order


@dataclass(frozen=True, slots=True, kw_only=True)
class BroughtAlong:
    """A difference between the rows of a run and those that it replaces, besides what made the run necessary.

    Attributes:
        table: The table.
        what: `release`, or the name of a reference.
        was: The version of the accepted rows.
        now: The version of the run.
        partitions: In how many partitions.
        described: The same partitions in words.
        sentence: All of it in words.
    """

    table: str
    what: str
    was: str
    now: str
    partitions: int
    described: str
    sentence: str


def brought_along(tx: ReadTransaction, manifest: Manifest) -> tuple[BroughtAlong, ...]:
    """The newer release and the other references that a run brings; an earlier release is in `releases.goes_back`."""
    versions = tx.versions.accepted(manifest.table, manifest.partitions)
    recorded = {
        day: version.provenance
        for day, version in versions.items()
        if isinstance(version.provenance, DerivedProvenance)
    }
    return tuple(differences(manifest, recorded))


def differences(manifest: Manifest, recorded: Mapping[date, DerivedProvenance]) -> Iterator[BroughtAlong]:
    """The same, from what the accepted rows were computed with, by partition."""
    own = manifest.transform_version
    found: dict[tuple[str, str, str], list[date]] = {}
    for partition, was in sorted(recorded.items()):
        if release_order(was.transform_version) < release_order(own):
            found.setdefault(("release", was.transform_version, own), []).append(partition)
        for now in manifest.references:
            version, sha256 = was.references.get(now.name, ("none", ""))
            if sha256 != now.sha256:
                found.setdefault((now.name, version, now.version), []).append(partition)
    for (what, version, present), partitions in found.items():
        described = describe(manifest.grain, partitions)
        edited = " with other content" if version == present else ""
        yield BroughtAlong(
            table=manifest.table,
            what=what,
            was=version,
            now=present,
            partitions=len(partitions),
            described=described,
            sentence=f"{manifest.table} also gets {what} {present}{edited} in place of {version}: {described}",
        )

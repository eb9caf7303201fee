"""Releases, references and inputs of a run beside those of the accepted rows: what it brings along, where it goes back,
what its borders keep, and which inputs it has not read.

A pilot keeps the rows outside its scope, and a merge those of keys that no change names: rows of an earlier version,
which the manifest pins.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from operator import itemgetter
from typing import TypeAlias

from backfill_assets.calendar.partitions import Grain, Partitions, TablePartitions, days_of
from backfill_assets.core.errors import Refused
from backfill_assets.core.grouped import grouped
from backfill_assets.core.next_steps import NAME, WHY, Command, Invocation, do
from backfill_assets.ledger.provenance import DerivedProvenance
from backfill_assets.ledger.records import CandidatePartition, PartitionVersion, RunRecord
from backfill_assets.ledger.states import RunState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.graph import Graph
from backfill_assets.planning.impact import dependents_of
from backfill_assets.planning.kinds.change import Scope
from backfill_assets.planning.manifest import Manifest, node_of
from backfill_assets.planning.manifest_parts import NEVER_PUBLISHED, ChangedReference, PinnedReference
from backfill_assets.workspace import Workspace

_UNDECIDED = frozenset(RunState) - {
    RunState.PUBLISHING,
    RunState.PUBLISHED,
    RunState.VERIFIED,
    RunState.SUPERSEDED,
    RunState.CANCELLED,
}
"""The states of a run that may yet be published, be it after it has run again."""


CODE = "code"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnrelatedChange:
    """A difference between the rows of a run and those that it replaces, besides what made the run necessary."""

    table: str  #: The table.
    what: str  #: `release`, the name of a reference, or `code`: the release is the same and its code is not.
    was: str  #: The version of the accepted rows.
    now: str  #: The version of the run; the same where a reference or a release has other content under it.
    partitions: Partitions  #: In which partitions.


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterRelease:
    """A later release whose accepted rows a run would replace."""

    accepted_version: str  #: The release that made the accepted rows.
    transform_version: str  #: The release of the run.
    partitions: Partitions  #: In which partitions.


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedReleaseBoundary:
    """Partitions next to those that a run restates, whose rows stay as another release computed them."""

    table: str  #: The table.
    releases: tuple[str, ...]  #: That release, or several, the earliest first.
    partitions: Partitions  #: Which ones.
    mixed: tuple[TablePartitions, ...]  #: Accepted partitions of dependents that read days on both sides of the border.
    next_step: Invocation  #: How they are restated too.


Releases: TypeAlias = Collection[tuple[date, str]]
"""Partitions, each with a release that computed rows of it; one that a pilot has been in may have several."""


Accepted = Callable[[str, Sequence[date]], Collection[date]]
"""Those of some partitions of a table that have accepted rows."""


def references_read_by_gates(tx: ReadTransaction, run_id: str) -> tuple[PinnedReference, ...]:
    """The references that gates of a run have read besides those that it pins, in the versions that they met."""
    return tuple(dict.fromkeys(each for read in tx.candidates.read_by_gates(run_id) for each in read.references))


def references_for_gates(ws: Workspace, manifest: Manifest) -> tuple[PinnedReference, ...]:
    """The references that gates of a planned run would read besides those that it pins, in their present versions."""
    pinned = {each.name for each in manifest.references}
    named = dict.fromkeys(name for gate in manifest.gates for name in gate.references if name not in pinned)
    return tuple(ws.references[name].pinned for name in named)


def brought_along(tx: ReadTransaction, manifest: Manifest) -> tuple[UnrelatedChange, ...]:
    """The newer release and the other references that a run brings; an earlier release is in `goes_back`."""
    accepted = tx.versions.accepted(manifest.table, manifest.computed)
    made = manifests_of(tx, {partition: version.run_id for partition, version in accepted.items()})
    kept = kept_by_pilots(tx, manifest.table, made)
    recorded = [
        (version.partition, version.provenance)
        for version in (*accepted.values(), *(version for version, _ in kept))
        if isinstance(version.provenance, DerivedProvenance)
    ]
    return tuple(differences(manifest, recorded))


def differences(manifest: Manifest, recorded: Iterable[tuple[date, DerivedProvenance]]) -> Iterator[UnrelatedChange]:
    """The differences that a run brings along, from its partitions and what the accepted rows of each were computed
    with. Pure."""
    own = manifest.transform_version
    found: dict[tuple[str, str, str], list[date]] = {}
    for partition, was in sorted(recorded, key=itemgetter(0)):
        if release_order(was.transform_version) < release_order(own):
            found.setdefault(("release", was.transform_version, own), []).append(partition)
        elif was.transform_version == own and was.code != manifest.code_digest:
            found.setdefault((CODE, own, own), []).append(partition)
        for now in manifest.references:
            version, sha256 = was.references.get(now.name, ("none", ""))
            if sha256 != now.sha256:
                found.setdefault((now.name, version, now.version), []).append(partition)
    for (what, version, present), days in found.items():
        partitions = Partitions.of(manifest.grain, dict.fromkeys(days))
        yield UnrelatedChange(table=manifest.table, what=what, was=version, now=present, partitions=partitions)


def _makers(tx: ReadTransaction, table: str, partitions: Sequence[date] | None = None) -> dict[date, str]:
    """The runs whose rows readers see, by partition."""
    return {partition: claim.run_id for partition, claim in tx.versions.claims(table, partitions).items()}


def goes_back(tx: ReadTransaction, manifest: Manifest) -> tuple[LaterRelease, ...]:
    """The later releases whose accepted rows a run would replace by its own, the latest first."""
    accepted = releases_of(tx, manifest.table, _makers(tx, manifest.table, manifest.computed))
    return later_than(manifest.transform_version, manifest.grain, accepted)


def later_than(own: str, grain: Grain, accepted: Releases) -> tuple[LaterRelease, ...]:
    """The releases of accepted rows that are later than the one of a run, the latest first. Pure."""
    found = grouped((other, day) for day, other in sorted(accepted) if release_order(other) > release_order(own))
    return tuple(
        LaterRelease(accepted_version=other, transform_version=own, partitions=Partitions.of(grain, found[other]))
        for other in sorted(found, key=release_order, reverse=True)
    )


def replaced_manifests(
    tx: ReadTransaction, manifest: Manifest, candidates: Mapping[date, CandidatePartition]
) -> Mapping[date, Manifest]:
    """By partition, the manifest of the rows with which it was compared; before the gates, of those that readers see.
    None where no rows take their place."""
    return manifests_of(tx, _replaced(tx, manifest, candidates))


def replaced_releases(
    tx: ReadTransaction, manifest: Manifest, candidates: Mapping[date, CandidatePartition]
) -> Releases:
    """The releases of these rows, and of those that pilots kept beside them."""
    return releases_of(tx, manifest.table, _replaced(tx, manifest, candidates))


def _replaced(
    tx: ReadTransaction, manifest: Manifest, candidates: Mapping[date, CandidatePartition]
) -> dict[date, str]:
    if any(candidate.compared_version is None for candidate in candidates.values()) or not candidates:
        return _makers(tx, manifest.table, manifest.computed)
    pairs = [(day, candidates[day].compared_version or 0) for day in manifest.computed if day in candidates]
    compared = tx.versions.pinned(manifest.table, [pair for pair in pairs if pair[1]])
    return {day: version.run_id for day, version in compared.items()}


def in_order(accepted: Releases) -> tuple[str, ...]:
    """The releases of accepted rows, the earliest first."""
    return tuple(sorted({release for _, release in accepted}, key=release_order))


def releases_of(tx: ReadTransaction, table: str, makers: Mapping[date, str]) -> Releases:
    """The releases of the rows of partitions: those of the runs that made them, and of the rows that pilots kept."""
    made = manifests_of(tx, makers)
    kept = kept_by_pilots(tx, table, made)
    return {
        *((partition, manifest.transform_version) for partition, manifest in made.items()),
        *((version.partition, manifest.transform_version) for version, manifest in kept),
    }


def inputs_moved_on(graph: Graph, tx: ReadTransaction, run: RunRecord) -> tuple[TablePartitions, ...]:
    """The input partitions that readers see otherwise than a run that can still be published has read them."""
    return tuple(_moved_on(graph, tx, run)) if run.state in _UNDECIDED else ()


def _moved_on(graph: Graph, tx: ReadTransaction, run: RunRecord) -> Iterator[TablePartitions]:
    for pinned in run.manifest.inputs:
        # What another run of the same set stages is compared with that run's candidate when it is published.
        pins = {pin.partition: pin.digest for pin in pinned.partitions if pin.from_run is None}
        now = tx.versions.claims(pinned.table, list(pins))
        moved = tuple(day for day, digest in pins.items() if day not in now or now[day].digest != digest)
        if moved:
            yield TablePartitions(table=pinned.table, grain=graph.table(pinned.table).grain, partitions=moved)


def references_moved_on(ws: Workspace, run: RunRecord) -> tuple[ChangedReference, ...]:
    """The references that have changed since a run was planned that can still be published."""
    if run.state not in _UNDECIDED or not run.manifest.references or run.manifest.mode in NEVER_PUBLISHED:
        return ()
    # It reads much, and most of what is shown has no references or is decided.
    from backfill_assets.staleness.find import changed_references

    try:
        return changed_references(ws, run.manifest)
    except Refused:
        # A reference cannot be read: `status` names that as a problem, and publication is refused for it.
        return ()


def left_behind(
    graph: Graph, tx: ReadTransaction, run: RunRecord, replaced: Releases
) -> tuple[MixedReleaseBoundary, ...]:
    """The stretches that a run which brings another release leaves behind on its borders, in order.

    Args:
        run: The run; nothing is left behind by one that never will be published, or of which readers see nothing now.
    """
    manifest = run.manifest
    brings_another = any(release != manifest.transform_version for _, release in replaced)
    if run.state not in (*_UNDECIDED, RunState.PUBLISHED) or manifest.mode in NEVER_PUBLISHED or not brings_another:
        return ()
    others = _makers(tx, manifest.table)
    for partition in _restated_together(tx, run):
        others.pop(partition, None)
    other_releases = [
        (p, release) for p, release in releases_of(tx, manifest.table, others) if release != manifest.transform_version
    ]
    return beside(graph, manifest, other_releases, lambda table, some: tx.versions.claims(table, some).keys())


def beside(graph: Graph, manifest: Manifest, others: Releases, accepted: Accepted) -> tuple[MixedReleaseBoundary, ...]:
    """The stretches of other releases that border on a run. Pure, but for what is accepted.

    Args:
        others: The releases of accepted rows that are not restated with it, other than its own.
        accepted: What dependents hold.
    """
    node, found = node_of(manifest), []
    own = set(manifest.partitions)
    after = {node.next_partition(partition) for partition in own}
    for partitions in node.in_a_row(sorted({partition for partition, _ in others})):
        if partitions[0] in after or node.next_partition(partitions[-1]) in own:
            mixed = tuple(_on_both_sides(graph, manifest, partitions, accepted))
            within = set(partitions)
            found.append(_stretch(manifest, node.grain, [each for each in others if each[0] in within], mixed))
    return tuple(found)


def _on_both_sides(
    graph: Graph, manifest: Manifest, others: Sequence[date], accepted: Accepted
) -> Iterator[TablePartitions]:
    """The partitions of dependents that are computed from the run and from a stretch together."""
    if manifest.table not in graph.tables:
        return
    own = {each.table: each for each in dependents_of(graph, manifest.table, manifest.partitions)}
    for each in dependents_of(graph, manifest.table, others):
        both = set(each.partitions).intersection(own[each.table].partitions) if each.table in own else set()
        if mixed := accepted(each.table, sorted(both)) if both else ():
            yield TablePartitions(table=each.table, grain=each.grain, partitions=tuple(sorted(mixed)))


def _stretch(
    manifest: Manifest, grain: Grain, others: Releases, mixed: tuple[TablePartitions, ...]
) -> MixedReleaseBoundary:
    partitions = sorted({partition for partition, _ in others})
    return MixedReleaseBoundary(
        table=manifest.table,
        releases=in_order(others),
        partitions=Partitions.of(grain, partitions),
        mixed=mixed,
        next_step=do(
            Command.PLAN_TABLE,
            manifest.table,
            first=partitions[0],
            last=days_of(grain, partitions[-1]).last,
            transform_version=manifest.transform_version,
            reason=WHY,
            by=NAME,
        ).also(*(manifest.change.scope.options if manifest.change.scope else ())),
    )


def _restated_together(tx: ReadTransaction, run: RunRecord) -> frozenset[date]:
    """The partitions of the run, and of the other runs of its restatement on the same table."""
    others = (other.manifest for other in tx.runs.of_request(run.request_id))
    return frozenset().union(*(other.partitions for other in others if other.table == run.table))


def release_order(version: str) -> tuple[tuple[int, int, str], ...]:
    """The place of a release among others.

    Numbers count as numbers, so that 3.10.0 is after 3.9.0, and come after words: 3.0.0 is after 3.0.0-rc1.
    """
    parts = re.findall(r"\d+|[^\d.+_-]+", version)
    ordered = [(1, int(part), "") if part.isdigit() else (-1, 0, part) for part in parts]
    return (*ordered, (0, 0, ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRows:
    """The version whose rows another version kept."""

    version: int  #: That version.
    run_id: str  #: The run that made it.
    release: str  #: The release of the transform, of that run.


def kept_version(manifest: Manifest, partition: date) -> int | None:
    """The version whose rows a run kept in one of its partitions; None where it kept none."""
    if manifest.base is None or not manifest.change.keeps_rows:
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
            if version is None or manifest.change.scope is None:
                continue
            scopes[partition] = (*scopes.get(partition, ()), manifest.change.scope)
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
    """True if every row is in one of these scopes."""
    named = [set(scope.where) for scope in scopes if not scope.is_rest]
    return any(some <= set(rest.where) for rest in scopes if rest.is_rest for some in named)

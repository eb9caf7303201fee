"""Repair: what is planned so that accepted rows whose files are lost come out as they were recorded.

They are computed from the inputs, by the release and with the references of the run that computed them, as far as these
are still there. Where the rows that were there before are a part of them (a merge, or a pilot), they are computed from
the version that they had replaced.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime

from backfill_assets.calendar.partitions import Partitions
from backfill_assets.domain import DerivedTable, SourceTable
from backfill_assets.lake.tables import altered_files
from backfill_assets.ledger.records import PartitionVersion, RunRecord
from backfill_assets.ledger.store import LedgerState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.errors import SeveralVersions
from backfill_assets.planning.manifest import node_of
from backfill_assets.planning.manifest_parts import PinnedPartition, PinnedReference
from backfill_assets.planning.request import PlanRequest, output_of
from backfill_assets.planning.stages import reads_of
from backfill_assets.planning.state import AcceptedPartition
from backfill_assets.workspace import Workspace

_Pins = Mapping[tuple[str, date], int]
"""The version that was read of each partition of an input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """A request for a repair, and what it reads in place of what is accepted now."""

    #: The request, for the lost partitions alone, by the release and of the scope that computed them.
    request: PlanRequest
    #: For a merge or a pilot, what each lost version was made from; None where it had replaced nothing.
    made_from: Mapping[date, AcceptedPartition | None] = field(default_factory=dict)
    #: The versions of inputs that the lost rows were computed from, by table and partition.
    inputs: Mapping[str, Mapping[date, AcceptedPartition]] = field(default_factory=dict)
    #: The references that they were computed with; None for the present ones.
    references: tuple[PinnedReference, ...] | None = None


@dataclass(frozen=True)
class AsRecorded(LedgerState):
    """The ledger as a repair reads it: inputs are what lost rows were computed from."""

    inputs: Mapping[str, Mapping[date, AcceptedPartition]] = field(default_factory=dict)

    def claims(self, table: str, partitions: Sequence[date] | None = None) -> Mapping[date, AcceptedPartition]:
        """The accepted versions, in place of some of which those count that were read."""
        read = self.inputs.get(table, {})
        return {p: read.get(p, claim) for p, claim in self.tx.versions.claims(table, partitions).items()}


def repair_of(ws: Workspace, tx: ReadTransaction, table: DerivedTable, request: PlanRequest, as_of: datetime) -> Repair:
    """Plans a requested repair. Where nothing is lost, the plan is like any other.

    Raises:
        Refused: The lost rows were computed by several releases, of several scopes, with several versions of references
            or of the same inputs. Where keys move, one run computes the whole table, which is a plan like any other.
    """
    is_divisible = table.publish.is_divisible
    asked = output_of(replace(request, table=table.name), ws.graph, as_of)
    lost = lost_versions(ws, table, tx.versions.accepted(table.name, asked if is_divisible else None))
    if not lost:
        return Repair(request=request)
    bases = tx.bases.of_accepted([table.name], partitions=lost.keys(), agreed=True).bases[table.name]
    of_run = {basis.run_id: some for basis in bases if (some := lost.keys() & set(basis.partitions))}
    runs = tx.runs.named(sorted(of_run))
    reads = {run.run_id: _reads(ws, tx, run, of_run[run.run_id] if is_divisible else None) for run in runs}
    if is_divisible:
        _require_alike(table, request, runs, of_run, reads)
    made_from = {p: _made_from(ws, tx, table, version) for p, version in lost.items()}
    if is_divisible:
        request = replace(request, partitions=tuple(sorted(lost)))
    found = Repair(request=request, made_from=made_from)
    if not _is_one({run.manifest.transform_version for run in runs}, {run.manifest.change.scope for run in runs}):
        return found
    manifest = runs[0].manifest
    if request.scope is None and manifest.change.scope is not None and all(made_from.values()):
        found = replace(found, request=replace(request, scope=manifest.change.scope))
    asked_version = request.transform_version
    if asked_version is None and any(each.version == manifest.transform_version for each in table.releases):
        asked_version = manifest.transform_version
        found = replace(found, request=replace(found.request, transform_version=asked_version))
    used = {run.manifest.references for run in runs}
    if request.references.are_present and len(used) == 1:
        found = replace(found, references=used.pop())
    return replace(found, inputs=_read_by(ws, tx, reads.values()))


def lost_versions(
    ws: Workspace, table: DerivedTable | SourceTable, accepted: Mapping[date, PartitionVersion]
) -> Mapping[date, PartitionVersion]:
    """The accepted versions whose files are not as they were staged: gone, of another size, or of other bytes."""
    if not _altered(ws, table.name, accepted.values()):
        return {}
    return {partition: version for partition, version in accepted.items() if _altered(ws, table.name, [version])}


def _require_alike(
    table: DerivedTable,
    request: PlanRequest,
    runs: Sequence[RunRecord],
    of_run: Mapping[str, Collection[date]],
    reads: Mapping[str, _Pins],
) -> None:
    """Refuses lost rows that no one run computes as they were, where the request does not say how to compute them.

    Raises:
        SeveralVersions: They are of several releases, scopes, or versions of references or of one input partition.
    """
    groups: list[tuple[object, dict[tuple[str, date], int], list[RunRecord]]] = []
    for run in runs:
        manifest, read = run.manifest, reads[run.run_id]
        asked = (
            request.transform_version or manifest.transform_version,
            request.scope or manifest.change.scope,
            manifest.references if request.references.are_present else None,
        )
        for how, known, alike in groups:
            if how == asked and all(known.get(pin, version) == version for pin, version in read.items()):
                known.update(read)
                alike.append(run)
                break
        else:
            groups.append((asked, dict(read), [run]))
    if len(groups) > 1:
        raise SeveralVersions(
            table=table.name,
            groups=[
                (
                    Partitions.of(table.partition.grain, sorted(p for run in alike for p in of_run[run.run_id])),
                    {"release": alike[0].manifest.transform_version, "run": " and ".join(run.run_id for run in alike)},
                )
                for _, _, alike in groups
            ],
            is_repair=True,
        )


def _is_one(*of_runs: Collection[object]) -> bool:
    return all(len(each) == 1 for each in of_runs)


def _altered(ws: Workspace, table: str, versions: Collection[PartitionVersion]) -> bool:
    return bool(altered_files(ws.lake, table, (version.files for version in versions)))


def _made_from(
    ws: Workspace, tx: ReadTransaction, table: DerivedTable, lost: PartitionVersion
) -> AcceptedPartition | None:
    """The last version before a lost one that is there as it was staged; None where there is none."""
    before = lost
    while before.replaces:
        before = tx.versions.pinned(table.name, [(lost.partition, before.replaces)])[lost.partition]
        if before.removed_at is None and not _altered(ws, table.name, [before]):
            return _claim(before)
    return None


def _reads(ws: Workspace, tx: ReadTransaction, run: RunRecord, lost: Collection[date] | None) -> _Pins:
    """The versions of inputs that a run has read for some lost partitions; for all of its partitions without any."""
    manifest = run.manifest
    wanted = reads_of(node_of(manifest), ws.graph, sorted(manifest.partitions if lost is None else lost))
    needed = {(each.table, partition) for each in wanted for partition in each.partitions}
    pins = ((each.table, pin) for each in manifest.inputs for pin in each.partitions)
    return {
        (name, pin.partition): _read(tx, name, pin)
        for name, pin in pins
        if lost is None or name == manifest.table or (name, pin.partition) in needed
    }


def _read_by(
    ws: Workspace, tx: ReadTransaction, reads: Iterable[_Pins]
) -> Mapping[str, Mapping[date, AcceptedPartition]]:
    """The versions of inputs that all of some runs have read, where these are there as they were staged."""
    read: dict[str, dict[date, set[int]]] = {}
    for pins in reads:
        for (name, partition), version in pins.items():
            read.setdefault(name, {}).setdefault(partition, set()).add(version)
    found: dict[str, Mapping[date, AcceptedPartition]] = {}
    for table, of_table in read.items():
        now = tx.versions.claims(table, sorted(of_table))
        one = {p: next(iter(versions)) for p, versions in of_table.items() if len(versions) == 1 and p in now}
        pairs = [(p, version) for p, version in one.items() if version not in (0, now[p].version)]
        versions = tx.versions.pinned(table, pairs).items() if pairs else ()
        there = ((p, v) for p, v in versions if v.removed_at is None and not _altered(ws, table, [v]))
        found[table] = {partition: _claim(version) for partition, version in there}
    return found


def _read(tx: ReadTransaction, table: str, pin: PinnedPartition) -> int:
    """The version that was read, or that the candidate became which was read of another run of the set; 0 where there
    is none."""
    if pin.from_run is None:
        return pin.version
    made = (each.version for each in tx.versions.history(table, pin.partition) if each.run_id == pin.from_run)
    return max(made, default=0)


def _claim(version: PartitionVersion) -> AcceptedPartition:
    return AcceptedPartition(
        version=version.version,
        run_id=version.run_id,
        digest=version.files.digest,
        rows=version.rows,
        file_count=len(version.files.files),
        size_bytes=version.files.size_bytes,
    )

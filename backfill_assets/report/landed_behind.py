"""Landed files behind a partition version: those of the source partitions that its run read, at any distance."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import NamedTuple, TypeAlias

from backfill_assets.core.errors import Refused
from backfill_assets.core.grouped import grouped
from backfill_assets.ledger.provenance import SourceProvenance
from backfill_assets.ledger.records import CandidatePartition, PartitionVersion
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import PinnedInput
from backfill_assets.workspace import Workspace


class Read(NamedTuple):
    """A read: a version of a partition, or what a run of the same set has staged of it."""

    table: str
    partition: date
    version: int
    from_run: str | None


Made: TypeAlias = PartitionVersion | CandidatePartition
"""What was read, with the run that made it."""


@dataclass(slots=True)
class LandedBehind:
    """Finds the landed files behind versions; what several versions have read is looked up once."""

    ws: Workspace
    tx: ReadTransaction  #: The transaction in which everything is read.
    _manifests: dict[str, Manifest] = field(default_factory=dict)
    _found: dict[Read, Made] = field(default_factory=dict)

    def imports(self, version: PartitionVersion) -> tuple[str, ...]:
        """The ids of the landed files behind a version, in the order of arrival."""
        seen: set[Read] = set()
        files: set[str] = set()
        waiting: list[tuple[str, Made]] = [(version.table, version)]
        while waiting:
            table, made = waiting.pop()
            if isinstance(made.provenance, SourceProvenance):
                files.update(import_id for import_id, _ in made.provenance.imports)
                continue
            reads = set(self.reads(made.run_id, table, made.partition)) - seen
            seen |= reads
            waiting += [(read.table, found) for read, found in self.made(reads).items()]
        return tuple(sorted(files))

    def reads(self, run_id: str, table: str, partition: date) -> Iterator[Read]:
        """The reads of a run for one of its partitions."""
        for pinned in self._manifest(run_id).inputs:
            inside = self._window(table, pinned, partition)
            for pin in pinned.partitions:
                if inside is None or pin.partition in inside:
                    yield Read(pinned.table, pin.partition, pin.version, pin.from_run)

    def _window(self, table: str, pinned: PinnedInput, partition: date) -> frozenset[date] | None:
        """The input partitions that a partition needs, by the windows as they are declared now; None when unknown."""
        try:
            node = self.ws.graph.table(table)
            (edge,) = (edge for edge in node.inputs if edge.argument == pinned.argument)
        except (Refused, ValueError):
            return None  # The table, or this input of it, is no longer declared: everything that the run has read.
        return frozenset(self.ws.graph.needed(edge, node, (partition,)))

    def _manifest(self, run_id: str) -> Manifest:
        if run_id not in self._manifests:
            self._manifests[run_id] = self.tx.runs.get(run_id).manifest
        return self._manifests[run_id]

    def made(self, reads: Collection[Read]) -> Mapping[Read, Made]:
        """The versions that some reads have read, as far as the ledger still has them."""
        unknown = set(reads) - self._found.keys()
        by_version = grouped(((read.table, read.version), read.partition) for read in unknown if read.from_run is None)
        for (table, version), partitions in by_version.items():
            for partition, found in self.tx.versions.pinned(table, [(p, version) for p in partitions]).items():
                self._found[Read(table, partition, version, None)] = found
        for run_id in {read.from_run for read in unknown if read.from_run}:
            staged = self.tx.candidates.of_run(run_id)
            for read in unknown:
                if read.from_run == run_id and read.partition in staged:
                    self._found[read] = staged[read.partition]
        return {read: self._found[read] for read in reads if read in self._found}

"""Landed files behind a partition version: those of the source partitions that its run read, at any distance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date

from backfill_assets.core.errors import Refused
from backfill_assets.ledger.provenance import Provenance, SourceProvenance
from backfill_assets.ledger.records import PartitionVersion
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import PinnedInput, PinnedPartition
from backfill_assets.workspace import Workspace

Read = tuple[str, date, int, str | None]
"""What was read: the table, the partition, and its version or the run of the same set that staged it."""


@dataclass(slots=True)
class LandedBehind:
    """Finds the landed files behind versions; what several versions have read is looked up once.

    Attributes:
        tx: The transaction in which everything is read.
    """

    ws: Workspace
    tx: ReadTransaction
    _manifests: dict[str, Manifest] = field(default_factory=dict)
    _found: dict[Read, tuple[str, Provenance]] = field(default_factory=dict)

    def imports(self, version: PartitionVersion) -> tuple[str, ...]:
        """The ids of the landed files behind a version, in the order of arrival."""
        seen: set[Read] = set()
        files: set[str] = set()
        waiting = [(version.table, version.partition, version.run_id, version.provenance)]
        while waiting:
            table, partition, run_id, provenance = waiting.pop()
            if isinstance(provenance, SourceProvenance):
                files.update(import_id for import_id, _ in provenance.imports)
                continue
            reads = set(self.reads(run_id, table, partition)) - seen
            seen |= reads
            self._look_up(reads)
            waiting += [(read[0], read[1], *self._found[read]) for read in reads if read in self._found]
        return tuple(sorted(files))

    def reads(self, run_id: str, table: str, partition: date) -> Iterator[Read]:
        """What a run has read for one of its partitions."""
        for pinned in self._manifest(run_id).inputs:
            inside = self._window(table, pinned, partition)
            for pin in pinned.partitions:
                if inside is None or pin.partition in inside:
                    yield _key(pinned.table, pin)

    def _window(self, table: str, pinned: PinnedInput, partition: date) -> frozenset[date] | None:
        """The input partitions that a partition needs, by the windows as they are declared now; None when unknown."""
        try:
            node = self.ws.graph.table(table)
            (edge,) = (edge for edge in node.inputs if edge.argument == pinned.argument)
        except (Refused, ValueError):
            return None  # The table, or this input of it, is not declared any more: everything that the run has read.
        return frozenset(self.ws.graph.needed(edge, node, (partition,)))

    def _manifest(self, run_id: str) -> Manifest:
        if run_id not in self._manifests:
            self._manifests[run_id] = self.tx.runs.get(run_id).manifest
        return self._manifests[run_id]

    def _look_up(self, reads: set[Read]) -> None:
        unknown = reads - self._found.keys()
        by_version: dict[tuple[str, int], list[date]] = {}
        for table, partition, version, from_run in unknown:
            if from_run is None:
                by_version.setdefault((table, version), []).append(partition)
        for (table, version), partitions in by_version.items():
            for partition, found in self.tx.versions.pinned(table, [(p, version) for p in partitions]).items():
                self._found[table, partition, version, None] = (found.run_id, found.provenance)
        for run_id in {from_run for *_, from_run in unknown if from_run}:
            staged = self.tx.candidates.of_run(run_id)
            for read in unknown:
                if read[3] == run_id and read[1] in staged:
                    self._found[read] = (run_id, staged[read[1]].provenance)


def _key(table: str, pin: PinnedPartition) -> Read:
    return (table, pin.partition, pin.version, pin.from_run)

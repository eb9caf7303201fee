"""Is the declared window long enough? The partitions at the ends of a run are computed again, with a longer one.

The rows come from the same path as staging, from files that were pinned when the run was planned, and are compared
with the staged ones by content checksum. Only where those differ are rows looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill_assets.domain import DerivedTable, Table
from backfill_assets.gates.measure import Measured, measure
from backfill_assets.gates.sample import SampledRow, sample_rows
from backfill_assets.identity import FileSet
from backfill_assets.lake.checksums import NO_ROWS
from backfill_assets.lake.snapshot import read_files
from backfill_assets.planning.graph import Window
from backfill_assets.planning.manifest import Manifest, PinnedInput
from backfill_assets.planning.partitions import describe
from backfill_assets.planning.proof import LongerRead, ProvenEnd, declared_window, ends_of, longer_reads, read_window
from backfill_assets.planning.request import node_of
from backfill_assets.transforms.compute import derived_rows, require_same_code
from backfill_assets.transforms.inputs import pinned_files, slices_of
from backfill_assets.transforms.schemas import business_schema
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Proven:
    """What computing the partitions at one end of a run with a longer window came to.

    Attributes:
        partitions: Those that were computed again.
        described: The same as a person reads them.
        declared: The longest window of the run itself.
        longer: The window of the proof: never shorter, and no longer than there were accepted input partitions.
        again: What was measured, with the rows computed again as the new side and the staged ones as the old.
        differing: The partitions whose content is another one.
        examples: Some of the rows that differ in the first such partition: `before` as staged, `after` with the
            longer window.
    """

    partitions: tuple[date, ...]
    described: str
    declared: Window
    longer: Window
    again: Mapping[date, Measured] = field(default_factory=dict)
    differing: tuple[date, ...] = ()
    examples: tuple[SampledRow, ...] = ()

    @property
    def is_longer(self) -> bool:
        """Whether there was anything to compare with."""
        return self.longer != self.declared


def prove(
    ws: Workspace, manifest: Manifest, table: Table, staged: Mapping[date, FileSet], measured: Mapping[date, Measured]
) -> tuple[Proven, ...] | None:
    """Computes what the manifest's proof asks for again, and compares it with what was staged.

    Args:
        ws: The workspace.
        manifest: The run's contract.
        table: Its table.
        staged: The staged files by partition.
        measured: What was measured in them, for their checksums.

    Returns:
        What was found at each end of the run; None for a manifest without a proof.

    Raises:
        ContractBroken: The code is no longer the one that computed the staged rows.
        MissingInput: A pinned input partition or reference is gone.
    """
    proof = manifest.proof
    if proof is None or not isinstance(table, DerivedTable):
        return None
    node = node_of(manifest)
    reads = {end: longer_reads(manifest, proof, end, node, ws.graph) for end in ends_of(proof)}
    ends = {
        end: Proven(
            partitions=end.partitions,
            described=describe(manifest.grain, end.partitions),
            declared=declared_window(node),
            longer=read_window(node, end, reads[end]),
        )
        for end in reads
    }
    asked = [end for end in ends if ends[end].is_longer]
    if not asked:
        return tuple(ends.values())
    require_same_code(ws, manifest)
    rows = _computed_again(ws, manifest, table, {end: reads[end] for end in asked})
    files = (staged[partition] for end in asked for partition in end.partitions)
    schema, column = business_schema(table), table.partition.column
    old = read_files(ws.spark(), ws.lake, table.name, files, schema=schema, partition_column=column)
    again = measure(rows, old, table, schema=schema)
    differing = [p for end in asked for p in end.partitions if _checksum(again, p) != _checksum(measured, p)]
    of_first = F.col(column) == F.lit(differing[0]) if differing else F.lit(False)
    examples = sample_rows(rows.where(of_first), old.where(of_first), table) if differing else ()
    for end in asked:
        ends[end] = replace(
            ends[end],
            again={p: found for p, found in again.items() if p in end.partitions},
            differing=tuple(p for p in differing if p in end.partitions),
            examples=tuple(row for row in examples if row.partition in end.partitions),
        )
    return tuple(ends.values())


def _computed_again(
    ws: Workspace, manifest: Manifest, table: DerivedTable, reads: Mapping[ProvenEnd, Sequence[LongerRead]]
) -> DataFrame:
    """The rows of all ends in one frame, so that they are measured in one pass; each end is a call of its own."""
    frames: list[DataFrame] = []
    for end, read in reads.items():
        with ws.ledger.read() as reader:
            files = pinned_files(reader, manifest.run_id, _pins(manifest, read))
        frames.append(derived_rows(ws, manifest, table, end.partitions, slices_of(read, files)))
    return reduce(DataFrame.unionAll, frames)


def _checksum(measured: Mapping[date, Measured], partition: date) -> str:
    return measured[partition].checksum if partition in measured else NO_ROWS


def _pins(manifest: Manifest, reads: Sequence[LongerRead]) -> Iterable[PinnedInput]:
    """The pins of exactly what the proof reads: a run of years pins far more."""
    wanted = {read.argument: set(read.partitions) for read in reads}
    further = manifest.proof.inputs if manifest.proof else ()
    for pinned in (*manifest.inputs, *further):
        chosen = tuple(pin for pin in pinned.partitions if pin.partition in wanted[pinned.argument])
        yield PinnedInput(argument=pinned.argument, table=pinned.table, partitions=chosen)

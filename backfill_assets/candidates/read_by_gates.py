"""Reads of gates: the accepted rows of other tables, and references, that gates are given besides what their run pins.

They are pinned when the gates are measured, and recorded with the results. A publication asks again for a measurement
where one of them is not what readers see any more.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from pyspark.sql import DataFrame

from backfill_assets.candidates.inputs import pinned_files
from backfill_assets.candidates.rows import rows_of
from backfill_assets.domain import Failing, Table
from backfill_assets.domain.failing_rows import AROUND
from backfill_assets.gates.agreed import tables_read
from backfill_assets.ledger.findings import GateReads
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.graph import TableInput
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import GateInput, PinnedInput, PinnedPartition, PinnedReference
from backfill_assets.transforms.schemas import current_rows
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """The pinned inputs of a gate, and those that are missing."""

    reads: GateReads  #: What it reads, as it is recorded.
    #: By partition that is measured, a table and its partitions that are not there and have to be.
    lacking: Mapping[date, tuple[str, tuple[date, ...]]] = field(default_factory=dict)


def pinned_by_gate(
    ws: Workspace,
    tx: ReadTransaction,
    table: Table,
    gate: Failing,
    partitions: Sequence[date],
    *,
    run_id: str = "",
    before: Mapping[str, Collection[str]] | None = None,
    references: Sequence[PinnedReference] = (),
) -> Pinned:
    """Pins what a gate reads of other tables, and of its own around the partitions that are measured.

    Args:
        partitions: What is measured.
        run_id: The run; empty for accepted rows.
        before: By table, the runs of the same set that come before this one, whose candidates are read.
        references: The references that the run pins.
    """
    inputs, lacking = [], dict[date, tuple[str, tuple[date, ...]]]()
    for read in tables_read(gate, table):
        edge, node = (
            TableInput(argument=read.argument, table=read.table, window=read.window),
            ws.graph.table(table.name),
        )
        needed = ws.graph.needed(edge, node, partitions)
        if read.argument == AROUND:
            needed = tuple(sorted(set(needed) - set(partitions)))
        pins = _pins(tx, read, needed, (before or {}).get(read.table, ()))
        inputs.append(PinnedInput(argument=read.argument, table=read.table, partitions=pins))
        there = {pin.partition for pin in pins if pin.version or pin.from_run}
        for partition in () if read.is_optional or there >= set(needed) else partitions:
            if missing := tuple(p for p in ws.graph.needed(edge, node, (partition,)) if p not in there):
                lacking.setdefault(partition, (read.table, missing))
    known = {each.name for each in references}
    others = tuple(ws.references[name].pinned for name in gate.references if name not in known)
    reads = GateReads(run_id=run_id, gate=gate.name, inputs=tuple(inputs), references=others)
    return Pinned(reads=reads, lacking=lacking)


def _pins(
    tx: ReadTransaction, read: GateInput, needed: Sequence[date], before: Collection[str]
) -> tuple[PinnedPartition, ...]:
    accepted = tx.versions.claims(read.table, needed)
    pins = {
        partition: PinnedPartition(
            partition=partition,
            version=accepted[partition].version if partition in accepted else 0,
            digest=accepted[partition].digest if partition in accepted else "",
        )
        for partition in needed
    }
    for other in before:
        for partition, digest in tx.candidates.digests(other).items():
            if partition in pins:
                version = pins[partition].version
                pins[partition] = PinnedPartition(partition=partition, version=version, digest=digest, from_run=other)
    return tuple(pins.values())


def runs_before(tx: ReadTransaction, manifest: Manifest) -> Mapping[str, Collection[str]]:
    """By table, the runs of the restatement of a run that are published before it."""
    found: dict[str, list[str]] = {}
    for other in reversed(tx.runs.headers(request=manifest.request_id)):
        if other.run_id == manifest.run_id:
            break
        found.setdefault(other.table, []).append(other.run_id)
    return found


def rows_read(ws: Workspace, reads: GateReads, declared: Sequence[GateInput]) -> Mapping[str, DataFrame]:
    """The rows that a gate is given besides those of its own run, by argument.

    Raises:
        MissingInput: A file does not exist any more.
    """
    there = [
        PinnedInput(
            argument=each.argument,
            table=each.table,
            partitions=tuple(pin for pin in each.partitions if pin.version or pin.from_run),
        )
        for each in reads.inputs
    ]
    with ws.ledger.read() as tx:
        files = pinned_files(tx, reads.run_id, there)
    changes = {each.argument for each in declared if each.changes}
    frames = {}
    for each in there:
        table = ws.domain.table(each.table)
        rows = rows_of(ws, table, files[each.argument].values())
        frames[each.argument] = rows if each.argument in changes else current_rows(rows, table)
    return frames

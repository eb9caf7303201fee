"""Warm-up proof: recomputes some partitions with another window; the rows must be the same.

Seams between chunks are recomputed while the chunks are staged. The rest of the proof is computed here, in the same way
as staging: the calls that the stage lists, from files that were pinned when the run was planned. Content checksums are
compared with those of the staged files. Rows are compared only where the checksums differ.

What a published run has proven by the same code, references and windows is cited instead (`cite`), except for seams
between chunks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill_assets.candidates.cite import Citation, cited_proof
from backfill_assets.candidates.compute import derived_rows, require_same_code
from backfill_assets.candidates.inputs import pinned_files
from backfill_assets.candidates.rows import rows_of
from backfill_assets.domain import DerivedTable, Table
from backfill_assets.gates.measure import Measured, measure
from backfill_assets.gates.proven import Proven
from backfill_assets.gates.sample import sample_rows
from backfill_assets.identity import FileSet
from backfill_assets.lake.checksums import NO_ROWS, is_known, partition_checksums
from backfill_assets.ledger.records import ChunkRecord
from backfill_assets.ledger.sampled import SampledRow
from backfill_assets.planning.graph import windows_of
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import PinnedInput
from backfill_assets.planning.partitions import describe
from backfill_assets.planning.reads import Reads
from backfill_assets.planning.request import node_of
from backfill_assets.planning.stages import Prove, Recomputation
from backfill_assets.transforms.schemas import business_schema
from backfill_assets.workspace import Workspace

_MOST_SHOWN = 3
"""The number of differing seams between chunks whose rows are compared: each costs the computation of a chunk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Proving:
    """A staged run that is being proven: its files by partition, and their measurements."""

    ws: Workspace
    manifest: Manifest
    table: DerivedTable
    staged: Mapping[date, FileSet]
    measured: Mapping[date, Measured]


def prove(
    ws: Workspace,
    manifest: Manifest,
    table: Table,
    stage: Prove,
    staged: Mapping[date, FileSet],
    measured: Mapping[date, Measured],
    chunks: Iterable[ChunkRecord],
) -> tuple[Proven, ...]:
    """Recomputes what the manifest's proof requires and compares it with what was staged.

    Args:
        ws: The workspace.
        manifest: The run's contract.
        table: Its table.
        stage: The proof.
        staged: The staged files by partition.
        measured: Their measurements, for the checksums.
        chunks: The records of the staged chunks, for the checksums of their seams.

    Returns:
        The result for the seams, or for each end of the run, and what is cited.

    Raises:
        ContractBroken: The code is not the one that computed the staged rows.
        MissingInput: A pinned input partition or reference does not exist any more.
    """
    if not isinstance(table, DerivedTable):
        return ()
    work = _Proving(ws=ws, manifest=manifest, table=table, staged=staged, measured=measured)
    with ws.ledger.read() as tx:
        cited = cited_proof(tx, manifest)
    if cited is not None:
        seams = [_at_the_seams(work, replace(stage, alone=(), ends=()), chunks)] if stage.between_chunks else []
        return (*seams, _by_citation(manifest, cited))
    if stage.ends:
        return _at_the_ends(work, stage)
    return (_at_the_seams(work, stage, chunks),)


def _by_citation(manifest: Manifest, cited: Citation) -> Proven:
    return Proven(partitions=(), described=cited.proven_on, windows=windows_of(node_of(manifest)), cited=cited.run_id)


def _at_the_seams(work: _Proving, stage: Prove, chunks: Iterable[ChunkRecord]) -> Proven:
    """Seams between chunks by the checksums that staging recorded, the others by computing each alone."""
    checksums = {chunk.number: chunk.seam_checksum for chunk in chunks if is_known(chunk.seam_checksum)}
    calls = list(stage.alone)
    unlike: list[date] = []
    for again in stage.between_chunks:
        (seam,), noted = again.compared, checksums.get(again.chunk or 0)
        if noted == _checksum(work.measured, seam):
            continue
        if noted:
            unlike.append(seam)
        if not noted or len(unlike) <= _MOST_SHOWN:
            calls.append(again)
    found = _compare(work, calls, unlike)
    return Proven(
        partitions=stage.partitions,
        described=describe(stage.grain, stage.partitions),
        windows=windows_of(node_of(work.manifest)),
        again={**{seam: _not_looked_at(work, seam, unlike) for seam in stage.partitions}, **found.again},
        differing=found.differing,
        examples=found.examples,
    )


def _at_the_ends(work: _Proving, stage: Prove) -> tuple[Proven, ...]:
    """The ends of the run with longer windows: for runs without seams, and those of earlier releases."""
    found = _compare(work, [end for end in stage.ends if end.is_other])
    return tuple(
        Proven(
            partitions=end.compared,
            described=describe(stage.grain, end.compared),
            windows=windows_of(node_of(work.manifest)),
            more=end.more,
            again={p: again for p, again in found.again.items() if p in end.compared},
            differing=tuple(p for p in found.differing if p in end.compared),
            examples=tuple(row for row in found.examples if row.partition in end.compared),
        )
        for end in stage.ends
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    again: Mapping[date, Measured]
    differing: tuple[date, ...]
    examples: tuple[SampledRow, ...]


def _compare(work: _Proving, calls: Sequence[Recomputation], unlike: Collection[date] = ()) -> _Found:
    """Recomputes partitions and compares them with the staged ones.

    Args:
        work: The run.
        calls: What to recompute.
        unlike: Partitions that count as different because another recomputation has shown it.
    """
    if not calls:
        return _Found(again={}, differing=(), examples=())
    ws, manifest, table = work.ws, work.manifest, work.table
    require_same_code(ws, manifest)
    rows = reduce(DataFrame.unionAll, (_computed_again(work, call) for call in calls))
    compared = [partition for call in calls for partition in call.compared]
    checksums = partition_checksums(rows, table.partition.column, business_schema(table))
    unequal = {p for p in compared if checksums.get(p, NO_ROWS) != _checksum(work.measured, p)}
    differing = sorted(unequal.union(unlike))
    shown = [partition for partition in differing if partition in compared]
    again, examples = _differences(work, rows, shown) if shown else ({}, ())
    return _Found(
        again={p: again[p] if p in again else _not_looked_at(work, p, unlike) for p in compared},
        differing=tuple(differing),
        examples=examples,
    )


def _differences(
    work: _Proving, rows: DataFrame, partitions: Sequence[date]
) -> tuple[Mapping[date, Measured], tuple[SampledRow, ...]]:
    """How the recomputed rows of partitions differ from the staged ones, with examples from the first."""
    ws, table = work.ws, work.table
    schema, column = business_schema(table), F.col(table.partition.column)
    files = [work.staged[partition] for partition in partitions]
    old = rows_of(ws, table, files)
    measured = measure(rows.where(column.isin(list(partitions))), old, table, schema=schema)
    again = {p: _with_surplus(measured.get(p, Measured(partition=p)), work.measured.get(p)) for p in partitions}
    of_first = column == F.lit(partitions[0])
    return again, sample_rows(rows.where(of_first), old.where(of_first), table)


def _with_surplus(again: Measured, staged: Measured | None) -> Measured:
    """Adds the rows that share their key on either side, because every pair of such rows is compared."""
    return replace(again, surplus=max(again.surplus, staged.surplus if staged else 0))


def _computed_again(work: _Proving, call: Recomputation) -> DataFrame:
    ws, manifest = work.ws, work.manifest
    with ws.ledger.read() as tx:
        files = pinned_files(tx, manifest.run_id, _pins(manifest, call.reads))
    rows = derived_rows(ws, manifest, work.table, call.computed, call.reads, files)
    return rows.where(F.col(work.table.partition.column).isin(list(call.compared)))


def _not_looked_at(work: _Proving, seam: date, unlike: Collection[date]) -> Measured:
    """The result for a seam between chunks from checksums alone."""
    rows = 0 if seam in unlike else work.staged[seam].rows
    surplus = work.measured[seam].surplus if seam in work.measured else 0
    return Measured(partition=seam, rows=rows, accepted_rows=rows, unchanged=rows, surplus=surplus)


def _checksum(measured: Mapping[date, Measured], partition: date) -> str:
    return measured[partition].checksum if partition in measured else NO_ROWS


def _pins(manifest: Manifest, reads: Iterable[Reads]) -> Iterable[PinnedInput]:
    """The pins of exactly what a call reads; a run over years pins far more."""
    wanted = {read.argument: set(read.partitions) for read in reads}
    further = manifest.proof.inputs if manifest.proof else ()
    for pinned in (*manifest.inputs, *further):
        chosen = tuple(pin for pin in pinned.partitions if pin.partition in wanted[pinned.argument])
        yield PinnedInput(argument=pinned.argument, table=pinned.table, partitions=chosen)

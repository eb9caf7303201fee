"""Warm-up proof: recomputes some partitions with more input than they were staged with, later and in another number of
tasks; the rows must be the same.

What chunks compute of their neighbours is computed while they are staged, and its checksum is recorded. The ends of
the run are computed here, in the same way as staging: the calls that the stage lists, from files that were pinned when
the run was planned. Content checksums are compared with those of the staged files. Rows are compared only where the
checksums differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from itertools import groupby

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill_assets.candidates.compute import derived_rows, require_same_code
from backfill_assets.candidates.inputs import pinned_files
from backfill_assets.candidates.rows import rows_of
from backfill_assets.core.identity import FileSet
from backfill_assets.domain import DerivedTable, Table
from backfill_assets.gates.measure import measure
from backfill_assets.gates.measured import Measured, Proven
from backfill_assets.gates.sample import sample_rows
from backfill_assets.lake.checksums import NO_ROWS, joined, partition_checksums
from backfill_assets.ledger.findings import SampledRow
from backfill_assets.ledger.records import ChunkRecord
from backfill_assets.planning.manifest import Manifest, node_of
from backfill_assets.planning.manifest_parts import PinnedInput
from backfill_assets.planning.reads import Reads
from backfill_assets.planning.stages import Prove, Recomputation, compared_by
from backfill_assets.transforms.schemas import business_schema
from backfill_assets.workspace import Workspace

_TASKS = "spark.sql.shuffle.partitions"

_MOST_SHOWN = 3
"""The number of chunks whose differing neighbours are compared by rows: each costs the computation of a chunk."""


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
        stage: The proof.
        staged: The staged files by partition.
        measured: Their measurements, for the checksums.
        chunks: The records of the staged chunks, for the checksums of what they computed of their neighbours.

    Returns:
        The result for each call at the ends of the run, and for what chunks computed of their neighbours.

    Raises:
        ContractBroken: The code is not the one that computed the staged rows.
        MissingInput: A pinned input partition or reference does not exist any more.
    """
    if not isinstance(table, DerivedTable):
        return ()
    work = _Proving(ws=ws, manifest=manifest, table=table, staged=staged, measured=measured)
    at_the_ends = _at_the_ends(work, stage)
    return (*at_the_ends, _between_chunks(work, stage, chunks)) if stage.between_chunks else at_the_ends


def _at_the_ends(work: _Proving, stage: Prove) -> tuple[Proven, ...]:
    """The ends of the run with longer windows."""
    found: dict[tuple[date, ...], Proven] = {}
    for computed, calls in groupby(stage.ends, key=lambda end: end.computed):
        again = list(calls)
        longer = [call for call in again if call.is_other]
        if longer:
            found[computed] = _compare(work, replace(longer[0], compared=compared_by(longer)))
        elif not found and not stage.between_chunks:
            # Rows that are others each time, or in other tasks, show without more input too.
            found[computed] = _compare(work, replace(again[0], compared=compared_by(again)))
    return tuple(
        replace(
            _proven(work, end.compared),
            more=end.more,
            again={p: again for p, again in found[end.computed].again.items() if p in end.compared},
            differing=tuple(p for p in found[end.computed].differing if p in end.compared),
            examples=tuple(row for row in found[end.computed].examples if row.partition in end.compared),
        )
        if end.computed in found and (end.is_other or found[end.computed].differing)
        else replace(_proven(work, end.compared), more=end.more)
        for end in stage.ends
    )


def _between_chunks(work: _Proving, stage: Prove, chunks: Iterable[ChunkRecord]) -> Proven:
    """Compares what chunks computed of their neighbours by the checksums that staging recorded; computes it again only
    to show the rows that differ."""
    recorded = {chunk.number: chunk.seam_checksum for chunk in chunks}
    partitions = compared_by(stage.between_chunks)
    again = {partition: _without_differences(work, partition) for partition in partitions}
    differing: dict[date, None] = {}
    examples: tuple[SampledRow, ...] = ()
    shown = 0
    for call in stage.between_chunks:
        staged = joined(_checksum(work.measured, partition) for partition in call.compared)
        if recorded.get(call.chunk or 0) == staged:
            continue
        shown += 1
        if shown > _MOST_SHOWN:
            break
        found = _compare(work, call)
        again |= {partition: found.again[partition] for partition in found.differing}
        # Rows that are others each time they are computed do not follow from their input alone.
        differing |= dict.fromkeys(found.differing or call.compared)
        examples = examples or found.examples
    return replace(_proven(work, partitions), again=again, differing=tuple(differing), examples=examples)


def _proven(work: _Proving, partitions: tuple[date, ...]) -> Proven:
    manifest = work.manifest
    return Proven(partitions=partitions, windows={each.argument: each.window for each in node_of(manifest).inputs})


def _compare(work: _Proving, call: Recomputation) -> Proven:
    """Recomputes partitions in one call and compares them with the staged ones."""
    require_same_code(work.ws, work.manifest)
    rows = _computed_again(work, call)
    with _in_other_tasks(rows.sparkSession):
        checksums = partition_checksums(rows, work.table.partition.column, business_schema(work.table))
    differing = tuple(p for p in call.compared if checksums.get(p, NO_ROWS) != _checksum(work.measured, p))
    again, examples = _differences(work, rows, differing) if differing else ({}, ())
    return replace(
        _proven(work, call.compared),
        again={p: again[p] if p in again else _without_differences(work, p) for p in call.compared},
        differing=differing,
        examples=examples,
    )


@contextmanager
def _in_other_tasks(session: SparkSession) -> Iterator[None]:
    """Divides rows into another number of tasks than staging does, as a larger machine would: it must not matter."""
    before = session.conf.get(_TASKS)
    assert before is not None, "Spark has a default"
    session.conf.set(_TASKS, str(2 * int(before) + 1))
    try:
        yield
    finally:
        session.conf.set(_TASKS, before)


def _differences(
    work: _Proving, rows: DataFrame, partitions: Sequence[date]
) -> tuple[Mapping[date, Measured], tuple[SampledRow, ...]]:
    """The differences between the recomputed and the staged rows of partitions, with examples from the first one."""
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


def _without_differences(work: _Proving, partition: date) -> Measured:
    """The result for a partition whose checksum is the same, or whose rows were not compared."""
    rows = work.staged[partition].rows
    surplus = work.measured[partition].surplus if partition in work.measured else 0
    return Measured(partition=partition, rows=rows, accepted_rows=rows, unchanged=rows, surplus=surplus)


def _checksum(measured: Mapping[date, Measured], partition: date) -> str:
    return measured[partition].checksum if partition in measured else NO_ROWS


def _pins(manifest: Manifest, reads: Iterable[Reads]) -> Iterable[PinnedInput]:
    """The pins of exactly what a call reads; a run over years pins far more."""
    wanted = {read.argument: set(read.partitions) for read in reads}
    further = manifest.proof.inputs if manifest.proof else ()
    for pinned in (*manifest.inputs, *further):
        chosen = tuple(pin for pin in pinned.partitions if pin.partition in wanted[pinned.argument])
        yield PinnedInput(argument=pinned.argument, table=pinned.table, partitions=chosen)
    if manifest.base:
        yield manifest.base

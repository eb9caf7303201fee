"""Reads of candidates: what has been staged for a run, and its gate results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date

from sqlalchemy import exists, func, select

from backfill_assets.identity import FileSet
from backfill_assets.ledger import rows
from backfill_assets.ledger.provenance import inputs_of, provenance_of
from backfill_assets.ledger.queries import Queries, batches
from backfill_assets.ledger.records import CandidatePartition, ChunkRecord, GateResult, PassedGate
from backfill_assets.ledger.schema import candidate_partitions, chunk_runs, gate_results, runs
from backfill_assets.ledger.states import ChunkState
from backfill_assets.planning.estimates import Pace


class CandidateReads(Queries):
    """Chunks, candidates and gate results of runs."""

    def chunks(self, run_id: str) -> tuple[ChunkRecord, ...]:
        """The chunks of a run that were started, by number.

        Cost: one index range: one row per chunk of the run.
        """
        chosen = select(chunk_runs).where(chunk_runs.c.run_id == run_id).order_by(chunk_runs.c.number)
        return tuple(rows.chunk_record(row) for row in self._rows(chosen))

    def pace(self, table: str, *, latest: int = 5) -> Pace | None:
        """How fast the latest runs of a table were staged; None when none has finished a chunk.

        Cost: one row per chunk of the latest runs, found by index.

        Args:
            table: A table.
            latest: From how many runs.
        """
        # EXISTS, because SQLite makes a list of every chunk of the ledger for IN.
        done = exists().where(chunk_runs.c.run_id == runs.c.run_id, chunk_runs.c.state == ChunkState.DONE)
        chosen = (
            select(runs.c.run_id)
            .where(runs.c.table_name == table, done)
            .order_by(runs.c.added_sequence.desc())
            .limit(latest)
        )
        run_ids = self._values(chosen)
        found = self._rows(select(chunk_runs).where(chunk_runs.c.run_id.in_(run_ids)))
        timed = [c for c in map(rows.chunk_record, found) if c.finished_at is not None and c.output_rows is not None]
        if not timed:
            return None
        paces = _seconds_per_row(timed)
        return Pace(
            fastest=min(paces, default=0.0),
            slowest=max(paces, default=0.0),
            runs=len(run_ids),
            rows=sum(chunk.output_rows or 0 for chunk in timed),
            partitions=sum(len(chunk.partitions) for chunk in timed),
            seconds=sum(map(_seconds, timed)),
        )

    def of_run(self, run_id: str) -> dict[date, CandidatePartition]:
        """The staged partitions of a run, in order.

        Cost: one index range: one row per partition of the run, with its file set.
        """
        staged = candidate_partitions
        chosen = select(staged).where(staged.c.run_id == run_id).order_by(staged.c.partition_date)
        return {row.partition_date: rows.candidate(row) for row in self._rows(chosen)}

    def digests(self, run_id: str) -> dict[date, str]:
        """The digests of what a run has staged, by partition. No file sets are read.

        Cost: one index range: one short row per partition of the run.
        """
        held = candidate_partitions
        chosen = select(held.c.partition_date, held.c.files_digest).where(held.c.run_id == run_id)
        return {row.partition_date: row.files_digest for row in self._rows(chosen)}

    def inputs(self, run_id: str) -> dict[date, Mapping[str, str]]:
        """What each staged partition of a run was computed from: by input table, the digest of its window.

        Cost: one index range: one row per partition of the run.
        """
        held = candidate_partitions
        chosen = select(held.c.partition_date, held.c.provenance).where(held.c.run_id == run_id)
        found = self._rows(chosen.order_by(held.c.partition_date))
        return {row.partition_date: inputs_of(provenance_of(row.provenance)) for row in found}

    def row_count(self, run_id: str) -> int:
        """How many rows the staged partitions of a run have together.

        Cost: one index range, added up in the database.
        """
        staged = candidate_partitions
        (rows_,) = self._values(select(func.sum(staged.c.row_count)).where(staged.c.run_id == run_id))
        return int(rows_ or 0)

    def gate_results(self, run_id: str) -> tuple[GateResult, ...]:
        """What the gates found, by partition and gate.

        Cost: one index range: one row per partition and gate of the run.
        """
        found = gate_results
        chosen = select(found).where(found.c.run_id == run_id).order_by(found.c.partition_date, found.c.gate)
        return tuple(rows.gate_result(row) for row in self._rows(chosen))

    def passed_gates(self, run_id: str) -> frozenset[PassedGate]:
        """The gates that passed: partition, name, and the digest of the files that were judged.

        Cost: one index range: one short row per partition and gate that passed.
        """
        found = gate_results
        chosen = select(found.c.partition_date, found.c.gate, found.c.digest).where(
            found.c.run_id == run_id, found.c.passed
        )
        return frozenset((row.partition_date, row.gate, row.digest) for row in self._rows(chosen))

    def files(self, run_ids: Iterable[str]) -> dict[str, dict[date, FileSet]]:
        """The files of the candidates of these runs, by run and partition.

        Cost: one index range per run: one row per partition, with its file set.
        """
        held = candidate_partitions
        found: dict[str, dict[date, FileSet]] = {}
        for batch in batches(run_ids):
            for row in self._rows(
                select(held.c.run_id, held.c.partition_date, held.c.files).where(held.c.run_id.in_(batch))
            ):
                found.setdefault(row.run_id, {})[row.partition_date] = row.files
        return found


def _seconds(chunk: ChunkRecord) -> float:
    return (chunk.finished_at - chunk.started_at).total_seconds() if chunk.finished_at else 0.0


def _seconds_per_row(chunks: Iterable[ChunkRecord]) -> list[float]:
    """How long each run took for a row; runs without rows say nothing about it."""
    by_run: dict[str, tuple[float, int]] = {}
    for chunk in chunks:
        seconds, written = by_run.get(chunk.run_id, (0.0, 0))
        by_run[chunk.run_id] = (seconds + _seconds(chunk), written + (chunk.output_rows or 0))
    return [seconds / written for seconds, written in by_run.values() if written]

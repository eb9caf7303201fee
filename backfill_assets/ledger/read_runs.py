"""What was agreed, how far is it, and what has been staged and measured for it?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date

from sqlalchemy import Select, func, select

from backfill_assets.errors import UnknownName
from backfill_assets.ledger import rows
from backfill_assets.ledger.reading import Reading, Unreadable, batches, readable
from backfill_assets.ledger.records import CandidatePartition, ChunkRecord, GateResult, RunRecord
from backfill_assets.ledger.schema import (
    approvals,
    candidate_partitions,
    chunk_runs,
    gate_results,
    leases,
    manifests,
    runs,
)
from backfill_assets.ledger.states import ChunkState, RunState
from backfill_assets.planning.estimates import Pace


class RunReader(Reading):
    """Runs, their chunks, candidates and gate results."""

    def run(self, run_id: str) -> RunRecord:
        """One run.

        Raises:
            UnknownName: Nobody planned it.
            Refused: Its manifest was edited in the database.
        """
        row = self._row(_runs().where(runs.c.run_id == run_id))
        if row is None:
            raise unknown_run(run_id)
        return rows.run_record(row)

    def runs(
        self,
        *,
        table: str | None = None,
        states: Iterable[RunState] | None = None,
        limit: int | None = None,
        after: int = 0,
        unreadable: Unreadable | None = None,
    ) -> tuple[RunRecord, ...]:
        """Runs, the last planned first.

        Args:
            table: Only those that target this table.
            states: Only those in one of these states.
            limit: At most this many.
            after: Only those that were planned after the event of this sequence.
            unreadable: Told of the table of every run whose manifest cannot be read, which is then left out.

        Raises:
            Refused: A manifest cannot be read, and there is nobody to tell.
        """
        chosen = _runs().where(runs.c.added_sequence > after).order_by(runs.c.added_sequence.desc()).limit(limit)
        if table is not None:
            chosen = chosen.where(runs.c.table_name == table)
        if states is not None:
            chosen = chosen.where(runs.c.state.in_(tuple(states)))
        return tuple(readable(self._rows(chosen), rows.run_record, name="table_name", unreadable=unreadable))

    def runs_named(self, run_ids: Iterable[str]) -> tuple[RunRecord, ...]:
        """These runs, in the order in which they are named.

        Raises:
            UnknownName: Nobody planned one of them.
            Refused: A manifest was edited in the database.
        """
        chosen = list(run_ids)
        found = {
            row.run_id: rows.run_record(row)
            for batch in batches(chosen)
            for row in self._rows(_runs().where(runs.c.run_id.in_(batch)))
        }
        unknown = [run_id for run_id in chosen if run_id not in found]
        if unknown:
            raise unknown_run(unknown[0])
        return tuple(found[run_id] for run_id in chosen)

    def chunks(self, run_id: str) -> tuple[ChunkRecord, ...]:
        """The chunks of a run that were started, by number."""
        chosen = select(chunk_runs).where(chunk_runs.c.run_id == run_id).order_by(chunk_runs.c.number)
        return tuple(rows.chunk_record(row) for row in self._rows(chosen))

    def pace(self, table: str, *, latest: int = 5) -> Pace | None:
        """How fast the latest runs of a table were staged; None when none has finished a chunk.

        Args:
            table: A table.
            latest: From how many runs.
        """
        done = select(chunk_runs.c.run_id).where(chunk_runs.c.state == ChunkState.DONE)
        chosen = (
            select(runs.c.run_id)
            .where(runs.c.table_name == table, runs.c.run_id.in_(done))
            .order_by(runs.c.added_sequence.desc())
            .limit(latest)
        )
        run_ids = self._values(chosen)
        timed = [
            chunk
            for run_id in run_ids
            for chunk in self.chunks(run_id)
            if chunk.finished_at is not None and chunk.output_rows is not None
        ]
        if not timed:
            return None
        return Pace(
            runs=len(run_ids),
            rows=sum(chunk.output_rows or 0 for chunk in timed),
            partitions=sum(len(chunk.partitions) for chunk in timed),
            seconds=sum((chunk.finished_at - chunk.started_at).total_seconds() for chunk in timed if chunk.finished_at),
        )

    def candidates(self, run_id: str) -> dict[date, CandidatePartition]:
        """The staged partitions of a run, in order."""
        staged = candidate_partitions
        chosen = select(staged).where(staged.c.run_id == run_id).order_by(staged.c.partition_date)
        return {row.partition_date: rows.candidate(row) for row in self._rows(chosen)}

    def staged_digests(self, run_id: str) -> dict[date, str]:
        """The digests of what a run has staged, by partition. No file sets are read."""
        held = candidate_partitions
        chosen = select(held.c.partition_date, held.c.files_digest).where(held.c.run_id == run_id)
        return {row.partition_date: row.files_digest for row in self._rows(chosen)}

    def staged_inputs(self, run_id: str) -> dict[date, Mapping[str, str]]:
        """What each staged partition of a run was computed from: by input table, the digest of its window."""
        held = candidate_partitions
        chosen = select(held.c.partition_date, held.c.provenance).where(held.c.run_id == run_id)
        found = self._rows(chosen.order_by(held.c.partition_date))
        return {row.partition_date: row.provenance.get("inputs", {}) for row in found}

    def staged_rows(self, run_id: str) -> int:
        """How many rows the staged partitions of a run have together."""
        staged = candidate_partitions
        (rows_,) = self._values(select(func.sum(staged.c.row_count)).where(staged.c.run_id == run_id))
        return int(rows_ or 0)

    def gate_results(self, run_id: str) -> tuple[GateResult, ...]:
        """What the gates found, by partition and gate."""
        found = gate_results
        chosen = select(found).where(found.c.run_id == run_id).order_by(found.c.partition_date, found.c.gate)
        return tuple(rows.gate_result(row) for row in self._rows(chosen))


def unknown_run(run_id: str) -> UnknownName:
    """The error for a run that nobody planned."""
    return UnknownName(f"there is no run {run_id!r}.", next_step="backfill status", run_id=run_id)


def _runs() -> Select[*tuple[object, ...]]:
    return (
        select(
            runs.c.run_id,
            runs.c.table_name,
            runs.c.state,
            runs.c.note,
            runs.c.updated_at,
            manifests.c.body,
            manifests.c.digest,
            approvals.c.state.label("approval_state"),
            approvals.c.manifest_digest.label("approved_digest"),
            approvals.c.approved_by,
            approvals.c.approved_at,
            *(column.label(f"lease_{column.name}") for column in leases.c if column.name != "work_id"),
        )
        .join_from(runs, manifests, runs.c.run_id == manifests.c.run_id)
        .join(approvals, approvals.c.run_id == runs.c.run_id)
        .outerjoin(leases, leases.c.work_id == runs.c.run_id)
    )

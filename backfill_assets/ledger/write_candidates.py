"""Writes to candidates: what is staged for a run, and its gate results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date

from sqlalchemy import ColumnElement, bindparam, delete, insert, select, update

from backfill_assets.errors import IllegalTransition, Refused, TakenOver
from backfill_assets.identity import document_digest
from backfill_assets.ledger import rows
from backfill_assets.ledger.event_log import SYSTEM, Event, EventLog
from backfill_assets.ledger.event_payloads import TOOK_MS, gates_payload
from backfill_assets.ledger.queries import batches
from backfill_assets.ledger.read_candidates import CandidateReads
from backfill_assets.ledger.recorded_text import first_few
from backfill_assets.ledger.records import CandidatePartition, GateResult, Sample
from backfill_assets.ledger.run_steps import usual_step
from backfill_assets.ledger.samples import append_with_samples
from backfill_assets.ledger.schema import candidate_partitions, chunk_runs, gate_results
from backfill_assets.ledger.states import MEANING, VISIBLE, ChunkState, RunState
from backfill_assets.ledger.steps import Step
from backfill_assets.ledger.write_runs import RunWrites
from backfill_assets.next_steps import Act, do


class CandidateWrites(CandidateReads):
    """Chunks, candidates and gate results. A candidate only changes while its run is STAGING."""

    def __init__(self, log: EventLog, runs: RunWrites) -> None:
        super().__init__(log.connection)
        self._log, self._runs = log, runs

    def start_chunk(self, run_id: str, number: int, partitions: Sequence[date], *, attempt: str) -> None:
        """A chunk is being computed, for the first time or again.

        Cost: three primary key lookups, the row of the chunk, and one event.

        Args:
            run_id: A run that is STAGING.
            number: The chunk's number, from 1.
            partitions: Its partitions.
            attempt: Names the process that has the run.

        Raises:
            UnknownName: There is no such run.
            TakenOver: Another process has the run by now.
            IllegalTransition: The run is not STAGING.
        """
        self._runs.require_holder(run_id, attempt)
        self._must_be(run_id, RunState.STAGING, f"start chunk {number}")
        present = self._row(select(chunk_runs.c.state).where(_chunk(run_id, number)))
        begun = {
            "partitions": rows.texts_of(tuple(partitions)),
            "started_at": self._log.now,
            "finished_at": None,
            "attempt": attempt,
            "checksum": "",
            "seam_checksum": "",
        }
        event = Event(
            actor=SYSTEM,
            entity="chunk",
            entity_id=run_id,
            action="chunk_started",
            to_state=str(ChunkState.RUNNING),
            payload={"number": number, "partitions": len(partitions), "attempt": attempt},
        )
        if present is not None:
            step = _chunk_step(run_id, number, present.state, ChunkState.RUNNING)
            self._log.change(step, event, also={**begun, "input_rows": None, "output_rows": None})
            return
        self._connection.execute(
            insert(chunk_runs).values(run_id=run_id, number=number, state=ChunkState.RUNNING, **begun)
        )
        self._log.append(event)

    def finish_chunk(
        self,
        run_id: str,
        number: int,
        *,
        input_rows: int,
        output_rows: int,
        candidates: Iterable[CandidatePartition],
        attempt: str,
        checksum: str,
        seam_checksum: str = "",
    ) -> None:
        """A chunk is computed; its candidates take the place of earlier ones of the same partitions.

        Cost: three primary key lookups, one row per partition of the chunk in place of another, and one event.

        Args:
            run_id: The run.
            number: The chunk's.
            input_rows: Of what it read.
            output_rows: Of what it staged.
            candidates: What it staged.
            attempt: Who computed it.
            checksum: Of all staged rows.
            seam_checksum: Of what was computed of its neighbours and not staged, if there is anything.

        Raises:
            UnknownName: There is no such run.
            TakenOver: Another process has the run by now, or the chunk is not the one that this process started.
            IllegalTransition: The run is not STAGING, or the chunk is not RUNNING.
            Refused: A candidate of another run.
        """
        self._runs.require_holder(run_id, attempt)
        self._must_have_started(run_id, number, attempt)
        self._must_be(run_id, RunState.STAGING, f"finish chunk {number}")
        staged = tuple(candidates)
        _must_belong(run_id, staged)
        self._log.change(
            _chunk_step(run_id, number, ChunkState.RUNNING, ChunkState.DONE),
            Event(
                actor=SYSTEM,
                entity="chunk",
                entity_id=run_id,
                action="chunk_finished",
                payload={
                    "number": number,
                    "input_rows": input_rows,
                    "output_rows": output_rows,
                    "checksum": checksum,
                    "seam_checksum": seam_checksum,
                    "partitions": len(staged),
                    "files_digest": document_digest([[c.partition.isoformat(), c.files.digest] for c in staged]),
                },
            ),
            also={
                "input_rows": input_rows,
                "output_rows": output_rows,
                "finished_at": self._log.now,
                "checksum": checksum,
                "seam_checksum": seam_checksum,
            },
        )
        self._replace_candidates(run_id, staged)

    def _replace_candidates(self, run_id: str, staged: tuple[CandidatePartition, ...]) -> None:
        for batch in batches(candidate.partition for candidate in staged):
            for table in (gate_results, candidate_partitions):
                of_batch = (table.c.run_id == run_id) & table.c.partition_date.in_(batch)
                self._connection.execute(delete(table).where(of_batch))
        if staged:
            self._connection.execute(insert(candidate_partitions), [rows.candidate_row(each) for each in staged])

    def _must_have_started(self, run_id: str, number: int, attempt: str) -> None:
        row = self._row(select(chunk_runs.c.attempt).where(_chunk(run_id, number)))
        if row is None or row.attempt != attempt:
            raise TakenOver(
                f"chunk {number} of run {run_id} is not as this process started it: another process was at it.",
                next_step=do(Act.STATUS, run_id),
                run_id=run_id,
                chunk=number,
            )

    def clear(self, run_id: str, *, keep: Iterable[int] = ()) -> None:
        """Forgets the chunks, candidates and gate results of a run, so that it can be staged.

        Cost: one row per chunk, partition and gate result of the run, by index, and one event.

        Args:
            run_id: A run that readers do not see.
            keep: Numbers of finished chunks whose candidates are not staged again.

        Raises:
            UnknownName: There is no such run.
            IllegalTransition: It is being published or was, and they are its evidence.
        """
        state = self._runs.state(run_id)
        if state in VISIBLE:
            raise IllegalTransition(
                f"run {run_id} is {state} ({MEANING[state]}); its candidates are its evidence and are kept.",
                next_step=usual_step(run_id, state),
                run_id=run_id,
            )
        kept = tuple(sorted(keep))
        of_run = chunk_runs.c.run_id == run_id
        staying = self._values(select(chunk_runs.c.partitions).where(of_run, chunk_runs.c.number.in_(kept)))
        self._connection.execute(delete(gate_results).where(gate_results.c.run_id == run_id))
        self._forget_candidates(run_id, {day for partitions in staying for day in rows.dates_of(partitions)})
        self._connection.execute(delete(chunk_runs).where(of_run, chunk_runs.c.number.not_in(kept)))
        payload = {"kept_chunks": list(kept)} if kept else {}
        self._log.append(
            Event(actor=SYSTEM, entity="candidates", entity_id=run_id, action="candidates_cleared", payload=payload)
        )

    def _forget_candidates(self, run_id: str, staying: set[date]) -> None:
        held = candidate_partitions
        of_run = held.c.run_id == run_id
        if not staying:
            self._connection.execute(delete(held).where(of_run))
            return
        staged = set(self._values(select(held.c.partition_date).where(of_run)))
        for batch in batches(sorted(staged - staying)):
            self._connection.execute(delete(held).where(of_run, held.c.partition_date.in_(batch)))

    def record_gates(
        self,
        run_id: str,
        candidates: Iterable[CandidatePartition],
        results: Iterable[GateResult],
        *,
        actor: str,
        attempt: str,
        samples: Iterable[Sample] = (),
        took_ms: Mapping[str, int] | None = None,
    ) -> None:
        """What the gates measured; it takes the place of the run's earlier results.

        Cost: one row per partition of the run, and one per partition and gate in place of another; one event.

        Args:
            run_id: A run that is GATING.
            candidates: Staged partitions with what measuring adds: checksum, and compared version, digest and checksum.
            results: One per partition and gate.
            actor: Who or what measured.
            attempt: Names the process that has the run.
            samples: Values of rows that reviewers are shown: the only place for them, because it can be erased.
            took_ms: How long the stages of gating took, by name, for the report.

        Raises:
            UnknownName: There is no such run.
            TakenOver: Another process has the run by now.
            IllegalTransition: The run is not GATING.
            Refused: Something was measured that is not what was staged.
        """
        self._runs.require_holder(run_id, attempt)
        self._must_be(run_id, RunState.GATING, "record its gates")
        measured, found = tuple(candidates), tuple(results)
        _must_belong(run_id, (*measured, *found))
        self._must_be_staged(run_id, measured, found)
        self._update_measured(run_id, measured)
        self._connection.execute(delete(gate_results).where(gate_results.c.run_id == run_id))
        if found:
            self._connection.execute(insert(gate_results), [rows.gate_row(result) for result in found])
        append_with_samples(
            self._log,
            Event(
                actor=actor,
                entity="gates",
                entity_id=run_id,
                action="gates_recorded",
                payload={
                    "partitions": len(measured),
                    **gates_payload(found),
                    **({TOOK_MS: dict(took_ms)} if took_ms else {}),
                },
            ),
            run_id,
            samples,
        )

    def _update_measured(self, run_id: str, measured: tuple[CandidatePartition, ...]) -> None:
        if not measured:
            return
        held = candidate_partitions
        self._connection.execute(
            update(held)
            .where(held.c.run_id == run_id, held.c.partition_date == bindparam("of_partition"))
            .values(
                checksum=bindparam("new_checksum"),
                compared_version=bindparam("new_version"),
                compared_digest=bindparam("new_digest"),
                compared_checksum=bindparam("accepted_checksum"),
            ),
            [
                {
                    "of_partition": each.partition,
                    "new_checksum": each.checksum,
                    "new_version": each.compared_version,
                    "new_digest": each.compared_digest,
                    "accepted_checksum": each.compared_checksum,
                }
                for each in measured
            ],
        )

    def _must_be_staged(
        self, run_id: str, measured: tuple[CandidatePartition, ...], found: tuple[GateResult, ...]
    ) -> None:
        staged = self.digests(run_id)
        other = {each.partition for each in measured if staged.get(each.partition) != each.files.digest}
        other.update(result.partition for result in found if result.partition not in staged)
        if other:
            raise Refused(
                f"the gates of run {run_id} measured files that are not the staged ones, "
                f"for {first_few(sorted(other))}.",
                next_step=do(Act.RUN, run_id),
                run_id=run_id,
            )

    def _must_be(self, run_id: str, wanted: RunState, act: str) -> None:
        state = self._runs.state(run_id)
        if state is not wanted:
            raise IllegalTransition(
                f"run {run_id} is {state} ({MEANING[state]}); to {act} it must be {wanted}.",
                next_step=usual_step(run_id, state),
                run_id=run_id,
            )


def _must_belong(run_id: str, items: Iterable[CandidatePartition | GateResult]) -> None:
    foreign = {item.run_id for item in items} - {run_id}
    if foreign:
        raise Refused(f"this is about run {run_id}, and was given what belongs to {first_few(sorted(foreign))}.")


def _chunk(run_id: str, number: int) -> ColumnElement[bool]:
    return (chunk_runs.c.run_id == run_id) & (chunk_runs.c.number == number)


def _chunk_step(run_id: str, number: int, begins: ChunkState, ends: ChunkState) -> Step:
    return Step(
        table=chunk_runs,
        key={"run_id": run_id, "number": number},
        name=f"chunk {number} of run {run_id}",
        begins=begins,
        ends=ends,
        next_step=do(Act.RUN, run_id),
        ids={"run_id": run_id, "chunk": number},
    )

"""Candidates: chunks, staged partitions and gate results of a run, and what its approver has to comment on in writing.

A gate whose results demand a comment blocks nothing. The comment is the note of the approval, and is about exactly the
results that stood when it was written: the event of the approval names their digest.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import Any

from sqlalchemy import ColumnElement, Select, bindparam, delete, exists, func, insert, select, true, update

from backfill_assets.core.errors import Refused
from backfill_assets.core.identity import FileSet, canonical_json, document_digest, plain
from backfill_assets.core.people import POLICY
from backfill_assets.ledger import queries
from backfill_assets.ledger.errors import LostWork, UnfitState
from backfill_assets.ledger.events import (
    ALL_GATES,
    CHUNK_FINISHED,
    CORE_MS,
    GATES_RECORDED,
    SYSTEM,
    TOOK_MS,
    Event,
    EventLog,
    Step,
    Writes,
    core_seconds_of_chunks,
    seconds_of_gates,
)
from backfill_assets.ledger.findings import (
    FAR,
    NEEDS_COMMENT,
    SAMPLE_KINDS,
    Finding,
    GateReads,
    GateResult,
    PartitionCells,
    PassedGate,
    SampleKind,
    SampleRow,
    Shown,
    shown_row,
)
from backfill_assets.ledger.provenance import inputs_of, provenance_of
from backfill_assets.ledger.queries import Queries, batches
from backfill_assets.ledger.recorded_text import first_few, one_line
from backfill_assets.ledger.records import LOST, CandidatePartition, ChunkRecord, EventRecord
from backfill_assets.ledger.runs import RunReads
from backfill_assets.ledger.schema import (
    approvals,
    candidate_partitions,
    checked_gates,
    chunk_runs,
    events,
    gate_reads,
    gate_results,
    partition_versions,
    runs,
    samples,
)
from backfill_assets.ledger.states import VISIBLE, ChunkState, RunState, VersionState
from backfill_assets.planning.manifest import input_document, parse_input
from backfill_assets.planning.manifest_parts import AskedKeys, PinnedReference
from backfill_assets.planning.state import EarlierRun, Pace

# Samples: the values of rows that the ledger holds, and how they are erased.
#
# Values of rows are in one table, `samples`, and never in an event. The event that recorded a sample has the
# digest of its row, as of every row; the salt in the row, which is erased with it, keeps the digest from proving
# a guess.

ERASED = "samples_erased"
ASKED = "keys_asked"
MEASURED = ("gates_recorded", "candidates_cleared")
"""What begins anew what a run's samples show."""

SALT_BYTES = 32


class SampleReads(Queries):
    """The samples of runs."""

    def latest(self, run_id: str, kind: type[Shown]) -> tuple[Shown, ...]:
        """The latest sample of a kind from the gating of a run; nothing where it found none, or they were erased.

        Cost: the events of the run, by index, and one row.
        """
        body = self._row(
            select(samples.c.body).where(
                samples.c.run_id == run_id,
                samples.c.kind == SAMPLE_KINDS[kind],
                # Exactly that event: later ones keep what checks of the published rows found.
                samples.c.sequence == self._measured_at(run_id),
            )
        )
        return () if body is None else tuple(shown_row(kind, each) for each in json.loads(body.body))

    def asked_keys(self, run_id: str) -> AskedKeys | None:
        """The keys that were asked for when a run was planned; None where none were, or they were erased.

        Cost: the events of the run, by index, and one row.
        """
        row = self._row(select(samples).where(samples.c.run_id == run_id, samples.c.sequence.in_(_asked_at(run_id))))
        if row is None:
            return None
        body = json.loads(row.body)
        return AskedKeys(columns=tuple(body["columns"]), keys=tuple(map(tuple, body["keys"])), salt=row.salt)

    def partition_cells(self, run_ids: Iterable[str]) -> tuple[PartitionCells, ...]:
        """The measures of each partition of runs; none where a table declares none, or they were erased.

        Each names the files that were measured, so that those of an earlier gating do no harm.

        Cost: one row per gating of these runs, by index.
        """
        kept = select(samples.c.body).where(samples.c.kind == SampleKind.PARTITION_CELLS)
        found = self._rows_with(kept, samples.c.run_id, sorted(set(run_ids)))
        return tuple(PartitionCells.parse(each) for row in found for each in json.loads(row.body))

    def erased(self, run_id: str) -> EventRecord | None:
        """The event that erased what the latest gating had kept of a run's rows; None while nothing was erased.

        Cost: the events of the run, by index, twice.
        """
        erased = select(events).where(
            events.c.entity_id == run_id, events.c.action == ERASED, events.c.sequence > self._measured_at(run_id)
        )
        row = self._row(erased.order_by(events.c.sequence.desc()).limit(1))
        return None if row is None else queries.event_record(row)

    def _measured_at(self, run_id: str) -> int:
        last = select(func.max(events.c.sequence)).where(events.c.entity_id == run_id, events.c.action.in_(MEASURED))
        return self._values(last)[0] or 0


class SampleWrites(SampleReads, Writes):
    """The samples of runs, and their erasure."""

    def ask(self, run_id: str, asked: AskedKeys, *, by: str) -> None:
        """Keeps the keys whose rows the report of a run that was just planned will show.

        Cost: one row and one event.
        """
        body = canonical_json({"columns": list(asked.columns), "keys": [list(key) for key in asked.keys]})
        kept = {"sequence": self._log.next_sequence, "run_id": run_id, "kind": SampleKind.CHANGED_ROWS}
        self._log.write(insert(samples), [{**kept, "salt": asked.salt, "body": body}], of=[run_id])
        self._log.append(Event("samples", run_id, ASKED, actor=by, payload={"keys": len(asked.keys)}))

    def erase(self, *run_ids: str, by: str, reason: str) -> int:
        """Deletes every value of rows that the ledger holds of these runs, and records of each who did and why.

        Cost: one row per sample of these runs, by index, and one event per run.

        Returns:
            How many samples were erased.

        Raises:
            Refused: A name or a reason is missing, or none of the runs has any.
        """
        eraser, why = one_line("the name", by), one_line("the reason", reason)
        erased = sum(self._erase_of(run_id, eraser, why) for run_id in run_ids)
        if not erased:
            raise Refused.coded(
                "no_samples_kept",
                "the ledger holds no values of rows of run {runs}.",
                then="[report {first}]",
                run_ids=run_ids,
                runs=" or ".join(run_ids),
                first=run_ids[0],
            )
        return erased

    def _erase_of(self, run_id: str, eraser: str, why: str) -> int:
        RunReads(self._connection).state(run_id)
        of_run = samples.c.run_id == run_id
        found = self._rows(select(samples.c.sequence, samples.c.kind).where(of_run).order_by(samples.c.sequence))
        if not found:
            return 0
        self._log.write(delete(samples).where(of_run), of=[run_id])
        payload = {"reason": why, "erased": [[row.sequence, str(row.kind)] for row in found]}
        self._log.append(Event("samples", run_id, ERASED, actor=eraser, payload=payload))
        return len(found)


def _asked_at(run_id: str) -> Select[tuple[int]]:
    """The event that recorded which keys were asked for: its sample has keys and no rows."""
    return select(events.c.sequence).where(events.c.entity_id == run_id, events.c.action == ASKED)


def append_with_samples(log: EventLog, event: Event, run_id: str, kept: Iterable[Sequence[SampleRow]]) -> None:
    """Keeps samples and appends the event that recorded them; none of their values gets into it.

    Args:
        kept: Of each kind its rows, or none.
    """
    held = [_held(some, run_id) for some in kept if some]
    if held:
        log.write(insert(samples), [{**each, "sequence": log.next_sequence} for each in held], of=[run_id])
    log.append(event)


def _held(some: Sequence[SampleRow], run_id: str) -> Mapping[str, Any]:
    # There are as many cells as partitions, so these have a shorter form.
    kept = [row.document() if isinstance(row, PartitionCells) else plain(row) for row in some]
    kind, salt = SAMPLE_KINDS[type(some[0])], secrets.token_hex(SALT_BYTES)
    return {"run_id": run_id, "kind": kind, "salt": salt, "body": canonical_json(kept)}


COMMENT_ON = "comment_on"
"""In the event of an approval, the digest of what its note comments on."""


def comment_digest(results: Iterable[GateResult]) -> str:
    """Identifies what is commented on."""
    return document_digest(
        sorted(
            [r.partition.isoformat(), r.gate, r.digest, r.finding, document_digest(dict(r.observed))] for r in results
        )
    )


def gates_of(results: Iterable[GateResult]) -> tuple[str, ...]:
    """The gates that are commented on, each once."""
    return tuple(dict.fromkeys(result.gate for result in results))


def _measured(gated: EventRecord) -> float | None:
    """The processor time of gates."""
    return gated.payload[CORE_MS] / 1000 if CORE_MS in gated.payload else None


class CandidateReads(Queries):
    """Chunks, candidates and gate results of runs."""

    def chunks(self, run_id: str) -> tuple[ChunkRecord, ...]:
        """The chunks of a run that were started, by number. Cost: one index range: one row per chunk of the run."""
        chosen = select(chunk_runs).where(chunk_runs.c.run_id == run_id).order_by(chunk_runs.c.number)
        return tuple(queries.chunk_record(row) for row in self._rows(chosen))

    def pace(self, table: str, *, latest: int = 5) -> Pace | None:
        """The durations of the latest runs of a table; None when no run has ended its gates.

        Cost: one row per chunk of the latest runs, and their events of gates, found by index.
        """
        gated = exists().where(events.c.entity_id == runs.c.run_id, events.c.action == GATES_RECORDED)
        chosen = (
            select(runs.c.run_id)
            .where(runs.c.table_name == table, gated)
            .order_by(runs.c.added_sequence.desc())
            .limit(latest)
        )
        found = {run_id: self.chunks(run_id) for run_id in self._values(chosen)}
        gates = select(events).where(events.c.entity_id.in_(found), events.c.action == GATES_RECORDED)
        gating = {row.entity_id: queries.event_record(row) for row in self._rows(gates.order_by(events.c.sequence))}
        spent = {run_id: self.core_seconds(run_id) for run_id in found}
        earlier = tuple(
            EarlierRun(
                rows=sum(chunk.output_rows or 0 for chunk in chunks),
                partitions=sum(len(chunk.partitions) for chunk in chunks),
                chunks=len(chunks),
                staging_seconds=sum(chunk.seconds for chunk in chunks),
                gating_seconds=seconds_of_gates(gating[run_id]).get(ALL_GATES) or 0.0,
                # A run of which a part was not measured tells nothing of the whole.
                staging_core_seconds=sum(spent[run_id].values())
                if spent[run_id].keys() >= {chunk.number for chunk in chunks}
                else None,
                gating_core_seconds=_measured(gating[run_id]),
            )
            for run_id, chunks in found.items()
        )
        return Pace(runs=earlier) if earlier else None

    def core_seconds(self, run_id: str) -> Mapping[int, float]:
        """The processor time of the chunks of a run that are there, by number, where it was measured.

        Cost: one index range over the events of the run, and its chunks.
        """
        chosen = select(events).where(events.c.entity_id == run_id, events.c.action == CHUNK_FINISHED)
        found = core_seconds_of_chunks(map(queries.event_record, self._rows(chosen.order_by(events.c.sequence))))
        there = set(self._values(select(chunk_runs.c.number).where(chunk_runs.c.run_id == run_id)))
        return {number: seconds for number, seconds in found.items() if number in there}

    def of_run(self, run_id: str) -> dict[date, CandidatePartition]:
        """The staged partitions of a run, in order.

        Cost: one index range: one row per partition of the run, with its file set.
        """
        staged = candidate_partitions
        chosen = select(staged).where(staged.c.run_id == run_id).order_by(staged.c.partition_date)
        return {row.partition_date: queries.candidate(row) for row in self._rows(chosen)}

    def digests(self, run_id: str) -> dict[date, str]:
        """The digests of what a run has staged, by partition. No file sets are read.

        Cost: one index range: one short row per partition of the run.
        """
        held = candidate_partitions
        chosen = select(held.c.partition_date, held.c.files_digest).where(held.c.run_id == run_id)
        return {row.partition_date: row.files_digest for row in self._rows(chosen)}

    def compared(self, run_id: str) -> dict[date, tuple[int | None, str | None]]:
        """The accepted version with which each staged partition was compared, and the digest of its files.

        Cost: one index range: one short row per partition of the run.
        """
        held = candidate_partitions
        chosen = select(held.c.partition_date, held.c.compared_version, held.c.compared_digest)
        found = self._rows(chosen.where(held.c.run_id == run_id))
        return {row.partition_date: (row.compared_version, row.compared_digest) for row in found}

    def replacing_lost(self, run_id: str) -> frozenset[date]:
        """The partitions of a run whose accepted files were gone or damaged when its gates compared it with them.

        Cost: one index range.
        """
        held = candidate_partitions
        chosen = select(held.c.partition_date).where(
            held.c.run_id == run_id, held.c.compared_checksum.startswith(LOST, autoescape=True)
        )
        return frozenset(self._values(chosen))

    def inputs(self, run_id: str) -> dict[date, Mapping[str, str]]:
        """The inputs of each staged partition of a run: by input table, the digest of its window.

        Cost: one index range: one row per partition of the run.
        """
        held = candidate_partitions
        chosen = select(held.c.partition_date, held.c.provenance).where(held.c.run_id == run_id)
        found = self._rows(chosen.order_by(held.c.partition_date))
        return {row.partition_date: inputs_of(provenance_of(row.provenance)) for row in found}

    def row_count(self, run_id: str) -> int:
        """The total number of rows in the staged partitions of a run.

        Cost: one index range, added up in the database.
        """
        staged = candidate_partitions
        (rows_,) = self._values(select(func.sum(staged.c.row_count)).where(staged.c.run_id == run_id))
        return int(rows_ or 0)

    def gate_results(self, run_id: str) -> tuple[GateResult, ...]:
        """The gates' results, by partition and gate.

        Cost: one index range: one row per partition and gate of the run.
        """
        found = gate_results
        chosen = select(found).where(found.c.run_id == run_id).order_by(found.c.partition_date, found.c.gate)
        return tuple(queries.gate_result(row) for row in self._rows(chosen))

    def read_by_gates(self, run_id: str) -> tuple[GateReads, ...]:
        """The inputs that the gates of a run have read besides what it pins, by gate.

        Cost: one index range: one row per gate that reads other tables or references.
        """
        found = gate_reads
        chosen = select(found).where(found.c.run_id == run_id).order_by(found.c.gate)
        return tuple(
            GateReads(
                run_id=run_id,
                gate=row.gate,
                inputs=tuple(map(parse_input, row.inputs)),
                references=tuple(map(PinnedReference.parse, row.reference_versions)),
            )
            for row in self._rows(chosen)
        )

    def every_gate_result(self, tables: Iterable[str]) -> Iterator[GateResult]:
        """The gates' results in the runs of some tables.

        Cost: every gate result of these tables, a page at a time.
        """
        found = gate_results
        chosen = select(found).join(runs, runs.c.run_id == found.c.run_id).where(runs.c.table_name.in_(tuple(tables)))
        yield from map(queries.gate_result, self._streamed(chosen))

    def of_accepted(self, table: str) -> tuple[dict[str, int], tuple[GateResult, ...]]:
        """The gates' results for the accepted rows of a table: the number of partitions, and what failed. Where a
        partition was checked since its run, the check counts.

        Cost: one index range per accepted partition, added up in the database; what failed is read.
        """
        found, held, later = gate_results, partition_versions, checked_gates
        seen = (held.c.run_id == found.c.run_id) & (held.c.partition_date == found.c.partition_date)
        accepted = (held.c.table_name == table) & (held.c.state == VersionState.ACCEPTED)
        same = (later.c.table_name == held.c.table_name) & (later.c.partition_date == held.c.partition_date)
        is_checked = same & (later.c.version == held.c.version)
        not_later = ~exists().where(is_checked, later.c.gate == found.c.gate).correlate(held, found)
        judged: dict[str, int] = {}
        results: list[GateResult] = []
        for by, is_seen, counts in ((found, seen, not_later), (later, is_checked, true())):
            counted = select(by.c.gate, func.count()).join(held, is_seen).where(accepted, counts).group_by(by.c.gate)
            for gate, count in self._columns(counted):
                judged[gate] = judged.get(gate, 0) + count
            columns = [by.c[each.name] for each in found.columns]
            failed = select(*columns).join(held, is_seen).where(accepted, counts, by.c.passed.is_(False))
            results += map(queries.gate_result, self._rows(failed))
        return judged, tuple(sorted(results, key=lambda result: (result.partition, result.gate)))

    def passed_gates(self, run_id: str) -> frozenset[PassedGate]:
        """The gates that passed, or block nothing: partition, name, and the digest of the files that were judged.

        Cost: one index range: one short row per partition and gate that passed.
        """
        found = gate_results
        chosen = select(found.c.partition_date, found.c.gate, found.c.digest).where(
            found.c.run_id == run_id, found.c.passed | ~found.c.blocking
        )
        return frozenset((row.partition_date, row.gate, row.digest) for row in self._rows(chosen))

    def files(self, run_ids: Iterable[str]) -> dict[str, dict[date, FileSet]]:
        """The files of the candidates of these runs, by run and partition.

        Cost: one index range per run: one row per partition, with its file set.
        """
        held = candidate_partitions
        found: dict[str, dict[date, FileSet]] = {}
        chosen = select(held.c.run_id, held.c.partition_date, held.c.files)
        for row in self._rows_with(chosen, held.c.run_id, run_ids):
            found.setdefault(row.run_id, {})[row.partition_date] = row.files
        return found

    def demanded(self, run_id: str) -> tuple[GateResult, ...]:
        """The gate results of a run that its approver has to comment on, by partition and gate.

        Cost: one index range over the gate results of the run; those that failed without blocking are read.
        """
        found = gate_results
        chosen = select(found).where(found.c.run_id == run_id, found.c.passed.is_(False), found.c.blocking.is_(False))
        results = map(queries.gate_result, self._rows(chosen.order_by(found.c.partition_date, found.c.gate)))
        return tuple(result for result in results if result.observed.get(NEEDS_COMMENT))

    def far_from_usual(self, table: str, gate: str, partitions: Iterable[date]) -> dict[date, tuple[str, bool]]:
        """Accepted partitions that a gate on the usual found far from it: on which side, which is empty where it
        compares groups, and whether a person approved them.

        Cost: one index range per accepted partition.
        """
        found, held = gate_results, partition_versions
        seen = (held.c.run_id == found.c.run_id) & (held.c.partition_date == found.c.partition_date)
        chosen = (
            select(found.c.partition_date, found.c.observed, approvals.c.approved_by)
            .join(held, seen)
            .join(approvals, approvals.c.request_id == found.c.run_id)
            .where(held.c.table_name == table, held.c.state == VersionState.ACCEPTED, found.c.gate == gate)
            .where(found.c.finding.in_((Finding.FAR_FROM_USUAL, Finding.FAR_AS_ACCEPTED)))
        )
        return {
            row.partition_date: (row.observed.get(FAR, ""), not (row.approved_by or POLICY).startswith(POLICY))
            for row in self._rows_with(chosen, found.c.partition_date, sorted(partitions))
        }

    def unanswered(self, run_id: str) -> tuple[GateResult, ...]:
        """The demanded results, unless the last approval of the run has commented on exactly these.

        Cost: as `demanded`, and where there are any, the events of the run, by index.
        """
        results = self.demanded(run_id)
        if not results:
            return ()
        given = select(events.c.payload).where(
            events.c.entity_id == run_id, events.c.entity == "approval", events.c.action == "approved"
        )
        last = self._row(given.order_by(events.c.sequence.desc()).limit(1))
        is_given = last is not None and last.payload.get(COMMENT_ON) == comment_digest(results)
        return () if is_given else results


class CandidateWrites(CandidateReads, Writes):
    """Chunks, candidates and gate results. A candidate only changes while its run is STAGING."""

    def __init__(self, log: EventLog) -> None:
        super().__init__(log)
        self._runs = RunReads(log.connection)

    def start_chunk(self, run_id: str, number: int, partitions: Sequence[date], *, attempt: str) -> None:
        """A chunk is being computed, for the first time or again.

        Cost: three primary key lookups, the row of the chunk, and one event.
        """
        self._runs.require_holder(run_id, attempt)
        self._must_be(run_id, RunState.STAGING, f"start chunk {number}")
        present = self._row(select(chunk_runs.c.state).where(_chunk(run_id, number)))
        begun = {
            "partitions": queries.texts_of(tuple(partitions)),
            "started_at": self._log.now,
            "finished_at": None,
            "attempt": attempt,
            "checksum": "",
            "seam_checksum": "",
        }
        payload = {"number": number, "partitions": len(partitions), "attempt": attempt}
        running = str(ChunkState.RUNNING)
        event = Event("chunk", run_id, "chunk_started", actor=SYSTEM, to_state=running, payload=payload)
        if present is not None:
            step = _chunk_step(run_id, number, present.state, ChunkState.RUNNING)
            self._log.change(step, event, also={**begun, "input_rows": None, "output_rows": None})
            return
        started = insert(chunk_runs).values(run_id=run_id, number=number, state=ChunkState.RUNNING, **begun)
        self._log.write(started, of=[(run_id, number)])
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
        core_ms: int | None = None,
    ) -> None:
        """A chunk is computed; its candidates take the place of earlier ones of the same partitions.

        Cost: three primary key lookups, one row per partition of the chunk in place of another, and one event.

        Args:
            output_rows: Of what it staged.
            checksum: Of its rows, if it is a snapshot that the next chunk continues.
            seam_checksum: Of what was computed of its neighbours and not staged, if there is anything.
            core_ms: The processor time that it took.
        """
        self._runs.require_holder(run_id, attempt)
        self._must_have_started(run_id, number, attempt)
        self._must_be(run_id, RunState.STAGING, f"finish chunk {number}")
        staged = tuple(candidates)
        _must_belong(run_id, staged)
        self._replace_candidates(run_id, number, staged)
        measured = {
            "input_rows": input_rows,
            "output_rows": output_rows,
            "checksum": checksum,
            "seam_checksum": seam_checksum,
        }
        files = document_digest([[c.partition.isoformat(), c.files.digest] for c in staged])
        payload = {"number": number, **measured, "partitions": len(staged), "files_digest": files}
        payload |= {} if core_ms is None else {CORE_MS: core_ms}
        self._log.change(
            _chunk_step(run_id, number, ChunkState.RUNNING, ChunkState.DONE),
            Event("chunk", run_id, CHUNK_FINISHED, actor=SYSTEM, payload=payload),
            also={**measured, "finished_at": self._log.now},
        )

    def _replace_candidates(self, run_id: str, chunk: int, staged: tuple[CandidatePartition, ...]) -> None:
        held = candidate_partitions
        for batch in batches(candidate.partition for candidate in staged):
            judged = (gate_results.c.run_id == run_id) & gate_results.c.partition_date.in_(batch)
            self._log.write(delete(gate_results).where(judged), of=[run_id])
            before = (held.c.run_id == run_id) & held.c.partition_date.in_(batch)
            self._log.write(delete(held).where(before), of=self._chunks_of(before))
        if staged:
            staged_rows = [queries.row_of(each, files_digest=each.files.digest, chunk=chunk) for each in staged]
            self._log.write(insert(held), staged_rows, of=[(run_id, chunk)])

    def _chunks_of(self, candidates: ColumnElement[bool]) -> list[tuple[str, int]]:
        """The chunks that have staged these candidates, each with its run."""
        held = candidate_partitions
        chosen = select(held.c.run_id, held.c.chunk).where(candidates).distinct()
        return [(run_id, chunk) for run_id, chunk in self._columns(chosen)]

    def _must_have_started(self, run_id: str, number: int, attempt: str) -> None:
        row = self._row(select(chunk_runs.c.attempt).where(_chunk(run_id, number)))
        if row is None or row.attempt != attempt:
            raise LostWork(
                name=f"chunk {number} of run {run_id}",
                why="another process started it again",
                of={"run_id": run_id, "chunk": number},
            )

    def clear(self, run_id: str, *, keep: Iterable[int] = ()) -> None:
        """Forgets the chunks, candidates and gate results of a run, so that it can be staged.

        Cost: one row per chunk, partition and gate result of the run, by index, and one event.

        Args:
            run_id: A run that readers do not see.
            keep: Numbers of finished chunks whose candidates are not staged again.

        Raises:
            IllegalTransition: It is being published or was, and they are its evidence.
        """
        state = self._runs.state(run_id)
        if state in VISIBLE:
            raise UnfitState(name=run_id, state=state, why="its candidates are its evidence and are kept")
        kept = tuple(sorted(keep))
        self._log.write(delete(gate_results).where(gate_results.c.run_id == run_id), of=[run_id])
        self._log.write(delete(gate_reads).where(gate_reads.c.run_id == run_id), of=[run_id])
        staged = (candidate_partitions.c.run_id == run_id) & candidate_partitions.c.chunk.not_in(kept)
        self._log.write(delete(candidate_partitions).where(staged), of=self._chunks_of(staged))
        gone = (chunk_runs.c.run_id == run_id) & chunk_runs.c.number.not_in(kept)
        numbers = self._values(select(chunk_runs.c.number).where(gone))
        self._log.write(delete(chunk_runs).where(gone), of=[(run_id, number) for number in numbers])
        payload = {"kept_chunks": list(kept)} if kept else {}
        self._log.append(Event("candidates", run_id, "candidates_cleared", actor=SYSTEM, payload=payload))

    def record_gates(
        self,
        run_id: str,
        candidates: Iterable[CandidatePartition],
        results: Iterable[GateResult],
        *,
        actor: str,
        attempt: str,
        reads: Iterable[GateReads] = (),
        samples: Iterable[Sequence[SampleRow]] = (),
        took_ms: Mapping[str, int] | None = None,
        core_ms: int | None = None,
    ) -> None:
        """Records the measures of the gates, in place of the run's earlier results.

        Cost: one row per partition of the run, and one per partition and gate in place of another; one event.

        Args:
            run_id: A run that is GATING.
            candidates: Staged partitions with what measuring adds: checksum, and compared version, digest and checksum.
            results: One per partition and gate.
            attempt: Names the process that has the run.
            reads: What gates have read besides what the run pins.
            samples: By kind, values of rows for reviewers: the only place for them, because it can be erased.
            took_ms: How long the stages of gating took, by name, for the report.
            core_ms: The processor time that they took together.
        """
        self._runs.require_holder(run_id, attempt)
        self._must_be(run_id, RunState.GATING, "record its gates")
        measured, found = tuple(candidates), tuple(results)
        _must_belong(run_id, (*measured, *found))
        self._must_be_staged(run_id, measured, found)
        self._update_measured(run_id, measured)
        self._log.write(delete(gate_results).where(gate_results.c.run_id == run_id), of=[run_id])
        if found:
            self._log.write(insert(gate_results), [queries.row_of(result) for result in found], of=[run_id])
        self._log.write(delete(gate_reads).where(gate_reads.c.run_id == run_id), of=[run_id])
        if read := [_row_of_reads(each) for each in reads if each.inputs or each.references]:
            self._log.write(insert(gate_reads), read, of=[run_id])
        payload = {
            "partitions": len(measured),
            "results": len(found),
            "blocking_failures": sum(1 for each in found if each.blocking and not each.passed),
            **({TOOK_MS: dict(took_ms)} if took_ms else {}),
            **({} if core_ms is None else {CORE_MS: core_ms}),
        }
        event = Event("gates", run_id, GATES_RECORDED, actor=actor, payload=payload)
        append_with_samples(self._log, event, run_id, samples)

    def _update_measured(self, run_id: str, measured: tuple[CandidatePartition, ...]) -> None:
        if not measured:
            return
        held = candidate_partitions
        self._log.write(
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
            of=self._chunks_of(held.c.run_id == run_id),
        )

    def _must_be_staged(
        self, run_id: str, measured: tuple[CandidatePartition, ...], found: tuple[GateResult, ...]
    ) -> None:
        staged = self.digests(run_id)
        other = {each.partition for each in measured if staged.get(each.partition) != each.files.digest}
        other.update(result.partition for result in found if result.partition not in staged)
        if other:
            raise Refused.coded(
                "not_what_was_staged",
                "the gates of run {run_id} measured files that are not the staged ones, for {partitions}.",
                then="[run {run_id}]",
                run_id=run_id,
                partitions=first_few(sorted(other)),
            )

    def _must_be(self, run_id: str, wanted: RunState, act: str) -> None:
        state = self._runs.state(run_id)
        if state is not wanted:
            raise UnfitState(name=run_id, state=state, why=f"to {act} it must be {wanted}")


def _row_of_reads(reads: GateReads) -> Mapping[str, object]:
    inputs = [input_document(each) for each in reads.inputs]
    return {"run_id": reads.run_id, "gate": reads.gate, "inputs": inputs, "reference_versions": plain(reads.references)}


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
    )

"""How are a candidate's gates evaluated, and where do the results go?

What is measured is what was written: the staged files are read back. Results go to the ledger, which decides about
publication, and to the table behind `validation/<name>`, which people query.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from pyspark.sql import DataFrame

from backfill_assets.candidates.at_work import Work, at_work
from backfill_assets.candidates.inputs import require_read_as_staged
from backfill_assets.candidates.prove import prove
from backfill_assets.columns import differing_columns
from backfill_assets.crash_points import Point
from backfill_assets.domain import Gate, Table, WarmUpProof
from backfill_assets.gates.failing import failing_keys
from backfill_assets.gates.judge import judge
from backfill_assets.gates.measure import Measured, measure
from backfill_assets.gates.proven import Proven
from backfill_assets.gates.sample import SampledRow, most_moved, sample_rows
from backfill_assets.gates.terms import require_agreed_gates
from backfill_assets.identity import EMPTY_FILE_SET, FileSet, canonical_json, document_digest
from backfill_assets.lake.checksums import NO_ROWS
from backfill_assets.lake.evidence import ValidationRow, append_validation
from backfill_assets.lake.snapshot import read_files
from backfill_assets.lake.staging import footer_columns
from backfill_assets.lease import LeaseTerms
from backfill_assets.ledger.records import (
    CandidatePartition,
    ChunkRecord,
    GateResult,
    PartitionVersion,
    Sample,
    SampleKind,
)
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.partitions import count_of, describe
from backfill_assets.planning.stages import Prove, measuring
from backfill_assets.progress import Listener, Progress, no_listener
from backfill_assets.transforms.schemas import business_schema, stored_schema
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """What the gates of a run found.

    Attributes:
        results: One per gate and partition.
        sample: Some rows that would change, before and after.
        failing: Keys of some rows that fail a gate, with the gate.
        passed: Whether every blocking gate passed in every partition.
    """

    run_id: str
    results: tuple[GateResult, ...]
    sample: tuple[SampledRow, ...]
    failing: tuple[Mapping[str, Any], ...]
    passed: bool


def gate_run(ws: Workspace, run_id: str, *, actor: str, listener: Listener = no_listener) -> Evaluated:
    """Measures a staged run against its gates and against the accepted rows.

    Raises:
        UnknownName: There is no such run.
        IllegalTransition: The run has not been staged.
        MissingInput: Staged or accepted files are gone.
        ContractBroken: The table declares other gates than the manifest agreed.
        InputsMovedOn: It was computed from candidates of its set that have been staged again since.
        AtWork: Another process is at work on it, and its lease has not ended.
        TakenOver: Another process has the run by now, or it was given up or cancelled.
        WrongSession: The Spark session gives rows another meaning.
    """
    ws.spark()
    attempt = secrets.token_hex(4)
    lease = LeaseTerms(attempt=attempt, length=ws.settings.lease)
    with ws.ledger.write() as writer:
        run = writer.run(run_id)
        manifest = run.manifest
        table = ws.domain.table(manifest.table)
        if run.state not in (RunState.STAGED, RunState.GATING):
            # What was gated before keeps its results; a run that waits for its gates can get none, and fails below.
            require_agreed_gates(manifest, table)
        require_read_as_staged(writer, ws.graph, manifest)
        writer.take_run(run_id, RunState.GATING, actor=actor, attempt=attempt, lease=lease.length)
        candidates = writer.candidates(run_id)
        accepted = writer.accepted(manifest.table, manifest.partitions)
        earlier = writer.gate_results(run_id)
        chunks = writer.chunks(run_id)
    ws.reached(Point.GATE_BEGUN)
    with at_work(ws, Work(run_id=run_id, actor=actor, lease=lease, doing=f"measured {manifest.table}")):
        require_agreed_gates(manifest, table)
        listener(_progress(manifest, 0, f"measuring {count_of(len(candidates), manifest.grain.noun)}"))
        evaluated, compared = _evaluate(ws, manifest, candidates, accepted, earlier, chunks, listener)
        append_validation(
            ws.lake,
            manifest.table,
            _validation_rows(manifest, evaluated.results),
            app_id=f"validation:{run_id}:{_attempt(compared.values())}",
        )
        ws.reached(Point.GATE_APPENDED)
        failed = sorted({r.gate for r in evaluated.results if r.blocking and not r.passed})
        with ws.ledger.write() as writer:
            changed = Sample(kind=SampleKind.CHANGED_ROWS, rows=tuple(row.document() for row in evaluated.sample))
            failing = Sample(kind=SampleKind.FAILING_KEYS, rows=evaluated.failing)
            writer.record_gates(
                run_id, compared.values(), evaluated.results, actor=actor, attempt=attempt, samples=(changed, failing)
            )
            writer.move_run(
                run_id,
                RunState.BLOCKED if failed else RunState.PASSED,
                actor=actor,
                attempt=attempt,
                note=f"blocked by {', '.join(failed)}" if failed else "",
            )
    ws.reached(Point.GATE_RECORDED)
    listener(_progress(manifest, len(candidates), "blocked" if failed else "every blocking gate passed"))
    return evaluated


def _progress(manifest: Manifest, done: int, sentence: str) -> Progress:
    return Progress(step="gate", done=done, total=len(manifest.partitions), sentence=sentence)


def _attempt(candidates: Iterable[CandidatePartition]) -> str:
    """Names exactly what was measured against what, so that writing the same results twice adds nothing."""
    measured = [[c.partition.isoformat(), c.files.digest, c.compared_digest or ""] for c in candidates]
    return document_digest(measured)[:16]


def _evaluate(
    ws: Workspace,
    manifest: Manifest,
    candidates: Mapping[date, CandidatePartition],
    accepted: Mapping[date, PartitionVersion],
    earlier: Sequence[GateResult],
    chunks: Sequence[ChunkRecord],
    listener: Listener,
) -> tuple[Evaluated, Mapping[date, CandidatePartition]]:
    table = ws.domain.table(manifest.table)
    schema = business_schema(table)
    staged_files = {p: c.files for p, c in candidates.items()}
    accepted_files = {p: v.files for p, v in accepted.items()}
    staged = _read(ws, table, staged_files.values())
    old = _read(ws, table, accepted_files.values()) if any(v.files.files for v in accepted.values()) else None
    measured = measure(staged, old, table, schema=schema)
    gates, kept = _still_valid(table, candidates, earlier)
    proven: Sequence[Proven] | None = None
    proofs = [stage for stage in measuring(manifest, ws.graph) if isinstance(stage, Prove)]
    if proofs and any(isinstance(gate, WarmUpProof) for gate in gates):
        if again := proofs[0].compared:
            listener(_progress(manifest, 0, f"proving the window on {describe(manifest.grain, again)}"))
        proven = prove(ws, manifest, table, proofs[0], staged_files, measured, chunks)
    wrong_columns = _wrong_columns(ws, table, staged_files)
    results = (*judge(gates, candidates.values(), measured, wrong_columns, proven), *kept)
    compared = {
        partition: replace(
            candidate,
            checksum=measured[partition].checksum if partition in measured else NO_ROWS,
            compared_version=accepted[partition].version if partition in accepted else 0,
            compared_digest=(accepted_files.get(partition) or EMPTY_FILE_SET).digest,
            compared_checksum=measured[partition].accepted_checksum if partition in measured else NO_ROWS,
        )
        for partition, candidate in candidates.items()
    }
    evaluated = Evaluated(
        run_id=manifest.run_id,
        results=results,
        sample=_sample(ws, table, measured, staged_files, accepted_files),
        failing=failing_keys(staged, old, table, results, proven or ()),
        passed=all(result.passed or not result.blocking for result in results),
    )
    return evaluated, compared


def _still_valid(
    table: Table, candidates: Mapping[date, CandidatePartition], earlier: Iterable[GateResult]
) -> tuple[tuple[Gate, ...], tuple[GateResult, ...]]:
    """The gates to measure, and earlier results that hold: a proof of exactly these files is not done twice.

    Gating again is for a target that has changed, which the proof does not depend on.
    """
    proofs = [gate for gate in table.gates if isinstance(gate, WarmUpProof)]
    kept = tuple(
        result
        for result in earlier
        if any(result.gate == gate.name for gate in proofs)
        and result.partition in candidates
        and result.digest == candidates[result.partition].files.digest
    )
    if not proofs or len(kept) < len(candidates):
        return table.gates, ()
    return tuple(gate for gate in table.gates if gate not in proofs), kept


def _read(ws: Workspace, table: Table, file_sets: Iterable[FileSet]) -> DataFrame:
    return read_files(
        ws.spark(),
        ws.lake,
        table.name,
        file_sets,
        schema=business_schema(table),
        partition_column=table.partition.column,
    )


def _sample(
    ws: Workspace,
    table: Table,
    measured: Mapping[date, Measured],
    staged: Mapping[date, FileSet],
    accepted: Mapping[date, FileSet],
) -> tuple[SampledRow, ...]:
    chosen = [p for p in most_moved(measured) if p in accepted]
    if not chosen:
        return ()
    return sample_rows(
        _read(ws, table, (staged[p] for p in chosen)), _read(ws, table, (accepted[p] for p in chosen)), table
    )


def _wrong_columns(ws: Workspace, table: Table, staged: Mapping[date, FileSet]) -> Mapping[date, str]:
    """Partitions with a file whose own footer declares other columns than the table, with a sentence about it."""
    declared = tuple(
        (field.name, json.dumps(field.dataType.jsonValue()))
        for field in stored_schema(table).fields
        if field.name != table.partition.column
    )
    wrong: dict[date, str] = {}
    for partition, file_set in staged.items():
        for columns, path in footer_columns(ws.lake, table.name, [file_set]).items():
            if columns != declared:
                wrong[partition] = (
                    f"{path} has other columns than declared: {differing_columns(_plain(columns), _plain(declared))}"
                )
    return wrong


def _plain(columns: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
    return [(name, kind.strip('"')) for name, kind in columns]


def _validation_rows(manifest: Manifest, results: Iterable[GateResult]) -> Iterable[ValidationRow]:
    return (
        ValidationRow(
            partition=result.partition,
            run_id=result.run_id,
            gate=result.gate,
            blocking=result.blocking,
            passed=result.passed,
            verdict=result.verdict,
            observed=canonical_json(dict(result.observed)),
            file_set_digest=result.digest,
            transform_version=manifest.transform_version,
        )
        for result in results
    )

"""Evaluation of a candidate's gates, and the proof of its window.

The staged files are read back, so that what is measured is what was written. Results are recorded in the ledger, which
decides about publication, and in the table behind `validation/<name>`, which people query.

The proof recomputes some partitions with more input than they were staged with, later and in another number of tasks;
the rows must be the same. What chunks compute of their neighbours is computed while they are staged, and its checksum
is recorded. The ends of the run are computed here, in the same way as staging: the calls that the stage lists, from
files that were pinned when the run was planned. Rows are compared only where checksums differ.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from itertools import groupby

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill_assets.calendar.partitions import count_of, describe
from backfill_assets.candidates.compare import ComparedFiles, compare_partitions, rows_asked_for, sample_partitions
from backfill_assets.candidates.compute import (
    MergedRows,
    PilotedRows,
    derived_rows,
    pinned_snapshot,
    require_same_code,
    returned_rows,
    unreadable_by,
)
from backfill_assets.candidates.expiring import all_removed, expiring
from backfill_assets.candidates.failing_rows import GateQueries, counted, examples, measuring_run
from backfill_assets.candidates.inputs import pinned_files, require_merged_with_present, require_read_as_staged
from backfill_assets.candidates.rows import accepted_checksums, lost_partitions, recorded_checksums, rows_of
from backfill_assets.candidates.run_lease import LeasedRun, holding_lease
from backfill_assets.candidates.usual import NOT_ASKED, MeasuredSides, UsualMeasures, as_usual
from backfill_assets.core.columns import differing_columns
from backfill_assets.core.crash_points import Point
from backfill_assets.core.grouped import grouped
from backfill_assets.core.identity import EMPTY_FILE_SET, FileSet, canonical_json, document_digest
from backfill_assets.core.lease import LeaseTerms
from backfill_assets.core.progress import Listener, Progress, no_listener
from backfill_assets.core.spark import processor_clock
from backfill_assets.core.tariff import ProcessorClock
from backfill_assets.domain import Breakdown, DerivedTable, Failing, Gate, Table, WarmUpProof
from backfill_assets.gates.agreed import gates_of, require_agreed_gates
from backfill_assets.gates.judge import Findings, StateAgain, Verdict, judge
from backfill_assets.gates.measure import (
    Cells,
    break_down,
    breakdown_of,
    cells_to_keep,
    compare,
    contents,
    declared_by,
    measure,
    row_changes,
)
from backfill_assets.gates.measured import Measured, MergedPartition, PilotedPartition, Proven, equal_partitions
from backfill_assets.gates.sample import MOST_KEYS, failing_keys, most_moved, sample_rows
from backfill_assets.lake.append import ValidationRow, append_validation
from backfill_assets.lake.checksums import NO_ROWS, joined, partition_checksums
from backfill_assets.lake.staging import columns_declared, footer_columns
from backfill_assets.lake.tables import follows_in_swap
from backfill_assets.ledger.events import ALL_GATES
from backfill_assets.ledger.findings import BreakdownCell, FailingKey, Finding, GateResult, RowChanges, SampledRow
from backfill_assets.ledger.records import LOST, OTHER_COLUMNS, CandidatePartition, ChunkRecord, PartitionVersion
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.kinds.change import Scope
from backfill_assets.planning.kinds.merge import Merge
from backfill_assets.planning.manifest import Manifest, node_of
from backfill_assets.planning.manifest_parts import Mode, PinnedInput, RunPurpose
from backfill_assets.planning.stages import (
    Measure,
    Prove,
    Reads,
    Recomputation,
    compared_by,
    computing,
    reads_of,
    starts_from,
)
from backfill_assets.transforms.schemas import business_schema, former_columns_of, other_columns, stored_schema
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """The results of the gates of a run."""

    run_id: str
    results: tuple[GateResult, ...]  #: One per gate and partition.
    #: Some rows that would change, before and after, or that are there for the first time.
    sample: tuple[SampledRow, ...]
    failing: tuple[FailingKey, ...]  #: Keys of some rows that fail a gate, with the gate.
    passed: bool  #: True if every blocking gate passed in every partition.


@dataclass(kw_only=True)
class GateEvaluation:
    """One process that evaluates the gates of a run: what it has read, and what it has found so far."""

    ws: Workspace
    manifest: Manifest
    table: Table
    attempt: str  #: Names this attempt; it is part of everything that is written for it.
    listener: Listener
    candidates: Mapping[date, CandidatePartition]
    #: The accepted versions of the run's partitions, with which the candidate is compared.
    accepted: Mapping[date, PartitionVersion]
    chunks: Sequence[ChunkRecord]
    gates: tuple[Gate, ...]  #: The gates to measure; results that are still valid are in `kept`.
    kept: tuple[GateResult, ...]
    found: Findings  #: What its stages have found so far, which the gates judge.
    sample: tuple[SampledRow, ...] = ()  #: Some rows that would change, before and after.
    asked: GateQueries | None = None  #: What the gates on rows that fail were asked of; None where there are none.
    usual: UsualMeasures = NOT_ASKED  #: What was found of the usual.
    took_ms: dict[str, int] = field(default_factory=dict)  #: How long its stages took, by name.
    began: float = field(default_factory=time.monotonic)  #: When it began, by a clock that never goes back.
    evaluated: Evaluated | None = None
    clock: ProcessorClock = field(init=False)  #: The processor time since then.

    def __post_init__(self) -> None:
        self.clock = processor_clock(self.ws.settings)

    @cached_property
    def staged_files(self) -> Mapping[date, FileSet]:
        """The staged files by partition."""
        return {partition: candidate.files for partition, candidate in self.candidates.items()}

    @cached_property
    def accepted_files(self) -> Mapping[date, FileSet]:
        """The accepted files by partition."""
        return {partition: version.files for partition, version in self.accepted.items()}

    @cached_property
    def lost(self) -> Mapping[date, PartitionVersion]:
        """The accepted versions whose files are gone or damaged: they are compared by what was recorded of them."""
        repairs = self.manifest.kind is RunPurpose.REPAIR
        return lost_partitions(self.ws, self.table, self.accepted, repairs=repairs)

    @cached_property
    def otherwise(self) -> Mapping[date, PartitionVersion]:
        """The accepted versions whose columns were declared otherwise: none of their rows can be compared."""
        if (former := former_columns_of(self.ws.lake, self.table)) is None:
            return {}
        former.require_replaced(self.manifest.partitions)
        return {p: version for p, version in self.accepted.items() if version.files.files and p not in self.lost}

    @cached_property
    def staged_rows(self) -> DataFrame:
        """The staged rows, read back."""
        return rows_of(self.ws, self.table, self.staged_files.values())

    @cached_property
    def sides(self) -> ComparedFiles:
        """The files of both sides that can be read."""
        unread = self.lost.keys() | self.otherwise.keys()
        accepted = {p: files for p, files in self.accepted_files.items() if p not in unread}
        return ComparedFiles(ws=self.ws, table=self.table, staged=self.staged_files, accepted=accepted)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Keeps how long a stage takes."""
        began = time.monotonic()
        yield
        self.took_ms[stage] = round((time.monotonic() - began) * 1000)

    def report(self, done: int, sentence: str) -> None:
        """Reports progress."""
        total, table = len(self.manifest.partitions), self.manifest.table
        self.listener(Progress(step="gate", done=done, total=total, line=sentence, table=table))


@contextmanager
def gate_evaluation(
    ws: Workspace, run_id: str, *, actor: str, listener: Listener = no_listener
) -> Iterator[GateEvaluation]:
    """Takes a staged run to evaluate its gates; when the block ends, judges the measurements and records the results.

    Raises:
        UnknownName: There is no such run.
        IllegalTransition: The run has not been staged.
        MissingInput: Staged or accepted files do not exist any more.
        ContractBroken: The table declares other gates than the manifest, or the code is not that of it.
        InputsMovedOn: It was computed from candidates of its set that have been staged again since.
        AtWork: Another process holds its lease.
        TakenOver: Another process has taken over the run, or it was abandoned or cancelled.
        WrongSession: The Spark session gives rows another meaning.
    """
    with ws.ledger.read() as tx:
        before = tx.runs.get(run_id)
    if before.manifest.computed and before.state in (RunState.STAGED, RunState.GATING):
        # Required columns, and the measures that gates add up, are declared beside the function.
        require_same_code(ws, before.manifest)
    session = ws.spark() if before.manifest.computed else None
    lease = LeaseTerms(attempt=secrets.token_hex(4), length=ws.settings.lease)
    with ws.ledger.write() as tx:
        run = tx.runs.get(run_id)
        manifest = run.manifest
        table = ws.domain.table(manifest.table)
        if run.state not in (RunState.STAGED, RunState.GATING):
            # A run that was gated before keeps its results; one that waits for its gates fails below.
            require_agreed_gates(manifest, table, ws.code.gate_digests(table))
        require_read_as_staged(tx, ws.graph, manifest)
        require_merged_with_present(tx, manifest)
        tx.runs.take(run_id, RunState.GATING, actor=actor, attempt=lease.attempt, lease=lease.length)
        candidates = tx.candidates.of_run(run_id)
        gates, kept = _still_valid(gates_of(table, manifest.change), candidates, tx.candidates.gate_results(run_id))
        accepted = tx.versions.accepted(manifest.table, manifest.partitions)
        work = GateEvaluation(
            ws=ws,
            manifest=manifest,
            table=table,
            attempt=lease.attempt,
            listener=listener,
            candidates=candidates,
            accepted=accepted,
            chunks=tx.candidates.chunks(run_id),
            gates=gates,
            kept=kept,
            found=Findings(new=candidates.keys() - accepted.keys()),
        )
    ws.reached(Point.GATE_BEGUN)
    leased = LeasedRun(manifest=manifest, table=table, actor=actor, session=session, lease=lease, doing="measured")
    with holding_lease(ws, leased):
        require_agreed_gates(manifest, table, ws.code.gate_digests(table))
        yield work
        _record(work, actor=actor)
    ws.reached(Point.GATE_RECORDED)
    assert work.evaluated is not None
    work.report(len(candidates), "every blocking gate passed" if work.evaluated.passed else "blocked")


def measure_candidate(work: GateEvaluation, stage: Measure) -> None:
    """Measures the staged rows, read back from their files, and compares them with the accepted ones.

    Accepted rows are read only of partitions whose checksums differ.
    """
    work.report(0, f"measuring {count_of(len(stage.partitions), stage.grain.noun)}")
    work.gates = tuple(gate for gate in work.gates if gate.name in stage.gates)
    if not work.manifest.computed:
        removed = {p: all_removed(p, work.accepted.get(p)) for p in work.candidates}
        with work.ws.ledger.read() as tx:
            work.found = replace(work.found, measured=removed, expiring=expiring(work.ws, tx, work.manifest))
        return
    with work.timed("measure"):
        work.found = _measured(work)
    if asked := _asked(work):
        with work.timed("rows that fail"):
            work.asked, work.found = asked, replace(work.found, failing=counted(asked))
            # A function can assign names of its module, or change what they hold.
            require_agreed_gates(work.manifest, work.table, work.ws.code.gate_digests(work.table))
    work.sample = (*_sample(work), *rows_asked_for(work.ws, work.manifest, work.sides))


def _measured(work: GateEvaluation) -> Findings:
    """Measures the staged rows and their files beside the accepted ones."""
    ws, table = work.ws, work.table
    breakdown = breakdown_of(table)
    found = contents(work.staged_rows, table, schema=business_schema(table), breakdown=breakdown)
    readable = {p: version for p, version in work.accepted.items() if p not in work.lost and p not in work.otherwise}
    before = {**accepted_checksums(ws, table, readable), **recorded_checksums(table, work.lost)}
    equal = equal_partitions(found, before)
    sides = replace(work.sides, accepted={p: f for p, f in work.sides.accepted.items() if p not in equal})
    measured = _with_lost(work, compare(found, before, compare_partitions(sides), table), equal)
    derived = table if isinstance(table, DerivedTable) else None
    cells: tuple[BreakdownCell, ...] = ()
    then: Cells = {}
    if breakdown is not None:
        after = {partition: each.cells for partition, each in found.items()}
        then = _accepted_cells(work, {partition: after[partition] for partition in equal}, before, breakdown)
        cells = break_down(then, after, breakdown, new=work.found.new)
    both = MeasuredSides(staged=found, accepted=work.accepted, cells=then)
    work.usual = as_usual(ws, work.manifest, table, work.gates, both)
    found_so_far = Findings(
        new=work.found.new,
        measured=measured,
        wrong_columns={**_unreadable(ws, table, work.staged_files), **_wrong_columns(ws, table, work.staged_files)},
        cells=cells,
        changes=_row_changes(work, breakdown, readable.keys() - equal) if breakdown else (),
        again=_state_again(work, derived, measured) if derived and derived.state is not None else None,
        usual=work.usual.verdicts,
    )
    return _beside_accepted(work, found_so_far)


def _beside_accepted(work: GateEvaluation, found: Findings) -> Findings:
    """With what is measured against the accepted rows that a change merges with or keeps."""
    return work.manifest.change.content(
        computed=lambda: found,
        merged=lambda merge: replace(found, merged=_measured_merge(work, merge)),
        piloted=lambda scope: replace(found, piloted=_measured_pilot(work, scope)),
    )


def _asked(work: GateEvaluation) -> GateQueries | None:
    """The rows that the gates on failing rows examine; None where the table declares no such gates."""
    gates = [gate for gate in work.gates if isinstance(gate, Failing)]
    # Rows of which the files are lost are known where the candidate has exactly them.
    unread, known = {*work.lost, *work.otherwise}, _as_recorded(work)
    accepted = (*work.sides.accepted.values(), *(work.staged_files[p] for p in sorted(known)))
    return measuring_run(
        work.ws,
        work.manifest,
        work.table,
        gates,
        candidate=lambda: work.staged_rows,
        accepted=lambda: rows_of(work.ws, work.table, accepted, as_readers_see=True),
        unread=sorted(unread - known),
    )


def _as_recorded(work: GateEvaluation) -> set[date]:
    """The lost partitions of which the candidate has exactly the rows that were recorded."""
    found = work.found.measured
    return {p for p, checksum in recorded_checksums(work.table, work.lost).items() if found[p].checksum == checksum}


def _with_lost(
    work: GateEvaluation, measured: Mapping[date, Measured], equal: Collection[date]
) -> Mapping[date, Measured]:
    """The measurements, with partitions whose accepted files are lost: of these only the recorded checksum and number
    of rows are known, so that every key counts as another one where the rows are not those that were recorded."""
    lost: dict[date, Measured] = {}
    for partition, version in work.lost.items():
        found = measured.get(partition) or Measured(partition=partition, checksum=NO_ROWS)
        if partition not in equal:
            found = replace(found, accepted_rows=version.rows, removed=version.rows)
        lost[partition] = replace(found, accepted_checksum=f"{LOST}{version.checksum}")
    for partition, version in work.otherwise.items():
        found = measured.get(partition) or Measured(partition=partition, checksum=NO_ROWS)
        found = replace(found, accepted_rows=version.rows, removed=version.rows)
        lost[partition] = replace(found, accepted_checksum=f"{OTHER_COLUMNS}{version.checksum}")
    return {**measured, **lost}


def _row_changes(work: GateEvaluation, breakdown: Breakdown, differing: Iterable[date]) -> tuple[RowChanges, ...]:
    """The changes of the measure on which a table declares a tolerance; nothing where it declares none."""
    table = work.table
    if not isinstance(table, DerivedTable) or table.tolerance is None or work.found.new:
        return ()
    chosen = tuple(sorted(differing))
    if not chosen:
        return ()
    return row_changes(*work.sides.of(chosen).frames(), table, breakdown, table.tolerance)


def _accepted_cells(work: GateEvaluation, equal: Cells, before: Mapping[date, str], breakdown: Breakdown) -> Cells:
    """The cells of the accepted rows: of equal partitions those of the candidate; of others those that were kept of
    their files, or else of their rows, which are read."""
    accepted = {p: version for p, version in work.accepted.items() if p not in equal and version.files.files}
    declared = declared_by(breakdown)
    with work.ws.ledger.read() as tx:
        found = tx.samples.partition_cells(version.run_id for version in accepted.values())
    kept = {(each.partition, each.files): each for each in found if each.declared == declared}
    known = dict(equal) | {
        partition: cells.cells
        for partition, version in accepted.items()
        for cells in [kept.get((partition, version.files.digest))]
        # Of files that were altered, and of those of an earlier contract, the rows count.
        if cells is not None and before.get(partition) == version.checksum
    }
    read = [
        v.files
        for partition, v in accepted.items()
        if partition not in known.keys() | work.lost.keys() | work.otherwise.keys()
    ]
    if not read:
        return known
    rows = rows_of(work.ws, work.table, read, as_readers_see=True)
    counted = contents(rows, work.table, schema=business_schema(work.table), breakdown=breakdown)
    return {**known, **{partition: each.cells for partition, each in counted.items()}}


def _measured_merge(work: GateEvaluation, merge: Merge) -> Mapping[date, MergedPartition]:
    """The changes of a run, computed once more and compared with what was staged, chunk by chunk."""
    ws, manifest, table = work.ws, work.manifest, work.ws.domain.derived_table(work.manifest.table)
    require_same_code(ws, manifest)
    with ws.ledger.read() as tx:
        files = pinned_files(tx, manifest.run_id, manifest.pinned)
    found: dict[date, MergedPartition] = {}
    for stage in computing(manifest, ws.graph):
        partitions = stage.chunk.partitions
        reads = reads_of(node_of(manifest), ws.graph, partitions)
        changes = returned_rows(ws, manifest, table, partitions, reads, files)
        merged = MergedRows(
            ws=ws, manifest=manifest, change=merge, table=table, partitions=partitions, files=files, changes=changes
        )
        found |= merged.measured(rows_of(ws, table, (work.staged_files[p] for p in partitions)))
    return found


def _measured_pilot(work: GateEvaluation, scope: Scope) -> Mapping[date, PilotedPartition]:
    """The staged rows outside of the scope, compared with the pinned ones."""
    ws, manifest, table = work.ws, work.manifest, work.ws.domain.derived_table(work.manifest.table)
    with ws.ledger.read() as tx:
        files = pinned_files(tx, manifest.run_id, manifest.pinned)
    piloted = PilotedRows(ws=ws, scope=scope, table=table, partitions=manifest.partitions, files=files)
    return piloted.measured(work.staged_rows)


def _state_again(work: GateEvaluation, table: DerivedTable, measured: Mapping[date, Measured]) -> StateAgain | None:
    """The first snapshot of a run once more, from one snapshot earlier than it began with."""
    ws, manifest = work.ws, work.manifest
    snapshot = starts_from(manifest)
    if snapshot is None:
        return None
    require_same_code(ws, manifest)
    with ws.ledger.read() as tx:
        files = pinned_files(tx, manifest.run_id, manifest.pinned)
    first, earlier = manifest.partitions[0], pinned_snapshot(manifest, files, earlier=True)
    rows = derived_rows(ws, manifest, table, (first,), (), files, earlier)
    found = partition_checksums(rows, table.partition.column, business_schema(table)).get(first, NO_ROWS)
    staged = measured[first].checksum if first in measured else NO_ROWS
    return StateAgain(partition=first, snapshot=snapshot, earlier=earlier.snapshot, is_same=found == staged)


def prove_window(work: GateEvaluation, stage: Prove) -> None:
    """Recomputes partitions with another window, unless a proof of exactly these files is recorded already."""
    if not any(isinstance(gate, WarmUpProof) for gate in work.gates):
        return
    if again := stage.compared:
        work.report(0, f"proving the window on {describe(work.manifest.grain, again)}")
    with work.timed("prove"):
        measured = work.found.measured
        proven = prove(work.ws, work.manifest, work.table, stage, work.staged_files, measured, work.chunks)
        work.found = replace(work.found, proven=proven)


def _record(work: GateEvaluation, *, actor: str) -> None:
    """Judges the measurements and records the results in the table behind `validation/<name>` and in the ledger."""
    ws, manifest = work.ws, work.manifest
    evaluated = work.evaluated = _judged(work)
    compared = _compared(work)
    append_validation(
        ws.lake,
        manifest.table,
        validation_rows(manifest, evaluated.results),
        app_id=f"validation:{manifest.run_id}:{_attempt(compared, evaluated.results)}",
    )
    ws.reached(Point.GATE_APPENDED)
    failed = sorted({r.gate for r in evaluated.results if r.blocking and not r.passed})
    found = work.found
    by_partition = cells_to_keep(work.table, work.staged_files, {p: each.cells for p, each in found.measured.items()})
    work.took_ms[ALL_GATES] = round((time.monotonic() - work.began) * 1000)
    with ws.ledger.write() as tx:
        tx.candidates.record_gates(
            manifest.run_id,
            compared,
            evaluated.results,
            actor=actor,
            attempt=work.attempt,
            reads=(*(work.asked.reads if work.asked else ()), *work.usual.reads),
            samples=(evaluated.sample, evaluated.failing, found.cells, by_partition, found.changes, work.usual.points),
            took_ms=work.took_ms,
            core_ms=round(work.clock.core_seconds() * 1000),
        )
        tx.runs.move(
            manifest.run_id,
            RunState.BLOCKED if failed else RunState.PASSED,
            actor=actor,
            attempt=work.attempt,
            note=f"blocked by {', '.join(failed)}" if failed else "",
        )


def _judged(work: GateEvaluation) -> Evaluated:
    judged = (*judge(work.gates, work.candidates.values(), work.found), *work.kept)
    # These rows were accepted before, by the gates of then: what is declared since keeps no reader without them.
    known = _as_recorded(work)
    results = tuple(replace(each, blocking=False) if each.partition in known else each for each in judged)
    return Evaluated(
        run_id=work.manifest.run_id,
        results=results,
        sample=work.sample,
        failing=_failing(work, results),
        passed=all(result.passed or not result.blocking for result in results),
    )


def _failing(work: GateEvaluation, results: Sequence[GateResult]) -> tuple[FailingKey, ...]:
    """Keys of some rows that fail a gate of the table."""
    failed = grouped((each.gate, each.partition) for each in results if not each.passed)
    if not failed.keys() & {gate.name for gate in work.table.gates}:
        return ()
    found = examples(work.asked, failed) if work.asked else ()
    return found + failing_keys(
        work.staged_rows,
        work.table,
        results,
        lambda day: sample_partitions(work.sides.of([day]), most=MOST_KEYS),
        work.found.proven or (),
    )


def _compared(work: GateEvaluation) -> Sequence[CandidatePartition]:
    """The candidate with its measurements, and the versions with which it was compared."""
    measured, accepted = work.found.measured, work.accepted
    return [
        replace(
            candidate,
            checksum=measured[partition].checksum if partition in measured else NO_ROWS,
            compared_version=accepted[partition].version if partition in accepted else 0,
            compared_digest=(work.accepted_files.get(partition) or EMPTY_FILE_SET).digest,
            compared_checksum=measured[partition].accepted_checksum if partition in measured else NO_ROWS,
        )
        for partition, candidate in work.candidates.items()
    ]


def _attempt(candidates: Iterable[CandidatePartition], results: Iterable[GateResult]) -> str:
    """Identifies what was measured and compared and what was found, so that the same results are added once."""
    measured = [[c.partition.isoformat(), c.files.digest, c.compared_digest or ""] for c in candidates]
    found = [[r.partition.isoformat(), r.gate, r.passed, r.finding, dict(r.observed)] for r in results]
    return document_digest([measured, found])[:16]


def _still_valid(
    declared: tuple[Gate, ...], candidates: Mapping[date, CandidatePartition], earlier: Iterable[GateResult]
) -> tuple[tuple[Gate, ...], tuple[GateResult, ...]]:
    """The gates to measure, and earlier results that are still valid: a proof of exactly these files is not repeated.

    A run is gated again when its target has changed, and the proof does not depend on the target.
    """
    proofs = [gate for gate in declared if isinstance(gate, WarmUpProof)]
    kept = tuple(
        result
        for result in earlier
        if any(result.gate == gate.name for gate in proofs)
        and result.partition in candidates
        and result.digest == candidates[result.partition].files.digest
    )
    if not proofs or len(kept) < len(candidates):
        return declared, ()
    return tuple(gate for gate in declared if gate not in proofs), kept


def _sample(work: GateEvaluation) -> tuple[SampledRow, ...]:
    """Rows that would change; of a first build some of its rows, because whoever approves that reads values too."""
    is_first = isinstance(work.table, DerivedTable) and not work.accepted and work.manifest.mode is not Mode.LIVE
    chosen = most_moved({p: found for p, found in work.found.measured.items() if is_first or p in work.accepted})
    return sample_partitions(work.sides.of(chosen)) if chosen else ()


def _wrong_columns(ws: Workspace, table: Table, staged: Mapping[date, FileSet]) -> Mapping[date, Verdict]:
    """Partitions with a file whose footer declares other columns than the table."""
    declared = columns_declared(stored_schema(table), table.partition.column)
    wrong: dict[date, Verdict] = {}
    for partition, file_set in staged.items():
        for columns, path in footer_columns(ws.lake, table.name, [file_set]).items():
            if columns != declared:
                differing = differing_columns(_plain(columns), _plain(declared))
                observed = {"file": path, "differing": differing}
                wrong[partition] = Verdict(passed=False, finding=Finding.OTHER_COLUMNS, observed=observed)
    return wrong


def _unreadable(ws: Workspace, table: Table, staged: Mapping[date, FileSet]) -> Mapping[date, Verdict]:
    """Every partition, when its publication changes the table's columns and a declared reader cannot read them then."""
    if not follows_in_swap(ws.lake.open(table.name), stored_schema(table)) and not other_columns(ws.lake, table):
        return {}
    for reader, why in unreadable_by(ws, table.name).items():
        observed = {"reader": reader, "why": why}
        return dict.fromkeys(staged, Verdict(passed=False, finding=Finding.UNREADABLE, observed=observed))
    return {}


def _plain(columns: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
    return [(name, kind.strip('"')) for name, kind in columns]


def validation_rows(
    manifest: Manifest, results: Iterable[GateResult], *, checked_version: int | None = None
) -> Iterable[ValidationRow]:
    """The results of gates as the table behind `validation/<name>` has them.

    Args:
        checked_version: The accepted version that a later check measured; None for the candidate of the run.
    """
    return (
        ValidationRow(
            partition=result.partition,
            run_id=result.run_id,
            gate=result.gate,
            blocking=result.blocking,
            passed=result.passed,
            finding=result.finding,
            observed=canonical_json(dict(result.observed)),
            file_set_digest=result.digest,
            transform_version=manifest.transform_version,
            checked_version=checked_version,
        )
        for result in results
    )


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

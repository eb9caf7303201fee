"""Staging: from a manifest to staged files, which are not visible to readers.

Chunk by chunk, as in the stages of the plan: read exactly the pinned input versions of the chunk's window, compute,
write below `_runs/`, and record the files in the ledger. A run that stopped resumes at its first unfinished chunk;
files of an attempt that did not finish are never referenced.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import partial
from typing import Any

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from backfill_assets.calendar.partitions import Grain, count_of, describe
from backfill_assets.candidates.compute import (
    ContinuedSnapshot,
    derived_rows,
    require_present_contract,
    require_same_code,
    source_rows,
)
from backfill_assets.candidates.errors import NotStageable, OverLimit
from backfill_assets.candidates.expiring import without_rows
from backfill_assets.candidates.failing_rows import require_determined_gates
from backfill_assets.candidates.inputs import (
    PinnedFiles,
    digests_of,
    pinned_files,
    read_before,
    require_merged_with_present,
    rows_read,
    window_digests,
)
from backfill_assets.candidates.run_lease import LeasedRun, holding_lease
from backfill_assets.core.columns import in_sql
from backfill_assets.core.crash_points import Point
from backfill_assets.core.grouped import grouped
from backfill_assets.core.identity import EMPTY_FILE_SET, FileSet, attempt_of
from backfill_assets.core.lease import LeaseTerms
from backfill_assets.core.progress import Listener, Progress, no_listener
from backfill_assets.core.session_settings import VERSIONS
from backfill_assets.core.spark import processor_clock
from backfill_assets.core.tariff import Tariff
from backfill_assets.domain import DerivedTable, SourceTable, Table
from backfill_assets.domain.errors import CodeBroken
from backfill_assets.lake.checksums import NO_ROWS, checksum_of, hashes_of_row, sums_of
from backfill_assets.lake.errors import OtherColumns
from backfill_assets.lake.staging import OF_NULL, write_staged
from backfill_assets.lake.tables import missing_files, problem_of
from backfill_assets.ledger.provenance import DerivedProvenance, Provenance, SourceProvenance
from backfill_assets.ledger.records import CandidatePartition, RunRecord
from backfill_assets.ledger.states import ChunkState, RunState, may_follow
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest import Chunk, Manifest, chunks_of
from backfill_assets.planning.stages import Compute
from backfill_assets.transforms.apply import constant_columns
from backfill_assets.transforms.schemas import (
    business_schema,
    contract_version,
    former_columns,
    former_columns_of,
    require_never_published,
    stored_schema,
)
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, kw_only=True)
class StagingSession:
    """One process that stages a run."""

    ws: Workspace
    manifest: Manifest
    table: Table
    token: str  #: Identifies this attempt. It is not a counter: it distinguishes a process that has lost the run.
    listener: Listener
    inputs: PinnedFiles
    finished: frozenset[int]  #: The chunks that an earlier attempt finished from the same inputs.
    begun_at: datetime  #: When the first chunk of this attempt began.
    #: How many rows the chunks of this attempt have, by number of the chunk.
    written_rows: dict[int, int] = field(default_factory=dict)


@contextmanager
def staging(ws: Workspace, run_id: str, *, actor: str, listener: Listener = no_listener) -> Iterator[StagingSession]:
    """Takes a run to stage it; when the block ends, the run is ready for its gates.

    Chunks that an earlier attempt finished are kept: the same manifest gives the same rows.

    Raises:
        UnknownName: There is no such run.
        IllegalTransition: The run is past staging, or the block did not compute all of its chunks.
        MissingInput: A pinned input version or reference does not exist any more.
        ContractBroken: The code is not that of the manifest, or the transform broke its contract.
        InputsMovedOn: It keeps rows, or merges with rows, that are not accepted any more.
        AtWork: Another process holds its lease.
        TakenOver: Another process has taken over the run, or it was abandoned or cancelled.
        WrongSession: A setting of the Spark session changes the meaning of rows.
    """
    with ws.ledger.read() as tx:
        run = tx.runs.get(run_id)
        # Asked before Spark starts, which takes long; who takes the run is decided below.
        tx.leases.require_free(run_id, at=tx.now)
        require_merged_with_present(tx, run.manifest)
    manifest = run.manifest
    table = ws.domain.table(manifest.table)
    # Verified before anything is recorded: a wrong session is refused, and the run does not fail.
    session = _session_for(ws, manifest)
    versions = ws.versions(session) if session else {}
    with ws.ledger.read() as tx:
        inputs = pinned_files(tx, run_id, manifest.pinned)
    token = secrets.token_hex(4)
    lease = LeaseTerms(attempt=token, length=ws.settings.lease)
    with ws.ledger.write() as tx:
        if run.state is RunState.PUBLISHED:
            raise NotStageable(run_id=run_id, state=run.state)
        tx.runs.take(
            run_id,
            RunState.STAGING,
            actor=actor,
            attempt=token,
            lease=lease.length,
            payload={VERSIONS: versions},
        )
    leased = LeasedRun(manifest=manifest, table=table, actor=actor, session=session, lease=lease, doing="computed")
    with holding_lease(ws, leased):
        finished = _kept_chunks(ws, manifest, token)
        ws.reached(Point.STAGE_BEGUN)
        if session:
            _ensure_table(ws, manifest, table)
            require_determined_gates(ws, table, manifest.partitions)
        if finished:
            staged = f"{count_of(len(finished), 'chunk')} of {len(chunks_of(manifest))} staged before"
            listener(_progress(manifest, 0, staged))
        yield StagingSession(
            ws=ws,
            manifest=manifest,
            table=table,
            token=token,
            listener=listener,
            inputs=inputs,
            finished=frozenset(finished),
            begun_at=ws.clock(),
        )
        with ws.ledger.write() as tx:
            _require_within_limits(manifest, tx, ws.settings.tariff)
            tx.runs.move(run_id, RunState.STAGED, actor=actor, attempt=token)
    ws.reached(Point.STAGE_FINISHED)


def _ensure_table(ws: Workspace, manifest: Manifest, table: Table) -> None:
    """Creates the table of a run, also in place of one of other columns that was never published.

    That one is removed at the writer's turn: a publication begins with one, so that none begins meanwhile. Whoever dies
    after it leaves no table, which the next attempt creates. A source that was published gets other columns in the
    commit that replaces all its files.
    """
    ensure = partial(ws.lake.ensure, manifest.table, stored_schema(table), manifest.partition_column)
    try:
        ensure(former=former_columns(table))
    except OtherColumns as error:
        if former := former_columns_of(ws.lake, table):
            former.require_replaced(manifest.partitions)
            return  # with its publication
        remove = ws.lake.removal_of_empty(manifest.table, error.differing)
        with ws.ledger.write() as tx:
            require_never_published(tx, table, error.differing, but=manifest.run_id)
            remove()
        ensure(former=former_columns(table))


def _kept_chunks(ws: Workspace, manifest: Manifest, token: str) -> Sequence[int]:
    """Discards what an earlier attempt left, except for the chunks that it finished.

    Files are examined before the write transaction and after the run was taken: from then on vacuum keeps them.
    """
    with ws.ledger.read() as tx:
        finished = _finished_chunks(ws, manifest, tx)
    with ws.ledger.write() as tx:
        tx.runs.require_holder(manifest.run_id, token)
        tx.candidates.clear(manifest.run_id, keep=finished)
    return finished


def _finished_chunks(ws: Workspace, manifest: Manifest, tx: ReadTransaction) -> Sequence[int]:
    """The chunks that an earlier attempt finished from the same inputs, and whose files are unchanged."""
    # Accepted versions never change; candidates of the same set can be staged again.
    outdated = set(read_before(tx, ws.graph, manifest))
    planned = {(chunk.number, chunk.partitions): chunk.computed for chunk in chunks_of(manifest)}
    candidates = tx.candidates.of_run(manifest.run_id)
    return [
        chunk.number
        for chunk in tx.candidates.chunks(manifest.run_id)
        if chunk.state is ChunkState.DONE
        and candidates.keys() >= set(chunk.partitions)
        and outdated.isdisjoint(planned.get((chunk.number, chunk.partitions), outdated))
        and not missing_files(ws.lake, manifest.table, (candidates[p].files for p in chunk.partitions))
    ]


def stage_chunk(work: StagingSession, stage: Compute) -> None:
    """Computes one chunk and stages its rows, at the pace that the manifest allows; a finished one is kept.

    Raises:
        ContractBroken: The transform broke its contract, or the chunks before it have reached more rows or a higher
            cost than the manifest allows; then it is not computed.
    """
    manifest, chunk = work.manifest, stage.chunk
    if chunk.number in work.finished:
        return
    with work.ws.ledger.read() as tx:
        _require_within_limits(manifest, tx, work.ws.settings.tariff)
    _keep_pace(work, stage)
    work.written_rows[chunk.number] = _stage_rows(work, stage)
    _report(work, stage, f"{_named(stage)} is staged")


def _named(stage: Compute) -> str:
    return f"chunk {stage.chunk.number} of {stage.chunks}"


def stage_expiry(work: StagingSession) -> None:
    """Stages that the snapshots of a run have no files; they were staged at once, or not yet."""
    manifest = work.manifest
    (chunk,) = chunks_of(manifest)
    if chunk.number in work.finished:
        return
    with work.ws.ledger.write() as tx:
        tx.candidates.start_chunk(manifest.run_id, chunk.number, chunk.partitions, attempt=work.token)
    work.ws.reached(Point.STAGE_CHUNK_STARTED)
    with work.ws.ledger.write() as tx:
        tx.candidates.finish_chunk(
            manifest.run_id,
            chunk.number,
            input_rows=0,
            output_rows=0,
            candidates=without_rows(manifest),
            attempt=work.token,
            checksum=NO_ROWS,
            core_ms=0,
        )
    work.ws.reached(Point.STAGE_CHUNK_FINISHED)


def _keep_pace(work: StagingSession, stage: Compute) -> None:
    """Waits between two computed chunks, as the manifest's limits require."""
    if not work.written_rows:
        return
    elapsed_s = (work.ws.clock() - work.begun_at).total_seconds()
    pause_s = _pause(work.manifest, sum(work.written_rows.values()), elapsed_s)
    if pause_s > 0:
        _report(work, stage, f"waiting for {pause_s:.0f} s, as the manifest asks", done=False)
        work.ws.wait(pause_s)


def _report(work: StagingSession, stage: Compute, sentence: str, *, done: bool = True) -> None:
    """Reports the progress of staging; chunks are computed in the order of their partitions."""
    partitions = stage.chunk.partitions
    before = sum(partition < partitions[0] for partition in work.manifest.partitions)
    reached = before + (len(partitions) if done else 0)
    work.listener(_progress(work.manifest, reached, sentence))


def _progress(manifest: Manifest, done: int, sentence: str) -> Progress:
    total = len(manifest.partitions)
    return Progress(step="stage", done=done, total=total, line=sentence, table=manifest.table)


def _pause(manifest: Manifest, written: int, elapsed_s: float) -> float:
    """The seconds to wait before the next chunk by the manifest's limits, after these rows in this time."""
    limits = manifest.limits
    rate = limits.rows_per_minute
    return max(float(limits.pause_s), written * 60 / rate - elapsed_s if rate else 0.0)


def _require_within_limits(manifest: Manifest, tx: ReadTransaction, tariff: Tariff) -> None:
    limits = manifest.limits
    rows = 0 if limits.max_rows is None else tx.candidates.row_count(manifest.run_id)
    if limits.max_rows is not None and rows > limits.max_rows:
        found, most = f"staged {rows:,} rows", f"{limits.max_rows:,}"
        raise OverLimit(run_id=manifest.run_id, found=found, most=most, manifest=manifest)
    if limits.max_cost is not None:
        spent = tariff.spent(sum(tx.candidates.core_seconds(manifest.run_id).values())).core_seconds
        if spent > limits.max_cost.core_seconds:
            found, most = f"has cost {spent:,.1f} core seconds", f"{limits.max_cost.core_seconds:,.1f}"
            raise OverLimit(run_id=manifest.run_id, found=found, most=most, manifest=manifest)


def _stage_rows(work: StagingSession, stage: Compute) -> int:
    """Computes and stages the rows of one chunk; returns how many."""
    ws, manifest, table, chunk = work.ws, work.manifest, work.table, stage.chunk
    clock = processor_clock(ws.settings)
    with ws.ledger.write() as tx:
        tx.candidates.start_chunk(manifest.run_id, chunk.number, chunk.partitions, attempt=work.token)
    ws.reached(Point.STAGE_CHUNK_STARTED)
    if (kept := _kept_snapshot(work, chunk)) is not None:
        with ws.ledger.write() as tx:
            checksum = tx.versions.accepted(manifest.table, [kept.partition])[kept.partition].checksum
            tx.candidates.finish_chunk(
                manifest.run_id,
                chunk.number,
                input_rows=0,
                output_rows=kept.rows,
                candidates=[kept],
                attempt=work.token,
                checksum=checksum,
                seam_checksum="",
                core_ms=round(clock.core_seconds() * 1000),
            )
        ws.reached(Point.STAGE_CHUNK_FINISHED)
        return kept.rows
    if isinstance(table, SourceTable):
        frame, provenance, input_rows = _source_rows(ws, manifest, table, chunk)
    else:
        frame, provenance, input_rows = _derived_rows(work, table, stage)
    # When there is work for Spark: who is told may begin work of its own, which would delay what describes the rows.
    _report(work, stage, f"{_named(stage)}: {describe(manifest.grain, chunk.partitions)}", done=False)
    content = Observation()
    columns = _content_of(table, chunk)
    watched = frame.observe(content, *columns) if columns else frame
    staged = write_staged(
        ws.lake,
        manifest.table,
        _staged_only(watched, table, chunk),
        run_id=manifest.run_id,
        attempt=attempt_of(f"{chunk.number:04d}-{work.token}", contract_version(table)),
        partition_column=manifest.partition_column,
        same=constant_columns(table, manifest),
    )
    ws.reached(Point.STAGE_FILES_WRITTEN)
    _require_declared(manifest, chunk, staged)
    candidates = [
        CandidatePartition(
            run_id=manifest.run_id,
            partition=partition,
            files=files,
            rows=files.rows,
            provenance=provenance[partition],
        )
        for partition in chunk.partitions
        for files in [staged.get(partition.isoformat(), EMPTY_FILE_SET)]
    ]
    output_rows = sum(candidate.rows for candidate in candidates)
    found = _observed(content, frame, columns, is_written=bool(staged))
    spent_ms = round(clock.core_seconds() * 1000)
    with ws.ledger.write() as tx:
        tx.candidates.finish_chunk(
            manifest.run_id,
            chunk.number,
            input_rows=input_rows,
            output_rows=output_rows,
            candidates=candidates,
            attempt=work.token,
            checksum=checksum_of(found) if _is_continued(table) else "",
            seam_checksum=checksum_of(found, prefix="seam_") if chunk.once_more else "",
            core_ms=spent_ms,
        )
    ws.reached(Point.STAGE_CHUNK_FINISHED)
    return output_rows


def _content_of(table: Table, chunk: Chunk) -> Sequence[Column]:
    """The metrics observed while the rows of a chunk are written, without a further pass, for later comparison. Most
    chunks need none: the gates read back what was written."""
    hashes = hashes_of_row(business_schema(table))
    found: list[Column] = []
    if _is_continued(table):
        found += (F.count(F.lit(1)).alias("rows"), *sums_of(hashes))
    if chunk.once_more:
        once_more = _is_once_more(table, chunk)
        of_seam = (f"if({once_more}, {each}, null)" for each in hashes)
        found += (F.expr(f"count_if({once_more}) AS seam_rows"), *sums_of(of_seam, prefix="seam_"))
    return found


def _is_continued(table: Table) -> bool:
    """True if each chunk, a snapshot, is computed from the one before; no neighbours are computed once more then."""
    return isinstance(table, DerivedTable) and table.state is not None


def _observed(
    content: Observation, frame: DataFrame, columns: Sequence[Column], *, is_written: bool
) -> Mapping[str, Any]:
    if not columns:
        return {}
    # Adaptive execution drops a plan that turns out to have no rows, and with it what was to observe them.
    return content.get if is_written else frame.agg(*columns).collect()[0].asDict()


def _staged_only(frame: DataFrame, table: Table, chunk: Chunk) -> DataFrame:
    """The rows that are staged: those of its neighbours are staged by the chunks that they belong to."""
    return frame.where(f"NOT {_is_once_more(table, chunk)}") if chunk.once_more else frame


def _is_once_more(table: Table, chunk: Chunk) -> str:
    days = ", ".join(f"DATE '{partition}'" for partition in chunk.once_more)
    return f"coalesce({in_sql(table.partition.column)} IN ({days}), false)"


def _require_declared(manifest: Manifest, chunk: Chunk, staged: Mapping[str, FileSet]) -> None:
    declared = {partition.isoformat() for partition in chunk.partitions}
    if strange := sorted(set(staged) - declared):
        what = f"rows for {manifest.partition_column} = {strange[0]}, which is not a partition of {manifest.table}"
        if strange[0] == OF_NULL:
            what = f"rows without {manifest.partition_column}, which belong to no partition of {manifest.table}"
        elif manifest.grain is Grain.MONTHLY:
            what += " (a month is named by its first day)"
        raise CodeBroken(code=f"the transform {manifest.transform}", problem=f"returned {what}")


def _source_rows(
    ws: Workspace, manifest: Manifest, table: SourceTable, chunk: Chunk
) -> tuple[DataFrame, Mapping[date, Provenance], int]:
    with ws.ledger.read() as tx:
        imports = tuple(tx.imports.get(import_id) for import_id in manifest.change.imports)
        days = tx.imports.days(import_ids=manifest.change.imports)
    arrival = {record.import_id: record.sha256 for record in imports}
    touched = grouped((day.event_date, (day.import_id, arrival[day.import_id])) for day in days)
    frame = source_rows(ws, manifest, table, chunk.partitions, imports)
    session = manifest.session_digest
    provenance = {
        day: SourceProvenance(imports=tuple(sorted(touched.get(day, []))), session=session) for day in chunk.partitions
    }
    return frame, provenance, sum(record.counts.landed for record in imports)


def _derived_rows(
    work: StagingSession, table: DerivedTable, stage: Compute
) -> tuple[DataFrame, Mapping[date, Provenance], int]:
    state = _state_before(work, stage.chunk) if table.state is not None else None
    frame = derived_rows(work.ws, work.manifest, table, stage.chunk.computed, stage.reads, work.inputs, state)
    provenance = _provenance(work.ws, work.manifest, stage.chunk, work.inputs)
    return frame, provenance, rows_read(stage.reads, work.inputs)


def _state_before(work: StagingSession, chunk: Chunk) -> ContinuedSnapshot | None:
    """The snapshot of the chunk before, as it was staged; None where the run begins with an accepted one, or none."""
    before = [partition for partition in work.manifest.partitions if partition < chunk.partitions[0]]
    if not before:
        return None
    with work.ws.ledger.read() as tx:
        return ContinuedSnapshot(
            snapshot=before[-1], files=tx.candidates.of_run(work.manifest.run_id)[before[-1]].files
        )


def _kept_snapshot(work: StagingSession, chunk: Chunk) -> CandidatePartition | None:
    """The accepted snapshot of a chunk, if nothing but the state before it could have changed it, and that is equal to
    the accepted one: then this one is equal too, and is not computed."""
    manifest, partition = work.manifest, chunk.partitions[0]
    settled = next((each for each in manifest.settled if each.pin.partition == partition), None)
    before = [each for each in manifest.partitions if each < partition]
    if settled is None or not before:
        return None
    with work.ws.ledger.read() as tx:
        accepted = tx.versions.accepted(manifest.table, [before[-1], partition])
        chunks = {each.number: each for each in tx.candidates.chunks(manifest.run_id)}
    present, earlier, staged = accepted.get(partition), accepted.get(before[-1]), chunks.get(chunk.number - 1)
    if present is None or present.version != settled.pin.version or earlier is None or staged is None:
        return None
    if earlier.version != settled.after.version:
        # Restated since the run was planned: equal to that one says nothing about what follows from the one before.
        return None
    if staged.checksum != earlier.checksum or problem_of(work.ws.lake, manifest.table, present.files):
        return None
    provenance = _provenance(work.ws, manifest, chunk, work.inputs)[partition]
    return CandidatePartition(
        run_id=manifest.run_id,
        partition=partition,
        files=present.files,
        rows=present.files.rows,
        provenance=provenance,
    )


def _provenance(ws: Workspace, manifest: Manifest, chunk: Chunk, inputs: PinnedFiles) -> Mapping[date, Provenance]:
    """The inputs from which each partition of a chunk was computed."""
    of_run = DerivedProvenance(
        code=manifest.code_digest,
        configuration=manifest.configuration_digest,
        inputs={},
        manifest=manifest.digest,
        references={r.name: (r.version, r.sha256) for r in manifest.references},
        session=manifest.session_digest,
        transform=manifest.transform,
        transform_version=manifest.transform_version,
    )
    digests = digests_of(inputs)
    return {
        partition: replace(of_run, inputs=window_digests(ws.graph, manifest, partition, digests))
        for partition in chunk.partitions
    }


def require_stageable(ws: Workspace, run: RunRecord) -> SparkSession | None:
    """Refuses a run that is past staging, held by another process, planned with other code, or for which Spark cannot
    start, before anything is recorded of it.

    Returns:
        The session in which it is computed; None for an expiry.

    Raises:
        AtWork: Another process holds its lease.
        IllegalTransition: Its state does not lead to STAGING.
        InputsMovedOn: It keeps rows, or merges with rows, that are not accepted any more.
        ContractBroken: The code is not that of the manifest.
        WrongSession: A setting of the Spark session changes the meaning of rows.
    """
    with ws.ledger.read() as tx:
        tx.leases.require_free(run.run_id, at=tx.now)
        if not may_follow(run.state, RunState.STAGING):
            raise NotStageable(run_id=run.run_id, state=run.state)
        require_merged_with_present(tx, run.manifest)
    return _session_for(ws, run.manifest)


def _session_for(ws: Workspace, manifest: Manifest) -> SparkSession | None:
    """The session in which a run is computed by the code that it was planned with; None for an expiry."""
    if not manifest.computed:
        return None
    require_same_code(ws, manifest)
    require_present_contract(ws, manifest)
    return ws.spark()

"""Do the rows of a published run still follow from its manifest?

The run is computed once more, from the recorded input versions, references and release, chunk by chunk into a scratch
folder; what was written is read back, and its content checksums are compared with the recorded ones. Rows are only
looked at where those differ. Nothing but an event in the ledger remains.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill_assets.candidates.compute import derived_rows, require_same_code, source_rows
from backfill_assets.candidates.inputs import PinnedFiles, pinned_files
from backfill_assets.domain import SourceTable, Table
from backfill_assets.errors import ContractBroken, IllegalTransition, Refused
from backfill_assets.gates.measure import Measured, measure
from backfill_assets.gates.sample import SampledRow, sample_rows
from backfill_assets.identity import EMPTY_FILE_SET, FileSet
from backfill_assets.lake.checksums import NO_ROWS
from backfill_assets.lake.scratch import SCRATCH_FOLDER, remove_scratch, scratch
from backfill_assets.lake.snapshot import read_files
from backfill_assets.lake.staging import write_staged
from backfill_assets.lake.tables import missing_files
from backfill_assets.ledger.records import CandidatePartition, ImportRecord, RunRecord
from backfill_assets.ledger.states import MEANING, RunState
from backfill_assets.next_steps import Act, do, step
from backfill_assets.planning.chunks import chunks_of
from backfill_assets.planning.graph import TableNode
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.partitions import count_of, days_of, describe
from backfill_assets.planning.reads import reads_of
from backfill_assets.planning.request import node_of
from backfill_assets.progress import Listener, Progress, no_listener
from backfill_assets.transforms.apply import spark_reason
from backfill_assets.transforms.schemas import business_schema
from backfill_assets.versions import Versions, present_versions, staged_versions
from backfill_assets.workspace import Workspace

ONCE_PUBLISHED = (RunState.PUBLISHED, RunState.SUPERSEDED, RunState.ROLLED_BACK)
_MOST_SAMPLED = 12
_MOST_LISTED = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A partition whose rebuilt rows are not the recorded ones.

    Attributes:
        expected: The recorded content checksum.
        found: What the rebuilt rows have: counts, and how they differ from the files of the run.
        compared: Whether those files are still there to compare with; without them only the checksums are known.
    """

    partition: date
    expected: str
    expected_rows: int
    found: Measured
    compared: bool

    def document(self) -> Mapping[str, Any]:
        """The difference as plain values."""
        moves = {
            "added": self.found.added,
            "removed": self.found.removed,
            "changed": self.found.changed,
            "unchanged": self.found.unchanged,
            "changed_columns": dict(self.found.changed_columns),
        }
        return {
            "partition": self.partition.isoformat(),
            "expected_checksum": self.expected,
            "checksum": self.found.checksum,
            "expected_rows": self.expected_rows,
            "rows": self.found.rows,
            **(moves if self.compared else dict.fromkeys(moves)),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduced:
    """What rebuilding a run came to.

    Attributes:
        run: The run.
        partitions: What was rebuilt.
        rows: How many rows that made.
        differences: Where they are not the recorded ones; empty when the run is reproduced.
        sample: Some rows that differ: `before` as published, `after` as rebuilt.
        recorded, present: The versions that the run was staged with, if they are known, and those it was rebuilt with.
    """

    run: RunRecord
    partitions: tuple[date, ...]
    rows: int
    differences: tuple[Difference, ...]
    sample: tuple[SampledRow, ...]
    recorded: Versions | None
    present: Versions

    @property
    def is_identical(self) -> bool:
        return not self.differences

    def document(self) -> Mapping[str, Any]:
        """The outcome as plain values; the fields are documented in docs/cli.md."""
        manifest = self.run.manifest
        return {
            "run_id": self.run.run_id,
            "table": manifest.table,
            "state": str(self.run.state),
            "transform": manifest.transform,
            "transform_version": manifest.transform_version,
            "code_digest": manifest.code_digest,
            "versions": {"recorded": self.recorded, "present": dict(self.present)},
            "identical": self.is_identical,
            "partitions": len(self.partitions),
            "partitions_described": describe(manifest.grain, self.partitions),
            "of_partitions": len(manifest.partitions),
            "rows": self.rows,
            "differences": [difference.document() for difference in self.differences],
            "sample": [row.document() for row in self.sample],
        }


def reproduce_run(
    ws: Workspace, run_id: str, *, by: str, sample: int | None = None, listener: Listener = no_listener
) -> Reproduced:
    """Rebuilds a run that was published, and compares it with what it published.

    Args:
        ws: The workspace.
        run_id: The run; it may have been superseded or rolled back since.
        by: Who wants to know.
        sample: How many partitions, spread over the run with its first and last among them; None for all.
        listener: Told how far it is.

    Raises:
        UnknownName: There is no such run.
        IllegalTransition: It was never published.
        ContractBroken: The code is not the one it was computed with, or the transform failed.
        MissingInput: An input version has been removed by retention, or a file or reference is gone.
    """
    if sample is not None and sample < 1:
        raise Refused(f"a sample has at least one partition, not {sample}.", next_step="leave --sample out for all")
    with ws.ledger.read() as tx:
        run = tx.runs.get(run_id)
        _require_published(run)
        manifest = run.manifest
        require_same_code(
            ws,
            manifest,
            next_step=step("check out the code with that digest, then again: ", do(Act.REPRODUCE, run_id)),
        )
        candidates = tx.candidates.of_run(run_id)
        recorded = staged_versions(event.payload for event in tx.events.entries(entity_id=run_id))
        inputs = pinned_files(tx, run_id, manifest.inputs)
        imports = tuple(tx.imports.get(import_id) for import_id in manifest.imports)
    chosen = manifest.partitions if sample is None else spread(manifest.partitions, sample)
    work = _Rebuilding(ws=ws, manifest=manifest, candidates=candidates, inputs=inputs, imports=imports)
    try:
        found = _rebuild(work, chosen, whole=sample is None, listener=listener)
    except (PySparkException, Py4JError) as error:
        raise ContractBroken(
            f"Spark stopped while it rebuilt {manifest.table}: {spark_reason(error)}",
            next_step="fix the cause; nothing was changed",
            run_id=run_id,
        ) from error
    outcome = Reproduced(
        run=run,
        partitions=chosen,
        rows=sum(part.rows for part in found),
        differences=tuple(difference for part in found for difference in part.differences),
        sample=tuple(row for part in found for row in part.sample)[:_MOST_SAMPLED],
        recorded=recorded,
        present=present_versions(ws.spark()),
    )
    with ws.ledger.write() as tx:
        tx.events.record(actor=by, entity="run", entity_id=run_id, action="reproduced", payload=_event_payload(outcome))
    return outcome


def spread(partitions: Sequence[date], count: int) -> tuple[date, ...]:
    """So many of the partitions, evenly spread, the first and the last among them; all when there are no more."""
    if count >= len(partitions):
        return tuple(partitions)
    if count == 1:
        return (partitions[0],)
    return tuple(partitions[number * (len(partitions) - 1) // (count - 1)] for number in range(count))


def _require_published(run: RunRecord) -> None:
    if run.state not in ONCE_PUBLISHED:
        raise IllegalTransition(
            f"run {run.run_id} is not published, so there is nothing to reproduce: it is {run.state} "
            f"({MEANING[run.state]}).",
            next_step=do(Act.REPORT, run.run_id),
            run_id=run.run_id,
            state=str(run.state),
        )


def _event_payload(outcome: Reproduced) -> Mapping[str, Any]:
    return {
        "identical": outcome.is_identical,
        "partitions": len(outcome.partitions),
        "of_partitions": len(outcome.run.manifest.partitions),
        "differing": len(outcome.differences),
        "differing_partitions": [d.partition.isoformat() for d in outcome.differences[:_MOST_LISTED]],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rebuilding:
    """What rebuilding works with: the contract, what was recorded, and what is read."""

    ws: Workspace
    manifest: Manifest
    candidates: Mapping[date, CandidatePartition]
    inputs: PinnedFiles
    imports: Sequence[ImportRecord]

    @property
    def table(self) -> Table:
        return self.ws.domain.table(self.manifest.table)

    def rows(self, computed: Sequence[date], partitions: Sequence[date]) -> DataFrame:
        """The rows of some of the partitions that are computed in one call, by the same path as staging."""
        table = self.table
        if isinstance(table, SourceTable):
            return source_rows(self.ws, self.manifest, table, partitions, self.imports)
        reads = reads_of(node_of(self.manifest), self.ws.graph, computed)
        rows = derived_rows(self.ws, self.manifest, table, computed, reads, self.inputs)
        column = F.col(self.manifest.partition_column)
        return rows.where(~column.isin(list(set(computed) - set(partitions)))) if computed != partitions else rows

    def read(self, file_sets: Sequence[FileSet]) -> DataFrame:
        """The business columns of these files."""
        return read_files(
            self.ws.spark(),
            self.ws.lake,
            self.manifest.table,
            file_sets,
            schema=business_schema(self.table),
            partition_column=self.manifest.partition_column,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    rows: int
    differences: tuple[Difference, ...]
    sample: tuple[SampledRow, ...]


def _rebuild(work: _Rebuilding, chosen: Sequence[date], *, whole: bool, listener: Listener) -> Sequence[_Part]:
    manifest, lake = work.manifest, work.ws.lake
    found: list[_Part] = []
    done = 0
    with scratch(lake, manifest.table, begun_at=work.ws.clock()) as name:
        for number, (computed, partitions) in enumerate(_calls(manifest, chosen, whole=whole), start=1):
            span = describe(manifest.grain, partitions)
            listener(_progress(done, len(chosen), f"rebuilding {span}"))
            attempt = f"{name}/{number:04d}"
            staged = write_staged(
                lake,
                manifest.table,
                work.rows(computed, partitions),
                run_id=SCRATCH_FOLDER,
                attempt=attempt,
                partition_column=manifest.partition_column,
            )
            part = _compare(work, partitions, {date.fromisoformat(value): files for value, files in staged.items()})
            # A long run must not need room for all of its rows a second time.
            remove_scratch(lake, manifest.table, attempt)
            found.append(part)
            done += len(partitions)
            outcome = f"{count_of(len(part.differences), manifest.grain.noun)} differ" if part.differences else "equal"
            listener(_progress(done, len(chosen), f"{span}: {outcome}"))
    return found


def _calls(
    manifest: Manifest, chosen: Sequence[date], *, whole: bool
) -> Iterator[tuple[tuple[date, ...], tuple[date, ...]]]:
    """Each call of the transform: the chunks of the run, or of a sample what shares most input.

    Reading is what costs. So partitions of a sample are computed in one call when the windows between them overlap, and
    those of a source table in one call for each chunk, for it reads its landed files whole.

    Returns:
        What is computed and what of it is rebuilt: without the seam that a chunk computes for the proof of its window.
    """
    node = node_of(manifest)
    wanted = set(chosen)
    for chunk in chunks_of(manifest):
        if whole:
            yield chunk.computed, chunk.partitions
            continue
        inside = [partition for partition in chunk.partitions if partition in wanted]
        call: list[date] = []
        for partition in inside:
            if call and node.inputs and not _overlap(node, call[-1], partition):
                yield tuple(call), tuple(call)
                call = []
            call.append(partition)
        if call:
            yield tuple(call), tuple(call)


def _overlap(node: TableNode, earlier: date, later: date) -> bool:
    """Whether the windows of two partitions share days of an input, or touch."""
    before, after = days_of(node.grain, earlier), days_of(node.grain, later)
    return any(edge.window.around(before).end >= edge.window.around(after).start for edge in node.inputs)


def _compare(work: _Rebuilding, partitions: Sequence[date], staged: Mapping[date, FileSet]) -> _Part:
    table = work.table
    schema = business_schema(table)
    rebuilt = measure(work.read(list(staged.values())), None, table, schema=schema)
    differing = [p for p in partitions if _checksum(rebuilt, p) != work.candidates[p].checksum]
    rows = sum(found.rows for found in rebuilt.values())
    if not differing:
        return _Part(rows=rows, differences=(), sample=())
    kept = [p for p in differing if not missing_files(work.ws.lake, table.name, [work.candidates[p].files])]
    new = work.read([staged.get(p, EMPTY_FILE_SET) for p in kept])
    old = work.read([work.candidates[p].files for p in kept])
    compared = measure(new, old, table, schema=schema) if kept else {}
    return _Part(
        rows=rows,
        differences=tuple(
            Difference(
                partition=p,
                expected=work.candidates[p].checksum,
                expected_rows=work.candidates[p].rows,
                found=compared.get(p) or rebuilt.get(p) or Measured(partition=p, checksum=NO_ROWS),
                compared=p in kept,
            )
            for p in differing
        ),
        sample=sample_rows(new, old, table, most=_MOST_SAMPLED) if kept else (),
    )


def _checksum(measured: Mapping[date, Measured], partition: date) -> str:
    return measured[partition].checksum if partition in measured else NO_ROWS


def _progress(done: int, total: int, sentence: str) -> Progress:
    return Progress(step="reproduce", done=done, total=total, sentence=sentence)

"""A published run, computed once more into a scratch folder and compared with what was recorded.

Chunk by chunk: what was written is read back, and its content checksums are compared with the recorded ones. Rows are
only looked at where those differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import date

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill_assets.candidates.compute import derived_rows, source_rows, table_built
from backfill_assets.candidates.inputs import PinnedFiles
from backfill_assets.candidates.rows import rows_of
from backfill_assets.capture.landed_files import landing_place
from backfill_assets.core.identity import EMPTY_FILE_SET, FileSet, attempt_of
from backfill_assets.core.progress import Listener, Progress
from backfill_assets.domain import SourceTable, Table
from backfill_assets.gates.comparison import compare_keys
from backfill_assets.gates.measure import contents
from backfill_assets.gates.measured import ByKey, Measured
from backfill_assets.gates.sample import sample_rows
from backfill_assets.lake.checksums import NO_ROWS, is_of_this_form
from backfill_assets.lake.staging import SCRATCH_FOLDER, remove_scratch, scratch, write_staged
from backfill_assets.lake.tables import missing_files
from backfill_assets.landing.decoding.decode import reading
from backfill_assets.ledger.findings import SampledRow
from backfill_assets.ledger.imports import ImportRecord
from backfill_assets.ledger.records import CandidatePartition
from backfill_assets.planning.chunks import Chunk, chunks_of
from backfill_assets.planning.graph import TableNode
from backfill_assets.planning.manifest import Manifest, node_of
from backfill_assets.planning.partitions import Partitions, count_of, describe
from backfill_assets.planning.proof import windows_touch
from backfill_assets.planning.reads import reads_of
from backfill_assets.transforms.schemas import business_schema, contract_version
from backfill_assets.upkeep.errors import NothingToCompare
from backfill_assets.workspace import Workspace

MOST_SAMPLED = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A partition whose rebuilt rows are not the recorded ones."""

    partition: date  #: Its first day.
    expected_checksum: str  #: The recorded content checksum.
    checksum: str  #: That of the rebuilt rows.
    expected_rows: int  #: How many rows were recorded.
    rows: int  #: How many were rebuilt.
    added: int | None = None  #: Rebuilt rows whose key was not published; null when the published files are gone.
    removed: int | None = None  #: Published rows whose key was not rebuilt, or null.
    changed: int | None = None  #: Rows of the same key with another value in some column, or null.
    unchanged: int | None = None  #: Rows that are equal, or null.
    changed_columns: Mapping[str, int] | None = None  #: Changed rows by column, or null.


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """Some partitions that were rebuilt."""

    rows: int
    differences: tuple[Difference, ...] = ()  #: Where they are not the recorded ones.
    sample: tuple[SampledRow, ...] = ()  #: Some rows that differ: `before` as published, `after` as rebuilt.


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilding:
    """The context of rebuilding: the contract, what was recorded, and what is read."""

    ws: Workspace
    manifest: Manifest
    candidates: Mapping[date, CandidatePartition]
    inputs: PinnedFiles
    imports: Sequence[ImportRecord]
    #: Days of a source are computed from the bytes that landed, instead of the conformed records.
    from_raw: bool = False
    reader: str = ""  #: Whose decoded files are read then.

    @property
    def table(self) -> Table:
        return table_built(self.ws, self.manifest)

    def rows(self, computed: Sequence[date], partitions: Sequence[date]) -> DataFrame:
        """The rows of some of the partitions that are computed in one call, by the same path as staging."""
        table = self.table
        if isinstance(table, SourceTable):
            return source_rows(self.ws, self.manifest, table, partitions, self.imports, raw_owner=self.reader)
        reads = reads_of(node_of(self.manifest), self.ws.graph, computed)
        rows = derived_rows(self.ws, self.manifest, table, computed, reads, self.inputs)
        column = F.col(self.manifest.partition_column)
        return rows.where(~column.isin(list(set(computed) - set(partitions)))) if computed != partitions else rows

    def read(self, file_sets: Sequence[FileSet]) -> DataFrame:
        """The business columns of these files."""
        return rows_of(self.ws, self.table, file_sets)


def rebuild(work: Rebuilding, chosen: Sequence[date], *, whole: bool, listener: Listener) -> Sequence[Rebuilt]:
    """Rebuilds partitions of a run, call by call; nothing of it is left on disk."""
    manifest, lake = work.manifest, work.ws.lake
    found: list[Rebuilt] = []
    done = 0
    with scratch(lake, manifest.table, begun_at=work.ws.clock()) as name:
        for number, (computed, partitions) in enumerate(_calls(manifest, chosen, whole=whole), start=1):
            span = describe(manifest.grain, partitions)
            listener(_progress(done, len(chosen), f"rebuilding {span}"))
            attempt = attempt_of(f"{name}/{number:04d}", contract_version(work.table))
            with _reader(work) as reader:
                part = _rebuilt(replace(work, reader=reader), computed, partitions, attempt=attempt)
            # A long run must not need room for all of its rows a second time.
            remove_scratch(lake, manifest.table, attempt)
            found.append(part)
            done += len(partitions)
            outcome = f"{count_of(len(part.differences), manifest.grain.noun)} differ" if part.differences else "equal"
            listener(_progress(done, len(chosen), f"{span}: {outcome}"))
    return found


def _reader(work: Rebuilding) -> AbstractContextManager[str]:
    """The reader of landed files for some of the partitions; none where the conformed records are read."""
    if not work.from_raw:
        return nullcontext("")
    return reading(landing_place(work.ws.settings, work.manifest.table), begun_at=work.ws.clock())


def _rebuilt(work: Rebuilding, computed: Sequence[date], partitions: Sequence[date], *, attempt: str) -> Rebuilt:
    staged = write_staged(
        work.ws.lake,
        work.manifest.table,
        work.rows(computed, partitions),
        run_id=SCRATCH_FOLDER,
        attempt=attempt,
        partition_column=work.manifest.partition_column,
    )
    return _compare(work, partitions, {date.fromisoformat(value): files for value, files in staged.items()})


Call = tuple[tuple[date, ...], tuple[date, ...]]
"""What is computed in one call, and what of it is rebuilt: without what a chunk computes for its proof."""


def _calls(manifest: Manifest, chosen: Sequence[date], *, whole: bool) -> Iterator[Call]:
    """Each call of the transform: the chunks of the run, or of a sample what shares most input.

    Reading is what costs. So partitions of a sample are computed in one call when the windows between them overlap, and
    those of a source table in one call for each chunk, for it reads its landed files whole.
    """
    node = node_of(manifest)
    for chunk in chunks_of(manifest):
        if whole:
            yield chunk.computed, chunk.partitions
        elif not node.is_divisible:
            # A change in one partition takes a row from another, and a snapshot follows from the one before it.
            if some := tuple(partition for partition in chunk.partitions if partition in chosen):
                yield chunk.computed, some
        else:
            yield from ((call, call) for call in _calls_of_sample(node, chunk, frozenset(chosen)))


def _calls_of_sample(node: TableNode, chunk: Chunk, wanted: frozenset[date]) -> Iterator[tuple[date, ...]]:
    call: list[date] = []
    for partition in chunk.partitions:
        if partition not in wanted:
            continue
        if call and not windows_touch(node, call[-1:], [partition]):
            yield tuple(call)
            call = []
        call.append(partition)
    if call:
        yield tuple(call)


def _compare(work: Rebuilding, partitions: Sequence[date], staged: Mapping[date, FileSet]) -> Rebuilt:
    table, candidates = work.table, work.candidates
    schema = business_schema(table)
    rebuilt = contents(work.read(list(staged.values())), table, schema=schema)
    suspects = [p for p in partitions if _of(rebuilt, p).checksum != candidates[p].checksum]
    rows = sum(found.rows for found in rebuilt.values())
    kept = [p for p in suspects if not missing_files(work.ws.lake, table.name, [candidates[p].files])]
    if lost := [p for p in suspects if p not in kept and _may_be_equal(candidates[p], _of(rebuilt, p))]:
        grain = work.manifest.grain
        raise NothingToCompare(run_id=work.manifest.run_id, table=table.name, partitions=Partitions.of(grain, lost))
    keys: Mapping[date, ByKey] = {}
    sample: tuple[SampledRow, ...] = ()
    if kept:
        new = work.read([staged.get(p, EMPTY_FILE_SET) for p in kept])
        old = work.read([candidates[p].files for p in kept])
        keys = compare_keys(new, old, table, schema=schema)
        sample = sample_rows(new, old, table, most=MOST_SAMPLED)
    found = (_difference(candidates[p], _of(rebuilt, p), keys.get(p)) for p in suspects)
    differences = tuple(each for each in found if is_of_this_form(each.expected_checksum) or not _is_equal(each))
    return Rebuilt(rows=rows, differences=differences, sample=sample)


def _of(measured: Mapping[date, Measured], partition: date) -> Measured:
    return measured.get(partition) or Measured(partition=partition, checksum=NO_ROWS)


def _difference(expected: CandidatePartition, found: Measured, keys: ByKey | None) -> Difference:
    """The difference of a rebuilt partition; only the checksums are known where the published files are gone."""
    return Difference(
        partition=expected.partition,
        expected_checksum=expected.checksum,
        checksum=found.checksum,
        expected_rows=expected.rows,
        rows=found.rows,
        added=keys.added if keys else None,
        removed=keys.removed if keys else None,
        changed=keys.changed if keys else None,
        unchanged=keys.unchanged if keys else None,
        changed_columns=keys.changed_columns if keys else None,
    )


def _may_be_equal(expected: CandidatePartition, found: Measured) -> bool:
    """True if the recorded checksum, which is of the form of another release, says nothing about these rows."""
    return not is_of_this_form(expected.checksum) and expected.rows == found.rows


def _is_equal(found: Difference) -> bool:
    """True if no row differs by its values, as can happen where the recorded checksum is of the form of another
    release."""
    return found.rows == found.expected_rows == 0 or (found.added, found.removed, found.changed) == (0, 0, 0)


def _progress(done: int, total: int, sentence: str) -> Progress:
    return Progress(step="reproduce", done=done, total=total, line=sentence)

"""Reproduction: recomputes a published run from its manifest and compares the rows.

The run is computed from the recorded input versions, references and release. Only an event in the ledger remains.
"""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill_assets.calendar.partitions import Partitions, count_of, describe
from backfill_assets.candidates.compute import derived_rows, require_same_code, source_rows, table_built
from backfill_assets.candidates.inputs import PinnedFiles, pinned_files
from backfill_assets.candidates.rows import rows_of
from backfill_assets.capture.landed_files import landing_place
from backfill_assets.core.errors import BackfillError, IllegalTransition, MissingInput, Refused
from backfill_assets.core.identity import EMPTY_FILE_SET, FileSet, attempt_of
from backfill_assets.core.progress import Listener, Progress, no_listener
from backfill_assets.core.session_settings import Versions, session_digest, staged_versions
from backfill_assets.core.settings import Settings
from backfill_assets.core.spark import compute_apart
from backfill_assets.core.spark_causes import spark_reason
from backfill_assets.domain import SourceTable, Table
from backfill_assets.domain.errors import PlannedOtherwise
from backfill_assets.gates.measure import compare_keys, contents
from backfill_assets.gates.measured import ByKey, Measured
from backfill_assets.gates.sample import sample_rows
from backfill_assets.lake.checksums import NO_ROWS, is_of_this_form
from backfill_assets.lake.staging import SCRATCH_FOLDER, remove_scratch, scratch, write_staged
from backfill_assets.lake.tables import missing_files
from backfill_assets.landing.decoding.decode import reading
from backfill_assets.landing.imports import are_comparable, reads_otherwise
from backfill_assets.ledger.findings import SampledRow
from backfill_assets.ledger.imports import ImportRecord
from backfill_assets.ledger.records import CandidatePartition, RunRecord
from backfill_assets.ledger.states import EVER_PUBLISHED, RunState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.graph import TableNode
from backfill_assets.planning.manifest import Chunk, Manifest, chunks_of, node_of
from backfill_assets.planning.stages import reads_of, windows_touch
from backfill_assets.transforms.apply import broken_in_worker
from backfill_assets.transforms.code import archived, text_of_module
from backfill_assets.transforms.schemas import business_schema, contract_version
from backfill_assets.upkeep.errors import ReproducedOtherwise, SparkStopped
from backfill_assets.workspace import Workspace

# Archived code: rebuilds a run with the code that it was planned with, after the author's modules were edited.
#
# In a process of its own, whose import path begins with a copy of the author's modules in which those that the
# run reached have their archived text. That the code is the same is verified there as for any run, by its digest.
# A server of Spark that was started with other modules is not used.

_START = f"from {__name__} import main; main()"
_MOST_SHOWN = 300
"""So many characters of what the process said last are shown where it fails."""


class Computed(Protocol):
    """Something that is computed for a run, in any process: pickled with what it is given, and its answer too."""

    def __call__(self, ws: Workspace, run_id: str) -> object: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The task that the process is given."""

    settings: Settings
    run_id: str
    result: Path  #: The file for its answer, or for a sentence that says why there is none.
    computed: Computed  #: What is asked for.


def by_archived_code(ws: Workspace, manifest: Manifest, computed: Computed, *, because: str) -> object:
    """The result of computing with the archived code of a run; see `Computed`.

    Args:
        manifest: That of the run.
        because: Why the present code cannot compute it.

    Raises:
        ContractBroken: Its code is not archived, or does not load beside the modules that are there now.
    """
    run_id = manifest.run_id
    with tempfile.TemporaryDirectory(prefix="backfill_code_") as folder:
        _write_modules(ws, manifest, Path(folder) / "modules", because)
        result = Path(folder) / "result"
        task = Task(settings=ws.settings, run_id=run_id, result=result, computed=computed)
        path = [
            str(Path(folder) / "modules"),
            *(each for each in map(os.path.abspath, sys.path) if Path(each).exists()),
        ]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(dict.fromkeys(path)),
            # The folder in which it starts is not searched before the archived modules.
            "PYTHONSAFEPATH": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        ended = subprocess.run(  # noqa: S603
            [sys.executable, "-c", _START],
            input=pickle.dumps(task),
            env=environment,
            capture_output=True,
            check=False,
        )
        if not result.exists():
            said = ended.stderr.decode(errors="replace").strip()[-_MOST_SHOWN:]
            why = f"{because} With its archived code it stopped: {said or f'exit code {ended.returncode}'}"
            raise ReproducedOtherwise(run_id=run_id, why=why)
        answer = pickle.loads(result.read_bytes())  # noqa: S301 - of the process that was started here
    if isinstance(answer, str):
        why = f"{because} With its archived code, beside the modules and libraries that are there now: {answer}"
        raise ReproducedOtherwise(run_id=run_id, why=why)
    return answer


def _write_modules(ws: Workspace, manifest: Manifest, folder: Path, because: str) -> None:
    """A copy of the author's modules, with the archived text of those that the run reached."""
    files, run_id = ws.reference_archive, manifest.run_id
    code = archived(manifest.code_digest, files)
    if code is not None and code.sha256 != manifest.code_archive:
        why = f"{because} The list of its archived code in {files.place} is not the one that its manifest names."
        raise ReproducedOtherwise(run_id=run_id, why=why)
    texts = {each.path: text_of_module(each.source, files) for each in code.modules} if code else {}
    if not texts or None in texts.values():
        raise ReproducedOtherwise(run_id=run_id, why=f"{because} Its code is not archived in {files.place}.")
    holder = ws.code.sources.holder
    folder.mkdir()
    for top in sorted({path.partition("/")[0] for path in (*texts, f"{ws.domain.package.replace('.', '/')}/")}):
        if (holder / top).is_dir():
            shutil.copytree(
                holder / top, folder / top, copy_function=_copied, ignore=shutil.ignore_patterns("__pycache__", ".*")
            )
        elif (holder / f"{top}.py").is_file():
            shutil.copy2(holder / f"{top}.py", folder)
    for path, text in texts.items():
        file = folder.joinpath(*path.split("/")).resolve()
        if not file.is_relative_to(folder.resolve()):
            raise ReproducedOtherwise(run_id=run_id, why=f"{because} Its archived code names a file outside: {path}.")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        file.write_bytes((text or "").encode())


def _copied(source: str, target: str) -> None:
    """Modules are copied; what else lies beside them may be large, and is only read."""
    if source.endswith(".py"):
        shutil.copy2(source, target)
    else:
        Path(target).symlink_to(Path(source).absolute())


def main() -> None:
    """Answers one task, which standard input holds."""
    task: Task = pickle.loads(sys.stdin.buffer.read())  # noqa: S301 - of the process that has started this one
    compute_apart()
    answer: object
    try:
        answer = task.computed(Workspace.open(task.settings, conditions=False), task.run_id)
    except BackfillError as error:
        answer = error.message
    task.result.with_suffix(".part").write_bytes(pickle.dumps(answer))
    task.result.with_suffix(".part").replace(task.result)


# A published run, computed once more into a scratch folder and compared with what was recorded.
#
# Chunk by chunk: what was written is read back, and its content checksums are compared with the recorded ones.
# Rows are only looked at where those differ.

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
        raise MissingInput.coded(
            "nothing_to_compare",
            "the published files of {table} {partitions} are gone, and their checksums have "
            "the form of another release.",
            then="[report {run_id}]",
            run_id=work.manifest.run_id,
            table=table.name,
            partitions=Partitions.of(grain, lost),
        )
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


_MOST_LISTED = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproductionVersions:
    """The versions with which a run was staged and rebuilt."""

    recorded: Versions  #: The versions that it was staged with.
    present: Versions  #: The versions that it was rebuilt with.


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproductionReport:
    """The result of rebuilding a run."""

    run_id: str  #: The run.
    table: str  #: Its table.
    state: RunState  #: How far it is.
    transform: str  #: The transform that computed it.
    transform_version: str  #: The registered version of that transform.
    code_digest: str  #: sha256 over the code of that transform.
    versions: ReproductionVersions  #: What it was staged and rebuilt with.
    identical: bool  #: True if every content checksum is the recorded one; else the exit code is 1.
    partitions: Partitions  #: The partitions that were rebuilt.
    of_partitions: int  #: How many the run has.
    rows: int  #: How many rows were rebuilt.
    differences: tuple[Difference, ...]  #: Where they are not the recorded ones.
    sample: tuple[SampledRow, ...]  #: Some rows that differ: `before` as published, `after` as rebuilt.
    archived_code: bool = False  #: True if its archived code has computed it, since the present code is other code.
    #: With `--from-raw`, the same of the runs whose partitions it read, back to the files that landed.
    behind: tuple[ReproductionReport, ...] = ()


def reproduce_run(
    ws: Workspace,
    run_id: str,
    *,
    by: str,
    sample: int | None = None,
    from_raw: bool = False,
    listener: Listener = no_listener,
) -> ReproductionReport:
    """Rebuilds a run that was published, and compares it with what it published.

    Args:
        run_id: The run; it may have been superseded or rolled back since.
        sample: How many partitions, spread over the run with its first and last among them; None for all.
        from_raw: Rebuild the partitions that it read as well, back to days of sources, which are computed from the
            bytes that landed.

    Raises:
        UnknownName: There is no such run.
        IllegalTransition: It was never published, or computed nothing.
        ContractBroken: The code is not the one it was computed with, or the transform failed.
        MissingInput: An input version has been removed by retention, or a file or reference is gone; or the published
            files are, and their checksums have the form of another release.
    """
    if sample is not None and sample < 1:
        raise Refused.coded(
            "empty_sample",
            "a sample has at least one partition, not {sample}.",
            then="leave [sample=True] out for all",
            sample=sample,
        )
    with ws.ledger.read() as tx:
        run = tx.runs.get(run_id)
    chosen = run.manifest.partitions if sample is None else spread(run.manifest.partitions, sample)
    try:
        report = _by_either(ws, run, chosen, whole=sample is None, from_raw=from_raw, listener=listener)
        if from_raw:
            behind = tuple(
                _by_either(ws, each, days, whole=False, from_raw=True, listener=listener)
                for each, days in _read_by(ws, run)
            )
            identical = report.identical and all(each.identical for each in behind)
            report = replace(report, behind=behind, identical=identical)
    except ReproducedOtherwise as error:
        error.from_raw = from_raw
        raise
    with ws.ledger.write() as tx:
        payload = _event_payload(report)
        tx.events.record(actor=by, entity="run", entity_id=run_id, action="reproduced", payload=payload)
    return report


def _by_either(
    ws: Workspace, run: RunRecord, chosen: Sequence[date], *, whole: bool, from_raw: bool, listener: Listener
) -> ReproductionReport:
    """The comparison of some partitions of a run, by its archived code where the present one is another."""
    try:
        return _reproduced(ws, run, chosen, whole=whole, from_raw=from_raw, listener=listener)
    except ReproducedOtherwise as error:
        manifest = run.manifest
        if not manifest.code_archive or manifest.session_digest != session_digest():
            raise
        line = "with the code that it was planned with, from the archive, in a process of its own"
        listener(Progress(step="reproduce", done=0, total=len(chosen), line=line, table=manifest.table))
        computed = partial(_reproduced_there, chosen=tuple(chosen), whole=whole, from_raw=from_raw)
        found = by_archived_code(ws, manifest, computed, because=error.why)
        assert isinstance(found, ReproductionReport)
        return replace(found, archived_code=True)


def _reproduced_there(
    ws: Workspace, run_id: str, *, chosen: Sequence[date], whole: bool, from_raw: bool
) -> ReproductionReport:
    """The comparison in the process that has the archived code."""
    with ws.ledger.read() as tx:
        run = tx.runs.get(run_id)
    return _reproduced(ws, run, chosen, whole=whole, from_raw=from_raw, listener=no_listener)


def _reproduced(
    ws: Workspace, run: RunRecord, chosen: Sequence[date], *, whole: bool, from_raw: bool, listener: Listener
) -> ReproductionReport:
    """The comparison of some partitions of a run by the present code; nothing is recorded."""
    run_id = run.run_id
    with ws.ledger.read() as tx:
        work = replace(_pinned(ws, tx, run), from_raw=from_raw)
        recorded = staged_versions(event.payload for event in tx.events.entries(entity_id=run_id)) or {}
    try:
        found = rebuild(work, chosen, whole=whole, listener=listener)
    except (MissingInput, PySparkException, Py4JError) as error:
        # Retention may have removed its inputs meanwhile: then the ledger says so, and nothing has to be restored.
        with ws.ledger.read() as tx:
            pinned_files(tx, run_id, run.manifest.pinned)
        if isinstance(error, MissingInput):
            raise
        table, version = ws.domain.table(run.manifest.table), run.manifest.transform_version
        stopped = SparkStopped(run_id=run_id, table=table.name, why=spark_reason(error))
        raise broken_in_worker(error, table, version) or stopped from error
    report = _report(run, chosen, found, ReproductionVersions(recorded=recorded, present=ws.versions(ws.spark())))
    if not report.identical:
        with ws.ledger.read() as tx:
            for record in work.imports:
                _require_as_read(tx, run, record, differs=True)
    if from_raw and not report.identical:
        _require_as_declared(work, run_id)
    return report


def _read_by(ws: Workspace, run: RunRecord) -> Sequence[tuple[RunRecord, Sequence[date]]]:
    """The runs whose partitions a run read, and those that these read, each with the partitions; sources last."""
    wanted: dict[str, set[date]] = {}
    found: dict[str, RunRecord] = {}
    with ws.ledger.read() as tx:
        waiting = [run]
        while waiting:
            new: dict[str, set[date]] = {}
            for made_by, partition in _partitions_read(tx, waiting.pop()):
                if made_by != run.run_id and partition not in wanted.setdefault(made_by, set()):
                    wanted[made_by].add(partition)
                    new.setdefault(made_by, set()).add(partition)
            found |= {run_id: tx.runs.get(run_id) for run_id in new if run_id not in found}
            waiting += [found[run_id] for run_id in new]
    order = sorted(found, key=lambda run_id: (bool(found[run_id].manifest.change.imports), run_id))
    return [(found[run_id], sorted(wanted[run_id])) for run_id in order]


def _partitions_read(tx: ReadTransaction, run: RunRecord) -> Iterator[tuple[str, date]]:
    """The partitions that a run has pinned, each with the run that made it."""
    for pinned in run.manifest.pinned:
        versions = [(pin.partition, pin.version) for pin in pinned.partitions if pin.from_run is None]
        for partition, version in tx.versions.pinned(pinned.table, versions).items():
            yield version.run_id, partition
        yield from ((pin.from_run, pin.partition) for pin in pinned.partitions if pin.from_run is not None)


def _pinned(ws: Workspace, tx: ReadTransaction, run: RunRecord) -> Rebuilding:
    """A run that was published, with what was recorded of it and what it read."""
    if run.state not in EVER_PUBLISHED:
        raise IllegalTransition.coded(
            "nothing_to_reproduce",
            "run {run_id} is not published, so there is nothing to reproduce: it is {state}.",
            then="[report {run_id}]",
            run_id=run.run_id,
            state=run.state,
        )
    if not run.manifest.computed:
        raise IllegalTransition.coded(
            "computed_nothing",
            "run {run_id} computed nothing that could be reproduced: by it, snapshots of {table} expired.",
            then="[report {run_id}]",
            run_id=run.run_id,
            table=run.manifest.table,
        )
    try:
        require_same_code(ws, run.manifest)
    except PlannedOtherwise as error:
        raise ReproducedOtherwise(run_id=run.run_id, why=error.message) from error
    imports = tuple(tx.imports.get(import_id) for import_id in run.manifest.change.imports)
    for record in imports:
        _require_as_read(tx, run, record)
    return Rebuilding(
        ws=ws,
        manifest=run.manifest,
        candidates=tx.candidates.of_run(run.run_id),
        inputs=pinned_files(tx, run.run_id, run.manifest.pinned),
        imports=imports,
    )


def _require_as_read(tx: ReadTransaction, run: RunRecord, record: ImportRecord, *, differs: bool = False) -> None:
    """Refuses an import that was read anew by another declaration since a run was computed from it.

    Args:
        differs: Rows differ, so that one of which it is not recorded how an earlier release read it was read otherwise.
    """
    asked_at = run.manifest.requested_at
    if record.landed_at is None or record.landed_at <= asked_at:
        return
    landings = (each for each in tx.events.entries(entity_id=record.import_id) if each.action == "import_landed")
    read = [each.payload.get("reading") for each in landings if each.at <= asked_at]
    was, now = read[-1] if read else None, record.reading
    if was != now and (differs or (was and now and are_comparable(was, now))):
        raise MissingInput.coded(
            "read_anew",
            "{run_id} was computed from {import_id} ({path}) as an earlier declaration read it, and that file was "
            "read anew since: the rows that it gave then are not kept.",
            then="[report {run_id}]",
            run_id=run.run_id,
            import_id=record.import_id,
            path=record.original_path,
        )


def _require_as_declared(work: Rebuilding, run_id: str) -> None:
    """Refuses to call rows others whose files were read, for a run, by another declaration than the present one."""
    table = work.table
    if not isinstance(table, SourceTable):
        return
    otherwise = reads_otherwise(table)
    for record in work.imports:
        if otherwise(record):
            why = (
                f"{run_id} was computed from {record.import_id} ({record.original_path}) as its source was declared "
                f"then, and files of {table.name} are read otherwise now."
            )
            raise ReproducedOtherwise(run_id=run_id, why=why)


def _report(
    run: RunRecord, chosen: Sequence[date], found: Sequence[Rebuilt], versions: ReproductionVersions
) -> ReproductionReport:
    manifest = run.manifest
    differences = tuple(difference for part in found for difference in part.differences)
    return ReproductionReport(
        run_id=run.run_id,
        table=manifest.table,
        state=run.state,
        transform=manifest.transform,
        transform_version=manifest.transform_version,
        code_digest=manifest.code_digest,
        versions=versions,
        identical=not differences,
        partitions=Partitions.of(manifest.grain, chosen),
        of_partitions=len(manifest.partitions),
        rows=sum(part.rows for part in found),
        differences=differences,
        sample=tuple(row for part in found for row in part.sample)[:MOST_SAMPLED],
    )


def spread(partitions: Sequence[date], count: int) -> tuple[date, ...]:
    """So many of the partitions, evenly spread, the first and the last among them; all when there are no more."""
    if count >= len(partitions):
        return tuple(partitions)
    if count == 1:
        return (partitions[0],)
    return tuple(partitions[number * (len(partitions) - 1) // (count - 1)] for number in range(count))


def _event_payload(report: ReproductionReport) -> Mapping[str, Any]:
    return {
        "identical": report.identical,
        "partitions": len(report.partitions),
        "of_partitions": report.of_partitions,
        "differing": len(report.differences),
        "behind": {each.run_id: each.identical for each in report.behind},
        "differing_partitions": [each.partition.isoformat() for each in report.differences[:_MOST_LISTED]],
    }

"""Reproduction: recomputes a published run from its manifest and compares the rows.

The run is computed from the recorded input versions, references and release. Only an event in the ledger remains.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from backfill_assets.candidates.compute import require_same_code
from backfill_assets.candidates.inputs import pinned_files
from backfill_assets.core.errors import MissingInput
from backfill_assets.core.progress import Listener, Progress, no_listener
from backfill_assets.core.session_settings import Versions, session_digest, staged_versions
from backfill_assets.core.spark_causes import spark_reason
from backfill_assets.domain import SourceTable
from backfill_assets.domain.errors import PlannedOtherwise
from backfill_assets.landing.imports import are_comparable, reads_otherwise
from backfill_assets.ledger.findings import SampledRow
from backfill_assets.ledger.imports import ImportRecord
from backfill_assets.ledger.records import RunRecord
from backfill_assets.ledger.states import EVER_PUBLISHED, RunState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.partitions import Partitions
from backfill_assets.transforms.apply import broken_in_worker
from backfill_assets.upkeep.archived_code import by_archived_code
from backfill_assets.upkeep.errors import (
    ComputedNothing,
    EmptySample,
    NothingToReproduce,
    ReadAnew,
    ReproducedOtherwise,
    SparkStopped,
)
from backfill_assets.upkeep.rebuild import MOST_SAMPLED, Difference, Rebuilding, Rebuilt, rebuild
from backfill_assets.workspace import Workspace

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
    identical: bool  #: Whether every content checksum is the recorded one; else the exit code is 1.
    partitions: Partitions  #: The partitions that were rebuilt.
    of_partitions: int  #: How many the run has.
    rows: int  #: How many rows were rebuilt.
    differences: tuple[Difference, ...]  #: Where they are not the recorded ones.
    sample: tuple[SampledRow, ...]  #: Some rows that differ: `before` as published, `after` as rebuilt.
    archived_code: bool = False  #: Whether its archived code has computed it, since the present code is other code.
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
        raise EmptySample(sample=sample)
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
    order = sorted(found, key=lambda run_id: (bool(found[run_id].manifest.imports), run_id))
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
        raise NothingToReproduce(run_id=run.run_id, state=run.state)
    if not run.manifest.computed:
        raise ComputedNothing(run_id=run.run_id, table=run.manifest.table)
    try:
        require_same_code(ws, run.manifest)
    except PlannedOtherwise as error:
        raise ReproducedOtherwise(run_id=run.run_id, why=error.message) from error
    imports = tuple(tx.imports.get(import_id) for import_id in run.manifest.imports)
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
        raise ReadAnew(run_id=run.run_id, import_id=record.import_id, path=record.original_path)


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

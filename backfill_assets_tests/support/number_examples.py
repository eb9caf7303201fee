"""Runs whose rows are one number per day, staged without Spark: for many at once, or for what happens between steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import DateType, LongType, StructField, StructType

from backfill_assets.core.clock import Clock
from backfill_assets.core.crash_points import Reached, carry_on
from backfill_assets.core.identity import DataFile, FileSet
from backfill_assets.core.settings import Settings
from backfill_assets.lake.tables import Lake
from backfill_assets.ledger.records import CandidatePartition, PublicationRecord
from backfill_assets.ledger.states import RunState
from backfill_assets.requests.publish import swap_and_acknowledge
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support.lakes import folder_of
from backfill_assets_tests.support.ledger_examples import a_manifest, publication_of, results_for

NUMBERS = StructType([StructField("number", LongType()), StructField("day", DateType())])


def workspace_of_numbers(home: Path, ledger_url: str, clock: Clock, reached: Reached = carry_on) -> Workspace:
    """A workspace whose lake gets tables of numbers."""
    environment = {
        "BACKFILL_HOME": str(home),
        "BACKFILL_DOMAIN": "backfill_assets_tests.domains.example",
        "BACKFILL_LEDGER_URL": ledger_url,
    }
    return Workspace.open(Settings.from_environment(environment), clock=clock, reached=reached)


def number_file(lake: Lake, table: str, run_id: str, day: date, number: int) -> FileSet:
    path = folder_of(lake, table) / "_runs" / run_id / f"day={day}" / "part-0.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"number": pa.array([number], pa.int64())}), path)
    relative = path.relative_to(folder_of(lake, table)).as_posix()
    return FileSet.of([DataFile(path=relative, size_bytes=path.stat().st_size, rows=1)])


def gated(ws: Workspace, run_id: str, table: str, days: Iterable[date], number: int) -> Sequence[CandidatePartition]:
    """Plans, stages, gates and approves a run, in the transactions that the operations take."""
    ledger, chosen = ws.ledger, tuple(days)
    with ledger.write() as writer:
        writer.runs.add(a_manifest(run_id, table=table, days=chosen, partition_column="day"), actor="ann")
    with ledger.write() as writer:
        writer.runs.take(run_id, RunState.STAGING, actor="runner", attempt="a1")
        writer.candidates.start_chunk(run_id, 1, chosen, attempt="a1")
    candidates = [
        CandidatePartition(run_id=run_id, partition=day, files=number_file(ws.lake, table, run_id, day, number), rows=1)
        for day in chosen
    ]
    with ledger.write() as writer:
        writer.candidates.finish_chunk(
            run_id, 1, input_rows=1, output_rows=1, candidates=candidates, attempt="a1", checksum="c2:1"
        )
        writer.runs.move(run_id, RunState.STAGED, actor="runner", attempt="a1")
    digests = {candidate.partition: candidate.files.digest for candidate in candidates}
    results = [replace(result, digest=digests[result.partition]) for result in results_for(run_id, chosen)]
    with ledger.write() as writer:
        writer.runs.take(run_id, RunState.GATING, actor="runner", attempt="a1")
        writer.candidates.record_gates(run_id, candidates, results, actor="runner", attempt="a1")
        writer.runs.move(run_id, RunState.PASSED, actor="runner", attempt="a1")
    with ledger.write() as writer:
        writer.requests.approve(run_id, by="Bob")
    return candidates


def publish_numbers(ws: Workspace, candidates: Sequence[CandidatePartition]) -> PublicationRecord:
    """Publishes what was gated over what is accepted now."""
    run_id = candidates[0].run_id
    new = {candidate.partition: candidate.files for candidate in candidates}
    with ws.ledger.write() as writer:
        run = writer.runs.get(run_id)
        example = publication_of(writer, run_id, table=run.manifest.table, days=new)
        changes = tuple(replace(change, new=new[change.partition], rows=1) for change in example.changes)
        intent = replace(example, changes=changes)
        writer.publications.begin(intent, actor="Bob")
    return swap_and_acknowledge(ws, run, intent, by="Bob")


def numbers_seen(ws: Workspace, table: str) -> dict[date, int]:
    """What readers see."""
    rows = ws.lake.open(table).to_pyarrow_table().to_pylist()
    assert len({row["day"] for row in rows}) == len(rows)
    return {row["day"]: row["number"] for row in rows}


def must_agree(ws: Workspace, tables: Iterable[str]) -> None:
    """The chain is whole, the rows are what the events say, and readers see exactly what is accepted."""
    with ws.ledger.read() as reader:
        assert reader.events.violations() == ()
        assert list(reader.row_checks.violations()) == []
        for table in tables:
            accepted = {path for version in reader.versions.accepted(table).values() for path in version.files.paths}
            live = set(ws.lake.open(table).get_add_actions(flatten=True).column("path").to_pylist())
            assert live == accepted

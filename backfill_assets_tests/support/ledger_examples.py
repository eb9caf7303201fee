"""Small manifests, candidates and publications, and the steps that bring a run as far as a test needs it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import count
from typing import Any

from sqlalchemy import MetaData, text

from backfill_assets.calendar.partitions import Grain
from backfill_assets.capture.landed_files import LandedFile
from backfill_assets.capture.streams import Resolution, Resolved
from backfill_assets.core.clock import system_clock
from backfill_assets.core.identity import EMPTY_FILE_SET, DataFile, FileSet
from backfill_assets.ledger.connection import connect_engine
from backfill_assets.ledger.findings import FailingKey, Finding, GateReads, GateResult, SampledRow
from backfill_assets.ledger.imports import ImportRecord, KeyCounts
from backfill_assets.ledger.provenance import SourceProvenance
from backfill_assets.ledger.records import (
    Action,
    CandidatePartition,
    PartitionChange,
    PartKind,
    PublicationIntent,
    ReplayPart,
    ReplayRecord,
    RunRecord,
    VerifiedPartition,
)
from backfill_assets.ledger.states import ApprovalState, ImportState, ReplayState, RunState
from backfill_assets.ledger.store import Ledger
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.kinds.load import LOAD
from backfill_assets.planning.kinds.replace import REPLACE
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import Limits, Mode, PinnedInput, PinnedPartition, RunPurpose
from backfill_assets.planning.safeguards import USUAL_POLICY, Policy
from backfill_assets_tests.conftest import NOON

TABLE = "silver.example"
DAYS = tuple(date(2024, 10, 1) + timedelta(days=number) for number in range(3))
_publication_numbers = count(1)


def a_manifest(run_id: str, *, table: str = TABLE, days: Iterable[date] = DAYS, **changes: Any) -> Manifest:
    manifest = Manifest(
        run_id=run_id,
        request_id=changes.pop("request_id", None) or run_id,
        kind=RunPurpose.RESTATEMENT,
        mode=Mode.BACKFILL,
        reason="deadlines were a day off",
        requested_by="Ann Lee",
        requested_at=datetime(2026, 1, 15, 11, 30, 5, 123456, tzinfo=UTC),
        domain="example",
        table=table,
        grain=Grain.DAILY,
        partition_column="business_date",
        partitions=tuple(days),
        transform="example",
        transform_version="1.0.0",
        code_digest="c" * 64,
        configuration={"window": {"days_back": 1}},
        limits=Limits(chunk_partitions=5_000),
        session_digest="s" * 64,
        policy=USUAL_POLICY,
        change=LOAD if table.startswith("bronze.") else REPLACE,
    )
    return replace(manifest, **changes)


def a_run(manifest: Manifest, state: RunState = RunState.PASSED, **changes: Any) -> RunRecord:
    """A run as the ledger has it, not approved."""
    record = RunRecord(
        run_id=manifest.run_id,
        request_id=manifest.request_id,
        table=manifest.table,
        kind=manifest.kind,
        mode=manifest.mode,
        because=manifest.cause.kind,
        first=manifest.partitions[0],
        last=manifest.partitions[-1],
        sequence=1,
        manifest_digest=manifest.digest,
        state=state,
        approval=ApprovalState.DRAFT,
        approved_by=None,
        approved_at=None,
        updated_at=manifest.requested_at,
        manifest=manifest,
    )
    return replace(record, **changes)


def an_import(**changes: Any) -> ImportRecord:
    """A late file of ana with two new keys, landed and loaded."""
    record = ImportRecord(
        import_id="imp-000007",
        source="bronze.events",
        family="file",
        range_from="0",
        range_to="1",
        sha256="0" * 64,
        original_path="late.csv",
        stored_path="late.csv",
        size_bytes=1,
        format="csv",
        compression="",
        state=ImportState.LOADED,
        arrival=7,
        first_seen_at=datetime(2026, 1, 11, 12, tzinfo=UTC),
        judged_at=datetime(2026, 1, 11, 12, tzinfo=UTC),
        landed_at=datetime(2026, 1, 11, 12, tzinfo=UTC),
        landed_by="ana",
        on_duplicate="ignore",
        keys=KeyCounts(current=2),
    )
    return replace(record, **changes)


def files_of(run_id: str, day: date, rows: int = 3) -> FileSet:
    path = f"_runs/{run_id}/business_date={day}/part-0.parquet"
    return FileSet.of([DataFile(path=path, size_bytes=100, rows=rows)])


def made_from(run_id: str) -> SourceProvenance:
    return SourceProvenance(imports=((f"imp-{run_id}", "a" * 64),), session="s" * 64)


def staged(run_id: str, days: Iterable[date] = DAYS) -> list[CandidatePartition]:
    return [
        CandidatePartition(
            run_id=run_id, partition=day, files=files_of(run_id, day), rows=3, provenance=made_from(run_id)
        )
        for day in days
    ]


def results_for(run_id: str, days: Iterable[date] = DAYS, gates: Iterable[str] = ("unique",)) -> list[GateResult]:
    return [
        GateResult(
            run_id=run_id,
            partition=day,
            gate=gate,
            blocking=True,
            passed=True,
            digest=files_of(run_id, day).digest,
            finding=Finding.COLUMNS,
            observed={"keys": 3, "sample": ["é"]},
        )
        for day in days
        for gate in gates
    ]


def plan(ledger: Ledger, run_id: str, **of_manifest: Any) -> Manifest:
    manifest = a_manifest(run_id, **of_manifest)
    with ledger.write() as writer:
        writer.runs.add(manifest, actor="ann")
    return manifest


def stage(ledger: Ledger, run_id: str, days: Iterable[date] = DAYS) -> None:
    with ledger.write() as writer:
        writer.runs.take(run_id, RunState.STAGING, actor="runner", attempt="a1")
        writer.candidates.start_chunk(run_id, 1, tuple(days), attempt="a1")
        writer.candidates.finish_chunk(
            run_id, 1, input_rows=10, output_rows=9, candidates=staged(run_id, days), attempt="a1", checksum="c2:1"
        )
        writer.runs.move(run_id, RunState.STAGED, actor="runner", attempt="a1")


def gate(ledger: Ledger, run_id: str, days: Iterable[date] = DAYS) -> None:
    with ledger.write() as writer:
        writer.runs.take(run_id, RunState.GATING, actor="runner", attempt="a1")
        writer.candidates.record_gates(
            run_id, staged(run_id, days), results_for(run_id, days), actor="runner", attempt="a1"
        )
        writer.runs.move(run_id, RunState.PASSED, actor="runner", attempt="a1")


def show_rows(ledger: Ledger, run_id: str, reads: Sequence[GateReads] = ()) -> None:
    """A run that its gates block, with rows for its reviewer, and with what its gates have read besides."""
    plan(ledger, run_id)
    stage(ledger, run_id)
    before, after = {"state": "é"}, {"state": "late"}
    changed = SampledRow(partition=DAYS[0], key={"case_id": "case-1742"}, before=before, after=after)
    failing = FailingKey(partition=DAYS[1], gate="unique", key={"case_id": "case-1743"})
    with ledger.write() as writer:
        writer.runs.take(run_id, RunState.GATING, actor="runner", attempt="a1")
        writer.candidates.record_gates(
            run_id,
            staged(run_id),
            results_for(run_id),
            actor="runner",
            attempt="a1",
            reads=reads,
            samples=((changed,), (failing,)),
        )
        writer.runs.move(run_id, RunState.BLOCKED, actor="runner", attempt="a1", note="blocked by unique")


def read_by_a_gate(run_id: str) -> GateReads:
    """What a gate of a run has read besides its candidate: one partition of a table."""
    pin = PinnedPartition(partition=DAYS[0], version=1, digest="d" * 64)
    cases = PinnedInput(argument="cases", table="silver.cases", partitions=(pin,))
    return GateReads(run_id=run_id, gate="unique", inputs=(cases,))


def make_publishable(
    ledger: Ledger, run_id: str, *, table: str = TABLE, days: Iterable[date] = DAYS, request_id: str | None = None
) -> None:
    """Plans, stages and gates a run, and approves one that is alone."""
    chosen = tuple(days)
    plan(ledger, run_id, table=table, days=chosen, request_id=request_id)
    stage(ledger, run_id, chosen)
    gate(ledger, run_id, chosen)
    if request_id is None:
        with ledger.write() as writer:
            writer.requests.approve(run_id, by="Bob")


def publication_of(
    reader: ReadTransaction, run_id: str, *, table: str = TABLE, days: Iterable[date] = DAYS
) -> PublicationIntent:
    accepted = reader.versions.accepted(table)
    changes = []
    for day in days:
        before = accepted.get(day)
        changes.append(
            PartitionChange(
                partition=day,
                expected_version=before.version if before else 0,
                expected=before.files if before else EMPTY_FILE_SET,
                new=files_of(run_id, day),
                rows=3,
                checksum=f"c2:{run_id}-{day}",
                provenance=made_from(run_id),
            )
        )
    return PublicationIntent(
        publication_id=f"pub-{next(_publication_numbers)}",
        run_id=run_id,
        action=Action.PUBLISH,
        table=table,
        by="Bob",
        reason="agreed",
        changes=tuple(changes),
    )


def rollback_of(reader: ReadTransaction, publication_id: str) -> PublicationIntent:
    undone = reader.publications.get(publication_id)
    versions = {version.partition: version for version in reader.versions.of_publication(publication_id)}
    changes = tuple(
        PartitionChange(
            partition=change.partition,
            expected_version=versions[change.partition].version,
            expected=change.new,
            new=change.expected,
            rows=change.expected.rows,
            checksum="",
            restores=change.expected_version,
        )
        for change in undone.changes
    )
    return replace(
        undone,
        publication_id=f"pub-{next(_publication_numbers)}",
        action=Action.ROLLBACK,
        reason="it was wrong",
        changes=changes,
        verified=(),
        undoes=publication_id,
    )


def carry_out(ledger: Ledger, intent: PublicationIntent, *, delta_version: int = 1) -> str:
    """Begins and finishes a publication or a rollback."""
    with ledger.write() as writer:
        writer.publications.begin(intent, actor="Bob")
    with ledger.write() as writer:
        writer.publications.finish(intent.publication_id, delta_version=delta_version, actor="Bob")
    return intent.publication_id


def publish(ledger: Ledger, run_id: str, *, table: str = TABLE, days: Iterable[date] = DAYS, at: int = 1) -> str:
    with ledger.read() as reader:
        intent = publication_of(reader, run_id, table=table, days=tuple(days))
    return carry_out(ledger, intent, delta_version=at)


def publish_equal(ledger: Ledger, run_id: str, equal: Iterable[date], *, table: str = TABLE, at: int = 2) -> str:
    """Publishes a run some of whose partitions came out as they were."""
    with ledger.read() as reader:
        accepted = reader.versions.accepted(table)
        days = reader.runs.get(run_id).manifest.partitions
        intent = publication_of(reader, run_id, table=table, days=[day for day in days if day not in set(equal)])
    verified = tuple(
        VerifiedPartition(partition=day, version=accepted[day].version, files=accepted[day].files) for day in equal
    )
    with_verified = PublicationIntent(
        publication_id=intent.publication_id,
        run_id=run_id,
        action=Action.PUBLISH,
        table=table,
        by="Bob",
        reason="agreed",
        changes=intent.changes,
        verified=verified,
    )
    return carry_out(ledger, with_verified, delta_version=at)


def roll_back(ledger: Ledger, publication_id: str, *, at: int = 9) -> str:
    with ledger.read() as reader:
        intent = rollback_of(reader, publication_id)
    return carry_out(ledger, intent, delta_version=at)


def an_offered_file(sha256: str = "a" * 64, source: str = "bronze.events", **changes: Any) -> LandedFile:
    offered = LandedFile(
        source=source,
        family="file",
        range_from="0",
        range_to="1",
        sha256=sha256,
        original_path="/mail/é.csv",
        stored_path=f"{source}/{sha256}.csv.gz",
        size_bytes=10,
        format="csv",
        compression="gzip",
    )
    return replace(offered, **changes)


def tamper(url: str, *statements: str, **values: object) -> None:
    """Changes the database without the ledger's knowledge."""
    engine = connect_engine(url)
    try:
        with engine.begin() as connection:
            for statement in statements:
                connection.execute(text(statement), values)
    finally:
        engine.dispose()


def disarm(url: str, table: str) -> None:
    """Drops the triggers that make a table append-only."""
    if url.startswith("sqlite"):
        tamper(url, f"DROP TRIGGER {table}_refuse_update", f"DROP TRIGGER {table}_refuse_delete")
    else:
        tamper(url, f"DROP FUNCTION {table}_refuse CASCADE")


def dumped(url: str) -> Sequence[str]:
    """Every row of every table of a ledger, as text, in an order of its own."""
    engine = connect_engine(url)
    try:
        tables = MetaData()
        tables.reflect(engine)
        with engine.connect() as connection:
            found = {table.name: connection.execute(table.select()) for table in tables.sorted_tables}
            return sorted(f"{name}: {tuple(row)!r}" for name, rows in found.items() for row in rows)
    finally:
        engine.dispose()


def write_events(url: str, writer_name: str, how_many: int) -> None:
    """What one of several concurrent processes does: opens the ledger and writes events, one transaction each."""
    ledger = Ledger.open(url, clock=system_clock)
    for number in range(how_many):
        with ledger.write() as writer:
            writer.events.record(
                actor=writer_name, entity="test", entity_id=writer_name, action="wrote", payload={"number": number}
            )
    ledger.close()


def states_of_versions(reader: ReadTransaction, day: date, table: str = TABLE) -> Mapping[int, str]:
    return {version.version: str(version.state) for version in reader.versions.history(table, day)}


def a_replay() -> ReplayRecord:
    """A replay to a live topic that waits for an approval, as it is written down."""
    part = ReplayPart(kind=PartKind.CAPTURED, name="events/a.jsonl", digest="0" * 64, records=5, size_bytes=9)
    return ReplayRecord(
        replay_id="",
        subject="bronze.events",
        table="bronze.events",
        period_from=NOON,
        period_to=NOON,
        parts=(part,),
        family="kafka",
        stream="cluster",
        target="events.backfill",
        mark="7",
        stream_partitions=1,
        is_live=True,
        identity=None,
        contract="",
        state=ReplayState.ASKED,
        sent=None,
        left_out=None,
        failure=None,
        ends={},
        by="ann",
        reason="the index is new",
        asked_at=NOON,
        policy=Policy(),
    )


def a_resolution() -> Resolution:
    """Five records of one partition of a topic."""
    span = Resolved(partition="0", range_from="0", range_to="5", held_from="0", held_to="9", first_at=NOON)
    return Resolution(
        family="kafka", name="events", stream="c/t", pinned={"retention.ms": "-1"}, is_compacted=False, spans=(span,)
    )


def violations(ledger: Ledger) -> tuple[str, ...]:
    with ledger.read() as reader:
        return (*reader.events.violations(), *reader.row_checks.violations())

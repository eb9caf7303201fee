"""What does a ledger look like after years of small runs? Rows and events as the writer leaves them, chain included.

Four tables of the tests' story domain. Every publication has one day, dependents follow those of their inputs, and the
other runs were cancelled, failed, or are never published. Nothing is computed, and the tables in the lake are empty.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from itertools import count, pairwise
from typing import Any

from sqlalchemy import Table, bindparam, insert

from backfill_assets.application.terms import present_terms
from backfill_assets.core.clock import LedgerClock
from backfill_assets.core.identity import EMPTY_FILE_SET, DataFile, FileSet, sha256_text
from backfill_assets.core.session_settings import session_digest
from backfill_assets.domain import DerivedTable
from backfill_assets.gates.agreed import gate_terms
from backfill_assets.landing.imports import LOAD, LOAD_VERSION, contract_of
from backfill_assets.ledger import queries, schema
from backfill_assets.ledger.connection import WRITE, connect_engine, transaction
from backfill_assets.ledger.events import Event, EventLog
from backfill_assets.ledger.findings import Finding, GateResult
from backfill_assets.ledger.records import Action, CandidatePartition, PartitionChange, PublicationIntent
from backfill_assets.ledger.row_digests import PROTECTED
from backfill_assets.ledger.states import ApprovalState, ChunkState, PublicationState, RunState, VersionState
from backfill_assets.ledger.versions import month_of
from backfill_assets.planning.manifest import Manifest, configuration_of
from backfill_assets.planning.manifest_parts import (
    A_PERSON,
    WHAT_LANDED,
    CauseKind,
    Limits,
    Mode,
    PinnedInput,
    PinnedPartition,
    RunCause,
    RunPurpose,
)
from backfill_assets.transforms.schemas import stored_schema
from backfill_assets.workspace import Workspace

FIRST = date(2024, 1, 1)
NOW = datetime(2027, 1, 1, 12, tzinfo=UTC)
MARGIN = 2
"""Days at either end that only sources have, so that no window lacks its input."""

PATH = (RunState.PLANNED, RunState.STAGING, RunState.STAGED, RunState.GATING, RunState.PASSED)
ENDS = (RunState.CANCELLED, RunState.CANCELLED, RunState.PASSED, RunState.FAILED, RunState.BLOCKED)
"""How runs end that are not published, one after the other; those that PASSED are dry runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """How long the history is: runs per table, publications of all tables together, and days per table."""

    runs: int = 4_000
    publications: int = 10_000
    days: int = 500


@dataclass(slots=True)
class Accepted:
    """The version of a day that readers see."""

    version: int
    run_id: str
    files: FileSet
    publication_id: str


@dataclass(slots=True)
class History:
    """What has been written so far, and the rows that are waiting to be inserted."""

    ws: Workspace
    log: EventLog
    accepted: dict[str, dict[date, Accepted]] = field(default_factory=lambda: defaultdict(dict))
    waiting: dict[Table, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    superseded: list[tuple[str, date, int, str]] = field(default_factory=list)
    numbers: count[int] = field(default_factory=lambda: count(1))

    def add(self, table: Table, **values: Any) -> None:
        """A row to be inserted with the others."""
        self.waiting[table].append(values)

    def insert(self) -> None:
        """Inserts what is waiting, in the order of references."""
        for table in schema.metadata.sorted_tables:
            if found := self.waiting.pop(table, None):
                names = PROTECTED[table]
                of = (tuple(row[name] for name in names) if len(names) > 1 else row[names[0]] for row in found)
                self.log.write(insert(table), found, of=list(of))
        self.log.append(event("history", "made up", "rows_written", {}))


def fill(ws: Workspace, length: Length) -> None:
    """Writes the history into the empty ledger of a workspace, and makes its tables in the lake."""
    ws.ledger.close()
    for name, table in ws.domain.tables.items():
        ws.lake.ensure(name, stored_schema(table), table.partition.column)
    engine = connect_engine(ws.settings.ledger_url)
    templates = {name: template(ws, name) for name in ws.graph.tables}
    published = length.publications // len(templates)
    with transaction(engine, WRITE) as connection:
        history = History(ws, EventLog(connection, LedgerClock(lambda: NOW), timedelta()))
        for number in range(published):
            for name in templates:
                publish(history, templates[name], number, length)
            if number % 50 == 49:
                history.insert()
        history.insert()
        for number in range(published, length.runs):
            for name in templates:
                end(history, templates[name], number, length)
        history.insert()
        supersede(history)
        if engine.dialect.name == "postgresql":
            # Its autovacuum does so within a minute.
            connection.exec_driver_sql("ANALYZE")
    engine.dispose()


def template(ws: Workspace, name: str) -> Manifest:
    """What all manifests of a table have in common, as they would be planned now."""
    table = ws.domain.tables[name]
    common: dict[str, Any] = {
        "run_id": "",
        "request_id": "",
        "kind": RunPurpose.RESTATEMENT,
        "mode": Mode.BACKFILL,
        "reason": "a day came late",
        "requested_by": "ana",
        "requested_at": NOW - timedelta(days=1),
        "domain": ws.domain.name,
        "table": name,
        "grain": table.partition.grain,
        "partition_column": table.partition.column,
        "partitions": (FIRST,),
        "gates": gate_terms(table),
        "limits": Limits(chunk_partitions=100),
        "session_digest": session_digest(),
        "policy": table.policy,
    }
    if isinstance(table, DerivedTable):
        terms = present_terms(ws, name)
        return Manifest(
            **common,
            transform=terms.transform,
            transform_version=terms.transform_version,
            code_digest=terms.code_digest,
            code_modules=terms.code_modules,
            versions=terms.versions,
            configuration=configuration_of(ws.graph.table(name)),
        )
    code = ws.code.of(table, LOAD_VERSION)
    return Manifest(
        **{**common, "kind": RunPurpose.LIVE, "mode": Mode.LIVE},
        cause=WHAT_LANDED,
        transform=LOAD,
        transform_version=LOAD_VERSION,
        code_digest=code.digest,
        code_modules=code.modules,
        configuration=contract_of(table),
    )


def day_of(ws: Workspace, name: str, number: int, length: Length) -> date:
    """The day that a table's run of this number is about."""
    margin = MARGIN * len(ancestors(ws, name))
    return FIRST + timedelta(days=margin + number % (length.days - 2 * margin))


def ancestors(ws: Workspace, name: str) -> set[str]:
    """The tables that a table depends on, at any distance."""
    above = {edge.table for edge in ws.graph.table(name).inputs}
    return above.union(*(ancestors(ws, each) for each in above))


def files_of(run_id: str, day: date) -> FileSet:
    """What a run staged for a day."""
    path = f"_runs/{run_id}/a1/day={day}/part-0.parquet"
    return FileSet.of([DataFile(path=path, size_bytes=4_096, rows=100, sha256=sha256_text(path))])


def planned(history: History, of: Manifest, number: int, length: Length, *, mode: Mode | None = None) -> Manifest:
    """The manifest of a run, with what is accepted now; a dependent's follows the publication of its first input."""
    graph, day = history.ws.graph, day_of(history.ws, of.table, number, length)
    inputs, followed = [], []
    for edge in graph.table(of.table).inputs:
        accepted = history.accepted[edge.table]
        pins = [
            PinnedPartition(partition=p, version=accepted[p].version, digest=accepted[p].files.digest)
            for p in graph.needed(edge, graph.table(of.table), (day,))
            if p in accepted
        ]
        inputs.append(PinnedInput(argument=edge.argument, table=edge.table, partitions=tuple(pins)))
        followed += [accepted[day].publication_id] if day in accepted else []
    is_follower = bool(followed) and mode is None
    cause = RunCause(kind=CauseKind.FOLLOW_UP, publications=tuple(followed[:1])) if is_follower else of.cause
    run_id = f"{of.table.partition('.')[2]}-{number:05d}"
    chosen = replace(
        of, run_id=run_id, request_id=run_id, partitions=(day,), inputs=tuple(inputs), mode=mode or of.mode
    )
    return replace(chosen, cause=cause if mode is None else A_PERSON)


def plan(history: History, manifest: Manifest, state: RunState) -> list[Event]:
    """The rows of a planned run, and its events as far as PASSED or the state in which it ended."""
    run_id = manifest.run_id
    steps = PATH if state in (RunState.PUBLISHED, RunState.PASSED) else (*PATH[: PATH.index(RunState.GATING)], state)
    if state is RunState.CANCELLED:
        steps = (RunState.PLANNED, RunState.CANCELLED)
    history.add(schema.manifests, run_id=run_id, digest=manifest.digest, body=manifest.text)
    first = history.log.append(planned_event(manifest))
    history.add(
        schema.runs,
        run_id=run_id,
        request_id=run_id,
        table_name=manifest.table,
        state=state,
        note="",
        added_sequence=first,
        updated_at=NOW,
        kind=manifest.kind,
        mode=manifest.mode,
        because=manifest.cause.kind,
        first_partition=manifest.partitions[0],
        last_partition=manifest.partitions[-1],
        priority=manifest.limits.priority,
        terms=manifest.terms.document,
    )
    for publication_id in manifest.cause.publications:
        history.add(schema.run_follows, run_id=run_id, publication_id=publication_id)
    return [moved(run_id, before, after) for before, after in pairwise(steps)]


def planned_event(manifest: Manifest) -> Event:
    """What the ledger records of a manifest."""
    payload = {
        "manifest_digest": manifest.digest,
        "table": manifest.table,
        "kind": str(manifest.kind),
        "reason": manifest.reason,
        "requested_by": manifest.requested_by,
    }
    return event("run", manifest.run_id, "planned", payload, after=RunState.PLANNED)


def event(
    entity: str, entity_id: str, action: str, payload: Mapping[str, Any], *, before: str = "", after: str = ""
) -> Event:
    """An event of the benchmark's one actor."""
    return Event(
        actor="ana",
        entity=entity,
        entity_id=entity_id,
        action=action,
        from_state=str(before),
        to_state=str(after),
        payload=payload,
    )


def moved(run_id: str, before: RunState, after: RunState) -> Event:
    """A step of a run."""
    return event("run", run_id, "moved", {}, before=before, after=after)


def stage(history: History, manifest: Manifest, accepted: Accepted | None) -> tuple[CandidatePartition, Event]:
    """The rows of a staged and gated run, and the event of its gates."""
    run_id, (day,) = manifest.run_id, manifest.partitions
    files = files_of(run_id, day)
    candidate = CandidatePartition(
        run_id=run_id,
        partition=day,
        files=files,
        rows=100,
        checksum=f"xx64:{run_id}",
        compared_version=accepted.version if accepted else 0,
        compared_digest=accepted.files.digest if accepted else EMPTY_FILE_SET.digest,
        compared_checksum=f"xx64:{accepted.run_id}" if accepted else "",
    )
    results = [
        GateResult(
            run_id=run_id,
            partition=day,
            gate=term.name,
            blocking=term.blocking,
            passed=True,
            digest=files.digest,
            finding=Finding.COLUMNS,
        )
        for term in manifest.gates
    ]
    history.add(
        schema.chunk_runs,
        run_id=run_id,
        number=1,
        partitions=[day.isoformat()],
        state=ChunkState.DONE,
        input_rows=100,
        output_rows=100,
        started_at=NOW - timedelta(seconds=9),
        finished_at=NOW,
        attempt="a1",
        checksum=f"xx64:{run_id}",
        seam_checksum="",
    )
    history.waiting[schema.candidate_partitions].append(
        queries.row_of(candidate, files_digest=candidate.files.digest, chunk=1)
    )
    history.waiting[schema.gate_results] += [queries.row_of(result) for result in results]
    return candidate, event("gates", run_id, "gates_recorded", {"partitions": 1, "results": len(results)})


def approve(history: History, manifest: Manifest) -> Event:
    """The row and the event of an approval."""
    run_id, digest = manifest.run_id, manifest.digest
    history.add(
        schema.approvals,
        request_id=run_id,
        state=ApprovalState.APPROVED,
        manifest_digest=digest,
        approved_by="ben",
        approved_at=NOW,
        note="",
    )
    approved = event(
        "approval", run_id, "approved", {"manifest_digest": digest, "note": ""}, before="DRAFT", after="APPROVED"
    )
    return replace(approved, actor="ben")


def publish(history: History, of: Manifest, number: int, length: Length) -> None:
    """A run of one day, from its plan to a version that readers see and an outbox entry that was followed."""
    manifest = planned(history, of, number, length)
    run_id, (day,), table = manifest.run_id, manifest.partitions, manifest.table
    before = history.accepted[table].get(day)
    steps = plan(history, manifest, RunState.PUBLISHED)
    candidate, gated = stage(history, manifest, before)
    publication_id = f"pub-{next(history.numbers):06d}"
    change = PartitionChange(
        partition=day,
        expected_version=before.version if before else 0,
        expected=before.files if before else EMPTY_FILE_SET,
        new=candidate.files,
        rows=candidate.rows,
        checksum=candidate.checksum,
    )
    intent = PublicationIntent(
        publication_id=publication_id,
        run_id=run_id,
        action=Action.PUBLISH,
        table=table,
        by="ben",
        reason=manifest.reason,
        changes=(change,),
    )
    begun = history.log.append(
        *steps,
        gated,
        approve(history, manifest),
        event("publication", publication_id, "publication_begun", {"run_id": run_id}, after="PUBLISHING"),
    )
    add_publication(history, intent, change, begun, delta_version=number + 1)
    history.log.append(
        moved(run_id, RunState.PASSED, RunState.PUBLISHING),
        event(
            *("publication", publication_id, "publication_finished", {"delta_version": number + 1}),
            before="PUBLISHING",
            after="PUBLISHED",
        ),
        moved(run_id, RunState.PUBLISHING, RunState.PUBLISHED),
        *([moved(before.run_id, RunState.PUBLISHED, RunState.SUPERSEDED)] if before else []),
        event("outbox", publication_id, "delivered", {"outbox_sequence": begun}),
    )
    version = change.expected_version + 1
    if before:
        history.superseded.append((table, day, before.version, before.run_id))
    history.accepted[table][day] = Accepted(version, run_id, candidate.files, publication_id)


def add_publication(
    history: History, intent: PublicationIntent, change: PartitionChange, begun: int, *, delta_version: int
) -> None:
    """The rows of a landed publication: the change, the version that it made, and what it asked of dependents."""
    publication_id, run_id = intent.publication_id, intent.run_id
    history.add(
        schema.publications,
        publication_id=publication_id,
        run_id=run_id,
        action=intent.action,
        table_name=intent.table,
        state=PublicationState.PUBLISHED,
        asked_by=intent.by,
        reason=intent.reason,
        lineage_digest="",
        begun_sequence=begun,
        started_at=NOW,
        finished_at=NOW,
        delta_version=delta_version,
        note="",
    )
    changed = queries.change_row(publication_id, change)
    history.waiting[schema.publication_changes].append(changed)
    history.add(
        schema.partition_versions,
        table_name=intent.table,
        partition_date=change.partition,
        version=change.expected_version + 1,
        month=month_of(change.partition),
        # What was accepted before gives way at the end, all at once: an index allows one accepted version per day.
        state=VersionState.SUPERSEDED,
        run_id=run_id,
        publication_id=publication_id,
        files=change.new,
        row_count=change.rows,
        checksum=change.checksum,
        replaces=change.expected_version,
        delta_version=delta_version,
        accepted_at=NOW,
        provenance={},
        **{name: changed[name] for name in ("files_digest", "file_count", "size_bytes")},
    )
    history.add(
        schema.outbox,
        sequence=begun,
        publication_id=publication_id,
        run_id=run_id,
        table_name=intent.table,
        partitions=[change.partition.isoformat()],
        created_at=NOW,
        delivered_at=NOW,
    )


def end(history: History, of: Manifest, number: int, length: Length) -> None:
    """A run that is not published."""
    state = ENDS[number % len(ENDS)]
    mode = Mode.DRY_RUN if state is RunState.PASSED else Mode.BACKFILL
    manifest = planned(history, of, number, length, mode=mode)
    steps = plan(history, manifest, state)
    history.add(schema.approvals, request_id=manifest.run_id, state=ApprovalState.DRAFT, note="")
    if state in (RunState.PASSED, RunState.BLOCKED):
        _, gated = stage(history, manifest, history.accepted[of.table].get(manifest.partitions[0]))
        steps.append(gated)
    history.log.append(*steps)


def supersede(history: History) -> None:
    """Runs whose day has a later version are SUPERSEDED; the last version of every day is accepted."""
    runs, held = schema.runs, schema.partition_versions
    for name, accepted in history.accepted.items():
        for day, last in accepted.items():
            is_last = (held.c.table_name == name) & (held.c.partition_date == day) & (held.c.version == last.version)
            of = (last.publication_id, month_of(day))
            history.log.write(held.update().where(is_last).values(state=VersionState.ACCEPTED), of=[of])
    gone = [{"of_run": run_id} for _, _, _, run_id in history.superseded]
    is_gone = runs.update().where(runs.c.run_id == bindparam("of_run")).values(state=RunState.SUPERSEDED)
    history.log.write(is_gone, gone, of=[each["of_run"] for each in gone])
    history.log.append(event("history", "made up", "rows_written", {}))

"""What has a table, or one of its partitions, ever been; and for any number anyone read, where did it come from?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from backfill_assets.errors import MissingInput, UnknownName
from backfill_assets.evidence.follow import asking_document
from backfill_assets.evidence.report import publication_document, run_summary, run_versions
from backfill_assets.evidence.sets import described_set
from backfill_assets.ledger.records import ImportRecord, PartitionVersion
from backfill_assets.ledger.states import MEANING, PublicationState, VersionState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.partitions import Grain, describe, partition_of
from backfill_assets.problems import Problems
from backfill_assets.publication.follow import what_waits
from backfill_assets.workspace import Workspace


def table_history(ws: Workspace, table: str) -> Mapping[str, Any]:
    """Every publication and rollback of a table in order, and what readers see now.

    Raises:
        UnknownName: There is no such table.
    """
    declared = ws.domain.table(table)
    with ws.ledger.read() as tx:
        publications = [
            record
            for record in tx.publications.records()
            if record.intent.table == declared.name and record.state is not PublicationState.ABANDONED
        ]
        accepted = tx.versions.accepted(declared.name)
    ordered = sorted(publications, key=lambda record: record.started_at)
    return {
        "table": declared.name,
        "path": str(ws.lake.path(declared.name)),
        "accepted_partitions": len(accepted),
        "accepted_described": describe(declared.partition.grain, accepted),
        "accepted_rows": sum(version.rows for version in accepted.values()),
        "publications": [publication_document(record) for record in ordered],
    }


def partition_history(ws: Workspace, table: str, day: date) -> Mapping[str, Any]:
    """Every version a partition ever had, newest first, each with its whole story.

    Raises:
        UnknownName: There is no such table.
        MissingInput: The partition has never had a version.
    """
    declared = ws.domain.table(table)
    partition = partition_of(declared.partition.grain, day)
    with ws.ledger.read() as tx:
        versions = tx.versions.history(declared.name, partition)
        stories = [_story(ws, tx, version) for version in versions]
    if not versions:
        raise MissingInput(
            f"{declared.name} {partition} has never been published.",
            next_step=f"backfill history {table} lists what has",
            table=declared.name,
        )
    return {"table": declared.name, "partition": partition.isoformat(), "versions": stories}


def _story(ws: Workspace, tx: ReadTransaction, version: PartitionVersion) -> Mapping[str, Any]:
    run = tx.runs.get(version.run_id)
    checks = [result for result in tx.candidates.gate_results(version.run_id) if result.partition == version.partition]
    summary = run_summary(ws, tx, run)
    return {
        "version": version.version,
        "state": str(version.state),
        "meaning": MEANING[version.state],
        "rows": version.rows,
        "checksum": version.checksum,
        "file_set_digest": version.files.digest,
        "files": list(version.files.paths),
        "removed_at": version.removed_at.isoformat() if version.removed_at else None,
        "accepted_at": version.accepted_at.isoformat(),
        "delta_version": version.delta_version,
        "publication_id": version.publication_id,
        "run_id": version.run_id,
        "kind": summary["kind"],
        "reason": summary["reason"],
        "requested_by": summary["requested_by"],
        "declared_empty_by": summary["requested_by"] if version.partition in run.manifest.declared_empty else None,
        "approved_by": _approver(tx, version.run_id) or summary["approved_by"],
        "transform": summary["transform"],
        "transform_version": summary["transform_version"],
        "code_digest": run.manifest.code_digest,
        "manifest_digest": run.manifest_digest,
        "versions": run_versions(run, tx.events.entries(entity_id=run.run_id)),
        "supersedes": list(run.manifest.supersedes),
        "references": {r.name: r.version for r in run.manifest.references},
        "provenance": dict(version.provenance),
        "checks": [{"gate": c.gate, "blocking": c.blocking, "passed": c.passed, "verdict": c.verdict} for c in checks],
        "verified_by": _verified_by(tx, version),
        "undone": _undoing(tx, version),
        "restored_at": _restored_at(tx, version),
        "replaced_version": version.replaces or None,
        "undo": f"backfill rollback {run.manifest.member_of or version.run_id} --by WHO --reason WHY"
        if version.state is VersionState.ACCEPTED
        else None,
    }


def _verified_by(tx: ReadTransaction, version: PartitionVersion) -> Sequence[Mapping[str, Any]]:
    """The runs that computed a version again and found it equal, the latest first."""
    return [
        {
            "run_id": record.intent.run_id,
            "publication_id": record.intent.publication_id,
            "at": record.finished_at.isoformat() if record.finished_at else None,
            "reason": record.intent.reason,
        }
        for record in tx.publications.verifying(version.table, version.partition, version.version)
    ]


def _undoing(tx: ReadTransaction, version: PartitionVersion) -> str | None:
    """Who undid a version, when and why; None for one that was not rolled back."""
    if version.state is not VersionState.ROLLED_BACK:
        return None
    for record in tx.publications.records(run_id=version.run_id):
        if record.intent.undoes == version.publication_id and record.finished_at:
            return f"by {record.intent.by} at {record.finished_at.isoformat()}: {record.intent.reason}"
    return None


def _restored_at(tx: ReadTransaction, version: PartitionVersion) -> str | None:
    """When a rollback brought an accepted version back; None when readers saw it ever since it was published."""
    if version.state is not VersionState.ACCEPTED:
        return None
    back = [
        record.finished_at
        for later in tx.versions.history(version.table, version.partition)
        if later.replaces == version.version and later.state is VersionState.ROLLED_BACK
        for record in tx.publications.records(run_id=later.run_id)
        if record.intent.undoes == later.publication_id and record.finished_at
    ]
    return max(back).isoformat() if back else None


def _approver(tx: ReadTransaction, run_id: str) -> str | None:
    """Who agreed last, from the events: a rollback withdraws the approval, but not the fact that it was given."""
    approvals = [
        e.actor for e in tx.events.entries(entity_id=run_id) if e.entity == "approval" and e.action == "approved"
    ]
    return approvals[-1] if approvals else None


def status(ws: Workspace, *, limit: int = 20) -> Mapping[str, Any]:
    """What every table holds, the newest runs, and what waits for somebody."""
    problems = Problems()
    sets: list[Mapping[str, Any]] = []
    with ws.ledger.read() as tx:
        published = tx.versions.tables()
        tables = [_table_line(ws, tx, name) for name in dict.fromkeys((*ws.domain.tables, *published))]
        runs = [run_summary(ws, tx, run) for run in tx.runs.records(limit=limit, unreadable=problems.refused)]
        imports = tx.imports.records()
        asking: list[Mapping[str, Any]] = []
        with problems.noted("publications that wait for their dependents"):
            asking += [asking_document(each) for each in what_waits(ws, tx)]
        for record in tx.sets.records(limit=5, unreadable=problems.refused):
            with problems.noted(record.set_id):
                sets.append(described_set(ws, tx, record))
    for name in published:
        with problems.noted(name):
            _require_in_order(ws, name)
    return {
        "home": str(ws.settings.home),
        "tables": tables,
        "runs": runs,
        "sets": sets,
        "imports": [import_document(record) for record in imports[-limit:]],
        "to_follow": asking,
        "undelivered_publications": len(asking),
        "problems": [problem.document() for problem in problems.found],
    }


def _require_in_order(ws: Workspace, name: str) -> None:
    """Refuses a table that has been published, and that is not declared any more or cannot be opened."""
    if name not in ws.domain.tables:
        raise UnknownName(
            f"{name} has been published, and the domain {ws.domain.name} no longer declares it.",
            next_step="declare it again, or set BACKFILL_DOMAIN to the module that does",
            table=name,
        )
    if not ws.lake.exists(name):
        raise MissingInput(
            f"the table {name} has been published, and its log is gone.",
            next_step=f"restore {ws.lake.path(name)} from a backup; then backfill audit",
            table=name,
        )
    ws.lake.open(name)


def _table_line(ws: Workspace, tx: ReadTransaction, name: str) -> Mapping[str, Any]:
    accepted = tx.versions.accepted(name)
    declared = ws.domain.tables.get(name)
    return {
        "table": name,
        "accepted_partitions": len(accepted),
        "accepted_described": describe(declared.partition.grain if declared else Grain.DAILY, accepted),
        "accepted_rows": sum(version.rows for version in accepted.values()),
        "path": str(ws.lake.path(name)),
    }


def import_document(record: ImportRecord) -> Mapping[str, Any]:
    """One landed file as plain values."""
    counts = record.counts
    return {
        "import_id": record.import_id,
        "source": record.source,
        "file": record.original_path,
        "stored_path": record.stored_path,
        "sha256": record.sha256,
        "size_bytes": record.size_bytes,
        "format": record.format,
        "state": str(record.state),
        "meaning": MEANING[record.state],
        "arrival": record.arrival,
        "landed": counts.landed,
        "accepted": counts.accepted,
        "duplicate": counts.duplicate,
        "superseded": counts.superseded,
        "rejected": counts.rejected,
        "ignored_columns": list(record.ignored_columns),
        "schema_versions": list(record.schema_versions),
        "note": record.note,
    }

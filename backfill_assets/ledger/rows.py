"""Rows: conversion between database rows and records."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from enum import StrEnum
from typing import Any, TypeVar

from sqlalchemy import Row

from backfill_assets.errors import Refused
from backfill_assets.identity import EMPTY_FILE_SET, sha256_text
from backfill_assets.lease import Lease
from backfill_assets.ledger.provenance import document_of, provenance_of
from backfill_assets.ledger.records import (
    CandidatePartition,
    ChunkRecord,
    EventRecord,
    GateResult,
    OutboxEntry,
    PartitionChange,
    PartitionVersion,
    PublicationHeader,
    PublicationIntent,
    PublicationRecord,
    RunHeader,
    RunRecord,
    SetRecord,
    VerifiedPartition,
)
from backfill_assets.ledger.states import ApprovalState
from backfill_assets.next_steps import Act, do, step
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import CauseKind, Kind, Mode
from backfill_assets.planning.sets import SetManifest
from backfill_assets.wording import visible

AnyRow = Row[Any]
Read = TypeVar("Read")
Value = TypeVar("Value", bound=StrEnum)

_MOST_CHARACTERS = 200


def lease(row: AnyRow, prefix: str = "") -> Lease | None:
    """The working process from the columns of a lease, whose names may begin with a prefix; None without one."""
    return None if row._mapping[f"{prefix}attempt"] is None else lease_of(row, prefix)


def lease_of(row: AnyRow, prefix: str = "") -> Lease:
    """The working process from the columns of a lease that is there; its mark is kept behind the name."""
    columns = {name: row._mapping[f"{prefix}{name}"] for name in ("attempt", "holder", "since_at", "until_at")}
    machine, _, mark = row._mapping[f"{prefix}machine"].partition(" ")
    return Lease(**columns, machine=machine, mark=mark)


def run_header(row: AnyRow) -> RunHeader:
    """A run without its manifest."""
    return RunHeader(**_header_fields(row))


def run_record(row: AnyRow) -> RunRecord:
    """A run, from its manifest, its state and its approval.

    Raises:
        Refused: The stored manifest is not the text that its digest was taken of.
    """
    if sha256_text(row.body) != row.digest:
        raise Refused(
            f"the manifest of run {row.run_id} was edited after it was agreed: its text does not have its digest.",
            next_step=do(Act.AUDIT),
            run_id=row.run_id,
        )
    manifest = _read(Manifest.parse, row.body, f"the manifest of run {row.run_id}", run_id=row.run_id)
    return RunRecord(**_header_fields(row), manifest=manifest)


def _header_fields(row: AnyRow) -> dict[str, Any]:
    approved = row.approval_state is ApprovalState.APPROVED and row.approved_digest == row.digest
    return {
        "run_id": row.run_id,
        "table": row.table_name,
        "kind": _known(Kind, row.kind),
        "mode": _known(Mode, row.mode),
        "because": _known(CauseKind, row.because),
        "sequence": row.added_sequence,
        "manifest_digest": row.digest,
        "state": row.state,
        "approval": ApprovalState.APPROVED if approved else ApprovalState.DRAFT,
        "approved_by": row.approved_by if approved else None,
        "approved_at": row.approved_at if approved else None,
        "updated_at": row.updated_at,
        "lease": lease(row, "lease_"),
        "note": row.note,
        "first": row.first_partition,
        "last": row.last_partition,
    }


def _known(values: type[Value], text: str) -> Value | None:
    return values(text) if text in values.__members__.values() else None


def _read(parse: Callable[[str], Read], body: str, what: str, **ids: str) -> Read:
    """A document whose text has its digest.

    Raises:
        Refused: This release cannot read it; another program wrote it.
    """
    try:
        return parse(body)
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
        why = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise Refused(
            f"{what} cannot be read: {visible(why)[:_MOST_CHARACTERS]}.",
            next_step=step("use the release that wrote it; or ", do(Act.AUDIT)),
            **ids,
        ) from error


def chunk_record(row: AnyRow) -> ChunkRecord:
    """One chunk of a run."""
    return ChunkRecord(
        run_id=row.run_id,
        number=row.number,
        partitions=dates_of(row.partitions),
        state=row.state,
        input_rows=row.input_rows,
        output_rows=row.output_rows,
        started_at=row.started_at,
        finished_at=row.finished_at,
        attempt=row.attempt,
        checksum=row.checksum,
        seam_checksum=row.seam_checksum,
    )


def candidate(row: AnyRow) -> CandidatePartition:
    """One staged partition."""
    return CandidatePartition(
        run_id=row.run_id,
        partition=row.partition_date,
        files=row.files,
        rows=row.row_count,
        checksum=row.checksum,
        compared_version=row.compared_version,
        compared_digest=row.compared_digest,
        compared_checksum=row.compared_checksum,
        provenance=provenance_of(row.provenance),
    )


def candidate_row(staged: CandidatePartition) -> dict[str, object]:
    """The row of one staged partition."""
    return {
        "run_id": staged.run_id,
        "partition_date": staged.partition,
        "files": staged.files,
        "files_digest": staged.files.digest,
        "row_count": staged.rows,
        "checksum": staged.checksum,
        "compared_version": staged.compared_version,
        "compared_digest": staged.compared_digest,
        "compared_checksum": staged.compared_checksum,
        "provenance": document_of(staged.provenance),
    }


def gate_result(row: AnyRow) -> GateResult:
    """What one gate found in one partition."""
    return GateResult(
        run_id=row.run_id,
        partition=row.partition_date,
        gate=row.gate,
        blocking=row.blocking,
        passed=row.passed,
        digest=row.digest,
        verdict=row.verdict,
        observed=row.observed,
    )


def gate_row(result: GateResult) -> dict[str, object]:
    """The row of one gate's result."""
    return {
        "run_id": result.run_id,
        "partition_date": result.partition,
        "gate": result.gate,
        "blocking": result.blocking,
        "passed": result.passed,
        "digest": result.digest,
        "verdict": result.verdict,
        "observed": dict(result.observed),
    }


def partition_version(row: AnyRow) -> PartitionVersion:
    """One claim that was ever accepted; without its provenance where that was not asked for."""
    return PartitionVersion(
        table=row.table_name,
        partition=row.partition_date,
        version=row.version,
        state=row.state,
        run_id=row.run_id,
        publication_id=row.publication_id,
        files=row.files,
        rows=row.row_count,
        checksum=row.checksum,
        replaces=row.replaces,
        delta_version=row.delta_version,
        accepted_at=row.accepted_at,
        provenance=provenance_of(row._mapping.get("provenance", {})),
        removed_at=row.removed_at,
    )


def change(row: AnyRow) -> PartitionChange:
    """What a publication does to one partition."""
    return PartitionChange(
        partition=row.partition_date,
        expected_version=row.expected_version,
        expected=row.expected_files,
        new=row.new_files,
        rows=row.row_count,
        checksum=row.checksum,
        restores=row.restores,
        provenance=provenance_of(row.provenance),
    )


def change_row(publication_id: str, made: PartitionChange) -> dict[str, object]:
    """The row of what a publication does to one partition."""
    return {
        "publication_id": publication_id,
        "partition_date": made.partition,
        "expected_version": made.expected_version,
        "expected_files": made.expected,
        "new_files": made.new,
        "row_count": made.rows,
        "checksum": made.checksum,
        "restores": made.restores,
        "provenance": document_of(made.provenance),
        "files_digest": made.new.digest,
        "file_count": len(made.new.files),
        "size_bytes": made.new.size_bytes,
    }


def verified(row: AnyRow) -> VerifiedPartition:
    """A partition that was found equal; `files` are those of the version that it names."""
    return VerifiedPartition(
        partition=row.partition_date,
        version=row.version,
        files=row.files or EMPTY_FILE_SET,
        provenance=provenance_of(row.provenance),
    )


def verified_row(publication_id: str, found: VerifiedPartition) -> dict[str, object]:
    """The row of a partition that was found equal."""
    return {
        "publication_id": publication_id,
        "partition_date": found.partition,
        "version": found.version,
        "provenance": document_of(found.provenance),
    }


def publication_header(row: AnyRow) -> PublicationHeader:
    """A swap and what became of it, without the partitions that it changes."""
    return PublicationHeader(
        publication_id=row.publication_id,
        run_id=row.run_id,
        table=row.table_name,
        action=row.action,
        by=row.asked_by,
        reason=row.reason,
        undoes=row.undoes,
        sequence=row.begun_sequence,
        state=row.state,
        started_at=row.started_at,
        finished_at=row.finished_at,
        delta_version=row.delta_version,
        note=row.note,
    )


def publication_record(
    row: AnyRow, changes: tuple[PartitionChange, ...], verified: tuple[VerifiedPartition, ...]
) -> PublicationRecord:
    """A swap and what became of it."""
    return PublicationRecord(
        intent=PublicationIntent(
            publication_id=row.publication_id,
            run_id=row.run_id,
            action=row.action,
            table=row.table_name,
            by=row.asked_by,
            reason=row.reason,
            changes=changes,
            undoes=row.undoes,
            verified=verified,
        ),
        state=row.state,
        started_at=row.started_at,
        finished_at=row.finished_at,
        delta_version=row.delta_version,
        note=row.note,
    )


def set_record(row: AnyRow) -> SetRecord:
    """A restatement set.

    Raises:
        Refused: The stored document is not the text that its digest was taken of.
    """
    if sha256_text(row.body) != row.digest:
        raise Refused(
            f"the document of set {row.set_id} was edited after it was agreed: its text does not have its digest.",
            next_step=do(Act.AUDIT),
            set_id=row.set_id,
        )
    return SetRecord(
        set_id=row.set_id,
        manifest=_read(SetManifest.parse, row.body, f"the document of set {row.set_id}", set_id=row.set_id),
        digest=row.digest,
        state=row.state,
        updated_at=row.updated_at,
        note=row.note,
    )


def outbox_entry(row: AnyRow) -> OutboxEntry:
    """A publication that dependents should follow."""
    return OutboxEntry(
        sequence=row.sequence,
        publication_id=row.publication_id,
        run_id=row.run_id,
        table=row.table_name,
        partitions=dates_of(row.partitions),
        created_at=row.created_at,
        delivered_at=row.delivered_at,
        withdrawn_at=row.withdrawn_at,
        attempts=row.attempts,
        note=row.note,
    )


def event_record(row: AnyRow) -> EventRecord:
    """One entry of the chain."""
    return EventRecord(**{name: value for name, value in row._mapping.items() if name != "former_hash"})


def dates_of(texts: list[str]) -> tuple[date, ...]:
    """The dates of a stored list."""
    return tuple(date.fromisoformat(day) for day in texts)


def texts_of(partitions: tuple[date, ...]) -> list[str]:
    """Dates as they are stored in a list."""
    return [partition.isoformat() for partition in partitions]

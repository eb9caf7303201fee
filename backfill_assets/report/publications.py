"""Documents of publications: what a swap changed, who made it, and its outcome."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime

from backfill_assets.ledger.publications import Extent
from backfill_assets.ledger.records import Action, PublicationHeader, PublicationRecord
from backfill_assets.ledger.states import PublicationState
from backfill_assets.report.documents import INLINE


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationDocument:
    """One publication, or one rollback.

    Attributes:
        publication_id: Names it.
        run_id: The run whose rows it made visible, or took back.
        action: What it does.
        undoes: Of a rollback, the publication that it undoes; else null.
        table: The table that it changed.
        state: How far it is.
        by: Who published or rolled back.
        reason: Why.
        partition_count: How many partitions it swapped.
        new_empty_count: How many it recorded that had no rows before and have none after.
        verified_count: How many it found equal and left as they are.
        from_: The first partition it names; null for the rollback of a run of a set that had swapped nothing.
        to: The last one, or null.
        rows: How many rows it swapped in.
        started_at: When it was intended.
        finished_at: When the ledger knew its outcome, or null.
        delta_version: The version of the table that it made; of one that swapped nothing, the version it was compared
            with; null while it is not known.
        note: What is to be known of its state; empty when there is nothing.
    """

    publication_id: str
    run_id: str
    action: Action
    undoes: str | None
    table: str
    state: PublicationState
    by: str
    reason: str
    partition_count: int
    new_empty_count: int
    verified_count: int
    from_: date | None
    to: date | None
    rows: int
    started_at: datetime
    finished_at: datetime | None
    delta_version: int | None
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackDocument:
    """The rollback of a run.

    Attributes:
        publication: The rollback.
        dependents: The rollbacks that `--with-dependents` made before it, in order.
    """

    publication: PublicationDocument = field(metadata=INLINE)
    dependents: tuple[PublicationDocument, ...] = ()


def publication_line(header: PublicationHeader, extent: Extent) -> PublicationDocument:
    """A swap as the ledger knows it, without the partitions that it changes."""
    return PublicationDocument(
        publication_id=header.publication_id,
        run_id=header.run_id,
        action=header.action,
        undoes=header.undoes,
        table=header.table,
        state=header.state,
        by=header.by,
        reason=header.reason,
        partition_count=extent.changed - extent.empty,
        new_empty_count=extent.empty,
        verified_count=extent.verified,
        from_=extent.first,
        to=extent.last,
        rows=extent.rows,
        started_at=header.started_at,
        finished_at=header.finished_at,
        delta_version=header.delta_version,
        note=header.note,
    )


def publication_document(record: PublicationRecord) -> PublicationDocument:
    """A swap as the ledger knows it."""
    intent = record.intent
    named = intent.partitions
    empty = sum(1 for change in intent.changes if not change.expected.files and not change.new.files)
    return PublicationDocument(
        publication_id=intent.publication_id,
        run_id=intent.run_id,
        action=intent.action,
        undoes=intent.undoes,
        table=intent.table,
        state=record.state,
        by=intent.by,
        reason=intent.reason,
        partition_count=len(intent.changes) - empty,
        new_empty_count=empty,
        verified_count=len(intent.verified),
        from_=named[0] if named else None,
        to=named[-1] if named else None,
        rows=sum(change.rows for change in intent.changes),
        started_at=record.started_at,
        finished_at=record.finished_at,
        delta_version=record.delta_version,
        note=record.note,
    )

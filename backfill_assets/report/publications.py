"""Documents of publications: what a swap changed, who made it, and its outcome."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime

from backfill_assets.ledger.publications import Extent
from backfill_assets.ledger.records import Action, PublicationHeader, PublicationIntent, PublicationRecord
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
    return _document(header, header, extent)


def publication_document(record: PublicationRecord) -> PublicationDocument:
    """A swap as the ledger knows it."""
    intent = record.intent
    named, changes = intent.partitions, intent.changes
    extent = Extent(
        changed=len(changes),
        empty=sum(1 for change in changes if not change.expected.files and not change.new.files),
        verified=len(intent.verified),
        rows=sum(change.rows for change in changes),
        first=named[0] if named else None,
        last=named[-1] if named else None,
    )
    return _document(intent, record, extent)


def _document(
    intent: PublicationIntent | PublicationHeader, outcome: PublicationRecord | PublicationHeader, extent: Extent
) -> PublicationDocument:
    return PublicationDocument(
        publication_id=intent.publication_id,
        run_id=intent.run_id,
        action=intent.action,
        undoes=intent.undoes,
        table=intent.table,
        state=outcome.state,
        by=intent.by,
        reason=intent.reason,
        partition_count=extent.changed - extent.empty,
        new_empty_count=extent.empty,
        verified_count=extent.verified,
        from_=extent.first,
        to=extent.last,
        rows=extent.rows,
        started_at=outcome.started_at,
        finished_at=outcome.finished_at,
        delta_version=outcome.delta_version,
        note=outcome.note,
    )

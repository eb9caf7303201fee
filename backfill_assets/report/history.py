"""History of a table and of a partition: its publications, its versions, and the origin of every number in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date

from backfill_assets.core.next_steps import NextStep
from backfill_assets.domain import DerivedTable, Table
from backfill_assets.ledger.findings import GateResult
from backfill_assets.ledger.imports import ImportDay, ImportRecord
from backfill_assets.ledger.provenance import SourceProvenance
from backfill_assets.ledger.records import EventRecord, PartitionVersion, Period, PublicationHeader, RunRecord
from backfill_assets.ledger.states import PublicationState, VersionState
from backfill_assets.ledger.table_acts import ShownPeriod
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.errors import NeverPublished
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import PinnedReference
from backfill_assets.planning.partitions import Grain, Partitions, partition_of, partition_text
from backfill_assets.report.documents import INLINE
from backfill_assets.report.publications import PublicationDocument, publication_documents
from backfill_assets.report.releases import KeptRows, kept_rows, references_read_by_gates
from backfill_assets.report.report import RunVersions, is_approval, run_versions
from backfill_assets.report.status import TableStatus, table_status
from backfill_assets.report.what_next import how_to_undo, published_together
from backfill_assets.workspace import Workspace

MOST_PUBLICATIONS = 100
SHOWN = tuple(state for state in PublicationState if state is not PublicationState.ABANDONED)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHistory:
    """A table, and everything that changed it."""

    table: TableStatus = field(metadata=INLINE)  #: What readers see of it now.
    publications: tuple[PublicationDocument, ...]  #: The latest hundred publications and rollbacks, in order.
    earlier_publications: int = 0  #: How many there were before these; `--partition` shows all that a partition had.
    #: Of a version of a table, or of a table that has versions, the table whose readers are cut over; else null.
    name: str | None = None
    #: When the readers of `name` were shown this table, in order; empty without `name`.
    shown: tuple[ShownPeriod, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOnDay:
    """The effect of one landed file or statement on one day of its source."""

    day: ImportDay  #: What of the day it brings, moves, deletes, withdraws and restores.
    landed: ImportRecord  #: The file or the statement.


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionHistory:
    """One version of a partition, and where it came from."""

    claim: PartitionVersion = field(metadata=INLINE)  #: The version.
    manifest: Manifest = field(metadata=INLINE)  #: The manifest of the run that computed it.
    declared_empty_by: str | None  #: Who declared that nothing happened in it, or null.
    approved_by: str | None  #: Who approved it last, even if a rollback has withdrawn the approval; null without one.
    ran_by: str | None  #: Who computed its run last.
    published_by: str  #: Who published it.
    kept: KeptRows | None  #: Whose rows its run kept, where it changes only some; null otherwise.
    versions: RunVersions  #: What its run was planned and staged with.
    #: For a source table, what each of these files does to this day: its records, and keys that it moves, deletes,
    #: withdraws or restores; empty for a derived table.
    imports: tuple[ImportOnDay, ...]
    checks: tuple[GateResult, ...]  #: Its gate results.
    #: The references that only its gates have read, in the versions that they met.
    gate_references: tuple[PinnedReference, ...] = ()
    #: The publications of runs that computed it again and found it equal, the latest first.
    verified_by: tuple[PublicationHeader, ...]
    undone: PublicationHeader | None  #: The rollback that took it back; null when it was not rolled back.
    #: When readers saw it, in order: a version that a rollback restored is there twice. Of one that says that the
    #: snapshot has expired, when they saw none.
    seen: tuple[Period, ...]
    #: What undoes it; null when readers do not see it, and it does not say either that they see none.
    undo: NextStep | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionHistory:
    """Everything that a partition has been."""

    table: str  #: Its table.
    partition: date  #: Its first day.
    grain: Grain  #: Whether it is a day or a month.
    versions: tuple[VersionHistory, ...]  #: The newest first.

    @property
    def described(self) -> str:
        return partition_text(self.grain, self.partition)


def table_history(ws: Workspace, table: str) -> TableHistory:
    """The latest publications and rollbacks of a table in order, and what readers see now."""
    declared = ws.domain.table(table)
    with ws.ledger.read() as tx:
        headers = tx.publications.headers(table=declared.name, states=SHOWN, limit=MOST_PUBLICATIONS)
        name, shown = times_shown(ws, tx, declared)
        return TableHistory(
            table=table_status(ws, tx, declared.name),
            publications=publication_documents(ws, tx, headers[::-1]),
            earlier_publications=tx.publications.count(table=declared.name, states=SHOWN) - len(headers),
            name=name,
            shown=shown,
        )


def times_shown(ws: Workspace, tx: ReadTransaction, table: Table) -> tuple[str | None, tuple[ShownPeriod, ...]]:
    """The table whose readers can be shown this one or another, and when they were shown this one, in order; None for a
    table without versions."""
    name = (table.version_of if isinstance(table, DerivedTable) else None) or table.name
    return (name, tx.acts.periods_shown(name, table.name)) if name in ws.domain.names_with_versions else (None, ())


def partition_history(ws: Workspace, table: str, day: date) -> PartitionHistory:
    """Every version a partition ever had, newest first, each with where it came from.

    Raises:
        MissingInput: The partition has never had a version.
    """
    declared = ws.domain.table(table)
    partition = partition_of(declared.partition.grain, day)
    with ws.ledger.read() as tx:
        versions = tx.versions.history(declared.name, partition)
        periods = tx.publications.periods(declared.name, partition)
        found = tuple(_version_history(ws, tx, version, tx.runs.get(version.run_id), periods) for version in versions)
        if not found:
            raise never_published(tx, declared, partition)
    return PartitionHistory(table=declared.name, partition=partition, grain=declared.partition.grain, versions=found)


def never_published(tx: ReadTransaction, table: Table, partition: date) -> NeverPublished:
    """The refusal of a partition that never had a version, with the first and the last one that ever had."""
    ever = tx.versions.extents().get(table.name)
    return NeverPublished(table=table.name, partitions=Partitions.of(table.partition.grain, [partition]), ever=ever)


def _version_history(
    ws: Workspace, tx: ReadTransaction, version: PartitionVersion, run: RunRecord, periods: Sequence[Period]
) -> VersionHistory:
    manifest, events = run.manifest, tuple(tx.events.entries(entity_id=run.run_id))
    publication = tx.publications.header(version.publication_id)
    return VersionHistory(
        claim=version,
        manifest=manifest,
        declared_empty_by=manifest.requested_by if version.partition in manifest.declared_empty else None,
        approved_by=approver_of(run, events, publication),
        ran_by=tx.events.ran_by([run.run_id]).get(run.run_id),
        published_by=publication.by,
        kept=kept_rows(tx, manifest, version.partition),
        versions=run_versions(run, events),
        imports=_imports(tx, version),
        checks=_checks(tx, version),
        gate_references=references_read_by_gates(tx, run.run_id),
        verified_by=tx.publications.verifying(version.table, version.partition, version.version),
        undone=_undone(tx, version),
        seen=tuple(each for each in periods if each.version == version.version),
        undo=undo_of(ws, tx, version, run),
    )


def _imports(tx: ReadTransaction, version: PartitionVersion) -> tuple[ImportOnDay, ...]:
    if not isinstance(version.provenance, SourceProvenance):
        return ()
    read = [import_id for import_id, _ in version.provenance.imports]
    days = tx.imports.days(read, days=[version.partition]) if read else ()
    return tuple(ImportOnDay(day=day, landed=tx.imports.get(day.import_id)) for day in days)


def undo_of(ws: Workspace, tx: ReadTransaction, version: PartitionVersion, run: RunRecord) -> NextStep | None:
    """The command that undoes the publication of a version by its run; None when readers do not see it."""
    standing = tx.versions.standing(version.table, [version.partition]).get(version.partition)
    if standing is None or standing.version != version.version:
        return None
    return how_to_undo(ws, tx, run.manifest.member_of or run.run_id, published_together(tx, run))


def _checks(tx: ReadTransaction, version: PartitionVersion) -> tuple[GateResult, ...]:
    results = tx.candidates.gate_results(version.run_id)
    return tuple(found for found in results if found.partition == version.partition)


def _undone(tx: ReadTransaction, version: PartitionVersion) -> PublicationHeader | None:
    if version.state is not VersionState.ROLLED_BACK:
        return None
    made = tx.publications.headers(run_id=version.run_id)
    return next((each for each in made if each.undoes == version.publication_id and each.finished_at), None)


def approver_of(run: RunRecord, events: Iterable[EventRecord], publication: PublicationHeader) -> str | None:
    """The last approver of a run when a publication of it was begun, by its events: after a rollback, another person
    may approve it again."""
    approvals = [event for event in events if is_approval(event)]
    before = [event for event in approvals if event.sequence < publication.sequence]
    return before[-1].actor if before else None if approvals else run.approved_by

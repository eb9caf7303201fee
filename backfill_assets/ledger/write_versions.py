"""Writes to partition versions: a landed swap accepts, supersedes, rolls back and restores them.

One statement per question, over all partitions of the publication: 5,000 of them never travel through Python.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from sqlalchemy import Column, ColumnElement, and_, bindparam, exists, func, insert, literal, select, update

from backfill_assets.errors import IllegalTransition
from backfill_assets.ledger.event_log import EventLog
from backfill_assets.ledger.queries import Queries, batches
from backfill_assets.ledger.read_versions import VersionReads
from backfill_assets.ledger.records import PublicationIntent
from backfill_assets.ledger.schema import (
    partition_versions,
    publication_changes,
    publications,
    verifications,
)
from backfill_assets.ledger.states import PublicationState, VersionState, may_follow
from backfill_assets.next_steps import Act, do


class VersionSteps(Queries):
    """What becomes of the versions that a publication names; not a part of a transaction's surface."""

    def __init__(self, log: EventLog) -> None:
        super().__init__(log.connection)
        self._now = log.now

    def supersede_expected(self, intent: PublicationIntent) -> list[str]:
        """The expected versions make way; returns the runs that made them or found them equal."""
        expected = sum(change.expected_version > 0 for change in intent.changes)
        self._change_versions(
            intent, publication_changes.c.expected_version, VersionState.ACCEPTED, VersionState.SUPERSEDED, expected
        )
        return self._runs_of(intent, publication_changes.c.expected_version)

    def accept_new(self, intent: PublicationIntent, delta_version: int) -> None:
        """Every change becomes a new version, one above the highest that its partition ever had."""
        held, made = partition_versions.alias("held"), publication_changes
        highest = (
            select(func.coalesce(func.max(held.c.version), 0))
            .where(held.c.table_name == intent.table, held.c.partition_date == made.c.partition_date)
            .scalar_subquery()
        )
        values = {
            "table_name": literal(intent.table),
            "partition_date": made.c.partition_date,
            "version": highest + 1,
            "state": literal(VersionState.ACCEPTED, partition_versions.c.state.type),
            "run_id": literal(intent.run_id),
            "publication_id": made.c.publication_id,
            "files": made.c.new_files,
            "row_count": made.c.row_count,
            "checksum": made.c.checksum,
            "replaces": made.c.expected_version,
            "delta_version": literal(delta_version),
            "accepted_at": literal(self._now, partition_versions.c.accepted_at.type),
            "provenance": made.c.provenance,
            "files_digest": made.c.files_digest,
            "file_count": made.c.file_count,
            "size_bytes": made.c.size_bytes,
        }
        new = select(*values.values()).where(made.c.publication_id == intent.publication_id)
        self._connection.execute(insert(partition_versions).from_select(list(values), new))

    def roll_back_expected(self, intent: PublicationIntent) -> list[str]:
        """The undone versions are no longer what readers see; returns the runs that made them or found them equal."""
        expected = len(intent.changes)
        self._change_versions(
            intent, publication_changes.c.expected_version, VersionState.ACCEPTED, VersionState.ROLLED_BACK, expected
        )
        return self._runs_of(intent, publication_changes.c.expected_version)

    def accept_restored(self, intent: PublicationIntent) -> list[str]:
        """The versions before are accepted again; returns the runs that made them or found them equal."""
        expected = sum((change.restores or 0) > 0 for change in intent.changes)
        self._change_versions(
            intent, publication_changes.c.restores, VersionState.SUPERSEDED, VersionState.ACCEPTED, expected
        )
        return self._runs_of(intent, publication_changes.c.restores)

    def _change_versions(
        self, intent: PublicationIntent, named: Column[int], begins: VersionState, ends: VersionState, expected: int
    ) -> None:
        if not may_follow(begins, ends):
            raise AssertionError(f"the transition table does not let a version that is {begins} become {ends}")
        held = partition_versions
        changed = self._connection.execute(
            update(held)
            .where(
                held.c.table_name == intent.table,
                held.c.state == begins,
                exists().where(_is_named(intent, named)).correlate(held),
            )
            .values(state=ends)
        )
        if changed.rowcount != expected:
            raise IllegalTransition(
                f"publication {intent.publication_id} expected {expected} partitions of {intent.table} to be {begins}, "
                f"and found {changed.rowcount}.",
                next_step=do(Act.AUDIT),
                publication_id=intent.publication_id,
                table=intent.table,
            )

    def _runs_of(self, intent: PublicationIntent, named: Column[int]) -> list[str]:
        """The runs that made the named versions, and those whose standing publications found them equal."""
        held, found, made = partition_versions, verifications, publications
        brought_in = (
            select(held.c.run_id)
            .join_from(publication_changes, held, _is_named(intent, named))
            .where(held.c.table_name == intent.table)
        )
        equal = (
            select(made.c.run_id)
            .join_from(publication_changes, held, _is_named(intent, named))
            .join(found, and_(found.c.partition_date == held.c.partition_date, found.c.version == held.c.version))
            .join(made, made.c.publication_id == found.c.publication_id)
            .where(
                held.c.table_name == intent.table,
                made.c.table_name == intent.table,
                made.c.state == PublicationState.PUBLISHED,
                made.c.publication_id != intent.publication_id,
            )
        )
        return sorted({*self._values(brought_in), *self._values(equal)})

    def without_accepted_versions(self, run_ids: Iterable[str]) -> list[str]:
        """Those of the runs whose rows no reader sees any more, neither as their own nor as found equal."""
        chosen = list(run_ids)
        held, found, made = partition_versions, verifications, publications
        seen: set[str] = set()
        for batch in batches(chosen):
            own = select(held.c.run_id).distinct().where(held.c.run_id.in_(batch))
            equal = (
                select(made.c.run_id)
                .distinct()
                .join_from(made, found, found.c.publication_id == made.c.publication_id)
                .join(held, _is_found_equal())
                .where(made.c.run_id.in_(batch), made.c.state == PublicationState.PUBLISHED)
            )
            for visible in (own, equal):
                seen.update(self._values(visible.where(held.c.state == VersionState.ACCEPTED)))
        return [run_id for run_id in chosen if run_id not in seen]


class VersionWrites(VersionReads):
    """Partition versions, and which of them have lost their files."""

    def __init__(self, log: EventLog) -> None:
        super().__init__(log.connection)
        self._now = log.now

    def mark_removed(self, versions: Iterable[tuple[str, date, int]]) -> int:
        """Remembers that the files of these versions are removed now, and says how many these are.

        Cost: one row per version, by primary key.
        """
        held = partition_versions
        named = [
            {"of_table": table, "of_partition": partition, "of_version": version}
            for table, partition, version in versions
        ]
        if not named:
            return 0
        self._connection.execute(
            update(held)
            .where(
                held.c.table_name == bindparam("of_table"),
                held.c.partition_date == bindparam("of_partition"),
                held.c.version == bindparam("of_version"),
                held.c.removed_at.is_(None),
            )
            .values(removed_at=self._now),
            named,
        )
        return len(named)


def _is_found_equal() -> ColumnElement[bool]:
    """Whether a version is one that a verification of a publication names."""
    held, found, made = partition_versions, verifications, publications
    return and_(
        held.c.table_name == made.c.table_name,
        held.c.partition_date == found.c.partition_date,
        held.c.version == found.c.version,
    )


def _is_named(intent: PublicationIntent, named: Column[int]) -> ColumnElement[bool]:
    """Whether a publication names a version, in its column `expected_version` or `restores`."""
    return and_(
        publication_changes.c.publication_id == intent.publication_id,
        publication_changes.c.partition_date == partition_versions.c.partition_date,
        named == partition_versions.c.version,
    )

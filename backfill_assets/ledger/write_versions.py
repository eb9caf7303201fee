"""Which partition versions does a landed swap accept, supersede, roll back and restore?

One statement per question, over all partitions of the publication: 5,000 of them never travel through Python.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Column, ColumnElement, and_, exists, func, insert, literal, select, update

from backfill_assets.errors import IllegalTransition
from backfill_assets.ledger.reading import batches
from backfill_assets.ledger.records import PublicationIntent
from backfill_assets.ledger.schema import outbox, partition_versions, publication_changes
from backfill_assets.ledger.states import VersionState, may_follow
from backfill_assets.ledger.writing import Writing


class VersionWriter(Writing):
    """What becomes of the versions that a publication names."""

    def _supersede_expected(self, intent: PublicationIntent) -> list[str]:
        """The expected versions make way; returns the runs they belong to."""
        expected = sum(change.expected_version > 0 for change in intent.changes)
        self._change_versions(
            intent, publication_changes.c.expected_version, VersionState.ACCEPTED, VersionState.SUPERSEDED, expected
        )
        return self._runs_of(intent, publication_changes.c.expected_version)

    def _accept_new(self, intent: PublicationIntent, delta_version: int) -> None:
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
            "accepted_at": literal(self.now, partition_versions.c.accepted_at.type),
            "provenance": made.c.provenance,
            "files_digest": made.c.files_digest,
            "file_count": made.c.file_count,
            "size_bytes": made.c.size_bytes,
        }
        new = select(*values.values()).where(made.c.publication_id == intent.publication_id)
        self._connection.execute(insert(partition_versions).from_select(list(values), new))

    def _roll_back_expected(self, intent: PublicationIntent) -> None:
        """The undone versions are no longer what readers see."""
        expected = len(intent.changes)
        self._change_versions(
            intent, publication_changes.c.expected_version, VersionState.ACCEPTED, VersionState.ROLLED_BACK, expected
        )

    def _accept_restored(self, intent: PublicationIntent) -> list[str]:
        """The versions before are accepted again; returns the runs they belong to."""
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
                next_step="backfill audit",
                publication_id=intent.publication_id,
                table=intent.table,
            )

    def _runs_of(self, intent: PublicationIntent, named: Column[int]) -> list[str]:
        held = partition_versions
        chosen = (
            select(held.c.run_id)
            .distinct()
            .join_from(publication_changes, held, _is_named(intent, named))
            .where(held.c.table_name == intent.table)
            .order_by(held.c.run_id)
        )
        return self._values(chosen)

    def _without_accepted_versions(self, run_ids: Iterable[str]) -> list[str]:
        """Those of the runs whose rows no reader sees any more."""
        chosen = list(run_ids)
        held = partition_versions
        seen: set[str] = set()
        for batch in batches(chosen):
            visible = select(held.c.run_id).distinct().where(held.c.run_id.in_(batch))
            seen.update(self._values(visible.where(held.c.state == VersionState.ACCEPTED)))
        return [run_id for run_id in chosen if run_id not in seen]

    def _next_outbox_sequence(self) -> int:
        return int(self._values(select(func.coalesce(func.max(outbox.c.sequence), 0)))[0]) + 1


def _is_named(intent: PublicationIntent, named: Column[int]) -> ColumnElement[bool]:
    """Whether a publication names a version, in its column `expected_version` or `restores`."""
    return and_(
        publication_changes.c.publication_id == intent.publication_id,
        publication_changes.c.partition_date == partition_versions.c.partition_date,
        named == partition_versions.c.version,
    )

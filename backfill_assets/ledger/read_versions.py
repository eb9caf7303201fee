"""What do readers see, what did they see before, and which publications made it so?"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from sqlalchemy import and_, select, tuple_

from backfill_assets.errors import UnknownName
from backfill_assets.ledger import rows
from backfill_assets.ledger.reading import Reading, batches, optional_batches
from backfill_assets.ledger.records import (
    PartitionChange,
    PartitionVersion,
    PublicationRecord,
    VerifiedPartition,
)
from backfill_assets.ledger.schema import (
    partition_versions,
    publication_changes,
    publications,
    verifications,
)
from backfill_assets.ledger.states import PublicationState, VersionState


class VersionReader(Reading):
    """Partition versions and publications."""

    def accepted(self, table: str, partitions: Iterable[date] | None = None) -> dict[date, PartitionVersion]:
        """What readers of a table see, in the order of its partitions.

        Args:
            table: A table; one without versions gives an empty mapping.
            partitions: Only these; those without an accepted version are left out of the answer.
        """
        held = partition_versions
        chosen = select(held).where(held.c.table_name == table, held.c.state == VersionState.ACCEPTED)
        found: dict[date, PartitionVersion] = {}
        for batch in optional_batches(partitions):
            some = chosen if batch is None else chosen.where(held.c.partition_date.in_(batch))
            found.update((row.partition_date, rows.partition_version(row)) for row in self._rows(some))
        return dict(sorted(found.items()))

    def makers(self, table: str, partitions: Iterable[date]) -> dict[date, str]:
        """The runs whose rows readers of these partitions see; those without an accepted version are absent."""
        held = partition_versions
        accepted = (held.c.table_name == table) & (held.c.state == VersionState.ACCEPTED)
        found: dict[date, str] = {}
        for batch in batches(partitions):
            chosen = select(held.c.partition_date, held.c.run_id).where(accepted, held.c.partition_date.in_(batch))
            found.update((row.partition_date, row.run_id) for row in self._rows(chosen))
        return found

    def versions(self, table: str, partition: date | None = None) -> tuple[PartitionVersion, ...]:
        """Every version that was ever accepted, newest first.

        Args:
            table: A table.
            partition: Only this partition; otherwise all, in the order of the commits that brought them.
        """
        held = partition_versions
        chosen = select(held).where(held.c.table_name == table)
        if partition is not None:
            chosen = chosen.where(held.c.partition_date == partition).order_by(held.c.version.desc())
        else:
            chosen = chosen.order_by(held.c.delta_version.desc(), held.c.partition_date, held.c.version.desc())
        return tuple(rows.partition_version(row) for row in self._rows(chosen))

    def pinned(self, table: str, pairs: Iterable[tuple[date, int]]) -> dict[date, PartitionVersion]:
        """Exactly these versions, whatever their state is by now, in the order of their partitions.

        Args:
            table: A table.
            pairs: Partition and version, each partition once.

        Raises:
            UnknownName: A version that never was.
        """
        wanted = dict(pairs)
        held = partition_versions
        found: dict[date, PartitionVersion] = {}
        for batch in batches(wanted.items()):
            pair = tuple_(held.c.partition_date, held.c.version)
            chosen = select(held).where(held.c.table_name == table, pair.in_(batch))
            found.update((row.partition_date, rows.partition_version(row)) for row in self._rows(chosen))
        missing = sorted(wanted.keys() - found.keys())
        if missing:
            first = missing[0]
            raise UnknownName(
                f"{table} never had version {wanted[first]} of {first}"
                f"{f' (nor {len(missing) - 1} more of those asked for)' if len(missing) > 1 else ''}.",
                next_step=f"backfill history {table} --partition {first}",
                table=table,
                partition=first,
            )
        return dict(sorted(found.items()))

    def publication(self, publication_id: str) -> PublicationRecord:
        """One publication with everything it changes.

        Raises:
            UnknownName: There is none of this id.
        """
        row = self._row(select(publications).where(publications.c.publication_id == publication_id))
        if row is None:
            raise UnknownName(
                f"there is no publication {publication_id!r}.",
                next_step="backfill status",
                publication_id=publication_id,
            )
        ids = [publication_id]
        return rows.publication_record(row, self._changes(ids)[publication_id], self._verified(ids)[publication_id])

    def publications(
        self, *, run_id: str | None = None, states: Iterable[PublicationState] | None = None
    ) -> tuple[PublicationRecord, ...]:
        """Publications, the last begun first.

        Args:
            run_id: Only those that brought in or undid this run.
            states: Only those in one of these states.
        """
        chosen = select(publications).order_by(publications.c.begun_sequence.desc())
        if run_id is not None:
            chosen = chosen.where(publications.c.run_id == run_id)
        if states is not None:
            chosen = chosen.where(publications.c.state.in_(tuple(states)))
        found = list(self._rows(chosen))
        ids = [row.publication_id for row in found]
        changes, verified = self._changes(ids), self._verified(ids)
        return tuple(
            rows.publication_record(row, changes[row.publication_id], verified[row.publication_id]) for row in found
        )

    def verifying(self, table: str, partition: date, version: int) -> tuple[PublicationRecord, ...]:
        """The standing publications that found this version equal to what they had computed, the last begun first."""
        chosen = (
            select(verifications.c.publication_id)
            .join_from(verifications, publications, publications.c.publication_id == verifications.c.publication_id)
            .where(
                publications.c.table_name == table,
                publications.c.state == PublicationState.PUBLISHED,
                verifications.c.partition_date == partition,
                verifications.c.version == version,
            )
            .order_by(publications.c.begun_sequence.desc())
        )
        return tuple(self.publication(publication_id) for publication_id in self._values(chosen))

    def _changes(self, publication_ids: list[str]) -> dict[str, tuple[PartitionChange, ...]]:
        made = publication_changes
        found: dict[str, list[PartitionChange]] = {publication_id: [] for publication_id in publication_ids}
        for batch in batches(publication_ids):
            chosen = select(made).where(made.c.publication_id.in_(batch)).order_by(made.c.partition_date)
            for row in self._rows(chosen):
                found[row.publication_id].append(rows.change(row))
        return {publication_id: tuple(changes) for publication_id, changes in found.items()}

    def _verified(self, publication_ids: list[str]) -> dict[str, tuple[VerifiedPartition, ...]]:
        held, version, made = verifications, partition_versions, publications
        is_version = and_(
            version.c.table_name == made.c.table_name,
            version.c.partition_date == held.c.partition_date,
            version.c.version == held.c.version,
        )
        found: dict[str, list[VerifiedPartition]] = {publication_id: [] for publication_id in publication_ids}
        for batch in batches(publication_ids):
            chosen = (
                select(held, version.c.files)
                .join_from(held, made, made.c.publication_id == held.c.publication_id)
                .outerjoin(version, is_version)
                .where(held.c.publication_id.in_(batch))
                .order_by(held.c.partition_date)
            )
            for row in self._rows(chosen):
                found[row.publication_id].append(rows.verified(row))
        return {publication_id: tuple(verified) for publication_id, verified in found.items()}

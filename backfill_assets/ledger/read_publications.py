"""Which swaps were intended, what did they change, and what became of them?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date

from sqlalchemy import ScalarSelect, Table, and_, func, or_, select

from backfill_assets.errors import UnknownName
from backfill_assets.ledger import rows
from backfill_assets.ledger.queries import Queries, batches
from backfill_assets.ledger.records import (
    Action,
    PartitionChange,
    PublicationRecord,
    RollbackOrder,
    VerifiedPartition,
)
from backfill_assets.ledger.schema import events, partition_versions, publication_changes, publications, verifications
from backfill_assets.ledger.states import PublicationState
from backfill_assets.next_steps import Act, do

ROLLBACK, ORDERED, ENDED = "rollback", "rollback_ordered", "rollback_ended"
"""The events of a rollback that takes dependents along: it is under way while it was ordered and has not ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """A publication that stands: the table version that it made, and how many partitions it swapped and found equal."""

    delta_version: int | None
    changed: int
    verified: int


class PublicationReads(Queries):
    """Publications and rollbacks."""

    def get(self, publication_id: str) -> PublicationRecord:
        """One publication with everything it changes.

        Cost: one primary key lookup, and one row per partition that it changes or found equal.

        Raises:
            UnknownName: There is none of this id.
        """
        row = self._row(select(publications).where(publications.c.publication_id == publication_id))
        if row is None:
            raise UnknownName(
                f"there is no publication {publication_id!r}.",
                next_step=do(Act.STATUS),
                publication_id=publication_id,
            )
        ids = [publication_id]
        return rows.publication_record(row, self._changes(ids)[publication_id], self._verified(ids)[publication_id])

    def records(
        self, *, run_id: str | None = None, states: Iterable[PublicationState] | None = None
    ) -> tuple[PublicationRecord, ...]:
        """Publications, the last begun first.

        Cost: one index range, and one row per partition that they change or found equal.

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
        """The standing publications that found this version equal to what they had computed, the last begun first.

        Cost: one row per publication that found a partition of this date equal.
        """
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
        return tuple(self.get(publication_id) for publication_id in self._values(chosen))

    def states(self) -> Mapping[str, Mapping[str, PublicationState]]:
        """The state of every publication, by table and id: while these are the same, no version of a table changes.

        Cost: one row per publication of the ledger.
        """
        found: dict[str, dict[str, PublicationState]] = {}
        for row in self._rows(select(publications.c.table_name, publications.c.publication_id, publications.c.state)):
            found.setdefault(row.table_name, {})[row.publication_id] = row.state
        return found

    def landed(self, run_ids: Iterable[str]) -> dict[str, Landing]:
        """The standing publications of runs, by run; runs without one are left out. No file sets are read.

        Cost: one index lookup per run; partitions are counted in the database.
        """
        made = publications
        found: dict[str, Landing] = {}
        for batch in batches(run_ids):
            counts = (_count(publication_changes).label("changed"), _count(verifications).label("verified"))
            chosen = select(made.c.run_id, made.c.delta_version, *counts)
            stands = (made.c.state == PublicationState.PUBLISHED, made.c.action == Action.PUBLISH)
            for row in self._rows(chosen.where(made.c.run_id.in_(batch), *stands)):
                found[row.run_id] = Landing(delta_version=row.delta_version, changed=row.changed, verified=row.verified)
        return found

    def rollbacks_under_way(self) -> tuple[RollbackOrder, ...]:
        """Rollbacks with dependents that were begun and have not ended, the first begun first.

        Cost: one row per rollback that took dependents along.
        """
        open_ones: dict[str, RollbackOrder] = {}
        for row in self._rows(select(events).where(events.c.entity == ROLLBACK).order_by(events.c.sequence)):
            open_ones.pop(row.entity_id, None)
            if row.action == ORDERED:
                open_ones[row.entity_id] = RollbackOrder(
                    of=row.entity_id,
                    dependents=tuple(row.payload["dependents"]),
                    by=row.actor,
                    reason=row.payload["reason"],
                )
        return tuple(open_ones.values())

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


def _count(partitions: Table) -> ScalarSelect[int]:
    """How many partitions of a kind a publication names."""
    named = select(func.count()).select_from(partitions)
    if partitions is publication_changes:
        # A partition that is new and has no rows is recorded, and nothing changes for its readers.
        named = named.where(or_(partitions.c.expected_version > 0, partitions.c.file_count > 0))
    return named.where(partitions.c.publication_id == publications.c.publication_id).scalar_subquery()

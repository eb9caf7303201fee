"""Which runs were agreed together, and how far is their publication?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import ScalarSelect, Select, Table, func, or_, select

from backfill_assets.errors import UnknownName
from backfill_assets.ledger import rows
from backfill_assets.ledger.reading import Reading, Unreadable, batches, readable
from backfill_assets.ledger.records import Action, SetRecord
from backfill_assets.ledger.schema import (
    manifests,
    publication_changes,
    publications,
    restatement_sets,
    set_members,
    verifications,
)
from backfill_assets.ledger.states import PublicationState, SetState


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """A publication that stands: the table version that it made, and how many partitions it swapped and found equal."""

    delta_version: int | None
    changed: int
    verified: int


class SetReader(Reading):
    """Restatement sets."""

    def restatement_set(self, set_id: str) -> SetRecord:
        """One set.

        Raises:
            UnknownName: Nobody planned it.
            Refused: Its document was edited in the database.
        """
        row = self._row(_sets().where(restatement_sets.c.set_id == set_id))
        if row is None:
            raise UnknownName(f"there is no restatement set {set_id!r}.", next_step="backfill status", set_id=set_id)
        return rows.set_record(row)

    def restatement_sets(
        self,
        *,
        states: Iterable[SetState] | None = None,
        limit: int | None = None,
        unreadable: Unreadable | None = None,
    ) -> tuple[SetRecord, ...]:
        """Sets, the last planned first.

        Args:
            states: Only those in one of these states.
            limit: At most this many.
            unreadable: Told of every set whose document cannot be read, which is then left out.

        Raises:
            Refused: A document cannot be read, and there is nobody to tell.
        """
        chosen = _sets().order_by(restatement_sets.c.added_sequence.desc()).limit(limit)
        if states is not None:
            chosen = chosen.where(restatement_sets.c.state.in_(tuple(states)))
        return tuple(readable(self._rows(chosen), rows.set_record, name="set_id", unreadable=unreadable))

    def set_of(self, run_id: str) -> SetRecord | None:
        """The set that a run belongs to; None for a run of its own."""
        found = self._values(select(set_members.c.set_id).where(set_members.c.run_id == run_id))
        return self.restatement_set(found[0]) if found else None

    def landed(self, run_ids: Iterable[str]) -> dict[str, Landing]:
        """The standing publications of runs, by run; runs without one are left out. No file sets are read."""
        made = publications
        found: dict[str, Landing] = {}
        for batch in batches(run_ids):
            counts = (_count(publication_changes).label("changed"), _count(verifications).label("verified"))
            chosen = select(made.c.run_id, made.c.delta_version, *counts)
            stands = (made.c.state == PublicationState.PUBLISHED, made.c.action == Action.PUBLISH)
            for row in self._rows(chosen.where(made.c.run_id.in_(batch), *stands)):
                found[row.run_id] = Landing(delta_version=row.delta_version, changed=row.changed, verified=row.verified)
        return found


def _count(partitions: Table) -> ScalarSelect[int]:
    """How many partitions of a kind a publication names."""
    named = select(func.count()).select_from(partitions)
    if partitions is publication_changes:
        # A partition that is new and has no rows is recorded, and nothing changes for its readers.
        named = named.where(or_(partitions.c.expected_version > 0, partitions.c.file_count > 0))
    return named.where(partitions.c.publication_id == publications.c.publication_id).scalar_subquery()


def _sets() -> Select[*tuple[object, ...]]:
    return select(
        restatement_sets.c.set_id,
        restatement_sets.c.state,
        restatement_sets.c.note,
        restatement_sets.c.updated_at,
        manifests.c.body,
        manifests.c.digest,
    ).join_from(restatement_sets, manifests, restatement_sets.c.set_id == manifests.c.run_id)

"""What do publications ask of the tables that depend on them, and which runs follow them already?"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import date

from sqlalchemy import Connection, func, select

from backfill_assets.errors import IllegalTransition
from backfill_assets.ledger import rows
from backfill_assets.ledger.queries import Queries, batches
from backfill_assets.ledger.read_runs import RunReads
from backfill_assets.ledger.records import OutboxEntry, RunRecord
from backfill_assets.ledger.schema import outbox, publications
from backfill_assets.ledger.states import UNPUBLISHED, PublicationState, RunState
from backfill_assets.next_steps import Act, do, outline, step
from backfill_assets.planning.manifest import CauseKind, Manifest


class OutboxReads(Queries):
    """The outbox and the runs that follow what is in it."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._runs = RunReads(connection)

    def entries(self, *, after: int = 0, open_only: bool = False) -> tuple[OutboxEntry, ...]:
        """Publications that dependents should follow, in order.

        Cost: one row per entry of the ledger, filtered in the database.

        Args:
            after: The sequence that was seen last.
            open_only: Leave out what is delivered or withdrawn.
        """
        chosen = select(outbox).where(outbox.c.sequence > after).order_by(outbox.c.sequence)
        if open_only:
            chosen = chosen.where(outbox.c.delivered_at.is_(None), outbox.c.withdrawn_at.is_(None))
        return tuple(rows.outbox_entry(row) for row in self._rows(chosen))

    def of_publications(self, publication_ids: Iterable[str]) -> dict[str, OutboxEntry]:
        """What these publications ask, by publication; those that ask nothing are left out.

        Cost: one index lookup per publication.
        """
        return {
            row.publication_id: rows.outbox_entry(row)
            for batch in batches(publication_ids)
            for row in self._rows(select(outbox).where(outbox.c.publication_id.in_(batch)))
        }

    def no_longer_asked(self, manifest: Manifest) -> Mapping[str, str]:
        """Those publications that a follow-up follows and that do not ask for it any more, each with the reason.

        Cost: two index lookups per publication that it follows.
        """
        followed = manifest.cause.publications
        entries = self.of_publications(followed)
        standing = self._standing(followed)
        found: dict[str, str] = {}
        for publication_id in followed:
            entry = entries.get(publication_id)
            if entry is None:
                found[publication_id] = "it asks nothing of its dependents"
            elif publication_id not in standing:
                found[publication_id] = "it was undone"
            elif entry.withdrawn_at is not None:
                found[publication_id] = f"what it asked for was withdrawn: {entry.note}"
        return found

    def require_still_asked(self, run: RunRecord) -> None:
        """Refuses a follow-up of which a publication was undone or withdrawn since it was planned.

        Cost: as `no_longer_asked`.

        Raises:
            IllegalTransition: One was; nothing has changed.
        """
        gone = self.no_longer_asked(run.manifest)
        if gone:
            reasons = "; ".join(f"{publication_id}: {why}" for publication_id, why in gone.items())
            raise IllegalTransition(
                f"run {run.run_id} follows publications that no longer ask for it ({reasons}), so it is not published.",
                next_step=step(
                    do(Act.FOLLOW),
                    ", which plans what is asked for now; or ask for a run of your own: ",
                    outline(Act.PLAN, run.manifest.table),
                ),
                run_id=run.run_id,
                publications=sorted(gone),
            )

    def _standing(self, publication_ids: Iterable[str]) -> set[str]:
        held = publications
        return {
            publication_id
            for batch in batches(publication_ids)
            for publication_id in self._values(
                select(held.c.publication_id).where(
                    held.c.publication_id.in_(batch), held.c.state == PublicationState.PUBLISHED
                )
            )
        }

    def following(self, table: str, publication_ids: Collection[str]) -> Mapping[str, set[date]]:
        """The partitions of a table for which runs follow each publication already, published or still to be.

        A run that can no longer be published, because another publication that it follows was undone, does not count.

        Cost: the manifests of the runs that were planned since the first of these publications.
        """
        found: dict[str, set[date]] = {publication_id: set() for publication_id in publication_ids}
        for run in self._planned_since(publication_ids, table=table):
            named = found.keys() & set(run.manifest.followed)
            is_dead = run.state in (*UNPUBLISHED, RunState.CANCELLED) and self.no_longer_asked(run.manifest)
            if named and not is_dead:
                for publication_id in named:
                    found[publication_id].update(run.manifest.partitions)
        return found

    def unpublished_followers(self, publication_id: str) -> tuple[RunRecord, ...]:
        """Follow-ups of a publication that readers have seen nothing of.

        Cost: the manifests of the unpublished runs that were planned since the publication.
        """
        found = self._planned_since([publication_id], states=UNPUBLISHED)
        return tuple(run for run in found if publication_id in run.manifest.cause.publications)

    def unfinished_follow_ups(self, states: Collection[RunState]) -> tuple[RunRecord, ...]:
        """Follow-ups in one of these states that are still asked for, the first planned first.

        Cost: the manifests of all runs in these states.
        """
        return tuple(
            run
            for run in reversed(self._runs.records(states=states))
            if run.manifest.cause.kind is CauseKind.FOLLOW_UP and not self.no_longer_asked(run.manifest)
        )

    def _planned_since(
        self, publication_ids: Iterable[str], *, table: str | None = None, states: Iterable[RunState] | None = None
    ) -> tuple[RunRecord, ...]:
        """Runs that were planned after the first of these publications was begun: only they can follow one."""
        begun = [
            sequence
            for batch in batches(publication_ids)
            for sequence in self._values(
                select(func.min(publications.c.begun_sequence)).where(publications.c.publication_id.in_(batch))
            )
            if sequence is not None
        ]
        return self._runs.records(table=table, states=states, after=min(begun)) if begun else ()

    def unwithdrawn(self) -> tuple[str, ...]:
        """Publications that do not stand and still ask something of their dependents.

        Cost: one row per entry of the ledger, compared in the database.
        """
        of_entry = publications.c.publication_id == outbox.c.publication_id
        chosen = select(outbox.c.publication_id).join_from(outbox, publications, of_entry)
        left = chosen.where(publications.c.state != PublicationState.PUBLISHED, outbox.c.withdrawn_at.is_(None))
        return tuple(self._values(left.order_by(outbox.c.sequence)))

"""Reads of the outbox: what publications ask of dependent tables, and which runs follow them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import date

from sqlalchemy import Connection, select

from backfill_assets.errors import IllegalTransition
from backfill_assets.ledger import rows
from backfill_assets.ledger.queries import Queries, batches
from backfill_assets.ledger.read_runs import RunReads
from backfill_assets.ledger.records import OutboxEntry, RunHeader, RunRecord
from backfill_assets.ledger.schema import outbox, publications, run_follows, runs
from backfill_assets.ledger.states import UNPUBLISHED, PublicationState, RunState
from backfill_assets.next_steps import Act, do, step
from backfill_assets.planning.filling import plan_again
from backfill_assets.planning.manifest_parts import CauseKind


class OutboxReads(Queries):
    """The outbox and the runs that follow what is in it."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._runs = RunReads(connection)

    def entries(self, *, after: int = 0, open_only: bool = False) -> tuple[OutboxEntry, ...]:
        """Publications that dependents should follow, in order.

        Cost: one row per entry after `after`; those that are open have an index of their own.

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

    def no_longer_asked(self, followed: Collection[str]) -> Mapping[str, str]:
        """Those of the publications that a follow-up follows that do not ask for it any more, each with the reason.

        Cost: two index lookups per publication.
        """
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
        gone = self.no_longer_asked(run.manifest.cause.publications)
        if gone:
            reasons = "; ".join(f"{publication_id}: {why}" for publication_id, why in gone.items())
            raise IllegalTransition(
                f"run {run.run_id} follows publications that no longer ask for it ({reasons}), so it is not published.",
                next_step=step(
                    do(Act.FOLLOW),
                    ", which plans what is asked for now; or ask for a run of your own: ",
                    plan_again(run.manifest),
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

        Cost: one index range per publication; the manifests of the runs that follow it are parsed.
        """
        found: dict[str, set[date]] = {publication_id: set() for publication_id in publication_ids}
        living = self._living(table, publication_ids)
        partitions = {run.run_id: run.manifest.partitions for run in self._runs.named({run for run, _ in living})}
        for run_id, publication_id in living:
            found[publication_id].update(partitions[run_id])
        return found

    def _living(self, table: str, publication_ids: Collection[str]) -> list[tuple[str, str]]:
        """Runs that follow publications and can still be published or were, each with the publication."""
        columns = (runs.c.run_id, run_follows.c.publication_id, runs.c.state, runs.c.because)
        chosen = select(*columns).join_from(run_follows, runs, runs.c.run_id == run_follows.c.run_id)
        of_table = chosen.where(runs.c.table_name == table)
        named = [
            row
            for batch in batches(publication_ids)
            for row in self._rows(of_table.where(run_follows.c.publication_id.in_(batch)))
        ]
        can_be_dead = {
            row.run_id
            for row in named
            if row.state in (*UNPUBLISHED, RunState.CANCELLED) and row.because == CauseKind.FOLLOW_UP
        }
        dead = can_be_dead - self._still_asked(can_be_dead)
        return [(row.run_id, row.publication_id) for row in named if row.run_id not in dead]

    def _still_asked(self, run_ids: Collection[str]) -> set[str]:
        """Those of these follow-ups of which every publication still asks."""
        followed = self.followed_by(run_ids)
        gone = self.no_longer_asked({publication_id for some in followed.values() for publication_id in some})
        return {run_id for run_id, some in followed.items() if gone.keys().isdisjoint(some)}

    def followed_by(self, run_ids: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """The publications that runs follow, by run; nothing for a run that follows none.

        Cost: one index range per run.
        """
        chosen = list(run_ids)
        found: dict[str, list[str]] = {run_id: [] for run_id in chosen}
        for batch in batches(chosen):
            for row in self._rows(select(run_follows).where(run_follows.c.run_id.in_(batch))):
                found[row.run_id].append(row.publication_id)
        return {run_id: tuple(publication_ids) for run_id, publication_ids in found.items()}

    def unpublished_followers(self, publication_id: str) -> tuple[RunHeader, ...]:
        """Follow-ups of a publication that readers have seen nothing of.

        Cost: one index range: the runs that follow it; no manifest is read.
        """
        followers = self._runs.headers(follows=publication_id)
        return tuple(run for run in followers if run.because is CauseKind.FOLLOW_UP and run.state in UNPUBLISHED)

    def unfinished_follow_ups(self, states: Collection[RunState]) -> tuple[RunRecord, ...]:
        """Follow-ups in one of these states that are still asked for, the first planned first.

        Cost: one index range: the follow-ups in these states; the manifests of those that are asked for are parsed.
        """
        found = [run.run_id for run in reversed(self._runs.headers(states=states, because=CauseKind.FOLLOW_UP))]
        asked = self._still_asked(found)
        return self._runs.named(run_id for run_id in found if run_id in asked)

    def unwithdrawn(self) -> tuple[str, ...]:
        """Publications that do not stand and still ask something of their dependents.

        Cost: one index lookup per entry that is not withdrawn, compared in the database.
        """
        of_entry = publications.c.publication_id == outbox.c.publication_id
        chosen = select(outbox.c.publication_id).join_from(outbox, publications, of_entry)
        left = chosen.where(publications.c.state != PublicationState.PUBLISHED, outbox.c.withdrawn_at.is_(None))
        return tuple(self._values(left.order_by(outbox.c.sequence)))

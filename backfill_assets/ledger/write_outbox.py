"""What do publications ask for, who follows it, and what takes it back?

A follow-up may be published without a person, so it comes from here alone: its manifest is written in the transaction
that has seen that the outbox asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import func, insert, select, update

from backfill_assets.errors import IllegalTransition, Refused, UnknownName
from backfill_assets.ledger import rows
from backfill_assets.ledger.read_outbox import OutboxReader
from backfill_assets.ledger.records import OutboxEntry, PublicationIntent, RunRecord
from backfill_assets.ledger.schema import outbox
from backfill_assets.ledger.states import RunState
from backfill_assets.ledger.write_runs import RunWriter
from backfill_assets.ledger.writing import Happening, typed
from backfill_assets.planning.manifest import CauseKind, Manifest


class OutboxWriter(RunWriter, OutboxReader):
    """Asks dependents to follow, plans what follows, and withdraws what is no longer asked for."""

    def add_follow_up(self, manifest: Manifest, *, actor: str) -> RunRecord | None:
        """Writes the manifest of a follow-up down, if the outbox asks for it at this moment.

        Returns:
            The run; None when the outbox does not ask for it any more: another process has planned it, or a publication
            that it follows was delivered, withdrawn or undone.

        Raises:
            Refused: The manifest names no publication that it follows.
        """
        followed = manifest.cause.publications
        if manifest.cause.kind is not CauseKind.FOLLOW_UP or not followed:
            raise Refused(
                f"run {manifest.run_id} follows no publication, so it is not a follow-up.", run_id=manifest.run_id
            )
        entries = self.outbox_entries(followed)
        is_open = len(entries) == len(followed) and all(entry.is_open for entry in entries.values())
        if not is_open or self.no_longer_asked(manifest):
            return None
        taken = self.following(manifest.table, followed)
        if any(not days.isdisjoint(manifest.partitions) for days in taken.values()):
            return None
        return self._add_manifest(manifest, actor=actor)

    def mark_delivered(self, sequence: int, *, actor: str) -> None:
        """Everything that an entry asks for is planned. What is delivered or withdrawn already stays as it is.

        Raises:
            UnknownName: There is no such outbox entry.
        """
        row = self._row(select(outbox).where(outbox.c.sequence == sequence))
        if row is None:
            raise UnknownName(f"there is no outbox entry {sequence}.", next_step="backfill status")
        entry = rows.outbox_entry(row)
        if entry.is_open:
            self._set(entry, "delivered", actor, delivered_at=self.now, attempts=0, note="")

    def note_failed_follow_up(self, publication_ids: Iterable[str], *, table: str, why: str, actor: str) -> None:
        """A follow-up could not be planned; what asks for it goes on asking, and says why it failed."""
        for entry in self.outbox_entries(publication_ids).values():
            if entry.is_open:
                note = f"{table}: {why}"
                self._set(entry, "follow_up_failed", actor, why=note, attempts=entry.attempts + 1, note=note)

    def cancel_follow_ups(self, publication_id: str, *, by: str, reason: str) -> OutboxEntry:
        """A person decides that dependents do not follow a publication. What has followed already is left as it is.

        Raises:
            UnknownName: There is no such publication, or it asked nothing.
            IllegalTransition: Nothing of it waits: it was followed, or is withdrawn.
            Refused: Nobody says so, or for no reason.
        """
        person, why = typed("the name", by), typed("the reason", reason)
        entry = self.outbox_entries([publication_id]).get(publication_id)
        if entry is None:
            raise UnknownName(
                f"there is no publication {publication_id!r} that asks something of its dependents.",
                next_step="backfill status",
                publication_id=publication_id,
            )
        if not entry.is_open:
            how = "withdrawn" if entry.withdrawn_at else "followed"
            raise IllegalTransition(
                f"publication {publication_id} asks for nothing any more: it was {how} already.",
                next_step="backfill status",
                publication_id=publication_id,
            )
        self._withdraw(publication_id, actor=person, why=f"cancelled by {person}: {why}")
        return self.outbox_entries([publication_id])[publication_id]

    def _withdraw(self, publication_id: str, *, actor: str, why: str) -> None:
        """Takes back what a publication asks for.

        Follow-ups of it that are not published are cancelled; what else they follow is asked for again.
        """
        entry = self.outbox_entries([publication_id]).get(publication_id)
        if entry is None or entry.withdrawn_at is not None:
            return
        self._set(entry, "withdrawn", actor, why=why, withdrawn_at=self.now, note=why)
        others: set[str] = set()
        for run in self.unpublished_followers(publication_id):
            others.update(run.manifest.followed)
            note = f"it follows {publication_id}, which asks for nothing any more: {why}"
            self._move_run(run.run_id, run.state, RunState.CANCELLED, actor=actor, note=note, payload={})
        for other in self.outbox_entries(sorted(others - {publication_id})).values():
            if other.delivered_at is not None and other.withdrawn_at is None:
                self._set(other, "asked_again", actor, why=f"{publication_id} was withdrawn", delivered_at=None)

    def _set(self, entry: OutboxEntry, action: str, actor: str, *, why: str = "", **values: object) -> None:
        self._connection.execute(update(outbox).where(outbox.c.sequence == entry.sequence).values(**values))
        payload = {"outbox_sequence": entry.sequence, **({"why": why} if why else {})}
        self._append(
            Happening(actor=actor, entity="outbox", entity_id=entry.publication_id, action=action, payload=payload)
        )

    def _tell_dependents(self, intent: PublicationIntent) -> None:
        if not intent.changes:
            return
        self._connection.execute(
            insert(outbox).values(
                sequence=int(self._values(select(func.coalesce(func.max(outbox.c.sequence), 0)))[0]) + 1,
                publication_id=intent.publication_id,
                run_id=intent.run_id,
                table_name=intent.table,
                partitions=rows.texts_of(tuple(sorted(change.partition for change in intent.changes))),
                created_at=self.now,
            )
        )

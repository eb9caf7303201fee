"""Writes to the outbox: entries of publications, the runs that follow them, and withdrawals.

A follow-up may be published without a person, so it comes from here alone: its manifest is written in the transaction
that has seen that the outbox asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import func, insert, select, update

from backfill_assets.errors import IllegalTransition, Refused, UnknownName
from backfill_assets.ledger import rows
from backfill_assets.ledger.event_log import Event, EventLog
from backfill_assets.ledger.read_outbox import OutboxReads
from backfill_assets.ledger.recorded_text import one_line
from backfill_assets.ledger.records import OutboxEntry, PublicationIntent, RunRecord
from backfill_assets.ledger.run_steps import RunSteps
from backfill_assets.ledger.schema import outbox
from backfill_assets.ledger.states import RunState
from backfill_assets.next_steps import Act, do
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import CauseKind


class OutboxSteps(OutboxReads):
    """Announces and withdraws what publications ask for; not a part of a transaction's surface."""

    def __init__(self, log: EventLog, run_steps: RunSteps) -> None:
        super().__init__(log.connection)
        self._log, self._run_steps = log, run_steps

    def withdraw(self, publication_id: str, *, actor: str, why: str) -> None:
        """Takes back what a publication asks for.

        Follow-ups of it that are not published are cancelled; what else they follow is asked for again.
        """
        entry = self.of_publications([publication_id]).get(publication_id)
        if entry is None or entry.withdrawn_at is not None:
            return
        self.set(entry, "withdrawn", actor, why=why, withdrawn_at=self._log.now, note=why)
        others: set[str] = set()
        followers = self.unpublished_followers(publication_id)
        for followed in self.followed_by(run.run_id for run in followers).values():
            others.update(followed)
        for run in followers:
            note = f"it follows {publication_id}, which asks for nothing any more: {why}"
            self._run_steps.move(run.run_id, run.state, RunState.CANCELLED, actor=actor, note=note, payload={})
        for other in self.of_publications(sorted(others - {publication_id})).values():
            if other.delivered_at is not None and other.withdrawn_at is None:
                self.set(other, "asked_again", actor, why=f"{publication_id} was withdrawn", delivered_at=None)

    def set(self, entry: OutboxEntry, action: str, actor: str, *, why: str = "", **values: object) -> None:
        """Changes columns of an entry, with the event of it."""
        self._connection.execute(update(outbox).where(outbox.c.sequence == entry.sequence).values(**values))
        payload = {"outbox_sequence": entry.sequence, **({"why": why} if why else {})}
        self._log.append(
            Event(actor=actor, entity="outbox", entity_id=entry.publication_id, action=action, payload=payload)
        )

    def ask_again(self, publication_id: str, *, actor: str) -> None:
        """Forgets that what an open entry asks for could not be planned, if there is such an entry."""
        entry = self.of_publications([publication_id]).get(publication_id)
        if entry is not None and entry.is_open and entry.attempts:
            self.set(entry, "asked_again", actor, why="cleared", attempts=0, note="")

    def announce(self, intent: PublicationIntent) -> None:
        """Asks the dependents of what a publication has changed to follow it."""
        if not intent.changes:
            return
        self._connection.execute(
            insert(outbox).values(
                sequence=int(self._values(select(func.coalesce(func.max(outbox.c.sequence), 0)))[0]) + 1,
                publication_id=intent.publication_id,
                run_id=intent.run_id,
                table_name=intent.table,
                partitions=rows.texts_of(tuple(sorted(change.partition for change in intent.changes))),
                created_at=self._log.now,
            )
        )


class OutboxWrites(OutboxReads):
    """Plans what follows, and withdraws what is no longer asked for."""

    def __init__(self, log: EventLog, run_steps: RunSteps, steps: OutboxSteps) -> None:
        super().__init__(log.connection)
        self._log, self._run_steps, self._steps = log, run_steps, steps

    def add_follow_up(self, manifest: Manifest, *, actor: str) -> RunRecord | None:
        """Writes the manifest of a follow-up down, if the outbox asks for it at this moment.

        Cost: two index lookups per publication that it follows, those of `following`, and those of `RunWrites.add`.

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
        entries = self.of_publications(followed)
        is_open = len(entries) == len(followed) and all(entry.is_open for entry in entries.values())
        if not is_open or self.no_longer_asked(followed):
            return None
        taken = self.following(manifest.table, followed)
        if any(not days.isdisjoint(manifest.partitions) for days in taken.values()):
            return None
        self._run_steps.insert(manifest, actor=actor)
        return self._runs.get(manifest.run_id)

    def mark_delivered(self, sequence: int, *, actor: str) -> None:
        """Everything that an entry asks for is planned. What is delivered or withdrawn already stays as it is.

        Cost: one row and one event.

        Raises:
            UnknownName: There is no such outbox entry.
        """
        row = self._row(select(outbox).where(outbox.c.sequence == sequence))
        if row is None:
            raise UnknownName(f"there is no outbox entry {sequence}.", next_step=do(Act.STATUS))
        entry = rows.outbox_entry(row)
        if entry.is_open:
            self._steps.set(entry, "delivered", actor, delivered_at=self._log.now, attempts=0, note="")

    def note_failure(self, publication_ids: Iterable[str], *, table: str, why: str, actor: str) -> None:
        """A follow-up could not be planned; what asks for it goes on asking, and says why it failed.

        Cost: one row and one event per publication.
        """
        for entry in self.of_publications(publication_ids).values():
            if entry.is_open:
                note = f"{table}: {why}"
                self._steps.set(entry, "follow_up_failed", actor, why=note, attempts=entry.attempts + 1, note=note)

    def cancel(self, publication_id: str, *, by: str, reason: str) -> OutboxEntry:
        """A person decides that dependents do not follow a publication. What has followed already is left as it is.

        Cost: one row and one event, and one more of each per run that is cancelled with it and per publication that
        such a run follows besides.

        Raises:
            UnknownName: There is no such publication, or it asked nothing.
            IllegalTransition: Nothing of it waits: it was followed, or is withdrawn.
            Refused: A name or a reason is missing.
        """
        person, why = one_line("the name", by), one_line("the reason", reason)
        entry = self.of_publications([publication_id]).get(publication_id)
        if entry is None:
            raise UnknownName(
                f"there is no publication {publication_id!r} that asks something of its dependents.",
                next_step=do(Act.STATUS),
                publication_id=publication_id,
            )
        if not entry.is_open:
            how = "withdrawn" if entry.withdrawn_at else "followed"
            raise IllegalTransition(
                f"publication {publication_id} asks for nothing any more: it was {how} already.",
                next_step=do(Act.STATUS),
                publication_id=publication_id,
            )
        self._steps.withdraw(publication_id, actor=person, why=f"cancelled by {person}: {why}")
        return self.of_publications([publication_id])[publication_id]

"""Writes to publications: the intent of a swap, its acknowledgement, and its abandonment.

Everything about a publication's partitions is done by a few statements over whole sets, inside the database.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sqlalchemy import insert

from backfill_assets.ledger import rows
from backfill_assets.ledger.approval_grounds import ApprovalGrounds
from backfill_assets.ledger.approvals import ApprovalSteps
from backfill_assets.ledger.event_log import Event, EventLog
from backfill_assets.ledger.event_payloads import publication_payload
from backfill_assets.ledger.publication_checks import PublicationChecks
from backfill_assets.ledger.read_publications import ENDED, ORDERED, OUTCOME_UNKNOWN, ROLLBACK, PublicationReads
from backfill_assets.ledger.read_runs import RunReads
from backfill_assets.ledger.recorded_text import one_line, required_text
from backfill_assets.ledger.records import Action, PublicationIntent, PublicationRecord, RollbackOrder
from backfill_assets.ledger.run_steps import RunSteps
from backfill_assets.ledger.schema import publication_changes, publications, verifications
from backfill_assets.ledger.states import PublicationState, RunState
from backfill_assets.ledger.steps import Step
from backfill_assets.ledger.write_outbox import OutboxSteps
from backfill_assets.ledger.write_versions import VersionSteps
from backfill_assets.next_steps import Act, do


class PublicationWrites(PublicationReads):
    """Publications and rollbacks: begun, finished and abandoned."""

    def __init__(self, log: EventLog, run_steps: RunSteps, approvals: ApprovalSteps, outbox: OutboxSteps) -> None:
        super().__init__(log.connection)
        self._log, self._run_steps, self._approvals, self._outbox = log, run_steps, approvals, outbox
        self._runs, self._versions = RunReads(log.connection), VersionSteps(log)
        self._checks = PublicationChecks(log.connection)

    def begin(self, intent: PublicationIntent, *, actor: str, grounds: ApprovalGrounds | None = None) -> None:
        """Writes down a swap that is about to be tried. A run to be published is PUBLISHING from here on.

        The event has the grounds of a rollback: why its person may, where not anybody may.

        Cost: as `require_possible`; one row per partition that the intent names, and two events.

        Raises:
            UnknownName: There is no such run, or no publication to undo.
            IllegalTransition: Another publication of the table is open, or run or undone publication are elsewhere.
            NotApproved: The run to be published has no valid approval.
            TargetChanged: The accepted versions are not those that the intent expects.
            MissingInput: Retention removed what would become visible.
            Refused: It would change what the manifest does not declare.
        """
        one_line("the reason", intent.reason)
        one_line("the one who publishes", intent.by)
        self.require_possible(intent)
        sequence = self._log.append(_begun(intent, actor, grounds))
        self._connection.execute(
            insert(publications).values(
                publication_id=intent.publication_id,
                run_id=intent.run_id,
                action=intent.action,
                table_name=intent.table,
                state=PublicationState.PUBLISHING,
                asked_by=intent.by,
                reason=intent.reason,
                undoes=intent.undoes,
                begun_sequence=sequence,
                started_at=self._log.now,
                note="",
            )
        )
        if intent.changes:
            changes = [rows.change_row(intent.publication_id, change) for change in intent.changes]
            self._connection.execute(insert(publication_changes), changes)
        if intent.verified:
            found = [rows.verified_row(intent.publication_id, verified) for verified in intent.verified]
            self._connection.execute(insert(verifications), found)
        if intent.action is Action.PUBLISH:
            state = self._runs.state(intent.run_id)
            self._move_by(intent.publication_id, intent.run_id, state, RunState.PUBLISHING, actor)

    def require_possible(self, intent: PublicationIntent) -> None:
        """Refuses what `begin` would refuse, and writes nothing down.

        Cost: as `PublicationChecks.require_possible`.

        Raises:
            UnknownName, IllegalTransition, NotApproved, TargetChanged, MissingInput, Refused: as there.
        """
        self._checks.require_possible(intent)

    def finish(self, publication_id: str, *, delta_version: int, actor: str) -> PublicationRecord:
        """The swap has landed: new versions are accepted, or the earlier ones again, and dependents are notified.

        Finishing a publication that is finished changes nothing.

        Cost: as `get`; a few statements over its partitions inside the database, and one event per run whose
        state changes with it. A rollback also has the cost of `OutboxWrites.cancel`.

        Args:
            publication_id: A publication that was begun.
            delta_version: The table version whose commit made the change visible.
            actor: Who or what saw it land.

        Raises:
            UnknownName: There is no such publication.
            IllegalTransition: It was abandoned or rolled back.
        """
        found = self.get(publication_id)
        if found.state is PublicationState.PUBLISHED:
            return found
        self._log.change(
            _step(publication_id, found.intent.run_id, PublicationState.PUBLISHED),
            _publication_event(publication_id, "publication_finished", actor, {"delta_version": delta_version}),
            also={"delta_version": delta_version, "finished_at": self._log.now},
        )
        match found.intent.action:
            case Action.PUBLISH:
                self._publish(found.intent, delta_version, actor)
            case Action.ROLLBACK:
                self._roll_back(found.intent, actor)
        self._outbox.announce(found.intent)
        ended = self.header(publication_id)
        return replace(
            found,
            state=ended.state,
            finished_at=ended.finished_at,
            delta_version=ended.delta_version,
            note=ended.note,
        )

    def _publish(self, intent: PublicationIntent, delta_version: int, actor: str) -> None:
        replaced = self._versions.supersede_expected(intent)
        self._versions.accept_new(intent, delta_version)
        self._move_by(intent.publication_id, intent.run_id, RunState.PUBLISHING, RunState.PUBLISHED, actor)
        self._supersede_unseen(replaced, intent, actor)

    def _supersede_unseen(self, run_ids: Iterable[str], intent: PublicationIntent, actor: str) -> None:
        """Runs whose last visible rows a swap took away are no longer PUBLISHED."""
        for run_id in self._versions.without_accepted_versions(run_ids):
            if run_id != intent.run_id and self._runs.state(run_id) is RunState.PUBLISHED:
                self._move_by(intent.publication_id, run_id, RunState.PUBLISHED, RunState.SUPERSEDED, actor)

    def _roll_back(self, intent: PublicationIntent, actor: str) -> None:
        undone = self.header(str(intent.undoes))
        self._supersede_unseen(self._versions.roll_back_expected(intent), intent, actor)
        restored = self._versions.accept_restored(intent)
        self._log.change(
            _step(undone.publication_id, undone.run_id, PublicationState.ROLLED_BACK),
            _publication_event(
                undone.publication_id, "publication_rolled_back", actor, {"undone_by": intent.publication_id}
            ),
            also={"note": f"undone by {intent.publication_id}"},
        )
        self._outbox.withdraw(undone.publication_id, actor=actor, why=f"undone by {intent.publication_id}")
        self._move_by(intent.publication_id, intent.run_id, RunState.PUBLISHED, RunState.ROLLED_BACK, actor)
        self._approvals.withdraw(intent.run_id, actor, f"rolled back: {intent.reason}")
        for run_id in restored:
            if self._runs.state(run_id) is RunState.SUPERSEDED:
                self._move_by(intent.publication_id, run_id, RunState.SUPERSEDED, RunState.PUBLISHED, actor)

    def abandon(self, publication_id: str, *, actor: str, reason: str) -> None:
        """The swap was given up before it landed. A run to be published is PASSED again; nothing else changes.

        Cost: as `get`; the rows of the publication and its run, and two events.

        Raises:
            UnknownName: There is no such publication.
            IllegalTransition: It is not open.
        """
        found = self.get(publication_id)
        why = required_text("the reason", reason)
        self._log.change(
            _step(publication_id, found.intent.run_id, PublicationState.ABANDONED),
            _publication_event(publication_id, "publication_abandoned", actor, {"reason": why}),
            also={"finished_at": self._log.now, "note": why},
        )
        if found.intent.action is Action.PUBLISH:
            self._move_by(publication_id, found.intent.run_id, RunState.PUBLISHING, RunState.PASSED, actor, why)

    def note_unknown(self, publication_id: str, *, actor: str, why: str) -> None:
        """The process of an open publication ends without knowing whether the swap landed; `recover` finds out.

        Cost: the rows of the publication, and one event.
        """
        if self.header(publication_id).state is PublicationState.PUBLISHING:
            self._log.append(_publication_event(publication_id, OUTCOME_UNKNOWN, actor, {"reason": why}))

    def order_rollback(self, order: RollbackOrder, grounds: ApprovalGrounds | None = None) -> None:
        """Notes a rollback that takes dependents along, before the first of them is undone, and why its person may.

        Cost: one event.

        Raises:
            Refused: A name or a reason is missing.
        """
        payload = {"dependents": list(order.dependents), "reason": one_line("the reason", order.reason)}
        by = one_line("the one who rolls back", order.by)
        payload |= grounds.document if grounds else {}
        self._log.append(Event(actor=by, entity=ROLLBACK, entity_id=order.of, action=ORDERED, payload=payload))

    def end_rollback(self, of: str, *, actor: str, note: str = "") -> None:
        """Such a rollback is complete, or was given up for the reason in the note.

        Cost: one event.
        """
        payload = {"note": note} if note else {}
        self._log.append(Event(actor=actor, entity=ROLLBACK, entity_id=of, action=ENDED, payload=payload))

    def _move_by(
        self, publication_id: str, run_id: str, begins: RunState, ends: RunState, actor: str, note: str = ""
    ) -> None:
        self._run_steps.move(run_id, begins, ends, actor=actor, note=note, payload={"publication_id": publication_id})


def _begun(intent: PublicationIntent, actor: str, grounds: ApprovalGrounds | None) -> Event:
    return Event(
        actor=actor,
        entity="publication",
        entity_id=intent.publication_id,
        action="publication_begun",
        to_state=str(PublicationState.PUBLISHING),
        payload={**publication_payload(intent), **(grounds.document if grounds else {})},
    )


def _publication_event(publication_id: str, action: str, actor: str, payload: dict[str, object]) -> Event:
    return Event(actor=actor, entity="publication", entity_id=publication_id, action=action, payload=payload)


def _step(publication_id: str, run_id: str, ends: PublicationState) -> Step:
    begins = PublicationState.PUBLISHED if ends is PublicationState.ROLLED_BACK else PublicationState.PUBLISHING
    return Step(
        table=publications,
        key={"publication_id": publication_id},
        name=f"publication {publication_id}",
        begins=begins,
        ends=ends,
        next_step=do(Act.STATUS, run_id),
        ids={"publication_id": publication_id, "run_id": run_id},
    )

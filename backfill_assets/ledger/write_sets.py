"""Writes to restatement sets: their approval, and the progress of their publication."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlalchemy import insert, select

from backfill_assets.errors import IllegalTransition, NotApproved, Refused
from backfill_assets.ledger.approval_grounds import ApprovalGrounds
from backfill_assets.ledger.approvals import ApprovalSteps, another_person
from backfill_assets.ledger.cancellations import Cancellation, cancel_run, require_set_can_be_cancelled
from backfill_assets.ledger.event_log import Event, EventLog
from backfill_assets.ledger.read_runs import RunReads
from backfill_assets.ledger.read_sets import SetReads
from backfill_assets.ledger.recorded_text import one_line, storable_text
from backfill_assets.ledger.records import RunRecord, SetRecord
from backfill_assets.ledger.run_steps import RunSteps
from backfill_assets.ledger.schema import manifests, restatement_sets, set_members
from backfill_assets.ledger.states import MEANING, ApprovalState, RunState, SetState
from backfill_assets.ledger.steps import Step
from backfill_assets.next_steps import ANOTHER_PERSON, Act, do, step
from backfill_assets.people import same_name
from backfill_assets.planning.sets import SetManifest


class SetWrites(SetReads):
    """Sets: added, approved, moved on and cancelled."""

    def __init__(self, log: EventLog, runs: RunReads, run_steps: RunSteps, approvals: ApprovalSteps) -> None:
        super().__init__(log.connection)
        self._log, self._runs, self._run_steps, self._approvals = log, runs, run_steps, approvals

    def add(self, manifest: SetManifest, *, actor: str) -> SetRecord:
        """Writes a set down whose members' manifests are in the ledger already.

        Cost: the manifest of every run is parsed; one row per run, and one event.

        Raises:
            Refused: It has no name or no reason, or a member is not the run whose digest it states.
        """
        name = one_line("the set's name", manifest.name)
        one_line("the reason", manifest.reason)
        set_id = one_line("the set's id", manifest.set_id)
        if self._row(select(manifests.c.run_id).where(manifests.c.run_id == set_id)):
            raise Refused(f"there is a set {set_id} already, and a set never changes.", set_id=set_id)
        for member in manifest.members:
            if self._runs.get(member.run_id).manifest_digest != member.manifest_digest:
                raise Refused(
                    f"set {set_id} names another manifest of run {member.run_id} than the ledger holds.",
                    next_step="plan the set again",
                    set_id=set_id,
                    run_id=member.run_id,
                )
        self._connection.execute(insert(manifests).values(run_id=set_id, digest=manifest.digest, body=manifest.text))
        sequence = self._log.append(
            Event(
                actor=actor,
                entity="set",
                entity_id=set_id,
                action="set_planned",
                to_state=str(SetState.PLANNED),
                payload={
                    "manifest_digest": manifest.digest,
                    "name": name,
                    "reason": manifest.reason,
                    "members": [member.run_id for member in manifest.members],
                },
            )
        )
        self._connection.execute(
            insert(restatement_sets).values(
                set_id=set_id,
                name=name,
                state=SetState.PLANNED,
                note="",
                added_sequence=sequence,
                updated_at=self._log.now,
            )
        )
        self._connection.execute(
            insert(set_members),
            [
                {"set_id": set_id, "position": position, "run_id": member.run_id}
                for position, member in enumerate(manifest.members)
            ],
        )
        return self.get(set_id)

    def approve(
        self,
        set_id: str,
        *,
        by: str,
        note: str = "",
        place: str = "",
        grounds: Mapping[str, ApprovalGrounds | None] | None = None,
    ) -> None:
        """Another person than the requester agrees to exactly this set, and so to every run of it.

        Runs of it that are approved already are left as they are.

        Cost: the manifest of every run is parsed; one row and one event per run that is a draft, and one event.

        Args:
            set_id: A set.
            by: Who agrees.
            note: The grounds of the approval, in their words.
            place: Where they agreed, when that is known; it is no comment.
            grounds: By run, why they may; None for runs that any person but the requester may approve.

        Raises:
            UnknownName: There is no such set.
            NotApproved: The approver is the requester, or no person.
            IllegalTransition: All of it is approved already, or readers see one of its runs.
        """
        found = self.get(set_id)
        if found.state is SetState.CANCELLED:
            raise IllegalTransition(
                f"set {set_id} is {found.state} ({MEANING[found.state]}); there is nothing left to approve.",
                next_step=do(Act.STATUS, set_id),
                set_id=set_id,
            )
        runs = self._runs.named(member.run_id for member in found.manifest.members)
        drafts = [run for run in runs if run.approval is ApprovalState.DRAFT]
        if not drafts:
            raise IllegalTransition(
                f"set {set_id} is approved already.", next_step=do(Act.STATUS, set_id), set_id=set_id
            )
        approver = another_person(by, found.manifest.requested_by, name=set_id, what="set", set_id=set_id)
        _require_landed_nothing(found, approver)
        for run in drafts:
            self._approvals.agree(run, approver, note, (grounds or {}).get(run.run_id), place=place)
        self._log.append(
            Event(
                actor=approver,
                entity="set",
                entity_id=set_id,
                action="set_approved",
                payload={"manifest_digest": found.digest, "note": storable_text("the note", note)},
            )
        )

    def move(
        self, set_id: str, to: SetState, *, actor: str, note: str = "", grounds: ApprovalGrounds | None = None
    ) -> None:
        """Says how far the publication of a set is, and of a rollback why its person may, where not anybody may.

        Cost: the manifest of the set is parsed; one row, and one event.

        Raises:
            UnknownName: There is no such set.
            IllegalTransition: The step is not in the table.
        """
        found = self.get(set_id)
        self._log.change(
            Step(
                table=restatement_sets,
                key={"set_id": set_id},
                name=f"set {set_id}",
                begins=found.state,
                ends=to,
                next_step=do(Act.STATUS, set_id),
                ids={"set_id": set_id},
            ),
            Event(
                actor=actor,
                entity="set",
                entity_id=set_id,
                action="set_moved",
                payload={**({"note": note} if note else {}), **(grounds.document if grounds else {})},
            ),
            also={"note": storable_text("the note", note), "updated_at": self._log.now},
        )

    def replace_draft(self, set_id: str, *, actor: str, why: str) -> None:
        """Ends a proposal that was neither approved nor begun; a person is not needed for what none has agreed to.

        Cost: as `cancel`.

        Raises:
            UnknownName: There is no such set.
            IllegalTransition: It is no proposal, or a person has approved it or begun to stage it.
        """
        found = self.get(set_id)
        runs = self._runs.named(member.run_id for member in found.manifest.members)
        if not is_replaceable(found, runs):
            raise IllegalTransition(
                f"set {set_id} is not replaced: it is no proposal, or was approved or staged meanwhile.",
                next_step=do(Act.STATUS, set_id),
                set_id=set_id,
            )
        decision = Cancellation(by=one_line("the name", actor), reason=one_line("the reason", why))
        for run in runs:
            cancel_run(self._run_steps, run.run_id, run.state, decision)
        self.move(set_id, SetState.CANCELLED, actor=decision.by, note=decision.note)

    def cancel(self, set_id: str, *, by: str, reason: str) -> None:
        """Ends a set of which readers see nothing, and every run of it.

        Cost: as `move`; one row and one event per run.

        Raises:
            UnknownName: There is no such set.
            Refused: The name is missing or no person's, or there is no reason.
            IllegalTransition: Some of it is published or being published.
        """
        found = self.get(set_id)
        decision = Cancellation.of(by, reason)
        require_set_can_be_cancelled(set_id, found.state)
        for member in found.manifest.members:
            cancel_run(self._run_steps, member.run_id, self._runs.state(member.run_id), decision)
        self.move(set_id, SetState.CANCELLED, actor=decision.by, note=decision.note)


def is_replaceable(record: SetRecord, runs: Iterable[RunRecord]) -> bool:
    """Whether a newer proposal may take the place of a set: it was proposed, and no person or process has begun it."""
    return (
        record.manifest.proposed is not None
        and record.state is SetState.PLANNED
        and all(run.state is RunState.PLANNED and run.approval is ApprovalState.DRAFT for run in runs)
    )


def _require_landed_nothing(found: SetRecord, approver: str) -> None:
    """Refuses an approver who has landed one of the files because of which the set was proposed."""
    proposed = found.manifest.proposed
    if proposed and any(same_name(approver, name) for name in proposed.landed_by):
        raise NotApproved(
            f"set {found.set_id} was proposed because of files that {approver} has landed, who cannot approve it.",
            next_step=step("let another person approve it: ", do(Act.APPROVE, found.set_id, by=ANOTHER_PERSON)),
            set_id=found.set_id,
        )

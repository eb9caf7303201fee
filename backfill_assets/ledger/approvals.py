"""Approvals of manifests. An approval is for exactly one text, and is withdrawn by a rollback."""

from __future__ import annotations

from collections.abc import Sequence

from backfill_assets.errors import IllegalTransition, NotApproved
from backfill_assets.ledger.approval_grounds import ApprovalGrounds
from backfill_assets.ledger.comments import COMMENT_ON, CommentReads, comment_digest, said_of
from backfill_assets.ledger.event_log import Event, EventLog
from backfill_assets.ledger.read_runs import RunReads
from backfill_assets.ledger.recorded_text import one_line, required_text, storable_text
from backfill_assets.ledger.records import GateResult, RunRecord
from backfill_assets.ledger.run_steps import usual_step
from backfill_assets.ledger.schema import approvals
from backfill_assets.ledger.states import MEANING, VISIBLE, ApprovalState, RunState
from backfill_assets.ledger.steps import Step
from backfill_assets.next_steps import ANOTHER_PERSON, WHY, Act, comment, do, step
from backfill_assets.people import POLICY, require_person, same_name
from backfill_assets.planning.manifest_parts import NEVER_PUBLISHED


class ApprovalSteps:
    """Gives and withdraws approvals, for every aggregate that does; not a part of a transaction's surface."""

    def __init__(self, log: EventLog, runs: RunReads) -> None:
        self._log, self._runs, self._comments = log, runs, CommentReads(log.connection)

    def agree(
        self, found: RunRecord, approver: str, note: str, grounds: ApprovalGrounds | None, *, place: str = ""
    ) -> None:
        """A person approves a run that may be published.

        Raises:
            IllegalTransition: It is never published, is approved already, or readers see it already.
        """
        run_id = found.run_id
        if found.manifest.mode in NEVER_PUBLISHED:
            raise IllegalTransition(
                f"run {run_id} has mode {found.manifest.mode} and is never published, so it needs no approval.",
                next_step=do(Act.REPORT, run_id),
                run_id=run_id,
            )
        self.give(found, approver, note, grounds, place=place)

    def give(
        self, found: RunRecord, approver: str, note: str, grounds: ApprovalGrounds | None = None, *, place: str = ""
    ) -> None:
        """The approval of a run becomes APPROVED.

        Raises:
            IllegalTransition: It is approved already, or readers see it already.
            NotApproved: Its gates demand a comment, and there is none.
        """
        if found.state in VISIBLE or found.state is RunState.CANCELLED:
            raise IllegalTransition(
                f"run {found.run_id} is {found.state} ({MEANING[found.state]}); there is nothing left to approve.",
                next_step=usual_step(found.run_id, found.state),
                run_id=found.run_id,
            )
        if found.approval is ApprovalState.APPROVED:
            raise IllegalTransition(
                f"run {found.run_id} is approved already, by {found.approved_by}.",
                next_step=do(Act.STATUS, found.run_id),
                run_id=found.run_id,
            )
        demanded = self._comments.demanded(found.run_id)
        if demanded and note.strip() in ("", WHY):
            raise _comment_is_missing(found, demanded)
        self._log.change(
            self._step(found.run_id, ApprovalState.DRAFT, ApprovalState.APPROVED),
            Event(
                actor=approver,
                entity="approval",
                entity_id=found.run_id,
                action="approved",
                payload={
                    "manifest_digest": found.manifest_digest,
                    "note": note,
                    **({"place": place} if place else {}),
                    **({COMMENT_ON: comment_digest(demanded)} if demanded else {}),
                    **(grounds.document if grounds else {}),
                },
            ),
            also={
                "manifest_digest": found.manifest_digest,
                "approved_by": approver,
                "approved_at": self._log.now,
                "note": storable_text("the note", note),
            },
        )

    def withdraw(self, run_id: str, by: str, reason: str) -> None:
        """The approval of a run is a DRAFT again.

        Raises:
            IllegalTransition: It is not approved.
        """
        self._log.change(
            self._step(run_id, ApprovalState.APPROVED, ApprovalState.DRAFT),
            Event(
                actor=by, entity="approval", entity_id=run_id, action="approval_withdrawn", payload={"reason": reason}
            ),
            also={"manifest_digest": None, "approved_by": None, "approved_at": None, "note": reason},
        )

    def _step(self, run_id: str, begins: ApprovalState, ends: ApprovalState) -> Step:
        return Step(
            table=approvals,
            key={"run_id": run_id},
            name=f"the approval of run {run_id}",
            begins=begins,
            ends=ends,
            next_step=usual_step(run_id, self._runs.state(run_id)),
            ids={"run_id": run_id},
        )


class ApprovalWrites:
    """Approvals of runs; sets approve theirs together (`write_sets`)."""

    def __init__(self, runs: RunReads, steps: ApprovalSteps) -> None:
        self._runs, self._steps = runs, steps

    def approve(
        self, run_id: str, *, by: str, note: str = "", place: str = "", grounds: ApprovalGrounds | None = None
    ) -> None:
        """Another person than the requester agrees to exactly this manifest.

        Cost: the manifest is parsed; the row of the approval, and one event.

        Args:
            run_id: A run.
            by: Who agrees.
            note: The grounds of the approval, in their words.
            place: Where they agreed, when that is known; it is no comment.
            grounds: Why they may; None when any person but the requester may.

        Raises:
            UnknownName: There is no such run.
            NotApproved: The approver is the requester, or no person.
            IllegalTransition: It is approved already, readers see it already, or it is one of a set.
        """
        found = self._runs.get(run_id)
        set_id = found.manifest.member_of
        if set_id is not None:
            raise IllegalTransition(
                f"run {run_id} belongs to set {set_id}, which is only approved as a whole.",
                next_step=do(Act.APPROVE, set_id, by=ANOTHER_PERSON),
                run_id=run_id,
                set_id=set_id,
            )
        approver = another_person(by, found.manifest.requested_by, name=run_id, what="run", run_id=run_id)
        self._steps.agree(found, approver, note, grounds, place=place)

    def approve_by_policy(self, run_id: str, *, policy: str) -> None:
        """The declared policy of the table agrees, without a person; the approver is `policy:<policy>`.

        Cost: as `approve`.

        Raises:
            UnknownName: There is no such run.
            IllegalTransition: It is approved already, or readers see it already.
        """
        self._steps.give(self._runs.get(run_id), f"{POLICY}{required_text('the policy', policy)}", "")

    def withdraw(self, run_id: str, *, by: str, reason: str) -> None:
        """An approval no longer stands, before readers see the run.

        Cost: two primary key lookups, the row of the approval, and one event.

        Raises:
            UnknownName: There is no such run.
            Refused: A name or a reason is missing.
            IllegalTransition: It is not approved, or readers see it already.
        """
        state = self._runs.state(run_id)
        if state in VISIBLE:
            raise IllegalTransition(
                f"run {run_id} is {state} ({MEANING[state]}); its approval has been used.",
                next_step=usual_step(run_id, state),
                run_id=run_id,
            )
        self._steps.withdraw(run_id, required_text("the name", by), required_text("the reason", reason))


def _comment_is_missing(run: RunRecord, demanded: Sequence[GateResult]) -> NotApproved:
    whole = run.manifest.member_of or run.run_id
    return NotApproved(
        f"the approval of {whole} needs a comment, because of {run.manifest.table}: {said_of(demanded)}.",
        next_step=step("read the report, and write why it is right: ", comment(whole)),
        run_id=run.run_id,
    )


def another_person(by: str, requested_by: str, *, name: str, what: str, **ids: str) -> str:
    """The approver, who is a person and not the requester.

    Raises:
        NotApproved: It is the requester, or no person.
    """
    approver = one_line("the approver", by, NotApproved)
    require_person("the approver", approver, NotApproved)
    if same_name(approver, requested_by):
        raise NotApproved(
            f"{what} {name} was requested by {requested_by}, who cannot approve it as well.",
            next_step=step("let another person approve it: ", do(Act.APPROVE, name, by=ANOTHER_PERSON)),
            **ids,
        )
    return approver

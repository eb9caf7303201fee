"""Approvals of manifests, and of what else is asked for.

That of a manifest is for exactly one text, and is withdrawn by a rollback.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Column, ColumnElement, update

from backfill_assets.core.identity import plain
from backfill_assets.core.people import POLICY, ApproverNotAPerson, require_person, same_name
from backfill_assets.core.wording import WHY
from backfill_assets.ledger import errors
from backfill_assets.ledger.candidates import COMMENT_ON, CandidateReads, comment_digest, gates_of
from backfill_assets.ledger.events import Event, EventLog, Step
from backfill_assets.ledger.recorded_text import one_line, required_text, storable_text
from backfill_assets.ledger.records import ApprovalGrounds, RunRecord
from backfill_assets.ledger.runs import RunReads
from backfill_assets.ledger.schema import approvals, captures, replays, table_acts
from backfill_assets.ledger.states import VISIBLE, ActState, ApprovalState, AskedKind, ReplayState, RunState
from backfill_assets.planning.manifest_parts import NEVER_PUBLISHED


class ApprovalSteps:
    """Gives and withdraws approvals, for every aggregate that does; not a part of a transaction's surface."""

    def __init__(self, log: EventLog) -> None:
        self._log, self._candidates = log, CandidateReads(log.connection)

    def give(
        self, found: RunRecord, approver: str, note: str, grounds: ApprovalGrounds | None = None, *, place: str = ""
    ) -> None:
        """The approval of a run becomes APPROVED.

        Raises:
            IllegalTransition: It is never published, is approved already, readers see it already, or it has failed.
            NotApproved: Its gates demand a comment, and there is none.
        """
        if found.manifest.mode in NEVER_PUBLISHED:
            raise errors.NeverPublished(run_id=found.run_id, manifest=found.manifest)
        if found.state in VISIBLE or found.state is RunState.CANCELLED:
            raise errors.UnfitState(name=found.run_id, state=found.state, why="there is nothing left to approve")
        require_can_pass(found)
        if found.approval is ApprovalState.APPROVED:
            raise errors.Ended(kind="run", name=found.run_id, why=f"is approved already, by {found.approved_by}")
        demanded = self._candidates.demanded(found.run_id)
        if demanded and note.strip() in ("", WHY):
            whole, gates = found.manifest.member_of or found.run_id, gates_of(demanded)
            raise errors.NeedsComment(run_id=found.run_id, whole=whole, table=found.manifest.table, gates=gates)
        payload = {
            "manifest_digest": found.manifest_digest,
            "note": note,
            **({"place": place} if place else {}),
            **({COMMENT_ON: comment_digest(demanded)} if demanded else {}),
            **(plain(grounds) if grounds else {}),
        }
        self._log.change(
            self._step(found.run_id, ApprovalState.DRAFT, ApprovalState.APPROVED),
            Event("approval", found.run_id, "approved", actor=approver, payload=payload),
            also={
                "manifest_digest": found.manifest_digest,
                "approved_by": approver,
                "approved_at": self._log.now,
                "note": storable_text("the note", note),
            },
        )

    def withdraw(self, run_id: str, by: str, reason: str) -> None:
        """The approval of a run is a DRAFT again."""
        self._log.change(
            self._step(run_id, ApprovalState.APPROVED, ApprovalState.DRAFT),
            Event("approval", run_id, "approval_withdrawn", actor=by, payload={"reason": reason}),
            also={"manifest_digest": None, "approved_by": None, "approved_at": None, "note": reason},
        )

    def _step(self, run_id: str, begins: ApprovalState, ends: ApprovalState) -> Step:
        return Step(
            table=approvals, key={"run_id": run_id}, name=f"the approval of run {run_id}", begins=begins, ends=ends
        )


_ASKED: Mapping[AskedKind | None, tuple[str, Column[str], ColumnElement[bool]]] = {
    AskedKind.ACT: ("table act", table_acts.c.act_id, table_acts.c.state == ActState.ASKED),
    AskedKind.CAPTURE: ("capture", captures.c.capture_id, captures.c.waits),
    AskedKind.REPLAY: ("replay", replays.c.replay_id, replays.c.is_live & (replays.c.state == ReplayState.ASKED)),
}
"""The entity of its events, its key, and whether it can be approved."""


def require_can_pass(run: RunRecord) -> None:
    """Refuses to approve what cannot be published as it is: an approval of it would be one of what comes instead.

    Raises:
        IllegalTransition: The run has failed, or a gate has blocked it.
    """
    if run.state in (RunState.FAILED, RunState.BLOCKED):
        of = f" of set {run.manifest.member_of}" if run.manifest.member_of else ""
        because = f"{run.note}, so " if run.note else ""
        why = f"{because}nothing{of} can be published as it is, and no approval is recorded"
        raise errors.UnfitState(name=run.run_id, state=run.state, why=why)


class ApprovalWrites:
    """Approvals of runs, and of acts, captures and replays; sets approve their runs together (`sets`)."""

    def __init__(self, log: EventLog) -> None:
        self._log, self._runs, self._steps = log, RunReads(log.connection), ApprovalSteps(log)

    def approve(
        self, run_id: str, *, by: str, note: str = "", place: str = "", grounds: ApprovalGrounds | None = None
    ) -> None:
        """Another person than the requester agrees to exactly this manifest.

        Cost: the manifest is parsed; the row of the approval, and one event.

        Args:
            note: The grounds of the approval, in their words.
            place: Where they agreed, when that is known; it is no comment.
            grounds: Why they may; None when any person but the requester may.

        Raises:
            IllegalTransition: It is approved already, readers see it already, or it is one of a set.
        """
        found = self._runs.get(run_id)
        set_id = found.manifest.member_of
        if set_id is not None:
            why = f"belongs to set {set_id}, and only the whole set can be approved"
            raise errors.PartOfSet(run_id=run_id, set_id=set_id, act="approve", why=why)
        approver = another_person(by, found.manifest.requested_by, kind="run", name=run_id)
        self._steps.give(found, approver, note, grounds, place=place)

    def approve_by_policy(self, run_id: str, *, policy: str) -> None:
        """The declared policy of the table agrees, without a person; the approver is `policy:<policy>`.

        Cost: as `approve`.
        """
        self._steps.give(self._runs.get(run_id), f"{POLICY}{required_text('the policy', policy)}", "")

    def approve_asked(self, name: str, *, by: str, note: str) -> None:
        """Another person agrees to an act, to the positions of a capture, or to the inputs and the topic of a replay.

        Cost: one row and one event.

        Raises:
            IllegalTransition: It is approved already, needs no approval, or has ended.
        """
        kind, key, can_be = _ASKED[AskedKind.of_id(name)]
        held = key.table
        agreed = {"approved_by": one_line("the approver", by), "approved_at": self._log.now}
        statement = update(held).where(key == name, held.c.approved_by.is_(None), can_be).values(**agreed)
        if self._log.write(statement, of=[name]).rowcount != 1:
            why = "waits for no approval: it is approved already, needs none, or has ended"
            raise errors.Ended(kind=kind, name=name, why=why)
        action, payload = f"{kind.split()[-1]}_approved", {"note": storable_text("the note", note)}
        self._log.append(Event(kind, name, action, actor=by, payload=payload))

    def withdraw(self, run_id: str, *, by: str, reason: str) -> None:
        """An approval no longer stands, before readers see the run.

        Cost: two primary key lookups, the row of the approval, and one event.

        Raises:
            Refused: A name or a reason is missing.
            IllegalTransition: It is not approved, or readers see it already.
        """
        state = self._runs.state(run_id)
        if state in VISIBLE:
            raise errors.UnfitState(name=run_id, state=state, why="its approval has been used")
        self._steps.withdraw(run_id, required_text("the name", by), required_text("the reason", reason))


def another_person(by: str, requested_by: str, *, kind: str, name: str) -> str:
    """The approver, who is a person and not the requester.

    Raises:
        NotApproved: It is the requester, or no person.
    """
    approver = one_line("the approver", by, errors.BadApprover)
    require_person("the approver", approver, ApproverNotAPerson)
    if same_name(approver, requested_by):
        raise errors.NeedsAnother(kind=kind, name=name, why=f"requested by {requested_by}", as_well=" as well")
    return approver

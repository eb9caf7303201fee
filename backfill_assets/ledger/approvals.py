"""Approvals: that of a run is for exactly one manifest and is withdrawn by a rollback; acts, captures and replays have
one as well. Who may give them, and of what, is in `requests`."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, Select, insert, select

from backfill_assets.core.people import ApproverNotAPerson, require_person, same_name
from backfill_assets.ledger import errors
from backfill_assets.ledger.events import Event, EventLog, Step
from backfill_assets.ledger.queries import row_of
from backfill_assets.ledger.recorded_text import one_line, storable_text
from backfill_assets.ledger.records import RunRecord
from backfill_assets.ledger.schema import approvals
from backfill_assets.ledger.states import ApprovalState, RunState


class ApprovalSteps:
    """Gives and withdraws approvals of runs, acts, captures and replays; not a part of a transaction's surface."""

    def __init__(self, log: EventLog) -> None:
        self._log = log

    def begin(self, request_id: str) -> None:
        """Writes down that something has no approval yet."""
        draft = {"request_id": request_id, "state": ApprovalState.DRAFT, "note": ""}
        self._log.write(insert(approvals).values(draft), of=[request_id])

    def give(self, request_id: str, approver: str, note: str, *, digest: str | None = None, **payload: object) -> None:
        """The approval becomes APPROVED.

        Args:
            digest: Of a run, that of the manifest that is agreed to.
            **payload: What else the event tells of it.

        Raises:
            IllegalTransition: It is approved already.
        """
        told = {**({"manifest_digest": digest} if digest else {}), "note": note, **payload}
        self._log.change(
            self._step(request_id, ApprovalState.DRAFT, ApprovalState.APPROVED),
            Event("approval", request_id, "approved", actor=approver, payload=told),
            also={
                "manifest_digest": digest,
                "approved_by": approver,
                "approved_at": self._log.now,
                "note": storable_text("the note", note),
            },
        )

    def withdraw(self, request_id: str, by: str, reason: str) -> None:
        """The approval is a DRAFT again."""
        self._log.change(
            self._step(request_id, ApprovalState.APPROVED, ApprovalState.DRAFT),
            Event("approval", request_id, "approval_withdrawn", actor=by, payload={"reason": reason}),
            also={"manifest_digest": None, "approved_by": None, "approved_at": None, "note": reason},
        )

    def _step(self, request_id: str, begins: ApprovalState, ends: ApprovalState) -> Step:
        name = f"the approval of {request_id}"
        return Step(table=approvals, key={"request_id": request_id}, name=name, begins=begins, ends=ends)


def with_approval(key: Column[str]) -> Select[*tuple[Any, ...]]:
    """The rows of what is asked for, each with the approval that stands; the key is the column of its id."""
    agreed = approvals.c.approved_by, approvals.c.approved_at
    return select(key.table, *agreed).join_from(key.table, approvals, approvals.c.request_id == key)


def row_without_approval(record: object, **more: object) -> dict[str, object]:
    """The row of a record whose approval is a row of its own."""
    row = row_of(record, **more)
    del row["approved_by"], row["approved_at"]
    return row


def require_can_pass(run: RunRecord) -> None:
    """Refuses to approve what cannot be published as it is: an approval of it would be one of what comes instead.

    Raises:
        IllegalTransition: The run has failed, or a gate has blocked it.
    """
    if run.state in (RunState.FAILED, RunState.BLOCKED):
        of = "" if run.is_alone else f" of set {run.request_id}"
        because = f"{run.note}, so " if run.note else ""
        why = f"{because}nothing{of} can be published as it is, and no approval is recorded"
        raise errors.UnfitState(name=run.run_id, state=run.state, why=why)


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

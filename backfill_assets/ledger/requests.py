"""Requests: whatever somebody asks for and somebody agrees to is approved, and cancelled, here and nowhere else.

A request is a run, a set of runs, an act on a version of a table, a capture or a replay, by its id. What is agreed to
never changes: the manifest of every run, or the row that says what was asked for otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping

from backfill_assets.core.errors import NotApproved
from backfill_assets.core.identity import plain
from backfill_assets.core.people import POLICY, same_name
from backfill_assets.core.wording import WHY
from backfill_assets.ledger import errors
from backfill_assets.ledger.approvals import ApprovalSteps, another_person, require_can_pass
from backfill_assets.ledger.candidates import COMMENT_ON, CandidateReads, comment_digest, gates_of
from backfill_assets.ledger.captures import CaptureReads, CaptureRecord
from backfill_assets.ledger.events import Event, EventLog, Writes
from backfill_assets.ledger.queries import Queries
from backfill_assets.ledger.recorded_text import one_line, required_text, storable_text
from backfill_assets.ledger.records import ApprovalGrounds, ReplayRecord, RunRecord, SetRecord
from backfill_assets.ledger.replays import ReplayReads
from backfill_assets.ledger.runs import Cancellation, Leaves, RunReads, RunSteps, end_run
from backfill_assets.ledger.sets import SetReads, is_replaceable, move_set
from backfill_assets.ledger.states import (
    EVER_VISIBLE,
    VISIBLE,
    ActState,
    ApprovalState,
    ReplayState,
    RequestKind,
    RunState,
    SetState,
    may_follow,
)
from backfill_assets.ledger.table_acts import ActRecord, TableActReads, move_act
from backfill_assets.planning.manifest_parts import NEVER_PUBLISHED
from backfill_assets.planning.sets import is_set

AskedRecord = ActRecord | CaptureRecord | ReplayRecord
"""What is asked for besides runs and sets of runs."""

Grounds = Mapping[str, ApprovalGrounds | None]
"""By run, why a person may approve it; None for a run that any person but the requester may approve."""


class RequestReads(Queries):
    """Requests by their ids."""

    def asked(self, name: str) -> AskedRecord:
        """The act, capture or replay that has an id.

        Cost: one primary key lookup.

        Raises:
            UnknownName: There is none.
        """
        match RequestKind.of_id(name):
            case RequestKind.ACT:
                return TableActReads(self._connection).get(name)
            case RequestKind.CAPTURE:
                return CaptureReads(self._connection).get(name)
            case RequestKind.REPLAY:
                return ReplayReads(self._connection).get(name)
            case RequestKind.RUN | RequestKind.SET:
                raise errors.NotInLedger(kind="request without runs", name=name, near="")

    def runs(self, name: str) -> tuple[RunRecord, ...]:
        """The runs of a restatement in the order of publication; of a run that is one of several, itself.

        Cost: the manifest of every run is parsed.

        Raises:
            UnknownName: There is no restatement, and no run, of this id.
        """
        runs = RunReads(self._connection)
        if is_set(name):
            SetReads(self._connection).get(name)
            return runs.of_request(name)
        return (runs.get(name),)

    def agreed_with(self, name: str) -> tuple[RunRecord, ...]:
        """The runs to which a person agrees who approves a restatement, or a phase that is approved by itself.

        Cost: the manifest of every run is parsed.

        Raises:
            UnknownName: There is no restatement, and no run, of this id.
            IllegalTransition: It is agreed to otherwise: as a whole, phase by phase, or after another phase.
        """
        asked = self.runs(name)
        found = SetReads(self._connection).of(asked[0])
        phases, set_id = found.manifest.phases, found.set_id
        if phases is None or not phases.each:
            if set_id != name:
                why = f"belongs to set {set_id}, and only the whole set can be approved"
                raise errors.PartOfSet(run_id=name, set_id=set_id, act="approve", why=why)
            return asked
        members = self.runs(set_id)
        if set_id == name:
            draft = next((run for run in members if run.approval is ApprovalState.DRAFT), None)
            if draft is not None and found.state is not SetState.CANCELLED:
                raise errors.ApprovedByPhase(set_id=set_id, run_id=draft.run_id)
            return members
        due = next((run for run in members if run.state not in EVER_VISIBLE), None)
        if due is None:
            raise errors.Ended(kind="set", name=set_id, why="is published already")
        if due.run_id != name:
            raise errors.ApprovedByPhase(set_id=set_id, run_id=due.run_id)
        return asked


class RequestWrites(RequestReads, Writes):
    """The approval of a request, and the decision against it."""

    def __init__(self, log: EventLog) -> None:
        super().__init__(log)
        self._runs, self._sets = RunReads(log.connection), SetReads(log.connection)
        self._candidates, self._steps = CandidateReads(log.connection), ApprovalSteps(log)

    def approve(self, name: str, *, by: str, note: str = "", place: str = "", grounds: Grounds | None = None) -> None:
        """Another person than the requester agrees to exactly what was asked for: of a set, to every run of it.

        A run of a set is approved with it, unless each phase of the set is approved by itself. Runs of a set that are
        approved already are left as they are.

        Cost: the manifest of every run is parsed; one row and one event per run that is a draft, and one event per set.

        Args:
            name: The id of the run, set, act, capture or replay.
            by: The approver.
            note: The grounds of the approval, in their words.
            place: Where they agreed, when that is known; it is no comment.
            grounds: Why they may, by run.

        Raises:
            IllegalTransition: It is approved already, needs no approval, has failed or ended, or is one of a set.
            NotApproved: It is the requester or no person, or gates demand a comment, and there is none.
        """
        match RequestKind.of_id(name):
            case RequestKind.RUN | RequestKind.SET:
                self._agree_to_runs(name, by, note, place, grounds or {})
            case RequestKind.ACT | RequestKind.CAPTURE | RequestKind.REPLAY:
                self._agree_to_asked(self.asked(name), name, by, note)

    def approve_by_policy(self, run_id: str, *, policy: str) -> None:
        """The declared policy of the table agrees, without a person; the approver is `policy:<policy>`.

        Cost: as `approve`.
        """
        self._give(self._runs.get(run_id), f"{POLICY}{required_text('the policy', policy)}", "", "", None)

    def withdraw_approval(self, run_id: str, *, by: str, reason: str) -> None:
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

    def cancel(self, name: str, *, by: str, reason: str, leaves: Leaves | None = None) -> None:
        """Ends what readers see nothing of, and every run of a set; of a partly published set the other phases.

        The process of a run is refused its next step.

        Cost: of a set its manifest is parsed; the row and the lease of every run, and one event each.

        Args:
            name: The id of the run, set or act.
            by: The person who decides against it.
            leaves: The runs whose accepted rows their person leaves as they are, although they found others.

        Raises:
            Refused: The name is missing or no person's, or there is no reason.
            IllegalTransition: Readers see some of it, it is being published, it has ended, or it is one of a set.
        """
        match RequestKind.of_id(name):
            case RequestKind.RUN | RequestKind.SET:
                self._end(name, Cancellation.of(by, reason, leaves))
            case RequestKind.ACT:
                self.asked(name)
                payload = {"reason": required_text("the reason", reason)}
                move_act(self._log, name, ActState.CANCELLED, "act_cancelled", by, payload)
            case RequestKind.CAPTURE | RequestKind.REPLAY:
                raise errors.Ended(kind="request", name=name, why="is not cancelled: the command that began it ends it")

    def replace_draft(self, set_id: str, *, actor: str, why: str) -> None:
        """Ends a proposal that was neither approved nor begun; a person is not needed for what none has agreed to.

        Cost: as `cancel`.

        Raises:
            IllegalTransition: It is no proposal, or a person has approved it or begun to stage it.
        """
        found = self._sets.get(set_id)
        if not is_replaceable(found, self._runs.of_request(set_id)):
            why = "is not replaced: it is not a proposal, or was approved or staged meanwhile"
            raise errors.Ended(kind="set", name=set_id, why=why)
        self._end(set_id, Cancellation(by=one_line("the name", actor), reason=one_line("the reason", why)))

    def _agree_to_asked(self, found: AskedRecord, name: str, by: str, note: str) -> None:
        match found:
            case ActRecord():
                can_be = found.state is ActState.ASKED
            case CaptureRecord():
                can_be = found.waits
            case ReplayRecord():
                can_be = found.is_live and found.state is ReplayState.ASKED
        if not can_be or found.approved_by is not None:
            why = "waits for no approval: it is approved already, needs none, or has ended"
            raise errors.Ended(kind=_KINDS[type(found)], name=name, why=why)
        self._steps.give(name, one_line("the approver", by), note)

    def _agree_to_runs(self, name: str, by: str, note: str, place: str, grounds: Grounds) -> None:
        """Another person agrees to the runs of a restatement, or to one of its phases; to those that have no approval.

        Refused before anything is recorded: an approval of a part would be one of something else.
        """
        runs = self.agreed_with(name)
        found, kind = self._sets.of(runs[0]), RequestKind.of_id(name)
        if found.state is SetState.CANCELLED and kind is RequestKind.SET:
            raise errors.UnfitState(name=name, state=found.state, why="there is nothing left to approve")
        for run in runs:
            # Of several runs some can be approved already, and published as earlier phases.
            (_require_open if kind is RequestKind.RUN else require_can_pass)(run)
        drafts = [run for run in runs if run.approval is ApprovalState.DRAFT]
        if not drafts:
            by_whom = f", by {runs[0].approved_by}" if len(runs) == 1 else ""
            raise errors.Ended(kind=kind, name=name, why=f"is approved already{by_whom}")
        approver = another_person(by, found.manifest.requested_by, kind=kind, name=name)
        _require_landed_nothing(found, approver)
        for run in drafts:
            self._give(run, approver, note, place, grounds.get(run.run_id))
        if kind is RequestKind.SET:
            payload = {"manifest_digest": found.digest, "note": storable_text("the note", note)}
            self._log.append(Event("set", name, "set_approved", actor=approver, payload=payload))

    def _give(self, found: RunRecord, approver: str, note: str, place: str, grounds: ApprovalGrounds | None) -> None:
        """The approval of a run.

        Raises:
            IllegalTransition: It is never published, is approved already, readers see it already, or it has failed.
            NotApproved: Its gates demand a comment, and there is none.
        """
        _require_open(found)
        if found.approval is ApprovalState.APPROVED:
            raise errors.Ended(kind="run", name=found.run_id, why=f"is approved already, by {found.approved_by}")
        demanded = self._candidates.demanded(found.run_id)
        if demanded and note.strip() in ("", WHY):
            whole, gates = found.request_id, gates_of(demanded)
            raise NotApproved.coded(
                "needs_comment",
                "the approval of {whole} needs a comment on gates of {table}: {gates}.",
                then="read the report, and write why it is right: [approve {whole} by=ANOTHER_PERSON note=WHY]",
                run_id=found.run_id,
                whole=whole,
                table=found.manifest.table,
                gates=gates,
            )
        told = {
            **({"place": place} if place else {}),
            **({COMMENT_ON: comment_digest(demanded)} if demanded else {}),
            **(plain(grounds) if grounds else {}),
        }
        self._steps.give(found.run_id, approver, note, digest=found.manifest_digest, **told)

    def _end(self, name: str, decision: Cancellation) -> None:
        """Cancels the runs of a restatement. What readers see of its phases stays; those that are left are ended."""
        # Without their manifests: what cannot be read any more can still be decided against.
        if not is_set(name):
            run = self._runs.header(name)
            if not run.is_alone:
                why = f"belongs to set {run.request_id}, whose runs are cancelled together"
                raise errors.PartOfSet(run_id=name, set_id=run.request_id, act="cancel", why=why)
            end_run(RunSteps(self._log), name, run.state, decision)
            return
        found, runs = self._sets.get(name), reversed(self._runs.headers(request=name))
        is_begun = found.state is SetState.PARTLY_PUBLISHED
        if not is_begun and not may_follow(found.state, SetState.CANCELLED):
            raise errors.NotCancellable(name=name, state=found.state)
        kept = (*(EVER_VISIBLE if is_begun else ()), RunState.VERIFIED, RunState.CANCELLED)
        for run in runs:
            if run.state not in kept:
                end_run(RunSteps(self._log), run.run_id, run.state, decision)
        note = f"its other phases were {decision.note}" if is_begun else decision.note
        move_set(self._log, found, SetState.PUBLISHED if is_begun else SetState.CANCELLED, actor=decision.by, note=note)


_KINDS = {ActRecord: "table act", CaptureRecord: "capture", ReplayRecord: "replay"}


def _require_open(run: RunRecord) -> None:
    """Refuses to approve what is never published, what readers see already, and what cannot be published as it is."""
    if run.manifest.mode in NEVER_PUBLISHED:
        raise errors.NeverPublished(run_id=run.run_id, manifest=run.manifest)
    if run.state in VISIBLE or run.state is RunState.CANCELLED:
        raise errors.UnfitState(name=run.run_id, state=run.state, why="there is nothing left to approve")
    require_can_pass(run)


def _require_landed_nothing(found: SetRecord, approver: str) -> None:
    """Refuses an approver who has landed one of the files because of which the set was proposed."""
    proposed = found.manifest.proposed
    if proposed and any(same_name(approver, name) for name in proposed.landed_by):
        why = f"proposed because of files that {approver} has landed"
        raise errors.NeedsAnother(kind="set", name=found.set_id, why=why)

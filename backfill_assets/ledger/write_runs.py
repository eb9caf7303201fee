"""Who asked for what, who agreed, and how far has it come?"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, assert_never

from sqlalchemy import insert, select

from backfill_assets.errors import IllegalTransition, NotApproved, Refused, TakenOver
from backfill_assets.lease import LeaseTerms
from backfill_assets.ledger.read_runs import RunReader, unknown_run
from backfill_assets.ledger.records import RunRecord
from backfill_assets.ledger.schema import approvals, candidate_partitions, manifests, runs
from backfill_assets.ledger.states import MEANING, ApprovalState, ChunkState, RunState, may_follow
from backfill_assets.ledger.write_leases import LeaseWriter
from backfill_assets.ledger.writing import Happening, Step, illegal, plain, said, some, typed
from backfill_assets.people import POLICY, require_person, same_person
from backfill_assets.planning.chunks import chunks_of
from backfill_assets.planning.manifest import NEVER_PUBLISHED, CauseKind, Manifest

NOBODY = ""
"""The attempt of a run that no process is at work on."""

TAKEN = frozenset({RunState.STAGING, RunState.GATING})
"""What a process begins, and takes the run for."""

BY_HAND = frozenset({RunState.STAGED, RunState.PASSED, RunState.BLOCKED, RunState.FAILED})
"""Where the process that has a run may move it; only a publication moves it into or out of the other states."""

VISIBLE = frozenset({RunState.PUBLISHING, RunState.PUBLISHED, RunState.SUPERSEDED})
"""The states in which an approval has been used."""


class RunWriter(LeaseWriter, RunReader):
    """Adds manifests, approves them, and moves runs."""

    def add_manifest(self, manifest: Manifest, *, actor: str) -> RunRecord:
        """Writes a manifest down. Its run is PLANNED and its approval a DRAFT.

        Raises:
            Refused: It has no reason or no requester, its run exists, or it claims to be a follow-up.
        """
        if manifest.cause.kind is CauseKind.FOLLOW_UP:
            # Policy may publish a follow-up, so only the outbox brings one about (`write_outbox`).
            raise Refused(
                f"run {manifest.run_id} is not planned as a follow-up: only what the outbox asks for is.",
                next_step="backfill follow",
                run_id=manifest.run_id,
            )
        return self._add_manifest(manifest, actor=actor)

    def _add_manifest(self, manifest: Manifest, *, actor: str) -> RunRecord:
        typed("the reason", manifest.reason)
        typed("the requester", manifest.requested_by)
        run_id = typed("the run id", manifest.run_id)
        if self._row(select(manifests.c.run_id).where(manifests.c.run_id == run_id)):
            raise Refused(
                f"there is a manifest for run {run_id} already, and a manifest never changes.",
                next_step="plan it again: the new manifest gets an id of its own",
                run_id=run_id,
            )
        self._connection.execute(insert(manifests).values(run_id=run_id, digest=manifest.digest, body=manifest.text))
        sequence = self._append(
            Happening(
                actor=actor,
                entity="run",
                entity_id=run_id,
                action="planned",
                to_state=str(RunState.PLANNED),
                payload={
                    "manifest_digest": manifest.digest,
                    "table": manifest.table,
                    "kind": str(manifest.kind),
                    "reason": manifest.reason,
                    "requested_by": manifest.requested_by,
                },
            )
        )
        self._connection.execute(
            insert(runs).values(
                run_id=run_id,
                table_name=manifest.table,
                state=RunState.PLANNED,
                note="",
                added_sequence=sequence,
                updated_at=self.now,
            )
        )
        self._connection.execute(insert(approvals).values(run_id=run_id, state=ApprovalState.DRAFT, note=""))
        return self.run(run_id)

    def approve(self, run_id: str, *, by: str, note: str = "", grounds: Mapping[str, Any] | None = None) -> None:
        """Another person than the requester agrees to exactly this manifest.

        Args:
            run_id: A run.
            by: Who agrees.
            note: What the approval rests on, in their words.
            grounds: Why they may, kept with the event; None when anybody but the requester may.

        Raises:
            UnknownName: There is no such run.
            NotApproved: The approver is the requester, or no person.
            IllegalTransition: It is approved already, readers see it already, or it is one of a set.
        """
        found = self.run(run_id)
        set_id = found.manifest.member_of
        if set_id is not None:
            raise IllegalTransition(
                f"run {run_id} is one of the set {set_id}, and nobody agrees to a part of it.",
                next_step=f"backfill approve {set_id} --by WHO",
                run_id=run_id,
                set_id=set_id,
            )
        approver = self._another_person(by, found.manifest.requested_by, name=run_id, what="run", run_id=run_id)
        self._agree(found, approver, note, grounds)

    @staticmethod
    def _another_person(by: str, requested_by: str, *, name: str, what: str, **ids: str) -> str:
        """The approver, who is a person and not the requester."""
        approver = typed("the approver", by, NotApproved)
        require_person("the approver", approver, NotApproved)
        if same_person(approver, requested_by):
            raise NotApproved(
                f"{what} {name} was requested by {requested_by}, who cannot approve it as well.",
                next_step=f"let another person type: backfill approve {name} --by NAME",
                **ids,
            )
        return approver

    def _agree(self, found: RunRecord, approver: str, note: str, grounds: Mapping[str, Any] | None) -> None:
        run_id = found.run_id
        if found.manifest.mode in NEVER_PUBLISHED:
            raise IllegalTransition(
                f"run {run_id} has mode {found.manifest.mode} and is never published, so nobody needs to approve it.",
                next_step=f"backfill report {run_id}",
                run_id=run_id,
            )
        self._approve(found, approver, note, grounds)

    def approve_by_policy(self, run_id: str, *, policy: str) -> None:
        """The declared policy of the table agrees, without a person; the approver is `policy:<policy>`.

        Raises:
            UnknownName: There is no such run.
            IllegalTransition: It is approved already, or readers see it already.
        """
        self._approve(self.run(run_id), f"{POLICY}{said('the policy', policy)}", "")

    def _approve(self, found: RunRecord, approver: str, note: str, grounds: Mapping[str, Any] | None = None) -> None:
        if found.state in VISIBLE or found.state is RunState.CANCELLED:
            raise IllegalTransition(
                f"run {found.run_id} is {found.state} ({MEANING[found.state]}); there is nothing left to approve.",
                next_step=next_command(found.run_id, found.state),
                run_id=found.run_id,
            )
        if found.approval is ApprovalState.APPROVED:
            raise IllegalTransition(
                f"run {found.run_id} is approved already, by {found.approved_by}.",
                next_step=f"backfill status {found.run_id}",
                run_id=found.run_id,
            )
        self._change(
            self._approval_step(found.run_id, ApprovalState.DRAFT, ApprovalState.APPROVED),
            Happening(
                actor=approver,
                entity="approval",
                entity_id=found.run_id,
                action="approved",
                payload={"manifest_digest": found.manifest_digest, "note": note, **(grounds or {})},
            ),
            also={
                "manifest_digest": found.manifest_digest,
                "approved_by": approver,
                "approved_at": self.now,
                "note": plain("the note", note),
            },
        )

    def withdraw_approval(self, run_id: str, *, by: str, reason: str) -> None:
        """Somebody no longer agrees, before readers see the run.

        Raises:
            UnknownName: There is no such run.
            Refused: Nobody withdraws it, or for no reason.
            IllegalTransition: It is not approved, or readers see it already.
        """
        state = self._run_state(run_id)
        if state in VISIBLE:
            raise IllegalTransition(
                f"run {run_id} is {state} ({MEANING[state]}); its approval has been used.",
                next_step=next_command(run_id, state),
                run_id=run_id,
            )
        self._withdraw_approval(run_id, said("the name", by), said("the reason", reason))

    def _withdraw_approval(self, run_id: str, by: str, reason: str) -> None:
        self._change(
            self._approval_step(run_id, ApprovalState.APPROVED, ApprovalState.DRAFT),
            Happening(
                actor=by, entity="approval", entity_id=run_id, action="approval_withdrawn", payload={"reason": reason}
            ),
            also={"manifest_digest": None, "approved_by": None, "approved_at": None, "note": reason},
        )

    def take_run(
        self,
        run_id: str,
        to: RunState,
        *,
        actor: str,
        attempt: str,
        lease: timedelta | None = None,
        payload: Mapping[str, Any] | None = None,
    ) -> None:
        """A process begins to stage a run, or to gate what is staged, and has it from then on.

        Args:
            run_id: A run.
            to: STAGING or GATING.
            actor: On whose behalf.
            attempt: Names the process; it has to come with every further step.
            lease: How long others leave it the run when it does not renew its lease; not at all by default.
            payload: What the event keeps besides.

        Raises:
            UnknownName: There is no such run.
            AtWork: Another process has it, and its lease has not ended.
            IllegalTransition: The run cannot be staged any more; or it is not staged, so it cannot be gated.
        """
        found = self._run_state(run_id)
        if to not in TAKEN or found is RunState.PUBLISHING or not may_follow(found, to):
            raise illegal(f"run {run_id}", found, to, next_step=next_command(run_id, found), ids={"run_id": run_id})
        name = said("the attempt", attempt)
        self.require_free(run_id, at=self.now)
        told = {**(payload or {}), "attempt": name}
        self._move_run(run_id, found, to, actor=actor, note="", payload=told, attempt=name)
        self._take_lease(run_id, LeaseTerms(attempt=name, length=lease) if lease else None, holder=actor)

    def give_up_run(self, run_id: str, *, actor: str, note: str, now: bool = False) -> None:
        """Fails a run whose process is gone, so that it can be run again.

        Args:
            run_id: A run that is being staged or gated.
            actor: Who gives it up.
            note: Why.
            now: Even while its lease has not ended: somebody knows better. Its process can add nothing any more.

        Raises:
            UnknownName: There is no such run.
            AtWork: Its lease has not ended.
            IllegalTransition: It is not being staged or gated.
        """
        found, held = self._run_state(run_id), self.lease(run_id)
        if found not in TAKEN:
            raise illegal(
                f"run {run_id}", found, RunState.FAILED, next_step=next_command(run_id, found), ids={"run_id": run_id}
            )
        is_alive = held is not None and held.is_alive(self.now)
        if not now:
            self.require_free(run_id, at=self.now)
        taken = {"taken_from": f"{held.holder} ({held.machine})"} if held is not None and is_alive else {}
        self._move_run(run_id, found, RunState.FAILED, actor=actor, note=note, payload=taken)

    def move_run(
        self,
        run_id: str,
        to: RunState,
        *,
        actor: str,
        attempt: str = NOBODY,
        note: str = "",
        payload: Mapping[str, Any] | None = None,
    ) -> None:
        """Moves a run on to STAGED, PASSED, BLOCKED or FAILED, and keeps the note with it.

        Args:
            run_id: A run.
            to: Its next state; STAGED ends its staging.
            actor: Who moves it.
            attempt: Names the process at work, which must be the one that has the run.
            note: What is worth telling about the new state.
            payload: What the event keeps besides.

        Raises:
            UnknownName: There is no such run.
            TakenOver: Another process has the run by now, or it was given up.
            IllegalTransition: The step is not in the table, or only `take_run` or a publication takes it; or not every
                chunk and partition is staged.
        """
        found = self._run_state(run_id)
        self.require_holder(run_id, attempt)
        if to not in BY_HAND or found is RunState.PUBLISHING:
            raise illegal(f"run {run_id}", found, to, next_step=next_command(run_id, found), ids={"run_id": run_id})
        if to is RunState.STAGED and found is RunState.STAGING:
            self._require_staged(run_id)
        self._move_run(run_id, found, to, actor=actor, note=note, payload=payload or {})

    def require_holder(self, run_id: str, attempt: str) -> None:
        """Refuses a process that does not have the run any more.

        Raises:
            UnknownName: There is no such run.
            TakenOver: Another process has it by now, or it was given up.
        """
        row = self._row(select(runs.c.attempt, runs.c.state, runs.c.note).where(runs.c.run_id == run_id))
        if row is None:
            raise unknown_run(run_id)
        if row.attempt != attempt:
            what = "another process took it over, or `backfill recover` gave it up"
            because = f"it was {row.note}" if row.state is RunState.CANCELLED else what
            raise TakenOver(
                f"run {run_id} is not this process's any more: {because}; it is {row.state} ({MEANING[row.state]}).",
                next_step=f"backfill status {run_id}",
                run_id=run_id,
                state=str(row.state),
            )

    def _require_staged(self, run_id: str) -> None:
        """Refuses to end a staging before every chunk of the manifest is done and every partition has a candidate."""
        manifest = self.run(run_id).manifest
        done = {chunk.number: chunk.partitions for chunk in self.chunks(run_id) if chunk.state is ChunkState.DONE}
        planned = chunks_of(manifest)
        lacking = [chunk.number for chunk in planned if done.get(chunk.number) != chunk.partitions]
        held = candidate_partitions
        staged = set(self._values(select(held.c.partition_date).where(held.c.run_id == run_id)))
        empty = [partition for partition in manifest.partitions if partition not in staged]
        if lacking:
            verb = "chunk {} of {} is not finished" if len(lacking) == 1 else "chunks {} of {} are not finished"
            what = verb.format(some(lacking), len(planned))
        elif empty:
            what = f"nothing is staged for {some(empty)}"
        else:
            return
        raise IllegalTransition(
            f"run {run_id} is not wholly staged: {what}.", next_step=f"backfill run {run_id}", run_id=run_id
        )

    def _move_run(
        self,
        run_id: str,
        begins: RunState,
        ends: RunState,
        *,
        actor: str,
        note: str,
        payload: Mapping[str, Any],
        attempt: str = NOBODY,
    ) -> None:
        self._change(
            Step(
                table=runs,
                key={"run_id": run_id},
                name=f"run {run_id}",
                begins=begins,
                ends=ends,
                next_step=next_command(run_id, begins),
                ids={"run_id": run_id},
            ),
            Happening(
                actor=actor,
                entity="run",
                entity_id=run_id,
                action="moved",
                payload={**payload, "note": note} if note else payload,
            ),
            also={"note": plain("the note", note), "updated_at": self.now, "attempt": attempt},
        )
        if attempt == NOBODY:
            self._drop_lease(run_id)

    def _run_state(self, run_id: str) -> RunState:
        row = self._row(select(runs.c.state).where(runs.c.run_id == run_id))
        if row is None:
            raise unknown_run(run_id)
        state: RunState = row.state
        return state

    def _approval_step(self, run_id: str, begins: ApprovalState, ends: ApprovalState) -> Step:
        return Step(
            table=approvals,
            key={"run_id": run_id},
            name=f"the approval of run {run_id}",
            begins=begins,
            ends=ends,
            next_step=next_command(run_id, self._run_state(run_id)),
            ids={"run_id": run_id},
        )


def next_command(run_id: str, state: RunState) -> str:
    """What is usually done with a run in this state."""
    match state:
        case RunState.PLANNED | RunState.STAGING | RunState.STAGED | RunState.GATING | RunState.FAILED:
            return f"backfill run {run_id}"
        case RunState.PASSED:
            return f"backfill publish {run_id} --by NAME (after backfill approve {run_id} --by NAME)"
        case RunState.BLOCKED:
            return f"backfill report {run_id}"
        case RunState.PUBLISHING:
            return "backfill recover"
        case RunState.PUBLISHED:
            return f"backfill rollback {run_id} --by NAME --reason WHY"
        case RunState.SUPERSEDED:
            return f"backfill status {run_id}"
        case RunState.ROLLED_BACK:
            return f"backfill approve {run_id} --by NAME, to publish it once more"
        case RunState.CANCELLED:
            return "backfill plan, for a run that takes its place"
        case _:
            assert_never(state)

"""Writes to runs: planning, taking by a process, state changes and cancellation. Approval is in `approvals`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from sqlalchemy import select

from backfill_assets.core.lease import LeaseTerms
from backfill_assets.ledger.candidates import CandidateReads
from backfill_assets.ledger.errors import CannotBecome, LostWork, NotAFollowUp, NotInLedger, NotStaged, PartOfSet
from backfill_assets.ledger.events import EventLog
from backfill_assets.ledger.leases import LeaseSteps
from backfill_assets.ledger.recorded_text import first_few, required_text
from backfill_assets.ledger.records import RunRecord
from backfill_assets.ledger.runs import NO_ATTEMPT, Cancellation, RunReads, RunSteps, cancel_run
from backfill_assets.ledger.schema import runs
from backfill_assets.ledger.sets import SetReads
from backfill_assets.ledger.states import ChunkState, RunState
from backfill_assets.planning.chunks import chunks_of
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import CauseKind

MOVED_BY_ITS_PROCESS = frozenset({RunState.STAGED, RunState.PASSED, RunState.BLOCKED, RunState.FAILED})
"""Where the process that has a run may move it; only a publication moves it into or out of the other states."""


class RunWrites(RunReads):
    """Runs: planned, taken, moved on, given up and cancelled."""

    def __init__(self, log: EventLog, leases: LeaseSteps, steps: RunSteps) -> None:
        super().__init__(log.connection)
        self._log, self._leases, self._steps = log, leases, steps
        self._candidates, self._sets = CandidateReads(log.connection), SetReads(log.connection)

    def add(self, manifest: Manifest, *, actor: str) -> RunRecord:
        """Writes a manifest down. Its run is PLANNED and its approval a DRAFT.

        Cost: two primary key lookups; one row of the manifest, the run and its approval, one per publication that it
        follows, and one event.

        Raises:
            Refused: It has no reason or no requester, its run exists, or it claims to be a follow-up.
        """
        if manifest.cause.kind is CauseKind.FOLLOW_UP:
            # Policy may publish a follow-up, so only the outbox brings one about (`write_outbox`).
            why = "is not planned as a follow-up: only what the outbox asks for is"
            raise NotAFollowUp(run_id=manifest.run_id, why=why)
        self._steps.insert(manifest, actor=actor)
        return self.get(manifest.run_id)

    def take(
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

        Cost: a few primary key lookups, the rows of the run and its lease, and one event.

        Args:
            run_id: A run.
            to: STAGING or GATING.
            actor: On whose behalf.
            attempt: Names the process; it has to come with every further step.
            lease: How long others leave it the run when it does not renew its lease; not at all by default.
            payload: What the event keeps besides.

        Raises:
            UnknownName: There is no such run.
            AtWork: Another process holds its lease.
            IllegalTransition: The run cannot be staged any more; or it is not staged, so it cannot be gated.
        """
        found = self.state(run_id)
        name = required_text("the attempt", attempt)
        self._leases.require_free(run_id, at=self._log.now)
        recorded = {**(payload or {}), "attempt": name}
        self._steps.move(run_id, found, to, actor=actor, note="", payload=recorded, attempt=name)
        self._leases.take(run_id, LeaseTerms(attempt=name, length=lease) if lease else None, holder=actor)

    def give_up(self, run_id: str, *, actor: str, note: str, now: bool = False) -> None:
        """Fails a run whose process is gone, so that it can be run again.

        Cost: as `take`.

        Args:
            run_id: A run that is being staged or gated.
            actor: Who gives it up.
            note: Why.
            now: Even while its lease has not ended. Its process can add nothing any more.

        Raises:
            UnknownName: There is no such run.
            AtWork: Its lease has not ended.
            IllegalTransition: It is not being staged or gated.
        """
        found, held = self.state(run_id), self._leases.get(run_id)
        is_alive = held is not None and held.is_alive(self._log.now)
        if not now:
            self._leases.require_free(run_id, at=self._log.now)
        taken = {"taken_from": f"{held.holder} ({held.machine})"} if held is not None and is_alive else {}
        self._steps.move(run_id, found, RunState.FAILED, actor=actor, note=note, payload=taken)

    def move(
        self,
        run_id: str,
        to: RunState,
        *,
        actor: str,
        attempt: str = NO_ATTEMPT,
        note: str = "",
        payload: Mapping[str, Any] | None = None,
    ) -> None:
        """Moves a run on to STAGED, PASSED, BLOCKED or FAILED, and keeps the note with it.

        Cost: two primary key lookups, the rows of the run and its lease, and one event; for STAGED the manifest is
        parsed, and one row is read per chunk and per partition of the run.

        Args:
            run_id: A run.
            to: Its next state; STAGED ends its staging.
            actor: Who moves it.
            attempt: Identifies the process, which must be the one that has the run.
            note: The reason for the new state.
            payload: What the event keeps besides.

        Raises:
            UnknownName: There is no such run.
            TakenOver: Another process has the run by now, or it was given up.
            IllegalTransition: The step is not in the table, or only `take` or a publication takes it; or not every
                chunk and partition is staged.
        """
        found = self.state(run_id)
        self.require_holder(run_id, attempt)
        if to not in MOVED_BY_ITS_PROCESS or found is RunState.PUBLISHING:
            raise CannotBecome(name=f"run {run_id}", found=found, wanted=to, of={"run_id": run_id})
        if to is RunState.STAGED and found is RunState.STAGING:
            self._require_staged(run_id)
        self._steps.move(run_id, found, to, actor=actor, note=note, payload=payload or {})

    def require_holder(self, run_id: str, attempt: str) -> None:
        """Refuses a process that does not have the run any more.

        Cost: one primary key lookup.

        Raises:
            UnknownName: There is no such run.
            TakenOver: Another process has it by now, or it was given up.
        """
        row = self._row(select(runs.c.attempt, runs.c.state, runs.c.note).where(runs.c.run_id == run_id))
        if row is None:
            raise NotInLedger(kind="run", name=run_id)
        if row.attempt != attempt:
            what = "another process took it over, or a recovery gave it up"
            because = f"it was {row.note}" if row.state is RunState.CANCELLED else what
            why = f"{because}; it is {row.state}"
            raise LostWork(name=f"run {run_id}", why=why, of={"run_id": run_id, "state": str(row.state)})

    def cancel(self, run_id: str, *, by: str, reason: str) -> None:
        """Cancels a run that is not visible to readers. Its process is refused its next step.

        Cost: two index lookups, the rows of the run and its lease, and one event.

        Raises:
            UnknownName: There is no such run.
            Refused: The name is missing or no person's, or there is no reason.
            IllegalTransition: Readers see it, it is being published, or it is one of a set.
        """
        state, set_id = self.state(run_id), self._sets.id_of_run(run_id)
        if set_id is not None:
            why = f"belongs to set {set_id}, whose runs are cancelled together"
            raise PartOfSet(run_id=run_id, set_id=set_id, act="cancel", why=why)
        cancel_run(self._steps, run_id, state, Cancellation.of(by, reason))

    def _require_staged(self, run_id: str) -> None:
        """Refuses to end a staging before every chunk of the manifest is done and every partition has a candidate."""
        manifest = self.get(run_id).manifest
        done = {
            chunk.number: chunk.partitions
            for chunk in self._candidates.chunks(run_id)
            if chunk.state is ChunkState.DONE
        }
        planned = chunks_of(manifest)
        lacking = [chunk.number for chunk in planned if done.get(chunk.number) != chunk.partitions]
        staged = self._candidates.digests(run_id)
        empty = [partition for partition in manifest.partitions if partition not in staged]
        if lacking:
            verb = "chunk {} of {} is not finished" if len(lacking) == 1 else "chunks {} of {} are not finished"
            what = verb.format(first_few(lacking), len(planned))
        elif empty:
            what = f"nothing is staged for {first_few(empty)}"
        else:
            return
        raise NotStaged(run_id=run_id, lacking=what)

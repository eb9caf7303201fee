"""Steps of runs, shared by the aggregates that change runs. Not part of the interface of a transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

from sqlalchemy import insert, select

from backfill_assets.errors import Refused
from backfill_assets.ledger.event_log import Event, EventLog
from backfill_assets.ledger.leases import LeaseSteps
from backfill_assets.ledger.queries import Queries
from backfill_assets.ledger.recorded_text import one_line, storable_text
from backfill_assets.ledger.schema import approvals, manifests, run_follows, runs
from backfill_assets.ledger.states import ApprovalState, RunState
from backfill_assets.ledger.steps import Step
from backfill_assets.next_steps import Act, Advice, do
from backfill_assets.planning.manifest import Manifest

NO_ATTEMPT = ""
"""The attempt of a run on which no process works."""


class RunSteps(Queries):
    """Inserts runs and takes their steps, whatever asks for them."""

    def __init__(self, log: EventLog, leases: LeaseSteps) -> None:
        super().__init__(log.connection)
        self._log, self._leases = log, leases

    def insert(self, manifest: Manifest, *, actor: str) -> None:
        """Writes a manifest down. Its run is PLANNED and its approval a DRAFT.

        Raises:
            Refused: It has no reason or no requester, or its run exists.
        """
        one_line("the reason", manifest.reason)
        one_line("the requester", manifest.requested_by)
        run_id = one_line("the run id", manifest.run_id)
        if self._row(select(manifests.c.run_id).where(manifests.c.run_id == run_id)):
            raise Refused(
                f"there is a manifest for run {run_id} already, and a manifest never changes.",
                next_step="plan it again: the new manifest gets an id of its own",
                run_id=run_id,
            )
        self._connection.execute(insert(manifests).values(run_id=run_id, digest=manifest.digest, body=manifest.text))
        sequence = self._log.append(
            Event(
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
                updated_at=self._log.now,
                kind=str(manifest.kind),
                mode=str(manifest.mode),
                because=str(manifest.cause.kind),
                first_partition=min(manifest.partitions, default=None),
                last_partition=max(manifest.partitions, default=None),
            )
        )
        follows = [{"run_id": run_id, "publication_id": each} for each in dict.fromkeys(manifest.followed)]
        if follows:
            self._connection.execute(insert(run_follows), follows)
        self._connection.execute(insert(approvals).values(run_id=run_id, state=ApprovalState.DRAFT, note=""))

    def move(
        self,
        run_id: str,
        begins: RunState,
        ends: RunState,
        *,
        actor: str,
        note: str,
        payload: Mapping[str, Any],
        attempt: str = NO_ATTEMPT,
    ) -> None:
        """Takes a step of a run; without an attempt, its lease ends with it.

        Raises:
            IllegalTransition: The table does not allow the step, or the run is not where the step begins.
        """
        self._log.change(
            Step(
                table=runs,
                key={"run_id": run_id},
                name=f"run {run_id}",
                begins=begins,
                ends=ends,
                next_step=usual_step(run_id, begins),
                ids={"run_id": run_id},
            ),
            Event(
                actor=actor,
                entity="run",
                entity_id=run_id,
                action="moved",
                payload={**payload, "note": note} if note else payload,
            ),
            also={"note": storable_text("the note", note), "updated_at": self._log.now, "attempt": attempt},
        )
        if attempt == NO_ATTEMPT:
            self._leases.drop(run_id)


def usual_step(run_id: str, state: RunState) -> Advice:
    """What is usually done with a run in this state."""
    match state:
        case RunState.PLANNED | RunState.STAGING | RunState.STAGED | RunState.GATING | RunState.FAILED:
            return do(Act.RUN, run_id)
        case RunState.BLOCKED:
            return do(Act.REPORT, run_id)
        case RunState.PUBLISHING:
            return do(Act.RECOVER)
        case RunState.PASSED | RunState.PUBLISHED | RunState.SUPERSEDED | RunState.ROLLED_BACK | RunState.CANCELLED:
            # It depends on its set, its approval and later publications too.
            return do(Act.STATUS, run_id)
        case _:
            assert_never(state)

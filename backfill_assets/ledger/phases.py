"""Phases: sets whose runs are published one by one, each in its own time.

A set of phases is PUBLISHING only while a phase is being swapped. The transaction that acknowledges or abandons a swap
says what the set is then, so that no process can stop between the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from backfill_assets.ledger.events import EventLog
from backfill_assets.ledger.publications import PublicationReads
from backfill_assets.ledger.records import Action, RunRecord, SetRecord
from backfill_assets.ledger.runs import RunReads
from backfill_assets.ledger.sets import SetReads, members_of, move_set
from backfill_assets.ledger.states import EVER_VISIBLE, PublicationState, RunState, SetState


def next_phase(members: Sequence[RunRecord]) -> RunRecord | None:
    """The first run of a set of phases that is not published and may still be; None when there is none."""
    return next((run for run in members if run.state not in (*EVER_VISIBLE, RunState.CANCELLED)), None)


def last_phase(members: Sequence[RunRecord]) -> RunRecord | None:
    """The last run of a set of phases whose rows readers see; None before the first."""
    return next((run for run in reversed(members) if run.state is RunState.PUBLISHED), None)


def held_until(publications: PublicationReads, record: SetRecord, members: Sequence[RunRecord]) -> datetime | None:
    """Until when the next phase of a set waits after the one before it; None when there is nothing to wait for."""
    last = next((run for run in reversed(members) if run.state in EVER_VISIBLE), None)
    if record.manifest.phases is None or not record.manifest.phases.hold_s or last is None:
        return None
    made = publications.headers(run_id=last.run_id, states=[PublicationState.PUBLISHED])
    landed = [header.finished_at for header in made if header.action is Action.PUBLISH and header.finished_at]
    return max(landed) + timedelta(seconds=record.manifest.phases.hold_s) if landed else None


class PhaseSteps:
    """Says how far a set of phases is, for the transactions that move its runs; not a part of their surface."""

    def __init__(self, log: EventLog) -> None:
        self._log, self._sets, self._runs = log, SetReads(log.connection), RunReads(log.connection)

    def settle(self, run_id: str, *, actor: str, note: str = "") -> None:
        """A phase has landed, was given up or was undone: the set of the run is what its runs are together.

        Cost: two index lookups for a run of its own; else the manifests of the set.
        """
        record = self._sets.of_run(run_id)
        if record is None or record.manifest.phases is None:
            return
        members = members_of(self._runs, record)
        to = SetState.PUBLISHED if next_phase(members) is None else SetState.PARTLY_PUBLISHED
        if not any(run.state in EVER_VISIBLE for run in members):
            was_begun = record.state is SetState.PARTLY_PUBLISHED
            to = SetState.ROLLED_BACK if was_begun else SetState.PENDING
        if record.state not in (SetState.PUBLISHING, SetState.PARTLY_PUBLISHED) or to is record.state:
            return
        move_set(self._log, record, to, actor=actor, note=note)

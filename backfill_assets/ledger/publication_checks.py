"""The ledger's requirements of a publication, checked before one is tried and again in the transaction that begins
it."""

from __future__ import annotations

from datetime import date

from sqlalchemy import select

from backfill_assets.core.errors import InputsMovedOn
from backfill_assets.ledger import errors
from backfill_assets.ledger.publications import PublicationReads
from backfill_assets.ledger.recorded_text import first_few
from backfill_assets.ledger.records import Action, RunRecord
from backfill_assets.ledger.runs import RunReads
from backfill_assets.ledger.schema import import_days, imports
from backfill_assets.ledger.sets import SetReads, last_phase, next_phase
from backfill_assets.ledger.states import COUNTING, RunState, SetState
from backfill_assets.planning.next_steps import joined, loads

_STANDING = (RunState.PUBLISHED, RunState.VERIFIED)


class PublicationChecks(PublicationReads):
    """Publications, and what they require of runs and sets."""

    def require_read_what_landed(self, found: RunRecord) -> None:
        """A source's day that a run built without landed events stays unpublished once events of it have landed.

        Cost: the days of the imports of a source that a run without inputs builds.
        """
        manifest = found.manifest
        if manifest.inputs:
            return
        of_day = select(import_days.c.event_date, import_days.c.import_id).join_from(import_days, imports)
        of_day = of_day.where(imports.c.source == manifest.table, imports.c.state.in_(COUNTING))
        read: set[date] = set()
        landed: set[date] = set()
        with_events = of_day.where(import_days.c.events > 0)
        for row in self._rows_with(with_events, import_days.c.event_date, manifest.partitions):
            (read if row.import_id in manifest.change.imports else landed).add(row.event_date)
        if unread := sorted(landed - read):
            days = tuple(unread)
            raise InputsMovedOn.coded(
                "landed_since_planned",
                "run {run_id} built {unread} of {table} without events, and events for those days landed afterwards.",
                then="{loaded}",
                run_id=found.run_id,
                table=manifest.table,
                unread=first_few(days),
                days=days,
                loaded=joined(loads(manifest.table, days)),
            )

    def require_turn_of_set(self, run_id: str, action: Action, turn: SetState) -> None:
        """The runs of a set are published and brought back together, by the process that moved the set last; phases
        one after the other, and the last one alone back.

        Cost: one primary key lookup for a run alone; else the manifests of the set.
        """
        runs = RunReads(self._connection)
        request_id = runs.request_of(run_id)
        if request_id == run_id:
            return
        record = SetReads(self._connection).get(request_id)
        phases = runs.of_request(request_id) if record.manifest.phases else ()
        is_turn, why = record.state is turn, "the runs of a set are published and rolled back together"
        if phases:
            # Which phase is next is decided here, whoever asks; a set that is brought back as a whole has begun with
            # the last one.
            why = "its phases are published in their order, and rolled back from the last one"
            due, open_one = next_phase(phases), last_phase(phases)
            if action is Action.PUBLISH:
                is_turn = is_turn and due is not None and due.run_id == run_id
            elif record.state is SetState.PARTLY_PUBLISHED:
                is_turn = open_one is not None and open_one.run_id == run_id
        if not is_turn:
            # The transaction that undoes one phase of a published set has moved the set already.
            state = "" if phases and action is Action.ROLLBACK else f", which is {record.state}"
            why = f"belongs to set {record.set_id}{state}; {why}"
            raise errors.PartOfSet(run_id=run_id, set_id=record.set_id, act=action.lower(), why=why)

    def require_after_what_it_read(self, found: RunRecord) -> None:
        """Requires that rows computed from other candidates of a set are published after them, or readers would see
        them without their inputs.

        Cost: one primary key lookup per run of the set that it reads.
        """
        upstream = {pin.from_run for pinned in found.manifest.inputs for pin in pinned.partitions if pin.from_run}
        runs = RunReads(self._connection)
        waiting = sorted(run_id for run_id in upstream if runs.state(run_id) not in _STANDING)
        if waiting:
            why = f"was computed from what {first_few(waiting)} staged, and that is not published"
            raise errors.PartOfSet(run_id=found.run_id, set_id=found.request_id, act="publish", why=why)

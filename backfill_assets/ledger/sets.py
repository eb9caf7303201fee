"""Restatements: of several runs that were agreed together, and of one run, which tells all there is of it.

The runs of some are phases, which are published one by one in their own time.
A set of phases is PUBLISHING only while a phase is being swapped. The transaction that acknowledges or abandons a swap
says what the set is then, so that no process can stop between the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache

from sqlalchemy import Select, exists, func, insert, select

from backfill_assets.core.errors import Refused
from backfill_assets.core.identity import plain
from backfill_assets.ledger import errors, queries
from backfill_assets.ledger.events import Event, EventLog, Step, Writes
from backfill_assets.ledger.publications import PublicationReads
from backfill_assets.ledger.queries import OnUnreadable, Queries, readable
from backfill_assets.ledger.recorded_text import one_line, storable_text
from backfill_assets.ledger.records import Action, ApprovalGrounds, RunRecord, SetRecord
from backfill_assets.ledger.runs import RunReads
from backfill_assets.ledger.schema import events, manifests, restatement_sets, runs
from backfill_assets.ledger.states import EVER_VISIBLE, ApprovalState, PublicationState, RunState, SetState
from backfill_assets.planning.sets import SetManifest, SetMember, is_set


class SetReads(Queries):
    """Restatements; lists are of those of several runs."""

    def get(self, set_id: str) -> SetRecord:
        """One restatement: of several runs, or of the run that has the id.

        Cost: one primary key lookup; the document is parsed.

        Raises:
            UnknownName: There is none of this id.
            IllegalTransition: It is one of the runs of a restatement.
            Refused: Its document was edited in the database.
        """
        if not is_set(set_id):
            run = RunReads(self._connection).get(set_id)
            if not run.is_alone:
                why = f"belongs to set {run.request_id}, and is done with it"
                raise errors.PartOfSet(run_id=set_id, set_id=run.request_id, act="", why=why)
            return alone(run)
        return queries.set_record(self._named(_sets(), restatement_sets.c.set_id, kind="restatement set", name=set_id))

    def records(
        self,
        *,
        states: Iterable[SetState] | None = None,
        table: str | None = None,
        person: str | None = None,
        limit: int | None = None,
        offset: int = 0,
        unreadable: OnUnreadable | None = None,
    ) -> tuple[SetRecord, ...]:
        """Sets, the last planned first.

        Cost: one row per set; every document is parsed.

        Args:
            table: Only those with a run of this table.
            person: Only those on which this person acted; upper and lower case make no difference.
            offset: How many of the last planned ones are left out.
            unreadable: Called with every set whose document cannot be read, which is then left out.
        """
        chosen = _sets().order_by(restatement_sets.c.added_sequence.desc()).limit(limit).offset(offset)
        if states is not None:
            chosen = chosen.where(restatement_sets.c.state.in_(tuple(states)))
        if table is not None:
            of_table = select(runs.c.request_id).where(runs.c.table_name == table)
            chosen = chosen.where(restatement_sets.c.set_id.in_(of_table))
        if person is not None:
            own = (events.c.entity_id == restatement_sets.c.set_id, func.lower(events.c.actor) == func.lower(person))
            chosen = chosen.where(exists().where(*own))
        return tuple(readable(self._rows(chosen), queries.set_record, name="set_id", unreadable=unreadable))

    def of(self, run: RunRecord) -> SetRecord:
        """The restatement that a run is part of. Cost: none for a run alone; else as `get`."""
        return alone(run) if run.is_alone else self.get(run.request_id)


def alone(run: RunRecord) -> SetRecord:
    """The restatement of one run: it has no row of its own, and is made from the run."""
    manifest = run.manifest
    member = SetMember(run_id=run.run_id, table=manifest.table, manifest_digest=run.manifest_digest)
    return SetRecord(
        set_id=run.run_id,
        manifest=SetManifest(
            set_id=run.run_id,
            name=run.run_id,
            reason=manifest.reason,
            requested_by=manifest.requested_by,
            requested_at=manifest.requested_at,
            because="",
            members=(member,),
        ),
        digest=run.manifest_digest,
        state=_OF_ONE_RUN.get(run.state, SetState.PENDING),
        updated_at=run.updated_at,
        note=run.note,
    )


_OF_ONE_RUN = {
    RunState.PUBLISHING: SetState.PUBLISHING,
    RunState.PUBLISHED: SetState.PUBLISHED,
    RunState.SUPERSEDED: SetState.PUBLISHED,
    RunState.VERIFIED: SetState.VERIFIED,
    RunState.ROLLED_BACK: SetState.ROLLED_BACK,
    RunState.CANCELLED: SetState.CANCELLED,
}
"""The state of a restatement by that of its only run; PENDING by default."""


@cache
def _sets() -> Select[*tuple[object, ...]]:
    return select(
        restatement_sets.c.set_id,
        restatement_sets.c.state,
        restatement_sets.c.note,
        restatement_sets.c.updated_at,
        manifests.c.body,
        manifests.c.digest,
    ).join_from(restatement_sets, manifests, restatement_sets.c.set_id == manifests.c.run_id)


def versions_of(publications: PublicationReads, record: SetRecord) -> Mapping[str, int]:
    """The version of every table at which readers see the whole of a set; none unless all of it is published."""
    found: dict[str, int] = {}
    if record.state is not SetState.PUBLISHED:
        return found
    landed = publications.landed(member.run_id for member in record.manifest.members)
    for member in record.manifest.members:
        landing = landed.get(member.run_id)
        if landing is not None and landing.delta_version is not None:
            found[member.table] = max(found.get(member.table, 0), landing.delta_version)
    return found


def move_set(
    log: EventLog, found: SetRecord, to: SetState, *, actor: str, note: str, grounds: ApprovalGrounds | None = None
) -> None:
    """A set goes from the state in which it was found to another one."""
    set_id = found.set_id
    payload = {**({"note": note} if note else {}), **(plain(grounds) if grounds else {})}
    log.change(
        Step(table=restatement_sets, key={"set_id": set_id}, name=f"set {set_id}", begins=found.state, ends=to),
        Event("set", set_id, "set_moved", actor=actor, payload=payload),
        also={"note": storable_text("the note", note), "updated_at": log.now},
    )


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


def settle_phases(log: EventLog, run_id: str, *, actor: str, note: str = "") -> None:
    """A phase has landed, was given up or was undone: its restatement is what its runs are together.

    Cost: one primary key lookup for a run alone; else the manifests of all its runs.
    """
    runs = RunReads(log.connection)
    request_id = runs.request_of(run_id)
    if request_id == run_id or (record := SetReads(log.connection).get(request_id)).manifest.phases is None:
        return
    members = runs.of_request(request_id)
    to = SetState.PUBLISHED if next_phase(members) is None else SetState.PARTLY_PUBLISHED
    if not any(run.state in EVER_VISIBLE for run in members):
        was_begun = record.state is SetState.PARTLY_PUBLISHED
        to = SetState.ROLLED_BACK if was_begun else SetState.PENDING
    if record.state in (SetState.PUBLISHING, SetState.PARTLY_PUBLISHED) and to is not record.state:
        move_set(log, record, to, actor=actor, note=note)


class SetWrites(SetReads, Writes):
    """Sets: added and moved on."""

    def __init__(self, log: EventLog) -> None:
        super().__init__(log)
        self._runs = RunReads(log.connection)

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
            raise errors.AlreadyRecorded(kind="set", name=set_id)
        there = [(run.run_id, run.table, run.manifest_digest) for run in self._runs.of_request(set_id)]
        if there != [(member.run_id, member.table, member.manifest_digest) for member in manifest.members]:
            raise Refused.coded(
                "other_manifest",
                "set {set_id} names other runs than the ledger holds for it.",
                then="plan the set again",
                set_id=set_id,
            )
        document = {"run_id": set_id, "digest": manifest.digest, "body": manifest.text}
        self._log.write(insert(manifests).values(document), of=[set_id])
        self._log.write(
            insert(restatement_sets).values(
                set_id=set_id,
                name=name,
                state=SetState.PENDING,
                note="",
                added_sequence=self._log.next_sequence,
                updated_at=self._log.now,
            ),
            of=[set_id],
        )
        planned = {
            "manifest_digest": manifest.digest,
            "name": name,
            "reason": manifest.reason,
            "members": [member.run_id for member in manifest.members],
        }
        state = str(SetState.PENDING)
        self._log.append(Event("set", set_id, "set_planned", actor=actor, to_state=state, payload=planned))
        return self.get(set_id)

    def move(
        self, set_id: str, to: SetState, *, actor: str, note: str = "", grounds: ApprovalGrounds | None = None
    ) -> None:
        """Says how far the publication of a set is, and of a rollback why its person may, where not anybody may.

        Cost: the manifest of the set is parsed; one row, and one event.
        """
        move_set(self._log, self.get(set_id), to, actor=actor, note=note, grounds=grounds)


def is_replaceable(record: SetRecord, runs: Iterable[RunRecord]) -> bool:
    """True if a newer proposal may replace a set: it was proposed, and no person or process has begun it."""
    return (
        record.manifest.proposed is not None
        and record.state is SetState.PENDING
        and all(run.state is RunState.PLANNED and run.approval is ApprovalState.DRAFT for run in runs)
    )

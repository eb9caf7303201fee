"""Outbox: what publications ask of dependents, which runs follow them, and what sensors have given up.

A follow-up may be published without a person, so it comes from here alone: its manifest is written in the transaction
that has seen that the outbox asks for it. What sensors have tried in vain is kept as events of the chain: what a sensor
has to do follows from the rest of the ledger at every tick, so that one without a memory does nothing twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime

from sqlalchemy import Connection, insert, select, update

from backfill_assets.core.errors import IllegalTransition, UnknownName
from backfill_assets.core.identity import plain
from backfill_assets.core.people import Sensor
from backfill_assets.ledger import queries
from backfill_assets.ledger.errors import Ended, NotAFollowUp, NotInLedger
from backfill_assets.ledger.events import Event, EventLog, Writes
from backfill_assets.ledger.queries import Queries
from backfill_assets.ledger.recorded_text import one_line
from backfill_assets.ledger.records import EventRecord, OutboxEntry, PublicationIntent, RunHeader, RunRecord
from backfill_assets.ledger.runs import RunReads, RunSteps
from backfill_assets.ledger.schema import events, outbox, publications, run_follows, runs
from backfill_assets.ledger.states import UNPUBLISHED, PublicationState, RunState
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import CauseKind
from backfill_assets.planning.next_steps import plan_again


class OutboxReads(Queries):
    """The deliveries to dependents, and the runs that follow what is in them."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._runs = RunReads(connection)

    def entries(self, *, after: int = 0, open_only: bool = False) -> tuple[OutboxEntry, ...]:
        """Publications that dependents should follow, in order.

        Cost: one row per entry after `after`; those that are open have an index of their own.

        Args:
            open_only: Leave out what is delivered or withdrawn.
        """
        chosen = select(outbox).where(outbox.c.sequence > after).order_by(outbox.c.sequence)
        if open_only:
            chosen = chosen.where(outbox.c.delivered_at.is_(None), outbox.c.withdrawn_at.is_(None))
        return tuple(queries.outbox_entry(row) for row in self._rows(chosen))

    def of_publications(self, publication_ids: Iterable[str]) -> dict[str, OutboxEntry]:
        """The requests of these publications, by publication; those that ask nothing are left out.

        Cost: one index lookup per publication.
        """
        found = self._rows_with(select(outbox), outbox.c.publication_id, publication_ids)
        return {row.publication_id: queries.outbox_entry(row) for row in found}

    def no_longer_asked(self, followed: Collection[str]) -> Mapping[str, str]:
        """The publications that a follow-up follows and that no longer ask for it, each with the reason.

        Cost: two index lookups per publication.
        """
        entries = self.of_publications(followed)
        standing = self._standing(followed)
        found: dict[str, str] = {}
        for publication_id in followed:
            entry = entries.get(publication_id)
            if entry is None:
                found[publication_id] = "it has no dependents to notify"
            elif publication_id not in standing:
                found[publication_id] = "it was undone"
            elif entry.withdrawn_at is not None:
                found[publication_id] = f"what it asked for was withdrawn: {entry.note}"
        return found

    def require_still_asked(self, run: RunRecord) -> None:
        """Refuses a follow-up of which a publication was undone or withdrawn since it was planned.

        Cost: as `no_longer_asked`.

        Raises:
            IllegalTransition: One was; nothing has changed.
        """
        gone = self.no_longer_asked(run.manifest.cause.publications)
        if gone:
            reasons = "; ".join(f"{publication_id}: {why}" for publication_id, why in gone.items())
            publications = tuple(sorted(gone))
            raise IllegalTransition.coded(
                "no_longer_asked",
                "run {run_id} follows publications that no longer ask for it ({reasons}), so it is not published.",
                then="[follow], which plans what is asked for now; or ask for a run of your own: {planned_again}",
                run_id=run.run_id,
                publications=publications,
                reasons=reasons,
                planned_again=plan_again(run.manifest),
            )

    def _standing(self, publication_ids: Iterable[str]) -> set[str]:
        name = publications.c.publication_id
        standing = select(name).where(publications.c.state == PublicationState.PUBLISHED)
        return {row.publication_id for row in self._rows_with(standing, name, publication_ids)}

    def following(self, table: str, publication_ids: Collection[str]) -> Mapping[str, set[date]]:
        """The partitions of a table for which runs follow each publication already, published or still to be.

        A run that can no longer be published, because another publication that it follows was undone, does not count.

        Cost: one index range per publication; the manifests of the runs that follow it are parsed.
        """
        found: dict[str, set[date]] = {publication_id: set() for publication_id in publication_ids}
        living = self._living(table, publication_ids)
        partitions = {run.run_id: run.manifest.partitions for run in self._runs.named({run for run, _ in living})}
        for run_id, publication_id in living:
            found[publication_id].update(partitions[run_id])
        return found

    def _living(self, table: str, publication_ids: Collection[str]) -> list[tuple[str, str]]:
        """Runs that follow publications and can still be published or were, each with the publication."""
        columns = (runs.c.run_id, run_follows.c.publication_id, runs.c.state, runs.c.because)
        chosen = select(*columns).join_from(run_follows, runs, runs.c.run_id == run_follows.c.run_id)
        of_table = chosen.where(runs.c.table_name == table)
        named = list(self._rows_with(of_table, run_follows.c.publication_id, publication_ids))
        can_be_dead = {
            row.run_id
            for row in named
            if row.state in (*UNPUBLISHED, RunState.CANCELLED) and row.because == CauseKind.FOLLOW_UP
        }
        dead = can_be_dead - self._still_asked(can_be_dead)
        return [(row.run_id, row.publication_id) for row in named if row.run_id not in dead]

    def _still_asked(self, run_ids: Collection[str]) -> set[str]:
        """The given follow-ups for which every publication still asks."""
        followed = self.followed_by(run_ids)
        gone = self.no_longer_asked({publication_id for some in followed.values() for publication_id in some})
        return {run_id for run_id, some in followed.items() if gone.keys().isdisjoint(some)}

    def followed_by(self, run_ids: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """The publications that runs follow, by run; nothing for a run that follows none.

        Cost: one index range per run.
        """
        found: dict[str, list[str]] = {run_id: [] for run_id in run_ids}
        for row in self._rows_with(select(run_follows), run_follows.c.run_id, found):
            found[row.run_id].append(row.publication_id)
        return {run_id: tuple(publication_ids) for run_id, publication_ids in found.items()}

    def unpublished_followers(self, publication_id: str) -> tuple[RunHeader, ...]:
        """Follow-ups of a publication that readers have seen nothing of.

        Cost: one index range: the runs that follow it; no manifest is read.
        """
        followers = self._runs.headers(follows=publication_id)
        return tuple(run for run in followers if run.because is CauseKind.FOLLOW_UP and run.state in UNPUBLISHED)

    def unfinished_follow_ups(self, states: Collection[RunState]) -> tuple[RunRecord, ...]:
        """Follow-ups in one of these states that are still asked for, the first planned first.

        Cost: one index range: the follow-ups in these states; the manifests of those that are asked for are parsed.
        """
        found = [run.run_id for run in reversed(self._runs.headers(states=states, because=CauseKind.FOLLOW_UP))]
        asked = self._still_asked(found)
        return self._runs.named(run_id for run_id in found if run_id in asked)

    def unwithdrawn(self) -> tuple[str, ...]:
        """Publications that do not stand and still ask something of their dependents.

        Cost: one index lookup per entry that is not withdrawn, compared in the database.
        """
        of_entry = publications.c.publication_id == outbox.c.publication_id
        chosen = select(outbox.c.publication_id).join_from(outbox, publications, of_entry)
        left = chosen.where(
            publications.c.state != PublicationState.PUBLISHED,
            outbox.c.withdrawn_at.is_(None),
        )
        return tuple(self._values(left.order_by(outbox.c.sequence)))


class OutboxSteps(OutboxReads):
    """Announces and withdraws what publications ask for; not a part of a transaction's surface."""

    def __init__(self, log: EventLog) -> None:
        super().__init__(log.connection)
        self._log, self._run_steps = log, RunSteps(log)

    def withdraw(self, publication_id: str, *, actor: str, why: str) -> None:
        """Takes back what a publication asks for.

        Follow-ups of it that are not published are cancelled; what else they follow is asked for again.
        """
        entry = self.of_publications([publication_id]).get(publication_id)
        if entry is None or entry.withdrawn_at is not None:
            return
        self.set(entry, "withdrawn", actor, why=why, withdrawn_at=self._log.now, note=why)
        others: set[str] = set()
        followers = self.unpublished_followers(publication_id)
        for followed in self.followed_by(run.run_id for run in followers).values():
            others.update(followed)
        for run in followers:
            note = f"it follows {publication_id}, which no longer asks for anything: {why}"
            self._run_steps.move(run.run_id, run.state, RunState.CANCELLED, actor=actor, note=note, payload={})
        for other in self.of_publications(sorted(others - {publication_id})).values():
            if other.delivered_at is not None and other.withdrawn_at is None:
                self.set(other, "asked_again", actor, why=f"{publication_id} was withdrawn", delivered_at=None)

    def set(self, entry: OutboxEntry, action: str, actor: str, *, why: str = "", **values: object) -> None:
        """Changes columns of an entry, with the event of it."""
        changed = update(outbox).where(outbox.c.sequence == entry.sequence).values(**values)
        self._log.write(changed, of=[entry.publication_id])
        payload = {"outbox_sequence": entry.sequence, **({"why": why} if why else {})}
        self._log.append(Event("outbox", entry.publication_id, action, actor=actor, payload=payload))

    def ask_again(self, publication_id: str, *, actor: str) -> None:
        """Forgets that what an open entry asks for could not be planned, if there is such an entry."""
        entry = self.of_publications([publication_id]).get(publication_id)
        if entry is not None and entry.is_open and entry.attempts:
            self.set(entry, "asked_again", actor, why="cleared", attempts=0, note="")

    def announce(self, intent: PublicationIntent) -> None:
        """Asks dependents to follow what a publication has changed; the next event is the record of it."""
        if not intent.changes:
            return
        entry = {
            "sequence": self._highest(outbox.c.sequence) + 1,
            "publication_id": intent.publication_id,
            "run_id": intent.run_id,
            "table_name": intent.table,
            "partitions": queries.texts_of(tuple(sorted(change.partition for change in intent.changes))),
            "created_at": self._log.now,
        }
        self._log.write(insert(outbox).values(entry), of=[intent.publication_id])


class OutboxWrites(OutboxReads):
    """Plans what follows, and withdraws what is no longer asked for."""

    def __init__(self, log: EventLog) -> None:
        super().__init__(log.connection)
        self._log, self._run_steps, self._steps = log, RunSteps(log), OutboxSteps(log)

    def add_follow_up(
        self, manifest: Manifest, *, actor: str, expected_core_seconds: float | None = None
    ) -> RunRecord | None:
        """Writes the manifest of a follow-up down, if the outbox asks for it at this moment.

        Cost: two index lookups per publication that it follows, those of `following`, and those of `RunWrites.add`.

        Returns:
            The run; None when the outbox does not ask for it any more: another process has planned it, or a publication
            that it follows was delivered, withdrawn or undone.

        Raises:
            Refused: The manifest names no publication that it follows.
        """
        followed = manifest.cause.publications
        if manifest.cause.kind is not CauseKind.FOLLOW_UP or not followed:
            raise NotAFollowUp(run_id=manifest.run_id, why="follows no publication, so it is not a follow-up")
        entries = self.of_publications(followed)
        is_open = len(entries) == len(followed) and all(entry.is_open for entry in entries.values())
        if not is_open or self.no_longer_asked(followed):
            return None
        taken = self.following(manifest.table, followed)
        if any(not days.isdisjoint(manifest.partitions) for days in taken.values()):
            return None
        self._run_steps.insert(manifest, actor=actor, expected_core_seconds=expected_core_seconds)
        return self._runs.get(manifest.run_id)

    def mark_delivered(self, publication_id: str, *, actor: str) -> None:
        """Everything that a publication asks for is planned. What is delivered or withdrawn already stays as it is.

        Cost: one row and one event.

        Raises:
            UnknownName: There is no such outbox entry.
        """
        row = self._named(select(outbox), outbox.c.publication_id, kind="outbox entry", name=publication_id)
        entry = queries.outbox_entry(row)
        if entry.is_open:
            self._steps.set(entry, "delivered", actor, delivered_at=self._log.now, attempts=0, note="")

    def note_failure(self, publication_ids: Iterable[str], *, table: str, why: str, actor: str) -> None:
        """A follow-up could not be planned; what asks for it goes on asking, and says why it failed.

        Cost: one row and one event per publication.
        """
        for entry in self.of_publications(publication_ids).values():
            if entry.is_open:
                note = f"{table}: {why}"
                self._steps.set(entry, "follow_up_failed", actor, why=note, attempts=entry.attempts + 1, note=note)

    def dismiss(self, publication_id: str, *, by: str, reason: str) -> OutboxEntry:
        """A person decides that dependents do not follow a publication. What has followed already is left as it is.

        Cost: one row and one event, and one more of each per run that is cancelled with it and per publication that
        such a run follows besides.

        Raises:
            UnknownName: There is no such publication, or it asked nothing.
            IllegalTransition: Nothing of it waits: it was followed, or is withdrawn.
            Refused: A name or a reason is missing.
        """
        person, why = one_line("the name", by), one_line("the reason", reason)
        entry = self.of_publications([publication_id]).get(publication_id)
        if entry is None:
            which = " that asks something of its dependents"
            raise NotInLedger(kind="publication", name=publication_id, which=which)
        if not entry.is_open:
            how = "withdrawn" if entry.withdrawn_at else "followed"
            why = f"no longer asks for anything: it was {how} already"
            raise Ended(kind="publication", name=publication_id, why=why)
        self._steps.withdraw(publication_id, actor=person, why=f"cancelled by {person}: {why}")
        return self.of_publications([publication_id])[publication_id]


GAVE_UP, CLEARED = "gave_up", "cleared"


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenUp:
    """Something that a sensor gives up."""

    subject: str  #: The run, set, publication or file.
    why: str  #: Why it failed, in words.
    #: What of the subject was tried, such as the size and time of a file: with another one it is tried again. Of a run
    #: that the LIVE path leaves to a person: when a gate blocked it.
    mark: str = ""
    attempts: int = 0  #: How many attempts the sensor has ever made.


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckWork(GivenUp):
    """Something that a sensor has given up."""

    sensor: Sensor  #: Which one.
    since_at: datetime  #: When it was given up.


class StuckReads(Queries):
    """Work that sensors have given up."""

    def work(self, sensor: Sensor | None = None) -> tuple[StuckWork, ...]:
        """The work that sensors abandoned and nobody cleared since, the oldest first; including what is done by now.

        Cost: one index range per sensor: everything that it ever gave up, and every clearing.
        """
        found = [work for each in ((sensor,) if sensor else Sensor) for work in self._given_up(each, cleared=False)]
        return tuple(sorted(found, key=lambda work: work.since_at))

    def forgiven(self, sensor: Sensor) -> dict[str, int]:
        """The attempts that a sensor had made for each subject when it was last cleared: they do not count any more.

        Cost: as `work`, of one sensor.
        """
        return {work.subject: work.attempts for work in self._given_up(sensor, cleared=True)}

    def cleared(self, sensor: Sensor) -> frozenset[tuple[str, str]]:
        """The work that a person has cleared and the sensor has not abandoned again, by subject and mark.

        Cost: as `work`, of one sensor.
        """
        return frozenset((work.subject, work.mark) for work in self._given_up(sensor, cleared=True))

    def _given_up(self, sensor: Sensor, *, cleared: bool) -> Iterator[StuckWork]:
        """The work abandoned last of each subject, cleared since or not."""
        last: dict[str, StuckWork] = {}
        is_cleared: dict[str, bool] = {}
        for event in self._of(sensor):
            said = event.payload
            subject = str(said["subject"])
            is_cleared[subject] = event.action == CLEARED
            if event.action == GAVE_UP:
                last[subject] = StuckWork(
                    sensor=sensor,
                    subject=subject,
                    why=str(said["why"]),
                    mark=str(said["mark"]),
                    attempts=int(said["attempts"]),
                    since_at=event.at,
                )
        return (work for subject, work in last.items() if is_cleared[subject] is cleared)

    def _of(self, sensor: Sensor) -> Iterator[EventRecord]:
        chosen = select(events).where(events.c.entity_id == f"sensor {sensor}").order_by(events.c.sequence)
        return map(queries.event_record, self._rows(chosen))


class StuckWrites(StuckReads, Writes):
    """Gives up, and clears."""

    def give_up(self, sensor: Sensor, found: GivenUp) -> None:
        """A sensor does not try something again. What it has given up already stays as it is.

        Cost: as `work`, and one event.
        """
        if all((work.subject, work.mark) != (found.subject, found.mark) for work in self.work(sensor)):
            self._append(sensor, GAVE_UP, plain(found), actor=str(sensor))

    def clear(self, subject: str, *, by: str) -> tuple[StuckWork, ...]:
        """A person lets the sensors try something again.

        Cost: as `work`, and one event per sensor that had given it up.

        Returns:
            What is no longer given up.

        Raises:
            UnknownName: No sensor has given it up.
            Refused: A name is missing.
        """
        person = one_line("the name", by)
        found = tuple(work for work in self.work() if work.subject == subject)
        if not found:
            raise UnknownName.coded(
                "not_given_up",
                "no sensor has given up {subject!r}.",
                then="[status]",
                subject=subject,
            )
        for work in found:
            self._append(work.sensor, CLEARED, {"subject": subject}, actor=person)
        OutboxSteps(self._log).ask_again(subject, actor=person)
        return found

    def _append(self, sensor: Sensor, action: str, payload: Mapping[str, object], *, actor: str) -> None:
        name = f"sensor {sensor}"
        self._log.append(Event("sensor", name, action, actor=actor, payload=payload))

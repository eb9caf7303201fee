"""Stuck work: what a sensor has tried in vain, and does not try again until a person clears it.

It is kept as events of the chain. There is nothing else to keep: what a sensor has to do follows from the rest of the
ledger at every tick, so that a sensor without a memory, or with an old one, does nothing twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select

from backfill_assets.errors import UnknownName
from backfill_assets.ledger import rows
from backfill_assets.ledger.event_log import Event, EventLog
from backfill_assets.ledger.queries import Queries
from backfill_assets.ledger.recorded_text import one_line
from backfill_assets.ledger.records import EventRecord
from backfill_assets.ledger.schema import events
from backfill_assets.ledger.write_outbox import OutboxSteps
from backfill_assets.next_steps import Act, do
from backfill_assets.sensors import Sensor

GAVE_UP, CLEARED = "gave_up", "cleared"


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckWork:
    """Something that a sensor has given up.

    Attributes:
        sensor: Which one.
        subject: The run, set, publication or file.
        why: Why it failed, in words.
        mark: What of the subject was tried, such as the size and time of a file: with another one it is tried again.
            Of a run that the LIVE path leaves to a person: when a gate blocked it.
        attempts: How many attempts the sensor had ever made.
        since_at: When it was given up.
    """

    sensor: Sensor
    subject: str
    why: str
    mark: str
    attempts: int
    since_at: datetime


class StuckReads(Queries):
    """What sensors have given up."""

    def work(self, sensor: Sensor | None = None) -> tuple[StuckWork, ...]:
        """What was given up and not cleared since, the first given up first; also what is done by now.

        Cost: one index range per sensor: everything that it ever gave up, and every clearing.
        """
        found = [work for each in ((sensor,) if sensor else Sensor) for work in self._given_up(each, cleared=False)]
        return tuple(sorted(found, key=lambda work: work.since_at))

    def forgiven(self, sensor: Sensor) -> dict[str, int]:
        """How many attempts a sensor had made of each subject when that was cleared last: they do not count any more.

        Cost: as `work`, of one sensor.
        """
        return {work.subject: work.attempts for work in self._given_up(sensor, cleared=True)}

    def cleared(self, sensor: Sensor) -> frozenset[tuple[str, str]]:
        """What a person has cleared and the sensor has not given up again, by subject and mark.

        Cost: as `work`, of one sensor.
        """
        return frozenset((work.subject, work.mark) for work in self._given_up(sensor, cleared=True))

    def _given_up(self, sensor: Sensor, *, cleared: bool) -> Iterator[StuckWork]:
        """What was given up last of each subject, where that was cleared since, or was not."""
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
        return map(rows.event_record, self._rows(chosen))


class StuckWrites(StuckReads):
    """Gives up, and clears."""

    def __init__(self, log: EventLog, outbox_steps: OutboxSteps) -> None:
        super().__init__(log.connection)
        self._log, self._outbox_steps = log, outbox_steps

    def give_up(self, sensor: Sensor, subject: str, *, why: str, mark: str = "", attempts: int = 0) -> None:
        """A sensor does not try something again. What it has given up already stays as it is.

        Cost: as `work`, and one event.
        """
        if any(work.subject == subject and work.mark == mark for work in self.work(sensor)):
            return
        said = {"subject": subject, "why": why, "mark": mark, "attempts": attempts}
        self._append(sensor, GAVE_UP, said, actor=str(sensor))

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
            raise UnknownName(f"no sensor has given up {subject!r}.", next_step=do(Act.STATUS), subject=subject)
        for work in found:
            self._append(work.sensor, CLEARED, {"subject": subject}, actor=person)
        self._outbox_steps.ask_again(subject, actor=person)
        return found

    def _append(self, sensor: Sensor, action: str, payload: Mapping[str, object], *, actor: str) -> None:
        name = f"sensor {sensor}"
        self._log.append(Event(actor=actor, entity="sensor", entity_id=name, action=action, payload=payload))

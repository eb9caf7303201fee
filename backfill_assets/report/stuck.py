"""Documents of what sensors have given up: what it is, why, and what can be done about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import assert_never

from backfill_assets.capture.sftp.declaration import is_address
from backfill_assets.core.next_steps import NAME, WHY, Act, Invocation, NextStep, cancel, do, step
from backfill_assets.core.people import Sensor
from backfill_assets.ledger.outbox import StuckWork
from backfill_assets.publication.stuck import is_publication
from backfill_assets.report.documents import INLINE


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckDocument:
    """Something that a sensor has given up."""

    work: StuckWork = field(metadata=INLINE)  #: What, and why.
    clear: Invocation  #: What lets the sensor try again; a blocked run of the LIVE path is only listed no longer.
    leave: NextStep  #: What else can be done.


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearedDocument:
    """The work that sensors abandoned and that was cleared."""

    subject: str  #: The run, set, publication or file.
    sensors: tuple[Sensor, ...]  #: The sensors that had given it up.
    cleared_by: str  #: Who cleared it.


def stuck_document(work: StuckWork) -> StuckDocument:
    """One piece of stuck work as a document."""
    return StuckDocument(work=work, clear=do(Act.CLEAR, work.subject, by=NAME), leave=_leave(work))


def _leave(work: StuckWork) -> NextStep:
    match work.sensor:
        case Sensor.FOLLOW:
            nothing_follows = do(Act.FOLLOW, cancel=work.subject, by=NAME, reason=WHY)
            ends = nothing_follows if is_publication(work.subject) else cancel(work.subject)
            return step("To let dependents be as they are: ", ends)
        case Sensor.LIVE:
            again = cancel(work.subject)
            return step("To see why: ", do(Act.REPORT, work.subject), ". To have its days planned again: ", again)
        case Sensor.PUBLISH | Sensor.PROPOSE | Sensor.FRESH:
            return step("To decide against it: ", cancel(work.subject))
        case Sensor.DROP if is_address(work.subject):
            return step("Another file of this name on the server ends it")
        case Sensor.DROP:
            return step("To leave it, move it out of the drop folder")
        case Sensor.RECOVER:
            return step("To see why: ", do(Act.RECOVER, work.subject))
    assert_never(work.sensor)

"""The work that sensors abandoned and that is still to be done: a person may have done it since by hand."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import assert_never

from backfill_assets.capture.files.drop_places import drop_place, is_on_server
from backfill_assets.core.errors import BackfillError, Refused
from backfill_assets.core.people import Sensor
from backfill_assets.ledger.outbox import StuckWork
from backfill_assets.ledger.states import UNFINISHED, ImportState, PublicationState, RunState, SetState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.sets import is_set
from backfill_assets.workspace import Workspace

_UNDER_WAY = (
    RunState.STAGING,
    RunState.GATING,
    PublicationState.PUBLISHING,
    SetState.PUBLISHING,
    SetState.ROLLING_BACK,
    ImportState.LANDING,
)


def still_stuck(ws: Workspace, tx: ReadTransaction, sensor: Sensor | None = None) -> tuple[StuckWork, ...]:
    """Work that sensors have given up and what is still to be done: a person may have done it since by hand."""
    found = tx.stuck.work(sensor)
    dropped = _dropped(ws, tx, found) if any(work.sensor is Sensor.DROP for work in found) else frozenset()
    return tuple(work for work in found if _is_open(tx, work, dropped))


def _is_open(tx: ReadTransaction, work: StuckWork, dropped: AbstractSet[tuple[str, str]]) -> bool:
    match work.sensor:
        case Sensor.FOLLOW:
            if is_publication(work.subject):
                entry = tx.outbox.of_publications([work.subject]).get(work.subject)
                return entry is not None and entry.is_open
            return _state(tx, work.subject) in (*UNFINISHED, RunState.PASSED)
        case Sensor.PUBLISH:
            return _state(tx, work.subject) in (RunState.PASSED, SetState.PENDING)
        case Sensor.RECOVER:
            return _state(tx, work.subject) in _UNDER_WAY
        case Sensor.DROP:
            return (work.subject, work.mark) in dropped
        case Sensor.LIVE:
            return _state(tx, work.subject) is RunState.BLOCKED
        case Sensor.PROPOSE | Sensor.FRESH:
            return False
    assert_never(work.sensor)


def _dropped(ws: Workspace, tx: ReadTransaction, stuck: Sequence[StuckWork]) -> set[tuple[str, str]]:
    """The files in the drop folder now, by name and mark; no server is asked, as no later file of one has landed."""
    fetched: dict[str, datetime] = {}
    for source in ws.domain.sources:
        if source.drop is not None:
            fetched |= {subject: at for (subject, _), at in tx.events.fetched(source.name).items()}
    of_servers = [work for work in stuck if work.sensor is Sensor.DROP and is_on_server(work.subject)]
    open_ = {
        (each.subject, each.mark) for each in of_servers if fetched.get(each.subject, each.since_at) <= each.since_at
    }
    place = drop_place(ws.settings)
    if place is None:
        return open_
    try:
        found = place.listed(source.short_name for source in ws.domain.sources)
    except (OSError, BackfillError):
        return open_
    return open_ | {(each.subject, each.mark) for each in found}


def _state(tx: ReadTransaction, subject: str) -> RunState | SetState | PublicationState | ImportState | None:
    try:
        if is_set(subject):
            return tx.sets.get(subject).state
        if is_publication(subject):
            return tx.publications.get(subject).state
        if subject.startswith("imp-"):
            return tx.imports.get(subject).state
        return tx.runs.header(subject).state
    except Refused:
        return None


def is_publication(subject: str) -> bool:
    """True if a publication is named."""
    return subject.startswith("pub-")

"""Stuck work: what sensors give up, what `status` says of it, and how a person lets them try again."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from backfill_assets.core.people import Sensor, require_person
from backfill_assets.report.command_line import words_of
from backfill_assets.report.stuck import (
    ClearedDocument,
    still_stuck,
    stuck_document,
)
from backfill_assets.report.words.waiting import stuck_words
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenUp:
    """Something that a sensor gives up: what, why, which state of it (see `StuckWork`), and after how many attempts."""

    subject: str
    why: str
    mark: str = ""
    attempts: int = 0


def remember(ws: Workspace, sensor: Sensor, given_up: Collection[GivenUp]) -> None:
    """Records what a sensor gives up; nothing is written when all of it is known."""
    if not given_up:
        return
    with ws.ledger.read() as tx:
        known = {(work.subject, work.mark) for work in tx.stuck.work(sensor)}
    new = [each for each in given_up if (each.subject, each.mark) not in known]
    if not new:
        return
    with ws.ledger.write() as tx:
        for each in new:
            tx.stuck.give_up(sensor, each.subject, why=each.why, mark=each.mark, attempts=each.attempts)


def stuck_text(ws: Workspace, sensor: Sensor) -> str:
    """What a sensor has given up and how it is cleared, as the text of a tick; empty when there is nothing."""
    with ws.ledger.read() as tx:
        stuck = still_stuck(ws, tx, sensor)
    return "\n".join(f"{words_of(stuck_words(stuck_document(work)))}." for work in stuck)


def clear(ws: Workspace, subject: str, *, by: str) -> ClearedDocument:
    """Lets the sensors that have given something up try it again.

    Raises:
        UnknownName: No sensor has given it up.
        Refused: It is not a person who clears it.
    """
    require_person("the one who clears", by)
    with ws.ledger.write() as tx:
        cleared = tx.stuck.clear(subject, by=by)
    return ClearedDocument(subject=subject, sensors=tuple(work.sensor for work in cleared), cleared_by=by)

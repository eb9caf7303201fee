"""Documents of freezes: what is frozen, until when, and which runs wait for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from backfill_assets.calendar.partitions import Partitions
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.next_steps import NAME, WHY, Command, Invocation, NextStep, do, step
from backfill_assets.ledger.freezes import Freeze
from backfill_assets.ledger.states import UNPUBLISHED
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest import Manifest
from backfill_assets.report.documents import INLINE
from backfill_assets.report.not_known import waits_to_know
from backfill_assets.requests.errors import ComesAfter, Frozen, KeysNotKnown, ReadBeforeKnown


@dataclass(frozen=True, slots=True, kw_only=True)
class FreezeDocument:
    """Partitions over which runs wait."""

    freeze: Freeze = field(metadata=INLINE)  #: Which ones, until when, and why.
    partitions: Partitions  #: The frozen partitions.
    waits: tuple[str, ...]  #: The runs that are planned and wait for its end.
    end: Invocation  #: What ends it earlier.


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfrozen:
    """A freeze that a person has ended."""

    freeze: Freeze  #: What was frozen.
    ended_by: str  #: Who ended it.
    why: str  #: Why.
    #: What builds what has waited for it, or the freeze that still keeps some of it; null when nothing has.
    next_step: NextStep | None


def freeze_document(tx: ReadTransaction, freeze: Freeze) -> FreezeDocument:
    """A freeze, and the runs that wait for it."""
    partitions = freeze.partitions
    runs = tx.runs.records(table=freeze.table, states=UNPUBLISHED, over=tuple(partitions), unreadable=lambda *_: None)
    return FreezeDocument(
        freeze=freeze,
        partitions=partitions,
        waits=tuple(run.run_id for run in runs if freeze.stops(run.manifest)),
        end=do(Command.UNFREEZE, freeze.freeze_id, by=NAME, reason=WHY),
    )


def freezes(tx: ReadTransaction) -> tuple[FreezeDocument, ...]:
    """The freezes that hold now, the first to end first."""
    return tuple(freeze_document(tx, each) for each in tx.freezes.standing(at=tx.now))


def freezes_over(tx: ReadTransaction, manifests: Iterable[Manifest]) -> tuple[FreezeDocument, ...]:
    """Those over partitions of these runs, whether the runs wait for them or not."""
    own = tuple(manifests)
    return tuple(
        found
        for found in freezes(tx)
        if any(each.table == found.freeze.table and found.freeze.keeps(each.partitions) for each in own)
    )


def frozen_words(freeze: Freeze) -> str:
    """One line about a freeze: what waits, for how long and why."""
    waits = f"everything but {freeze.only} waits" if freeze.only else "LIVE runs, loads and follow-ups wait"
    return (
        f"{freeze.table} {freeze.partitions} is frozen until {freeze.until:%Y-%m-%d %H:%M} UTC by {freeze.by} "
        f"({freeze.reason}): {waits}"
    )


def waits_for_words(error: BackfillError) -> str:
    """For what a run waits: a freeze, keys that are not known, to be planned again, or another run."""
    match error:
        case Frozen():
            return frozen_words(error.freeze)
        case KeysNotKnown():
            return waits_to_know(error.found)
        case ReadBeforeKnown():
            return error.known.words
        case ComesAfter():
            return f"{error.first} has priority and is {error.state}"
        case _:
            return error.message


def frozen_line(frozen: FreezeDocument) -> NextStep:
    """A line on a freeze, with the runs that wait, and what ends it."""
    planned = f": {', '.join(frozen.waits)}" if frozen.waits else ""
    return step(f"{frozen_words(frozen.freeze)}{planned}. To end it: ", frozen.end)

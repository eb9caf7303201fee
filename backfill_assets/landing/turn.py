"""Turn: under which one process at a time lands files of a source, and fails imports whose process has stopped.

The counts of a file depend on every file before it. The turn is a lease in the ledger, so that it holds for the
processes of every machine that shares the landing place. It ends with its process: another one of the same machine sees
that at once, and those of other machines when the lease was not renewed.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from backfill_assets.capture.landed_files import landing_place
from backfill_assets.core.crash_points import Point, Reached, carry_on
from backfill_assets.core.errors import BackfillError, Retryable, sentence
from backfill_assets.core.lease import LeaseTerms, doing_of, renewed, this_process
from backfill_assets.core.progress import waiting
from backfill_assets.core.settings import Settings
from backfill_assets.domain import SourceTable
from backfill_assets.landing.compacted import remove_half_built
from backfill_assets.landing.conformed import conformed_folder, folders_in_use
from backfill_assets.landing.decoding.kept import remove_left
from backfill_assets.ledger.imports import ImportRecord
from backfill_assets.ledger.leases import turn_of
from backfill_assets.ledger.states import COUNTING, ImportState
from backfill_assets.ledger.store import Ledger
from backfill_assets.ledger.transactions import WriteTransaction

_PAUSE_S = 0.2


@sentence
class TurnTaken(Retryable):
    """files of {source} are being landed right now."""

    source: str


@contextmanager
def landing_turn(
    ledger: Ledger, source: SourceTable, lease: LeaseTerms, *, by: str, wait: bool = True
) -> Iterator[None]:
    """Holds the turn to land files of a source.

    Args:
        lease: Names the attempt; whatever is written to the ledger about landed files requires that it has the turn.
        wait: Wait until another process gives the turn back, instead of raising an error.

    Raises:
        TurnTaken: Another process has the turn, and `wait` is False.
    """
    with waiting(lambda: _who_lands(ledger, source)):
        while True:
            with ledger.write() as tx:
                if tx.turns.take(source.name, lease, holder=by):
                    break
            if not wait:
                raise TurnTaken(source=source.name)
            time.sleep(_PAUSE_S)
    try:
        with renewed(lambda: ledger.renew_lease(turn_of(source.name), lease), length=lease.length, lost=lambda: None):
            yield
    finally:
        with suppress(BackfillError), ledger.write() as tx:  # else it ends with its lease
            tx.turns.give_back(source.name, lease)


def _who_lands(ledger: Ledger, source: SourceTable) -> str:
    with ledger.read() as tx:
        held = tx.leases.get(turn_of(source.name))
    who = f"{held.holder}, {doing_of(held.machine)}, since {held.since_at:%Y-%m-%d %H:%M:%S} UTC" if held else "nobody"
    return f"waiting for the turn to land files of {source.name}, which has: {who}"


def new_lease(settings: Settings) -> LeaseTerms:
    """The lease of a new attempt."""
    return LeaseTerms(attempt=secrets.token_hex(4), length=settings.lease)


def clean_up_landing(
    ledger: Ledger,
    settings: Settings,
    sources: Sequence[SourceTable],
    *,
    by: str,
    now: str | None = None,
    reached: Reached = carry_on,
) -> tuple[ImportRecord, ...]:
    """Fails the imports whose process has stopped, and removes what they left; imports in progress are skipped.

    Args:
        now: An import that is failed even if the lease of another machine has not ended, with those of its extract.

    Returns:
        The imports that were failed. Landing their files again works; `landed_at` of one that was being reprocessed
        is not None, and its days cannot be built until it is landed again.
    """
    failed: list[ImportRecord] = []
    for source in sources:
        try:
            lease = new_lease(settings)
            with landing_turn(ledger, source, lease, by=by, wait=False):
                failed += fail_abandoned(ledger, settings, source, lease, by, now, reached)
        except TurnTaken:
            continue
    return tuple(failed)


def fail_abandoned(
    ledger: Ledger,
    settings: Settings,
    source: SourceTable,
    lease: LeaseTerms,
    by: str,
    now: str | None = None,
    reached: Reached = carry_on,
) -> list[ImportRecord]:
    """Called with the turn: imports that are still LANDING belong to no process of this machine, and are failed unless
    the lease of another machine has not ended."""
    place = landing_place(settings, source.name)
    place.remove_incoming()
    landing = place.files
    remove_half_built(landing, source)
    # Looked for before the ledger is asked which of them are used: none can be begun between the two and be removed.
    every = conformed_folder(source)
    there = {each.path.removeprefix(f"{every}/").partition("/")[0] for each in landing.listed(every)}
    with ledger.write() as tx:
        tx.turns.require(source.name, lease)
        unfinished = tx.imports.records(source.name, [ImportState.LANDING])
        taken_over = _landed_together(tx, unfinished, now)
        abandoned = [r for r in unfinished if r.import_id in taken_over or not _is_landed_elsewhere(tx, r)]
        for record in abandoned:
            tx.imports.fail(record.import_id, note="landing stopped: its process is gone", actor=by)
        held = (tx.leases.get(r.import_id) for r in unfinished if r not in abandoned)
        remove_left(place, attempts={lease.attempt for lease in held if lease}, now=tx.now)
    if abandoned:
        reached(Point.RECOVER_SWEPT)
    with ledger.read() as tx:
        used = folders_in_use(source, tx.imports.records(source.name, [*COUNTING, ImportState.LANDING]))
    # For every unused import, not only for those that were LANDING: a process that failed the others may have stopped
    # at this line.
    for folder in there - used:
        landing.remove_folder(conformed_folder(source, folder))
    with ledger.read() as tx:
        return [tx.imports.get(record.import_id) for record in abandoned]


def _landed_together(tx: WriteTransaction, landing: Sequence[ImportRecord], import_id: str | None) -> set[str]:
    """An import with those that its process lands with it: the files of an extract count together or not at all."""
    held = {record.import_id: tx.leases.get(record.import_id) for record in landing}
    lease = held.get(import_id) if import_id else None
    return {
        other
        for other, each in held.items()
        if other == import_id or (lease and each and each.attempt == lease.attempt)
    }


def _is_landed_elsewhere(tx: WriteTransaction, record: ImportRecord) -> bool:
    """Whether a process of another machine works on it: the turn only covers the processes of this one."""
    held = tx.leases.get(record.import_id)
    host = this_process().partition(":")[0]
    return held is not None and held.is_alive(tx.now) and held.machine.partition(":")[0] != host

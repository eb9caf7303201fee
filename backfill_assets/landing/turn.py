"""Turn: under which one process at a time lands files of a source.

The counts of a file depend on every file before it. The turn is a lease in the ledger, so that it holds for the
processes of every machine that shares the landing place. It ends with its process: another one of the same machine sees
that at once, and those of other machines when the lease was not renewed.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from backfill_assets.domain import SourceTable
from backfill_assets.errors import BackfillError, Retryable
from backfill_assets.lease import LeaseTerms, renewed
from backfill_assets.ledger.store import Ledger
from backfill_assets.settings import Settings

_PAUSE_S = 0.2


class TurnTaken(Retryable):
    """Another process is landing files of this source."""


@contextmanager
def landing_turn(
    ledger: Ledger, source: SourceTable, lease: LeaseTerms, *, by: str, wait: bool = True
) -> Iterator[None]:
    """Holds the turn to land files of a source.

    Args:
        ledger: The ledger.
        source: The source table.
        lease: Names the attempt; whatever is written to the ledger about landed files requires that it has the turn.
        by: On whose behalf.
        wait: Wait until another process gives the turn back, instead of raising an error.

    Raises:
        TurnTaken: Another process has the turn, and `wait` is False.
    """
    while not _taken(ledger, source, lease, by):
        if not wait:
            raise TurnTaken(f"files of {source.name} are being landed right now.", source=source.name)
        time.sleep(_PAUSE_S)
    try:
        with renewed(lambda: ledger.renew_turn(source.name, lease), length=lease.length, lost=lambda: None):
            yield
    finally:
        with suppress(BackfillError), ledger.write() as tx:  # else it ends with its lease
            tx.turns.give_back(source.name, lease)


def new_lease(settings: Settings) -> LeaseTerms:
    """The lease of a new attempt."""
    return LeaseTerms(attempt=secrets.token_hex(4), length=settings.lease)


def _taken(ledger: Ledger, source: SourceTable, lease: LeaseTerms, by: str) -> bool:
    with ledger.write() as tx:
        return tx.turns.take(source.name, lease, holder=by)

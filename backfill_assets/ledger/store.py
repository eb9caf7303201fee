"""How is the ledger opened, read and written?

A reader sees one state of the ledger. A writer is the only one at its turn, and what it does is done as a whole or not
at all. The methods are in one module per subject, `read_*` and `write_*`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from backfill_assets.clock import Clock
from backfill_assets.errors import Refused, Retryable
from backfill_assets.lease import LeaseTerms
from backfill_assets.ledger.connection import READ, WRITE, compact_log, connect_engine, transaction
from backfill_assets.ledger.read_evidence import EvidenceReader
from backfill_assets.ledger.read_imports import ImportReader
from backfill_assets.ledger.read_leases import LeaseReader
from backfill_assets.ledger.read_outbox import OutboxReader
from backfill_assets.ledger.read_retention import RetentionReader
from backfill_assets.ledger.read_sets import SetReader
from backfill_assets.ledger.read_staleness import ClaimReader
from backfill_assets.ledger.upgrade import upgrade
from backfill_assets.ledger.write_cancellations import CancellationWriter
from backfill_assets.ledger.write_candidates import CandidateWriter
from backfill_assets.ledger.write_imports import ImportWriter
from backfill_assets.ledger.write_leases import renew
from backfill_assets.ledger.write_publications import PublicationWriter
from backfill_assets.ledger.writing import Happening, said


class LedgerReader(LeaseReader, OutboxReader, SetReader, EvidenceReader, ClaimReader, ImportReader, RetentionReader):
    """Everything that can be asked of the ledger."""


class LedgerWriter(LedgerReader, CandidateWriter, PublicationWriter, CancellationWriter, ImportWriter):
    """Everything that can be written to the ledger, and asked on the way."""

    def record_event(
        self, *, actor: str, entity: str, entity_id: str, action: str, payload: Mapping[str, Any] | None = None
    ) -> int:
        """Remembers something that changes no state, such as a duplicate file that was ignored.

        Returns:
            The sequence of the event.
        """
        return self._append(
            Happening(
                actor=actor,
                entity=said("the entity", entity),
                entity_id=said("the entity's id", entity_id),
                action=said("the action", action),
                payload=payload or {},
            )
        )


class Ledger:
    """The database of what was agreed and what happened. Safe to share between threads."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    @staticmethod
    def open(url: str, *, clock: Clock) -> Ledger:
        """Opens a ledger, creates it where there is none, and brings it to the present shape.

        Args:
            url: A SQLAlchemy URL of a SQLite file or a PostgreSQL database.
            clock: What time it is when something is written.

        Raises:
            Refused: A URL that cannot be a ledger, cannot be reached, or holds something else.
        """
        engine = connect_engine(url)
        try:
            upgrade(engine)
        except (Retryable, DBAPIError) as error:
            engine.dispose()
            cause = error.__cause__ if isinstance(error, Retryable) else error
            found = cause.orig if isinstance(cause, DBAPIError) else error
            raise Refused(
                f"the ledger at {engine.url.render_as_string(hide_password=True)} cannot be used: {found}",
                next_step="check BACKFILL_LEDGER_URL, and that the database is up and may be written",
            ) from error
        except BaseException:
            engine.dispose()
            raise
        return Ledger(engine, clock)

    def close(self) -> None:
        """Closes its connections."""
        self._engine.dispose()

    def compact_log(self) -> None:
        """Lets nothing that was erased outlive in SQLite's log, as far as no other process is reading."""
        compact_log(self._engine)

    @contextmanager
    def read(self) -> Iterator[LedgerReader]:
        """A reader of one state of the ledger, whatever is written meanwhile.

        Raises:
            Retryable: The database cannot be reached.
        """
        with transaction(self._engine, READ) as connection:
            yield LedgerReader(connection)

    @contextmanager
    def write(self) -> Iterator[LedgerWriter]:
        """The writer at its turn: one transaction, committed at the end, undone by any exception.

        Raises:
            Retryable: Others kept the turn too long, or the database cannot be reached; nothing was changed.
            OutcomeUnknown: The connection was lost while committing.
        """
        with transaction(self._engine, WRITE) as connection:
            yield LedgerWriter(connection, self._clock)

    def renew_lease(self, work_id: str, terms: LeaseTerms) -> bool:
        """Says that the work goes on, in a transaction of its own that waits for no other writer on PostgreSQL.

        Returns:
            False when the lease was taken away or given back.

        Raises:
            Retryable, OutcomeUnknown: The database cannot be reached; nothing was taken away.
        """
        with transaction(self._engine, WRITE) as connection:
            return renew(connection, self._clock, work_id, terms)

"""Store: opens, reads and writes the ledger.

A reading transaction sees one state of the ledger. A writing one is the only one at its turn, and what it does is done
as a whole or not at all. What they offer is in `transactions`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text
from sqlalchemy.exc import DBAPIError

from backfill_assets.core.clock import Clock, LedgerClock
from backfill_assets.core.errors import DiskFull, Refused, Retryable
from backfill_assets.core.lease import LeaseTerms
from backfill_assets.core.progress import waiting
from backfill_assets.ledger.connection import (
    READ,
    UPGRADE,
    WRITE,
    compact_log,
    connect_engine,
    database_message,
    transaction,
    who_writes,
)
from backfill_assets.ledger.errors import ReadOnly, Unavailable, Unusable
from backfill_assets.ledger.leases import renew
from backfill_assets.ledger.schema import HEAD_REVISION
from backfill_assets.ledger.states import OPEN_STATES
from backfill_assets.ledger.transactions import ReadTransaction, WriteTransaction
from backfill_assets.planning.manifest_parts import NEVER_PUBLISHED, Mode
from backfill_assets.planning.state import AcceptedPartition, Expired, Pace

# Upgrade: creates a ledger in an empty database, and brings an earlier one to the present schema.

MIGRATIONS = Path(__file__).parent / "migrations"

UPGRADE_LOCK = 7_305_112_024
"""Any number that no other program takes as an advisory lock in the same PostgreSQL database."""


def upgrade(engine: Engine) -> None:
    """Brings the database to the newest revision; several processes may try at once."""
    with transaction(engine, READ) as connection:
        if present_revision(connection) == HEAD_REVISION:
            return
    with ExitStack() as turn, transaction(engine, UPGRADE) as connection:
        if engine.dialect.name == "postgresql":
            turn.enter_context(waiting(lambda: who_writes(engine)))
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": UPGRADE_LOCK})
            turn.close()
        if present_revision(connection) is None:
            # Only loaded for a new ledger, and Alembic only for an earlier one: a command needs neither to start.
            from backfill_assets.ledger.creation import create

            create(connection)
        else:
            _migrate(connection)
            _require_references(connection)
    # What an upgrade removes from a table must not stay in SQLite's log.
    compact_log(engine)


def present_revision(connection: Connection) -> str | None:
    """The revision that the database is at; None for an empty database."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()


def _require_references(connection: Connection) -> None:
    """Asks SQLite, which did not look while tables were made anew, whether every reference still leads somewhere."""
    if connection.dialect.name == "sqlite":
        dangling = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall()
        if dangling:
            raise Refused.coded(
                "dangling_references",
                "rows of the ledger's table {table} refer to rows that are not there; it was left as it was.",
                then="restore the ledger from its backup",
                table=dangling[0][0],
            )


def _migrate(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise Refused.coded(
            "newer_ledger",
            "the ledger is at revision {revision}, which this version does not know; it knows revisions up to {known}.",
            then="upgrade backfill-assets to the version that wrote this ledger",
            revision=present_revision(connection),
            known=HEAD_REVISION,
        ) from error


MOST_BEHIND = timedelta(days=1)
"""The time by which a clock may be behind the last event, unless settings say otherwise: further apart, one of the two
is wrong, and nothing that is decided by time would be right."""


class Ledger:
    """The database of what was agreed and what happened. Safe to share between threads."""

    def __init__(self, engine: Engine, clock: Clock, most_behind: timedelta = MOST_BEHIND) -> None:
        self._engine = engine
        self._clock = LedgerClock(clock)
        self._most_behind = most_behind

    @staticmethod
    def open(url: str, *, clock: Clock, most_behind: timedelta = MOST_BEHIND) -> Ledger:
        """Opens a ledger, creates it where there is none, and brings it to the present shape.

        Args:
            url: A SQLAlchemy URL of a SQLite file or a PostgreSQL database.
            most_behind: How far the clock may be behind the last event of a ledger that is written to.

        Raises:
            Refused: A URL that cannot be a ledger, cannot be reached, or holds something else.
            DiskFull: There is no space for a new ledger, or for its present shape.
        """
        engine = connect_engine(url)
        try:
            upgrade(engine)
        except DiskFull:
            engine.dispose()
            raise
        except (Retryable, DBAPIError) as error:
            engine.dispose()
            what = f"the ledger at {engine.url.render_as_string(hide_password=True)}"
            raise Unusable(what=what, why=_found(error), setting="BACKFILL_LEDGER_URL") from error
        except BaseException:
            engine.dispose()
            raise
        return Ledger(engine, clock, most_behind)

    @property
    def clock_behind(self) -> timedelta:
        """The time by which the clock of this process was found to be behind the last event."""
        return self._clock.behind

    def close(self) -> None:
        """Closes its connections."""
        self._engine.dispose()

    def compact_log(self) -> None:
        """Lets nothing that was erased outlive in SQLite's log, as far as no other process is reading."""
        compact_log(self._engine)

    def changed_definitions(self) -> Sequence[str]:
        """The definitions that were dropped, replaced or added in its database besides rows, one sentence each."""
        # Imported for an audit alone: it makes a new ledger to compare with.
        from backfill_assets.ledger.creation import changed_definitions

        return tuple(changed_definitions(self._engine))

    @contextmanager
    def read(self) -> Iterator[ReadTransaction]:
        """A transaction that sees one state of the ledger, whatever is written meanwhile."""
        with transaction(self._engine, READ) as connection:
            yield ReadTransaction(connection, self._clock)

    @contextmanager
    def write(self) -> Iterator[WriteTransaction]:
        """The one writing transaction at its turn: committed at the end, undone by any exception."""
        with ExitStack() as turn:
            turn.enter_context(waiting(lambda: who_writes(self._engine)))
            with transaction(self._engine, WRITE) as connection:
                tx = WriteTransaction(connection, self._clock, self._most_behind)
                turn.close()
                yield tx
                tx.require_recorded()

    def try_writing(self) -> None:
        """Writes an event and takes it back: whether a ledger can be written is not seen by reading it.

        Raises:
            Refused: It cannot be written.
            DiskFull: Its disk is full.
            Retryable: Another process does not end its turn.
        """
        try:
            with suppress(_TakenBack), self.write() as tx:
                tx.events.record(actor="doctor", entity="ledger", entity_id="ledger", action="tried")
                raise _TakenBack
        except DiskFull:
            raise
        except (Retryable, DBAPIError) as error:
            if isinstance(error, Unavailable) and error.writer:
                raise
            raise ReadOnly(url=self._engine.url.render_as_string(hide_password=True), why=_found(error)) from error

    def renew_lease(self, work_id: str, terms: LeaseTerms) -> bool:
        """Says that the work goes on, in a transaction of its own that waits for no other writer on PostgreSQL.

        Returns:
            False when the lease was taken away or given back.
        """
        with transaction(self._engine, WRITE) as connection:
            return renew(connection, ReadTransaction(connection, self._clock).now, work_id, terms)


class _TakenBack(Exception):
    """Ends a transaction that only tried to write."""


def _found(error: Retryable | DBAPIError) -> str:
    """The value that the database returned."""
    if isinstance(error, Unavailable):
        return error.why
    cause = error.__cause__ if isinstance(error, Retryable) else error
    return database_message(cause) if isinstance(cause, DBAPIError) else str(error)


EVER_PUBLISHED = tuple(mode for mode in Mode if mode not in NEVER_PUBLISHED)


@dataclass(frozen=True, slots=True)
class LedgerState:
    """The planner's reader of state over an open ledger transaction."""

    tx: ReadTransaction

    def claims(self, table: str, partitions: Sequence[date] | None = None) -> Mapping[date, AcceptedPartition]:
        return self.tx.versions.claims(table, partitions)

    def expired(self, table: str) -> Mapping[date, Expired]:
        return self.tx.versions.expired(table)

    def accepted(self, table: str, partitions: Sequence[date]) -> AbstractSet[date]:
        """The given partitions that have an accepted version."""
        return self.tx.versions.claims(table, partitions).keys()

    def open_runs(self, table: str, partitions: Sequence[date]) -> Sequence[str]:
        """Runs over some of these partitions that could still be published."""
        wanted = set(partitions)
        runs = self.tx.runs.records(table=table, states=OPEN_STATES, modes=EVER_PUBLISHED, over=partitions)
        return [run.run_id for run in runs if not wanted.isdisjoint(run.manifest.partitions)]

    def pace(self, table: str) -> Pace | None:
        """The speed at which the table's latest runs were staged."""
        return self.tx.candidates.pace(table)

"""Connection to the ledger's database, and the meaning of one transaction on it.

A reading transaction sees one state of the ledger from its first query to its last. Writing transactions come one after
the other: on SQLite by BEGIN IMMEDIATE, on PostgreSQL by locking the head of the event chain (see `writing`).

A SQLite ledger on a full disk can be read: its processes share an index of the log in a file of 32 KiB, for which there
may be no room, so a process that cannot make that file keeps the index for itself and locks the others out meanwhile.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Dialect, Engine, create_engine, event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError, ProgrammingError
from sqlalchemy.exc import TimeoutError as NoFreeConnection
from sqlalchemy.pool import ConnectionPoolEntry

from backfill_assets.core.errors import DiskFull, OutcomeUnknown, PackageMissing, is_full_disk
from backfill_assets.core.lease import doing_of, this_process, who_locks
from backfill_assets.core.privileges import NO_PRIVILEGE, NO_SCHEMA, missing_grant
from backfill_assets.core.progress import waiting
from backfill_assets.ledger.errors import LedgerUrl, ReadOnly, Unavailable, Unusable

WAIT_SECONDS = 60
"""The time for which a writer waits for its turn. Nothing slow happens inside a transaction, so this is never about
patience."""

SQLITE_PRAGMAS = (
    f"PRAGMA busy_timeout = {WAIT_SECONDS * 1000}",
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    # What is erased is overwritten with zeros, and not only forgotten.
    "PRAGMA secure_delete = ON",
)

ALONE_PRAGMAS = (
    "PRAGMA busy_timeout = 0",
    "PRAGMA locking_mode = EXCLUSIVE",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA journal_mode = WAL",
)
"""Before the others: the connection needs no file but the ledger's own, and nobody else can use it meanwhile."""

READ_ONLY_PRAGMAS = (f"PRAGMA busy_timeout = {WAIT_SECONDS * 1000}",)
"""A ledger that may not be written has its settings already."""

ALONE_AGAIN_S = 0.02
"""Two who want the file for themselves keep each other out until one lets go, so neither waits inside of SQLite."""

_ALONE = "ledger_alone"
_NOT_SHARED = "SQLITE_IOERR_SHM"
_BUSY = "SQLITE_BUSY"
_LOCKED = "55P03"
_NO_PLACE = "SQLITE_CANTOPEN"
_READ_ONLY = "SQLITE_READONLY"

READ: Mapping[str, Mapping[str, Any]] = {
    "sqlite": {"ledger_begin": "BEGIN"},
    "postgresql": {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True},
}
WRITE: Mapping[str, Mapping[str, Any]] = {
    "sqlite": {"ledger_begin": "BEGIN IMMEDIATE"},
    "postgresql": {"isolation_level": "READ COMMITTED"},
}
UPGRADE: Mapping[str, Mapping[str, Any]] = {
    # SQLite changes a constraint by making the table anew, which must not count as removing what others refer to.
    "sqlite": {"ledger_begin": "BEGIN IMMEDIATE", "ledger_foreign_keys": "OFF"},
    "postgresql": WRITE["postgresql"],
}


def connect_engine(url: str) -> Engine:
    """An engine for a ledger URL; nothing is asked of the database yet, except that a SQLite file gets its folder.

    Raises:
        Refused: A URL that cannot be a ledger, or a driver that is not installed.
    """
    address = _address(url)
    if address.get_backend_name() == "sqlite":
        return _sqlite_engine(address)
    try:
        return create_engine(
            address.set(drivername="postgresql+psycopg"),
            connect_args={
                # So that who waits for this process can say so.
                "application_name": address.query.get("application_name", this_process()),
                "connect_timeout": str(address.query.get("connect_timeout", 10)),
                "options": f"{address.query.get('options', '')} -c lock_timeout={WAIT_SECONDS}s".strip(),
            },
            pool_pre_ping=True,
            pool_timeout=WAIT_SECONDS,
        )
    except ModuleNotFoundError as error:
        raise PackageMissing(
            what="BACKFILL_LEDGER_URL, unless it names SQLite,", package=str(error.name), extra="postgres"
        ) from error


_WRITER_BYTE = 120
"""The byte of SQLite's shared index that the one writer has locked."""

_TURN = "user.backfill.turn"
"""The attribute of a SQLite ledger's file that says which process had the last turn to write, and since when."""

_WRITERS = """
SELECT pid, application_name, xact_start FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type IS DISTINCT FROM 'Lock' AND pid IN (
    SELECT unnest(pg_blocking_pids(own.pid)) FROM pg_stat_activity AS own WHERE own.application_name = %(own)s
    UNION SELECT pid FROM pg_locks WHERE relation = to_regclass('chain_head') AND granted AND mode <> 'AccessShareLock'
)
ORDER BY xact_start LIMIT 1
"""


def who_writes(engine: Engine) -> str:
    """A sentence about the process for which a writer of the ledger waits, as far as the system says which it is."""
    return f"waiting for the turn to write the ledger, which has: {_writer(engine) or 'another process'}"


def _writer(engine: Engine) -> str:
    """The process that has the turn, what it runs and since when; empty where the system does not say."""
    if engine.dialect.name == "sqlite":
        who = who_locks(Path(f"{engine.url.database}-shm"), _WRITER_BYTE)
        machine, _, since = _last_turn(str(engine.url.database)).partition(" ")
        # Another program has the turn without saying since when.
        return f"{who}, since {since}" if who and who.partition(" ")[0] == machine else who
    with engine.connect() as connection:
        found = connection.exec_driver_sql(_WRITERS, {"own": this_process()}).one_or_none()
    if found is None:
        return ""
    process, name, since = found
    return f"{doing_of(name) or f'process {process} of the database'}, since {since:%Y-%m-%d %H:%M:%S %Z}"


def _last_turn(file: str) -> str:
    try:
        return os.getxattr(file, _TURN).decode()
    except (OSError, AttributeError):  # a file system, or a system, that keeps no such attributes
        return ""


def _note_turn(file: str) -> None:
    noted = f"{this_process()} {datetime.now(UTC):%Y-%m-%d %H:%M:%S UTC}"
    with suppress(OSError, AttributeError):
        os.setxattr(file, _TURN, noted.encode())


_FIRST_OF_PATH = text(
    """
    SELECT named.nspname
    FROM unnest(string_to_array(current_setting('search_path'), ',')) WITH ORDINALITY AS path(name, place)
    JOIN pg_namespace named ON named.nspname = replace(trim(both ' "' FROM path.name), '$user', current_user)
    ORDER BY path.place LIMIT 1
    """
)
"""The first schema of the search path of PostgreSQL that exists, whether or not its role may use it."""


@contextmanager
def transaction(engine: Engine, options: Mapping[str, Mapping[str, Any]]) -> Iterator[Connection]:
    """One transaction: committed at the end, rolled back on any exception.

    Raises:
        Refused: A ledger that may not be written, or a privilege that its role lacks.
        Retryable: The database is busy, cannot be reached or is on a full disk; nothing was changed.
        OutcomeUnknown: The connection was lost while committing.
    """
    try:
        with engine.connect() as plain:
            connection = plain.execution_options(**options[engine.dialect.name])
            open_transaction = connection.begin()
            try:
                yield connection
            except BaseException:
                open_transaction.rollback()
                raise
            _commit(open_transaction.commit)
    except OperationalError as error:
        if is_full_disk(error):
            raise DiskFull(holds=f"the ledger {engine.url.database}") from error
        if getattr(error.orig, "sqlite_errorname", "").startswith(_READ_ONLY):
            url = engine.url.render_as_string(hide_password=True)
            raise ReadOnly(url=url, why=database_message(error)) from error
        writer = _writer_that_stays(engine, error)
        why = f"another process did not end its turn to write: {writer}" if writer else database_message(error)
        raise Unavailable(why=why, writer=writer) from error
    except ProgrammingError as error:
        state = getattr(error.orig, "sqlstate", None)
        if state not in (NO_PRIVILEGE, NO_SCHEMA):
            raise
        url, said = engine.url.render_as_string(hide_password=True), database_message(error)
        denied, asked = (_hidden_schema(engine), "") if state == NO_SCHEMA else (said, error.statement or "")
        grant = missing_grant(denied, str(engine.url.username), asked)
        raise Unusable(what=f"the ledger at {url}", why=f"{said}{grant}.", setting="BACKFILL_LEDGER_URL") from error
    except NoFreeConnection as error:
        why = f"other threads of this process kept all its connections for {WAIT_SECONDS} s."
        raise Unavailable(why=why) from error


def _hidden_schema(engine: Engine) -> str:
    """The message that its role may not use the first existing schema of its path. PostgreSQL leaves such a schema
    out of the path without a word. Empty where none exists."""
    with engine.connect() as connection:
        found = connection.execute(_FIRST_OF_PATH).scalar_one_or_none()
    return "" if found is None else f"permission denied for schema {found}"


def _writer_that_stays(engine: Engine, error: DBAPIError) -> str:
    """The process for whose turn this one has waited long enough; empty where it failed for another reason."""
    is_busy = getattr(error.orig, "sqlite_errorname", "") == _BUSY
    if not is_busy and getattr(error.orig, "sqlstate", None) != _LOCKED:
        return ""
    with suppress(DBAPIError):
        return _writer(engine)
    return ""


def database_message(error: DBAPIError) -> str:
    """The database's message, in one line."""
    return " ".join(str(error.orig).split())


def compact_log(engine: Engine) -> None:
    """Writes SQLite's log into the database and empties it; whatever another process is reading now stays in it."""
    if engine.dialect.name == "sqlite":
        with closing(engine.raw_connection()) as connection:
            connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").close()


def _commit(commit: Any) -> None:
    try:
        commit()
    except DBAPIError as error:
        if not error.connection_invalidated:
            raise
        raise OutcomeUnknown.coded(
            "lost_while_committing",
            "the connection to the ledger was lost while it was committing: {why}",
            then="[recover]",
            why=database_message(error),
        ) from error


def _address(url: str) -> URL:
    try:
        address = make_url(url)
    except (ArgumentError, ValueError) as error:
        # The text may hold a password, so it is not repeated.
        raise LedgerUrl(why="the ledger URL is not a database URL.") from error
    backend = address.drivername.partition("+")[0]
    if backend not in ("sqlite", "postgresql", "postgres"):
        raise LedgerUrl(why=f"the ledger runs on SQLite and PostgreSQL, and the ledger URL names {backend!r}.")
    if backend == "sqlite" and ":///" in url:
        # Some versions of SQLAlchemy read %20 as a blank, which is the file of another home.
        address = address.set(database=url.partition(":///")[2].partition("?")[0])
    # `postgresql://` alone means another driver in some versions of SQLAlchemy.
    return address.set(drivername="sqlite" if backend == "sqlite" else "postgresql+psycopg")


def _sqlite_engine(address: URL) -> Engine:
    if not address.database or address.database == ":memory:":
        raise LedgerUrl(why="a ledger in memory would forget everything with its process.")
    folder = Path(address.database).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LedgerUrl(why=f"the folder of the ledger, {folder}, cannot be created: {error.strerror}.") from error
    try:
        engine = create_engine(address)
    except ValueError as error:
        raise LedgerUrl(why=f"an option of the ledger URL has no value for SQLite: {error}.") from error
    event.listen(engine, "do_connect", _connect_sqlite)
    event.listen(engine, "checkin", _leave_sqlite_to_others)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _connect_sqlite(dialect: Dialect, record: ConnectionPoolEntry, given: Any, named: Any) -> Any:
    try:
        return _prepared(dialect.connect(*given, **named), SQLITE_PRAGMAS)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorname.startswith(_NO_PLACE) and (address := _read_only_address(Path(given[0]))):
            return _prepared(dialect.connect(address, uri=True, **named), READ_ONLY_PRAGMAS)
        if not error.sqlite_errorname.startswith(_NOT_SHARED):
            raise
    record.info[_ALONE] = True
    ends = time.monotonic() + WAIT_SECONDS
    with waiting(lambda: f"waiting for the ledger {given[0]}, which another process has for itself: its disk is full"):
        while True:
            try:
                return _prepared(dialect.connect(*given, **named), (*ALONE_PRAGMAS, *SQLITE_PRAGMAS))
            except sqlite3.OperationalError as error:
                if error.sqlite_errorname != _BUSY or time.monotonic() > ends:
                    raise
            time.sleep(ALONE_AGAIN_S)


def _read_only_address(file: Path) -> str | None:
    """The address with which SQLite opens a ledger in a folder that may not be written; None where that is not why it
    cannot be opened.

    While other processes have it open they share their index of its log with readers. Otherwise the file is read as it
    is, which is whole only while nothing waits in the log.
    """
    if not file.is_file() or os.access(file.parent, os.W_OK):
        return None
    log = Path(f"{file}-wal")
    is_shared = Path(f"{file}-shm").exists()
    if not is_shared and log.exists() and log.stat().st_size:
        return None
    return f"file:{quote(str(file))}?mode=ro{'' if is_shared else '&immutable=1'}"


def _prepared(connection: Any, pragmas: Iterable[str]) -> Any:
    # The driver would begin transactions by itself, and not before a SELECT; ours begin when we say so.
    connection.isolation_level = None
    # SQLite's own knows no letters but those of ASCII, so that a search would not find Émile.
    connection.create_function("lower", 1, _lower, deterministic=True)
    try:
        for pragma in pragmas:
            connection.execute(pragma).close()
    except BaseException:
        connection.close()
        raise
    return connection


def _lower(text: str | None) -> str | None:
    return None if text is None else text.lower()


def _leave_sqlite_to_others(_connection: object, record: ConnectionPoolEntry) -> None:
    if record.info.pop(_ALONE, False):
        record.invalidate()


def _begin_sqlite(connection: Connection) -> None:
    options = connection.get_execution_options()
    # Inside of a transaction this could not be changed.
    connection.exec_driver_sql(f"PRAGMA foreign_keys = {options.get('ledger_foreign_keys', 'ON')}")
    begin = options.get("ledger_begin", "BEGIN")
    connection.exec_driver_sql(begin)
    if begin != "BEGIN":
        _note_turn(str(connection.engine.url.database))

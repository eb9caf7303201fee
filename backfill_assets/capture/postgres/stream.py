"""PostgreSQL capture: a snapshot of a table, then its changes, as files of JSON lines. The only module of this room
that knows the client.

The write-ahead log is one partition; its positions are LSNs. A snapshot is everything from the beginning to the LSN at
which it was taken, the changes are what lies between two LSNs, each transaction where it committed. The slot gives up a
change once the file that has it is in the ledger, and not before.
"""

from __future__ import annotations

import json
import re
import secrets as random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from backfill_assets.capture.declared import secrets_named
from backfill_assets.capture.errors import (
    CannotBeCaptured,
    ChangesUnreadable,
    NoStream,
    NotOffered,
    StreamDenied,
    StreamFailed,
    no_answer_within,
)
from backfill_assets.capture.landed_files import FileKind, Format
from backfill_assets.capture.postgres import FAMILY
from backfill_assets.capture.postgres.changes import (
    Columns,
    Decoder,
    PinnedColumns,
    TableColumn,
    lsn_number,
    lsn_text,
    value_of,
)
from backfill_assets.capture.postgres.declaration import COMMITTED_AT, LSN, OPERATION, POSITION, PostgresTable
from backfill_assets.capture.streams import (
    Captured,
    CapturePeriod,
    Pace,
    Resolution,
    Resolved,
    Span,
    Written,
    cut,
    write_lines,
)
from backfill_assets.core.errors import PackageMissing
from backfill_assets.core.privileges import missing_grant
from backfill_assets.domain import SourceTable

if TYPE_CHECKING:
    from psycopg import Connection

T = TypeVar("T")

WAL = "wal"
BEGINNING = lsn_text(0)
_SNAPSHOT = "snapshot"
_NOT_YET = "-"

_SESSION = {
    # Values are the texts that the server makes of them, so these decide what a capture is.
    "DateStyle": "ISO",
    "IntervalStyle": "iso_8601",
    "TimeZone": "UTC",
    "bytea_output": "hex",
    "lc_monetary": "C",
    "extra_float_digits": "1",
    # Instead of a snapshot without the rows that the user may not see, an error.
    "row_security": "off",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
}

_TABLE = """
SELECT c.oid::int8 AS oid, c.relkind::text, c.relpersistence::text, c.relreplident::text,
    pg_table_size(c.oid) AS size, coalesce(pg_relation_size(nullif(c.reltoastrelid, 0)), 0) AS toast,
    current_setting('wal_level') AS wal_level, (SELECT system_identifier FROM pg_control_system())::text AS system
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s"""
_COLUMNS = """
SELECT attname::text, attnum::int8, atttypid::int8, atttypmod::int8, xmin::text, attstorage::text <> 'p',
    attgenerated::text <> ''
FROM pg_attribute WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped"""
_BASE_TYPES = """
WITH RECURSIVE base AS (
    SELECT oid, typbasetype FROM pg_type WHERE typtype = 'd'
    UNION ALL SELECT b.oid, t.typbasetype FROM base b JOIN pg_type t ON t.oid = b.typbasetype WHERE t.typtype = 'd')
SELECT b.oid::int8, b.typbasetype::int8 FROM base b JOIN pg_type t ON t.oid = b.typbasetype WHERE t.typtype <> 'd'"""
_UNIQUE = """
SELECT i.indisprimary, i.indisreplident, array_agg(a.attname::text)
FROM pg_index i
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])
WHERE i.indrelid = %s AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL
GROUP BY i.indexrelid, i.indisprimary, i.indisreplident"""
_PUBLICATION = """
SELECT p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate,
    EXISTS (SELECT FROM pg_publication_tables t WHERE t.pubname = p.pubname AND t.schemaname = %s AND t.tablename = %s),
    EXISTS (SELECT FROM pg_publication_rel r WHERE r.prpubid = p.oid
        AND coalesce(to_jsonb(r) ->> 'prqual', to_jsonb(r) ->> 'prattrs') IS NOT NULL),
    concat_ws('/', p.oid, p.xmin, (SELECT concat_ws('/', r.oid, r.xmin) FROM pg_publication_rel r
        WHERE r.prpubid = p.oid AND r.prrelid = %s))
FROM pg_publication p WHERE p.pubname = %s"""
_TIMELINE = "SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)"
_SLOT = """
SELECT plugin::text, database::text = current_database(), confirmed_flush_lsn::text, wal_status,
    pg_wal_lsn_diff(pg_current_wal_flush_lsn(), restart_lsn)::int8
FROM pg_replication_slots WHERE slot_name = %s"""
_HAS_CHANGE = """
SELECT EXISTS (SELECT FROM pg_logical_slot_peek_binary_changes(
    %s, %s, NULL, 'proto_version', '1', 'publication_names', %s) WHERE get_byte(data, 0) IN (68, 73, 84, 85))"""
"""Asks for a message of the kinds D, I, T or U."""
_CHANGES = """
COPY (SELECT data FROM pg_logical_slot_peek_binary_changes(
    '{slot}', '{upto}', NULL, 'proto_version', '1', 'publication_names', '{publication}')) TO STDOUT (FORMAT BINARY)"""
_ROWS = "COPY (SELECT {columns} FROM ONLY {table}) TO STDOUT"


class PostgresStream:
    """A table that was opened.

    Args:
        declared: The table as its source declares it.
        secret: The secret settings of the client.
        key: The columns of the source's key.
        columns: The columns of its contract.
    """

    kind = FileKind(format=Format.JSONL, compression="gzip")

    def __init__(
        self, declared: PostgresTable, *, secret: Mapping[str, str], key: Sequence[str], columns: Sequence[str]
    ) -> None:
        self._declared = declared
        self._secret = secret
        self._key = tuple(key)
        own = (OPERATION, LSN, POSITION, COMMITTED_AT)
        self._columns = tuple(name for name in columns if name not in own)
        self._psycopg = _client()
        self._replication: Connection[Any] | None = None
        self._temporary = ""
        self._captured: list[Span] = []
        self._before: str | None = None
        self._pinned: Mapping[str, str] = {}

    @property
    def name(self) -> str:
        return f"the table {self._declared.table}"

    def close(self) -> None:
        for connection in (self._replication, self.__dict__.get("_connection")):
            if connection is not None:
                with suppress(self._psycopg.Error):
                    connection.close()

    # ------------------------------------------------------------------------------------------------- what it holds

    def require_same(self, stream: str) -> None:
        # A snapshot begins anew where a table was created again, but LSNs of two servers cannot be compared.
        self._before = stream
        if stream.rpartition("/")[0] != self._stream.rpartition("/")[0]:
            raise CannotBeCaptured(
                name=self.name, why="its captures are of another server, where positions mean other changes"
            )

    def follow(self, pinned: Mapping[str, str]) -> None:
        self._pinned = pinned

    def resolve(self, period: CapturePeriod, captured: Sequence[Captured]) -> Resolution:
        self._captured = list(captured)
        self._require_same_history()
        if period.start is not None or period.end is not None:
            why = "has changes that are not found by their time: a capture continues where the last one ended"
            raise NotOffered(name=self.name, why=why)
        slot = self._slot()
        if period.is_whole:
            self._require_capturable()
            if slot is not None and self._before is None:
                why = f"its slot {self._declared.slot} is there, and nothing was captured from it here"
                raise CannotBeCaptured(name=self.name, why=why)
            number = sum(each.range_from == BEGINNING for each in captured) + 1
            found = self._span(BEGINNING, f"{_SNAPSHOT} {number}", size_bytes=self._table["size"])
        else:
            found = self._changes(slot, captured)
        return Resolution(
            family=FAMILY.name,
            name=f"{self._declared.database}.{self._declared.table}",
            stream=self._stream,
            pinned={
                "plugin": "pgoutput",
                "slot": self._declared.slot,
                "slot.behind": "-" if slot is None else f"{slot[4]} bytes",
                "slot.wal_status": "-" if slot is None else str(slot[3]),
                "publication": self._publication,
                "replica identity": self._table["relreplident"],
                "timeline": self._timeline,
                "publication.state": self._publication_state,
                **PinnedColumns(columns=self._table_columns, stored_as=self._stored_as).text,
            },
            is_compacted=False,
            is_whole=period.is_whole,
            spans=(found,),
        )

    def _changes(self, slot: tuple[Any, ...] | None, captured: Sequence[Captured]) -> Resolved:
        """The range from the slot's position to the present end of the write-ahead log."""
        if not captured:
            raise ChangesUnreadable(name=self.name, why="it was never captured, and they begin with a snapshot")
        complete_to = max(each.range_to for each in captured)
        if self._before != self._stream:
            raise self._gone(complete_to, "it was created again")
        if slot is None:
            raise self._gone(complete_to, f"there is no slot {self._declared.slot}")
        if slot[3] == "lost":
            raise self._gone(complete_to, f"the slot {self._declared.slot} lagged by more than max_slot_wal_keep_size")
        begin, end = lsn_text(lsn_number(slot[2])), self._end_of_log()
        if begin > complete_to:
            raise self._gone(complete_to, f"another consumer has moved the slot {self._declared.slot} to {begin}")
        # Without their values the rows of its changes would be complete all the same, with nulls.
        if lacking := self._lacking:
            raise CannotBeCaptured(name=self.name, why=f"it has no column {', '.join(lacking)}")
        if generated := self._generated:
            raise CannotBeCaptured(name=self.name, why=generated)
        self._require_followed()
        if lsn_number(end) - lsn_number(begin) < self._declared.chunk and not self._has_change(end):
            # Otherwise every look at a quiet table would be a file.
            end = begin
        return self._span(begin, end, size_bytes=lsn_number(end) - lsn_number(begin))

    def _require_same_history(self) -> None:
        """Refuses a server that does not have everything that was captured: it took over from another one, or was set
        back to a copy of its files."""
        end = max((each.range_to for each in self._captured), default=BEGINNING)
        if (ends := self._end_of_log()) < end:
            why = f"the log of its server ends at {ends}, before {end}, which was captured: it is another history"
            raise CannotBeCaptured(name=self.name, why=why)

    def _require_followed(self) -> None:
        """Refuses changes whose rows may not have what the table has now, or that may lack some."""
        self._require_publication()
        state = self._publication_state
        if self._pinned.get("publication.state", _NOT_YET) not in (state, _NOT_YET):
            said = f"the publication {self._publication} was changed or made again since, and may have left out some"
            raise ChangesUnreadable(name=self.name, why=said)
        if why := self._columns_over_time.complaint():
            raise ChangesUnreadable(name=self.name, why=why)

    @property
    def _columns_over_time(self) -> Columns:
        return Columns(
            wanted=self._columns,
            now={name: each for name, each in self._table_columns.items() if not each.is_generated},
            before=PinnedColumns.read(self._pinned),
            stored_as=self._stored_as,
        )

    def _span(self, range_from: str, range_to: str, *, size_bytes: int) -> Resolved:
        return Resolved(
            partition=WAL,
            range_from=range_from,
            range_to=range_to,
            held_from=range_from,
            held_to=self._end_of_log(),
            size_bytes=size_bytes,
        )

    def _gone(self, expected_from: str, why: str) -> ChangesUnreadable:
        return ChangesUnreadable(name=self.name, why=f"those from {expected_from} on are gone: {why}")

    def _require_capturable(self) -> None:
        """Refuses a table of which a capture could not keep what happens to it."""
        table, columns = self._table, self._table_columns
        unique = self._rows(_UNIQUE, table["oid"])
        identity = {
            "d": {name for is_primary, _, names in unique if is_primary for name in names},
            "i": {name for _, is_identity, names in unique if is_identity for name in names},
            "f": set(columns),
        }.get(table["relreplident"], set())
        lacking = self._lacking
        unnamed = [name for name in self._key if name not in identity]
        is_stored_apart = table["toast"] and any(
            columns[name].is_toastable for name in self._columns if name in columns
        )
        mistakes = (
            (table["wal_level"] != "logical", f"the wal_level of its server is {table['wal_level']}, and not logical"),
            (table["relkind"] != "r", "it is not an ordinary table: capture one of its partitions"),
            (table["relpersistence"] != "p", "it is unlogged or temporary, so that no log has its changes"),
            (lacking, f"it has no column {', '.join(lacking)}"),
            (self._generated, self._generated),
            (unnamed, f"its replica identity has no {', '.join(unnamed)}, which is its key here"),
            (
                all(set(self._key) != set(names) for _, _, names in unique),
                f"it has no unique index over {', '.join(self._key)}, which is its key here",
            ),
            (
                is_stored_apart and table["relreplident"] != "f",
                "it has values that are stored out of line, and updates only tell them with REPLICA IDENTITY FULL",
            ),
        )
        for is_so, why in mistakes:
            if is_so:
                raise CannotBeCaptured(name=self.name, why=why)
        self._require_publication(may_lack=True)

    def _require_publication(self, *, may_lack: bool = False) -> bool:
        """Refuses a publication without some changes of the table; returns whether there is one."""
        found = self._published
        if not found and may_lack:
            return False
        every_operation, has_table, filters, _ = found[0] if found else (True, False, False, "")
        for is_so, why in (
            (not has_table, "does not have it"),
            (not every_operation, "leaves out inserts, updates, deletes or truncates"),
            (filters, "leaves out rows or columns"),
        ):
            if is_so:
                raise CannotBeCaptured(name=self.name, why=f"the publication {self._publication} {why}")
        return True

    @property
    def _published(self) -> list[tuple[Any, ...]]:
        named = self._declared.table.split(".")
        return self._rows(_PUBLICATION, *named, self._table["oid"], self._publication)

    @property
    def _publication_state(self) -> str:
        found = self._published
        return str(found[0][3]) if found else _NOT_YET

    @cached_property
    def _timeline(self) -> str:
        return str(self._rows(_TIMELINE)[0][0])

    @cached_property
    def _base_types(self) -> Mapping[int, int]:
        return dict(self._rows(_BASE_TYPES))

    def _slot(self) -> tuple[Any, ...] | None:
        found = self._rows(_SLOT, self._declared.slot)
        if found and (found[0][0] != "pgoutput" or not found[0][1]):
            why = f"the slot {self._declared.slot} is of another plugin or database"
            raise CannotBeCaptured(name=self.name, why=why)
        return found[0] if found else None

    def _has_change(self, end: str) -> bool:
        self._require_publication()
        return bool(self._rows(_HAS_CHANGE, self._declared.slot, _server_lsn(end), self._publication)[0][0])

    # ------------------------------------------------------------------------------------------------ what is written

    def pieces(self, span: Span, captured: Sequence[Span]) -> Iterator[Span]:
        if span.range_from == BEGINNING:
            number = int(span.range_to.rpartition(" ")[2])
            if sum(each.range_from == BEGINNING for each in captured) < number:
                yield Span(partition=WAL, range_from=BEGINNING, range_to=span.range_to)
            return
        # A snapshot has the state of its keys, and not what became of them before it.
        changes = [each for each in captured if each.range_from != BEGINNING]
        for start, end in cut(span, changes, self._declared.chunk, lsn_number):
            yield Span(partition=WAL, range_from=lsn_text(start), range_to=lsn_text(end))

    def file_name(self, resolution: Resolution, piece: Span) -> str:
        identity = resolution.stream.replace("/", "-")
        # Spark takes some characters that a table may have in its name for those of a pattern.
        table = re.sub(r"[^A-Za-z0-9._-]", "-", self._declared.table)
        return f"{table}-{identity}/{identity}-{piece.range_from}-{piece.range_to}{self.kind.suffix}"

    def write(self, piece: Span, copy: Path, pace: Pace) -> Written:
        if piece.range_from == BEGINNING:
            return self._asking(lambda: self._write_snapshot(copy, pace))
        return self._asking(lambda: self._write_changes(piece, copy, pace))

    def recorded(self, piece: Span) -> None:
        self._captured.append(piece)
        self._asking(self._keep_slot if piece.range_from == BEGINNING else self._advance_slot)

    def _write_snapshot(self, copy: Path, pace: Pace) -> Written:
        """Everything that the table holds where a slot begins. The slot goes with the connection until the file is in
        the ledger, so that nothing is left on the server by a capture that is stopped."""
        if not self._require_publication(may_lack=True):
            self._run(f"CREATE PUBLICATION {_quoted(self._publication)} FOR TABLE ONLY {self._quoted_table}")
        stored = self._stored_as
        self._replication = self._connected(replication="database", cursor_factory=self._psycopg.ClientCursor)
        self._temporary = f"{self._declared.slot[:46]}_{random.token_hex(8)}"
        create = f"CREATE_REPLICATION_SLOT {self._temporary} TEMPORARY LOGICAL pgoutput EXPORT_SNAPSHOT"
        ((_, lsn, exported, _),) = self._replication.execute(create.encode()).fetchall()
        columns = ", ".join(map(_quoted, self._columns))
        types = [self._table_columns[name].type_oid for name in self._columns]
        types = [self._base_types.get(each, each) for each in types]
        with self._connected() as connection, connection.cursor() as cursor:
            self._run("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY", cursor)
            self._run(f"SET TRANSACTION SNAPSHOT '{exported}'", cursor)
            at: datetime = self._run("SELECT now()", cursor).fetchone()[0]
            said = _said(_SNAPSHOT, lsn_number(lsn), 0, at)
            with cursor.copy(_ROWS.format(columns=columns, table=self._quoted_table)) as rows:
                values = (zip(self._columns, map(value_of, row, types), strict=True) for row in rows.rows())
                written = _written(copy, ((_line(said, row), at) for row in values), pace)
            # A snapshot from before a truncate sees the table empty all the same.
            if self._stored_as != stored:
                raise StreamFailed(name=self.name, why="it was truncated or rewritten while its snapshot was read")
        return replace(written, range_to=lsn_text(lsn_number(lsn)))

    def _keep_slot(self) -> None:
        """Changes are kept from the first snapshot on; from a later one on where the slot has lost them."""
        slot = self._slot()
        if slot is not None and slot[3] == "lost":
            self._run(f"SELECT pg_drop_replication_slot('{self._declared.slot}')")
            slot = None
        if slot is None:
            self._run(f"SELECT pg_copy_logical_replication_slot('{self._temporary}', '{self._declared.slot}', false)")
        assert self._replication is not None
        self._replication.close()

    def _advance_slot(self) -> None:
        """Lets the slot give up what is captured, as far as that is without a gap."""
        slot = self._slot()
        begin = end = lsn_text(lsn_number(slot[2])) if slot else BEGINNING
        for each in sorted(self._captured, key=lambda span: span.range_from):
            if BEGINNING < each.range_from <= end:
                end = max(end, each.range_to)
        if slot and end > begin:
            self._run(f"SELECT pg_replication_slot_advance('{self._declared.slot}', '{_server_lsn(end)}')")

    def _write_changes(self, piece: Span, copy: Path, pace: Pace) -> Written:
        self._require_publication()
        start, end = lsn_number(piece.range_from), lsn_number(piece.range_to)
        snapshots = (lsn_number(each.range_to) for each in self._captured if each.range_from == BEGINNING)
        decoder = Decoder(
            name=self.name,
            oid=self._table["oid"],
            key=self._key,
            columns=self._columns,
            over_time=self._columns_over_time,
            base=self._base_types,
            covered_to=max(snapshots, default=0),
        )
        named = {"slot": self._declared.slot, "publication": self._publication, "upto": _server_lsn(piece.range_to)}
        with self._connection.cursor() as cursor, cursor.copy(_CHANGES.format(**named)) as rows:
            lines = (
                (
                    _line(_said(each.operation, each.lsn, each.position, each.committed_at), each.row.items()),
                    each.committed_at,
                )
                for each in decoder.changes(row[0] for row in rows.rows())
                if start <= each.lsn < end
            )
            return _written(copy, lines, pace)

    # ------------------------------------------------------------------------------------------------- the connection

    @cached_property
    def _connection(self) -> Connection[Any]:
        return self._connected()

    def _connected(self, **more: Any) -> Connection[Any]:
        seconds = max(2, self._declared.answers_within // timedelta(seconds=1))  # libpq takes no less
        try:
            connection: Connection[Any] = self._psycopg.connect(
                **self._declared.settings,
                **self._secret,
                **more,
                host=self._declared.host,
                port=self._declared.port,
                dbname=self._declared.database,
                user=self._declared.user,
                connect_timeout=seconds,
                tcp_user_timeout=1000 * seconds,
                application_name="backfill_assets",
                client_encoding="UTF8",
                options=" ".join(f"-c {name}={value}" for name, value in _SESSION.items()),
                autocommit=True,
            )
        except self._psycopg.Error as error:
            raise self._failure(error) from None
        return connection

    @cached_property
    def _table(self) -> Mapping[str, Any]:
        with self._connection.cursor(row_factory=self._psycopg.rows.dict_row) as cursor:
            named = self._declared.table.split(".")
            found: Mapping[str, Any] | None = self._asking(lambda: cursor.execute(_TABLE, named).fetchone())
        if found is None:
            raise NoStream(name=f"table {self._declared.table}", servers=self._database)
        return found

    @cached_property
    def _table_columns(self) -> Mapping[str, TableColumn]:
        names = ("number", "type_oid", "modifier", "row_of", "is_toastable", "is_generated")
        found = self._rows(_COLUMNS, self._table["oid"])
        return {name: TableColumn(**dict(zip(names, facts, strict=True))) for name, *facts in found}

    @property
    def _lacking(self) -> list[str]:
        """Columns of the contract that the table does not have now."""
        return [name for name in self._columns if name not in self._table_columns]

    @property
    def _generated(self) -> str:
        """A note on columns of the contract that changes never have; empty without one."""
        known = self._table_columns
        found = [name for name in self._columns if name in known and known[name].is_generated]
        return f"{', '.join(found)} is generated, and changes do not have it" if found else ""

    @property
    def _stream(self) -> str:
        return f"{self._table['system']}/{self._table['oid']}"

    @property
    def _stored_as(self) -> str:
        """The file that the server keeps the table in; it is another one after a truncate."""
        return str(self._rows("SELECT pg_relation_filenode(%s::oid)", self._table["oid"])[0][0])

    def _end_of_log(self) -> str:
        return lsn_text(lsn_number(self._rows("SELECT pg_current_wal_flush_lsn()::text")[0][0]))

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        return self._asking(lambda: self._connection.execute(query, values).fetchall())

    def _run(self, statement: str, cursor: Any = None) -> Any:
        return self._asking(lambda: (cursor or self._connection).execute(statement))

    @property
    def _quoted_table(self) -> str:
        return ".".join(map(_quoted, self._declared.table.split(".")))

    @property
    def _publication(self) -> str:
        return self._declared.publication or self._declared.slot

    @property
    def _database(self) -> str:
        return f"the database {self._declared.database} of {self._declared.host}:{self._declared.port}"

    def _asking(self, ask: Callable[[], T]) -> T:
        """Asks the server, and turns errors of the client into ours."""
        try:
            return ask()
        except self._psycopg.Error as error:
            raise self._failure(error) from None

    def _failure(self, error: Any) -> Exception:
        """The error that an error of the client means. Uses its first line only: others quote statements and values."""
        state, text = error.sqlstate or "", str(error).partition("\n")[0]
        why = re.sub(r"^.*(failed|FATAL|ERROR): +", "", text).rstrip(".")
        if not state and "no password supplied" in text:
            return StreamDenied(name=self._database, why="it asks for a password, and no secret is declared")
        if not state and "FATAL" in text:
            if f'database "{self._declared.database}" does not exist' in text:
                return NoStream(name=f"database {self._declared.database}", servers=self._declared.host)
            if not re.search(r"starting up|shutting down|recovery mode|too many|reserved", text):
                return StreamDenied(name=self._database, why=why)
        if not state or state.startswith(("08", "57P")):
            seconds = self._declared.answers_within / timedelta(seconds=1)
            return StreamFailed(name=self._database, why=no_answer_within(seconds, why))
        if state.startswith("28"):
            return StreamDenied(name=self._database, why=why)
        if state in ("42501", "22021"):  # the role may not do that; texts of a database in SQL_ASCII
            return CannotBeCaptured(name=self.name, why=f"{why}{missing_grant(why, self._declared.user)}")
        return StreamFailed(name=self.name, why=why)


def _client() -> Any:
    try:
        import psycopg
        import psycopg.rows
    except ImportError:
        raise PackageMissing(what="a capture from PostgreSQL", package="psycopg", extra="postgres") from None
    return psycopg


def _written(copy: Path, lines: Iterator[tuple[bytes, datetime]], pace: Pace) -> Written:
    """Writes lines, each with its time, into a file."""

    def batches() -> Iterator[tuple[Sequence[bytes], int, Sequence[datetime]]]:
        while some := list(islice(lines, pace.most_at_once)):
            own, times = zip(*some, strict=True)
            yield own, sum(map(len, own)), times

    return write_lines(copy, batches(), pace)


def _said(operation: str, lsn: int, position: int, at: datetime) -> str:
    """A record's additional facts besides its columns, as the beginning of its landed line."""
    iso = at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds")
    return f'{{"{OPERATION}": "{operation}", "{LSN}": {lsn}, "{POSITION}": {position}, "{COMMITTED_AT}": "{iso}Z"'


_encoded = json.JSONEncoder(ensure_ascii=False).encode


def _line(said: str, row: Iterable[tuple[str, str | None]]) -> bytes:
    columns = _encoded(dict(row))[1:]
    return f"{said}{'' if columns == '}' else ', '}{columns}\n".encode()


def _server_lsn(text: str) -> str:
    return text.replace("-", "/")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def open_stream(declared: PostgresTable, source: SourceTable, *, home: Path, as_of: datetime) -> PostgresStream:  # noqa: ARG001 - as of any family
    """The table that a source is captured from."""
    secret = secrets_named(declared.secrets, home=home)
    return PostgresStream(declared, secret=secret, key=source.key_members, columns=source.member_columns)

"""Debezium: how an author declares that records are its change events, and what a tombstone among them says.

An event is taken apart when it lands (`landing.debezium`): files and topics keep it as it was written.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from backfill_assets.capture.json_members import as_written, json_of
from backfill_assets.core.wording import visible

OPERATION, COMMIT, LSN, COMMITTED_AT = "debezium_operation", "debezium_commit", "debezium_lsn", "debezium_at"
POSITION = "debezium_position"
"""The columns of a landed event besides those of the table."""

OPERATIONS: Mapping[str, str] = {"create": "c", "update": "u", "delete": "d", "snapshot": "r", "truncate": "t"}
"""The name of each operation in an event, by its name at landing."""

POSTGRESQL, MONGODB = "postgresql", "mongodb"
ORDERS: Mapping[str, tuple[str, ...]] = {
    POSTGRESQL: (COMMIT, LSN),
    **dict.fromkeys(("mysql", "mariadb", "sqlserver", "oracle", MONGODB), (POSITION,)),
}
"""By connector, what orders its events. Positions of PostgreSQL are numbers; those of others have parts, and are texts
in which each part has as many digits as it can have, so that they are ordered as texts."""

KEY, KEY_READ = "kafka_key", "kafka_key_json"
"""The members of a landed event with the key of its record: as a text, and read by the schema that it names."""

ENDED_BEFORE = "ended_before"
"""The member of a position that is no change's own, but directly before that of a change."""

_TABLE = r'[^\s."\0*?]+(\.[^\s."\0*?]+){1,2}'
_TABLES = r'[^\s."\0]+(\.[^\s."\0]+){1,2}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Debezium:
    """The records of a source are change events of a connector of Debezium, with or without their schemas.

    Heartbeats, schema changes, boundaries of transactions and logical messages among them are no changes of a row: they
    are passed over, and counted with the import.
    """

    #: The table that the events are of, such as `public.orders`: a schema or a database and its table, with the
    #: database before both where the connector has several. Events of another one are rejected.
    table: str = ""
    #: Instead of one table, a pattern for the partitions of one, such as `public.orders_*`. `*` stands for any
    #: characters but a dot.
    tables: str = ""
    #: The connector that wrote them, by the name that its events have: `postgresql`, `mysql`, `mariadb`, `sqlserver`,
    #: `oracle` or `mongodb`. What orders the events are its positions.
    connector: str = POSTGRESQL
    #: What the connector writes for a value that it was not told (`unavailable.value.placeholder`).
    unavailable: str = "__debezium_unavailable_value"

    def mistakes(self) -> Iterator[str]:
        if not isinstance(self.connector, str) or self.connector not in ORDERS:
            known = ", ".join(ORDERS)
            yield f"its events are of the connector {self.connector!r:.60}, and those that are known are {known}"
        if bool(self.table) is bool(self.tables):
            yield "its events need either table, such as 'public.orders', or tables, such as 'public.orders_*'"
        elif self.table and not (isinstance(self.table, str) and re.fullmatch(_TABLE, self.table)):
            yield f"its events are of {self.table!r:.60}, and have to be of a table such as 'public.orders'"
        elif self.tables and not (isinstance(self.tables, str) and re.fullmatch(_TABLES, self.tables)):
            yield f"its events are of {self.tables!r:.60}, and have to be of tables such as 'public.orders_*'"
        if not isinstance(self.unavailable, str) or not self.unavailable:
            yield "its events name what is unavailable by no text"

    @property
    def order(self) -> tuple[str, ...]:
        """The columns that order its events."""
        return ORDERS[self.connector]

    @property
    def named(self) -> str:
        """A pattern of regular expressions for the names of its tables, `schema.table` or `database.schema.table`."""
        if self.table:
            return re.escape(self.table)
        return "".join({"*": "[^.]*", "?": "[^.]"}.get(each, re.escape(each)) for each in self.tables)

    @property
    def has_database(self) -> bool:
        """True if the names of its tables have three parts."""
        return (self.table or self.tables).count(".") > 1 and self.connector != MONGODB


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyed:
    """A record of a topic: its key, and its value that is not null."""

    key: bytes | None
    value: bytes


def as_delete(key: bytes | None, before: Keyed | None, after: Keyed | None) -> str | None:
    """The delete that a record without a value states, as the JSON of an event; None when its place is not known.

    Behind a delete of the same key it states that once more, so that it is a duplicate. Where the delete itself is
    gone, as in a topic that was compacted, the key ended before the next event: no change has an odd LSN, and other
    positions say so. Of events before it there may have been later ones, which have landed and are not in the topic any
    more.

    Args:
        key: The key of the record.
        before: The last record before it in its partition that has a value.
        after: The first one behind it.
    """
    row, schema = _payload(key)
    place = _source(before) if before is not None and before.key == key and _operation(before) == "d" else None
    if place is None and (place := _source(after)) is not None:
        place = {**place, "lsn": place["lsn"] - 1} if "lsn" in place else {**place, ENDED_BEFORE: True}
    if not isinstance(row, dict) or place is None:
        return None
    # The key of a document is in the key of its record, which lands with it, and has another name in the document.
    was = None if place.get("connector") == MONGODB else row
    delete = {"op": "d", "before": was, "after": None, "source": place}
    if not isinstance(schema, dict):
        return json_of(delete)
    return json_of({"schema": {"type": "struct", "fields": [{**schema, "field": "before"}]}, "payload": delete})


def _payload(written: bytes | None) -> tuple[object, object]:
    """The payload of a key or a value, and its schema; nothing where it is not JSON."""
    try:
        found = as_written(written or b"null")
    except ValueError:
        return None, None
    if isinstance(found, dict) and "payload" in found:
        return found["payload"], found.get("schema")
    return found, None


def has_place(event: Keyed | None) -> bool:
    """True if a record has a position in the feed, as changes have and heartbeats have not."""
    return _source(event) is not None


def _operation(event: Keyed) -> object:
    change, _ = _payload(event.value)
    return change.get("op") if isinstance(change, dict) else None


def _source(event: Keyed | None) -> dict[str, Any] | None:
    """The position of an event in its feed."""
    change, _ = _payload(None if event is None else event.value)
    source = change.get("source") if isinstance(change, dict) else None
    if not isinstance(source, dict):
        return None
    if source.get("connector", POSTGRESQL) != POSTGRESQL:
        return source
    try:
        return {**source, "lsn": int(source["lsn"])}
    except (KeyError, TypeError, ValueError):
        return None


# Debezium's messages: those that are no changes of a row, by their shape, and what other records are, by theirs.
#
# A feed that was routed into one topic or file has heartbeats, changes of schemas and boundaries of transactions
# between the changes. Landing passes these over and counts them; what is written in another form is refused with
# its name.

HEARTBEAT, SCHEMA_CHANGE, TRANSACTION = "heartbeat", "schema change", "transaction marker"
MESSAGE, NOTIFICATION = "logical message", "notification"

IS_CHANGE = r'"op"\s*:\s*"[^m]'
"""Where a line has this, it is a change, or none that is passed over."""

BESIDE: Mapping[str, tuple[str, ...]] = {
    SCHEMA_CHANGE: ("ddl",),
    TRANSACTION: ("status", "id"),
    MESSAGE: ("op", "message"),
    NOTIFICATION: ("aggregate_type", "additional_data"),
}
"""By what a message is that has no row, members that it has; a heartbeat has nothing but its time."""
OF_A_ROW = ("before", "after")
"""Members that none of these has."""
TIMES = ("ts_ms", "ts_us", "ts_ns")
"""The time of a message, the first of them always."""

PART = "_part"
"""The first member of a line that is one more event of the message before it; decoded files alone have it."""

_FORMS = (
    ("Canal's flat messages", ("database", "table", "isDdl")),
    ("Maxwell's records", ("database", "table", "type", "data")),
    ("records of AWS DMS", ("data", "metadata")),
    ("records of Oracle GoldenGate", ("op_type", "op_ts", "pos")),
    ("CloudEvents", ("specversion",)),
    ("rows without their envelope (ExtractNewRecordState)", ("__deleted",)),
    ("rows without their envelope (ExtractNewRecordState)", ("__op",)),
)
"""By their names, forms that records of other programs have, and members by which they are known."""

_HINTS = {
    "Canal's flat messages": " (they land with reads=Canal())",
    "Maxwell's records": " (they land with reads=Maxwell())",
}
_PART, _SECOND = f'{{"{PART}": '.encode(), f'{{"{PART}": 1,'.encode()
_is_change = re.compile(IS_CHANGE.encode())


def kind_of_message(line: bytes) -> str:
    """The kind of a line that is passed over; empty for any other line."""
    if _is_change.search(line):
        return ""
    found = _document(line)
    if any(name in found for name in OF_A_ROW):
        return ""
    for kind, names in BESIDE.items():
        if all(name in found for name in names):
            return kind
    return HEARTBEAT if TIMES[0] in found and found.keys() <= {*TIMES} else ""


@dataclass(slots=True)
class Messages:
    """The kinds of the lines of a file, found while it is probed."""

    connector: str  #: The connector of the source.
    beside: Counter[str] = field(default_factory=Counter)  #: How many lines are passed over, by what they are.
    several: int = 0  #: How many messages are several lines.
    parts: int = 0  #: How many lines are one more event of such a message.
    _is_looked_at: bool = False

    def look(self, text: bytes) -> str:
        """Counts lines, and says why the first of the changes is none of the source; empty when it is."""
        refusal = ""
        for line in text.replace(b"\r", b"\n").split(b"\n"):
            if not line.strip():
                continue
            self.parts += line.startswith(_PART)
            self.several += line.startswith(_SECOND)
            if kind := kind_of_message(line):
                self.beside[kind] += 1
            elif not self._is_looked_at:
                self._is_looked_at = True
                refusal = _refusal(line, self.connector)
        return refusal


def _refusal(line: bytes, expected: str) -> str:
    found = _document(line)
    source = found.get("source")
    if isinstance(source, dict):
        connector = source.get("connector", expected)
        if connector != expected:
            named = f"{visible(str(connector))[:60]!r}"
            return f"has change events of Debezium's connector {named}, and its source declares {expected!r}"
        if source.get("lcr_position") is not None:
            return "has change events of Oracle by XStream, whose lcr_position is not compared with reads: use LogMiner"
        return ""
    if "op" in found:
        return ""
    form = next((form for form, names in _FORMS if all(name in found for name in names)), "")
    return f"has {form}, and its source declares change events of Debezium{_HINTS.get(form, '')}" if form else ""


def _document(line: bytes) -> Mapping[str, Any]:
    """The members of the event in a line, without what a capture says of it; none of what is no object."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    if isinstance(found, dict) and isinstance(inner := found.get("payload"), dict):
        found = inner
    if not isinstance(found, dict):
        return {}
    return {name: value for name, value in found.items() if not name.startswith("kafka_")}

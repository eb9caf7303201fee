"""Debezium: how an author declares that records are its change events, and what a tombstone among them says.

An event is taken apart when it lands (`landing.debezium`): files and topics keep it as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from backfill_assets.capture.json_members import as_written, json_of

OPERATION, COMMIT, LSN, COMMITTED_AT = "debezium_operation", "debezium_commit", "debezium_lsn", "debezium_at"
"""The columns of a landed event besides those of the table."""

ORDER = (COMMIT, LSN)
OPERATIONS: Mapping[str, str] = {"create": "c", "update": "u", "delete": "d", "snapshot": "r", "truncate": "t"}
"""The operations of a source, and how an event names them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Debezium:
    """The records of a source are change events of Debezium's connector for PostgreSQL, with or without their schemas.

    Attributes:
        table: The table that the events are of, such as `public.orders`. Events of another one are rejected.
        unavailable: What the connector writes for a value that it was not told (`unavailable.value.placeholder`).
    """

    table: str
    unavailable: str = "__debezium_unavailable_value"

    def mistakes(self) -> Iterator[str]:
        if not isinstance(self.table, str) or not re.fullmatch(r'[^\s."\0]+\.[^\s."\0]+', self.table):
            yield f"its events are of {self.table!r:.60}, and have to be of a table such as 'public.orders'"
        if not isinstance(self.unavailable, str) or not self.unavailable:
            yield "its events name what is unavailable by no text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyed:
    """A record of a topic: its key, and its value that is not null."""

    key: bytes | None
    value: bytes


def as_delete(key: bytes | None, before: Keyed | None, after: Keyed | None) -> str | None:
    """The delete that a record without a value states, as the JSON of an event; None when its place is not known.

    Behind a delete of the same key it states that once more, so that it is a duplicate. Where the delete itself is
    gone, as in a topic that was compacted, the key ended before the next event: no change has an odd LSN. Of events
    before it there may have been later ones, which have landed and are not in the topic any more.

    Args:
        key: The key of the record.
        before: The last record before it in its partition that has a value.
        after: The first one behind it.
    """
    row, schema = _payload(key)
    place = _source(before) if before is not None and before.key == key and _operation(before) == "d" else None
    if place is None and (place := _source(after)) is not None:
        place = {**place, "lsn": place["lsn"] - 1}
    if not isinstance(row, dict) or place is None:
        return None
    delete = {"op": "d", "before": row, "after": None, "source": place}
    if not isinstance(schema, dict):
        return json_of(delete)
    return json_of({"schema": {"type": "struct", "fields": [{**schema, "field": "before"}]}, "payload": delete})


def _payload(written: bytes | None) -> tuple[object, object]:
    """What a key or a value says, and its schema; nothing where it is no JSON."""
    try:
        found = as_written(written or b"null")
    except ValueError:
        return None, None
    if isinstance(found, dict) and "payload" in found:
        return found["payload"], found.get("schema")
    return found, None


def _operation(event: Keyed) -> object:
    change, _ = _payload(event.value)
    return change.get("op") if isinstance(change, dict) else None


def _source(event: Keyed | None) -> dict[str, Any] | None:
    """Where in the feed an event is."""
    change, _ = _payload(None if event is None else event.value)
    source = change.get("source") if isinstance(change, dict) else None
    try:
        return {**source, "lsn": int(source["lsn"])} if isinstance(source, dict) else None
    except (KeyError, TypeError, ValueError):
        return None

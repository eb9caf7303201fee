"""Debezium: how an author declares that records are its change events, and what a tombstone among them says.

An event is taken apart when it lands (`landing.debezium`): files and topics keep it as it was written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from backfill_assets.capture.json_members import quoted

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
        """What is wrong with the declaration, for a sentence that names its table."""
        if not isinstance(self.table, str) or not re.fullmatch(r'[^\s."\0]+\.[^\s."\0]+', self.table):
            yield f"its events are of {self.table!r:.60}, and have to be of a table such as 'public.orders'"
        if not isinstance(self.unavailable, str) or not self.unavailable:
            yield "its events name what is unavailable by no text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyed:
    """A record of a topic: its key, and its value that is not null."""

    key: bytes | None
    value: bytes


def as_delete(key: bytes | None, before: Keyed | None) -> str | None:
    """The delete that a record without a value states, as the JSON of an event; None when its place is not known.

    After a delete of the same key it states that once more, so that it is a duplicate. Where the delete itself is
    gone, as in a topic that was compacted, the key ended behind the record before: no change has an odd LSN.

    Args:
        key: The key of the record.
        before: The last record before it in its partition that has a value.
    """
    if key is None or before is None:
        return None
    try:
        keyed, event = json.loads(key), json.loads(before.value)
        schema = keyed["schema"] if "payload" in keyed else None
        row, change = keyed.get("payload", keyed), event.get("payload", event)
        is_stated = change["op"] == "d" and before.key == key
        source = {**change["source"], "lsn": int(change["source"]["lsn"]) + (0 if is_stated else 1)}
    except (AttributeError, ValueError, TypeError, KeyError, RecursionError):
        return None
    if not isinstance(row, dict):
        return None
    delete = {"op": "d", "before": row, "after": None, "source": source}
    if not isinstance(schema, dict):
        return quoted(delete)
    return quoted({"schema": {"type": "struct", "fields": [{**schema, "field": "before"}]}, "payload": delete})

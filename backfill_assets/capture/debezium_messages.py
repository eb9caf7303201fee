"""Debezium's messages: those that are no changes of a row, by their shape, and what other records are, by theirs.

A feed that was routed into one topic or file has heartbeats, changes of schemas and boundaries of transactions between
the changes. Landing passes these over and counts them; what is written in another form is refused with its name.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from backfill_assets.core.wording import visible

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
_connector = re.compile(rb'"connector"\s*:\s*"([^"\\]+)"')


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

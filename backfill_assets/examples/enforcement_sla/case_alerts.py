"""Case alerts: an application that takes events as they come in, and history once more, by the same code.

It keeps the last record of every case, and alerts somebody about it once. What it keeps is idempotent: a record that
comes twice, late, or again from a replay changes nothing. What acts outside looks at the mode of the record first:
alerts of last year help nobody, and a replay that is read before the live record does not take its alert away. Who
reads the records, from the live topic or from that of a replay, hands them over: no client of Kafka is known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Record = tuple[int, bytes | None]
"""When a record was sent, in milliseconds, and its value; none where its case was deleted."""

MODE, REPLAYED = "x-processing-mode", b"REPLAY"


@dataclass(kw_only=True)
class CaseAlerts:
    """The state of the application."""

    last: dict[bytes, Record] = field(default_factory=dict)  #: The last record of every case.
    #: The last record of every case that somebody was alerted about.
    alerted: dict[bytes, Record] = field(default_factory=dict)
    alerts: int = 0  #: How many alerts there were.

    def take(self, key: bytes | None, value: bytes | None, *, sent_at: int, headers: Mapping[str, bytes]) -> None:
        """Takes a record of either topic.

        Args:
            key: The case.
            value: Events; None deletes the case.
            sent_at: The timestamp of the record, which a replay keeps.
            headers: Those of the record; a replay adds its own.
        """
        if key is None:
            return
        record = (sent_at, value)
        if _is_news(record, self.last.get(key)):
            self.last[key] = record
        if headers.get(MODE) != REPLAYED and _is_news(record, self.alerted.get(key)):
            self.alerted[key] = record
            self.alerts += 1


def _is_news(record: Record, before: Record | None) -> bool:
    return before is None or (record[0] >= before[0] and record != before)

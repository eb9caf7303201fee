"""Counts of what happened since the ledger began: a fold over its events, continued where it ended.

Events are never removed, so these counts only grow: a process that is started again counts the same.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from backfill_assets.ledger.records import EventRecord
from backfill_assets.ledger.transactions import ReadTransaction

CHUNK_SECONDS = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0)
PUBLISH_SECONDS = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0)
WRITE_MS = (1.0, 10.0, 50.0, 100.0, 500.0, 1_000.0, 5_000.0, 30_000.0)

_ACTIONS = (
    *("chunk_started", "chunk_finished", "gates_recorded", "import_begun", "import_landed"),
    *("publication_begun", "publication_finished"),
)


@dataclass(slots=True)
class Durations:
    """Durations, counted by upper bounds."""

    bounds: tuple[float, ...]  #: The upper bounds, in order; what is longer than all of them is in the total alone.
    counts: list[int] = field(default_factory=list)  #: How many are within each bound, and not within the one before.
    count: int = 0
    total: float = 0.0

    def add(self, value: float) -> None:
        """Counts a duration."""
        self.counts = self.counts or [0] * len(self.bounds)
        place = bisect_left(self.bounds, value)
        if place < len(self.bounds):
            self.counts[place] += 1
        self.count += 1
        self.total += value


@dataclass(slots=True)
class EventCounts:
    """Counts of events, by table or source."""

    last: int = 0  #: The sequence of the last event that is counted.
    input_rows: Counter[str] = field(default_factory=Counter)  #: Rows that finished chunks have read and staged.
    output_rows: Counter[str] = field(default_factory=Counter)  #: Rows that finished chunks have read and staged.
    chunks: Counter[str] = field(default_factory=Counter)  #: Chunks that were finished.
    rejected: Counter[str] = field(default_factory=Counter)  #: Records of landed files that were rejected, by source.
    failures: Counter[str] = field(default_factory=Counter)  #: Results of blocking gates that failed.
    chunk_seconds: dict[str, Durations] = field(default_factory=dict)  #: How long chunks took.
    #: How long chunks took per partition that they staged.
    write_ms: dict[str, Durations] = field(default_factory=dict)
    #: How long publications and rollbacks took, by table and action.
    publish_seconds: dict[tuple[str, str], Durations] = field(default_factory=dict)
    _sources: dict[str, str] = field(default_factory=dict)
    _started: dict[tuple[str, int], datetime] = field(default_factory=dict)
    _begun: dict[str, tuple[str, str, datetime]] = field(default_factory=dict)

    def continue_(self, tx: ReadTransaction) -> None:
        """Counts the events since the last one that is counted."""
        events = list(tx.events.entries(after=self.last, actions=_ACTIONS))
        tables = tx.runs.tables_of({event.entity_id for event in events if event.entity in ("chunk", "gates")})
        for event in events:
            self._count(event, tables)
        sequence, _, _ = tx.events.head().partition(":")
        self.last = int(sequence or 0)

    def _count(self, event: EventRecord, tables: Mapping[str, str]) -> None:
        payload, table = event.payload, tables.get(event.entity_id, "")
        match event.action:
            case "chunk_started":
                self._started[event.entity_id, payload["number"]] = event.at
            case "chunk_finished":
                self._finish_chunk(event, table)
            case "gates_recorded":
                self.failures[table] += payload["blocking_failures"]
            case "import_begun":
                self._sources[event.entity_id] = payload["source"]
            case "import_landed":
                self.rejected[self._sources.get(event.entity_id, "")] += payload["rejected"]
            case "publication_begun":
                self._begun[event.entity_id] = (payload["table"], payload["action"], event.at)
            case "publication_finished" if event.entity_id in self._begun:
                of_table, action, at = self._begun.pop(event.entity_id)
                found = self.publish_seconds.setdefault((of_table, action), Durations(PUBLISH_SECONDS))
                found.add((event.at - at).total_seconds())

    def _finish_chunk(self, event: EventRecord, table: str) -> None:
        payload = event.payload
        self.chunks[table] += 1
        self.input_rows[table] += payload["input_rows"]
        self.output_rows[table] += payload["output_rows"]
        at = self._started.pop((event.entity_id, payload["number"]), None)
        if at is None:
            return
        took = event.at - at
        self.chunk_seconds.setdefault(table, Durations(CHUNK_SECONDS)).add(took.total_seconds())
        if payload["partitions"]:
            each_ms = took / timedelta(milliseconds=1) / payload["partitions"]
            self.write_ms.setdefault(table, Durations(WRITE_MS)).add(each_ms)

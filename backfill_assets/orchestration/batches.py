"""How are thousands of Dagster's events stored in seconds? Many in one commit.

Dagster's own SQL event logs open a connection for every event, or several, and commit each by itself: 10 ms and more on
SQLite, and a run over 92 days with ten gates has over a thousand.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import islice
from typing import Any, TypeVar

from dagster import DagsterInstance
from dagster._core.definitions.partitions.subset import TimeWindowPartitionsSubset
from dagster._core.events.log import EventLogEntry
from dagster._core.storage.event_log import SqlEventLogStorage
from dagster_shared.record import replace

Item = TypeVar("Item")

BATCH = 500
"""Events per commit: small enough that other writers wait for a second at most."""

PLANNED_CHECKS = 1_000
"""Partitions of a planned check per statement: SQLite may allow no more than 32,766 values in one, at 8 per row."""


class BatchedEventLog(SqlEventLogStorage):
    """What a SQL event log needs for putting many events into one commit; its connections come from `shared`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._batch = threading.local()
        self._known_tables: set[str] = set()
        self._known_columns: set[str] = set()
        super().__init__(*args, **kwargs)  # type: ignore[no-untyped-call]

    @contextmanager
    def one_commit(self) -> Iterator[None]:
        """Events that this thread stores inside are committed together, once per database."""
        if self.is_in_batch():
            yield
            return
        with ExitStack() as commits:
            self._batch.connections, self._batch.commits, self._batch.latest = {}, commits, {}
            try:
                yield
                self._store_latest()
            finally:
                self._batch.connections = self._batch.latest = None

    def is_in_batch(self) -> bool:
        """Whether this thread's events wait for a commit together."""
        return getattr(self._batch, "connections", None) is not None

    @contextmanager
    def shared(self, shard: str, connect: Callable[[str], AbstractContextManager[Any]]) -> Iterator[Any]:
        """A connection to a database: of this thread's batch when there is one, else of its own."""
        if not self.is_in_batch():
            with connect(shard) as connection:
                yield connection
            return
        connections = self._batch.connections
        if shard not in connections:
            connections[shard] = self._batch.commits.enter_context(connect(shard))
        yield connections[shard]

    def store_event_batch(self, events: Sequence[EventLogEntry]) -> None:
        with self.one_commit():
            for event in events:
                self.store_event(event)

    def _store_asset_event(self, conn: Any, event: EventLogEntry, event_id: int) -> None:
        latest = getattr(self._batch, "latest", None)
        if latest is None:
            super()._store_asset_event(conn, event, event_id)
        else:
            # The row of an asset holds its last event of a type, so of a batch only the last one counts.
            key = (event.get_dagster_event().asset_key, event.dagster_event_type)
            latest.pop(key, None)
            latest[key] = (event, event_id)

    def _store_latest(self) -> None:
        latest, self._batch.latest = self._batch.latest, None
        if latest:
            with self.index_connection() as conn:
                # In one order, so that two processes with the same assets wait for each other in one direction only.
                for event, event_id in sorted(latest.values(), key=_asset_of):
                    super()._store_asset_event(conn, event, event_id)

    def has_table(self, table_name: str) -> bool:
        # Asked twice per event, each time on a connection of its own; a table that is there stays there.
        if table_name not in self._known_tables and super().has_table(table_name):  # type: ignore[safe-super]
            self._known_tables.add(table_name)
        return table_name in self._known_tables

    def _has_asset_key_col_on_connection(self, conn: Any, column_name: str) -> bool:
        if column_name not in self._known_columns and super()._has_asset_key_col_on_connection(conn, column_name):
            self._known_columns.add(column_name)
        return column_name in self._known_columns

    def _store_asset_check_evaluation_planned(self, event: EventLogEntry, event_id: int | None) -> None:
        for part in _in_parts(event):
            super()._store_asset_check_evaluation_planned(part, event_id)


def _asset_of(stored: tuple[EventLogEntry, int]) -> str:
    return str(stored[0].get_dagster_event().asset_key)


def _in_parts(event: EventLogEntry) -> Iterator[EventLogEntry]:
    """The planned check as several, each of few enough partitions for one statement."""
    dagster_event = event.get_dagster_event()
    planned = dagster_event.asset_check_planned_data
    subset = planned.partitions_subset
    if not isinstance(subset, TimeWindowPartitionsSubset) or len(subset) <= PLANNED_CHECKS:
        yield event
        return
    for keys in batches(subset.get_partition_keys(), PLANNED_CHECKS):
        part = replace(planned, partitions_subset=subset.partitions_def.subset_with_partition_keys(keys))
        yield event._replace(dagster_event=dagster_event._replace(event_specific_data=part))


def batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """The items in order, so many at a time."""
    remaining = iter(items)
    while batch := list(islice(remaining, size)):
        yield batch


@contextmanager
def one_commit(instance: DagsterInstance) -> Iterator[None]:
    """Commits the events stored inside together, where the instance's storage can; elsewhere it changes nothing."""
    log = instance.event_log_storage
    if isinstance(log, BatchedEventLog):
        with log.one_commit():
            yield
    else:
        yield

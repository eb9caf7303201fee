"""Where does Dagster keep its runs and events, and how are thousands of events stored in seconds?

`dagster.yaml` names `HomeStorage`. Its folder follows `BACKFILL_HOME`, so the command line, `dagster dev` in a checkout
and a daemon elsewhere look at the same runs. And it commits events in batches: Dagster's own SQLite storage opens,
commits and closes two or three databases per event, which costs 10 ms and more, and a run over 92 days with ten gates
has over a thousand.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from dagster import DagsterInstance, Field, Noneable, StringSource
from dagster._core.definitions.partitions.subset import TimeWindowPartitionsSubset
from dagster._core.events.log import EventLogEntry
from dagster._core.storage.event_log.sqlite.sqlite_event_log import SqliteEventLogStorage
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage
from dagster._serdes import ConfigurableClassData
from dagster_shared.record import replace

from backfill_assets.settings import Settings

Item = TypeVar("Item")

BATCH = 500
"""Events per commit: small enough that other writers wait for a second at most."""

PLANNED_CHECKS = 1_000
"""Partitions of a planned check per statement: SQLite may allow no more than 32,766 values in one, at 8 per row."""


class HomeStorage(DagsterSqliteStorage):
    """Dagster's SQLite storage below `BACKFILL_HOME`, or below `base_dir` when `dagster.yaml` gives one."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        super().__init__(base_dir, inst_data)
        self._event_log_storage = BatchedEventLog.beside(self._event_log_storage)
        # Dagster hands over events in batches only when this is set, and each process that stores events comes by here.
        os.environ.setdefault("DAGSTER_EVENT_BATCH_SIZE", str(BATCH))

    @classmethod
    def config_type(cls) -> Any:
        return {"base_dir": Field(Noneable(StringSource), is_required=False)}

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData, config_value: Any) -> HomeStorage:
        base_dir = config_value.get("base_dir") or str(dagster_folder(Settings.from_environment()))
        return cls.from_local(base_dir=base_dir, inst_data=inst_data)


def dagster_folder(settings: Settings) -> Path:
    """The folder of Dagster's databases for these settings."""
    return settings.home / "dagster"


def storage_below(settings: Settings) -> Mapping[str, Any]:
    """The `storage` part of `dagster.yaml` for these settings, whatever the environment says."""
    config = {"base_dir": str(dagster_folder(settings))}
    return {"custom": {"module": HomeStorage.__module__, "class": HomeStorage.__name__, "config": config}}


class BatchedEventLog(SqliteEventLogStorage):
    """Dagster's SQLite event log, able to put many events into one commit per database."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        self._batch = threading.local()
        self._known_tables: set[str] = set()
        self._known_columns: set[str] = set()
        super().__init__(base_dir, inst_data)
        # A batch holds the run's database and the index open at the same time, from one thread.
        self._db_lock = threading.RLock()  # type: ignore[assignment]

    @staticmethod
    def beside(log: SqliteEventLogStorage) -> BatchedEventLog:
        return BatchedEventLog(log._base_dir)

    @contextmanager
    def one_commit(self) -> Iterator[None]:
        """Events that this thread stores inside are committed together, once per database."""
        if getattr(self._batch, "connections", None) is not None:
            yield
            return
        with ExitStack() as commits:
            self._batch.connections, self._batch.commits, self._batch.latest = {}, commits, {}
            try:
                yield
                self._store_latest()
            finally:
                self._batch.connections = self._batch.latest = None

    @contextmanager
    def _connect(self, shard: str) -> Iterator[Any]:
        connections = getattr(self._batch, "connections", None)
        if connections is None:
            with super()._connect(shard) as connection:
                yield connection
            return
        if shard not in connections:
            connections[shard] = self._batch.commits.enter_context(super()._connect(shard))
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
                for event, event_id in latest.values():
                    super()._store_asset_event(conn, event, event_id)

    def has_table(self, table_name: str) -> bool:
        # Asked twice per event, each time on a connection of its own; a table that is there stays there.
        if table_name not in self._known_tables and super().has_table(table_name):
            self._known_tables.add(table_name)
        return table_name in self._known_tables

    def _has_asset_key_col_on_connection(self, conn: Any, column_name: str) -> bool:
        if column_name not in self._known_columns and super()._has_asset_key_col_on_connection(conn, column_name):
            self._known_columns.add(column_name)
        return column_name in self._known_columns

    def _store_asset_check_evaluation_planned(self, event: EventLogEntry, event_id: int | None) -> None:
        for part in _in_parts(event):
            super()._store_asset_check_evaluation_planned(part, event_id)


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

"""The extensions of Dagster's event log: batches, places in pools, and the colours of tables.

Three classes, which `storage` and `postgres` mix into Dagster's SQL event logs.

*Batches*: many events in one commit, each stored once, to save time and space. Dagster's own SQL event logs open a
connection for every event, or several, and commit each by itself: 10 ms and more on SQLite, and a run over 92 days with
ten gates has over a thousand. They also keep every evaluation of a check three times, and repeat in every event what is
recorded for its run.

*Pools*: which Dagster runs have a place among those that use Spark at one time, and how the others wait. Dagster frees
the place of a run that was killed only where a daemon watches its process, and none watches one that
`dagster job execute` has started: every later run would wait for ever. It asks for a place in a loop that takes a whole
core, because it never sleeps for longer than 0 seconds, and in which a run does not notice that it is terminated.

*Colours* of the tables that readers know: green is what the ledger has accepted, and nothing is red. Dagster paints a
partition as failed when the newest run that targeted it failed, whichever step did: a refusal, a blocked gate or a
process that died would paint rows red that are accepted and unchanged. What failed is shown where it failed: on the
run, on the candidate, and on the check of the gate. A refusal changed nothing, and paints nothing. Dagster's pages also
offer to report a materialization and to wipe some: a person cannot do either to a table.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from typing import Any, TypeVar

from dagster import AssetKey, DagsterEventType, DagsterInstance, EventLogEntry, Failure, RunsFilter

from backfill_assets.core.errors import BackfillError, Refused
from backfill_assets.core.lease import this_process
from backfill_assets.domain.domain import load_domain
from backfill_assets.orchestration import tags
from backfill_assets.orchestration.dagster_internals import (
    PIPELINE_EVENTS,
    ConcurrencyClaimStatus,
    SqlEventLogStorage,
    pack_value,
    raise_execution_interrupts,
    replace,
    serialize_value,
)
from backfill_assets.orchestration.dagster_internals import AssetCheckExecutionRecordStatus as Status
from backfill_assets.orchestration.dagster_internals import AssetCheckExecutionsTable as Checks
from backfill_assets.orchestration.dagster_internals import AssetEventTagsTable as Tags
from backfill_assets.orchestration.dagster_internals import SqlEventLogStorageTable as Events
from backfill_assets.orchestration.partitions import captured_key
from backfill_assets.orchestration.tags import REFUSED, end_abandoned_runs

Item = TypeVar("Item")

BATCH = 500
"""Events per commit: small enough that other writers wait for a second at most."""

GATHER_S = 0.5
"""For how long events of a run that a command records are gathered: other writers wait for them."""

MANY = 500
"""Partitions or runs that one statement names."""

COMMITTED_AT_ONCE = frozenset({*PIPELINE_EVENTS, DagsterEventType.RESOURCE_INIT_STARTED, DagsterEventType.STEP_START})
"""After these the state of the run is written elsewhere, or something begins that may take long."""

OF_PARTITIONS = (DagsterEventType.ASSET_MATERIALIZATION, DagsterEventType.ASSET_MATERIALIZATION_PLANNED)

ENDS_OF_RUNS = frozenset({DagsterEventType.RUN_SUCCESS, DagsterEventType.RUN_FAILURE, DagsterEventType.RUN_CANCELED})

FAILURES = (DagsterEventType.STEP_FAILURE, DagsterEventType.RUN_FAILURE)

_EVENTS = "SELECT run_id FROM event_logs WHERE id IN (SELECT max(id) FROM event_logs"
_MATERIALIZED = "dagster_event_type = 'ASSET_MATERIALIZATION'"
_PLANNED = "dagster_event_type = 'ASSET_MATERIALIZATION_PLANNED'"
_BY_PARTITION = "GROUP BY asset_key, partition)"
_CHECKS = "SELECT run_id FROM asset_check_executions WHERE id IN (SELECT max(id) FROM asset_check_executions"
_BY_CHECK = "GROUP BY asset_key, check_name, partition)"
ON_PAGES = (
    f"{_EVENTS} WHERE {_MATERIALIZED} {_BY_PARTITION}",
    # What was planned and not materialized since shows as failed.
    f"{_EVENTS} WHERE {_MATERIALIZED} OR {_PLANNED} {_BY_PARTITION}",
    f"{_CHECKS} {_BY_CHECK}",
    f"{_CHECKS} WHERE execution_status <> 'PLANNED' {_BY_CHECK}",
    # Sensors remember how far they have read, and SQLite gives the ids after the last event again when it is gone.
    f"{_EVENTS})",
)
SIZES = (
    "SELECT run_id, sum(length(event)) FROM event_logs GROUP BY run_id",
    "SELECT run_id, sum(length(evaluation_event)) FROM asset_check_executions GROUP BY run_id",
)

CHECK_KEY = ("asset_key", "check_name", "run_id", "partition")

NEVER_ABSENT = frozenset({"error_info"})
"""Fields of an event that Dagster does not read without, even when they are None."""


@dataclass(kw_only=True)
class _Batch:
    """The events that one thread has stored and not committed."""

    is_gathered: bool  #: It is committed soon, and not where a caller has said.
    since: float = field(default_factory=time.monotonic)
    #: Ends with a commit per database, or without one after an error.
    commits: ExitStack = field(default_factory=ExitStack)
    connections: dict[str, Any] = field(default_factory=dict)  #: By database.
    #: The last event of an asset and type, with its id.
    latest: dict[Any, tuple[EventLogEntry, int]] = field(default_factory=dict)


class _OfThread(threading.local):
    batch: _Batch | None = None
    gathers: bool = False


class BatchedEventLog(SqlEventLogStorage):
    """Extends a SQL event log to put many events into one commit; its connections come from `shared`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._mine = _OfThread()
        self._known_tables: set[str] = set()
        self._known_columns: set[str] = set()
        super().__init__(*args, **kwargs)  # type: ignore[no-untyped-call]

    @contextmanager
    def one_commit(self) -> Iterator[None]:
        """Events that this thread stores inside are committed together, once per database, or none of them."""
        if self._is_in_one_commit():
            yield
            return
        self._commit_gathered()
        self._mine.batch = _Batch(is_gathered=False)
        with self._committed(self._mine.batch):
            yield

    @contextmanager
    def gathering(self, gathers: bool) -> Iterator[None]:
        """Gathers events that this thread stores inside the block for one commit, or commits each by itself.

        They are committed in their order: after `GATHER_S`, after an event of `COMMITTED_AT_ONCE`, and at the end.
        Other writers wait while there are some, so what may take long is done where none are gathered.
        """
        self._commit_gathered()
        before, self._mine.gathers = self._mine.gathers, gathers
        try:
            yield
        finally:
            self._mine.gathers = before
            self._commit_gathered()

    @contextmanager
    def _committed(self, batch: _Batch) -> Iterator[None]:
        """Commits a batch after what is done inside; an error inside undoes all of it."""
        try:
            with batch.commits:
                yield
                self._store_latest(batch)
        finally:
            self._mine.batch = None

    def _commit_gathered(self) -> None:
        if self._mine.batch is not None and self._mine.batch.is_gathered:
            with self._committed(self._mine.batch):
                pass

    def _is_in_one_commit(self) -> bool:
        return self._mine.batch is not None and not self._mine.batch.is_gathered

    def is_in_batch(self) -> bool:
        """True if this thread's events wait for a commit together."""
        return self._mine.batch is not None

    @contextmanager
    def shared(self, shard: str, connect: Callable[[str], AbstractContextManager[Any]]) -> Iterator[Any]:
        """A connection to a database: of this thread's batch when there is one, else of its own."""
        batch = self._mine.batch
        if batch is None:
            with connect(shard) as connection:
                yield connection
            return
        if shard not in batch.connections:
            batch.connections[shard] = batch.commits.enter_context(connect(shard))
        yield batch.connections[shard]

    def store_event_batch(self, events: Sequence[EventLogEntry]) -> None:
        with self.one_commit():
            for event in events:
                self.store_event(event)

    def store_event(self, event: EventLogEntry) -> None:
        if not self._mine.gathers or self._is_in_one_commit():
            self._store(event)
            return
        batch = self._mine.batch = self._mine.batch or _Batch(is_gathered=True)
        try:
            self._store(event)
        except BaseException as error:
            with self._committed(batch):
                raise error
        if event.dagster_event_type in COMMITTED_AT_ONCE or time.monotonic() - batch.since > GATHER_S:
            self._commit_gathered()

    def _store(self, event: EventLogEntry) -> None:
        checked = _checked_materialization(event)
        if checked is None:
            super().store_event(event)
        else:
            # The partition's row is what pages read. The run's log has one evaluation for all of its partitions.
            self.store_asset_check_event(event, checked)
        if event.dagster_event_type in ENDS_OF_RUNS and event.run_id:
            self.forget_unevaluated(event.run_id)

    def forget_unevaluated(self, *run_ids: str) -> None:
        """Takes back the evaluations that runs which have ended planned and did not make.

        Pages would show these checks as failed, or as skipped, for ever; so they show the evaluation before.
        """
        with self.index_connection() as conn:
            for batch in batches(run_ids, MANY):
                planned = Checks.c.execution_status == Status.PLANNED.value
                conn.execute(Checks.delete().where(Checks.c.run_id.in_(batch), planned))

    def planning(self) -> list[str]:
        """The runs that have planned evaluations and not made them, of which some may have ended long ago."""
        runs = Checks.select().with_only_columns(Checks.c.run_id).distinct()
        with self.index_connection() as conn:
            found = conn.execute(runs.where(Checks.c.execution_status == Status.PLANNED.value))
            return [run_id for (run_id,) in found]

    def forget_checks(self, asset: AssetKey, *, names: Collection[str] = (), partitions: Sequence[str] = ()) -> None:
        """Takes back evaluations of what readers no longer see: of checks of these names, or of these partitions."""
        of_asset = Checks.c.asset_key == asset.to_string()
        with self.index_connection() as conn:
            if names:
                conn.execute(Checks.delete().where(of_asset, Checks.c.check_name.in_(names)))
            for batch in batches(partitions, MANY):
                conn.execute(Checks.delete().where(of_asset, Checks.c.partition.in_(batch)))

    def _event_to_row(self, event: EventLogEntry) -> dict[str, Any]:
        return {**super()._event_to_row(event), "event": _text(event)}

    def _store_asset_event(self, conn: Any, event: EventLogEntry, event_id: int) -> None:
        if self._mine.batch is None:
            super()._store_asset_event(conn, event, event_id)
        else:
            # The row of an asset holds its last event of a type, so of a batch only the last one counts.
            key = (event.get_dagster_event().asset_key, event.dagster_event_type)
            self._mine.batch.latest.pop(key, None)
            self._mine.batch.latest[key] = (event, event_id)

    def _store_latest(self, batch: _Batch) -> None:
        if batch.latest:
            with self.index_connection() as conn:
                # In one order, so that two processes with the same assets wait for each other in one direction only.
                for event, event_id in sorted(
                    batch.latest.values(), key=lambda stored: str(stored[0].get_dagster_event().asset_key)
                ):
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
        planned = event.get_dagster_event().asset_check_planned_data
        row = {**self._check_row(event, event_id, planned), "execution_status": Status.PLANNED.value}
        subset = planned.partitions_subset
        with self.index_connection() as conn:
            # Without the event, which would be repeated for every partition and is in the log.
            partitions = subset.get_partition_keys() if subset else [None]
            conn.execute(Checks.insert(), [{**row, "partition": key} for key in partitions])

    def _store_runless_asset_check_evaluation(self, event: EventLogEntry, event_id: int | None) -> None:
        if event.get_dagster_event().asset_check_evaluation_data.partition is None:
            super()._store_runless_asset_check_evaluation(event, event_id)
        else:
            # In Dagster's own log the second evaluation of a partition that no run makes breaks a unique index.
            self._update_asset_check_evaluation(event, event_id)

    def _update_asset_check_evaluation(self, event: EventLogEntry, event_id: int | None) -> None:
        found = event.get_dagster_event().asset_check_evaluation_data
        row = {**self._check_row(event, event_id, found), "partition": found.partition}
        with self.index_connection() as conn:
            # A row that grows where it is splits its page; half of every page would stay empty.
            conn.execute(Checks.delete().where(*(Checks.c[name] == row[name] for name in CHECK_KEY)))
            target = found.target_materialization_data
            more = {
                "execution_status": (Status.SUCCEEDED if found.passed else Status.FAILED).value,
                "evaluation_event": _text(event),
                "materialization_event_storage_id": target.storage_id if target else None,
            }
            conn.execute(Checks.insert(), [{**row, **more}])

    def _check_row(self, event: EventLogEntry, event_id: int | None, of: Any) -> dict[str, Any]:
        return {
            "asset_key": of.asset_key.to_string(),
            "check_name": of.check_name,
            "run_id": event.run_id,
            "evaluation_event_timestamp": self._event_insert_timestamp(event),  # type: ignore[no-untyped-call]
            "evaluation_event_storage_id": event_id,
        }

    def delete_events_for_run(self, conn: Any, run_id: str) -> None:
        # Dagster names every event in one statement, which may hold 32,766 values, and leaves the rows of checks.
        of_run = Events.c.run_id == run_id
        conn.execute(
            Tags.delete().where(Tags.c.event_id.in_(Events.select().with_only_columns(Events.c.id).where(of_run)))
        )
        conn.execute(Checks.delete().where(Checks.c.run_id == run_id))
        conn.execute(Events.delete().where(of_run))

    def require_readable(self) -> None:
        """Reads one event, so that a record that is damaged raises the error of its library."""
        with self.index_connection() as conn:
            conn.execute(Events.select().with_only_columns(Events.c.id).limit(1)).fetchall()

    def runs_on_pages(self) -> frozenset[str]:
        """Runs that a page of an asset or a check shows: they hold the latest of a partition, or the latest of all."""
        with self.index_connection() as conn:
            return frozenset(run_id for query in ON_PAGES for (run_id,) in conn.exec_driver_sql(query))

    def sizes(self) -> Mapping[str, int]:
        """The size of each run's events in bytes."""
        found: Counter[str] = Counter()
        with self.index_connection() as conn:
            for query in SIZES:
                found.update({run_id: int(size or 0) for run_id, size in conn.exec_driver_sql(query)})
        return found

    def forget(self, run_id: str) -> None:
        """Removes everything that was recorded for a run, except the run itself."""
        self.delete_events(run_id)

    def disk_bytes(self) -> int:
        """The size of its files in bytes; 0 where a database server has them."""
        return 0

    def give_back(self) -> None:
        """Returns the space of what was removed to the file system; a database server uses it again by itself."""


def tells_of_a_partition(event: EventLogEntry) -> bool:
    """True if an event is a materialization, or a planned one, of one partition of an asset."""
    return event.dagster_event_type in OF_PARTITIONS and event.get_dagster_event().partition is not None


def _text(event: EventLogEntry) -> str:
    """The text of the event as Dagster reads it; for a partition, without what other events of its step contain."""
    found = event.dagster_event
    is_evaluation = _is_evaluation_of_a_partition(event)
    if event.dagster_event_type in FAILURES:
        return json.dumps(_without_stacks(pack_value(event)), separators=(",", ":"))
    if found is None or not (is_evaluation or tells_of_a_partition(event)):
        return serialize_value(event)
    lean = found._replace(
        logging_tags=None,
        node_handle=None,
        step_handle=None,
        step_kind_value=None,
        pid=None,
        message=None if is_evaluation else found.message,
    )
    packed = pack_value(event._replace(user_message="", dagster_event=lean))
    return json.dumps(_without_defaults(packed), separators=(",", ":"))


def _without_defaults(value: Any) -> Any:
    """A packed value without the fields whose absence means None to Dagster."""
    match value:
        case dict():
            needed = NEVER_ABSENT if "__class__" in value else value.keys()
            return {name: _without_defaults(each) for name, each in value.items() if each is not None or name in needed}
        case list():
            return [_without_defaults(each) for each in value]
        case _:
            return value


def _without_stacks(value: Any) -> Any:
    """A packed failure: what is refused on purpose is a sentence for a person, without the path through the code."""
    match value:
        case {"__class__": "SerializableErrorInfo", "cls_name": Failure.__name__, **others}:
            return {"__class__": "SerializableErrorInfo", "cls_name": Failure.__name__, **others, "stack": []}
        case dict():
            return {name: _without_stacks(each) for name, each in value.items()}
        case list():
            return [_without_stacks(each) for each in value]
        case _:
            return value


def _is_evaluation_of_a_partition(event: EventLogEntry) -> bool:
    return (
        event.dagster_event_type is DagsterEventType.ASSET_CHECK_EVALUATION
        and event.get_dagster_event().asset_check_evaluation_data.partition is not None
    )


def _checked_materialization(event: EventLogEntry) -> int | None:
    """The storage id of the materialization that an evaluation of a partition is about; None for any other event."""
    if not _is_evaluation_of_a_partition(event):
        return None
    target = event.get_dagster_event().asset_check_evaluation_data.target_materialization_data
    return None if target is None else target.storage_id


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


def gathering(instance: DagsterInstance, gathers: bool) -> AbstractContextManager[None]:
    """See `BatchedEventLog.gathering`; with another storage it changes nothing."""
    log = instance.event_log_storage
    return log.gathering(gathers) if isinstance(log, BatchedEventLog) else nullcontext()


PAUSE_S = 1.0
"""How long a run waits before it asks for a place again."""


class LivePools(SqlEventLogStorage):
    """Extends a SQL event log so that only runs whose process is at work have a place in a pool."""

    def claim_concurrency_slot(
        self, concurrency_key: str, run_id: str, step_key: str, priority: int | None = None
    ) -> ConcurrencyClaimStatus:
        """Claims a place; one of a run that has ended, or whose process of this machine is gone, is free.

        Returns:
            What became of it, after a pause where there is no place: then Dagster asks again at once.
        """
        run = self._instance.get_run_by_id(run_id)
        if run is not None and run.tags.get(tags.PROCESS) != this_process():
            self._instance.add_run_tags(run_id, {tags.PROCESS: this_process()})
        claim = super().claim_concurrency_slot(concurrency_key, run_id, step_key, priority)
        if not claim.is_claimed and self._free_places(concurrency_key):
            claim = super().claim_concurrency_slot(concurrency_key, run_id, step_key, priority)
        if claim.is_claimed:
            return claim
        with raise_execution_interrupts():
            time.sleep(PAUSE_S)
        return replace(claim, sleep_interval=0.0)

    def _free_places(self, concurrency_key: str) -> bool:
        end_abandoned_runs(self._instance)
        ended = [
            run_id
            for run_id in self.get_concurrency_info(concurrency_key).active_run_ids
            if (run := self._instance.get_run_by_id(run_id)) is None or run.is_finished
        ]
        for run_id in ended:
            self.free_concurrency_slots_for_run(run_id)
        return bool(ended)


_as_accepted = ContextVar("as_accepted", default=False)


@contextmanager
def as_accepted() -> Iterator[None]:
    """Marks that the events reported or wiped inside the block were read in the ledger."""
    token = _as_accepted.set(True)
    try:
        yield
    finally:
        _as_accepted.reset(token)


class TableColours(SqlEventLogStorage):
    """Extends a SQL event log so that a domain's tables are coloured by what was published, not by attempts."""

    _domain: str | None = None

    def colour_tables_of(self, domain: str | None) -> None:
        """Names the module of the domain whose tables are coloured by what was published; None for none."""
        self._domain = domain

    def get_latest_asset_partition_materialization_attempts_without_materializations(
        self, asset_key: AssetKey, after_storage_id: int | None = None
    ) -> Mapping[str, tuple[str, int]]:
        attempts = super().get_latest_asset_partition_materialization_attempts_without_materializations(
            asset_key, after_storage_id
        )
        shown = self._counted(asset_key, {run_id for run_id, _ in attempts.values()})
        return {partition: attempt for partition, attempt in attempts.items() if attempt[0] in shown}

    def get_latest_planned_materialization_info(self, asset_key: AssetKey, partition: str | None = None) -> Any:
        # Its run is the headline of an asset: "Failed in ..." when it has failed.
        planned = super().get_latest_planned_materialization_info(asset_key, partition)
        return planned if planned is not None and self._counted(asset_key, {planned.run_id}) else None

    def prepare_insert_event(self, event: EventLogEntry) -> Any:
        # Every event comes by here before anything of it is stored. One without a run was reported.
        if not event.run_id and event.dagster_event_type is DagsterEventType.ASSET_MATERIALIZATION:
            self._refuse_by_hand(event.get_dagster_event().asset_key)
        return super().prepare_insert_event(event)

    def wipe_asset(self, asset_key: AssetKey) -> None:
        self._refuse_by_hand(asset_key)
        super().wipe_asset(asset_key)

    def wipe_asset_partitions(self, asset_key: AssetKey, partition_keys: Sequence[str]) -> None:
        self._refuse_by_hand(asset_key)
        # Dagster's own SQL logs cannot do it. The logs of runs keep the events; the asset's pages forget them.
        with self.index_connection() as conn:
            for first in range(0, len(partition_keys), MANY):
                conn.execute(
                    Events.update()
                    .where(
                        Events.c.asset_key == asset_key.to_string(),
                        Events.c.partition.in_(partition_keys[first : first + MANY]),
                        Events.c.dagster_event_type == DagsterEventType.ASSET_MATERIALIZATION.value,
                    )
                    .values(asset_key=None, partition=None)
                )
        self.wipe_asset_cached_status(asset_key)

    def _counted(self, asset_key: AssetKey, run_ids: Collection[str]) -> frozenset[str]:
        """The runs that an asset shows, among those that have not materialized what they planned."""
        if not run_ids:
            return frozenset()
        is_a_table = self._table(asset_key) is not None
        return frozenset(
            run.run_id
            for run in self._instance.get_runs(filters=RunsFilter(run_ids=list(run_ids)))
            if not (run.is_finished and (is_a_table or REFUSED in run.tags))
        )

    def _refuse_by_hand(self, asset_key: AssetKey | None) -> None:
        table = asset_key and self._table(asset_key)
        if table and not _as_accepted.get():
            raise Refused(
                f"{table} shows what the ledger has accepted, and is not reported or wiped by hand: publications and "
                "rollbacks are shown by themselves."
            )

    def _table(self, asset_key: AssetKey) -> str | None:
        name = ".".join(asset_key.path)
        return name if self._domain is not None and name in _tables_of(self._domain) else None


@cache
def _tables_of(domain: str) -> frozenset[str]:
    """The tables and captures of a domain; none where it cannot be loaded, as then there are no assets either."""
    try:
        loaded = load_domain(domain, conditions=False)
        captured = (captured_key(source) for source in loaded.sources if source.capture is not None)
        return frozenset([*loaded.tables, *(".".join(key.path) for key in captured)])
    except BackfillError:
        return frozenset()

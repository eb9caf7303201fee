"""Storage of Dagster's runs and events, and how it is opened.

`dagster.yaml` names `HomeStorage`. Its place follows the settings, so the command line, `dagster dev` in a checkout and
a daemon elsewhere look at the same runs; and it stores events in batches (see `event_log`).
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dagster import AssetKey, DagsterInstance, EventLogEntry, Field, Noneable, StringSource, __version__

from backfill_assets.core.errors import PackageMissing
from backfill_assets.core.local_files import keep_private
from backfill_assets.core.settings import Settings
from backfill_assets.orchestration.dagster_internals import (
    ConfigurableClassData,
    DagsterSqliteStorage,
    DagsterStorage,
    NoOpComputeLogManager,
    SqliteEventLogStorage,
)
from backfill_assets.orchestration.event_log import (
    BATCH,
    BatchedEventLog,
    LivePools,
    TableColours,
    tells_of_a_partition,
)

SHOWN_PER_RUN = 20
"""Partitions of an asset that a run's own log shows one by one; the pages of the asset show all of them."""

EMPTY = f"empty-run-of-{__version__}"
"""The database of a run without events, as this version of Dagster makes it."""

WAIT_SECONDS = 60
"""How long making the files smaller waits for other processes that write."""


class HomeStorage(DagsterSqliteStorage):
    """Dagster's storage by the settings: SQLite files below `BACKFILL_HOME`, or a PostgreSQL database.

    In `dagster.yaml`, `base_dir`, `postgres_url` and `domain` take precedence over the settings.
    """

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        super().__init__(base_dir, inst_data)
        self._event_log_storage = SqliteEventLog.beside(self._event_log_storage)

    @classmethod
    def config_type(cls) -> Any:
        optional = Field(Noneable(StringSource), is_required=False)
        return {"base_dir": optional, "postgres_url": optional, "domain": optional}

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData, config_value: Any) -> DagsterStorage:  # type: ignore[override]
        # Dagster hands over events in batches only when this is set, and each process that stores events comes by here.
        os.environ.setdefault("DAGSTER_EVENT_BATCH_SIZE", str(BATCH))
        base_dir, url = config_value.get("base_dir"), config_value.get("postgres_url")
        settings = Settings.from_environment()
        # Web server and daemon load no definitions.
        keep_private(settings.home)
        if not base_dir and not url:
            base_dir, url = str(dagster_folder(settings)), settings.dagster_url
        storage = _postgres_storage(url, inst_data) if url else cls.from_local(base_dir=base_dir, inst_data=inst_data)
        log = storage.event_log_storage
        assert isinstance(log, TableColours)
        log.colour_tables_of(config_value.get("domain") or settings.domain)
        return storage


def _postgres_storage(url: str, inst_data: ConfigurableClassData) -> DagsterStorage:
    try:
        from backfill_assets.orchestration.postgres import open_storage
    except ModuleNotFoundError as error:
        raise PackageMissing(
            what="BACKFILL_DAGSTER_URL, unless it names SQLite,", package=str(error.name), extra="postgres"
        ) from error
    return open_storage(url, inst_data)


def dagster_folder(settings: Settings) -> Path:
    """The folder of Dagster's own files for these settings, and of its databases unless they are in PostgreSQL."""
    return settings.home / "dagster"


def storage_below(settings: Settings) -> Mapping[str, Any]:
    """The `storage` part of `dagster.yaml` for these settings, independent of the environment."""
    url = settings.dagster_url
    place = {"postgres_url": url} if url else {"base_dir": str(dagster_folder(settings))}
    config = {**place, "domain": settings.domain}
    return {"custom": {"module": HomeStorage.__module__, "class": HomeStorage.__name__, "config": config}}


class SqliteEventLog(TableColours, LivePools, BatchedEventLog, SqliteEventLogStorage):
    """Dagster's SQLite event log, able to put many events into one commit per database."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        super().__init__(base_dir, inst_data)
        self._shown: Counter[tuple[str, str, AssetKey | None]] = Counter()
        # A batch holds the run's database and the index open at the same time, from one thread.
        self._db_lock = threading.RLock()  # type: ignore[assignment]

    def _store(self, event: EventLogEntry) -> None:
        """Stores further events of single partitions only in the index, once the run's log shows some of them."""
        if not tells_of_a_partition(event):
            super()._store(event)
            return
        found = event.get_dagster_event()
        shown = (event.run_id, found.event_type_value, found.asset_key)
        self._shown[shown] += 1
        if self._shown[shown] <= SHOWN_PER_RUN:
            super()._store(event)
            return
        with self.index_transaction() as conn:
            key = conn.execute(self.prepare_insert_event(event)).inserted_primary_key
            assert key is not None
            event_id = key[0]
            self._store_asset_event_tags(conn, [event], [event_id])
            self._store_asset_event(conn, event, event_id)

    def sizes(self) -> Mapping[str, int]:
        files = {path.stem: path.stat().st_size for path in Path(self._base_dir).glob("*.db")}
        return {run_id: size + files.get(run_id, 0) for run_id, size in super().sizes().items()}

    def forget(self, run_id: str) -> None:
        with self.index_connection() as conn:
            self.delete_events_for_run(conn, run_id)
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self.path_for_shard(run_id)}{suffix}").unlink(missing_ok=True)
        self._initialized_dbs.discard(run_id)

    def disk_bytes(self) -> int:
        # The history of runs is in `history/runs`, the runs themselves beside it.
        return sum(path.stat().st_size for path in Path(self._base_dir).parent.rglob("*.db*"))

    def give_back(self) -> None:
        for path in (Path(self.path_for_shard("index")), Path(self._base_dir).parent / "runs.db"):
            with closing(sqlite3.connect(path, timeout=WAIT_SECONDS)) as connection:
                connection.execute("VACUUM")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _begin(self, run_id: str) -> None:
        """The database of a run begins as a copy of an empty one: Dagster takes a tenth of a second to make one."""
        parent = Path(self._base_dir).parent
        empty = parent / EMPTY
        with TemporaryDirectory(dir=parent, prefix="new-") as folder:
            if not empty.exists():
                with SqliteEventLogStorage(folder).run_connection(EMPTY):
                    pass
                Path(folder, f"{EMPTY}.db").replace(empty)
            copied = Path(folder, "copied")
            shutil.copyfile(empty, copied)
            with copied.open("rb") as file:
                os.fsync(file)
            # Another process can have begun it meanwhile.
            with suppress(FileExistsError):
                os.link(copied, self.path_for_shard(run_id))
        self._initialized_dbs.add(run_id)

    @staticmethod
    def beside(log: SqliteEventLogStorage) -> SqliteEventLog:
        return SqliteEventLog(log._base_dir)

    @contextmanager
    def _connect(self, shard: str) -> Iterator[Any]:
        if shard not in self._initialized_dbs and not Path(self.path_for_shard(shard)).exists():
            self._begin(shard)
        with self.shared(shard, super()._connect) as connection:
            yield connection


TEMPLATE = "dagster.yaml"
QUIET = {"compute_logs": {"module": NoOpComputeLogManager.__module__, "class": NoOpComputeLogManager.__name__}}
"""Compute logs are made by redirecting the process's output, which belongs to the command."""


@contextmanager
def open_instance(settings: Settings) -> Iterator[DagsterInstance]:
    """Dagster's record of runs: that of `DAGSTER_HOME`, else `<BACKFILL_HOME>/dagster`, made when it is not there."""
    given = os.environ.get("DAGSTER_HOME")
    folder = Path(given).expanduser().resolve() if given else _own_folder(settings)
    # Without DAGSTER_HOME the settings say where; with it, its `dagster.yaml` and the environment do.
    overrides: Any = QUIET if given else {**QUIET, "storage": storage_below(settings)}
    # It is not temporary: this is how Dagster opens a folder that need not be DAGSTER_HOME.
    with DagsterInstance.local_temp(str(folder), overrides=overrides) as instance:
        yield instance


def _own_folder(settings: Settings) -> Path:
    folder = dagster_folder(settings)
    if not (folder / TEMPLATE).exists():
        folder.mkdir(parents=True, exist_ok=True)
        text = resources.files("backfill_assets.orchestration").joinpath(TEMPLATE).read_text(encoding="utf-8")
        (folder / TEMPLATE).write_text(text, encoding="utf-8")
    return folder

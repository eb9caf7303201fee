"""The installed Dagster has, inside, what this project is built on; each failure says what an upgrade has changed."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster
import pytest

from backfill_assets.core.settings import PROJECT_ROOT

ORCHESTRATION = "backfill_assets.orchestration"
INTERNALS = f"{ORCHESTRATION}.dagster_internals"

OURS = (
    f"{ORCHESTRATION}.event_log.BatchedEventLog",
    f"{ORCHESTRATION}.event_log.TableColours",
    f"{ORCHESTRATION}.event_log.LivePools",
    f"{ORCHESTRATION}.storage.SqliteEventLog",
    f"{ORCHESTRATION}.storage.HomeStorage",
    f"{ORCHESTRATION}.postgres.PostgresEventLog",
    f"{ORCHESTRATION}.postgres.PostgresStorage",
)
"""Classes that Dagster calls."""

METHODS = {
    f"{INTERNALS}.SqlEventLogStorage": {
        "_event_insert_timestamp": "self event",
        "_event_to_row": "self event",
        "_has_asset_key_col_on_connection": "self conn column_name",
        "_store_asset_check_evaluation_planned": "self event event_id",
        "_store_asset_event": "self conn event event_id",
        "_store_asset_event_tags": "self conn events event_ids",
        "_store_runless_asset_check_evaluation": "self event event_id",
        "_update_asset_check_evaluation": "self event event_id",
        "claim_concurrency_slot": "self concurrency_key run_id step_key priority",
        "delete_events": "self run_id",
        "delete_events_for_run": "self conn run_id",
        "free_concurrency_slots_for_run": "self run_id",
        "get_concurrency_info": "self concurrency_key",
        "get_latest_asset_partition_materialization_attempts_without_materializations": "self asset_key "
        "after_storage_id",
        "get_latest_planned_materialization_info": "self asset_key partition",
        "has_table": "self table_name",
        "index_connection": "self",
        "index_transaction": "self",
        "prepare_insert_event": "self event",
        "store_asset_check_event": "self event event_id",
        "store_event": "self event",
        "store_event_batch": "self events",
        "wipe_asset": "self asset_key",
        "wipe_asset_cached_status": "self asset_key",
        "wipe_asset_partitions": "self asset_key partition_keys",
    },
    f"{INTERNALS}.SqliteEventLogStorage": {
        "__init__": "self base_dir inst_data",
        "_connect": "self shard",
        "path_for_shard": "self run_id",
        "store_event": "self event",
    },
    f"{INTERNALS}.DagsterSqliteStorage": {
        "__init__": "self base_dir inst_data",
        "config_type": "",
        "from_config_value": "inst_data config_value",
        "from_local": "base_dir inst_data",
    },
    "dagster_postgres.PostgresEventLogStorage": {"_connect": "self"},
}
"""The parameters of methods that are called or overridden."""

COLUMNS = {
    "SqlEventLogStorageTable": "id run_id event dagster_event_type asset_key partition",
    "AssetEventTagsTable": "event_id",
    "AssetCheckExecutionsTable": "id asset_key check_name partition run_id execution_status evaluation_event "
    "evaluation_event_timestamp evaluation_event_storage_id materialization_event_storage_id",
}
"""Columns that statements name."""

FIELDS = {
    "dagster.DagsterEvent": "logging_tags node_handle step_handle step_kind_value pid message",
    "dagster.EventLogEntry": "user_message dagster_event",
    f"{INTERNALS}.AssetCheckEvaluationTargetMaterializationData": "storage_id run_id timestamp",
}
"""What is left out of an event of one partition, and what an evaluation of a check refers to."""


def found(name: str) -> Any:
    """What has this full name."""
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(module), last)


def imported() -> Iterator[tuple[str, str]]:
    path = PROJECT_ROOT / f"{INTERNALS.replace('.', '/')}.py"
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("dagster"):
            yield from ((node.module, alias.name) for alias in node.names)


def inside(sentence: str) -> str:
    users = "batches.py, colours.py, storage.py and postgres.py beside it"
    return f"Dagster {dagster.__version__} has changed inside: {sentence}. Look at {INTERNALS}, and at {users}."


@pytest.mark.parametrize(("module", "name"), list(imported()))
def test_every_name_is_where_it_is_imported_from(module: str, name: str) -> None:
    try:
        is_there = hasattr(importlib.import_module(module), name)
    except ModuleNotFoundError:
        is_there = False
    assert is_there, inside(f"there is no {module}.{name}")


@pytest.mark.parametrize(("owner", "method"), [(owner, method) for owner in METHODS for method in METHODS[owner]])
def test_every_method_has_the_parameters_that_are_relied_upon(owner: str, method: str) -> None:
    function = getattr(found(owner), method, None)
    assert function is not None, inside(f"{owner} has no method {method}")
    parameters = " ".join(inspect.signature(function).parameters)
    assert parameters == METHODS[owner][method], inside(f"{owner}.{method} takes ({parameters})")


@pytest.mark.parametrize("name", OURS)
def test_every_method_that_overrides_one_of_dagster_is_listed_here(name: str) -> None:
    ours = found(name)
    listed = {found(owner): set(methods) for owner, methods in METHODS.items()}
    overridden = {
        method
        for method, value in vars(ours).items()
        if (inspect.isroutine(value) or isinstance(value, classmethod)) and not method.startswith("__")
        for base in ours.__mro__[1:]
        if base.__module__.startswith("dagster") and method in vars(base)
    }
    missing = [
        m for m in overridden if not any(m in methods for base, methods in listed.items() if issubclass(ours, base))
    ]
    assert missing == []


@pytest.mark.parametrize("table", COLUMNS)
def test_every_column_that_a_statement_names_is_there(table: str) -> None:
    missing = set(COLUMNS[table].split()) - {column.name for column in found(f"{INTERNALS}.{table}").columns}
    assert not missing, inside(f"the table of {table} has no column {', '.join(sorted(missing))}")


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_that_is_set_is_there(name: str) -> None:
    record = found(name)
    missing = set(FIELDS[name].split()) - set(getattr(record, "_fields", record.__annotations__))
    assert not missing, inside(f"{name} has no field {', '.join(sorted(missing))}")


def test_the_sqlite_storage_has_the_attributes_that_are_read_and_replaced(tmp_path: Path) -> None:
    storage = found(f"{INTERNALS}.DagsterSqliteStorage").from_local(base_dir=str(tmp_path))
    try:
        log = storage._event_log_storage
        missing = {"_base_dir", "_db_lock", "_initialized_dbs"} - set(vars(log))
        assert type(log) is found(f"{INTERNALS}.SqliteEventLogStorage"), inside("its SQLite storage has another log")
        assert not missing, inside(f"its SQLite event log has no {', '.join(sorted(missing))}")
    finally:
        storage.dispose()


def test_the_states_of_a_check_are_those_that_are_written() -> None:
    states = found(f"{INTERNALS}.AssetCheckExecutionRecordStatus")
    written = {name: states[name].value for name in ("PLANNED", "SUCCEEDED", "FAILED") if name in states.__members__}
    assert written == {name: name for name in ("PLANNED", "SUCCEEDED", "FAILED")}, inside(f"states are {list(states)}")

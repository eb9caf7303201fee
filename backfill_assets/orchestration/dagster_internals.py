"""Internals of Dagster that this package uses because the public API has no equivalent.

- A storage of one's own: Dagster loads one that `dagster.yaml` names, and has no public base class for it.
- The tables of its event log, and how an event becomes text, for the batches of `event_log`.
- The materialization that an evaluation of a check is about, without which the UI counts a check as not executed.
- Which events are about a run as a whole.
- The origin of a run, which says to which code location it belongs and where its pages are.
- How a run asks for a place in a pool, and how it notices meanwhile that it is terminated, for `event_log`.
- The type of a job of assets, and a log of what a process prints that keeps nothing.

No other module imports them from Dagster. `unit/orchestration/test_internals.py` compares the installed version with
what is relied upon, also of the private methods that `event_log`, `storage` and `postgres` override.
"""

from __future__ import annotations

import sys

from dagster import DagsterRun
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluationTargetMaterializationData as AssetCheckEvaluationTargetMaterializationData,
)
from dagster._core.definitions.unresolved_asset_job_definition import (
    UnresolvedAssetJobDefinition as UnresolvedAssetJobDefinition,
)
from dagster._core.errors import raise_execution_interrupts as raise_execution_interrupts
from dagster._core.events import PIPELINE_EVENTS as PIPELINE_EVENTS
from dagster._core.remote_origin import ManagedGrpcPythonEnvCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin
from dagster._core.storage.asset_check_execution_record import (
    AssetCheckExecutionRecordStatus as AssetCheckExecutionRecordStatus,
)
from dagster._core.storage.base_storage import DagsterStorage as DagsterStorage
from dagster._core.storage.event_log import SqlEventLogStorage as SqlEventLogStorage
from dagster._core.storage.event_log.schema import AssetCheckExecutionsTable as AssetCheckExecutionsTable
from dagster._core.storage.event_log.schema import AssetEventTagsTable as AssetEventTagsTable
from dagster._core.storage.event_log.schema import SqlEventLogStorageTable as SqlEventLogStorageTable
from dagster._core.storage.event_log.sqlite.sqlite_event_log import SqliteEventLogStorage as SqliteEventLogStorage
from dagster._core.storage.noop_compute_log_manager import NoOpComputeLogManager as NoOpComputeLogManager
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage as DagsterSqliteStorage
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._serdes import ConfigurableClassData as ConfigurableClassData
from dagster._utils.concurrency import ConcurrencyClaimStatus as ConcurrencyClaimStatus
from dagster_shared.record import replace as replace
from dagster_shared.serdes import pack_value as pack_value
from dagster_shared.serdes import serialize_value as serialize_value

REPOSITORY = "__repository__"
"""The one of a module with definitions, which addresses of pages leave out."""

LOCATION = "backfill_assets"
"""The code location, as `workspace.yaml` and `pyproject.toml` name it."""


def origin_of(job: str) -> RemoteJobOrigin:
    """Where a job of the code location comes from, for a run that a command executes."""
    target = LoadableTargetOrigin(executable_path=sys.executable, module_name="backfill_assets.definitions")
    location = ManagedGrpcPythonEnvCodeLocationOrigin(loadable_target_origin=target, location_name=LOCATION)
    return RemoteJobOrigin(RemoteRepositoryOrigin(location, REPOSITORY), job)


def place_of(run: DagsterRun) -> str:
    """The code location of a run, as addresses of Dagster's pages name it; empty for a run of none."""
    if run.remote_job_origin is None:
        return ""
    origin = run.remote_job_origin.repository_origin
    location = origin.code_location_origin.location_name
    return location if origin.repository_name == REPOSITORY else f"{origin.repository_name}@{location}"

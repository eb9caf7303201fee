"""Resources of a Dagster run: the workspace, whose Spark session Dagster provides, and the published tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from dagster import (
    AssetCheckExecutionContext,
    AssetExecutionContext,
    ConfigurableResource,
    InitResourceContext,
    OpExecutionContext,
    ResourceDefinition,
    SensorEvaluationContext,
    get_dagster_logger,
)
from dagster_deltalake import DeltaTableResource, LocalConfig, S3Config
from dagster_deltalake.config import ClientConfig
from dagster_pyspark import LazyPySparkResource

from backfill_assets.application.execute import Executed, execute
from backfill_assets.application.parts import Part
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.lease import this_process
from backfill_assets.core.progress import Listener, hearing_waits, no_listener
from backfill_assets.core.settings import Settings
from backfill_assets.core.spark import session_on_server, spark_conf
from backfill_assets.domain import Domain
from backfill_assets.lake.tables import Lake
from backfill_assets.orchestration import tags
from backfill_assets.workspace import Workspace

SESSION = tags.prefixed("session")
PYSPARK = tags.prefixed("pyspark")


class Perform(Protocol):
    """Executes parts of a run, as `application.execute.execute` does."""

    def __call__(
        self, ws: Workspace, run_id: str, parts: Iterable[Part], /, *, actor: str, listener: Listener = no_listener
    ) -> Executed:
        """See `execute`."""


@dataclass(frozen=True, kw_only=True)
class Session:
    """The session of the assets of one Dagster run."""

    workspace: Workspace
    progress: Listener = no_listener  #: Notified of each step, in addition to the run's log.
    #: On whose behalf this process executes a run; empty where Dagster's daemon or a person launched it.
    acts_as: str = ""
    #: The errors of the application, in order, for the caller of a run in this process.
    errors: list[BackfillError] = field(default_factory=list)
    perform: Perform = execute  #: Executes parts of a run, or gives what another thread has executed.
    executes: bool = True  #: True if its assets execute parts themselves.


def session_of(
    context: AssetCheckExecutionContext | AssetExecutionContext | OpExecutionContext | SensorEvaluationContext,
) -> Session:
    """The session of a run, or of the tick of a sensor."""
    found: Session = getattr(context.resources, SESSION)
    return found


def table_key(table: str) -> str:
    """The resource that loads a published table."""
    return f"{table.replace('.', '_')}_table"


def run_resources(settings: Settings, domain: Domain, open_session: Callable[[], Session]) -> Mapping[str, Any]:
    """The resources of the definitions, by key.

    Args:
        open_session: Called once per run and once per evaluation of a sensor.
    """

    def session(context: InitResourceContext) -> Iterator[Session]:
        opened = open_session()
        run, process = context.run, this_process()
        if run is not None and context.instance is not None and run.tags.get(tags.PROCESS) != process:
            # So that it is known when the process is gone: Dagster's launcher of processes does not look.
            context.instance.add_run_tags(run.run_id, {tags.PROCESS: process})
        pyspark: LazyPySparkResource = getattr(context.resources, PYSPARK)
        settings = opened.workspace.settings
        workspace = replace(opened.workspace, open_session=lambda: session_on_server(settings) or pyspark.spark_session)
        # A command that records its work has a terminal, where its waits are told.
        hear = nullcontext() if opened.acts_as else hearing_waits(get_dagster_logger("backfill").info)
        try:
            with hear:
                yield replace(opened, workspace=workspace)
        finally:
            workspace.close()

    lake = Lake(root=settings.lake, access=settings.access)
    storage, client = _storage(settings), ClientConfig(allow_http=settings.access.endpoint.startswith("http://"))
    remote = {"spark.remote": settings.spark_remote} if settings.spark_remote else {}
    tables = {
        table_key(name): _fixed(DeltaTableResource(url=lake.url(name), storage_options=storage, client_options=client))
        for name in domain.tables
    }
    return {
        # Lazy: a publication needs no Spark, and starting it takes seconds.
        PYSPARK: _fixed(LazyPySparkResource(spark_config={**spark_conf(settings), **remote})),
        SESSION: ResourceDefinition(resource_fn=session, required_resource_keys={PYSPARK}, config_schema={}),
        **tables,
    }


def _storage(settings: Settings) -> LocalConfig | S3Config:
    """The storage by which Dagster's resource of a table reaches it."""
    if isinstance(settings.lake, Path):
        return LocalConfig()
    access = settings.access
    return S3Config(
        provider="s3",
        bucket=settings.lake.bucket,
        endpoint=access.endpoint or None,
        region=access.region or None,
        access_key_id=access.access_key or None,
        secret_access_key=access.secret_key or None,
        token=access.session_token or None,
    )


def _fixed(resource: ConfigurableResource[Any]) -> ResourceDefinition:
    """A resource of which a launch can configure nothing: the settings of Spark decide what rows mean."""
    return ResourceDefinition(resource_fn=lambda _: resource, config_schema={})

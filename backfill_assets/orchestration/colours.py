"""Colours of the tables that readers know: green is what the ledger has accepted, and nothing is red.

Dagster paints a partition as failed when the newest run that targeted it failed, whichever step did: a refusal, a
blocked gate or a process that died would paint rows red that are accepted and unchanged. What failed is shown where it
failed: on the run, on the candidate, and on the check of the gate. A refusal changed nothing, and paints nothing.
Dagster's pages also offer to report a materialization and to wipe some: a person cannot do either to a table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

from dagster import AssetKey, DagsterEventType, EventLogEntry, RunsFilter

from backfill_assets.core.errors import BackfillError, Refused
from backfill_assets.domain.load import load_domain
from backfill_assets.orchestration.dagster_internals import SqlEventLogStorage
from backfill_assets.orchestration.dagster_internals import SqlEventLogStorageTable as Events
from backfill_assets.orchestration.tags import REFUSED

MANY = 500
"""Partitions that one statement names."""

_as_accepted = ContextVar("as_accepted", default=False)


@contextmanager
def as_accepted() -> Iterator[None]:
    """What is reported or wiped inside was read in the ledger."""
    token = _as_accepted.set(True)
    try:
        yield
    finally:
        _as_accepted.reset(token)


class TableColours(SqlEventLogStorage):
    """What a SQL event log needs so that a domain's tables are coloured by what was published, not by attempts."""

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
        """Of the runs that have not materialized what they planned, those that an asset shows."""
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
                f"{table} shows what the ledger has accepted, and nobody reports or wipes it by hand: publications and "
                "rollbacks are shown by themselves."
            )

    def _table(self, asset_key: AssetKey) -> str | None:
        """The table that an asset is; None for any other asset."""
        name = ".".join(asset_key.path)
        return name if self._domain is not None and name in _tables_of(self._domain) else None


@cache
def _tables_of(domain: str) -> frozenset[str]:
    """The tables of a domain; none where it cannot be loaded, as then there are no assets either."""
    try:
        return frozenset(load_domain(domain, conditions=False).tables)
    except BackfillError:
        return frozenset()

"""Check `fresh` of published tables: which partitions no longer follow from the present, shown where operators look.

A partition that is stale is accepted all the same, so that the check only warns. A sensor repeats what `backfill stale`
finds, for tables of which something has changed since its last tick; the check can be launched by hand as well.
"""

# No postponed annotations here: Dagster compares the annotation of `context` with the class itself.

import time
from collections.abc import Iterable
from typing import Any

from dagster import (
    AssetCheckEvaluation,
    AssetCheckExecutionContext,
    AssetCheckKey,
    AssetChecksDefinition,
    AssetCheckSeverity,
    AssetKey,
    DagsterInstance,
    Output,
    asset_check,
)

from backfill_assets.calendar.partitions import count_of
from backfill_assets.core.next_steps import Command, do
from backfill_assets.domain import DerivedTable
from backfill_assets.orchestration.event_log import BATCH, BatchedEventLog, batches, one_commit
from backfill_assets.orchestration.events import targets
from backfill_assets.orchestration.partitions import OfferedDays, key_of, published_key, table_partitions
from backfill_assets.orchestration.resources import SESSION, session_of
from backfill_assets.report.command_line import words_of
from backfill_assets.report.stale import Freshness, freshness
from backfill_assets.workspace import Workspace

FRESH = "fresh"
_FOLLOWS = "Follows from the present inputs, code, configuration and references."


def fresh_key(table: DerivedTable) -> AssetCheckKey:
    """The check of a table."""
    return AssetCheckKey(published_key(table), FRESH)


def fresh_checks(tables: Iterable[DerivedTable], *, days: OfferedDays) -> list[AssetChecksDefinition]:
    """The check of each table, which reports every partition by itself."""
    return [_check(table, days) for table in tables]


def _check(table: DerivedTable, days: OfferedDays) -> AssetChecksDefinition:
    @asset_check(
        asset=published_key(table),
        name=FRESH,
        description="Whether each partition still follows from its inputs, code, configuration and references.",
        partitions_def=table_partitions(table, days),
        required_resource_keys={SESSION},
    )
    def fresh(context: AssetCheckExecutionContext) -> Any:
        ws = session_of(context).workspace
        (found,) = freshness(ws, table.name)
        report(ws, found, context.instance)
        # No `AssetCheckResult`: Dagster would look for the partitions of the launch, which are none.
        yield _of_table(published_key(table), found)
        yield Output(None)

    return fresh


def _of_table(key: AssetKey, found: Freshness) -> AssetCheckEvaluation:
    stale = count_of(len(found.stale), "partition")
    follow = "follows" if len(found.stale) == 1 else "follow"
    said = f"{stale} no longer {follow} from the present. Next: {words_of(do(Command.STALE, found.table))}"
    return AssetCheckEvaluation(
        asset_key=key,
        check_name=FRESH,
        passed=not found.stale,
        severity=AssetCheckSeverity.WARN,
        description=said if found.stale else _FOLLOWS,
    )


def report(ws: Workspace, found: Freshness, instance: DagsterInstance) -> None:
    """Reports the status of every accepted partition of a table; of the table alone where the log can hold no more."""
    table = ws.domain.derived_table(found.table)
    key = published_key(table)
    if not isinstance(instance.event_log_storage, BatchedEventLog):
        # Dagster's own event log takes one evaluation of a partition that no run makes, and refuses the next one.
        instance.report_runless_asset_event(_of_table(key, found))
        return
    on = targets(instance, key, "", time.time())
    for batch in batches(found.accepted, BATCH):
        with one_commit(instance):
            for partition in batch:
                why = found.stale.get(partition)
                instance.report_runless_asset_event(
                    AssetCheckEvaluation(
                        asset_key=key,
                        check_name=FRESH,
                        passed=why is None,
                        severity=AssetCheckSeverity.WARN,
                        partition=key_of(partition),
                        description=f"No longer follows: {why}." if why else _FOLLOWS,
                        target_materialization_data=on.get(key_of(partition)),
                    )
                )

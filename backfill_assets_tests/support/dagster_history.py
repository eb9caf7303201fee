"""A long run as Dagster records it: three assets over many days, with gates; what they report is made up."""

# No postponed annotations here: Dagster compares the annotation of `context` with the class itself.

from collections.abc import Collection, Iterator, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from dagster import (
    AssetCheckKey,
    AssetExecutionContext,
    AssetKey,
    AssetsDefinition,
    BackfillPolicy,
    DagsterInstance,
    ExecuteInProcessResult,
    asset,
    materialize,
)

from backfill_assets.calendar.partitions import Grain
from backfill_assets.domain import Gate, NotNull
from backfill_assets.ledger.findings import Finding, GateResult
from backfill_assets.orchestration.events import ended_checks, gate_events, gate_specs, materialized
from backfill_assets.orchestration.launch import SILENT
from backfill_assets.orchestration.metadata import Numbers
from backfill_assets.orchestration.partitions import OfferedDays, partitions_definition, relied_upon
from backfill_assets.orchestration.tags import partition_range

RUN_ID = "sums-20200101-0a1b2c"
FIRST = date(2020, 1, 1)
STAGED, GATED, PUBLISHED = (AssetKey([folder, "sums"]) for folder in ("candidate", "validation", "silver"))


def days(count: int, first: date = FIRST) -> tuple[date, ...]:
    """So many days in a row."""
    return tuple(first + timedelta(days=n) for n in range(count))


def gates(count: int) -> tuple[Gate, ...]:
    """So many gates."""
    return tuple(NotNull(column=f"column_{n}") for n in range(count))


def results(partitions: Sequence[date], over: Sequence[Gate], failing: Collection[date] = ()) -> list[GateResult]:
    """What the gates found; the first one fails on the given days."""
    return [
        GateResult(
            run_id=RUN_ID,
            partition=day,
            gate=gate.name,
            blocking=False,
            passed=n > 0 or day not in failing,
            digest="0" * 64,
            finding=Finding.NULLS,
            observed={
                "column": gate.name,
                "rows": 12_345,
                "violating_rows": 0 if n > 0 or day not in failing else 1,
                "accepted_rows": 12_340,
                "added": 5,
                "removed": 0,
                "changed": 17,
                "unchanged": 12_323,
                "changed_columns": {"amount": 12, "state": 5},
            },
        )
        for n, gate in enumerate(over)
        for day in partitions
    ]


def record_run(
    instance: DagsterInstance, partitions: Sequence[date], over: Sequence[Gate], failing: Collection[date] = ()
) -> ExecuteInProcessResult:
    """Executes the three assets over the days, without gaps, as one Dagster run."""
    numbers = Numbers(
        of_run={"run_id": RUN_ID, "publication_id": f"pub-{RUN_ID}"},
        by_partition={day: {"rows": 12_345, "added": 5, "removed": 0, "changed": 17} for day in partitions},
    )
    return materialize(
        _assets(partitions, numbers, over, results(partitions, over, failing)),
        instance=instance,
        tags=dict(partition_range(tuple(partitions))),
        run_config=SILENT,
    )


def _assets(
    partitions: Sequence[date], numbers: Numbers, over: Sequence[Gate], found: Sequence[GateResult]
) -> list[AssetsDefinition]:
    daily = partitions_definition(Grain.DAILY, OfferedDays(first=FIRST))
    with relied_upon():
        one_run = BackfillPolicy.single_run()
        checks = gate_specs(GATED, over, daily)

        @asset(key=STAGED, partitions_def=daily, backfill_policy=one_run, output_required=False)
        def staged(context: AssetExecutionContext) -> Iterator[Any]:
            yield from materialized(context, STAGED, partitions, numbers)

        @asset(
            key=GATED,
            deps=[STAGED],
            partitions_def=daily,
            backfill_policy=one_run,
            output_required=False,
            check_specs=checks,
        )
        def gated(context: AssetExecutionContext) -> Iterator[Any]:
            yield from materialized(context, GATED, partitions, numbers)
            yield from gate_events(context, GATED, Grain.DAILY, found, links={})
            yield from ended_checks(GATED, over)

        @asset(key=PUBLISHED, deps=[GATED], partitions_def=daily, backfill_policy=one_run, output_required=False)
        def published(context: AssetExecutionContext) -> Iterator[Any]:
            yield from materialized(context, PUBLISHED, partitions, numbers)

    return [staged, gated, published]


def size_of(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def latest_check(instance: DagsterInstance, key: AssetCheckKey, partition: str | None) -> Any:
    """The newest execution of a check for a partition; with None, of a check without partitions."""
    found = instance.event_log_storage.get_asset_check_execution_history(key, limit=100_000)
    return next(record for record in found if record.partition == partition)


def statuses(instance: DagsterInstance, gate: str) -> dict[str, str]:
    """The status of a gate by partition, as Dagster's pages work it out."""
    key = AssetCheckKey(GATED, gate)
    daily = partitions_definition(Grain.DAILY, OfferedDays(first=FIRST))
    state = instance.event_log_storage.get_asset_check_state([(key, daily)])[key]
    return {
        partition: status.value
        for status, subset in state.subsets.items()
        for partition in subset.subset_value.get_partition_keys()
    }

"""Events that an asset yields, so that Dagster shows the numbers of each partition and the status of each gate."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import Any

import dagster as dg

from backfill_assets.core.errors import NotApproved
from backfill_assets.core.identity import sha256_text
from backfill_assets.domain import Gate
from backfill_assets.ledger.findings import GateResult
from backfill_assets.ledger.records import RunRecord
from backfill_assets.orchestration.checks import evaluations, gate_specs, summaries, targets
from backfill_assets.orchestration.described import Links, Numbers
from backfill_assets.orchestration.event_log import BATCH, TableColours, as_accepted, batches, one_commit
from backfill_assets.orchestration.next_steps import explained, linked
from backfill_assets.orchestration.partitions import key_of
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.partitions import Grain, describe
from backfill_assets.report.advice import next_step_of
from backfill_assets.report.words.states import expired_words

Events = Iterator[Any]
DATA_VERSION_TAG = "dagster/data_version"


def materialized(
    context: dg.AssetExecutionContext, key: dg.AssetKey, partitions: Iterable[date], numbers: Numbers
) -> Events:
    """The materialization of exactly these partitions, each with its own numbers.

    An output would speak for the whole range that the Dagster run names. So where a run has gaps, each partition is
    reported by itself and there is no output; an asset after it in the same Dagster run would be skipped, which is why
    `launch` gives each a run of its own and `runs` refuses a launch of several.
    """
    keys = [key_of(partition) for partition in partitions]
    own = {key_of(partition): metadata for partition, metadata in numbers.by_partition.items()}
    if keys == list(context.partition_keys):
        for partition_key, metadata in own.items():
            context.add_asset_metadata(metadata, asset_key=key, partition_key=partition_key)
        # Of one output there is one version, also for many partitions: a digest of what they all hold.
        yield dg.MaterializeResult(asset_key=key, metadata=numbers.of_run, data_version=_data_version(own))
        return
    for batch in batches(keys, BATCH):
        with one_commit(context.instance):
            for partition_key in batch:
                metadata = {**numbers.of_run, **own.get(partition_key, {})}
                version = _data_version({partition_key: metadata})
                version_tags = {DATA_VERSION_TAG: version.value} if version else None
                yield dg.AssetMaterialization(
                    asset_key=key, partition=partition_key, metadata=metadata, tags=version_tags
                )


def expired(
    context: dg.AssetExecutionContext, key: dg.AssetKey, manifest: Manifest, numbers: Numbers
) -> Iterator[dg.AssetObservation]:
    """That the snapshots of a run have expired, which are not materialized any more."""
    keys = [key_of(partition) for partition in manifest.partitions]
    said = expired_words(manifest.run_id)
    for partition_key in keys:
        yield dg.AssetObservation(key, description=said, partition=partition_key, metadata=numbers.of_run)
    forget(context.instance, key, keys)


def forget(instance: dg.DagsterInstance, key: dg.AssetKey, partitions: Iterable[str]) -> None:
    """Takes back that partitions are materialized; Dagster's own storages cannot, and observations say it there."""
    if isinstance(instance.event_log_storage, TableColours) and (keys := list(partitions)):
        with as_accepted():
            instance.wipe_asset_partitions(key, keys)


def _data_version(by_partition: Mapping[str, Mapping[str, Any]]) -> dg.DataVersion | None:
    """The content of some partitions as a version: the checksum of one, a digest of those of several."""
    checksums = [str(metadata.get("checksum", "")) for metadata in by_partition.values()]
    if not checksums or not all(checksums):
        return None
    return dg.DataVersion(checksums[0] if len(checksums) == 1 else sha256_text("|".join(checksums)))


def waits(
    context: dg.AssetExecutionContext, key: dg.AssetKey, run: RunRecord, waiting: NotApproved, *, links: Links
) -> dg.AssetObservation:
    """That a run has passed its gates and waits for an approval: in the log of the Dagster run, and on the table."""
    sentence = f"PASSED, waiting for approval by another person than the requester: {explained(waiting)}"
    context.log.warning(sentence)
    return dg.AssetObservation(
        asset_key=key,
        description=sentence,
        metadata={
            "run_id": run.run_id,
            "partitions": describe(run.manifest.grain, run.manifest.partitions),
            **linked(next_step_of(waiting), context.run),
            **links,
        },
    )


def gate_events(
    context: dg.AssetExecutionContext, key: dg.AssetKey, grain: Grain, results: Sequence[GateResult], *, links: Links
) -> Events:
    """The status of each gate for each partition, and one evaluation per gate that sums them up for the run."""
    on = targets(context.instance, key, context.run.run_id, time.time())
    for batch in batches(evaluations(key, results, on, links=links), BATCH):
        with one_commit(context.instance):
            yield from batch
    yield from summaries(key, grain, results, links=links)


def ended_checks(key: dg.AssetKey, gates: Iterable[Gate]) -> Events:
    """Ends the output of every check; an evaluation by itself leaves it open, and the step would fail for it."""
    for spec in gate_specs(key, gates, None):
        yield dg.Output(None, output_name=spec.get_python_identifier())

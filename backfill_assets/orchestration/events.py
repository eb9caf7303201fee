"""Events of assets, so that Dagster shows the numbers of each partition and the status of each gate.

The checks report results of the ledger. The ledger refuses to publish a blocked candidate, independently of the order
in which Dagster runs assets.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import Any

import dagster as dg

from backfill_assets.calendar.partitions import Grain, Partitions, count_of, describe
from backfill_assets.core.errors import NotApproved
from backfill_assets.core.grouped import grouped
from backfill_assets.core.identity import sha256_text
from backfill_assets.core.next_steps import Command, do
from backfill_assets.domain import Gate, Table
from backfill_assets.ledger.findings import Finding, GateResult
from backfill_assets.ledger.records import RunRecord
from backfill_assets.orchestration.dagster_internals import AssetCheckEvaluationTargetMaterializationData as Target
from backfill_assets.orchestration.event_log import (
    BATCH,
    BatchedEventLog,
    TableColours,
    as_accepted,
    batches,
    one_commit,
)
from backfill_assets.orchestration.metadata import REPORT, Links, Numbers, names_rows, report_link, shown, violations
from backfill_assets.orchestration.next_steps import explained_in_dagster, linked
from backfill_assets.orchestration.partitions import key_of, published_key
from backfill_assets.planning.manifest import Manifest
from backfill_assets.report.command_line import words_of
from backfill_assets.report.gates_since import check_of, fails_gates
from backfill_assets.report.measured import changed_columns, outcome_of
from backfill_assets.report.page import facts
from backfill_assets.report.page import table as as_table
from backfill_assets.report.values import as_sentence
from backfill_assets.report.words.states import expired_words
from backfill_assets.report.words.verdicts import verdict_words
from backfill_assets.workspace import Workspace

Events = Iterator[Any]
DATA_VERSION_TAG = "dagster/data_version"

MOST_FAILED_ROWS = 100
ROWS_THAT_FAIL = "rows that fail"


def gate_specs(
    asset: dg.AssetKey, gates: Iterable[Gate], partitions: dg.PartitionsDefinition[str] | None
) -> Sequence[dg.AssetCheckSpec]:
    """The checks of an asset: one per gate, blocking as declared."""
    return [
        dg.AssetCheckSpec(
            name=gate.name,
            asset=asset,
            description=as_sentence(gate.demands),
            blocking=gate.blocking,
            partitions_def=partitions,
        )
        for gate in gates
    ]


def targets(instance: dg.DagsterInstance, asset: dg.AssetKey, run_id: str, at: float) -> Mapping[str, Target]:
    """The latest materialization of each partition; without it the UI counts a check as not executed."""
    latest = instance.get_latest_storage_id_by_partition(asset, dg.DagsterEventType.ASSET_MATERIALIZATION)
    return {key: Target(storage_id=storage_id, run_id=run_id, timestamp=at) for key, storage_id in latest.items()}


def evaluations(
    asset: dg.AssetKey, results: Iterable[GateResult], on: Mapping[str, Target], *, links: Links
) -> Iterator[dg.AssetCheckEvaluation]:
    """One evaluation per gate and partition, in a sentence; of some that failed also what was observed, with links."""
    failed: Counter[str] = Counter()
    for result in sorted(_declared(results), key=lambda result: (result.gate, result.partition)):
        key = key_of(result.partition)
        failed[result.gate] += not result.passed
        yield dg.AssetCheckEvaluation(
            asset_key=asset,
            check_name=result.gate,
            passed=result.passed,
            severity=_severity(result.blocking),
            blocking=result.blocking,
            partition=key,
            description=as_sentence(verdict_words(result)),
            metadata={"violations": violations(result), **_beside_usual(result)}
            if result.passed or failed[result.gate] > MOST_FAILED_ROWS
            else {
                "violations": violations(result),
                **_beside_usual(result),
                **_observed(result),
                **_linked(result, links),
            },
            target_materialization_data=on.get(key),
        )


_BESIDE_USUAL = ("value", "usual", "low", "high")


def _beside_usual(result: GateResult) -> Mapping[str, float]:
    """The value of a partition, the usual one, and its bounds, for a gate on the usual; nothing for other gates."""
    if not all(name in result.observed for name in _BESIDE_USUAL):
        return {}
    return {name: float(result.observed[name]) for name in _BESIDE_USUAL}


def summaries(
    asset: dg.AssetKey, grain: Grain, results: Iterable[GateResult], *, links: Links
) -> Iterator[dg.AssetCheckEvaluation]:
    """One evaluation per gate for a whole run, naming the partitions that failed, with links where some did."""
    for gate, found in grouped((result.gate, result) for result in _declared(results)).items():
        failed = [result for result in found if not result.passed]
        yield dg.AssetCheckEvaluation(
            asset_key=asset,
            check_name=gate,
            passed=not failed,
            severity=_severity(found[0].blocking),
            blocking=found[0].blocking,
            description=as_sentence(outcome_of(grain, found))
            if not failed
            else f"{outcome_of(grain, found)}: {describe(grain, (result.partition for result in failed))}. "
            f"{'Keys of rows that fail' if any(map(names_rows, failed)) else 'The report'}: "
            f"{words_of(do(Command.REPORT, failed[0].run_id))}",
            metadata={
                "partitions": len(found),
                "failed_partitions": len(failed),
                "violations": sum(map(violations, found)),
                **_failed_rows(failed),
                **(links if failed else {}),
            },
        )


def of_readers(ws: Workspace, table: Table, on: Target | None = None) -> Iterator[dg.AssetCheckEvaluation]:
    """One evaluation per gate of the rows that readers of a table see now, whichever runs they came from.

    A gate that is younger than all of these rows has judged none, and has no evaluation.

    Args:
        on: The latest materialization, where it is of another Dagster run: pages count a check of an earlier one as
            not executed.
    """
    with ws.ledger.read() as tx:
        judged, every = tx.candidates.of_accepted(table.name)
        accepted = len(tx.versions.claims(table.name))
        checked = {each.gate for each in fails_gates(ws, tx, [table])}
    grain, failed_of = table.partition.grain, grouped((result.gate, result) for result in every)
    for gate in table.gates:
        if gate.name not in judged:
            continue
        failed = failed_of.get(gate.name, [])
        count = judged[gate.name]
        said = f"{count_of(count, grain.noun)} that readers see passed"
        if failed:
            days = describe(grain, (result.partition for result in failed))
            said = f"{len(failed):,} of {count_of(count, grain.noun)} that readers see failed: {days}"
        said += f"; {count_of(accepted - count, grain.noun)} came before this gate" if accepted > count else ""
        newest = failed[-1].run_id if failed else ""
        where = f"The report: {words_of(do(Command.REPORT, newest))}"
        if failed and gate.name in checked:
            partitions = Partitions.of(grain, (result.partition for result in failed))
            where = f"Found by: {words_of(check_of(table, partitions, [gate.name]))}"
        yield dg.AssetCheckEvaluation(
            asset_key=published_key(table),
            check_name=gate.name,
            passed=not failed,
            severity=_severity(gate.blocking),
            blocking=gate.blocking,
            description=f"{said}. {where}" if failed else as_sentence(said),
            metadata={
                "partitions": count,
                "failed_partitions": len(failed),
                "violations": sum(map(violations, failed)),
                **_failed_rows(failed),
                **(report_link(ws.settings, newest) if failed else {}),
            },
            target_materialization_data=on,
        )


def _declared(results: Iterable[GateResult]) -> Iterator[GateResult]:
    """Those of gates that a table declares. A pilot has one more, for which the asset has no check."""
    return (result for result in results if result.finding is not Finding.PILOTED)


def _severity(blocking: bool) -> dg.AssetCheckSeverity:
    return dg.AssetCheckSeverity.ERROR if blocking else dg.AssetCheckSeverity.WARN


def _failed_rows(failed: Sequence[GateResult]) -> Mapping[str, Any]:
    """The partitions that failed, the worst first."""
    worst = sorted(failed, key=lambda result: (-violations(result), result.partition))[:MOST_FAILED_ROWS]
    rows = [(result.partition, violations(result), verdict_words(result)) for result in worst]
    heads = ["partition", "violations", "verdict"]
    return {"failed": shown(as_table(heads, rows, numbers=["violations"]))} if rows else {}


def _linked(result: GateResult, links: Links) -> Links:
    """The links; the report is where rows that fail are shown by their keys, which only the ledger can erase."""
    return {ROWS_THAT_FAIL if label == REPORT and names_rows(result) else label: link for label, link in links.items()}


def _observed(result: GateResult) -> Mapping[str, Any]:
    """Plain numbers and changed columns, which show without a click; what is nested otherwise behind one."""
    changed = changed_columns([result])
    observed = {name: value for name, value in result.observed.items() if not (changed and name == "changed_columns")}
    nested = {name: value for name, value in observed.items() if isinstance(value, (dict, list, tuple))}
    plain = facts(*((name.replace("_", " "), value) for name, value in observed.items() if name not in nested))
    columns = as_table(["changed column", "rows"], changed.items(), numbers=["rows"])
    return {
        **({"observed": shown(plain, columns)} if plain.pairs or changed else {}),
        **{name: dg.MetadataValue.json(value) for name, value in nested.items() if value},
    }


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
    """Reports that the snapshots of a run have expired, which are not materialized any more."""
    keys = [key_of(partition) for partition in manifest.partitions]
    said = expired_words(manifest.run_id)
    for partition_key in keys:
        yield dg.AssetObservation(key, description=said, partition=partition_key, metadata=numbers.of_run)
    forget(context.instance, key, keys)


def forget(instance: dg.DagsterInstance, key: dg.AssetKey, partitions: Iterable[str]) -> None:
    """Takes back that partitions are materialized; Dagster's own storages cannot, and observations say it there."""
    log = instance.event_log_storage
    if isinstance(log, TableColours) and isinstance(log, BatchedEventLog) and (keys := list(partitions)):
        with as_accepted():
            instance.wipe_asset_partitions(key, keys)
        # Whether they are fresh is a check of each of them.
        log.forget_checks(key, partitions=keys)


def show_checks(ws: Workspace, table: Table, *, instance: dg.DagsterInstance) -> None:
    """Makes the checks of a table show the gates of what readers see, after a change that no run of its asset made."""
    key = published_key(table)
    latest = [each.asset_entry.last_materialization_record for each in instance.get_asset_records([key])]
    on = [Target(storage_id=each.storage_id, run_id=each.run_id, timestamp=each.timestamp) for each in latest if each]
    found = tuple(of_readers(ws, table, on[0] if on else None))
    with one_commit(instance):
        for evaluation in found:
            instance.report_runless_asset_event(evaluation)
    if isinstance(instance.event_log_storage, BatchedEventLog):
        judged = {evaluation.check_name for evaluation in found}
        instance.event_log_storage.forget_checks(key, names={gate.name for gate in table.gates} - judged)


def _data_version(by_partition: Mapping[str, Mapping[str, Any]]) -> dg.DataVersion | None:
    """The content of some partitions as a version: the checksum of one, a digest of those of several."""
    checksums = [str(metadata.get("checksum", "")) for metadata in by_partition.values()]
    if not checksums or not all(checksums):
        return None
    return dg.DataVersion(checksums[0] if len(checksums) == 1 else sha256_text("|".join(checksums)))


def waits(
    context: dg.AssetExecutionContext, key: dg.AssetKey, run: RunRecord, waiting: NotApproved, *, links: Links
) -> dg.AssetObservation:
    """Reports that a run has passed its gates and waits for an approval: in the log of the Dagster run, and on the
    table."""
    sentence = f"PASSED, waiting for approval by another person than the requester: {explained_in_dagster(waiting)}"
    context.log.warning(sentence)
    return dg.AssetObservation(
        asset_key=key,
        description=sentence,
        metadata={
            "run_id": run.run_id,
            "partitions": describe(run.manifest.grain, run.manifest.partitions),
            **linked(waiting.next_step, context.run),
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

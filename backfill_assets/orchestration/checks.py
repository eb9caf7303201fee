"""Asset checks: gate results with a status for every partition.

The checks report results of the ledger. The ledger refuses to publish a blocked candidate, independently of the order
in which Dagster runs assets.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import dagster as dg

from backfill_assets.domain import Gate
from backfill_assets.ledger.findings import Finding, GateResult
from backfill_assets.orchestration.dagster_internals import AssetCheckEvaluationTargetMaterializationData as Target
from backfill_assets.orchestration.described import REPORT, Links, names_rows, shown, violations
from backfill_assets.orchestration.partitions import key_of
from backfill_assets.planning.partitions import Grain, describe
from backfill_assets.report.command_line import words_of
from backfill_assets.report.measured import changed_columns, outcome_of
from backfill_assets.report.page import facts, table
from backfill_assets.report.requests import Act, do
from backfill_assets.report.values import as_sentence
from backfill_assets.report.words.verdicts import verdict_words

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
            metadata={"violations": violations(result)}
            if result.passed or failed[result.gate] > MOST_FAILED_ROWS
            else {"violations": violations(result), **_observed(result), **_linked(result, links)},
            target_materialization_data=on.get(key),
        )


def summaries(
    asset: dg.AssetKey, grain: Grain, results: Iterable[GateResult], *, links: Links
) -> Iterator[dg.AssetCheckEvaluation]:
    """One evaluation per gate for a whole run, naming the partitions that failed, with links where some did."""
    by_gate: dict[str, list[GateResult]] = defaultdict(list)
    for result in _declared(results):
        by_gate[result.gate].append(result)
    for gate, found in by_gate.items():
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
            f"{words_of(do(Act.REPORT, failed[0].run_id))}",
            metadata={
                "partitions": len(found),
                "failed_partitions": len(failed),
                "violations": sum(map(violations, found)),
                **_failed_rows(failed),
                **(links if failed else {}),
            },
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
    return {"failed": shown(table(heads, rows, numbers=["violations"]))} if rows else {}


def _linked(result: GateResult, links: Links) -> Links:
    """The links; the report is where rows that fail are shown by their keys, which only the ledger can erase."""
    return {ROWS_THAT_FAIL if label == REPORT and names_rows(result) else label: link for label, link in links.items()}


def _observed(result: GateResult) -> Mapping[str, Any]:
    """Plain numbers and changed columns, which show without a click; what is nested otherwise behind one."""
    changed = changed_columns([result])
    observed = {name: value for name, value in result.observed.items() if not (changed and name == "changed_columns")}
    nested = {name: value for name, value in observed.items() if isinstance(value, (dict, list, tuple))}
    plain = facts(*((name.replace("_", " "), value) for name, value in observed.items() if name not in nested))
    columns = table(["changed column", "rows"], changed.items(), numbers=["rows"])
    return {
        **({"observed": shown(plain, columns)} if plain.pairs or changed else {}),
        **{name: dg.MetadataValue.json(value) for name, value in nested.items() if value},
    }

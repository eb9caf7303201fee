"""Judgement: whether each gate passed in each partition. Pure: from measurements to results."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import assert_never

from backfill_assets.domain import (
    AcceptedValues,
    ComparedWithAccepted,
    Gate,
    Moved,
    NotNull,
    RowCount,
    RowExpression,
    SchemaMatches,
    UniqueKey,
    WarmUpProof,
)
from backfill_assets.gates.judge_moved import moved_verdict
from backfill_assets.gates.judge_proof import warm_up_verdict
from backfill_assets.gates.measure import Measured
from backfill_assets.gates.moves import Moves, observed
from backfill_assets.gates.proven import Proven
from backfill_assets.gates.verdict import Verdict
from backfill_assets.ledger.records import CandidatePartition, GateResult
from backfill_assets.ledger.sampled import BreakdownCell


def judge(
    gates: Iterable[Gate],
    candidates: Iterable[CandidatePartition],
    measured: Mapping[date, Measured],
    wrong_columns: Mapping[date, str],
    proven: Sequence[Proven] | None = None,
    cells: Sequence[BreakdownCell] = (),
    new: Collection[date] = (),
) -> tuple[GateResult, ...]:
    """One result per gate and candidate partition.

    Args:
        gates: The table's gates.
        candidates: What was staged, empty partitions included.
        measured: The measurements of the partitions that have rows on either side.
        wrong_columns: Partitions whose files have other columns than declared, with the difference.
        proven: The results of recomputing some partitions with another window; None without a proof.
        cells: The breakdown of the rows; empty without one.
        new: Partitions without an accepted version.
    """
    gates = tuple(gates)
    found = _Found(measured=measured, wrong_columns=wrong_columns, proven=proven, cells=cells, new=new)
    return tuple(_result(gate, candidate, found) for candidate in candidates for gate in gates)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What was found out about all partitions."""

    measured: Mapping[date, Measured]
    wrong_columns: Mapping[date, str]
    proven: Sequence[Proven] | None
    cells: Sequence[BreakdownCell]
    new: Collection[date]


def _result(gate: Gate, candidate: CandidatePartition, found: _Found) -> GateResult:
    verdict = _verdict(gate, candidate.partition, found)
    return GateResult(
        run_id=candidate.run_id,
        partition=candidate.partition,
        gate=gate.name,
        blocking=gate.blocking,
        passed=verdict.passed,
        digest=candidate.files.digest,
        verdict=verdict.sentence,
        observed=verdict.observed,
    )


def _verdict(gate: Gate, partition: date, known: _Found) -> Verdict:
    found = known.measured.get(partition, Measured(partition=partition))
    match gate:
        case SchemaMatches():
            return _schema(gate, found, known.wrong_columns.get(partition))
        case UniqueKey():
            return _no_more_than_zero(found.surplus, found.rows, "share their key with another row")
        case NotNull():
            return _no_more_than_zero(found.violations.get(gate.name, 0), found.rows, f"have no {gate.column}")
        case AcceptedValues():
            violating = found.violations.get(gate.name, 0)
            return _no_more_than_zero(violating, found.rows, f"have a {gate.column} that is not accepted")
        case RowExpression():
            violating = found.violations.get(gate.name, 0)
            return _no_more_than_zero(violating, found.rows, f"do not satisfy {gate.condition}")
        case RowCount():
            return _row_count(gate, found)
        case ComparedWithAccepted():
            return _compared(gate, found)
        case WarmUpProof():
            return warm_up_verdict(partition, known.proven)
        case Moved():
            return moved_verdict(gate, partition, known.cells, is_new=partition in known.new)
    assert_never(gate)


def _schema(gate: SchemaMatches, found: Measured, wrong_columns: str | None) -> Verdict:
    nulls = found.violations.get(gate.name, 0)
    observed = {"rows": found.rows, "rows_without_a_required_value": nulls}
    if wrong_columns:
        return Verdict(passed=False, sentence=wrong_columns, observed=observed)
    if nulls:
        sentence = f"{nulls:,} of {found.rows:,} rows lack a value in a column that is declared not null"
        return Verdict(passed=False, sentence=sentence, observed=observed)
    return Verdict(passed=True, sentence="the files have the declared columns", observed=observed)


def _no_more_than_zero(violating: int, rows: int, what: str) -> Verdict:
    return Verdict(
        passed=violating == 0,
        sentence=f"{violating:,} of {rows:,} rows {what}",
        observed={"rows": rows, "violating_rows": violating},
    )


def _row_count(gate: RowCount, found: Measured) -> Verdict:
    enough = found.rows >= gate.at_least
    few_enough = gate.at_most is None or found.rows <= gate.at_most
    return Verdict(
        passed=enough and few_enough,
        sentence=f"{found.rows:,} rows; {gate.demands}",
        observed={"rows": found.rows, "at_least": gate.at_least, "at_most": gate.at_most},
    )


def _compared(gate: ComparedWithAccepted, found: Measured) -> Verdict:
    moved = found.added + found.removed + found.changed
    reasons = []
    if _exceeds(found.removed, found.accepted_rows, gate.max_removed_percent):
        reasons.append(f"more than {gate.max_removed_percent} % disappear")
    if _exceeds(moved, found.accepted_rows, gate.max_changed_percent):
        reasons.append(f"more than {gate.max_changed_percent} % move")
    numbers = (
        f"{found.added:,} added, {found.removed:,} removed, {found.changed:,} changed, "
        f"{found.unchanged:,} unchanged of {found.accepted_rows:,} accepted rows"
    )
    return Verdict(
        passed=not reasons,
        sentence=numbers + ("" if not reasons else "; " + " and ".join(reasons)),
        observed=observed(
            Moves(
                rows=found.rows,
                accepted_rows=found.accepted_rows,
                added=found.added,
                removed=found.removed,
                changed=found.changed,
                unchanged=found.unchanged,
            ),
            found.changed_columns,
            found.state_moves,
        ),
    )


def _exceeds(count: int, of: int, percent: int | None) -> bool:
    """Whether a count exceeds a percentage; never for a partition without accepted rows."""
    return percent is not None and of > 0 and count * 100 > percent * of

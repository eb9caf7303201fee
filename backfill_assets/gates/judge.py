"""Judgement: whether each gate passed in each partition, from measurements to results.

The rows that fail any gate of a run are counted in one query. Some are read, only of gates that failed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from functools import reduce
from typing import Any, Protocol, assert_never

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, MapType, StructType, VariantType

from backfill_assets.core.columns import in_sql
from backfill_assets.domain import (
    AcceptedValues,
    AddsOnly,
    ComparedWithAccepted,
    Failing,
    Gate,
    Grain,
    Merged,
    Moved,
    NotNull,
    OnlyExpired,
    OutsideScope,
    RowCount,
    RowExpression,
    SameState,
    SchemaMatches,
    Table,
    Tolerance,
    UniqueKey,
    Usual,
    WarmUpProof,
)
from backfill_assets.domain.errors import CodeBroken
from backfill_assets.domain.failing_rows import EXPECTED, FOUND
from backfill_assets.gates.measured import (
    ExpiringPartition,
    Measured,
    MergedPartition,
    PilotedPartition,
    Proven,
    RowDiff,
    observed,
)
from backfill_assets.lake.row_values import instants_in, texts
from backfill_assets.ledger.findings import NEEDS_COMMENT, BreakdownCell, FailingKey, Finding, GateResult, RowChanges
from backfill_assets.ledger.records import CandidatePartition

MOST_KEYS = 5
_MOST_PARTITIONS = 20
"""The number of partitions, from the first that fails a gate, in which rows are searched."""

_GATE, _PARTITION, _ROWS = "_gate", "_partition", "_rows"


class RowsOfGate(Protocol):
    """The rows that fail a gate, which are not computed yet."""

    @property
    def rows(self) -> DataFrame: ...
    @property
    def key(self) -> tuple[str, ...]: ...
    @property
    def place(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingRows:
    """The failing rows that one gate found."""

    #: How many rows fail it, by partition; partitions without any are absent.
    rows: Mapping[date, int] = field(default_factory=dict)
    #: By partition, a table that it reads there and the partitions of it that are not accepted.
    lacking: Mapping[date, tuple[str, tuple[date, ...]]] = field(default_factory=dict)
    #: The partitions of which its reference has no entry, so that it asks nothing there.
    unknown: Collection[date] = ()


def count_failing(
    asked_for: Mapping[str, RowsOfGate], table: Table, partitions: Sequence[date]
) -> Mapping[str, FailingRows]:
    """Counts the rows that fail each gate in each of these partitions, all in one query.

    Raises:
        ContractBroken: A row has no partition, so that it is of none.
    """
    if not asked_for:
        return {}
    each = [
        _within(frame.rows, table, partitions).select(F.lit(name).alias(_GATE), _partition(table).alias(_PARTITION))
        for name, frame in asked_for.items()
    ]
    counted = reduce(DataFrame.unionAll, each).groupBy(_GATE, _PARTITION).agg(F.count(F.lit(1)).alias(_ROWS))
    found: dict[str, dict[date, int]] = {name: {} for name in asked_for}
    for row in counted.collect():
        if row[_PARTITION] is None:
            place = asked_for[row[_GATE]].place
            problem = f"returned rows without a value of {table.partition.column!r}, by which they are counted{place}"
            raise CodeBroken(code=f"the gate {row[_GATE]} of {table.name}", problem=problem)
        found[row[_GATE]][row[_PARTITION]] = row[_ROWS]
    asked = set(partitions)
    return {
        name: FailingRows(rows={p: count for p, count in rows.items() if p in asked}) for name, rows in found.items()
    }


def failing_examples(
    gate: str, asked_for: RowsOfGate, table: Table, partitions: Iterable[date]
) -> tuple[FailingKey, ...]:
    """Some of the rows that fail a gate: the first by partition, key and what is said of them, the same on every call.

    Args:
        partitions: Those in which it failed, in order.
    """
    chosen = tuple(partitions)[:_MOST_PARTITIONS]
    names = asked_for.rows.schema.fieldNames()
    said = [name for name in (EXPECTED, FOUND) if name in names and name not in asked_for.key]
    column = table.partition.column
    rows = _within(asked_for.rows, table, chosen).where(_partition(table).isin(list(chosen)))
    first = rows.select(*asked_for.key, *said).orderBy(*_order(asked_for, said)).limit(MOST_KEYS)
    instants = instants_in(asked_for.rows.schema)
    found = []
    for row in first.collect():
        values = texts(row, (*asked_for.key, *said), instants)
        found.append(
            FailingKey(
                gate=gate,
                partition=_first_day(row[column], table),
                key={name: values[name] for name in asked_for.key},
                expected=_said(values, EXPECTED, said),
                found=_said(values, FOUND, said),
            )
        )
    return tuple(found)


def _said(values: Mapping[str, str | None], name: str, said: Sequence[str]) -> str | None:
    """The text of a gate for a row; null as a word, and None where it has none."""
    return (values[name] or ("null" if values[name] is None else "")) if name in said else None


def _order(asked_for: RowsOfGate, said: Sequence[str]) -> list[Column]:
    """By partition, key and what is said of a row; what has no order of its own, by its text."""
    schema, names = asked_for.rows.schema, (*asked_for.key, *said)
    return [F.to_json(F.struct(name)) if _has_no_order(schema, name) else F.col(in_sql(name)) for name in names]


def _has_no_order(schema: StructType, name: str) -> bool:
    return isinstance(schema[name].dataType, ArrayType | MapType | StructType | VariantType)


def _within(rows: DataFrame, table: Table, partitions: Sequence[date]) -> DataFrame:
    """The rows between the first and the last of these partitions, and those without any."""
    column = _partition(table)
    return rows.where(column.between(F.lit(min(partitions)), F.lit(max(partitions))) | column.isNull())


def _partition(table: Table) -> Column:
    """The partition of a row: a monthly one by any of its days."""
    column = F.col(in_sql(table.partition.column))
    return column if table.partition.grain is Grain.DAILY else F.trunc(column, "month").cast("date")


def _first_day(day: date, table: Table) -> date:
    return day if table.partition.grain is Grain.DAILY else day.replace(day=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateAgain:
    """The first snapshot of a run, computed once more from one snapshot earlier than the run began with."""

    partition: date  #: The snapshot that was computed again.
    snapshot: date  #: The accepted one that the run began with.
    earlier: date | None  #: The accepted one before that, from which it was computed again; None for a cold start.
    is_same: bool  #: True if the rows are those that were staged.


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The verdict of a gate: passed or not, its finding, and the numbers behind it."""

    passed: bool
    finding: Finding
    observed: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The findings about the partitions of a run; empty where a question was not asked."""

    #: The measurements of the partitions that have rows on either side.
    measured: Mapping[date, Measured] = field(default_factory=dict)
    new: Collection[date] = ()  #: Partitions without an accepted version.
    #: The verdict on partitions whose files have other columns than declared, or cannot be read.
    wrong_columns: Mapping[date, Verdict] = field(default_factory=dict)
    #: The results of recomputing some partitions with another window; None without a proof.
    proven: Sequence[Proven] | None = None
    #: The breakdown of the staged and the accepted rows; empty for a table that declares none.
    cells: Sequence[BreakdownCell] = ()
    changes: tuple[RowChanges, ...] = ()  #: How much of a tolerated measure the rows change.
    #: What the changes of a table that is fed by them are, by partition.
    merged: Mapping[date, MergedPartition] = field(default_factory=dict)
    #: What the scope of a pilot has, by partition.
    piloted: Mapping[date, PilotedPartition] = field(default_factory=dict)
    #: What speaks against letting a snapshot expire, by partition.
    expiring: Mapping[date, ExpiringPartition] = field(default_factory=dict)
    #: The first snapshot, computed from one snapshot earlier; None for a table without state, or a cold start.
    again: StateAgain | None = None
    #: How many rows fail gates on rows that fail, by the names of the gates.
    failing: Mapping[str, FailingRows] = field(default_factory=dict)
    #: By gate, whether each partition is as usual.
    usual: Mapping[str, Mapping[date, Verdict]] = field(default_factory=dict)


def judge(gates: Sequence[Gate], candidates: Iterable[CandidatePartition], found: Findings) -> tuple[GateResult, ...]:
    """One result per gate and candidate partition.

    Args:
        gates: The table's gates.
        candidates: What was staged, empty partitions included.
        found: What was found out about them.
    """
    return tuple(_result(gate, candidate, found) for candidate in candidates for gate in gates)


def _result(gate: Gate, candidate: CandidatePartition, found: Findings) -> GateResult:
    verdict = _verdict(gate, candidate.partition, found)
    return GateResult(
        run_id=candidate.run_id,
        partition=candidate.partition,
        gate=gate.name,
        blocking=gate.blocking,
        passed=verdict.passed,
        digest=candidate.files.digest,
        finding=verdict.finding,
        observed=verdict.observed,
    )


def _verdict(gate: Gate, partition: date, known: Findings) -> Verdict:
    found = known.measured.get(partition, Measured(partition=partition))
    match gate:
        case SchemaMatches():
            return _schema(gate, found, known.wrong_columns.get(partition))
        case UniqueKey():
            return _none(found.surplus, found.rows, Finding.UNIQUE_KEYS, Finding.SHARED_KEYS)
        case NotNull():
            return _rows_that_fail(gate, found, Finding.NO_NULLS, Finding.NULLS, column=gate.column)
        case AcceptedValues():
            return _rows_that_fail(gate, found, Finding.ACCEPTED_VALUES, Finding.NOT_ACCEPTED, column=gate.column)
        case RowExpression():
            return _rows_that_fail(gate, found, Finding.SATISFIED, Finding.UNSATISFIED, condition=gate.condition)
        case RowCount():
            return _row_count(gate, found)
        case ComparedWithAccepted():
            return _compared(gate, found)
        case AddsOnly():
            return _adds_only(found, is_new=partition in known.new)
        case Merged():
            merged = known.merged.get(partition, MergedPartition())
            return Verdict(passed=merged.holds, finding=Finding.MERGED, observed=merged.observed)
        case OutsideScope():
            # Nothing that was not measured is taken to be the same.
            piloted = known.piloted.get(partition)
            passed = piloted is not None and not piloted.others_differ
            return Verdict(passed=passed, finding=Finding.PILOTED, observed=piloted.observed if piloted else {})
        case SameState():
            return _same_state(known.again)
        case OnlyExpired():
            # As above: what was not looked at may not go.
            expiring = known.expiring.get(partition)
            passed = expiring is not None and expiring.holds
            return Verdict(passed=passed, finding=Finding.EXPIRING, observed=expiring.observed if expiring else {})
        case WarmUpProof():
            return warm_up_verdict(partition, known.proven)
        case Moved():
            return moved_verdict(gate, partition, known.cells, is_new=partition in known.new)
        case Failing():
            return _failing_rows(gate, partition, found.rows, known.failing.get(gate.name))
        case Usual():
            # As above: what was not compared is not as usual.
            lacking = Verdict(passed=False, finding=Finding.NOT_MEASURED, observed={"demands": gate.demands})
            return known.usual.get(gate.name, {}).get(partition, lacking)
    assert_never(gate)


def _schema(gate: SchemaMatches, found: Measured, wrong_columns: Verdict | None) -> Verdict:
    nulls = found.violations.get(gate.name, 0)
    observed = {"rows": found.rows, "rows_without_a_required_value": nulls}
    if wrong_columns:
        return replace(wrong_columns, observed={**observed, **wrong_columns.observed})
    return Verdict(passed=nulls == 0, finding=Finding.REQUIRED if nulls else Finding.COLUMNS, observed=observed)


def _rows_that_fail(
    gate: NotNull | AcceptedValues | RowExpression, found: Measured, holds: Finding, fails: Finding, **demanded: str
) -> Verdict:
    return _none(found.violations.get(gate.name, 0), found.rows, holds, fails, **demanded)


def _none(violating: int, rows: int, holds: Finding, fails: Finding, **demanded: str) -> Verdict:
    """The verdict of a gate that no row may violate."""
    observed = {"rows": rows, "violating_rows": violating, **demanded}
    return Verdict(passed=violating == 0, finding=fails if violating else holds, observed=observed)


def _row_count(gate: RowCount, found: Measured) -> Verdict:
    enough = found.rows >= gate.at_least
    few_enough = gate.at_most is None or found.rows <= gate.at_most
    return Verdict(
        passed=enough and few_enough,
        finding=Finding.ROW_COUNT,
        observed={"rows": found.rows, "at_least": gate.at_least, "at_most": gate.at_most},
    )


def _compared(gate: ComparedWithAccepted, found: Measured) -> Verdict:
    moved = found.added + found.removed + found.changed
    is_too_far = exceeds(found.removed, found.accepted_rows, gate.max_removed_percent)
    return Verdict(
        passed=not is_too_far and not exceeds(moved, found.accepted_rows, gate.max_changed_percent),
        finding=Finding.COMPARED,
        observed=observed(
            RowDiff(
                rows=found.rows,
                accepted_rows=found.accepted_rows,
                added=found.added,
                removed=found.removed,
                changed=found.changed,
                unchanged=found.unchanged,
            ),
            found.changed_columns,
            found.state_moves,
            max_removed_percent=gate.max_removed_percent,
            max_changed_percent=gate.max_changed_percent,
        ),
    )


def _adds_only(found: Measured, *, is_new: bool) -> Verdict:
    moved = found.added + found.removed + found.changed
    observed = {"added": found.added, "removed": found.removed, "changed": found.changed, "is_new": is_new}
    return Verdict(passed=is_new or not moved, finding=Finding.ADDS_ONLY, observed=observed)


def _same_state(again: StateAgain | None) -> Verdict:
    if again is None:
        return Verdict(passed=True, finding=Finding.COLD_START, observed={})
    observed = {
        "snapshot": again.snapshot.isoformat(),
        "earlier": again.earlier and again.earlier.isoformat(),
        "partition": again.partition.isoformat(),
    }
    return Verdict(passed=again.is_same, finding=Finding.STATE_AGAIN, observed=observed)


def _failing_rows(gate: Failing, partition: date, rows: int, counted: FailingRows | None) -> Verdict:
    # Nothing that was not measured is taken to hold.
    if counted is None:
        return Verdict(passed=False, finding=Finding.NOT_MEASURED, observed={"demands": gate.demands})
    if partition in counted.lacking:
        table, missing = counted.lacking[partition]
        observed = {"table": table, "missing": missing[0].isoformat(), "missing_partitions": len(missing)}
        return Verdict(passed=False, finding=Finding.NOT_MEASURED, observed={"demands": gate.demands, **observed})
    failing = counted.rows.get(partition, 0)
    if partition in counted.unknown and not failing:
        named = {"reference": gate.references[0], "demands": gate.demands}
        return Verdict(passed=True, finding=Finding.NOTHING_KNOWN, observed={"rows": rows, **named})
    finding = Finding.ROWS_FAIL if failing else Finding.NO_ROWS_FAIL
    counts = {"rows": rows, "failing_rows": failing, "demands": gate.demands}
    return Verdict(passed=not failing, finding=finding, observed=counts)


def exceeds(count: int, of: int, percent: int | None) -> bool:
    """True if a count exceeds a percentage; never for a partition without accepted rows."""
    return percent is not None and of > 0 and count * 100 > percent * of


def warm_up_verdict(partition: date, proven: Sequence[Proven] | None) -> Verdict:
    """The proof's verdict on a partition; one that was not computed again shares the verdict of those that were.

    Args:
        proven: The results at the ends of the run and between chunks; None when it was planned without a proof.
    """
    if proven is None:
        return Verdict(passed=True, finding=Finding.NOT_ASKED, observed={})
    # One that was computed again at two ends has to be the same at both.
    found = sorted((each for each in proven if partition in each.partitions), key=lambda each: _rank(partition, each))
    return _computed_again(partition, found[0]) if found else _elsewhere(proven)


def _rank(partition: date, proven: Proven) -> int:
    return 0 if partition in proven.differing else 1 if proven.is_compared else 2


def _computed_again(partition: date, proven: Proven) -> Verdict:
    observed: dict[str, Any] = {
        "windows": {argument: dict(window.document) for argument, window in proven.windows.items()},
        "more": {each.argument: {"days_back": each.back, "days_ahead": each.ahead} for each in proven.more},
    }
    if not proven.is_compared and partition not in proven.differing:
        return Verdict(passed=True, finding=Finding.NOTHING_TO_COMPARE, observed=observed)
    found = proven.again.get(partition, Measured(partition=partition))
    observed |= {
        "added": found.added,
        "removed": found.removed,
        "changed": found.changed,
        "unchanged": found.unchanged,
        "changed_columns": dict(found.changed_columns),
    }
    if partition not in proven.differing:
        return Verdict(passed=True, finding=Finding.SAME, observed={**observed, "rows": found.rows})
    if found.surplus:
        return Verdict(passed=False, finding=Finding.UNUSABLE, observed={**observed, "surplus": found.surplus})
    return Verdict(passed=False, finding=Finding.DIFFERENT, observed=observed)


def _elsewhere(proven: Sequence[Proven]) -> Verdict:
    differing = [(p, each.again[p].surplus) for each in proven for p in each.differing]
    if shown := [partition for partition, surplus in differing if not surplus]:
        return Verdict(passed=False, finding=Finding.DIFFERENT_ELSEWHERE, observed={"shown_by": shown[0].isoformat()})
    if differing:
        observed = {"shown_by": differing[0][0].isoformat()}
        return Verdict(passed=False, finding=Finding.UNUSABLE_ELSEWHERE, observed=observed)
    compared = {partition for each in proven if each.is_compared for partition in each.partitions}
    if not compared:
        return Verdict(passed=True, finding=Finding.NOTHING_TO_COMPARE, observed={})
    # A number and its ends, because a long run has chunks that meet at hundreds of partitions.
    between = {"first": min(compared).isoformat(), "last": max(compared).isoformat()}
    return Verdict(passed=True, finding=Finding.SAME_ELSEWHERE, observed={"compared": len(compared), **between})


def moved_verdict(gate: Moved, partition: date, cells: Iterable[BreakdownCell], *, is_new: bool) -> Verdict:
    """The verdict whether a measure of a partition's month stayed close to the accepted rows.

    Args:
        partition: The partition; all of a month share its verdict.
        cells: The breakdown of the run.
        is_new: Whether the partition has no accepted rows to compare with.
    """
    if is_new:
        return Verdict(passed=True, finding=Finding.NOTHING_ACCEPTED, observed={})
    month = partition.replace(day=1)
    restated = [cell for cell in cells if cell.month == month and not cell.is_new]
    observed: dict[str, Any] = {"measure": gate.measure, "percent": gate.percent, "at_least": gate.at_least}
    if any(name not in cell.by for cell in restated for name in gate.by):
        observed |= {NEEDS_COMMENT: True}
        return Verdict(passed=False, finding=Finding.TOO_MANY_GROUPS, observed=observed)
    groups = _groups(gate, restated)
    comparable = [sums for sums in groups.values() if all(map(Decimal.is_finite, sums))]
    far = sum(_is_far(gate, before, abs(after - before)) for before, after in comparable)
    incomparable = len(groups) - len(comparable)
    observed |= {"month": f"{month:%Y-%m}", "groups": len(groups), "moved_groups": far}
    observed |= {"incomparable_groups": incomparable} if incomparable else {}
    passed = not far and not incomparable
    observed |= {} if passed else {NEEDS_COMMENT: True}
    return Verdict(passed=passed, finding=Finding.WITHIN_LIMIT if passed else Finding.MOVED, observed=observed)


def is_tolerated(tolerance: Tolerance, cells: Sequence[BreakdownCell], changes: Sequence[RowChanges]) -> bool:
    """True if every month of a restatement changes no more of the measure than its owner tolerates.

    Args:
        tolerance: What the table declares.
        cells: The breakdown of the run. What is new replaces no accepted rows, and cannot be left.
        changes: How much of a measure its rows change. Where that was not measured, nothing is tolerated.
    """
    if not cells or any(cell.is_new for cell in cells) or any(each.measure != tolerance.measure for each in changes):
        return False
    dimensions = [*(cell.by for cell in cells), *(each.by for each in changes)]
    if any(name not in by for by in dimensions for name in tolerance.by):
        return False
    changed = {(each.month, *(each.by[name] for name in tolerance.by)): Decimal(each.amount) for each in changes}
    for month in {cell.month for cell in cells}:
        some = [cell for cell in cells if cell.month == month]
        differing = {tuple(cell.by[name] for name in tolerance.by) for cell in some if cell.differs}
        for group, (before, _) in _groups(tolerance, some).items():
            amount = changed.get((month, *group), Decimal("NaN") if group in differing else Decimal(0))
            if not before.is_finite() or not amount.is_finite() or _is_far(tolerance, before, amount):
                return False
    return True


def _groups(
    gate: Moved | Tolerance, cells: Sequence[BreakdownCell]
) -> Mapping[tuple[str | None, ...], tuple[Decimal, Decimal]]:
    found: dict[tuple[str | None, ...], tuple[Decimal, Decimal]] = {}
    for cell in cells:
        group = tuple(cell.by[name] for name in gate.by)
        before, after = found.get(group, (Decimal(0), Decimal(0)))
        found[group] = (
            before + finite_or_nan(cell.before[gate.measure]),
            after + finite_or_nan(cell.after[gate.measure]),
        )
    return found


def finite_or_nan(text: str) -> Decimal:
    """A sum; NaN for infinite ones, because opposite infinities cannot be added up."""
    found = Decimal(text)
    return found if found.is_finite() else Decimal("NaN")


def _is_far(gate: Moved | Tolerance, before: Decimal, moved: Decimal) -> bool:
    """True if the move exceeds the percentage; any move away from nothing does."""
    return moved > 0 and moved >= gate.at_least and moved * 100 > gate.percent * abs(before)

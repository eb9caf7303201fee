"""Judgement: whether each gate passed in each partition. Pure: from measurements to results."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, assert_never

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
from backfill_assets.gates.measure import Measured, Proven
from backfill_assets.gates.moves import Moves, observed
from backfill_assets.ledger.records import NEEDS_COMMENT, BreakdownCell, CandidatePartition, GateResult
from backfill_assets.planning.partitions import Grain, count_of, describe
from backfill_assets.planning.reads import more_days_described


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


NOT_ASKED = "not asked for when the run was planned"
NOTHING_THERE = "no input partition before or after the window is accepted, so there is nothing to compare with"
NOT_USABLE = "the proof of the window is not usable"


def warm_up_verdict(partition: date, proven: Sequence[Proven] | None) -> Verdict:
    """The proof's verdict on a partition; one that was not computed again shares the verdict of those that were.

    Args:
        partition: The partition.
        proven: The results at the ends of the run and between chunks; None when it was planned without a proof.
    """
    if proven is None:
        return Verdict(passed=True, sentence=NOT_ASKED, observed={})
    # One that was computed again at two ends has to be the same at both.
    found = sorted((each for each in proven if partition in each.partitions), key=lambda each: _rank(partition, each))
    return _computed_again(partition, found[0]) if found else _elsewhere(proven)


def _rank(partition: date, proven: Proven) -> int:
    return 0 if partition in proven.differing else 1 if proven.is_compared else 2


def _computed_again(partition: date, proven: Proven) -> Verdict:
    observed = _window_observed(proven)
    if not proven.is_compared:
        return Verdict(passed=True, sentence=NOTHING_THERE, observed=observed)
    found = proven.again.get(partition, Measured(partition=partition))
    observed = {
        **observed,
        "added": found.added,
        "removed": found.removed,
        "changed": found.changed,
        "unchanged": found.unchanged,
        "changed_columns": dict(found.changed_columns),
    }
    if partition not in proven.differing:
        return Verdict(passed=True, sentence=f"{_same(found.rows)} with {_other(proven)}", observed=observed)
    if found.surplus:
        return Verdict(
            passed=False,
            sentence=f"{NOT_USABLE}: {count_of(found.surplus, 'row')} share their key with another row, so which rows "
            f"differ with {_other(proven)} is not known",
            observed=observed,
        )
    moved = found.added + found.removed + found.changed
    several = f"{moved:,} of {moved + found.unchanged:,} rows differ" if moved else "rows differ"
    return Verdict(
        passed=False,
        sentence=f"with {_other(proven)}, {several}: the window is too short",
        observed=observed,
    )


def _elsewhere(proven: Sequence[Proven]) -> Verdict:
    observed = {"proven_on": " and ".join(each.described for each in proven)}
    differing = [(p, each.again[p].surplus) for each in proven for p in each.differing]
    if shown := [partition for partition, surplus in differing if not surplus]:
        return Verdict(passed=False, sentence=f"the window is too short, as {shown[0]} shows", observed=observed)
    if differing:
        sentence = f"{NOT_USABLE}: the key is not unique on {differing[0][0]}"
        return Verdict(passed=False, sentence=sentence, observed=observed)
    compared = [f"{each.described}, with {_other(each)}" for each in proven if each.is_compared]
    if not compared:
        return Verdict(passed=True, sentence=NOTHING_THERE, observed=observed)
    return Verdict(passed=True, sentence=f"proven on {' and on '.join(compared)}", observed=observed)


def scope_of_proof(grain: Grain, results: Iterable[GateResult]) -> str:
    """What a proof that holds compared and what it did not, in words.

    Args:
        grain: The grain of the partitions.
        results: The results of the gate in all partitions of the run, none of which failed.
    """
    found = tuple(results)
    again = [result.partition for result in found if "unchanged" in result.observed]
    rest = f"{count_of(len(found) - len(again), grain.noun)} not computed again"
    if again and len(again) == len(found):
        return f"{describe(grain, again)}: computed again, the same rows"
    if again:
        return f"{describe(grain, again)}: computed again, the same rows; the other {rest}"
    return f"nothing was compared: {found[0].verdict}" if found else "nothing was compared"


def _same(rows: int) -> str:
    return "no rows, as staged," if rows == 0 else f"the same {count_of(rows, 'row')}"


def _window_observed(proven: Proven) -> Mapping[str, Any]:
    more = {each.argument: {"days_back": each.back, "days_ahead": each.ahead} for each in proven.more}
    return {
        "proven_on": proven.described,
        "windows": {argument: dict(window.document) for argument, window in proven.windows.items()},
        "more": more,
    }


def _other(proven: Proven) -> str:
    """With what the rows were recomputed."""
    return more_days_described(proven.more) if proven.more else "other partitions in the same call"


def moved_verdict(gate: Moved, partition: date, cells: Iterable[BreakdownCell], *, is_new: bool) -> Verdict:
    """Whether a measure of a partition's month stayed close to the accepted rows.

    Args:
        gate: The gate.
        partition: The partition; all of a month share its verdict.
        cells: The breakdown of the run.
        is_new: Whether the partition has no accepted rows to compare with.
    """
    if is_new:
        return Verdict(passed=True, sentence="no accepted rows to compare with", observed={})
    month = partition.replace(day=1)
    restated = [cell for cell in cells if cell.month == month and not cell.is_new]
    observed: dict[str, Any] = {"percent": gate.percent, "at_least": gate.at_least}
    if any(name not in cell.by for cell in restated for name in gate.by):
        sentence = f"there are too many combinations of the dimensions to compare {gate.measure} by them"
        return Verdict(passed=False, sentence=sentence, observed={**observed, NEEDS_COMMENT: True})
    groups = _groups(gate, restated)
    comparable = [sums for sums in groups.values() if all(map(Decimal.is_finite, sums))]
    far = sum(_is_far(gate, before, after) for before, after in comparable)
    incomparable = len(groups) - len(comparable)
    observed |= {"groups": len(groups), "moved_groups": far}
    where = f"{count_of(len(groups), 'group')} of {month:%Y-%m}"
    if not far and not incomparable:
        return Verdict(passed=True, sentence=f"{gate.measure} moved no further in {where}", observed=observed)
    sentence = f"{gate.measure} moved by more than {gate.percent} % in {far:,} of {where}" if far else gate.measure
    if incomparable:
        observed["incomparable_groups"] = incomparable
        of = "" if far else f" of {where}"
        sentence += (
            f"{', and' if far else ''} cannot be compared in {incomparable:,}{of}, where a sum is not a finite number"
        )
    return Verdict(passed=False, sentence=sentence, observed={**observed, NEEDS_COMMENT: True})


def _groups(gate: Moved, cells: Sequence[BreakdownCell]) -> Mapping[tuple[str | None, ...], tuple[Decimal, Decimal]]:
    found: dict[tuple[str | None, ...], tuple[Decimal, Decimal]] = {}
    for cell in cells:
        group = tuple(cell.by[name] for name in gate.by)
        before, after = found.get(group, (Decimal(0), Decimal(0)))
        found[group] = (before + _amount(cell.before[gate.measure]), after + _amount(cell.after[gate.measure]))
    return found


def _amount(text: str) -> Decimal:
    """A sum; NaN for infinite ones, because opposite infinities cannot be added up."""
    found = Decimal(text)
    return found if found.is_finite() else Decimal("NaN")


def _is_far(gate: Moved, before: Decimal, after: Decimal) -> bool:
    """Whether the move exceeds the percentage; any move away from nothing does."""
    moved = abs(after - before)
    return moved > 0 and moved >= gate.at_least and moved * 100 > gate.percent * abs(before)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a gate passed, one sentence, and the numbers behind it."""

    passed: bool
    sentence: str
    observed: Mapping[str, Any]

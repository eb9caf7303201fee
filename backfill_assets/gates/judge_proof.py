"""What does the proof of the window say about a partition? Pure: from what was measured to a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from backfill_assets.gates.measure import Measured
from backfill_assets.gates.proof import Proven
from backfill_assets.gates.sample import SampledRow
from backfill_assets.gates.verdict import Verdict
from backfill_assets.planning.partitions import count_of

NOT_ASKED = "not asked for when the run was planned"
NOTHING_THERE = "no input partition before or after the window is accepted, so there is nothing to compare with"
_MOST_IN_A_SENTENCE = 2


def warm_up_verdict(partition: date, proven: Sequence[Proven] | None) -> Verdict:
    """The proof's verdict on a partition; one that was not computed again shares the verdict of those that were.

    Args:
        partition: The partition.
        proven: What was found at each end of the run; None when the run was planned without a proof.
    """
    if proven is None:
        return Verdict(passed=True, sentence=NOT_ASKED, observed={})
    for end in proven:
        if partition in end.partitions:
            return _computed_again(partition, end)
    return _elsewhere(proven)


def _computed_again(partition: date, end: Proven) -> Verdict:
    observed = _window_observed(end)
    if not end.is_longer:
        return Verdict(passed=True, sentence=NOTHING_THERE, observed=observed)
    found = end.again.get(partition, Measured(partition=partition))
    moved = found.added + found.removed + found.changed
    examples = [row for row in end.examples if row.partition == partition]
    observed = {
        **observed,
        "added": found.added,
        "removed": found.removed,
        "changed": found.changed,
        "unchanged": found.unchanged,
        "changed_columns": dict(found.changed_columns),
        "examples": [row.document() for row in examples],
    }
    if partition not in end.differing:
        return Verdict(passed=True, sentence=f"{_same(found.rows)} with {_longer(end)}", observed=observed)
    several = f"{moved:,} of {moved + found.unchanged:,} rows differ" if moved else "rows differ"
    shown = "; ".join(_say(row) for row in examples[:_MOST_IN_A_SENTENCE])
    return Verdict(
        passed=False,
        sentence=f"with {_longer(end)}, {several}{f', for example {shown}' if shown else ''}: the window is too short",
        observed=observed,
    )


def _elsewhere(proven: Sequence[Proven]) -> Verdict:
    observed = {"proven_on": [partition.isoformat() for end in proven for partition in end.partitions]}
    if differing := [partition for end in proven for partition in end.differing]:
        return Verdict(passed=False, sentence=f"the window is too short, as {differing[0]} shows", observed=observed)
    longer = [f"{end.described}, with {_longer(end)}" for end in proven if end.is_longer]
    if not longer:
        return Verdict(passed=True, sentence=NOTHING_THERE, observed=observed)
    return Verdict(passed=True, sentence=f"proven on {' and on '.join(longer)}", observed=observed)


def _same(rows: int) -> str:
    return "no rows, as staged," if rows == 0 else f"the same {count_of(rows, 'row')}"


def _window_observed(proven: Proven) -> Mapping[str, Any]:
    return {
        "proven_on": [partition.isoformat() for partition in proven.partitions],
        "days_back": proven.declared.days_back,
        "days_ahead": proven.declared.days_ahead,
        "proof_days_back": proven.longer.days_back,
        "proof_days_ahead": proven.longer.days_ahead,
    }


def _longer(proven: Proven) -> str:
    declared, longer = proven.declared, proven.longer
    sides = []
    if longer.days_back > declared.days_back:
        sides.append(f"{longer.days_back} instead of {count_of(declared.days_back, 'day')} back")
    if longer.days_ahead > declared.days_ahead:
        sides.append(f"{longer.days_ahead} instead of {count_of(declared.days_ahead, 'day')} ahead")
    return " and ".join(sides)


def _say(row: SampledRow) -> str:
    key = ", ".join(str(value) for value in row.key.values())
    if row.before is None or row.after is None:
        return f"({key}) is {'missing' if row.before is None else 'too much'}"
    before, after = row.before, row.after
    changed = [f"{name} {before[name]} becomes {after[name]}" for name in before if before[name] != after[name]]
    return f"({key}) {' and '.join(changed[:2])}"

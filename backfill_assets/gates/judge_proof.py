"""Judgement of the proof of the window. Pure: from measurements to a verdict on each partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any

from backfill_assets.gates.measure import Measured
from backfill_assets.gates.proven import Proven
from backfill_assets.gates.verdict import Verdict
from backfill_assets.ledger.records import GateResult
from backfill_assets.planning.partitions import Grain, count_of, describe
from backfill_assets.planning.reads import more_days_described

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

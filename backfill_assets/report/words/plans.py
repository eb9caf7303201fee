"""Words of plans and of clean-ups: what is left out, what estimates rest on, why files stay or go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from backfill_assets.planning.estimates import Basis, Estimate
from backfill_assets.planning.impact import TablePartitions
from backfill_assets.planning.partitions import count_of, describe
from backfill_assets.planning.restatement import LeftOut, WhyLeftOut

_LEFT_OUT: Mapping[WhyLeftOut, str] = {
    WhyLeftOut.NO_VERSION: "named as changed, and has no accepted version",
    WhyLeftOut.CODE_CHANGED: "only the code changed, and the version is the same",
    WhyLeftOut.CHOSEN_REFERENCES: "its references were chosen on purpose",
    WhyLeftOut.BLOCKED: "an input has no accepted version any more",
    WhyLeftOut.INCOMPLETE: "never built",
    WhyLeftOut.DEPENDS: "depends on these days, and was never built",
    WhyLeftOut.DAYS_NOT_NAMED: "never built, and the days were not named",
    WhyLeftOut.STALE: "stale for other reasons",
}


def left_out_words(left: LeftOut) -> str:
    """Why partitions are left out, with the input that is missing."""
    why = _LEFT_OUT[left.why]
    return f"{why}: {lacks(left.missing)}" if left.missing else why


def lacks(missing: Iterable[TablePartitions]) -> str:
    """Input partitions that do not exist."""
    return "; ".join(f"{each.table} lacks {describe(each.grain, each.partitions)}" for each in missing)


def basis_words(estimate: Estimate) -> str:
    """Where the numbers of an estimate come from."""
    match estimate.based_on:
        case Basis.ACCEPTED_ROWS:
            return "the accepted rows of these partitions"
        case Basis.EARLIER_RUNS:
            return f"the latest {count_of(estimate.runs, 'run')} of this table"
        case Basis.INPUT_ROWS:
            return "a guess, one row for every input row of the same days: this table was never built before"

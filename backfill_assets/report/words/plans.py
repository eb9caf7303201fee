"""Words of plans: what estimates rest on."""

from __future__ import annotations

from backfill_assets.planning.estimates import Basis, Estimate
from backfill_assets.planning.partitions import count_of


def basis_words(estimate: Estimate) -> str:
    """Where the numbers of an estimate come from."""
    match estimate.based_on:
        case Basis.ACCEPTED_ROWS:
            return "the accepted rows of these partitions"
        case Basis.EARLIER_RUNS:
            return f"the latest {count_of(estimate.runs, 'run')} of this table"
        case Basis.INPUT_ROWS:
            return "a guess, one row for every input row of the same days: this table was never built before"

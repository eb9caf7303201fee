"""Words of plans: what estimates rest on, and what a publication does to partitions."""

from __future__ import annotations

from typing import assert_never

from backfill_assets.planning.estimates import Basis, Estimate
from backfill_assets.planning.partitions import count_of
from backfill_assets.planning.publish_mode import PublishKind, PublishMode


def basis_words(estimate: Estimate) -> str:
    """Where the numbers of an estimate come from."""
    match estimate.based_on:
        case Basis.ACCEPTED_ROWS:
            return "the accepted rows of these partitions"
        case Basis.EARLIER_RUNS:
            return f"the latest {count_of(estimate.runs, 'run')} of this table"
        case Basis.INPUT_ROWS:
            return "a guess, one row for every input row of the same days: this table was never built before"


def publish_words(mode: PublishMode) -> str:
    """What a publication does to partitions."""
    match mode.kind:
        case PublishKind.REPLACE:
            return "whole partitions in place of the accepted ones"
        case PublishKind.APPEND:
            return "only partitions that have no accepted version (append)"
        case PublishKind.MERGE:
            moves = ", which can move between partitions" if mode.keys_move else ""
            return f"the accepted rows with changes by {', '.join(mode.on)}{moves} (merge)"
        case PublishKind.PILOT:
            return f"only rows of {mode.scope}; all others stay exactly as they are accepted"
    assert_never(mode.kind)

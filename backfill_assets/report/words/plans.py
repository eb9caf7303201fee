"""Words of plans: what estimates rest on, what a publication does to partitions, and what could be done instead."""

from __future__ import annotations

from typing import assert_never

from backfill_assets.planning.estimates import Basis, Estimate
from backfill_assets.planning.partitions import count_of
from backfill_assets.planning.publish_mode import PublishKind, PublishMode
from backfill_assets.report.alternatives import Alternative, Instead
from backfill_assets.report.requests import NextStep, step
from backfill_assets.report.values import cost_words


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


def alternative_words(found: Alternative) -> NextStep:
    """What could be done instead of a plan, and what that costs."""
    cost = "" if found.cost is None else f"; about {cost_words(found.cost)}"
    match found.instead:
        case Instead.NOTHING:
            return step(f"nothing: none of {found.stays} is stale, so that every row is expected to be equal{cost}")
        case Instead.ONLY_STALE:
            what = f"only {found.partitions}: {found.stays} is not stale{cost}: "
            return step(what, *([found.next_step] if found.next_step else []))
        case Instead.FORWARD:
            return step(
                f"a fix forward: {found.stays} stays as the earlier release has computed it, and stale; the newer one "
                f"computes the days after the last published one in any case{cost}"
            )
    assert_never(found.instead)

"""Proposals of restatements: what the command and the sensor do, and the advice after files have landed."""

from __future__ import annotations

from collections.abc import Iterable

from backfill_assets.application.terms import present_terms
from backfill_assets.core.errors import Refused
from backfill_assets.ledger.recorded_text import one_line
from backfill_assets.planning.proposals import SourceDay
from backfill_assets.publication.proposals import situation
from backfill_assets.report.proposals import ProposeReport, propose_report
from backfill_assets.report.releases import brought_along
from backfill_assets.report.requests import Act, NextStep, do, step
from backfill_assets.restatements.propose import propose as propose_restatements
from backfill_assets.workspace import Workspace


def propose(ws: Workspace, *, by: str, dry_run: bool = False) -> ProposeReport:
    """Plans draft sets for what sources have changed behind published output; see `restatements.propose.propose`."""
    one_line("the one who proposes", by)
    proposed = propose_restatements(ws, lambda name: present_terms(ws, name), by=by, dry_run=dry_run)
    plans = [draft.planned.plans if draft.planned else () for draft in proposed.drafts]
    with ws.ledger.read() as tx:
        brings = [tuple(each for plan in some for each in brought_along(tx, plan.manifest)) for some in plans]
    return propose_report(ws, proposed, brings, dry_run=dry_run)


def step_after_landing(ws: Workspace, source: str) -> NextStep | None:
    """What is left to do after days of a source have changed: to follow within the lateness, and to propose the rest.

    What other sources have changed is not about it, unless one proposal restates both.
    """
    name = ws.domain.source_table(source).name

    def has_some(days: Iterable[SourceDay]) -> bool:
        return any(changed == name for changed, _ in days)

    try:
        with ws.ledger.read() as tx:
            found = situation(ws, tx)
    except Refused:
        # What it changed cannot be determined, for example because a reference is unreadable; `propose` reports why.
        return step(do(Act.PROPOSE))
    steps, decision = [], found.decision
    if has_some(decision.automatic):
        steps.append(step(do(Act.FOLLOW), " restates what came within the lateness of the source"))
    if any(map(has_some, (*decision.proposed, *map(found.days_of, decision.replaced)))):
        steps.append(step(do(Act.PROPOSE), " plans the restatement of what was published before, for a person"))
    if not steps:
        return None
    first, *rest = steps
    sensors = ", unless the sensors of a running Dagster do"
    return step(first, *(part for each in rest for part in ("; ", each)), sensors)

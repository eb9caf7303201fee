"""Proposals of restatements: what the command and the sensor do, and the advice after files have landed."""

from __future__ import annotations

from backfill_assets.application.terms import present_terms
from backfill_assets.core.errors import Refused
from backfill_assets.ledger.recorded_text import one_line
from backfill_assets.publication.proposals import situation
from backfill_assets.report.proposals import ProposeReport, propose_report
from backfill_assets.report.releases import brought_along
from backfill_assets.report.requests import Act, NextStep, do, step
from backfill_assets.restatements.propose import propose as propose_restatements
from backfill_assets.workspace import Workspace


def propose(ws: Workspace, *, by: str, dry_run: bool = False) -> ProposeReport:
    """Plans a draft set for what sources have changed behind published output; see `restatements.propose.propose`."""
    one_line("the one who proposes", by)
    proposed = propose_restatements(ws, lambda name: present_terms(ws, name), by=by, dry_run=dry_run)
    planned = proposed.planned
    with ws.ledger.read() as tx:
        brings = [each for plan in planned.plans for each in brought_along(tx, plan.manifest)] if planned else []
    return propose_report(
        ws,
        proposed.situation,
        planned=planned,
        brings=brings,
        files=proposed.files,
        replaced=proposed.replaced,
        dry_run=dry_run,
    )


def step_after_landing(ws: Workspace) -> NextStep | None:
    """What is left to do after source days have changed: to follow within the lateness, and to propose the rest."""
    try:
        with ws.ledger.read() as tx:
            decision = situation(ws, tx).decision
    except Refused:
        # What it changed cannot be determined, for example because a reference is unreadable; `propose` reports why.
        return step(do(Act.PROPOSE))
    steps = []
    if decision.automatic:
        steps.append(step(do(Act.FOLLOW), " restates what came within the lateness of the source"))
    if decision.proposed or decision.replaced:
        steps.append(step(do(Act.PROPOSE), " plans the restatement of what was published before, for a person"))
    if not steps:
        return None
    first, *rest = steps
    sensors = ", unless the sensors of a running Dagster do"
    return step(first, *(part for each in rest for part in ("; ", each)), sensors)

"""Proposals of restatements: what the command and the sensor do, and the advice after files have landed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date

from backfill_assets.application.terms import present_terms
from backfill_assets.calendar.partitions import Days, Grain, compress, count_of, days_in, days_of, describe
from backfill_assets.core.errors import Refused
from backfill_assets.core.next_steps import Command, NextStep, do, step
from backfill_assets.landing.days import days_filled_before
from backfill_assets.ledger.recorded_text import one_line
from backfill_assets.planning.graph import Graph
from backfill_assets.planning.impact import impact, never_built
from backfill_assets.planning.manifest_parts import Cause
from backfill_assets.planning.next_steps import joined, loads, plan_stale
from backfill_assets.planning.proposals import SourceDay
from backfill_assets.report.landed import LandReport
from backfill_assets.report.proposals import ProposeReport, propose_report
from backfill_assets.report.releases import brought_along
from backfill_assets.requests.proposals import situation
from backfill_assets.requests.propose import propose as propose_restatements
from backfill_assets.staleness.decide import Staleness
from backfill_assets.staleness.find import stale_tables
from backfill_assets.workspace import Workspace


def propose(ws: Workspace, *, by: str, dry_run: bool = False) -> ProposeReport:
    """Plans draft sets for what sources have changed behind published output; see `requests.propose.propose`."""
    one_line("the one who proposes", by)
    proposed = propose_restatements(ws, lambda name: present_terms(ws, name), by=by, dry_run=dry_run)
    plans = [draft.planned.plans if draft.planned else () for draft in proposed.drafts]
    with ws.ledger.read() as tx:
        brings = [tuple(each for plan in some for each in brought_along(tx, plan.manifest)) for some in plans]
    return propose_report(ws, proposed, brings, dry_run=dry_run)


def step_after_landing(ws: Workspace, source: str) -> NextStep | None:
    """The next step after days of a source changed: follow them within the lateness, and propose the rest.

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
        return step(do(Command.PROPOSE))
    steps, decision = [], found.decision
    if has_some(decision.automatic):
        steps.append(step(do(Command.FOLLOW), " restates what came within the lateness of the source"))
    if any(map(has_some, (*decision.proposed, *map(found.days_of, decision.replaced)))):
        steps.append(step(do(Command.PROPOSE), " plans the restatement of what was published before, for a person"))
    if not steps:
        return None
    first, *rest = steps
    sensors = ", unless the sensors of a running Dagster do"
    return step(first, *(part for each in rest for part in ("; ", each)), sensors)


_MOST_RANGES = 12
"""So many ranges of days are named in one command."""


def step_after_reading(ws: Workspace, outcome: LandReport) -> NextStep | None:
    """The plan of all that follows from files that were read anew: what is stale by them, also on days that they had
    before and have no more, and what can be built now and never was, on days that they have since.

    Args:
        outcome: What was read, and the days that were built of it.
    """
    if outcome.load is None:
        return None
    source = ws.domain.source_table(outcome.source)
    changed = {outcome.source: frozenset(outcome.load.run.manifest.partitions)}
    with ws.ledger.read() as tx:
        accepted = {name: frozenset(tx.versions.claims(name)) for name in ws.graph.tables}
    reached = {each.table: set(each.partitions) for each in impact(ws.graph, changed, accepted)}
    new = {
        each.table: set(each.partitions) for each in never_built(ws.graph, changed, accepted) if accepted[each.table]
    }
    area = {
        found.table: new.get(found.table, set()) | _not_up_to_date(found) & reached.get(found.table, set())
        for found in stale_tables(ws)
    }
    with ws.ledger.read() as tx:
        filled = days_filled_before(tx, source)
    asked = [_filled_before(source.name, filled)] if filled else []
    named = _days_of(ws.graph, {name: some for name, some in area.items() if some}, changed)
    if named is None:
        return step(*asked) if asked else None
    # A table that was never built is left to a person, who decides how far back it begins.
    begun = [name for name, some in area.items() if some]
    every = all(accepted[node.name] for node in ws.graph.tables.values() if not (node.is_source or node.is_beside))
    tables: list[str | None] = [None] if every else [*begun]
    parts = [days_in(named.ranges[first : first + _MOST_RANGES]) for first in range(0, len(named.ranges), _MOST_RANGES)]
    plans = [
        plan_stale(
            table, some, partial=any(each.waiting or each.blocked for each in stale_tables(ws, table=table, days=some))
        )
        for table in tables
        for some in parts
    ]
    follows = " plans all that follows from these days, also what was never built from them"
    return step(joined(plans), follows, *(part for each in asked for part in ("; ", each)))


def _filled_before(source: str, days: Sequence[date]) -> NextStep:
    """Reports days that were built without events although nothing explains that any more."""
    many = f"{count_of(len(days), 'day')} ({describe(Grain.DAILY, days)})"
    said = f"{source} has {many} without events that lay between others as its files were read before, and nothing "
    return step(
        f"{said}explains them now: land what is missing, or, if nothing happened on them, declare it with ",
        joined(loads(source, days, empty=True)),
    )


def _not_up_to_date(found: Staleness) -> set[date]:
    """The stale partitions of a table that a plan of what is stale builds again."""
    never = {Cause.NEVER_BUILT}
    stale = {p for each in found.ranges if {why.cause for why in each.reasons} != never for p in each.partitions}
    return stale.difference(found.blocked, found.on_purpose)


def _days_of(
    graph: Graph, area: Mapping[str, AbstractSet[date]], changed: Mapping[str, AbstractSet[date]]
) -> Days | None:
    """The days that name partitions: of a month those that have changed or that are partitions of others, so that no
    other day of a daily table is named with it."""
    daily = {p for name, some in area.items() if graph.table(name).grain is Grain.DAILY for p in some}
    for name, some in area.items():
        if graph.table(name).grain is Grain.DAILY:
            continue
        known = daily.union(*changed.values())
        daily |= {min((day for day in days_of(graph.table(name).grain, p) if day in known), default=p) for p in some}
    return days_in(compress(Grain.DAILY, sorted(daily))) if daily else None

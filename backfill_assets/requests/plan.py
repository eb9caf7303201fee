"""Plan of a set: which runs a change requires, table by table, and what each reads of the others.

The closure over the graph becomes a restatement set: one run per table, inputs before dependents. A run reads what the
runs before it stage, so the whole set can be seen and approved before any of it is published.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import partial
from types import MappingProxyType

from backfill_assets.calendar.partitions import DayRange, days_of
from backfill_assets.core.errors import Refused
from backfill_assets.landing.days import rejecting
from backfill_assets.ledger.store import LedgerState
from backfill_assets.ledger.transactions import WriteTransaction
from backfill_assets.planning.impact import KEEP_NOTHING, LeftOut, Rebuild, WhyLeftOut, impact, never_built
from backfill_assets.planning.manifest_parts import AskedKeys
from backfill_assets.planning.proposals import Area
from backfill_assets.planning.request import (
    Plan,
    PlanRequest,
    Staged,
    TableSpec,
    affordable,
    propose,
    require_inputs,
    require_used,
)
from backfill_assets.planning.restatement import NothingToRebuild, PlannedSet, SetRequest
from backfill_assets.planning.safeguards import every
from backfill_assets.planning.sets import ProposedBecause, SetManifest, SetMember, set_id_for
from backfill_assets.planning.stages import stages_of
from backfill_assets.requests.authority import demand_of
from backfill_assets.requests.references import Chooser, with_references
from backfill_assets.requests.scope import NOTHING_STALE, StaleOnes, left_out_of, require_whole, stale_ones
from backfill_assets.staleness.find import own_past, partitions_with_chosen_references, stale_tables, with_changes
from backfill_assets.transforms.schemas import require_follows
from backfill_assets.workspace import Workspace

TermsOf = Callable[[str], TableSpec]
KeysOf = Callable[[Sequence[str]], Mapping[str, AskedKeys]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The parts of a set that no person planned."""

    proposed: ProposedBecause
    actor: str
    area: Area  #: The partitions that it builds again, of all that depends on the changed days.
    #: What else has to be true or done in the transaction that writes the set, given its id.
    first: Callable[[WriteTransaction, str], None]


def plan_set(
    ws: Workspace,
    request: SetRequest,
    terms_of: TermsOf,
    proposal: Proposal | None = None,
    keys_of: KeysOf | None = None,
) -> PlannedSet | NothingToRebuild:
    """Plans a set and writes its manifests.

    Args:
        keys_of: Gives the keys whose rows reports show, by those of the tables of the set that have them.
        proposal: What the set is proposed for, if no person plans it.

    Returns:
        The set, or that nothing has to be rebuilt.

    Raises:
        Refused: The request names nothing, code changed under the same version, the runs are expected to cost more than
            the ceiling, or a person named days of which only a part can be planned, and did not ask for a part.
    """
    if not (request.because or request.stale or request.with_dependents):
        raise Refused.coded(
            "no_change_named",
            "the request names no change.",
            then="name the days of a table that have changed, or plan what is stale",
        )
    if request.stale and not request.references.are_present:
        raise Refused.coded(
            "stale_needs_present",
            "what is stale is rebuilt with the present references: with others it would stay as it is listed.",
            then="leave [references=True] out; or plan everything that depends on the days that have changed: "
            "`plan because`",
        )
    as_of, chooser = ws.now(), Chooser.of(ws, request.references)
    table, days = (request.table, request.days) if request.stale else (None, None)
    found = stale_tables(ws, table=table, days=days)
    changed, besides = _changed(ws, request, as_of), () if request.stale else found
    with ws.ledger.read() as tx:
        graph, accepted = chooser.reach(tx), {name: frozenset(tx.versions.claims(name)) for name in ws.graph.tables}
        expired = {name: frozenset(tx.versions.expired(name)) for name in ws.graph.stateful}
    stale = stale_ones(ws.graph, request, found) if request.stale else _named(ws, request, as_of, accepted, expired)
    keep = partitions_with_chosen_references(ws) if request.stale else KEEP_NOTHING
    if proposal is not None:
        keep = {name: some - proposal.area.get(name, frozenset()) for name, some in accepted.items()}
    reached = partial(impact, graph, changed, accepted, rebuild=stale.rebuild, if_complete=stale.if_complete, keep=keep)
    whole, rebuilds = reached(), reached(expired=expired)
    left_out = _with_rejecting(
        ws, left_out_of(ws.graph, request, stale, changed, rebuilds, accepted, besides, expired, whole)
    )
    if proposal is None and (request.because or request.days) and not request.partial:
        require_whole(rebuilds, left_out)
    if not rebuilds:
        return NothingToRebuild(left_out=left_out)
    for rebuild in rebuilds:
        require_follows(ws.lake, ws.ledger, ws.domain.derived_table(rebuild.table))
    used = {rebuild.table: ws.domain.derived_table(rebuild.table).references for rebuild in rebuilds}
    require_used(request.references, used)
    shown = {} if keys_of is None else keys_of([rebuild.table for rebuild in rebuilds])
    set_id = set_id_for(f"{as_of.isoformat()}|{request.cause}|{request.by}", as_of)
    plans = affordable(
        _plans(ws, request, rebuilds, set_id, terms_of, as_of, chooser, shown), request.max_cost, ws.settings.tariff
    )
    manifest = SetManifest(
        set_id=set_id,
        name=request.name or set_id,
        reason=request.reason,
        requested_by=request.by,
        requested_at=as_of,
        because=request.called or request.cause,
        members=members_of(plans),
        proposed=proposal.proposed if proposal else None,
    )
    return write_set(ws, manifest, plans, rebuilds, left_out, proposal, shown)


def _with_rejecting(ws: Workspace, left_out: Sequence[LeftOut]) -> tuple[LeftOut, ...]:
    """The left out partitions of a plan, with the landed files whose rejected records may be of missing days of
    sources."""
    found = []
    with ws.ledger.read() as tx:
        for each in left_out:
            missing = {some.table: some.partitions for some in (each, *each.missing)}
            lacks = each.why is WhyLeftOut.NO_VERSION or each.missing
            found.append(replace(each, rejecting=rejecting(tx, ws.domain.sources, missing)) if lacks else each)
    return tuple(found)


def members_of(plans: Iterable[Plan]) -> tuple[SetMember, ...]:
    """Planned runs as members of their set."""
    return tuple(
        SetMember(run_id=p.manifest.run_id, table=p.manifest.table, manifest_digest=p.manifest.digest) for p in plans
    )


def write_set(
    ws: Workspace,
    manifest: SetManifest,
    plans: tuple[Plan, ...],
    rebuilds: tuple[Rebuild, ...],
    left_out: tuple[LeftOut, ...] = (),
    proposal: Proposal | None = None,
    shown: Mapping[str, AskedKeys] = MappingProxyType({}),
) -> PlannedSet:
    """Writes the manifests of planned runs and of their set in one transaction.

    Args:
        shown: By table, the keys whose rows the report of each of its runs shows.
    """
    actor = proposal.actor if proposal else manifest.requested_by
    with ws.ledger.write() as tx:
        if proposal:
            proposal.first(tx, manifest.set_id)
        for plan in plans:
            tx.runs.add(plan.manifest, actor=actor, expected_core_seconds=plan.estimate.core_seconds)
            if keys := shown.get(plan.manifest.table):
                tx.samples.ask(plan.manifest.run_id, keys, by=actor)
        tx.sets.add(manifest, actor=actor)
        asked = every(demand_of(ws, tx, tx.runs.get(plan.manifest.run_id)) for plan in plans)
    manifests = [plan.manifest for plan in plans]
    return PlannedSet(
        manifest=manifest,
        rebuilds=rebuilds,
        left_out=left_out,
        plans=plans,
        stages=stages_of(manifests, ws.graph, demand=asked, phases=manifest.phases),
    )


def _named(
    ws: Workspace,
    request: SetRequest,
    as_of: datetime,
    accepted: Mapping[str, frozenset[date]],
    expired: Mapping[str, frozenset[date]],
) -> StaleOnes:
    """The partitions that a request names to be built again with what depends on them, also what never was built."""
    if not request.with_dependents or request.table is None or request.days is None:
        return NOTHING_STALE
    name = ws.domain.derived_table(request.table, days=request.days).name
    asked = ws.graph.partitions_in(name, request.days, as_of=as_of.date())
    named: dict[str, Sequence[date]] = {name: asked}
    there = {**accepted, name: accepted[name].union(asked)}
    for some in never_built(ws.graph, {name: asked}, there):
        gone = expired.get(some.table, frozenset())
        inside = (p for p in some.partitions if any(day in request.days for day in days_of(some.grain, p)))
        named[some.table] = [p for p in inside if p not in gone]
    return StaleOnes(if_complete=named)


def _changed(ws: Workspace, request: SetRequest, as_of: datetime) -> Mapping[str, set[date]]:
    changed: dict[str, set[date]] = {}
    for table, days in request.because:
        name = ws.domain.table(table).name
        changed.setdefault(name, set()).update(ws.graph.partitions_in(name, days, as_of=as_of.date()))
    return changed


def _plans(
    ws: Workspace,
    request: SetRequest,
    rebuilds: Iterable[Rebuild],
    set_id: str,
    terms_of: TermsOf,
    as_of: datetime,
    chooser: Chooser,
    shown: Mapping[str, AskedKeys],
) -> tuple[Plan, ...]:
    plans: list[Plan] = []
    staged: dict[str, dict[date, Staged]] = {}
    with ws.ledger.read() as tx:
        state = LedgerState(tx)
        for rebuild in rebuilds:
            # One run per table, and therefore one commit, even if there are gaps between its partitions; as recorded,
            # one per combination of versions of the references.
            for chosen in chooser.each(tx, ws.domain.derived_table(rebuild.table), rebuild.partitions):
                asked = replace(_run_of(request, rebuild, chosen.partitions, set_id), shown=shown.get(rebuild.table))
                table = ws.domain.derived_table(rebuild.table)
                terms = with_references(ws, table, terms_of(rebuild.table), chosen.references)
                past = own_past(ws, tx, table, chosen.partitions[0])
                plan = propose(asked, terms, graph=chosen.graph, state=state, as_of=as_of, upstream=staged, past=past)
                require_inputs(plan, first_day=ws.graph.first_day)
                plan = with_changes(ws, tx, plan)
                plans.append(plan)
                rows, run_id = plan.estimate.rows, plan.manifest.run_id
                for partition in plan.manifest.partitions:
                    staged.setdefault(rebuild.table, {})[partition] = Staged(run_id=run_id, rows=rows[partition])
    return tuple(plans)


def _run_of(request: SetRequest, rebuild: Rebuild, partitions: tuple[date, ...], set_id: str) -> PlanRequest:
    return PlanRequest(
        table=rebuild.table,
        days=DayRange(partitions[0], days_of(rebuild.grain, partitions[-1]).end),
        partitions=partitions,
        reason=request.reason,
        by=request.by,
        mode=request.mode,
        limits=request.limits,
        request_id=set_id,
        references=request.references,
    )

"""Planning requests: a run over a table, a restatement set, the load of a source."""

from __future__ import annotations

from dataclasses import replace

from backfill_assets.application.parts import stages
from backfill_assets.application.terms import present_terms, terms_of
from backfill_assets.core.people import require_person
from backfill_assets.ledger.recorded_text import one_line
from backfill_assets.ledger.store import LedgerState
from backfill_assets.planning.chosen_references import require_used
from backfill_assets.planning.estimates import require_affordable
from backfill_assets.planning.impact import complete_partitions, lacking
from backfill_assets.planning.manifest_parts import Kind, Mode
from backfill_assets.planning.request import Plan, PlanRequest, output_of, propose, require_inputs, within
from backfill_assets.planning.restatement import NothingToRebuild, PlannedSet, SetRequest
from backfill_assets.report.errors import NotOneOf
from backfill_assets.report.frozen import freezes_over
from backfill_assets.report.planned import NothingPlanned, PlanDocument, SetPlan, plan_document, set_plan_document
from backfill_assets.report.releases import brought_along, goes_back
from backfill_assets.restatements.plan import plan_set as write_set
from backfill_assets.restatements.references import Chooser
from backfill_assets.staleness.find import own_past
from backfill_assets.workspace import Workspace

PLANNED_BY_HAND = frozenset({Mode.BACKFILL, Mode.DRY_RUN, Mode.RECONCILIATION, Mode.REPLAY})
"""The modes that a person can request; LIVE is for what arrives automatically."""


def plan(ws: Workspace, request: PlanRequest) -> Plan:
    """Plans a run over a derived table and writes its DRAFT manifest.

    Raises:
        Refused: A run of kind LIVE, a choice of references that no run can make, or more cost than the ceiling.
    """
    _require_words(request)
    table = ws.domain.derived_table(request.table, days=request.days)
    if request.mode not in PLANNED_BY_HAND:
        raise NotOneOf(what="the mode of a plan", value=request.mode, known=sorted(PLANNED_BY_HAND))
    if request.kind is Kind.LIVE:
        # A LIVE run may be published by policy alone, so that it cannot be requested.
        raise NotOneOf(what="the kind of a plan", value=Kind.LIVE, known=sorted({*Kind} - {Kind.LIVE}))
    release = table.release(request.transform_version)
    named = replace(request, table=table.name, transform_version=release.version)
    chooser, as_of = Chooser.of(ws, request.references), ws.clock()
    require_used(request.references, {table.name: table.references})
    with ws.ledger.read() as tx:
        asked = output_of(named, ws.graph, as_of)
        chosen, state = chooser.one(tx, table, asked), LedgerState(tx)
        terms = replace(terms_of(ws, table, release.version), references=chosen.references)
        node = chosen.graph.table(table.name)
        ready, waiting = complete_partitions(node, chosen.graph, asked, state) if request.partial else (asked, ())
        proposed = propose(
            replace(named, partitions=ready or None),
            terms,
            graph=chosen.graph,
            state=state,
            as_of=as_of,
            past=own_past(ws, tx, table),
        )
        if ready and waiting:
            lacks = lacking(chosen.graph, node, waiting, state.accepted)
            proposed = replace(proposed, left_out=waiting, lacks=lacks)
    require_inputs(proposed, first_day=ws.graph.first_day)
    most = require_affordable({table.name: proposed.estimate}, request.max_cost, ws.settings.tariff)
    proposed = within(proposed, most[table.name])
    with ws.ledger.write() as tx:
        tx.runs.add(proposed.manifest, actor=request.by, expected_seconds=proposed.estimate.seconds)
    return proposed


def plan_set(ws: Workspace, request: SetRequest) -> PlannedSet | NothingToRebuild:
    """Plans the rebuild of everything that a change makes stale as one set; see `restatements.plan.plan_set`."""
    _require_words(request)
    return write_set(ws, request, lambda name: present_terms(ws, name))


def described_plan(ws: Workspace, planned: Plan) -> PlanDocument:
    """The plan of a run as a document: what it reads and replaces, and every stage."""
    with ws.ledger.read() as tx:
        back, brings = goes_back(tx, planned.manifest), brought_along(tx, planned.manifest)
        frozen = freezes_over(ws, tx, [planned.manifest])
    seconds = planned.estimate.seconds
    cost = None if seconds is None else ws.settings.tariff.spent(seconds)
    return plan_document(planned, stages(ws, planned.manifest.run_id), back, brings, cost, frozen)


def described_set_plan(ws: Workspace, planned: PlannedSet | NothingToRebuild) -> SetPlan | NothingPlanned:
    """The plan of a set as a document."""
    if isinstance(planned, NothingToRebuild):
        return set_plan_document(planned)
    with ws.ledger.read() as tx:
        brings = [each for plan in planned.plans for each in brought_along(tx, plan.manifest)]
        frozen = freezes_over(ws, tx, [plan.manifest for plan in planned.plans])
    return set_plan_document(planned, brings, frozen)


def _require_words(request: PlanRequest | SetRequest) -> None:
    """Refuses texts that the ledger would refuse, before they are part of a digest."""
    one_line("the reason", request.reason)
    require_person("the requester", one_line("the requester", request.by))

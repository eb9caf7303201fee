"""Planning requests: a run over a table, a restatement set, the load of a source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime
from functools import partial

from backfill_assets.application.asked_keys import asked_keys, keys_by_table
from backfill_assets.application.parts import stages
from backfill_assets.application.repair import AsRecorded, Repair, lost_versions, repair_of
from backfill_assets.application.terms import gate_code, present_terms, terms_of
from backfill_assets.calendar.partitions import Partitions, days_in, days_of
from backfill_assets.core.errors import BackfillError, Refused
from backfill_assets.core.identity import FileSet, fields_of
from backfill_assets.core.people import require_person
from backfill_assets.domain import DerivedTable
from backfill_assets.gates.agreed import gate_terms
from backfill_assets.landing.days import rejecting
from backfill_assets.ledger.recorded_text import one_line
from backfill_assets.ledger.store import LedgerState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.errors import IncompleteWindows, NoPhases, NoPilot
from backfill_assets.planning.impact import LeftOut, Rebuild, WhyLeftOut, complete_partitions, lacking
from backfill_assets.planning.kinds.change import Scope
from backfill_assets.planning.kinds.expire import Expire
from backfill_assets.planning.kinds.pilot import Pilot
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import NEVER_PUBLISHED, NOT_BY_KIND, Mode, RunPurpose
from backfill_assets.planning.request import (
    Plan,
    PlanRequest,
    affordable,
    output_of,
    propose,
    require_inputs,
    require_used,
    whole_table,
)
from backfill_assets.planning.request import plan_expiry as expiry_of
from backfill_assets.planning.restatement import NothingToRebuild, PlannedSet, SetRequest
from backfill_assets.planning.sets import AskedPhases, SetManifest, cut, set_id_for
from backfill_assets.report.alternatives import alternatives
from backfill_assets.report.errors import NotOneOf
from backfill_assets.report.planned import (
    NothingPlanned,
    PlanDocument,
    PlannedRuns,
    SetPlan,
    expected_cost,
    left_out_documents,
    open_set_that_does_the_same,
)
from backfill_assets.report.releases import brought_along, goes_back, references_for_gates
from backfill_assets.report.sources import read_before
from backfill_assets.report.waiting import freezes_over, not_known_behind, rejected_behind
from backfill_assets.requests.plan import members_of, write_set
from backfill_assets.requests.plan import plan_set as plan_restatement
from backfill_assets.requests.references import Chooser, with_references
from backfill_assets.staleness.find import own_past, with_changes
from backfill_assets.transforms.schemas import require_follows, require_inputs_follow
from backfill_assets.workspace import Workspace

PLANNED_BY_HAND = frozenset({Mode.BACKFILL, Mode.DRY_RUN, Mode.RECONCILIATION, Mode.REPLAY})
"""The modes that a person can request; LIVE is for what arrives automatically."""


_OF_ONE_TEXT = frozenset({"string", "byte", "short", "integer", "long", "boolean", "date", "decimal"})
"""The types whose values Arrow and Spark read from the same text."""


def plan(ws: Workspace, request: PlanRequest) -> Plan:
    """Plans a run over a derived table and writes its DRAFT manifest.

    Raises:
        Refused: A run of kind LIVE, a choice of references that no run can make, or more cost than the ceiling.
    """
    _require_words(request)
    proposed = _proposed(ws, request, ws.now())
    (proposed,) = affordable([proposed], request.max_cost, ws.settings.tariff)
    with ws.ledger.write() as tx:
        tx.runs.add(proposed.manifest, actor=request.by, expected_core_seconds=proposed.estimate.core_seconds)
        if request.shown:
            tx.samples.ask(proposed.manifest.run_id, request.shown, by=request.by)
    return proposed


def _proposed(ws: Workspace, request: PlanRequest, as_of: datetime) -> Plan:
    """The plan of a run with whole windows; nothing is written."""
    table = ws.domain.derived_table(request.table, days=request.days)
    repair = Repair(request=request)
    if request.kind is RunPurpose.REPAIR:
        with ws.ledger.read() as tx:
            repair = repair_of(ws, tx, table, request, as_of)
        request = repair.request
    if request.mode not in PLANNED_BY_HAND:
        raise NotOneOf(what="the mode of a plan", value=request.mode, known=sorted(PLANNED_BY_HAND))
    if request.kind in NOT_BY_KIND:
        # A LIVE run may be published by policy alone, and an expiry has no rows, so that neither can be requested.
        raise NotOneOf(what="the kind of a plan", value=request.kind, known=sorted({*RunPurpose} - NOT_BY_KIND))
    release = table.release(request.transform_version)
    require_follows(ws.lake, ws.ledger, table)
    require_inputs_follow(ws.lake, ws.ledger, table)
    named = replace(request, table=table.name, transform_version=release.version)
    chooser = Chooser.of(ws, request.references)
    require_used(request.references, {table.name: table.references})
    with ws.ledger.read() as tx:
        tx.acts.require_kept(table.name)
        named = whole_table(named, ws.graph, output_of(named, ws.graph, as_of), LedgerState(tx))
        asked = output_of(named, ws.graph, as_of)
        if request.scope is not None:
            _require_pilot(tx, table, request.scope, asked)
        chosen, state = chooser.one(tx, table, asked), AsRecorded(tx, repair.inputs)
        if repair.references is not None:
            graph = ws.graph_with(table.name, repair.references)
            chosen = replace(chosen, references=repair.references, graph=graph)
        terms = with_references(ws, table, terms_of(ws, table, release.version), chosen.references)
        if request.scope is not None:
            terms = replace(terms, gates=gate_terms(table, Pilot(rows=request.scope), code=gate_code(ws, table)))
        node = chosen.graph.table(table.name)
        ready, waiting = complete_partitions(node, chosen.graph, asked, state) if request.partial else (asked, ())
        proposed = propose(
            replace(named, partitions=ready or None),
            terms,
            graph=chosen.graph,
            state=state,
            as_of=as_of,
            past=own_past(ws, tx, table, (ready or asked)[0]),
            lost=repair.made_from,
        )
        # What was asked for, before it was widened or narrowed to partitions.
        proposed = replace(proposed, days=request.days if request.partitions is None else None)
        if ready and waiting:
            lacks = lacking(chosen.graph, node, waiting, state.accepted)
            expired = {each.table: state.expired(each.table) for each in lacks}
            proposed = replace(proposed, left_out=waiting, lacks=lacks, expired=expired)
        try:
            require_inputs(proposed, first_day=ws.graph.first_day)
        except IncompleteWindows as error:
            lacking_days = {name: some.days for name, some in {**error.missing, **error.first}.items()}
            error.rejecting = rejecting(tx, ws.domain.sources, lacking_days)
            raise
        return with_changes(ws, tx, proposed)


def _require_pilot(tx: ReadTransaction, table: DerivedTable, scope: Scope, partitions: Sequence[date]) -> None:
    """Refuses a scope of rows that cannot be changed while all others stay.

    Raises:
        NoPilot: Its columns name no rows, the table is published otherwise, or there are no accepted rows to keep.
    """
    columns = tuple(name for name in table.schema.fieldNames() if name != table.partition.column)
    why, option = "", "but" if scope.is_rest else "where"
    if unknown := [column for column, _ in scope.where if column not in columns]:
        why = f"{', '.join(unknown)} cannot tell rows of a partition apart; these columns can: {', '.join(columns)}"
        raise NoPilot(table=table.name, scope=str(scope), option=option, why=why, unknown=unknown[0], columns=columns)
    if not table.has_pilots:
        why = "only tables that replace whole partitions and keep no state have pilots"
    elif lacking := sorted(set(partitions) - tx.versions.claims(table.name, partitions).keys()):
        why = f"{Partitions(table.partition.grain, tuple(lacking))} has no accepted rows that could stay"
    if why:
        raise NoPilot(table=table.name, scope=str(scope), option=option, why=why, by_days=table.has_pilots)


def plan_table(
    ws: Workspace, request: PlanRequest, asked: AskedPhases | None = None, *, name: str | None = None, show: str = ""
) -> Plan | PlannedSet:
    """Plans a run over a table, or the phases that are asked for, or else declared by the table.

    Args:
        asked: The phases; one is a plan as a whole, whatever the table declares.
        name: What to call the set of phases.
        show: A CSV file of keys, or a reference with keys, whose rows the report of each run shows; empty for none.

    Raises:
        Refused: What `plan` and `plan_phases` refuse, or keys that are none of the table.
    """
    if show:
        table = ws.domain.derived_table(request.table, days=request.days)
        request = replace(request, shown=asked_keys(ws, table, show))
    phases = asked
    if asked is None and request.mode not in NEVER_PUBLISHED and not _repairs_lost(ws, request):
        phases = ws.domain.derived_table(request.table, days=request.days).phases
    if phases is None or phases.count == 1:
        return plan(ws, request)
    try:
        return plan_phases(ws, request, phases, name=name)
    except NoPhases:
        if asked is not None:
            raise
        return plan(ws, request)  # what is asked for is too little for the phases of the table


def _repairs_lost(ws: Workspace, request: PlanRequest) -> bool:
    """True if a repair is requested for lost files, which are put back at once."""
    if request.kind is not RunPurpose.REPAIR:
        return False
    table = ws.domain.derived_table(request.table, days=request.days)
    asked = output_of(replace(request, table=table.name), ws.graph, ws.now())
    with ws.ledger.read() as tx:
        return bool(lost_versions(ws, table, tx.versions.accepted(table.name, asked)))


def plan_expiry(ws: Workspace, name: str, *, reason: str, by: str) -> Plan:
    """Plans that the snapshots of a table expire that it does not keep, and writes the DRAFT manifest.

    Raises:
        Refused: The table keeps every snapshot, or has none that expires.
    """
    one_line("the reason", reason)
    require_person("the requester", one_line("the requester", by))
    table = ws.domain.derived_table(name)
    if table.keep is None:
        raise Refused.coded(
            "keeps_every_snapshot",
            "{table} does not declare which snapshots it keeps, so that none expires.",
            then="name a table that keeps state: only its partitions are snapshots"
            if table.state is None
            else "declare it in {table}: reads_self(keep=RetentionRule(days=90, then='month'))",
            table=table.name,
        )
    expire, terms = Expire(keep=table.keep), terms_of(ws, table, table.version, computes=False)
    terms = replace(
        terms,
        gates=gate_terms(table, expire),
        code_modules=(),
        code_archive="",
        notes="",
        references=(),
        columns=(),
    )
    with ws.ledger.read() as tx:
        tx.acts.require_kept(table.name)
        node, state = ws.graph.table(table.name), LedgerState(tx)
        planned = expiry_of(node, expire, terms, reason=reason, by=by, state=state, as_of=tx.now)
    with ws.ledger.write() as tx:
        tx.runs.add(planned.manifest, actor=by)
    return planned


def plan_phases(ws: Workspace, request: PlanRequest, asked: AskedPhases, *, name: str | None = None) -> PlannedSet:
    """Plans one change of a table as runs that are published one after the other, and writes them as a set.

    Raises:
        Refused: What `plan` refuses; or phases of a table whose runs read each other's rows, or of a run that is never
            published.
    """
    _require_words(request)
    table, as_of = ws.domain.derived_table(request.table, days=request.days), ws.now()
    node = ws.graph.table(table.name)
    if not node.is_divisible or request.mode in NEVER_PUBLISHED:
        why = f"a run of mode {request.mode} is not published"
        if request.mode not in NEVER_PUBLISHED:
            why = "a later run reads the rows that the run before it published"
        raise NoPhases(table=table.name, why=why, by_days=False)
    parts = cut(table.name, output_of(replace(request, table=table.name), ws.graph, as_of), asked.count)
    text = f"{as_of.isoformat()}|{request.table}|{request.days}|{request.by}|{request.reason}"
    set_id = set_id_for(text, as_of)
    days = [days_in(days_of(node.grain, partition) for partition in part) for part in parts]
    proposed = [_proposed(ws, replace(request, days=some, request_id=set_id), as_of) for some in days]
    plans = affordable(proposed, request.max_cost, ws.settings.tariff)
    manifest = SetManifest(
        set_id=set_id,
        name=name or set_id,
        reason=request.reason,
        requested_by=request.by,
        requested_at=as_of,
        because=f"{table.name}:{request.days} in {len(plans)} phases",
        members=members_of(plans),
        phases=asked.terms,
    )
    partitions = tuple(partition for each in plans for partition in each.manifest.partitions)
    left_out = tuple(
        LeftOut(
            table=table.name,
            grain=node.grain,
            partitions=each.left_out,
            why=WhyLeftOut.INPUT_EXPIRED if _has_expired(each) else WhyLeftOut.INCOMPLETE,
            missing=each.lacks,
        )
        for each in plans
        if each.left_out
    )
    rebuild = Rebuild(table=table.name, grain=node.grain, partitions=partitions)
    return write_set(
        ws, manifest, plans, (rebuild,), left_out, shown={table.name: request.shown} if request.shown else {}
    )


def _has_expired(plan: Plan) -> bool:
    """True if some inputs of the partitions that were left out have expired."""
    return any(not plan.expired.get(each.table, {}).keys().isdisjoint(each.partitions) for each in plan.lacks)


def plan_set(ws: Workspace, request: SetRequest, *, show: str = "") -> PlannedSet | NothingToRebuild:
    """Plans the rebuild of everything that a change makes stale as one set; see `requests.plan.plan_set`.

    Args:
        show: A CSV file of keys, or a reference with keys, whose rows the reports of the tables show that have this
            key; empty for none.
    """
    _require_words(request)
    keys_of = partial(keys_by_table, ws, show) if show else None
    return plan_restatement(ws, request, lambda name: present_terms(ws, name), keys_of=keys_of)


def described_plan(ws: Workspace, planned: Plan) -> PlanDocument:
    """The plan of a run as a document: what it reads and replaces, and every stage."""
    with ws.ledger.read() as tx:
        back, shared = goes_back(tx, planned.manifest), _of_runs(ws, tx, [planned])
        instead = alternatives(ws, tx, planned, shared.brings)
    return PlanDocument(
        **fields_of(shared),
        plan=planned,
        goes_back=back,
        stages=stages(ws, planned.manifest.run_id),
        alternatives=instead,
    )


def _of_runs(ws: Workspace, tx: ReadTransaction, plans: Sequence[Plan]) -> PlannedRuns:
    manifests = [plan.manifest for plan in plans]
    return PlannedRuns(
        brings=tuple(each for manifest in manifests for each in brought_along(tx, manifest)),
        gate_references=tuple(
            dict.fromkeys(each for manifest in manifests for each in references_for_gates(ws, manifest))
        ),
        frozen=freezes_over(tx, manifests),
        rejected=rejected_behind(ws, tx, manifests),
        not_known=not_known_behind(ws, tx, manifests),
        cost=expected_cost(plans, ws.settings.tariff),
        scope_rows=_rows_in_scope(ws, tx, manifests),
    )


def described(ws: Workspace, planned: Plan | PlannedSet | NothingToRebuild) -> PlanDocument | SetPlan | NothingPlanned:
    """The document of a planned change."""
    match planned:
        case Plan():
            return described_plan(ws, planned)
        case PlannedSet():
            return described_set_plan(ws, planned)
        case NothingToRebuild():
            left_out = left_out_documents(planned.left_out)
            with ws.ledger.read() as tx:
                before = read_before(tx, ws.domain.sources)
            return NothingPlanned(asked_partitions=planned.asked_for, left_out=left_out, read_before=before)


def _rows_in_scope(ws: Workspace, tx: ReadTransaction, runs: Sequence[Manifest]) -> int | None:
    """The number of accepted rows in the scope of a pilot, or of all its phases; None where it is not known."""
    manifest = runs[0]
    scope = manifest.change.scope
    if scope is None:
        return None
    # Imported for pilots: Arrow reads rows.
    from backfill_assets.lake.errors import NoValueOfKey
    from backfill_assets.lake.row_values import count_rows

    table = ws.domain.derived_table(manifest.table)
    if not {table.schema[column].dataType.typeName() for column, _ in scope.where} <= _OF_ONE_TEXT:
        return None
    accepted = tx.versions.accepted(table.name, [partition for run in runs for partition in run.partitions])
    files = FileSet.of(file for version in accepted.values() for file in version.files.files)
    try:
        return count_rows(ws.lake, table.name, files, dict(scope.where))
    except NoValueOfKey:
        return 0
    except BackfillError:
        # Its files cannot be read, which staging refuses.
        return None


def described_set_plan(ws: Workspace, planned: PlannedSet) -> SetPlan:
    """The plan of a set as a document."""
    with ws.ledger.read() as tx:
        shared, same = _of_runs(ws, tx, planned.plans), open_set_that_does_the_same(tx, planned)
        read = {pinned.table for plan in planned.plans for pinned in plan.manifest.inputs}
        before = read_before(tx, [source for source in ws.domain.sources if source.name in read])
    left_out = left_out_documents(planned.left_out)
    return SetPlan(**fields_of(shared), planned=planned, left_out=left_out, same_as=same, read_before=before)


def _require_words(request: PlanRequest | SetRequest) -> None:
    """Refuses texts that the ledger would refuse, before they are part of a digest."""
    one_line("the reason", request.reason)
    require_person("the requester", one_line("the requester", request.by))

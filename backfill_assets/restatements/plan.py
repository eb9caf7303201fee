"""Plan of a set: which runs a change requires, table by table, and what each reads of the others.

The closure over the graph becomes a restatement set: one run per table, inputs before dependents. A run reads what the
runs before it stage, so the whole set can be seen and approved before any of it is published.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime

from backfill_assets.domain import SourceTable
from backfill_assets.errors import MissingInput, Refused
from backfill_assets.identity import sha256_text
from backfill_assets.ledger.claims import LedgerState
from backfill_assets.ledger.transactions import WriteTransaction
from backfill_assets.next_steps import NAME, WHY, Act, Invocation, NextStep, Option, do, step
from backfill_assets.planning.ceiling import require_affordable
from backfill_assets.planning.chosen_references import require_used
from backfill_assets.planning.filling import joined, loads, plans
from backfill_assets.planning.impact import KEEP_NOTHING, Rebuild, impact, never_built
from backfill_assets.planning.partitions import DayRange, days_of, describe
from backfill_assets.planning.policy import every
from backfill_assets.planning.request import (
    Plan,
    PlanRequest,
    Staged,
    Terms,
    propose,
    require_inputs,
)
from backfill_assets.planning.restatement import LeftOut, NothingToRebuild, PlannedSet, SetRequest
from backfill_assets.planning.sets import SET_PREFIX, ProposedBecause, SetManifest, SetMember
from backfill_assets.planning.stages import stages_of
from backfill_assets.publication.authority import demand_of
from backfill_assets.restatements.references import Chooser
from backfill_assets.staleness.document import as_recorded
from backfill_assets.staleness.find import partitions_with_chosen_references, stale_tables
from backfill_assets.staleness.ranges import Cause, Staleness, StaleRange
from backfill_assets.workspace import Workspace

_BLOCKED = "an input has no accepted version any more"
_ON_PURPOSE = "its references were chosen on purpose"
_ONLY_CODE = "only the code changed, and the version is the same"
_NEW_VERSION = step(
    "give the transform a new version; or, to prove that the rows are the same, add ", Option("changed_code")
)

TermsOf = Callable[[str], Terms]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """How a set is written that no person planned.

    Attributes:
        proposed: What it is proposed for.
        actor: What proposes it.
        first: What else has to be true or done in the transaction that writes the set, given its id.
    """

    proposed: ProposedBecause
    actor: str
    first: Callable[[WriteTransaction, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Named:
    """The stale partitions of a request by table: what to rebuild, what to build first, and what is left out."""

    stale: Mapping[str, Sequence[date]] = field(default_factory=dict)
    new: Mapping[str, Sequence[date]] = field(default_factory=dict)
    left_out: tuple[LeftOut, ...] = ()


def plan_set(
    ws: Workspace, request: SetRequest, terms_of: TermsOf, proposal: Proposal | None = None
) -> PlannedSet | NothingToRebuild:
    """Plans a set and writes its manifests.

    Args:
        ws: The workspace.
        request: Who asks for what, and why.
        terms_of: What the declaration of a table contributes to its manifest.
        proposal: What the set is proposed for, if no person plans it.

    Returns:
        The set, or that nothing has to be rebuilt.

    Raises:
        UnknownName: There is no such table.
        InvalidRange: Days outside a table's days.
        MissingInput: Input days without an accepted version.
        Refused: The request names nothing, landed files are not loaded yet, code changed under the same version, or the
            runs are expected to cost more than the ceiling.
    """
    if not request.because and not request.stale:
        raise Refused(
            "the request names no change.",
            next_step=step("add ", Option("because", "TABLE:DAY..DAY"), ", or ", Option("stale")),
        )
    _require_present(request)
    as_of, chooser = ws.clock(), Chooser.of(ws, request.references)
    named = _stale(ws, request) if request.stale else _Named(left_out=_stale_as_well(ws))
    rebuilds = _rebuilds(ws, request, named, as_of, chooser)
    if not rebuilds:
        return NothingToRebuild(left_out=(*named.left_out, *_never_built(ws, request, as_of)))
    used = {rebuild.table: ws.domain.derived_table(rebuild.table).references for rebuild in rebuilds}
    require_used(request.references, used)
    set_id = f"{SET_PREFIX}{as_of:%Y%m%d}-{sha256_text(f'{as_of.isoformat()}|{request.cause}|{request.by}')[:8]}"
    plans = _plans(ws, request, rebuilds, set_id, terms_of, as_of, chooser)
    expected, settings = {plan.manifest.table: plan.estimate for plan in plans}, ws.settings
    require_affordable(expected, request.max_cost, cores=settings.cores, price=settings.core_hour_price)
    manifest = SetManifest(
        set_id=set_id,
        name=request.name or set_id,
        reason=request.reason,
        requested_by=request.by,
        requested_at=as_of,
        because=request.called or request.cause,
        members=tuple(
            SetMember(run_id=p.manifest.run_id, table=p.manifest.table, manifest_digest=p.manifest.digest)
            for p in plans
        ),
        proposed=proposal.proposed if proposal else None,
    )
    actor = proposal.actor if proposal else request.by
    with ws.ledger.write() as tx:
        if proposal:
            proposal.first(tx, set_id)
        for plan in plans:
            tx.runs.add(plan.manifest, actor=actor)
        tx.sets.add(manifest, actor=actor)
        asked = every(demand_of(ws, tx, tx.runs.get(plan.manifest.run_id)) for plan in plans)
    return PlannedSet(
        manifest=manifest,
        rebuilds=rebuilds,
        left_out=_still_left_out(named.left_out, rebuilds),
        plans=plans,
        stages=stages_of([plan.manifest for plan in plans], ws.graph, of=set_id, demand=asked),
    )


def _changed(ws: Workspace, request: SetRequest, as_of: datetime) -> Mapping[str, set[date]]:
    changed: dict[str, set[date]] = {}
    for table, days in request.because:
        name = ws.domain.table(table).name
        changed.setdefault(name, set()).update(ws.graph.partitions_in(name, days, as_of=as_of.date()))
    return changed


def _never_built(ws: Workspace, request: SetRequest, as_of: datetime) -> Iterator[LeftOut]:
    """Partitions that depend on the named days and were never built, so that an empty plan is explained."""
    with ws.ledger.read() as tx:
        found = never_built(ws.graph, _changed(ws, request, as_of), LedgerState(tx).accepted)
    for some in found:
        how = joined(plans(some.table, some.grain, some.partitions))
        yield LeftOut(
            table=some.table,
            grain=some.grain,
            partitions=some.partitions,
            why="depends on these days, and was never built",
            include=how,
        )


def _rebuilds(
    ws: Workspace, request: SetRequest, named: _Named, as_of: datetime, chooser: Chooser
) -> tuple[Rebuild, ...]:
    changed = _changed(ws, request, as_of)
    with ws.ledger.read() as tx:
        graph = chooser.reach(tx)
    keep = partitions_with_chosen_references(ws) if request.stale else KEEP_NOTHING
    with ws.ledger.read() as tx:
        return impact(graph, changed, LedgerState(tx).accepted, rebuild=named.stale, never_built=named.new, keep=keep)


def _stale(ws: Workspace, request: SetRequest) -> _Named:
    stale: dict[str, list[date]] = {}
    new: dict[str, list[date]] = {}
    left_out: list[LeftOut] = []
    only_code: list[str] = []
    for found in stale_tables(ws, table=request.table, days=request.days):
        if isinstance(ws.domain.table(found.table), SourceTable):
            _require_loaded(found)
            continue
        of_code: list[date] = []
        gaps: list[date] = []
        # If days are named, the input may be one of those that are built for the first time.
        blocked = frozenset(found.blocked) if request.days is None else frozenset[date]()
        if blocked:
            to_include = step("build the input first, or roll back what depends on it: ", do(Act.STALE, found.table))
            left_out.append(_left_out(found, sorted(blocked), _BLOCKED, to_include))
        excepted = blocked | frozenset(found.on_purpose)
        left_out += _on_purpose(found, found.kept)
        for stretch in found.ranges:
            causes = {reason.cause for reason in stretch.reasons}
            if causes == {Cause.NEVER_BUILT}:
                (gaps if request.days is None else new.setdefault(found.table, [])).extend(stretch.partitions)
            elif causes == {Cause.CODE_CHANGED} and not request.changed_code:
                of_code += [partition for partition in stretch.partitions if partition not in found.on_purpose]
            elif possible := [partition for partition in stretch.partitions if partition not in excepted]:
                stale.setdefault(found.table, []).extend(possible)
        if of_code:
            only_code.append(f"{found.table} {describe(found.grain, of_code)}")
            left_out.append(_left_out(found, of_code, _ONLY_CODE, _NEW_VERSION))
        if gaps:
            named = step(_plan_stale(found.table, DayRange(gaps[0], days_of(found.grain, gaps[-1]).end)))
            left_out.append(_left_out(found, gaps, "never built, and the days were not named", named))
    if only_code and not stale and not new and not request.because:
        raise Refused(
            f"only the code changed, under the same version: {'; '.join(only_code)}.",
            next_step=_NEW_VERSION,
        )
    return _Named(stale=stale, new=new, left_out=tuple(left_out))


def _on_purpose(found: Staleness, also: Iterable[StaleRange] = ()) -> Iterator[LeftOut]:
    """What was computed with references that a person chose, and only a person chooses others for."""
    if kept := sorted([*found.on_purpose, *(partition for stretch in also for partition in stretch.partitions)]):
        present = joined(plans(found.table, found.grain, kept))
        again = joined(as_recorded(found.table, found.grain, kept))
        how = step("with the present references: ", present, "; with the same again: ", again)
        yield _left_out(found, kept, _ON_PURPOSE, how)


def _stale_as_well(ws: Workspace) -> tuple[LeftOut, ...]:
    """Everything stale that the request does not name: a set that rebuilds only a part reports the rest."""
    left_out: list[LeftOut] = []
    for found in stale_tables(ws):
        if isinstance(ws.domain.table(found.table), SourceTable):
            continue
        causes = [({reason.cause for reason in stretch.reasons}, stretch.partitions) for stretch in found.ranges]
        others = [(why, some) for why, some in causes if why != {Cause.NEVER_BUILT}]
        left_out += _on_purpose(found)
        partitions = [partition for _, some in others for partition in some if partition not in found.on_purpose]
        if partitions:
            of_code = any(why == {Cause.CODE_CHANGED} for why, _ in others)
            how = step(_plan_stale(found.table, changed_code=of_code), "; why: ", do(Act.STALE, found.table))
            left_out.append(_left_out(found, partitions, "stale for other reasons", how))
    return tuple(left_out)


def _plan_stale(table: str, days: DayRange | None = None, *, changed_code: bool = False) -> Invocation:
    first, last = (days.start, days.last) if days else (None, None)
    return do(Act.PLAN, table, stale=True, first=first, last=last, changed_code=changed_code, reason=WHY, by=NAME)


def _left_out(found: Staleness, partitions: Sequence[date], why: str, include: NextStep) -> LeftOut:
    return LeftOut(table=found.table, grain=found.grain, partitions=tuple(partitions), why=why, include=include)


def _still_left_out(left_out: Iterable[LeftOut], rebuilds: Iterable[Rebuild]) -> tuple[LeftOut, ...]:
    """Without what is rebuilt after all, because it depends on something that is."""
    built = {rebuild.table: set(rebuild.partitions) for rebuild in rebuilds}
    remaining = (
        replace(each, partitions=tuple(p for p in each.partitions if p not in built.get(each.table, ())))
        for each in left_out
    )
    return tuple(each for each in remaining if each.partitions)


def _require_loaded(found: Staleness) -> None:
    waiting = found.partitions
    if waiting:
        raise MissingInput(
            f"{found.table} has days that are not built from what has landed: {describe(found.grain, waiting)}.",
            next_step=joined(loads(found.table, waiting)),
            table=found.table,
        )


def _plans(
    ws: Workspace,
    request: SetRequest,
    rebuilds: Iterable[Rebuild],
    set_id: str,
    terms_of: TermsOf,
    as_of: datetime,
    chooser: Chooser,
) -> tuple[Plan, ...]:
    plans: list[Plan] = []
    staged: dict[str, dict[date, Staged]] = {}
    with ws.ledger.read() as tx:
        state = LedgerState(tx)
        for rebuild in rebuilds:
            # One run per table, and therefore one commit, even if there are gaps between its partitions; as recorded,
            # one per combination of versions of the references.
            for chosen in chooser.each(tx, ws.domain.derived_table(rebuild.table), rebuild.partitions):
                asked = _run_of(request, rebuild, chosen.partitions, set_id)
                terms = replace(terms_of(rebuild.table), references=chosen.references)
                plan = propose(asked, terms, graph=chosen.graph, state=state, as_of=as_of, upstream=staged)
                require_inputs(plan, first_day=ws.graph.first_day)
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
        member_of=set_id,
        references=request.references,
    )


def _require_present(request: SetRequest) -> None:
    if request.stale and not request.references.are_present:
        raise Refused(
            "what is stale is rebuilt with the present references: with others it would stay as it is listed.",
            next_step=step(
                *("leave ", Option("references"), " out; or name what changed, instead of ", Option("stale"), ": "),
                Option("because", "TABLE:DAY..DAY"),
            ),
        )

"""Staleness of tables: reads the ledger, the declarations and the reference archive, and calls `staleness.decide`.

For a changed reference, its earlier value comes from the archive, and says which days are affected; if the archive does
not have it, any day may be. For proposals, the same is told by the changed days of sources (`source_changes`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cache, partial
from itertools import pairwise
from typing import Any

from backfill_assets.calendar.partitions import Days, Grain, Partitions, compress, days_in, days_of
from backfill_assets.core.errors import InvalidReference, MissingInput
from backfill_assets.core.session_settings import session_digest
from backfill_assets.domain import DayRange, DerivedTable, Domain, SourceTable, Table, Window
from backfill_assets.domain.operations import UnknownKeys
from backfill_assets.files.port import Files
from backfill_assets.lake.tables import problem_of
from backfill_assets.landing.days import pending_days
from backfill_assets.landing.imports import (
    LOAD,
    LOAD_VERSION,
    OnDuplicate,
    as_present_build,
    as_present_reads,
    not_known,
)
from backfill_assets.ledger.bases import ProvenanceIndex
from backfill_assets.ledger.findings import Finding
from backfill_assets.ledger.states import COUNTING
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.errors import NoSnapshot
from backfill_assets.planning.graph import Graph, TableNode
from backfill_assets.planning.manifest import Manifest, configuration_of
from backfill_assets.planning.manifest_parts import (
    Cause,
    ChangedReference,
    KeysUnknown,
    PinnedReference,
    Reason,
    together,
)
from backfill_assets.planning.proposals import SourceDay
from backfill_assets.planning.request import Plan
from backfill_assets.planning.stages import NO_PAST, SnapshotHistory, begins_with
from backfill_assets.planning.state import ComputedFrom
from backfill_assets.staleness.decide import (
    ConfiguredWith,
    CurrentState,
    Narrow,
    ReferenceDiff,
    Staleness,
    find_stale,
    reached_by,
)
from backfill_assets.transforms.references import LoadedReference, load_pinned
from backfill_assets.workspace import Workspace


def stale_tables(ws: Workspace, *, table: str | None = None, days: Days | None = None) -> tuple[Staleness, ...]:
    """The stale tables, inputs before dependents."""
    with ws.ledger.read() as tx:
        return stale_within(ws, tx, table=table, days=days)


def stale_within(
    ws: Workspace, tx: ReadTransaction, *, table: str | None = None, days: Days | None = None
) -> tuple[Staleness, ...]:
    """The staleness of a table, inside an open transaction."""
    chosen = list(ws.domain.tables.values()) if table is None else [ws.domain.table(table)]
    today = ws.clock().date()
    names = [declared.name for declared in chosen]
    inputs = [edge.table for name in names for edge in ws.graph.table(name).inputs]
    known = tx.bases.of_accepted(names, inputs=inputs)
    found: list[Staleness] = []
    for declared in chosen:
        named, since = days, ws.graph.table(declared.name).since
        if days is not None and table is None and since is not None:
            # The days were asked of all tables, also of those that begin later.
            if since >= days.end:
                continue
            named = days_in(DayRange(max(each.start, since), each.end) for each in days.ranges if each.end > since)
        try:
            asked = None if named is None else ws.graph.partitions_in(declared.name, named, as_of=today)
        except NoSnapshot:
            if table is not None:
                raise
            continue
        found.append(_stale(ws, tx, declared, known, known.bases[declared.name], known.earlier, asked))
    return tuple(found)


def partitions_with_chosen_references(ws: Workspace) -> Mapping[str, frozenset[date]]:
    """The accepted partitions of every table that were computed with references whose version a person chose."""
    names = [table.name for table in ws.domain.derived if table.references]
    with ws.ledger.read() as tx:
        bases = tx.bases.of_accepted(names).bases
    return {
        name: frozenset(p for basis in some if basis.has_chosen_references for p in basis.partitions)
        for name, some in bases.items()
    }


def regressed_partitions(ws: Workspace, tx: ReadTransaction, manifest: Manifest) -> tuple[date, ...]:
    """The accepted partitions of a run's table that are up to date, and would not be once the run is published.

    Such a run was planned before its inputs changed, and another run has been published from the newer ones since.
    """
    table = ws.domain.table(manifest.table)
    candidate = tx.bases.of_run(manifest.run_id, manifest.partitions)
    tables = {edge.table for edge in ws.graph.table(table.name).inputs} | {read.edge.table for read in candidate.inputs}
    known = tx.bases.of_accepted([table.name], inputs=sorted(tables), partitions=set(manifest.partitions))
    older = _by_input(_stale(ws, tx, table, known, [candidate], lambda *_: iter(()), manifest.partitions))
    if not older:
        return ()
    bases = known.bases[table.name]
    accepted = {partition for basis in bases for partition in basis.partitions}
    older_now = _by_input(_stale(ws, tx, table, known, bases, known.earlier, manifest.partitions))
    return tuple(sorted(older & accepted - older_now))


def computed_from_other_inputs(
    ws: Workspace, tx: ReadTransaction, table: DerivedTable, partitions: Sequence[date]
) -> frozenset[date]:
    """Those of the accepted partitions that were computed from other inputs than what is accepted now.

    Without those whose references a person chose: no run that follows by itself computes them with the present ones.
    """
    found = stale_partitions(ws, tx, table, partitions)
    changed = (r for r in found.ranges if any(why.cause is Cause.INPUT_CHANGED for why in r.reasons))
    return frozenset(p for r in changed for p in r.partitions) - frozenset(found.on_purpose)


def stale_partitions(
    ws: Workspace, tx: ReadTransaction, table: DerivedTable, partitions: Collection[date], *, agreed: bool = False
) -> Staleness:
    """The staleness of some accepted partitions of a table.

    Args:
        agreed: Only what was approved counts as a reason not to be, and not what was found equal without an approval.
    """
    inputs = [edge.table for edge in ws.graph.table(table.name).inputs]
    known = tx.bases.of_accepted([table.name], inputs=inputs, partitions=set(partitions), agreed=agreed)
    return _stale(ws, tx, table, known, known.bases[table.name], known.earlier, sorted(partitions))


def with_changes(ws: Workspace, tx: ReadTransaction, plan: Plan) -> Plan:
    """A plan with what has changed since the accepted rows of its partitions were computed, and with the keys that are
    not known now and that its publication waits for, in its manifest."""
    manifest = replace(plan.manifest, unknown=tuple(_unknown_keys(ws, tx, plan.manifest)))
    plan = replace(plan, manifest=manifest)
    accepted = sorted(tx.versions.claims(manifest.table, manifest.partitions))
    if not accepted:
        return plan
    table = ws.domain.derived_table(manifest.table)
    inputs = [pinned.table for pinned in manifest.inputs]
    known = tx.bases.of_accepted([table.name], inputs=inputs, partitions=set(accepted))
    found = _stale(ws, tx, table, known, known.bases[table.name], known.earlier, accepted, manifest)
    reasons = together(why for each in (*found.ranges, *found.kept) for why in each.reasons)
    return replace(plan, manifest=replace(manifest, changed=reasons))


def _unknown_keys(ws: Workspace, tx: ReadTransaction, manifest: Manifest) -> Iterator[KeysUnknown]:
    for pinned in manifest.inputs:
        source = ws.domain.tables[pinned.table]
        if isinstance(source, SourceTable) and source.unknown == UnknownKeys.BLOCK:
            found = not_known(tx, source, {pin.partition for pin in pinned.partitions})
            if found is not None:
                yield KeysUnknown(table=source.name, keys=found.keys, days=found.days.days)


def stale_before(
    ws: Workspace, tx: ReadTransaction, table: DerivedTable, other: DerivedTable
) -> Mapping[date, Sequence[Reason]]:
    """Why accepted partitions of a version of a table are stale that are not stale of another version."""
    found = stale_partitions(ws, tx, table, tx.versions.claims(table.name)).reasons
    too = stale_partitions(ws, tx, other, tx.versions.claims(other.name, sorted(found))).partitions
    return {partition: reasons for partition, reasons in found.items() if partition not in set(too)}


def own_past(ws: Workspace, tx: ReadTransaction, table: DerivedTable, first: date) -> SnapshotHistory:
    """The known facts about the accepted snapshots of a table that keeps state.

    A snapshot is settled if its inputs since the snapshot before it are what is accepted now, both were computed from
    the same earlier days, and nothing else has changed: from an equal snapshot before it, it is equal.

    Args:
        first: The first partition of the run. Only of the snapshots that it would begin with are the files examined.
    """
    if table.state is None:
        return NO_PAST
    node = ws.graph.table(table.name)
    inputs = [edge.table for edge in node.inputs]
    known = tx.bases.of_accepted([table.name], inputs=inputs)
    found = _stale(ws, tx, table, known, known.bases[table.name], known.earlier, None)
    reasons: dict[date, set[Cause]] = {}
    # A snapshot whose references a person chose is not stale, and not what the present references give.
    for each in (*found.ranges, *found.kept):
        for partition in each.partitions:
            reasons.setdefault(partition, set()).update(why.cause for why in each.reasons)
    basis_of = {partition: basis for basis in known.bases[table.name] for partition in basis.partitions}
    in_order = node.among(sorted(basis_of))
    settled = {
        partition: before
        for before, partition in pairwise(in_order)
        if reasons.get(partition, set()) <= {Cause.INPUT_CHANGED}
        and _same_before(basis_of[before], basis_of[partition], days_of(node.grain, before).end)
        and _same_since(basis_of[partition], known.digests, node.grain, before, partition)
    }
    names = {p: ", ".join(sorted(causes)) for p, causes in reasons.items() if causes != {Cause.NEVER_BUILT}}
    stale = {p: why for p, why in names.items() if p in basis_of}
    return SnapshotHistory(
        stale=stale | _broken(ws, tx, table, first, in_order, stale),
        settled=settled,
        expired={p: f"it expired by run {each.run_id}" for p, each in tx.versions.expired(table.name).items()},
        code_digest=ws.code.of(table, table.version).digest,
        references=tuple(ws.references[name].pinned for name in table.references),
    )


def _broken(
    ws: Workspace,
    tx: ReadTransaction,
    table: DerivedTable,
    first: date,
    snapshots: Sequence[date],
    stale: Mapping[date, str],
) -> dict[date, str]:
    """Why the snapshots that a run would begin with cannot be read as they were published, until one can."""
    found: dict[date, str] = {}
    while True:
        begins = begins_with(first, snapshots, SnapshotHistory(stale={**stale, **found}))
        accepted = tx.versions.accepted(table.name, begins.snapshots) if begins.snapshots else {}
        broken = {
            p: problem for p, held in accepted.items() if (problem := problem_of(ws.lake, table.name, held.files))
        }
        if not broken:
            return found
        found |= broken


def _same_before(earlier: ComputedFrom, later: ComputedFrom, end: date) -> bool:
    """True if two snapshots were computed from the same input days before a day."""
    if earlier.run_id == later.run_id:
        return True
    then, now = (
        [{day: digest for day, digest in read.digests.items() if day < end} for read in basis.inputs]
        for basis in (earlier, later)
    )
    same = (earlier.code_digest, earlier.references, earlier.configuration, earlier.session_digest)
    return then == now and same == (later.code_digest, later.references, later.configuration, later.session_digest)


def _same_since(
    basis: ComputedFrom, digests: Mapping[str, Mapping[date, str]], grain: Grain, before: date, partition: date
) -> bool:
    """True if the input days from one snapshot to the next are accepted as they were read."""
    start, end = days_of(grain, before).end, days_of(grain, partition).end
    return all(
        digests.get(read.edge.table, {}).get(day) == digest
        for read in basis.inputs
        for day, digest in read.digests.items()
        if start <= day < end
    )


def changed_otherwise(found: Staleness) -> frozenset[date]:
    """The accepted partitions that would change whatever their inputs are: by references, code, release or settings."""
    by_inputs = (Cause.INPUT_CHANGED, Cause.NEVER_BUILT, Cause.DIFFERENCE_ACCEPTED)
    ranges = (r for r in (*found.ranges, *found.kept) if any(why.cause not in by_inputs for why in r.reasons))
    return frozenset(p for r in ranges for p in r.partitions)


def _by_input(found: Staleness) -> frozenset[date]:
    """The partitions whose inputs or references are not those that they were computed from."""
    causes = (Cause.INPUT_CHANGED, Cause.REFERENCE_CHANGED)
    return frozenset(p for r in found.ranges if any(why.cause in causes for why in r.reasons) for p in r.partitions)


def _stale(
    ws: Workspace,
    tx: ReadTransaction,
    table: Table,
    known: ProvenanceIndex,
    bases: Iterable[ComputedFrom],
    earlier: Callable[[str, Collection[date]], Iterator[ComputedFrom]],
    asked: Sequence[date] | None,
    planned: Manifest | None = None,
) -> Staleness:
    """The stale partitions of a table with these bases.

    Args:
        planned: The run that computes it, for a derived table; None for the present.
    """
    match table:
        case SourceTable():
            present = _present_source(ws, tx, table)
            without_reprocessed = _without_reprocessed(tx, table)

            def as_read(basis: ComputedFrom) -> ComputedFrom:
                return _configured(without_reprocessed(basis), partial(as_present_build, ws.contracts[table.name]))

        case DerivedTable():
            present = _present(ws, table, known.digests)
            if planned is not None:
                present = _as_planned(ws, table, present, planned)
            read = {source.name for source in table.inputs.values() if isinstance(source, SourceTable)}
            contracts = {name: ws.contracts[name] for name in sorted(read)}

            def as_read(basis: ComputedFrom) -> ComputedFrom:
                return _configured(basis, partial(as_present_reads, contracts))

    def before(partitions: Collection[date]) -> Iterator[ComputedFrom]:
        return map(as_read, earlier(table.name, partitions))

    node = ws.graph.table(table.name)
    keeping = {node.name, *(edge.table for edge in node.inputs)} & ws.graph.stateful
    expired = {name: {p: each.digest for p, each in tx.versions.expired(name).items()} for name in sorted(keeping)}
    present = replace(present, expired=expired)
    found = find_stale(node, ws.graph, map(as_read, bases), present, asked=asked, earlier=before)
    return replace(found, taken_back=rows_taken_back(tx, node, bases, asked)) if node.change.keeps_rows else found


def rows_taken_back(
    tx: ReadTransaction, node: TableNode, bases: Iterable[ComputedFrom], asked: Collection[date] | None = None
) -> tuple[tuple[date, int], ...]:
    """The number of rows that no input gave any more when a run of these bases was gated, by partition, for a table
    that keeps them.

    Cost: the gate results of every run that stands for an accepted partition.
    """
    found: dict[date, int] = {}
    for basis in bases if node.change.keeps_rows else ():
        here = set(basis.partitions if asked is None else set(basis.partitions).intersection(asked))
        for result in tx.candidates.gate_results(basis.run_id) if here else ():
            if result.finding is Finding.MERGED and result.partition in here and result.observed["are_kept"]:
                found[result.partition] = result.observed["taken_back"]
    return tuple((partition, rows) for partition, rows in sorted(found.items()) if rows)


def _present(ws: Workspace, table: DerivedTable, digests: Mapping[str, Mapping[date, str]]) -> CurrentState:
    return CurrentState(
        transform=table.transform,
        transform_version=table.version,
        code_digest=ws.code.of(table, table.version).digest,
        session_digest=session_digest(),
        configuration=configuration_of(ws.graph.table(table.name)),
        references=tuple(ws.references[name].pinned for name in table.references),
        digests=digests,
        narrow=narrowing(ws.domain, table, ws.references, ws.reference_archive),
        configured_with=_configured_with(ws, table),
    )


def changed_references(ws: Workspace, planned: Manifest) -> tuple[ChangedReference, ...]:
    """The references that are not what a run was planned with, and which of its partitions they can change.

    Without those whose version a person chose, and those whose changed days reach none of its partitions.

    Raises:
        Refused: A reference cannot be read.
    """
    table = ws.domain.tables.get(planned.table)
    if not isinstance(table, DerivedTable):
        return ()
    node, narrow = ws.graph.table(table.name), narrowing(ws.domain, table, ws.references, ws.reference_archive)
    found = []
    for was in planned.references:
        now = ws.references.get(was.name)
        if was.is_chosen or now is None or now.sha256 == was.sha256:
            continue
        if reached := reached_by(node, narrow(was.name, planned.references), frozenset(planned.partitions)):
            partitions, version = Partitions.of(planned.grain, reached), now.value.version
            found.append(
                ChangedReference(table=table.name, name=was.name, was=was.version, now=version, partitions=partitions)
            )
    return tuple(found)


def _as_planned(ws: Workspace, table: DerivedTable, present: CurrentState, planned: Manifest) -> CurrentState:
    """The way in which a run computes a table, which can be by an earlier release, with chosen references, or from
    candidates."""
    chosen = load_pinned(ws.domain, [each for each in planned.references if each.is_chosen], ws.reference_archive)
    # The rows that a pilot changes are computed as all others are.
    left_out = set() if planned.change.scope is None else planned.change.configuration.keys()
    staged: dict[str, dict[date, str]] = {}
    for pinned in planned.inputs:
        of_table = staged.setdefault(pinned.table, {})
        of_table |= {pin.partition: pin.from_run for pin in pinned.partitions if pin.from_run is not None}
    return replace(
        present,
        transform=planned.transform,
        transform_version=planned.transform_version,
        code_digest=planned.code_digest,
        configuration={name: value for name, value in planned.configuration.items() if name not in left_out},
        references=planned.references,
        staged=staged,
        narrow=narrowing(ws.domain, table, {**ws.references, **chosen}, ws.reference_archive),
    )


def _configured_with(ws: Workspace, table: DerivedTable) -> ConfiguredWith:
    @cache
    def configured(references: tuple[PinnedReference, ...]) -> Mapping[str, Any] | None:
        try:
            return configuration_of(ws.graph_with(table.name, references).table(table.name))
        except (MissingInput, InvalidReference):
            return None

    return configured


def _present_source(ws: Workspace, tx: ReadTransaction, table: SourceTable) -> CurrentState:
    files: dict[date, set[str]] = {day: set() for day in pending_days(tx, table).days}
    for day in tx.imports.days(source=table.name, states=COUNTING):
        files.setdefault(day.event_date, set()).add(day.import_id)
    return CurrentState(
        transform=LOAD,
        transform_version=LOAD_VERSION,
        code_digest=ws.code.of(table, LOAD_VERSION).digest,
        session_digest=session_digest(),
        configuration=ws.contracts[table.name].configuration(),
        landed={day: frozenset(of_day) for day, of_day in files.items()},
    )


def _without_reprocessed(tx: ReadTransaction, table: SourceTable) -> Callable[[ComputedFrom], ComputedFrom]:
    """A basis without files that were landed again after the run was planned: it read their earlier content."""
    records = tx.imports.records(table.name, COUNTING)
    again = [(r.import_id, r.landed_at) for r in records if r.on_duplicate == OnDuplicate.REPROCESS and r.landed_at]

    def as_read(basis: ComputedFrom) -> ComputedFrom:
        later = {import_id for import_id, landed_at in again if landed_at > basis.requested_at}
        return replace(basis, imports=basis.imports - later)

    return as_read


def _configured(basis: ComputedFrom, as_present: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> ComputedFrom:
    """A basis whose configuration is the present one where another contract version gives the same rows."""
    return replace(basis, configuration=as_present(basis.configuration))


def narrowing(domain: Domain, table: DerivedTable, now: Mapping[str, LoadedReference], archive: Files) -> Narrow:
    """The known differences of a table's changed references.

    Args:
        archive: The place with every reference that was ever used.
    """
    declared = {reference.name: reference for reference in domain.references}

    @cache
    def value_then(pinned: PinnedReference) -> Any | None:
        present = now.get(pinned.name)
        if present is not None and present.sha256 == pinned.sha256:
            return present.value
        try:
            return load_pinned(domain, [pinned], archive)[pinned.name].value
        except (MissingInput, InvalidReference):
            return None

    @cache
    def changed(pinned: PinnedReference) -> tuple[DayRange, ...] | None:
        hook = declared[pinned.name].changed_days
        before = value_then(pinned)
        if hook is None or before is None:
            return None
        days: Iterable[DayRange] | None = hook(before, now[pinned.name].value)
        return None if days is None else compress(Grain.DAILY, (day for some in days for day in some))

    @cache
    def window(used: tuple[PinnedReference, ...]) -> Window | None:
        then = {pinned.name: value_then(pinned) for pinned in used}
        if None in then.values() or not then.keys() >= {*table.references}:
            # The window of today cannot be asked of a run that used fewer references.
            return None
        return _wider(
            table.reference_window_for(then),
            table.reference_window_for({name: now[name].value for name in table.references}),
        )

    def narrow(name: str, used: tuple[PinnedReference, ...]) -> ReferenceDiff | None:
        pinned = next((pinned for pinned in used if pinned.name == name), None)
        days = changed(pinned) if pinned is not None and name in declared else None
        if days is None:
            return None
        return ReferenceDiff(days=days, window=window(used) if days else None)

    return narrow


def _wider(then: Window | None, now: Window | None) -> Window | None:
    """The longer of both windows on either side, so that it holds for present rows and for recomputed ones."""
    if then is None or now is None:
        return None
    return Window(days_back=max(then.days_back, now.days_back), days_ahead=max(then.days_ahead, now.days_ahead))


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceChanges:
    """The source days that are no longer what accepted output was computed from."""

    #: By changed day, the tables that read it directly, each with its accepted partitions that did before it changed:
    #: others have read what is accepted of it now.
    dependents: Mapping[SourceDay, Mapping[str, frozenset[date]]] = field(default_factory=dict)
    #: Partitions that cannot be built again, because an input no longer has an accepted version, by table.
    blocked: Mapping[str, frozenset[date]] = field(default_factory=dict)
    #: Partitions that would change for other reasons than their inputs too, such as references, by table.
    otherwise: Mapping[str, frozenset[date]] = field(default_factory=dict)
    #: Days of sources that are not built from what has landed.
    not_loaded: Mapping[str, tuple[date, ...]] = field(default_factory=dict)


def source_changes(ws: Workspace, tx: ReadTransaction) -> SourceChanges:
    """The changed days of sources, by what `stale` finds."""
    sources = {source.name for source in ws.domain.sources}
    # What a table that only adds has added stays, whatever changes; no set contains a version beside a table.
    found = [each for each in stale_within(ws, tx) if not _is_left(ws.graph.table(each.table), each)]
    dependents: dict[SourceDay, dict[str, frozenset[date]]] = {}
    for table, source_day, partitions in _changed(ws.graph, found, sources):
        of_day = dependents.setdefault(source_day, {})
        of_day[table] = partitions.union(of_day.get(table, ()))
    return SourceChanges(
        dependents=dependents,
        blocked={each.table: frozenset(each.blocked) for each in found if each.blocked},
        otherwise={each.table: changed_otherwise(each) for each in found if each.table not in sources},
        not_loaded={each.table: each.partitions for each in found if each.table in sources and each.partitions},
    )


def _is_left(node: TableNode, found: Staleness) -> bool:
    return node.is_beside or bool(node.change.fixed(set(found.partitions)))


def _changed(
    graph: Graph, found: Iterable[Staleness], sources: set[str]
) -> Iterator[tuple[str, SourceDay, frozenset[date]]]:
    for each in found:
        if each.table in sources:
            continue
        node = graph.table(each.table)
        for stretch in each.ranges:
            for reason in stretch.reasons:
                if reason.cause is not Cause.INPUT_CHANGED or reason.name not in sources:
                    continue
                edges = [edge for edge in node.inputs if edge.table == reason.name]
                for day in (day for days in reason.days or () for day in days):
                    reached = {p for edge in edges for p in graph.reached(edge, node, {day})}
                    yield each.table, (reason.name, day), frozenset(reached.intersection(stretch.partitions))

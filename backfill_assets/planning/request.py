"""Plan of one run: from a request and a reader of state, without side effects.

A plan holds the manifest and everything a person needs to see before approving it. The plan that is printed is the
plan that runs: its manifest is what the ledger stores. A request chooses versions of references, or leaves the present
ones. The plan of an expiry computes nothing: its manifest names the snapshots that expire as its partitions, and pins
every accepted snapshot of the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import accumulate, pairwise
from math import ceil

from backfill_assets.calendar.partitions import (
    DayRange,
    Days,
    Grain,
    Partitions,
    TablePartitions,
    count_of,
    days_of,
    partition_of,
    partitions_of_spans,
    spans_of,
)
from backfill_assets.calendar.windows import SAME_DAYS, AnyWindow
from backfill_assets.core.errors import MissingInput, Refused
from backfill_assets.core.identity import sha256_text
from backfill_assets.core.tariff import Tariff
from backfill_assets.planning import errors
from backfill_assets.planning.errors import IncompleteWindows, NeverPublished
from backfill_assets.planning.graph import Graph, TableNode
from backfill_assets.planning.impact import complete_partitions, dependents_of, first_missing
from backfill_assets.planning.kinds.change import Scope
from backfill_assets.planning.kinds.expire import Expire, RetentionRule
from backfill_assets.planning.kinds.pilot import Pilot
from backfill_assets.planning.manifest import MERGED_WITH, DeclaredTerms, Manifest, chunks_of, configuration_of, node_of
from backfill_assets.planning.manifest_parts import (
    A_PERSON,
    NEVER_PUBLISHED,
    AskedKeys,
    Limits,
    Mode,
    PinnedInput,
    PinnedPartition,
    PinnedReference,
    ReferenceSemantics,
    RunCause,
    RunPurpose,
    SettledSnapshot,
)
from backfill_assets.planning.next_steps import joined, plans
from backfill_assets.planning.stages import (
    NO_PAST,
    ProofTerms,
    SnapshotHistory,
    StartingPoint,
    begins_with,
    end_of,
    plan_proof,
    settled_in,
)
from backfill_assets.planning.state import (
    AcceptedPartition,
    Estimate,
    EstimateBasis,
    Expired,
    StateReader,
    estimate,
    require_affordable,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedReferences:
    """The references that a request asks for.

    Raises:
        Refused: CORRECTED without a name, names without CORRECTED, or a name that is given twice.
    """

    semantics: ReferenceSemantics = ReferenceSemantics.CURRENT  #: Which truth it asks for.
    #: With CORRECTED: names of references, each with a version, the beginning of a sha256, or a file. The present
    #: versions count for all others.
    named: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        is_corrected = self.semantics is ReferenceSemantics.CORRECTED
        if is_corrected and not self.named:
            raise errors.UnclearReferences(why="corrected references are asked for, and none is named")
        if self.named and not is_corrected:
            raise errors.UnclearReferences(
                why="a version of a reference is named, and the request asks for other references than corrected ones"
            )
        if len(dict(self.named)) < len(self.named):
            raise errors.UnclearReferences(why="a reference is named twice")

    @property
    def are_present(self) -> bool:
        """True if every run is computed with the present versions."""
        return self.semantics is ReferenceSemantics.CURRENT


THE_PRESENT = AskedReferences()


def asked_references(word: str | None, named: Sequence[str]) -> AskedReferences:
    """The references that are asked for in words: `as-recorded`, `corrected` or `current`, and `NAME=VERSION` each."""
    # A version that is named is a correction, so that the word is not needed with it.
    asked = word or ("corrected" if named else "current")
    semantics = ReferenceSemantics(asked.upper().replace("-", "_"))
    return AskedReferences(semantics=semantics, named=tuple(map(parse_reference, named)))


def parse_reference(text: str) -> tuple[str, str]:
    """Parses a reference with its version: `calendars=2025-restated`.

    Raises:
        Refused: It is not of that form.
    """
    name, equals, version = text.partition("=")
    if not equals or not name.strip() or not version.strip():
        raise errors.UnclearReferences(why=f"{text!r} does not name a version of a reference")
    return name.strip(), version.strip()


Recorded = Mapping[date, Mapping[str, PinnedReference] | None]
"""The references that accepted rows were computed with, by name; None where that is not recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionGroup:
    """Partitions whose accepted rows were computed with the same versions of the references."""

    partitions: tuple[date, ...]
    references: tuple[PinnedReference, ...]


def by_recorded_versions(
    table: str, grain: Grain, names: Sequence[str], partitions: Sequence[date], recorded: Recorded
) -> tuple[VersionGroup, ...]:
    """The partitions by the references that their accepted rows were computed with, in order of their first partition.

    Raises:
        MissingInput: Partitions have no accepted rows, or it is not recorded which versions these used.
    """
    never = [partition for partition in partitions if partition not in recorded]
    if never:
        raise MissingInput.coded(
            "never_computed",
            "{table} has never been published for {partitions}, so no references are recorded.",
            then="plan these with the present references: {planned}",
            table=table,
            partitions=Partitions.of(grain, never),
            planned=joined(plans(table, grain, never)),
        )
    groups: dict[tuple[PinnedReference, ...], list[date]] = {}
    for partition in partitions:
        used = recorded[partition]
        if used is None or _lacks(used, names):
            lacking = Partitions.of(grain, (p for p in partitions if _lacks(recorded[p], names)))
            raise MissingInput.coded(
                "versions_not_recorded",
                "{table} has rows of {partitions} for which no version of {references} is recorded.",
                then="plan these with the present references: {planned}",
                table=table,
                partitions=lacking,
                references=names,
                planned=joined(plans(table, grain, lacking)),
            )
        groups.setdefault(tuple(used[name] for name in names), []).append(partition)
    return tuple(VersionGroup(partitions=tuple(some), references=used) for used, some in groups.items())


def _lacks(used: Mapping[str, PinnedReference] | None, names: Iterable[str]) -> bool:
    return used is None or any(name not in used for name in names)


def require_one_group(table: str, grain: Grain, groups: Sequence[VersionGroup]) -> VersionGroup:
    """The only group: a run has one version of every reference.

    Raises:
        Refused: The rows were computed with different versions.
    """
    if len(groups) == 1:
        return groups[0]
    with_versions = (
        (Partitions.of(grain, group.partitions), {pinned.name: pinned.version for pinned in group.references})
        for group in groups
    )
    raise errors.SeveralVersions(table=table, groups=tuple(with_versions))


def require_used(asked: AskedReferences, used: Mapping[str, Sequence[str]]) -> None:
    """Refuses a choice of references that no run of a request would make.

    Raises:
        Refused: None of the tables uses references, or one that is named.
    """
    if asked.are_present:
        return
    known = sorted({name for names in used.values() for name in names})
    unused = [name for name, _ in asked.named if name not in known]
    if unused or not known:
        raise errors.ReferencesNotUsed(asked=unused, tables=tuple(used), known=known)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedLimits:
    """The limits that a request asks for; None leaves the usual one (see `manifest.Limits`)."""

    chunk_partitions: int | None = None
    chunk_rows: int | None = None
    max_rows: int | None = None
    rows_per_minute: int | None = None
    pause_s: int | None = None
    priority: int | None = None

    def over(self, usual: Limits) -> Limits:
        """The usual limits with what was asked for in their place."""
        asked = {name: value for name, value in asdict(self).items() if value is not None}
        return replace(usual, **asked)


NO_LIMITS_ASKED = AskedLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """The request for a run."""

    table: str
    days: Days  #: The output days, in one range or several; a monthly table takes every month they touch.
    reason: str
    by: str
    #: Only these partitions of the days, possibly with gaps between them; None for all.
    partitions: tuple[date, ...] | None = None
    kind: RunPurpose | None = (
        None  #: None chooses RESTATEMENT where accepted rows would be replaced, BACKFILL otherwise.
    )
    mode: Mode = Mode.BACKFILL
    transform_version: str | None = None
    limits: AskedLimits = NO_LIMITS_ASKED  #: Bounds that differ from the usual ones.
    request_id: str | None = None  #: The request of several runs that the run is part of; None for one of its own.
    references: AskedReferences = THE_PRESENT  #: With which versions of its references the run is to be computed.
    partial: bool = False  #: True if only those of the days are planned whose inputs are there, where others lack some.
    max_cost: Decimal | None = None  #: The most that it may be expected to cost; None for no limit.
    scope: Scope | None = None  #: The rows that a pilot changes; None for whole partitions.
    shown: AskedKeys | None = None  #: The keys whose rows the report of the run shows; None for none.


@dataclass(frozen=True, kw_only=True)
class TableSpec(DeclaredTerms):
    """The terms of a table's declaration."""

    #: What the warm-up gate computes again; None for source tables and tables that opted out.
    proof: ProofTerms | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedInput(TablePartitions):
    """The reads of a run from one input."""

    partitions: tuple[date, ...]  #: Every partition in the windows, warm-up and look-ahead included.
    argument: str  #: The argument of the transform.
    window: AnyWindow  #: How far around an output partition the transform looks.
    warm_up: tuple[date, ...]  #: Those outside the output days: read, not published.
    missing: tuple[date, ...]  #: Those without an accepted version, which no earlier run of the set stages either.
    staged: tuple[date, ...]  #: Those that an earlier run of the same set stages; they are read from its candidate.
    rows: int  #: The rows that are read: accepted ones, and those that earlier runs of the set are expected to stage.
    files: int  #: The number of files of the accepted versions; candidates of the set are not counted.
    size_bytes: int  #: The size of these files.


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A manifest with what a person needs to see before approving it."""

    manifest: Manifest  #: The contract that an approver approves.
    inputs: tuple[PlannedInput, ...]  #: What it reads, input by input; empty for landed files.
    replaced_partitions: int  #: How many of its partitions have rows that readers see now.
    replaced_rows: int  #: How many rows these have.
    dependents: tuple[TablePartitions, ...]  #: What its publication would make stale.
    conflicts: tuple[str, ...]  #: Runs over some of the same partitions that could still be published.
    estimate: Estimate  #: What it is expected to write and take.
    #: Snapshots that a run over snapshots does not begin with, with the reasons.
    skipped: tuple[tuple[date, str], ...] = ()
    #: Partitions that were asked for and are not planned, because an input is not there.
    left_out: tuple[date, ...] = ()
    lacks: tuple[TablePartitions, ...] = ()  #: The input partitions that these read and that do not exist, by input.
    days: Days | None = None  #: The days that were asked for, where no partitions were named.
    #: What has to be there before the input partitions that are missing can be built.
    first_missing: tuple[TablePartitions, ...] = ()
    #: Of inputs that lack some partition, and of what has to be there first, every accepted one.
    held: Mapping[str, Partitions] = field(default_factory=dict)
    #: Of these inputs, the snapshots that have expired.
    expired: Mapping[str, Mapping[date, Expired]] = field(default_factory=dict)

    @property
    def widened(self) -> Days | None:
        """The days that were asked for, where partitions that are built as a whole have others as well; else None."""
        ends = [day for each in (self.days.ranges if self.days else ()) for day in (each.start, each.end)]
        return None if all(partition_of(self.grain, day) == day for day in ends) else self.days

    @property
    def between(self) -> tuple[date, ...]:
        """The partitions between those that it builds or was asked to build, which it leaves as they are."""
        chosen = {*self.manifest.partitions, *self.left_out}
        whole = DayRange(min(chosen), days_of(self.grain, max(chosen)).end)
        return tuple(p for p in node_of(self.manifest).partitions_over(whole) if p not in chosen)

    @property
    def grain(self) -> Grain:
        """The grain of its partitions: day or month."""
        return self.manifest.grain

    @property
    def asked_for(self) -> int:
        """The number of partitions that were asked for."""
        return len(self.manifest.partitions) + len(self.left_out)

    @property
    def chunk_count(self) -> int:
        """In how many parts it is computed."""
        return len(chunks_of(self.manifest))

    @property
    def missing(self) -> Mapping[str, tuple[date, ...]]:
        """Input partitions without an accepted version, by table."""
        missing: dict[str, set[date]] = {}
        for read in self.inputs:
            if read.missing:
                missing.setdefault(read.table, set()).update(read.missing)
        return {table: tuple(sorted(partitions)) for table, partitions in missing.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A partition as an earlier run of the same set stages it: which run, and how many rows are expected of it."""

    run_id: str
    rows: int


Upstream = Mapping[str, Mapping[date, Staged]]
"""What earlier runs of the same set stage, by table and partition."""

NO_UPSTREAM: Upstream = {}

NOTHING_LOST: Mapping[date, AcceptedPartition | None] = {}


def propose(
    request: PlanRequest,
    terms: TableSpec,
    *,
    graph: Graph,
    state: StateReader,
    as_of: datetime,
    upstream: Upstream = NO_UPSTREAM,
    cause: RunCause = A_PERSON,
    past: SnapshotHistory = NO_PAST,
    lost: Mapping[date, AcceptedPartition | None] = NOTHING_LOST,
) -> Plan:
    """The plan for a request.

    Args:
        terms: The terms of the table's declaration.
        upstream: What is read from candidates of other runs of the set instead of accepted versions.
        past: What is known of the accepted snapshots of a table that keeps state.
        lost: The accepted partitions whose files are gone or damaged, with the version that each was made from: a
            repair merges its changes with that one, or with nothing.
        cause: What made the run exist; the ledger refuses a follow-up that its outbox does not ask for.
    """
    node = graph.table(request.table)
    if request.scope is not None:
        node = replace(node, change=Pilot(rows=request.scope))
    partitions = output_of(request, graph, as_of)
    present = state.claims(node.name, partitions)
    snapshots = node.snapshots(partial(state.claims, node.name), graph.begins(node))
    past = past.for_run(terms.code_digest, terms.references, snapshots)
    begins = begins_with(partitions[0], snapshots, past)
    base = _base(node, partitions, state, begins, lost)
    # What comes after the snapshot that a run begins with is read; all of it is pinned.
    start = end_of(node.grain, begins.snapshots[-1]) if begins.snapshots else date.min
    reads, pins = _inputs(node, partitions, graph, state, upstream, start)
    if request.mode is Mode.RECONCILIATION:
        _require_something_to_reconcile(node, partitions, present)
    # A repair of what is only added brings back the rows that were accepted, or is refused at its publication.
    if request.mode not in NEVER_PUBLISHED and request.kind is not RunPurpose.REPAIR:
        _require_none_fixed(node, partitions, present)
    limits = request.limits.over(terms.limits)
    expected = estimate(
        partitions,
        present,
        own_rows=_own_rows(node, partitions, reads),
        pace=state.pace(node.name),
        chunks=lambda rows: len(node.chunks(partitions, rows, limits)),
    )
    proof = None
    if terms.proof:
        proves = replace(terms.proof, partitions=node.change.proven(terms.proof.partitions, partitions))
        proof = plan_proof(proves, node, partitions, pins, graph=graph, state=state)
    missing = [read for read in reads if read.missing]
    first = _first_missing(graph, missing, state, upstream)
    named = {*(read.table for read in missing), *(each.table for each in first)}
    kind = request.kind or (RunPurpose.RESTATEMENT if present else RunPurpose.BACKFILL)
    manifest = replace(
        manifest_of(request, node, terms, partitions, kind, as_of),
        supersedes=superseded(present.values()) if request.mode not in NEVER_PUBLISHED else (),
        inputs=pins,
        limits=limits,
        base=base,
        settled=tuple(
            SettledSnapshot(pin=pin, after=after)
            for before, each in settled_in(partitions, past, node.grain, pins)
            if {before, each} <= present.keys()
            for after, pin in [pins_of(present, (before, each))]
        ),
        cause=cause,
        chunks=node.chunks(partitions, expected.rows, limits),
        proof=proof,
    )
    return Plan(
        manifest=manifest,
        inputs=(*reads, *([_read_of(node, base, partitions, state)] if base else [])),
        replaced_partitions=len(present),
        replaced_rows=sum(claim.rows for claim in present.values()),
        skipped=begins.skipped,
        dependents=dependents_of(graph, node.name, partitions),
        conflicts=tuple(state.open_runs(node.name, partitions)),
        estimate=expected,
        days=request.days if request.partitions is None else None,
        first_missing=first,
        held={name: Partitions.of(graph.table(name).grain, state.claims(name)) for name in named},
        expired={read.table: state.expired(read.table) for read in missing},
    )


def _first_missing(
    graph: Graph, missing: Iterable[PlannedInput], state: StateReader, upstream: Upstream
) -> tuple[TablePartitions, ...]:
    """The first partitions to build before missing inputs can be built; what earlier runs of the set stage counts as
    there."""

    def there(table: str, partitions: Sequence[date]) -> AbstractSet[date]:
        return state.claims(table, partitions).keys() | upstream.get(table, {}).keys()

    wanted: dict[str, set[date]] = {}
    for read in missing:
        wanted.setdefault(read.table, set()).update(read.missing)
    return first_missing(graph, wanted, there) if wanted else ()


def affordable(plans: Sequence[Plan], most: Decimal | None, tariff: Tariff) -> tuple[Plan, ...]:
    """The plans of runs that stop when they have cost more than each of them may; as they are without a limit.

    Raises:
        Refused: Together they are expected to cost more, or nothing is known of one of them.
    """
    allowed = require_affordable([(plan.manifest.table, plan.estimate) for plan in plans], most, tariff)
    return tuple(
        replace(plan, manifest=replace(plan.manifest, limits=replace(plan.manifest.limits, max_cost=cost)))
        for plan, cost in zip(plans, allowed, strict=True)
    )


def output_of(request: PlanRequest, graph: Graph, as_of: datetime) -> tuple[date, ...]:
    """The partitions that a request names."""
    named = graph.partitions_in(request.table, request.days, as_of=as_of.date())
    if request.partitions is None:
        return named
    chosen = set(request.partitions)
    return tuple(partition for partition in named if partition in chosen)


def whole_table(request: PlanRequest, graph: Graph, partitions: tuple[date, ...], state: StateReader) -> PlanRequest:
    """A request for some partitions, with all others that the table has and that can be built again, where they are
    merged together. With chosen references only the named ones are computed: those of the others may be others."""
    if request.scope is not None or not request.references.are_present:
        return request
    node, asked = graph.table(request.table), set(partitions)

    def others() -> AbstractSet[date]:
        return set(complete_partitions(node, graph, state.claims(node.name).keys() - asked, state)[0])

    every = tuple(sorted(node.change.completed(asked, others)))
    if every == partitions:
        return request
    return replace(request, days=DayRange(every[0], days_of(node.grain, every[-1]).end), partitions=every)


def superseded(claims: Iterable[AcceptedPartition]) -> tuple[str, ...]:
    """The runs that made these accepted versions, in the order of the partitions."""
    return tuple(dict.fromkeys(claim.run_id for claim in claims))


def _own_rows(node: TableNode, partitions: Sequence[date], reads: Iterable[PlannedInput]) -> Mapping[date, int]:
    """The number of input rows on the days of each output partition, assuming that every input day is an average
    one."""
    per_day = sum(_rows_per_day(read) for read in reads)
    until = accumulate(len(days_of(node.grain, partition)) for partition in partitions)
    # Rounded up once, and not for each partition: their sum is what is expected of the run.
    rows = [0, *(ceil(per_day * days) for days in until)]
    return {partition: more - less for partition, (less, more) in zip(partitions, pairwise(rows), strict=True)}


def _rows_per_day(read: PlannedInput) -> Fraction:
    missing = set(read.missing)
    days = sum(len(days_of(read.grain, partition)) for partition in read.partitions if partition not in missing)
    return Fraction(read.rows, days) if days else Fraction(0)


def _require_something_to_reconcile(
    node: TableNode, partitions: Sequence[date], present: Mapping[date, AcceptedPartition]
) -> None:
    lacking = [partition for partition in partitions if partition not in present]
    if lacking:
        raise NeverPublished(
            table=node.name,
            partitions=Partitions.of(node.grain, lacking),
            so="; there is nothing to reconcile",
        )


def _require_none_fixed(node: TableNode, partitions: Sequence[date], present: Mapping[date, AcceptedPartition]) -> None:
    if fixed := node.change.fixed(present.keys()):
        others = Partitions.of(node.grain, (partition for partition in partitions if partition not in fixed))
        raise Refused.coded(
            "only_adds_partitions",
            "{table} only adds partitions, and these have an accepted version: {partitions}.",
            then="plan those without one: {planned}; or, to correct them, roll back the publication that added them, "
            "then plan them again: [history {table}]"
            if others.days
            else "roll back the publication that added them, then plan them again: [history {table}]",
            table=node.name,
            partitions=Partitions.of(node.grain, fixed),
            planned=joined(plans(node.name, node.grain, others)),
        )


def _base(
    node: TableNode,
    partitions: Sequence[date],
    state: StateReader,
    begins: StartingPoint,
    lost: Mapping[date, AcceptedPartition | None],
) -> PinnedInput | None:
    """The accepted rows of its own table that a run reads: the snapshots that it begins with, or what it merges its
    changes with; where keys move, the whole table."""
    if begins.snapshots:
        pins = pins_of(state.claims(node.name, begins.snapshots), begins.snapshots)
        return PinnedInput(argument=MERGED_WITH, table=node.name, partitions=pins)
    accepted = node.change.claims_merged(partial(state.claims, node.name), partitions)
    if accepted is None:
        return None
    claims = {p: claim for p, each in accepted.items() if (claim := lost.get(p, each)) is not None}
    return PinnedInput(argument=MERGED_WITH, table=node.name, partitions=pins_of(claims, claims))


def pins_of(claims: Mapping[date, AcceptedPartition], chosen: Iterable[date]) -> tuple[PinnedPartition, ...]:
    """Those of some partitions that are accepted, as a manifest pins them, in order."""
    return tuple(
        PinnedPartition(partition=p, version=claims[p].version, digest=claims[p].digest)
        for p in sorted(chosen)
        if p in claims
    )


def _read_of(node: TableNode, base: PinnedInput, output: Sequence[date], state: StateReader) -> PlannedInput:
    read = tuple(pin.partition for pin in base.partitions)
    claims = state.claims(node.name, read)
    return PlannedInput(
        argument=base.argument,
        table=node.name,
        grain=node.grain,
        window=SAME_DAYS,
        partitions=read,
        warm_up=tuple(sorted(set(read) - set(output))),
        missing=(),
        staged=(),
        rows=sum(claim.rows for claim in claims.values()),
        files=sum(claim.file_count for claim in claims.values()),
        size_bytes=sum(claim.size_bytes for claim in claims.values()),
    )


def _inputs(
    node: TableNode, partitions: Sequence[date], graph: Graph, state: StateReader, upstream: Upstream, start: date
) -> tuple[tuple[PlannedInput, ...], tuple[PinnedInput, ...]]:
    reads: list[PlannedInput] = []
    pins: list[PinnedInput] = []
    output = spans_of(node.grain, partitions)
    for edge in node.inputs:
        source = graph.table(edge.table)
        needed = graph.needed(edge, node, partitions)
        covered = set(partitions_of_spans(source.grain, output))
        claims = state.claims(edge.table, needed)
        staged = upstream.get(edge.table, {})
        known = [p for p in needed if p in staged or p in claims]
        read = tuple(p for p in needed if p >= start)
        accepted = [claims[p] for p in read if p in claims]
        reads.append(
            PlannedInput(
                argument=edge.argument,
                table=edge.table,
                grain=source.grain,
                window=edge.window,
                partitions=read,
                warm_up=tuple(p for p in read if p not in covered),
                missing=tuple(p for p in needed if p not in claims and p not in staged),
                staged=tuple(p for p in read if p in staged),
                rows=sum(staged[p].rows if p in staged else claims[p].rows for p in known if p >= start),
                files=sum(claim.file_count for claim in accepted),
                size_bytes=sum(claim.size_bytes for claim in accepted),
            )
        )
        pinned = (
            PinnedPartition(partition=p, version=0, digest="", from_run=staged[p].run_id)
            if p in staged
            else PinnedPartition(partition=p, version=claims[p].version, digest=claims[p].digest)
            for p in known
        )
        pins.append(PinnedInput(argument=edge.argument, table=edge.table, partitions=tuple(pinned)))
    return tuple(reads), tuple(pins)


def require_inputs(plan: Plan, *, first_day: date) -> None:
    """Refuses a plan whose window is not complete; the error names the days.

    Args:
        first_day: The first day any table has a partition for; nothing builds an earlier one.

    Raises:
        MissingInput: Warm-up, look-ahead or output days of an input have no accepted version, or have expired.
    """
    for table, days in plan.missing.items():
        grain = next(read.grain for read in plan.inputs if read.table == table)
        expired = plan.expired.get(table, {})
        if gone := [day for day in days if day in expired]:
            run_id = expired[gone[0]].run_id
            some = Partitions.of(grain, (day for day in gone if expired[day].run_id == run_id))
            raise MissingInput.coded(
                "inputs_expired",
                "{table} reads {partitions} of {input}, which expired by run {run_id}: {input} does not keep these "
                "snapshots.",
                then="plan other days, or compute these snapshots again first: {snapshots}",
                table=plan.manifest.table,
                input=table,
                partitions=some,
                run_id=run_id,
                snapshots=joined(plans(table, grain, some)),
            )
    if plan.missing:
        grains = {read.table: read.grain for read in plan.inputs}
        missing = {table: Partitions(grains[table], days) for table, days in plan.missing.items()}
        raise IncompleteWindows(
            table=plan.manifest.table,
            missing=missing,
            first={each.table: Partitions(each.grain, each.partitions) for each in plan.first_missing},
            held=plan.held,
            first_day=first_day,
            has_snapshots=any(read.window.is_unbounded for read in plan.inputs),
        )


def manifest_of(
    request: PlanRequest,
    node: TableNode,
    terms: TableSpec,
    partitions: tuple[date, ...],
    kind: RunPurpose,
    as_of: datetime,
) -> Manifest:
    """The part of a manifest that follows from the request and the declaration: without what the run reads and
    replaces, and in which chunks."""
    run_id = run_id_for(request, node, as_of)
    return Manifest(
        run_id=run_id,
        request_id=request.request_id or run_id,
        kind=kind,
        mode=request.mode,
        reason=request.reason,
        requested_by=request.by,
        requested_at=as_of,
        table=node.name,
        grain=node.grain,
        partitions=partitions,
        configuration=configuration_of(node),
        change=node.change,
        shown=request.shown.pinned if request.shown else None,
        **{each.name: getattr(terms, each.name) for each in fields(DeclaredTerms)},
    )


def run_id_for(request: PlanRequest, node: TableNode, as_of: datetime) -> str:
    """The run's id: table, day, and a digest of who asked for what and when."""
    asked = f"{as_of.isoformat()}|{request.table}|{request.days}|{request.by}|{request.reason}"
    return f"{node.name.partition('.')[2]}-{as_of:%Y%m%d}-{sha256_text(asked)[:8]}"


def plan_expiry(
    node: TableNode, expire: Expire, terms: TableSpec, *, reason: str, by: str, state: StateReader, as_of: datetime
) -> Plan:
    """The plan of the run in which those snapshots expire that the table does not keep.

    Args:
        expire: The change, with the snapshots that the table keeps.
        terms: The terms of the table's declaration, with the gates of an expiry, and without what only rows have.

    Raises:
        Refused: The table has no snapshot that expires.
    """
    keep, claims = expire.keep, state.claims(node.name)
    partitions = keep.expired(node.grain, claims)
    if not partitions:
        raise Refused.coded(
            "nothing_expires",
            "no snapshot of {table} expires: it keeps those of {days} before the newest one and the last one of each "
            "{then_kept}, and has no others.",
            then="nothing has to be done",
            table=node.name,
            days=count_of(keep.days, "day"),
            then_kept=keep.then,
        )
    days = DayRange(partitions[0], days_of(node.grain, partitions[-1]).end)
    request = PlanRequest(table=node.name, days=days, partitions=partitions, reason=reason, by=by)
    gone = [claims[partition] for partition in partitions]
    manifest = replace(
        manifest_of(request, replace(node, change=expire), terms, partitions, RunPurpose.EXPIRY, as_of),
        limits=replace(terms.limits, chunk_partitions=max(len(partitions), terms.limits.chunk_partitions)),
        supersedes=superseded(gone),
        base=PinnedInput(argument=MERGED_WITH, table=node.name, partitions=pins_of(claims, claims)),
        chunks=(len(partitions),),
    )
    return Plan(
        manifest=manifest,
        inputs=(),
        replaced_partitions=len(gone),
        replaced_rows=sum(claim.rows for claim in gone),
        dependents=(),
        conflicts=tuple(state.open_runs(node.name, partitions)),
        estimate=Estimate(
            rows=dict.fromkeys(partitions, 0), size_bytes=0, seconds=None, based_on=EstimateBasis.ACCEPTED_ROWS
        ),
    )


def no_longer_expires(
    manifest: Manifest, keep: RetentionRule | None, claims: Mapping[date, AcceptedPartition]
) -> tuple[date, ...]:
    """The snapshots about which an expiry is not what it would be now, in order; none where it is exactly that.

    Args:
        keep: Which snapshots the table keeps now.
        claims: Every accepted version of the table now.
    """
    pins = manifest.base.partitions if manifest.base else ()
    planned = {pin.partition: pin.version for pin in pins if pin.partition in set(manifest.partitions)}
    present = keep.expired(manifest.grain, claims) if keep else ()
    now = {partition: claims[partition].version for partition in present}
    return tuple(sorted(p for p in {*planned, *now} if planned.get(p) != now.get(p)))

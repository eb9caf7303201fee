"""Staleness decision: which accepted partitions are out of date, and why.

Pure, from what runs computed from (`ComputedFrom`) and the present state (`CurrentState`) to stale ranges, and why.
The work is done per run and by ranges of changed days, never per partition and day of its window.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

from backfill_assets.calendar.partitions import (
    DayRange,
    Grain,
    TablePartitions,
    compress,
    days_of,
    partition_of,
)
from backfill_assets.calendar.windows import SinceFirstDay, Window, parse_window
from backfill_assets.core.grouped import grouped
from backfill_assets.core.identity import document_digest
from backfill_assets.planning.graph import Graph, TableInput, TableNode
from backfill_assets.planning.impact import complete, lacking
from backfill_assets.planning.kinds.any_change import parse_change
from backfill_assets.planning.kinds.change import CHANGE
from backfill_assets.planning.manifest_parts import Cause, PinnedReference, Reason, in_order
from backfill_assets.planning.state import ComputedFrom, ComputedFromInput


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceDiff:
    """The known difference between two versions of a reference."""

    days: tuple[DayRange, ...]  #: The days whose facts differ.
    window: Window | None  #: How far around an output day facts count; None when that is not known.


Earlier = Callable[[Collection[date]], Iterable[ComputedFrom]]
"""From accepted partitions to their earlier bases."""


def nothing_earlier(_partitions: Collection[date]) -> Iterable[ComputedFrom]:
    """For tables whose partitions have no earlier bases."""
    return ()


Narrow = Callable[[str, tuple[PinnedReference, ...]], ReferenceDiff | None]
"""From a reference's name and the references that a run used to what is known; None when any day may be affected."""


ConfiguredWith = Callable[[tuple[PinnedReference, ...]], Mapping[str, Any] | None]
"""From references to the configuration with them, because a window can be a function of references; None if unknown."""


def unknown_configuration(_references: tuple[PinnedReference, ...]) -> Mapping[str, Any] | None:
    """For tables whose configuration with other references than the present ones is not known."""
    return None


def could_be_any_day(_name: str, _used: tuple[PinnedReference, ...]) -> ReferenceDiff | None:
    """For references whose changed days are not known."""
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentState:
    """The present state of a table's computation: how it would be computed now."""

    transform: str
    transform_version: str
    code_digest: str  #: Of what its function reaches in the author's modules.
    configuration: Mapping[str, Any]
    session_digest: str
    references: tuple[PinnedReference, ...] = ()
    #: The accepted file sets of its inputs, by table and partition.
    digests: Mapping[str, Mapping[date, str]] = field(default_factory=dict)
    #: The partitions of its inputs that another run computes again before, by table, each with that run.
    staged: Mapping[str, Mapping[date, str]] = field(default_factory=dict)
    #: The file sets of snapshots that have expired, of the table and its inputs, by table and partition. They are not
    #: missing, and what was computed from them still follows from what they were.
    expired: Mapping[str, Mapping[date, str]] = field(default_factory=dict)
    #: For a source table, the landed files that touch each day; a day without events within what landed has none.
    landed: Mapping[date, frozenset[str]] = field(default_factory=dict)
    narrow: Narrow = could_be_any_day  #: What is known about references that changed.
    #: The configuration with references that were chosen for a run.
    configured_with: ConfiguredWith = unknown_configuration


@dataclass(frozen=True, slots=True)
class _Mark:
    """A reason, the partitions it was found for, and the source of the range's days and files."""

    reason: Reason
    partitions: AbstractSet[date]
    edge: TableInput | None = None
    changed: frozenset[date] = frozenset()
    narrowed: ReferenceDiff | None = None
    files: Mapping[date, frozenset[str]] = field(default_factory=dict)


def find_stale(
    node: TableNode,
    graph: Graph,
    bases: Iterable[ComputedFrom],
    present: CurrentState,
    *,
    asked: Sequence[date] | None = None,
    earlier: Earlier = nothing_earlier,
) -> Staleness:
    """Finds the stale partitions of a table.

    The bases of an accepted partition are the run that made it and every later one that found it equal. It is up to
    date if any of them is; otherwise the reasons are those of the last.

    Args:
        earlier: Their earlier bases; only called for partitions that are not up to date by their last basis.
        asked: Examine only these partitions, and report those that can be built and never were as `NEVER_BUILT`; None
            for all accepted ones and the gaps between them.
    """
    known = list(bases)
    accepted = set(node.among(partition for basis in known for partition in basis.partitions))
    if asked is None:
        chosen = node.partitions_over(DayRange.inclusive(min(accepted), max(accepted))) if accepted else ()
    else:
        chosen = node.among(asked)
    wanted = None if asked is None else set(chosen)
    marks: list[_Mark] = []
    for basis in known:
        here = frozenset((accepted if wanted is None else wanted).intersection(basis.partitions))
        if here:
            marks += _marks_of(node, graph, basis, present, here)
    marks = _by_no_basis(node, graph, marks, present, earlier)
    waiting: set[date] = set()
    waits_for: tuple[TablePartitions, ...] = ()
    blocked: AbstractSet[date] = frozenset()
    if node.is_source:
        pending = {day: files for day, files in present.landed.items() if day not in accepted}
        marks.append(_without_files(node, {d: f for d, f in pending.items() if wanted is None or d in wanted}))
    else:
        missing = set(chosen) - accepted - present.expired.get(node.name, {}).keys()
        there = {table: digests.keys() for table, digests in present.digests.items()}
        buildable = complete(graph, node, missing, there)
        changed = {p for mark in marks if mark.reason.cause is Cause.INPUT_CHANGED for p in mark.partitions}
        blocked = changed - complete(graph, node, changed, there)
        marks.append(_Mark(Reason(cause=Cause.NEVER_BUILT), buildable))
        waiting = missing - buildable
        waits_for = lacking(graph, node, waiting, there)
    found = list(_ranges(node, graph, [mark for mark in marks if mark.partitions]))
    ranges = tuple(each for each in found if not _is_kept(each))
    chosen_for = {partition for basis in known if basis.has_chosen_references for partition in basis.partitions}
    return Staleness(
        table=node.name,
        grain=node.grain,
        accepted=len(accepted) if wanted is None else len(accepted & wanted),
        ranges=ranges,
        waiting=tuple(sorted(waiting)),
        waits_for=waits_for,
        blocked=tuple(sorted(blocked)),
        kept=tuple(each for each in found if _is_kept(each)),
        on_purpose=tuple(p for each in ranges for p in each.partitions if p in chosen_for),
    )


def _is_kept(found: StaleRange) -> bool:
    return all(reason.cause in (Cause.REFERENCE_KEPT, Cause.DIFFERENCE_ACCEPTED) for reason in found.reasons)


# ------------------------------------------------------------------------------------------------- what was found


def _by_no_basis(
    node: TableNode, graph: Graph, marks: Sequence[_Mark], present: CurrentState, earlier: Earlier
) -> list[_Mark]:
    """The marks without the partitions that an earlier basis clears."""
    doubted: set[date] = set().union(*(mark.partitions for mark in marks))
    if not doubted:
        return []
    for basis in earlier(frozenset(doubted)):
        here = doubted.intersection(basis.partitions)
        if here:
            doubted -= here.difference(*(mark.partitions for mark in _marks_of(node, graph, basis, present, here)))
    return [replace(mark, partitions=mark.partitions & doubted) for mark in marks]


def _marks_of(
    node: TableNode, graph: Graph, basis: ComputedFrom, present: CurrentState, here: AbstractSet[date]
) -> Iterator[_Mark]:
    yield from _how_it_is_computed(node, basis, present, here)
    if basis.difference_accepted:
        # Its earlier bases clear it where their inputs are the present ones again.
        yield _Mark(Reason(cause=Cause.DIFFERENCE_ACCEPTED, run_id=basis.run_id), here)
    if node.is_source:
        lacking = {day: present.landed[day] - basis.imports for day in here & present.landed.keys()}
        yield _without_files(node, {day: files for day, files in lacking.items() if files})
        return
    for read in basis.inputs:
        edge = read.edge
        if edge.table not in graph.tables:
            continue  # That it is not declared any more makes it another configuration.
        yield from _begins_otherwise(node, graph, read, here)
        now, staged = present.digests.get(edge.table, {}), present.staged.get(edge.table, {})
        unread = _unread(node, graph, read, now, here)
        if not staged and not unread and read.within is now:
            continue
        now = {**now, **expired} if (expired := present.expired.get(edge.table)) else now
        if not staged and not unread and read.digests.items() <= now.items():
            continue
        changed: dict[str, set[date]] = {"": unread} if unread else {}
        for day, digest in read.digests.items():
            if day in staged or now.get(day) != digest:
                changed.setdefault(staged.get(day, ""), set()).add(day)
        for run_id, days in changed.items():
            reached = here & frozenset(graph.reached(edge, node, days))
            reason = Reason(cause=Cause.INPUT_CHANGED, name=edge.table, run_id=run_id)
            yield _Mark(reason, reached, edge, frozenset(days))
    yield from _references(node, basis, present, here)


def _begins_otherwise(
    node: TableNode, graph: Graph, read: ComputedFromInput, here: AbstractSet[date]
) -> Iterator[_Mark]:
    """A state that rests on days before the first one that tables can have by now."""
    if not isinstance(read.edge.window, SinceFirstDay):
        return
    windows = {edge.table: edge.window for edge in node.inputs}
    begins, first = graph.begins(node), next(iter(read.digests), None)
    if first is None or windows.get(read.edge.table) != read.edge.window:
        return
    if first < partition_of(graph.table(read.edge.table).grain, begins):
        reason = Reason(cause=Cause.CONFIGURATION_CHANGED, was=f"days since {first}", now=f"since {begins}")
        yield _Mark(reason, {partition for partition in here if days_of(node.grain, partition).end > begins})


def _unread(
    node: TableNode, graph: Graph, read: ComputedFromInput, now: Mapping[date, str], here: AbstractSet[date]
) -> set[date]:
    """The accepted days on which a state rests by now and that were not read: tables have earlier days since then."""
    if not node.carried(read.edge.table):
        return set()  # Before anything else: this is asked for every run of every table.
    first = next(iter(read.digests), None)
    if first is None or first <= graph.begins(node):
        return set()
    return set(graph.needed(read.edge, node, here)).intersection(now).difference(read.digests)


def _how_it_is_computed(
    node: TableNode, basis: ComputedFrom, present: CurrentState, here: AbstractSet[date]
) -> Iterator[_Mark]:
    was, now = (basis.transform, basis.transform_version), (present.transform, present.transform_version)
    if was != now:
        # Another version is other code: that its digest differs says nothing more.
        yield _Mark(Reason(cause=Cause.VERSION_CHANGED, was=" ".join(was), now=" ".join(now)), here)
    elif not node.is_source and basis.code_digest != present.code_digest:
        # A source table is not computed by the domain's modules; what they declare of it is its configuration.
        digests = basis.code_digest[:12], present.code_digest[:12]
        yield _Mark(Reason(cause=Cause.CODE_CHANGED, name=" ".join(now), was=digests[0], now=digests[1]), here)
    if basis.session_digest != present.session_digest:
        sessions = basis.session_digest[:12], present.session_digest[:12]
        yield _Mark(Reason(cause=Cause.SESSION_CHANGED, was=sessions[0], now=sessions[1]), here)
    bound = {read.edge.argument: read.edge.table for read in basis.inputs}, {e.argument: e.table for e in node.inputs}
    expected = present.configured_with(basis.references) if basis.has_chosen_references else None
    configuration = basis.configuration
    if CHANGE in configuration and (scope := parse_change(configuration[CHANGE]).scope) is not None:
        yield _Mark(Reason(cause=Cause.PILOTED, name=str(scope), run_id=basis.run_id), here)
        configuration = {name: value for name, value in configuration.items() if name != CHANGE}
    if configuration not in (expected, present.configuration) or bound[0] != bound[1]:
        before, after = _configured(configuration, bound[0]), _configured(present.configuration, bound[1])
        yield _Mark(Reason(cause=Cause.CONFIGURATION_CHANGED, was=before, now=after), here)


def _configured(configuration: Mapping[str, Any], tables: Mapping[str, str]) -> str:
    """The windows as an author declares them; anything else as a digest."""
    windows = configuration.get("windows", {})
    texts = [
        f"{argument} = {tables.get(argument, '?')}, {parse_window(window)}" for argument, window in windows.items()
    ]
    rest = {name: value for name, value in configuration.items() if name != "windows"}
    return "; ".join([*texts, *([document_digest(rest)[:12]] if rest else [])])


def _references(
    node: TableNode, basis: ComputedFrom, present: CurrentState, here: AbstractSet[date]
) -> Iterator[_Mark]:
    was = {pinned.name: pinned for pinned in basis.references}
    now = {pinned.name: pinned for pinned in present.references}
    for name in sorted(was.keys() | now.keys()):
        before, after = was.get(name), now.get(name)
        if before and after and before.sha256 == after.sha256:
            continue
        is_chosen = before is not None and before.is_chosen
        reason = Reason(
            cause=Cause.REFERENCE_KEPT if is_chosen else Cause.REFERENCE_CHANGED,
            name=name,
            was=before.version if before else "not used",
            now=after.version if after else "not used",
            semantics=before.semantics if before and is_chosen else None,
            run_id=basis.run_id if is_chosen else "",
        )
        narrowed = present.narrow(name, basis.references) if before and after else None
        is_known = narrowed is not None and narrowed.window is not None
        yield _Mark(reason, reached_by(node, narrowed, here), narrowed=narrowed if is_known else None)


def reached_by(node: TableNode, narrowed: ReferenceDiff | None, here: AbstractSet[date]) -> AbstractSet[date]:
    """Those of some partitions that a changed reference can change: all where its days or its window are not known."""
    if narrowed is None or (narrowed.days and narrowed.window is None):
        return here
    if narrowed.window is None:
        return frozenset()
    return here & {p for days in narrowed.days for p in _output(node, narrowed.window, days)}


def _output(node: TableNode, window: Window, days: DayRange) -> tuple[date, ...]:
    """The output partitions that facts of these days count for."""
    return node.partitions_over(window.reached_from(days))


def _without_files(node: TableNode, files: Mapping[date, frozenset[str]]) -> _Mark:
    """Days that landed files touch and bronze lacks, or was built without."""
    return _Mark(Reason(cause=Cause.INPUT_CHANGED, name=node.name), files.keys(), files=files)


# ------------------------------------------------------------------------------------------ described by ranges


def _ranges(node: TableNode, graph: Graph, marks: Sequence[_Mark]) -> Iterator[StaleRange]:
    """The stale partitions in ranges of consecutive ones with the same reasons."""
    found = grouped((partition, place) for place, mark in enumerate(marks) for partition in mark.partitions)
    reasons: dict[tuple[int, ...], frozenset[Reason]] = {}
    begun: list[date] = []
    key: frozenset[Reason] = frozenset()
    for partition in sorted(found):
        places = tuple(found[partition])
        its = reasons.get(places)
        if its is None:
            its = reasons[places] = frozenset(marks[place].reason for place in places)
        if begun and (its != key or node.next_partition(begun[-1]) != partition):
            yield _range(node, graph, begun, marks, found)
            begun = []
        begun.append(partition)
        key = its
    if begun:
        yield _range(node, graph, begun, marks, found)


def _range(
    node: TableNode, graph: Graph, partitions: Sequence[date], marks: Sequence[_Mark], found: Mapping[date, list[int]]
) -> StaleRange:
    by_mark = grouped((place, partition) for partition in partitions for place in found[partition])
    by_reason = grouped((marks[place].reason, (marks[place], some)) for place, some in by_mark.items())
    reasons = [_reason_of(node, graph, reason, parts) for reason, parts in by_reason.items()]
    return StaleRange(grain=node.grain, partitions=tuple(partitions), reasons=in_order(reasons))


def _reason_of(node: TableNode, graph: Graph, reason: Reason, parts: Sequence[tuple[_Mark, list[date]]]) -> Reason:
    """The reason with the days and files that it has for these partitions."""
    if reason.cause is Cause.INPUT_CHANGED and node.is_source:
        files = {name for mark, some in parts for partition in some for name in mark.files[partition]}
        days = compress(node.grain, (partition for _, some in parts for partition in some))
        return replace(reason, days=days, files=tuple(sorted(files)))
    if reason.cause is Cause.INPUT_CHANGED:
        changed: set[date] = set()
        for mark, some in parts:
            assert mark.edge is not None
            changed.update(mark.changed.intersection(graph.needed(mark.edge, node, some)))
        return replace(reason, days=compress(graph.table(reason.name).grain, changed))
    of_reference = reason.cause in (Cause.REFERENCE_CHANGED, Cause.REFERENCE_KEPT)
    if of_reference and all(mark.narrowed is not None for mark, _ in parts):
        facts = {
            days
            for mark, some in parts
            if mark.narrowed is not None and mark.narrowed.window is not None
            for days in mark.narrowed.days
            if not set(some).isdisjoint(_output(node, mark.narrowed.window, days))
        }
        return replace(reason, days=compress(Grain.DAILY, (day for days in facts for day in days)))
    return reason


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleRange:
    """Consecutive partitions that are stale for the same reasons."""

    grain: Grain  #: Whether a partition is a day or a month.
    partitions: tuple[date, ...]  #: Which ones.
    reasons: tuple[Reason, ...]  #: Those of the last run that these rows followed by.


@dataclass(frozen=True, slots=True, kw_only=True)
class Staleness:
    """The stale partitions of a table."""

    table: str  #: The table.
    grain: Grain  #: Whether a partition is a day or a month.
    accepted: int  #: How many accepted partitions were examined.
    ranges: tuple[StaleRange, ...]  #: Which partitions are stale, and why.
    #: Partitions that were never built and cannot be built yet, because an input does not exist.
    waiting: tuple[date, ...] = ()
    #: The input partitions that these read and that do not exist, by input.
    waits_for: tuple[TablePartitions, ...] = ()
    #: Stale partitions that cannot be rebuilt, because an input no longer has an accepted version.
    blocked: tuple[date, ...] = ()
    #: Partitions that differ from the present in nothing but references whose version a person chose, or in what an
    #: owner accepted. They are not stale.
    kept: tuple[StaleRange, ...] = ()
    #: Stale partitions that were computed with such a reference: only a person decides with which one they are computed
    #: again.
    on_purpose: tuple[date, ...] = ()
    #: Of a table that keeps them, how many rows no input gave any more when they were last computed, by accepted
    #: partition; those without any are absent.
    taken_back: tuple[tuple[date, int], ...] = ()

    @property
    def partitions(self) -> tuple[date, ...]:
        return tuple(partition for stale in self.ranges for partition in stale.partitions)

    @property
    def reasons(self) -> dict[date, tuple[Reason, ...]]:
        """Why each stale partition is."""
        return {partition: stale.reasons for stale in self.ranges for partition in stale.partitions}

"""Follow-ups: dependents follow each publication exactly once, even if processes stop in between.

The outbox holds publications that are not followed yet. An entry is delivered when every run that it asks for is
planned: from then on the ledger has the runs. If planning fails, the entry stays open with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import date

from backfill_assets.calendar.partitions import partition_of
from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import BackfillError, Refused, Retryable
from backfill_assets.domain import SourceTable
from backfill_assets.ledger.records import OutboxEntry, RunRecord, SetRecord
from backfill_assets.ledger.states import SetState
from backfill_assets.ledger.store import LedgerState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.graph import TableNode
from backfill_assets.planning.impact import FollowUp, RequestedPartitions, complete_partitions, follow_ups
from backfill_assets.planning.manifest_parts import CauseKind, RunCause
from backfill_assets.planning.request import PlanRequest, TableSpec, propose, require_inputs
from backfill_assets.requests.proposals import automatic_days
from backfill_assets.staleness.find import computed_from_other_inputs, own_past, with_changes
from backfill_assets.workspace import Workspace

UNDER_WAY = (SetState.PUBLISHING, SetState.ROLLING_BACK)
"""The states of sets whose dependents wait: when the set is complete, they are computed once for all of it."""


Tries = Callable[[OutboxEntry], bool]
"""Whether a process tries to plan what an entry asks for."""


def always(_entry: OutboxEntry) -> bool:
    """Tries everything, regardless of earlier failures."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """An open outbox entry and what it still asks for."""

    entry: OutboxEntry
    wanted: tuple[RequestedPartitions, ...]
    #: The set that is being published or rolled back; dependents wait until that is complete.
    set_id: str | None = None

    @property
    def is_followed(self) -> bool:
        """True if nothing is left to plan for it now."""
        return self.set_id is None and not any(each.partitions or each.frozen for each in self.wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedFollowUp:
    """A follow-up that could not be planned."""

    follow_up: FollowUp
    error: BackfillError


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFollowUps:
    """The result for everything that the outbox asked for."""

    runs: tuple[RunRecord, ...]
    failed: tuple[FailedFollowUp, ...]


def plan_follow_ups(
    ws: Workspace, *, by: str, terms_of: Callable[[str], TableSpec], tries: Tries = always
) -> PlannedFollowUps:
    """Plans every run that the outbox asks for and no others: with the present release and exactly these partitions.

    Args:
        terms_of: What the present declaration of a table contributes to a manifest.
        tries: Which open entries are tried.

    Returns:
        The planned runs, and what could not be planned with the reason. Another process may have planned some of it.
    """
    with ws.ledger.read() as tx:
        asking = what_is_asked(ws, tx, tx.outbox.entries(open_only=True))
    chosen = [each for each in asking if tries(each.entry)]
    runs: list[RunRecord] = []
    failed: list[FailedFollowUp] = []
    for follow_up in follow_ups((wanted for each in chosen for wanted in each.wanted), ws.graph):
        try:
            run = _plan(ws, follow_up, terms_of(follow_up.table), by=by)
        except (Refused, Retryable) as error:
            failed.append(FailedFollowUp(follow_up=follow_up, error=error))
            with ws.ledger.write() as tx:
                tx.outbox.note_failure(follow_up.publications, table=follow_up.table, why=error.message, actor=by)
            continue
        if run is not None:
            runs.append(run)
        ws.reached(Point.FOLLOW_UP_PLANNED)
    _deliver(ws, by=by)
    return PlannedFollowUps(runs=tuple(runs), failed=tuple(failed))


def what_is_asked(ws: Workspace, tx: ReadTransaction, entries: Iterable[OutboxEntry]) -> tuple[Asking, ...]:
    """The requests of open outbox entries to direct dependents that follow automatically, in the order of the entries.

    Source tables ask for nothing but the restatement of what their declared lateness allows: everything else that is
    derived from bronze is restated by decision, not because an event arrived.
    """
    found = []
    chosen = tuple(entries)
    with_lateness = {source.name for source in ws.domain.sources if source.lateness is not None}
    automatic = automatic_days(ws, tx) if any(entry.table in with_lateness for entry in chosen) else {}
    for entry in chosen:
        request_id = tx.runs.request_of(entry.run_id)
        is_under_way = request_id != entry.run_id and _is_under_way(tx.sets.get(request_id))
        wanted = tuple(_wanted(ws, tx, entry, automatic.get(entry.table, frozenset())))
        set_id = request_id if is_under_way and wanted else None
        found.append(Asking(entry=entry, wanted=() if set_id else wanted, set_id=set_id))
    return tuple(found)


def _is_under_way(record: SetRecord) -> bool:
    """True if readers may see a part of what several runs change; dependents follow each phase by itself."""
    is_one_phase = record.manifest.phases is not None and record.state is SetState.PUBLISHING
    return record.state in UNDER_WAY and not is_one_phase


def what_waits(ws: Workspace, tx: ReadTransaction) -> tuple[Asking, ...]:
    """The open entries that ask for something, now or once its inputs exist."""
    asking = what_is_asked(ws, tx, tx.outbox.entries(open_only=True))
    return tuple(each for each in asking if each.wanted or each.set_id)


def _wanted(
    ws: Workspace, tx: ReadTransaction, entry: OutboxEntry, automatic: AbstractSet[date]
) -> Iterator[RequestedPartitions]:
    """The partitions that an entry asks for; for a source table, those computed from other rows of its automatic
    days."""
    is_source = isinstance(ws.domain.tables.get(entry.table), SourceTable)
    changed = [day for day in entry.partitions if day in automatic] if is_source else entry.partitions
    if not changed or entry.table not in ws.domain.tables:
        return
    today = ws.clock().date()
    for node in ws.graph.dependents(entry.table):
        days = ws.graph.days(today, node.name)
        reached: set[date] = set()
        for edge in node.inputs:
            if edge.table == entry.table:
                reached.update(ws.graph.reached(edge, node, changed))
        reached -= built_with(tx, entry.run_id, node.name)
        reached -= tx.outbox.following(node.name, [entry.publication_id])[entry.publication_id]
        first = partition_of(node.grain, days.start)
        possible = sorted(partition for partition in reached if first <= partition < days.end)
        outdated = _outdated(ws, tx, node, possible, new=not is_source)
        if not outdated:
            continue
        ready, waiting = complete_partitions(node, ws.graph, outdated, LedgerState(tx))
        frozen = tx.freezes.over(node.name, ready, at=tx.now)
        yield RequestedPartitions(
            publication_id=entry.publication_id,
            source=entry.table,
            table=node.name,
            grain=node.grain,
            partitions=tuple(partition for partition in ready if partition not in frozen),
            waiting=waiting,
            frozen=tuple(frozen),
        )


def _outdated(ws: Workspace, tx: ReadTransaction, node: TableNode, partitions: list[date], *, new: bool) -> set[date]:
    """Those that were computed from other inputs than the accepted ones and, with `new`, those that were never built.

    Of a table that only adds, none that has an accepted version. What was computed from the accepted inputs is not
    computed again: a person may have done it, or the publication was undone before anything had followed it.
    """
    if not partitions:
        return set()
    lacking: set[date] = set()
    if new:
        there = tx.versions.claims(node.name, partitions).keys()
        expired = tx.versions.expired(node.name).keys() if node.name in ws.graph.stateful else set()
        lacking = set(partitions) - there - expired
    changed = computed_from_other_inputs(ws, tx, ws.domain.derived_table(node.name), partitions)
    return lacking | (changed - node.change.fixed(changed))


def built_with(tx: ReadTransaction, run_id: str, table: str) -> set[date]:
    """The partitions of a table that the set of a run builds itself, so that they need no follow-up."""
    others = tx.runs.headers(request=tx.runs.request_of(run_id), table=table)
    return {partition for run in tx.runs.named(each.run_id for each in others) for partition in run.manifest.partitions}


def _plan(ws: Workspace, follow_up: FollowUp, terms: TableSpec, *, by: str) -> RunRecord | None:
    request = PlanRequest(table=follow_up.table, days=follow_up.days, reason=follow_up.reason, by=by)
    cause = RunCause(kind=CauseKind.FOLLOW_UP, publications=follow_up.publications)
    with ws.ledger.read() as tx:
        if not _is_wanted(ws, tx, follow_up):
            return None
        table = ws.domain.derived_table(follow_up.table)
        past = own_past(ws, tx, table, partition_of(table.partition.grain, follow_up.days.start))
        proposed = propose(request, terms, graph=ws.graph, state=LedgerState(tx), as_of=tx.now, cause=cause, past=past)
        require_inputs(proposed, first_day=ws.graph.first_day)
        proposed = with_changes(ws, tx, proposed)
    with ws.ledger.write() as tx:
        return tx.outbox.add_follow_up(
            proposed.manifest, actor=by, expected_core_seconds=proposed.estimate.core_seconds
        )


def _is_wanted(ws: Workspace, tx: ReadTransaction, follow_up: FollowUp) -> bool:
    """True if a source asks for exactly this in the transaction that reads what the run pins: what landed since it
    was asked may be for a person."""
    if not any(isinstance(ws.domain.tables[name], SourceTable) for name in follow_up.sources):
        return True
    entries = tx.outbox.of_publications(follow_up.publications).values()
    now = [wanted for asking in what_is_asked(ws, tx, entries) for wanted in asking.wanted]
    wanted = (set(each.partitions) for each in now if each.table == follow_up.table)
    return set(follow_up.partitions) <= set().union(*wanted)


def _deliver(ws: Workspace, *, by: str) -> None:
    """Marks the entries that ask for nothing more as delivered."""
    with ws.ledger.read() as tx:
        followed = _followed(ws, tx)
    if followed:
        # Checked again: a rollback since then may have undone a planned run, whose other causes are open again.
        with ws.ledger.write() as tx:
            for entry in _followed(ws, tx, [entry.publication_id for entry in followed]):
                tx.outbox.mark_delivered(entry.publication_id, actor=by)
    ws.reached(Point.FOLLOW_UPS_DELIVERED)


def _followed(ws: Workspace, tx: ReadTransaction, publication_ids: Collection[str] | None = None) -> list[OutboxEntry]:
    entries = tx.outbox.entries(open_only=True)
    chosen = entries if publication_ids is None else [e for e in entries if e.publication_id in publication_ids]
    return [asking.entry for asking in what_is_asked(ws, tx, chosen) if asking.is_followed]

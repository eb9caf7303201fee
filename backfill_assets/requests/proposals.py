"""Proposals in the ledger: what of sources has changed, what is open, and what becomes of every changed day.

Follow-ups and drafts ask here, so that no day is restated by both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import date

from backfill_assets.core.grouped import grouped
from backfill_assets.domain import DerivedTable
from backfill_assets.ledger.records import RunRecord, SetRecord
from backfill_assets.ledger.sets import is_replaceable
from backfill_assets.ledger.states import COUNTING, OPEN_SETS, UNBLOCKED, SetState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest_parts import NEVER_PUBLISHED
from backfill_assets.planning.proposals import (
    Area,
    Closure,
    Decision,
    OpenDraft,
    SourceDay,
    UnchangedProposal,
    closure_of,
    decide,
    together,
)
from backfill_assets.planning.safeguards import FOLLOW, AgreedTerms
from backfill_assets.requests.authority import standing_of
from backfill_assets.requests.drafts import days_of_proposal, is_current
from backfill_assets.staleness.find import SourceChanges, source_changes
from backfill_assets.staleness.landed_news import (
    LandedChange,
    days_of_late_events,
    days_that_lost_files,
    days_with_moved_keys,
    landed_news,
)
from backfill_assets.workspace import Workspace

_MOST_ROLLED_BACK = 10

BLOCKED = ""
"""Stands for partitions that cannot be built again, among the names of what keeps partitions."""


@dataclass(frozen=True, kw_only=True)
class OpenWork:
    """A set or a run of its own that is not finished, with its runs."""

    name: str
    record: SetRecord | None
    runs: Sequence[RunRecord]

    @property
    def area(self) -> Area:
        return {run.manifest.table: frozenset(run.manifest.partitions) for run in self.runs}

    @property
    def days(self) -> frozenset[SourceDay]:
        """The changed days that it was proposed for; none for what a person planned."""
        return days_of_proposal(self.record)

    @property
    def is_replaceable(self) -> bool:
        """True if a newer proposal may take its place."""
        return self.record is not None and is_replaceable(self.record, self.runs)

    def reads(self, source: str, day: date, digest: str) -> bool:
        """True if it reads exactly this version of a day of a source."""
        return any(
            pinned.partition == day and pinned.digest == digest
            for run in self.runs
            for read in run.manifest.inputs
            if read.table == source
            for pinned in read.partitions
        )


@dataclass(frozen=True, kw_only=True)
class Situation:
    """The situation of proposals: what has changed, what is open, and what becomes of every changed day."""

    changes: SourceChanges = field(default_factory=SourceChanges)
    #: What landed files brought to each changed day.
    news: Mapping[SourceDay, tuple[LandedChange, ...]] = field(default_factory=dict)
    drafts: Mapping[str, OpenWork] = field(default_factory=dict)  #: The proposals that may be replaced, by set.
    kept: Mapping[str, OpenWork] = field(default_factory=dict)  #: Everything else that is open, by name.
    closure: Closure  #: What has to be rebuilt because of days.
    decision: Decision
    #: The digests of what is accepted of the changed days.
    accepted: Mapping[SourceDay, str] = field(default_factory=dict)
    #: Sets that restated exactly what is proposed, or what a draft that stays would, from the same rows, and were
    #: rolled back: each only needs its approval.
    rolled_back: Sequence[SetRecord] = ()

    @property
    def open_sets(self) -> frozenset[str]:
        return frozenset(each.name for each in (*self.drafts.values(), *self.kept.values()) if each.record)

    def days_of(self, set_id: str) -> frozenset[SourceDay]:
        """The changed days that a draft was proposed for."""
        return self.drafts[set_id].days


def situation(ws: Workspace, tx: ReadTransaction) -> Situation:
    """The situation of proposals: what has changed, what is open, and what becomes of every changed day."""
    changes = source_changes(ws, tx)
    changed = frozenset(changes.dependents)
    sets = list(open_sets(tx))
    drafts = {each.name: each for each in sets if each.is_replaceable}
    if not changed and not drafts:
        return Situation(changes=changes, closure=_nothing, decision=decide(changed, closure=_nothing))
    kept = {each.name: each for each in (*sets, *_open_runs(tx)) if each.name not in drafts}
    news = landed_news(ws.graph, tx, changes.dependents)
    closure = _closure(ws, tx, changes)
    may_follow = _may_follow(ws, tx, changes)
    decision = decide(
        changed,
        drafts=[_draft(tx, each) for each in drafts.values()],
        kept=[
            *(UnchangedProposal(name=each.name, area=each.area) for each in kept.values()),
            UnchangedProposal(name=BLOCKED, area=changes.blocked),
        ],
        may_follow=may_follow,
        linked=days_with_moved_keys(news),
        for_a_person=together([changes.otherwise, _only_a_person(tx, closure(may_follow))]),
        closure=closure,
    )
    accepted = _accepted(tx, changed)
    asked = (*decision.proposed, *decision.stays.values())
    return Situation(
        changes=changes,
        news=news,
        drafts=drafts,
        kept=kept,
        closure=closure,
        decision=decision,
        accepted=accepted,
        rolled_back=tuple(_rolled_back(tx, [(days, closure(days)) for days in asked], accepted)),
    )


def automatic_days(ws: Workspace, tx: ReadTransaction) -> Mapping[str, frozenset[date]]:
    """The changed days of sources whose restatement policy allows without a person, by source."""
    automatic = situation(ws, tx).decision.automatic
    return {source: frozenset(days) for source, days in grouped(automatic).items()}


def _rolled_back(
    tx: ReadTransaction, asked: Sequence[tuple[AbstractSet[SourceDay], Area]], accepted: Mapping[SourceDay, str]
) -> Iterator[SetRecord]:
    """The last sets that were rolled back, and are what is asked for again."""
    if not asked:
        return
    ended = tx.sets.records(
        states=[SetState.ROLLED_BACK], limit=_MOST_ROLLED_BACK, unreadable=lambda _set_id, _error: None
    )
    for record in ended:
        work = OpenWork(name=record.set_id, record=record, runs=tx.runs.of_request(record.set_id))
        for days, area in asked:
            reads = all(work.reads(*day, accepted.get(day, "")) for day in days)
            if reads and work.area == {table: frozenset(some) for table, some in area.items()}:
                yield record


def _accepted(tx: ReadTransaction, days: AbstractSet[SourceDay]) -> Mapping[SourceDay, str]:
    return {
        (source, day): claim.digest
        for source, some in grouped(sorted(days)).items()
        for day, claim in tx.versions.claims(source, some).items()
    }


def _nothing(_days: AbstractSet[SourceDay]) -> Area:
    return {}


def open_sets(tx: ReadTransaction) -> Iterator[OpenWork]:
    """The sets that are not finished and can be published."""
    for record in tx.sets.records(states=OPEN_SETS):
        runs = tx.runs.of_request(record.set_id)
        if not any(run.manifest.mode in NEVER_PUBLISHED for run in runs):
            yield OpenWork(name=record.set_id, record=record, runs=runs)


def _open_runs(tx: ReadTransaction) -> Iterator[OpenWork]:
    for run in tx.runs.records(states=UNBLOCKED):
        manifest = run.manifest
        if manifest.inputs and run.is_alone and manifest.mode not in NEVER_PUBLISHED:
            yield OpenWork(name=run.run_id, record=None, runs=(run,))


def _draft(tx: ReadTransaction, work: OpenWork) -> OpenDraft:
    assert work.record is not None
    current = is_current(tx, work.record, work.runs)
    return OpenDraft(set_id=work.name, days=work.days, area=work.area, is_current=current)


def _closure(ws: Workspace, tx: ReadTransaction, changes: SourceChanges) -> Closure:
    """Cost: the claims of every derived table."""
    derived = [node for node in ws.graph.tables.values() if not node.is_source]
    accepted = {node.name: frozenset(tx.versions.claims(node.name)) for node in derived}
    expired = {name: frozenset(tx.versions.expired(name)) for name in ws.graph.stateful}
    return closure_of(ws.graph, changes.dependents, accepted, expired)


def _may_follow(ws: Workspace, tx: ReadTransaction, changes: SourceChanges) -> frozenset[SourceDay]:
    """The days to which late events came within the lateness of their source, and nothing else, and that a publication
    still asks to follow."""
    lateness = {
        source.name: source.lateness.days
        for source in ws.domain.sources
        if source.lateness is not None and FOLLOW not in standing_of(ws, tx, source.name).loosened
    }
    asked = {
        (entry.table, day)
        for entry in (tx.outbox.entries(open_only=True) if lateness else ())
        if entry.table in lateness
        for day in entry.partitions
    }
    follow = {name for name in frozenset().union(*changes.dependents.values()) if _follows(ws, tx, name)}
    candidates = {
        day: tables for day, tables in changes.dependents.items() if day in asked and follow.issuperset(tables)
    }
    # A file of which only some days are built has changed these all the same.
    late = days_of_late_events(landed_news(ws.graph, tx, candidates, COUNTING), lateness)
    return late - days_that_lost_files(ws.graph, tx, {day: candidates[day] for day in late})


def _only_a_person(tx: ReadTransaction, area: Area) -> Area:
    """The partitions that no late event restates without a person.

    Their last version was rolled back, and nothing brings back what a person took back; or no person has agreed to what
    their rows were computed from last, because these came out equal.
    """
    return {
        table: tx.versions.undone_last(table, sorted(some)) | tx.versions.verified_unasked(table, sorted(some))
        for table, some in area.items()
    }


def days_held_by_moves(ws: Workspace, tx: ReadTransaction) -> Mapping[str, frozenset[date]]:
    """The days of sources, published or not, whose keys files moved from or to changed days, by source.

    What reads them is not published before a person has decided about the changed days: readers would count a key twice
    or not at all.
    """
    news = situation(ws, tx).news
    moving = [each.record for brought in news.values() for each in brought if each.day.displaced]
    sources = {record.import_id: record.source for record in moving}
    days = tx.imports.days(sorted(sources)) if sources else ()
    by_source = grouped((sources[each.import_id], each.event_date) for each in days)
    return {source: frozenset(some) for source, some in by_source.items()}


def _follows(ws: Workspace, tx: ReadTransaction, name: str) -> bool:
    table = ws.domain.tables[name]
    if not isinstance(table, DerivedTable):
        return False
    return standing_of(ws, tx, name).demand("follow", AgreedTerms(policy=table.policy)).policy is not None

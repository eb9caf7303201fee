"""Proposals: draft sets are planned once for changed days of sources, and replace the drafts that they take over.

Everything is decided anew from the ledger (`requests.proposals`), one draft for what tables connect, and drafts end
in the transaction that writes their successor, so that a process that stops leaves the earlier drafts or the new ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from backfill_assets.calendar.partitions import DayRange, Grain, compress, describe
from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import Refused, Retryable
from backfill_assets.core.grouped import grouped
from backfill_assets.core.wording import visible
from backfill_assets.lake.row_values import rows_by_import
from backfill_assets.ledger.transactions import ReadTransaction, WriteTransaction
from backfill_assets.planning.proposals import SourceDay
from backfill_assets.planning.restatement import PlannedSet, SetRequest
from backfill_assets.planning.sets import ProposedBecause
from backfill_assets.requests.drafts import basis_of
from backfill_assets.requests.plan import Proposal, TermsOf, plan_set
from backfill_assets.requests.proposals import Situation, open_sets, situation
from backfill_assets.staleness.landed_news import FileNews, LandedChange, files_of
from backfill_assets.workspace import Workspace

_TRIES = 5
REASON = "changed behind published output"
"""The reason of every proposal; its manifest has the days and the files."""

_WITHOUT_FILES = "backfill"
"""The requester where neither a file nor a load of the days is left."""


@dataclass(frozen=True, kw_only=True)
class NewDraft:
    """A draft that is proposed."""

    days: frozenset[SourceDay]  #: The changed days that it is for.
    files: Sequence[FileNews]  #: What landed files decide of these days, in the order of arrival.
    requester: str  #: Who asks for it.
    planned: PlannedSet | None = None  #: The set; None as long as none is written.


@dataclass(frozen=True, kw_only=True)
class Proposed:
    """The result of proposing."""

    situation: Situation
    drafts: Sequence[NewDraft]  #: The new drafts, or those that would be planned.
    replaced: Sequence[tuple[str, str]]  #: The drafts that were cancelled, or would be, each with the reason.


def propose(ws: Workspace, terms_of: TermsOf, *, by: str, dry_run: bool = False) -> Proposed:
    """Plans the drafts that changed days of sources ask for, once, in place of the drafts that they take over.

    Args:
        by: What or who makes the proposals; the requester of each is who landed the latest of its files.

    Raises:
        Refused: A draft cannot be planned; those of other tables are.
        Retryable: Other processes changed what is open again and again meanwhile.
    """
    planned: list[NewDraft] = []
    ended: list[tuple[str, str]] = []
    for _ in range(_TRIES):
        with ws.ledger.read() as tx:
            found = situation(ws, tx)
            drafts = [_draft(ws, tx, found, days) for days in found.decision.proposed]
        if dry_run:
            replaced = [(name, _why_replaced(found, name, None)) for name in found.decision.replaced]
            return Proposed(situation=found, drafts=drafts, replaced=replaced)
        if drafts or found.decision.replaced:
            ws.reached(Point.PROPOSAL_DECIDED)
        try:
            _write(ws, terms_of, found, drafts, by=by, planned=planned, ended=ended)
        except _OthersWereFaster:
            continue
        return Proposed(situation=found, drafts=planned, replaced=ended)
    raise Retryable.coded(
        "open_keeps_changing",
        "what is open changed again and again while a proposal was made; nothing was planned.",
        then="try again when the other processes are done",
    )


class _OthersWereFaster(Exception):
    """Another process opened, approved or ended a set since the decision."""


def _write(
    ws: Workspace,
    terms_of: TermsOf,
    found: Situation,
    drafts: Sequence[NewDraft],
    *,
    by: str,
    planned: list[NewDraft],
    ended: list[tuple[str, str]],
) -> None:
    """Plans the drafts one after the other, each with the end of those whose place it takes.

    Args:
        planned: What was planned, which grows.
        ended: What was cancelled, with the reason, which grows.
    """
    open_sets_now, refused = found.open_sets, list[Refused]()
    for at, draft in enumerate(drafts):
        ending = [name for name in found.decision.replaced if _successor(found, name) == at]
        try:
            written = _planned(ws, terms_of, found, draft, ending, open_sets_now, by=by)
        except Refused as error:
            refused.append(error)
            continue
        set_id = written.manifest.set_id
        planned.append(replace(draft, planned=written))
        ended += [(name, _why_replaced(found, name, set_id)) for name in ending]
        open_sets_now = open_sets_now.difference(ending) | {set_id}
        ws.reached(Point.PROPOSAL_PLANNED)
    if refused:
        raise refused[0]
    if found.decision.replaced and not drafts:
        with ws.ledger.write() as tx:
            _end(tx, found, found.decision.replaced, open_sets_now, successor=None, by=by)
        ended += [(name, _why_replaced(found, name, None)) for name in found.decision.replaced]
        ws.reached(Point.PROPOSAL_PLANNED)


def _planned(
    ws: Workspace,
    terms_of: TermsOf,
    found: Situation,
    draft: NewDraft,
    ending: Sequence[str],
    open_sets_now: AbstractSet[str],
    *,
    by: str,
) -> PlannedSet:
    with ws.ledger.read() as tx:
        proposed = _because(tx, found, draft)
    area = found.closure(draft.days)

    def first(tx: WriteTransaction, set_id: str) -> None:
        _end(tx, found, ending, open_sets_now, successor=set_id, by=by)

    called = "; ".join(f"{source} {describe(Grain.DAILY, days)}" for source, days in proposed.days.items())
    request = SetRequest(reason=REASON, by=draft.requester, because=_ranges(proposed), called=called)
    planned = plan_set(ws, request, terms_of, Proposal(proposed=proposed, actor=by, area=area, first=first))
    if not isinstance(planned, PlannedSet):
        raise _OthersWereFaster
    return planned


def _end(
    tx: WriteTransaction,
    found: Situation,
    ending: Sequence[str],
    open_sets_now: AbstractSet[str],
    *,
    successor: str | None,
    by: str,
) -> None:
    """Ends drafts. The decision counts as long as the same sets are open, and what it replaces is still a draft."""
    open_now = {each.name: each for each in open_sets(tx)}
    drafts = (open_now.get(name) for name in ending)
    if open_now.keys() != open_sets_now or not all(draft and draft.is_replaceable for draft in drafts):
        raise _OthersWereFaster
    for name in ending:
        tx.requests.replace_draft(name, actor=by, why=_why_replaced(found, name, successor))


def _successor(found: Situation, name: str) -> int:
    """The new draft that takes the place of one that ends: the first that has days of it, or the first at all."""
    days = found.days_of(name)
    return next((at for at, new in enumerate(found.decision.proposed) if days & new), 0)


def _why_replaced(found: Situation, name: str, successor: str | None) -> str:
    decision, days = found.decision, found.days_of(name)
    if taken := [new for new in decision.proposed if days & new]:
        return f"replaced by {successor or 'a new proposal'}, because {_news_in_short(found, taken[0])}"
    if waiting := sorted({kept for day in days for kept in decision.waits.get(day, ())} - {""}):
        return f"its days wait for {', '.join(waiting)}"
    if days & decision.automatic:
        return "its days follow automatically"
    return "nothing remains to restate"


def _news_in_short(found: Situation, days: AbstractSet[SourceDay]) -> str:
    files = files_of(found.news, days)
    if not files:
        return "what it reads or replaces has changed since"
    last = files[-1].record
    return f"of what was accepted since, up to {visible(last.name)} ({last.import_id})"


def _draft(ws: Workspace, tx: ReadTransaction, found: Situation, days: frozenset[SourceDay]) -> NewDraft:
    files = files_of(deciding_news(ws, tx, found.news, days), days)
    return NewDraft(days=days, files=files, requester=_requester(tx, days, files))


def _because(tx: ReadTransaction, found: Situation, draft: NewDraft) -> ProposedBecause:
    records = [each.record for each in draft.files]
    return ProposedBecause(
        days={source: tuple(days) for source, days in grouped(sorted(draft.days)).items()},
        imports=tuple(record.import_id for record in records),
        landed_by=tuple(dict.fromkeys(record.landed_by for record in records)),
        basis=basis_of(tx, draft.days, found.closure(draft.days)),
        files=tuple(each.changed for each in draft.files),
    )


def _ranges(proposed: ProposedBecause) -> tuple[tuple[str, DayRange], ...]:
    return tuple((source, each) for source, days in proposed.days.items() for each in compress(Grain.DAILY, days))


def _requester(tx: ReadTransaction, days: AbstractSet[SourceDay], files: Sequence[FileNews]) -> str:
    """The person who landed the latest of the files; without a file, who asked for the load of the latest of the
    days."""
    if files:
        return files[-1].record.landed_by
    for source, day in sorted(days, reverse=True):
        for claim in tx.versions.claims(source, [day]).values():
            return tx.runs.get(claim.run_id).manifest.requested_by
    return _WITHOUT_FILES


def deciding_news(
    ws: Workspace,
    tx: ReadTransaction,
    news: Mapping[SourceDay, tuple[LandedChange, ...]],
    days: Iterable[SourceDay],
) -> Mapping[SourceDay, tuple[LandedChange, ...]]:
    """The news of some days that decide a row of what is accepted, with the number of these rows.

    Where no file decides one, such as after a file was landed again with fewer records, all news of the day are kept.

    Cost: one column of the accepted rows of these days is read, without Spark.
    """
    found: dict[SourceDay, tuple[LandedChange, ...]] = {}
    for source, some in grouped(sorted(days)).items():
        accepted = tx.versions.accepted(source, some)
        for day in some:
            version = accepted.get(day)
            rows = {} if version is None else rows_by_import(ws.lake, source, version.files)
            counted = [replace(each, rows=rows.get(each.record.import_id, 0)) for each in news.get((source, day), ())]
            found[source, day] = tuple(each for each in counted if each.decides) or tuple(counted)
    return found

"""Proposals: a draft set is planned once for changed days of sources, and replaces the drafts that it takes over.

Everything is decided anew from the ledger (`publication.proposals`), and drafts end in the transaction that writes
their successor, so that a process that stops leaves the earlier drafts or the new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from backfill_assets.core.crash_points import Point
from backfill_assets.core.grouped import grouped
from backfill_assets.core.wording import visible
from backfill_assets.lake.row_values import rows_by_import
from backfill_assets.ledger.transactions import ReadTransaction, WriteTransaction
from backfill_assets.planning.partitions import DayRange, Grain, compress, describe
from backfill_assets.planning.proposals import SourceDay
from backfill_assets.planning.restatement import PlannedSet, SetRequest
from backfill_assets.planning.sets import ProposedBecause
from backfill_assets.publication.drafts import basis_of
from backfill_assets.publication.proposals import Situation, open_sets, situation
from backfill_assets.restatements.errors import OpenKeepsChanging
from backfill_assets.restatements.plan import Proposal, TermsOf, plan_set
from backfill_assets.staleness.landed_news import FileNews, LandedNews, files_of
from backfill_assets.workspace import Workspace

_TRIES = 5
REASON = "changed behind published output"
"""The reason of every proposal; its manifest has the days and the files."""

_WITHOUT_FILES = "backfill"
"""The requester where neither a file nor a load of the days is left."""


@dataclass(frozen=True, kw_only=True)
class Proposed:
    """The result of proposing.

    Attributes:
        planned: The new draft; None when nothing was to be proposed, or nothing was to be written.
        files: What landed files decide of these days, in the order of arrival.
        replaced: The drafts that were cancelled, or would be, each with the reason.
    """

    situation: Situation
    planned: PlannedSet | None
    files: Sequence[FileNews]
    replaced: Sequence[tuple[str, str]]


def propose(ws: Workspace, terms_of: TermsOf, *, by: str, dry_run: bool = False) -> Proposed:
    """Plans the draft that changed days of sources ask for, once, in place of the drafts that it takes over.

    Args:
        by: What or who makes the proposal; the requester is who landed the latest of the files.

    Raises:
        Retryable: Other processes changed what is open again and again meanwhile.
    """
    for _ in range(_TRIES):
        with ws.ledger.read() as tx:
            found = situation(ws, tx)
            days = found.decision.proposed
            files = files_of(deciding_news(ws, tx, found.news, days), days)
            proposed = _because(tx, found, files) if days else None
            requester = _requester(tx, found, files)
        nothing = Proposed(situation=found, planned=None, files=files, replaced=_replaced(found, None))
        if dry_run or not (proposed or found.decision.replaced):
            return nothing
        ws.reached(Point.PROPOSAL_DECIDED)
        try:
            if proposed is None:
                _end_drafts(ws, found, by=by)
                return nothing
            return _planned(ws, terms_of, nothing, proposed, by=by, requester=requester)
        except _OthersWereFaster:
            continue
    raise OpenKeepsChanging


class _OthersWereFaster(Exception):
    """Another process opened, approved or ended a set since the decision."""


def _planned(
    ws: Workspace, terms_of: TermsOf, decided: Proposed, proposed: ProposedBecause, *, by: str, requester: str
) -> Proposed:
    found = decided.situation

    def first(tx: WriteTransaction, set_id: str) -> None:
        _require_unchanged(tx, found)
        for name, why in _replaced(found, set_id):
            tx.sets.replace_draft(name, actor=by, why=why)

    called = "; ".join(f"{source} {describe(Grain.DAILY, days)}" for source, days in proposed.days.items())
    request = SetRequest(reason=REASON, by=requester, because=_ranges(proposed), called=called)
    planned = plan_set(ws, request, terms_of, Proposal(proposed=proposed, actor=by, first=first))
    if not isinstance(planned, PlannedSet):
        raise _OthersWereFaster
    ws.reached(Point.PROPOSAL_PLANNED)
    return replace(decided, planned=planned, replaced=_replaced(found, planned.manifest.set_id))


def _end_drafts(ws: Workspace, found: Situation, *, by: str) -> None:
    with ws.ledger.write() as tx:
        _require_unchanged(tx, found)
        for name, why in _replaced(found, None):
            tx.sets.replace_draft(name, actor=by, why=why)
    ws.reached(Point.PROPOSAL_PLANNED)


def _require_unchanged(tx: WriteTransaction, found: Situation) -> None:
    """The decision counts as long as the same sets are open, and what it replaces is still a draft."""
    open_now = {each.name: each for each in open_sets(tx)}
    drafts = (open_now.get(name) for name in found.decision.replaced)
    if open_now.keys() != found.open_sets or not all(draft and draft.is_replaceable for draft in drafts):
        raise _OthersWereFaster


def _replaced(found: Situation, successor: str | None) -> tuple[tuple[str, str], ...]:
    return tuple((name, _why_replaced(found, name, successor)) for name in found.decision.replaced)


def _why_replaced(found: Situation, name: str, successor: str | None) -> str:
    decision = found.decision
    days = found.days_of(name)
    if days & decision.proposed:
        return f"replaced by {successor or 'a new proposal'}, because {_news_in_short(found, decision.proposed)}"
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


def _because(tx: ReadTransaction, found: Situation, files: Sequence[FileNews]) -> ProposedBecause:
    chosen = found.decision.proposed
    records = [each.record for each in files]
    return ProposedBecause(
        days={source: tuple(days) for source, days in grouped(sorted(chosen)).items()},
        imports=tuple(record.import_id for record in records),
        landed_by=tuple(dict.fromkeys(record.landed_by for record in records)),
        basis=basis_of(tx, chosen, found.closure(chosen)),
        files=tuple(each.changed for each in files),
    )


def _ranges(proposed: ProposedBecause) -> tuple[tuple[str, DayRange], ...]:
    return tuple((source, each) for source, days in proposed.days.items() for each in compress(Grain.DAILY, days))


def _requester(tx: ReadTransaction, found: Situation, files: Sequence[FileNews]) -> str:
    """Who landed the latest of the files; without a file, who asked for the load of the latest of the days."""
    if files:
        return files[-1].record.landed_by
    for source, day in sorted(found.decision.proposed, reverse=True):
        for claim in tx.versions.claims(source, [day]).values():
            return tx.runs.get(claim.run_id).manifest.requested_by
    return _WITHOUT_FILES


def deciding_news(
    ws: Workspace,
    tx: ReadTransaction,
    news: Mapping[SourceDay, tuple[LandedNews, ...]],
    days: Iterable[SourceDay],
) -> Mapping[SourceDay, tuple[LandedNews, ...]]:
    """The news of some days that decide a row of what is accepted, with the number of these rows.

    Where no file decides one, such as after a file was landed again with fewer records, all news of the day are kept.

    Cost: one column of the accepted rows of these days is read, without Spark.
    """
    found: dict[SourceDay, tuple[LandedNews, ...]] = {}
    for source, some in grouped(sorted(days)).items():
        accepted = tx.versions.accepted(source, some)
        for day in some:
            version = accepted.get(day)
            rows = {} if version is None else rows_by_import(ws.lake, source, version.files)
            counted = [replace(each, rows=rows.get(each.record.import_id, 0)) for each in news.get((source, day), ())]
            found[source, day] = tuple(each for each in counted if each.decides) or tuple(counted)
    return found

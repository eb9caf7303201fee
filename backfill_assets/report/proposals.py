"""Documents of proposals: what was proposed because sources changed behind published output, and what was not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import assert_never

from backfill_assets.calendar.partitions import Grain, TablePartitions, count_of, describe
from backfill_assets.core.grouped import grouped
from backfill_assets.core.next_steps import Command, NextStep, do, step, to_approve, to_cancel, to_publish
from backfill_assets.core.tariff import Cost
from backfill_assets.core.wording import visible
from backfill_assets.ledger.records import SetRecord
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.next_steps import joined, loads
from backfill_assets.planning.proposals import SourceDay
from backfill_assets.report.documents import INLINE
from backfill_assets.report.follow import open_proposal_words
from backfill_assets.report.page import Items, Page, Value, page, words
from backfill_assets.report.planned import (
    LeftOutDocument,
    cost_line,
    expected_cost,
    left_out_documents,
    left_out_line,
    unmeasured_tables,
)
from backfill_assets.report.proposed import OpenProposal
from backfill_assets.report.releases import UnrelatedChange
from backfill_assets.report.words.plans import brought_along_words
from backfill_assets.requests.proposals import BLOCKED, Situation
from backfill_assets.requests.propose import REASON, NewDraft, Proposed
from backfill_assets.staleness.landed_news import FileNews
from backfill_assets.workspace import Workspace

_MOST_NAMES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class NewProposal:
    """A draft that was planned, or would be."""

    set_id: str | None  #: The set; null in a dry run.
    reason: str  #: Why, in words.
    days: tuple[TablePartitions, ...]  #: The changed days, by source.
    files: tuple[FileNews, ...]  #: The landed files that decide rows of them, in the order of arrival.
    rebuilds: tuple[TablePartitions, ...]  #: What it builds again, inputs before dependents.
    left_out: tuple[LeftOutDocument, ...]  #: What depends on the changed days and is not built; none in a dry run.
    #: The newer releases and the other references that its runs bring, as for `plan`; none in a dry run.
    brings: tuple[UnrelatedChange, ...]
    cost: Cost | None  #: What its runs are expected to cost together, as for `plan`; null in a dry run.
    #: The tables for which the cost is not known, because no run of them has ended its gates.
    unmeasured: tuple[str, ...]
    next_step: NextStep  #: What a person does with it; in a dry run, what plans it.


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacedProposal:
    """A draft that was cancelled, or would be."""

    set_id: str  #: The set.
    why: str  #: The reason, which names its successor.


class WhyNotProposed(StrEnum):
    """Why changed days are in no new proposal."""

    WITHIN_LATENESS = "WITHIN_LATENESS"
    INPUT_MISSING = "INPUT_MISSING"
    ONE_DECISION = "ONE_DECISION"
    IN_OPEN_PLAN = "IN_OPEN_PLAN"
    BEHIND_OPEN_PLAN = "BEHIND_OPEN_PLAN"
    NOT_LOADED = "NOT_LOADED"


@dataclass(frozen=True, slots=True, kw_only=True)
class DaysNotProposed:
    """Changed days that are in no new proposal."""

    days: TablePartitions = field(metadata=INLINE)  #: The days of the source.
    #: WITHIN_LATENESS: they follow by policy; INPUT_MISSING: an input of what rests on them has no accepted version;
    #: ONE_DECISION: keys moved between them and days that wait; IN_OPEN_PLAN: an open plan restates them;
    #: BEHIND_OPEN_PLAN: an open plan has some of the same partitions and does not read the change; NOT_LOADED: the
    #: source is not built from its landed files.
    why: WhyNotProposed
    plan: str | None = None  #: The run or the set for which they wait, or null.
    next_step: NextStep | None  #: What can be done about it; null when nothing has to be.


@dataclass(frozen=True, slots=True, kw_only=True)
class RolledBackProposal:
    """A set that was rolled back, and is what is proposed again."""

    set_id: str  #: The set.
    reason: str  #: Why it was rolled back.
    next_step: NextStep  #: What publishes it again.


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposeReport:
    """The outcome for the changed days of sources behind published output; each is in one place."""

    dry_run: bool  #: True if it was only decided, and nothing was written.
    #: The new drafts, one for the days of all sources that tables connect; none when there is nothing new.
    proposed: tuple[NewProposal, ...]
    open: tuple[OpenProposal, ...]  #: The drafts that stay as they are.
    replaced: tuple[ReplacedProposal, ...]  #: The drafts that ended.
    #: Sets that restate exactly what is proposed, from the same rows, and were rolled back.
    rolled_back: tuple[RolledBackProposal, ...]
    #: Days that came within the lateness of their source, which follow by policy.
    automatic: tuple[DaysNotProposed, ...]
    waiting: tuple[DaysNotProposed, ...]  #: Days that wait for other plans, or that cannot be restated.
    #: Days of sources that are not built from what has landed, which come first.
    not_loaded: tuple[DaysNotProposed, ...]


def propose_report(
    ws: Workspace, proposed: Proposed, brings: Iterable[tuple[UnrelatedChange, ...]], *, dry_run: bool
) -> ProposeReport:
    """Reports what became of the changed days of sources.

    Args:
        brings: What each new draft brings along.
    """
    found = proposed.situation
    new = {draft.planned.manifest.set_id for draft in proposed.drafts if draft.planned}
    staying = [found.drafts[name].record for name in found.decision.stays if name not in new]
    return ProposeReport(
        dry_run=dry_run,
        proposed=tuple(_new(ws, found, draft, some) for draft, some in zip(proposed.drafts, brings, strict=True)),
        open=tuple(OpenProposal(record=record, approved=False) for record in staying if record is not None),
        replaced=tuple(ReplacedProposal(set_id=name, why=why) for name, why in proposed.replaced),
        rolled_back=tuple(map(_rolled_back, found.rolled_back)),
        automatic=tuple(_automatic(found)),
        waiting=tuple(_waiting(found)),
        not_loaded=tuple(_not_loaded(found)),
    )


def _new(ws: Workspace, found: Situation, draft: NewDraft, brings: tuple[UnrelatedChange, ...]) -> NewProposal:
    days, planned = draft.days, draft.planned
    set_id = planned.manifest.set_id if planned else None
    reviewed = (
        [do(Command.RUN, set_id), do(Command.REPORT, set_id), to_approve(set_id)] if set_id else [do(Command.PROPOSE)]
    )
    area = found.closure(days)
    return NewProposal(
        set_id=set_id,
        reason=proposal_words(found, draft),
        days=tuple(_by_source(days)),
        files=tuple(draft.files),
        rebuilds=tuple(
            TablePartitions(table=node.name, grain=node.grain, partitions=tuple(sorted(partitions)))
            for node in ws.graph.tables.values()
            if (partitions := area.get(node.name))
        ),
        left_out=left_out_documents(each for each in planned.left_out if each.is_asked) if planned else (),
        brings=brings,
        cost=expected_cost(planned.plans, ws.settings.tariff) if planned else None,
        unmeasured=unmeasured_tables(planned.plans) if planned else (),
        next_step=joined(reviewed),
    )


def _by_source(days: Iterable[SourceDay]) -> Iterator[TablePartitions]:
    for source, some in grouped(sorted(days)).items():
        yield TablePartitions(table=source, grain=Grain.DAILY, partitions=tuple(some))


def _rolled_back(record: SetRecord) -> RolledBackProposal:
    again = [to_approve(record.set_id), to_publish(record.set_id)]
    return RolledBackProposal(set_id=record.set_id, reason=record.note, next_step=joined(again))


def _automatic(found: Situation) -> Iterator[DaysNotProposed]:
    following = step(do(Command.FOLLOW), ", unless the sensor of a running Dagster does")
    for days in _by_source(found.decision.automatic):
        yield DaysNotProposed(days=days, why=WhyNotProposed.WITHIN_LATENESS, next_step=following)


def _waiting(found: Situation) -> Iterator[DaysNotProposed]:
    by_names = grouped(((day in found.decision.together, names), day) for day, names in found.decision.waits.items())
    for (_, names), some in by_names.items():
        for days in _by_source(some):
            yield _why_waiting(found, names, days)


def _why_waiting(found: Situation, names: tuple[str, ...], days: TablePartitions) -> DaysNotProposed:
    """Why days are not proposed: a plan restates them, one does not read how they changed, or nothing can."""
    if BLOCKED in names:
        return DaysNotProposed(days=days, why=WhyNotProposed.INPUT_MISSING, next_step=step(do(Command.STALE)))
    own = [(days.table, day) for day in days.partitions]
    if found.decision.together.issuperset(own):
        look = step(do(Command.STATUS, names[0]))
        return DaysNotProposed(days=days, why=WhyNotProposed.ONE_DECISION, plan=names[0], next_step=look)
    for name in names:
        if all(found.kept[name].reads(*day, found.accepted.get(day, BLOCKED)) for day in own):
            look = step(do(Command.STATUS, name))
            return DaysNotProposed(days=days, why=WhyNotProposed.IN_OPEN_PLAN, plan=name, next_step=look)
    end = step(to_cancel(names[0]), "; then ", do(Command.PROPOSE))
    if not any(run.state in (RunState.BLOCKED, RunState.FAILED) for run in found.kept[names[0]].runs):
        end = step("publish it, or ", end)
    return DaysNotProposed(days=days, why=WhyNotProposed.BEHIND_OPEN_PLAN, plan=names[0], next_step=end)


def _not_loaded(found: Situation) -> Iterator[DaysNotProposed]:
    for source, days in found.changes.not_loaded.items():
        yield DaysNotProposed(
            days=TablePartitions(table=source, grain=Grain.DAILY, partitions=tuple(sorted(days))),
            why=WhyNotProposed.NOT_LOADED,
            next_step=step(joined(loads(source, days)), ", then ", do(Command.PROPOSE)),
        )


def proposal_words(found: Situation, draft: NewDraft) -> str:
    """Why changed days are proposed: the files that decide them, and days without a new file."""
    said = [_of_files(draft.files)] if draft.files else []
    if without := sorted({day for day in draft.days if not found.news.get(day)}):
        days = describe(Grain.DAILY, (day for _, day in without))
        said.append(f"{without[0][0]} {days}: loaded again or rolled back, with no new file")
    return f"{REASON}: {'; '.join(said)}"


def _of_files(files: Sequence[FileNews]) -> str:
    """One file with its name; of several the ids, because the set has a table of them."""
    if len(files) == 1:
        return file_words(files[0])
    by_source = grouped((each.record.source, day) for each in files for day in each.changed.days)
    days = "; ".join(f"{source} {describe(Grain.DAILY, set(some), most=3)}" for source, some in by_source.items())
    ids = _few([each.record.import_id for each in files])
    people = _few(list(dict.fromkeys(each.record.landed_by for each in files)))
    return (
        f"{_rows(files)} of {days}, decided by {count_of(len(files), 'file')} ({ids}; landed by {people} "
        f"{_landed_on(files)}), {_late(files)} late"
    )


def _landed_on(files: Sequence[FileNews]) -> str:
    days = sorted({f"{each.record.landed_at:%Y-%m-%d}" for each in files})
    return f"on {days[0]}" if len(days) == 1 else f"from {days[0]} to {days[-1]}"


def file_words(file: FileNews) -> str:
    """The file, its days, how many rows it decides of them, and how late they came."""
    record = file.record
    days = describe(Grain.DAILY, file.changed.days, most=3)
    name = visible(record.name)
    return (
        f"{name} ({record.import_id}, landed by {record.landed_by} on {record.landed_at:%Y-%m-%d}): "
        f"{_rows([file])} of {record.source} {days}, {_late([file])} late"
    )


def _rows(files: Sequence[FileNews]) -> str:
    """The rows of files on their days, and those that they have taken back or ended."""
    rows = sum(each.changed.rows for each in files)
    others = {
        "moved to other days": sum(each.changed.moved_away for each in files),
        "deleted or withdrawn": sum(each.changed.taken_back for each in files),
        "restored": sum(each.changed.restored for each in files),
    }
    found = [count_of(rows, "row")] if rows or not any(others.values()) else []
    return ", ".join([*found, *(f"{count_of(count, 'row')} {how}" for how, count in others.items() if count)])


def _late(files: Sequence[FileNews]) -> str:
    """The days that passed between the days of files and their landing."""
    least, most = min(each.least_days_late for each in files), max(each.most_days_late for each in files)
    return f"{least:,} to {count_of(most, 'day')}" if least < most else count_of(least, "day")


def _few(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join([*names[:_MOST_NAMES], *([f"{more:,} more"] if more > 0 else [])])


# Pages on proposals: what was proposed because sources changed behind published output, and what was not.


def propose_page(report: ProposeReport) -> Page:
    """The page on the outcome of changed days."""
    return page("Proposals", Items(items=propose_lines(report)))


def propose_lines(report: ProposeReport) -> tuple[Value, ...]:
    """The outcome of proposals line by line, for the text of a tick."""
    return tuple(_lines(report)) or ("nothing to propose: no source has changed behind published output",)


def _lines(report: ProposeReport) -> Iterator[Value]:
    for proposed in report.proposed:
        yield from _new_block(proposed)
    for replaced in report.replaced:
        yield f"{replaced.set_id} {'would be' if report.dry_run else 'is'} cancelled: {replaced.why}"
    yield from map(open_proposal_words, report.open)
    for back in report.rolled_back:
        why = f"{back.set_id} restates exactly this, from the same rows, and was rolled back ({back.reason})."
        yield words(f"{why} If these rows are right after all, it only needs its approval: ", back.next_step)
    for each in (*report.automatic, *report.waiting, *report.not_loaded):
        said = f"{each.days} {_why(each)}"
        yield words(said, " Next: ", each.next_step) if each.next_step else said


def _new_block(new: NewProposal) -> Iterator[Value]:
    yield f"{f'proposed {new.set_id}' if new.set_id else 'would propose a set'}: {new.reason}"
    yield f"  it rebuilds {', '.join(map(str, new.rebuilds))}"
    for left in new.left_out:
        yield words("  left out: ", left_out_line(left))
    for each in new.brings:
        yield f"  {brought_along_words(each)}"
    if cost := cost_line(new.cost, new.unmeasured):
        yield f"  cost: {cost}"
    yield words("  next: ", new.next_step)


def _why(found: DaysNotProposed) -> str:
    match found.why:
        case WhyNotProposed.WITHIN_LATENESS:
            return "came within the lateness of the source, and follows automatically."
        case WhyNotProposed.INPUT_MISSING:
            return "cannot be restated: an input of its dependents no longer has an accepted version."
        case WhyNotProposed.ONE_DECISION:
            return (
                f"is not proposed, because keys moved between it and days that wait for {found.plan}: "
                "they are one decision."
            )
        case WhyNotProposed.IN_OPEN_PLAN:
            return f"is in {found.plan}, which is open."
        case WhyNotProposed.BEHIND_OPEN_PLAN:
            return (
                f"is not proposed, because {found.plan} has some of the same partitions: it does not read the "
                "change, and is kept because a person planned, approved or began it."
            )
        case WhyNotProposed.NOT_LOADED:
            return "is not built from its landed files."
    assert_never(found.why)

"""Documents of proposals: what was proposed because sources changed behind published output, and what was not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from backfill_assets.ledger.records import SetRecord
from backfill_assets.planning.partitions import Grain, describe
from backfill_assets.planning.proposals import Area, SourceDay
from backfill_assets.planning.restatement import PlannedSet
from backfill_assets.publication.proposals import BLOCKED, Situation
from backfill_assets.report.advice.filling import joined, loads
from backfill_assets.report.changing_files import ChangingFile, changing_file
from backfill_assets.report.open_proposals import OpenProposal, open_proposal, open_proposal_sentence
from backfill_assets.report.planned_sets import LeftOutDocument, left_out_documents
from backfill_assets.report.requests import ANOTHER_PERSON, NAME, WHY, Act, NextStep, do, step
from backfill_assets.report.version_changes import BroughtAlong
from backfill_assets.report.words.news import proposal_words
from backfill_assets.staleness.landed_news import FileNews
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedRebuild:
    """What a proposal builds again of a table.

    Attributes:
        table: The table.
        partitions: How many partitions.
        described: The same in words.
    """

    table: str
    partitions: int
    described: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewProposal:
    """A draft that was planned, or would be.

    Attributes:
        set_id: The set; null in a dry run.
        reason: Why, in words.
        days_described: The changed days, by source in words.
        files: The landed files that decide rows of them, in the order of arrival.
        rebuilds: What it builds again, inputs before dependents.
        left_out: What depends on the changed days and is not built; none in a dry run.
        brings: The newer releases and the other references that its runs bring, as for `plan`; none in a dry run.
        next_step: What a person does with it; in a dry run, what plans it.
    """

    set_id: str | None
    reason: str
    days_described: str
    files: tuple[ChangingFile, ...]
    rebuilds: tuple[ProposedRebuild, ...]
    left_out: tuple[LeftOutDocument, ...]
    brings: tuple[BroughtAlong, ...]
    next_step: NextStep


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacedProposal:
    """A draft that was cancelled, or would be.

    Attributes:
        set_id: The set.
        why: The reason, which names its successor.
    """

    set_id: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DaysNotProposed:
    """Changed days that are in no new proposal.

    Attributes:
        source: The source table.
        days_described: The days in words.
        sentence: Why, and what restates them.
        next_step: What can be done about it; null when nothing has to be.
    """

    source: str
    days_described: str
    sentence: str
    next_step: NextStep | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RolledBackProposal:
    """A set that was rolled back, and is what is proposed again.

    Attributes:
        set_id: The set.
        reason: Why it was rolled back.
        next_step: What publishes it again.
    """

    set_id: str
    reason: str
    next_step: NextStep


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposeReport:
    """What became of the changed days of sources behind published output; each is in one place.

    Attributes:
        dry_run: Whether it was only decided, and nothing was written.
        proposed: The new draft; null when there is nothing new.
        open: The drafts that stay as they are.
        replaced: The drafts that ended.
        rolled_back: Sets that restate exactly what is proposed, from the same rows, and were rolled back.
        automatic: Days that came within the lateness of their source, which follow by policy.
        waiting: Days that wait for other plans, or that cannot be restated.
        not_loaded: Days of sources that are not built from what has landed, which come first.
    """

    dry_run: bool
    proposed: NewProposal | None
    open: tuple[OpenProposal, ...]
    replaced: tuple[ReplacedProposal, ...]
    rolled_back: tuple[RolledBackProposal, ...]
    automatic: tuple[DaysNotProposed, ...]
    waiting: tuple[DaysNotProposed, ...]
    not_loaded: tuple[DaysNotProposed, ...]

    @property
    def sentences(self) -> tuple[NextStep, ...]:
        """The report in words."""
        found = [*_new_sentences(self), *map(open_proposal_sentence, self.open)]
        for back in self.rolled_back:
            why = f"{back.set_id} restates exactly this, from the same rows, and was rolled back ({back.reason})."
            found.append(step(f"{why} If these rows are right after all, it only needs its approval: ", back.next_step))
        for each in (*self.automatic, *self.waiting, *self.not_loaded):
            found.append(step(each.sentence, *((" Next: ", each.next_step) if each.next_step else ())))
        return tuple(found) or (step("nothing to propose: no source has changed behind published output"),)


def propose_report(
    ws: Workspace,
    found: Situation,
    *,
    planned: PlannedSet | None,
    brings: Iterable[BroughtAlong],
    files: Sequence[FileNews],
    replaced: Iterable[tuple[str, str]],
    dry_run: bool,
) -> ProposeReport:
    """What became of the changed days of sources.

    Args:
        ws: The workspace.
        found: What it was decided from.
        planned: The new draft; None when none was planned.
        brings: What its runs bring along.
        files: What landed files decide of these days.
        replaced: The drafts that ended, each with the reason.
        dry_run: Whether nothing was written.
    """
    staying = [found.drafts[name].record for name in found.decision.stays]
    behind = tuple(map(changing_file, files))
    return ProposeReport(
        dry_run=dry_run,
        proposed=_new(ws, found, planned, tuple(brings), proposal_words(found, files), behind)
        if found.decision.proposed
        else None,
        open=tuple(open_proposal(record, approved=False) for record in staying if record is not None),
        replaced=tuple(ReplacedProposal(set_id=name, why=why) for name, why in replaced),
        rolled_back=tuple(map(_rolled_back, found.rolled_back)),
        automatic=tuple(_automatic(found)),
        waiting=tuple(_waiting(found)),
        not_loaded=tuple(_not_loaded(found)),
    )


def _new(
    ws: Workspace,
    found: Situation,
    planned: PlannedSet | None,
    brings: tuple[BroughtAlong, ...],
    reason: str,
    files: tuple[ChangingFile, ...],
) -> NewProposal:
    days, set_id = found.decision.proposed, planned.manifest.set_id if planned else None
    reviewed = [do(Act.RUN, set_id), do(Act.APPROVE, set_id, by=ANOTHER_PERSON)] if set_id else [do(Act.PROPOSE)]
    return NewProposal(
        set_id=set_id,
        reason=reason,
        days_described="; ".join(f"{source} {described}" for source, described in _by_source(days)),
        files=files,
        rebuilds=tuple(_rebuilds(ws, found.closure(days))),
        left_out=left_out_documents(each for each in planned.left_out if each.is_asked) if planned else (),
        brings=brings,
        next_step=joined(reviewed),
    )


def _by_source(days: Iterable[SourceDay]) -> Iterator[tuple[str, str]]:
    by_source: dict[str, list[date]] = {}
    for source, day in sorted(days):
        by_source.setdefault(source, []).append(day)
    yield from ((source, describe(Grain.DAILY, some)) for source, some in by_source.items())


def _rebuilds(ws: Workspace, area: Area) -> Iterator[ProposedRebuild]:
    for node in ws.graph.tables.values():
        if partitions := area.get(node.name):
            described = describe(node.grain, partitions)
            yield ProposedRebuild(table=node.name, partitions=len(partitions), described=described)


def _rolled_back(record: SetRecord) -> RolledBackProposal:
    again = [do(Act.APPROVE, record.set_id, by=ANOTHER_PERSON), do(Act.PUBLISH, record.set_id, by=NAME)]
    return RolledBackProposal(set_id=record.set_id, reason=record.note, next_step=joined(again))


def _automatic(found: Situation) -> Iterator[DaysNotProposed]:
    for source, described in _by_source(found.decision.automatic):
        yield DaysNotProposed(
            source=source,
            days_described=described,
            sentence=f"{source} {described} came within the lateness of the source, and follows automatically.",
            next_step=step(do(Act.FOLLOW), ", unless the sensor of `make dev` runs"),
        )


def _waiting(found: Situation) -> Iterator[DaysNotProposed]:
    by_names: dict[tuple[bool, tuple[str, ...]], list[SourceDay]] = {}
    for day, names in found.decision.waits.items():
        by_names.setdefault((day in found.decision.together, names), []).append(day)
    for (_, names), days in by_names.items():
        for source, described in _by_source(days):
            sentence, advice = _why_waiting(found, names, source, days)
            yield DaysNotProposed(
                source=source, days_described=described, sentence=f"{source} {described} {sentence}", next_step=advice
            )


def _why_waiting(
    found: Situation, names: tuple[str, ...], source: str, days: list[SourceDay]
) -> tuple[str, NextStep | None]:
    """Why days are not proposed: a plan restates them, it was planned before they changed, or nothing can."""
    if BLOCKED in names:
        why = "cannot be restated: an input of what rests on it has no accepted version any more."
        return why, step(do(Act.STALE))
    own = [day for day in days if day[0] == source]
    if found.decision.together.issuperset(own):
        return (
            f"is not proposed, because keys moved between it and days that wait for {names[0]}: they are one decision.",
            step(do(Act.STATUS, names[0])),
        )
    for name in names:
        if all(found.kept[name].reads(*day, found.accepted.get(day, BLOCKED)) for day in own):
            return f"is in {name}, which is open.", step(do(Act.STATUS, name))
    return (
        f"is not proposed, because {names[0]} has some of the same partitions: it was planned before the change, and "
        f"is kept because a person planned, approved or began it.",
        step(
            *("publish it, or ", do(Act.CANCEL, names[0], by=NAME, reason=WHY)),
            *("; then ", do(Act.PROPOSE)),
        ),
    )


def _not_loaded(found: Situation) -> Iterator[DaysNotProposed]:
    for source, days in found.changes.not_loaded.items():
        described = describe(Grain.DAILY, days)
        yield DaysNotProposed(
            source=source,
            days_described=described,
            sentence=f"{source} {described} is not built from what has landed.",
            next_step=step(joined(loads(source, days)), ", then ", do(Act.PROPOSE)),
        )


def _new_sentences(report: ProposeReport) -> Iterator[NextStep]:
    new = report.proposed
    if new is not None:
        rebuilt = ", ".join(f"{each.table} {each.described}" for each in new.rebuilds)
        named = f"proposed {new.set_id}" if new.set_id else "would propose a set"
        yield step(f"{named}: {new.reason}")
        yield step(f"  it builds again {rebuilt}")
        for left in new.left_out:
            yield step(f"  left out: {left.some.table} {left.some.described}, {left.why}; ", left.include)
        yield from (step(f"  {each.sentence}") for each in new.brings)
        yield step("  next: ", new.next_step)
    for each in report.replaced:
        yield step(f"{each.set_id} {'would be' if report.dry_run else 'is'} cancelled: {each.why}")

"""Pages on proposals: what was proposed because sources changed behind published output, and what was not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from backfill_assets.report.page import Items, Page, Value, page, words
from backfill_assets.report.proposals import DaysNotProposed, NewProposal, ProposeReport, WhyNotProposed
from backfill_assets.report.screens.plan import cost_line, left_out_line
from backfill_assets.report.words.plans import brought_along_words
from backfill_assets.report.words.waiting import open_proposal_words


def propose_page(report: ProposeReport) -> Page:
    """The page on the outcome of changed days."""
    return page("Proposals", Items(items=propose_lines(report)))


def propose_lines(report: ProposeReport) -> tuple[Value, ...]:
    """The outcome of proposals line by line, for the text of a tick."""
    return tuple(_lines(report)) or ("nothing to propose: no source has changed behind published output",)


def _lines(report: ProposeReport) -> Iterator[Value]:
    for proposed in report.proposed:
        yield from _new(proposed)
    for replaced in report.replaced:
        yield f"{replaced.set_id} {'would be' if report.dry_run else 'is'} cancelled: {replaced.why}"
    yield from map(open_proposal_words, report.open)
    for back in report.rolled_back:
        why = f"{back.set_id} restates exactly this, from the same rows, and was rolled back ({back.reason})."
        yield words(f"{why} If these rows are right after all, it only needs its approval: ", back.next_step)
    for each in (*report.automatic, *report.waiting, *report.not_loaded):
        said = f"{each.days} {_why(each)}"
        yield words(said, " Next: ", each.next_step) if each.next_step else said


def _new(new: NewProposal) -> Iterator[Value]:
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

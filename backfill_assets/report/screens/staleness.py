"""Pages on staleness: what is stale and why, and what would have to be restated to follow the declaration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from backfill_assets.planning.impact import lacks
from backfill_assets.planning.next_steps import joined, plans
from backfill_assets.planning.partitions import Partitions, count_of, describe
from backfill_assets.planning.reasons import Cause, Reason
from backfill_assets.report.page import (
    Block,
    Note,
    Page,
    Section,
    Tone,
    facts,
    next_steps,
    page,
    section,
    table,
    words,
)
from backfill_assets.report.screens.landing import not_known_section, read_before_notes
from backfill_assets.report.screens.runs import problem_notes
from backfill_assets.report.stale import StaleDocument
from backfill_assets.report.words.gates_since import not_measured_words
from backfill_assets.report.words.plans import added_doubles_words, inexact_words
from backfill_assets.report.words.staleness import stale_words, taken_back_words
from backfill_assets.staleness.decide import Staleness, StaleRange

if TYPE_CHECKING:
    from backfill_assets.upkeep.check import CheckedTable, CheckReport

_READ = {True: "as they are", False: "have to be built again"}


def stale_note(table: str, reasons: Iterable[Reason]) -> Note | None:
    """A note that the shown rows no longer follow from the present inputs; None where they do."""
    why = "; ".join(stale_words(table, each) for each in reasons)
    return Note(text=f"Stale: {why}.", tone=Tone.ATTENTION) if why else None


def stale_page(document: StaleDocument) -> Page:
    """The page on stale partitions, by ranges, and what to do about them."""
    tables = document.tables
    fresh = [each.table for each in tables if not each.ranges and each.accepted]
    never = [each.table for each in tables if not each.ranges and not each.accepted]
    looked = count_of(sum(each.accepted for each in tables), "accepted partition")
    nothing, tone = f"nothing is stale: {looked} looked at", Tone.GOOD
    if document.read_before:
        nothing, tone = f"{nothing}, as their files were read when they landed", Tone.ATTENTION
    return page(
        "Stale partitions",
        None if document.is_stale else Note(text=nothing, tone=tone),
        *(block for each in tables for block in _of_table(each)),
        Note(text=f"not stale: {', '.join(fresh)}") if fresh and document.is_stale else None,
        Note(text=f"never built: {', '.join(never)}") if never else None,
        not_known_section(document.not_known),
        *read_before_notes(document.read_before),
        *(Note(text=not_measured_words(each), tone=Tone.ATTENTION) for each in document.not_measured),
        next_steps(*document.next_steps),
    )


def _of_table(found: Staleness) -> Iterator[Block | None]:
    name = found.table
    yield _ranges(found, f"{len(found.partitions):,} stale, {found.accepted:,} accepted", found.ranges)
    if found.blocked:
        yield Note(
            text="cannot be built again, because an input no longer has an accepted version: "
            f"{name} {describe(found.grain, found.blocked)}. Build the input, or roll back what depends on it."
        )
    if found.waiting:
        waiting = f"{name} {describe(found.grain, found.waiting)}: {lacks(found.waits_for)}"
        yield Note(text=f"never built, and waiting for inputs: {waiting}")
    if found.on_purpose:
        left = f"{name} {describe(found.grain, found.on_purpose)}"
        yield Note(text=f"left to a person, because its references were chosen on purpose: {left}")
    accepted = [each for each in found.kept if any(why.cause is Cause.DIFFERENCE_ACCEPTED for why in each.reasons)]
    of_references = [each for each in found.kept if each not in accepted]
    for kept, why in ((of_references, "their references were chosen on purpose"), (accepted, "accepted difference")):
        yield _ranges(found, f"{sum(len(each.partitions) for each in kept):,} not stale, {why}", kept)
    if found.taken_back:
        partitions, rows = zip(*found.taken_back, strict=True)
        kept_rows = f"{taken_back_words(sum(rows))}, kept as the table declares"
        yield Note(text=f"{kept_rows}: {name} {describe(found.grain, partitions)}", tone=Tone.ATTENTION)
    chosen = [partition for each in of_references for partition in each.partitions]
    if chosen_for := (*found.on_purpose, *chosen):
        yield Note(text=words("with the present references: ", joined(plans(name, found.grain, chosen_for))))


def _ranges(of: Staleness, how_many: str, ranges: Iterable[StaleRange]) -> Section | None:
    rows = [
        (Partitions(each.grain, each.partitions) if place == 0 else "", stale_words(of.table, reason))
        for each in ranges
        for place, reason in enumerate(each.reasons)
    ]
    return section(f"{of.table}: {how_many}", table(["partitions", "because"], rows))


def check_page(report: CheckReport) -> Page:
    """Every table with what it was built in, what is missing, and what would have to be restated."""
    agrees = "every table can follow its declaration, and every reader its inputs"
    return page(
        "The domain, compared with what is published",
        *map(_checked, report.tables),
        Note(text=agrees, tone=Tone.GOOD) if report.agrees else None,
        *problem_notes(report.problems),
    )


def _checked(found: CheckedTable) -> Block:
    # It knows the rooms of upkeep, which no other screen of this module needs.
    from backfill_assets.report.repairs import after_check

    version = f", version {found.contract_version} of its contract" if found.contract_version else ""
    rows = [
        (each.version, len(each.partitions), str(each.partitions), _READ[each.gives_same_rows]) for each in found.built
    ]
    empty = count_of(found.empty_partitions, "partition")
    following = after_check(found) if found.restate else None
    title = f"{found.table}: {count_of(found.accepted_partitions, 'accepted partition')}{version}"
    found_out = section(
        title,
        table(
            ["built in version", "partitions", "which", "are read"], rows, numbers=["built in version", "partitions"]
        ),
        Note(text=f"{empty} without rows, for any version") if found.empty_partitions else None,
        *(Note(text=problem, tone=Tone.BAD) for problem in found.problems),
        *(Note(text=f"{inexact_words(each)}.", tone=Tone.ATTENTION) for each in found.inexact),
        *(
            Note(text=f"{added_doubles_words(each)}.", tone=Tone.ATTENTION)
            for each in found.added_doubles
            if each.name not in {known.function for known in found.inexact}
        ),
        *(
            Note(text=f"{each.column} is null in {count_of(len(each.partitions), 'partition')}: {each.partitions}")
            for each in found.lacked
        ),
        facts(("would have to be restated", found.restate)),
        next_steps(following),
    )
    return found_out or Note(text=title, tone=Tone.STRONG)

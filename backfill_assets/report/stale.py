"""Stale partitions: the documents and pages of `stale` and `check`, and the freshness that Dagster shows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from backfill_assets.calendar.partitions import DayRange, Days, Partitions, count_of, days_of, describe
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.identity import document_digest
from backfill_assets.core.next_steps import Invocation
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest_parts import Cause, Reason
from backfill_assets.planning.next_steps import joined, loads, plan_stale, plans
from backfill_assets.report.gates_since import NotMeasured, not_measured_words
from backfill_assets.report.page import Block, Note, Page, Section, Tone, facts, next_steps, page, section, table, words
from backfill_assets.report.runs import problem_notes
from backfill_assets.report.sources import ReadBefore, read_before_notes
from backfill_assets.report.waiting import NotKnownDocument, not_known_section
from backfill_assets.report.words.plans import added_doubles_words, inexact_words
from backfill_assets.report.words.states import stale_words, taken_back_words
from backfill_assets.requests.left_out import as_recorded, lacks
from backfill_assets.staleness.decide import Staleness, StaleRange
from backfill_assets.staleness.find import stale_within
from backfill_assets.workspace import Workspace

if TYPE_CHECKING:
    from backfill_assets.upkeep.check import CheckedTable, CheckReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """The stale parts of a table, partition by partition."""

    table: str
    accepted: tuple[date, ...]  #: Its accepted partitions, in order.
    stale: Mapping[date, str]  #: Why each of those that are stale is, in words.
    mark: str  #: Differs when another partition is stale, for another reason, or when something was published.


def freshness(ws: Workspace, table: str | None) -> Iterator[Freshness]:
    """The stale partitions of a derived table, or of each table; a source table reads no other, so none of it is
    stale."""
    names = {derived.name for derived in ws.domain.derived}
    with ws.ledger.read() as tx:
        for source in ws.domain.sources if table is None else ():
            yield _freshness(tx, source.name, {})
        for found in stale_within(ws, tx, table=table):
            if found.table not in names:
                continue
            stale = {
                partition: "; ".join(stale_words(found.table, reason) for reason in reasons)
                for partition, reasons in found.reasons.items()
            }
            yield _freshness(tx, found.table, stale)


def _freshness(tx: ReadTransaction, table: str, why: Mapping[date, str]) -> Freshness:
    accepted = {day: claim.version for day, claim in tx.versions.claims(table).items()}
    stale = {day: said for day, said in why.items() if day in accepted}
    seen = [[str(day), version, stale.get(day, "")] for day, version in sorted(accepted.items())]
    return Freshness(table=table, accepted=tuple(sorted(accepted)), stale=stale, mark=document_digest(seen))


def reasons_of(ws: Workspace, tx: ReadTransaction, table: str, partition: date) -> tuple[Reason, ...]:
    """Why the present rows of a partition are stale; empty where they are not, or that cannot be found out."""
    grain = ws.domain.table(table).partition.grain
    try:
        (found,) = stale_within(ws, tx, table=table, days=days_of(grain, partition))
    except BackfillError:
        # A reference that cannot be read, or a day behind today: `status` names that.
        return ()
    return found.reasons.get(partition, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleDocument:
    """The stale partitions."""

    is_stale: bool  #: True if anything is.
    tables: tuple[Staleness, ...]  #: Inputs before dependents.
    #: The keys of sources that are not known: what readers see of them may be older than what their source has, and
    #: nothing is stale for that.
    not_known: tuple[NotKnownDocument, ...] = ()
    #: Landed files that were read by an earlier declaration; nothing is stale for that until they are read anew.
    read_before: tuple[ReadBefore, ...] = ()
    #: Accepted rows that were not measured with gates that were added or changed since; nothing is stale for that
    #: either.
    not_measured: tuple[NotMeasured, ...] = ()
    #: What builds it again; a source is loaded range by range. At last, what measures rows.
    next_steps: tuple[Invocation, ...]


def stale_document(
    found: Sequence[Staleness],
    *,
    table: str | None,
    days: Days | None,
    sources: Sequence[str],
    kept: Collection[str] = (),
    unknown: Sequence[NotKnownDocument] = (),
    read_before: Sequence[ReadBefore] = (),
    not_measured: Sequence[NotMeasured] = (),
) -> StaleDocument:
    """The stale partitions, and what builds them again.

    Args:
        table: The table that was asked for; None for all.
        sources: The names of source tables, which are loaded and not planned.
        kept: The names of tables of which a plan of what is stale replaces no accepted partition.
        unknown: The keys that are not known.
        read_before: Files that were read by an earlier declaration.
        not_measured: Accepted rows that were not measured with every present gate.
    """
    stale = [staleness for staleness in found if staleness.ranges]
    derived = [staleness for staleness in stale if staleness.table not in sources]
    # What reads files anew builds their days.
    anew = {each.source for each in read_before}
    loaded = (each for each in stale if each.table in sources and each.table not in anew)
    sources_first = (asked for each in loaded for asked in loads(each.table, each.partitions))
    return StaleDocument(
        is_stale=bool(stale),
        tables=tuple(found),
        not_known=tuple(unknown),
        read_before=tuple(read_before),
        not_measured=tuple(not_measured),
        next_steps=(
            *(each.again for each in read_before),
            *sources_first,
            *_plans(derived, table, days, kept),
            *(each.check for each in not_measured),
        ),
    )


def _plans(
    stale: Sequence[Staleness], table: str | None, days: Days | None, kept: Collection[str]
) -> Iterator[Invocation]:
    """The plans that would rebuild what is stale; what was never built is planned by its days."""
    found_causes = [
        (found.table, {reason.cause for reason in each.reasons} - {Cause.DIFFERENCE_ACCEPTED})
        for found in stale
        for each in found.ranges
        if not set(each.partitions) <= {*found.blocked, *found.on_purpose}
    ]
    causes = [some for name, some in found_causes if name not in kept or some == {Cause.NEVER_BUILT}]
    changed = [some for some in causes if some != {Cause.NEVER_BUILT}]
    # Changed code alone is an error to be confirmed, so building it again has to be asked for.
    only_code = bool(changed) and all(some == {Cause.CODE_CHANGED} for some in changed)
    if causes and (changed or days is not None):
        # A person who names days gets all of them, or asks for a part.
        partial = days is not None and any(found.waiting or found.blocked for found in stale)
        yield plan_stale(table, days, changed_code=only_code, partial=partial)
    if days is None:
        yield from (plan_stale(found.table, gap) for found in stale for gap in _gaps(found))
    for found in stale:
        yield from as_recorded(found.table, found.grain, found.on_purpose)


def _gaps(found: Staleness) -> Iterable[DayRange]:
    """The days from the first to the last partition that was never built; none when there is none."""
    gaps = [p for each in found.ranges for p in each.partitions if each.reasons[0].cause is Cause.NEVER_BUILT]
    return [DayRange.inclusive(gaps[0], gaps[-1])] if gaps else []


# Pages on staleness: what is stale and why, and what would have to be restated to follow the declaration.

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
    from backfill_assets.report.upkeep import after_check

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

"""Work that waits: for the end of a freeze, or for keys whose last version is not known since records were rejected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import TYPE_CHECKING

from backfill_assets.calendar.partitions import Partitions, count_of
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.grouped import grouped
from backfill_assets.core.next_steps import NAME, WHY, Command, Invocation, NextStep, do, step
from backfill_assets.domain import SourceTable
from backfill_assets.domain.operations import UnknownKeys
from backfill_assets.landing.days import rejected_of
from backfill_assets.landing.imports import NotKnown, not_known
from backfill_assets.ledger.freezes import Freeze
from backfill_assets.ledger.imports import ImportRecord
from backfill_assets.ledger.states import UNPUBLISHED
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest import Manifest
from backfill_assets.report.documents import INLINE
from backfill_assets.report.page import Items, Section, section
from backfill_assets.requests.errors import ComesAfter, Frozen, KeysNotKnown, ReadBeforeKnown
from backfill_assets.workspace import Workspace

if TYPE_CHECKING:
    from backfill_assets.lake.row_values import Texts


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedRecords:
    """Records that were rejected, of files that have other records of some days: days that may lack them.

    Of which day a rejected record would be is not known, nor whether a later file has brought it again.
    """

    source: str  #: The source table.
    is_of_empty: bool = False  #: True if no file has other records of the days: a person declared them empty.
    imports: tuple[str, ...]  #: The files, in the order of arrival.
    landed: int  #: How many records they have.
    rejected: int  #: How many of these are in quarantine.
    look: Invocation  #: What shows some of them, with the reasons.


def rejected_behind(ws: Workspace, tx: ReadTransaction, runs: Sequence[Manifest]) -> tuple[RejectedRecords, ...]:
    """The rejected records of files behind the source days that runs build or read, if they had landed when the runs
    were planned."""
    days = grouped(each for run in runs for each in built_and_read(run))
    until = max(run.requested_at for run in runs)
    found = (
        _of_source(tx, source, set(days[source.name]), until) for source in ws.domain.sources if source.name in days
    )
    return (*(each for each in found if each.rejected), *_of_days_declared_empty(ws, tx, runs))


def _of_days_declared_empty(ws: Workspace, tx: ReadTransaction, runs: Sequence[Manifest]) -> Iterator[RejectedRecords]:
    for run in runs:
        if not (empty := run.change.declared_empty):
            continue
        source = ws.domain.source_table(run.table)
        if some := rejected_of(tx, source, empty):
            yield RejectedRecords(
                source=source.name,
                is_of_empty=True,
                imports=tuple(each.import_id for each in some),
                landed=sum(each.records for each in some),
                rejected=sum(each.of_days + each.of_no_day for each in some),
                look=do(
                    Command.LOCATE,
                    source.short_name,
                    first=min(empty),
                    last=max(empty),
                ),
            )


def built_and_read(run: Manifest) -> Iterator[tuple[str, date]]:
    """The days that a run builds or reads, by table."""
    for partition in run.partitions:
        yield run.table, partition
    for pinned in run.inputs:
        for each in pinned.partitions:
            yield pinned.table, each.partition


def _of_source(tx: ReadTransaction, source: SourceTable, days: AbstractSet[date], until: datetime) -> RejectedRecords:
    rejecting = {each.import_id: each for each in tx.imports.rejecting(source.name)}
    with_events = {each.import_id for each in tx.imports.days(rejecting, days=days) if each.events} if rejecting else ()
    found = [
        each
        for each in rejecting.values()
        if each.import_id in with_events and each.landed_at and each.landed_at <= until
    ]
    return RejectedRecords(
        source=source.name,
        imports=tuple(each.import_id for each in found),
        landed=sum(each.counts.landed for each in found),
        rejected=sum(each.counts.rejected for each in found),
        look=do(Command.LOCATE, source.short_name, first=min(days), last=max(days)),
    )


def some_rejected(
    ws: Workspace, table: SourceTable, record: ImportRecord
) -> tuple[tuple[Texts, ...], Mapping[str, int]]:
    """Some of the rejected records of a file, their numbers in it and the reasons, and how many have each reason."""
    if not record.counts.rejected:
        return (), {}
    # Imported where there are some: rows are read by Arrow.
    from backfill_assets.lake.row_values import few_by_reason

    shown = ("row_number", "reason")
    some, reasons = few_by_reason(ws.lake, table.quarantine, shown, where=("import_id", record.import_id))
    return tuple(some), reasons


def rejected_line(found: RejectedRecords) -> NextStep:
    """A line on the number of rejected records, their files, and the command that shows them."""
    first, more = found.imports[0], len(found.imports) - 1
    files = f"{first} and {count_of(more, 'more file')}" if more else first
    if found.is_of_empty:
        many = count_of(found.rejected, "rejected record")
        said = f"{many} of {files} may be of days that are declared empty in {found.source}"
        return step(f"{said}: of which day they are is not known. To see why: ", found.look)
    said = f"{found.rejected:,} of {count_of(found.landed, 'record')} of {files}, which {'have' if more else 'has'} "
    return step(f"{said}events of these days of {found.source}. To see why: ", found.look)


# Documents of keys that are not known: whose last version is not what their source has now.

_WHAT_THEN = {
    UnknownKeys.BLOCK: "what is computed from these days is not published until they are known",
    UnknownKeys.KEEP: "readers see the last accepted versions, as declared",
    UnknownKeys.DROP: "readers see none of them, as declared",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NotKnownDocument:
    """Keys that are not known."""

    found: NotKnown = field(metadata=INLINE)  #: Of which source, how many, and where.
    #: What names some of them, with the reasons; null where only records without a key were rejected.
    look: Invocation | None


def not_known_document(found: NotKnown) -> NotKnownDocument:
    """The keys, and what names them."""
    days, source = found.days.days, found.source.partition(".")[2]
    look = do(Command.LOCATE, source, first=days[0], last=days[-1]) if days else None
    return NotKnownDocument(found=found, look=look)


def not_known_of(tx: ReadTransaction, sources: Sequence[SourceTable]) -> tuple[NotKnownDocument, ...]:
    """The keys of some sources that are not known now."""
    return tuple(not_known_document(found) for source in sources if (found := not_known(tx, source)))


def not_known_behind(ws: Workspace, tx: ReadTransaction, runs: Sequence[Manifest]) -> tuple[NotKnownDocument, ...]:
    """The keys that are not known now, of the source days that runs build or read."""
    days = grouped(each for run in runs for each in built_and_read(run))
    sources = [source for source in ws.domain.sources if source.name in days]
    found = (not_known(tx, source, set(days[source.name])) for source in sources)
    return tuple(not_known_document(each) for each in found if each)


def not_known_words(found: NotKnown) -> str:
    """The number of keys that are not known, since which files, and what that means for readers."""
    said = [_keys(found)] if found.keys else []
    if found.keyless:
        have = "has" if found.keyless == 1 else "have"
        records = f"{count_of(found.keyless, 'rejected record')} of {found.source}"
        said.append(f"{records} {have} no key that can be read, so that any key may be meant")
    return "; ".join(said)


def waits_to_know(found: NotKnown) -> str:
    """The note that a run waits until keys are known."""
    are = "is" if found.keys == 1 else "are"
    return f"{count_of(found.keys, 'key')} of {found.source} ({found.days}) that it reads {are} not known"


def _keys(found: NotKnown) -> str:
    first, more = found.imports[0], len(found.imports) - 1
    since = f"{first} and {count_of(more, 'more file')}" if more else first
    many = f"{count_of(found.keys, 'key')} of {found.source} ({found.days})"
    are = "is" if found.keys == 1 else "are"
    then = _WHAT_THEN[UnknownKeys(found.policy)]
    return f"{many} {are} not known since {since}, of which newer records were rejected: {then}"


def not_known_line(document: NotKnownDocument) -> NextStep:
    """A line on keys that are not known, with the command that names them."""
    said = not_known_words(document.found)
    return step(f"{said}. To see which: ", document.look) if document.look else step(said)


def rejected_section(found: Sequence[RejectedRecords]) -> Section | None:
    """The section on rejected records that are missing from the source days which a run builds or reads."""
    return section("Rejected records of the files behind these days", Items(items=tuple(map(rejected_line, found))))


def not_known_section(found: Sequence[NotKnownDocument]) -> Section | None:
    """The keys that are not known."""
    return section("Keys that are not known", Items(items=tuple(map(not_known_line, found))))


@dataclass(frozen=True, slots=True, kw_only=True)
class FreezeDocument:
    """Partitions over which runs wait."""

    freeze: Freeze = field(metadata=INLINE)  #: Which ones, until when, and why.
    partitions: Partitions  #: The frozen partitions.
    waits: tuple[str, ...]  #: The runs that are planned and wait for its end.
    end: Invocation  #: What ends it earlier.


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfrozen:
    """A freeze that a person has ended."""

    freeze: Freeze  #: What was frozen.
    ended_by: str  #: Who ended it.
    why: str  #: Why.
    #: What builds what has waited for it, or the freeze that still keeps some of it; null when nothing has.
    next_step: NextStep | None


def freeze_document(tx: ReadTransaction, freeze: Freeze) -> FreezeDocument:
    """A freeze, and the runs that wait for it."""
    partitions = freeze.partitions
    runs = tx.runs.records(table=freeze.table, states=UNPUBLISHED, over=tuple(partitions), unreadable=lambda *_: None)
    return FreezeDocument(
        freeze=freeze,
        partitions=partitions,
        waits=tuple(run.run_id for run in runs if freeze.stops(run.manifest)),
        end=do(Command.UNFREEZE, freeze.freeze_id, by=NAME, reason=WHY),
    )


def freezes(tx: ReadTransaction) -> tuple[FreezeDocument, ...]:
    """The freezes that hold now, the first to end first."""
    return tuple(freeze_document(tx, each) for each in tx.freezes.standing(at=tx.now))


def freezes_over(tx: ReadTransaction, manifests: Iterable[Manifest]) -> tuple[FreezeDocument, ...]:
    """Those over partitions of these runs, whether the runs wait for them or not."""
    own = tuple(manifests)
    return tuple(
        found
        for found in freezes(tx)
        if any(each.table == found.freeze.table and found.freeze.keeps(each.partitions) for each in own)
    )


def frozen_words(freeze: Freeze) -> str:
    """One line about a freeze: what waits, for how long and why."""
    waits = f"everything but {freeze.only} waits" if freeze.only else "LIVE runs, loads and follow-ups wait"
    return (
        f"{freeze.table} {freeze.partitions} is frozen until {freeze.until:%Y-%m-%d %H:%M} UTC by {freeze.by} "
        f"({freeze.reason}): {waits}"
    )


def waits_for_words(error: BackfillError) -> str:
    """For what a run waits: a freeze, keys that are not known, to be planned again, or another run."""
    match error:
        case Frozen():
            return frozen_words(error.freeze)
        case KeysNotKnown():
            return waits_to_know(error.found)
        case ReadBeforeKnown():
            return error.known.words
        case ComesAfter():
            return f"{error.first} has priority and is {error.state}"
        case _:
            return error.message


def frozen_line(frozen: FreezeDocument) -> NextStep:
    """A line on a freeze, with the runs that wait, and what ends it."""
    planned = f": {', '.join(frozen.waits)}" if frozen.waits else ""
    return step(f"{frozen_words(frozen.freeze)}{planned}. To end it: ", frozen.end)

"""Documents of rejected records: of the files that have events of the days that a run reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING

from backfill_assets.core.grouped import grouped
from backfill_assets.domain import SourceTable
from backfill_assets.ledger.imports import ImportRecord
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.partitions import count_of
from backfill_assets.report.requests import Act, Invocation, NextStep, do, step
from backfill_assets.workspace import Workspace

if TYPE_CHECKING:
    from backfill_assets.lake.row_values import Texts


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedRecords:
    """Records that were rejected, of files that have other records of some days: days that may lack them.

    Of which day a rejected record would be is not known, nor whether a later file has brought it again.

    Attributes:
        source: The source table.
        imports: The files, in the order of arrival.
        landed: How many records they have.
        rejected: How many of these are in quarantine.
        look: What shows some of them, with the reasons.
    """

    source: str
    imports: tuple[str, ...]
    landed: int
    rejected: int
    look: Invocation


def rejected_behind(ws: Workspace, tx: ReadTransaction, runs: Sequence[Manifest]) -> tuple[RejectedRecords, ...]:
    """What was rejected of the files behind the source days that runs build or read, if it had landed when they were
    planned."""
    days = grouped(each for run in runs for each in built_and_read(run))
    until = max(run.requested_at for run in runs)
    found = (
        _of_source(tx, source, set(days[source.name]), until) for source in ws.domain.sources if source.name in days
    )
    return tuple(each for each in found if each.rejected)


def built_and_read(run: Manifest) -> Iterator[tuple[str, date]]:
    """The days that a run builds or reads, by table."""
    for partition in run.partitions:
        yield run.table, partition
    for pinned in run.inputs:
        for each in pinned.partitions:
            yield pinned.table, each.partition


def _of_source(tx: ReadTransaction, source: SourceTable, days: AbstractSet[date], until: datetime) -> RejectedRecords:
    found = [each for each in tx.imports.with_rejected(source.name, days) if each.landed_at and each.landed_at <= until]
    return RejectedRecords(
        source=source.name,
        imports=tuple(each.import_id for each in found),
        landed=sum(each.counts.landed for each in found),
        rejected=sum(each.counts.rejected for each in found),
        look=do(Act.LOCATE, source.short_name, first=min(days), last=max(days)),
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
    """How many records of which files, and what shows them."""
    first, more = found.imports[0], len(found.imports) - 1
    files = f"{first} and {count_of(more, 'more file')}" if more else first
    said = f"{found.rejected:,} of {count_of(found.landed, 'record')} of {files}, which {'have' if more else 'has'} "
    return step(f"{said}events of these days of {found.source}. To see why: ", found.look)

"""Which published partitions no longer follow from what is there now?

Brings together what the ledger, the declarations and the reference archive know, and leaves the judgement to planning.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import date
from functools import partial

from backfill_assets.domain import DayRange, DerivedTable, SourceTable
from backfill_assets.landing.bronze import LOAD, LOAD_VERSION, contract_of, pending_days
from backfill_assets.landing.conformed import LIVE
from backfill_assets.landing.land import OnDuplicate
from backfill_assets.ledger.read_staleness import Resting
from backfill_assets.ledger.store import LedgerReader
from backfill_assets.planning.request import configuration_of
from backfill_assets.planning.staleness import Basis, Earlier, Present, Staleness, find_stale
from backfill_assets.transforms.reference_changes import narrowing
from backfill_assets.workspace import Workspace


def stale_tables(ws: Workspace, *, table: str | None = None, days: DayRange | None = None) -> tuple[Staleness, ...]:
    """What is stale, table by table, inputs before dependents.

    Args:
        ws: The workspace.
        table: Only this table; None for all.
        days: Only these days, and then what could be built of them and never was; None for everything accepted and the
            gaps between the first and the last accepted partition.

    Raises:
        UnknownName: There is no such table.
        InvalidRange: The range leaves the days that tables can have.
        MissingInput: A reference file is not there.
    """
    chosen = list(ws.domain.tables.values()) if table is None else [ws.domain.table(table)]
    today = ws.clock().date()
    found: list[Staleness] = []
    with ws.ledger.read() as reader:
        names = [declared.name for declared in chosen]
        inputs = [edge.table for name in names for edge in ws.graph.table(name).inputs]
        known = reader.resting(names, inputs=inputs)
        for declared in chosen:
            resting: Iterable[Basis] = known.bases[declared.name]
            earlier: Earlier = partial(known.earlier, declared.name)
            match declared:
                case SourceTable():
                    present = _present_source(ws, reader, declared)
                    as_read = _without_reprocessed(reader, declared)
                    resting = map(as_read, resting)
                    earlier = partial(_earlier_source, known, declared.name, as_read)
                case DerivedTable():
                    present = _present(ws, declared, known.digests)
            asked = None if days is None else ws.graph.partitions_in(declared.name, days, as_of=today)
            node = ws.graph.table(declared.name)
            found.append(find_stale(node, ws.graph, resting, present, asked=asked, earlier=earlier))
    return tuple(found)


def _present(ws: Workspace, table: DerivedTable, digests: Mapping[str, Mapping[date, str]]) -> Present:
    return Present(
        transform=table.transform,
        transform_version=table.version,
        code_digest=ws.code_digest,
        configuration=configuration_of(ws.graph.table(table.name)),
        references=tuple(ws.references[name].pinned for name in table.references),
        digests=digests,
        narrow=narrowing(ws.domain, table, ws.references, ws.reference_archive),
    )


def _present_source(ws: Workspace, reader: LedgerReader, table: SourceTable) -> Present:
    files: dict[date, set[str]] = {day: set() for day in pending_days(reader, table)}
    for day in reader.import_days(source=table.name, states=LIVE):
        files.setdefault(day.event_date, set()).add(day.import_id)
    return Present(
        transform=LOAD,
        transform_version=LOAD_VERSION,
        code_digest=ws.code_digest,
        configuration=contract_of(table),
        landed={day: frozenset(of_day) for day, of_day in files.items()},
    )


def _without_reprocessed(reader: LedgerReader, table: SourceTable) -> Callable[[Basis], Basis]:
    """A basis without files that were landed again after the run was planned: it read what they held before."""
    records = reader.imports(table.name, LIVE)
    again = [(r.import_id, r.landed_at) for r in records if r.on_duplicate == OnDuplicate.REPROCESS and r.landed_at]

    def as_read(basis: Basis) -> Basis:
        later = {import_id for import_id, landed_at in again if landed_at > basis.requested_at}
        return replace(basis, imports=basis.imports - later)

    return as_read


def _earlier_source(
    known: Resting, table: str, as_read: Callable[[Basis], Basis], partitions: Collection[date]
) -> Iterator[Basis]:
    return map(as_read, known.earlier(table, partitions))

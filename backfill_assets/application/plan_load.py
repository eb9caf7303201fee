"""Plan of a load: a source table is built from landed files, and from days that the requester declares empty."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from datetime import date

from backfill_assets.application.repair import lost_versions
from backfill_assets.application.terms import load_terms
from backfill_assets.calendar.partitions import DayRange, Grain, Partitions
from backfill_assets.core.columns import ColumnChange
from backfill_assets.core.people import require_person
from backfill_assets.domain import SourceTable
from backfill_assets.landing.days import days_filled_before, pending_days, require_explained, unexplained_days
from backfill_assets.landing.imports import imports_for_days
from backfill_assets.ledger.records import RunRecord
from backfill_assets.ledger.states import EVER_VISIBLE
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.graph import TableNode
from backfill_assets.planning.kinds.load import Load
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import A_PERSON, WHAT_LANDED, Mode, RunPurpose
from backfill_assets.planning.request import PlanRequest, manifest_of, superseded
from backfill_assets.requests.errors import Frozen
from backfill_assets.transforms.schemas import business_schema, changes_for_readers, former_columns_of
from backfill_assets.workspace import Workspace


def plan_load(
    ws: Workspace,
    source: str,
    *,
    partitions: tuple[date, ...] | None,
    by: str,
    reason: str,
    empty: Collection[date] = (),
    on_schedule: bool = False,
) -> RunRecord | None:
    """Plans the building of a source table's partitions from the landed files that hold events of them.

    Args:
        partitions: The days to build, in order; None for every day that a landed file touches and bronze lacks.
        empty: The days on which nothing happened, as the requester states; the manifest pins them.
        on_schedule: It is asked for by the LIVE path, and by no person.

    Returns:
        The planned run; None when there is nothing to load.
    """
    table = ws.domain.source_table(source)
    if not on_schedule:
        require_person("the requester", by)
    if partitions is None and not _is_pending(ws, table):
        return None
    columns, former = _changed_columns(ws, table), former_columns_of(ws.lake, table)
    is_repair = partitions is not None and _are_lost(ws, table, partitions)
    with ws.ledger.write() as tx:
        days = pending_days(tx, table).days if partitions is None else partitions
        if frozen := tx.freezes.over(table.name, days, at=tx.now):
            kept, freeze = Partitions.of(Grain.DAILY, frozen), max(frozen.values(), key=lambda each: each.until)
            if partitions is not None or former:
                raise Frozen(freeze=freeze, partitions=kept)
            # What has landed for them stays pending, and is built when the freeze has ended.
            days = tuple(_unread(tx, table, [day for day in days if day not in frozen]))
            reason = f"{reason}, without {kept}: frozen until {freeze.until:%Y-%m-%d %H:%M} UTC"
        if not days:
            return None
        if former:
            former.require_replaced(days)
        if partitions is not None:
            require_explained(tx, table, days, frozenset(empty))
        imports = tuple(each.import_id for each in imports_for_days(tx, table, days))
        change = Load(imports=imports, declared_empty=tuple(sorted(empty)))
        loading = _load_manifest(ws, table, tuple(days), change, by=by, reason=reason, is_repair=is_repair)
        replaced = superseded(tx.versions.claims(table.name, loading.partitions).values())
        manifest = replace(loading, supersedes=replaced, columns=columns)
        return tx.runs.add(manifest, actor=by)


def _is_pending(ws: Workspace, table: SourceTable) -> bool:
    with ws.ledger.read() as tx:
        return bool(pending_days(tx, table).days)


def _are_lost(ws: Workspace, table: SourceTable, days: Collection[date]) -> bool:
    """True if files of accepted days are lost, so that a request for these days is a repair."""
    with ws.ledger.read() as tx:
        accepted = tx.versions.accepted(table.name, days)
    return bool(lost_versions(ws, table, accepted))


def _changed_columns(ws: Workspace, table: SourceTable) -> tuple[ColumnChange, ...]:
    """The changes of the columns that readers of a source see with its next load.

    Its Delta table keeps the columns of earlier contracts, so the contract of the latest load says which it had.
    """
    with ws.ledger.read() as tx:
        last = tx.publications.last_landed(table.name)
        built = None if last is None else tx.runs.get(last.run_id).manifest.configuration
    version = None if built is None else ws.contracts[table.name].version_built(built)
    held = business_schema(table.at(version or table.contract_version)).fieldNames()
    return changes_for_readers(ws.lake, table, held=held)


def _unread(tx: ReadTransaction, table: SourceTable, days: Collection[date]) -> Iterator[date]:
    """Those of these days for which something has landed that no published load has read.

    A file is pending until all of its days are built, and some of them are frozen: the others would be built again at
    every tick.
    """
    built = tx.runs.records(table=table.name, states=EVER_VISIBLE, over=tuple(days))
    for day in days:
        landed = {each.import_id for each in imports_for_days(tx, table, [day])}
        if not any(day in run.manifest.partitions and landed <= set(run.manifest.change.imports) for run in built):
            yield day


def days_without_events(ws: Workspace, source: str, days: Iterable[date]) -> tuple[date, ...]:
    """Those of these days of a source that would be empty, or are, although no file or person states that they are."""
    asked, table = tuple(days), ws.domain.source_table(source)
    with ws.ledger.read() as tx:
        silent = {*unexplained_days(tx, table, asked), *days_filled_before(tx, table)}
    return tuple(day for day in asked if day in silent)


def _load_manifest(
    ws: Workspace,
    table: SourceTable,
    days: tuple[date, ...],
    change: Load,
    *,
    by: str,
    reason: str,
    is_repair: bool,
) -> Manifest:
    span = DayRange(min(days), max(days))
    request = PlanRequest(table=table.name, days=span, reason=reason, by=by, mode=Mode.LIVE)
    node = TableNode(name=table.name, grain=Grain.DAILY, change=change)
    kind = RunPurpose.REPAIR if is_repair else RunPurpose.LIVE
    manifest = manifest_of(request, node, load_terms(ws, table), tuple(sorted(days)), kind, ws.now())
    return replace(
        manifest,
        cause=A_PERSON if is_repair else WHAT_LANDED,
        configuration=ws.contracts[table.name].configuration(),
    )

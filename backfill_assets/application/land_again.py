"""Landing again: landed files are read anew from their stored bytes, as their source is declared now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from backfill_assets.application.land import landed_report, landing
from backfill_assets.application.recorder import Acting
from backfill_assets.capture.landed_files import landing_files
from backfill_assets.core.grouped import grouped
from backfill_assets.core.progress import Progress
from backfill_assets.domain import SourceTable
from backfill_assets.landing.decoding.kept import reading
from backfill_assets.landing.errors import NotAFileOf
from backfill_assets.landing.imports import STATEMENT, read_otherwise
from backfill_assets.landing.land import Landed
from backfill_assets.landing.land import land_again as land_in_place
from backfill_assets.landing.raw_records import RawRecords
from backfill_assets.ledger.imports import ImportRecord
from backfill_assets.planning.partitions import Grain, Partitions
from backfill_assets.report.landed import AgainPreview, LandReport, ReadAgain
from backfill_assets.report.requests import Option, step
from backfill_assets.workspace import Workspace


def land_again(ws: Workspace, source: str, import_ids: Sequence[str], acting: Acting, *, builds: bool) -> LandReport:
    """Reads landed files anew, counts them in their place, and builds the days that they touch or have touched.

    Args:
        import_ids: The files; none for those that were read by another declaration.
        builds: Whether the bronze days are built.
    """
    table = ws.domain.source_table(source)
    chosen = _chosen(ws, table, import_ids)
    if builds:
        ws.references  # noqa: B018 - read now, because building bronze through Dagster needs every asset's window
    landed: list[Landed] = []

    def report(outcome: Landed) -> None:
        landed.append(outcome)
        line = f"{outcome.record.name} ({outcome.record.import_id}), read anew"
        acting.listener(Progress(step="land", done=len(landed), total=len(chosen), line=line))

    if chosen:
        land_in_place(landing(ws, table, acting.by), chosen, report)
    return landed_report(ws, table, landed, acting, builds=builds)


def preview_again(ws: Workspace, source: str, import_ids: Sequence[str]) -> AgainPreview:
    """What `land_again` would read; nothing is kept of it."""
    table = ws.domain.source_table(source)
    chosen = _chosen(ws, table, import_ids)
    with ws.ledger.read() as tx:
        days = grouped((each.import_id, each.event_date) for each in tx.imports.days([r.import_id for r in chosen]))
    now = _judged_now(ws, table, chosen)
    found = tuple(
        ReadAgain(
            import_id=each.import_id,
            name=each.name,
            landed=each.counts.landed,
            rejected=each.counts.rejected,
            landed_now=now.get(each.import_id, (0, 0))[0],
            rejected_now=now.get(each.import_id, (0, 0))[1],
            days=Partitions.of(Grain.DAILY, days.get(each.import_id, ())),
        )
        for each in chosen
    )
    steps = (step("to land them again, leave out ", Option("dry_run")),) if found else ()
    return AgainPreview(source=table.name, imports=found, next_steps=steps)


def _judged_now(ws: Workspace, table: SourceTable, imports: Sequence[ImportRecord]) -> Mapping[str, tuple[int, int]]:
    """How many records each file has as its source is declared now, and how many of these would be rejected."""
    if not imports:
        return {}
    files, now = landing(ws, table, "nobody", on_schedule=True), ws.clock()
    # Landed again they are judged anew: what was in the future then may have happened.
    imports = [replace(each, judged_at=now) for each in imports]
    with reading(files.place, begun_at=now) as owner:
        raw = RawRecords(
            spark=ws.spark(), landing=landing_files(ws.settings), source=table, settings=ws.settings, owner=owner
        )
        return raw.counted(imports)


def _chosen(ws: Workspace, table: SourceTable, import_ids: Sequence[str]) -> tuple[ImportRecord, ...]:
    """The files that are read anew, in the order of arrival.

    Raises:
        UnknownName: There is no such import.
        Refused: It is no landed file of the source.
    """
    with ws.ledger.read() as tx:
        if not import_ids:
            return read_otherwise(tx, table)
        chosen = {each: tx.imports.get(each) for each in import_ids}
    for import_id, record in chosen.items():
        if record.source != table.name or record.format == STATEMENT or record.landed_at is None:
            raise NotAFileOf(import_id=import_id, table=table.name)
    return tuple(sorted(chosen.values(), key=lambda each: each.arrival))

"""Landing again: landed files are read anew from their stored bytes, as their source is declared now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count, islice

from backfill_assets.application.land import landed_report, landing
from backfill_assets.application.recorder import Acting
from backfill_assets.calendar.partitions import Grain, Partitions
from backfill_assets.capture.landed_files import STATEMENT, landing_files
from backfill_assets.core.errors import Refused
from backfill_assets.core.grouped import grouped
from backfill_assets.core.next_steps import Option, step
from backfill_assets.core.progress import Progress
from backfill_assets.domain import SourceTable
from backfill_assets.landing.bronze import Counted, RawRecords
from backfill_assets.landing.conformed import with_other_columns
from backfill_assets.landing.days import pending_days
from backfill_assets.landing.decoding.decode import reading
from backfill_assets.landing.imports import landed_files_of, read_otherwise
from backfill_assets.landing.land import land_again as read_anew
from backfill_assets.ledger.imports import ImportRecord
from backfill_assets.report.landed import AgainPreview, LandReport, ReadAgain, extracts_read_anew
from backfill_assets.transforms.schemas import former_columns_of
from backfill_assets.workspace import Workspace


def land_again(ws: Workspace, source: str, import_ids: Sequence[str], acting: Acting, *, builds: bool) -> LandReport:
    """Reads landed files anew, counts them in their place, and builds the days that they touch or have touched.

    Args:
        import_ids: The files; none for those that were read by another declaration, which are read with them where
            columns are declared otherwise.
        builds: Whether the bronze days are built.
    """
    table = ws.domain.source_table(source)
    chosen, is_whole = _chosen(ws, table, import_ids)
    if builds:
        ws.references  # noqa: B018 - read now, because building bronze through Dagster needs every asset's window
    read = count(1)

    def report(record: ImportRecord) -> None:
        line = f"{record.name} ({record.import_id}), read anew"
        acting.listener(Progress(step="land", done=next(read), total=len(chosen), line=line))

    work = landing(ws, table, acting.by, is_corrected=True)
    landed = read_anew(work, chosen, report, is_whole=is_whole) if chosen else []
    found = landed_report(ws, table, landed, acting, builds=builds)
    further = tuple(extracts_read_anew(ws, table, [each.record.import_id for each in landed]))
    if not chosen:
        further = (step("no file was read anew: every one was read as its source is declared now"),)
    return replace(found, next_steps=(*found.next_steps, *further))


def preview_again(ws: Workspace, source: str, import_ids: Sequence[str]) -> AgainPreview:
    """Previews what `land_again` would read; keeps nothing."""
    table = ws.domain.source_table(source)
    chosen, _ = _chosen(ws, table, import_ids)
    with ws.ledger.read() as tx:
        days = grouped((each.import_id, each.event_date) for each in tx.imports.days([r.import_id for r in chosen]))
    now = _judged_now(ws, table, chosen)
    found = tuple(
        ReadAgain(
            import_id=each.import_id,
            name=each.name,
            landed=each.counts.landed,
            rejected=each.counts.rejected,
            landed_now=now[each.import_id].landed,
            rejected_now=now[each.import_id].rejected,
            days=Partitions.of(Grain.DAILY, {*days.get(each.import_id, ()), *now[each.import_id].days}),
        )
        for each in chosen
    )
    steps = (step("to land them again, leave out ", Option("dry_run")),) if found else ()
    return AgainPreview(source=table.name, imports=found, next_steps=steps)


_AT_ONCE = 20
"""So many files are in one plan of a preview, and of so many the decoded ones are there at the same time."""


def _judged_now(ws: Workspace, table: SourceTable, imports: Sequence[ImportRecord]) -> Mapping[str, Counted]:
    """Each file as judged by the present declaration of its source."""
    files, now = landing(ws, table, "nobody", on_schedule=True, is_corrected=True), ws.clock()
    # Landed again they are judged anew: what was in the future then may have happened.
    waiting = iter(replace(each, judged_at=now) for each in imports)
    found: dict[str, Counted] = {}
    while some := tuple(islice(waiting, _AT_ONCE)):
        with reading(files.place, begun_at=now) as owner:
            raw = RawRecords(
                spark=ws.spark(), landing=landing_files(ws.settings), source=table, settings=ws.settings, owner=owner
            )
            found |= raw.counted(some)
    return found


def _chosen(ws: Workspace, table: SourceTable, import_ids: Sequence[str]) -> tuple[tuple[ImportRecord, ...], bool]:
    """The files that are read anew, in the order of arrival, and whether none of them can stay as it is, because the
    columns are declared otherwise.

    Raises:
        UnknownName: There is no such import.
        Refused: It is no landed file of the source.
    """
    former = former_columns_of(ws.lake, table)
    with ws.ledger.read() as tx:
        every = landed_files_of(tx, table)
        pending = {day.isoformat() for day in pending_days(tx, table).days}
        before = {each.import_id for each in read_otherwise(tx, table)}
        chosen = {each: tx.imports.get(each) for each in import_ids}
    with_others = with_other_columns(landing_files(ws.settings), table, every)
    is_whole = former is not None or bool(with_others)
    for import_id, record in chosen.items():
        if record.source != table.name or record.format == STATEMENT or record.landed_at is None:
            raise Refused.coded(
                "not_a_file_of",
                "{import_id} is not a landed file of {table}, so there is nothing to read anew.",
                import_id=import_id,
                table=table.name,
            )
    if chosen and not is_whole:
        return tuple(sorted(chosen.values(), key=lambda each: each.arrival)), is_whole
    before |= {*chosen, *(each.import_id for each in with_others)}
    if former and not before and not former.partitions <= pending:
        return every, is_whole  # so that all days are built: a table has the columns of all its files
    return tuple(each for each in every if each.import_id in before), is_whole

"""Landing files, and building source tables from them."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from functools import cache
from pathlib import Path

from pyspark.sql import DataFrame

from backfill_assets.application.plan_load import days_without_events, plan_load
from backfill_assets.application.recorder import Acting
from backfill_assets.application.requests import compute
from backfill_assets.application.resolve_outcome import resolve_outcomes_at
from backfill_assets.calendar.partitions import DayRange, Days
from backfill_assets.capture.files.file_capture import FileCapture
from backfill_assets.core.errors import BackfillError, InvalidRange
from backfill_assets.core.next_steps import Command, NextStep, do, step
from backfill_assets.core.people import require_person
from backfill_assets.core.progress import Progress
from backfill_assets.domain import SourceTable
from backfill_assets.lake.append import replace_quarantined
from backfill_assets.landing.attempt import Landed, Landing, Quarantine, is_about_a_file, new_lease
from backfill_assets.landing.days import missing_days
from backfill_assets.landing.decoding.decode import formats
from backfill_assets.landing.errors import StoppedAmongFiles
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.landing.land import land_files as land_in_order
from backfill_assets.ledger.records import RunRecord
from backfill_assets.planning.errors import OutsideDays
from backfill_assets.report.landed import (
    LandReport,
    NothingToLoad,
    StatedExtract,
    corrections,
    days_filled,
    frozen_days,
    landed_import,
    questions,
)
from backfill_assets.report.report import RunReport
from backfill_assets.report.waiting import not_known_of
from backfill_assets.transforms.schemas import require_follows
from backfill_assets.workspace import Workspace


def land(ws: Workspace, source: str, file: Path | FileCapture, *, on_duplicate: OnDuplicate, by: str) -> Landed:
    """Lands one file: archived unchanged, checked, counted, with its rejected records quarantined."""
    landed: list[Landed] = []
    table = ws.domain.source_table(source)
    land_in_order(landing(ws, table, by), offered(table, [file]), on_duplicate, landed.append)
    return landed[0]


def offered(table: SourceTable, files: Sequence[Path | FileCapture]) -> list[FileCapture]:
    """Files that a person offers as records of a source."""
    of_source = formats(table)
    given = (each if isinstance(each, FileCapture) else FileCapture(each) for each in files)
    return [replace(each, formats=of_source) for each in given]


def landing(
    ws: Workspace, table: SourceTable, by: str, *, on_schedule: bool = False, is_corrected: bool = False
) -> Landing:
    """The context in which files, an extract or a statement are landed.

    Args:
        on_schedule: It is the LIVE path, and no person.
        is_corrected: Every landed file is read as the source is declared now, so that its table may have other columns.
    """
    if not on_schedule:
        require_person("the one who lands", by)
    ws.require_lake(table.name)
    if not is_corrected:
        require_follows(ws.lake, ws.ledger, table)
    return Landing(
        ledger=ws.ledger,
        open_session=cache(ws.spark),
        settings=ws.settings,
        source=table,
        by=by,
        quarantine=quarantine_of(ws, table),
        reached=ws.reached,
        lease=new_lease(ws.settings),
    )


def quarantine_of(ws: Workspace, table: SourceTable) -> Quarantine:
    """The function that writes rejected records of a source into its quarantine."""

    def quarantine(frame: DataFrame, import_id: str) -> None:
        replace_quarantined(
            ws.lake,
            table.quarantine,
            frame,
            import_id=import_id,
            attempt=secrets.token_hex(4),
            at_ms=int(ws.clock().timestamp() * 1000),
            partition_column="import_id",
        )

    return quarantine


def land_files(
    ws: Workspace, source: str, files: Sequence[Path | FileCapture], acting: Acting, *, on_duplicate: str, builds: bool
) -> LandReport:
    """Lands files in the given order, and builds the days that they touch.

    A refused file stops the rest; files that landed before it stay landed.

    Args:
        files: Each is checked before Spark is started, and before any of them lands.
        on_duplicate: How to treat content that was landed before.
        builds: Whether the bronze days they touch are built.
    """
    table = ws.domain.source_table(source)
    captures = offered(table, files)
    for capture in captures:
        capture.require()
    if builds:
        ws.references  # noqa: B018 - read now, because building bronze through Dagster needs every asset's window
    landed = _land_each(ws, table, captures, acting, OnDuplicate(on_duplicate))
    report = landed_report(ws, table, landed, acting, builds=builds)
    return replace(report, next_steps=(*report.next_steps, *corrections(report, table)))


def landed_report(
    ws: Workspace,
    table: SourceTable,
    landed: Sequence[Landed],
    acting: Acting,
    *,
    builds: bool,
    extract: StatedExtract | None = None,
) -> LandReport:
    """Builds the days that landed imports touch, if that is wanted, and reports on all of it."""
    next_steps: tuple[NextStep, ...] = ()
    built = without_events = None
    if builds:
        resolve_outcomes_at(ws, table.name, acting)
        next_steps = tuple(questions(ws, table))
        run = plan_load(ws, table.name, partitions=None, by=acting.by, reason=f"landed by {acting.by}")
        if run is not None:
            built = build(ws, run, acting)
            without_events = days_filled(ws, table, run)
            if built.is_blocked:
                next_steps = (*next_steps, step(do(Command.REPORT, run.run_id)))
        next_steps = (*next_steps, *frozen_days(ws, table))
    imports = tuple(landed_import(ws, table, outcome) for outcome in landed)
    with ws.ledger.read() as tx:
        unknown = not_known_of(tx, [table])
    return LandReport(
        source=table.name,
        has_dates=table.has_dates,
        imports=imports,
        extract=extract,
        quarantine=str(ws.lake.place(table.quarantine)),
        load=built,
        without_events=without_events,
        not_known=unknown[0] if unknown else None,
        mostly_rejected=tuple(each.record.import_id for each in imports if each.record.counts.are_mostly_rejected),
        next_steps=next_steps,
    )


def _land_each(
    ws: Workspace, table: SourceTable, captures: Sequence[FileCapture], acting: Acting, on_duplicate: OnDuplicate
) -> Sequence[Landed]:
    landed: list[Landed] = []

    def report(outcome: Landed) -> None:
        landed.append(outcome)
        name = captures[len(landed) - 1].name
        acting.listener(Progress(step="land", done=len(landed), total=len(captures), line=name))

    try:
        land_in_order(landing(ws, table, acting.by), captures, on_duplicate, report)
    except BackfillError as error:
        behind = captures[len(landed) + 1 :]
        not_tried = tuple(each.original or str(each.path) for each in behind) if is_about_a_file(error) else ()
        if not landed and not not_tried:
            raise
        raise StoppedAmongFiles(
            cause=error,
            source=table.short_name,
            landed=len(landed),
            not_tried=not_tried,
            on_duplicate=str(on_duplicate),
        ) from error
    return landed


def load(ws: Workspace, source: str, days: Days, acting: Acting, *, empty: bool, reason: str) -> RunReport:
    """Builds bronze days from what has landed; with `empty`, the person declares that the other days had no events.

    Raises:
        InvalidRange: Days that the table cannot have, or none.
    """
    table = ws.domain.source_table(source)
    known = DayRange(ws.settings.first_day, ws.clock().date())
    if days.start < known.start or days.last > known.end:
        raise OutsideDays(table=table.name, earliest=known.start, latest=known.end, days=days)
    return _load(ws, table, tuple(days), acting, empty=empty, reason=reason)


def load_missing(ws: Workspace, source: str, acting: Acting, *, empty: bool, reason: str) -> RunReport | NothingToLoad:
    """Builds the days between the first and the last event of a source that have no accepted version, and no other."""
    table = ws.domain.source_table(source)
    with ws.ledger.read() as tx:
        missing = missing_days(tx, table)
    if not missing:
        return NothingToLoad(source=table.name)
    return _load(ws, table, missing, acting, empty=empty, reason=reason)


def _load(
    ws: Workspace, table: SourceTable, partitions: tuple[date, ...], acting: Acting, *, empty: bool, reason: str
) -> RunReport:
    resolve_outcomes_at(ws, table.name, acting)
    silent = days_without_events(ws, table.name, partitions) if empty else ()
    run = plan_load(ws, table.name, partitions=partitions, by=acting.by, reason=reason, empty=silent)
    if run is None:
        raise InvalidRange(f"there are no days of {table.name} to build.")
    return build(ws, run, acting)


def build(ws: Workspace, run: RunRecord, acting: Acting) -> RunReport:
    """Stages, gates and publishes a planned load."""
    from backfill_assets.report.report import run_report

    compute(ws, run.run_id, acting)
    return run_report(ws, run.run_id)

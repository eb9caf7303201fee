"""Statements about landed records: complete extracts, withdrawals and restorations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from backfill_assets.application.land import landed_report, landing, offered
from backfill_assets.application.recorder import Acting
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.capture.files.file_capture import FileCapture
from backfill_assets.core.errors import Refused
from backfill_assets.core.next_steps import ANOTHER_PERSON, Option, step
from backfill_assets.core.people import require_person, same_name
from backfill_assets.domain import SourceTable
from backfill_assets.landing.extract import Extract, land_extract, preview
from backfill_assets.landing.statements import restore as restore_keys
from backfill_assets.landing.statements import withdraw as withdraw_key
from backfill_assets.report.landed import ExtractPreview, LandReport, StatedExtract
from backfill_assets.workspace import Workspace


def complete_extract(
    days: DayRange, *, where: Mapping[str, str], reason: str, confirmed_by: str | None = None
) -> Extract:
    """The statement about files: they are complete for some days, or for those of their rows with some values."""
    return Extract(days=days, where=where, reason=reason, confirmed_by=confirmed_by)


def land_as_extract(
    ws: Workspace, source: str, files: Sequence[Path | FileCapture], extract: Extract, acting: Acting, *, builds: bool
) -> LandReport:
    """Lands files that are everything there is for some days, withdraws what they lack, and builds the touched days.

    Either all files and the withdrawal land, or nothing does.

    Raises:
        Refused: More would be withdrawn than the source allows, and no other person has confirmed it.
    """
    table = ws.domain.source_table(source)
    require_another(table, extract.confirmed_by, acting)
    captures = offered(table, files)
    for capture in captures:
        capture.require()
    if builds:
        ws.references  # noqa: B018 - read now, because building bronze through Dagster needs every asset's window
    found = land_extract(landing(ws, table, acting.by), captures, extract)
    stated = StatedExtract(scope=extract.scope(table), withdrawn=found.withdrawn)
    return landed_report(ws, table, [*found.files, found.statement], acting, builds=builds, extract=stated)


def require_another(table: SourceTable, confirmed_by: str | None, acting: Acting) -> None:
    """Refuses a confirmation without a name, or by the person who lands."""
    if confirmed_by is not None:
        require_person("the one who confirms", confirmed_by)
        if same_name(confirmed_by, acting.by):
            raise Refused.coded(
                "not_confirmed",
                "{by} lands the extract, and another person has to confirm what it withdraws.",
                then="let another person confirm it: [confirmed_by=ANOTHER_PERSON]",
                source=table.name,
                by=acting.by,
            )


def preview_extract(
    ws: Workspace, source: str, files: Sequence[Path | FileCapture], extract: Extract, by: str
) -> ExtractPreview:
    """Previews what `land_as_extract` would withdraw; lands nothing."""
    table = ws.domain.source_table(source)
    found = preview(landing(ws, table, by), offered(table, files), extract, now=ws.clock())
    allowed = table.most_withdrawn_percent
    confirm = step("to land it, confirm it: ", Option("confirmed_by", ANOTHER_PERSON))
    land = step("to land it, leave out ", Option("dry_run"))
    days = step("name the days of these files with ", Option("replaces", "DAY..DAY"), ", or land other files")
    wanted = confirm if found.percent > allowed and not extract.confirmed_by else land
    return ExtractPreview(
        source=table.name,
        has_dates=table.has_dates,
        scope=extract.scope(table),
        withdrawn=found,
        percent=round(found.percent, 3),
        allowed_percent=allowed,
        next_steps=(days if found.is_elsewhere else wanted,),
    )


def withdraw(ws: Workspace, source: str, key: Mapping[str, str], acting: Acting, *, reason: str) -> LandReport:
    """Takes one key of a source back, and builds the days that it leaves."""
    table = ws.domain.source_table(source)
    ws.references  # noqa: B018 - as above
    landed = withdraw_key(landing(ws, table, acting.by), key, reason=reason)
    return landed_report(ws, table, [landed], acting, builds=True)


def restore(ws: Workspace, import_id: str, key: Mapping[str, str], acting: Acting, *, reason: str) -> LandReport:
    """Undoes a withdrawal, of all its keys or of those with some values, and builds the days to which they return."""
    with ws.ledger.read() as tx:
        table = ws.domain.source_table(tx.imports.get(import_id).source)
    ws.references  # noqa: B018 - as above
    landed = restore_keys(landing(ws, table, acting.by), import_id, key, reason=reason)
    return landed_report(ws, table, [landed], acting, builds=True)

"""Versions of a table beside the one that readers are shown: kept up to date, compared every day, and cut over to."""

from __future__ import annotations

import re
from collections.abc import Iterator

from backfill_assets.application.look import seen_at
from backfill_assets.application.plan import plan
from backfill_assets.calendar.partitions import DayRange, days_of, moment_named
from backfill_assets.candidates.compare_versions import compare_with_shown
from backfill_assets.core.errors import BackfillError, UnknownName
from backfill_assets.ledger.table_acts import ComparedDay
from backfill_assets.planning.request import Plan, PlanRequest
from backfill_assets.report.versions import ActDocument, ResolvedTable, ShadowStatus, described_act, shadow_status
from backfill_assets.requests import table_acts
from backfill_assets.requests.errors import NothingReadersSee
from backfill_assets.requests.table_acts import Pair, beside, name_of, pair_of
from backfill_assets.workspace import Workspace

_DAY_OR_TIME = re.compile(r"\d{4}(-\d{2}){0,2}([T ].*)?")


def resolve(ws: Workspace, table: str, as_of: str = "") -> ResolvedTable:
    """Where readers find a table: its path and its version, now or earlier.

    Args:
        ws: The workspace.
        table: A table. The name of a version names that version, whatever readers of the table are shown.
        as_of: A run, for what readers saw once it was published; a day, for the end of it; or a time in UTC; empty for
            now.

    Raises:
        UnknownName: There is no such table or run.
        InvalidRange: It is no time, or one in the future.
        Refused: The run is of another table, or nothing was published by then.
    """
    declared = ws.domain.table(table)
    with ws.ledger.read() as tx:
        if as_of and not _DAY_OR_TIME.fullmatch(as_of):
            of = tx.runs.get(as_of).manifest.table
            if of not in ws.domain.family(declared.name):
                raise UnknownName.coded(
                    "of_other_table",
                    "run {run_id} is of {other}, which is not a version of {table}.",
                    then="[resolve {other} as_of={run_id}]",
                    run_id=as_of,
                    table=declared.name,
                    other=of,
                )
            made = tx.publications.headers(run_id=as_of)
            found = next((each for each in made[::-1] if each.delta_version is not None), None)
        else:
            at = seen_at(ws, moment_named(as_of)) if as_of else None
            of = tx.acts.shown(declared.name, at)
            found = tx.publications.last_landed(of, at)
    if found is None or found.delta_version is None:
        raise NothingReadersSee(table=declared.name, of=of, as_of=as_of or "now")
    return ResolvedTable(
        name=declared.name,
        table=of,
        path=str(ws.lake.place(of)),
        version=found.delta_version,
        run_id=found.run_id,
        publication_id=found.publication_id,
        landed_at=found.finished_at,
        as_of=as_of or None,
    )


def start(ws: Workspace, table: str, *, by: str, reason: str) -> Plan | None:
    """Begins to keep a version up to date: the LIVE path computes what it lacks from now on, and compares it every day.

    Returns:
        The plan of the run that catches up with what readers are shown; None when it has caught up.

    Raises:
        UnknownName: It is no version of a table, and has none.
        IllegalTransition: It was given up for good.
    """
    with ws.ledger.read() as tx:
        pair = pair_of(ws, tx, table)
        there, here = (tx.versions.claims(each.name) for each in (pair.shown, pair.version))
    missing = ws.graph.table(pair.version.name).among(sorted(there.keys() - here.keys()))
    table_acts.start(ws, pair.version.name, by=by, reason=reason)
    if not missing:
        return None
    days = DayRange(missing[0], days_of(pair.version.partition.grain, missing[-1]).end)
    return plan(ws, PlanRequest(table=pair.version.name, days=days, partitions=missing, reason=reason, by=by))


def compared(ws: Workspace, *, by: str) -> Iterator[tuple[Pair, ComparedDay | BackfillError]]:
    """Compares every version that is kept up to date and has rows; an error of one leaves the others alone."""
    with ws.ledger.read() as tx:
        pairs = [pair for pair in beside(ws, tx) if tx.versions.claims(pair.version.name)]
    for pair in pairs:
        try:
            yield pair, compare_with_shown(ws, pair.version, pair.shown, by=by)
        except BackfillError as error:
            yield pair, error


def status(ws: Workspace, table: str) -> ShadowStatus:
    """The versions of a table: what readers are shown, how far the others are, and how they compare.

    Raises:
        UnknownName: It is no version of a table, and has none.
    """
    return shadow_status(ws, name_of(ws, table))


def cut_over(ws: Workspace, table: str, *, by: str, reason: str) -> ActDocument:
    """Asks to show readers another version; `backfill publish` does it, once it is approved where that is required."""
    return described_act(ws, table_acts.ask_to_cut_over(ws, table, by=by, reason=reason))


def stop(ws: Workspace, table: str, *, by: str, reason: str) -> ActDocument:
    """A version is no longer kept up to date; one that readers were shown is given up once that is approved."""
    return described_act(ws, table_acts.ask_to_stop(ws, table, by=by, reason=reason))

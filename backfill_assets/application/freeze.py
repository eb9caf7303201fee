"""Freezes: a person lets LIVE runs, loads and follow-ups over partitions of a table wait, and lets them go on."""

from __future__ import annotations

from datetime import datetime

from backfill_assets.calendar.partitions import DayRange, describe, partitions_over
from backfill_assets.core.errors import Refused
from backfill_assets.core.identity import sha256_text
from backfill_assets.core.next_steps import NAME, Command, NextStep, do, step
from backfill_assets.domain import SourceTable
from backfill_assets.ledger.freezes import Freeze
from backfill_assets.report.command_line import words_of
from backfill_assets.report.waiting import FreezeDocument, Unfrozen, freeze_document, freezes, frozen_line
from backfill_assets.workspace import Workspace


def freeze(
    ws: Workspace, table: str, days: DayRange, *, until: datetime, only: str | None, by: str, reason: str
) -> FreezeDocument:
    """Freezes partitions of a table until an instant; days that are not over yet can be among them.

    Of a table with versions, what its readers are shown is frozen.

    Args:
        only: The one run or set that may be published meanwhile; it needs everything that it needs without a freeze.
    """
    declared = ws.domain.table(table)
    # A person may leave its layer out; the ledger knows it by its whole name alone.
    grain = declared.partition.grain
    partitions = partitions_over(grain, days)
    with ws.ledger.write() as tx:
        table = tx.acts.shown(declared.name)
        asked = f"{tx.now.isoformat()}|{table}|{days}|{by}|{reason}"
        begun = Freeze(
            freeze_id=f"freeze-{tx.now:%Y%m%d}-{sha256_text(asked)[:8]}",
            table=table,
            grain=grain,
            first=partitions[0],
            last=partitions[-1],
            until=until,
            only=only,
            by=by,
            reason=reason,
            since=tx.now,
        )
        tx.freezes.begin(begun)
        return freeze_document(tx, begun)


def unfreeze(ws: Workspace, freeze_id: str, *, by: str, reason: str) -> Unfrozen:
    """Ends a freeze before its time: its author, or another person."""
    with ws.ledger.write() as tx:
        ended = tx.freezes.end(freeze_id, by=by, reason=reason)
    return Unfrozen(freeze=ended, ended_by=by, why=reason, next_step=_goes_on(ws, ended))


def _goes_on(ws: Workspace, ended: Freeze) -> NextStep | None:
    """The command that builds what waited for a freeze, where no daemon does; or another freeze for which it still
    waits."""
    # Imported where a freeze ends: landed files and follow-ups bring much along.
    from backfill_assets.application.follow import step_after_change, unfinished
    from backfill_assets.landing.days import pending_days

    with ws.ledger.read() as tx:
        others = [each for each in tx.freezes.standing(at=tx.now, table=ended.table) if each.keeps(ended.partitions)]
        if others:
            return frozen_line(freeze_document(tx, others[-1]))
    table = ws.domain.tables.get(ended.table)
    if isinstance(table, SourceTable):
        with ws.ledger.read() as tx:
            landed = ended.keeps(pending_days(tx, table).days)
        if not landed:
            return None
        days = describe(ended.grain, landed)
        return step(do(Command.LOAD, table.short_name, by=NAME), f" builds what has landed of {days}")
    try:
        waits = any(each.run.manifest.table == ended.table for each in unfinished(ws))
    except Refused:
        # It is not known which approval they take, for example because a reference is unreadable; `follow` reports why.
        waits = True
    if waits:
        return step(do(Command.FOLLOW), " ends the follow-ups that waited, unless the sensor of a running Dagster does")
    return step_after_change(ws)


def frozen_text(ws: Workspace) -> str:
    """The present freezes, as the text of a tick; empty when nothing is frozen."""
    with ws.ledger.read() as tx:
        return "\n".join(words_of(frozen_line(each)) for each in freezes(tx))

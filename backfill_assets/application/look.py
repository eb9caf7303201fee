"""What can be looked at? Status, staleness, history, the audit, and whether a run can be reproduced.

Nothing changes, but for the note that a run was reproduced.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

from backfill_assets.application.recorder import Acting
from backfill_assets.application.subjects import subject_of
from backfill_assets.evidence.history import partition_history, table_history
from backfill_assets.evidence.history import status as status_of_everything
from backfill_assets.planning.partitions import DayRange
from backfill_assets.staleness.document import stale_document
from backfill_assets.staleness.find import stale_tables
from backfill_assets.upkeep.audit import audit as audit_everything
from backfill_assets.upkeep.reproduce import reproduce_run
from backfill_assets.workspace import Workspace

Document = Mapping[str, Any]


def status(ws: Workspace, name: str | None) -> Document:
    """Everything at a glance, one run, or one set."""
    return status_of_everything(ws) if name is None else subject_of(ws, name).document()


def stale(ws: Workspace, table: str | None, days: DayRange | None) -> Document:
    """What no longer follows from what is there now, and why."""
    name = None if table is None else ws.domain.table(table).name
    found = stale_tables(ws, table=name, days=days)
    return stale_document(found, table=name, days=days, sources=[source.name for source in ws.domain.sources])


def history(ws: Workspace, table: str, partition: date | None) -> Document:
    """What a table or a partition has been."""
    return table_history(ws, table) if partition is None else partition_history(ws, table, partition)


def audit(ws: Workspace, *, head: str | None, is_quick: bool) -> Document:
    """Whether ledger, tables and landed files agree."""
    return audit_everything(ws, head=head, is_quick=is_quick).document()


def reproduce(ws: Workspace, run_id: str, acting: Acting, *, sample: int | None) -> Document:
    """Rebuilds a published run and compares it with what it published."""
    return reproduce_run(ws, run_id, by=acting.by, sample=sample, listener=acting.listener).document()

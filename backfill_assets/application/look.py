"""Queries: status, staleness, history, the audit, and reproduction of a run.

They change nothing, except that a reproduction is recorded. Each question imports its own room: `status` needs neither
Spark's functions nor the readers of files, and is answered in the time that they take to import.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from backfill_assets.errors import Refused
from backfill_assets.next_steps import Act, do
from backfill_assets.planning.filling import joined
from backfill_assets.planning.partitions import DayRange
from backfill_assets.workspace import Workspace

if TYPE_CHECKING:
    from backfill_assets.application.recorder import Acting
    from backfill_assets.evidence.history import TableHistory
    from backfill_assets.evidence.partition import PartitionHistory
    from backfill_assets.evidence.runs import RunSummary
    from backfill_assets.evidence.sets import SetDocument
    from backfill_assets.evidence.status import StatusDocument
    from backfill_assets.staleness.document import StaleDocument
    from backfill_assets.upkeep.audit import AuditReport
    from backfill_assets.upkeep.reproduce import ReproductionReport


def status(ws: Workspace, name: str | None) -> StatusDocument | RunSummary | SetDocument:
    """The status of everything, of one run, or of one set."""
    if name is None:
        from backfill_assets.evidence.status import status as status_of_everything

        return status_of_everything(ws)
    from backfill_assets.application.subjects import subject_of

    return subject_of(ws, name).document()


def stale(ws: Workspace, table: str | None, days: DayRange | None) -> StaleDocument:
    """What is stale, and why."""
    from backfill_assets.staleness.document import stale_document
    from backfill_assets.staleness.find import stale_tables

    name = None if table is None else ws.domain.table(table).name
    found = stale_tables(ws, table=name, days=days)
    return stale_document(found, table=name, days=days, sources=[source.name for source in ws.domain.sources])


def history(ws: Workspace, table: str, partition: date | None) -> TableHistory | PartitionHistory:
    """The versions of a table or a partition."""
    from backfill_assets.evidence.history import table_history
    from backfill_assets.evidence.partition import partition_history

    return table_history(ws, table) if partition is None else partition_history(ws, table, partition)


def audit(ws: Workspace, *, head: str | None, is_quick: bool) -> AuditReport:
    """Whether ledger, tables and landed files agree."""
    from backfill_assets.upkeep.audit import audit as audit_everything

    return audit_everything(ws, head=head, is_quick=is_quick)


def reproduce(ws: Workspace, run_id: str, acting: Acting, *, sample: int | None) -> ReproductionReport:
    """Rebuilds a published run and compares it with what it published.

    Raises:
        Refused: It is a set, whose runs are rebuilt one by one.
    """
    from backfill_assets.upkeep.reproduce import reproduce_run

    _require_run(ws, run_id)
    return reproduce_run(ws, run_id, by=acting.by, sample=sample, listener=acting.listener)


def _require_run(ws: Workspace, name: str) -> None:
    from backfill_assets.planning.sets import is_set

    if is_set(name):
        from backfill_assets.application.subjects import subject_of

        each = joined([do(Act.REPRODUCE, run_id) for run_id in subject_of(ws, name).run_ids])
        raise Refused(f"{name} is a set, and its runs are reproduced one by one.", next_step=each, set_id=name)

"""Does every document that a command prints answer, and can it be shown?"""

from __future__ import annotations

import io
import json
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from rich.console import Console

from backfill_assets.cli.terminal import show
from backfill_assets.core.errors import BackfillError
from backfill_assets.report.documents import as_json
from backfill_assets.report.history import partition_history, table_history
from backfill_assets.report.pages import page_of
from backfill_assets.report.report import run_report
from backfill_assets.report.runs import run_document, set_document
from backfill_assets.report.stale import stale_document
from backfill_assets.report.status import status
from backfill_assets.upkeep.audit import audit
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support import operations

_shown: set[int] = set()
"""Documents that were shown before: the same text is shown the same way."""


def documents_answer(ws: Workspace, *, is_half_done: bool, most_runs: int) -> Iterator[str]:
    """A sentence for every document that does not answer, and for what the audit finds.

    Args:
        ws: The workspace.
        is_half_done: Whether a process has died and `recover` has not run yet: then the audit may find the traces.
        most_runs: Of how many runs the documents are asked for, the newest first.
    """
    console = Console(file=io.StringIO(), width=120)
    asked: list[tuple[str, Callable[[], Any]]] = [
        ("status", partial(status, ws)),
        ("stale", partial(_stale, ws)),
    ]
    with ws.ledger.read() as reader:
        runs, sets = reader.runs.records(limit=most_runs), reader.sets.records(limit=most_runs)
        accepted = {table: sorted(reader.versions.accepted(table)) for table in ws.domain.tables}
    for run in runs:
        asked.append((f"status {run.run_id}", partial(_summary, ws, run.run_id)))
        asked.append((f"report {run.run_id}", partial(run_report, ws, run.run_id)))
    for record in sets:
        asked.append((f"report {record.set_id}", partial(set_document, ws, record.set_id)))
    for table, partitions in accepted.items():
        asked.append((f"history {table}", partial(table_history, ws, table)))
        for day in partitions[:1]:
            asked.append((f"history {table} {day}", partial(partition_history, ws, table, day)))
    for what, make in asked:
        try:
            document = make()
            text = hash((type(document).__name__, json.dumps(as_json(document))))
            if text not in _shown:
                _shown.add(text)
                show(console, page_of(document))
        except BackfillError as error:
            yield f"{what} is refused: {error}"
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a violation
            yield f"{what} ended with {error!r}\n{''.join(traceback.format_exception(error)[-3:])}"
    found = audit(ws)
    show(console, page_of(found))
    if not is_half_done:
        yield from (f"audit: {problem}" for problem in found.problems)


def _stale(ws: Workspace) -> Any:
    sources = [source.name for source in ws.domain.sources]
    return stale_document(operations.stale_tables(ws), table=None, days=None, sources=sources)


def _summary(ws: Workspace, run_id: str) -> Any:
    return run_document(ws, run_id)

"""Lists for a reader who looks for something: runs and sets by table, state and person, and what a text occurs in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from backfill_assets.calendar.partitions import Grain
from backfill_assets.ledger.records import EventRecord, RunHeader, SetRecord
from backfill_assets.ledger.runs import RunFilter
from backfill_assets.ledger.states import RunState, SetState
from backfill_assets.ledger.views import View
from backfill_assets.report.documents import INLINE
from backfill_assets.report.runs import WithdrawnApproval, not_approved, withdrawn_approvals
from backfill_assets.workspace import Workspace

PAGE_SIZE = 50

MOST_FOUND = 50
"""How many of each kind are listed, the newest ones."""

Rows = tuple[Mapping[str, object], ...]
"""By column of their view."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLine:
    """One run in a list."""

    run: RunHeader = field(metadata=INLINE)  #: The run, without its manifest.
    requested_by: str  #: Who planned it.
    reason: str  #: Why, in the words of the requester.
    planned_at: datetime | None  #: When it was planned.
    grain: Grain  #: Whether its partitions are days or months; days of a table that is no longer declared.
    #: The approval that its last rollback withdrew, if it is not approved again; null otherwise.
    withdrawn: WithdrawnApproval | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunList:
    """A page of runs."""

    runs: tuple[RunLine, ...]  #: The last planned first.
    tables: tuple[str, ...]  #: Every table that is declared or was published.
    older: int | None  #: What continues the list: the sequence before which its runs were planned; null at its end.


@dataclass(frozen=True, slots=True, kw_only=True)
class SetList:
    """A page of sets."""

    sets: tuple[SetRecord, ...]  #: The last planned first.
    older: int | None  #: How many sets come before the next page; null at the end.


def run_list(
    ws: Workspace,
    *,
    table: str | None = None,
    state: RunState | None = None,
    person: str | None = None,
    before: int | None = None,
) -> RunList:
    """A page of runs. No manifest is read: one of 5,000 days with all that it pins takes as long as a whole page.

    Args:
        before: Only those that were planned before the event of this sequence: where the page before ended.
    """
    given = {"table": table, "states": [state] if state else None, "person": person, "before": before}
    chosen = RunFilter(limit=PAGE_SIZE + 1, **{name: value for name, value in given.items() if value is not None})  # type: ignore[typeddict-item]
    with ws.ledger.read() as tx:
        found = tx.runs.headers(**chosen)
        shown = found[:PAGE_SIZE]
        planned = tx.events.numbered(run.sequence for run in shown)
        tables = tuple(dict.fromkeys((*ws.domain.tables, *tx.versions.tables())))
        withdrawn = withdrawn_approvals(tx, not_approved(shown))
    lines = (_line(ws, run, planned.get(run.sequence)) for run in shown)
    return RunList(
        runs=tuple(replace(line, withdrawn=withdrawn.get(line.run.run_id)) for line in lines),
        tables=tables,
        older=shown[-1].sequence if len(found) > PAGE_SIZE else None,
    )


def _line(ws: Workspace, run: RunHeader, planned: EventRecord | None) -> RunLine:
    agreed: Mapping[str, Any] = planned.payload if planned else {}
    return RunLine(
        run=run,
        requested_by=str(agreed.get("requested_by", "")),
        reason=str(agreed.get("reason", "")),
        planned_at=planned.at if planned else None,
        grain=ws.domain.grain_of(run.table),
    )


def set_list(
    ws: Workspace,
    *,
    table: str | None = None,
    state: SetState | None = None,
    person: str | None = None,
    offset: int = 0,
) -> SetList:
    """A page of sets.

    Args:
        offset: How many of the last planned ones came on earlier pages.
    """
    states = [state] if state else None
    with ws.ledger.read() as tx:
        found = tx.sets.records(states=states, table=table, person=person, limit=PAGE_SIZE + 1, offset=offset)
    return SetList(sets=tuple(found[:PAGE_SIZE]), older=offset + PAGE_SIZE if len(found) > PAGE_SIZE else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The matches of a search."""

    text: str
    tables: tuple[str, ...]  #: Tables that are declared.
    runs: Rows  #: The newest of them.
    publications: Rows  #: The newest of them.
    #: By run that is not approved, the approval that its last rollback withdrew.
    withdrawn: Mapping[str, WithdrawnApproval] = field(default_factory=dict)


def find(ws: Workspace, text: str) -> Found:
    """Searches for a text, ignoring case."""
    with ws.ledger.read() as tx:
        runs = tx.views.matching(View.RUNS, text, most=MOST_FOUND)
        return Found(
            text=text,
            tables=tuple(name for name in ws.domain.tables if text.casefold() in name.casefold()),
            runs=runs,
            withdrawn=withdrawn_approvals(tx, [str(row["run_id"]) for row in runs if not row["approved_by"]]),
            publications=tx.views.matching(View.PUBLICATIONS, text, most=MOST_FOUND),
        )

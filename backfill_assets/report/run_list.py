"""Lists of runs and sets for a reader who looks for one: by table, state and person, a page at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from backfill_assets.ledger.records import EventRecord, RunHeader
from backfill_assets.ledger.runs import RunFilter
from backfill_assets.ledger.states import ApprovalState, RunState, SetState
from backfill_assets.planning.manifest_parts import Kind, Mode
from backfill_assets.report.words.states import MEANING
from backfill_assets.workspace import Workspace

PAGE_SIZE = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class RunChoice:
    """Which runs or sets a reader asks for; without any of these, all.

    Attributes:
        table: Only those of this table.
        state: Only those in this state.
        person: Only those on which this person acted.
        before: Only those that were planned before the event of this sequence: where the page before ended.
    """

    table: str | None = None
    state: RunState | None = None
    person: str | None = None
    before: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetChoice:
    """Which sets a reader asks for.

    Attributes:
        table: Only those with a run of this table.
        state: Only those in this state.
        person: Only those on which this person acted.
        offset: How many of the last planned ones came on earlier pages.
    """

    table: str | None = None
    state: SetState | None = None
    person: str | None = None
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLine:
    """One run in a list.

    Attributes:
        run_id: Names it.
        table: The table whose partitions it computes.
        kind: Why it computes them.
        mode: What may become of it.
        set_id: The set of which it is part, or null.
        state: How far it is.
        meaning: The same in words.
        approval: Whether its manifest is approved.
        approved_by: Who approved it, or null.
        requested_by: Who planned it.
        reason: Why, in the words of the requester.
        first: Its first partition.
        last: Its last partition.
        planned_at: When it was planned.
        updated_at: When its state changed last.
    """

    run_id: str
    table: str
    kind: Kind
    mode: Mode
    set_id: str | None
    state: RunState
    meaning: str
    approval: ApprovalState
    approved_by: str | None
    requested_by: str
    reason: str
    first: date
    last: date
    planned_at: datetime | None
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RunList:
    """A page of runs.

    Attributes:
        runs: The last planned first.
        tables: Every table that is declared or was published.
        older: What continues the list: the sequence before which its runs were planned; null at its end.
    """

    runs: tuple[RunLine, ...]
    tables: tuple[str, ...]
    older: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLine:
    """One set in a list.

    Attributes:
        set_id: Names it.
        name: Its name.
        state: How far its publication is.
        meaning: The same in words.
        reason: Why, in the words of the requester.
        requested_by: Who planned it.
        requested_at: When.
        runs: Its runs, in the order of publication.
    """

    set_id: str
    name: str
    state: SetState
    meaning: str
    reason: str
    requested_by: str
    requested_at: datetime
    runs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetList:
    """A page of sets.

    Attributes:
        sets: The last planned first.
        older: How many sets come before the next page; null at the end.
    """

    sets: tuple[SetLine, ...]
    older: int | None


def run_list(ws: Workspace, choice: RunChoice, *, size: int = PAGE_SIZE) -> RunList:
    """A page of runs. No manifest is read: one of 5,000 days with all that it pins takes as long as a whole page."""
    chosen = RunFilter(limit=size + 1)
    if choice.table:
        chosen["table"] = choice.table
    if choice.state:
        chosen["states"] = [choice.state]
    if choice.person:
        chosen["person"] = choice.person
    if choice.before is not None:
        chosen["before"] = choice.before
    with ws.ledger.read() as tx:
        found = tx.runs.headers(**chosen)
        shown = found[:size]
        planned = tx.events.numbered(run.sequence for run in shown)
        sets = tx.sets.ids_of_runs(run.run_id for run in shown)
        tables = tuple(dict.fromkeys((*ws.domain.tables, *tx.versions.tables())))
    return RunList(
        runs=tuple(_line(run, planned.get(run.sequence), sets.get(run.run_id)) for run in shown),
        tables=tables,
        older=shown[-1].sequence if len(found) > size else None,
    )


def _line(run: RunHeader, planned: EventRecord | None, set_id: str | None) -> RunLine:
    agreed: Mapping[str, Any] = planned.payload if planned else {}
    return RunLine(
        run_id=run.run_id,
        table=run.table,
        kind=run.kind,
        mode=run.mode,
        set_id=set_id,
        state=run.state,
        meaning=MEANING[run.state],
        approval=run.approval,
        approved_by=run.approved_by,
        requested_by=str(agreed.get("requested_by", "")),
        reason=str(agreed.get("reason", "")),
        first=run.first,
        last=run.last,
        planned_at=planned.at if planned else None,
        updated_at=run.updated_at,
    )


def set_list(ws: Workspace, choice: SetChoice, *, size: int = PAGE_SIZE) -> SetList:
    """A page of sets."""
    with ws.ledger.read() as tx:
        found = tx.sets.records(
            states=[choice.state] if choice.state else None,
            table=choice.table,
            person=choice.person,
            limit=size + 1,
            offset=choice.offset,
        )
    lines = tuple(
        SetLine(
            set_id=record.set_id,
            name=record.manifest.name,
            state=record.state,
            meaning=MEANING[record.state],
            reason=record.manifest.reason,
            requested_by=record.manifest.requested_by,
            requested_at=record.manifest.requested_at,
            runs=tuple(member.run_id for member in record.manifest.members),
        )
        for record in found[:size]
    )
    return SetList(sets=lines, older=choice.offset + size if len(found) > size else None)

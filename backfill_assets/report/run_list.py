"""Lists of runs and sets by table, state and person, what a text occurs in, and other pages that only the desk has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlencode

from backfill_assets.calendar.partitions import Grain, count_of, partition_text
from backfill_assets.core.next_steps import Command, NextStep, do
from backfill_assets.ledger.records import EventRecord, RunHeader, SetRecord
from backfill_assets.ledger.runs import RunFilter
from backfill_assets.ledger.states import RunState, SetState
from backfill_assets.ledger.views import View
from backfill_assets.planning.manifest_parts import Mode
from backfill_assets.report.documents import INLINE
from backfill_assets.report.page import (
    Block,
    Code,
    Items,
    Note,
    Page,
    Place,
    Ref,
    Tone,
    Toned,
    Value,
    facts,
    joined,
    next_steps,
    page,
    place_ref,
    publication_ref,
    run_ref,
    section,
    set_ref,
    table,
    table_ref,
    words,
)
from backfill_assets.report.runs import WithdrawnApproval, not_approved, state_of, withdrawn_approvals
from backfill_assets.report.status import StatusDocument, status_page
from backfill_assets.report.words.states import MEANING, meaning_of_run
from backfill_assets.upkeep.audit import LastAudit, RecordedAudit
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


_ONLY_SHOWS = "Everything is done with the command backfill or in Dagster; these pages only show."


def query(path: str, **values: object) -> str:
    """An address with these parameters; those without a value are left out."""
    given = {name: str(value) for name, value in values.items() if value not in (None, "")}
    return f"{path}?{urlencode(given)}" if given else path


def changes_address(name: str, **asked: object) -> str:
    """The address of the rows that a run or a set changes."""
    return query(f"/changes/{quote(name, safe='')}", **asked)


def overview_page(status: StatusDocument, audit: LastAudit | None, now: datetime) -> Page:
    """The overview page: the content of every table, what waits, and the newest runs."""
    return page(
        "Overview",
        Note(text=words("Read at ", now, f". {_ONLY_SHOWS}"), tone=Tone.SOFT),
        audit_line(audit, now),
        *status_page(status).blocks,
    )


def runs_page(found: RunList, newest: str | None, older: str | None) -> Page:
    """A page of runs."""
    heads = ["run", "table", "kind", "partitions", "state", "planned", "asked by", "approved by", "reason"]
    return page(
        "Runs",
        table(heads, map(_run, found.runs), whole=["state"]),
        None if found.runs else Note(text="No run matches."),
        _pages(newest, older),
    )


def _run(line: RunLine) -> Sequence[Value]:
    run = line.run
    mode = Toned(value=f" {run.mode}", tone=Tone.SOFT) if run.mode is not Mode.BACKFILL else None
    return (
        words(run_ref(run.run_id), Toned(value=" of ", tone=Tone.SOFT), set_ref(run.request_id))
        if not run.is_alone
        else run_ref(run.run_id),
        run.table,
        words(run.kind, mode),
        " to ".join(dict.fromkeys(partition_text(line.grain, each) for each in (run.first, run.last))),
        state_of(run.state, meaning_of_run(run)),
        line.planned_at,
        line.requested_by,
        run.approved_by or _rolled_back(line.withdrawn),
        line.reason,
    )


def _rolled_back(withdrawn: WithdrawnApproval | None) -> str:
    """A line on a rollback: who had approved the run, who rolled it back, and why."""
    if withdrawn is None:
        return ""
    return f"{withdrawn.approved_by}, rolled back by {withdrawn.rollback.by}: {withdrawn.rollback.reason}"


def sets_page(found: SetList, newest: str | None, older: str | None) -> Page:
    """A page of sets; see `runs_page`."""
    heads = ["set", "state", "planned", "asked by", "reason", "runs, in the order of publication"]
    return page(
        "Restatement sets",
        table(heads, map(_set, found.sets), whole=["state", "planned"]),
        None if found.sets else Note(text="No set matches."),
        _pages(newest, older),
    )


def _set(record: SetRecord) -> Sequence[Value]:
    manifest = record.manifest
    return (
        set_ref(record.set_id, manifest.name),
        state_of(record.state, MEANING[record.state]),
        manifest.requested_at,
        manifest.requested_by,
        manifest.reason,
        joined(run_ref(member.run_id) for member in manifest.members),
    )


def _pages(newest: str | None, older: str | None) -> Note:
    links = (("newest", newest), ("older", older))
    return Note(
        text=joined((place_ref(address, name) for name, address in links if address), " ") if newest or older else ""
    )


def happened(name: str, events: Iterable[EventRecord]) -> tuple[Block | None, ...]:
    """The desk's additions to the report of a run or a set: its events, and the report as a file."""
    rows = [
        (
            event.sequence,
            event.at,
            event.actor,
            f"{event.entity}: {event.action.replace('_', ' ')}",
            f"{event.from_state} \u2192 {event.to_state}" if event.to_state else "",
        )
        for event in events
    ]
    heads = ["event", "when", "who", "what", "state"]
    return (
        section("Events", table(heads, rows, numbers=["event"], whole=["when"])),
        Note(text=place_ref(changes_address(name), "Every changed row, before and after")),
        Note(text=Ref(place=Place.REPORT, id=name, text="The same report as one file, for its reviewer")),
    )


def audit_page(audit: LastAudit | None, now: datetime) -> Page:
    """The verdict of the last audit."""
    return page("The last audit", audit_line(audit, now), *(_audited(audit.found) if audit else ()))


def _audited(audit: RecordedAudit) -> Iterable[Block | None]:
    yield facts(
        ("events in the chain", audit.events),
        ("accepted partitions", audit.partitions),
        ("files of these", audit.files),
        ("table commits", audit.commits),
        ("landed files", audit.imports),
        ("bytes read", audit.size_bytes),
        ("newest event, and its hash", Code(audit.head)),
    )
    more = audit.problem_count - len(audit.problems)
    yield section("Problems", Items(items=(*audit.problems, *([f"and {more:,} more"] if more > 0 else []))))
    yield Note(
        text=words(
            "This verdict is what ",
            do(Command.AUDIT),
            " wrote into the home when it ended. It is not evidence by itself: run the audit again to verify it, and "
            "keep its head elsewhere.",
        ),
        tone=Tone.SOFT,
    )


def audit_line(last: LastAudit | None, now: datetime) -> Note:
    """The verdict of the last audit in a line.

    Args:
        last: What it found; None without one.
    """
    if last is None:
        text = words(
            "No audit of this home was recorded. ", do(Command.AUDIT), " verifies that ledger, tables and files agree."
        )
        return Note(text=text, tone=Tone.ATTENTION)
    audit, later = last.found, ""
    if not last.is_contained:
        verdict = (
            "The event chain no longer contains the event that was its last one at the last audit: its history was "
            "replaced."
        )
    elif audit.agrees:
        verdict = "Everything agreed at the last audit."
    else:
        were = "was" if audit.problem_count == 1 else "were"
        verdict = f"{count_of(audit.problem_count, 'problem')} {were} found by the last audit."
    if last.is_contained and last.later_publications:
        later = f" It has not seen {count_of(last.later_publications, 'later publication')}."
    quick = "; the bytes of files were not read" if audit.is_quick else ""
    return Note(
        text=words(f"{verdict} ", audit.at, f", {count_of((now - audit.at).days, 'day')} ago{quick}.{later}"),
        tone=Tone.BAD if not (audit.agrees and last.is_contained) else Tone.ATTENTION if later else Tone.GOOD,
        items=() if last.is_contained and not later else (do(Command.AUDIT, head=audit.head),),
    )


def found_page(found: Found) -> Page:
    """The page of search results."""
    runs = [
        (
            run_ref(str(row["run_id"])),
            set_ref(str(row["request_id"])) if row["request_id"] != row["run_id"] else None,
            state_of(str(row["state"])),
            str(row["requested_by"]),
            str(row["approved_by"] or "") or _rolled_back(found.withdrawn.get(str(row["run_id"]))),
            str(row["reason"]),
        )
        for row in found.runs
    ]
    publications = [
        (
            publication_ref(str(row["publication_id"])),
            str(row["table_name"]),
            str(row["action"]),
            run_ref(str(row["run_id"])),
            str(row["asked_by"]),
            str(row["reason"]),
        )
        for row in found.publications
    ]
    is_nothing = not (found.tables or runs or publications)
    return page(
        f"Search: {found.text}",
        Note(text="Nothing has this text in an id, a name or a reason.") if is_nothing else None,
        section("Tables", Items(items=tuple(map(table_ref, found.tables)))),
        section(
            _newest("Runs", runs),
            table(["run", "set", "state", "asked by", "approved by", "reason"], runs, whole=["state"]),
        ),
        section(
            _newest("Publications", publications),
            table(["publication", "table", "act", "run", "by", "reason"], publications),
        ),
    )


def _newest(title: str, rows: Sequence[object]) -> str:
    return f"{title}, the newest {len(rows)}" if len(rows) >= MOST_FOUND else title


def refused_page(message: str, following: NextStep | None) -> Page:
    """The page that says why something cannot be shown."""
    return page("This cannot be shown", Note(text=message, tone=Tone.BAD), next_steps(following))

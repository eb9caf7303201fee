"""Status: the content of every table, and what waits for a person."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import TypeVar

from backfill_assets.calendar.partitions import Partitions
from backfill_assets.core.errors import Problem, Problems, UnknownName
from backfill_assets.core.lease import Lease
from backfill_assets.core.next_steps import Command, NextStep, do, step
from backfill_assets.core.spark import found_server
from backfill_assets.domain import DerivedTable, Table
from backfill_assets.lake.errors import NoTable
from backfill_assets.ledger.errors import Damaged
from backfill_assets.ledger.imports import ImportRecord
from backfill_assets.ledger.records import RunRecord, SetRecord
from backfill_assets.ledger.states import EVER_PUBLISHED, EVER_VISIBLE, OPEN_SETS, OPEN_STATES, ChunkState, RunState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest_parts import NEVER_PUBLISHED, Mode
from backfill_assets.report.follow import (
    StuckDocument,
    WaitingPublication,
    frozen_section,
    open_proposal_words,
    stuck_document,
    stuck_words,
    waiting_publication,
    waiting_words,
)
from backfill_assets.report.gates_since import (
    FailsGate,
    NotMeasured,
    fails_gates,
    fails_words,
    not_measured,
    not_measured_words,
)
from backfill_assets.report.page import (
    Items,
    Note,
    Page,
    Section,
    Tone,
    facts,
    page,
    run_ref,
    section,
    set_ref,
    table_ref,
)
from backfill_assets.report.page import Table as TableBlock
from backfill_assets.report.page import table as table_block
from backfill_assets.report.proposed import OpenProposal, open_proposals
from backfill_assets.report.replayed import OpenReplay, open_replays, open_replays_table
from backfill_assets.report.runs import (
    RunSummary,
    SetDocument,
    approval,
    described_set,
    partitions_of,
    problem_notes,
    run_summaries,
    state_of,
)
from backfill_assets.report.server import ServerDocument, server_document, server_line
from backfill_assets.report.sources import (
    CapturedSource,
    ReadBefore,
    captured_sources,
    captured_table,
    imports_table,
    read_before,
    read_before_notes,
)
from backfill_assets.report.versions import ActDocument, acts_table, open_acts
from backfill_assets.report.waiting import FreezeDocument, NotKnownDocument, freezes, not_known_of, not_known_section
from backfill_assets.report.words.states import taken_back_words
from backfill_assets.requests.stuck import still_stuck
from backfill_assets.workspace import Workspace

T = TypeVar("T")

_MOST_SETS = 5
_NEWEST = 20
_MOST_WAITING = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatus:
    """The accepted rows of a table."""

    table: str  #: Its name.
    accepted: Partitions  #: The partitions that have an accepted version.
    accepted_rows: int  #: How many rows they have together.
    path: str  #: Where its files are.
    #: How many of its rows no input gave any more when they were last computed, where it keeps them.
    taken_back_rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusDocument:
    """The state of the home, and what waits for a person."""

    home: str  #: The folder that holds everything, unless it was set otherwise.
    spark_server: ServerDocument | None  #: The Spark server of `backfill up`; null when none was started.
    tables: tuple[TableStatus, ...]  #: Every table that is declared or was published.
    runs: tuple[RunSummary, ...]  #: The newest twenty, and older ones that wait for a person; the newest first.
    sets: tuple[SetDocument, ...]  #: The newest five, and older ones that are not finished; the newest first.
    proposals: tuple[OpenProposal, ...]  #: The proposed restatements that are open, the last one first.
    imports: tuple[ImportRecord, ...]  #: The latest landed files, the newest last.
    captured: tuple[CapturedSource, ...]  #: How far the captures of sources are.
    replays: tuple[OpenReplay, ...]  #: The replays that are not closed.
    acts: tuple[ActDocument, ...]  #: The acts on versions of tables that are asked for and not done.
    to_follow: tuple[WaitingPublication, ...]  #: The publications that their dependents have not followed.
    frozen: tuple[FreezeDocument, ...]  #: The partitions that are frozen, and the runs that wait for that.
    not_known: tuple[NotKnownDocument, ...] = ()  #: The keys of sources that are not known.
    read_before: tuple[ReadBefore, ...] = ()  #: Landed files that were read by an earlier declaration.
    #: Accepted rows that were not measured with gates that were added or changed since.
    not_measured: tuple[NotMeasured, ...] = ()
    fails_gates: tuple[FailsGate, ...] = ()  #: Accepted rows that fail a present gate, as a check has found.
    stuck: tuple[StuckDocument, ...]  #: Work that sensors have given up until a person clears it.
    problems: tuple[Problem, ...]  #: Tables (or sets) that could not be looked at, while everything else was.


def status(ws: Workspace) -> StatusDocument:
    """The content of every table, the newest runs and imports, and what waits for a person."""
    problems, server = Problems(), server_document(found_server(ws.settings))
    with ws.ledger.read() as tx:
        published = tx.versions.tables()
        found = StatusDocument(
            home=str(ws.settings.home),
            spark_server=server,
            tables=tuple(table_status(ws, tx, name) for name in dict.fromkeys((*ws.domain.tables, *published))),
            runs=run_summaries(ws, tx, _runs(tx, problems)),
            imports=tx.imports.records(limit=_NEWEST),
            captured=captured_sources(tx, ws.domain.sources, as_of=ws.clock()),
            replays=open_replays(tx),
            acts=open_acts(tx),
            to_follow=_waiting(ws, tx, problems),
            sets=_sets(ws, tx, problems),
            proposals=open_proposals(tx, problems.refused),
            frozen=freezes(tx),
            not_known=not_known_of(tx, ws.domain.sources),
            read_before=read_before(tx, ws.domain.sources),
            not_measured=_of_tables(not_measured, ws, tx, problems),
            fails_gates=_of_tables(fails_gates, ws, tx, problems),
            stuck=tuple(map(stuck_document, still_stuck(ws, tx))),
            problems=(),
        )
    for name in published:
        with problems.noted(name):
            _require_in_order(ws, name)
    return replace(found, problems=tuple(problems.found))


def _of_tables(
    ask: Callable[[Workspace, ReadTransaction, Iterable[Table]], Iterable[T]],
    ws: Workspace,
    tx: ReadTransaction,
    problems: Problems,
) -> tuple[T, ...]:
    """The known facts about each table, without those whose gates cannot be read, as where the code of one is gone."""
    found: list[T] = []
    for table in ws.domain.tables.values():
        with problems.noted(table.name):
            found += ask(ws, tx, [table])
    return tuple(found)


def _runs(tx: ReadTransaction, problems: Problems) -> tuple[RunRecord, ...]:
    """The newest runs, and all older ones that wait for a person."""
    newest = tx.runs.records(limit=_NEWEST, unreadable=problems.refused)
    modes = frozenset(Mode) - NEVER_PUBLISHED
    waiting = tx.runs.records(states=OPEN_STATES, modes=modes, limit=_MOST_WAITING, unreadable=problems.refused)
    shown = {run.run_id for run in newest}
    return (*newest, *(run for run in waiting if run.run_id not in shown))


def _set_records(tx: ReadTransaction, problems: Problems) -> tuple[SetRecord, ...]:
    """The newest sets, chosen as `_runs` chooses runs."""
    newest = tx.sets.records(limit=_MOST_SETS, unreadable=problems.refused)
    waiting = tx.sets.records(states=OPEN_SETS, limit=_MOST_WAITING, unreadable=problems.refused)
    shown = {record.set_id for record in newest}
    return (*newest, *(record for record in waiting if record.set_id not in shown))


def table_status(ws: Workspace, tx: ReadTransaction, name: str) -> TableStatus:
    """The accepted rows of a table; one that is not declared any more is described by days."""
    accepted = tx.versions.claims(name)
    return TableStatus(
        table=name,
        accepted=Partitions.of(ws.domain.grain_of(name), accepted),
        accepted_rows=sum(claim.rows for claim in accepted.values()),
        path=str(ws.lake.place(name)),
        taken_back_rows=_taken_back(ws, tx, name),
    )


def _taken_back(ws: Workspace, tx: ReadTransaction, name: str) -> int:
    """The number of rows of a table that no input gives any more, although it keeps them."""
    # Asked of the declaration: a graph needs references, and a status is shown where one cannot be read.
    table = ws.domain.tables.get(name)
    if not isinstance(table, DerivedTable) or not table.publish.keeps_rows:
        return 0
    # Imported where a table keeps such rows: a status needs nothing else of staleness.
    from backfill_assets.staleness.find import rows_taken_back

    return sum(rows for _, rows in rows_taken_back(tx, ws.graph.table(name), tx.bases.of_accepted([name]).bases[name]))


def _waiting(ws: Workspace, tx: ReadTransaction, problems: Problems) -> tuple[WaitingPublication, ...]:
    if not tx.outbox.entries(open_only=True):
        return ()
    # What follow-ups need takes as long to import as everything else that a status needs of this project.
    from backfill_assets.requests.follow import what_waits

    with problems.noted("publications that wait for their dependents"):
        return tuple(waiting_publication(each) for each in what_waits(ws, tx))
    return ()


def _sets(ws: Workspace, tx: ReadTransaction, problems: Problems) -> tuple[SetDocument, ...]:
    found: list[SetDocument] = []
    for record in _set_records(tx, problems):
        with problems.noted(record.set_id):
            found.append(described_set(ws, tx, record))
    return tuple(found)


def _require_in_order(ws: Workspace, name: str) -> None:
    """Refuses a table that has been published, and that is not declared any more or cannot be opened."""
    if name not in ws.domain.tables:
        raise UnknownName.coded(
            "undeclared",
            "the domain {domain} no longer declares the table {table}, which has been published.",
            then="declare it again, or set BACKFILL_DOMAIN to the module that does",
            domain=ws.domain.name,
            table=name,
        )
    if not ws.lake.exists(name):
        raise NoTable(table=name, place=str(ws.lake.place(name)))
    ws.lake.open(name)


# Work in progress: what processes are working on, and how far they are.


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkInProgress:
    """The work of one process: what it is doing, or was when it stopped."""

    work: str  #: A run, or a landed file.
    table: str | None = None  #: The table of the run, or the source of the file; null when neither is known any more.
    state: str | None = None  #: How far it is.
    lease: Lease  #: On whose behalf, in which process and since when.
    chunks_done: int | None = None  #: How many chunks of the run are staged; null for a landed file.
    chunks_begun: int | None = None  #: How many were begun.
    rows: int | None = None  #: How many rows the finished chunks have.
    overdue_seconds: float  #: For how long its lease was not renewed after its end; 0 while it is alive.


def at_work(ws: Workspace) -> tuple[WorkInProgress, ...]:
    """The work that processes are doing, by the object that they work on."""
    with ws.ledger.read() as tx:
        now = tx.now
        return tuple(
            _described(
                tx,
                WorkInProgress(
                    work=work, lease=lease, overdue_seconds=max(0.0, (now - lease.until_at).total_seconds())
                ),
            )
            for work, lease in tx.leases.every().items()
        )


def _described(tx: ReadTransaction, found: WorkInProgress) -> WorkInProgress:
    """The description, with progress."""
    if found.work.startswith("imp-"):
        record = tx.imports.get(found.work)
        return replace(found, table=record.source, state=str(record.state))
    try:
        run = tx.runs.header(found.work)
    except (UnknownName, Damaged):
        return found
    chunks = tx.candidates.chunks(found.work)
    done = [chunk for chunk in chunks if chunk.state is ChunkState.DONE]
    return replace(
        found,
        table=run.table,
        state=str(run.state),
        chunks_done=len(done),
        chunks_begun=len(chunks),
        rows=sum(chunk.output_rows or 0 for chunk in done),
    )


# Status: what there is, what waits and for whom, and what processes are working on.

_STALENESS = Note(
    text=step("which of them are stale is not looked at here; to list them: ", do(Command.STALE)), tone=Tone.SOFT
)


def status_page(status: StatusDocument) -> Page:
    """The status page: what there is, what waits, and for whom."""
    accepted = [(table_ref(each.table), each.accepted, each.accepted_rows) for each in status.tables]
    return page(
        "Status",
        facts(
            ("home", status.home),
            ("Spark server", server_line(status.spark_server) if status.spark_server else None),
        ),
        section(
            "Tables",
            table_block(["table", "accepted partitions", "rows"], accepted, numbers=["rows"]),
            *(
                Note(text=f"{each.table}: {taken_back_words(each.taken_back_rows)}", tone=Tone.ATTENTION)
                for each in status.tables
                if each.taken_back_rows
            ),
            *(Note(text=fails_words(each), tone=Tone.BAD) for each in status.fails_gates),
            *(Note(text=not_measured_words(each), tone=Tone.ATTENTION) for each in status.not_measured),
            _STALENESS if any(each.accepted for each in status.tables) else None,
        ),
        section("Runs, newest first", _runs_block([run for run in status.runs if run.record.is_alone])),
        section("Restatement sets, newest first", _sets_block(status.sets)),
        frozen_section(status.frozen),
        not_known_section(status.not_known),
        *read_before_notes(status.read_before),
        section("Next", Items(items=tuple(_next(status)))),
        _listed("Proposed restatements that are open", map(open_proposal_words, status.proposals)),
        section("Captures", captured_table(status.captured)),
        section("Replays that are not closed", open_replays_table(status.replays)),
        section("Acts on versions that are not done", acts_table([each.act for each in status.acts])),
        section("Landed files", imports_table(status.imports)),
        _listed(
            "Publications that are not followed by their dependents yet",
            map(waiting_words, status.to_follow),
        ),
        _listed("Work that sensors have given up", map(stuck_words, status.stuck)),
        *problem_notes(status.problems),
    )


def work_section(found: Sequence[WorkInProgress]) -> Section | Note:
    """The section on what processes are working on now."""
    rows = [
        (
            each.work,
            each.table,
            each.state,
            None if each.chunks_done is None else f"{each.chunks_done} staged, {each.chunks_begun} begun",
            each.rows,
            each.lease.holder,
            each.lease.since_at,
            "alive" if not each.overdue_seconds else f"no sign of life for {each.overdue_seconds:.0f} s",
        )
        for each in found
    ]
    heads = ["work", "table", "state", "chunks", "rows", "by", "since", "process"]
    listed = section("At work", table_block(heads, rows, numbers=["rows"], whole=["work", "state"]))
    return listed or Note(text="no process is at work", tone=Tone.SOFT)


def _runs_block(runs: Sequence[RunSummary]) -> TableBlock:
    # The id of a run begins with the name of its table.
    rows = [
        (run_ref(run.record.run_id), run.record.kind, partitions_of(run), state_of(run.record.state), approval(run))
        for run in runs
    ]
    return table_block(["run", "kind", "partitions", "state", "approval"], rows, whole=["run", "state"])


def _sets_block(sets: Sequence[SetDocument]) -> TableBlock:
    rows = [
        (
            set_ref(each.record.set_id, each.record.manifest.name),
            each.record.manifest.because,
            each.record.manifest.reason,
            state_of(each.record.state),
            approval(each),
            f"{sum(of.run.record.state in EVER_VISIBLE for of in each.runs):,} of {len(each.runs):,}",
        )
        for each in sets
    ]
    return table_block(["set", "because", "reason", "state", "approval", "published"], rows, whole=["set", "state"])


def _next(status: StatusDocument) -> Iterable[NextStep]:
    """The next steps of runs and sets, each once; a run of a set is taken on by its set."""
    steps = [
        *(each.next_step for each in status.sets if each.record.state in OPEN_SETS),
        *(
            run.next_step
            for run in _not_replaced(status.runs)
            if run.record.state not in EVER_PUBLISHED and run.record.is_alone
        ),
        *(each.next_step for each in status.acts),
        *(each.next_step for each in status.fails_gates),
        *(step(each.check) for each in status.not_measured),
    ]
    return dict.fromkeys(each for each in steps if each)


def _not_replaced(runs: Sequence[RunSummary]) -> Iterator[RunSummary]:
    """Runs, the newest first, without those that failed and whose partitions newer runs compute all the same."""
    newer: dict[str, set[date]] = {}
    for run in runs:
        of_table = newer.setdefault(run.record.table, set())
        if run.record.state is not RunState.FAILED or not of_table.issuperset(run.manifest.partitions):
            yield run
        if run.record.state not in (RunState.CANCELLED, RunState.ROLLED_BACK):
            of_table.update(run.manifest.partitions)


def _listed(title: str, items: Iterable[NextStep]) -> Section | None:
    return section(title, Items(items=tuple(items)))

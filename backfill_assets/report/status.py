"""Status: the content of every table, and what waits for a person."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from backfill_assets.core.errors import Problem, Problems, UnknownName
from backfill_assets.core.spark import found_server
from backfill_assets.domain import DerivedTable, Table
from backfill_assets.lake.errors import NoTable
from backfill_assets.ledger.imports import ImportRecord
from backfill_assets.ledger.records import RunRecord, SetRecord
from backfill_assets.ledger.states import OPEN_SETS, OPEN_STATES
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest_parts import NEVER_PUBLISHED, Mode
from backfill_assets.planning.partitions import Partitions
from backfill_assets.publication.stuck import still_stuck
from backfill_assets.report.captured_so_far import CapturedSource, captured_sources
from backfill_assets.report.follow import WaitingPublication, waiting_publication
from backfill_assets.report.frozen import FreezeDocument, freezes
from backfill_assets.report.gates_since import FailsGate, NotMeasured, fails_gates, not_measured
from backfill_assets.report.not_known import NotKnownDocument, not_known_of
from backfill_assets.report.proposed import OpenProposal, open_proposals
from backfill_assets.report.read_before import ReadBefore, read_before
from backfill_assets.report.replayed import OpenReplay, open_replays
from backfill_assets.report.runs import RunSummary, SetDocument, described_set, run_summaries
from backfill_assets.report.server import ServerDocument, server_document
from backfill_assets.report.stuck import StuckDocument, stuck_document
from backfill_assets.report.table_acts import ActDocument, open_acts
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
    from backfill_assets.publication.follow import what_waits

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

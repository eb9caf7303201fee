"""Vacuum: removes exactly the files that are not needed any more.

The files are listed first and judged afterwards, by one state of the ledger, so that a file which comes in meanwhile is
not among them. That takes time, and no transaction waits for it. The write transaction only checks that the facts of
the judgement are unchanged, and marks the versions that lose files; what begins later finds the mark and is refused.
Only then are files removed. A process that stops in between leaves files that the next vacuum finds again. Then the
lineage of runs, to which every run adds a file, is brought together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime

from backfill_assets.core.columns import LINEAGE
from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import Problems
from backfill_assets.core.identity import document_digest
from backfill_assets.lake.append import compact_runs
from backfill_assets.lake.staging import remove_files, run_files
from backfill_assets.lake.tables import live_paths
from backfill_assets.ledger.records import PartKind, RunHeader
from backfill_assets.ledger.states import OPEN_STATES, ImportState, PublicationState, ReplayState, RunState
from backfill_assets.ledger.transactions import ReadTransaction, WriteTransaction
from backfill_assets.planning.manifest_parts import NEVER_PUBLISHED, PinnedInput
from backfill_assets.upkeep.retention import Decision, Facts, HeldRun, Horizons, Key, LeftAlone, decide
from backfill_assets.upkeep.vacuum_report import Sizes, VacuumReport, counted, vacuum_report
from backfill_assets.workspace import Workspace

MOST_PLANS = 3
"""How often it is planned when the ledger moves on meanwhile; then the tables that did are left for the next time."""


def vacuum_lake(ws: Workspace, *, by: str, quarantines: Iterable[str] = (), dry_run: bool = False) -> VacuumReport:
    """Removes the files below `_runs/` that no version, candidate or horizon needs.

    Returns:
        What went, or would go; tables that could not be looked at are among its problems, and the others are done.
    """
    rejected = frozenset(quarantines)
    for attempt in range(MOST_PLANS):
        planned = _planned(ws, rejected)
        ws.reached(Point.VACUUM_PLANNED)
        if dry_run:
            return planned.report(is_dry_run=True)
        with ws.ledger.write() as tx:
            moved = _moved(tx, planned)
            if moved and attempt < MOST_PLANS - 1:
                continue
            planned = replace(planned, decision=planned.decision.without(dict.fromkeys(moved, LeftAlone.MOVED_ON)))
            _mark(tx, planned, by=by)
        break
    ws.reached(Point.VACUUM_MARKED)
    for table, removed in planned.decision.removed.items():
        with planned.problems.noted(table):
            # Another writer that restores a table may have made some of them visible since they were judged.
            shown = live_paths(ws.lake, table)
            remove_files(ws.lake, table, (path for path in removed if path not in shown))
        ws.reached(Point.VACUUM_TABLE_DONE)
    with planned.problems.noted(LINEAGE):
        compact_runs(ws.lake)
    return planned.report(is_dry_run=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planned:
    """The files to remove, and the facts of that decision."""

    horizons: Horizons
    decision: Decision
    sizes: Sizes
    states: Mapping[str, RunState]  #: Of the runs as they were.
    publications: Mapping[str, Mapping[str, PublicationState]]  #: The states of publications by table, as they were.
    problems: Problems

    def report(self, *, is_dry_run: bool) -> VacuumReport:
        return vacuum_report(self.decision, self.sizes, self.horizons, self.problems.found, is_dry_run=is_dry_run)


def _planned(ws: Workspace, quarantines: frozenset[str]) -> _Planned:
    """Lists, then judges; nothing waits for it."""
    problems = Problems()
    horizons = Horizons(
        as_of=ws.clock(),
        rollback_days=ws.settings.rollback_days,
        reproduction_days=ws.settings.reproduction_days,
    )
    with ws.ledger.read() as tx:
        published = frozenset(tx.versions.tables())
    names = (*ws.domain.tables, *sorted(quarantines), *sorted(published - ws.domain.tables.keys()))
    sizes: dict[str, Mapping[str, int]] = {}
    live: dict[str, frozenset[str]] = {}
    for name in names:
        with problems.noted(name):
            if name in published or ws.lake.exists(name):
                listed = run_files(ws.lake, name)
                live[name] = live_paths(ws.lake, name)
                sizes[name] = listed
    with ws.ledger.read() as tx:
        publications = tx.publications.states()
        facts = _facts(ws, tx, live, quarantines, horizons, problems)
        facts = replace(facts, left_alone={**facts.left_alone, **_being_published(publications)})
    return _Planned(
        horizons=horizons,
        decision=decide(facts, sizes, horizons),
        sizes=sizes,
        states=facts.states,
        publications=publications,
        problems=problems,
    )


def _being_published(publications: Mapping[str, Mapping[str, PublicationState]]) -> Mapping[str, LeftAlone]:
    is_open = PublicationState.PUBLISHING
    return {table: LeftAlone.OPEN_PUBLICATION for table, states in publications.items() if is_open in states.values()}


def _moved(tx: ReadTransaction, planned: _Planned) -> tuple[str, ...]:
    """Tables that lose files although a publication, or a run that owns some of them, has moved on since.

    Only these two make a file needed that was not: a publication makes readers see it, or pins of a later run; and a
    run that is taken up again owns its files again. Whatever comes after the mark finds it, and is refused.
    """
    publications = tx.publications.states()
    owners = {
        table: frozenset(path.split("/")[1] for path in removed) for table, removed in planned.decision.removed.items()
    }
    states = tx.runs.states(owner for found in owners.values() for owner in found)
    return tuple(
        table
        for table, found in owners.items()
        if publications.get(table) != planned.publications.get(table)
        or any(states.get(owner) != planned.states.get(owner) for owner in found)
    )


def _mark(tx: WriteTransaction, planned: _Planned, *, by: str) -> None:
    """Records the removal in the ledger. From now on nothing that needs these files is published or rolled back."""
    tx.versions.mark_removed(planned.decision.versions)
    for table, removed in planned.decision.removed.items():
        gone = counted(planned.sizes[table][path] for path in removed)
        tx.events.record(
            actor=by,
            entity="retention",
            entity_id=table,
            action="vacuumed",
            payload={
                "files": gone.files,
                "size_bytes": gone.size_bytes,
                "versions": sum(1 for name, *_ in planned.decision.versions if name == table),
                "paths_digest": document_digest(sorted(removed)),
                "rollback_days": planned.horizons.rollback_days,
                "reproduction_days": planned.horizons.reproduction_days,
            },
        )


def _facts(
    ws: Workspace,
    tx: ReadTransaction,
    live: Mapping[str, frozenset[str]],
    quarantines: frozenset[str],
    horizons: Horizons,
    problems: Problems,
) -> Facts:
    known = tx.runs.headers()[::-1]
    landed_at = tx.publications.landed_at()
    files = tx.candidates.files(run.run_id for run in known)
    reads: dict[str, tuple[bool, tuple[PinnedInput, ...]]] = {}
    unread: set[str] = set()
    for run in known:
        with problems.noted(run.table):
            reads[run.run_id] = _reads(tx, run, landed_at.get(run.run_id), horizons)
        if run.run_id not in reads:
            unread.add(run.table)
    return Facts(
        runs=tuple(
            HeldRun(
                run_id=run.run_id,
                table=run.table,
                state=run.state,
                changed_at=run.updated_at,
                published_at=landed_at.get(run.run_id),
                is_trial=is_trial,
                staged={p: frozenset(staged.paths) for p, staged in files.get(run.run_id, {}).items()},
                inputs=inputs,
            )
            for run in known
            for is_trial, inputs in [reads.get(run.run_id, (False, ()))]
        ),
        versions=tx.versions.every(),
        live=live,
        left_alone=dict.fromkeys(_needed_by(ws, unread), LeftAlone.UNREADABLE_MANIFEST),
        quarantines=quarantines,
        imports={record.import_id: record.state is ImportState.LANDING for record in tx.imports.records()},
        replayed=tuple(_replayed(tx)),
    )


def _replayed(tx: ReadTransaction) -> Iterator[Key]:
    """The versions that replays read which have not sent all of it; who goes on with one reads everything again."""
    for replay in tx.replays.records(is_open=True):
        if replay.state not in (ReplayState.SENT, ReplayState.FAILED):
            for part in replay.parts:
                if part.kind in (PartKind.PARTITION, PartKind.BESIDE):
                    yield replay.table, date.fromisoformat(part.name), part.version
                    yield replay.table, date.fromisoformat(part.name), part.replaces


def _needed_by(ws: Workspace, tables: Iterable[str]) -> frozenset[str]:
    """These tables and what they are built from, which is what a manifest of one of their runs would have named."""
    found: set[str] = set()
    waiting = list(tables)
    while waiting:
        name = waiting.pop()
        if name not in ws.domain.tables:
            return frozenset((*ws.domain.tables, name))
        if name not in found:
            found.add(name)
            waiting += [edge.table for edge in ws.graph.table(name).inputs]
    return frozenset(found)


def _reads(
    tx: ReadTransaction, run: RunHeader, landed_at: datetime | None, horizons: Horizons
) -> tuple[bool, tuple[PinnedInput, ...]]:
    """Tells if a run never publishes, and what it pins; manifests of runs long past are not even read."""
    is_recent = landed_at is not None and landed_at >= horizons.reproduction_since
    if run.state not in OPEN_STATES and run.state is not RunState.ROLLED_BACK and not is_recent:
        return False, ()
    manifest = tx.runs.get(run.run_id).manifest
    proof = manifest.proof.inputs if manifest.proof else ()
    return manifest.mode in NEVER_PUBLISHED, (*manifest.pinned, *proof)

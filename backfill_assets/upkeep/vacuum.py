"""Vacuum: removes exactly the files that are not needed any more.

The files are listed first and judged afterwards, by one state of the ledger, so that a file which comes in meanwhile is
not among them. That takes time, and no transaction waits for it. The write transaction only checks that the facts of
the judgement are unchanged, and marks the versions that lose files; what begins later finds the mark and is refused.
Only then are files removed. A process that stops in between leaves files that the next vacuum finds again. Then the
lineage of runs, to which every run adds a file, is brought together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from enum import StrEnum
from functools import cached_property

from backfill_assets.core.columns import LINEAGE
from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import Problem, Problems
from backfill_assets.core.identity import document_digest
from backfill_assets.lake.append import compact_runs
from backfill_assets.lake.staging import SCRATCH_FOLDER, begun_at, remove_files, run_files
from backfill_assets.lake.tables import live_paths
from backfill_assets.ledger.records import PartitionVersion, PartKind, RunHeader
from backfill_assets.ledger.states import OPEN_STATES, STANDING, ImportState, PublicationState, ReplayState, RunState
from backfill_assets.ledger.transactions import ReadTransaction, WriteTransaction
from backfill_assets.planning.manifest_parts import NEVER_PUBLISHED, PinnedInput
from backfill_assets.workspace import Workspace

# Retention: which staged files are still needed. Pure: from the ledger and the logs to a reason per file.
#
# A file is removed only when nothing holds it. What holds a file is listed in `Why`, the strongest reason first;
# a file below a folder that this ledger knows nothing about is kept.

BEING_WRITTEN = (RunState.STAGING, RunState.GATING)
LONGEST_REPRODUCTION = timedelta(days=1)
"""A scratch folder that is older is taken for one that a killed process left."""

Paths = frozenset[str]
Key = tuple[str, date, int]
"""A partition version: table, partition, version."""


class Why(StrEnum):
    """Why a file is kept, or why it goes."""

    ACCEPTED = "ACCEPTED"
    LIVE = "LIVE"
    CANDIDATE = "CANDIDATE"
    WRITING = "WRITING"
    TRIAL = "TRIAL"
    ROLLED_BACK = "ROLLED_BACK"
    REPLACED = "REPLACED"
    INPUT = "INPUT"
    REPLAYED = "REPLAYED"
    EVIDENCE = "EVIDENCE"
    REPRODUCTION = "REPRODUCTION"
    IN_USE = "IN_USE"
    UNKNOWN = "UNKNOWN"

    PAST = "PAST"
    FINISHED = "FINISHED"
    CANCELLED = "CANCELLED"
    ATTEMPT = "ATTEMPT"
    SCRATCH = "SCRATCH"
    NOT_LIVE = "NOT_LIVE"


class LeftAlone(StrEnum):
    """Why nothing is decided about a table."""

    OPEN_PUBLICATION = "OPEN_PUBLICATION"
    UNREADABLE_MANIFEST = "UNREADABLE_MANIFEST"
    MOVED_ON = "MOVED_ON"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRun:
    """The facts about a run that retention needs."""

    run_id: str
    table: str
    state: RunState
    changed_at: datetime  #: When it came into its state.
    published_at: datetime | None = None  #: When its latest publication landed; None when it never was.
    is_trial: bool = False  #: It is of a mode that never publishes.
    staged: Mapping[date, Paths] = field(default_factory=dict)  #: The files of its candidate by partition.
    inputs: tuple[PinnedInput, ...] = ()  #: What it reads, its proof included.


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Everything that holds files."""

    runs: tuple[HeldRun, ...]
    versions: tuple[PartitionVersion, ...]
    live: Mapping[str, Paths]  #: Per table, the files that its log shows to readers.
    left_alone: Mapping[str, LeftAlone] = field(default_factory=dict)  #: Tables that nothing is decided about, and why.
    quarantines: frozenset[str] = frozenset()  #: Tables of rejected records: only their log determines what is needed.
    #: Every landed file's id, and whether it is being landed right now.
    imports: Mapping[str, bool] = field(default_factory=dict)
    replayed: tuple[Key, ...] = ()  #: The versions that replays have still to send.

    @cached_property
    def states(self) -> Mapping[str, RunState]:
        return {run.run_id: run.state for run in self.runs}


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizons:
    """The periods for which rollback and reproduction stay possible."""

    as_of: datetime
    rollback_days: int
    reproduction_days: int

    @property
    def rollback_since(self) -> datetime:
        return self.as_of - timedelta(days=self.rollback_days)

    @property
    def reproduction_since(self) -> datetime:
        return self.as_of - timedelta(days=self.reproduction_days)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The decision about every listed file."""

    kept: Mapping[str, Mapping[str, Why]]  #: By table and path, why.
    removed: Mapping[str, Mapping[str, Why]]  #: By table and path, why.
    versions: tuple[Key, ...]  #: The versions that lose files.
    skipped: Mapping[str, LeftAlone]  #: Tables that were left alone, and why.

    def without(self, tables: Mapping[str, LeftAlone]) -> Decision:
        """This decision for the other tables only; the given ones are left alone, for the given reasons."""
        return Decision(
            kept={table: paths for table, paths in self.kept.items() if table not in tables},
            removed={table: paths for table, paths in self.removed.items() if table not in tables},
            versions=tuple(key for key in self.versions if key[0] not in tables),
            skipped={**self.skipped, **tables},
        )


def decide(facts: Facts, listed: Mapping[str, Iterable[str]], horizons: Horizons) -> Decision:
    """A reason for every listed file to stay or to go."""
    held = _held(facts, horizons)
    named = _named(facts)
    kept: dict[str, dict[str, Why]] = {}
    removed: dict[str, dict[str, Why]] = {}
    for table, paths in listed.items():
        if table in facts.left_alone:
            continue
        of_table, once = _by_file(held.get(table, {})), _by_file(named.get(table, {}))
        for path in paths:
            beside = _beside(path)
            if path in of_table:
                kept.setdefault(table, {})[path] = of_table[path]
            elif beside in of_table:
                kept.setdefault(table, {})[path] = of_table[beside]
            elif (why := _by_folder(facts, horizons, table, path)) is not None:
                kept.setdefault(table, {})[path] = why
            else:
                why = once.get(path) or once.get(beside) or Why.ATTEMPT
                removed.setdefault(table, {})[path] = _why_it_goes(facts, table, path, why)
    return Decision(
        kept=kept,
        removed=removed,
        versions=tuple(_losing(facts, removed)),
        skipped={table: facts.left_alone[table] for table in sorted(facts.left_alone.keys() & set(listed))},
    )


def _held(facts: Facts, horizons: Horizons) -> Mapping[str, Mapping[str, Why]]:
    """Every file that is needed, with the strongest reason."""
    found: dict[str, dict[str, Why]] = {}
    for why, table, paths in _holdings(facts, horizons):
        of_table = found.setdefault(table, {})
        for path in paths:
            if path not in of_table or _STRENGTH[why] < _STRENGTH[of_table[path]]:
                of_table[path] = why
    return found


_STRENGTH = {why: number for number, why in enumerate(Why)}


def _holdings(facts: Facts, horizons: Horizons) -> Iterator[tuple[Why, str, Iterable[str]]]:
    versions = {(v.table, v.partition, v.version): v for v in facts.versions}
    runs = {run.run_id: run for run in facts.runs}
    for table, paths in facts.live.items():
        yield Why.LIVE, table, paths
    for version in facts.versions:
        if version.state in STANDING:
            # One that says that a snapshot has expired has no files of its own.
            yield Why.ACCEPTED, version.table, version.files.paths
            for before in _restorable(version, versions, horizons.rollback_since):
                yield Why.REPLACED, before.table, before.files.paths
    for key in facts.replayed:
        if (sent := versions.get(key)) is not None:
            yield Why.REPLAYED, sent.table, sent.files.paths
    for run in facts.runs:
        if (why := _candidate_is_needed(run, horizons)) is not None:
            for paths in run.staged.values():
                yield why, run.table, paths
        if (why := _inputs_are_needed(run, horizons)) is not None:
            yield from ((why, table, paths) for table, paths in _inputs(run, versions, runs))


def _restorable(
    accepted: PartitionVersion, versions: Mapping[Key, PartitionVersion], since: datetime
) -> Iterator[PartitionVersion]:
    """The versions that rollbacks would bring back, one after the other: each replaced version whose successor is
    young enough."""
    present = accepted
    while present.replaces and present.accepted_at >= since:
        before = versions.get((present.table, present.partition, present.replaces))
        if before is None:
            return
        yield before
        present = before


def _candidate_is_needed(run: HeldRun, horizons: Horizons) -> Why | None:
    if run.state is RunState.CANCELLED:
        return None
    if run.is_trial and run.state not in BEING_WRITTEN:
        return Why.TRIAL if run.changed_at >= horizons.rollback_since else None
    if run.state in OPEN_STATES:
        return Why.CANDIDATE
    if run.state is RunState.ROLLED_BACK and run.changed_at >= horizons.rollback_since:
        return Why.ROLLED_BACK
    if _is_to_be_reproducible(run, horizons):
        return Why.EVIDENCE
    return None


def _inputs_are_needed(run: HeldRun, horizons: Horizons) -> Why | None:
    if _candidate_is_needed(run, horizons) in (Why.CANDIDATE, Why.TRIAL, Why.ROLLED_BACK):
        return Why.INPUT
    return Why.REPRODUCTION if _is_to_be_reproducible(run, horizons) else None


def _is_to_be_reproducible(run: HeldRun, horizons: Horizons) -> bool:
    if run.state is RunState.CANCELLED:
        return False
    return run.published_at is not None and run.published_at >= horizons.reproduction_since


def _inputs(
    run: HeldRun, versions: Mapping[Key, PartitionVersion], runs: Mapping[str, HeldRun]
) -> Iterator[tuple[str, Iterable[str]]]:
    for pinned in run.inputs:
        for pin in pinned.partitions:
            if pin.from_run is not None:
                other = runs.get(pin.from_run)
                if other is not None:
                    yield other.table, other.staged.get(pin.partition, frozenset())
            elif (version := versions.get((pinned.table, pin.partition, pin.version))) is not None:
                yield version.table, version.files.paths


def _by_folder(facts: Facts, horizons: Horizons, table: str, path: str) -> Why | None:
    """Reasons that hold for everything below a folder of `_runs/`."""
    owner, scratch = (*path.split("/"), "", "")[1:3]
    if owner == SCRATCH_FOLDER:
        begun = begun_at(scratch)
        if begun is None:
            return Why.UNKNOWN
        return Why.IN_USE if begun >= horizons.as_of - LONGEST_REPRODUCTION else None
    if table in facts.quarantines:
        if owner not in facts.imports:
            return Why.UNKNOWN
        return Why.WRITING if facts.imports[owner] else None
    known = facts.states.get(owner)
    if known is None:
        return Why.UNKNOWN
    return Why.WRITING if known in BEING_WRITTEN else None


def _beside(path: str) -> str:
    """The file or folder that something Spark left beside its data belongs to; the path itself for everything else.

    That is a checksum of a file, or the mark that a folder is complete with that mark's own checksum.
    """
    folder, _, name = path.rpartition("/")
    if name.startswith(".") and name.endswith(".crc"):
        name = name.removeprefix(".").removesuffix(".crc")
    return folder if name == "_SUCCESS" else f"{folder}/{name}"


def _by_file(reasons: Mapping[str, Why]) -> Mapping[str, Why]:
    """The reasons of files, and of the folders that hold them."""
    folders = {folder: why for path, why in reasons.items() for folder in _folders_above(path)}
    return {**folders, **reasons}


def _folders_above(path: str) -> Iterator[str]:
    folder = path.rpartition("/")[0]
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]


def _named(facts: Facts) -> Mapping[str, Mapping[str, Why]]:
    """Files that the ledger has a name for, and what they are to it when nothing holds them."""
    found: dict[str, dict[str, Why]] = {}
    for run in facts.runs:
        for paths in run.staged.values():
            why = Why.CANCELLED if run.state is RunState.CANCELLED else Why.FINISHED
            found.setdefault(run.table, {}).update(dict.fromkeys(paths, why))
    for version in facts.versions:
        named = found.setdefault(version.table, {})
        # A version of a run that was cancelled after its rollback goes because of that, and not for its age.
        named.update({path: Why.PAST for path in version.files.paths if named.get(path) is not Why.CANCELLED})
    return found


def _why_it_goes(facts: Facts, table: str, path: str, otherwise: Why) -> Why:
    if path.split("/")[1] == SCRATCH_FOLDER:
        return Why.SCRATCH
    return Why.NOT_LIVE if table in facts.quarantines else otherwise


def _losing(facts: Facts, removed: Mapping[str, Mapping[str, Why]]) -> Iterator[Key]:
    for version in facts.versions:
        gone = removed.get(version.table, {})
        if version.removed_at is None and any(path in gone for path in version.files.paths):
            yield version.table, version.partition, version.version


# Report of a vacuum: what it removed and kept, and why.

Sizes = Mapping[str, Mapping[str, int]]
"""Bytes by table and path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCount:
    """Some files."""

    files: int  #: How many there are.
    size_bytes: int  #: How large they are together.


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumedFolder:
    """The files of one folder below `_runs/` that share a reason."""

    run_id: str  #: The folder: a run, a landed file, or `_reproduced`.
    kept: bool  #: True if they stay.
    reason: Why  #: Why they stay, or go.
    files: int  #: How many there are.
    size_bytes: int  #: How large they are together.


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumedTable:
    """The staged files of one table."""

    table: str  #: Its name.
    skipped: LeftAlone | None  #: Why it was left alone, or null.
    removed: FileCount  #: What went, or would go.
    kept: FileCount  #: What stays.
    runs: tuple[VacuumedFolder, ...]  #: The same by folder and reason.


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumReport:
    """The removals of a clean-up of staged files, done or planned."""

    dry_run: bool  #: True if it only reported what would be removed.
    at: datetime  #: The present, by which files are judged.
    rollback_days: int  #: For how long a replaced version can be brought back.
    reproduction_days: int  #: For how long a run can be reproduced after its publication.
    removed: FileCount  #: What went, or would go.
    kept: FileCount  #: What stays.
    versions_removed: int  #: How many versions lose files.
    tables: tuple[VacuumedTable, ...]  #: The same by table.
    problems: tuple[Problem, ...]  #: Tables that could not be vacuumed, while the others were.


def vacuum_report(
    decision: Decision, sizes: Sizes, horizons: Horizons, problems: Sequence[Problem], *, is_dry_run: bool
) -> VacuumReport:
    """Reports what a clean-up decided, and did unless it was asked to decide only."""
    return VacuumReport(
        dry_run=is_dry_run,
        at=horizons.as_of,
        rollback_days=horizons.rollback_days,
        reproduction_days=horizons.reproduction_days,
        removed=counted(_sizes_of(decision.removed, sizes)),
        kept=counted(_sizes_of(decision.kept, sizes)),
        versions_removed=len(decision.versions),
        tables=tuple(_table(decision, sizes, name) for name in sizes),
        problems=tuple(problems),
    )


def counted(sizes: Iterable[int]) -> FileCount:
    """Files, given by their sizes."""
    found = list(sizes)
    return FileCount(files=len(found), size_bytes=sum(found))


def _sizes_of(chosen: Mapping[str, Mapping[str, Why]], sizes: Sizes) -> Iterator[int]:
    return (sizes[table][path] for table, paths in chosen.items() for path in paths)


def _table(decision: Decision, sizes: Sizes, name: str) -> VacuumedTable:
    return VacuumedTable(
        table=name,
        skipped=decision.skipped.get(name),
        removed=counted(sizes[name][path] for path in decision.removed.get(name, {})),
        kept=counted(sizes[name][path] for path in decision.kept.get(name, {})),
        runs=_folders(decision, sizes, name),
    )


def _folders(decision: Decision, sizes: Sizes, name: str) -> tuple[VacuumedFolder, ...]:
    groups: dict[tuple[str, bool, Why], list[int]] = {}
    for kept, chosen in ((False, decision.removed), (True, decision.kept)):
        for path, why in chosen.get(name, {}).items():
            groups.setdefault((path.split("/")[1], kept, why), []).append(sizes[name][path])
    return tuple(
        VacuumedFolder(run_id=run_id, kept=kept, reason=why, files=len(found), size_bytes=sum(found))
        for (run_id, kept, why), found in sorted(groups.items())
    )


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
    states: Mapping[str, RunState]
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

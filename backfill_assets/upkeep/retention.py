"""Retention: which staged files are still needed. Pure: from the ledger and the logs to a reason per file.

A file is removed only when nothing holds it. What holds a file is listed in `Why`, the strongest reason first; a file
below a folder that this ledger knows nothing about is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from enum import StrEnum
from functools import cached_property

from backfill_assets.lake.staging import SCRATCH_FOLDER, begun_at
from backfill_assets.ledger.records import PartitionVersion
from backfill_assets.ledger.states import OPEN_STATES, STANDING, RunState
from backfill_assets.planning.manifest_parts import PinnedInput

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
    folders = {folder: why for path, why in reasons.items() for folder in _folders(path)}
    return {**folders, **reasons}


def _folders(path: str) -> Iterator[str]:
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

"""Report of a vacuum: what it removed and kept, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from backfill_assets.core.errors import Problem
from backfill_assets.upkeep.retention import Decision, Horizons, LeftAlone, Why

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
    kept: bool  #: Whether they stay.
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

    dry_run: bool  #: Whether it only reported what would be removed.
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

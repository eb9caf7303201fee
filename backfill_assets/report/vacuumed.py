"""Document of a clean-up: what became of staged files, and of the history that a recorder keeps."""

from __future__ import annotations

from dataclasses import dataclass, field

from backfill_assets.report.documents import INLINE
from backfill_assets.upkeep.vacuum_report import VacuumReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """The part of a recorder's history that was removed, or would be.

    Attributes:
        days: How old a recorded run is before it is removed.
        runs: How many were removed, or would be.
        kept_runs: How many older ones stay, because a page still shows them.
        size_bytes: By how much the files are smaller; in a dry run, and with PostgreSQL, what was recorded of them.
        note: Why it was left alone, or what is left to do; null when there is nothing. That is no problem of the lake.
    """

    days: int
    runs: int = 0
    kept_runs: int = 0
    size_bytes: int = 0
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumDocument:
    """What a clean-up did, or would do.

    Attributes:
        lake: Of staged files.
        dagster: Of Dagster's record of runs.
    """

    lake: VacuumReport = field(metadata=INLINE)
    dagster: Pruned

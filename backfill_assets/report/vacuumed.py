"""Document of a clean-up: what became of staged files, and of the history that a recorder keeps."""

from __future__ import annotations

from dataclasses import dataclass, field

from backfill_assets.report.documents import INLINE
from backfill_assets.upkeep.vacuum import VacuumReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """The part of a recorder's history that was removed, or would be."""

    days: int  #: How old a recorded run is before it is removed.
    runs: int = 0  #: How many were removed, or would be.
    kept_runs: int = 0  #: How many older ones stay, because a page still shows them.
    #: By how much the files are smaller; in a dry run, and with PostgreSQL, what was recorded of them.
    size_bytes: int = 0
    #: Why it was left alone, or what is left to do; null when there is nothing. That is no problem of the lake.
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumDocument:
    """The actions of a clean-up, done or planned."""

    lake: VacuumReport = field(metadata=INLINE)  #: Of staged files.
    dagster: Pruned  #: Of Dagster's record of runs.

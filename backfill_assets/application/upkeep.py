"""Upkeep and look-ups: runs by their partitions, versions of sets, files that are not needed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date

from backfill_assets.application.recorder import Acting
from backfill_assets.core.progress import Progress
from backfill_assets.ledger.records import RunRecord
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.manifest_parts import NEVER_PUBLISHED
from backfill_assets.report.upkeep import VacuumDocument
from backfill_assets.upkeep.vacuum import vacuum_lake
from backfill_assets.workspace import Workspace


def vacuum(ws: Workspace, acting: Acting, *, dry_run: bool) -> VacuumDocument:
    """Removes staged files that are not needed any more, and old recorded runs that no page shows."""

    def say(done: int, line: str) -> None:
        acting.listener(Progress(step="vacuum", done=done, total=2, line=line))

    say(0, "the files of every table, and what needs them")
    quarantines = [source.quarantine for source in ws.domain.sources]
    vacuumed = vacuum_lake(ws, by=acting.by, quarantines=quarantines, dry_run=dry_run)
    say(1, "Dagster's record of runs")
    pruned = acting.recorder.prune(as_of=ws.clock(), dry_run=dry_run)
    say(2, "done")
    return VacuumDocument(lake=vacuumed, dagster=pruned)


def find_run(ws: Workspace, table: str, partitions: Sequence[date], *, states: Iterable[RunState]) -> RunRecord | None:
    """The newest run of a table over exactly these partitions, in one of these states.

    A run that has PASSED is looked for to be published, so one whose mode never is does not count.
    """
    wanted = tuple(sorted(partitions))
    with ws.ledger.read() as tx:
        runs = tx.runs.records(table=ws.domain.table(table).name, states=tuple(states))
    return next(
        (
            run
            for run in runs
            if run.manifest.partitions == wanted
            and not (run.state is RunState.PASSED and run.manifest.mode in NEVER_PUBLISHED)
        ),
        None,
    )

"""Publications behind a number: those that brought it about, back to what a person asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from backfill_assets.ledger.records import Action, PartitionVersion
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import CauseKind
from backfill_assets.report.history import approver_of


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedPublication:
    """A publication, or a rollback, that brought a number about."""

    publication_id: str  #: The publication or the rollback.
    undoes: str | None  #: Of a rollback, the publication that it took back; null otherwise.
    table: str  #: The table that it changed.
    at: datetime | None  #: When readers saw it first; null for one that never landed.
    run_id: str  #: The run whose rows it published, or took back.
    release: str  #: The transform and its release, of that run.
    kept: bool  #: Whether it kept the row as an earlier one had published it, because its run changes other rows.
    reason: str  #: Why the run was planned, or rolled back.
    requested_by: str  #: Who asked for it.
    approved_by: str | None  #: Who approved it, or null.
    ran_by: str | None  #: Who computed the run; null of a rollback.
    #: The publications that it follows, those of the same set whose rows it was computed from, or those whose versions
    #: a rollback brought back.
    follows: tuple[str, ...]


def publications_behind(
    tx: ReadTransaction, version: PartitionVersion, computed_by: str, shown_by: str
) -> Iterator[TracedPublication]:
    """The publications behind a row and those that they follow, each once; first the rollback that restored it."""
    is_kept = computed_by != version.run_id
    waiting = [shown_by, version.publication_id, *(_made(tx, computed_by) if is_kept else ())]
    seen = set[str]()
    while waiting:
        name = waiting.pop(0)
        if name in seen:
            continue
        seen.add(name)
        header = tx.publications.header(name)
        run = tx.runs.get(header.run_id)
        manifest, is_undone = run.manifest, header.action is Action.ROLLBACK
        keeps = is_kept and name == version.publication_id
        follows = tx.publications.restored_by(name) if is_undone else tuple(_came_from(tx, manifest))
        waiting += follows
        yield TracedPublication(
            publication_id=name,
            undoes=header.undoes,
            table=header.table,
            at=header.finished_at,
            run_id=run.run_id,
            release=f"{manifest.transform} {manifest.transform_version}",
            kept=keeps,
            reason=header.reason if is_undone else manifest.reason,
            requested_by=header.by if is_undone else manifest.requested_by,
            approved_by=None if is_undone else approver_of(run, tx.events.entries(entity_id=run.run_id), header),
            ran_by=None if is_undone else tx.events.ran_by([run.run_id]).get(run.run_id),
            follows=follows,
        )


def _came_from(tx: ReadTransaction, manifest: Manifest) -> Iterator[str]:
    """The publications that a run follows, and those of the runs of its set whose rows it read."""
    if manifest.cause.kind is CauseKind.FOLLOW_UP:
        yield from manifest.cause.publications
    read = {pin.from_run: None for pinned in manifest.inputs for pin in pinned.partitions if pin.from_run}
    for run_id in read:
        yield from _made(tx, run_id)


def _made(tx: ReadTransaction, run_id: str) -> Iterator[str]:
    """The publication of a run, if it has one."""
    made = (each for each in tx.publications.headers(run_id=run_id) if each.action is Action.PUBLISH)
    yield from (each.publication_id for each in islice(made, 1))

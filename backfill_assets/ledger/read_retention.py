"""What does the ledger know of files that somebody may still need? Light queries over the whole history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime

from sqlalchemy import func, select

from backfill_assets.identity import FileSet
from backfill_assets.ledger.reading import Reading, batches
from backfill_assets.ledger.records import Action, PartitionVersion
from backfill_assets.ledger.schema import candidate_partitions, partition_versions, publications, runs
from backfill_assets.ledger.states import PublicationState, RunState


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInShort:
    """A run without its manifest. `published_at` is when its latest publication landed, even if it was undone."""

    run_id: str
    table: str
    state: RunState
    updated_at: datetime
    published_at: datetime | None


class RetentionReader(Reading):
    """Every run, every version, and the files of candidates."""

    def runs_in_short(self) -> tuple[RunInShort, ...]:
        """Every run, in the order in which they were planned."""
        made = publications
        landed = (PublicationState.PUBLISHED, PublicationState.ROLLED_BACK)
        latest = (
            select(made.c.run_id, func.max(made.c.finished_at).label("published_at"))
            .where(made.c.action == Action.PUBLISH, made.c.state.in_(landed))
            .group_by(made.c.run_id)
            .subquery()
        )
        chosen = (
            select(runs.c.run_id, runs.c.table_name, runs.c.state, runs.c.updated_at, latest.c.published_at)
            .outerjoin(latest, latest.c.run_id == runs.c.run_id)
            .order_by(runs.c.added_sequence)
        )
        return tuple(
            RunInShort(
                run_id=row.run_id,
                table=row.table_name,
                state=row.state,
                updated_at=row.updated_at,
                published_at=row.published_at,
            )
            for row in self._rows(chosen)
        )

    def every_version(self) -> tuple[PartitionVersion, ...]:
        """Every version of every table, without its provenance."""
        held = partition_versions
        chosen = select(*(column for column in held.c if column.name != "provenance"))
        return tuple(
            PartitionVersion(
                table=row.table_name,
                partition=row.partition_date,
                version=row.version,
                state=row.state,
                run_id=row.run_id,
                publication_id=row.publication_id,
                files=row.files,
                rows=row.row_count,
                checksum=row.checksum,
                replaces=row.replaces,
                delta_version=row.delta_version,
                accepted_at=row.accepted_at,
                removed_at=row.removed_at,
            )
            for row in self._rows(chosen)
        )

    def staged_files(self, run_ids: Iterable[str]) -> dict[str, dict[date, FileSet]]:
        """The files of the candidates of these runs, by run and partition."""
        held = candidate_partitions
        found: dict[str, dict[date, FileSet]] = {}
        for batch in batches(run_ids):
            for row in self._rows(
                select(held.c.run_id, held.c.partition_date, held.c.files).where(held.c.run_id.in_(batch))
            ):
                found.setdefault(row.run_id, {})[row.partition_date] = row.files
        return found

    def publication_states(self) -> Mapping[str, Mapping[str, PublicationState]]:
        """The state of every publication, by table and id: while these are the same, no version of a table changes."""
        found: dict[str, dict[str, PublicationState]] = {}
        for row in self._rows(select(publications.c.table_name, publications.c.publication_id, publications.c.state)):
            found.setdefault(row.table_name, {})[row.publication_id] = row.state
        return found

    def run_states(self, run_ids: Iterable[str]) -> Mapping[str, RunState]:
        """The states of those of these ids that are runs."""
        chosen = (select(runs.c.run_id, runs.c.state).where(runs.c.run_id.in_(batch)) for batch in batches(run_ids))
        return {row.run_id: row.state for statement in chosen for row in self._rows(statement)}

    def tables_published(self) -> tuple[str, ...]:
        """Every table that ever had a version, declared or not."""
        return tuple(self._values(select(partition_versions.c.table_name).distinct().order_by("table_name")))

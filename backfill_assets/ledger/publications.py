"""Reads of publications: intended swaps, their changes, and their outcome."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, TypedDict, Unpack

from sqlalchemy import ColumnElement, Row, ScalarSelect, Select, Table, and_, case, func, or_, select

from backfill_assets.core.identity import EMPTY_FILE_SET, LogEvidence
from backfill_assets.ledger import queries
from backfill_assets.ledger.errors import TableBusy
from backfill_assets.ledger.queries import Queries
from backfill_assets.ledger.records import (
    Action,
    PartitionChange,
    Period,
    PublicationHeader,
    PublicationRecord,
    RollbackOrder,
    VerifiedPartition,
)
from backfill_assets.ledger.schema import (
    IS_FOUND_EQUAL,
    events,
    partition_versions,
    publication_changes,
    publications,
    verifications,
)
from backfill_assets.ledger.states import PublicationState

ROLLBACK, ORDERED, ENDED = "rollback", "rollback_ordered", "rollback_ended"
"""The events of a rollback that takes dependents along: it is under way while it was ordered and has not ended."""

SET_TO_LEDGER = "table_set_to_ledger"
"""The event of a table that was set to what the ledger holds, after one of them was restored from a backup."""

OUTCOME_UNKNOWN = "publication_outcome_unknown"
"""The event of a process that ends without knowing whether its swap landed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingPublication:
    """A publication that stands: the table version that it made, and how many partitions it swapped and found equal."""

    delta_version: int | None
    changed: int
    verified: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetToLedger:
    """A table that a person set to what the ledger holds, after the lake or the ledger was restored from a backup."""

    sequence: int  #: The event that recorded it.
    table: str
    #: What its log held that no publication had recorded; what was recorded behind `log.after` before counts no more.
    log: LogEvidence
    missing: tuple[str, ...]  #: The publications that the ledger has and the log does not.
    lost_runs: tuple[str, ...]  #: The runs that the lake has and the ledger does not.
    #: The versions that no rollback can bring back, because their files are gone: partition and version.
    gone: tuple[tuple[date, int], ...]
    by: str  #: Who accepted that.
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The extent of a publication's changes."""

    partition_count: int = 0  #: How many partitions it swaps.
    new_empty_count: int = 0  #: How many it records that had no rows before and have none after.
    verified_count: int = 0  #: How many it found equal and leaves as they are.
    rows: int = 0  #: How many rows it swaps in.
    #: The first partition that it names; None for the rollback of a run that had swapped nothing.
    first: date | None = None
    last: date | None = None  #: The last one, or None.

    @property
    def changes_nothing(self) -> bool:
        """True if every partition that it names was found equal."""
        return not self.partition_count + self.new_empty_count


NOTHING_CHANGED = Extent()


class PublicationFilter(TypedDict, total=False):
    """A filter of publications; without any field, all."""

    table: str
    run_id: str
    before: int  #: Only those that were begun before the event of this sequence.
    after: int
    states: Collection[PublicationState]
    limit: int  #: At most this many, the last begun ones.


class PublicationReads(Queries):
    """Publications and rollbacks."""

    def get(self, publication_id: str) -> PublicationRecord:
        """One publication with everything it changes.

        Cost: one primary key lookup, and one row per partition that it changes or found equal.

        Raises:
            UnknownName: There is none of this id.
        """
        ids = [publication_id]
        changes, verified = self._changes(ids)[publication_id], self._verified(ids)[publication_id]
        return queries.publication_record(self._row_of(publication_id), changes, verified)

    def header(self, publication_id: str) -> PublicationHeader:
        """One publication without the partitions that it changes.

        Cost: one primary key lookup.

        Raises:
            UnknownName: There is none of this id.
        """
        return queries.publication_header(self._row_of(publication_id))

    def _row_of(self, publication_id: str) -> Row[Any]:
        return self._named(select(publications), publications.c.publication_id, kind="publication", name=publication_id)

    def require_none_open(self, table: str) -> None:
        """Refuses what cannot be while a swap of a table has begun and its outcome is not recorded.

        Cost: one index lookup.

        Raises:
            IllegalTransition: There is such a swap.
        """
        held = publications
        is_open = (held.c.table_name == table) & (held.c.state == PublicationState.PUBLISHING)
        if found := self._row(select(held.c.publication_id, held.c.run_id, held.c.action).where(is_open)):
            raise TableBusy(table=table, **found._mapping)

    def headers(self, **chosen: Unpack[PublicationFilter]) -> tuple[PublicationHeader, ...]:
        """Publications without the partitions that they change, the last begun first.

        Cost: one index range: one short row per chosen publication.
        """
        return tuple(queries.publication_header(row) for row in self._rows(_chosen(chosen)))

    def periods(self, table: str, partition: date) -> tuple[Period, ...]:
        """The versions of a partition that readers saw, with their periods: a publication begins a version, a rollback
        restores one.

        Cost: one primary key lookup per publication of the table that landed; no file sets are read.
        """
        held, change, version = publications, publication_changes, partition_versions
        is_made = and_(
            version.c.publication_id == held.c.publication_id,
            version.c.table_name == table,
            version.c.partition_date == partition,
        )
        chosen = (
            select(held.c.publication_id, held.c.finished_at, held.c.action, change.c.restores, version.c.version)
            .join_from(held, change, change.c.publication_id == held.c.publication_id)
            .outerjoin(version, is_made)
            .where(held.c.table_name == table, change.c.partition_date == partition, held.c.finished_at.is_not(None))
            .where(held.c.state.in_((PublicationState.PUBLISHED, PublicationState.ROLLED_BACK)))
            .order_by(held.c.begun_sequence)
        )
        begun = self._rows(chosen)
        ends = [*(row.finished_at for row in begun[1:]), None]
        return tuple(
            Period(
                version=int((row.restores if row.action is Action.ROLLBACK else row.version) or 0),
                publication_id=row.publication_id,
                since=row.finished_at,
                until=until,
            )
            for row, until in zip(begun, ends, strict=False)
        )

    def seen_in(self, table: str, delta_version: int) -> dict[date, int]:
        """The version of each partition that readers saw once a version of the table had landed; 0 for none.

        Cost: one index lookup per partition that a publication of the table changed until then; no file sets are read.
        """
        held, change, version = publications, publication_changes, partition_versions
        is_made = and_(
            version.c.publication_id == held.c.publication_id,
            version.c.table_name == table,
            version.c.partition_date == change.c.partition_date,
        )
        chosen = (
            select(change.c.partition_date, held.c.action, change.c.restores, version.c.version)
            .join_from(held, change, change.c.publication_id == held.c.publication_id)
            .outerjoin(version, is_made)
            .where(held.c.table_name == table, held.c.delta_version <= delta_version)
            .where(held.c.state.in_((PublicationState.PUBLISHED, PublicationState.ROLLED_BACK)))
            .order_by(held.c.begun_sequence)
        )
        return {
            partition: int((restores if action is Action.ROLLBACK else made) or 0)
            for partition, action, restores, made in self._columns(chosen)
        }

    def restored_by(self, rollback: str) -> tuple[str, ...]:
        """The publications whose versions a rollback brought back, in their order.

        Cost: one row per partition that it changed, grouped in the database.
        """
        change, version, made = publication_changes, partition_versions, publications
        of_rollback = made.alias()
        chosen = (
            select(made.c.publication_id)
            .join_from(of_rollback, change, change.c.publication_id == of_rollback.c.publication_id)
            .join(
                version,
                and_(
                    version.c.table_name == of_rollback.c.table_name,
                    version.c.partition_date == change.c.partition_date,
                    version.c.version == change.c.restores,
                ),
            )
            .join(made, made.c.publication_id == version.c.publication_id)
            .where(of_rollback.c.publication_id == rollback)
            .group_by(made.c.publication_id, made.c.begun_sequence)
        )
        return tuple(row.publication_id for row in self._rows(chosen.order_by(made.c.begun_sequence)))

    def last_landed(self, table: str, at: datetime | None = None) -> PublicationHeader | None:
        """The publication or rollback that made the version of a table that readers see: now, or at an instant.

        Cost: one index range: one short row per publication of the table, sorted in the database.
        """
        held = publications
        chosen = select(held).where(held.c.table_name == table, held.c.delta_version.is_not(None))
        if at is not None:
            chosen = chosen.where(held.c.finished_at <= at)
        row = self._row(chosen.order_by(held.c.delta_version.desc(), held.c.begun_sequence.desc()).limit(1))
        return None if row is None else queries.publication_header(row)

    def last_logged(self, table: str) -> int:
        """The last version of a table whose commit is recorded; -1 when there is none.

        Cost: two index ranges.
        """
        found = self.last_log(table)
        return -1 if found is None else found.version

    def last_log(self, table: str) -> LogEvidence | None:
        """The last recorded evidence of a table's log: with a publication, or when it was set to the ledger.

        Cost: two index ranges.
        """
        held = publications
        chosen = select(held.c.log, held.c.begun_sequence).where(held.c.table_name == table, held.c.log.is_not(None))
        row = self._row(chosen.order_by(held.c.begun_sequence.desc()).limit(1))
        is_set = self.set_to_ledger(table)
        if is_set and (row is None or row.begun_sequence < is_set[-1].sequence):
            return is_set[-1].log
        return None if row is None else queries.log_evidence(row.log)

    def set_to_ledger(self, table: str) -> tuple[SetToLedger, ...]:
        """When a table was set to what the ledger holds, the first time first.

        Cost: one index range of the events of the table.
        """
        recorded = select(events).where(events.c.entity_id == table, events.c.action == SET_TO_LEDGER)
        return tuple(_set_to_ledger(row) for row in self._rows(recorded.order_by(events.c.sequence)))

    def lost_runs(self) -> frozenset[str]:
        """The runs that only the lake knows, as was accepted when tables were set to what the ledger holds.

        Cost: one pass over the events.
        """
        recorded = select(events.c.payload).where(events.c.action == SET_TO_LEDGER)
        return frozenset(run_id for payload in self._values(recorded) for run_id in payload["lost_runs"])

    def landed_at(self) -> Mapping[str, datetime]:
        """The instant at which the latest publication of each run landed, even if it was undone since.

        Cost: every row of the table of publications, grouped in the database.
        """
        held = publications
        chosen = select(held.c.run_id, func.max(held.c.finished_at).label("landed_at")).where(
            held.c.action == Action.PUBLISH,
            held.c.state.in_((PublicationState.PUBLISHED, PublicationState.ROLLED_BACK)),
        )
        return {row.run_id: row.landed_at for row in self._rows(chosen.group_by(held.c.run_id))}

    def count(self, **chosen: Unpack[PublicationFilter]) -> int:
        """The number of publications. Cost: one index range, counted in the database."""
        return int(self._values(select(func.count()).select_from(_chosen(chosen).order_by(None).subquery()))[0])

    def extents(self, publication_ids: Iterable[str]) -> dict[str, Extent]:
        """The extents of publications, by publication.

        Cost: one index range per publication, added up in the database; no file sets are read.
        """
        chosen = list(publication_ids)
        found: dict[str, Extent] = dict.fromkeys(chosen, NOTHING_CHANGED)
        made, verified = publication_changes, verifications
        is_empty = and_(made.c.expected_files == EMPTY_FILE_SET, made.c.file_count == 0)
        changed = select(
            made.c.publication_id,
            func.sum(case((is_empty, 0), else_=1)).label("swapped"),
            func.sum(case((is_empty, 1), else_=0)).label("empty"),
            func.sum(made.c.row_count).label("rows"),
            func.min(made.c.partition_date).label("first"),
            func.max(made.c.partition_date).label("last"),
        ).group_by(made.c.publication_id)
        equal = select(
            verified.c.publication_id,
            func.count().label("partitions"),
            func.min(verified.c.partition_date).label("first"),
            func.max(verified.c.partition_date).label("last"),
        ).group_by(verified.c.publication_id)
        for row in self._rows_with(changed, made.c.publication_id, chosen):
            found[row.publication_id] = Extent(
                partition_count=int(row.swapped),
                new_empty_count=int(row.empty),
                rows=int(row.rows),
                first=row.first,
                last=row.last,
            )
        for row in self._rows_with(equal, verified.c.publication_id, chosen):
            present = found[row.publication_id]
            found[row.publication_id] = replace(
                present,
                verified_count=row.partitions,
                first=min(filter(None, (present.first, row.first))),
                last=max(filter(None, (present.last, row.last))),
            )
        return found

    def changed_partitions(self, publication_id: str) -> tuple[date, ...]:
        """The partitions that a publication changes, in their order; those that it found equal are left out.

        Cost: one index range.
        """
        made = publication_changes
        chosen = select(made.c.partition_date).where(made.c.publication_id == publication_id)
        return tuple(self._values(chosen.order_by(made.c.partition_date)))

    def records(self, **chosen: Unpack[PublicationFilter]) -> tuple[PublicationRecord, ...]:
        """Publications with everything that they change, the last begun first.

        Cost: one index range, and one row per partition that they change or found equal.
        """
        found = self._rows(_chosen(chosen))
        ids = [row.publication_id for row in found]
        changes, verified = self._changes(ids), self._verified(ids)
        return tuple(
            queries.publication_record(row, changes[row.publication_id], verified[row.publication_id]) for row in found
        )

    def verifying(self, table: str, partition: date, version: int) -> tuple[PublicationHeader, ...]:
        """The standing publications that found this version equal to what they had computed, the last begun first.

        Cost: one row per publication that found a partition of this date equal.
        """
        chosen = (
            select(verifications.c.publication_id)
            .join_from(verifications, publications, publications.c.publication_id == verifications.c.publication_id)
            .where(
                publications.c.table_name == table,
                publications.c.state == PublicationState.PUBLISHED,
                verifications.c.partition_date == partition,
                verifications.c.version == version,
            )
            .order_by(publications.c.begun_sequence.desc())
        )
        return tuple(self.header(publication_id) for publication_id in self._values(chosen))

    def states(self) -> Mapping[str, Mapping[str, PublicationState]]:
        """The state of every publication, by table and id: while these are the same, no version of a table changes.

        Cost: one row per publication of the ledger.
        """
        found: dict[str, dict[str, PublicationState]] = {}
        for row in self._rows(select(publications.c.table_name, publications.c.publication_id, publications.c.state)):
            found.setdefault(row.table_name, {})[row.publication_id] = row.state
        return found

    def landed(self, run_ids: Iterable[str]) -> dict[str, StandingPublication]:
        """The standing publications of runs, by run; runs without one are left out. No file sets are read.

        Cost: one index lookup per run; partitions are counted in the database.
        """
        made = publications
        counts = (_count(publication_changes).label("changed"), _count(verifications).label("verified"))
        stands = (made.c.state == PublicationState.PUBLISHED, made.c.action == Action.PUBLISH)
        standing = select(made.c.run_id, made.c.delta_version, *counts).where(*stands)
        found = self._rows_with(standing, made.c.run_id, run_ids)
        return {row.run_id: _standing(row) for row in found}

    def rollbacks(self, run_ids: Iterable[str]) -> dict[str, PublicationHeader]:
        """The latest rollback of runs that landed, by run; runs without one are left out.

        Cost: one index lookup per run.
        """
        made = publications
        landed = select(made).where(made.c.state == PublicationState.PUBLISHED, made.c.action == Action.ROLLBACK)
        found = map(queries.publication_header, self._rows_with(landed, made.c.run_id, run_ids))
        return {each.run_id: each for each in sorted(found, key=lambda each: each.sequence)}

    def is_unknown(self, publication_id: str) -> bool:
        """True if the process of a publication ended without knowing whether the swap landed.

        Cost: the events of the publication.
        """
        noted = select(events.c.sequence).where(
            events.c.entity_id == publication_id, events.c.action == OUTCOME_UNKNOWN
        )
        return bool(self._values(noted.limit(1)))

    def rollbacks_under_way(self) -> tuple[RollbackOrder, ...]:
        """Rollbacks with dependents that were begun and have not ended, the first begun first.

        Cost: one row per rollback that took dependents along.
        """
        open_ones: dict[str, RollbackOrder] = {}
        for row in self._rows(select(events).where(events.c.entity == ROLLBACK).order_by(events.c.sequence)):
            open_ones.pop(row.entity_id, None)
            if row.action == ORDERED:
                open_ones[row.entity_id] = RollbackOrder(
                    of=row.entity_id,
                    dependents=tuple(row.payload["dependents"]),
                    by=row.actor,
                    reason=row.payload["reason"],
                )
        return tuple(open_ones.values())

    def _changes(self, publication_ids: list[str]) -> dict[str, tuple[PartitionChange, ...]]:
        made = publication_changes
        found: dict[str, list[PartitionChange]] = {publication_id: [] for publication_id in publication_ids}
        for row in self._rows_with(select(made).order_by(made.c.partition_date), made.c.publication_id, found):
            found[row.publication_id].append(queries.change(row))
        return {publication_id: tuple(changes) for publication_id, changes in found.items()}

    def _verified(self, publication_ids: list[str]) -> dict[str, tuple[VerifiedPartition, ...]]:
        held, version, made = verifications, partition_versions, publications
        found: dict[str, list[VerifiedPartition]] = {publication_id: [] for publication_id in publication_ids}
        chosen = (
            select(held, version.c.files)
            .join_from(held, made, made.c.publication_id == held.c.publication_id)
            .outerjoin(version, IS_FOUND_EQUAL)
            .order_by(held.c.partition_date)
        )
        for row in self._rows_with(chosen, held.c.publication_id, found):
            found[row.publication_id].append(queries.verified(row))
        return {publication_id: tuple(verified) for publication_id, verified in found.items()}


_standing = queries.read_as(StandingPublication)


def _set_to_ledger(row: Row[Any]) -> SetToLedger:
    log = queries.log_evidence(row.payload["log"])
    assert log is not None
    return SetToLedger(
        sequence=row.sequence,
        table=row.entity_id,
        log=log,
        missing=tuple(row.payload["missing"]),
        lost_runs=tuple(row.payload["lost_runs"]),
        gone=tuple((date.fromisoformat(partition), version) for partition, version in row.payload["gone"]),
        by=row.actor,
        reason=row.payload["reason"],
    )


def _count(partitions: Table) -> ScalarSelect[int]:
    """The number of partitions of a kind that a publication names."""
    named = select(func.count()).select_from(partitions)
    if partitions is publication_changes:
        # A partition that is new and has no rows is recorded, and nothing changes for its readers.
        named = named.where(or_(partitions.c.expected_version > 0, partitions.c.file_count > 0))
    return named.where(partitions.c.publication_id == publications.c.publication_id).scalar_subquery()


_CONDITIONS: Mapping[str, Callable[[Any], ColumnElement[bool]]] = {
    "table": lambda table: publications.c.table_name == table,
    "run_id": lambda run_id: publications.c.run_id == run_id,
    "states": lambda states: publications.c.state.in_(tuple(states)),
    "before": lambda sequence: publications.c.begun_sequence < sequence,
    "after": lambda sequence: publications.c.begun_sequence > sequence,
}
"""The condition of each part of a `PublicationFilter`."""


def _chosen(chosen: PublicationFilter) -> Select[*tuple[Any, ...]]:
    wanted = (_CONDITIONS[name](value) for name, value in chosen.items() if name in _CONDITIONS)
    statement = select(publications).where(*wanted).order_by(publications.c.begun_sequence.desc())
    return statement.limit(chosen.get("limit"))

"""Versions: what readers see of a partition, and saw before.

Writes to partition versions: a landed swap accepts, supersedes, rolls back and restores them.

One statement per question, over all partitions of the publication: 5,000 of them never travel through Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Select,
    and_,
    bindparam,
    exists,
    extract,
    func,
    insert,
    literal,
    select,
    tuple_,
    update,
)

from backfill_assets.core.errors import UnknownName
from backfill_assets.ledger import queries
from backfill_assets.ledger.errors import Damaged
from backfill_assets.ledger.events import Writes
from backfill_assets.ledger.queries import Queries, batches
from backfill_assets.ledger.records import PartitionVersion, PublicationIntent
from backfill_assets.ledger.schema import (
    IS_FOUND_EQUAL,
    approvals,
    partition_versions,
    publication_changes,
    publications,
    runs,
    verifications,
)
from backfill_assets.ledger.states import STANDING, ApprovalState, PublicationState, VersionState, made_by, may_follow
from backfill_assets.planning.manifest_parts import RunPurpose
from backfill_assets.planning.state import AcceptedPartition, Expired


def found_equal(*columns: Column[Any]) -> Select[Any]:
    """The columns of `partition_versions` and `publications` for versions that standing publications found equal."""
    return (
        select(*columns)
        .join_from(publications, verifications, publications.c.publication_id == verifications.c.publication_id)
        .join(partition_versions, IS_FOUND_EQUAL)
        .where(publications.c.state == PublicationState.PUBLISHED)
    )


class _VersionQueries(Queries):
    def _months(self, versions: ColumnElement[bool]) -> list[tuple[str, int]]:
        """The publications that made these versions, each with a month of theirs: what their digests are of."""
        held = partition_versions
        found = self._columns(select(held.c.publication_id, held.c.month).where(versions).distinct())
        return [(publication_id, month) for publication_id, month in found]

    def repaired(self, table: str) -> dict[tuple[date, int], PartitionVersion]:
        """By partition and version, the version whose rows a repair put back as they were recorded of it, in other
        files: the first one, where it was repaired more than once. What follows from either follows from both.

        Cost: one index lookup where a table was never repaired; otherwise one row per repaired partition.
        """
        held, before = partition_versions, partition_versions.alias("before")
        by = [*self._values(select(runs.c.run_id).where(runs.c.table_name == table, runs.c.kind == RunPurpose.REPAIR))]
        found: dict[tuple[date, int], PartitionVersion] = {}
        for batch in batches(sorted(by)):
            chosen = select(held.c.version.label("later"), before).join_from(
                held,
                before,
                and_(
                    before.c.table_name == held.c.table_name,
                    before.c.partition_date == held.c.partition_date,
                    before.c.version == held.c.replaces,
                    before.c.checksum == held.c.checksum,
                    before.c.row_count == held.c.row_count,
                ),
            )
            of_table = chosen.where(held.c.run_id.in_(batch), held.c.table_name == table, held.c.checksum != "")
            found |= {(row.partition_date, row.later): queries.partition_version(row) for row in self._rows(of_table)}
        for key in sorted(found):
            found[key] = found.get((key[0], found[key].version), found[key])
        return found

    def repaired_digests(self, table: str) -> dict[tuple[date, str], str]:
        """By partition and digest of its files, the digest of those in which the same rows were accepted before they
        were repaired. Cost: as `repaired`, and one row per version of a repaired partition."""
        first = self.repaired(table)
        held = partition_versions
        chosen = select(held.c.partition_date, held.c.version, held.c.files_digest).where(held.c.table_name == table)
        found = self._rows_with(chosen, held.c.partition_date, {partition for partition, _ in first}) if first else ()
        return {
            (row.partition_date, row.files_digest): first[row.partition_date, row.version].files.digest
            for row in found
            if (row.partition_date, row.version) in first
        }


class VersionReads(_VersionQueries):
    """Partition versions."""

    def accepted(self, table: str, partitions: Iterable[date] | None = None) -> dict[date, PartitionVersion]:
        """The accepted versions of a table, in the order of its partitions.

        Cost: one index range: one row per accepted partition, with its file set.

        Args:
            table: A table; one without versions gives an empty mapping.
            partitions: Only these; those without an accepted version are left out of the answer.
        """
        held = partition_versions
        chosen = select(held).where(held.c.table_name == table, held.c.state == VersionState.ACCEPTED)
        found = self._rows_with(chosen, held.c.partition_date, partitions)
        return dict(sorted((row.partition_date, queries.partition_version(row)) for row in found))

    def standing(self, table: str, partitions: Sequence[date]) -> dict[date, PartitionVersion]:
        """The standing version of each of these partitions: the accepted one, or the record that it has expired.

        Cost: one index range: one row per version of these partitions, with its file set.
        """
        held = partition_versions
        chosen = select(held).where(held.c.table_name == table, held.c.state.in_(STANDING)).order_by(held.c.version)
        read = self._rows_with(chosen, held.c.partition_date, partitions)
        found = sorted(map(queries.partition_version, read), key=lambda version: version.version)
        return {version.partition: version for version in found}

    def expired(self, table: str) -> dict[date, Expired]:
        """The snapshots of a table that have expired and were not computed again, in the order of its partitions.

        Cost: one index range: one short row per accepted or expired version of the table.
        """
        held, before = partition_versions, partition_versions.alias("before")
        is_before = and_(
            before.c.table_name == held.c.table_name,
            before.c.partition_date == held.c.partition_date,
            before.c.version == held.c.replaces,
        )
        chosen = (
            select(held.c.partition_date, held.c.state, held.c.run_id, before.c.files_digest)
            .select_from(held.outerjoin(before, is_before))
            .where(held.c.table_name == table, held.c.state.in_(STANDING))
            .order_by(held.c.partition_date, held.c.version)
        )
        last = {row.partition_date: row for row in self._rows(chosen)}
        return {
            partition: Expired(run_id=row.run_id, digest=row.files_digest)
            for partition, row in last.items()
            if row.state is VersionState.EXPIRED
        }

    def expired_below(self, table: str, partitions: Iterable[date]) -> set[date]:
        """The given partitions whose snapshot has expired, whether or not it was computed again since.

        Where that computation is undone, the snapshot is expired as before.

        Cost: one index range: one short row per version of these partitions.
        """
        held = partition_versions
        chosen = select(held.c.partition_date).where(held.c.table_name == table, held.c.state == VersionState.EXPIRED)
        return {row.partition_date for row in self._rows_with(chosen, held.c.partition_date, partitions)}

    def partitions_ever(self) -> tuple[date, date] | None:
        """The first and the last partition of any table that was ever accepted; None when none was.

        Cost: one pass over an index.
        """
        return self._ends(partition_versions.c.partition_date)

    def newest(self, table: str) -> date | None:
        """The last partition of a table that ever had a version, accepted or not; None when none had.

        Cost: one index lookup.
        """
        held = partition_versions
        newest = select(func.max(held.c.partition_date).label("newest")).where(held.c.table_name == table)
        return next((row.newest for row in self._rows(newest)), None)

    def undone_last(self, table: str, partitions: Sequence[date]) -> frozenset[date]:
        """The given partitions whose latest version was rolled back, whatever readers see of them since.

        Cost: one index range: one short row per version of the range of days.
        """
        if not partitions:
            return frozenset()
        held = partition_versions
        within = held.c.partition_date.between(min(partitions), max(partitions))
        chosen = select(held.c.partition_date, held.c.state).where(held.c.table_name == table, within)
        latest = {row.partition_date: row.state for row in self._rows(chosen.order_by(held.c.version))}
        return frozenset(p for p in partitions if latest.get(p) is VersionState.ROLLED_BACK)

    def verified_unasked(self, table: str, partitions: Sequence[date]) -> frozenset[date]:
        """The given partitions whose accepted rows were found equal last by a run that no person has approved.

        Cost: one index range: one short row per time that a version of the range of days was found equal.
        """
        if not partitions:
            return frozenset()
        held, made = partition_versions, publications
        chosen = (
            found_equal(held.c.partition_date, approvals.c.state)
            .join(approvals, approvals.c.request_id == made.c.run_id)
            .where(made.c.table_name == table, held.c.state == VersionState.ACCEPTED)
            .where(held.c.partition_date.between(min(partitions), max(partitions)))
            .order_by(made.c.begun_sequence)
        )
        last = {row.partition_date: row.state for row in self._rows(chosen)}
        return frozenset(p for p in partitions if last.get(p) is ApprovalState.DRAFT)

    def made_by_digest(self, table: str, partitions: Sequence[date]) -> dict[tuple[date, str], str]:
        """The runs that made versions of these partitions, accepted or not, by partition and digest of the file set.

        Cost: one index range: one short row per version of the range of days.
        """
        if not partitions:
            return {}
        held = partition_versions
        within = held.c.partition_date.between(min(partitions), max(partitions))
        chosen = select(held.c.partition_date, held.c.files_digest, held.c.run_id).where(
            held.c.table_name == table, within
        )
        wanted = set(partitions)
        return {
            (partition, digest): run_id
            for partition, digest, run_id in self._columns(chosen.order_by(held.c.version))
            if partition in wanted
        }

    def replaced_by(self, run_id: str) -> str | None:
        """A run whose rows readers see in place of rows of this one; None when it was not replaced anywhere.

        Cost: one index range: one row per replaced version of the run, each with one index lookup.
        """
        own, present = partition_versions.alias(), partition_versions.alias()
        same = (own.c.table_name == present.c.table_name) & (own.c.partition_date == present.c.partition_date)
        chosen = (
            select(present.c.run_id)
            .select_from(own.join(present, same & (present.c.state == VersionState.ACCEPTED)))
            .where(own.c.run_id == run_id, own.c.state == VersionState.SUPERSEDED, present.c.run_id != run_id)
            .order_by(present.c.partition_date.desc())
            .limit(1)
        )
        row = self._row(chosen)
        return None if row is None else str(row.run_id)

    def only_made_by(self, run_id: str) -> frozenset[date]:
        """The partitions of which readers see a version of this run that replaced none: without it there is none.

        Cost: one index range: one row per version of the run.
        """
        made = partition_versions
        chosen = select(made.c.partition_date).where(
            made.c.run_id == run_id, made.c.state == VersionState.ACCEPTED, made.c.replaces == 0
        )
        return frozenset(self._values(chosen))

    def history(self, table: str, partition: date | None = None) -> tuple[PartitionVersion, ...]:
        """Every version that was ever accepted, newest first.

        Cost: one index range: one row per version of the table or partition, with its file set.
        """
        held = partition_versions
        chosen = select(held).where(held.c.table_name == table)
        if partition is not None:
            chosen = chosen.where(held.c.partition_date == partition).order_by(held.c.version.desc())
        else:
            chosen = chosen.order_by(held.c.delta_version.desc(), held.c.partition_date, held.c.version.desc())
        return tuple(queries.partition_version(row) for row in self._rows(chosen))

    def of_publication(self, publication_id: str) -> tuple[PartitionVersion, ...]:
        """The versions that a publication made, in the order of their partitions; none before it landed.

        Cost: one index range: one row per partition that it changed, with its file set.
        """
        held = partition_versions
        chosen = select(held).where(held.c.publication_id == publication_id).order_by(held.c.partition_date)
        return tuple(queries.partition_version(row) for row in self._rows(chosen))

    def pinned(self, table: str, pairs: Iterable[tuple[date, int]]) -> dict[date, PartitionVersion]:
        """Exactly these versions, whatever their state is by now, in the order of their partitions.

        Cost: one primary key lookup per version, with its file set.

        Args:
            pairs: Partition and version, each partition once.

        Raises:
            UnknownName: A version that does not exist.
        """
        wanted = dict(pairs)
        held = partition_versions
        of_table = select(held).where(held.c.table_name == table)
        read = self._rows_with(of_table, tuple_(held.c.partition_date, held.c.version), wanted.items())
        found = {row.partition_date: queries.partition_version(row) for row in read}
        if missing := sorted(wanted.keys() - found.keys()):
            first = missing[0]
            raise UnknownName.coded(
                "unknown_version_of_partition",
                "{table} never had version {version} of {partition}{others}.",
                then="[history {table} partition={partition}]",
                table=table,
                partition=first,
                version=wanted[first],
                others=f" (nor {len(missing) - 1} more of those asked for)" if missing[1:] else "",
            )
        return dict(sorted(found.items()))

    def claims(self, table: str, partitions: Sequence[date] | None = None) -> dict[date, AcceptedPartition]:
        """The accepted versions of a table, in the order of its partitions.

        Cost: one index range: one short row per accepted partition of the range of days.

        Args:
            table: A table; one without versions gives an empty mapping.
            partitions: Only these; those without an accepted version are left out of the answer.
        """
        if partitions is not None and not partitions:
            return {}
        held = partition_versions
        sizes = (held.c.row_count, held.c.file_count, held.c.size_bytes)
        chosen = (
            select(held.c.partition_date, held.c.version, held.c.run_id, held.c.files_digest, *sizes)
            .where(held.c.table_name == table, held.c.state == VersionState.ACCEPTED)
            .order_by(held.c.partition_date)
        )
        if partitions is not None:
            # One range and not a list of dates: thousands of them cost more to bind than the others to leave out.
            chosen = chosen.where(held.c.partition_date.between(min(partitions), max(partitions)))
        wanted = None if partitions is None else set(partitions)
        return {
            partition: AcceptedPartition(
                version=version, run_id=run_id, digest=digest, rows=rows_, file_count=files, size_bytes=size
            )
            for partition, version, run_id, digest, rows_, files, size in self._columns(chosen)
            if wanted is None or partition in wanted
        }

    def every(self) -> tuple[PartitionVersion, ...]:
        """Every version of every table, without its provenance.

        Cost: every row of the table of versions, with its file set.
        """
        held = partition_versions
        chosen = select(*(column for column in held.c if column.name != "provenance"))
        return tuple(map(queries.partition_version, self._rows(chosen)))

    def extents(self) -> dict[str, tuple[date, date]]:
        """The first and the last partition of every table that ever had a version.

        Cost: one index scan over all versions, grouped in the database.
        """
        held = partition_versions
        ends = (func.min(held.c.partition_date).label("first"), func.max(held.c.partition_date).label("last"))
        chosen = select(held.c.table_name, *ends).group_by(held.c.table_name)
        return {row.table_name: (row.first, row.last) for row in self._rows(chosen)}

    def tables(self) -> tuple[str, ...]:
        """Every table that ever had a version, declared or not. Cost: one index scan over all versions."""
        return tuple(self._values(select(partition_versions.c.table_name).distinct().order_by("table_name")))


class VersionSteps(_VersionQueries, Writes):
    """The steps of versions that a publication names; not a part of a transaction's surface."""

    def supersede_expected(self, intent: PublicationIntent) -> list[str]:
        """The expected versions make way; returns the runs that made them or found them equal."""
        expected = sum(change.expected_version > 0 for change in intent.changes)
        named = publication_changes.c.expected_version
        return self._change_versions(intent, named, VersionState.ACCEPTED, VersionState.SUPERSEDED, expected)

    def accept_new(self, intent: PublicationIntent, delta_version: int, kind: RunPurpose) -> None:
        """Every change becomes a new version, one above the highest that its partition ever had; of an expiry, one that
        says that the snapshot has expired."""
        held, made = partition_versions.alias("held"), publication_changes
        highest = (
            select(func.coalesce(func.max(held.c.version), 0))
            .where(held.c.table_name == intent.table, held.c.partition_date == made.c.partition_date)
            .scalar_subquery()
        )
        values = {
            "table_name": literal(intent.table),
            "partition_date": made.c.partition_date,
            "version": highest + 1,
            "month": extract("year", made.c.partition_date) * 100 + extract("month", made.c.partition_date),
            "state": literal(made_by(kind), partition_versions.c.state.type),
            "run_id": literal(intent.run_id),
            "publication_id": made.c.publication_id,
            "files": made.c.new_files,
            "row_count": made.c.row_count,
            "checksum": made.c.checksum,
            "replaces": made.c.expected_version,
            "delta_version": literal(delta_version),
            "accepted_at": literal(self._log.now, partition_versions.c.accepted_at.type),
            "provenance": made.c.provenance,
            "files_digest": made.c.files_digest,
            "file_count": made.c.file_count,
            "size_bytes": made.c.size_bytes,
        }
        new = select(*values.values()).where(made.c.publication_id == intent.publication_id)
        accepted = insert(partition_versions).from_select(list(values), new)
        self._log.write(accepted, of=[(intent.publication_id, month_of(change.partition)) for change in intent.changes])

    def roll_back_expected(self, intent: PublicationIntent, kind: RunPurpose) -> list[str]:
        """The undone versions are no longer what readers see; returns the runs that made them or found them equal."""
        named, expected = publication_changes.c.expected_version, len(intent.changes)
        return self._change_versions(intent, named, made_by(kind), VersionState.ROLLED_BACK, expected)

    def accept_restored(self, intent: PublicationIntent) -> list[str]:
        """The versions before are accepted again; returns the runs that made them or found them equal."""
        expected = sum((change.restores or 0) > 0 for change in intent.changes)
        named = publication_changes.c.restores
        return self._change_versions(intent, named, VersionState.SUPERSEDED, VersionState.ACCEPTED, expected)

    def _change_versions(
        self, intent: PublicationIntent, named: Column[int], begins: VersionState, ends: VersionState, expected: int
    ) -> list[str]:
        if not may_follow(begins, ends):
            raise AssertionError(f"the transition table does not let a version that is {begins} become {ends}")
        held = partition_versions
        is_named = and_(
            held.c.table_name == intent.table,
            held.c.state == begins,
            exists().where(_is_named(intent, named)).correlate(held),
        )
        changed = self._log.write(update(held).where(is_named).values(state=ends), of=self._months(is_named))
        if changed.rowcount != expected:
            raise Damaged(
                what=f"publication {intent.publication_id} expected {expected} partitions of {intent.table} to be "
                f"{begins}, and found {changed.rowcount}.",
                of={"publication_id": intent.publication_id, "table": intent.table},
            )
        return self._runs_of(intent, named)

    def _runs_of(self, intent: PublicationIntent, named: Column[int]) -> list[str]:
        """The runs that made the named versions, and those whose standing publications found them equal."""
        held, found, made = partition_versions, verifications, publications
        brought_in = (
            select(held.c.run_id)
            .join_from(publication_changes, held, _is_named(intent, named))
            .where(held.c.table_name == intent.table)
        )
        equal = (
            select(made.c.run_id)
            .join_from(publication_changes, held, _is_named(intent, named))
            .join(found, and_(found.c.partition_date == held.c.partition_date, found.c.version == held.c.version))
            .join(made, made.c.publication_id == found.c.publication_id)
            .where(
                held.c.table_name == intent.table,
                made.c.table_name == intent.table,
                made.c.state == PublicationState.PUBLISHED,
                made.c.publication_id != intent.publication_id,
            )
        )
        repaired = self.repaired(intent.table)
        versions = ((change.partition, getattr(change, named.key)) for change in intent.changes)
        # What a repair has put back is what its first run made, too.
        first = {repaired[key].run_id for key in versions if key in repaired}
        return sorted({*self._values(brought_in), *self._values(equal), *first} - {intent.run_id})

    def without_accepted_versions(self, table: str, run_ids: Iterable[str]) -> list[str]:
        """The given runs whose rows no reader sees any more, neither as their own nor as found equal or repaired."""
        chosen = list(run_ids)
        held, made = partition_versions, publications
        seen: set[str] = set()
        for batch in batches(chosen):
            own = select(held.c.run_id).distinct().where(held.c.run_id.in_(batch))
            equal = found_equal(made.c.run_id).distinct().where(made.c.run_id.in_(batch))
            for visible in (own, equal):
                seen.update(self._values(visible.where(held.c.state == VersionState.ACCEPTED)))
        if repaired := self.repaired(table):
            now = select(held.c.partition_date, held.c.version).where(
                held.c.table_name == table, held.c.state == VersionState.ACCEPTED
            )
            accepted = map(tuple, self._rows_with(now, held.c.partition_date, {p for p, _ in repaired}))
            seen.update(repaired[key].run_id for key in accepted if key in repaired)
        return [run_id for run_id in chosen if run_id not in seen]


class VersionWrites(VersionReads, Writes):
    """Partition versions, and which of them have lost their files."""

    def mark_removed(self, versions: Iterable[tuple[str, date, int]]) -> int:
        """Remembers that the files of these versions are removed now, and says how many these are.

        An event of the removal has to follow in the same transaction.

        Cost: one row per version, by primary key, and the versions of the same publication and month.
        """
        held = partition_versions
        named = [
            {"of_table": table, "of_partition": partition, "of_version": version}
            for table, partition, version in versions
        ]
        if not named:
            return 0
        key = tuple_(held.c.table_name, held.c.partition_date, held.c.version)
        months: set[tuple[str, int]] = set()
        for batch in batches(tuple(each.values()) for each in named):
            months.update(self._months(key.in_(batch)))
        self._log.write(
            update(held)
            .where(
                held.c.table_name == bindparam("of_table"),
                held.c.partition_date == bindparam("of_partition"),
                held.c.version == bindparam("of_version"),
                held.c.removed_at.is_(None),
            )
            .values(removed_at=self._log.now),
            named,
            of=sorted(months),
        )
        return len(named)


def month_of(partition: date) -> int:
    """The month by which versions of a publication are digested, such as 202410."""
    return partition.year * 100 + partition.month


def _is_named(intent: PublicationIntent, named: Column[int]) -> ColumnElement[bool]:
    """True if a publication names a version, in its column `expected_version` or `restores`."""
    return and_(
        publication_changes.c.publication_id == intent.publication_id,
        publication_changes.c.partition_date == partition_versions.c.partition_date,
        named == partition_versions.c.version,
    )

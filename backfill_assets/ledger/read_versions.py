"""Reads of partition versions: what readers see, and what they saw before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date

from sqlalchemy import func, select, tuple_

from backfill_assets.errors import UnknownName
from backfill_assets.ledger import rows
from backfill_assets.ledger.queries import Queries, batches, optional_batches
from backfill_assets.ledger.records import AcceptedClaim, PartitionVersion
from backfill_assets.ledger.schema import partition_versions
from backfill_assets.ledger.states import VersionState
from backfill_assets.next_steps import Act, do


class VersionReads(Queries):
    """Partition versions."""

    def accepted(self, table: str, partitions: Iterable[date] | None = None) -> dict[date, PartitionVersion]:
        """What readers of a table see, in the order of its partitions.

        Cost: one index range: one row per accepted partition, with its file set.

        Args:
            table: A table; one without versions gives an empty mapping.
            partitions: Only these; those without an accepted version are left out of the answer.
        """
        held = partition_versions
        chosen = select(held).where(held.c.table_name == table, held.c.state == VersionState.ACCEPTED)
        found: dict[date, PartitionVersion] = {}
        for batch in optional_batches(partitions):
            some = chosen if batch is None else chosen.where(held.c.partition_date.in_(batch))
            found.update((row.partition_date, rows.partition_version(row)) for row in self._rows(some))
        return dict(sorted(found.items()))

    def first_partition(self) -> date | None:
        """The earliest partition of any table that was ever accepted; None when none was.

        Cost: one pass over an index.
        """
        first = func.min(partition_versions.c.partition_date).label("first")
        return next((row.first for row in self._rows(select(first))), None)

    def newest(self, table: str) -> date | None:
        """The last partition of a table that ever had a version, accepted or not; None when none had.

        Cost: one index lookup.
        """
        held = partition_versions
        newest = select(func.max(held.c.partition_date).label("newest")).where(held.c.table_name == table)
        return next((row.newest for row in self._rows(newest)), None)

    def undone_last(self, table: str, partitions: Sequence[date]) -> frozenset[date]:
        """Those of the partitions whose latest version was rolled back, whatever readers see of them since.

        Cost: one index range: one short row per version of the range of days.
        """
        if not partitions:
            return frozenset()
        held = partition_versions
        within = held.c.partition_date.between(min(partitions), max(partitions))
        chosen = select(held.c.partition_date, held.c.state).where(held.c.table_name == table, within)
        latest = {row.partition_date: row.state for row in self._rows(chosen.order_by(held.c.version))}
        return frozenset(p for p in partitions if latest.get(p) is VersionState.ROLLED_BACK)

    def makers(self, table: str, partitions: Iterable[date] | None = None) -> dict[date, str]:
        """The runs whose rows readers of these partitions see; those without an accepted version are absent.

        Cost: one index lookup per partition; of all, one index range with a short row per accepted partition.

        Args:
            table: A table.
            partitions: Only these.
        """
        held = partition_versions
        accepted = (held.c.table_name == table) & (held.c.state == VersionState.ACCEPTED)
        found: dict[date, str] = {}
        chosen = select(held.c.partition_date, held.c.run_id).where(accepted)
        for batch in optional_batches(partitions):
            some = chosen if batch is None else chosen.where(held.c.partition_date.in_(batch))
            found.update((row.partition_date, row.run_id) for row in self._rows(some))
        return found

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

    def history(self, table: str, partition: date | None = None) -> tuple[PartitionVersion, ...]:
        """Every version that was ever accepted, newest first.

        Cost: one index range: one row per version of the table or partition, with its file set.

        Args:
            table: A table.
            partition: Only this partition; otherwise all, in the order of the commits that brought them.
        """
        held = partition_versions
        chosen = select(held).where(held.c.table_name == table)
        if partition is not None:
            chosen = chosen.where(held.c.partition_date == partition).order_by(held.c.version.desc())
        else:
            chosen = chosen.order_by(held.c.delta_version.desc(), held.c.partition_date, held.c.version.desc())
        return tuple(rows.partition_version(row) for row in self._rows(chosen))

    def of_publication(self, publication_id: str) -> tuple[PartitionVersion, ...]:
        """The versions that a publication made, in the order of their partitions; none before it landed.

        Cost: one index range: one row per partition that it changed, with its file set.
        """
        held = partition_versions
        chosen = select(held).where(held.c.publication_id == publication_id).order_by(held.c.partition_date)
        return tuple(rows.partition_version(row) for row in self._rows(chosen))

    def pinned(self, table: str, pairs: Iterable[tuple[date, int]]) -> dict[date, PartitionVersion]:
        """Exactly these versions, whatever their state is by now, in the order of their partitions.

        Cost: one primary key lookup per version, with its file set.

        Args:
            table: A table.
            pairs: Partition and version, each partition once.

        Raises:
            UnknownName: A version that does not exist.
        """
        wanted = dict(pairs)
        held = partition_versions
        found: dict[date, PartitionVersion] = {}
        for batch in batches(wanted.items()):
            pair = tuple_(held.c.partition_date, held.c.version)
            chosen = select(held).where(held.c.table_name == table, pair.in_(batch))
            found.update((row.partition_date, rows.partition_version(row)) for row in self._rows(chosen))
        missing = sorted(wanted.keys() - found.keys())
        if missing:
            first = missing[0]
            raise UnknownName(
                f"{table} never had version {wanted[first]} of {first}"
                f"{f' (nor {len(missing) - 1} more of those asked for)' if len(missing) > 1 else ''}.",
                next_step=do(Act.HISTORY, table, partition=first),
                table=table,
                partition=first,
            )
        return dict(sorted(found.items()))

    def claims(self, table: str, partitions: Sequence[date] | None = None) -> dict[date, AcceptedClaim]:
        """The accepted versions of a table, in the order of its partitions.

        Cost: one index range: one short row per accepted partition of the range of days.

        Args:
            table: A table; one without versions gives an empty mapping.
            partitions: Only these; those without an accepted version are left out of the answer.
        """
        if partitions is not None and not partitions:
            return {}
        held = partition_versions
        columns = (
            held.c.version,
            held.c.run_id,
            held.c.files_digest,
            held.c.row_count,
            held.c.file_count,
            held.c.size_bytes,
        )
        chosen = (
            select(held.c.partition_date, *columns)
            .where(held.c.table_name == table, held.c.state == VersionState.ACCEPTED)
            .order_by(held.c.partition_date)
        )
        if partitions is not None:
            # One range and not a list of dates: thousands of them cost more to bind than the others to leave out.
            chosen = chosen.where(held.c.partition_date.between(min(partitions), max(partitions)))
        wanted = None if partitions is None else set(partitions)
        return {
            partition: AcceptedClaim(
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
        return tuple(map(rows.partition_version, self._rows(chosen)))

    def extents(self) -> dict[str, tuple[date, date]]:
        """The first and the last partition of every table that ever had a version.

        Cost: one index scan over all versions, grouped in the database.
        """
        held = partition_versions
        ends = (func.min(held.c.partition_date).label("first"), func.max(held.c.partition_date).label("last"))
        chosen = select(held.c.table_name, *ends).group_by(held.c.table_name)
        return {row.table_name: (row.first, row.last) for row in self._rows(chosen)}

    def tables(self) -> tuple[str, ...]:
        """Every table that ever had a version, declared or not.

        Cost: one index scan over all versions.
        """
        return tuple(self._values(select(partition_versions.c.table_name).distinct().order_by("table_name")))

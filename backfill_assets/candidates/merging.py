"""Merge: the content of partitions from the changes that a transform returns.

The changes are computed from the inputs as they are now, so that an accepted row whose key no change of its partition
names has no input any more. It is removed, or kept and counted where the table declares `keeps_withdrawn`.

What is accepted is read from the files that the manifest pins, so that the same manifest gives the same rows. A key
that can move to another partition is looked for in every partition of the table, which are all pinned for that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from backfill_assets.candidates.inputs import PinnedFiles
from backfill_assets.candidates.rows import stored_rows_of
from backfill_assets.domain import DerivedTable
from backfill_assets.gates.measured import MergedPartition
from backfill_assets.lake.checksums import NO_ROWS, partition_checksums
from backfill_assets.planning.kinds.merge import Merge, Older
from backfill_assets.planning.manifest import MERGED_WITH, Manifest
from backfill_assets.transforms.apply import with_lineage
from backfill_assets.transforms.schemas import business_schema
from backfill_assets.workspace import Workspace

_ACCEPTED_VERSION, _CHANGED_VERSION = "_accepted_version", "_changed_version"
_RANK, _TIMES, _ELSEWHERE = "_rank", "_times", "_elsewhere"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedRows:
    """The merge of the changes of some partitions."""

    ws: Workspace
    manifest: Manifest  #: The run's contract.
    change: Merge
    table: DerivedTable
    partitions: Sequence[date]  #: The partitions that are computed.
    files: PinnedFiles  #: The pinned files, those of the table itself among them.
    changes: DataFrame  #: What the transform returns for these partitions.

    def rows(self) -> DataFrame:
        """The new content, with lineage: the changes that are no deletes, and where the table keeps them, the accepted
        rows of keys that no change names."""
        columns = business_schema(self.table).fieldNames()
        named = self.named()
        changed = with_lineage(named.where(~self._is_delete()).select(*columns), self.table, self.manifest)
        if not self.change.keeps_withdrawn:
            return changed
        kept = self._accepted(inside=True).join(named.select(*self._on), self._on, "left_anti")
        return kept.unionByName(changed)

    def named(self) -> DataFrame:
        """The changes that count: where older ones are ignored, the latest of every key, if it is not older than the
        accepted row of a partition outside of the run. The rows of the run's partitions follow from its changes alone,
        unless the table keeps those that do not."""
        mode = self.change
        if mode.version is None or mode.older is Older.REFUSE:
            return self.changes
        latest = Window.partitionBy(*self._on).orderBy(F.col(mode.version).desc())
        ranked = self.changes.withColumn(_RANK, F.rank().over(latest)).where(F.col(_RANK) == 1).drop(_RANK)
        if not (mode.keeps_withdrawn or self._lacks):
            return ranked
        return self._with_accepted_version(ranked).where(~self._is_older()).drop(_ACCEPTED_VERSION)

    def measured(self, staged: DataFrame) -> Mapping[date, MergedPartition]:
        """Measures, by partition, what the changes are, which accepted rows none of them names, and whether the other
        staged rows are exactly those that stay.

        Args:
            staged: The staged rows of these partitions.
        """
        column, mode = self.table.partition.column, self.change
        of_key = Window.partitionBy(*self._on)
        decisive = [name for name in (column, *mode.on, mode.deletes, mode.version) if name]
        named = self.named()
        refuses = mode.version is not None and mode.older is Older.REFUSE
        every = self._with_accepted_version(named) if refuses else named
        counts = (
            every.withColumn(_TIMES, F.count(F.lit(1)).over(of_key))
            # What has no partition counts in the first one.
            .groupBy(F.coalesce(column, F.lit(self.partitions[0])).alias(column))
            .agg(
                F.count_if(~self._is_delete()).alias("changes"),
                F.count_if(self._is_delete()).alias("deletes"),
                F.count_if(reduce(Column.__or__, map(Column.isNull, map(F.col, decisive)))).alias("undecided"),
                F.count_if(F.col(_TIMES) > 1).alias("twice"),
                F.count_if(self._is_older() if refuses else F.lit(False)).alias("older"),
            )
        )
        found = {row[column]: row.asDict() for row in counts.collect()}
        taken_back = self._taken_back(named)
        elsewhere = self._elsewhere(named) if self._lacks else {}
        differing = self._differing(staged, named)
        every_day = sorted({*self.partitions, *found})
        return {
            partition: MergedPartition(
                **{name: found[partition][name] for name in _COUNTS if partition in found},
                taken_back=taken_back.get(partition, 0),
                are_kept=mode.keeps_withdrawn,
                elsewhere=elsewhere.get(partition, ()),
                others_differ=partition in differing,
            )
            for partition in every_day
        }

    @property
    def _on(self) -> list[str]:
        return list(self.change.on)

    @property
    def _lacks(self) -> tuple[date, ...]:
        """The partitions of the table that this does not compute, where keys can move between them."""
        held = sorted(self.files[MERGED_WITH])
        reached = {day for partition in self.partitions for day in self.change.merges_with(partition, held)}
        return tuple(sorted(reached - set(self.partitions)))

    def _is_delete(self) -> Column:
        deletes = self.change.deletes
        return F.coalesce(F.col(deletes), F.lit(False)) if deletes else F.lit(False)

    def _is_older(self) -> Column:
        version = self.change.version
        return F.coalesce(F.col(version) < F.col(_ACCEPTED_VERSION), F.lit(False)) if version else F.lit(False)

    def _accepted(self, *, inside: bool) -> DataFrame:
        """The pinned rows of the table: those of the partitions that are computed, or those of all others of it."""
        own, pinned = set(self.partitions), self.files[MERGED_WITH]
        return stored_rows_of(self.ws, self.table, (files for p, files in pinned.items() if (p in own) is inside))

    def _with_accepted_version(self, changes: DataFrame) -> DataFrame:
        """Changes with the version of the accepted row that an older one may not replace."""
        mode = self.change
        assert mode.version is not None
        counting = [self._accepted(inside=True)] if mode.keeps_withdrawn or mode.older is Older.REFUSE else []
        counting += [self._accepted(inside=False)] if self._lacks else []
        known = reduce(DataFrame.unionByName, counting).groupBy(*self._on)
        return changes.join(known.agg(F.max(mode.version).alias(_ACCEPTED_VERSION)), self._on, "left")

    def _taken_back(self, named: DataFrame) -> Mapping[date, int]:
        """The number of accepted rows of these partitions whose key no change names, by partition."""
        column = self.table.partition.column
        lost = self._accepted(inside=True).join(named.select(*self._on), self._on, "left_anti")
        return {row[column]: row["count"] for row in lost.groupBy(column).count().collect()}

    def _elsewhere(self, named: DataFrame) -> Mapping[date, tuple[date, ...]]:
        """The partitions outside the run that must be in it, by partition of the run.

        Those with accepted rows of changed keys; and unless rows stay that were taken back, all of them for a key whose
        row is not there any more or is an older one, and for one that a delete there may name: an earlier change of it
        can be in any partition.
        """
        column, mode = self.table.partition.column, self.change
        others = self._accepted(inside=False).select(*self._on, F.col(column).alias(_ELSEWHERE))
        found = named.select(column, *self._on).join(others, self._on).select(column, _ELSEWHERE).distinct().collect()
        by_partition: dict[date, set[date]] = {}
        for row in found:
            by_partition.setdefault(row[column], set()).add(row[_ELSEWHERE])
        if not mode.keeps_withdrawn:
            for partition in self._unsettled(named):
                by_partition.setdefault(partition, set()).update(self._lacks)
        return {partition: tuple(sorted(days)) for partition, days in by_partition.items()}

    def _unsettled(self, named: DataFrame) -> set[date]:
        """The partitions with keys whose row depends on changes outside of the run."""
        column, mode = self.table.partition.column, self.change
        version = F.col(mode.version) if mode.version else F.lit(0)
        changed = named.groupBy(*self._on).agg(F.max(version).alias(_CHANGED_VERSION))
        before = self._accepted(inside=True).join(changed, self._on, "left")
        is_lost = F.col(_CHANGED_VERSION).isNull() | (F.col(_CHANGED_VERSION) < version)
        unsettled = before.where(is_lost).select(column)
        again = [p for p in self.partitions if p in self.files[MERGED_WITH]]
        if mode.deletes and again:
            known = self._accepted(inside=True).unionByName(self._accepted(inside=False)).select(*self._on)
            added = named.where(~self._is_delete() & F.col(column).isin(again)).join(known, self._on, "left_anti")
            unsettled = unsettled.unionByName(added.select(column))
        return {row[column] for row in unsettled.distinct().collect()}

    def _differing(self, staged: DataFrame, named: DataFrame) -> set[date]:
        """The partitions in which rows of keys that no change names are not exactly those that stay."""
        keys, schema = named.select(*self._on), business_schema(self.table)
        column, keeps = self.table.partition.column, self.change.keeps_withdrawn
        after, before = (
            partition_checksums(rows.join(keys, self._on, "left_anti"), column, schema) if is_there else {}
            for rows, is_there in ((staged, True), (self._accepted(inside=True), keeps))
        )
        return {p for p in {*after, *before} if after.get(p, NO_ROWS) != before.get(p, NO_ROWS)}


_COUNTS = ("changes", "deletes", "undecided", "twice", "older")

"""Merge: the content of partitions from their accepted rows and the changes that a transform returns.

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
from backfill_assets.planning.manifest import MERGED_WITH, Manifest
from backfill_assets.planning.publish_mode import Older
from backfill_assets.transforms.apply import with_lineage
from backfill_assets.transforms.schemas import business_schema
from backfill_assets.workspace import Workspace

_ACCEPTED_VERSION, _RANK, _TIMES, _ELSEWHERE = "_accepted_version", "_rank", "_times", "_elsewhere"


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """The merge of the changes of some partitions.

    Attributes:
        manifest: The run's contract, for the mode and the pinned rows.
        partitions: The partitions that are computed.
        files: The pinned files, those of the table itself among them.
        changes: What the transform returns for these partitions.
    """

    ws: Workspace
    manifest: Manifest
    table: DerivedTable
    partitions: Sequence[date]
    files: PinnedFiles
    changes: DataFrame

    def rows(self) -> DataFrame:
        """The new content, with lineage: accepted rows without changed and deleted keys, and the changes that are no
        deletes."""
        columns = business_schema(self.table).fieldNames()
        named = self.named()
        kept = self._accepted(inside=True).join(named.select(*self._on), self._on, "left_anti")
        changed = named.where(~self._is_delete()).select(*columns)
        return kept.unionByName(with_lineage(changed, self.table, self.manifest))

    def named(self) -> DataFrame:
        """The changes that count: where older ones are ignored, the latest of every key, if it is not older than the
        accepted row."""
        mode = self.manifest.publish
        if mode.version is None or mode.older is Older.REFUSE:
            return self.changes
        latest = Window.partitionBy(*self._on).orderBy(F.col(mode.version).desc())
        ranked = self.changes.withColumn(_RANK, F.rank().over(latest)).where(F.col(_RANK) == 1).drop(_RANK)
        return self._with_accepted_version(ranked).where(~self._is_older()).drop(_ACCEPTED_VERSION)

    def measured(self, staged: DataFrame) -> Mapping[date, MergedPartition]:
        """What the changes are, and whether rows that none of them names are the accepted ones, by partition.

        Args:
            staged: The staged rows of these partitions.
        """
        column, mode = self.table.partition.column, self.manifest.publish
        of_key = Window.partitionBy(*self._on)
        decisive = [name for name in (column, *mode.on, mode.deletes, mode.version) if name]
        named = self.named()
        every = self._with_accepted_version(named) if mode.version else named
        counts = (
            every.withColumn(_TIMES, F.count(F.lit(1)).over(of_key))
            # What has no partition counts in the first one.
            .groupBy(F.coalesce(column, F.lit(self.partitions[0])).alias(column))
            .agg(
                F.count_if(~self._is_delete()).alias("changes"),
                F.count_if(self._is_delete()).alias("deletes"),
                F.count_if(reduce(Column.__or__, map(Column.isNull, map(F.col, decisive)))).alias("undecided"),
                F.count_if(F.col(_TIMES) > 1).alias("twice"),
                F.count_if(self._is_older() if mode.version else F.lit(False)).alias("older"),
            )
        )
        found = {row[column]: row.asDict() for row in counts.collect()}
        elsewhere = self._elsewhere(named) if mode.keys_move else {}
        differing = self._differing(staged, named)
        every_day = sorted({*self.partitions, *found})
        return {
            partition: MergedPartition(
                **{name: found[partition][name] for name in _COUNTS if partition in found},
                elsewhere=elsewhere.get(partition, ()),
                others_differ=partition in differing,
            )
            for partition in every_day
        }

    @property
    def _on(self) -> list[str]:
        return list(self.manifest.publish.on)

    def _is_delete(self) -> Column:
        deletes = self.manifest.publish.deletes
        return F.coalesce(F.col(deletes), F.lit(False)) if deletes else F.lit(False)

    def _is_older(self) -> Column:
        version = self.manifest.publish.version
        return F.coalesce(F.col(version) < F.col(_ACCEPTED_VERSION), F.lit(False)) if version else F.lit(False)

    def _accepted(self, *, inside: bool) -> DataFrame:
        """The pinned rows of the table: those of the partitions that are computed, or those of all others of it."""
        own, pinned = set(self.partitions), self.files[MERGED_WITH]
        return stored_rows_of(self.ws, self.table, (files for p, files in pinned.items() if (p in own) is inside))

    def _with_accepted_version(self, changes: DataFrame) -> DataFrame:
        version = self.manifest.publish.version
        assert version is not None
        accepted = self._accepted(inside=True)
        if self.manifest.publish.keys_move:
            accepted = accepted.unionByName(self._accepted(inside=False))
        known = accepted.groupBy(*self._on).agg(F.max(version).alias(_ACCEPTED_VERSION))
        return changes.join(known, self._on, "left")

    def _elsewhere(self, named: DataFrame) -> Mapping[date, tuple[date, ...]]:
        """In which partitions outside of the run the accepted rows of changed keys are, by partition of the change."""
        column = self.table.partition.column
        others = self._accepted(inside=False).select(*self._on, F.col(column).alias(_ELSEWHERE))
        found = named.select(column, *self._on).join(others, self._on).select(column, _ELSEWHERE).distinct().collect()
        by_partition: dict[date, set[date]] = {}
        for row in found:
            by_partition.setdefault(row[column], set()).add(row[_ELSEWHERE])
        return {partition: tuple(sorted(days)) for partition, days in by_partition.items()}

    def _differing(self, staged: DataFrame, named: DataFrame) -> set[date]:
        """The partitions in which rows of keys that no change names are not exactly the accepted ones."""
        keys, schema = named.select(*self._on), business_schema(self.table)
        column = self.table.partition.column
        after, before = (
            partition_checksums(rows.join(keys, self._on, "left_anti"), column, schema)
            for rows in (staged, self._accepted(inside=True))
        )
        return {p for p in {*after, *before} if after.get(p, NO_ROWS) != before.get(p, NO_ROWS)}


_COUNTS = ("changes", "deletes", "undecided", "twice", "older")

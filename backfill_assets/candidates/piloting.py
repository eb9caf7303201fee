"""Pilot: the content of partitions from the computed rows of a scope and the accepted rows of everything else.

A key whose accepted or computed row is in the scope gets its computed row, so that no key is lost and none is there
twice where the two rows differ in whether they are in it. Then rows outside of the scope differ, which a gate finds.

What is accepted is read from the files that the manifest pins, as with a merge, so that the same manifest gives the
same rows, and other rows than those that were accepted then are never published.
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
from backfill_assets.gates.measured import PilotedPartition
from backfill_assets.lake.checksums import NO_ROWS, partition_checksums
from backfill_assets.planning.kinds.change import Scope
from backfill_assets.planning.manifest import MERGED_WITH
from backfill_assets.transforms.schemas import business_schema
from backfill_assets.workspace import Workspace

_IS_COMPUTED, _IS_TAKEN = "__is_computed", "__is_taken"


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotedRows:
    """The pilot of some partitions."""

    ws: Workspace
    scope: Scope  #: The rows that change.
    table: DerivedTable
    partitions: Sequence[date]  #: The partitions that are computed.
    files: PinnedFiles  #: The pinned files, those of the table itself among them.

    def rows(self, computed: DataFrame) -> DataFrame:
        """The new content, with lineage: computed rows of keys in the scope, and the accepted rows of the others."""
        inside, of_key = is_inside(self.scope), {self.table.partition.column, *self.table.key}
        accepted = self._accepted()
        if of_key.issuperset(column for column, _ in self.scope.where):
            # Both rows of a key are inside, or neither is.
            return accepted.where(~inside).unionByName(computed.where(inside))
        both = accepted.withColumn(_IS_COMPUTED, F.lit(False)).unionByName(
            computed.withColumn(_IS_COMPUTED, F.lit(True))
        )
        is_taken = F.max(inside).over(Window.partitionBy(*sorted(of_key)))
        taken = both.withColumn(_IS_TAKEN, is_taken).where(F.col(_IS_TAKEN) == F.col(_IS_COMPUTED))
        return taken.drop(_IS_TAKEN, _IS_COMPUTED)

    def measured(self, staged: DataFrame) -> Mapping[date, PilotedPartition]:
        """Measures, by partition, how many rows the scope has, and whether the rows outside it are the accepted ones.

        Args:
            staged: The staged rows of these partitions.
        """
        column, schema, outside = self.table.partition.column, business_schema(self.table), ~is_inside(self.scope)
        after, before = (
            partition_checksums(rows.where(outside), column, schema) for rows in (staged, self._accepted())
        )
        counted = staged.where(is_inside(self.scope)).groupBy(column).count().collect()
        rows = {row[column]: row["count"] for row in counted}
        return {
            partition: PilotedPartition(
                scope=str(self.scope),
                rows=rows.get(partition, 0),
                others_differ=after.get(partition, NO_ROWS) != before.get(partition, NO_ROWS),
            )
            for partition in self.partitions
        }

    def _accepted(self) -> DataFrame:
        pinned = self.files[MERGED_WITH]
        return stored_rows_of(self.ws, self.table, (pinned[partition] for partition in self.partitions))


def is_inside(scope: Scope) -> Column:
    """True if a row is in a scope; a row without a value in a named column is outside."""
    named = [F.coalesce(F.col(column).cast("string") == F.lit(value), F.lit(False)) for column, value in scope.where]
    found = reduce(Column.__and__, named)
    return ~found if scope.is_rest else found

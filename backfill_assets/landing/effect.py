"""Effect: what records that have not landed would do to the keys of their source.

Each key is compared with what it is now, by the same rules as an account: of a key that has several records, the one
that would decide it counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill_assets.domain import Operation
from backfill_assets.domain.operations import OPERATION
from backfill_assets.landing.affected import PHASE, WITH, WITHOUT, in_both_phases
from backfill_assets.landing.attempt import Landing
from backfill_assets.landing.conformed import CONTENT_HASH, valid_rows
from backfill_assets.landing.contract import REASON
from backfill_assets.landing.standing import DECIDES, KeyState, key_state, standing, version_columns
from backfill_assets.ledger.import_records import ImportRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """How many keys of files are what; a key that they end, or that another version decides, is in none or unchanged.

    Attributes:
        new: Keys that are not there now.
        changed: Those with other values on the same day.
        moved: Those that are on another day now.
        unchanged: Those that stay as they are.
    """

    new: int = 0
    changed: int = 0
    moved: int = 0
    unchanged: int = 0


def effect_of(work: Landing, offered: DataFrame, others: Sequence[ImportRecord]) -> Effect:
    """What conformed records would do.

    Args:
        work: The landing.
        offered: The records, which arrive after all others.
        others: The imports that count.
    """
    source = work.source
    mine = offered.where(F.col(REASON).isNull()).select(*version_columns(source))
    theirs = valid_rows(work.spark, work.landing, source, others).select(*version_columns(source))
    affected = theirs.join(mine.select(*source.key).distinct(), on=list(source.key), how="left_semi")
    affected = affected.select(*mine.columns)
    if source.operation is not None and source.operation.truncate is not None:
        affected = affected.unionByName(theirs.where(F.col(OPERATION).eqNullSafe(F.lit(str(Operation.TRUNCATE)))))
    found = standing(in_both_phases(mine, affected), source, others, apart=(PHASE,))
    current = found.where(F.col(DECIDES) & (key_state() == F.lit(str(KeyState.CURRENT))))
    day, content = F.col(source.partition.column).alias("day"), F.col(CONTENT_HASH).alias("content")
    in_phase = {phase: F.max(F.when(F.col(PHASE) == phase, F.struct(day, content))) for phase in (WITHOUT, WITH)}
    by_key = current.groupBy(*source.key).agg(in_phase[WITHOUT].alias("was"), in_phase[WITH].alias("is"))
    kind = (
        F.when(F.col("was").isNull(), "new")
        .when(F.col("was.day") != F.col("is.day"), "moved")
        .when(F.col("was.content") != F.col("is.content"), "changed")
        .otherwise("unchanged")
    )
    counts = by_key.where(F.col("is").isNotNull()).groupBy(kind.alias("kind")).count().collect()
    return Effect(**{row["kind"]: row["count"] for row in counts})

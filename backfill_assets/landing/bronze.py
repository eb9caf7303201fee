"""Which rows does a day of bronze have, and which days does it lack?

Day d is built from every import that touches d: those with events of d, and those that moved a key away from d. Among
all their versions of a key the latest arrival wins, and it belongs to one day only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from backfill_assets.domain import SourceTable
from backfill_assets.errors import MissingInput
from backfill_assets.identity import document_digest
from backfill_assets.landing.conformed import ARRIVAL, IMPORT_ID, LIVE, valid_rows
from backfill_assets.landing.formats import ROW
from backfill_assets.landing.land import OnDuplicate
from backfill_assets.ledger.records import ImportRecord
from backfill_assets.ledger.states import ImportState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.next_steps import Act, do
from backfill_assets.planning.partitions import Grain, compress
from backfill_assets.settings import Settings

LOAD, LOAD_VERSION = "load", "1"
"""What builds every source table, as manifests name it."""

_MOST_RANGES = 50
_UNFINISHED = (ImportState.LANDING, ImportState.FAILED)


def bronze_rows(
    spark: SparkSession,
    settings: Settings,
    source: SourceTable,
    *,
    imports: Sequence[ImportRecord],
    days: Sequence[date],
) -> DataFrame:
    """The rows of some days of a source table.

    Args:
        spark: The session.
        settings: Where the landing folder is.
        source: The source table.
        imports: What `imports_for_days` gives for these days.
        days: The days to build.

    Returns:
        The contract's columns, the partition column, `_import_id` and `_row`: one row per key, the latest arrival.
    """
    versions = valid_rows(spark, settings.landing, source, [record.import_id for record in imports])
    latest = Window.partitionBy(*source.key).orderBy(F.col(ARRIVAL).desc(), F.col(ROW).desc())
    return (
        versions.withColumn("_rank", F.row_number().over(latest))
        .where((F.col("_rank") == 1) & _on(F.col(source.partition.column), days))
        .select(*source.schema.fieldNames(), source.partition.column, IMPORT_ID, ROW)
    )


def _on(day: Column, days: Sequence[date]) -> Column:
    ranges = compress(Grain.DAILY, days)
    if len(ranges) > _MOST_RANGES:
        return day.isin(list(days))
    within = F.lit(False)
    for each in ranges:
        within = within | day.between(F.lit(each.start), F.lit(each.last))
    return within


def contract_of(source: SourceTable) -> Mapping[str, str]:
    """What steers the building of a source table: the digest of what its author declares of a record."""
    contract = {"schema": source.schema.json(), "key": list(source.key), "event_time": source.event_time}
    return {"contract": document_digest(contract)}


def imports_for_days(tx: ReadTransaction, source: SourceTable, days: Iterable[date]) -> tuple[ImportRecord, ...]:
    """The imports that the rows of these days follow from, in the order of arrival.

    An import that was reprocessed may hold keys, at its earlier place, that later imports have on other days; so the
    later ones are among them.

    Raises:
        MissingInput: An import that was landed before is unfinished, so its records of these days are out of reach.
    """
    wanted = tuple(days)
    touching = {day.import_id for day in tx.imports.days(source=source.name, days=wanted)}
    every = tx.imports.records(source.name)
    for record in every:
        if record.import_id in touching and record.state in _UNFINISHED and record.landed_at is not None:
            raise MissingInput(
                f"{record.import_id} ({record.original_path}) holds records of these days, and was being reprocessed "
                f"when it stopped.",
                next_step=do(Act.LAND, source.short_name, record.original_path, on_duplicate="reprocess"),
                import_id=record.import_id,
            )
    live = [record for record in every if record.state in LIVE]
    again = [r.arrival for r in live if r.import_id in touching and r.on_duplicate == OnDuplicate.REPROCESS]
    since = min(again, default=None)
    return tuple(
        record for record in live if record.import_id in touching or (since is not None and record.arrival > since)
    )

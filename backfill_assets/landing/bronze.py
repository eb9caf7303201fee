"""Bronze: the rows of a day of a source table, and the raw records of landed files that they are checked against."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill_assets.calendar.partitions import Grain, compress
from backfill_assets.capture.landed_files import GIVEN_FILE, STATEMENT, landing_files, landing_place
from backfill_assets.core.places import for_spark
from backfill_assets.core.settings import Settings
from backfill_assets.domain import Operation, SourceTable
from backfill_assets.domain.operations import (
    ENDED_BY,
    OPERATION,
    POSITION,
    UNKNOWN_SINCE,
    VALID_FROM,
    VALID_UNTIL,
    UnknownKeys,
)
from backfill_assets.landing.conformed import ARRIVAL, HAPPENED, IMPORT_ID, ConformedRecords, conformed, owner_of
from backfill_assets.landing.decoding.decode import ToRead, to_read
from backfill_assets.landing.errors import RawFileChanged
from backfill_assets.landing.file_versions import probe_versions, records_by_version
from backfill_assets.landing.formats import ROW
from backfill_assets.landing.key_versions import (
    DECIDES,
    EARLIEST,
    IS_DUPLICATE,
    IS_OVERRIDDEN,
    NEXT,
    UNKNOWN,
    VOID_BY,
    resolve_versions,
)
from backfill_assets.landing.probe import Probe
from backfill_assets.landing.record_rules import REASON, Bounds, happened_at
from backfill_assets.ledger.imports import ImportRecord

# Raw records: the records of landed files, read and judged again from the bytes that landed.
#
# What landing keeps of a file, its conformed records, is left aside: a rebuilt day then follows from the raw
# bytes alone. The keys of a statement, such as a withdrawal, are in no raw file and are read as they were
# recorded.

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """The counts of a file: its records, the rejected ones among them, and the days of the others."""

    landed: int = 0
    rejected: int = 0
    days: tuple[date, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RawRecords(ConformedRecords):
    """The records of a source as its landed files have them."""

    settings: Settings  #: Where they are.
    owner: str  #: Whose decoded files theirs are; Spark reads them until the owner removes them.

    def read(self, imports: Sequence[ImportRecord], *, hashed: Collection[str] = ()) -> DataFrame:
        """Every record of these imports, judged again in the present version of the contract.

        Raises:
            RawFileChanged: A landed file is gone, or has other bytes.
        """
        stated = [record for record in imports if record.format == STATEMENT]
        parts = [self._judged(record) for record in imports if record.format != STATEMENT]
        if stated or not parts:
            parts.append(ConformedRecords.read(self, stated, hashed=hashed))
        return reduce(DataFrame.unionByName, parts)

    def counted(self, imports: Sequence[ImportRecord]) -> Mapping[str, Counted]:
        """The counts of each of these imports."""
        day = F.col(self.source.partition.column)
        of_day = self.read(imports).groupBy(IMPORT_ID, F.when(F.col(REASON).isNull(), day).alias("day"))
        lines = of_day.agg(F.count("*").alias("all"), F.count(REASON).alias("rejected")).collect()
        found = {record.import_id: Counted() for record in imports}
        for row in lines:
            was, days = found[row[IMPORT_ID]], [row["day"]] if row["day"] else []
            found[row[IMPORT_ID]] = Counted(
                landed=was.landed + row["all"], rejected=was.rejected + row["rejected"], days=(*was.days, *days)
            )
        return found

    def _judged(self, record: ImportRecord) -> DataFrame:
        read, probe = self._probed(record)
        stored = for_spark(self.landing.place, read.stored_path or record.stored_path)
        raw = records_by_version(self.spark, stored, kind=read.kind, probe=probe, source=self.source, name=record.name)
        bounds = Bounds(first_day=self.settings.first_day, judged_at=record.judged_at)
        owner = owner_of(record.import_id, record.arrival, record.name)
        return conformed(raw, source=self.source, owner=owner, bounds=bounds)

    def _probed(self, record: ImportRecord) -> tuple[ToRead, Probe]:
        """The bytes that landed as the readers take them, and the result of probing these.

        The landed ones are hashed on the way.
        """
        hashed = hashlib.sha256()
        place, name = landing_place(self.settings, self.source.name), record.name
        with place.scratch() as copy:
            try:
                with self.landing.open(record.stored_path) as stored, copy.open("wb") as target:
                    while chunk := stored.read(_CHUNK):
                        hashed.update(chunk)
                        target.write(chunk)
            except FileNotFoundError as error:
                raise RawFileChanged(import_id=record.import_id, path=record.stored_path, why="is gone") from error
            if hashed.hexdigest() != record.sha256:
                why = "has other bytes than those that landed"
                raise RawFileChanged(import_id=record.import_id, path=record.stored_path, why=why)
            offered = record.family == GIVEN_FILE
            with to_read(place, self.owner, copy, record.kind, self.source, name=name, is_offered=offered) as read:
                probe = probe_versions(read.copy, read.kind, self.source, name=name, counted=True)
            return read, probe


# Bronze: the rows of a day of a source table.
#
# Day d is built from every import that touches d: those with events of d, and those that moved, deleted or
# withdrew a key of d. What each of their versions is, `resolve_versions` decides; a key that is not known is left out
# only where its source says so. A source without operations keeps the current rows; one with operations keeps its
# changelog, in which the current rows are marked by `_operation` and `_ended_by`.

_MOST_RANGES = 50
_ROW_BITS = 40
"""A file has fewer records than 2^40, and a ledger fewer imports than 2^23."""


def bronze_rows(
    spark: SparkSession,
    settings: Settings,
    source: SourceTable,
    *,
    imports: Sequence[ImportRecord],
    days: Sequence[date],
    raw_owner: str = "",
) -> DataFrame:
    """The rows of some days of a source table.

    Args:
        imports: What `imports_for_days` gives for these days.
        raw_owner: Read and judge the landed files again, instead of the conformed records that were kept of them. What
            is decoded of them meanwhile is kept for this owner.

    Returns:
        The contract's columns, the partition column, those of the changelog if the source has one, `_import_id` and
        `_row`: one row per key, or per key and position.
    """
    landing = landing_files(settings)
    records = (
        RawRecords(spark=spark, landing=landing, source=source, settings=settings, owner=raw_owner)
        if raw_owner
        else ConformedRecords(spark=spark, landing=landing, source=source)
    )
    found = _versions(records, imports, days)
    kept = [*source.schema.fieldNames(), source.partition.column]
    is_dropped = F.col(UNKNOWN).isNotNull() if source.unknown == UnknownKeys.DROP else F.lit(False)
    if source.operation is None:
        return found.where(F.col(DECIDES) & ~is_dropped).select(*kept, IMPORT_ID, ROW)
    is_truncate = F.coalesce(F.col(OPERATION) == Operation.TRUNCATE, F.lit(False))
    held = found.where(~is_truncate & F.col(VOID_BY).isNull() & ~F.col(IS_DUPLICATE) & ~F.col(IS_OVERRIDDEN))
    # Since when is not known of a rejected record whose time cannot be read: then for no time that could be told.
    unknown_since = F.coalesce(F.col(f"{UNKNOWN}.at"), F.col(HAPPENED))
    until = F.when(is_dropped, unknown_since).otherwise(F.col(f"{EARLIEST}.at"))
    changes = [
        F.col(OPERATION),
        F.col(HAPPENED).alias(VALID_FROM),
        F.when(until.isNotNull(), F.greatest(F.col(HAPPENED), until)).alias(VALID_UNTIL),
        F.when(is_dropped, F.lit(UNKNOWN_SINCE)).otherwise(F.col(f"{NEXT}.operation")).alias(ENDED_BY),
    ]
    if not source.order:
        changes.insert(1, (F.shiftleft(F.col(ARRIVAL).cast("bigint"), _ROW_BITS) + F.col(ROW)).alias(POSITION))
    return held.select(*kept, *changes, IMPORT_ID, ROW)


def unknown_keys(
    spark: SparkSession,
    settings: Settings,
    source: SourceTable,
    *,
    imports: Sequence[ImportRecord],
    days: Sequence[date],
) -> DataFrame:
    """The keys of some days that are not known: the key, its day, and the import, number and reason of the first
    rejected record since which it is not. `imports` as for `bronze_rows`."""
    records = ConformedRecords(spark=spark, landing=landing_files(settings), source=source)
    found = _versions(records, imports, days).where(F.col(UNKNOWN).isNotNull())
    since = (F.col(f"{UNKNOWN}.{name}").alias(name) for name in (IMPORT_ID, ROW, "reason"))
    return found.select(*source.key, source.partition.column, *since)


def _versions(records: ConformedRecords, imports: Sequence[ImportRecord], days: Sequence[date]) -> DataFrame:
    """The versions of some days, with what each of them is."""
    source = records.source
    versions = records.versions(imports).withColumn(HAPPENED, happened_at(source))
    return resolve_versions(versions, source, imports).where(_on(F.col(source.partition.column), days))


def _on(day: Column, days: Sequence[date]) -> Column:
    ranges = compress(Grain.DAILY, days)
    if len(ranges) > _MOST_RANGES:
        return day.isin(list(days))
    within = F.lit(False)
    for each in ranges:
        within = within | day.between(F.lit(each.start), F.lit(each.last))
    return within

"""Raw records: the records of landed files, read and judged again from the bytes that landed.

What landing keeps of a file, its conformed records, is left aside: a rebuilt day then follows from the raw bytes alone.
The keys of a statement, such as a withdrawal, are in no raw file and are read as they were recorded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill_assets.capture.landed_files import Family, landing_place
from backfill_assets.core.places import for_spark
from backfill_assets.core.settings import Settings
from backfill_assets.landing.conformed import IMPORT_ID, ConformedRecords, conformed, owner_of
from backfill_assets.landing.decoding.kept import ToRead, to_read
from backfill_assets.landing.errors import RawFileChanged
from backfill_assets.landing.file_versions import probe_versions, records_by_version
from backfill_assets.landing.imports import STATEMENT
from backfill_assets.landing.probe import Probe
from backfill_assets.landing.record_rules import REASON, Bounds
from backfill_assets.ledger.imports import ImportRecord

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """How many records a file has, how many of them are rejected, and on which days the others are."""

    landed: int = 0
    rejected: int = 0
    days: tuple[date, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RawRecords(ConformedRecords):
    """The records of a source as its landed files have them.

    Attributes:
        settings: Where they are.
        owner: Whose decoded files theirs are; Spark reads them until the owner removes them.
    """

    settings: Settings
    owner: str

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
        """What each of these imports has."""
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
            offered = record.family == Family.FILE
            with to_read(place, self.owner, copy, record.kind, self.source, name=name, is_offered=offered) as read:
                probe = probe_versions(read.copy, read.kind, self.source, name=name, counted=True)
            return read, probe

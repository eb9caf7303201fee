"""A small source table and a room to land its files in, for the tests of landing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StringType, StructField, StructType, TimestampType

from backfill_assets.capture.files.file_capture import FileCapture
from backfill_assets.core.clock import Clock
from backfill_assets.core.crash_points import carry_on
from backfill_assets.core.places import for_spark
from backfill_assets.core.settings import Settings
from backfill_assets.core.spark import give_access
from backfill_assets.domain import SourceTable, daily
from backfill_assets.landing.attempt import Landed, Landing, new_lease
from backfill_assets.landing.bronze import bronze_rows, unknown_keys
from backfill_assets.landing.decoding.decode import formats
from backfill_assets.landing.extract import Extract, LandedExtract, Withdrawn, land_extract, preview
from backfill_assets.landing.formats import ROW, records
from backfill_assets.landing.imports import OnDuplicate, imports_for_days
from backfill_assets.landing.land import land_files
from backfill_assets.landing.record_rules import REASON, Bounds, judged
from backfill_assets.ledger.imports import ImportRecord
from backfill_assets.ledger.store import Ledger

EVENTS = SourceTable(
    name="bronze.events",
    key=("event_id",),
    event_time="event_time",
    partition=daily("event_date"),
    schema=StructType(
        [
            StructField("event_id", StringType(), nullable=False),
            StructField("event_time", TimestampType(), nullable=False),
            StructField("place", StringType()),
            StructField("attributes", StringType()),
            StructField("schema_version", IntegerType()),
        ]
    ),
    json_columns=("attributes",),
)

LANDED_AT = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)
BOUNDS = Bounds(first_day=date(1999, 1, 1), judged_at=LANDED_AT)


def event(event_id: str = "e1", event_time: str = "2024-05-01T10:00:00Z", **more: Any) -> dict[str, Any]:
    return {"event_id": event_id, "event_time": event_time, **more}


def json_lines(*rows: Mapping[str, Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


@dataclass(frozen=True, kw_only=True)
class LandingRoom:
    """A ledger, a landing folder, a quarantine that keeps what it is given, and an inbox to write files into."""

    spark: SparkSession
    settings: Settings
    ledger: Ledger
    inbox: Path
    source: SourceTable = EVENTS
    quarantined: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def of(self, *names: str) -> LandingRoom:
        """The room with a contract of key, event time and these columns: each makes the plan of a file longer."""
        wanted = {*self.source.key, self.source.event_time, *names}
        schema = StructType([each for each in self.source.schema if each.name in wanted])
        in_json = tuple(each for each in self.source.json_columns if each in wanted)
        return replace(self, source=replace(self.source, schema=schema, json_columns=in_json))

    def write(self, content: bytes, name: str) -> Path:
        self.inbox.mkdir(parents=True, exist_ok=True)
        path = self.inbox / name
        path.write_bytes(content)
        return path

    def land(
        self, content: bytes, name: str = "events.jsonl", *, on_duplicate: OnDuplicate = OnDuplicate.IGNORE
    ) -> Landed:
        return self.land_path(self.write(content, name), on_duplicate=on_duplicate)

    def land_path(self, path: Path, *, on_duplicate: OnDuplicate = OnDuplicate.IGNORE) -> Landed:
        return self.land_paths([path], on_duplicate=on_duplicate)[0]

    def land_paths(self, paths: Sequence[Path], *, on_duplicate: OnDuplicate = OnDuplicate.IGNORE) -> list[Landed]:
        """Files in one call."""
        landed: list[Landed] = []
        land_files(self.work(), self.offered(paths), on_duplicate, landed.append)
        return landed

    def offered(self, paths: Sequence[Path]) -> list[FileCapture]:
        of_source = formats(self.source)
        return [FileCapture(path, of_source) for path in paths]

    def work(self) -> Landing:
        """What several files, statements and extracts work with."""
        return Landing(
            ledger=self.ledger,
            open_session=lambda: self.spark,
            settings=self.settings,
            source=self.source,
            by="ada",
            quarantine=self.keep,
            reached=carry_on,
            lease=new_lease(self.settings),
        )

    def keep(self, frame: DataFrame, import_id: str) -> None:
        self.quarantined[import_id] = [row.asDict() for row in frame.orderBy("row_number").collect()]

    def imports(self) -> tuple[ImportRecord, ...]:
        with self.ledger.read() as reader:
            return reader.imports.records(self.source.name)

    def bronze(self, days: Sequence[date]) -> list[dict[str, Any]]:
        with self.ledger.read() as reader:
            imports = imports_for_days(reader, self.source, days)
        frame = bronze_rows(self.spark, self.settings, self.source, imports=imports, days=days)
        return [row.asDict() for row in frame.orderBy(*self.source.row_key).collect()]

    def unknown(self, days: Sequence[date]) -> list[dict[str, Any]]:
        """The keys of some days that are not known."""
        with self.ledger.read() as reader:
            imports = imports_for_days(reader, self.source, days)
        found = unknown_keys(self.spark, self.settings, self.source, imports=imports, days=days)
        return [row.asDict() for row in found.orderBy(*self.source.key).collect()]

    def judge(self, content: bytes, name: str, *, as_text: bool = False) -> list[dict[str, Any]]:
        """The judged records of one file, without a ledger; as texts, values of years that Python cannot hold too."""
        (offered,) = self.offered([self.write(content, name)])
        (found,) = self.work().captured(offered)
        raw = records(
            self.spark,
            [for_spark(self.settings.landing, found.stored_path)],
            kind=found.kind,
            probe=found.probe,
            source=self.source,
        )
        frame = judged(raw.frame, self.source, bounds=BOUNDS).withColumn("text", raw.text)
        rows = frame.orderBy(ROW)
        if as_text:
            rows = rows.select(*(F.col(column).cast("string") for column in rows.columns))
        return [row.asDict() for row in rows.collect()]


Opened = Callable[[SourceTable], AbstractContextManager[LandingRoom]]


@contextmanager
def landing_room(
    spark: SparkSession, settings: Settings, clock: Clock, source: SourceTable = EVENTS
) -> Iterator[LandingRoom]:
    settings.home.mkdir(parents=True, exist_ok=True)
    give_access(spark, settings)
    with closing(Ledger.open(settings.ledger_url, clock=clock)) as ledger:
        yield LandingRoom(spark=spark, settings=settings, ledger=ledger, inbox=settings.home / "inbox", source=source)


def reasons(rows: Sequence[Mapping[str, Any]]) -> list[str | None]:
    return [row[REASON] for row in rows]


def land_foreseen(room: LandingRoom, paths: Sequence[Path], stated: Extract) -> tuple[Withdrawn, LandedExtract]:
    """Lands an extract, which does to keys, records and dates what its preview had said."""
    captures = room.offered(paths)
    expected = preview(room.work(), captures, stated, now=LANDED_AT)
    landed = land_extract(room.work(), captures, stated)
    if landed.statement.is_new:
        found = landed.withdrawn
        assert (found.keys, found.current, found.rejected) == (expected.keys, expected.current, expected.rejected)
        assert expected.files is not None and expected.rebuilt is not None
        for name in ("landed", "accepted", "duplicate", "superseded", "rejected"):
            assert getattr(expected.files, name) == sum(getattr(each.record.counts, name) for each in landed.files), (
                name
            )
        assert expected.rebuilt.days == landed.statement.days
    return expected, landed

"""Event times and times of operations, each a date or a timestamp: to which day a record belongs, since when it is true
and whether it is in the future. What they have to be is said here in Python."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import product
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DateType, StringType, StructField, StructType, TimestampType

from backfill_assets.domain import Operations, SourceTable, daily, seconds
from backfill_assets.landing.record_rules import BROKEN, REASON, Bounds, happened_at, judged, local_day

LANDED_AT = datetime(2026, 1, 15, 9, 30, tzinfo=UTC)
FIRST_DAY = date(2026, 1, 3)
DATE, TIME = DateType(), TimestampType()
DATES = [None, "2026-01-02", "2026-01-03", "2026-01-14", "2026-01-15", "2026-01-16", "2026-01-17", "2026-13-01"]
TIMES = [
    *(None, "2026-01-02T23:59:59Z", "2026-01-03T00:00:00Z", "2026-01-14T23:30:00Z", "2026-01-15T09:30:00Z"),
    *("2026-01-15T09:30:00.000001Z", "2026-01-15T09:31:00Z", "2026-01-15T09:31:00.000001Z", "2026-02-01T00:00:00Z"),
]


@dataclass(frozen=True)
class Case:
    """What a source declares of its times."""

    event: DataType
    at: DataType | None = None
    zone: str = ""
    ahead: int = 0
    planned: bool = False

    @property
    def source(self) -> SourceTable:
        columns = [StructField("id", StringType(), nullable=False), StructField("on", self.event)]
        columns += [StructField("at", self.at)] if self.at else []
        # Of a date alone a zone says nothing, so that there is always a time.
        columns += [StructField("op", StringType(), nullable=False), StructField("seen", TIME)]
        return SourceTable(
            name="bronze.things",
            key=("id",),
            event_time="on",
            partition=daily("day"),
            timezone=self.zone,
            schema=StructType(columns),
            operation=Operations(column="op", update="u", delete="d", at="at" if self.at else None),
            ahead=seconds(self.ahead),
            planned=self.planned,
        )


CASES = [
    *(Case(event, at, zone) for event in (DATE, TIME) for at in (None, DATE, TIME) for zone in ("", "Asia/Tokyo")),
    *(Case(event, ahead=60) for event in (DATE, TIME)),
    Case(DATE, ahead=14 * 3600),
    *(Case(event, at, planned=True) for event in (DATE, TIME) for at in (None, DATE)),
]


def values(kind: DataType) -> list[str | None]:
    return [*(DATES if kind == DATE else TIMES)]


def read(text: str | None, kind: DataType) -> date | datetime | None:
    try:
        return text and (date.fromisoformat(text) if kind == DATE else datetime.fromisoformat(text))  # type: ignore
    except ValueError:
        return None


def day_of(value: date | datetime | None, zone: str) -> date | None:
    return value.astimezone(ZoneInfo(zone)).date() if isinstance(value, datetime) else value


def is_future(value: date | datetime, case: Case) -> bool:
    latest = LANDED_AT + timedelta(seconds=case.ahead)
    if case.planned:
        return False
    # Kiribati is the first to have a date.
    return value > (latest if isinstance(value, datetime) else (latest + timedelta(hours=14)).date())


def expected(case: Case, on: str | None, at: str | None, op: str) -> tuple[date | None, object, str | None]:
    """The partition, since when, and the beginning of the reason."""
    event = read(on, case.event)
    changed = None if case.at is None else read(at, case.at)
    deciding = changed if event is None else event
    day = day_of(deciding, case.zone or "UTC" if case.event == DATE else "UTC")
    is_mixed = case.at is not None and case.at != case.event
    since = changed if is_mixed or changed is not None else event
    reason = None
    if on is None and (op == "u" or case.at is None):
        reason = "on is missing"
    elif on is not None and event is None:
        reason = "on is a date that does not exist"
    elif is_mixed and at is None:
        reason = "at is missing"
    elif at is not None and case.at is not None and changed is None:
        reason = "at is a date that does not exist"
    elif deciding is None:
        reason = "on is missing, and so is at"
    elif day is not None and day < FIRST_DAY:
        reason = f"day {day} is before the first day"
    elif is_future(deciding, case):
        reason = "on lies in the future"
    return day, since, reason


def judged_rows(spark: SparkSession, case: Case) -> tuple[list[tuple[Any, ...]], DataFrame]:
    given = [
        (str(number), on, at, op)
        for number, (on, at, op) in enumerate(product(values(case.event), values(case.at) if case.at else [None], "ud"))
    ]
    names = ["id", "on", "at", "op"] if case.at else ["id", "on", "op"]
    rows = [tuple(row[("id", "on", "at", "op").index(name)] for name in names) for row in given]
    raw = spark.createDataFrame(rows, ", ".join(f"`{name}` string" for name in names))
    bounds = Bounds(first_day=FIRST_DAY, judged_at=LANDED_AT)
    found = judged(raw.withColumn(BROKEN, F.lit(None).cast("string")), case.source, bounds=bounds)
    since = happened_at(case.source).cast("string").alias("since")
    shown = found.select("id", "day", since, REASON, local_day(case.source).alias("local"))
    return given, shown.withColumn("case", F.lit(CASES.index(case)))


@pytest.mark.long
def test_every_pair_of_dates_and_times_gives_its_day_and_its_reason(spark: SparkSession) -> None:
    frames = {case: judged_rows(spark, case) for case in CASES}
    whole: DataFrame | None = None
    for _, frame in frames.values():
        whole = frame if whole is None else whole.unionByName(frame)
    assert whole is not None
    found = {(row["case"], row["id"]): row for row in whole.collect()}
    wrong: list[object] = []
    for case, (given, _) in frames.items():
        for id_, on, at, op in given:
            day, since, reason = expected(case, on, at, op)
            row = found[CASES.index(case), id_]
            shown = str(since).replace("+00:00", "") if since is not None else None
            local = (
                day
                if case.event == DATE or not case.zone
                else day_of(read(on, TIME) or read(at, case.at or TIME), case.zone)
            )
            ok = row["day"] == day and row["since"] == shown and (row["local"] == local)
            ok &= (row[REASON] is None) == (reason is None) and (reason is None or row[REASON].startswith(reason))
            if not ok:
                wrong.append((case, on, at, op, (day, shown, reason, local), row))
    assert not wrong, (len(wrong), wrong[:5])
    assert sum(row[REASON] is None for row in found.values()) > 200

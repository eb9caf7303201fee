"""Is every time of a landed file the one that was written, whatever its source declares of times?

`python -m backfill_assets_tests.faults.fuzz_times --records 100000 [--seed N]` lands files of every format for sources
with event times that are dates or timestamps, zones, hours that come twice, clocks that run ahead and plans, and
compares each record with `landing_oracle`: its values, its partition, and whether and for which column it is rejected.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import sys
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from backfill_assets.core.settings import Settings
from backfill_assets.domain import SourceTable, daily
from backfill_assets_tests.faults.fuzz_values import Comparison, Findings, table
from backfill_assets_tests.faults.fuzzed import fuzzed
from backfill_assets_tests.faults.landing_clocks import Times
from backfill_assets_tests.faults.landing_values import Generated
from backfill_assets_tests.support.landing_examples import LANDED_AT, landing_room

ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "America/St_Johns", "Asia/Tokyo")
RULES = ("", "first", "second", "reject", "both")
FORMATS = ("JSON lines", "CSV", "Parquet")
FIRST_DAY = date(2010, 1, 1)
DAY = "day"


def source_of(chance: random.Random) -> SourceTable:
    """A source that declares some of what can be declared of times."""
    of_dates = chance.random() < 0.4
    zone = chance.choice(["", *ZONES, *ZONES])
    keyed_by_time = chance.random() < 0.7
    rule = chance.choice(RULES) if zone else ""
    planned = chance.random() < 0.2
    columns = [
        T.StructField("id", T.StringType(), False),
        T.StructField("on", T.DateType() if of_dates else T.TimestampType(), False),
        T.StructField("slot", T.TimestampType(), False),
        T.StructField("seen", T.TimestampType()),
        T.StructField("until", T.DateType()),
        T.StructField("local", T.TimestampNTZType()),
        T.StructField("times", T.ArrayType(T.TimestampType())),
    ]
    return SourceTable(
        name="bronze.times",
        key=("id", "slot") if keyed_by_time else ("id",),
        event_time="on",
        partition=daily(DAY),
        schema=T.StructType(columns),
        timezone=zone,
        repeated_hour=rule if keyed_by_time or rule != "both" else "first",
        planned=planned,
        ahead=timedelta(seconds=0 if planned else chance.choice([0, 0, 60, 3600, 20 * 3600])),
    )


def times_of(source: SourceTable) -> Times:
    """The same for the oracle."""
    return Times(
        event=source.event_time,
        partition=DAY,
        key=source.key,
        landed_at=LANDED_AT,
        first_day=FIRST_DAY,
        zone=source.timezone,
        repeated=source.repeated_hour,
        ahead=source.ahead,
        planned=source.planned,
    )


def local_time(chance: random.Random, zone: str) -> datetime:
    """A time of the calendar: of any day, around a change of the clock, or around the landing."""
    match chance.randrange(4):
        case 0:
            return datetime(2000, 1, 1) + timedelta(seconds=chance.randrange(30 * 365 * 86400))  # noqa: DTZ001
        case 1:
            edge = chance.choice([0, 60, 3600, 14 * 3600, 20 * 3600, 34 * 3600, 86400])
            return LANDED_AT.replace(tzinfo=None) + timedelta(seconds=chance.choice([-1, 0, 1, 1800]) + edge)
    return change_of_clocks(chance, zone or "Europe/Berlin")


def change_of_clocks(chance: random.Random, zone: str) -> datetime:
    """A time of the calendar around a change of the clocks of a zone."""
    return chance.choice(_changes(zone)) + timedelta(minutes=15 * chance.randrange(-4, 20))


def _changes(zone: str, known: dict[str, list[datetime]] = {}) -> list[datetime]:  # noqa: B006 - kept for the process
    if zone not in known:
        days = [datetime(2010, 1, 1) + timedelta(days=n) for n in range(16 * 365)]  # noqa: DTZ001
        offsets = [day.replace(tzinfo=ZoneInfo(zone)).utcoffset() for day in days]
        found = [day for day, now, then in zip(days, offsets, offsets[1:], strict=False) if now != then]
        known[zone] = found[-6:] or days[:1]
    return known[zone]


def text_of(chance: random.Random, kind: T.DataType, zone: str) -> str:
    """A date or a time as a text, one in thirty of another form."""
    at = local_time(chance, zone)
    if chance.random() < 1 / 30:
        return chance.choice(["", "soon", "2024-02-30", "2024-02-30T10:00:00", "20240301", at.strftime("%d.%m.%Y")])
    if isinstance(kind, T.DateType):
        return chance.choice([at.date().isoformat()] * 9 + [at.isoformat(), "9999-12-31", "9998-12-31"])
    text = at.isoformat(sep=chance.choice("T "), timespec=chance.choice(["seconds", "minutes", "microseconds"]))
    if isinstance(kind, T.TimestampNTZType):
        return text
    has_offset = not zone or chance.random() < 0.2
    return text + (chance.choice(["Z", "+01:00", "-0330", "+14"]) if has_offset else "")


def records_of(chance: random.Random, source: SourceTable, count: int) -> list[dict[str, Any]]:
    """Records as texts, several of one key and time where the key has one."""
    zone, kinds = source.timezone, {each.name: each.dataType for each in source.schema}
    several = len(source.key) > 1
    slots = [text_of(chance, kinds["slot"], zone) for _ in range(max(1, count // 3))]
    found: list[dict[str, Any]] = []
    for number in range(count):
        row: dict[str, Any] = {name: text_of(chance, kinds[name], zone) for name in ("on", "seen", "until", "local")}
        row |= {"id": chance.choice("abcde") if several else f"r{number}", "slot": chance.choice(slots)}
        row["times"] = [text_of(chance, T.TimestampType(), zone) for _ in range(chance.choice([0, 0, 1, 2]))]
        found.append(
            {name: value for name, value in row.items() if name in ("id", "slot", "on") or chance.random() < 0.9}
        )
    return found


def file_of(chance: random.Random, source: SourceTable, kind: str, *, count: int, name: str) -> Generated:
    """A file of a format."""
    rows = records_of(chance, source, count)
    if kind == "JSON lines":
        return Generated(
            kind=kind, name=f"{name}.jsonl", content="".join(f"{json.dumps(row)}\n" for row in rows).encode()
        )
    names = source.schema.fieldNames()
    if kind == "CSV":
        lines = [",".join(names)]
        for row in rows:
            fields = [json.dumps(row[each]) if each == "times" and each in row else row.get(each, "") for each in names]
            lines.append(",".join('"' + field.replace('"', '""') + '"' for field in fields))
        return Generated(kind=kind, name=f"{name}.csv", content=("\n".join(lines) + "\n").encode())
    as_texts = {each: pa.array([row.get(each) for row in rows], pa.string()) for each in names if each != "times"}
    columns: dict[str, pa.Array] = dict(as_texts)
    for each in ("slot", "seen"):  # half of the files have times, with or without a zone
        if chance.random() < 0.6:
            zoned = not source.timezone or chance.random() < 0.3
            values = [local_time(chance, source.timezone) for _ in rows]
            columns[each] = pa.array(values, pa.timestamp("us")).cast(pa.timestamp("us", "UTC" if zoned else None))
    if isinstance(source.schema["on"].dataType, T.DateType) and chance.random() < 0.6:
        columns["on"] = pa.array([local_time(chance, "").date() for _ in rows], pa.date32())
    columns["times"] = pa.array([row.get("times") for row in rows], pa.list_(pa.string()))
    written = io.BytesIO()
    pq.write_table(pa.table(columns), written)
    return Generated(kind=kind, name=f"{name}.parquet", content=written.getvalue())


def fuzz_times(spark: SparkSession, folder: Path, *, seed: int, records: int, records_in_a_file: int) -> Findings:
    """Lands files of one source after the other until so many records were landed."""
    findings, number = Findings(), -1
    while findings.records < records:
        number += 1
        chance = random.Random(f"{seed}/{number}")
        source = source_of(chance)
        given = {"BACKFILL_HOME": str(folder / f"room{number}"), "BACKFILL_FIRST_DAY": FIRST_DAY.isoformat()}
        with landing_room(spark, Settings.from_environment(given), lambda: LANDED_AT, source) as room:
            comparison = Comparison(room, findings, times=times_of(source))
            for n, kind in enumerate(FORMATS):
                comparison.offer(file_of(chance, source, kind, count=records_in_a_file, name=f"r{number}-f{n}"))
    return findings


def main() -> int:
    """Fuzzes and prints the table; 1 when a value differed."""

    def act(spark: SparkSession, folder: Path, given: argparse.Namespace) -> tuple[str, bool]:
        size = given.records_in_a_file
        findings = fuzz_times(spark, folder, seed=given.seed, records=given.records, records_in_a_file=size)
        return table(findings), bool(findings.differences)

    return fuzzed(__doc__, act)


if __name__ == "__main__":
    sys.exit(main())

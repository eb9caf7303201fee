"""B7: what landing costs, of small files in one call and after thousands of others, and of one large file.

Makes up days of events, a file each, and lands them in one Spark session:

- so many small files in one call: files per second, and the slowest batch against the second one;
- one file alone, after ten others and after all of them: the ratio is to be 1;
- one large file, in turns with a Spark script that reads it, types the same columns and overwrites a folder per day;
  and, where it is installed, DuckDB doing that.

Absolute times vary from machine to machine; the ratios, measured in one run, are the result.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from figures import Figure, Watch, ratio
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from backfill_assets.core.clock import system_clock
from backfill_assets.core.settings import Settings
from backfill_assets_tests.support.landing_examples import EVENTS, LandingRoom, landing_room

FIRST = date(2014, 1, 1)
RECORDS_OF_A_DAY = 150
BARE, LANDING = "bare Spark", "landing"


def measure(spark: SparkSession, home: Path, *, files: int, records: int, rounds: int) -> Sequence[Figure]:
    """The figures of so many small files, and of one file with so many records that lands so often."""
    figures: list[Figure] = []
    for name, act in (
        ("small", lambda room: small_files(room, files)),
        ("large", lambda room: large_file(room, records, rounds)),
    ):
        settings = Settings.from_environment({**os.environ, "BACKFILL_HOME": str(home / name)})
        with landing_room(spark, settings, system_clock) as room:
            figures += act(room)
    return figures


# ------------------------------------------------------------------------------------------------------- small files


def small_files(room: LandingRoom, files: int) -> Iterator[Figure]:
    """A file a day: the first ten, one alone, all others in one call, one alone again."""
    paths = [small_file(room, number) for number in range(files + 12)]
    room.land_paths(paths[:10])
    early = [seconds(lambda path=path: room.land_paths([path])) for path in paths[10:12]]  # type: ignore[misc]
    took = seconds(lambda: room.land_paths(paths[12:]))
    yield Figure(
        name="B7", what=f"{files:,} files in one call", measured=[files / took], unit="files/s", goal=20, at_least=True
    )
    alone = [small_file(room, files + 12 + number) for number in range(2)]
    late = [seconds(lambda path=path: room.land_paths([path])) for path in alone]  # type: ignore[misc]
    yield Figure(name="B7", what="one file alone, when ten are there", measured=early)
    yield Figure(
        name="B7",
        what=f"one file alone, when {files:,} are there",
        against="when ten are there",
        measured=[min(late)],
        base=[min(early)],
        goal=1.2,
    )


def small_file(room: LandingRoom, number: int) -> Path:
    """The events of a day, and a correction of one of the day before."""
    day = FIRST + timedelta(days=number)
    rows = [(f"{day}-{n:03}", f"{day}T10:{n % 60:02}:00Z", f"p{n}") for n in range(RECORDS_OF_A_DAY)]
    rows.append((f"{day - timedelta(days=1)}-000", f"{day - timedelta(days=1)}T10:00:00Z", "corrected"))
    lines = "".join(json.dumps(dict(zip(("event_id", "event_time", "place"), row, strict=True))) + "\n" for row in rows)
    return room.write(lines.encode(), f"{day}.jsonl")


# ---------------------------------------------------------------------------------------------------- one large file


def large_file(room: LandingRoom, records: int, rounds: int) -> Iterator[Figure]:
    """One file of a year, landed and built as bronze rows, against scripts that write the same rows by day."""
    watch = Watch()
    for number in range(rounds + 1):  # the first one warms up
        path = written_by_spark(room, records, number)
        target = room.inbox / f"bare-{number}"
        for name, act in scripts(room, path, target).items():
            with watch.on(name):
                act()
        shutil.rmtree(target, ignore_errors=True)
    of = f" of a file of {records:,} records"
    for name in watch.seconds:
        if name != BARE:
            goal = 1.5 if name == LANDING else None
            found = ratio("B7", watch, name, BARE, goal=goal, leave_out=1)
            yield replace(found, what=found.what + of)


def scripts(room: LandingRoom, path: Path, target: Path) -> dict[str, Callable[[], object]]:
    """What is measured in turns."""
    found: dict[str, Callable[[], object]] = {
        BARE: lambda: bare_spark(room.spark, path, target),
        LANDING: lambda: room.land_paths([path]),
    }
    if (duckdb := installed("duckdb")) is not None:
        found["DuckDB"] = lambda: bare_duckdb(duckdb, path, target.with_suffix(".duckdb"))
    return found


def written_by_spark(room: LandingRoom, records: int, number: int) -> Path:
    """A CSV with events of a year; every round has other keys, so that each lands as new records."""
    n = F.col("id")
    at = F.timestamp_seconds(F.lit(1_420_070_400) + (n * 31) % (365 * 86_400))
    rows = room.spark.range(records).select(
        F.concat(F.lit(f"r{number}-"), n.cast("string")).alias("event_id"),
        F.date_format(at, "yyyy-MM-dd'T'HH:mm:ss'Z'").alias("event_time"),
        F.concat(F.lit("p"), (n % 97).cast("string")).alias("place"),
    )
    folder = room.inbox / f"made-{number}"
    rows.coalesce(1).write.mode("overwrite").json(str(folder))
    (part,) = folder.glob("part-*.json")
    path = room.inbox / f"large-{number}.jsonl"
    part.replace(path)
    return path


def bare_spark(spark: SparkSession, path: Path, target: Path) -> None:
    """The load without this package: read, type, overwrite a folder per day."""
    schema = "event_id string, event_time timestamp, place string, attributes string, schema_version int"
    rows = spark.read.schema(schema).json(str(path)).withColumn("event_date", F.to_date("event_time"))
    rows.repartition("event_date").write.partitionBy(EVENTS.partition.column).mode("overwrite").parquet(str(target))


def bare_duckdb(duckdb: Any, path: Path, target: Path) -> None:
    """The same in DuckDB."""
    shutil.rmtree(target, ignore_errors=True)
    columns = "{event_id: 'VARCHAR', event_time: 'TIMESTAMPTZ', place: 'VARCHAR'}"
    with closing(duckdb.connect()) as connection:
        connection.execute(
            f"COPY (SELECT *, event_time::DATE AS event_date FROM read_json('{path}', columns={columns})) "
            f"TO '{target}' (FORMAT parquet, PARTITION_BY (event_date), COMPRESSION zstd)"
        )


def installed(name: str) -> Any | None:
    """A library, if it is there."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def seconds(act: Callable[[], object]) -> float:
    """How long it takes."""
    began = time.perf_counter()
    act()
    return time.perf_counter() - began

"""What does landing cost? Small files in one call and after thousands of others, and one large file against bare Spark.

    .venv/bin/python -m benchmarks.landing --size small

Makes up days of events, a file each, and lands them in one Spark session:

- so many small files in one call: files per second, and the slowest batch against the second one;
- one file alone, after ten others and after all of them: the ratio is to be 1;
- one large file, in turns with a Spark script that reads it, types the same columns and overwrites a folder per day;
  and, where it is installed, DuckDB doing that.

Absolute times vary from machine to machine; the ratios, measured in one run, are the result.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from backfill_assets.core.clock import system_clock
from backfill_assets.core.settings import Settings
from backfill_assets.core.spark import open_spark
from backfill_assets_tests.support.landing_examples import EVENTS, LandingRoom, landing_room

FIRST = date(2014, 1, 1)
RECORDS_OF_A_DAY = 150


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is landed.

    Attributes:
        files: Small files in one call.
        records: Of the large file.
        rounds: How often it is landed and loaded, in turns.
    """

    files: int
    records: int
    rounds: int


SIZES = {
    "small": Size(files=60, records=50_000, rounds=1),
    "full": Size(files=3_650, records=3_000_000, rounds=3),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A result.

    Attributes:
        name: What was measured.
        value: The number.
        unit: What it counts.
        goal: What it is to be, in words.
    """

    name: str
    value: float
    unit: str
    goal: str


def main(arguments: Sequence[str] | None = None) -> Sequence[Figure]:
    """Measures, prints, and gives the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=sorted(SIZES), default="small")
    parser.add_argument("--json", action="store_true")
    for name in ("files", "records", "rounds"):
        parser.add_argument(f"--{name}", type=int)
    given = parser.parse_args(arguments)
    named = {name: getattr(given, name) for name in ("files", "records", "rounds") if getattr(given, name)}
    size = Size(**{**asdict(SIZES[given.size]), **named})
    home = Path(tempfile.mkdtemp(prefix="backfill-landing-"))
    settings = Settings.from_environment({**os.environ, "BACKFILL_HOME": str(home)})
    spark = open_spark(settings)
    try:
        figures = measure(spark, settings, home, size)
    finally:
        spark.stop()
        shutil.rmtree(home, ignore_errors=True)
    if given.json:
        print(json.dumps([asdict(figure) for figure in figures], indent=2))
    else:
        for figure in figures:
            print(f"{figure.value:12,.2f} {figure.unit:10} {figure.name}  (goal: {figure.goal})")
    return figures


def measure(spark: SparkSession, settings: Settings, home: Path, size: Size) -> list[Figure]:
    """All figures."""
    figures: list[Figure] = []
    with landing_room(spark, settings, system_clock) as room:
        figures += small_files(room, size)
    large = home / "large"
    settings = Settings.from_environment({**os.environ, "BACKFILL_HOME": str(large)})
    with landing_room(spark, settings, system_clock) as room:
        figures += large_file(room, size)
    return figures


# ------------------------------------------------------------------------------------------------------- small files


def small_files(room: LandingRoom, size: Size) -> Iterator[Figure]:
    """A file a day: the first ten, one alone, all others in one call, one alone again."""
    paths = [small_file(room, number) for number in range(size.files + 12)]
    room.land_paths(paths[:10])
    tenth = seconds(lambda: room.land_paths([paths[10]]))
    tenth = min(tenth, seconds(lambda: room.land_paths([paths[11]])))
    took = seconds(lambda: room.land_paths(paths[12:]))
    yield Figure(name=f"{size.files} files in one call", value=size.files / took, unit="files/s", goal="20 or more")
    alone = [small_file(room, size.files + 12 + number) for number in range(2)]
    last = min(seconds(lambda path=path: room.land_paths([path])) for path in alone)  # type: ignore[misc]
    yield Figure(name="one file alone, when ten are there", value=tenth, unit="s", goal="none")
    yield Figure(
        name=f"one file alone, when {size.files} are there / when ten are", value=last / tenth, unit="times", goal="1"
    )


def small_file(room: LandingRoom, number: int) -> Path:
    """The events of a day, and a correction of one of the day before."""
    day = FIRST + timedelta(days=number)
    rows = [(f"{day}-{n:03}", f"{day}T10:{n % 60:02}:00Z", f"p{n}") for n in range(RECORDS_OF_A_DAY)]
    rows.append((f"{day - timedelta(days=1)}-000", f"{day - timedelta(days=1)}T10:00:00Z", "corrected"))
    lines = "".join(json.dumps(dict(zip(("event_id", "event_time", "place"), row, strict=True))) + "\n" for row in rows)
    return room.write(lines.encode(), f"{day}.jsonl")


# ---------------------------------------------------------------------------------------------------- one large file


def large_file(room: LandingRoom, size: Size) -> Iterator[Figure]:
    """One file of a year, landed and built as bronze rows, against scripts that write the same rows by day."""
    found: dict[str, list[float]] = {}
    for number in range(size.rounds + 1):  # the first one warms up
        path = written_by_spark(room, size.records, number)
        target = room.inbox / f"bare-{number}"
        for name, act in scripts(room, path, target).items():
            taken = seconds(act)
            if number:
                found.setdefault(name, []).append(taken)
        shutil.rmtree(target, ignore_errors=True)
    medians = {name: statistics.median(each) for name, each in found.items()}
    bare = medians.pop("bare Spark")
    records = f"{size.records:,} records in one file"
    yield Figure(name=f"{records}: bare Spark load", value=bare, unit="s", goal="none")
    for name, taken in medians.items():
        goal = "1.5 or less" if name == "landing" else "none"
        yield Figure(name=f"{records}: {name} / bare Spark load", value=taken / bare, unit="times", goal=goal)


def scripts(room: LandingRoom, path: Path, target: Path) -> dict[str, Callable[[], object]]:
    """What is measured in turns."""
    found: dict[str, Callable[[], object]] = {
        "bare Spark": lambda: bare_spark(room.spark, path, target),
        "landing": lambda: room.land_paths([path]),
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
    with _watch() as took:
        act()
    return took[0]


@contextmanager
def _watch() -> Iterator[list[float]]:
    took: list[float] = []
    began = time.perf_counter()
    yield took
    took.append(time.perf_counter() - began)


if __name__ == "__main__":
    main()

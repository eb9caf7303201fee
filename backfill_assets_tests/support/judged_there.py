"""Records as landing judges them in a session of this process or over Spark Connect.

They have forms of times, zones, hours that come twice, names, paths and epochs.

`python -m backfill_assets_tests.support.judged_there HOME` prints them as JSON, judged where the environment says.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from backfill_assets.core.settings import Settings
from backfill_assets.core.spark import open_spark
from backfill_assets.domain import SourceTable
from backfill_assets_tests.faults import fuzz_times, fuzz_written
from backfill_assets_tests.faults.landing_values import Generated
from backfill_assets_tests.support.landing_examples import LANDED_AT, landing_room

RECORDS = 60


def files() -> Iterator[tuple[SourceTable, Generated]]:
    """Sources and a file of each, the same in every process."""
    for seed in range(4):
        chance = random.Random(f"written/{seed}")
        kind = ("JSON lines", "Parquet")[seed % 2]
        source, texts, layouts = fuzz_written.declared(chance, kind, seed)
        while source.earlier or not source.timezone:
            source, texts, layouts = fuzz_written.declared(chance, kind, seed)
        file = fuzz_written.file_of(chance, source, texts, layouts, kind, count=RECORDS, name="w")[0]
        while not file.name.endswith((".jsonl", ".parquet")):  # others are packed
            file = fuzz_written.file_of(chance, source, texts, layouts, kind, count=RECORDS, name="w")[0]
        yield source, file
    for rule in ("second", "both"):
        chance = random.Random(rule)
        of_times = fuzz_times.source_of(chance)
        while of_times.repeated_hour != rule:
            of_times = fuzz_times.source_of(chance)
        yield of_times, fuzz_times.file_of(chance, of_times, "JSON lines", count=RECORDS, name="t")


def judged(spark: SparkSession, home: Path) -> list[list[dict[str, Any]]]:
    """The judged records of each file, with every value as a text."""
    found = []
    for number, (source, file) in enumerate(files()):
        settings = Settings.from_environment({"BACKFILL_HOME": str(home / str(number))})
        with landing_room(spark, settings, lambda: LANDED_AT, source) as room:
            found.append(room.judge(file.content, file.name, as_text=True))
    return found


if __name__ == "__main__":
    place = Path(sys.argv[1])
    session = open_spark(Settings.from_environment({**os.environ, "BACKFILL_HOME": str(place / "spark")}))
    sys.stdout.write(json.dumps(judged(session, place)))

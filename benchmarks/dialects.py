"""B7d: what a dialect costs, of CSV with a million records.

The same records land in turns as plain CSV and as CSV with semicolons, decimal commas in texts, quotes, blanks and
Latin-1, each into an empty landing place of its own in one Spark session. The ratio is the result: at most 1.2. Memory
of this process is measured while a tenth and all of the records are decoded: it is to be the same.

    .venv/bin/python benchmarks/dialects.py [RECORDS] [ROUNDS]
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
import tracemalloc
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from backfill_assets.capture.landed_files import FileKind, Format
from backfill_assets.core.clock import system_clock
from backfill_assets.core.settings import Settings
from backfill_assets.core.spark import open_spark
from backfill_assets.domain import Csv
from backfill_assets.landing.decoding.csv_rows import decode_csv
from backfill_assets_tests.support.landing_examples import EVENTS, landing_room

DIALECT = Csv(delimiter=";", encoding="latin-1", trim=True, comment="#")
BEGIN = datetime(2024, 1, 1, tzinfo=UTC)


def write(path: Path, records: int, *, delimiter: str, encoding: str, blank: str) -> None:
    """Writes a file of events."""
    with path.open("w", encoding=encoding, newline="") as file:
        file.write(delimiter.join(("event_id", "event_time", "place", "attributes", "schema_version")) + "\r\n")
        for number in range(records):
            at = (BEGIN + timedelta(seconds=37 * number % 20_000_000)).strftime("%Y-%m-%dT%H:%M:%SZ")
            place = f'"Zürich; {number % 977},5 ""HB"""' if number % 4 == 0 else f"{blank}Malmö {number % 977}{blank}"
            file.write(delimiter.join((f"e{number}", at, place, "", "1")) + "\r\n")


def peak(path: Path, into: Path) -> int:
    """The most bytes that Python holds while a file is decoded."""
    tracemalloc.start()
    try:
        kind = FileKind(format=Format.CSV, compression="")
        decode_csv(path, kind, DIALECT, name=path.name, into=into)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def main() -> None:
    """Prints the times, their ratio and the memory."""
    records, rounds = (int(each) for each in (sys.argv[1:] + ["1000000", "3"][len(sys.argv) - 1 :])[:2])
    with tempfile.TemporaryDirectory(prefix="backfill_dialects_") as folder:
        home = Path(folder)
        plain, written, part = home / "plain.csv", home / "dialect.csv", home / "part.csv"
        write(plain, records, delimiter=",", encoding="utf-8", blank="")
        write(written, records, delimiter=";", encoding="latin-1", blank=" ")
        write(part, records // 10, delimiter=";", encoding="latin-1", blank=" ")
        begin = time.monotonic()
        decode_csv(written, FileKind(format=Format.CSV, compression=""), DIALECT, name="a.csv", into=home / "decoded")
        print(f"decoding alone: {time.monotonic() - begin:.1f} s", flush=True)
        of_part, of_all = peak(part, home / "decoded"), peak(written, home / "decoded")
        print(f"memory: {of_part:,} bytes for a tenth, {of_all:,} for all", flush=True)
        spark = open_spark(Settings.from_environment({**os.environ, "BACKFILL_HOME": str(home / "spark")}))
        times: dict[str, list[float]] = {"plain": [], "dialect": []}
        for number in range(rounds + 1):
            for name, path, reads in (("plain", plain, None), ("dialect", written, DIALECT)):
                settings = Settings.from_environment({**os.environ, "BACKFILL_HOME": str(home / f"{name}-{number}")})
                with landing_room(spark, settings, system_clock, replace(EVENTS, reads=reads)) as room:
                    begin = time.monotonic()
                    counts = room.land_path(path).record.counts
                    seconds = time.monotonic() - begin
                assert (counts.landed, counts.rejected) == (records, 0), counts
                if number:  # the first round loads classes
                    times[name].append(seconds)
                print(f"{name}: {seconds:.1f} s", flush=True)
        found = {name: statistics.median(some) for name, some in times.items()}
        print(f"ratio {found['dialect'] / found['plain']:.2f} of {found}")


if __name__ == "__main__":
    main()

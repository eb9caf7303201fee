"""What does every fuzzer do around its own work: its options, and a session in a folder that is gone afterwards?"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from backfill_assets.core.settings import Settings
from backfill_assets.core.spark import open_spark

Fuzz = Callable[[SparkSession, Path, argparse.Namespace], tuple[str, bool]]
"""Lands what the options say in a folder, and gives what is printed of it and whether something was wrong."""


def fuzzed(
    document: str | None,
    fuzz: Fuzz,
    arguments: Sequence[str] | None = None,
    *,
    records_in_a_file: int = 1_000,
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> int:
    """Fuzzes as the command line says, and prints what was found; 1 when something was wrong.

    Args:
        document: What the fuzzer does.
        arguments: Those of the command line by default.
        records_in_a_file: By default.
        options: Further ones, each with what `argparse` takes of it.
    """
    parser = argparse.ArgumentParser(description=document)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--records-in-a-file", type=int, default=records_in_a_file)
    parser.add_argument("--seed", type=int, default=None, help="by default another one each time")
    for name, option in (options or {}).items():
        parser.add_argument(name, **option)
    given = parser.parse_args(arguments)
    given.seed = secrets.randbelow(2**32) if given.seed is None else given.seed
    sys.stderr.write(f"seed {given.seed}\n")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        environment = {
            "BACKFILL_HOME": str(Path(name) / "spark"),
            "BACKFILL_SPARK_MASTER": "local[2]",
            "BACKFILL_SPARK_MEMORY": "2g",
            "BACKFILL_SPARK_SHUFFLE_PARTITIONS": "2",
        }
        spark = open_spark(Settings.from_environment(environment))
        found, is_wrong = fuzz(spark, Path(name), given)
        spark.stop()
    sys.stdout.write(f"{found}\nseed {given.seed}: {time.monotonic() - began:.0f} s\n")
    return int(is_wrong)

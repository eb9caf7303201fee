"""Spark's Java classes, loaded and verified ahead: with the archive of them, Spark starts in about half the time.

    python -m backfill_assets.core.java_classes [CLASS_PATH]

writes the archive of this Python environment; with the `spark.driver.extraClassPath` that its Spark will have, if any.
Java maps the archive into memory instead of reading 15,000 classes from Spark's jars. It uses the archive only where
its own version and the jars are those that it was written with, and starts as without one otherwise, so an archive that
is missing or out of date costs time and never a result.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ARCHIVE = Path(sys.prefix) / "share" / "backfill_assets" / "spark_classes.jsa"
"""The place of the archive in the Python environment whose jars it belongs to."""

COMPUTE = "compute"
"""Asks this module's file, as a program of Spark's, for the small computation."""

_LIMIT = 300
"""Seconds after which writing is given up; it takes 20."""


def options() -> str:
    """The options that let Java use the archive; empty where there is none. Java does not report one that does not
    fit."""
    return f'-XX:SharedArchiveFile="{ARCHIVE}" -Xlog:cds*=off -Xlog:class+path=off' if ARCHIVE.is_file() else ""


def write(class_path: str = "") -> Path:
    """Writes the archive of what a small computation loads, and replaces an earlier one."""
    import pyspark

    ARCHIVE.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ARCHIVE.parent) as folder:
        written = Path(folder) / ARCHIVE.name
        # A program of spark-submit's, because that ends after Java has written the archive, and Python would not wait.
        conf = [
            "spark.master=local[2]",
            f'spark.driver.extraJavaOptions=-XX:ArchiveClassesAtExit="{written}" -Xlog:disable',
            *([f"spark.driver.extraClassPath={class_path}"] if class_path else []),
        ]
        words = [word for setting in conf for word in ("-c", setting)]
        subprocess.run(  # noqa: S603 - of this environment's Spark
            [Path(pyspark.__file__).parent / "bin" / "spark-submit", *words, __file__, COMPUTE, folder],
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            timeout=_LIMIT,
            check=True,
        )
        with written.open("rb") as archive:
            os.fsync(archive.fileno())  # Java trusts its length
        written.replace(ARCHIVE)
    return ARCHIVE


def compute(spark: SparkSession, folder: str) -> None:
    """Loads the classes that landing, a transform and its gates need, by doing a little of each.

    Args:
        spark: A session for nothing else: settings of it are changed.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    spark.conf.set("spark.sql.shuffle.partitions", "2")
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    events = spark.range(1_000).select(
        F.col("id"),
        (F.col("id") % 7).cast("string").alias("case_id"),
        F.timestamp_seconds(F.col("id") * 3_600).alias("at"),
        F.lit("2.50").cast("decimal(12,2)").alias("fee"),
    )
    lines = events.select(F.to_json(F.struct("*")).alias("value"))
    lines.write.text(f"{folder}/lines")
    parsed = spark.read.text(f"{folder}/lines").select(
        F.from_json("value", events.schema, {"mode": "PERMISSIVE"}).alias("record")
    )
    rows = (
        parsed.select("record.*")
        .withColumn("day", F.to_date("at"))
        .withColumn("digest", F.sha2(F.concat_ws("|", "case_id", F.date_format("at", "yyyy-MM-dd'T'HH:mm:ss")), 256))
    )
    rows.write.option("header", True).csv(f"{folder}/csv")
    rows.repartition("day").sortWithinPartitions("case_id").write.partitionBy("day").parquet(f"{folder}/rows")
    stored = spark.read.schema(rows.schema).parquet(f"{folder}/rows")
    latest = Window.partitionBy("case_id").orderBy(F.col("at").desc())
    ranked = stored.withColumn("rank", F.row_number().over(latest)).withColumn("before", F.lag("at").over(latest))
    small = spark.createDataFrame([("1", 2.5)], "case_id string, weight double")
    joined = ranked.join(F.broadcast(small), "case_id", "left").join(
        stored.hint("merge").groupBy("case_id").agg(F.sum("fee"), F.max_by("id", "at"), F.collect_set("day")), "case_id"
    )
    joined.groupBy("day").agg(
        F.count("*"), F.sum(F.xxhash64("case_id", "id").cast("decimal(38,0)")), F.approx_count_distinct("id")
    ).union(stored.groupBy("day").agg(F.count("*"), F.sum(F.lit(1)), F.min("id"))).orderBy("day").collect()
    stored.join(spark.read.csv(f"{folder}/csv", header=True), "case_id", "full_outer").limit(20).toPandas()
    spark.sql("SELECT 1 AS one").collect()


def _compute_here(folder: str) -> None:
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.config("spark.ui.enabled", "false").config("spark.log.level", "ERROR").getOrCreate()
    compute(spark, folder)
    spark.stop()


if __name__ == "__main__":
    if sys.argv[1:2] == [COMPUTE]:
        _compute_here(sys.argv[2])
    else:
        try:
            print(f"Java's archive of Spark's classes: {write(*sys.argv[1:2])}")  # noqa: T201 - for the one who asked
        except subprocess.TimeoutExpired:
            sys.exit(f"Java had not loaded Spark's classes within {_LIMIT} s.")
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", b"") or str(error).encode()
            sys.exit(f"Java could not keep Spark's classes: {said.decode(errors='replace').strip()[-500:]}")

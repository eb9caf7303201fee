"""Which Spark settings do runs depend on, and how is a session opened?

The first group decides what rows mean and is never a matter of taste. The second makes thousands of small partition
files cheap on one machine; `BACKFILL_SPARK_CONF` overrides it.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

from backfill_assets.settings import Settings

MEANING: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    # Java formats numbers by the language of whoever started it, and Spark names files that way. These options come
    # before the `extraJavaOptions` that a settings file may give.
    "spark.driver.defaultJavaOptions": "-Duser.timezone=UTC -Duser.language=en -Duser.country=US",
    "spark.executor.defaultJavaOptions": "-Duser.timezone=UTC -Duser.language=en -Duser.country=US",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    # Landed Parquet files often hold nanoseconds, which Spark refuses to read as anything but a number.
    "spark.sql.legacy.parquet.nanosAsLong": "true",
}


def spark_conf(settings: Settings) -> Mapping[str, str]:
    """Every Spark setting of a session, for whoever builds it."""
    tuning = {
        "spark.app.name": "backfill_assets",
        "spark.driver.memory": settings.spark_memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": str(settings.spark_shuffle_partitions),
        # Above 32 paths Spark lists files in a job with one task per path; listing them in the driver is 20 x faster
        # for a few thousand local files.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
        # Reading hundreds of one-day files: opening one costs much less than 4 MiB of scanning on a local disk.
        "spark.sql.files.openCostInBytes": "262144",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.autoBroadcastJoinThreshold": "33554432",
    }
    master = {} if settings.spark_remote else {"spark.master": settings.spark_master}
    return {**tuning, **master, **settings.spark_conf, **MEANING}


def open_spark(settings: Settings) -> SparkSession:
    """The process's Spark session, opened if there is none yet."""
    builder = SparkSession.builder
    if settings.spark_remote:
        builder = builder.remote(settings.spark_remote)
    for key, value in spark_conf(settings).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()

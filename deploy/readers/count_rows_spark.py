"""How many rows does Spark find in a Delta table with Delta's own connector? Run by a Python with PySpark 4.1.1.

    echo '{"uri": "...", "options": {}, "versions": [3], "jars": ["..."]}' | python count_rows_spark.py

The jars are those of the `pom.xml` beside this file, and for a store the modules of the AWS SDK. Nothing here is
needed to publish: Spark writes files, and only delta-rs commits.
"""

import json
import os
import sys

from pyspark.sql import SparkSession

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Rows are counted by reading the files, not by adding up what the log says of them.
    "spark.databricks.delta.optimizeMetadataQuery.enabled": "false",
}


def main() -> None:
    """Reads the order from standard input and prints the counts by version."""
    order = json.load(sys.stdin)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    building = SparkSession.builder.master("local[2]").config("spark.driver.extraClassPath", ":".join(order["jars"]))
    for name, value in SETTINGS.items():
        building = building.config(name, value)
    spark = building.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    # On the open session: what is given when a JVM starts is shown by the list of processes.
    for name, value in for_hadoop(order["options"]).items():
        spark.conf.set(name, value)
    uri = order["uri"].replace("s3://", "s3a://", 1)
    counts = {str(each): counted(spark, uri, each) for each in order["versions"]}
    spark.stop()
    json.dump(counts, sys.stdout)


def counted(spark: SparkSession, uri: str, version: int) -> int:
    """The rows of one version."""
    return spark.read.format("delta").option("versionAsOf", version).load(uri).count()


def for_hadoop(options: dict[str, str]) -> dict[str, str]:
    """The options of a store as Hadoop's s3a names them."""
    if not options:
        return {}
    return {
        "fs.s3a.endpoint": options["AWS_ENDPOINT_URL"],
        "fs.s3a.endpoint.region": options["AWS_REGION"],
        "fs.s3a.path.style.access": "true",
        "fs.s3a.access.key": options["AWS_ACCESS_KEY_ID"],
        "fs.s3a.secret.key": options["AWS_SECRET_ACCESS_KEY"],
        "fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    }


if __name__ == "__main__":
    main()

"""What Spark writes of its own does not reach the terminal."""

from __future__ import annotations

from logging.config import dictConfig
from logging.handlers import BufferingHandler

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.connect.logging import logger as client

from backfill_assets.cli.console import mute_query_contexts


def test_an_expression_that_fails_is_not_logged_beside_the_error(
    spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    mute_query_contexts()
    # As Dagster does for every run that it records: it takes back that a logger is disabled.
    dictConfig({"version": 1, "disable_existing_loggers": False})
    with pytest.raises(AnalysisException):
        spark.range(1).select(sf.col("misspelt")).collect()
    assert "misspelt" not in capfd.readouterr().err


def test_the_client_of_a_server_does_not_log_the_stack_of_an_error() -> None:
    mute_query_contexts()
    dictConfig({"version": 1, "disable_existing_loggers": False})
    written = BufferingHandler(capacity=9)
    client.addHandler(written)
    try:
        client.error("GRPC Error received")
    finally:
        client.removeHandler(written)
    assert not written.buffer

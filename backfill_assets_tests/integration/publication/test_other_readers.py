"""Readers that are not ours read the published tables in place, at every version of their log."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from backfill_assets.core.places import StoreUrl
from backfill_assets.planning.partitions import DayRange
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.lakes import use_store
from backfill_assets_tests.support.s3_server import cache, spark_jars
from backfill_assets_tests.support.shop import OUTPUT, RECENT, Shop, open_shop, ticking_clock, usual_sales

READERS = ("deltalake", "duckdb", "polars")
SCRIPTS = Path(__file__).parents[3] / "deploy" / "readers"


@pytest.fixture(params=["folder", "store"])
def shop(request: pytest.FixtureRequest, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Shop:
    if request.param == "store":
        use_store(monkeypatch, request.getfixturevalue("store"))
    opened = open_shop(tmp_path / "home", clock=ticking_clock(NOON), spark=spark)
    request.addfinalizer(opened.ws.close)
    opened.land("january.jsonl", usual_sales())
    return opened


@pytest.mark.long
def test_other_readers_count_the_rows_that_we_count_at_every_version(shop: Shop) -> None:
    expected = restated_and_rolled_back(shop)
    found = counted_by_others(shop, tuple(expected))
    assert found == {version: dict.fromkeys(READERS, rows) for version, rows in expected.items()}


@pytest.mark.long
def test_spark_with_the_connector_of_delta_counts_the_rows_that_we_count_at_every_version(shop: Shop) -> None:
    expected = restated_and_rolled_back(shop)
    assert counted_by_spark(shop, tuple(expected)) == expected


def restated_and_rolled_back(shop: Shop) -> Mapping[int, int]:
    """What the ledger says of every version of a table that was published, restated and rolled back."""
    expected: dict[int, int] = {}
    shop.published(DayRange.inclusive(OUTPUT.start, OUTPUT.start + timedelta(days=1)), version="0.9.0")
    expected.update(here(shop))
    run_id = shop.ready()
    shop.publish(run_id)
    expected.update(here(shop))
    operations.rollback(shop.ws, run_id, by="ben", reason="second thoughts")
    expected.update(here(shop))
    assert len(expected) == 3 and len(set(expected.values())) == 2
    return expected


def here(shop: Shop) -> Mapping[int, int]:
    """The present version of the table, and how many rows the ledger says it has."""
    with shop.ws.ledger.read() as tx:
        rows = sum(version.files.rows for version in tx.versions.accepted(RECENT).values())
    return {shop.ws.lake.open(RECENT).version(): rows}


def counted_by_others(shop: Shop, versions: tuple[int, ...]) -> Mapping[int, Mapping[str, int]]:
    python = cache() / "readers" / "bin" / "python"
    if not python.exists():
        pytest.skip("OTHER READERS ARE NOT TESTED: they are not there (`tools/setup.sh readers` fetches them)")
    return asked(python, "count_rows.py", order_of(shop, versions))


def counted_by_spark(shop: Shop, versions: tuple[int, ...]) -> Mapping[int, int]:
    reader = cache() / "spark-reader"
    if not (reader / "cksum").exists():
        pytest.skip("SPARK WITH DELTA'S CONNECTOR IS NOT TESTED: it is not there (`tools/setup.sh readers` fetches it)")
    jars = [*(reader / "jars").glob("*.jar")]
    if isinstance(shop.ws.lake.root, StoreUrl):
        # The modules of the AWS SDK are those of our Spark; what is of its version of Hadoop is not.
        jars += [jar for jar in spark_jars().glob("*.jar") if not jar.name.startswith("hadoop-")]
    order = order_of(shop, versions)
    return asked(reader / "bin" / "python", "count_rows_spark.py", {**order, "jars": [*map(str, jars)]})


def order_of(shop: Shop, versions: tuple[int, ...]) -> Mapping[str, object]:
    return {"uri": shop.ws.lake.url(RECENT), "options": dict(shop.ws.lake.access.for_delta()), "versions": versions}


def asked(python: Path, script: str, order: Mapping[str, object]) -> Mapping[int, Any]:
    """What a script in a process of its own answers, by version; it sees nothing of our Spark's settings."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    command = [python, SCRIPTS / script]
    done = subprocess.run(
        command, input=json.dumps(order), env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return {int(version): counts for version, counts in json.loads(done.stdout).items()}

"""Readers that are not ours read the published tables in place, at every version of their log, and their lineage."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.columns import EVIDENCE_OF_RUN, LINEAGE_OF_RUN, RUN_ID
from backfill_assets.core.places import StoreUrl
from backfill_assets.examples.kafka_broker import cache
from backfill_assets.planning.manifest import lineage
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.lakes import use_store
from backfill_assets_tests.support.lineages import declaring, published
from backfill_assets_tests.support.s3_server import spark_jars
from backfill_assets_tests.support.shop import OUTPUT, RECENT, SALES, Shop, open_shop, ticking_clock, usual_sales

READERS = ("deltalake", "duckdb", "polars")
SCRIPTS = Path(__file__).parents[3] / "deploy" / "readers"
LINEAGE_PAGE = Path(__file__).parents[3] / "docs" / "lineage.md"


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


@pytest.mark.long
@pytest.mark.parametrize("reader", ["duckdb", "polars", "spark"])
def test_what_the_documentation_joins_is_the_lineage_of_every_row(shop: Shop, reader: str) -> None:
    """Rows that carry all of it and rows that only name their run, in one table, and those of a source."""
    first = published(declaring(shop, "full"), OUTPUT, reason="in full", version="0.9.0")
    second = published(shop, DayRange.inclusive(OUTPUT.start, OUTPUT.start), reason="run alone")
    found = joined_by(reader, shop, RECENT)
    assert {row["_run_id"] for row in found} == {first, second}
    for row in (*found, *joined_by(reader, shop, SALES)):
        expected = lineage(operations.run_named(shop.ws, row["_run_id"]).manifest)
        assert {name: row[name] for name in expected} == expected
    assert set(found[0]) == {"day", "shop", "amount", RUN_ID, *LINEAGE_OF_RUN, *EVIDENCE_OF_RUN}
    assert {row["day"]: row["amount"] for row in found} == {str(d): each for d, each in shop.amounts().items()}


READ = {
    "duckdb": """
found = with_lineage(order["lake"], order["table"], order["options"])
rows = found.to_arrow_table().to_pylist()
""",
    "polars": """
rows = with_lineage(order["lake"], order["table"], order["options"]).collect().to_dicts()
""",
    "spark": """
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
sys.path.insert(0, order["scripts"])
from count_rows_spark import SETTINGS, for_hadoop
building = SparkSession.builder.master("local[2]").config("spark.driver.extraClassPath", ":".join(order["jars"]))
for name, value in SETTINGS.items():
    building = building.config(name, value)
spark = building.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
for name, value in for_hadoop(order["options"]).items():
    spark.conf.set(name, value)
lake = order["lake"].replace("s3://", "s3a://", 1)
rows = [row.asDict() for row in with_lineage(spark, lake, order["table"]).collect()]
""",
}
"""How the rows of each reader become JSON."""


def joined_by(reader: str, shop: Shop, table: str) -> list[dict[str, Any]]:
    """The rows that the code of the documentation makes, in a process of the reader's own."""
    python, jars = spark_with_jars(shop) if reader == "spark" else (others(), [])
    (code,) = re.findall(rf"```python\n# {reader}\n(.*?)```", LINEAGE_PAGE.read_text(encoding="utf-8"), re.DOTALL)
    order = {
        "lake": str(shop.ws.lake.root),
        "table": table.replace(".", "/"),
        "options": dict(shop.ws.lake.access.for_delta()) if isinstance(shop.ws.lake.root, StoreUrl) else {},
        "jars": jars,
        "scripts": str(SCRIPTS),
    }
    read = f"{code}\nimport json, os, sys\norder = json.load(sys.stdin)\n{READ[reader]}\n"
    rows: list[dict[str, Any]] = answered(python, ["-c", f"{read}json.dump(rows, sys.stdout, default=str)"], order)
    return rows


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
    return asked(others(), "count_rows.py", order_of(shop, versions))


def others() -> Path:
    """The Python that has DuckDB, Polars and deltalake."""
    python = cache() / "readers" / "bin" / "python"
    if not python.exists():
        pytest.skip("OTHER READERS ARE NOT TESTED: they are not there (`tools/setup.sh readers` fetches them)")
    return python


def counted_by_spark(shop: Shop, versions: tuple[int, ...]) -> Mapping[int, int]:
    python, jars = spark_with_jars(shop)
    return asked(python, "count_rows_spark.py", {**order_of(shop, versions), "jars": jars})


def spark_with_jars(shop: Shop) -> tuple[Path, list[str]]:
    """The Python that has the Spark of Delta's connector, and the jars that it needs for the lake."""
    reader = cache() / "spark-reader"
    if not (reader / "cksum").exists():
        pytest.skip("SPARK WITH DELTA'S CONNECTOR IS NOT TESTED: it is not there (`tools/setup.sh readers` fetches it)")
    jars = [*(reader / "jars").glob("*.jar")]
    if isinstance(shop.ws.lake.root, StoreUrl):
        # The modules of the AWS SDK are those of our Spark; what is of its version of Hadoop is not.
        jars += [jar for jar in spark_jars().glob("*.jar") if not jar.name.startswith("hadoop-")]
    return reader / "bin" / "python", [*map(str, jars)]


def order_of(shop: Shop, versions: tuple[int, ...]) -> Mapping[str, object]:
    return {"uri": shop.ws.lake.url(RECENT), "options": dict(shop.ws.lake.access.for_delta()), "versions": versions}


def asked(python: Path, script: str, order: Mapping[str, object]) -> Mapping[int, Any]:
    """What a script answers, by version."""
    return {int(version): counts for version, counts in answered(python, [str(SCRIPTS / script)], order).items()}


def answered(python: Path, program: list[str], order: Mapping[str, object]) -> Any:
    """What a process of its own answers; it sees nothing of our Spark's settings."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    done = subprocess.run(
        [python, *program], input=json.dumps(order), env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)

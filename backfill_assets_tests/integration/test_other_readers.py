"""Readers that are not ours read the published tables in place, at every version of their log."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill_assets.planning.partitions import DayRange
from backfill_assets_tests import operations
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.lakes import use_store
from backfill_assets_tests.s3_server import cache
from backfill_assets_tests.shop import OUTPUT, RECENT, Shop, open_shop, ticking_clock, usual_sales

READERS = ("deltalake", "duckdb", "polars")
SCRIPT = Path(__file__).parents[2] / "deploy" / "readers" / "count_rows.py"


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
    expected: dict[int, int] = {}
    shop.published(DayRange.inclusive(OUTPUT.start, OUTPUT.start + timedelta(days=1)), version="0.9.0")
    expected.update(here(shop))
    run_id = shop.ready()
    shop.publish(run_id)
    expected.update(here(shop))
    operations.rollback(shop.ws, run_id, by="ben", reason="second thoughts")
    expected.update(here(shop))
    assert len(expected) == 3 and len(set(expected.values())) == 2
    found = counted_by_others(shop, tuple(expected))
    assert found == {version: dict.fromkeys(READERS, rows) for version, rows in expected.items()}


def here(shop: Shop) -> Mapping[int, int]:
    """The present version of the table, and how many rows the ledger says it has."""
    with shop.ws.ledger.read() as tx:
        rows = sum(version.files.rows for version in tx.versions.accepted(RECENT).values())
    return {shop.ws.lake.open(RECENT).version(): rows}


def counted_by_others(shop: Shop, versions: tuple[int, ...]) -> Mapping[int, Mapping[str, int]]:
    python = cache() / "readers" / "bin" / "python"
    if not python.exists():
        pytest.skip("OTHER READERS ARE NOT TESTED: they are not there (`tools/setup.sh readers` fetches them)")
    order = {"uri": shop.ws.lake.url(RECENT), "options": dict(shop.ws.lake.access.for_delta()), "versions": versions}
    done = subprocess.run([python, SCRIPT], input=json.dumps(order), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {int(version): counts for version, counts in json.loads(done.stdout).items()}

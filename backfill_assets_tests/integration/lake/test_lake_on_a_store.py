"""A lake in an object store: the whole way once, and what is refused. `make test-s3` tries more of the suite."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import DateType, LongType, StructField, StructType

from backfill_assets.core.errors import MissingInput, StoreRefused
from backfill_assets.core.places import StoreAccess, StoreUrl
from backfill_assets.lake.tables import Lake
from backfill_assets.orchestration.resources import run_resources, table_key
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.lakes import folder_of, use_store
from backfill_assets_tests.support.s3_server import ACCESS_KEY, SECRET_KEY, Store
from backfill_assets_tests.support.seams import Seam
from backfill_assets_tests.support.shop import RECENT, Shop, open_shop, ticking_clock, usual_sales

ONE_DAY = StructType([StructField("day", DateType()), StructField("amount", LongType())])


@pytest.fixture
def far(tmp_path: Path, store: Store, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """A shop in which January has landed, with its lake in a store."""
    use_store(monkeypatch, store)
    opened = open_shop(tmp_path / "home", clock=ticking_clock(NOON), spark=spark)
    opened.land("january.jsonl", usual_sales())
    yield opened
    opened.ws.close()


@pytest.mark.filterwarnings("ignore:The `dict` method is deprecated")  # dagster_deltalake calls it
def test_a_table_is_published_undone_recovered_reproduced_and_audited_in_a_store(
    far: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(far.ws.lake.root, StoreUrl)
    first = far.published(version="0.9.0")
    before, files = far.amounts(), far.live_paths()

    restated = far.ready()
    with monkeypatch.context() as dying:
        Seam.COMMIT.put(dying, _die)
        with pytest.raises(KeyboardInterrupt):
            far.publish(restated)
    operations.recover(far.ws, by="ops")
    assert far.amounts() == before
    far.publish(restated)
    assert far.amounts() != before and far.live_paths().isdisjoint(files)
    operations.rollback(far.ws, restated, by="ben", reason="second thoughts")
    assert far.amounts() == before and far.live_paths() == files

    assert operations.reproduce(far.ws, first, by="ana").identical
    found = audit(far.ws)
    assert found.problems == () and found.size_bytes > 0
    assert not list(folder_of(far.ws.lake, RECENT).glob("_runs/_reproduced/**/*.parquet"))

    damaged = folder_of(far.ws.lake, RECENT) / min(files)
    damaged.unlink()
    assert any("is gone" in problem for problem in audit(far.ws).problems)
    _nothing_shows_a_secret(far)
    loaded = run_resources(far.ws.settings, far.ws.domain, lambda: pytest.fail("no session is needed"))
    resource = loaded[table_key(RECENT)].resource_fn(None)
    assert resource.load().version() == far.ws.lake.open(RECENT).version()


def _die(*_: object) -> None:
    raise KeyboardInterrupt


def _nothing_shows_a_secret(shop: Shop) -> None:
    """Not the ledger, not a log, not the list of processes."""
    shown = [path.read_bytes() for path in shop.ws.settings.home.rglob("*") if path.is_file()]
    processes = subprocess.run(["ps", "-ww", "-eo", "args"], capture_output=True, check=True).stdout
    assert b"org.apache.spark" in processes
    shown.append(processes)
    for text in shown:
        assert SECRET_KEY.encode() not in text and ACCESS_KEY.encode() not in text


@pytest.mark.long
def test_a_store_that_lets_two_writers_win_is_refused_before_anything_is_written(careless_store: Store) -> None:
    bucket = careless_store.make_bucket("no-lake")
    lake = Lake(root=StoreUrl(bucket, "lake"), access=StoreAccess.of(careless_store.environment))
    with pytest.raises(StoreRefused, match=r"s3://no-lake/lake cannot hold a lake: .* Nothing was written to the lake"):
        lake.ensure("silver.sales", ONE_DAY, "day")
    assert [path for path in (careless_store.folder / bucket).rglob("*") if path.is_file()] == []


@pytest.mark.long
def test_a_store_that_passed_is_not_asked_again_by_the_next_process(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = store.make_bucket("asked-once")
    lake = Lake(root=StoreUrl(bucket, "lake"), access=StoreAccess.of(store.environment))
    lake.ensure("silver.sales", ONE_DAY, "day")
    (passed,) = (store.folder / bucket / "lake" / "_admission").iterdir()
    assert json.loads(passed.read_text())["endpoint"] == store.endpoint
    monkeypatch.setattr("backfill_assets.files.admission._admitted", set())
    monkeypatch.setattr("backfill_assets.files.admission.require_one_winner", lambda _: pytest.fail("raced again"))
    lake.ensure("silver.sales", ONE_DAY, "day")


@pytest.mark.long
def test_a_wrong_key_and_a_missing_bucket_are_no_damaged_table(store: Store) -> None:
    lake = Lake(root=StoreUrl(store.make_bucket("known"), "lake"), access=StoreAccess.of(store.environment))
    lake.ensure("silver.sales", ONE_DAY, "day")
    for wrong, sentence in (
        (replace(lake, access=replace(lake.access, secret_key="a-wrong-secret")), "does not know these credentials"),
        (replace(lake, root=StoreUrl("gone", "lake")), "there is no such bucket"),
    ):
        with pytest.raises(StoreRefused, match=sentence) as refused:
            wrong.open("silver.sales")
        assert "a-wrong-secret" not in str(refused.value)
    with pytest.raises(MissingInput, match="does not exist"):
        lake.open("silver.returns")
    assert lake.open("silver.sales").version() == 0

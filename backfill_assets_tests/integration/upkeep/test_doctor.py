"""Doctor: every part is tried, and one that fails is named with what to do about it."""

from __future__ import annotations

import json
import os
import re
import time
from collections import namedtuple
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from sqlalchemy import event

from backfill_assets.core.clock import system_clock
from backfill_assets.core.errors import MissingInput
from backfill_assets.core.local_files import readable_by_others
from backfill_assets.core.places import PATIENCE, StoreAccess, StoreUrl
from backfill_assets.core.settings import Settings
from backfill_assets.core.spark_server import free_port
from backfill_assets.upkeep import doctor
from backfill_assets.upkeep.doctor import DoctorReport, Health, examine
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support.advice import advised
from backfill_assets_tests.support.ledgers import only_with_sqlite
from backfill_assets_tests.support.s3_server import SECRET_KEY, Store
from backfill_assets_tests.support.shop import DAYS, Shop, sale, shop_environment

EVERYTHING = {
    *(
        "names of settings",
        "java",
        "ledger",
        "free space",
        "rights of others",
        "rights in the lake",
        "rights in landing",
        "references",
        "ledger and tables",
        "one winner",
        "spark",
    ),
    *("clock", "spark and the lake", "spark and landing"),
}


@pytest.fixture
def ws(tmp_path: Path, spark: SparkSession) -> Workspace:
    settings = Settings.from_environment(shop_environment(tmp_path / "home"))
    return Workspace.open(settings, clock=system_clock, open_session=lambda: spark)


def failed(report: DoctorReport) -> dict[str, str]:
    broken = [each for each in report.parts if each.health is Health.FAILED]
    return {each.part: f"{each.found} {(each.error and each.error.next_step) or ''}" for each in broken}


def in_store(ws: Workspace, bucket: str, store: Store) -> Workspace:
    lake, landing = StoreUrl(bucket, "lake"), StoreUrl(bucket, "landing")
    access = StoreAccess.of(store.environment)
    return replace(ws, settings=replace(ws.settings, lake=lake, landing=landing, access=access))


def test_where_everything_is_there_every_part_is_sound_and_nothing_is_left(ws: Workspace) -> None:
    report = examine(ws)
    assert failed(report) == {}
    assert report.is_sound and {each.part for each in report.parts} == EVERYTHING
    if isinstance(ws.settings.lake, Path):
        assert not list(ws.settings.lake.iterdir())


@pytest.mark.long
def test_a_store_is_tried_with_spark_as_well_and_nothing_is_left(ws: Workspace, store: Store) -> None:
    bucket = store.make_bucket("examined")
    assert failed(examine(in_store(ws, bucket, store))) == {}
    assert not [path for path in (store.folder / bucket).rglob("*") if path.is_file()]


@pytest.mark.long
def test_a_store_that_ignores_conditions_is_named(ws: Workspace, careless_store: Store) -> None:
    found = failed(examine(in_store(ws, careless_store.make_bucket("careless-doctor"), careless_store)))
    assert "rights in the lake" not in found and "spark" not in found
    assert "cannot hold a lake" in found["one winner"]


@pytest.mark.long
def test_a_bucket_that_is_not_there_is_named_and_the_rest_is_tried(ws: Workspace, store: Store) -> None:
    found = failed(examine(in_store(ws, "not-made", store)))
    rights, spark = {"rights in the lake", "rights in landing"}, {"spark and the lake", "spark and landing"}
    assert found.keys() == {*rights, "ledger and tables", "one winner", *spark}
    assert "there is no such bucket (NoSuchBucket). make it, or name another one" in found["rights in the lake"]
    assert SECRET_KEY not in str(found)


@pytest.mark.long
def test_a_store_that_does_not_answer_is_waited_for_once_and_what_is_being_tried_is_told(ws: Workspace) -> None:
    told: list[str] = []
    nobody = Store(port=free_port(), folder=ws.settings.home, command=())
    began = time.monotonic()
    found = failed(examine(in_store(ws, "away", nobody), lambda progress: told.append(progress.line)))
    assert time.monotonic() - began < 1.5 * PATIENCE.total_seconds()
    assert "does not answer" in found.pop("rights in the lake")
    assert set(found.values()) == {"not tried: the store does not answer "}
    others = {"rights in landing", "ledger and tables", "one winner", "spark and the lake", "spark and landing"}
    assert found.keys() == others
    assert told[-1] == "all parts tried" and set(told[:-1]) == EVERYTHING


def test_no_java_no_space_and_a_clock_that_is_wrong_are_each_named(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setenv("JAVA_HOME", "/no/java/here")
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage(1, 1, 5 * 2**20))
    late = replace(ws, clock=lambda: system_clock() - timedelta(hours=1))
    found = failed(examine(late))
    assert found.keys() == {"java", "free space", "clock"}
    assert "there is no Java in /no/java/here. install Java 17 or newer" in found["java"]
    assert "only 5 MiB are free" in found["free space"]
    assert re.search(r"3,(5\d\d|600) s apart", found["clock"])


@pytest.mark.long
def test_a_file_that_others_can_read_is_named_with_what_closes_it(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_with_sqlite("it is about that file")
    # The folders of pytest are its user's alone.
    monkeypatch.setattr(doctor, "readable_by_others", partial(readable_by_others, above=ws.settings.home))
    ws.ledger.close()
    ledger = ws.settings.home / "ledger.db"
    ws.settings.home.chmod(0o755)
    ledger.chmod(0o644)
    found = failed(examine(ws))["rights of others"]
    assert found.startswith(f"{ledger} can be read by other users of this machine. take it from them: chmod -R go= ")
    ledger.chmod(0o600)
    assert "rights of others" not in failed(examine(ws))


@pytest.mark.long
def test_a_ledger_that_can_only_be_read_is_named_and_nothing_is_left_of_the_try(ws: Workspace) -> None:
    only_with_sqlite("it is about that file")
    with ws.ledger.read() as tx:
        before = tx.events.head()
    assert "ledger" not in failed(examine(ws))
    with ws.ledger.read() as tx:
        assert tx.events.head() == before
    ws.ledger.close()
    event.listen(ws.ledger._engine, "connect", lambda opened, _record: opened.execute("PRAGMA query_only = ON").close())
    found = failed(examine(ws))
    assert found.keys() == {"ledger"}
    assert (
        "can be read, and not written: attempt to write a readonly database let this user write it" in found["ledger"]
    )


@pytest.mark.long
def test_a_lake_that_is_away_is_named_and_nothing_takes_its_place(published_shop: Shop) -> None:
    lake = published_shop.ws.settings.lake
    if not isinstance(lake, Path):
        pytest.skip("a bucket that is gone is named by the store")
    away = lake.with_name("away")
    lake.rename(away)
    found = failed(examine(replace(published_shop.ws, clock=system_clock)))
    assert found.keys() == {"rights in the lake", "ledger and tables", "one winner", "spark and the lake"}
    assert all("is not there, and the ledger holds published rows" in each for each in found.values())
    late = [sale(DAYS.start, sale_id="late")]
    for back in (lake, lake / "bronze"):
        with pytest.raises(MissingInput, match="nothing was created in its place") as refusal:
            published_shop._land("late.jsonl", late, by="ana")
        assert str(back) in refusal.value.message and "BACKFILL_LAKE" in advised(refusal.value)
        assert not back.exists()
        if back == lake:
            away.rename(lake)
            away = away.with_name("bronze-away")
            (lake / "bronze").rename(away)
    away.rename(lake / "bronze")
    published_shop._land("late.jsonl", late, by="ana")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_is_named(ws: Workspace) -> None:
    assert isinstance(ws.settings.lake, Path)
    ws.settings.lake.mkdir(parents=True)
    ws.settings.lake.chmod(0o500)
    assert "cannot be written" in failed(examine(ws))["rights in the lake"]


def test_the_report_is_a_document(ws: Workspace) -> None:
    from backfill_assets.report.documents import as_json

    report = examine(replace(ws, clock=lambda: system_clock() - timedelta(hours=1)))
    document = json.loads(json.dumps(as_json(report)))
    assert document["is_sound"] is False
    (clock,) = (each for each in document["parts"] if each["health"] == "failed")
    assert clock["part"] == "clock" and clock["error"]["next_step"]

"""Deliveries in a drop folder wait for all their files; a prefix of a store is a drop folder by the same rules."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill_assets.application.drop import land_dropped, waiting
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.capture.files.drop_folder import DroppedFile
from backfill_assets.capture.files.drop_places import DropPrefix, drop_place, dropped
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.places import StoreAccess, StoreUrl
from backfill_assets.core.settings import Settings
from backfill_assets.testing import DomainKit
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support.s3_server import NoStore, Store, running_store
from backfill_assets_tests.support.shop import RECENT, SALES, sale, shop_environment


def later(**time: float) -> datetime:
    return datetime.now(UTC) + timedelta(**time)


def names(found: tuple[DroppedFile, ...]) -> list[str]:
    return sorted(each.path.name for each in found)


def listed(settings: Settings, at: datetime) -> tuple[DroppedFile, ...]:
    place = drop_place(settings)
    assert place is not None
    return dropped(place, ["sales"], at)


def put(folder: Path, name: str, text: str = "{}\n") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return folder / name


@pytest.fixture
def folder(settings: Settings, tmp_path: Path) -> tuple[Settings, Path]:
    return replace(settings, drop=tmp_path / "drop"), tmp_path / "drop" / "sales"


def test_a_delivery_waits_until_all_its_files_are_there(folder: tuple[Settings, Path]) -> None:
    settings, sales = folder
    put(sales, "a.jsonl")
    put(sales, "other.jsonl")
    manifest = put(sales, "day.manifest.json", json.dumps([{"name": "a.jsonl"}, {"name": "b.jsonl", "size_bytes": 3}]))
    at = later(minutes=5)
    assert names(listed(settings, at)) == ["other.jsonl"]
    put(sales, "b.jsonl")
    found = listed(settings, at)
    assert names(found) == ["a.jsonl", "b.jsonl", "day.manifest.json", "other.jsonl"]
    of_it = {each.path.name for each in found if each.delivery == "sales/day.manifest.json"}
    assert of_it == {"a.jsonl", "b.jsonl", "day.manifest.json"}
    (said,) = (each.expected for each in found if each.path.name == "b.jsonl")
    assert (said.size_bytes, said.said_by) == (3, "day.manifest.json")
    # While it is written, or what it says cannot be read, nothing of its folder is taken.
    assert names(listed(settings, later(seconds=10))) == []
    manifest.write_text("{")
    (only,) = listed(settings, at)
    assert (only.path, only.unfit) == (manifest, "day.manifest.json is neither JSON nor CSV with a header.")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("MANIFEST.json", '["a.jsonl", "b.jsonl"]'),
        ("manifest.csv", "name,records\na.jsonl,1\nb.jsonl,1\n"),
        ("Day.Manifest.CSV", "file,size\na.jsonl,3\nb.jsonl,3\n"),
    ],
)
def test_a_manifest_is_known_by_its_name_in_any_case(folder: tuple[Settings, Path], name: str, text: str) -> None:
    settings, sales = folder
    put(sales, "a.jsonl")
    put(sales, "my-manifest.jsonl")  # a file with records, whose name only looks like it
    put(sales, name, text)
    at = later(minutes=5)
    assert names(listed(settings, at)) == ["my-manifest.jsonl"]
    put(sales, "b.jsonl")
    found = listed(settings, at)
    assert {each.path.name for each in found if each.delivery == f"sales/{name}"} == {"a.jsonl", "b.jsonl", name}
    assert {each.unfit for each in found} == {""}


def test_a_delivery_that_stays_incomplete_is_for_a_person(folder: tuple[Settings, Path]) -> None:
    settings, sales = folder
    put(sales, "a.jsonl")
    put(sales, "day.manifest.csv", "name\na.jsonl\nb.jsonl\nc.jsonl\n")
    assert listed(settings, later(hours=23)) == ()
    (only,) = listed(settings, later(hours=25))
    assert only.unfit == "its delivery is not complete: b.jsonl, c.jsonl did not come within a day"


@pytest.mark.parametrize("is_whole", [True, False], ids=["whole", "waits"])
def test_a_file_is_of_the_delivery_that_names_it_first(folder: tuple[Settings, Path], is_whole: bool) -> None:
    settings, sales = folder
    for name in ("a", "b", "c")[: 3 if is_whole else 1]:
        put(sales, f"{name}.jsonl")
    put(sales, "1.manifest.csv", "name,records\na.jsonl,1\nb.jsonl,1\n")
    os.utime(sales / "1.manifest.csv", (later(hours=-1).timestamp(),) * 2)
    put(sales, "2.manifest.csv", "name,records\na.jsonl,2\nc.jsonl,2\n" if is_whole else "name\na.jsonl\n")
    found = {each.path.name: each for each in listed(settings, later(minutes=5))}
    assert found.pop("2.manifest.csv").unfit == "names a.jsonl, of another delivery: 1.manifest.csv names it"
    if is_whole:
        assert {name: each.expected.records for name, each in found.items() if not each.is_manifest} == {
            "a.jsonl": 1,
            "b.jsonl": 1,
        }
    assert {each.delivery for each in found.values()} <= {"sales/1.manifest.csv"}


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    try:
        with running_store() as found:
            yield found
    except NoStore as reason:
        pytest.skip(f"A DROP PREFIX IS NOT TESTED: {reason}")


def test_a_prefix_of_a_store_is_a_drop_folder_by_the_same_rules(settings: Settings, store: Store) -> None:
    root = store.folder / store.make_bucket("drops") / "in"
    for name in ("a b.jsonl", "b.jsonl.part", ".hidden.jsonl"):
        put(root / "sales", name, name)
    put(root / "sales" / "deeper", "c.jsonl")
    put(root / "sales" / "landed", "imp-000001-b.jsonl")
    put(root / "purchases", "d.jsonl")
    put(root, "stray.jsonl")
    own = replace(settings, drop=StoreUrl("drops", "in"), access=StoreAccess.of(store.environment))
    place = drop_place(own)
    assert isinstance(place, DropPrefix)
    found = {each.subject: each for each in place.listed(["sales"])}
    assert {name for name, each in found.items() if not each.unfit} == {"sales/a b.jsonl"}
    assert {name for name, each in found.items() if each.unfit} == {"sales/deeper", "purchases", "stray.jsonl"}
    one = found["sales/a b.jsonl"]
    assert (one.is_settled(datetime.now(UTC)), one.is_settled(later(minutes=2))) == (False, True)
    with place.taken(one) as taken:
        assert (taken.name, taken.path.read_text()) == ("a b.jsonl", "a b.jsonl")
        assert taken.original == "s3://drops/in/sales/a b.jsonl"
    (root / "sales" / "a b.jsonl").write_text("another version")
    place.put_aside(one, "imp-000002")
    assert (root / "sales" / "a b.jsonl").exists()
    (one,) = (each for each in place.listed(["sales"]) if not each.unfit)
    for _ in range(2):
        place.put_aside(one, "imp-000002")
    landed = root / "sales" / "landed" / "imp-000002-a b.jsonl"
    assert (landed.read_text(), (root / "sales" / "a b.jsonl").exists()) == ("another version", False)
    assert not list((settings.home / "landing_in_progress" / ".fetched").iterdir())


@pytest.mark.long
def test_deliveries_of_a_store_land_whole_or_with_the_reason_why_not(
    spark: SparkSession, store: Store, tmp_path: Path
) -> None:
    root = store.folder / store.make_bucket("deliveries")
    given = {**shop_environment(tmp_path / "home"), **store.environment}
    given |= {"BACKFILL_DROP": "s3://deliveries", "BACKFILL_USER": "olga"}
    settings = Settings.from_environment(given)
    ws = Workspace.open(settings, clock=lambda: later(minutes=5), open_session=lambda: spark)

    def deliver(number: int, records: int) -> None:
        for each in (1, 2):
            put(root / "sales", f"{number}-{each}.jsonl", json.dumps(sale(date(2026, number, each))) + "\n")
        said = [{"name": f"{number}-{each}.jsonl", "records": records} for each in (1, 2)]
        put(root / "sales", f"{number}.manifest.json", json.dumps(said))

    deliver(1, records=1)
    deliver(2, records=2)
    said = land_dropped(ws, Acting(by="olga", recorder=Unrecorded()), "sales")
    assert said.startswith("2 files of sales landed.\n")
    assert "2-1.jsonl has 1 record, and its manifest says 2" in said
    assert sorted(path.name for path in (root / "sales" / "landed").iterdir()) == [
        "imp-000001-1-1.jsonl",
        "imp-000001-1.manifest.json",
        "imp-000002-1-2.jsonl",
    ]
    # Given up as they are, until one of them is replaced.
    assert waiting(ws) == ()
    ws.close()


@pytest.mark.long
def test_a_day_of_a_delivery_that_is_not_complete_is_not_built_and_nothing_that_reads_it_is_planned(
    spark: SparkSession, tmp_path: Path
) -> None:
    sales = tmp_path / "drop" / "sales"
    given = {**shop_environment(tmp_path / "home"), "BACKFILL_DROP": str(sales.parent), "BACKFILL_USER": "olga"}
    settings = Settings.from_environment(given)
    ws = Workspace.open(settings, clock=lambda: later(minutes=5), open_session=lambda: spark)

    def lands() -> str:
        return land_dropped(ws, Acting(by="olga", recorder=Unrecorded()), "sales")

    def planned() -> str:
        third = DayRange.inclusive(date(2026, 1, 3), date(2026, 1, 3))
        return DomainKit(ws=ws, folder=tmp_path).planned(RECENT, third)

    for day in (1, 2, 4):
        put(sales, f"{day}.jsonl", json.dumps(sale(date(2026, 1, day))) + "\n")
    put(sales, "3-a.jsonl", json.dumps(sale(date(2026, 1, 3))) + "\n")
    put(sales, "3.manifest.json", json.dumps([{"name": "3-a.jsonl", "records": 1}, {"name": "3-b.jsonl"}]))
    assert lands().startswith("3 files of sales landed.")
    with ws.ledger.read() as tx:
        assert sorted(tx.versions.claims(SALES)) == [date(2026, 1, day) for day in (1, 2, 4)]
    with pytest.raises(BackfillError, match="2026-01-03"):
        planned()
    put(sales, "3-b.jsonl", json.dumps(sale(date(2026, 1, 3), sale_id="another")) + "\n")
    assert lands().startswith("2 files of sales landed.")
    assert planned()
    ws.close()

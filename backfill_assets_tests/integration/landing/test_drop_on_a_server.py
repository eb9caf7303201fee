"""Files that are dropped on an SFTP server land by the rules of a drop folder, and the server is only read."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

from backfill_assets.application.drop import land_all_dropped, land_dropped, waiting
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.capture.sftp.declaration import SftpFolder
from backfill_assets.core.errors import BackfillError, Retryable
from backfill_assets.core.settings import Settings
from backfill_assets.orchestration import tags
from backfill_assets.report.errors import NotGiven
from backfill_assets.report.landed import LandReport
from backfill_assets.report.status import status
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support.dagster_record import open_record
from backfill_assets_tests.support.sftp_server import PASSWORD, Server, running_sftp
from backfill_assets_tests.support.shop import SALES, sale, shop_environment
from backfill_assets_tests.support.ticks import Ticks

NEW_YEAR = date(2026, 1, 1)


@dataclass(kw_only=True)
class Shop:
    """The shop whose sales are dropped on a server."""

    ws: Workspace
    server: Server
    meanwhile: Callable[[], object] = lambda: None  #: What happens while it is looked whether files are still written.

    def put(self, name: str, *sales: Mapping[str, object], minutes_ago: float = 5) -> Path:
        path = self.server.root / name
        path.write_text("".join(json.dumps(each) + "\n" for each in sales), encoding="utf-8")
        at = time.time() - 60 * minutes_ago
        os.utime(path, (at, at))
        return path

    def lands(self) -> LandReport:
        return land_all_dropped(self.ws, "sales", Acting(by="ana", recorder=Unrecorded()), builds=False)

    def names(self) -> list[str]:
        """What has landed ever."""
        with self.ws.ledger.read() as tx:
            return [each.original_path.rpartition("/")[2] for each in tx.imports.records()]

    def stuck(self) -> dict[str, str]:
        return {each.work.subject.rpartition("/")[2]: each.work.why for each in status(self.ws).stuck}


@pytest.fixture
def shop(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    monkeypatch.setenv("SHOP_SFTP_PASSWORD", PASSWORD)
    given = {**shop_environment(tmp_path / "home"), "BACKFILL_USER": "olga"}
    session = cast(Callable[[], SparkSession], lambda: request.getfixturevalue("spark"))
    ws = Workspace.open(Settings.from_environment(given), open_session=session)
    with running_sftp(tmp_path / "out") as server:
        sales = replace(ws.domain.source_table(SALES), drop=server.declared(pattern="*.jsonl"))
        domain = replace(ws.domain, sources=(sales,), derived=())
        found = Shop(ws=replace(ws, domain=domain), server=server)
        monkeypatch.setattr("backfill_assets.capture.files.drop_places.time.sleep", lambda _seconds: found.meanwhile())
        yield found
    ws.close()


@pytest.mark.long
def test_a_finished_file_lands_once_and_a_changed_one_of_its_name_again(shop: Shop) -> None:
    path = shop.put("a b.jsonl", sale(NEW_YEAR))
    young = shop.put("young.jsonl", sale(NEW_YEAR, amount=99), minutes_ago=0)
    for name in (".hidden.jsonl", "half.jsonl.part", "other.csv"):
        shop.put(name, sale(NEW_YEAR, amount=99))
    (shop.server.root / "below.jsonl").mkdir()
    found = shop.lands()
    (landed,) = found.imports
    assert (landed.record.counts.accepted, landed.record.landed_by, found.left) == (1, "ana", 1)
    assert landed.record.original_path == f"sftp://127.0.0.1:{shop.server.port}/a b.jsonl"
    with shop.ws.ledger.read() as tx:
        digest = tx.imports.records()[0].sha256
    assert digest == hashlib.sha256(path.read_bytes()).hexdigest()
    young.unlink()
    assert (shop.lands().imports, shop.names()) == ((), ["a b.jsonl"])
    shop.put("a b.jsonl", sale(NEW_YEAR), sale(date(2026, 1, 2)), minutes_ago=4)
    assert len(shop.lands().imports) == 1
    # The content of before, as another file: nothing new, and it is not fetched for ever.
    shop.put("c.jsonl", sale(NEW_YEAR))
    assert [each.is_new for each in shop.lands().imports] == [False]
    assert shop.lands().imports == ()
    assert (shop.names(), shop.stuck()) == (["a b.jsonl", "a b.jsonl"], {})


@pytest.mark.long
def test_a_file_that_grows_between_two_looks_is_left_whatever_its_clock_says(shop: Shop) -> None:
    growing = shop.put("growing.jsonl", sale(NEW_YEAR), minutes_ago=600)
    shop.put("ahead.jsonl", sale(date(2026, 1, 2)), minutes_ago=-600)

    def grows() -> None:
        with growing.open("a") as file:
            file.write("{")
        os.utime(growing, (0, 0))

    shop.meanwhile = grows
    assert (len(shop.lands().imports), shop.names()) == (1, ["ahead.jsonl"])
    shop.meanwhile = lambda: None
    growing.write_text(json.dumps(sale(NEW_YEAR)) + "\n")
    os.utime(growing, (60, 60))
    assert (len(shop.lands().imports), shop.names()) == (1, ["ahead.jsonl", "growing.jsonl"])


@pytest.mark.long
def test_when_the_connection_breaks_nothing_of_the_file_lands_and_the_same_command_does(shop: Shop) -> None:
    shop.put("one.jsonl", sale(NEW_YEAR))
    shop.server.on_read = lambda _path, _at: shop.server.hangs_up()
    with pytest.raises(Retryable):
        shop.lands()
    assert shop.names() == []
    shop.server.on_read = lambda _path, _at: None
    assert (len(shop.lands().imports), shop.names()) == (1, ["one.jsonl"])


@pytest.mark.long
def test_a_bad_file_is_given_up_until_it_is_replaced_and_holds_nothing_up(shop: Shop) -> None:
    shop.put("a.jsonl").write_text("<html>no such day</html>\n")
    os.utime(shop.server.root / "a.jsonl", (60, 60))
    shop.put("b.jsonl", sale(NEW_YEAR))
    found = shop.lands()
    assert (found.needs_a_look, shop.names(), [*shop.stuck()]) == (True, ["b.jsonl"], ["a.jsonl"])
    assert [name.rpartition("/")[2] for name in found.refused] == ["a.jsonl"]
    assert (shop.lands().refused, waiting(shop.ws)) == ({}, ())
    shop.put("a.jsonl", sale(date(2026, 1, 2)))
    assert land_dropped(shop.ws, Acting(by="olga", recorder=Unrecorded()), "sales").startswith(
        "1 file of sales landed."
    )
    assert (shop.names(), shop.stuck()) == (["b.jsonl", "a.jsonl"], {})


@pytest.mark.long
def test_a_delivery_lands_whole_and_manifests_of_other_sources_are_passed_over(shop: Shop) -> None:
    def manifest(name: str, *files: Mapping[str, object]) -> None:
        shop.put(f"{name}.manifest.json").write_text(json.dumps(files))
        os.utime(shop.server.root / f"{name}.manifest.json", (time.time() - 300,) * 2)

    shop.put("1.jsonl", sale(NEW_YEAR))
    manifest("day", {"name": "1.jsonl", "records": 1}, {"name": "2.jsonl"}, {"name": "returns.csv"})
    manifest("of others", {"name": "returns.csv"})
    assert (shop.lands().imports, shop.names()) == ((), [])
    shop.put("2.jsonl", sale(date(2026, 1, 2)))
    assert len(shop.lands().imports) == 2
    found = shop.lands()
    assert (found.imports, found.left, shop.stuck()) == ((), 0, {})
    shop.put("3.jsonl", sale(date(2026, 1, 3)))
    manifest("wrong", {"name": "3.jsonl", "size_bytes": 1})
    assert len(shop.lands().refused) == 2
    assert "wrong.manifest.json says 1" in shop.stuck()["3.jsonl"]


def test_a_server_that_is_away_keeps_no_file_of_another_place_from_being_seen(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "drop" / "sales").mkdir(parents=True)
    (tmp_path / "drop" / "sales" / "a.jsonl").touch()
    both = replace(shop.ws, settings=replace(shop.ws.settings, drop=tmp_path / "drop"))
    shop.put("b.jsonl", sale(NEW_YEAR))
    assert [each.path.name for each in waiting(both)] == ["a.jsonl", "b.jsonl"]
    (sales,) = both.domain.sources
    assert isinstance(sales.drop, SftpFolder)
    gone = replace(both.domain, sources=(replace(sales, drop=replace(sales.drop, host="no-such-host.invalid")),))
    away: list[BackfillError] = []
    assert [each.path.name for each in waiting(replace(both, domain=gone), away)] == ["a.jsonl"]
    assert "sftp://no-such-host.invalid" in str(away[0])
    with pytest.raises(Retryable):
        waiting(replace(both, domain=gone))


def test_the_sensor_asks_for_a_file_that_two_ticks_have_found_unchanged(shop: Shop) -> None:
    shop.put("a.jsonl", sale(NEW_YEAR))
    ticks = Ticks(shop.ws)
    with open_record(shop.ws.settings) as instance, ticks.open(instance):
        assert ticks.asked("drop") == ()
        (request,) = ticks.asked("drop")
        first = request.tags[tags.FIRST_FILE].partition("|")[0]
        assert (request.tags[tags.ON], first) == ("sales", f"sftp://127.0.0.1:{shop.server.port}/a.jsonl")


def test_entries_that_are_no_files_are_never_fetched(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of somebody else")
    (shop.server.root / "link.jsonl").symlink_to(tmp_path / "secret")
    os.mkfifo(shop.server.root / "pipe.jsonl")
    (shop.server.root / "folder.jsonl").mkdir()
    found = {each.path.name: each.unfit.partition(",")[0] for each in waiting(shop.ws)}
    assert found == {"link.jsonl": "it is a link", "pipe.jsonl": "it is a pipe"}


def test_a_source_for_which_nothing_is_dropped_says_so(shop: Shop) -> None:
    plain = replace(shop.ws, domain=Workspace.open(shop.ws.settings).domain)
    with pytest.raises(NotGiven, match="no files are dropped for bronze"):
        land_all_dropped(plain, "sales", Acting(by="ana", recorder=Unrecorded()), builds=False)

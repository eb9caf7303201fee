"""What is put into the drop folder lands once, by the one road in; nothing is lost, taken early or tried for ever."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill_assets.application.drop import MOST_FILES
from backfill_assets.application.sensor_work import clear
from backfill_assets.capture.files.drop_folder import LANDED
from backfill_assets.core.settings import Settings
from backfill_assets.ledger.imports import ImportRecord
from backfill_assets.orchestration import tags
from backfill_assets.report.status import status
from backfill_assets.upkeep.audit import audit
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support.dagster_record import open_record
from backfill_assets_tests.support.shop import SALES, sale, shop_environment
from backfill_assets_tests.support.ticks import STARTED, Ticks

NEW_YEAR = date(2026, 1, 1)


@dataclass(frozen=True, kw_only=True)
class Folder:
    """A drop folder with its sensor, some minutes after the files in it were written."""

    ws: Workspace
    drop: Path
    ticks: Ticks

    def put(self, name: str, *sales: Mapping[str, object]) -> Path:
        path = self.drop / "sales" / name
        path.write_text("".join(json.dumps(each) + "\n" for each in sales), encoding="utf-8")
        return path

    def asked(self) -> list[str]:
        """The first files of the runs that a tick asks for."""
        return [request.tags[tags.FIRST_FILE].partition("|")[0] for request in self.ticks.asked("drop")]

    def lands(self) -> None:
        """Two ticks, and what the second one asks for."""
        self.ticks.asked("drop")
        for request in self.ticks.asked("drop"):
            assert self.ticks.launched(request).success

    def imports(self) -> tuple[ImportRecord, ...]:
        with self.ws.ledger.read() as tx:
            return tx.imports.records()

    def stuck(self) -> dict[str, str]:
        return {each.work.subject: each.work.why for each in status(self.ws).stuck}

    def names(self) -> list[str]:
        return sorted(path.relative_to(self.drop / "sales").as_posix() for path in self.drop.rglob("*.jsonl"))


def minutes_later(minutes: float) -> datetime:
    return datetime.now(UTC) + timedelta(minutes=minutes)


@pytest.fixture
def folder(tmp_path: Path, spark: SparkSession) -> Iterator[Folder]:
    drop = tmp_path / "drop"
    (drop / "sales").mkdir(parents=True)
    given = {**shop_environment(tmp_path / "home"), "BACKFILL_DROP": str(drop), "BACKFILL_USER": "olga"}
    ws = Workspace.open(Settings.from_environment(given), clock=lambda: minutes_later(5), open_session=lambda: spark)
    ticks = Ticks(ws)
    with open_record(ws.settings) as instance, ticks.open(instance):
        yield Folder(ws=ws, drop=drop, ticks=ticks)
    ws.close()


@pytest.mark.long
def test_a_file_lands_when_it_is_no_longer_written_is_put_aside_and_its_days_are_built(folder: Folder) -> None:
    path = folder.put("one.jsonl", sale(NEW_YEAR))
    folder.put(".hidden.jsonl", sale(NEW_YEAR, amount=99))
    folder.put("half.jsonl.part", sale(NEW_YEAR, amount=99))
    young = replace(folder.ws, clock=lambda: minutes_later(0))
    early = Ticks(young)
    with early.open(folder.ticks.instance):
        assert [early.asked("drop") for _ in range(3)] == [(), (), ()]
        assert early.said == "1 file watched until no longer written."
    assert folder.asked() == [], "it has to be the same in two ticks"
    with path.open("a", encoding="utf-8") as more:
        more.write(json.dumps(sale(date(2026, 1, 2))) + "\n")
    assert folder.asked() == [], "it was written meanwhile"
    folder.lands()
    (record,) = folder.imports()
    assert (record.landed_by, record.counts.accepted, record.original_path) == ("olga", 2, str(path))
    assert folder.names() == [".hidden.jsonl", f"{LANDED}/{record.import_id}-one.jsonl"]
    assert status(folder.ws).tables[0].accepted_rows == 2
    # The same content again, under the same name and another one: nothing new, and nothing is lost.
    for name in ("one.jsonl", "other.jsonl", "one.jsonl"):
        folder.put(name, sale(NEW_YEAR), sale(date(2026, 1, 2)))
        folder.lands()
    assert len(folder.imports()) == 1
    assert folder.names()[1:] == sorted(
        f"{LANDED}/{record.import_id}{again}"
        for again in ("-one.jsonl", "-2-one.jsonl", "-3-one.jsonl", "-other.jsonl")
    )
    assert (folder.stuck(), audit(folder.ws).problems) == ({}, ())


@pytest.mark.long
def test_a_bad_file_is_given_up_with_its_sentence_and_tried_again_when_it_is_replaced_or_cleared(
    folder: Folder,
) -> None:
    (folder.drop / "sales" / "bad.jsonl").write_text("{not json\n" * 3, encoding="utf-8")
    (folder.drop / "sales" / "bad.xlsx").write_text("a sheet", encoding="utf-8")
    folder.put("good.jsonl", sale(NEW_YEAR))
    folder.lands()
    before = folder.stuck()
    assert "sales/bad.xlsx" in before and "declare reads=Xlsx() on its source" in before["sales/bad.xlsx"]
    assert "sales/good.jsonl" not in before
    for _ in range(3):
        assert folder.asked() == []
    assert "drop has given up sales/bad.xlsx" in folder.ticks.said
    clear(folder.ws, "sales/bad.xlsx", by="ben")
    assert [folder.asked(), folder.asked()] == [[], ["sales/bad.xlsx"]]
    folder.lands()
    assert "sales/bad.xlsx" in folder.stuck()
    (folder.drop / "sales" / "bad.xlsx").rename(folder.drop / "gone.xlsx")
    assert "sales/bad.xlsx" not in folder.stuck()


@pytest.mark.long
def test_links_folders_pipes_and_strange_names_are_listed_once_and_never_landed(folder: Folder, tmp_path: Path) -> None:
    secret = tmp_path / "secret.jsonl"
    secret.write_text(json.dumps(sale(NEW_YEAR)) + "\n", encoding="utf-8")
    sales = folder.drop / "sales"
    (sales / "link.jsonl").symlink_to(secret)
    (sales / "dangling.jsonl").symlink_to(tmp_path / "nothing")
    (sales / "folder.jsonl").mkdir()
    (sales / "folder.jsonl" / "inside.jsonl").write_bytes(secret.read_bytes())
    os.mkfifo(sales / "pipe.jsonl")
    (folder.drop / "purchases").mkdir()
    (folder.drop / "stray.jsonl").write_bytes(secret.read_bytes())
    (sales / "bell\a\n.xlsx").write_text("", encoding="utf-8")
    folder.lands()
    found = folder.stuck()
    assert {name for name in found if "bell" not in name} == {
        *("sales/link.jsonl", "sales/dangling.jsonl", "sales/folder.jsonl", "sales/pipe.jsonl"),
        *("purchases", "stray.jsonl"),
    }
    (odd,) = found.keys() - {name for name in found if "bell" not in name}
    assert "\a" not in odd and "\n" not in odd
    with folder.ws.ledger.read() as tx:
        events = len(list(tx.events.entries()))
    for _ in range(3):
        assert folder.asked() == []
    with folder.ws.ledger.read() as tx:
        assert len(list(tx.events.entries())) == events
    assert (folder.imports(), secret.exists()) == ((), True)


@pytest.mark.long
def test_ten_thousand_files_are_taken_some_at_a_time_and_a_cursor_may_say_anything(folder: Folder) -> None:
    for number in range(10_000):
        (folder.drop / "sales" / f"{number:05}.jsonl").touch()
    assert folder.asked() == []
    cursor = folder.ticks.cursors["drop"] or ""
    assert len(json.loads(cursor)) == 500
    (first,) = folder.asked()
    for typed in ("", "nonsense", "[]", '{"sales/00000.jsonl": 7}', "null"):
        folder.ticks.cursors["drop"] = typed
        assert folder.asked() == [], typed
        assert folder.asked() == [first]
    assert MOST_FILES == 100


@pytest.mark.long
def test_without_a_person_or_a_folder_nothing_lands(folder: Folder) -> None:
    folder.put("one.jsonl", sale(NEW_YEAR))
    for user in ("", "sensor", "policy:live"):
        nameless = Ticks(replace(folder.ws, settings=replace(folder.ws.settings, user=user)))
        with nameless.open(folder.ticks.instance):
            assert [nameless.asked("drop"), nameless.asked("drop")] == [(), ()]
            assert "BACKFILL_USER, who answers for the drop folder," in nameless.said
            assert not nameless.job("land_dropped", {tags.BY: "olga"}).success
    for settings, said in (
        (replace(folder.ws.settings, drop=None), "BACKFILL_DROP names no folder to watch, and no source declares one."),
        (replace(folder.ws.settings, drop=folder.drop / "no"), "cannot be read: no such file or directory"),
    ):
        without = Ticks(replace(folder.ws, settings=settings))
        with without.open(folder.ticks.instance):
            assert without.asked("drop") == ()
            assert said in without.said
    assert folder.imports() == ()


@pytest.mark.long
def test_a_file_that_kills_its_process_three_times_is_given_up_and_the_others_land(folder: Folder) -> None:
    folder.put("deadly.jsonl", sale(NEW_YEAR))
    folder.put("other.jsonl", sale(date(2026, 1, 2)))
    folder.asked()
    for _ in range(3):
        (request,) = folder.ticks.asked("drop")
        run = folder.ticks.recorded(request, STARTED)
        assert folder.asked() == [], "while one is under way"
        assert folder.ticks.said == "Files of sales are being landed."
        folder.ticks.fails(run)
    assert folder.asked() == []
    assert folder.stuck() == {"sales/deadly.jsonl": "its process stopped"}
    folder.lands()
    assert [Path(record.original_path).name for record in folder.imports()] == ["other.jsonl"]
    assert folder.imports()[0].source == SALES

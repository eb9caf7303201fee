"""What is wrong about a request to land or to take back is said before Spark is started."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from backfill_assets.application.land import land_files as land_files_of
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.calendar.partitions import days_between
from backfill_assets.capture.files.file_capture import FileCapture
from backfill_assets.core.clock import Clock
from backfill_assets.core.crash_points import carry_on
from backfill_assets.core.errors import BackfillError, UnreadableFile
from backfill_assets.core.settings import Settings
from backfill_assets.files.local import LocalFiles
from backfill_assets.landing.attempt import Landing, new_lease
from backfill_assets.landing.errors import StoppedAmongFiles
from backfill_assets.landing.extract import Extract, land_extract, preview
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.landing.land import land_files
from backfill_assets.landing.statements import restore, withdraw
from backfill_assets.ledger.store import Ledger
from backfill_assets.report.command_line import explained
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support.landing_examples import EVENTS, LANDED_AT

Act = Callable[[Landing, Path], object]


def _never() -> SparkSession:
    raise AssertionError("Spark was started")


@pytest.fixture
def work(settings: Settings, clock: Clock) -> Iterator[Landing]:
    settings.home.mkdir(parents=True)
    with closing(Ledger.open(settings.ledger_url, clock=clock)) as ledger:
        yield Landing(
            ledger=ledger,
            open_session=_never,
            settings=settings,
            source=EVENTS,
            by="ada",
            quarantine=lambda frame, import_id: None,
            reached=carry_on,
            lease=new_lease(settings),
        )


def land(work: Landing, path: Path) -> None:
    land_files(work, [FileCapture(path)], OnDuplicate.IGNORE, lambda landed: None)


def extract(where: Mapping[str, str]) -> Extract:
    return Extract(days=days_between("2024-05-01..2024-05-03"), where=where, reason="a new extract")


@pytest.mark.parametrize("name", ["no_key.csv", "no_key.parquet"])
@pytest.mark.parametrize(
    "act",
    [
        land,
        lambda work, path: land_extract(work, [FileCapture(path)], extract({})),
        lambda work, path: preview(work, [FileCapture(path)], extract({}), now=LANDED_AT),
    ],
    ids=["land", "extract", "dry run"],
)
def test_a_file_that_lacks_a_column_of_the_key(work: Landing, tmp_path: Path, name: str, act: Act) -> None:
    path = tmp_path / name
    if path.suffix == ".csv":
        path.write_text("id,event_time\na,2024-05-01T10:00:00Z\n", encoding="utf-8")
    else:
        pq.write_table(pa.table({"event_time": ["2024-05-01T10:00:00Z"]}), path)
    with pytest.raises(BackfillError, match="has no column event_id"):
        act(work, path)
    assert not [*work.landing.listed(), *LocalFiles(work.place.incoming).listed()]


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (lambda work, path: withdraw(work, {"id": "a"}, reason="x"), "id is not of the key of bronze.events"),
        (lambda work, path: withdraw(work, {}, reason="x"), "no value of event_id is given"),
        (lambda work, path: restore(work, "imp-000001", {"place": "a"}, reason="x"), "place is not of the key"),
        (lambda work, path: land_extract(work, [FileCapture(path)], extract({"town": "3"})), "has no column 'town'"),
        (
            lambda work, path: preview(work, [FileCapture(path)], extract({"town": "3"}), now=LANDED_AT),
            "has no column 'town'",
        ),
    ],
    ids=["withdraw", "withdraw without", "restore", "extract", "dry run"],
)
def test_a_column_that_the_key_or_the_source_does_not_have(work: Landing, tmp_path: Path, act: Act, says: str) -> None:
    path = tmp_path / "good.csv"
    path.write_text("event_id,event_time\na,2024-05-01T10:00:00Z\n", encoding="utf-8")
    with pytest.raises(BackfillError, match=says):
        act(work, path)


def test_files_after_a_refused_one_are_said_to_be_not_tried_with_the_command_that_lands_them(
    settings: Settings, tmp_path: Path
) -> None:
    def refused(behind: int, on_duplicate: OnDuplicate) -> str:
        with pytest.raises(UnreadableFile if not behind else StoppedAmongFiles) as error:
            land_files_of(ws, "sales", [bad, *good[:behind]], acting, on_duplicate=on_duplicate, builds=False)
        assert error.value.category is UnreadableFile
        return explained(error.value)

    ws = Workspace.open(replace(settings, domain="backfill_assets_tests.domains.example"))
    acting = Acting(by="ada", recorder=Unrecorded())
    bad, good = tmp_path / "bad.jsonl", [tmp_path / f"good {n}.jsonl" for n in range(6)]
    bad.write_bytes(b"\x00\x01\x02")
    for path in good:
        path.write_text("{}\n", encoding="utf-8")
    assert "not tried" not in refused(0, OnDuplicate.IGNORE)
    said = refused(2, OnDuplicate.CORRECT)
    assert " 2 files after it were not tried. Next: " in said
    command = f"backfill land sales '{good[0]}' '{good[1]}' --on-duplicate correct --by NAME"
    assert said.endswith(f"; those after it: {command}")
    assert refused(6, OnDuplicate.IGNORE).endswith("; land it and the 6 files after it again")
    ws.close()

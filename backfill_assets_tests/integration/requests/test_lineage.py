"""Where does a row come from? Its run is in the row, and the rest in `lineage.runs`, before anybody can see the row."""

from __future__ import annotations

import errno
import re
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.columns import EVIDENCE_OF_RUN, LINEAGE, LINEAGE_OF_RUN
from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import Retryable, UnreadableTable
from backfill_assets.lake.append import AppendedTable, append_run, lineage_rows
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.manifest import lineage
from backfill_assets.report.history import row_history
from backfill_assets.upkeep.audit import audit
from backfill_assets.upkeep.check import check
from backfill_assets_tests.faults.scenario import Stopped, stopping_at
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import advised, has_code
from backfill_assets_tests.support.lakes import folder_of, only_in_folders
from backfill_assets_tests.support.lineages import declaring, published, unexplained
from backfill_assets_tests.support.shop import OUTPUT, RECENT, SALES, Shop

FIFTH, SIXTH = date(2026, 1, 5), date(2026, 1, 6)
MIDDLE = DayRange.inclusive(FIFTH, SIXTH)


def rows(shop: Shop, table: str = RECENT) -> list[dict[str, Any]]:
    """What readers see."""
    found: list[dict[str, Any]] = shop.ws.lake.open(table).to_pyarrow_table().to_pylist()
    return found


def runs(shop: Shop) -> Mapping[str, Mapping[str, str]]:
    """The lineage of runs, by run."""
    return {row["_run_id"]: row for row in lineage_rows(shop.ws.lake)}


@pytest.mark.long
def test_a_row_names_its_run_and_lineage_runs_says_the_rest(shop: Shop) -> None:
    run_id = shop.published(MIDDLE, version="0.9.0", reason="for lineage")
    assert set(rows(shop)[0]) == {"day", "shop", "amount", "_run_id"}
    assert {row["_run_id"] for row in rows(shop)} == {run_id}
    found = runs(shop)[run_id]
    manifest = operations.run_named(shop.ws, run_id).manifest
    assert lineage(manifest).items() <= found.items()
    assert found["_input_range"] == f"{SALES}=2026-01-03..2026-01-07"
    assert found["_commit"].startswith(manifest.versions["commit"])
    assert found["_distributions"] == manifest.versions["distributions"]
    with shop.ws.ledger.read() as tx:
        (publication,) = tx.publications.headers(run_id=run_id)
    assert found["_published_at"] == publication.started_at.isoformat()
    assert found["_transform_version"] == "0.9.0"
    assert found["_kind"] == "BACKFILL"
    assert found["_restatement_reason"] == "for lineage"
    assert found["_input_version"].startswith(f"{SALES}@")
    assert {row["_run_id"] for row in rows(shop, SALES)} <= runs(shop).keys(), "rows of a source as well"
    assert audit(shop.ws).problems == ()


@pytest.mark.long
def test_a_table_of_an_earlier_release_gets_the_columns_that_it_lacks(shop: Shop) -> None:
    """Rows that are there keep what was recorded of them; rows from then on say what ran as well."""
    shop.published(MIDDLE, version="0.9.0")
    rows_before = [{name: row[name] for name in ("_run_id", *LINEAGE_OF_RUN)} for row in lineage_rows(shop.ws.lake)]
    shutil.rmtree(folder_of(shop.ws.lake, LINEAGE))
    narrow = AppendedTable(name=LINEAGE, schema=pa.schema([(name, pa.string()) for name in rows_before[0]]))
    for row in rows_before:
        narrow.append_once(shop.ws.lake, [dict(row)], app_id=str(row["_run_id"]))
    run_id = shop.published(MIDDLE, version="1.0.0")
    found = runs(shop)
    assert found[run_id]["_published_at"] and found[run_id]["_distributions"]
    for row in rows_before:
        assert found[row["_run_id"]] == {**dict.fromkeys(EVIDENCE_OF_RUN), **row}


@pytest.mark.long
def test_a_run_that_is_rolled_back_and_published_again_has_one_row(shop: Shop) -> None:
    run_id = shop.published()
    operations.rollback(shop.ws, run_id, by="ben", reason="was wrong")
    operations.approve(shop.ws, run_id, by="ben")
    shop.publish(run_id)
    assert [row["_run_id"] for row in lineage_rows(shop.ws.lake)].count(run_id) == 1
    assert audit(shop.ws).problems == ()


def test_at_no_moment_of_a_publication_does_a_reader_see_rows_without_lineage(shop: Shop) -> None:
    reached: list[Point] = []

    def look(point: Point) -> None:
        reached.append(point)
        assert unexplained(shop) == [], point

    run_id = shop.ready(MIDDLE)
    operations.publish(replace(shop.ws, reached=look), run_id, by="ben")
    assert reached.index(Point.LINEAGE_WRITTEN) < reached.index(Point.SWAP_COMMITTED)


@pytest.mark.parametrize("at", [Point.SWAP_INTENDED, Point.LINEAGE_WRITTEN, Point.SWAP_COMMITTED])
def test_wherever_a_publication_stops_its_lineage_is_there_once_and_explained(shop: Shop, at: Point) -> None:
    run_id = shop.ready(MIDDLE)
    with pytest.raises(Stopped):
        operations.publish(stopping_at(shop.ws, at), run_id, by="ben")
    assert unexplained(shop) == []
    assert (run_id in runs(shop)) is (at is not Point.SWAP_INTENDED)
    operations.recover(shop.ws, by="ops")
    assert audit(shop.ws).problems == ()
    if at is not Point.SWAP_COMMITTED:
        assert operations.state_of(shop.ws, run_id) is RunState.PASSED
        shop.publish(run_id)
    assert [row["_run_id"] for row in lineage_rows(shop.ws.lake)].count(run_id) == 1
    assert audit(shop.ws).problems == ()


@pytest.mark.long
def test_a_run_whose_lineage_cannot_be_written_is_not_published(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object, **_named: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    run_id = shop.ready(MIDDLE)
    with (
        monkeypatch.context() as broken,
        pytest.raises(Retryable, check=has_code("lineage_not_written"), match="Input/output error") as no,
    ):
        broken.setattr("backfill_assets.lake.append.write_deltalake", failing)
        shop.publish(run_id)
    assert f"the lineage of run {run_id} could not be written to lineage.runs" in no.value.message
    assert f"backfill publish {run_id}" in advised(no.value)
    assert rows(shop) == []
    assert operations.state_of(shop.ws, run_id) is RunState.PASSED
    shop.publish(run_id)
    assert unexplained(shop) == []


def test_where_the_lineage_of_runs_is_damaged_nothing_is_published(shop: Shop) -> None:
    only_in_folders("the log of the table is moved away")
    run_id = shop.ready(MIDDLE)
    place = folder_of(shop.ws.lake, LINEAGE)
    shutil.move(place, place.with_name("kept"))
    place.write_text("in the way of the table")
    with pytest.raises(UnreadableTable, match=r"the table lineage\.runs cannot be read"):
        shop.publish(run_id)
    assert rows(shop) == []
    assert operations.state_of(shop.ws, run_id) is RunState.PASSED
    assert any("the table lineage.runs cannot be read" in problem for problem in audit(shop.ws).problems)
    place.unlink()
    shutil.move(place.with_name("kept"), place)
    shop.publish(run_id)
    assert audit(shop.ws).problems == ()


@pytest.mark.long
def test_vacuum_brings_the_lineage_of_many_runs_together(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backfill_assets.lake.append.MOST_FILES", 2)
    for version in ("0.9.0", "1.0.0"):
        shop.published(MIDDLE, version=version)
    before = runs(shop)
    assert len(shop.ws.lake.open(LINEAGE).file_uris()) == len(before) == 3
    operations.vacuum(shop.ws, by="ops")
    assert len(shop.ws.lake.open(LINEAGE).file_uris()) == 1
    assert runs(shop) == before
    assert audit(shop.ws).problems == ()


def test_of_many_processes_each_run_is_appended_once(shop: Shop) -> None:
    lake = replace(shop.ws.lake, root=shop.ws.lake.root / "other")
    names = [f"bf-{number % 3}" for number in range(24)]
    with ThreadPoolExecutor(8) as writers:
        list(writers.map(lambda name: append_run(lake, {"_run_id": name, **dict.fromkeys(LINEAGE_OF_RUN, "x")}), names))
    assert sorted(row["_run_id"] for row in lineage_rows(lake)) == ["bf-0", "bf-1", "bf-2"]


@pytest.mark.long
def test_rows_carry_everything_where_their_table_declares_it_and_again_less_when_it_does_not(shop: Shop) -> None:
    full = declaring(shop, "full")
    first = published(full, OUTPUT, reason="in full", version="0.9.0")
    expected = lineage(operations.run_named(shop.ws, first).manifest)
    assert all({name: row[name] for name in expected} == expected for row in rows(shop))
    assert expected.items() <= runs(shop)[first].items(), "who joins need not know what a table declares"
    assert check(shop.ws).agrees, "the declaration may ask for less"
    second = published(shop, MIDDLE, reason="run alone")
    by_day = {row["day"]: row for row in rows(shop)}
    assert {by_day[day]["_run_id"] for day in MIDDLE} == {second}
    assert {by_day[day][name] for day in MIDDLE for name in LINEAGE_OF_RUN} == {None}
    assert by_day[OUTPUT.start]["_restatement_reason"] == "in full"
    assert unexplained(shop) == []
    assert audit(shop.ws).problems == ()
    newer, older = row_history(shop.ws, RECENT, FIFTH, {"shop": "only"}).versions
    assert [each.lineage["_restatement_reason"] for each in (newer, older)] == ["run alone", "in full"]
    third = published(full, MIDDLE, reason="in full once more", version="0.9.0")
    assert {row["_restatement_reason"] for row in rows(shop) if row["day"] in MIDDLE} == {"in full once more"}
    operations.rollback(full.ws, third, by="ben", reason="or not")
    assert {row["_run_id"] for row in rows(shop) if row["day"] in MIDDLE} == {second}
    assert audit(shop.ws).problems == ()


@pytest.mark.long
def test_a_table_that_asks_for_more_gets_its_columns_in_the_swap(shop: Shop) -> None:
    first = published(shop, OUTPUT, reason="run alone", version="0.9.0")
    full = declaring(shop, "full")
    assert check(full.ws).agrees
    second = published(full, MIDDLE, reason="in full")
    found = {row["day"]: (row["_run_id"], row["_restatement_reason"]) for row in rows(shop)}
    assert found[FIFTH] == (second, "in full")
    assert found[OUTPUT.start] == (first, None)
    assert audit(full.ws).problems == ()


def _edited(shop: Shop, **changes: str) -> None:
    handle = DeltaTable(shop.ws.lake.url(LINEAGE))
    handle.update(updates={name: f"'{value}'" for name, value in changes.items()}, predicate="_kind = 'BACKFILL'")


def _doubled(shop: Shop) -> None:
    write_deltalake(shop.ws.lake.url(LINEAGE), shop.ws.lake.open(LINEAGE).to_pyarrow_table(), mode="append")


TAMPERING: Mapping[str, tuple[Callable[[Shop], object], str]] = {
    "edited": (
        lambda shop: _edited(shop, _restatement_reason="because"),
        "the row of run .* is not what its publication",
    ),
    "renamed": (lambda shop: _edited(shop, _run_id="bf-other"), "a row of run bf-other that no publication explains"),
    "removed": (
        lambda shop: DeltaTable(shop.ws.lake.url(LINEAGE)).delete(),
        "the row of run .* was published, is gone",
    ),
    "doubled": (_doubled, "run .* has 2 rows"),
    "dropped": (lambda shop: shutil.rmtree(folder_of(shop.ws.lake, LINEAGE)), "the row of run .* is gone"),
}


@pytest.mark.parametrize("how", TAMPERING)
def test_lineage_that_was_changed_by_another_program_is_found(shop: Shop, how: str) -> None:
    only_in_folders("the folder of the table is removed")
    shop.published(MIDDLE, version="0.9.0")
    act, expected = TAMPERING[how]
    act(shop)
    problems = audit(shop.ws).problems
    assert any(f"{LINEAGE}: " in problem for problem in problems)
    assert re.search(expected, "\n".join(problems)), problems

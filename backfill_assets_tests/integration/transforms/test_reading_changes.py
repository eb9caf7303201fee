"""Current rows and the changelog of one source, read side by side: computed, stale, restated, reproduced, undone.

Every day from 1 to 10 May has an order of its own, placed at noon and changed once, an hour later.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.settings import Settings
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.ledger.imports import KeyCounts
from backfill_assets.planning.request import PlanRequest
from backfill_assets.planning.restatement import PlannedSet, SetRequest
from backfill_assets.upkeep.audit import audit
from backfill_assets.workspace import Workspace
from backfill_assets_tests.conftest import NOON, SPARK_ENVIRONMENT
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.ledgers import copy_home, home_environment
from backfill_assets_tests.support.shop import ticking_clock

ORDERS, PLACES, CHANGES = "bronze.orders", "silver.order_places", "silver.order_changes"
DAYS = DayRange.inclusive(date(2025, 5, 1), date(2025, 5, 10))
OUTPUT = DayRange.inclusive(date(2025, 5, 3), date(2025, 5, 10))
"""What can be computed of them: one reader needs two days before."""
FIFTH = date(2025, 5, 5)

Record = Mapping[str, object]


def change(op: str, key: str, lsn: int, day: date | None, *, at: str, place: str = "here") -> Record:
    """A record of the feed; without a day it has no event time of its own."""
    record = {"op": op, "order_id": key, "lsn": lsn, "changed_at": at}
    return record if day is None else {**record, "ordered_at": f"{day}T12:00:00Z", "place": place}


def order_of(day: date) -> str:
    return f"order-{day.day}"


def usual_changes() -> list[Record]:
    return [
        change(op, order_of(day), day.day * 100 + number, day, at=f"{day}T{12 + number}:00:00Z")
        for day in DAYS
        for number, op in enumerate("cu")
    ]


def opened(home: Path, spark: SparkSession, *, hours: int) -> Workspace:
    environment = {
        "BACKFILL_HOME": str(home),
        "BACKFILL_DOMAIN": "backfill_assets_tests.domains.orders",
        "BACKFILL_FIRST_DAY": "2025-05-01",
        **home_environment(home),
        **SPARK_ENVIRONMENT,
    }
    clock = ticking_clock(NOON + timedelta(hours=hours))
    return Workspace.open(Settings.from_environment(environment), clock=clock, open_session=lambda: spark)


def lands(ws: Workspace, name: str, *records: Record) -> str:
    """Lands a file and builds the days that it touches."""
    path = ws.settings.home / name
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    operations.land(ws, ORDERS, path, on_duplicate=OnDuplicate.IGNORE, by="ana")
    run = operations.plan_load(ws, ORDERS, partitions=None, by="ana", reason="landed")
    assert run is not None
    operations.stage(ws, run.run_id, actor="ana")
    operations.gate(ws, run.run_id, actor="ana")
    operations.publish(ws, run.run_id, by="ana")
    return run.run_id


def computes(ws: Workspace, table: str) -> str:
    request = PlanRequest(table=table, days=OUTPUT, reason="first", by="ana")
    run_id = operations.plan(ws, request).manifest.run_id
    operations.stage(ws, run_id, actor="ana")
    assert operations.gate(ws, run_id, actor="ana").passed
    operations.approve(ws, run_id, by="ben")
    operations.publish(ws, run_id, by="ben")
    return run_id


def restates(ws: Workspace) -> PlannedSet:
    """Everything stale, as one published set."""
    planned = operations.plan_set(ws, SetRequest(reason="late", by="ana", stale=True))
    assert isinstance(planned, PlannedSet)
    for member in planned.manifest.members:
        operations.stage(ws, member.run_id, actor="ana")
        assert operations.gate(ws, member.run_id, actor="ana").passed
    operations.approve(ws, planned.manifest.set_id, by="ben")
    operations.publish_set(ws, planned.manifest.set_id, by="ben")
    assert stale(ws) == {}
    return planned


def stale(ws: Workspace) -> Mapping[str, list[int]]:
    """The days of May that are stale, by table."""
    found = {
        each.table: sorted(day.day for stretch in each.ranges for day in stretch.partitions)
        for each in operations.stale_tables(ws)
    }
    return {table: days for table, days in found.items() if days}


def moved(ws: Workspace, planned: PlannedSet) -> Mapping[str, tuple[list[int], list[int]]]:
    """The days that a set exchanged and those that it found equal, by table."""
    found = {}
    with ws.ledger.read() as reader:
        for member in planned.manifest.members:
            intent = reader.publications.records(run_id=member.run_id)[0]
            changed = sorted(each.partition.day for each in intent.changes)
            found[member.table] = (changed, sorted(each.partition.day for each in intent.verified))
    return found


def rows(ws: Workspace, table: str, *columns: str) -> Mapping[int, tuple[Any, ...]]:
    """What readers see of each day of May."""
    found = ws.lake.open(table).to_pyarrow_table(columns=["day", *columns]).to_pylist()
    assert len({row["day"] for row in found}) == len(found)
    return {row["day"].day: tuple(row[column] for column in columns) for row in sorted(found, key=lambda r: r["day"])}


def places(ws: Workspace) -> Mapping[int, int]:
    return {day: orders for day, (orders,) in rows(ws, PLACES, "orders").items()}


def changes(ws: Workspace) -> Mapping[int, tuple[int, ...]]:
    return rows(ws, CHANGES, "orders", "versions", "deletes")


@pytest.fixture(scope="module")
def published_home(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    home = tmp_path_factory.mktemp("feed") / "home"
    home.mkdir()
    with closing(opened(home, spark, hours=0)) as ws:
        lands(ws, "orders.jsonl", *usual_changes())
        for table in (PLACES, CHANGES):
            computes(ws, table)
    return home


@pytest.fixture
def ws(tmp_path: Path, published_home: Path, spark: SparkSession) -> Iterator[Workspace]:
    copy_home(published_home, tmp_path / "home")
    with closing(opened(tmp_path / "home", spark, hours=2)) as ws:
        yield ws


@pytest.mark.long
def test_each_reader_is_given_what_it_declares_over_its_own_window(ws: Workspace) -> None:
    assert places(ws) == {day.day: 2 for day in OUTPUT}
    assert changes(ws) == {day.day: (1, 6, 0) for day in OUTPUT}
    with ws.ledger.read() as reader:
        (run_id,) = (run.run_id for run in reader.runs.records(table=CHANGES))
        proofs = [each for each in reader.candidates.gate_results(run_id) if each.gate == "warm_up"]
    assert {each.passed for each in proofs} == {True}
    assert len({each.partition for each in proofs}) > 1


@pytest.mark.long
def test_a_late_delete_is_stale_where_either_reader_reads_it_and_is_undone_as_a_set(ws: Workspace) -> None:
    """Of the order of the fifth, on the seventh: the day of the order loses it, the day of the delete has a record."""
    before = (places(ws), changes(ws))
    with ws.ledger.read() as reader:
        runs = [run.run_id for run in reader.runs.records() if run.manifest.table != ORDERS]
    lands(ws, "late.jsonl", change("d", order_of(FIFTH), 9_000, None, at="2025-05-07T08:00:00Z"))
    assert stale(ws) == {PLACES: [5, 6, 7, 8], CHANGES: [5, 6, 7, 8, 9]}
    planned = restates(ws)
    assert places(ws) == {day.day: 1 if day.day in (5, 6) else 2 for day in OUTPUT}
    assert changes(ws) == {
        day.day: (int(day != FIFTH), 7 if day.day in (7, 8, 9) else 6, int(day.day in (7, 8, 9))) for day in OUTPUT
    }
    assert moved(ws, planned) == {PLACES: ([5, 6], [7, 8]), CHANGES: ([5, 7, 8, 9], [6])}
    for run_id in (*runs, *(member.run_id for member in planned.manifest.members)):
        assert operations.reproduce(ws, run_id, by="ana").identical
    operations.rollback_set(ws, planned.manifest.set_id, by="ben", reason="as it was")
    assert (places(ws), changes(ws)) == before
    assert audit(ws).problems == ()


@pytest.mark.long
def test_a_late_version_that_decides_nothing_moves_only_who_reads_changes(ws: Workspace) -> None:
    """The first version of an order arrives last."""
    before = places(ws)
    lands(ws, "late.jsonl", change("r", order_of(FIFTH), 500, FIFTH, at=f"{FIFTH}T12:30:00Z", place="there"))
    assert stale(ws) == {}, "a snapshot with the position of a change is overridden by it"
    lands(ws, "later.jsonl", change("c", order_of(FIFTH), 499, FIFTH, at=f"{FIFTH}T11:00:00Z"))
    assert stale(ws) == {PLACES: [5, 6], CHANGES: [5, 6, 7]}
    planned = restates(ws)
    assert moved(ws, planned) == {PLACES: ([], [5, 6]), CHANGES: ([5, 6, 7], [])}
    assert places(ws) == before
    assert changes(ws) == {day.day: (1, 7 if day.day in (5, 6, 7) else 6, 0) for day in OUTPUT}
    operations.rollback_set(ws, planned.manifest.set_id, by="ben", reason="as it was")
    assert changes(ws) == {day.day: (1, 6, 0) for day in OUTPUT}
    assert audit(ws).problems == ()


@pytest.mark.long
def test_a_truncate_ends_every_order_for_both_readers(ws: Workspace) -> None:
    lands(ws, "end.jsonl", {"op": "t", "lsn": 9_999, "changed_at": "2025-05-10T23:00:00Z"})
    with ws.ledger.read() as reader:
        live = reader.imports.records(ORDERS)
    assert sum((record.keys for record in live), KeyCounts()) == KeyCounts(deleted=len(DAYS))
    planned = restates(ws)
    assert places(ws) == {}
    assert changes(ws) == {day.day: (0, 6, 0) for day in OUTPUT}
    for member in planned.manifest.members:
        assert operations.reproduce(ws, member.run_id, by="ana").identical
    assert audit(ws).problems == ()

"""The real events of a year, extracted a second time: 1 % is gone, 1 % has moved to another day, 1 % is new.

A quick run takes a twentieth of the cases, their events until August, and publishes July; a thorough one takes all
cases and the whole of 2006, and publishes the quarter. Both land as many earlier events as the published days read.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.application.statements import complete_extract, land_as_extract
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.settings import Settings
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.planning.request import PlanRequest
from backfill_assets.planning.restatement import PlannedSet, SetRequest
from backfill_assets.upkeep.audit import audit
from backfill_assets.workspace import Workspace
from backfill_assets_tests.conftest import NOON, SPARK_ENVIRONMENT
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.compared_homes import checksums, differing, swapped
from backfill_assets_tests.support.searches import is_thorough
from backfill_assets_tests.support.shop import ticking_clock

BRONZE, SILVER, GOLD = "bronze.case_events", "silver.case_sla_daily", "gold.sla_breach_monthly"
TABLES = (BRONZE, SILVER, GOLD)
YEAR = DayRange.inclusive(date(2006, 1, 1), date(2006, 12, 31))


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What of the log is landed, and what is published over it."""

    landed: DayRange  #: The days whose events are landed.
    published: DayRange  #: The days that are published, whole months.
    one_in: int  #: Of so many cases one is landed.
    events: int  #: How many events of 2006 that are.


JULY = Part(
    landed=DayRange.inclusive(date(2005, 10, 20), date(2006, 8, 2)),
    published=DayRange.inclusive(date(2006, 7, 1), date(2006, 7, 31)),
    one_in=20,
    events=1_610,
)
QUARTER = Part(
    landed=DayRange.inclusive(date(2005, 10, 20), date(2006, 12, 31)),
    published=DayRange.inclusive(date(2006, 7, 1), date(2006, 9, 30)),
    one_in=1,
    events=56_008,
)


def events_of(log: Path, part: Part) -> pd.DataFrame:
    """The events of the part."""
    first, end = (pd.Timestamp(day, tz="UTC") for day in (part.landed.start, part.landed.end))
    rows: pd.DataFrame = pq.read_table(log, filters=[("event_time", ">=", first), ("event_time", "<", end)]).to_pandas()
    of_the_part = rows[rows["case_id"].str[1:].astype(int) % part.one_in == part.one_in * 11 // 20]
    found: pd.DataFrame = of_the_part.sort_values("event_id", ignore_index=True)
    return found


def extracted_again(year: pd.DataFrame, part: Part) -> tuple[pd.DataFrame, int]:
    """The events of the year as a second extract has them, and how many it lacks."""
    chance = random.Random(2006)
    days = [day for day in part.landed if day in YEAR]
    many = len(year) // 100
    chosen = chance.sample(range(len(year)), 3 * many)
    removed, moved, copied = chosen[:many], chosen[many : 2 * many], chosen[2 * many :]
    added = year.iloc[copied].assign(event_id=[f"again-{number}" for number in range(many)])
    times: list[Any] = list(year["event_time"])
    for index in moved:
        day = times[index].date()
        times[index] += timedelta(days=(chance.choice([other for other in days if other != day]) - day).days)
    found = year.assign(event_time=times)
    return pd.concat([found.drop(index=removed), added], ignore_index=True), many


def written(path: Path, rows: pd.DataFrame, schema: pa.Schema) -> Path:
    pq.write_table(pa.Table.from_pandas(rows, schema, preserve_index=False), path)
    return path


@contextmanager
def home(folder: Path, spark: SparkSession, reference: Path) -> Iterator[Workspace]:
    environment = {"BACKFILL_HOME": str(folder), "BACKFILL_REFERENCE": str(reference), **SPARK_ENVIRONMENT}
    settings = Settings.from_environment(environment)
    with closing(Workspace.open(settings, clock=ticking_clock(NOON), open_session=lambda: spark)) as ws:
        yield ws


def landed_and_published(ws: Workspace, events: Path, part: Part) -> None:
    """All three tables."""
    operations.land(ws, BRONZE, events, on_duplicate=OnDuplicate.IGNORE, by="ana")
    load = operations.plan_load(ws, BRONZE, partitions=None, by="ana", reason="the log")
    assert load is not None
    _published(ws, load.run_id)
    for table in (SILVER, GOLD):
        request = PlanRequest(table=table, days=part.published, reason="deadlines", by="ana")
        run_id = operations.plan(ws, request).manifest.run_id
        operations.approve(ws, run_id, by="ben")
        _published(ws, run_id)


def _published(ws: Workspace, run_id: str) -> None:
    operations.stage(ws, run_id, actor="ana")
    operations.gate(ws, run_id, actor="ana")
    operations.publish(ws, run_id, by="ben")


def restated(ws: Workspace) -> PlannedSet:
    """Everything stale of the published days, as one published set."""
    planned = operations.plan_set(ws, SetRequest(reason="the second extract", by="ana", stale=True))
    assert isinstance(planned, PlannedSet)
    for member in planned.manifest.members:
        operations.stage(ws, member.run_id, actor="ana")
        operations.gate(ws, member.run_id, actor="ana")
    operations.approve(ws, planned.manifest.set_id, by="ben")
    operations.publish_set(ws, planned.manifest.set_id, by="ben")
    return planned


@pytest.mark.long
def test_a_year_of_the_log_is_replaced_by_an_extract_that_lacks_moves_and_adds_some_of_it(
    spark: SparkSession, traffic_fines: Path, fines_reference: Path, tmp_path: Path
) -> None:
    part = QUARTER if is_thorough() else JULY
    log, reference = traffic_fines / "events.parquet", fines_reference
    events, schema = events_of(log, part), pq.read_schema(log)
    is_of_the_year = events["event_time"] >= pd.Timestamp(YEAR.start, tz="UTC")
    year = events[is_of_the_year].reset_index(drop=True)
    assert len(year) == part.events
    second, lacking = extracted_again(year, part)
    extract = written(tmp_path / "second.parquet", second, schema)

    with home(tmp_path / "clean", spark, reference) as ws:
        only = written(tmp_path / "only.parquet", pd.concat([events[~is_of_the_year], second]), schema)
        landed_and_published(ws, only, part)
        wanted = checksums(ws, TABLES)

    with home(tmp_path / "home", spark, reference) as ws:
        landed_and_published(ws, written(tmp_path / "first.parquet", events, schema), part)
        before = checksums(ws, TABLES)
        # Days after these would be known to have no events.
        of_the_year = DayRange(YEAR.start, part.landed.end)
        stated = complete_extract(of_the_year, where={}, reason="the second extract")
        report = land_as_extract(ws, BRONZE, [extract], stated, Acting(by="ana", recorder=Unrecorded()), builds=True)
        assert report.imports[-1].record.counts.landed == lacking == part.events // 100
        assert report.load is not None
        moves = differing(before, wanted)
        assert swapped(ws, [report.load.run.record.run_id])[0] == {place for place in moves if place[0] == BRONZE}

        planned = restated(ws)
        assert checksums(ws, TABLES) == wanted
        changed, verified = swapped(ws, [member.run_id for member in planned.manifest.members])
        assert changed == {place for place in moves if place[0] != BRONZE}
        assert not changed & verified
        assert {table for table, _ in changed} == {SILVER, GOLD}

        operations.rollback_set(ws, planned.manifest.set_id, by="ben", reason="as it was")
        operations.rollback(ws, report.load.run.record.run_id, by="ben", reason="as it was")
        assert checksums(ws, TABLES) == before
        assert audit(ws).problems == ()

"""Days and months that a declaration had exchanged are read anew: all that rests on either day is planned, and readers
see what they would see if the declaration had been right from the beginning."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill_assets.application.land import land_files, load
from backfill_assets.application.land_again import land_again
from backfill_assets.application.look import stale
from backfill_assets.application.plan import described, plan, plan_set
from backfill_assets.application.propose import step_after_reading
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.calendar.partitions import DayRange, days_in
from backfill_assets.core.errors import Refused
from backfill_assets.core.settings import Settings
from backfill_assets.domain import Domain
from backfill_assets.landing.errors import NothingLanded
from backfill_assets.planning.errors import IncompleteWindows
from backfill_assets.planning.request import PlanRequest
from backfill_assets.planning.restatement import PlannedSet, SetRequest
from backfill_assets.report.command_line import words_of
from backfill_assets.report.locate import locate
from backfill_assets.report.pages import page_of
from backfill_assets.testing import DomainKit
from backfill_assets.workspace import Workspace
from backfill_assets_tests.conftest import SPARK_ENVIRONMENT
from backfill_assets_tests.domains import rain as declared
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import has_code
from backfill_assets_tests.support.captured_shop import plain_text
from backfill_assets_tests.support.ledgers import home_environment
from backfill_assets_tests.support.shop import ticking_clock

RAIN, DAYS = "bronze.rain", "silver.rain_of_days"
ANA = Acting(by="ana", recorder=Unrecorded())
ROWS = {date(2024, 12, 30) + timedelta(days=place): 10 + place for place in range(82)}
"""What fell on each day, until 21 March."""

EXCHANGED = {date(2025, day.day, day.month): mm for day, mm in ROWS.items() if day.day <= 12}
"""What seems to have fallen on each day, where day and month are exchanged."""

ONE_DAY = timedelta(days=1)
CHANGED = {day for day in {*ROWS, *EXCHANGED} if ROWS.get(day) != EXCHANGED.get(day)}


def wetted(form: str, *, gap: int) -> Domain:
    source = replace(declared.rain, formats={"day": form}, plausible_gap_days=gap)
    table = replace(declared.rain_of_days, inputs={"rain": source})
    return replace(declared.DOMAIN, sources=(source, declared.gauges), derived=(table,))


@pytest.fixture
def ws(tmp_path: Path, spark: SparkSession) -> Iterator[Workspace]:
    environment = {
        "BACKFILL_HOME": str(tmp_path),
        "BACKFILL_DOMAIN": "backfill_assets_tests.domains.rain",
        "BACKFILL_FIRST_DAY": "2024-12-01",
        **home_environment(tmp_path),
        **SPARK_ENVIRONMENT,
    }
    settings = Settings.from_environment(environment)
    found = Workspace.open(settings, clock=ticking_clock(datetime(2026, 1, 20, tzinfo=UTC)), open_session=lambda: spark)
    yield found
    found.close()


def read_as(ws: Workspace, form: str, *, gap: int) -> Workspace:
    again = replace(ws, domain=wetted(form, gap=gap))
    again.__dict__["ledger"] = ws.ledger
    return again


def written(folder: Path) -> Path:
    path = folder / "rain.csv"
    lines = [f"a,{day.day}/{day.month}/{day.year},{mm}" for day, mm in ROWS.items()]
    path.write_text("\n".join(["station,day,mm", *lines, ""]), encoding="utf-8")
    return path


def seen(ws: Workspace, folder: Path, table: str) -> Mapping[date, int]:
    """What readers see of days on which something fell."""
    return {row["day"]: row["mm"] for row in DomainKit(ws=ws, folder=folder).rows(table) if row["mm"]}


def days_over(built: Collection[date]) -> set[date]:
    """The days of the derived table that can be computed: with the day before."""
    return {day for day in built if day - ONE_DAY in built}


def fallen(built: Collection[date]) -> Mapping[date, int]:
    """What readers should see: by day, what fell on it and on the day before."""
    every = {day: ROWS.get(day, 0) + ROWS.get(day - ONE_DAY, 0) for day in days_over(built)}
    return {day: mm for day, mm in every.items() if mm}


@pytest.mark.long
@pytest.mark.parametrize("gap", [0, 31])
def test_days_and_months_that_were_exchanged_are_planned_together_and_leave_nothing_behind(
    ws: Workspace, tmp_path: Path, gap: int
) -> None:
    wrong, right = (read_as(ws, form, gap=gap) for form in ("M/d/yyyy", "d/M/yyyy"))
    (landed,) = land_files(wrong, "rain", [written(tmp_path)], ANA, on_duplicate="ignore", builds=True).imports
    assert (landed.record.counts.accepted, landed.record.counts.rejected) == (36, 46)
    kit = DomainKit(ws=wrong, folder=tmp_path)
    some = days_in(DayRange.inclusive(day, day) for day in days_over(kit.accepted(RAIN)))
    run_id = plan(wrong, PlanRequest(table=DAYS, days=some, reason="r", by="ana")).manifest.run_id
    kit.stage(run_id)
    kit.gate(run_id)
    operations.approve(wrong, run_id, by="ben")
    operations.publish(wrong, run_id, by="ben")
    nothing = described(right, plan_set(right, SetRequest(reason="r", by="ana", stale=True)))
    said = plain_text(page_of(nothing))
    assert f"1 landed file of {RAIN} was read by an earlier declaration" in said
    assert "backfill land rain --again-as-declared --dry-run" in said
    outcome = land_again(right, "rain", [], ANA, builds=True)
    assert outcome.imports[0].record.counts.rejected == 0
    following = step_after_reading(right, outcome)
    assert following is not None
    words = shlex.split(words_of(following).partition(" plans all")[0])
    ends = [date.fromisoformat(word) for before, word in pairwise(words) if before in ENDS]
    named = days_in(DayRange.inclusive(*pair) for pair in zip(ends[::2], ends[1::2], strict=True))
    built = DomainKit(ws=right, folder=tmp_path).accepted(RAIN)
    assert set(named) == {*CHANGED, *(day + ONE_DAY for day in CHANGED)} & days_over(built)
    asked = SetRequest(reason="r", by="ana", stale=True, days=named, partial="--partial" in words)
    planned = plan_set(right, asked)
    assert isinstance(planned, PlannedSet)
    kit, set_id = DomainKit(ws=right, folder=tmp_path), planned.manifest.set_id
    for run in planned.plans:
        kit.stage(run.manifest.run_id)
        kit.gate(run.manifest.run_id)
    operations.approve(right, set_id, by="ben")
    operations.publish_set(right, set_id, by="ben")
    assert seen(right, tmp_path, RAIN) == ROWS
    assert seen(right, tmp_path, DAYS) == fallen(built)
    assert not stale(right, None, None).is_stale
    after = step_after_reading(right, outcome)
    assert (after is not None) == bool(gap)
    if after is not None:
        assert "nothing explains them now" in words_of(after)
        bogus = [day for day in DomainKit(ws=right, folder=tmp_path).accepted(RAIN) if day not in {*ROWS, *EXCHANGED}]
        load(right, "rain", days_in(DayRange.inclusive(day, day) for day in bogus), ANA, empty=True, reason="dry")
        assert step_after_reading(right, outcome) is None


ENDS = ("--from", "--to")


@pytest.mark.long
def test_days_of_rejected_records_are_no_days_without_events(ws: Workspace, tmp_path: Path) -> None:
    lines = ["a,1/3/2025,1", "a,2/3/2025,much", "a,3/3/2025,3", "a,13.3.2025,4", "a,14.3.2025,5"]
    path = tmp_path / "rain.csv"
    path.write_text("\n".join(["station,day,mm", *lines, ""]), encoding="utf-8")
    right = read_as(ws, "d/M/yyyy", gap=31)
    report = land_files(right, "rain", [path], ANA, on_duplicate="ignore", builds=True)
    (landed,) = report.imports
    assert dict(landed.record.rejected_on) == {date(2025, 3, 2): 1}
    second, later = (DayRange.inclusive(day, day) for day in (date(2025, 3, 2), date(2025, 3, 13)))
    with ws.ledger.read() as tx:
        assert set(tx.versions.claims(RAIN)) == {date(2025, 3, 1), date(2025, 3, 3)}, "the second has a rejected record"
    again = f"backfill land rain --again-as-declared --imports {landed.record.import_id} --by NAME"
    assert any("may be of days without events" in words_of(each) for each in report.next_steps)
    some = DayRange.inclusive(date(2025, 3, 1), date(2025, 3, 4))
    with pytest.raises(
        Refused,
        check=has_code("rejected_among_empty"),
        match=r"2025-03-02, 1 day of bronze\.rain cannot be declared empty among",
    ) as among:
        load(right, "rain", some, ANA, empty=True, reason="nothing")
    alone = "backfill load rain --from 2025-03-02 --to 2025-03-02 --empty --reason WHY --by NAME"
    assert (advice := among.value.next_step) is not None and words_of(advice).endswith(alone)
    with pytest.raises(NothingLanded, match="; of 2 records that were rejected the day is not known") as nothing:
        load(right, "rain", later, ANA, empty=False, reason="r")
    advice = nothing.value.next_step
    assert advice is not None and again in words_of(advice)
    with pytest.raises(IncompleteWindows) as lacking:
        plan(right, PlanRequest(table=DAYS, days=second, reason="r", by="ana"))
    advice = lacking.value.next_step
    assert advice is not None and again in words_of(advice)
    found = locate(right, "rain", second)
    assert [(each.record.import_id, each.records) for each in found.imports] == [(landed.record.import_id, 0)]
    loaded = load(right, "rain", later, ANA, empty=True, reason="nothing")
    assert "may be of days that are declared empty in bronze.rain" in plain_text(page_of(loaded))
    loaded = load(right, "rain", second, ANA, empty=True, reason="nothing")
    assert "may be of days that are declared empty in bronze.rain" in plain_text(page_of(loaded))

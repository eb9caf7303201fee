"""The short version of `make test-faults`: the places that matter most, once each."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import backfill_assets
from backfill_assets.core.crash_points import Point
from backfill_assets_tests.faults.crashes import Bench, Case, Outcome, cases, chosen, part, table
from backfill_assets_tests.faults.dying import Victims
from backfill_assets_tests.faults.outside import NoServer, outside
from backfill_assets_tests.faults.scenarios import SCENARIOS
from backfill_assets_tests.support import operations

EVERYWHERE = ("publish", "recover a commit", "roll back with dependents", "publish what an extract changed")
SOMEWHERE = (
    ("roll back a set with an equal table", Point.SET_TABLE_BROUGHT_BACK),
    ("roll back what is being followed", Point.SWAP_COMMITTED),
    ("land", Point.LAND_CONFORMED),
    ("land together", Point.LAND_CONFORMED),
    ("land together", Point.LAND_QUARANTINED),
    ("land a dialect", Point.LAND_DECODED),
    ("land a dialect", Point.LAND_CONFORMED),
    ("land again as declared", Point.LAND_DECODED),
    ("land again as declared", Point.LAND_CONFORMED),
    ("stage", Point.STAGE_FILES_WRITTEN),
    ("check", Point.CHECK_APPENDED),
    ("land an extract", Point.LAND_STATED),
    ("land an extract", Point.LAND_BEGUN),
    ("withdraw", Point.LAND_STATED),
    ("restore", Point.LAND_STATED),
    ("land late deletes", Point.LAND_CONFORMED),
    ("job publishes a run", Point.SWAP_COMMITTED),
    ("job recovers commit", Point.RECOVER_FENCED),
    ("restate a chain of snapshots", Point.STAGE_CHUNK_FINISHED),
    ("restate a chain of snapshots", Point.SWAP_COMMITTED),
    ("let snapshots expire", Point.STAGE_CHUNK_FINISHED),
    ("let snapshots expire", Point.SWAP_COMMITTED),
    ("bring expired snapshots back", Point.SWAP_COMMITTED),
    ("stage a merge", Point.STAGE_FILES_WRITTEN),
    ("publish a merge", Point.SWAP_COMMITTED),
    ("publish what only adds", Point.SWAP_COMMITTED),
    ("publish a phase", Point.SET_BEGUN),
    ("publish a phase", Point.SWAP_COMMITTED),
    ("undo a phase", Point.SWAP_COMMITTED),
    ("cut over", Point.TABLE_ACT_DONE),
    ("undo a cut-over", Point.TABLE_ACT_DONE),
    ("propose", Point.PROPOSAL_DECIDED),
    ("propose", Point.PROPOSAL_PLANNED),
    ("capture an api", Point.CAPTURE_KEPT),
    ("reconcile an api", Point.LAND_STATED),
    ("capture a topic", Point.CAPTURE_RECORDED),
    ("capture a stream", Point.CAPTURE_KEPT),
    ("replay a source to a topic", Point.REPLAY_BATCH_SENT),
    ("replay a table to a stream", Point.REPLAY_PUT),
    ("close a replay to a stream", Point.REPLAY_DELETED),
)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Bench]:
    with Victims() as victims, outside():
        yield Bench(tmp_path_factory.mktemp("bench"), spark, victims)


def require_servers(bench: Bench, name: str) -> None:
    """Skips what needs a server outside that this machine does not have."""
    try:
        bench.clean(name)
    except NoServer as reason:
        pytest.skip(f"{name.upper()} IS NOT TESTED: {reason}")


@pytest.mark.parametrize("name", EVERYWHERE)
def test_nothing_is_lost_wherever_it_is_killed(bench: Bench, name: str) -> None:
    places = len(bench.clean(name).places)
    assert places >= 2
    outcomes = [bench.run(case) for case in cases([name], ["once"], {name: places})]
    assert [outcome.point for outcome in outcomes] == list(bench.clean(name).places)
    assert [outcome.violations for outcome in outcomes] == [()] * places, table(outcomes)


@pytest.mark.long
@pytest.mark.parametrize(("name", "at"), SOMEWHERE)
def test_nothing_is_lost_when_it_is_killed_at(bench: Bench, name: str, at: Point) -> None:
    require_servers(bench, name)
    outcome = bench.run(Case(scenario=name, visit=bench.clean(name).places.index(at), how="once"))
    assert (outcome.point, outcome.violations) == (at, ())


@pytest.mark.long
def test_a_process_that_is_killed_and_killed_again_in_its_recovery_loses_nothing(bench: Bench) -> None:
    visit = bench.clean("publish").places.index(Point.SWAP_COMMITTED)
    assert bench.run(Case(scenario="publish", visit=visit, how="twice")).violations == ()


def test_every_place_is_passed_by_some_operation() -> None:
    """A place that nothing passes is a place where nothing is killed. Read from the sources, not from a run."""
    named = {point.name for point in Point}
    sources = Path(backfill_assets.__file__).parent.rglob("*.py")
    used = {name for path in sources for name in named if f"Point.{name})" in path.read_text(encoding="utf-8")}
    assert used == named


def test_a_recovery_that_does_nothing_would_be_noticed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    visit = bench.clean("publish").places.index(Point.SWAP_COMMITTED)
    case = Case(scenario="publish", visit=visit, how="once")
    monkeypatch.setattr(operations, "recover", lambda ws, *, by: ())
    outcome = bench.run(case)
    assert isinstance(outcome, Outcome)
    assert any("is still PUBLISHING" in violation for violation in outcome.violations)


def test_the_parts_of_the_command_are_all_of_it_and_none_twice() -> None:
    parts = [chosen(list(SCENARIOS), number, 3) for number in (1, 2, 3)]
    assert sorted(name for each in parts for name in each) == sorted(SCENARIOS)
    assert part("2/3") == (2, 3)
    for typed in ("0/3", "4/3", "1", "x/y"):
        with pytest.raises(ArgumentTypeError):
            part(typed)


@pytest.mark.long
def test_every_scenario_is_named_for_the_command() -> None:
    assert {"land", "load", "stage", "resume", "gate", "publish", "roll back", "vacuum"} <= set(SCENARIOS)

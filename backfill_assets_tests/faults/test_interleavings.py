"""Real actors over one real table, in many orders: nothing is lost, nothing half-visible, and the loser learns why."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from backfill_assets_tests.faults import guards
from backfill_assets_tests.faults.interleavings import Races, Report, races
from backfill_assets_tests.support.searches import examples

SEEDS = examples(125)
IN_ALL_ORDERS = (
    ("backfill", "live"),
    ("backfill", "recover"),
    ("rollback", "equal"),
    ("other", "foreign append to an empty day"),
    ("vacuum", "foreign restore"),
    ("backfill", "cancel"),
    ("restage", "cancel"),
    ("restage", "recover"),
    ("regate", "restage"),
    ("correction back", "cancel follow-ups"),
)


@pytest.fixture(scope="module")
def game() -> Iterator[Races]:
    with races() as opened:
        yield opened


def stories(report: Report) -> str:
    return "\n".join(run.story for run in report.failed[:3])


@pytest.mark.parametrize("pair", IN_ALL_ORDERS, ids=" x ".join)
def test_in_every_order_of_the_phases_nothing_is_amiss(game: Races, pair: tuple[str, str]) -> None:
    report = Report()
    for run in game.all_orders(pair):
        report.add(run)
    assert not report.failed, stories(report)
    assert report.total > 3


@pytest.mark.long
def test_in_random_orders_with_deaths_and_failures_nothing_is_amiss(game: Races) -> None:
    report = Report()
    for seed in range(SEEDS):
        report.add(game.by_chance(seed))
    assert not report.failed, stories(report)
    assert len(report.runs) > SEEDS // 5


@pytest.mark.long
def test_a_seed_is_always_the_same_run(game: Races) -> None:
    first, second = game.by_chance(17), game.by_chance(17)
    assert (first.actors, first.turns) == (second.actors, second.turns)


@pytest.mark.parametrize("guard", guards.GUARDS)
def test_without_any_one_guard_something_is_amiss(game: Races, guard: str) -> None:
    seen_by = guards.GUARDS[guard].seen_by
    with guards.without(guard):
        runs = [game.by_chance(seen_by)] if isinstance(seen_by, int) else game.all_orders(seen_by)
        assert any(run.violations for run in runs), f"nothing needs {guard}"

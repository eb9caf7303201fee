"""The crash harness and the interleavings with every lake in an object store: the short version of `make test-s3`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from backfill_assets.core.crash_points import Point
from backfill_assets_tests.faults.crashes import HOW, Bench, Case
from backfill_assets_tests.faults.dying import Victims
from backfill_assets_tests.faults.interleavings import Report, races
from backfill_assets_tests.support.lakes import use_store
from backfill_assets_tests.support.s3_server import Store
from backfill_assets_tests.support.searches import examples

pytestmark = pytest.mark.long

SEEDS = examples(125)


@pytest.fixture(scope="module")
def on_a_store(store: Store) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        use_store(patch, store)
        yield


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, on_a_store: None) -> Iterator[Bench]:
    with Victims() as victims:
        yield Bench(tmp_path_factory.mktemp("bench"), spark, victims)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("at", [Point.SWAP_INTENDED, Point.SWAP_COMMITTED])
def test_a_publication_to_a_store_that_is_killed_loses_nothing(bench: Bench, at: Point, how: str) -> None:
    outcome = bench.run(Case(scenario="publish", visit=bench.clean("publish").places.index(at), how=how))
    assert (outcome.point, outcome.violations) == (at, ())


def test_in_random_orders_with_deaths_and_failures_nothing_is_amiss_in_a_store(on_a_store: None) -> None:
    report = Report()
    with races() as game:
        for seed in range(SEEDS):
            report.add(game.by_chance(seed))
    assert not report.failed, "\n".join(run.story for run in report.failed[:3])
    assert report.total == SEEDS

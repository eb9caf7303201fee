"""Which jobs of sensors are killed? They go on afterwards, as the daemon launches them again.

What they do is killed as people's acts as well; here Dagster has a record of the run that died.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from backfill_assets.orchestration.sensors import PUBLISH, RECOVER
from backfill_assets.workspace import Workspace
from backfill_assets_tests.faults.scenario import Notes, Scenario, published
from backfill_assets_tests.support.dagster_record import open_record
from backfill_assets_tests.support.shop import Shop
from backfill_assets_tests.support.ticks import Ticks

Prepare = Callable[[Shop], Notes]


def jobs(*, a_run: Prepare, a_set: Prepare, staging: Prepare, **publications: Prepare) -> Sequence[Scenario]:
    """The scenarios.

    Args:
        a_run: Leaves a run that only has to be published.
        a_set: Leaves such a set.
        staging: Leaves a run that stopped while it was staged.
        publications: What leaves a publication half-way, by its name.
    """
    publishes, recovers = partial(_act, name=PUBLISH.job), partial(_act, name=RECOVER.job)
    return (
        Scenario(name="job publishes a run", home="published", prepare=a_run, act=publishes, finish=_finish),
        Scenario(name="job publishes a set", home="month", prepare=a_set, act=publishes, finish=_finish),
        Scenario(name="job recovers staging", home="published", prepare=staging, act=recovers, finish=published),
        *(
            Scenario(name=f"job recovers {name}", home="published", prepare=left, act=recovers, finish=_finish)
            for name, left in publications.items()
        ),
    )


def _act(ws: Workspace, _: Notes, *, name: str) -> None:
    ticks = Ticks(ws)
    with open_record(ws.settings) as instance, ticks.open(instance):
        result = ticks.job(name, {})
        assert result.success, [event.message for event in result.all_events if event.is_failure]


def _finish(shop: Shop, notes: Notes) -> None:
    for name in (RECOVER.job, PUBLISH.job):
        _act(shop.ws, notes, name=name)

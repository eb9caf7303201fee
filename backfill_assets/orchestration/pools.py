"""Pools: which Dagster runs have a place among those that use Spark at one time, and how the others wait.

Dagster frees the place of a run that was killed only where a daemon watches its process, and none watches one that
`dagster job execute` has started: every later run would wait for ever. It asks for a place in a loop that takes a whole
core, because it never sleeps for longer than 0 seconds, and in which a run does not notice that it is terminated.
"""

from __future__ import annotations

import time

from backfill_assets.core.lease import this_process
from backfill_assets.orchestration import tags
from backfill_assets.orchestration.attempts import end_abandoned_runs
from backfill_assets.orchestration.dagster_internals import (
    ConcurrencyClaimStatus,
    SqlEventLogStorage,
    raise_execution_interrupts,
    replace,
)

PAUSE_S = 1.0
"""How long a run waits before it asks for a place again."""


class LivePools(SqlEventLogStorage):
    """What a SQL event log needs so that only runs whose process is at work have a place in a pool."""

    def claim_concurrency_slot(
        self, concurrency_key: str, run_id: str, step_key: str, priority: int | None = None
    ) -> ConcurrencyClaimStatus:
        """Claims a place; one of a run that has ended, or whose process of this machine is gone, is free.

        Returns:
            What became of it, after a pause where there is no place: then Dagster asks again at once.
        """
        run = self._instance.get_run_by_id(run_id)
        if run is not None and run.tags.get(tags.PROCESS) != this_process():
            self._instance.add_run_tags(run_id, {tags.PROCESS: this_process()})
        claim = super().claim_concurrency_slot(concurrency_key, run_id, step_key, priority)
        if not claim.is_claimed and self._free_places(concurrency_key):
            claim = super().claim_concurrency_slot(concurrency_key, run_id, step_key, priority)
        if claim.is_claimed:
            return claim
        with raise_execution_interrupts():
            time.sleep(PAUSE_S)
        return replace(claim, sleep_interval=0.0)

    def _free_places(self, concurrency_key: str) -> bool:
        end_abandoned_runs(self._instance)
        ended = [
            run_id
            for run_id in self.get_concurrency_info(concurrency_key).active_run_ids
            if (run := self._instance.get_run_by_id(run_id)) is None or run.is_finished
        ]
        for run_id in ended:
            self.free_concurrency_slots_for_run(run_id)
        return bool(ended)

"""What a reader can do next about an error: decided here, from its class and its fields, and nowhere else."""

from __future__ import annotations

from backfill_assets.core.errors import BackfillError
from backfill_assets.report.requests import NextStep, step


def next_step_of(error: BackfillError) -> NextStep | None:
    """What a reader can do about an error; None when there is nothing."""
    # Imported when an error is explained: most commands end without one.
    from backfill_assets.report.advice import machine, runs, sources

    of_sources = (sources.of_capture, sources.of_deliver, sources.of_domain, sources.of_transforms)
    of_runs = (runs.of_lake, runs.of_ledger, runs.of_planning)
    for advice_of in (*of_sources, machine.of_core, machine.of_upkeep, *of_runs):
        if found := advice_of(error):
            return step(found)
    for advice_on in (sources.of_landing, runs.of_candidates, runs.of_publication, runs.of_restatements):
        if found := advice_on(error, next_step_of):
            return step(found)
    return None

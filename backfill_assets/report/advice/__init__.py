"""What a reader can do next about an error: decided here, from its class and its fields, and nowhere else."""

from __future__ import annotations

from backfill_assets.core.errors import BackfillError
from backfill_assets.core.next_steps import NextStep, step


def next_step_of(error: BackfillError) -> NextStep | None:
    """What a reader can do about an error; None when there is nothing."""
    # Imported when an error is explained: most commands end without one.
    from backfill_assets.report.advice import machine, runs, sources

    rooms = (sources, machine, runs)
    kinds = type(error).__mro__
    fixed = next((room.FIXED[kind] for kind in kinds for room in rooms if kind in room.FIXED), None)
    found = fixed or next(filter(None, (room.advice_on(error, next_step_of) for room in rooms)), None)
    return step(found) if found else None

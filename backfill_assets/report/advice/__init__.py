"""What a reader can do next about an error: decided here, from its class and its fields, and nowhere else.

One module per room whose errors it knows.
"""

from __future__ import annotations

from backfill_assets.core.errors import BackfillError
from backfill_assets.report.requests import NextStep, step


def next_step_of(error: BackfillError) -> NextStep | None:
    """What a reader can do about an error; None when there is nothing."""
    # Imported when an error is explained: most commands end without one.
    from backfill_assets.report.advice.candidates import of_candidates
    from backfill_assets.report.advice.capture import of_capture
    from backfill_assets.report.advice.core import of_core
    from backfill_assets.report.advice.deliver import of_deliver
    from backfill_assets.report.advice.domain import of_domain
    from backfill_assets.report.advice.lake import of_lake
    from backfill_assets.report.advice.landing import of_landing
    from backfill_assets.report.advice.ledger import of_ledger
    from backfill_assets.report.advice.planning import of_planning
    from backfill_assets.report.advice.publication import of_publication
    from backfill_assets.report.advice.restatements import of_restatements
    from backfill_assets.report.advice.transforms import of_transforms
    from backfill_assets.report.advice.upkeep import of_upkeep

    of_rooms = (of_capture, of_core, of_deliver, of_domain, of_lake, of_ledger, of_planning, of_transforms, of_upkeep)
    for advice_of in of_rooms:
        if found := advice_of(error):
            return step(found)
    for advice_on in (of_candidates, of_landing, of_publication, of_restatements):
        if found := advice_on(error, next_step_of):
            return step(found)
    return None

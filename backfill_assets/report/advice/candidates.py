"""What to do about errors of candidates."""

from __future__ import annotations

from backfill_assets.candidates import errors
from backfill_assets.core.errors import BackfillError
from backfill_assets.report.advice.filling import plan_again
from backfill_assets.report.requests import Act, Advice, Following, Option, do, step


def of_candidates(error: BackfillError, following: Following) -> Advice | None:
    """The advice for an error of this room; None for others. That for its cause is `following`'s."""
    match error:
        case errors.InputChanged():
            return do(Act.AUDIT)
        case errors.InputRemoved():
            kept = do(Act.HISTORY, error.table, partition=error.partition)
            return step("plan it again, from what is accepted now; the retained versions: ", kept)
        case errors.InputNotStaged():
            return do(Act.RUN, error.other)
        case errors.StagedAgain():
            return step("stage it again: ", do(Act.RUN, error.set_id or error.run_id))
        case errors.MergedWithEarlier():
            return step("plan it again, so that it is merged with them: ", plan_again(error.manifest))
        case errors.LaterContract():
            return "plan the run again, with the contract as it is now"
        case errors.SparkStopped():
            return step("fix the cause, then ", do(Act.RUN, error.run_id))
        case errors.LostWhenStopped():
            return following(error.cause)
        case errors.NotStageable():
            return do(Act.REPORT, error.run_id)
        case errors.CostsMore():
            return step(
                "find out why it takes longer than expected, then plan again and allow more with ", Option("max-cost")
            )
        case errors.TooManyRows():
            return step(
                "find out why there are more rows than expected, then plan again and allow more with ",
                Option("max-rows"),
            )
        case _:
            return None

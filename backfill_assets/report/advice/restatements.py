"""What to do about errors of restatements."""

from __future__ import annotations

from backfill_assets.core.errors import BackfillError
from backfill_assets.report.advice.filling import joined, loads
from backfill_assets.report.advice.left_out import NEW_VERSION, how_to_include
from backfill_assets.report.requests import (
    NAME,
    WHY,
    Act,
    Advice,
    Following,
    Option,
    approve,
    do,
    go_on_with,
    publish,
    step,
    undo,
)
from backfill_assets.restatements import errors


def of_restatements(error: BackfillError, following: Following) -> Advice | None:
    """The advice for an error of this room; None for others. That for its cause is `following`'s."""
    match error:
        case errors.SetIs() | errors.ReproducedOneByOne(published=()):
            return do(Act.STATUS, error.set_id)
        case errors.SetIsNeverPublished():
            return f"plan the set again without the mode {error.mode}"
        case errors.MemberNotPublishable():
            return go_on_with(error.run_id, error.state, error.set_id, is_leased=error.is_leased)
        case errors.AnotherPhaseFirst():
            return step("publish that first: ", publish(error.set_id))
        case errors.PhaseHeld():
            return step("publish it then: ", publish(error.set_id))
        case errors.MemberSuperseded(undone_with=str() as whole):
            return step("undo the later publication first: ", undo(whole))
        case errors.MemberSuperseded():
            return step(do(Act.HISTORY, error.table), "; roll back the later publication first")
        case errors.OnlyUndoneWithSet():
            return do(Act.ROLLBACK, error.set_id, with_dependents=True, by=NAME, reason=WHY)
        case errors.SetWouldBeOrphaned():
            return step("a set is undone as a whole, so undo it first: ", undo(error.set_id))
        case errors.HalfPublished():
            first = following(error.cause)
            completes = step(do(Act.RECOVER), ", which completes the set or reverses it")
            return step(completes, "; or first ", first) if first else completes
        case errors.HalfRolledBack():
            return step(
                *(do(Act.RECOVER), ", which goes on with it; or, to give the rollback up: "),
                *(approve(error.set_id), ", then "),
                publish(error.set_id),
            )
        case errors.OnlyDependentsRolledBack():
            return following(error.cause)
        case errors.NoChangeNamed():
            return step("add ", Option("because", "TABLE:DAY..DAY"), ", or ", Option("stale"))
        case errors.StaleNeedsPresent():
            return step(
                *("leave ", Option("references"), " out; or name what changed, instead of ", Option("stale"), ": "),
                Option("because", "TABLE:DAY..DAY"),
            )
        case errors.ReproducedOneByOne(published=[_, *_]):
            return joined([do(Act.REPRODUCE, run_id) for run_id in error.published])
        case errors.OpenKeepsChanging():
            return "try again when the other processes are done"
        case errors.OnlyCodeChanged():
            return NEW_VERSION
        case errors.NotLoaded():
            return joined(loads(error.table, error.partitions))
        case errors.OnlyPart(left_out=[first, *_]):
            return step(how_to_include(first), "; or, to plan less than was asked for, add ", Option("partial"))
        case _:
            return None

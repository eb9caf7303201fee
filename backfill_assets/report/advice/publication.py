"""What to do about errors of publication."""

from __future__ import annotations

from backfill_assets.core.errors import BackfillError
from backfill_assets.ledger.states import RunState
from backfill_assets.publication import errors
from backfill_assets.report.advice.filling import plan_again, plan_anew
from backfill_assets.report.advice.left_out import added_again
from backfill_assets.report.requests import (
    NAME,
    WAIT_OR_RECOVER,
    WHY,
    Act,
    Advice,
    Following,
    approve,
    comment,
    compare_again,
    do,
    end_freeze,
    fix_and_plan_again,
    go_on_with,
    step,
    undo,
)


def of_publication(error: BackfillError, following: Following) -> Advice | None:
    """The advice for an error of this room; None for others. That for its cause is `following`'s."""
    match error:
        case errors.NeverPublished():
            return step("plan a run that is published: ", plan_again(error.manifest))
        case errors.NotPublishable(state=RunState.SUPERSEDED):
            return do(Act.HISTORY, error.manifest.table)
        case errors.NotPublishable(state=RunState.CANCELLED):
            return step("plan it again: ", plan_again(error.manifest))
        case errors.NotPublishable():
            return go_on_with(error.run_id, error.state, is_leased=error.is_leased)
        case errors.StoppedForGood():
            return fix_and_plan_again(error.run_id, error.manifest.member_of, error.by)
        case errors.Frozen():
            return end_freeze(error.freeze.freeze_id)
        case errors.ComesAfter():
            return step("publish or cancel that one first: ", do(Act.STATUS, error.first))
        case errors.NoCandidate():
            return do(Act.RUN, error.run_id)
        case errors.GatesNotPassed():
            return do(Act.REPORT, error.run_id)
        case errors.TableChanged():
            return compare_again(error.run_id)
        case errors.AnotherUnderWay() | errors.BeingPublished():
            return WAIT_OR_RECOVER
        case errors.MergedSince():
            return step("undo that first: ", undo(error.undone_with))
        case errors.OnlyAdds():
            return added_again(error.table)
        case errors.ChangedAfterPublication(undone_with=str() as whole):
            return step("undo that first: ", undo(whole))
        case errors.ChangedAfterPublication():
            return do(Act.HISTORY, error.table, partition=error.partition)
        case errors.ExpiresOthers():
            return step("plan it again: ", do(Act.PLAN, error.table, expire=True, by=NAME, reason=WHY))
        case errors.ReadByOpenRun():
            return step("publish or cancel that one first: ", do(Act.STATUS, error.reader))
        case errors.OlderInputs():
            return plan_anew(error.manifest, error.partitions)
        case errors.InputsRolledBack():
            return step("build that again first: ", do(Act.HISTORY, error.table, partition=error.partitions.days[0]))
        case errors.NothingToUndo():
            return do(Act.HISTORY, error.table)
        case errors.LandedButNotRecorded() | errors.RefusedButNotRecorded():
            return do(Act.RECOVER)
        case errors.MayNotRollBack():
            return step("let one of them roll it back: ", undo(error.name))
        case errors.NotAmongApprovers():
            return step("let one of them approve it: ", approve(error.name))
        case errors.NoListOfApprovers():
            return f'write {error.file}: version: "1", and below groups: the line {error.groups[0][0]}: [NAME, NAME]'
        case errors.NotAgreed(comment_on=()):
            return approve(error.name)
        case errors.NotAgreed() | errors.CommentMissing():
            return comment(error.name)
        case errors.ApprovalNotValid():
            return following(error.cause)
        case errors.NotEnded() | errors.StillUnknown():
            return following(error.cause) or do(Act.RECOVER)
        case errors.WouldLeaveOrphans():
            together = do(Act.ROLLBACK, error.of, with_dependents=True, by=NAME, reason=WHY)
            return step("roll them back with it: ", together)
        case errors.NoVersions():
            return "declare a version of it first, or name a table that has one"
        case errors.SeveralVersions():
            return f"name one of them: {', '.join(error.versions)}"
        case errors.VersionLacks():
            return step("build them first: ", do(Act.SHADOW, "start", error.table, by=NAME, reason=WHY))
        case errors.VersionIsStale():
            return step("build them again first: ", do(Act.PLAN, stale=error.table, by=NAME, reason=WHY))
        case errors.NotCompared() | errors.NotCleanLongEnough():
            return do(Act.SHADOW, "status", error.table)
        case errors.OfOtherTable():
            return do(Act.RESOLVE, error.other, as_of=error.run_id)
        case errors.NothingReadersSee():
            return do(Act.HISTORY, error.of)
        case _:
            return None

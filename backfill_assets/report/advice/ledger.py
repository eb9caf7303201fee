"""What to do about errors of the ledger."""

from __future__ import annotations

from backfill_assets.core.errors import BackfillError
from backfill_assets.ledger import errors
from backfill_assets.ledger.states import ChunkState, ImportState, RunState, SetState
from backfill_assets.report.advice.filling import joined, loads, plan_again
from backfill_assets.report.requests import (
    NAME,
    WAIT_OR_RECOVER,
    WHY,
    Act,
    Advice,
    Option,
    approve,
    cancel,
    comment,
    do,
    go_on_with,
    publish,
    step,
    undo,
    wait_or_take_over,
)


def of_ledger(error: BackfillError) -> Advice | None:
    """The advice for an error of this room; None for others."""
    return _of_database(error) or _of_request(error) or _of_state(error) or _of_publication(error)


def _of_database(error: BackfillError) -> Advice | None:
    match error:
        case errors.LedgerUrl():
            return (
                "set BACKFILL_LEDGER_URL to something like sqlite:////srv/backfill/ledger.db "
                "or postgresql://user@host/database"
            )
        case errors.DriverMissing():
            return f"pip install 'backfill-assets[postgres]', or let {error.setting} name SQLite"
        case errors.Unusable():
            return f"check {error.setting}, and that the database is up and may be written"
        case errors.ReadOnly():
            return (
                "let this user write it: a SQLite file with its folder, or the tables of a PostgreSQL database that "
                "is no standby"
            )
        case errors.Unavailable():
            return "check that its database is up and not locked by another program, then try again"
        case errors.LostWhileCommitting():
            return do(Act.RECOVER)
        case errors.NewerLedger():
            return "upgrade backfill-assets to the version that wrote this ledger"
        case errors.DanglingReferences():
            return "restore the ledger from its backup"
        case errors.Unreadable():
            return step("use the release that wrote it; or ", do(Act.AUDIT))
        case errors.Damaged():
            return do(Act.AUDIT)
        case _:
            return None


def _of_request(error: BackfillError) -> Advice | None:
    match error:
        case errors.BadText(is_missing=True):
            return f"say {error.what}"
        case errors.BadText():
            return "type it again, as one line of text"
        case errors.ActNotApproved():
            return approve(error.act_id)
        case errors.AlreadyShown() | errors.OtherTableShown() | errors.NotTheLast():
            return do(Act.SHADOW, "status", error.name)
        case errors.Retired():
            return do(Act.SHADOW, "status", error.table)
        case errors.NotInLedger(near=str() as near) if near:
            return step(f"did you mean {near}? ", do(Act.STATUS, near))
        case errors.NotInLedger() | errors.NotGivenUp() | errors.NoApprovalAwaited():
            return do(Act.STATUS)
        case errors.UnknownVersion():
            return do(Act.HISTORY, error.table, partition=error.partition)
        case errors.AlreadyRecorded(kind="publication"):
            return do(Act.RECOVER)
        case errors.AlreadyRecorded():
            return "plan it again: the new one gets an id of its own"
        case errors.OtherManifest():
            return "plan the set again"
        case errors.NotAFollowUp():
            return do(Act.FOLLOW)
        case errors.NoSamples():
            return do(Act.REPORT, error.run_ids[0])
        case errors.NeedsApproval():
            return approve(error.run_id)
        case errors.NeedsAnother():
            return step("let another person approve it: ", approve(error.name))
        case errors.NeedsComment():
            return step("read the report, and write why it is right: ", comment(error.whole))
        case _:
            return None


def _of_state(error: BackfillError) -> Advice | None:
    match error:
        case errors.CannotBecome(wanted=ChunkState()):
            return do(Act.RUN, str(error.of["run_id"]))
        case errors.CannotBecome(wanted=ImportState()):
            return step(do(Act.STATUS), ", then land the file again")
        case errors.CannotBecome(wanted=RunState(), found=RunState() as found):
            return go_on_with(str(error.of["run_id"]), found)
        case errors.CannotBecome():
            named = error.of.get("run_id") or error.of.get("set_id")
            return do(Act.STATUS, *([str(named)] if named else []))
        case errors.NotCancellable():
            return _of_cancellation(error)
        case errors.UnfitState(state=RunState() as state):
            return go_on_with(error.name, state)
        case errors.UnfitState() | errors.Ended(kind="run" | "set"):
            return do(Act.STATUS, error.name)
        case errors.Ended():
            return do(Act.STATUS)
        case errors.EndedBefore():
            return step("name a later instant with ", Option("until", "TIME"))
        case errors.NotForThis():
            return step("name a run or a set that is to be published meanwhile, or leave ", Option("for"), " out")
        case errors.FrozenForAnother():
            return step("end that one first: ", do(Act.UNFREEZE, error.freeze_id, by=NAME, reason=WHY))
        case errors.NeverPublished():
            return do(Act.REPORT, error.run_id)
        case errors.PartOfSet(act=Act.ROLLBACK):
            return undo(error.set_id)
        case errors.PartOfSet(act=Act.CANCEL):
            return cancel(error.set_id)
        case errors.PartOfSet(act=Act.APPROVE):
            return approve(error.set_id)
        case errors.ApprovedByPhase():
            return approve(error.run_id)
        case errors.PartOfSet():
            return step("publish the whole set: ", publish(error.set_id))
        case errors.NotStaged() | errors.NotWhatWasStaged():
            return do(Act.RUN, error.run_id)
        case errors.LostWork(of={"run_id": str() as run_id}):
            return do(Act.STATUS, run_id)
        case errors.LostWork():
            return do(Act.STATUS)
        case errors.UnderWay():
            return wait_or_take_over(error.work_id)
        case _:
            return None


def _of_publication(error: BackfillError) -> Advice | None:
    match error:
        case errors.TableBusy():
            return WAIT_OR_RECOVER
        case errors.NoLongerAsked():
            now = ", which plans what is asked for now; or ask for a run of your own: "
            return step(do(Act.FOLLOW), now, plan_again(error.manifest))
        case errors.LandedSince():
            return joined(loads(error.table, error.days))
        case errors.OtherVersions(is_rollback=True):
            return step(do(Act.HISTORY, error.table), "; roll back the later publication first")
        case errors.OtherVersions():
            return step(do(Act.RUN, error.run_id), ", which compares it with what is published now")
        case errors.StagedFilesRemoved():
            return step("stage it again: ", do(Act.RUN, error.run_id))
        case errors.ReplacedFilesRemoved():
            return step("restate the days instead: ", plan_again(error.manifest))
        case _:
            return None


def _of_cancellation(error: errors.NotCancellable) -> Advice:
    match error.state:
        case SetState.PUBLISHING | SetState.ROLLING_BACK:
            return step(do(Act.RECOVER), ", which completes or reverses it; or ", undo(error.name))
        case RunState.PUBLISHING:
            return WAIT_OR_RECOVER
        case RunState.PUBLISHED | SetState.PUBLISHED:
            return undo(error.name)
        case _:
            return do(Act.STATUS, error.name)

"""What to do about errors of tables, and of the stores that hold files."""

from __future__ import annotations

from backfill_assets.core.errors import BackfillError
from backfill_assets.files.port import NoAnswer, SeveralWinners, StoreUnusable
from backfill_assets.lake import errors
from backfill_assets.lake.errors import WAY_OUT_OF_SOURCE
from backfill_assets.report.requests import Act, Advice, do, publish, step

_STORES = {
    "NoSuchBucket": "make it, or name another one",
    "AccessDenied": "let them list, read, put and delete below it",
    "ExpiredToken": "set new ones",
}


def of_lake(error: BackfillError) -> Advice | None:
    """The advice for an error of tables and files; None for others."""
    match error:
        case StoreUnusable():
            first = _STORES.get(error.code, "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
            return step(f"{first}; ", do(Act.DOCTOR), " shows whether it works; then give the command again")
        case SeveralWinners():
            return step("use a store that honours conditional puts (If-None-Match), and ask it by ", do(Act.DOCTOR))
        case NoAnswer():
            return "the same command goes on where this one stopped once the store is there again"
        case errors.DamagedTable():
            restore = f"restore what is damaged below {error.place} from a backup, or make it readable; then "
            return step(restore, do(Act.AUDIT))
        case errors.NoTable():
            return step(f"if it was published, restore {error.place} from a backup; then ", do(Act.AUDIT))
        case errors.OtherColumns(has_no_versions=True):
            return WAY_OUT_OF_SOURCE
        case errors.OtherColumns():
            allowed = "only columns that can be null may be added and types widened"
            return f"{allowed}; declare the table under a new name, or move the old table away and rebuild it"
        case errors.PartitionUnreadable():
            restore = f"restore the file below {error.place} from a backup; without one, "
            history = do(Act.HISTORY, error.table, partition=error.partition)
            return step(restore, history, f" shows what undoes it; then plan {error.partition} again")
        case errors.RowsUnreadable() | errors.NoCommitOfPublication():
            return do(Act.AUDIT)
        case errors.NoValueOfKey():
            return "write it as the page shows the values of other keys"
        case errors.StagedFilesChanged():
            return do(Act.RUN, error.run_id)
        case errors.ChangedByAnotherWriter():
            undo = " names the commit; undo it (Delta's RESTORE to the version before), publish again"
            return step(do(Act.AUDIT), undo)
        case errors.OthersCommittedFirst(is_recovery=False):
            return "publish again when fewer writers commit to the table"
        case errors.OthersCommittedFirst():
            return do(Act.RECOVER)
        case errors.Abandoned():
            return publish(error.run_id)
        case errors.CommitUnknown():
            again = "when the table can be reached, give the same command again, which finds it out; or: "
            return step(again, do(Act.RECOVER))
        case errors.LineageNotWritten():
            return step("make the lake writable again, then ", publish(error.run_id))
        case errors.NotFencedOff():
            return step("make the table writable again, then ", do(Act.RECOVER))
        case errors.LakeAway():
            return step("mount or restore it there, or let BACKFILL_LAKE name where it is now; then ", do(Act.DOCTOR))
        case _:
            return None

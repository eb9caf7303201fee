"""What to do about errors of planning, of the ledger and the lake, and of runs and sets on their way to readers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from difflib import get_close_matches

from backfill_assets.candidates import errors as candidates
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.next_steps import (
    NAME,
    WAIT_OR_RECOVER,
    WHY,
    Act,
    Advice,
    Invocation,
    NextStep,
    Option,
    approve,
    cancel,
    comment,
    compare_again,
    do,
    end_freeze,
    publish,
    step,
    undo,
    wait_or_take_over,
)
from backfill_assets.domain import errors as domain
from backfill_assets.files.port import NoAnswer, SeveralWinners, StoreUnusable
from backfill_assets.lake import errors as lake
from backfill_assets.lake.errors import WAY_OUT_OF_SOURCE
from backfill_assets.ledger import errors as ledger
from backfill_assets.ledger.states import ChunkState, ImportState, RunState, SetState, StoppedBy, go_on_with
from backfill_assets.planning import errors as planning
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.next_steps import (
    fix_and_plan_again,
    how_to_fill,
    joined,
    loads,
    measured_again,
    plan_again,
    plan_anew,
    plan_stale,
    plans,
)
from backfill_assets.planning.partitions import (
    MalformedDays,
    Partitions,
    ReversedRange,
    are_apart,
    compress,
    days_in,
    partition_text,
)
from backfill_assets.publication import errors as publication
from backfill_assets.restatements import errors as restatements
from backfill_assets.restatements.left_out import NEW_VERSION, added_again, how_to_include

_ONE_VERSION = Option("reference", "NAME=VERSION")

FIXED: Mapping[type[BackfillError], Advice] = {
    SeveralWinners: step("use a store that honours conditional puts (If-None-Match), and ask it by ", do(Act.DOCTOR)),
    NoAnswer: "once the store answers again, repeat the command: it continues where this one stopped",
    lake.RowsUnreadable: do(Act.AUDIT),
    lake.NoCommitOfPublication: do(Act.AUDIT),
    lake.NoValueOfKey: "write it as the page shows the values of other keys",
    lake.NotFencedOff: step("make the table writable again, then ", do(Act.RECOVER)),
    lake.LakeAway: step("mount or restore it there, or let BACKFILL_LAKE name where it is now; then ", do(Act.DOCTOR)),
    ledger.LedgerUrl: (
        "set BACKFILL_LEDGER_URL to something like sqlite:////srv/backfill/ledger.db or postgresql://user@host/database"
    ),
    ledger.ClockBehind: (
        "set the clock of this machine right; if the clock that wrote that event was ahead, set "
        "BACKFILL_CLOCK_BEHIND_HOURS to more: until then everything written has the time of that event"
    ),
    ledger.ReadOnly: (
        "let this user write it: a SQLite file with its folder, or the tables of a PostgreSQL database that "
        "is not a standby"
    ),
    ledger.LostWhileCommitting: do(Act.RECOVER),
    ledger.NewerLedger: "upgrade backfill-assets to the version that wrote this ledger",
    ledger.DanglingReferences: "restore the ledger from its backup",
    ledger.Unreadable: step("use the release that wrote it; or ", do(Act.AUDIT)),
    ledger.Damaged: do(Act.AUDIT),
    ledger.OtherManifest: "plan the set again",
    ledger.NotAFollowUp: do(Act.FOLLOW),
    ledger.EndedBefore: step("name a later instant with ", Option("until", "TIME")),
    ledger.NotForThis: step("name a run or a set that is to be published meanwhile, or leave ", Option("for"), " out"),
    ledger.TableBusy: WAIT_OR_RECOVER,
    planning.NothingExpires: "nothing has to be done",
    planning.CostUnknown: step("leave ", Option("max-cost"), " out for its first run"),
    planning.TooCostly: step("plan fewer days, or allow more with ", Option("max-cost")),
    planning.UnclearReferences: step(
        "with ", Option("references", "corrected"), " give ", _ONE_VERSION, " once for each reference"
    ),
    candidates.InputChanged: do(Act.AUDIT),
    candidates.LaterContract: "plan the run again, with the contract as it is now",
    publication.AnotherUnderWay: WAIT_OR_RECOVER,
    publication.BeingPublished: WAIT_OR_RECOVER,
    publication.LandedButNotRecorded: do(Act.RECOVER),
    publication.RefusedButNotRecorded: do(Act.RECOVER),
    publication.NoVersions: "declare a version of this table first, or name a table that has one",
    restatements.NoChangeNamed: step("add ", Option("because", "TABLE:DAY..DAY"), ", or ", Option("stale")),
    restatements.StaleNeedsPresent: step(
        *("leave ", Option("references"), " out; or name what changed, instead of ", Option("stale"), ": "),
        Option("because", "TABLE:DAY..DAY"),
    ),
    restatements.OpenKeepsChanging: "try again when the other processes are done",
    restatements.OnlyCodeChanged: NEW_VERSION,
}
"""The advice for errors for which it is always the same."""


def advice_on(error: BackfillError, following: Callable[[BackfillError], NextStep | None]) -> Advice | None:
    """The advice for an error by its fields; None for others. That for its cause is `following`'s."""
    match error:
        case StoreUnusable():
            setting = _STORES.get(error.code, "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
            return step(f"{setting}; ", do(Act.DOCTOR), " shows whether it works; then give the command again")
        case lake.DamagedTable():
            restore = f"restore what is damaged below {error.place} from a backup, or make it readable"
            return step(do(Act.AUDIT), f" says whether a file only has to be removed; otherwise {restore}")
        case lake.NoTable():
            return step(f"if it was published, restore {error.place} from a backup; then ", do(Act.AUDIT))
        case lake.OtherColumns(is_source=True):
            short = error.table.partition(".")[2]
            anew = do(Act.LAND, short, again_as_declared=True, by=NAME)
            return step("if its files were always as they are declared now: ", anew, f"; {WAY_OUT_OF_SOURCE}")
        case lake.OtherColumns() if error.open_runs:
            which = "the run that was" if len(error.open_runs) == 1 else "the runs that were"
            ends = [part for run_id in error.open_runs for part in (cancel(run_id), "; ")]
            return step(f"end {which} staged with them: ", *ends, "then plan again")
        case lake.OtherColumns():
            allowed = "only columns that can be null may be added and types widened, or the table gets a new name"
            return step(do(Act.AUDIT), f" says whether the table is as it was published; if it is, {allowed}")
        case lake.PartitionUnreadable():
            restore = f"restore the file below {error.place} from a backup; without one, compute it again: "
            name, day = error.table.partition(".")[2], error.partition
            if error.table.startswith("bronze."):
                return step(restore, do(Act.LOAD, name, first=day, last=day, by=NAME))
            return step(restore, do(Act.PLAN, name, kind="repair", first=day, last=day, reason=WHY, by=NAME))
        case lake.StagedFilesChanged() | ledger.NotStaged() | ledger.NotWhatWasStaged() | publication.NoCandidate():
            return do(Act.RUN, error.run_id)
        case lake.ChangedByAnotherWriter():
            set_back = do(Act.RECOVER, error.table, reason=WHY, by=NAME)
            return step(do(Act.AUDIT), " names the commit; ", set_back, " undoes it; then publish again")
        case lake.OthersCommittedFirst(is_recovery=False):
            return "publish again when fewer writers commit to the table"
        case lake.OthersCommittedFirst():
            return do(Act.RECOVER)
        case lake.Abandoned():
            return publish(error.run_id)
        case lake.CommitUnknown():
            again = "when the table can be reached, give the same command again, which finds it out; or: "
            return step(again, do(Act.RECOVER))
        case lake.LineageNotWritten():
            return step("make the lake writable again, then ", publish(error.run_id))
        case ledger.Unavailable() if error.writer:
            return "wait for that process, or end it if it stands still; then give the same command again"
        case ledger.Unavailable():
            return "check that its database is up and not locked by another program, then try again"
        case ledger.DriverMissing():
            return f"pip install 'backfill-assets[postgres]', or let {error.setting} name SQLite"
        case ledger.Unusable() if " GRANT " in error.why:
            return "let its owner do that, then give the same command again"
        case ledger.Unusable():
            return f"check {error.setting}, and that the database is up and may be written"
        case ledger.BadText(is_missing=True):
            return f"say {error.what}"
        case ledger.BadText():
            return "type it again, as one line of text"
        case ledger.ActNotApproved():
            return approve(error.act_id)
        case ledger.AlreadyShown() | ledger.OtherTableShown() | ledger.NotTheLast():
            return do(Act.SHADOW, "status", error.name)
        case ledger.Retired() | publication.NotCleanLongEnough():
            return do(Act.SHADOW, "status", error.table)
        case ledger.NotInLedger(near=str() as near) if near:
            return step(f"did you mean {near}? ", do(Act.STATUS, near))
        case ledger.NotInLedger() | ledger.NotGivenUp():
            return do(Act.STATUS)
        case ledger.UnknownVersion():
            return do(Act.HISTORY, error.table, partition=error.partition)
        case ledger.AlreadyRecorded(kind="publication"):
            return do(Act.RECOVER)
        case ledger.AlreadyRecorded():
            return "plan it again: the new one gets an id of its own"
        case ledger.NoSamples():
            return do(Act.REPORT, error.run_ids[0])
        case ledger.NeedsApproval() | ledger.ApprovedByPhase():
            return approve(error.run_id)
        case ledger.NeedsAnother():
            return step("let another person approve it: ", approve(error.name))
        case ledger.NeedsComment():
            return step("read the report, and write why it is right: ", comment(error.whole))
        case ledger.CannotBecome(wanted=ChunkState()):
            return do(Act.RUN, str(error.of["run_id"]))
        case ledger.CannotBecome(wanted=ImportState()):
            return step(do(Act.STATUS), ", then land the file again")
        case ledger.CannotBecome(wanted=RunState(), found=RunState() as found):
            return go_on_with(str(error.of["run_id"]), found)
        case ledger.CannotBecome():
            named = error.of.get("run_id") or error.of.get("set_id")
            return do(Act.STATUS, *([str(named)] if named else []))
        case ledger.NotCancellable():
            return _of_cancellation(error)
        case ledger.UnfitState(state=RunState() as state):
            return go_on_with(error.name, state)
        case ledger.UnfitState() | ledger.Ended(kind="run" | "set"):
            return do(Act.STATUS, error.name)
        case ledger.Ended():
            return do(Act.STATUS)
        case ledger.FrozenForAnother():
            return step("end that one first: ", do(Act.UNFREEZE, error.freeze_id, by=NAME, reason=WHY))
        case ledger.NeverPublished() | candidates.NotStageable() | publication.GatesNotPassed():
            return do(Act.REPORT, error.run_id)
        case ledger.PartOfSet(act=Act.ROLLBACK):
            return undo(error.set_id)
        case ledger.PartOfSet(act=Act.CANCEL):
            return cancel(error.set_id)
        case ledger.PartOfSet(act=Act.APPROVE):
            return approve(error.set_id)
        case ledger.PartOfSet():
            return step("publish the whole set: ", publish(error.set_id))
        case ledger.LostWork(of={"run_id": str() as run_id}):
            return do(Act.STATUS, run_id)
        case ledger.LostWork():
            return do(Act.STATUS)
        case ledger.UnderWay():
            return wait_or_take_over(error.work_id)
        case ledger.NoLongerAsked():
            now = ", which plans what is asked for now; or ask for a run of your own: "
            return step(do(Act.FOLLOW), now, plan_again(error.manifest))
        case ledger.LandedSince():
            return joined(loads(error.table, error.days))
        case restatements.MemberSuperseded(undone_with=str() as whole):
            return step("undo the later publication first: ", undo(whole))
        case ledger.OtherVersions(is_rollback=True) | restatements.MemberSuperseded():
            return step(do(Act.HISTORY, error.table), "; roll back the later publication first")
        case ledger.OtherVersions():
            return step(do(Act.RUN, error.run_id), ", which compares it with what is published now")
        case ledger.StagedFilesRemoved():
            return step("stage it again: ", do(Act.RUN, error.run_id))
        case candidates.NoCondition():
            example = "amount > 100 AND state = 'OPEN'"
            return f"write a condition in DuckDB's SQL, such as {example!r}, on the columns {', '.join(error.columns)}"
        case candidates.RowsRemoved(run_id=str() as run_id):
            return step(do(Act.REPORT, run_id), " still has the counts, and the rows that were kept for its reviewers")
        case candidates.RowsRemoved():
            return step("choose later states, or other days; ", do(Act.HISTORY, error.table), " lists its publications")
        case ledger.ReplacedFilesRemoved():
            return step("restate the days instead: ", plan_again(error.manifest))
        case ReversedRange(first=first, last=last):
            return step("give the earlier day first: ", Option("first", f"{last}"), " ", Option("last", f"{first}"))
        case MalformedDays(example=example, option=option):
            return step("write it like ", Option(option, example) if option else example)
        case planning.NoSuchName(kind="table" | "source"):
            return step("name one of these; ", do(Act.STATUS), " shows what each holds")
        case planning.NoSuchName(kind="transform version", name=version):
            kept = f'earlier={{"{version}": FUNCTION}}'
            return f"name one of these, or keep it runnable where the table is declared: {kept}"
        case planning.NoSuchName():
            return "name one of these" if error.known else step("leave ", Option(error.kind), " out")
        case planning.OutsideDays():
            return "choose earlier days" if error.days.start >= error.earliest else _earlier_first_day(error.days.start)
        case planning.NoSnapshot(nearest=[day, *_]):
            return step("choose one of them, or a range with several: ", Option("first", f"{day}"))
        case planning.NeverPublished(table=table, ever=(first, last)):
            first_and_last = (partition_text(error.partitions.grain, each) for each in (first, last))
            return step(
                f"choose one from {' to '.join(first_and_last)}, written like the first; ",
                do(Act.HISTORY, table),
                " lists what was published",
            )
        case planning.NeverPublished(table=table):
            return step("choose published days: ", do(Act.STATUS), ", or ", do(Act.HISTORY, table))
        case planning.AlreadyAccepted(others=others):
            new = ("plan those without one: ", joined(_plans(error.table, [others])), "; or, to correct them, ")
            return step(*(new if others.days else ()), added_again(error.table))
        case planning.IncompleteWindows():
            return _of_windows(error)
        case planning.InputsExpired():
            snapshots = joined(plans(error.input, error.partitions.grain, error.partitions))
            return step("plan other days, or compute these snapshots again first: ", snapshots)
        case planning.KeepsEverySnapshot(keeps_state=False):
            return "name a table that keeps state: only its partitions are snapshots"
        case planning.KeepsEverySnapshot():
            return f"declare it in {error.table}: reads_self(keep=Kept(days=90, then='month'))"
        case planning.ReferencesNotUsed(known=[first, *_]):
            return step("name one of these: ", Option("reference", f"{first}=VERSION"))
        case planning.ReferencesNotUsed():
            return step("leave ", Option("references"), " out")
        case planning.NoPilot(columns=[first, *_]):
            alike, *_ = [*get_close_matches(error.unknown, error.columns, n=1), first]
            return f"name rows by one of these columns, such as {alike}=VALUE"
        case planning.NoPilot(by_days=False):
            return step("plan whole partitions: leave ", Option(error.option), " out")
        case planning.NoPilot():
            return step("name days that have accepted rows, or leave ", Option(error.option), " out")
        case planning.NoPhases(by_days=False):
            return step("leave ", Option("phases"), " out")
        case planning.NoPhases():
            return step("name more days, or leave ", Option("phases"), " out")
        case planning.NeverComputed() | planning.VersionsNotRecorded():
            return step("plan these with the present references: ", joined(_plans(error.table, [error.partitions])))
        case planning.SeveralVersions():
            references, kind = (None, "repair") if error.is_repair else ("as-recorded", None)
            each = _plans(error.table, [some for some, _ in error.groups], references, kind)
            return step("plan them one by one: ", joined(each))
        case candidates.InputRemoved():
            return step("plan it again, from what is accepted now: ", plan_again(error.manifest))
        case candidates.InputNotStaged():
            return do(Act.RUN, error.other)
        case candidates.StagedAgain():
            return step("stage it again: ", do(Act.RUN, error.set_id or error.run_id))
        case candidates.MergedWithEarlier():
            return step("plan it again, so that it is merged with them: ", plan_again(error.manifest))
        case (
            domain.CodeBroken(manifest=Manifest() as manifest)
            | candidates.SparkStopped(is_final=True, manifest=manifest)
        ):
            return fix_and_plan_again(manifest)
        case candidates.CostsMore() | candidates.TooManyRows():
            return fix_and_plan_again(error.manifest, needs_more=True)
        case candidates.SparkStopped():
            return step("fix the cause, then ", do(Act.RUN, error.run_id))
        case candidates.LostWhenStopped() | publication.ApprovalNotValid() | restatements.OnlyDependentsRolledBack():
            return following(error.cause)
        case publication.NeverPublished():
            return step("plan a run that is published: ", plan_again(error.manifest))
        case publication.NotPublishable(state=RunState.SUPERSEDED):
            return do(Act.HISTORY, error.manifest.table)
        case publication.NotPublishable(state=RunState.CANCELLED):
            return step("plan it again: ", plan_again(error.manifest))
        case publication.NotPublishable():
            return go_on_with(error.run_id, error.state, is_leased=error.is_leased)
        case publication.StoppedForGood():
            return fix_and_plan_again(error.manifest, needs_more=error.by is StoppedBy.LIMIT)
        case publication.Frozen():
            return end_freeze(error.freeze.freeze_id)
        case publication.ReadBeforeKnown():
            return error.known.next_step
        case publication.KeysNotKnown():
            return error.found.next_step
        case publication.ComesAfter():
            return step("publish or cancel that one first: ", do(Act.STATUS, error.first))
        case publication.DeclaredSince():
            return measured_again(error.manifest)
        case publication.TableChanged() | publication.ReadByGateSince():
            return compare_again(error.run_id)
        case publication.MergedSince():
            return step("undo that first: ", undo(error.undone_with))
        case publication.OnlyAdds():
            return added_again(error.table)
        case publication.ChangedAfterPublication(undone_with=str() as whole):
            return step("undo that first: ", undo(whole))
        case publication.ChangedAfterPublication():
            return do(Act.HISTORY, error.table, partition=error.partition)
        case publication.ExpiresOthers():
            return step("plan it again: ", do(Act.PLAN, error.table, expire=True, by=NAME, reason=WHY))
        case publication.ReadByOpenRun():
            return step("publish or cancel that one first: ", do(Act.STATUS, error.reader))
        case publication.OlderInputs():
            return plan_anew(error.manifest, error.partitions)
        case publication.InputsRolledBack():
            return step("build that again first: ", do(Act.HISTORY, error.table, partition=error.partitions.days[0]))
        case publication.NothingToUndo():
            return do(Act.HISTORY, error.table)
        case publication.MayNotRollBack():
            return step("let one of them roll it back: ", undo(error.name))
        case publication.NotAmongApprovers():
            return step("let one of them approve it: ", approve(error.name))
        case publication.NoListOfApprovers():
            return f'write {error.file}: version: "1", and below groups: the line {error.groups[0][0]}: [NAME, NAME]'
        case publication.NotAgreed(comment_on=()):
            return approve(error.name)
        case publication.NotAgreed() | publication.CommentMissing():
            return comment(error.name)
        case publication.NotEnded() | publication.StillUnknown():
            return following(error.cause) or do(Act.RECOVER)
        case publication.WouldLeaveOrphans():
            together = do(Act.ROLLBACK, error.of, with_dependents=True, by=NAME, reason=WHY)
            return step("roll them back with it: ", together)
        case publication.SeveralVersions():
            return f"name one of them: {', '.join(error.versions)}"
        case publication.VersionLacks():
            return step("build them first: ", do(Act.SHADOW, "start", error.table, by=NAME, reason=WHY))
        case publication.VersionIsStale():
            return step("build them again first: ", plan_stale(error.table, changed_code=error.of_code))
        case publication.NotCompared():
            shown = do(Act.SHADOW, "status", error.table)
            return step(
                "launch the job backfill_live in Dagster, which compares them, or wait for its schedule; then ", shown
            )
        case publication.OfOtherTable():
            return do(Act.RESOLVE, error.other, as_of=error.run_id)
        case publication.NothingReadersSee():
            return do(Act.HISTORY, error.of)
        case publication.SetIs() | restatements.ReproducedOneByOne(published=()):
            return do(Act.STATUS, error.set_id)
        case publication.SetIsNeverPublished():
            return f"plan the set again without the mode {error.mode}"
        case publication.MemberNotPublishable():
            return go_on_with(error.run_id, error.state, error.set_id, is_leased=error.is_leased)
        case publication.AnotherPhaseFirst():
            return step("publish that first: ", publish(error.set_id))
        case publication.PhaseHeld():
            return step("publish it then: ", publish(error.set_id))
        case restatements.OnlyUndoneWithSet():
            return do(Act.ROLLBACK, error.set_id, with_dependents=True, by=NAME, reason=WHY)
        case restatements.SetWouldBeOrphaned():
            return step("a set is rolled back in one act, so roll it back first: ", undo(error.set_id))
        case restatements.HalfPublished():
            why = following(error.cause)
            completes = step(do(Act.RECOVER), ", which completes the set or reverses it")
            return step(completes, "; or first ", why) if why else completes
        case restatements.HalfRolledBack():
            return step(
                *(do(Act.RECOVER), ", which continues the rollback; or, to give it up: "),
                *(approve(error.set_id), ", then "),
                publish(error.set_id),
            )
        case restatements.ReproducedOneByOne(published=[_, *_]):
            return joined([do(Act.REPRODUCE, run_id) for run_id in error.published])
        case restatements.NotLoaded():
            return joined(loads(error.table, error.partitions))
        case restatements.OnlyPart(planned=0, left_out=[first, *_]):
            return how_to_include(first)
        case restatements.OnlyPart(left_out=[first, *_]):
            return step(how_to_include(first), "; or, to plan less than was asked for, add ", Option("partial"))
        case _:
            return None


def _of_windows(error: planning.IncompleteWindows) -> Advice:
    table, missing = next(iter(error.missing.items()))
    held = error.held.get(table)
    if missing.days[0] >= error.first_day and held and error.keeps_state and missing.days[-1] < held.days[0]:
        begins = held.days[0]
        return (
            f"say where its state begins: reads_self(since=date({begins.year}, {begins.month}, {begins.day})) "
            f"in the declaration of {error.table}; {table} has {held.span}"
        )
    # What has to be there first can be further back: a plan of what lacks inputs itself would be refused as well.
    first, lacking = next(iter(error.first.items()), (table, missing))
    held = error.held.get(first)
    if lacking.days[0] < error.first_day:
        # Later days lead on only where they lack nothing themselves.
        only_before = lacking.days[-1] < error.first_day
        since = "before the present one" if only_before else "from then on"
        return (
            f"{_earlier_first_day(lacking.days[0], or_later=only_before)}, and then land the days {since} that are "
            "missing, or load them as empty"
        )
    behind = "" if first in error.missing else f"begin with {first}, which {table} rests on and which lacks {lacking}: "
    if held and are_apart(lacking, held) and first not in error.rejecting:
        # Perhaps another year was meant: to declare that nothing happened would make up a history.
        how = "land the missing files" if first.startswith("bronze.") else "build what is missing"
        return f"choose other days: {first} has {held.span}; or {how} first"
    filled = how_to_fill(first, lacking.grain, lacking.days, error.rejecting.get(first, ()))
    return step(*([behind] if behind else []), filled)


def _earlier_first_day(day: date, *, or_later: bool = True) -> str:
    """The next step when days before the first one are asked for or read."""
    return f"{'choose later days, or ' if or_later else ''}set BACKFILL_FIRST_DAY to {day}"


def _plans(
    table: str, groups: Iterable[Partitions], references: str | None = None, kind: str | None = None
) -> Sequence[Invocation]:
    """The plans of these partitions, one for each group."""
    days = [days_in(compress(some.grain, some)) for some in groups]
    return [do(Act.PLAN, table, kind=kind, references=references, days=each, reason=WHY, by=NAME) for each in days]


def _of_cancellation(error: ledger.NotCancellable) -> Advice:
    match error.state:
        case SetState.PUBLISHING | SetState.ROLLING_BACK:
            return step(do(Act.RECOVER), ", which completes or reverses it; or ", undo(error.name))
        case RunState.PUBLISHING:
            return WAIT_OR_RECOVER
        case RunState.PUBLISHED | SetState.PUBLISHED:
            return undo(error.name)
        case _:
            return do(Act.STATUS, error.name)


_STORES = {
    "NoSuchBucket": "make it, or name another one",
    "AccessDenied": "let them list, read, put and delete below it",
    "ExpiredToken": "set new ones",
}

"""What to do about errors of settings, of the machine, of what was typed, and of upkeep."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING

from backfill_assets.core.errors import BackfillError, DiskFull, PackageMissing, Unexpected, Unrecorded
from backfill_assets.core.grouped import grouped
from backfill_assets.core.next_steps import NAME, WHY, Act, Advice, NextStep, Option, do, publish, step
from backfill_assets.core.people import NotAPerson
from backfill_assets.core.places import InvalidSetting
from backfill_assets.core.session_settings import ChangedSession
from backfill_assets.core.spark_server import ForeignServer, NotOfThisMachine, OtherServer
from backfill_assets.core.wording import word_of_a_shell
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.next_steps import joined, loads, restated
from backfill_assets.planning.partitions import Partitions, compress
from backfill_assets.report import errors as edge
from backfill_assets.upkeep import errors as upkeep
from backfill_assets.upkeep.damage import Amiss, Damage, Lost
from backfill_assets.upkeep.errors import Fault

if TYPE_CHECKING:
    from backfill_assets.upkeep.audit import AuditReport
    from backfill_assets.upkeep.check import CheckedTable
    from backfill_assets.upkeep.check_rows import RowsCheck

FIXED: Mapping[type[BackfillError], Advice] = {
    Unrecorded: step("repair what is named; then ", do(Act.RECOVER), ", which shows in Dagster what is accepted"),
    Unexpected: step(do(Act.RECOVER), ", which ends unfinished work; then the command again"),
    DiskFull: "free some, then give the same command again",
    OtherServer: step(do(Act.DOWN), ", then ", do(Act.UP)),
    ForeignServer: step(do(Act.DOWN), "; then the command again"),
    edge.NotYet: "name a time that has passed, or leave it out for now",
    edge.Undeclared: "declare it again, or set BACKFILL_DOMAIN to the module that does",
    upkeep.NotAHead: "give it as an earlier audit printed it, SEQUENCE:HASH, with all 64 characters of the hash",
    upkeep.EmptySample: step("leave ", Option("sample"), " out for all"),
    upkeep.SparkStopped: "fix the cause; nothing was changed",
}
"""The advice for errors for which it is always the same."""


def advice_on(error: BackfillError, _following: Callable[[BackfillError], NextStep | None]) -> Advice | None:
    """The advice for an error by its fields; None for others."""
    match error:
        case InvalidSetting() if error.without:
            return f"leave {error.without} out of {error.setting}"
        case InvalidSetting() if error.near:
            return f"write {error.near}"
        case InvalidSetting() if error.wanted:
            return f"set {error.setting} to {error.wanted}"
        case InvalidSetting():
            return f"correct {error.setting}, or leave it out"
        case NotOfThisMachine():
            return f"leave {error.setting} out, or start what it names"
        case NotAPerson(is_mixed=True):
            return "write the name in one script"
        case NotAPerson():
            # In Dagster a name is typed as well, and there are no options.
            return "give the name of a person, such as ana"
        case ChangedSession():
            return "open a new session (start the command or the server again) with the setting as it is expected"
        case edge.NotOneOf():
            near = get_close_matches(error.value, list(error.known), n=1)
            return f"write {near[0]}" if near else "choose one of these, or leave it out"
        case edge.NotGiven():
            return f"add {error.add}"
        case edge.WrongUsage():
            return error.instead
        case edge.NotOfKey():
            near = get_close_matches(error.column, error.key, n=1)
            if near or not error.key:
                return f"write {near[0]}=VALUE" if near else f"leave {error.column} out"
            return f"write {' '.join(f'{name}=VALUE' for name in error.key)}"
        case edge.WordWithoutValue():
            example = " ".join(word_of_a_shell(f"{name}={value}") for name, value in error.example)
            return f"write it like {example}" if example else f"leave {error.word} out"
        case edge.NotTogether():
            return f"leave {error.leave} out, or {error.instead}"
        case edge.NotDoneWith():
            return step(do(Act.STATUS, error.name), " says what is done with it")
        case edge.Malformed():
            return f"write it like {error.example}"
        case edge.CannotUse():
            return f"choose {error.instead}"
        case edge.NothingThen(seen_last_at=datetime() as at):
            words = (f"{name}={value}" for name, value in error.key.items())
            typed = f"{at.replace(tzinfo=None).isoformat()}Z"
            then = do(Act.TRACE, error.table, error.partition, *words, at=typed)
            return step("what readers saw last: ", then)
        case edge.NothingThen():
            return step(do(Act.HISTORY, error.table, partition=error.partition), " lists what readers saw")
        case PackageMissing():
            return f"pip install 'backfill-assets[{error.extra}]'"
        case edge.NotAsPlanned():
            return step(f"launch {error.launch}; or ", do(Act.RUN, error.run_id))
        case edge.NoRunYet():
            name = error.table.partition(".")[2]
            before = [f"candidate/{name}", *([] if error.state is RunState.STAGED else [f"validation/{name}"])]
            return f"materialize {' and '.join(before)} for these partitions first"
        case edge.RunInterrupted():
            return error.following
        case upkeep.NothingAccepted():
            return step(do(Act.HISTORY, error.table), " lists its publications")
        case upkeep.NotReadThen():
            return step("compute the rows again: ", do(Act.PLAN, _short(error.table), reason=WHY, by=NAME))
        case upkeep.AskedOfCandidates():
            return step("leave it out; ", do(Act.PLAN, _short(error.table), reason=WHY, by=NAME), " asks it")
        case upkeep.ReadAnew() | upkeep.NothingToReproduce() | upkeep.ComputedNothing() | upkeep.NothingToCompare():
            return do(Act.REPORT, error.run_id)
        case upkeep.NotSound():
            return _FIX.get(error.fault)
        case upkeep.ReadableByOthers():
            change = f"chmod -R {error.whom}= {word_of_a_shell(error.home)}"
            return (
                f"take it from them: {change}, and the same for landed files, the lake and the ledger where they "
                "are elsewhere"
            )
        case upkeep.ReproducedOtherwise():
            again = do(Act.REPRODUCE, error.run_id, from_raw=error.from_raw)
            return step("check out the code with that digest, then again: ", again)
        case _:
            return None


_FIX: Mapping[Fault, Advice] = {
    Fault.NO_JAVA: "install Java 17 or newer, and let JAVA_HOME name it",
    Fault.LITTLE_SPACE: "free some space, or move it: every run stages whole partitions beside the published ones",
    Fault.NOT_WRITABLE: "let this user write there",
    Fault.NOT_LISTED: "use a store whose listings show what was written at once",
    Fault.NOT_REMOVED: "allow deletes below this place",
    Fault.CLOCKS_APART: "set both by the same time server: leases are judged by the clock of who looks",
    Fault.NO_JARS: "fetch them: mvn -f deploy/s3/pom.xml dependency:copy-dependencies -DoutputDirectory=DIR; "
    "then name them in BACKFILL_SPARK_CONF: spark.jars=DIR/one.jar,DIR/two.jar",
    Fault.FILES_NOT_SHARED: "let Spark's executors and this process see the same files there",
    Fault.OTHER_TIMES: step(do(Act.RECOVER), " says which is older, and what to do about it"),
}


def after_audit(audit: AuditReport, following: Callable[[BackfillError], NextStep | None]) -> Sequence[NextStep]:
    """What to do about each problem of an audit, in the order in which it is done; alike ones in one step."""
    if audit.agrees:
        return ()
    damages = [each.damage for each in audit.problems if isinstance(each, Amiss)]
    readable = {each.table for each in damages if each.kind in _OPENED_AFTER}
    broken = [each for each in audit.unreadable if each.table not in readable]
    kinds = grouped((each.kind, each) for each in dict.fromkeys(damages))
    steps = (
        *(step for kind in Lost if kind in kinds for step in _after_loss(kind, kinds[kind])),
        *(found for problem in broken if (found := following(problem.error))),
        *([step(do(Act.RECOVER))] if audit.has_open_publications or audit.has_other_times else []),
    )
    return steps or (step("restore ledger and lake from backups of the same time; then ", do(Act.AUDIT)),)


_OPENED_AFTER = frozenset({Lost.NOT_NEEDED, Lost.COMMIT, Lost.EVIDENCE})
"""After the next step for these a table can be opened."""


def _after_loss(kind: Lost, found: Sequence[Damage]) -> Iterator[NextStep]:
    """What to do about damages of one kind."""
    match kind:
        case Lost.LEDGER:
            yield step("restore the ledger from a backup that has not been edited; then ", do(Act.AUDIT))
        case Lost.LANDED:
            for each in found:
                fetch = f"fetch {each.named} (sha256 {each.sha256}) from the archive; to land it again puts it back: "
                yield step(fetch, do(Act.LAND, _short(each.table), each.named, by=NAME))
        case Lost.CAPTURED:
            for each in found:
                yield step(f"restore {each.place} (sha256 {each.sha256}) from a backup; then ", do(Act.AUDIT))
        case Lost.CONFORMED | Lost.QUARANTINED:
            for place, alike in grouped((each.place, each) for each in found).items():
                # Files are landed from a folder.
                copied = place.rpartition("/")[2] if "://" in place else place
                first = "" if copied == place else f"copy {place} to this folder, and "
                again = do(Act.LAND, _short(alike[0].table), copied, on_duplicate="reprocess", by=NAME)
                yield step(f"{first}judge its records again, from the landed file: ", again)
        case Lost.SEGMENT | Lost.NOT_NEEDED:
            for each in found:
                why = (
                    "it is written again when it is needed"
                    if kind is Lost.SEGMENT
                    else "readers begin with the commits"
                )
                yield step(f"remove {each.place}: {why}; then ", do(Act.AUDIT))
        case Lost.REFERENCE:
            for each in found:
                said = f"put {each.named} back as {each.place}: the file whose sha256 is {each.sha256}; then "
                yield step(said, do(Act.AUDIT))
        case Lost.TABLE | Lost.CODE:
            for place in dict.fromkeys(each.place for each in found):
                yield step(f"restore {place} from a backup; then ", do(Act.AUDIT))
        case Lost.COMMIT:
            for table, of_table in grouped((each.table, each) for each in found).items():
                wanted = ", ".join(f"{each.place} (sha256 {each.sha256})" for each in of_table)
                log = of_table[0].place.rpartition("/")[0]
                without = f"restore {wanted} from a backup; without one, move {log} away, and set {table} to what its "
                yield step(without, "publications left: ", do(Act.RECOVER, table, reason=WHY, by=NAME))
        case Lost.EVIDENCE:
            for table, of_table in grouped((each.table, each) for each in found).items():
                how = f"write {table} again from the ledger (move {of_table[0].place} away if it cannot be opened): "
                yield step(how, do(Act.RECOVER, table))
        case Lost.FOREIGN:
            for table in dict.fromkeys(each.table for each in found):
                undoes = f"set {table} to what its publications left, which undoes what another program did: "
                yield step(undoes, do(Act.RECOVER, table, reason=WHY, by=NAME))
        case Lost.ACCEPTED:
            for repair in dict.fromkeys(each.repair for each in found if each.repair):
                is_ready = any(each.is_repaired for each in found if each.repair == repair)
                yield step(f"{repair} repairs lost files: ", publish(repair) if is_ready else do(Act.STATUS, repair))
            begun = [each for each in found if not each.repair]
            for (table, _), lost in grouped(((each.table, each.run_id), each) for each in begun).items():
                days = sorted({each.partition for each in lost if each.partition is not None})
                yield step(
                    f"restore the lost files of {table} from a backup, or compute them again: ", _repair(lost[0], days)
                )
        case Lost.EARLIER:
            for table, of_table in grouped((each.table, each) for each in found).items():
                accept = do(Act.RECOVER, table, reason=WHY, by=NAME)
                yield step(f"restore them below {of_table[0].place} from a backup, or accept the loss: ", accept)
        case Lost.NOTHING:
            pass


def _repair(lost: Damage, days: Sequence[date]) -> NextStep:
    """What computes lost partitions again: those of a source are loaded, others planned."""
    if lost.table.startswith("bronze."):
        return joined(loads(lost.table, days))
    if lost.grain is None:
        return step("declare the table again; then ", do(Act.AUDIT))
    plans = [
        do(Act.PLAN, _short(lost.table), kind="repair", reason=WHY, first=some.start, last=some.last, by=NAME)
        for some in compress(lost.grain, days)
    ]
    return joined(plans)


def _short(table: str) -> str:
    return table.partition(".")[2]


def after_check(table: CheckedTable) -> NextStep:
    """What builds the partitions again that do not hold what their table declares."""
    if table.contract_version is not None:
        return joined(loads(table.table, table.restate or ()))
    return step(do(Act.STALE, table.table), " says whether its inputs and its release still are those of these rows")


def after_rows_check(found: RowsCheck) -> Iterator[NextStep]:
    """What replaces accepted rows that fail a blocking gate, and brings back those that could not be read."""
    failed = [each.failed for each in found.gates if each.blocking and each.failed]
    if failed:
        days = sorted({day for each in failed for day in each})
        yield restated(found.table, Partitions.of(failed[0].grain, days))
    if found.not_measurable:
        yield step(do(Act.AUDIT), " says what is damaged, and what repairs it")

"""What to do about errors of landing."""

from __future__ import annotations

from backfill_assets.capture.errors import BadFile, Fault, FileRefused, NoFile
from backfill_assets.core.errors import BackfillError
from backfill_assets.landing import errors
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.planning.partitions import Grain, compress, count_of
from backfill_assets.report.advice.filling import joined, land_or_declare_empty, loads
from backfill_assets.report.requests import ANOTHER_PERSON, NAME, WHY, Act, Advice, Following, Option, do, step

_REPLACES = Option("replaces", "DAY..DAY")

_MOST_NAMED = 5
"""So many files after a refused one are named in the command that lands them."""

_ABOUT_A_FILE: dict[Fault, Advice] = {
    Fault.PATH: "check the path",
    Fault.NAME: "rename the file",
    Fault.DEVICE: "write what it gives into a file, and land that",
    Fault.FOLDER: "name the files in it",
    Fault.SUFFIX: "rename the file with the suffix of its format",
    Fault.DAMAGED: "get the file again from its source",
    Fault.PADDED: "remove what follows: gunzip it, which ignores that, and gzip it again",
    Fault.LONG_LINE: "write one record per line",
    Fault.NOT_TEXT: "land JSON lines, CSV or Parquet",
    Fault.ENCODING: "save it as UTF-8",
    Fault.COLUMNS: "split its rows, or land it as Parquet",
    Fault.LINE_ENDS: "end every row with the same line break",
    Fault.OPEN_QUOTE: "look for a quote that is never closed",
    Fault.QUOTES: "put a value with a quote into quotes, and double the quotes inside",
    Fault.LANDED_BEFORE: step("land it with ", Option("on_duplicate", "ignore"), ", reprocess or correct"),
    Fault.NO_KEY: step("state of which days it is all there is: ", _REPLACES),
    Fault.ROWS_WITHOUT_KEY: step("leave out ", Option("where")),
    Fault.SAME_NAME: step(
        "if it takes the place of that one, state of which days it is all there is: ",
        _REPLACES,
        "; otherwise give it another name",
    ),
    Fault.NAMED_TWICE: "rename all but one",
    Fault.OTHER_DAYS: step("name all its days with ", _REPLACES, ", or give it another name"),
    Fault.REJECTED_KEYS: "correct the files, and land all of them again",
}


def of_landing(error: BackfillError, following: Following) -> Advice | None:
    """The advice for an error of this room; None for others. That for its cause is `following`'s."""
    match error:
        case BadFile(column=str()):
            return _of_a_column(error)
        case BadFile() | NoFile() | FileRefused():
            return _ABOUT_A_FILE.get(error.fault)
        case errors.StoppedAmongFiles():
            return _about_the_others(error, following)
        case errors.TiedRecords():
            further = f"declare in {error.source} a further column of its order, or ties='arrival'"
            return f"correct the file, or {further}"
        case errors.WithdrawsTooMuch(is_captured=True):
            return step("if it is right, give the command again with ", Option("confirmed_by", ANOTHER_PERSON))
        case errors.WithdrawsTooMuch():
            look = step(Option("dry_run"), " shows the days and some of the keys; if it is right, ")
            return step(look, Option("confirmed_by", ANOTHER_PERSON))
        case errors.NotConfirmed():
            return step("let another person confirm it: ", Option("confirmed_by", ANOTHER_PERSON))
        case errors.NothingToRestore():
            return do(Act.STATUS)
        case errors.WrongKey(missing=str() as missing):
            return step("add ", Option("key", f"{missing}=VALUE"))
        case errors.WrongKey():
            return step("name a column of the key: ", Option("key", f"{error.key[0]}=VALUE"))
        case errors.UnknownColumn():
            return step("name one of these: ", Option("where", f"{error.key[0]}=VALUE"))
        case errors.WrongValue():
            return f"give a {error.type_}, written as in the files of {error.table}"
        case errors.NotCurrent() if error.unbuilt:
            return joined(loads(error.table, error.unbuilt))
        case errors.NotCurrent(withdrawn_by=str() as statement):
            return step(do(Act.RESTORE, statement, reason=WHY, by=NAME), " undoes the withdrawal")
        case errors.NotCurrent():
            return step("look for its landed file: ", do(Act.STATUS))
        case errors.NotEmpty():
            return joined(loads(error.table, error.partitions))
        case errors.NothingLanded():
            return _land_or_declare_empty(error)
        case errors.LandingUnfinished():
            return do(Act.LAND, error.source, error.path, on_duplicate="reprocess", by=NAME)
        case errors.LandedWithLaterContract():
            return "declare the versions of the contract that files were landed with"
        case errors.SparkStopped():
            return "fix the cause, then give the same command again"
        case _:
            return None


def _of_a_column(error: BadFile) -> Advice | None:
    match error.fault:
        case Fault.NO_COLUMN if error.near:
            return f"if {error.near} is meant, rename it to {error.column} in the file; otherwise add the column"
        case Fault.NO_COLUMN:
            return f"add the column {error.column} to the file, or land it as another source"
        case Fault.COLUMNS:
            return f"leave one {error.column} in the header"
        case Fault.DIGITS:
            return f"write {error.column} in microseconds, or declare rounds=True"
        case Fault.TYPE:
            return f"write {error.column} as {error.type_}"
        case Fault.ZONE:
            zone = "with a zone, such as UTC, or declare the zone of its times: timezone='Europe/Amsterdam'"
            return f"write {error.column} as {error.type_} {zone}"
        case Fault.NO_VERSION:
            return f"write the columns of one version, or name it in a column {error.column}"
        case Fault.SEVERAL_VERSIONS:
            return f"write every column of its version, or name it in a column {error.column}"
        case _:
            return None


def _about_the_others(error: errors.StoppedAmongFiles, following: Following) -> Advice | None:
    """What to do about the file, and the command that lands the files after it, if it can be typed."""
    first, many = following(error.cause), len(error.not_tried)
    if not many:
        return first
    if many > _MOST_NAMED:
        then = step(f"land it and the {count_of(many, 'file')} after it again")
    else:
        how = None if error.on_duplicate == OnDuplicate.IGNORE else error.on_duplicate
        then = step("those after it: ", do(Act.LAND, error.source, *error.not_tried, on_duplicate=how, by=NAME))
    return step(first, "; ", then) if first else then


def _land_or_declare_empty(error: errors.NothingLanded) -> Advice:
    if len(compress(Grain.DAILY, error.missing)) == 1 or not error.are_gaps:
        return land_or_declare_empty(error.table, error.asked)
    every = do(Act.LOAD, error.table.partition(".")[2], missing=True, empty=True, reason=WHY, by=NAME)
    return step("land the missing files; if nothing happened on any missing day, declare it with ", every)

"""What to do about errors of declarations and references, of what comes in, and of what is sent out again."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from backfill_assets.capture import errors as capture
from backfill_assets.capture.errors import BadFile, Fault, FileRefused, NoFile
from backfill_assets.capture.landed_files import Family
from backfill_assets.core.errors import BackfillError, InvalidDeclaration, InvalidReference
from backfill_assets.core.next_steps import (
    ANOTHER_PERSON,
    NAME,
    WHY,
    Act,
    Advice,
    NextStep,
    Option,
    close_replay,
    do,
    step,
)
from backfill_assets.core.wording import visible
from backfill_assets.deliver import errors as deliver
from backfill_assets.domain import errors as domain
from backfill_assets.domain.file_names import FileName
from backfill_assets.landing import errors as landing
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.planning.next_steps import (
    joined,
    land_or_declare_empty,
    loads,
    plan_again,
    read_rejected_anew,
)
from backfill_assets.planning.partitions import Grain, compress, count_of
from backfill_assets.transforms import errors as transforms

_AGAIN = "repeat the command: it continues where it stopped"

FIXED: Mapping[type[BackfillError], Advice] = {
    capture.SecretInHome: "keep it in a file outside of the home",
    capture.NoStream: "check the name and the servers that the source declares",
    **dict.fromkeys((capture.StreamAway, capture.ReadFailed, capture.AsksToWait, deliver.WriteFailed), _AGAIN),
    capture.StillOpen: "try again when it has ended; one whose producer is gone is aborted with kafka-transactions.sh",
    capture.StreamDenied: "check the user and the secrets that the source declares, and what the user may read",
    capture.OtherHostKey: (
        "ask who runs the server whether its key was replaced; if so, declare the new one as host_key, else another "
        "machine may answer in its place"
    ),
    capture.OtherTopic: "declare the topic that is meant",
    capture.OtherBytes: "look whether the stream was compacted or replaced meanwhile; the file that is there stays",
    capture.NoGroup: "check the name of the group",
    capture.NoGroups: "hold the capture back by records or bytes per minute instead",
    capture.NothingCaptured: step("say where to begin: ", Option("first", "DAY")),
    **dict.fromkeys((capture.NothingWhole, capture.NotByTime), step("to read what is new: ", Option("last", "now"))),
    **dict.fromkeys(
        (capture.NoSnapshot, capture.ChangesGone, capture.UnknownValue),
        step("read everything anew: ", Option("snapshot")),
    ),
    capture.NoPeriod: step("leave out the days: ", Option("last", "now")),
    capture.NotSettled: "try again then, or reconcile earlier days",
    capture.NotReconciled: "declare a window of the event time, or land a complete extract from another place",
    **dict.fromkeys(
        (capture.BadAnswer, capture.NextPageLoop),
        "compare what the source declares with what the API says; what was captured before stays",
    ),
    capture.PositionGone: step("read everything once more: ", Option("reconcile")),
    **dict.fromkeys(
        (capture.VersionGone, capture.ChangesUnreadable), step("read everything once more: ", Option("snapshot"))
    ),
    capture.WentBack: "declare another source for it: its positions begin anew",
    capture.AnswerHoldsSecret: "ask the API in a way in which it does not repeat the request",
    **dict.fromkeys((capture.NotAsCaptured, capture.RecordsMissing), "restore the file from a copy"),
    deliver.NotReplayable: (
        "declare replay=KafkaReplay(servers=...) or KinesisReplay(region=...) if its records may be sent"
    ),
    deliver.TooLarge: "raise message.max.bytes in the settings of the replay, and max.message.bytes of the topic",
    deliver.TooLargeForStream: "replay to a topic, or only days without such a record",
    domain.DomainNotFound: "put the folder that holds it on the path: export PYTHONPATH=$PWD",
    transforms.NotDetermined: "take the value from an input, a reference or the context of the call, and plan again",
    transforms.NotPinnable: (
        "bind a constant, such as a number, a text, a tuple or a StructType, or make it inside of the function; then "
        "plan again"
    ),
    InvalidReference: "correct the file; nothing was changed",
    transforms.ReferenceNotArchived: "restore the file in the archive, or plan with the present references",
    transforms.NoSuchVersion: "name one of these, or the path of a YAML file that has it",
    landing.ExtractOvertaken: step(
        "read it anew with the command that asked for it, which has ",
        Option("reconcile"),
        " or ",
        Option("snapshot"),
        "; nothing has changed",
    ),
    landing.NotConfirmed: step("let another person confirm it: ", Option("confirmed_by", ANOTHER_PERSON)),
    landing.NothingToRestore: do(Act.STATUS),
    landing.LandedWithLaterContract: "declare the versions of the contract that files were landed with",
    landing.SparkStopped: "fix the cause, then give the same command again",
}
"""The advice for errors for which it is always the same."""


def advice_on(error: BackfillError, following: Callable[[BackfillError], NextStep | None]) -> Advice | None:
    """The advice for an error by its fields; None for others. That for its cause is `following`'s."""
    match error:
        case capture.NoSecret():
            return f"set {error.name}, or {error.name}_FILE to the path of a file that holds it"
        case capture.NotCaptured():
            files = do(Act.LAND, error.source.partition(".")[2], by=NAME)
            return step("land its files instead, with their paths after it: ", files)
        case capture.RangeExpired() if error.expected_from is None:
            return "begin on a later day, or land what is missing from another place first"
        case capture.RangeExpired():
            return "begin on a day that the stream still has, and land what is missing from another place"
        case capture.CreatedAgain(declare=""):
            return "declare another source for it: its versions begin anew"
        case capture.CreatedAgain():
            new = error.found.rpartition("/")[2]
            return f"if it is meant to be captured as well, declare {error.declare}={new!r}"
        case deliver.RunNotReplayable():
            return do(Act.REPORT, error.run_id)
        case deliver.RowsRemoved():
            return f"replay {error.table}, whose rows are sent as readers see them"
        case deliver.LiveTarget() if error.family == Family.KAFKA:
            return step(
                "name a topic that is not there yet with ",
                Option("into", "TOPIC"),
                f"; if this one is meant, declare live_topics=({error.target!r},)",
            )
        case deliver.LiveTarget() | deliver.BadName():
            return step("name one that is not there yet with ", Option("into", "events.backfill"))
        case deliver.OtherSink():
            return f"declare its replay to {error.expected} again until it is closed"
        case deliver.KeyOnSeveralDays():
            return step(
                "replay one partition with ",
                Option("first"),
                " and ",
                Option("last"),
                "; of a source, first build its stale days",
            )
        case deliver.TargetGone() | deliver.ProgressLost() | deliver.ReplayFailed():
            return step("end it, and replay again: ", close_replay(error.replay_id))
        case domain.CodeBroken(manifest=None):
            return "correct it in the domain, then give the same command again"
        case domain.NoDomain():
            begun, seen = do(Act.INIT, "my_shop"), do(Act.DEMO)
            return step(
                "set BACKFILL_DOMAIN to the module that declares DOMAIN; to begin one: ", begun, "; to see one: ", seen
            )
        case domain.DomainNotLoaded():
            return f"correct {visible(error.place) or 'the module that BACKFILL_DOMAIN names'}"
        case domain.NotPlanned(table=table, days=days) if days:
            return do(Act.LOAD, table.partition(".")[2], days=days, by=NAME)
        case domain.PlannedOtherwise(manifest=manifest):
            return step("run it with what it was planned with, or plan it again: ", plan_again(manifest))
        case InvalidDeclaration():
            place = visible(error.place) or "the module that BACKFILL_DOMAIN names"
            return f"correct the declaration in {place}; then the command again"
        case transforms.ReferenceNotRead(is_named=True):
            return "name a YAML file that exists"
        case transforms.ReferenceNotRead():
            return f"put {error.reference}.yaml there, or set BACKFILL_REFERENCE to the place that has it"
        case transforms.SeveralDocuments(reference=reference, sha256=[first, *_]):
            return step("name one by its sha256: ", Option("reference", f"{reference}={first}"))
        case BadFile(fault=Fault.RENAMED, near=suffix):
            return f"rename it, so that its name ends in {suffix}"
        case BadFile(fault=Fault.SUFFIX, near=str()):
            return "fetch it under a name that ends in the suffix of its format, and land that"
        case BadFile(fault=Fault.LONG_LINE, near=str()):
            return f"declare that, or {_ABOUT_A_FILE[Fault.LONG_LINE]}"
        case BadFile(fault=Fault.WORKBOOK, near=str()):
            return f"declare that, or {_ABOUT_A_FILE[Fault.WORKBOOK]}"
        case BadFile(column=str()):
            return _of_a_column(error)
        case BadFile() | NoFile() | FileRefused():
            return _ABOUT_A_FILE.get(error.fault)
        case landing.StoppedAmongFiles():
            return _about_the_others(error, following)
        case landing.ReadAsOtherColumns(is_statement=True):
            return "declare the key as it was, or the source under a new name"
        case landing.ReadAsOtherColumns():
            return do(Act.LAND, error.table.rpartition(".")[2], again_as_declared=True, by=NAME)
        case landing.NotReadAnew():
            return _about_reading_anew(error, following)
        case landing.NoneAccepted():
            short = error.table.rpartition(".")[2]
            meant = do(Act.LAND, short, error.path, on_duplicate="reprocess", by=NAME)
            return step("correct the declaration; nothing has changed. If that is meant: ", meant)
        case landing.TiedRecords():
            further = f"declare in {error.source} a further column of its order, or ties='arrival'"
            return f"correct the file, or {further}"
        case landing.WithdrawsTooMuch(is_captured=True):
            return step("if it is right, give the command again with ", Option("confirmed_by", ANOTHER_PERSON))
        case landing.WithdrawsTooMuch():
            look = step(Option("dry_run"), " shows the days and some of the keys; if it is right, ")
            return step(look, Option("confirmed_by", ANOTHER_PERSON))
        case landing.WrongKey(missing=str() as missing):
            return step("add ", Option("key", f"{missing}=VALUE"))
        case landing.WrongKey():
            return step("name a column of the key: ", Option("key", f"{error.key[0]}=VALUE"))
        case landing.UnknownColumn():
            return step("name one of these: ", Option("where", f"{error.key[0]}=VALUE"))
        case landing.ShownTwice():
            return f"write {error.column} with its offset, such as +01:00"
        case landing.WrongValue():
            return f"give a {error.type_}, written as in the files of {error.table}"
        case landing.NotCurrent() if error.unbuilt:
            return joined(loads(error.table, error.unbuilt))
        case landing.NotCurrent(withdrawn_by=str() as statement):
            return step(do(Act.RESTORE, statement, reason=WHY, by=NAME), " undoes the withdrawal")
        case landing.NotCurrent():
            return step("look for its landed file: ", do(Act.STATUS))
        case landing.NotEmpty():
            return joined(loads(error.table, error.partitions))
        case landing.RejectedThere(rejected=rejected):
            some = read_rejected_anew(error.table, error.partitions.days, [each.import_id for each in rejected])
            alone = joined(loads(error.table, error.partitions.days, empty=True))
            return step(some, "; where nothing happened all the same, declare these days by themselves: ", alone)
        case landing.NothingLanded():
            return _land_or_declare_empty(error)
        case landing.ConformedChanged(is_statement=True) | landing.RawFileChanged():
            return "restore the file from a copy"
        case landing.LandingUnfinished() | landing.ConformedChanged():
            return do(Act.LAND, error.source, error.path, on_duplicate="reprocess", by=NAME)
        case _:
            return None


_REPLACES = Option("replaces", "DAY..DAY")

_MOST_NAMED = 5
"""So many files after a refused one are named in the command that lands them."""

_MOST_READ = 20
"""So many files are named in the command that reads them anew without those that are refused."""

_ABOUT_A_FILE: dict[Fault, Advice] = {
    Fault.PATH: "check the path",
    Fault.NAME: "rename the file",
    Fault.DEVICE: "write what it gives into a file, and land that",
    Fault.FOLDER: "name the files in it",
    Fault.CHANGING: "land it when it is complete; whoever writes it can rename it then",
    Fault.SUFFIX: "rename the file with the suffix of its format",
    Fault.DAMAGED: "get the file again from its source",
    Fault.PADDED: "remove what follows: gunzip it, which ignores that, and gzip it again",
    Fault.LONG_LINE: "write one record per line",
    Fault.NOT_TEXT: "land JSON lines, CSV or Parquet",
    Fault.PACKED: "unpack it, and land what is in it",
    Fault.WORKBOOK: "save each of its sheets as CSV in UTF-8",
    Fault.PAGE: "get the file itself from its source, which may have answered with an error or a login",
    Fault.DELIMITER: "declare that, or write it with commas between its values",
    Fault.BANNER: "declare that, or remove the lines before its header",
    Fault.EVENTS: "land it as the source whose events they are, or declare what they are: envelope=Debezium(...)",
    Fault.DIALECT: "correct its declaration, or the file",
    Fault.FORMULA: "open it in a program for spreadsheets, which computes it, and save it",
    Fault.CODEC: "write it with Snappy, gzip or Zstandard",
    Fault.ENCODING: "save it as UTF-8",
    Fault.COLUMNS: "split its rows, or land it as Parquet",
    Fault.LINE_ENDS: "declare that, or end every row with the same line break",
    Fault.OPEN_QUOTE: "look for a quote that is never closed",
    Fault.QUOTES: "put a value with a quote into quotes, and double the quotes inside",
    Fault.LANDED_BEFORE: step("land it with ", Option("on_duplicate", "ignore"), ", reprocess or correct"),
    Fault.NO_KEY: step("name the days for which it is complete: ", _REPLACES),
    Fault.ROWS_WITHOUT_KEY: step("leave out ", Option("where")),
    Fault.SAME_NAME: step(
        "if it takes the place of that one, name the days for which it is complete: ",
        _REPLACES,
        "; otherwise give it another name",
    ),
    Fault.NAMED_TWICE: "rename all but one",
    Fault.OTHER_DAYS: step("name all its days with ", _REPLACES, ", or give it another name"),
    Fault.REJECTED_KEYS: "correct the files, and land all of them again",
    Fault.ADDRESS: "give an address such as https://example.org/orders.csv or s3://bucket/orders.csv, or a file",
    Fault.NO_ANSWER: "try again later, or get the file in another way and land that",
    Fault.DIGEST: "give the digest that the source of the file says",
    Fault.DELIVERY: "get the files again from who delivers them, or ask for a manifest of what was delivered",
    Fault.MANIFEST: "correct the manifest: a list of files, each with name, records, size_bytes, sha256 or md5",
}


def _of_a_column(error: BadFile) -> Advice | None:
    match error.fault:
        case Fault.NO_COLUMN if error.near:
            meant = f"if {visible(error.near)} is meant, declare {_named(error.near, error.column)}"
            return f"{meant}; otherwise add the column"
        case Fault.NO_COLUMN:
            return (
                f"declare what the file calls it: {_named('NAME', error.column)}; or add it to the file, or land it as "
                "another source"
            )
        case Fault.COLUMNS if error.near:
            return f"say which of them is meant: {_named((error.near, 1), error.column)}"
        case Fault.COLUMNS:
            return f"leave one {error.column} in the header"
        case Fault.MEMBERS:
            return f"declare the member that it is read from: {_named('NAME', error.column)}"
        case Fault.DIGITS:
            return f"write {error.column} in microseconds, or declare rounds=True"
        case Fault.TYPE if error.near:
            return f"declare {error.column} as {error.near}, or write it as {error.type_}"
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


def _named(name: FileName, column: str | None) -> str:
    """The declaration that a file calls a column something."""
    return f"columns={{{visible(repr(name))}: {column!r}}}"


def _about_the_others(
    error: landing.StoppedAmongFiles, following: Callable[[BackfillError], NextStep | None]
) -> Advice | None:
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


def _about_reading_anew(error: landing.NotReadAnew, following: Callable[[BackfillError], NextStep | None]) -> Advice:
    """What to do about the files that cannot be read as declared, and the command that reads the others."""
    first = following(error.cause) or "correct the declaration"
    if error.is_whole or not 0 < len(error.others) <= _MOST_READ:
        return first
    others = ",".join(error.others)
    again = do(Act.LAND, error.source.rpartition(".")[2], again_as_declared=True, imports=others, by=NAME)
    return step(first, "; to read the others anew without them: ", again)


def _land_or_declare_empty(error: landing.NothingLanded) -> Advice:
    rejecting = [each.import_id for each in error.rejected]
    if len(compress(Grain.DAILY, error.missing)) == 1 or not error.are_gaps or rejecting:
        return land_or_declare_empty(error.table, error.asked, rejecting)
    every = do(Act.LOAD, error.table.partition(".")[2], missing=True, empty=True, reason=WHY, by=NAME)
    return step("land the missing files; if nothing happened on any missing day, declare it with ", every)

"""Errors of landing: what is wrong with a file, a statement or days, and where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from backfill_assets.calendar.partitions import Grain, Partitions, compress, count_of
from backfill_assets.core import errors
from backfill_assets.core.about import Because, OfTable
from backfill_assets.core.errors import sentence
from backfill_assets.core.next_steps import NAME, Advice, Command, do, step
from backfill_assets.planning.next_steps import joined, land_or_declare_empty, loads

_MOST_FILES = 3
"""So many files are named in a sentence."""

_MOST_NAMED = 5
"""So many files after a refused one are named in the command that lands them."""

_MOST_READ = 20
"""So many files are named in the command that reads them anew without those that are refused."""


@dataclass(frozen=True, slots=True)
class Values:
    """Values of rows by column: an error has them in its sentence, and not in its ids."""

    columns: Mapping[str, str | None]

    def __str__(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in self.columns.items())


@sentence
class StoppedAmongFiles(errors.BackfillError):
    """{cause.message}{before}{behind}"""

    cause: errors.BackfillError
    source: str
    landed: int
    not_tried: tuple[str, ...]
    on_duplicate: str

    @property
    def category(self) -> type[errors.BackfillError]:
        return self.cause.category

    @property
    def ids(self) -> Mapping[str, object]:
        return {**super().ids, **self.cause.ids}

    @property
    def before(self) -> str:
        some = f"{count_of(self.landed, 'file')} before it {'has' if self.landed == 1 else 'have'} landed"
        return f" ({some}; their days are built by the next `land` or `load`.)" if self.landed else ""

    @property
    def behind(self) -> str:
        many = len(self.not_tried)
        return f" {count_of(many, 'file')} after it {'was' if many == 1 else 'were'} not tried." if many else ""

    @property
    def advice(self) -> Advice | None:
        """What to do about the file, and the command that lands the files after it, if it can be typed."""
        first, many = self.cause.next_step, len(self.not_tried)
        if not many:
            return first
        if many > _MOST_NAMED:
            then = step(f"land it and the {count_of(many, 'file')} after it again")
        else:
            # An offered file is ignored where it has landed, unless the command says otherwise.
            how = None if self.on_duplicate == "ignore" else self.on_duplicate
            then = step("those after it: ", do(Command.LAND, self.source, *self.not_tried, on_duplicate=how, by=NAME))
        return step(first, "; ", then) if first else then


@sentence
class TiedRecords(errors.AmbiguousOrder):
    """two records of {key} have the same {order} and different values, so their order is not known; one is record {row}
    of the file.

    Next: correct the file, or declare in {source} a further column of its order, or ties='arrival'
    """

    source: str
    key: Values
    order: Values
    row: int

    @property
    def recorded(self) -> str:
        return f"two records of a key have the same {', '.join(self.order.columns)} and different values"


@sentence
class WithdrawsTooMuch(errors.Refused):
    """the extract lacks {keys:,} of {every_key} of {scope} ({percent:.1f} %), and {source} lets {allowed:g} % be
    withdrawn without confirmation{why}."""

    source: str
    scope: str
    keys: int
    current: int
    records: int
    outside: int
    percent: float
    allowed: float
    is_captured: bool = False

    @property
    def why(self) -> str:
        if not self.records:
            return "; its files hold no valid record"
        among = f"{self.outside:,} of its {count_of(self.records, 'record')}"
        return f"; {among} are not of {self.scope}" if self.outside else ""

    @property
    def every_key(self) -> str:
        return count_of(self.current, "key")

    @property
    def recorded(self) -> str:
        return f"the extract lacks {self.keys:,} of {self.every_key} ({self.percent:.1f} %)"

    @property
    def advice(self) -> str:
        if self.is_captured:
            return "if it is right, give the command again with [confirmed_by=ANOTHER_PERSON]"
        return "[dry_run=True] shows the days and some of the keys; if it is right, [confirmed_by=ANOTHER_PERSON]"


@sentence
class NotCurrent(OfTable, errors.Refused):
    """{key} of {table} {why}."""

    key: Values
    state: str | None
    withdrawn_by: str | None
    unbuilt: tuple[date, ...]

    @property
    def why(self) -> str:
        waiting = ", and days are yet to be built from what landed" if self.unbuilt else ""
        return f"is {self.state} already{waiting}" if self.state else "never landed"

    @property
    def advice(self) -> Advice:
        if self.unbuilt:
            return joined(loads(self.table, self.unbuilt))
        if self.withdrawn_by is not None:
            return "[restore {withdrawn_by} reason=WHY by=NAME] undoes the withdrawal"
        return "look for its landed file: [status]"


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedOf:
    """Rejected records of a landed file that are, or may be, of days on which no file has others."""

    import_id: str  #: The file.
    records: int
    of_days: int  #: How many of its rejected records are of these days.
    of_no_day: int  #: Of how many the day is not known.


def records_rejected(found: Sequence[RejectedOf]) -> str:
    """The number of rejected records of some days, and their files."""
    files = ", ".join(each.import_id for each in found[:_MOST_FILES])
    more = len(found) - _MOST_FILES
    files += f" and {count_of(more, 'more file')}" if more > 0 else ""
    return f"{count_of(sum(each.of_days for each in found), 'record')} of {files}"


@sentence
class NothingLanded(OfTable, errors.MissingInput):
    """{nothing} has landed for {missing} of {dates}, and these days are not declared empty{but}."""

    missing: Partitions
    asked: tuple[date, ...]
    are_gaps: bool
    in_utc: bool = True
    rejected: tuple[RejectedOf, ...] = ()

    @property
    def nothing(self) -> str:
        return "no valid record" if self.rejected else "nothing"

    @property
    def but(self) -> str:
        of_days = tuple(each for each in self.rejected if each.of_days)
        said = f"; rejected were {records_rejected(of_days)} of them" if of_days else ""
        others = [each for each in self.rejected if each.of_no_day]
        if not others:
            return said
        many = count_of(sum(each.of_no_day for each in others), "record")
        return f"{said}; of {many} that {'was' if many.startswith('1 ') else 'were'} rejected the day is not known"

    @property
    def dates(self) -> str:
        return f"{self.table} (UTC dates)" if self.in_utc else self.table

    @property
    def advice(self) -> Advice:
        rejecting = [each.import_id for each in self.rejected]
        if len(compress(Grain.DAILY, self.missing)) == 1 or not self.are_gaps or rejecting:
            return land_or_declare_empty(self.table, self.asked, rejecting)
        return (
            "land the missing files; if nothing happened on any missing day, declare it with "
            "[load {short} missing=True empty=True reason=WHY by=NAME]"
        )


@sentence
class RawFileChanged(Because, errors.MissingInput):
    """the landed file {path} of {import_id} {why}.

    Next: restore the file from a copy
    """

    import_id: str
    path: str


@sentence
class SparkStopped(Because, errors.ContractBroken):
    """Spark stopped while it landed files of {source}: {why}

    Next: fix the cause, then give the same command again
    """

    source: str


@sentence
class NoneAccepted(OfTable, Because, errors.UnreadableFile):
    """none of the records of {import_id} ({path}) would land as {table} is declared now{first}; {before} as it was read
    before.

    Next: correct the declaration; nothing has changed. If that is meant: [land {short} {path} on_duplicate=reprocess
    by=NAME]
    """

    import_id: str
    path: str
    rejected: int
    accepted: int
    row: int

    @property
    def first(self) -> str:
        if not self.rejected:
            return ": it has none"
        return f": {count_of(self.rejected, 'record')} rejected, the first is record {self.row}: {self.why}"

    @property
    def before(self) -> str:
        return f"{count_of(self.accepted, 'record')} did"

    @property
    def recorded(self) -> str:
        return "none of its records would land as its source is declared now"


@sentence
class NotReadAnew(errors.BackfillError):
    """{cause.message}{many}"""

    cause: errors.BackfillError
    source: str
    refused: tuple[str, ...]
    others: tuple[str, ...]
    is_whole: bool

    @property
    def category(self) -> type[errors.BackfillError]:
        return self.cause.category

    @property
    def ids(self) -> Mapping[str, object]:
        return {**super().ids, **self.cause.ids}

    @property
    def many(self) -> str:
        of_all = f"{len(self.refused):,} of {count_of(len(self.refused) + len(self.others), 'file')}"
        some = ", ".join(self.refused[:5]) + (" and more" if len(self.refused) > 5 else "")
        return f" (No file was read anew: {of_all} cannot be, {some}.)"

    @property
    def advice(self) -> Advice:
        """What to do about the files that cannot be read as declared, and the command that reads the others."""
        first = self.cause.next_step or "correct the declaration"
        if self.is_whole or not 0 < len(self.others) <= _MOST_READ:
            return first
        others, short = ",".join(self.others), self.source.rpartition(".")[2]
        again = do(Command.LAND, short, again_as_declared=True, imports=others, by=NAME)
        return step(first, "; to read the others anew without them: ", again)

"""Errors of landing: what is wrong with a file, a statement or days, and where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from backfill_assets.core import errors
from backfill_assets.core.about import Because, OfTable
from backfill_assets.core.errors import sentence
from backfill_assets.planning.partitions import OfPartitions, Partitions, count_of

_MOST_FILES = 3
"""So many files are named in a sentence."""


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


@sentence
class TiedRecords(errors.AmbiguousOrder):
    """two records of {key} have the same {order} and different values, so their order is not known; one
    is record {row} of the file."""

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


@sentence
class ExtractOvertaken(OfTable, errors.Refused):
    """{import_id} ({path}) has landed on days of {table} since {scope} was read again: records missing there may
    have come with it, so the extract is not landed."""

    scope: str
    import_id: str
    path: str


@sentence
class NotConfirmed(errors.Refused):
    """{by} lands the extract, and another person has to confirm what it withdraws."""

    source: str
    by: str


@sentence
class NothingToRestore(Because, errors.Refused):
    """{import_id} withdrew {why}."""

    import_id: str


@sentence
class WrongKey(OfTable, Because, errors.Refused):
    """{why}."""

    key: tuple[str, ...]
    missing: str | None = None


@sentence
class UnknownColumn(OfTable, errors.UnknownName):
    """{table} has no column {column!r}; its columns are {columns}."""

    column: str
    columns: tuple[str, ...]
    key: tuple[str, ...]


@sentence
class WrongValue(OfTable, errors.Refused):
    """{value!r} is not a value of {column} of {table}, which has the type {type_}."""

    column: str
    value: str
    type_: str


@sentence
class ShownTwice(OfTable, errors.Refused):
    """{value!r} is a time of {column} of {table} that clocks in {timezone} show twice."""

    column: str
    value: str
    timezone: str


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


@sentence
class EmptyElsewhere(OfTable, OfPartitions, errors.Refused):
    """{partitions} cannot be declared empty by a run that does not build them."""


@sentence
class NotEmpty(OfTable, OfPartitions, errors.Refused):
    """{partitions} of {table} cannot be declared empty: events for those days have landed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedOf:
    """Rejected records of a landed file that are, or may be, of days on which no file has others."""

    import_id: str  #: The file.
    records: int  #: How many records it has.
    of_days: int  #: How many of its rejected records are of these days.
    of_no_day: int  #: Of how many the day is not known.


def records_rejected(found: Sequence[RejectedOf]) -> str:
    """How many records of which files are of some days."""
    files = ", ".join(each.import_id for each in found[:_MOST_FILES])
    more = len(found) - _MOST_FILES
    files += f" and {count_of(more, 'more file')}" if more > 0 else ""
    return f"{count_of(sum(each.of_days for each in found), 'record')} of {files}"


@sentence
class RejectedThere(OfTable, OfPartitions, errors.Refused):
    """{partitions} of {table} cannot be declared empty among other days: {records} {were} rejected there."""

    rejected: tuple[RejectedOf, ...]

    @property
    def records(self) -> str:
        return records_rejected(self.rejected)

    @property
    def were(self) -> str:
        return "was" if sum(each.of_days for each in self.rejected) == 1 else "were"


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


@sentence
class LandingUnfinished(errors.MissingInput):
    """{import_id} ({path}) holds records of these days, and was being reprocessed when it stopped."""

    import_id: str
    path: str
    source: str


@sentence
class ConformedChanged(Because, errors.MissingInput):
    """the conformed records of {import_id}, from which rows are computed, are not those that were written when it
    landed: {why}."""

    import_id: str
    path: str
    source: str
    is_statement: bool


@sentence
class RawFileChanged(Because, errors.MissingInput):
    """the landed file {path} of {import_id} {why}."""

    import_id: str
    path: str


@sentence
class LandedWithLaterContract(OfTable, errors.ContractBroken):
    """{import_id} was landed with version {landed_with} of the contract of {table}, which is read as version
    {version}."""

    import_id: str
    landed_with: int
    version: int


@sentence
class SparkStopped(Because, errors.ContractBroken):
    """Spark stopped while it landed files of {source}: {why}"""

    source: str


@sentence
class NoneAccepted(OfTable, Because, errors.UnreadableFile):
    """none of the records of {import_id} ({path}) would land as {table} is declared now{first}; {before} as it was
    read before."""

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


@sentence
class ReadAsOtherColumns(OfTable, errors.MissingInput):
    """{import_id} ({path}) {has} columns that {table} no longer declares, or declares with another type."""

    import_id: str
    path: str
    is_statement: bool

    @property
    def has(self) -> str:
        return "names keys by" if self.is_statement else "was read into"


@sentence
class NotAFileOf(OfTable, errors.Refused):
    """{import_id} is not a landed file of {table}, so there is nothing to read anew."""

    import_id: str

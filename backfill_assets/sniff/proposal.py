"""Proposal: what was found in the sample of a file, how sure it is, what its columns are called, and what has to be
declared of it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum

from backfill_assets.domain.source_files import Dialect, FileName, Form

# Names: what columns are called in a contract, whose names every reader of a table tells apart.

_ALLOWED = re.compile(r"[^\W_][\w-]*")
_WRAPPED = re.compile(r"(?<=.)\.\$\w+$")
"""The members that MongoDB puts around a value, as in `at.$date`."""

RESERVED = frozenset({"file_name", "row_number"})


def written_names(header: Sequence[str]) -> list[FileName]:
    """The names of columns in files: the name, the n-th of a name that is given twice, or the position of a nameless
    one."""
    counts, seen = Counter(header), Counter[str]()
    found: list[FileName] = []
    for place, name in enumerate(header):
        seen[name] += 1
        if not name:
            found.append(place)
        else:
            found.append(name if counts[name] == 1 else (name, seen[name]))
    return found


def contract_name(written: FileName, taken: set[str]) -> str:
    """A name for a column in the contract, and of the names that are taken it is then one.

    Args:
        taken: The names so far, in lower case; those that are kept for landing may be among them.
    """
    name = _name_of(written)
    if not _ALLOWED.fullmatch(name):
        name = re.sub(r"_+", "_", re.sub(r"\W", "_", name.lower())).strip("_-") or "column"
    unique, number = name, 2
    while unique.casefold() in taken:
        unique, number = f"{name}_{number}", number + 1
    taken.add(unique.casefold())
    return unique


def _name_of(written: FileName) -> str:
    match written:
        case str():
            return _WRAPPED.sub("", written)
        case int():
            return f"column_{written}"
        case (str() as name, int() as number):
            return name if number == 1 else f"{name}_{number}"
        case _:
            return "_".join(_name_of(each).lower() for each in written)


def leaves(written: Sequence[FileName]) -> list[FileName]:
    """Paths of members by their last name, where no other member has it; others as they are."""
    counts = Counter(each.rpartition(".")[2] if isinstance(each, str) else each for each in written)
    return [
        leaf if isinstance(each, str) and counts[leaf := each.rpartition(".")[2]] == 1 else each for each in written
    ]


def table_name(file: str) -> str:
    """The name of a table for a file: letters, digits and _ of what its name begins with."""
    stem = re.sub(
        r"(\.(csv|tsv|txt|dat|jsonl?|ndjson|geojson|parquet|xlsx|avro|gz|zip|zst|bz2|xz))+$", "", file.lower()
    )
    name = re.sub(r"[^a-z0-9]+", "_", stem).strip("_")
    return name if name[:1].isalpha() else f"file_{name}".rstrip("_")


# Proposal: what was found in the sample of a file, how sure it is, and what has to be declared of it.


class DoubtKind(StrEnum):
    """The kind of a doubt: a sample does not tell it, or a reader has to know it before landing."""

    ENCODING = "encoding"
    DIALECT = "dialect"
    DAY_OR_MONTH = "day or month"
    CLOCK = "clock"
    TWO_DIGIT_YEAR = "two-digit year"
    ZONE = "zone"
    REPEATED_HOUR = "repeated hour"
    EPOCH = "epoch"
    NO_VALUE = "no value"
    MIXED = "mixed"
    NULL_TEXT = "null text"
    LOST_TEXT = "lost text"
    SENTINEL = "sentinel"
    COMMA = "comma"
    MONEY = "money"
    LEADING_ZEROS = "leading zeros"
    NO_KEY = "no key"
    KEY_OF_SAMPLE = "key of a sample"
    KEY_BY_VALUES = "key by values"
    OTHER_COLUMNS = "other columns"
    LOST_COLUMNS = "lost columns"
    OTHER_DIALECT = "other dialect"
    MORE_FILES = "more files"
    FIRST_DAY = "first day"
    FUTURE = "future"
    GAPS = "gaps"
    NESTED = "nested"
    ENVELOPE = "envelope"
    MISQUOTED = "misquoted"
    RAGGED = "ragged"
    REPEATED_HEADER = "repeated header"
    NOT_A_VALUE = "not a value"
    SHEETS = "sheets"
    NO_EVENT_TIME = "no event time"
    NO_RECORD = "no record"
    DATES_AS_NAMES = "dates as names"
    ONE_COLUMN = "one column"
    LISTS = "lists"
    API = "api"


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """Something that a person decides, or records that would be rejected."""

    kind: DoubtKind  #: What it is about.
    column: str = ""  #: The column of the contract; empty of the whole file.
    values: tuple[str, ...] = ()  #: Texts of the file, and names of alternatives, the first ones.
    records: int = 0  #: How many records of the sample it is about; 0 where that is no number.
    first: int = 0  #: The number of the first one in the sample, from 1.
    rejects: bool = False  #: True if these records would be rejected.


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedColumn:
    """A column of the contract."""

    name: str  #: Its name in the contract.
    written: FileName  #: What files call it.
    #: Its type: `STRING`, `LONG`, `DOUBLE`, `DECIMAL(20,0)`, `BOOLEAN`, `DATE`, `TIMESTAMP`, `BINARY` or an
    #: `ARRAY<...>`.
    kind: str
    forms: tuple[Form, ...] = ()  #: How its times are written, where that has to be declared.
    is_local: bool = False  #: True if it has times without an offset.
    values: int  #: How many values it has in the sample.
    nulls: int  #: How many records have none.
    fitting: int  #: How many of the values are of its type.
    example: str = ""  #: The first of them.


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """The sample that was looked at of a file."""

    file: str  #: Its name.
    size_bytes: int  #: How large it is.
    read_bytes: int  #: How many of these were read; of a packed file how many were unpacked.
    is_whole: bool  #: True if all of it was read.
    format: str  #: What it is: `CSV`, `JSON lines`, `JSON`, `Parquet`, `Avro`, `Excel` or `OpenAPI`.
    packed: str = ""  #: How it is packed: `gzip`, `zip`, `zstd`, or empty.
    records: int  #: How many records were found in what was read.


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A source table that a file could land in."""

    name: str  #: The table.
    looked: tuple[Looked, ...]  #: What was looked at, file by file.
    reads: Dialect | None = None  #: The dialect; None for what is read by the suffix.
    columns: tuple[ProposedColumn, ...]  #: The columns of the contract.
    #: Columns of the file that the contract leaves out, because they have no values or are part of another.
    left_out: tuple[str, ...] = ()
    key: tuple[str, ...]  #: What identifies a record; the number of the row where nothing does.
    event_time: str  #: The time of a record; empty without one.
    timezone: str = "UTC"  #: The zone of times without an offset.
    repeated_hour: str = ""  #: Which of the two a time is that clocks show twice; empty where that is not declared.
    is_planned: bool = False
    first_on: date | None = None  #: The first day of an event.
    last_on: date | None = None
    longest_gap_days: int = 0  #: The most days in a row without events.
    keys: tuple[tuple[str, ...], ...] = ()  #: What else could be the key.
    event_times: tuple[str, ...] = ()  #: What else could be the event time.
    orders: tuple[str, ...] = ()  #: What could order versions of a key.
    doubts: tuple[Doubt, ...] = ()  #: What a person has to decide, the most important first.
    has_row_number: bool = field(default=False)
    #: Earlier headers of its files, the oldest first: what each calls the columns of the contract.
    releases: tuple[Mapping[FileName, str], ...] = ()
    capture: str = ""  #: What its records are captured from, as Python; empty of files.
    capture_names: tuple[str, ...] = ()  #: What that imports.

    @property
    def records(self) -> int:
        """The number of records that were looked at."""
        return sum(each.records for each in self.looked)

    @property
    def is_whole(self) -> bool:
        """True if all of every file was read."""
        return all(each.is_whole for each in self.looked)

    @property
    def has_local_times(self) -> bool:
        """True if a zone has to be declared."""
        return any(column.is_local for column in self.columns)

    @property
    def names(self) -> Mapping[FileName, str]:
        """The names that have to be declared; nothing where each column is called as in the file."""
        has_header = getattr(self.reads, "header", True)
        return {
            column.written: column.name for column in self.columns if column.written != column.name or not has_header
        }

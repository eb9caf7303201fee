"""Proposal: what was found in the sample of a file, how sure it is, and what has to be declared of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum

from backfill_assets.domain.dialects import Dialect, Form
from backfill_assets.domain.file_names import FileName


class DoubtKind(StrEnum):
    """What a sample does not tell, or what a reader has to know before landing."""

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
    """Something that a person decides, or records that would be rejected.

    Attributes:
        kind: What it is about.
        column: The column of the contract; empty of the whole file.
        values: Texts of the file, and names of alternatives, the first ones.
        records: How many records of the sample it is about; 0 where that is no number.
        first: The number of the first one in the sample, from 1.
        rejects: Whether these records would be rejected.
    """

    kind: DoubtKind
    column: str = ""
    values: tuple[str, ...] = ()
    records: int = 0
    first: int = 0
    rejects: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedColumn:
    """A column of the contract.

    Attributes:
        name: Its name in the contract.
        written: What files call it.
        kind: Its type: `STRING`, `LONG`, `DOUBLE`, `DECIMAL(20,0)`, `BOOLEAN`, `DATE`, `TIMESTAMP`, `BINARY` or an
            `ARRAY<...>`.
        forms: How its times are written, where that has to be declared.
        is_local: Whether it has times without an offset.
        values: How many values it has in the sample.
        nulls: How many records have none.
        fitting: How many of the values are of its type.
        example: The first of them.
    """

    name: str
    written: FileName
    kind: str
    forms: tuple[Form, ...] = ()
    is_local: bool = False
    values: int
    nulls: int
    fitting: int
    example: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What was looked at of a file.

    Attributes:
        file: Its name.
        size_bytes: How large it is.
        read_bytes: How many of these were read; of a packed file how many were unpacked.
        is_whole: Whether all of it was read.
        format: What it is: `CSV`, `JSON lines`, `JSON`, `Parquet`, `Avro`, `Excel` or `OpenAPI`.
        packed: How it is packed: `gzip`, `zip`, `zstd`, or empty.
        records: How many records were found in what was read.
    """

    file: str
    size_bytes: int
    read_bytes: int
    is_whole: bool
    format: str
    packed: str = ""
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A source table that a file could land in.

    Attributes:
        name: The table.
        looked: What was looked at, file by file.
        reads: The dialect; None for what is read by the suffix.
        columns: The columns of the contract.
        left_out: Columns of the file that the contract leaves out, because they have no values or are part of another.
        key: What identifies a record; the number of the row where nothing does.
        event_time: The time of a record; empty without one.
        timezone: The zone of times without an offset.
        repeated_hour: Which of the two a time is that clocks show twice; empty where that is not declared.
        first_on: The first day of an event.
        last_on: The last one.
        longest_gap_days: The most days in a row without events.
        keys: What else could be the key.
        event_times: What else could be the event time.
        orders: What could order versions of a key.
        doubts: What a person has to decide, the most important first.
        releases: Earlier headers of its files, the oldest first: what each calls the columns of the contract.
        capture: What its records are captured from, as Python; empty of files.
        capture_names: What that imports.
    """

    name: str
    looked: tuple[Looked, ...]
    reads: Dialect | None = None
    columns: tuple[ProposedColumn, ...]
    left_out: tuple[str, ...] = ()
    key: tuple[str, ...]
    event_time: str
    timezone: str = "UTC"
    repeated_hour: str = ""
    is_planned: bool = False
    first_on: date | None = None
    last_on: date | None = None
    longest_gap_days: int = 0
    keys: tuple[tuple[str, ...], ...] = ()
    event_times: tuple[str, ...] = ()
    orders: tuple[str, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    has_row_number: bool = field(default=False)
    releases: tuple[Mapping[FileName, str], ...] = ()
    capture: str = ""
    capture_names: tuple[str, ...] = ()

    @property
    def records(self) -> int:
        """How many records were looked at."""
        return sum(each.records for each in self.looked)

    @property
    def is_whole(self) -> bool:
        """Whether all of every file was read."""
        return all(each.is_whole for each in self.looked)

    @property
    def has_local_times(self) -> bool:
        """Whether a zone has to be declared."""
        return any(column.is_local for column in self.columns)

    @property
    def names(self) -> Mapping[FileName, str]:
        """What has to be declared of names; nothing where each column is called as in the file."""
        has_header = getattr(self.reads, "header", True)
        return {
            column.written: column.name for column in self.columns if column.written != column.name or not has_header
        }

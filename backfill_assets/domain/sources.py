"""Source tables: built from landed files, one partition per date of the event: a date as it is written, or in UTC."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pyspark.sql.types import DataType, DateType, LongType, StringType, StructField, StructType, TimestampType

from backfill_assets.calendar.local_days import FIRST_TO_BEGIN, LocalDays
from backfill_assets.calendar.partitions import Grain
from backfill_assets.capture.debezium import COMMIT, Debezium
from backfill_assets.capture.families import one_of
from backfill_assets.capture.streams import Operated
from backfill_assets.core.errors import InvalidDeclaration
from backfill_assets.domain.breakdown import check_breakdown
from backfill_assets.domain.contracts import EARLIER, LIFT, NO_LIFT, Compute, Lift, check_versions, name_at, normalized
from backfill_assets.domain.declarations import (
    INFINITIES,
    OF_EVERY_TABLE,
    REPLAY,
    Kind,
    Partitioning,
    a,
    check_identifying,
    check_policy,
    check_replay,
    check_table,
    checking,
    complete_gates,
    holds,
    is_time,
    require_columns,
    require_types,
    several,
    wrong,
)
from backfill_assets.domain.external import ReplayDeclaration, ServerDeclaration, StreamDeclaration
from backfill_assets.domain.gates import Gate
from backfill_assets.domain.operations import (
    DEBEZIUM_COLUMNS,
    DEBEZIUM_OPERATIONS,
    DEBEZIUM_POSITION_COLUMNS,
    POSITION,
    Operations,
    Ties,
    UnknownKeys,
)
from backfill_assets.domain.source_files import (
    WRITTEN,
    Canal,
    Dialect,
    FileName,
    Form,
    Maxwell,
    Part,
    check_written,
    mistakes_of_members,
    parts_of,
    written_in,
)
from backfill_assets.planning.safeguards import SOURCE_POLICY, Policy


def _is_zone(value: object) -> bool:
    """True if a value names a time zone by its place. Java reads some short names, such as CET, differently from
    Python."""
    if not isinstance(value, str) or (value != "UTC" and not re.fullmatch(r"[A-Z]\w+(/[\w+-]+)+", value)):
        return False
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, OSError):
        return False
    return True


FILE_NAME, ROW_NUMBER = "file_name", "row_number"
"""Columns that landing fills for a source whose files have no key: the name of the file, and the number of the record
in it."""

_DAY = "yyyy-MM-dd"

OF_A_SOURCE = {
    **WRITTEN,
    "event_time": a(str, "a column name"),
    "json_columns": several(str, "column names"),
    "timezone": Kind(words="a time zone such as 'Europe/Amsterdam'", test=lambda value: value == "" or _is_zone(value)),
    "bounds": Kind(
        words="texts by column, such as {'valid_until': {'infinity': '9999-12-31'}}",
        test=lambda value: (
            isinstance(value, Mapping)
            and all(
                isinstance(named, Mapping) and all(isinstance(text, str) for text in (*named, *named.values()))
                for named in value.values()
            )
        ),
    ),
    "row_number": Kind(words="True or False", test=lambda value: isinstance(value, bool)),
    "rounds": Kind(words="True or False", test=lambda value: isinstance(value, bool)),
    "plausible_gap_days": a(int, "a number of days"),
    "earlier": EARLIER,
    "lift": LIFT,
    "lateness": Kind(words="days(N)", test=lambda value: value is None or isinstance(value, Lateness)),
    "order": several(str, "column names, such as ('lsn',)"),
    "ties": Kind(words="'refuse' or 'arrival'", test=lambda value: value in tuple(Ties)),
    "unknown": Kind(words="'block', 'keep' or 'drop'", test=lambda value: value in tuple(UnknownKeys)),
    "operation": Kind(words="Operations(...)", test=lambda value: value is None or isinstance(value, Operations)),
    "capture": Kind(
        words=lambda: one_of("streams"), test=lambda value: value is None or isinstance(value, StreamDeclaration)
    ),
    "drop": Kind(
        words=lambda: one_of("servers"), test=lambda value: value is None or isinstance(value, ServerDeclaration)
    ),
    "upstream": several(str, "the parts of an asset's key, such as ('raw', 'orders')"),
    "envelope": Kind(words="Debezium(...)", test=lambda value: value is None or isinstance(value, Debezium)),
    "replay": REPLAY,
    "most_withdrawn_percent": Kind(
        words="a number from 0 to 100",
        test=lambda value: isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 100,
    ),
}


@dataclass(frozen=True, kw_only=True)
class SourceTable:
    """A bronze table, built from landed files; one partition per date of the event.

    Args:
        name: `layer.table`.
        key: What identifies a record; the last version of a key wins.
        event_time: When something happened: a DATE, which is the partition as it is written, or a TIMESTAMP, whose UTC
            date is. A date is of no zone: it is in the future while no place on Earth has it.
        partition: The partition column, which the loader derives; it is not part of `schema`.
        schema: The contract of a landed record. Columns that are not nullable must have a value.
        json_columns: String columns that must hold a JSON object when they are not null.
        rounds: States that files have more digits than the contract keeps, so that landing may drop them: decimals are
            rounded half up, fractions of a second are cut to microseconds, numbers become the nearest float or double.
            Without it such a record is rejected, and in a column of the key in either case.
        timezone: The zone of times in its files that have no offset, such as Europe/Amsterdam, and of the days that a
            person names of it. A time that a clock shows twice is the first of the two, and rejected where it is of the
            key or the order; a time that it skips is rejected. Without it a time needs an offset, and days are those of
            UTC. The partition is the UTC date in either case. A date has no zone: where the event time is one, it moves
            no record to another day, and its other times alone are read in it.
        bounds: By column of dates or times, what lands for PostgreSQL's `infinity` and `-infinity`, such as
            `{"valid_until": {"infinity": "9999-12-31T00:00:00Z"}}`. Without it such a record is rejected.
        reads: What its files are written in, such as `Csv(delimiter=";")`; without it JSON lines, plain CSV and Parquet
            by their suffix.
        columns: What its files call columns of the schema: a name, the path of a member, a position from 0, or several
            joined by a blank, such as `{"Last Update": "at", "properties.time": "at", ("Date", "Time"): "at"}`.
        earlier_columns: The same for earlier versions of the contract, by version.
        formats: By column how its dates or times are written: a pattern such as `M/d/yyyy HH:mm`, `Epoch("ms")`, or
            several that are tried in order, of which none reads a text of another as another time. A text counts that a
            pattern would write, and no other: `M/d/yyyy` is not `01/02/2020`, and 30 February is a date that does not
            exist. What is in brackets may be missing. Without a form times are written as in ISO 8601.
        ahead: How far an event time may be after the landing, such as `seconds(60)` for clocks that run ahead.
        planned: States that event times may be in the future, as those of a schedule.
        repeated_hour: With a timezone, which of the two a time is that a clock shows twice: `first`, `second`, `both`
            in the order of the records of a file and key, or `reject`.
        row_number: States that files have no key: each record is known by the name of its file and its number in it,
            which landing writes into the columns `file_name` and `row_number`. Both are the key, and in the schema.
        plausible_gap_days: How many days in a row without events are plausible within a file. Longer gaps, and those
            between files, are not filled; a person has to state that nothing happened.
        earlier: The schemas of earlier versions of the contract, counted from 1; `schema` is the version after them.
        lift: By the version that it starts from, how a record becomes one of the next; see `lifts`. A step that only
            adds columns that can be null, widens types or lets columns be null needs none.
        lateness: How late events may come for the policies of dependents alone to restate what was computed without
            them. Later ones, and all without it, are proposed to a person.
        order: The columns that order the versions of a key, the most significant first; without them the order of
            arrival does: file by file, record by record.
        ties: What becomes of two versions of a key with equal `order` and different content: their file is refused, or
            the later arrival wins. A snapshot loses to a change of the same position in either case.
        unknown: What becomes of a key of which a newer record was rejected, until something newer of it is accepted.
            `block` publishes nothing that was computed from its day, `keep` leaves its last accepted version current
            and counts it in every list and report, `drop` leaves the key out.
        operation: How records name what they do to their key. Without it each record is a state of its key.
        most_withdrawn_percent: The share of keys that a complete extract may withdraw without a person's confirmation.
        capture: The stream that its files are captured from; files of people can land beside it.
        drop: The folder of a server into which its files are dropped.
        upstream: The key of the asset of the same Dagster project that its rows come from, such as `("raw", "orders")`.
        envelope: States that its records are change events of Debezium, of which the row lands.
        replay: Allows that its records are replayed to topics or streams, and says to which.
        description: What it holds, for the graph and the catalog of Dagster.
        policy: What needs approval; by default nothing, because its rows are what has landed.
        gates: What a candidate must satisfy. Schema, unique key and the comparison with the accepted rows are among
            them.
        place: The file and the line of its declaration.
    """

    name: str
    key: tuple[str, ...]
    event_time: str
    partition: Partitioning
    schema: StructType
    json_columns: tuple[str, ...] = ()
    rounds: bool = False
    timezone: str = ""
    bounds: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    reads: Dialect | None = None
    columns: Mapping[FileName, str] = field(default_factory=dict)
    earlier_columns: Mapping[int, Mapping[FileName, str]] = field(default_factory=dict)
    formats: Mapping[str, Form | tuple[Form, ...]] = field(default_factory=dict)
    ahead: timedelta = timedelta(0)
    planned: bool = False
    repeated_hour: str = ""
    row_number: bool = False
    plausible_gap_days: int = 31
    lateness: Lateness | None = None
    order: tuple[str, ...] = ()
    ties: str = Ties.REFUSE
    unknown: str = UnknownKeys.BLOCK
    operation: Operations | None = None
    most_withdrawn_percent: float = 20
    capture: StreamDeclaration | None = None
    drop: ServerDeclaration | None = None
    upstream: tuple[str, ...] = ()
    envelope: Debezium | None = None
    replay: ReplayDeclaration | None = None
    description: str = ""
    policy: Policy = SOURCE_POLICY
    gates: tuple[Gate, ...] = ()
    earlier: Mapping[int, StructType] = field(default_factory=dict)
    lift: Mapping[int, Lift | Compute] = field(default_factory=dict)
    place: str = field(init=False, default="", repr=False, compare=False)

    def __post_init__(self) -> None:
        with checking(self):
            self._check()

    def _check(self) -> None:
        require_types(self, {**OF_EVERY_TABLE, **OF_A_SOURCE})
        check_table(self, partition=self.partition.column)
        check_policy(self, self.policy)
        if self.plausible_gap_days < 0:
            raise wrong(self, f"plausible_gap_days is {self.plausible_gap_days}; a gap cannot be shorter than no days")
        require_columns(self, (self.event_time,), "the event time")
        require_columns(self, self.json_columns, "a JSON column")
        self._check_event_time()
        if any(not isinstance(self.schema[column].dataType, StringType) for column in self.json_columns):
            raise wrong(self, "a JSON column has to be a string")
        if self.partition.grain is not Grain.DAILY:
            raise wrong(self, "a source table has daily partitions")
        check_written(self)
        self._check_bounds()
        self._check_row_number()
        self._check_changes()
        self._check_envelope()
        self._check_capture()
        for mistake in self.drop.mistakes() if self.drop else ():
            raise wrong(self, mistake)
        check_replay(self, self.replay)
        object.__setattr__(self, "gates", complete_gates(self, self.gates))
        check_breakdown(self, None, partition=self.partition)
        object.__setattr__(self, "lift", normalized(self.lift))
        check_versions(self)
        if self.earlier:
            self._check_before(len(self.earlier))

    def _check_event_time(self) -> None:
        kind = self.schema[self.event_time].dataType
        if not isinstance(kind, (DateType, TimestampType)):
            raise wrong(
                self, f"its event time {self.event_time!r} is {kind.simpleString()}, and not a date or a timestamp"
            )
        if self.has_dates and self.timezone and not self.capture and not holds(self.schema, TimestampType):
            raise wrong(
                self,
                f"its event time {self.event_time!r} is a date, which no time zone moves, and no column is a timestamp "
                f"that could be read in {self.timezone}: leave timezone out",
            )

    def _check_before(self, version: int) -> None:
        """Refuses an earlier version that could not be a contract of its own; it examines the one before it."""
        try:
            self.at(version)
        except InvalidDeclaration as error:
            raise InvalidDeclaration(f"version {version} of {error.message}") from error

    @property
    def days(self) -> LocalDays:
        """The days in its zone, which are its partitions only where its event time is a date."""
        return LocalDays(self.timezone or "UTC", are_dates=self.has_dates)

    @property
    def has_dates(self) -> bool:
        """True if its event time is a date without a time."""
        return isinstance(self.schema[self.event_time].dataType, DateType)

    @property
    def zone_of_days(self) -> str:
        """The time zone of the days that a person names; empty for days of UTC, and for dates."""
        return "" if self.has_dates else self.timezone

    @property
    def beyond(self) -> timedelta:
        """The number of whole days after the present one of UTC that can have events."""
        if self.planned:
            return timedelta.max
        latest = self.ahead + (FIRST_TO_BEGIN if self.has_dates else timedelta(0))
        return timedelta(days=-(-latest // timedelta(days=1)))

    @property
    def time_type(self) -> DataType:
        """The type of the time from which a record is true: of the time of its operation, or else of its event time."""
        at = self.operation.at if self.operation else None
        return self.schema[at or self.event_time].dataType

    @property
    def contract_version(self) -> int:
        """The version of the present contract: one more than the last of the earlier ones."""
        return len(self.earlier) + 1

    def lift_from(self, version: int) -> Lift:
        """The conversion of a version's record to the next version."""
        found = self.lift.get(version, NO_LIFT)
        assert isinstance(found, Lift), "a function alone is made a lift when the table is declared"
        return found

    def at(self, version: int) -> SourceTable:
        """The table as it was declared in a version of its contract, without what only the present one has: gates, and
        the stream that it is captured from."""
        if version == self.contract_version:
            return self
        schema = self.earlier[version]
        names = {column: name_at(self, column, version) for column in self.schema.fieldNames()}
        json_columns = (names[column] for column in self.json_columns)
        return replace(
            self,
            key=tuple(names[column] for column in self.key),
            event_time=names[self.event_time],
            schema=schema,
            json_columns=tuple(column for column in json_columns if column in schema.fieldNames()),
            bounds={
                names[column]: named
                for column, named in self.bounds.items()
                if names[column] in schema.fieldNames()
                and schema[names[column]].dataType == self.schema[column].dataType
            },
            columns=self._columns_at(version),
            earlier_columns={each: known for each, known in self.earlier_columns.items() if each < version},
            formats={
                names[column]: form
                for column, form in self.formats.items()
                if names[column] in schema.fieldNames()
                and schema[names[column]].dataType == self.schema[column].dataType
            },
            order=tuple(names[column] for column in self.order),
            operation=self.operation and self.operation.named_as(names),
            capture=None,
            gates=(),
            earlier={each: known for each, known in self.earlier.items() if each < version},
            lift={each: known for each, known in self.lift.items() if each < version},
        )

    def _columns_at(self, version: int) -> Mapping[FileName, str]:
        """The names that files of a version give its columns: those declared for it, or else for the next version."""
        if version in self.earlier_columns:
            return self.earlier_columns[version]
        later = self.columns if version + 1 == self.contract_version else self._columns_at(version + 1)
        before = {now: was for was, now in self.lift_from(version).renamed.items()}
        named = {name: before.get(column, column) for name, column in later.items()}
        return {name: column for name, column in named.items() if column in self.earlier[version].fieldNames()}

    def read_as(self, version: int) -> int:
        """The latest version in whose schema files of a version can be read: up to it, steps need no lift."""
        return next(
            (each for each in range(version, self.contract_version) if each in self.lift), self.contract_version
        )

    @property
    def filled_columns(self) -> frozenset[str]:
        """The columns of the schema that landing fills, and files do not have."""
        return frozenset({FILE_NAME, ROW_NUMBER}) if self.row_number else frozenset()

    @property
    def file_columns(self) -> list[str]:
        """The columns of the schema that files have, in its order."""
        return [name for name in self.schema.fieldNames() if name not in self.filled_columns]

    @property
    def places(self) -> Mapping[str, tuple[Part, ...]]:
        """The names in files of each column: one column of theirs, or several that are joined."""
        named = {column: parts_of(name) for name, column in self.columns.items()}
        return {column: named.get(column, (column,)) for column in self.file_columns}

    def member(self, column: str) -> str:
        """The name by which the records of a stream call a column that is one member of them."""
        (part,) = self.places[column]
        assert isinstance(part, str), "others are refused when the table is declared"
        return part

    @property
    def event_member(self) -> str:
        """The member of a record that is its event time; empty where it is joined of several."""
        parts = self.places[self.event_time]
        return self.member(self.event_time) if len(parts) == 1 else ""

    @property
    def key_members(self) -> tuple[str, ...]:
        """The members of a record that are its key."""
        return tuple(map(self.member, self.key))

    @property
    def member_columns(self) -> list[str]:
        """The columns of a table that is captured, of which those of the contract are columns or members."""
        parts = (str(part) for column in self.places.values() for part in column)
        return list(dict.fromkeys(part.partition(".")[0] for part in parts))

    def _check_bounds(self) -> None:
        """Refuses bounds of columns that decide where a record belongs: other records can have the same values."""
        require_columns(self, tuple(self.bounds), "a column with bounds")
        at = self.operation.at if self.operation else None
        for column, named in self.bounds.items():
            if column in {*self.key, *self.order, self.event_time, at}:
                raise wrong(self, f"{column!r} has bounds, and is of its key, its order or the time of a record")
            of = self.schema[column].dataType
            if not named or not set(named) <= INFINITIES or not all(is_time(text, of) for text in named.values()):
                raise wrong(
                    self,
                    f"the bounds of {column!r} are {dict(named)!r:.100}: write a {of.simpleString()} for 'infinity' or "
                    "'-infinity', such as {'infinity': '9999-12-31'} of a date",
                )

    def _check_row_number(self) -> None:
        if not self.row_number:
            return
        if self.key != (FILE_NAME, ROW_NUMBER):
            raise wrong(self, f"row_number=True needs key=({FILE_NAME!r}, {ROW_NUMBER!r}), which landing fills")
        for name, kind in ((FILE_NAME, StringType()), (ROW_NUMBER, LongType())):
            if self.schema[name].dataType != kind:
                raise wrong(self, f"its column {name} has to be a {kind.simpleString()}")
        if self.operation is not None:
            raise wrong(self, "it has operations, and keys that no later record can name")

    def _check_changes(self) -> None:
        require_columns(self, self.order, "an order column")
        if len(set(self.order)) != len(self.order) or set(self.order) & set(self.key):
            raise wrong(self, "its order names a column twice, or one of its key")
        check_identifying(self.name, self.schema, self.order, "order column")
        if self.ties != Ties.REFUSE and not self.order:
            raise wrong(self, "it says what breaks ties, and has no order in which there could be any")
        if self.operation is None:
            return
        require_columns(self, (self.operation.column,), "the operation")
        if not isinstance(self.schema[self.operation.column].dataType, StringType):
            raise wrong(self, f"its operation {self.operation.column!r} is not a string")
        if self.operation.column in self.key:
            raise wrong(
                self,
                f"its operation {self.operation.column!r} is of its key, so that a delete would be of another key than "
                f"what it deletes",
            )
        if self.operation.at is not None:
            require_columns(self, (self.operation.at,), "the time of the operation")
            if not isinstance(self.schema[self.operation.at].dataType, (DateType, TimestampType)):
                raise wrong(self, f"the time of its operation, {self.operation.at!r}, is not a date or a timestamp")

    def _check_capture(self) -> None:
        if self.capture is None:
            return
        for mistake in self.capture.mistakes():
            raise wrong(self, mistake)
        operation = self.operation
        used = (self.event_time, *((operation.column, operation.at) if operation else ()))
        reads_keys = self.capture.reads_keys or operation is not None
        self._check_members((*self.key, *(name for name in used if name)) if reads_keys else ())
        if self.row_number:
            raise wrong(self, "it is captured, and its records are known by the number in their file: name their key")
        for mistake in self.capture.mistakes_of(self):
            raise wrong(self, mistake)

    def _check_members(self, single: Sequence[str]) -> None:
        """Refuses names that records of streams, and change events, cannot have."""
        given = self.capture.columns if self.capture is not None else ()
        fixed = [each.name for each in (*given, *self._columns_of_events)]
        for mistake in mistakes_of_members(self.columns, single, fixed):
            raise wrong(self, mistake)

    def _check_envelope(self) -> None:
        if isinstance(self.reads, Maxwell | Canal):
            named = type(self.reads).__name__
            if self.envelope is None or self.envelope.connector not in ("mysql", "mariadb"):
                wanted = "envelope=Debezium(table='shop.orders', connector='mysql')"
                raise wrong(self, f"it reads {named}, whose records land as change events: declare {wanted}")
        if self.envelope is None:
            return
        for mistake in self.envelope.mistakes():
            raise wrong(self, mistake)
        self._check_members(())
        said, order = "has change events of Debezium", self.envelope.order
        operations = (DEBEZIUM_OPERATIONS, "DEBEZIUM_OPERATIONS")
        for mistake in self.mistakes_of_changes(said, self._columns_of_events, order, *operations):
            raise wrong(self, mistake)
        if self.capture is not None and not self.capture.has_envelopes:
            raise wrong(self, f"it {said}, and is captured from what gives none: they are in topics and files")

    @property
    def _columns_of_events(self) -> Sequence[StructField]:
        """The columns that change events have besides those of their table."""
        if self.envelope is None:
            return ()
        return DEBEZIUM_COLUMNS if COMMIT in self.envelope.order else DEBEZIUM_POSITION_COLUMNS

    def mistakes_of_changes(
        self, said: str, columns: Sequence[StructField], order: tuple[str, ...], operations: Operations, named: str
    ) -> Iterator[str]:
        """The mistakes of a source whose records say themselves what they do, and in which order.

        Args:
            said: Why they do, such as `is captured from a database`.
            columns: The columns that they have.
            order: The columns that order them.
            operations: How they name their operations.
            named: The name by which authors import these.
        """
        for column in columns:
            if column not in self.schema.fields:
                yield f"it {said}, and its schema lacks {column.simpleString()}"
        if self.order != order or (self.ties != Ties.REFUSE and not isinstance(self.reads, Canal)):
            yield f"it {said}, so that its order is {order!r}, without ties"
        if self.operation != operations:
            yield f"it {said}, so that its operation is {named}"

    @property
    def operated(self) -> Operated | None:
        """The naming of its operations, where another stands in for one that it lacks; None without any."""
        named = self.operation
        if named is None:
            return None
        state = named.update or named.create or named.snapshot
        assert state is not None, "operations have a value for one of these"
        at = named.at or self.event_time
        forms = self.formats.get(at, _DAY if isinstance(self.time_type, DateType) else ())
        return Operated(
            key=self.key_members,
            column=self.member(named.column),
            create=named.create or state,
            update=named.update or state,
            snapshot=named.snapshot or state,
            delete=named.delete,
            at=self.member(at),
            written=partial(written_in, forms, self.time_type, self.timezone) if forms else None,
            version=self.contract_version,
            in_events=self.envelope is not None,
        )

    @property
    def row_key(self) -> tuple[str, ...]:
        """The columns that identify a row of a partition: the key; for a changelog, key and position."""
        if self.operation is None:
            return self.key
        return (*self.key, *(self.order or (POSITION,)))

    @property
    def short_name(self) -> str:
        """The table's name without its layer: what `backfill land` takes."""
        return self.name.partition(".")[2]

    @property
    def quarantine(self) -> str:
        """The Delta table that holds the rejected records, partitioned by import."""
        return f"quarantine.{self.short_name}"


@dataclass(frozen=True, slots=True)
class Lateness:
    """A number of days between the day of an event and the day on which it lands. Written with `days(...)`."""

    days: int


def days(count: int) -> Lateness:
    """A lateness of some days; none is the day of the events.

    Args:
        count: How many days after the day of its event a record may land.

    Raises:
        InvalidDeclaration: It is not a number of days.
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise InvalidDeclaration(f"days({count!r:.60}) is not a lateness: write a number of days, such as days(3).")
    return Lateness(count)

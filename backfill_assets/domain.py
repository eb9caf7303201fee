"""What an author declares: the only seam for users.

A domain is source tables, derived tables, references and, per derived table, a window, a schema, gates and the
registered releases of its transform. Assets, checks, partition mappings, plans and reports all follow from it. A
mistake in a declaration fails when the domain is loaded, naming the table and the mistake.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

import sqlglot
from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, DateType, StringType, StructType, TimestampType
from sqlglot import expressions as sql

from backfill_assets.errors import InvalidDeclaration, UnknownName
from backfill_assets.planning.graph import Graph, TableInput, TableNode, Window, topological
from backfill_assets.planning.partitions import DayRange, Grain

__all__ = [
    "AcceptedValues",
    "ComparedWithAccepted",
    "DayRange",
    "Demo",
    "DerivedTable",
    "Domain",
    "Gate",
    "Grain",
    "NotNull",
    "Partitioning",
    "Policy",
    "Reference",
    "ReferenceValue",
    "Release",
    "RowCount",
    "RowExpression",
    "SchemaMatches",
    "SourceTable",
    "UniqueKey",
    "Window",
    "accepted",
    "compared",
    "daily",
    "derived_table",
    "expression",
    "monthly",
    "not_null",
    "row_count",
    "unique_key",
]

Transform = Callable[..., DataFrame]
References = Mapping[str, Any]
Follow = Literal["auto", "approve"]

_TABLE_NAME = re.compile(r"[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]*")


# ---------------------------------------------------------------------------------------------------- partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitioning:
    """The date column that a table is partitioned by, and how many days a partition covers."""

    column: str
    grain: Grain


def daily(column: str) -> Partitioning:
    """One partition per day."""
    return Partitioning(column=column, grain=Grain.DAILY)


def monthly(column: str) -> Partitioning:
    """One partition per month, named by its first day."""
    return Partitioning(column=column, grain=Grain.MONTHLY)


# ---------------------------------------------------------------------------------------------------- references


class ReferenceValue(Protocol):
    """What a parsed reference document must tell: the version it declares."""

    @property
    def version(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A versioned reference document, kept as `<name>.yaml` in the reference folder.

    Attributes:
        name: The file's stem, and the key under which transforms find the parsed value.
        parse: From the YAML document to the value transforms use. Raises `ValueError` with a sentence about what is
            wrong in the document; the loader adds the file's name.
    """

    name: str
    parse: Callable[[Any], ReferenceValue]


# --------------------------------------------------------------------------------------------------------- gates


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaMatches:
    """The staged files have the declared columns, types and order. Every table has this gate."""

    blocking: bool = True
    name: str = "schema"

    @property
    def demands(self) -> str:
        return "the staged files have exactly the declared columns and types"

    @property
    def columns(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UniqueKey:
    """No two rows of a partition share a key. Without columns: the table's own key."""

    columns: tuple[str, ...] = ()
    blocking: bool = True

    @property
    def name(self) -> str:
        return "unique_key"

    @property
    def demands(self) -> str:
        return f"no two rows share ({', '.join(self.columns)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotNull:
    """A column has a value in every row."""

    column: str
    blocking: bool = True

    @property
    def name(self) -> str:
        return f"not_null_{self.column}"

    @property
    def demands(self) -> str:
        return f"{self.column} is never null"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedValues:
    """A column holds one of the listed values, or null."""

    column: str
    values: tuple[str, ...]
    blocking: bool = True

    @property
    def name(self) -> str:
        return f"accepted_{self.column}"

    @property
    def demands(self) -> str:
        return f"{self.column} is one of {', '.join(self.values)}"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowExpression:
    """A Spark SQL condition that is true for every row; null counts as a violation."""

    name: str
    condition: str
    blocking: bool = True

    @property
    def demands(self) -> str:
        return f"every row satisfies {self.condition}"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns the condition mentions.

        Raises:
            InvalidDeclaration: The condition is not SQL.
        """
        try:
            parsed = sqlglot.parse_one(self.condition, dialect="spark")
        except sqlglot.errors.SqlglotError as error:
            raise InvalidDeclaration(f"the condition of gate {self.name} is not SQL: {self.condition!r}.") from error
        return tuple(sorted({column.name for column in parsed.find_all(sql.Column)}))


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCount:
    """The rows of each partition lie within bounds, both inclusive."""

    at_least: int = 0
    at_most: int | None = None
    blocking: bool = True

    @property
    def name(self) -> str:
        return "row_count"

    @property
    def demands(self) -> str:
        most = "" if self.at_most is None else f" and at most {self.at_most:,}"
        return f"a partition has at least {self.at_least:,}{most} rows"

    @property
    def columns(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedWithAccepted:
    """How the candidate differs from the accepted rows, per partition; with a limit, also a gate.

    Every table has this gate. Without a limit it always passes and only informs.

    Attributes:
        max_removed_percent: The most accepted keys, in percent of a partition's accepted rows, that may disappear.
        max_changed_percent: The most accepted rows, in percent, that may be added, removed or changed.
    """

    max_removed_percent: int | None = None
    max_changed_percent: int | None = None
    blocking: bool = True

    @property
    def name(self) -> str:
        return "compared_with_accepted"

    @property
    def demands(self) -> str:
        limits = []
        if self.max_removed_percent is not None:
            limits.append(f"at most {self.max_removed_percent} % of a partition's accepted rows disappear")
        if self.max_changed_percent is not None:
            limits.append(f"at most {self.max_changed_percent} % of a partition's accepted rows move")
        return " and ".join(limits) or "the difference from the accepted rows is measured"

    @property
    def columns(self) -> tuple[str, ...]:
        return ()


Gate = SchemaMatches | UniqueKey | NotNull | AcceptedValues | RowExpression | RowCount | ComparedWithAccepted


def unique_key(*, blocking: bool = True) -> UniqueKey:
    """No two rows of a partition share the table's key."""
    return UniqueKey(blocking=blocking)


def not_null(column: str, *, blocking: bool = True) -> NotNull:
    """The column has a value in every row."""
    return NotNull(column=column, blocking=blocking)


def accepted(column: str, values: Iterable[str], *, blocking: bool = True) -> AcceptedValues:
    """The column holds one of the values, or null."""
    return AcceptedValues(column=column, values=tuple(values), blocking=blocking)


def expression(name: str, condition: str, *, blocking: bool = True) -> RowExpression:
    """The Spark SQL condition is true for every row."""
    return RowExpression(name=name, condition=condition, blocking=blocking)


def row_count(*, at_least: int = 0, at_most: int | None = None, blocking: bool = True) -> RowCount:
    """Each partition has between `at_least` and `at_most` rows."""
    return RowCount(at_least=at_least, at_most=at_most, blocking=blocking)


def compared(
    *, max_removed_percent: int | None = None, max_changed_percent: int | None = None, blocking: bool = True
) -> ComparedWithAccepted:
    """Each partition stays within limits of difference from the accepted rows."""
    return ComparedWithAccepted(
        max_removed_percent=max_removed_percent, max_changed_percent=max_changed_percent, blocking=blocking
    )


# -------------------------------------------------------------------------------------------------------- tables


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What needs a person's approval before it is published.

    Attributes:
        live: Runs of kind LIVE.
        backfill: Every other run that somebody asked for.
        follow: Runs that follow an approved publication of an input.
    """

    live: Follow = "auto"
    backfill: Follow = "approve"
    follow: Follow = "auto"


SAME_DAYS = Window()
USUAL_POLICY = Policy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One registered release of a transform: its version and its function."""

    version: str
    function: Transform


@dataclass(frozen=True, kw_only=True)
class SourceTable:
    """A bronze table, built from landed files; one partition per UTC date of the event.

    Attributes:
        name: `layer.table`.
        key: What identifies a record; the latest arrival of a key wins.
        event_time: The timestamp column whose UTC date is the partition.
        partition: The partition column, which the loader derives; it is not part of `schema`.
        schema: The contract of a landed record. Columns that are not nullable must have a value.
        json_columns: String columns that must hold a JSON object when they are not null.
        lands_as: The name people give to `backfill land`; the table's name without its layer by default.
    """

    name: str
    key: tuple[str, ...]
    event_time: str
    partition: Partitioning
    schema: StructType
    json_columns: tuple[str, ...] = ()
    description: str = ""
    policy: Policy = Policy(live="auto", backfill="auto")
    gates: tuple[Gate, ...] = ()

    def __post_init__(self) -> None:
        _check_table(self)
        _require_columns(self, (self.event_time,), "the event time")
        _require_columns(self, self.json_columns, "a JSON column")
        if not isinstance(self.schema[self.event_time].dataType, TimestampType):
            raise _wrong(self, f"its event time {self.event_time!r} is not a timestamp")
        if any(not isinstance(self.schema[column].dataType, StringType) for column in self.json_columns):
            raise _wrong(self, "a JSON column has to be a string")
        if self.partition.column in self.schema.fieldNames():
            raise _wrong(self, f"its partition column {self.partition.column!r} is derived, so not in the schema")
        if self.partition.grain is not Grain.DAILY:
            raise _wrong(self, "a source table has daily partitions")
        object.__setattr__(self, "gates", _complete_gates(self, self.gates))

    @property
    def short_name(self) -> str:
        """The table's name without its layer: what `backfill land` takes."""
        return self.name.partition(".")[2]


@dataclass(frozen=True, kw_only=True)
class DerivedTable:
    """A table computed by a transform from other tables. Written with `@derived_table`.

    Attributes:
        name: `layer.table`.
        transform: The transform's name, kept in manifests and rows.
        inputs: The tables it reads, by argument name of the transform.
        window: The input days of an output day, or a function from the references to it. Daily tables only: a
            monthly table reads the days of its month.
        key: What identifies a row within a partition.
        schema: The contract of what the transform returns, in order, the partition column included.
        releases: The registered releases, the present one first.
        references: Names of the reference documents it uses.
    """

    name: str
    transform: str
    inputs: Mapping[str, SourceTable | DerivedTable]
    window: Window | Callable[[References], Window]
    key: tuple[str, ...]
    partition: Partitioning
    schema: StructType
    releases: tuple[Release, ...]
    references: tuple[str, ...] = ()
    gates: tuple[Gate, ...] = ()
    policy: Policy = Policy()
    description: str = ""

    def __post_init__(self) -> None:
        _check_table(self)
        _require_columns(self, (self.partition.column,), "the partition column")
        if not isinstance(self.schema[self.partition.column].dataType, DateType):
            raise _wrong(self, f"its partition column {self.partition.column!r} is not a date")
        if not self.inputs:
            raise _wrong(self, "it has no inputs")
        if self.partition.grain is Grain.MONTHLY and self.window != SAME_DAYS:
            raise _wrong(self, "a window is for daily tables; a monthly table reads every day of its month")
        self._check_releases()
        object.__setattr__(self, "gates", _complete_gates(self, self.gates))

    def _check_releases(self) -> None:
        versions = [release.version for release in self.releases]
        for version in versions:
            if not _VERSION.fullmatch(version):
                raise _wrong(self, f"{version!r} is not a version")
        if len(set(versions)) != len(versions):
            raise _wrong(self, f"a version is registered twice: {', '.join(versions)}")
        expected = [*self.inputs, "ctx"]
        for release in self.releases:
            found = list(inspect.signature(release.function).parameters)
            if found != expected:
                raise _wrong(
                    self,
                    f"the function of version {release.version} takes ({', '.join(found)}) "
                    f"where its inputs ask for ({', '.join(expected)})",
                )

    @property
    def version(self) -> str:
        """The version that runs unless another one is asked for."""
        return self.releases[0].version

    @property
    def short_name(self) -> str:
        """The table's name without its layer."""
        return self.name.partition(".")[2]

    def release(self, version: str | None) -> Release:
        """The registered release of that version; the present one for None.

        Raises:
            UnknownName: That version is not registered.
        """
        wanted = version or self.version
        for release in self.releases:
            if release.version == wanted:
                return release
        known = ", ".join(release.version for release in self.releases)
        raise UnknownName(
            f"{self.name} has no transform version {wanted!r}; registered are {known}.",
            table=self.name,
            transform_version=wanted,
        )

    def window_for(self, references: References) -> Window:
        """The window, resolved against reference values when it is a function of them."""
        return self.window if isinstance(self.window, Window) else self.window(references)


Table = SourceTable | DerivedTable


def derived_table(
    *,
    name: str,
    inputs: Mapping[str, Table],
    key: tuple[str, ...],
    partition: Partitioning,
    schema: StructType,
    version: str,
    transform: str | None = None,
    window: Window | Callable[[References], Window] = SAME_DAYS,
    references: tuple[str, ...] = (),
    gates: tuple[Gate, ...] = (),
    policy: Policy = USUAL_POLICY,
    earlier: Mapping[str, Transform] | None = None,
) -> Callable[[Transform], DerivedTable]:
    """Turns a function of input DataFrames and a TransformContext into a derived table.

    Args:
        name: `layer.table`.
        inputs: Tables by argument name; the function takes exactly these and `ctx`, in this order.
        key: What identifies a row within a partition.
        partition: `daily(column)` or `monthly(column)`.
        schema: What the function returns: names, order, types and nullability.
        version: The version of the decorated function.
        transform: The transform's name; by default the function's name with hyphens.
        window: The input days of an output day.
        references: Names of the references it uses; the context offers no others.
        gates: What a candidate must satisfy. Schema, unique key and the comparison with the accepted rows are always
            among them.
        policy: What needs approval.
        earlier: Earlier releases that can still be run, by version.

    Raises:
        InvalidDeclaration: The declaration contradicts itself.
    """

    def declare(function: Transform) -> DerivedTable:
        releases = [Release(version=version, function=function)]
        releases += [Release(version=v, function=f) for v, f in (earlier or {}).items()]
        return DerivedTable(
            name=name,
            transform=transform or function.__name__.replace("_", "-"),
            inputs=dict(inputs),
            window=window,
            key=key,
            partition=partition,
            schema=schema,
            releases=tuple(releases),
            references=references,
            gates=gates,
            policy=policy,
            description=inspect.getdoc(function) or "",
        )

    return declare


# -------------------------------------------------------------------------------------------------------- domain


@dataclass(frozen=True, kw_only=True)
class Demo:
    """A small history with a defect in it, for `backfill demo`.

    Attributes:
        source: The source table that the files are for.
        table: The derived table that was computed wrongly.
        figures: The dependent table whose figures move, and the column of it to show.
        write_files: From a folder, a size and a seed to files in the order in which they came in.
        size: The size when nobody says otherwise.
        history: What was published under the defective version.
        restated: The part of it that is restated under the corrected one.
        defect: What was wrong, in words for a newcomer.
    """

    source: SourceTable
    table: DerivedTable
    figures: tuple[DerivedTable, str]
    write_files: Callable[[Path, int, int], Sequence[Path]]
    size: int
    history: DayRange
    restated: DayRange
    defective_version: str
    corrected_version: str
    defect: str


@dataclass(frozen=True, kw_only=True)
class Domain:
    """Everything that belongs together: tables and the references they use.

    Attributes:
        name: A word for it, kept in manifests.
        package: The Python package whose modules make up the transforms' code; its digest goes into every manifest.
        demo: What `backfill demo` plays; None for domains without one.
    """

    name: str
    package: str
    sources: tuple[SourceTable, ...]
    derived: tuple[DerivedTable, ...]
    references: tuple[Reference, ...] = ()
    demo: Demo | None = None
    tables: Mapping[str, Table] = field(init=False)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InvalidDeclaration(f"a domain is named with lower-case letters, digits and _: {self.name!r}.")
        every: tuple[Table, ...] = (*self.sources, *self.derived)
        short_names: dict[str, str] = {}
        for table in every:
            other = short_names.setdefault(table.short_name, table.name)
            if other != table.name:
                raise _wrong(table, f"{other} has the same name in another layer")
        known = {reference.name for reference in self.references}
        if len(known) != len(self.references):
            raise InvalidDeclaration(f"domain {self.name} declares a reference twice.")
        declared = {id(table) for table in every}
        for table in self.derived:
            for argument, source in table.inputs.items():
                if id(source) not in declared:
                    raise _wrong(table, f"it reads {source.name} as {argument!r}, which the domain does not declare")
            for name in table.references:
                if name not in known:
                    raise _wrong(table, f"it uses reference {name!r}, which the domain does not declare")
        ordered = topological(_node(table, {}) for table in every)
        by_name = {table.name: table for table in every}
        object.__setattr__(self, "tables", {name: by_name[name] for name in ordered})

    def table(self, name: str) -> Table:
        """The table of that name, with or without its layer.

        Raises:
            UnknownName: There is no such table.
        """
        for table in self.tables.values():
            if name in (table.name, table.short_name):
                return table
        raise UnknownName(f"there is no table {name!r}; the tables are {', '.join(self.tables)}.", table=name)

    def derived_table(self, name: str) -> DerivedTable:
        """The derived table of that name.

        Raises:
            UnknownName: There is no such table, or it is a source table.
        """
        table = self.table(name)
        if isinstance(table, SourceTable):
            raise UnknownName(
                f"{table.name} is a source table; it is built from landed files, not planned.",
                next_step=f"backfill load {table.short_name} --from DAY --to DAY",
                table=table.name,
            )
        return table

    def source_table(self, name: str) -> SourceTable:
        """The source table of that name.

        Raises:
            UnknownName: There is no such source.
        """
        for table in self.sources:
            if name in (table.name, table.short_name):
                return table
        known = ", ".join(table.short_name for table in self.sources)
        raise UnknownName(f"there is no source {name!r}; the sources are {known}.", source=name)

    def graph(self, references: References, *, first_day: date) -> Graph:
        """The planner's view of the tables, windows resolved against these references."""
        return Graph(
            tables=topological(_node(table, references, resolve=True) for table in self.tables.values()),
            first_day=first_day,
        )

    @cached_property
    def monthly_tables(self) -> tuple[DerivedTable, ...]:
        return tuple(t for t in self.derived if t.partition.grain is Grain.MONTHLY)


def _node(table: Table, references: References, *, resolve: bool = False) -> TableNode:
    if isinstance(table, SourceTable):
        return TableNode(name=table.name, grain=table.partition.grain)
    window = table.window_for(references) if resolve else Window()
    return TableNode(
        name=table.name,
        grain=table.partition.grain,
        inputs=tuple(
            TableInput(argument=argument, table=source.name, window=window) for argument, source in table.inputs.items()
        ),
    )


# -------------------------------------------------------------------------------------------------------- checks


def _wrong(table: Table, mistake: str) -> InvalidDeclaration:
    return InvalidDeclaration(f"{table.name}: {mistake}.", table=table.name)


def _require_columns(table: Table, columns: Iterable[str], role: str) -> None:
    for column in columns:
        if column not in table.schema.fieldNames():
            raise _wrong(table, f"{role} {column!r} is not a column of its schema")


def _check_table(table: Table) -> None:
    if not _TABLE_NAME.fullmatch(table.name):
        raise InvalidDeclaration(f"a table is named layer.table with lower-case letters, digits and _: {table.name!r}.")
    names = table.schema.fieldNames()
    if len(set(names)) != len(names):
        raise _wrong(table, "its schema names a column twice")
    reserved = [name for name in names if name.startswith("_")]
    if reserved:
        raise _wrong(table, f"columns that begin with _ are kept for lineage: {', '.join(reserved)}")
    if not table.key:
        raise _wrong(table, "it has no key")
    _require_columns(table, table.key, "key column")


def _complete_gates(table: Table, gates: tuple[Gate, ...]) -> tuple[Gate, ...]:
    """The declared gates with the ones every table has, checked against the schema."""
    complete: list[Gate] = []
    if not any(isinstance(gate, SchemaMatches) for gate in gates):
        complete.append(SchemaMatches())
    if not any(isinstance(gate, UniqueKey) for gate in gates):
        complete.append(UniqueKey())
    complete += gates
    if not any(isinstance(gate, ComparedWithAccepted) for gate in gates):
        complete.append(ComparedWithAccepted())
    complete = [
        UniqueKey(columns=table.key, blocking=gate.blocking)
        if isinstance(gate, UniqueKey) and not gate.columns
        else gate
        for gate in complete
    ]
    seen: set[str] = set()
    for gate in complete:
        if not _NAME.fullmatch(gate.name):
            raise _wrong(table, f"a gate is named with lower-case letters, digits and _: {gate.name!r}")
        if gate.name in seen:
            raise _wrong(table, f"two gates are named {gate.name!r}")
        seen.add(gate.name)
        _require_columns(table, gate.columns, f"gate {gate.name} needs column")
        if isinstance(gate, AcceptedValues):
            _check_accepts(table, gate)
    return tuple(complete)


def _check_accepts(table: Table, gate: AcceptedValues) -> None:
    column_type: DataType = table.schema[gate.column].dataType
    if not isinstance(column_type, StringType):
        raise _wrong(table, f"gate {gate.name} lists strings, but {gate.column!r} is {column_type.simpleString()}")

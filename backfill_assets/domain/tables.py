"""Table declarations: source tables are built from landed files, derived tables by a transform."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame
from pyspark.sql.types import AtomicType, DateType, StringType, StructType, TimestampType

from backfill_assets.domain.breakdown import Breakdown, check_breakdown
from backfill_assets.domain.contracts import EARLIER, LIFT, NO_LIFT, Compute, Lift, check_versions, name_at, normalized
from backfill_assets.domain.gates import Gate
from backfill_assets.domain.inputs import WINDOW, DeclaredWindow, Input, References, require_window
from backfill_assets.domain.lateness import Lateness
from backfill_assets.domain.mistakes import (
    VERSION,
    Kind,
    a,
    check_policy,
    check_table,
    complete_gates,
    require_columns,
    require_types,
    several,
    wrong,
)
from backfill_assets.domain.operations import POSITION, Operations, Ties
from backfill_assets.errors import InvalidDeclaration, UnknownName
from backfill_assets.planning.partitions import Grain
from backfill_assets.planning.policy import SOURCE_POLICY, USUAL_POLICY, Policy
from backfill_assets.planning.windows import SAME_DAYS, AnyWindow, Window

Transform = Callable[..., DataFrame]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One registered release of a transform: its version and its function."""

    version: str
    function: Transform


OF_EVERY_TABLE = {
    "key": several(str, "column names, such as ('case_id',)"),
    "partition": Kind(
        words="daily(COLUMN) or monthly(COLUMN)",
        test=lambda value: isinstance(value, Partitioning) and isinstance(value.column, str),
    ),
    "schema": a(StructType, "a StructType of pyspark.sql.types"),
    "gates": several(Gate, "gates, such as (unique_key(),)"),
    "policy": a(Policy, "a Policy"),
    "description": a(str, "a text"),
}
OF_A_SOURCE = {
    "event_time": a(str, "a column name"),
    "json_columns": several(str, "column names"),
    "plausible_gap_days": a(int, "a number of days"),
    "earlier": EARLIER,
    "lift": LIFT,
    "lateness": Kind(words="days(N)", test=lambda value: value is None or isinstance(value, Lateness)),
    "order": several(str, "column names, such as ('lsn',)"),
    "ties": Kind(words="'refuse' or 'arrival'", test=lambda value: value in tuple(Ties)),
    "operation": Kind(words="Operations(...)", test=lambda value: value is None or isinstance(value, Operations)),
    "most_withdrawn_percent": Kind(
        words="a number from 0 to 100",
        test=lambda value: isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 100,
    ),
}
REFERENCE_WINDOW = Kind(
    words="a Window, or a function of the references",
    test=lambda value: value is None or isinstance(value, Window) or callable(value),
)
OF_A_DERIVED_TABLE = {
    "transform": a(str, "a text"),
    "window": WINDOW,
    "reference_window": REFERENCE_WINDOW,
    "references": several(str, "names of references"),
    "breakdown": Kind(
        words="a Breakdown, such as Breakdown(by=('country',))",
        test=lambda value: value is None or isinstance(value, Breakdown),
    ),
}


@dataclass(frozen=True, kw_only=True)
class SourceTable:
    """A bronze table, built from landed files; one partition per UTC date of the event.

    Attributes:
        name: `layer.table`.
        key: What identifies a record; the last version of a key wins.
        event_time: The timestamp column whose UTC date is the partition.
        partition: The partition column, which the loader derives; it is not part of `schema`.
        schema: The contract of a landed record. Columns that are not nullable must have a value.
        json_columns: String columns that must hold a JSON object when they are not null.
        plausible_gap_days: How many days in a row without events are plausible. Longer gaps in landed files are not
            filled; a person has to state that nothing happened.
        earlier: The schemas of earlier versions of the contract, counted from 1; `schema` is the version after them.
        lift: By the version that it starts from, how a record becomes one of the next; see `lifts`. A step that only
            adds columns that can be null, widens types or lets columns be null needs none.
        lateness: How late events may come for the policies of dependents alone to restate what was computed without
            them. Later ones, and all without it, are proposed to a person.
        order: The columns that order the versions of a key, the most significant first; without them the order of
            arrival does: file by file, record by record.
        ties: What becomes of two versions of a key with equal `order` and different content: their file is refused, or
            the later arrival wins. A snapshot loses to a change of the same position in either case.
        operation: How records name what they do to their key. Without it each record is a state of its key.
        most_withdrawn_percent: The share of keys that a complete extract may withdraw without a person's confirmation.
    """

    name: str
    key: tuple[str, ...]
    event_time: str
    partition: Partitioning
    schema: StructType
    json_columns: tuple[str, ...] = ()
    plausible_gap_days: int = 31
    lateness: Lateness | None = None
    order: tuple[str, ...] = ()
    ties: str = Ties.REFUSE
    operation: Operations | None = None
    most_withdrawn_percent: float = 20
    description: str = ""
    policy: Policy = SOURCE_POLICY
    gates: tuple[Gate, ...] = ()
    earlier: Mapping[int, StructType] = field(default_factory=dict)
    lift: Mapping[int, Lift | Compute] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_types(self, {**OF_EVERY_TABLE, **OF_A_SOURCE})
        check_table(self)
        check_policy(self, self.policy)
        if self.plausible_gap_days < 0:
            raise wrong(self, f"plausible_gap_days is {self.plausible_gap_days}; a gap cannot be shorter than no days")
        require_columns(self, (self.event_time,), "the event time")
        require_columns(self, self.json_columns, "a JSON column")
        if not isinstance(self.schema[self.event_time].dataType, TimestampType):
            raise wrong(self, f"its event time {self.event_time!r} is not a timestamp")
        if any(not isinstance(self.schema[column].dataType, StringType) for column in self.json_columns):
            raise wrong(self, "a JSON column has to be a string")
        if self.partition.column in self.schema.fieldNames():
            raise wrong(self, f"its partition column {self.partition.column!r} is derived, so not in the schema")
        if self.partition.grain is not Grain.DAILY:
            raise wrong(self, "a source table has daily partitions")
        self._check_changes()
        object.__setattr__(self, "gates", complete_gates(self, self.gates))
        check_breakdown(self, None, partition=self.partition.column)
        object.__setattr__(self, "lift", normalized(self.lift))
        check_versions(self)
        if self.earlier:
            self._check_before(len(self.earlier))

    def _check_before(self, version: int) -> None:
        """Refuses an earlier version that could not be a contract of its own; it examines the one before it."""
        try:
            self.at(version)
        except InvalidDeclaration as error:
            raise InvalidDeclaration(f"version {version} of {error.message}", table=self.name) from error

    @property
    def contract_version(self) -> int:
        """The version of the present contract: one more than the last of the earlier ones."""
        return len(self.earlier) + 1

    def lift_from(self, version: int) -> Lift:
        """How a record of a version becomes one of the next."""
        found = self.lift.get(version, NO_LIFT)
        assert isinstance(found, Lift), "a function alone is made a lift when the table is declared"
        return found

    def at(self, version: int) -> SourceTable:
        """The table as it was declared in a version of its contract, without the gates of the present one."""
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
            order=tuple(names[column] for column in self.order),
            operation=self.operation and self.operation.named_as(names),
            gates=(),
            earlier={each: known for each, known in self.earlier.items() if each < version},
            lift={each: known for each, known in self.lift.items() if each < version},
        )

    def read_as(self, version: int) -> int:
        """The latest version in whose schema files of a version can be read: up to it, steps need no lift."""
        return next(
            (each for each in range(version, self.contract_version) if each in self.lift), self.contract_version
        )

    def _check_changes(self) -> None:
        require_columns(self, self.order, "an order column")
        if len(set(self.order)) != len(self.order) or set(self.order) & set(self.key):
            raise wrong(self, "its order names a column twice, or one of its key")
        if nested := [name for name in self.order if not isinstance(self.schema[name].dataType, AtomicType)]:
            raise wrong(self, f"values of its order column {nested[0]!r} cannot be ordered")
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
            if not isinstance(self.schema[self.operation.at].dataType, TimestampType):
                raise wrong(self, f"the time of its operation, {self.operation.at!r}, is not a timestamp")

    @property
    def row_key(self) -> tuple[str, ...]:
        """What identifies a row of a partition: the key; of a table that holds a changelog, key and position."""
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


@dataclass(frozen=True, kw_only=True)
class DerivedTable:
    """A table computed by a transform from other tables. Written with `@derived_table`.

    Attributes:
        name: `layer.table`.
        transform: The transform's name, kept in manifests and rows.
        inputs: The tables it reads, by argument name of the transform.
        window: How far around an output partition the inputs are read, or a function from the references to it.
        windows: The windows of inputs that have one of their own, by argument.
        changes: The arguments that are given the changelog of their table, not its current rows.
        key: What identifies a row within a partition.
        schema: The contract of what the transform returns, in order, the partition column included.
        releases: The registered releases, the present one first.
        references: Names of the reference documents it uses.
        reference_window: How far around an output day facts of the references count, or a function from the references
            to it. None is unknown: then a change of any day makes every partition stale.
        breakdown: By which business dimensions its reviewers are shown what changes.
    """

    name: str
    transform: str
    inputs: Mapping[str, SourceTable | DerivedTable]
    window: DeclaredWindow
    key: tuple[str, ...]
    partition: Partitioning
    schema: StructType
    releases: tuple[Release, ...]
    windows: Mapping[str, DeclaredWindow] = field(default_factory=dict)
    changes: frozenset[str] = frozenset()
    references: tuple[str, ...] = ()
    reference_window: Window | Callable[[References], Window] | None = None
    gates: tuple[Gate, ...] = ()
    policy: Policy = USUAL_POLICY
    breakdown: Breakdown | None = None
    description: str = ""

    def __post_init__(self) -> None:
        require_types(self, {**OF_EVERY_TABLE, **OF_A_DERIVED_TABLE})
        check_table(self)
        check_policy(self, self.policy)
        require_columns(self, (self.partition.column,), "the partition column")
        if not isinstance(self.schema[self.partition.column].dataType, DateType):
            raise wrong(self, f"its partition column {self.partition.column!r} is not a date")
        if not self.inputs:
            raise wrong(self, "it has no inputs")
        for argument, table in self.inputs.items():
            if not isinstance(table, SourceTable | DerivedTable):
                raise wrong(self, f"its input {argument!r} is {table!r:.60} and not a table")
        for argument in self.changes:
            read = self.inputs[argument]
            if not isinstance(read, SourceTable) or read.operation is None:
                raise wrong(
                    self,
                    f"it reads the changes of {read.name} as {argument!r}, and only a source table that declares its "
                    f"operation=Operations(...) keeps them",
                )
        for argument in self.inputs:
            declared = self.windows.get(argument, self.window)
            if not callable(declared):
                require_window(self, self.partition.grain, argument, declared)
        if self.reference_window is not None and not self.references:
            raise wrong(self, "it declares how far references count, and uses none")
        self._check_releases()
        proves = 1 if self.partition.grain is Grain.MONTHLY else 3
        object.__setattr__(self, "gates", complete_gates(self, self.gates, proves=proves))
        check_breakdown(self, self.breakdown, partition=self.partition.column)

    def _check_releases(self) -> None:
        versions = [release.version for release in self.releases]
        for version in versions:
            if not isinstance(version, str) or not VERSION.fullmatch(version):
                raise wrong(self, f"{version!r} is not a version: write it as a text, such as '1.0.0'")
        if len(set(versions)) != len(versions):
            raise wrong(self, f"a version is registered twice: {', '.join(versions)}")
        expected = [*self.inputs, "ctx"]
        for release in self.releases:
            if not callable(release.function):
                raise wrong(self, f"the function of version {release.version} is {release.function!r:.60}")
            found = list(inspect.signature(release.function).parameters)
            if found != expected:
                raise wrong(
                    self,
                    f"the function of version {release.version} takes ({', '.join(found)}) "
                    f"where its inputs ask for ({', '.join(expected)})",
                )

    @property
    def row_key(self) -> tuple[str, ...]:
        """What identifies a row within a partition: the key."""
        return self.key

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

    def window_of(self, argument: str, references: References) -> AnyWindow:
        """The window of an input, resolved against reference values when it is a function of them.

        Raises:
            InvalidDeclaration: The function gives no window that fits the table.
        """
        declared = self.windows.get(argument, self.window)
        window = declared(references) if callable(declared) else declared
        return require_window(self, self.partition.grain, argument, window)

    def reference_window_for(self, references: References) -> Window | None:
        """How far around an output day facts of these references count; None when that is not declared."""
        declared = self.reference_window
        return declared if declared is None or isinstance(declared, Window) else declared(references)


Table = SourceTable | DerivedTable


def derived_table(
    *,
    name: str,
    inputs: Mapping[str, Table | Input],
    key: tuple[str, ...],
    partition: Partitioning,
    schema: StructType,
    version: str,
    transform: str | None = None,
    window: DeclaredWindow = SAME_DAYS,
    references: tuple[str, ...] = (),
    reference_window: Window | Callable[[References], Window] | None = None,
    gates: tuple[Gate, ...] = (),
    policy: Policy = USUAL_POLICY,
    breakdown: Breakdown | None = None,
    earlier: Mapping[str, Transform] | None = None,
) -> Callable[[Transform], DerivedTable]:
    """Turns a function of input DataFrames and a TransformContext into a derived table.

    Args:
        name: `layer.table`.
        inputs: Tables by argument name, or `reads(table, ...)` for one with a window of its own; the function takes
            exactly these and `ctx`, in this order.
        key: What identifies a row within a partition.
        partition: `daily(column)` or `monthly(column)`.
        schema: What the function returns: names, order, types and nullability.
        version: The version of the decorated function.
        transform: The transform's name; by default the function's name with hyphens.
        window: How far around an output partition those inputs are read that have no window of their own: `Window(...)`
            for a daily table, `Months(...)` for a monthly one, or a function from the references to it.
        references: Names of the references it uses; the context offers no others.
        reference_window: How far around an output day facts of the references count.
        gates: What a candidate must satisfy. Schema, unique key, the comparison with the accepted rows and the proof
            of the window are among them unless `warm_up_proof(partitions=0)` opts out of the last.
        policy: What needs approval.
        breakdown: By which business dimensions reviewers are shown what changes.
        earlier: Earlier releases that can still be run, by version.

    Raises:
        InvalidDeclaration: The declaration contradicts itself.
    """

    def declare(function: Transform) -> DerivedTable:
        for what, given in (("inputs", inputs), ("earlier", earlier or {})):
            if not isinstance(given, Mapping):
                raise InvalidDeclaration(f"{name}: its {what} are {given!r:.60}, and have to be a mapping of names.")
        own = {
            argument: read.window
            for argument, read in inputs.items()
            if isinstance(read, Input) and read.window is not None
        }
        if window is not SAME_DAYS and len(own) == len(inputs):
            raise InvalidDeclaration(
                f"{name}: its window counts for none of its inputs, which have their own.", table=name
            )
        releases = [Release(version=version, function=function)]
        releases += [Release(version=v, function=f) for v, f in (earlier or {}).items()]
        return DerivedTable(
            name=name,
            transform=transform or function.__name__.replace("_", "-"),
            inputs={argument: read.table if isinstance(read, Input) else read for argument, read in inputs.items()},
            window=window,
            windows=own,
            changes=frozenset(name for name, read in inputs.items() if isinstance(read, Input) and read.changes),
            key=key,
            partition=partition,
            schema=schema,
            releases=tuple(releases),
            references=references,
            reference_window=reference_window,
            gates=gates,
            policy=policy,
            breakdown=breakdown,
            description=inspect.getdoc(function) or "",
        )

    return declare

"""Derived tables: computed by a transform from other tables, each read with a window."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal, get_args

from pyspark.sql import DataFrame
from pyspark.sql.types import BooleanType, DateType, StructField, StructType

from backfill_assets.calendar.partitions import Grain, SnapshotInterval
from backfill_assets.calendar.windows import SAME_DAYS, AnyWindow, SinceFirstDay, Window
from backfill_assets.core.errors import InvalidDeclaration
from backfill_assets.domain.breakdown import Breakdown, Tolerance, check_breakdown, check_tolerance
from backfill_assets.domain.declarations import (
    A_DAY,
    DAYS_FROM_ONE,
    KEPT,
    OF_EVERY_TABLE,
    PHASES,
    REASONS,
    REPLAY,
    VERSION,
    WINDOW,
    Kind,
    Partitioning,
    a,
    check_identifying,
    check_policy,
    check_replay,
    check_table,
    checking,
    complete_gates,
    require_columns,
    require_types,
    require_window,
    several,
    wrong,
)
from backfill_assets.domain.external import ReplayDeclaration
from backfill_assets.domain.gates import AddsOnly, Gate, Merged, WarmUpProof
from backfill_assets.domain.sources import SourceTable
from backfill_assets.planning.errors import NoSuchName
from backfill_assets.planning.kinds.any_change import DeclaredChange
from backfill_assets.planning.kinds.append import Append
from backfill_assets.planning.kinds.expire import RetentionRule
from backfill_assets.planning.kinds.merge import Merge
from backfill_assets.planning.kinds.replace import REPLACE, Replace, VersionOf, versioned
from backfill_assets.planning.safeguards import USUAL_POLICY, Policy
from backfill_assets.planning.sets import AskedPhases

References = Mapping[str, Any]
DeclaredWindow = AnyWindow | Callable[[References], AnyWindow]
"""A window, or a function from the references to it."""

Lineage = Literal["run", "full"]
"""The origin that rows of a table carry: their run, or everything that `lineage.runs` says of it as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A table as an input that is read in a way of its own. Written with `reads(...)`."""

    table: Table  #: What is read.
    window: DeclaredWindow | None  #: Its own window; None is the one that the derived table declares for all.
    changes: bool = False  #: True if the changelog is read, not the current rows.


@dataclass(frozen=True, slots=True)
class OwnState:
    """The earlier state of the table itself, as an input. Written with `reads_self()`."""

    since: date | None = None
    every: int = 1
    keep: RetentionRule | None = None


def reads_self(*, since: date | None = None, every: int = 1, keep: RetentionRule | None = None) -> OwnState:
    """The earlier state of the table itself: the rows of a snapshot before the partition, or none from a cold start.

    The function returns the state at the end of the partition, from that snapshot and every row of its other inputs
    after it. Which snapshot it is given must not matter: from an earlier one, and more rows, it returns the same.

    Args:
        since: The day on which the state begins, such as the first one of the log: nothing before it counts, and no
            earlier day has to be built. None is the first day that tables can have (`BACKFILL_FIRST_DAY`).
        every: For a daily table with `since`: it only has snapshots at the end of every so many days since then. With
            7 the first one is that of the seventh day.
        keep: Which accepted snapshots stay, such as `RetentionRule(days=90, then="month")`:
            `backfill plan expire TABLE` plans that the others expire. None keeps all.
    """
    return OwnState(since=since, every=every, keep=keep)


def reads(
    table: Table,
    *,
    window: DeclaredWindow | None = None,
    days_back: int | None = None,
    days_ahead: int | None = None,
    changes: bool = False,
) -> Input:
    """An input with a window of its own, in place of the one that the derived table declares for all, or its changelog.

    Args:
        table: What is read.
        window: `Window(...)` for a daily table, `Months(...)` for a monthly one, or a function from the references to
            either. Without it the same days, or with `changes` the window of the derived table.
        days_back: In place of `window`: how many days back.
        days_ahead: In place of `window`: how many days ahead.
        changes: Read the changelog of a source that declares operations: every version of every key, with the columns
            `_operation`, `_valid_from`, `_valid_until` and `_ended_by`. Without it the current rows: deleted keys are
            absent.

    Raises:
        InvalidDeclaration: Both a window and days, a negative number of days, or `changes` that is not a truth value.
    """
    name = getattr(table, "name", table)
    if not isinstance(changes, bool):
        raise InvalidDeclaration(f"{name} is read with changes={changes!r:.60}, which is neither True nor False.")
    if window is None:
        if not changes or days_back is not None or days_ahead is not None:
            window = Window(days_back=days_back or 0, days_ahead=days_ahead or 0)
    elif days_back is not None or days_ahead is not None:
        raise InvalidDeclaration(f"{name} is read with a window and with days back or ahead; give one of the two.")
    return Input(table=table, window=window, changes=changes)


Transform = Callable[..., DataFrame]


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One registered release of a transform: its version, its function, and what its author tells reviewers of it."""

    version: str
    function: Transform
    notes: str = ""


NOT_READ_YET = Policy(live="auto", backfill="auto", follow="auto")
"""The usual policy of a version. Readers are cut over to it by the policy of the table, which counts from then on."""

REFERENCE_WINDOW = Kind(
    words="a Window, or a function of the references",
    test=lambda value: value is None or isinstance(value, Window) or callable(value),
)
OF_A_DERIVED_TABLE = {
    "transform": a(str, "a text"),
    "window": WINDOW,
    "publish": a(DeclaredChange, "replace(), append(), merge(on=...) or versioned(of=...)"),
    "reference_window": REFERENCE_WINDOW,
    "references": several(str, "names of references"),
    "replay": REPLAY,
    "lineage": Kind(words="'run' or 'full'", test=lambda value: isinstance(value, str) and value in get_args(Lineage)),
    "since": A_DAY,
    "every": DAYS_FROM_ONE,
    "keep": KEPT,
    "phases": PHASES,
    "tolerance": Kind(
        words="tolerance(...), such as tolerance('amount', percent=1, owner='finance')",
        test=lambda value: value is None or isinstance(value, Tolerance),
    ),
    "undetermined": REASONS,
    "breakdown": Kind(
        words="a Breakdown, such as Breakdown(by=('country',))",
        test=lambda value: value is None or isinstance(value, Breakdown),
    ),
}


@dataclass(frozen=True, kw_only=True)
class DerivedTable:
    """A table computed by a transform from other tables. Written with `@derived_table`."""

    name: str  #: `layer.table`.
    transform: str  #: The transform's name, kept in manifests and rows.
    inputs: Mapping[str, SourceTable | DerivedTable]  #: The tables it reads, by argument name of the transform.
    #: How far around an output partition the inputs are read, or a function from the references to it.
    window: DeclaredWindow
    key: tuple[str, ...]  #: What identifies a row within a partition.
    partition: Partitioning
    schema: StructType  #: The contract of what the transform returns, in order, the partition column included.
    releases: tuple[Release, ...]  #: The registered releases, the present one first.
    #: The windows of inputs that have one of their own, by argument.
    windows: Mapping[str, DeclaredWindow] = field(default_factory=dict)
    #: The arguments that are given the changelog of their table, not its current rows.
    changes: frozenset[str] = frozenset()
    references: tuple[str, ...] = ()  #: Names of the reference documents it uses.
    #: How far around an output day facts of the references count, or a function from the references to it. None is
    #: unknown: then a change of any day makes every partition stale.
    reference_window: Window | Callable[[References], Window] | None = None
    gates: tuple[Gate, ...] = ()
    policy: Policy = USUAL_POLICY
    breakdown: Breakdown | None = None  #: By which business dimensions its reviewers are shown what changes.
    publish: DeclaredChange = REPLACE  #: How its rows become the content of partitions.
    #: `run` when a row only names its run, `full` when it carries what `lineage.runs` says of the run.
    lineage: Lineage = "run"
    #: The argument that is given the earlier state of the table itself; None for a table without state.
    state: str | None = None
    since: date | None = None  #: The day on which its state begins; None for the first day that tables can have.
    every: int = 1  #: After how many days since then it has a snapshot.
    keep: RetentionRule | None = None  #: Which accepted snapshots stay; None for all.
    replay: ReplayDeclaration | None = (
        None  #: Allows that its rows are replayed to topics or streams, and says to which.
    )
    #: In which phases it is published when a person plans enough of it; None for as a whole.
    phases: AskedPhases | None = None
    #: How far accepted rows may be off before they have to be restated; None for not at all.
    tolerance: Tolerance | None = None
    #: What in its rows depends on an order that nothing decides and does not matter, with the reasons.
    undetermined: Mapping[str, str] = field(default_factory=dict)
    description: str = ""
    place: str = field(init=False, default="", repr=False, compare=False)  #: The file and the line of its declaration.

    def __post_init__(self) -> None:
        with checking(self):
            self._check()

    def _check(self) -> None:
        require_types(self, {**OF_EVERY_TABLE, **OF_A_DERIVED_TABLE})
        check_table(self)
        check_policy(self, self.policy)
        check_replay(self, self.replay)
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
                self._require_window(argument, declared)
        if self.reference_window is not None and not self.references:
            raise wrong(self, "it declares how far references count, and uses none")
        if isinstance(self.publish, Merge):
            object.__setattr__(self, "publish", self._merged_by_key(self.publish))
        if self.declared_version is not None:
            require_columns(self, self.declared_version.differs, "a column that may differ")
            if keys := {*self.declared_version.differs} & {*self.key, self.partition.column}:
                raise wrong(self, f"{', '.join(sorted(keys))} identifies its rows, and cannot be expected to differ")
        if self.state is not None:
            self._check_state()
        if self.phases is not None and (self.state is not None or not self.publish.is_divisible):
            raise wrong(self, "a later run reads the rows that the run before it published, so that it has no phases")
        self._check_releases()
        proves = 0 if self.state is not None else 1 if self.partition.grain is Grain.MONTHLY else 5
        object.__setattr__(
            self, "gates", complete_gates(self, self.gates, proves=proves, publish=self.publish, state=self.state)
        )
        check_breakdown(self, self.breakdown, partition=self.partition)
        if self.tolerance is not None:
            if self.state is not None or isinstance(self.publish, Merge):
                raise wrong(self, "it reads its own accepted rows: a tolerated difference would stay in later ones")
            check_tolerance(self, self.tolerance, self.breakdown)

    def _merged_by_key(self, mode: Merge) -> Merge:
        """The merge, which knows whether keys can move between partitions.

        Raises:
            InvalidDeclaration: Changes cannot be merged by these columns.
        """
        column = self.partition.column
        if not isinstance(mode.on, tuple) or {*mode.on, column} != {*self.key, column}:
            key = tuple(name for name in self.key if name != column)
            raise wrong(
                self, f"it merges on {mode.on!r:.60}, which has to be its key: {key!r}, or with {column!r} besides"
            )
        if mode.version is not None:
            require_columns(self, (mode.version,), "the version of a key")
            check_identifying(self.name, self.schema, (mode.version,), "version of a key")
        named = (*mode.on, *([mode.version] if mode.version else []))
        if nullable := [name for name in named if self.schema[name].nullable]:
            raise wrong(self, f"it merges by {', '.join(nullable)}, which can be null: declare them nullable=False")
        if mode.deletes is not None and (mode.deletes in self.schema.fieldNames() or mode.deletes.startswith("_")):
            raise wrong(self, f"it deletes by {mode.deletes!r}, which has to be a column that only changes have")
        return dataclasses.replace(mode, keys_move=column not in mode.on)

    def _check_state(self) -> None:
        if self.windows or self.window is not SAME_DAYS:
            raise wrong(self, "it keeps state, so that its inputs are read since the first day, without a window")
        if self.every > 1 and (self.since is None or self.partition.grain is not Grain.DAILY):
            why = f"it keeps a snapshot every {self.every} days, which takes a daily table and the first day"
            raise wrong(self, f"{why}: reads_self(since=date(...), every={self.every})")
        if self.keep is not None and self.keep.then == "month" and self.partition.grain is Grain.MONTHLY:
            why = "it has one snapshot a month, so that the last one of each month are all"
            raise wrong(self, f"{why}: keep=RetentionRule(days={self.keep.days}, then='quarter'), or 'year'")
        if self.keep is not None and isinstance(self.publish, Append):
            raise wrong(self, "it only adds partitions, which stay as they were added, so that no snapshot can expire")
        if isinstance(self.publish, Merge):
            raise wrong(self, "it keeps state and merges changes; a merge cannot replace a state")
        if any(isinstance(gate, WarmUpProof) for gate in self.gates):
            raise wrong(self, "it keeps state, which is proven from an earlier snapshot, not by a longer window")
        for argument, table in self.inputs.items():
            if table.partition.grain is Grain.MONTHLY and self.partition.grain is Grain.DAILY:
                raise wrong(self, f"it keeps the state of days, and {argument!r} has months")
            if isinstance(table, DerivedTable) and table.keep is not None:
                why = f"it keeps state, which rests on every snapshot of {argument!r}"
                raise wrong(self, f"{why}, and {table.name} does not keep all of them")

    def _check_releases(self) -> None:
        versions = [release.version for release in self.releases]
        for version in versions:
            if not isinstance(version, str) or not VERSION.fullmatch(version):
                raise wrong(self, f"{version!r} is not a version: write it as a text, such as '1.0.0'")
        if len(set(versions)) != len(versions):
            raise wrong(self, f"a version is registered twice: {', '.join(versions)}")
        expected = [*([self.state] if self.state else []), *self.inputs, "ctx"]
        for release in self.releases:
            if not callable(release.function):
                raise wrong(self, f"the function of version {release.version} is {release.function!r:.60}")
            if not isinstance(release.notes, str):
                raise wrong(self, f"the notes of version {release.version} are {release.notes!r:.60}, and not a text")
            found = list(inspect.signature(release.function).parameters)
            if found != expected:
                takes = f"the function of version {release.version} takes ({', '.join(found)})"
                raise wrong(self, f"{takes} where its inputs ask for ({', '.join(expected)})")

    def beside(
        self,
        name: str,
        *,
        version: str | None = None,
        differs: tuple[str, ...] = (),
        explained: str = "",
        clean_days: int = 0,
        policy: Policy = NOT_READ_YET,
    ) -> DerivedTable:
        """A version of this table beside it, computed by another of its releases: see `versioned`.

        Args:
            name: `layer.table` of the version.
            version: The release that computes it; the present one for None.
            differs: As for `versioned`.
            explained: As for `versioned`.
            clean_days: As for `versioned`.
            policy: Who approves its runs; by default a policy, as long as readers of this table do not see them.

        Raises:
            UnknownName: There is no such release.
            InvalidDeclaration: Its function returns changes.
        """
        if isinstance(self.publish, Merge):
            raise wrong(self, "its function returns changes, and the function of a version has to return rows")
        mode = versioned(of=self.name, differs=differs, explained=explained, clean_days=clean_days)
        gates = tuple(gate for gate in self.gates if not isinstance(gate, AddsOnly | Merged))
        releases = (self.release(version),)
        return dataclasses.replace(self, name=name, releases=releases, publish=mode, gates=gates, policy=policy)

    @property
    def stretches(self) -> SnapshotInterval | None:
        """The stretches of days that have a snapshot; None where every day, or month, has a partition."""
        return SinceFirstDay(self.since, self.every).stretches

    @property
    def version_of(self) -> str | None:
        """The table that it is a version of; None for any other table."""
        return self.declared_version.table if self.declared_version else None

    @property
    def declared_version(self) -> VersionOf | None:
        """The same with how the two are compared."""
        return self.publish.version_of if isinstance(self.publish, Replace) else None

    @property
    def has_pilots(self) -> bool:
        """True if some rows of its partitions can be restated while the others stay as accepted."""
        return self.publish == REPLACE and self.state is None

    @property
    def returned(self) -> StructType:
        """The columns that the transform returns: those of the table, and of changes the one that tells deletes."""
        deletes = self.publish.deletes if isinstance(self.publish, Merge) else None
        return StructType([*self.schema.fields, *([StructField(deletes, BooleanType())] if deletes else [])])

    @property
    def row_key(self) -> tuple[str, ...]:
        """The columns that identify a row within a partition: the key."""
        return self.key

    @property
    def version(self) -> str:
        """The version that runs unless another one is asked for."""
        return self.releases[0].version

    @property
    def short_name(self) -> str:
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
        known = tuple(release.version for release in self.releases)
        raise NoSuchName(kind="transform version", name=wanted, known=known)

    def window_of(self, argument: str, references: References) -> AnyWindow:
        """The window of an input, resolved against reference values when it is a function of them."""
        if self.state is not None:
            return SinceFirstDay(self.since, self.every)
        declared = self.windows.get(argument, self.window)
        window = declared(references) if callable(declared) else declared
        return self._require_window(argument, window)

    def _require_window(self, argument: str, declared: object) -> AnyWindow:
        """The window of an input, if it counts partitions of this table and holds some of the input.

        Raises:
            InvalidDeclaration: It is no window, counts others, or holds no snapshot of an input that has few.
        """
        window, read = require_window(self, self.partition.grain, argument, declared), self.inputs[argument]
        days = (28 if self.partition.grain is Grain.MONTHLY else 1) * (1 + sum(window.counts))
        if self.state is None and isinstance(read, DerivedTable) and days < read.every:
            why = f"it reads {argument!r} with {window}, and {read.name} has a snapshot every {read.every} days"
            raise wrong(self, f"{why}: read at least {read.every} days, so that each window has a snapshot")
        kept = read.keep if isinstance(read, DerivedTable) else None
        if kept is not None and (needed := self._days_read(window, read)) > kept.days:
            why = f"it reads {argument!r} up to {needed} days before its newest snapshot"
            raise wrong(self, f"{why}, and {read.name} keeps every snapshot of {kept.days} days only")
        return window

    def _days_read(self, window: AnyWindow, read: Table) -> int:
        """The most days before the newest snapshot of an input that the newest partition of this table reads."""
        own, of_input = self.partition.grain, read.partition.grain
        days = sum(window.counts) * (31 if own is Grain.MONTHLY else 1)
        return days if own is of_input else days + 30

    def reference_window_for(self, references: References) -> Window | None:
        """The reach around an output day within which facts of these references count; None when it is not declared."""
        declared = self.reference_window
        return declared if declared is None or isinstance(declared, Window) else declared(references)


Table = SourceTable | DerivedTable


def derived_table(
    *,
    name: str,
    inputs: Mapping[str, Table | Input | OwnState],
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
    publish: DeclaredChange = REPLACE,
    lineage: Lineage = "run",
    replay: ReplayDeclaration | None = None,
    phases: AskedPhases | None = None,
    tolerance: Tolerance | None = None,
    undetermined: Mapping[str, str] | None = None,
    earlier: Mapping[str, Transform] | None = None,
    notes: str = "",
) -> Callable[[Transform], DerivedTable]:
    """Turns a function of input DataFrames and a TransformContext into a derived table.

    Args:
        name: `layer.table`.
        inputs: Tables by argument name, or `reads(table, ...)` for one with a window of its own; the function takes
            exactly these and `ctx`, in this order. `reads_self()` is the earlier state of the table, the first of them.
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
        publish: How its rows become the content of partitions: `replace()`; `append()` for partitions that are
            only added; `merge(on=...)` when the function returns changes by key.
        lineage: What a row says of its origin. With `run` its run, and the table `lineage.runs` says the rest; with
            `full` all of it, for readers who cannot join, which makes writing the rows dearer.
        replay: Allows that its rows are replayed to topics or streams, and says to which.
        phases: `phases(...)` publishes what a person plans in parts, one after the other; `plan table --phases 1` does
            not.
        tolerance: `tolerance(...)` lets its owner leave accepted rows as they are where a restatement moves little.
        undetermined: What in its rows depends on an order that nothing decides, as a refusal names it, and why that
            does not matter: `{"first as note": "all notes of a case are equal"}`. Approvers are shown it.
        earlier: Earlier releases that can still be run, by version.
        notes: What reviewers of its runs are told of this version: what changed, and why.

    Raises:
        InvalidDeclaration: The declaration contradicts itself.
    """

    def declare(function: Transform) -> DerivedTable:
        for what, given in (("inputs", inputs), ("earlier", earlier or {})):
            if not isinstance(given, Mapping):
                raise InvalidDeclaration(f"{name}: its {what} are {given!r:.60}, and have to be a mapping of names.")
        own = {a: read.window for a, read in inputs.items() if isinstance(read, Input) and read.window is not None}
        if window is not SAME_DAYS and len(own) == len(inputs):
            raise InvalidDeclaration(f"{name}: its window counts for none of its inputs, which have their own.")
        others = {name: read for name, read in inputs.items() if not isinstance(read, OwnState)}
        states = {name: read for name, read in inputs.items() if isinstance(read, OwnState)}
        if len(states) > 1:
            raise InvalidDeclaration(f"{name}: it reads its own state as {' and as '.join(map(repr, states))}.")
        releases = [Release(version=version, function=function, notes=notes)]
        releases += [Release(version=v, function=f) for v, f in (earlier or {}).items()]
        return DerivedTable(
            name=name,
            transform=transform or function.__name__.replace("_", "-"),
            inputs={argument: read.table if isinstance(read, Input) else read for argument, read in others.items()},
            window=window,
            windows=own,
            changes=frozenset(name for name, read in others.items() if isinstance(read, Input) and read.changes),
            key=key,
            partition=partition,
            schema=schema,
            releases=tuple(releases),
            references=references,
            reference_window=reference_window,
            gates=gates,
            policy=policy,
            breakdown=breakdown,
            publish=publish,
            lineage=lineage,
            replay=replay,
            phases=phases,
            tolerance=tolerance,
            undetermined=undetermined or {},
            state=next(iter(states), None),
            since=next((read.since for read in states.values()), None),
            every=next((read.every for read in states.values()), 1),
            keep=next((read.keep for read in states.values()), None),
            description=inspect.getdoc(function) or "",
        )

    return declare

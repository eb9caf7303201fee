"""Declarations: what every table declares, and their mistakes, each reported with its table when the domain is loaded.

Gate conditions are checked apart (`check_conditions`): commands that only look load a domain without parsing SQL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import date, datetime
from types import UnionType
from typing import Any, Protocol

from pyspark.sql import types as T
from pyspark.sql.types import (
    DataType,
    DateType,
    MapType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from backfill_assets.calendar.partitions import Grain
from backfill_assets.calendar.windows import AnyWindow, Months, Window
from backfill_assets.capture.families import one_of
from backfill_assets.core.columns import LINEAGE, in_sql
from backfill_assets.core.declaring import declared, meant, place_of_declaration, require_parts, shown
from backfill_assets.core.errors import InvalidDeclaration
from backfill_assets.domain.external import ReplayDeclaration
from backfill_assets.domain.failing_rows import Failing, Needs, Over, cannot_be_given
from backfill_assets.domain.gates import (
    AcceptedValues,
    AddsOnly,
    ComparedWithAccepted,
    Gate,
    Merged,
    RowExpression,
    SameState,
    SchemaMatches,
    UniqueKey,
    WarmUpProof,
    columns_in,
    require_kind,
)
from backfill_assets.planning.kinds.any_change import DeclaredChange
from backfill_assets.planning.kinds.append import Append
from backfill_assets.planning.kinds.expire import RetentionRule
from backfill_assets.planning.kinds.merge import Merge
from backfill_assets.planning.kinds.replace import REPLACE, Replace
from backfill_assets.planning.safeguards import Policy
from backfill_assets.planning.sets import AskedPhases

# Column types and names: what a contract allows, and for everything else the reason and the way out.
#
# A type is allowed where it works on the whole way: landed as the source wrote it, stored by Delta, compared by
# value. A name is allowed where every reader of a table tells it from the others.

IDENTIFYING: tuple[type[T.DataType], ...] = (
    T.StringType,
    T.BooleanType,
    T.ByteType,
    T.ShortType,
    T.IntegerType,
    T.LongType,
    T.DecimalType,
    T.DateType,
    T.TimestampType,
    T.TimestampNTZType,
)
"""Types whose values have one form each, which can be typed: those of keys and of what orders versions of a key."""

ATOMIC: tuple[type[T.DataType], ...] = (*IDENTIFYING, T.FloatType, T.DoubleType, T.BinaryType)
"""The types of columns, and of what is inside structs and arrays."""

INFINITIES = frozenset({"infinity", "-infinity"})
"""The words of PostgreSQL for times that come after and before all others."""

_NAME = re.compile(r"\w[\w-]*")
_MOST_DIGITS = 38


def is_time(text: str, of: T.DataType) -> bool:
    """True if a text is a date or a time of a type, written as in landed files."""
    try:
        if isinstance(of, T.DateType):
            return date.fromisoformat(text).isoformat() == text
        found = datetime.fromisoformat(text) if text[10:11] == "T" else None
    except ValueError:
        return False
    is_local = isinstance(of, T.TimestampNTZType)
    return (
        isinstance(of, (T.TimestampType, T.TimestampNTZType)) and found is not None and is_local == (not found.tzinfo)
    )


def holds(of: T.DataType, kind: type[T.DataType]) -> bool:
    """True if a type, or a type inside it, is of the given type."""
    return any(isinstance(each, kind) for _, each in _with_parts("", of))


def check_columns(table: str, schema: T.StructType, *, partition: str | None = None) -> None:
    """Refuses columns of types and names that do not work on the whole way.

    Args:
        partition: The name of a partition column that is derived and not part of the schema.

    Raises:
        InvalidDeclaration: Names the column, the reason and the way out.
    """
    _check_names(table, [*schema.fieldNames(), *([partition] if partition else [])], inside="")
    for path, kind in _inside(schema.fields, ""):
        if isinstance(kind, T.StructType):
            _check_names(table, kind.fieldNames(), inside=path)
        if (problem := _problem(kind)) is not None:
            reason, way_out = problem
            raise _wrong(table, f"its column {path} is {kind.simpleString()}, {reason}", way_out)


def check_identifying(table: str, schema: T.StructType, columns: Iterable[str], role: str) -> None:
    """Refuses columns that cannot identify or order rows.

    Raises:
        InvalidDeclaration: Names the column, the reason and the way out.
    """
    for name in columns:
        kind = schema[name].dataType
        if isinstance(kind, (T.FloatType, T.DoubleType)):
            reason, way_out = "whose equal numbers have several forms", "decimal or string"
        elif isinstance(kind, T.BinaryType):
            reason, way_out = "which cannot be typed or shown", "string, as hexadecimal or base64 text"
        elif not isinstance(kind, IDENTIFYING):
            reason, way_out = "which has no order", "string, or name what is inside it in columns of their own"
        else:
            continue
        raise _wrong(table, f"its {role} {name!r} is {kind.simpleString()}, {reason}", f"declare it as {way_out}")


def _inside(fields: Iterable[T.StructField], path: str) -> Iterator[tuple[str, T.DataType]]:
    """Every type in a schema, with where it is: `items.element.price`."""
    for field in fields:
        yield from _with_parts(f"{path}{field.name}", field.dataType)


def _with_parts(path: str, kind: T.DataType) -> Iterator[tuple[str, T.DataType]]:
    yield path, kind
    if isinstance(kind, T.StructType):
        yield from _inside(kind.fields, f"{path}.")
    elif isinstance(kind, T.ArrayType):
        yield from _with_parts(f"{path}.element", kind.elementType)


def _problem(kind: T.DataType) -> tuple[str, str] | None:
    """The reason why a type is not allowed, with what to declare; None for an allowed one."""
    match kind:
        case T.StructType() if not kind.fields:
            return "which Parquet cannot hold without members", "declare its members"
        case T.StructType() | T.ArrayType():
            return None
        case T.MapType():
            entry = f"struct<key:{kind.keyType.simpleString()},value:{kind.valueType.simpleString()}>"
            return "whose equal values have several forms", f"declare it as array<{entry}>, sorted by key"
        case T.VariantType():
            return "whose equal values have several forms", "declare it as string, with the JSON text"
        case T.CharType() | T.VarcharType():
            return "whose length Spark enforces at some writes only", "declare it as string, with a gate on its length"
        case T.StringType() if kind != T.StringType():
            return "whose equal values differ", "declare it as string without a collation"
        case T.DecimalType() if not (0 <= kind.scale <= kind.precision <= _MOST_DIGITS):
            return "which no table can hold", f"declare at most {_MOST_DIGITS} digits, and no scale beyond them"
        case _ if type(kind) in ATOMIC:
            return None
        case _:
            return "which Delta tables do not hold", "declare it as string, as a number, or as a timestamp"


def _check_names(table: str, names: list[str], *, inside: str) -> None:
    where = f" inside {inside}" if inside else ""
    known: dict[str, str] = {}
    for name in names:
        if not _NAME.fullmatch(name):
            reason = "has a name of more than letters, digits, _ and -"
            way_out = "name it differently where its files are written or its rows are selected"
            if not inside:
                called = f"columns={{{name!r}: {_plain(name)!r}}}"
                way_out = f"name it differently: a source declares what its files call it with {called}"
            raise _wrong(table, f"its column {name!r}{where} {reason}", way_out)
        if (other := known.setdefault(name.casefold(), name)) != name:
            reason = "differ in upper and lower case alone, which readers of the table do not tell apart"
            raise _wrong(table, f"its columns {other} and {name}{where} {reason}", "name one of them differently")


def _plain(name: str) -> str:
    """A name that a column may have, for one that it may not have."""
    return re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_").lower() or "column_1"


def _wrong(table: str, mistake: str, way_out: str) -> InvalidDeclaration:
    return InvalidDeclaration(f"{table}: {mistake}; {way_out}.")


TABLE_NAME = re.compile(r"[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*")
SHORT_NAME = re.compile(r"[a-z][a-z0-9_]*")
VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]*")


class Declared(Protocol):
    """The properties of a table that the checks need."""

    @property
    def name(self) -> str: ...
    @property
    def key(self) -> tuple[str, ...]: ...
    @property
    def schema(self) -> StructType: ...
    @property
    def row_key(self) -> tuple[str, ...]: ...
    @property
    def partition(self) -> Partitioning: ...
    @property
    def gates(self) -> tuple[Gate, ...]: ...
    @property
    def place(self) -> str: ...


def wrong(table: Declared, mistake: str) -> InvalidDeclaration:
    """The error that names a table, a mistake in its declaration, and where that is written."""
    error = InvalidDeclaration(f"{table.name}: {mistake}{'' if mistake.endswith('?') else '.'}")
    error.place = table.place
    return error


def require_types(table: object, kinds: Mapping[str, Kind]) -> None:
    """Refuses what is of another type than its role asks for, before anything is asked of it."""
    name = getattr(table, "name", None)
    if not isinstance(name, str):
        raise InvalidDeclaration(f"a table is named layer.table with lower-case letters, digits and _: {name!r}.")
    for attribute, kind in kinds.items():
        value = getattr(table, attribute)
        if not kind.test(value):
            several_of = value if isinstance(value, tuple) else ()
            wrong_ones = (f"a tuple with {shown(each)}" for each in several_of if not kind.test((each,)))
            found = next(wrong_ones, shown(value))
            wanted = kind.words if isinstance(kind.words, str) else kind.words()
            raise InvalidDeclaration(f"{name}: {attribute} must be {wanted}, not {found}.")


@contextmanager
def checking(table: Any) -> Iterator[None]:
    """Checks of a table, and, after them, the types of what its attributes hold, such as a capture.

    A check that cannot be made, because a value is of another type than it may be, is refused by that type.

    Raises:
        InvalidDeclaration: Names the attribute, what it must be, and what it is.
    """
    object.__setattr__(table, "place", place_of_declaration())
    try:
        try:
            yield
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            _require_parts(table)
            raise
        _require_parts(table)
    except InvalidDeclaration as error:
        error.place = error.place or table.place
        raise


def _require_parts(table: Any) -> None:
    for each in fields(table):
        held = getattr(table, each.name, None)
        for part in held if isinstance(held, tuple) else (held,):
            if is_dataclass(part) and not isinstance(part, type):
                require_parts(part, of=f"{table.name}: {each.name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """The requirement on a value in a declaration."""

    words: str | Callable[[], str]  #: What it has to be; where families of sources know it, they are asked.
    test: Callable[[object], bool]


def a(kind: type | UnionType, words: str) -> Kind:
    """One value of a type."""
    return Kind(words=words, test=lambda value: isinstance(value, kind) and not isinstance(value, bool))


def several(kind: type | UnionType, words: str) -> Kind:
    """A tuple of values of a type."""
    return Kind(
        words=f"a tuple of {words}",
        test=lambda value: isinstance(value, tuple) and all(isinstance(each, kind) for each in value),
    )


def require_columns(table: Declared, columns: Iterable[str], role: str) -> None:
    """Refuses a role, such as the key, that is given to a column the schema lacks."""
    names = table.schema.fieldNames()
    for column in columns:
        if column not in names:
            raise wrong(table, f"{role} {column!r} is not a column of its schema{meant(column, names)}")


def check_table(table: Declared, *, partition: str | None = None) -> None:
    """Refuses impossible names and types, doubled or reserved columns, and a key that is empty or not in the schema.

    Args:
        partition: The name of a partition column that is derived and not part of the schema.
    """
    if not TABLE_NAME.fullmatch(table.name):
        raise InvalidDeclaration(f"a table is named layer.table with lower-case letters, digits and _: {table.name!r}.")
    if table.name == LINEAGE:
        raise wrong(table, "its name is kept for the lineage of runs")
    names = table.schema.fieldNames()
    if len(set(names)) != len(names):
        raise wrong(table, "its schema names a column twice")
    reserved = [name for name in (*names, *([partition] if partition else [])) if name.startswith("_")]
    if reserved:
        raise wrong(table, f"columns that begin with _ are kept for lineage: {', '.join(reserved)}")
    if partition in names:
        raise wrong(table, f"its partition column {partition!r} is derived, so not in the schema; give it another name")
    check_columns(table.name, table.schema, partition=partition)
    if not table.key:
        raise wrong(table, "it has no key")
    require_columns(table, table.key, "key column")
    check_identifying(table.name, table.schema, table.key, "key column")


REPLAY = Kind(words=lambda: one_of("replays"), test=lambda value: value is None or isinstance(value, ReplayDeclaration))


REASONS = Kind(
    words="reasons by what is undetermined, such as {'first as note': 'all notes of a case are equal'}",
    test=lambda value: (
        isinstance(value, Mapping)
        and all(isinstance(text, str) and text.strip() for pair in value.items() for text in pair)
    ),
)
KEPT = Kind(
    words="RetentionRule(...), such as RetentionRule(days=90, then='month')",
    test=lambda value: value is None or isinstance(value, RetentionRule),
)
PHASES = Kind(
    words="phases(...), such as phases(hold_hours=24)",
    test=lambda value: value is None or isinstance(value, AskedPhases),
)
A_DAY = Kind(
    words="a date, such as date(2024, 10, 1)",
    test=lambda value: value is None or (isinstance(value, date) and not isinstance(value, datetime)),
)
DAYS_FROM_ONE = Kind(
    words="a number of days from 1 on",
    test=lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 1,
)


def check_replay(table: Declared, replay: ReplayDeclaration | None) -> None:
    """Refuses a replay that cannot be carried out as it is declared."""
    for mistake in () if replay is None else replay.mistakes():
        raise wrong(table, mistake)
    if replay is not None and replay.key_format == "text" and len(table.key) > 1:
        raise wrong(table, "records of its replay have a text as key, and its own key has several columns")


def check_policy(table: Declared, policy: Policy) -> None:
    """Refuses rules that are no rules, and groups of approvers that cannot be names."""
    for rule in (policy.live, policy.backfill, policy.follow):
        if rule not in ("auto", "approve"):
            raise wrong(table, f"its policy has {rule!r}, which is neither 'auto' nor 'approve'")
    groups = policy.approvers
    if not isinstance(groups, tuple) or not all(isinstance(name, str) and name.strip() for name in groups):
        raise wrong(
            table, f"its policy names approvers as {groups!r}, which is not a tuple of names such as ('finance',)"
        )


def complete_gates(
    table: Declared,
    gates: tuple[Gate, ...],
    *,
    proves: int | None = None,
    publish: DeclaredChange = REPLACE,
    state: str | None = None,
) -> tuple[Gate, ...]:
    """The declared gates with the ones every table has, checked against the schema.

    Args:
        proves: How many partitions a proof of the window recomputes unless the author overrides it; None for
            source tables, which have no window.
        publish: The change that its runs make.
        state: The argument that is given its earlier state; None without one.
    """
    complete: list[Gate] = []
    if not any(isinstance(gate, SchemaMatches) for gate in gates):
        complete.append(SchemaMatches())
    if not any(isinstance(gate, UniqueKey) for gate in gates):
        complete.append(UniqueKey())
    complete += gates
    if not any(isinstance(gate, ComparedWithAccepted) for gate in gates):
        complete.append(ComparedWithAccepted())
    if (own := _gate_of(publish)) is not None and not any(isinstance(gate, type(own)) for gate in gates):
        complete.append(own)
    if state is not None and not any(isinstance(gate, SameState) for gate in gates):
        complete.append(SameState())
    if proves is not None and not any(isinstance(gate, WarmUpProof) for gate in gates):
        complete.append(WarmUpProof())
    complete = [
        replace(gate, columns=table.row_key) if isinstance(gate, UniqueKey) and not gate.columns else gate
        for gate in complete
    ]
    complete = [_proof(table, gate, proves) if isinstance(gate, WarmUpProof) else gate for gate in complete]
    complete = [gate for gate in complete if not (isinstance(gate, WarmUpProof) and gate.asked == 0)]
    seen: set[str] = set()
    for gate in complete:
        with _placed_at(gate):
            _check_gate(table, gate, seen)
        seen.add(gate.name)
    return tuple(complete)


def _gate_of(publish: DeclaredChange) -> Gate | None:
    """The gate that every table has whose runs make such a change."""
    match publish:
        case Append():
            return AddsOnly()
        case Merge():
            return Merged()
        case Replace():
            return None


def _check_gate(table: Declared, gate: Gate, others: Container[str]) -> None:
    if not SHORT_NAME.fullmatch(gate.name):
        raise wrong(table, f"a gate is named with lower-case letters, digits and _: {gate.name!r}")
    if gate.name in others:
        raise wrong(table, f"two gates are named {gate.name!r}; give one of them a name of its own, with name=")
    if not isinstance(gate, RowExpression) and gate.columns != table.row_key:
        _require_gate_columns(table, gate)
    if isinstance(gate, AcceptedValues):
        _check_accepts(table, gate)
    if isinstance(gate, Failing) and not gate.sql:
        _require_given(table, gate)


def check_conditions(table: Declared) -> None:
    """Refuses gates whose condition, or query, is not SQL, or mentions a column, or a table, that there is not."""
    for gate in table.gates:
        with _placed_at(gate):
            _check_condition(table, gate)


def _check_condition(table: Declared, gate: Gate) -> None:
    if isinstance(gate, RowExpression):
        _require_gate_columns(table, gate)
        require_kind(gate.condition, f"{table.name}: the condition of gate {gate.name}", table.schema, counts=False)
    if isinstance(gate, Failing):
        _require_given(table, gate)
        for each in gate.over:
            _require_over(table, gate, each)


@contextmanager
def _placed_at(gate: Gate) -> Iterator[None]:
    """Mistakes in a gate are in the line that declares it, and not in that of its table."""
    try:
        yield
    except InvalidDeclaration as error:
        error.place = gate.place or error.place
        raise


def _require_given(table: Declared, gate: Failing) -> None:
    if why_not := cannot_be_given(gate, getattr(table, "inputs", {})):
        raise wrong(table, why_not)
    windows = {each.argument: each.window for each in gate.reads} | ({"around": gate.around} if gate.around else {})
    for argument, window in windows.items():
        require_window(table, table.partition.grain, argument, window)


def _require_over(table: Declared, gate: Failing, over: Over) -> None:
    """Refuses an expression over a frame whose table lacks the columns, as far as they are known."""
    others = {each.argument: each.table for each in gate.reads}
    read = {**others, **getattr(table, "inputs", {})}.get(over.frame, table)
    what = f"{table.name}: gate {gate.name}: an expression over {over.frame}"
    known = [*read.schema.fieldNames(), read.partition.column]
    if over.frame in getattr(table, "changes", ()):
        known += [name for name in columns_in(over.sql, what) if name.startswith("_")]
    named = f" of {others[over.frame].name if over.frame in others else over.frame}"
    columns = columns_in(over.sql, what)
    for column in columns:
        if column not in known:
            whose = "" if read is table else named
            raise wrong(table, f"gate {gate.name}: {column!r} is not a column{whose}{meant(column, known)}")
        if over.like:
            _require_alike(table, gate, over.like, f"{column!r}{named}", _type_of(read, column))
    if over.needs is Needs.CONDITION:
        require_kind(over.sql, what, read.schema, counts=False)
    # Of an expression it is known where Spark has looked at it.
    is_column = len(columns) == 1 and over.sql in (columns[0], in_sql(columns[0]))
    kind = _type_of(read, columns[0]) if is_column else None
    if mistake := kind and over.mistake(kind):
        raise wrong(table, f"gate {gate.name}: {mistake}")


def _type_of(table: Declared, column: str) -> DataType | None:
    """The type of a column; None of one that is not declared, as those of the changelog."""
    if column in table.schema.fieldNames():
        return table.schema[column].dataType
    return DateType() if column == table.partition.column else None


def _require_alike(table: Declared, gate: Failing, column: str, other: str, its: DataType | None) -> None:
    """Refuses columns of which no value is one of the other, such as a text and a number."""
    own = _type_of(table, column)
    if own is None or its is None:
        return
    families = (NumericType, DateType | TimestampType | TimestampNTZType)
    is_alike = own.simpleString() == its.simpleString() and not isinstance(own, MapType)
    if is_alike or any(isinstance(own, each) and isinstance(its, each) for each in families):
        return
    what = f"compares {column!r}, which is {own.simpleString()}, with {other}, which is {its.simpleString()}"
    raise wrong(table, f"gate {gate.name} {what}")


def _require_gate_columns(table: Declared, gate: Gate) -> None:
    require_columns(table, gate.columns, f"gate {gate.name}: column")


def _proof(table: Declared, gate: WarmUpProof, proves: int | None) -> WarmUpProof:
    """The gate with the number of partitions that it will compute again."""
    if proves is None:
        raise wrong(table, "a source table has no window, so there is no warm-up to prove")
    if (gate.partitions or 0) < 0 or (gate.extra_days is not None and gate.extra_days < 1):
        raise wrong(table, "a warm-up proof computes 0 or more partitions again, with 1 or more extra days")
    return replace(gate, partitions=proves if gate.partitions is None else gate.partitions)


def _check_accepts(table: Declared, gate: AcceptedValues) -> None:
    column_type: DataType = table.schema[gate.column].dataType
    if not isinstance(column_type, StringType):
        raise wrong(table, f"gate {gate.name} lists strings, but {gate.column!r} is {column_type.simpleString()}")


WINDOW = Kind(
    words="a Window, Months, or a function of the references",
    test=lambda value: isinstance(value, AnyWindow) or callable(value),
)


def require_window(table: Declared, grain: Grain, argument: str, window: object) -> AnyWindow:
    """The window of an input, if it counts partitions of the table that declares it.

    Raises:
        InvalidDeclaration: It is no window, or counts days for a monthly table or months for a daily one.
    """
    if not isinstance(window, AnyWindow):
        raise wrong(table, f"the window of its input {argument!r} is {window!r:.60} and has to be {WINDOW.words}")
    if grain is Grain.MONTHLY and isinstance(window, Window) and any(window.counts):
        raise wrong(
            table,
            f"it is a monthly table and reads {argument!r} with {window}, counted in days; a monthly table reads whole "
            f"months, such as Months(back=1)",
        )
    if grain is Grain.DAILY and isinstance(window, Months):
        raise wrong(
            table,
            f"it is a daily table and reads {argument!r} with {window}, counted in months; a daily table counts days, "
            f"such as Window(days_back=31), and reads every month of a monthly input that they touch",
        )
    return window


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitioning:
    """The date column that a table is partitioned by, and how many days a partition covers."""

    column: str
    grain: Grain


@declared
def daily(column: str) -> Partitioning:
    """One partition per day.

    Args:
        column: The date column. Of a source table it is derived from the event time.
    """
    return Partitioning(column=column, grain=Grain.DAILY)


@declared
def monthly(column: str) -> Partitioning:
    """One partition per month, named by its first day.

    Args:
        column: The date column: the first day of the month.
    """
    return Partitioning(column=column, grain=Grain.MONTHLY)


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

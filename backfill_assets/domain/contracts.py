"""Contracts of a source have versions: the earlier schemas, and how a record of one becomes a record of the next.

A step between two versions needs no lift when it only adds columns that can be null, widens types or lets columns be
null. Everything else is declared, or refused when the domain is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.core.columns import needs_rule, widens
from backfill_assets.core.declaring import declared
from backfill_assets.core.errors import InvalidDeclaration
from backfill_assets.domain.declarations import Declared, Kind, wrong
from backfill_assets.domain.errors import CodeBroken

if TYPE_CHECKING:
    from pyspark.sql.types import StructField

    from backfill_assets.domain.sources import SourceTable


Record = Mapping[str, Column]
"""The columns of a record, by name."""

Compute = Callable[[Record], Record]
"""A function of the columns of a record of one version that computes columns of the next version."""

_PYTHON_TYPES: Mapping[type[T.DataType], tuple[type, ...]] = {
    T.StringType: (str,),
    T.BooleanType: (bool,),
    T.IntegralType: (int,),
    T.DecimalType: (int, Decimal),
    T.FractionalType: (int, float),
    T.DateType: (date,),
    T.TimestampType: (datetime,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lift:
    """A conversion of records from one contract version to the next. Written with `lifts(...)`.

    Args:
        renamed: Columns that have another name now, from the earlier name to the later.
        defaults: Values that columns added by the next version have in earlier records.
        dropped: Columns that the next version does not have any more.
        function: Computes columns of the next version from those of the earlier one; None when nothing is computed.
        keeps_values: Whether rows that were built from earlier records need not be built again.
    """

    renamed: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()
    function: Compute | None = None
    keeps_values: bool = True


NO_LIFT = Lift()


@declared
def lifts(
    function: Compute | None = None,
    *,
    renamed: Mapping[str, str] | None = None,
    defaults: Mapping[str, Any] | None = None,
    dropped: tuple[str, ...] = (),
    keeps_values: bool = False,
) -> Lift:
    """Declares how a record of one contract version becomes a record of the next. Columns that are not mentioned stay.

    Args:
        function: Computes columns of the next version: takes the earlier record's columns by name, and returns the
            computed columns by name. It works on one record, and computes neither the key nor the event time.
        renamed: From the earlier name of a column to its later name.
        defaults: The values of added columns in earlier records.
        dropped: Columns that the next version does not have.
        keeps_values: States that what the function computes is what partitions built before already say, so that they
            are not stale. Without a function nothing is stale.
    """
    return Lift(
        renamed=dict(renamed or {}),
        defaults=dict(defaults or {}),
        dropped=dropped,
        function=function,
        keeps_values=keeps_values or function is None,
    )


class Versioned(Declared, Protocol):
    """The properties of a source table that the checks need."""

    @property
    def earlier(self) -> Mapping[int, T.StructType]: ...
    @property
    def lift(self) -> Mapping[int, Lift | Compute]: ...
    @property
    def event_time(self) -> str: ...
    def lift_from(self, version: int) -> Lift: ...


EARLIER = Kind(
    words="schemas by version, such as {1: schema_1}",
    test=lambda value: (
        isinstance(value, Mapping)
        and all(type(version) is int and isinstance(each, T.StructType) for version, each in value.items())
    ),
)
LIFT = Kind(
    words="lifts by the version that they start from, such as {1: lifts(renamed={'a': 'b'})}",
    test=lambda value: (
        isinstance(value, Mapping)
        and all(type(version) is int and (isinstance(each, Lift) or callable(each)) for version, each in value.items())
    ),
)


def normalized(lift: Mapping[int, Lift | Compute]) -> Mapping[int, Lift]:
    """The declared lifts; a function alone is a lift that changes values."""
    return {version: each if isinstance(each, Lift) else lifts(each) for version, each in lift.items()}


def check_versions(table: Versioned) -> None:
    """Refuses versions that do not follow each other, and steps that no rule explains.

    Raises:
        InvalidDeclaration: Names the column, both versions and the way out.
    """
    versions = sorted(table.earlier)
    if versions != list(range(1, len(versions) + 1)):
        raise wrong(
            table,
            f"its earlier versions are {', '.join(map(str, versions))}; they are counted from 1 without a gap, and the "
            f"present schema is the one after the last",
        )
    for version in sorted(table.lift):
        if version not in table.earlier:
            raise wrong(table, f"it has a lift for version {version}, which is not among its earlier versions")
    for version in versions:
        new = table.earlier.get(version + 1, table.schema)
        _check_step(table, version, table.earlier[version], new, table.lift_from(version))
    _check_types_of_names(table)


def _check_step(table: Versioned, version: int, old: T.StructType, new: T.StructType, lift: Lift) -> None:
    step = f"from version {version} to {version + 1}"
    if mistake := next(_mistakes(old, new, lift), None):
        raise wrong(table, f"its lift {step}: {mistake}")
    ruled = {*lift.renamed, *lift.renamed.values(), *lift.defaults, *lift.dropped}
    if lift.function is not None:
        ruled |= {*old.fieldNames(), *new.fieldNames()}
    for role, columns in (("key", table.key), ("event time", (table.event_time,))):
        for column in columns:
            if (name := name_at(table, column, version)) not in old.fieldNames():
                raise _no_rule(table, step, f"{name} belongs to the {role}, and version {version} has no such column")
    if problems := needs_rule(old, new, ruled=ruled):
        raise _no_rule(table, step, problems[0])


def _no_rule(table: Versioned, step: str, problem: str) -> InvalidDeclaration:
    return wrong(
        table,
        f"its contract cannot change {step} without a lift: {problem}. Declare what becomes of earlier records, such "
        "as lift={1: lifts(renamed={'old': 'new'}, defaults={'added': 'value'}, dropped=('gone',))}, or declare the "
        "source under a new name",
    )


def _mistakes(old: T.StructType, new: T.StructType, lift: Lift) -> Iterator[str]:
    """The contradictions between a lift and its two schemas."""
    before, after = {f.name: f for f in old.fields}, {f.name: f for f in new.fields}
    for was, now in lift.renamed.items():
        if was not in before or now not in after:
            lacking = f"{was}, which the earlier" if was not in before else f"{now}, which the later"
            yield f"it renames {was} to {now} and names {lacking} version does not have"
        elif was in after or now in before:
            yield f"it renames {was} to {now}, and {was if was in after else now} is a column of both versions"
        elif not widens(before[was].dataType, after[now].dataType):
            types = before[was].dataType.simpleString(), after[now].dataType.simpleString()
            yield f"it renames {was} to {now}, which was {types[0]} and is {types[1]}"
        elif before[was].nullable and not after[now].nullable:
            yield f"it renames {was} to {now}, which could be null and no longer can"
    for name, value in lift.defaults.items():
        if name not in after or name in before:
            yield f"it has a default for {name}, which is not a column that the later version adds"
        elif not _is_value(value, after[name].dataType):
            yield f"the default of {name} is {value!r}, which is not a {after[name].dataType.simpleString()}"
        elif name in lift.renamed.values():
            yield f"it renames a column to {name}, and has a default for it"
    for name in lift.dropped:
        if name not in before or name in after:
            yield f"it drops {name}, which is not a column of the earlier version alone"


def _is_value(value: object, kind: T.DataType) -> bool:
    for known, types in _PYTHON_TYPES.items():
        if isinstance(kind, known):
            is_other = isinstance(value, bool) if known is not T.BooleanType else False
            return isinstance(value, types) and not is_other
    return False


def _check_types_of_names(table: Versioned) -> None:
    """A column of the table has one type: what it is now is the same as in every earlier version, or wider."""
    known: dict[str, tuple[int, T.DataType]] = {}
    for version in (*sorted(table.earlier), len(table.earlier) + 1):
        for column in table.earlier.get(version, table.schema).fields:
            since, was = known.get(column.name, (version, column.dataType))
            if not widens(was, column.dataType):
                raise wrong(
                    table,
                    f"{column.name} is {was.simpleString()} in version {since} and {column.dataType.simpleString()} in "
                    f"version {version}; files of both are read as one column. Give the column of the later version "
                    "another name, and compute it in the lift",
                )
            known[column.name] = (version, column.dataType)


def name_at(table: Versioned, column: str, version: int) -> str:
    """The name that a present column had in a version: declared renames followed back."""
    for each in range(len(table.earlier), version - 1, -1):
        earlier = {now: was for was, now in table.lift_from(each).renamed.items()}
        column = earlier.get(column, column)
    return column


# Lifting: records of an earlier contract version as records of the present one, column by column.
#
# A record becomes one record: nothing is filtered, joined or counted, so the accounts of a landed file stay as
# they are.


def lifted(frame: DataFrame, source: SourceTable, version: int, *, only: Column | None = None) -> DataFrame:
    """Records of a version as records of the present contract; columns that are none of the contract's stay.

    Args:
        frame: Every column of that version, and others.
        only: Computes columns for these records alone, and null for others; None for all.
    """
    for each in range(version, source.contract_version):
        frame = _step(frame, source, each, only)
    return frame


def _step(frame: DataFrame, source: SourceTable, version: int, only: Column | None) -> DataFrame:
    old, new, lift = source.at(version), source.at(version + 1), source.lift_from(version)
    named = f"the lift of {source.name} from version {version} to {version + 1}"
    computed = _computed(lift, {name: F.col(name) for name in old.schema.fieldNames()}, new, named)
    others = [name for name in frame.columns if name not in old.schema.fieldNames()]
    known = set(old.schema.fieldNames())
    values = {
        field.name: _guarded(computed[field.name], only) if field.name in computed else _kept(field, lift, known, named)
        for field in new.schema.fields
    }
    try:
        result = frame.select(*others, *(value.alias(name) for name, value in values.items()))
    except PySparkException as error:
        raise _broken(named, f"it failed: {error}".splitlines()[0].rstrip(".")) from error
    # Whether elements and members can be null was judged when the records landed; Spark infers that all of them can.
    declared, given = new.schema.toNullable(), result.schema.toNullable()
    for column in declared.fields:
        found = given[column.name].dataType
        if not widens(found, column.dataType):
            promised = column.dataType.simpleString()
            says = f"it gives {column.name} as {found.simpleString()} where {promised} is declared"
            raise _broken(named, says)
    typed = (F.col(column.name).cast(column.dataType).alias(column.name) for column in declared.fields)
    return result.select(*others, *typed)


def _computed(lift: Lift, record: Record, new: SourceTable, named: str) -> Record:
    if lift.function is None:
        return {}
    try:
        computed = dict(lift.function(record))
    except Exception as error:  # every error of an author's function is shown to the author, in one line
        raise _broken(named, f"its function failed: {type(error).__name__}: {error}".rstrip(".")) from error
    kept = {*new.key, new.event_time}
    for name in computed:
        if name not in new.schema.fieldNames():
            raise _broken(named, f"it computes {name}, which is not a column of the later version")
        if name in kept:
            raise _broken(named, f"it computes {name}, which belongs to the key or is the event time")
    return computed


def _guarded(value: Column, only: Column | None) -> Column:
    return value if only is None else F.when(only, value)


def _kept(field: StructField, lift: Lift, known: set[str], named: str) -> Column:
    """The value of a column that no function computes."""
    if field.name in known:
        return F.col(field.name)
    for was, now in lift.renamed.items():
        if now == field.name:
            return F.col(was)
    if field.name in lift.defaults:
        return F.lit(lift.defaults[field.name]).cast(field.dataType)
    if not field.nullable:
        raise _broken(named, f"{field.name} is new and cannot be null, and it does not compute it")
    return F.lit(None).cast(field.dataType)


def _broken(named: str, problem: str) -> CodeBroken:
    return CodeBroken(code=named, problem=f"cannot be applied: {problem}")

"""Lifting: records of an earlier contract version as records of the present one, column by column.

A record becomes one record: nothing is filtered, joined or counted, so the accounts of a landed file stay as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill_assets.core.columns import widens
from backfill_assets.domain.contracts import Lift, Record
from backfill_assets.domain.errors import CodeBroken

if TYPE_CHECKING:
    from pyspark.sql.types import StructField

    from backfill_assets.domain.sources import SourceTable


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
    for field in declared.fields:
        found = given[field.name].dataType
        if not widens(found, field.dataType):
            says = f"it gives {field.name} as {found.simpleString()} where {field.dataType.simpleString()} is declared"
            raise _broken(named, says)
    typed = (F.col(field.name).cast(field.dataType).alias(field.name) for field in declared.fields)
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

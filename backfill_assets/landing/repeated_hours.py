"""Repeated hours: which of two a time without an offset is that clocks of a zone show twice.

Its source declares that: the first, the second, none of them, or both in the order of the records of a key in their
file. Without a declaration it is the first of the two, which is counted, and none where it tells records apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, TimestampType

from backfill_assets.domain import SourceTable
from backfill_assets.domain.column_types import holds
from backfill_assets.landing.reading import (
    BOTH,
    FILE,
    FIRST,
    NESTED,
    REJECT,
    ROW,
    SECOND,
    quoting,
    raw,
    reading_of,
    repeated_hour_of,
    shown,
)
from backfill_assets.landing.times import is_shown_twice, shown_twice
from backfill_assets.landing.values import typed

TAKEN = "_taken_as_first"
"""The columns of a record with a time that was taken as the first of two, although nothing declares it."""

Present = Mapping[str, DataType]
"""The columns that a file has, with the types of their raw values."""


def counts_taken(source: SourceTable) -> bool:
    """Whether times that clocks show twice are taken as the first of the two without a declaration of that."""
    return bool(source.timezone) and not source.repeated_hour


def taken_as_first(source: SourceTable, present: Present) -> Column:
    """The columns of a record with a time that was taken as the first of two; null where there is none."""
    found = [_name_if_taken(field, source, present[field.name]) for field in _with_times(source, present, FIRST)]
    names = F.array_compact(F.array(*found)) if found else F.array().cast("array<string>")
    return F.when(F.size(names) > 0, names)


def _with_times(source: SourceTable, present: Present, rule: str) -> list[StructField]:
    """The columns that hold instants of which one rule decides."""
    return [
        field
        for field in source.schema.fields
        if field.name in present
        and holds(field.dataType, TimestampType)
        and repeated_hour_of(source, field.name) == rule
    ]


def _name_if_taken(field: StructField, source: SourceTable, found: DataType) -> Column:
    value, how = F.col(raw(field.name)), reading_of(source, field.name)
    if not isinstance(field.dataType, NESTED):
        return F.when(is_shown_twice(value, found, how), F.lit(field.name))
    # A value with such a time inside is one that there would not be if these were rejected.
    without = typed(value, found, field.dataType, replace(how, repeated=REJECT))
    return F.when(F.col(field.name).isNotNull() & without.isNull(), F.lit(field.name))


def in_turn(records: DataFrame, source: SourceTable, present: Present) -> DataFrame:
    """Records with both times of an hour that comes twice: of those that a file has for a key, the first record in its
    order has the first, and the second has the second.

    Args:
        records: The typed columns of records of one or several files, and their raw values.
    """
    field = next(iter(_with_times(source, present, BOTH)), None)  # a key has at most one such time
    if field is None:
        return records
    name, files = field.name, [FILE] if FILE in records.columns else []
    value, found, how = F.col(raw(name)), present[name], reading_of(source, name)
    local = F.when(is_shown_twice(value, found, how), F.col(name))
    others = [each for each in source.key if each != name]
    # All other records have no turn: each is apart, so that no task gets all of them.
    of_key = Window.partitionBy(*files, *others, local, F.when(local.isNull(), F.col(ROW)))
    turn = F.when(local.isNotNull(), F.row_number().over(of_key.orderBy(ROW)))
    records = records.withColumns({_turn(name): turn, _turns(name): F.count(F.lit(1)).over(of_key)})
    second = typed(value, found, TimestampType(), replace(how, repeated=SECOND))
    return records.withColumn(name, F.when(F.col(_turn(name)) == 2, second).otherwise(F.col(name)))


def broken_rule(name: str, found: DataType, source: SourceTable) -> Column | None:
    """The sentence about a time that clocks show twice, where nothing tells which one it is; None where something
    does."""
    value, how = F.col(raw(name)), reading_of(source, name)
    match repeated_hour_of(source, name):
        case "reject":
            return shown_twice(name, value, found, how, is_declared=bool(source.repeated_hour))
        case "both":
            turn, turns = F.col(_turn(name)), F.col(_turns(name))
            why = f"{name} is a time that clocks in {how.timezone} show twice, and its file has it for this key"
            once = F.when((turn == 1) & (turns == 1), F.lit(f"{why} once, so that nothing tells which one it is"))
            said = once.when(turn > 2, F.concat(F.lit(f"{why} "), turns.cast("string"), F.lit(" times")))
            return F.when(said.isNotNull(), quoting(said, shown(value, found)))
        case _:
            return None


def _turn(name: str) -> str:
    return f"_turn_{name}"


def _turns(name: str) -> str:
    return f"_turns_{name}"

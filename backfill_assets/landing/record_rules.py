"""Record rules: checks each record against the contract of its source table, and settles hours that a clock shows
twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, DataType, DateType, StringType, StructField, TimestampNTZType, TimestampType

from backfill_assets.calendar.local_days import LAST_PLANNED, newest_date
from backfill_assets.domain import Operation, SourceTable
from backfill_assets.domain.declarations import holds
from backfill_assets.domain.operations import OPERATION, STATES
from backfill_assets.landing.json_text import is_object
from backfill_assets.landing.reading import (
    BOTH,
    FILE,
    FIRST,
    NESTED,
    REJECT,
    ROW,
    SECOND,
    nulls_of,
    quoting,
    raw,
    reading_of,
    repeated_hour_of,
    shown,
)
from backfill_assets.landing.reading import raw as _raw
from backfill_assets.landing.times import is_shown_twice, shown_twice
from backfill_assets.landing.values import complaint, is_blank, typed

# Repeated hours: which of two a time without an offset is that clocks of a zone show twice.
#
# Its source declares that: the first, the second, none of them, or both in the order of the records of a key in
# their file. Without a declaration it is the first of the two, which is counted, and none where it tells records
# apart.

TAKEN = "_taken_as_first"
"""The columns of a record with a time that was taken as the first of two, although nothing declares it."""

Present = Mapping[str, DataType]
"""The columns that a file has, with the types of their raw values."""


def counts_taken(source: SourceTable) -> bool:
    """True if times that clocks show twice are taken as the first of the two without a declaration of that."""
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


# Record rules: checks each record against the contract of its source table, with the first rule that it breaks.
#
# Pure column expressions that never throw: raw values in, typed columns and one reason out. What a value of a
# type is, `values` says.

BROKEN = "_broken"
REASON = "_reason"
FUTURE = "lies in the future"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The event times that a landed record can have."""

    first_day: date
    judged_at: datetime  #: When the file was landed, or landed again; nothing can have happened after it.


def required_columns(source: SourceTable) -> frozenset[str]:
    """The columns that every record of a state must have: those declared not null, the key, event time and order."""
    declared = {field.name for field in source.schema.fields if not field.nullable}
    return frozenset({*declared, *source.key, source.event_time, *source.order, *_always(source)})


def required_of_a_file(source: SourceTable) -> frozenset[str]:
    """The columns that every file must have: deletes and truncates lack most of what a state must have."""
    return required_columns(source) - source.filled_columns if source.operation is None else _always(source)


def _always(source: SourceTable) -> frozenset[str]:
    if source.operation is None:
        return frozenset()
    # A date and a time cannot stand for one another as the time from which a record is true.
    at = source.operation.at
    is_needed = at is not None and source.schema[source.event_time].dataType != source.time_type
    return frozenset({source.operation.column, *source.order, *([at] if at is not None and is_needed else [])})


def has_key(source: SourceTable) -> Column:
    """True if the key of a record can be read; that of a valid record always can."""
    texts = (F.coalesce(F.trim(F.col(name).cast("string")), F.lit("")) for name in source.key)
    return reduce(lambda left, right: left & right, (text != "" for text in texts))


def operation_of(source: SourceTable) -> Column:
    """The operation of a record on its key, by name; null when the source declares no operations, or the value is
    unknown."""
    nothing = F.lit(None).cast(StringType())
    if source.operation is None:
        return nothing
    found = F.col(source.operation.column)
    for value, operation in source.operation.named.items():
        nothing = F.when(found == F.lit(value), F.lit(str(operation))).otherwise(nothing)
    return nothing


def happened_at(source: SourceTable) -> Column:
    """When a record was true from: the time of its operation where it has one, else its event time."""
    at = None if source.operation is None else source.operation.at
    if at is None or source.schema[source.event_time].dataType != source.time_type:
        return F.col(at or source.event_time)
    return F.coalesce(F.col(at), F.col(source.event_time))


def _of_event_time(source: SourceTable, of: Callable[[str], Column]) -> Column:
    """Something of the time that decides the day: of that of the operation where a delete or a truncate has no event
    time."""
    at = None if source.operation is None else source.operation.at
    return of(source.event_time) if at is None else F.coalesce(of(source.event_time), of(at))


def _partition(source: SourceTable) -> Column:
    """The partition of a record: its date, or the UTC date of its time."""
    in_zone = source.timezone if source.has_dates else ""
    return _of_event_time(source, lambda name: _day(name, source, in_zone))


def local_day(source: SourceTable) -> Column:
    """The day of a record where clocks show the time of its source; its partition where the source has no zone."""
    if not source.zone_of_days:
        return F.col(source.partition.column)
    return _of_event_time(source, lambda name: _day(name, source, source.zone_of_days))


def _day(name: str, source: SourceTable, zone: str) -> Column:
    """The day of a date or a time."""
    if isinstance(source.schema[name].dataType, DateType) or not zone:
        return F.to_date(F.col(name))
    utc = F.col(name).cast(TimestampNTZType())  # sessions are held to UTC
    return F.to_date(F.convert_timezone(F.lit("UTC"), F.lit(zone), utc))


def _is_future(name: str, source: SourceTable, bounds: Bounds) -> Column:
    """True if a time is later than possible: for a date, if no place on Earth had it when the file landed."""
    latest = bounds.judged_at + source.ahead
    is_date = isinstance(source.schema[name].dataType, DateType)
    return F.col(name) > F.lit(newest_date(latest) if is_date else latest)


def _future(source: SourceTable, day: Column, bounds: Bounds) -> Column:
    """The sentence about a record of a time that could not be written yet; null for others."""
    if source.planned:
        too_late = F.lit(f"{source.event_time} is after {LAST_PLANNED}, the last day for which something is planned")
        return F.when(day > F.lit(LAST_PLANNED), too_late)
    by = f"{source.ahead.total_seconds():g} seconds" if source.ahead else ""
    if source.has_dates:
        why = f"no place on Earth had this date {f'{by} after' if by else 'when'} it was landed"
    else:
        why = f"more than {by} after it was landed" if by else "after it was landed"
    is_future = _of_event_time(source, lambda name: _is_future(name, source, bounds))
    declare = "" if source.ahead else "; declare ahead=seconds(60) of a clock that is ahead, planned=True of a schedule"
    return F.when(is_future, F.lit(f"{source.event_time} {FUTURE} ({why}){declare}"))


def _needed(name: str, source: SourceTable) -> Column | None:
    """For a required column: true for the records that must have it; None when every record must."""
    if source.operation is None or name in _always(source):
        return None
    operation = F.col(OPERATION)
    if name in source.key:
        return F.coalesce(operation != Operation.TRUNCATE, F.lit(True))
    if name == source.event_time and source.operation.at is None:
        return None
    # A record of an unknown operation is rejected for that, and not for what it lacks.
    return F.coalesce(operation.isin(*map(str, STATES)), F.lit(False))


def judged(raw: DataFrame, source: SourceTable, *, bounds: Bounds) -> DataFrame:
    """Raw records with typed contract columns, the partition column, and the first rule that each breaks.

    Args:
        raw: One row per record, the contract's columns among its own; a contract column it lacks is null throughout.
            `_broken` is the reason why a record could not be parsed, and null when it could.
        source: The contract.

    Returns:
        The columns of `raw` that the contract does not know, the contract's columns, `_operation`, `event_date`, and
        `_reason`, which is null for a valid record; of a source with a zone and no rule for hours that come twice,
        `_taken_as_first` as well.
    """
    present = {field.name: field.dataType for field in raw.schema.fields}
    kept = [column for column in raw.columns if column not in source.schema.fieldNames()]
    required = required_columns(source)
    for name in source.file_columns:
        if isinstance(present.get(name), StringType) and (nulls := nulls_of(source, name)):
            raw = raw.withColumn(name, F.when(~F.col(name).isin(*nulls), F.col(name)))
    for name, named in source.bounds.items():
        if isinstance(present.get(name), StringType) and name not in source.formats:
            bound = F.coalesce(*(F.when(F.col(name) == infinity, F.lit(text)) for infinity, text in named.items()))
            raw = raw.withColumn(name, F.coalesce(bound, F.col(name)))
    values = {
        field.name: _value(field.name, present[field.name], field.dataType, source)
        if field.name in present
        else F.lit(None).cast(field.dataType)
        for field in source.schema.fields
    }
    texts = raw.select(
        *kept,
        *(values[name].alias(name) for name in source.schema.fieldNames()),
        *(F.col(name).alias(_raw(name)) for name in source.schema.fieldNames() if name in present),
    )
    texts = in_turn(texts.withColumn(OPERATION, operation_of(source)), source, present)
    day = _partition(source)
    rules: list[Column] = [F.col(BROKEN), *_of_the_operation(source, present)]
    for field in source.schema.fields:
        if field.name in present:
            rules += _rules(field.name, present[field.name], field.dataType, source, required=field.name in required)
        elif field.name in required:
            rules.append(_missing(field.name, source, F.lit(True)))
    if source.operation is not None and source.operation.at is not None:
        both = f"{source.event_time} is missing, and so is {source.operation.at}"
        rules.append(F.when(day.isNull(), F.lit(both)))
    rules += [
        F.when(
            day < F.lit(bounds.first_day),
            F.concat(
                F.lit(f"{source.partition.column} "),
                day.cast("string"),
                F.lit(f" is before the first day {bounds.first_day}, which BACKFILL_FIRST_DAY sets"),
            ),
        ),
        _future(source, day, bounds),
    ]
    return texts.select(
        *kept,
        *source.schema.fieldNames(),
        OPERATION,
        day.alias(source.partition.column),
        F.coalesce(*rules).alias(REASON),
        *([taken_as_first(source, present).alias(TAKEN)] if counts_taken(source) else []),
    )


def _value(name: str, found: DataType, target: DataType, source: SourceTable) -> Column:
    """A raw value as the contract's type; bounds are written as in ISO 8601 also where a column has other forms."""
    how = reading_of(source, name)
    value = typed(F.col(name), found, target, how)
    if name in source.formats and isinstance(found, StringType):
        for infinity, text in source.bounds.get(name, {}).items():
            bound = typed(F.lit(text), found, target, replace(how, forms=()))
            value = F.when(F.col(name) == infinity, bound).otherwise(value)
    return value


def _rules(name: str, found: DataType, target: DataType, source: SourceTable, *, required: bool) -> list[Column]:
    """The rules for a present column, the most basic first; each is null or a sentence."""
    raw, value = F.col(_raw(name)), F.col(name)
    is_text = isinstance(target, StringType) and isinstance(found, BinaryType)
    is_empty = raw.isNull() | (is_blank(value, target) if is_text else is_blank(raw, found))
    if isinstance(target, BinaryType):
        is_empty &= value.isNull()  # an empty text is a binary of no bytes
    rules = [_missing(name, source, is_empty)] if required else []
    if isinstance(target, StringType):
        problem = "is not UTF-8 text" if isinstance(found, (StringType, BinaryType)) else "cannot be written as JSON"
        rules.append(F.when(raw.isNotNull() & value.isNull(), F.lit(f"{name} {problem}")))
        if name in source.json_columns:
            no_object = quoting(F.lit(f"{name} is not a JSON object"), value)
            rules.append(F.when(~is_empty & ~is_object(value), no_object))
    else:
        rules.append(F.when(~is_empty & value.isNull(), complaint(name, raw, found, target, reading_of(source, name))))
        if source.timezone and isinstance(target, TimestampType):
            twice = broken_rule(name, found, source)
            rules += [] if twice is None else [twice]
    return rules


def _missing(name: str, source: SourceTable, absent: Column) -> Column:
    needed = _needed(name, source)
    return F.when(absent if needed is None else needed & absent, F.lit(f"{name} is missing"))


def _of_the_operation(source: SourceTable, present: Mapping[str, DataType]) -> list[Column]:
    """The rule that the source declares the operation; a missing one is found like any required value."""
    if source.operation is None or source.operation.column not in present:
        return []
    value = F.col(source.operation.column)
    unknown = value.isNotNull() & (F.trim(value) != "") & F.col(OPERATION).isNull()
    demand = F.lit(f"{source.operation.column} is not one of {', '.join(source.operation.named)}")
    return [F.when(unknown, quoting(demand, value))]

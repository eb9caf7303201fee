"""Values: reads a text, or a value of a Parquet file, as a value of a column's type.

The rules by type are here and nowhere else; `docs/landing.md` has them as tables. They are pure column expressions that
never throw: everything that could fail is a `try_` function. A value is taken exactly or not at all, unless the source
states that it writes more digits than its contract keeps (`rounds`). Dates and times are in `times`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.landing.json_text import bind_column, elements, has_half_pair, members, plain
from backfill_assets.landing.likely_forms import mark_to_declare
from backfill_assets.landing.reading import EXACTLY, JSON_OF_PARQUET, NESTED, Reading, quoting, shown
from backfill_assets.landing.times import TIMES, can_be_time, instant, read_time, time_complaint

_WHOLE = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_FLOATING = (T.FloatType, T.DoubleType)
_MOST_DIGITS = 38
_LONG_ENDS = float(2**63)
_FIRST_AND_LAST = ("0001-01-01T00:00:00", "9999-12-31T23:59:59.999999")
"""The times that every reader of a table knows: Parquet has others."""

# \A and \z, because $ also matches before a line break at the end.
_WHOLE_NUMBER = r"\A[+-]?[0-9]{1,19}\z"
_NUMBER = r"\A[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]{1,3})?\z"
_NOT_FINITE = r"\A(NaN|-?Infinity)\z"
_NOT_ZERO = r"\A[+-]?[0.]*[1-9]"
# The last character before the padding has bits that belong to no byte; they have to be zero.
_BASE64 = r"\A(?:[A-Za-z0-9+/]{4})*+(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?\z"

_DEMANDS: Mapping[type[T.DataType], str] = {
    **dict.fromkeys(_WHOLE, "a whole number"),
    **dict.fromkeys((*_FLOATING, T.DecimalType), "a number"),
    T.BinaryType: "base64 text like aGVsbG8=",
    T.ArrayType: "a JSON array",
    T.StructType: "a JSON object",
}

_AS_JSON = Reading(finite=True)


def can_become(target: T.DataType, found: T.DataType, *, as_json: bool = False, has_zone: bool = False) -> bool:
    """True if values of a Parquet type can become the contract's type exactly, or be recognized if they cannot.

    Args:
        as_json: Whether structs, maps and arrays become JSON texts.
        has_zone: Whether the source declares a time zone, so that local times can become instants.
    """
    if isinstance(found, T.StringType):
        return True
    match target:
        case T.StringType():
            return isinstance(found, T.BinaryType) or as_json == isinstance(found, NESTED)
        case T.ByteType() | T.ShortType() | T.IntegerType() | T.LongType():
            return isinstance(found, T.NumericType)
        case T.FloatType() | T.DoubleType():
            return isinstance(found, (*_WHOLE, *_FLOATING))
        case T.DecimalType():
            return isinstance(found, (*_WHOLE, T.DecimalType))
        case T.ArrayType():
            return isinstance(found, T.ArrayType) and can_become(
                target.elementType, found.elementType, has_zone=has_zone
            )
        case T.StructType():
            return (
                isinstance(found, T.StructType)
                and sorted(target.fieldNames()) == sorted(found.fieldNames())
                and all(
                    can_become(field.dataType, found[field.name].dataType, has_zone=has_zone) for field in target.fields
                )
            )
        case T.DateType():  # a timestamp of midnight
            return isinstance(found, (T.DateType, T.TimestampType, T.TimestampNTZType))
        case T.TimestampType():
            return isinstance(found, T.TimestampType) or (has_zone and isinstance(found, T.TimestampNTZType))
        case _:
            return type(found) is type(target)


def is_blank(value: Column, found: T.DataType) -> Column:
    """True if a raw value is a text of nothing but spaces, which is null for every type but strings."""
    return F.trim(value) == "" if isinstance(found, T.StringType) else F.lit(False)


def typed(value: Column, found: T.DataType, target: T.DataType, how: Reading = EXACTLY) -> Column:
    """A raw value as the contract's type; null when it is null, blank, or no value of that type.

    Args:
        found: The type of the raw value; anything but a string is of a Parquet file and has passed `can_become`.
    """
    if can_be_time(target, found, how):
        return read_time(value, found, target, how)
    match target:
        case T.StringType():
            return _string(value, found)
        case T.ArrayType():
            return _array(value, found, target, how.of_json)
        case T.StructType():
            return _struct(value, found, target, how.of_json)
        case T.MapType():
            assert isinstance(found, T.MapType), "no contract has maps; they are what a JSON column is written from"
            keys, items = (T.ArrayType(kind) for kind in (target.keyType, target.valueType))
            names = _array(F.map_keys(value), keys, keys, how)
            is_once = F.size(names) == F.size(F.array_distinct(names))
            return F.when(is_once, F.map_from_arrays(names, _array(F.map_values(value), items, items, how)))
    return _of_text(value, target, how) if isinstance(found, T.StringType) else _of_type(value, found, target, how)


def complaint(name: str, value: Column, found: T.DataType, target: T.DataType, how: Reading = EXACTLY) -> Column:
    """The sentence about a raw value that is no value of the contract's type, by its form or by what the type holds."""
    if isinstance(target, TIMES):
        return time_complaint(name, value, found, target, how)
    text = shown(value, found)
    number = _number(text, how) if isinstance(found, T.StringType) else value
    if isinstance(target, _WHOLE):
        has_form = _is_whole(number, found)
    else:
        has_form = _has_form(number if isinstance(target, T.NumericType) else text, target)
    fits = F.when(has_form, F.lit(f"{name} does not fit {target.simpleString()}"))
    other = F.concat(F.lit(f"{name} is not {_demand(target, how)}"), mark_to_declare(text, target, how.csv))
    return quoting(fits.otherwise(other), text)


def _demand(target: T.DataType, how: Reading) -> str:
    """The requirement on a text of a type, with the source's declarations about it."""
    if isinstance(target, T.BooleanType):
        return " or ".join((*how.true, *how.false))
    said = _DEMANDS[type(target)]
    if isinstance(target, T.NumericType) and how.thousands:
        said += f" with {how.thousands!r} between groups of three digits"
    if isinstance(target, (*_FLOATING, T.DecimalType)) and how.decimal != ".":
        said += f"{' and' if how.thousands else ' with'} {how.decimal!r} before its fraction"
    return said


def _is_whole(value: Column, found: T.DataType) -> Column:
    """True if a value is a whole number of any size."""
    if isinstance(found, _FLOATING):
        return F.coalesce(value % F.lit(1.0) == 0, F.lit(False))
    digits = r"\A-?[0-9]+([.]0*)?\z" if isinstance(found, T.DecimalType) else _WHOLE_NUMBER
    return F.coalesce(value.cast("string").rlike(digits), F.lit(False))


def _has_form(text: Column, target: T.DataType) -> Column:
    """True if a text that is not a value of a type is written like one."""
    match target:
        case T.FloatType() | T.DoubleType() | T.DecimalType():
            found = text.rlike(_NUMBER)
        case T.ArrayType():
            found = elements(text).isNotNull()
        case T.StructType():
            found = members(text).isNotNull()
        case _:
            found = F.lit(False)
    return F.coalesce(found, F.lit(False))


# --------------------------------------------------------------------------------------------------------- from text


def _string(value: Column, found: T.DataType) -> Column:
    if isinstance(found, NESTED):
        return F.to_json(typed(value, found, found, _AS_JSON), JSON_OF_PARQUET)
    text = value.cast("string")
    return F.when(F.is_valid_utf8(text), text) if isinstance(found, (T.StringType, T.BinaryType)) else text


def _of_text(text: Column, target: T.DataType, how: Reading) -> Column:
    if isinstance(target, T.NumericType):
        text = _number(text, how)
    match target:
        case T.ByteType() | T.ShortType() | T.IntegerType() | T.LongType():
            return F.when(text.rlike(_WHOLE_NUMBER), text.try_cast(target))
        case T.FloatType() | T.DoubleType():
            nearest = text.try_cast(target)
            is_near = _is_finite(nearest) & ((nearest != 0) | ~text.rlike(_NOT_ZERO))
            # Spark's cast takes other spellings as well, and texts around them.
            return F.when((text.rlike(_NUMBER) & is_near) | text.rlike(_NOT_FINITE), nearest)
        case T.DecimalType():
            return _decimal(text, target, how.rounds)
        case T.BooleanType():
            return F.when(text.isin(*how.true), F.lit(True)).when(text.isin(*how.false), F.lit(False))
        case T.BinaryType():
            return F.when(text.rlike(_BASE64), F.try_to_binary(text, F.lit("base64")))
    raise TypeError(f"there is no rule for {target.simpleString()}; such a contract is refused when it is declared")


def _number(text: Column, how: Reading) -> Column:
    """The text of a number with the marks of JSON in place of declared ones; null where these are in other places.

    A group that begins with a zero is none: with `.` between groups `0.125` would be 125.
    """
    if how.decimal == "." and not how.thousands:
        return text
    whole = "[0-9]*"
    if how.thousands:
        whole = rf"(?:[0-9]*|[1-9][0-9]{{0,2}}(?:{re.escape(how.thousands)}[0-9]{{3}})+)"
    form = rf"\A[+-]?{whole}(?:{re.escape(how.decimal)}[0-9]*)?(?:[eE][+-]?[0-9]{{1,3}})?\z"
    plain_number = F.translate(text, how.decimal + how.thousands, ".")
    return F.when(text.rlike(form), plain_number).when(text.rlike(_NOT_FINITE), text)


def _decimal(text: Column, target: T.DecimalType, rounds: bool) -> Column:
    """A decimal. Spark's cast rounds, so it is told apart first how many digits are needed behind the point."""
    fitting = rf"\A[+-]?[0-9]{{1,{_MOST_DIGITS}}}([.][0-9]{{0,{target.scale}}})?\z"
    exponent = F.coalesce(F.regexp_extract(text, r"[eE]([+-]?[0-9]+)\z", 1).try_cast("int"), F.lit(0))
    digits = F.rtrim(F.regexp_replace(text, r"\A[+-]|[.]|[eE].*", ""), F.lit("0"))
    places = F.length(digits) - F.length(F.regexp_extract(text, r"\A[+-]?([0-9]*)", 1)) - exponent
    significant = F.ltrim(digits, F.lit("0"))
    # What is beyond the digits of any decimal decides nothing, and Java takes minutes for millions of digits.
    kept = F.substring(significant, 1, 2 * _MOST_DIGITS)
    power = F.greatest(F.length(significant) - F.length(kept) - places, F.lit(-4 * _MOST_DIGITS))
    sign = F.when(text.startswith("-"), F.lit("-")).otherwise("")
    number = F.concat(sign, kept, F.lit("e"), power.cast("string")).try_cast(target)
    return (
        F.when(text.rlike(fitting), text.try_cast(target))
        .when(~text.rlike(_NUMBER), F.lit(None))
        .when(digits == "", F.lit(0).cast(target))
        .when(F.lit(rounds) | (places <= target.scale), number)
    )


# ------------------------------------------------------------------------------------- from other types of Parquet


def _of_type(value: Column, found: T.DataType, target: T.DataType, how: Reading) -> Column:
    if isinstance(target, _WHOLE):
        if isinstance(found, _FLOATING):
            return _whole(value, target)
        exactly = _decimal(value.cast("string"), T.DecimalType(_MOST_DIGITS, 0), rounds=False)
        return (exactly if isinstance(found, T.DecimalType) else value).try_cast(target)
    if isinstance(target, T.DecimalType):
        keeps_digits = not isinstance(found, T.DecimalType) or found.scale <= target.scale
        return value.try_cast(target) if keeps_digits or how.rounds else _decimal(value.cast("string"), target, False)
    if isinstance(target, _FLOATING):
        return _floating(value, found, target, how)
    if isinstance(target, TIMES):
        time = instant(value, how) if isinstance(found, T.TimestampNTZType) and found != target else value
        return F.when(time.between(*(F.lit(text).cast(target) for text in _FIRST_AND_LAST)), time)
    return value


def _is_finite(number: Column) -> Column:
    return ~F.isnan(number) & (F.abs(number) != F.lit(float("inf")))


def _whole(number: Column, target: T.DataType) -> Column:
    """A floating number as a whole one. Spark's cast cuts off fractions, and takes 2^63 for the largest long."""
    whole = number.try_cast(target)
    return F.when((whole.cast("double") == number.cast("double")) & (number < F.lit(_LONG_ENDS)), whole)


def _floating(value: Column, found: T.DataType, target: T.DataType, how: Reading) -> Column:
    nearest, rounds = value.try_cast(target), how.rounds
    if isinstance(found, _WHOLE):
        is_near = F.lit(True) if rounds else _whole(nearest, found) == value
    elif isinstance(found, T.DoubleType) and isinstance(target, T.FloatType):
        is_near = (nearest != 0) | (value == 0) if rounds else nearest.cast(found) == value
    else:
        is_near = F.lit(True)
    is_same = _is_finite(nearest) & is_near
    if isinstance(found, _FLOATING) and not how.finite:
        is_same |= ~_is_finite(value)
    return F.when(is_same, nearest)


# ------------------------------------------------------------------------------------------------------------ nested


def _array(value: Column, found: T.DataType, target: T.ArrayType, how: Reading) -> Column:
    """An array of which every element is a value of its type, or null where the type allows it."""
    kind = found.elementType if isinstance(found, T.ArrayType) else found
    items = value if isinstance(found, T.ArrayType) else F.transform(elements(_whole_characters(value)), plain)
    judged = F.transform(
        items, lambda item: _part(item, kind, target.elementType, nullable=target.containsNull, how=how)
    )
    return bind_column(
        judged,
        lambda parts: F.when(
            F.forall(parts, lambda part: part["fits"]), F.transform(parts, lambda part: part["value"])
        ),
    )


def _struct(value: Column, found: T.DataType, target: T.StructType, how: Reading) -> Column:
    """A struct of which every member is a value of its type, or null where the type allows it."""
    if not isinstance(found, T.StringType):
        assert isinstance(found, T.StructType), "can_become takes nothing else"
        kinds = {field.name: field.dataType for field in found.fields}
        return F.when(value.isNotNull(), _of_members(lambda name: value[name], kinds, target, how))

    def of_object(texts: Column) -> Column:
        names = F.map_keys(texts)
        is_known = F.size(F.array_except(names, F.array(*(F.lit(name) for name in target.fieldNames())))) == 0
        is_once = F.size(names) == F.size(F.array_distinct(names))
        kinds = dict.fromkeys(target.fieldNames(), found)
        return F.when(is_known & is_once, _of_members(lambda name: plain(texts[name]), kinds, target, how))

    return bind_column(members(_whole_characters(value)), of_object)


def _of_members(
    member: Callable[[str], Column], kinds: Mapping[str, T.DataType], target: T.StructType, how: Reading
) -> Column:
    judged = F.struct(
        *(
            _part(member(field.name), kinds[field.name], field.dataType, nullable=field.nullable, how=how).alias(
                field.name
            )
            for field in target.fields
        )
    )

    def of_parts(parts: Column) -> Column:
        fits = reduce(lambda left, right: left & right, (parts[field.name]["fits"] for field in target.fields))
        return F.when(fits, F.struct(*(parts[field.name]["value"].alias(field.name) for field in target.fields)))

    return bind_column(judged, of_parts)


def _part(value: Column, found: T.DataType, target: T.DataType, *, nullable: bool, how: Reading) -> Column:
    """An element or member: its value, and whether that can stand where it is."""
    is_null = value.isNull() | (F.lit(False) if isinstance(target, T.StringType) else is_blank(value, found))
    may_be_null = is_null if nullable else F.lit(False)
    return bind_column(
        typed(value, found, target, how),
        lambda part: F.struct(part.alias("value"), (part.isNotNull() | may_be_null).alias("fits")),
    )


def _whole_characters(text: Column) -> Column:
    """A text of JSON that can be parsed without changing a character of it."""
    return F.when(F.is_valid_utf8(text) & ~has_half_pair(text), text)

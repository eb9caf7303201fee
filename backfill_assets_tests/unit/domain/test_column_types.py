"""Every type of Spark, as a column of a source and of a derived table, as key, partition and order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest
from pyspark.sql import types as t

from backfill_assets.core.errors import InvalidDeclaration
from backfill_assets.domain import daily
from backfill_assets.domain.declarations import is_time
from backfill_assets_tests.support.declared import DAILY, EVENTS, derived, source


class Point(t.UserDefinedType):
    """A type of an author's own."""

    __hash__ = t.DataType.__hash__  # which Spark 4.1 leaves out

    @classmethod
    def sqlType(cls) -> t.DataType:  # noqa: N802 - Spark's name
        return t.DoubleType()

    @classmethod
    def module(cls) -> str:
        return __name__


COLUMN, KEY = "column", "key"
NOTHING: frozenset[str] = frozenset()
EVERY_ROLE, NO_KEY = frozenset({COLUMN, KEY}), frozenset({COLUMN})
INNER = t.StructType([t.StructField("price", t.DecimalType(10, 2)), t.StructField("tags", t.ArrayType(t.StringType()))])

ALLOWED: Mapping[t.DataType, tuple[frozenset[str], str]] = {
    t.StringType(): (EVERY_ROLE, ""),
    t.BooleanType(): (EVERY_ROLE, ""),
    t.ByteType(): (EVERY_ROLE, ""),
    t.ShortType(): (EVERY_ROLE, ""),
    t.IntegerType(): (EVERY_ROLE, ""),
    t.LongType(): (EVERY_ROLE, ""),
    t.DecimalType(38, 18): (EVERY_ROLE, ""),
    t.DateType(): (EVERY_ROLE, ""),
    t.TimestampType(): (EVERY_ROLE, ""),
    t.TimestampNTZType(): (EVERY_ROLE, ""),
    t.FloatType(): (NO_KEY, "whose equal numbers have several forms; declare it as decimal or string"),
    t.DoubleType(): (NO_KEY, "whose equal numbers have several forms; declare it as decimal or string"),
    t.BinaryType(): (NO_KEY, "which cannot be typed or shown; declare it as string, as hexadecimal or base64 text"),
    t.ArrayType(INNER): (NO_KEY, "which has no order; declare it as string, or name what is inside it"),
    INNER: (NO_KEY, "which has no order; declare it as string, or name what is inside it"),
    t.MapType(t.StringType(), t.LongType()): (
        NOTHING,
        "whose equal values have several forms; declare it as array<struct<key:string,value:bigint>>, sorted by key",
    ),
    t.VariantType(): (NOTHING, "declare it as string, with the JSON text"),
    t.CharType(3): (NOTHING, "declare it as string, with a gate on its length"),
    t.VarcharType(3): (NOTHING, "declare it as string, with a gate on its length"),
    t.StringType("UTF8_LCASE"): (NOTHING, "declare it as string without a collation"),
    t.DecimalType(10, -2): (NOTHING, "declare at most 38 digits, and no scale beyond them"),
    t.DecimalType(39, 2): (NOTHING, "declare at most 38 digits, and no scale beyond them"),
    t.StructType([]): (NOTHING, "declare its members"),
    t.NullType(): (NOTHING, "which Delta tables do not hold"),
    t.TimeType(): (NOTHING, "which Delta tables do not hold"),
    t.CalendarIntervalType(): (NOTHING, "which Delta tables do not hold"),
    t.DayTimeIntervalType(): (NOTHING, "which Delta tables do not hold"),
    t.YearMonthIntervalType(): (NOTHING, "which Delta tables do not hold"),
    t.GeographyType(4326): (NOTHING, "which Delta tables do not hold"),
    t.GeometryType(4326): (NOTHING, "which Delta tables do not hold"),
    Point(): (NOTHING, "which Delta tables do not hold"),
}


def _every_type(of: type[t.DataType] = t.DataType) -> Iterator[type[t.DataType]]:
    for kind in of.__subclasses__():
        yield kind
        yield from _every_type(kind)


def test_the_table_has_every_type_of_spark() -> None:
    abstract = {"AnsiIntervalType", "AnyTimeType", "AtomicType", "DatetimeType", "FractionalType", "IntegralType"}
    abstract |= {"NumericType", "SpatialType", "StructField", "UserDefinedType"}
    spark = {kind.__name__ for kind in _every_type() if kind.__module__ == t.__name__}
    assert spark - abstract == {type(kind).__name__ for kind in ALLOWED} - {"Point"}


def _with(schema: t.StructType, kind: t.DataType) -> t.StructType:
    return t.StructType([*schema.fields, t.StructField("value", kind)])


ROLES: Mapping[str, tuple[str, Callable[[t.DataType], object]]] = {
    "a column of a source": (COLUMN, lambda kind: source(schema=_with(EVENTS, kind))),
    "inside a column of a source": (COLUMN, lambda kind: source(schema=_with(EVENTS, t.ArrayType(kind)))),
    "a column of a derived table": (COLUMN, lambda kind: derived(source(), schema=_with(DAILY, kind))),
    "a key of a source": (KEY, lambda kind: source(schema=_with(EVENTS, kind), key=("event_id", "value"))),
    "a key of a derived table": (
        KEY,
        lambda kind: derived(source(), schema=_with(DAILY, kind), key=("day", "value")),
    ),
    "an order": (KEY, lambda kind: source(schema=_with(EVENTS, kind), order=("value",))),
}


@pytest.mark.parametrize("kind", ALLOWED, ids=repr)
@pytest.mark.parametrize("role", ROLES)
def test_a_type_is_allowed_or_refused_with_the_way_out(kind: t.DataType, role: str) -> None:
    allowed, sentence = ALLOWED[kind]
    needed, declare = ROLES[role]
    if needed in allowed:
        declare(kind)
        return
    with pytest.raises(InvalidDeclaration) as refused:
        declare(kind)
    said = refused.value.message
    assert "value" in said
    reason, _, way_out = sentence.rpartition("; ")
    assert reason in said
    assert way_out in said


@pytest.mark.parametrize("kind", [kind for kind in ALLOWED if not isinstance(kind, t.DateType)], ids=repr)
def test_a_derived_table_is_partitioned_by_a_date(kind: t.DataType) -> None:
    with pytest.raises(InvalidDeclaration):
        derived(source(), schema=_with(DAILY, kind), partition=daily("value"))


NAMES = {
    "a.b": "its column 'a.b' has a name of more than letters, digits, _ and -",
    "Cost Total $": "a source declares what its files call it with columns={'Cost Total $': 'cost_total'}",
    "a`b": "its column 'a`b' has a name of more than",
    "a b": "its column 'a b' has a name of more than",
    "": "its column '' has a name of more than",
    "AT": "its columns at and AT differ in upper and lower case alone",
    "Event_Date": "its columns Event_Date and event_date differ in upper and lower case alone",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_readers_cannot_tell_from_others_is_refused(name: str) -> None:
    with pytest.raises(InvalidDeclaration) as refused:
        source(schema=t.StructType([*EVENTS.fields, t.StructField(name, t.StringType())]))
    assert NAMES[name] in refused.value.message


def test_names_inside_a_struct_are_held_to_the_same() -> None:
    inner = t.StructType([t.StructField("x", t.LongType()), t.StructField("X", t.LongType())])
    with pytest.raises(
        InvalidDeclaration, match=r"its columns x and X inside value\.element differ in upper and lower"
    ):
        source(schema=_with(EVENTS, t.ArrayType(inner)))


@pytest.mark.parametrize("name", ["größe", "net-amount", "x1", "année"])
def test_letters_of_any_language_are_names(name: str) -> None:
    source(schema=t.StructType([*EVENTS.fields, t.StructField(name, t.StringType())]))


@pytest.mark.parametrize(
    ("kind", "text", "is_one"),
    [
        (t.DateType(), "9999-12-31", True),
        (t.DateType(), "0001-01-01", True),
        (t.DateType(), "99991231", False),
        (t.DateType(), "infinity", False),
        (t.TimestampType(), "9999-12-31T23:59:59.999999Z", True),
        (t.TimestampType(), "9999-12-31T23:59:59", False),
        (t.TimestampType(), "9999-12-31", False),
        (t.TimestampNTZType(), "9999-12-31T00:00:00", True),
        (t.TimestampNTZType(), "9999-12-31T00:00:00Z", False),
        (t.StringType(), "9999-12-31", False),
    ],
)
def test_a_bound_is_a_time_of_the_type_of_its_column(kind: t.DataType, text: str, is_one: bool) -> None:
    assert is_time(text, kind) is is_one

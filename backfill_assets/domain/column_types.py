"""Column types and names: what a contract allows, and for everything else the reason and the way out.

A type is allowed where it works on the whole way: landed as the source wrote it, stored by Delta, compared by value. A
name is allowed where every reader of a table tells it from the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import date, datetime

from pyspark.sql import types as T

from backfill_assets.core.errors import InvalidDeclaration

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
"""How PostgreSQL writes times that come after and before all others."""

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
    """Why a type is not allowed, and what to declare; None for one that is."""
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

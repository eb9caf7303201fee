"""Landing oracle: what every value of a file has to become, read without Spark and without the product.

The rules of `docs/landing.md` in plain Python: `json` that keeps digits, `Decimal`, `Fraction` and pyarrow. Values are
None, bool, int, float, Decimal, str, bytes, list and dict; a date is days since 1970, and an instant microseconds.
"""

from __future__ import annotations

import base64
import codecs
import gzip
import io
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)


class FileRefused(Exception):
    """The file has to be refused as a whole; the text has to occur in the sentence."""


class Wrong(ValueError):
    """A value that its column does not take.

    Attributes:
        misfit: It has the right form, and the type has no room for it.
    """

    def __init__(self, *, misfit: bool = False) -> None:
        self.misfit = misfit


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record of a file.

    Attributes:
        written: By column, what the file has.
        values: By column, its value or why it has none.
        broken: It is no record at all; the text has to occur in the reason.
    """

    written: Mapping[str, Any]
    values: Mapping[str, Any]
    broken: str | None = None

    @property
    def culprits(self) -> tuple[str, ...]:
        """The columns for which it has to be rejected."""
        return tuple(name for name, value in self.values.items() if isinstance(value, Wrong))


def expected(content: bytes, name: str, schema: StructType, *, rounds: bool = False) -> list[Record]:
    """Every record of a file, in order.

    Args:
        content: The file.
        name: Its name, whose suffix is its format.
        schema: The contract.
        rounds: The source writes more digits than the contract keeps.

    Raises:
        FileRefused: The file is refused as a whole.
    """
    if name.endswith(".parquet"):
        return list(_parquet(content, schema, rounds))
    text = gzip.decompress(content) if name.endswith(".gz") else content
    if text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise FileRefused("UTF-16")
    text = text.removeprefix(codecs.BOM_UTF8)
    read = _csv if name.removesuffix(".gz").endswith(".csv") else _json_lines
    return list(read(text, schema, rounds))


def _record(written: Mapping[str, Any], schema: StructType, value_of: Callable[[str, DataType], Any]) -> Record:
    values = {}
    for column in schema:
        try:
            value = value_of(column.name, column.dataType)
            missing = value is None or (isinstance(value, str) and not value.strip(" "))
            values[column.name] = Wrong() if missing and not column.nullable else value
        except Wrong as wrong:
            values[column.name] = wrong
    return Record(written=written, values=values)


def _needed(value: Any, nullable: bool) -> Any:
    if value is None and not nullable:
        raise Wrong
    return value


# --------------------------------------------------------------------------------------------------- JSON


class Digits(str):
    """A JSON number as it was written."""


class Members(tuple[tuple[str, Any], ...]):
    """A JSON object, as its members were written."""


class _HalfPair(ValueError):
    pass


def _constant(name: str) -> Any:
    raise ValueError(name)


_DECODER = json.JSONDecoder(
    parse_int=Digits, parse_float=Digits, parse_constant=_constant, object_pairs_hook=lambda pairs: Members(pairs)
)


def parsed(text: str) -> Any:
    """A JSON value by the strict grammar: numbers are `Digits`, objects are `Members`.

    Raises:
        ValueError: It is none, or holds half of a surrogate pair.
    """
    value = _DECODER.decode(text)
    if _has_half_pair(value):
        raise _HalfPair
    return value


def _has_half_pair(value: Any) -> bool:
    match value:
        case Members():
            return any(_has_half_pair(name) or _has_half_pair(member) for name, member in value)
        case list():
            return any(map(_has_half_pair, value))
        case _:
            return isinstance(value, str) and re.search("[\ud800-\udfff]", value) is not None


def compact(value: Any) -> str:
    """JSON text of a value: members in the order as written, digits as written."""
    match value:
        case Digits():
            return str(value)
        case Members():
            return "{" + ",".join(f"{compact(name)}:{compact(member)}" for name, member in value) + "}"
        case list():
            return "[" + ",".join(map(compact, value)) + "]"
        case _:
            return json.dumps(value, ensure_ascii=False)


def _json_lines(content: bytes, schema: StructType, rounds: bool) -> Iterator[Record]:
    for line in re.split(rb"\r\n|\n|\r", content):
        if line.strip(b" \t"):
            yield _json_record(line, schema, rounds)


def _json_record(line: bytes, schema: StructType, rounds: bool) -> Record:
    written = {"line": line}
    try:
        found = parsed(line.decode())
    except _HalfPair:
        return Record(written=written, values={}, broken="the line holds half of a surrogate pair")
    except ValueError:
        return Record(written=written, values={}, broken="")
    members = dict(found) if isinstance(found, Members) else {}
    if not members or len(members) < len(found):
        return Record(written=written, values={}, broken="")
    return _record(members, schema, lambda name, kind: from_json(members.get(name), kind, rounds=rounds))


def from_json(value: Any, kind: DataType, *, rounds: bool = False) -> Any:
    """The value of a parsed JSON value.

    Raises:
        Wrong: It has none.
    """

    match kind, value:
        case _, None:
            return None
        case ArrayType(), list():
            found = (from_json(each, kind.elementType, rounds=rounds) for each in value)
            return [_needed(each, kind.containsNull) for each in found]
        case StructType(), Members():
            members = dict(value)
            if len(members) < len(value) or members.keys() - set(kind.names):
                raise Wrong
            return {
                each.name: _needed(from_json(members.get(each.name), each.dataType, rounds=rounds), each.nullable)
                for each in kind
            }
        case ((ArrayType() | StructType()), _):
            raise Wrong
        case _, str():
            return from_text(str(value), kind, rounds=rounds)
        case _:
            return from_text(compact(value), kind, rounds=rounds)


# --------------------------------------------------------------------------------------------------- CSV

_FIELD = re.compile(r'(?:"((?:[^"]|"")*)"|([^",\r\n][^,\r\n]*|))(,|\r\n|\n|\r|\Z)')


def _csv(content: bytes, schema: StructType, rounds: bool) -> Iterator[Record]:
    header, *rows = csv_rows(content.decode("utf-8", "surrogateescape"))
    _require(header, schema)
    for row in rows:
        yield _csv_record(header, row, schema, rounds)


def _csv_record(header: Sequence[str], row: Sequence[str], schema: StructType, rounds: bool) -> Record:
    if len(row) != len(header) or re.search("[\ud800-\udfff]", "".join(row)):
        return Record(written={"row": row}, values={}, broken="")
    fields = dict(zip(header, row, strict=True))
    return _record(fields, schema, lambda name, kind: from_field(fields.get(name) or None, kind, rounds=rounds))


def _require(columns: Sequence[str], schema: StructType) -> None:
    for column in schema:
        if column.name not in columns and not column.nullable:
            raise FileRefused("has no column")


def csv_rows(text: str) -> list[list[str]]:
    """The rows of a CSV whose quotes are right, without blank lines.

    Raises:
        FileRefused: Its rows end in different ways.
    """
    rows: list[list[str]] = []
    row: list[str] = []
    place, ending = 0, ""
    while place < len(text) or row:
        found = _FIELD.match(text, place)
        assert found is not None, f"the oracle cannot say what {text[place : place + 50]!r} is"
        quoted, unquoted, behind = found.groups()
        row.append(unquoted if quoted is None else quoted.replace('""', '"'))
        place = found.end()
        if behind == ",":
            continue
        ending = ending or behind
        if behind not in (ending, ""):
            line = len(re.findall("\r\n|\n|\r", text[:place]))
            raise FileRefused(f"line {line:,}")
        if row != [""] or quoted is not None:
            rows.append(row)
        row = []
    return rows


def from_field(text: str | None, kind: DataType, *, rounds: bool = False) -> Any:
    """The value of a text that may hold a JSON array or object.

    Raises:
        Wrong: It has none.
    """
    if text is None:
        return None
    if not isinstance(kind, ArrayType | StructType):
        return from_text(text, kind, rounds=rounds)
    if not text.strip(" "):
        return None
    try:
        found = parsed(text)
    except ValueError as error:
        raise Wrong from error
    if found is None:
        raise Wrong
    return from_json(found, kind, rounds=rounds)


# -------------------------------------------------------------------------------------------------- texts

_NUMBER = re.compile(r"[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]{1,3})?")
_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.]([0-9]{1,9}))?)?"
    r"(Z|[+-][0-9]{2}(?::?[0-9]{2})?)?"
)
_BITS: Mapping[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
_EPOCH = date(1970, 1, 1).toordinal()


def from_text(text: str, kind: DataType, *, rounds: bool = False) -> Any:
    """The value of a text, of any type but arrays and structs.

    Raises:
        Wrong: It has none.
    """
    if isinstance(kind, StringType):
        return text
    if not text.strip(" "):
        return None
    match kind:
        case ByteType() | ShortType() | IntegerType() | LongType():
            return whole(int(_form(r"[+-]?[0-9]{1,19}", text)), kind)
        case FloatType() | DoubleType():
            return _binary_number(_form(_NUMBER, text), kind)
        case DecimalType():
            return decimal(Decimal(_form(_NUMBER, text)), kind, rounds=rounds)
        case BooleanType():
            return _form("true|false", text) == "true"
        case DateType():
            return _day(_form("[0-9]{4}-[0-9]{2}-[0-9]{2}", text))
        case TimestampType() | TimestampNTZType():
            return _instant(text, rounds=rounds, zoned=isinstance(kind, TimestampType))
        case BinaryType():
            return base64.b64decode(_form("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", text))
    raise AssertionError(f"{kind} is not supported")


def _form(pattern: str | re.Pattern[str], text: str) -> str:
    if not re.fullmatch(pattern, text):
        raise Wrong
    return text


def whole(number: int, kind: DataType) -> int:
    """A number within the range of a type of whole numbers."""
    half = 1 << (_BITS[type(kind)] - 1)
    if not -half <= number < half:
        raise Wrong(misfit=True)
    return number


def decimal(number: Decimal, kind: DecimalType, *, rounds: bool = False) -> Decimal:
    """The exact number, or the number rounded half up, with the scale of the type."""
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    unscaled, shift = int("".join(map(str, digits))), exponent + kind.scale
    if shift >= 0:
        unscaled *= 10**shift
    else:
        unscaled, rest = divmod(unscaled, 10**-shift)
        if rest and not rounds:
            raise Wrong(misfit=True)
        unscaled += 2 * rest >= 10**-shift
    if unscaled >= 10**kind.precision:
        raise Wrong(misfit=True)
    return Decimal((sign if unscaled else 0, tuple(map(int, str(unscaled))), -kind.scale))


def nearest_float(number: Fraction) -> float:
    """The nearest float of 32 bits, the even one of two: rounded once, and not first to 64 bits."""
    most = Fraction(2) ** 128 - Fraction(2) ** 103
    if abs(number) >= most:
        raise Wrong(misfit=True)
    with np.errstate(all="ignore"):
        close = np.float32(float(number))
        around = (close, np.nextafter(close, np.float32(-np.inf)), np.nextafter(close, np.float32(np.inf)))
    finite = [each for each in around if np.isfinite(each)]
    return float(min(finite, key=lambda each: (abs(Fraction(float(each)) - number), int(each.view(np.int32)) & 1)))


def _binary_number(text: str, kind: DataType) -> float:
    number = Decimal(text)
    value = float(text) if isinstance(kind, DoubleType) else nearest_float(Fraction(number))
    if math.isinf(value) or (value == 0 and number != 0):
        raise Wrong(misfit=True)
    return math.copysign(value, -1 if text.startswith("-") else 1)


def _day(text: str) -> int:
    try:
        return date.fromisoformat(text).toordinal() - _EPOCH
    except ValueError as error:
        raise Wrong from error


def _instant(text: str, *, rounds: bool, zoned: bool) -> int:
    found = _TIME.fullmatch(text)
    if found is None or (found[6] is not None) != zoned:
        raise Wrong
    hours, minutes, seconds = int(found[2]), int(found[3]), int(found[4] or 0)
    offset = (found[6] or "Z").replace(":", "").replace("Z", "+0000").ljust(5, "0")
    ahead = (int(offset[1:3]) * 60 + int(offset[3:5])) * (-1 if offset[0] == "-" else 1)
    if hours > 23 or minutes > 59 or seconds > 59 or abs(ahead) > 18 * 60 or int(offset[3:5]) > 59:
        raise Wrong
    fraction = (found[5] or "").ljust(9, "0")
    if int(fraction[6:]) and not rounds:
        raise Wrong(misfit=True)
    return ((_day(found[1]) * 24 + hours) * 60 + minutes - ahead) * 60_000_000 + seconds * 10**6 + int(fraction[:6])


# ------------------------------------------------------------------------------------------------ Parquet


def storable(found: pa.DataType) -> pa.DataType:
    """The type as which values of Arrow become plain ones exactly: bytes of texts, and counts of days and of ticks."""
    if pa.types.is_dictionary(found):
        return storable(found.value_type)
    if pa.types.is_string(found) or pa.types.is_large_string(found):
        return pa.binary()
    if pa.types.is_timestamp(found):
        return pa.int64()
    if pa.types.is_date32(found):
        return pa.int32()
    if pa.types.is_list(found):
        return pa.list_(storable(found.value_type))
    if pa.types.is_struct(found):
        return pa.struct([(each.name, storable(each.type)) for each in found])
    return found


def plain(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column of `storable` types."""
    dense = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    found: list[Any] = dense.cast(storable(column.type)).to_pylist()
    return found


def _parquet(content: bytes, schema: StructType, rounds: bool) -> Iterator[Record]:
    with pq.ParquetFile(io.BytesIO(content)) as file:
        leaves = (file.schema.column(n) for n in range(len(file.schema.names)))
        int96 = any(leaf.physical_type == "INT96" for leaf in leaves)
        table = file.read()
    _require(table.column_names, schema)
    for column in schema:
        if column.name in table.column_names and not int96:  # which is an instant by convention
            _refuse_type(column.name, table.schema.field(column.name).type, column.dataType)
    types = {name: table.schema.field(name).type for name in table.column_names}
    for row in zip(*(plain(table[name]) for name in types), strict=True):
        yield _parquet_record(types, dict(zip(types, row, strict=True)), schema, rounds)


def _parquet_record(
    types: Mapping[str, pa.DataType], values: Mapping[str, Any], schema: StructType, rounds: bool
) -> Record:
    written = {name: (value, str(types[name])) for name, value in values.items()}
    return _record(
        written,
        schema,
        lambda name, kind: from_arrow(values.get(name), types.get(name, pa.null()), kind, rounds=rounds),
    )


def _refuse_type(name: str, found: pa.DataType, kind: DataType) -> None:
    """Refuses a timestamp whose instants are not known."""
    if isinstance(kind, TimestampType) and pa.types.is_timestamp(found) and found.tz is None:
        raise FileRefused(name)
    if isinstance(kind, ArrayType) and pa.types.is_list(found):
        _refuse_type(name, found.value_type, kind.elementType)
    if isinstance(kind, StructType) and pa.types.is_struct(found):
        for each in kind:
            _refuse_type(name, found.field(each.name).type, each.dataType)


_TICKS = {"s": 10**6, "ms": 1_000, "us": 1}


def from_arrow(value: Any, found: pa.DataType, kind: DataType, *, rounds: bool = False) -> Any:
    """The value of a value of a Parquet file.

    Args:
        value: As `plain` gives it.
        found: The type of the column in the file.
        kind: That of the contract.
        rounds: The source writes more digits than the contract keeps.

    Raises:
        Wrong: It has none.
    """

    if pa.types.is_dictionary(found):
        found = found.value_type
    match kind, value:
        case _, None:
            return None
        case ArrayType(), list():
            became = (from_arrow(each, found.value_type, kind.elementType, rounds=rounds) for each in value)
            return [_needed(each, kind.containsNull) for each in became]
        case StructType(), dict():
            types = {each.name: each.type for each in found}
            return {
                to.name: _needed(from_arrow(value[to.name], types[to.name], to.dataType, rounds=rounds), to.nullable)
                for to in kind
            }
        case BinaryType(), bytes() if pa.types.is_binary(found):
            return value
        case _, bytes():
            try:
                return from_field(value.decode(), kind, rounds=rounds)
            except UnicodeDecodeError as error:
                raise Wrong from error
        case ((TimestampType() | TimestampNTZType()), int()):
            if found.unit != "ns":
                return value * _TICKS[found.unit]
            if value % 1_000 and not rounds:
                raise Wrong(misfit=True)
            return value // 1_000
        case ((DateType() | BooleanType()), _):
            return value
        case DecimalType(), _:
            return decimal(Decimal(value), kind, rounds=rounds)
        case ((FloatType() | DoubleType()), _):
            return _to_binary_number(value, kind, rounds=rounds)
        case _, float() if not math.isfinite(value):
            raise Wrong
        case _, (float() | Decimal()) if value != int(value):
            raise Wrong(misfit=True)
    return whole(int(value), kind)


def _to_binary_number(value: int | float, kind: DataType, *, rounds: bool) -> float:
    if isinstance(value, float) and not math.isfinite(value):
        raise Wrong
    became = float(value) if isinstance(kind, DoubleType) else nearest_float(Fraction(value))
    if Fraction(became) != Fraction(value) and not rounds:
        raise Wrong(misfit=True)
    return math.copysign(became, value)

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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import types as T

from backfill_assets_tests.faults.landing_clocks import NoInstant, Times, has_zone, instant_of, judged, reading


class FileRefused(Exception):
    """The file has to be refused as a whole; one of the texts between bars has to occur in the sentence."""


class Wrong(ValueError):
    """A value that its column does not take."""

    def __init__(self, *, misfit: bool = False, quoted: bool = True) -> None:
        self.misfit, self.quoted = misfit, quoted


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record of a file."""

    written: Mapping[str, Any]  #: By column, what the file has.
    types: Mapping[str, pa.DataType] = field(default_factory=dict)  #: By column, as which type a Parquet file has it.
    values: Mapping[str, Any] = field(default_factory=dict)  #: By column, its value or why it has none.
    broken: str | None = None  #: It is no record at all; the text has to occur in the reason.

    @property
    def culprits(self) -> tuple[str, ...]:
        """The columns for which it has to be rejected."""
        return tuple(name for name, value in self.values.items() if isinstance(value, Wrong))


def expected(
    content: bytes, name: str, schema: T.StructType, *, rounds: bool = False, times: Times | None = None
) -> list[Record]:
    """Every record of a file, in order.

    Args:
        content: The file.
        name: Its name, whose suffix is its format.
        schema: The contract.
        rounds: The source writes more digits than the contract keeps.
        times: What the source declares of times; without it instants have an offset, and no record has a partition.

    Raises:
        FileRefused: The file is refused as a whole.
    """
    if name.endswith(".parquet"):
        with reading(times, ""):
            found: Iterable[Record] = list(_parquet(content, schema, rounds))
    else:
        text = gzip.decompress(content) if name.endswith(".gz") else content
        if text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise FileRefused("UTF-16")
        text = text.removeprefix(codecs.BOM_UTF8)
        found = _csv(text, schema) if name.removesuffix(".gz").endswith(".csv") else _json_lines(text)
    records = list(found)
    sound = [record for record in records if record.broken is None]
    values = [_judged(record, schema, rounds, times) for record in sound]
    if times is not None:
        again = [_judged(record, schema, rounds, times, rule="second") for record in sound]
        types = {column.name: column.dataType for column in schema}
        judged(values, again, types, times, lambda: Wrong(quoted=False))
    known = iter(values)
    return [record if record.broken is not None else replace(record, values=next(known)) for record in records]


def _judged(record: Record, schema: T.StructType, rounds: bool, times: Times | None, rule: str = "") -> dict[str, Any]:
    values: dict[str, Any] = {}
    for column in schema:
        try:
            with reading(times, column.name, rule):
                value = value_of(record.written.get(column.name), column.dataType, rounds=rounds)
            missing = value is None or (isinstance(value, str) and not value.strip(" "))
            values[column.name] = Wrong() if missing and not column.nullable else value
        except Wrong as wrong:
            values[column.name] = wrong
    return values


def _require(columns: Sequence[str], schema: T.StructType) -> None:
    if any(column.name not in columns and not column.nullable for column in schema):
        raise FileRefused("has no column|has a line before the header")


# ------------------------------------------------------------------------------------------------- values


class Digits(str):
    """A JSON number as it was written."""


class LocalTime(int):
    """Nanoseconds of a timestamp of Parquet that has no zone."""


class Field(str):
    """A field of a CSV or a text of a Parquet file; it may be the JSON text of an array or a struct."""


class Members(tuple[tuple[str, Any], ...]):
    """The members of a JSON object or of a struct of Parquet, as they were written."""


def value_of(written: Any, kind: T.DataType, *, rounds: bool = False) -> Any:
    """The value of what a file has: of JSON or of Parquet, whose timestamps are nanoseconds.

    Raises:
        Wrong: It has none.
    """

    def inner(written: Any, kind: T.DataType, nullable: bool) -> Any:
        value = value_of(written, kind, rounds=rounds)
        if value is None and not nullable:
            raise Wrong
        return value

    match kind, written:
        case _, None:
            return None
        case ((T.ArrayType() | T.StructType()), Field()):
            found = _from_field(written)
            return None if found is None else value_of(found, kind, rounds=rounds)
        case T.ArrayType(), list():
            return [inner(each, kind.elementType, kind.containsNull) for each in written]
        case T.StructType(), Members():
            members = dict(written)
            if len(members) < len(written) or members.keys() - set(kind.names):
                raise Wrong
            return {each.name: inner(members.get(each.name), each.dataType, each.nullable) for each in kind}
        case ((T.ArrayType() | T.StructType()), _):
            raise Wrong
        case _, str():
            if _half_pair(written):  # of a byte that is no UTF-8
                raise Wrong
            return from_text(str(written), kind, rounds=rounds)
        case _, (bool() | list() | Members()):
            return from_text(compact(written), kind, rounds=rounds)
        case T.BinaryType(), bytes():
            return written
        case _, bytes():
            return value_of(Field(written.decode("utf-8", "surrogateescape")), kind, rounds=rounds)
        case T.DateType(), LocalTime():
            days, rest = divmod(written, 86_400 * 10**9)
            if rest:
                raise Wrong
            return days
        case T.DateType(), int():
            return written
        case ((T.TimestampType() | T.TimestampNTZType()), int()):
            if written % 1_000 and not rounds:
                raise Wrong(misfit=True)
            is_local = isinstance(written, LocalTime) and isinstance(kind, T.TimestampType)
            return _shown_at(written // 1_000) if is_local else written // 1_000
    return from_number(written, kind, rounds=rounds)


def from_number(number: int | float | Decimal, kind: T.DataType, *, rounds: bool = False) -> Any:
    """The value of a number of Parquet.

    Raises:
        Wrong: It has none.
    """
    if not math.isfinite(number):
        if isinstance(kind, (T.FloatType, T.DoubleType)):
            return float(number)
        raise Wrong
    match kind:
        case T.DecimalType():
            return decimal(Decimal(number), kind, rounds=rounds)
        case T.FloatType() | T.DoubleType():
            became = float(number) if isinstance(kind, T.DoubleType) else nearest_float(Fraction(number))
            if (became == 0 and number != 0) or (Fraction(became) != Fraction(number) and not rounds):
                raise Wrong(misfit=True)
            return math.copysign(became, number)
    if number != int(number):
        raise Wrong
    return whole(int(number), kind)


def _from_field(text: str) -> Any:
    if not text.strip(" "):
        return None
    try:
        found = parsed(text)
    except ValueError as error:
        raise Wrong from error
    if found is None:
        raise Wrong
    return found


# --------------------------------------------------------------------------------------------------- JSON


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
    if _half_pair(compact(value)):
        raise _HalfPair
    return value


def _half_pair(text: str) -> bool:
    return re.search("[\ud800-\udfff]", text) is not None


def compact(value: Any) -> str:
    """JSON text of a value: members in the order as written, digits as written."""
    match value:
        case Digits():
            return str(value)
        case Members():
            return "{" + ",".join(f"{compact(name)}:{compact(member)}" for name, member in value) + "}"
        case list():
            return "[" + ",".join(map(compact, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _json_lines(content: bytes) -> Iterator[Record]:
    for line in re.split(rb"\r\n|\n|\r", content):
        if not line.strip(b" \t"):
            continue
        broken = ""
        try:
            found = parsed(line.decode())
            if isinstance(found, Members) and len(dict(found)) == len(found):
                yield Record(written=dict(found))
                continue
        except _HalfPair:
            broken = "the line holds half of a surrogate pair"
        except ValueError:
            pass
        yield Record(written={"line": line}, broken=broken)


# --------------------------------------------------------------------------------------------------- CSV

_FIELD = re.compile(r'(?:"((?:[^"]|"")*)"|([^",\r\n][^,\r\n]*|))(,|\r\n|\n|\r|\Z)')


def _csv(content: bytes, schema: T.StructType) -> Iterator[Record]:
    header, *rows = csv_rows(content.decode("utf-8", "surrogateescape"))
    _require(header, schema)
    for row in rows:
        if len(row) != len(header) or _half_pair("".join(row)):
            yield Record(written={"row": row}, broken="")
        else:
            yield Record(written={name: Field(text) for name, text in zip(header, row, strict=True) if text})


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


# -------------------------------------------------------------------------------------------------- texts

_NUMBER = re.compile(r"[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]{1,3})?")
NOT_FINITE = ("NaN", "Infinity", "-Infinity")
_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.]([0-9]{1,9}))?)?"
    r"(Z|[+-][0-9]{2}(?::?[0-9]{2})?)?"
)
_BITS: Mapping[type[T.DataType], int] = {T.ByteType: 8, T.ShortType: 16, T.IntegerType: 32, T.LongType: 64}
_EPOCH = date(1970, 1, 1).toordinal()


def from_text(text: str, kind: T.DataType, *, rounds: bool = False) -> Any:
    """The value of a text, of any type but arrays and structs.

    Raises:
        Wrong: It has none.
    """
    if isinstance(kind, T.StringType):
        return text
    if not text.strip(" "):
        return b"" if isinstance(kind, T.BinaryType) and not text else None
    match kind:
        case T.ByteType() | T.ShortType() | T.IntegerType() | T.LongType():
            return whole(int(_form(r"[+-]?[0-9]{1,19}", text)), kind)
        case T.FloatType() | T.DoubleType():
            return float(text) if text in NOT_FINITE else _binary_number(_form(_NUMBER, text), kind)
        case T.DecimalType():
            return decimal(Decimal(_form(_NUMBER, text)), kind, rounds=rounds)
        case T.BooleanType():
            return _form("true|false", text) == "true"
        case T.DateType():
            return _day(_form("[0-9]{4}-[0-9]{2}-[0-9]{2}", text))
        case T.TimestampType() | T.TimestampNTZType():
            return _instant(text, rounds=rounds, zoned=isinstance(kind, T.TimestampType))
        case T.BinaryType():
            return base64.b64decode(_form("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", text))
    raise AssertionError(f"{kind} is not supported")


def _form(pattern: str | re.Pattern[str], text: str) -> str:
    if not re.fullmatch(pattern, text):
        raise Wrong
    return text


def whole(number: int, kind: T.DataType) -> int:
    """A number within the range of a type of whole numbers."""
    half = 1 << (_BITS[type(kind)] - 1)
    if not -half <= number < half:
        raise Wrong(misfit=True)
    return number


def decimal(number: Decimal, kind: T.DecimalType, *, rounds: bool = False) -> Decimal:
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


def _binary_number(text: str, kind: T.DataType) -> float:
    number = Decimal(text)
    value = float(text) if isinstance(kind, T.DoubleType) else nearest_float(Fraction(number))
    if math.isinf(value) or (value == 0 and number != 0):
        raise Wrong(misfit=True)
    return math.copysign(value, -1 if text.startswith("-") else 1)


FIRST, END = -719_162 * 86_400 * 10**6, 2_932_897 * 86_400 * 10**6
"""The microseconds at which the year 1 begins, and the year 10000."""


def _day(text: str) -> int:
    try:
        return date.fromisoformat(text).toordinal() - _EPOCH
    except ValueError as error:
        raise Wrong from error


def _instant(text: str, *, rounds: bool, zoned: bool) -> int:
    found = _TIME.fullmatch(text)
    if found is None or (not zoned and found[6] is not None) or (zoned and found[6] is None and not has_zone()):
        raise Wrong
    hours, minutes, seconds = int(found[2]), int(found[3]), int(found[4] or 0)
    offset = (found[6] or "Z").replace(":", "").replace("Z", "+0000").ljust(5, "0")
    ahead = (int(offset[1:3]) * 60 + int(offset[3:5])) * (-1 if offset[0] == "-" else 1)
    if hours > 23 or minutes > 59 or seconds > 59 or abs(ahead) > 18 * 60 or int(offset[3:5]) > 59:
        raise Wrong
    fraction = (found[5] or "").ljust(9, "0")
    if int(fraction[6:]) and not rounds:
        raise Wrong(misfit=True)
    at = ((_day(found[1]) * 24 + hours) * 60 + minutes - ahead) * 60_000_000 + seconds * 10**6 + int(fraction[:6])
    at = _shown_at(at) if zoned and found[6] is None else at
    if not FIRST <= at < END:
        raise Wrong
    return at


def _shown_at(local: int) -> int:
    try:
        return instant_of(local)
    except NoInstant as error:
        raise Wrong from error


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


def _parquet(content: bytes, schema: T.StructType, rounds: bool) -> Iterator[Record]:
    with pq.ParquetFile(io.BytesIO(content)) as file:
        leaves = (file.schema.column(n) for n in range(len(file.schema.names)))
        int96 = any(leaf.physical_type == "INT96" for leaf in leaves)
        table = file.read()
    _require(table.column_names, schema)
    types = {name: table.schema.field(name).type for name in table.column_names}
    for column in schema:
        if column.name in types and not int96:  # which is an instant by convention
            _refuse_local_time(column.name, types[column.name], column.dataType)
    for row in zip(*(plain(table[name]) for name in types), strict=True):
        if (
            int96
            and not rounds
            and any(_is_cut(row[place], types[n]) for place, n in enumerate(types) if n in schema.names)
        ):
            raise FileRefused("digits below the microsecond, as INT96")
        written = {name: _typed(v, types[name]) for name, v in zip(types, row, strict=True)}
        if int96:
            written = {name: _as_instants(value) for name, value in written.items()}
        yield Record(written=written, types=types)


def _as_instants(value: Any) -> Any:
    """A value of a file whose timestamps are instants, although Arrow has no zone for them."""
    match value:
        case LocalTime():
            return int(value)
        case Members():
            return Members((name, _as_instants(member)) for name, member in value)
        case list():
            return [_as_instants(each) for each in value]
    return value


def _is_cut(value: Any, found: pa.DataType) -> bool:
    """Whether a value has digits below the microsecond, which readers of INT96 do not give back."""
    if value is None:
        return False
    if pa.types.is_list(found):
        return any(_is_cut(each, found.value_type) for each in value)
    if pa.types.is_struct(found):
        return any(_is_cut(value[each.name], each.type) for each in found)
    return bool(pa.types.is_timestamp(found) and found.unit == "ns" and value % 1_000)


def _refuse_local_time(name: str, found: pa.DataType, kind: T.DataType) -> None:
    if isinstance(kind, T.TimestampType) and pa.types.is_timestamp(found) and found.tz is None and not has_zone():
        raise FileRefused(name)
    if isinstance(kind, T.ArrayType) and pa.types.is_list(found):
        _refuse_local_time(name, found.value_type, kind.elementType)
    if isinstance(kind, T.StructType) and pa.types.is_struct(found):
        for each in kind:
            _refuse_local_time(name, found.field(each.name).type, each.dataType)


def _typed(value: Any, found: pa.DataType) -> Any:
    """What `value_of` takes of a plain value."""
    if value is None:
        return None
    if pa.types.is_list(found):
        return [_typed(each, found.value_type) for each in value]
    if pa.types.is_struct(found):
        return Members((each.name, _typed(value[each.name], each.type)) for each in found)
    if pa.types.is_timestamp(found):
        nanoseconds = value * {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}[found.unit]
        return nanoseconds if found.tz else LocalTime(nanoseconds)
    if pa.types.is_dictionary(found) or pa.types.is_string(found) or pa.types.is_large_string(found):
        return Field(value.decode("utf-8", "surrogateescape"))
    return value

"""Contracts, and files whose values take their shapes from public data, made from a seed.

Nothing here knows which values are right: `landing_oracle` reads the files. About half of the records have one value
that was made to be refused, or to come close to it.
"""

from __future__ import annotations

import base64
import codecs
import gzip
import io
import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import types as T

from backfill_assets_tests.faults.landing_oracle import storable

FORMATS = ("JSON lines", "CSV", "Parquet")
ID, AT = "record_id", "at"
"""The key and the event time, which are right in every record that can be read."""

WHOLE: dict[T.DataType, int] = {T.ByteType(): 8, T.ShortType(): 16, T.IntegerType(): 32, T.LongType(): 64}
DECIMALS = tuple(
    T.DecimalType(*each) for each in ((10, 2), (38, 0), (38, 18), (38, 38), (18, 4), (5, 5), (20, 2), (1, 0))
)
OTHERS = (
    T.StringType(), T.FloatType(), T.DoubleType(), T.BooleanType(), T.DateType(), T.TimestampType(),
    T.TimestampNTZType(), T.BinaryType(),
)  # fmt: skip
ATOMIC: Sequence[T.DataType] = (*WHOLE, *OTHERS, *DECIMALS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """A file, and how it was made."""

    kind: str
    name: str
    content: bytes


# ---------------------------------------------------------------------------------------------- contracts


def contract(chance: random.Random, *, columns: int, depth: int = 3) -> T.StructType:
    """A contract of a key, an event time and columns of any types, nested to a depth."""
    kinds = chance.sample(ATOMIC, len(ATOMIC))
    flat = 0.7 if depth else 1
    kinds = [kinds[n % len(kinds)] if chance.random() < flat else nested_type(chance, depth) for n in range(columns)]
    named = [T.StructField(f"{kind.typeName()}_{n}", kind, chance.random() < 0.7) for n, kind in enumerate(kinds)]
    return T.StructType([T.StructField(ID, T.StringType(), False), T.StructField(AT, T.TimestampType(), False), *named])


def nested_type(chance: random.Random, depth: int) -> T.DataType:
    """An array or a struct of atomic types, or of others of less depth."""

    def inner() -> T.DataType:
        if depth > 1 and chance.random() < 0.4:
            return nested_type(chance, depth - 1)
        return chance.choice(ATOMIC)

    if chance.random() < 0.5:
        return T.ArrayType(inner(), chance.random() < 0.7)
    names = chance.sample(("amount", "Code", "größe", "at"), chance.randint(1, 3))
    return T.StructType([T.StructField(name, inner(), chance.random() < 0.7) for name in names])


# -------------------------------------------------------------------------------------------------- texts

PUBLIC: Sequence[str] = (
    # Tables of statistical offices and councils, saved by a spreadsheet.
    "1,234.56", "1.234,56", "1 234,56", "1\u00a0234", "(5)", "$5", "5 €", "5%", "-", "--", "n/a", "..", "#N/A", "#REF!",
    "=cmd()", "TRUE", "FALSE", "1/2", "1.23E+11", "'007", "01/02/2026", "31.12.2026", "2-Jan-26", "Jan-26", "46000",
    # Dumps of databases.
    "NULL", "\\N", "null", "None", "nil", "t", "f", "Y", "\\x00ff", "0000-00-00", "0000-00-00 00:00:00", "infinity",
    # Printed by programs: open weather and sensor data, logs of Python, C and JavaScript.
    "NaN", "nan", "inf", "-Infinity", "Infinity", "1e3", "1E+5", ".5", "5.", "+5", "-0", "-0.0", "1_000", "0x1F", "5f",
    "5d", "5L", "1e400", "-1e400", "1e-400", "1e", "e5", ".", "+", "0.30000000000000004", "5.0", "1e0005", "[object]",
    # Identifiers: post codes, tax numbers, ids of tweets and of orders in shops.
    "007", "00501", "12345678901234567", "1234567890123456789", "9223372036854775808", "0" * 18 + "1", "0" * 19 + "1",
    "12345678901234567.5", "9" * 38, "1" + "0" * 38,
    # Amounts of ledgers and prices of electricity.
    "0.0005", "10000000.50", "1.239", "1.2300", "99999999.99", "99999999.994", "99999999.995", "-0.005", "0.005",
    "120e-1", "1e2", "0e400", "1.5", "2.5",
    # Written in other alphabets, or by hand.
    "\u0663", "\uff15", "\u22125", " 5", "5 ", "5\n", "\t5", "5\u00a0", "\ufeff5", "yes", "tRue", "true ", "1 2", "",
    " ", "   ", "\t", "\u00a0", "\n", "5\r\n", "\u22121", "1,5", "5'000", "½", "0x", "00", "000.0", "-.5", "+.5e-1",
    "1" * 400, "0." + "0" * 60 + "1", "1." + "0" * 60, "1e-38", "1e-39", "3.5e38", "1.8e308", "5e-324", "2e-324",
    # Dates and times of timetables, police records and telemetry.
    "2026-1-2", "20260102", "2026-02-30", "2026-02-29", "2024-02-29", "2026-13-01", "2026-00-10", "2026-01-02 ",
    "2026-01-02T03:04:05", "2026-01-02T03:04:05Z", "2026-01-02 03:04:05.123456789Z", "2026-01-02T03:04:05.1234567000Z",
    "2026-01-02 03:04:05 Europe/Rome", "2026-01-02T03:04:05[Europe/Rome]", "2026-01-02T03:04:05 UTC", "1767322245",
    "1767322245000", "2026-01-02T03:04:05+25:00", "2026-01-02t03:04:05z", "2026-01-02T03:04:05,123Z",
    "20260102T030405Z", "2026-01-02T03:04Z", "2026-01-02T3:04Z", "2026-01-02T03:60Z", "2016-12-31T23:59:60Z",
    "2026-01-02T25:00Z", "12026-01-02", "+2026-01-02", "-2026-01-02", "26-01-02", "2026-W01", "2026-002", "2026",
    "0001-01-01", "1582-10-10", "1899-12-30", "9999-12-31", "0001-01-01T00:00:00Z", "1582-10-10T00:00:00Z",
    "1899-12-30 00:00:00", "2026-01",
    # Bytes in a text: pictures and keys.
    "AP8=", "AP8", "A_-8", "AP8=\n", "====", "AP8==", "data:AP8=",
    # Columns of JSON in tables of maps and of social media.
    "[]", "{}", "[1", "{'a': 1}", "(1, 2)", "[1] x", "{1,2}",
)  # fmt: skip
STRINGS: Sequence[str] = (
    # Names, remarks and addresses as they are typed.
    "Forlì", "O'Brien", 'say "hi", you', 'a 5" pipe', ",", '"', '""', "a,b\r\nc", "two\nlines", "one\rtwo", "end\n",
    "\nstart", " leading", "trailing ", "\ttab\t", "\x00nul", "a\x00b", "\x1b[31m", "\u2028", "\u0085", "\ufeffbom",
    "\u200b", "e\u0301", "🚓", "\\", "\\\\", "\\ud800", 'back\\"slash', "#comment", "//", "--", "a;b|c", "<b>", "&amp;",
    "x" * 3_000, "mojibakeÃ¬",
)  # fmt: skip
ZONES = ("Z", "+01:00", "+0100", "+01", "-11:30", "+05:45", "-03", "+14:00", "-00:00")
BAD_ZONES = ("", " Europe/Rome", "[Europe/Rome]", "+25:00", "+01:75", "z", " Z", "UTC", " EST", "+1", "+1:00")


def text_of(chance: random.Random, kind: T.DataType, odd: bool) -> str:
    """A text of an atomic type; an odd one may be of another form, or at the end of what fits."""
    if isinstance(kind, T.StringType):
        return chance.choice(STRINGS if chance.random() < 0.5 else PUBLIC)
    if odd and chance.random() < 0.6:
        return chance.choice(PUBLIC)
    number = number_of(chance, kind, odd)
    match kind:
        case T.BooleanType():
            return chance.choice(["True", "1", "false ", "no"] if odd else ["true", "false"])
        case T.DateType():
            day = _day(chance)
            return chance.choice([f" {day}", f"{day}T00:00:00", day.replace("-", "/"), f"{day}Z"]) if odd else day
        case T.TimestampType() | T.TimestampNTZType():
            zones = (ZONES, BAD_ZONES) if isinstance(kind, T.TimestampType) else (("",), ("Z", "+01:00"))
            digits = chance.choice([0, 1, 3, 6, 7, 9] if odd else [0, 3, 6])
            fraction = f"{chance.randrange(10**9):09}"[:digits]
            seconds = f":{chance.randrange(60):02}" + (f".{fraction}" if fraction else "")
            if fraction and not odd and chance.random() < 0.2:
                seconds = seconds.ljust(13, "0")
            clock = f"{chance.randrange(24):02}:{chance.randrange(60):02}{chance.choice([seconds, seconds, ''])}"
            return f"{_day(chance)}{chance.choice('T ')}{clock}{chance.choice(zones[odd and chance.random() < 0.5])}"
        case T.BinaryType():
            encoded = base64.b64encode(chance.randbytes(chance.randint(1, 9))).decode()
            wrong = [encoded.rstrip("="), encoded + "=", encoded[:2] + "\n" + encoded[2:]]
            return chance.choice(wrong if odd else [encoded])
        case T.FloatType() | T.DoubleType():
            return chance.choice([repr(number), f"{number:.3e}", f"{number:+.2f}", repr(number).upper()])
        case T.DecimalType():
            return _spelled(chance, number)
    return chance.choice([str(number), f"{number:+}", f"{number:06}", str(number)])


def _day(chance: random.Random) -> str:
    year = chance.choice([1, 1582, 1899, 1969, 2024, 9999] if chance.random() < 0.05 else range(1900, 2100))
    edge = year in (1, 9999)  # an offset would leave the calendar
    return f"{year:04}-{chance.randint(2, 11 if edge else 12):02}-{chance.randint(1, 28):02}"


def _spelled(chance: random.Random, number: Decimal) -> str:
    text = f"{number:f}"
    match chance.randrange(8):
        case 0:
            return text + ("00" if "." in text else ".00")
        case 1:
            return re.sub(r"^(-?)0\.", r"\1.", text) if "." in text else text + "."
        case 2:
            return f"{number:e}"
        case 3:
            return f"{number:E}".replace("E+", "E")
        case 4:
            return text if number.is_signed() else "00" + text
        case 5:
            return text if number.is_signed() else "+" + text
    return text


def number_of(chance: random.Random, kind: T.DataType, odd: bool) -> Any:
    """A number that fits a type, or an odd one that nearly does or does not."""
    match kind:
        case T.ByteType() | T.ShortType() | T.IntegerType() | T.LongType():
            half = 1 << (WHOLE[kind] - 1)
            edge = (half, -half - 1, half * 3) if odd else (half - 1, -half)
            return chance.choice([*edge, chance.randrange(-half, half), chance.randrange(-100, 100)])
        case T.FloatType() | T.DoubleType():
            most = 300 if isinstance(kind, T.DoubleType) else 37
            large = chance.choice([1, -1]) * 10 ** chance.uniform(-most, most)
            number = chance.choice([chance.uniform(-1e4, 1e4), large])
            return number * 10.0 ** chance.choice([-most / 2, most / 2, 0]) if odd and abs(number) < 1e100 else number
        case T.DecimalType():
            digits = chance.randint(0, kind.precision + odd)
            exponent = -kind.scale - (chance.randrange(4) if odd else 0)
            return Decimal((chance.randrange(2), _digits(chance, digits), exponent))
    return None


def _digits(chance: random.Random, count: int) -> tuple[int, ...]:
    return tuple(chance.choice([chance.randrange(10), 9, 0, 5]) for _ in range(count)) or (0,)


# --------------------------------------------------------------------------------------------------- JSON

_JSON_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][+-]?[0-9]+)?")
# Written by hand, by templates and by `json.dumps` of Python: no JSON.
_NO_JSON = (
    "01", "+1", ".5", "1.", "NaN", "-Infinity", "1_000", "0x1F", "'x'", "True", "None", "{5: 1}", "[1,]", "{,}"
)  # fmt: skip
_OBJECTS = (
    '{"a":"\\u0000\\/\\t\\\\ \\"","b":{"c":[true,false,null]}}', '{"z":1,"a":123456789012345678901234567890.10}',
    '{"b": 1.0, "a": [null, 1E5, -0]}', '[ 1, "x", {"é": "\\u00e9\\n"} ]', "{}", "[]", "[[1],[2.50]]", '{"a":{"a":{}}}'
)  # fmt: skip


def json_of(chance: random.Random, field: T.StructField, odd: bool) -> str:
    """JSON text of a value."""
    kind = field.dataType
    if chance.random() < (0.1 if field.nullable else 0.1 * odd):
        return "null"
    if odd and chance.random() < 0.08:
        return chance.choice([*_NO_JSON, *_OBJECTS, '"\\ud800"', '"\\udc00\\ud800 "', '{"\\udfff": 1}'])
    space = chance.choice(["", " "])
    match kind:
        case T.ArrayType():
            count = chance.choice([0, 1, 1, 2, 3])
            element = T.StructField("element", kind.elementType, kind.containsNull)
            at = chance.randrange(max(count, 1)) if odd else -1
            return "[" + f",{space}".join(json_of(chance, element, n == at) for n in range(count)) + "]"
        case T.StructType():
            members = [each for each in kind if not each.nullable or chance.random() < 0.9]
            chance.shuffle(members)
            at = chance.randrange(max(len(members), 1)) if odd else -1
            written = [f"{_quoted(chance, m.name)}:{space}{json_of(chance, m, n == at)}" for n, m in enumerate(members)]
            if odd and chance.random() < 0.3:
                more = ['"more":1', f'"{kind.names[0].upper()}": null', f'"{kind.names[0]}":null']
                written.insert(chance.randrange(len(written) + 1), chance.choice(more))
            return "{" + f",{space}".join(written) + "}"
    text = text_of(chance, kind, odd)
    if isinstance(kind, T.StringType) and chance.random() < 0.1:
        return chance.choice(_OBJECTS)
    if (_JSON_NUMBER.fullmatch(text) or text in ("true", "false")) and chance.random() < 0.7:
        return text
    return _quoted(chance, text)


def _quoted(chance: random.Random, text: str) -> str:
    return json.dumps(text, ensure_ascii=chance.random() < 0.5)


def _json_line(chance: random.Random, key: str, schema: T.StructType) -> bytes:
    columns = [each for each in schema if each.name not in (ID, AT)]
    at = chance.randrange(len(columns)) if chance.random() < 0.5 else -1
    members = [f'"{ID}": "{key}"', f'"{AT}":"2024-05-01T10:00:00Z"', '"Extra": {"x": 1}']
    for n, column in enumerate(columns):
        if n == at or not column.nullable or chance.random() < 0.95:
            members.append(f"{_quoted(chance, column.name)}: {json_of(chance, column, n == at)}")
    chance.shuffle(members)
    line = ("{" + ",".join(members) + "}").encode()
    if chance.random() < 0.95:
        return line
    return chance.choice(
        [
            line[:-1] + chance.choice([b',"x":1,"x":1}', b",}", b"}}", b"} x", b"\x00}", b',"x":"\t"}']),
            line[:-1] + chance.choice([b',"x":"\\ud83d"}', b',"x":"\\ud83d\\ude00"}', b',"\\ude00\\ud83d":1}']),
            line[:-1] + b',"x":"' + chance.choice(BAD_BYTES) + b'"}',
            line[:-1] + f',"{ID}":"{key}"}}'.encode(),
            codecs.BOM_UTF8 + line,
            b" \t" + line + b" ",
            line[: len(line) // 2],
        ]
    )  # fmt: skip


BAD_BYTES = (
    b"Forl\xec",  # Latin-1
    b"\xed\xa0\xbd\xed\xb8\x80",  # CESU-8, as Java's and Oracle's exports have it
    b"\xc0\x80",  # the NUL of Java
    b"\xe2\x82",  # cut at a number of bytes
)


def _json_file(chance: random.Random, schema: T.StructType, keys: Sequence[str]) -> bytes:
    lines = [_json_line(chance, key, schema) for key in keys]
    endings = chance.choice([(b"\n",), (b"\r\n",), (b"\r",), (b"\n", b"\r\n", b"\r"), (b"\n", b"\n\n", b"\n  \r\n")])
    content = b"".join(line + chance.choice(endings) for line in lines)
    content = content if chance.random() < 0.7 else content.rstrip(b"\r\n")
    return content if chance.random() < 0.8 else codecs.BOM_UTF8 + content


# ---------------------------------------------------------------------------------------------------- CSV


def field_of(chance: random.Random, column: T.StructField, odd: bool) -> str:
    """The field of a CSV."""
    if chance.random() < (0.1 if column.nullable else 0.1 * odd):
        return ""
    if isinstance(column.dataType, T.ArrayType | T.StructType):
        return json_of(chance, T.StructField(column.name, column.dataType, False), odd)
    return text_of(chance, column.dataType, odd)


def _csv_file(chance: random.Random, schema: T.StructType, keys: Sequence[str], endings: Sequence[str]) -> bytes:
    columns = [each for each in schema if not each.nullable or chance.random() < 0.95]
    columns += [
        T.StructField(name, T.StringType()) for name in chance.sample(["extra", "Record_Id"], chance.randrange(3))
    ]
    chance.shuffle(columns)
    quotes_all, rows = chance.random() < 0.3, [[each.name for each in columns]]
    choices = [n for n, each in enumerate(columns) if each.name not in (ID, AT)]
    for key in keys:
        at = chance.choice(choices) if chance.random() < 0.5 else -1
        known = {ID: key, AT: "2024-05-01T10:00:00Z"}
        rows.append([known.get(each.name) or field_of(chance, each, n == at) for n, each in enumerate(columns)])
        if chance.random() < 0.02:
            rows[-1] = chance.choice([rows[-1][:-1], [*rows[-1], ""]])

    def written(field: str) -> str:
        # A quote in the middle of an unquoted field is as good as any other letter, and inches are written so.
        needs = re.search('[,\r\n]|^"', field) is not None or ('"' in field and chance.random() < 0.9)
        return '"' + field.replace('"', '""') + '"' if quotes_all or needs or chance.random() < 0.05 else field

    content = b""
    for row in rows:
        line = ",".join(map(written, row)).encode()
        if content and chance.random() < 0.02:
            line = line.replace(b"e", chance.choice(BAD_BYTES), 1)
        content += line + chance.choice(endings).encode() * chance.choice([1] * 19 + [2])
    content = content if chance.random() < 0.7 else content.rstrip(b"\r\n")
    return content if chance.random() < 0.8 else codecs.BOM_UTF8 + content


# ------------------------------------------------------------------------------------------------ Parquet

_SIGNED, _UNSIGNED = (
    (pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
)


def stored_as(chance: random.Random, kind: T.DataType, units: Sequence[str] = ("ms", "us", "ns")) -> pa.DataType:
    """A type of Arrow whose values can become those of a type."""
    if chance.random() < 0.15:  # everything as text, as crawlers store it
        return chance.choice([pa.string(), pa.large_string()])
    match kind:
        case T.StringType():
            return chance.choice([pa.string(), pa.dictionary(pa.int32(), pa.string()), pa.binary()])
        case T.ByteType() | T.ShortType() | T.IntegerType() | T.LongType():
            # pandas makes floats of whole numbers with gaps, databases decimals of NUMBER.
            return chance.choice([*_SIGNED, *_UNSIGNED, pa.float64(), pa.decimal128(20, 0), pa.decimal128(38, 2)])
        case T.FloatType() | T.DoubleType():
            return chance.choice([pa.float32(), pa.float64(), pa.int32(), pa.int64()])
        case T.DecimalType():
            scale = chance.choice([kind.scale, kind.scale, 0, 2, 10])
            other = pa.decimal128(chance.choice([38, max(scale, kind.precision)]), scale)
            return chance.choice([pa.decimal128(kind.precision, kind.scale), other, pa.int32(), pa.int64()])
        case T.BooleanType():
            return pa.bool_()
        case T.DateType():
            # pandas has no other dates than timestamps of midnight.
            return pa.date32() if len(units) == 1 else chance.choice([pa.date32(), pa.timestamp("us")])
        case T.TimestampType() | T.TimestampNTZType():
            zone = chance.choice(["UTC", "America/New_York", "+01:00"]) if isinstance(kind, T.TimestampType) else None
            return pa.timestamp(chance.choice(units), tz=zone)
        case T.BinaryType():
            return chance.choice([pa.binary(), pa.large_binary()])
        case T.ArrayType():
            return pa.list_(_dense(stored_as(chance, kind.elementType, units)))
        case T.StructType():
            return pa.struct(
                [
                    (each.name, _dense(stored_as(chance, each.dataType, units)))
                    for each in chance.sample(list(kind), len(kind))
                ]
            )
    raise AssertionError(kind)


def _dense(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind  # pyarrow cannot read nested dictionaries back


def stored_value(chance: random.Random, column: T.StructField, found: pa.DataType, odd: bool) -> Any:
    """A value of the `storable` type of a type of Arrow."""
    kind = column.dataType
    if chance.random() < (0.1 if column.nullable else 0.1 * odd):
        return None
    if pa.types.is_dictionary(found):
        found = found.value_type
    if pa.types.is_string(found) or pa.types.is_large_string(found) or isinstance(kind, T.StringType):
        return chance.choice(BAD_BYTES) if odd and chance.random() < 0.3 else field_of(chance, column, odd).encode()
    if pa.types.is_integer(found):
        half = 1 << (found.bit_width - 1)
        least, most = (-half, half) if found in _SIGNED else (0, 2 * half)
        bound = 1 << (WHOLE.get(kind, 25) - 1)
        if isinstance(kind, T.DecimalType):
            bound = 10 ** (kind.precision - kind.scale)
        return chance.randrange(least, most) if odd else chance.randrange(max(least, 1 - bound), min(most, bound))
    if pa.types.is_floating(found):
        whole = chance.randrange(-(1 << 7), 1 << 7)
        if odd:
            return chance.choice([float("nan"), float("inf"), 0.1, 2.5, 1e30, -0.0, float(whole), 5e-324, 2.0**63])
        return float(whole) if kind in WHOLE else chance.choice([whole / 8, whole / 1024, -0.0, whole * 2.0**100])
    if pa.types.is_decimal(found):
        scale = getattr(kind, "scale", 0)
        room = min(found.precision - found.scale, getattr(kind, "precision", 3) - scale)
        digits = found.precision if odd else max(room, 0) + min(scale, found.scale)
        number = Decimal((chance.randrange(2), _digits(chance, chance.randint(0, digits)), 0))
        return number.scaleb(-found.scale if odd else -min(scale, found.scale))
    match kind:
        case T.BooleanType():
            return chance.random() < 0.5
        case T.DateType():
            day = chance.choice([-719162, -141428, -25569, 0, chance.randrange(-30_000, 50_000)])
            late = chance.choice([0, 1, 43_200_000_000]) if odd else 0
            return day * 86_400_000_000 + late if pa.types.is_timestamp(found) else day
        case T.TimestampType() | T.TimestampNTZType():
            ticks = {"ms": 10**3, "us": 10**6, "ns": 10**9}[found.unit]
            seconds = chance.choice([0, -1, chance.randrange(-(10**9), 4 * 10**9), chance.randrange(2**31)])
            if found.unit != "ns" and chance.random() < 0.05:
                seconds = -62_135_596_800  # the first moment of .NET's calendar
            step = 1_000 if found.unit == "ns" and not odd else 1
            return seconds * ticks + chance.randrange(0, ticks, step)
        case T.BinaryType():
            return chance.randbytes(chance.randint(0, 5))
        case T.ArrayType():
            count = chance.choice([0, 1, 1, 2, 3])
            at = chance.randrange(max(count, 1)) if odd else -1
            element = T.StructField("element", kind.elementType, kind.containsNull)
            return [stored_value(chance, element, found.value_type, n == at) for n in range(count)]
        case T.StructType():
            at = chance.randrange(len(kind)) if odd else -1
            return {m.name: stored_value(chance, m, found.field(m.name).type, n == at) for n, m in enumerate(kind)}
    raise AssertionError(kind)


def _parquet_file(chance: random.Random, schema: T.StructType, keys: Sequence[str], *, zoneless: bool) -> bytes:
    columns = [each for each in schema if each.name != AT and (not each.nullable or chance.random() < 0.95)]
    chance.shuffle(columns)
    # Hive, Impala and older Sparks write instants as INT96, which has no flag for local times.
    int96 = "timestamp_ntz" not in schema.simpleString() and chance.random() < 0.3
    units = ("ns",) if int96 else ("ms", "us", "ns")
    types = {each.name: pa.string() if each.name == ID else stored_as(chance, each.dataType, units) for each in columns}
    odd = [chance.randrange(len(columns)) if chance.random() < 0.5 else -1 for _ in keys]
    table = {
        AT: pa.array([1_714_557_600_000_000] * len(keys)).cast(
            pa.timestamp("us", tz=None if zoneless and not int96 else "UTC")
        )
    }
    for n, each in enumerate(columns):
        values: list[Any] = [*keys]
        if each.name != ID:
            values = [stored_value(chance, each, types[each.name], at == n) for at in odd]
        table[each.name] = _array(values, types[each.name])
    out = io.BytesIO()
    pq.write_table(
        pa.table(table),
        out,
        row_group_size=chance.choice([7, 10_000]),
        compression=chance.choice(["none", "snappy", "gzip", "zstd"]),
        use_deprecated_int96_timestamps=int96,
        use_dictionary=chance.random() < 0.5,
        data_page_version=chance.choice(["1.0", "2.0"]),
        store_schema=chance.random() < 0.5,
    )
    return out.getvalue()


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return pa.array(values, pa.binary()).cast(kind.value_type, safe=False).dictionary_encode()
    return pa.array(values, storable(kind)).cast(kind, safe=False)


# -------------------------------------------------------------------------------------------------- files


def file_of(chance: random.Random, schema: T.StructType, kind: str, *, count: int, prefix: str) -> Generated:
    """A file of a format; one in fifteen has to be refused as a whole."""
    keys = [f"{prefix}-{n}" for n in range(count)]
    refused = chance.random() < 1 / 15
    if kind == "Parquet":
        return Generated(
            kind=kind, name=f"{prefix}.parquet", content=_parquet_file(chance, schema, keys, zoneless=refused)
        )
    if kind == "CSV":
        ending = chance.choice(["\n", "\r\n", "\r"])
        mixed = refused and chance.random() < 0.4
        content = _csv_file(chance, schema, keys, ("\n", "\r\n", "\r") if mixed else (ending,))
        if refused and not mixed:  # a title, or a header with the separator of continental Europe
            content = chance.choice(["Trees in parks;2026", "record_id;at"]).encode() + ending.encode() + content
    else:
        content = _json_file(chance, schema, keys)
    if refused and (kind != "CSV" or chance.random() < 0.3):
        content = content.decode(errors="replace").encode("utf-16")
    name = f"{prefix}.csv" if kind == "CSV" else f"{prefix}.jsonl"
    if chance.random() < 0.3:
        return Generated(kind=kind, name=name + ".gz", content=gzip.compress(content, mtime=0))
    return Generated(kind=kind, name=name, content=content)

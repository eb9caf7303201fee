"""What a landed value is: exactly what the source wrote, or a reason that names the column, the value and the type."""

from __future__ import annotations

import csv
import io
import json
import random
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Decimal, localcontext
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from backfill_assets.clock import Clock
from backfill_assets.domain import SourceTable
from backfill_assets.errors import InvalidDeclaration, UnreadableFile
from backfill_assets.landing.probe import _ticks
from backfill_assets.ledger.import_records import ImportCounts
from backfill_assets.settings import Settings
from backfill_assets_tests.landing_examples import EVENTS, LandingRoom, event, json_lines, landing_room, reasons

COLUMNS: dict[str, DataType] = {
    "note": StringType(),
    "short": ShortType(),
    "whole": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "money": DecimalType(10, 2),
    "units": DecimalType(10, 0),
    "share": DecimalType(2, 2),
    "precise": DecimalType(38, 18),
    "is_open": BooleanType(),
    "day": DateType(),
    "at": TimestampType(),
    "local": TimestampNTZType(),
    "bytes": BinaryType(),
    "numbers": ArrayType(IntegerType(), containsNull=False),
    "amounts": ArrayType(DecimalType(10, 2)),
    "line": StructType(
        [
            StructField("no", IntegerType(), nullable=False),
            StructField("price", DecimalType(10, 2)),
            StructField("tags", ArrayType(StringType())),
            StructField("when", StructType([StructField("at", TimestampType())])),
        ]
    ),
}
VALUES: SourceTable = replace(
    EVENTS,
    name="bronze.values",
    schema=StructType([*EVENTS.schema.fields[:2], *(StructField(name, kind) for name, kind in COLUMNS.items())]),
    json_columns=(),
)


@pytest.fixture
def opened(spark: SparkSession, settings: Settings, clock: Clock) -> Any:
    @contextmanager
    def of(source: SourceTable) -> Iterator[LandingRoom]:
        with landing_room(spark, settings, clock, source) as room:
            yield room

    return of


@pytest.fixture
def room(opened: Any) -> Iterator[LandingRoom]:
    with opened(VALUES) as room:
        yield room


@pytest.fixture
def rounding(opened: Any) -> Iterator[LandingRoom]:
    with opened(replace(VALUES, rounds=True)) as room:
        yield room


def parquet(table: dict[str, Any], **options: Any) -> bytes:
    out = io.BytesIO()
    count = len(next(iter(table.values())))
    common = {"event_id": [str(n) for n in range(count)], "event_time": ["2024-05-01T10:00:00Z"] * count}
    pq.write_table(pa.table({**common, **table}), out, **options)
    return out.getvalue()


def line(*members: str) -> str:
    """A line of JSON with members as they are written here."""
    return "{" + ", ".join(['"event_id": "e1"', '"event_time": "2024-05-01T10:00:00Z"', *members]) + "}"


def found(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> list[Any]:
    """Of each row the value of its column, or the reason why it is rejected."""
    return [row["_reason"] or row[name] for row, name in zip(rows, columns, strict=True)]


# ------------------------------------------------------------------------------------------------------- JSON numbers


def test_a_json_number_keeps_its_digits(room: LandingRoom) -> None:
    cases: list[tuple[str, str, Any]] = [
        ("precise", "0.0005", Decimal("0.0005")),
        ("precise", "0.123456789012345678", Decimal("0.123456789012345678")),
        ("precise", "12345678901234567890.000000000000000001", Decimal("12345678901234567890.000000000000000001")),
        ("money", "10000000.50", Decimal("10000000.50")),
        ("money", "1E5", Decimal("100000.00")),
        ("note", "20260102.10", "20260102.10"),
        ("note", "-0", "-0"),
        ("note", "-0.0", "-0.0"),
        ("note", "1E5", "1E5"),
        ("note", "1e400", "1e400"),
        ("note", "12345678901234567.5", "12345678901234567.5"),
        ("note", "9" * 3000, "9" * 3000),
        ("note", '"0.10"', "0.10"),
        ("note", "true", "true"),
        ("note", "null", None),
        (
            "note",
            '{"a" : [1.50, -0, "1.50 \\"", {"b": 1E2}], "c\\\\": 7}',
            '{"a":[1.50,-0,"1.50 \\"",{"b":1E2}],"c\\\\":7}',
        ),
        ("note", '[ 0.10, "\\u00e9\\n" ]', '[0.10,"é\\n"]'),
        ("note", '{"n":' + "8" * 2000 + "}", '{"n":' + "8" * 2000 + "}"),
    ]
    rows = room.judge("\n".join(line(f'"{name}": {text}') for name, text, _ in cases).encode(), "a.jsonl")
    assert found(rows, [name for name, _, _ in cases]) == [value for _, _, value in cases]


def test_keys_that_differ_behind_the_point_are_two_keys(room: LandingRoom) -> None:
    ids = ("12345678901234567.5", "12345678901234567.9")
    content = "\n".join(f'{{"event_id": {key}, "event_time": "2024-05-01T10:00:00Z"}}' for key in ids)
    counts = room.land(content.encode()).record.counts
    assert counts == ImportCounts(landed=2, accepted=2)
    assert [row["event_id"] for row in room.bronze([date(2024, 5, 1)])] == [*ids]


def test_what_json_does_not_call_a_value_is_no_line_of_json(room: LandingRoom) -> None:
    numbers = (
        "01",
        "+1",
        ".5",
        "1.",
        "-",
        "1e",
        "1e+",
        "0x1F",
        "1_000",
        "NaN",
        "-Infinity",
        "5٣",
        "1 2",
        "tru5",
        "--1",
    )
    whole = [line(f'"note": {number}') for number in numbers] + [line(f'"note": {{"a": [{n}]}}') for n in numbers]
    whole += ["{5: 1.5}", line('"note": 1.5: 2'), line("5: 1"), line('"note": "a"5'), line('"note": 1.5"a"')]
    good = line('"note": 1.5')
    whole += [f"{good},{{}}]", f"{good},{{}}] trailing", f'{good},{{"\ufdd0":""}}]', f"{good} 5", "[1.5]", "1.5"]
    rows = room.judge("\n".join(whole).encode(), "a.jsonl")
    expected: list[str | None] = ["the line is not a JSON object"] * len(whole)
    expected[-4] = "the line holds U+FDD0, which is no character"
    assert reasons(rows) == expected


def test_half_of_a_surrogate_pair_is_no_character(room: LandingRoom) -> None:
    half, mark = "the line holds half of a surrogate pair", "the line holds U+FDD0, which is no character"
    cases = [
        ('"\\ud800"', half),
        ('"\\uDBFF?"', half),
        ('"\\udc00\\ud800"', half),
        ('"\\ud83d\\ud83d\\ude00"', half),
        ('{"a": {"\\udfff": 1}}', half),
        ('"a", "\\ud800": 1', half),
        ('"\\\\\\ud800"', half),
        ('"\\\\ud800"', None),
        ('"\\ud83d\\ude00"', None),
        ('"\\ufdd0"', mark),
        ('"\\uFDD0\\n"', mark),
        ('"\ufdd05"', mark),
        ('"\\\\ufdd0"', None),
    ]
    rows = room.judge("\n".join(line(f'"note": {text}') for text, _ in cases).encode(), "a.jsonl")
    assert reasons(rows) == [reason for _, reason in cases]
    assert [row["note"] for row in rows if row["_reason"] is None] == ["\\ud800", "😀", "\\ufdd0"]


def test_keys_of_half_a_surrogate_pair_are_not_one_key(room: LandingRoom) -> None:
    content = "\n".join(
        f'{{"event_id": {key}, "event_time": "2024-05-01T10:00:00Z"}}' for key in ('"\\ud800"', '"\\ud801"', '"?"')
    )
    assert room.land(content.encode()).record.counts == ImportCounts(landed=3, accepted=1, rejected=2)


@pytest.mark.long
def test_a_line_of_eight_megabytes_with_many_escapes_and_numbers_is_a_record(room: LandingRoom) -> None:
    text, numbers = '\\"' * 1_700_000, [f"{n}.50" for n in range(80_000)]
    content = line(f'"note": {json.dumps(text)}', f'"amounts": [{", ".join(numbers)}]')
    assert 7 << 20 < len(content) < 8 << 20
    (row,) = room.judge(content.encode(), "a.jsonl")
    assert (row["_reason"], row["note"]) == (None, text)
    assert row["amounts"] == [Decimal(number) for number in numbers]


# ------------------------------------------------------------------------------------------------------------- by type

AT = datetime(2024, 5, 1, 10, 0)  # noqa: DTZ001  (Spark hands out UTC without a zone)


def no(name: str, demand: str, text: str) -> str:
    return f"{name} is not {demand}: '{text}'"


def unfit(name: str, kind: str, text: str) -> str:
    return f"{name} does not fit {kind}: '{text}'"


TEXTS: list[tuple[str, str, Any]] = [
    ("note", " a\n", " a\n"),
    ("note", "  ", "  "),
    ("whole", "+7", 7),
    ("whole", "-0000000000000000042", -42),
    ("whole", "  ", None),
    ("whole", "5\n", no("whole", "a whole number", "5\n")),
    ("whole", " 5", no("whole", "a whole number", " 5")),
    ("whole", "1.0", no("whole", "a whole number", "1.0")),
    ("whole", "2147483648", unfit("whole", "int", "2147483648")),
    ("short", "-32769", unfit("short", "smallint", "-32769")),
    ("long", "9223372036854775807", 2**63 - 1),
    ("long", "9223372036854775808", unfit("long", "bigint", "9223372036854775808")),
    ("float", ".5", 0.5),
    ("float", "5.", 5.0),
    ("float", "1e38", struct.unpack("f", struct.pack("f", 1e38))[0]),
    ("float", "1e400", unfit("float", "float", "1e400")),
    ("float", "-1e39", unfit("float", "float", "-1e39")),
    ("float", "0.1e-60", unfit("float", "float", "0.1e-60")),
    ("float", "0.0e-60", 0.0),
    ("float", "1e0001", no("float", "a number", "1e0001")),
    ("float", "1.5f", no("float", "a number", "1.5f")),
    ("float", "NaN", no("float", "a number", "NaN")),
    ("double", "0.1", 0.1),
    ("double", "1e308\n", no("double", "a number", "1e308\n")),
    ("double", "1e309", unfit("double", "double", "1e309")),
    ("double", "4e-324", 5e-324),
    ("double", "1e-999", unfit("double", "double", "1e-999")),
    ("double", "Infinity", no("double", "a number", "Infinity")),
    ("money", "1.2300", Decimal("1.23")),
    ("money", "1.239", unfit("money", "decimal(10,2)", "1.239")),
    ("money", "0.005", unfit("money", "decimal(10,2)", "0.005")),
    ("money", "-.5", Decimal("-0.50")),
    ("money", "99999999.99", Decimal("99999999.99")),
    ("money", "99999999.995", unfit("money", "decimal(10,2)", "99999999.995")),
    ("money", "100000000", unfit("money", "decimal(10,2)", "100000000")),
    ("money", "1e7", Decimal("10000000.00")),
    ("money", "1e999", unfit("money", "decimal(10,2)", "1e999")),
    ("money", "0e999", Decimal("0.00")),
    ("money", "-0.000e-5", Decimal("0.00")),
    ("money", "0" * 60 + "1." + "0" * 60, Decimal("1.00")),
    ("money", "1.5\n", no("money", "a number", "1.5\n")),
    ("money", "1e", no("money", "a number", "1e")),
    ("units", "120e-1", Decimal("12")),
    ("units", "125e-1", unfit("units", "decimal(10,0)", "125e-1")),
    ("share", "0.25", Decimal("0.25")),
    ("share", "1", unfit("share", "decimal(2,2)", "1")),
    ("precise", "5.0E-4", Decimal("0.0005")),
    ("precise", "0.0000000000000000001", unfit("precise", "decimal(38,18)", "0.0000000000000000001")),
    ("is_open", "true", True),
    ("is_open", "true\n", no("is_open", "true or false", "true\n")),
    ("is_open", "True", no("is_open", "true or false", "True")),
    ("day", "2024-02-29", date(2024, 2, 29)),
    ("day", "2026-01-02\n", no("day", "a date", "2026-01-02\n")),
    ("day", "2023-02-29", no("day", "a date", "2023-02-29")),
    ("at", "2024-05-01T12:00+02", AT),
    ("at", "2024-05-01 10:00:00.123456Z", AT.replace(microsecond=123456)),
    ("at", "2024-05-01T10:00:00.123456000Z", AT.replace(microsecond=123456)),
    ("at", "2024-05-01T10:00:00.123456001Z", unfit("at", "timestamp", "2024-05-01T10:00:00.123456001Z")),
    ("at", "2024-05-01T10:00:00", no("at", "a timestamp with an offset", "2024-05-01T10:00:00")),
    ("at", "2024-05-01T10:00:00Z\n", no("at", "a timestamp with an offset", "2024-05-01T10:00:00Z\n")),
    ("at", "2023-02-29T10:00:00Z", no("at", "a timestamp with an offset", "2023-02-29T10:00:00Z")),
    ("local", "2024-05-01T10:00", AT),
    ("local", "2024-05-01 10:00:00.5", AT.replace(microsecond=500000)),
    ("local", "2024-05-01T10:00:00.0000001", unfit("local", "timestamp_ntz", "2024-05-01T10:00:00.0000001")),
    ("local", "2024-05-01T10:00:00Z", no("local", "a timestamp without an offset", "2024-05-01T10:00:00Z")),
    ("local", "2024-05-01", no("local", "a timestamp without an offset", "2024-05-01")),
    ("bytes", "aGk=", b"hi"),
    ("bytes", "/+8A", b"\xff\xef\x00"),
    ("bytes", "aGk", no("bytes", "base64 text", "aGk")),
    ("bytes", "aGl=", no("bytes", "base64 text", "aGl=")),
    ("bytes", "a-k=", no("bytes", "base64 text", "a-k=")),
    ("bytes", "aGk=\n", no("bytes", "base64 text", "aGk=\n")),
    ("numbers", "[1, 2]", [1, 2]),
    ("numbers", "[]", []),
    ("numbers", " ", None),
    ("numbers", "[1, null]", unfit("numbers", "array<int>", "[1, null]")),
    ("numbers", '[""]', unfit("numbers", "array<int>", '[""]')),
    ("numbers", "[1.0]", unfit("numbers", "array<int>", "[1.0]")),
    ("numbers", "[01]", no("numbers", "a JSON array", "[01]")),
    ("numbers", "[1],[2]", no("numbers", "a JSON array", "[1],[2]")),
    ("numbers", '[1],["x"]]', no("numbers", "a JSON array", '[1],["x"]]')),
    ("numbers", "{}", no("numbers", "a JSON array", "{}")),
    ("numbers", "5", no("numbers", "a JSON array", "5")),
    ("amounts", "[0.10, null, \"1e1\", 0.100]", [Decimal("0.10"), None, Decimal("10.00"), Decimal("0.10")]),
    ("amounts", "[0.101]", unfit("amounts", "array<decimal(10,2)>", "[0.101]")),
    ("line", '{"no": 1}', {"no": 1, "price": None, "tags": None, "when": None}),
    (
        "line",
        '{"no": 1, "price": 2.50, "tags": ["a", null, 0.10], "when": {"at": "2024-05-01T10:00Z"}}',
        {"no": 1, "price": Decimal("2.50"), "tags": ["a", None, "0.10"], "when": {"at": AT}},
    ),
    *(
        ("line", text, unfit("line", COLUMNS["line"].simpleString(), text))
        for text in (
            '{"price": 1}',
            '{"no": 1, "No": 1}',
            '{"no": 1, "no": 1}',
            '{"no": 1, "tags": ["\\ud800"]}',
            '{"no": 1, "when": {"at": "now"}}',
            '{"no": 1, "price": 0.001}',
        )
    ),
    ("line", "[1]", no("line", "a JSON object", "[1]")),
]  # fmt: skip
"""By column, a text and its value, or the reason why there is none."""


def as_json(cases: Sequence[tuple[str, str]]) -> bytes:
    return json_lines(*(event(str(number), **{name: text}) for number, (name, text) in enumerate(cases)))


def as_csv(cases: Sequence[tuple[str, str]]) -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, VALUES.schema.fieldNames(), lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writeheader()
    for number, (name, text) in enumerate(cases):
        writer.writerow(event(str(number), **{name: text}))
    return out.getvalue().encode()


def as_parquet(cases: Sequence[tuple[str, str]]) -> bytes:
    return parquet({name: [text if name == each else None for each, text in cases] for name in COLUMNS})


def plainly(value: Any) -> Any:
    return value.asDict(recursive=True) if hasattr(value, "asDict") else value


@pytest.mark.parametrize(
    ("write", "name"),
    [
        (as_json, "a.jsonl"),
        pytest.param(as_csv, "a.csv", marks=pytest.mark.long),
        pytest.param(as_parquet, "a.parquet", marks=pytest.mark.long),
    ],
)
def test_a_text_is_a_value_of_its_type_or_the_reason_names_it(room: LandingRoom, write: Any, name: str) -> None:
    rows = room.judge(write([(column, text) for column, text, _ in TEXTS]), name)
    values = [plainly(value) for value in found(rows, [column for column, _, _ in TEXTS])]
    wrong = [(case, value) for case, value in zip(TEXTS, values, strict=True) if case[2] != value]
    assert wrong == []


def test_objects_and_arrays_of_json_lines_are_structs_and_arrays(room: LandingRoom) -> None:
    nested = [(name, text, value) for name, text, value in TEXTS if name in ("numbers", "amounts", "line")]
    proper = [each for each in nested if "JSON" not in str(each[2]) and each[1].strip() and "ud800" not in each[1]]
    rows = room.judge("\n".join(line(f'"{name}": {text}') for name, text, _ in proper).encode(), "a.jsonl")
    compact = [
        value.replace(": ", ":").replace(", ", ",") if isinstance(value, str) else value for _, _, value in proper
    ]
    values = [plainly(value) for value in found(rows, [name for name, _, _ in proper])]
    assert [v.replace(": ", ":").replace(", ", ",") if isinstance(v, str) else v for v in values] == compact


def test_a_source_that_rounds_drops_digits_and_nothing_else(rounding: LandingRoom) -> None:
    cases: list[tuple[str, str, Any]] = [
        ("money", "1.239", Decimal("1.24")),
        ("money", "0.005", Decimal("0.01")),
        ("money", "-0.005", Decimal("-0.01")),
        ("money", "1e-999", Decimal("0.00")),
        ("money", "0.004" + "9" * 400, Decimal("0.00")),
        ("money", "0.005" + "0" * 400, Decimal("0.01")),
        ("money", "99999999.994", Decimal("99999999.99")),
        ("money", "99999999.995", unfit("money", "decimal(10,2)", "99999999.995")),
        ("units", "125e-1", Decimal("13")),
        ("at", "2024-05-01T10:00:00.123456999Z", AT.replace(microsecond=123456)),
        ("local", "2024-05-01T10:00:00.999999999", AT.replace(microsecond=999999)),
        ("float", "1e39", unfit("float", "float", "1e39")),
        ("float", "1e-60", unfit("float", "float", "1e-60")),
        ("whole", "1.5", no("whole", "a whole number", "1.5")),
        ("amounts", "[0.105]", [Decimal("0.11")]),
    ]  # fmt: skip
    rows = rounding.judge(as_json([(name, text) for name, text, _ in cases]), "a.jsonl")
    assert found(rows, [name for name, _, _ in cases]) == [value for _, _, value in cases]


@pytest.mark.parametrize("rounds", [False, pytest.param(True, marks=pytest.mark.long)])
def test_decimals_are_what_python_takes_them_for(opened: Any, rounds: bool) -> None:
    chance = random.Random(5)
    texts = []
    for _ in range(1500):
        digits = "".join(chance.choice("0001259") for _ in range(chance.randint(1, 44)))
        place = chance.randint(0, len(digits))
        power = f"{chance.choice('eE')}{chance.choice(['', '+', '-'])}{chance.randint(0, 45)}"
        point = chance.choice(["", "."]) if place == len(digits) else "."
        texts.append(
            chance.choice(["", "-", "+"]) + digits[:place] + point + digits[place:] + chance.choice(["", power])
        )
    columns = ("money", "units", "share", "precise")
    with opened(replace(VALUES, rounds=rounds)) as room:
        rows = room.judge(as_json([(columns[n % 4], text) for n, text in enumerate(texts)]), "a.jsonl")
    wrong = []
    for number, (text, row) in enumerate(zip(texts, rows, strict=True)):
        name = columns[number % 4]
        kind = COLUMNS[name]
        assert isinstance(kind, DecimalType)
        with localcontext(prec=200):
            exact = Decimal(text)
            value = exact.quantize(Decimal(1).scaleb(-kind.scale), rounding=ROUND_HALF_UP)
            fits = abs(value) < Decimal(10) ** (kind.precision - kind.scale) and (rounds or value == exact)
        expected = value if fits else unfit(name, kind.simpleString(), text)
        if (row["_reason"] or row[name]) != expected:
            wrong.append((name, text, expected, row["_reason"] or row[name]))
    assert wrong == []


def test_rounds_is_true_or_false() -> None:
    with pytest.raises(InvalidDeclaration, match=r"its rounds is 'yes' \(str\), and has to be True or False"):
        replace(VALUES, rounds="yes")  # type: ignore[arg-type]


PARCEL = ArrayType(
    StructType(
        [
            StructField("no", IntegerType(), nullable=False),
            StructField(
                "items",
                ArrayType(StructType([StructField("price", DecimalType(5, 2)), StructField("name", StringType())])),
            ),
        ]
    ),
    containsNull=False,
)
NO_VALUE = object()
"""What a text is that a type does not hold."""


def some_text(chance: random.Random, kind: DataType, *, nullable: bool) -> tuple[str, Any]:
    """A JSON text and its value by a type, mostly one that the type holds."""
    odd = chance.random() < 0.04
    if odd and chance.random() < 0.5:
        return "null", None if nullable else NO_VALUE
    match kind:
        case ArrayType():
            if odd:
                return '{"0": 1}', NO_VALUE
            parts = [
                some_text(chance, kind.elementType, nullable=kind.containsNull) for _ in range(chance.randint(0, 3))
            ]
            values = [value for _, value in parts]
            return f"[{', '.join(text for text, _ in parts)}]", NO_VALUE if NO_VALUE in values else values
        case StructType():
            found = {f.name: some_text(chance, f.dataType, nullable=f.nullable) for f in kind.fields}
            texts = [f'"{name}" :{text}' for name, (text, _) in found.items()] + ['"other": 1'] * odd
            chance.shuffle(texts)
            value = {name: value for name, (_, value) in found.items()}
            return f"{{{','.join(texts)}}}", NO_VALUE if odd or NO_VALUE in value.values() else value
        case DecimalType():
            return chance.choice([("1.50", Decimal("1.50")), ("-0.5e1", Decimal("-5.00")), ('"7"', Decimal("7.00"))])
        case IntegerType():
            return ("1.0", NO_VALUE) if odd else chance.choice([("1", 1), ("-0", 0), ('"+7"', 7)])
        case _:
            return chance.choice(
                [('"[1.50]"', "[1.50]"), ("1.50", "1.50"), ('{"a": 1.0}', '{"a":1.0}'), ('"\\""', '"')]
            )


def test_nested_values_are_what_a_reading_leaf_by_leaf_gives(opened: Any) -> None:
    chance = random.Random(9)
    cases = [some_text(chance, PARCEL, nullable=True) for _ in range(400)]
    source = replace(VALUES, schema=StructType([*EVENTS.schema.fields[:2], StructField("parcel", PARCEL)]))
    assert 50 < sum(value is NO_VALUE for _, value in cases) < 200
    with opened(source) as room:
        rows = room.judge("\n".join(line(f'"parcel": {text}') for text, _ in cases).encode(), "a.jsonl")
    wrong = []
    for (text, value), row in zip(cases, rows, strict=True):
        parcel = row["parcel"] if row["parcel"] is None else [plainly(each) for each in row["parcel"]]
        if (row["_reason"] is not None) != (value is NO_VALUE) or (value is not NO_VALUE and parcel != value):
            wrong.append((text, value, row["_reason"], parcel))
    assert wrong == []


# ------------------------------------------------------------------------------------------------------------- Parquet


Case = tuple[str, pa.DataType, Any, Any]
"""A column, a type and a value of it in a file, and what becomes of it."""


def judged(room: LandingRoom, column: str, kind: pa.DataType, values: Sequence[Any]) -> list[Any]:
    """What becomes of the values of a column."""
    rows = room.judge(parquet({column: pa.array(values, kind)}), "a.parquet")
    return [plainly(value) for value in found(rows, [column] * len(values))]


def wrong_ones(room: LandingRoom, cases: Sequence[Case]) -> list[tuple[Case, Any]]:
    """The cases that become something else."""
    wrong = []
    for (column, kind), some in groupby(cases, key=lambda case: case[:2]):
        alike = list(some)
        results = judged(room, column, kind, [case[2] for case in alike])
        wrong += [(case, result) for case, result in zip(alike, results, strict=True) if case[3] != result]
    return wrong


MONEY, NUMBER, WHOLE = "decimal(10,2)", "a number", "a whole number"
LONG_ENDS = 2.0**63
TINY = Decimal("0." + "0" * 36 + "1")


def test_numbers_of_parquet_are_taken_exactly_or_not_at_all(room: LandingRoom) -> None:
    cases: list[Case] = [
        ("money", pa.decimal128(12, 3), Decimal("0.004"), unfit("money", MONEY, "0.004")),
        ("money", pa.decimal128(12, 3), Decimal("0.010"), Decimal("0.01")),
        ("money", pa.decimal128(12, 3), Decimal("123456789.000"), unfit("money", MONEY, "123456789.000")),
        ("money", pa.uint64(), 5, Decimal("5.00")),
        ("money", pa.uint64(), 2**63, unfit("money", MONEY, str(2**63))),
        ("precise", pa.decimal128(38, 1), Decimal("12345678901234567890.5"), Decimal("12345678901234567890.5")),
        ("precise", pa.decimal128(38, 1), Decimal(10**30), unfit("precise", "decimal(38,18)", f"{10**30}.0")),
        ("whole", pa.decimal128(38, 37), TINY, no("whole", WHOLE, f"{TINY:f}")),
        ("whole", pa.decimal128(38, 37), Decimal(7), 7),
        ("whole", pa.int64(), 2**31, unfit("whole", "int", str(2**31))),
        ("whole", pa.int64(), -5, -5),
        ("long", pa.float64(), LONG_ENDS, unfit("long", "bigint", "9.223372036854776E18")),
        ("long", pa.float64(), -LONG_ENDS, -(2**63)),
        ("long", pa.float64(), 2.0**53, 2**53),
        ("long", pa.float64(), 0.5, no("long", WHOLE, "0.5")),
        ("long", pa.float32(), LONG_ENDS, unfit("long", "bigint", "9.223372E18")),
        ("long", pa.float32(), -0.0, 0),
        ("double", pa.int64(), 2**53, 2.0**53),
        ("double", pa.int64(), 2**53 + 1, unfit("double", "double", str(2**53 + 1))),
        ("double", pa.int64(), 2**63 - 1, unfit("double", "double", str(2**63 - 1))),
        ("float", pa.int32(), 2**24, 2.0**24),
        ("float", pa.int32(), 2**24 + 1, unfit("float", "float", str(2**24 + 1))),
        ("float", pa.float64(), 0.5, 0.5),
        ("float", pa.float64(), 0.1, unfit("float", "float", "0.1")),
        ("float", pa.float64(), 1e39, unfit("float", "float", "1.0E39")),
        ("float", pa.float64(), float("nan"), no("float", NUMBER, "NaN")),
        ("double", pa.float64(), float("inf"), no("double", NUMBER, "Infinity")),
        ("double", pa.float64(), float("nan"), no("double", NUMBER, "NaN")),
        ("double", pa.float64(), 0.1, 0.1),
        ("double", pa.float32(), 0.5, 0.5),
        ("double", pa.float32(), float("-inf"), no("double", NUMBER, "-Infinity")),
    ]
    assert wrong_ones(room, cases) == []


def test_numbers_of_parquet_are_rounded_where_the_source_says_so(rounding: LandingRoom) -> None:
    nearest = struct.unpack("f", struct.pack("f", 0.1))[0]
    before = datetime(1969, 12, 31, 23, 59, 59, 999999)  # noqa: DTZ001
    cases: list[Case] = [
        ("money", pa.decimal128(12, 3), Decimal("0.004"), Decimal("0.00")),
        ("money", pa.decimal128(12, 3), Decimal("-0.005"), Decimal("-0.01")),
        ("money", pa.decimal128(12, 3), Decimal("99999999.995"), unfit("money", MONEY, "99999999.995")),
        ("double", pa.int64(), 2**53 + 1, 2.0**53),
        ("float", pa.float64(), 0.1, nearest),
        ("float", pa.float64(), 1e39, unfit("float", "float", "1.0E39")),
        ("float", pa.float64(), 1e-60, unfit("float", "float", "1.0E-60")),
        ("whole", pa.float64(), 1.5, no("whole", WHOLE, "1.5")),
        ("at", pa.timestamp("ns", "UTC"), 1_714_557_600_000_000_999, AT),
        ("at", pa.timestamp("ns", "UTC"), -1, before),
    ]
    assert wrong_ones(rounding, cases) == []


def line_of(price: pa.DataType) -> pa.DataType:
    at = pa.struct([("at", pa.timestamp("ns", "UTC"))])
    return pa.struct([("when", at), ("tags", pa.list_(pa.string())), ("no", pa.int64()), ("price", price)])


def test_nanoseconds_of_parquet_are_times_when_they_are_whole_microseconds(room: LandingRoom) -> None:
    values = [1_714_557_600_000_000_000, 1_714_557_600_000_000_999, -1_000, None]
    before = datetime(1969, 12, 31, 23, 59, 59, 999999)  # noqa: DTZ001
    text = "2024-05-01T10:00:00.000000999"
    for column, kind, zone in (("at", pa.timestamp("ns", "UTC"), "Z"), ("local", pa.timestamp("ns"), "")):
        reason = unfit(column, COLUMNS[column].simpleString(), text + zone)
        assert judged(room, column, kind, values) == [AT, reason, before, None]


def int96(nanoseconds: int, *, nested: bool) -> bytes:
    """A file with a time in the earlier form of timestamps, in a column or inside a struct."""
    kind = pa.timestamp("ns", "UTC")
    value = {"no": 1, "price": None, "tags": None, "when": {"at": nanoseconds}}
    money = pa.decimal128(10, 2)
    line_type = pa.struct(
        [("no", pa.int32()), ("price", money), ("tags", pa.list_(pa.string())), ("when", pa.struct([("at", kind)]))]
    )
    column = {"line": pa.array([value], line_type)} if nested else {"at": pa.array([nanoseconds], kind)}
    return parquet(column, use_deprecated_int96_timestamps=True)


@pytest.mark.parametrize("nested", [False, True])
def test_digits_that_the_earlier_form_of_timestamps_would_lose_refuse_the_file(
    room: LandingRoom, rounding: LandingRoom, nested: bool
) -> None:
    name = "line" if nested else "at"
    assert reasons(room.judge(int96(1_000, nested=nested), "whole.parquet")) == [None]
    assert reasons(room.judge(int96(-(2**62) // 1000 * 1000, nested=nested), "long ago.parquet")) == [None]
    with pytest.raises(UnreadableFile, match=f"holds {name} with digits below the microsecond, as INT96"):
        room.judge(int96(1_001, nested=nested), "cut.parquet")
    assert reasons(rounding.judge(int96(1_001, nested=nested), "cut.parquet")) == [None]


def test_digits_inside_large_lists_and_maps_are_looked_at() -> None:
    kind = pa.timestamp("ns", "UTC")
    for held in (pa.large_list(kind), pa.map_(pa.string(), kind)):
        values = pa.array([[("a", 1_001)] if pa.types.is_map(held) else [1_001], None], held)
        assert [list(each) for each in _ticks(values) if len(each)] == [[1_001]], held


def test_a_required_text_of_blanks_is_missing_also_where_it_is_bytes(room: LandingRoom) -> None:
    rows = room.judge(parquet({"event_id": pa.array([b" "])}), "blank.parquet")
    assert reasons(rows) == ["event_id is missing"]


def test_a_time_behind_a_column_that_spark_cannot_read_keeps_its_unit(room: LandingRoom) -> None:
    """Microseconds were taken for nanoseconds, and accepted: the time was another one."""
    pairs = pa.list_(pa.struct([("a", pa.int64()), ("b", pa.timestamp("ns", "UTC"))]), 1)
    at = pa.array([1_714_557_600_000_000], pa.timestamp("us", "UTC"))
    (row,) = room.judge(parquet({"odd": pa.array([[(1, 2)]], pairs), "at": at}), "a.parquet")
    assert (row["_reason"], row["at"]) == (None, AT)


def test_nanoseconds_are_found_behind_columns_that_spark_cannot_read(room: LandingRoom) -> None:
    pairs = pa.list_(pa.struct([("a", pa.timestamp("us")), ("b", pa.timestamp("us"))]), 1)
    table = {
        "odd": pa.array([[(1, 2)]], pairs),
        "ids": pa.array([b"x" * 16], pa.uuid()),
        "spans": pa.array([[1]], pa.list_(pa.duration("us"))),
        "at": pa.array([-(2**63) + 192], pa.timestamp("ns", "UTC")),
        "local": pa.array([1_714_557_600_000_000_000], pa.timestamp("ns")),
    }
    (row,) = room.judge(parquet(table), "a.parquet")
    assert row["_reason"] == unfit("at", "timestamp", "1677-09-21T00:12:43.145224384Z")
    assert row["local"] == AT


def test_structs_of_parquet_are_judged_leaf_by_leaf(room: LandingRoom) -> None:
    whole, parts = 1_714_557_600_000_000_000, 1_714_557_600_000_000_999
    values = [
        {"no": 1, "price": Decimal("1.500"), "tags": ["a", None], "when": {"at": whole}},
        {"no": 2, "price": Decimal("1.501"), "tags": None, "when": None},
        {"no": 3, "price": None, "tags": [], "when": {"at": parts}},
        {"no": None, "price": None, "tags": [], "when": None},
        None,
    ]
    first, *others = judged(room, "line", line_of(pa.decimal128(12, 3)), values)
    assert first == {"no": 1, "price": Decimal("1.50"), "tags": ["a", None], "when": {"at": AT}}
    assert [str(each)[:17] for each in others] == ["line does not fit"] * 3 + ["None"]
    assert "1.501" in others[0]
    with pytest.raises(UnreadableFile, match="holds line as struct"):  # a double is no decimal
        judged(room, "line", line_of(pa.float64()), [None])


def test_arrays_and_bytes_of_parquet_are_judged_leaf_by_leaf(room: LandingRoom) -> None:
    values = [[1.0, 2.0], [], None, [1.5], [1.0, None]]
    unlike = [unfit("numbers", "array<int>", text) for text in ("[1.5]", "[1.0,null]")]
    assert judged(room, "numbers", pa.list_(pa.float64()), values) == [[1, 2], [], None, *unlike]
    assert judged(room, "bytes", pa.binary(), [b"\xff", b"", None]) == [b"\xff", b"", None]
    assert judged(room, "note", pa.large_binary(), [b"ok", b"\xff"]) == ["ok", "note is not UTF-8 text"]
    odd = pa.StringArray.from_buffers(2, pa.py_buffer(struct.pack("<3i", 0, 1, 2)), pa.py_buffer(b"a\xff"))
    rows = room.judge(parquet({"note": odd}), "a.parquet")
    assert found(rows, ["note"] * 2) == ["a", "note is not UTF-8 text"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (pa.struct([("a", pa.timestamp("us", "UTC")), ("b", pa.null())]), None, None),
        (pa.struct([("a", pa.timestamp("us", "UTC"))]), {"a": 1}, '{"a":"1970-01-01T00:00:00.000001Z"}'),
        (pa.struct([("a", pa.timestamp("ns"))]), {"a": 1_001}, '{"a":"1970-01-01T00:00:00.000001001"}'),
        (pa.struct([("a", pa.int32()), ("b", pa.string())]), {"a": None, "b": "x"}, '{"a":null,"b":"x"}'),
        (pa.map_(pa.string(), pa.decimal128(5, 3)), [("k", Decimal("1.500"))], '{"k":1.500}'),
        (pa.struct([("a", pa.float64())]), {"a": float("nan")}, "note cannot be written as JSON"),
    ],
)
def test_a_nested_value_of_parquet_becomes_a_json_object_exactly(
    opened: Any, kind: pa.DataType, value: Any, text: str | None
) -> None:
    with opened(replace(VALUES, json_columns=("note",))) as room:
        if value is None:
            with pytest.raises(UnreadableFile, match="holds note as a type that cannot be read"):
                judged(room, "note", kind, [value])
        else:
            assert judged(room, "note", kind, [value]) == [text]


# ------------------------------------------------------------------------------------------------------ through bronze


def test_nested_values_bytes_and_local_times_reach_bronze_and_quarantine(room: LandingRoom) -> None:
    whole: dict[str, Any] = {
        "bytes": "aGk=",
        "local": "2024-05-01T10:00",
        "numbers": [1, 2],
        "line": {"no": 1, "price": "2.5", "tags": ["x"], "when": {"at": "2024-05-01T10:00Z"}},
    }
    first = room.land(json_lines(event("a", **whole), event("b", numbers=[None])), "first.jsonl")
    assert first.record.counts == ImportCounts(landed=2, accepted=1, rejected=1)
    ((rejected,),) = room.quarantined.values()
    assert rejected["reason"] == "numbers does not fit array<int>: '[null]'"
    again = room.land(json_lines(event("a", **whole), event("c")), "again.jsonl")
    assert again.record.counts == ImportCounts(landed=2, accepted=1, duplicate=1)
    changed = room.land(json_lines(event("a", **{**whole, "numbers": [1, 3]})), "changed.jsonl")
    assert changed.record.counts == ImportCounts(landed=1, accepted=1)
    bronze, _ = room.bronze([date(2024, 5, 1)])
    assert (bronze["bytes"], bronze["local"], bronze["numbers"]) == (b"hi", AT, [1, 3])
    assert plainly(bronze["line"]) == {"no": 1, "price": Decimal("2.50"), "tags": ["x"], "when": {"at": AT}}


@pytest.mark.long
def test_a_contract_with_nested_values_has_versions(opened: Any) -> None:
    wider = StructType([*VALUES.schema.fields, StructField("notes", ArrayType(StringType(), containsNull=False))])
    with opened(VALUES) as room:
        room.land(json_lines(event("a", numbers=[1], line={"no": 1})), "first.jsonl")
    with opened(replace(VALUES, schema=wider, earlier={1: VALUES.schema})) as room:
        room.land(json_lines(event("b", numbers=[2], notes=["x"])), "second.jsonl")
        room.land(json_lines(event("c", schema_version=1, numbers=[3])), "third.jsonl")
        rows = room.bronze([date(2024, 5, 1)])
    assert [(row["event_id"], row["numbers"], row["notes"]) for row in rows] == [
        ("a", [1], None), ("b", [2], ["x"]), ("c", [3], None)
    ]  # fmt: skip
    assert rows[0]["line"]["no"] == 1

"""What a landed value is: exactly what the source wrote, or a reason that names the column, the value and the type."""

from __future__ import annotations

import csv
import io
import json
import random
import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import pytest
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    IntegerType,
    StringType,
    StructField,
    StructType,
)

from backfill_assets.core.errors import InvalidDeclaration
from backfill_assets.ledger.imports import ImportCounts
from backfill_assets_tests.support.landing_examples import (
    EVENTS,
    LandingRoom,
    Opened,
    event,
    json_lines,
    reasons,
)
from backfill_assets_tests.support.value_examples import (
    AT,
    COLUMNS,
    HAS_OFFSET,
    NO_CLOCK,
    NO_FORM,
    NO_OFFSET,
    VALUES,
    found,
    no,
    no_day,
    parquet,
    plainly,
    unfit,
    with_form,
)

DAY = "a date like 2026-01-01"
INSTANT = "a timestamp like 2026-01-01T09:00:00Z"
LOCAL = "a timestamp like 2026-01-01T09:00:00, without an offset"


@pytest.fixture
def room(opened: Opened) -> Iterator[LandingRoom]:
    with opened(VALUES) as room:
        yield room


@pytest.fixture
def rounding(opened: Opened) -> Iterator[LandingRoom]:
    with opened(replace(VALUES, rounds=True)) as room:
        yield room


def line(*members: str) -> str:
    """A line of JSON with members as they are written here."""
    return "{" + ", ".join(['"event_id": "e1"', '"event_time": "2024-05-01T10:00:00Z"', *members]) + "}"


# ------------------------------------------------------------------------------------------------------- JSON numbers


@pytest.mark.long
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
    lines = "\n".join(line(f'"{name}": {text}') for name, text, _ in cases).encode()
    rows = room.of("note", "money", "precise").judge(lines, "a.jsonl")
    assert found(rows, [name for name, _, _ in cases]) == [value for _, _, value in cases]


@pytest.mark.long
def test_keys_that_differ_behind_the_point_are_two_keys(room: LandingRoom) -> None:
    ids = ("12345678901234567.5", "12345678901234567.9")
    content = "\n".join(f'{{"event_id": {key}, "event_time": "2024-05-01T10:00:00Z"}}' for key in ids)
    room = room.of()
    counts = room.land(content.encode()).record.counts
    assert counts == ImportCounts(landed=2, accepted=2)
    assert [row["event_id"] for row in room.bronze([date(2024, 5, 1)])] == [*ids]


@pytest.mark.long
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
    whole += [f"{good} 5", f'{good},["\ufdd0"]]', "[1.5]", "1.5"]
    rows = room.of("note").judge("\n".join(whole).encode(), "a.jsonl")
    expected: list[str | None] = ["the line is not a JSON object"] * len(whole)
    assert reasons(rows) == expected


@pytest.mark.long
def test_half_of_a_surrogate_pair_is_no_character(room: LandingRoom) -> None:
    half = "the line holds half of a surrogate pair"
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
        ('"\\\\ufdd0"', None),
    ]
    rows = room.of("note").judge("\n".join(line(f'"note": {text}') for text, _ in cases).encode(), "a.jsonl")
    assert reasons(rows) == [reason for _, reason in cases]
    assert [row["note"] for row in rows if row["_reason"] is None] == ["\\ud800", "😀", "\\ufdd0"]


def test_code_points_that_unicode_gives_no_character_land_as_they_are(room: LandingRoom) -> None:
    cases = {
        '"\\ufdd0"': "\ufdd0",
        '"\\uFDD0\\n"': "\ufdd0\n",
        '"\ufdd05"': "\ufdd05",
        '"\ufdd0x\ufdd0-1\\ufdd0\\ufdd0x"': "\ufdd0x\ufdd0-1\ufdd0\ufdd0x",
        '"\\\\\\ufdd0"': "\\\ufdd0",
        '"\\\\ufdd0 \ufdd0"': "\\ufdd0 \ufdd0",
        '"\ufdd0", "other": 1.50': "\ufdd0",
        '{"a\ufdd0": [1.50, "\ufdd02", "\\ufdd0"]}': '{"a\ufdd0":[1.50,"\ufdd02","\ufdd0"]}',
        '"\ufffe\U0001ffff"': "\ufffe\U0001ffff",
    }
    rows = room.of("note").judge("\n".join(line(f'"note": {text}') for text in cases).encode(), "a.jsonl")
    assert reasons(rows) == [None] * len(cases)
    assert [row["note"] for row in rows] == [*cases.values()]


@pytest.mark.long
def test_keys_of_half_a_surrogate_pair_are_not_one_key(room: LandingRoom) -> None:
    content = "\n".join(
        f'{{"event_id": {key}, "event_time": "2024-05-01T10:00:00Z"}}' for key in ('"\\ud800"', '"\\ud801"', '"?"')
    )
    assert room.of().land(content.encode()).record.counts == ImportCounts(landed=3, accepted=1, rejected=2)


@pytest.mark.long
def test_a_line_of_eight_megabytes_with_many_escapes_and_numbers_is_a_record(room: LandingRoom) -> None:
    text, numbers = '\\"' * 1_700_000, [f"{n}.50" for n in range(80_000)]
    content = line(f'"note": {json.dumps(text)}', f'"amounts": [{", ".join(numbers)}]')
    assert 7 << 20 < len(content) < 8 << 20
    (row,) = room.of("note", "amounts").judge(content.encode(), "a.jsonl")
    assert (row["_reason"], row["note"]) == (None, text)
    assert row["amounts"] == [Decimal(number) for number in numbers]


# ------------------------------------------------------------------------------------------------------------- by type

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
    ("float", "-Infinity", float("-inf")),
    ("float", "nan", no("float", "a number", "nan")),
    ("float", "NaN\n", no("float", "a number", "NaN\n")),
    ("double", "0.1", 0.1),
    ("double", "1e308\n", no("double", "a number", "1e308\n")),
    ("double", "1e309", unfit("double", "double", "1e309")),
    ("double", "4e-324", 5e-324),
    ("double", "1e-999", unfit("double", "double", "1e-999")),
    ("double", "Infinity", float("inf")),
    ("double", "+Infinity", no("double", "a number", "+Infinity")),
    ("double", "inf", no("double", "a number", "inf")),
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
    ("day", "2026-01-02\n", no("day", DAY, "2026-01-02\n", NO_FORM)),
    ("day", "2023-02-29", no_day("day", "2023-02-29")),
    ("day", "29.02.2023", no("day", DAY, "29.02.2023", with_form("day", "dd.MM.yyyy"))),
    ("at", "2024-05-01T12:00+02", AT),
    ("at", "2024-05-01 10:00:00.123456Z", AT.replace(microsecond=123456)),
    ("at", "2024-05-01T10:00:00.123456000Z", AT.replace(microsecond=123456)),
    ("at", "2024-05-01T10:00:00.123456001Z", unfit("at", "timestamp", "2024-05-01T10:00:00.123456001Z")),
    ("at", "2024-05-01T10:00:00", no("at", INSTANT, "2024-05-01T10:00:00", NO_OFFSET)),
    ("at", "2024-05-01T9:00:00Z", no("at", INSTANT, "2024-05-01T9:00:00Z", with_form("at", "yyyy-MM-dd'T'H:mm:ssXXX"))),
    ("at", "2024-05-01T10:00:00Z\n", no("at", INSTANT, "2024-05-01T10:00:00Z\n", NO_FORM)),
    ("at", "2023-02-29T10:00:00Z", no_day("at", "2023-02-29T10:00:00Z")),
    ("at", "2023-02-29T10:00:00", no("at", INSTANT, "2023-02-29T10:00:00", NO_OFFSET)),
    ("at", "2023-02-28T25:00:00Z", no("at", INSTANT, "2023-02-28T25:00:00Z", NO_FORM)),
    ("local", "2024-05-01T10:00", AT),
    ("local", "2024-05-01 10:00:00.5", AT.replace(microsecond=500000)),
    ("local", "2024-05-01T10:00:00.0000001", unfit("local", "timestamp_ntz", "2024-05-01T10:00:00.0000001")),
    ("local", "2024-05-01T10:00:00Z", no("local", LOCAL, "2024-05-01T10:00:00Z", HAS_OFFSET)),
    ("local", "2024-02-30T10:00", no_day("local", "2024-02-30T10:00")),
    ("local", "2024-05-01", no("local", LOCAL, "2024-05-01", NO_CLOCK)),
    ("bytes", "aGk=", b"hi"),
    ("bytes", "/+8A", b"\xff\xef\x00"),
    ("bytes", "aGk", no("bytes", "base64 text like aGVsbG8=", "aGk")),
    ("bytes", "aGl=", no("bytes", "base64 text like aGVsbG8=", "aGl=")),
    ("bytes", "a-k=", no("bytes", "base64 text like aGVsbG8=", "a-k=")),
    ("bytes", "aGk=\n", no("bytes", "base64 text like aGVsbG8=", "aGk=\n")),
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


def test_an_empty_text_is_a_binary_of_no_bytes_also_where_one_is_required(opened: Opened) -> None:
    fields = [StructField(each.name, each.dataType, each.nullable and each.name != "bytes") for each in VALUES.schema]
    with opened(replace(VALUES, schema=StructType(fields))) as required:
        lines = as_json([("bytes", ""), ("bytes", "aGk="), ("bytes", " "), ("whole", "1")])
        rows = required.of("bytes", "whole").judge(lines, "a.jsonl")
    no_bytes = "bytes is missing"
    assert [plainly(value) for value in found(rows, ["bytes"] * 4)] == [b"", b"hi", no_bytes, no_bytes]


@pytest.mark.long
def test_objects_and_arrays_of_json_lines_are_structs_and_arrays(room: LandingRoom) -> None:
    nested = [(name, text, value) for name, text, value in TEXTS if name in ("numbers", "amounts", "line")]
    proper = [each for each in nested if "JSON" not in str(each[2]) and each[1].strip() and "ud800" not in each[1]]
    lines = "\n".join(line(f'"{name}": {text}') for name, text, _ in proper).encode()
    rows = room.of("numbers", "amounts", "line").judge(lines, "a.jsonl")
    compact = [
        value.replace(": ", ":").replace(", ", ",") if isinstance(value, str) else value for _, _, value in proper
    ]
    values = [plainly(value) for value in found(rows, [name for name, _, _ in proper])]
    assert [v.replace(": ", ":").replace(", ", ",") if isinstance(v, str) else v for v in values] == compact


@pytest.mark.long
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
    names = [name for name, _, _ in cases]
    rows = rounding.of(*names).judge(as_json([(name, text) for name, text, _ in cases]), "a.jsonl")
    assert found(rows, names) == [value for _, _, value in cases]


@pytest.mark.parametrize("rounds", [False, pytest.param(True, marks=pytest.mark.long)])
def test_decimals_are_what_python_takes_them_for(opened: Opened, rounds: bool) -> None:
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
        rows = room.of(*columns).judge(as_json([(columns[n % 4], text) for n, text in enumerate(texts)]), "a.jsonl")
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
    with pytest.raises(InvalidDeclaration, match=r"rounds must be True or False"):
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


@pytest.mark.long
def test_nested_values_are_what_a_reading_leaf_by_leaf_gives(opened: Opened) -> None:
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


# ------------------------------------------------------------------------------------------------------ through bronze


@pytest.mark.long
def test_nested_values_bytes_and_local_times_reach_bronze_and_quarantine(room: LandingRoom) -> None:
    room = room.of("bytes", "local", "numbers", "line")
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
def test_a_contract_with_nested_values_has_versions(opened: Opened) -> None:
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

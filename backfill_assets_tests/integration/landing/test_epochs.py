"""Epochs: numbers since 1970 are the instants and the dates that they count to, to the digit, or none."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.domain import Epoch
from backfill_assets.domain.source_files import UNITS
from backfill_assets.landing.reading import Reading
from backfill_assets.landing.times import read_time
from backfill_assets_tests.faults.landing_written import counted
from backfill_assets_tests.support.written_times import spelled

SEED = 1970
INSTANT: T.DataType = T.TimestampType()
DATE: T.DataType = T.DateType()
BEGIN = datetime(1970, 1, 1)  # noqa: DTZ001
ENDS = (-62_135_596_800, 253_402_300_799, 253_402_300_800, 0, -1, 1_602_629_755)


def a_text(chance: random.Random) -> str:
    """A number since 1970 as a text, and as often one that is almost such a number."""
    seconds = chance.choice(
        [*ENDS, chance.randrange(-(10**11), 3 * 10**11), 86_400 * chance.randrange(-(10**6), 10**6)]
    )
    number = seconds * chance.choice([1, 10**3, 10**6, 10**9]) // chance.choice([1, 1, 1, 86_400])
    text = str(number + chance.choice([0, 0, 1, -1]))
    if chance.random() < 0.4:
        text += "." + "".join(chance.choice("000012579") for _ in range(chance.randrange(1, 10)))
    match chance.randrange(14):
        case 0:
            return chance.choice(["+", "-", "0", " ", ""]) + text
        case 1:
            return text + chance.choice(["e3", "E0", ".", " ", "\n", "L", "0" * 12])
        case 2:
            return chance.choice(
                ["", " ", "NaN", "Infinity", ".5", "-.5", "1e9", "0x10", "1,000", "٣", "null", "-", "-0"]
            )
    return text


def of_text(text: str) -> Fraction | None:
    return Fraction(text) if re.fullmatch("[+-]?[0-9]{1,19}([.][0-9]+)?", text) else None


def of_float(number: float) -> Fraction | None:
    """The exact value; that of more nanoseconds than 64 bits hold is not read."""
    return Fraction(number) if abs(number) < 2**63 else None


def expected(number: Fraction | None, unit: str, kind: T.DataType, *, rounds: bool, nearest: bool) -> str | None:
    """What a number counts to, as Spark casts it to a text; None where it is no time of its column."""
    found = counted(number, unit, kind, rounds, nearest)
    if found is None:
        return None
    is_date = isinstance(kind, T.DateType)
    return spelled((BEGIN + timedelta(days=found)).date() if is_date else BEGIN + timedelta(microseconds=found))


def columns_of(found: T.DataType) -> list[tuple[str, T.DataType, bool, Any]]:
    """By unit, type and rounding the column that reads the values."""
    known: list[tuple[str, T.DataType, bool, Any]] = []
    for unit in UNITS:
        for kind in (INSTANT, DATE):
            for rounds in (False, True) if unit != "d" else (False,):
                if unit != "d" or isinstance(kind, T.DateType):
                    how = Reading(forms=(Epoch(unit),), rounds=rounds)
                    known.append((unit, kind, rounds, read_time(F.col("value"), found, kind, how).cast("string")))
    return known


def floats(chance: random.Random) -> Sequence[float]:
    known = [*ENDS, math.nan, math.inf, -math.inf, 2.0**63, -(2.0**63), 1e300, 5e-324, 0.5, -0.25, 0.015625, 1.0000001]
    known += [each * scale for each in ENDS for scale in (1e3, 1e6, 1e9)]
    known += [chance.uniform(-1e11, 3e11) * chance.choice([1, 1e3, 1e6]) for _ in range(300)]
    known += [round(chance.uniform(-1e10, 3e10), chance.randrange(4)) for _ in range(300)]
    known += [math.floor(each) + chance.choice([0, 0.5, 0.125]) for each in known if abs(each) < 1e15]
    return [float(each) for each in known]


@pytest.mark.long
def test_texts_and_numbers_count_to_their_instants_and_dates_or_to_none(spark: SparkSession) -> None:
    chance = random.Random(SEED)
    texts = sorted({a_text(chance) for _ in range(3_000)})
    whole = [number for number in map(of_text, texts) if number is not None]
    longs = sorted({int(number) for number in whole if -(2**63) <= number < 2**63})
    decimals = sorted({Decimal(text) for text in texts if of_text(text) is not None and len(text) < 24})
    singles = [Fraction(2) ** 30 + 128, Fraction(1_602_629_760), Fraction(3, 4)]
    doubles = floats(chance)
    cases: list[tuple[T.DataType, Sequence[Any], Sequence[Fraction | None]]] = [
        (T.StringType(), texts, [*map(of_text, texts)]),
        (T.LongType(), longs, [*map(Fraction, longs)]),
        (T.DecimalType(38, 9), decimals, [Fraction(round(each, 9)) for each in decimals]),
        (T.DoubleType(), doubles, [*map(of_float, doubles)]),
        (T.FloatType(), [float(each) for each in singles], singles),
    ]
    for found, values, numbers in cases:
        columns = columns_of(found)
        schema = T.StructType([T.StructField("n", T.IntegerType()), T.StructField("value", found)])
        frame = spark.createDataFrame([*enumerate(values)], schema)
        rows = (
            frame.select("n", *(column.alias(str(n)) for n, (*_, column) in enumerate(columns))).toArrow().to_pylist()
        )
        taken = 0
        for row in rows:
            for n, (unit, kind, rounds, _) in enumerate(columns):
                is_float = isinstance(found, (T.DoubleType, T.FloatType))
                wanted = expected(numbers[row["n"]], unit, kind, rounds=rounds, nearest=is_float)
                said = (found.simpleString(), values[row["n"]], unit, kind.simpleString(), rounds)
                assert row[str(n)] == wanted, said
                taken += wanted is not None
        assert taken >= len(values) / 2, found

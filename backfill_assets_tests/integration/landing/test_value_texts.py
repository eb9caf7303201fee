"""Texts of values as a source declares them: numbers with other marks, words for true and false, texts of no value."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.domain import Csv
from backfill_assets.landing.likely_forms import declaration
from backfill_assets.landing.reading import Reading
from backfill_assets.landing.values import typed
from backfill_assets_tests.faults.landing_oracle import Wrong
from backfill_assets_tests.faults.landing_written import number_of
from backfill_assets_tests.support.landing_examples import EVENTS, Opened, reasons
from backfill_assets_tests.support.value_examples import with_form
from backfill_assets_tests.support.written_times import a_number

MARKS = [(",", "."), (",", ""), (",", " "), (",", "\u202f"), (".", ","), (".", "'"), ("·", "")]
KINDS = (T.LongType(), T.DecimalType(12, 2), T.DoubleType())


def expected(text: str, decimal: str, thousands: str, kind: T.DataType) -> Any:
    try:
        return number_of(text, decimal, thousands, kind)
    except Wrong:
        return None


def test_a_number_is_what_its_marks_make_it_or_none(spark: SparkSession) -> None:
    chance = random.Random(59)
    texts = sorted({a_number(chance, MARKS) for _ in range(4_000)})
    columns = [(decimal, thousands, kind) for decimal, thousands in MARKS for kind in KINDS]
    read = (
        typed(F.col("text"), T.StringType(), kind, Reading(decimal=decimal, thousands=thousands)).alias(str(n))
        for n, (decimal, thousands, kind) in enumerate(columns)
    )
    frame = spark.createDataFrame([(text,) for text in texts], "text string").select("text", *read)
    taken = 0
    for row in frame.toArrow().to_pylist():
        for n, (decimal, thousands, kind) in enumerate(columns):
            wanted = expected(row["text"], decimal, thousands, kind)
            assert repr(row[str(n)]) == repr(wanted), (row["text"], decimal, thousands, kind)
            taken += wanted is not None
    assert taken > 10_000


SALES = replace(
    EVENTS,
    schema=T.StructType(
        [
            T.StructField("event_id", T.StringType(), nullable=False),
            T.StructField("event_time", T.TimestampType(), nullable=False),
            T.StructField("amount", T.DecimalType(10, 2)),
            T.StructField("pieces", T.IntegerType()),
            T.StructField("paid", T.BooleanType()),
            T.StructField("note", T.StringType()),
            T.StructField("due", T.DateType()),
        ]
    ),
    json_columns=(),
    reads=Csv(decimal=",", thousands=".", null=("NA", r"\N"), true=("Y", "yes"), false=("N",)),
    formats={"event_time": "dd.MM.yyyy HH:mm", "due": "d.M.yyyy"},
    timezone="Europe/Berlin",
)


def test_a_csv_lands_with_its_own_words_for_values(opened: Opened) -> None:
    lines = [
        "event_id,event_time,amount,pieces,paid,note,due",
        'e1,01.05.2024 12:00,"1.234,50",1.000,Y,Namibia,3.6.2024',
        r"e2,01.05.2024 12:00,NA,\N,NA,NA,NA",
        "e3,01.05.2024 12:00,1.5,7,yes,,",
        "e4,01.05.2024 12:00,,12.34,N,,",
        "e5,01.05.2024 12:00,,,true,,",
        "e6,1.5.2024 12:00,,,,,",
        "e7,31.03.2024 02:30,,,,,",
        "e8,01.05.2024 12:00,,,,,31.6.2024",
        "NA,01.05.2024 12:00,,,,,",
        "e9,NA,,,,,",
        'e10,01.05.2024 12:00,"12,345",,,,',
    ]
    with opened(SALES) as room:
        rows = room.judge("\n".join(lines).encode(), "a.csv")
    number = "a number with '.' between groups of three digits and ',' before its fraction"
    form = with_form("event_time", "d.M.yyyy HH:mm")
    assert isinstance(SALES.reads, Csv)
    words = replace(SALES.reads, true=("Y", "yes", "true"), false=("N", "false"))
    assert reasons(rows) == [
        None,
        None,
        f"amount is not {number}: '1.5'",
        "pieces is not a whole number with '.' between groups of three digits: '12.34'",
        f"paid is not Y or yes or N; declare {declaration(words)}: 'true'",
        f"event_time is not written as 'dd.MM.yyyy HH:mm'{form}: '1.5.2024 12:00'",
        "event_time is a time that clocks in Europe/Berlin skip: '31.03.2024 02:30'",
        "due is a date that does not exist as 'd.M.yyyy': '31.6.2024'",
        "event_id is missing",
        "event_time is missing",
        "amount does not fit decimal(10,2): '12,345'",
    ]
    first, second = ({name: row[name] for name in SALES.schema.fieldNames()[2:]} for row in rows[:2])
    assert rows[0]["event_time"] == datetime(2024, 5, 1, 10)  # noqa: DTZ001
    assert first == {
        "amount": Decimal("1234.50"),
        "pieces": 1000,
        "paid": True,
        "note": "Namibia",
        "due": datetime(2024, 6, 3).date(),  # noqa: DTZ001
    }
    assert second == dict.fromkeys(first)


@pytest.mark.long
def test_numbers_and_words_of_a_csv_are_not_those_of_json_lines_beside_it(opened: Opened) -> None:
    values = b'"amount": 1.500, "pieces": 7, "paid": true, "note": "NA"'
    line = b'{"event_id": "e1", "event_time": "01.05.2024 12:00", ' + values + b"}"
    with opened(SALES) as room:
        counts = room.land(line, "a.jsonl").record.counts
        (row,) = room.bronze([date(2024, 5, 1)])
    assert (counts.landed, counts.rejected) == (1, 0)
    assert [row[name] for name in ("amount", "pieces", "paid", "note")] == [Decimal("1.50"), 7, True, "NA"]

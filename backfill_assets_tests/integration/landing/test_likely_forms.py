"""What a reason of rejection says to declare reads the value: forms of dates and times, and marks of a CSV."""

from __future__ import annotations

import re
from datetime import datetime

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.calendar.patterns import patterns_of
from backfill_assets.domain import Csv
from backfill_assets.landing.likely_forms import how_to_declare, mark_to_declare
from backfill_assets.landing.reading import Reading
from backfill_assets.landing.values import complaint, typed

DAYS = (
    *("yyyy/MM/dd", "yyyy/M/d", "yyyy.MM.dd", "yyyyMMdd", "yyyy M d", "yyyy-M-d"),
    *("M/d/yyyy", "MM/dd/yyyy", "d/M/yyyy", "dd/MM/yyyy", "d.M.yyyy", "dd.MM.yyyy", "d-M-yyyy", "MM-dd-yyyy"),
    *("M/d/yy", "dd/MM/yy", "d.M.yy", "d MMM yyyy", "dd MMM yyyy", "d MMMM yyyy", "dd-MMM-yy", "dd/MMM/yyyy"),
    *("MMM d yyyy", "MMM d, yyyy", "MMMM dd, yyyy", "EEE, d MMM yyyy", "EEEE, MMMM d, yyyy"),
)
CLOCKS = (
    *(" HH:mm", " H:mm", "'T'HH:mm:ss", " HH:mm:ss.SSS", ", h:mm a", " hh:mm:ss a", " h:mma", "-HH:mm:ss"),
    *("'T'HH:mm:ssXXX", " HH:mm:ss XXX", " HH:mm:ssxx", "'T'HH:mmX", " HH:mm:ss z", " HH:mm z"),
)
TIMES = tuple(map(datetime.fromisoformat, ("2026-01-22T17:05:09", "2025-12-31T00:30:00", "2024-02-03T09:08:07.123")))
DECLARED = re.compile(r'formats=\{"at": "([^"]+)"\}(?: where its day comes first, or "([^"]+)" where its month does)?')
LONG_AGO = "20240203170509"


def said_of(spark: SparkSession, texts: list[str], target: T.DataType) -> dict[str, str]:
    frame = spark.createDataFrame([(text,) for text in texts], "text string")
    rows = frame.select("text", how_to_declare("at", F.col("text"), target, has_zone=True).alias("said")).toArrow()
    return {row["text"]: row["said"] or "" for row in rows.to_pylist()}


@pytest.mark.parametrize("kind", ["dates", "times"])
def test_the_form_that_is_named_reads_the_text(spark: SparkSession, kind: str) -> None:
    forms = DAYS if kind == "dates" else [f"{day}{clock}" for day in DAYS for clock in CLOCKS]
    written = {(form, at): next(iter(patterns_of(form))).write(at) for form in forms for at in TIMES}
    texts = sorted({*written.values(), *([LONG_AGO] if kind == "times" else [])})
    said = said_of(spark, texts, T.DateType() if kind == "dates" else T.TimestampType())
    for (form, _), text in written.items():
        (pattern,) = patterns_of(form)
        found = DECLARED.search(said[text])
        assert found is not None, (form, text, said[text])
        read = [patterns_of(each)[0].read(text) for each in found.groups() if each]
        assert None not in read, (form, text, said[text])
        assert pattern.read(text) in read, (form, text, said[text])
    if kind == "times":
        assert said[LONG_AGO] == '; declare its form, such as formats={"at": "yyyyMMddHHmmss"}'


@pytest.mark.long
def test_what_no_form_reads_has_none_named(spark: SparkSession) -> None:
    texts = ["soon", "1.5", "31/31/2024", "2026-01-01x", "1/2", "1602629755", "12/34/56/78", "5/1/2024 13:04 PM", ""]
    assert set(said_of(spark, [each for each in texts if "PM" not in each], T.DateType()).values()) == {""}
    assert set(said_of(spark, texts[:4] + texts[-2:], T.TimestampType()).values()) == {""}
    local = said_of(spark, ["2024/05/01 10:00Z", "2024/05/01 10:00"], T.TimestampNTZType())
    assert local["2024/05/01 10:00Z"] == "; it has an offset: make the column a TIMESTAMP"
    assert said_of(spark, ["2026/01/02 10:00"], T.DateType()) == {
        "2026/01/02 10:00": "; it has a time of day: make the column a TIMESTAMP"
    }
    assert said_of(spark, ["2026/01/02"], T.TimestampType()) == {
        "2026/01/02": '; a date has no time of day: make the column a DATE, with formats={"at": "yyyy/MM/dd"}'
    }


NUMBERS = {
    "1,5": 1.5, "-0,25": -0.25, "1.234,5": 1234.5, "1,234.5": 1234.5, "1 234,5": 1234.5, "1'234.5": 1234.5,
    "12\u00a0345": 12345.0,
}  # fmt: skip
WHOLE = {"1,234": 1234, "1.234.567": 1234567, "1 234": 1234}
TRUTHS = {"yes": True, "N": False, "TRUE": True, "0": False, "Off": False}
NULLS = {"NA": None, "\\N": None, "-": None, "NULL": None}


@pytest.mark.parametrize(
    ("target", "cases"),
    [
        (T.DoubleType(), {**NUMBERS, **NULLS}),
        (T.LongType(), {**WHOLE, **NULLS}),
        (T.BooleanType(), {**TRUTHS, **NULLS}),
        (T.DateType(), NULLS),
    ],
)
def test_the_mark_that_is_named_reads_the_text(
    spark: SparkSession, target: T.DataType, cases: dict[str, object]
) -> None:
    given = Csv(delimiter=";")
    frame = spark.createDataFrame([(text,) for text in cases], "text string")
    said = {
        row["text"]: row["said"]
        for row in frame.select("text", mark_to_declare(F.col("text"), target, given).alias("said")).collect()
    }
    for text, wanted in cases.items():
        first = said[text].partition("declare reads=")[2].partition(" or declare")[0]
        assert first, text
        declared = eval(first, {"Csv": Csv})
        if wanted is None:
            assert text in declared.null and said[text].startswith("; if it stands for no value, "), said[text]
            continue
        how = Reading(decimal=declared.decimal, thousands=declared.thousands, true=declared.true, false=declared.false)
        ((value,),) = (
            spark.createDataFrame([(text,)], "text string")
            .select(typed(F.col("text"), T.StringType(), target, how))
            .collect()
        )
        assert value == wanted, (text, said[text])
    assert mark_of(spark, "1,5", T.DoubleType(), None) == ""


def mark_of(spark: SparkSession, text: str, target: T.DataType, csv: Csv | None) -> str:
    ((said,),) = (
        spark.createDataFrame([(text,)], "text string").select(mark_to_declare(F.col("text"), target, csv)).collect()
    )
    return str(said)


def test_a_comma_that_may_be_between_groups_names_both_and_a_whole_number_one(spark: SparkSession) -> None:
    said = mark_of(spark, "1,234", T.DoubleType(), Csv())
    assert said == '; declare reads=Csv(decimal=",") or declare reads=Csv(thousands=",")'
    ((reason,),) = (
        spark.createDataFrame([("1,5",)], "x string")
        .select(complaint("x", F.col("x"), T.StringType(), T.DoubleType(), Reading(csv=Csv())))
        .collect()
    )
    assert reason == "x is not a number; declare reads=Csv(decimal=\",\"): '1,5'"

"""Times of declared forms: each text is the time that it names in its form, or none, whatever Spark would guess."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.domain.source_files import readers_of
from backfill_assets.landing.reading import Reading
from backfill_assets.landing.times import read_time, time_complaint
from backfill_assets_tests.support.written_times import DATES, INSTANTS, LOCAL, Written, a_text, expected, spelled

SEED = 59
KINDS: Mapping[str, tuple[T.DataType, Mapping[str, Written]]] = {
    "dates": (T.DateType(), DATES),
    "local times": (T.TimestampNTZType(), LOCAL),
    "instants": (T.TimestampType(), INSTANTS),
}


def texts_of(forms: Mapping[str, Written], count: int) -> list[str]:
    chance = random.Random(SEED)
    known = {a_text(chance, chance.choice([*forms.values()])) for _ in range(count)}
    return sorted(known)


def of_a_date(at: datetime | None) -> date | None:
    """A time as a date, which it is at midnight."""
    return None if at is None or at.time() != datetime.min.time() else at.date()


@pytest.mark.parametrize("kind", KINDS)
def test_every_text_is_the_time_that_its_form_names_or_none(spark: SparkSession, kind: str) -> None:
    target, forms = KINDS[kind]
    texts = texts_of(forms, 3_000)
    columns = [
        read_time(F.col("text"), T.StringType(), target, Reading(forms=readers_of(form))).cast("string").alias(f"_{n}")
        for n, form in enumerate(forms)
    ]
    # Formatted back by Spark itself, a text is what it was, but for the case of names.
    back = [
        F.date_format(f"_{n}", form).alias(f"back_{n}")
        for n, (form, written) in enumerate(forms.items())
        if written.in_spark and written.offset is None
    ]
    frame = spark.createDataFrame([(text,) for text in texts], "text string").select("text", *columns)
    rows = frame.select("*", *back).toArrow().to_pylist()
    read = 0
    for row in rows:
        text = row["text"]
        for n, form in enumerate(forms):
            wanted: Any = expected(form, text)
            wanted = of_a_date(wanted) if kind == "dates" else wanted
            assert row[f"_{n}"] == spelled(wanted), (form, text)
            if wanted is not None:
                read += 1
                if f"back_{n}" in row:
                    assert row[f"back_{n}"].lower() == text.lower(), (form, text)
    assert read > 1_000


def has_utc(at: datetime) -> bool:
    """Whether a time is one of the calendar in UTC too."""
    try:
        return at.astimezone(UTC).year > 0
    except OverflowError:
        return False


@pytest.mark.parametrize(
    ("zone", "form"),
    [("", ""), ("Asia/Tokyo", ""), ("America/New_York", ""), ("Asia/Tokyo", "yyyy/MM/dd HH:mm:ss")],
)
def test_an_instant_is_of_the_years_that_dates_have_whatever_offset_leads_there(
    spark: SparkSession, zone: str, form: str
) -> None:
    days = (datetime(1, 1, 1), datetime(1, 1, 2), datetime(1, 1, 4), datetime(9999, 12, 31))  # noqa: DTZ001
    wanted: dict[str, bool] = {}
    for at in (day.replace(hour=hour, minute=59) for day in days for hour in (0, 5, 12, 23)):
        iso = f"{at.year:04}-{at:%m-%dT%H:%M:%S}"
        if zone:
            wanted[f"{at.year:04}/{at:%m/%d %H:%M:%S}" if form else iso] = has_utc(at.replace(tzinfo=ZoneInfo(zone)))
        for hours in () if form else (0, 9, -5):
            wanted[f"{iso}{hours:+03}:00"] = has_utc(at.replace(tzinfo=timezone(timedelta(hours=hours))))
    read = Reading(timezone=zone, forms=readers_of(form) if form else ())
    value = read_time(F.col("text"), T.StringType(), T.TimestampType(), read)
    frame = spark.createDataFrame([(text,) for text in wanted], "text string")
    why = time_complaint("at", F.col("text"), T.StringType(), T.TimestampType(), read)
    found = frame.select("text", value.isNotNull().alias("found"), why.alias("why")).toArrow().to_pylist()
    assert {row["text"]: row["found"] for row in found} == wanted
    assert all(row["found"] or row["why"] == f"at does not fit timestamp: '{row['text']}'" for row in found)
    assert set(wanted.values()) == {True, False}

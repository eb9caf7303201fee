"""Times of declared forms: each text is the time that it names in its form, or none, whatever Spark would guess."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.domain.forms import readers_of
from backfill_assets.landing.reading import Reading
from backfill_assets.landing.times import read_time
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

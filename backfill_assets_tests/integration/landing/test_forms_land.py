"""Files whose dates and times have declared forms land, in every format, with zones, joined columns and bounds."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as T

from backfill_assets.core.errors import UnreadableFile
from backfill_assets.domain import Epoch, SourceTable
from backfill_assets_tests.support.landing_examples import (
    EVENTS,
    Opened,
    json_lines,
    reasons,
)
from backfill_assets_tests.support.value_examples import AT, parquet, with_form

SEEN: SourceTable = replace(
    EVENTS,
    schema=T.StructType(
        [
            *EVENTS.schema.fields[:2],
            T.StructField("seen", T.TimestampType()),
            T.StructField("day", T.DateType()),
            T.StructField("local", T.TimestampNTZType()),
        ]
    ),
    json_columns=(),
    formats={
        "seen": Epoch("ms"),
        "day": ("yyyyMMdd", "MMM d yyyy", "yyyy-'Q'q"),
        "local": "M/d/yyyy h:mm a",
    },
)
LOCAL = datetime(2024, 5, 1, 15, 4)  # noqa: DTZ001


@pytest.mark.long
def test_numbers_and_texts_of_json_and_parquet_are_times_of_their_forms(opened: Opened) -> None:
    rows: list[dict[str, Any]] = [
        {"seen": 1714557600000, "day": 20240501, "local": "5/1/2024 3:04 PM"},
        {"seen": "1714557600000.000", "day": "May 1 2024", "local": "5/1/2024 3:04 pm"},
        {"seen": 1.7145576e12},
        {"seen": True},
        {"seen": "2024-05-01T10:00:00Z"},
        {"day": "2024-05-01"},
        {"day": "2024-Q2", "local": "5/1/2024 13:04 PM"},
        {"day": "Feb 30 2024"},
        {"local": "05/01/2024 3:04 PM"},
    ]
    content = json_lines(
        *({"event_id": str(n), "event_time": "2024-05-01T10:00:00Z", **row} for n, row in enumerate(rows))
    )
    with opened(SEEN) as room:
        judged = room.judge(content, "a.jsonl")
        columns: dict[str, Any] = {
            "seen": pa.array([1714557600000.0, 0.0001, None], pa.float64()),
            "day": pa.array([20240501, None, 20240230], pa.int32()),
            "local": pa.array(["5/1/2024 3:04 PM", None, None], pa.string()),
        }
        numbers = room.judge(parquet(columns), "a.parquet")
        typed = {
            "seen": pa.array([1714557600000000000], pa.timestamp("ns", "UTC")),
            "day": pa.array([date(2024, 5, 1)], pa.date32()),
            "local": pa.array([LOCAL], pa.timestamp("ns")),
        }
        room.land(parquet(typed), "b.parquet")
        (landed,) = room.bronze([AT.date()])
        with pytest.raises(UnreadableFile, match="holds local as boolean; the contract says timestamp_ntz"):
            room.judge(parquet({"local": pa.array([True])}), "c.parquet")
    form, declare, iso = "is not written as", with_form, "yyyy-MM-dd'T'HH:mm:ssXXX"
    month_first = '"MM/dd/yyyy h:mm a" where its month does'
    either = f"{declare('local', 'dd/MM/yyyy h:mm a')} where its day comes first, or {month_first}"
    days = "'yyyyMMdd' or 'MMM d yyyy' or \"yyyy-'Q'q\""
    assert reasons(judged) == [
        None,
        None,
        None,
        f"seen {form} Epoch('ms'): 'true'",
        f"seen {form} Epoch('ms'){declare('seen', iso)}: '2024-05-01T10:00:00Z'",
        f"day {form} {days}{declare('day', 'yyyy-MM-dd')}: '2024-05-01'",
        "local is a time that does not exist as 'M/d/yyyy h:mm a': '5/1/2024 13:04 PM'",
        "day is a date that does not exist as 'MMM d yyyy': 'Feb 30 2024'",
        f"local {form} 'M/d/yyyy h:mm a'{either}: '05/01/2024 3:04 PM'",
    ]
    assert reasons(numbers) == [
        None,
        "seen does not fit timestamp as Epoch('ms'): '1.0E-4'",
        "day is a date that does not exist as 'yyyyMMdd': '20240230'",
    ]
    for row in (*judged[:2], numbers[0], landed):
        assert (row["seen"], row["day"], row["local"]) == (AT, date(2024, 5, 1), LOCAL)


@pytest.mark.long
def test_joined_columns_of_a_zone_are_instants_by_their_form(opened: Opened) -> None:
    source = replace(
        EVENTS,
        schema=T.StructType([*EVENTS.schema.fields[:2], T.StructField("until", T.TimestampType())]),
        json_columns=(),
        columns={"Id": "event_id", ("Date", "Time"): "event_time"},
        formats={"event_time": "MM/dd/yyyy hh:mm a", "until": ("d.M.yyyy H:mm", "d.M.yyyy H:mm 'UTC'")},
        timezone="Europe/Berlin",
        repeated_hour="second",
        bounds={"until": {"infinity": "9999-12-31T00:00:00Z"}},
    )
    lines = [
        "Id,Date,Time,until",
        "e1,05/01/2024,12:00 PM,infinity",
        "e2,10/27/2024,02:30 AM,27.10.2024 2:30",
        "e3,10/27/2024,02:30 AM,27.10.2024 2:30 UTC",
        "e4,03/31/2024,02:30 AM,",
        "e5,05/01/2024,,",
        "e6,05/01/2024,12:00,",
    ]
    with opened(source) as room:
        rows = room.judge("\n".join(lines).encode(), "a.csv")
    month_first = '"MM/dd/yyyy HH:mm" where its month does'
    either = f"{with_form('event_time', 'dd/MM/yyyy HH:mm')} where its day comes first, or {month_first}"
    assert reasons(rows) == [
        None,
        None,
        None,
        "event_time is a time that clocks in Europe/Berlin skip: '03/31/2024 02:30 AM'",
        "event_time is missing",
        f"event_time is not written as 'MM/dd/yyyy hh:mm a'{either}: '05/01/2024 12:00'",
    ]
    second = datetime(2024, 10, 27, 1, 30)  # noqa: DTZ001
    assert [(row["event_time"], row["until"]) for row in rows[:3]] == [
        (AT, datetime(9999, 12, 31)),  # noqa: DTZ001
        (second, second),
        (second, datetime(2024, 10, 27, 2, 30)),  # noqa: DTZ001
    ]


def test_what_has_no_form_is_rejected_with_what_to_declare(opened: Opened) -> None:
    times = ["1714557600", "1714557600000", "2024-05-01", "2024-05-01T10:00:00", "1/22/2020 17:00", "soon"]
    with opened(EVENTS) as room:
        rows = room.judge(json_lines(*({"event_id": text, "event_time": text} for text in times)), "a.jsonl")
        with pytest.raises(UnreadableFile, match=r"holds event_time as bigint; .* declare formats="):
            room.judge(parquet({"event_time": pa.array([1714557600000])}), "a.parquet")
    demand = "event_time is not a timestamp like 2026-01-01T09:00:00Z"
    declare = 'declare formats={"event_time": Epoch('
    assert reasons(rows) == [
        f"{demand}; if it counts from 1970, {declare}\"s\")}}: '1714557600'",
        f"{demand}; if it counts from 1970, {declare}\"ms\")}}: '1714557600000'",
        f"{demand}; a date has no time of day: make the column a DATE: '2024-05-01'",
        f"{demand}; it has no offset: declare its timezone: '2024-05-01T10:00:00'",
        f"{demand}{with_form('event_time', 'M/d/yyyy HH:mm')}, and its timezone: '1/22/2020 17:00'",
        f"{demand}: 'soon'",
    ]

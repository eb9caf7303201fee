"""Forms of dates and times: what a pattern names, and the mistakes that are refused when a table is declared."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import datetime
from itertools import combinations
from typing import Any

import pytest
from pyspark.sql.types import DateType, StringType, StructField, StructType, TimestampNTZType, TimestampType

from backfill_assets.calendar.patterns import NoPattern, patterns_of
from backfill_assets.core.errors import InvalidDeclaration
from backfill_assets.domain import Epoch, SourceTable, daily
from backfill_assets.domain.source_files import Form, read_differently, readers_of
from backfill_assets_tests.support.written_times import DATES, INSTANTS, LOCAL, a_time, expected

AT = datetime(2020, 1, 22, 17, 5, 6, 123456)  # noqa: DTZ001
EVENTS = SourceTable(
    name="bronze.events",
    key=("id",),
    event_time="at",
    partition=daily("event_date"),
    schema=StructType(
        [
            StructField("id", StringType()),
            StructField("at", TimestampType()),
            StructField("day", DateType()),
            StructField("local", TimestampNTZType()),
        ]
    ),
)


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("M/d/yyyy HH:mm", "1/22/2020 17:05"),
        ("yyyy-MM-dd HH:mm:ss 'UTC'", "2020-01-22 17:05:06 UTC"),
        ("EEE, dd MMM yyyy HH:mm:ss z", "Wed, 22 Jan 2020 17:05:06 UTC"),
        ("YYYY-'W'ww-e", "2020-W04-3"),
        ("yyyyDDD", "2020022"),
        ("yyyy-'Q'q", "2020-Q1"),
        ("Hmm d/M yyyy", "1705 22/1 2020"),
        ("yyyy-MM-dd HH 'o''clock'", "2020-01-22 17 o'clock"),
        ("uuuu-LL-dd'T'HH:mm:ss.SSSSSSSSSZ", "2020-01-22T17:05:06.123456000+0000"),
    ],
)
def test_a_pattern_reads_what_it_writes(form: str, text: str) -> None:
    (pattern,) = patterns_of(form)
    assert pattern.write(AT) == text
    found = pattern.read(text)
    assert found is not None
    assert pattern.write(found[0]) == text


@pytest.mark.parametrize("form", [*DATES, *LOCAL, *INSTANTS])
def test_a_pattern_means_what_the_format_of_python_means_that_a_person_made_of_it(form: str) -> None:
    (pattern,) = patterns_of(form)
    chance = random.Random(form)
    for _ in range(300):
        at = a_time(chance)
        text = pattern.write(at)
        found = pattern.read(text)
        if found is not None and not ("yy" in form and "yyyy" not in form and not 2000 <= at.year < 2100):
            assert expected(form, text) == found[0], text


def test_what_is_in_brackets_can_be_missing() -> None:
    forms = patterns_of("yyyy-MM-dd'T'HH:mm[:ss[.SSS]][XXX]")
    assert [each.write(AT) for each in forms] == [
        "2020-01-22T17:05:06.123Z",
        "2020-01-22T17:05:06.123",
        "2020-01-22T17:05:06Z",
        "2020-01-22T17:05:06",
        "2020-01-22T17:05Z",
        "2020-01-22T17:05",
    ]


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ("%Y-%m-%d", "it is one of Python's: letters stand for parts, as in yyyy-MM-dd HH:mm:ss"),
        ("dd/mm/yyyy", "its day is of no month (MM is the month, mm are minutes)"),
        ("YYYY-MM-dd", "YYYY is the year of an ISO week: the year is yyyy"),
        ("DD/MM/yyyy", "DD names nothing of a date or a time: the day of the month is d or dd"),
        ("MM/dd", "its month is of no year (yyyy)"),
        ("HH:mm", "it has no year (yyyy)"),
        ("yyyy-dd", "its day is of no month"),
        ("yyyy-MM-dd hh:mm", "whether h is before noon is open: add a, or write H or HH"),
        ("yyyy-MM-dd HH:mm a", "AM or PM is of no hour of 12 (h or hh)"),
        ("yyyy-MM-dd HH:MM", "it has the month twice (MM is the month, mm are minutes)"),
        ("yyyy-MM-dd mm", "its minutes are of no hour"),
        ("yyyy-MM-dd HH:ss", "its seconds are of no minute"),
        ("yyyy-MM-ddTHH:mm", "T names nothing of a date or a time: text is written in quotes, as 'T'"),
        ("yyyy-MM-dd'T", "it has a quote that is never closed"),
        ("yyyy-MM-dd[", "it has a bracket without the other"),
        ("yyyyMd", "two of its numbers of any width have nothing between them: write both digits, as in MMdd"),
        ("yyyy-MM-dd HH:mm+01:00", "it has an offset as a text: write XXX, xx or X where the offset is"),
        ("yyyy-MM-dd HH:mm VV", "VV names nothing of a date or a time: an offset is XXX or xx"),
        ("yyyy-MM EEE", "its name of a day is of no day"),
        ("yyyy-MM-DDD", "it names the same part in two ways"),
        ("G yyyy", "G names nothing of a date or a time"),
        ("", "it has no year"),
    ],
)
def test_a_pattern_that_leaves_something_open_is_none(form: str, why: str) -> None:
    with pytest.raises(NoPattern) as said:
        patterns_of(form)
    assert why in str(said.value)


def test_forms_that_read_one_text_as_two_times_are_found_by_what_they_write() -> None:
    same = {("M/d/yyyy", "MM/dd/yyyy"), ("MMM d yyyy", "MMMM d yyyy"), ("yyyy-MM-dd HH", "yyyy-MM-dd hh a")}
    different = {
        ("M/d/yyyy", "d/M/yyyy"),
        ("M/d/yyyy", "dd/MM/yyyy"),
        ("MM/dd/yy", "yy/MM/dd"),
        ("yyyyMMdd", "ddMMyyyy"),
        ("yyyyDDD", "YYYYwwe"),
        ("yyyy-M", "yyyy-q"),
        ("yyyy-MM-dd HH:mm", "yyyy-dd-MM HH:mm"),
        ("d.M.yyyy H:mm", "d.M.yyyy m:HH"),
    }
    for pairs, is_same in ((same, True), (different, False)):
        for one, other in pairs:
            text = read_differently(*readers_of((one, other)))
            assert (text == "") == is_same, (one, other, text)
    counted: list[tuple[Form, Form]] = [("yyyy", Epoch("s")), (Epoch("s"), Epoch("ms")), (Epoch("d"), "yyyyMMdd")]
    for forms in counted:
        assert read_differently(*readers_of(forms))


@pytest.mark.long
def test_no_pair_that_is_taken_reads_a_text_of_the_other_as_another_time() -> None:
    """Of all forms of the tests, with texts of days and times that the check does not try."""
    chance = random.Random(59)
    for one, other in combinations([*DATES, *LOCAL, *INSTANTS], 2):
        (reads, writes) = (patterns_of(each)[0] for each in (one, other))
        if read_differently(reads, writes):
            continue
        for _ in range(60):
            text = writes.write(a_time(chance))
            assert reads.read(text) in (None, writes.read(text)), (one, other, text)


@pytest.mark.parametrize(
    ("formats", "why"),
    [
        ({"at": "M/d/yyyy HH:mm"}, "formats has 'M/d/yyyy HH:mm' for 'at', and it has no offset: declare the timezone"),
        ({"at": "yyyy-MM-dd"}, "formats has 'yyyy-MM-dd' for 'at', and it has no time of day: make the column a DATE"),
        ({"local": "yyyy-MM-dd HH:mmXXX"}, "and it has an offset: make the column a TIMESTAMP"),
        ({"local": Epoch("ms")}, "formats has Epoch('ms') for 'local', and an epoch is an instant"),
        ({"at": Epoch("d")}, "formats has Epoch('d') for 'at', and days have no time of day: make the column a DATE"),
        (
            {"day": ("M/d/yyyy", "d/M/yyyy")},
            "formats has 'M/d/yyyy' and 'd/M/yyyy' for 'day', of which each reads '1/2/2001'",
        ),
        ({"day": ("yyyyMMdd", Epoch("d"))}, "of which each reads '20010101' as another time"),
        ({"day": "dd/mm/yyyy"}, "formats has 'dd/mm/yyyy' for 'day', and its day is of no month"),
        ({"dey": "yyyy"}, "formats has 'dey', which is not a column of its schema; did you mean 'day'?"),
        ({"id": "yyyy"}, "formats has 'id', which is neither a date nor a timestamp"),
        ({"day": 5}, "formats must be forms by column"),
        ({"day": ()}, "formats must be forms by column"),
    ],
)
def test_a_form_that_its_column_cannot_have_is_refused_when_it_is_declared(formats: Any, why: str) -> None:
    with pytest.raises(InvalidDeclaration) as said:
        replace(EVENTS, formats=formats)
    assert why in said.value.message


def test_forms_that_fit_are_taken() -> None:
    zoned: dict[str, Form | tuple[Form, ...]] = {
        "at": ("M/d/yyyy HH:mm", "yyyy-MM-dd'T'HH:mm[:ss]XXX"),
        "day": ("yyyy", "yyyy-MM"),
        "local": "yyyyMMddHHmm",
    }
    assert replace(EVENTS, formats=zoned, timezone="Europe/Paris").formats == zoned
    assert replace(EVENTS, formats={"at": Epoch("ms"), "day": Epoch("d")}).formats["at"] == Epoch("ms")

"""In which form texts are times."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.sniff.texts import read_as, time_form

AT = datetime(2020, 1, 9, 7, 5, 3)  # noqa: DTZ001 - files have times without a zone
HOURS = [AT + timedelta(hours=17 * number) for number in range(60)]


def unpadded(text: str) -> str:
    return text.replace("/0", "/").removeprefix("0").replace(" 0", " ")


@pytest.mark.parametrize(
    ("written", "pattern"),
    [
        ("%m/%d/%Y %I:%M:%S %p", "MM/dd/yyyy hh:mm:ss a"),
        ("%d.%m.%Y %H:%M", "dd.MM.yyyy HH:mm"),
        ("%Y/%m/%d %H:%M:%S", "yyyy/MM/dd HH:mm:ss"),
        ("%d-%b-%Y", "dd-MMM-yyyy"),
        ("%B %d, %Y", "MMMM dd, yyyy"),
        ("%Y%m%d%H%M%S", "yyyyMMddHHmmss"),
        ("%a, %d %b %Y %H:%M:%S GMT", "EEE, dd MMM yyyy HH:mm:ss 'GMT'"),
        ("%Y-%m-%d %H:%M:%S UTC", "yyyy-MM-dd HH:mm:ss 'UTC'"),
        ("%d/%b/%Y:%H:%M:%S +0000", "dd/MMM/yyyy:HH:mm:ss xx"),
    ],
)
def test_a_form_is_found_and_gives_the_times(written: str, pattern: str) -> None:
    texts = [at.strftime(written) for at in HOURS]
    found = time_form(texts, numbers=True)
    assert found is not None
    assert (found.patterns, found.fitting) == ((pattern,), len(texts))
    parts = {"%H": 3600, "%I": 3600, "%M": 60, "%S": 1}
    if all(part in written for part in ("%M", "%S")) and ("%H" in written or "%I" in written):
        assert [found.read(text) for text in texts] == HOURS, parts


@pytest.mark.parametrize(
    "text", ["2026-01-31", "2026-01-31T10:00:00Z", "2026-01-31 10:00", "2026-01-31T10:00:00.123+01:00"]
)
def test_forms_that_need_no_declaration_have_none(text: str) -> None:
    found = time_form([text] * 3)
    assert found is not None
    assert found.patterns == ()
    assert found.is_date == (len(text) == 10)
    assert found.is_local == (text == "2026-01-31 10:00")


@given(st.datetimes(datetime(1970, 1, 1), datetime(2069, 12, 31)))  # noqa: DTZ001
def test_a_form_fits_what_it_would_write_alone(at: datetime) -> None:
    padded = f"{at:%m/%d/%Y}"
    assert read_as(padded, "MM/dd/yyyy") == datetime(at.year, at.month, at.day)  # noqa: DTZ001
    assert (read_as(padded, "M/d/yyyy") is None) == (padded[0] == "0" or padded[3] == "0")
    assert read_as(f"{at.month}/{at.day}/{at.year}", "M/d/yyyy") is not None


def test_days_and_months_that_cannot_be_told_apart_are_told() -> None:
    found = time_form(["01/02/2020", "03/04/2020", "05/06/2020"])
    assert found is not None
    assert (found.patterns, found.others) == (("MM/dd/yyyy",), ("dd/MM/yyyy",))


def test_a_year_of_two_digits_is_last_where_nothing_tells() -> None:
    found = time_form(["17/04/23 23:00:00"] * 3)
    assert found is not None
    assert (found.patterns, found.others[0]) == (("dd/MM/yy HH:mm:ss",), "yy/MM/dd HH:mm:ss")


def test_the_order_of_a_file_tells_days_from_months() -> None:
    found = time_form([f"{day:02}/03/2020" for day in range(1, 13)])
    assert found is not None
    assert found.patterns == ("dd/MM/yyyy",)


def test_two_forms_in_one_column_are_both_found() -> None:
    texts = [unpadded(f"{at:%m/%d/%Y %H:%M}") for at in HOURS] + [f"{at:%Y-%m-%dT%H:%M:%S}" for at in HOURS]
    found = time_form(texts)
    assert found is not None
    assert found.fitting == len(texts)
    assert len(found.patterns) == 2


@pytest.mark.parametrize("texts", [["12:30", "13:45"], ["1.2.3", "1.2.4"], ["555-01-99"], ["31/31/2020"], ["abc"], []])
def test_what_is_no_time_has_no_form(texts: list[str]) -> None:
    assert time_form(texts) is None

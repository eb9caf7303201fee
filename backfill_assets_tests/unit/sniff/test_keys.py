"""Which columns are proposed as a key."""

from __future__ import annotations

from datetime import date, timedelta
from itertools import product
from random import Random

import pytest

from backfill_assets.sniff.columns import Column, is_id, keys_of

DAYS = [(date(2023, 1, 1) + timedelta(days=number)).isoformat() for number in range(20)]


def columns(**values: list[str]) -> list[Column]:
    kinds = {"day": "DATE"}
    return [Column(name=name, kind=kinds.get(name, _kind(each)), values=each) for name, each in values.items()]


def _kind(values: list[str]) -> str:
    return "LONG" if all(value.isdigit() for value in values) else "STRING"


def test_measures_that_happen_to_tell_records_apart_are_no_key() -> None:
    draw = Random(7)
    for _ in range(50):
        measures = {name: [str(draw.randrange(4)) for _ in range(40)] for name in "abcd"}
        assert keys_of(columns(day=DAYS * 2, **measures), "day", is_series=True) == []


def test_a_panel_is_known_by_its_identifier_and_its_time_and_not_by_a_part_of_the_date() -> None:
    rows = list(product(("NA", "KE"), DAYS))
    days = [day for _, day in rows]
    parts = {"month": [day[5:7] for day in days], "day_of_month": [day[8:] for day in days]}
    among = columns(day=days, **parts, geo_id=[land for land, _ in rows], cases=["1"] * 40)
    found = keys_of(among, "day", is_series=True)
    assert found[0] == ("geo_id", "day")


def test_what_a_file_of_one_station_has_in_common_is_a_part_of_the_key() -> None:
    found = keys_of(columns(station=["44"] * 20, day=DAYS, tz_cd=["EST"] * 20), "day", is_series=True)
    assert found == [("station", "day")]


def test_a_code_in_the_first_column_is_a_key_and_a_name_is_none() -> None:
    codes, names = [f"tt{number:07}" for number in range(20)], [chr(65 + number) * 5 for number in range(20)]
    assert keys_of(columns(first=codes, day=DAYS[:1] * 20), "day", is_series=False) == [("first",)]
    assert keys_of(columns(first=names, day=DAYS[:1] * 20), "day", is_series=False) == []


def test_a_single_record_is_known_by_its_identifier() -> None:
    assert keys_of(columns(day=DAYS[:1], order_id=["7"], x=["1"]), "day", is_series=False) == [("order_id",)]


@pytest.mark.parametrize("name", ["eventID", "OBJECTID", "_id", "id_oid", "station", "site_no", "Site Num", "userId"])
def test_names_of_identifiers(name: str) -> None:
    assert is_id(name)


@pytest.mark.parametrize("name", ["paid", "grid", "zip_code", "amount", "fax_no", "valid"])
def test_names_of_others(name: str) -> None:
    assert not is_id(name)

"""Values that a test gives and expects are typed by their column and compared as values."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from pyspark.sql.types import DateType, DecimalType, StringType, StructField, StructType, TimestampType

from backfill_assets.testing.values import columns_given, differing, typed_rows
from backfill_assets_tests.support.declared import feed, source

SCHEMA = StructType(
    [
        StructField("id", StringType(), nullable=False),
        StructField("at", TimestampType()),
        StructField("day", DateType(), nullable=False),
        StructField("price", DecimalType(9, 2)),
    ]
)
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def test_texts_are_typed_instants_are_in_utc_and_the_partition_is_the_day_of_the_event() -> None:
    given: list[dict[str, object]] = [
        {"id": "a", "at": "2026-01-02T01:30:00+02:00", "price": "1.5"},
        {"id": "b", "at": NOON.replace(tzinfo=None), "day": "2026-01-09"},
        {"id": "c", "at": datetime(2026, 1, 2, 13, tzinfo=timezone(timedelta(hours=1))), "price": 2},
    ]
    assert list(typed_rows(given, SCHEMA, event="at", partition="day")) == [
        ("a", datetime(2026, 1, 1, 23, 30, tzinfo=UTC), date(2026, 1, 1), Decimal("1.5")),
        ("b", NOON, date(2026, 1, 9), None),
        ("c", NOON, date(2026, 1, 2), Decimal(2)),
    ]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"id": "a", "day": "2026-01-01", "prise": 1}, "has the column prise, which the table has not"),
        ({"day": "2026-01-01"}, "has no value for id, which cannot be null"),
        ({"id": "a"}, "has no value for day, which cannot be null"),
    ],
)
def test_a_row_that_its_table_cannot_have_is_named(row: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        list(typed_rows([row], SCHEMA, event="at", partition="day"))


def test_rows_are_compared_as_values_by_the_named_columns_and_counted() -> None:
    found = [
        {"id": "a", "at": NOON, "day": date(2026, 1, 2), "price": Decimal("1.50")},
        {"id": "a", "at": NOON, "day": date(2026, 1, 2), "price": Decimal("1.50")},
    ]
    once = {"id": "a", "at": "2026-01-02T13:00:00+01:00", "price": "1.5"}
    assert differing(found, [once, once], SCHEMA) == ([], [])
    assert differing(found, [once], SCHEMA) == ([], ["id='a', at=2026-01-02T12:00:00+00:00, price=1.5"])
    assert differing(found, [], SCHEMA)[1] == ["id='a', at=2026-01-02T12:00:00+00:00, day=2026-01-02, price=1.5"] * 2
    with pytest.raises(ValueError, match="prise is expected, which the table has not"):
        differing(found, [{"prise": 1}], SCHEMA)


def test_a_function_is_given_the_changelog_of_a_source_only_where_it_asks_for_it() -> None:
    assert columns_given(source()).fieldNames() == ["event_id", "at", "event_date"]
    current, changes = columns_given(feed()), columns_given(feed(), changes=True)
    assert current.fieldNames()[-1] == "event_date"
    assert set(current.fieldNames()) < set(changes.fieldNames())

"""A running total that falls is named, within a run and against the accepted partitions at its ends."""

from __future__ import annotations

from datetime import date

import pytest
from pyspark.sql import SparkSession

from backfill_assets.calendar.partitions import DayRange, Grain
from backfill_assets.domain import GateContext, monotonic
from backfill_assets_tests.domains.judged import DEFECTS, SECOND, failing_of
from backfill_assets_tests.integration.gates.conftest import Opens

OF_A_CUSTOMER = monotonic("number", over="day", by="customer_id")
DAY = "2026-01-03"


@pytest.mark.parametrize("defect", [None, *DEFECTS])
def test_a_value_that_falls_within_a_run_is_named_and_nothing_else_is(opens: Opens, defect: str | None) -> None:
    found = [("monotonic_number", DAY, SECOND, "at least 2", "0")]
    assert failing_of(opens(OF_A_CUSTOMER), version=defect) == (found if defect == "back" else [])


def test_rows_of_a_day_are_in_the_order_of_a_column(opens: Opens) -> None:
    gate = monotonic("number", over="order_id", by=("country",))
    assert failing_of(opens(gate), version="back") == [("monotonic_number", DAY, SECOND, "at least 3", "0")]


@pytest.mark.long
def test_a_value_below_the_accepted_one_before_the_run_or_above_the_one_after_it_is_named(opens: Opens) -> None:
    kit = opens(OF_A_CUSTOMER)
    kit.published("order_totals", "2026-01-02")
    assert failing_of(kit, version="back", days=DAY) == [("monotonic_number", DAY, SECOND, "at least 2", "0")]
    opens().published("order_totals", DAY, version="back")
    found = [("monotonic_number", "2026-01-02", {"day": "2026-01-02", "order_id": "o-2-2"}, "at most 0", "2")]
    assert failing_of(opens(OF_A_CUSTOMER), days="2026-01-02") == found


def test_partitions_around_that_are_not_accepted_are_passed_over(opens: Opens) -> None:
    assert failing_of(opens(OF_A_CUSTOMER), version="back", days=DAY) == []


def test_rows_that_share_a_key_have_an_order_of_their_own(spark: SparkSession) -> None:
    """Such a candidate is blocked by another gate; what this one says of it is the same on every run."""
    ctx = GateContext(
        output=DayRange.inclusive(date(2026, 1, 1), date(2026, 1, 2)),
        output_partitions=(date(2026, 1, 1), date(2026, 1, 2)),
        grain=Grain.DAILY,
        partition="day",
        partition_columns={"candidate": "day"},
        key=("day", "meter"),
        references={},
        spark=spark,
    )
    read = [("2026-01-01", 5), ("2026-01-01", 1), ("2026-01-02", 3), ("2026-01-02", 9)]
    said = []
    for order in (read, read[::-1]):
        values = ", ".join(f"(DATE'{day}', 'm', {value})" for day, value in order)
        rows = spark.sql(f"SELECT * FROM VALUES {values} AS t(day, meter, value)").coalesce(1)
        gate = monotonic("value")
        assert gate.rows is not None
        found = gate.rows(ctx=ctx, candidate=rows, around=rows.limit(0)).collect()
        said.append([(str(row.day), row.expected, row.found) for row in found])
    assert said == [[("2026-01-02", "at least 5", 3)]] * 2

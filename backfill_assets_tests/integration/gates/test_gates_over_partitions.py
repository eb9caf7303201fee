"""A running total that falls is named, within a run and against the accepted partitions at its ends."""

from __future__ import annotations

import pytest

from backfill_assets.domain import monotonic
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


def test_a_value_below_the_accepted_one_before_the_run_or_above_the_one_after_it_is_named(opens: Opens) -> None:
    kit = opens(OF_A_CUSTOMER)
    kit.published("order_totals", "2026-01-02")
    assert failing_of(kit, version="back", days=DAY) == [("monotonic_number", DAY, SECOND, "at least 2", "0")]
    opens().published("order_totals", DAY, version="back")
    found = [("monotonic_number", "2026-01-02", {"day": "2026-01-02", "order_id": "o-2-2"}, "at most 0", "2")]
    assert failing_of(opens(OF_A_CUSTOMER), days="2026-01-02") == found


def test_partitions_around_that_are_not_accepted_are_passed_over(opens: Opens) -> None:
    assert failing_of(opens(OF_A_CUSTOMER), version="back", days=DAY) == []
